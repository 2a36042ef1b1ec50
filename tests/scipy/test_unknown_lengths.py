"""Functions of SciPy that look at lengths, of symbols: the shapes they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.scipy import integrate, linalg, ndimage, signal, special

SHAPES: dict[str, tuple[Any, str]] = {
    "convolve same": (lambda x: signal.convolve(x, x[:2], "same"), "(n, m)"),
    "correlate": (lambda x: signal.correlate(x[0], x[1]), "(2*m - 1,)"),
    "correlate valid": (
        lambda x: signal.correlate(x, np.ones((2, 2)), "valid", "direct"),
        "(max(2, n) - min(2, n) + 1, max(2, m) - min(2, m) + 1)",
    ),
    "fftconvolve": (
        lambda x: signal.fftconvolve(x, x, "full"),
        "(2*n - 1, 2*m - 1)",
    ),
    "fftconvolve along an axis": (
        lambda x: signal.fftconvolve(x, x, "full", 1),
        "(call[0].shape[0], call[0].shape[1])",
    ),
    "gaussian_filter": (lambda x: ndimage.gaussian_filter(x, 1.0), "(n, m)"),
    "simpson": (lambda x: integrate.simpson(x, axis=0), "(m,)"),
    "trapezoid": (lambda x: integrate.trapezoid(x, x[0]), "(n,)"),
    "block_diag": (lambda x: linalg.block_diag(x, 2.0, x[0]), "(n + 2, 2*m + 1)"),
    "circulant": (linalg.circulant, "(n, m, m)"),
    "companion": (lambda x: linalg.companion(x[0]), "(m - 1, m - 1)"),
    "convolution_matrix": (
        lambda x: linalg.convolution_matrix(x[0], 3, "same"),
        "(max(3, m), 3)",
    ),
    "hankel": (lambda x: linalg.hankel(x[0], x[:, 0]), "(m, n)"),
    "lu_factor": (lambda x: linalg.lu_factor(x)[1], "(min(n, m),)"),
    "pinv": (linalg.pinv, "(m, n)"),
    "solve_toeplitz": (
        lambda x: linalg.solve_toeplitz(x[0] + 9 * np.equal(x[0], x[0, 0]), x.T),
        "(m, n)",
    ),
    "toeplitz": (lambda x: linalg.toeplitz(x[0], 3.0), "(m, 1)"),
    "airy": (lambda x: special.airy(x)[2], "(n, m)"),
    "pbdv": (lambda x: special.pbdv(1.5, x[0])[1], "(m,)"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_said_before_the_run(name: str, rng: np.random.Generator) -> None:
    f, shape = SHAPES[name]
    x = wb.matrix("x")
    made = f(x)
    said = str(made.shape).replace("x.shape[0]", "n").replace("x.shape[1]", "m")
    assert said == shape
    function = wb.function(
        [x], [made, *(n * np.ones_like(x[0, 0]) for n in made.shape)]
    )
    for size in ((4, 3), (2, 5), (6, 4)):
        a = rng.standard_normal(size)
        result, *lengths = function(a)
        expected = np.asarray(f(a))
        assert result.shape == expected.shape == tuple(map(int, lengths))
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-11)
