"""What results look like before there are any: as NumPy's, in any order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, WorkbenchError

DTYPES = [
    "bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex64",
]  # fmt: skip
NUMBERS = [True, 3, -3, 300, 1 << 40, 2.5, 1j, np.float32(2.5), np.float64(2.5)]
FUNCTIONS = [np.add, np.multiply, np.power, np.true_divide, np.maximum, np.greater]


def of_numpy(function: Any, *operands: Any) -> np.dtype[Any] | None:
    """The dtype of NumPy's result; None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return np.dtype(function(*operands).dtype)
        except (TypeError, ValueError, OverflowError):
            return None


def test_dtypes_are_those_of_numpy(rng: np.random.Generator) -> None:
    cases = [
        (f, d, e)
        for f, d, e in itertools.product(FUNCTIONS, DTYPES, [*DTYPES, *NUMBERS])
    ]
    # In any order, twice: what one answer leaves behind must not change another.
    for i in rng.permutation(2 * len(cases)):
        function, dtype, other = cases[i % len(cases)]
        x = wb.vector("x", dtype=dtype, shape=2)
        both = isinstance(other, str)
        y = wb.vector("y", dtype=other, shape=2) if both else other
        example = np.ones(2, other) if both else other
        want = of_numpy(function, np.ones(2, dtype), example)
        try:
            made = function(x, y).dtype
        except (WorkbenchError, TypeError, ValueError, OverflowError):
            made = None
        assert made == want, (function, dtype, other)


def test_shapes_broadcast_and_those_that_do_not_are_an_error() -> None:
    x, y = wb.tensor("x", shape=(3, 1)), wb.tensor("y", shape=(1, 4))
    assert (x + x).shape == (3, 1)
    assert (x + y).shape == (3, 4)
    assert (x + 1.0).shape == (3, 1)
    with pytest.raises(WorkbenchError, match="broadcast"):
        x + wb.tensor("z", shape=(2, 1))
    assert (x + y).shape == (3, 4)


def test_an_integer_that_does_not_fit_is_an_error_after_one_that_did() -> None:
    x = wb.vector("x", dtype="int8", shape=2)
    assert (x + 100).dtype == np.int8
    with pytest.raises((DtypeError, OverflowError)):
        x + 300
    assert (x**2).dtype == np.int8
    flags = wb.vector("flags", dtype="bool", shape=2)
    assert (flags**2).dtype == (np.ones(2, bool) ** 2).dtype
    assert (flags**3).dtype == (np.ones(2, bool) ** 3).dtype
    with pytest.raises(WorkbenchError, match=r"[Ii]nteger"):
        wb.vector("n", dtype="int64", shape=2) ** -1
