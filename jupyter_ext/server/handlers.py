"""The WebSocket routes: Jupyter's authentication, one `HostConnection` per socket, one ordered writer, back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated, authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ..core.connection import HostConnection
from ..core.host_state import Role
from ..host.terminals import TerminalHost

__all__ = ["KERNEL_TOKEN_HEADER", "AhpKernelHandler", "AhpWebSocketHandler"]

KERNEL_TOKEN_HEADER = "X-Jupyter-AHP-Token"
"""Not ``Authorization``: a hub would look an unknown token up."""

SEND_BYTES = 128 << 10
"""How much is given to the socket at a time; the rest waits in the connection's queue, where it is joined and counted."""
BURST_BYTES = 2 << 10
"""Output up to this in one interval goes out at once: the echo of a key is never held back."""


class _AhpSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One AHP conversation over a WebSocket."""

    role: Role
    title: str

    def initialize(self, host: TerminalHost, users: str) -> None:
        self.host = host
        self.users = users
        self.connection: HostConnection | None = None

    def user_name(self) -> str | None:
        """The authenticated user; None where all are one."""
        raise NotImplementedError

    def open(self, *args: str, **kwargs: str) -> None:
        """Begin the conversation."""
        super().open()
        self.set_nodelay(True)
        self._wake = asyncio.Event()
        self._flight: Awaitable[Any] | None = None
        self._is_idle = True
        self._window_end, self._window_bytes = 0.0, 0
        self.connection = self.host.connect(user=self.user_name(), role=self.role, title=self.title, wakeup=self._wakeup)
        self._writer = asyncio.get_running_loop().create_task(self._write(self.connection))

    def on_message(self, message: str | bytes) -> None:
        """Take one message; text is expected, UTF-8 bytes are tolerated."""
        if self.connection is not None:
            self.host.receive(self.connection, message)

    def on_close(self) -> None:
        """End the conversation; what it created lives on."""
        if self.connection is not None:
            self.host.disconnect(self.connection)
            self._writer.cancel()
        super().on_close()

    def _wakeup(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if connection.close_code == 1013:
            # The writer may wait for a peer that does not read, so the close does not go through it.
            self.close(1013, "fell behind; reconnect")
        elif self._is_idle and self._may_send(connection):
            self._is_idle = False
            self._flight = self._send(connection)  # at once: an echo waits for no other turn of the loop
        self._wake.set()

    def _may_send(self, connection: HostConnection) -> bool:
        """Whether what is queued goes out now: output that comes in a stream is held to be joined with more."""
        now = asyncio.get_running_loop().time()
        if now >= self._window_end:
            self._window_end, self._window_bytes = now + connection.latency_ms / 1000, 0
        return self._window_bytes <= BURST_BYTES or not connection.hold_ms

    def _send(self, connection: HostConnection) -> Awaitable[Any] | None:
        """Give frames to the socket; done when it has taken them."""
        frames = connection.data_to_send(SEND_BYTES)
        self._window_bytes += sum(map(len, frames))
        try:
            sent = [self.write_message(frame, binary=False) for frame in frames]
        except WebSocketClosedError:
            return None  # on_close follows
        return asyncio.gather(*sent, return_exceptions=True) if sent else None

    async def _write(self, connection: HostConnection) -> None:
        """The one writer: sends what is queued, in order, as the peer takes it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_idle = False
            flight, self._flight = self._flight, None
            while flight is not None or connection.pending_bytes:
                if flight is not None:
                    await flight
                if not self._may_send(connection):
                    await asyncio.sleep(self._window_end - asyncio.get_running_loop().time())
                flight = self._send(connection)
                if flight is None and self.ws_connection is None:
                    return
            self._is_idle = True
            if connection.close_code is not None:
                self.close(connection.close_code)

    def get_compression_options(self) -> dict[str, Any] | None:
        """None: terminals are latency-bound, and the peer is mostly on this machine."""
        return None


class AhpWebSocketHandler(_AhpSocket):
    """``<base_url>ahp``: any AHP client that Jupyter lets in."""

    auth_resource = "terminals"
    role: Role = "person"
    title = "a client"

    @ws_authenticated
    @authorized(action="execute", resource="terminals")  # type: ignore[untyped-decorator]  # as Jupyter Server has it
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]  # what that decorator makes of it
        """Upgrade the connection."""
        await super().get(*args, **kwargs)

    def user_name(self) -> str | None:
        return str(self.current_user.username) if self.users == "identity" else None


class AhpKernelHandler(_AhpSocket):
    """``<base_url>ahp/kernel/<kernel_id>``: a kernel that this server started, with its own token; no browser."""

    role: Role = "kernel"
    title = "a notebook"

    def initialize(self, host: TerminalHost, users: str, tokens: Any = None) -> None:
        super().initialize(host, users)
        self.tokens = tokens

    @allow_unauthenticated  # by its own token instead
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Upgrade the connection."""
        (kernel_id,) = args
        if "Origin" in self.request.headers:
            raise web.HTTPError(403, "this route is not for browsers")
        token = self.request.headers.get(KERNEL_TOKEN_HEADER, "")
        if not self.tokens.check(kernel_id, token):
            raise web.HTTPError(403, "not a token of this kernel")
        await super().get(kernel_id)

    def user_name(self) -> str | None:
        return None  # a kernel's terminals are everybody's, as the kernel is
