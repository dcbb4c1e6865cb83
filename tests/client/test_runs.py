"""Transcript: what is kept of a command's output. Runs themselves are tested through Terminal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ext.client.runs import HEAD_CHARS, TAIL_CHARS, Command, Run, Transcript
from jupyter_ext.protocol.terminal import TerminalCommandPart


def transcript(*chunks: str) -> Transcript:
    kept = Transcript(cols=80, rows=24)
    for chunk in chunks:
        kept.feed(chunk)
    return kept


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Mn", "Me"]), max_size=5), max_size=20))
def test_short_output_is_kept_whole_whatever_the_cuts(words):
    text = " \r\n".join(words)
    assert transcript(*[f"{c}" for c in text]).text() == transcript(text).text()
    assert not transcript(text).is_cut


def test_redraws_and_styles_are_resolved_in_the_text():
    assert transcript("  1%\r 10%", "\r\x1b[1m100%\x1b[0m\r\n").text() == "100%\n"


@settings(max_examples=6)
@given(st.integers(1000, 200_000))
def test_the_cuts_of_a_flood_make_no_difference_to_what_is_kept_of_its_ends(size):
    text = "".join(f"line {number}\r\n" for number in range(100_000))
    kept = transcript(*(text[start : start + size] for start in range(0, len(text), size))).text()
    head, _, tail = kept.partition("\n… ")
    assert text.replace("\r\n", "\n").startswith(head)
    assert text.replace("\r\n", "\n").endswith(tail.partition("…\n")[2])
    assert len(tail) >= TAIL_CHARS * 0.8
    assert len(kept) <= HEAD_CHARS + 2 * TAIL_CHARS


def test_one_endless_line_is_kept_at_both_ends():
    kept = transcript("a" * 10, *["x" * 65_536] * 40, "z" * 10, "\r\n")
    text = kept.text()
    assert kept.is_cut
    assert text.startswith("a" * 10)
    assert text.endswith("z" * 10 + "\n")
    assert len(text) >= 200_000


def test_the_saved_form_counts_every_line_that_it_lacks():
    kept = transcript(*["x\r\n" * 10_000] * 20)
    saved = kept.saved_output()
    assert len(saved.head) + len(saved.tail) + saved.omitted_lines == 200_000


@given(st.integers(0, 3000), st.integers(1, 400))
def test_the_last_characters_begin_at_a_line_where_one_is_near(lines, max_chars):
    text = "".join(f"line {number}\r\n" for number in range(lines))
    last, before = transcript(text).last(max_chars)
    assert len(last) <= max_chars
    assert before + len(last) == len(text)
    assert text.endswith(last)
    assert last == "" or before == 0 or last.startswith("line") or len(last) < 12


def test_the_last_characters_of_a_flood_are_counted_from_its_start():
    last, before = transcript(*["x" * 65_536] * 40).last(1000)
    assert (len(last), before) == (1000, 40 * 65_536 - 1000)


@given(st.lists(st.text("ab\n", max_size=3000), max_size=4), st.text("cd\n", max_size=50), st.integers(0, 3000))
def test_after_an_outage_what_is_new_is_appended_where_it_belongs(seen, missed, trimmed):
    kept = transcript(*seen)
    before = "".join(seen)
    kept.resume(before[min(trimmed, max(0, len(before) - 2000)) :] + missed)
    assert kept.text() == transcript(before + missed).text()


def test_what_was_trimmed_in_an_outage_is_a_gap_that_says_so():
    kept = transcript("1\r\n2\r\n")
    kept.resume("8\r\n9\r\n")
    assert kept.text() == "1\n2\n\n… output lost while disconnected …\n8\n9\n"


def test_a_part_of_a_state_becomes_a_command():
    part = TerminalCommandPart(
        command_id="c1", command_line="ls", output="a\r\n", timestamp=5, is_complete=True, exit_code=0, duration_ms=7
    )
    saved = Command.of_part(part, cols=80, rows=24).saved(end="timeout")
    assert (saved.command_line, saved.exit_code, saved.duration_ms, saved.end) == ("ls", 0, 7, "timeout")
    assert saved.output.head[0][0].text == "a"


def test_a_run_before_its_start_is_saved_as_its_text(client):
    saved = Run(client, "ahp-terminal:/t", "make").bundle("t").commands
    assert [(command.command_line, command.is_complete, command.exit_code) for command in saved] == [("make", False, None)]
