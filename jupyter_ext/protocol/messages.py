"""JSON-RPC frames, the action envelope, the handshake and error codes; encode and decode.

Source: Agent Host Protocol 0.5.1 to 1.0.0, sections "transport", "lifecycle", "subscriptions", "actions".

One module past 500 lines: half of it is types, and the codec is theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, field

from .terminal import (
    ACTIONS,
    RootState,
    StateAction,
    TerminalState,
    UnknownAction,
    Uri,
    Wire,
    _Unknown,
    open_variant,
)

__all__ = [
    "EXTENSIONS",
    "MAX_DEPTH",
    "MAX_MESSAGE_CHARS",
    "NO_PARAMS",
    "SUPPORTED_VERSIONS",
    "ActionEnvelope",
    "ActionOrigin",
    "ClientCapabilities",
    "DispatchActionParams",
    "ErrorCode",
    "Frame",
    "Implementation",
    "InitializeParams",
    "InitializeResult",
    "ListSessionsParams",
    "ListSessionsResult",
    "MalformedAction",
    "Notification",
    "PartialSessionSummary",
    "ProtocolError",
    "ReconnectChannel",
    "ReconnectParams",
    "ReconnectPerChannelResult",
    "ReconnectReplayResult",
    "ReconnectSnapshotResult",
    "Request",
    "Response",
    "RpcError",
    "SessionAddedParams",
    "SessionSummary",
    "Snapshot",
    "SubscribeDelivery",
    "SubscribeParams",
    "SubscribeResult",
    "UnsubscribeParams",
    "XTerminalCapability",
    "decode_action",
    "decode_envelope",
    "decode_frame",
    "decode_params",
    "decode_result",
    "encode",
    "negotiate",
    "to_builtins",
]

T = TypeVar("T")

MAX_MESSAGE_CHARS = 1 << 20
"""Longest message that is parsed; a longer one is answered with an error and the connection lives."""

MAX_DEPTH = 64
"""Deepest nesting that is parsed."""

SUPPORTED_VERSIONS = ("1.0.0", "0.10.0", "0.9.0", "0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1")
"""Baselines, newest first; each accepts its caret range."""

EXTENSIONS: dict[str, Any] = {"x-terminal": {"version": 1}}
"""What we announce in ``_meta`` of initialize. An entry is added with the code that serves it."""


class ErrorCode:
    """Error codes on the wire."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SESSION_NOT_FOUND = -32001
    PROVIDER_NOT_FOUND = -32002
    SESSION_ALREADY_EXISTS = -32003
    TURN_IN_PROGRESS = -32004
    UNSUPPORTED_PROTOCOL_VERSION = -32005
    AUTH_REQUIRED = -32007
    NOT_FOUND = -32008
    PERMISSION_DENIED = -32009
    ALREADY_EXISTS = -32010
    CONFLICT = -32011


class ProtocolError(Exception):
    """The peer's fault, or our refusal: answered on the wire as code, message and data.

    The message is for people and quotes no value that the peer sent.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __repr__(self) -> str:
        return f"ProtocolError({self.code}, {self.message!r})"


# --- frames -------------------------------------------------------------------------------------------------------------

RequestId = int | str | float


class RpcError(Wire, frozen=True):
    """The error member of a response."""

    code: int
    message: str
    data: Any = None


class Request(Wire, frozen=True):
    """A frame that wants an answer."""

    id: RequestId
    method: str
    params: msgspec.Raw

    def __repr__(self) -> str:
        return f"Request({self.id!r}, {self.method!r}, <{len(bytes(self.params))} bytes>)"


class Notification(Wire, frozen=True):
    """A frame that wants none."""

    method: str
    params: msgspec.Raw

    def __repr__(self) -> str:
        return f"Notification({self.method!r}, <{len(bytes(self.params))} bytes>)"


class Response(Wire, frozen=True):
    """An answer: ``error`` is None for a success, whose result may be null."""

    id: RequestId | None
    result: msgspec.Raw | None = None
    error: RpcError | None = None


Frame = Request | Notification | Response


class _AnyFrame(msgspec.Struct):
    jsonrpc: str | None = None
    id: RequestId | None = None
    method: msgspec.Raw = msgspec.Raw(b"")
    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


NO_PARAMS = msgspec.Raw(b"{}")
_frame_decoder = msgspec.json.Decoder(_AnyFrame)
_str_decoder = msgspec.json.Decoder(str)
_error_decoder = msgspec.json.Decoder(RpcError)


_NOT_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^"\[\]{}]+', re.DOTALL)


def _depth_exceeds(data: bytes, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than ``limit``; a cheap count first."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    depth = 0
    for byte in _NOT_BRACKETS.sub(b"", data):
        depth += 1 if byte in b"[{" else -1
        if depth > limit:
            return True
    return False


def _without_lone_surrogates(text: str) -> bytes:
    """The same JSON with every lone surrogate replaced by U+FFFD.

    JavaScript strings may hold lone surrogates and JSON carries them as escapes; UTF-8, and so msgspec, cannot.

    Raises:
        ValueError: the text is no JSON.
    """
    again = json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
    return again.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _decode_any(data: bytes) -> _AnyFrame:
    """Read any JSON-RPC frame.

    Raises:
        ProtocolError: -32600, it is JSON and no such frame.
        msgspec.DecodeError: it is no JSON.
    """
    try:
        return _frame_decoder.decode(data)
    except msgspec.ValidationError:
        msgspec.json.decode(data)  # a wrong type is found before the end has been read, and the end may be missing
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "not a JSON-RPC 2.0 object") from None


def decode_frame(text: str | bytes, max_chars: int | None = MAX_MESSAGE_CHARS) -> Frame:
    """Read one message.

    Args:
        text: the message.
        max_chars: the longest that is parsed; None for a peer that is trusted with it, as a client trusts its host.

    Raises:
        ProtocolError: -32700 for what is no JSON, -32600 for JSON that is no JSON-RPC frame, is too long or too deep.
    """
    if max_chars is not None and len(text) > max_chars:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"message longer than {max_chars} characters")
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if max_chars is not None and _depth_exceeds(data, MAX_DEPTH):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"message nested deeper than {MAX_DEPTH}")
    try:
        frame = _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            frame = _decode_any(_without_lone_surrogates(data.decode("utf-8", "replace")))
        except (ValueError, RecursionError, msgspec.DecodeError):
            raise ProtocolError(ErrorCode.PARSE_ERROR, "not JSON") from None
    if frame.jsonrpc != "2.0":
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "not a JSON-RPC 2.0 object")
    if not bytes(frame.method):
        return _response(frame)
    try:
        method = _str_decoder.decode(frame.method)
    except msgspec.DecodeError:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "method is not a string") from None
    params = frame.params if bytes(frame.params) not in (b"", b"null") else NO_PARAMS
    if frame.id is None:
        return Notification(method=method, params=params)
    return Request(id=frame.id, method=method, params=params)


def _response(frame: _AnyFrame) -> Response:
    if bytes(frame.error) not in (b"", b"null"):
        try:
            return Response(id=frame.id, error=_error_decoder.decode(frame.error))
        except msgspec.DecodeError:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "malformed error response") from None
    if not bytes(frame.result):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "neither method nor result nor error")
    return Response(id=frame.id, result=frame.result)


# --- envelope -----------------------------------------------------------------------------------------------------------


class ActionOrigin(Wire, frozen=True):
    """Which client dispatched an action."""

    client_id: str
    client_seq: int


class ActionEnvelope(Wire, frozen=True):
    """One published (or rejected) action. ``server_seq`` is one counter over all channels."""

    channel: Uri
    action: StateAction
    server_seq: int
    origin: ActionOrigin | None = None
    rejection_reason: str | None = None


class MalformedAction(StateAction):
    """An action that cannot be read as its type says; a rejection echoes its bytes as they came."""

    __slots__ = ("raw_bytes", "tag")

    def __init__(self, tag: str, raw_bytes: bytes) -> None:
        self.tag = tag
        self.raw_bytes = raw_bytes

    def __repr__(self) -> str:
        return f"MalformedAction(<{len(self.raw_bytes)} bytes>)"


class DispatchActionParams(Wire, frozen=True):
    """dispatchAction: ``client_seq`` orders one client object's actions and is never used to drop one."""

    channel: Uri
    client_seq: int
    action: msgspec.Raw


# --- handshake ----------------------------------------------------------------------------------------------------------


class Implementation(Wire, frozen=True):
    """Who speaks; informational only."""

    name: str
    version: str | None = None
    title: str | None = None


class ClientCapabilities(Wire, frozen=True):
    """Presence flags; unknown ones are ignored."""

    mcp_apps: dict[str, Any] | None = None


class XTerminalCapability(Wire, frozen=True):
    """What ``_meta["x-terminal"]`` of initialize says."""

    version: int


class InitializeParams(Wire, frozen=True):
    """initialize: the first message of a connection."""

    protocol_versions: Annotated[tuple[str, ...], Meta(description="MAJOR.MINOR.PATCH each, not empty.")]
    client_id: str
    channel: str | None = None
    client_info: Implementation | None = None
    initial_subscriptions: tuple[Uri, ...] | None = None
    locale: str | None = None
    capabilities: ClientCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Snapshot(Wire, frozen=True):
    """A channel's state; every later envelope of it has a greater ``server_seq`` than ``from_seq``."""

    resource: Uri
    state: RootState | TerminalState | dict[str, Any] | msgspec.Raw
    from_seq: int


class InitializeResult(Wire, frozen=True):
    """The answer to initialize."""

    protocol_version: str
    server_seq: int
    snapshots: tuple[Any, ...]
    server_info: Implementation | None = None
    default_directory: Uri | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReconnectChannel(Wire, frozen=True):
    """One channel of the per-channel form of reconnect; ``last_seen_server_seq`` 0 asks for a snapshot."""

    channel: Uri
    last_seen_server_seq: int


class ReconnectParams(Wire, frozen=True):
    """reconnect: instead of initialize, as the first message on a new socket."""

    client_id: str
    subscriptions: tuple[str | ReconnectChannel, ...]
    channel: str | None = None
    last_seen_server_seq: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReconnectReplayResult(Wire, frozen=True, tag_field="type", tag="replay"):
    """Every missed envelope of the subscriptions that still exist, in order."""

    actions: tuple[Any, ...]
    missing: tuple[Uri, ...]


class ReconnectSnapshotResult(Wire, frozen=True, tag_field="type", tag="snapshot"):
    """The states of the subscriptions that still exist."""

    snapshots: tuple[Any, ...]


class ReconnectPerChannelResult(Wire, frozen=True):
    """The answer to the per-channel form: one entry per requested channel, with a ``kind``."""

    channels: tuple[dict[str, Any], ...]


# --- subscriptions and sessions -----------------------------------------------------------------------------------------


class SubscribeDelivery(Wire, frozen=True):
    """``max_latency_ms``: upper bound for intentional buffering; 0 asks for none."""

    max_latency_ms: float | None = None


class SubscribeParams(Wire, frozen=True):
    """subscribe -> SubscribeResult."""

    channel: Uri
    delivery: SubscribeDelivery | None = None


class SubscribeResult(Wire, frozen=True):
    """The snapshot; absent for a channel without state."""

    snapshot: Any = None


class UnsubscribeParams(Wire, frozen=True):
    """unsubscribe (notification)."""

    channel: Uri


class ListSessionsParams(Wire, frozen=True):
    """listSessions, newest first."""

    channel: str | None = None
    limit: int | None = None
    cursor: str | None = None


class SessionSummary(Wire, frozen=True):
    """A session in the catalogue; ``status`` is a bit set whose unknown bits are kept."""

    resource: Uri
    provider: str
    title: str
    status: int
    created_at: str
    modified_at: str
    working_directories: tuple[Uri, ...] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PartialSessionSummary(Wire, frozen=True):
    """Changes of a summary; never ``resource``, ``provider``, ``created_at``."""

    title: str | None = None
    status: int | None = None
    modified_at: str | None = None
    working_directories: tuple[Uri, ...] | None = None


class SessionAddedParams(Wire, frozen=True):
    """root/sessionAdded."""

    channel: Uri
    summary: SessionSummary


class ListSessionsResult(Wire, frozen=True):
    """A page of the catalogue."""

    items: tuple[SessionSummary, ...]
    next_cursor: str | None = None


# --- codec --------------------------------------------------------------------------------------------------------------


def _enc_hook(value: Any) -> Any:
    if isinstance(value, MalformedAction):
        return msgspec.Raw(value.raw_bytes)
    if isinstance(value, _Unknown):
        return value.raw
    raise TypeError(f"cannot encode {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(value: Any) -> bytes:
    """JSON of a wire value or of builtins that hold wire values, in UTF-8."""
    return _encoder.encode(value)


def to_builtins(value: Any) -> Any:
    """A wire value as dicts, lists, strings and numbers, with the wire's names."""
    return msgspec.json.decode(_encoder.encode(value))


def _decoder(cls: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.json.Decoder(cls, dec_hook=open_variant)
    return decoder


def _path(error: msgspec.ValidationError) -> str:
    """Where a validation error lies, without the value: msgspec's own text can quote it."""
    text = str(error)
    at = text.rfind(" - at `$")
    if at >= 0:
        return text[at + len(" - at `") :].rstrip("`")
    start = text.find("missing required field `")
    return "$." + text[start:].split("`")[1] if start >= 0 else "$"


def decode_params(raw: msgspec.Raw | bytes, cls: type[T]) -> T:
    """The params of a known request.

    Raises:
        ProtocolError: -32602 with the path of the wrong or missing member, without its value.
    """
    try:
        value: T = _decoder(cls).decode(raw)
        return value
    except msgspec.ValidationError as error:
        raise ProtocolError(ErrorCode.INVALID_PARAMS, f"wrong or missing: {_path(error)}") from None
    except (msgspec.DecodeError, RecursionError):
        raise ProtocolError(ErrorCode.INVALID_PARAMS, "params are not an object") from None


def decode_result(raw: msgspec.Raw | bytes, cls: type[T]) -> T:
    """A result or a state, as the client reads it.

    Raises:
        ProtocolError: -32603, the host sent something else.
    """
    try:
        value: T = _decoder(cls).decode(raw)
        return value
    except msgspec.MsgspecError:
        raise ProtocolError(ErrorCode.INTERNAL_ERROR, f"the host's answer is not a {cls.__name__}") from None


class _ActionHeader(msgspec.Struct):
    type: str


def decode_action(raw: msgspec.Raw | bytes) -> StateAction:
    """One action: known, unknown, or malformed (its type is known and its members are wrong).

    Raises:
        ProtocolError: -32602, it is no object with a string ``type``.
    """
    try:
        tag: str = _decoder(_ActionHeader).decode(raw).type
    except msgspec.MsgspecError:
        raise ProtocolError(ErrorCode.INVALID_PARAMS, "action is no object with a string type") from None
    cls = ACTIONS.get(tag)
    if cls is None:
        return UnknownAction(msgspec.json.decode(raw))
    try:
        action: StateAction = _decoder(cls).decode(raw)
        return action
    except msgspec.MsgspecError:
        return MalformedAction(tag, bytes(raw))


def decode_envelope(raw: msgspec.Raw | bytes) -> ActionEnvelope:
    """The params of an ``action`` notification.

    Raises:
        ProtocolError: -32603, the host sent something else.
    """
    return decode_result(raw, ActionEnvelope)


# --- versions -----------------------------------------------------------------------------------------------------------


def _version(text: str) -> tuple[int, int, int]:
    parts = text.split(".")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and (p == "0" or p[0] != "0") and len(p) < 10 for p in parts):
        raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.protocolVersions")
    major, minor, patch = map(int, parts)
    return major, minor, patch


def _in_caret_range(version: tuple[int, int, int], base: tuple[int, int, int]) -> bool:
    if version < base:
        return False
    if base[0] > 0:
        return version[0] == base[0]
    if base[1] > 0:
        return version[:2] == base[:2]
    return version == base


def negotiate(offered: Iterable[str]) -> str:
    """The highest offered version inside any supported range, exactly as the client wrote it.

    Raises:
        ProtocolError: -32602 for an empty offer or a malformed entry, -32005 where nothing fits.
    """
    versions = {_version(text): text for text in offered}
    if not versions:
        raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.protocolVersions")
    bases = [_version(text) for text in SUPPORTED_VERSIONS]
    for version in sorted(versions, reverse=True):
        if any(_in_caret_range(version, base) for base in bases):
            return versions[version]
    raise ProtocolError(
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
        "no offered protocol version is supported",
        {"supportedVersions": list(SUPPORTED_VERSIONS)},
    )
