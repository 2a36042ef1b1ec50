"""Pictures in notebooks: written, read back, and looked at before they are used."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.wire.golden.write import FILE, examined, session
from workbench.errors import SnapshotError
from workbench.session.wire import SCHEMA, read_saved, save_snapshot, take_snapshot
from workbench.session.wire.notebook import LARGE, MOST_SAVED
from workbench.session.wire.protocol.fields import COLUMNS


@pytest.fixture
def model() -> wb.Session:
    return session()


def test_a_saved_picture_comes_back(model: wb.Session) -> None:
    shown = take_snapshot(model)
    kept = json.loads(json.dumps(save_snapshot(shown, "model 1"), allow_nan=False))
    assert kept["model_id"] == "model 1"
    back = read_saved(kept)
    assert back.header == shown.header
    for name, column in shown.columns.items():
        np.testing.assert_array_equal(back.columns[name], column)
        assert back.columns[name].dtype == COLUMNS[name]


def test_buffers_are_little_endian(model: wb.Session) -> None:
    shown = take_snapshot(model)
    kept = save_snapshot(shown)
    assert kept is not None
    names = [c["name"] for c in kept["header"]["columns"]]
    raw = base64.b64decode(kept["buffers"][names.index("input_start")])
    assert raw[:12] == b"".join(
        int(n).to_bytes(4, "little") for n in shown.columns["input_start"][:3]
    )


def test_large_pictures_are_saved_smaller_and_the_largest_not_at_all() -> None:
    def chain(n: int) -> wb.Session:
        def f(x: Any) -> Any:
            for _ in range(n):
                x = np.sin(x)
            return x

        return wb.Session(wb.trace(f)(0.5), copy=False)

    small, large = (
        save_snapshot(take_snapshot(chain(n))) for n in (LARGE - 100, LARGE + 100)
    )
    assert small is not None
    assert large is not None
    lengths = [{c["name"]: c["length"] for c in s["header"]["columns"]}["saved"]
               for s in (small, large)]  # fmt: skip
    assert lengths[0] > 0
    assert lengths[1] == 0
    back = read_saved(json.loads(json.dumps(large)))
    stats = back.columns["value_stats"]
    np.testing.assert_array_equal(stats, stats.astype(np.float32).astype(float))
    shown = take_snapshot(chain(5))
    shown.header["nodes"] = MOST_SAVED + 1
    assert save_snapshot(shown) is None


def test_a_deep_value_is_quoted_by_its_beginning() -> None:
    """Deeper than Python writes, as JSON may be."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SnapshotError, match=r"nodes is \[+\.\.\.\]+, not a whole"):
        read_saved(damage("header.nodes", deep))


def test_the_version_of_a_newer_schema_is_text_that_can_be_sent() -> None:
    newer = json.loads(FILE.read_text())
    newer["header"].update(version="\ud800" * 100, schema=10**5000)
    with pytest.raises(SnapshotError, match="a number of 16610 bits") as caught:
        read_saved(newer)
    assert len(str(caught.value).encode()) < 500


def test_a_newer_schema_is_refused_by_name_and_number() -> None:
    newer = json.loads(FILE.read_text())
    newer["schema"] = SCHEMA + 1
    newer["header"]["version"] = "9.4.2"
    with pytest.raises(SnapshotError) as caught:
        read_saved(newer)
    assert str(caught.value) == (
        f"this picture was written by workbench 9.4.2 with schema {SCHEMA + 1}; this"
        f" one reads up to {SCHEMA}: update autodiff-workbench, or run the cell again"
        " to draw it anew."
    )
    newer["schema"] = SCHEMA
    newer["header"]["schema"] = SCHEMA + 1
    with pytest.raises(SnapshotError, match="update autodiff-workbench"):
        read_saved(newer)


def damage(path: str, value: Any) -> dict[str, Any]:
    """The golden picture with one entry changed."""
    data = json.loads(FILE.read_text())
    place: Any = data
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    place[int(last) if last.isdigit() else last] = value
    return dict(data)


def column_at(name: str) -> int:
    header = json.loads(FILE.read_text())["header"]
    return [c["name"] for c in header["columns"]].index(name)


def encoded(name: str, entry: int, value: float) -> tuple[str, str]:
    """The golden buffer of a column with one entry changed, and its path."""
    at = column_at(name)
    column = np.frombuffer(
        base64.b64decode(json.loads(FILE.read_text())["buffers"][at]), COLUMNS[name]
    ).copy()
    column[entry] = value
    return f"buffers.{at}", base64.b64encode(column.tobytes()).decode()


def wrapped(name: str) -> tuple[str, str]:
    """The golden buffer of starts that fall where their difference wraps round."""
    at = column_at(name)
    column = np.frombuffer(
        base64.b64decode(json.loads(FILE.read_text())["buffers"][at]), np.int32
    ).copy()
    column[1:4] = 2**31 - 1, -(2**31), -1
    return f"buffers.{at}", base64.b64encode(column.tobytes()).decode()


DAMAGES: list[tuple[str, Any, str]] = [
    ("schema", "1", "its schema is '1'"),
    ("schema", 0, "its schema is 0"),
    ("header", [], "header is not an object"),
    ("header.nodes", -1, "nodes is -1"),
    ("header.nodes", 10**9, "nodes is 1000000000; it must be from 0 to 1000000"),
    ("header.nodes", 23, "header.output is 23; it must be from -1 to 22"),
    ("header.edges", 24, "the column inputs has 25 entries, not 24"),
    ("header.output", 24, "header.output is 24; it must be from -1 to 23"),
    ("header.wrt", [1, 99], "header.wrt[1] is 99; it must be from 0 to 23"),
    ("header.wrt", "1", "header.wrt is '1', not a list"),
    ("header.strings", ["a", 3], "header.strings[1] is 3, not text"),
    ("header.strings", ["a"], "op must be whole numbers from -1 to 0"),
    ("header.session", None, "session is None, not text"),
    ("header.overrides", [], "override must be whole numbers from -1 to -1"),
    ("header.overrides.0", 3, "overrides[0] is not an object"),
    (
        "header.overrides.0.matched",
        [77],
        "overrides[0].matched[0] is 77; it must be from 0",
    ),
    ("header.columns.0.name", "color", "columns[0].name is 'color', not one of kind,"),
    (
        "header.columns.1.name",
        "kind",
        "'name': 'kind'}: twice or mistyped",
    ),
    ("header.columns.0.dtype", "object", "columns[0].dtype is 'object', not one of"),
    (
        "header.columns.0.dtype",
        "int32",
        "columns[0] is {'dtype': 'int32', 'length': 24, 'name': 'kind'}: twice or mis",
    ),
    ("header.columns.0.length", 25, "the buffer of kind has 24 bytes, not 25"),
    ("buffers", [], "one buffer for each column"),
    ("buffers.0", "!" * 32, "the buffer of kind is not base64"),
    ("buffers.0", "A" * 10_000, "the buffer of kind is not its base64"),
    ("buffers.0", 5, "buffers[0] is 5, not text"),
    (*encoded("kind", 0, 3), "kind must be whole numbers from 0 to 2"),
    (*encoded("inputs", 0, 23), "a node reads one that does not stand before it"),
    (*encoded("inputs", 0, -1), "a node reads one that does not stand before it"),
    (*encoded("input_start", 3, 20), "input_start does not rise"),
    # From 2**31 - 1 to -2**31 a difference of 32 bits is 1.
    (*wrapped("input_start"), "input_start does not rise"),
    (*wrapped("saved_start"), "saved_start does not rise"),
    (
        "header.loops",
        [{"node": 3, "steps": 5, "marks": [0, 5], "norms": [1.0, None]}],
        "along a loop it has not a norm for each",
    ),
    (
        "header.loops",
        [{"node": 99, "steps": 5, "marks": [], "norms": []}],
        "loops[0].node is 99; it must be from 0 to 23",
    ),
    ("header.overrides.1.id", 1, "two of its overrides have one id"),
    ("header.overrides.0.id", 2**53, "id is 9007199254740992; the largest is"),
    ("header.overrides.0.id", 10**400, "a number of 1329 bits; the largest is"),
    (*encoded("saved", 0, 24), "saved must be whole numbers from 0 to 23"),
    (*encoded("override", 0, 3), "override must be whole numbers from -1 to 2"),
]


FOUND = "header.findings.list.0"
DAMAGES += [
    ("header.check", 3, "check is not an object"),
    ("header.check.ok", 1, "check.ok is 1, neither true nor false"),
    ("header.check.verdict", "maybe", "'maybe', not one of right, wrong, changed"),
    ("header.check.verdict", None, "check.verdict is None, not one of right"),
    ("header.check.changes", 3, "check.changes is 3, not text"),
    ("header.check.gradients.0.verdict", 1, "check.gradients[0].verdict is 1, not"),
    ("header.check.gradients.0.change", math.inf, "change is inf, not a finite"),
    ("header.check.gradients.0.by", "stop", "gradients[0].by is 'stop', not a list"),
    ("header.check.gradients.0.by", [1], "gradients[0].by[0] is 1, not text"),
    ("header.check.counts", [], "check.counts is not an object"),
    ("header.check.counts.wrong", -1, "wrong is -1"),
    ("header.check.nodes", {}, "check.nodes is {}, not a list"),
    (
        "header.check.nodes",
        [0] * 10_001,
        "check.nodes has 10001 entries, more than 10000",
    ),
    (
        "header.check.nodes.0.node",
        24,
        "check.nodes[0].node is 24; it must be from 0 to 23",
    ),
    ("header.check.nodes.0.status", "fine", "'fine', not one of unchecked, right"),
    ("header.check.nodes.0.expected", math.nan, "expected is nan, not a finite"),
    ("header.check.nodes.0.ratio", "1", "ratio is '1', not a finite number"),
    (
        "header.check.nodes.0.text",
        "x" * 20_001,
        "nodes[0].text has 20001 characters, more than 20000",
    ),
    ("header.check.gradients.0.name", None, "check.gradients[0].name is None"),
    ("header.findings", [], "findings is not an object"),
    (f"{FOUND}.node", -1, "findings.list[0].node is -1; it must be from 0 to 23"),
    (f"{FOUND}.path", [3, 99], "findings.list[0].path[1] is 99; it must be from 0"),
    (f"{FOUND}.path", [0] * 25, "findings.list[0].path has 25 entries, more than 24"),
    (f"{FOUND}.severity", "<b>", "not one of error, warning, note"),
    (f"{FOUND}.sweep", None, "not one of forward, backward"),
    (f"{FOUND}.fix", "x", "findings.list[0].fix is not an object"),
    (f"{FOUND}.fix.attachable", None, "attachable is None, neither true nor false"),
    ("header.findings.list.1.fix.edit.line", 0, "fix.edit.line is 0; it must be"),
    ("header.findings.list.1.fix.edit.after", ["x", 1], "edit.after[1] is 1, not text"),
    ("header.history", [1], "history is not an object"),
    ("header.history.done", [1], "history.done[0] is 1, not text"),
    (
        "header.overrides.0.covered",
        [24],
        "overrides[0].covered[0] is 24; it must be from 0",
    ),
    ("header.overrides.0.note", 3, "overrides[0].note is 3, not text"),
    ("header.overrides.0.steps", 3, "overrides[0].steps is 3, not text"),
    ("header.overrides.0.stored", "yes", "overrides[0].stored is 'yes'"),
    ("header.overrides.0.code", 3, "overrides[0].code is 3, not text"),
    ("header.overrides.0.target", "op", "overrides[0].target is not an object"),
    ("header.overrides.0.target.kind", "all", "target.kind is 'all', not one of node"),
    (
        "header.overrides.0.target.node",
        24,
        "overrides[0].target.node is 24; it must be from 0",
    ),
    ("header.overrides.0.effects", 1, "overrides[0].effects is 1, not a list"),
    (
        "header.overrides.0.effects.0.node",
        -1,
        "overrides[0].effects[0].node is -1; it must be",
    ),
    ("header.overrides.0.effects.0.angle", [], "effects[0].angle is [], not a finite"),
    ("header.undo", 3, "undo is 3, not text"),
    ("header.seconds", "1", "seconds is '1', not a finite number"),
    ("header.output_value", 10**400, "not a finite number"),
    ("header.error", "x", "error is not an object"),
    (
        "header.error",
        {"node": 24, "message": ""},
        "header.error.node is 24; it must be from 0",
    ),
    (*encoded("check", 0, 6), "check must be whole numbers from 0 to 5"),
]


@pytest.mark.parametrize(("path", "value", "words"), DAMAGES, ids=lambda x: str(x)[:30])
def test_damaged_pictures_are_refused_with_the_place(
    path: str, value: Any, words: str
) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_saved(damage(path, value))
    assert words in str(caught.value)
    assert "Run the cell again" in str(caught.value)


def test_what_no_picture_has_is_left_out() -> None:
    data = damage("header.surprise", 1)
    data["header"]["overrides"][0]["surprise"] = 1
    header: Any = read_saved(data).header
    assert "surprise" not in header
    assert "surprise" not in header["overrides"][0]


@pytest.mark.parametrize("data", [None, 3, [], {}, {"schema": 1}, {"header": {}}])
def test_what_is_no_picture_is_refused(data: object) -> None:
    with pytest.raises(SnapshotError):
        read_saved(data)


def test_random_damage_never_gets_through_as_another_error(
    rng: np.random.Generator,
) -> None:
    """Every field replaced by things of every type: a SnapshotError or a picture."""
    golden = json.loads(FILE.read_text())
    junk = [
        None,
        True,
        -1,
        0,
        10**12,
        10**400,
        1.5,
        math.nan,
        "",
        "x" * 50,
        [],
        [0],
        {},
        [[]],
    ]
    places = list(walked(golden))
    for _ in range(1500):
        data = copy.deepcopy(golden)
        for k in rng.integers(len(places), size=rng.integers(1, 3)):
            place: Any = data
            for step in places[k][:-1]:
                place = place[step] if is_in(place, step) else {}
            if is_in(place, places[k][-1]):
                place[places[k][-1]] = junk[rng.integers(len(junk))]
        with contextlib.suppress(SnapshotError):
            read_saved(data)


def walked(data: Any, path: tuple[Any, ...] = ()) -> Any:
    items: Any = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    for key, value in items:
        yield (*path, key)
        yield from walked(value, (*path, key))


def is_in(place: Any, step: Any) -> bool:
    if isinstance(place, dict):
        return step in place
    return isinstance(place, list) and isinstance(step, int) and step < len(place)


# Checks and findings


def test_checks_and_findings_are_saved(model: wb.Session) -> None:
    shown = take_snapshot(examined(model))
    whole = json.loads(json.dumps(save_snapshot(shown), allow_nan=False))
    back = read_saved(whole)
    assert back.header["check"] == shown.header["check"]
    assert back.header["findings"] == shown.header["findings"]
    assert back.header["history"] == shown.header["history"]
    for name in ("check", "check_ratio"):
        np.testing.assert_array_equal(back.columns[name], shown.columns[name])


@pytest.mark.parametrize("ok", [True, False])
def test_an_older_check_says_only_whether_something_is_wrong(
    model: wb.Session, ok: bool
) -> None:
    whole = json.loads(json.dumps(save_snapshot(take_snapshot(examined(model)))))
    check = whole["header"]["check"]
    for data in (check, *check["gradients"]):
        data["ok"] = ok
        for name in ("verdict", "changes", "change", "by"):
            data.pop(name, None)
    back = read_saved(whole).header["check"]
    assert back is not None
    expected = "right" if ok else "wrong"
    assert (back["verdict"], back["changes"]) == (expected, "")
    for line in back["gradients"]:
        assert (line["verdict"], line["change"], line["by"]) == (expected, None, [])


def test_checks_of_many_nodes_are_saved_with_a_bound() -> None:
    from workbench.checks.doctor.finding import Finding, Findings
    from workbench.checks.report import NodeCheck, Report

    def f(x: Any) -> Any:
        for _ in range(1500):
            x = np.sin(x)
        return np.sum(x)

    made = wb.Session(wb.trace(f)(np.ones(2)))
    nodes = made.graph.nodes[1:]
    text = "<b>" * 2000
    checks = [NodeCheck(x, "wrong", "rev", None, text) for x in nodes]
    made._keep("report", Report(text, 0, nodes=checks), made._state)
    one = Finding("k", "note", nodes[0], "forward", text, text, text, None, (*nodes,))
    made._keep("findings", Findings((one,) * 1500, "x"), made._state)
    whole = save_snapshot(take_snapshot(made))
    assert whole is not None
    assert len(json.dumps(whole, allow_nan=False)) < 4_000_000
    check, findings = whole["header"]["check"], whole["header"]["findings"]
    assert check is not None
    assert findings is not None
    assert (len(check["nodes"]), len(findings["list"])) == (200, 200)
    assert check["counts"]["wrong"] == 1501
    assert len(findings["list"][0]["path"]) <= 1000
    read_saved(json.loads(json.dumps(whole)))
