"""What is found of an array is the same digits, whatever is summarized with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.checks import statistics


def draw_arrays(rng: np.random.Generator) -> list[Any]:
    """Return arrays of one shape and dtype, some with extreme entries."""
    shape = tuple(rng.integers(1, 12, size=rng.integers(0, 4)))
    dtype = rng.choice(["f8", "f4", "c16", "i8"])
    drawn = []
    for _ in range(rng.integers(3, 30)):
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3)
        if dtype in ("f8", "c16") and rng.random() < 0.3:
            x = x * 10.0 ** rng.choice([-250, 250])
        if dtype == "c16":
            x = x + 1j * rng.standard_normal(shape)
        if dtype != "i8" and np.ndim(x) and rng.random() < 0.2:
            x.flat[rng.integers(x.size)] = rng.choice([np.nan, np.inf])
        with np.errstate(all="ignore"):
            drawn.append(np.asarray(x).astype(dtype))
    return drawn


@pytest.mark.parametrize("seed", range(8))
def test_statistics_do_not_depend_on_what_stands_beside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [draw_arrays(rng) for _ in range(4)]
    mixed = [x for group in groups for x in group]
    order = rng.permutation(len(mixed))
    arrays = [mixed[i] for i in order]
    together = statistics.summarize_arrays(arrays)
    norms = statistics.compute_norms(arrays)
    with np.errstate(all="ignore"):
        others = [(x * 0.75).astype(x.dtype) for x in arrays]
    changes = statistics.relative_changes(arrays, others)
    for i, (x, other) in enumerate(zip(arrays, others, strict=True)):
        np.testing.assert_array_equal(together[i], statistics.summarize(x))
        np.testing.assert_array_equal(norms[i], statistics.norm(x))
        alone = statistics.relative_change(x, other)
        np.testing.assert_array_equal(changes[i], alone)


def test_norms_are_those_of_exact_arithmetic() -> None:
    rng = np.random.default_rng(3)
    for scale in (1e-300, 1e-160, 1.0, 1e160, 1e300):
        arrays = [rng.integers(-9, 9, size=9) * scale for _ in range(5)]
        with np.errstate(all="ignore"):
            found = statistics.compute_norms([*arrays, None], missing=-1.0)
        exact = [float(np.linalg.norm(x / scale)) * scale for x in arrays]
        np.testing.assert_allclose(found, [*exact, -1.0], rtol=1e-14)


def test_single_complex_numbers_are_measured_in_double_precision(
    rng: np.random.Generator,
) -> None:
    parts = rng.standard_normal((2, 5, 7)).astype(np.float32)
    z = (parts[0] + 1j * parts[1]).astype(np.complex64)
    wide = z.astype(np.complex128)
    laid_out = [z, np.asfortranarray(z), np.repeat(z, 2, axis=1)[:, ::2]]
    table = statistics.summarize_arrays(laid_out * 5)
    for row in [*table, *map(statistics.summarize, laid_out)]:
        np.testing.assert_array_equal(row, statistics.summarize(wide))
    assert statistics.norm(z) == statistics.norm(wide)
    assert statistics.distribution(z) == statistics.distribution(wide)
