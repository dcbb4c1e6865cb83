"""The saved form of a command: its wire names and what is left out."""

from __future__ import annotations

from jupyter_ext.protocol.display import COMMAND_MIME, CommandBundle, SavedCommand, SavedOutput, StyledText, TextStyle
from jupyter_ext.protocol.messages import decode_result, encode, to_builtins

BUNDLE = CommandBundle(
    version=1,
    terminal="ahp-terminal:/a",
    title="a",
    commands=(
        SavedCommand(
            command_id="c1",
            command_line="ls --color",
            output=SavedOutput(
                head=((StyledText(text="src", style=TextStyle(fg="12", bold=True)), StyledText(text=" x")), ()),
                tail=(),
                omitted_lines=0,
                omitted_bytes=0,
            ),
            timestamp=0,
            is_complete=True,
            exit_code=0,
        ),
    ),
)


def test_a_bundle_is_written_with_the_wires_names() -> None:
    assert to_builtins(BUNDLE) == {
        "version": 1,
        "terminal": "ahp-terminal:/a",
        "title": "a",
        "commands": [
            {
                "commandId": "c1",
                "commandLine": "ls --color",
                "output": {
                    "head": [[{"text": "src", "style": {"fg": "12", "bold": True}}, {"text": " x"}], []],
                    "tail": [],
                    "omittedLines": 0,
                    "omittedBytes": 0,
                },
                "timestamp": 0,
                "isComplete": True,
                "exitCode": 0,
            }
        ],
    }


def test_a_bundle_is_read_back_as_it_was_written() -> None:
    assert decode_result(encode(BUNDLE), CommandBundle) == BUNDLE


def test_a_reader_ignores_what_a_later_version_adds() -> None:
    assert decode_result(encode({**to_builtins(BUNDLE), "future": {"a": 1}}), CommandBundle) == BUNDLE


def test_the_mime_type_is_the_published_name() -> None:
    assert COMMAND_MIME == "application/vnd.jupyter-ahp.command+json"
