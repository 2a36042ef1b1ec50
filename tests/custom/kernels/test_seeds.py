"""The seed's two ops as kernels: `zero_out` (E4) and the gradient of `cdist` (A4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

import workbench as wb
from tests.custom.kernels.sources import (
    SQUARES,
    Cdist,
    CDistGrad,
    ZeroOut,
    needs_c,
    needs_cpp,
)
from workbench.errors import DtypeError, NotDifferentiableError


@wb.register_gradient("kernel_zero_out")
def zero_out_grad(node: Any, g: Any, _: Any) -> Any:
    """The seed's rule: the first gradient at the first place, 0 elsewhere."""
    (to_zero,) = node.inputs
    return np.where(np.arange(to_zero.size) == 0, g[0], np.zeros_like(to_zero))


# E4: the seed's op of two outputs


@needs_cpp
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_E4_zero_out_has_two_outputs_of_each_dtype(dtype: str) -> None:
    zeroed, index = ZeroOut()(np.array([5, 4, 3, 2], dtype))
    assert zeroed.dtype == dtype
    assert index.dtype == np.int32
    assert index.shape == ()
    np.testing.assert_array_equal(zeroed, [5, 0, 0, 0])
    assert index == 3
    assert ZeroOut()(np.zeros(0, dtype))[0].shape == (0,)


@needs_cpp
def test_E4_only_the_values_of_zero_out_send_a_gradient() -> None:
    def loss(x: Any) -> Any:
        zeroed, index = ZeroOut()(x)
        return np.sum(zeroed * np.array([2.0, 30.0, 40.0])) + index

    x = np.array([7.0, 8.0, 9.0])
    assert loss(x) == 17
    np.testing.assert_array_equal(wb.grad(loss)(x), [2, 0, 0])
    _, t = wb.jvp(loss, (x,), (np.array([0.5, 1.0, 1.0]),))
    assert t == 1.0
    np.testing.assert_array_equal(
        wb.jacobian(lambda x: ZeroOut()(x)[0])(x), np.diag([1.0, 0, 0])
    )
    wb.check_grads(lambda x: ZeroOut()(x)[0] ** 2, (x,))


@needs_cpp
def test_E4_zero_out_of_integers_computes_and_has_no_derivative() -> None:
    with pytest.raises(DtypeError, match="int32"):
        wb.grad(lambda x: np.sum(ZeroOut()(x)[0]))(np.array([1, 2], np.int32))


@needs_cpp
def test_a_gradient_of_float32_stays_float32() -> None:
    g = wb.grad(lambda x: np.sum(ZeroOut()(x)[0]))(np.ones(3, np.float32))
    assert g.dtype == np.float32


# A4: the gradient of an op, as a kernel


def pairs(rng: np.random.Generator) -> tuple[Any, Any]:
    """Points, of which one coincides."""
    x, w = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    w[2] = x[1]
    return x, w


@needs_c
def test_A4_the_gradient_of_cdist_is_a_kernel(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    weights = rng.normal(size=(5, 4))
    gx, gw = wb.grad(lambda x, w: np.sum(weights * Cdist()(x, w)), (0, 1))(x, w)
    for i in range(5):
        want = sum(
            weights[i, j] * (x[i] - w[j]) / np.linalg.norm(x[i] - w[j])
            for j in range(4)
        )
        np.testing.assert_allclose(gx[i], want, rtol=1e-12)
    for j in range(4):
        want = sum(
            weights[i, j] * (w[j] - x[i]) / np.linalg.norm(x[i] - w[j])
            for i in range(5)
        )
        np.testing.assert_allclose(gw[j], want, rtol=1e-12)


@needs_c
def test_A4_and_it_is_0_where_two_points_coincide(rng: np.random.Generator) -> None:
    """A5, too: a subgradient, and no NaN."""
    x, w = pairs(rng)
    g = wb.grad(lambda x: np.sum(Cdist()(x, w) * (np.arange(4) == 2)))(x)
    assert np.all(g[1] == 0)
    assert np.all(np.isfinite(wb.grad(lambda w: np.sum(Cdist()(x, w)))(w)))


@needs_c
def test_A4_in_both_modes_and_under_hessian(rng: np.random.Generator) -> None:
    """The derivatives of the kernel are those of its fallback, as it declares."""
    x, w = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    wb.check_grads(lambda x, w: Cdist()(x, w), (x, w), order=2)
    # The Hessian of a distance r is (1 - u u') / r.
    h = wb.hessian(lambda x: np.sum(Cdist()(x, w)))(x)
    for i in range(3):
        want = 0
        for j in range(2):
            r = np.linalg.norm(x[i] - w[j])
            u = (x[i] - w[j]) / r
            want = want + (np.eye(2) - np.outer(u, u)) / r
        np.testing.assert_allclose(h[i, :, i], want, rtol=1e-10)


class PlainGrad(wb.KernelOp):
    inputs = "x: float64[n], g: float64[n]"
    outputs = "dx: float64[n]"
    c = r"""
    void plain_grad(const double *x, const double *g, double *dx, int64_t n) {
        for (int64_t i = 0; i < n; i++) dx[i] = 2 * x[i] * g[i];
    }
    """


class SquaresByKernels(wb.KernelOp):
    inputs = "x: float64[n]"
    outputs = "y: float64[n]"
    c = SQUARES.format(name="squares_by_kernels")

    def vjp(self, node: Any, g: Any) -> Any:
        (x,) = node.inputs
        return PlainGrad()(x, g)


@needs_c
def test_A4_a_kernel_without_derivative_says_so_under_hessian() -> None:
    def f(x: Any) -> Any:
        return np.sum(SquaresByKernels()(x))

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(wb.grad(f)(x), [2, 4])
    with pytest.raises(
        NotDifferentiableError, match="plain_grad has no derivative"
    ) as e:
        wb.hessian(f)(x)
    assert "Write vjp(self, node, *cotangents) in PlainGrad" in str(e.value)
    with pytest.raises(NotDifferentiableError, match="plain_grad"):
        wb.jvp(f, (x,), (x,))


@needs_c
def test_A4_the_kernel_is_clearly_faster_than_the_expression(
    rng: np.random.Generator, measured: Callable[[str], None]
) -> None:
    x, w = rng.normal(size=(1000, 3)), rng.normal(size=(1000, 3))
    g = rng.normal(size=(1000, 1000))
    y, op = distance.cdist(x, w), CDistGrad()

    def best(f: Callable[..., Any]) -> float:
        took = []
        for _ in range(7):
            start = time.perf_counter()
            f(x, w, y, g)
            took.append(time.perf_counter() - start)
        return min(took)

    for kernel, numpy in zip(op(x, w, y, g), op.fallback(x, w, y, g), strict=True):
        np.testing.assert_allclose(kernel, numpy, rtol=1e-9, atol=1e-9)
    ratio = best(op.fallback) / best(op)
    measured(f"cdist's gradient, 1000x1000x3: the kernel is {ratio:.1f} times NumPy")
    assert ratio > 2


@needs_c
def test_A4_cdist_of_symbols_of_any_length(rng: np.random.Generator) -> None:
    x, w = wb.matrix("x"), wb.matrix("w")
    f = wb.function([x, w], wb.grad(np.sum(Cdist()(x, w) ** 2), x))
    at = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    # The squared distance has the gradient 2 (x - w).
    want = 2 * np.sum(at[0][:, None] - at[1], axis=1)
    np.testing.assert_allclose(f(*at), want, rtol=1e-12)
