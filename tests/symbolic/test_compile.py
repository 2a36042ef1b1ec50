"""`wb.compile`: a function of arrays, traced once for each kind of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import TraceError, UsageError

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
    assert not double.ready()
    assert not double.wait(0)
    with pytest.raises(UsageError, match="was not called yet"):
        _ = double.graph


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
    with pytest.raises(TraceError, match=r"Write np\.where\(condition, a, b\)"):
        wb.compile(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(TraceError, match="returns 'text', which is not an array"):
        wb.compile(lambda x: "text")(1.0)
    with pytest.raises(TraceError, match="a masked array"):
        wb.compile(lambda x: x)(np.ma.masked_array([1.0], [True]))
