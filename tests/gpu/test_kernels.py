"""CUDA kernels of a user's ops on an NVIDIA GPU, against the same on the CPU.

Skipped, with the reason, where there is no CuPy or no device.
"""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.sources import CDistGrad, ZeroOut
from tests.gpu.device import cupy, needed

pytestmark = needed()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_E4_zero_out_on_a_gpu(dtype: str, n: int) -> None:
    zeroed, index = ZeroOut()(cupy.arange(5, 5 + n, dtype=dtype))
    assert isinstance(zeroed, cupy.ndarray)
    assert (zeroed.dtype, index.dtype) == (dtype, np.int32)
    np.testing.assert_array_equal(zeroed.get(), [5, *[0] * (n - 1)][:n])
    assert index.get() == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_A4_the_gradient_of_cdist_on_a_gpu(
    dtype: str, rng: np.random.Generator
) -> None:
    x, w = rng.normal(size=(70, 3)).astype(dtype), rng.normal(size=(50, 3))
    w = w.astype(dtype)
    w[3] = x[5]
    y = np.sqrt(np.sum((x[:, None] - w) ** 2, axis=-1))
    g = rng.normal(size=y.shape).astype(dtype)
    op = CDistGrad()
    found = op(*map(cupy.asarray, (x, w, y, g)))
    loose = 1e3 * np.finfo(dtype).eps
    for a, b in zip(found, op.fallback(x, w, y, g), strict=True):
        np.testing.assert_allclose(a.get(), b, rtol=loose, atol=loose)


def test_a_gradient_on_a_gpu_by_kernels_in_both_passes() -> None:
    class GpuSquares(wb.KernelOp):
        inputs, outputs = "x: T[...]", "y: T[...]"
        cuda = r"""
        __global__ void gpu_squares(const T *x, T *y, int64_t size) {
            int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
            if (i < size) y[i] = x[i] * x[i];
        }
        """

        def vjp(self, node, g):  # type: ignore[no-untyped-def]
            (x,) = node.inputs
            return 2 * x * g

    x = cupy.arange(6.0).reshape(2, 3)
    g = wb.grad(lambda x: np.sum(GpuSquares()(x)))(x)
    np.testing.assert_array_equal(g.get(), 2 * x.get())
