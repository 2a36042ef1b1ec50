"""Programs with nothing wrong in them, of many kinds, as people write them.

Each is a function with its arguments. They are what the doctor must be silent about:
infinite masks, flat probabilities, satisfied hinges, dead branches of `where`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[np.random.Generator], Program]] = {}

Array = np.ndarray[Any, Any]


def program(make: Callable[[np.random.Generator], Program]) -> Any:
    """Add a healthy program under its name."""
    PROGRAMS[make.__name__] = make
    return make


def glorot(rng: np.random.Generator, n: int, m: int) -> Array:
    return rng.normal(size=(n, m)) * np.sqrt(2 / (n + m))


def cross_entropy(z: Any, labels: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


@program
def relu_network(rng: np.random.Generator) -> Program:
    X, t = rng.normal(size=(128, 10)), rng.integers(0, 3, 128)

    def loss(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        h = np.maximum(X @ W1 + b1, 0)
        return cross_entropy(h @ W2 + b2, t)

    return loss, (glorot(rng, 10, 32), np.zeros(32), glorot(rng, 32, 3), np.zeros(3))


@program
def deep_residual_network(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(32, 16))
    Ws = [glorot(rng, 16, 16) * 0.3 for _ in range(60)]

    def loss(Ws: Any) -> Any:
        h = X
        for W in Ws:
            h = h + np.maximum(h @ W, 0)
        return np.mean(h**2)

    return loss, (Ws,)


@program
def float32_network(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(64, 12)).astype(np.float32)
    t = rng.normal(size=64).astype(np.float32)

    def loss(W1: Any, b1: Any, w2: Any) -> Any:
        return np.mean((np.tanh(X @ W1 + b1) @ w2 - t) ** 2)

    W1 = glorot(rng, 12, 24).astype(np.float32)
    return loss, (
        W1,
        np.zeros(24, np.float32),
        rng.normal(size=24).astype(np.float32),
    )


@program
def deep_float32_network(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(64, 16)).astype(np.float32)
    Ws = [(1.4 * glorot(rng, 16, 16)).astype(np.float32) for _ in range(12)]

    def loss(Ws: Any) -> Any:
        h = X
        for W in Ws:
            h = np.maximum(h @ W, np.float32(0))
        return np.sum(h * h)

    return loss, (Ws,)


@program
def recurrent_network(rng: np.random.Generator) -> Program:
    xs = rng.normal(size=(50, 8, 4))

    def loss(W: Any, U: Any) -> Any:
        h = np.zeros((8, 12))
        for x in xs:
            h = np.tanh(x @ U + h @ W)
        return np.mean(h**2)

    return loss, (np.linalg.qr(rng.normal(size=(12, 12)))[0], glorot(rng, 4, 12))


@program
def scanned_recurrence(rng: np.random.Generator) -> Program:
    xs = rng.normal(size=(40, 5))

    def loss(W: Any, U: Any) -> Any:
        hs = wb.scan(
            lambda x, h, W, U: np.tanh(U @ x + W @ h),
            xs,
            np.zeros(6),
            non_sequences=[W, U],
        )
        return np.mean(hs**2)

    return loss, (glorot(rng, 6, 6), glorot(rng, 6, 5))


@program
def masked_attention(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(2, 7, 8))
    causal = np.tril(np.ones((7, 7), bool))

    def loss(Q: Any, K: Any, V: Any) -> Any:
        q, k, v = X @ Q, X @ K, X @ V
        scores = q @ np.swapaxes(k, 1, 2) / np.sqrt(8)
        scores = np.where(causal, scores, -np.inf)
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        return np.mean((e / np.sum(e, axis=-1, keepdims=True) @ v) ** 2)

    return loss, tuple(glorot(rng, 8, 8) for _ in range(3))


@program
def added_mask_attention(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(7, 8))
    mask = np.where(np.tril(np.ones((7, 7), bool)), 0.0, -np.inf)

    def loss(Q: Any, K: Any) -> Any:
        scores = (X @ Q) @ (X @ K).T + mask
        return -np.sum(np.diag(scores) - wb.logsumexp(scores, axis=1))

    return loss, (glorot(rng, 8, 8), glorot(rng, 8, 8))


@program
def layer_normalisation(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(16, 20))

    def loss(W: Any, gain: Any, bias: Any) -> Any:
        h = X @ W
        mean = np.mean(h, axis=1, keepdims=True)
        var = np.mean((h - mean) ** 2, axis=1, keepdims=True)
        return np.mean(np.tanh((h - mean) / np.sqrt(var + 1e-5) * gain + bias) ** 2)

    return loss, (glorot(rng, 20, 20), np.ones(20), np.zeros(20))


@program
def batch_normalisation(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(64, 10)) * 5 + 3

    def loss(W1: Any, W2: Any) -> Any:
        h = X @ W1
        h = (h - np.mean(h, axis=0)) / np.sqrt(np.var(h, axis=0) + 1e-5)
        return np.mean((np.maximum(h, 0) @ W2) ** 2)

    return loss, (glorot(rng, 10, 16), glorot(rng, 16, 2))


@program
def separated_logistic_regression(rng: np.random.Generator) -> Program:
    t = rng.integers(0, 2, 80)
    X = rng.normal(size=(80, 2)) + 12.0 * t[:, None]

    def loss(w: Any, b: Any) -> Any:
        z = X @ w + b
        return np.mean(np.logaddexp(0, z) - t * z)

    return loss, (np.array([3.0, 3.0]), np.float64(-36.0))


@program
def satisfied_support_vectors(rng: np.random.Generator) -> Program:
    t = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(60, 3)) + 20 * t[:, None]

    def loss(w: Any, b: Any) -> Any:
        hinge = np.maximum(0, 1 - t * (X @ w + b))
        return np.mean(hinge) + 0.01 * np.sum(w**2)

    return loss, (np.ones(3), np.float64(0.1))


@program
def gaussian_process(rng: np.random.Generator) -> Program:
    x = np.sort(rng.random(25) * 5)
    y = np.sin(x) + 0.1 * rng.normal(size=25)

    def loss(scale: Any, amplitude: Any, noise: Any) -> Any:
        d = (x[:, None] - x) / scale
        K = amplitude**2 * np.exp(-0.5 * d**2) + noise**2 * np.eye(25)
        L = np.linalg.cholesky(K)
        a = np.linalg.solve(L, y)
        return 0.5 * np.sum(a**2) + np.sum(np.log(np.diag(L)))

    return loss, (np.float64(1.0), np.float64(1.0), np.float64(0.1))


@program
def variational_autoencoder(rng: np.random.Generator) -> Program:
    X, noise = (rng.random((20, 12)) < 0.3) * 1.0, rng.normal(size=(20, 2))

    def loss(E: Any, M: Any, S: Any, D: Any) -> Any:
        h = np.tanh(X @ E)
        mean, log_var = h @ M, h @ S
        z = mean + np.exp(0.5 * log_var) * noise
        logits = z @ D
        fit = np.sum(np.logaddexp(0, logits) - X * logits)
        kl = -0.5 * np.sum(1 + log_var - mean**2 - np.exp(log_var))
        return (fit + kl) / 20

    return loss, (
        glorot(rng, 12, 8),
        glorot(rng, 8, 2),
        glorot(rng, 8, 2),
        glorot(rng, 2, 12),
    )


@program
def convolutional_network(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(6, 10, 10))

    def loss(K: Any, W: Any) -> Any:
        total = 0.0
        for i in range(3):
            for j in range(3):
                total = total + X[:, i : i + 8, j : j + 8] * K[i, j]
        h = np.maximum(total, 0)
        pooled = np.max(np.reshape(h, (6, 4, 2, 4, 2)), axis=(2, 4))
        return np.mean((np.reshape(pooled, (6, 16)) @ W) ** 2)

    return loss, (rng.normal(size=(3, 3)) / 3, glorot(rng, 16, 2))


@program
def kalman_filter(rng: np.random.Generator) -> Program:
    ys = np.cumsum(rng.normal(size=30)) + rng.normal(size=30)

    def loss(log_q: Any, log_r: Any) -> Any:
        q, r = np.exp(log_q), np.exp(log_r)
        m, p, total = 0.0, 1.0, 0.0
        for y in ys:
            p = p + q
            s = p + r
            total = total + 0.5 * (np.log(s) + (y - m) ** 2 / s)
            m, p = m + p / s * (y - m), (1 - p / s) * p
        return total

    return loss, (np.float64(0.0), np.float64(0.0))


@program
def ordinary_differential_equation(rng: np.random.Generator) -> Program:
    def loss(theta: Any) -> Any:
        def slope(y: Any) -> Any:
            return np.stack(
                [
                    theta[0] * y[0] - theta[1] * y[0] * y[1],
                    -theta[2] * y[1] + theta[3] * y[0] * y[1],
                ]
            )

        y, h = np.array([1.0, 0.5]), 0.05
        for _ in range(60):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.sum((y - 1) ** 2)

    return loss, (np.array([1.1, 0.4, 0.4, 0.1]),)


@program
def sparse_system(rng: np.random.Generator) -> Program:
    from scipy import sparse

    S = sparse.random_array((40, 30), density=0.1, rng=rng, format="csr")
    y = rng.normal(size=40)
    return lambda x: np.mean((S @ x - y) ** 2) + 0.1 * np.sum(np.abs(x)), (
        rng.normal(size=30),
    )


@program
def spectrum_of_a_signal(rng: np.random.Generator) -> Program:
    target = rng.random(33)
    return lambda x: np.mean((np.abs(np.fft.rfft(x)) - target) ** 2), (
        rng.normal(size=64),
    )


@program
def quantile_loss(rng: np.random.Generator) -> Program:
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)

    def loss(w: Any) -> Any:
        e = y - X @ w
        return np.mean(np.maximum(0.9 * e, -0.1 * e))

    return loss, (rng.normal(size=3),)


@program
def k_means(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(60, 2))

    def loss(centres: Any) -> Any:
        d = np.sum((X[:, None] - centres) ** 2, axis=2)
        return np.mean(np.min(d, axis=1))

    return loss, (rng.normal(size=(4, 2)),)


@program
def lennard_jones_energy(rng: np.random.Generator) -> Program:
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3) * 1.15
    i, j = np.triu_indices(8, 1)

    def energy(x: Any) -> Any:
        r2 = np.sum((x[i] - x[j]) ** 2, axis=1)
        return np.sum(4 * (r2**-6 - r2**-3))

    return energy, (grid + 0.02 * rng.normal(size=(8, 3)),)


@program
def low_rank_by_singular_values(rng: np.random.Generator) -> Program:
    def loss(A: Any) -> Any:
        return np.sum(np.linalg.svd(A, compute_uv=False)[2:] ** 2)

    return loss, (rng.normal(size=(8, 6)),)


@program
def guarded_root(rng: np.random.Generator) -> Program:
    def loss(x: Any) -> Any:
        safe = np.where(x > 0, x, 1.0)
        return np.sum(np.where(x > 0, np.sqrt(safe), 0) + np.where(x > 0, np.log(x), 0))

    return loss, (np.array([-1.0, 0.0, 0.5, 2.0]),)


@program
def pairwise_distances(rng: np.random.Generator) -> Program:
    def loss(x: Any) -> Any:
        d = np.linalg.norm(x[:, None] - x, axis=-1)
        return np.mean(np.exp(-d))

    return loss, (rng.normal(size=(9, 3)),)


@program
def long_short_term_memory(rng: np.random.Generator) -> Program:
    xs = rng.normal(size=(20, 4, 3))

    def loss(W: Any, b: Any) -> Any:
        h, c = np.zeros((4, 6)), np.zeros((4, 6))
        for x in xs:
            z = np.concatenate([x, h], axis=1) @ W + b
            i, f, o = (1 / (1 + np.exp(-z[:, k * 6 : (k + 1) * 6])) for k in range(3))
            c = f * c + i * np.tanh(z[:, 18:])
            h = o * np.tanh(c)
        return np.mean(h**2)

    return loss, (glorot(rng, 9, 24), np.concatenate([np.ones(6), np.zeros(18)]))


@program
def converged_least_squares(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(30, 4))
    w = rng.normal(size=4)
    y = X @ w
    return lambda w: np.mean((X @ w - y) ** 2), (w * (1 + 1e-15),)


@program
def quantised_with_a_bypass(rng: np.random.Generator) -> Program:
    def loss(x: Any) -> Any:
        q = x + wb.stop_gradient(np.rint(x) - x)
        return np.mean((q - 0.3) ** 2)

    return loss, (rng.normal(size=20) * 3,)


@program
def ill_scaled_physics(rng: np.random.Generator) -> Program:
    masses = np.array([2e30, 6e24, 7e22])

    def energy(x: Any) -> Any:
        total = 0.0
        for a in range(3):
            for b in range(a):
                r = np.sqrt(np.sum((x[a] - x[b]) ** 2))
                total = total - 6.67e-11 * masses[a] * masses[b] / r
        return total

    return energy, (np.array([[0.0, 0, 0], [1.5e11, 0, 0], [1.504e11, 3e7, 0]]),)


@program
def normal_likelihood(rng: np.random.Generator) -> Program:
    x = rng.normal(size=100) * 2 + 1

    def loss(mean: Any, log_scale: Any) -> Any:
        return np.sum(0.5 * ((x - mean) / np.exp(log_scale)) ** 2 + log_scale)

    return loss, (np.float64(0.9), np.float64(0.6))


@program
def stopped_target(rng: np.random.Generator) -> Program:
    X, Y = rng.normal(size=(2, 16, 5))

    def loss(W: Any) -> Any:
        goal = wb.stop_gradient(0.9 * np.max(Y @ W, axis=1))
        return np.mean((np.max(X @ W, axis=1) - goal) ** 2)

    return loss, (glorot(rng, 5, 3),)
