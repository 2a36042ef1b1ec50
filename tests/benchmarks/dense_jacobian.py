"""Dense Jacobian of R¹⁰⁰⁰ → R¹⁰⁰⁰: three layers x ← tanh(W x)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

N = 1000
_RNG = np.random.default_rng(0)
WEIGHTS = [_RNG.standard_normal((N, N)) / N**0.5 for _ in range(3)]
POINT = _RNG.standard_normal(N)


def layers(xp: Any, weights: Any, x: Any) -> Any:
    """The mathematics, for any array library."""
    for W in weights:
        x = xp.tanh(W @ x)
    return x


def workbench() -> Pair:
    import workbench as wb

    jacobian = wb.jacobian(lambda x: layers(np, WEIGHTS, x))
    return lambda: layers(np, WEIGHTS, POINT), lambda: jacobian(POINT)


def hand() -> Pair:
    def jacobian() -> Any:
        x, J = POINT, None
        for W in WEIGHTS:
            x = np.tanh(W @ x)
            J = (1 - x * x)[:, None] * (W if J is None else W @ J)
        return J

    return lambda: layers(np, WEIGHTS, POINT), jacobian


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)
    weights, x = [torch.tensor(W) for W in WEIGHTS], torch.tensor(POINT)

    def f(x: Any) -> Any:
        return layers(torch, weights, x)

    jacobian = torch.func.jacfwd(f)
    return lambda: f(x), lambda: jacobian(x).numpy()


def jax() -> Pair:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    weights, x = [jnp.asarray(W) for W in WEIGHTS], jnp.asarray(POINT)

    def f(x: Any) -> Any:
        return layers(jnp, weights, x)

    value, jacobian = jax.jit(f), jax.jit(jax.jacfwd(f))
    return lambda: value(x).block_until_ready(), lambda: np.asarray(jacobian(x))


CASE = Case(
    "dense_jacobian",
    "Dense Jacobian, R^1000 to R^1000, three tanh layers",
    {"workbench": workbench, "hand": hand, "torch": torch, "jax": jax},
    goal="ours/jax ≤ 1",
    products=True,
)
