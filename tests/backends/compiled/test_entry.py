"""Small programs as built-in functions: every argument checked, nothing leaked."""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.compiled import entry, tiers
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.symbolic import compiled_function


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


def change_shape(x: Any) -> None:
    x.shape = (5, 2)


def change_dtype(x: Any) -> None:
    x.dtype = np.int8


def change_size(x: Any) -> None:
    x.resize(2, refcheck=False)


def freeze(x: Any) -> None:
    x.flags.writeable = False


CHANGES = [change_shape, change_dtype, change_size, freeze]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("large", [False, True])
def test_a_result_that_its_holder_changed_is_not_used_again(
    change: Any, large: bool
) -> None:
    """It was: a resize ended in a double free."""
    x = wb.vector("x", shape=10)
    f = wb.function([x], 2 * x, backend="compiled")
    f.wait(60)
    run = f._compiled.run if large else lambda args: [f(*args)]  # without the entry
    v = np.arange(10.0)
    for _ in range(20):
        (made,) = run([v])
        assert made.shape == (10,)
        assert made.dtype == np.float64
        assert made.flags.writeable
        np.testing.assert_array_equal(made, 2 * v)
        change(made)
        del made


def test_a_result_that_is_watched_is_not_used_again() -> None:
    """It goes when its holder lets go of it, as its weak references tell."""
    f, x = make(), np.linspace(0, 1, 10)
    f(x)
    gone: list[int] = []
    made = f(x)[1]
    weakref.finalize(made, gone.append, 1)
    del made
    for _ in range(4):
        f(x)
    assert gone == [1]


@pytest.mark.parametrize(
    "look",
    [memoryview, np.asarray, np.from_dlpack, np.ravel, lambda x: x.ctypes.data_as(
        ctypes.POINTER(ctypes.c_double)), lambda x: x.data, lambda x: iter(x)],
)  # fmt: skip
def test_a_result_that_is_seen_through_something_else_stays(look: Any) -> None:
    f, x = make(), np.linspace(0, 1, 10)
    want = f(x)[1].tolist()
    seen = look(f(x)[1])
    for k in range(5):
        f(x + k)
    assert (
        [seen[i] for i in range(10)] == want
        if hasattr(seen, "__getitem__")
        else (list(seen) == want)
    )


def test_functions_of_many_shapes_do_not_nest_without_end(
    rng: np.random.Generator,
) -> None:
    """Each shape's code handed on to the one before, and the stack overflowed."""
    double = wb.compile(lambda x: 2 * x)
    for n in range(1, 40):
        double(np.ones(n))
        assert double.wait(60)
    entries = type(double).entries
    assert len(entries) == tiers.MOST_ENTRIES
    for n in range(1, 40):
        x = rng.normal(size=n)
        np.testing.assert_array_equal(double(x), 2 * x)


def test_code_lives_as_long_as_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was given up for newer ones still answers."""
    monkeypatch.setattr(compiled_function, "MOST_PROGRAMS", 2)
    double = wb.compile(lambda x: 2 * x)
    for n in range(1, 8):
        double(np.ones(n))
        assert double.wait(60)
    assert len(double._programs) == 2
    gc.collect()
    for n in (1, 2, 3, 7):
        np.testing.assert_array_equal(double(np.ones(n)), np.full(n, 2.0))


def test_a_nest_is_not_taken_for_what_is_in_it() -> None:
    f = wb.compile(lambda x: np.sum(np.stack(x), axis=0))
    x = np.arange(6.0).reshape(2, 3)
    for _ in range(2):
        np.testing.assert_array_equal(f([x]), x)
        np.testing.assert_array_equal(f(x), [3.0, 5.0, 7.0])
        f([x])
        f.wait(60)


def test_a_fallback_that_is_replaced_lives_until_it_returns() -> None:
    f = wb.compile(lambda x: 2 * x)
    f(np.ones(3))
    f.wait(60)
    table = vars(type(f))["__call__"].__self__
    seen: list[Any] = []

    def replace(*args: Any) -> Any:
        table.set_fallback(print)
        gc.collect()
        seen.append(args)
        return "replaced"

    table.set_fallback(replace)
    del replace
    assert f("something else") == "replaced"
    assert seen == [("something else",)]


@pytest.mark.parametrize("word", ["new", "scalar", "make_list"])
def test_memory_that_is_short_is_an_error_and_leaks_nothing(
    word: str, rng: np.random.Generator
) -> None:
    f = make()
    x = rng.normal(size=10)
    want = f(x)
    held = [f(x) for _ in range(3)]
    table = vars(type(f))["__call__"].__self__
    place = entry._WORDS.index(word)
    true = int(table[place])
    none = ctypes.pythonapi["PyErr_NoMemory"]
    table[place] = ctypes.cast(none, ctypes.c_void_p).value
    if word == "scalar":
        held.clear()  # an array is taken, and let go again
    counts = [sys.getrefcount(h[1]) for h in held]
    for _ in range(100):
        with pytest.raises(MemoryError):
            f(x)
    after = [sys.getrefcount(h[1]) for h in held]
    assert all(b <= a for a, b in zip(counts, after, strict=True))
    slots = [ctypes.c_int32.from_address(int(table[i])).value for i in table.slots]
    assert word == "new" or min(slots) == 1
    table[place] = true
    np.testing.assert_array_equal(f(x)[1], want[1])


def test_a_function_runs_until_it_is_gone() -> None:
    """Where a cycle is broken up its code goes last: a finalizer may still call it."""
    said: list[Any] = []

    class Caller:
        function: Any

        def __del__(self) -> None:
            said.append([self.function(np.ones(3))[0] for _ in range(5)])

    def start(f: Any) -> weakref.ref[Any]:
        f(np.ones(3))
        f.wait(60)
        caller = Caller()
        caller.function, f.caller = f, caller
        return weakref.ref(f)

    gone = [
        start(wb.compile(lambda x: 3 * x)),
        start(wb.compile(lambda x: x[::-1] * 3)),
    ]
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert said == [[3.0] * 5] * 2


def test_longer_programs_let_other_threads_run(rng: np.random.Generator) -> None:
    x = rng.normal(size=30_000)
    f = wb.compile(lambda x: np.exp(np.sin(x)))
    want = f(x)
    f.wait(60)
    assert has_entry(f)
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.allclose(f(x), want, rtol=1e-14):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_keeps_its_signature_and_refuses_to_be_called_otherwise() -> None:
    x = wb.vector("x", shape=3)
    f = wb.function([x], 2 * x, backend="compiled")
    before = inspect.signature(f), type(f).__doc__, repr(f)
    f.wait(60)
    assert has_entry(f)
    assert (inspect.signature(f), type(f).__doc__, repr(f)) == before
    assert isinstance(f, wb.Function)
    with pytest.raises(UsageError, match="takes 1 argument"):
        f(np.ones(3), np.ones(3))


def test_a_class_of_the_users_keeps_its_call() -> None:
    class Loud(type(wb.compile(np.sin))):  # type: ignore[misc]
        def __call__(self, *args: Any) -> Any:
            return "loud", super().__call__(*args)

    f = Loud(lambda x: 2 * x, "compiled", wb.compile(np.sin)._rewrites)
    for _ in range(2):
        assert f(1.0) == ("loud", 2.0)
        assert f.wait(60)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "i4", "u1", "b1"])
def test_arrays_without_axes_are_taken_as_numbers_are(dtype: str) -> None:
    f = wb.compile(lambda x, y: (x * y, np.sum(y) + x))
    x, y = np.array(2).astype(dtype), np.arange(3.0)
    want = f(x, y)
    f.wait(60)
    f(x, y)
    assert has_entry(f)
    entered: list[Any] = []
    type(f).__call__.__self__.set_fallback(lambda *a: entered.append(a))
    shifted = np.zeros(17, np.uint8)[1:][: x.itemsize].view(dtype).reshape(())
    shifted[...] = x
    for given in (x, x[()], np.stack([x, x])[1:].reshape(())):
        for found, wanted in zip(f(given, y), want, strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert type(found) is type(wanted)
    assert not entered
    # Unaligned, of another dtype, or with an axis: the slow way has them.
    other = "f4" if dtype == "f8" else "f8"
    odd = [np.ones((), other), x[None], 2, 2.0, None]
    if x.itemsize > 1:
        odd.append(shifted)
    for given in odd:
        f(given, y)
    assert len(entered) == len(odd)


def test_a_python_float_and_an_array_without_axes_are_of_two_kinds() -> None:
    f = wb.compile(lambda x: x * np.float32(3))
    for _ in range(2):
        assert f(2.0).dtype == np.float32
        assert f(np.array(2.0)).dtype == np.float64
        f.wait(60)
