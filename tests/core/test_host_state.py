"""HostState: numbering, replay, snapshots, and who may do what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.core.host_state import ClientRecord, HostState, TerminalChannel
from jupyter_ext.protocol.messages import ActionEnvelope, ActionOrigin, encode
from jupyter_ext.protocol.reducers import terminal_reducer
from jupyter_ext.protocol.terminal import (
    ROOT_URI,
    InfoChangedAction,
    RootState,
    RootTerminalsChangedAction,
    TerminalClaimedAction,
    TerminalClientClaim,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalDataAction,
    TerminalDetails,
    TerminalExitedAction,
    TerminalInputAction,
    TerminalLifecycle,
    TerminalResizedAction,
    TerminalSessionClaim,
    TerminalState,
    TerminalTitleChangedAction,
)


class Reader:
    """A subscriber that keeps what it is given."""

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.got: list[ActionEnvelope] = []

    def deliver(self, envelope: ActionEnvelope) -> None:
        self.got.append(envelope)


def terminal(holder: str = "c1") -> TerminalState:
    return TerminalState(
        title="sh",
        content=(),
        claim=TerminalClientClaim(client_id=holder),
        lifecycle=TerminalLifecycle(status="running"),
        cols=80,
        rows=24,
    )


def client(state: HostState, client_id: str, *, role="person", user=None, live=True) -> ClientRecord:
    record = ClientRecord(
        client_id=client_id, user=user, role=role, title=f"title of {client_id}", protocol_version="1.0.0", x_terminal=True
    )
    if live:
        record.connections.add(Reader(user))
    state.remember(record)
    return record


@pytest.fixture
def state() -> HostState:
    return HostState()


def test_each_envelope_is_numbered_one_higher_over_all_channels(state):
    reader = Reader()
    state.subscribe(reader, ROOT_URI)
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    state.subscribe(reader, "ahp-terminal:/a")
    state.publish("ahp-terminal:/a", TerminalDataAction(data="x"))
    state.publish("ahp-terminal:/a", TerminalDataAction(data="y"))
    assert [e.server_seq for e in reader.got] == [2, 3, 4]


def test_an_envelope_after_a_snapshot_has_a_greater_number_and_is_not_in_it(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    state.publish("ahp-terminal:/a", TerminalDataAction(data="before"))
    reader = Reader()
    snapshot = state.subscribe(reader, "ahp-terminal:/a")
    state.publish("ahp-terminal:/a", TerminalDataAction(data="after"))
    assert snapshot.state.content[0].value == "before"
    assert [e.server_seq for e in reader.got] == [snapshot.from_seq + 1]


def test_a_subscription_to_an_unknown_channel_is_none(state):
    assert state.subscribe(Reader(), "ahp-terminal:/a") is None


def test_unsubscribing_ends_delivery_and_an_unknown_channel_is_ignored(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    reader = Reader()
    for uri in ("ahp-terminal:/a", ROOT_URI):
        state.subscribe(reader, uri)
        state.unsubscribe(reader, uri)
    state.unsubscribe(reader, "ahp-terminal:/none")
    state.publish("ahp-terminal:/a", TerminalDataAction(data="x"))
    state.publish_terminals()
    assert reader.got == []


def test_an_exit_is_written_in_both_forms(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    assert "exitCode" not in encode(state.snapshot(None, "ahp-terminal:/a")).decode()
    state.publish("ahp-terminal:/a", TerminalExitedAction(exit_code=0))
    state.publish_terminals()
    wire = encode(state.snapshot(None, "ahp-terminal:/a")).decode()
    assert '"exitCode":0' in wire
    assert '"lifecycle":{"status":"exited","exitCode":0}' in wire
    root = state.snapshot(None, ROOT_URI).state
    assert isinstance(root, RootState)
    assert root.terminals[0].exit_code == 0
    assert root.terminals[0].lifecycle == TerminalLifecycle(status="exited", exit_code=0)


def test_an_exit_without_a_code_is_an_exit_all_the_same(state):
    channel = state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    state.publish("ahp-terminal:/a", TerminalExitedAction())
    assert channel.has_exited
    assert "exitCode" not in encode(state.snapshot(None, "ahp-terminal:/a")).decode()


def test_a_channel_is_added_once(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    with pytest.raises(ValueError, match="exists"):
        state.add_terminal("ahp-terminal:/a", terminal(), user=None)


def test_content_is_trimmed_to_what_is_retained():
    state = HostState(retained_chars=1000)
    channel = state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    for number in range(500):
        state.publish("ahp-terminal:/a", TerminalDataAction(data=f"line {number}\r\n"))
    value = channel.state.content[0].value
    assert len(value) <= 1000
    assert value.startswith("line ")
    assert value.endswith("line 499\r\n")


# --- replay ---------------------------------------------------------------------------------------------------------------


def test_a_replay_continues_a_state_exactly(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    state.publish("ahp-terminal:/a", TerminalDataAction(data="one"))
    seen = state.snapshot(None, "ahp-terminal:/a")
    state.publish("ahp-terminal:/a", TerminalCommandExecutedAction(command_id="c1", command_line="ls", timestamp=1))
    state.publish("ahp-terminal:/a", TerminalDataAction(data="two"))
    state.publish("ahp-terminal:/a", TerminalCommandFinishedAction(command_id="c1", exit_code=0))
    assert state.can_replay(["ahp-terminal:/a"], seen.from_seq)
    mirror = seen.state
    for envelope in state.replay_since(None, ["ahp-terminal:/a"], seen.from_seq):
        mirror = terminal_reducer(mirror, envelope.action)
    assert mirror == state.terminals["ahp-terminal:/a"].state


def test_a_cursor_ahead_of_the_host_cannot_be_replayed(state):
    assert state.can_replay([], state.server_seq)
    assert not state.can_replay([], state.server_seq + 1)


def test_a_terminal_made_after_the_cursor_cannot_be_replayed(state):
    seen = state.server_seq
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    assert not state.can_replay(["ahp-terminal:/a"], seen)
    assert state.can_replay(["ahp-terminal:/gone"], seen)


@pytest.mark.parametrize("bound", [{"replay_bytes": 2000}, {"replay_entries": 5}])
def test_the_log_is_bounded_and_knows_what_it_has_dropped(bound):
    state = HostState(**bound)
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    old = state.server_seq
    for _ in range(20):
        state.publish("ahp-terminal:/a", TerminalDataAction(data="x" * 100))
    assert not state.can_replay(["ahp-terminal:/a"], old)
    assert len(state.replay_since(None, ["ahp-terminal:/a"], 0)) < 10
    recent = state.server_seq - 1
    assert state.can_replay(["ahp-terminal:/a"], recent)
    assert len(state.replay_since(None, ["ahp-terminal:/a"], recent)) == 1


@given(st.lists(st.sampled_from(["data", "exec", "fin", "clear", "title"]), max_size=40), st.data())
def test_replay_from_any_point_gives_the_present_state(steps, data):
    state = HostState()
    uri = "ahp-terminal:/a"
    state.add_terminal(uri, terminal(), user=None)
    snapshots = [state.snapshot(None, uri)]
    for number, step in enumerate(steps):
        action = {
            "data": TerminalDataAction(data=f"{number};"),
            "exec": TerminalCommandExecutedAction(command_id=f"c{number}", command_line="x", timestamp=number),
            "fin": TerminalCommandFinishedAction(command_id=f"c{number - 1}", exit_code=1),
            "clear": TerminalResizedAction(cols=number + 1, rows=1),
            "title": TerminalTitleChangedAction(title=str(number)),
        }[step]
        state.publish(uri, action)
        snapshots.append(state.snapshot(None, uri))
    snapshot = data.draw(st.sampled_from(snapshots))
    mirror = snapshot.state
    for envelope in state.replay_since(None, [uri], snapshot.from_seq):
        mirror = terminal_reducer(mirror, envelope.action)
    assert mirror == state.terminals[uri].state


# --- private envelopes ----------------------------------------------------------------------------------------------------


def test_a_private_envelope_reaches_one_connection_and_no_replay(state):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    typist, watcher = Reader(), Reader()
    state.subscribe(typist, "ahp-terminal:/a")
    state.subscribe(watcher, "ahp-terminal:/a")
    seen = state.server_seq
    state.send_privately(typist, "ahp-terminal:/a", TerminalInputAction(data="secret"))
    assert len(typist.got) == 1
    assert watcher.got == []
    assert state.replay_since(None, ["ahp-terminal:/a"], seen) == []


@pytest.mark.parametrize(
    ("action", "truth"),
    [
        (TerminalResizedAction(cols=1, rows=1), TerminalResizedAction(cols=80, rows=24)),
        (
            TerminalClaimedAction(claim=TerminalClientClaim(client_id="c9")),
            TerminalClaimedAction(claim=TerminalClientClaim(client_id="c1")),
        ),
        (TerminalTitleChangedAction(title="mine"), TerminalTitleChangedAction(title="sh")),
        (TerminalInputAction(data="x"), None),
    ],
)
def test_a_rejection_is_echoed_to_its_sender_and_followed_by_the_truth(state, action, truth):
    state.add_terminal("ahp-terminal:/a", terminal(), user=None)
    sender, watcher = Reader(), Reader()
    state.subscribe(watcher, "ahp-terminal:/a")
    state.reject(sender, "ahp-terminal:/a", action, ActionOrigin(client_id="c2", client_seq=4), "no")
    assert sender.got[0].rejection_reason == "no"
    assert sender.got[0].origin == ActionOrigin(client_id="c2", client_seq=4)
    assert [e.action for e in sender.got[1:]] == ([] if truth is None else [truth])
    assert watcher.got == []
    assert state.terminals["ahp-terminal:/a"].state == terminal()


def test_a_rejection_on_the_root_channel_has_no_correction(state):
    sender = Reader()
    state.reject(sender, ROOT_URI, TerminalInputAction(data="x"), ActionOrigin(client_id="c", client_seq=1), "no")
    assert len(sender.got) == 1


def test_a_size_that_is_not_known_is_not_restored(state):
    state.add_terminal(
        "ahp-terminal:/a", TerminalState(title="", content=(), claim=TerminalClientClaim(client_id="c1")), user=None
    )
    sender = Reader()
    state.reject(
        sender, "ahp-terminal:/a", TerminalResizedAction(cols=1, rows=1), ActionOrigin(client_id="c", client_seq=1), "no"
    )
    assert len(sender.got) == 1


# --- several users --------------------------------------------------------------------------------------------------------


def details() -> TerminalDetails:
    return TerminalDetails(shell="sh", login=False, pid=1, tracking="yes")


def test_another_users_terminal_does_not_exist(state):
    ann, bob, everybody = Reader("ann"), Reader("bob"), Reader("ann")
    state.subscribe(ann, ROOT_URI)
    state.subscribe(bob, ROOT_URI)
    state.subscribe(everybody, ROOT_URI)
    state.add_terminal("ahp-terminal:/a", terminal(), user="ann")
    state.add_terminal("ahp-terminal:/k", terminal(), user=None)
    seen = state.server_seq
    state.publish(ROOT_URI, InfoChangedAction(resource="ahp-terminal:/a", details=details()))
    assert state.subscribe(bob, "ahp-terminal:/a") is None
    assert not state.exists("bob", "ahp-terminal:/a")
    assert state.exists("bob", ROOT_URI)
    lists = [e.action for e in bob.got if isinstance(e.action, RootTerminalsChangedAction)]
    assert [info.resource for info in lists[-1].terminals] == ["ahp-terminal:/k"]
    assert not any(isinstance(e.action, InfoChangedAction) for e in bob.got)
    assert any(isinstance(e.action, InfoChangedAction) for e in ann.got)
    assert [i.resource for i in state.snapshot("bob", ROOT_URI).state.terminals] == ["ahp-terminal:/k"]
    assert state.replay_since("bob", [ROOT_URI], seen) == []
    assert len(state.replay_since("ann", [ROOT_URI], seen)) == 1


# --- authority ------------------------------------------------------------------------------------------------------------


def claim_of(record: ClientRecord) -> TerminalClientClaim:
    return TerminalClientClaim(client_id=record.client_id)


def channel_held_by(state: HostState, client_id: str, *, busy: bool = False, submitter: str | None = None) -> TerminalChannel:
    return state.add_terminal(
        "ahp-terminal:/a", terminal(client_id), user=None, is_busy=lambda: busy, submitter=lambda: submitter
    )


@pytest.mark.parametrize("operation", ["input", "resize", "title", "clear", "signal", "dispose"])
def test_the_holder_may_do_everything_and_a_watcher_nothing(state, operation):
    holder, watcher = client(state, "c1"), client(state, "c2")
    channel = channel_held_by(state, "c1")
    assert state.refusal(holder, channel, operation) is None
    assert state.refusal(watcher, channel, operation) == "held by title of c1"


def test_who_submitted_the_command_may_signal_it(state):
    client(state, "c1")
    submitter = client(state, "c2")
    channel = channel_held_by(state, "c1", submitter="c2")
    assert state.refusal(submitter, channel, "signal") is None
    assert state.refusal(submitter, channel, "input") is not None


def test_who_may_take_the_claim_may_signal_without_taking_it(state):
    person, kernel = client(state, "p"), client(state, "k", role="kernel")
    held = channel_held_by(state, "k", busy=True)
    assert state.refusal(person, held, "signal") is None
    assert state.refusal(person, held, "input") == "held by title of k"
    state.remove_terminal(held.uri)
    held = channel_held_by(state, "p", busy=True)
    assert state.refusal(kernel, held, "signal") == "held by title of p"


def test_anybody_may_dispose_what_has_exited_or_whose_holder_has_gone(state):
    client(state, "c1")
    other = client(state, "c2")
    channel = channel_held_by(state, "c1")
    assert state.refusal(other, channel, "dispose") is not None
    state.publish(channel.uri, TerminalExitedAction(exit_code=0))
    assert state.refusal(other, channel, "dispose") is None
    state.remove_terminal(channel.uri)
    client(state, "c3", live=False)
    channel = channel_held_by(state, "c3")
    assert state.refusal(other, channel, "dispose") is None
    assert state.refusal(other, channel, "input") is not None


def test_the_holder_hands_over_to_a_client_that_exists(state):
    holder, other = client(state, "c1"), client(state, "c2")
    channel = channel_held_by(state, "c1")
    assert state.claim_refusal(holder, channel, claim_of(other)) is None
    assert state.claim_refusal(holder, channel, claim_of(holder)) is None
    assert state.claim_refusal(holder, channel, TerminalClientClaim(client_id="nobody")) == "no such client"
    assert state.claim_refusal(holder, channel, TerminalSessionClaim(session="ahp-session:/s")) == "no such session"


def test_nobody_else_hands_over_or_takes_from_a_live_holder(state):
    client(state, "c1")
    other, third = client(state, "c2"), client(state, "c3")
    channel = channel_held_by(state, "c1")
    assert state.claim_refusal(other, channel, claim_of(third)) == "held by title of c1"
    assert state.claim_refusal(other, channel, claim_of(other)) == "held by title of c1"


def test_a_holder_that_has_gone_is_taken_over(state):
    client(state, "c1", live=False)
    other = client(state, "c2")
    channel = channel_held_by(state, "c1")
    assert state.claim_refusal(other, channel, claim_of(other)) is None
    assert state.holder_name(TerminalClientClaim(client_id="never")) == "a client that has gone"


def test_a_person_takes_from_a_kernel_and_a_kernel_takes_back_while_no_command_runs(state):
    person, kernel, second = client(state, "p"), client(state, "k", role="kernel"), client(state, "k2", role="kernel")
    held = channel_held_by(state, "k", busy=True)
    assert state.claim_refusal(person, held, claim_of(person)) is None
    assert state.claim_refusal(second, held, claim_of(second)) == "held by title of k"
    state.remove_terminal(held.uri)
    idle = channel_held_by(state, "p")
    assert state.claim_refusal(kernel, idle, claim_of(kernel)) is None
    state.remove_terminal(idle.uri)
    busy = channel_held_by(state, "p", busy=True)
    assert state.claim_refusal(kernel, busy, claim_of(kernel)) == "held by title of p, and a command runs"


def test_a_session_holds_against_every_client(state):
    other = client(state, "c2")
    channel = state.add_terminal(
        "ahp-terminal:/a",
        TerminalState(title="", content=(), claim=TerminalSessionClaim(session="ahp-session:/s", chat="ahp-chat:/c")),
        user=None,
    )
    assert state.claim_refusal(other, channel, claim_of(other)) == "held by an agent session"
    assert state.refusal(other, channel, "dispose") == "held by an agent session"
    assert state.holder_connections(channel) == set()


def test_a_client_of_another_user_cannot_be_given_a_terminal(state):
    holder = client(state, "c1", user="ann")
    stranger = client(state, "c2", user="bob")
    channel = state.add_terminal("ahp-terminal:/a", terminal("c1"), user="ann")
    assert state.claim_refusal(holder, channel, claim_of(stranger)) == "no such client"


def test_the_holders_connections_are_those_that_are_subscribed(state):
    holder = client(state, "c1")
    channel = channel_held_by(state, "c1")
    assert state.holder_connections(channel) == set()
    (reader,) = holder.connections
    state.subscribe(reader, channel.uri)
    assert state.holder_connections(channel) == {reader}
    state.disconnect(reader, "c1")
    assert state.holder_connections(channel) == set()
    assert not state.is_connected("c1")
    state.disconnect(reader, None)


def test_clients_without_a_connection_are_forgotten_when_there_are_too_many(state):
    client(state, "live")
    for number in range(1100):
        client(state, f"c{number}", live=False)
    assert len(state.clients) == 1000
    assert "live" in state.clients
    assert "c0" not in state.clients
    assert "c1099" in state.clients
