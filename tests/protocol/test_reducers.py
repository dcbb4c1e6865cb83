"""The reducers, by AHP's fixtures and our own, and trimming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.protocol.messages import decode_action, decode_result, encode, to_builtins
from jupyter_ext.protocol.reducers import content_chars, part_text, root_reducer, terminal_reducer, trim_content
from jupyter_ext.protocol.terminal import (
    RootState,
    TerminalClientClaim,
    TerminalCommandPart,
    TerminalContentPart,
    TerminalDataAction,
    TerminalInputAction,
    TerminalState,
    TerminalUnclassifiedPart,
    UnknownAction,
    UnknownPart,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = sorted([*FIXTURES.glob("ahp/reducers/*.json"), *FIXTURES.glob("reducers/*.json")])
REDUCERS: dict[str, tuple[Any, Any]] = {"terminal": (TerminalState, terminal_reducer), "root": (RootState, root_reducer)}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_a_reducer_fixture_gives_its_expected_state(path: Path) -> None:
    case = json.loads(path.read_text())
    cls, reduce = REDUCERS[case["reducer"]]
    state = decode_result(encode(case["initial"]), cls)
    for action in case["actions"]:
        state = reduce(state, decode_action(encode(action)))
    assert without_nulls(to_builtins(state)) == without_nulls(case["expected"])


def terminal(*content: TerminalContentPart) -> TerminalState:
    return TerminalState(title="t", content=content, claim=TerminalClientClaim(client_id="c1"))


def test_an_action_that_changes_nothing_gives_the_same_object() -> None:
    state, root = terminal(), RootState(agents=())
    assert terminal_reducer(state, TerminalInputAction(data="x")) is state
    assert terminal_reducer(state, UnknownAction({"type": "terminal/future"})) is state
    assert root_reducer(root, TerminalDataAction(data="x")) is root


@given(st.lists(st.text(max_size=5), max_size=8))
def test_output_reduces_to_the_same_content_however_it_is_cut(pieces: list[str]) -> None:
    in_pieces = whole = terminal(TerminalUnclassifiedPart(value=""))
    for piece in pieces:
        in_pieces = terminal_reducer(in_pieces, TerminalDataAction(data=piece))
    assert in_pieces == terminal_reducer(whole, TerminalDataAction(data="".join(pieces)))


# --- trimming -----------------------------------------------------------------------------------------------------------


def plain(value: str) -> TerminalUnclassifiedPart:
    return TerminalUnclassifiedPart(value=value)


def running(output: str) -> TerminalCommandPart:
    return TerminalCommandPart(command_id="c1", command_line="x", output=output, timestamp=0, is_complete=False)


def test_content_within_both_limits_is_not_touched() -> None:
    content = (plain("abc"), running("de"))
    assert trim_content(content, 5, 2) is content


def test_whole_parts_go_from_the_front_first() -> None:
    assert trim_content((plain("a" * 50), plain("b" * 50), plain("c" * 30)), 100, 10) == (plain("b" * 50), plain("c" * 30))


def test_too_many_parts_are_trimmed_to_four_fifths() -> None:
    parts = tuple(plain(str(n)) for n in range(11))
    assert trim_content(parts, 1000, 10) == parts[3:]


def test_a_running_command_stays_with_less_of_its_output() -> None:
    assert trim_content((plain("a" * 50), running("one\ntwo\nthree\n" * 10)), 50, 10) == (
        running("two\nthree\n" + "one\ntwo\nthree\n" * 2),
    )


def test_the_cut_is_at_a_line_start() -> None:
    assert trim_content((plain("0123456789\n" * 10),), 100, 10) == (plain("0123456789\n" * 7),)


def test_a_line_without_end_is_cut_where_it_must_be() -> None:
    assert trim_content((plain("x" * 110),), 100, 10) == (plain("x" * 80),)


def test_the_newline_at_the_very_end_is_no_place_to_cut() -> None:
    assert trim_content((plain("x" * 109 + "\n"),), 100, 10) == (plain("x" * 79 + "\n"),)


def test_the_cut_is_never_inside_an_escape_sequence() -> None:
    text = "x" * 28 + "\x1b[38;5;1m" + "y" * 80
    assert trim_content((plain(text),), 100, 10) == (plain("y" * 80),)
    assert trim_content((plain("x" * 20 + "\x1b[31m" + "y" * 85),), 100, 10) == (plain("y" * 80),)


def test_an_escape_sequence_without_end_does_not_eat_the_text() -> None:
    (part,) = trim_content((plain("x" * 20 + "\x1b[" + "1" * 88),), 100, 10)
    assert len(part_text(part)) > 0


def test_a_part_of_an_unknown_type_counts_as_no_text() -> None:
    unknown = UnknownPart({"type": "future", "value": "long"})
    assert part_text(unknown) == ""
    assert trim_content((unknown, plain("x" * 101)), 100, 10) == (plain("x" * 80),)
    assert trim_content((unknown,), -1, 10) == (unknown,)


parts = st.lists(
    st.builds(plain, st.text("ab\n\x1b[1m", max_size=60)) | st.builds(running, st.text("ab\n\x1b[1m", max_size=60)), max_size=12
).map(tuple)


@given(parts, st.integers(1, 200), st.integers(1, 10))
def test_trimming_keeps_the_newest_text_within_both_limits(
    content: tuple[TerminalContentPart, ...], chars: int, count: int
) -> None:
    trimmed = trim_content(content, chars, count)
    assert content_chars(trimmed) <= chars
    assert len(trimmed) <= count
    assert "".join(map(part_text, content)).endswith("".join(map(part_text, trimmed)))
    assert [type(part) for part in trimmed] == [type(part) for part in content[len(content) - len(trimmed) :]]
