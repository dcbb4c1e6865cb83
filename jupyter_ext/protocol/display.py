"""The saved forms: what a command leaves in a notebook, with its version.

`CommandBundle` is the value of the MIME type `COMMAND_MIME` in a cell's output. It holds resolved lines, not a terminal's
stream: no escape byte is in it, and it needs no emulator to be shown.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .terminal import Uri, Wire

__all__ = ["COMMAND_MIME", "CommandBundle", "SavedCommand", "SavedOutput", "StyledText", "TextStyle"]

COMMAND_MIME = "application/vnd.jupyter-ahp.command+json"

Color = Annotated[str, Meta(description='"0" to "15" for the theme\'s sixteen colours (8 to 15 bright), else "#rrggbb".')]


class TextStyle(Wire, frozen=True):
    """How text looks; an absent member is the default."""

    fg: Color | None = None
    bg: Color | None = None
    bold: bool | None = None
    dim: bool | None = None
    italic: bool | None = None
    underline: bool | None = None
    blink: bool | None = None
    inverse: bool | None = None
    hidden: bool | None = None
    strike: bool | None = None
    href: Annotated[str | None, Meta(description="A link's address: http, https or mailto only.")] = None


class StyledText(Wire, frozen=True):
    """A run of text in one style. No control characters are in it."""

    text: str
    style: TextStyle | None = None


class SavedOutput(Wire, frozen=True):
    """Resolved output: the first lines, then those left out, then the last lines.

    A wrapped line is one line here.
    """

    head: tuple[tuple[StyledText, ...], ...]
    tail: Annotated[tuple[tuple[StyledText, ...], ...], Meta(description="The last lines; empty where nothing was left out.")]
    omitted_lines: Annotated[int, Meta(description="Lines between head and tail that are not kept.")]
    omitted_bytes: Annotated[int, Meta(description="Their size in UTF-8 bytes.")]


class SavedCommand(Wire, frozen=True):
    """One command with its resolved output."""

    command_id: str
    command_line: str
    output: SavedOutput
    timestamp: Annotated[int, Meta(description="Unix time in ms at which it started; 0 where unknown.")]
    is_complete: bool
    exit_code: int | None = None
    duration_ms: int | None = None
    end: Annotated[
        str | None,
        Meta(description='Why it ended, where that is not its own end: "timeout", "interrupted", "killed", "lost".'),
    ] = None


class CommandBundle(Wire, frozen=True):
    """What one run (a cell, or one `t.run`) leaves: its commands in order."""

    version: Annotated[int, Meta(description="1. A reader shows a newer one by its text/html.")]
    terminal: Uri
    title: Annotated[str, Meta(description="The terminal's name.")]
    commands: tuple[SavedCommand, ...]
    cwd: Annotated[str | None, Meta(description="The folder it ran in, as a path.")] = None
    run_id: str | None = None
