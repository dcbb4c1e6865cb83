"""HostClient: one AHP conversation with a host, on a thread and an event loop of its own.

The loop goes on while a notebook cell blocks. Blocking callers wait in `HostClient.call`, which Ctrl-C in the main thread ends;
async callers of other loops wrap `HostClient.submit`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from .._version import __version__
from ..core.connection import Answer, Changed, ClientConnection, Event, Lost
from ..protocol.messages import ActionEnvelope, Implementation, decode_result
from ..protocol.terminal import RootState, StateAction, TerminalState

__all__ = [
    "Connector",
    "HostClient",
    "HostGone",
    "HostMissing",
    "HostRefused",
    "Link",
    "LinkLost",
    "Listener",
    "Rejected",
    "State",
]

T = TypeVar("T")
State = RootState | TerminalState
Listener = Callable[[State | None, ActionEnvelope | None], None]
"""Called on the loop thread with the new state and the envelope that made it.

State None: the channel is gone. Envelope None: the state is a new snapshot.
"""

START_S = 15.0
"""The longest wait for the first handshake."""
ANSWER_S = 10.0
"""The longest wait for the echo of an action; a host answers in milliseconds."""
RECONNECT_S = 60.0
"""How long a lost host is looked for: a proxy's restart and a sleeping laptop's network are back within it."""
BACK_OFF_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses between attempts to come back; the last one is repeated."""
CLOSE_S = 8.0
"""The longest wait for a client to end, more than a host needs to end stubborn jobs."""

log = logging.getLogger(__name__)


class Link(Protocol):
    """Ordered whole messages both ways. Loop thread only."""

    def send(self, data: bytes) -> None:
        """Queue one message; after the link's end it is dropped."""

    async def receive(self) -> str | bytes | None:
        """The next message; None once the link has ended."""

    def close(self) -> None:
        """End the link."""


class Connector(Protocol):
    """The way to one host. Loop thread only, but for its attributes."""

    description: str
    """The host in words for people."""
    is_local: bool
    """Whether paths of this machine are paths of the host's."""

    async def connect(self) -> Link:
        """A new link.

        Raises:
            HostMissing, HostRefused, OSError.
        """

    async def shutdown(self) -> None:
        """The client ends: end what was started for it alone."""


class HostGone(ConnectionError):
    """The host was lost and could not be reached again."""


class HostMissing(ConnectionError):
    """There is a server, and it has no AHP socket."""


class HostRefused(ConnectionError):
    """The server does not let us in."""


class LinkLost(ConnectionError):
    """The link broke before the answer came; whether the host has acted is not known."""


class Rejected(Exception):
    """The host refused an action; the text is its reason."""


class HostClient:
    """A client of one host, shared by everything in this process that uses the host.

    Methods say which thread may call them; "loop thread" is this client's own.

    Args:
        connector: the way to the host.
        title: how people see this client.
        reconnect_s: how long a lost host is looked for.
    """

    def __init__(self, connector: Connector, *, title: str = "Python", reconnect_s: float = RECONNECT_S) -> None:
        self.client_id = uuid.uuid4().hex
        self.connector = connector
        self._connection = ClientConnection(
            client_id=self.client_id,
            client_info=Implementation(name="jupyter-ahp", version=__version__, title=title),
        )
        self._reconnect_s = reconnect_s
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="jupyter-ahp-client", daemon=True)
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._submitted: set[concurrent.futures.Future[Any]] = set()
        self._guard = threading.Lock()
        self._is_over = False
        self._failure: Exception | None = None
        # loop thread
        self._ready = asyncio.Event()
        self._link: Link | None = None
        self._answers: dict[Any, asyncio.Future[msgspec.Raw | None]] = {}
        self._echoes: dict[int, asyncio.Future[ActionEnvelope]] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._conversation: asyncio.Task[None] | None = None

    # --- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect; returns after the handshake. Any thread, once.

        Raises:
            HostMissing, HostRefused, OSError: there is no way to the host.
            ProtocolError: the host does not speak our protocol.
        """
        self._thread.start()
        try:
            self._started.result(START_S)
        except concurrent.futures.TimeoutError:
            self.close()
            raise ConnectionError(f"no answer from {self.connector.description} within {START_S:g} s") from None
        except BaseException:
            self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether it lives, in this process. Any thread."""
        return not self._is_over and self._pid == os.getpid()

    def close(self) -> None:
        """End the conversation, the loop and its thread; waits a bounded time. Any thread but the loop's; may be repeated."""
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # the loop has just ended by itself
            self._loop.call_soon_threadsafe(self._hang_up)
        self._thread.join(CLOSE_S)

    def _hang_up(self) -> None:
        if self._conversation is not None:
            self._conversation.cancel()

    def _run(self) -> None:
        # An empty context: what is published from here belongs to the cell that runs, not to the one that began the thread.
        contextvars.Context().run(self._run_loop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            with self._guard:
                self._is_over = True
                left, self._submitted = self._submitted, set()
            self._cancel_tasks()
            for future in left:
                future.cancel()
            asyncio.set_event_loop(None)
            self._loop.close()

    def _cancel_tasks(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _live(self) -> None:
        self._conversation = asyncio.ensure_future(self._converse())
        try:
            await self._conversation
            failure: Exception = HostGone(f"the conversation with {self.connector.description} is over")
        except asyncio.CancelledError:
            failure = HostGone(f"the conversation with {self.connector.description} was closed")
        except Exception as error:  # every way to lose a host ends here, and is told to whoever waits
            failure = error
        self._end(failure)
        try:
            await self.connector.shutdown()
        except Exception:
            log.exception("ending %s", self.connector.description)

    def _end(self, failure: Exception) -> None:
        self._failure = failure
        self._is_over = True
        self._drop_link(failure)
        self._ready.set()  # whoever waits for a link sees the failure
        for uri in list(self._listeners):
            self._tell(uri, None, None)
        if not self._started.done():
            self._started.set_exception(failure)

    # --- the conversation -----------------------------------------------------------------------------------------------

    async def _converse(self) -> None:
        link = await self.connector.connect()
        self._connection.initialize()
        while True:
            try:
                await self._serve(link)
            finally:
                link.close()
            self._drop_link(LinkLost(f"the link to {self.connector.description} broke"))
            link = await self._come_back()
            self._connection.reconnect()

    async def _serve(self, link: Link) -> None:
        """Speak over one link until it ends."""
        self._link = link
        self._flush()
        while (message := await link.receive()) is not None:
            for event in self._connection.receive(message):
                self._handle(event)
            self._flush()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answer):
            self._answered(event)
        elif isinstance(event, Changed):
            envelope = event.envelope
            if envelope is not None and envelope.origin is not None and envelope.origin.client_id == self.client_id:
                self._echoed(envelope)
            if envelope is None or envelope.rejection_reason is None:
                self._tell(event.uri, self._connection.state(event.uri), envelope)
        elif isinstance(event, Lost):
            self._tell(event.uri, None, None)

    def _answered(self, answer: Answer) -> None:
        if not self._ready.is_set():  # nothing else is asked before the handshake is answered
            if answer.error is not None:
                raise answer.error
            self._ready.set()
            if not self._started.done():
                self._started.set_result(None)
            return
        future = self._answers.pop(answer.id, None)
        if future is None or future.done():
            return
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.result)

    def _echoed(self, envelope: ActionEnvelope) -> None:
        assert envelope.origin is not None
        future = self._echoes.pop(envelope.origin.client_seq, None)
        if future is None or future.done():
            return
        if envelope.rejection_reason is not None:
            future.set_exception(Rejected(envelope.rejection_reason))
        else:
            future.set_result(envelope)

    def _tell(self, uri: str, state: State | None, envelope: ActionEnvelope | None) -> None:
        for listener in list(self._listeners.get(uri, ())):
            try:
                listener(state, envelope)
            except Exception:  # one listener's fault is not the others'
                log.exception("listener of %s", uri)

    def _flush(self) -> None:
        if self._link is not None:
            for data in self._connection.data_to_send():
                self._link.send(data)

    def _drop_link(self, reason: Exception) -> None:
        self._link = None
        self._ready.clear()
        waiting: list[asyncio.Future[Any]] = [*self._answers.values(), *self._echoes.values()]
        self._answers.clear()
        self._echoes.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(reason)
                future.exception()  # a caller that has given up is no "exception was never retrieved"

    async def _come_back(self) -> Link:
        until = time.monotonic() + self._reconnect_s
        attempt = 0
        while True:
            await asyncio.sleep(BACK_OFF_S[min(attempt, len(BACK_OFF_S) - 1)])
            attempt += 1
            try:
                return await self.connector.connect()
            except HostRefused:
                raise
            except (OSError, HostMissing) as error:  # a server that is starting has no socket yet
                if time.monotonic() >= until:
                    lost = f"lost {self.connector.description}, and could not reach it again within {self._reconnect_s:g} s"
                    raise HostGone(f"{lost} ({error})") from None

    # --- for callers on other threads -------------------------------------------------------------------------------------

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop thread. Any thread.

        Raises:
            HostGone: the client has ended.
            RuntimeError: it was made in the parent process, before a fork.
        """
        with self._guard:
            refusal: Exception | None = None
            if self._pid != os.getpid():
                refusal = RuntimeError("made in the parent process: make a new Terminal in this one")
            elif self._is_over:
                refusal = self._failure or HostGone(f"the conversation with {self.connector.description} is over")
            if refusal is not None:
                coroutine.close()
                raise refusal
            # An empty context, as in _run: the caller's says which cell it belongs to.
            future = contextvars.Context().run(asyncio.run_coroutine_threadsafe, coroutine, self._loop)
            self._submitted.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: concurrent.futures.Future[Any]) -> None:
        with self._guard:
            self._submitted.discard(future)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop thread and wait for it; Ctrl-C ends the wait and cancels it. Any other thread.

        Raises:
            HostGone: the client has ended.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call on the client's own loop")
        future = self.submit(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self._failure or HostGone(f"the conversation with {self.connector.description} is over") from None
        except BaseException:
            future.cancel()
            raise

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Call something soon on the loop thread; dropped after the client's end. Any thread."""
        if self.is_usable:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(callback, *args, context=contextvars.Context())

    # --- loop thread ------------------------------------------------------------------------------------------------------

    async def _until_ready(self) -> None:
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure

    async def request(self, method: str, params: Any, result_type: type[T] | None = None) -> T | None:
        """Ask the host; during an outage this waits for the link. Loop thread only.

        Args:
            method: the wire's name.
            params: a wire value.
            result_type: what the answer is read as; None where there is nothing to read.

        Raises:
            ProtocolError: the host refused.
            LinkLost: the link broke before the answer.
            HostGone: the client has ended.
        """
        await self._until_ready()
        answer = await self._asked(self._connection.request(method, params))
        return decode_result(answer, result_type) if result_type is not None and answer is not None else None

    async def _asked(self, request_id: int) -> msgspec.Raw | None:
        future: asyncio.Future[msgspec.Raw | None] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = future
        self._flush()
        try:
            return await future
        finally:
            self._answers.pop(request_id, None)

    async def subscribe(self, uri: str) -> State:
        """Mirror a channel; its state once there. Repeating it takes a fresh snapshot only where there is none. Loop thread only.

        Raises:
            ProtocolError: no such channel.
            LinkLost, HostGone.
        """
        await self._until_ready()
        state = self._connection.state(uri)
        if state is None:
            await self._asked(self._connection.subscribe(uri))
            state = self._connection.state(uri)
            assert state is not None
        return state

    async def unsubscribe(self, uri: str) -> None:
        """Stop mirroring a channel. Loop thread only."""
        self._connection.unsubscribe(uri)
        self._flush()

    async def dispatch(self, uri: str, action: StateAction) -> ActionEnvelope:
        """Dispatch an action and wait for its echo. Loop thread only.

        Raises:
            Rejected: the host refused it.
            TimeoutError: no echo: the channel does not exist.
            LinkLost, HostGone.
        """
        await self._until_ready()
        future: asyncio.Future[ActionEnvelope] = asyncio.get_running_loop().create_future()
        client_seq = self._connection.dispatch(uri, action)
        self._echoes[client_seq] = future
        self._flush()
        try:
            return await asyncio.wait_for(future, ANSWER_S)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no answer from {self.connector.description}") from None
        finally:
            self._echoes.pop(client_seq, None)

    def state(self, uri: str) -> State | None:
        """A mirrored channel's state. Any thread: states are never changed, only replaced."""
        return self._connection.state(uri)

    def listen(self, uri: str, listener: Listener) -> None:
        """Call ``listener`` at every change of a mirrored channel. Loop thread only."""
        self._listeners.setdefault(uri, []).append(listener)

    def unlisten(self, uri: str, listener: Listener) -> None:
        """Undo `listen`; an unknown listener is ignored. Loop thread only."""
        listeners = self._listeners.get(uri, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._listeners.pop(uri, None)

    def turn(self, uri: str) -> asyncio.Lock:
        """What our own runs in one terminal take in turns. Loop thread only."""
        return self._turns.setdefault(uri, asyncio.Lock())
