"""Elementwise functions at the edges of every dtype: the same as NumPy, and no trap.

A processor stops a process for an integer divided by zero, or the least by -1; LLVM
leaves undefined what a shift by too many bits gives.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.backends.compiled.programs import compile_graph, trace
from workbench.backends.numpy import compile
from workbench.errors import WorkbenchError

KINDS = ["f8", "f4", "c16", "c8", "i8", "i4", "i2", "i1", "u8", "u4", "u1", "?"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 2.0**53]
INTEGERS = [0, 1, 2, 3, 7, 31, 32, 63, 64, 65, -1, -2, -3, -64]

ONE = """
negative positive absolute sign sqrt square reciprocal invert logical_not isnan isinf
isfinite signbit exp log log1p expm1 sin cos tan tanh sinh cosh arcsin arctan conjugate
floor ceil trunc rint cbrt exp2 log2 log10 fabs deg2rad degrees rad2deg radians
""".split()
TWO = """
add subtract multiply floor_divide remainder fmod divide power left_shift right_shift
bitwise_and bitwise_or bitwise_xor maximum minimum fmax fmin less equal not_equal
greater_equal logical_and logical_or logical_xor hypot arctan2 copysign heaviside
logaddexp float_power
""".split()
#: Of 0 and -0 NumPy gives either, and SciPy where a result is too small.
EITHER = ("maximum", "minimum", "fmax", "fmin", "cosm1")


def list_edges(kind: str) -> Any:
    dtype = np.dtype(kind)
    if kind == "?":
        return np.array([True, False])
    if dtype.kind == "f":
        return np.array([*FLOATS, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1.0, -1.5, np.inf, np.nan]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = {*INTEGERS, least, most, least + 1, most - 1}
    return np.array(sorted(n for n in numbers if least <= n <= most), dtype)


def check(name: str, args: list[Any]) -> None:
    """The same kind, NaN, infinities and signs; numbers to a few ulps."""
    with np.errstate(all="ignore"):
        try:
            graph = trace(getattr(np, name, None) or getattr(special, name), args)
            expected = compile(graph).run(args)
        except (TypeError, ValueError, WorkbenchError):
            return  # there is no such function of these
        for got, want in zip(
            compile_graph(graph, args).run(args), expected, strict=True
        ):
            assert got.dtype == want.dtype
            if got.dtype.kind not in "fc":
                np.testing.assert_array_equal(got, want)
                continue
            tiny = 4 * np.finfo(got.dtype).tiny
            eps = np.finfo(got.dtype).eps
            parts = ("real", "imag") if got.dtype.kind == "c" else ("real",)
            size = np.abs(want)
            for part in parts:
                a, b = getattr(got, part), getattr(want, part)
                finite = np.isfinite(b)
                np.testing.assert_array_equal(a[~finite], b[~finite])
                scale = np.where(np.isfinite(size), size, np.abs(b))
                assert np.all((np.abs(a - b) <= 8 * eps * scale + tiny)[finite])
            if got.dtype.kind == "f" and name not in EITHER:
                known = ~np.isnan(want)
                np.testing.assert_array_equal(
                    np.signbit(got)[known], np.signbit(want)[known]
                )


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name: str) -> None:
    for kind in KINDS:
        check(name, [np.resize(list_edges(kind), 21)])


#: Functions of SciPy whose rows say what an entry is, and numbers near which a formula
#: changes or its result is about to overflow.
OF_SCIPY = {
    "exprel": [80.0, 80.01, 709.7, 709.78, 709.79, 720.0, -750.0],
    "exp10": [308.25, 308.26, -324.5, 38.53, 38.54],
    "expit": [-745.1, -745.2, 745.0, -87.0, -104.0],
    "log_expit": [-745.0, 745.0, -104.0, 104.0],
    "cosm1": [1e-8, 1e-170, 3.2],
    "entr": [1e-310, 1e-40, 1e300],
}


@pytest.mark.parametrize("name", OF_SCIPY)
def test_functions_of_scipy(name: str) -> None:
    for kind in ("f8", "f4"):
        edges = [*list_edges(kind), *OF_SCIPY[name]]
        with np.errstate(all="ignore"):
            check(name, [np.array(edges, kind)])


PAIRS = [*zip(KINDS, KINDS, strict=True), ("i8", "u1"), ("f4", "i8"), ("?", "i4")]
MIXED = [pair for pair in itertools.product(KINDS, KINDS) if pair not in PAIRS]


@pytest.mark.parametrize(
    "pairs", [PAIRS, pytest.param(MIXED, marks=pytest.mark.long)], ids=["same", "mixed"]
)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name: str, pairs: list[tuple[str, str]]) -> None:
    for a, b in pairs:
        check(name, [np.ascontiguousarray(list_edges(a)[:, None]), list_edges(b)])
