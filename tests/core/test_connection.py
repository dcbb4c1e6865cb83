"""HostConnection and ClientConnection: the answers to good and bad input, order, joining, reconnect, reconciliation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ext.core.connection import (
    JOIN_CHARS,
    QUEUE_HIGH_BYTES,
    QUEUE_LIMIT_BYTES,
    Answer,
    Call,
    Changed,
    ClientConnection,
    HostConnection,
    Lost,
    check_terminal_uri,
    clean_title,
)
from jupyter_ext.core.host_state import HostState
from jupyter_ext.protocol.messages import ErrorCode, Implementation, ProtocolError, to_builtins
from jupyter_ext.protocol.terminal import (
    ROOT_URI,
    CreateTerminalParams,
    DetailsChangedAction,
    RunParams,
    SignalParams,
    TerminalClaimedAction,
    TerminalClearedAction,
    TerminalClientClaim,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalDataAction,
    TerminalDetails,
    TerminalExitedAction,
    TerminalInputAction,
    TerminalLifecycle,
    TerminalResizedAction,
    TerminalState,
    TerminalTitleChangedAction,
)

URI = "ahp-terminal:/t1"


class Host:
    """A host whose terminals are only state."""

    def __init__(self, **kwargs: Any) -> None:
        self.state = HostState(**kwargs)
        self.calls: list[Call] = []
        self.drained: list[HostConnection] = []

    def connect(self, user: str | None = None, role: str = "person") -> Peer:
        return Peer(self, user, role)

    def make(self, uri: str = URI, holder: str = "c1", user: str | None = None) -> None:
        state = TerminalState(
            title="sh",
            content=(),
            claim=TerminalClientClaim(client_id=holder),
            lifecycle=TerminalLifecycle(status="running"),
            cols=80,
            rows=24,
        )
        self.state.add_terminal(uri, state, user=user)

    def perform(self, call: Call) -> None:
        self.calls.append(call)
        if call.method == "createTerminal":
            self.make(call.channel, call.params.claim.client_id)
            call.respond()
        elif call.method == "dispatchAction":
            if isinstance(call.params, TerminalInputAction):
                self.state.send_privately(call.connection, call.channel, call.params, call.origin)
            else:
                self.state.publish(call.channel, call.params, call.origin)


class Peer:
    """A raw client: dictionaries in and out."""

    def __init__(self, host: Host, user: str | None, role: str) -> None:
        self.host = host
        self.wakeups = 0
        self.connection = HostConnection(
            host.state,
            user=user,
            role=role,
            title="somebody",
            server_info=Implementation(name="host"),
            wakeup=self._wakeup,
            drained=host.drained.append,
        )

    def _wakeup(self) -> None:
        self.wakeups += 1

    def send_text(self, text: str | bytes) -> list[dict[str, Any]]:
        for call in self.connection.receive(text):
            self.host.perform(call)
        return self.read()

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.connection.data_to_send(1 << 30)]

    def send(self, method: str, params: Any = None, id: Any = None) -> list[dict[str, Any]]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if id is not None:
            message["id"] = id
        return self.send_text(json.dumps(message, ensure_ascii=False))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        (answer,) = [m for m in self.send(method, {"channel": ROOT_URI, **params}, id=7) if m.get("id") == 7]
        return answer

    def error(self, method: str, **params: Any) -> int:
        return self.ask(method, **params)["error"]["code"]

    def initialize(self, client_id: str = "c1", versions=("1.0.0",), x_terminal: bool = True, **more: Any) -> dict[str, Any]:
        meta = {"_meta": {"x-terminal": {"version": 1}}} if x_terminal else {}
        return self.ask("initialize", protocolVersions=list(versions), clientId=client_id, **meta, **more)["result"]

    def dispatch(self, action: dict[str, Any], channel: str = URI, seq: int = 1) -> list[dict[str, Any]]:
        return self.send("dispatchAction", {"channel": channel, "clientSeq": seq, "action": action})


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def peer(host) -> Peer:
    peer = host.connect()
    peer.initialize()
    return peer


def codes(messages: list[dict[str, Any]]) -> list[tuple[Any, int]]:
    return [(m["id"], m["error"]["code"]) for m in messages]


# --- frames ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", -32700),
        ("nonsense", -32700),
        ("[1,", -32700),
        ('{"jsonrpc":"2.0","method":5', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}', -32700),
        ("[]", -32600),
        ("3", -32600),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        ('{"id":1,"method":"ping"}', -32600),
        ('{"jsonrpc":"2.0","id":1}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":' + "[" * 80 + "]" * 80 + "}", -32600),
        ('{"jsonrpc":"2.0","method":"x","params":{"a":"' + "x" * (1 << 20) + '"}}', -32600),
    ],
)
def test_what_is_no_request_is_answered_with_a_null_id_and_the_connection_lives(peer, text, code):
    assert codes(peer.send_text(text)) == [(None, code)]
    assert peer.ask("ping")["result"] is None


def test_a_response_is_dropped(peer):
    assert peer.send_text('{"jsonrpc":"2.0","id":3,"result":null}') == []


@pytest.mark.parametrize("request_id", [1, "a", 1.5, 2**50])
def test_an_id_is_echoed_as_it_came(peer, request_id):
    assert peer.send("ping", {}, id=request_id) == [{"jsonrpc": "2.0", "id": request_id, "result": None}]


def test_a_success_always_has_the_key_result():
    peer = Host().connect()
    assert peer.send("ping", id=1) == [{"jsonrpc": "2.0", "id": 1, "result": None}]


@pytest.mark.parametrize("method", ["subscribe", "createTerminal", "nonsense", "listSessions"])
def test_everything_but_ping_wants_initialize_first(host, method):
    assert host.connect().error(method, channel=URI) == -32600


def test_a_notification_before_initialize_is_dropped(host):
    host.make()
    assert host.connect().dispatch({"type": "terminal/input", "data": "x"}) == []


@pytest.mark.parametrize("method", ["initialize", "reconnect"])
def test_a_second_handshake_is_refused(peer, method):
    assert peer.error(method, protocolVersions=["1.0.0"], clientId="c", subscriptions=[], lastSeenServerSeq=1) == -32600


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("createSession", -32002),
        ("disposeSession", -32001),
        ("createChat", -32001),
        ("disposeChat", -32001),
        ("authenticate", -32602),
        ("completions", -32601),
        ("resourceRead", -32601),
        ("shutdown", -32601),
        ("x-terminal/unheard", -32601),
    ],
)
def test_what_a_terminal_host_does_not_serve(peer, method, code):
    assert peer.error(method) == code


def test_an_unknown_notification_is_ignored(peer):
    assert peer.send("setClientManagedSettingsPermissions", {"channel": ROOT_URI}) == []


def test_there_are_no_sessions_and_no_cursor_into_them(peer):
    assert peer.ask("listSessions")["result"] == {"items": []}
    assert peer.error("listSessions", cursor="x") == -32602


# --- initialize -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offer", "chosen"),
    [
        (["1.0.0", "0.9.0"], "1.0.0"),
        (["0.9.0", "1.0.0"], "1.0.0"),
        (["1.1.0"], "1.1.0"),
        (["0.6.0", "0.5.2", "0.5.1"], "0.6.0"),
        (["0.9.4"], "0.9.4"),
        (["0.5.1"], "0.5.1"),
        (["2.0.0", "0.10.0"], "0.10.0"),
    ],
)
def test_the_highest_version_inside_a_supported_range_is_chosen(host, offer, chosen):
    assert host.connect().initialize(versions=offer)["protocolVersion"] == chosen


@pytest.mark.parametrize("offer", [["2.0.0"], ["0.5.0"], ["0.4.9", "3.0.0"]])
def test_no_common_version_is_said_with_what_there_is_and_then_closed(host, offer):
    peer = host.connect()
    answer = peer.ask("initialize", protocolVersions=offer, clientId="c")
    assert answer["error"]["code"] == -32005
    assert "1.0.0" in answer["error"]["data"]["supportedVersions"]
    assert peer.connection.close_code == 1000


@pytest.mark.parametrize("offer", [[], ["1.0"], ["01.0.0"], ["1.0.0-a"], ["x.y.z"], [7]])
def test_a_malformed_offer_is_invalid(host, offer):
    peer = host.connect()
    assert peer.error("initialize", protocolVersions=offer, clientId="c") == -32602
    assert peer.connection.close_code is None


def test_initialize_gives_the_snapshots_of_what_exists_at_one_moment(host):
    host.make()
    result = host.connect().initialize(initialSubscriptions=[ROOT_URI, "ahp-terminal:/none", URI, ROOT_URI])
    assert [s["resource"] for s in result["snapshots"]] == [ROOT_URI, URI]
    assert {s["fromSeq"] for s in result["snapshots"]} == {result["serverSeq"]}
    assert result["_meta"] == {"x-terminal": {"version": 1}}
    assert result["serverInfo"] == {"name": "host"}


def test_required_members_are_written_also_when_they_are_empty(host):
    result = host.connect().initialize(initialSubscriptions=[ROOT_URI])
    assert result["snapshots"][0]["state"] == {"agents": [], "activeSessions": 0, "terminals": []}
    assert host.connect().initialize("c2")["snapshots"] == []


def test_a_client_id_belongs_to_the_user_who_brought_it(host):
    host.connect(user="ann").initialize("c1")
    bob = host.connect(user="bob")
    assert bob.error("initialize", protocolVersions=["1.0.0"], clientId="c1") == -32602
    assert bob.error("reconnect", clientId="c1", lastSeenServerSeq=1, subscriptions=[]) == -32008
    again = host.connect(user="ann")
    again.initialize("c1")
    assert len(host.state.clients["c1"].connections) == 2


@pytest.mark.parametrize("bad", [{"clientId": ""}, {"clientId": 5}, {"protocolVersions": "1.0.0"}, {"clientId": None}])
def test_wrong_params_name_the_member_and_not_the_value(host, bad):
    params = {"protocolVersions": ["1.0.0"], "clientId": "c", **bad}
    error = host.connect().ask("initialize", **params)["error"]
    assert error["code"] == -32602
    assert next(iter(bad)) in error["message"]


def test_params_that_are_no_object_are_invalid(peer):
    assert codes(peer.send_text('{"jsonrpc":"2.0","id":1,"method":"subscribe","params":[1]}')) == [(1, -32602)]


def test_a_client_is_called_by_what_it_says_without_controls(host):
    host.connect().initialize("c1", clientInfo={"name": "n", "title": "Ti\u0007tle"})
    host.connect().initialize("c2")
    assert host.state.clients["c1"].title == "Title"
    assert host.state.clients["c2"].title == "somebody"


# --- subscriptions ----------------------------------------------------------------------------------------------------------


def test_subscribe_answers_with_the_state_before_any_later_envelope(host, peer):
    host.make()
    host.state.publish(URI, TerminalDataAction(data="a"))
    peer.send_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"channel": URI}}))
    host.state.publish(URI, TerminalDataAction(data="b"))
    again = peer.connection.receive(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "subscribe", "params": {"channel": URI}}))
    host.state.publish(URI, TerminalDataAction(data="c"))
    first, second, third = peer.read()
    assert again == []
    assert first["params"]["action"]["data"] == "b"
    assert second["result"]["snapshot"]["state"]["content"] == [{"type": "unclassified", "value": "ab"}]
    assert third["params"]["action"]["data"] == "c"
    assert first["params"]["serverSeq"] <= second["result"]["snapshot"]["fromSeq"] < third["params"]["serverSeq"]


def test_a_second_subscription_delivers_once_and_one_unsubscribe_ends_it(host, peer):
    host.make()
    peer.ask("subscribe", channel=URI)
    peer.ask("subscribe", channel=URI)
    host.state.publish(URI, TerminalDataAction(data="a"))
    assert len(peer.read()) == 1
    peer.send("unsubscribe", {"channel": URI})
    peer.send("unsubscribe", {"channel": "ahp-terminal:/none"})
    peer.send("unsubscribe", {"nochannel": 1})
    host.state.publish(URI, TerminalDataAction(data="b"))
    assert peer.read() == []


def test_an_unknown_channel_is_not_found(peer):
    assert peer.error("subscribe", channel="ahp-terminal:/none") == -32008
    assert peer.error("subscribe", channel="ahp-session:/none") == -32001
    assert peer.error("subscribe", channel=5) == -32602


def test_a_strangers_terminal_is_not_found_either(host):
    host.make(user="ann")
    bob = host.connect(user="bob")
    bob.initialize("b")
    assert bob.error("subscribe", channel=URI) == -32008
    assert bob.error("disposeTerminal", channel=URI) == -32008
    assert bob.dispatch({"type": "terminal/input", "data": "x"}) == []


def test_subscriptions_are_bounded(host, peer):
    for number in range(257):
        host.make(f"ahp-terminal:/{number}")
        answer = peer.ask("subscribe", channel=f"ahp-terminal:/{number}")
    assert answer["error"]["code"] == -32009
    assert "result" in peer.ask("subscribe", channel="ahp-terminal:/3")


def test_the_least_latency_that_is_asked_for_holds(host, peer):
    host.make()
    assert peer.connection.latency_ms == 8
    peer.ask("subscribe", channel=URI, delivery={"maxLatencyMs": 100})
    assert peer.connection.latency_ms == 8
    peer.ask("subscribe", channel=URI, delivery={"maxLatencyMs": 0})
    assert peer.connection.latency_ms == 0
    peer.send("unsubscribe", {"channel": URI})
    assert peer.connection.latency_ms == 8
    peer.ask("subscribe", channel=URI, delivery={}, flowControl={"receive": {}}, view={"turns": 2})
    assert peer.connection.latency_ms == 8


# --- delivery ---------------------------------------------------------------------------------------------------------------


def subscribed(host: Host, peer: Peer, uri: str = URI) -> None:
    host.make(uri)
    peer.ask("subscribe", channel=uri)
    peer.read()


def test_neighbouring_output_is_joined_with_the_later_number(host, peer):
    subscribed(host, peer)
    for text in "abc":
        host.state.publish(URI, TerminalDataAction(data=text))
    (message,) = peer.read()
    assert message["params"]["action"]["data"] == "abc"
    assert message["params"]["serverSeq"] == host.state.server_seq


def test_output_is_not_moved_behind_another_channels_envelope(host, peer):
    subscribed(host, peer)
    subscribed(host, peer, "ahp-terminal:/t2")
    host.state.publish(URI, TerminalDataAction(data="a"))
    host.state.publish("ahp-terminal:/t2", TerminalDataAction(data="x"))
    host.state.publish(URI, TerminalDataAction(data="b"))
    messages = [m["params"] for m in peer.read()]
    assert [(m["channel"], m["action"]["data"]) for m in messages] == [(URI, "a"), ("ahp-terminal:/t2", "x"), (URI, "b")]
    assert [m["serverSeq"] for m in messages] == sorted(m["serverSeq"] for m in messages)


def test_output_is_never_moved_across_another_action_of_its_terminal(host, peer):
    subscribed(host, peer)
    for action in (
        TerminalDataAction(data="a"),
        TerminalCommandExecutedAction(command_id="c1", command_line="x", timestamp=1),
        TerminalDataAction(data="b"),
        TerminalCommandFinishedAction(command_id="c1"),
        TerminalDataAction(data="c"),
    ):
        host.state.publish(URI, action)
    kinds = [m["params"]["action"].get("data", m["params"]["action"]["type"]) for m in peer.read()]
    assert kinds == ["a", "terminal/commandExecuted", "b", "terminal/commandFinished", "c"]


def test_output_is_joined_up_to_a_limit(host, peer):
    subscribed(host, peer)
    for _ in range(3):
        host.state.publish(URI, TerminalDataAction(data="x" * (JOIN_CHARS // 2)))
    assert [len(m["params"]["action"]["data"]) for m in peer.read()] == [JOIN_CHARS, JOIN_CHARS // 2]


def test_only_output_may_be_held_back(host, peer):
    subscribed(host, peer)
    host.state.publish(URI, TerminalDataAction(data="a"))
    assert peer.connection.hold_ms == 8
    host.state.publish(URI, TerminalTitleChangedAction(title="t"))
    assert peer.connection.hold_ms == 0
    peer.read()
    host.state.publish(URI, TerminalDataAction(data="x" * JOIN_CHARS))
    assert peer.connection.hold_ms == 0


def test_what_is_taken_is_bounded_and_the_rest_waits(host, peer):
    subscribed(host, peer)
    for number in range(4):
        host.state.publish(URI, TerminalDataAction(data="x" * JOIN_CHARS))
        host.state.publish(URI, TerminalTitleChangedAction(title=str(number)))
    assert len(peer.connection.data_to_send(1)) == 1
    assert peer.connection.pending_bytes > 0
    peer.read()
    assert peer.connection.pending_bytes == 0


def test_a_full_queue_says_so_and_says_when_it_has_drained(host, peer):
    subscribed(host, peer)
    while peer.connection.pending_bytes <= QUEUE_HIGH_BYTES:
        host.state.publish(URI, TerminalDataAction(data="x" * JOIN_CHARS))
    assert peer.connection.is_over_high
    assert host.drained == []
    while peer.connection.pending_bytes >= QUEUE_HIGH_BYTES // 2:
        assert host.drained == []
        peer.connection.data_to_send(1)
    assert host.drained == [peer.connection]
    assert not peer.connection.is_over_high


@pytest.mark.parametrize("how", ["bytes", "frames"])
def test_a_connection_that_falls_behind_is_given_up(host, peer, how):
    subscribed(host, peer)
    while peer.connection.close_code is None:
        if how == "bytes":
            host.state.publish(URI, TerminalDataAction(data="x" * JOIN_CHARS))
        else:
            host.state.publish(URI, TerminalTitleChangedAction(title="t"))
        assert peer.connection.pending_bytes <= QUEUE_LIMIT_BYTES
    assert peer.connection.close_code == 1013
    assert peer.connection.pending_bytes == 0
    host.state.publish(URI, TerminalDataAction(data="more"))
    assert peer.read() == []


def test_a_connection_that_is_ended_says_what_is_queued_and_no_more(host, peer):
    subscribed(host, peer)
    host.state.publish(URI, TerminalDataAction(data="last"))
    wakeups = peer.wakeups
    peer.connection.end(1001)
    peer.connection.end(1000)
    assert (peer.connection.close_code, peer.wakeups) == (1001, wakeups + 1)
    host.state.publish(URI, TerminalDataAction(data="more"))
    assert [m["params"]["action"]["data"] for m in peer.read()] == ["last"]


def test_closing_frees_the_queue_and_ends_delivery(host, peer):
    subscribed(host, peer)
    while not peer.connection.is_over_high:
        host.state.publish(URI, TerminalDataAction(data="x" * JOIN_CHARS))
    peer.connection.close()
    peer.connection.close()
    host.state.publish(URI, TerminalDataAction(data="x"))
    peer.connection.send_result(1, None)
    assert peer.read() == []
    assert host.drained == [peer.connection]
    assert host.state.clients["c1"].connections == set()
    fresh = host.connect()
    fresh.connection.close()


def test_extension_actions_go_only_to_who_announced_them(host):
    plain, ours = host.connect(), host.connect()
    plain.initialize("plain", x_terminal=False)
    ours.initialize("ours")
    host.make()
    for peer in (plain, ours):
        peer.ask("subscribe", channel=URI)
    seen = host.state.server_seq
    details = TerminalDetails(shell="sh", login=False, pid=1, tracking="yes")
    host.state.publish(URI, DetailsChangedAction(details=details))
    assert plain.read() == []
    assert [m["params"]["action"]["type"] for m in ours.read()] == ["x-terminal/detailsChanged"]
    rejected = plain.dispatch({"type": "x-terminal/runEnded", "runId": "r"})
    assert rejected[0]["params"]["rejectionReason"] == "not an action that clients may dispatch"
    plain.connection.close()
    again = host.connect()
    answer = again.ask("reconnect", clientId="plain", lastSeenServerSeq=seen, subscriptions=[URI])
    assert answer["result"] == {"type": "replay", "actions": [], "missing": []}


# --- dispatch ---------------------------------------------------------------------------------------------------------------


def test_an_accepted_action_is_published_with_its_origin(host, peer):
    subscribed(host, peer)
    (message,) = peer.dispatch({"type": "terminal/resized", "cols": 100, "rows": 30}, seq=5)
    assert message["params"]["origin"] == {"clientId": "c1", "clientSeq": 5}
    assert "rejectionReason" not in message["params"]
    assert host.state.terminals[URI].state.cols == 100


def test_what_the_host_begins_has_no_origin_at_all(host, peer):
    subscribed(host, peer)
    host.state.publish(URI, TerminalClearedAction())
    assert "origin" not in peer.read()[0]["params"]


def test_an_action_on_a_channel_that_does_not_exist_is_ignored(peer):
    assert peer.dispatch({"type": "terminal/input", "data": "x"}, channel="ahp-terminal:/none") == []


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ({"type": "terminal/data", "data": "x"}, "not an action that clients may dispatch"),
        ({"type": "terminal/unheardOf", "x": [1, {"y": None}]}, "not an action that clients may dispatch"),
        ({"type": "terminal/input", "data": 5}, "malformed action"),
        ({"type": "terminal/input"}, "malformed action"),
        ({"type": "terminal/input", "data": "ä" * 262145}, "input longer than 524288 bytes"),
        ({"type": "terminal/resized", "cols": 0, "rows": 5}, "size outside 1 to 1000"),
        ({"type": "terminal/resized", "cols": 5, "rows": 1001}, "size outside 1 to 1000"),
        ({"type": "terminal/resized", "cols": True, "rows": 5}, "malformed action"),
        ({"type": "terminal/resized", "cols": 5.5, "rows": 5}, "malformed action"),
        ({"type": "terminal/titleChanged", "title": "x" * 257}, "title longer than 256 characters"),
        ({"type": "terminal/claimed", "claim": {"kind": "client"}}, "malformed action"),
        ({"type": "terminal/claimed", "claim": {"kind": "client", "clientId": "no"}}, "no such client"),
        ({"type": "terminal/claimed", "claim": {"kind": "session", "session": "ahp-session:/s"}}, "no such session"),
        ({"type": "terminal/claimed", "claim": {"kind": "newer", "x": 1}}, "no such session"),
        ({"type": "root/configChanged", "config": {}}, "not an action of this channel"),
    ],
)
def test_a_refused_action_is_echoed_as_it_came_with_a_reason(host, peer, action, reason):
    subscribed(host, peer)
    before = host.state.terminals[URI].state
    echo = peer.dispatch(action, seq=3)[0]["params"]
    assert echo["action"] == action
    assert echo["rejectionReason"] == reason
    assert echo["origin"] == {"clientId": "c1", "clientSeq": 3}
    assert host.state.terminals[URI].state == before
    assert host.calls == []


def test_a_configuration_is_refused_on_the_root_channel(peer):
    echo = peer.dispatch({"type": "root/configChanged", "config": {"a": 1}}, channel=ROOT_URI)
    assert echo[0]["params"]["rejectionReason"] == "this host has no configuration"
    echo = peer.dispatch({"type": "terminal/input", "data": "x"}, channel=ROOT_URI)
    assert echo[0]["params"]["rejectionReason"] == "not an action of this channel"


@pytest.mark.parametrize("params", [{"channel": URI}, {"channel": URI, "clientSeq": 1, "action": 5}, 7])
def test_a_dispatch_that_cannot_be_read_is_dropped(host, peer, params):
    subscribed(host, peer)
    assert peer.send("dispatchAction", params) == []


def test_a_client_with_two_connections_is_one_client(host):
    first, second = host.connect(), host.connect()
    first.initialize("c2")
    second.initialize("c2")
    host.make(holder="gone")
    first.ask("subscribe", channel=URI)
    claim = {"kind": "client", "clientId": "c2"}
    (echo,) = first.dispatch({"type": "terminal/claimed", "claim": claim})
    assert "rejectionReason" not in echo["params"]
    second.ask("subscribe", channel=URI)
    (echo,) = second.dispatch({"type": "terminal/resized", "cols": 5, "rows": 5})
    assert "rejectionReason" not in echo["params"]


def test_a_watcher_may_not_type_and_the_truth_follows_a_refused_size(host, peer):
    host.make(holder="c2")
    other = host.connect()
    other.initialize("c2")
    peer.ask("subscribe", channel=URI)
    peer.read()
    (echo,) = peer.dispatch({"type": "terminal/input", "data": "x"})
    assert echo["params"]["rejectionReason"] == "held by somebody"
    refused, truth = peer.dispatch({"type": "terminal/resized", "cols": 1, "rows": 1})
    assert "rejectionReason" in refused["params"]
    assert truth["params"]["action"] == {"type": "terminal/resized", "cols": 80, "rows": 24}
    assert "origin" not in truth["params"]


@pytest.mark.parametrize("action", [{"type": "terminal/input", "data": "x"}, {"type": "terminal/resized", "cols": 5, "rows": 5}])
def test_an_exited_terminal_takes_no_input(host, peer, action):
    subscribed(host, peer)
    host.state.publish(URI, TerminalExitedAction(exit_code=0))
    peer.read()
    assert peer.dispatch(action)[0]["params"]["rejectionReason"] == "terminal has exited"
    assert peer.dispatch({"type": "terminal/cleared"})[0]["params"].get("rejectionReason") is None


def test_a_lone_surrogate_becomes_a_replacement_character(host, peer):
    subscribed(host, peer)
    params = {"channel": URI, "clientSeq": 1, "action": {"type": "terminal/input", "data": "a\ud800b\ud83d\ude00"}}
    (echo,) = peer.send_text(json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}))
    assert echo["params"]["action"]["data"] == "a�b😀"
    assert host.calls[-1].params.data == "a�b😀"


# --- requests that the host carries out -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "ahp-terminal:/x",
        "agenthost-terminal:/1",
        "agenthost-terminal://e2e/0b5f",
        "agenthost-terminal://shell/a/b",
        "agenthost:/terminal/1",
        "a+b-c.d:/ü",
    ],
)
def test_any_scheme_and_path_is_a_terminals_uri(peer, uri):
    answer = peer.ask("createTerminal", channel=uri, claim={"kind": "client", "clientId": "c1"})
    assert answer["result"] is None


@pytest.mark.parametrize(
    "uri",
    [
        *("", "x", "ahp-terminal:", "ahp-terminal:x", "ahp-terminal:/", "ahp-terminal://", "ahp-terminal://host"),
        *("ahp-terminal://[x/y", "1a:/x", ":/x", "ü:/x", "ahp-root:/x", "file:///x", "JavaScript:/x", "ahp-terminal:/a b"),
        *(
            "ahp-terminal:/\ufffd",
            "ahp-terminal:/a\u0007",
            "ahp-terminal:/a?b",
            "ahp-terminal:/a#b",
            "ahp-terminal:/" + "x" * 256,
        ),
    ],
)
def test_what_is_no_terminals_uri_is_refused(peer, uri):
    assert peer.error("createTerminal", channel=uri, claim={"kind": "client", "clientId": "c1"}) == -32602
    with pytest.raises(ProtocolError):
        check_terminal_uri(uri)


def test_requests_leave_as_calls_in_the_order_in_which_they_came(host, peer):
    peer.ask("createTerminal", channel=URI, claim={"kind": "client", "clientId": "c1"}, cols=80)
    peer.send("x-terminal/run", {"channel": URI, "text": "ls", "runId": "r1"}, id=2)
    peer.send("x-terminal/signal", {"channel": URI, "signal": "interrupt"}, id=3)
    peer.send("x-terminal/close", {"channel": URI}, id=4)
    peer.send("disposeTerminal", {"channel": URI}, id=5)
    created, run, signal, closed, disposed = host.calls
    assert created.params == CreateTerminalParams(channel=URI, claim=TerminalClientClaim(client_id="c1"), cols=80)
    assert run.params == RunParams(channel=URI, text="ls", run_id="r1")
    assert signal.params == SignalParams(channel=URI, signal="interrupt")
    assert (closed.method, disposed.method) == ("x-terminal/close", "disposeTerminal")
    run.respond()
    signal.fail(ProtocolError(ErrorCode.CONFLICT, "busy", {"x": 1}))
    assert peer.read() == [
        {"jsonrpc": "2.0", "id": 2, "result": None},
        {"jsonrpc": "2.0", "id": 3, "error": {"code": -32011, "message": "busy", "data": {"x": 1}}},
    ]
    assert "ls" not in repr(run) + repr(run.params)


def test_requests_about_a_terminal_need_the_right_to_it(host, peer):
    host.make(holder="c2")
    host.connect().initialize("c2")
    assert peer.error("disposeTerminal", channel="ahp-terminal:/none") == -32008
    for method, more in (("disposeTerminal", {}), ("x-terminal/run", {"text": "a", "runId": "r"})):
        error = peer.ask(method, channel=URI, **more)["error"]
        assert (error["code"], error["message"]) == (-32009, "held by somebody")


def test_an_action_needs_no_answer(host, peer):
    subscribed(host, peer)
    peer.dispatch({"type": "terminal/cleared"})
    call = host.calls[-1]
    call.respond()
    call.fail(ProtocolError(1, "x"))
    assert peer.read() == []


def test_a_title_loses_its_controls():
    assert clean_title("a\x1b]0;b\x07c\u0085") == "a]0;bc"


# --- reconnect ----------------------------------------------------------------------------------------------------------------


def test_reconnect_replays_what_was_missed_and_names_what_is_gone(host, peer):
    subscribed(host, peer)
    seen = host.state.server_seq
    peer.connection.close()
    host.state.publish(URI, TerminalDataAction(data="a"))
    host.state.publish(URI, TerminalDataAction(data="b"))
    again = host.connect()
    result = again.ask("reconnect", clientId="c1", lastSeenServerSeq=seen, subscriptions=[URI, "ahp-terminal:/gone"])["result"]
    assert result["type"] == "replay"
    assert [e["action"]["data"] for e in result["actions"]] == ["a", "b"]
    assert result["missing"] == ["ahp-terminal:/gone"]
    host.state.publish(URI, TerminalDataAction(data="c"))
    assert [m["params"]["action"]["data"] for m in again.read()] == ["c"]


@pytest.mark.parametrize("seen", [10_000, 0])
def test_reconnect_gives_snapshots_where_a_replay_is_not_to_be_had(peer, seen):
    host = peer.host
    subscribed(host, peer)
    again = host.connect()
    answer = again.ask("reconnect", clientId="c1", lastSeenServerSeq=seen, subscriptions=[ROOT_URI, URI, "ahp-terminal:/gone"])
    assert answer["result"]["type"] == "snapshot"
    assert [s["resource"] for s in answer["result"]["snapshots"]] == [ROOT_URI, URI]


def test_an_unknown_client_is_not_found_and_may_initialize_on_the_same_socket(host):
    peer = host.connect()
    assert peer.error("reconnect", clientId="new", lastSeenServerSeq=1, subscriptions=[]) == -32008
    assert peer.connection.close_code is None
    assert peer.initialize("new")["protocolVersion"] == "1.0.0"


def test_reconnect_without_a_cursor_is_invalid(host, peer):
    assert host.connect().error("reconnect", clientId="c1", subscriptions=[URI]) == -32602


def test_the_form_with_a_cursor_per_channel_is_served(host, peer):
    subscribed(host, peer)
    subscribed(host, peer, "ahp-terminal:/t2")
    seen = host.state.server_seq
    host.state.publish(URI, TerminalDataAction(data="a"))
    wanted = [(URI, seen), ("ahp-terminal:/t2", 0), ("ahp-terminal:/gone", 5)]
    answer = host.connect().ask(
        "reconnect", clientId="c1", subscriptions=[{"channel": c, "lastSeenServerSeq": s} for c, s in wanted]
    )
    replay, snapshot, missing = answer["result"]["channels"]
    assert (replay["kind"], replay["actions"][0]["action"]["data"]) == ("replay", "a")
    assert (snapshot["kind"], snapshot["snapshot"]["resource"]) == ("snapshot", "ahp-terminal:/t2")
    assert missing == {"kind": "missing", "channel": "ahp-terminal:/gone"}


# --- the client's end ---------------------------------------------------------------------------------------------------------


class Pair:
    """A ClientConnection and the host's end of it, over a link that can be cut."""

    def __init__(self, host: Host, client_id: str = "c1", role: str = "person") -> None:
        self.host = host
        self.client = ClientConnection(client_id=client_id, client_info=Implementation(name="test"))
        self.peer = host.connect(role=role)
        self.client.initialize([ROOT_URI])
        self.events: list[Any] = []
        self.flow()

    def flow(self) -> None:
        """Let everything through in both directions until nothing is left."""
        while True:
            up = self.client.data_to_send()
            for frame in up:
                for call in self.peer.connection.receive(frame):
                    self.host.perform(call)
            down = self.peer.connection.data_to_send(1 << 30)
            for frame in down:
                self.events += self.client.receive(frame)
            if not up and not down:
                return

    def cut(self) -> None:
        self.peer.connection.close()
        self.peer = self.host.connect()
        self.client.reconnect()

    def subscribe(self, uri: str = URI) -> None:
        self.client.subscribe(uri)
        self.flow()


def host_view(host: Host, uri: str) -> Any:
    return to_builtins(host.state.snapshot(None, uri).state)


def test_a_client_mirrors_what_it_has_subscribed_to(host):
    pair = Pair(host)
    assert pair.client.protocol_version == "1.0.0"
    assert pair.client.extensions == {"x-terminal": {"version": 1}}
    host.make()
    pair.subscribe()
    host.state.publish(URI, TerminalDataAction(data="a"))
    pair.flow()
    assert to_builtins(pair.client.state(URI)) == host_view(host, URI)
    assert to_builtins(pair.client.state(ROOT_URI)) == host_view(host, ROOT_URI)
    assert pair.client.subscriptions == [ROOT_URI, URI]
    assert pair.client.state("ahp-terminal:/other") is None
    pair.client.unsubscribe(URI)
    pair.flow()
    assert pair.client.state(URI) is None
    host.state.publish(URI, TerminalDataAction(data="b"))
    assert pair.peer.read() == []


def test_an_answer_comes_as_an_event_with_its_result_or_error(host):
    pair = Pair(host)
    pair.events.clear()
    good = pair.client.request("listSessions", {"channel": ROOT_URI})
    bad = pair.client.subscribe("ahp-terminal:/none")
    pair.flow()
    first, second = pair.events
    assert (first.id, bytes(first.result)) == (good, b'{"items":[]}')
    assert (second.id, second.result, second.error.code) == (bad, None, -32008)


def test_a_dispatched_action_shows_at_once_and_is_settled_by_its_echo(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    pair.client.dispatch(URI, TerminalResizedAction(cols=100, rows=30))
    assert pair.client.state(URI).cols == 100
    host.state.publish(URI, TerminalTitleChangedAction(title="meanwhile"))
    pair.flow()
    assert pair.client.state(URI).cols == 100
    assert pair.client.state(URI).title == "meanwhile"
    assert to_builtins(pair.client.state(URI)) == host_view(host, URI)


def test_a_pending_action_stays_applied_over_what_others_do(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    pair.client.dispatch(URI, TerminalResizedAction(cols=100, rows=30))
    host.state.publish(URI, TerminalResizedAction(cols=50, rows=10))
    for frame in pair.peer.connection.data_to_send():
        pair.client.receive(frame)
    assert pair.client.state(URI).cols == 100


def test_a_rejected_action_falls_back_to_what_is_confirmed(host):
    host.make(holder="c2")
    host.connect().initialize("c2")
    pair = Pair(host)
    pair.subscribe()
    pair.client.dispatch(URI, TerminalResizedAction(cols=1, rows=1))
    assert pair.client.state(URI).cols == 1
    pair.flow()
    assert pair.client.state(URI).cols == 80
    rejected = [e.envelope for e in pair.events if isinstance(e, Changed) and e.envelope and e.envelope.rejection_reason]
    assert rejected[0].rejection_reason == "held by somebody"


def test_an_action_on_a_channel_without_a_mirror_is_only_sent(host):
    pair = Pair(host)
    host.make()
    pair.client.dispatch(URI, TerminalClaimedAction(claim=TerminalClientClaim(client_id="c1")))
    pair.flow()
    assert host.calls[-1].method == "dispatchAction"


def test_a_client_comes_back_after_a_cut_without_gap_or_repeat(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    host.state.publish(URI, TerminalDataAction(data="a"))
    pair.flow()
    pair.client.dispatch(URI, TerminalResizedAction(cols=100, rows=30))
    pair.cut()
    host.state.publish(URI, TerminalDataAction(data="b"))
    pair.flow()
    host.state.publish(URI, TerminalDataAction(data="c"))
    pair.flow()
    assert pair.client.state(URI).content[0].value == "abc"
    assert pair.client.state(URI).cols == 80


def test_a_later_subscriptions_snapshot_does_not_hide_what_was_still_on_its_way(host):
    pair = Pair(host)
    host.make()
    host.make("ahp-terminal:/t2")
    pair.subscribe()
    host.state.publish(URI, TerminalDataAction(data="a"))  # queued, and lost with the socket
    pair.peer.connection.data_to_send()
    pair.client.subscribe("ahp-terminal:/t2")
    for frame in pair.client.data_to_send():
        pair.peer.connection.receive(frame)
    for frame in pair.peer.connection.data_to_send():
        pair.client.receive(frame)
    pair.cut()
    pair.flow()
    assert pair.client.state(URI).content[0].value == "a"
    assert to_builtins(pair.client.state("ahp-terminal:/t2")) == host_view(host, "ahp-terminal:/t2")


def test_a_client_comes_back_to_a_host_that_has_forgotten_everything(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    pair.host = Host()
    pair.cut()
    pair.flow()
    assert Lost(URI) in pair.events
    assert pair.client.state(URI) is None
    assert pair.client.state(ROOT_URI).terminals == ()


def test_a_client_comes_back_too_late_for_a_replay():
    host = Host(replay_entries=3)
    pair = Pair(host)
    host.make()
    pair.subscribe()
    host.make("ahp-terminal:/t2")
    pair.subscribe("ahp-terminal:/t2")
    pair.peer.connection.close()
    for _ in range(10):
        host.state.publish(URI, TerminalDataAction(data="x"))
    host.state.remove_terminal("ahp-terminal:/t2")
    pair.peer = host.connect()
    pair.client.reconnect()
    pair.flow()
    assert pair.client.state(URI).content[0].value == "x" * 10
    assert Lost("ahp-terminal:/t2") in pair.events


def test_a_replay_that_misses_a_terminal_loses_it(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    pair.cut()
    host.state.remove_terminal(URI)
    pair.flow()
    assert Lost(URI) in pair.events


def test_a_client_that_was_never_let_in_begins_anew(host):
    client = ClientConnection(client_id="c1", client_info=Implementation(name="test"))
    client.initialize()
    client.reconnect()
    (frame,) = client.data_to_send()
    assert json.loads(frame)["method"] == "initialize"
    assert "initialSubscriptions" not in json.loads(frame)["params"]


def test_what_a_client_cannot_use_is_ignored(host):
    pair = Pair(host)
    assert pair.client.receive('{"jsonrpc":"2.0","method":"root/sessionAdded","params":{}}') == []
    assert pair.client.receive('{"jsonrpc":"2.0","id":1,"method":"resourceRead","params":{}}') == []
    assert pair.client.receive('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}') == []
    envelope = {"channel": "ahp-terminal:/other", "serverSeq": 99, "action": {"type": "terminal/cleared"}}
    assert pair.client.receive(json.dumps({"jsonrpc": "2.0", "method": "action", "params": envelope})) == []
    with pytest.raises(ProtocolError):
        pair.client.receive("{")
    assert isinstance(pair.client.receive('{"jsonrpc":"2.0","id":99,"result":{}}')[0], Answer)
    stateless = pair.client.subscribe("ahp-otlp:/logs")
    (answer,) = pair.client.receive(json.dumps({"jsonrpc": "2.0", "id": stateless, "result": {}}))
    assert (answer.id, answer.error) == (stateless, None)
    assert "ahp-otlp:/logs" not in pair.client.subscriptions


def test_what_a_newer_host_says_is_kept(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    envelope = {"channel": URI, "serverSeq": 999, "action": {"type": "terminal/newer", "x": 1}}
    (event,) = pair.client.receive(json.dumps({"jsonrpc": "2.0", "method": "action", "params": envelope}))
    assert to_builtins(event.envelope) == envelope
    assert to_builtins(pair.client.state(URI)) == host_view(host, URI)


def test_a_mirror_is_bounded(host):
    pair = Pair(host)
    host.make()
    pair.subscribe()
    for _ in range(40):
        host.state.publish(URI, TerminalDataAction(data="x" * 9999 + "\n"))
        pair.flow()
    assert len(pair.client.state(URI).content[0].value) <= 250_000


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("data"), st.text(max_size=5)),
            st.tuples(st.just("exec"), st.just("")),
            st.tuples(st.just("fin"), st.just("")),
            st.tuples(st.just("clear"), st.just("")),
            st.tuples(st.just("resize"), st.integers(1, 999).map(str)),
            st.tuples(st.just("flow"), st.just("")),
            st.tuples(st.just("cut"), st.just("")),
            st.tuples(st.just("subscribe"), st.just("")),
        ),
        max_size=30,
    ),
    st.sampled_from([3, 4000]),
)
def test_whatever_happens_a_client_that_has_caught_up_shows_the_hosts_state(steps, replay_entries):
    host = Host(replay_entries=replay_entries)
    pair = Pair(host)
    host.make()
    pair.subscribe()
    for number, (step, text) in enumerate(steps):
        if step == "data":
            host.state.publish(URI, TerminalDataAction(data=text))
        elif step == "exec":
            host.state.publish(URI, TerminalCommandExecutedAction(command_id="c", command_line="x", timestamp=number))
        elif step == "fin":
            host.state.publish(URI, TerminalCommandFinishedAction(command_id="c", exit_code=number))
        elif step == "clear":
            pair.client.dispatch(URI, TerminalClearedAction())
        elif step == "resize":
            pair.client.dispatch(URI, TerminalResizedAction(cols=int(text), rows=1))
        elif step == "flow":
            pair.flow()
        elif step == "cut":
            pair.cut()
        else:
            pair.client.subscribe(URI)
    pair.flow()
    assert to_builtins(pair.client.state(URI)) == host_view(host, URI)
