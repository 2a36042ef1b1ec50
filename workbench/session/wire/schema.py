"""The types of the wire as JSON Schema, and the check of data by it.

`extension/src/wire/schema.ts` checks by the same schema, and writes out the characters
of a text that would not be seen.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from workbench.core.blame import shorten
from workbench.session.wire.protocol.fields import MOST_ITEMS, MOST_NODES
from workbench.session.wire.protocol.requests import (
    SCHEMAS,
    list_events,
    list_messages,
)
from workbench.session.wire.protocol.snapshot import Saved

Schema = dict[str, Any]
Sizes = Mapping[str, int]

#: The beginning of a reference to a definition.
REFERENCE = "#/$defs/"
#: The largest number, and the largest whole number that the page tells from the next.
LARGEST, LARGEST_INTEGER = sys.float_info.max, 2**53 - 1
#: The most characters of a text that is sent, and of a value that an error quotes.
MOST_SENT, MOST_QUOTED = 2000, 200
SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def definitions() -> dict[str, Schema]:
    """Return the schema of each type of the wire by its name."""
    if not SCHEMAS:
        found: dict[str, Schema] = {}
        for kind in (Saved, list_messages(), list_events()):
            describe_type(kind, found)
        SCHEMAS.update(found)
    return SCHEMAS


def describe_type(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """Return the schema of a type; those that have names go into ``schemas``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        keywords = {k: v for meta in arguments[1:] for k, v in meta.keywords.items()}
        title = keywords.pop("title", None)
        late = {k: keywords.pop(k) for k in ("choose", "default") if k in keywords}
        schema = {**describe_type(arguments[0], schemas), **keywords}
        if "most" in schema:
            schema.pop("maxItems", None)
        if title is not None:
            schemas[title] = schema
            schema = {"$ref": REFERENCE + title}
        return {**schema, **late}
    if origin is NotRequired:
        return describe_type(arguments[0], schemas)
    if origin in (Union, UnionType):
        options = [describe_type(x, schemas) for x in arguments if x is not type(None)]
        if type(None) in arguments:
            return {"anyOf": [*options, {"type": "null"}]}
        return {"oneOf": options, "discriminator": find_tag(options, schemas)}
    if origin is Literal:
        return {"enum": arguments}
    if origin is list:
        items = describe_type(arguments[0], schemas)
        return {"type": "array", "items": items, "maxItems": MOST_ITEMS}
    if origin is dict:
        return {"type": "object"}
    if is_typeddict(kind):
        name = kind.__name__.removesuffix("Data")
        if name not in schemas:
            schemas[name] = describe_fields(kind, schemas)
        return {"$ref": REFERENCE + name}
    return {} if kind is Any else {"type": SCALARS[kind]}


def describe_fields(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """Return the schema of a TypedDict."""
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: describe_type(hint, schemas) for name, hint in hints.items()}
    required = [
        name
        for name, hint in hints.items()
        if get_origin(hint) is not NotRequired
        and not {"default", "choose"} & fields[name].keys()
    ]
    return {"type": "object", "properties": fields, "required": required}


def find_tag(options: list[Schema], schemas: dict[str, Schema]) -> str:
    """Return the field by whose value the options of a union differ."""
    fields = [schemas[o["$ref"].removeprefix(REFERENCE)]["properties"] for o in options]
    for name in fields[0]:
        values = [x for one in fields for x in one.get(name, {}).get("enum", "")]
        if len({*values}) == len(values) >= len(options):
            return str(name)
    raise TypeError("no field tells the types of a union apart")


class WireError(ValueError):
    """Data that is not as declared, with its place."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        #: The fields and positions that lead to it, the innermost first.
        self.keys: list[str | int] = []

    def __str__(self) -> str:
        steps = [f".{k}" if isinstance(k, str) else f"[{k}]" for k in self.keys[::-1]]
        return f"{''.join(steps).removeprefix('.') or 'it'} {self.why}"


def read(name: str, value: object) -> Any:
    """Return data that is of a type: what the type does not have is left out.

    Parameters
    ----------
    name
        The name of the type in the schema.
    value
        The data, which may be anything.

    Raises
    ------
    WireError
        If it is not of that type; with the place.

    Examples
    --------
    >>> read("Fix", {"text": "smaller", "code": "w / 2", "attachable": 1})
    Traceback (most recent call last):
    ...
    workbench.session.wire.schema.WireError: attachable is 1, neither true nor false
    """
    return check(definitions()[name], value, {"nodes": MOST_NODES})


def check(schema: Schema, value: Any, sizes: Sizes) -> Any:
    """Return a value that is of a schema, without what the schema does not have."""
    if "$ref" in schema:
        schema = definitions()[schema["$ref"].removeprefix(REFERENCE)]
    if "anyOf" in schema:
        return None if value is None else check(schema["anyOf"][0], value, sizes)
    if "oneOf" in schema:
        return check(find_option(schema, value), value, sizes)
    if "enum" in schema:
        if not isinstance(value, str) or value not in schema["enum"]:
            known = ", ".join(schema["enum"])
            raise WireError(f"is {quote(value)}, not one of {known}")
        return value
    return CHECKS[schema["type"]](schema, value, sizes) if "type" in schema else value


def check_object(schema: Schema, value: Any, sizes: Sizes) -> Any:
    """Return an object that has the fields of a schema, and no others."""
    if not isinstance(value, dict):
        raise WireError("is not an object")
    if "properties" not in schema:
        return value
    checked: dict[str, Any] = {}
    name = ""
    try:
        for name, field in schema["properties"].items():
            if name in value:
                checked[name] = check(field, value[name], sizes)
            elif "default" in field:
                checked[name] = check(field, field["default"], sizes)
            elif "choose" in field:
                by, true, false = field["choose"]
                checked[name] = true if checked[by] else false
            elif name in schema["required"]:
                raise WireError("is missing")
            if "sizes" in field:
                sizes = {**sizes, field["sizes"]: checked[name]}
    except WireError as error:
        error.keys.append(name)
        raise
    return checked


def check_list(schema: Schema, value: Any, sizes: Sizes) -> list[Any]:
    """Return a list that is not too long, each of its entries checked."""
    if not isinstance(value, list):
        raise WireError(f"is {quote(value)}, not a list")
    most = sizes[schema["most"]] if "most" in schema else schema["maxItems"]
    least = schema.get("minItems", 0)
    if len(value) < least:
        raise WireError(f"has {len(value)} entries, fewer than {least}")
    if len(value) > most:
        raise WireError(f"has {len(value)} entries, more than {most}")
    items, checked = schema["items"], []
    if value and is_uniform(items, value, sizes):
        return value[:]
    try:
        for x in value:
            checked.append(check(items, x, sizes))
    except WireError as error:
        error.keys.append(len(checked))
        raise
    return checked


def is_uniform(items: Schema, value: list[Any], sizes: Sizes) -> bool:
    """Return True for texts or whole numbers whose extremes are as declared."""
    kinds, kind = {*map(type, value)}, items.get("type")
    if kinds == {int} and kind == "integer":
        extremes = [min(value), max(value)]
    elif kinds == {str} and kind == "string" and "enum" not in items:
        extremes = [max(value, key=len)]
    else:
        return False
    try:
        for x in extremes:
            check(items, x, sizes)
    except WireError:
        return False
    return True


def check_text(schema: Schema, value: Any, sizes: Sizes) -> str:
    """Return a text that is not too long."""
    if not isinstance(value, str):
        raise WireError(f"is {quote(value)}, not text")
    if len(value) > schema["maxLength"]:
        most = schema["maxLength"]
        raise WireError(f"has {len(value)} characters, more than {most}")
    return value


def check_integer(schema: Schema, value: Any, sizes: Sizes) -> int:
    """Return a whole number of the range of a schema."""
    if type(value) is not int or abs(value) > LARGEST_INTEGER:
        raise WireError(f"is {quote(value)}, not a whole number")
    low = schema.get("minimum", value)
    high = sizes[schema["below"]] - 1 if "below" in schema else schema.get("maximum")
    if value < low or (high is not None and value > high):
        end = "" if high is None else f" to {high}"
        raise WireError(f"is {quote(value)}; it must be from {low}{end}")
    return value


def check_number(schema: Schema, value: Any, sizes: Sizes) -> float:
    """Return a number that is finite: JSON has no others."""
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise WireError(f"is {quote(value)}, not a finite number")
    return float(value)


def check_boolean(schema: Schema, value: Any, sizes: Sizes) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise WireError(f"is {quote(value)}, neither true nor false")
    return value


CHECKS: dict[str, Callable[[Schema, Any, Sizes], Any]] = {
    "object": check_object,
    "array": check_list,
    "string": check_text,
    "integer": check_integer,
    "number": check_number,
    "boolean": check_boolean,
}


def find_option(schema: Schema, value: Any) -> Schema:
    """Return the type of a union that a value says it is."""
    if not isinstance(value, dict):
        raise WireError("is not an object")
    tag = schema["discriminator"]
    kind, known = value.get(tag), []
    for option in schema["oneOf"]:
        one = definitions()[option["$ref"].removeprefix(REFERENCE)]
        known += one["properties"][tag]["enum"]
        if isinstance(kind, str) and kind in one["properties"][tag]["enum"]:
            return one
    error = WireError(f"is {quote(kind)}, not one of {', '.join(known)}")
    error.keys.append(tag)
    raise error


class Quotation(reprlib.Repr):
    """Write a value as Python does, but of one that is deep or long the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxdict = 3, 6, 6
        self.maxstring = self.maxother = MOST_QUOTED

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number; of a huge one only how long it is."""
        return repr(x) if x.bit_length() <= 64 else f"a number of {x.bit_length()} bits"


def quote(value: object) -> str:
    """Return a value as an error quotes it."""
    return clean_text(Quotation().repr(value), MOST_QUOTED)


def clean_text(text: str, most: int = MOST_SENT) -> str:
    """Return a text that can be sent: not too long, and no half of a character."""
    return shorten(text, most).encode("utf-8", "backslashreplace").decode()
