"""The pure reducers of the root and terminal channels, and trimming.

Source: Agent Host Protocol, terminal and root channel reducers; proved by its published fixtures (tests/fixtures/ahp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from .terminal import (
    DetailsChangedAction,
    InfoChangedAction,
    RootActiveSessionsChangedAction,
    RootAgentsChangedAction,
    RootConfig,
    RootConfigChangedAction,
    RootState,
    RootTerminalsChangedAction,
    StateAction,
    TerminalClaimedAction,
    TerminalClearedAction,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    TerminalCommandPart,
    TerminalContentPart,
    TerminalCwdChangedAction,
    TerminalDataAction,
    TerminalExitedAction,
    TerminalLifecycle,
    TerminalMeta,
    TerminalResizedAction,
    TerminalState,
    TerminalTitleChangedAction,
    TerminalUnclassifiedPart,
)

__all__ = ["content_chars", "part_text", "root_reducer", "terminal_reducer", "trim_content"]

S = TypeVar("S")
Content = tuple[TerminalContentPart, ...]


def part_text(part: TerminalContentPart) -> str:
    """A part's VT text; an unknown part counts as none."""
    if isinstance(part, TerminalCommandPart):
        return part.output
    return part.value if isinstance(part, TerminalUnclassifiedPart) else ""


def content_chars(content: Content) -> int:
    """The number of characters of VT text."""
    return sum(len(part_text(part)) for part in content)


def terminal_reducer(state: TerminalState, action: StateAction) -> TerminalState:
    """The state after an action; the same object where the action changes nothing or is unknown.

    An exit is written in one form: into ``lifecycle`` where the state has one (from 0.9), else into ``exit_code``.
    """
    reduce = _TERMINAL.get(type(action))
    return state if reduce is None else reduce(state, action)


def root_reducer(state: RootState, action: StateAction) -> RootState:
    """The state after an action; the same object where the action changes nothing or is unknown."""
    reduce = _ROOT.get(type(action))
    return state if reduce is None else reduce(state, action)


def _data(state: TerminalState, action: TerminalDataAction) -> TerminalState:
    content = state.content
    tail = content[-1] if content else None
    new: TerminalContentPart
    if isinstance(tail, TerminalCommandPart) and not tail.is_complete:
        new = replace(tail, output=tail.output + action.data)
    elif isinstance(tail, TerminalUnclassifiedPart):
        new = TerminalUnclassifiedPart(value=tail.value + action.data)
    else:
        return replace(state, content=(*content, TerminalUnclassifiedPart(value=action.data)))
    return replace(state, content=(*content[:-1], new))


def _executed(state: TerminalState, action: TerminalCommandExecutedAction) -> TerminalState:
    part = TerminalCommandPart(
        command_id=action.command_id,
        command_line=action.command_line,
        output="",
        timestamp=action.timestamp,
        is_complete=False,
        meta=action.meta,
    )
    return replace(state, content=(*state.content, part), supports_command_detection=True)


def _finished(state: TerminalState, action: TerminalCommandFinishedAction) -> TerminalState:
    found = False
    parts: list[TerminalContentPart] = []
    for part in state.content:
        if isinstance(part, TerminalCommandPart) and part.command_id == action.command_id:
            found = True
            part = replace(part, is_complete=True, exit_code=action.exit_code, duration_ms=action.duration_ms)
        parts.append(part)
    return replace(state, content=tuple(parts)) if found else state


def _exited(state: TerminalState, action: TerminalExitedAction) -> TerminalState:
    if state.lifecycle is None:
        return replace(state, exit_code=action.exit_code)
    return replace(state, lifecycle=TerminalLifecycle(status="exited", exit_code=action.exit_code))


def _details(state: TerminalState, action: DetailsChangedAction) -> TerminalState:
    return replace(state, meta=TerminalMeta(x_terminal=action.details))


_TERMINAL: dict[type[Any], Callable[[TerminalState, Any], TerminalState]] = {
    TerminalDataAction: _data,
    TerminalResizedAction: lambda state, action: replace(state, cols=action.cols, rows=action.rows),
    TerminalClaimedAction: lambda state, action: replace(state, claim=action.claim),
    TerminalTitleChangedAction: lambda state, action: replace(state, title=action.title),
    TerminalCwdChangedAction: lambda state, action: replace(state, cwd=action.cwd),
    TerminalExitedAction: _exited,
    TerminalClearedAction: lambda state, action: replace(state, content=()),
    TerminalCommandDetectionAvailableAction: lambda state, action: replace(state, supports_command_detection=True),
    TerminalCommandExecutedAction: _executed,
    TerminalCommandFinishedAction: _finished,
    DetailsChangedAction: _details,
}


def _config(state: RootState, action: RootConfigChangedAction) -> RootState:
    if state.config is None:
        return state
    values = dict(action.config) if action.replace else {**state.config.values, **action.config}
    return replace(state, config=RootConfig(schema=state.config.schema, values=values))


def _info(state: RootState, action: InfoChangedAction) -> RootState:
    terminals = state.terminals or ()
    if not any(info.resource == action.resource for info in terminals):
        return state
    meta = TerminalMeta(x_terminal=action.details)
    return replace(state, terminals=tuple(replace(i, meta=meta) if i.resource == action.resource else i for i in terminals))


_ROOT: dict[type[Any], Callable[[RootState, Any], RootState]] = {
    RootAgentsChangedAction: lambda state, action: replace(state, agents=action.agents),
    RootActiveSessionsChangedAction: lambda state, action: replace(state, active_sessions=action.active_sessions),
    RootTerminalsChangedAction: lambda state, action: replace(state, terminals=action.terminals),
    RootConfigChangedAction: _config,
    InfoChangedAction: _info,
}


def _cut_front(text: str, excess: int) -> str:
    """Drop at least ``excess`` characters, up to a line start; else at a place outside an escape sequence."""
    newline = text.find("\n", excess - 1)
    if 0 <= newline < len(text) - 1:
        return text[newline + 1 :]
    # No line start left: an escape sequence that begins shortly before the cut is dropped whole with what it holds back.
    escape = text.rfind("\x1b", max(0, excess - 64), excess)
    if escape >= 0:
        end = escape + 2
        while end < len(text) and end < escape + 64 and not "@" <= text[end] <= "~":
            end += 1
        excess = max(excess, min(end + 1, len(text)))
    return text[excess:]


def trim_content(content: Content, retained_chars: int, retained_parts: int) -> Content:
    """The newest part of a content within both limits.

    Whole parts are dropped from the front, then the first one is cut at a line start where there is one. A running command
    stays, with less of its output. To trim less often than at every append, it trims to four fifths.

    Args:
        content: the parts, in order.
        retained_chars: the most characters of VT text.
        retained_parts: the most parts.

    Returns:
        The same object where nothing is over a limit.
    """
    total = content_chars(content)
    if total <= retained_chars and len(content) <= retained_parts:
        return content
    target_chars = retained_chars * 4 // 5 if total > retained_chars else retained_chars
    target_parts = max(1, retained_parts * 4 // 5 if len(content) > retained_parts else retained_parts)
    parts = list(content)
    while len(parts) > 1 and (len(parts) > target_parts or total - len(part_text(parts[0])) >= target_chars):
        total -= len(part_text(parts.pop(0)))
    if total > target_chars:
        first, excess = parts[0], total - target_chars
        if isinstance(first, TerminalCommandPart):
            parts[0] = replace(first, output=_cut_front(first.output, excess))
        elif isinstance(first, TerminalUnclassifiedPart):
            parts[0] = replace(first, value=_cut_front(first.value, excess))
    return tuple(parts)
