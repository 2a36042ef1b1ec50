"""Calls of compiled code that Python makes: strides, nests, steps of NumPy's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ShapeError, UsageError


def objective(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def differentiate(x: Any) -> Any:
    """Rosenbrock's gradient, by hand."""
    gap = x[1:] - x[:-1] ** 2
    g = np.zeros_like(x)
    g[1:] = 200 * gap
    g[:-1] -= 400 * gap * x[:-1] + 2 * (1 - x[:-1])
    return g


def make_ready(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    f = wb.compile(f)
    f(*args, **kwargs)
    assert f.wait(60)
    assert f.backend == "compiled"
    f(*args, **kwargs)
    return f


def count_calls(f: Callable[..., Any], *args: Any) -> int:
    """Return how many functions written in Python a call runs."""
    count = 0

    def see(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        f(*args)
    finally:
        sys.setprofile(before)
    return count


def test_an_ordinary_call_runs_few_functions(rng: np.random.Generator) -> None:
    x = rng.standard_normal(20)[::2]
    nest = {"x": x, "scale": np.array(0.5)}
    f = make_ready(wb.value_and_grad(objective), x)
    g = make_ready(wb.value_and_grad(lambda p: p["scale"] * objective(p["x"])), nest)
    h = make_ready(wb.value_and_grad(lambda x: objective(np.sort(x))), x)
    for made, args, most in ((f, (x,), 12), (g, (nest,), 20), (h, (x,), 20)):
        assert 0 < count_calls(made, *args) <= most


def test_right_numbers_and_results_of_the_callers_own(rng: np.random.Generator) -> None:
    f = make_ready(wb.grad(lambda p: p["s"] * objective(p["x"])),
                   {"x": np.ones(6), "s": 2.0})  # fmt: skip
    kept = []
    for _ in range(9):
        x, s = rng.standard_normal(12)[::2], float(rng.standard_normal())
        kept.append((f({"s": s, "x": x}), s, x))  # in whichever order
    for made, s, x in kept:
        np.testing.assert_allclose(made["x"], s * differentiate(x), rtol=1e-12)
        np.testing.assert_allclose(made["s"], objective(x), rtol=1e-12)


def test_another_nest_is_another_program() -> None:
    f = make_ready(lambda p: 2 * p["x"], {"x": np.ones(3)})
    assert f({"x": np.ones(3), "y": 1.0}).tolist() == [2.0] * 3
    with pytest.raises(KeyError):
        f({"y": np.ones(3)})
    assert f({"x": np.ones((1, 3))}).shape == (1, 3)
    assert f({"x": np.ones(3, np.float32)}).dtype == np.float32
    assert f({"x": 1.5}) == 3.0


def test_settings_are_told_apart_in_quick_calls_too() -> None:
    f = make_ready(lambda x, n, how=None: x * n if how is None else x, np.ones(3), 2)
    assert f(np.ones(3), 2).tolist() == [2.0] * 3
    assert f(np.ones(3), 3).tolist() == [3.0] * 3
    assert f(np.ones(3), 3, how="no").tolist() == [1.0] * 3
    assert f(np.ones(3), 2).tolist() == [2.0] * 3
    assert f(np.ones(3), True).tolist() == [1.0] * 3  # no 1, which has the same hash
    assert f(np.ones(3), 1).tolist() == [1.0] * 3


def test_no_result_is_an_argument_a_constant_or_another_result() -> None:
    table = np.arange(3.0)
    x = np.ones(3)
    f = make_ready(lambda x: (x, table, np.sort(x), y := np.exp(x), y), x)
    first = f(x)
    for made in first:
        made += 1
    assert x.tolist() == [1.0] * 3
    assert table.tolist() == [0.0, 1.0, 2.0]
    e = np.exp(1.0)
    for made, expected in zip(f(x), [1.0, table, 1.0, e, e], strict=True):
        np.testing.assert_allclose(made, np.broadcast_to(expected, 3))
    np.testing.assert_allclose(first[3], np.full(3, e + 1))


def test_what_an_op_keeps_of_its_operands_stays(rng: np.random.Generator) -> None:
    kept: list[Any] = []

    class Keep(wb.Op):
        name = "keep_operands"

        def compute(self, x: Any) -> Any:
            kept.append(x)
            return x + 1.0

        def infer(self, x: Any) -> Any:
            return x

    keep = Keep()
    f = make_ready(lambda x: np.sum(keep(np.exp(x)) ** 2), np.zeros(4))
    kept.clear()
    xs = [rng.standard_normal(4) for _ in range(5)]
    for x in xs:
        f(x)
    for x, seen in zip(xs, kept, strict=True):
        np.testing.assert_allclose(seen, np.exp(x), rtol=1e-14)


def test_numbers_that_an_op_keeps_stay() -> None:
    kept: list[Any] = []

    class KeepNumber(wb.Op):
        name = "keep_number"

        def compute(self, x: Any) -> Any:
            kept.append(x)
            return x + 1.0

    keep = KeepNumber()

    def f(x: Any) -> Any:
        total = np.sum(x)
        return total, keep(np.reshape(total, (1,)))

    ready = make_ready(f, np.zeros(20))
    kept.clear()
    for k in range(4):
        ready(np.full(20, float(k)))
    assert [x.tolist() for x in kept] == [[0.0], [20.0], [40.0], [60.0]]


def test_a_setting_that_has_changed_is_another_one() -> None:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = k

        def __hash__(self) -> int:
            return hash(self.k)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Scale) and self.k == other.k

        @wb.compile
        def apply(self, x: Any) -> Any:
            return x * self.k

    scale, x = Scale(2.0), np.ones(3)
    scale.apply(x)
    assert Scale.apply.wait(60)
    assert scale.apply(x).tolist() == [2.0] * 3
    scale.k = 5.0
    assert scale.apply(x).tolist() == [5.0] * 3


def test_a_call_that_compiled_code_leaves_runs_ops_twice_at_most() -> None:
    runs = 0

    class CountRuns(wb.Op):
        name = "count_runs"

        def compute(self, x: Any) -> Any:
            nonlocal runs
            runs += 1
            return x * 1.0

    count = CountRuns()
    f = make_ready(lambda x, j: count(x)[j], np.ones(5), np.array(1))
    runs = 0
    with pytest.raises(IndexError):
        f(np.ones(5), np.array(9))
    assert runs == 2  # by compiled code, and by NumPy, which has the words
    assert f(np.ones(5), np.array(2)) == 1.0


def test_threads_call_at_the_same_time(rng: np.random.Generator) -> None:
    f = make_ready(lambda x: np.sum(np.sort(np.tanh(x))[::2] ** 2), np.zeros(9))
    wrong: list[Any] = []

    def call(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(300):
            x = own.standard_normal(18)[::2]
            expected = np.sum(np.sort(np.tanh(x))[::2] ** 2)
            if abs(f(x) - expected) > 1e-12:
                wrong.append(x)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_functions_of_symbols_take_nests_and_names(rng: np.random.Generator) -> None:
    x, s = wb.vector("x", shape=6), wb.scalar("s")
    f = wb.function([{"x": x, "s": s}], wb.grad(s * objective(x), x),
                    backend="compiled")  # fmt: skip
    assert f.wait(60)
    for _ in range(3):
        at = rng.standard_normal(12)[::2]
        made = f({"s": 2.0, "x": at})
        np.testing.assert_allclose(made, 2 * differentiate(at), rtol=1e-12)
    assert count_calls(f, {"s": 2.0, "x": at}) <= 20
    with pytest.raises(ShapeError, match="'x' takes"):
        f({"s": 2.0, "x": np.ones(5)})
    with pytest.raises(UsageError, match="nested otherwise"):
        f([2.0, at])
