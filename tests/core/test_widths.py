"""Widths: the table is sound, and is Unicode's where Python has the same version of it."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest

from jupyter_ext.core.widths import UNICODE_VERSION, WIDE_RANGES, ZERO_RANGES, char_width, parse_ranges, regex_class

GENERATOR = Path(__file__).parents[2] / "labextension" / "scripts" / "generate_widths.py"


@pytest.mark.parametrize("ranges", [ZERO_RANGES, WIDE_RANGES])
def test_ranges_ascend_and_do_not_overlap(ranges: str) -> None:
    pairs = parse_ranges(ranges)
    assert all(first <= last for first, last in pairs)
    assert all(last < first for (_, last), (first, _) in pairwise(pairs))


def test_no_character_is_both_wide_and_without_width() -> None:
    codes = [{code for first, last in parse_ranges(ranges) for code in (first, last)} for ranges in (ZERO_RANGES, WIDE_RANGES)]
    assert codes[0].isdisjoint(codes[1])
    assert {char_width(chr(code)) for code in codes[0]} == {0}
    assert {char_width(chr(code)) for code in codes[1]} == {2}


def test_a_regular_expression_finds_the_characters_below_the_astral_planes() -> None:
    wide = re.compile(f"[{regex_class(WIDE_RANGES)}]")
    assert all(bool(wide.match(chr(code))) == (char_width(chr(code)) == 2) for code in range(0xA0, 0x10000))


@pytest.mark.parametrize(
    ("char", "width"),
    [
        *(("a", 1), ("é", 1), ("\xad", 1), ("\U0001d49c", 1), ("\x07", 1)),
        *(("\u0301", 0), ("\u200d", 0), ("\ufe0f", 0), ("中", 2), ("\uff01", 2), ("😀", 2)),
    ],
)
def test_widths_of_some_characters(char: str, width: int) -> None:
    assert char_width(char) == width


@pytest.mark.skipif(unicodedata.unidata_version != UNICODE_VERSION, reason="this Python has another version of Unicode")
def test_the_table_is_unicodes() -> None:
    for code in range(0xA0, 0x110000):
        char = chr(code)
        is_mark = code != 0xAD and unicodedata.category(char) in ("Mn", "Me", "Cf")
        is_joined = is_mark or 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FB
        assert (char_width(char) == 0) == is_joined
        assert (char_width(char) == 2) == (not is_joined and unicodedata.east_asian_width(char) in "WF")


def test_most_characters_of_this_pythons_unicode_have_its_width() -> None:
    assigned = [char for char in map(chr, range(0xA0, 0x30000)) if unicodedata.category(char) not in ("Cn", "Co", "Cs")]
    wide = [char for char in assigned if unicodedata.east_asian_width(char) in "WF" and unicodedata.category(char) != "Mn"]
    assert sum(char_width(char) != 2 for char in wide) / len(wide) < 0.01


def test_the_pages_table_is_up_to_date() -> None:
    subprocess.run([sys.executable, str(GENERATOR), "--check"], check=True, timeout=60)
