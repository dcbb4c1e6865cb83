"""The screen: what is left of a stream of VT text, whatever its chunks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.core.screen import Screen
from jupyter_ext.protocol.display import SavedOutput

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "vt").glob("*.json"))

# What programs write, and what breaks parsers.
ATOMS = [
    *("a", "bc", "hello ", "中", "é", "e\u0301", "\u200b", "😀", "\U0001d49c", "x\x1b[5b", "y" * 30),
    *("\r\n", "\n", "\r", "\b", "\t", "\f", "\x00", "\x7f", "\x0e", "\x0f", "\x18"),
    *("\x84", "\x85", "\x90", "\x9b", "\x9c", "\x9d"),
    *("\x1b", "\x1b[", "\x1b[1;", "\x1b]", "\x1b]8;;", "\x1b]8;;http://x.y/\x1b\\", "\x1b]8;;\x07"),
    *("\x1b[m", "\x1b[31m", "\x1b[1;44m", "\x1b[38;5;200m", "\x1b[48:2::1:2:3m", "\x1b[0m"),
    *("\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1J", "\x1b[2J", "\x1b[3J"),
    *("\x1b[3X", "\x1b[2@", "\x1b[P", "\x1b[L", "\x1b[2M", "\x1b[S", "\x1b[T", "\x1b[2;4r", "\x1b[r"),
    *("\x1b[A", "\x1b[3B", "\x1b[C", "\x1b[2D", "\x1b[2E", "\x1b[F", "\x1b[5G", "\x1b[H"),
    *("\x1b[3;4H", "\x1b[3d", "\x1b[I", "\x1b[Z"),
    *("\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bc", "\x1b[!p", "\x1b(0", "\x1b(B", "\x1b)0"),
    *("\x1b[?6h", "\x1b[?6l", "\x1b[?7h", "\x1b[?7l", "\x1b[?47h", "\x1b[?1049h", "\x1b[?1049l"),
    *("\x1b[4h", "\x1b[4l", "\x1b[20h", "\x1b[20l", "\x1b]0;t\x07", "\x1bPq\x1b\\", "\x1b_a\x1b\\"),
    *("z\r\n" * 12, "w w\t\r\n" * 12, "\x1b[32mq\x1b[m\r\n" * 12, "l\n" * 16),
]
streams = st.lists(st.sampled_from(ATOMS) | st.text(max_size=5), max_size=40).map("".join)
sizes = st.fixed_dictionaries(
    {
        "cols": st.sampled_from([1, 2, 5, 20]),
        "rows": st.sampled_from([1, 2, 4]),
        "head_lines": st.sampled_from([0, 1, 3, 50]),
        "tail_lines": st.sampled_from([0, 1, 4, 50]),
        "line_chars": st.sampled_from([1, 4, 12, 1000]),
        "max_bytes": st.sampled_from([0, 300, 2000, 100_000]),
        "convert_eol": st.booleans(),
    }
)


def resolved(*chunks: str, **options: Any) -> Screen:
    screen = Screen(**options)
    for chunk in chunks:
        screen.feed(chunk)
    return screen


def lines(output: SavedOutput) -> list[str]:
    return ["".join(run.text for run in line) for line in (*output.head, *output.tail)]


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda match: "_" + match[0].lower(), name)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    options = {snake(name): value for name, value in case.get("options", {}).items()}
    screen = resolved(*case["chunks"], cols=case["cols"], rows=case["rows"], **options)
    assert screen.saved_output() == msgspec.convert(case["expected"], SavedOutput)
    assert screen.text() == case["text"]


@given(st.data(), streams, sizes)
def test_the_result_does_not_depend_on_the_chunks(data: st.DataObject, text: str, size: dict[str, Any]) -> None:
    whole = resolved(text, **size)
    pieces = Screen(**size)
    rest = text
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        pieces.feed(rest[:cut])
        pieces.saved_output()  # has it look at the chunk, and must change nothing
        rest = rest[cut:]
    assert pieces.saved_output() == whole.saved_output()
    assert pieces.text() == whole.text()


@given(streams, sizes)
def test_no_control_character_is_left_in_any_text(text: str, size: dict[str, Any]) -> None:
    screen = resolved(text, **size)
    control = re.compile(r"[\x00-\x1f\x7f-\x9f]")
    assert not control.search(screen.text().replace("\n", ""))
    for line in lines(screen.saved_output()):
        assert not control.search(line)


@given(st.lists(streams, max_size=30), sizes)
def test_what_is_kept_is_bounded(parts: list[str], size: dict[str, Any]) -> None:
    output = resolved(*parts, **size).saved_output()
    assert len(output.head) + len(output.tail) <= size["head_lines"] + size["tail_lines"]
    assert not output.tail or output.omitted_lines
    marks = 40 * (size["head_lines"] + size["tail_lines"])
    assert len("".join(lines(output)).encode()) <= size["max_bytes"] + marks


@given(st.text(alphabet=st.characters(), max_size=200))
def test_no_text_raises_an_error(text: str) -> None:
    resolved(text, cols=10, rows=3).text()


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert resolved("a\ud800b").text() == "a\ufffdb"


def test_a_line_of_two_million_characters_stays_small() -> None:
    output = resolved("x" * 2_000_000, "\r\n").saved_output()
    (line,) = output.head
    assert sum(len(run.text) for run in line) < 10_100
    assert output.omitted_bytes == 1_990_000
    assert (output.omitted_lines, output.tail) == (0, ())


def test_a_hundred_thousand_lines_keep_their_first_and_last_and_the_count() -> None:
    output = resolved("".join(f"{n}\r\n" for n in range(100_000))).saved_output()
    kept = lines(output)
    assert kept == [str(n) for n in (*range(500), *range(99_500, 100_000))]
    assert output.omitted_lines == 99_000
    assert output.omitted_bytes == sum(len(str(n)) + 1 for n in range(500, 99_500))


def test_no_lines_at_all_are_kept_where_none_are_wanted() -> None:
    output = resolved("a\r\n" * 200, rows=2, head_lines=0, tail_lines=0).saved_output()
    assert (output.head, output.tail, output.omitted_lines, output.omitted_bytes) == ((), (), 200, 400)


@pytest.mark.parametrize(
    "start",
    ["\x1b[2;3r", "\x1b[?1049h", "\x1b[4h", "\x1b[?7l", "\x1b(0", "above\r\nbelow\x1b[A\r", "  ", "\x1b[3;5r\x1b[r\x1b[2B"],
)
@pytest.mark.parametrize(
    "line",
    ["ab\r\n", "a\tb\r\n", "a\u0301b\r\n", "中\tb\r\n", "\x1b[31ma\tb\r\n", "ab\n", "a\tbcdefghij\r\n", "a\rb\r\n"],
)
def test_a_flood_at_once_leaves_what_it_leaves_line_by_line(start: str, line: str) -> None:
    for convert_eol in (False, True):
        size = {"cols": 12, "rows": 4, "head_lines": 3, "tail_lines": 5, "convert_eol": convert_eol}
        at_once = resolved(start + line * 40 + "end", **size)
        by_line = resolved(start, **size)
        for part in [line] * 40 + ["end"]:
            by_line.feed(part)
            by_line.text()
        assert at_once.saved_output() == by_line.saved_output()
        assert at_once.text() == by_line.text()


def test_a_screen_that_shrinks_keeps_the_line_of_the_cursor() -> None:
    screen = resolved("1\r\n2\r\n3\r\n4", rows=4)
    screen.resize(cols=80, rows=2)
    screen.feed("\x1b[1;1Hx")
    assert screen.text() == "1\n2\nx\n4"


def test_a_screen_that_shrinks_drops_the_rows_below_the_cursor_first() -> None:
    screen = resolved("1\r\n2", rows=6)
    screen.resize(cols=80, rows=2)
    screen.feed("\r\n3")
    assert screen.text() == "1\n2\n3"


def test_a_screen_that_grows_has_room_below() -> None:
    screen = resolved("1\r\n2\r\n3", rows=2)
    screen.resize(cols=80, rows=5)
    screen.feed("\x1b[5;1Hx")
    assert screen.text() == "1\n2\n3\n\n\nx"


def test_another_width_holds_from_the_next_character_on() -> None:
    screen = resolved("abcdefgh\r\n", cols=8)
    screen.resize(cols=4, rows=24)
    screen.feed("ijklmn\r\n")
    assert screen.text() == "abcdefgh\nijklmn\n"
    assert [len(row) for row in lines(screen.saved_output())] == [8, 6]


def test_the_alternate_screen_is_resized_too_and_leaves_nothing() -> None:
    screen = resolved("1\r\n2\r\n3", "\x1b[?1049h", "a\r\nb\r\nc\r\nd", rows=4)
    assert screen.is_alternate
    screen.resize(cols=80, rows=2)
    screen.feed("\x1b[?1049l!")
    assert not screen.is_alternate
    assert screen.text() == "1\n2\n3!"


def test_a_style_is_the_same_however_it_was_reached() -> None:
    output = resolved("\x1b[1;31ma\x1b[0m\x1b[31;1mb\x1b[39;22;1;31mc").saved_output()
    ((run,),) = output.head
    assert run.text == "abc"
