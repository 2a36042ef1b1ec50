"""Patterns of random programs against differences of plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import workbench as wb

N = 6
Step = Callable[[list[Any]], Any]

MATRIX = np.where(np.arange(N * N).reshape(N, N) % 5 < 2, 0.3, 0.0)
PICKED = np.array([5, 0, 0, 3, 2, 2])

#: From a vector of N entries to one of N entries; smooth everywhere, with slopes that
#: vanish nowhere.
UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": lambda a: np.exp(0.3 * a),
    "tanh": lambda a: np.tanh(a),
    "square": lambda a: (a + 3) ** 2 / 8,
    "double": lambda a: 0.5 * a,
    "roll": lambda a: np.roll(a, 1),
    "flip": lambda a: a[::-1],
    "pick": lambda a: a[PICKED],
    "half": lambda a: np.concatenate([a[:3], np.ones(3)]),
    "pad": lambda a: np.pad(a[1:-1], 1),
    "scale": lambda a: a / (1 + np.sum(a[:2] ** 2)),
    "pairs": lambda a: np.repeat(np.sum(a.reshape(3, 2), axis=1), 2),
    "matrix": lambda a: MATRIX @ a,
    "cumulate": lambda a: 0.3 * np.cumsum(a),
    "set": lambda a: wb.at(a)[2:4].set(a[:2]),
    "add": lambda a: wb.at(a)[PICKED].add(0.3 * a),
    "filter": lambda a: np.convolve(a, [0.5, 0.25], "same"),
    "loop": lambda a: wb.scan(
        lambda r, c: 0.5 * c + r, a, initial=0.3 * a[0]
    ),
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "plus": lambda a, b: a + b,
    "times": lambda a, b: a * b / 2,
    "over": lambda a, b: a / (2 + b**2),
    "dot": lambda a, b: np.tile((a.reshape(2, 3) @ b.reshape(3, 2))[0], 3) / 3,
    "outer": lambda a, b: (a[:2, None] * b[None, :3]).reshape(-1) / 2,
    "join": lambda a, b: np.concatenate([a[:3], b[3:]]),
}  # fmt: skip

moves = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 9)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)),
)
programs = st.lists(moves, min_size=1, max_size=7)


def run(program: list[Any], x: Any) -> Any:
    values = [x]
    for name, *places in program:
        taken = [values[-1 - p % len(values)] for p in places]
        made = UNARY[name](*taken) if name in UNARY else BINARY[name](*taken)
        values.append(made)
    return values[-1]


def difference(f: Callable[[Any], Any], x: np.ndarray, h: float) -> np.ndarray:
    units = h * np.eye(x.size)
    return np.stack([np.ravel(f(x + u) - f(x - u)) / (2 * h) for u in units], axis=1)


def check(program: list[Any], seed: int) -> None:
    note(f"seed {seed}")
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.5, 1.5, (3, N))
    f = lambda x: run(program, x)  # noqa: E731
    pattern = wb.sparsity(f, points[0])
    assert not pattern.dense_ops
    assert not pattern.notes
    marks = pattern.toarray()
    for x in points:
        found = difference(f, x, 1e-5)
        assert not np.any((np.abs(found) > 1e-7) & ~marks)
        here = wb.sparsity(f, x, local=True)
        assert pattern.contains(here)
        assert not np.any((np.abs(found) > 1e-7) & ~here.toarray())
    weights = rng.uniform(0.5, 1.5, N)
    total = lambda x: np.sum(weights * run(program, x))  # noqa: E731
    hessian = wb.sparsity(total, points[0], order=2)
    assert hessian == hessian.T
    assert wb.sparsity(f, points[0], order=2) == hessian
    slope = wb.grad(total)
    found = difference(slope, points[0], 1e-5)
    assert not np.any((np.abs(found) > 1e-6) & ~hessian.toarray())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, st.integers(0, 2**32 - 1))
def test_random_programs(program: list[Any], seed: int) -> None:
    check(program, seed)


@pytest.mark.long
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, st.integers(0, 2**32 - 1))
def test_a_thousand_random_programs(program: list[Any], seed: int) -> None:
    check(program, seed)
