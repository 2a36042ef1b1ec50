"""A sweep after a change of overrides finds what a whole sweep finds, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.session import Session
from workbench.session.stages import Backward

RULES = ("clip(d, -0.5, 0.5)", "2 * d", "0 * d", "g * x", "where(x > 0, d, 0)", "true")
OPS = ("tanh", "multiply", "add", "where", "getitem", "sin", "matmul", "scan")


def make_program(rng: np.random.Generator, count: int) -> Callable[..., Any]:
    """Return a random program of small arrays whose values are read again and again."""
    kinds = rng.integers(0, 9, count)
    picks = rng.random((count, 2))
    order = rng.permutation(4)

    def program(x: Any, w: Any) -> Any:
        values = [x, w, x * w]
        for kind, pick in zip(kinds, picks, strict=True):
            a, b = (values[int(p * len(values))] for p in pick)
            if kind == 0:
                made = np.tanh(a) * b
            elif kind == 1:
                made = a - 0.3 * b
            elif kind == 2:  # its cotangents carry a mask
                made = np.where(a > 0.1, np.sqrt(abs(a) + 1), b)
            elif kind == 3:
                made = a[order] + b[0]
            elif kind == 4:
                made = np.sin(a)
            elif kind == 5:  # several outputs
                halves = np.split(a, 2)
                made = np.concatenate([halves[1], halves[0] * 2])
            elif kind == 6:
                made = np.outer(a, b) @ np.ones(4) / 9
            elif kind == 7:  # a loop, with nodes inside
                made = wb.scan(
                    lambda s: np.tanh(s) + 0.1, initial=a, n_steps=3, last=True
                )
            else:
                made = a + b
            values.append(made / (1 + np.sum(made * made) / 8))
        return np.sum(sum(values[-3:]) * np.linspace(1, 2, 4))

    return program


def double(node: Any, *cotangents: Any) -> Any:
    """Pass on twice what the true rule does."""
    return [2 * c for c in node.vjp(*cotangents)]


def make_target(session: Session, rng: np.random.Generator) -> Any:
    """Return a node, all nodes of an op, or those that a function chooses."""
    ids = [i for i, x in enumerate(session.graph.nodes) if x.inputs]
    kind = rng.integers(4)
    if kind < 2:
        return int(rng.choice(ids))
    if kind == 2:
        return str(rng.choice(OPS))
    some = {session.graph.nodes[i].op.name for i in rng.choice(ids, 2)}
    return lambda node: node.op.name in some and len(node.inputs) == 1


def change(session: Session, rng: np.random.Generator) -> None:
    """Change the overrides of a session in a random way."""
    overrides, history = session.overrides, session.history
    kind = rng.integers(8)
    if kind == 0 and history.done:
        session.undo()
    elif kind == 1 and history.undone:
        session.redo()
    elif kind == 2 and overrides:
        session.remove(int(rng.choice([one.id for one in overrides])))
    elif kind == 3 and overrides:
        one = overrides[rng.integers(len(overrides))]
        session.switch(one, not one.enabled)
    elif kind == 4 and overrides:
        one = overrides[rng.integers(len(overrides))]
        session.move(one, int(rng.integers(len(overrides))))
    elif kind == 5 and overrides:
        session.edit(overrides[rng.integers(len(overrides))], str(rng.choice(RULES)))
    else:
        rule = double if rng.random() < 0.2 else str(rng.choice(RULES))
        session.override(make_target(session, rng), rule)


def assert_same_parts(found: Any, expected: Any) -> None:
    """Compare two cotangents, of several outputs part by part."""
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        np.testing.assert_array_equal(one, other, strict=other is not None)


def assert_equal(found: Backward, expected: Backward) -> None:
    """Compare all that a sweep keeps, bit for bit."""
    assert found.cotangents.keys() == expected.cotangents.keys()
    for i, g in expected.cotangents.items():
        assert_same_parts(found.cotangents[i], g)
    assert found.raw.keys() == expected.raw.keys()
    np.testing.assert_array_equal(found.edge_norms, expected.edge_norms)


@pytest.mark.parametrize("trial", range(6))
def test_random_changes_give_what_a_whole_sweep_gives(
    trial: int, rng: np.random.Generator
) -> None:
    program = make_program(rng, int(rng.integers(5, 30)))
    x, w = rng.standard_normal((2, 4))
    session = Session(wb.trace(program)(x, w))
    changed = 0
    for _ in range(12):
        try:
            change(session, rng)
        except wb.errors.WorkbenchError:
            continue  # a rule that does not fit the op, or a target without a node
        changed += 1
        state = session._state
        with np.errstate(all="ignore"):
            assert_equal(session.require_backward(), state.sweep(state.resolution))
            for one in session.overrides:
                if one.enabled:
                    alone = state.sweep(state.resolve([one.override])).cotangents
                    for i, g in state._sweep_solo(one.override).items():
                        np.testing.assert_array_equal(g, alone[i])
    assert changed


def test_only_what_a_rule_reaches_is_computed_again() -> None:
    calls = []

    class Watched(wb.Op):
        def infer(self, x: Any) -> Any:
            return x

        def compute(self, x: Any) -> Any:
            return 2 * x

        def vjp(self, node: Any, g: Any) -> Any:
            calls.append(float(g[0]))
            return 2 * g

    op = Watched()

    def program(x: Any) -> Any:
        for i in range(6):
            x = op(x)
            x.name = f"h{i}"
        return np.sum(x)

    session = Session(wb.trace(program)(np.ones(2)))
    assert np.all(session.grads["x"] == 64)
    calls.clear()
    session.override(session["h2"], "0.5 * d")
    # The rule of h2 asks for the true one; those after it are not run again.
    assert calls == [8, 8, 16]
    assert np.all(session.grads["x"] == 32)
    assert session.require_backward().cotangents[session.nodes.find("h5")].tolist() == [
        1,
        1,
    ]


def test_a_function_is_called_again_after_each_change() -> None:
    scale = 2.0
    session = Session(wb.trace(lambda x: np.sum(np.sin(np.tanh(x))))(np.zeros(2)))
    session.override("sin", lambda node, g: scale * g)
    assert session.grads["x"].tolist() == [2, 2]
    scale = 5.0
    session.override("tanh", "3 * d")  # what it reads may have changed meanwhile
    assert session.grads["x"].tolist() == [15, 15]


def test_a_rule_that_stays_at_an_op_without_a_derivative_is_swept_again() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(np.round(x) * 0.5) + np.sin(x)))
    session = wb.Session(graph(np.array([0.3, 1.2])))
    session.override("round", "g")
    session.override("tanh", "7*d")
    found = session.grads["x"]
    x = np.array([0.3, 1.2])
    slope = 7 * 0.5 * (1 - np.tanh(np.round(x) * 0.5) ** 2) + np.cos(x)
    np.testing.assert_allclose(found, slope, rtol=1e-13)
