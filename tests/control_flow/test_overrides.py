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


# Structures inside

LINEAR = wb.pattern(lambda w, h, x: w * h + x)


def bent(node: Any, g: Any) -> Any:
    """A rule that is not a gradient, and reads all that the match takes."""
    w, h, x = node.inputs
    dw, dh, dx = node.vjp(g)
    return [0.5 * dw + g * x, 2 * dh * np.cos(w), dx * h]


def bent_by_hand(w: float) -> float:
    """The gradient by w of the recurrence, back from the last step."""
    h = [0.7]
    for x in XS:
        h.append(float(np.tanh(w * h[-1] + x)))
    g, by_w = 1.0, 0.0
    for x, before, after in reversed(list(zip(XS, h[:-1], h[1:], strict=True))):
        at_sum = g * (1 - after**2)
        by_w += 0.5 * at_sum * before + at_sum * x
        g = 2 * at_sum * w * np.cos(w)
    return by_w


@pytest.mark.parametrize("memory", ["auto", 1, 2])
def test_B3_a_structure_in_the_steps_of_a_scan(memory: Any) -> None:
    def loop(w: Any) -> Any:
        def step(x: Any, h: Any) -> Any:
            return np.tanh(w * h + x)

        return wb.scan(step, XS, 0.7, memory=memory)[-1]

    given = [wb.override(LINEAR, bent)]
    assert np.isclose(wb.grad(plain, overrides=given)(0.9), bent_by_hand(0.9))
    assert np.isclose(wb.grad(loop, overrides=given)(0.9), bent_by_hand(0.9))
    with wb.overrides(*given):
        assert np.isclose(wb.grad(loop)(0.9), bent_by_hand(0.9))
    w = wb.scalar("w")
    f = wb.function([w], wb.grad(loop(w), w, overrides=given))
    assert np.isclose(f(0.9), bent_by_hand(0.9))
    session = wb.Session(wb.trace(loop)(0.9))
    (matched,) = session.override(LINEAR, bent).matched
    assert session.graph.nodes[matched].op.name == "scan"
    assert np.isclose(session.grads["w"], bent_by_hand(0.9))
    assert np.isclose(session.jacobian(None, "w"), bent_by_hand(0.9))


def test_a_structure_in_a_loop_forward_and_at_second_order() -> None:
    # The second reads a sum that no true rule reads.
    for rule, jvp in ((bent, None), ("d * y", None), ("clip(d, -0.1, 0.1)", "0.5 * d")):
        given = [wb.override(LINEAR, rule, jvp=jvp)]
        for f in (loop, plain):
            moved = [wb.jvp(g, (0.9,), (1.0,), overrides=given)[1] for g in (f, plain)]
            assert np.isclose(*moved)
        twice = [wb.grad(wb.grad(f, overrides=given))(0.9) for f in (loop, plain)]
        assert np.isclose(*twice)
        twice = [wb.hessian(f, overrides=given)(0.9) for f in (loop, plain)]
        assert np.isclose(*twice)
    step = 1e-6
    once = wb.grad(loop, overrides=[wb.override(LINEAR, bent)])
    slope = (bent_by_hand(0.9 + step) - bent_by_hand(0.9 - step)) / (2 * step)
    assert np.isclose(wb.grad(once)(0.9), slope, rtol=1e-7)


def test_a_structure_in_branches_while_loops_and_loops_in_loops() -> None:
    def nested(w: Any) -> Any:
        def step(x: Any, h: Any) -> Any:
            inner = wb.scan(lambda y, s: np.sin(w * s + y), XS, 0.1, last=True)
            return wb.cond(x > 0, lambda h: w * h + inner, lambda h: h * inner, h)

        return wb.scan(step, XS, 0.7)[-1]

    def flat(w: Any) -> Any:
        h = 0.7
        for x in XS:
            inner = 0.1
            for y in XS:
                inner = np.sin(w * inner + y)
            h = w * h + inner if x > 0 else h * inner
        return h

    given = [wb.override(LINEAR, bent)]
    want = wb.grad(flat, overrides=given)(0.9)
    assert not np.isclose(want, wb.grad(flat)(0.9))
    assert np.isclose(wb.grad(nested, overrides=given)(0.9), want)
    w = wb.scalar("w")
    f = wb.function([w], wb.grad(nested(w), w, overrides=given))
    assert np.isclose(f(0.9), want)

    def counted(w: Any) -> Any:
        def body(state: Any) -> Any:
            i, h = state
            return i + 1, np.tanh(w * h + 0.25)

        return wb.while_loop(lambda state: state[0] < 3, body, (0, 0.7))[1]

    def unrolled(w: Any) -> Any:
        h = 0.7
        for _ in range(3):
            h = np.tanh(w * h + 0.25)
        return h

    one = [wb.override(LINEAR, "0.5 * d", jvp="0.5 * d")]
    want = wb.jvp(unrolled, (0.9,), (1.0,), overrides=one)[1]
    assert np.isclose(wb.jvp(counted, (0.9,), (1.0,), overrides=one)[1], want)
    missing = wb.override(wb.pattern(lambda a, b: np.arctan(a) * b), "d")
    with pytest.raises(OverrideError, match="the program has no arctan"):
        wb.grad(nested, overrides=[missing])(0.9)


def test_a_structure_in_a_checkpoint_and_around_it() -> None:
    def f(w: Any) -> Any:
        inside = wb.checkpoint(lambda w: np.sin(w * 2.0 + 1.0))
        return inside(w) * 3.0 + 1.0

    given = [wb.override(LINEAR, "0.5 * d")]
    assert np.isclose(wb.grad(f, overrides=given)(0.9), 0.25 * 3 * 2 * np.cos(2.8))
