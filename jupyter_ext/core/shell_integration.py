"""Takes the shell's integration marks out of a terminal's bytes, and tells from them which commands run.

One module, past the usual length, because the nonce, the marks' grammar and what may be believed of them belong together.
Source: shell-integration.md 2 to 5 and 7.2 rule 5.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ..protocol.terminal import (
    StateAction,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCwdChangedAction,
    TerminalDataAction,
    TerminalPartMeta,
    TerminalSubmission,
    TerminalTitleChangedAction,
)

__all__ = [
    "BODY_LIMIT_BYTES",
    "TITLE_LIMIT_CHARS",
    "AdvisoryCwd",
    "CommandDetector",
    "Data",
    "Mark",
    "Segment",
    "ShellIntegrationParser",
    "Title",
]

# Well above a here-document typed at a prompt (76 KB is normal), small enough to hold for every terminal.
BODY_LIMIT_BYTES = 1 << 20
TITLE_LIMIT_CHARS = 256
TITLES_PER_SECOND = 5


# --- segments -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes that pass unchanged. Never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """A trusted mark of our own scripts, taken out of the stream.

    ``kind`` is the subcommand; ``fields`` are what stands between it and the nonce, still escaped.
    """

    kind: str
    fields: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Title:
    """A window title, whose sequence ends with the data before it. No control characters, cut; may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class AdvisoryCwd:
    """What any program said about the working directory, taken out of the stream.

    ``code`` is the number of the sequence: 7 (a URI), 9 or 1337 (a path).
    """

    code: int
    value: bytes


Segment = Data | Mark | Title | AdvisoryCwd


# --- bytes -> segments --------------------------------------------------------------------------------------------------

# No number that we handle begins with 3, 4, 5 or 8: hyperlinks, colours and clipboard pass without a look.
_ESC_OSC = re.compile(rb"\x1b\](?![3-58])")
_C1_OSC = b"\xc2\x9d"
# C0 that neither ends nor cancels a sequence: skipped in its number, dropped from its interpreted payload.
_C0 = bytes(byte for byte in range(0x20) if byte not in b"\x07\x18\x1a\x1b")
_NUMBER = re.compile(rb"[0-9" + re.escape(_C0) + rb"]*")
_END = re.compile(rb"[\x07\x18\x1a\x1b]|\xc2[\x9c\x9d]")
# The form that nearly all marks have: a payload without C0 and without C2 (which may begin an end or an introducer). It means
# the same wherever it stands, as its ESC ends whatever is open.
_USUAL_MARK = re.compile(rb"\x1b\]((?:633|133);[^\x00-\x1f\xc2]*)(?:\x07|\x1b\\)")
_CODES = {b"633": 633, b"133": 133, b"7": 7, b"9": 9, b"1337": 1337, b"": 0, b"2": 2}
_KEYS_1337 = (b"CurrentDir", b"RemoteHost", b"ShellIntegrationVersion", b"SetMark")
# Whether a 9 or 1337 is ours is told by its first bytes; one that hides its key behind more C0 than this is foreign.
_KEY_WINDOW_BYTES = 256
_TITLE_CONTROLS = re.compile("[\x7f-\x9f]+")


class _TitleReader:
    """Reads the payload of a title as it passes, and keeps no more than can be shown."""

    __slots__ = ("_decoder", "_text", "size_bytes")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self.size_bytes = 0

    def feed(self, data: bytes | bytearray, final: bool) -> None:
        self.size_bytes += len(data)
        if len(self._text) < TITLE_LIMIT_CHARS:
            text = self._decoder.decode(data.translate(None, _C0), final)
            self._text = (self._text + _TITLE_CONTROLS.sub("", text))[:TITLE_LIMIT_CHARS]

    @property
    def text(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class _Open:
    """Where a held sequence stands; offsets from its introducer. ``code`` is None while its number is still open."""

    code: int | None
    body: int
    scan: int


class _Segments:
    """Collects segments and merges adjacent data."""

    __slots__ = ("_pieces", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._pieces: list[bytes | bytearray] = []

    def add_data(self, data: bytes | bytearray) -> None:
        self._pieces.append(data)

    def add_event(self, event: Segment) -> None:
        self.close()
        self.segments.append(event)

    def close(self) -> None:
        if data := b"".join(self._pieces):
            self.segments.append(Data(data))
        self._pieces.clear()


# What becomes of a sequence: kept back from here on; passed on, search resumes here; taken out up to here.
_HOLD, _PASS, _STRIP = range(3)
_Step = tuple[int, int, Segment | None]


class ShellIntegrationParser:
    """Splits a terminal's bytes into data, our trusted marks, titles and advisory working directories, in stream order.

    The bytes that went in, without the integration sequences, come out byte for byte, however they are cut. Held back are at
    most one ESC or C2, a sequence's number, or the body of a sequence that may have to be taken out. Never raises on what a
    program writes.

    The specification's state FOREIGN needs no state here: all that ends or interrupts a foreign sequence means the same
    outside of it, so a foreign sequence is plain data from the moment its number is known.

    Args:
        nonce: the terminal's secret; a mark counts only if its last field is exactly this.

    Attributes:
        untrusted: marks (OSC 633) without the nonce.
        aborted: sequences cancelled, or cut off by a new introducer.
        over_limit: sequences longer than `BODY_LIMIT_BYTES`, passed on.
        stripped_bytes: bytes taken out.

    Source: shell-integration.md 2 and 3.
    """

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode()
        self._held = bytearray()
        self._open: _Open | None = None
        self._title: _TitleReader | None = None
        self.untrusted = 0
        self.aborted = 0
        self.over_limit = 0
        self.stripped_bytes = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes are held back."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Segment]:
        """Read the next bytes.

        Returns:
            The segments that are certain by now, adjacent data merged. A block without introducers comes back as the same
            object, uncopied.
        """
        if not data:
            return []
        if self._open is not None:
            buffer = self._held
            buffer += data
            return self._split(buffer)
        if self._held:
            data = bytes(self._held) + data
            self._held = bytearray()
        if self._title is None and data[-1] not in b"\x1b\xc2" and not _has_introducer(data):
            return [Data(data)]
        return self._split(data)

    def flush(self) -> list[Segment]:
        """Release what is held, unchanged and without an event: the stream has ended."""
        held = bytes(self._held)
        self._held = bytearray()
        self._open = self._title = None
        return [Data(held)] if held else []

    def _split(self, buffer: bytes | bytearray) -> list[Segment]:
        """Split a buffer that begins in the state kept from the last one. One piece, as its positions move together."""
        out = _Segments()
        run = resume = 0  # start of the data not yet given out; where the search goes on
        next_esc = next_c1 = -2  # where the next introducers stand; -1: there are none, -2: not looked yet
        while True:
            start = 0
            if self._title is not None:
                step, resume, event = self._read_title(self._title, buffer, resume)
            elif self._open is not None:
                step, resume, event = self._read_sequence(buffer, 0, self._open)
            else:
                if next_esc == -2:
                    split_to = self._split_usual(buffer, run, resume, out)
                    if split_to is not None:
                        run = resume = split_to
                    next_esc, next_c1 = _find_osc(buffer, resume), buffer.find(_C1_OSC, resume)
                elif 0 <= next_esc < resume:
                    next_esc = _find_osc(buffer, resume)
                if 0 <= next_c1 < resume:
                    next_c1 = buffer.find(_C1_OSC, resume)
                start = next_c1 if next_esc < 0 or 0 <= next_c1 < next_esc else next_esc
                if start < 0:
                    hold = len(buffer) - buffer.endswith((b"\x1b", b"\xc2"), resume)
                    break
                step, resume, event = self._read_sequence(buffer, start, _Open(None, 0, 2))
            if step == _HOLD:
                hold = resume
                break
            if step == _STRIP:
                out.add_data(buffer[run:start])
                run = resume
                self.stripped_bytes += resume - start
            elif event is not None:
                out.add_data(buffer[run:resume])
                run = resume
            if event is not None:
                out.add_event(event)
        out.add_data(buffer[run:hold])
        if hold or buffer is not self._held:  # else it grows where it is: copying it at each read would be quadratic
            self._held = bytearray(buffer[hold:])
        out.close()
        return out.segments

    def _split_usual(self, buffer: bytes | bytearray, run: int, start: int, out: _Segments) -> int | None:
        """Split as far as the last usual mark, several times faster than `_split`, if there are no other sequences before it.

        Args:
            buffer: the data.
            run: where the data that is not yet given out begins.
            start: where the search begins.
            out: where the segments go; it holds no data.

        Returns:
            Where the rest begins; None if nothing was done.
        """
        parts = _USUAL_MARK.split(buffer[start:])
        end = len(buffer) - len(parts.pop())
        data, payloads = parts[::2], parts[1::2]
        joined = b"".join(data)
        # A seam of the joined data may look like an introducer; then the general way finds that it is none.
        if not payloads or len(buffer) > BODY_LIMIT_BYTES or _has_introducer(joined):
            return None
        suffix = b";" + self._nonce
        marks = [i for i, payload in enumerate(payloads) if payload[0] == 0x36]  # 633, not 133
        trusted = [i for i in marks if payloads[i].endswith(suffix, 4)]
        self.untrusted += len(marks) - len(trusted)
        self.stripped_bytes += end - start - len(joined)
        data[0] = bytes(buffer[run:start]) + data[0]
        done = 0
        for i in trusted:
            if before := data[i] if done == i else b"".join(data[done : i + 1]):
                out.segments.append(Data(before))
            subcommand = payloads[i][4 : -len(suffix)]
            out.segments.append(_COMMON_MARKS.get(subcommand) or _mark(subcommand))
            done = i + 1
        out.add_data(b"".join(data[done:]))
        return end

    def _read_sequence(self, buffer: bytes | bytearray, start: int, at: _Open) -> _Step:
        """Go on reading the sequence whose introducer is at ``start``."""
        self._open = None
        code, body, scan = at.code, start + at.body, start + at.scan
        if code is None:
            scan = _NUMBER.match(buffer, scan).end()  # type: ignore[union-attr]  # matches the empty string at least
            if scan - start - 2 > BODY_LIMIT_BYTES:
                self.over_limit += 1
                return _PASS, scan, None
            follows = buffer[scan : scan + 2]
            if follows in (b"", b"\xc2"):
                self._open = _Open(None, 0, scan - start)
                return _HOLD, start, None
            digits = buffer[start + 2 : scan].translate(None, _C0)
            code = _CODES.get(bytes(digits.lstrip(b"0"))) if digits else None
            if code is None or (follows[0] != 0x3B and _END.match(follows) is None):
                return _PASS, scan, None
            body = scan = scan + (follows[0] == 0x3B)
            if code in (0, 2):
                self._title = _TitleReader()
                return self._read_title(self._title, buffer, body)
        stop, resume = _find_end(buffer, scan)
        is_ours = _is_ours(code, buffer[body : min(stop, body + _KEY_WINDOW_BYTES)], resume is not None)
        if is_ours is False:
            return _PASS, stop, None
        if stop - body > BODY_LIMIT_BYTES:
            self.over_limit += 1
            return _PASS, stop, None
        if resume is None:
            self._open = _Open(code, body - start, stop - start)
            return _HOLD, start, None
        if _is_abort(buffer, stop):
            self.aborted += 1
            return _PASS, resume, None
        return _STRIP, resume, self._event(code, bytes(buffer[body:stop].translate(None, _C0)))

    def _read_title(self, title: _TitleReader, buffer: bytes | bytearray, scan: int) -> _Step:
        """Go on reading a title, whose bytes are passed on while they are read."""
        stop, resume = _find_end(buffer, scan)
        title.feed(buffer[scan:stop], resume is not None)
        is_over = title.size_bytes > BODY_LIMIT_BYTES
        if resume is None and not is_over:
            return _HOLD, stop, None
        self._title = None
        if resume is None or is_over:
            self.over_limit += 1
            return _PASS, stop, None
        if _is_abort(buffer, stop):
            self.aborted += 1
            return _PASS, resume, None
        return _PASS, resume, Title(title.text)

    def _event(self, code: int, payload: bytes) -> Segment | None:
        """What a complete sequence means; ``payload`` is without C0."""
        if code == 633:
            subcommand, separator, last = payload.rpartition(b";")
            if separator and last == self._nonce:
                return _mark(subcommand)
            self.untrusted += 1
        elif code == 7:
            return AdvisoryCwd(7, payload)
        elif code == 9:
            return AdvisoryCwd(9, payload[2:])
        elif code == 1337 and payload.startswith(b"CurrentDir="):
            return AdvisoryCwd(1337, payload[11:])
        return None


def _mark(subcommand: bytes) -> Mark:
    kind, *fields = subcommand.split(b";")
    return Mark(kind.decode("latin-1"), tuple(fields))


# Three of the four marks of nearly every command; making each anew takes a third of the time spent on a stream of marks.
_COMMON_MARKS = {subcommand: _mark(subcommand) for subcommand in (b"A", b"C", b"D;0")}


def _has_introducer(data: bytes) -> bool:
    """Whether a block has an introducer that must be looked at."""
    # One byte is searched for at more than 10 GB/s, two at about 1 GB/s: it pays to look for the rarer one first.
    return (data.find(0x1B) >= 0 and _ESC_OSC.search(data) is not None) or (data.find(0x9D) >= 0 and data.find(_C1_OSC) >= 0)


def _find_osc(buffer: bytes | bytearray, start: int) -> int:
    """Where the next ESC ] stands that may begin a handled sequence; -1 if there is none."""
    match = _ESC_OSC.search(buffer, start)
    return -1 if match is None else match.start()


def _find_end(buffer: bytes | bytearray, scan: int) -> tuple[int, int | None]:
    """Where a payload stops, and where the search resumes after its end; None while there is no certain end."""
    match = _END.search(buffer, scan)
    if match is None:
        return len(buffer) - (buffer[-1] == 0xC2), None
    stop = match.start()
    if buffer[stop] != 0x1B:
        return stop, stop if match[0] == _C1_OSC else match.end()
    if stop + 1 == len(buffer):
        return stop, None
    return stop, stop + 2 if buffer[stop + 1] == 0x5C else stop


def _is_abort(buffer: bytes | bytearray, stop: int) -> bool:
    """Whether what stands at ``stop`` cancels the sequence instead of ending it."""
    return buffer[stop] in b"\x18\x1a" or buffer[stop : stop + 2] == _C1_OSC


def _is_ours(code: int, head: bytes | bytearray, is_ended: bool) -> bool | None:
    """Whether a sequence of a handled code is an integration's, told by its first bytes; None while that is open."""
    if code not in (9, 1337):
        return True
    is_whole = len(head) < _KEY_WINDOW_BYTES
    is_open, is_ended = is_whole and not is_ended, is_whole and is_ended
    head = head.translate(None, _C0)
    if code == 9:
        return True if head.startswith(b"9;") else None if is_open and b"9;".startswith(head) else False
    key, equals, _ = head.partition(b"=")
    if key in _KEYS_1337 and (equals or is_ended):
        return True
    return None if is_open and not equals and any(known.startswith(key) for known in _KEYS_1337) else False


# --- what clients typed -------------------------------------------------------------------------------------------------

_KEYS = re.compile(
    rb"(?P<text>[\x20-\x7e\x80-\xff]+)"
    rb"|(?P<paste>\x1b\[20[01]~)"
    rb"|(?P<enter>[\r\n])"
    rb"|(?P<recall>\x1b[\[O][AB]|[\x0e\x10\x12\x13])"  # up, down, Ctrl-N, Ctrl-P, Ctrl-R, Ctrl-S
    rb"|(?P<next>\x0f)"  # Ctrl-O: runs the line and recalls the one after it
    rb"|(?P<kill>\x15)"
    rb"|(?P<erase>[\x08\x7f])"
    rb"|(?P<interrupt>\x03)"
    rb"|(?P<yank>\x19|\x1b[._y])"
    # Answers of a terminal to a program, focus and mouse: nobody typed them.
    rb"|(?P<report>\x1b\[(?:[IO]|[?>=][0-9;]*[$]?[a-z]|[0-9;]+[Rnt]|<[0-9;]+[Mm])|\x1b[P\]][^\x07\x1b]*(?:\x07|\x1b\\))"
    rb"|(?P<other>\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|[ -~])?|[\x00-\x1f])"
)
# A simple command of plain words is complete on its own line; of anything else the next line may be a part.
_COMPLETE = re.compile(r"(?! *(?:case|coproc|do|elif|else|for|function|if|select|then|time|until|while)\b)[\w ./=:,@%+~-]+")
_LINE_LIMIT_BYTES = 1 << 16
_LINES_LIMIT = 256


@dataclass(slots=True, repr=False)  # what is typed is not for logs
class _Line:
    """One line as it was typed, as far as it can be told from the keys."""

    text: bytearray = field(default_factory=bytearray)
    is_known: bool = True
    is_recalled: bool = False
    is_typed: bool = False

    def is_blank(self) -> bool:
        return self.is_known and not self.is_recalled and not self.text.strip()

    def reading(self, candidate: str) -> str:
        """What the shell read as this line; ``candidate`` is its newest history entry. Empty: cannot be told."""
        if not self.is_known:
            return ""
        if self.is_recalled:
            return candidate
        try:
            text = self.text.decode()
        except UnicodeDecodeError:
            return ""
        if text == candidate:
            return text
        if re.match(r"![^\s=(]|\^", text):  # history expansion, whose result is a repeat
            return candidate
        return text if text.isprintable() and "!" not in text and text.strip() else ""


class _TypedLines:
    """The lines that clients typed at the prompt: evidence for a command line that the shell's history does not hold.

    A line is told exactly or not at all. What is typed while a command runs may be that command's and may be a password: of
    it only the fact is kept, and from then on a line must also be one that the history would leave out.

    Source: shell-integration.md 7.2 rule 5.
    """

    def __init__(self) -> None:
        self._line = _Line()
        self._lines: list[_Line] = []  # submitted, and not yet known to have been read by the shell
        self._carried = 0  # how many of them were typed before the last prompt
        self._is_doubtful = False  # a program may have read some of what was sent before the last prompt
        self._ends_blank = False  # that ended in a blank, which may lead the next line
        self._is_pasting = False
        self._has_taken = False  # a command was taken since the last prompt

    @property
    def has_typed(self) -> bool:
        """Whether there is unsubmitted input."""
        return self._line.is_typed

    @property
    def typed_chars(self) -> int:
        """How long the unsubmitted input is, as far as that can be told."""
        return len(self._line.text.decode("utf-8", "replace")) if self._line.is_typed else 0

    def sent_ahead(self, data: bytes) -> None:
        """Take note of input while there is no prompt."""
        self._is_doubtful = True
        self._ends_blank = data.endswith((b" ", b"\t"))

    def typed(self, data: bytes) -> bool:
        """Take input at the prompt.

        Returns: whether a line was submitted or given up, so that the shell will answer.
        """
        is_submitted = False
        for key in _KEYS.finditer(data):
            kind, line = key.lastgroup, self._line
            if kind == "text":
                self._insert(key[0])
            elif kind == "paste":
                self._is_pasting = key[0] == b"\x1b[200~"
            elif kind == "interrupt":
                self._interrupt()
                is_submitted = True
            elif self._is_pasting:
                self._insert(b"\n" if kind == "enter" else b"")
                line.is_known = line.is_known and kind == "enter"
            elif kind in ("enter", "next"):
                self._submit(is_next_recalled=kind == "next")
                is_submitted = True
            elif kind == "kill":
                self._line = _Line(is_known=line.is_known)
            elif kind == "erase":
                self._erase()
            elif kind == "recall":
                line.is_known = line.is_known and not line.text.startswith((b" ", b"\t"))
                line.is_recalled = line.is_typed = True
            else:
                line.is_known = False
                line.is_typed = line.is_typed or kind == "yank"
        return is_submitted

    def prompted(self) -> None:
        """Take note of a prompt. It answers a line that was no command, if no command was taken since the last one."""
        if not (self._has_taken or self._is_doubtful):
            del self._lines[:1]
        self._has_taken = False
        self._carried = len(self._lines)

    def take(self, text: str, is_certain: bool) -> str:
        """Find the line that the shell has just read.

        Args:
            text: the line as the shell told it, or its newest history entry.
            is_certain: which of the two.

        Returns:
            The line; empty if it cannot be told.
        """
        possible = self._lines[: self._carried + 1 if self._is_doubtful else 1]
        line = text if is_certain else self._find(text, possible)
        index = next((i for i, typed in enumerate(possible) if line and typed.reading(text) == line), None)
        if index is not None:
            self._is_doubtful = self._is_doubtful and index < self._carried
            del self._lines[: index + 1]
        elif not self._is_doubtful:
            del self._lines[:1]
        self._carried = len(self._lines)
        if self._lines or self._line.is_typed:  # sent beyond this line: the command may read it
            self._is_doubtful = True
            self._ends_blank = self._line.text.endswith((b" ", b"\t"))
        self._line = _Line()
        self._has_taken = True
        return line

    def _find(self, candidate: str, possible: list[_Line]) -> str:
        """The one line that can have been read, and read as one; empty if there are none or several."""
        readings = {i: line.reading(candidate) for i, line in enumerate(possible) if not line.is_blank()}
        if self._is_doubtful:
            if not candidate or "" in readings.values() or self._ends_blank:
                return ""
            readings = {i: line for i, line in readings.items() if line == candidate or line[0] in " \t"}
        if len(set(readings.values())) != 1:
            return ""
        index, line = readings.popitem()
        is_newest = not readings and index == len(self._lines) - 1
        return line if is_newest or _COMPLETE.fullmatch(line) else ""

    def _insert(self, text: bytes) -> None:
        line = self._line
        line.text += text
        line.is_typed = True
        if len(line.text) > _LINE_LIMIT_BYTES:
            line.text.clear()
            line.is_known = False

    def _interrupt(self) -> None:
        # The tty drops what was not read yet; the shell answers with one new prompt, as to an empty line.
        self._lines = [_Line()]
        self._line = _Line()
        self._carried = 0
        self._is_doubtful = self._is_pasting = False

    def _submit(self, *, is_next_recalled: bool) -> None:
        line = self._line
        parts = [text for text in line.text.split(b"\n") if text.strip()]
        if len(parts) > 1:  # pasted: each complete command in it runs by itself
            self._lines += [_Line(text, is_known=line.is_known and not line.is_recalled) for text in parts]
        else:
            self._lines.append(_Line(parts[0] if parts else bytearray(), line.is_known, line.is_recalled))
        if len(self._lines) > _LINES_LIMIT:
            self._lines = [_Line(is_known=False)]
            self._carried = 0
            self._is_doubtful = True
        self._line = _Line(is_recalled=is_next_recalled, is_typed=is_next_recalled)

    def _erase(self) -> None:
        line = self._line
        if line.is_recalled or line.text[-1:] >= b"\x80":  # how much it takes away cannot be told
            line.is_known = False
        elif line.is_known:
            del line.text[-1:]
            line.is_typed = bool(line.text)


# --- segments -> actions ------------------------------------------------------------------------------------------------

_EXIT_CODE = re.compile(rb"-?[0-9]{1,10}")
_ESCAPED = re.compile(rb"\\(?:\\|x([0-9A-Fa-f]{2}))")
_FILE_URI = re.compile(rb"(?i:(file|kitty-shell-cwd)):(?://([^/]*)|(?!//))(/.*)", re.DOTALL)
_QUOTED = re.compile(rb'"(.*)"', re.DOTALL)
_EDITOR_ON, _EDITOR_OFF = b"\x1b[?2004h", b"\x1b[?2004l"


@dataclass(frozen=True, slots=True)
class _CommandLine:
    """What mark E said: the line and its flag."""

    text: str
    flag: bytes


@dataclass(frozen=True, slots=True)
class _Running:
    """The open command; ``started_ms`` is on the monotonic clock."""

    command_id: str
    started_ms: int


class CommandDetector:
    """Turns the segments of one terminal into AHP actions.

    Every boundary, command line and, once the integration has spoken, folder comes from a trusted mark alone. No command
    stays open: the next start, the next prompt or the end of the stream closes it, without an exit code.

    Args:
        hostname: our own host's name, for folders given as URIs.
        initial_title: the terminal's title at first, and again when a program sets an empty one.

    Attributes:
        submission: who submitted what comes next; stamped on each command that starts, until it is set anew.
        is_loaded: a trusted mark was seen, so the script has been read.
        is_tracking: a trusted prompt was seen, so commands will be reported.
        at_prompt: the shell is at its prompt, or about to draw it.
        editor_ready: its line editor has said that it runs (by bracketed paste), and no line was sent since.
        awaiting_more: it shows a continuation prompt, and no line was sent since.

    Source: shell-integration.md 5.
    """

    def __init__(self, *, hostname: str, initial_title: str) -> None:
        self.submission: TerminalSubmission | None = None
        self.is_loaded = False
        self.is_tracking = False
        self.at_prompt = False
        self.editor_ready = False
        self.awaiting_more = False
        self._hosts = (b"", b"localhost", hostname.lower().encode())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text: list[str] = []
        self._actions: list[StateAction] = []
        self._typed = _TypedLines()
        self._editor_tail = b""
        self._line: _CommandLine | None = None
        self._running: _Running | None = None
        self._last_id = 0
        self._cwd: str | None = None
        self._initial_title = initial_title
        self._title = initial_title
        self._waiting_title: str | None = None
        self._title_times: deque[int] = deque(maxlen=TITLES_PER_SECOND)

    @property
    def has_typed(self) -> bool:
        """Whether somebody is typing a line at the prompt: input that was neither submitted nor cleared."""
        return self.at_prompt and self._typed.has_typed

    @property
    def typed_chars(self) -> int:
        """How long that line is, as far as it can be told from the keys."""
        return self._typed.typed_chars if self.at_prompt else 0

    @property
    def open_command_id(self) -> str | None:
        """The id of the command that runs."""
        return None if self._running is None else self._running.command_id

    @property
    def title_due_ms(self) -> int | None:
        """When `pending_title` will have one, as Unix time in ms; None while no title waits."""
        return None if self._waiting_title is None else self._title_times[0] + 1000

    def actions(self, segments: Iterable[Segment], now_ms: int, monotonic_ms: int) -> list[StateAction]:
        """The actions that these segments mean, in stream order; neighbouring data joined.

        Args:
            segments: what the parser gave.
            now_ms: Unix time in ms.
            monotonic_ms: a clock that never steps, in ms, for durations.
        """
        self._give_waiting_title(now_ms)
        for segment in segments:
            match segment:
                case Data(data):
                    self._read(data)
                case Mark():
                    self.is_loaded = True
                    self._obey(segment, now_ms, monotonic_ms)
                case Title(text):
                    self._set_title(text or self._initial_title, now_ms)
                case AdvisoryCwd() if not self.is_loaded:
                    self._set_cwd(self._advised_path(segment))
        return self._taken()

    def finish(self, now_ms: int, monotonic_ms: int) -> list[StateAction]:
        """The last actions at the end of the stream: the rest of the data, the open command's end, a title that waited."""
        self._text.append(self._decoder.decode(b"", True))
        self._close(monotonic_ms)
        if self._waiting_title is not None:
            self._give_title(self._waiting_title, now_ms)
        self.at_prompt = self.awaiting_more = self.editor_ready = False
        return self._taken()

    def pending_title(self, now_ms: int) -> StateAction | None:
        """The title that was held back by the limit of five a second, once it is due."""
        self._give_waiting_title(now_ms)
        return next(iter(self._taken()), None)

    def input_sent(self, data: bytes) -> None:
        """Take note of bytes that were written to the terminal, whoever typed them, before their output is read."""
        if not self.at_prompt:
            self._typed.sent_ahead(data)
        elif self._typed.typed(data):
            self.editor_ready = self.awaiting_more = False

    # --- marks

    def _obey(self, mark: Mark, now_ms: int, monotonic_ms: int) -> None:
        value = mark.fields[0] if mark.fields else b""
        match mark.kind:
            case "A":
                self._prompt(monotonic_ms)
            case "E":
                flag = mark.fields[1] if len(mark.fields) > 1 else b""
                self._line = _CommandLine(_unescape(value).decode("utf-8", "replace"), flag)
            case "C":
                self._close(monotonic_ms)
                self._execute(now_ms, monotonic_ms)
                self.at_prompt = self.awaiting_more = self.editor_ready = False
            case "D":
                if self._running is None and self._line is not None and self._line.flag == b"x":
                    self._execute(now_ms, monotonic_ms)
                self._close(monotonic_ms, int(value) if _EXIT_CODE.fullmatch(value) else None)
            case "P" if value.startswith(b"Cwd="):
                self._set_cwd(_unescape(value[4:]))
            case "F":
                self.awaiting_more = self.at_prompt

    def _prompt(self, monotonic_ms: int) -> None:
        self._close(monotonic_ms)
        if not self.is_tracking:
            self.is_tracking = True
            self._give(TerminalCommandDetectionAvailableAction())
        self._typed.prompted()
        self.at_prompt = True
        self.awaiting_more = self.editor_ready = False
        self._editor_tail = b""
        self._line = None

    def _execute(self, now_ms: int, monotonic_ms: int) -> None:
        line = self._line or _CommandLine("", b"u")
        self._line = None
        self._last_id += 1
        self._running = _Running(f"c{self._last_id}", monotonic_ms)
        self._give(
            TerminalCommandExecutedAction(
                command_id=self._running.command_id,
                # A flag that we do not know is no promise either.
                command_line=self._typed.take(line.text, is_certain=line.flag in (b"", b"x")),
                timestamp=now_ms,
                meta=None if self.submission is None else TerminalPartMeta(x_terminal=self.submission),
            )
        )

    def _close(self, monotonic_ms: int, exit_code: int | None = None) -> None:
        running, self._running = self._running, None
        if running is not None:
            duration_ms = max(0, monotonic_ms - running.started_ms)
            self._give(TerminalCommandFinishedAction(command_id=running.command_id, exit_code=exit_code, duration_ms=duration_ms))

    # --- data

    def _read(self, data: bytes) -> None:
        if self.at_prompt:
            seen = self._editor_tail + data
            on, off = seen.rfind(_EDITOR_ON), seen.rfind(_EDITOR_OFF)
            if on != off:
                self.editor_ready = on > off
            self._editor_tail = seen[1 - len(_EDITOR_ON) :]
        self._text.append(self._decoder.decode(data))

    def _give(self, action: StateAction) -> None:
        self._give_text()
        self._actions.append(action)

    def _give_text(self) -> None:
        if text := "".join(self._text):
            self._actions.append(TerminalDataAction(data=text))
        self._text.clear()

    def _taken(self) -> list[StateAction]:
        self._give_text()
        actions, self._actions = self._actions, []
        return actions

    # --- title and folder

    def _set_title(self, title: str, now_ms: int) -> None:
        times = self._title_times
        if times and now_ms < times[-1]:  # the clock was set back
            times.clear()
        self._waiting_title = None
        if title != self._title:
            if len(times) == TITLES_PER_SECOND and now_ms < times[0] + 1000:
                self._waiting_title = title
            else:
                self._give_title(title, now_ms)

    def _give_waiting_title(self, now_ms: int) -> None:
        if self._waiting_title is not None:
            self._set_title(self._waiting_title, now_ms)

    def _give_title(self, title: str, now_ms: int) -> None:
        self._title = title
        self._waiting_title = None
        self._title_times.append(now_ms)
        self._give(TerminalTitleChangedAction(title=title))

    def _set_cwd(self, path: bytes) -> None:
        uri = "file://" + quote_from_bytes(path)
        if path.startswith(b"/") and b"\0" not in path and uri != self._cwd:
            self._cwd = uri
            self._give(TerminalCwdChangedAction(cwd=uri))

    def _advised_path(self, advice: AdvisoryCwd) -> bytes:
        """The path that a program advises; empty if it is not one of this host."""
        if advice.code == 7:
            uri = _FILE_URI.fullmatch(advice.value)
            if uri is None or (uri[2] or b"").lower() not in self._hosts:
                return b""
            return unquote_to_bytes(uri[3]) if uri[1].lower() == b"file" else uri[3]
        quoted = _QUOTED.fullmatch(advice.value) if advice.code == 9 else None
        return advice.value if quoted is None else quoted[1]


def _unescape(text: bytes) -> bytes:
    """Undo the escaping of text in a mark, in one pass from left to right."""
    return _ESCAPED.sub(lambda match: bytes((int(match[1], 16),)) if match[1] else b"\\", text)
