"""What a session looks like as data: columns, patches, saved pictures, details."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.wire.golden.write import FILE, INPUTS, picture, session
from workbench.checks import statistics
from workbench.core.graph import Graph
from workbench.session.wire import (
    MIME_TYPE,
    SCHEMA,
    find_changes,
    read_saved,
    save_snapshot,
    take_failed_snapshot,
    take_snapshot,
)
from workbench.session.wire.protocol.fields import KINDS, STATISTICS

PROTOCOL = Path(__file__).resolve().parents[3] / "extension/src/wire/protocol.ts"


@pytest.fixture
def model() -> wb.Session:
    return session()


def text(shown: Any, column: str, node: int) -> str:
    position = shown.columns[column][node]
    return "" if position < 0 else str(shown.header["strings"][position])


# What saved notebooks rely on


def test_the_mime_type_is_that_of_saved_notebooks() -> None:
    """A notebook that somebody saved holds it: it never changes, on neither side."""
    assert MIME_TYPE == "application/vnd.workbench.graph+json"
    assert f"MIME_TYPE = '{MIME_TYPE}';" in PROTOCOL.read_text()


# The golden picture


def test_the_golden_picture_is_what_is_written_now() -> None:
    """`python -m tests.session.wire.golden.write` writes it anew."""
    golden, now = json.loads(FILE.read_text()), json.loads(json.dumps(picture()))
    old, new = read_saved(golden), read_saved(now)
    assert list(old.columns) == list(new.columns)
    for name, column in old.columns.items():
        np.testing.assert_allclose(
            new.columns[name], column, rtol=1e-9, atol=1e-12, err_msg=name
        )
    assert rounded(golden["header"]) == rounded(now["header"])
    assert (golden["schema"], golden["model_id"]) == (SCHEMA, "golden")


def rounded(x: Any) -> Any:
    """Numbers to nine digits, since libraries differ in the last ones."""
    if isinstance(x, float):
        return float(f"{x:.9g}") if abs(x) > 1e-9 else 0.0
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    return [rounded(value) for value in x] if isinstance(x, list) else x


# Columns


def test_what_each_node_is(model: wb.Session) -> None:
    shown = take_snapshot(model)
    h = model.nodes.find("h")
    assert text(shown, "op", h) == "tanh"
    assert text(shown, "name", h) == "h"
    assert text(shown, "dtype", h) == "float64"
    assert text(shown, "shape", h) == "8×2"
    assert text(shown, "scope", h) == "encoder"
    assert text(shown, "place", h) == "[3]:2"
    assert text(shown, "source", h) == "h = np.tanh(X @ W1 + b1)"
    assert shown.columns["line"][h] == 2
    assert shown.columns["kind"][h] == KINDS.index("op")
    w = model.nodes.find("W1")
    assert shown.columns["kind"][w] == KINDS.index("input")
    assert text(shown, "op", w) == text(shown, "place", w) == ""
    assert shown.columns["line"][w] == -1
    assert text(shown, "shape", model.nodes.find("b2")) == "()"
    assert shown.header["output"] == model.nodes.find("loss")
    assert shown.header["output_name"] == "loss"
    assert shown.header["output_value"] == float(model.value)
    assert shown.header["wrt"] == [model.nodes.find(n) for n in model.grads]
    assert len(set(shown.header["strings"])) == len(shown.header["strings"])
    assert shown.header["seconds"] > 0


def test_edges_and_saved_values(model: wb.Session) -> None:
    shown = take_snapshot(model)
    start, inputs = shown.columns["input_start"], shown.columns["inputs"]
    labels = model.nodes.labels
    for i, node in enumerate(model.graph.nodes):
        read = [labels[j] for j in inputs[start[i] : start[i + 1]]]
        wanted = [labels[model.nodes.find(x)] for x in node.inputs
                  if isinstance(x, wb.Tensor)]  # fmt: skip
        assert read == wanted
    assert shown.header["edges"] == len(inputs) == start[-1]
    first = shown.columns["saved_start"]

    def reads(i: int) -> list[str]:
        return [labels[j] for j in shown.columns["saved"][first[i] : first[i + 1]]]

    assert reads(model.nodes.find("h")) == ["h"]
    product = next(i for i, n in enumerate(model.graph.nodes) if n.op.name == "matmul")
    assert reads(product) == ["X", "W1"]
    assert reads(product + 1) == []


def test_statistics_of_values_and_gradients(model: wb.Session) -> None:
    shown = take_snapshot(model)
    rows = shown.columns["value_stats"].reshape(-1, len(STATISTICS))
    grads = shown.columns["grad_stats"].reshape(-1, len(STATISTICS))
    true = shown.columns["true_stats"].reshape(-1, len(STATISTICS))
    assert model.truth is not None
    for i in range(len(model.graph)):
        np.testing.assert_allclose(rows[i], plainly(model.values[i]), rtol=1e-12)
        np.testing.assert_allclose(
            grads[i], plainly(model.cotangents[i]), rtol=1e-12, atol=1e-17
        )
        np.testing.assert_allclose(
            true[i], plainly(model.truth.cotangents.get(i)), rtol=1e-12, atol=1e-17
        )
    assert np.isnan(grads[model.nodes.find("X")]).all()
    h = model.nodes.find("h")
    change = shown.columns["change"]
    assert change[h] == pytest.approx(
        np.linalg.norm(model.cotangents["h"] - model.truth.cotangents[h])
        / np.linalg.norm(model.truth.cotangents[h])
    )
    assert np.isnan(change[model.nodes.find("X")])
    assert change[model.nodes.find("loss")] == 0
    assert np.array_equal(np.isnan(change), np.isnan(grads[:, -1]))


def plainly(x: Any) -> list[float]:
    """The statistics as NumPy says them."""
    if x is None:
        return [math.nan] * 6
    return [
        np.min(x), np.max(x), np.mean(x), np.std(x),
        np.linalg.norm(x), np.sum(~np.isfinite(x)),
    ]  # fmt: skip


def test_norms_along_edges_are_what_the_rules_pass_on() -> None:
    """Both factors of a product receive the other's part."""
    a, b = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    made = wb.Session(wb.trace(lambda a, b: np.sum(a * b + a))(a, b), wrt=["a"])
    shown = take_snapshot(made)
    start, norms = shown.columns["input_start"], shown.columns["edge_norm"]
    product = next(i for i, n in enumerate(made.graph.nodes) if n.op.name == "multiply")
    to_a, to_b = norms[start[product] : start[product + 1]]
    assert to_a == pytest.approx(np.linalg.norm(b))
    assert np.isnan(to_b)
    total = next(i for i, n in enumerate(made.graph.nodes) if n.op.name == "add")
    assert norms[start[total] : start[total + 1]] == pytest.approx([np.sqrt(2)] * 2)


def test_overrides_in_the_header(model: wb.Session) -> None:
    shown = take_snapshot(model)
    first, second, third = shown.header["overrides"]
    h = model.nodes.find("h")
    assert first["target"] == {"kind": "node", "node": h}
    assert first["matched"] == [h]
    assert (first["label"], first["rule"]) == ("clip ±0.05", "clip(d, -0.05, 0.05)")
    assert first["data"] is True
    assert first["code"] == "model.override('h', vjp='clip(d, -0.05, 0.05)')"
    assert [e["name"] for e in first["effects"]] == ["W1", "b1", "W2", "b2"]
    assert second["target"] == {"kind": "scope", "scope": "decoder"}
    assert third["target"] == {"kind": "op", "op": "log"}
    assert third["enabled"] is False
    assert third["effects"] == []
    column = shown.columns["override"]
    assert column[h] == 0
    assert set(np.flatnonzero(column == 1)) == set(second["matched"])
    assert not (column == 2).any()
    assert shown.header["undo"] == "switch off straight-through"
    assert shown.header["redo"] == "move straight-through to place 1"
    assert shown.header["history"] == {
        "done": [
            "clip ±0.05 on h",
            "half on scope decoder/*",
            "straight-through on every log",
            "switch off straight-through",
        ],
        "undone": ["move straight-through to place 1"],
    }
    model.override(lambda n: n.op.name == "exp", lambda node, g: [None], name="none")
    other = take_snapshot(model).header["overrides"][-1]
    assert other["target"] == {"kind": "other", "text": "nodes where <lambda>"}
    assert other["data"] is False
    json.dumps(take_snapshot(model).header, allow_nan=False)


def test_numbers_that_json_cannot_say() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x)) * 0.0

    with np.errstate(all="ignore"):
        made = wb.Session(wb.trace(f)(np.zeros(2)))
        made.override("log", "g + 1")
        shown = take_snapshot(made)
    assert shown.header["output_value"] is None
    assert made.overrides[0].effects[0].relative != 0
    json.dumps(shown.header, allow_nan=False)
    rows = shown.columns["value_stats"].reshape(-1, 6)
    log = next(i for i, n in enumerate(made.graph.nodes) if n.op.name == "log")
    assert rows[log, -1] == 2
    assert rows[log, 0] == -math.inf
    read_saved(json.loads(json.dumps(save_snapshot(shown), allow_nan=False)))


def test_a_cell_that_failed_half_way() -> None:
    graph = wb.trace(lambda x: np.tanh(x * 2))(np.ones(2))
    last = graph.outputs[0]
    shown = take_failed_snapshot(
        graph, "model", "matmul(...): shapes do not match", last
    )
    assert shown.header["error"] == {
        "node": len(graph) - 1,
        "message": "matmul(...): shapes do not match",
    }
    assert shown.header["output"] == -1
    assert shown.header["wrt"] == []
    assert np.isnan(shown.columns["grad_stats"]).all()
    assert not np.isnan(shown.columns["value_stats"]).any()
    assert take_failed_snapshot(Graph([], []), "m", "empty").header["nodes"] == 0
    assert take_failed_snapshot(graph, "m", "somewhere").header["error"]["node"] is None  # type: ignore[index]
    read_saved(json.loads(json.dumps(save_snapshot(shown))))


def test_a_program_without_values() -> None:
    spec = wb.Spec((2, 3), np.dtype("float32"))
    made = wb.Session(wb.trace(lambda x: np.sum(np.sin(x)))(spec))
    shown = take_snapshot(made)
    assert text(shown, "shape", 0) == "2×3"
    assert text(shown, "dtype", 1) == "float32"
    assert np.isnan(shown.columns["value_stats"]).all()
    assert shown.header["output_value"] is None


def test_a_line_outside_a_cell_has_no_number() -> None:
    made = wb.Session(wb.trace(lambda x: np.sum(x))(np.ones(2)))
    shown = take_snapshot(made)
    assert text(shown, "place", 1).startswith("test_snapshot.py:")
    assert shown.columns["line"][1] == -1


# Patches


def applied(old: Any, patch: Any) -> dict[str, Any]:
    """What the page makes of a patch."""
    header = {**old.header, **patch.header}
    columns = dict(zip([c["name"] for c in old.header["columns"]], old.buffers,
                       strict=True))  # fmt: skip
    for column, buffer in zip(patch.columns, patch.buffers, strict=True):
        assert column["length"] == buffer.size
        assert column["dtype"] == str(buffer.dtype)
        columns[column["name"]] = buffer
        if "base" in column:
            # What the page had before, the twin's too.
            before = old.header["columns"]
            place = [c["name"] for c in before].index(column["base"])
            columns[column["name"]] = whole = old.buffers[place].copy()
            end = 0
            for start, stop in column["parts"]:
                whole[start:stop] = buffer[end : end + stop - start]
                end += stop - start
            assert end == buffer.size
    if not header["overrides"]:
        columns.pop("true_stats", None)
        columns.pop("true_edge_norm", None)
    return {"header": header, "columns": columns}


CHANGES: dict[str, Callable[[wb.Session], object]] = {
    "override": lambda s: s.override("exp", "0.5 * d"),
    "remove all": lambda s: [s.remove(one) for one in s.overrides],
    "run": lambda s: s.run(b2=0.5),
    "undo": lambda s: s.undo(),
    "switch": lambda s: s.switch(1, False),
    "pattern": lambda s: s.override(wb.pattern(lambda a, b, c: a @ b + c), "0.5 * d"),
    "subgraph": lambda s: s.override(wb.subgraph("p", ["h", "W2", "b2"]), "2 * d"),
    "move": lambda s: s.move(3, 0),
    "edit": lambda s: s.edit(1, "3 * d"),
    "check": lambda s: s.check(),
    "diagnose": lambda s: s.diagnose(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_patch_leads_to_the_next_snapshot(
    model: wb.Session, change: Callable[[wb.Session], object]
) -> None:
    old = take_snapshot(model)
    change(model)
    new = take_snapshot(model)
    patch = find_changes(old, new)
    assert patch is not None
    after = applied(old, patch)
    assert set(after["columns"]) == set(new.columns)
    for name, column in new.columns.items():
        np.testing.assert_array_equal(after["columns"][name], column)
    for key, value in new.header.items():
        if key != "columns":
            assert after["header"][key] == value
    assert find_changes(new, take_snapshot(model)) is None


def test_a_patch_of_parts_leads_to_the_next_snapshot(
    rng: np.random.Generator,
) -> None:
    shifts = rng.standard_normal(1000)

    def program(x: Any) -> Any:
        for shift in shifts:
            x = np.tanh(x + shift) * 1.01
        return np.sum(x)

    session = wb.Session(wb.trace(program)(np.ones(2)))
    middle = [i for i, x in enumerate(session.graph.nodes) if x.op.name == "tanh"][500]
    old = take_snapshot(session)

    def patch() -> dict[str, int]:
        nonlocal old
        new = take_snapshot(session)
        found = find_changes(old, new)
        assert found is not None
        after = applied(old, found)["columns"]
        for name, column in new.columns.items():
            np.testing.assert_array_equal(after[name], column)
        old = new
        return {c["name"]: c["length"] for c in found.columns}

    session.override(middle, "2 * d")
    sent = patch()
    assert (sent["true_stats"], sent["true_edge_norm"]) == (0, 0)
    assert 0 < sent["grad_stats"] < 0.6 * old.columns["grad_stats"].size
    session.override(int(rng.integers(1, middle)), "0.5 * d")
    patch()
    session.undo(2)
    sent = patch()  # the page has all of it: the true numbers
    assert (sent["grad_stats"], sent["edge_norm"]) == (0, 0)
    session.run(x=rng.standard_normal(2))
    assert patch()


def test_a_patch_of_an_override_holds_only_what_changed(model: wb.Session) -> None:
    old = take_snapshot(model)
    model.override("mean", "0.5 * d")
    patch = find_changes(old, take_snapshot(model))
    assert patch is not None
    assert {c["name"] for c in patch.columns} == {
        "grad_stats",
        "edge_norm",
        "change",
        "override",
    }
    assert set(patch.header) <= {"overrides", "undo", "redo", "history", "seconds"}
    back = take_snapshot(model)
    model.undo()
    undone = find_changes(back, take_snapshot(model))
    assert undone is not None
    assert undone.header["redo"] == "scale ×0.5 on every mean"


# Statistics


def test_statistics_of_odd_arrays() -> None:
    nan, inf = math.nan, math.inf
    cases: list[tuple[Any, list[float]]] = [
        (np.array([1e200, -1e200]), [-1e200, 1e200, 0, 1e200, 2**0.5 * 1e200, 0]),
        (np.array([1e-200, 0]), [0, 1e-200, 5e-201, 5e-201, 1e-200, 0]),
        (np.array([nan, 1.0]), [nan, nan, nan, nan, nan, 1]),
        (np.array([inf, 1.0]), [1, inf, inf, nan, inf, 1]),
        (np.array([3 + 4j, 0]), [0, 5, 2.5, 2.5, 5, 0]),
        (np.array([True, False]), [0, 1, 0.5, 0.5, 1, 0]),
        (np.int8([-128, 127]), [-128, 127, -0.5, 127.5, math.hypot(128, 127), 0]),
        (np.float16([60000, 60000]), [60000, 60000, 60000, 0, 2**0.5 * 60000, 0]),
        (np.array([]), [nan, nan, nan, nan, 0, 0]),
        (2.5, [2.5, 2.5, 2.5, 0, 2.5, 0]),
        (np.float64(inf), [inf, inf, inf, nan, inf, 1]),
        (np.arange(12.0).reshape(3, 4).T[::2], None),
        (None, [nan] * 6),
        ((np.ones(2), None, np.zeros(2), np.arange(2)), [0, 1, 0.5, 0.5, 2**0.5, 0]),
        ((None, np.arange(2)), [nan] * 6),
        (np.array(["a"]), [nan] * 6),
    ]  # type: ignore[list-item]
    for x, expected in cases:
        wanted = plainly(x) if expected is None else expected
        found = statistics.summarize(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, err_msg=repr(x))
        assert statistics.norm(x) == pytest.approx(wanted[4], nan_ok=True)


def test_histograms_count_every_finite_entry(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.normal(size=1000), [0, 0, math.nan, math.inf, -math.inf]])
    found = statistics.distribution(x, bins=20)
    assert found is not None
    finite = x[np.isfinite(x)]
    counts, edges = np.histogram(finite, bins=20)
    assert sum(found["counts"]) == finite.size
    assert np.abs(np.array(found["counts"]) - counts).max() <= 1  # at an edge
    assert (found["low"], found["high"]) == (edges[0], edges[-1])
    assert (found["zeros"], found["nan"], found["inf"]) == (2, 1, 2)
    assert found["size"] == x.size
    constant = statistics.distribution(np.full(5, 2.0))
    assert constant is not None
    assert constant["counts"] == [5]
    empty = statistics.distribution(np.zeros(0))
    assert empty is not None
    assert (empty["counts"], empty["size"]) == ([], 0)
    assert statistics.distribution(None) is None


def test_angles_are_exact_when_small() -> None:
    x, turn = np.array([1.0, 0.0]), 1e-9
    y = 7 * np.array([math.cos(turn), math.sin(turn)])
    assert statistics.angle(y, x) == pytest.approx(math.degrees(turn), rel=1e-6)
    assert statistics.angle(-x, x) == 180
    assert math.isnan(statistics.angle(0 * x, x))
    assert statistics.relative_change(y, 0 * x) == math.inf
    assert statistics.relative_change(0 * x, 0 * x) == 0
    assert math.isnan(statistics.relative_change(math.nan * x, 0 * x))


def test_a_rule_may_give_nan_where_the_gradient_is_zero() -> None:
    def program(x: Any, b: Any) -> Any:
        return np.sum(np.tanh(x) * b)

    session = wb.Session(wb.trace(program)(np.ones(3), np.zeros(3)))
    with np.errstate(all="ignore"):
        override = session.override("tanh", "d / 0")
        session.run(x=np.full(3, 2.0))
    effects = {one.name: one.relative for one in override.effects}
    assert math.isnan(effects["x"])
    assert effects["b"] == 0
    assert "changes x" in repr(override)
    (told,) = take_snapshot(session).header["overrides"]
    assert [one["relative"] for one in told["effects"]] == [None, 0]


# Size


@pytest.mark.long
def test_a_large_program_is_a_picture_of_few_strings(
    measured: Callable[[str], None],
) -> None:
    def chain(x: Any) -> Any:
        for _ in range(33_000):
            x = np.sin(x) * 1.01 + 0.1
        return np.sum(x)

    made = wb.Session(wb.trace(chain)(np.ones(3)), copy=False)
    made.require_backward()
    start = time.perf_counter()
    shown = take_snapshot(made)
    seconds = time.perf_counter() - start
    measured(f"snapshot of {shown.header['nodes']:,} nodes: {seconds:.2f} s")
    assert shown.header["nodes"] > 99_000
    assert len(shown.header["strings"]) < 20


def test_a_snapshot_follows_each_override_of_a_hundred_ops(
    measured: Callable[[str], None],
) -> None:
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = np.tanh(x) * 1.01
        return np.sum(x)

    made = wb.Session(wb.trace(chain)(np.linspace(-1, 1, 9104).reshape(569, 16)))
    made.override("tanh", "clip(d, -1, 1)")
    take_snapshot(made)
    best = math.inf
    for k in range(5):
        made.override("tanh", f"clip(d, -1, {k + 1})", replacing=1)
        start = time.perf_counter()
        shown = take_snapshot(made)
        best = min(best, time.perf_counter() - start)
        (one,) = shown.header["overrides"]
        assert one["rule"] == f"clip(d, -1, {k + 1})"
    measured(f"snapshot after an override, 101 nodes of 569×16: {best * 1e3:.2f} ms")


def test_inputs_of_the_golden_program_are_those_written() -> None:
    made = session()
    for name, value in INPUTS.items():
        np.testing.assert_array_equal(made.values[name], value)


def test_half_of_a_character_in_a_name_is_written_out() -> None:
    graph = wb.trace(lambda x: np.sum(np.sin(x)))(np.ones(2))
    graph.nodes[1].name = "a\ud800b"
    text = json.dumps(
        save_snapshot(take_snapshot(wb.Session(graph))), ensure_ascii=False
    )
    assert "a\\\\ud800b" in text
    assert text.encode()


@pytest.mark.parametrize("size", [0, 1, 10_000, 10_001, 50_001])
def test_a_norm_is_that_of_all_entries_however_long_the_array(size: int) -> None:
    x = np.arange(size) % 7 - 2.5
    # Whole numbers over two: the sum of their squares is exact.
    exact = sum(int(n) ** 2 for n in (2 * x).astype(int)) / 4
    assert statistics.norm(x) == math.sqrt(exact)
    assert statistics.summarize(x)[4] == pytest.approx(math.sqrt(exact), rel=1e-14)
