"""Contractions: what no row of the samples can show."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb


@pytest.mark.parametrize(("m", "n"), [(2, 3), (3, 2), (2, 2)])
def test_cross_of_vectors_in_the_plane(
    m: int, n: int, rng: np.random.Generator
) -> None:
    """NumPy warns that they are deprecated; the third entry is 0."""
    a, b = rng.normal(size=(4, m)), rng.normal(size=n)

    def whole(a: Any, b: Any) -> Any:
        y = np.cross(np.pad(a, ((0, 0), (0, 3 - m))), np.pad(b, (0, 3 - n)))
        return y if m + n > 4 else y[..., 2]

    value, pullback = wb.vjp(lambda a, b: np.cross(a, b), a, b)
    truth, expected = wb.vjp(whole, a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        np.testing.assert_allclose(value, np.cross(a, b), rtol=1e-15)
    np.testing.assert_allclose(value, truth, rtol=1e-15)
    seed = rng.normal(size=value.shape)
    for got, want in zip(pullback(seed), expected(seed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_einsum_of_many_takes_the_short_way(rng: np.random.Generator) -> None:
    """In one loop over all letters this would take 100**6 steps: weeks."""
    arrays = [rng.normal(size=(100, 100)) for _ in range(5)]
    gradients = wb.grad(lambda *a: np.einsum("ij,jk,kl,lm,mn->", *a), tuple(range(5)))(
        *arrays
    )
    a, b, _, d, e = arrays
    one = np.ones(100)
    np.testing.assert_allclose(
        gradients[2], np.outer(b.T @ a.T @ one, d @ e @ one), rtol=1e-10
    )


def test_opt_einsum_loads_when_it_is_needed() -> None:
    program = """
import sys, numpy as np, workbench as wb
wb.grad(lambda a: np.einsum("ij,jk->", a, a))(np.ones((100, 100)))
assert "opt_einsum" not in sys.modules
wb.grad(lambda a: np.einsum("ij,jk,kl->", a, a, a))(np.ones((100, 100)))
assert "opt_einsum" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_einsum_path_looks_at_shapes() -> None:
    found = []

    def f(a: Any) -> Any:
        found.append(np.einsum_path("ij,jk,kl->il", a, a.T, a)[0])
        return np.sum(a)

    wb.trace(f)(wb.Spec((3, 4), float))
    assert found == [["einsum_path", (0, 1), (0, 1)]]
