"""Programs that are odd but honest: the right gradient, or an error that says why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    DtypeError,
    GradientLostError,
    MatrixError,
    NonScalarOutputError,
    ShapeError,
    TraceError,
    UsageError,
)

X = np.array([3.0, 1.0, 3.0, 2.0])


def test_unique_keeps_the_gradient() -> None:
    g = wb.grad(lambda x: np.sum(np.unique(x) * np.array([1.0, 10.0, 100.0])))(X)
    assert g.tolist() == [100.0, 1.0, 0.0, 10.0]
    counts: list[Any] = []

    def counted(x: Any) -> Any:
        values, index, inverse, number = np.unique(x, True, True, True)
        counts.extend([index.tolist(), inverse.tolist(), number.tolist()])
        return np.sum(values**2)

    assert wb.grad(counted)(X).tolist() == [6.0, 2.0, 0.0, 4.0]
    assert counts == [[1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]


def test_unique_rows_keep_the_gradient() -> None:
    rows = np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0]])
    g = wb.grad(lambda x: np.sum(np.unique(x, axis=0)[1] ** 2))(rows)
    assert g.tolist() == [[4.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_average_takes_lists() -> None:
    g = wb.grad(lambda x: np.average(x, weights=[1, 2, 3, 4]))(X)
    np.testing.assert_allclose(g, [0.1, 0.2, 0.3, 0.4], rtol=1e-12)
    g = wb.grad(lambda w: np.average([1.0, 2.0], weights=w))(np.array([1.0, 3.0]))
    # d/dw_i sum(a w) / sum(w) = (a_i - average) / sum(w), with average 1.75
    np.testing.assert_allclose(g, [-0.75 / 4, 0.25 / 4], rtol=1e-12)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (1, 3)])
def test_an_axis_of_length_one_is_sorted_in_a_map(shape: tuple[int, ...]) -> None:
    x = np.stack([np.arange(1.0, 1 + np.prod(shape)).reshape(shape)] * 2)
    for f in (lambda x: np.sum(np.sort(x) ** 3), lambda x: np.sum(np.median(x) ** 2)):
        mapped = wb.vmap(wb.grad(f))(x)
        np.testing.assert_allclose(mapped, [wb.grad(f)(row) for row in x])


def test_an_order_of_memory_needs_values() -> None:
    weights = np.arange(4.0)
    for order in ("A", "K"):
        f = lambda x, order=order: np.sum(np.ravel(x, order=order) * weights)  # noqa: E731
        with pytest.raises(TraceError, match="order='C' or order='F'") as error:
            wb.trace(f)(wb.Spec((2, 2), float))
        assert "test_odd_programs.py" in str(error.value)
        g = wb.grad(f)(np.asfortranarray(np.eye(2)))
        assert g.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    g = wb.grad(lambda x: np.sum(np.ravel(x, order="F") * weights))(np.eye(2))
    assert g.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    g = wb.grad(lambda x: np.sum(x.flatten("A") * weights))(X)
    assert g.tolist() == weights.tolist()


def test_no_gradient_is_lost_in_another_thread() -> None:
    def elsewhere(compute: Callable[[], Any]) -> Any:
        made: list[Any] = []

        def work() -> None:
            try:
                made.append(compute())
            except GradientLostError as error:
                made.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return made[0]

    g = wb.grad(lambda x: elsewhere(lambda: np.sum(x**2)))(X)
    assert g.tolist() == (2 * X).tolist()
    lost: list[Any] = []

    def f(x: Any) -> Any:
        lost.append(elsewhere(lambda: float(np.sum(x))))
        return np.sum(x)

    wb.grad(f)(X)
    assert isinstance(lost[0], GradientLostError)


def test_a_matrix_that_cannot_be_factored() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as error:
        wb.grad(lambda x: np.sum(np.linalg.inv(x)))(np.ones((2, 2)))
    assert isinstance(error.value, MatrixError)
    assert "inv(float64[2, 2]) (at test_odd_programs.py" in str(error.value)
    assert "np.eye(n)" in str(error.value)
    with pytest.raises(MatrixError, match="not positive definite"):
        wb.grad(lambda x: np.sum(np.linalg.cholesky(x)))(-np.eye(2))
    with pytest.raises(ShapeError, match="square"):
        wb.grad(lambda x: np.sum(np.linalg.inv(x)))(np.ones((2, 3)))


def test_a_forgotten_return() -> None:
    with pytest.raises(NonScalarOutputError, match=r"returned None.*`return`"):
        wb.grad(lambda x: None)(X)
    with pytest.raises(NonScalarOutputError, match="returned 'loss'"):
        wb.grad(lambda x: "loss")(X)


def test_a_forgotten_pair() -> None:
    # Two numbers in one array are not the value and its aux.
    with pytest.raises(UsageError, match="must return a pair"):
        wb.value_and_grad(lambda x: x[:2], has_aux=True)(X)


def test_an_argument_named_twice() -> None:
    with pytest.raises(UsageError, match=r"argnums=\(0, -1\) names an argument twice"):
        wb.grad(lambda x: x * x, (0, -1))(3.0)


def test_a_tangent_of_another_shape_is_called_a_tangent() -> None:
    for call in (wb.jvp, wb.hvp):
        with pytest.raises(ShapeError, match=r"the tangent has shape \(2,\)") as error:
            call(lambda x: np.sum(x**2), (X,), (np.ones(2),))
        # The input belongs to this call, not to Python's own `with`.
        assert "the input 'x' float64[4] (at test_odd_programs.py" in str(error.value)


def test_an_input_stands_at_the_call() -> None:
    (x,) = wb.trace(np.sin)(X).inputs
    assert x.site is not None
    assert x.site.text == "(x,) = wb.trace(np.sin)(X).inputs"


def test_a_spec_takes_pythons_types() -> None:
    spec = wb.Spec((2,), float)  # type: ignore[arg-type]
    assert spec == wb.Spec((2,), np.dtype(float))
    graph = wb.trace(lambda x: x * 2)(spec)
    assert graph.outputs[0].dtype == np.float64


def test_an_entry_of_flat_is_no_place_for_a_tensor() -> None:
    z = np.zeros((2, 2))

    def f(x: Any) -> Any:
        z.flat[1] = x[0]
        return np.sum(z)

    with pytest.raises(GradientLostError, match=r"z\.flat\[1\] = x\[0\].*np\.stack"):
        wb.grad(f)(X)


def test_a_buffer_changed_through_an_older_view_is_an_error() -> None:
    buffer = np.zeros(3)
    view = buffer[:]

    def f(x: Any) -> Any:
        total = 0.0
        for i in range(3):
            view[:] = i
            total = total + np.sum(x * buffer)
        return total

    with pytest.raises(TraceError, match=r"changed in place through another view"):
        wb.grad(f)(np.ones(3))
    buffer[0] = 5.0  # writeable again


def test_a_complex_cotangent_of_a_real_output_is_an_error() -> None:
    _, pullback = wb.vjp(np.sin, np.ones(2))
    with pytest.raises(DtypeError, match=r"complex128.*real numbers for a real array"):
        pullback(1j * np.ones(2))
    with pytest.raises(DtypeError, match="cotangent is of dtype"):
        pullback("g")


@pytest.mark.parametrize("f", [lambda x: np.sum(x) > 1, np.argmax])
def test_a_session_of_an_output_that_is_no_float_is_an_error(f: Any) -> None:
    with pytest.raises(DtypeError, match=r"has no derivative\. Name a float value"):
        wb.Session(wb.trace(f)(np.ones(3)))
