"""More programs with nothing wrong in them, from many fields and at their edges.

Trained ones and ones at an optimum, in the units of their field, with masks, with
weights that start at 0, in float32: what looks like a fault, and is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from tests.checks.doctor.healthy import Program, glorot
from workbench.scipy import special

PROGRAMS: dict[str, Callable[[np.random.Generator], Program]] = {}
single = np.float32


def program(make: Callable[[np.random.Generator], Program]) -> Any:
    """Add a healthy program under its name."""
    PROGRAMS[make.__name__] = make
    return make


def train(loss: Any, args: Any, steps: int, rate: float) -> Any:
    """Some steps of gradient descent, in the dtype of the arguments."""
    g = wb.grad(loss, argnums=tuple(range(len(args))))
    for _ in range(steps):
        args = [
            a - (a.dtype.type(rate) * d).astype(a.dtype)
            for a, d in zip(args, g(*args), strict=True)
        ]
    return tuple(args)


@program
def trained_network(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(256, 10)).astype(single)
    t = (X[:, 0] * X[:, 1] > 0).astype(int)

    def loss(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        h = np.maximum(X @ W1 + b1, 0)
        z = h @ W2 + b2
        return np.mean(wb.logsumexp(z, axis=1) - z[np.arange(256), t])

    a = tuple(
        x.astype(single)
        for x in (glorot(rng, 10, 64), np.zeros(64), glorot(rng, 64, 2), np.zeros(2))
    )
    return loss, train(loss, a, 200, 0.5)


@program
def embedding(rng: np.random.Generator) -> Program:
    ids = rng.integers(0, 5000, (8, 20))
    t = rng.normal(size=8)

    def loss(E: Any, w: Any) -> Any:
        return np.mean((np.mean(E[ids], axis=1) @ w - t) ** 2)

    return loss, (rng.normal(size=(5000, 16)) * 0.1, rng.normal(size=16))


@program
def residual_branches_at_zero(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(32, 16))
    t = rng.normal(size=(32, 16))
    Ws = [(glorot(rng, 16, 32), np.zeros((32, 16))) for _ in range(6)]

    def loss(Ws: Any) -> Any:
        h = X
        for A, B in Ws:
            h = h + np.maximum(h @ A, 0) @ B
        return np.mean((h - t) ** 2)

    return loss, (Ws,)


@program
def dropout(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(64, 20))
    m = (rng.random((64, 40)) > 0.5) / 0.5

    def loss(A: Any, B: Any) -> Any:
        return np.mean((np.maximum(X @ A, 0) * m @ B) ** 2)

    return loss, (glorot(rng, 20, 40), glorot(rng, 40, 3))


@program
def max_pooling(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(8, 12, 12)).astype(single)

    def loss(K: Any, w: Any) -> Any:
        h = sum(
            X[:, i : i + 10, j : j + 10] * K[i, j] for i in range(3) for j in range(3)
        )
        h = np.maximum(h, 0).reshape(8, 5, 2, 5, 2).max(axis=(2, 4)).reshape(8, 25)
        return np.mean((h @ w) ** 2)

    return loss, (
        rng.normal(size=(3, 3)).astype(single),
        rng.normal(size=25).astype(single),
    )


@program
def hinge_without_loss(rng: np.random.Generator) -> Program:
    t = np.sign(rng.normal(size=50))
    X = t[:, None] * 3 + 0.1 * rng.normal(size=(50, 2))
    return lambda w, b: np.mean(np.maximum(0, 1 - t * (X @ w + b))), (
        np.ones(2),
        np.float64(0),
    )


@program
def converged_logistic_regression(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(100, 3))
    t = (rng.random(100) < 1 / (1 + np.exp(-X @ [1, 2, -1]))).astype(float)
    w = np.zeros(3)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ w))
        w = w - np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (p - t))
    return lambda w: np.sum(np.logaddexp(0, X @ w) - t * (X @ w)), (w,)


@program
def exact_least_squares(rng: np.random.Generator) -> Program:
    A = rng.normal(size=(20, 5))
    b = rng.normal(size=20)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    return lambda x: np.sum((A @ x - b) ** 2), (x,)


@program
def interpolating_weights(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(10, 30)).astype(single)
    y = rng.normal(size=10).astype(single)
    w = np.linalg.pinv(X) @ y
    return lambda w: np.mean((X @ w - y) ** 2), (w.astype(single),)


@program
def molecule_in_metres(rng: np.random.Generator) -> Program:
    eps = 1.65e-21
    sig = 3.4e-10
    i, j = np.triu_indices(8, 1)
    g = np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3) * 3.8e-10

    def E(x: Any) -> Any:
        r = np.sqrt(np.sum((x[i] - x[j]) ** 2, axis=1))
        s = (sig / r) ** 6
        return np.sum(4 * eps * (s * s - s))

    return E, (g + 1e-12 * rng.normal(size=(8, 3)),)


@program
def charges_in_coulombs(rng: np.random.Generator) -> Program:
    e = 1.602e-19
    k = 8990000000.0

    def E(x: Any) -> Any:
        d = x[:, None] - x
        r2 = np.sum(d**2, -1) + np.eye(6)
        return 0.5 * np.sum(k * e * e / np.sqrt(r2) * (1 - np.eye(6)))

    return E, (rng.normal(size=(6, 3)) * 1e-10,)


@program
def planck_law(rng: np.random.Generator) -> Program:
    h, c, kB = (6.626e-34, 299800000.0, 1.381e-23)
    lam = np.linspace(2e-07, 3e-06, 200)
    return lambda T: np.sum(
        2 * h * c * c / lam**5 / np.expm1(h * c / (lam * kB * T))
    ), (np.float64(5800.0),)


@program
def orbit_by_leapfrog(rng: np.random.Generator) -> Program:
    GM = 1.327e20

    def f(s: Any) -> Any:
        x, v = (s[:2], s[2:])
        dt = 86400.0
        for _ in range(50):
            v = v - dt * GM * x / np.sum(x**2) ** 1.5
            x = x + dt * v
        return np.sum(x**2)

    return f, (np.array([149600000000.0, 0, 0, 29780.0]),)


@program
def likelihood_of_many(rng: np.random.Generator) -> Program:
    y = (rng.normal(size=200000) * 3 + 5).astype(single)
    return (
        lambda m, s: (
            -np.sum(
                0.5 * ((y - m) / np.exp(s)) ** 2 + s + single(0.5 * np.log(2 * np.pi))
            )
        ),
        (single(4.9), single(1.0)),
    )


@program
def poisson_regression(rng: np.random.Generator) -> Program:

    X = rng.normal(size=(300, 4))
    y = rng.poisson(np.exp(X @ [0.5, -0.2, 0.1, 0.3] + 3))
    gl_ = special.gammaln(y + 1.0)
    return lambda w, b: -np.sum(y * (X @ w + b) - np.exp(X @ w + b) - gl_), (
        np.array([0.5, -0.2, 0.1, 0.3]),
        np.float64(3),
    )


@program
def hidden_markov_chain(rng: np.random.Generator) -> Program:
    obs = rng.integers(0, 3, 30)
    mask = np.where(
        np.triu(np.ones((4, 4))) - np.triu(np.ones((4, 4)), 2) > 0, 0, -np.inf
    )
    start = np.array([0, -np.inf, -np.inf, -np.inf])

    def f(logits: Any, em: Any) -> Any:
        A = logits + mask
        A = A - wb.logsumexp(A, axis=1, keepdims=True)
        B = em - wb.logsumexp(em, axis=1, keepdims=True)
        a = start + B[:, obs[0]]
        for o in obs[1:]:
            a = wb.logsumexp(a[:, None] + A, axis=0) + B[:, o]
        return -wb.logsumexp(a, axis=0)

    return f, (rng.normal(size=(4, 4)), rng.normal(size=(4, 3)))


@program
def best_path(rng: np.random.Generator) -> Program:
    mask = np.where(np.tril(np.ones((5, 5))), 0, -np.inf)
    S = rng.normal(size=(20, 5))

    def f(A: Any) -> Any:
        a = S[0]
        for s in S[1:]:
            a = np.max(a[:, None] + A + mask, axis=0) + s
        return np.max(a)

    return f, (rng.normal(size=(5, 5)),)


@program
def padded_attention(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(4, 10, 16)).astype(single)
    n = np.array([10, 3, 1, 7])
    keep = np.arange(10) < n[:, None]

    def f(Q: Any, K: Any, V: Any, U: Any) -> Any:
        s = X @ Q @ np.swapaxes(X @ K, 1, 2) / single(4)
        s = np.where(keep[:, None, :], s, -np.inf)
        e = np.exp(s - np.max(s, -1, keepdims=True))
        p = e / np.sum(e, -1, keepdims=True)
        h = X + p @ (X @ V) @ U
        m = np.mean(h, -1, keepdims=True)
        h = (h - m) / np.sqrt(np.var(h, -1, keepdims=True) + single(1e-05))
        h = np.sum(h * keep[..., None], 1) / n[:, None].astype(single)
        return np.mean(h**3)

    return f, tuple(glorot(rng, 16, 16).astype(single) for _ in range(4))


@program
def mask_of_large_numbers(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(4, 10, 16)).astype(single)
    keep = np.arange(10) < np.array([10, 3, 1, 7])[:, None]

    def f(Q: Any, K: Any) -> Any:
        s = X @ Q @ np.swapaxes(X @ K, 1, 2) / single(4) + np.where(
            keep[:, None, :], 0, -1000000000.0
        ).astype(single)
        e = np.exp(s - np.max(s, -1, keepdims=True))
        p = e / np.sum(e, -1, keepdims=True)
        return np.sum((p @ X) ** 2)

    return f, tuple(glorot(rng, 16, 16).astype(single) for _ in range(2))


@program
def overlap_of_masks(rng: np.random.Generator) -> Program:
    t = (rng.random((2, 32, 32)) < 0.05) * 1.0

    def f(z: Any) -> Any:
        p = 1 / (1 + np.exp(-z))
        return 1 - np.mean(
            (2 * np.sum(p * t, (1, 2)) + 1)
            / (np.sum(p, (1, 2)) + np.sum(t, (1, 2)) + 1)
        )

    return f, (rng.normal(size=(2, 32, 32)) - 3,)


@program
def confident_classifier(rng: np.random.Generator) -> Program:
    z0 = rng.normal(size=(50, 10)) * 2
    t = rng.integers(0, 10, 50)
    z0[np.arange(50), t] += 60

    def f(z: Any) -> Any:
        return np.mean(wb.logsumexp(z, axis=1) - z[np.arange(50), t])

    return f, (z0,)


@program
def precision_of_a_normal(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(200, 10))
    S = X.T @ X / 200

    def f(A: Any) -> Any:
        P = A @ A.T + np.eye(10) * 0.1
        return np.trace(P @ S) - np.linalg.slogdet(P)[1]

    return f, (rng.normal(size=(10, 10)),)


@program
def black_scholes(rng: np.random.Generator) -> Program:
    K = np.linspace(50, 150, 41)

    def f(S: Any, v: Any, T: Any) -> Any:
        d = (np.log(S / K) + (0.02 + 0.5 * v * v) * T) / (v * np.sqrt(T))
        return np.sum(
            S * special.ndtr(d)
            - K * np.exp(-0.02 * T) * special.ndtr(d - v * np.sqrt(T))
        )

    return f, (np.float64(100), np.float64(0.2), np.float64(1))


@program
def contrastive_pairs(rng: np.random.Generator) -> Program:
    X, Y = rng.normal(size=(2, 32, 8))

    def f(W: Any) -> Any:
        a, b = (X @ W, Y @ W)
        a = a / np.linalg.norm(a, axis=1, keepdims=True)
        b = b / np.linalg.norm(b, axis=1, keepdims=True)
        s = a @ b.T / 0.07
        return np.mean(wb.logsumexp(s, axis=1) - np.diag(s))

    return f, (glorot(rng, 8, 16),)


@program
def heat_equation(rng: np.random.Generator) -> Program:

    def f(u: Any) -> Any:
        for _ in range(200):
            u = u + 0.2 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return np.sum(u**2)

    return f, (rng.normal(size=64),)


@program
def minimal_surface(rng: np.random.Generator) -> Program:

    def f(z: Any) -> Any:
        dx = z[1:, :-1] - z[:-1, :-1]
        dy = z[:-1, 1:] - z[:-1, :-1]
        return np.sum(np.sqrt(1 + dx**2 + dy**2))

    return f, (np.zeros((10, 10)),)


@program
def absolute_values_at_zero(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(20, 5))
    y = rng.normal(size=20)
    return lambda w: np.mean((X @ w - y) ** 2) + np.sum(np.abs(w)), (np.zeros(5),)


@program
def clipped_policy(rng: np.random.Generator) -> Program:
    adv = rng.normal(size=200)
    old = rng.normal(size=200) * 0.1
    a = rng.integers(0, 4, 200)
    X = rng.normal(size=(200, 6))

    def f(W: Any) -> Any:
        z = X @ W
        lp = (z - wb.logsumexp(z, axis=1, keepdims=True))[np.arange(200), a]
        r = np.exp(lp - (old - 1.4))
        return -np.mean(np.minimum(r * adv, np.clip(r, 0.8, 1.2) * adv))

    return f, (glorot(rng, 6, 4) * 0.1,)


@program
def sharp_softmax(rng: np.random.Generator) -> Program:
    gn = -np.log(-np.log(rng.random((16, 5))))
    v = rng.normal(size=5)

    def f(z: Any) -> Any:
        y = (z + gn) / 0.1
        y = y - np.max(y, 1, keepdims=True)
        e = np.exp(y)
        return np.mean(e / np.sum(e, 1, keepdims=True) @ v)

    return f, (rng.normal(size=(16, 5)),)


@program
def quantised_codes(rng: np.random.Generator) -> Program:
    E = rng.normal(size=(8, 4))
    X = rng.normal(size=(20, 6))

    def f(W: Any, E: Any) -> Any:
        z = X @ W
        k = np.argmin(np.sum((z[:, None] - E) ** 2, -1), axis=1)
        q = E[k]
        zq = z + wb.stop_gradient(q - z)
        return (
            np.mean(zq**2)
            + np.mean((wb.stop_gradient(z) - q) ** 2)
            + 0.25 * np.mean((z - wb.stop_gradient(q)) ** 2)
        )

    return f, (glorot(rng, 6, 4), E)


@program
def mixture_of_normals(rng: np.random.Generator) -> Program:
    y = np.concatenate([rng.normal(size=50) - 3, rng.normal(size=50) * 0.1 + 4])

    def f(m: Any, s: Any, logits: Any) -> Any:
        lw = logits - wb.logsumexp(logits, axis=0)
        c = lw - 0.5 * ((y[:, None] - m) / np.exp(s)) ** 2 - s
        return -np.sum(wb.logsumexp(c, axis=1))

    return f, (np.array([-3.0, 4.0]), np.array([0.0, -2.3]), np.zeros(2))


@program
def camera_and_points(rng: np.random.Generator) -> Program:
    Pn = rng.normal(size=(20, 3)) + np.array([0, 0, 8])
    obs = Pn[:, :2] / Pn[:, 2:] * 500 + rng.normal(size=(20, 2))

    def f(r: Any, t: Any, X: Any) -> Any:
        th = np.sqrt(np.sum(r**2) + 1e-12)
        k = r / th
        c, s = (np.cos(th), np.sin(th))
        Y = (
            X * c
            + np.cross(np.broadcast_to(k, X.shape), X) * s
            + np.outer(X @ k, k) * (1 - c)
            + t
        )
        return np.sum((Y[:, :2] / Y[:, 2:] * 500 - obs) ** 2)

    return f, (np.array([0.01, 0.02, -0.01]), np.zeros(3), Pn)
