"""Functions that look at lengths, of symbols: their programs run as text alone.

Value and gradient are expressions of unknown lengths; no rule waits until the program
runs, so the text names nothing but NumPy. They run at several lengths, 1 and 0 where
NumPy takes them, against the same function on plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

Shapes = list[tuple[tuple[int, ...], ...]]
LINES: Shapes = [((6,),), ((1,),), ((3,),)]
TABLES: Shapes = [((4, 3),), ((1, 2),), ((3, 4),)]

PROGRAMS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "rfft": (lambda x: np.abs(np.fft.rfft(x)) ** 2, [*LINES, ((5,),)]),
    "irfft": (
        lambda x: np.fft.irfft(np.fft.rfft(x) * 0.5, n=x.shape[0]),
        [*LINES, ((5,),)],
    ),
    "fft cut off": (lambda x: np.real(np.fft.fft(x, n=4)), LINES),
    "fft2": (lambda x: np.imag(np.fft.fft2(x)), TABLES),
    "svdvals": (lambda x: np.linalg.svd(x, compute_uv=False), TABLES),
    "nuclear norm": (lambda x: np.linalg.norm(x, "nuc"), TABLES),
    "norm of a vector": (lambda x: np.linalg.norm(x, np.inf), [*LINES, ((0,),)]),
    "norm of a matrix": (lambda x: np.linalg.norm(x, 1), [*TABLES, ((0, 2),)]),
    "correlate": (
        lambda x, y: np.correlate(x, y, "full"),
        [((6,), (3,)), ((1,), (1,)), ((2,), (5,))],
    ),
    "take_along_axis": (
        lambda x: np.take_along_axis(x, np.argsort(x, axis=1)[:, :1], 1),
        TABLES,
    ),
    "std of some": (lambda x: np.std(x, axis=1, where=np.array(True)), TABLES),
    "qr": (lambda x: np.linalg.qr(x)[1], TABLES),
    "qr complete": (
        lambda x: np.abs(np.linalg.qr(x, mode="complete")[1]),
        [((4, 3),), ((3, 3),), ((2, 1),)],
    ),
    "median": (lambda x: np.median(x), [*LINES, ((4,),)]),
    "median of rows": (lambda x: np.median(x, axis=1), TABLES),
    "quantile": (lambda x: np.quantile(x, 0.3), LINES),
    "quantiles": (lambda x: np.quantile(x, np.array([0.0, 0.6]), axis=0), TABLES),
    "pad edge": (lambda x: np.pad(x, (3, 1), mode="edge"), LINES),
    "pad wrap": (lambda x: np.pad(x, (3, 4), mode="wrap"), LINES),
    "pad reflect": (lambda x: np.pad(x, (7, 4), mode="reflect"), LINES),
    "pad symmetric": (lambda x: np.pad(x, (7, 8), mode="symmetric"), LINES),
    "gradient": (lambda x: np.gradient(x**2), [((6,),), ((2,),)]),
    "windows": (
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).sum(axis=1),
        [((6,),), ((3,),)],
    ),
    "convolve": (np.convolve, [((6,), (3,)), ((1,), (1,)), ((2,), (5,))]),
    "interp": (
        lambda x, xp, fp: np.interp(x, np.cumsum(np.exp(xp)), fp),
        [
            ((4,), (3,), (3,)),
            ((1,), (2,), (2,)),
            ((3,), (1,), (1,)),
            ((0,), (2,), (2,)),
        ],
    ),
    "entry in the middle": (lambda x: x[x.shape[0] // 2] * x[x.shape[0] - 1], LINES),
}


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: np.sum(np.sin(f(*xs)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_runs_alone_at_any_length(name: str, rng: np.random.Generator) -> None:
    f, shapes = PROGRAMS[name]
    xs = [wb.tensor(f"x{i}", shape=(None,) * len(s)) for i, s in enumerate(shapes[0])]
    y = loss(f)(*xs)
    function = wb.function(xs, [y, *wb.grad(y, xs)])
    alone: dict[str, Any] = {}
    exec(function.source, alone)
    for given in shapes:
        args = [rng.standard_normal(s) for s in given]
        places = tuple(range(len(args)))
        expected = [loss(f)(*args), *wb.grad(loss(f), argnums=places)(*args)]
        for made in (function(*args), alone["function"](*args)):
            for got, right in zip(made, expected, strict=True):
                assert np.shape(got) == np.shape(right)
                np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-11)


def test_samples_along_an_axis_of_unknown_length(rng: np.random.Generator) -> None:
    x = wb.tensor("x", shape=(3, None))
    y = np.sum(np.cov(x) ** 2) + np.sum(np.corrcoef(x) ** 3)
    function = wb.function([x], wb.grad(y, x))
    alone: dict[str, Any] = {}
    exec(function.source, alone)
    for n in (5, 2):
        a = rng.standard_normal((3, n))
        right = wb.grad(lambda x: np.sum(np.cov(x) ** 2) + np.sum(np.corrcoef(x) ** 3))
        np.testing.assert_allclose(function(a), right(a), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(alone["function"](a), function(a), rtol=1e-12)


def test_an_index_out_of_range_names_the_line() -> None:
    x = wb.vector("x")
    for y in (x[3], np.take(x, [5]), wb.grad(x[3], x)):
        with pytest.raises(IndexError, match=r"test_lengths_as_text.py.*out of bounds"):
            wb.function([x], y)(np.zeros(2))
