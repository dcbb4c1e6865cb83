"""The terminals: one pty with its tap each, and the host that makes them and does what clients ask.

Source: Agent Host Protocol, terminal channel; our extension x-terminal; shell-integration guide for sending commands.

All of this is for the loop thread only. It is one module past 500 lines because a terminal's output, input and runs move one
set of facts (prompt, editor, open command), and the host is little more than who may ask for them.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_from_bytes, unquote, urlsplit

from traitlets import Bool, Dict, Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from .._version import __version__
from ..core.connection import (
    MAX_SIZE,
    MAX_TITLE_CHARS,
    Call,
    HostConnection,
    clean_title,
)
from ..core.host_state import HostState, Role, TerminalChannel
from ..core.shell_integration import CommandDetector, Mark, ShellIntegrationParser
from ..protocol.messages import ErrorCode, Implementation, ProtocolError
from ..protocol.terminal import (
    ROOT_URI,
    CommandEnd,
    CreateTerminalParams,
    DetailsChangedAction,
    HolderInfo,
    InfoChangedAction,
    LastCommand,
    RunEndedAction,
    RunningCommand,
    RunParams,
    SignalResult,
    StateAction,
    SubmittedBy,
    Survivor,
    TerminalClaimedAction,
    TerminalClientClaim,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCreationOptions,
    TerminalCwdChangedAction,
    TerminalDetails,
    TerminalExitedAction,
    TerminalInputAction,
    TerminalLifecycle,
    TerminalResizedAction,
    TerminalState,
    TerminalSubmission,
    TerminalTitleChangedAction,
)
from .processes import end_session, signal_job
from .shells import PENDING, LaunchSpec, PrivateFiles, UnknownShell, child_environment, launch_spec
from .transports import PtyTransport

__all__ = ["HostedTerminal", "TerminalHost"]

DETAILS_INTERVAL_S = 0.2
"""Details are published at most five times a second."""
HOLDER_STALL_S = 2.0
"""A holder that takes nothing for so long is closed, and its program goes on."""
INTEGRATION_PATIENCE_S = 10.0
"""After so long without a mark a shell counts as untracked; marks that come later are believed all the same."""
TYPING_PATIENCE_S = 10.0
"""How long a run waits for a line that somebody else types."""
QUIET_S = 0.1
"""Silence that stands for "the line editor runs" in a shell that is known not to say so."""
EDITOR_PATIENCE_S = 2.0
"""How long a shell that may say so, or has said so before, is waited for: on a busy machine its editor starts late."""
CLEAR_PATIENCE_S = 0.3
"""How long the prompt that follows a Ctrl-C is waited for, before it is sent again."""
CLEAR_TRIES = 3
EXEC_S = 0.1
"""A command younger than this may not have replaced its shell's handlers yet, which swallow an interrupt."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
DEFAULT_COLS, DEFAULT_ROWS = 80, 24
MARK_VARIABLE = "JUPYTER_AHP_TERMINAL_MARK"
"""A random value per terminal: its URI may be that of a terminal of another server on this machine."""


@dataclass(eq=False)
class _Run:
    """One x-terminal/run, from its request to its end."""

    call: Call
    params: RunParams
    is_submitted: bool = False
    rest: deque[str] = field(default_factory=deque)
    typing_deadline: float | None = None
    prompts_before: int = 0
    editors_before: int = 0
    command_ids: list[str] = field(default_factory=list)


class HostedTerminal:
    """One pty and its tap: bytes in, actions of its channel out; loop thread only.

    Args:
        host: whose state it publishes to.
        channel_uri: its URI.
        spec: how its shell is started.
        nonce: by which its shell's marks are known.
        shell: the shell as people are told of it.
        initial_title: shown until a program or a person gives another.
        origin: the notebook it was made for.
    """

    def __init__(
        self,
        host: TerminalHost,
        channel_uri: str,
        spec: LaunchSpec,
        nonce: str,
        *,
        shell: str,
        initial_title: str,
        origin: str | None,
    ) -> None:
        self.uri = channel_uri
        self.transport: PtyTransport
        self.channel: TerminalChannel
        self.is_paused = False
        self.mark = secrets.token_hex(8)
        self._host = host
        self._state = host.state
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._shell = shell
        self._origin = origin
        self._parser = ShellIntegrationParser(nonce)
        self._detector = CommandDetector(hostname=socket.gethostname(), initial_title=initial_title)
        self._files: PrivateFiles | None = None
        self._tracking = spec.tracking
        self._named = False
        self._running: RunningCommand | None = None
        self._last: LastCommand | None = None
        self._submitter: str | None = None
        self._has_discarded = False
        self._prompts = 0
        self._editors = 0
        self._was_editing = False
        self._quiet_since = self._loop.time()
        self._quiet_s = EDITOR_PATIENCE_S if spec.tracking == PENDING else QUIET_S
        self._cleared_at: int | None = None
        self._clears_left = 0
        self._runs: deque[_Run] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._details_at = float("-inf")
        self._is_gone = False

    def start(self, env: dict[str, str], cwd: str, *, cols: int, rows: int, files: PrivateFiles | None) -> None:
        """Start the shell.

        Raises:
            OSError: it cannot be started.
        """
        self._files = files
        self.transport = PtyTransport.spawn(
            self._spec.argv,
            cwd=cwd,
            env=env,
            cols=cols,
            rows=rows,
            on_data=self._on_data,
            on_exit=self._on_exit,
            loop=self._loop,
        )
        if self._tracking == PENDING:
            self._later("integration", INTEGRATION_PATIENCE_S, self._give_up_tracking)

    # --- output -----------------------------------------------------------------------------------------------------------

    def _on_data(self, data: bytes) -> None:
        segments = self._parser.feed(data)
        self._quiet_since = self._loop.time()
        self._prompts += sum(1 for segment in segments if isinstance(segment, Mark) and segment.kind == "A")
        self._publish_all(self._detector.actions(segments, _now_ms(), _monotonic_ms()))
        if self._detector.is_loaded:
            self._remove_files()
        if self._detector.editor_ready and not self._was_editing:
            self._editors += 1
            self._quiet_s = EDITOR_PATIENCE_S
        self._was_editing = self._detector.editor_ready
        due = self._detector.title_due_ms
        if due is not None:
            self._later("title", max(0.0, (due - _now_ms()) / 1000), self._pending_title)
        if self._runs:
            self._advance_runs()
        self._check_pressure()

    def _publish_all(self, actions: list[StateAction]) -> None:
        for action in actions:
            self._publish(action)

    def _publish(self, action: StateAction) -> None:
        if isinstance(action, TerminalTitleChangedAction):
            if self._named:
                return
            self._state.publish(self.uri, action)
            self._state.publish_terminals()
            return
        if isinstance(action, TerminalCommandExecutedAction):
            submission = action.meta.x_terminal if action.meta else None
            self._running = RunningCommand(
                command_id=action.command_id, command_line=action.command_line, timestamp=action.timestamp
            )
            self._submitter = submission.by.client_id if submission and submission.by else None
            if self._runs and submission and submission.run_id == self._runs[0].params.run_id:
                self._runs[0].command_ids.append(action.command_id)
        elif isinstance(action, TerminalCommandFinishedAction):
            self._running = self._submitter = None
            self._last = LastCommand(command_id=action.command_id, exit_code=action.exit_code, duration_ms=action.duration_ms)
        elif isinstance(action, TerminalCommandDetectionAvailableAction):
            self._tracking = "yes"
            self._cancel("integration")
        self._state.publish(self.uri, action)
        if isinstance(
            action,
            TerminalCommandExecutedAction
            | TerminalCommandFinishedAction
            | TerminalCommandDetectionAvailableAction
            | TerminalCwdChangedAction,
        ):
            self.details_changed()

    def _pending_title(self) -> None:
        action = self._detector.pending_title(_now_ms())
        if action is not None:
            self._publish(action)

    def _on_exit(self, exit_code: int | None) -> None:
        if self._is_gone:
            return
        segments = self._parser.flush()
        self._publish_all(self._detector.actions(segments, _now_ms(), _monotonic_ms()))
        self._publish_all(self._detector.finish(_now_ms(), _monotonic_ms()))
        self._finish(exit_code)

    def _finish(self, exit_code: int | None) -> None:
        """The process has ended, or is given up: say so once, in order."""
        if self._is_gone:
            return
        self._is_gone = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._remove_files()
        while self._runs:
            self._end_run(self._runs.popleft(), "exited")
        self._running = None
        self._publish_details()
        self._state.publish(self.uri, TerminalExitedAction(exit_code=exit_code))
        self._state.publish_terminals()
        self.transport.close()

    def give_up(self) -> None:
        """Publish the end before the process has ended: the terminal is being disposed."""
        self._publish_all(self._detector.finish(_now_ms(), _monotonic_ms()))
        self._finish(None)

    def _remove_files(self) -> None:
        if self._files is not None:
            self._files.remove()
            self._files = None

    def _give_up_tracking(self) -> None:
        self._tracking = f"the shell's integration did not load within {INTEGRATION_PATIENCE_S:.0f} s"
        self._host.log.warning("Terminal %s: %s", self.uri, self._tracking)
        self.details_changed()
        self._advance_runs()

    # --- flow ---------------------------------------------------------------------------------------------------------------

    def _check_pressure(self) -> None:
        if self.is_paused or self._is_gone:
            return
        holders = [c for c in self._state.holder_connections(self.channel) if isinstance(c, HostConnection)]
        slow = [c for c in holders if c.is_over_high]
        if slow:
            self.is_paused = True
            self.transport.pause()
            self._watch_stall({c: c.taken_bytes for c in slow})

    def _watch_stall(self, taken: dict[HostConnection, int]) -> None:
        def check() -> None:
            if not self.is_paused:
                return
            for connection, before in taken.items():
                if connection.is_over_high and connection.taken_bytes == before:
                    connection.fall_behind()
                    self._host.log.warning("Terminal %s: its holder takes no output; closing that connection", self.uri)
            self.resume_if_drained()
            if self.is_paused:
                self._watch_stall({c: c.taken_bytes for c in taken if c.is_over_high})

        self._later("stall", HOLDER_STALL_S, check)

    def resume_if_drained(self) -> None:
        """Read on where no holder's queue is full any more."""
        if self.is_paused and not any(
            isinstance(c, HostConnection) and c.is_over_high for c in self._state.holder_connections(self.channel)
        ):
            self.is_paused = False
            self._cancel("stall")
            if not self._is_gone:
                self.transport.resume()

    # --- details ------------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a command runs, as far as the shell is tracked."""
        return self._detector.open_command_id is not None

    @property
    def settling_s(self) -> float:
        """How long the command that runs is not to be signalled yet."""
        running = self._running
        return 0.0 if running is None else max(0.0, EXEC_S - (_now_ms() - running.timestamp) / 1000)

    @property
    def submitter(self) -> str | None:
        """The client that submitted the command that runs."""
        return self._submitter

    def details(self) -> TerminalDetails:
        """What is to be told about it now."""
        state = self.channel.state
        claim = state.claim
        record = self._state.clients.get(claim.client_id) if isinstance(claim, TerminalClientClaim) else None
        return TerminalDetails(
            shell=self._shell,
            login=self._spec.login,
            pid=0 if self._is_gone else self.transport.pid,
            tracking=self._tracking,
            origin=self._origin,
            holder=HolderInfo(title=record.title, role=record.role) if record else None,
            named=True if self._named else None,
            cwd=state.cwd,
            running=self._running,
            last=self._last,
            discarded_typed=self._has_discarded or None,
        )

    def details_changed(self) -> None:
        """Publish the details soon: at once, or when the last were published long enough ago."""
        wait = self._details_at + DETAILS_INTERVAL_S - self._loop.time()
        if wait <= 0:
            self._publish_details()
        elif "details" not in self._timers:
            self._later("details", wait, self._publish_details)

    def _publish_details(self) -> None:
        self._cancel("details")
        self._details_at = self._loop.time()
        details = self.details()
        meta = self.channel.state.meta
        if meta is None or meta.x_terminal != details:
            self._state.publish(self.uri, DetailsChangedAction(details=details))
            self._state.publish(ROOT_URI, InfoChangedAction(resource=self.uri, details=details))

    def rename(self, title: str) -> str:
        """A person has named it; returns the title without controls."""
        self._named = True
        return clean_title(title)

    # --- input --------------------------------------------------------------------------------------------------------------

    def input(self, text: str) -> bool:
        """Queue what a client typed; False where the queue is full, and then nothing of it is taken."""
        data = text.encode("utf-8", "replace")
        if not self.transport.write(data):
            return False
        if data.endswith(b"\x03") and self._detector.at_prompt:
            self._cleared_at, self._clears_left = self._prompts, CLEAR_TRIES
        self._detector.input_sent(data)
        return True

    def _awaits_prompt(self) -> bool:
        """Whether the prompt that follows a Ctrl-C has not come yet.

        A Ctrl-C that catches bash between its prompt and its read has no effect before the next key, which it then takes away:
        so it is sent again.
        """
        if self._cleared_at != self._prompts:
            return False
        quiet_for = self._loop.time() - self._quiet_since
        if quiet_for >= CLEAR_PATIENCE_S:
            if self._clears_left == 0:
                self._cleared_at = None  # a shell that ignores it
                return False
            self._clears_left -= 1
            self._quiet_since += quiet_for
            self.transport.write(b"\x03")
        self._later("ready", CLEAR_PATIENCE_S, self._advance_runs)
        return True

    def enqueue_run(self, call: Call) -> None:
        """Take an x-terminal/run: it is submitted when the shell is ready, after the runs before it."""
        self._runs.append(_Run(call, call.params))
        self._advance_runs()

    def cancel_runs(self, connection: HostConnection) -> None:
        """A connection has gone: what it has asked for and is not yet submitted is not run."""
        self._runs = deque(run for run in self._runs if run.is_submitted or run.call.connection is not connection)

    def _advance_runs(self) -> None:
        """Do what the facts now allow: end the run that is under way, submit the next."""
        if not self._runs or self._is_gone:
            return
        run = self._runs[0]
        if run.is_submitted:
            self._go_on(run)
            return
        if self._awaits_prompt():
            return
        if self._tracking == PENDING:
            return  # the integration's first mark, or the end of our patience with it, comes back here
        if not self._is_ready():
            return
        if self._detector.has_typed and self._tracking == "yes" and not self._wait_for_typing(run):
            return
        self._submit(run)

    def _is_ready(self) -> bool:
        """Whether the shell's line editor takes input now; looks again when the silence is long enough."""
        if self._tracking == "yes":
            if not self._detector.at_prompt:
                return False
            if self._detector.editor_ready:
                return True
        quiet_for = self._loop.time() - self._quiet_since
        if quiet_for >= self._quiet_s:
            self._quiet_s = QUIET_S  # until it says so after all
            return True
        self._later("ready", self._quiet_s - quiet_for + 0.001, self._advance_runs)
        return False

    def _wait_for_typing(self, run: _Run) -> bool:
        """A line is being typed: clear it if asked to, else wait. Returns whether to submit now."""
        if run.params.discard_typed:
            self._has_discarded = True
            self.input("\x03")  # clears the line in every editor mode; a new prompt follows
            self.details_changed()
            return False
        now = self._loop.time()
        if run.typing_deadline is None:
            run.typing_deadline = now + TYPING_PATIENCE_S
        if now < run.typing_deadline:
            self._later("typing", 0.1, self._advance_runs)
            return False
        self._runs.popleft()
        run.call.fail(ProtocolError(ErrorCode.CONFLICT, "a line is being typed in this terminal"))
        self._advance_runs()
        return False

    def _submit(self, run: _Run) -> None:
        client = run.call.connection.client
        refusal = self._state.refusal(client, self.channel, "input") if client else "its client has gone"
        if refusal is not None or client is None:
            self._runs.popleft()
            run.call.fail(ProtocolError(ErrorCode.PERMISSION_DENIED, refusal or ""))
            self._advance_runs()
            return
        if not self._type_next(run, self._portions(run.params.text)):
            self._runs.popleft()
            run.call.fail(ProtocolError(ErrorCode.INVALID_PARAMS, "the text does not fit into the terminal's input queue"))
            self._advance_runs()
            return
        run.is_submitted = True
        run.call.respond()
        if self._tracking != "yes":
            self._runs.popleft()
            self._end_run(run, "untracked")
            self._advance_runs()

    def _portions(self, text: str) -> deque[str]:
        """What is typed at a time: where the line editor tells of itself a line, so that a stop leaves nothing to be run."""
        text = text.replace("\r\n", "\n").rstrip("\n")
        return deque(text.split("\n") if self._detector.editor_ready else [text])

    def _type_next(self, run: _Run, rest: deque[str]) -> bool:
        """Type the next portion of a run; False where the input queue has no room for it."""
        client = run.call.connection.client
        assert client is not None
        data = self._keystrokes(rest[0])
        if not self.transport.write(data):
            return False
        rest.popleft()
        self._detector.submission = TerminalSubmission(
            by=SubmittedBy(client_id=client.client_id, role=client.role), run_id=run.params.run_id
        )
        self._detector.input_sent(data)
        run.rest = rest
        run.prompts_before = self._prompts
        run.editors_before = self._editors
        self._was_editing = False
        return True

    def _keystrokes(self, text: str) -> bytes:
        """A text as it is to be typed, so that nothing in it is taken for an editing key."""
        if self._detector.editor_ready:
            return b"\x1b[200~" + text.replace("\x1b[201~", "").encode("utf-8", "replace") + b"\x1b[201~\r"
        if self._tracking == "yes":
            # readline without bracketed paste: Ctrl-V takes the next key as it is, be it a newline or a tab
            text = re.sub(r"[\x00-\x1f\x7f]", lambda match: "\x16" + match[0], text)
        else:
            text = text.replace("\n", "\r")
        return text.encode("utf-8", "replace") + b"\r"

    def _go_on(self, run: _Run) -> None:
        """A run is under way: type its next line, or end it."""
        is_prompted = self._prompts > run.prompts_before
        is_continued = not is_prompted and self._editors > run.editors_before and not self.is_busy
        if not (is_prompted or is_continued):
            return
        while is_prompted and run.rest and not run.rest[0].strip():
            run.rest.popleft()  # a blank line says something to a here-document only
        if run.rest:
            client = run.call.connection.client
            if client is None or self._state.refusal(client, self.channel, "input") is not None:
                self._runs.popleft()
                self._end_run(run, "lost")  # somebody else has taken the terminal: the lines left are not for their prompt
                self._advance_runs()
            elif (is_continued or self._is_ready()) and not self._type_next(run, run.rest):
                run.rest.clear()  # nobody reads what was typed before
            return
        self._runs.popleft()
        self._end_run(run, "done" if is_prompted else "continuation")
        self._advance_runs()

    def drop_rest(self) -> None:
        """The command that runs is being signalled: the lines of its run that are left are not typed."""
        if self._runs:
            self._runs[0].rest.clear()

    def _end_run(self, run: _Run, reason: CommandEnd) -> None:
        self._detector.submission = None
        if not run.is_submitted:
            run.call.fail(ProtocolError(ErrorCode.CONFLICT, "the terminal has exited"))
            return
        self._state.publish(
            self.uri,
            RunEndedAction(run_id=run.params.run_id, command_ids=tuple(run.command_ids), reason=reason),
        )

    # --- timers -------------------------------------------------------------------------------------------------------------

    def _later(self, name: str, delay_s: float, callback: Callable[[], None]) -> None:
        """(Re)start a named timer."""
        self._cancel(name)

        def fire() -> None:
            self._timers.pop(name, None)
            callback()

        self._timers[name] = self._loop.call_later(delay_s, fire)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


class TerminalHost(LoggingConfigurable):
    """Makes terminals and does what clients ask of them; loop thread only."""

    retained_chars = Integer(200_000, min=10_000, help="What each terminal's content keeps, in characters.").tag(config=True)
    max_terminals = Integer(100, min=1, help="How many terminals there may be at once.").tag(config=True)
    enabled = Bool(True, help="Whether terminals may be made.").tag(config=True)
    start_folder = Unicode("", help="Where a terminal starts that names no folder; empty for the home folder.").tag(config=True)
    shell = Unicode("", help="The shell for a client that names none; empty for the user's own.").tag(config=True)
    login = Bool(False, help="Whether shells are login shells where a client does not say.").tag(config=True)
    environment = Dict(value_trait=Unicode(), key_trait=Unicode(), help="Additions to the environment of every terminal.").tag(
        config=True
    )
    grace_s = Float(2.0, min=0.0, help="How long a terminal's processes may take to end before they are killed.").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state = HostState(retained_chars=self.retained_chars)
        self.terminals: dict[str, HostedTerminal] = {}
        self._connections: set[HostConnection] = set()
        self._endings: set[asyncio.Task[tuple[Survivor, ...]]] = set()
        self._calls: set[asyncio.Task[None]] = set()

    # --- connections ------------------------------------------------------------------------------------------------------

    def connect(self, *, user: str | None, role: Role, title: str, wakeup: Callable[[], None]) -> HostConnection:
        """The host's end of a new conversation. Give what it receives to `receive`, and `disconnect` it at its end.

        Args:
            user: the authenticated user; None where all are one.
            role: a person's client, or a kernel.
            title: how people see the client.
            wakeup: called when something is to be sent.
        """
        connection = HostConnection(
            self.state,
            user=user,
            role=role,
            title=title,
            server_info=Implementation(name="jupyter-ahp", version=__version__),
            wakeup=wakeup,
            drained=self._drained,
        )
        self._connections.add(connection)
        return connection

    def receive(self, connection: HostConnection, text: str | bytes) -> None:
        """Take one message and do what it asks for."""
        for call in connection.receive(text):
            try:
                self._perform(call)
            except ProtocolError as error:
                call.fail(error)
            except Exception:
                self.log.exception("%s failed", call.method)
                call.fail(ProtocolError(ErrorCode.INTERNAL_ERROR, "internal error"))

    def disconnect(self, connection: HostConnection) -> None:
        """A connection has gone. Its terminals live on."""
        self._connections.discard(connection)
        connection.close()
        for terminal in self.terminals.values():
            terminal.cancel_runs(connection)

    def _drained(self, connection: HostConnection) -> None:
        for terminal in self.terminals.values():
            terminal.resume_if_drained()

    # --- what clients ask ---------------------------------------------------------------------------------------------------

    def _perform(self, call: Call) -> None:
        if call.method == "createTerminal":
            self._create(call.connection, call.params)
            call.respond()
        elif call.method == "disposeTerminal":
            self._dispose(call.channel)
            call.respond()
        elif call.method == "dispatchAction":
            self._act(call)
        elif call.method == "x-terminal/run":
            terminal = self.terminals[call.channel]
            if terminal.channel.has_exited:
                raise ProtocolError(ErrorCode.CONFLICT, "the terminal has exited")
            if _CONTROLS.search(call.params.text):
                raise ProtocolError(ErrorCode.INVALID_PARAMS, "the text holds control characters, which a terminal acts on")
            terminal.enqueue_run(call)
        elif call.method == "x-terminal/signal":
            self._spawn_call(self._signal(call))
        else:
            ending = self._dispose(call.channel)
            self._spawn_call(self._answer_survivors(call, ending))

    def _spawn_call(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _signal(self, call: Call) -> None:
        terminal = self.terminals[call.channel]
        terminal.drop_rest()
        await asyncio.sleep(terminal.settling_s)
        survivors = await signal_job(terminal.transport, call.params.signal)
        call.respond(SignalResult(survivors=survivors))

    async def _answer_survivors(self, call: Call, ending: asyncio.Task[tuple[Survivor, ...]]) -> None:
        call.respond(SignalResult(survivors=await ending))

    def _act(self, call: Call) -> None:
        """Perform a dispatched action that its sender may dispatch, and publish it."""
        action, uri = call.params, call.channel
        terminal = self.terminals[uri]
        assert call.origin is not None
        if isinstance(action, TerminalInputAction):
            if terminal.input(action.data):
                self.state.send_privately(call.connection, uri, action, call.origin)
            else:
                self.state.reject(call.connection, uri, action, call.origin, "the terminal's input queue is full")
            return
        if isinstance(action, TerminalResizedAction):
            terminal.transport.resize(cols=action.cols, rows=action.rows)
        elif isinstance(action, TerminalTitleChangedAction):
            action = TerminalTitleChangedAction(title=terminal.rename(action.title))
        self.state.publish(uri, action, call.origin)
        if isinstance(action, TerminalTitleChangedAction | TerminalClaimedAction):
            terminal.details_changed()
            self.state.publish_terminals()
        if isinstance(action, TerminalClaimedAction):
            terminal.resume_if_drained()

    def _create(self, connection: HostConnection, params: CreateTerminalParams) -> None:
        self._check_creation(connection, params)
        cwd = self._folder(params.cwd)
        cols, rows = params.cols or DEFAULT_COLS, params.rows or DEFAULT_ROWS
        options = (params.meta.x_terminal if params.meta else None) or TerminalCreationOptions()
        nonce = secrets.token_hex(16)
        login = self.login if options.login is None else options.login
        try:
            spec = launch_spec(options.shell or self.shell or None, login=login, nonce=nonce)
        except UnknownShell as error:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, str(error)) from None
        shell = options.shell or os.path.basename(spec.shell)
        title = clean_title(params.name or "")[:MAX_TITLE_CHARS] or os.path.basename(spec.shell)
        files, spec = PrivateFiles.write(spec)
        terminal = HostedTerminal(self, params.channel, spec, nonce, shell=shell, initial_title=title, origin=options.origin)
        env = self._environment(params.channel, terminal.mark, spec, options.env)
        try:
            terminal.start(env, cwd, cols=cols, rows=rows, files=files)
        except OSError as error:
            if files is not None:
                files.remove()
            self.log.warning("Terminal %s could not be started: error %s", params.channel, error.errno)
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, f"{shell} could not be started: {error}") from None
        state = TerminalState(
            title=title,
            content=(),
            claim=params.claim,
            lifecycle=TerminalLifecycle(status="running"),
            cwd="file://" + _quote_path(cwd),
            cols=cols,
            rows=rows,
            is_pty=True,
        )
        self.terminals[params.channel] = terminal
        terminal.channel = self.state.add_terminal(
            params.channel,
            state,
            user=None if connection.role == "kernel" else connection.user,
            is_busy=lambda: terminal.is_busy,
            submitter=lambda: terminal.submitter,
        )
        terminal.details_changed()

    def _check_creation(self, connection: HostConnection, params: CreateTerminalParams) -> None:
        """Refuse a terminal that may not be made, with the reason."""
        assert connection.client is not None
        if not self.enabled:
            raise ProtocolError(ErrorCode.PERMISSION_DENIED, "terminals are turned off by the administrator")
        if params.channel in self.state.terminals:
            raise ProtocolError(ErrorCode.ALREADY_EXISTS, "the terminal exists")
        if not isinstance(params.claim, TerminalClientClaim) or params.claim.client_id != connection.client.client_id:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "claim must name the client that creates the terminal")
        if len(self.terminals) >= self.max_terminals:
            raise ProtocolError(ErrorCode.PERMISSION_DENIED, f"there are {self.max_terminals} terminals already")
        options = params.meta.x_terminal if params.meta else None
        for name, value in ((options.env if options else None) or {}).items():
            if not name or "=" in name or "\0" in name or "\0" in (value or ""):
                raise ProtocolError(ErrorCode.INVALID_PARAMS, "env holds what cannot be a variable")
        if not all(size is None or 1 <= size <= MAX_SIZE for size in (params.cols, params.rows)):
            raise ProtocolError(ErrorCode.INVALID_PARAMS, f"size outside 1 to {MAX_SIZE}")

    def _environment(self, uri: str, mark: str, spec: LaunchSpec, additions: Mapping[str, str | None] | None) -> dict[str, str]:
        env = child_environment(os.environ, uri=uri)
        env.update(self.environment)
        for name, value in (additions or {}).items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        env.update(spec.env)
        # By these what has left the terminal's session is found: not a client's to choose.
        env["JUPYTER_AHP_TERMINAL"] = uri
        env[MARK_VARIABLE] = mark
        return env

    def _folder(self, cwd: str | None) -> str:
        """The folder of a file: URI; the home folder where none is named.

        Raises:
            ProtocolError: -32602, it is no local folder.
        """
        if cwd is None:
            return self.default_folder()
        try:
            parts = urlsplit(cwd)
            path = os.fsdecode(unquote(parts.path, errors="surrogateescape"))
            is_local = parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith("/")
        except ValueError:
            is_local, path = False, ""
        if not is_local or "\0" in path or parts.query or parts.fragment:
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "cwd is no local file: URI")
        if not os.path.isdir(path):
            raise ProtocolError(ErrorCode.INVALID_PARAMS, "cwd is no folder on this machine")
        return path

    def default_folder(self) -> str:
        """Where a terminal starts that names no folder."""
        folder = self.start_folder or os.path.expanduser("~")
        return folder if os.path.isdir(folder) else "/"

    # --- ends ---------------------------------------------------------------------------------------------------------------

    def _dispose(self, uri: str) -> asyncio.Task[tuple[Survivor, ...]]:
        """Forget a terminal now; its processes are ended behind it."""
        terminal = self.terminals.pop(uri)
        pid = terminal.transport.pid
        has_exited = terminal.channel.has_exited
        terminal.give_up()
        self.state.remove_terminal(uri)
        ending = asyncio.get_running_loop().create_task(
            end_session(pid, f"{MARK_VARIABLE}={terminal.mark}", has_leader=not has_exited, grace_s=self.grace_s)
        )
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    async def shutdown(self) -> None:
        """End every terminal and what runs in it, then every connection (1001).

        What has left a terminal's session on purpose goes on, and is named in the log.
        """
        endings = [(uri, self._dispose(uri)) for uri in list(self.terminals)]
        for uri, ending in endings:
            for survivor in await ending:
                self.log.warning("Terminal %s: process %d (%s) goes on", uri, survivor.pid, survivor.name)
        if self._endings or self._calls:
            await asyncio.wait([*self._endings, *self._calls], timeout=self.grace_s + 1)
        for connection in list(self._connections):
            connection.end(1001)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _quote_path(path: str) -> str:
    return quote_from_bytes(os.fsencode(path))
