"""Frames, envelopes, params, versions: what is read, what is refused, and with which code."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.protocol import messages
from jupyter_ext.protocol.messages import (
    MAX_DEPTH,
    MAX_MESSAGE_CHARS,
    NO_PARAMS,
    SUPPORTED_VERSIONS,
    ActionEnvelope,
    DispatchActionParams,
    ErrorCode,
    Implementation,
    InitializeParams,
    InitializeResult,
    MalformedAction,
    Notification,
    PartialSessionSummary,
    ProtocolError,
    ReconnectChannel,
    ReconnectParams,
    ReconnectReplayResult,
    Request,
    Response,
    RpcError,
    SessionAddedParams,
    SessionSummary,
    Snapshot,
    SubscribeDelivery,
    SubscribeParams,
    UnsubscribeParams,
    decode_action,
    decode_envelope,
    decode_frame,
    decode_params,
    decode_result,
    encode,
    negotiate,
    to_builtins,
)
from jupyter_ext.protocol.terminal import (
    CreateTerminalParams,
    RootState,
    RunParams,
    TerminalDataAction,
    UnknownAction,
)

AHP = Path(__file__).parents[1] / "fixtures" / "ahp"
SCHEMA = json.loads((AHP / "schema" / "terminal.schema.json").read_text())


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def refusal(call: Callable[[], Any]) -> ProtocolError:
    with pytest.raises(ProtocolError) as info:
        call()
    return info.value


# --- published round trips ----------------------------------------------------------------------------------------------

# How to read each type of the round trips again. A status is a member of a summary, and StringOrMarkdown is no type of a
# terminal's: a message that may be one is text here.
READERS: dict[str, Callable[[bytes], Any]] = {
    "ActionEnvelope": decode_envelope,
    "StateAction": decode_action,
    "JsonRpcMessage": lambda data: {"jsonrpc": "2.0", **to_builtins(decode_frame(data))},
    "SessionStatus": lambda data: decode_result(data, int),
    "SessionSummary": lambda data: decode_result(data, SessionSummary),
    "PartialSessionSummary": lambda data: decode_result(data, PartialSessionSummary),
    "SessionAddedParams": lambda data: decode_result(data, SessionAddedParams),
    "Implementation": lambda data: decode_result(data, Implementation),
}
ROUND_TRIPS = [json.loads(path.read_text()) for path in sorted((AHP / "round_trips").glob("*.json"))]


@pytest.mark.parametrize(
    "case", [case for case in ROUND_TRIPS if case["type"] != "StringOrMarkdown"], ids=lambda case: str(case["name"])
)
def test_a_round_trip_fixture_gives_its_only_output(case: dict[str, Any]) -> None:
    value = READERS[case["type"]](json.dumps(case["input"]).encode())
    assert to_builtins(value) == case["acceptableOutputs"][0]


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("InitializeParams", InitializeParams(protocol_versions=("1.0.0",), client_id="c", channel="ahp-root://")),
        ("SubscribeParams", SubscribeParams(channel="ahp-root://", delivery=SubscribeDelivery(max_latency_ms=0))),
        ("UnsubscribeParams", UnsubscribeParams(channel="ahp-root://")),
        (
            "ReconnectParams",
            ReconnectParams(client_id="c", subscriptions=(), channel="ahp-root://", last_seen_server_seq=0),
        ),
    ],
)
def test_params_are_written_as_their_published_schema_says(definition: str, value: Any) -> None:
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{definition}"}).validate(to_builtins(value))


# --- frames -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [1, 0, "a", 1.5, 2**53])
def test_a_request_keeps_its_id_as_it_came(id: float | str) -> None:
    request = decode_frame(frame(id=id, method="ping", params={"channel": "ahp-root://"}))
    assert isinstance(request, Request)
    assert (request.id, request.method) == (id, "ping")
    assert type(request.id) is type(id)


@pytest.mark.parametrize("members", [{}, {"params": None}, {"params": {}}])
def test_a_frame_without_params_has_empty_ones(members: dict[str, Any]) -> None:
    assert decode_frame(frame(method="ping", **members)) == Notification(method="ping", params=NO_PARAMS)


def test_a_frame_with_a_null_id_and_a_method_wants_no_answer() -> None:
    assert isinstance(decode_frame(frame(id=None, method="ping")), Notification)


def test_a_null_result_is_a_success() -> None:
    response = decode_frame(frame(id=1, result=None))
    assert isinstance(response, Response)
    assert response.error is None
    assert response.result is not None
    assert bytes(response.result) == b"null"


def test_an_error_response_brings_code_message_and_data() -> None:
    response = decode_frame(frame(id=None, error={"code": -32008, "message": "gone", "data": [1]}))
    assert response == Response(id=None, error=RpcError(code=-32008, message="gone", data=[1]))


def test_text_and_bytes_are_read_alike() -> None:
    data = frame(method="é中😀")
    assert decode_frame(data.decode()) == decode_frame(data)


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"jsonrpc": "2.0", "method": "\x00"}', "NaN", b"\xff\xfe{"])
def test_what_is_no_json_is_a_parse_error(text: str | bytes) -> None:
    assert refusal(lambda: decode_frame(text)).code == ErrorCode.PARSE_ERROR


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "null",
        "[]",
        '[{"jsonrpc":"2.0","method":"ping"}]',
        '{"jsonrpc":"2.0"}',
        '{"method":"ping"}',
        '{"jsonrpc":"1.0","method":"ping"}',
        '{"jsonrpc":"2.0","method":3}',
        '{"jsonrpc":"2.0","id":{},"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"error":"no"}',
        '{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"y"}}',
        '{"jsonrpc":"2.0","method":"\\ud800","id":{}}',
    ],
)
def test_json_that_is_no_frame_is_an_invalid_request(text: str) -> None:
    assert refusal(lambda: decode_frame(text)).code == ErrorCode.INVALID_REQUEST


def test_a_message_over_the_limit_is_not_parsed() -> None:
    at_limit = frame(method="x", params={"a": ""})
    padding = b" " * (MAX_MESSAGE_CHARS - len(at_limit))
    assert isinstance(decode_frame(at_limit + padding), Notification)
    assert refusal(lambda: decode_frame(at_limit + padding + b" ")).code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_message_nested_too_deep_is_refused(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        inner = depth - 1  # the frame's own object is one
        return '{"jsonrpc":"2.0","method":"x","params":' + opening * inner + "1" + closing * inner + "}"

    assert isinstance(decode_frame(nested(MAX_DEPTH)), Notification)
    assert refusal(lambda: decode_frame(nested(MAX_DEPTH + 1))).code == ErrorCode.INVALID_REQUEST
    assert refusal(lambda: decode_frame(opening * 100_000)).code == ErrorCode.INVALID_REQUEST


def test_brackets_side_by_side_or_in_a_string_are_not_depth() -> None:
    params = {"flat": [[]] * 100, "text": '[{"\\' * 100}
    assert isinstance(decode_frame(frame(method="x", params=params)), Notification)


@pytest.mark.parametrize("lone", ["\\ud800", "\\udc00x", "\\ud83d\\ud83d"])
def test_a_lone_surrogate_becomes_a_replacement_character(lone: str) -> None:
    text = '{"jsonrpc":"2.0","method":"x","params":{"data":"a' + lone + '","smile":"\\ud83d\\ude00"}}'
    notification = decode_frame(text)
    assert isinstance(notification, Notification)
    data = json.loads(bytes(notification.params))
    assert data["data"].startswith("a")
    assert "\ufffd" in data["data"]
    assert data["smile"] == "😀"
    encode(data).decode()


def test_a_lone_surrogate_in_the_text_itself_is_replaced() -> None:
    assert decode_frame('{"jsonrpc":"2.0","method":"\ud800"}') == Notification(method="?", params=NO_PARAMS)


@given(st.binary() | st.text() | st.from_regex(r'\{"jsonrpc":"2.0",["a-z:0-9{}\[\],\\ud]*\}', fullmatch=True))
def test_no_bytes_of_a_peer_raise_anything_but_a_protocol_error(text: str | bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_frame(text)


def test_no_repr_of_a_frame_shows_its_params() -> None:
    request = decode_frame(frame(id=1, method="x", params={"p": "hunter2"}))
    notification = decode_frame(frame(method="x", params={"p": "hunter2"}))
    assert repr(request) == "Request(1, 'x', <16 bytes>)"
    assert repr(notification) == "Notification('x', <16 bytes>)"


def test_a_protocol_error_tells_its_code_and_message() -> None:
    error = ProtocolError(ErrorCode.NOT_FOUND, "no such terminal", {"a": 1})
    assert str(error) == "no such terminal"
    assert repr(error) == "ProtocolError(-32008, 'no such terminal')"
    assert error.data == {"a": 1}


# --- params and results -------------------------------------------------------------------------------------------------


def test_params_are_read_with_unknown_members_ignored() -> None:
    raw = frame(channel="ahp-root://", clientSeq=4, action={"type": "a/b"}, future=1)
    assert decode_params(raw, DispatchActionParams).client_seq == 4


@pytest.mark.parametrize(
    ("raw", "cls", "path"),
    [
        ('{"channel":"c","cols":"hunter2"}', CreateTerminalParams, "$.cols"),
        ('{"channel":"c","cols":true}', CreateTerminalParams, "$.cols"),
        ('{"channel":"c"}', CreateTerminalParams, "$.claim"),
        ('{"channel":"c","claim":{"kind":3}}', CreateTerminalParams, "$"),
        ('{"channel":"c","claim":{"kind":"client"}}', CreateTerminalParams, "$.clientId"),
        ('{"channel":"c","claim":{"kind":"client","clientId":["hunter2"]}}', CreateTerminalParams, "$.clientId"),
        ('{"channel":"c","runId":"r"}', RunParams, "$.text"),
        ('{"protocolVersions":["1.0.0",2],"clientId":"c"}', InitializeParams, "$.protocolVersions"),
        ("[]", RunParams, "$"),
        ('"hunter2"', RunParams, "$"),
    ],
)
def test_wrong_params_are_refused_with_the_path_and_without_the_value(raw: str, cls: type[Any], path: str) -> None:
    error = refusal(lambda: decode_params(raw.encode(), cls))
    assert error.code == ErrorCode.INVALID_PARAMS
    assert error.message.startswith(f"wrong or missing: {path}")
    assert "hunter2" not in error.message
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_params_that_are_no_json_are_refused() -> None:
    assert refusal(lambda: decode_params(b"{", RunParams)).code == ErrorCode.INVALID_PARAMS


def test_an_answer_of_another_shape_is_the_hosts_fault() -> None:
    error = refusal(lambda: decode_result(b'{"agents": "hunter2"}', RootState))
    assert (error.code, error.message) == (ErrorCode.INTERNAL_ERROR, "the host's answer is not a RootState")


# --- actions and envelopes ----------------------------------------------------------------------------------------------


def test_an_unknown_action_is_kept_byte_for_byte_in_meaning() -> None:
    written = {"type": "future/newAction", "foo": [1, None, {"b": 2}]}
    action = decode_action(encode(written))
    assert action == UnknownAction(written)
    assert to_builtins(action) == written


def test_an_action_with_wrong_members_is_kept_to_be_refused_as_it_came() -> None:
    raw = b'{"type": "terminal/resized", "cols": "hunter2"}'
    action = decode_action(raw)
    assert isinstance(action, MalformedAction)
    assert action.tag == "terminal/resized"
    assert encode({"action": action}) == b'{"action":' + raw + b"}"
    assert repr(action) == f"MalformedAction(<{len(raw)} bytes>)"


@pytest.mark.parametrize("raw", [b"[]", b"3", b"{}", b'{"type":3}', b"{"])
def test_what_has_no_type_is_no_action(raw: bytes) -> None:
    assert refusal(lambda: decode_action(raw)).code == ErrorCode.INVALID_PARAMS


def test_an_envelope_brings_its_action() -> None:
    raw = encode({"channel": "ahp-terminal:/a", "serverSeq": 2**40, "action": {"type": "terminal/data", "data": "x"}})
    assert decode_envelope(raw) == ActionEnvelope(
        channel="ahp-terminal:/a", server_seq=2**40, action=TerminalDataAction(data="x")
    )


def test_a_malformed_envelope_is_the_hosts_fault() -> None:
    assert refusal(lambda: decode_envelope(b'{"channel":"a"}')).code == ErrorCode.INTERNAL_ERROR


def test_a_snapshot_is_written_with_the_state_it_holds() -> None:
    snapshot = Snapshot(resource="ahp-root://", state=RootState(agents=()), from_seq=0)
    result = InitializeResult(protocol_version="1.0.0", server_seq=0, snapshots=(snapshot,))
    assert to_builtins(result) == {
        "protocolVersion": "1.0.0",
        "serverSeq": 0,
        "snapshots": [{"resource": "ahp-root://", "state": {"agents": []}, "fromSeq": 0}],
    }


def test_an_empty_replay_is_written_with_its_empty_lists() -> None:
    assert to_builtins(ReconnectReplayResult(actions=(), missing=())) == {"type": "replay", "actions": [], "missing": []}


def test_a_reconnect_may_name_channels_with_their_last_number() -> None:
    params = decode_params(
        b'{"clientId":"c","subscriptions":["ahp-root://",{"channel":"ahp-terminal:/a","lastSeenServerSeq":3}]}', ReconnectParams
    )
    assert params.subscriptions == ("ahp-root://", ReconnectChannel(channel="ahp-terminal:/a", last_seen_server_seq=3))


def test_what_is_no_wire_value_is_not_encoded() -> None:
    with pytest.raises(TypeError, match="cannot encode object"):
        encode(object())


@given(st.text())
def test_any_text_is_written_and_read_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert decode_action(encode(TerminalDataAction(data=text))) == TerminalDataAction(data=text)


# --- versions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SUPPORTED_VERSIONS)
def test_every_supported_version_is_accepted(version: str) -> None:
    assert negotiate([version]) == version


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["0.9.0", "1.0.0"], "1.0.0"),
        (["1.7.3"], "1.7.3"),
        (["2.0.0", "0.9.4", "0.8.0"], "0.9.4"),
        (["0.5.3", "0.5.1"], "0.5.3"),
        (["0.10.0", "0.9.0"], "0.10.0"),
    ],
)
def test_the_highest_offered_version_in_a_caret_range_is_chosen(offered: list[str], chosen: str) -> None:
    assert negotiate(offered) == chosen


@pytest.mark.parametrize("offered", [["2.0.0"], ["0.5.0"], ["0.4.9", "0.11.0"]])
def test_where_no_version_fits_the_supported_ones_are_named(offered: list[str]) -> None:
    error = refusal(lambda: negotiate(offered))
    assert error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION
    assert error.data == {"supportedVersions": list(SUPPORTED_VERSIONS)}


@pytest.mark.parametrize("offered", [[], ["1.0"], ["1.0.0.0"], ["v1.0.0"], ["01.0.0"], ["1.0.x"], ["1.0.²"], ["1.0." + "9" * 10]])
def test_an_empty_or_malformed_offer_is_refused(offered: list[str]) -> None:
    assert refusal(lambda: negotiate(offered)).code == ErrorCode.INVALID_PARAMS


def test_a_patch_range_of_zero_major_and_minor_is_exact() -> None:
    assert not messages._in_caret_range((0, 0, 4), (0, 0, 3))
    assert messages._in_caret_range((0, 0, 3), (0, 0, 3))


def test_raw_params_are_passed_on_untouched() -> None:
    request = decode_frame('{"jsonrpc":"2.0","id":1,"method":"x","params":{ "b" : 1.50 }}')
    assert isinstance(request, Request)
    assert bytes(request.params) == b'{ "b" : 1.50 }'
    assert encode(msgspec.Raw(request.params)) == b'{ "b" : 1.50 }'
