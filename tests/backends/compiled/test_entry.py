"""Small programs as built-in functions: every argument checked, nothing leaked."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.compiled import entry
from workbench.errors import DtypeError, ShapeError, UsageError


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def has_entry(f: Any) -> bool:
    return type(vars(type(f)).get("__call__")).__name__ == "builtin_function_or_method"


def make(n: int = 10) -> Any:
    x = wb.vector("x", shape=n)
    y = rosenbrock(x)
    f = wb.function([x], [y, wb.grad(y, x)], backend="compiled")
    assert f.wait(60)
    assert has_entry(f)
    return f


def check(f: Any, x: Any) -> None:
    from scipy.optimize import rosen, rosen_der

    value, gradient = f(x)
    np.testing.assert_allclose(value, rosen(np.asarray(x)), rtol=1e-13)
    np.testing.assert_allclose(gradient, rosen_der(np.asarray(x)), rtol=1e-12)
    assert type(value) is np.float64


def test_the_layout_of_this_python_is_known() -> None:
    assert entry.is_layout_known()


def test_right_numbers_from_memory_of_every_kind(rng: np.random.Generator) -> None:
    f = make()
    x = rng.normal(size=10)
    frozen = x.copy()
    frozen.flags.writeable = False
    raw = np.empty(81, np.uint8)[1:].view(np.float64)
    raw[...] = x
    wide = np.repeat(x, 2)
    for given in (x, frozen, raw, wide[::2], x[::-1].copy()[::-1], list(x), tuple(x)):
        check(f, given)
    check(f, x.astype(np.float32).astype(float))


def test_wrong_arguments_are_errors_and_never_a_crash(
    rng: np.random.Generator,
) -> None:
    f = make()
    x = rng.normal(size=10)
    wrong = [
        (UsageError, ()), (UsageError, (x, x)), (ShapeError, (x[:9],)),
        (ShapeError, (x[:, None],)), (ShapeError, (3.0,)), (DtypeError, (x * 1j,)),
        (DtypeError, ("abc",)), (DtypeError, (None,)),
    ]  # fmt: skip
    for error, args in wrong:
        with pytest.raises(error):
            f(*args)
        check(f, x)
    with pytest.raises(UsageError, match="has no argument 'z'"):
        f(z=x)
    assert f(x=x)[0] == f(x)[0]


def test_references_are_counted(rng: np.random.Generator) -> None:
    f = make()
    x = rng.normal(size=10)
    f(x)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(np.float64), sys.getrefcount(x.dtype)
    nothing = sys.getrefcount(())
    for _ in range(1000):
        f(x)
    after = sys.getrefcount(x), sys.getrefcount(np.float64), sys.getrefcount(x.dtype)
    assert np.allclose(before, after, atol=20, rtol=0)
    assert abs(sys.getrefcount(()) - nothing) < 50


def test_results_are_the_callers_own(rng: np.random.Generator) -> None:
    f = make()
    xs = [rng.normal(size=10) for _ in range(20)]
    kept = [f(x)[1] for x in xs]
    for x, gradient in zip(xs, kept, strict=True):
        np.testing.assert_array_equal(gradient, f(x)[1])
    assert len({id(g) for g in kept}) == 20
    view = f(xs[0])[1][2:4]
    want = view.copy()
    for x in xs:
        f(x)
    np.testing.assert_array_equal(view, want)
    del f
    gc.collect()
    kept[0] += 1  # outlives the function


def test_numbers_in_and_out() -> None:
    x, n = wb.scalar("x"), wb.scalar("n", dtype=np.int64)
    f = wb.function([x, n], (x * n, np.sin(x)), backend="compiled")
    f.wait(60)
    assert has_entry(f)
    for given in ((2.0, np.int64(3)), (np.float64(2), 3), (2, 3), (np.array(2.0), 3)):
        made = f(*given)
        assert made == (6.0, np.sin(2.0))
        assert type(made) is tuple
    with pytest.raises(DtypeError):
        f("2", 3)


def test_each_shape_that_was_compiled_keeps_its_entry(
    rng: np.random.Generator,
) -> None:
    slope = wb.compile(wb.grad(rosenbrock))
    xs = [rng.normal(size=n) for n in (3, 4, 5, 3)]
    for x in xs:
        slope(x)
        slope.wait(60)
    from scipy.optimize import rosen_der

    for x in xs:
        np.testing.assert_allclose(slope(x), rosen_der(x), rtol=1e-12)
    assert isinstance(slope, type(wb.compile(np.sin)))


def test_overrides_are_still_seen() -> None:
    slope = wb.compile(wb.grad(np.sin))
    slope(0.0)
    slope.wait(60)
    assert has_entry(slope)
    assert slope(0.0) == 1.0
    with wb.overrides(wb.override("sin", "5 * d")):
        assert slope(0.0) == 5.0
    assert slope(0.0) == 1.0


def test_large_programs_let_other_threads_run() -> None:
    f = wb.compile(lambda x: np.exp(x))
    f(np.zeros(100_000))
    f.wait(60)
    assert not has_entry(f)


def test_many_threads(rng: np.random.Generator) -> None:
    f = make()
    xs = [rng.normal(size=10) for _ in range(6)]
    expected = [f(x) for x in xs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(3000):
            value, gradient = f(xs[i])
            if value != expected[i][0] or not np.array_equal(gradient, expected[i][1]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
