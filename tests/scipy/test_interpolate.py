"""`workbench.scipy.interpolate`: SciPy's values and objects, refusals."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as truth

import workbench as wb
from tests.gpu.stand_in import to_device, to_host, use_stand_in
from workbench.errors import UsageError
from workbench.scipy import interpolate

CONDITIONS: list[Any] = ["not-a-knot", "natural", "clamped", "periodic"]
OUTSIDE: list[Any] = [None, True, False, "periodic"]


def close(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def ascend(rng: np.random.Generator, count: int) -> Any:
    return np.cumsum(rng.uniform(0.3, 1, count))


def points_of(rng: np.random.Generator, x: Any) -> Any:
    """Knots, places between and outside."""
    return np.concatenate([x, rng.uniform(x[0] - 1, x[-1] + 1, 12), [np.nan]])


@pytest.mark.parametrize("count", [2, 3, 4, 7])
@pytest.mark.parametrize("rest", [(), (3,), (2, 2)])
def test_cubic_splines(
    count: int, rest: tuple[int, ...], rng: np.random.Generator
) -> None:
    x, y = ascend(rng, count), rng.normal(size=(count, *rest))
    q = points_of(rng, x)
    given = ((1, 1.5 * np.ones(rest)), (2, -0.3 * np.ones(rest)))
    mixed = (("not-a-knot", given[0]), (given[1], "not-a-knot"))
    for conditions in (*CONDITIONS, given, *mixed):
        values = y.copy()
        if conditions == "periodic":
            values[-1] = values[0]
        ours, theirs = (
            home.CubicSpline(x, values, bc_type=conditions)
            for home in (interpolate, truth)
        )
        for nu, outside in product(range(5), OUTSIDE):
            close(ours(q, nu, outside), theirs(q, nu, outside))
        close(ours.derivative()(q), theirs.derivative()(q))
        close(ours.antiderivative(2)(q, 0, True), theirs.antiderivative(2)(q, 0, True))
        for outside in OUTSIDE:
            ends = x[0] - 0.3, x[-1] + 5
            close(ours.integrate(*ends, outside), theirs.integrate(*ends, outside))


@pytest.mark.parametrize("count", [2, 3, 6])
def test_curves_that_keep_shapes(count: int, rng: np.random.Generator) -> None:
    x, y = ascend(rng, count), rng.normal(size=(2, count))
    y[1] = np.round(y[1])  # some secants are level
    q = points_of(rng, x)
    for kind, settings in (
        ("PchipInterpolator", {}),
        ("Akima1DInterpolator", {}),
        ("Akima1DInterpolator", {"method": "makima", "extrapolate": True}),
    ):
        ours, theirs = (
            getattr(home, kind)(x, y, axis=1, **settings)
            for home in (interpolate, truth)
        )
        for nu in range(4):
            close(ours(q, nu), theirs(q, nu))
    close(interpolate.pchip_interpolate(x, y[0], q[:-1], 1),
          truth.pchip_interpolate(x, y[0], q[:-1], 1))  # fmt: skip


@pytest.mark.parametrize("kind", ["linear", "nearest", "nearest-up", "previous", "next",
                                  "zero", "quadratic", "cubic", 5])  # fmt: skip
def test_tables_of_one_variable(kind: Any, rng: np.random.Generator) -> None:
    x, y = ascend(rng, 7), rng.normal(size=(2, 7, 3))
    q = points_of(rng, x)[:-1]
    for places, settings in (
        (x, {"fill_value": "extrapolate"}),
        (x[::-1], {"fill_value": (1.0, 2.0), "bounds_error": False}),
        (x, {"bounds_error": False}),
    ):
        ours, theirs = (
            home.interp1d(places, y, kind, axis=1, **settings)
            for home in (interpolate, truth)
        )
        close(ours(q), theirs(q), 1e-9)


@pytest.mark.parametrize("k", range(6))
def test_splines_of_each_degree(k: int, rng: np.random.Generator) -> None:
    x, y = ascend(rng, 9), rng.normal(size=(9, 2))
    q = points_of(rng, x)[:-1]
    ours, theirs = (home.make_interp_spline(x, y, k) for home in (interpolate, truth))
    close(ours.t, theirs.t)
    close(ours.c, theirs.c, 1e-9)
    for nu, outside in product(range(k + 2), OUTSIDE[1:]):
        close(ours(q, nu, outside), theirs(q, nu, outside), 1e-8)
    if not k:
        return  # SciPy loses the last step in the integral
    close(ours.derivative()(q), theirs.derivative()(q), 1e-8)
    close(ours.antiderivative(2)(q), theirs.antiderivative(2)(q), 1e-8)
    for outside in OUTSIDE[1:]:
        ends = x[0] - 0.3, x[-1] + 5
        close(ours.integrate(*ends, outside), theirs.integrate(*ends, outside), 1e-8)


def test_conditions_of_splines(rng: np.random.Generator) -> None:
    x, y = ascend(rng, 9), rng.normal(size=9)
    q = points_of(rng, x)[:-1]
    for k, conditions in (
        (3, "natural"), (3, "clamped"), (3, ([(1, 0.5)], [(2, 0.1)])),
        (5, ([(1, 0.5), (2, 0.3)], [(1, 0.1), (3, 1.0)])), (2, ([(1, 0.2)], None)),
        (2, (None, [(1, 1.0)])),
    ):  # fmt: skip
        ours, theirs = (
            home.make_interp_spline(x, y, k, bc_type=conditions)
            for home in (interpolate, truth)
        )
        close(ours(q), theirs(q), 1e-8)
    y[-1] = y[0]
    for k in (1, 3, 5):
        ours, theirs = (
            home.make_interp_spline(x, y, k, bc_type="periodic")
            for home in (interpolate, truth)
        )
        close(ours(q), theirs(q), 1e-8)
    for lam, w in product((0.0, 0.1, 3.0), (None, rng.uniform(0.5, 2, 9))):
        ours, theirs = (
            home.make_smoothing_spline(x, y, w, lam) for home in (interpolate, truth)
        )
        close(ours(q), theirs(q), 1e-8)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_names_of_fitpack(k: int, rng: np.random.Generator) -> None:
    x, y = ascend(rng, 9), rng.normal(size=9)
    q = points_of(rng, x)[:-1]
    ours, theirs = interpolate.splrep(x, y, k=k), truth.splrep(x, y, k=k, s=0)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other, 1e-9)
    for der, ext in product(range(k + 1), (0, 1, 3)):
        close(interpolate.splev(q, ours, der, ext), truth.splev(q, theirs, der, ext),
              1e-8)  # fmt: skip
    ends = x[0] - 1, x[-1] + 0.1
    close(interpolate.splint(*ends, ours), truth.splint(*ends, theirs), 1e-9)
    for name in ("splder", "splantider"):
        made = getattr(interpolate, name)(ours)
        close(interpolate.splev(q, made), truth.splev(q, getattr(truth, name)(theirs)),
              1e-8)  # fmt: skip


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_grids(method: str, rank: int, rng: np.random.Generator) -> None:
    from scipy.sparse.linalg import spsolve

    # SciPy's own solver of splines is iterative, to six digits.
    exact = {} if method in ("linear", "nearest") else {"solver": spsolve}
    grid = [ascend(rng, n) for n in (6, 7, 8)][:rank]
    for rest in ((), (2,)):
        values = rng.normal(size=(*map(len, grid), *rest))
        q = np.stack([rng.uniform(x[0], x[-1], (4, 3)) for x in grid], -1)
        q[0, 0], q[0, 1] = [x[0] for x in grid], [x[-1] for x in grid]
        for settings, at in (
            ({}, q),
            ({"bounds_error": False, "fill_value": None}, q + 0.3),
            ({"bounds_error": False, "fill_value": 7.0}, q + 0.3),
        ):
            ours = interpolate.RegularGridInterpolator(grid, values, method, **settings)
            theirs = truth.RegularGridInterpolator(
                grid, values, method, **settings, **exact
            )
            close(ours(at), theirs(at), 1e-7)


def test_scattered_points(rng: np.random.Generator) -> None:
    p, d, q = rng.normal(size=(12, 2)), rng.normal(size=12), rng.normal(size=(5, 2))
    for kernel, degree in product(interpolate.scattered.KERNELS, (None, -1, 2)):
        ours, theirs = (
            home.RBFInterpolator(
                p, d, kernel=kernel, epsilon=1.3, degree=degree, smoothing=0.1
            )
            for home in (interpolate, truth)
        )
        close(ours(q), theirs(q), 1e-6)
    for method, rescale in product(("linear", "nearest"), (False, True)):
        for at in (q, (q[:, 0], q[:, 1])):
            ours, theirs = (
                home.griddata(p, d, at, method, rescale=rescale)
                for home in (interpolate, truth)
            )
            close(ours, theirs)
    close(
        interpolate.griddata(p[:, 0], d, q[:, 0]), truth.griddata(p[:, 0], d, q[:, 0])
    )


CURVE = truth.CubicSpline(np.arange(6.0), np.arange(6.0) ** 3)
LINE = truth.interp1d(np.arange(6.0), np.arange(6.0) ** 2)
SPLINE = truth.make_interp_spline(np.arange(6.0), np.arange(6.0) ** 3)
TABLE = truth.RegularGridInterpolator((np.arange(6.0),), np.arange(6.0) ** 2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda q: CURVE(q), 3 * 2.5**2),
        (lambda q: CURVE(q, 1), 6 * 2.5),
        (lambda q: CURVE.derivative()(q), 6 * 2.5),
        (lambda q: CURVE.integrate(0, q), 2.5**3),
        (lambda q: LINE(q), 5.0),
        (lambda q: SPLINE(q), 3 * 2.5**2),
        (lambda q: TABLE([q])[0], 5.0),
        (lambda q: truth.CubicSpline(np.arange(6.0), np.arange(6.0) ** 3)(q), 18.75),
        (
            lambda q: truth.splev(q, truth.splrep(np.arange(6.0), np.arange(6.0) ** 3)),
            18.75,
        ),
    ],
)
def test_curves_that_scipy_made(function: Callable[..., Any], expected: float) -> None:
    """They were made of numbers, before the trace or in it, and get a traced query."""
    close(wb.grad(function)(2.5), expected)
    assert type(CURVE) is truth.CubicSpline
    close(CURVE(2.5), 2.5**3)


def test_a_curve_as_it_is_now() -> None:
    """What somebody writes to the object holds at the next call."""
    curve = truth.CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)
    value = wb.value_and_grad(lambda q: curve(q))
    close(value(1.5), (2.25, 3.0))
    curve.c = 10 * curve.c
    close(value(1.5), (22.5, 30.0))
    curve.extrapolate = False
    assert np.isnan(value(9.0)[0])


class OwnSpline(truth.CubicSpline):
    """A class of a user's that SciPy's is the base of."""


def test_objects_stay_scipys_own_in_traced_code() -> None:
    kept = {}

    def f(q: Any) -> Any:
        curve = truth.CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)
        assert isinstance(curve, truth.CubicSpline)
        assert isinstance(curve, truth.PPoly)
        curve.c *= 2
        kept["curve"] = curve
        return curve(q) + copy.deepcopy(CURVE)(q) + OWN(q)

    OWN = OwnSpline(np.arange(4.0), np.arange(4.0) ** 2)
    close(wb.grad(f)(1.5), 2 * 3.0 + 3 * 1.5**2 + 3.0)
    close(wb.grad(OWN)(1.5), 3.0)
    assert type(kept["curve"]) is truth.CubicSpline
    assert truth.PPoly.__call__.__module__ == "scipy.interpolate._interpolate"
    assert not hasattr(truth.PPoly.__call__, "__wrapped__")


def test_a_curve_in_a_closure() -> None:
    def make() -> Callable[..., Any]:
        curve = truth.CubicSpline(np.arange(6.0), np.arange(6.0) ** 3)
        return lambda q: curve(q)

    f = make()
    close(wb.grad(f)(2.5), 18.75)
    assert type(f.__closure__[0].cell_contents) is truth.CubicSpline


def test_a_table_is_sparse_in_its_query(rng: np.random.Generator) -> None:
    q = rng.uniform(0, 5, 8)
    pattern = wb.sparsity(lambda q: interpolate.CubicSpline(range(6), range(6))(q), q)
    assert pattern.nnz == 8


def test_the_hessian_of_a_fit(rng: np.random.Generator) -> None:
    """The sum of squares of a curve that is linear in its values: twice B.T B."""
    x, q = np.arange(6.0), rng.uniform(0, 5, 9)
    basis = truth.CubicSpline(x, np.eye(6))(q)
    found = wb.hessian(lambda y: np.sum(interpolate.CubicSpline(x, y)(q) ** 2))(x)
    close(found, 2 * basis.T @ basis)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda y: interpolate.CubicSpline([0, 1, 1], y), ValueError, "strictly"),
        (lambda y: interpolate.CubicSpline([0, 1], y), ValueError, "doesn't match"),
        (lambda y: interpolate.CubicSpline([0, 1, 2], y, bc_type="flat"), ValueError,
         "no condition of an end"),
        (lambda y: interpolate.CubicSpline([0, 1, np.inf], y), ValueError, "finite"),
        (lambda y: interpolate.CubicSpline(1.0, y), ValueError, "1-dimensional"),
        (lambda y: interpolate.interp1d([0, 1, 2], y)(9.0), ValueError, "above the"),
        (lambda y: interpolate.interp1d([0, 1, 2], y, "wavy"), NotImplementedError,
         "the kinds are"),
        (lambda y: interpolate.BSpline([0, 1], y, 1), ValueError, "at least 4 knots"),
        (lambda y: interpolate.BSpline([0, 2, 1, 3, 4], y, 1), ValueError,
         "non-decreasing"),
        (lambda y: interpolate.splrep([0, 1, 2], y, s=1.0), UsageError,
         "make_smoothing_spline"),
        (lambda y: interpolate.make_smoothing_spline(range(5), np.resize(y, 5)),
         UsageError, "Give lam"),
        (lambda y: interpolate.RegularGridInterpolator(([0, 1, 2],), y)([[5.0]]),
         ValueError, "out of bounds in dimension 0"),
        (lambda y: interpolate.RBFInterpolator(np.eye(3), y, kernel="flat"), ValueError,
         "the kernels are"),
        (lambda y: interpolate.griddata(np.eye(3), y, np.eye(3), "cubic"), UsageError,
         "RBFInterpolator"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        wb.grad(lambda y: np.sum(call(y)))(np.ones(3))
    assert "test_interpolate.py" in str(raised.value)


@pytest.mark.parametrize("name", interpolate.__all__)
def test_arguments_are_those_of_scipy(name: str) -> None:
    own = inspect.signature(getattr(interpolate, name)).parameters
    theirs = inspect.signature(getattr(truth, name)).parameters
    assert [(p.name, p.kind) for p in own.values()] == [
        (p.name, p.kind) for p in theirs.values()
    ]


@pytest.mark.parametrize(
    "make",
    [
        interpolate.PchipInterpolator,
        interpolate.Akima1DInterpolator,
        interpolate.interp1d,
        pytest.param(interpolate.CubicSpline, id="CubicSpline"),
        pytest.param(interpolate.make_interp_spline, id="make_interp_spline"),
        lambda x, y: interpolate.RegularGridInterpolator((x,), y),
        lambda x, y: lambda q: interpolate.RBFInterpolator(x[:, None], y)(q[:, None]),
        lambda x, y: lambda q: interpolate.griddata(x, y, q),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is computed on the CPU")
def test_tables_on_a_device(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all arrays there; a table that stays behind is an error that says so."""
    use_stand_in(monkeypatch)
    x, q = np.linspace(0, 3, 7), np.linspace(0.1, 2.9, 5)
    y = np.sin(x)

    def total(q: Any, x: Any) -> Any:
        return lambda y: np.sum(make(x, y)(q))

    wanted = wb.grad(total(q, x))(y)
    here = to_device(q), to_device(x)
    np.testing.assert_allclose(to_host(wb.grad(total(*here))(to_device(y))), wanted)
    with pytest.raises(UsageError, match="nothing moves in silence"):
        wb.grad(lambda q: np.sum(interpolate.CubicSpline(x, y)(q)))(here[0])
