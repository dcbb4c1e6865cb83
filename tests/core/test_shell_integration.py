"""ShellIntegrationParser and CommandDetector: the case table of shell-integration.md 10.1 to 10.3, every cut, and evidence."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jupyter_ext.core import shell_integration
from jupyter_ext.core.shell_integration import (
    BODY_LIMIT_BYTES,
    AdvisoryCwd,
    CommandDetector,
    Data,
    Mark,
    Segment,
    ShellIntegrationParser,
    Title,
)
from jupyter_ext.protocol.reducers import terminal_reducer
from jupyter_ext.protocol.terminal import (
    StateAction,
    SubmittedBy,
    TerminalClearedAction,
    TerminalClientClaim,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCommandPart,
    TerminalCwdChangedAction,
    TerminalDataAction,
    TerminalPartMeta,
    TerminalState,
    TerminalSubmission,
    TerminalTitleChangedAction,
    TerminalUnclassifiedPart,
)

FIXTURE = Path(__file__).parent.parent / "fixtures" / "marks" / "byte_streams.json"
CASES: list[dict[str, Any]] = json.loads(FIXTURE.read_text())
MANY = settings(max_examples=150)


def mark(*fields: str, nonce: str = "NONCE") -> bytes:
    return b"\x1b]633;" + ";".join((*fields, nonce)).encode() + b"\x07"


A, C = mark("A"), mark("C")
EDITOR_ON, EDITOR_OFF = b"\x1b[?2004h", b"\x1b[?2004l"


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """The segments with adjacent data joined."""
    result: list[Segment] = []
    for segment in segments:
        if isinstance(segment, Data):
            assert segment.data
            assert type(segment.data) is bytes
            if result and isinstance(result[-1], Data):
                result[-1] = Data(result[-1].data + segment.data)
                continue
        result.append(segment)
    return result


def parse(chunks: Iterable[bytes], parser: ShellIntegrationParser | None = None) -> list[Segment]:
    """All segments of a stream that ends."""
    parser = parser or ShellIntegrationParser("NONCE")
    segments = [segment for chunk in chunks for segment in parser.feed(chunk)]
    return merged([*segments, *parser.flush()])


def passed(segments: Iterable[Segment]) -> bytes:
    return b"".join(segment.data for segment in segments if isinstance(segment, Data))


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data in pieces; some may be empty."""
    places = sorted(place % (len(data) + 1) for place in cuts)
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def single(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


class Terminal:
    """A parser and its detector, fed with bytes; time stands still unless it is moved."""

    def __init__(self, *, is_loaded: bool = True) -> None:
        self.parser = ShellIntegrationParser("NONCE")
        self.detector = CommandDetector(hostname="myhost", initial_title="sh")
        self.now_ms = 1_000_000
        self.monotonic_ms = 500
        if is_loaded:
            self.feed(A)

    def feed(self, data: bytes) -> list[StateAction]:
        return self.detector.actions(self.parser.feed(data), self.now_ms, self.monotonic_ms)

    def end(self) -> list[StateAction]:
        actions = self.detector.actions(self.parser.flush(), self.now_ms, self.monotonic_ms)
        return actions + self.detector.finish(self.now_ms, self.monotonic_ms)

    def ready(self) -> None:
        """The shell shows its prompt and its editor runs."""
        self.feed(A + EDITOR_ON + b"$ ")

    def line(self, told: str, *flag: str) -> str:
        """What is shown for a command whose line the shell told so; it runs, and the prompt comes back."""
        shown = self.start(told, *flag)
        self.feed(mark("D", "0"))
        self.ready()
        return shown

    def start(self, told: str, *flag: str) -> str:
        (executed,) = (
            action
            for action in self.feed(EDITOR_OFF + mark("E", told, *flag) + C)
            if isinstance(action, TerminalCommandExecutedAction)
        )
        return executed.command_line


def item(action: StateAction) -> dict[str, Any]:
    """An action, as the fixture writes it."""
    match action:
        case TerminalCommandDetectionAvailableAction():
            return {"type": "avail"}
        case TerminalCommandExecutedAction():
            return {"type": "exec", "line": action.command_line}
        case TerminalCommandFinishedAction():
            return {"type": "fin"} | ({} if action.exit_code is None else {"code": action.exit_code})
        case TerminalCwdChangedAction():
            return {"type": "cwd", "path": unquote(action.cwd.removeprefix("file://"))}
        case TerminalTitleChangedAction():
            return {"type": "title", "text": action.title}
    raise AssertionError(action)


def items(chunks: Iterable[bytes], *, is_loaded: bool) -> list[dict[str, Any]]:
    """The items of a stream that ends: data as it passed the parser, and what the detector made of the rest."""
    terminal = Terminal(is_loaded=is_loaded)
    result: list[dict[str, Any]] = []
    text: list[str] = []

    def add(data: bytes, actions: list[StateAction]) -> None:
        if data:
            if not result or result[-1]["type"] != "data":
                result.append({"type": "data", "data": ""})
            result[-1]["data"] += data.decode("latin-1")
        for action in actions:
            if isinstance(action, TerminalDataAction):
                assert action.data
                text.append(action.data)
            else:
                result.append(item(action))

    everything = b""
    for segment in [segment for chunk in chunks for segment in terminal.parser.feed(chunk)] + terminal.parser.flush():
        data = segment.data if isinstance(segment, Data) else b""
        everything += data
        add(data, terminal.detector.actions([segment], terminal.now_ms, terminal.monotonic_ms))
    add(b"", terminal.detector.finish(terminal.now_ms, terminal.monotonic_ms))
    assert "".join(text) == everything.decode("utf-8", "replace")
    return result


# --- 10.1 ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=CASES, ids=lambda case: case["id"])
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param  # type: ignore[no-any-return]


def test_a_case_holds_for_its_reads_for_single_bytes_and_for_one_read(case: dict[str, Any]) -> None:
    chunks = [chunk.encode("latin-1") for chunk in case["chunks"]]
    whole = b"".join(chunks)
    for reads in (chunks, single(whole), [whole]):
        assert items(reads, is_loaded=case["loaded"]) == case["expected"]


@given(case=st.sampled_from(CASES), cuts=st.lists(st.integers(0, 1000), max_size=6))
@MANY
def test_a_case_holds_for_any_cuts(case: dict[str, Any], cuts: list[int]) -> None:
    whole = b"".join(chunk.encode("latin-1") for chunk in case["chunks"])
    assert items(cut(whole, cuts), is_loaded=case["loaded"]) == case["expected"]


# --- every stream -------------------------------------------------------------------------------------------------------


C0 = bytes(byte for byte in range(0x20) if byte not in b"\x07\x18\x1a\x1b")


def payload_end(data: bytes, start: int) -> tuple[int, int, bool] | None:
    """Where a payload stops, where its end stops, and whether it is executed (2.1); None: it is not ended."""
    for i in range(start, len(data)):
        one, two = data[i : i + 1], data[i : i + 2]
        if one == b"\x07" or two in (b"\x1b\\", b"\xc2\x9c"):
            return i, i + (1 if one == b"\x07" else 2), True
        if one == b"\x1b":
            return None if len(two) == 1 else (i, i, True)
        if one in (b"\x18", b"\x1a") or two == b"\xc2\x9d":
            return i, i if two == b"\xc2\x9d" else i + 1, False
    return None


def reference(data: bytes, limit: int, window: int) -> list[Segment]:
    """The specification's reading of a whole stream, byte by byte (2.1, 2.3, 3.1, 3.2), with state FOREIGN written out."""
    out: list[Segment] = []
    i = 0

    def give(end: int) -> None:
        nonlocal i
        out.append(Data(data[i:end]))
        i = end

    while i < len(data):
        if data[i : i + 2] not in (b"\x1b]", b"\xc2\x9d"):
            give(i + 1)
            continue
        stop = i + 2
        while stop < len(data) and data[stop] in C0 + b"0123456789":
            stop += 1
        digits = data[i + 2 : stop].translate(None, C0)
        code = int(digits) if digits and stop - i - 2 <= limit else -1
        has_body = data[stop : stop + 1] == b";"
        if stop == len(data):
            give(len(data))
            break
        is_number = has_body or data[stop] in b"\x07\x18\x1a\x1b" or data[stop : stop + 2] in (b"\xc2\x9c", b"\xc2\x9d")
        body = stop + has_body
        end = payload_end(data, body)
        raw = data[body:] if end is None else data[body : end[0]]
        text = raw.translate(None, C0)
        key, equals, _ = raw[:window].translate(None, C0).partition(b"=")
        is_key = key in KEYS_1337 and (bool(equals) or (end is not None and len(raw) < window))
        is_ours = {9: key.startswith(b"9;"), 1337: is_key}.get(code, code in (633, 133, 7, 0, 2))
        if not is_number or not is_ours or len(raw) > limit or end is None or not end[2]:  # FOREIGN
            give(len(data) if end is None else end[1])
        elif code in (0, 2):
            give(end[1])
            out.append(Title("".join(c for c in text.decode("utf-8", "replace") if not "\x7f" <= c <= "\x9f")[:256]))
        else:
            i = end[1]
            fields = text.split(b";")
            if code == 633 and len(fields) > 1 and fields[-1] == b"NONCE":
                out.append(Mark(fields[0].decode("latin-1"), tuple(fields[1:-1])))
            elif code == 7:
                out.append(AdvisoryCwd(7, text))
            elif code == 9:
                out.append(AdvisoryCwd(9, text[2:]))
            elif code == 1337 and text.startswith(b"CurrentDir="):
                out.append(AdvisoryCwd(1337, text[11:]))
    return merged(out)


KEYS_1337 = (b"CurrentDir", b"RemoteHost", b"ShellIntegrationVersion", b"SetMark")
FRAGMENTS = [
    b"\x1b", b"]", b"\xc2", b"\x9d", b"\x9c", b"\xc2\x9d", b"\xc2\x9c", b"\x1b]", b"\x1b\\", b"\\", b"\x07", b"\x18", b"\x1a",
    b"\n", b"\x01", b"\0", b";", b"=", b"6", b"33", b"633", b"633;", b"0633;", b"133;", b"7;", b"9;", b"9;9;", b"9;4;", b"1337;",
    b"CurrentDir=", b"Current", b"File=", b"SetMark", b"0;", b"2;", b"1;", b"8;;", b"52;c;", b"NONCE", b";NONCE\x07", b"A", b"C",
    b"\xff", b"\xe2\x9c\xb3", b"\xc2\xa9", b"\x7f", b"\xc2\x85", b"text\r\n", b"\x1b[31m", b"\x1bPtmux;", A, C,
    mark("D", "0"), mark("E", "a\\x3bb"), b"\x1b]133;A\x07", b"\x1b]633;D;0\x07", b"\x1b]7;file:///x\x1b\\", b"\x1b]2;title\x07",
    b"0123456789" * 4,
]  # fmt: skip
STREAMS = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 2000), max_size=8), limit=st.sampled_from([BODY_LIMIT_BYTES, 30, 60]))
@example(stream=b"\x1b]633;" + b"x" * 30 + b"\xc2\x9c.", cuts=[], limit=30)
@example(stream=b"\x1b]633;" + b"x" * 31 + b"\xc2\x9c.", cuts=[], limit=30)
@example(stream=b"\x1b]9;" + b"0" * 40, cuts=[], limit=30)
@example(stream=b"\x1b]1337;SetMark" + b"\0" * 13 + b"\x07", cuts=[], limit=30)
@example(stream=b"\x1b]1337;SetMark" + b"\0" * 20 + b"x\x07", cuts=[], limit=30)
@example(stream=b"\x1b\xc2\x9d633;A;NONCE\x07", cuts=[], limit=60)
@example(stream=b"\x1b\x1b]633;A;NONCE\x07]633;A;NONCE\x07", cuts=[], limit=60)
@settings(max_examples=600)
def test_any_stream_is_read_as_the_specification_says_whatever_the_cuts(stream: bytes, cuts: list[int], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell_integration, "BODY_LIMIT_BYTES", limit)
        patch.setattr(shell_integration, "_KEY_WINDOW_BYTES", 20)
        expected = reference(stream, limit, 20)
        counts = set()
        for chunks in ([stream], single(stream), cut(stream, cuts)):
            parser = ShellIntegrationParser("NONCE")
            assert parse(chunks, parser) == expected
            counts.add((parser.untrusted, parser.aborted, parser.over_limit, parser.stripped_bytes))
        assert len(counts) == 1
        assert counts.pop()[3] == len(stream) - len(passed(expected))


STRIPPED = [
    A,
    C,
    mark("E", "ls"),
    b"\x1b]633;A\x07",
    b"\x1b]133;D;0\x1b\\",
    b"\xc2\x9d133;A\xc2\x9c",
    b"\x1b]7;x\x07",
    b"\x1b]9;9;y\x07",
]
KEPT = [
    b"text",
    b"\r\n",
    b"\x1b[1m",
    b"\x1b]8;;u\x1b\\",
    b"\x1b]0;t\x07",
    b"\x1b]9;4;1\x07",
    b"\xe2\x9d\x8c",
    b"\xc2\xa9",
    b"\xff",
]


@given(pieces=st.lists(st.sampled_from(STRIPPED + KEPT), max_size=20), cuts=st.lists(st.integers(0, 2000), max_size=8))
@MANY
def test_what_comes_out_is_the_input_without_the_stripped_sequences(pieces: list[bytes], cuts: list[int]) -> None:
    segments = parse(cut(b"".join(pieces), cuts))
    assert passed(segments) == b"".join(piece for piece in pieces if piece in KEPT)


@given(pieces=st.lists(st.sampled_from(STRIPPED + KEPT), max_size=20), cuts=st.lists(st.integers(0, 2000), max_size=8))
@MANY
def test_the_text_of_the_actions_is_the_decoded_data_whatever_the_cuts(pieces: list[bytes], cuts: list[int]) -> None:
    terminal = Terminal()
    actions = [action for chunk in cut(b"".join(pieces), cuts) for action in terminal.feed(chunk)] + terminal.end()
    texts = [action.data for action in actions if isinstance(action, TerminalDataAction)]
    assert all(texts)
    assert "".join(texts) == b"".join(piece for piece in pieces if piece in KEPT).decode("utf-8", "replace")


# --- the parser ---------------------------------------------------------------------------------------------------------


def test_a_block_without_introducers_is_passed_on_uncopied() -> None:
    for block in (b"plain\x1b[31m \xe2\x9d\x8c text", b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\"):
        (segment,) = ShellIntegrationParser("NONCE").feed(block)
        assert isinstance(segment, Data)
        assert segment.data is block


def test_nothing_in_gives_nothing() -> None:
    parser = ShellIntegrationParser("NONCE")
    assert parser.feed(b"") == []
    assert parser.flush() == []


def test_the_stream_may_go_on_after_a_flush() -> None:
    parser = ShellIntegrationParser("NONCE")
    assert parser.feed(b"\x1b]633;A;NON") == []
    assert parser.flush() == [Data(b"\x1b]633;A;NON")]
    assert parser.feed(b"CE\x07" + A) == [Data(b"CE\x07"), Mark("A")]


@pytest.mark.parametrize("end", [b"\x07", b"\x1b\\", b"\xc2\x9c"])
@pytest.mark.parametrize("start", [b"\x1b]633;", b"\xc2\x9d633;", b"\x1b]0633;", b"\x1b]6\x013\n3;"])
def test_a_mark_counts_in_every_spelling(start: bytes, end: bytes) -> None:
    assert parse([start + b"P;Cwd=/x;NONCE" + end]) == [Mark("P", (b"Cwd=/x",))]


@pytest.mark.parametrize("forged", ["A", "A;", "A;NONC", "A;NONCEE", "A;NONCE;", "A;nonce", "NONCE", "A;xNONCE", "A; NONCE"])
def test_a_mark_without_the_nonce_as_its_last_field_is_only_stripped(forged: str) -> None:
    for end in (b"\x07", b"\xc2\x9c"):
        parser = ShellIntegrationParser("NONCE")
        assert parse([b"a\x1b]633;" + forged.encode() + end + b"b"], parser) == [Data(b"ab")]
        assert (parser.untrusted, parser.stripped_bytes) == (1, 6 + len(forged) + len(end))


def test_a_mark_of_another_dialect_counts_neither_as_trusted_nor_as_forged() -> None:
    parser = ShellIntegrationParser("NONCE")
    assert parse([b"\x1b]133;A;NONCE\x07\x1b]0133;A;NONCE\x07"], parser) == []
    assert parser.untrusted == 0


def test_a_seam_that_looks_like_an_introducer_is_none() -> None:
    stream = b"\x1b" + b"\x1b]133;A\x07" + b"]633;A;NONCE\x07." + A
    assert parse([stream]) == [Data(b"\x1b]633;A;NONCE\x07."), Mark("A")]


def test_aborted_sequences_are_passed_on_and_counted() -> None:
    parser = ShellIntegrationParser("NONCE")
    stream = b"\x1b]633;A\x18\x1b]0;t\x1a\x1b]7;x\xc2\x9d633;A;NONCE\x07\x1b]2;t\xc2\x9d8;;\x07"
    assert parse([stream], parser) == [
        Data(b"\x1b]633;A\x18\x1b]0;t\x1a\x1b]7;x"),
        Mark("A"),
        Data(b"\x1b]2;t\xc2\x9d8;;\x07"),
    ]
    assert parser.aborted == 4


@pytest.mark.parametrize("size", [64 << 10, 1000])
def test_k_071_a_foreign_sequence_of_4_mib_flows(size: int) -> None:
    parser = ShellIntegrationParser("NONCE")
    stream = b"\x1b]52;c;" + b"A" * (4 << 20) + b"\x07"
    given_out = 0
    for start in range(0, len(stream), size):
        read = stream[start : start + size]
        assert parser.feed(read) == [Data(read)]
        given_out += len(read)
        assert parser.held_bytes <= 64
    assert given_out == len(stream)


def test_k_073_an_unended_hyperlink_holds_nothing_back() -> None:
    parser = ShellIntegrationParser("NONCE")
    read = b"text without end " * 4096
    assert parser.feed(b"\x1b]8;;") == [Data(b"\x1b]8;;")]
    for _ in range(48):
        assert parser.feed(read) == [Data(read)]
    assert parser.feed(A) == [Mark("A")]


@pytest.mark.parametrize("size", [4096, 64 << 10, 2 << 20])
def test_k_074_a_command_line_of_900_kib_is_exact(size: int) -> None:
    line = "echo é;\\\n" * 300 + "x" * (900 << 10)
    stream = mark("E", line.replace("\\", "\\\\").replace(";", "\\x3b").replace("\n", "\\x0a")) + C + mark("D", "0")
    terminal = Terminal()
    actions = [action for i in range(0, len(stream), size) for action in terminal.feed(stream[i : i + size])]
    assert [item(action) for action in actions] == [{"type": "exec", "line": line}, {"type": "fin", "code": 0}]


def test_a_held_mark_that_comes_in_small_reads_costs_no_quadratic_time() -> None:
    stream = mark("E", "x" * (900 << 10))

    def cost(size: int) -> float:
        parser = ShellIntegrationParser("NONCE")
        start = time.process_time()
        for i in range(0, len(stream), size):
            parser.feed(stream[i : i + size])
        return time.process_time() - start

    # 64 times the reads, each of which must cost a small constant: copying what is held would cost a thousand times as much.
    assert cost(64) < 300 * max(cost(4096), 0.002)


@pytest.mark.parametrize("size", [997, 4096, 3 << 20])
@pytest.mark.parametrize("head", [b"\x1b]633;A;", b"\x1b]133;", b"\xc2\x9d7;", b"\x1b]1337;CurrentDir=", b"\x1b]0;", b"\x1b]"])
def test_past_the_limit_all_is_passed_on_and_the_next_mark_works(head: bytes, size: int) -> None:
    filler = b"0" if head == b"\x1b]" else b"x"
    stream = head + filler * (BODY_LIMIT_BYTES + 1) + b"\x07"
    parser = ShellIntegrationParser("NONCE")
    segments = parse([*cut(stream, range(0, len(stream), size)), A], parser)
    assert segments == [Data(stream), Mark("A")]
    assert (parser.over_limit, parser.held_bytes) == (1, 0)


@pytest.mark.parametrize("size", [4096, 3 << 20])
def test_a_body_just_within_the_limit_counts(size: int) -> None:
    for head in (b"\x1b]633;", b"\x1b]0633;"):
        stream = head + b"E;" + b"x" * (BODY_LIMIT_BYTES - 8) + b";NONCE\x07"
        assert [type(segment) for segment in parse(cut(stream, range(0, len(stream), size)))] == [Mark]
    title = b"\x1b]0;" + b"x" * BODY_LIMIT_BYTES + b"\x07"
    assert parse(cut(title, range(0, len(title), size)))[-1] == Title("x" * 256)


def test_a_key_hidden_behind_controls_is_foreign_once_the_window_is_full() -> None:
    for start in (b"\x1b]1337;", b"\x1b]9;"):
        stream = start + b"\0" * 256 + b"."
        parser = ShellIntegrationParser("NONCE")
        assert parser.feed(stream) == [Data(stream)]
    assert parse([b"\x1b]9;" + b"\0" * 200 + b"9;/x\x07"]) == [AdvisoryCwd(9, b"/x")]


@pytest.mark.parametrize(
    ("stream", "held"),
    [
        (b"\x1b]9", 3),
        (b"\x1b]9;", 4),
        (b"\x1b]9;9", 5),
        (b"\x1b]9;9;/x", 8),
        (b"\x1b]9;4", 0),
        (b"\x1b]1337;", 7),
        (b"\x1b]1337;SetM", 11),
        (b"\x1b]1337;SetMark", 14),
        (b"\x1b]1337;SetMarks", 0),
        (b"\x1b]1337;F", 0),
        (b"\x1b]1337;CurrentDir=/", 19),
        (b"\x1b]0;title", 0),
        (b"\x1b]0;title\x1b", 1),
        (b"\x1b]0;title\xc2", 1),
        (b"\x1b]8;;u\x1b", 1),
        (b"a\xc2", 1),
        (b"\x1b]633", 5),
        (b"\x1b]634;", 0),
    ],
)
def test_bytes_are_held_only_while_it_is_open_whether_they_are_ours(stream: bytes, held: int) -> None:
    parser = ShellIntegrationParser("NONCE")
    assert passed(parser.feed(stream)) == stream[: len(stream) - held]
    assert parser.held_bytes == held


def test_only_four_keys_of_1337_are_stripped() -> None:
    stream = (
        b"\x1b]1337;ShellIntegrationVersion=5;shell=zsh\x07\x1b]1337;SetMark\xc2\x9c\x1b]1337;Copy=\x07\x1b]1337;\x07\x1b]9;9\x07"
    )
    assert parse([stream]) == [Data(b"\x1b]1337;Copy=\x07\x1b]1337;\x07\x1b]9;9\x07")]


def test_a_title_is_cleaned_and_cut_whatever_the_cuts() -> None:
    stream = b"\x1b]2;" + "\x7f\x9d✳é\x85".encode().replace(b"\xc2\x9d", b"") * 300 + b"\xe2\x9c\x07"
    for chunks in ([stream], single(stream)):
        assert parse(chunks)[-1] == Title("✳é" * 128)
    assert parse([b"\x1b]2;a\xe2\x9c\x07"])[-1] == Title("a�")
    assert parse([b"\x1b]2\x07"])[-1] == Title("")


def test_k_076_memory_stays_flat_over_many_reads() -> None:
    block = (b"text \x1b[32mgreen\x1b[0m \xe6\xbc\xa2 " * 50 + A + b"\x1b]0;t\x07\x1b]133;B\x07\x1b]8;;u\x1b\\" + C) * 30
    parser = ShellIntegrationParser("NONCE")

    def feed(mebibytes: int) -> None:
        data = block * ((64 << 10) // len(block) + 1)
        for _ in range(mebibytes * 16):
            parser.feed(data[: 64 << 10])

    feed(1)
    tracemalloc.start()
    feed(3)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 256 << 10


# --- commands -----------------------------------------------------------------------------------------------------------


def executed(actions: Iterable[StateAction]) -> list[TerminalCommandExecutedAction]:
    return [action for action in actions if isinstance(action, TerminalCommandExecutedAction)]


def test_ids_times_and_exit_codes_of_commands() -> None:
    terminal = Terminal()
    started = terminal.feed(mark("E", "make") + C + b"out")
    assert started == [
        TerminalCommandExecutedAction(command_id="c1", command_line="make", timestamp=1_000_000),
        TerminalDataAction(data="out"),
    ]
    assert terminal.detector.open_command_id == "c1"
    terminal.now_ms -= 5000
    terminal.monotonic_ms += 1234
    assert terminal.feed(mark("D", "3")) == [TerminalCommandFinishedAction(command_id="c1", exit_code=3, duration_ms=1234)]
    assert terminal.detector.open_command_id is None
    assert [action.command_id for action in executed(terminal.feed(C + C + A + C) + terminal.end())] == ["c2", "c3", "c4"]


@pytest.mark.parametrize(("code", "expected"), [("9999999999", 9999999999), ("10000000000", None), ("-0", 0), ("+1", None)])
def test_an_exit_code_has_at_most_ten_digits(code: str, expected: int | None) -> None:
    finished = Terminal().feed(C + mark("D", code))[-1]
    assert isinstance(finished, TerminalCommandFinishedAction)
    assert finished.exit_code == expected


def test_an_end_without_any_field_has_no_code() -> None:
    assert item(Terminal().feed(C + mark("D"))[-1]) == {"type": "fin"}


def test_a_rejected_line_takes_no_time_and_has_no_output() -> None:
    terminal = Terminal()
    assert terminal.feed(mark("E", "echo )", "x") + mark("D", "2")) == [
        TerminalCommandExecutedAction(command_id="c1", command_line="echo )", timestamp=1_000_000),
        TerminalCommandFinishedAction(command_id="c1", exit_code=2, duration_ms=0),
    ]
    assert terminal.feed(mark("D", "2")) == []


def test_a_line_without_a_start_is_forgotten_at_the_prompt() -> None:
    terminal = Terminal()
    (command,) = executed(terminal.feed(mark("E", "stale") + A + C))
    assert command.command_line == ""


def test_commands_carry_who_submitted_them_until_that_is_set_anew() -> None:
    terminal = Terminal()
    submission = TerminalSubmission(by=SubmittedBy(client_id="k", role="kernel"), run_id="r1")
    terminal.detector.submission = submission
    first = executed(terminal.feed(C + mark("D", "0") + A + mark("E", ")", "x") + mark("D", "2") + A))
    assert [action.meta for action in first] == [TerminalPartMeta(x_terminal=submission)] * 2
    terminal.detector.submission = None
    assert [action.meta for action in executed(terminal.feed(C))] == [None]


def test_detection_is_available_after_the_open_command_has_ended() -> None:
    terminal = Terminal(is_loaded=False)
    detector = terminal.detector
    terminal.feed(b"\x1b]633;A\x07")
    assert not detector.is_loaded
    terminal.feed(C)
    assert detector.is_loaded
    assert not detector.is_tracking
    assert [item(action)["type"] for action in terminal.feed(A + A)] == ["fin", "avail"]
    assert detector.is_tracking
    assert detector.at_prompt


def test_unknown_subcommands_and_properties_with_the_nonce_do_nothing() -> None:
    stream = mark("Z") + mark("B", "1") + mark("P", "Shell=bash 5.2") + mark("P") + b"\x1b]633;;NONCE\x07"
    assert Terminal().feed(stream) == []


def test_neighbouring_data_is_joined_and_never_empty() -> None:
    assert Terminal().feed(b"a\x1b]0;sh\x07b" + mark("Z") + b"c\x1b]7;file:///x\x07d") == [
        TerminalDataAction(data="a\x1b]0;sh\x07bcd")
    ]


def test_a_character_cut_by_a_part_goes_to_the_next_part() -> None:
    terminal = Terminal()
    actions = terminal.feed(b"\xe2" + C + b"\x9c\xb3\xff" + mark("D", "0") + b"\xe2\x9c")
    assert [action.data for action in actions if isinstance(action, TerminalDataAction)] == ["✳�"]
    assert isinstance(actions[0], TerminalCommandExecutedAction)
    assert terminal.end() == [TerminalDataAction(data="�")]


def test_the_end_of_the_stream_gives_the_rest_before_it_closes_the_command() -> None:
    terminal = Terminal()
    terminal.feed(C)
    terminal.monotonic_ms += 7
    actions = terminal.feed(b"out\xc2") + terminal.end()
    assert actions == [
        TerminalDataAction(data="out"),
        TerminalDataAction(data="�"),
        TerminalCommandFinishedAction(command_id="c1", duration_ms=7),
    ]
    assert terminal.detector.finish(0, 0) == []


def shown(state: TerminalState) -> list[tuple[str, str]]:
    return [
        (part.command_id, part.output) if isinstance(part, TerminalCommandPart) else ("", part.value)
        for part in state.content
        if isinstance(part, TerminalCommandPart | TerminalUnclassifiedPart)
    ]


def test_k_080_a_clear_during_a_command_leaves_its_end_without_a_part() -> None:
    terminal = Terminal()
    state = TerminalState(title="sh", content=(), claim=TerminalClientClaim(client_id="c"))
    for action in (*terminal.feed(b"$ " + C + b"before"), TerminalClearedAction()):
        state = terminal_reducer(state, action)
    assert state.content == ()
    later = terminal.feed(b"after" + mark("D", "0"))
    assert item(later[-1]) == {"type": "fin", "code": 0}
    for action in (*later, *terminal.feed(A + b"$ " + C + b"x")):
        state = terminal_reducer(state, action)
    assert shown(state) == [("", "after$ "), ("c2", "x")]


def test_k_081_the_part_of_a_running_command_is_incomplete_until_its_end() -> None:
    terminal = Terminal()
    state = TerminalState(title="sh", content=(), claim=TerminalClientClaim(client_id="c"))
    for action in terminal.feed(b"$ " + C + b"out"):
        state = terminal_reducer(state, action)
    late = state
    assert [part.is_complete for part in late.content if isinstance(part, TerminalCommandPart)] == [False]
    for action in terminal.feed(b"put" + mark("D", "0")):
        state, late = terminal_reducer(state, action), terminal_reducer(late, action)
    assert state == late
    assert shown(state) == [("", "$ "), ("c1", "output")]


def test_k_084_a_command_id_is_never_used_again_in_a_terminal() -> None:
    terminal = Terminal()
    ids = [action.command_id for _ in range(50) for action in executed(terminal.feed(C + mark("E", ")", "x") + A + C))]
    assert len(set(ids)) == len(ids) == 100


# --- titles and folder --------------------------------------------------------------------------------------------------


def titles(actions: Iterable[StateAction]) -> list[str]:
    return [action.title for action in actions if isinstance(action, TerminalTitleChangedAction)]


def test_k_077_of_1000_titles_in_a_second_at_most_6_come_and_the_last_is_the_last() -> None:
    terminal = Terminal()
    came: list[str] = []
    for number in range(1000):
        terminal.now_ms += 1
        came += titles(terminal.feed(b"\x1b]0;%d\x07" % number))
    due = terminal.detector.title_due_ms
    assert due is not None
    assert terminal.detector.pending_title(due - 1) is None
    last = terminal.detector.pending_title(due)
    assert last == TerminalTitleChangedAction(title="999")
    assert len(came) <= 5
    assert terminal.detector.title_due_ms is None
    assert terminal.detector.pending_title(due + 5000) is None


def test_a_title_that_waits_comes_with_the_next_output_once_it_is_due() -> None:
    terminal = Terminal()
    terminal.feed(b"".join(b"\x1b]0;%d\x07" % number for number in range(7)))
    terminal.now_ms += 999
    assert titles(terminal.feed(b"x")) == []
    terminal.now_ms += 1
    assert titles(terminal.feed(b"x")) == ["6"]


def test_a_title_that_waits_comes_at_the_end() -> None:
    terminal = Terminal()
    terminal.feed(b"".join(b"\x1b]0;%d\x07" % number for number in range(7)))
    assert titles(terminal.end()) == ["6"]


def test_a_title_that_waits_is_dropped_when_the_old_one_is_set_again() -> None:
    terminal = Terminal()
    assert titles(terminal.feed(b"".join(b"\x1b]0;%d\x07" % number for number in (0, 1, 2, 3, 4, 5, 4)))) == list("01234")
    assert terminal.detector.title_due_ms is None


def test_a_clock_that_is_set_back_does_not_hold_titles_back() -> None:
    terminal = Terminal()
    terminal.feed(b"".join(b"\x1b]0;%d\x07" % number for number in range(6)))
    terminal.now_ms -= 3_600_000
    assert titles(terminal.feed(b"x")) == ["5"]


def test_an_empty_title_brings_the_first_one_back() -> None:
    terminal = Terminal()
    assert titles(terminal.feed(b"\x1b]0;vim\x07\x1b]0;\x07\x1b]2;\x01\x07")) == ["vim", "sh"]


def uris(actions: Iterable[StateAction]) -> list[str]:
    return [action.cwd for action in actions if isinstance(action, TerminalCwdChangedAction)]


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        (b"7;file:///a", "file:///a"),
        (b"7;FILE://LocalHost/a%2fb%zz", "file:///a/b%25zz"),
        (b"7;file:/a", "file:///a"),
        (b"7;file:///a%ff\xfe", "file:///a%FF%FE"),
        (b"7;file:///a%0Ab", "file:///a%0Ab"),
        (b"7;file:///a%00b", None),
        (b"7;file://myhost.example/a", None),
        (b"7;file://me@myhost/a", None),
        (b"7;file://myhost", None),
        (b"7;file:a", None),
        (b"7;kitty-shell-cwd:///a%20b;c", "file:///a%2520b%3Bc"),
        (b"7;", None),
        (b"7", None),
        (b"9;9;/a b", "file:///a%20b"),
        (b'9;9;"/a"', "file:///a"),
        (b'9;9;"', None),
        (b"9;9;C:\\x", None),
        (b"1337;CurrentDir=/a=b", "file:///a%3Db"),
        (b"1337;CurrentDir=a", None),
        (b"1337;CurrentDir", None),
        (b"1337;RemoteHost=/a", None),
    ],
)
def test_a_folder_that_a_program_advises(advice: bytes, expected: str | None) -> None:
    actions = Terminal(is_loaded=False).feed(b"\x1b]" + advice + b"\x07")
    assert uris(actions) == ([expected] if expected else [])
    assert len(actions) == len(uris(actions))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/p%20q", "file:///p%2520q"),
        ("/ü", "file:///%C3%BC"),
        ("/x\\x3by\\x0az\\xff", "file:///x%3By%0Az%FF"),
        ("relative", None),
        ("/nul\\x00", None),
        ("", None),
    ],
)
def test_the_folder_of_a_trusted_mark_is_encoded_from_its_bytes(path: str, expected: str | None) -> None:
    assert uris(Terminal(is_loaded=False).feed(mark("P", f"Cwd={path}"))) == ([expected] if expected else [])


def test_a_folder_is_advised_only_until_the_first_trusted_mark_and_told_only_when_it_changes() -> None:
    terminal = Terminal(is_loaded=False)
    assert uris(terminal.feed(b"\x1b]7;file:///a\x07\x1b]7;file://localhost/a\x07" + mark("P", "Cwd=/a"))) == ["file:///a"]
    assert uris(terminal.feed(b"\x1b]7;file:///b\x07" + mark("P", "Cwd=/c"))) == ["file:///c"]


# --- the prompt ---------------------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(0, 100), max_size=5))
def test_the_line_editor_is_seen_across_cuts(cuts: list[int]) -> None:
    terminal = Terminal()
    for chunk in cut(EDITOR_ON[:4] + mark("Z") + EDITOR_ON[4:] + b"$ ", cuts):
        terminal.feed(chunk)
    assert terminal.detector.editor_ready


def test_the_line_editor_is_ready_from_its_start_after_the_prompt_until_a_line_is_sent() -> None:
    terminal = Terminal()
    detector = terminal.detector
    terminal.feed(EDITOR_ON + EDITOR_OFF)
    assert not detector.editor_ready
    terminal.feed(EDITOR_ON)
    assert detector.editor_ready
    detector.input_sent(b"ls")
    assert detector.editor_ready
    detector.input_sent(b"\r")
    assert not detector.editor_ready
    assert detector.at_prompt
    terminal.feed(C + EDITOR_ON)
    assert not detector.editor_ready
    assert not detector.at_prompt
    terminal.feed(A)
    assert not detector.editor_ready
    terminal.feed(EDITOR_ON)
    terminal.end()
    assert not detector.editor_ready
    assert not detector.at_prompt


def test_a_continuation_prompt_awaits_more_until_a_line_is_sent() -> None:
    terminal = Terminal(is_loaded=False)
    detector = terminal.detector
    terminal.feed(mark("F"))
    assert not detector.awaiting_more
    for after in (A, C, b""):
        terminal.feed(A + mark("F"))
        assert detector.awaiting_more
        terminal.feed(after)
        assert detector.awaiting_more is (after == b"")
    detector.input_sent(b"do")
    assert detector.awaiting_more
    detector.input_sent(b"\r")
    assert not detector.awaiting_more


@pytest.mark.parametrize(
    ("data", "chars"),
    [
        (b"ls", 2),
        ("é✳".encode(), 2),
        (b"\x1b[200~a\rb\t\x1b[201~", 3),
        (b"ab\x7f", 1),
        (b"\x1b[Ax", 1),
        (b"a\tb\x1b[D\x7f", 2),
        (b"a\x15b", 1),
    ],
)
def test_a_line_is_being_typed(data: bytes, chars: int) -> None:
    terminal = Terminal()
    terminal.detector.input_sent(data)
    assert terminal.detector.has_typed
    assert terminal.detector.typed_chars == chars
    terminal.feed(A)
    assert terminal.detector.has_typed
    terminal.feed(C)
    assert not terminal.detector.has_typed
    assert terminal.detector.typed_chars == 0


@pytest.mark.parametrize("recalled", [b"\x1b[A", b"\x1bOA", b"\x10", b"\x12", b"\x19", b"ls\x0f"])
def test_a_recalled_line_is_typed_too(recalled: bytes) -> None:
    terminal = Terminal()
    terminal.detector.input_sent(recalled)
    assert terminal.detector.has_typed
    assert terminal.detector.typed_chars == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ls\r",
        b"ls\n",
        b"ls\x03",
        b"ls\x15",
        b"l\x7f\x7f",
        b"\x1b[A\x15",
        b"\x1b[D\x0c",  # left, Ctrl-L
        b"\x1b[?1;2c\x1b[24;80R\x1b[I\x1b[O\x1b[<0;1;1M\x1b]11;rgb:0/0/0\x1b\\\x1bP>|xterm\x1b\\",  # nobody's typing
    ],
)
def test_no_line_is_being_typed(data: bytes) -> None:
    terminal = Terminal()
    terminal.detector.input_sent(data)
    assert not terminal.detector.has_typed


def test_what_a_program_is_typed_is_no_line_at_the_prompt() -> None:
    terminal = Terminal()
    terminal.feed(C)
    terminal.detector.input_sent(b"q")
    assert not terminal.detector.has_typed
    terminal.ready()
    assert not terminal.detector.has_typed


# --- evidence of the line (K-111 to K-117, flag u) ----------------------------------------------------------------------


@pytest.fixture
def terminal() -> Terminal:
    """A shell at its prompt after its first command, ``ls``."""
    terminal = Terminal()
    terminal.ready()
    terminal.detector.input_sent(b"ls\r")
    assert terminal.line("ls") == "ls"
    return terminal


def typed_line(terminal: Terminal, data: bytes, told: str, *flag: str) -> str:
    terminal.detector.input_sent(data)
    return terminal.line(told, *flag)


def test_k_111_an_exact_line_is_shown_as_it_was_told(terminal: Terminal) -> None:
    assert typed_line(terminal, b"echo a; echo b && false\r", "echo a\\x3b echo b && false") == "echo a; echo b && false"
    assert typed_line(terminal, b"whatever\r", "echo\\x20\\x5c\\\\") == "echo \\\\"


def test_k_112_a_repeated_line_is_shown_twice(terminal: Terminal) -> None:
    assert typed_line(terminal, b"echo hi\r", "echo hi") == "echo hi"
    assert typed_line(terminal, b"echo hi\r", "echo hi", "u") == "echo hi"


@pytest.mark.parametrize("enter", [b"\r", b"\n"])
def test_k_113_a_hidden_line_is_known_from_what_was_typed(terminal: Terminal, enter: bytes) -> None:
    assert typed_line(terminal, b" echo secret" + enter, "ls", "u") == " echo secret"


def test_k_117_a_line_told_without_a_flag_needs_no_evidence(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"\x1b[A\x1b[A\r")
    assert terminal.line("true") == "true"
    assert terminal.line("echo a") == "echo a"


def test_without_evidence_no_line_is_shown(terminal: Terminal) -> None:
    assert terminal.line("ls", "u") == ""
    (command,) = executed(terminal.feed(C))
    assert command.command_line == ""


def test_a_flag_from_a_newer_script_is_no_promise(terminal: Terminal) -> None:
    assert terminal.line("ls", "new") == ""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x1b[200~ echo pasted\x1b[201~\r", " echo pasted"),
        (b" ecx\x7fho\r", " echo"),
        (b"\x08\x7f x\r", " x"),
        (b"gone\x15 new\r", " new"),
        (b"\x1b[Agone\x15 new\r", " new"),
        (" grün\r".encode(), " grün"),
        (b"ls\r", "ls"),
        # History keys: the newest entry, if the line can be no other.
        (b"\x1b[A\r", "ls"),
        (b"\x1bOA\x1bOB\r", "ls"),
        (b"\x10\r", "ls"),
        (b"\x12l\r", "ls"),
        (b"!!\r", "ls"),
        (b"!l\r", "ls"),
        (b"^x^y\r", "ls"),
        # Nothing, where the keys leave it open.
        (b"\x1b[A\x01 \r", ""),
        (b"\x1b[A\x7f\r", ""),
        (b" \x1b[A\r", ""),
        (b" gr\xc3\xbc\x7fn\r", ""),
        (b" ec\t\r", ""),
        (b" ab\x1b[Dc\r", ""),
        (b" ab\x1b[Dc\x15 new\r", ""),
        (b" \x19\r", ""),
        (b" a\x1b[24;80R\r", ""),
        (b" \xff\r", ""),
        (b" a\xc2\x85b\r", ""),
        (b" echo !!\r", ""),
        (b"\r", ""),
        (b"   \r", ""),
        (b"\x1b[200~ a\tb\x1b[201~\r", ""),
        (b"\x1b[200~ a\x7fb\x1b[201~\r", ""),
        (b" " + b"x" * 70_000 + b"\r", ""),
    ],
)
def test_a_line_is_told_from_the_keys_exactly_or_not_at_all(terminal: Terminal, data: bytes, expected: str) -> None:
    assert typed_line(terminal, data, "ls", "u") == expected
    assert typed_line(terminal, b" after\r", "ls", "u") == " after"


def test_an_exclamation_mark_that_expands_nothing_is_evidence_of_a_repeat(terminal: Terminal) -> None:
    assert typed_line(terminal, b"echo 'a!'\r", "echo 'a!'") == "echo 'a!'"
    assert typed_line(terminal, b"echo 'a!'\r", "echo 'a!'", "u") == "echo 'a!'"


def test_a_line_that_no_history_holds_is_shown_without_a_candidate(terminal: Terminal) -> None:
    assert typed_line(terminal, b"ignored\r", "", "u") == "ignored"


def test_ctrl_o_runs_a_line_and_recalls_the_next(terminal: Terminal) -> None:
    assert typed_line(terminal, b"\x1b[A\x1b[A\x0f", "b") == "b"
    assert typed_line(terminal, b"\r", "c", "u") == ""


def test_lines_sent_at_once_are_told_one_by_one(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"sleep 1\r echo one\r echo two\r")
    assert terminal.line("sleep 1") == "sleep 1"
    # What is sent beyond a line may be read by its command, or be one more line of it. These two can be anything.
    assert terminal.line("sleep 1", "u") == ""


def test_a_repeat_sent_ahead_is_told(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"echo hi\recho hi\r")
    assert terminal.line("echo hi") == "echo hi"
    assert terminal.line("echo hi", "u") == "echo hi"
    assert typed_line(terminal, b" after\r", "echo hi", "u") == " after"


def test_a_hidden_line_sent_ahead_is_told_if_there_is_only_one(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"sleep 1\rcat\r hidden\r")
    assert terminal.line("sleep 1") == "sleep 1"
    assert terminal.line("cat") == "cat"
    assert terminal.line("cat", "u") == " hidden"


def test_a_first_line_is_not_taken_for_the_whole_of_a_longer_command(terminal: Terminal) -> None:
    assert typed_line(terminal, b" for i in 1 2\rdo echo $i\rdone\r", "ls", "u") == ""
    assert typed_line(terminal, b"pwd\r", "pwd") == "pwd"
    assert typed_line(terminal, b" make -j\rpwd\r", "pwd", "u") == " make -j"


def test_a_repeat_is_not_taken_for_the_whole_of_a_longer_command(terminal: Terminal) -> None:
    assert typed_line(terminal, b"cat 'a\rcat 'a\r", "cat 'a") == "cat 'a"
    assert typed_line(terminal, b"cat 'a\rcat 'a\r", "cat 'a", "u") == ""


def test_pasted_lines_run_one_by_one(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"\x1b[200~ echo p1\r\n echo p1\r\x1b[201~\r")
    start = terminal.feed(EDITOR_OFF + mark("E", "ls", "u") + C + mark("E", "ls", "u") + C)
    assert [command.command_line for command in executed(start)] == [" echo p1", " echo p1"]


def test_pasted_lines_of_which_one_was_recalled_are_not_told(terminal: Terminal) -> None:
    assert typed_line(terminal, b"\x1b[A\x1b[200~a\rb\x1b[201~\r", "ls", "u") == ""


def test_an_answer_to_a_program_is_never_shown_as_a_line(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"sudo id\rhunter1\r")
    assert terminal.line("sudo id") == "sudo id"
    assert typed_line(terminal, b"sudo id\r", "sudo id", "u") == "sudo id"
    terminal.detector.input_sent(b"sudo id\r")
    assert terminal.start("sudo id", "u") == "sudo id"
    terminal.detector.input_sent(b"hunter2\r")
    terminal.feed(mark("D", "0"))
    terminal.ready()
    assert terminal.line("sudo id", "u") == ""
    assert terminal.line("", "u") == ""


def test_after_a_program_was_typed_to_a_line_must_be_one_that_the_history_leaves_out(terminal: Terminal) -> None:
    def run_less() -> None:
        terminal.detector.input_sent(b"less x\r")
        terminal.start("less x")
        terminal.detector.input_sent(b" jq")
        terminal.feed(mark("D", "0"))
        terminal.ready()

    run_less()
    assert typed_line(terminal, b"less x\r", "less x", "u") == "less x"
    run_less()
    assert typed_line(terminal, b" hidden\r", "less x", "u") == " hidden"
    run_less()
    assert typed_line(terminal, b"ho hi\r", "less x", "u") == ""
    assert typed_line(terminal, b"pwd\r", "pwd") == "pwd"
    run_less()
    assert typed_line(terminal, b"anything\r", "", "u") == ""
    assert typed_line(terminal, b"pwd\r", "pwd") == "pwd"
    assert typed_line(terminal, b" sure again\r", "pwd", "u") == " sure again"


def test_a_blank_typed_to_a_program_may_lead_the_next_line(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"less x\r")
    terminal.start("less x")
    terminal.detector.input_sent(b"q ")
    terminal.feed(mark("D", "0"))
    terminal.ready()
    assert typed_line(terminal, b"less x\r", "less x", "u") == ""


def test_a_half_line_sent_ahead_makes_the_next_one_doubtful(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"sleep 1\rec")
    terminal.start("sleep 1")
    terminal.feed(mark("D", "0"))
    terminal.ready()
    assert typed_line(terminal, b"ho hi\r", "sleep 1", "u") == ""


def test_input_before_the_first_prompt_is_doubtful() -> None:
    terminal = Terminal(is_loaded=False)
    terminal.detector.input_sent(b"echo early\r")
    terminal.ready()
    assert terminal.line("echo early") == "echo early"
    assert typed_line(terminal, b"ho\r", "echo early", "u") == ""


def test_empty_lines_are_answered_by_a_prompt_and_are_no_commands(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"\r  \r# note\r")
    for _ in range(3):
        terminal.ready()
    assert typed_line(terminal, b" hidden\r", "ls", "u") == " hidden"


def test_empty_lines_are_no_candidates_where_it_is_doubtful(terminal: Terminal) -> None:
    terminal.feed(C)
    terminal.detector.input_sent(b"q")
    terminal.feed(mark("D", "0"))
    terminal.ready()
    terminal.detector.input_sent(b"\r")
    terminal.ready()
    assert typed_line(terminal, b" hidden\r", "ls", "u") == " hidden"


def test_a_rejected_line_uses_up_what_was_typed(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"echo )\r")
    terminal.feed(mark("E", "echo )", "x") + mark("D", "2"))
    terminal.detector.input_sent(b" hidden\r")
    terminal.ready()
    assert terminal.line("ls", "u") == " hidden"


def test_ctrl_c_drops_what_was_typed(terminal: Terminal) -> None:
    terminal.detector.input_sent(b"\x1b[200~ech\x03 hidden\r")
    terminal.ready()
    assert terminal.line("ls", "u") == " hidden"


def test_ctrl_c_at_the_prompt_ends_all_doubt(terminal: Terminal) -> None:
    terminal.feed(C)
    terminal.detector.input_sent(b"q ")
    terminal.feed(mark("D", "0"))
    terminal.ready()
    terminal.detector.input_sent(b"\x03")
    terminal.ready()
    assert typed_line(terminal, b" hidden\r", "ls", "u") == " hidden"


def test_too_many_lines_are_not_told(terminal: Terminal) -> None:
    terminal.detector.input_sent(b" hidden\r" * 300)
    assert terminal.line("ls", "u") == ""


@given(
    typed=st.lists(
        st.sampled_from(
            [b"ls", b" x", b"x", b"\r", b"\x03", b"\x15", b"\x7f", b"\x1b[A", b"\x1b[200~", b"\x1b[201~", b"\t", b"!"]
        ),
        max_size=12,
    ),
    output=st.lists(
        st.sampled_from([A, C, mark("D", "0"), mark("E", "ls", "u"), mark("E", "ls"), mark("F"), EDITOR_ON]), max_size=12
    ),
)
@MANY
def test_no_order_of_input_and_output_is_an_error(typed: list[bytes], output: list[bytes]) -> None:
    terminal = Terminal()
    for data, out in zip([*typed, *[b""] * 12], [*output, *[b""] * 12], strict=False):
        terminal.detector.input_sent(data)
        for command in executed(terminal.feed(out)):
            assert command.command_line == "" or command.command_line.strip()
