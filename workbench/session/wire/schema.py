"""The types of the wire as JSON Schema, and the check of data by it.

`extension/src/wire/schema.ts` checks by the same schema, and writes out the characters
of a text that would not be seen.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from workbench.core.schema import Schema, Schemas
from workbench.session.wire.protocol import requests
from workbench.session.wire.protocol.fields import MOST_NODES
from workbench.session.wire.protocol.snapshot import Saved


def declare_wire() -> Schemas:
    """Return the schemas of all data between kernel and page, or in saved files."""
    return _declare_wire(*requests.REQUESTS.values())


@cache
def _declare_wire(*asked: requests.RequestKind) -> Schemas:
    return Schemas(Saved, requests.list_messages(), requests.list_events())


def definitions() -> dict[str, Schema]:
    """Return the schema of each type of the wire by its name."""
    return declare_wire().definitions


def read(name: str, value: object) -> Any:
    """Return data that is of a type of the wire, as `Schemas.read` does.

    Examples
    --------
    >>> read("Fix", {"text": "smaller", "code": "w / 2", "attachable": 1})
    Traceback (most recent call last):
    ...
    workbench.core.schema.DataError: attachable is 1, neither true nor false
    """
    return declare_wire().read(name, value, {"nodes": MOST_NODES})
