"""One declaration of the wire: what the page has of it is current, and both agree."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_type_hints

import numpy as np
import pytest

import workbench as wb
from tests.session.wire.golden.write import DAMAGED, FILE, JUNK, verdicts
from workbench.core import schema
from workbench.core.schema import DataError
from workbench.jupyter import plots
from workbench.jupyter.answers import PLOTS
from workbench.session.wire import read_saved, take_snapshot
from workbench.session.wire.protocol import requests
from workbench.session.wire.protocol.fields import COLUMN_RULES, Count, Text
from workbench.session.wire.protocol.requests import REQUESTS, question
from workbench.session.wire.protocol.snapshot import FixData
from workbench.session.wire.schema import _declare_wire, definitions, read

EXTENSION = Path(__file__).resolve().parents[3] / "extension"


@pytest.fixture
def writer() -> Any:
    """The script that writes the files of the page."""
    spec = importlib.util.spec_from_file_location("wire", EXTENSION / "wire.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The page has the declaration of the kernel


def test_the_files_of_the_page_are_current(writer: Any) -> None:
    """`python extension/wire.py` writes them anew."""
    assert writer.write_types() == (writer.WIRE / "protocol.ts").read_text()
    assert writer.write_schema() == (writer.WIRE / "schema.json").read_text()


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(surprise=int),
        lambda fields: fields.pop("code"),
        lambda fields: fields.update(attachable=float),
        lambda fields: fields.update(text=NotRequired[Text]),
    ],
    ids=["added", "removed", "of another type", "not required"],
)
def test_another_field_on_one_side_is_seen(
    writer: Any, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], object]
) -> None:
    def changed_hints(kind: Any, **options: Any) -> dict[str, Any]:
        hints = get_type_hints(kind, **options)
        if kind is FixData:
            change(hints)
        return hints

    monkeypatch.setattr(schema, "get_type_hints", changed_hints)
    _declare_wire.cache_clear()
    try:
        types, whole = writer.write_types(), writer.write_schema()
    finally:
        _declare_wire.cache_clear()
    assert types != (writer.WIRE / "protocol.ts").read_text()
    assert whole != (writer.WIRE / "schema.json").read_text()


class SizeData(TypedDict):
    size: int


def test_a_question_is_declared_in_one_place(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its schema, its answer's and the types of the page follow from the function."""
    monkeypatch.setattr(requests, "REQUESTS", REQUESTS.copy())
    monkeypatch.setattr(writer, "REQUESTS", requests.REQUESTS)

    @question("count-entries")
    def count_entries(session: Any, node: Count, twice: bool = False) -> SizeData:
        size = session.graph.nodes[node].size
        return {"size": 2 * size if twice else size}

    asked = {"type": "event", "event": "count-entries", "request": 3, "node": 0}
    event = read("PageEvent", asked)
    assert (event["node"], event["twice"]) == (0, False)
    for junk in ({"node": -1}, {"node": "0"}, {"twice": 1}):
        with pytest.raises(DataError):
            read("PageEvent", asked | junk)
    session = wb.Session(wb.trace(np.sum)(np.ones(3)))
    answer = requests.REQUESTS["count-entries"].call(session, event)
    message = {"type": "count-entries", "seq": 1, "request": 3, "size": 3}
    assert read("KernelMessage", message | {"more": 1}) == {**message, **answer}
    types = " ".join(writer.write_types().split())
    assert (
        "'count-entries': { asked: { node: number; twice?: boolean };"
        " answer: ICountEntriesAnswer };"
    ) in types
    assert "ICountEntriesAnswer | IProgressMessage" in types


def test_every_plot_is_a_row() -> None:
    public = {name for name in wb.plots.__all__ if callable(getattr(plots, name))}
    assert {*PLOTS} == public
    for kind in PLOTS.values():
        assert {*kind.views} <= {*PLOTS}


def test_the_schema_names_only_what_there_is() -> None:
    """Every reference leads somewhere; every size is one that is counted."""
    whole = definitions()
    text = json.dumps(whole)
    for part in text.split(schema.REFERENCE)[1:]:
        assert part.partition('"')[0] in whole
    counted = "edges strings overrides nodes starts statistics steps"
    sizes = {*counted.split(), None}
    for rule in COLUMN_RULES.values():
        assert rule.length in sizes
        assert isinstance(rule.below, int) or rule.below in sizes
        assert (rule.low is None) == (rule.below is None)


# Both sides refuse the same


def test_damaged_pictures_are_judged_as_the_page_judges_them() -> None:
    """`damaged.json` is read by the tests of both sides."""
    known = json.loads(DAMAGED.read_text())
    assert known["junk"] == JUNK
    assert known["verdicts"] == verdicts()


def test_most_damage_is_refused() -> None:
    marks = "".join(verdicts().values())
    assert marks.count("x") > 0.8 * len(marks)


def test_what_the_kernel_sends_is_what_it_declares(rng: np.random.Generator) -> None:
    """Every snapshot of the tests comes back as it is: no field is left out."""
    for f in (lambda x: np.sum(np.tanh(x)), lambda x: np.sum(x @ x)):
        shown = take_snapshot(wb.Session(wb.trace(f)(rng.normal(size=3))))
        header = json.loads(json.dumps(shown.header))
        assert read("Header", header) == header


# The reader


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("Fix", None, "it is not an object"),
        ("Fix", {"text": "t", "code": "c"}, "attachable is missing"),
        ("Window", {"rows": [1], "columns": []}, "rows has 1 entries, fewer than 2"),
        ("Window", {"rows": [0, "1"], "columns": []}, "rows[1] is '1', not a whole"),
        ("Target", {"kind": "all"}, "kind is 'all', not one of node, op, scope, other"),
        ("Target", {"kind": ["op"], "op": ""}, "kind is ['op'], not one of"),
        ("Target", {"kind": "node", "node": True}, "node is True, not a whole number"),
        ("Target", {"kind": "op", "op": "x" * 20_001}, "op has 20001 characters, more"),
        ("PageEvent", {"type": "event", "event": "fix", "request": 1, "finding": -1},
         "finding is -1; it must be from 0"),
    ],
)  # fmt: skip
def test_errors_name_the_place_and_the_value(name: str, value: Any, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, value)
    assert words in str(caught.value)


def test_what_is_read_shares_nothing_with_the_defaults() -> None:
    picture = json.loads(FILE.read_text())
    del picture["header"]["history"]
    first, second = (read_saved(copy.deepcopy(picture)).header for _ in range(2))
    first["history"]["done"].append("x")
    assert second["history"] == {"done": [], "undone": []}
