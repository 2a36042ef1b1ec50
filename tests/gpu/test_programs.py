"""Compiled programs on an NVIDIA GPU, against NumPy.

Skipped, with the reason, where there is no CuPy or no device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.cupy.test_loops import PROGRAMS as LOOPS
from tests.backends.cupy.test_loops import draw
from tests.gpu.device import cupy, needed
from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_foreign_arrays import PROGRAMS, B, W
from workbench.backends.compiled.steps import LoopStep
from workbench.backends.compiled.tiers import TieredFunction
from workbench.core import tree
from workbench.errors import DeviceError, UsageError

pytestmark = needed()


def find_program(f: Any) -> Any:
    """The compiled program of the last call; the reason where there is none."""
    run: TieredFunction = f._last.function if hasattr(f, "_last") else f._compiled
    assert run._last is not None
    return run._last.program or run._last.reason


def check(
    f: Callable[..., Any], args: tuple[Any, ...], tolerance: float = 1e-10
) -> Any:
    """The same compiled as by NumPy, in seven calls; the compiled function."""
    expected, _ = tree.flatten(f(*args))
    run = wb.compile(f, backend="cupy")
    given = wb.to_gpu(args)
    for turn in range(7):
        made, _ = tree.flatten(run(*given))
        if turn == 0:
            assert run.wait(60)
            assert not isinstance(find_program(run), str), find_program(run)
        for got, truth in zip(made, expected, strict=True):
            assert isinstance(got, cupy.ndarray)
            assert got.dtype == np.asarray(truth).dtype
            np.testing.assert_allclose(
                got.get(), truth, rtol=tolerance, atol=tolerance, err_msg=f"call {turn}"
            )
    return run


@pytest.fixture
def args(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal(4), W, B


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_second_order(name: str, args: tuple[Any, ...]) -> None:
    check(wb.value_and_grad(PROGRAMS[name], (0, 1, 2)), args)
    check(wb.hessian(PROGRAMS[name]), args, 1e-8)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if "f" in s.kinds and s.batch], ids=lambda s: s.name
)
def test_every_sample(sample: Sample, rng: np.random.Generator) -> None:
    """Values, cotangents and tangents; what CuPy lacks is told by its name."""
    args = tuple(np.asarray(a, np.float64) for a in sample.arguments(rng))
    seed = rng.standard_normal(np.shape(sample.f(*args)))
    tangents = tuple(rng.standard_normal(np.shape(a)) for a in args)

    def f(*given: Any) -> Any:
        n = len(args)
        xs, ts, weight = given[:n], given[n : 2 * n], given[-1]
        y, pullback = wb.vjp(sample.f, *xs)
        return y, pullback(weight), wb.jvp(sample.f, xs, ts)[1]

    check(f, (*args, *tangents, seed), 1e-8)


def chain(x: Any) -> Any:
    """A program of many launches: each sum is read by all that follow."""
    for k in range(30):
        x = np.sin(x + np.sum(x * x, axis=-1, keepdims=True) * 1e-3 * k)
    return x


def test_a_program_of_many_launches_is_captured_and_repeated(
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal((64, 33))
    run = check(chain, (x,))
    program = find_program(run)
    assert program.captured >= 1, program.refusal
    # Results of one call are not those of the next.
    first = run(wb.to_gpu(x))
    kept = first.copy()
    second = run(wb.to_gpu(x + 1))
    assert not np.array_equal(first.get(), second.get())
    np.testing.assert_array_equal(first.get(), kept.get())
    np.testing.assert_allclose(second.get(), chain(x + 1), rtol=1e-10)


def test_captured_on_another_stream(rng: np.random.Generator) -> None:
    x = rng.standard_normal((64, 33))
    run = check(chain, (x,))
    given = wb.to_gpu(x)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        made = run(given)
    stream.synchronize()
    np.testing.assert_allclose(made.get(), chain(x), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_dtypes(dtype: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 37)).astype(dtype)
    W_ = rng.standard_normal((37, 3)).astype(dtype)
    tolerance = 3e-3 if dtype == np.float16 else 1e-5
    check(lambda x, W: np.sum(np.exp(x * 0.1) @ W, axis=0), (x, W_), tolerance)


@pytest.mark.parametrize("shape", ["mk kn", "km kn", "mk nk", "km nk", "bmk bkn"])
def test_products_of_every_layout(shape: str, rng: np.random.Generator) -> None:
    lengths = {"m": 7, "k": 5, "n": 3, "b": 4}
    a, b = shape.split()
    x = rng.standard_normal([lengths[i] for i in a])
    y = rng.standard_normal([lengths[i] for i in b])

    def f(x: Any, y: Any) -> Any:
        x = x.T if a == "km" else x
        y = y.T if b == "nk" else y
        return np.tanh(x @ y), (x @ y) @ np.swapaxes(y, -1, -2)

    check(f, (x, y))


@pytest.mark.parametrize("name", LOOPS)
def test_small_loops(name: str, rng: np.random.Generator) -> None:
    """The programs of the host's tests, which are compared more narrowly there."""
    f, names = LOOPS[name]
    given = draw(rng)
    args = tuple(given[n] for n in names.split())
    kinds = {np.asarray(a).dtype.char for a in args}
    tolerance = 1e-2 if "e" in kinds else 1e-4 if kinds & {*"fF"} else 1e-9
    run = check(f, args, tolerance)
    assert any(type(step) is LoopStep for step in find_program(run).plan.steps)


def test_loops_and_choices(rng: np.random.Generator) -> None:
    xs, A = rng.standard_normal((9, 3)), rng.standard_normal((3, 3)) * 0.3

    def last(xs: Any, A: Any) -> Any:
        rows = wb.scan(lambda x, h: np.tanh(A @ h + x), xs, [np.zeros(3)])
        return np.sum(rows[-1] ** 2)

    check(wb.value_and_grad(last, (0, 1)), (xs, A))

    def choose(x: Any) -> Any:
        return wb.cond(np.sum(x) > 0, lambda x: np.sin(x), lambda x: x * x, x)

    check(choose, (np.array([1.0, 2.0]),))
    check(choose, (np.array([-1.0, -2.0]),))


def test_two_runs_are_equal_in_every_bit(rng: np.random.Generator) -> None:
    x, index = rng.standard_normal(100_003), rng.integers(0, 50, 100_003)

    def f(x: Any) -> Any:
        return np.sum(np.exp(-(x**2))), wb.at(np.zeros(50))[index].add(x)

    run = wb.compile(f, backend="cupy")
    given = wb.to_gpu(x)
    run(given)
    assert run.wait(60)
    first = wb.to_cpu(run(given))
    for _ in range(20):
        again = wb.to_cpu(run(given))
        for a, b in zip(first, again, strict=True):
            assert a.tobytes() == b.tobytes()


def test_halves_by_index(rng: np.random.Generator) -> None:
    h, i = rng.standard_normal((37, 5)).astype("f2"), rng.integers(-37, 37, 99)

    def f(h: Any) -> Any:
        return h[i], wb.at(h)[i].max(h[i] + 1), wb.at(h)[i].add(h[i])

    run = check(f, (h,), 3e-3)
    assert find_program(run).list_uncaptured() == []


def test_ten_thousand_calls_take_no_more_memory(rng: np.random.Generator) -> None:
    x = wb.to_gpu(rng.standard_normal((64, 33)))
    run = wb.compile(wb.grad(lambda x: np.sum(chain(x))), backend="cupy")
    run(x)
    assert run.wait(60)
    for _ in range(100):
        run(x)
    pool = cupy.get_default_memory_pool()
    cupy.cuda.Device().synchronize()
    before = pool.total_bytes(), pool.used_bytes()
    for _ in range(10_000):
        run(x)
    cupy.cuda.Device().synchronize()
    assert (pool.total_bytes(), pool.used_bytes()) == before


def test_compute_follows_data(rng: np.random.Generator) -> None:
    f = wb.compile(lambda x, k: np.sum(np.sin(x) * k))
    x = rng.standard_normal(5)
    assert isinstance(f(wb.to_gpu(x), 2.0), cupy.ndarray)
    assert f.backend == "cupy"
    assert f.wait(60)
    np.testing.assert_allclose(f(wb.to_gpu(x), 2.0).get(), np.sum(np.sin(x) * 2))
    assert isinstance(f(x, 2.0), np.float64)


def test_a_function_of_symbols_with_updates(rng: np.random.Generator) -> None:
    A, b = rng.standard_normal((20, 3)), rng.standard_normal(20)
    w = wb.shared(cupy.zeros(3), "w")
    X, y = wb.matrix("X"), wb.vector("y")
    loss = np.mean((X @ w - y) ** 2)
    step = wb.function(
        [X, y], loss, updates={w: w - 0.2 * wb.grad(loss, w)}, backend="cupy"
    )
    data = wb.to_gpu((A, b))
    for _ in range(300):
        assert isinstance(step(*data), cupy.ndarray)
    step.wait(60)
    expected = np.linalg.lstsq(A, b)[0]
    np.testing.assert_allclose(wb.to_cpu(w.get_value()), expected, atol=1e-8)


# Inputs of all kinds


def test_arrays_that_lie_otherwise(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 8))
    f = wb.compile(lambda x: np.sin(x) + 1, backend="cupy")
    given = wb.to_gpu(x)
    for view, truth in ((given.T, x.T), (given[::2, 1:], x[::2, 1:]),
                        (given.ravel()[1:], x.ravel()[1:])):  # fmt: skip
        for _ in range(3):
            np.testing.assert_allclose(f(view).get(), np.sin(truth) + 1, rtol=1e-14)
            f.wait(60)


def test_mixed_arrays_are_refused() -> None:
    f = wb.compile(lambda x, W: x * W, backend="cupy")
    with pytest.raises(UsageError, match=r"'W' is an ndarray.*CPU.*'x' on the GPU"):
        f(cupy.ones(3), np.ones(3))
    with pytest.raises(UsageError, match=r"wb\.to_gpu"):
        f(np.ones(3), np.ones(3))


def test_an_index_out_of_bounds_is_told_later() -> None:
    f = wb.compile(lambda x, i: x[i] * 2, backend="cupy")
    x = cupy.arange(4.0)
    f(x, cupy.array([1, 2]))
    assert f.wait(60)
    f(x, cupy.array([1, 7]))
    with pytest.raises(DeviceError, match="out of bounds in an earlier call"):
        wb.to_cpu(x)
    np.testing.assert_array_equal(wb.to_cpu(f(x, cupy.array([1, 2]))), [2, 4])


def test_too_little_memory_is_told_with_sizes() -> None:
    g = wb.compile(lambda x: x[:, None] * x[None, :] * 2, backend="cupy")
    x = cupy.ones(300_000)  # its square takes 720 GB
    with pytest.raises(DeviceError, match=r"memory of the GPU does not suffice.*free"):
        g(x)
    np.testing.assert_array_equal(g(cupy.ones(2)).get(), np.full((2, 2), 2.0))
