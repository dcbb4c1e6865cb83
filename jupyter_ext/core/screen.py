"""A terminal's text resolved into the lines that it leaves, with their styles, as xterm.js would finally show them.

Each line on the screen stays editable; a line that has scrolled off is final. Of the final lines the first and the last are
kept and those between are counted, so a flood of any length stays small. The mirror is ``labextension/src/screen.ts``; both
are proved by ``tests/fixtures/vt``.

It is one piece because parser and grid share their state at every character; what needs neither is in `styled_lines` and
`widths`.

Source: xterm.js 5.5 (parser transitions, wrapping, erasing, scroll regions); ECMA-48 and xterm's control sequences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..protocol.display import SavedOutput
from .styled_lines import (
    LINK,
    NULL,
    KeptLines,
    LogicalLine,
    Run,
    Style,
    eraser,
    left_out,
    line_text,
    linked,
    saved_line,
    sgr,
    to_number,
)
from .widths import WIDE_RANGES, ZERO_RANGES, char_width, regex_class

__all__ = ["Screen"]

_AFTER_WIDE = ""  # the second cell of a wide character

_MAX_CLUSTER = 32  # characters in one cell: a letter with its marks; more is not writing
_MAX_CSI = 256
_MAX_OSC = 4096
_ENOUGH_CHARS = 262_144  # one look at many lines costs little more than at a screenful (see tests/bench/screen.py)

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # but TAB, LF and CR
_PIECES = re.compile(r"[^\t\n\r]+|\r\n|[\t\n\r]")
_FLOODABLE = re.compile(r"(?:[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+|\x1b\[[0-;]{0,256}m)*")  # text, line ends, colours
_CSI = re.compile(r"\x1b\[([0-?]{0,256})([ -/]{0,8})([@-~])")
_CSI_BODY = re.compile(r"[ -?]*")
_CSI_PARTS = re.compile(r"([<-?]?)([0-;]*)")
_ESCAPE_BODY = re.compile(r"[ -/]*")
_STRING_END = re.compile(r"[\x18\x1a\x1b\x80-\x9f]")
_OSC_END = re.compile(r"[\x07\x18\x1a\x1b\x80-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_ZERO_CLASS, _WIDE_CLASS = regex_class(ZERO_RANGES), regex_class(WIDE_RANGES)
_ASTRAL_CLASS = r"\U00010000-\U0010ffff"
_ZERO = re.compile(f"[{_ZERO_CLASS}]")
_WIDE = re.compile(f"[{_WIDE_CLASS}]")
_ASTRAL = re.compile(f"[{_ASTRAL_CLASS}]")
_WIDTH_RUNS = re.compile(
    f"([{_ZERO_CLASS}]+)|([{_WIDE_CLASS}]+)|([{_ASTRAL_CLASS}])|[^{_ZERO_CLASS}{_WIDE_CLASS}{_ASTRAL_CLASS}]+"
)
_TABS_AT_END = re.compile(r"\t+(?=\r?\n)")
_LINE_DRAWING = str.maketrans("`abcdefghijklmnopqrstuvwxyz{|}~", "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")


def _has_width(text: str, width: int, below_astral: re.Pattern[str]) -> bool:
    """Whether a character of this width is in a text."""
    if text.isascii():
        return False
    return below_astral.search(text) is not None or any(char_width(char) == width for char in set(_ASTRAL.findall(text)))


class _Row:
    """One row of the grid. Cells beyond its end were never written to."""

    __slots__ = ("chars", "styles", "wrapped")

    def __init__(self) -> None:
        self.chars: list[str] = []
        self.styles: list[Style] = []
        self.wrapped = False  # it goes on the line of the row above

    @property
    def is_wide_first(self) -> bool:
        """Whether it begins with a wide character."""
        return len(self.chars) > 1 and self.chars[1] == _AFTER_WIDE

    def runs(self) -> list[Run]:
        """Its cells as runs of one style, without the unwritten ones at its end."""
        chars, styles = self.chars, self.styles
        end = len(chars)
        while end and chars[end - 1] == NULL and styles[end - 1] is None:
            end -= 1
        if not any(styles):
            return [("".join(chars[:end]), None)] if end else []
        runs: list[Run] = []
        start = 0
        for index in range(1, end + 1):
            if index == end or styles[index] is not styles[start]:
                runs.append(("".join(chars[start:index]), styles[start]))
                start = index
        return runs if end else []

    def pad(self, length: int) -> None:
        """Have at least this many cells."""
        missing = length - len(self.chars)
        if missing > 0:
            self.chars += [NULL] * missing
            self.styles += [None] * missing

    def erase(self, start: int, end: int, cols: int, style: Style) -> None:
        """Empty the cells ``[start, end)``; a wide character cut in half goes whole."""
        if end >= cols and style is None:
            del self.chars[start:], self.styles[start:]
        else:
            self.pad(end)
            self.chars[start:end] = [NULL] * (end - start)
            self.styles[start:end] = [style] * (end - start)
        self._mend(start)
        self._mend(end)

    def _mend(self, x: int) -> None:
        """Empty the half of a wide character whose other half, across the boundary before cell x, has gone."""
        chars = self.chars
        right_is_half = x < len(chars) and chars[x] == _AFTER_WIDE
        left = chars[x - 1] if 0 < x <= len(chars) else _AFTER_WIDE
        left_is_wide = not left.isascii() and max(map(char_width, left)) == 2
        if right_is_half and not left_is_wide:
            chars[x] = NULL
        elif left_is_wide and not right_is_half:
            chars[x - 1] = NULL

    def write(self, x: int, cells: list[str], style: Style) -> None:
        """Overwrite the cells from x on."""
        chars = self.chars
        if x == len(chars):
            chars += cells
            self.styles += [style] * len(cells)
            return
        self.pad(x)
        end = x + len(cells)
        chars[x:end] = cells
        self.styles[x:end] = [style] * len(cells)
        self._mend(x)
        self._mend(end)

    def insert(self, x: int, count: int, cols: int, style: Style) -> None:
        """Move the cells from x on to the right; what leaves the row is lost."""
        self.pad(x)
        self.chars[x:x] = [NULL] * count
        self.styles[x:x] = [style] * count
        del self.chars[cols:], self.styles[cols:]
        for boundary in (x, x + count, cols):
            self._mend(boundary)

    def delete(self, x: int, count: int, cols: int, style: Style) -> None:
        """Move the cells right of the ``count`` ones at x to the left."""
        if style is not None:
            self.pad(cols)
            self.chars += [NULL] * count
            self.styles += [style] * count
        del self.chars[x : x + count], self.styles[x : x + count]
        self._mend(x)


# --- the grid -----------------------------------------------------------------------------------------------------------


class _Grid:
    """One of the two screens: its rows, cursor, scroll region and saved cursor."""

    __slots__ = ("bottom", "rows", "saved", "top", "x", "y")

    def __init__(self, rows: int) -> None:
        self.rows = [_Row() for _ in range(rows)]
        self.x = 0  # equal to the number of columns once the last one is written to: the next character wraps
        self.y = 0
        self.top = 0
        self.bottom = rows - 1
        self.saved = _SavedCursor()

    def shift(self, top: int, bottom: int, count: int, style: Style, cols: int) -> list[_Row]:
        """Move the rows ``[top, bottom]`` up, or down where the count is negative, and let in empty ones.

        Returns:
            The rows that were pushed out.
        """
        rows = self.rows
        size = min(abs(count), bottom - top + 1)
        fresh = [_Row() for _ in range(size)]
        for row in fresh:
            row.erase(0, cols, cols, style)
        if count > 0:
            out = rows[top : top + size]
            rows[top : bottom + 1] = rows[top + size : bottom + 1] + fresh
        else:
            out = rows[bottom + 1 - size : bottom + 1]
            rows[top : bottom + 1] = fresh + rows[top : bottom + 1 - size]
        # What now follows another line than before goes on no line.
        for seam in (top, top + size, bottom + 1):
            if seam < len(rows) and (count < 0 or seam != top + size):
                rows[seam].wrapped = False
        return out


class _SavedCursor:
    """What DECSC keeps; y counts from the first line of all, as in xterm.js."""

    __slots__ = ("charset", "charsets", "pen", "x", "y")

    def __init__(self) -> None:
        self.x = 0
        self.y = 0
        self.pen: Style = None
        self.charset = 0
        self.charsets = ["B", "B"]


class Screen:
    """Resolves VT text, in whatever chunks it comes. It never raises on any text.

    Args:
        cols: width in cells.
        rows: height in cells; as many rows stay editable.
        head_lines: how many of the first lines are kept.
        tail_lines: how many of the last lines are kept.
        line_chars: how many characters of one line are kept, the first half and the last half of it.
        max_bytes: about how much is kept in all, a surcharge for each line and each styled run included.
        convert_eol: LF implies CR: for text that did not pass a tty.
    """

    def __init__(
        self,
        *,
        cols: int = 80,
        rows: int = 24,
        head_lines: int = 500,
        tail_lines: int = 500,
        line_chars: int = 10_000,
        max_bytes: int = 100_000,
        convert_eol: bool = False,
    ) -> None:
        self._cols = max(2, cols)
        self._line_chars = max(2, line_chars)
        self._kept = KeptLines(head_lines, tail_lines, max_bytes)
        self._open: LogicalLine | None = None  # the last line that left the screen; the first row may go on it
        self._scrolled = 0  # rows that left the screen
        self._convert_eol = convert_eol
        self._main = _Grid(max(1, rows))
        self._grid = self._main
        self._reset_modes()
        self._state: Callable[[str, int], int] = self._ground
        self._sequence = ""  # what has come of an unfinished sequence, without its introducer
        self._is_osc = False
        self._unread: list[str] = []
        self._unread_chars = 0

    def _reset_modes(self) -> None:
        self._pen: Style = None
        self._charset = 0
        self._charsets = ["B", "B"]
        self._autowrap = True
        self._insert = False
        self._origin = False
        self._prefix = ""  # zero-width characters that came before the character whose cell they belong to
        self._is_after_print = False

    # --- what it was resolved to ---

    def saved_output(self) -> SavedOutput:
        """The lines with their styles. Blanks at the end of a line that show nothing are dropped."""
        kept, _ = self._settled()
        head = tuple(saved_line(line) for line in kept.head)
        tail = tuple(saved_line(line) for line, _, _ in kept.tail)
        if not kept.omitted_lines:
            head, tail = head + tail, ()
        return SavedOutput(head=head, tail=tail, omitted_lines=kept.omitted_lines, omitted_bytes=kept.omitted_bytes)

    def text(self) -> str:
        """The lines as plain text, written blanks included; a final newline where the cursor ended on a fresh line.

        Where lines were left out stands one that says how many.
        """
        kept, is_on_fresh_line = self._settled()
        lines = [line_text(line) for line in kept.head]
        if kept.omitted_lines:
            lines.append(left_out(kept.omitted_lines, kept.omitted_bytes))
        lines += [line_text(line) for line, _, _ in kept.tail]
        return "\n".join(lines) + ("\n" if lines and is_on_fresh_line else "")

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen is shown, of which nothing will stay."""
        self._read()
        return self._is_alternate()

    def _is_alternate(self) -> bool:
        return self._grid is not self._main

    def _settled(self) -> tuple[KeptLines, bool]:
        """All lines of the main screen as if they were final; whether an empty one, which is left away, would follow."""
        self._read()
        kept = self._kept.copy()
        line = self._open.copy() if self._open else None
        rows = self._main.rows
        last = max(self._main.y, next((y for y in reversed(range(len(rows))) if rows[y].runs()), 0))
        for row in rows[: last + 1]:
            if line is not None and not row.wrapped:
                kept.add(*line.finish())
                line = None
            if line is None:
                line = LogicalLine(self._line_chars)
            line.add_row(row.runs(), max(0, self._cols - len(row.chars)), row.is_wide_first)
        if line is None or line.is_blank:
            return kept, True
        kept.add(*line.finish())
        return kept, False

    # --- parser: each state takes what it can from a position on, and returns where it stopped ---

    def feed(self, text: str) -> None:
        """Take in a chunk of VT text. It is looked at when there is enough of it, or when somebody asks for the lines."""
        self._unread.append(text)
        self._unread_chars += len(text)
        if self._unread_chars >= _ENOUGH_CHARS:
            self._read()

    def _read(self) -> None:
        text = "".join(self._unread)
        self._unread.clear()
        self._unread_chars = 0
        if not text.isascii():
            text = _SURROGATES.sub("\ufffd", text)
        self._parse(text)

    def _parse(self, text: str) -> None:
        position = flood_end = 0
        while position < len(text):
            if position >= flood_end and self._state == self._ground:
                floodable = _FLOODABLE.match(text, position)
                flood_end = floodable.end() if floodable else 0
                position = self._flood(text, position, flood_end)
                if position == len(text):
                    return
            position = self._state(text, position)

    def _ground(self, text: str, position: int) -> int:
        control = _CONTROL.search(text, position)
        stop = control.start() if control else len(text)
        if stop > position:
            self._plain(text, position, stop)
            return stop
        if text[position] == "\x1b":
            csi = _CSI.match(text, position)
            if csi:
                self._control_sequence(*csi.groups())
                return csi.end()
        self._control(text[position])
        return position + 1

    def _escape(self, text: str, position: int) -> int:
        body = _ESCAPE_BODY.match(text, position)
        if body and body.end() > position:
            self._sequence = (self._sequence + body[0])[:8]
            return body.end()
        char = text[position]
        if self._sequence == "" and char in "[]PX^_":
            self._introduce(char)
        elif "0" <= char <= "~":
            self._state = self._ground
            self._escape_sequence(self._sequence, char)
        elif char < "\xa0":
            self._control(char)
        else:
            self._state = self._ground
        return position + 1

    def _csi(self, text: str, position: int) -> int:
        body = _CSI_BODY.match(text, position)
        if body and body.end() > position:
            self._sequence = (self._sequence + body[0])[: _MAX_CSI + 10]
            return body.end()
        char = text[position]
        if "@" <= char <= "~":
            self._state = self._ground
            csi = _CSI.fullmatch(f"\x1b[{self._sequence}{char}")
            if csi:
                self._control_sequence(*csi.groups())
        elif char < "\xa0":
            self._control(char)
        else:
            self._state = self._ground
        return position + 1

    def _string(self, text: str, position: int) -> int:
        end = (_OSC_END if self._is_osc else _STRING_END).search(text, position)
        stop = end.start() if end else len(text)
        if self._is_osc:
            self._sequence += text[position : min(stop, position + _MAX_OSC + 1 - len(self._sequence))]
        if end is None:
            return stop
        char = text[stop]
        if self._is_osc and char in "\x07\x1b\x9c":
            self._operating_system_command(self._sequence)
        self._state = self._ground
        if char != "\x07":
            self._control(char)
        return stop + 1

    def _introduce(self, char: str) -> None:
        """Begin the sequence whose introducer, after ESC, is this character."""
        self._sequence = ""
        self._is_osc = char == "]"
        self._state = self._csi if char == "[" else self._string

    def _control(self, char: str) -> None:
        """Carry out a control character. Within a sequence most leave it unfinished."""
        if char == "\x1b":
            self._sequence = ""
            self._state = self._escape
            return
        if char in _C1_INTRODUCERS:
            self._introduce(_C1_INTRODUCERS[char])
            return
        self._end_of_text()
        if char >= "\x80" or char in "\x18\x1a":
            self._state = self._ground
        action = _CONTROLS.get(char)
        if action is not None:
            action(self)

    def _end_of_text(self) -> None:
        self._is_after_print = False
        self._prefix = ""

    def _control_sequence(self, params: str, intermediates: str, final: str) -> None:
        parts = _CSI_PARTS.fullmatch(params)
        if parts is None:
            return
        prefix, numbers = parts.groups()
        if final == "m" and not prefix and not intermediates:
            self._pen = sgr(self._pen, numbers)
            self._is_after_print = False
            return
        action = _CSI_ACTIONS.get(prefix + intermediates + final)
        if action is not None:
            action(self, [to_number(number.partition(":")[0]) for number in numbers.split(";")])
        self._end_of_text()

    def _escape_sequence(self, intermediates: str, final: str) -> None:
        self._end_of_text()
        if intermediates in ("(", ")"):
            self._charsets["()".index(intermediates)] = final
        elif not intermediates and final in _ESCAPE_ACTIONS:
            _ESCAPE_ACTIONS[final](self)

    def _operating_system_command(self, text: str) -> None:
        command, _, rest = text.partition(";")
        if command == "8" and ";" in rest:
            address = rest.partition(";")[2]
            accepted = len(text) <= _MAX_OSC and LINK.fullmatch(address)
            self._pen = linked(self._pen, address if accepted else None)

    # --- printing ---

    def _plain(self, text: str, start: int, stop: int) -> None:
        """Text without any control characters but TAB, LF and CR."""
        for part in _PIECES.findall(text, start, stop):
            if part[0] > "\r":
                self._print(part)
                continue
            self._end_of_text()
            if part == "\t":
                self._tab()
                continue
            if part[0] == "\r":
                self._grid.x = 0
            if part[-1] == "\n":
                self._line_feed()

    def _print(self, text: str) -> None:
        if self._charsets[self._charset] == "0":
            text = text.translate(_LINE_DRAWING)
        if text.isascii():
            self._print_narrow(text)
        else:
            for run in _WIDTH_RUNS.finditer(text):
                width = 0 if run[1] else 2 if run[2] else char_width(run[3]) if run[3] else 1
                if width == 0:
                    self._print_zero(run[0])
                elif width == 1:
                    self._print_narrow(run[0])
                else:
                    for char in run[0]:
                        self._print_cell(char, 2)
        self._is_after_print = True

    def _print_narrow(self, text: str) -> None:
        grid, cols = self._grid, self._cols
        if not self._autowrap:  # the last column takes each further character in turn
            grid.x = min(grid.x, cols - 1)
            room = cols - grid.x
            if len(text) > room:
                text = text[: room - 1] + text[-1]
                self._prefix = self._prefix if room > 1 else ""
        start = 0
        while start < len(text):
            if grid.x >= cols:
                self._wrap()
            count = min(cols - grid.x, len(text) - start)
            self._put([*text[start : start + count]])
            start += count

    def _print_cell(self, cell: str, width: int) -> None:
        grid = self._grid
        if grid.x + width > self._cols:
            if self._autowrap:
                self._wrap()
            elif width == 2:
                grid.x = self._cols - 1
                return
            else:
                grid.x = self._cols - 1
        self._put([cell, _AFTER_WIDE][:width])

    def _put(self, cells: list[str]) -> None:
        grid = self._grid
        if self._prefix:
            cells[0] = (self._prefix + cells[0])[:_MAX_CLUSTER]
            self._prefix = ""
        row = grid.rows[grid.y]
        if self._insert:
            row.insert(grid.x, len(cells), self._cols, eraser(self._pen))
        row.write(grid.x, cells, self._pen)
        grid.x += len(cells)

    def _print_zero(self, text: str) -> None:
        """Zero-width characters: into the cell before the cursor, else into the one that is printed next."""
        chars = self._grid.rows[self._grid.y].chars
        x = self._grid.x - 1
        if 0 < x < len(chars) and chars[x] == _AFTER_WIDE:
            x -= 1
        if 0 <= x < len(chars) and chars[x] != NULL:
            chars[x] = (chars[x] + text)[:_MAX_CLUSTER]
        else:
            self._prefix = (self._prefix + text)[:_MAX_CLUSTER]

    def _wrap(self) -> None:
        grid = self._grid
        grid.x = 0
        if grid.y == grid.bottom:
            self._scroll()
        elif grid.y < len(grid.rows) - 1:
            grid.y += 1
        else:
            return
        grid.rows[grid.y].wrapped = True

    def _flood(self, text: str, start: int, stop: int) -> int:
        """Take many whole lines of text and colours at once: all but the last screenful are final as they stand.

        Returns:
            The position up to which they were taken, which may be none.
        """
        grid, rows = self._grid, len(self._grid.rows)
        if stop - start < 4 * rows or text.count("\n", start, stop) <= 2 * rows + 1:
            return start
        if self._is_alternate() or self._insert or not self._autowrap or grid.top or grid.bottom != rows - 1:
            return start
        first = text.find("\n", start) + 1  # the first line may go on one that is there, or its CR may have come before
        self._parse(text[start:first])
        if grid.x or self._charsets[self._charset] == "0" or any(row.chars for row in grid.rows[grid.y :]):
            return first
        stop = text.rfind("\n", first, stop) + 1
        lines, separator = self._final_as_it_stands(text[first:stop])
        if not separator:
            return first
        for row in grid.rows[: grid.y]:
            self._leave(row)
        self._close()
        grid.rows[: grid.y] = [_Row() for _ in range(grid.y)]
        grid.y = 0
        self._scrolled += rows  # at least; what was saved before has gone, and nobody asks for more
        last = len(lines)
        for _ in range(rows + 1):
            last = lines.rfind(separator, 0, last)
        self._pen = self._kept.add_all(lines[:last], separator, self._line_chars, self._pen)
        self._parse(lines[last + len(separator) :])
        return stop

    def _final_as_it_stands(self, text: str) -> tuple[str, str]:
        """Lines that leave just their own text, tabs expanded.

        Returns:
            The text, and what ends each line of it: empty where a grid is needed to tell what becomes of them.
        """
        newlines, returns = text.count("\n"), text.count("\r")
        separator = "\n" if self._convert_eol and not returns else "\r\n"
        is_even = separator == "\n" or returns == newlines == text.count("\r\n")
        if not is_even or _has_width(text, 0, _ZERO):
            return text, ""
        if "\t" in text:
            if "\x1b" in text or _has_width(text, 2, _WIDE):
                return text, ""
            if "\t\r" in text or "\t\n" in text:
                text = _TABS_AT_END.sub("", text)  # they leave nothing
            text = text.expandtabs(8)
            if max(map(len, text.split(separator))) >= self._cols:
                return text, ""
        return text, separator

    # --- rows that leave the screen ---

    def _leave(self, row: _Row) -> None:
        if not row.wrapped:
            self._close()
        if self._open is None:
            self._open = LogicalLine(self._line_chars)
        self._open.add_row(row.runs(), max(0, self._cols - len(row.chars)), row.is_wide_first)
        self._scrolled += 1

    def _close(self) -> None:
        if self._open is not None:
            self._kept.add(*self._open.finish())
            self._open = None

    def _scroll(self) -> None:
        """Scroll the region by one; a row that leaves the main screen at its top is kept."""
        grid = self._grid
        if grid.top or self._is_alternate():
            grid.shift(grid.top, grid.bottom, 1, None, self._cols)
        else:
            self._leave(grid.rows.pop(0))
            grid.rows.insert(grid.bottom, _Row())
            if grid.bottom + 1 < len(grid.rows):
                grid.rows[grid.bottom + 1].wrapped = False

    # --- cursor ---

    def resize(self, *, cols: int, rows: int) -> None:
        """Go on in another size. Nothing is wrapped anew; rows that find no place leave at the top."""
        self._read()
        self._cols, rows = max(2, cols), max(1, rows)
        for grid in {self._main, self._grid}:
            while len(grid.rows) > rows:
                if grid.y < len(grid.rows) - 1 and not grid.rows[-1].runs():
                    grid.rows.pop()
                    continue
                row = grid.rows.pop(0)
                grid.y = max(0, grid.y - 1)
                if grid is self._main:
                    self._leave(row)
            grid.rows += [_Row() for _ in range(rows - len(grid.rows))]
            grid.x = min(grid.x, self._cols)
            grid.top, grid.bottom = 0, rows - 1

    def _line_feed(self) -> None:
        grid = self._grid
        if self._convert_eol:
            grid.x = 0
        if grid.y == grid.bottom:
            self._scroll()
        elif grid.y < len(grid.rows) - 1:
            grid.y += 1
            grid.rows[grid.y].wrapped = False
        if grid.x >= self._cols:
            grid.x -= 1

    def _next_line(self) -> None:
        self._grid.x = 0
        self._index()

    def _index(self) -> None:
        grid = self._grid
        self._stay_within()
        if grid.y == grid.bottom:
            self._scroll()
        elif grid.y < len(grid.rows) - 1:
            grid.y += 1

    def _reverse_index(self) -> None:
        grid = self._grid
        self._stay_within()
        if grid.y == grid.top:
            grid.shift(grid.top, grid.bottom, -1, None, self._cols)
        elif grid.y:
            grid.y -= 1

    def _return(self) -> None:
        self._grid.x = 0

    def _backspace(self) -> None:
        self._stay_within()
        self._grid.x = max(0, self._grid.x - 1)

    def _tab(self) -> None:
        grid = self._grid
        if grid.x < self._cols:
            grid.x = min(grid.x // 8 * 8 + 8, self._cols - 1)

    def _stay_within(self, margin: int = 1) -> None:
        """Take the cursor back from beyond the last column, unless the margin is 0, and into the region that it is bound to."""
        grid = self._grid
        top, bottom = (grid.top, grid.bottom) if self._origin else (0, len(grid.rows) - 1)
        grid.x = max(0, min(grid.x, self._cols - margin))
        grid.y = max(top, min(grid.y, bottom))

    def _go(self, x: int, y: int) -> None:
        """Move to a cell; y counts from the region's top where the cursor is bound to it."""
        grid = self._grid
        grid.x, grid.y = x, y + grid.top if self._origin else y
        self._stay_within()

    def _move(self, dx: int, dy: int) -> None:
        self._stay_within()
        self._grid.x += dx
        self._grid.y += dy
        self._stay_within()

    def _up(self, params: list[int]) -> None:
        grid, count = self._grid, params[0] or 1
        self._move(0, -min(count, grid.y - grid.top) if grid.y >= grid.top else -count)

    def _down(self, params: list[int]) -> None:
        grid, count = self._grid, params[0] or 1
        self._move(0, min(count, grid.bottom - grid.y) if grid.y <= grid.bottom else count)

    def _down_to_start(self, params: list[int]) -> None:
        self._down(params)
        self._grid.x = 0

    def _up_to_start(self, params: list[int]) -> None:
        self._up(params)
        self._grid.x = 0

    def _to_column(self, params: list[int]) -> None:
        self._stay_within()
        self._grid.x = min(max(params[0], 1), self._cols) - 1

    def _to_row(self, params: list[int]) -> None:
        self._go(self._grid.x, max(params[0], 1) - 1)

    def _to_cell(self, params: list[int]) -> None:
        self._go(max(params[1] if len(params) > 1 else 1, 1) - 1, max(params[0], 1) - 1)

    def _tab_forward(self, params: list[int]) -> None:
        for _ in range(min(params[0] or 1, self._cols)):
            self._tab()

    def _tab_backward(self, params: list[int]) -> None:
        grid = self._grid
        if grid.x < self._cols:
            for _ in range(min(params[0] or 1, self._cols)):
                grid.x = max(0, (grid.x - 1) // 8 * 8)

    def _save_cursor(self) -> None:
        grid, saved = self._grid, self._grid.saved
        saved.x, saved.y, saved.pen = grid.x, grid.y + self._offset(), self._pen
        saved.charset, saved.charsets = self._charset, self._charsets.copy()

    def _restore_cursor(self) -> None:
        grid, saved = self._grid, self._grid.saved
        grid.x, grid.y, self._pen = saved.x, max(0, saved.y - self._offset()), saved.pen
        self._charset, self._charsets = saved.charset, saved.charsets.copy()
        self._stay_within()

    def _offset(self) -> int:
        return 0 if self._is_alternate() else self._scrolled

    # --- erasing and moving text ---

    def _erase(self, row: int, start: int, end: int) -> None:
        self._grid.rows[row].erase(start, end, self._cols, eraser(self._pen))

    def _erase_rows(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._erase(row, 0, self._cols)
            self._grid.rows[row].wrapped = False

    def _erase_in_display(self, params: list[int]) -> None:
        self._stay_within(0)
        grid = self._grid
        if params[0] == 0:
            self._erase_in_line([0])
            self._erase_rows(range(grid.y + 1, len(grid.rows)))
        elif params[0] == 1:
            self._erase_rows(range(grid.y))
            self._erase(grid.y, 0, min(grid.x + 1, self._cols))
            grid.rows[grid.y].wrapped = False
            if grid.x + 1 >= self._cols and grid.y + 1 < len(grid.rows):
                grid.rows[grid.y + 1].wrapped = False
        elif params[0] == 2:
            self._erase_rows(range(len(grid.rows)))
        elif params[0] == 3:
            self._kept.clear()
            self._open = None
            self._main.saved.y = max(0, self._main.saved.y - self._scrolled)
            self._scrolled = 0

    def _erase_in_line(self, params: list[int]) -> None:
        self._stay_within(0)
        grid = self._grid
        start, end = {0: (grid.x, self._cols), 1: (0, min(grid.x + 1, self._cols)), 2: (0, self._cols)}.get(params[0], (0, 0))
        self._erase(grid.y, start, end)
        if params[0] == 2 or (params[0] == 0 and grid.x == 0):
            grid.rows[grid.y].wrapped = False

    def _erase_chars(self, params: list[int]) -> None:
        self._stay_within()
        self._erase(self._grid.y, self._grid.x, min(self._grid.x + (params[0] or 1), self._cols))

    def _insert_chars(self, params: list[int]) -> None:
        self._stay_within()
        grid = self._grid
        count = min(params[0] or 1, self._cols - grid.x)
        grid.rows[grid.y].insert(grid.x, count, self._cols, eraser(self._pen))

    def _delete_chars(self, params: list[int]) -> None:
        self._stay_within()
        grid = self._grid
        count = min(params[0] or 1, self._cols - grid.x)
        grid.rows[grid.y].delete(grid.x, count, self._cols, eraser(self._pen))

    def _insert_lines(self, params: list[int]) -> None:
        self._shift_from_cursor(-(params[0] or 1))

    def _delete_lines(self, params: list[int]) -> None:
        self._shift_from_cursor(params[0] or 1)

    def _shift_from_cursor(self, count: int) -> None:
        self._stay_within()
        grid = self._grid
        if grid.top <= grid.y <= grid.bottom:
            grid.shift(grid.y, grid.bottom, count, eraser(self._pen), self._cols)
            grid.x = 0

    def _scroll_up(self, params: list[int]) -> None:
        self._grid.shift(self._grid.top, self._grid.bottom, params[0] or 1, eraser(self._pen), self._cols)

    def _scroll_down(self, params: list[int]) -> None:
        self._grid.shift(self._grid.top, self._grid.bottom, -(params[0] or 1), eraser(self._pen), self._cols)

    def _repeat(self, params: list[int]) -> None:
        grid = self._grid
        chars = grid.rows[grid.y].chars
        if self._is_after_print and 0 < grid.x <= len(chars):
            width = 2 if chars[grid.x - 1] == _AFTER_WIDE else 1
            cell = chars[grid.x - width]
            for _ in range(min(params[0] or 1, self._cols * len(grid.rows))):
                self._print_cell(cell, width)

    # --- modes ---

    def _set_region(self, params: list[int]) -> None:
        grid = self._grid
        top = max(params[0], 1)
        bottom = params[1] if len(params) > 1 and 0 < params[1] <= len(grid.rows) else len(grid.rows)
        if top < bottom:
            grid.top, grid.bottom = top - 1, bottom - 1
            self._go(0, 0)

    def _set_modes(self, params: list[int], is_on: bool) -> None:
        if 4 in params:
            self._insert = is_on
        if 20 in params:
            self._convert_eol = is_on

    def _set_private_modes(self, params: list[int], is_on: bool) -> None:
        for mode in params:
            if mode == 6:
                self._origin = is_on
                if is_on:
                    self._go(0, 0)
            elif mode == 7:
                self._autowrap = is_on
            elif mode == 1048:
                (self._save_cursor if is_on else self._restore_cursor)()
            elif mode in (47, 1047, 1049):
                self._show_alternate(is_on, saves_cursor=mode == 1049)

    def _show_alternate(self, is_on: bool, *, saves_cursor: bool) -> None:
        if is_on and saves_cursor:
            self._save_cursor()
        if is_on != self._is_alternate():
            before = self._grid
            self._grid = _Grid(len(before.rows)) if is_on else self._main
            self._grid.x, self._grid.y = before.x, before.y
        if saves_cursor and not is_on:
            self._restore_cursor()

    def _soft_reset(self) -> None:
        self._reset_modes()
        grid = self._grid
        grid.top, grid.bottom = 0, len(grid.rows) - 1
        grid.saved = _SavedCursor()

    def _hard_reset(self) -> None:
        self._main = self._grid = _Grid(len(self._main.rows))
        self._reset_modes()
        self._erase_in_display([3])

    def _shift_in(self) -> None:
        self._charset = 0

    def _shift_out(self) -> None:
        self._charset = 1


_C1_INTRODUCERS = {"\x90": "P", "\x98": "X", "\x9b": "[", "\x9d": "]", "\x9e": "^", "\x9f": "_"}

_CONTROLS: dict[str, Callable[[Screen], None]] = {
    "\b": Screen._backspace,
    "\t": Screen._tab,
    "\n": Screen._line_feed,
    "\v": Screen._line_feed,
    "\f": Screen._line_feed,
    "\r": Screen._return,
    "\x0e": Screen._shift_out,
    "\x0f": Screen._shift_in,
    "\x84": Screen._index,
    "\x85": Screen._next_line,
}

_ESCAPE_ACTIONS: dict[str, Callable[[Screen], None]] = {
    "7": Screen._save_cursor,
    "8": Screen._restore_cursor,
    "D": Screen._index,
    "E": Screen._next_line,
    "M": Screen._reverse_index,
    "c": Screen._hard_reset,
}

_CSI_ACTIONS: dict[str, Callable[[Screen, list[int]], None]] = {
    "@": Screen._insert_chars,
    "A": Screen._up,
    "B": Screen._down,
    "C": lambda screen, params: screen._move(params[0] or 1, 0),
    "D": lambda screen, params: screen._move(-(params[0] or 1), 0),
    "E": Screen._down_to_start,
    "F": Screen._up_to_start,
    "G": Screen._to_column,
    "H": Screen._to_cell,
    "I": Screen._tab_forward,
    "J": Screen._erase_in_display,
    "K": Screen._erase_in_line,
    "L": Screen._insert_lines,
    "M": Screen._delete_lines,
    "P": Screen._delete_chars,
    "S": Screen._scroll_up,
    "T": Screen._scroll_down,
    "X": Screen._erase_chars,
    "Z": Screen._tab_backward,
    "`": Screen._to_column,
    "a": lambda screen, params: screen._move(params[0] or 1, 0),
    "b": Screen._repeat,
    "d": Screen._to_row,
    "e": lambda screen, params: screen._move(0, params[0] or 1),
    "f": Screen._to_cell,
    "h": lambda screen, params: screen._set_modes(params, True),
    "l": lambda screen, params: screen._set_modes(params, False),
    "?h": lambda screen, params: screen._set_private_modes(params, True),
    "?l": lambda screen, params: screen._set_private_modes(params, False),
    "r": Screen._set_region,
    "s": lambda screen, params: screen._save_cursor(),
    "u": lambda screen, params: screen._restore_cursor(),
    "!p": lambda screen, params: screen._soft_reset(),
}
