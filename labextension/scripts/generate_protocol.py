"""Write the protocol's TypeScript types from its Structs.

Run it as ``python labextension/scripts/generate_protocol.py``; with ``--check`` it writes nothing and exits with 1 when the
committed file is stale.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import inspect

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "labextension" / "src" / "protocol.generated.ts"
COMMAND = "python labextension/scripts/generate_protocol.py"

sys.path.insert(0, str(ROOT))

from jupyter_ext.protocol import display, messages, terminal  # noqa: E402

MODULES: tuple[ModuleType, ...] = (terminal, messages, display)

# JSON-RPC frames carry members ("jsonrpc") that their Structs leave to the codec; TypeScript has its own reader of frames.
LEFT_OUT = {"Wire", "Request", "Notification", "Response"}

ALIASES: dict[str, tuple[ModuleType, str]] = {"Uri": (terminal, "string"), "Color": (display, "string")}

OPEN_UNIONS: dict[type[Any], Mapping[str, type[Any]]] = {
    terminal.TerminalClaim: terminal.CLAIMS,
    terminal.TerminalContentPart: terminal.PARTS,
    terminal.StateAction: terminal.ACTIONS,
}

# What Python reads in two steps is typed here by what the second step reads.
SECOND_STEP = {
    ("DispatchActionParams", "action"): "StateAction",
    ("Snapshot", "state"): "RootState | TerminalState | Readonly<Record<string, unknown>>",
    ("InitializeResult", "snapshots"): "readonly Snapshot[]",
    ("ReconnectReplayResult", "actions"): "readonly ActionEnvelope[]",
    ("ReconnectSnapshotResult", "snapshots"): "readonly Snapshot[]",
    ("SubscribeResult", "snapshot"): "Snapshot",
}

PREAMBLE = f"""\
// Generated from jupyter_ext/protocol by `{COMMAND}`; do not edit.

/** Stands for every tag that is not listed here; the value is whatever the peer wrote. A literal, so that comparing narrows. */
export type UnknownTag = '(unknown)';
"""


def _descriptions() -> dict[str, str]:
    """The aliases by their description, which is all of an alias that `msgspec.inspect` shows."""
    found: dict[str, str] = {}
    for name, (module, _) in ALIASES.items():
        found[_described(inspect.type_info(getattr(module, name)))[1]] = name
    return found


def _described(info: inspect.Type) -> tuple[inspect.Type, str]:
    """A type without its metadata, and its description or an empty text."""
    if isinstance(info, inspect.Metadata):
        return info.type, (info.extra_json_schema or {}).get("description", "")
    return info, ""


ALIAS_BY_DESCRIPTION = _descriptions()

SIMPLE: dict[type[inspect.Type], str] = {
    inspect.AnyType: "unknown",
    inspect.RawType: "unknown",
    inspect.BoolType: "boolean",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.NoneType: "null",
}


def _union(members: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(members))
    return "unknown" if "unknown" in distinct else " | ".join(distinct)


def _type(info: inspect.Type) -> str:
    """The TypeScript of a type."""
    info, description = _described(info)
    if description in ALIAS_BY_DESCRIPTION:
        return ALIAS_BY_DESCRIPTION[description]
    if type(info) in SIMPLE:
        return SIMPLE[type(info)]
    if isinstance(info, inspect.LiteralType):
        return " | ".join(f"'{value}'" for value in info.values)
    if isinstance(info, inspect.StructType):
        return info.cls.__name__
    if isinstance(info, inspect.CustomType):
        return info.cls.__name__
    if isinstance(info, inspect.UnionType):
        return _union(map(_type, info.types))
    if isinstance(info, inspect.VarTupleType):
        item = _type(info.item_type)
        return f"readonly ({item})[]" if " | " in item or item.startswith("readonly ") else f"readonly {item}[]"
    if isinstance(info, inspect.DictType):
        return f"Readonly<Record<{_type(info.key_type)}, {_type(info.value_type)}>>"
    raise TypeError(f"no TypeScript for {info}")


def _without_none(info: inspect.Type) -> inspect.Type:
    """An optional member's type: absent takes the place of None."""
    if not isinstance(info, inspect.UnionType):
        return info
    return inspect.UnionType(tuple(t for t in info.types if not isinstance(t, inspect.NoneType)))


def _doc(text: str, indent: str = "") -> Iterator[str]:
    if text:
        wire_names = re.sub(r"``(\w+)``", lambda match: f"`{_camel(match[1])}`", text)
        yield f"{indent}/** {wire_names.replace('``', '`')} */"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest)) if head else name


def _key(name: str) -> str:
    return name if name.isidentifier() else f"'{name}'"


def _struct(cls: type[msgspec.Struct]) -> Iterator[str]:
    """One interface."""
    yield ""
    yield from _doc((cls.__doc__ or "").splitlines()[0])
    yield f"export interface {cls.__name__} {{"
    if cls.__struct_config__.tag is not None:
        yield f"  readonly {cls.__struct_config__.tag_field}: '{cls.__struct_config__.tag}';"
    for field in msgspec.structs.fields(cls):
        text, description = SECOND_STEP.get((cls.__name__, field.name), ""), ""
        if not text:
            info, description = _described(inspect.type_info(field.type))
            text = ALIAS_BY_DESCRIPTION.get(description) or _type(info if field.required else _without_none(info))
        if description not in ALIAS_BY_DESCRIPTION:
            yield from _doc(description, "  ")
        yield f"  readonly {_key(field.encode_name)}{'' if field.required else '?'}: {text};"
    yield "}"


def _open_union(base: type[Any], known: Mapping[str, type[Any]]) -> Iterator[str]:
    """The variant for unknown tags and the union."""
    unknown = next(cls for cls in base.__subclasses__() if cls.__name__.startswith("Unknown"))
    yield ""
    yield from _doc((unknown.__doc__ or "").splitlines()[0])
    yield f"export interface {unknown.__name__} {{"
    yield f"  readonly {unknown.tag_field}: UnknownTag;"
    yield "  readonly [key: string]: unknown;"
    yield "}"
    yield ""
    yield from _doc((base.__doc__ or "").splitlines()[0])
    yield f"export type {base.__name__} ="
    names = [cls.__name__ for cls in known.values()] + [unknown.__name__]
    yield "\n".join(f"  | {name}" for name in names) + ";"


def _constants() -> Iterator[str]:
    def array(values: Iterable[str]) -> str:
        return "[" + ", ".join(f"'{value}'" for value in values) + "]"

    yield ""
    yield f"export const ROOT_URI = '{terminal.ROOT_URI}';"
    yield ""
    yield f"export const COMMAND_MIME = '{display.COMMAND_MIME}';"
    yield ""
    yield "/** Baselines, newest first; each accepts its caret range. */"
    yield f"export const SUPPORTED_VERSIONS: readonly string[] = {array(messages.SUPPORTED_VERSIONS)};"
    yield ""
    yield "/** What a peer of ours announces in `_meta` of initialize. */"
    yield f"export const EXTENSIONS: Readonly<Record<string, unknown>> = {json.dumps(messages.EXTENSIONS)};"
    yield ""
    yield "/** The types of the actions that a client may dispatch. */"
    yield f"export const CLIENT_DISPATCHABLE: ReadonlySet<string> = new Set({array(sorted(terminal.CLIENT_DISPATCHABLE))});"
    yield ""
    yield "/** Error codes on the wire. */"
    yield "export const ErrorCode = {"
    codes = [(name, code) for name, code in vars(messages.ErrorCode).items() if name.isupper()]
    yield ",\n".join(f"  {name}: {code}" for name, code in codes)
    yield "} as const;"


def generate() -> str:
    """The whole file."""
    lines: list[str] = [PREAMBLE.rstrip("\n")]
    for name, (module, text) in ALIASES.items():
        lines.append("")
        lines.extend(_doc(_described(inspect.type_info(getattr(module, name)))[1]))
        lines.append(f"export type {name} = {text};")
    for module in MODULES:
        for name, cls in vars(module).items():
            if (
                isinstance(cls, type)
                and issubclass(cls, msgspec.Struct)
                and cls.__module__ == module.__name__
                and name not in LEFT_OUT
                and not name.startswith("_")
            ):
                lines.extend(_struct(cls))
    for base, known in OPEN_UNIONS.items():
        lines.extend(_open_union(base, known))
    lines.extend(_constants())
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the file or check it.

    Returns:
        The exit code: 1 when `--check` finds the file stale.
    """
    parser = argparse.ArgumentParser(description="Write the protocol's TypeScript types from its Structs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the file is stale")
    check: bool = parser.parse_args(arguments).check
    text = generate()
    if not check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.relative_to(ROOT)} is stale: run {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
