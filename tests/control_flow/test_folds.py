"""`map`, `reduce`, `foldl`, `foldr` against Python's own."""

from __future__ import annotations

import functools

import numpy as np

import workbench as wb
from workbench.control_flow import scan


def test_folds_in_both_directions(rng: np.random.Generator) -> None:
    xs = rng.normal(size=6)
    step = lambda x, y: np.sin(y) * x + y  # noqa: E731
    left = functools.reduce(lambda y, x: step(x, y), xs, 0.3)
    right = functools.reduce(lambda y, x: step(x, y), xs[::-1], 0.3)
    assert np.isclose(scan.foldl(step, xs, 0.3), left)
    assert np.isclose(scan.reduce(step, xs, 0.3), left)
    assert np.isclose(scan.foldr(step, xs, 0.3), right)


def test_map_has_the_gradient_of_each_entry(rng: np.random.Generator) -> None:
    xs = rng.normal(size=6)
    g = wb.grad(lambda x: np.sum(scan.map(np.sin, x)))(xs)
    assert np.allclose(g, np.cos(xs))
    pair = scan.map(lambda a, b, c: a * b + c, [xs, xs], 2.0)
    assert np.allclose(pair, xs * xs + 2)
