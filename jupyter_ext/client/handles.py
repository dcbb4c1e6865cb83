"""CommandHandle, CommandResult and CommandError: a run under way, what it left, and how it failed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any, TypeVar

from ..protocol.display import CommandBundle
from ..protocol.messages import ErrorCode, ProtocolError
from ..protocol.terminal import Survivor
from .client import HostClient, Rejected
from .runs import Command, Run

__all__ = ["CommandError", "CommandHandle", "CommandResult", "SlowRunViewer", "call_host", "raise_failure"]

T = TypeVar("T")

ERROR_LINES = 10
"""How many of a failed command's last lines its error shows."""

SlowRunViewer = Callable[["CommandHandle"], None]


class CommandResult:
    """What one run left. Nothing of it changes any more.

    In a notebook a result that ends a cell shows the run's part. Attributes:
        command_line: the text that was run.
        exit_code: of its last command; None where it is not known. A text of comments only is an empty success, 0.
        duration: from its first command's start to its last one's end, in seconds; None where it is not known.
        timed_out: whether the time limit ended it.
        end: why it ended, if not by itself: "timeout", "interrupted", "killed", "exited" (the shell ended with it), "untracked"
            (the shell does not tell of its commands: output and exit code are not known), "lost" (the host cannot tell).
        survivors: processes that outlived being stopped.
        shell_exit_code: the shell's own, where it ended with the run.
    """

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self._commands: list[Command] = list(run.commands)
        self.terminal = name
        self.command_line = run.text
        self.timed_out = run.stop_reason == "timeout"
        self.end: str | None = run.stop_reason or (run.reason if run.reason not in ("done", "continuation") else None)
        self.survivors: tuple[Survivor, ...] = run.survivors
        self.shell_exit_code = run.shell_exit_code
        self.exit_code = self._exit_code()
        self.duration = self._duration()

    def _exit_code(self) -> int | None:
        if not self._commands:
            return 0 if self._run.is_empty and self._run.reason == "done" else None
        return self._commands[-1].exit_code

    def _duration(self) -> float | None:
        if not self._commands:
            return None
        first, last = self._commands[0], self._commands[-1]
        if last.duration_ms is None:
            return None
        return (last.timestamp - first.timestamp + last.duration_ms) / 1000

    @cached_property
    def output(self) -> str:
        """Plain text: redraws resolved, no escape sequences; of a very long one the start and the end."""
        return "".join(c.transcript.text() for c in self._commands)

    @property
    def truncated(self) -> bool:
        """Whether output is left out."""
        return any(c.transcript.is_cut for c in self._commands)

    @property
    def is_shown(self) -> bool:
        """Whether its part is on a page already."""
        return self._run.is_shown

    @cached_property
    def bundle(self) -> CommandBundle:
        """Its saved form."""
        return self._run.bundle(self.terminal)

    @property
    def headline(self) -> str:
        """The first line of what was run."""
        first, *more = self.command_line.strip().split("\n")
        return f"{first}{' ...' if more else ''}"

    @property
    def still_running(self) -> str:
        """Who outlived being stopped, as the end of a sentence; empty where nobody did."""
        if not self.survivors:
            return ""
        names = ", ".join(f"{survivor.name} (pid {survivor.pid})" for survivor in self.survivors)
        return f"; still running: {names}; `kill -9 {' '.join(str(survivor.pid) for survivor in self.survivors)}` ends them"

    def __repr__(self) -> str:
        end = f", end={self.end!r}" if self.end else ""
        return f"CommandResult({self.command_line!r}, exit_code={self.exit_code}, duration={self.duration}{end})"


class CommandError(Exception):
    """A command failed, was stopped by its time limit, or could not be run to its end.

    Attributes:
        result: what it left.
    """

    def __init__(self, result: CommandResult, problem: str) -> None:
        self.result = result
        self.problem = problem
        lines = result.output.rstrip().split("\n")[-ERROR_LINES:]
        super().__init__("\n".join([f"{result.headline}: {problem}", *lines]).rstrip())

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None where it is not known."""
        return self.result.exit_code

    def _render_traceback_(self) -> list[str]:
        """IPython shows this in place of a traceback, which would tell nothing but our own lines."""
        return [f"CommandError: {self.result.headline}: {self.problem}"]


def _incomplete(text: str) -> str:
    problem = "the text is incomplete: the shell waits for the rest of it"
    return f"{problem} (or it took `!` for its history, where nothing is found)" if "!" in text else problem


class CommandHandle:
    """A command under way in a terminal. Any thread, but for the terminal's own loop."""

    def __init__(self, run: Run, name: str) -> None:
        self.terminal = name
        self.run = run
        self._result: CommandResult | None = None

    # --- waiting ----------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> CommandResult:
        """Wait for its end. Ctrl-C ends the waiting, and not the command.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: it is not over by then; it goes on.
            CommandError: the text was incomplete, or the terminal was lost.
        """
        if not self.run.is_over and not self._call(self._wait_for(timeout)):
            raise TimeoutError(f"still running after {timeout:g} s: {self.command_line}")
        return self._checked()

    async def _wait_for(self, timeout: float | None) -> bool:
        if timeout is not None:
            return await self.run.wait_for(timeout)
        await self.run.wait()
        return True

    def finish(self, timeout: float | None = None, *, slow_s: float = 0, on_slow: SlowRunViewer | None = None) -> CommandResult:
        """Wait for its end as `Terminal.run` does: the time limit and Ctrl-C stop the command.

        Args:
            timeout: seconds.
            slow_s: seconds.
            on_slow: called in this thread if it is not over after ``slow_s``.

        Raises:
            KeyboardInterrupt: after the command was stopped.
            CommandError: the text was incomplete, or the terminal was lost.
        """
        until = None if timeout is None else time.monotonic() + timeout
        try:
            if on_slow is not None and (timeout is None or slow_s < timeout) and not self._call(self._wait_for(slow_s)):
                on_slow(self)
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self.run.is_over and not self._call(self._wait_for(left)):
                self._call(self.run.stop("timeout"))
        except KeyboardInterrupt:
            self._stop_at_once()
            raise
        return self._checked()

    def _stop_at_once(self) -> None:
        try:
            self._call(self.run.stop("interrupted"))
        except KeyboardInterrupt:  # pressed again: no more patience
            self._call(self.run.stop("killed"))

    async def finish_async(self, timeout: float | None = None) -> CommandResult:
        """`finish` for async code: cancelling it stops the command. Any loop."""
        client = self.run.client
        try:
            if not self.run.is_over and not await asyncio.wrap_future(client.submit(self._wait_for(timeout))):
                await asyncio.wrap_future(client.submit(self.run.stop("timeout")))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.wrap_future(client.submit(self.run.stop("interrupted"))))
            raise
        return self._checked()

    def poll(self) -> CommandResult | None:
        """What it left, if it is over; None while it runs."""
        return self.result if self.run.is_over else None

    def _checked(self) -> CommandResult:
        result = self.result
        if self.run.reason == "continuation":
            self._call_quietly(self.run.abandon_text())
            raise CommandError(result, _incomplete(result.command_line))
        if self.run.reason == "lost":
            raise CommandError(result, f"terminal {self.terminal!r} was lost: how this ended is not known")
        if self.run.error is not None and not result.timed_out:
            raise _plain_error(self.run.error, self.terminal)
        return result

    # --- stopping ---------------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Interrupt the job, as Ctrl-C does; it may go on."""
        self._call(self.run.signal("interrupt"))

    def kill(self) -> tuple[Survivor, ...]:
        """Kill the job and what it has started; returns who is still there."""
        self._call(self.run.stop("killed"))
        return self.run.survivors

    # --- what is known so far -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> CommandResult:
        """What there is of it: so far, or for good once it is over."""
        if self._result is None:
            result = CommandResult(self.run, self.terminal)
            if not self.run.is_over:
                return result
            self._result = result
        return self._result

    def tail(self, lines: int = 10) -> str:
        """The last lines of its output so far."""
        return "\n".join(self.output.rstrip("\n").split("\n")[-lines:]) if lines > 0 else ""

    @property
    def command_line(self) -> str:
        """The text that is run."""
        return self.run.text

    @property
    def output(self) -> str:
        """Plain text so far."""
        return self.result.output

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, and where it is not known."""
        return self.result.exit_code

    @property
    def duration(self) -> float | None:
        """In seconds; None while it runs, and where it is not known."""
        return self.result.duration

    @property
    def timed_out(self) -> bool:
        """Whether a time limit ended it."""
        return self.result.timed_out

    @property
    def truncated(self) -> bool:
        """Whether output is left out."""
        return self.result.truncated

    @property
    def end(self) -> str | None:
        """Why it ended, if not by itself: as `CommandResult.end`."""
        return self.result.end

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return call_host(self.run.client, coroutine, self.terminal)

    def _call_quietly(self, coroutine: Coroutine[Any, Any, object]) -> None:
        # The shell may have gone, or be held by somebody else: then nothing is left to tidy.
        with contextlib.suppress(Rejected, OSError):
            self.run.client.call(coroutine)

    def __repr__(self) -> str:
        if not self.run.is_over:
            return f"<CommandHandle: {self.command_line!r} runs in terminal {self.terminal!r}>"
        end = f", {self.end}" if self.end else ""
        return f"<CommandHandle: {self.command_line!r} ended with exit code {self.exit_code}{end}>"


# --- errors -----------------------------------------------------------------------------------------------------------------


def raise_failure(result: CommandResult) -> CommandResult:
    """The result, unless it is a failure.

    Raises:
        CommandError: it is one.
    """
    problem = _problem(result)
    if problem is not None:
        raise CommandError(result, problem)
    return result


def _problem(result: CommandResult) -> str | None:
    if result.timed_out:
        return f"stopped by its time limit{result.still_running}"
    if result.end == "exited" and result.shell_exit_code != 0:
        code = result.shell_exit_code
        return "the shell ended" if code is None else f"the shell ended with exit code {code}"
    return f"exit code {result.exit_code}" if result.exit_code else None


def call_host(client: HostClient, coroutine: Coroutine[Any, Any, T], name: str) -> T:
    """Run a coroutine on the client's loop and wait for it. Any other thread.

    Args:
        client: whose loop.
        coroutine: what asks the host.
        name: the terminal's, for errors.

    Raises:
        ValueError: the host refused a value.
        PermissionError: it refused this client, or somebody else holds the terminal.
        LookupError: there is no such terminal.
        RuntimeError: the terminal's state does not allow it.
        ConnectionError: the host was lost.
    """
    try:
        return client.call(coroutine)
    except (ProtocolError, Rejected) as error:
        raise _plain_error(error, name) from None


_ERRORS: dict[int, Callable[[str], Exception]] = {
    ErrorCode.INVALID_PARAMS: ValueError,
    ErrorCode.PERMISSION_DENIED: PermissionError,
    ErrorCode.NOT_FOUND: LookupError,
    ErrorCode.CONFLICT: RuntimeError,
}


def _plain_error(error: Exception, name: str) -> Exception:
    """The host's refusal as one of Python's errors."""
    if isinstance(error, Rejected):
        reason = str(error)
        if reason.startswith("held by"):
            return PermissionError(f"terminal {name!r} is {reason}")
        return (RuntimeError if "exited" in reason else ValueError)(f"terminal {name!r}: {reason}")
    if isinstance(error, ProtocolError):
        return _ERRORS.get(error.code, RuntimeError)(f"terminal {name!r}: {error.message}")
    return error
