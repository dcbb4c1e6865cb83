"""A host in this process with a real bash, over the in-memory link."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from jupyter_ext.client.handles import CommandError
from jupyter_ext.client.terminal import Terminal, terminals

pytestmark = [
    pytest.mark.usefixtures("no_server"),
    pytest.mark.skipif(sys.platform == "win32", reason="no terminals on Windows"),
]


@pytest.fixture
def bash(private_env: dict[str, str], require_shell: Callable[[str], str]) -> Iterator[Terminal]:
    require_shell("bash")
    with Terminal("t", shell="bash", host="embedded") as terminal:
        yield terminal


def running(text: str) -> bool:
    def line(process: psutil.Process) -> str:
        try:
            return " ".join(process.cmdline())
        except psutil.Error:
            return ""

    return any(line(process) == text for process in psutil.process_iter())


def test_a_shell_keeps_its_state_from_run_to_run(bash, tmp_path):
    bash.run(f"cd '{tmp_path}'; X=1; f() {{ echo \"f $1\"; }}")
    result = bash.run("pwd; echo $X; f 2")
    assert result.output == f"{tmp_path}\n1\nf 2\n"
    assert result.bundle.cwd == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "code"), [("true", 0), ("false", 1), ("(exit 42)", 42), ("sh -c 'kill -9 $$'", 137), ("if", None)]
)
def test_exit_codes_are_the_commands_own(bash, text, code):
    if code is None:
        with pytest.raises(CommandError, match="incomplete"):
            bash.run(text)
        assert bash.run("echo on").output == "on\n"
    else:
        assert bash.run(text).exit_code == code


def test_the_duration_is_the_commands(bash):
    result = bash.run("sleep 0.3")
    assert result.duration == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("cat <<'END'\n\"quoted\" $(not run)\nEND", '"quoted" $(not run)\n'),
        ("for i in 1 2 3\ndo\n  echo $i\ndone", "1\n2\n3\n"),
        ("echo one \\\n  two", "one two\n"),
        ("echo a\r\necho b\r\n", "a\nb\n"),
        ("# first\necho x # then", "x\n"),
        ("printf 'é中😀'", "é中😀"),
        ("printf x", "x"),
    ],
)
def test_a_text_runs_as_in_a_script(bash, text, output):
    assert bash.run(text).output == output


def test_a_time_limit_stops_the_job_and_leaves_the_shell(bash):
    bash.run("X=1")
    result = bash.run("for i in 1 2 3 4 5 6; do echo $i; sleep 0.4; done", timeout=1.0)
    assert result.timed_out
    assert result.output.startswith("1\n2\n3\n")
    assert "6" not in result.output
    assert bash.run("echo $X").output == "1\n"


def test_ctrl_c_stops_the_job_and_leaves_the_shell(bash, interrupt_after):
    bash.run("X=1")
    interrupt_after(0.5)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bash.run("sleep 98700")
    assert time.monotonic() - started < 3
    assert not running("sleep 98700")
    assert bash.run("echo $X").output == "1\n"


def test_what_outlives_an_interrupt_is_named_and_can_be_ended(bash, interrupt_after, wait_until):
    handle = bash.start("sh -c 'sleep 98701 & sleep 98702 & wait'")  # a shell's background children ignore an interrupt
    wait_until(lambda: running("sleep 98702"))
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        handle.finish()
    assert {survivor.name for survivor in handle.result.survivors} == {"sleep"}
    assert "still running: sleep (pid " in handle.result.still_running
    bash.run(handle.result.still_running.split("`")[1])
    wait_until(lambda: not running("sleep 98701") and not running("sleep 98702"))


def test_a_background_handle_is_killed_with_its_children(bash, wait_until):
    handle = bash.start("sh -c 'sleep 98703 & sleep 98704; wait'")
    wait_until(lambda: running("sleep 98704"))
    handle.kill()
    assert (handle.end, handle.exit_code) == ("killed", 137)
    wait_until(lambda: not running("sleep 98703") and not running("sleep 98704"))


def test_a_background_result_is_there_when_it_is_waited_for(bash):
    handle = bash.start("sleep 0.2; echo log; (exit 9)")
    assert handle.poll() is None
    result = handle.wait(10)
    assert (result.exit_code, result.output) == (9, "log\n")


def test_a_program_that_asks_is_answered(bash, wait_until):
    handle = bash.start("read -p 'Name? ' n; echo \"hi $n\"")
    wait_until(lambda: handle.output == "Name? ")
    bash.sendline("Ada")
    assert handle.wait(10).output == "Name? Ada\nhi Ada\n"


def test_the_size_is_right_from_the_first_command(private_env):
    with Terminal("wide", shell="bash", cols=132, rows=40, host="embedded") as terminal:
        assert terminal.run("stty size; tput cols").output == "40 132\n132\n"
        terminal.resize(cols=90, rows=20)
        assert terminal.run("stty size").output == "20 90\n"


def test_environment_and_folder_are_those_asked_for(private_env, tmp_path):
    folder = tmp_path / "my data" / "été"
    folder.mkdir(parents=True)
    with Terminal("env", shell="bash", cwd=folder, env={"A": "1 2", "HOME": None}, host="embedded") as terminal:
        assert terminal.run('echo "$A|${HOME-none}"; pwd').output == f"1 2|none\n{folder}\n"
        assert terminal.run("echo $JUPYTER_AHP_TERMINAL").output == "ahp-terminal:/env\n"
    with pytest.raises(ValueError, match="cwd is no folder"):
        Terminal("nowhere", cwd=tmp_path / "nowhere", host="embedded")


def test_an_unknown_shell_is_refused_by_name(private_env):
    with pytest.raises(ValueError, match="nosuch"):
        Terminal("x", shell="nosuch", host="embedded")


def test_a_shell_that_ends_is_told_and_its_name_can_be_taken_again(private_env):
    terminal = Terminal("gone", shell="bash", host="embedded")
    result = terminal.run("exit 3")
    assert (result.exit_code, result.end, result.shell_exit_code) == (None, "exited", 3)
    with pytest.raises(RuntimeError, match="has ended with exit code 3"):
        terminal.run("echo no")
    Terminal("gone", host="embedded").close()
    with Terminal("gone", shell="bash", host="embedded") as fresh:
        assert fresh.run("echo yes").output == "yes\n"


def test_the_terminals_of_the_host_are_listed(bash):
    (entry,) = terminals("embedded")
    assert (entry.name, entry.has_ended) == ("t", False)
    assert entry.shell.endswith("bash")


def test_quick_commands_are_quick(bash):
    durations = []
    for number in range(50):
        started = time.monotonic()
        assert bash.run(f"echo {number}").output == f"{number}\n"
        durations.append(time.monotonic() - started)
    assert sorted(durations)[25] < 0.1


def test_a_noisy_neighbour_does_not_block(bash, wait_until):
    with Terminal("noisy", shell="bash", host="embedded") as noisy:
        flood = noisy.start("while :; do echo spam; done")
        wait_until(lambda: flood.truncated)
        for _ in range(5):
            started = time.monotonic()
            assert bash.run("echo hi").output == "hi\n"
            assert time.monotonic() - started < 1
        flood.interrupt()
        assert flood.wait(10).exit_code == 130


SCRIPT = """
from jupyter_ext import Terminal
r = Terminal('t').run('printf x; exit_code() { return 3; }; exit_code')
print(r.exit_code, repr(r.output))
"""


@pytest.mark.parametrize("script", [SCRIPT, SCRIPT + "Terminal('t').start('sleep 98705')"])
def test_a_script_ends_promptly_and_leaves_nothing(script: str, private_env: dict[str, str], wait_until: Any):
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("3 'x'\n", "", 0)
    assert time.monotonic() - started < 10
    wait_until(lambda: not running("sleep 98705"))


def test_a_forked_child_has_a_host_of_its_own(bash):
    script = """
import os
from jupyter_ext import Terminal
t = Terminal('t', host='embedded')
pid = t.run('echo $$').output
if os.fork() == 0:
    print(Terminal('t', host='embedded').run('echo $$').output != pid, flush=True)
    os._exit(0)
os.wait()
print(t.run('echo $$').output == pid)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_the_kernels_secrets_are_not_in_the_shell(private_env, monkeypatch):
    monkeypatch.setenv("JUPYTER_AHP_TOKEN", "tok-secret")
    with Terminal("s", shell="bash", host="embedded") as terminal:
        assert "tok-secret" not in terminal.run("env").output
    assert os.environ["JUPYTER_AHP_TOKEN"] == "tok-secret"
