"""One AHP conversation at each end, text in and text out, without I/O.

`HostConnection` is the server's end: it reads a peer's messages in order, answers what needs no effect, and hands out the rest
as `Call`s, which are answered by `Call.respond`. `ClientConnection` is the client's end: it keeps a mirror of each subscribed
channel (confirmed state and pending actions).

Source: Agent Host Protocol, sections "transport" to "actions".

Both ends are in one module, past 500 lines, because each is the other's counterpart: what one writes the other reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ..protocol.messages import (
    EXTENSIONS,
    SUPPORTED_VERSIONS,
    ActionEnvelope,
    ActionOrigin,
    DispatchActionParams,
    ErrorCode,
    Implementation,
    InitializeParams,
    InitializeResult,
    ListSessionsParams,
    ListSessionsResult,
    MalformedAction,
    Notification,
    ProtocolError,
    ReconnectChannel,
    ReconnectParams,
    ReconnectPerChannelResult,
    ReconnectReplayResult,
    ReconnectSnapshotResult,
    Request,
    RequestId,
    Response,
    RpcError,
    Snapshot,
    SubscribeParams,
    SubscribeResult,
    UnsubscribeParams,
    decode_action,
    decode_envelope,
    decode_frame,
    decode_params,
    decode_result,
    encode,
    negotiate,
)
from ..protocol.reducers import root_reducer, terminal_reducer, trim_content
from ..protocol.terminal import (
    CLIENT_DISPATCHABLE,
    ROOT_URI,
    CreateTerminalParams,
    DisposeTerminalParams,
    RootState,
    RunParams,
    SignalParams,
    StateAction,
    TerminalClaimedAction,
    TerminalDataAction,
    TerminalInputAction,
    TerminalResizedAction,
    TerminalState,
    TerminalTitleChangedAction,
)
from .host_state import RETAINED_PARTS, ClientRecord, HostState, Operation, Role, action_tag

__all__ = [
    "Answer",
    "Call",
    "Changed",
    "ClientConnection",
    "Event",
    "HostConnection",
    "Lost",
    "check_terminal_uri",
    "clean_title",
]

JOIN_CHARS = 64 << 10
"""Neighbouring output of one terminal is joined up to this size."""
QUEUE_HIGH_BYTES = 1 << 20
"""Over this, the holder's terminal is not read; below half of it, it is read again."""
QUEUE_LIMIT_BYTES = 4 << 20
"""Over this a connection has fallen behind and is closed; it comes back by reconnect and snapshots."""
QUEUE_LIMIT_FRAMES = 2_000
MAX_SUBSCRIPTIONS = 256
MAX_INPUT_BYTES = 512 << 10
MAX_SIZE = 1_000
MAX_TITLE_CHARS = 256
MAX_URI_CHARS = 256
DEFAULT_LATENCY_MS = 8

RESERVED_SCHEMES = frozenset(
    {"ahp-root", "ahp-session", "ahp-chat", "ahp-changeset", "ahp-otlp", "ahp-resource-watch", "ahp-tcp"}
    | {"mcp", "file", "http", "https", "data", "javascript"}
)


def check_terminal_uri(uri: str) -> None:
    """Refuse what cannot be a terminal's URI.

    Raises:
        ProtocolError: -32602.
    """
    scheme, colon, rest = uri.partition(":")
    ok = (
        bool(colon)
        and len(uri) <= MAX_URI_CHARS
        and scheme.isascii()
        and scheme[:1].isalpha()
        and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()
        and scheme.lower() not in RESERVED_SCHEMES
        and rest.startswith("/")
        and rest not in ("/", "//")
        and not any(c.isspace() or not c.isprintable() or c in "?#\ufffd" for c in uri)
    )
    if ok and rest.startswith("//"):
        try:
            ok = urlsplit(uri).path not in ("", "/")
        except ValueError:
            ok = False
    if not ok:
        raise ProtocolError(ErrorCode.INVALID_PARAMS, "channel is no terminal URI (scheme:/path, up to 256 characters)")


def clean_title(title: str) -> str:
    """A title without control characters."""
    return "".join(c for c in title if c.isprintable())


class Call(NamedTuple):
    """Something a peer may do and the host has to do: a request, or a dispatched action (``id`` is None).

    For an action, ``params`` is the action and the host publishes it with ``origin``, or rejects it.
    """

    connection: HostConnection
    method: str
    params: Any
    id: RequestId | None = None
    origin: ActionOrigin | None = None
    channel: str = ""

    def respond(self, result: Any = None) -> None:
        """Answer a request."""
        if self.id is not None:
            self.connection.send_result(self.id, result)

    def fail(self, error: ProtocolError) -> None:
        """Answer a request with an error."""
        if self.id is not None:
            self.connection.send_error(self.id, error)

    def __repr__(self) -> str:
        return f"Call({self.method!r}, {self.channel!r})"


@dataclass(eq=False)
class _QueuedData:
    """Output waiting to be sent; later output of the same terminal is joined to it."""

    channel: str
    server_seq: int
    texts: list[str]
    chars: int


_METHODS: dict[str, type[Any]] = {
    "createTerminal": CreateTerminalParams,
    "disposeTerminal": DisposeTerminalParams,
    "x-terminal/run": RunParams,
    "x-terminal/signal": SignalParams,
    "x-terminal/close": DisposeTerminalParams,
}
_OPERATIONS: dict[str, Operation] = {
    "disposeTerminal": "dispose",
    "x-terminal/close": "dispose",
    "x-terminal/run": "input",
    "x-terminal/signal": "signal",
    "terminal/input": "input",
    "terminal/resized": "resize",
    "terminal/titleChanged": "title",
    "terminal/cleared": "clear",
}
_NO_SUCH = {
    "createSession": (ErrorCode.PROVIDER_NOT_FOUND, "no such agent provider"),
    "disposeSession": (ErrorCode.SESSION_NOT_FOUND, "no such session"),
    "createChat": (ErrorCode.SESSION_NOT_FOUND, "no such session"),
    "disposeChat": (ErrorCode.SESSION_NOT_FOUND, "no such session"),
    "authenticate": (ErrorCode.INVALID_PARAMS, "no such protected resource"),
}


class HostConnection:
    """The server's end of one conversation.

    Args:
        state: the host's state.
        user: the authenticated user; None where all are one.
        role: what the route says of the peer: a person's client, or a kernel.
        title: how people see this client.
        server_info: who we are.
        wakeup: called when something is to be sent.
        drained: called when the queue has fallen below half the high mark after having been over it.
    """

    def __init__(
        self,
        state: HostState,
        *,
        user: str | None,
        role: Role,
        title: str,
        server_info: Implementation,
        wakeup: Callable[[], None],
        drained: Callable[[HostConnection], None] = lambda connection: None,
    ) -> None:
        self.user = user
        self.role = role
        self.title = title
        self.client: ClientRecord | None = None
        self.close_code: int | None = None
        self.pending_bytes = 0
        self.taken_bytes = 0
        self.latency_ms: float = DEFAULT_LATENCY_MS
        self._state = state
        self._server_info = server_info
        self._wakeup = wakeup
        self._drained = drained
        self._queue: deque[bytes | _QueuedData] = deque()
        self._urgent = 0
        self._is_over_high = False
        self._subscriptions: set[str] = set()
        self._latencies: dict[str, float] = {}
        self._is_closed = False

    # --- what the peer says -----------------------------------------------------------------------------------------------

    def receive(self, text: str | bytes) -> list[Call]:
        """Take one message; returns what the host has to do for it, at most one call."""
        try:
            frame = decode_frame(text)
        except ProtocolError as error:
            self.send_error(None, error)
            return []
        if isinstance(frame, Notification):
            return self._notified(frame)
        if isinstance(frame, Request):
            try:
                call = self._requested(frame)
            except ProtocolError as error:
                self.send_error(frame.id, error)
                if error.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
                    self.close_code = 1000
                return []
            return [] if call is None else [call]
        return []

    def _requested(self, frame: Request) -> Call | None:
        if frame.method == "ping":
            self.send_result(frame.id, None)
            return None
        if self.client is None:
            if frame.method == "initialize":
                self._initialize(frame.id, decode_params(frame.params, InitializeParams))
            elif frame.method == "reconnect":
                self._reconnect(frame.id, decode_params(frame.params, ReconnectParams))
            else:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "initialize first")
            return None
        if frame.method in ("initialize", "reconnect"):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "already initialized")
        if frame.method == "subscribe":
            self._subscribe(frame.id, decode_params(frame.params, SubscribeParams))
            return None
        if frame.method == "listSessions":
            self._list_sessions(frame.id, decode_params(frame.params, ListSessionsParams))
            return None
        if frame.method in _METHODS:
            return self._host_request(self.client, frame)
        code, message = _NO_SUCH.get(frame.method, (ErrorCode.METHOD_NOT_FOUND, "method not served"))
        raise ProtocolError(code, message)

    def _host_request(self, client: ClientRecord, frame: Request) -> Call:
        params = decode_params(frame.params, _METHODS[frame.method])
        if frame.method == "createTerminal":
            check_terminal_uri(params.channel)
        else:
            channel = self._state.visible_terminal(self.user, params.channel)
            if channel is None:
                raise ProtocolError(ErrorCode.NOT_FOUND, "no such terminal")
            refusal = self._state.refusal(client, channel, _OPERATIONS[frame.method])
            if refusal is not None:
                raise ProtocolError(ErrorCode.PERMISSION_DENIED, refusal)
        return Call(self, frame.method, params, id=frame.id, channel=params.channel)

    def _notified(self, frame: Notification) -> list[Call]:
        if self.client is None:
            return []
        try:
            if frame.method == "unsubscribe":
                uri = decode_params(frame.params, UnsubscribeParams).channel
                self._state.unsubscribe(self, uri)
                self._subscriptions.discard(uri)
                self._set_latency(uri, None)
            elif frame.method == "dispatchAction":
                params = decode_params(frame.params, DispatchActionParams)
                action = decode_action(params.action)
                return self._dispatched(self.client, params, action)
        except ProtocolError:
            pass  # a notification gets no answer
        return []

    def _dispatched(self, client: ClientRecord, params: DispatchActionParams, action: StateAction) -> list[Call]:
        uri = params.channel
        if not self._state.exists(self.user, uri):
            return []
        origin = ActionOrigin(client_id=client.client_id, client_seq=params.client_seq)
        reason = self._rejection(client, uri, action)
        if reason is not None:
            echo = action if isinstance(action, MalformedAction) else MalformedAction(action_tag(action), bytes(params.action))
            self._state.reject(self, uri, echo, origin, reason)
            return []
        return [Call(self, "dispatchAction", action, origin=origin, channel=uri)]

    def _rejection(self, client: ClientRecord, uri: str, action: StateAction) -> str | None:
        """Why an action is refused, short and without its content."""
        tag = action_tag(action)
        if tag not in CLIENT_DISPATCHABLE:
            return "not an action that clients may dispatch"
        if isinstance(action, MalformedAction):
            return "malformed action"
        channel = self._state.visible_terminal(self.user, uri)
        if (channel is None) != tag.startswith("root/"):
            return "not an action of this channel"
        if channel is None:
            return "this host has no configuration"
        if channel.has_exited and tag in ("terminal/input", "terminal/resized"):
            return "terminal has exited"
        if isinstance(action, TerminalClaimedAction):
            return self._state.claim_refusal(client, channel, action.claim)
        refusal = self._state.refusal(client, channel, _OPERATIONS[tag])
        if refusal is not None:
            return refusal
        if isinstance(action, TerminalInputAction) and len(action.data.encode("utf-8", "replace")) > MAX_INPUT_BYTES:
            return f"input longer than {MAX_INPUT_BYTES} bytes"
        if isinstance(action, TerminalResizedAction) and not (1 <= action.cols <= MAX_SIZE and 1 <= action.rows <= MAX_SIZE):
            return f"size outside 1 to {MAX_SIZE}"
        if isinstance(action, TerminalTitleChangedAction) and len(action.title) > MAX_TITLE_CHARS:
            return f"title longer than {MAX_TITLE_CHARS} characters"
        return None

    # --- handshake and subscriptions ----------------------------------------------------------------------------------------

    def _initialize(self, request_id: RequestId, params: InitializeParams) -> None:
        version = negotiate(params.protocol_versions)
        if not params.client_id:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.clientId")
        known = self._state.clients.get(params.client_id)
        if known is not None and known.user != self.user:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.clientId")
        info = params.client_info
        title = clean_title((info.title or info.name) if info else "")[:MAX_TITLE_CHARS] or self.title
        announced = (params.meta or {}).get("x-terminal")
        self.client = ClientRecord(
            client_id=params.client_id,
            user=self.user,
            role=self.role,
            title=title,
            protocol_version=version,
            x_terminal=isinstance(announced, dict),
            connections=set(known.connections) if known else set(),
        )
        self.client.connections.add(self)
        self._state.remember(self.client)
        wanted = (params.initial_subscriptions or ())[:MAX_SUBSCRIPTIONS]
        snapshots = [s for s in map(self._subscribed, dict.fromkeys(wanted)) if s is not None]
        self.send_result(
            request_id,
            InitializeResult(
                protocol_version=version,
                server_seq=self._state.server_seq,
                server_info=self._server_info,
                snapshots=tuple(snapshots),
                meta=EXTENSIONS,
            ),
        )

    def _reconnect(self, request_id: RequestId, params: ReconnectParams) -> None:
        known = self._state.clients.get(params.client_id)
        if known is None or known.user != self.user:
            raise ProtocolError(ErrorCode.NOT_FOUND, "no such client")
        wanted = params.subscriptions[:MAX_SUBSCRIPTIONS]
        cursors = {s.channel: s.last_seen_server_seq for s in wanted if isinstance(s, ReconnectChannel)}
        uris = list(dict.fromkeys(s.channel if isinstance(s, ReconnectChannel) else s for s in wanted))
        last_seen = params.last_seen_server_seq
        if last_seen is None and not cursors:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.lastSeenServerSeq")
        self.client = known
        known.connections.add(self)
        self._state.remember(known)
        there = [uri for uri in uris if self._state.exists(self.user, uri)]
        missing = tuple(uri for uri in uris if uri not in there)
        if cursors:
            channels = tuple(self._reconnected_channel(uri, cursors.get(uri, 0)) for uri in uris)
            self.send_result(request_id, ReconnectPerChannelResult(channels=channels))
            return
        assert last_seen is not None
        snapshots = tuple(self._subscribed(uri) for uri in there)
        if self._state.can_replay(there, last_seen):
            actions = self._replayed(there, last_seen)
            self.send_result(request_id, ReconnectReplayResult(actions=tuple(actions), missing=missing))
        else:
            self.send_result(request_id, ReconnectSnapshotResult(snapshots=snapshots))

    def _reconnected_channel(self, uri: str, last_seen: int) -> dict[str, Any]:
        """The answer for one channel of the per-channel form."""
        if not self._state.exists(self.user, uri):
            return {"kind": "missing", "channel": uri}
        snapshot = self._subscribed(uri)
        if last_seen > 0 and self._state.can_replay([uri], last_seen):
            return {"kind": "replay", "channel": uri, "actions": self._replayed([uri], last_seen)}
        return {"kind": "snapshot", "channel": uri, "snapshot": snapshot}

    def _replayed(self, uris: list[str], last_seen: int) -> list[ActionEnvelope]:
        return [e for e in self._state.replay_since(self.user, uris, last_seen) if self._understands(e.action)]

    def _subscribed(self, uri: str) -> Snapshot | None:
        snapshot = self._state.subscribe(self, uri)
        if snapshot is not None:
            self._subscriptions.add(uri)
        return snapshot

    def _subscribe(self, request_id: RequestId, params: SubscribeParams) -> None:
        uri = params.channel
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS and uri not in self._subscriptions:
            raise ProtocolError(ErrorCode.PERMISSION_DENIED, f"more than {MAX_SUBSCRIPTIONS} subscriptions")
        snapshot = self._subscribed(uri)
        if snapshot is None:
            if uri.startswith("ahp-session:"):
                raise ProtocolError(ErrorCode.SESSION_NOT_FOUND, "no such session")
            raise ProtocolError(ErrorCode.NOT_FOUND, "no such channel")
        latency = params.delivery.max_latency_ms if params.delivery else None
        self._set_latency(uri, latency)
        self.send_result(request_id, SubscribeResult(snapshot=snapshot))

    def _set_latency(self, uri: str, latency_ms: float | None) -> None:
        self._latencies.pop(uri, None)
        if latency_ms is not None:
            self._latencies[uri] = max(0.0, latency_ms)
        self.latency_ms = min([DEFAULT_LATENCY_MS, *self._latencies.values()])

    def _list_sessions(self, request_id: RequestId, params: ListSessionsParams) -> None:
        if params.cursor is not None:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "wrong or missing: $.cursor")
        self.send_result(request_id, ListSessionsResult(items=()))

    # --- what we say --------------------------------------------------------------------------------------------------------

    def _understands(self, action: StateAction) -> bool:
        return self.client is not None and (self.client.x_terminal or not action_tag(action).startswith("x-"))

    def deliver(self, envelope: ActionEnvelope) -> None:
        """Queue an envelope; neighbouring output of one terminal is joined, with the later number.

        Output is not moved behind another channel's envelope: a client that is cut off between the two would count from that
        one's number and never be given the output.
        """
        if self._is_closed or self.close_code is not None:
            return
        if envelope.rejection_reason is None and not self._understands(envelope.action):
            return
        action = envelope.action
        if not isinstance(action, TerminalDataAction):
            self._put(b'{"jsonrpc":"2.0","method":"action","params":' + encode(envelope) + b"}")
            return
        chars = len(action.data)
        last = self._queue[-1] if self._queue else None
        if isinstance(last, _QueuedData) and last.channel == envelope.channel and last.chars + chars <= JOIN_CHARS:
            last.texts.append(action.data)
            last.chars += chars
            last.server_seq = envelope.server_seq
        else:
            self._queue.append(_QueuedData(envelope.channel, envelope.server_seq, [action.data], chars))
        self._queued(chars)

    def send_result(self, request_id: RequestId, result: Any) -> None:
        """Answer a request; ``result`` may be None and is written all the same."""
        self._put(b'{"jsonrpc":"2.0","id":' + encode(request_id) + b',"result":' + encode(result) + b"}")

    def send_error(self, request_id: RequestId | None, error: ProtocolError) -> None:
        """Answer a request with an error; a null id where the request could not be read."""
        body = RpcError(code=error.code, message=error.message, data=error.data)
        self._put(b'{"jsonrpc":"2.0","id":' + encode(request_id) + b',"error":' + encode(body) + b"}")

    def _put(self, frame: bytes) -> None:
        if self._is_closed:
            return
        self._queue.append(frame)
        self._urgent += 1
        self._queued(len(frame))

    def _queued(self, size: int) -> None:
        self.pending_bytes += size
        if self.pending_bytes > QUEUE_HIGH_BYTES:
            self._is_over_high = True
        if self.pending_bytes > QUEUE_LIMIT_BYTES or len(self._queue) > QUEUE_LIMIT_FRAMES:
            self.fall_behind()
        self._wakeup()

    def fall_behind(self) -> None:
        """Give this connection up: it is to be closed with 1013 and comes back by reconnect."""
        self.close_code = 1013
        self._queue.clear()
        self.pending_bytes = 0

    def end(self, code: int) -> None:
        """Close it once what is queued has been sent.

        Args:
            code: a WebSocket close code.
        """
        if self.close_code is None:
            self.close_code = code
            self._wakeup()

    @property
    def is_over_high(self) -> bool:
        """Whether more is unsent than a holder's terminal may go on producing."""
        return self.pending_bytes > QUEUE_HIGH_BYTES

    @property
    def hold_ms(self) -> float:
        """How long what is queued may be held back to be joined with more; 0 where something is to go at once."""
        return 0.0 if self._urgent or self.pending_bytes >= JOIN_CHARS else self.latency_ms

    def data_to_send(self, max_bytes: int = JOIN_CHARS) -> list[bytes]:
        """Frames to send now, in order, up to about ``max_bytes``; the rest stays queued."""
        frames: list[bytes] = []
        taken = 0
        while self._queue and taken < max_bytes:
            item = self._queue.popleft()
            if isinstance(item, bytes):
                self._urgent -= 1
                frames.append(item)
                taken += len(item)
                self.pending_bytes -= len(item)
            else:
                frames.append(
                    b'{"jsonrpc":"2.0","method":"action","params":{"channel":'
                    + encode(item.channel)
                    + b',"action":{"type":"terminal/data","data":'
                    + encode("".join(item.texts))
                    + b'},"serverSeq":%d}}' % item.server_seq
                )
                taken += item.chars
                self.pending_bytes -= item.chars
        self.taken_bytes += taken
        if self._is_over_high and self.pending_bytes < QUEUE_HIGH_BYTES // 2:
            self._is_over_high = False
            self._drained(self)
        return frames

    def close(self) -> None:
        """The socket has gone: subscriptions and queue end; terminals, claims and the client's record stay."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.clear()
        self.pending_bytes = 0
        self._state.disconnect(self, self.client.client_id if self.client else None)
        if self._is_over_high:
            self._is_over_high = False
            self._drained(self)


# --- the client's end -----------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """A request of ours has been answered."""

    id: RequestId
    result: msgspec.Raw | None
    error: ProtocolError | None


class Changed(NamedTuple):
    """A subscribed channel has changed: by an envelope, or (``envelope`` None) by a new snapshot."""

    uri: str
    envelope: ActionEnvelope | None


class Lost(NamedTuple):
    """A channel that we were subscribed to does not exist any more."""

    uri: str


Event = Answer | Changed | Lost
State = RootState | TerminalState


@dataclass(eq=False)
class _Mirror:
    confirmed: State | None = None
    from_seq: int = 0
    pending: list[tuple[int, StateAction]] = field(default_factory=list)
    shown: State | None = None


def _reduce(state: State, action: StateAction) -> State:
    if isinstance(state, RootState):
        return root_reducer(state, action)
    return terminal_reducer(state, action)


class ClientConnection:
    """The client's end of one conversation, over any number of sockets one after the other.

    Args:
        client_id: stable over reconnects.
        client_info: who we are.
        retained_chars: what each mirrored terminal keeps, in characters; must not be less than the host's to replay right.
    """

    def __init__(self, *, client_id: str, client_info: Implementation, retained_chars: int = 250_000) -> None:
        self.client_id = client_id
        self.client_info = client_info
        self.protocol_version: str | None = None
        self.extensions: dict[str, Any] = {}
        self._retained_chars = retained_chars
        self._next_id = 0
        self._client_seq = 0
        self._last_seen = 0
        self._out: list[bytes] = []
        self._asked: dict[RequestId, str] = {}
        self._mirrors: dict[str, _Mirror] = {}

    # --- requests -----------------------------------------------------------------------------------------------------------

    def initialize(self, subscriptions: Iterable[str] = ()) -> int:
        """Begin a conversation; returns the request's id."""
        wanted = list(dict.fromkeys([*subscriptions, *self._mirrors]))
        return self.request(
            "initialize",
            InitializeParams(
                channel=ROOT_URI,
                protocol_versions=SUPPORTED_VERSIONS,
                client_id=self.client_id,
                client_info=self.client_info,
                initial_subscriptions=tuple(wanted) or None,
                meta=EXTENSIONS,
            ),
        )

    def reconnect(self) -> int:
        """Go on with a conversation on a new socket; pending actions are given up."""
        self._asked.clear()
        self._out.clear()
        for mirror in self._mirrors.values():
            mirror.pending.clear()
            mirror.shown = mirror.confirmed
        if self._last_seen == 0:
            return self.initialize()
        return self.request(
            "reconnect",
            ReconnectParams(
                channel=ROOT_URI,
                client_id=self.client_id,
                last_seen_server_seq=self._last_seen,
                subscriptions=tuple(self._mirrors),
            ),
        )

    def subscribe(self, uri: str) -> int:
        """Ask for a channel's state and all its changes; returns the request's id."""
        return self.request("subscribe", SubscribeParams(channel=uri))

    def unsubscribe(self, uri: str) -> None:
        """End a subscription."""
        self._mirrors.pop(uri, None)
        self.notify("unsubscribe", UnsubscribeParams(channel=uri))

    def request(self, method: str, params: Any) -> int:
        """Queue a request; returns its id."""
        self._next_id += 1
        self._asked[self._next_id] = method
        self._out.append(encode({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}))
        return self._next_id

    def notify(self, method: str, params: Any) -> None:
        """Queue a notification."""
        self._out.append(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def dispatch(self, uri: str, action: StateAction) -> int:
        """Dispatch an action; it shows at once in `state` and is settled by the host's echo. Returns its clientSeq."""
        self._client_seq += 1
        mirror = self._mirrors.get(uri)
        if mirror is not None and mirror.shown is not None:
            mirror.pending.append((self._client_seq, action))
            mirror.shown = _reduce(mirror.shown, action)
        self.notify("dispatchAction", {"channel": uri, "clientSeq": self._client_seq, "action": action})
        return self._client_seq

    def data_to_send(self) -> list[bytes]:
        """Frames to send now, in order."""
        frames, self._out = self._out, []
        return frames

    def state(self, uri: str) -> State | None:
        """A subscribed channel's state with our own pending actions applied; None where there is none yet."""
        mirror = self._mirrors.get(uri)
        return mirror.shown if mirror else None

    @property
    def subscriptions(self) -> list[str]:
        """The channels that are mirrored."""
        return list(self._mirrors)

    # --- what the host says ---------------------------------------------------------------------------------------------------

    def receive(self, text: str | bytes) -> list[Event]:
        """Take one message.

        Raises:
            ProtocolError: the host sent something that is no AHP.
        """
        frame = decode_frame(text, max_chars=None)
        if isinstance(frame, Notification):
            return self._enveloped(decode_envelope(frame.params)) if frame.method == "action" else []
        if isinstance(frame, Response) and frame.id is not None:
            return self._answered(frame)
        return []

    def _answered(self, frame: Response) -> list[Event]:
        assert frame.id is not None
        method = self._asked.pop(frame.id, "")
        if frame.error is not None:
            error = ProtocolError(frame.error.code, frame.error.message, frame.error.data)
            if method == "reconnect" and error.code == ErrorCode.NOT_FOUND:
                self.initialize()
                return []
            return [Answer(frame.id, None, error)]
        assert frame.result is not None
        events: list[Event] = []
        if method == "initialize":
            events += self._initialized(decode_result(frame.result, InitializeResult))
        elif method == "reconnect":
            events += self._reconnected(frame.result)
        elif method == "subscribe":
            snapshot = decode_result(frame.result, _SubscribeResult).snapshot
            if snapshot is not None:
                events += self._take(snapshot)
        events.append(Answer(frame.id, frame.result, None))
        return events

    def _initialized(self, result: InitializeResult) -> list[Event]:
        self.protocol_version = result.protocol_version
        self.extensions = result.meta or {}
        self._last_seen = result.server_seq
        snapshots = [msgspec.convert(s, _Snapshot) for s in result.snapshots]
        lost = [uri for uri in self._mirrors if uri not in {s.resource for s in snapshots}]
        events: list[Event] = [event for s in snapshots for event in self._take(s)]
        return events + self._lose(lost)

    def _reconnected(self, raw: msgspec.Raw) -> list[Event]:
        result = decode_result(raw, _ReconnectResult)
        events: list[Event] = []
        if result.type == "snapshot":
            snapshots = result.snapshots
            gone = [uri for uri in self._mirrors if uri not in {s.resource for s in snapshots}]
            self._last_seen = max([s.from_seq for s in snapshots], default=self._last_seen)
            for snapshot in snapshots:
                events += self._take(snapshot)
        else:
            gone = list(result.missing)
            for envelope in result.actions:
                events += self._enveloped(envelope)
        return events + self._lose(gone)

    def _lose(self, uris: Iterable[str]) -> list[Event]:
        return [Lost(uri) for uri in uris if self._mirrors.pop(uri, None) is not None]

    def _take(self, snapshot: _Snapshot) -> list[Event]:
        is_root = snapshot.resource == ROOT_URI
        raw = encode(snapshot.state)
        state: State = decode_result(raw, RootState) if is_root else decode_result(raw, TerminalState)
        mirror = self._mirrors.setdefault(snapshot.resource, _Mirror())
        mirror.confirmed = mirror.shown = state
        mirror.from_seq = snapshot.from_seq
        mirror.pending.clear()
        return [Changed(snapshot.resource, None)]

    def _enveloped(self, envelope: ActionEnvelope) -> list[Event]:
        self._last_seen = max(self._last_seen, envelope.server_seq)
        mirror = self._mirrors.get(envelope.channel)
        if mirror is None or mirror.confirmed is None or envelope.server_seq <= mirror.from_seq:
            return []
        if envelope.origin is not None and envelope.origin.client_id == self.client_id:
            mirror.pending = [p for p in mirror.pending if p[0] != envelope.origin.client_seq]
        if envelope.rejection_reason is None:
            mirror.confirmed = self._trimmed(_reduce(mirror.confirmed, envelope.action))
        mirror.shown = mirror.confirmed
        for _, action in mirror.pending:
            mirror.shown = _reduce(mirror.shown, action)
        return [Changed(envelope.channel, envelope)]

    def _trimmed(self, state: State) -> State:
        if isinstance(state, RootState):
            return state
        content = trim_content(state.content, self._retained_chars, RETAINED_PARTS)
        return state if content is state.content else replace(state, content=content)


class _Snapshot(msgspec.Struct, rename="camel"):
    resource: str
    state: dict[str, Any]
    from_seq: int


class _SubscribeResult(msgspec.Struct):
    snapshot: _Snapshot | None = None


class _ReconnectResult(msgspec.Struct):
    type: str
    actions: tuple[ActionEnvelope, ...] = ()
    missing: tuple[str, ...] = ()
    snapshots: tuple[_Snapshot, ...] = ()
