"""What a notebook holds is looked at before it is used: types, sizes, ranges."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from workbench.errors import SnapshotError
from workbench.session.wire.header import cut

__all__ = [
    "count",
    "damaged",
    "flag",
    "items",
    "one_of",
    "record",
    "rising",
    "said",
    "text",
    "texts",
    "within",
]

Array = np.ndarray[Any, Any]
#: The longest text that is read back.
MOST_CHARACTERS = 20_000
#: The largest number; a whole number of JSON may be larger.
LARGEST = sys.float_info.max


def rising(starts: Array, end: int, name: str) -> None:
    """Whether starts rise from 0 to the end of their list."""
    if starts[0] != 0 or starts[-1] != end or bool(np.any(np.diff(starts) < 0)):
        damaged(f"{name} does not rise from 0 to {end}")


def within(values: Any, low: int, end: int, name: str) -> None:
    """Whether all are whole numbers from ``low`` to before ``end``."""
    if isinstance(values, list):
        bad = any(type(x) is not int or not low <= x < end for x in values)
    else:
        bad = bool(np.any((values < low) | (values >= end)))
    if bad:
        damaged(f"{name} must be whole numbers from {low} to {end - 1}")


def record(data: object, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(data, dict):
        damaged(f"{what} is not an object")
    return data


def count(data: dict[str, Any], name: str, most: int) -> int:
    """A number of things."""
    value = data.get(name)
    if type(value) is not int or not 0 <= value <= most:
        damaged(f"{name} is {cut(repr(value))}, not a number from 0 to {most}")
    return value


def damaged(why: str) -> NoReturn:
    """Say that saved data cannot be read, and what to do."""
    raise SnapshotError(
        f"this saved picture cannot be read: {why}. Run the cell again to draw it anew."
    )


def text(data: dict[str, Any], name: str, where: str) -> str:
    """A field that is text."""
    value = data.get(name)
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        damaged(f"{where} is {cut(repr(value), 200)}, not text of bearable length")
    return value


def one_of(data: dict[str, Any], name: str, known: Sequence[str], where: str) -> str:
    """A field that is one of a few words."""
    value = data.get(name)
    if not isinstance(value, str) or value not in known:
        damaged(f"{where} is {cut(repr(value), 200)}, not one of {', '.join(known)}")
    return value


def flag(data: dict[str, Any], name: str, where: str) -> bool:
    """A field that is true or false."""
    value = data.get(name)
    if not isinstance(value, bool):
        damaged(f"{where} is {cut(repr(value), 200)}, neither true nor false")
    return value


def said(data: dict[str, Any], name: str, where: str) -> float | None:
    """A field that is a finite number, or null."""
    value = data.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        damaged(f"{where} is {cut(repr(value), 200)}, not a finite number")
    return float(value)


def items(value: object, most: int, where: str) -> list[Any]:
    """A list that is not too long."""
    if not isinstance(value, list) or len(value) > most:
        damaged(f"{where} is not a list of bearable length")
    return value


def texts(value: object, most: int, where: str) -> list[str]:
    """A list of texts."""
    found = items(value, most, where)
    if not all(isinstance(x, str) for x in found):
        damaged(f"{where} holds what is not text")
    return found
