"""Recurrent net: 1000 steps, 128 hidden units; the gradient by its matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

STEPS, HIDDEN = 1000, 128
_RNG = np.random.default_rng(0)
W = 0.9 * _RNG.standard_normal((HIDDEN, HIDDEN)) / HIDDEN**0.5
XS = _RNG.standard_normal((STEPS, HIDDEN))


def cell(xp: Any, W: Any, x: Any, h: Any) -> Any:
    """The mathematics of a step, for any array library."""
    return xp.tanh(W @ h + x)


def workbench() -> Pair:
    import workbench as wb

    symbol = wb.matrix("W", shape=W.shape)
    states = wb.scan(lambda x, h: cell(np, symbol, x, h), XS, initial=np.zeros(HIDDEN))
    cost = np.sum(states**2)
    value = wb.function([symbol], cost)
    gradient = wb.function([symbol], wb.grad(cost, symbol))
    return lambda: value(W), lambda: gradient(W)


def hand() -> Pair:
    def forward() -> Any:
        states = np.zeros((STEPS + 1, HIDDEN))
        for t in range(STEPS):
            states[t + 1] = cell(np, W, XS[t], states[t])
        return states

    def gradient() -> Any:
        states = forward()
        slopes = 1 - states[1:] ** 2
        arriving = 2 * states[1:]
        inner = np.empty_like(slopes)
        g = np.zeros(HIDDEN)
        for t in range(STEPS - 1, -1, -1):
            inner[t] = (arriving[t] + g) * slopes[t]
            g = inner[t] @ W
        return inner.T @ states[:-1]

    return lambda: np.sum(forward() ** 2), gradient


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)
    xs = torch.tensor(XS)

    def cost(matrix: Any) -> Any:
        h, total = torch.zeros(HIDDEN, dtype=xs.dtype), 0.0
        for x in xs:
            h = cell(torch, matrix, x, h)
            total = total + (h**2).sum()
        return total

    def gradient() -> Any:
        matrix = torch.tensor(W, requires_grad=True)
        return torch.autograd.grad(cost(matrix), matrix)[0].numpy()

    plain = torch.tensor(W)
    return lambda: cost(plain), gradient


def jax() -> Pair:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    matrix, xs = jnp.asarray(W), jnp.asarray(XS)

    def cost(matrix: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = cell(jnp, matrix, x, h)
            return h, h

        _, states = jax.lax.scan(step, jnp.zeros(HIDDEN), xs)
        return (states**2).sum()

    value, gradient = jax.jit(cost), jax.jit(jax.grad(cost))
    return (
        lambda: value(matrix).block_until_ready(),
        lambda: np.asarray(gradient(matrix)),
    )


CASE = Case(
    "recurrent",
    "Recurrent net, 1000 steps, 128 hidden units",
    {"workbench": workbench, "hand": hand, "torch": torch, "jax": jax},
    goal="ours/jax ≤ 1",
    products=True,
)
