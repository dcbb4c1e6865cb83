"""Terminal: a shell that lives in a host, by its name."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import warnings
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, unquote

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
from .handles import CommandHandle, CommandResult, SlowRunViewer, call_host, raise_failure
from .runs import Command, Run, uri_path

__all__ = ["Terminal", "TerminalEntry", "terminal_uri", "terminals", "view_slow_runs"]

T = TypeVar("T")

URI_PREFIX = "ahp-terminal:/"
SLOW_S = 1.0
"""A blocking run that lasts longer is shown while it lasts, where something can show it: it may ask, or have to be stopped."""

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
        return call_host(self.client, coroutine, self.name)

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
        # A lone surrogate has no UTF-8, and so no way to a shell.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        run = Run(self.client, self.uri, text.replace("\r\n", "\n"))
        if run.is_empty:
            run.leave_empty()
        else:
            await self._take_claim()
            run.begin()
        return CommandHandle(run, self.name)

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
    def cwd(self) -> str | None:
        """The folder that its shell is in, as a path; None where it is not known."""
        return uri_path(self.state.cwd)

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
