"""Whole programs, as the fields write them: each derivative against differences.

Every program is a function of arrays that returns one number, and runs on plain arrays
too. Its gradient, tangent, Hessian, and gradients of a batch are compared with
extrapolated differences of the plain run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import workbench as wb
from workbench.scipy import linalg, ndimage, optimize, sparse, stats
from workbench.scipy.integrate import odeint
from workbench.scipy.sparse.linalg import spsolve

DRAW = np.random.default_rng(0)
normal = DRAW.normal


@dataclass(frozen=True)
class Case:
    """A program, where it is differentiated, and to how many digits."""

    run: Callable[..., Any]
    at: tuple[Any, ...]
    tolerance: float


CASES: list[Any] = []


def program(*at: Any, tolerance: float = 1e-7) -> Callable[[Any], Any]:
    """Add the function to the programs, to be differentiated at ``at``."""

    def add(run: Callable[..., Any]) -> Callable[..., Any]:
        args = tuple(np.asarray(a, float) for a in at)
        CASES.append(pytest.param(Case(run, args, tolerance), id=run.__name__))
        return run

    return add


# Estimation

PLACES, FOUND = normal(size=(12, 3)), normal(size=12)


@program(np.array([0.1, -0.2, 0.3]), 0.2, -1.5)
def gaussian_process(lengths: Any, size: Any, noise: Any) -> Any:
    """The negative log marginal likelihood, Rasmussen and Williams algorithm 2.1."""
    z = PLACES / np.exp(lengths)
    apart = np.sum((z[:, None] - z) ** 2, -1)
    k = np.exp(2 * size - 0.5 * apart) + np.exp(2 * noise) * np.eye(len(z))
    factor = linalg.cholesky(k, lower=True)
    alpha = linalg.cho_solve((factor, True), FOUND)
    return 0.5 * FOUND @ alpha + np.sum(np.log(np.diag(factor)))


SEEN = np.cumsum(normal(size=(6, 1)), 0)


@program(np.array([0.9, 0.1]), -1.0, -0.5)
def kalman_smoother(a: Any, drift: Any, noise: Any) -> Any:
    """Filter forward, smooth backward, in a loop over lists."""
    f = np.array([[1.0, a[0]], [0.0, 0.8 + a[1]]], like=a)
    h = np.array([[1.0, 0.0]])
    m, p, total = np.zeros(2), np.eye(2), 0.0
    kept = []
    for y in SEEN:
        m_ahead, p_ahead = f @ m, f @ p @ f.T + np.exp(drift) * np.eye(2)
        s = h @ p_ahead @ h.T + np.exp(noise) * np.eye(1)
        off = y - h @ m_ahead
        gain = np.linalg.solve(s, h @ p_ahead).T
        m, p = m_ahead + gain @ off, p_ahead - gain @ s @ gain.T
        total = total - 0.5 * (off @ np.linalg.solve(s, off) + np.linalg.slogdet(s)[1])
        kept.append((m, p, m_ahead, p_ahead))
    smooth = [m]
    for k in reversed(range(len(kept) - 1)):
        back = kept[k][1] @ f.T @ np.linalg.inv(kept[k + 1][3])
        smooth.append(kept[k][0] + back @ (smooth[-1] - kept[k + 1][2]))
    return total + np.mean((np.stack(smooth[::-1])[:, 0] - SEEN[:, 0]) ** 2)


HEARD = DRAW.integers(0, 4, 10)


@program(normal(size=(3, 3)), normal(size=(3, 4)), normal(size=3))
def hidden_markov(moves: Any, sounds: Any, start: Any) -> Any:
    """The likelihood of a sequence by the forward algorithm, in logarithms."""
    moves = moves - wb.logsumexp(moves, axis=1, keepdims=True)
    sounds = sounds - wb.logsumexp(sounds, axis=1, keepdims=True)
    at = start - wb.logsumexp(start) + sounds[:, HEARD[0]]
    for k in HEARD[1:]:
        at = np.logaddexp.reduce(at[:, None] + moves, axis=0) + sounds[:, k]
    return np.logaddexp.reduce(at)


TIMES, ENDED = DRAW.weibull(1.5, 12) + 0.05, DRAW.random(12) < 0.7
GROUPS = normal(size=(12, 2))


@program(0.3, 0.1, np.array([0.2, -0.1]))
def survival(shape: Any, scale: Any, weights: Any) -> Any:
    """Weibull regression with censored times, and Cox's partial likelihood."""
    risk = GROUPS @ weights
    law = stats.weibull_min(np.exp(shape), scale=np.exp(scale + risk))
    parametric = np.where(ENDED, law.logpdf(TIMES), law.logsf(TIMES)).sum()
    order = np.argsort(-TIMES)
    cox = (risk[order] - np.logaddexp.accumulate(risk[order]))[ENDED[order]]
    return -parametric - np.sum(cox)


LEVELS = np.array([0, 1, 2, 2, 1, 0, 0, 1, 2, 1, 0, 2])


@program(np.array([0.3, 0.5]), np.array([0.2, 1.4]))
def ordered_probit(weights: Any, cuts: Any) -> Any:
    """Classes between cuts, the outermost at infinity."""
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    score = GROUPS @ weights
    return -np.sum(
        np.log(sp.ndtr(ends[LEVELS + 1] - score) - sp.ndtr(ends[LEVELS] - score))
    )


# Networks

WORDS = normal(size=(2, 4, 6))


@program(normal(size=(6, 18)) * 0.3, normal(size=(6, 6)) * 0.3)
def attention(into: Any, out: Any) -> Any:
    """Two causal heads and a layer norm."""
    n, t, d = WORDS.shape
    parts = np.split(WORDS @ into, 3, axis=-1)
    q, k, v = (x.reshape(n, t, 2, d // 2).transpose(0, 2, 1, 3) for x in parts)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d // 2)
    s = np.where(np.tril(np.ones((t, t), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    h = (p @ v).transpose(0, 2, 1, 3).reshape(n, t, d) @ out
    h = (h - h.mean(-1, keepdims=True)) / (h.std(-1, keepdims=True) + 1e-6)
    return np.sum(h[..., 0] ** 2)


@program(normal(size=(5, 2)) * 0.5, normal(size=5) * 0.5)
def physics_informed(inner: Any, outer: Any) -> Any:
    """The residual of a Poisson equation: a Hessian at every point of a grid."""

    def u(p: Any) -> Any:
        return outer @ np.sin(inner @ p)

    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 3)] * 2), -1).reshape(-1, 2)
    laplacian = np.trace(wb.vmap(wb.hessian(u))(grid), axis1=1, axis2=2)
    flow = wb.vmap(wb.grad(u))(grid)
    return np.mean((laplacian + np.sum(flow**2, 1) + np.sin(grid[:, 0])) ** 2)


# Fields and bodies

ENDS = np.array([[i, i + 1] for i in range(7)])


@program(1 + 0.1 * np.arange(7), np.ones(8))
def finite_elements(stiffness: Any, load: Any) -> Any:
    """The compliance of a bar, clamped at one end: sparse assembly and solve."""
    blocks = stiffness[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    rows, columns = np.repeat(ENDS, 2, axis=1).ravel(), np.tile(ENDS, (1, 2)).ravel()
    k = sparse.coo_array((blocks.ravel(), (rows, columns)), shape=(8, 8)).tocsc()
    return load[1:] @ spsolve(k[1:, 1:], load[1:])


@program(np.array([1.1, 0.4, 0.1, 0.4]), np.array([2.0, 1.0]), tolerance=1e-5)
def predator_and_prey(rates: Any, start: Any) -> Any:
    """A fit to an ordinary differential equation."""

    def slope(y: Any, t: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return [a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]]

    times = np.linspace(0, 2, 5)
    y = odeint(slope, start, times, args=tuple(rates), rtol=1e-10, atol=1e-10)
    return np.mean((y - 1) ** 2)


@program(normal(size=(4, 2)), normal(size=(4, 2)) * 0.1, np.ones(4))
def bodies(q: Any, v: Any, mass: Any) -> Any:
    """Leapfrog steps of bodies that attract each other; the energy at the end."""

    def pull(q: Any) -> Any:
        d = q - q[:, None]
        return np.einsum("ijk,ij,j->ik", d, (np.sum(d**2, -1) + 0.05) ** -1.5, mass)

    for _ in range(5):
        v = v + 0.05 * pull(q)
        q = q + 0.1 * v
        v = v + 0.05 * pull(q)
    i, j = np.triu_indices(4, 1)
    apart = np.sqrt(np.sum((q[i] - q[j]) ** 2, -1) + 0.05)
    return 0.5 * mass @ np.sum(v**2, -1) - np.sum(mass[i] * mass[j] / apart) + q[0, 0]


# Signals and shapes


@program(normal(size=4), normal(size=4), 0.3)
def beam(real: Any, imaginary: Any, angle: Any) -> Any:
    """A complex array of antennas, and the one that hears least from elsewhere."""
    w = real + 1j * imaginary

    def steer(t: Any) -> Any:
        return np.exp(1j * np.pi * np.arange(4) * np.sin(t))

    r = 0.1 * np.eye(4) + np.outer(steer(0.8), steer(0.8).conj())
    best = np.linalg.solve(r, steer(angle))
    best = best / (steer(angle).conj() @ best)
    heard = np.abs(np.vdot(w, steer(angle))) ** 2 / np.real(w.conj() @ r @ w)
    return heard + np.abs(np.vdot(best, w)) + np.angle(np.vdot(w, steer(angle)))


CLOUD = normal(size=(6, 3))


@program(normal(size=(6, 3)), normal(size=3))
def registration(points: Any, shift: Any) -> Any:
    """Kabsch's rotation between two clouds, by the singular value decomposition."""
    a, b = points - points.mean(0), CLOUD + shift - (CLOUD + shift).mean(0)
    u, _, vh = np.linalg.svd(a.T @ b)
    turn = vh.T @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vh))]) @ u.T
    angle = np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))
    return np.sum((a @ turn.T - b) ** 2) + angle + shift @ shift


@program(DRAW.random((6, 6)), 1.2)
def edges(image: Any, width: Any) -> Any:
    """The variation of a blurred picture, by the picture and the width of the blur."""
    smooth = ndimage.gaussian_filter(image, width, radius=3)
    down = ndimage.correlate1d(smooth, [-1, 0, 1], axis=0, mode="nearest")
    across = ndimage.correlate1d(smooth, [-1, 0, 1], axis=1, mode="wrap")
    return np.sum(np.sqrt(down**2 + across**2 + 1e-2))


# Problems inside of problems


@program(np.array([0.1, 0.2, -0.3]))
def hyperparameters(penalty: Any) -> Any:
    """The validation loss of a regression, by the penalty it was fitted with."""

    def stationary(w: Any) -> Any:
        error = PLACES[:8] @ w - FOUND[:8]
        return PLACES[:8].T @ error + np.exp(penalty) * w + 0.1 * np.tanh(w)

    def newton(f: Any, w: Any) -> Any:
        for _ in range(12):
            w = w - np.linalg.solve(wb.jacobian(f)(w), f(w))
        return w

    w = wb.custom_root(stationary, np.zeros(3), newton)
    return np.mean((PLACES[8:] @ w - FOUND[8:]) ** 2)


@program(0.3, 0.7)
def orbit(eccentricity: Any, mean_anomaly: Any) -> Any:
    """Kepler's equation by bracketing, inside a position."""
    e = optimize.brentq(
        lambda e: e - eccentricity * np.sin(e) - mean_anomaly, 0.0, 4.0, xtol=1e-14
    )
    return np.cos(e) - eccentricity + np.sqrt(1 - eccentricity**2) * np.sin(e)


# The comparison


def differences(f: Callable[..., Any], at: Any, along: Any) -> Any:
    """The derivative of a plain run along a direction: error of order h**6."""

    def central(h: float) -> Any:
        ahead = f(*[a + h * t for a, t in zip(at, along, strict=True)])
        return (ahead - f(*[a - h * t for a, t in zip(at, along, strict=True)])) / h / 2

    d = [central(h) for h in (2e-3, 1e-3, 5e-4)]
    e = [(4 * d[1] - d[0]) / 3, (4 * d[2] - d[1]) / 3]
    return (16 * e[1] - e[0]) / 15


def pairing(a: Any, b: Any) -> Any:
    return sum(np.sum(x * y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_every_derivative_of_a_program(case: Case) -> None:
    f, at = case.run, case.at
    places = tuple(range(len(at)))
    rng = np.random.default_rng(1)
    along, other = ([0.3 * rng.normal(size=a.shape) for a in at] for _ in range(2))
    gradient = wb.grad(f, places)

    def close(actual: Any, expected: Any) -> None:
        scale = max(1.0, float(np.max(np.abs(expected))))
        np.testing.assert_allclose(actual, expected, atol=case.tolerance * scale)

    value, g = wb.value_and_grad(f, places)(*at)
    np.testing.assert_allclose(value, f(*at), rtol=1e-12)
    slope = differences(f, at, along)
    close(pairing(g, along), slope)
    close(wb.jvp(f, at, tuple(along))[1], slope)

    # First derivatives are right by now, so their differences are a truth.
    curvature = differences(lambda *a: pairing(gradient(*a), other), at, along)
    close(pairing(wb.hvp(f, at, tuple(along)), other), curvature)
    close(pairing(wb.hvp(f, at, tuple(other)), along), curvature)

    batch = [np.stack([a, a + 0.02 * t]) for a, t in zip(at, along, strict=True)]
    for k, each in enumerate(wb.vmap(gradient)(*batch)):
        for i in range(2):
            single = gradient(*[b[i] for b in batch])[k]
            np.testing.assert_allclose(each[i], single, rtol=1e-7, atol=1e-9)
