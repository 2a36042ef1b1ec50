"""Loops of every layout: broadcasting, strides, remainders, reductions, dtypes."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import (
    check_equal,
    check_program,
    compile_graph,
    trace,
)
from workbench.backends.compiled.program import count_threads
from workbench.backends.compiled.steps import HostStep, KernelStep

SHAPES = [
    ((7,), (7,)), ((5, 1), (1, 9)), ((3, 1, 4), (5, 1)), ((), (6, 2)), ((1,), (1,)),
    ((2, 3, 17), (17,)), ((33, 2), (33, 1)), ((4, 1, 1, 3), (2, 5, 1)),
]  # fmt: skip


def count_steps(program: Any) -> tuple[int, int]:
    steps = program.plan.steps
    return (
        sum(isinstance(s, KernelStep) for s in steps),
        sum(isinstance(s, HostStep) for s in steps),
    )


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i8", "i4", "u1"])
def test_broadcasting(shapes: Any, dtype: str, rng: np.random.Generator) -> None:
    args = [(10 * rng.uniform(size=s)).astype(dtype) for s in shapes]
    graph = trace(lambda x, y: ((x + y) * x - y, x * 2, -(x + y)), args)
    program = check_program(graph, args)
    assert count_steps(program)[1] == 0


@pytest.mark.parametrize("n", [*range(1, 40), 1000, 1003])
def test_remainders_read_and_write_nothing_beyond(
    n: int, rng: np.random.Generator
) -> None:
    """The arrays lie inside larger ones, whose other entries must stay as they are."""
    x = rng.normal(size=n)
    for dtype in (np.float64, np.float32):
        args = [x.astype(dtype)]
        check_program(trace(lambda x: (np.exp(x) + x, np.sum(x * x)), args), args, 16)


@pytest.mark.parametrize(
    "view",
    ["x.T", "x[::-1]", "x[:, ::2]", "x[1:, 1:]", "np.broadcast_to(x[0], x.shape)",
     "x[:, None, :]", "np.swapaxes(x, 0, 1)[::-1, ::3]", "np.reshape(x, (3, -1)).T",
     "np.flip(x)"],
)  # fmt: skip
def test_views_are_no_work(view: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 7))
    graph = trace(lambda x: eval(view, {"np": np, "x": x}) * 2.0, [x])
    assert count_steps(check_program(graph, [x])) == (1, 0)


@pytest.mark.parametrize("shape", [(40,), (6, 35), (5, 4, 3), (1, 9), (9, 1), (70, 3)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
def test_reductions_over_any_axes(
    shape: tuple[int, ...], name: str, dtype: str, rng: np.random.Generator
) -> None:
    if dtype == "c16" and name in ("max", "min"):
        return  # NumPy orders complex numbers by their parts: its own affair
    reduce = getattr(np, name)
    x = rng.uniform(1, 2, size=shape).astype(dtype)
    axes = range(len(shape))
    for count in range(1, len(shape) + 1):
        for axis in itertools.combinations(axes, count):
            for keepdims in (False, True):
                graph = trace(
                    lambda x, a=axis, k=keepdims: reduce(x * x, axis=a, keepdims=k), [x]
                )
                check_program(graph, [x], 64)


def test_reductions_of_truth_values_and_of_nan(rng: np.random.Generator) -> None:
    x = rng.normal(size=(13, 9))
    x[3, 4], x[5, 5] = np.nan, np.inf
    args = [x]
    check_program(trace(lambda x: (np.any(x > 3, 0), np.all(x < 9)), args), args)
    check_program(
        trace(lambda x: (np.max(x, 0), np.min(x, 1), np.sum(x, 1)), args), args
    )


@pytest.mark.parametrize("shape", [(100_003,), (70_000, 2), (2, 70_000), (300, 301)])
def test_large_reductions_are_the_same_on_any_number_of_cores(
    shape: tuple[int, ...], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.normal(size=shape)
    graph = trace(lambda x: (np.sum(np.exp(x)), np.sum(x, 0), np.max(x)), [x])
    # NumPy adds rows one by one, whose errors grow beside a sum near 0.
    program = check_program(graph, [x], 4096)
    assert program is not None
    made = []
    for count in ("1", "2", "5"):
        monkeypatch.setenv("WORKBENCH_THREADS", count)
        made.append(program.run([x]))
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_arrays_without_entries(n: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(n, 3))
    args = [x]
    check_program(
        trace(lambda x: (x + 1, np.sum(x, 0), np.sum(x), x @ x.T), args), args
    )


def make_awkward(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The same numbers, in memory of every kind."""
    frozen = x.copy()
    frozen.flags.writeable = False
    raw = np.empty(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    wide = np.empty((x.shape[0], 2 * x.shape[1]))
    wide[:, ::2] = x
    return {
        "read-only": frozen,
        "unaligned": odd,
        "strided": wide[:, ::2],
        "reversed": x[::-1].copy()[::-1],
        "Fortran": np.asfortranarray(x),
    }


def test_arguments_of_any_memory_which_stay_as_they_are(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(9, 11))
    program = compile_graph(trace(lambda x: (np.tanh(x) * x, np.sum(x, 0)), [x]), [x])
    expected = [np.tanh(x) * x, np.sum(x, 0)]
    for name, given in make_awkward(x).items():
        for got, want in zip(program.run([given]), expected, strict=True):
            check_equal(got, want, 16)
        np.testing.assert_array_equal(given, x, err_msg=name)


def test_overlapping_arguments(rng: np.random.Generator) -> None:
    whole = rng.normal(size=50)
    args = [whole[:40], whole[10:]]
    check_program(trace(lambda x, y: x * y + x, args), args)


@pytest.mark.parametrize("have", ["f8", "f4", "i8", "i4", "i1", "u8", "u1", "?", "c16"])
@pytest.mark.parametrize("want", ["f8", "f4", "i8", "i4", "i1", "u8", "u1", "?", "c16"])
def test_casts(have: str, want: str, rng: np.random.Generator) -> None:
    x = (100 * rng.uniform(size=19)).astype(have)
    if have == "c16" and want != "c16":
        return  # NumPy warns of it
    check_program(trace(lambda x: x.astype(want), [x]), [x])


def test_kinds_meet_as_in_numpy(rng: np.random.Generator) -> None:
    """A Python number never decides a dtype; arrays of several kinds do."""
    args = [
        rng.normal(size=8).astype(np.float32), np.arange(8), rng.normal(size=8) > 0,
    ]  # fmt: skip
    check_program(
        trace(lambda x, n, b: (x * 2.5, x + n, n / 4, np.where(b, x, n), n < x), args),
        args,
    )


def test_a_long_program_is_cut_into_kernels(rng: np.random.Generator) -> None:
    def chain(x: Any) -> Any:
        for i in range(1000):
            x = np.sin(x) + 0.1 * i if i % 7 == 0 else x * 0.999
        return x

    args = [rng.normal(size=8)]
    gradient = wb.grad(lambda x: np.sum(chain(x)))
    program = check_program(trace(lambda x: (chain(x), gradient(x)), args), args, 4096)
    assert 2 < count_steps(program)[0] < 40


def test_a_value_is_written_where_it_is_read_for_the_last_time(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(50, 50))

    def steps(x: Any) -> Any:
        for _ in range(6):
            x = np.exp(-x) / np.sum(x, axis=1, keepdims=True)
        return np.sum(x, 0)

    program = check_program(trace(steps, [x]), [x], 4096)
    assert program is not None
    assert program._size < 4 * x.nbytes


def test_parts_of_other_kinds_are_cast_as_they_are_joined(
    rng: np.random.Generator,
) -> None:
    """Their bytes were taken for numbers of the kind of the whole."""
    args = [rng.normal(size=5), rng.normal(size=5) > 0, np.arange(5, dtype=np.int32)]
    check_program(
        trace(lambda x, b, n: (np.concatenate([x, b, n]), np.stack([n, b])), args), args
    )


def test_an_output_that_is_a_view_of_another(rng: np.random.Generator) -> None:
    """It came out as the whole, in the shape of that."""
    args = [rng.normal(size=(2, 3)), np.float64(2.0)]

    def f(x: Any, a: Any) -> Any:
        y, b = np.exp(x), a * 3
        return y, y.T, y[1:], y[..., None], b, b[None], np.broadcast_to(b, (2, 2))

    check_program(trace(f, args), args)


def test_large_loops_that_share_nothing_are_apart(rng: np.random.Generator) -> None:
    for n, count in ((100, 1), (5000, 3)):
        args = [rng.normal(size=n) for _ in range(4)]
        graph = trace(
            lambda a, b, c, d: (
                np.exp(a) * b,
                np.sin(c) + np.sum(c),
                np.tanh(d),
                b - a,
            ),
            args,
        )
        program = check_program(graph, args, 64)
        assert program is not None
        first = [s for s in program.plan.steps if isinstance(s, KernelStep)]
        assert sum(len(s.kernel.nodes) > 0 for s in first) == count + 1


def test_many_axes(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 1, 3, 1, 2, 1, 1, 3, 2, 1, 2))
    y = rng.normal(size=(2, 1, 3, 1, 1, 1, 2, 1))

    def mix(x: Any, y: Any) -> Any:
        turned = np.transpose(x, tuple(range(10, -1, -1)))
        return (
            np.sum(x * y, (0, 4, 9)), np.exp(turned)[::-1], turned + np.flip(turned),
            np.max(turned, (1, 3, 5)), np.sum(turned),
        )  # fmt: skip

    check_program(trace(mix, [x, y]), [x, y], 64)


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i1", "i4"])
def test_integers_that_a_dtype_does_not_hold(dtype: str) -> None:
    """NumPy compares with them, and bounds by them; as bytes they are others."""
    args = [np.array([0, 1, 2, 100, 127], dtype)]
    for n in (-1, -200, 300, 2**40, 2**63, -(2**63)):
        check_program(trace(lambda x, n=n: (x > n, x <= n, x == n, x != n), args), args)
    check_program(trace(lambda x: (np.clip(x, -1, 1), np.clip(x, 0, 300)), args), args)


JOINS = {
    "interleaved": lambda x, y: np.stack([x + y, x * y, x - 2 * y], 1).reshape(-1),
    "runs": lambda x, y: np.concatenate(
        [
            np.stack([x[:2] + 1, y[:2] * 2], 1).reshape(-1),
            np.stack([x * y, x, np.broadcast_to(0.5, x.shape)], 1).reshape(-1),
            x[3:] / 2,
        ]
    ),
    "twice": lambda x, y: np.concatenate([x * y, x * y - 1, x * y]),
    "same": lambda x, y: (lambda z: np.stack([z, z, x]))(np.sin(x)),
    "read": lambda x, y: (lambda z: (np.stack([z, x]), z + 1, np.sum(z)))(x * y),
    "result": lambda x, y: (lambda z: (z, np.concatenate([z, x])))(x + y),
    "nested": lambda x, y: np.concatenate(
        [np.concatenate([x + y, y]), np.concatenate([x - y, np.stack([x * 2, y])[1]])]
    ),
    "shared": lambda x, y: (lambda z: np.concatenate([z, z * 2]) * 3)(
        np.concatenate([x + 1, y])
    ),
    "sliced": lambda x, y: np.concatenate([(x * y)[2:], np.cumsum(x + y)[::2]]),
    "axes": lambda x, y: np.concatenate(
        [np.outer(x, y), (x + y)[:, None], np.stack([x * 2, y * y], -1)], -1
    ),
    "taken": lambda x, y: np.stack([x[np.array([4, 0, 2, 2, 1, 3, 6])], y * 2, x], 1),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "u1"])
def test_what_is_joined_is_written_where_it_belongs(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    if name == "same" and dtype in ("i8", "u1"):
        pytest.skip("a sine of integers is of another dtype")
    args = [(10 * rng.uniform(size=7) + 1).astype(dtype) for _ in range(2)]
    check_program(trace(JOINS[name], args), args)


def test_joined_entries_are_one_kernel() -> None:
    x = np.arange(50.0)
    graph = trace(
        lambda x: np.stack([x * 2, np.broadcast_to(1.5, x.shape), x, -x], 1), [x]
    )
    program = compile_graph(graph, [x])
    assert [type(s) for s in program.plan.steps] == [KernelStep]


@pytest.mark.parametrize("width", range(1, 11))
@pytest.mark.parametrize("dtype", ["f8", "f4", "c8", "i4", "i2", "u1", "b1"])
def test_entries_side_by_side_are_stored_together(
    width: int, dtype: str, rng: np.random.Generator
) -> None:
    for n in (3, 16, 37):
        x = (10 * rng.uniform(size=n)).astype(dtype)

        def f(x: Any) -> Any:
            parts = [x, *(x[::-1] if k % 3 else np.zeros_like(x) for k in range(9))]
            rows = np.stack(parts[:width], axis=1)
            return rows, np.concatenate([x[:1], np.reshape(rows, (-1,)), x[1:]])

        check_program(trace(f, [x]), [x], 0)


def test_some_entries_of_a_row_are_stored_apart(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 21))

    def f(x: Any, y: Any) -> Any:
        rows = np.stack([x + y, x * y, y - x, y], axis=1)
        return rows, np.stack([2 * x, np.float32(3) * y], axis=1).astype("f4")

    check_program(trace(f, [x, y]), [x, y], 4)


def test_how_many_cores_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKBENCH_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    affinity: Any = getattr(os, "sched_getaffinity", None)
    every = len(affinity(0)) if affinity is not None else os.cpu_count()
    assert count_threads() == every
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # as the workers of Dask have it
    assert count_threads() == 3
    monkeypatch.setenv("WORKBENCH_THREADS", "5")
    assert count_threads() == 5
    monkeypatch.setenv("WORKBENCH_THREADS", "none")
    assert count_threads() == 3
