"""The harness: who takes part, whether they agree, what is kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import environment, harness, table
from tests.benchmarks.harness import Case, Goal, Row
from tests.benchmarks.peers import NotApplicable, Peer, Problem

pytestmark = pytest.mark.long

OURS = "workbench compiled"


def make_peer(slope: Any, answers: bool = True) -> Callable[[Any], Peer]:
    answer = np.array(slope)
    return lambda problem: Peer(lambda: 1.0, lambda: answer, answers=answers)


def refuse(error: Exception) -> Callable[[Any], Peer]:
    def make(problem: Any) -> Peer:
        raise error

    return make


def make_case(**settings: Any) -> Case:
    hand = Peer(lambda: 1.0, lambda: np.array([1.0, 2.0]))
    return Case(
        "demo",
        "A demonstration",
        lambda tiny: Problem(lambda np, x: x, (1.0,), by_hand={"hand": lambda: hand}),
        **{"rounds": 2, **settings},
    )


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Everybody but those by hand, to be changed."""
    found: dict[str, Any] = {OURS: make_peer([1.0, 2.0])}
    monkeypatch.setattr(harness, "PEERS", found)
    return found


def test_an_answer_that_differs_is_told(
    peers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    peers["other"] = make_peer([1.0, 2.002])
    case = make_case()
    assert not harness.run(case, keep=False, probes=False)
    assert "other" in (out := capsys.readouterr().out)
    assert "differs by 0.001" in out
    del peers["other"]
    assert harness.run(case, keep=False, probes=False)


def test_an_answer_of_another_shape_or_with_nan_differs() -> None:
    one = [np.array([1.0, 2.0])]
    assert harness.compare_answers(one, [np.array([1.0])]) == math.inf
    assert harness.compare_answers([np.array([1.0, np.nan])], one) == math.inf
    assert harness.compare_answers(one, [*one, *one]) == math.inf
    assert harness.compare_answers(one, one) == 0


def test_who_is_missing_or_has_no_such_thing_is_left_out(
    peers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    peers["missing"] = refuse(ImportError("gone", name="gone"))
    peers["unable"] = refuse(NotApplicable("it has no loops"))
    peers["unwanted"] = make_peer([1.0, 2.0])
    case = make_case(without={"unwanted": "too slow"})
    ready, errors = harness.prepare(case, case.make(True))
    assert (list(ready), errors) == (["hand", OURS], {})
    out = capsys.readouterr().out
    assert "missing: not installed (gone)" in out
    assert "unable: left out: it has no loops" in out


def test_who_fails_stops_nobody(peers: dict[str, Any]) -> None:
    peers["other"] = refuse(RecursionError("too deep\nby far"))
    case = make_case()
    ready, errors = harness.prepare(case, case.make(True))
    assert list(ready) == ["hand", OURS]
    assert errors == {"other": "RecursionError: too deep"}
    rows = harness.measure(case, probes=False)
    assert "RecursionError: too deep" in harness.write_table(case, rows)


def test_only_the_named_take_part(peers: dict[str, Any]) -> None:
    peers |= {"one": make_peer([1.0, 2.0]), "two": make_peer([1.0, 2.0])}
    case = make_case()
    made = harness.list_peers(case, case.make(True), ["two"])
    assert list(made) == ["hand", OURS, "two"]


def test_a_limit_is_timed_and_not_compared(peers: dict[str, Any]) -> None:
    peers["copy"] = make_peer(None, answers=False)
    case = make_case()
    rows = {row.peer: row for row in harness.measure(case, probes=False)}
    assert rows["copy"].error == ""
    assert len(rows["copy"].gradients) == 2


def test_what_takes_too_long_is_stopped() -> None:
    def wait_for_ever() -> None:
        with harness.limit_time(1):
            while True:
                pass

    with pytest.raises(TimeoutError, match="no answer after 1 s"):
        wait_for_ever()


def test_goals_are_judged() -> None:
    rows = [
        Row(OURS, gradients=[4e-3, 2e-3], memory=3e6, compiled=0.2),
        Row("jax", gradients=[1e-3, 4e-3]),
    ]
    goals = (
        Goal(3.0, "jax"),
        Goal(1.0, "jax", reason="it waits"),
        Goal(5e-6),
        Goal(4e6, what="memory"),
        Goal(1.0, "torch"),
        Goal(0.1, what="compiled"),
    )
    verdicts = harness.judge(goals, rows)
    assert [v.value for v in verdicts] == [2.0, 2.0, 2e-3, 3e6, None, 0.2]
    assert [v.met for v in verdicts] == [True, False, False, True, None, False]
    assert [v.reason for v in verdicts][:2] == ["", "it waits"]
    assert str(goals[0]) == f"{OURS}: gradient ≤ 3 × jax"
    assert str(goals[2]) == f"{OURS}: gradient ≤ 5 µs"
    assert str(goals[3]) == f"{OURS}: extra memory ≤ 4 MB"
    assert str(goals[5]) == f"{OURS}: until compiled ≤ 100 ms"


def test_what_is_kept(
    peers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "run_probe", lambda *args: (0.5, 0.75, 1e6))
    peers["other"] = refuse(RecursionError("too deep"))
    assert harness.run(make_case(goals=(Goal(1e9, "hand"),)), keep=True)
    (file,) = tmp_path.iterdir()
    kept = json.loads(file.read_text(encoding="utf-8"))
    where = {"case", "date", "cpu", "cores", "cores used", "threads", "versions"}
    assert where | {"goals", "rows", "python", "load"} <= set(kept)
    assert kept["versions"]["numpy"] == np.__version__
    assert [goal["met"] for goal in kept["goals"]] == [True]
    rows = {row["peer"]: row for row in kept["rows"]}
    assert list(rows) == ["hand", OURS, "other"]
    ours = rows[OURS]
    assert ours["ours_over_peer"] == 1
    assert ours["gradient_s"] <= ours["gradient_median_s"]
    measured = ours["first_answer_s"], ours["compiled_s"], ours["extra_memory_bytes"]
    assert measured == (0.5, 0.75, 1e6)
    assert rows["other"]["error"] == "RecursionError: too deep"
    assert rows["other"]["gradient_s"] is None
    text = table.write_tables({"demo": kept})
    assert "1 of 1 are met" in table.write_goal_tables({"demo": kept})
    assert "| RecursionError |" not in text  # no column of that name
    assert "A demonstration (`demo`)" in text


def test_memory_is_measured_where_the_system_tells() -> None:
    used = harness.measure_memory(lambda: np.ones(4_000_000).sum())
    assert math.isnan(used) or 30e6 < used < 60e6


def test_what_the_environment_installs() -> None:
    needs, *peers = environment.list_installs()
    assert any(one.startswith("llvmlite") for one in needs)
    assert any(one.startswith("numpy") for one in needs)
    named = " ".join(word for line in peers for word in line)
    for library in ("jax", "torch", "autograd", "casadi", "numba", "pytensor"):
        assert f"{library}>=" in named
    assert all(one[0] for one in peers)
