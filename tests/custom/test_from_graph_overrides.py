"""Overrides of ops inside an `OpFromGraph`, as in the program written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError

X, Y = np.array([0.3, -0.8, 1.2]), np.array([0.5, 0.1, -0.4])


def made(name: str = "inner", **rules: Any) -> wb.OpFromGraph:
    x, y = wb.vector("x"), wb.vector("y")
    return wb.OpFromGraph([x, y], np.tanh(x * y) + np.sin(x), name=name, **rules)


def nested() -> Any:
    x, y = wb.vector("x"), wb.vector("y")
    return wb.OpFromGraph([x, y], made()(x, np.tanh(y)), name="outer")


def plain(x: Any, y: Any) -> Any:
    return np.tanh(x * y) + np.sin(x)


def plain_nested(x: Any, y: Any) -> Any:
    return plain(x, np.tanh(y))


GIVEN: dict[str, Any] = {
    "expression": [wb.override("tanh", "0.5 * d")],
    "function": [wb.override("tanh", lambda node, g: 2 * node.vjp(g)[0])],
    "several": [wb.override("tanh", "clip(d, -0.2, 0.2)", jvp="0.3 * d"),
                wb.override("multiply", "3 * d")],
}  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("deep", [False, True])
def test_they_hold_inside(given: str, deep: bool) -> None:
    op, f = (nested(), plain_nested) if deep else (made(), plain)
    rules = GIVEN[given]

    def inside(x: Any, y: Any) -> Any:
        return np.sum(op(x, y) ** 2)

    def written(x: Any, y: Any) -> Any:
        return np.sum(f(x, y) ** 2)

    pairs = [
        [wb.grad(h, (0, 1), overrides=rules)(X, Y) for h in (inside, written)],
        [wb.jvp(h, (X, Y), (Y, X), overrides=rules)[1:] for h in (inside, written)],
        [wb.jacobian(h, mode="rev", overrides=rules)(X, Y)[None]
         for h in (op, f)],
        [wb.vmap(lambda x, h=h: wb.grad(lambda x: h(x, Y), overrides=rules)(x))(
            np.stack([X, Y]))[None] for h in (inside, written)],
        [wb.grad(lambda x, h=h: np.sum(wb.vmap(lambda x: h(x, Y))(x)),
                 overrides=rules)(np.stack([X, Y]))[None] for h in (inside, written)],
    ]  # fmt: skip
    if given != "several":
        pairs.append([wb.hessian(h, overrides=rules)(X, Y)[None]
                      for h in (inside, written)])  # fmt: skip
    for found, true in pairs:
        for a, b in zip(found, true, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("given", GIVEN)
def test_symbols_of_unknown_lengths(given: str) -> None:
    x, y = wb.vector("x"), wb.vector("y")
    rules = GIVEN[given]
    functions = [
        wb.function([x, y], wb.grad(np.sum(f(x, y) ** 2), x, overrides=rules))
        for f in (made(), plain)
    ]
    found, true = (f(X, Y) for f in functions)
    np.testing.assert_allclose(found, true, rtol=1e-12)


def test_a_rule_of_the_op_stands_in_for_all_inside() -> None:
    op = made("ruled", vjp="2 * d")
    rules = [wb.override("tanh", "0 * d")]
    with pytest.raises(OverrideError, match="tanh"):
        wb.grad(lambda x: np.sum(op(x, Y)), overrides=rules)(X)
    whole = [wb.override("inner", "0 * d"), wb.override("tanh", "5 * d")]
    found = wb.grad(lambda x: np.sum(made()(x, Y)), overrides=whole)(X)
    np.testing.assert_array_equal(found, np.zeros(3))


def test_a_session_reaches_inside_and_takes_it_back() -> None:
    op = made()
    session = wb.Session(wb.trace(lambda x: np.sum(op(x, Y)))(X))
    true = np.array(session.grads["x"])
    session.override("tanh", "0 * d")
    np.testing.assert_allclose(session.grads["x"], np.cos(X), rtol=1e-12)
    session.undo()
    np.testing.assert_array_equal(session.grads["x"], true)
