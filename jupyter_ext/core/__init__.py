"""How it is understood: everything with meaning and no I/O.

Rule of the room: imports protocol and pure standard library only. Time (``now_ms``) and ids come in as arguments.
"""
