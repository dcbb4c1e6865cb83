"""AHP's terminal and root types: open unions, what is written, and the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from jupyter_ext.protocol import terminal
from jupyter_ext.protocol.messages import decode_result, encode, to_builtins
from jupyter_ext.protocol.terminal import (
    ACTIONS,
    CLIENT_DISPATCHABLE,
    CreateTerminalParams,
    DisposeTerminalParams,
    RootConfig,
    RootState,
    RunParams,
    StateAction,
    SubmittedBy,
    TerminalClientClaim,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCommandPart,
    TerminalCreationMeta,
    TerminalCreationOptions,
    TerminalDetails,
    TerminalExitedAction,
    TerminalInfo,
    TerminalInputAction,
    TerminalLifecycle,
    TerminalMeta,
    TerminalPartMeta,
    TerminalSessionClaim,
    TerminalState,
    TerminalSubmission,
    TerminalUnclassifiedPart,
    UnknownAction,
    UnknownClaim,
    UnknownPart,
    open_variant,
)

SCHEMA = json.loads(Path(__file__).parents[1].joinpath("fixtures/ahp/schema/terminal.schema.json").read_text())

CLIENT = TerminalClientClaim(client_id="c1")
SESSION = TerminalSessionClaim(session="ahp-session:/s", chat="ahp-chat:/s", turn_id="t", tool_call_id="tc")
DETAILS = TerminalDetails(shell="bash", login=False, pid=1, tracking="pending")
RUNNING = TerminalLifecycle(status="running")
INFO = TerminalInfo(
    resource="ahp-terminal:/a", title="a", claim=SESSION, lifecycle=RUNNING, meta=TerminalMeta(x_terminal=DETAILS)
)
SUBMITTED = TerminalPartMeta(x_terminal=TerminalSubmission(by=SubmittedBy(client_id="k", role="kernel"), run_id="r"))
COMMAND = TerminalCommandPart(
    command_id="c1", command_line="true", output="", timestamp=1, is_complete=True, exit_code=0, duration_ms=0, meta=SUBMITTED
)
EMPTY_STATE = TerminalState(title="", content=(), claim=CLIENT)
FULL_STATE = TerminalState(
    title="t",
    content=(TerminalUnclassifiedPart(value="$ "), COMMAND),
    claim=SESSION,
    lifecycle=TerminalLifecycle(status="exited", exit_code=0),
    exit_code=0,
    cwd="file:///tmp",
    cols=80,
    rows=24,
    supports_command_detection=False,
    is_pty=True,
    meta=TerminalMeta(x_terminal=DETAILS),
)

# One value for each action that the schemas know.
SAMPLES: dict[str, StateAction] = {
    "root/agentsChanged": terminal.RootAgentsChangedAction(agents=(terminal.AgentInfo(provider="p", display_name="P"),)),
    "root/activeSessionsChanged": terminal.RootActiveSessionsChangedAction(active_sessions=0),
    "root/terminalsChanged": terminal.RootTerminalsChangedAction(terminals=(INFO,)),
    "root/configChanged": terminal.RootConfigChangedAction(config={}, replace=False),
    "terminal/data": terminal.TerminalDataAction(data=""),
    "terminal/input": TerminalInputAction(data="x"),
    "terminal/resized": terminal.TerminalResizedAction(cols=80, rows=24),
    "terminal/claimed": terminal.TerminalClaimedAction(claim=SESSION),
    "terminal/titleChanged": terminal.TerminalTitleChangedAction(title=""),
    "terminal/cwdChanged": terminal.TerminalCwdChangedAction(cwd="file:///tmp"),
    "terminal/exited": TerminalExitedAction(exit_code=0),
    "terminal/cleared": terminal.TerminalClearedAction(),
    "terminal/commandDetectionAvailable": terminal.TerminalCommandDetectionAvailableAction(),
    "terminal/commandExecuted": TerminalCommandExecutedAction(command_id="c1", command_line="", timestamp=1, meta=SUBMITTED),
    "terminal/commandFinished": TerminalCommandFinishedAction(command_id="c1", exit_code=0, duration_ms=0),
}


def validate(definition: str, value: Any) -> None:
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{definition}"}).validate(to_builtins(value))


# --- what is written ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", SAMPLES)
def test_an_action_is_written_as_its_published_schema_says(tag: str) -> None:
    action = SAMPLES[tag]
    validate(type(action).__name__, action)
    assert to_builtins(action)["type"] == tag


def test_every_public_action_has_a_sample_here() -> None:
    assert SAMPLES.keys() == {tag for tag in ACTIONS if not tag.startswith("x-")}


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("TerminalState", EMPTY_STATE),
        ("TerminalState", FULL_STATE),
        ("TerminalInfo", INFO),
        ("RootState", RootState(agents=())),
        ("RootState", RootState(agents=(), active_sessions=0, terminals=(INFO,))),
        ("RootState", RootState(agents=(), config=RootConfig(schema={"type": "object", "properties": {}}, values={}))),
        ("CreateTerminalParams", CreateTerminalParams(channel="ahp-terminal:/a", claim=CLIENT, name="a", cols=80, rows=24)),
        ("DisposeTerminalParams", DisposeTerminalParams(channel="ahp-terminal:/a")),
    ],
)
def test_a_state_or_params_are_written_as_their_published_schema_says(definition: str, value: Any) -> None:
    validate(definition, value)


def test_an_empty_required_member_is_written_and_an_absent_optional_one_is_not() -> None:
    assert to_builtins(EMPTY_STATE) == {"title": "", "content": [], "claim": {"kind": "client", "clientId": "c1"}}
    assert to_builtins(COMMAND)["output"] == ""
    assert to_builtins(TerminalExitedAction()) == {"type": "terminal/exited"}


def test_false_and_zero_are_written_where_they_are_said() -> None:
    written = to_builtins(FULL_STATE)
    assert written["supportsCommandDetection"] is False
    assert written["exitCode"] == 0
    assert written["lifecycle"] == {"status": "exited", "exitCode": 0}


def test_the_extension_rides_under_its_own_key_in_meta() -> None:
    params = CreateTerminalParams(
        channel="ahp-terminal:/a",
        claim=CLIENT,
        meta=TerminalCreationMeta(x_terminal=TerminalCreationOptions(shell="zsh", env={"A": None})),
    )
    assert to_builtins(params)["_meta"] == {"x-terminal": {"shell": "zsh", "env": {"A": None}}}
    assert to_builtins(COMMAND)["_meta"] == {"x-terminal": {"by": {"clientId": "k", "role": "kernel"}, "runId": "r"}}


@pytest.mark.parametrize("value", [EMPTY_STATE, FULL_STATE])
def test_a_state_is_read_back_as_it_was_written(value: TerminalState) -> None:
    assert decode_result(encode(value), TerminalState) == value


def test_null_reads_as_absent() -> None:
    written = {**to_builtins(EMPTY_STATE), "cwd": None, "lifecycle": None, "_meta": None}
    assert decode_result(encode(written), TerminalState) == EMPTY_STATE


# --- open unions --------------------------------------------------------------------------------------------------------


def test_what_a_newer_peer_says_is_kept_and_written_back_as_it_came() -> None:
    written = {
        "title": "t",
        "content": [{"type": "future", "deep": {"a": [1]}}],
        "claim": {"kind": "robot", "x": 1},
        "lifecycle": {"status": "suspended"},
    }
    state = decode_result(encode(written), TerminalState)
    assert state.content == (UnknownPart({"type": "future", "deep": {"a": [1]}}),)
    assert state.claim == UnknownClaim({"kind": "robot", "x": 1})
    assert to_builtins(state) == written


def test_an_unknown_variant_tells_its_tag_and_is_equal_to_its_like() -> None:
    action = UnknownAction({"type": "a/b", "secret": "hunter2"})
    assert action.tag == "a/b"
    assert UnknownClaim({"kind": 1}).tag == ""
    assert action == UnknownAction({"type": "a/b", "secret": "hunter2"})
    assert len({action, UnknownAction(dict(action.raw)), UnknownPart(action.raw)}) == 2
    assert repr(action) == "UnknownAction('a/b')"


@pytest.mark.parametrize("value", [None, 1, "client", [], {}, {"kind": None}, {"kind": 3}])
def test_a_variant_without_a_tag_is_refused(value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        open_variant(terminal.TerminalClaim, value)


def test_a_known_variant_with_wrong_members_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        open_variant(terminal.TerminalClaim, {"kind": "client", "clientId": 3})


def test_only_public_actions_may_be_dispatched_by_a_client() -> None:
    assert ACTIONS.keys() > CLIENT_DISPATCHABLE
    assert not any(tag.startswith("x-") for tag in CLIENT_DISPATCHABLE)


# --- what is not shown --------------------------------------------------------------------------------------------------


def test_no_repr_shows_what_was_typed_or_submitted() -> None:
    assert repr(TerminalInputAction(data="hunter2\r")) == "TerminalInputAction(<8 characters>)"
    assert "hunter2" not in repr(RunParams(channel="ahp-terminal:/a", text="echo hunter2", run_id="r1"))
