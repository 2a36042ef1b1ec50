"""A loop of 10,000 small steps: the cost of a step beside its arithmetic.

h ← a h (1 − h) on 8 numbers; the gradient of the sum of the last by a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

STEPS = 10_000
START = np.linspace(0.1, 0.8, 8)
A = 2.9


def step(a: Any, h: Any) -> Any:
    """The mathematics of a step, for any array library."""
    return a * h * (1 - h)


def workbench() -> Pair:
    import workbench as wb

    a = wb.scalar("a")
    states = wb.scan(lambda h: step(a, h), initial=START, n_steps=STEPS)
    cost = np.sum(states[-1])
    value = wb.function([a], cost)
    gradient = wb.function([a], wb.grad(cost, a))
    return lambda: value(A), lambda: gradient(A)


def hand() -> Pair:
    def forward() -> Any:
        states = np.empty((STEPS + 1, *START.shape))
        states[0] = START
        for t in range(STEPS):
            states[t + 1] = step(A, states[t])
        return states

    def gradient() -> Any:
        states = forward()
        slopes, products = A * (1 - 2 * states), states * (1 - states)
        total, g = 0.0, np.ones_like(START)
        for t in range(STEPS - 1, -1, -1):
            total += g @ products[t]
            g = g * slopes[t]
        return total

    return lambda: np.sum(forward()[-1]), gradient


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)
    start = torch.tensor(START)

    def cost(a: Any) -> Any:
        h = start
        for _ in range(STEPS):
            h = step(a, h)
        return h.sum()

    def gradient() -> Any:
        a = torch.tensor(A, dtype=start.dtype, requires_grad=True)
        return torch.autograd.grad(cost(a), a)[0].numpy()

    return lambda: cost(A), gradient


def jax() -> Pair:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    start = jnp.asarray(START)

    def cost(a: Any) -> Any:
        last, _ = jax.lax.scan(lambda h, _: (step(a, h), None), start, None, STEPS)
        return last.sum()

    value, gradient = jax.jit(cost), jax.jit(jax.grad(cost))
    return (
        lambda: value(A).block_until_ready(),
        lambda: np.asarray(gradient(A)),
    )


CASE = Case(
    "small_loop",
    "A loop of 10,000 steps on 8 numbers, per step",
    {"workbench": workbench, "hand": hand, "torch": torch, "jax": jax},
    goal="ours/hand ≤ 1",
    unit="µs",
    per=STEPS,
)
