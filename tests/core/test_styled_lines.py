"""Styled lines: styles, cuts and counts; what a screen leaves is in test_screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.core.styled_lines import (
    LINK,
    KeptLines,
    LogicalLine,
    eraser,
    format_bytes,
    format_count,
    left_out,
    line_text,
    linked,
    saved_line,
    sgr,
)
from jupyter_ext.protocol.display import StyledText, TextStyle

RED = TextStyle(fg="1")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (1250, "1.3 kB"), (9_949, "9.9 kB")),
        *((9_950, "10 kB"), (999_499, "999 kB"), (999_500, "1.0 MB"), (1_234_567, "1.2 MB"), (2_000_000_000, "2.0 GB")),
        *((5_000_000_000_000, "5000 GB"),),
    ],
)
def test_sizes_read_as_people_write_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_what_was_left_out_is_said_in_one_line() -> None:
    assert format_count(1_234_567) == "1,234,567"
    assert left_out(99_000, 1_200_000) == "… 99,000 lines (1.2 MB) left out …"
    assert left_out(1, 5) == "… 1 line (5 bytes) left out …"


@pytest.mark.parametrize("address", ["http://a", "HTTPS://a.b/?c=d&e#f", "mailto:a@b.c"])
def test_addresses_of_the_web_and_of_mail_are_links(address: str) -> None:
    assert LINK.fullmatch(address)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "https://a b", "https://a\n", "https://é", "file:///x", "https:x", "mailto:", ""]
)
def test_other_addresses_are_none(address: str) -> None:
    assert not LINK.fullmatch(address)


def test_a_pen_without_any_style_is_none() -> None:
    assert sgr(sgr(None, "31;1"), "") is None
    assert sgr(RED, "39") is None
    assert linked(None, None) is None
    assert linked(linked(RED, "http://a"), None) == RED
    assert eraser(RED) is None
    assert eraser(TextStyle(fg="1", bg="2", bold=True)) == TextStyle(bg="2")


@given(st.none() | st.just(RED), st.text(alphabet="0123456789;:", max_size=40))
def test_no_sgr_parameters_raise_an_error(pen: TextStyle | None, params: str) -> None:
    sgr(pen, params)


def test_a_palette_index_beyond_255_is_taken_modulo_256() -> None:
    assert sgr(None, "38;5;257") == TextStyle(fg="1")


def test_unwritten_cells_are_blanks_but_at_the_end() -> None:
    line = (("a\0b ", None), ("\0\0", TextStyle(bg="4")))
    assert line_text(line) == "a b "
    assert saved_line(line) == (StyledText(text="a b "), StyledText(text="  ", style=TextStyle(bg="4")))


@pytest.mark.parametrize("style", [None, RED, TextStyle(bold=True)])
def test_blanks_at_the_end_that_show_nothing_are_not_saved(style: TextStyle | None) -> None:
    assert saved_line((("a", None), (" \0", style))) == (StyledText(text="a"),)


@pytest.mark.parametrize("style", [TextStyle(underline=True), TextStyle(strike=True), TextStyle(inverse=True), TextStyle(bg="1")])
def test_blanks_at_the_end_that_show_something_are_saved(style: TextStyle) -> None:
    assert saved_line((("a", None), ("  ", style))) == (StyledText(text="a"), StyledText(text="  ", style=style))


@given(st.lists(st.text(alphabet="aé中", max_size=8), max_size=12), st.integers(2, 20))
def test_a_line_keeps_its_first_and_last_characters_whatever_its_runs(parts: list[str], max_chars: int) -> None:
    line = LogicalLine(max_chars)
    for part in parts:
        line.add(part, None)
    runs, kept_bytes, cut_bytes = line.finish()
    text = "".join(parts)
    assert kept_bytes + cut_bytes == len(text.encode())
    if len(text) <= max_chars:
        assert line_text(runs) == text
    else:
        shown = line_text(runs)
        head, tail = text[: max_chars - max_chars // 2], text[-(max_chars // 2) :]
        noun = "character" if len(text) - max_chars == 1 else "characters"
        assert shown == f"{head} … {len(text) - max_chars} {noun} left out … {tail}"


def test_a_copy_goes_on_by_itself() -> None:
    line = LogicalLine(10)
    line.add("ab", None)
    other = line.copy()
    other.add("cd", RED)
    assert line_text(line.finish()[0]) == "ab"
    assert line_text(other.finish()[0]) == "abcd"


@given(
    st.lists(st.text(alphabet="ab", max_size=6), min_size=1, max_size=30),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([0, 200, 5000]),
)
def test_many_lines_at_once_are_kept_as_they_are_one_by_one(texts: list[str], head: int, tail: int, max_bytes: int) -> None:
    one_by_one, at_once = KeptLines(head, tail, max_bytes), KeptLines(head, tail, max_bytes)
    for text in texts:
        one_by_one.add(((text, None),) if text else (), len(text))
    at_once.add_all("\r\n".join(texts), "\r\n", 100, None)
    assert (at_once.head, at_once.tail) == (one_by_one.head, one_by_one.tail)
    assert (at_once.omitted_lines, at_once.omitted_bytes) == (one_by_one.omitted_lines, one_by_one.omitted_bytes)


def test_a_style_goes_on_over_lines_that_are_left_out() -> None:
    kept = KeptLines(0, 1, 1000)
    link = TextStyle(href="http://a")
    assert kept.add_all("\x1b[31ma\nb\n\x1b[1mc\nd", "\n", 100, link) == TextStyle(fg="1", bold=True, href="http://a")
    assert kept.omitted_bytes == 6
    assert kept.add_all("e\n\x1b[mf\n\x1b[4mg\nh", "\n", 100, RED) == TextStyle(underline=True)
