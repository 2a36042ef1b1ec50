"""`verify_grad` and `numeric_grad`: row C6 of the mission."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compat.theano.gradient import GradientError as theano_error
from workbench.errors import (
    DtypeError,
    GradientError,
    NonScalarOutputError,
    UsageError,
)
from workbench.gradient import numeric_grad, verify_grad, zero_grad

SEED = np.array([[2, 3, 4], [-1, 3.3, 9.9]])


def wrong(x: Any) -> Any:
    """x**2, half of whose gradient is missing."""
    return x * zero_grad(x)


def test_C6_verify_grad_as_in_the_seed() -> None:
    verify_grad(np.tanh, (SEED,), rng=np.random)
    verify_grad(np.tanh, (SEED,))
    verify_grad(np.tanh, [SEED], n_tests=4, rng=np.random.RandomState(3), eps=1e-6)
    verify_grad(np.tanh, [SEED], rng=np.random.default_rng(3), mode="FAST_RUN")


def test_C6_verify_grad_finds_what_is_wrong() -> None:
    point = [np.array([0.5, 1.0]), np.array([[0.0, 1.0], [30.0, 2.0]])]
    rng = np.random.default_rng(0)
    with pytest.raises(GradientError) as told:
        verify_grad(lambda a, b: np.sum(a) + wrong(b), point, rng=rng)
    error = told.value
    text = str(error)
    # Position 2 is the worst absolutely; half is missing everywhere but at 0.
    assert error.arg == 1
    assert error.err_pos in (1, 2, 3)
    assert f"argument 1 is wrong at position {error.err_pos}" in text
    assert "absolute error" in text
    assert "relative error" in text
    assert error.rel_err == pytest.approx(1 / 3, rel=1e-6)
    assert error.abs_err is not None
    assert error.abs_err > 0.4
    assert (error.abs_tol, error.rel_tol) == (1e-6, 1e-6)
    assert "1e-06" in text
    with pytest.raises(GradientError, match="drawn with seed"):
        verify_grad(wrong, [SEED])


def test_both_tolerances_must_be_exceeded() -> None:
    def off(x: Any) -> Any:
        return x * 1000 + zero_grad(x)  # 1000 for 1001: 1 absolutely, 5e-4 relatively

    point = [np.array([1.0])]
    with pytest.raises(GradientError):
        verify_grad(off, point)
    verify_grad(off, point, rel_tol=1e-3)
    verify_grad(off, point, abs_tol=10.0)
    verify_grad(wrong, [np.array([1e-9])])  # absolutely nothing


def test_single_precision_and_several_arguments(rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3,)))
    verify_grad(lambda a, b: np.tanh(a @ b), [a, b], rng=rng)
    verify_grad(lambda a, b: np.tanh(a @ b), [a, b], rng=rng, cast_to_output_type=True)
    verify_grad(lambda a, b: np.tanh(a @ b), [a, b], rng=rng, eps=1e-2)
    with pytest.raises(GradientError) as told:
        verify_grad(wrong, [b], rng=rng, n_tests=1)
    assert told.value.rel_tol == 2e-3


def test_several_and_complex_outputs(rng: np.random.Generator) -> None:
    x = rng.standard_normal(3)
    verify_grad(lambda x: [np.sin(x), np.sum(x**2)], [x], rng=rng)
    verify_grad(lambda x: np.exp(1j * x), [x], rng=rng, out_type="complex128")
    with pytest.raises(GradientError):
        verify_grad(lambda x: np.exp(1j * zero_grad(x)) * x, [x], rng=rng)


def test_a_gradient_that_is_not_finite() -> None:
    nan = wb.override("sqrt", "d * 0 / 0 * 0")
    point = [np.array([4.0, 9.0])]
    with (
        np.errstate(all="ignore"),
        wb.overrides(nan),
        pytest.raises(GradientError, match=r"position 0 .*nan"),
    ):
        verify_grad(np.sqrt, point)


@pytest.mark.parametrize(
    ("f", "point"),
    [
        (np.cos, [1e6, -3.7e7]),
        (np.sqrt, [1e-12, 1e-3]),
        (np.log, [1e-9, 1e-3]),
        (np.abs, [1e-9, -1e-7]),
        (lambda x: np.maximum(x, 0.0) ** 1.5, [-1e-8, 1e-6]),
    ],
    ids=["cos", "sqrt", "log", "abs", "maximum"],
)
def test_what_bends_within_the_usual_steps(f: Any, point: list[float]) -> None:
    verify_grad(f, [np.array(point)])
    with (
        wb.overrides(wb.override(lambda node: node.op.elementwise, "1.001 * d")),
        pytest.raises(GradientError),
    ):
        verify_grad(f, [np.array(point)])


def test_differences_that_tell_nothing() -> None:
    with pytest.raises(UsageError, match=r"differences give .* tell nothing"):
        verify_grad(lambda x: x * np.where(x > 2, np.nan, 1.0), [np.array([2.0])])
    with pytest.raises(UsageError, match="pt is empty"):
        verify_grad(np.sin, [])


def test_expressions_of_symbols_inside() -> None:
    scale = wb.shared(np.array(3.0), "scale")
    verify_grad(lambda x: np.sin(x) * scale.get_value(), [SEED])


def test_what_a_function_may_be(rng: np.random.Generator) -> None:
    """One with branches, of a shared value, of no entries, a loop."""
    x = rng.standard_normal(3)
    verify_grad(lambda x: x**2 if x.sum() > 0 else -x, [x])
    held = wb.shared(x, "held")
    verify_grad(lambda x: np.sum(np.sin(x) * held), [x])
    verify_grad(lambda x: x * 2, [np.zeros((0,))])
    verify_grad(
        lambda x: wb.scan(
            lambda v, s: np.tanh(s + v), sequences=x, initial=np.float64(0)
        )[0],
        [x],
    )
    with pytest.raises(GradientError):
        verify_grad(lambda x: np.sum(zero_grad(x) * x * held), [x])


def test_a_compiled_function() -> None:
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-3)):
        v = wb.vector("v", dtype=dtype)
        f = wb.function([v], np.sum(np.sin(v)))
        point = np.array([0.0, 0.5, -2.0], dtype)
        found = numeric_grad(f, point)
        np.testing.assert_allclose(found.gf, np.cos(point), rtol=tolerance)


def test_verify_grad_refuses() -> None:
    with pytest.raises(DtypeError, match=r"pt\[0\] is of dtype int64"):
        verify_grad(np.tanh, [np.arange(3)])
    with pytest.raises(UsageError, match="list or tuple"):
        verify_grad(np.tanh, SEED)  # type: ignore[arg-type]


# numeric_grad


def test_C6_abs_rel_err() -> None:
    assert numeric_grad.abs_rel_err(3.0, 1.0) == (2.0, 0.5)
    # The denominator is at least 1e-8, to the bit.
    tiny = numeric_grad.abs_rel_err(2e-9, 0.0)
    assert tiny == (2e-9, 2e-9 / 1e-8)
    assert numeric_grad.abs_rel_err(0.0, 0.0) == (0.0, 0.0)
    assert numeric_grad.abs_rel_err(1e-8, 0.0)[1] == 1.0
    a, b = np.array([1.0, -2.0]), np.array([1.5, 2.0])
    abs_err, rel_err = numeric_grad.abs_rel_err(a, b)
    assert abs_err.tolist() == [0.5, 4.0]
    assert rel_err.tolist() == [0.5 / 2.5, 1.0]


def test_C6_numeric_grad() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) * y)

    x, y = np.array([[0.1, 0.2]]), np.array([3.0, 4.0])
    found = numeric_grad(f, [x, y])
    np.testing.assert_allclose(found.gf[0], np.cos(x) * y, rtol=1e-10)
    np.testing.assert_allclose(found.gf[1], np.sin(x)[0], rtol=1e-10)
    alone = numeric_grad(lambda x: f(x, y), x)
    assert isinstance(alone.gf, np.ndarray)
    stepped = numeric_grad(f, (x, y), eps=1e-3)
    # Central differences: sin(h)/h times the derivative.
    np.testing.assert_allclose(
        stepped.gf[0], np.cos(x) * y * np.sin(1e-3) / 1e-3, rtol=1e-10
    )
    single = numeric_grad(lambda x: np.sum(x**2), np.array([3.0], np.float32))
    np.testing.assert_allclose(single.gf, [6.0], rtol=1e-6)


def test_C6_abs_rel_errors() -> None:
    found = numeric_grad(lambda x, y: np.sum(x) * y, [np.ones(2), np.array(5.0)])
    errors = found.abs_rel_errors([np.array([5.0, 6.0]), np.array(2.0)])
    np.testing.assert_allclose(errors[0][0], [0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(errors[0][1], [0.0, 1 / 11], atol=1e-9)
    with pytest.raises(ValueError, match="1 arrays are given, and there are 2"):
        found.abs_rel_errors([np.ones(2)])
    with pytest.raises(ValueError, match=r"array 0 has shape \(3,\)"):
        found.abs_rel_errors([np.ones(3), np.array(2.0)])


def test_C6_max_err_is_the_worst_of_the_lesser() -> None:
    found = numeric_grad(lambda x, y: np.sum(x) * 100 + y, [np.ones(2), np.array(0.0)])
    # Entry 0 of x: 10 off, 5 %. Entry 1: 50 off, 20 %. y: 0.5 off, 20 %.
    claimed = [np.array([110.0, 150.0]), np.array(1.5)]
    arg, position, abs_err, rel_err = found.max_err(claimed, 1.0, 0.01)
    assert (arg, position) == (0, 1)
    assert abs_err == pytest.approx(50.0)
    assert rel_err == pytest.approx(50 / 250)
    # With a wide absolute tolerance x is within it (50/200), and y too (0.5/200).
    assert found.max_err(claimed, 200.0, 0.01)[:2] == (0, 1)
    # A narrow one: only the relative error counts, of which both have 20 %.
    arg, position, _, rel_err = found.max_err(
        [claimed[0] * 0 + 100, claimed[1]], 1e-9, 1
    )
    assert (arg, position) == (1, 0)
    assert rel_err == pytest.approx(0.2)
    with pytest.raises(UsageError, match="infinite or NaN"):
        found.max_err([np.array([np.nan, 1.0]), np.array(1.0)], 1, 1)


def test_numeric_grad_refuses() -> None:
    with pytest.raises(NonScalarOutputError, match="one number"):
        numeric_grad(np.sin, np.ones(2))
    with pytest.raises(DtypeError, match="int64"):
        numeric_grad(np.sum, np.arange(2))
    with pytest.raises(UsageError, match="eps=0"):
        numeric_grad(np.sum, np.ones(2), eps=0)


def test_C6_its_error_takes_the_six_numbers() -> None:
    six = (1, 2, 0.5, 0.25, 1e-4, 1e-3)
    error = theano_error(*six)
    names = ["arg", "err_pos", "abs_err", "rel_err", "abs_tol", "rel_tol"]
    for made in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(made, GradientError)
        assert tuple(getattr(made, name) for name in names) == six
        assert "argument 1 is wrong at position 2: the absolute error 0.5" in str(made)
    with pytest.raises(theano_error):
        verify_grad(wrong, [np.ones(2)])


def test_a_function_that_takes_a_gradient_of_either_kind() -> None:
    """It gets the same at the differences as where it is differentiated."""
    point = np.array([1.0, 2.0])
    verify_grad(lambda x: wb.gradient.grad(np.sum(x**3), x), [point])
    verify_grad(wb.grad(lambda x: np.sum(x**3)), [point])
    verify_grad(lambda x: wb.gradient.jacobian(np.sin(x) * x[0], x), [point])
    with pytest.raises(GradientError, match="argument 0 is wrong"):
        verify_grad(
            lambda x: wb.gradient.zero_grad(wb.gradient.grad(x @ x, x)), [point]
        )
