"""The second half of the programs of many fields: physics, statistics, optima."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench as wb
from tests.checks.doctor.fields import program, single
from tests.checks.doctor.healthy import Program, glorot
from workbench.scipy import special


@program
def rotation_by_quaternion(rng: np.random.Generator) -> Program:
    v = rng.normal(size=(10, 3))

    def f(q: Any) -> Any:
        q = q / np.linalg.norm(q)
        w, u = (q[0], q[1:])
        t = 2 * np.cross(np.broadcast_to(u, v.shape), v)
        r = v + w * t + np.cross(np.broadcast_to(u, v.shape), t)
        return np.sum(r[:, 0])

    return f, (rng.normal(size=4),)


@program
def reaction_rates(rng: np.random.Generator) -> Program:
    R = 8.314
    T = np.linspace(300, 600, 20)
    k = 10000000000000.0 * np.exp(-80000 / (R * T))
    return lambda lA, Ea: np.sum((lA - Ea / (R * T) - np.log(k)) ** 2), (
        np.float64(29.0),
        np.float64(79000.0),
    )


@program
def stiff_decay(rng: np.random.Generator) -> Program:

    def f(k: Any) -> Any:
        y = 1.0
        for _ in range(100):
            y = y / (1 + 0.1 * k)
        return y

    return f, (np.float64(2.0),)


@program
def symmetric_eigenvectors(rng: np.random.Generator) -> Program:

    def f(A: Any) -> Any:
        w, v = np.linalg.eigh(A + A.T)
        return np.sum(w[:2] ** 2) + np.sum(v[:, -1] ** 4)

    return f, (rng.normal(size=(6, 6)),)


@program
def phases(rng: np.random.Generator) -> Program:
    t = rng.normal(size=16) + 1j * rng.normal(size=16)

    def f(p: Any) -> Any:
        return np.sum(np.abs(np.fft.fft(np.exp(1j * p)) - t) ** 2)

    return f, (rng.normal(size=16),)


@program
def proportional_hazards(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(80, 3))
    o = np.argsort(rng.exponential(size=80))[::-1]
    ev = rng.random(80) < 0.7

    def f(w: Any) -> Any:
        e = (X @ w)[o]
        m = np.tril(np.ones((80, 80)))
        return -np.sum(
            (e - wb.logsumexp(np.where(m > 0, e[None, :], -np.inf), axis=1)) * ev
        )

    return f, (np.zeros(3),)


@program
def centred_data(rng: np.random.Generator) -> Program:
    X = (rng.normal(size=(100, 5)) + 100).astype(single)
    return lambda w: np.mean(np.tanh((X - np.mean(X, axis=0)) @ w) ** 2), (
        rng.normal(size=5).astype(single),
    )


@program
def optimal_transport(rng: np.random.Generator) -> Program:
    C = rng.random((20, 20))

    def f(C: Any) -> Any:
        K = -C / 0.05
        u = np.zeros(20)
        v = np.zeros(20)
        for _ in range(50):
            u = -np.log(20) - wb.logsumexp(K + v, axis=1)
            v = -np.log(20) - wb.logsumexp(K + u[:, None], axis=0)
        return np.sum(np.exp(K + u[:, None] + v) * C)

    return f, (C,)


@program
def logistic_margins(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(50, 2))
    t = np.sign(X[:, 0])
    return lambda w: np.mean(np.logaddexp(0, -t * (X @ w))), (np.array([500.0, 0]),)


@program
def confident_log_softmax(rng: np.random.Generator) -> Program:
    z = rng.normal(size=(20, 5))
    t = rng.integers(0, 5, 20)
    z[np.arange(20), t] += 70
    return lambda z: -np.mean(special.log_softmax(z, axis=1)[np.arange(20), t]), (z,)


@program
def bells_far_away(rng: np.random.Generator) -> Program:
    X = (rng.normal(size=(30, 2)) * 10).astype(single)
    return lambda c: np.sum(np.exp(-np.sum((X[:, None] - c) ** 2, -1))), (
        (rng.normal(size=(4, 2)) * 10).astype(single),
    )


@program
def tails_of_a_normal(rng: np.random.Generator) -> Program:
    return lambda x: np.sum(np.log(special.ndtr(x))), (np.linspace(-5, 5, 11),)


@program
def student_t(rng: np.random.Generator) -> Program:
    x = rng.standard_t(3, 50)
    return (
        lambda n: (
            -np.sum(
                special.gammaln((n + 1) / 2)
                - special.gammaln(n / 2)
                - 0.5 * np.log(n * np.pi)
                - (n + 1) / 2 * np.log1p(x * x / n)
            )
        ),
        (np.float64(3),),
    )


@program
def means(rng: np.random.Generator) -> Program:
    y = rng.normal(size=(100, 3))
    return lambda b: np.mean((y - b) ** 2), (np.mean(y, 0),)


@program
def network_of_its_own_data(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(40, 3)).astype(single)
    W = glorot(rng, 3, 8).astype(single)
    w = rng.normal(size=8).astype(single)
    y = np.tanh(X @ W) @ w
    return lambda W, w: np.mean((np.tanh(X @ W) @ w - y) ** 2), (
        W,
        w * single(1 + 2e-07),
    )


@program
def valley_near_its_end(rng: np.random.Generator) -> Program:
    return lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), (
        np.ones(10) + 1e-09,
    )


@program
def heads_of_attention(rng: np.random.Generator) -> Program:
    X = rng.normal(size=(2, 5, 8))

    def f(W: Any) -> Any:
        q, k, v = (np.einsum("btd,dhe->bhte", X, w) for w in W)
        s = np.einsum("bhte,bhse->bhts", q, k) / 2
        e = np.exp(s - s.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return np.mean(np.einsum("bhts,bhse->bhte", p, v) ** 2)

    return f, (rng.normal(size=(3, 8, 2, 4)),)


@program
def power_iteration(rng: np.random.Generator) -> Program:
    A = rng.normal(size=(6, 6))
    A = A @ A.T

    def f(A: Any) -> Any:
        v = np.ones(6)
        for _ in range(30):
            v = A @ v
            v = v / np.sqrt(v @ v)
        return v @ A @ v

    return f, (A,)


@program
def gravity(rng: np.random.Generator) -> Program:
    G = 6.674e-11
    return lambda m1, m2, r: G * m1 * m2 / r**2, (
        np.float64(5.97e24),
        np.float64(7.35e22),
        np.float64(384000000.0),
    )


@program
def resonance(rng: np.random.Generator) -> Program:
    return lambda R, C, L: 1 / (2 * np.pi * np.sqrt(L * C)) + R * 0.1, (
        np.float64(1000.0),
        np.float64(1e-12),
        np.float64(1e-09),
    )


@program
def diode(rng: np.random.Generator) -> Program:
    v = np.linspace(0, 0.7, 30)
    return lambda Is, n: np.sum((Is * np.expm1(v / (n * 0.02585))) ** 2), (
        np.float64(1e-14),
        np.float64(1.0),
    )


@program
def carriers(rng: np.random.Generator) -> Program:
    kT = 0.02585
    return lambda Eg: np.sqrt(2.8e19 * 1.04e19) * np.exp(-Eg / (2 * kT)), (
        np.float64(1.12),
    )


@program
def masked_logits(rng: np.random.Generator) -> Program:
    m = np.where(rng.random((4, 9)) < 0.5, single(0), single(-np.inf))
    m[:, 0] = 0

    def f(z: Any) -> Any:
        s = z + m
        return -np.mean(s[:, 0] - wb.logsumexp(s, axis=1))

    return f, (rng.normal(size=(4, 9)).astype(single),)


@program
def largest_three(rng: np.random.Generator) -> Program:

    def f(x: Any) -> Any:
        return np.sum(np.sort(x)[-3:] ** 2)

    return f, (rng.normal(size=10),)


@program
def graph_convolution(rng: np.random.Generator) -> Program:
    A = (rng.random((12, 12)) < 0.2) * 1.0
    A = A + A.T
    d = A.sum(1)
    Dm = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0)
    An = Dm[:, None] * A * Dm
    X = rng.normal(size=(12, 4))
    return lambda W, V: np.mean((np.maximum(An @ X @ W, 0) @ V) ** 2), (
        glorot(rng, 4, 8),
        glorot(rng, 8, 2),
    )


@program
def scanned_decay(rng: np.random.Generator) -> Program:
    return lambda h, a: np.sum(
        wb.scan(
            lambda t, h, a: h * np.exp(-a) + 0 * t,
            np.arange(50.0),
            h,
            non_sequences=[a],
        )
    ), (np.ones(3), np.float64(0.5))


@program
def free_energy(rng: np.random.Generator) -> Program:
    E = rng.normal(size=30) * 50
    return lambda b: -wb.logsumexp(-b * E) / b, (np.float64(10.0),)
