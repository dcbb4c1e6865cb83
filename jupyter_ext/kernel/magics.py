"""%terminal and %%terminal: shell text in a cell, run in a terminal that keeps its state from cell to cell."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import weakref
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

from ..client.discovery import take_kernel_server
from ..client.handles import CommandHandle, CommandResult, raise_failure
from ..client.terminal import Terminal, view_slow_runs
from .display import mimebundle
from .widgets import SHOW_AFTER_S, Parts

__all__ = ["Options", "TerminalMagics", "expand", "load", "parse_options"]

_EXPRESSION = re.compile(r"\{\{(.+?)\}\}")


def expand(text: str, names: dict[str, Any]) -> str:
    """Replace each ``{{expression}}`` by its value as text; nothing else is replaced.

    Braces that hold no Python name, attribute, item or call stay as they are: templates of other programs look alike.

    Raises:
        UsageError: a name that there is not, or an expression that fails.
    """

    def value(match: re.Match[str]) -> str:
        source = match[1].strip()
        try:
            tree = ast.parse(source, mode="eval")
        except SyntaxError:
            return match[0]
        if not isinstance(tree.body, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            return match[0]
        try:
            return str(eval(compile(tree, "<terminal>", "eval"), names))  # the user's own expression, in the user's names
        except NameError as error:
            raise UsageError(f"{match[0]}: {error}") from None
        except Exception as error:
            raise UsageError(f"{match[0]}: {type(error).__name__}: {error}") from None

    return _EXPRESSION.sub(value, text)


@dataclass(frozen=True)
class Options:
    """What a magic's line asks for."""

    name: str | None = None
    bg: bool = False
    proc: str | None = None
    out: str | None = None
    no_raise_error: bool = False
    timeout: float | None = None
    cwd: str | None = None
    shell: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage()}")


def _parser() -> _Parser:
    parser = _Parser(prog="%%terminal", add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--bg", action="store_true")
    parser.add_argument("--proc", metavar="VAR")
    parser.add_argument("--out", metavar="VAR")
    parser.add_argument("--no-raise-error", action="store_true")
    parser.add_argument("--timeout", type=float, metavar="S")
    parser.add_argument("--cwd", metavar="DIR")
    parser.add_argument("--shell", metavar="NAME")
    return parser


def parse_options(line: str) -> Options:
    """Read the line of ``%%terminal``.

    Raises:
        UsageError: an option that there is not, or two that do not go together.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%terminal {line}: {error}") from None
    options = Options(**vars(_parser().parse_args(words)))
    for variable in (options.proc, options.out):
        if variable is not None and not variable.isidentifier():
            raise UsageError(f"not a name of a Python variable: {variable!r}")
    if options.bg and options.timeout is not None:
        raise UsageError("--timeout is for a command that is waited for: leave --bg out")
    if options.bg and options.out:
        raise UsageError("--out is for a command that is waited for: with --bg use --proc")
    return options


class TerminalMagics:
    """The magics. The thread that runs the cell."""

    def __init__(self, shell: InteractiveShell, parts: Parts) -> None:
        self._names: dict[str, Any] = shell.user_ns
        self._parts = parts

    @no_var_expand
    def terminal_line(self, line: str) -> None:
        """Run one line of shell text in the notebook's terminal.

        %terminal COMMAND

        Only {{name}} is replaced, by the text of a Python value. A non-zero exit code is an error, CommandError.
        """
        if not line.strip():
            raise UsageError("%terminal COMMAND runs a command; %%terminal runs a whole cell")
        self._run(expand(line, self._names), Options())

    @no_var_expand
    def terminal_cell(self, line: str, cell: str) -> None:
        """Run a cell of shell text in a terminal, which keeps its state from cell to cell.

        %%terminal [name] [--bg] [--proc VAR] [--out VAR] [--no-raise-error] [--timeout S] [--cwd DIR] [--shell NAME]

        name: the terminal's; the notebook's own by default.
        --bg: go on at once; the part goes on by itself.
        --proc VAR: put the CommandHandle into this Python variable.
        --out VAR: put the CommandResult into this Python variable.
        --no-raise-error: let a non-zero exit code be no error.
        --timeout S: stop the command after so many seconds.
        --cwd DIR, --shell NAME: the folder that a new terminal starts in, and its shell.

        Only {{name}} is replaced, by the text of a Python value. A non-zero exit code is an error, CommandError.
        """
        options = parse_options(expand(line, self._names))
        self._run(expand(cell, self._names).rstrip("\n"), options)

    def _run(self, text: str, options: Options) -> None:
        try:
            terminal = Terminal(options.name, shell=options.shell, cwd=options.cwd)
            _check_folder(terminal, options.cwd)
            handle = terminal.start(text)
            if options.proc:
                self._names[options.proc] = handle
            try:
                result = self._show(handle, options) if self._parts.is_kernel else self._print(handle, options)
            except KeyboardInterrupt as error:
                stopped = f"KeyboardInterrupt: {handle.result.headline}: stopped{handle.result.still_running}"
                error._render_traceback_ = lambda: [stopped]  # type: ignore[attr-defined]  # IPython asks for it
                raise
        except _REFUSALS as error:
            # What the host or the client refused, without a traceback of our own lines.
            raise UsageError(str(error)) from None
        if result is not None and not options.no_raise_error:
            raise_failure(result)

    def _show(self, handle: CommandHandle, options: Options) -> CommandResult | None:
        part = self._parts.add(handle, is_waited_for=not options.bg)
        if options.bg:
            part.show()
            return None
        try:
            if not part.has_page:
                part.show()
            return handle.finish(options.timeout, slow_s=SHOW_AFTER_S, on_slow=lambda handle: part.show())
        finally:
            part.finish()
            self._keep(handle, options)

    def _print(self, handle: CommandHandle, options: Options) -> CommandResult | None:
        if options.bg:
            return None
        try:
            return handle.finish(options.timeout)
        finally:
            print(handle.output, end="")
            self._keep(handle, options)

    def _keep(self, handle: CommandHandle, options: Options) -> None:
        if options.out:
            self._names[options.out] = handle.result


def _check_folder(terminal: Terminal, wanted: str | None) -> None:
    """Refuse ``--cwd`` for a terminal that is somewhere else: its commands would run in another folder than the line says."""
    cwd = terminal.cwd
    if wanted is None or terminal.is_new or cwd is None:
        return
    if os.path.realpath(os.path.expanduser(wanted)) != os.path.realpath(cwd):
        raise ValueError(f"--cwd is where a new terminal starts, and {terminal.name!r} is in {cwd} already: use cd in the cell")


_REFUSALS = (ValueError, LookupError, PermissionError, RuntimeError, ConnectionError)

_loaded: weakref.WeakKeyDictionary[InteractiveShell, Parts] = weakref.WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Register the magics and what shows results. The shell's main thread; may be repeated."""
    take_kernel_server()
    if shell in _loaded:
        return
    parts = _loaded[shell] = Parts(shell)
    parts.register()
    magics = TerminalMagics(shell, parts)
    shell.magics_manager.register_function(magics.terminal_line, "line", "terminal")
    shell.magics_manager.register_function(magics.terminal_cell, "cell", "terminal")
    assert shell.display_formatter is not None
    bundles = shell.display_formatter.mimebundle_formatter
    bundles.for_type(CommandResult, lambda result, include=None, exclude=None: _result_bundle(result))
    if parts.is_kernel:
        view_slow_runs(lambda handle: parts.add(handle, is_waited_for=False).show())


def _result_bundle(result: CommandResult) -> dict[str, Any]:
    return {"text/plain": repr(result)} if result.is_shown else mimebundle(result.bundle)
