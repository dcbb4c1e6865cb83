"""The processes of a terminal: who belongs to it, who is in its foreground, how they are signalled and ended.

A terminal's processes are those of the session that its shell leads. Process groups are the unit of a signal, for a group
takes what it has just forked along; a process is known by its pid and its start time, for pids come again.

Source: our extension ``x-terminal`` (signal, close) and its rule for ending a terminal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ..protocol.terminal import Survivor
from .transports import PtyTransport

__all__ = ["Process", "end_session", "session_members", "signal_job", "stop_job"]


# Only looked for by name: on Windows, where no terminal can be started, the signal module lacks some.
_SIGNALS = {"interrupt": "SIGINT", "terminate": "SIGTERM", "kill": "SIGKILL"}

# How long an answer waits for a signal to take effect, and how often it looks.
_EFFECT_S = 0.5
_POLL_S = 0.02
# SIGKILL takes effect at once, except in a process that waits for a device.
_KILL_S = 1.0

_HAS_PROC = os.path.exists("/proc/self/stat")

Sleep = Callable[[float], Awaitable[object]]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Process:
    """One living process. ``started`` is the system's own mark of its start: with the pid it is an identity."""

    pid: int
    parent: int
    group: int
    session: int
    started: str
    name: str


def session_members(session: int) -> list[Process]:
    """The living processes of a session, zombies left out. Any thread."""
    return [process for process in _processes() if process.session == session]


async def signal_job(
    transport: PtyTransport,
    name: Literal["interrupt", "terminate", "kill"],
    *,
    wait_s: float = _EFFECT_S,
    sleep: Sleep = asyncio.sleep,
    clock: Clock = time.monotonic,
) -> tuple[Survivor, ...]:
    """Signal the running job of a terminal. Loop thread only.

    ``interrupt`` is what Ctrl-C is: SIGINT to the foreground process group, and to its members' descendants in the session.
    Where the shell runs the command itself (a loop of builtins, a substitution) its group is in the foreground and gets it,
    as an interactive shell takes no harm from it. The others go to the whole job, which is the shell's child that the
    foreground group belongs to with all of its descendants, and never to the shell.

    Returns:
        Who is still there ``wait_s`` seconds later, at most; empty when all have gone or nothing ran.
    """
    job = _Job.of(transport)
    if job is None:
        return ()
    if name == "interrupt":
        job.interrupt()
    else:
        job.send(_SIGNALS[name])
    return _survivors(await _gone(job.living, wait_s, sleep, clock))


async def stop_job(
    transport: PtyTransport,
    *,
    grace_s: float = 1.0,
    sleep: Sleep = asyncio.sleep,
    clock: Clock = time.monotonic,
) -> tuple[Survivor, ...]:
    """Stop the running job whole: interrupt, then terminate, then kill, each what is left. Loop thread only.

    Background children of a non-interactive shell ignore SIGINT and outlive the shell that gets it. They stay in its process
    group, by which they are reached after it has gone. The terminal's own shell gets no more than the interrupt (see
    `signal_job`).

    Args:
        grace_s: how long the interrupt, and then the termination, may take.

    Returns:
        Who is still there after all three.
    """
    job = _Job.of(transport)
    if job is None:
        return ()
    job.interrupt()
    left = await _gone(job.living, grace_s, sleep, clock)
    for name in ("SIGTERM", "SIGKILL"):
        if not left:
            break
        job.send(name)
        left = await _gone(job.living, grace_s if name == "SIGTERM" else _KILL_S, sleep, clock)
    return _survivors(left)


async def end_session(
    session: int,
    mark: str,
    *,
    has_leader: bool,
    grace_s: float = 2.0,
    sleep: Sleep = asyncio.sleep,
    clock: Clock = time.monotonic,
) -> tuple[Survivor, ...]:
    """End all processes of a terminal: SIGHUP, SIGCONT, SIGTERM; after ``grace_s`` SIGKILL to what is left. Loop thread only.

    Args:
        session: the pid of the terminal's shell.
        mark: an entry (``NAME=value``) that only this terminal's processes have in their environment, by which those are found
            that have left its session.
        has_leader: the shell is there or not yet reaped. Once it was reaped its pid may be another process's: then a session
            that has a leader is not ours and is left alone.

    Returns:
        Who goes on: what has left the session on purpose (``setsid``, daemons) and what no signal could end.
    """

    def members() -> list[Process]:
        found = session_members(session)
        return found if has_leader or all(process.pid != session for process in found) else []

    def send(*names: str) -> None:
        for group in {process.group for process in members()}:
            for name in names:
                _send_group(group, name)

    send("SIGHUP", "SIGCONT", "SIGTERM")
    left = await _gone(members, grace_s, sleep, clock)
    if left:
        send("SIGKILL")
        left = await _gone(members, _KILL_S, sleep, clock)
    known = {process.pid for process in left}
    return _survivors([*left, *(process for process in _marked(mark) if process.pid not in known)])


class _Job:
    """The running job of a terminal, as it was when it was looked at: its groups stay its own until they are empty."""

    def __init__(self, shell: int, foreground: int, members: list[Process]) -> None:
        self._shell = shell
        self._foreground = foreground
        self._processes = {process.pid: process for process in members}
        self._groups = {process.group for process in members} - {shell}

    @classmethod
    def of(cls, transport: PtyTransport) -> _Job | None:
        """The job in the foreground of a terminal; None where there is no terminal any more."""
        if transport.fd < 0 or transport.has_exited:
            return None
        try:
            foreground = os.tcgetpgrp(transport.fd)
        except OSError:
            return None
        shell = transport.pid
        members = {process.pid: process for process in session_members(shell) if process.pid != shell}
        chosen = {process.pid for process in members.values() if process.group == foreground}
        if foreground != shell:
            # From the group's members up to the shell's own child, which in a nested shell has a group of its own.
            for pid in list(chosen):
                while members[pid].parent in members:
                    pid = members[pid].parent
                chosen |= {process.pid for process in members.values() if process.group == members[pid].group}
        return cls(shell, foreground, _with_descendants(chosen, members))

    def interrupt(self) -> None:
        """Do what Ctrl-C does, and to the foreground group's descendants too."""
        in_front = {process.pid for process in self._processes.values() if process.group == self._foreground}
        groups = {process.group for process in _with_descendants(in_front, self._processes)} - {self._shell}
        for group in groups | {self._foreground}:
            _send_group(group, "SIGINT")

    def send(self, name: str) -> None:
        """Signal every process of the job, and wake those that are stopped."""
        living = self.living()
        for group in {process.group for process in living} & self._groups:
            _send_group(group, name)
            _send_group(group, "SIGCONT")
        for process in living:
            if process.group not in self._groups:
                _send(process, name)

    def living(self) -> list[Process]:
        """Who of it is there: its processes and whoever is in its groups."""
        return [process for process in session_members(self._shell) if process.group in self._groups or self._is_known(process)]

    def _is_known(self, process: Process) -> bool:
        known = self._processes.get(process.pid)
        return known is not None and known.started == process.started


def _with_descendants(roots: Iterable[int], members: dict[int, Process]) -> list[Process]:
    found = set(roots)
    while True:
        more = {process.pid for process in members.values() if process.parent in found} - found
        if not more:
            return [members[pid] for pid in sorted(found)]
        found |= more


async def _gone(living: Callable[[], list[Process]], wait_s: float, sleep: Sleep, clock: Clock) -> list[Process]:
    """Wait until nobody is left, at most ``wait_s``; who is left then.

    A look at all processes costs milliseconds on a busy machine; so between two such looks only those of the last one are
    asked after.
    """
    deadline = clock() + wait_s
    left = living()
    while left and clock() < deadline:
        await sleep(_POLL_S)
        if not any(map(_is_there, left)):
            left = living()
    return living() if left else []


def _survivors(processes: Iterable[Process]) -> tuple[Survivor, ...]:
    return tuple(Survivor(pid=process.pid, name=process.name) for process in processes)


def _send_group(group: int, name: str) -> None:
    try:
        os.killpg(group, getattr(signal, name))
    except (ProcessLookupError, PermissionError):
        return  # gone, or another user's (sudo): it is named as a survivor


def _send(process: Process, name: str) -> None:
    if _is_there(process):
        try:
            os.kill(process.pid, getattr(signal, name))
        except (ProcessLookupError, PermissionError):
            return


# --- the system's tables ------------------------------------------------------------------------------------------------


def _processes() -> list[Process]:
    """All living processes."""
    if not _HAS_PROC:
        return _processes_by_ps()
    found = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def _process(pid: int) -> Process | None:
    """One process from Linux's /proc; None for one that is dead or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return None
    # pid (name) state parent group session ...: the name may hold spaces and parentheses
    start, end = stat.index(b"("), stat.rindex(b")")
    fields = stat[end + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19].decode(),
        name=stat[start + 1 : end].decode(errors="replace"),
    )


def _is_there(process: Process) -> bool:
    if not _HAS_PROC:
        return process in _processes_by_ps(process.pid)
    now = _process(process.pid)
    return now is not None and now.started == process.started


def _processes_by_ps(pid: int | None = None) -> list[Process]:
    """All living processes, or one, by POSIX's ps (macOS)."""
    which = ["-A"] if pid is None else ["-p", str(pid)]
    found = []
    for line in _ps(*which, "-o", "pid=,ppid=,pgid=,state=,lstart=,comm="):
        fields = line.split(maxsplit=9)
        try:
            session = os.getsid(int(fields[0]))
        except (OSError, ValueError, IndexError):
            continue
        if len(fields) == 10 and not fields[3].startswith("Z"):
            found.append(
                Process(
                    pid=int(fields[0]),
                    parent=int(fields[1]),
                    group=int(fields[2]),
                    session=session,
                    started=" ".join(fields[4:9]),
                    name=os.path.basename(fields[9].strip()),
                )
            )
    return found


def _marked(mark: str) -> list[Process]:
    """The processes that have this entry in their first environment, as far as it may be read."""
    if not _HAS_PROC:
        lines = [line.split() for line in _ps("-A", "-E", "-ww", "-o", "pid=,command=")]
        pids = {int(words[0]) for words in lines if mark in words[1:]}
        return [process for process in _processes_by_ps() if process.pid in pids]
    return [process for process in _processes() if _has_mark(process.pid, mark.encode())]


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _ps(*arguments: str) -> list[str]:
    try:
        done = subprocess.run(
            ["ps", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode(errors="replace").splitlines()
