"""Run: one text handed to a terminal's shell, followed to its end; and what it leaves.

A run keeps its commands' output by itself, since the channel's content is trimmed, and can be cleared by any viewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from ..core.screen import Screen
from ..protocol.display import CommandBundle, SavedCommand, SavedOutput
from ..protocol.messages import ActionEnvelope, ProtocolError
from ..protocol.terminal import (
    CommandEnd,
    RunEndedAction,
    RunParams,
    SignalParams,
    SignalResult,
    Survivor,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCommandPart,
    TerminalDataAction,
    TerminalExitedAction,
    TerminalInputAction,
    TerminalPartMeta,
    TerminalState,
)
from .client import HostClient, LinkLost, State

__all__ = ["Command", "Run", "Signal", "StopReason", "Transcript", "uri_path"]

HEAD_CHARS = 64 << 10
TAIL_CHARS = 256 << 10
"""What a command's output is kept of, from its start and from its end: more than what hosts retain (200,000)."""
SEAM_CHARS = 2000
"""By so much of what was seen last its place in a snapshot is found."""
SETTLE_S = 1.0
"""After an outage: for so long a run without a running command is watched before it counts as ended."""
Signal = Literal["interrupt", "terminate", "kill"]
STOP: tuple[tuple[Signal, float], ...] = (("interrupt", 2.0), ("terminate", 1.0), ("kill", 1.0))
"""The signals that stop a job, and how long each is given. Most programs end at the first, at once."""
KILL: tuple[tuple[Signal, float], ...] = (("kill", 1.0), ("interrupt", 1.0))
"""The interrupt is for a shell that waits by itself for something else."""

StopReason = Literal["timeout", "interrupted", "killed"]


class Transcript:
    """A command's VT text of any length: resolved for the saved form, and kept from its start and its end. Any thread."""

    def __init__(self, *, cols: int, rows: int) -> None:
        self._cols, self._rows = cols, rows
        self._lock = threading.Lock()
        self._screen = Screen(cols=cols, rows=rows)
        self._head = ""
        self._tail: list[str] = []
        self._tail_chars = 0
        self._dropped_bytes = 0
        self._total_chars = 0

    def feed(self, text: str) -> None:
        """Append."""
        with self._lock:
            self._total_chars += len(text)
            self._screen.feed(text)
            if len(self._head) < HEAD_CHARS:
                taken = text[: HEAD_CHARS - len(self._head)]
                self._head += taken
                text = text[len(taken) :]
            self._tail.append(text)
            self._tail_chars += len(text)
            if self._tail_chars > 2 * TAIL_CHARS:
                joined = "".join(self._tail)
                self._dropped_bytes += _utf8_bytes(joined[:-TAIL_CHARS])
                self._tail = [joined[-TAIL_CHARS:]]
                self._tail_chars = TAIL_CHARS

    def resume(self, text: str) -> None:
        """Go on after an outage, with a text whose start was trimmed: append what is new in it, and say where there is a gap."""
        seen, before = self.last(SEAM_CHARS)
        at = text.rfind(seen) if before else text.find(seen, 0, len(seen))
        if at >= 0:
            self.feed(text[at + len(seen) :])
        else:
            self.feed(f"\r\n… output lost while disconnected …\r\n{text}")

    @property
    def is_cut(self) -> bool:
        """Whether the plain text lacks something."""
        return self._dropped_bytes > 0

    def text(self) -> str:
        """Plain text with redraws resolved; a line says how much is missing."""
        with self._lock:
            head, tail, dropped_bytes = self._head, "".join(self._tail), self._dropped_bytes
        if not dropped_bytes:
            return self._resolved(head + tail)
        # At line ends, where there are any near the cut.
        head_end = head.rfind("\n", len(head) // 2) + 1 or len(head)
        tail_start = tail.find("\n", 0, len(tail) // 2) + 1
        dropped_bytes += _utf8_bytes(head[head_end:]) + _utf8_bytes(tail[:tail_start])
        first, last = self._resolved(head[:head_end]), self._resolved(tail[tail_start:])
        gap = "" if first.endswith("\n") else "\n"
        return f"{first}{gap}… {dropped_bytes:,} bytes left out …\n{last}"

    def _resolved(self, text: str) -> str:
        everything = len(text) + 1
        screen = Screen(
            cols=self._cols,
            rows=self._rows,
            head_lines=everything,
            tail_lines=everything,
            line_chars=2 * everything,
            max_bytes=1000 * everything,
        )
        screen.feed(text)
        return screen.text()

    def last(self, max_chars: int) -> tuple[str, int]:
        """Its last characters as VT text, from a line's start where one is near, and how many are before them."""
        with self._lock:
            text = self._head + "".join(self._tail)
            total = self._total_chars
        start = max(0, len(text) - max_chars)
        if start:
            start = text.find("\n", start, start + 1024) + 1 or start
        return text[start:], total - len(text) + start

    def saved_output(self) -> SavedOutput:
        """Resolved lines with styles, bounded."""
        with self._lock:
            return self._screen.saved_output()


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


@dataclass(eq=False)
class Command:
    """One command of a run. Written on the loop thread, read on any."""

    command_id: str
    command_line: str
    timestamp: int
    transcript: Transcript
    is_complete: bool = False
    exit_code: int | None = None
    duration_ms: int | None = None

    @classmethod
    def of_part(cls, part: TerminalCommandPart, *, cols: int, rows: int) -> Command:
        """A command as a channel's content has it."""
        command = cls(part.command_id, part.command_line, part.timestamp, Transcript(cols=cols, rows=rows))
        command.transcript.feed(part.output)
        command.is_complete, command.exit_code, command.duration_ms = part.is_complete, part.exit_code, part.duration_ms
        return command

    def resume(self, part: TerminalCommandPart) -> None:
        """Take in what a snapshot says of it after an outage."""
        if not self.is_complete:
            self.transcript.resume(part.output)
            self.exit_code, self.duration_ms = part.exit_code, part.duration_ms
            self.is_complete = part.is_complete

    def saved(self, end: str | None = None) -> SavedCommand:
        """Its saved form."""
        return SavedCommand(
            command_id=self.command_id,
            command_line=self.command_line,
            output=self.transcript.saved_output(),
            timestamp=self.timestamp,
            is_complete=self.is_complete,
            exit_code=self.exit_code,
            duration_ms=self.duration_ms,
            end=end,
        )


Watcher = Callable[["Run", ActionEnvelope | None], None]


class Run:
    """One text handed to a terminal's shell, followed to its end.

    Methods are for the loop thread; attributes may be read on any. After `is_over` nothing changes any more.

    Args:
        client: the way to the host.
        uri: the terminal.
        text: what the shell is given.
    """

    def __init__(self, client: HostClient, uri: str, text: str) -> None:
        self.client = client
        self.uri = uri
        self.text = text
        self.run_id = uuid.uuid4().hex
        self.commands: list[Command] = []
        self.reason: CommandEnd | None = None
        self.stop_reason: StopReason | None = None
        self.error: Exception | None = None
        self.survivors: tuple[Survivor, ...] = ()
        self.shell_exit_code: int | None = None
        self.cols, self.rows = 80, 24
        self.cwd: str | None = None
        self.is_submitted = False
        self.is_over = False
        self.is_shown = False
        self._open: Command | None = None
        self._watchers: list[Watcher] = []
        self._over = asyncio.Event()
        self._changed_state = asyncio.Event()
        self._settle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Queue it behind the runs that this client has begun in the same terminal. Loop thread only."""
        self._task = asyncio.ensure_future(self._follow())

    def leave_empty(self) -> None:
        """End it without asking the host: there is nothing to run in it. Loop thread only."""
        self._finish("done")

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` at every change, with the envelope that made it (None: anything), and at the end. Loop thread only."""
        self._watchers.append(watcher)

    async def wait(self) -> None:
        """Until it is over. Loop thread only."""
        await self._over.wait()

    async def wait_for(self, timeout_s: float) -> bool:
        """Wait a limited time; whether it is over. Loop thread only."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._over.wait(), timeout_s)
        return self.is_over

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        try:
            async with self.client.turn(self.uri):
                self.client.listen(self.uri, self._changed)
                try:
                    await self._until_shell_speaks()
                    await self._submit()
                    await self._over.wait()
                finally:
                    self.client.unlisten(self.uri, self._changed)
        except asyncio.CancelledError:
            self._finish(None)
        except Exception as error:
            self.error = error
            self._finish(None)

    async def _until_shell_speaks(self) -> None:
        """Wait here for what may last, where the run can still be withdrawn: a shell that starts, or a command that runs."""
        while True:
            state = self.client.state(self.uri)
            if not isinstance(state, TerminalState):
                raise LookupError("the terminal was closed, or ended with its host")
            if self._may_submit(state):
                self._note(state)
                return
            self._changed_state.clear()
            await self._changed_state.wait()

    @staticmethod
    def _may_submit(state: TerminalState) -> bool:
        if state.lifecycle is not None and state.lifecycle.status == "exited":
            return True  # and be refused with the reason
        details = state.meta.x_terminal if state.meta else None
        if details is not None and details.tracking == "pending" and not state.supports_command_detection:
            return False
        last = state.content[-1] if state.content else None
        return not (isinstance(last, TerminalCommandPart) and not last.is_complete)

    async def _submit(self) -> None:
        self.is_submitted = True
        try:
            await self.client.request("x-terminal/run", RunParams(channel=self.uri, text=self.text, run_id=self.run_id))
        except LinkLost:
            # Handed over or not: never again from here. The replay tells; what it does not tell has not happened.
            self._settle_soon()

    def _note(self, state: TerminalState) -> None:
        self.cols, self.rows = state.cols or self.cols, state.rows or self.rows
        self.cwd = state.cwd

    def _changed(self, state: State | None, envelope: ActionEnvelope | None) -> None:
        self._changed_state.set()
        if self.is_over or not self.is_submitted:
            return  # a run that is not submitted looks at the state itself
        if not isinstance(state, TerminalState):
            self._finish("lost")
        elif envelope is None:
            self._resume(state)
        else:
            self._take(envelope)

    def _take(self, envelope: ActionEnvelope) -> None:
        action = envelope.action
        if isinstance(action, TerminalDataAction):
            if self._open is None:
                return
            self._open.transcript.feed(action.data)
        elif isinstance(action, TerminalCommandExecutedAction):
            self._open = None
            if _run_id(action.meta) != self.run_id:
                return
            self._open = Command(
                action.command_id, action.command_line, action.timestamp, Transcript(cols=self.cols, rows=self.rows)
            )
            self.commands.append(self._open)
        elif isinstance(action, TerminalCommandFinishedAction):
            command = next((c for c in self.commands if c.command_id == action.command_id), None)
            if command is None:
                return
            command.exit_code, command.duration_ms = action.exit_code, action.duration_ms
            command.is_complete = True
            self._open = None
            if self._settle is not None:
                self._settle_soon()
        elif isinstance(action, RunEndedAction):
            if action.run_id == self.run_id and action.reason != "exited":  # the shell's own end follows, with its code
                self._finish(action.reason)
            return
        elif isinstance(action, TerminalExitedAction):
            self.shell_exit_code = action.exit_code
            self._finish("exited")
            return
        self._tell(envelope)

    def _resume(self, state: TerminalState) -> None:
        """A snapshot, after an outage."""
        known = {command.command_id: command for command in self.commands}
        for part in state.content:  # one that is not there any more was trimmed: what was seen of it stays
            if isinstance(part, TerminalCommandPart) and _run_id(part.meta) == self.run_id:
                if part.command_id in known:
                    known[part.command_id].resume(part)
                else:
                    self.commands.append(Command.of_part(part, cols=self.cols, rows=self.rows))
        last = self.commands[-1] if self.commands else None
        self._open = last if last is not None and not last.is_complete else None
        if state.lifecycle is not None and state.lifecycle.status == "exited":
            self.shell_exit_code = state.lifecycle.exit_code
            self._finish("exited")
            return
        self._settle_soon()
        self._tell(None)

    def _settle_soon(self) -> None:
        """The end itself may have been missed in an outage: look whether nothing more comes."""
        if self._settle is not None:
            self._settle.cancel()
        self._settle = asyncio.get_running_loop().call_later(SETTLE_S, self._settled)

    def _settled(self) -> None:
        if not self.is_over and (self._open is None or self._open.is_complete):
            self._finish("done" if self.commands else "lost")

    def _finish(self, reason: CommandEnd | None) -> None:
        if self.is_over:
            return
        self.reason = reason
        self.is_over = True
        if self._settle is not None:
            self._settle.cancel()
        state = self.client.state(self.uri)
        if isinstance(state, TerminalState):
            self._note(state)
        self._over.set()
        self._tell(None)

    def _tell(self, envelope: ActionEnvelope | None) -> None:
        for watcher in list(self._watchers):
            watcher(self, envelope)

    # --- stopping ---------------------------------------------------------------------------------------------------------------

    async def signal(self, signal: Signal) -> None:
        """Signal the job, not the shell; who is left is in ``survivors``. Withdraws a run not yet submitted. Loop thread only.

        Raises:
            ProtocolError: the host refused.
        """
        if self.is_over:
            return
        if not self.is_submitted and self._task is not None:
            self._task.cancel()
            await self._over.wait()
            return
        answer = await self.client.request("x-terminal/signal", SignalParams(channel=self.uri, signal=signal), SignalResult)
        self.survivors = answer.survivors if answer is not None else ()

    async def stop(self, reason: StopReason) -> None:
        """Stop the job, by harder means as time passes; returns when it is over or cannot be stopped. Loop thread only."""
        if self.is_over:
            return
        self.stop_reason = reason
        try:
            for signal, patience_s in KILL if reason == "killed" else STOP:
                await self.signal(signal)
                if await self.wait_for(patience_s):
                    return
        except (ProtocolError, ConnectionError) as error:
            self.error = error

    async def abandon_text(self) -> None:
        """Leave the shell at its prompt: it waits for the rest of an incomplete text. Loop thread only."""
        await self.client.dispatch(self.uri, TerminalInputAction(data="\x03"))

    # --- what it leaves -----------------------------------------------------------------------------------------------

    def bundle(self, title: str) -> CommandBundle:
        """Its saved form as it is now. Any thread."""
        commands = list(self.commands)
        last = len(commands) - 1
        end = self.stop_reason or (self.reason if self.reason == "lost" else None)
        saved = tuple(c.saved(end if i == last else None) for i, c in enumerate(commands))
        return CommandBundle(
            version=1,
            terminal=self.uri,
            title=title,
            commands=saved or (self._without_command(end),),
            cwd=uri_path(self.cwd),
            run_id=self.run_id,
        )

    def _without_command(self, end: str | None) -> SavedCommand:
        """What stands for a run that became no command: only comments, withdrawn, not tracked, or not begun yet."""
        return SavedCommand(
            command_id="",
            command_line=self.text,
            output=SavedOutput(head=(), tail=(), omitted_lines=0, omitted_bytes=0),
            timestamp=0,
            is_complete=self.is_over,
            exit_code=0 if self.is_over and self.is_empty else None,
            end=end,
        )

    @property
    def is_empty(self) -> bool:
        """Whether the text holds no command: blank lines and comments only."""
        return all(not line.strip() or line.lstrip().startswith("#") for line in self.text.split("\n"))


def _run_id(meta: TerminalPartMeta | None) -> str | None:
    return meta.x_terminal.run_id if meta is not None and meta.x_terminal is not None else None


def uri_path(uri: str | None) -> str | None:
    """The path of a ``file:`` URI; None for anything else."""
    return unquote(urlsplit(uri).path) if uri is not None and uri.startswith("file:") else None
