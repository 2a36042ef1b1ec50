"""Dense Hessian of R⁵⁰⁰ → R: log-sum-exp of a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

N = 500
_RNG = np.random.default_rng(0)
A = _RNG.standard_normal((N, N)) / N**0.5
POINT = _RNG.standard_normal(N)


def objective(xp: Any, A: Any, x: Any) -> Any:
    """The mathematics, for any array library."""
    return xp.log(xp.exp(A @ x).sum())


def workbench() -> Pair:
    import workbench as wb

    hessian = wb.hessian(lambda x: objective(np, A, x))
    return lambda: objective(np, A, POINT), lambda: hessian(POINT)


def hand() -> Pair:
    def hessian() -> Any:
        p = np.exp(A @ POINT)
        p /= p.sum()
        mean = p @ A
        return A.T @ (p[:, None] * A) - np.outer(mean, mean)

    return lambda: objective(np, A, POINT), hessian


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)
    matrix, x = torch.tensor(A), torch.tensor(POINT)

    def f(x: Any) -> Any:
        return objective(torch, matrix, x)

    hessian = torch.func.hessian(f)
    return lambda: f(x), lambda: hessian(x).numpy()


def jax() -> Pair:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    matrix, x = jnp.asarray(A), jnp.asarray(POINT)

    def f(x: Any) -> Any:
        return objective(jnp, matrix, x)

    value, hessian = jax.jit(f), jax.jit(jax.hessian(f))
    return lambda: value(x).block_until_ready(), lambda: np.asarray(hessian(x))


CASE = Case(
    "dense_hessian",
    "Dense Hessian, R^500 to R, log-sum-exp of a matrix product",
    {"workbench": workbench, "hand": hand, "torch": torch, "jax": jax},
    goal="ours/jax ≤ 1",
    products=True,
    rounds=31,
)
