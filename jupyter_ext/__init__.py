"""Terminals for notebooks, as Agent Host Protocol channels: one state, watched from cells, panel and programs.

Entry points only; nothing heavy is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .client import CommandError, Terminal, terminals

__all__ = ["CommandError", "Terminal", "__version__", "load_ipython_extension", "terminals"]

_LAZY = ("CommandError", "Terminal", "terminals")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-ahp"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .server.app import AgentHostApp

    return [{"module": "jupyter_ext", "app": AgentHostApp}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Carry out ``%load_ext jupyter_ext``."""
    from .kernel.magics import load

    load(shell)
