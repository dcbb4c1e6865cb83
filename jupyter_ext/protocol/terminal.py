"""AHP's terminal and root channels: states, content parts, claims, actions and the params of their commands.

Every name here is the wire's own, in snake_case. Source: Agent Host Protocol, terminal and root channels (0.5.1 to 1.0.0,
served as one superset), and our extension ``x-terminal``.

An open union (content parts, claims, actions) is annotated with a plain base class, which msgspec hands to `open_variant`:
a tag we know becomes its Struct, any other is kept as it came, in an `Unknown...` of the same base.

One module past 500 lines: the types name each other throughout, and nothing but types is in it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, field

__all__ = [
    "ACTIONS",
    "CLAIMS",
    "CLIENT_DISPATCHABLE",
    "PARTS",
    "ROOT_URI",
    "AgentInfo",
    "CommandEnd",
    "CreateTerminalParams",
    "DetailsChangedAction",
    "DisposeTerminalParams",
    "HolderInfo",
    "InfoChangedAction",
    "InputInfo",
    "LastCommand",
    "RootActiveSessionsChangedAction",
    "RootAgentsChangedAction",
    "RootConfig",
    "RootConfigChangedAction",
    "RootState",
    "RootTerminalsChangedAction",
    "RunEndedAction",
    "RunParams",
    "RunningCommand",
    "SecretRequest",
    "SignalParams",
    "SignalResult",
    "StateAction",
    "SubmittedBy",
    "Survivor",
    "TerminalClaim",
    "TerminalClaimedAction",
    "TerminalClearedAction",
    "TerminalClientClaim",
    "TerminalCommandDetectionAvailableAction",
    "TerminalCommandExecutedAction",
    "TerminalCommandFinishedAction",
    "TerminalCommandPart",
    "TerminalContentPart",
    "TerminalCreationMeta",
    "TerminalCreationOptions",
    "TerminalCwdChangedAction",
    "TerminalDataAction",
    "TerminalDetails",
    "TerminalExitedAction",
    "TerminalInfo",
    "TerminalInputAction",
    "TerminalLifecycle",
    "TerminalMeta",
    "TerminalPartMeta",
    "TerminalResizedAction",
    "TerminalSessionClaim",
    "TerminalState",
    "TerminalSubmission",
    "TerminalTitleChangedAction",
    "TerminalUnclassifiedPart",
    "UnknownAction",
    "UnknownClaim",
    "UnknownPart",
    "Wire",
    "open_variant",
]

ROOT_URI = "ahp-root://"

Uri = Annotated[str, Meta(description="A URI, compared as given.")]


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of every wire type.

    A required member has no default, else ``omit_defaults`` would drop an empty one from the wire. An optional member is
    ``X | None = None``: absent and null both read as None, and None is never written.
    """


class _Unknown:
    """A variant of an open union whose tag we do not know, kept as it came."""

    __slots__ = ("raw",)
    tag_field: ClassVar[str] = "type"

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @property
    def tag(self) -> str:
        """The unknown tag; empty where the object has none."""
        tag = self.raw.get(self.tag_field)
        return tag if isinstance(tag, str) else ""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.tag)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tag!r})"


# --- claims -------------------------------------------------------------------------------------------------------------


class TerminalClaim:
    """Who holds a terminal: a client or a session. There is always exactly one holder."""

    __slots__ = ()


class TerminalClientClaim(Wire, TerminalClaim, frozen=True, tag_field="kind", tag="client"):
    """Held by a client. The id is a label chosen by the client, not a credential."""

    client_id: str


class TerminalSessionClaim(Wire, TerminalClaim, frozen=True, tag_field="kind", tag="session"):
    """Held by a session; with turn and tool call while one uses it, without them in the background."""

    session: Uri
    chat: Annotated[str | None, Meta(description="Required from 0.9 on; the host always writes it.")] = None
    turn_id: str | None = None
    tool_call_id: str | None = None


class UnknownClaim(_Unknown, TerminalClaim):
    """A claim of a kind that a newer peer knows."""

    __slots__ = ()
    tag_field: ClassVar[str] = "kind"


# --- x-terminal: details and what belongs to them ---------------------------------------------------------------------


class HolderInfo(Wire, frozen=True):
    """Who holds a terminal, for people."""

    title: str
    role: Literal["person", "kernel", "session"]


class RunningCommand(Wire, frozen=True):
    """The command that runs now; ``timestamp`` is Unix time in ms at its start."""

    command_id: str
    command_line: str
    timestamp: int


class LastCommand(Wire, frozen=True):
    """The command that ended last. No exit code means unknown, never a guess."""

    command_id: str
    exit_code: int | None = None
    duration_ms: int | None = None


class InputInfo(Wire, frozen=True):
    """What the kernel says about the terminal's input side."""

    awaiting: bool
    echo: bool
    line_mode: bool
    program: str | None = None


class SecretRequest(Wire, frozen=True):
    """An open request for a secret, answered out of band."""

    id: str
    prompt: str


class TerminalDetails(Wire, frozen=True):
    """What AHP's state does not say about a terminal (our extension x-terminal)."""

    shell: Annotated[str, Meta(description="The shell's name, or the path it was chosen by.")]
    login: bool
    pid: Annotated[int, Meta(description="The shell's process id; 0 once it has gone.")]
    tracking: Annotated[str, Meta(description='"yes", "pending", or the reason why commands are not tracked.')]
    origin: Annotated[str | None, Meta(description="The notebook it was made for, below the server's root.")] = None
    holder: HolderInfo | None = None
    named: Annotated[bool | None, Meta(description="True once a person has given the title.")] = None
    cwd: Uri | None = None
    running: RunningCommand | None = None
    last: LastCommand | None = None
    input: InputInfo | None = None
    secret: SecretRequest | None = None
    cull_at: Annotated[int | None, Meta(description="Unix time in ms at which it would be culled.")] = None
    discarded_typed: Annotated[bool | None, Meta(description="True once a run has cleared a line that was typed.")] = None


class SubmittedBy(Wire, frozen=True):
    """Who submitted a command."""

    client_id: str
    role: Literal["person", "kernel", "session"]


class TerminalSubmission(Wire, frozen=True):
    """Where a command came from: who, and which x-terminal/run."""

    by: SubmittedBy | None = None
    run_id: str | None = None


class TerminalMeta(Wire, frozen=True):
    """``_meta`` of TerminalState and TerminalInfo."""

    x_terminal: TerminalDetails | None = field(name="x-terminal", default=None)


class TerminalPartMeta(Wire, frozen=True):
    """``_meta`` of a command part and of commandExecuted."""

    x_terminal: TerminalSubmission | None = field(name="x-terminal", default=None)


# --- content parts ------------------------------------------------------------------------------------------------------


class TerminalContentPart:
    """A piece of a terminal's content, in stream order."""

    __slots__ = ()


class TerminalUnclassifiedPart(Wire, TerminalContentPart, frozen=True, tag_field="type", tag="unclassified"):
    """Output that belongs to no command: prompts, echoes, or all of it in a shell without tracking."""

    value: Annotated[str, Meta(description="VT text.")]


class TerminalCommandPart(Wire, TerminalContentPart, frozen=True, tag_field="type", tag="command"):
    """One command with the output it has made so far."""

    command_id: str
    command_line: str
    output: Annotated[str, Meta(description="VT text, without shell-integration marks.")]
    timestamp: Annotated[int, Meta(description="Unix time in ms at which it started.")]
    is_complete: bool
    exit_code: int | None = None
    duration_ms: int | None = None
    meta: TerminalPartMeta | None = field(name="_meta", default=None)


class UnknownPart(_Unknown, TerminalContentPart):
    """A part of a type that a newer peer knows; it counts as no text."""

    __slots__ = ()


# --- states -------------------------------------------------------------------------------------------------------------


class TerminalLifecycle(Wire, frozen=True):
    """Running, or exited with a code where there is one. ``status`` is an open enum."""

    status: str
    exit_code: int | None = None


class TerminalInfo(Wire, frozen=True):
    """A terminal in the root list."""

    resource: Uri
    title: str
    claim: TerminalClaim
    lifecycle: Annotated[TerminalLifecycle | None, Meta(description="Required from 0.9 on; the host always writes it.")] = None
    exit_code: Annotated[int | None, Meta(description="The form up to 0.8.")] = None
    meta: TerminalMeta | None = field(name="_meta", default=None)


class TerminalState(Wire, frozen=True):
    """The whole state of one terminal."""

    title: str
    content: tuple[TerminalContentPart, ...]
    claim: TerminalClaim
    lifecycle: Annotated[TerminalLifecycle | None, Meta(description="Required from 0.9 on; the host always writes it.")] = None
    exit_code: Annotated[int | None, Meta(description="The form up to 0.8.")] = None
    cwd: Uri | None = None
    cols: int | None = None
    rows: int | None = None
    supports_command_detection: bool | None = None
    is_pty: bool | None = None
    meta: TerminalMeta | None = field(name="_meta", default=None)


class AgentInfo(Wire, frozen=True):
    """An agent provider in the root list."""

    provider: str
    display_name: str
    description: str | None = None
    models: tuple[Any, ...] | None = None
    protected_resources: tuple[Any, ...] | None = None
    customizations: tuple[Any, ...] | None = None
    capabilities: dict[str, Any] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class RootConfig(Wire, frozen=True):
    """Configuration of a host; ours has none."""

    schema: dict[str, Any]
    values: dict[str, Any]


class RootState(Wire, frozen=True):
    """The state of the root channel."""

    agents: tuple[AgentInfo, ...]
    active_sessions: int | None = None
    terminals: tuple[TerminalInfo, ...] | None = None
    config: RootConfig | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


# --- actions ------------------------------------------------------------------------------------------------------------


class StateAction:
    """A change of a channel's state."""

    __slots__ = ()


class _Action(Wire, StateAction, frozen=True, tag_field="type"):
    pass


class RootAgentsChangedAction(_Action, frozen=True, tag="root/agentsChanged"):
    """Replaces the agents."""

    agents: tuple[AgentInfo, ...]


class RootActiveSessionsChangedAction(_Action, frozen=True, tag="root/activeSessionsChanged"):
    """Replaces the number of active sessions."""

    active_sessions: int


class RootTerminalsChangedAction(_Action, frozen=True, tag="root/terminalsChanged"):
    """Replaces the whole list of terminals."""

    terminals: tuple[TerminalInfo, ...]


class RootConfigChangedAction(_Action, frozen=True, tag="root/configChanged"):
    """Merges into the configuration's values, or replaces them all."""

    config: dict[str, Any]
    replace: bool | None = None


class TerminalDataAction(_Action, frozen=True, tag="terminal/data"):
    """Output: appended to the tail."""

    data: Annotated[str, Meta(description="VT text, never half a character.")]


class TerminalInputAction(_Action, frozen=True, tag="terminal/input"):
    """Input for the pty. Its reducer does nothing; it is never kept."""

    data: str

    def __repr__(self) -> str:
        return f"TerminalInputAction(<{len(self.data)} characters>)"


class TerminalResizedAction(_Action, frozen=True, tag="terminal/resized"):
    """The size, in character cells."""

    cols: int
    rows: int


class TerminalClaimedAction(_Action, frozen=True, tag="terminal/claimed"):
    """Hands the terminal to another holder."""

    claim: TerminalClaim


class TerminalTitleChangedAction(_Action, frozen=True, tag="terminal/titleChanged"):
    """Replaces the title."""

    title: str


class TerminalCwdChangedAction(_Action, frozen=True, tag="terminal/cwdChanged"):
    """The shell's folder, as a file: URI."""

    cwd: Uri


class TerminalExitedAction(_Action, frozen=True, tag="terminal/exited"):
    """The process has ended; no data follows. No code: ended by a signal."""

    exit_code: int | None = None


class TerminalClearedAction(_Action, frozen=True, tag="terminal/cleared"):
    """Empties the content."""


class TerminalCommandDetectionAvailableAction(_Action, frozen=True, tag="terminal/commandDetectionAvailable"):
    """The shell's integration has spoken."""


class TerminalCommandExecutedAction(_Action, frozen=True, tag="terminal/commandExecuted"):
    """A command has started; ``timestamp`` is Unix time in ms."""

    command_id: str
    command_line: str
    timestamp: int
    meta: TerminalPartMeta | None = field(name="_meta", default=None)


class TerminalCommandFinishedAction(_Action, frozen=True, tag="terminal/commandFinished"):
    """A command has ended. No exit code means unknown."""

    command_id: str
    exit_code: int | None = None
    duration_ms: int | None = None


class DetailsChangedAction(_Action, frozen=True, tag="x-terminal/detailsChanged"):
    """Replaces the details of this terminal."""

    details: TerminalDetails


class InfoChangedAction(_Action, frozen=True, tag="x-terminal/infoChanged"):
    """Replaces the details of one terminal in the root list."""

    resource: Uri
    details: TerminalDetails


CommandEnd = Literal["done", "continuation", "untracked", "exited", "lost"]


class RunEndedAction(_Action, frozen=True, tag="x-terminal/runEnded"):
    """A submitted text has come to its end.

    ``done``: the shell is at its prompt again. ``continuation``: the shell waits for the rest of the text. ``untracked``:
    handed over to a shell whose commands are not tracked. ``exited``: the shell ended. ``lost``: the host cannot tell.
    """

    run_id: str
    command_ids: tuple[str, ...]
    reason: CommandEnd


class UnknownAction(_Unknown, StateAction):
    """An action of a type that a newer peer knows. It changes nothing."""

    __slots__ = ()


# --- commands -----------------------------------------------------------------------------------------------------------


class TerminalCreationOptions(Wire, frozen=True):
    """``_meta["x-terminal"]`` of createTerminal."""

    shell: Annotated[str | None, Meta(description="A shell's name or its path.")] = None
    login: bool | None = None
    env: dict[str, str | None] | None = None
    origin: str | None = None


class TerminalCreationMeta(Wire, frozen=True):
    """``_meta`` of createTerminal."""

    x_terminal: TerminalCreationOptions | None = field(name="x-terminal", default=None)


class CreateTerminalParams(Wire, frozen=True):
    """createTerminal -> null. The client chooses the URI."""

    channel: Uri
    claim: TerminalClaim
    name: str | None = None
    cwd: Uri | None = None
    cols: int | None = None
    rows: int | None = None
    meta: TerminalCreationMeta | None = field(name="_meta", default=None)


class DisposeTerminalParams(Wire, frozen=True):
    """disposeTerminal -> null."""

    channel: Uri


class RunParams(Wire, frozen=True):
    """x-terminal/run -> null once the text is handed over; `RunEndedAction` follows."""

    channel: Uri
    text: str
    run_id: str
    discard_typed: bool | None = None

    def __repr__(self) -> str:
        return f"RunParams({self.channel!r}, run_id={self.run_id!r}, <{len(self.text)} characters>)"


class SignalParams(Wire, frozen=True):
    """x-terminal/signal -> SignalResult: to the running job and its descendants, never to the shell."""

    channel: Uri
    signal: Literal["interrupt", "terminate", "kill"]


class Survivor(Wire, frozen=True):
    """A process that goes on."""

    pid: int
    name: str


class SignalResult(Wire, frozen=True):
    """Who is still there after a signal or a close."""

    survivors: tuple[Survivor, ...]


# --- open unions --------------------------------------------------------------------------------------------------------


def _by_tag(*types: type[Any]) -> dict[str, type[Any]]:
    return {str(t.__struct_config__.tag): t for t in types}


CLAIMS = _by_tag(TerminalClientClaim, TerminalSessionClaim)
PARTS = _by_tag(TerminalUnclassifiedPart, TerminalCommandPart)
ACTIONS = _by_tag(
    RootAgentsChangedAction,
    RootActiveSessionsChangedAction,
    RootTerminalsChangedAction,
    RootConfigChangedAction,
    TerminalDataAction,
    TerminalInputAction,
    TerminalResizedAction,
    TerminalClaimedAction,
    TerminalTitleChangedAction,
    TerminalCwdChangedAction,
    TerminalExitedAction,
    TerminalClearedAction,
    TerminalCommandDetectionAvailableAction,
    TerminalCommandExecutedAction,
    TerminalCommandFinishedAction,
    DetailsChangedAction,
    InfoChangedAction,
    RunEndedAction,
)

CLIENT_DISPATCHABLE: frozenset[str] = frozenset(
    {
        "root/configChanged",
        "terminal/input",
        "terminal/resized",
        "terminal/claimed",
        "terminal/titleChanged",
        "terminal/cleared",
    }
)

_OPEN: dict[type[Any], tuple[str, dict[str, type[Any]], type[_Unknown]]] = {
    TerminalClaim: ("kind", CLAIMS, UnknownClaim),
    TerminalContentPart: ("type", PARTS, UnknownPart),
    StateAction: ("type", ACTIONS, UnknownAction),
}


def open_variant(base: type[Any], value: Any) -> Any:
    """Read one member of an open union (msgspec's ``dec_hook``).

    Args:
        base: `TerminalClaim`, `TerminalContentPart` or `StateAction`.
        value: the decoded object.

    Raises:
        msgspec.ValidationError: it is no object with a string tag, or a known variant has wrong members.
    """
    tag_field, known, unknown = _OPEN[base]
    tag = value.get(tag_field) if isinstance(value, dict) else None
    if not isinstance(tag, str):
        raise msgspec.ValidationError(f"Expected an object with a string `{tag_field}`")
    cls = known.get(tag)
    return unknown(value) if cls is None else msgspec.convert(value, cls, dec_hook=open_variant)
