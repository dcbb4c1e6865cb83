"""A link to a Jupyter server's AHP socket."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.netutil import Resolver
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketError, websocket_connect

from .client import HostMissing, HostRefused, Link

__all__ = ["WebSocketConnector"]

CONNECT_S = 10.0
PING_S = 30.0
"""Below the 60 s after which proxies cut what they take for idle."""


class _UnixResolver(Resolver):
    """Leads every name to one Unix socket."""

    def initialize(self, path: str) -> None:
        self._path = path

    async def resolve(self, host: str, port: int, family: Any = socket.AF_UNSPEC) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, self._path)]


class WebSocketConnector:
    """The way to one server. Loop thread only, but for its attributes.

    Args:
        url: ``ws:`` or ``wss:`` address of the AHP socket.
        headers: what lets us in.
        socket_path: a Unix socket to connect to instead of the address's host.
    """

    def __init__(self, url: str, *, headers: dict[str, str] | None = None, socket_path: str | None = None) -> None:
        self._url = url
        self._headers = headers or {}
        self._socket_path = socket_path
        parts = urlsplit(url)
        self.description = f"the Jupyter server at {socket_path or parts.netloc}"
        self.is_local = socket_path is not None or parts.hostname in ("127.0.0.1", "::1", "localhost")

    async def connect(self) -> Link:
        """A new link.

        Raises:
            HostMissing: the server has no such socket.
            HostRefused: it does not let us in.
            OSError: it cannot be reached.
        """
        # A server on this machine serves itself under a name that is on no certificate, and nobody is in between.
        request = HTTPRequest(self._url, headers=self._headers, connect_timeout=CONNECT_S, validate_cert=not self.is_local)
        resolver = _UnixResolver(path=self._socket_path) if self._socket_path else None
        try:
            socket_ = await websocket_connect(request, ping_interval=PING_S, resolver=resolver)
        except HTTPClientError as error:
            if error.code == 404:
                raise HostMissing(f"{self.description} has no AHP socket: is jupyter-ahp installed and enabled there?") from None
            if error.code in (401, 403):
                raise HostRefused(f"{self.description} refused: {error.message or error.code}") from None
            if error.code == 599:  # tornado's own: no answer at all
                raise ConnectionError(f"{self.description} cannot be reached: {error.message}") from None
            raise ConnectionError(f"{self.description} answered {error.code} {error.message or ''}".rstrip()) from None
        except (StreamClosedError, WebSocketError, asyncio.TimeoutError) as error:
            raise ConnectionError(f"{self.description} cannot be reached: {type(error).__name__}") from None
        return _WebSocketLink(socket_)

    async def shutdown(self) -> None:
        """Nothing was started for this client alone."""


class _WebSocketLink:
    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        try:
            written = asyncio.ensure_future(self._connection.write_message(data, binary=False))
        except WebSocketClosedError:
            return  # `receive` tells of the end
        written.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def receive(self) -> str | bytes | None:
        return await self._connection.read_message()

    def close(self) -> None:
        self._connection.close()
