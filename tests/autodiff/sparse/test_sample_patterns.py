"""Every op of the table: its pattern against differences of plain NumPy and SciPy.

What differences find nonzero at a point must be a place of the pattern, and the pattern
has no other places (see `exactness.py`) but for few samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.sparse.exactness import compare, draw, find_columns, find_truth
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample

NAMED = {sample.name: (sample,) for sample in SAMPLES}

#: Samples whose patterns have more places than their Jacobians: constants of theirs
#: make partial derivatives vanish, terms cancel, a position depends on values in few
#: ways, or zeros of a matrix are not followed through its inverse.
LOOSER = {
    "at multiply by zeros", "det of a singular matrix", "fftfreq",
    "geomspace of complex", "isin", "nansum of complex", "poly", "poly of complex",
    "power of negative", "svd of 1", "t.mean", "vander", "vander increasing",
    "a filter in Fourier space", "corrcoef", "corrcoef of complex", "fftn twice",
    "fftn twice of reals", "gaussian_filter of order 1", "gaussian_filter of order 3",
    "irfftn", "lfilter (4, 2) 0", "linalg.fiedler", "linalg.svd", "roots in pairs",
    "store elimination", "tril triu",
    "argpartition", "interp", "linalg.lu order", "linalg.lu permuted",
    "ravel_multi_index", "sort axis", "x[x > 0]",
    "linalg.inv upper", "linalg.solve diagonal", "rotation euler", "rotation matrix",
    "map_coordinates constant", "rotate", "zoom",
    "hilbert", "resample", "resample_poly", "welch", "stft", "scipy hfftn",
    # A filter's entry times a zero that was added.
    "conv strides and groups", "conv strides of two axes", "conv_transpose plain",
    "conv_transpose strides and groups", "conv_transpose two axes",
    # Which piece a point is in, and how a slope is limited, depend on values.
    "PchipInterpolator {}", "Akima1DInterpolator {'extrapolate': True}",
    "Akima1DInterpolator {'method': 'makima', 'extrapolate': True}", "BSpline",
    "RegularGridInterpolator linear",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@parametrize_chunks("sample", NAMED, alike=ALIKE_IN_KIND)
def test_pattern_contains_what_differences_find(
    sample: Sample, rng: np.random.Generator
) -> None:
    args = draw(sample, rng)
    pattern = wb.sparsity(sample.f, *args, argnums=tuple(range(len(args))))
    if pattern.notes:  # it holds for the way that was taken at these values
        return
    truth = find_truth(sample, pattern.shape, 1, rng)
    outside = np.argwhere(truth & ~pattern.toarray())
    assert not len(outside), f"{outside[:3].tolist()} are not in the pattern"


@pytest.mark.long
@parametrize_chunks("sample", NAMED)
def test_pattern_is_exact(sample: Sample, rng: np.random.Generator) -> None:
    found = compare(sample, rng)
    looser = sample.name in LOOSER or " of degrees" in sample.name
    assert found.kind != "wrong", found
    assert looser or found.kind == "exact", found


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
