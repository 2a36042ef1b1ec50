"""Overrides in files: what is kept, what is said, and what is not trusted."""

from __future__ import annotations

import copy
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import NAMES, TRUE, assert_grads, by_hand, fresh
from workbench.errors import OverrideError, SnapshotError, WorkbenchError
from workbench.session import storage
from workbench.session.state import State

GRAPH = wb.graph_rule(
    inputs=["x", "g"], returns=["d"], nodes=[(["d"], "multiply", ["g", 0.5], {})]
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "overrides.json"


def many() -> wb.Session:
    """A session with an override of each kind that is data."""
    model = fresh()
    model.override("h", "clip(d, -0.02, 0.02)", name="mine")
    model.override("decoder/*", "2 * d", jvp="true")
    model.override("tanh", GRAPH, enabled=False)
    model.override("log", wb.rules.safe_log(1e-3))
    model.override(5, "0.5 * d")
    model.override(wb.subgraph("p", ["h", "W2", "b2"]), "3 * d")
    model.move(5, 0)
    return model


def test_what_was_saved_is_attached_again(path: Path) -> None:
    model = many()
    assert model.save(path) == []
    other = fresh("other")
    assert other.load(path) == []
    for name in NAMES:
        assert other.grads[name].tobytes() == model.grads[name].tobytes()
    assert other.code() == model.code().replace("model.", "other.")
    assert other.history.done == ["load 6 overrides"]
    other.undo()
    assert_grads(other, by_hand(TRUE))
    other.redo()
    assert other.load(path) == []  # all are there
    assert len(other.overrides) == 6
    assert len(other.history.done) == 1


def test_what_is_loaded_comes_after_what_is_there(path: Path) -> None:
    many().save(path)
    other = fresh()
    mine = other.override("exp", lambda node, g: [g])
    other.load(path)
    assert [o.id for o in other.overrides] == [1, 2, 3, 4, 5, 6, 7]
    assert other.overrides[0].override is mine.override


def test_code_is_not_kept_and_that_is_said(path: Path) -> None:
    model = many()
    model.override(lambda node: node.op.name == "exp", "d")
    model.override("exp", lambda node, g: [g], jvp=lambda node, t: t, name="fast")
    model.override(wb.pattern(lambda W, x: W @ x), "2 * d")
    stored = [one.stored for one in model.overrides]
    assert stored == [True] * 6 + [False] * 3
    with pytest.warns(UserWarning, match="model.save: not saved, since they are code"):
        lost = model.save(path)
    assert [line.split(":")[0] for line in lost] == [
        "override 7 (true)",
        "override 8 (fast)",
        "override 9 (scale ×2)",
    ]
    assert lost[1].endswith("its rule and its forward rule is code")
    other = fresh()
    other.load(path)
    assert len(other.overrides) == 6


def test_a_file_is_whole_or_not_there(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh().save(path)
    assert json.loads(path.read_text())["overrides"] == []
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(FileNotFoundError):
        fresh().save(path.parent / "none" / "file.json")
    with pytest.raises(FileNotFoundError):
        fresh().load(path.parent / "other.json")


def shallow(X: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    """Another program, in which h is another node."""
    h = np.exp(X @ W1 + b1)
    h.name = "h"
    return np.mean(h @ W2 + b2)


def test_who_may_read_a_file_is_what_the_user_has_set(path: Path) -> None:
    before = os.umask(0o027)
    try:
        fresh().save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*missing'"):
        fresh().save(tmp_path / "missing" / "overrides.json")
    with pytest.raises(IsADirectoryError, match="a folder, not a file"):
        fresh().save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_is_said_and_changes_nothing(path: Path) -> None:
    model = fresh()
    model.override("h", "2 * d")
    model.override("matmul", "d")
    model.override("log", "d")
    model.override("p", "d")
    model.save(path)
    graph = wb.trace(shallow)(
        np.ones((4, 3)), np.ones((3, 2)), np.ones(2), np.ones(2), 0.0
    )
    other = wb.Session(graph, name="other")
    with pytest.raises(OverrideError) as caught:
        other.load(path)
    words = str(caught.value)
    assert "h is exp (4, 2) here, and was tanh (4, 2) where" in words
    assert "no node is named 'p'" in words
    assert "strict=False" in words
    assert other.overrides == []
    assert other.history.undo is None
    problems = other.load(path, strict=False)
    assert [p.split(":")[0] for p in problems] == [
        "overrides[0]",
        "overrides[2]",
        "overrides[3]",
    ]
    assert "every log matches nothing" in problems[1]
    assert [o.code for o in other.overrides] == ["other.override('matmul', vjp='d')"]


def test_of_many_overrides_those_that_fit_are_found_in_few_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a thousand overrides does not take a thousand times as long."""
    items = [
        {"target": {"kind": "op", "op": "exp"}, "vjp": f"{i} * d"} for i in range(1000)
    ]
    items[333]["target"] = {"kind": "op", "op": "sinh"}
    items[334]["vjp"] = "x7"
    path.write_text(json.dumps({"workbench_overrides": 1, "overrides": items}))
    model, runs = fresh(), list[int]()
    edit = State.edit

    def counted(state: State, text: str, entries: Any) -> State:
        runs.append(len(entries))
        return edit(state, text, entries)

    monkeypatch.setattr(State, "edit", counted)
    problems = model.load(path, strict=False)
    assert [p.split(":")[0] for p in problems] == ["overrides[333]", "overrides[334]"]
    assert [o.rule for o in model.overrides] == [
        f"{i} * d" for i in range(1000) if i not in (333, 334)
    ]
    assert len(runs) < 50
    items.append(items[0])
    path.write_text(json.dumps({"workbench_overrides": 1, "overrides": items}))
    with pytest.raises(SnapshotError, match="has 1001 entries, more than 1000"):
        model.load(path)


def test_a_rule_that_nobody_has_named(path: Path) -> None:
    model = fresh()
    model.override("h", "2 * d")
    model.save(path)
    data = json.loads(path.read_text())
    data["overrides"][0]["vjp"] = "rule_of_another(0.5)"
    path.write_text(json.dumps(data))
    with pytest.raises(OverrideError, match="1 of 1 overrides do not fit"):
        fresh().load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", 'it has no "workbench_overrides"'),
        ('{"workbench_overrides": 3}', "update autodiff-workbench"),
        ('{"workbench_overrides": "1"}', "its version is '1'"),
        ('{"workbench_overrides": 1}', "overrides is missing"),
        ('{"workbench_overrides": 1, "overrides": 3}', "overrides is 3, not a list"),
        ('{"workbench_overrides": 1, "overrides": [NaN]}', "NaN is not a JSON number"),
        ('{"workbench_overrides": 1, "overrides": [3]}', "overrides[0] is not an"),
        (
            '{"workbench_overrides": 1, "overrides": [{"target": {"kind": "code"}'
            ', "vjp": "d"}]}',
            "overrides[0].target.kind is 'code'",
        ),
        (
            '{"workbench_overrides": 1, "overrides": [{"target": {"kind": "op",'
            ' "op": "exp"}}]}',
            "overrides[0].vjp is missing",
        ),
        (
            '{"workbench_overrides": 1, "overrides": [{"name": "\\ud800",'
            ' "target": {"kind": "op", "op": "exp"}, "vjp": "d"}]}',
            "surrogates not allowed",
        ),
        (
            '{"workbench_overrides": 1, "overrides": [{"vjp": "d", "target":'
            ' {"kind": "op", "op": "' + "x" * 2001 + '"}}]}',
            "overrides[0].target.op has 2001 characters, more than 2000",
        ),
        (" " * (storage.MOST_BYTES + 1), "more than 10,000,000 bytes"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "it is not JSON"),
    ],
    ids=range(15),
)
def test_files_that_are_none(path: Path, text: str, words: str) -> None:
    path.write_text(text, encoding="utf-8")
    model = fresh()
    with pytest.raises(SnapshotError) as caught:
        model.load(path)
    assert words in str(caught.value)
    assert model.history.undo is None


HOSTILE = [
    "__import__('os').system('true')",
    "().__class__",
    "lambda: 0",
    "d if open('x') else d",
    "exec('1')",
    "noise(scale=__import__('os'))",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_file_runs(path: Path, text: str) -> None:
    item = {"target": {"kind": "op", "op": "exp"}, "vjp": text}
    data = {"workbench_overrides": 1, "overrides": [item]}
    path.write_text(json.dumps(data))
    model = fresh()
    with pytest.raises(OverrideError, match="do not fit"):
        model.load(path)
    assert len(model.load(path, strict=False)) == 1
    assert model.overrides == []


def test_random_damage_is_an_error_of_ours_or_nothing(
    path: Path, rng: np.random.Generator
) -> None:
    """Every field of a file replaced by things of every type."""
    many().save(path)
    whole = json.loads(path.read_text())
    junk = [None, True, -1, 0, 10**12, 1.5, "", "h", "x" * 50, [], [0], {}, [[]]]
    places = list(walked(whole))
    model = fresh()
    state = model._state
    for k in range(300):
        data = copy.deepcopy(whole)
        *steps, last = places[rng.integers(len(places))]
        place = data
        for step in steps:
            place = place[step]
        place[last] = junk[rng.integers(len(junk))]
        path.write_text(json.dumps(data))
        try:
            model.load(path, strict=bool(k % 2))
        except WorkbenchError:
            assert model._state is state
        else:
            if model._state is not state:
                model.undo()
            model._last = state


def walked(data: Any, path: tuple[Any, ...] = ()) -> Any:
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from walked(value, (*path, key))


def test_the_network_is_what_the_file_speaks_of(path: Path) -> None:
    model = many()
    model.save(path)
    stored = json.loads(path.read_text())
    assert stored["session"] == "model"
    node = stored["overrides"][1]["target"]
    assert node == {
        "kind": "node",
        "node": model.nodes.find("h"),
        "name": "h",
        "op": "tanh",
        "shape": [4, 2],
    }
