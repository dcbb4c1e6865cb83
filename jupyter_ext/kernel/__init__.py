"""IPython: magics, widgets and what a cell keeps.

Rule of the room: imports client, core, protocol, IPython and ipywidgets; not server, not host.
"""
