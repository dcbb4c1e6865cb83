"""Terminal: a shell that lives in a host, by name; its runs, and what they give back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from ..protocol.display import CommandBundle
from ..protocol.messages import ErrorCode, ProtocolError
from ..protocol.terminal import (
    ROOT_URI,
    CreateTerminalParams,
    DisposeTerminalParams,
    RootState,
    SignalResult,
    StateAction,
    Survivor,
    TerminalClaimedAction,
    TerminalClearedAction,
    TerminalClientClaim,
    TerminalCommandPart,
    TerminalCreationMeta,
    TerminalCreationOptions,
    TerminalInfo,
    TerminalInputAction,
    TerminalResizedAction,
    TerminalState,
)
from .client import HostClient, Rejected
from .discovery import kernel_name, notebook_path, shared_client
from .runs import Command, Run

__all__ = [
    "CommandError",
    "CommandHandle",
    "CommandResult",
    "Terminal",
    "TerminalEntry",
    "raise_failure",
    "terminal_uri",
    "terminals",
    "view_slow_runs",
]

T = TypeVar("T")

URI_PREFIX = "ahp-terminal:/"
ERROR_LINES = 10
"""How many of a failed command's last lines its error shows."""
SLOW_S = 1.0
"""A blocking run that lasts longer is shown while it lasts, where something can show it: it may ask, or have to be stopped."""

SlowRunViewer = Callable[["CommandHandle"], None]
_slow_run_viewer: SlowRunViewer | None = None


def view_slow_runs(viewer: SlowRunViewer | None) -> None:
    """Have `Terminal.run` call ``viewer``, in the thread that waits, for each run that lasts longer than a second. Any thread."""
    global _slow_run_viewer
    _slow_run_viewer = viewer


def terminal_uri(name: str) -> str:
    """A terminal's URI: its name, percent-encoded as JavaScript's ``encodeURIComponent`` does. A URI stands for itself."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", name):
        return name
    return URI_PREFIX + quote(name, safe="!'()*")


def _name_of(uri: str) -> str:
    name = unquote(uri.removeprefix(URI_PREFIX))
    return name if terminal_uri(name) == uri else uri


# --- results --------------------------------------------------------------------------------------------------------------


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
        super().__init__("\n".join([self._headline(), *lines]).rstrip())

    def _headline(self) -> str:
        first, *more = self.result.command_line.strip().split("\n")
        return f"{first}{' ...' if more else ''}: {self.problem}"

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None where it is not known."""
        return self.result.exit_code

    def _render_traceback_(self) -> list[str]:
        """IPython shows this in place of a traceback, which would tell nothing but our own lines."""
        return [f"CommandError: {self._headline()}"]


class CommandHandle:
    """A command under way in a terminal. Any thread, but for the terminal's own loop."""

    def __init__(self, terminal: Terminal, run: Run) -> None:
        self.terminal = terminal
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
        client = self.terminal.client
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
            raise CommandError(result, "the text is incomplete: the shell waits for the rest of it")
        if self.run.reason == "lost":
            raise CommandError(result, f"terminal {self.terminal.name!r} was lost: how this ended is not known")
        if self.run.error is not None and not result.timed_out:
            raise _plain_error(self.run.error, self.terminal.name)
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
            result = CommandResult(self.run, self.terminal.name)
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
        return self.terminal.call(coroutine)

    def _call_quietly(self, coroutine: Coroutine[Any, Any, object]) -> None:
        # The shell may have gone, or be held by somebody else: then nothing is left to tidy.
        with contextlib.suppress(Rejected, OSError):
            self.terminal.client.call(coroutine)

    def __repr__(self) -> str:
        if not self.run.is_over:
            return f"<CommandHandle: {self.command_line!r} runs in terminal {self.terminal.name!r}>"
        end = f", {self.end}" if self.end else ""
        return f"<CommandHandle: {self.command_line!r} ended with exit code {self.exit_code}{end}>"


# --- terminals ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TerminalEntry:
    """One terminal in a host's list. ``running`` is the command line that runs now, ``exit_code`` the shell's own, once ended."""

    name: str
    title: str
    uri: str
    holder: str | None
    shell: str | None
    cwd: str | None
    running: str | None
    has_ended: bool
    exit_code: int | None


def terminals(host: str = "auto") -> list[TerminalEntry]:
    """The terminals of a host. Any thread.

    Args:
        host: as for `Terminal`.

    Raises:
        ConnectionError: there is no way to that host.
    """
    client = shared_client(host)
    root = client.call(client.subscribe(ROOT_URI))
    assert isinstance(root, RootState)
    return [_entry(info) for info in root.terminals or ()]


def _entry(info: TerminalInfo) -> TerminalEntry:
    details = info.meta.x_terminal if info.meta else None
    return TerminalEntry(
        name=_name_of(info.resource),
        title=info.title,
        uri=info.resource,
        holder=details.holder.title if details and details.holder else None,
        shell=details.shell if details else None,
        cwd=details.cwd if details else None,
        running=details.running.command_line if details and details.running else None,
        has_ended=info.lifecycle is not None and info.lifecycle.status == "exited",
        exit_code=info.lifecycle.exit_code if info.lifecycle else None,
    )


class Terminal:
    """A shell in a host, by its name: the one that is there, else a new one. It keeps its state from run to run.

    The Python calls print nothing: a result, as the last value of a cell, shows its part. Only a blocking run that lasts
    longer than a second shows its live part, where ``%load_ext jupyter_ext`` was done: it may ask something, or have to be
    stopped. With ``with``, a terminal that was made there is closed at the end. Methods block, and may be called on any thread.

    Args:
        name: the same name is the same terminal, for every client of the host. Default: the notebook's.
        shell: a shell's name or path, for a new terminal. Default: the host's.
        cwd: the folder that a new terminal starts in. Default: this process's.
        env: additions to a new terminal's environment; None as a value takes a variable out.
        cols: a new terminal's width in characters.
        rows: a new terminal's height in lines.
        host: ``"auto"`` (``JUPYTER_AHP_URL``, else the Jupyter server that started this kernel, else a host in this process),
            ``"server"``, ``"embedded"``, or a Jupyter server's URL.

    Raises:
        ValueError: the host does not know the shell, or the folder, or the name is too long; or the terminal is there and runs
            another shell.
        PermissionError: terminals are turned off.
        ConnectionError: there is no way to the host.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        shell: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        cols: int = 100,
        rows: int = 24,
        host: str = "auto",
    ) -> None:
        self.uri = terminal_uri(name or kernel_name())
        self.name = _name_of(self.uri)
        self.client: HostClient = shared_client(host)
        self._is_detached = False
        is_local = self.client.connector.is_local
        params = CreateTerminalParams(
            channel=self.uri,
            claim=TerminalClientClaim(client_id=self.client.client_id),
            name=self.name,
            cwd=_folder_uri(cwd, is_local),
            cols=cols,
            rows=rows,
            meta=TerminalCreationMeta(
                x_terminal=TerminalCreationOptions(shell=shell, env=_environment(env, is_local) or None, origin=notebook_path())
            ),
        )
        self.is_new = self.call(self._attach(params))
        running = self.shell
        if not self.is_new and shell and running and os.path.basename(shell) != os.path.basename(running):
            raise ValueError(f"terminal {self.name!r} runs {running} already: take another name for {shell}")

    async def _attach(self, params: CreateTerminalParams) -> bool:
        """Subscribe, or create and subscribe; returns whether it was created."""
        for _ in range(3):  # it may come and go meanwhile, by others
            try:
                await self.client.subscribe(self.uri)
                return False
            except ProtocolError as error:
                if error.code != ErrorCode.NOT_FOUND:
                    raise
            try:
                await self.client.request("createTerminal", params)
            except ProtocolError as error:
                if error.code != ErrorCode.ALREADY_EXISTS:
                    raise
            else:
                await self.client.subscribe(self.uri)
                return True
        raise ConnectionError(f"terminal {self.name!r} appears and disappears")

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop and wait for it; the host's refusals become Python's errors."""
        try:
            return self.client.call(coroutine)
        except (ProtocolError, Rejected) as error:
            raise _plain_error(error, self.name) from None

    # --- running ------------------------------------------------------------------------------------------------------------

    def run(self, text: str, *, timeout: float | None = None, check: bool = False) -> CommandResult:
        """Run shell text and wait for its end. Ctrl-C stops the command and not the shell, and is raised again.

        Args:
            text: one command or many lines, as in a script.
            timeout: seconds; then the command is stopped, and what it printed is returned.
            check: whether a failure is an error.

        Raises:
            CommandError: ``check`` and it failed or timed out; or the text was incomplete, or the terminal was lost.
            RuntimeError: the terminal has ended, or somebody is typing a line in it.
            PermissionError: somebody else holds the terminal.
        """
        result = self.start(text).finish(timeout, slow_s=SLOW_S, on_slow=_slow_run_viewer)
        return raise_failure(result) if check else result

    async def run_async(self, text: str, *, timeout: float | None = None, check: bool = False) -> CommandResult:
        """`run` for async code; cancelling it stops the command. Any loop."""
        handle = await asyncio.wrap_future(self.client.submit(self._begin(text)))
        result = await handle.finish_async(timeout)
        return raise_failure(result) if check else result

    def start(self, text: str) -> CommandHandle:
        """Run shell text in the background, after the runs that were begun before.

        Raises:
            RuntimeError: the terminal has ended.
            PermissionError: somebody else holds the terminal.
        """
        return self.call(self._begin(text))

    async def _begin(self, text: str) -> CommandHandle:
        self._check_usable()
        run = Run(self.client, self.uri, text.replace("\r\n", "\n"))
        if run.is_empty:
            run.leave_empty()
        else:
            await self._take_claim()
            run.begin()
        return CommandHandle(self, run)

    # --- input --------------------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Type text, as it is.

        Raises:
            ValueError: more than the terminal takes.
            RuntimeError: the terminal has ended.
            PermissionError: somebody else holds the terminal.
        """
        self._dispatch(TerminalInputAction(data=text))

    def sendline(self, text: str = "") -> None:
        """Type text and Enter; raises as `send`."""
        self.send(text + "\r")

    def sendcontrol(self, key: str) -> None:
        """Type a control key: ``"c"`` is Ctrl-C; raises as `send`."""
        code = ord(key.upper()) if len(key) == 1 else 0
        if not (0x40 <= code <= 0x5F or key == "?"):
            raise ValueError(f"no control key: {key!r}")
        self.send("\x7f" if key == "?" else chr(code & 0x1F))

    # --- the terminal -------------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Take the terminal: to type into it, from now on.

        Raises:
            PermissionError: it is held by somebody from whom it cannot be taken now.
        """
        self.call(self._take_claim())

    def detach(self) -> None:
        """Let go of this object; the terminal lives on, and its name leads to it again."""
        self._is_detached = True

    def clear(self) -> None:
        """Empty what is shown of it; raises as `send`."""
        self._dispatch(TerminalClearedAction(), has_ended=True)

    def resize(self, *, cols: int, rows: int) -> None:
        """Set its size in characters; raises as `send`."""
        self._dispatch(TerminalResizedAction(cols=cols, rows=rows))

    def close(self) -> tuple[Survivor, ...]:
        """End the shell and what runs in it; returns what has left on purpose and goes on. A closed one stays closed."""
        if self._is_detached:
            return ()
        try:
            return self.call(self._close())
        except LookupError:  # somebody else was faster
            return ()
        finally:
            self._is_detached = True

    async def _close(self) -> tuple[Survivor, ...]:
        with contextlib.suppress(Rejected):  # the host says whether it may be closed all the same
            await self._take_claim()
        answer = await self.client.request("x-terminal/close", DisposeTerminalParams(channel=self.uri), SignalResult)
        await self.client.unsubscribe(self.uri)
        return answer.survivors if answer is not None else ()

    @property
    def state(self) -> TerminalState:
        """Its state in AHP's form; never changed, only replaced.

        Raises:
            LookupError: it was closed.
        """
        state = self.client.state(self.uri)
        if not isinstance(state, TerminalState):
            raise LookupError(f"terminal {self.name!r} was closed, or ended with its host")
        return state

    @property
    def commands(self) -> list[CommandResult]:
        """What was run in it, by whom it may be, oldest first, as far as the host keeps it."""
        return [self._past(part) for part in self.state.content if isinstance(part, TerminalCommandPart)]

    def _past(self, part: TerminalCommandPart) -> CommandResult:
        state = self.state
        run = Run(self.client, self.uri, part.command_line)
        run.commands = [Command.of_part(part, cols=state.cols or 80, rows=state.rows or 24)]
        return CommandResult(run, self.name)

    @property
    def title(self) -> str:
        """What is shown as its name."""
        return self.state.title

    @property
    def shell(self) -> str | None:
        """Its shell's name or path, as far as the host tells."""
        meta = self.state.meta
        return meta.x_terminal.shell if meta and meta.x_terminal else None

    @property
    def has_ended(self) -> bool:
        """Whether its shell has ended."""
        lifecycle = self.state.lifecycle
        return lifecycle is not None and lifecycle.status == "exited"

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.is_new:
            self.close()
        else:
            self.detach()

    def __repr__(self) -> str:
        return f"<Terminal {self.name!r} on {self.client.connector.description}>"

    # --- loop thread ----------------------------------------------------------------------------------------------------------

    def _check_usable(self, *, may_have_ended: bool = False) -> TerminalState:
        if self._is_detached:
            raise RuntimeError(f"this object was detached from terminal {self.name!r}: Terminal({self.name!r}) leads to it again")
        state = self.state
        if self.has_ended and not may_have_ended:
            code = state.lifecycle.exit_code if state.lifecycle else None
            ended = "has ended" if code is None else f"has ended with exit code {code}"
            raise RuntimeError(f"terminal {self.name!r} {ended}: Terminal({self.name!r}).close() makes room for a new one")
        return state

    async def _take_claim(self) -> None:
        claim = TerminalClientClaim(client_id=self.client.client_id)
        if self._check_usable(may_have_ended=True).claim != claim:
            await self.client.dispatch(self.uri, TerminalClaimedAction(claim=claim))

    def _dispatch(self, action: StateAction, *, has_ended: bool = False) -> None:
        async def dispatch() -> None:
            self._check_usable(may_have_ended=has_ended)
            await self._take_claim()
            await self.client.dispatch(self.uri, action)

        self.call(dispatch())


# --- what a new terminal is given -------------------------------------------------------------------------------------------


def _folder_uri(cwd: str | os.PathLike[str] | None, is_local: bool) -> str | None:
    """A folder as a file: URI; by default this process's folder, where it means something to the host."""
    if cwd is not None:
        return Path(os.path.abspath(os.path.expanduser(os.fspath(cwd)))).as_uri()
    if not is_local:
        return None
    try:
        return Path(os.getcwd()).as_uri()
    except FileNotFoundError:
        home = Path.home()
        warnings.warn(f"this process's folder is gone: the terminal starts in {home}", stacklevel=3)
        return home.as_uri()


def _environment(additions: Mapping[str, str | None] | None, is_local: bool) -> dict[str, str | None]:
    """What a new terminal's environment is given over the host's own."""
    env: dict[str, str | None] = {}
    if is_local:
        if _has_own_python():
            env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), *_path_without(os.path.dirname(sys.executable))])
        for name in ("PAGER", "GIT_PAGER"):  # a kernel says "cat": a pager leaves nothing in a cell, and hangs a batch run
            if name in os.environ:
                env[name] = os.environ[name]
    env.update(additions or {})
    return env


def _has_own_python() -> bool:
    """Whether this Python is one of a virtual or conda environment, and so not what a shell would find by itself."""
    return sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))


def _path_without(folder: str) -> list[str]:
    return [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry != folder]


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
        return "stopped by its time limit"
    if result.end == "exited" and result.shell_exit_code != 0:
        code = result.shell_exit_code
        return "the shell ended" if code is None else f"the shell ended with exit code {code}"
    return f"exit code {result.exit_code}" if result.exit_code else None


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
