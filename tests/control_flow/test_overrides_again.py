"""Overrides of what derivatives compute again: in loops, branches and checkpoints.

The backward sweep of a loop, a branch or a checkpoint runs their steps once more. At
second and third order the override holds there too. The truth is the chain rule by
hand, or the same program written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

XS = np.array([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]])
KS = np.array([1.0, 2.0, 3.0])
A = np.array([0.7, 0.3])

Program = Callable[[Any], Any]


def total(h: Any) -> Any:
    return np.vdot(np.array([1.0, -0.5]), h)


def step(x: Any, h: Any) -> Any:
    return np.exp(np.sin(h * h) + 0.1 * x) * 0.5


def out(h: Any) -> Any:
    for x in XS:
        h = step(x, h)
    return h


FORMS: dict[str, Program] = {
    "loop": lambda h: wb.scan(step, XS, h, last=True),
    "loop in pieces": lambda h: wb.scan(step, XS, h, last=True, memory=1),
    "checkpoint": lambda h: wb.checkpoint(out)(h),
    "checkpoint in a loop": lambda h: wb.scan(wb.checkpoint(step), XS, h, last=True),
    "loop in a checkpoint": wb.checkpoint(lambda h: wb.scan(step, XS, h, last=True)),
    "checkpoint in a checkpoint": wb.checkpoint(
        lambda h: wb.checkpoint(lambda h: step(XS[2], step(XS[1], h)))(step(XS[0], h))
    ),
    "branch in a checkpoint": wb.checkpoint(
        lambda h: wb.cond(np.sum(h) > 0, out, lambda h: h * 2, h)
    ),
    "checkpoint in a branch": lambda h: wb.cond(
        np.sum(h) > 0, wb.checkpoint(out), lambda h: h * 2, h
    ),
}


def half(node: Any, g: Any) -> Any:
    (y,) = node.outputs
    return 0.5 * g * np.cos(y)


RULES: dict[str, list[wb.Override]] = {
    "an op": [wb.override("exp", "0.5 * d")],
    "an op, of its output": [wb.override("exp", "d * y")],
    "a function": [wb.override("sin", half)],
    "a structure": [wb.override(wb.pattern(lambda u: np.exp(u) * 0.5), "0.3 * d")],
    "several": [
        wb.override(wb.pattern(lambda u: np.sin(u * u)), "0.3 * d"),
        wb.override("exp", "d * y"),
        wb.override("sin", "0.5 * d"),
    ],
}


def derivatives(f: Program, given: list[wb.Override]) -> list[Any]:
    """The first three, forwards, of a batch, and of a function of a batch."""
    loss = lambda h: total(f(h))  # noqa: E731
    one = wb.grad(loss, overrides=given)
    two = wb.grad(lambda h: total(one(h)), overrides=given)
    three = wb.grad(lambda h: total(two(h)), overrides=given)
    rows = np.stack([A, 0.8 * A])
    return [
        one(A), two(A), three(A),
        wb.hessian(loss, overrides=given)(A),
        wb.jvp(loss, (A,), (np.cos(A),), overrides=given)[1],
        wb.vmap(one)(rows),
        wb.grad(lambda B: total(wb.vmap(loss)(B)), overrides=given)(rows),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_G1_an_override_holds_wherever_a_step_runs(form: str, rule: str) -> None:
    found = derivatives(FORMS[form], RULES[rule])
    truth = derivatives(out, RULES[rule])
    for a, b in zip(found, truth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


MAPS: dict[str, Program] = {
    "loop": lambda h: wb.scan(lambda k: np.exp(k * h), KS),
    "checkpoint": wb.checkpoint(lambda h: np.exp(KS * h)),
    "checkpoints in a loop": lambda h: wb.scan(
        wb.checkpoint(lambda k: np.exp(k * h)), KS
    ),
    "batch of checkpoints": lambda h: wb.vmap(wb.checkpoint(lambda k: np.exp(k * h)))(
        KS
    ),
}


@pytest.mark.parametrize("form", MAPS)
def test_G1_second_order_of_what_keeps_no_state(form: str) -> None:
    """Of exp(k h) with its slope halved the n-th derivative is (k / 2)ⁿ exp(k h).

    The gradient of such a loop does not read what the loop has made.
    """
    given = [wb.override("exp", "0.5 * d")]
    f = MAPS[form]
    one = wb.grad(lambda h: np.sum(f(h)), overrides=given)
    two = wb.grad(one, overrides=given)
    three = wb.grad(two, overrides=given)
    for n, found in enumerate((one, two, three), 1):
        expected = np.sum((KS / 2) ** n * np.exp(0.4 * KS))
        assert found(0.4) == pytest.approx(expected, rel=1e-12)
    second = wb.hessian(lambda h: np.sum(f(h)), overrides=given)(0.4)
    assert second == pytest.approx(np.sum(KS**2 / 4 * np.exp(0.4 * KS)), rel=1e-12)


def test_G4_the_branch_not_taken_stays_silent_in_a_checkpoint() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0)), x))

    given = [wb.override("sqrt", "0.5 * d")]
    x = np.array([4.0, -1.0])
    for g in (f, wb.checkpoint(f)):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(wb.grad(g, overrides=given)(x), [0.125, 1.0])
            np.testing.assert_allclose(
                wb.jacobian(g, mode="fwd", overrides=given)(x), [0.125, 1.0]
            )
            second = wb.hessian(g, overrides=given)(x)
        np.testing.assert_allclose(second, [[-1 / 128, 0], [0, 0]], atol=1e-15)


def test_in_a_checkpoint_of_a_session_an_op_an_id_and_several_outputs() -> None:
    @wb.checkpoint
    def pair(x: Any) -> Any:
        return np.sin(x), np.exp(2 * x)

    def f(x: Any) -> Any:
        s, e = pair(x)
        return np.sum(s * e)

    x = np.array([0.2, -0.3])
    s, e = np.sin(x), np.exp(2 * x)
    expected = 0.5 * np.cos(x) * e + 2 * s * e
    session = wb.Session(wb.trace(f)(x))
    session.override("sin", "0.5 * d")
    np.testing.assert_allclose(session.grads["x"], expected, rtol=1e-12)
    given = [wb.override("sin", "0.5 * d")]
    np.testing.assert_allclose(wb.grad(f, overrides=given)(x), expected, rtol=1e-12)
    # Only what is asked for is reached: of the other output nothing is.
    alone = wb.grad(lambda x: np.sum(pair(x)[1]), overrides=given)(x)
    np.testing.assert_allclose(alone, 2 * e, rtol=1e-12)
    with pytest.raises(wb.errors.OverrideError, match="matches nothing"):
        wb.grad(f, overrides=[wb.override("tanh", "d")])(x)


# Overrides of some steps, where only the run tells how many there are


@pytest.mark.parametrize("steps", [0, -1, slice(-2, None), slice(None, None, 2)])
def test_steps_of_each_example_are_counted_for_it(steps: Any) -> None:
    def until_two(x: Any) -> Any:
        def more(state: Any) -> Any:
            t, x, h = state
            return t + x, x, np.tanh(h) * 1.5

        return wb.while_loop(lambda s: s[0] < 2.0, more, (0.0, x, 0.3 * x))[2]

    given = [wb.override("tanh", "0.5 * d", steps=steps)]
    slope = wb.grad(until_two, overrides=given)
    truth = [slope(x) for x in A]
    np.testing.assert_allclose(wb.vmap(slope)(A), truth, rtol=1e-12)
    with wb.overrides(*given):
        np.testing.assert_allclose(wb.vmap(wb.grad(until_two))(A), truth, rtol=1e-12)
    together = wb.grad(lambda xs: np.sum(wb.vmap(until_two)(xs)), overrides=given)
    if steps == -1 or steps == slice(-2, None):
        with pytest.raises(wb.errors.OverrideError, match="counts from the last step"):
            together(A)
    else:
        np.testing.assert_allclose(together(A), truth, rtol=1e-12)


@pytest.mark.parametrize("steps", [5, -5, slice(7, 9), slice(4, None, 2)])
def test_steps_that_a_run_does_not_make_are_refused_then(steps: Any) -> None:
    n, x = wb.scalar("n", dtype=int), wb.scalar("x")
    y = wb.scan(np.tanh, initial=x, n_steps=n, last=True)
    given = [wb.override("tanh", "0.5 * d", steps=steps)]
    function = wb.function([x, n], wb.grad(y, x, overrides=given))
    with pytest.raises(wb.errors.OverrideError, match="none of the 3 steps"):
        function(0.3, 3)

    def f(x: Any) -> Any:
        return wb.scan(np.tanh, initial=x, n_steps=9, last=True)

    assert function(0.3, 9) == pytest.approx(wb.grad(f, overrides=given)(0.3))
    scope: dict[str, Any] = {}
    exec(function.source, scope)
    assert scope["function"](0.3, 9) == pytest.approx(function(0.3, 9))
