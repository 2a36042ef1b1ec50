"""Types of data as JSON Schema, and the check of data that is not trusted by it.

What comes from a file, a notebook or a page is declared as TypedDicts, and read by
`Schemas.read`: it has then the declared fields and no others, each of its type and no
larger than it may be.
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

Schema = dict[str, Any]
Sizes = Mapping[str, int]

#: The beginning of a reference to a definition.
REFERENCE = "#/$defs/"
#: The largest number, and the largest whole number that the page tells from the next.
LARGEST, LARGEST_INTEGER = sys.float_info.max, 2**53 - 1
#: The most characters of a text that is sent, and of a value that an error quotes.
MOST_SENT, MOST_QUOTED = 2000, 200
SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}
KINDS = {**SCALARS, list: "array", dict: "object"}
#: The same in an error.
WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


#: The longest list, where the type says nothing else.
MOST_ITEMS = 10_000


class Meta:
    """Keywords of JSON Schema that a type does not say by itself, and these of ours.

    ``sizes`` names what a field counts; ``below`` and ``most`` are such a name: an
    index below that size, a list of at most so many. ``choose`` is a default by
    another field, which is true or false: its name, and the default for each.
    ``encoded`` is base64, ``part`` the type that an object has some fields of.
    """

    def __init__(self, **keywords: object) -> None:
        self.keywords = keywords


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
        schema = options[0]
        if len(options) > 1:
            schema = {"oneOf": options}
            if all("$ref" in option for option in options):
                schema["discriminator"] = find_tag(options, schemas)
        if type(None) in arguments:
            return {"anyOf": [schema, {"type": "null"}]}
        return schema
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
    """Return the field with values that tell the options of a union apart."""
    fields = [schemas[o["$ref"].removeprefix(REFERENCE)]["properties"] for o in options]
    for name in fields[0]:
        values = [x for one in fields for x in one.get(name, {}).get("enum", "")]
        if len({*values}) == len(values) >= len(options):
            return str(name)
    raise TypeError("no field tells the types of a union apart")


class DataError(ValueError):
    """Data that is not as declared, with its place."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        #: The fields and positions that lead to it, the innermost first.
        self.keys: list[str | int] = []

    def __str__(self) -> str:
        steps = [f".{k}" if isinstance(k, str) else f"[{k}]" for k in self.keys[::-1]]
        return f"{''.join(steps).removeprefix('.') or 'it'} {self.why}"


class Schemas:
    """Declared types, and the reader of data that should be of them.

    Parameters
    ----------
    kinds
        TypedDicts, or unions of some; the types that they are made of are known too.

    Attributes
    ----------
    definitions
        The schema of each type by its name, without ``Data`` at its end.

    Examples
    --------
    >>> from typing import TypedDict
    >>> class PointData(TypedDict):
    ...     x: float
    >>> Schemas(PointData).read("Point", {"x": 1, "y": 2})
    {'x': 1.0}
    >>> Schemas(PointData).read("Point", {"x": "1"})
    Traceback (most recent call last):
    ...
    workbench.core.schema.DataError: x is '1', not a finite number
    """

    def __init__(self, *kinds: Any) -> None:
        self.definitions: dict[str, Schema] = {}
        for kind in kinds:
            describe_type(kind, self.definitions)

    def read(self, name: str, value: object, sizes: Sizes | None = None) -> Any:
        """Return data that fits a type, without fields that the type does not have.

        Parameters
        ----------
        name
            The name of the type.
        value
            The data, which may be anything.
        sizes
            How many there are of what indices count, by its name.

        Raises
        ------
        DataError
            If it is not of that type; with the place.
        """
        return self.check(self.definitions[name], value, sizes or {})

    def check(self, schema: Schema, value: Any, sizes: Sizes) -> Any:
        """Return a value that fits a schema, without fields that the schema lacks."""
        if "$ref" in schema:
            schema = self.definitions[schema["$ref"].removeprefix(REFERENCE)]
        if "anyOf" in schema:
            return (
                None if value is None else self.check(schema["anyOf"][0], value, sizes)
            )
        if "oneOf" in schema:
            return self.check(self.find_option(schema, value), value, sizes)
        if "enum" in schema:
            if not isinstance(value, str) or value not in schema["enum"]:
                known = ", ".join(schema["enum"])
                raise DataError(f"is {quote(value)}, not one of {known}")
            return value
        return (
            CHECKS[schema["type"]](self, schema, value, sizes)
            if "type" in schema
            else value
        )

    def check_object(self, schema: Schema, value: Any, sizes: Sizes) -> Any:
        """Return an object that has the fields of a schema, and no others."""
        if not isinstance(value, dict):
            raise DataError("is not an object")
        if "properties" not in schema:
            return value
        checked: dict[str, Any] = {}
        name = ""
        try:
            for name, field in schema["properties"].items():
                if name in value:
                    checked[name] = self.check(field, value[name], sizes)
                elif "default" in field:
                    checked[name] = self.check(field, field["default"], sizes)
                elif "choose" in field:
                    by, true, false = field["choose"]
                    checked[name] = true if checked[by] else false
                elif "anyOf" in field:
                    # Notebooks that a browser's Python saves lack what is None.
                    if name in schema["required"]:
                        checked[name] = None
                elif name in schema["required"]:
                    raise DataError("is missing")
                if "sizes" in field:
                    sizes = {**sizes, field["sizes"]: checked[name]}
        except DataError as error:
            error.keys.append(name)
            raise
        return checked

    def check_list(self, schema: Schema, value: Any, sizes: Sizes) -> list[Any]:
        """Return a list that is not too long, each of its entries checked."""
        if not isinstance(value, list):
            raise DataError(f"is {quote(value)}, not a list")
        most = sizes[schema["most"]] if "most" in schema else schema["maxItems"]
        least = schema.get("minItems", 0)
        if len(value) < least:
            raise DataError(f"has {len(value)} entries, fewer than {least}")
        if len(value) > most:
            raise DataError(f"has {len(value)} entries, more than {most}")
        items, checked = schema["items"], []
        if value and self.is_uniform(items, value, sizes):
            return value[:]
        try:
            for x in value:
                checked.append(self.check(items, x, sizes))
        except DataError as error:
            error.keys.append(len(checked))
            raise
        return checked

    def is_uniform(self, items: Schema, value: list[Any], sizes: Sizes) -> bool:
        """Return True for texts or whole numbers with extremes that fit the schema."""
        kinds, kind = {*map(type, value)}, items.get("type")
        if kinds == {int} and kind == "integer":
            extremes = [min(value), max(value)]
        elif kinds == {str} and kind == "string" and "enum" not in items:
            extremes = [max(value, key=len)]
        else:
            return False
        try:
            for x in extremes:
                self.check(items, x, sizes)
        except DataError:
            return False
        return True

    def check_text(self, schema: Schema, value: Any, sizes: Sizes) -> str:
        """Return a text that is not too long."""
        if not isinstance(value, str):
            raise DataError(f"is {quote(value)}, not text")
        if len(value) > schema["maxLength"]:
            most = schema["maxLength"]
            raise DataError(f"has {len(value)} characters, more than {most}")
        return value

    def check_integer(self, schema: Schema, value: Any, sizes: Sizes) -> int:
        """Return a whole number of the range of a schema."""
        if type(value) is not int:
            raise DataError(f"is {quote(value)}, not a whole number")
        if abs(value) > LARGEST_INTEGER:
            raise DataError(f"is {quote(value)}; the largest is {LARGEST_INTEGER}")
        low = schema.get("minimum", value)
        high = (
            sizes[schema["below"]] - 1 if "below" in schema else schema.get("maximum")
        )
        if value < low or (high is not None and value > high):
            end = "" if high is None else f" to {high}"
            raise DataError(f"is {quote(value)}; it must be from {low}{end}")
        return value

    def check_number(self, schema: Schema, value: Any, sizes: Sizes) -> float:
        """Return a number that is finite: JSON has no others."""
        if type(value) not in (int, float) or not abs(value) <= LARGEST:
            raise DataError(f"is {quote(value)}, not a finite number")
        return float(value)

    def check_boolean(self, schema: Schema, value: Any, sizes: Sizes) -> bool:
        """Return true or false."""
        if not isinstance(value, bool):
            raise DataError(f"is {quote(value)}, neither true nor false")
        return value

    def find_option(self, schema: Schema, value: Any) -> Schema:
        """Return the type of a union that a value has, or has by its own tag."""
        tag = schema.get("discriminator")
        if tag is None:
            for option in schema["oneOf"]:
                if option.get("type", "object") == KINDS.get(type(value)):
                    return dict(option)
            known = [WORDS[option.get("type", "object")] for option in schema["oneOf"]]
            raise DataError(f"is {quote(value)}, neither {' nor '.join(known)}")
        if not isinstance(value, dict):
            raise DataError("is not an object")
        kind, known = value.get(tag), list[str]()
        for option in schema["oneOf"]:
            one = self.definitions[option["$ref"].removeprefix(REFERENCE)]
            known += one["properties"][tag]["enum"]
            if isinstance(kind, str) and kind in one["properties"][tag]["enum"]:
                return one
        error = DataError(f"is {quote(kind)}, not one of {', '.join(known)}")
        error.keys.append(tag)
        raise error


CHECKS: dict[str, Callable[[Schemas, Schema, Any, Sizes], Any]] = {
    "object": Schemas.check_object,
    "array": Schemas.check_list,
    "string": Schemas.check_text,
    "integer": Schemas.check_integer,
    "number": Schemas.check_number,
    "boolean": Schemas.check_boolean,
}


class Quotation(reprlib.Repr):
    """Write a value as Python does, but of one that is deep or long the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxdict = 3, 6, 6
        self.maxstring = self.maxother = MOST_QUOTED

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number as text; for a huge one only its length."""
        return repr(x) if x.bit_length() <= 64 else f"a number of {x.bit_length()} bits"


def quote(value: object) -> str:
    """Return a value in the form that errors quote."""
    return clean_text(Quotation().repr(value), MOST_QUOTED)


def clean_text(text: str, most: int = MOST_SENT) -> str:
    """Return a text that can be sent: not too long, and no half of a character."""
    return shorten(text, most).encode("utf-8", "backslashreplace").decode()
