"""A call of a function of three numbers: what is spent beside the arithmetic.

f(x, y, z) = sin(x) y + z², and its gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

POINT = (0.3, 1.7, -0.4)


def f(sin: Any, x: Any, y: Any, z: Any) -> Any:
    """The mathematics, for any library's numbers."""
    return sin(x) * y + z * z


def workbench() -> Pair:
    import workbench as wb

    symbols = wb.scalars("x y z")
    y = f(np.sin, *symbols)
    value = wb.function(symbols, y)
    gradient = wb.function(symbols, wb.grad(y, symbols))
    return lambda: value(*POINT), lambda: gradient(*POINT)


def numpy() -> Pair:
    def gradient(x: Any, y: Any, z: Any) -> Any:
        return np.cos(x) * y, np.sin(x), 2 * z

    return lambda: f(np.sin, *POINT), lambda: gradient(*POINT)


def python() -> Pair:
    def gradient(x: float, y: float, z: float) -> Any:
        return math.cos(x) * y, math.sin(x), 2 * z

    return lambda: f(math.sin, *POINT), lambda: gradient(*POINT)


def autograd() -> Pair:
    import autograd.numpy as anp
    from autograd import grad

    gradient = grad(lambda *args: f(anp.sin, *args), (0, 1, 2))
    return lambda: f(anp.sin, *POINT), lambda: gradient(*POINT)


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)

    def tensors() -> Any:
        return [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in POINT]

    def gradient() -> Any:
        given = tensors()
        return [float(g) for g in torch.autograd.grad(f(torch.sin, *given), given)]

    return lambda: f(torch.sin, *tensors()), gradient


def jax() -> Pair:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def of(*args: Any) -> Any:
        return f(jnp.sin, *args)

    value, gradient = jax.jit(of), jax.jit(jax.grad(of, (0, 1, 2)))
    return (
        lambda: value(*POINT).block_until_ready(),
        lambda: [float(g) for g in gradient(*POINT)],
    )


CASE = Case(
    "function_call",
    "A call of a function of three numbers",
    {
        "workbench": workbench, "numpy": numpy, "python": python,
        "autograd": autograd, "torch": torch, "jax": jax,
    },
    goal="ours/jax ≤ 1",
    unit="µs",
    rounds=31,
)  # fmt: skip
