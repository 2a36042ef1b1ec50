"""Faults, one of each kind, hidden in a healthy network of any length.

A network is a chain of residual layers, which keep values and gradients at the size
they have; a fault takes the state and gives the next, and names the nodes that are to
blame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from workbench.scipy import special

ROWS, UNITS = 24, 8
Fault = Callable[[Any, np.random.Generator], tuple[Any, list[Any]]]
#: The faults by name, with the kinds that a finding may give them.
FAULTS: dict[str, tuple[Fault, set[str]]] = {}
#: Those of programs in float32.
NARROW: set[str] = set()


def fault(*kinds: str, narrow: bool = False) -> Callable[[Fault], Fault]:
    """Add a fault under its name."""

    def add(plant: Fault) -> Fault:
        FAULTS[plant.__name__] = plant, set(kinds)
        if narrow:
            NARROW.add(plant.__name__)
        return plant

    return add


def weights(rng: np.random.Generator, scale: float = 1.0) -> Any:
    return np.linalg.qr(rng.normal(size=(UNITS, UNITS)))[0] * scale


def hole(rng: np.random.Generator) -> Any:
    """Ones, and 0 at a few entries."""
    made = np.ones((ROWS, UNITS))
    made.flat[rng.choice(made.size, 3, replace=False)] = 0
    return made


# Healthy layers


def _dense(h: Any, rng: np.random.Generator) -> Any:
    return h + 0.3 * np.tanh(h @ weights(rng).astype(h.dtype) + 0.1)


def _wave(h: Any, rng: np.random.Generator) -> Any:
    return h + 0.1 * np.sin(h * rng.uniform(0.5, 2))


def _soft(h: Any, rng: np.random.Generator) -> Any:
    return h + 0.1 * np.logaddexp(0, h)


def _relu(h: Any, rng: np.random.Generator) -> Any:
    return h + 0.1 * np.maximum(h @ weights(rng).astype(h.dtype), 0)


def _norm(h: Any, rng: np.random.Generator) -> Any:
    centred = h - np.mean(h, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-3)


def _rational(h: Any, rng: np.random.Generator) -> Any:
    return h + 0.1 * h / (1 + h**2)


def _attend(h: Any, rng: np.random.Generator) -> Any:
    mask = np.where(np.tril(np.ones((ROWS, ROWS), bool)), 0, -np.inf).astype(h.dtype)
    scores = h @ h.T / UNITS + mask
    return h + 0.1 * np.exp(scores - wb.logsumexp(scores, axis=1, keepdims=True)) @ h


LAYERS = [_dense, _wave, _soft, _relu, _rational, _dense, _wave, _attend]


def network(
    size: int, name: str, rng: np.random.Generator
) -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
    """A network of about so many nodes with a fault, and a list for who is to blame."""
    plant = FAULTS[name][0] if name else None
    seed = int(rng.integers(2**31))
    each = 6.5
    count = max(1, int((size - 6) / each))
    place = int(rng.integers(count))
    blamed: list[Any] = []

    def loss(x: Any, w: Any) -> Any:
        rng = np.random.default_rng(seed)
        h = _norm(x, rng) * w
        for k in range(count):
            if plant is not None and k == place:
                h, found = plant(h, rng)
                blamed[:] = found
                continue
            h = LAYERS[int(rng.integers(len(LAYERS)))](h, rng)
            if k % 4 == 3:
                h = _norm(h, rng)
        return np.mean(h**2) + np.mean(np.sin(h))

    x, w = rng.normal(size=(ROWS, UNITS)), rng.uniform(0.8, 1.2, UNITS)
    if name in NARROW:
        x, w = x.astype(np.float32), w.astype(np.float32)
    return loss, (x, w), blamed


# Values that are not finite


@fault("log-of-zero")
def log_of_zero(h: Any, rng: np.random.Generator) -> Any:
    y = np.log(np.maximum(h, 0))
    return h + 0.1 * y, [y]


@fault("log-of-negative")
def log_of_negative(h: Any, rng: np.random.Generator) -> Any:
    y = np.log(h)
    return h + 0.1 * y, [y]


@fault("sqrt-of-negative")
def sqrt_of_negative(h: Any, rng: np.random.Generator) -> Any:
    y = np.sqrt(h)
    return h + 0.1 * y, [y]


@fault("division-by-zero")
def division_by_zero(h: Any, rng: np.random.Generator) -> Any:
    y = 1 / (h * hole(rng))
    return h + 0.1 * np.tanh(y) * y, [y]


@fault("power-of-negative")
def power_of_negative(h: Any, rng: np.random.Generator) -> Any:
    y = h**1.5
    return h + 0.1 * y, [y]


@fault("outside-domain")
def arccos_outside(h: Any, rng: np.random.Generator) -> Any:
    y = np.arccos(3 * h)
    return h + 0.1 * y, [y]


@fault("overflow")
def exponential_overflow(h: Any, rng: np.random.Generator) -> Any:
    y = np.exp(2000 * np.abs(h))
    return h + 0.1 * np.log(y), [y]


@fault("overflow")
def infinity_times_zero(h: Any, rng: np.random.Generator) -> Any:
    y = np.exp(2000 * np.abs(h))
    return h + 0.1 * (y * hole(rng) * 0), [y]


@fault("overflow")
def infinity_less_infinity(h: Any, rng: np.random.Generator) -> Any:
    y = np.exp(2000 * np.abs(h) + 800)
    return h + 0.1 * (y - np.max(y, axis=1, keepdims=True)), [y]


@fault("overflow", narrow=True)
def float32_overflow(h: Any, rng: np.random.Generator) -> Any:
    y = (h * np.float32(1e25)) ** 2
    return h + np.float32(0.1) * np.log1p(y), [y]


@fault("inf-minus-inf")
def masked_row(h: Any, rng: np.random.Generator) -> Any:
    keep = np.ones((ROWS, UNITS), bool)
    keep[rng.integers(ROWS)] = False
    s = np.where(keep, h, -np.inf)
    y = s - np.max(s, axis=1, keepdims=True)
    return h + 0.1 * np.exp(y), [y]


# Slopes that are not finite


@fault("infinite-slope")
def root_at_zero(h: Any, rng: np.random.Generator) -> Any:
    y = np.sqrt((h * hole(rng)) ** 2)
    return h + 0.1 * y, [y]


@fault("infinite-slope")
def length_at_zero(h: Any, rng: np.random.Generator) -> Any:
    keep = np.ones((ROWS, 1))
    keep[rng.integers(ROWS)] = 0
    y = np.sqrt(np.sum((h * keep) ** 2, axis=1, keepdims=True))
    return h + 0.1 * y, [y]


@fault("infinite-slope")
def power_at_zero(h: Any, rng: np.random.Generator) -> Any:
    y = np.abs(h * hole(rng)) ** 0.5
    return h + 0.1 * y, [y]


@fault("infinite-slope")
def arccos_at_its_edge(h: Any, rng: np.random.Generator) -> Any:
    y = np.arccos(np.clip(20 * h, -1, 1))
    return h + 0.1 * y, [y]


@fault("overflow")
def sigmoid_by_hand(h: Any, rng: np.random.Generator) -> Any:
    y = np.exp(-3000 * np.abs(h) * np.sign(h))
    return h + 0.1 * (1 / (1 + y)), [y]


# Gradients that are 0


@fault("dead-relu")
def dead_layer(h: Any, rng: np.random.Generator) -> Any:
    y = np.maximum(h @ weights(rng) - 50, 0)
    return h + 0.1 * (y @ weights(rng)), [y]


@fault("dead-relu")
def dead_units(h: Any, rng: np.random.Generator) -> Any:
    bias = np.zeros(UNITS)
    bias[rng.choice(UNITS, 6, replace=False)] = -50
    y = np.maximum(h @ weights(rng) + bias, 0)
    return h + 0.1 * (y @ weights(rng)), [y]


@fault("saturated")
def saturated_tanh(h: Any, rng: np.random.Generator) -> Any:
    y = np.tanh(h @ weights(rng, 2000.0))
    return h + 0.1 * (y @ weights(rng)), [y]


@fault("saturated")
def saturated_sigmoid(h: Any, rng: np.random.Generator) -> Any:
    z = h @ weights(rng)
    y = 1 / (1 + np.exp(-(60 + z)))
    return h + 0.1 * (y @ weights(rng)), [y]


@fault("rounded")
def rounded(h: Any, rng: np.random.Generator) -> Any:
    y = np.rint(3 * h)
    return y / 3 + np.linspace(0, 1, UNITS), [y]


@fault("compared")
def compared(h: Any, rng: np.random.Generator) -> Any:
    y = h > 0
    return y * 1.0 + np.linspace(0, 1, UNITS), [y]


@fault("cast-to-integer")
def cast_to_integer(h: Any, rng: np.random.Generator) -> Any:
    y = (3 * h).astype(int)
    return y / 3 + np.linspace(0, 1, UNITS), [y]


@fault("stopped")
def stopped(h: Any, rng: np.random.Generator) -> Any:
    y = wb.stop_gradient(h)
    return y + np.linspace(0, 1, UNITS), [y]


# Sizes


@fault("vanishing")
def vanishing(h: Any, rng: np.random.Generator) -> Any:
    found = []
    for _ in range(14):
        z = h @ weights(rng, 0.15)
        h = np.tanh(z)
        found += [z, h]
    return h + np.linspace(-1, 1, UNITS), found


@fault("exploding")
def exploding(h: Any, rng: np.random.Generator) -> Any:
    found = []
    for _ in range(8):
        z = h @ weights(rng, 60.0)
        h = np.sin(z)
        found += [z, h]
    return h, found


# Digits


@fault("cancellation")
def cosine_near_zero(h: Any, rng: np.random.Generator) -> Any:
    y = 1 - np.cos(1e-7 * h)
    return h + 0.5 * (y / 1e-14), [y]


@fault("cancellation")
def exponential_near_zero(h: Any, rng: np.random.Generator) -> Any:
    y = np.exp(1e-13 * h) - 1
    return h + 0.5 * (y / 1e-13), [y]


@fault("cancellation", "lost-digits")
def logarithm_near_one(h: Any, rng: np.random.Generator) -> Any:
    s = 1 + 1e-13 * h
    y = np.log(s)
    return h + 0.5 * (y / 1e-13), [s, y]


@fault("cancellation")
def large_offset(h: Any, rng: np.random.Generator) -> Any:
    y = (np.tanh(h) + 3e13) - 3e13
    return h + 0.5 * y, [y]


@fault("cancellation", narrow=True)
def float32_variance(h: Any, rng: np.random.Generator) -> Any:
    z = h + np.float32(3000)
    y = np.mean(z**2, axis=0) - np.mean(z, axis=0) ** 2
    return h + np.float32(0.5) * y, [y]


# Inside a loop


@fault("sqrt-of-negative")
def negative_in_a_loop(h: Any, rng: np.random.Generator) -> Any:
    ys = wb.scan(
        lambda t, c: np.sqrt(c - 1e-3 * t), np.arange(6.0), np.abs(h) * hole(rng)
    )
    return h + 0.1 * ys[-1], [ys.inputs[0] if ys.op.name == "item" else ys]


# Programs of one fault, which no layer of a network shows


@wb.custom_vjp
def _bad_rule(x: Any) -> Any:
    return 2 * x


_bad_rule.defvjp(lambda x: (2 * x, x), lambda x, g: (np.full(2, np.nan),))


def _raise_halfway(x: Any) -> Any:
    total = np.sum(x)
    raise ValueError(f"of {total}")


#: A program and its arguments by the kind of its one finding.
ALONE: dict[str, tuple[Callable[..., Any], *tuple[Any, ...]]] = {
    "chosen": (lambda x: 1.0 * np.argmax(x), np.ones(3)),
    "convention": (lambda x: np.cos(np.linalg.norm(x)) + np.sum(x), np.zeros(3)),
    "disconnected": (lambda x, y: np.sum(x), np.ones(3), np.ones(2)),
    "float32-contradicted": (
        lambda x: np.sum(np.sin(np.float32(1e5) * x)),
        np.full(3, 1.1, np.float32),
    ),
    "gradient-overflow": (lambda x: np.sum(x * 1e200 * 1e200), np.full(3, 1e-300)),
    "input-not-finite": (lambda x: np.sum(x), np.array([1, np.nan])),
    "near-overflow": (lambda x: np.sum(np.log(1 + np.exp(x))), np.array([1, 690.0])),
    "no-derivative": (lambda x: np.sum(np.spacing(x)), np.ones(3)),
    "not-finite": (lambda x: np.sum(np.sin(x + np.array([np.inf, 0]))), np.ones(2)),
    "override-not-finite": (lambda x: np.sum(np.arctan(x)), np.ones(2)),
    "pole": (lambda x: np.sum(special.digamma(x)), np.array([1.0, 0])),
    "raised": (_raise_halfway, np.ones(2)),
    "rule-not-finite": (lambda x: np.sum(_bad_rule(x)), np.ones(2)),
    "singular-matrix": (
        lambda a: np.sum(np.linalg.inv(a)),
        np.array([[1, 1], [1, 1 + 1e-15]]),
    ),
    "undetermined": (lambda a: np.linalg.eigh(a)[1][0, 0], np.eye(3)),
    "zero-gradient": (lambda x: np.sum(x * np.zeros(3)), np.ones(3)),
    "zero-times-inf": (lambda x: np.sum(x * np.array([np.inf, 1])), np.array([0.0, 1])),
}
