"""The kernels of the seeds, and one that squares: several tests look at them."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

import workbench as wb
from workbench.custom.kernels import toolchain
from workbench.errors import KernelError

__all__ = [
    "SQUARES",
    "CDistGrad",
    "Cdist",
    "KernelSquares",
    "ZeroOut",
    "needs_c",
    "needs_cpp",
    "needs_cuda",
]


def lacks(language: str) -> str:
    """Why a language cannot be compiled here; empty if it can."""
    try:
        toolchain.find_compiler(language)
    except KernelError as error:
        return str(error)
    return ""


needs_c = pytest.mark.skipif(bool(lacks("c")), reason=lacks("c") or "-")
needs_cpp = pytest.mark.skipif(bool(lacks("cpp")), reason=lacks("cpp") or "-")


def lacks_cuda() -> str:
    """Why CUDA cannot be compiled here; empty if it can."""
    try:
        from cupy_backends.cuda.libs import nvrtc

        nvrtc.getVersion()
    except Exception:
        return "" if shutil.which("nvcc") else "needs nvcc, or CuPy with NVRTC"
    return ""


needs_cuda = pytest.mark.skipif(bool(lacks_cuda()), reason=lacks_cuda() or "-")


class ZeroOut(wb.KernelOp):
    """All entries but the first become 0; the second output is the seed's index."""

    inputs = "to_zero: T[n]"
    outputs = "zeroed: T[n], index: int32[]"
    types = "T: int32 | int64 | float32 | float64"
    name = "kernel_zero_out"
    cpp = r"""
    template <typename Number>
    void all_but_first(const Number *from, Number *to, int64_t n) {
        for (int64_t i = 1; i < n; i++) to[i] = 0;
        if (n > 0) to[0] = from[0];  // preserve the first value if possible
    }

    void kernel_zero_out(const T *to_zero, T *zeroed, int32_t *index, int64_t n) {
        all_but_first(to_zero, zeroed, n);
        *index = 3;
    }
    """
    cuda = r"""
    __global__ void kernel_zero_out(
        const T *to_zero, T *zeroed, int32_t *index, int64_t n
    ) {
        int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
        if (i < n) zeroed[i] = i == 0 ? to_zero[0] : T(0);
        if (i == 0) *index = 3;
    }
    """

    def fallback(self, to_zero: Any) -> Any:
        first = np.where(np.arange(to_zero.size, like=to_zero) == 0, to_zero, 0)
        return first.astype(to_zero.dtype), np.asarray(3, np.int32, like=to_zero)


class CDistGrad(wb.KernelOp):
    """The cotangents of `cdist` from that of the distances; 0 where points coincide."""

    inputs = "x: T[n, d], w: T[m, d], y: T[n, m], g: T[n, m]"
    outputs = "dx: T[n, d], dw: T[m, d]"
    name = "kernel_cdist_grad"
    derivatives = "fallback"
    c = r"""
    void kernel_cdist_grad(const T *x, const T *w, const T *y, const T *g, T *dx, T *dw,
                           int64_t n, int64_t d, int64_t m) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++) {
                if (y[i * m + j] == 0) continue;
                T scale = g[i * m + j] / y[i * m + j];
                for (int64_t k = 0; k < d; k++) {
                    T part = scale * (x[i * d + k] - w[j * d + k]);
                    dx[i * d + k] += part;
                    dw[j * d + k] -= part;
                }
            }
    }
    """
    threads = "n + m"  # one for each row of either gradient: no two write the same
    cuda = r"""
    __global__ void kernel_cdist_grad(const T *x, const T *w, const T *y, const T *g,
                                      T *dx, T *dw, int64_t n, int64_t d, int64_t m) {
        int64_t row = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
        if (row >= n + m) return;
        bool first = row < n;
        int64_t others = first ? m : n;
        for (int64_t other = 0; other < others; other++) {
            int64_t i = first ? row : other, j = first ? other : row - n;
            if (y[i * m + j] == 0) continue;
            T scale = g[i * m + j] / y[i * m + j];
            for (int64_t k = 0; k < d; k++) {
                T part = scale * (x[i * d + k] - w[j * d + k]);
                if (first) dx[i * d + k] += part;
                else dw[j * d + k] -= part;
            }
        }
    }
    """

    def fallback(self, x: Any, w: Any, y: Any, g: Any) -> Any:
        apart = y != 0
        scale = np.where(apart, g / np.where(apart, y, 1), 0)
        parts = scale[:, :, None] * (x[:, None, :] - w[None, :, :])
        return np.sum(parts, axis=1), -np.sum(parts, axis=0)


class Cdist(wb.Op):
    """The distance of each pair of points, by SciPy; its gradient is a kernel."""

    name = "kernel_cdist"

    def compute(self, x: Any, w: Any) -> Any:
        return distance.cdist(x, w)

    def vjp(self, node: Any, g: Any) -> Any:
        x, w = node.inputs
        (y,) = node.outputs
        return CDistGrad()(x, w, y, g)


SQUARES = r"""
void {name}(const double *x, double *y, int64_t n) {{
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i];
}}
"""


class KernelSquares(wb.KernelOp):
    inputs = "x: float64[n]"
    outputs = "y: float64[n]"
    c = SQUARES.format(name="kernel_squares")

    def vjp(self, node: Any, g: Any) -> Any:
        (x,) = node.inputs
        return 2 * x * g
