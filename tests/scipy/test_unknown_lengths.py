"""Functions of SciPy that look at lengths, of symbols: the shapes they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core import walk
from workbench.errors import ShapeError
from workbench.scipy import integrate, linalg, ndimage, signal, special, stats

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


#: Functions of SciPy whose programs are recorded, whatever the lengths are.
RECORDED: dict[str, Any] = {
    "block_diag": SHAPES["block_diag"][0],
    "circulant": linalg.circulant,
    "companion": SHAPES["companion"][0],
    "convolution_matrix": SHAPES["convolution_matrix"][0],
    "convolution_matrix full": lambda x: linalg.convolution_matrix(x[0], 3),
    "convolution_matrix valid": lambda x: linalg.convolution_matrix(x[0], 2, "valid"),
    "correlate": lambda x: np.correlate(x[0], x[:, 1], "full"),
    "correlate1d": lambda x: ndimage.correlate1d(x, [1.0, 3.0, 2.0], mode="constant"),
    "diff": lambda x: np.diff(x, prepend=1.0),
    "gaussian_filter": SHAPES["gaussian_filter"][0],
    "hankel": SHAPES["hankel"][0],
    "mean of some": lambda x: np.mean(x, axis=1, where=np.array(True)),
    "solve_circulant": lambda x: linalg.solve_circulant(x[0] ** 2 + 1, x.T),
    "solve_toeplitz": SHAPES["solve_toeplitz"][0],
    "toeplitz": lambda x: linalg.toeplitz(x[0], x[:, 1]),
    "variance": lambda x: stats.gamma.var(x + 3, scale=x[0]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_programs_are_recorded(name: str, rng: np.random.Generator) -> None:
    """No function, and no rule of one, waits until lengths are known."""
    f = RECORDED[name]
    x = wb.matrix("x")
    value = f(x)
    outputs = [value, wb.grad(np.sum(np.sin(value)), x)]
    waiting = {"call", "vjp", "jvp", "batch"}
    assert waiting.isdisjoint(y.op.name for y in walk.order_nodes(outputs))
    function = wb.function([x], outputs)
    for size in ((4, 3), (2, 5), (1, 2)):
        a = rng.standard_normal(size)
        made, slope = function(a)
        np.testing.assert_allclose(made, f(a), rtol=1e-12, atol=1e-13)
        right = wb.grad(lambda a: np.sum(np.sin(f(a))))(a)
        np.testing.assert_allclose(slope, right, rtol=1e-9, atol=1e-11)


def test_a_filter_that_is_longer_is_refused_when_it_runs() -> None:
    x = wb.vector("x")
    made = ndimage.correlate1d(x, [1.0, 3.0, 2.0], mode="constant")
    with pytest.raises(ShapeError, match=r"mode 'valid': \(3,\) is larger than \(2,\)"):
        made.eval(x=np.ones(0))
