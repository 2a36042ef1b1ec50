"""Every op of the table: its pattern against differences of plain NumPy and SciPy.

What differences find nonzero at a point must be a place of the pattern. Where all ops
of a program say exactly what they read, both are equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.sparse.exactness import draw, find_columns, find_truth
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from workbench.autodiff.sparse.sparsity import trace_specs

NAMED = {sample.name: (sample,) for sample in SAMPLES}

#: Ops that say exactly which entries they read, besides smooth elementwise ones.
EXACT = set(
    "astype broadcast_to concatenate convolve convolve_nd copy cumsum einsum flip"
    " getitem index_add index_set item linspace logsumexp make_like full_like matmul"
    " mean pad repeat reshape roll scatter span sparse_matmul sparse_sample stack std"
    " sum tensordot tile transpose tril triu unbroadcast unspan var windows"
    " overlap_add arange length cholesky qr solve_triangular".split()
)
#: Elementwise ops of which only a part counts at a point, or whose slopes vanish.
PARTIAL = set(
    "absolute fabs clip heaviside sign direction maximum minimum fmax fmin copysign"
    " imag real arctan2 where isnan equal less greater".split()
)
#: Samples whose numbers make a place vanish that their ops have.
VANISHING = {
    "at multiply by zeros", "corrcoef", "corrcoef of complex", "fftfreq",
    "gaussian_filter of order 1", "gaussian_filter of order 3", "interp of complex",
    "like=", "linalg.leslie", "matrix_power 0", "poly", "poly of complex",
    "power of negative", "radian", "rel_entr outside", "store elimination", "tril triu",
    "vander", "vander increasing",
}  # fmt: skip


def is_exact(sample: Sample, args: list[np.ndarray]) -> bool:
    """Return whether all ops of a program say exactly what they read."""
    if sample.name in VANISHING or " of degrees" in sample.name:
        return False
    graph = trace_specs(sample.f, tuple(args), tuple(range(len(args))))
    return all(
        node.op.name in EXACT or (node.op.elementwise and node.op.name not in PARTIAL)
        for node in graph.interior
    )


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def check_sample(
    sample: Sample, points: int, rng: np.random.Generator, tight: bool = False
) -> None:
    args = draw(sample, rng)
    pattern = wb.sparsity(sample.f, *args, argnums=tuple(range(len(args))))
    if pattern.notes:  # it holds for the way that was taken at these values
        return
    truth = find_truth(sample, pattern.shape, points, rng)
    outside = np.argwhere(truth & ~pattern.toarray())
    assert not len(outside), f"{outside[:3].tolist()} are not in the pattern"
    if tight and truth.any() and is_exact(sample, args):
        more = np.argwhere(pattern.toarray() & ~truth)
        assert not len(more), f"{more[:3].tolist()} are no places"


@parametrize_chunks("sample", NAMED, alike=ALIKE_IN_KIND)
def test_pattern_contains_what_differences_find(
    sample: Sample, rng: np.random.Generator
) -> None:
    check_sample(sample, 1, rng)


@pytest.mark.long
@parametrize_chunks("sample", NAMED)
def test_pattern_at_20_points(sample: Sample, rng: np.random.Generator) -> None:
    check_sample(sample, 20, rng, tight=True)


def check_hessian(sample: Sample, points: int, rng: np.random.Generator) -> None:
    """Differences of gradients, of a weighted sum of the outputs."""
    args = draw(sample, rng)
    places = tuple(range(len(args)))
    pattern = wb.sparsity(sample.f, *args, argnums=places, order=2)
    if pattern.notes or "c" == sample.kinds[0]:
        return
    found = np.zeros(pattern.shape, bool)
    for _ in range(points):
        args = draw(sample, rng)
        weights = rng.uniform(0.5, 1.5, np.shape(sample.f(*args)))

        def gradient(*xs: Any) -> Any:
            made = wb.vjp(sample.f, *xs)[1](weights)  # noqa: B023
            return np.concatenate([np.ravel(g) for g in made])

        columns = find_columns(gradient, args)
        if columns is not None and columns.shape == found.shape:
            found |= columns
    outside = np.argwhere(found & ~pattern.toarray())
    assert not len(outside), f"{outside[:3].tolist()} are not in the pattern"


HESSIANS = {
    name: row
    for name, row in NAMED.items()
    if row[0].order == 2 and "f" in row[0].kinds
}


@pytest.mark.long
@parametrize_chunks("sample", HESSIANS)
def test_hessian_contains_what_differences_find(
    sample: Sample, rng: np.random.Generator
) -> None:
    check_hessian(sample, 3, rng)
