"""A setting is traced and the array is not: `workbench.numpy.asarray` makes it one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp

A = np.array([0.3, -1.2, 2.1, 0.7])
GAPS = np.array([0.3, np.nan, 2.0, np.nan])

SETTINGS = {
    "full": lambda a, t: np.full((2, 3), t),
    "full_like": lambda a, t: np.full_like(a, t),
    "pad": lambda a, t: np.pad(a, 2, constant_values=t),
    "ramp": lambda a, t: np.pad(a, 2, mode="linear_ramp", end_values=t),
    "sum": lambda a, t: np.sum(a, initial=t),
    "max": lambda a, t: np.max(a, initial=t + 3),
    "add.reduce": lambda a, t: np.add.reduce(a, initial=t),
    "diff": lambda a, t: np.diff(a, prepend=t),
    "ediff1d": lambda a, t: np.ediff1d(a, to_begin=t),
    "interp": lambda a, t: np.interp(a, [0.0, 1.0], [0.0, 2.0], left=t),
    "clip": lambda a, t: np.clip(a, t, None),
    "insert": lambda a, t: np.insert(a, 0, t),
    "gradient": lambda a, t: np.gradient(a, t),
    "trapezoid": lambda a, t: np.trapezoid(a, dx=t),
    "heaviside": lambda a, t: np.heaviside(a * 0, t),
    "select": lambda a, t: np.select([a > 0], [a], default=t),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_alone_is_traced(name: str) -> None:
    def f(t: Any) -> Any:
        return np.sum(np.cos(SETTINGS[name](wnp.asarray(A), t)))

    t, h = np.float64(0.61), 1e-6
    truth = (f(t + h) - f(t - h)) / (2 * h)
    np.testing.assert_allclose(wb.grad(f)(t), truth, rtol=1e-6, atol=1e-8)
    _, tangent = wb.jvp(f, (t,), (np.float64(1),))
    np.testing.assert_allclose(tangent, truth, rtol=1e-6, atol=1e-8)


def test_nan_to_num_by_a_traced_number() -> None:
    grad = wb.grad(lambda t: np.sum(np.nan_to_num(wnp.asarray(GAPS), nan=t) ** 2))
    np.testing.assert_allclose(grad(np.float64(0.7)), 4 * 0.7)


@pytest.mark.parametrize("name", ["pad", "sum", "interp"])
def test_beside_a_plain_array_the_error_says_so(name: str) -> None:
    with pytest.raises(wb.errors.GradientLostError, match=r"wnp\.asarray\(a\)"):
        wb.grad(lambda t: np.sum(SETTINGS[name](A, t)))(np.float64(0.7))
