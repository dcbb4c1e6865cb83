"""The magics' line, what is replaced in a cell, and a plain IPython; notebooks are in test_notebook."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ext.client.terminal import view_slow_runs
from jupyter_ext.kernel.magics import Options, TerminalMagics, expand, load, parse_options
from jupyter_ext.kernel.widgets import Parts

NAMES: dict[str, Any] = {"name": "my file", "d": {"k": [1, 2]}, "f": lambda: "called"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo '{{name}}' {{ d['k'][1] }} {{f()}} {{name.upper()}}", "echo 'my file' 2 called MY FILE"),
        ("{name} $name ${name} {{}} {{ }}", "{name} $name ${name} {{}} {{ }}"),
        ("docker ps --format '{{.Names}} {{json .}}'", "docker ps --format '{{.Names}} {{json .}}'"),
        ("echo {{a,b},{c,d}} {{1..3}} {{'x'}}", "echo {{a,b},{c,d}} {{1..3}} {{'x'}}"),
    ],
)
def test_only_names_in_double_braces_are_replaced(text, expected):
    assert expand(text, NAMES) == expected


@pytest.mark.parametrize(("text", "problem"), [("{{nosuch}}", "'nosuch' is not defined"), ("{{d['x']}}", "KeyError: 'x'")])
def test_a_value_that_there_is_not_is_a_usage_error(text, problem):
    with pytest.raises(UsageError, match=problem):
        expand(f"echo {text}", NAMES)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("", Options()),
        ("build", Options(name="build")),
        ("'my build' --bg --proc h", Options(name="my build", bg=True, proc="h")),
        ("--out r --no-raise-error --timeout 2.5", Options(out="r", no_raise_error=True, timeout=2.5)),
        ("b --cwd '/a b' --shell fish", Options(name="b", cwd="/a b", shell="fish")),
    ],
)
def test_the_line_says_what_is_asked_for(line, options):
    assert parse_options(line) == options


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("a b", "unrecognized arguments: b"),
        ("--timeout soon", "invalid float"),
        ("--proc 1x", "not a name of a Python variable: '1x'"),
        ("--bg --timeout 1", "leave --bg out"),
        ("--bg --out r", "with --bg use --proc"),
        ("'open", "No closing quotation"),
    ],
)
def test_a_wrong_line_is_a_usage_error(line, problem):
    with pytest.raises(UsageError, match=problem):
        parse_options(line)


def test_loading_twice_registers_once():
    shell = InteractiveShell()
    load(shell)
    magic = shell.find_cell_magic("terminal")
    load(shell)
    assert shell.find_cell_magic("terminal") == magic
    assert shell.find_line_magic("terminal") is not None


def test_an_empty_line_magic_says_how_it_is_used():
    shell = InteractiveShell()
    with pytest.raises(UsageError, match="%%terminal runs a whole cell"):
        TerminalMagics(shell, Parts(shell)).terminal_line("  ")


def test_in_a_plain_ipython_the_output_is_printed_and_a_failure_is_short(private_env):
    script = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("load_ext", "jupyter_ext")
shell.run_cell("%%terminal t --out r\\nprintf 'a\\\\nb\\\\n'")
shell.run_cell("print(r.exit_code, repr(r))")
shell.run_cell("%%terminal t --bg --proc h\\necho late")
shell.run_cell("print(h.wait(20).output)")
result = shell.run_cell("%terminal false")
print(result.success, type(result.error_in_exec).__name__)
result = shell.run_cell("%%terminal --shell nosuch x\\ntrue")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["a", "b"]
    assert lines[2].startswith("0 CommandResult(")
    assert "late" in lines
    assert "CommandError: false: exit code 1" in done.stdout
    assert "False CommandError" in lines
    assert "Traceback" not in done.stdout
    assert "nosuch" in done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _no_viewer():
    yield
    view_slow_runs(None)
