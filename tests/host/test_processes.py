"""Signals and ends, with real processes in real ptys. Each test waits for an event, with a deadline."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psutil
import pytest
import pytest_asyncio

from jupyter_ext.host import processes
from jupyter_ext.host.processes import end_session, session_members, signal_job, stop_job
from jupyter_ext.host.transports import PtyTransport
from jupyter_ext.protocol.terminal import Survivor

DEADLINE_S = 15.0
MARK = f"PROCESSES_TEST={os.getpid()}"  # of this run alone
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/",
    "PS1": "P> ",
    **dict([MARK.split("=")]),
    "BASH_SILENCE_DEPRECATION_WARNING": "1",
}

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is needed")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Terminal:
    """A shell in a pty, and what it printed."""

    def __init__(self, *argv: str) -> None:
        self.output = ""
        self.exits: list[int | None] = []
        self._changed = asyncio.Event()
        self.transport = PtyTransport.spawn(
            argv,
            cwd="/",
            env=ENV,
            cols=80,
            rows=24,
            on_data=self._on_data,
            on_exit=self._on_exit,
            loop=asyncio.get_running_loop(),
        )

    def _on_data(self, data: bytes) -> None:
        self.output += data.decode()
        self._changed.set()

    def _on_exit(self, code: int | None) -> None:
        self.exits.append(code)
        self._changed.set()

    async def until(self, holds: Callable[[], Any]) -> None:
        async def wait() -> None:
            while not holds():
                self._changed.clear()
                await asyncio.wait([asyncio.ensure_future(self._changed.wait())], timeout=0.02)

        try:
            await asyncio.wait_for(wait(), DEADLINE_S)
        except asyncio.TimeoutError:
            pytest.fail(f"not within {DEADLINE_S} s: {self.output[-500:]!r}, {names(self)}")

    async def prompt(self) -> None:
        await self.until(lambda: self.output.endswith("P> "))
        self.output = ""

    async def job(self, line: str, *names_of_it: str) -> None:
        """Start a command and wait until these programs of it run, and nothing else."""
        self.transport.write(line.encode() + b"\r")
        await self.until(lambda: names(self) == sorted(names_of_it))


def names(terminal: Terminal) -> list[str]:
    return sorted(member.name for member in session_members(terminal.transport.pid) if member.pid != terminal.transport.pid)


@pytest_asyncio.fixture
async def bash() -> AsyncIterator[Terminal]:
    terminal = Terminal("bash", "--norc", "-i")
    await terminal.prompt()
    yield terminal
    for member in session_members(terminal.transport.pid):
        os.kill(member.pid, signal.SIGKILL)
    terminal.transport.close()
    await terminal.until(lambda: terminal.exits)


# --- who there is -----------------------------------------------------------------------------------------------------------


@needs_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("by_ps", [False, True])
async def test_the_members_of_a_session_are_known_by_their_start_too(
    bash: Terminal, by_ps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_ps:
        if shutil.which("ps") is None:
            pytest.skip("no ps")
        monkeypatch.setattr(processes, "_HAS_PROC", False)
    bash.transport.write(b"sleep 40 & sleep 41 | cat\r")
    await bash.until(lambda: names(bash) == ["cat", "sleep", "sleep"])
    members = {member.pid: member for member in session_members(bash.transport.pid)}
    assert {member.session for member in members.values()} == {bash.transport.pid}
    shell = members.pop(bash.transport.pid)
    assert shell.name == "bash"
    assert {member.parent for member in members.values()} == {bash.transport.pid}
    assert len({member.group for member in members.values()}) == 2
    for member in [shell, *members.values()]:
        assert processes._is_there(member)
        assert not processes._is_there(processes.Process(**{**_fields(member), "started": "another time"}))


def _fields(process: processes.Process) -> dict[str, Any]:
    return {name: getattr(process, name) for name in processes.Process.__slots__}


@linux_only
def test_a_zombie_and_a_name_with_parentheses_are_read_right() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write('a) S (b'); input()"], stdin=subprocess.PIPE
    )
    deadline = time.monotonic() + DEADLINE_S
    while (found := processes._process(child.pid)) is None or found.name != "a) S (b":
        assert time.monotonic() < deadline
    assert found.parent == os.getpid()
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes._process(child.pid) is None
    assert not processes._is_there(found)
    child.wait()


def test_without_ps_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such")
    assert processes._processes_by_ps() == []


def test_marked_processes_are_found_by_ps_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "pid=,command=": [
            " 7 sleep 1 A=b JUPYTER_AHP_TERMINAL=ahp-terminal:/x",
            " 8 sleep 1 JUPYTER_AHP_TERMINAL=ahp-terminal:/xy",
        ],
        "pid=,ppid=,pgid=,state=,lstart=,comm=": [
            f" {os.getpid()} 1 7 S Tue Dec  1 17:40:55 2026 /bin/a sleep",
            f"{os.getpid()} 1 7 Z Tue Dec  1 17:40:55 2026 dead",
            "99999999 1 7 S Tue Dec  1 17:40:55 2026 gone",
            "what is this",
        ],
    }
    monkeypatch.setattr(processes, "_HAS_PROC", False)
    monkeypatch.setattr(processes, "_ps", lambda *arguments: rows[arguments[-1]])
    assert processes._marked("JUPYTER_AHP_TERMINAL=ahp-terminal:/x") == []
    (found,) = processes._processes()
    assert (found.name, found.started, found.session) == ("a sleep", "Tue Dec 1 17:40:55 2026", os.getsid(0))
    assert processes._is_there(found)
    rows["pid=,command="].append(f"{os.getpid()} a JUPYTER_AHP_TERMINAL=ahp-terminal:/x")
    assert processes._marked("JUPYTER_AHP_TERMINAL=ahp-terminal:/x") == [found]


# --- signals ----------------------------------------------------------------------------------------------------------------


@needs_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["interrupt", "terminate", "kill"])
async def test_a_signal_ends_the_job_and_not_the_shell(bash: Terminal, name: Any) -> None:
    await bash.job("sleep 50 | cat", "cat", "sleep")
    assert await signal_job(bash.transport, name) == ()
    await bash.prompt()
    bash.transport.write(b"echo a$((1+1))\r")
    await bash.until(lambda: "a2\r\n" in bash.output)


@needs_bash
@pytest.mark.asyncio
async def test_background_jobs_of_the_shell_are_left_alone(bash: Terminal) -> None:
    bash.transport.write(b"sleep 51 &\r")
    await bash.until(lambda: names(bash) == ["sleep"])
    await bash.job("sleep 52 | cat", "cat", "sleep", "sleep")
    assert await signal_job(bash.transport, "kill") == ()
    await bash.prompt()
    assert names(bash) == ["sleep"]
    assert await signal_job(bash.transport, "terminate") == ()
    assert names(bash) == ["sleep"]


@needs_bash
@pytest.mark.asyncio
async def test_who_does_not_go_is_named(bash: Terminal) -> None:
    await bash.job("(trap '' INT TERM; exec sleep 53)", "sleep")
    for name in ("interrupt", "terminate"):
        (survivor,) = await signal_job(bash.transport, name, wait_s=0.05)  # type: ignore[arg-type]
        assert survivor.name == "sleep"
    assert await signal_job(bash.transport, "kill") == ()
    await bash.prompt()


@needs_bash
@pytest.mark.asyncio
async def test_an_interrupt_ends_a_loop_that_the_shell_runs_itself(bash: Terminal) -> None:
    bash.transport.write(b"while :; do x=$((x+1)); done\r")
    await bash.until(lambda: "done\r\n" in bash.output)
    while psutil.Process(bash.transport.pid).status() != psutil.STATUS_RUNNING:
        await asyncio.sleep(0.01)
    assert await signal_job(bash.transport, "terminate") == ()
    assert await signal_job(bash.transport, "interrupt") == ()
    await bash.prompt()


@needs_bash
@pytest.mark.asyncio
async def test_a_substitution_in_the_shells_own_group_is_reached(bash: Terminal) -> None:
    await bash.job("x=$(sleep 54; echo a); echo b$x", "bash", "sleep")
    assert await signal_job(bash.transport, "kill") == ()
    await bash.until(lambda: "b\r\n" in bash.output)
    await bash.job("x=$(sleep 55); echo c$x", "sleep")
    assert await stop_job(bash.transport) == ()
    await bash.prompt()


@needs_bash
@pytest.mark.asyncio
async def test_uc15_stop_reaches_background_children_that_ignore_the_interrupt(bash: Terminal) -> None:
    await bash.job("sh -c 'sleep 987 & sleep 988 & wait'", "sh", "sleep", "sleep")
    started = time.monotonic()
    assert await stop_job(bash.transport) == ()
    assert time.monotonic() - started < 3
    assert names(bash) == []
    await bash.prompt()


@needs_bash
@pytest.mark.asyncio
async def test_stop_goes_as_far_as_it_must_and_no_further(bash: Terminal) -> None:
    await bash.job("sleep 56", "sleep")
    assert await stop_job(bash.transport) == ()
    await bash.until(lambda: bash.output.endswith("P> "))
    await bash.job("(trap '' INT TERM; sleep 57; sleep 58)", "bash", "sleep")
    assert await stop_job(bash.transport, grace_s=0.1) == ()
    await bash.until(lambda: "Killed" in bash.output)


@needs_bash
@pytest.mark.asyncio
async def test_stop_reaches_a_job_inside_a_nested_shell_and_that_shell(bash: Terminal) -> None:
    bash.transport.write(b"bash --norc -i\r")
    await bash.until(lambda: bash.output.count("P> ") == 1)
    await bash.job("sleep 59", "bash", "sleep")
    assert await stop_job(bash.transport, grace_s=0.2) == ()
    assert names(bash) == []
    assert not bash.exits


@needs_bash
@pytest.mark.asyncio
async def test_a_terminal_that_is_gone_has_no_job(bash: Terminal) -> None:
    bash.transport.write(b"exit\r")
    await bash.until(lambda: bash.exits)
    assert await signal_job(bash.transport, "kill") == ()
    assert await stop_job(bash.transport) == ()
    closed = Terminal("cat")
    closed.transport.close()
    assert await stop_job(closed.transport) == ()
    await closed.until(lambda: closed.exits)


@needs_bash
@pytest.mark.asyncio
async def test_the_clock_alone_says_when_waiting_is_over(bash: Terminal) -> None:
    await bash.job("(trap '' INT TERM; exec sleep 60)", "sleep")
    now = 0.0

    async def sleep(delay_s: float) -> None:
        nonlocal now
        now += delay_s

    started = time.monotonic()
    (survivor,) = await signal_job(bash.transport, "terminate", wait_s=3600, sleep=sleep, clock=lambda: now * 1000)
    assert survivor.name == "sleep"
    assert now * 1000 >= 3600
    assert time.monotonic() - started < DEADLINE_S


# --- ends -------------------------------------------------------------------------------------------------------------------


@needs_bash
@pytest.mark.asyncio
async def test_ending_takes_the_whole_session_nohup_and_stopped_jobs_included(bash: Terminal) -> None:
    bash.transport.write(b"nohup sleep 61 >/dev/null 2>&1 & sleep 62 & (trap '' HUP TERM; sleep 63) &\r")
    await bash.until(lambda: names(bash).count("sleep") == 3)
    bash.transport.write(b"kill -STOP %2\r")
    started = time.monotonic()
    assert await end_session(bash.transport.pid, MARK, has_leader=True, grace_s=0.3) == ()
    assert time.monotonic() - started < 2
    assert session_members(bash.transport.pid) == []
    await bash.until(lambda: bash.exits)


@needs_bash
@pytest.mark.asyncio
async def test_what_goes_willingly_is_not_waited_for(bash: Terminal) -> None:
    await bash.job("sleep 64", "sleep")
    started = time.monotonic()
    assert await end_session(bash.transport.pid, MARK, has_leader=True, grace_s=10) == ()
    assert time.monotonic() - started < 5


@needs_bash
@pytest.mark.skipif(shutil.which("setsid") is None or sys.platform != "linux", reason="needs setsid and /proc")
@pytest.mark.asyncio
async def test_what_has_left_the_session_goes_on_and_is_named(bash: Terminal) -> None:
    bash.transport.write(b"setsid sleep 65 & sleep 66 &\r")

    def left() -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if process.is_running() and _command(process) == ["sleep", "65"]]

    await bash.until(lambda: left() and names(bash) == ["sleep"])
    (daemon,) = left()
    try:
        assert await end_session(bash.transport.pid, MARK, has_leader=True) == (Survivor(pid=daemon.pid, name="sleep"),)
        assert daemon.is_running()
    finally:
        daemon.kill()
        psutil.wait_procs([daemon], timeout=DEADLINE_S)
    assert await end_session(bash.transport.pid, MARK, has_leader=False) == ()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@needs_bash
@pytest.mark.asyncio
async def test_a_session_whose_pid_has_become_somebody_elses_is_left_alone(bash: Terminal) -> None:
    await bash.job("sleep 67", "sleep")
    await end_session(bash.transport.pid, "JUPYTER_AHP_TERMINAL=ahp-terminal:/old", has_leader=False, grace_s=0.1)
    assert names(bash) == ["sleep"]
    assert not bash.exits


@needs_bash
@pytest.mark.asyncio
async def test_what_a_shell_has_left_behind_is_ended_after_its_exit(bash: Terminal) -> None:
    bash.transport.write(b"(trap '' HUP; exec sleep 68) & exit\r")
    await bash.until(lambda: bash.exits)
    assert names(bash) == ["sleep"]
    assert await end_session(bash.transport.pid, MARK, has_leader=False) == ()
    assert names(bash) == []


@needs_bash
@pytest.mark.asyncio
async def test_what_we_may_not_signal_is_named(bash: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    await bash.job("sleep 69", "sleep")
    monkeypatch.setattr(processes, "_KILL_S", 0.05)

    def refuse(*args: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", refuse)
        patched.setattr(os, "kill", refuse)
        survivors = await end_session(bash.transport.pid, MARK, has_leader=True, grace_s=0.05)
        assert sorted(survivor.name for survivor in survivors) == ["bash", "sleep"]
        assert [survivor.name for survivor in await stop_job(bash.transport, grace_s=0.05)] == ["sleep"]
