"""What a page is sent of a run, and what it may ask; a real kernel is in test_notebook."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ext.client.client import Rejected
from jupyter_ext.client.runs import Command, Run, Transcript
from jupyter_ext.kernel import widgets
from jupyter_ext.kernel.widgets import FRAME_CHARS, CommandPart, CommandWidget, Feed, Parts
from jupyter_ext.protocol.display import COMMAND_MIME
from jupyter_ext.protocol.messages import ActionEnvelope
from jupyter_ext.protocol.terminal import (
    StateAction,
    TerminalClientClaim,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalDataAction,
    TerminalInputAction,
    TerminalResizedAction,
    TerminalState,
)

URI = "ahp-terminal:/t"
VIEW_MIME = "application/vnd.jupyter.widget-view+json"


class FakeClient:
    """The part of a HostClient that a part in a cell uses, on the loop of the test."""

    def __init__(self) -> None:
        claim = TerminalClientClaim(client_id="c")
        self._state = TerminalState(title="t", content=(), claim=claim, cols=80, rows=24)
        self.dispatched: list[StateAction] = []
        self.signals: list[str] = []
        self.refusal: Exception | None = None

    def state(self, uri: str) -> TerminalState:
        return self._state

    def post(self, callback: Any, *args: Any) -> None:
        callback(*args)

    async def dispatch(self, uri: str, action: StateAction) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.dispatched.append(action)

    async def request(self, method: str, params: Any, result_type: Any = None) -> None:
        self.signals.append(params.signal)


class FakeShell:
    """An IPython shell that keeps what it publishes."""

    def __init__(self, **request: Any) -> None:
        self.published: list[Any] = []
        self.display_pub = SimpleNamespace(publish=self._publish)
        self.events = SimpleNamespace(register=self._register)
        self.kernel = SimpleNamespace(get_parent=lambda channel: request)
        self.callbacks: dict[str, Any] = {}

    def _publish(self, *, data: Any, metadata: Any, transient: Any, update: bool) -> None:
        self.published.append((update, data, transient["display_id"]))

    def _register(self, event: str, callback: Any) -> None:
        self.callbacks[event] = callback


PAGE = {"content": {"allow_stdin": True}, "metadata": {"cellId": "cell-1"}}
BATCH = {"content": {"allow_stdin": False}, "metadata": {}}


class Scene:
    """A run and its part, moved by hand."""

    def __init__(self, request: Any) -> None:
        self.client = FakeClient()
        self.run = Run(self.client, URI, "make")  # type: ignore[arg-type]
        self.run.is_submitted = True
        self.shell = FakeShell(**request)
        self.parts = Parts(self.shell)  # type: ignore[arg-type]
        self.parts.register()
        self.handle = SimpleNamespace(run=self.run, terminal="t")
        self.frames: list[Any] = []
        self.seq = 0

    def part(self, *, is_waited_for: bool = False) -> CommandPart:
        return self.parts.add(self.handle, is_waited_for=is_waited_for)  # type: ignore[arg-type]

    def change(self, action: StateAction) -> None:
        self.seq += 1
        self.run._take(ActionEnvelope(channel=URI, action=action, server_seq=self.seq))

    def begin(self) -> None:
        command = Command("c1", "make", 1000, Transcript(cols=80, rows=24))
        self.run.commands.append(command)
        self.run._open = command
        self.run._tell(None)

    def print(self, text: str) -> None:
        self.change(TerminalDataAction(data=text))

    def end(self, exit_code: int = 0) -> None:
        self.change(TerminalCommandFinishedAction(command_id="c1", exit_code=exit_code, duration_ms=5))
        self.run._finish("done")


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the widgets of a test send."""
    sent: list[Any] = []
    monkeypatch.setattr(CommandWidget, "frame", lambda self, content: sent.append(content))
    return sent


async def ticks(seconds: float = 0.12) -> None:
    """Let timers of a frame's length fire."""
    await asyncio.sleep(seconds)


# --- Feed -----------------------------------------------------------------------------------------------------------------


class Feeding:
    def __init__(self) -> None:
        self.scene = Scene(PAGE)
        self.frames: list[Any] = []
        self.feed = Feed(self.scene.run, self.frames.append)
        self.scene.run.watch(self.feed.changed)
        self.scene.begin()


@pytest.mark.asyncio
async def test_what_comes_together_is_one_frame():
    feeding = Feeding()
    await ticks()
    feeding.frames.clear()
    for text in "abc":
        feeding.scene.print(text)
    assert feeding.frames == []
    await ticks()
    (frame,) = feeding.frames
    assert frame["method"] == "action"
    assert frame["params"] == {"channel": URI, "action": {"type": "terminal/data", "data": "abc"}, "serverSeq": 3}


@pytest.mark.asyncio
async def test_other_actions_keep_their_place_and_input_is_not_passed_on():
    feeding = Feeding()
    await ticks()
    feeding.frames.clear()
    feeding.scene.print("a")
    feeding.scene.change(TerminalResizedAction(cols=90, rows=30))
    feeding.scene.change(TerminalInputAction(data="secret"))
    feeding.scene.print("b")
    await ticks()
    assert [f["params"]["action"]["type"] for f in feeding.frames] == ["terminal/data", "terminal/resized", "terminal/data"]
    assert "secret" not in json.dumps(feeding.frames)


@pytest.mark.asyncio
async def test_a_page_that_would_be_behind_gets_the_last_of_it_and_the_count():
    feeding = Feeding()
    await ticks()
    feeding.frames.clear()
    for _ in range(10):
        feeding.scene.print("x" * 65_536)
    feeding.scene.print("the end")
    await ticks()
    (frame,) = feeding.frames
    assert frame["method"] == "snapshot"
    (part,) = frame["state"]["content"]
    assert len(part["output"]) == FRAME_CHARS
    assert part["output"].endswith("the end")
    assert frame["omitted"] == 10 * 65_536 + 7 - FRAME_CHARS


@pytest.mark.asyncio
async def test_many_small_actions_are_one_snapshot_too():
    feeding = Feeding()
    await ticks()
    feeding.frames.clear()
    for number in range(20):
        feeding.scene.change(TerminalResizedAction(cols=90 + number, rows=30))
    await ticks()
    assert [frame["method"] for frame in feeding.frames] == ["snapshot"]


@pytest.mark.asyncio
async def test_frames_come_no_faster_than_the_page_takes_them():
    feeding = Feeding()
    started = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - started < 0.5:
        feeding.scene.print("x")
        await asyncio.sleep(0.001)
    assert len(feeding.frames) <= 12


@pytest.mark.asyncio
async def test_a_closed_feed_is_silent():
    feeding = Feeding()
    await ticks()
    feeding.frames.clear()
    feeding.scene.print("x")
    feeding.feed.close()
    await ticks()
    assert feeding.frames == []


@pytest.mark.asyncio
async def test_of_many_commands_the_snapshot_has_the_last_output():
    feeding = Feeding()
    feeding.scene.print("a" * FRAME_CHARS)
    feeding.scene.run._open = None
    second = Command("c2", "next", 2000, Transcript(cols=80, rows=24))
    second.transcript.feed("b" * 100)
    feeding.scene.run.commands.append(second)
    feeding.feed.snapshot()
    first, last = feeding.frames[-1]["state"]["content"]
    assert (len(first["output"]), len(last["output"])) == (FRAME_CHARS - 100, 100)
    assert feeding.frames[-1]["omitted"] == 100


# --- CommandPart with a page ------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_page_sees_it_live_and_then_the_bundle_in_the_same_place(frames):
    scene = Scene(PAGE)
    part = scene.part(is_waited_for=True)
    part.show()
    part.show()
    scene.begin()
    scene.print("hi\r\n")
    await ticks()
    scene.end()
    assert len(scene.shell.published) == 1, "the cell that waits says when"
    part.finish()
    part.finish()
    (shown, live, display_id), (replaced, bundle, same_id) = scene.shell.published
    assert (shown, replaced) == (False, True)
    assert VIEW_MIME in live
    assert "$ make" in live["text/plain"]
    assert VIEW_MIME not in bundle
    assert bundle[COMMAND_MIME]["commands"][0]["exitCode"] == 0
    assert display_id == same_id
    assert frames[0]["method"] == "snapshot"
    assert frames[-1] == {"method": "bundle", "mimebundle": bundle}
    assert part.widget is not None
    assert part.widget.ended
    assert (part.widget.terminal, part.widget.title, part.widget.cell_id) == (URI, "t", "cell-1")
    assert part.widget.display_id == display_id


@pytest.mark.asyncio
async def test_a_quick_one_shows_its_bundle_alone(frames):
    scene = Scene(PAGE)
    part = scene.part(is_waited_for=True)
    scene.begin()
    scene.end()
    part.finish()
    ((update, data, _),) = scene.shell.published
    assert not update
    assert VIEW_MIME not in data
    assert part.widget is None


@pytest.mark.asyncio
async def test_one_that_nobody_waits_for_finishes_by_itself_also_between_cells(frames):
    scene = Scene(PAGE)
    part = scene.part()
    part.show()
    scene.begin()
    scene.shell.callbacks["post_run_cell"](None)
    scene.end(9)
    assert part.is_final
    assert scene.shell.published[-1][1][COMMAND_MIME]["commands"][0]["exitCode"] == 9


@pytest.mark.asyncio
async def test_a_page_asks_for_the_state_and_later_for_the_bundle(frames):
    scene = Scene(PAGE)
    part = scene.part()
    part.show()
    scene.begin()
    scene.print("hi")
    frames.clear()
    part._on_message(part.widget, {"method": "snapshot", "viewId": "v"}, [])
    assert frames[-1]["state"]["content"][0]["output"] == "hi"
    scene.end()
    frames.clear()
    part._on_message(part.widget, {"method": "snapshot", "viewId": "v2"}, [])
    assert [frame["method"] for frame in frames] == ["bundle"]


@pytest.mark.asyncio
async def test_a_page_types_and_interrupts(frames):
    scene = Scene(PAGE)
    part = scene.part()
    part.show()
    scene.begin()
    action = {"type": "terminal/input", "data": "y"}
    part._on_message(None, {"method": "dispatchAction", "params": {"channel": URI, "clientSeq": 1, "action": action}}, [])
    part._on_message(None, {"method": "x-terminal/signal", "params": {"signal": "interrupt"}}, [])
    await ticks()
    assert scene.client.dispatched == [TerminalInputAction(data="y")]
    assert scene.client.signals == ["interrupt"]


@pytest.mark.asyncio
async def test_what_the_host_refuses_the_page_takes_back(frames, caplog):
    scene = Scene(PAGE)
    part = scene.part()
    part.show()
    scene.begin()
    await ticks()
    frames.clear()
    scene.client.refusal = Rejected("held by Ada")
    action = {"type": "terminal/resized", "cols": 90, "rows": 30}
    part._on_message(None, {"method": "dispatchAction", "params": {"channel": URI, "clientSeq": 1, "action": action}}, [])
    await ticks()
    assert [frame["method"] for frame in frames] == ["snapshot"]
    assert "held by Ada" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"method": "dispatchAction"},
        {"method": "dispatchAction", "params": {"action": None}},
        {"method": "dispatchAction", "params": {"action": {"type": "terminal/input"}}},
        {"method": "x-terminal/signal", "params": {"signal": "nuke"}},
        {"method": "other", "params": {}},
    ],
)
@pytest.mark.asyncio
async def test_a_broken_message_of_a_page_does_nothing(frames, content):
    scene = Scene(PAGE)
    part = scene.part()
    part.show()
    part._on_message(None, content, [])
    await ticks(0.01)
    assert scene.client.dispatched == []
    assert scene.client.signals == []


def test_ended_widgets_are_kept_up_to_a_number(frames, monkeypatch):
    monkeypatch.setattr(widgets, "KEPT_WIDGETS", 2)
    scene = Scene(PAGE)
    made = [CommandWidget() for _ in range(3)]
    scene.parts._retire(made)
    assert [widget.comm is None for widget in made] == [True, False, False]


def test_a_comm_lets_messages_of_the_page_through_while_a_cell_runs(monkeypatch):
    from ipykernel.comm.comm import BaseComm

    monkeypatch.setattr("comm.create_comm", lambda **settings: BaseComm(**settings))
    widget = CommandWidget()
    assert widget.comm._reply_subshell_for({"content": {}}, "the page's subshell") == "the page's subshell"
    widget.frame({"method": "bundle", "mimebundle": {}})
    widget.close()
    widget.frame({"method": "bundle", "mimebundle": {}})


# --- CommandPart in a batch run ---------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_batch_run_has_the_bundle_from_the_start_and_no_widget(monkeypatch):
    monkeypatch.setattr(widgets, "BATCH_INTERVALS_S", (0.02,))
    scene = Scene(BATCH)
    part = scene.part(is_waited_for=True)
    part.show()
    scene.begin()
    scene.print("hi\r\n")
    await ticks(0.1)
    scene.end()
    part.finish()
    assert part.widget is None
    (first, *_), (update, data, _) = scene.shell.published[0], scene.shell.published[-1]
    assert (first, update) == (False, True)
    assert len(scene.shell.published) >= 3
    assert data[COMMAND_MIME]["commands"][0]["isComplete"]
    assert all(VIEW_MIME not in data for _, data, _ in scene.shell.published)


@pytest.mark.asyncio
async def test_a_batch_run_publishes_only_while_a_cell_runs_and_after_each_brings_all_up_to_date(monkeypatch):
    monkeypatch.setattr(widgets, "BATCH_INTERVALS_S", (0.02,))
    scene = Scene(BATCH)
    part = scene.part()
    part.show()
    scene.begin()
    scene.shell.callbacks["post_run_cell"](None)
    scene.shell.published.clear()
    scene.print("late\r\n")
    await ticks(0.1)
    scene.end(9)
    assert scene.shell.published == []
    scene.shell.callbacks["pre_run_cell"](None)
    scene.shell.callbacks["post_run_cell"](None)
    ((update, data, _),) = scene.shell.published
    assert update
    assert data[COMMAND_MIME]["commands"][0]["exitCode"] == 9
    assert part.is_final
    scene.shell.callbacks["post_run_cell"](None)
    assert len(scene.shell.published) == 1


@pytest.mark.asyncio
async def test_an_end_at_a_cells_end_is_published_once_more(monkeypatch):
    scene = Scene(BATCH)
    part = scene.part()
    part.show()
    scene.begin()
    scene.end()
    assert part.is_final
    before = len(scene.shell.published)
    scene.shell.callbacks["post_run_cell"](None)
    assert len(scene.shell.published) == before + 1


def test_a_foreign_command_is_not_part_of_the_run():
    scene = Scene(PAGE)
    scene.begin()
    scene.change(TerminalCommandExecutedAction(command_id="x", command_line="theirs", timestamp=0))
    scene.print("theirs")
    assert [command.command_line for command in scene.run.commands] == ["make"]
