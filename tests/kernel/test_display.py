"""The saved forms: JSON, HTML for pages without us, plain text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbconvert import HTMLExporter, MarkdownExporter

from jupyter_ext.core.screen import Screen
from jupyter_ext.kernel.display import command_html, command_text, duration_text, mimebundle, outcome_text
from jupyter_ext.protocol.display import COMMAND_MIME, CommandBundle, SavedCommand, SavedOutput, StyledText, TextStyle

OUTCOMES = json.loads((Path(__file__).parents[1] / "fixtures" / "display" / "outcomes.json").read_text(encoding="utf-8"))


def saved(vt: str = "hi\r\n", line: str = "echo hi", **members: Any) -> SavedCommand:
    screen = Screen()
    screen.feed(vt)
    known = {"command_id": "c1", "timestamp": 1, "is_complete": True, "exit_code": 0, "duration_ms": 12, **members}
    return SavedCommand(**{"output": screen.saved_output(), "command_line": line, **known})


def bundle(*commands: SavedCommand) -> CommandBundle:
    return CommandBundle(version=1, terminal="ahp-terminal:/t", title="t", commands=commands)


def runs(*lines: list[StyledText]) -> SavedOutput:
    return SavedOutput(head=tuple(map(tuple, lines)), tail=(), omitted_lines=0, omitted_bytes=0)


class Reader(HTMLParser):
    """What a page without styles shows, and the tags with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("case", OUTCOMES, ids=lambda case: case["text"])
def test_outcomes_read_as_on_the_page(case: dict[str, Any]) -> None:
    known = {"commandId": "c1", "commandLine": "x", "timestamp": 1, "isComplete": True}
    output = {"head": [], "tail": [], "omittedLines": 0, "omittedBytes": 0}
    assert outcome_text(msgspec.convert({**known, "output": output, **case["command"]}, SavedCommand)) == case["text"]


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_950, "1 min 0 s"), (7_260_000, "2 h 1 min")]
)
def test_durations(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_all_three_forms_are_there_and_the_json_is_as_on_the_wire() -> None:
    forms = mimebundle(bundle(saved("\x1b[31mred\x1b[0m\r\n")))
    assert list(forms) == [COMMAND_MIME, "text/html", "text/plain"]
    (command,) = forms[COMMAND_MIME]["commands"]
    assert [*map(list, command["output"]["head"])] == [[{"text": "red", "style": {"fg": "1"}}]]
    assert command["exitCode"] == 0
    assert "\\u001b" not in json.dumps(forms)


def test_plain_text_is_command_output_and_outcome() -> None:
    text = command_text(bundle(saved("a\r\n\r\nb", exit_code=3), saved("", "for i in 1; do\n  :\ndone", duration_ms=None)))
    assert text == "$ echo hi\na\n\nb\n[exit 3, 12 ms]\n$ for i in 1; do\n  :\ndone\n[exit 0]"


def test_plain_text_says_what_was_left_out() -> None:
    screen = Screen(rows=2, head_lines=1, tail_lines=1)
    screen.feed("".join(f"{n}\r\n" for n in range(10)))
    text = command_text(bundle(saved(output=screen.saved_output())))
    assert text == "$ echo hi\n0\n… 8 lines (16 bytes) left out …\n9\n[exit 0, 12 ms]"


def test_a_command_line_with_control_characters_shows_none_of_them() -> None:
    forms = mimebundle(bundle(saved(line="printf '\x1b[31m'\r\n\tls\x9b")))
    for text in (forms["text/plain"], forms["text/html"]):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    assert forms["text/plain"].startswith("$ printf '\ufffd[31m'\n\tls\ufffd\n")


HOSTILE = "<img src=x onerror=alert(1)></pre><script>alert(2)</script>&\"'"


def test_output_command_and_outcome_are_never_markup() -> None:
    html = command_html(bundle(saved(HOSTILE, HOSTILE, end=HOSTILE)))
    page = Reader(html)
    assert {tag for tag, _ in page.tags} <= {"div", "pre", "b", "span", "i", "a"}
    assert page.text.count(HOSTILE) == 3


@given(st.text(), st.text())
def test_any_text_comes_out_as_it_went_in(line: str, output: str) -> None:
    page = Reader(command_html(bundle(saved(output, line))))
    assert {tag for tag, _ in page.tags} <= {"div", "pre", "b", "span", "i"}


def test_without_styles_the_html_reads_as_command_outcome_and_output() -> None:
    assert Reader(command_html(bundle(saved("a\r\nb\r\n", exit_code=3)))).text == "$ echo hi  [exit 3 · 12 ms]\na\nb"


def test_the_html_has_no_script_class_or_outside_address() -> None:
    page = Reader(command_html(bundle(saved("\x1b[1;3;4;9;31mx\x1b[0m \x1b[44my\x1b[0m\r\n"))))
    for _, attributes in page.tags:
        assert attributes.keys() <= {"style"}
        assert "url(" not in (attributes.get("style") or "")


def test_only_links_of_the_web_and_of_mail_are_links() -> None:
    good, bad = TextStyle(href='https://example.org/?a=1&b="2'), TextStyle(href="javascript:alert(1)")
    output = runs([StyledText(text="docs", style=good), StyledText(text="bad", style=bad)])
    page = Reader(command_html(bundle(saved(output=output))))
    assert [attributes for tag, attributes in page.tags if tag == "a"] == [
        {"href": good.href, "target": "_blank", "rel": "noopener noreferrer", "style": "color:#4a7fd1"}
    ]
    assert page.text.endswith("docsbad")


def test_a_link_keeps_its_own_colour() -> None:
    output = runs([StyledText(text="x", style=TextStyle(href="https://a/", fg="1", bold=True))])
    assert 'style="color:#c9453d;font-weight:bold">x</a>' in command_html(bundle(saved(output=output)))


@pytest.mark.parametrize(
    ("style", "css"),
    [
        (TextStyle(fg="1"), "color:#c9453d"),
        (TextStyle(fg="#010203"), "color:#010203"),
        (TextStyle(fg="1", bg="4"), "color:#b3261e;background-color:#1f5fbf"),
        (TextStyle(bg="15"), "color:#000000;background-color:#ffffff"),
        (TextStyle(bg="#000080"), "color:#ffffff;background-color:#000080"),
        (TextStyle(inverse=True), "color:#ffffff;background-color:#6b6b6b"),
        (TextStyle(inverse=True, fg="2"), "color:#ffffff;background-color:#1e7d1e"),
        (TextStyle(bold=True, dim=True, italic=True), "font-weight:bold;opacity:.65;font-style:italic"),
        (TextStyle(underline=True, strike=True), "text-decoration:underline line-through"),
        (TextStyle(strike=True), "text-decoration:line-through"),
        (TextStyle(hidden=True), "visibility:hidden"),
        (TextStyle(fg="16"), None),
        (TextStyle(fg="red;background:url(x)", bg="#12"), None),
        (TextStyle(blink=True), None),
    ],
)
def test_styles_are_inline_and_readable_on_any_page(style: TextStyle, css: str | None) -> None:
    html = command_html(bundle(saved(output=runs([StyledText(text="x", style=style)]))))
    expected = f'<span style="{css}">x</span>' if css else ">x</pre>"
    assert expected in html


@pytest.mark.parametrize(
    ("members", "color"),
    [
        ({"exit_code": 0}, "#1a7f37"),
        ({"exit_code": 1}, "#cf222e"),
        ({"exit_code": None}, "#656d76"),
        ({"is_complete": False}, "#656d76"),
        ({"end": "timeout"}, "#cf222e"),
        ({"end": "lost", "is_complete": False}, "#656d76"),
    ],
)
def test_the_outcomes_colour_says_success_failure_or_neither(members: dict[str, Any], color: str) -> None:
    assert f"background:{color}" in command_html(bundle(saved(**members)))


def notebook(*outputs: CommandBundle) -> Any:
    displays = [nbformat.v4.new_output("display_data", mimebundle(output)) for output in outputs]
    cells = [nbformat.v4.new_code_cell("%%terminal", outputs=[display]) for display in displays]
    # as it is after it went through a file
    return nbformat.reads(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), as_version=4)


def test_a_notebook_with_a_bundle_is_valid() -> None:
    nbformat.validate(notebook(bundle(saved())))


def test_blank_lines_do_not_end_the_html_of_a_markdown_export() -> None:
    text = "first\r\n\r\n   \r\n# no heading\r\n"
    body, _ = MarkdownExporter().from_notebook_node(notebook(bundle(saved(text, "echo\n\nx"))))
    block = body[body.index("<div") : body.rindex("</div>")]
    assert not re.search(r"\n\s*\n", block)
    assert Reader(block).text.endswith("first\n\n\n# no heading")


def test_an_html_export_shows_command_output_and_outcome() -> None:
    body, _ = HTMLExporter().from_notebook_node(notebook(bundle(saved("\x1b[32mok\x1b[0m <b>\r\n"))))
    text = Reader(body).text
    assert "$ echo hi" in text
    assert "ok <b>" in text
    assert "[exit 0 · 12 ms]" in text


@pytest.mark.parametrize(
    "line",
    [
        "{}\r\n",
        "{} the quick brown fox jumps over the lazy dog and then over the next one\r\n",
        "\x1b[32m{}\x1b[0m \x1b[1;31mFAILED\x1b[0m tests/test_things.py::test_a_thing - \x1b[36massert\x1b[0m 1 == 2\r\n",
        "{}" + " long" * 200 + "\r\n",
        "{} 漢字かな交じり文の行がここにあります\r\n",
    ],
)
def test_thirty_parts_of_a_hundred_thousand_lines_make_a_file_below_ten_megabytes(line: str) -> None:
    screen = Screen()
    screen.feed("".join(line.format(n) for n in range(5_000)))  # of more no more is kept
    output = screen.saved_output()
    assert output.omitted_lines >= 4_000
    part = bundle(saved(output=output))
    assert len(nbformat.writes(notebook(part)).encode()) * 30 < 10_000_000
