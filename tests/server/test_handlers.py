"""The WebSocket routes on a real Jupyter server, with a real shell."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_ext.server.handlers import KERNEL_TOKEN_HEADER

ROOT = "ahp-root://"


class Client:
    """A plain AHP client that keeps every frame it reads."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []
        self._id = 0
        self._seq = 0

    async def send(self, **message: Any) -> None:
        await self.socket.write_message(json.dumps({"jsonrpc": "2.0", **message}))

    async def read(self) -> dict[str, Any]:
        text = await asyncio.wait_for(self.socket.read_message(), 20)
        assert text is not None, "the server closed the connection"
        self.frames.append(json.loads(text))
        return self.frames[-1]

    async def answer(self, request_id: int) -> dict[str, Any]:
        while (frame := await self.read()).get("id") != request_id or "method" in frame:
            pass
        return frame

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        await self.send(id=self._id, method=method, params={"channel": ROOT, **params})
        return await self.answer(self._id)

    async def initialize(self, client_id: str = "c1", **more: Any) -> dict[str, Any]:
        return await self.ask("initialize", protocolVersions=["1.0.0", "0.9.0"], clientId=client_id, **more)

    async def dispatch(self, channel: str, **action: Any) -> None:
        self._seq += 1
        await self.send(method="dispatchAction", params={"channel": channel, "clientSeq": self._seq, "action": action})

    async def action(self, kind: str, **members: Any) -> dict[str, Any]:
        """Read up to the next action of a type (and with these members); its envelope."""
        while True:
            params = (await self.read()).get("params", {})
            action = params.get("action", {})
            if action.get("type") == kind and all(action.get(k) == v for k, v in members.items()):
                return params

    async def output(self, channel: str, text: str) -> str:
        """Read until a text has come as output of a terminal; all output up to then."""
        seen = ""
        while text not in seen:
            params = (await self.read()).get("params", {})
            if params.get("channel") == channel and params["action"]["type"] == "terminal/data":
                seen += params["action"]["data"]
        return seen


@pytest.fixture
def connect(jp_ws_fetch):
    clients: list[Client] = []

    async def go(*path: str, **kwargs: Any) -> Client:
        client = Client(await jp_ws_fetch("ahp", *path, **kwargs))
        clients.append(client)
        return client

    yield go
    for client in clients:
        client.socket.close()


MINE = {"kind": "client", "clientId": "c1"}


async def test_a_complete_exchange(connect):
    """The contract's section 20, step by step: order, types and codes."""
    client = await connect()
    result = (await client.initialize(initialSubscriptions=[ROOT]))["result"]
    assert result["protocolVersion"] == "1.0.0"
    assert result["serverInfo"]["name"] == "jupyter-ahp"
    assert result["snapshots"][0]["state"] == {"agents": [], "activeSessions": 0, "terminals": []}
    assert result["snapshots"][0]["fromSeq"] == result["serverSeq"] >= 1

    uri = "ahp-terminal:/t1"
    answer = await client.ask("createTerminal", channel=uri, claim=MINE, cols=80, rows=24)
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": None}
    (created,) = [f["params"] for f in client.frames if f.get("method") == "action"]
    assert created["channel"] == ROOT
    (info,) = created["action"]["terminals"]
    assert info["resource"] == uri
    assert info["claim"] == MINE
    assert info["lifecycle"] == {"status": "running"}
    assert "exitCode" not in info
    assert "origin" not in created

    snapshot = (await client.ask("subscribe", channel=uri))["result"]["snapshot"]
    state = snapshot["state"]
    assert snapshot["resource"] == uri
    assert (state["cols"], state["rows"], state["isPty"]) == (80, 24, True)
    assert state["cwd"].startswith("file:///")
    assert state["lifecycle"] == {"status": "running"}

    await client.dispatch(uri, type="terminal/input", data="exit 3\r")
    echo = await client.action("terminal/input")
    assert echo["origin"] == {"clientId": "c1", "clientSeq": 1}
    assert "rejectionReason" not in echo
    exited = await client.action("terminal/exited")
    assert exited["action"] == {"type": "terminal/exited", "exitCode": 3}
    listed = await client.action("root/terminalsChanged")
    (info,) = listed["action"]["terminals"]
    assert info["lifecycle"] == {"status": "exited", "exitCode": 3}
    assert info["exitCode"] == 3

    await client.dispatch(uri, type="terminal/input", data="x")
    rejected = await client.action("terminal/input")
    assert rejected["rejectionReason"] == "terminal has exited"
    assert rejected["origin"] == {"clientId": "c1", "clientSeq": 2}

    before = len(client.frames)
    assert (await client.ask("disposeTerminal", channel=uri))["result"] is None
    (gone,) = [f["params"] for f in client.frames[before:] if f.get("method") == "action"]
    assert gone["action"] == {"type": "root/terminalsChanged", "terminals": []}

    numbers = [f["params"]["serverSeq"] for f in client.frames if f.get("method") == "action"]
    assert numbers == sorted(set(numbers))
    assert all("null" not in json.dumps(f) for f in client.frames if f.get("method") == "action")


async def test_a_typed_command_becomes_a_part_with_its_exit_code(connect):
    client = await connect()
    await client.initialize()
    uri = "ahp-terminal:/t1"
    await client.ask("createTerminal", channel=uri, claim=MINE)
    await client.ask("subscribe", channel=uri)
    await client.dispatch(uri, type="terminal/input", data="(exit 42)\r")
    executed = (await client.action("terminal/commandExecuted"))["action"]
    assert executed["commandLine"] == "(exit 42)"
    finished = (await client.action("terminal/commandFinished"))["action"]
    assert finished["commandId"] == executed["commandId"]
    assert finished["exitCode"] == 42
    assert finished["durationMs"] >= 0
    state = (await client.ask("subscribe", channel=uri))["result"]["snapshot"]["state"]
    assert state["supportsCommandDetection"] is True
    assert not any("\x1b]633" in json.dumps(part) for part in state["content"])


async def test_a_client_may_pipeline_without_waiting_for_answers(connect):
    client = await connect()
    uri = "ahp-terminal:/t1"
    await client.send(id=1, method="initialize", params={"channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "c1"})
    await client.send(id=2, method="createTerminal", params={"channel": uri, "claim": MINE})
    await client.send(id=3, method="subscribe", params={"channel": uri})
    await client.dispatch(uri, type="terminal/input", data="echo pipe''lined\r")
    assert "snapshot" in (await client.answer(3))["result"]
    await client.output(uri, "pipelined")


async def test_two_clients_see_the_same_and_only_the_typist_sees_input(connect):
    typist, watcher = await connect(), await connect()
    await typist.initialize("c1")
    await watcher.initialize("c2")
    uri = "ahp-terminal:/t1"
    await typist.ask("createTerminal", channel=uri, claim=MINE)
    await typist.ask("subscribe", channel=uri)
    await watcher.ask("subscribe", channel=uri)
    await typist.dispatch(uri, type="terminal/input", data="echo bo''th\r")
    await typist.output(uri, "both")
    await watcher.output(uri, "both")
    assert not any(f.get("params", {}).get("action", {}).get("type") == "terminal/input" for f in watcher.frames)
    await watcher.dispatch(uri, type="terminal/input", data="echo no\r")
    assert (await watcher.action("terminal/input"))["rejectionReason"]


async def test_a_client_comes_back_with_what_it_missed(connect):
    first = await connect()
    await first.initialize("c1")
    uri = "ahp-terminal:/t1"
    await first.ask("createTerminal", channel=uri, claim=MINE)
    await first.ask("subscribe", channel=uri)
    await first.dispatch(uri, type="terminal/input", data="echo on''e; read x; echo tw''o\r")
    await first.output(uri, "one")
    seen = max(f["params"]["serverSeq"] for f in first.frames if f.get("method") == "action")
    await first.dispatch(uri, type="terminal/input", data="\r")
    first.socket.close()
    second = await connect()
    answer = await second.ask("reconnect", clientId="c1", lastSeenServerSeq=seen, subscriptions=[uri, "ahp-terminal:/gone"])
    assert answer["result"]["type"] == "replay"
    assert answer["result"]["missing"] == ["ahp-terminal:/gone"]
    missed = "".join(e["action"].get("data", "") for e in answer["result"]["actions"])
    if "two" not in missed:
        await second.output(uri, "two")


async def test_bad_input_is_answered_and_the_connection_lives(connect, caplog):
    caplog.set_level(logging.DEBUG)
    client = await connect()
    await client.initialize()
    uri = "ahp-terminal:/t1"
    await client.ask("createTerminal", channel=uri, claim=MINE)
    too_long = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "x" * 2_000_000})
    for text, code in (("{ s3cret", -32700), ("[]", -32600), (too_long, -32600)):
        await client.socket.write_message(text)
        frame = await client.read()
        assert (frame["id"], frame["error"]["code"]) == (None, code)
    assert (await client.ask("nonsense"))["error"]["code"] == -32601
    assert (await client.ask("subscribe", channel="ahp-terminal:/none"))["error"]["code"] == -32008
    taken = await client.ask("createTerminal", channel=uri, claim=MINE)
    assert taken["error"]["code"] == -32010
    for bad in (
        {"claim": {"kind": "client", "clientId": "s3cret"}},
        {"claim": MINE, "cwd": "file:///no/such/s3cret"},
        {"claim": MINE, "cwd": "http://localhost/"},
        {"claim": MINE, "cwd": "file://elsewhere/"},
        {"claim": MINE, "cols": 0},
        {"claim": MINE, "rows": 1001},
        {"claim": {"kind": "session", "session": "ahp-session:/s"}},
        {"claim": MINE, "_meta": {"x-terminal": {"shell": "nosuch"}}},
    ):
        error = (await client.ask("createTerminal", channel="ahp-terminal:/t2", **bad))["error"]
        assert error["code"] == -32602
        assert "s3cret" not in json.dumps(error)
    assert "bash" in error["message"]
    assert "nosuch" in error["message"]
    await client.ask("subscribe", channel=uri)
    await client.dispatch(uri, type="terminal/input", data="echo s3cret-\ud800-x\r")
    await client.output(uri, "-\ufffd-x")
    assert (await client.ask("ping"))["result"] is None
    assert "s3cret" not in caplog.text


async def test_no_common_version_is_said_before_the_connection_is_closed(connect):
    client = await connect()
    answer = await client.ask("initialize", protocolVersions=["9.0.0"], clientId="c1")
    assert answer["error"]["code"] == -32005
    assert await asyncio.wait_for(client.socket.read_message(), 5) is None


async def test_a_server_that_stops_says_what_ended_and_closes_with_1001(connect, agent_host_app):
    client = await connect()
    await client.initialize()
    uri = "ahp-terminal:/t1"
    await client.ask("createTerminal", channel=uri, claim=MINE)
    await client.ask("subscribe", channel=uri)
    await agent_host_app.stop_extension()
    await client.action("terminal/exited")
    while await asyncio.wait_for(client.socket.read_message(), 5) is not None:
        pass
    assert client.socket.close_code == 1001


# --- who may connect ------------------------------------------------------------------------------------------------------


async def refused(url: str, headers: dict[str, str]) -> int:
    with pytest.raises(HTTPClientError) as error:
        await websocket_connect(HTTPRequest(url, headers=headers))
    return error.value.code


@pytest.fixture
def url(jp_serverapp, http_server_client, jp_http_port, jp_base_url) -> str:
    return f"ws://127.0.0.1:{jp_http_port}{jp_base_url}ahp"


async def test_without_a_token_the_upgrade_is_refused(url):
    assert await refused(url, {}) == 403


async def test_a_token_lets_in_by_query_or_header_from_any_origin(url, jp_serverapp):
    token = jp_serverapp.identity_provider.token
    for address, headers in (
        (f"{url}?token={token}&tkn=other", {"Origin": "vscode-file://vscode-app"}),
        (url, {"Authorization": f"token {token}"}),
    ):
        socket = await websocket_connect(HTTPRequest(address, headers=headers))
        assert (await Client(socket).ask("ping"))["result"] is None
        socket.close()


async def test_a_kernels_token_lets_in_that_kernel_and_no_browser(url, agent_host_app):
    tokens = agent_host_app.tokens
    old = tokens.issue("k1")
    token = tokens.issue("k1")
    kernel = f"{url}/kernel/k1"
    for address, headers in (
        (kernel, {}),
        (kernel, {KERNEL_TOKEN_HEADER: "x"}),
        (kernel, {KERNEL_TOKEN_HEADER: "\u00e4"}),
        (kernel, {KERNEL_TOKEN_HEADER: old}),
        (kernel, {KERNEL_TOKEN_HEADER: token, "Origin": "http://127.0.0.1"}),
        (f"{url}/kernel/k2", {KERNEL_TOKEN_HEADER: token}),
    ):
        assert await refused(address, headers) == 403
    socket = await websocket_connect(HTTPRequest(kernel, headers={KERNEL_TOKEN_HEADER: token}))
    assert (await Client(socket).initialize("kernel"))["result"]["protocolVersion"] == "1.0.0"
    socket.close()


async def test_a_person_may_type_in_a_notebooks_terminal(url, agent_host_app, connect):
    headers = {KERNEL_TOKEN_HEADER: agent_host_app.tokens.issue("k1")}
    socket = await websocket_connect(HTTPRequest(f"{url}/kernel/k1", headers=headers))
    kernel, person = Client(socket), await connect()
    await kernel.initialize("kernel")
    await person.initialize("person")
    uri = "ahp-terminal:/nb"
    await kernel.ask("createTerminal", channel=uri, claim={"kind": "client", "clientId": "kernel"})
    for client in (kernel, person):
        await client.ask("subscribe", channel=uri)
    await person.dispatch(uri, type="terminal/input", data="x")
    assert (await person.action("terminal/input"))["rejectionReason"]
    claim = {"kind": "client", "clientId": "person"}
    await person.dispatch(uri, type="terminal/claimed", claim=claim)
    assert (await kernel.action("terminal/claimed"))["action"]["claim"] == claim
    await person.dispatch(uri, type="terminal/input", data="echo by-per''son\r")
    await kernel.output(uri, "by-person")
    await person.action("terminal/commandFinished")
    back = {"kind": "client", "clientId": "kernel"}
    await kernel.dispatch(uri, type="terminal/claimed", claim=back)
    assert (await person.action("terminal/claimed"))["action"]["claim"] == back
    socket.close()


async def test_a_client_that_never_reads_is_closed_and_the_program_goes_on(connect):
    lazy, other = await connect(), await connect()
    await lazy.initialize("c1")
    await other.initialize("c2")
    uri = "ahp-terminal:/t1"
    await lazy.ask("createTerminal", channel=uri, claim=MINE)
    await lazy.ask("subscribe", channel=uri)
    await other.ask("subscribe", channel=ROOT)
    reader = lazy.socket.protocol.stream
    reader.io_loop.remove_handler(reader.fileno())  # the client's socket is not read any more
    await lazy.dispatch(uri, type="terminal/input", data="yes 0123456789abcdef | head -c 60000000; exit 5\r")
    listed = await other.action("root/terminalsChanged")
    while listed["action"]["terminals"][0]["lifecycle"]["status"] != "exited":
        listed = await other.action("root/terminalsChanged")
    assert listed["action"]["terminals"][0]["exitCode"] == 5


@pytest.mark.parametrize("jp_server_config", [{"ServerApp": {"terminals_enabled": False}}], indirect=True)
async def test_terminals_that_are_turned_off_are_not_made(connect):
    client = await connect()
    await client.initialize()
    error = (await client.ask("createTerminal", channel="ahp-terminal:/t1", claim=MINE))["error"]
    assert error == {"code": -32009, "message": "terminals are turned off by the administrator"}


@pytest.mark.parametrize("jp_server_config", [{"AgentHostApp": {"users": "identity"}}], indirect=True)
async def test_with_named_users_anothers_terminal_does_not_exist(connect):
    """Jupyter's stock identity gives each token request a new user."""
    mine, stranger = await connect(), await connect()
    await mine.initialize("c1", initialSubscriptions=[ROOT])
    await stranger.initialize("c2")
    uri = "ahp-terminal:/t1"
    await mine.ask("createTerminal", channel=uri, claim=MINE)
    assert (await stranger.ask("subscribe", channel=uri))["error"]["code"] == -32008
    snapshot = (await stranger.ask("subscribe", channel=ROOT))["result"]["snapshot"]
    assert snapshot["state"]["terminals"] == []
