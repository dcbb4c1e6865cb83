"""The forms in which a run's commands stay in a notebook: our own JSON, HTML for everybody else, plain text.

The HTML needs no style sheet, no script and nothing from outside; where a page strips its styles it still reads as command,
outcome and output. Every function is for any thread.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from ..core.styled_lines import LINK, left_out
from ..protocol.display import COMMAND_MIME, CommandBundle, SavedCommand, SavedOutput, StyledText, TextStyle
from ..protocol.messages import to_builtins

__all__ = ["command_html", "command_text", "duration_text", "mimebundle", "outcome_text"]

_ENDS = {"timeout": "timed out", "interrupted": "interrupted", "killed": "killed", "lost": "connection lost"}

_GREEN, _RED, _GREY = "#1a7f37", "#cf222e", "#656d76"  # white text on each has a contrast of at least 4.5

# On the page's own background, light or dark: middle tones, with a contrast of about 3 to 6 on both.
_ON_PAGE = (
    *("#6e6e6e", "#c9453d", "#3d8f3d", "#a27a1d", "#4a7fd1", "#a65fb5", "#2b8a91", "#7d7d7d"),
    *("#808080", "#e0524a", "#479f47", "#b0851f", "#5b8fe0", "#b56fc4", "#32979e", "inherit"),
)
# On a background of its own the colours are what they say.
_EXACT = (
    *("#000000", "#b3261e", "#1e7d1e", "#8f6a00", "#1f5fbf", "#8e3f9f", "#0f7279", "#c8c8c8"),
    *("#666666", "#e5534b", "#57ab5a", "#c69026", "#539bf5", "#c27bd1", "#39c5cf", "#ffffff"),
)
_HEX = re.compile(r"#[0-9a-fA-F]{6}")

_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;margin:0 0 .5em 0;overflow:hidden"
_PRE = (
    "margin:0;padding:.35em .7em;border:0;background:transparent;color:inherit;font-family:monospace;line-height:1.35;"
    "white-space:pre-wrap;overflow-wrap:anywhere"
)
_HEADER = f"{_PRE};background:rgba(128,128,128,.14)"
_BADGE = "float:right;margin-left:1em;padding:0 .6em;border-radius:.7em;color:#ffffff;font-weight:normal;background:"


def mimebundle(bundle: CommandBundle) -> dict[str, Any]:
    """All forms of a bundle by MIME type, as a display message carries them."""
    return {COMMAND_MIME: to_builtins(bundle), "text/html": command_html(bundle), "text/plain": command_text(bundle)}


def duration_text(duration_ms: int) -> str:
    """A duration for people: ``12 ms``, ``1.2 s``, ``2 min 5 s``, ``1 h 2 min``."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 59_950:
        tenths = (duration_ms + 50) // 100
        return f"{tenths // 10}.{tenths % 10} s"
    seconds = (duration_ms + 500) // 1000
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds // 60 % 60} min"


def outcome_text(command: SavedCommand) -> str:
    """How a command ended: ``exit 0 · 1.2 s``, ``timed out · exit 137 (KILL) · 3.0 s``, ``running…``."""
    return " · ".join(_outcome(command))


def _outcome(command: SavedCommand) -> Iterator[str]:
    if command.end is not None:
        yield _ENDS.get(command.end, command.end)
    elif not command.is_complete:
        yield "running…"
        return
    if command.exit_code is not None:
        yield f"exit {command.exit_code}{_signal_text(command.exit_code)}"
    elif command.end is None:
        yield "exit unknown"
    if command.duration_ms is not None:
        yield duration_text(command.duration_ms)


def _signal_text(exit_code: int) -> str:
    try:
        return f" ({signal.Signals(exit_code - 128).name.removeprefix('SIG')})"
    except ValueError:
        return ""


# --- plain text -----------------------------------------------------------------------------------------------------------


def command_text(bundle: CommandBundle) -> str:
    """The commands as plain text: ``$ command``, its output, and in brackets how it ended."""
    return "\n".join("\n".join(_text_lines(command)) for command in bundle.commands)


def _text_lines(command: SavedCommand) -> Iterator[str]:
    yield f"$ {_visible(command.command_line)}"
    for line in _rows(command.output):
        yield line if isinstance(line, str) else "".join(run.text for run in line)
    yield f"[{outcome_text(command).replace(' · ', ', ')}]"


def _rows(output: SavedOutput) -> Iterator[str | tuple[StyledText, ...]]:
    """The lines in order; where lines were left out, a text that says so."""
    yield from output.head
    if output.omitted_lines:
        yield left_out(output.omitted_lines, output.omitted_bytes)
    yield from output.tail


def _visible(text: str) -> str:
    """A command line or a name without control characters; line ends and tabs stay."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


# --- HTML -----------------------------------------------------------------------------------------------------------------


def command_html(bundle: CommandBundle) -> str:
    """The commands as HTML with inline styles; every text in it is escaped."""
    return "\n".join(_command_html(command) for command in bundle.commands)


def _command_html(command: SavedCommand) -> str:
    line = _joined(map(escape, _visible(command.command_line).split("\n")))
    badge = f'<span style="{_BADGE}{_badge_color(command)}">[{escape(outcome_text(command))}]</span>'
    header = f'<pre style="{_HEADER}"><b>$ {line}</b>  {badge}</pre>'
    rows = _joined(map(_row_html, _rows(command.output)))
    output = f'\n<pre style="{_PRE}">{rows}</pre>' if rows else ""
    return f'<div style="{_BOX}">{header}{output}</div>'


def _joined(rows: Iterable[str]) -> str:
    """Rows of a <pre>. None of them is blank in the source: in a Markdown export that would end the HTML."""
    return "\n".join(row if row.strip() else f"<span>{row}</span>" for row in rows)


def _badge_color(command: SavedCommand) -> str:
    if command.end is not None:
        return _RED if command.end != "lost" else _GREY
    if not command.is_complete or command.exit_code is None:
        return _GREY
    return _GREEN if command.exit_code == 0 else _RED


def _row_html(row: str | tuple[StyledText, ...]) -> str:
    if isinstance(row, str):
        return f'<i style="opacity:.75">{escape(row)}</i>'
    return "".join(_run_html(run) for run in row)


def _run_html(run: StyledText) -> str:
    text = escape(run.text)
    if run.style is None:
        return text
    css = ";".join(_css(run.style))
    if run.style.href and LINK.fullmatch(run.style.href):
        css = css if "color:" in css else ";".join(filter(None, (f"color:{_ON_PAGE[4]}", css)))
        return f'<a href="{escape(run.style.href)}" target="_blank" rel="noopener noreferrer" style="{css}">{text}</a>'
    return f'<span style="{css}">{text}</span>' if css else text


def _css(style: TextStyle) -> Iterator[str]:
    fg, bg = style.fg, style.bg
    if style.inverse:
        fg, bg = bg, fg or "#6b6b6b"
    background = bg and _color(bg, _EXACT)
    if background:
        yield f"color:{(fg and _color(fg, _EXACT)) or _readable_on(background)};background-color:{background}"
    elif color := fg and _color(fg, _ON_PAGE):
        yield f"color:{color}"
    if style.bold:
        yield "font-weight:bold"
    if style.dim:
        yield "opacity:.65"
    if style.italic:
        yield "font-style:italic"
    lines = [name for name, is_on in (("underline", style.underline), ("line-through", style.strike)) if is_on]
    if lines:
        yield f"text-decoration:{' '.join(lines)}"
    if style.hidden:
        yield "visibility:hidden"


def _color(color: str, palette: tuple[str, ...]) -> str | None:
    if color.isascii() and color.isdigit() and int(color) < len(palette):
        return palette[int(color)]
    return color if _HEX.fullmatch(color) else None


def _readable_on(background: str) -> str:
    red, green, blue = (int(background[start : start + 2], 16) for start in (1, 3, 5))
    return "#000000" if 299 * red + 587 * green + 114 * blue > 140_000 else "#ffffff"
