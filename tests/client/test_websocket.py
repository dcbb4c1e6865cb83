"""The link to a real tornado server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from jupyter_ext.client.client import HostMissing, HostRefused
from jupyter_ext.client.websocket import WebSocketConnector

pytestmark = pytest.mark.asyncio


class Echo(WebSocketHandler):
    async def get(self, *args: Any, **kwargs: Any) -> None:
        if self.request.headers.get("Authorization") != "token t":
            self.set_status(403, "not with this token")
            self.finish()
            return
        await super().get(*args, **kwargs)

    def on_message(self, message: str | bytes) -> None:
        if message == "bye":
            self.close(1001)
        else:
            self.write_message(message)


class Broken(RequestHandler):
    def get(self) -> None:
        self.set_status(503, "starting")


@contextlib.asynccontextmanager
async def serving(sockets: list[Any]) -> AsyncIterator[None]:
    server = HTTPServer(Application([("/ahp", Echo), ("/broken", Broken)], log_function=lambda handler: None))
    server.add_sockets(sockets)
    try:
        yield
    finally:
        server.stop()
        await server.close_all_connections()


HEADERS = {"Authorization": "token t"}


@contextlib.asynccontextmanager
async def tcp() -> AsyncIterator[str]:
    sockets = bind_sockets(0, "127.0.0.1")
    async with serving(sockets):
        yield f"ws://127.0.0.1:{sockets[0].getsockname()[1]}"


async def test_messages_go_both_ways_whole_and_in_order_until_the_end():
    async with tcp() as url:
        connector = WebSocketConnector(f"{url}/ahp", headers=HEADERS)
        assert connector.is_local
        link = await connector.connect()
        texts = ["a" * 100_000, "é", "bye"]
        for text in texts:
            link.send(text.encode())
        assert [await link.receive() for _ in texts] == [*texts[:2], None]
        link.send(b"dropped")
        link.close()
        await connector.shutdown()


async def test_what_the_server_answers_instead_is_told_apart():
    async with tcp() as url:
        with pytest.raises(HostMissing, match="no AHP socket: is jupyter-ahp installed"):
            await WebSocketConnector(f"{url}/nothing", headers=HEADERS).connect()
        with pytest.raises(HostRefused, match="refused: not with this token"):
            await WebSocketConnector(f"{url}/ahp").connect()
        with pytest.raises(ConnectionError, match="503"):
            await WebSocketConnector(f"{url}/broken").connect()
    with pytest.raises(OSError, match=r"."):
        await WebSocketConnector(f"{url}/ahp").connect()


async def test_a_peer_that_speaks_no_http_is_an_os_error():
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionError, match="cannot be reached"):
            await WebSocketConnector(f"ws://127.0.0.1:{port}/ahp").connect()


async def test_a_unix_socket_will_do(tmp_path):
    path = str(tmp_path / "s.sock")
    async with serving([bind_unix_socket(path)]):
        connector = WebSocketConnector("ws://localhost/ahp", headers=HEADERS, socket_path=path)
        assert path in connector.description
        link = await connector.connect()
        link.send(b"hi")
        assert await link.receive() == "hi"
        link.close()


async def test_a_host_elsewhere_is_not_local():
    assert not WebSocketConnector("wss://example.org/ahp").is_local
