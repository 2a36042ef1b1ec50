"""Loops over integers: machine code of them does what Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from workbench.backends.compiled.routine import Routine, compile_routine
from workbench.errors import CompilerError


def find_first(x: Any, first: int, last: int, wanted: int) -> int:
    """Return where a number stands; -1 if nowhere."""
    for k in range(first, last):
        if x[k] == wanted:
            return k
        k += 10  # as in Python, the loop goes on where it was
    return -1


def collect(x: Any, count: int, limit: int, out: Any) -> int:
    """Write the different odd numbers below a limit in turn; return how many."""
    size = 0
    place = -1
    while True:
        place += 1
        if place >= count or size == limit:
            break
        if x[place] % 2 == 0 or not (x[place] < limit):
            continue
        is_new = find_first(out, 0, size, x[place]) < 0 and place < count
        if is_new:
            out[size] = x[place]
            size += 1
        else:
            out[count] += x[place] // 3 - 1 * -1
    return size


def find_free(sets: Any, count: int, out: Any) -> int:
    """Return the lowest bit that is in none of some sets; add it to each."""
    taken = 0
    for k in range(count):
        taken |= sets[k]
    low = 0
    while taken & 1:
        taken >>= 1
        low += 1
    for k in range(count):
        out[k] = sets[k] | 1 << low
    return low


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@settings(deadline=None)
@given(sets=st.lists(st.integers(0, 2**29 - 1)))
def test_bits_are_those_of_python(dtype, sets):
    code = compile_routine((find_free,), np.dtype(dtype))
    assert code is not None
    out, expected = np.zeros(len(sets), dtype), [0] * len(sets)
    found = code(np.array(sets, dtype), len(sets), out)
    assert found == find_free(sets, len(sets), expected)
    assert out.tolist() == expected


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@settings(deadline=None)
@given(numbers=st.lists(st.integers(0, 30)), limit=st.integers(0, 25))
def test_machine_code_does_what_python_does(dtype, numbers, limit):
    code = compile_routine((find_first, collect), np.dtype(dtype))
    assert code is not None
    x = np.array(numbers, dtype)
    out = np.full(len(x) + 1, -1, dtype)
    expected = out.tolist()
    size = collect(x.tolist(), len(x), limit, expected)
    assert code(x, len(x), limit, out) == size
    np.testing.assert_array_equal(out, expected)


def divide(x: Any, n: int) -> None:
    """Do what is not in that part of Python."""
    x[0] = x[0] / n


def test_what_it_does_not_know_is_refused():
    with pytest.raises(CompilerError, match=r"'x\[0\] / n' .* is not in the part"):
        Routine((divide,), np.dtype(np.int64))
    assert compile_routine((divide,), np.dtype(np.int64)) is None
    code = Routine((find_first,), np.dtype(np.int64))
    with pytest.raises(CompilerError, match="contiguous arrays of int64, not of int32"):
        code(np.arange(3, dtype=np.int32), 0, 3, 1)
