"""Transports: a process behind a real pty, bytes in and bytes out, driven by the loop.

How a child is started. `os.posix_spawn` runs no Python between fork and exec (a fork of a threaded server may deadlock; 3.12
warns of it), gives the child a session of its own, and sets signals and mask back to their defaults, which a server started
by ``nohup`` or with ``&`` would otherwise pass on as ignored. It runs ``/bin/sh`` for the two things that posix_spawn cannot
do: open the terminal, by which a session leader without one gets it as its controlling terminal (Linux and macOS), and change
the folder. The sh then replaces itself by the program: 0.8 ms in all, where a Python of its own would take 13 ms. A POSIX
shell drops variables whose names are no identifiers (dash) or no identifiers in POSIX mode (bash), exported bash functions
among them; ``env`` puts these back.

How output is read. A Linux pty gives at most 4 KiB for one read and holds 64 KiB. So one readiness gathers a block, until the
pty is empty or the block full: a key's echo goes out at once and a flood in large blocks. While the loop digests a block the
kernel's 64 KiB let the program go on, so there is nothing that a thread would add (measured, see ``tests/bench``).
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

if sys.platform != "win32":
    import fcntl
    import termios

__all__ = ["INPUT_QUEUE_BYTES", "READ_BLOCK_BYTES", "PtyTransport"]

# The whole of a paste of 512 KiB (the largest `terminal/input`) fits twice.
INPUT_QUEUE_BYTES = 1 << 20

# What Linux keeps for a pty: a larger block would only be filled by a writer that outruns us.
READ_BLOCK_BYTES = 1 << 16

# After its exit a child's last output may still be on its way through the kernel, and a background process may hold the
# terminal open. The end has come when nothing was read for QUIET_S, when more was read than the kernel can have held of the
# child's (Linux: 64 KiB and a page), or after DRAIN_S of a trickle.
_QUIET_S = 0.1
_DRAIN_BYTES = 1 << 18
_DRAIN_S = 1.0

# How often a terminal that no process has open is looked at again: one may open it by its name.
_REOPEN_S = 0.25

# $0: folder, $1: terminal, then the program. Only positional parameters: a variable would change the program's own.
_STARTER = 'exec <>"$1" >&0 2>&0; cd -- "$0" && unset OLDPWD && shift && exec "$@"'

_IUTF8 = 0x4000  # Linux and macOS alike; the termios module lacks it before 3.14


class PtyTransport:
    """A process that leads its own session on its own pty. Loop thread only; callbacks come on the loop thread.

    ``on_data`` gets each block of output; ``on_exit`` comes exactly once, after all of it, with the exit code, or None
    where there is none (killed by a signal: see `exit_signal`).
    """

    def __init__(
        self,
        pid: int,
        fd: int,
        *,
        on_data: Callable[[bytes], None],
        on_exit: Callable[[int | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Take over a started child and the master side of its pty; `spawn` is the way to get one."""
        self.pid = pid
        self.exit_signal: int | None = None
        self._fd = fd
        self._on_data = on_data
        self._on_exit = on_exit
        self._loop = loop
        self._input = bytearray()
        self._is_paused = False
        self._is_reading = False
        self._is_at_end = False
        self._has_exited = False
        self._has_reported = False
        self._exit_code: int | None = None
        self._drained_bytes = 0
        self._drain_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._start_reading()
        _watch_exit(pid, loop, self._child_exited)

    @classmethod
    def spawn(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        cols: int,
        rows: int,
        on_data: Callable[[bytes], None],
        on_exit: Callable[[int | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> PtyTransport:
        """Start a program on a new pty. Loop thread only.

        Args:
            argv: the program, a path or a name on ``env``'s PATH, and its arguments.
            cwd: its folder; None is ours.
            env: its whole environment.
            cols: width in cells, in force before its first byte.
            rows: height in cells.

        Raises:
            OSError: it cannot be started; ``strerror`` says why, for people.
        """
        if sys.platform == "win32":
            raise OSError(errno.ENOSYS, "terminals are not supported on Windows")
        folder = _usable_folder(cwd)
        program = _usable_program(argv[0], folder, env)
        master, slave = os.openpty()
        try:
            _set_size(master, cols=cols, rows=rows)
            attributes = termios.tcgetattr(slave)
            attributes[0] |= _IUTF8
            termios.tcsetattr(slave, termios.TCSANOW, attributes)
            os.set_blocking(master, False)
            pid = _start(program, argv[1:], folder=folder, env=env, slave=slave)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return cls(pid, master, on_data=on_data, on_exit=on_exit, loop=loop)

    @property
    def fd(self) -> int:
        """The master side, for questions to the terminal; -1 once closed. Loop thread only."""
        return self._fd

    @property
    def has_exited(self) -> bool:
        """The child has gone and was reaped: its pid may be somebody else's. Loop thread only."""
        return self._has_exited

    @property
    def pending_input_bytes(self) -> int:
        """Input that waits for the program to read. Loop thread only."""
        return len(self._input)

    def write(self, data: bytes) -> bool:
        """Queue input; never blocks. Loop thread only.

        Returns:
            False when it was refused whole: the queue has no room for all of it, or the terminal has ended.
        """
        if self._fd < 0 or self._has_exited or len(self._input) + len(data) > INPUT_QUEUE_BYTES:
            return False
        was_idle = not self._input
        self._input += data
        if was_idle and data:
            self._write_some()
            if self._input:
                self._loop.add_writer(self._fd, self._on_writable)
        return True

    def resize(self, *, cols: int, rows: int) -> None:
        """Change the size in cells; the kernel tells the foreground job. Loop thread only."""
        if self._fd >= 0:
            _set_size(self._fd, cols=cols, rows=rows)

    def pause(self) -> None:
        """Read no more: the program stops once the kernel's buffer is full; its exit waits as well. Loop thread only."""
        self._is_paused = True
        self._stop_reading()

    def resume(self) -> None:
        """Read again. Loop thread only."""
        if not self._is_paused:
            return
        self._is_paused = False
        if not self._is_at_end:
            self._start_reading()
        if self._has_exited:
            self._drain_until = self._loop.time() + _DRAIN_S
            self._settle()

    def close(self) -> None:
        """Give up the terminal: the kernel hangs it up for whoever still uses it. Idempotent. Loop thread only.

        No output is read after it; a child that still runs is reaped, and reported, when it ends.
        """
        if self._fd < 0:
            return
        self._stop_reading()
        self._stop_writing()
        self._cancel_timer()
        os.close(self._fd)
        self._fd = -1
        self._is_at_end = True
        if self._has_exited:
            self._loop.call_soon(self._report)

    # --- reading ---------------------------------------------------------------------------------------------------------

    def _start_reading(self) -> None:
        if not (self._is_reading or self._is_paused or self._has_reported or self._fd < 0):
            self._is_reading = True
            self._is_at_end = False
            self._loop.add_reader(self._fd, self._on_readable)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def _read_block(self) -> bytes:
        """Read what there is, up to a block; note the end when the kernel says so."""
        pieces: list[bytes] = []
        size = 0
        while size < READ_BLOCK_BYTES:
            try:
                piece = os.read(self._fd, READ_BLOCK_BYTES - size)
            except BlockingIOError:
                break
            except OSError:  # EIO on Linux: no process has the terminal open
                piece = b""
            if not piece:
                self._is_at_end = True
                self._stop_reading()
                break
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _on_readable(self) -> None:
        data = self._read_block()
        if self._has_exited:
            self._drained_bytes += len(data)
        elif self._is_at_end:
            self._set_timer(_REOPEN_S, self._start_reading)
        if data:
            self._on_data(data)
        if self._has_exited:
            self._settle()

    # --- the end ---------------------------------------------------------------------------------------------------------

    def _child_exited(self, status: int | None) -> None:
        code = None if status is None else os.waitstatus_to_exitcode(status)
        if code is not None and code < 0:
            self.exit_signal = -code
        else:
            self._exit_code = code
        self._has_exited = True
        self._stop_writing()
        self._cancel_timer()
        self._drain_until = self._loop.time() + _DRAIN_S
        if self._fd >= 0 and not self._is_paused:
            self._is_at_end = False
            self._on_readable()
        else:
            self._settle()

    def _settle(self) -> None:
        """After the exit: report it once no more of the child's output can come, or wait for that."""
        if self._has_reported:
            return
        if self._is_at_end:
            self._report()
        elif not self._is_paused:
            if self._drained_bytes >= _DRAIN_BYTES or self._loop.time() >= self._drain_until:
                self._report()
            else:
                self._set_timer(_QUIET_S, self._on_quiet)

    def _on_quiet(self) -> None:
        # A look before the report: after a stall of the loop its timers come before what became readable meanwhile.
        data = self._read_block()
        if not data:
            self._report()
            return
        self._drained_bytes += len(data)
        self._on_data(data)
        self._settle()

    def _report(self) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._stop_reading()
            self._cancel_timer()
            self._on_exit(self._exit_code)

    def _set_timer(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(delay_s, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- writing ---------------------------------------------------------------------------------------------------------

    def _on_writable(self) -> None:
        self._write_some()
        if not self._input:
            self._loop.remove_writer(self._fd)

    def _write_some(self) -> None:
        try:
            del self._input[: os.write(self._fd, self._input)]
        except BlockingIOError:
            pass
        except OSError:  # EIO: nobody has the terminal open
            self._input.clear()

    def _stop_writing(self) -> None:
        if self._input:
            self._input.clear()
            self._loop.remove_writer(self._fd)


def _set_size(fd: int, *, cols: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _usable_folder(cwd: str | None) -> str:
    folder = os.path.abspath(cwd) if cwd is not None else os.getcwd()
    if not os.path.isdir(folder):
        number = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        raise OSError(number, f"there is no folder {folder}")
    if not os.access(folder, os.X_OK):
        raise OSError(errno.EACCES, f"the folder {folder} may not be entered")
    return folder


def _usable_program(name: str, folder: str, env: Mapping[str, str]) -> str:
    path = os.path.join(folder, name) if os.sep in name else name
    found = shutil.which(path, path=env.get("PATH", os.defpath))
    if found is not None:
        return os.path.join(folder, found)
    if os.sep in name and os.path.exists(path):
        raise OSError(errno.EACCES, f"{path} is no program that can be started")
    raise OSError(errno.ENOENT, f"there is no program {name}")


def _start(program: str, arguments: Sequence[str], *, folder: str, env: Mapping[str, str], slave: int) -> int:
    """Start the program as leader of a new session on the terminal ``slave``; its pid."""
    odd = [f"{name}={value}" for name, value in env.items() if not (name.isidentifier() and name.isascii())]
    argv = ["/bin/sh", "-c", _STARTER, folder, os.ttyname(slave), *(["/usr/bin/env", *odd] if odd else []), program, *arguments]
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, slave, fd) for fd in (0, 1, 2)]
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable_fds()]
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            dict(env),
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError as error:
        message = "no more processes can be started" if error.errno == errno.EAGAIN else error.strerror
        raise OSError(error.errno, message) from None


def _inheritable_fds() -> list[int]:
    """What a child would get beyond its standard three: what we were started with (Python's own are not inheritable)."""
    found = []
    for name in os.listdir("/dev/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:  # the listing's own, closed by now
            continue
    return found


def _watch_exit(pid: int, loop: asyncio.AbstractEventLoop, exited: Callable[[int | None], None]) -> None:
    """Reap a child when it ends and tell its wait status, or None if somebody else has reaped it.

    By pidfd where there is one (Linux 5.3), else by a waiting thread. SIGCHLD is left to its owner.
    """

    def reap(flags: int) -> int | None:
        try:
            return os.waitpid(pid, flags)[1]
        except ChildProcessError:
            return None

    def readable() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        exited(reap(0))

    def wait() -> None:
        status = reap(0)
        if not loop.is_closed():
            loop.call_soon_threadsafe(exited, status)

    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        threading.Thread(target=wait, name=f"pty-exit-{pid}", daemon=True).start()
    else:
        loop.add_reader(pidfd, readable)
