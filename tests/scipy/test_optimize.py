"""Roots and minima as functions of their parameters: against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import workbench as wb
from workbench.errors import (
    ConvergenceError,
    MatrixError,
    NotDifferentiableError,
    UsageError,
)
from workbench.scipy.optimize import (
    bisect,
    brenth,
    brentq,
    fixed_point,
    least_squares,
    minimize,
    minimize_scalar,
    ridder,
    root,
    root_scalar,
)

A = np.array([2.0, 3.0])
Q = np.array([[3.0, 0.5], [0.5, 2.0]])

#: Ways to the same: the cube root of a, entry by entry or of one number.
VECTORS: dict[str, Callable[[Any], Any]] = {
    "root": lambda a: root(lambda x, a: x**3 - a, np.ones(2), a, tol=1e-13).x,
    "root, lists": lambda a: (
        root(lambda x: [x[0] ** 3 - a[0], x[1] ** 3 - a[1]], [1, 1], tol=1e-13).x
    ),
    "lm": lambda a: root(lambda x: x**3 - a, np.ones(2), method="lm", tol=1e-13).x,
    "fixed_point": lambda a: fixed_point(
        lambda x, a: (2 * x + a / x**2) / 3, np.ones(2), (a,), 1e-13
    ),
    "iteration": lambda a: fixed_point(
        lambda x: (2 * x + a / x**2) / 3, np.ones(2), xtol=1e-13, method="iteration"
    ),
    "minimize": lambda a: (
        minimize(lambda x, a: np.sum(x**4 / 4 - a * x), np.ones(2), a, tol=1e-12).x
    ),
    "Newton-CG": lambda a: (
        minimize(
            lambda x: np.sum(x**4 / 4 - a * x), np.ones(2), method="CG", tol=1e-12
        ).x
    ),
}
VECTORS |= {
    f"least squares, {loss}": lambda a, loss=loss: (
        least_squares(
            lambda x, a: x**3 - a, np.ones(2), loss=loss, args=(a,), gtol=1e-14,
            ftol=1e-15, xtol=1e-15, bounds=(0, np.inf),
        ).x
    )
    for loss in ("linear", "soft_l1", "huber", "cauchy", "arctan")
}  # fmt: skip
SCALARS: dict[str, Callable[[Any], Any]] = {
    "bracket": lambda a: root_scalar(lambda x: x**3 - a, bracket=(0, 9)).root,
    "bracket of a": lambda a: root_scalar(lambda x: x**3 - a, bracket=(0, a)).root,
    "secant": lambda a: root_scalar(lambda x, a: x**3 - a, a, x0=1, x1=2).root,
    "newton": lambda a: root_scalar(
        lambda x: x**3 - a, x0=1.5, fprime=lambda x: 3 * x**2, method="newton"
    ).root,
    "pair": lambda a: root_scalar(
        lambda x: (x**3 - a, 3 * x**2), x0=1.5, fprime=True, method="newton"
    ).root,
    "halley": lambda a: root_scalar(
        lambda x: x**3 - a, x0=1.5, fprime=True and (lambda x: 3 * x**2),
        fprime2=lambda x: 6 * x, method="halley",
    ).root,
    "minimize_scalar": lambda a: minimize_scalar(lambda x: x**4 / 4 - a * x).x,
    "bounded": lambda a: minimize_scalar(
        lambda x, a: x**4 / 4 - a * x, bounds=(1, 9), args=(a,), method="bounded"
    ).x,
    "brentq": lambda a: brentq(lambda x, a: x**3 - a, 0, 9, (a,)),
    "brenth": lambda a: brenth(lambda x: x**3 - a, 0, 9),
    "bisect": lambda a: bisect(lambda x: x**3 - a, 0, 9),
    "ridder": lambda a: ridder(lambda x: x**3 - a, 0, 9),
}  # fmt: skip

TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda f, a: f(a),
    "jacrev": lambda f, a: wb.jacrev(f)(a),
    "jacfwd": lambda f, a: wb.jacfwd(f)(a),
    "second": lambda f, a: wb.jacrev(wb.jacfwd(f))(a),
    "third": lambda f, a: wb.jacrev(wb.jacrev(wb.jacrev(f)))(a),
    "batch": lambda f, a: wb.vmap(f)(np.stack([a, 2 * a])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", [*VECTORS, *SCALARS])
def test_the_cube_root(name: str, transform: str) -> None:
    f, a = (VECTORS[name], A) if name in VECTORS else (SCALARS[name], np.float64(8.0))
    if name == "bracket of a" and transform == "batch":
        with pytest.raises(UsageError, match="has no value"):
            TRANSFORMS[transform](f, a)
        return
    made, truth = TRANSFORMS[transform](f, a), TRANSFORMS[transform](np.cbrt, a)
    np.testing.assert_allclose(made, truth, rtol=1e-6, atol=1e-8)


def test_the_value_of_a_minimum() -> None:
    """Of half x'Qx - b'x it is -b'Q⁻¹b / 2, so its gradient is -x and -Q⁻¹."""

    def lowest(b: Any) -> Any:
        return minimize(lambda x: x @ Q @ x / 2 - b @ x, np.zeros(2), tol=1e-12).fun

    np.testing.assert_allclose(lowest(A), -A @ np.linalg.solve(Q, A) / 2, rtol=1e-9)
    np.testing.assert_allclose(wb.grad(lowest)(A), -np.linalg.solve(Q, A), rtol=1e-7)
    np.testing.assert_allclose(wb.hessian(lowest)(A), -np.linalg.inv(Q), rtol=1e-7)


def test_a_fit_by_least_squares_follows_its_data_and_its_bounds() -> None:
    t = np.linspace(0, 1, 6)
    y = 2 * np.exp(-0.7 * t) + 0.1 * np.cos(9 * t)

    def fit(y: Any, **more: Any) -> Any:
        tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
        return least_squares(
            lambda p: p[0] * np.exp(p[1] * t) - y, [1.0, -1.5], **tight, **more
        ).x

    c, k = fit(y)
    basis = np.exp(k * t)
    J, rest = np.stack([basis, c * t * basis], axis=1), c * basis - y
    mixed, last = rest @ (t * basis), rest @ (c * t * t * basis)
    hessian = J.T @ J + np.array([[0, mixed], [mixed, last]])
    truth = np.linalg.solve(hessian, J.T)
    np.testing.assert_allclose(wb.jacobian(fit)(y), truth, rtol=1e-7)
    held = wb.jacobian(lambda top: fit(y, bounds=(-np.inf, top)))(np.array([9, -0.9]))
    np.testing.assert_allclose(held[1], [0, 1], atol=1e-7)
    basis = np.exp(-0.9 * t)  # p[0] is y·b / b·b, with b = exp(p[1] t)
    slope = (
        y @ (t * basis) / (basis @ basis)
        - 2 * (y @ basis) * (basis @ (t * basis)) / (basis @ basis) ** 2
    )
    np.testing.assert_allclose(held[0], [0, slope], rtol=1e-6, atol=1e-7)


def test_a_point_is_judged_by_its_distance_from_the_minimum() -> None:
    """And not by a gradient, which is as small as the unit of the cost."""
    t = np.linspace(0, 1, 6)
    y = 2 * np.exp(-0.7 * t)

    def fit(y: Any, unit: float, **more: Any) -> Any:
        misfit = lambda p: unit * (p[0] * np.exp(p[1] * t) - y)  # noqa: E731
        return least_squares(misfit, [1.0, 0.0], **more).x

    with pytest.raises(ConvergenceError, match="smaller ftol, xtol and gtol"):
        wb.jacobian(lambda y: fit(y, 1e-6))(y)  # SciPy's gtol lets it stay at its start
    for unit in (1e-6, 1.0, 1e6):
        made = wb.jacobian(lambda y, u=unit: fit(y, u, gtol=None))(y)
        basis = np.stack([np.exp(-0.7 * t), 2 * t * np.exp(-0.7 * t)], axis=1)
        np.testing.assert_allclose(made, np.linalg.pinv(basis), rtol=1e-5, atol=1e-5)

    def best(a: Any, unit: float) -> Any:
        bowl = lambda x: unit * np.sum((x - a) ** 4 + (x - a) ** 2)  # noqa: E731
        return minimize(bowl, np.ones(2), method="Newton-CG", tol=1e-12).x

    np.testing.assert_allclose(
        wb.jacobian(lambda a: best(a, 1e9))(A), np.eye(2), atol=1e-6
    )
    with pytest.raises(ConvergenceError, match="Newton's step from there has"):
        wb.jacobian(lambda a: best(a, 1e-9))(A)  # it stays where it starts


def test_a_minimum_in_one_number_at_its_bound() -> None:
    def f(b: Any) -> Any:
        found = minimize_scalar(lambda x: (x - 3) ** 2, bounds=(0, b), method="bounded")
        return found.fun

    np.testing.assert_allclose(f(2.0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(wb.grad(f)(2.0), -2.0)
    np.testing.assert_allclose(wb.grad(wb.grad(f))(2.0), 2.0)
    assert wb.grad(f)(5.0) == 0
    with pytest.raises(NotDifferentiableError, match=r"minimize_scalar.*bound of x"):
        wb.grad(f)(3.0)
    with pytest.raises(UsageError, match="There are linear, soft_l1"):
        wb.grad(lambda a: least_squares(lambda x: x - a, [1.0], loss="own").cost)(1.0)


def test_a_minimum_in_one_number_at_a_kink_has_no_slope_to_follow() -> None:
    """Of |x - a| + x²/10 it is a, where the slope jumps and does not vanish."""

    def cost(x: Any, a: Any) -> Any:
        return np.abs(x - a) + 0.1 * x**2

    limits: Any
    for limits in ({}, {"bounds": (0, 3)}, {"bounds": (0, 1e6)}, {"bracket": (0, 2)}):
        with pytest.raises(ConvergenceError, match=r"minimize_scalar .* kink"):
            wb.grad(lambda a, more=limits: minimize_scalar(cost, args=a, **more).x)(1.0)
    for unit in (1e-9, 1.0, 1e9):  # the units of x and of the cost do not count
        bowl = lambda x, a, u=unit: (x / u - a) ** 2 / 1e7 * u  # noqa: E731
        made = wb.grad(lambda a, f=bowl: minimize_scalar(f, args=a).x)(1.0)
        np.testing.assert_allclose(made, unit, rtol=1e-6)


def test_a_bracket_may_be_an_array() -> None:
    ends = np.array([0.0, 1.0])
    slope = wb.grad(
        lambda a: minimize_scalar(lambda x: np.exp(x) - a * x, bracket=ends).x
    )
    np.testing.assert_allclose(slope(2.0), 0.5, rtol=1e-7)


#: Nearest points of sets, which have closed forms, with a, or with it as a size.
NEAREST: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "box": (
        lambda a: nearest(a, bounds=[(0, 2.5), (None, 2.5)]),
        lambda a: np.minimum(a, 2.5),
    ),
    "box that moves": (
        lambda a: nearest(5 * A, bounds=optimize.Bounds(-np.inf, a)),
        lambda a: a * 1,
    ),
    "sphere": (
        lambda a: nearest(a, constraints={"type": "eq", "fun": lambda x: x @ x - 1}),
        lambda a: a / np.sqrt(a @ a),
    ),
    "ball, and a slack one": (
        lambda a: nearest(
            9 * A,
            constraints=[
                {"type": "ineq", "fun": lambda x, r: r @ r - x @ x, "args": (a,)},
                {"type": "ineq", "fun": lambda x: 99 - x},
            ],
        ),
        lambda a: A * np.sqrt((a @ a) / (A @ A)),
    ),
    "line in a box": (
        lambda a: nearest(
            a,
            constraints=optimize.LinearConstraint([[1.0, 2.0]], 3.0, 3.0),
            bounds=[(0, None), (0, 2)],
        ),
        lambda a: a - np.array([1.0, 2.0]) * (a[0] + 2 * a[1] - 3) / 5,
    ),
    "shell": (
        lambda a: nearest(
            a / 9,
            constraints=optimize.NonlinearConstraint(lambda x: x @ x, a[0], 9.0),
        ),
        lambda a: a / np.sqrt(a @ a) * np.sqrt(a[0]),
    ),
}


def nearest(a: Any, **settings: Any) -> Any:
    start = np.array([0.4, 0.5])
    return minimize(lambda x: np.sum((x - a) ** 2), start, tol=1e-14, **settings).x


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", NEAREST)
def test_minima_within_limits(name: str, transform: str) -> None:
    f, truth = NEAREST[name]
    a = np.array([1.3, 1.1]) if name == "line in a box" else A
    if name == "line in a box" and transform == "batch":
        return  # twice as far the box holds
    made, right = TRANSFORMS[transform](f, a), TRANSFORMS[transform](truth, a)
    np.testing.assert_allclose(made, right, rtol=1e-6, atol=1e-6)


def test_limits_that_hold_without_force_are_named() -> None:
    def at(b: float, **limits: Any) -> None:
        wb.grad(lambda b: minimize(lambda x: (x[0] - b) ** 2, [0.5], **limits).fun)(b)

    with pytest.raises(
        NotDifferentiableError, match=r"bound of x\[0\] holds"
    ) as caught:
        at(1.0, bounds=[(0, 1)])
    assert "test_optimize.py" in str(caught.value)
    with pytest.raises(NotDifferentiableError, match=r"constraint\[0\] holds"):
        at(1.0, constraints={"type": "ineq", "fun": lambda x: 1 - x})
    at(1.001, bounds=[(0, 1)])
    twice = [{"type": "eq", "fun": lambda x: x - 1}] * 2
    with pytest.raises((MatrixError, ConvergenceError), match="minimize"):
        at(2.0, constraints=twice)


def test_limits_hold_beside_the_size_of_x() -> None:
    tiny = lambda a: least_squares(  # noqa: E731
        lambda x: (x - a) * 1e9, [4e-7], bounds=(0, 1e-6), gtol=None
    ).x[0]
    np.testing.assert_allclose(wb.grad(tiny)(5e-7), 1.0, rtol=1e-6)
    with pytest.raises(NotDifferentiableError, match=r"bound of x\[0\] holds"):
        wb.grad(tiny)(1e-6)
    inside = np.array([5e-7, 0.5])  # nearer to its bound than 1e-6, and free
    np.testing.assert_allclose(
        wb.jacobian(lambda a: nearest(a, bounds=[(0, 1)] * 2))(inside),
        np.eye(2),
        atol=1e-6,
    )

    # An interior method ends at a distance from the limits that hold.
    def found(a: Any, **more: Any) -> Any:
        far = lambda x: np.sum((x - 5 * a) ** 2)  # noqa: E731
        return minimize(far, [0.4, 0.5], method="trust-constr", **more).x

    ball = {"constraints": optimize.NonlinearConstraint(lambda x: x @ x, -np.inf, 4.0)}
    length = np.sqrt(A @ A)
    truth = 2 * (np.eye(2) - np.outer(A, A) / length**2) / length
    made = wb.jacobian(lambda a: found(a, **ball))(A)
    np.testing.assert_allclose(made, truth, rtol=1e-4, atol=1e-5)
    boxed = wb.jacobian(lambda a: found(a, bounds=[(0, 3), (0, 99)], **ball))(A)
    np.testing.assert_allclose(boxed, truth, rtol=1e-4, atol=1e-5)


def own_limits(a: Any) -> dict[str, Any]:
    """Return limits in SciPy's objects that all keep x below a."""
    rows = np.eye(2)
    return {
        "bounds": {"bounds": optimize.Bounds(0, a)},
        "bounds of lists": {"bounds": optimize.Bounds([0, 0], [a[0], a[1]])},
        "linear": {"constraints": optimize.LinearConstraint(rows, -np.inf, a)},
        "linear of lists": {
            "constraints": optimize.LinearConstraint(rows, -np.inf, [a[0], a[1]])
        },
        "upper end": {
            "constraints": [optimize.NonlinearConstraint(lambda x: x * 1, -np.inf, a)]
        },
        "closure": {
            "constraints": [optimize.NonlinearConstraint(lambda x: x - a, -np.inf, 0.0)]
        },
    }


@pytest.mark.parametrize("name", own_limits(A))
def test_limits_of_scipys_objects_under_scipys_names(name: str) -> None:
    """Of (x - 9)² below a the minimum is a."""

    def best(a: Any) -> Any:
        far = lambda x: np.sum((x - 9) ** 2)  # noqa: E731
        limits = own_limits(a)[name]
        return optimize.minimize(far, [0.4, 0.5], tol=1e-12, **limits).x

    np.testing.assert_allclose(wb.jacobian(best)(A), np.eye(2), atol=1e-6)
    assert isinstance(optimize.Bounds(0, 1), optimize.Bounds)
    assert not wb.value_and_grad(
        lambda a: (a * a, isinstance(a, optimize.Bounds)), has_aux=True
    )(1.0)[0][1]


def test_least_squares_takes_settings_by_place_and_a_margin_of_a_tensor() -> None:
    def near(a: Any) -> Any:
        free = (-np.inf, np.inf)
        misfit = lambda x: x - a  # noqa: E731
        return optimize.least_squares(misfit, [0.1, 0.2], "2-point", free, "trf").x

    def held(a: Any) -> Any:
        below = optimize.Bounds(-np.inf, a)
        return optimize.least_squares(lambda x: x - 5, [0.1, 0.2], bounds=below).x

    for f in (near, held):
        np.testing.assert_allclose(wb.jacobian(f)(A), np.eye(2), atol=1e-9)

    def spare(s: Any) -> Any:
        """Huber's mean of 0, 0 and 9 is s / 2, where 2x = s."""
        return optimize.least_squares(
            lambda x: x - np.array([0.0, 0.0, 9.0]), [0.1], loss="huber", f_scale=s,
            ftol=1e-15, xtol=1e-15, gtol=1e-15,
        ).x[0]  # fmt: skip

    np.testing.assert_allclose(spare(2.0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(wb.grad(spare)(2.0), 0.5, rtol=1e-6)


def test_outside_derivatives_it_is_scipys() -> None:
    f = lambda x: x**3 - A  # noqa: E731
    assert type(root(f, np.ones(2))) is type(optimize.root(f, np.ones(2)))
    np.testing.assert_array_equal(root(f, np.ones(2)).x, optimize.root(f, np.ones(2)).x)
    one = lambda x: x**3 - 8  # noqa: E731
    assert brentq(one, 0, 9) == optimize.brentq(one, 0, 9)
    assert root_scalar(one, bracket=(0, 9)) == optimize.root_scalar(one, bracket=(0, 9))
    bowl = lambda x: np.sum((x - A) ** 2)  # noqa: E731
    made = minimize(bowl, np.zeros(2), bounds=[(0, 1), (0, 1)])
    np.testing.assert_allclose(made.x, [1, 1])


def test_the_report_comes_along() -> None:
    kept: list[Any] = []

    def f(a: Any) -> Any:
        kept.append(root(lambda x: x**3 - a, np.ones(2)))
        kept.append(minimize(lambda x: np.sum(x**4 / 4 - a * x), np.ones(2)))
        kept.append(root_scalar(lambda x: x**3 - a[0], bracket=(0, 9)))
        return sum(np.sum(k.x) for k in kept[:2]) + kept[2].root

    wb.grad(f)(A)
    assert kept[0].success
    assert kept[0].nfev > 3
    assert kept[1].nit > 1
    assert kept[2].converged
    assert kept[2].iterations > 3


def test_what_did_not_arrive_and_what_is_refused() -> None:
    def traced(call: Callable[[Any], Any]) -> None:
        wb.grad(lambda a: np.sum(call(a)))(1.0)

    with pytest.raises(ConvergenceError, match="derivative would be that of no root"):
        traced(lambda a: root(lambda x: x**2 + a, np.ones(1)).x)
    with pytest.raises(ConvergenceError, match=r"minimize \(at"):
        traced(
            lambda a: (
                minimize(
                    lambda x: np.sum((x - a) ** 4),
                    9 * np.ones(1),
                    options={"maxiter": 1},
                ).x
            )
        )
    with pytest.raises(ConvergenceError, match="fixed_point"):
        traced(lambda a: fixed_point(lambda x: 2 * x + a, 1.0, method="iteration"))
    with pytest.raises(ConvergenceError, match="bisect"):
        traced(lambda a: bisect(lambda x: x - a / 3, 0, 9, maxiter=3))
    with pytest.raises(MatrixError, match=r"minimize: .* singular"):
        traced(lambda a: minimize(lambda x: a * (x[0] - x[1]) ** 2, np.ones(2)).x)
    with pytest.raises(UsageError, match=r"minimize\(..., callback=...\)"):
        traced(lambda a: minimize(lambda x: a * x @ x, A, callback=print).x)
    with pytest.raises(UsageError, match=r"root\(..., jac=...\)"):
        traced(lambda a: root(lambda x: x - a, np.ones(1), jac=lambda x: 1).x)
    with pytest.raises(UsageError, match="give a bracket or x0"):
        traced(lambda a: root_scalar(lambda x: x - a).root)


@pytest.mark.parametrize(
    "find",
    [
        lambda f, a, b: brentq(f, a, b),
        lambda f, a, b: brenth(f, a, b),
        lambda f, a, b: bisect(f, a, b),
        lambda f, a, b: ridder(f, a, b),
        lambda f, a, b: root_scalar(f, bracket=(a, b)).root,
        lambda f, a, b: root_scalar(f, bracket=(a, b), method="toms748").root,
    ],
)
def test_an_interval_without_a_change_of_sign(find: Any) -> None:
    def run(x: Any) -> Any:
        return find(lambda y: y * y + x, 0.0, 1.0)

    for transform in (wb.grad, wb.jacfwd, lambda f: wb.grad(wb.grad(f))):
        with pytest.raises(UsageError, match="different signs") as caught:
            transform(run)(0.25)
        text = str(caught.value)
        assert "f(0) = 0.25, f(1) = 1.25" in text
        assert "test_optimize.py" in text
        assert "hape" not in text
    with pytest.raises(ConvergenceError, match=r"value at x=-1.0 is NaN"):
        wb.grad(
            lambda x: find(lambda y: y - x + np.where(y < 0, np.nan, 0), -1.0, 1.0)
        )(0.25)


def test_what_a_function_or_a_solver_raises_is_its_own() -> None:
    class Own(ValueError):
        pass

    def fail(*x: Any) -> Any:
        raise Own("my reason")

    solve = {
        "custom_root": lambda a: wb.custom_root(lambda x: x - a, A, fail),
        "linear": lambda a: wb.custom_linear_solve(lambda x: a * x, A, fail),
        "function": lambda a: (
            root_scalar(lambda x: x - a if x < 0.6 else fail(), bracket=(0.5, 0.9)).root
        ),
    }
    for f in solve.values():
        with pytest.raises(Own, match="my reason"):
            wb.grad(lambda a, f=f: np.sum(f(a)))(0.7)
    with pytest.raises(UsageError, match=r"root \(at .*Unknown solver foo"):
        wb.grad(lambda a: root(lambda x: x - a, np.ones(1), method="foo").x[0])(1.0)
