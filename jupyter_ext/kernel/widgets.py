"""What a run shows in its cell: a live widget while it runs, where there is a page, and a bundle in its place at the end.

A page that is behind gets the last of the output and the count of what is missing; nothing of the output is widget state.
In a batch run there is no widget: the bundle is shown from the start and brought up to date.

Handlers of a page's messages run on a foreign thread, so they only post to the client's loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any

import ipywidgets
import msgspec
from IPython.core.interactiveshell import InteractiveShell
from msgspec.structs import replace
from traitlets import Bool, Unicode

from .._version import __version__
from ..client.client import Rejected
from ..client.handles import CommandHandle
from ..client.runs import Run
from ..protocol.messages import ActionEnvelope, MalformedAction, ProtocolError, decode_action, encode, to_builtins
from ..protocol.terminal import (
    SignalParams,
    TerminalCommandPart,
    TerminalDataAction,
    TerminalInputAction,
    TerminalState,
)
from .display import mimebundle

__all__ = ["CommandPart", "CommandWidget", "Feed", "Parts"]

log = logging.getLogger(__name__)

MODULE = "jupyter-ahp"
MODULE_RANGE = f"^{__version__}"

FRAME_CHARS = 64 << 10
FRAME_INTERVAL_S = 0.05
FRAMES_AT_ONCE = 8
"""More than this, or more text than a frame, and the page gets a snapshot of the last of it instead: comm loses messages when
a thousand of them wait."""
SHOW_AFTER_S = 0.15
"""A command that ends sooner never shows a live view: no flicker, and no widget to keep."""
BATCH_INTERVALS_S = (0.5, 1.0, 2.0, 5.0)
"""Pauses between updates of a batch run's bundle; the last one is repeated."""
KEPT_WIDGETS = 50
"""Ended widgets that stay, so that a reloaded page can ask them for their bundle."""


class CommandWidget(ipywidgets.DOMWidget):  # type: ignore[misc]  # ipywidgets is untyped
    """A run's live view. Its traits say what it is of; output travels in messages."""

    _model_module = Unicode(MODULE).tag(sync=True)
    _model_module_version = Unicode(MODULE_RANGE).tag(sync=True)
    _model_name = Unicode("CommandModel").tag(sync=True)
    _view_module = Unicode(MODULE).tag(sync=True)
    _view_module_version = Unicode(MODULE_RANGE).tag(sync=True)
    _view_name = Unicode("CommandView").tag(sync=True)

    terminal = Unicode(help="The terminal's URI.").tag(sync=True)
    title = Unicode(help="The terminal's name.").tag(sync=True)
    cell_id = Unicode(help="The cell that shows it; empty where the page did not say.").tag(sync=True)
    display_id = Unicode(help="The display that is replaced by the bundle.").tag(sync=True)
    run_id = Unicode(help="The run.").tag(sync=True)
    ended = Bool(False, help="Whether it has ended, and its bundle is to be shown.").tag(sync=True)

    def open(self) -> None:
        """Open the comm, and let what the page sends through while a cell runs."""
        super().open()
        comm = self.comm
        if hasattr(comm, "_reply_subshell_for"):
            # ipykernel 7.4 sends a page's message to the thread that last sent on the comm: the one that a cell blocks.
            comm._reply_subshell_for = lambda data, default: default

    def frame(self, content: dict[str, Any]) -> None:
        """Send one message to the page. Any thread."""
        if self.comm is not None:
            self.send(content)


class Feed:
    """A run as frames for a page, bounded in number and size. Loop thread only.

    Args:
        run: what is shown.
        send: takes a frame.
    """

    def __init__(self, run: Run, send: Callable[[dict[str, Any]], None]) -> None:
        self._run = run
        self._send = send
        self._waiting: list[ActionEnvelope] = []
        self._waiting_chars = 0
        self._is_behind = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_sent = float("-inf")

    def changed(self, run: Run, envelope: ActionEnvelope | None) -> None:
        """Take in a change of the run."""
        if envelope is None:
            self._is_behind = True
        elif isinstance(envelope.action, TerminalInputAction):
            return  # what was typed is between its client and the host
        elif not self._is_behind:
            self._queue(envelope)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._last_sent + FRAME_INTERVAL_S - loop.time()), self._flush)

    def _queue(self, envelope: ActionEnvelope) -> None:
        action = envelope.action
        if isinstance(action, TerminalDataAction):
            self._waiting_chars += len(action.data)
            last = self._waiting[-1].action if self._waiting else None
            if isinstance(last, TerminalDataAction):
                self._waiting.pop()
                envelope = replace(envelope, action=TerminalDataAction(data=last.data + action.data))
        self._waiting.append(envelope)
        self._is_behind = self._waiting_chars > FRAME_CHARS or len(self._waiting) > FRAMES_AT_ONCE
        if self._is_behind:
            self._waiting.clear()

    def close(self) -> None:
        """Send nothing more: the bundle takes the live view's place. Any thread."""
        self._is_closed = True

    def _flush(self) -> None:
        self._timer = None
        if self._is_closed:
            return
        if self._is_behind:
            self.snapshot()
            return
        for envelope in self._waiting:
            self._send({"method": "action", "params": to_builtins(envelope)})
        self._sent()

    def _sent(self) -> None:
        self._waiting.clear()
        self._waiting_chars = 0
        self._is_behind = False
        self._last_sent = asyncio.get_running_loop().time()

    def snapshot(self) -> None:
        """Send the state as it is: of the output the last of it, and how much is before that."""
        state = self._run.client.state(self._run.uri)
        if isinstance(state, TerminalState):
            parts, omitted = _last_parts(self._run, FRAME_CHARS)
            self._send({"method": "snapshot", "state": to_builtins(replace(state, content=parts)), "omitted": omitted})
        self._sent()


def _last_parts(run: Run, max_chars: int) -> tuple[tuple[TerminalCommandPart, ...], int]:
    """The parts of a run with the last ``max_chars`` of output, and how many characters are left out."""
    parts: list[TerminalCommandPart] = []
    omitted = 0
    for command in reversed(run.commands):
        output, before = command.transcript.last(max_chars)
        max_chars = max(0, max_chars - len(output))
        omitted += before
        parts.append(
            TerminalCommandPart(
                command_id=command.command_id,
                command_line=command.command_line,
                output=output,
                timestamp=command.timestamp,
                is_complete=command.is_complete,
                exit_code=command.exit_code,
                duration_ms=command.duration_ms,
            )
        )
    return tuple(reversed(parts)), omitted


class CommandPart:
    """What one run shows in a cell, from its start to its end. Methods are for any thread, where they do not say otherwise.

    Args:
        parts: the shell's parts, which bring this one up to date.
        handle: the run.
        cell_id: the cell that shows it.
        has_page: whether there is a page to show a live view.
        is_waited_for: whether the cell waits for it, and says `finish`; else it finishes by itself.
    """

    def __init__(self, parts: Parts, handle: CommandHandle, *, cell_id: str, has_page: bool, is_waited_for: bool) -> None:
        self.handle = handle
        self.display_id = uuid.uuid4().hex
        self.widget: CommandWidget | None = None
        self.is_shown = False
        self.is_final = False
        self._parts = parts
        self._run = handle.run
        self._cell_id = cell_id
        self._has_page = has_page
        self._is_waited_for = is_waited_for
        self._lock = threading.Lock()
        self._feed: Feed | None = None
        self._updates = 0

    @property
    def has_page(self) -> bool:
        """Whether a page shows it, which takes an update at any time."""
        return self._has_page

    @property
    def is_uncertain(self) -> bool:
        """Whether its final update may have come just when no cell ran, and nobody listened."""
        return not self._has_page and not self._is_waited_for

    def show(self) -> None:
        """Show it in the cell that runs: live where there is a page."""
        with self._lock:
            if self.is_shown:
                return
            self.is_shown = self._run.is_shown = True
            if self._has_page and not self._run.is_over:
                self._show_widget()
            else:
                self._publish(self._bundle(), update=False)
        self._run.client.post(self._follow)

    def _show_widget(self) -> None:
        widget = self.widget = CommandWidget(
            terminal=self._run.uri,
            title=self.handle.terminal,
            cell_id=self._cell_id,
            display_id=self.display_id,
            run_id=self._run.run_id,
        )
        self._feed = Feed(self._run, widget.frame)
        widget.on_msg(self._on_message)
        shown = widget._repr_mimebundle_()
        data = dict(shown[0] if isinstance(shown, tuple) else shown)
        data["text/plain"] = self._bundle()["text/plain"]
        self._publish(data, update=False)

    def _follow(self) -> None:
        """Begin to show what changes. Loop thread only."""
        if self._run.is_over:
            self._run_changed(self._run, None)
            return
        self._run.watch(self._run_changed)
        if self._feed is not None:
            self._feed.snapshot()
        elif not self._has_page:
            self._update_later()

    def _run_changed(self, run: Run, envelope: ActionEnvelope | None) -> None:
        if run.is_over:
            if not self._is_waited_for and (self._has_page or self._parts.is_cell_running):
                self.finish()
        elif self._feed is not None:
            self._feed.changed(run, envelope)

    def _update_later(self) -> None:
        pause_s = BATCH_INTERVALS_S[min(self._updates, len(BATCH_INTERVALS_S) - 1)]
        asyncio.get_running_loop().call_later(pause_s, self._update_in_time)

    def _update_in_time(self) -> None:
        if not self._run.is_over:
            self._updates += 1
            if self._parts.is_cell_running:
                self.update()
            self._update_later()

    def update(self) -> None:
        """Bring the bundle that is shown up to date."""
        with self._lock:
            if self.is_shown and not self.is_final and self.widget is None:
                self._publish(self._bundle(), update=True)

    def finish(self) -> None:
        """Put the final bundle into the place of the live view; a run that was never shown is shown now. May be repeated."""
        with self._lock:
            if self.is_final:
                return
            bundle = self._bundle()
            self._publish(bundle, update=self.is_shown)
            self.is_shown = self._run.is_shown = True
            self.is_final = self._run.is_over
            widget = self.widget
            if self._feed is not None and self.is_final:
                self._feed.close()
        if widget is not None and self.is_final:
            widget.frame({"method": "bundle", "mimebundle": bundle})
            widget.ended = True

    def publish_again(self) -> None:
        """Publish the bundle once more: the update before may have come while nobody listened."""
        with self._lock:
            self._publish(self._bundle(), update=True)

    def _bundle(self) -> dict[str, Any]:
        return mimebundle(self._run.bundle(self.handle.terminal))

    def _publish(self, data: dict[str, Any], *, update: bool) -> None:
        self._parts.publish(data, self.display_id, update=update)

    # --- what the page says -------------------------------------------------------------------------------------------------

    def _on_message(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict):
            self._run.client.post(self._answer, content)

    def _answer(self, content: dict[str, Any]) -> None:
        """Do what a view asks. Loop thread only."""
        method, params = content.get("method"), content.get("params")
        if method == "snapshot":
            if self.is_final and self.widget is not None:
                self.widget.frame({"method": "bundle", "mimebundle": self._bundle()})
            elif self._feed is not None:
                self._feed.snapshot()
        elif method == "dispatchAction" and isinstance(params, dict):
            _in_background(self._dispatch(params))
        elif method == "x-terminal/signal" and isinstance(params, dict):
            _in_background(self._signal(params))

    async def _dispatch(self, params: dict[str, Any]) -> None:
        try:
            action = decode_action(encode(params.get("action")))
        except (ProtocolError, TypeError, msgspec.MsgspecError):
            return
        if isinstance(action, MalformedAction):
            return
        try:
            await self._run.client.dispatch(self._run.uri, action)
        except (Rejected, ConnectionError, TimeoutError) as error:
            log.warning("an action from the page was not carried out: %s", error)
            if self._feed is not None:
                self._feed.snapshot()  # the page may have shown it already

    async def _signal(self, params: dict[str, Any]) -> None:
        try:
            signal = msgspec.convert({**params, "channel": self._run.uri}, SignalParams).signal
            await self._run.signal(signal)
        except (ProtocolError, ConnectionError, msgspec.ValidationError) as error:
            log.warning("a signal from the page was not carried out: %s", error)


_tasks: set[asyncio.Task[None]] = set()


def _in_background(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


class Parts:
    """What the runs of one IPython shell show. Any thread, where a method does not say otherwise."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._open: list[CommandPart] = []
        self._ended_widgets: list[CommandWidget] = []
        self._lock = threading.Lock()
        self.is_cell_running = False

    def register(self) -> None:
        """Follow the shell's cells."""
        self.is_cell_running = True  # the one that loads us
        self._shell.events.register("pre_run_cell", self._cell_begins)
        self._shell.events.register("post_run_cell", self._cell_ends)

    @property
    def is_kernel(self) -> bool:
        """Whether the shell is a kernel's, which can show more than text."""
        return getattr(self._shell, "kernel", None) is not None

    def add(self, handle: CommandHandle, *, is_waited_for: bool) -> CommandPart:
        """A part for a run, not shown yet. The thread that runs the cell."""
        parent = self._shell.kernel.get_parent("shell") or {}  # type: ignore[attr-defined]  # a kernel's shell has one
        part = CommandPart(
            self,
            handle,
            cell_id=str(parent.get("metadata", {}).get("cellId", "")),
            # A front end that can be asked is one that can show a live view; a batch run says no.
            has_page=bool(parent.get("content", {}).get("allow_stdin")),
            is_waited_for=is_waited_for,
        )
        with self._lock:
            self._open.append(part)
        return part

    def publish(self, data: dict[str, Any], display_id: str, *, update: bool) -> None:
        """Publish a display. From the client's loop it belongs to the cell that runs."""
        self._shell.display_pub.publish(data=data, metadata={}, transient={"display_id": display_id}, update=update)

    def _cell_begins(self, info: Any) -> None:
        self.is_cell_running = True

    def _cell_ends(self, result: Any) -> None:
        """Bring every part up to date, while somebody listens. The thread that runs the cell."""
        with self._lock:
            parts = list(self._open)
        for part in parts:
            if part.handle.run.is_over:
                was_final = part.is_final
                part.finish()
                if was_final and part.is_uncertain:
                    part.publish_again()
            elif not part.has_page:
                part.update()
        with self._lock:
            done = [part for part in self._open if part.is_final]
            self._open = [part for part in self._open if not part.is_final]
        self._retire([part.widget for part in done if part.widget is not None])
        self.is_cell_running = False

    def _retire(self, widgets: list[CommandWidget]) -> None:
        self._ended_widgets += widgets
        while len(self._ended_widgets) > KEPT_WIDGETS:
            widget = self._ended_widgets.pop(0)
            layout = widget.layout
            widget.close()
            layout.close()
