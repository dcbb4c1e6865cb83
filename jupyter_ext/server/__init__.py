"""Jupyter Server: the extension app and its routes.

Rule of the room: imports host, core, protocol, jupyter_server and tornado; only here is an `HTTPError` raised.
"""
