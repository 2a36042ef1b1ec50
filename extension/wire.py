"""Write the types and the schema of the wire for the page, from those of the kernel.

``python extension/wire.py`` writes both anew after a change of
`workbench/session/wire/protocol/`; a test says when that was forgotten.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workbench.core.schema import REFERENCE, Schema
from workbench.session.wire.protocol import fields
from workbench.session.wire.schema import definitions

WIRE = Path(__file__).resolve().parent / "src/wire"
HEAD = """\
/**
 * What travels between the kernel and the page, or is saved: written by
 * `extension/wire.py` from `workbench/session/wire/protocol/`, which says what each
 * field means. Change it there, and run `python extension/wire.py`.
 */

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
    for name, schema in definitions().items():
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
    return HEAD + "\n".join(lines) + "\n"


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
