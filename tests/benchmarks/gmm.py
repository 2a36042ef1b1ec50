"""The likelihood of a mixture of normals, as ADBench has it, and its gradient.

The root of each component's precision has the exponentials of the first numbers of
``icf`` on its diagonal and the others below (Šrajer, Kukelova and Fitzgibbon 2018).
ADBench multiplies the gaps with the triangles as an einsum; "matmul" writes the same
as products of matrices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def make(n: int, d: int, k: int, spelling: str, tiny: bool) -> Problem:
    """Return the problem of n points of d numbers and k components."""
    if tiny:
        n, d, k = 7, 3, 2
    rng = np.random.default_rng(0)
    count = d * (d - 1) // 2
    arrays = (
        rng.normal(size=k),
        rng.random((k, d)),
        rng.normal(size=(k, d + count)) * 0.1,
        rng.normal(size=(n, d)),
    )
    return Problem(
        partial(likelihood, spelling, n, d),
        arrays,
        (0, 1, 2),
        by_hand={"hand": lambda: Peer(*(partial(f, *arrays) for f in BY_HAND))},
    )


def likelihood(
    spelling: str, n: int, d: int, xp: Any, alphas: Any, means: Any, icf: Any, x: Any
) -> Any:
    """Return the logarithm of the likelihood, with a prior."""
    rows, columns = np.tril_indices(d, -1)
    place = np.zeros((d, d), int)
    place[rows, columns] = np.arange(len(rows)) + d
    below = xp.constant(np.tri(d, k=-1))
    roots, lower = xp.exp(icf[:, :d]), icf[:, place] * below
    gaps = x[:, None, :] - means
    if spelling == "matmul":
        triangles = xp.swapaxes(lower, 1, 2)
        product = xp.swapaxes(xp.swapaxes(gaps, 0, 1) @ triangles, 0, 1)
    else:
        product = xp.einsum("ijk,mik->mij", lower, gaps)
    whitened = roots * gaps + product
    logs = xp.sum(icf[:, :d], 1)
    inner = alphas + logs - 0.5 * xp.sum(whitened**2, 2)
    fit = xp.sum(xp.logsumexp(inner, 1)) - n * xp.logsumexp(alphas, 0)
    prior = 0.5 * (xp.sum(roots**2) + xp.sum(lower**2)) - xp.sum(logs)
    return fit + prior


def find_shares(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Return the value, each point's shares, whitened gaps and the triangles."""
    (n, d), k = x.shape, len(alphas)
    rows, columns = np.tril_indices(d, -1)
    diagonal = np.arange(d)
    logs, roots = icf[:, :d], np.exp(icf[:, :d])
    Q = np.zeros((k, d, d))
    Q[:, rows, columns], Q[:, diagonal, diagonal] = icf[:, d:], roots
    y, gap, p = np.empty((k, n, d)), np.empty((n, d)), np.empty((n, k))
    for i in range(k):
        np.subtract(x, means[i], out=gap)
        np.matmul(gap, Q[i].T, out=y[i])
        p[:, i] = np.einsum("ij,ij->i", y[i], y[i])
    p *= -0.5
    p += alphas + logs.sum(1)
    largest = p.max(1, keepdims=True)
    p -= largest
    np.exp(p, out=p)
    total = p.sum(1, keepdims=True)
    value = np.sum(np.log(total) + largest)
    p /= total
    top = alphas.max()
    value -= n * (np.log(np.exp(alphas - top).sum()) + top)
    return value + 0.5 * np.sum(Q * Q) - logs.sum(), p, y, Q


def value_by_hand(*arrays: Any) -> Any:
    return find_shares(*arrays)[0]


def gradient_by_hand(alphas: Any, means: Any, icf: Any, x: Any) -> list[Any]:
    """Return the gradients, one component after the other."""
    _, p, y, Q = find_shares(alphas, means, icf, x)
    (n, d), k = x.shape, len(alphas)
    rows, columns = np.tril_indices(d, -1)
    diagonal, gap = np.arange(d), np.empty((n, d))
    weights = np.exp(alphas - alphas.max())
    share = p.sum(0)
    g_means, g_icf = np.empty((k, d)), np.empty_like(icf)
    for i in range(k):
        np.subtract(x, means[i], out=gap)
        y[i] *= p[:, i, None]
        g_means[i] = y[i].sum(0) @ Q[i]
        g = Q[i] - y[i].T @ gap
        g_icf[i, d:] = g[rows, columns]
        g_icf[i, :d] = g[diagonal, diagonal] * Q[i, diagonal, diagonal] + share[i] - 1
    return [share - n * weights / weights.sum(), g_means, g_icf]


BY_HAND = (value_by_hand, gradient_by_hand)

LARGE, SMALL = (10_000, 32, 25), (1_000, 2, 5)
FAST = (Goal(1.2, "hand"), Goal(1.5, "hand", what="memory"))
WITHOUT = {"casadi": "made for small programs"}
CASES = (
    Case(
        "gmm_10k_einsum",
        "Mixture of normals, 10k points, d = 32, k = 25, ADBench's spelling",
        partial(make, *LARGE, "einsum"),
        goals=FAST,
        without=WITHOUT,
        products=True,
    ),
    Case(
        "gmm_10k_matmul",
        "Mixture of normals, 10k points, d = 32, k = 25, as products",
        partial(make, *LARGE, "matmul"),
        goals=FAST,
        without=WITHOUT,
        products=True,
    ),
    Case(
        "gmm_1k_einsum",
        "Mixture of normals, 1k points, d = 2, k = 5, ADBench's spelling",
        partial(make, *SMALL, "einsum"),
        goals=(Goal(0.8, "jax"),),
        without=WITHOUT,
        unit="µs",
    ),
    Case(
        "gmm_1k_matmul",
        "Mixture of normals, 1k points, d = 2, k = 5, as products",
        partial(make, *SMALL, "matmul"),
        goals=(Goal(0.8, "jax"),),
        without=WITHOUT,
        unit="µs",
    ),
)
