"""Plans, private files, environments; and real bashes in real ptys, seen through the parser and the detector.

The names K-1xx are the cases of the shell integration's table. Each test waits for an event, with a deadline.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psutil
import pytest
import pytest_asyncio

from jupyter_ext.core.shell_integration import CommandDetector, Mark, ShellIntegrationParser
from jupyter_ext.host import shells
from jupyter_ext.host.shells import PrivateFiles, UnknownShell, child_environment, launch_spec
from jupyter_ext.host.transports import PtyTransport
from jupyter_ext.protocol.terminal import (
    StateAction,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCwdChangedAction,
    TerminalDataAction,
    TerminalTitleChangedAction,
)

DEADLINE_S = 20.0
NONCE = "0123456789abcdef" * 2
BASH = shutil.which("bash") or ""

VERSION = (
    tuple(map(int, subprocess.run([BASH, "-c", "echo ${BASH_VERSINFO[@]:0:2}"], capture_output=True, text=True).stdout.split()))
    if BASH
    else (0, 0)
)
real_bash = pytest.mark.skipif(VERSION < (5, 1), reason="bash 5.1 or newer is needed")


# --- plans ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine with bash, zsh and sh on PATH and nothing else; bash says it is 5.2."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "zsh", "sh"):
        program = folder / name
        program.write_text("#!/bin/sh\necho 5 2\n")
        program.chmod(0o755)
    monkeypatch.setattr(shells, "_listed_shells", lambda: [str(folder / "zsh"), str(folder / "gone")])
    return {"PATH": str(folder), "SHELL": str(folder / "zsh")}


def test_bash_gets_a_private_start_up_file_with_the_nonce_and_nothing_else_does(machine: dict[str, str]) -> None:
    spec = launch_spec("bash", login=False, nonce=NONCE, environ=machine)
    assert spec.shell == "bash"
    assert spec.argv == (f"{machine['PATH']}/bash", "--rcfile", "\0/bashrc", "-i")
    assert spec.tracking == "pending"
    assert spec.env == {}
    assert spec.files["bashrc"].startswith(f"__AHP_NONCE={NONCE}\n")
    assert "__AHP_LOGIN=1" not in spec.files["bashrc"].splitlines()
    assert NONCE not in repr(spec.argv)


def test_a_login_bash_reads_the_profiles_by_the_same_file(machine: dict[str, str]) -> None:
    spec = launch_spec("bash", login=True, nonce=NONCE, environ=machine)
    assert spec.files["bashrc"].splitlines()[1] == "__AHP_LOGIN=1"
    assert spec.argv[1] == "--rcfile"
    assert spec.plain_argv == (f"{machine['PATH']}/bash", "-l")


@pytest.mark.parametrize(("login", "arguments"), [(False, ()), (True, ("-l",))])
def test_another_shell_starts_plain_and_says_why(machine: dict[str, str], login: bool, arguments: tuple[str, ...]) -> None:
    spec = launch_spec("zsh", login=login, nonce=NONCE, environ=machine)
    assert spec.argv == (f"{machine['PATH']}/zsh", *arguments)
    assert spec.tracking == "commands are not tracked in zsh yet"
    assert spec.files == {}


def test_an_old_bash_starts_plain_and_says_why(machine: dict[str, str]) -> None:
    Path(machine["PATH"], "bash").write_text("#!/bin/sh\necho 3 2\n")
    spec = launch_spec("bash", login=False, nonce=NONCE, environ=machine)
    assert spec.argv == (f"{machine['PATH']}/bash",)
    assert spec.tracking == "commands are not tracked in bash 3.2: it takes 4.4 or newer"


def test_a_bash_that_does_not_tell_its_version_is_given_the_benefit(machine: dict[str, str]) -> None:
    Path(machine["PATH"], "bash").write_text("#!/bin/sh\nexit 1\n")
    assert launch_spec("bash", login=False, nonce=NONCE, environ=machine).tracking == "pending"


def test_a_shell_can_be_given_by_its_path(machine: dict[str, str]) -> None:
    path = f"{machine['PATH']}/zsh"
    spec = launch_spec(path, login=False, nonce=NONCE, environ=machine)
    assert (spec.shell, spec.argv) == (path, (path,))


@pytest.mark.parametrize("shell", ["fish", "python3", "/no/such/bash", "bin/bash", "", "gone", "/etc/passwd", "../sh"])
def test_an_unknown_shell_is_refused_with_the_names_of_those_there_are(machine: dict[str, str], shell: str) -> None:
    with pytest.raises(UnknownShell) as caught:
        launch_spec(shell, login=False, nonce=NONCE, environ=machine)
    assert str(caught.value) == f"There is no shell {shell!r} here. There are: bash, zsh, sh."


def test_the_default_is_the_users_own_shell_else_bash_else_sh(machine: dict[str, str]) -> None:
    def default(**environ: str) -> str:
        return launch_spec(None, login=False, nonce=NONCE, environ={**machine, **environ}).shell

    assert default() == f"{machine['PATH']}/zsh"
    assert default(SHELL="/no/such/zsh") == "bash"
    assert default(SHELL="/usr/bin/true") == "bash"
    assert default(SHELL="") == "bash"
    Path(machine["PATH"], "bash").unlink()
    assert default(SHELL="") == "sh"


def test_the_shells_of_this_machine_are_read_where_the_system_lists_them() -> None:
    assert all(path.startswith("/") for path in shells._listed_shells())


def test_without_a_list_of_shells_path_alone_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert shells._listed_shells() == []


# --- private files ----------------------------------------------------------------------------------------------------------


def test_the_files_are_for_their_user_only_and_go_as_one(machine: dict[str, str], tmp_path: Path) -> None:
    plan = launch_spec("bash", login=False, nonce=NONCE, environ=machine)
    files, spec = PrivateFiles.write(plan, parent=str(tmp_path))
    assert files is not None
    script = Path(spec.argv[2])
    assert script.read_text() == plan.files["bashrc"]
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert stat.S_IMODE(script.parent.stat().st_mode) == 0o700
    files.remove()
    files.remove()
    assert not script.parent.exists()


def test_a_plain_shell_needs_no_folder(machine: dict[str, str], tmp_path: Path) -> None:
    plan = launch_spec("zsh", login=False, nonce=NONCE, environ=machine)
    assert PrivateFiles.write(plan, parent=str(tmp_path)) == (None, plan)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_k189_where_no_file_can_be_written_the_shell_starts_plain_with_the_reason(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = launch_spec("bash", login=True, nonce=NONCE, environ=machine)
    files, spec = PrivateFiles.write(plan, parent=str(tmp_path / "missing"))
    assert files is None
    assert spec.argv == (f"{machine['PATH']}/bash", "-l")
    assert spec.tracking.startswith("commands are not tracked: its start-up file could not be written (No such file")
    assert spec.files == {}

    def full(*args: Any, **kwargs: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    files, spec = PrivateFiles.write(plan, parent=str(tmp_path))
    assert files is None
    assert "No space left" in spec.tracking
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_the_folder_is_made_in_the_users_runtime_folder_where_there_is_one(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = launch_spec("bash", login=False, nonce=NONCE, environ=machine)
    for value, is_there in ((str(tmp_path), True), (str(tmp_path / "gone"), False), ("relative", False)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        files, spec = PrivateFiles.write(plan)
        assert files is not None
        assert (Path(spec.argv[2]).parent.parent == tmp_path) is is_there
        files.remove()


# --- the environment ----------------------------------------------------------------------------------------------------------


def test_the_environment_is_the_users_without_the_servers_secrets_and_its_own_terminal() -> None:
    kept = (
        "HOME PATH LANG LC_ALL GITHUB_TOKEN JUPYTERHUB_USER JUPYTERHUB_SERVICE_PREFIX JUPYTER_CONFIG_DIR PROMPT_COMMAND ZDOTDIR "
        "ENV BASH_ENV XDG_DATA_DIRS PAGER MPLBACKEND PYTHONPATH TERMINFO VIRTUAL_ENV"
    )
    dropped = (
        "JUPYTER_TOKEN JPY_API_TOKEN JPY_SESSION_NAME JUPYTERHUB_API_TOKEN JUPYTERHUB_CRYPT_KEY JUPYTERHUB_COOKIE_SECRET "
        "CONFIGPROXY_AUTH_TOKEN JUPYTER_AHP_TOKEN JUPYTER_AHP_URL JUPYTER_AHP_KERNEL_ID JUPYTER_AHP_KERNEL_TOKEN "
        "JUPYTER_SERVER_URL JUPYTER_SERVER_ROOT COLUMNS LINES SHLVL _ TMUX TMUX_PANE VTE_VERSION TERM_PROGRAM "
        "TERM_PROGRAM_VERSION VSCODE_INJECTION INSIDE_EMACS"
    )
    parent = dict.fromkeys(f"{kept} {dropped}".split(), "cat") | {"TERM": "dumb", "COLORTERM": "no"}
    assert child_environment(parent, uri="ahp-terminal:/a") == {
        **dict.fromkeys(kept.split(), "cat"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "JUPYTER_AHP_TERMINAL": "ahp-terminal:/a",
    }


def test_a_terminal_of_a_kernel_does_not_inherit_what_is_for_cells() -> None:
    cells = {"PAGER": "cat", "GIT_PAGER": "cat", "FORCE_COLOR": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    assert set(cells) & set(child_environment({**cells, "JPY_PARENT_PID": "1"}, uri="u")) == set()
    own = {"PAGER": "less", "MPLBACKEND": "agg"}
    assert own.items() <= child_environment({**own, "JPY_PARENT_PID": "1"}, uri="u").items()


# --- real shells --------------------------------------------------------------------------------------------------------------


class Command:
    """One command as the events told of it."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.output = ""
        self.code: int | str | None = "open"

    def __repr__(self) -> str:
        return f"<{self.line!r} -> {self.code}: {self.output!r}>"

    def __eq__(self, other: object) -> bool:
        return (self.line, self.code) == other


class Shell:
    """A real shell in a real pty, and what the parser and the detector make of it."""

    def __init__(
        self, env: dict[str, str], *, shell: str = "bash", login: bool = False, cwd: str, parent: str | None = None
    ) -> None:
        self.nonce = secrets.token_hex(16)
        self.parser = ShellIntegrationParser(self.nonce)
        self.detector = CommandDetector(hostname="myhost", initial_title="sh")
        self.files, self.spec = PrivateFiles.write(launch_spec(shell, login=login, nonce=self.nonce), parent=parent)
        self.events: list[tuple[Any, ...]] = []
        self.commands: list[Command] = []
        self.loose = ""
        self.text = ""
        self.prompts = 0
        self.edits = 0
        self.exits: list[int | None] = []
        self._was_editing = False
        self._seen = 0
        self._changed = asyncio.Event()
        self.started = time.monotonic()
        self.transport = PtyTransport.spawn(
            self.spec.argv,
            cwd=cwd,
            env=env,
            cols=80,
            rows=24,
            on_data=self._on_data,
            on_exit=self._on_exit,
            loop=asyncio.get_running_loop(),
        )

    def _on_data(self, data: bytes) -> None:
        segments = self.parser.feed(data)
        self.prompts += sum(isinstance(segment, Mark) and segment.kind == "A" for segment in segments)
        self._take(self.detector.actions(segments, 1, 1))
        if self.detector.editor_ready and not self._was_editing:
            self.edits += 1
        self._was_editing = self.detector.editor_ready

    def _on_exit(self, code: int | None) -> None:
        self._take(self.detector.actions(self.parser.flush(), 1, 1))
        self._take(self.detector.finish(1, 1))
        self.exits.append(code)

    def _take(self, actions: list[StateAction]) -> None:
        for action in actions:
            match action:
                case TerminalDataAction(data=data):
                    self.text += data
                    if self.commands and self.commands[-1].code == "open":
                        self.commands[-1].output += data
                    else:
                        self.loose += data
                case TerminalCommandDetectionAvailableAction():
                    self.events.append(("avail", self.loose))
                case TerminalCommandExecutedAction(command_line=line):
                    self.events.append(("exec", line))
                    self.commands.append(Command(line))
                case TerminalCommandFinishedAction(exit_code=code):
                    self.events.append(("fin", code))
                    self.commands[-1].code = code
                case TerminalCwdChangedAction(cwd=cwd):
                    self.events.append(("cwd", cwd))
                case TerminalTitleChangedAction(title=title):
                    self.events.append(("title", title))
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not holds():
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(wait(), DEADLINE_S)
        except asyncio.TimeoutError:
            pytest.fail(f"not within {DEADLINE_S} s: {self.commands} {self.events} {self.text[-600:]!r}")

    def type(self, text: str) -> None:
        data = text.encode()
        self.detector.input_sent(data)
        assert self.transport.write(data)

    async def ready(self, prompts: int = 1) -> None:
        """Wait for that many prompts beyond those already waited for, and for the editor at the last of them."""
        self._seen += prompts
        await self.until(lambda: self.prompts >= self._seen and self.detector.at_prompt and self.detector.editor_ready)

    async def run(self, *lines: str) -> list[Command]:
        """Type lines one by one, each at its own prompt; the commands they made."""
        before = len(self.commands)
        for line in lines:
            self.type(line + "\r")
            await self.ready()
        return self.commands[before:]

    async def runs(self, name: str) -> None:
        """Wait until a program of that name is in the foreground; before it, what is typed may reach a shell that starts it."""

        async def wait() -> None:
            while psutil.Process(os.tcgetpgrp(self.transport.fd)).name() != name:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), DEADLINE_S)

    async def waits(self) -> None:
        """Wait until the shell sleeps in its read: a Ctrl-C that finds bash on the way there takes effect at the next key."""

        async def wait() -> None:
            while psutil.Process(self.transport.pid).status() != psutil.STATUS_SLEEPING:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), DEADLINE_S)

    async def finished(self, count: int) -> list[Command]:
        await self.until(lambda: len(self.commands) >= count and all(command.code != "open" for command in self.commands))
        return self.commands

    async def exit(self) -> int | None:
        await self.until(lambda: bool(self.exits))
        return self.exits[0]


Start = Callable[..., Shell]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture
async def start(home: Path, tmp_path: Path) -> AsyncIterator[Start]:
    made: list[Shell] = []

    def launch(
        rc: str = "", *, prompt: str = "PS1='P> '; HISTCONTROL=", env: dict[str, str] | None = None, **options: Any
    ) -> Shell:
        (home / ".bashrc").write_text(f"{prompt}\n{rc}\n")
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "TMPDIR": str(tmp_path), **(env or {})}
        made.append(Shell(child_environment(base, uri="ahp-terminal:/k"), cwd=str(home), **options))
        return made[-1]

    yield launch
    for shell in made:
        if shell.files is not None:
            shell.files.remove()
        if not shell.transport.has_exited:
            os.kill(shell.transport.pid, signal.SIGKILL)
        shell.transport.close()
        await shell.exit()


@real_bash
@pytest.mark.asyncio
async def test_k101_commands_come_with_their_lines_and_codes(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert await shell.run("true", 'sh -c "exit 3"', "false | true") == [("true", 0), ('sh -c "exit 3"', 3), ("false | true", 0)]
    assert [event[0] for event in shell.events] == ["cwd", "avail", *["exec", "fin"] * 3]
    assert [command.output for command in shell.commands] == ["", "", ""]


@real_bash
@pytest.mark.asyncio
async def test_k102_ctrl_c_ends_a_command(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("sleep 30\r")
    await shell.runs("sleep")
    shell.type("\x03")
    await shell.ready()
    assert shell.commands == [("sleep 30", 130)]
    assert shell.commands[0].output == "^C\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k104_k105_blanks_and_comments_are_no_commands(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert await shell.run("", "   ", "# only a comment") == []


@real_bash
@pytest.mark.asyncio
async def test_k107_ctrl_c_at_the_prompt_is_no_command(start: Start) -> None:
    shell = start()
    await shell.ready()
    for text in ("", "ech"):
        shell.type(text)
        await shell.until(lambda: shell.text.endswith(f"P> {text}"))  # noqa: B023
        await shell.waits()
        shell.type("\x03")
        await shell.ready()
    assert shell.commands == []
    assert await shell.run("true") == [("true", 0)]


@real_bash
@pytest.mark.asyncio
async def test_k108_a_here_document_is_one_command(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("cat <<E\rx;y\\z\rE\r")
    await shell.ready()
    assert shell.commands == [("cat <<E\nx;y\\z\nE", 0)]
    assert shell.commands[0].output == "x;y\\z\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k109_a_loop_over_lines_is_one_command(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("for i in 1 2\rdo echo $i\rdone\r")
    await shell.ready()
    assert shell.commands == [("for i in 1 2; do echo $i; done", 0)]
    assert shell.commands[0].output == "1\r\n2\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k111_k112_ignoreboth_shows_whole_lines_and_repeats(start: Start) -> None:
    shell = start("HISTCONTROL=ignoreboth")
    await shell.ready()
    assert await shell.run("echo a; echo b && false", "echo hi", "echo hi") == [
        ("echo a; echo b && false", 1),
        ("echo hi", 0),
        ("echo hi", 0),
    ]


@real_bash
@pytest.mark.asyncio
async def test_k113_a_line_that_the_history_hides_is_known_from_the_input(start: Start) -> None:
    shell = start("HISTCONTROL=ignoreboth")
    await shell.ready()
    assert await shell.run("ls", " echo secret") == [("ls", 0), (" echo secret", 0)]
    assert "secret" not in (await shell.run("history"))[0].output


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("control", ["erasedups", "ignoredups", "ignorespace:erasedups", "ignorespace"])
async def test_k117_other_history_controls(start: Start, control: str) -> None:
    shell = start(f"HISTCONTROL={control}")
    await shell.ready()
    lines = ["true", "echo a", "true", "true", " echo b", "echo a"]
    assert await shell.run(*lines) == [(line, 0) for line in lines]


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("readonly", ["", "readonly HISTTIMEFORMAT"])
async def test_k119_time_stamps_of_the_history_are_no_part_of_the_line(start: Start, readonly: str) -> None:
    shell = start(f'HISTTIMEFORMAT="%F %T  "\n{readonly}')
    await shell.ready()
    assert await shell.run("echo a; true") == [("echo a; true", 0)]
    assert "readonly" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k120_an_expansion_of_the_history_shows_what_runs(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert await shell.run("echo x1", "!!") == [("echo x1", 0), ("echo x1", 0)]
    assert shell.commands[1].output == "x1\r\n"
    assert "P> !!\r\n\x1b[?2004l\recho x1\r\n" in shell.loose


@real_bash
@pytest.mark.asyncio
async def test_k122_two_pasted_lines_are_two_commands(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("\x1b[200~echo p1\necho p2\x1b[201~\r")
    await shell.finished(2)
    await shell.ready()
    assert shell.commands == [("echo p1", 0), ("echo p2", 0)]
    assert [command.output for command in shell.commands] == ["p1\r\n", "p2\r\n"]


@real_bash
@pytest.mark.asyncio
async def test_k124_lines_typed_ahead_stay_apart(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("sleep 0.6\recho one\recho two; false\r")
    await shell.finished(3)
    assert shell.commands == [("sleep 0.6", 0), ("echo one", 0), ("echo two; false", 1)]
    assert shell.commands[1].output == "one\r\n"
    assert shell.commands[2].output == "two\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k126_output_without_a_newline_is_exact(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert (await shell.run("printf nonl"))[0].output == "nonl"


@real_bash
@pytest.mark.asyncio
async def test_k129_a_prompt_command_with_a_trailing_semicolon(start: Start) -> None:
    shell = start('PROMPT_COMMAND="history -a; true;"')
    await shell.ready()
    assert await shell.run("false") == [("false", 1)]
    assert "syntax error" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k130_the_users_prompt_commands_see_the_status_and_the_pipes(start: Start) -> None:
    shell = start("PROMPT_COMMAND=('' 'R=\"$? ${PIPESTATUS[*]}\"')")
    await shell.ready()
    assert await shell.run("false | true | false") == [("false | true | false", 1)]
    await shell.run("true | false")
    assert (await shell.run("echo $R"))[0].output == "1 0 1\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k130_each_prompt_command_sees_the_status(start: Start) -> None:
    shell = start('rec() { R+="[$? ${PIPESTATUS[*]}]"; }; PROMPT_COMMAND=(true rec)')
    await shell.ready()
    await shell.run("R=; false | true | false")
    assert "[1 1 0 1]" in (await shell.run("echo $R"))[0].output


@real_bash
@pytest.mark.asyncio
async def test_k132_a_prompt_command_that_is_replaced(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert await shell.run("PROMPT_COMMAND=true", "false", "true") == [("PROMPT_COMMAND=true", 0), ("false", 1), ("true", 0)]


@real_bash
@pytest.mark.asyncio
async def test_k135_a_prompt_command_that_may_not_be_changed(start: Start) -> None:
    shell = start("readonly PROMPT_COMMAND")
    await shell.ready()
    assert await shell.run("(exit 3)", "true") == [("(exit 3)", 3), ("true", 0)]
    assert "readonly" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k136_a_child_shell_inherits_nothing_that_fails(start: Start) -> None:
    shell = start("export PROMPT_COMMAND=true")
    await shell.ready()
    shell.type("bash --norc -i\r")
    await shell.until(lambda: shell.text.count("bash-") == 1)
    shell.type("\r")
    await shell.until(lambda: shell.text.count("bash-") == 2)
    shell.type("exit 5\r")
    await shell.ready()
    assert shell.commands == [("bash --norc -i", 5)]
    assert "not found" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k137_the_users_ps1_is_shown(start: Start) -> None:
    shell = start('PS1="[u]\\n"')
    await shell.ready()
    assert await shell.run("true") == [("true", 0)]
    assert "[u]\r\r\n" in shell.loose


@real_bash
@pytest.mark.asyncio
async def test_k139_a_debug_trap_stays_and_counts_as_without_us(start: Start) -> None:
    shell = start("trap 'n=$((n+1))' DEBUG")
    await shell.ready()
    await shell.run("n=0; for i in 1 2 3; do :; done; echo $n")
    assert shell.commands[0].output == "7\r\n"
    assert "n=$((n+1))" in (await shell.run("trap -p DEBUG"))[0].output
    await shell.run("n=0")
    assert int((await shell.run("echo $n"))[0].output) <= 3


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("where", ["rc", "typed"])
async def test_k141_unset_variables_may_be_errors(start: Start, where: str) -> None:
    shell = start("set -u" if where == "rc" else "")
    await shell.ready()
    assert (await shell.run("set -u", "echo ok"))[-1].output == "ok\r\n"
    assert "unbound" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k142_a_shell_that_ends_on_errors_survives_our_hooks(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert (await shell.run("set -e", "! true", "false && true", "true"))[1:] == [
        ("! true", 1),
        ("false && true", 1),
        ("true", 0),
    ]


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("option", ["-x", "-v", "-xv"])
async def test_k143_tracing_never_shows_the_nonce(start: Start, option: str) -> None:
    shell = start()
    await shell.ready()
    assert (await shell.run(f"set {option}", "true", "cd /"))[1:] == [("true", 0), ("cd /", 0)]
    assert shell.nonce not in shell.text
    assert "633" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k145_posix_mode(start: Start) -> None:
    shell = start("set -o posix")
    await shell.until(lambda: shell.prompts == 1 and shell.text.endswith("P> "))
    shell.type("(exit 3)\r")
    await shell.finished(1)
    assert shell.commands == [("(exit 3)", 3)]


@real_bash
@pytest.mark.asyncio
async def test_k147_aliases_of_our_words_do_not_matter(start: Start) -> None:
    names = "builtin local printf print history typeset declare set shopt unset return eval read case if while for"
    shell = start("".join(f"alias {name}='echo ALIAS-{name};'\n" for name in names.split()))
    await shell.ready()
    assert await shell.run("(exit 4)") == [("(exit 4)", 4)]
    assert "ALIAS" not in shell.text
    shell.type("local\r")
    await shell.ready()
    assert "ALIAS-local" in shell.commands[-1].output


@real_bash
@pytest.mark.asyncio
async def test_k147_functions_of_our_words_do_not_matter(start: Start) -> None:
    names = "local printf history declare set shopt unset return eval read"
    shell = start("".join(f"{name}() {{ echo FUNCTION-{name}; }}\n" for name in names.split()))
    await shell.ready()
    assert await shell.run("(exit 4)") == [("(exit 4)", 4)]
    assert "FUNCTION" not in shell.text


@real_bash
@pytest.mark.asyncio
async def test_k150_marks_go_to_the_terminal_whatever_the_output_is(start: Start, home: Path) -> None:
    shell = start()
    await shell.ready()
    commands = await shell.run("exec 3>&1 >FILE", "echo in", "exec >&3", "cat FILE")
    assert commands == [("exec 3>&1 >FILE", 0), ("echo in", 0), ("exec >&3", 0), ("cat FILE", 0)]
    assert (home / "FILE").read_text() == "in\n"


@real_bash
@pytest.mark.asyncio
async def test_k152_a_shell_in_the_shell_is_one_command(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("sh\r")
    await shell.until(lambda: len(shell.commands) == 1 and shell.commands[0].output != "")
    shell.type("echo in; false\r")
    await shell.until(lambda: "\nin\r\n" in shell.commands[0].output)
    shell.type("exit 5\r")
    await shell.ready()
    assert shell.commands == [("sh", 5)]


@real_bash
@pytest.mark.asyncio
async def test_k154_exit_is_a_command_without_a_code(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("exit 7\r")
    assert await shell.exit() == 7
    assert shell.commands == [("exit 7", None)]


@real_bash
@pytest.mark.asyncio
async def test_k156_ctrl_z_stops_and_kill_ends(start: Start) -> None:
    shell = start()
    await shell.ready()
    shell.type("sleep 30\r")
    await shell.runs("sleep")
    shell.type("\x1a")
    await shell.ready()
    assert await shell.run("kill %1") == [("kill %1", 0)]
    assert shell.commands[0] == ("sleep 30", 148)


@real_bash
@pytest.mark.asyncio
async def test_k158_a_rejected_line_is_a_command_that_failed(start: Start) -> None:
    shell = start()
    await shell.ready()
    assert await shell.run("echo )", "false") == [("echo )", 2), ("false", 1)]
    assert shell.commands[0].output == ""


@real_bash
@pytest.mark.asyncio
async def test_k166_any_folder_is_told_exactly(start: Start, home: Path) -> None:
    shell = start()
    await shell.ready()
    names = ["a b", "p%20q", "x;y", "ü", "new\nline", "back\\slash", "t\x01\x7f"]
    for number, name in enumerate(names):
        (home / name).mkdir()
        (home / f"l{number}").symlink_to(home / name)
    for number, name in enumerate(names):
        await shell.run(f"cd -P ~/l{number}")
        kind, uri = shell.events[-1]
        assert kind == "cwd"
        assert unquote(uri.removeprefix("file://")) == str(home / name)
        assert re.fullmatch(r"[!-~]+", uri)


@real_bash
@pytest.mark.asyncio
async def test_k167_the_folder_is_told_when_the_prompt_comes_back(start: Start) -> None:
    shell = start()
    await shell.ready()
    await shell.run("cd /usr && sleep 0.3")
    assert shell.events[-3:] == [("exec", "cd /usr && sleep 0.3"), ("fin", 0), ("cwd", "file:///usr")]


@real_bash
@pytest.mark.asyncio
async def test_k177_forged_marks_have_no_effect_and_are_gone(start: Start, home: Path) -> None:
    shell = start()
    await shell.ready()
    (home / "FILE").write_bytes(b"a\x1b]133;D;0\x07b\x1b]633;D;0\x07c\x1b]633;E;x\x07\x1b]633;C\x07d\n")
    assert await shell.run("cat FILE; false") == [("cat FILE; false", 1)]
    assert shell.commands[0].output == "abcd\r\n"


@real_bash
@pytest.mark.asyncio
async def test_k178_a_large_here_document_is_exact_and_fast(start: Start) -> None:
    shell = start("bind 'set enable-bracketed-paste on'")
    await shell.ready()
    body = "\n".join(f"line {number:05d} ; with \\ and ' and $x {'y' * 40}" for number in range(1000))
    line = f"cat >/dev/null <<'E'\n{body}\nE"
    assert len(line) > 70_000
    started = time.monotonic()
    shell.type(f"\x1b[200~{line}\x1b[201~\r")
    await shell.ready()
    took = time.monotonic() - started
    assert shell.commands == [(line, 0)]
    assert took < 2, took  # 0.5 s on an idle machine


@real_bash
@pytest.mark.asyncio
async def test_k179_nothing_of_ours_is_in_the_environment(start: Start, home: Path) -> None:
    own = {"ZDOTDIR": "/z", "ENV": "/e", "BASH_ENV": "/b", "XDG_DATA_DIRS": "/d", "PROMPT_COMMAND": "true", "a.b": "odd",
           "BASH_FUNC_fun%%": "() {  echo fun\n}"}  # fmt: skip
    shell = start(env=own)
    await shell.ready()
    await shell.run("env -0 >ENV; fun")
    assert shell.commands[0].output == "fun\r\n"
    child = dict(entry.split("=", 1) for entry in (home / "ENV").read_text().split("\0") if entry)
    expected = {**own, "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
    expected |= {"COLORTERM": "truecolor", "JUPYTER_AHP_TERMINAL": "ahp-terminal:/k", "PWD": str(home), "SHLVL": "1"}
    assert {name: value for name, value in child.items() if name not in ("_", "TMPDIR", "PROMPT_COMMAND")} == {
        name: value for name, value in expected.items() if name != "PROMPT_COMMAND"
    }
    if sys.platform == "linux":
        initial = Path(f"/proc/{shell.transport.pid}/environ").read_text()
        assert shell.nonce not in initial
        assert "__AHP" not in initial.upper()
        assert shell.nonce not in Path(f"/proc/{shell.transport.pid}/cmdline").read_text()


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("login", [True, False])
async def test_k180_a_login_shell_reads_the_first_profile_only(start: Start, home: Path, login: bool) -> None:
    (home / ".bash_profile").write_text("FIRST=1\n. ~/.bashrc\n")
    (home / ".profile").write_text("SECOND=1\n")
    shell = start("RC=1", login=login)
    await shell.ready()
    await shell.run('echo "${FIRST-}/${SECOND-}/${RC-}"')
    assert shell.commands[0].output == ("1//1\r\n" if login else "//1\r\n")


@real_bash
@pytest.mark.asyncio
async def test_k182_what_is_typed_before_the_shell_is_ready_is_one_command(start: Start) -> None:
    shell = start("sleep 1")
    shell.type("echo early\r")
    await shell.finished(1)
    assert shell.commands == [("echo early", 0)]
    assert shell.commands[0].output == "early\r\n"
    assert [event[0] for event in shell.events] == ["cwd", "avail", "exec", "fin"]


@real_bash
@pytest.mark.asyncio
async def test_k184_what_the_start_up_files_say_comes_before_the_detection(start: Start) -> None:
    shell = start("echo hello; printf '\\033]0;a title\\a'")
    await shell.ready()
    assert [event[0] for event in shell.events] == ["title", "cwd", "avail"]
    assert shell.events[0] == ("title", "a title")
    assert "hello\r\n" in shell.events[-1][1]


@real_bash
@pytest.mark.asyncio
async def test_k185_a_prompt_that_is_built_anew_each_time_is_left_alone(start: Start) -> None:
    rc = 'build() { local s=$?; PS1="top\\n$s> "; }; PROMPT_COMMAND=build'
    shell = start(rc)
    await shell.ready()
    await shell.run("false")
    await shell.until(lambda: shell.loose.endswith("top\r\r\n1> "))
    assert (await shell.run('printf %s "$PS1"'))[0].output == "top\\n1> "


@real_bash
@pytest.mark.asyncio
async def test_k188_a_second_load_changes_nothing(start: Start, home: Path) -> None:
    shell = start('cp "${BASH_SOURCE[1]}" ~/copy')
    await shell.ready()
    await shell.run(". ~/copy")
    assert await shell.run("true") == [("true", 0)]
    assert shell.events[-2:] == [("exec", "true"), ("fin", 0)]


@real_bash
@pytest.mark.asyncio
async def test_k189_without_a_place_for_its_file_a_plain_bash_starts(start: Start, tmp_path: Path) -> None:
    shell = start(parent=str(tmp_path / "missing"))
    await shell.until(lambda: "P> " in shell.text)
    shell.type("exit 3\r")
    assert await shell.exit() == 3
    assert shell.commands == []
    assert shell.events == []


@real_bash
@pytest.mark.asyncio
async def test_history_options_traps_and_prompt_are_those_of_a_shell_without_us(start: Start, home: Path, tmp_path: Path) -> None:
    probe = (
        '{ set +o; shopt; trap; printf \'%s\\n\' "$PS1" "${HISTCONTROL-unset}" "${HISTIGNORE-unset}" "$HISTFILE" "$-"; '
        "alias; stty -a; } >{}"
    )
    rc = "HISTCONTROL=ignoredups; trap 'echo bye' EXIT; alias ll='ls -l'; PS2='more> '"
    for name, options in (("with", {}), ("without", {"parent": str(tmp_path / "missing")})):
        shell = start(rc, **options)
        await shell.until(lambda: shell.text.endswith("P> "))  # noqa: B023
        shell.type(probe.replace("{}", name, 1).replace("} >{}", f"}} >{name}") + "\r")
        await shell.until(lambda: (home / name).exists() and shell.text.count("P> ") == 2)  # noqa: B023
        shell.type("exit\r")
        await shell.exit()
    assert (home / "with").read_text() == (home / "without").read_text()


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize(
    "rc",
    [
        "shopt -u promptvars",
        "set +o history",
        "HISTIGNORE='*'",
        "HISTSIZE=0",
        "HISTCONTROL=ignoredups; HISTSIZE=0",
        "HISTSIZE=2",
        "HISTCONTROL=ignoreboth; HISTSIZE=1",
    ],
)
async def test_lines_that_the_history_does_not_tell_are_known_from_the_input(start: Start, rc: str) -> None:
    shell = start(rc)
    await shell.ready()
    lines = ["true", "true", "echo a; false", " false", "sh -c 'exit 4'", "true"]
    assert await shell.run(*lines) == list(zip(lines, (0, 0, 1, 1, 4, 0), strict=True))


@real_bash
@pytest.mark.asyncio
@pytest.mark.parametrize("rc", ["shopt -u cmdhist", "shopt -s lithist"])
async def test_lines_of_one_command_are_joined_as_the_history_keeps_them(start: Start, rc: str) -> None:
    shell = start(rc)
    await shell.ready()
    shell.type("for i in 1 2\rdo echo $i\rdone\r")
    await shell.ready()
    assert shell.commands == [("for i in 1 2\ndo echo $i\ndone", 0)]


@pytest.mark.asyncio
@pytest.mark.skipif(shutil.which("dash") is None, reason="no dash")
async def test_k181_a_shell_without_integration_works_and_claims_nothing(start: Start) -> None:
    shell = start(shell="dash")
    await shell.until(lambda: shell.text != "")
    shell.type("printf '\\033]0;t\\007'; false\r")
    await shell.until(lambda: ("title", "t") in shell.events)
    shell.type("exit 4\r")
    assert await shell.exit() == 4
    assert shell.events == [("title", "t")]
    assert shell.commands == []
