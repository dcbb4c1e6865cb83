"""How a shell is started: its arguments, its environment and the private files that make it report its commands.

A plan is a value (`LaunchSpec`); only `PrivateFiles` touches the disk. A shell that cannot be told apart from a plain one
starts as a plain one, with the reason. The nonce travels in a private file and nowhere else: a process's first environment
and its arguments stay readable for others.

Source: shell integration, 4 (trust), 6 (injection) and 7 (command line).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources

__all__ = ["PENDING", "LaunchSpec", "PrivateFiles", "UnknownShell", "child_environment", "launch_spec"]

PENDING = "pending"

# Stands for the private folder in the arguments, until it is made. No argument can hold a NUL of its own.
_FOLDER = "\0"

# Names that are looked for on PATH besides what the system lists as shells; sh last.
_SHELLS = ("bash", "zsh", "fish", "dash", "ksh", "mksh", "tcsh", "nu", "xonsh", "elvish", "pwsh", "sh")
_TAKE_L_FOR_LOGIN = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "nu", "rbash", "sh", "tcsh", "yash", "zsh"})

# PS0 came with it; without PS0 nothing tells where a command's output begins.
_FIRST_BASH = (4, 4)


class UnknownShell(ValueError):
    """There is no such shell here; the message names those there are."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A plan to start a shell.

    Attributes:
        shell: the name or the path it was chosen by.
        login: whether it reads what a login shell reads.
        argv: its path and arguments.
        plain_argv: the same without integration.
        tracking: ``"pending"`` until its integration speaks, or the reason why its commands are not tracked.
        env: additions to its environment.
        files: what it needs in a private folder; content by name.
    """

    shell: str
    login: bool
    argv: tuple[str, ...]
    plain_argv: tuple[str, ...]
    tracking: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def launch_spec(shell: str | None, *, login: bool, nonce: str, environ: Mapping[str, str] = os.environ) -> LaunchSpec:
    """Plan how to start a shell. Any thread.

    Args:
        shell: a name or a path; None is the user's own (SHELL), else bash, else sh.
        login: read what a login shell reads.
        nonce: 32 lower-case hex digits, by which the shell's marks are known.
        environ: where PATH and SHELL are looked up.

    Raises:
        UnknownShell: there is none of this name or path.
    """
    chosen = _default_shell(environ) if shell is None else shell
    path = _find(chosen, environ)
    if path is None:
        there = ", ".join(_shells_here(environ)) or "none"
        raise UnknownShell(f"There is no shell {chosen!r} here. There are: {there}.")
    name = os.path.basename(path)
    plain = (path, "-l") if login and name in _TAKE_L_FOR_LOGIN else (path,)
    why_not = f"commands are not tracked in {name} yet"
    if name == "bash":
        version = _bash_version(path, os.stat(path).st_mtime_ns)
        if version is None or version >= _FIRST_BASH:
            preamble = f"__AHP_NONCE={nonce}\n" + "__AHP_LOGIN=1\n" * login
            return LaunchSpec(
                shell=chosen,
                login=login,
                # Also for a login shell: bash -l reads no file of ours, so the file reads what a login shell reads.
                argv=(path, "--rcfile", f"{_FOLDER}/bashrc", "-i"),
                plain_argv=plain,
                tracking=PENDING,
                files={"bashrc": preamble + _script("bash.sh")},
            )
        why_not = "commands are not tracked in bash {}.{}: it takes 4.4 or newer".format(*version)
    return LaunchSpec(shell=chosen, login=login, argv=plain, plain_argv=plain, tracking=why_not)


class PrivateFiles:
    """The private folder of one terminal: for its user only, gone once the shell has read it. Any thread."""

    def __init__(self, folder: str) -> None:
        """Take over a folder that was made for this."""
        self._folder = folder

    @classmethod
    def write(cls, spec: LaunchSpec, *, parent: str | None = None) -> tuple[PrivateFiles | None, LaunchSpec]:
        """Write the files of a plan.

        Args:
            spec: the plan.
            parent: where to make the folder; None is the user's runtime folder (XDG_RUNTIME_DIR), else the temporary one.

        Returns:
            The files, None where there are none, and the plan to go by: with the folder filled in or, where the files could
            not be written, the plain shell with the reason.
        """
        if not spec.files:
            return None, spec
        folder = None
        try:
            folder = tempfile.mkdtemp(prefix="jupyter-ahp-", dir=parent or _runtime_folder())  # 0700
            for name, text in spec.files.items():
                with open(os.path.join(folder, name), "x", encoding="utf-8", newline="\n", opener=_for_its_user) as file:
                    file.write(text)
        except OSError as error:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            reason = f"commands are not tracked: its start-up file could not be written ({error.strerror})"
            return None, replace(spec, argv=spec.plain_argv, env={}, files={}, tracking=reason)
        return cls(folder), replace(
            spec,
            argv=tuple(argument.replace(_FOLDER, folder) for argument in spec.argv),
            env={name: value.replace(_FOLDER, folder) for name, value in spec.env.items()},
        )

    def remove(self) -> None:
        """Remove the folder. Idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)


# --- which shell ----------------------------------------------------------------------------------------------------------


def _default_shell(environ: Mapping[str, str]) -> str:
    own = environ.get("SHELL", "")
    if os.path.isabs(own) and os.path.basename(own) in _SHELLS and _is_program(own):
        return own
    return "bash" if _find("bash", environ) else "sh"


def _find(shell: str, environ: Mapping[str, str]) -> str | None:
    """The path of a shell; only of what the system lists as one or what has a shell's name."""
    if os.sep in shell:
        is_shell = os.path.basename(shell) in _SHELLS or shell in _listed_shells()
        return shell if os.path.isabs(shell) and is_shell and _is_program(shell) else None
    listed = [path for path in _listed_shells() if os.path.basename(path) == shell and _is_program(path)]
    if shell not in _SHELLS and not listed:
        return None
    return shutil.which(shell, path=environ.get("PATH", os.defpath)) or next(iter(listed), None)


def _shells_here(environ: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*_SHELLS, *(os.path.basename(path) for path in _listed_shells())])
    return [name for name in names if _find(name, environ)]


def _listed_shells() -> list[str]:
    try:
        with open("/etc/shells", encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.startswith("/")]
    except OSError:
        return []


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


@functools.lru_cache
def _bash_version(path: str, changed_ns: int) -> tuple[int, int] | None:
    """Major and minor version of a bash, asked once (2 ms) until its file changes; None if it does not say."""
    try:
        done = subprocess.run(
            [path, "--norc", "--noprofile", "-c", 'echo "${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"'],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=2,
            check=True,
        )
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


@functools.cache
def _script(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def _for_its_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _runtime_folder() -> str | None:
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK) else None


# --- the environment ------------------------------------------------------------------------------------------------------

# What belongs to the server, not to its user.
_SECRET = re.compile(
    r"JPY_.*"  # a kernel's or a hub's own plumbing, tokens among it
    r"|JUPYTER_AHP_(?:URL|TOKEN|KERNEL_.*)"  # the way to our own socket
    r"|JUPYTER_SERVER_.*"  # of a server outside
    r"|(?:JUPYTER|CONFIGPROXY).*(?:TOKEN|SECRET|PASSWORD|COOKIE|KEY).*"  # JUPYTER_TOKEN, JUPYTERHUB_API_TOKEN, ..._CRYPT_KEY
)

# What describes the terminal or the shell that the server was started from: programs would take ours for that one.
_OUTER = re.compile(
    r"COLUMNS|LINES|SHLVL|_|OLDPWD|WINDOWID|TERMCAP|COLORFGBG|INSIDE_EMACS|STY|WT_SESSION|WT_PROFILE_ID"
    r"|(?:TERM_PROGRAM|TERM_SESSION|SHELL_SESSION|LC_TERMINAL|TMUX|VTE|VSCODE|KITTY|ITERM|WEZTERM|ALACRITTY|KONSOLE|GNOME_TERMINAL"
    r"|GHOSTTY)(?:_.*)?"
)

# What ipykernel sets for the output of cells, so that it has no place in a terminal started from a kernel.
_KERNELS_OWN = {"CLICOLOR": "1", "CLICOLOR_FORCE": "1", "FORCE_COLOR": "1", "GIT_PAGER": "cat", "PAGER": "cat"}


def child_environment(parent: Mapping[str, str], *, uri: str) -> dict[str, str]:
    """The environment of a terminal's shell: the user's, without what is the server's. Any thread.

    Left out are the server's secrets, what tells of the terminal that the server was started from, and what ipykernel sets
    for cells. Added are TERM and COLORTERM, for what xterm.js can do, and JUPYTER_AHP_TERMINAL.

    Args:
        parent: this process's environment.
        uri: the terminal's URI.
    """
    env = {name: value for name, value in parent.items() if not (_SECRET.fullmatch(name) or _OUTER.fullmatch(name))}
    if "JPY_PARENT_PID" in parent:
        env = {name: value for name, value in env.items() if _KERNELS_OWN.get(name) != value}
        if "inline" in env.get("MPLBACKEND", ""):
            del env["MPLBACKEND"]
    return env | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "JUPYTER_AHP_TERMINAL": uri}
