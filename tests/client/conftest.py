"""A host without a shell, to which a client speaks without a socket: what is run is answered by a script."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_ext.client import discovery
from jupyter_ext.client.client import HostClient
from jupyter_ext.client.terminal import Terminal
from jupyter_ext.core.connection import Call, HostConnection
from jupyter_ext.core.host_state import HostState, Role
from jupyter_ext.protocol.messages import ErrorCode, Implementation, ProtocolError
from jupyter_ext.protocol.terminal import (
    RunEndedAction,
    SignalResult,
    StateAction,
    SubmittedBy,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalDataAction,
    TerminalDetails,
    TerminalInputAction,
    TerminalLifecycle,
    TerminalMeta,
    TerminalPartMeta,
    TerminalState,
    TerminalSubmission,
)

DEADLINE_S = 10.0


class FakeLink:
    def __init__(self, host: FakeHost, role: Role, title: str) -> None:
        self.host = host
        self.awake = asyncio.Event()
        self.connection = HostConnection(
            host.state, user=None, role=role, title=title, server_info=Implementation(name="fake"), wakeup=self.awake.set
        )
        self.frames: list[bytes] = []
        self.is_closed = False

    def send(self, data: bytes) -> None:
        if not self.is_closed:
            for call in self.connection.receive(data):
                self.host.perform(call)

    async def receive(self) -> bytes | None:
        while not self.frames and not self.is_closed:
            self.frames = self.connection.data_to_send()[::-1]
            if not self.frames:
                self.awake.clear()
                await self.awake.wait()
        return None if self.is_closed else self.frames.pop()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.connection.close()
            self.host.links.remove(self)
            self.awake.set()


class FakeHost:
    """A connector and its host in one. All but ``on`` and the settings is for the client's loop thread.

    ``scripts`` maps a text to a function that answers its run; others print the text and end with 0.
    """

    description = "the fake host"
    is_local = True

    def __init__(self) -> None:
        self.state = HostState()
        self.links: list[FakeLink] = []
        self.calls: list[Call] = []
        self.scripts: dict[str, Callable[[Call], None]] = {}
        self.on_signal: Callable[[str], None] = lambda signal: None
        self.tracking = "yes"
        self.role: Role = "kernel"
        self.is_down = False
        self.refusal: Exception | None = None
        self.is_shut_down = False
        self.typed: list[str] = []
        self.number = 0

    # --- as a connector ---

    async def connect(self) -> FakeLink:
        if self.refusal is not None:
            raise self.refusal
        if self.is_down:
            raise ConnectionRefusedError("down")
        link = FakeLink(self, self.role, "a notebook")
        self.links.append(link)
        return link

    async def shutdown(self) -> None:
        self.is_shut_down = True

    def drop_links(self) -> None:
        for link in list(self.links):
            link.close()

    # --- as a host ---

    def perform(self, call: Call) -> None:
        self.calls.append(call)
        if call.method == "createTerminal":
            if call.channel in self.state.terminals:
                call.fail(ProtocolError(ErrorCode.ALREADY_EXISTS, "the terminal exists"))
                return
            if call.params.meta.x_terminal.shell == "nosuch":
                call.fail(ProtocolError(ErrorCode.INVALID_PARAMS, "no shell nosuch: there are bash, fish"))
                return
            self.create(call.channel, call.params.claim)
            call.respond()
        elif call.method == "x-terminal/run":
            self.scripts.get(call.params.text, self.echo)(call)
        elif call.method == "x-terminal/signal":
            call.respond(SignalResult(survivors=()))
            self.on_signal(call.params.signal)
        elif call.method == "x-terminal/close":
            self.state.remove_terminal(call.channel)
            call.respond(SignalResult(survivors=()))
        elif isinstance(call.params, TerminalInputAction):
            self.typed.append(call.params.data)
            self.state.send_privately(call.connection, call.channel, call.params, call.origin)
        else:
            self.state.publish(call.channel, call.params, call.origin)

    def create(self, uri: str, claim: Any) -> None:
        details = TerminalDetails(shell="bash", login=False, pid=1, tracking=self.tracking)
        state = TerminalState(
            title="t",
            content=(),
            claim=claim,
            lifecycle=TerminalLifecycle(status="running"),
            cols=80,
            rows=24,
            supports_command_detection=self.tracking == "yes" or None,
            meta=TerminalMeta(x_terminal=details),
        )
        self.state.add_terminal(uri, state, user=None)

    def publish(self, uri: str, *actions: StateAction) -> None:
        for action in actions:
            self.state.publish(uri, action)

    def echo(self, call: Call) -> None:
        call.respond()
        self.publish(call.channel, self.executed(call), TerminalDataAction(data=call.params.text + "\r\n"))
        self.publish(call.channel, self.finished(0), self.ended(call))

    def executed(self, call: Call, line: str | None = None) -> StateAction:
        self.number += 1
        by = SubmittedBy(client_id="c", role="kernel")
        meta = TerminalPartMeta(x_terminal=TerminalSubmission(by=by, run_id=call.params.run_id))
        return TerminalCommandExecutedAction(
            command_id=f"c{self.number}", command_line=line or call.params.text, timestamp=1000 * self.number, meta=meta
        )

    def finished(self, exit_code: int | None) -> StateAction:
        return TerminalCommandFinishedAction(command_id=f"c{self.number}", exit_code=exit_code, duration_ms=250)

    def ended(self, call: Call, reason: Any = "done") -> StateAction:
        return RunEndedAction(run_id=call.params.run_id, command_ids=(f"c{self.number}",), reason=reason)

    # --- from the test's thread ---

    def on(self, client: HostClient, function: Callable[..., Any], *args: Any) -> Any:
        """Call something on the loop thread."""

        async def call() -> Any:
            return function(*args)

        return client.call(call())


def until(condition: Callable[[], Any]) -> None:
    """Wait for another thread's work, up to a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.002)


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def client(host: FakeHost) -> Iterator[HostClient]:
    client = HostClient(host, title="a notebook", reconnect_s=1.0)
    client.start()
    yield client
    client.close()
    assert not client.is_usable


@pytest.fixture
def terminal(client: HostClient, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """``terminal("t")`` is a Terminal of the fake host."""
    monkeypatch.setattr("jupyter_ext.client.terminal.shared_client", lambda host: client)
    return Terminal


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any]], None]:
    return until


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment that tells of no server; the clients that a test makes are closed."""
    for name in ("JUPYTER_AHP_URL", "JUPYTER_AHP_TOKEN", "JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_API_TOKEN", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("URL", "ID", "TOKEN"):
        monkeypatch.delenv(f"JUPYTER_AHP_KERNEL_{name}", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(discovery, "_kernel_server", None)
    monkeypatch.setattr(discovery, "_clients", {})
    yield
    with contextlib.suppress(AttributeError):
        discovery._close_clients()


@pytest.fixture
def interrupt_after() -> Iterator[Callable[[float], None]]:
    """``interrupt_after(s)`` presses Ctrl-C in this process's main thread after so many seconds."""
    timers: list[threading.Timer] = []

    def arm(delay_s: float) -> None:
        timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))
        timers.append(timer)
        timer.start()

    yield arm
    for timer in timers:
        timer.join()
