"""Values and derivatives of problems: against formulas and complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import workbench as wb
from workbench.errors import DtypeError, GradientLostError, ShapeError, UsageError


def dense(matrix: Any) -> Any:
    return matrix.toarray() if scipy.sparse.issparse(matrix) else matrix


def objective(x: Any) -> Any:
    return np.sum(x**4) + x[0] * x[1] * x[2]


def first(x: Any) -> Any:
    return x[1:] * x[:-1]


def second(x: Any) -> Any:
    return np.sin(x[0]) * x[3]


def complex_step(f: Any, x: Any) -> Any:
    """The Jacobian of an analytic function, from steps into the complex plane."""
    steps = 1e-30j * np.eye(len(x))
    return np.stack([np.imag(f(x + step)) / 1e-30 for step in steps], -1)


def slope(x: Any) -> Any:
    made = 4 * x**3
    made[:3] = made[:3] + np.prod(x[:3]) / x[:3]
    return made


def weighed_slope(x: Any, multipliers: Any) -> Any:
    """The gradient of the constraints with multipliers, by hand."""
    made = np.zeros_like(x)
    made[:-1] = made[:-1] + multipliers[:3] * x[1:]
    made[1:] = made[1:] + multipliers[:3] * x[:-1]
    made[0] = made[0] + multipliers[3] * np.cos(x[0]) * x[3]
    made[3] = made[3] + multipliers[3] * np.sin(x[0])
    return made


@pytest.fixture(params=["auto", True, False])
def p(request: pytest.FixtureRequest) -> Any:
    return wb.optimize.problem(
        objective, np.arange(1.0, 5.0),
        constraints=[(first, None, [1.0, 2.0, 3.0]), (second, 0.0, 0.0)],
        sparse=request.param,
    )  # fmt: skip


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.uniform(0.5, 2.0, 4)


def test_values_and_derivatives(p: Any, x: Any, rng: np.random.Generator) -> None:
    multipliers = rng.normal(size=4)
    assert (p.n, p.m) == (4, 4)
    assert isinstance(p.value(x), float)
    assert p.value(x) == pytest.approx(objective(x))
    np.testing.assert_allclose(p.gradient(x), complex_step(objective, x))
    c = lambda x: np.append(first(x), second(x))  # noqa: E731
    np.testing.assert_allclose(p.constraints(x), c(x))
    np.testing.assert_allclose(dense(p.jacobian(x)), complex_step(c, x), atol=1e-14)
    own = complex_step(slope, x)
    theirs = complex_step(lambda x: weighed_slope(x, multipliers), x)
    np.testing.assert_allclose(dense(p.hessian(x)), own, atol=1e-12)
    found = dense(p.constraints_hessian(x, multipliers))
    np.testing.assert_allclose(found, theirs, atol=1e-12)
    for scale in (1.0, 0.0, -2.5):
        whole = scale * own + theirs
        found = dense(p.lagrangian_hessian(x, multipliers, scale))
        np.testing.assert_allclose(found, whole, atol=1e-12)
        v = rng.normal(size=4)
        product = p.hessian_product(x, v, multipliers, scale)
        np.testing.assert_allclose(product, whole @ v, atol=1e-12)
    np.testing.assert_allclose(p.hessian_product(x, v), own @ v, atol=1e-12)


def test_each_is_computed_once_per_point(p: Any, x: Any) -> None:
    weights = np.ones(4)
    for _ in range(3):
        p.value(x), p.gradient(x), p.value_and_gradient(x), p.constraints(x)
        p.jacobian(x), p.hessian(x), p.constraints_hessian(x, weights)
        p.lagrangian_hessian(x, weights), p.hessian_product(x, x, weights)
    assert set(p.counts.values()) == {1}
    assert len(p.counts) == 7
    p.lagrangian_hessian(x, 2 * weights)
    p.lagrangian_hessian(x, 2 * weights, 0.5)
    assert p.counts["lagrangian_hessian"] == 3
    x[0] += 1.0  # as solvers do: in the memory of the last point
    assert p.value(x) == pytest.approx(objective(x))
    assert p.counts["value_and_gradient"] == 2


def test_what_is_returned_may_be_changed(p: Any, x: Any) -> None:
    multipliers = np.ones(4)
    for ask in (
        p.gradient, p.constraints, p.jacobian, p.hessian,
        lambda x: p.lagrangian_hessian(x, multipliers),
        lambda x: p.constraints_hessian(x, multipliers),
        lambda x: p.hessian_product(x, x),
    ):  # fmt: skip
        made = ask(x)
        expected = dense(made).copy()
        getattr(made, "data" if scipy.sparse.issparse(made) else "real")[:] = 7.0
        np.testing.assert_array_equal(dense(ask(x)), expected)


def test_the_structure_does_not_depend_on_the_point() -> None:
    """Entries that vanish at a point stay stored."""
    p = wb.optimize.problem(
        lambda x: np.sum(x[1:] ** 2 * x[:-1] ** 2), np.zeros(50),
        constraints=[(lambda x: x[1:] * x[:-1], 0.0, 1.0)], sparse=True,
    )  # fmt: skip
    zero, one = np.zeros(50), np.ones(50)
    for ask in (p.jacobian, p.hessian, lambda x: p.lagrangian_hessian(x, one[1:])):
        at_zero, at_one = ask(zero), ask(one)
        np.testing.assert_array_equal(at_zero.indices, at_one.indices)
        np.testing.assert_array_equal(at_zero.indptr, at_one.indptr)
        assert at_one.nnz < 200


def test_nests_are_flat_to_solvers() -> None:
    start = {"angle": np.zeros((2, 2)), "speed": 1}

    def energy(s: Any) -> Any:
        return np.sum((s["angle"] - [[1.0, 2.0], [3.0, 4.0]]) ** 2) + s["speed"] ** 2

    p = wb.optimize.problem(
        energy, start, bounds=({"angle": None, "speed": 0.5}, None),
        constraints=[(lambda s: {"a": s["angle"][0], "b": s["speed"]}, None, 1.5)],
    )  # fmt: skip
    assert (p.n, p.m) == (5, 3)
    np.testing.assert_array_equal(p.bounds[0], [-np.inf] * 4 + [0.5])
    for method in ("trust-constr", "SLSQP"):
        found = p.unpack(p.solve(method, tol=1e-10).x)
        np.testing.assert_allclose(found["angle"], [[1, 1.5], [3, 4]], atol=1e-3)
        assert found["speed"] == pytest.approx(0.5, abs=1e-3)


def test_a_function_that_looks_at_values() -> None:
    """What cannot be compiled runs as it is."""

    def f(x: Any) -> Any:
        return np.sum(x**2) if x[0] > 0 else np.sum(x**4)

    p = wb.optimize.problem(f, np.ones(2), sparse=False)
    np.testing.assert_allclose(p.gradient(np.array([3.0, 1.0])), [6.0, 2.0])
    np.testing.assert_allclose(p.gradient(np.array([-1.0, 1.0])), [-4.0, 4.0])


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"f": 3}, UsageError, "f is 3, not a function"),
        ({"x0": np.ones(2) + 1j}, DtypeError, r"x0 is complex.*x0=\{'re'"),
        ({"x0": np.array(["a"])}, DtypeError, "Pass real numbers"),
        ({"x0": []}, ShapeError, "x0 is empty"),
        ({"f": lambda x: np.sum(x) * 1j}, DtypeError, r"complex at x0.*np.abs\(z\)"),
        ({"bounds": [(0, 1), (0, 1)]}, UsageError, r"\(lower, upper\).*tuple\(np"),
        ({"bounds": (2.0, 1.0)}, UsageError, "entry 0 has the lower bound 2 above"),
        ({"bounds": (np.ones(3), None)}, ShapeError, r"shape \(3,\).*x0 \(2,\)"),
        ({"bounds": (np.nan, None)}, UsageError, "lower bound is NaN"),
        ({"constraints": [np.sum]}, UsageError, r"constraint 0 .*\(g, lower, upper\)"),
        (
            {"constraints": [(lambda x: x, 0, [1.0, 2.0, 3.0])]},
            ShapeError,
            "upper end of constraint 0 has 3 entries, and the constraint 2",
        ),
        (
            {"constraints": [(lambda x: x, 1.0, 0.0)]},
            UsageError,
            "constraint 0: entry 0 has the lower bound 1 above",
        ),
        (
            {"f": lambda x: x, "constraints": [(np.sum, 0, 0)]},
            UsageError,
            r"f, which returns shape \(2,\), takes no constraints",
        ),
        ({"sparse": "yes"}, UsageError, "'auto', True or False"),
    ],
)  # fmt: skip
def test_what_is_refused(
    settings: dict[str, Any], error: type[Exception], told: str
) -> None:
    given = {"f": np.sum, "x0": np.ones(2), **settings}
    with pytest.raises(error, match=f"(?s){told}"):
        wb.optimize.problem(given.pop("f"), given.pop("x0"), **given)


def test_a_start_that_is_not_finite_names_the_op() -> None:
    def length(x: Any) -> Any:
        return np.sum(np.log(x))

    with pytest.raises(UsageError) as caught:
        wb.optimize.problem(length, np.array([1.0, -1.0]))
    told = str(caught.value)
    assert "the objective is nan at x0" in told
    assert "log takes the logarithm of a negative number" in told
    assert "np.log(np.maximum(x, 1e-300))" in told
    with pytest.raises(UsageError, match=r"(?s)constraint 1 is inf in entry 1.*divide"):
        wb.optimize.problem(
            np.sum, np.array([1.0, 0.0]),
            constraints=[(np.sum, 0, 1), (lambda x: 1 / x, 0, 1)],
        )  # fmt: skip


def test_wrong_points_are_refused(p: Any) -> None:
    with pytest.raises(ShapeError, match=r"shape \(3,\), and the problem 4 variables"):
        p.value(np.ones(3))
    with pytest.raises(ShapeError, match=r"multipliers have shape \(1,\).*4 constr"):
        p.lagrangian_hessian(p.x0, np.ones(1))


def test_no_constraints() -> None:
    p = wb.optimize.problem(objective, np.ones(4))
    assert p.constraints(p.x0).shape == (0,)
    assert p.jacobian(p.x0).shape == (0, 4)
    lagrangian = dense(p.lagrangian_hessian(p.x0, [], 2.0))
    np.testing.assert_allclose(lagrangian, 2 * dense(p.hessian(p.x0)))


def test_float32_starts_are_computed_in_double() -> None:
    p = wb.optimize.problem(objective, np.ones(4, np.float32))
    assert p.x0.dtype == p.gradient(p.x0).dtype == float


@pytest.mark.parametrize("sparse", [np.True_, np.False_])
def test_sparse_may_be_a_bool_of_numpy(sparse: Any) -> None:
    p = wb.optimize.problem(lambda x: x[1:] * x[:-1], np.ones(4), sparse=sparse)
    assert scipy.sparse.issparse(p.jacobian(p.x0)) == bool(sparse)


@pytest.mark.parametrize(
    "sparse", [0, 1, 1.0, None, "yes", np.eye(2), np.array("auto")]
)
def test_sparse_is_nothing_else(sparse: Any) -> None:
    with pytest.raises(UsageError, match=r"(?s)sparse=.*Write 'auto', True or Fa"):
        wb.optimize.problem(np.sum, np.ones(2), sparse=sparse)


def test_a_scale_and_a_time_are_numbers() -> None:
    p = wb.optimize.problem(lambda x: np.sum(x**2), np.ones(4))
    for call in (p.lagrangian_hessian, p.hessian_product):
        with pytest.raises(ShapeError, match=r"the scale has shape \(1,\)"):
            call(p.x0, *([[]] if call == p.lagrangian_hessian else [p.x0]),
                 scale=np.array([2.0]))  # fmt: skip
    decay = wb.optimize.problem(lambda t, x: -x * t, np.ones(2), t0=0.0)
    with pytest.raises(ShapeError, match="the time has shape"):
        decay.jacobian(np.array([2.0]), np.ones(2))


def test_points_are_real() -> None:
    p = wb.optimize.problem(
        np.sum, np.ones(4), constraints=[(lambda x: x[:1] ** 2, None, 1.0)]
    )
    for call in (p.value, p.gradient, p.jacobian):
        for point in (np.ones(4) * 1j, [1j, 0, 0, 0]):
            with pytest.raises(DtypeError, match="the point is complex"):
                call(point)
    with pytest.raises(DtypeError, match="multipliers is complex"):
        p.lagrangian_hessian(p.x0, [1j])
    with pytest.raises(DtypeError, match="the point is complex"):
        p.hessian_product(p.x0, np.ones(4) * 1j)
    with pytest.raises(DtypeError, match="the scale is complex"):
        p.hessian_product(p.x0, p.x0, scale=np.complex128(1j))
    decay = wb.optimize.problem(lambda t, x: -x * t, np.ones(2), t0=0.0)
    with pytest.raises(DtypeError, match="the time is complex"):
        decay.value(1j, np.ones(2))


def test_flat_bounds_of_a_matrix() -> None:
    low, high = np.arange(4.0), np.arange(4.0) + 1
    for bounds in (
        scipy.optimize.Bounds(low, high),
        (low, high),
        (low.tolist(), high.tolist()),
        (low.reshape(2, 2), high),
    ):
        p = wb.optimize.problem(np.sum, np.zeros((2, 2)), bounds=bounds)
        np.testing.assert_array_equal(p.bounds, (low, high))
    with pytest.raises(ShapeError, match=r"shape \(3,\).*x0 \(2, 2\)"):
        wb.optimize.problem(np.sum, np.zeros((2, 2)), bounds=(np.zeros(3), None))


def test_none_in_bounds_is_no_bound() -> None:
    wanted = ([0.0, 1.0], [np.inf, 2.0])
    for x0 in (np.ones(2), [1.0, 1.0]):
        p = wb.optimize.problem(lambda x: x[0] + x[1], x0, bounds=([0, 1], [None, 2]))
        np.testing.assert_array_equal(p.bounds, wanted)
    p = wb.optimize.problem(
        np.sum, np.ones((2, 1)), bounds=(None, np.array([None, 2], object)),
        constraints=[(lambda x: x, [None, 0.5], (1.0, None))],
    )  # fmt: skip
    np.testing.assert_array_equal(p.bounds, ([-np.inf, -np.inf], [np.inf, 2.0]))
    np.testing.assert_array_equal(p.limits, ([-np.inf, 0.5], [1.0, np.inf]))


@pytest.mark.parametrize("sparse", [True, False])
def test_constraints_as_scipy_takes_them(sparse: bool) -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
    linear = scipy.sparse.csr_array(matrix) if sparse else matrix
    p = wb.optimize.problem(
        lambda x: np.sum(x**2),
        np.ones(3),
        constraints=[
            {"type": "eq", "fun": lambda x: x[:1] * x[1:2]},
            {"type": "ineq", "fun": np.sum},
            scipy.optimize.NonlinearConstraint(lambda x: x**3, -1.0, np.arange(3.0)),
            scipy.optimize.LinearConstraint(linear, 0.0, [5.0, np.inf]),
        ],
    )
    x = np.array([0.5, -2.0, 3.0])
    values = [x[0] * x[1], x.sum(), *x**3, *matrix @ x]
    np.testing.assert_allclose(p.constraints(x), values)
    slopes = [[x[1], x[0], 0], [1, 1, 1], *np.diag(3 * x**2), *matrix]
    np.testing.assert_allclose(dense(p.jacobian(x)), slopes)
    low, high = p.limits
    np.testing.assert_array_equal(low, [0, 0, -1, -1, -1, 0, 0])
    np.testing.assert_array_equal(high, [0, np.inf, 0, 1, 2, 5, np.inf])
    one = wb.optimize.problem(
        np.sum,
        np.ones(2),
        constraints={"type": "EQ", "fun": lambda x, k: k * x[:1], "args": (3.0,)},
    )
    np.testing.assert_array_equal(one.constraints(np.array([2.0, 1.0])), [6.0])


@pytest.mark.parametrize(
    "bad",
    [{"type": "less", "fun": np.sum}, {"type": "eq"}, {"fun": np.sum}, np.sum, "eq"],
)
def test_a_constraint_that_is_none(bad: Any) -> None:
    with pytest.raises(UsageError, match=r"constraint 0 is .*'eq' or 'ineq'"):
        wb.optimize.problem(np.sum, np.ones(2), constraints=[bad])


def test_structure_that_is_returned_may_be_changed() -> None:
    p = wb.optimize.problem(
        lambda x: np.sum(x**4),
        np.arange(1.0, 601.0),
        constraints=[(lambda x: x[1:] * x[:-1], 0, None)],
        sparse=True,
    )
    ones = np.ones(p.m)
    for ask in (p.jacobian, p.hessian, lambda x: p.lagrangian_hessian(x, ones)):
        first = ask(p.x0)
        kept = first.toarray()
        first.data[:] = 0
        first.indices[:] = 0
        first.indptr[:] = 0
        np.testing.assert_array_equal(ask(p.x0).toarray(), kept)


def test_a_time_is_a_number_to_the_program() -> None:
    seen = []

    def rate(t: Any, u: Any) -> Any:
        seen.append(t)
        return np.cos(t) * u

    p = wb.optimize.problem(rate, np.ones(3), t0=0.5)
    p.value(0.5, p.x0), p.jacobian(0.5, p.x0)
    count = len(seen)
    for t in (0.7, np.float64(1.0), np.array(2.0), 3):
        np.testing.assert_allclose(p.value(t, p.x0), np.cos(t) * np.ones(3))
        np.testing.assert_allclose(dense(p.jacobian(t, p.x0)), np.cos(t) * np.eye(3))
    assert len(seen) == count  # one program serves all of them


def test_a_traced_value_from_outside_is_refused() -> None:
    def best(a: Any) -> Any:
        p = wb.optimize.problem(lambda x: np.sum((x - a) ** 2), np.zeros(2))
        return scipy.optimize.minimize(**p.minimize()).x[0]

    with pytest.raises(GradientLostError, match=r"workbench\.scipy\.optimize") as error:
        wb.grad(best)(1.5)
    assert "test_problem.py" in str(error.value)
