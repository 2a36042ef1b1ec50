"""Kernels between pages that nobody may touch: one byte too far ends the process.

All that a program reads and writes, arguments, constants, results and inner buffers, is
laid so that it ends where such a page begins, then so that it begins where one ends.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_equal, compile_graph, largest, trace
from workbench.backends.compiled import program as compiled
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.memory import Pool
from workbench.backends.compiled.program import Retreat
from workbench.backends.compiled.steps import LINE
from workbench.backends.numpy import compile

PAGE = mmap.PAGESIZE
Array = np.ndarray[Any, Any]


class Guard:
    """Memory between two pages that nobody may touch."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self._maps: list[Any] = []
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect

    def take(self, size: int) -> Array:
        """Return so many bytes, as near as can be to one of the pages."""
        pages = max(1, -(-size // PAGE))
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self._maps.append(memory)
        whole = np.frombuffer(memory, np.uint8)
        start = whole.__array_interface__["data"][0]
        for place in (start, start + (pages + 1) * PAGE):
            assert self._protect(ctypes.c_void_p(place), PAGE, 0) == 0
        begin = (pages + 1) * PAGE - size if self.at_end else PAGE
        return whole[begin : begin + size]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        return np.ndarray(shape, dtype, self.take(size))

    def copy(self, x: Any) -> Array:
        made = self.empty(np.shape(x), np.asarray(x).dtype)
        made[...] = x
        return made

    # What stands for the memory of a program

    def take_array(self, shape: Any, dtype: Any) -> tuple[Array, int]:
        made = self.empty(tuple(shape), dtype)
        ctypes.memset(made.__array_interface__["data"][0], 0xA5, made.nbytes)
        return made, made.__array_interface__["data"][0]

    def take_block(self, pool: Any, size: int) -> tuple[Array, int]:
        made = self.take(-(-size // LINE) * LINE)
        made[...] = 0xA5
        return made, made.__array_interface__["data"][0]


FEW, LENGTHS = [1, 3, 7, 17], [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65]
KINDS = ["f8", "f4", "c16", "c8", "i8", "i4", "i2", "u1", "?"]


def list_cases(
    lengths: list[int],
) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Programs, and arguments of shapes that leave remainders of every length."""
    rng = np.random.default_rng(7)

    def draw(shape: Any, kind: str = "f8") -> Any:
        x = 3 * rng.normal(size=shape)
        if kind[0] == "c":
            x = x + 1j * rng.normal(size=shape)
        return (x > 0 if kind == "?" else x if kind[0] in "fc" else np.abs(x)).astype(
            kind
        )

    for n in lengths:
        for kind in KINDS:
            yield f"chain {n} {kind}", lambda x: (x + x, np.sum(x)), [draw(n, kind)]
        x, y = draw(n), draw(n, "f4")
        yield f"math {n}", lambda x: np.exp(np.sin(x)) * np.tanh(x), [x]
        yield f"mixed {n}", lambda x, y: (x * y, np.where(y > 0, x, y)), [x, y]
        yield f"cast {n}", lambda x, y: (x + y.astype("f4"), y < 2), [y, draw(n, "u1")]
        constant = draw(n)
        yield f"constant {n}", lambda x, c=constant: x * c + c[::-1], [x]
        yield f"views {n}", lambda x, k=n // 2: (x[::2] + 1, x[::-1] * 2, x[k:]), [x]
        yield f"joins {n}", lambda x: np.concatenate([x[1:], x, 2 * x[:1]]), [x]
        yield f"scatter {n}", wb.grad(lambda x: np.sum(x[::2] ** 2) + x[-1] ** 2), [x]
        yield f"largest {n}", lambda x: (np.max(x), np.min(x), np.prod(x)), [x]
        index = rng.integers(-n, n, size=n + 3)
        yield f"gather {n}", lambda x, i: x[i] * 2, [x, index]
        yield f"take {n}", wb.grad(lambda x, i=index: np.sum(x[i] ** 2)), [x]
        for m in (1, 3, 6):
            a, b = draw((m, n)), draw((n, m))
            yield f"rows {m} {n}", lambda a, x: (a * x, np.sum(a * x, 1)), [a, x]
            yield f"turned {m} {n}", lambda a, b: (a.T + b, np.sum(a, 0)), [a, b]
            yield f"product {m} {n}", lambda a, b: (a @ b, b[:, ::-1] @ a[::-1]), [a, b]
            yield (
                f"columns {m} {n}",
                lambda b: (b[:, 0] + b[:, -1], b[::2, 1:] * 2),
                [b],
            )
            yield (
                f"complex {m} {n}",
                lambda z: (z.T * 1j, np.sum(np.real(z), 0)),
                [draw((m, n), "c16")],
            )
            yield (
                f"softmax {m} {n}",
                wb.grad(lambda a: np.sum(a[:, 0] - np.log(np.sum(np.exp(a), 1)))),
                [a],
            )
    for n in (3, 17):

        def repeat(xs: Any, h: Any) -> Any:
            return wb.scan(lambda x, h: np.tanh(h + x) * 0.9, xs, h)

        args = [draw((5, n)), draw(n)]
        yield f"loop {n}", repeat, args
        yield (
            f"loop back {n}",
            wb.grad(lambda xs, h: np.sum(repeat(xs, h)), (0, 1)),
            args,
        )


def run_all(lengths: list[int], width: int) -> None:
    """Run every program at both ends; the name of each is said before it runs."""
    machine = Machine()
    machine.width = min(machine.width, width)
    for name, f, args in list_cases(lengths):
        expected = compile(trace(f, args)).run(args)
        for at_end in (True, False):
            print(name, "end" if at_end else "begin", flush=True)
            guard = Guard(at_end)
            program = compile_graph(trace(f, args), args, machine)
            for i, x in program._constants.items():
                program._constants[i] = moved = guard.copy(x)
                program._template[i] = moved.__array_interface__["data"][0]
            with (
                mock.patch.object(Pool, "take", guard.take_array),
                mock.patch.object(compiled, "take_block", guard.take_block),
            ):
                made = program.run([guard.copy(a) for a in args])
            for got, want in zip(made, expected, strict=True):
                check_equal(got, want, 64, largest(args))
    for at_end in (True, False):
        print("out of bounds", flush=True)
        check_bounds(Guard(at_end), machine)


def check_bounds(guard: Guard, machine: Machine) -> None:
    """Indices far beyond both ends: nothing is touched there, and NumPy is asked."""
    x, i = np.arange(40.0), np.arange(7)
    for f in (
        lambda x, i: x[i] * 2,
        lambda x, i: x.reshape(8, 5)[i] + 1,
        lambda x, i: wb.at(x)[i].add(1.0),
        wb.grad(lambda x, i: np.sum(np.reshape(x, (8, 5))[i] ** 2)),
    ):
        program = compile_graph(trace(f, [x, i]), [x, i], machine)
        for wrong in (40, -41, 10**6, -(10**6), 2**62, -(2**62), -(2**63)):
            for place in range(7):
                bad = guard.copy(i)
                bad[place] = wrong
                with mock.patch.object(compiled, "take_block", guard.take_block):
                    try:
                        program.run([guard.copy(x), bad])
                    except (Retreat, IndexError):
                        continue
                raise AssertionError(f"{wrong} is no index")


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected otherwise")
@pytest.mark.parametrize(
    ("lengths", "width"),
    [(FEW, 64), *(pytest.param(LENGTHS, n, marks=pytest.mark.long) for n in (16, 64))],
    ids=["few", "narrow", "wide"],
)
def test_nothing_beyond_an_array_is_read_or_written(
    lengths: list[int], width: int
) -> None:
    text = f"from {__name__} import run_all; run_all({lengths}, {width})"
    flags = ["-X", "faulthandler"]
    made = subprocess.run(
        [sys.executable, *flags, "-c", text], capture_output=True, text=True
    )
    last = made.stdout.splitlines()[-1:]
    assert made.returncode == 0, f"{last}: {made.stderr[-2000:]}"


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected otherwise")
@pytest.mark.parametrize("at_end", [True, False])
def test_a_page_is_guarded(at_end: bool) -> None:
    """The test above can fail."""
    place = "8" if at_end else "-1"
    text = (
        f"from {__name__} import Guard; import ctypes\n"
        f"x = Guard({at_end}).empty((8,), 'u1')\n"
        f"ctypes.string_at(x.__array_interface__['data'][0] + {place}, 1)"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode < 0
