"""Who asks: the Python client of a terminal host, shared by plain Python, the kernel and the command line.

Rule of the room: imports core, protocol, asyncio and tornado; not host (but for `embedded`), not IPython.
"""

from .handles import CommandError, CommandHandle, CommandResult
from .terminal import Terminal, TerminalEntry, terminals

__all__ = ["CommandError", "CommandHandle", "CommandResult", "Terminal", "TerminalEntry", "terminals"]
