"""`wb.compile`: a function of arrays, traced once for each kind of arguments."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core import traces
from workbench.errors import GradientLostError, TraceError, UsageError
from workbench.symbolic import compiled_function

BACKENDS = ["numpy", "compiled", "auto"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient(backend: str, rng: np.random.Generator) -> None:
    slope = wb.compile(wb.grad(lambda x: np.sum(np.tanh(x) ** 2)), backend=backend)
    x = rng.normal(size=7)
    for _ in range(2):
        expected = 2 * np.tanh(x) * (1 - np.tanh(x) ** 2)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-13)
        slope.wait(60)


def test_a_decorator_keeps_name_and_text() -> None:
    @wb.compile
    def double(x: Any) -> Any:
        """Double it."""
        return 2 * x

    assert double.__name__ == "double"
    assert double.__doc__ == "Double it."
    assert repr(double) == "<CompiledFunction double>"
    assert double.backend == "numpy"
    assert not double.is_ready()
    assert not double.wait(0)
    with pytest.raises(UsageError, match="was not called yet"):
        _ = double.graph


def test_a_decorator_takes_settings() -> None:
    @wb.compile(backend="numpy", without="all")
    def add_zero(x: Any) -> Any:
        return x + 0.0

    assert add_zero.__name__ == "add_zero"
    np.testing.assert_array_equal(add_zero(np.ones(2)), np.ones(2))
    assert [node.op.name for node in add_zero.graph.nodes if node.inputs] == ["add"]
    with pytest.raises(UsageError, match="backend"):
        wb.compile(backend="gpu")


def test_nests_in_and_out(rng: np.random.Generator) -> None:
    def f(p: Any, *, scale: float) -> Any:
        return {"w": p["w"] * scale, "all": [np.sum(p["b"][0]), p["b"][1], 3.0]}

    given = {"w": rng.normal(size=3), "b": (rng.normal(size=(2, 2)), 1.5)}
    g = wb.compile(f)
    for _ in range(2):
        made, want = g(given, scale=0.5), f(given, scale=0.5)
        np.testing.assert_allclose(made["w"], want["w"])
        np.testing.assert_allclose(made["all"][0], want["all"][0], rtol=1e-14)
        assert made["all"][1:] == [1.5, 3.0]
        g.wait(60)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64])
def test_python_numbers_stay_weak(dtype: Any) -> None:
    f = wb.compile(lambda x, a: x * a)
    x = np.arange(4).astype(dtype)
    for _ in range(2):
        assert f(x, 0.5).dtype == (x * 0.5).dtype
        np.testing.assert_array_equal(f(x, 0.25), x * 0.25)
        f.wait(60)


def test_integers_are_settings_and_integer_arrays_are_inputs() -> None:
    calls = []

    @wb.compile
    def f(x: Any, i: Any, n: int) -> Any:
        calls.append(n)
        return np.sum(x[i]) ** n

    x = np.arange(5.0)
    assert f(x, np.array([1, 2]), 2) == 9.0
    assert f(x, np.array([3, 4]), 2) == 49.0
    assert f(x, np.array([3, 4]), 1) == 7.0
    assert calls == [2, 1]


def test_in_a_trace_the_function_itself_runs(rng: np.random.Generator) -> None:
    f = wb.compile(lambda x: np.sum(x**3))
    x = rng.normal(size=4)
    np.testing.assert_allclose(wb.grad(f)(x), 3 * x**2, rtol=1e-13)
    np.testing.assert_allclose(wb.hessian(f)(x), np.diag(6 * x), atol=1e-13)


def test_overrides_hold_for_what_runs_in_their_block() -> None:
    slope = wb.compile(wb.grad(lambda x: np.sin(x)))
    plain = slope(0.0)
    with wb.overrides(wb.override("sin", "5 * d")):
        assert slope(0.0) == 5.0
    assert slope(0.0) == plain == 1.0


def test_shared_values_are_read_at_each_call() -> None:
    w = wb.shared(2.0, "w")
    f = wb.compile(lambda x: x * w)
    assert f(3.0) == 6.0
    f.wait(60)
    w.set_value(5.0)
    assert f(3.0) == 15.0


def test_a_constant_is_what_it_was_at_the_first_call() -> None:
    table = np.arange(3.0)
    f = wb.compile(lambda x: x + table)
    np.testing.assert_array_equal(f(np.zeros(3)), [0, 1, 2])
    table[0] = 9.0
    np.testing.assert_array_equal(f(np.zeros(3)), [0, 1, 2])


def test_outputs_are_the_callers_own() -> None:
    f = wb.compile(lambda x: (x, x, x.T, np.ones(3)))
    x = np.eye(3)
    made = f(x)
    made[0][...] = 7
    made[3][...] = 7
    np.testing.assert_array_equal(x, np.eye(3))
    np.testing.assert_array_equal(made[1], np.eye(3))
    np.testing.assert_array_equal(f(x)[3], np.ones(3))


def test_errors_say_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"there is no backend 'gpu'\. Choose 'numpy'"):
        wb.compile(np.sin, backend="gpu")
    with pytest.raises(UsageError, match="compile needs a function of arrays"):
        wb.compile(np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"is given \{1, 2\}, which is not an array"):
        wb.compile(lambda x, s: x)(1.0, {1, 2})
    lonely = wb.compile(lambda x, s: x)
    lonely(1.0, Lonely())
    with pytest.raises(TypeError, match="nothing is like me"):
        lonely(1.0, Lonely())
    with pytest.raises(TraceError, match=r"Write np\.where\(condition, a, b\)"):
        wb.compile(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(TraceError, match="returns 'text', which is not an array"):
        wb.compile(lambda x: "text")(1.0)
    with pytest.raises(TraceError, match="a masked array"):
        wb.compile(lambda x: x)(np.ma.masked_array([1.0], [True]))


class Lonely:
    """A setting that has a hash, and refuses to be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("nothing is like me")

    def __hash__(self) -> int:
        return 1


def test_no_gradient_is_lost_through_what_a_function_reads() -> None:
    """It was a constant of the program: the gradient came out as zero."""

    def total(w: Any) -> Any:
        return np.sum(wb.compile(lambda x: x * w)(np.ones(3)))

    assert wb.grad(total)(2.0) == 3.0
    scale = [2.0]
    f = wb.compile(lambda x: np.sum(x * scale[0]))
    f(np.ones(3))
    f.wait(60)

    def later(w: Any) -> Any:
        scale[0] = w
        return f(np.ones(3))

    assert wb.grad(later)(2.0) == 3.0


def test_a_gradient_that_another_thread_would_lose_is_an_error() -> None:
    def total(w: Any) -> Any:
        with ThreadPoolExecutor() as pool:
            return pool.submit(wb.compile(lambda x: np.sum(x * w)), np.ones(3)).result()

    with pytest.raises(GradientLostError, match=r"Pass it as an argument, or call"):
        wb.grad(total)(2.0)


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @wb.compile
    def apply(self, x: Any) -> Any:
        """Scale it."""
        return self.scale * x


def test_methods() -> None:
    one, two = Model(2.0), Model(3.0)
    for _ in range(2):
        for model in (one, two):
            np.testing.assert_array_equal(model.apply(np.ones(2)), [model.scale] * 2)
        np.testing.assert_array_equal(Model.apply(one, np.ones(2)), [2.0, 2.0])
        assert Model.apply.wait(60)
    assert one.apply.__doc__ == "Scale it."


@wb.compile
def double(x: Any) -> Any:
    return 2 * x


def test_copies_and_pickles_are_by_name_as_for_functions() -> None:
    for _ in range(2):
        assert copy.copy(double) is copy.deepcopy(double) is double
        assert pickle.loads(pickle.dumps(double)) is double
        double(1.0)
        double.wait(60)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(wb.compile(lambda x: x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_draws_are_new_in_each_call(backend: str) -> None:
    drawn = wb.random.default_rng(3)
    f = wb.compile(lambda x: x + drawn.normal(size=2), backend=backend)
    made = []
    for _ in range(6):
        made.append(f(np.zeros(2)))
        f.wait(60)
    assert len({x.tobytes() for x in made}) == 6


def test_settings_are_told_apart_by_class_and_value() -> None:
    f = wb.compile(lambda x, n: x * n)
    x = np.array([1.0, -2.0])
    for _ in range(2):
        assert f(x > 0, True).dtype == bool
        assert f(x > 0, 1).dtype == np.int64
        np.testing.assert_array_equal(np.signbit(f(x, -0.0)), [True, False])
        np.testing.assert_array_equal(np.signbit(f(x, 0.0)), [False, True])
        assert np.isnan(f(x, float("nan"))).all()
        assert f(x.astype("f4"), 2.0).dtype == np.float32
        assert f(x.astype("f4"), np.float64(2)).dtype == np.float64
        assert f(x, 2**70)[0] == 2.0**70
        f.wait(60)


def test_what_a_function_raises_leaves_no_trace_open() -> None:
    f = wb.compile(lambda x, n: x if n else {}[n])
    for _ in range(3):
        with pytest.raises(KeyError):
            f(1.0, 0)
        assert not traces.OPEN
    assert f(1.0, 1) == 1.0


def test_many_threads_meet_many_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_function, "MOST_PROGRAMS", 3)
    f = wb.compile(lambda x, n: x + n, backend="numpy")

    def work(k: int) -> bool:
        return all(f(1.0, (k + i) % 7) == 1 + (k + i) % 7 for i in range(60))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
