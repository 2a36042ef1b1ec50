"""The lesson: both sweeps with numbers, and the chain rule in the program's names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import SnapshotError, UsageError
from workbench.jupyter import answers  # noqa: F401  # declares what a page asks
from workbench.session import Session
from workbench.session.wire import (
    read_saved,
    save_snapshot,
    take_snapshot,
    write_lesson,
)
from workbench.session.wire.lesson import MOST_LESSON_NODES
from workbench.session.wire.schema import declare_wire

X = np.array([[0.5, -1.0], [1.0, 2.0]])
Y = np.array([[1.0], [0.0]])


def network(x: Any, W1: Any, b1: Any, W2: Any, y: Any) -> Any:
    h = np.tanh(x @ W1 + b1)
    return np.mean((h @ W2 - y) ** 2)


def make_network() -> Session:
    random = np.random.default_rng(0)
    values = [X, random.normal(size=(2, 3)), np.zeros(3), random.normal(size=(3, 1)), Y]
    return Session(wb.trace(network)(*values), wrt=["W1", "b1", "W2"])


def read_lesson(session: Session) -> list[dict[str, str]]:
    found = write_lesson(session)
    assert found is not None
    message = {"type": "lesson", "seq": 1, "request": 1, "lesson": found}
    message = json.loads(json.dumps(message))
    read = declare_wire().read("LessonAnswer", message, {"nodes": len(found["nodes"])})
    assert read == message
    return list(message["lesson"]["nodes"])


def find_rules(session: Session) -> dict[str, str]:
    rules = [one["rule"] for one in read_lesson(session) if one["rule"]]
    return dict(rule.split(" = ", 1) for rule in rules)


def read_array(text: str) -> np.ndarray[Any, Any]:
    rows = [row.split() for row in text.replace("−", "-").splitlines()]
    return np.array(rows, float)


def test_the_chain_rule_of_two_layers_as_a_book_writes_it() -> None:
    rules = find_rules(make_network())
    assert rules["∂mean/∂W2"] == "t3ᵀ ∂mean/∂t4"
    assert rules["∂mean/∂t3"] == "∂mean/∂t4 W2ᵀ"
    assert rules["∂mean/∂t2"] == "∂mean/∂t3 · (1 − t3²)"
    # A bias is added to each row: its gradient is a sum.
    assert rules["∂mean/∂b1"] == "Σ ∂mean/∂t2"
    assert rules["∂mean/∂W1"] == "xᵀ ∂mean/∂t1"
    assert rules["∂mean/∂mean"] == "1"


def test_the_numbers_are_those_of_the_calculus_by_hand() -> None:
    session = make_network()
    W1, b1, W2 = (session[name].value for name in ("W1", "b1", "W2"))
    h = np.tanh(X @ W1 + b1)
    delta = (h @ W2 - Y) * 2 / Y.size
    nodes = read_lesson(session)
    by_label = dict(zip(session.nodes.labels, nodes, strict=True))
    for label, wanted in (
        ("W2", h.T @ delta),
        ("W1", X.T @ (delta @ W2.T * (1 - h**2))),
        ("b1", (delta @ W2.T * (1 - h**2)).sum(0, keepdims=True)),
    ):
        got = read_array(by_label[label]["gradient"])
        np.testing.assert_allclose(got, wanted, rtol=5e-3)
    tanh = next(one for one in nodes if "tanh" in one["made"])
    assert tanh["made"] == "t3 = tanh(t2)"
    np.testing.assert_allclose(read_array(tanh["value"]), h, rtol=5e-3)


def test_a_value_that_is_read_twice_has_a_sum() -> None:
    session = Session(wb.trace(lambda x: np.sin(x) - x)(np.array(0.5)))
    assert find_rules(session)["∂subtract/∂x"] == (
        "∂subtract/∂t1 · cos(x) − ∂subtract/∂subtract"
    )


def test_values_of_one_name_are_told_apart() -> None:
    def net(w: Any, x: Any) -> Any:
        h = x
        for _ in range(2):
            h = np.tanh(w * h)
            h.name = "h"
        return np.sum(h)

    session = Session(wb.trace(net)(np.ones(2), np.ones(2)), wrt=["w"])
    assert find_rules(session) == {
        "∂sum/∂w": "∂sum/∂t1 · x + ∂sum/∂t2 · h1",
        "∂sum/∂t1": "∂sum/∂h1 · (1 − h1²)",
        "∂sum/∂h1": "∂sum/∂t2 · w",
        "∂sum/∂t2": "∂sum/∂h2 · (1 − h2²)",
        "∂sum/∂h2": "∂sum/∂sum to every entry",
        "∂sum/∂sum": "1",
    }


def test_what_has_no_name_gets_one_that_is_free() -> None:
    one, two = np.array([1.0, 2.0]), np.array([3.0, 2.0])
    session = Session(wb.trace(lambda t1, c: np.sum(one * t1 * c * two))(one, two))
    rules = find_rules(session)
    assert rules["∂sum/∂t1"] == "∂sum/∂t2 · c1"
    assert rules["∂sum/∂t2"] == "∂sum/∂t3 · c"
    assert rules["∂sum/∂t3"] == "∂sum/∂t4 · c2"
    session = Session(wb.trace(lambda sum: np.sum(sum * sum))(one))
    assert find_rules(session)["∂sum1/∂sum"] == "∂sum1/∂t1 · sum + ∂sum1/∂t1 · sum"


def test_an_override_stands_in_the_rule() -> None:
    session = make_network()
    session.override("tanh", "clip(d, -1, 1)")
    assert find_rules(session)["∂mean/∂t2"] == (
        "clip(d, -1, 1) with g = ∂mean/∂t3, d = ∂mean/∂t3 · (1 − t3²)"
    )


def test_large_arrays_are_not_printed() -> None:
    session = Session(wb.trace(lambda x: np.sum(np.sin(x)))(np.ones(100)))
    x, sin, total = read_lesson(session)
    assert (x["value"], sin["value"], sin["gradient"]) == ("", "", "")
    assert total["value"] == "84.1"


def test_a_large_program_has_no_lesson() -> None:
    def chain(x: Any) -> Any:
        for _ in range(MOST_LESSON_NODES):
            x = np.sin(x)
        return x

    session = Session(wb.trace(chain)(0.5))
    assert write_lesson(session) is None
    with pytest.raises(UsageError, match=r"up to 100 nodes.*leave out lesson=True"):
        session.to_html(lesson=True)


def test_a_file_holds_the_lesson() -> None:
    session = make_network()
    saved = save_snapshot(take_snapshot(session), lesson=write_lesson(session))
    assert saved is not None
    assert saved["lesson"] == write_lesson(session)
    read_saved(json.loads(json.dumps(saved)))
    assert '"lesson":{"open":true' in session.to_html(lesson=True)
    assert '"lesson":{"open":false' in session.to_html()


def test_a_lesson_that_is_no_text_is_refused() -> None:
    session = make_network()
    saved: Any = save_snapshot(take_snapshot(session), lesson=write_lesson(session))
    saved["lesson"]["nodes"][0]["rule"] = 1
    with pytest.raises(SnapshotError, match="rule"):
        read_saved(saved)
