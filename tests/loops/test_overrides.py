"""Overrides reach the ops inside the steps of a loop and inside branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError

XS = np.array([0.3, -0.2, 0.5])


def loop(w: Any) -> Any:
    def step(x: Any, h: Any) -> Any:
        with wb.scope("cell"):
            return np.tanh(w * h + x)

    return wb.scan(step, XS, 0.7)[-1]


def plain(w: Any) -> Any:
    h = 0.7
    for x in XS:
        with wb.scope("cell"):
            h = np.tanh(w * h + x)
    return h


@pytest.mark.parametrize(
    "target", ["tanh", "cell", lambda node: node.op.name == "tanh"]
)
@pytest.mark.parametrize("rule", ["0.5 * d", "g", "clip(d, -0.1, 0.1)"])
def test_an_override_inside_a_scan(target: Any, rule: str) -> None:
    given = [wb.override(target, rule, jvp="0.5 * d")]
    if target == "cell":
        given = [wb.override("cell", rule, jvp="true")]
    want = wb.grad(plain, overrides=given)(0.9)
    assert np.isclose(wb.grad(loop, overrides=given)(0.9), want)
    forward = wb.jvp(plain, (0.9,), (1.0,), overrides=given)[1]
    assert np.isclose(wb.jvp(loop, (0.9,), (1.0,), overrides=given)[1], forward)
    with wb.overrides(*given):
        assert np.isclose(wb.grad(loop)(0.9), want)


def test_a_function_as_rule_and_second_order() -> None:
    def rule(node: Any, g: Any) -> Any:
        (y,) = node.outputs
        return g * (1 - y**2) * 0.5

    given = [wb.override("tanh", rule)]
    want = wb.grad(plain, overrides=given)(0.9)
    assert np.isclose(wb.grad(loop, overrides=given)(0.9), want)
    want = wb.grad(wb.grad(plain, overrides=given))(0.9)
    assert np.isclose(wb.grad(wb.grad(loop, overrides=given))(0.9), want)


def test_in_nested_loops_branches_and_on_symbols() -> None:
    def nested(w: Any) -> Any:
        def step(x: Any, h: Any) -> Any:
            inner = wb.scan(lambda y, s: s + np.sin(w * y * x), XS, 0.0, last=True)
            return wb.cond(x > 0, lambda h: np.sin(inner + h), lambda h: h + inner, h)

        return wb.scan(step, XS, 0.7)[-1]

    def flat(w: Any) -> Any:
        h = 0.7
        for x in XS:
            inner = 0.0
            for y in XS:
                inner = inner + np.sin(w * y * x)
            h = np.sin(inner + h) if x > 0 else h + inner
        return h

    given = [wb.override("sin", "0.5 * d")]
    want = wb.grad(flat, overrides=given)(0.9)
    assert np.isclose(wb.grad(nested, overrides=given)(0.9), want)
    w = wb.scalar("w")
    y = nested(w)
    f = wb.function([w], wb.grad(y, w, overrides=given))
    assert np.isclose(f(0.9), want)


def test_one_that_matches_nothing_inside_is_an_error() -> None:
    with pytest.raises(OverrideError, match="arctan"):
        wb.grad(loop, overrides=[wb.override("arctan", "d")])(0.9)
