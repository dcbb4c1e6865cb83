"""A host inside this process, for where no Jupyter server with the extension can be reached: batch runs, other editors, scripts.

The one module of this room that imports host.
"""

from __future__ import annotations

import asyncio

from ..core.connection import HostConnection
from ..host.terminals import TerminalHost
from .client import Link

__all__ = ["EmbeddedConnector"]


class EmbeddedConnector:
    """A `TerminalHost` on the client's own loop; it ends with the client. Loop thread only.

    Args:
        title: how people see the client.
    """

    description = "the terminal host in this process"
    is_local = True

    def __init__(self, *, title: str = "Python") -> None:
        self._title = title
        self._host: TerminalHost | None = None

    async def connect(self) -> Link:
        """A new link; the first one starts the host."""
        if self._host is None:
            self._host = TerminalHost()
        return _MemoryLink(self._host, self._title)

    async def shutdown(self) -> None:
        """End the host's terminals and what runs in them."""
        if self._host is not None:
            await self._host.shutdown()


class _MemoryLink:
    """The two ends of a conversation, handed over without a socket."""

    def __init__(self, host: TerminalHost, title: str) -> None:
        self._host = host
        self._awake = asyncio.Event()
        self._frames: list[bytes] = []
        self._is_closed = False
        self._connection: HostConnection = host.connect(user=None, role="kernel", title=title, wakeup=self._awake.set)

    def send(self, data: bytes) -> None:
        if not self._is_closed:
            self._host.receive(self._connection, data)

    async def receive(self) -> bytes | None:
        if not self._frames:
            # Once per turn of the loop, so that a flood from one terminal leaves room for the others.
            await asyncio.sleep(0)
        while not self._frames:
            self._frames = self._connection.data_to_send()[::-1]
            if not self._frames:
                if self._is_closed or self._connection.close_code is not None:
                    return None
                self._awake.clear()
                await self._awake.wait()
        return self._frames.pop()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._host.disconnect(self._connection)
            self._awake.set()
