"""Styled lines: SGR's styles, one logical line from its rows, and the first and last lines of many.

All is bounded: what one line or all lines have too much is left out in the middle, and counted.

Source: ECMA-48 8.3.117 (SGR), xterm's colours; how much a part may add to a notebook file: ours, measured with nbformat.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec.structs import asdict

from ..protocol.display import StyledText, TextStyle

__all__ = [
    *("AFTER_WIDE", "LINK", "NULL", "KeptLines", "Line", "LogicalLine", "Run", "Style", "eraser", "format_bytes", "format_count"),
    *("left_out", "line_text", "linked", "saved_line", "sgr", "to_number"),
]

Style = TextStyle | None
Run = tuple[str, Style]
Line = tuple[Run, ...]

NULL = "\0"
"""Stands for a cell that nothing was written to: a control character, so no text can hold it."""

LINK = re.compile(r"(?:https?://|mailto:)[!-~]+", re.IGNORECASE)
"""The addresses that a link may have (fullmatch); OSC 8 asks for printable ASCII."""

# What one more line and one more styled run add to a notebook besides their text: JSON and HTML around them.
_LINE_COST = 40
_STYLE_COST = 80
_MAX_NUMBER = 0x7FFFFFFF

_SGR = re.compile(r"\x1b\[([0-;]*)m")


def format_count(count: int) -> str:
    """A number with its thousands set apart: ``99,000``."""
    return f"{count:,}"


def format_bytes(count: int) -> str:
    """A size in decimal units: ``812 bytes``, ``1.2 MB``."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    # Halves are rounded up, as in JavaScript; Python's own rounding is to even.
    return f"{int(value * 10 + 0.5) / 10:.1f} {unit}" if value < 9.95 else f"{int(value + 0.5)} {unit}"


def left_out(lines: int, size_bytes: int) -> str:
    """What stands where lines were left out."""
    return f"… {format_count(lines)} {'line' if lines == 1 else 'lines'} ({format_bytes(size_bytes)}) left out …"


def _utf8_len(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


# --- styles -------------------------------------------------------------------------------------------------------------

_SWITCHES: dict[int, tuple[tuple[str, Any], ...]] = {
    1: (("bold", True),),
    2: (("dim", True),),
    3: (("italic", True),),
    4: (("underline", True),),
    5: (("blink", True),),
    6: (("blink", True),),
    7: (("inverse", True),),
    8: (("hidden", True),),
    9: (("strike", True),),
    21: (("underline", True),),
    22: (("bold", None), ("dim", None)),
    23: (("italic", None),),
    24: (("underline", None),),
    25: (("blink", None),),
    27: (("inverse", None),),
    28: (("hidden", None),),
    29: (("strike", None),),
    39: (("fg", None),),
    49: (("bg", None),),
}
_COLORS = {
    **{base + n: (member, str(n + bright)) for member, base, bright in (("fg", 30, 0), ("fg", 90, 8)) for n in range(8)},
    **{base + n: (member, str(n + bright)) for member, base, bright in (("bg", 40, 0), ("bg", 100, 8)) for n in range(8)},
}
_EXTENDED = {38: "fg", 48: "bg", 58: "underline color"}
_CUBE = (0, 95, 135, 175, 215, 255)


def to_number(digits: str) -> int:
    return min(int(digits), _MAX_NUMBER) if digits else 0


def _palette(index: int) -> str:
    index &= 0xFF
    if index < 16:
        return str(index)
    if index >= 232:
        return f"#{8 + (index - 232) * 10:02x}" + f"{8 + (index - 232) * 10:02x}" * 2
    index -= 16
    return f"#{_CUBE[index // 36]:02x}{_CUBE[index // 6 % 6]:02x}{_CUBE[index % 6]:02x}"


def _color(mode: int, values: list[int]) -> str | None:
    if mode == 5 and values:
        return _palette(values[0])
    if mode == 2 and len(values) >= 3:
        return "#" + "".join(f"{value & 0xFF:02x}" for value in values[:3])
    return None


@lru_cache(maxsize=1024)
def sgr(pen: Style, params: str) -> Style:
    """The pen after ``CSI params m``."""
    members: dict[str, Any] = asdict(pen) if pen else {}
    codes = [[to_number(digits) for digits in code.split(":")] for code in params.split(";")]
    index = 0
    while index < len(codes):
        code, *subs = codes[index]
        index += 1
        if code in _EXTENDED:
            if subs:  # 38:5:n, 38:2:r:g:b, or with a colour space 38:2::r:g:b
                color = _color(subs[0], subs[2:] if subs[0] == 2 and len(subs) > 4 else subs[1:])
            else:  # 38;5;n or 38;2;r;g;b
                mode = codes[index][0] if index < len(codes) else 0
                count = {5: 1, 2: 3}.get(mode, 0)
                color = _color(mode, [value for value, *_ in codes[index + 1 : index + 1 + count]])
                index += 1 + count
            if color is not None:
                members[_EXTENDED[code]] = color
        elif code == 0:
            members = {"href": members.get("href")}
        elif code in _COLORS:
            member, color = _COLORS[code]
            members[member] = color
        elif code == 4 and subs and subs[0] == 0:
            members["underline"] = None
        else:
            members.update(_SWITCHES.get(code, ()))
    members.pop("underline color", None)
    return TextStyle(**members) if any(members.values()) else None


@lru_cache(maxsize=1024)
def linked(pen: Style, href: str | None) -> Style:
    """The pen with another link."""
    members = {**(asdict(pen) if pen else {}), "href": href}
    return TextStyle(**members) if any(members.values()) else None


@lru_cache(maxsize=1024)
def eraser(pen: Style) -> Style:
    """The style of a cell that the pen erases: its background."""
    return TextStyle(bg=pen.bg) if pen and pen.bg else None


# --- lines --------------------------------------------------------------------------------------------------------------


def _merged(runs: Iterable[Run]) -> Line:
    merged: list[Run] = []
    for text, style in runs:
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    return tuple(merged)


def line_text(line: Line) -> str:
    """A line's text with the blanks that were written at its end, without those that nothing was written to."""
    return "".join(text for text, _ in line).rstrip(NULL).replace(NULL, " ")


def saved_line(line: Line) -> tuple[StyledText, ...]:
    """A line's runs; blanks at its end that show nothing are dropped."""
    runs = [(text.replace(NULL, " "), style) for text, style in line]
    while runs and (runs[-1][1] is None or runs[-1][1].bg is None):
        text, style = runs[-1]
        shows_blanks = style is not None and (style.inverse or style.underline or style.strike)
        if shows_blanks or (text := text.rstrip(" ")):
            runs[-1] = (text, style)
            break
        runs.pop()
    return tuple(StyledText(text=text, style=style) for text, style in _merged(runs))


class LogicalLine:
    """One line as its rows leave the screen: its first and last characters; those between are counted."""

    __slots__ = ("_cut_bytes", "_cut_chars", "_gap", "_head", "_head_room", "_tail", "_tail_chars", "_tail_limit")

    def __init__(self, max_chars: int) -> None:
        self._head: list[Run] = []
        self._head_room = max_chars - max_chars // 2
        self._tail: deque[Run] = deque()
        self._tail_chars = 0
        self._tail_limit = max_chars // 2
        self._cut_chars = 0
        self._cut_bytes = 0
        self._gap = 0  # cells missing at the end of the row that came last

    def copy(self) -> LogicalLine:
        """A copy that can go on by itself."""
        other = LogicalLine(0)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other._head, other._tail = self._head.copy(), self._tail.copy()
        return other

    def add_row(self, runs: list[Run], missing: int, is_wide_first: bool) -> None:
        """Append a row of the screen.

        What the row before lacked is filled, but for the one cell that a wide character, which begins this row, left free.

        Args:
            runs: its text and styles.
            missing: how many cells at its end were not written to.
            is_wide_first: whether it begins with a wide character.
        """
        if self._gap > 1 or (self._gap == 1 and not is_wide_first):
            self.add(NULL * self._gap, None)
        for text, style in runs:
            self.add(text, style)
        self._gap = missing

    def add(self, text: str, style: Style) -> None:
        """Append a run."""
        if text and self._head_room:
            part = text[: self._head_room]
            self._head.append((part, style))
            self._head_room -= len(part)
            text = text[len(part) :]
        if text:
            self._tail.append((text, style))
            self._tail_chars += len(text)
            while self._tail_chars - len(self._tail[0][0]) >= self._tail_limit:
                self._count_cut(self._tail.popleft()[0])

    def _count_cut(self, text: str) -> None:
        self._tail_chars -= len(text)
        self._cut_chars += len(text)
        self._cut_bytes += _utf8_len(text)

    @property
    def is_blank(self) -> bool:
        """Whether nothing was written to it."""
        return not any(text.strip(NULL) for runs in (self._head, self._tail) for text, _ in runs)

    def finish(self) -> tuple[Line, int, int]:
        """The line, the UTF-8 bytes that are kept of it, and those cut out of its middle."""
        excess = self._tail_chars - self._tail_limit
        if excess > 0:
            text, style = self._tail[0]
            self._tail[0] = (text[excess:], style)
            self._count_cut(text[:excess])
        kept_bytes = sum(_utf8_len(text) for runs in (self._head, self._tail) for text, _ in runs)
        mark: list[Run] = []
        if self._cut_chars:
            noun = "character" if self._cut_chars == 1 else "characters"
            mark = [(f" … {format_count(self._cut_chars)} {noun} left out … ", TextStyle(dim=True))]
        return _merged([*self._head, *mark, *self._tail]), kept_bytes, self._cut_bytes


class KeptLines:
    """Final lines within limits: the first ones, then the last ones; those between are counted."""

    __slots__ = (
        *("_budget", "_head_cost", "_head_lines", "_tail_cost", "_tail_lines"),
        *("head", "is_head_open", "omitted_bytes", "omitted_lines", "tail"),
    )

    def __init__(self, head_lines: int, tail_lines: int, max_bytes: int) -> None:
        self._head_lines = head_lines
        self._tail_lines = tail_lines
        self._budget = max_bytes // 2 if head_lines and tail_lines else max_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all lines, and that there were any."""
        self.head: list[Line] = []
        self.tail: deque[tuple[Line, int, int]] = deque()  # with the bytes of each, its newline included, and its cost
        self._head_cost = 0
        self._tail_cost = 0
        self.is_head_open = self._head_lines > 0
        self.omitted_lines = 0
        self.omitted_bytes = 0

    def copy(self) -> KeptLines:
        """A copy that can go on by itself."""
        other = KeptLines(self._head_lines, self._tail_lines, 0)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.head, other.tail = self.head.copy(), self.tail.copy()
        return other

    def add(self, line: Line, kept_bytes: int, cut_bytes: int = 0) -> None:
        """Append a line.

        Args:
            line: its runs.
            kept_bytes: its size in UTF-8.
            cut_bytes: what has been cut out of it already.
        """
        size = kept_bytes + 1
        cost = size + _LINE_COST + _STYLE_COST * sum(style is not None for _, style in line)
        if cost > self._budget and len(line) > 1:  # coloured letter by letter
            line = (("".join(text for text, _ in line), None),)
            cost = size + _LINE_COST
        self.omitted_bytes += cut_bytes
        if self.is_head_open:
            if len(self.head) < self._head_lines and self._head_cost + cost <= self._budget:
                self.head.append(line)
                self._head_cost += cost
                return
            self.is_head_open = False
        self.tail.append((line, size, cost))
        self._tail_cost += cost
        while self.tail and (len(self.tail) > self._tail_lines or self._tail_cost > self._budget):
            _, size, cost = self.tail.popleft()
            self._tail_cost -= cost
            self.omit(1, size)

    def add_all(self, text: str, separator: str, max_chars: int, pen: Style) -> Style:
        """Append the lines of a text, in which SGR sequences may stand.

        Args:
            text: the lines; the last one ends with the text.
            separator: what ends each of the others.
            max_chars: how many characters of a line are kept.
            pen: the style that it begins with.

        Returns:
            The style that it ends with.
        """
        start = 0
        while self.is_head_open and start <= len(text):
            end = text.find(separator, start)
            end = len(text) if end < 0 else end
            pen = self._add_text(text[start:end], max_chars, pen)
            start = end + len(separator)
        if start > len(text):
            return pen
        lines = text[start:].rsplit(separator, self._tail_lines)
        if len(lines) > self._tail_lines:
            while self.tail:
                self.omit(1, self.tail.popleft()[1])
            self._tail_cost = 0
            pen = self._omit_text(lines.pop(0), separator, pen)
        for line in lines:
            pen = self._add_text(line, max_chars, pen)
        return pen

    def _omit_text(self, text: str, separator: str, pen: Style) -> Style:
        if "\x1b" in text:
            reset = max(text.rfind("\x1b[m"), text.rfind("\x1b[0m"))
            if reset >= 0:
                pen = linked(None, pen.href if pen else None)
            for params in _SGR.findall(text, max(0, reset)):
                pen = sgr(pen, params)
            text = _SGR.sub("", text)
        count = text.count(separator)
        self.omit(count + 1, _utf8_len(text) - count * (len(separator) - 1) + 1)
        return pen

    def _add_text(self, text: str, max_chars: int, pen: Style) -> Style:
        if pen is None and len(text) <= max_chars and "\x1b" not in text:
            self.add(((text, None),) if text else (), _utf8_len(text))
            return pen
        line = LogicalLine(max_chars)
        for index, part in enumerate(_SGR.split(text)):
            if index % 2:
                pen = sgr(pen, part)
            else:
                line.add(part, pen)
        self.add(*line.finish())
        return pen

    def omit(self, lines: int, size_bytes: int) -> None:
        """Count lines that are not kept."""
        self.omitted_lines += lines
        self.omitted_bytes += size_bytes
