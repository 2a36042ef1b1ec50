"""A sparse derivative is prepared once, and right for all arguments after that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import workbench as wb
from tests.gpu.stand_in import to_device, use_stand_in
from workbench.errors import DtypeError, GradientError, ShapeError, UsageError

ONES = np.ones(4)


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (lambda x, c: c * x, np.zeros(4), ONES),
        (lambda x, c: c * x, 0.0, 2.0),
        (lambda x, c: c * x[::-1], np.float64(0), np.float64(2)),
        (lambda x, m: m @ x, np.eye(4), np.ones((4, 4))),
        (lambda x, i: x[i] ** 2, np.array([0, 1]), np.array([2, 2])),
        (lambda x, n: x[n : n + 1], 0, 2),
        (lambda x, n: x[n : n + 1] ** 2, np.int64(0), np.int64(2)),
        (
            lambda x, m: np.where(m, x, x[::-1]),
            np.zeros(4, dtype=bool),
            np.ones(4, dtype=bool),
        ),
        (lambda x, t: np.where(t > 0.5, x, x[::-1]), 0.0, 1.0),
        (lambda x, a: a["w"] * x, {"w": np.zeros(4)}, {"w": ONES}),
        (
            lambda x, s: s @ x,
            scipy.sparse.csr_array(np.eye(4)),
            scipy.sparse.csr_array(np.eye(4, k=1)),
        ),
    ],
)
@pytest.mark.parametrize("sparse", [True, "auto"])
def test_other_arguments_may_change(
    f: Callable[..., Any], first: Any, second: Any, sparse: Any
) -> None:
    x = np.arange(1.0, 5.0)
    made = wb.jacobian(f, sparse=sparse)
    for other in (first, second, first):
        found = made(x, other)
        dense = found.toarray() if scipy.sparse.issparse(found) else found
        np.testing.assert_allclose(dense, wb.jacobian(f)(x, other))
    assert np.any(wb.jacobian(f)(x, second) != wb.jacobian(f)(x, first))


def test_weights_of_a_hessian_may_change() -> None:
    made = wb.hessian(lambda x, w: np.sum(w * x**3), sparse=True)
    assert not made(ONES, np.zeros(4)).toarray().any()
    np.testing.assert_allclose(made(ONES, ONES).toarray(), 6 * np.eye(4))


def test_the_time_of_a_system_is_any() -> None:
    def f(t: Any, x: Any) -> Any:
        return -50 * np.tanh(t) * (x - np.cos(t))

    problem = wb.optimize.problem(f, np.full(10, 3.0), t0=0.0)
    found = problem.jacobian(2.0, np.full(10, 3.0))
    dense = found.toarray() if scipy.sparse.issparse(found) else found
    np.testing.assert_allclose(dense, -50 * np.tanh(2.0) * np.eye(10))


def test_an_objective_that_decides_by_values_is_dense() -> None:
    def f(x: Any) -> Any:
        return x**2 if x[0] > 0 else x[::-1] ** 2

    made = wb.jacobian(f, sparse="auto")
    x = np.arange(1.0, 51)
    np.testing.assert_allclose(made(x), np.diag(2 * x))
    np.testing.assert_allclose(made(-x), np.diag(-2 * x)[::-1])
    assert "decides something by values" in made.explain()
    problem = wb.optimize.problem(f, np.ones(50))
    np.testing.assert_allclose(
        np.asarray(problem.jacobian(-np.ones(50))), np.diag(np.full(50, -2.0))[::-1]
    )


@pytest.mark.parametrize("first", [np.nan, np.inf, 0.0])
def test_a_check_waits_for_values_that_tell(first: float) -> None:
    made = wb.jacobian(lambda x: x[::-1] ** 2, sparse=np.eye(4))
    with np.errstate(all="ignore"):
        made(np.full(4, first))
    with pytest.raises(GradientError, match="the pattern that was given is too small"):
        made(ONES)


def test_a_jacobian_has_no_symmetric_colouring() -> None:
    def arrow(x: Any) -> Any:
        first = np.sum(x * np.arange(1, 7.0))
        return np.append(first, x[1:] ** 2 + 10 * x[0])

    with pytest.raises(UsageError, match="a Jacobian need not be one"):
        wb.jacobian(arrow, sparse=True, colouring="star")
    symmetric = wb.SparsityPattern.from_scipy(np.ones((6, 6)))
    with pytest.raises(UsageError, match="is for symmetric matrices"):
        wb.jacobian(arrow, sparse=symmetric, colouring=symmetric.colouring("star"))


def test_a_complex_hessian_has_its_columns_coloured() -> None:
    def f(z: Any) -> Any:
        return np.sum(np.abs(z[1:]) ** 2 * np.abs(z[:-1]) ** 2)

    z = np.array([1 + 2j, 3 - 1j, 0.5j, 2])
    made = wb.hessian(f, sparse=True)
    np.testing.assert_allclose(made(z).toarray(), wb.hessian(f)(z))
    assert made.colouring.mode == "columns"
    for mode in ("rows", "both", "star"):
        with pytest.raises(UsageError, match="is for a matrix that is symmetric"):
            wb.hessian(f, sparse=True, colouring=mode)(z)


@wb.custom_gradient
def half_square(v: Any) -> tuple[Any, Any]:
    return v**2 / 2, lambda g: g * np.roll(v, 1)


def test_a_hessian_need_not_be_symmetric_where_a_rule_is_an_ops_own() -> None:
    def f(x: Any) -> Any:
        return np.sum(half_square(x))

    x = np.arange(1.0, 6)
    want = np.roll(np.eye(5), 1, axis=0)
    np.testing.assert_array_equal(wb.hessian(f)(x), want)
    made = wb.hessian(f, sparse=True)
    np.testing.assert_array_equal(made(x).toarray(), want)
    assert made.colouring.mode in ("columns", "rows")
    with pytest.raises(UsageError, match="an op has a rule of its own"):
        wb.hessian(f, sparse=True, colouring="star")(x)


def test_an_override_that_moves_entries_is_found_out() -> None:
    rules = [wb.override("sin", lambda node, g: np.roll(g, 1))]
    want = wb.jacobian(np.sin, overrides=rules)(ONES)
    assert not np.diag(want).any()
    assert want.any()
    with pytest.raises(GradientError, match="The rule of an override moves entries"):
        wb.jacobian(np.sin, sparse=True, overrides=rules)(ONES)
    auto = wb.jacobian(np.sin, sparse="auto", overrides=rules)
    np.testing.assert_array_equal(auto(ONES), want)
    assert "overrides may move entries" in auto.explain()


class Shift:
    """An object whose steps may change, which moves entries."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def apply(self, x: Any) -> Any:
        return np.roll(x, self.steps) ** 2


@dataclasses.dataclass(frozen=True)
class FixedShift:
    steps: int


@pytest.mark.parametrize("sparse", [True, "auto"])
def test_an_object_that_changes_is_looked_at_in_each_call(sparse: Any) -> None:
    def check(made: Any, f: Callable[..., Any], *other: Any) -> None:
        found, dense = made(x, *other), wb.jacobian(f)(x, *other)
        found = found.toarray() if scipy.sparse.issparse(found) else found
        np.testing.assert_allclose(found, dense)

    x = np.arange(1.0, 21)
    for f, given in (
        (lambda x, s: s.apply(x), lambda s: s),
        (lambda x, p: p["s"][0].apply(x), lambda s: {"s": [s]}),
        (lambda x, move: move(x), lambda s: s.apply),
    ):
        made, shift = wb.jacobian(f, sparse=sparse), Shift(1)
        for steps in (1, 3, 0):
            shift.steps = steps
            check(made, f, given(shift))
        assert "may change" in made.explain()
    made = wb.jacobian(f := lambda x, names: x * len(names), sparse=sparse)
    names = {"a", "b"}
    check(made, f, names)
    names.add("c")
    check(made, f, names)


def test_objects_of_equal_values_are_prepared_once() -> None:
    calls = []

    def f(x: Any, shift: FixedShift, wave: Any, name: str) -> Any:
        calls.append(shift)
        return wave(np.roll(x, shift.steps))

    made = wb.jacobian(f, sparse=True)
    x = np.arange(1.0, 6)
    first = made(x, FixedShift(1), np.sin, "a")
    count = len(calls)
    again = made(x, FixedShift(1), np.sin, "a")
    assert len(calls) == count
    np.testing.assert_array_equal(first.toarray(), again.toarray())
    moved = made(x, FixedShift(2), np.sin, "a")
    np.testing.assert_array_equal(moved.indices, np.roll(np.arange(5), 2))


def test_arrays_of_a_gpu_give_matrices_of_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_stand_in(monkeypatch)
    host = np.arange(1.0, 9)
    x = to_device(host)
    f = lambda x: x[1:] ** 2 * x[:-1]  # noqa: E731
    dense = wb.jacobian(f)(host)
    for layout in ("csr", "csc", "coo"):
        made = wb.jacobian(f, sparse=True, format=layout, backend="numpy")
        np.testing.assert_allclose(made(host).toarray(), dense)
        found = made(x)
        assert "stand_in" in type(found).__module__
        np.testing.assert_allclose(found._matrix.toarray(), dense)
    total = lambda x: np.sum(x[1:] ** 3 * x[:-1])  # noqa: E731
    second = wb.hessian(total, sparse=True, backend="numpy")(x)
    np.testing.assert_allclose(second._matrix.toarray(), wb.hessian(total)(host))
    with pytest.raises(GradientError, match="is too small"):
        wb.jacobian(lambda x: x**2 + x[::-1], sparse=np.eye(8), backend="numpy")(x)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("n", [10, 20_000])
def test_a_matrix_is_its_holders_to_change(format: str, n: int) -> None:
    J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True, format=format)
    x = np.arange(1.0, n + 1)
    want = J(x)
    for _ in range(4):
        made = J(x)
        assert abs(made - want).max() == 0
        index = made.coords if format == "coo" else (made.indices, made.indptr)
        for part in index:
            assert part.flags.writeable
            part[...] = part[::-1].copy()
        made.data[...] = 7
        del made, index, part


def test_entries_are_assembled(rng: np.random.Generator) -> None:
    J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True, format="csc")
    with pytest.raises(UsageError, match="is not prepared yet"):
        J.assemble(np.ones(3))
    x = rng.normal(size=5)
    found = J.assemble(J.entries(x))
    assert abs(found - J(x)).max() == 0
    with pytest.raises(ShapeError, match=r"what entries\(\) has returned"):
        J.assemble(np.ones(3))


def test_forms_of_several_arguments_are_told_apart() -> None:
    J = wb.jacobian(lambda x, c: c * x**2, sparse=True)
    x = np.arange(1.0, 4)
    for _ in range(2):
        for y, c in (
            (x, 2.0), (x, np.float64(3)), (x, np.float32(3)), (x, 3), (x, 4), (x, True),
            (x, x), (x[:2], x[:2]), (x.astype("f4"), 2.0), (x, np.array(2.0)),
            (x + 1j, 2.0), (x, np.arange(3)), (x, np.arange(3)[::-1].copy()),
        ):  # fmt: skip
            found = J(y, c)
            want = wb.jacobian(lambda x, c: c * x**2)(y, c)
            np.testing.assert_allclose(found.toarray(), want)
            assert found.dtype == want.dtype


@pytest.mark.parametrize(
    "change",
    [
        lambda part: setattr(part, "strides", (0,)),
        lambda part: setattr(part, "dtype", np.uint32),
        lambda part: setattr(part, "shape", (2, -1)),
        lambda part: setattr(part.flags, "writeable", False),
    ],
    ids=["strides", "dtype", "shape", "writeable"],
)
@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
def test_index_arrays_of_another_form_are_not_used_again(change: Any) -> None:
    J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    x = np.ones(20_001)
    want = J(x).indices.copy()
    for _ in range(4):
        made = J(x)
        change(made.indices)
        del made
        found = J(x).indices
        assert (found.dtype, found.strides) == (want.dtype, want.strides)
        assert found.flags.writeable
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("sparse", [np.eye(5), np.ones((5, 5))])
@pytest.mark.parametrize("dtype", ["f4", "c8", "f8"])
def test_a_full_pattern_of_mixed_precisions_is_no_error(sparse: Any, dtype: str):
    """The probe's vector is rounded to the argument's precision before a product."""
    factors = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    J = wb.jacobian(lambda x: x * factors, sparse=sparse)
    found = J(np.arange(1, 6).astype(dtype)).toarray()
    np.testing.assert_allclose(found, np.diag(factors), rtol=1e-6)


def test_half_precision_has_no_sparse_matrix() -> None:
    x = np.arange(5, dtype="f2")
    with pytest.raises(DtypeError, match="SciPy has no sparse matrices of float16"):
        wb.jacobian(lambda x: x**2, sparse=True)(x)
    found = wb.jacobian(lambda x: x**2, sparse="auto")(x)
    np.testing.assert_array_equal(found, np.diag(2 * x))
