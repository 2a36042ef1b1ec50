"""Integrals of samples; transforms that are functions of arrays themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate

import workbench as wb
from tests.ops.samples.table import Table, apart, positive
from workbench.scipy.integrate import cumulative_trapezoid, simpson, trapezoid

row = Table()


def places(*shape: int) -> Any:
    """Ascending along the last axis, with steps of different lengths."""
    return lambda rng: np.cumsum(positive(*shape)(rng), axis=-1)


def simpson_of_y(y: Any, x: Any) -> Any:
    """SciPy's, which casts places to float64, in the dtype of the samples."""
    return np.astype(np.asarray(integrate.simpson(y, x)), y.dtype)


row("trapezoid of SciPy", trapezoid, apart(5), kinds="fc", truth=integrate.trapezoid)
row("trapezoid at", trapezoid, apart(2, 4), places(4), truth=integrate.trapezoid)
row(
    "trapezoid axis",
    lambda y, x: trapezoid(y, x, axis=0),
    apart(3, 2),
    lambda rng: np.cumsum(positive(3, 2)(rng), axis=0),
    truth=lambda y, x: integrate.trapezoid(y, x, axis=0),
)
row("trapezoid of one", trapezoid, apart(2, 1), truth=integrate.trapezoid)
row("trapezoid of none", trapezoid, apart(0, 3), truth=integrate.trapezoid)
row("trapezoid backward", lambda y: trapezoid(y[::-1]), apart(4),
    truth=lambda y: integrate.trapezoid(y[::-1]))  # fmt: skip
row("cumulative_trapezoid", cumulative_trapezoid, apart(2, 4), kinds="fc",
    truth=integrate.cumulative_trapezoid)  # fmt: skip
row(
    "cumulative_trapezoid initial",
    lambda y, x: cumulative_trapezoid(y, x, axis=-2, initial=0),
    apart(3, 2),
    lambda rng: np.cumsum(positive(3)(rng)),
    truth=lambda y, x: integrate.cumulative_trapezoid(y, x, axis=-2, initial=0),
)
row("simpson", simpson, apart(5), kinds="fc", truth=integrate.simpson)
row("simpson even", simpson, apart(2, 6), truth=integrate.simpson)
row("simpson at", simpson, apart(5), places(5), truth=simpson_of_y)
row("simpson at, even", simpson, apart(4), places(4), truth=simpson_of_y)
row("simpson of two", simpson, apart(3, 2), truth=integrate.simpson)

# Transforms as parts of programs

W = np.array([[0.3, -1.2, 0.5], [2.0, 0.1, -0.7], [0.4, 0.4, 1.1]])


def layer(x: Any) -> Any:
    return np.tanh(x * x) + np.sum(x)


row("checkpoint", wb.checkpoint(layer), apart(3), truth=layer)
row("checkpoint of a grad", wb.checkpoint(wb.elementwise_grad(np.tanh)), apart(3),
    truth=lambda x: 1 - np.tanh(x) ** 2)  # fmt: skip
row("elementwise_grad", wb.elementwise_grad(np.sin), apart(2, 2), kinds="fc",
    truth=np.cos)  # fmt: skip
row("linearize", lambda x, v: wb.linearize(np.sin, x)[1](v), apart(3), apart(3),
    truth=lambda x, v: np.cos(x) * v)  # fmt: skip
row("gnvp", lambda x, v: wb.gnvp(np.sin, lambda y: np.sum(y**3), x, v), apart(3),
    apart(3), truth=lambda x, v: 6 * np.sin(x) * np.cos(x) ** 2 * v)  # fmt: skip
