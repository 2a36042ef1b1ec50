"""A user's ops with CuPy inside, on an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench as wb
from tests.custom.kernels.sources import CDistGrad, ZeroOut
from tests.gpu.device import cupy, needed
from tests.gpu.test_programs import check, find_program

pytestmark = needed()


class CupyDistance(wb.Op):
    """The seed's distance, computed by CuPy alone."""

    name = "cupy_distance_of_test"

    def compute(self, x: Any, w: Any) -> Any:
        return cupy.sqrt(cupy.sum((x[:, None, :] - w[None, :, :]) ** 2, axis=2))

    def infer(self, x: wb.Spec, w: wb.Spec) -> Any:
        return wb.Spec((x.shape[0], w.shape[0]), x.dtype)

    def vjp(self, node: Any, g: Any) -> Any:
        x, w = node.inputs
        (z,) = node.outputs
        diff = x[:, None, :] - w[None, :, :]
        diff = g[:, :, None] * diff / z[:, :, None]
        return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def test_E4_the_seeds_kernels_are_captured() -> None:
    rng = np.random.default_rng(0)
    args = rng.normal(size=(50, 3)), rng.normal(size=(40, 3))

    def f(x: Any, w: Any) -> Any:
        gap = x[:, None, :] - w[None, :, :]
        y = np.sqrt(np.sum(gap * gap, axis=2))
        dx, dw = CDistGrad()(x, w, y, np.cos(y))
        zeroed, index = ZeroOut()(np.sum(dx, 1))
        return dx, np.cumsum(dw, 0), np.tanh(np.cumsum(zeroed)), index * 2

    program = find_program(check(f, args, 1e-10))
    assert program.captured == 1, program.refusal
    assert program.list_uncaptured() == []


def test_A1_compute_by_cupy() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    distance = CupyDistance()
    f = lambda x, w: np.sum(distance(x, w) ** 3)  # noqa: E731
    plain = lambda x, w: np.sum(  # noqa: E731
        np.sum((x[:, None, :] - w[None, :, :]) ** 2, axis=2) ** 1.5
    )
    on_device = cupy.asarray(x), cupy.asarray(w)
    for found, want in (
        (wb.grad(f)(*on_device), wb.grad(plain)(x, w)),
        (wb.grad(f, 1)(*on_device), wb.grad(plain, 1)(x, w)),
        (wb.hessian(f)(*on_device), wb.hessian(plain)(x, w)),
    ):
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(found), want, rtol=1e-9, atol=1e-9)
