"""`cond`: one branch runs, and only its derivative does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, ShapeError, UsageError


def pieces(x: Any) -> Any:
    return wb.cond(x > 0, np.log, lambda x: x * x - 1, x)


@pytest.mark.parametrize(("x", "y", "slope", "bend"), [
    (2.0, np.log(2.0), 0.5, -0.25), (-3.0, 8.0, -6.0, 2.0), (0.0, -1.0, 0.0, 2.0),
])  # fmt: skip
def test_both_modes_and_orders(x: float, y: float, slope: float, bend: float) -> None:
    assert np.isclose(pieces(x), y)
    assert np.isclose(wb.grad(pieces)(x), slope)
    assert np.isclose(wb.jvp(pieces, (x,), (1.0,))[1], slope)
    assert np.isclose(wb.hessian(pieces)(x), bend)
    s = wb.scalar("x")
    z = pieces(s)
    g = wb.grad(z, s)
    f = wb.function([s], [z, g, wb.grad(g, s)])
    assert np.allclose(f(x), [y, slope, bend])


def test_only_the_branch_taken_runs() -> None:
    ran = []

    class Noted(wb.Op):
        """An op whose code sees each run."""

        def infer(self, x: Any) -> Any:
            return x

        def compute(self, x: Any) -> Any:
            ran.append(1)
            return x

        def vjp(self, node: Any, g: Any) -> Any:
            return g

    op = Noted()
    x = wb.scalar("x")
    y = wb.cond(x > 0, lambda x: 2 * x, lambda x: 3 * op(x), x)
    f = wb.function([x], [y, wb.grad(y, x)])
    assert [float(v) for v in f(1.0)] == [2, 2]
    assert not ran
    assert [float(v) for v in f(-1.0)] == [-3, 3]
    assert ran


def test_captured_tensors_and_several_outputs() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        u, v = wb.cond(x > 0, lambda x: (a * x, np.sin(x)), lambda x: (b * x, x * x), x)
        return u * v

    a, b, x = wb.scalars("a b x")
    y = f(a, b, x)
    g = wb.function([a, b, x], [y, *wb.grad(y, [a, b, x])])
    for args in ((2.0, 3.0, 0.7), (2.0, 3.0, -0.7)):
        want = wb.value_and_grad(f, (0, 1, 2))(*args)
        assert np.allclose(g(*args), [want[0], *want[1]])
        plain = (
            (args[0] * args[2] * np.sin(args[2]))
            if args[2] > 0
            else args[1] * args[2] ** 3
        )
        assert np.isclose(want[0], plain)


def test_many_conditions_at_once_and_no_poison() -> None:
    """The logarithm of what is not positive is NaN, and nobody takes it."""
    x = np.array([2.0, -3.0, 0.0])
    assert np.allclose(wb.vmap(pieces)(x), [np.log(2), 8, -1])
    assert np.allclose(wb.vmap(wb.grad(pieces))(x), [0.5, -6, 0])
    with np.errstate(all="ignore"):
        got = wb.grad(lambda x: np.sum(wb.vmap(pieces)(x)))(x)
        assert np.allclose(got, [0.5, -6, 0])
    shared = wb.vmap(lambda x, p: wb.cond(p, np.sin, np.cos, x), in_axes=(0, None))
    assert np.allclose(shared(x, True), np.sin(x))
    picked = wb.vmap(lambda p: wb.cond(p, np.sin, np.cos, 0.3))
    assert np.allclose(picked(np.array([True, False])), [np.sin(0.3), np.cos(0.3)])


def test_inside_a_loop(rng: np.random.Generator) -> None:
    xs = rng.normal(size=7)

    def loop(w: Any, xs: Any) -> Any:
        def step(x: Any, h: Any) -> Any:
            return wb.cond(x > 0, lambda h: np.sin(w * h + x), lambda h: h * h * w, h)

        return np.sum(wb.scan(step, xs, 0.7))

    def plain(w: Any, xs: Any) -> Any:
        h, total = 0.7, 0.0
        for x in xs:
            h = np.sin(w * h + x) if x > 0 else h * h * w
            total = total + h
        return total

    for place in (0, 1):
        want = wb.grad(plain, place)(0.8, xs)
        assert np.allclose(wb.grad(loop, place)(0.8, xs), want)
        want = wb.hessian(plain, place)(0.8, xs)
        assert np.allclose(wb.hessian(loop, place)(0.8, xs), want)


def test_branches_that_differ_are_refused_with_both_lines() -> None:
    x = wb.scalar("x")
    with pytest.raises(ShapeError) as caught:
        wb.cond(
            x > 0,
            lambda x: np.sin(x),
            lambda x: np.stack([x, x]),
            x,
        )
    text = str(caught.value)
    assert "on_true returns is float64[], of on_false float64[2]" in text
    assert "np.sin(x)" in text
    assert "np.stack" in text
    with pytest.raises(DtypeError, match="output 1 of on_true is float32"):
        wb.cond(x > 0, lambda x: (x, x.astype("float32")), lambda x: (x, x), x)
    with pytest.raises(UsageError, match="the same nest"):
        wb.cond(True, lambda x: x, lambda x: (x, x), 1.0)
    with pytest.raises(ShapeError, match=r"the condition has shape \(2,\)"):
        wb.cond(np.ones(2) > 0, np.sin, np.cos, 1.0)


def test_unknown_lengths() -> None:
    x = wb.vector("x")
    y = wb.cond(np.sum(x) > 0, lambda x: x * x, np.exp, x)
    f = wb.function([x], [y, wb.grad(np.sum(y), x)])
    for values in (np.array([1.0, 2.0]), np.array([-1.0, -2.0, 0.5])):
        up = np.sum(values) > 0
        assert np.allclose(f(values)[0], values**2 if up else np.exp(values))
        assert np.allclose(f(values)[1], 2 * values if up else np.exp(values))
