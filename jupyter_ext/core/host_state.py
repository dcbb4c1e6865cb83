"""The authority: every channel's state, one sequence number, the replay log, and who may do what.

Source: Agent Host Protocol, sections "subscriptions", "actions", "claims"; the rules of authority are ours where the
protocol is silent.

Nothing here performs an effect. `HostConnection` reads a peer's message and asks `HostState` whether it may be done; the host
does it and calls `publish`, which reduces first, numbers, and then queues to each subscriber, in that order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from ..protocol.messages import ActionEnvelope, ActionOrigin, Snapshot
from ..protocol.reducers import root_reducer, terminal_reducer, trim_content
from ..protocol.terminal import (
    ROOT_URI,
    InfoChangedAction,
    RootState,
    RootTerminalsChangedAction,
    StateAction,
    TerminalClaim,
    TerminalClaimedAction,
    TerminalClientClaim,
    TerminalDataAction,
    TerminalInfo,
    TerminalResizedAction,
    TerminalState,
    TerminalTitleChangedAction,
)

__all__ = ["RETAINED_PARTS", "ClientRecord", "HostState", "Operation", "Role", "Subscriber", "TerminalChannel", "action_tag"]

Role = Literal["person", "kernel"]
Operation = Literal["input", "resize", "title", "clear", "signal", "dispose"]

REPLAY_BYTES = 4 << 20
"""What the replay log holds at most. A reader that is further behind gets snapshots, which are bounded too."""
REPLAY_ENTRIES = 4_000
CLIENT_RECORDS = 1_000
RETAINED_PARTS = 1_000
ENVELOPE_BYTES = 200
"""What an envelope costs beside its text: an estimate for the log's bound."""


class Subscriber(Protocol):
    """What a channel needs of a connection."""

    user: str | None

    def deliver(self, envelope: ActionEnvelope) -> None:
        """Queue one envelope."""


@dataclass(eq=False)
class ClientRecord:
    """A client that has introduced itself: remembered for `reconnect` and for claims after its connection has gone."""

    client_id: str
    user: str | None
    role: Role
    title: str
    protocol_version: str
    x_terminal: bool
    connections: set[Subscriber] = field(default_factory=set)


@dataclass(eq=False)
class TerminalChannel:
    """One terminal's channel. ``user`` None: everybody's."""

    uri: str
    user: str | None
    state: TerminalState
    created_seq: int
    is_busy: Callable[[], bool]
    submitter: Callable[[], str | None]
    subscribers: dict[Subscriber, None] = field(default_factory=dict)

    @property
    def has_exited(self) -> bool:
        """Whether its process has ended."""
        return self.state.lifecycle is not None and self.state.lifecycle.status == "exited"

    @property
    def info(self) -> TerminalInfo:
        """Its entry in the root list, in the superset of all dialects."""
        state = self.state
        return TerminalInfo(
            resource=self.uri,
            title=state.title,
            claim=state.claim,
            lifecycle=state.lifecycle,
            exit_code=state.lifecycle.exit_code if state.lifecycle else None,
            meta=state.meta,
        )


@dataclass(frozen=True, slots=True)
class _Logged:
    envelope: ActionEnvelope
    users: dict[str, str | None] | None
    """Owner per listed terminal, where the envelope lists terminals of several users."""
    size: int


class _ReplayLog:
    """Published envelopes, bounded by bytes and by number, whichever comes first."""

    def __init__(self, max_bytes: int, max_entries: int, first_seq: int) -> None:
        self._entries: deque[_Logged] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._dropped_through = first_seq

    def append(self, entry: _Logged) -> None:
        self._entries.append(entry)
        self._bytes += entry.size
        while self._entries and (self._bytes > self._max_bytes or len(self._entries) > self._max_entries):
            oldest = self._entries.popleft()
            self._bytes -= oldest.size
            self._dropped_through = oldest.envelope.server_seq

    def covers(self, seq: int) -> bool:
        """Whether nothing after ``seq`` has been dropped."""
        return seq >= self._dropped_through

    def since(self, seq: int) -> list[_Logged]:
        return [entry for entry in self._entries if entry.envelope.server_seq > seq]


def _same_user(a: str | None, b: str | None) -> bool:
    return a is None or b is None or a == b


def _may_see(user: str | None, owner: str | None) -> bool:
    return owner is None or owner == user


class HostState:
    """All channels and clients of one host.

    Args:
        retained_chars: what each terminal's content keeps, in characters.
        replay_bytes: bound of the replay log.
        replay_entries: the other bound of the replay log.
    """

    def __init__(
        self,
        *,
        retained_chars: int = 200_000,
        replay_bytes: int = REPLAY_BYTES,
        replay_entries: int = REPLAY_ENTRIES,
    ) -> None:
        self.server_seq = 1
        self.retained_chars = retained_chars
        self.terminals: dict[str, TerminalChannel] = {}
        self.clients: dict[str, ClientRecord] = {}
        self._root = RootState(agents=(), active_sessions=0, terminals=())
        self._root_subscribers: dict[Subscriber, None] = {}
        self._log = _ReplayLog(replay_bytes, replay_entries, self.server_seq)

    # --- clients --------------------------------------------------------------------------------------------------------

    def remember(self, record: ClientRecord) -> None:
        """Keep a client's record; the longest unused ones without a connection go when there are too many."""
        self.clients.pop(record.client_id, None)
        self.clients[record.client_id] = record
        for client_id in [c for c, r in self.clients.items() if not r.connections][: max(0, len(self.clients) - CLIENT_RECORDS)]:
            del self.clients[client_id]

    def disconnect(self, subscriber: Subscriber, client_id: str | None) -> None:
        """A connection has gone: its subscriptions end, terminals and claims stay."""
        self._root_subscribers.pop(subscriber, None)
        for channel in self.terminals.values():
            channel.subscribers.pop(subscriber, None)
        if client_id in self.clients:
            self.clients[client_id].connections.discard(subscriber)

    def is_connected(self, client_id: str) -> bool:
        """Whether a client has a live connection."""
        record = self.clients.get(client_id)
        return record is not None and bool(record.connections)

    def holder_name(self, claim: TerminalClaim) -> str:
        """Who holds a terminal, in words for people."""
        if isinstance(claim, TerminalClientClaim):
            record = self.clients.get(claim.client_id)
            return record.title if record else "a client that has gone"
        return "an agent session"

    def holder_connections(self, channel: TerminalChannel) -> set[Subscriber]:
        """The live connections of the client that holds a terminal, among its subscribers."""
        claim = channel.state.claim
        if not isinstance(claim, TerminalClientClaim) or claim.client_id not in self.clients:
            return set()
        return {c for c in self.clients[claim.client_id].connections if c in channel.subscribers}

    # --- channels -------------------------------------------------------------------------------------------------------

    def add_terminal(
        self,
        uri: str,
        state: TerminalState,
        *,
        user: str | None,
        is_busy: Callable[[], bool] = lambda: False,
        submitter: Callable[[], str | None] = lambda: None,
    ) -> TerminalChannel:
        """Open a terminal's channel and publish the new root list.

        Args:
            uri: the key, verbatim.
            state: its first state, with ``lifecycle``.
            user: whose it is; None for everybody.
            is_busy: whether a command runs in it now.
            submitter: the client that submitted that command.
        """
        if uri in self.terminals:
            raise ValueError("the channel exists")
        channel = TerminalChannel(
            uri=uri, user=user, state=state, created_seq=self.server_seq + 1, is_busy=is_busy, submitter=submitter
        )
        self.terminals[uri] = channel
        self.publish_terminals()
        return channel

    def remove_terminal(self, uri: str) -> None:
        """Forget a terminal and publish the new root list."""
        del self.terminals[uri]
        self.publish_terminals()

    def publish_terminals(self) -> None:
        """Publish the root list as it is now."""
        self.publish(ROOT_URI, RootTerminalsChangedAction(terminals=tuple(c.info for c in self.terminals.values())))

    def visible_terminal(self, user: str | None, uri: str) -> TerminalChannel | None:
        """A terminal as a user sees it: None where it does not exist, or not for them."""
        channel = self.terminals.get(uri)
        return channel if channel is not None and _may_see(user, channel.user) else None

    def publish(self, uri: str, action: StateAction, origin: ActionOrigin | None = None) -> None:
        """Reduce an action, number it, log it, and queue it to the channel's subscribers.

        Args:
            uri: a channel that exists.
            action: what happened.
            origin: the client that dispatched it; None for what the host began itself.
        """
        users: dict[str, str | None] | None = None
        if uri == ROOT_URI:
            self._root = root_reducer(self._root, action)
            subscribers: Iterable[Subscriber] = list(self._root_subscribers)
            if any(channel.user is not None for channel in self.terminals.values()):
                users = {channel.uri: channel.user for channel in self.terminals.values()}
        else:
            channel = self.terminals[uri]
            state = terminal_reducer(channel.state, action)
            content = trim_content(state.content, self.retained_chars, RETAINED_PARTS)
            channel.state = state if content is state.content else replace(state, content=content)
            subscribers = list(channel.subscribers)
        envelope = self._number(uri, action, origin)
        text = len(action.data) if isinstance(action, TerminalDataAction) else 0
        listed = len(action.terminals) if isinstance(action, RootTerminalsChangedAction) else 0
        self._log.append(_Logged(envelope, users, ENVELOPE_BYTES * (1 + listed) + text))
        for subscriber in subscribers:
            seen = self._as_seen(subscriber.user, envelope, users)
            if seen is not None:
                subscriber.deliver(seen)

    def send_privately(
        self,
        subscriber: Subscriber,
        uri: str,
        action: StateAction,
        origin: ActionOrigin | None = None,
        rejection_reason: str | None = None,
    ) -> None:
        """Number an envelope and queue it to one connection only; it is not reduced and never replayed."""
        subscriber.deliver(self._number(uri, action, origin, rejection_reason))

    def reject(self, subscriber: Subscriber, uri: str, action: StateAction, origin: ActionOrigin, reason: str) -> None:
        """Echo a refused action to its sender, then restore the truth, since some clients apply what was refused."""
        self.send_privately(subscriber, uri, action, origin, reason)
        channel = self.terminals.get(uri)
        truth: StateAction | None = None
        if channel is not None:
            tag = action_tag(action)
            state = channel.state
            if tag == "terminal/resized" and state.cols is not None and state.rows is not None:
                truth = TerminalResizedAction(cols=state.cols, rows=state.rows)
            elif tag == "terminal/claimed":
                truth = TerminalClaimedAction(claim=state.claim)
            elif tag == "terminal/titleChanged":
                truth = TerminalTitleChangedAction(title=state.title)
        if truth is not None:
            self.send_privately(subscriber, uri, truth)

    def _number(
        self, uri: str, action: StateAction, origin: ActionOrigin | None, rejection_reason: str | None = None
    ) -> ActionEnvelope:
        self.server_seq += 1
        return ActionEnvelope(
            channel=uri, action=action, server_seq=self.server_seq, origin=origin, rejection_reason=rejection_reason
        )

    def _as_seen(self, user: str | None, envelope: ActionEnvelope, users: dict[str, str | None] | None) -> ActionEnvelope | None:
        """An envelope without what belongs to other users; None where nothing is left."""
        if users is None:
            return envelope
        action = envelope.action
        if isinstance(action, RootTerminalsChangedAction):
            mine = tuple(info for info in action.terminals if _may_see(user, users.get(info.resource)))
            return replace(envelope, action=RootTerminalsChangedAction(terminals=mine))
        if isinstance(action, InfoChangedAction) and not _may_see(user, users.get(action.resource)):
            return None
        return envelope

    # --- subscriptions --------------------------------------------------------------------------------------------------

    def exists(self, user: str | None, uri: str) -> bool:
        """Whether a channel exists for a user."""
        return uri == ROOT_URI or self.visible_terminal(user, uri) is not None

    def subscribe(self, subscriber: Subscriber, uri: str) -> Snapshot | None:
        """Register a connection and take the snapshot, in one step; None where the channel does not exist for it."""
        channel = self.visible_terminal(subscriber.user, uri)
        if channel is not None:
            channel.subscribers[subscriber] = None
        elif uri == ROOT_URI:
            self._root_subscribers[subscriber] = None
        else:
            return None
        return self.snapshot(subscriber.user, uri)

    def unsubscribe(self, subscriber: Subscriber, uri: str) -> None:
        """Stop delivery; an unknown channel is ignored."""
        if uri == ROOT_URI:
            self._root_subscribers.pop(subscriber, None)
        elif uri in self.terminals:
            self.terminals[uri].subscribers.pop(subscriber, None)

    def snapshot(self, user: str | None, uri: str) -> Snapshot:
        """A channel's state as it goes on the wire: the superset of all dialects."""
        state: RootState | TerminalState
        if uri == ROOT_URI:
            infos = tuple(c.info for c in self.terminals.values() if _may_see(user, c.user))
            state = replace(self._root, terminals=infos)
        else:
            state = self.terminals[uri].state
            if state.lifecycle is not None and state.lifecycle.exit_code is not None:
                state = replace(state, exit_code=state.lifecycle.exit_code)
        return Snapshot(resource=uri, state=state, from_seq=self.server_seq)

    def can_replay(self, uris: Iterable[str], last_seen: int) -> bool:
        """Whether everything after ``last_seen`` is still known for these channels."""
        if not (self._log.covers(last_seen) and last_seen <= self.server_seq):
            return False
        return all(self.terminals[uri].created_seq <= last_seen for uri in uris if uri in self.terminals)

    def replay_since(self, user: str | None, uris: Iterable[str], last_seen: int) -> list[ActionEnvelope]:
        """Every envelope of these channels after ``last_seen``, as a user sees them, in order."""
        wanted = set(uris)
        seen = (
            self._as_seen(user, entry.envelope, entry.users)
            for entry in self._log.since(last_seen)
            if entry.envelope.channel in wanted
        )
        return [envelope for envelope in seen if envelope is not None]

    # --- authority ------------------------------------------------------------------------------------------------------

    def refusal(self, client: ClientRecord, channel: TerminalChannel, operation: Operation) -> str | None:
        """Why a client may not do something with a terminal that it may see; None where it may.

        Judged against the state at the time of the call.
        """
        claim = channel.state.claim
        if isinstance(claim, TerminalClientClaim) and claim.client_id == client.client_id:
            return None
        if operation == "signal" and (channel.submitter() == client.client_id or self._may_take(client, channel)):
            return None
        if operation == "dispose" and (
            channel.has_exited or (isinstance(claim, TerminalClientClaim) and not self.is_connected(claim.client_id))
        ):
            return None
        return f"held by {self.holder_name(claim)}"

    def claim_refusal(self, client: ClientRecord, channel: TerminalChannel, claim: TerminalClaim) -> str | None:
        """Why a client may not hand a terminal to ``claim``; None where it may."""
        held = channel.state.claim
        is_holder = isinstance(held, TerminalClientClaim) and held.client_id == client.client_id
        if not isinstance(claim, TerminalClientClaim):
            return "no such session"
        receiver = self.clients.get(claim.client_id)
        if receiver is None or not _same_user(receiver.user, client.user) or not _may_see(receiver.user, channel.user):
            return "no such client"
        if is_holder:
            return None
        if receiver.client_id != client.client_id:
            return f"held by {self.holder_name(held)}"
        if self._may_take(client, channel):
            return None
        is_busy_only = client.role == "kernel" and channel.is_busy() and self._may_take(client, channel, is_busy=False)
        return f"held by {self.holder_name(held)}" + (", and a command runs" if is_busy_only else "")

    def _may_take(self, client: ClientRecord, channel: TerminalChannel, *, is_busy: bool | None = None) -> bool:
        """Whether a client that is not the holder may take the claim for itself.

        Anybody, once the holder has no live connection. A person, from a kernel at any time; a kernel, from a person while no
        command runs: a kernel acts for the person whose notebook it runs.
        """
        held = channel.state.claim
        if not isinstance(held, TerminalClientClaim):
            return False
        if not self.is_connected(held.client_id):
            return True
        holder = self.clients[held.client_id]
        if holder.role == "kernel":
            return client.role == "person"
        return client.role == "kernel" and not (channel.is_busy() if is_busy is None else is_busy)


def action_tag(action: Any) -> str:
    """The wire's ``type`` of any action, known or not."""
    tag = getattr(action, "tag", None)
    return tag if isinstance(tag, str) else str(type(action).__struct_config__.tag)
