"""Which host to speak to, and the clients that this process shares.

An explicit address wins; then the Jupyter server that started this kernel; then the hub's variables and the server's own file;
then a host inside this process.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .client import Connector, HostClient, HostRefused
from .websocket import WebSocketConnector

__all__ = ["Server", "find_server", "kernel_name", "notebook_path", "shared_client", "take_kernel_server"]

TOKEN_HEADER = "X-Jupyter-AHP-Token"
UNKNOWN_NOTEBOOK = "notebook"


@dataclass(frozen=True)
class Server:
    """A Jupyter server's AHP socket.

    Args:
        url: ``ws:`` or ``wss:`` address.
        headers: what lets us in.
        socket_path: a Unix socket to connect to instead of the address's host.
        is_certain: whether it was named as the one to use; else it was only found, and may lack the extension.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    socket_path: str | None = None
    is_certain: bool = True

    def __repr__(self) -> str:
        return f"Server({self.url!r})"  # without what lets us in


def _server(base: str, route: str, headers: Mapping[str, str], *, is_certain: bool = True) -> Server:
    """The socket at ``route`` below a Jupyter server's base URL (http, https, ws, wss or http+unix)."""
    parts = urlsplit(base)
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in ("http", "https", "ws", "wss") or kind not in ("", "unix") or not parts.netloc:
        raise ValueError(f"not the URL of a Jupyter server: {base!r}")
    path = parts.path if parts.path.endswith("/ahp") else parts.path.rstrip("/") + "/" + route
    token = parse_qs(parts.query).get("token")
    headers = {"Authorization": f"token {token[0]}"} if token else headers
    secure = "s" if scheme in ("https", "wss") else ""
    return Server(
        url=f"ws{secure}://{'localhost' if kind else parts.netloc.rpartition('@')[2]}{path}",
        headers=tuple(headers.items()),
        socket_path=unquote(parts.netloc) if kind else None,
        is_certain=is_certain,
    )


_kernel_server: Server | None = None


def take_kernel_server() -> Server | None:
    """The server that started this kernel, as our environment says, from where it is taken out. Any thread."""
    global _kernel_server
    env = os.environ
    token = env.pop("JUPYTER_AHP_KERNEL_TOKEN", None)
    url, kernel_id = env.get("JUPYTER_AHP_KERNEL_URL"), env.get("JUPYTER_AHP_KERNEL_ID")
    if token and url and kernel_id:
        env.pop("JUPYTER_AHP_KERNEL_URL")
        env.pop("JUPYTER_AHP_KERNEL_ID")
        _kernel_server = _server(url, f"ahp/kernel/{kernel_id}", {TOKEN_HEADER: token})
    return _kernel_server


def _server_info() -> dict[str, Any] | None:
    """What the Jupyter server that is our parent has written about itself."""
    pid = os.environ.get("JPY_PARENT_PID")
    if not pid or not pid.isdigit():
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    try:
        info = json.loads((Path(jupyter_runtime_dir()) / f"jpserver-{pid}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def find_server(host: str = "auto") -> Server | None:
    """The server that ``host`` stands for; None for a host inside this process. Any thread.

    Args:
        host: ``"auto"``, ``"server"``, ``"embedded"`` or a URL.

    Raises:
        ConnectionError: ``"server"``, and there is none.
        ValueError: no URL.
    """
    kernel_server = take_kernel_server()
    if host == "embedded":
        return None
    env = os.environ
    explicit, token = env.get("JUPYTER_AHP_URL"), env.get("JUPYTER_AHP_TOKEN")
    if host not in ("auto", "server"):
        # The token is for the address that it came with, and for no other one.
        own = token and (not explicit or urlsplit(explicit).netloc == urlsplit(host).netloc)
        return _server(host, "ahp", {"Authorization": f"token {token}"} if own else {})
    if explicit:
        return _server(explicit, "ahp", {"Authorization": f"token {token}"} if token else {})
    if kernel_server is not None:
        return kernel_server
    hub_url, hub_token = env.get("JUPYTERHUB_SERVICE_URL"), env.get("JUPYTERHUB_API_TOKEN")
    if hub_url and hub_token:
        return _server(hub_url, "ahp", {"Authorization": f"token {hub_token}"}, is_certain=False)
    info = _server_info()
    if info is not None and isinstance(info.get("url"), str):
        token = info.get("token")
        return _server(info["url"], "ahp", {"Authorization": f"token {token}"} if token else {}, is_certain=False)
    if host == "server":
        raise ConnectionError("no Jupyter server found: set JUPYTER_AHP_URL and JUPYTER_AHP_TOKEN, or give host= its URL")
    return None


# --- the clients of this process ------------------------------------------------------------------------------------------

_clients: dict[Server | None, HostClient] = {}
_lock = threading.Lock()


def shared_client(host: str = "auto") -> HostClient:
    """The client of the host that ``host`` stands for; everything in this process that names the same host shares it.

    Blocks until it is connected. Any thread.

    Raises:
        ConnectionError: there is no way to that host.
        ValueError: no URL.
    """
    with _lock:
        server = find_server(host)
        client = _live_client(server)
        if client is None and server is not None and host == "auto" and not server.is_certain:
            try:
                client = _new_client(server)
            except HostRefused:
                raise
            except OSError:  # it was only found: it lacks the extension, or has gone
                server = None
                client = _live_client(None)
        return client or _new_client(server)


def _live_client(server: Server | None) -> HostClient | None:
    client = _clients.get(server)
    return client if client is not None and client.is_usable else None


def _new_client(server: Server | None) -> HostClient:
    title = notebook_path() or _program()
    connector: Connector
    if server is None:
        from .embedded import EmbeddedConnector

        connector = EmbeddedConnector(title=title)
    else:
        connector = WebSocketConnector(server.url, headers=dict(server.headers), socket_path=server.socket_path)
    client = HostClient(connector, title=title)
    client.start()
    _clients[server] = client
    return client


def _program() -> str:
    """What runs here, for people."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name.startswith("ipykernel"):
        return "a notebook"
    return name if name and not name.startswith("-") else "Python"


def _close_clients() -> None:
    for client in list(_clients.values()):
        client.close()
    _clients.clear()


def _after_fork() -> None:
    """A child has none of the threads: it begins anew."""
    global _lock
    _lock = threading.Lock()
    _clients.clear()


atexit.register(_close_clients)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- the notebook ----------------------------------------------------------------------------------------------------------


def notebook_path() -> str | None:
    """The notebook of this kernel, below the server's root; its name alone where the root is not known. Any thread."""
    session = os.environ.get("JPY_SESSION_NAME")
    if not session:
        return None
    if not os.path.isabs(session):
        return session
    root = (_server_info() or {}).get("root_dir")
    if isinstance(root, str):
        relative = os.path.relpath(os.path.realpath(session), os.path.realpath(root))
        if not relative.startswith(".."):
            return relative
    return os.path.basename(session)


def kernel_name() -> str:
    """The name of the terminal that a notebook's cells share: its path without the suffix. Any thread."""
    path = notebook_path()
    return os.path.splitext(path)[0] if path else UNKNOWN_NOTEBOOK
