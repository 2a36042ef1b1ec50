"""Write the types and the schema of the wire for the page, from those of the kernel.

``python extension/wire.py`` writes both anew after a change of
`workbench/session/wire/protocol/` or `workbench/jupyter/answers.py`; a test says when
that was forgotten.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, get_type_hints

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workbench.core.schema import REFERENCE, Schema, describe_type
from workbench.jupyter import answers  # declares what may be asked
from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.messages import PictureData
from workbench.session.wire.protocol.requests import REQUESTS, RequestKind
from workbench.session.wire.schema import definitions

WIRE = Path(__file__).resolve().parent / "src/wire"
HEAD = """\
/**
 * What travels between the kernel and the page, or is saved: written by
 * `extension/wire.py` from `workbench/session/wire/protocol/` and what the functions of
 * `workbench/jupyter/answers.py` take and give, where it says what each field means.
 * Change it there, and run `python extension/wire.py`.
 */

"""
EVENTS = """\
/** The run of the past that is asked about; absent: what there is now. */
export type IAbout = { at?: number };
export type RequestName = keyof IRequests;
export type RequestEvent<K extends RequestName = RequestName> = K extends RequestName
  ? { type: 'event'; seq: number; request: number; event: K } & IAbout &
      IRequests[K]['asked']
  : never;
export type PageEvent = IHelloEvent | IAckEvent | IStopEvent | RequestEvent;
"""
ARRAYS = {"uint8": "Uint8Array", "int32": "Int32Array", "float64": "Float64Array"}
WIDTH = 88


def write_schema() -> str:
    """Return the schema as JSON, each definition and each column on a line."""
    columns = {n: rule._asdict() for n, rule in fields.COLUMN_RULES.items()}
    parts = {"$defs": list_read(), "columns": columns}
    sections = []
    for name, part in parts.items():
        lines = [
            f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()
        ]
        sections.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def list_read() -> dict[str, Schema]:
    """Return the definitions of what the page reads, which is not what it sends."""
    known, found = definitions(), dict[str, Schema]()
    todo = ["Saved", "Header", "KernelMessage"]
    while todo:
        if (name := todo.pop()) not in found:
            found[name] = known[name]
            text = json.dumps(known[name])
            todo += re.findall(f'"{re.escape(REFERENCE)}(\\w+)"', text)
    return {name: one for name, one in known.items() if name in found}


def write_types() -> str:
    """Return the types as TypeScript."""
    lines = [
        f"export const SCHEMA = {fields.SCHEMA};",
        f"export const MIME_TYPE = '{fields.MIME_TYPE}';",
    ]
    for name in ("STATISTICS", "KINDS", "STATUSES"):
        words = [f"'{x}'" for x in getattr(fields, name)]
        lines += fill(f"export const {name} = [", words, ",", "] as const;")
    columns = {
        name + "?" * rule.optional: ARRAYS[rule.dtype]
        for name, rule in fields.COLUMN_RULES.items()
    }
    lines += write_type("IColumns", columns)
    lines += write_plots()
    hints = get_type_hints(PictureData, include_extras=True)
    body = {n: type_of(describe_type(t, definitions())) for n, t in hints.items()}
    picture = write_type("IPicture", body)
    asked = {f"I{one.event.__name__}" for one in REQUESTS.values()}
    for name, schema in definitions().items():
        if f"I{name}" in asked or name == "PageEvent":
            continue
        if "properties" in schema:
            properties = {}
            for key, field in schema["properties"].items():
                known = {"default", "choose"} & field.keys() or key in schema[
                    "required"
                ]
                properties[key if known else f"{key}?"] = type_of(field)
            lines += write_type(f"I{name}", properties)
        else:
            options = type_of(schema).split(" | ")
            lines += fill(f"export type {name} =", options, " |", ";")
    lines += [*picture, "export interface IRequests {"]
    for request in REQUESTS.values():
        lines += [f"  {line}" for line in write_request(request)]
    return HEAD + "\n".join([*lines, "}"]) + "\n" + EVENTS


def write_request(request: RequestKind) -> list[str]:
    """Return the lines of what a page sends with a request, and of what it gets."""
    known = definitions()
    asked = [
        f"{name}{'?' * ('default' in schema)}: {type_of(schema)}"
        for name, kind in request.fields.items()
        for schema in [describe_type(kind, known)]
    ]
    answer = "null" if request.kind == "command" else "IDoneMessage"
    if request.message is not None:
        answer = f"I{request.message.__name__}"
    name = f"'{request.name}'" if "-" in request.name else request.name
    start = f"{name}: {{ asked: " + ("{" if asked else "object;")
    end = (" };" if asked else "") + f" answer: {answer} }};"
    words = asked if len(f"{start} {asked}{end}") > WIDTH else ["; ".join(asked)]
    return fill(start, words, ";", end) if asked else [start + end]


def write_plots() -> list[str]:
    """Return the lines of the kinds of plots, and what each is made of."""
    lines = ["export const PLOTS = {"]
    for i, kind in enumerate(answers.PLOTS.values()):
        told = {"title": kind.title, "view": kind.view}
        words = [f"{key}: '{text}'" for key, text in told.items()]
        for key, names in {"views": kind.views, "needs": kind.needs}.items():
            words.append(f"{key}: [{', '.join(repr(name) for name in names)}]")
        end = " }" + "," * (i < len(answers.PLOTS) - 1)
        lines += [f"  {one}" for one in fill(f"{kind.name}: {{", words, ",", end)]
    return [*lines, "} as const;"]


def write_type(name: str, properties: dict[str, str]) -> list[str]:
    """Return the lines of the type of an object."""
    words = [f"{key}: {kind}" for key, kind in properties.items()]
    return fill(f"export type {name} = {{", words, ";", " };")


def fill(start: str, words: list[str], separator: str, end: str) -> list[str]:
    """Return words in lines, as many on each as fit."""
    lines = [start]
    for i, word in enumerate(words):
        piece = word + (separator if i < len(words) - 1 else end)
        if len(lines[-1]) + len(piece) + 1 > WIDTH:
            lines.append(f"  {piece}")
        else:
            lines[-1] += piece if lines[-1].endswith("[") else f" {piece}"
    return lines


def type_of(schema: Schema) -> str:
    """Return the type of the values of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return f"I{name}" if "properties" in definitions()[name] else name
    if "part" in schema:
        return f"Partial<I{schema['part']}>"
    if "enum" in schema:
        return " | ".join(f"'{x}'" for x in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        return " | ".join(map(type_of, schema.get("anyOf") or schema["oneOf"]))
    if schema.get("type") == "array":
        items = type_of(schema["items"])
        pair = schema.get("minItems") == schema.get("maxItems") == 2
        several = f"({items})" if "anyOf" in schema["items"] else items
        return f"[{items}, {items}]" if pair else f"{several}[]"
    kinds: dict[Any, str] = {
        "integer": "number",
        "object": "Record<string, unknown>",
        None: "unknown",
    }
    kind = schema.get("type")
    return kinds.get(kind, str(kind))


if __name__ == "__main__":
    (WIRE / "protocol.ts").write_text(write_types())
    (WIRE / "schema.json").write_text(write_schema())
