"""PtyTransport on real ptys. Each test waits for an event, with a deadline."""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from jupyter_ext.host import transports
from jupyter_ext.host.transports import INPUT_QUEUE_BYTES, PtyTransport

DEADLINE_S = 15.0
ENV = {"PATH": os.environ["PATH"], "HOME": "/", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


class Recorder:
    """A transport with all that it said."""

    def __init__(self) -> None:
        self.transport: PtyTransport
        self.output = bytearray()
        self.blocks: list[int] = []
        self.exits: list[int | None] = []
        self.threads: set[int] = set()
        self._changed = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        assert data
        assert not self.exits
        self.threads.add(threading.get_ident())
        self.output += data
        self.blocks.append(len(data))
        self._changed.set()

    def on_exit(self, code: int | None) -> None:
        self.threads.add(threading.get_ident())
        self.exits.append(code)
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not holds():
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(wait(), DEADLINE_S)
        except asyncio.TimeoutError:
            pytest.fail(f"not within {DEADLINE_S} s; output ends in {bytes(self.output[-500:])!r}, exits {self.exits}")

    async def says(self, text: bytes) -> None:
        await self.until(lambda: text in self.output)

    async def exit(self) -> int | None:
        await self.until(lambda: bool(self.exits))
        return self.exits[0]


Spawn = Callable[..., Recorder]


@pytest_asyncio.fixture
async def spawn() -> AsyncIterator[Spawn]:
    made: list[Recorder] = []

    def start(argv: Sequence[str] | str, cwd: str | None = None, cols: int = 80, rows: int = 24, **env: str) -> Recorder:
        recorder = Recorder()
        recorder.transport = PtyTransport.spawn(
            ["sh", "-c", argv] if isinstance(argv, str) else argv,
            cwd=cwd,
            env={**ENV, **env},
            cols=cols,
            rows=rows,
            on_data=recorder.on_data,
            on_exit=recorder.on_exit,
            loop=asyncio.get_running_loop(),
        )
        made.append(recorder)
        return recorder

    yield start
    for recorder in made:
        if not recorder.transport.has_exited:
            os.killpg(recorder.transport.pid, signal.SIGKILL)
        recorder.transport.close()
        await recorder.exit()


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


# --- starting -----------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_output_comes_as_bytes_and_the_exit_code_after_all_of_it(spawn: Spawn) -> None:
    shell = spawn(r"printf 'a\303\251\377\0b'; exit 7")
    assert await shell.exit() == 7
    assert bytes(shell.output) == b"a\xc3\xa9\xff\x00b"
    assert shell.exits == [7]
    assert shell.transport.exit_signal is None


@pytest.mark.asyncio
async def test_the_child_leads_a_session_on_its_own_terminal_and_has_no_other_descriptors(spawn: Spawn) -> None:
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        child = spawn(
            python(
                "import os; t = os.open('/dev/tty', os.O_RDWR); os.close(t); "
                "print(os.getsid(0) == os.getpid() == os.getpgid(0) == os.tcgetpgrp(0), len({*map(os.ttyname, range(3))}), "
                "[fd for fd in range(3, 300) if os.path.exists(f'/dev/fd/{fd}') and os.path.islink(f'/proc/self/fd/{fd}')])"
            )
        )
        assert await child.exit() == 0
    finally:
        os.close(inherited)
    assert bytes(child.output) == b"True 1 []\r\n"


@pytest.mark.asyncio
async def test_signals_that_the_server_ignores_or_blocks_have_their_defaults_in_the_child(spawn: Spawn) -> None:
    signals = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD})
    try:
        child = spawn("grep -E '^Sig(Blk|Ign)' /proc/self/status")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert await child.exit() == 0
    blocked, ignored = (int(mask, 16) for mask in bytes(child.output).split()[1::2])
    glibcs_own = 0b11 << 31  # 32 and 33, which its posix_spawn leaves ignored
    assert (blocked, ignored & ~glibcs_own) == (0, 0)


@pytest.mark.asyncio
async def test_the_size_is_right_before_the_first_command(spawn: Spawn) -> None:
    shell = spawn("stty size", cols=123, rows=45)
    assert await shell.exit() == 0
    assert bytes(shell.output) == b"45 123\r\n"


@pytest.mark.asyncio
async def test_a_resize_reaches_the_foreground_program(spawn: Spawn) -> None:
    shell = spawn("trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.01; done")
    await shell.says(b"ready")
    shell.transport.resize(cols=100, rows=30)
    assert await shell.exit() == 3
    assert bytes(shell.output).endswith(b"30 100\r\n")


@pytest.mark.asyncio
async def test_the_environment_is_exactly_the_one_given(spawn: Spawn, tmp_path: Path) -> None:
    odd = {"BASH_FUNC_f%%": "() { echo hi; }", "a.b": "c d", "EMPTY": "", "CDPATH": "/tmp", "OLDPWD": "/usr"}
    child = spawn(python("import os, sys; sys.stdout.write(ascii(dict(os.environ)))"), cwd=str(tmp_path), **odd)
    assert await child.exit() == 0
    seen = eval(bytes(child.output).replace(b"\r\n", b""))
    assert {name: value for name, value in seen.items() if name not in ("PWD", "_", "LC_CTYPE")} == {
        name: value for name, value in {**ENV, **odd}.items() if name != "OLDPWD"
    }
    assert seen["PWD"] == str(tmp_path)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["a b", "p%20q", "x;y", "ü", "line\nbreak", "-", "$(touch hit)", "'"])
async def test_any_folder_can_be_the_childs(spawn: Spawn, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    child = spawn(python("import os; print(ascii(os.getcwd()))"), cwd=str(folder))
    assert await child.exit() == 0
    assert bytes(child.output) == ascii(str(folder)).encode() + b"\r\n"
    assert list(folder.iterdir()) == []


@pytest.mark.asyncio
async def test_arguments_arrive_unchanged(spawn: Spawn) -> None:
    arguments = ["", "a b", "$HOME", "'\"", "-n", "x\ny"]
    child = spawn([*python("import sys; print(ascii(sys.argv[1:]))"), *arguments])
    assert await child.exit() == 0
    assert bytes(child.output) == ascii(arguments).encode() + b"\r\n"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("argv", "cwd", "kind", "message"),
    [
        (["no-such-program"], None, FileNotFoundError, "there is no program no-such-program"),
        (["/no/such"], None, FileNotFoundError, "there is no program /no/such"),
        (["/etc/passwd"], None, PermissionError, "/etc/passwd is no program that can be started"),
        (["/etc"], None, PermissionError, "/etc is no program that can be started"),
        (["sh"], "/no/such", FileNotFoundError, "there is no folder /no/such"),
        (["sh"], "/etc/passwd", NotADirectoryError, "there is no folder /etc/passwd"),
    ],
)
async def test_what_cannot_be_started_is_said_at_once_and_leaves_nothing(
    spawn: Spawn, argv: list[str], cwd: str | None, kind: type[OSError], message: str
) -> None:
    before = sorted(os.listdir("/dev/fd"))
    with pytest.raises(kind) as caught:
        spawn(argv, cwd)
    assert caught.value.strerror == message
    assert sorted(os.listdir("/dev/fd")) == before


@pytest.mark.asyncio
async def test_a_failing_start_closes_the_pty(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", fail)
    before = sorted(os.listdir("/dev/fd"))
    with pytest.raises(BlockingIOError, match="no more processes can be started"):
        spawn(["sh"])
    monkeypatch.undo()
    with pytest.raises(OSError, match="Argument list too long"):
        spawn(["sh", "x" * 10_000_000])
    assert sorted(os.listdir("/dev/fd")) == before


# --- the end ------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_end_by_signal_has_no_code(spawn: Spawn) -> None:
    shell = spawn("kill -KILL $$")
    assert await shell.exit() is None
    assert shell.transport.exit_signal == signal.SIGKILL


@pytest.mark.asyncio
async def test_all_output_comes_before_the_exit_even_of_a_full_pty(spawn: Spawn) -> None:
    for _ in range(10):
        child = spawn("head -c 60000 /dev/zero | tr '\\0' x; printf end; exit 5")
        assert await child.exit() == 5
        assert len(child.output) == 60003
        assert child.output.endswith(b"end")


@pytest.mark.asyncio
async def test_a_background_process_that_holds_the_terminal_does_not_delay_the_exit(spawn: Spawn) -> None:
    shell = spawn("trap '' HUP; sleep 30 & echo $!; exit 4")
    started = time.monotonic()
    assert await shell.exit() == 4
    assert time.monotonic() - started < 5
    assert int(shell.output) > 0
    os.kill(int(shell.output), signal.SIGKILL)


@pytest.mark.asyncio
async def test_a_background_process_that_floods_the_terminal_does_not_delay_the_exit(spawn: Spawn) -> None:
    shell = spawn("trap '' HUP; yes & echo $! >&2; exit 4")
    assert await asyncio.wait_for(shell.exit(), 5) == 4
    os.killpg(shell.transport.pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_a_background_process_that_trickles_does_not_delay_the_exit_for_long(spawn: Spawn) -> None:
    shell = spawn("trap '' HUP; while :; do printf .; sleep 0.02; done & exit 4")
    assert await asyncio.wait_for(shell.exit(), 5) == 4
    os.killpg(shell.transport.pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_output_that_became_readable_while_the_loop_stalled_comes_before_the_exit(spawn: Spawn) -> None:
    shell = spawn("trap '' HUP; (sleep 0.2; printf late; sleep 30) & echo early; exit 4")
    while not shell.transport.has_exited:
        await asyncio.sleep(0)
    select.select([shell.transport.fd], [], [], DEADLINE_S)  # stalls the loop until there is more
    assert await shell.exit() == 4
    assert bytes(shell.output) == b"early\r\nlate"
    os.killpg(shell.transport.pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_a_terminal_that_nobody_has_open_for_a_while_is_read_again(spawn: Spawn) -> None:
    shell = spawn("exec <&- >&- 2>&-; sleep 0.5; echo back >/dev/tty; exit 6")
    assert await shell.exit() == 6
    assert bytes(shell.output) == b"back\r\n"


@pytest.mark.asyncio
async def test_without_pidfd_a_thread_waits(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no pidfd")

    monkeypatch.setattr(os, "pidfd_open", missing, raising=False)
    shell = spawn("echo a; exit 9")
    assert await shell.exit() == 9
    assert bytes(shell.output) == b"a\r\n"
    assert shell.threads == {threading.get_ident()}


@pytest.mark.asyncio
async def test_a_child_that_somebody_else_has_reaped_ends_without_a_code(spawn: Spawn) -> None:
    shell = spawn("read line")
    os.kill(shell.transport.pid, signal.SIGKILL)
    os.waitpid(shell.transport.pid, 0)
    assert await shell.exit() is None
    assert shell.transport.exit_signal is None


@pytest.mark.asyncio
async def test_closing_hangs_up_and_the_exit_is_still_told_once(spawn: Spawn) -> None:
    shell = spawn("echo ready; read line")
    await shell.says(b"ready")
    shell.transport.close()
    shell.transport.close()
    assert await shell.exit() is None
    assert shell.transport.exit_signal == signal.SIGHUP
    assert shell.transport.fd == -1
    assert not shell.transport.write(b"x")
    shell.transport.resize(cols=1, rows=1)
    shell.transport.pause()
    shell.transport.resume()
    assert shell.exits == [None]


@pytest.mark.asyncio
async def test_closing_while_the_last_output_is_awaited_reports_the_exit(spawn: Spawn) -> None:
    shell = spawn("trap '' HUP; sleep 30 & exit 4")
    while not shell.transport.has_exited:
        await asyncio.sleep(0)
    shell.transport.close()
    assert await shell.exit() == 4
    os.killpg(shell.transport.pid, signal.SIGKILL)


@pytest.mark.asyncio
async def test_200_terminals_leave_no_descriptor_zombie_or_thread(spawn: Spawn) -> None:
    async def cycle() -> None:
        shell = Recorder()
        shell.transport = PtyTransport.spawn(
            ["true"], cwd="/", env=ENV, cols=80, rows=24, on_data=shell.on_data, on_exit=shell.on_exit,
            loop=asyncio.get_running_loop(),
        )  # fmt: skip
        await shell.exit()
        shell.transport.close()

    await cycle()
    gc.collect()
    before, threads = len(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(50):
        await asyncio.gather(*[cycle() for _ in range(4)])
    assert len(os.listdir("/dev/fd")) == before
    assert threading.active_count() == threads
    zombies = [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]
    assert zombies == []


# --- input --------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_large_input_arrives_whole_and_in_order(spawn: Spawn) -> None:
    child = spawn(
        python(
            "import hashlib, os, tty; tty.setraw(0); print('ready', flush=True); h = hashlib.sha256(); n = 0\n"
            f"while n < {INPUT_QUEUE_BYTES}: d = os.read(0, 65536); h.update(d); n += len(d)\n"
            "print(h.hexdigest())"
        )
    )
    await child.says(b"ready")
    data = bytes(range(256)) * (INPUT_QUEUE_BYTES // 256)
    for start in range(0, len(data), 100_000):
        assert child.transport.write(data[start : start + 100_000])
    assert await child.exit() == 0
    assert child.transport.pending_input_bytes == 0
    assert hashlib.sha256(data).hexdigest().encode() in child.output


@pytest.mark.asyncio
async def test_input_that_nobody_reads_waits_bounded_and_costs_no_processor_time(spawn: Spawn) -> None:
    child = spawn("stty raw -echo; echo ready; sleep 30")
    await child.says(b"ready")
    assert child.transport.write(b"x" * INPUT_QUEUE_BYTES)
    waiting = child.transport.pending_input_bytes
    assert 0 < waiting < INPUT_QUEUE_BYTES
    assert not child.transport.write(b"y" * (INPUT_QUEUE_BYTES - waiting + 1))
    assert child.transport.write(b"")
    used = time.thread_time()
    await asyncio.sleep(0.5)  # the time over which the cost is measured
    assert time.thread_time() - used < 0.05
    assert child.transport.pending_input_bytes <= waiting


@pytest.mark.asyncio
async def test_a_blocked_terminal_does_not_hold_up_another(spawn: Spawn) -> None:
    blocked = spawn("stty raw -echo; echo ready; sleep 30")
    await blocked.says(b"ready")
    blocked.transport.write(b"x" * 500_000)
    other = spawn(["cat"])
    other.transport.write(b"hello\n")
    await other.says(b"hello\r\nhello\r\n")


@pytest.mark.asyncio
async def test_input_after_the_end_is_refused(spawn: Spawn) -> None:
    shell = spawn("exit 0")
    await shell.exit()
    assert not shell.transport.write(b"x")
    assert shell.transport.pending_input_bytes == 0


@pytest.mark.asyncio
async def test_input_for_a_terminal_that_nobody_has_open_is_dropped(spawn: Spawn) -> None:
    shell = spawn("exec <&- >&- 2>&-; sleep 0.4")
    await asyncio.sleep(0)
    fd = os.dup(shell.transport.fd)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLHUP)
        while not any(event & select.POLLHUP for _, event in poll.poll(1000)):
            await asyncio.sleep(0)
    finally:
        os.close(fd)
    shell.transport.write(b"x")
    assert await shell.exit() == 0
    assert shell.transport.pending_input_bytes == 0


# --- reading ------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_flood_comes_in_large_blocks_on_the_loops_thread(spawn: Spawn) -> None:
    child = spawn("yes 0123456789 | head -c 20000000 | tr -d '\\n'")
    assert await child.exit() == 0
    assert len(child.output) >= 18_000_000
    assert max(child.blocks) <= transports.READ_BLOCK_BYTES
    assert len(child.output) / len(child.blocks) > 4096
    assert child.threads == {threading.get_ident()}


@pytest.mark.asyncio
async def test_a_paused_terminal_stops_its_program_and_loses_nothing(spawn: Spawn) -> None:
    child = spawn("seq 200000; exit 3")
    await child.says(b"1\r\n")
    child.transport.pause()
    child.transport.pause()
    size = len(child.output)
    await asyncio.sleep(0.3)  # the time in which nothing may come
    assert len(child.output) == size
    assert not child.exits
    child.transport.resume()
    child.transport.resume()
    assert await child.exit() == 3
    assert bytes(child.output) == b"".join(b"%d\r\n" % number for number in range(1, 200001))


@pytest.mark.asyncio
async def test_an_exit_while_paused_is_told_after_the_rest_was_read(spawn: Spawn) -> None:
    child = spawn("printf hello; exit 3")
    child.transport.pause()
    while not child.transport.has_exited:
        await asyncio.sleep(0)
    await asyncio.sleep(0.3)  # the time in which nothing may come
    assert child.output == b""
    assert not child.exits
    child.transport.resume()
    assert await child.exit() == 3
    assert bytes(child.output) == b"hello"


@pytest.mark.asyncio
async def test_a_callback_may_pause_and_close(spawn: Spawn) -> None:
    child = spawn("yes")

    def on_data(data: bytes) -> None:
        child.on_data(data)
        child.transport.pause()
        child.transport.close()

    child.transport._on_data = on_data
    assert await child.exit() is None
    assert len(child.blocks) == 1


def test_a_server_started_with_its_output_closed_and_sigint_ignored_gives_a_usable_terminal(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from jupyter_ext.host.transports import PtyTransport\n"
        "async def main():\n"
        "    end = asyncio.get_running_loop().create_future(); out = bytearray()\n"
        "    t = PtyTransport.spawn(['sh', '-c', 'trap : INT; kill -INT $$; tty; echo ok'],\n"
        f"        cwd='/', env={ENV!r}, cols=80, rows=24,\n"
        "        on_data=out.extend, on_exit=end.set_result, loop=asyncio.get_running_loop())\n"
        "    code = await end; t.close()\n"
        "    open(sys.argv[1], 'wb').write(bytes(out) + str(code).encode())\n"
        "asyncio.run(main())\n"
    )
    result = tmp_path / "result"
    command = f"trap '' INT HUP; exec {shlex.join([sys.executable, '-c', code, str(result)])} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", command], check=True, timeout=DEADLINE_S)
    lines = result.read_bytes().split(b"\r\n")
    assert lines[0].startswith(b"/dev/")
    assert lines[1:] == [b"ok", b"0"]
