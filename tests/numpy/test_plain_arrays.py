"""Arrays that a traced function makes are NumPy's to everybody else."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import pickle
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

import workbench as wb
from tests.core.test_filling import differences
from workbench.errors import GradientLostError, TraceError, WorkbenchError

#: NumPy's own, under names that nothing is swapped for.
REAL: dict[str, Any] = {"module": np, "zeros": np.zeros, "asarray": np.asarray}
X = np.array([1.0, 2.0, 3.0])


def test_plain_numbers_are_no_nodes() -> None:
    def table(x: Any) -> Any:
        t = np.zeros((30, 30))
        for i in range(1, 30):
            for j in range(1, 30):
                t[i, j] = max(t[i - 1, j], t[i, j - 1]) + 0.5 * t[i - 1, j - 1] + 1
        return x[0] * t[-1, -1]

    assert len(wb.trace(table)(X).nodes) <= 3
    np.testing.assert_array_equal(wb.grad(table)(X), [table([1.0]), 0, 0])


def test_a_plain_array_is_numpys_to_others() -> None:
    def f(x: Any) -> Any:
        a = np.zeros(3)
        a[1] = 2.0
        parts = [
            np.frombuffer(a), memoryview(a), copy.deepcopy(a), copy.copy(a),
            pickle.loads(pickle.dumps(a)), (ctypes.c_double * 3).from_buffer(a),
            np.ctypeslib.as_array(a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
                                  (3,)),
        ]  # fmt: skip
        assert [part[1] for part in parts] == [2.0] * len(parts)
        a[0] = x[0]
        return np.sum(a) * x[0]

    np.testing.assert_array_equal(wb.grad(f)(X), [4, 0, 0])


def _sum_plainly(a: Any) -> tuple[float, bool]:
    return float(np.sum(a)), type(a) is np.ndarray


def test_a_plain_array_goes_to_another_process() -> None:
    def f(x: Any) -> Any:
        a = np.ones(3)
        a[1] = 2.0
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found, is_plain = pool.apply(_sum_plainly, (a,))
        assert is_plain
        out = np.zeros(3)
        out[0] = x[0] * found
        return np.sum(out)

    np.testing.assert_array_equal(wb.grad(f)(X), [4, 0, 0])


@pytest.mark.parametrize(
    "read",
    [
        lambda a: np.lib.stride_tricks.as_strided(a, (2,), (8,)) + 1,
        lambda a: REAL["asarray"](a) + 1,
        lambda a: REAL["asarray"](a, float),
        lambda a: float(REAL["asarray"](a)[0]),
        lambda a: REAL["asarray"](a).sum(),
        lambda a: memoryview(a).cast("B").cast("d"),
    ],
)
def test_old_numbers_are_never_read(read: Callable[[Any], Any]) -> None:
    """Compiled code that is given an array with Tensors meets an error, or NaN."""

    def f(x: Any) -> Any:
        a = np.zeros(3)
        a[0] = x[0]
        found = read(a)
        assert np.isnan(np.array(found)).all()
        raise TraceError("only NaN is left")

    with pytest.raises((TypeError, ValueError, TraceError, AttributeError)):
        wb.grad(f)(X)


def test_exported_memory_is_right_before_and_after() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        a = np.ones(3)
        kept[:] = [memoryview(a), a]
        a[0] = x[0] * 2
        assert np.isnan(kept[0][0])
        return np.sum(a)

    wb.grad(f)(X)
    for part in kept:
        np.testing.assert_array_equal(part, [2, 1, 1])
    kept[1][2] = 8.0
    assert kept[0][2] == 8.0


def test_what_an_array_is() -> None:
    def f(x: Any) -> Any:
        a, i = np.zeros(3), np.arange(3)
        for part in (a, x, i):
            assert isinstance(part, np.ndarray)
            assert isinstance(part, (list, ndarray))
            assert type(part) is np.ndarray
            assert type(part) is ndarray
        a[i] = x
        assert isinstance(a, np.ndarray)
        assert isinstance(a, ndarray)
        assert type(a) is np.ndarray
        assert type(a[0]) is np.float64
        assert isinstance(x[0], float)
        assert not isinstance(x[0], np.ndarray)
        assert type(len(x)) is int
        assert isinstance(int, type)
        assert type("A", (), {}).__name__ == "A"

        class Own(np.ndarray):
            pass

        assert Own.__mro__[1] is np.ndarray
        assert type(np.zeros(2).view(Own)) is Own
        return np.sum(a * x)

    np.testing.assert_array_equal(wb.grad(f)(X), 2 * X)


JIT = """
class jit:
    def __init__(self, f):
        self.py_func = f
    def __call__(self, *args):
        names = self.py_func.__globals__
        self.found = names["np"].ones, names["np"].linalg, names["make_ones"]
        return self.py_func(*args)
"""


def test_a_compiler_finds_numpy() -> None:
    """A function of another library's reads the names of the user's, as numba does."""
    library, user = ModuleType("jitlib"), ModuleType("user")
    exec(compile(JIT, "/lib/site-packages/jitlib.py", "exec"), vars(library))
    vars(user)["jit"] = library.jit
    text = """
import numpy as np
from numpy import ones as make_ones
@jit
def helper(a):
    return np.ones(3) + make_ones(3) + a
def f(x):
    a = np.zeros(3)
    a[0] = helper(np.ones(3))[0] * x[0]
    return np.sum(a)
"""
    exec(text, vars(user))
    np.testing.assert_array_equal(wb.grad(user.f)(X), [3, 0, 0])
    assert user.helper.found == (np.ones, np.linalg, np.ones)


def test_a_function_compiled_by_numba_in_a_trace() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def helper(a):  # type: ignore[no-untyped-def]
        out = np.zeros(3)
        for i in range(3):
            out[i] = a[i] * 2 + np.ones(3)[i]
        return out

    def f(x: Any) -> Any:
        t = np.zeros(3)
        t[1] = 1.0
        found = helper(t)
        out = np.zeros(3)
        out[0] = x[0] * found[1]
        return np.sum(out)

    np.testing.assert_array_equal(wb.grad(f)(X), [3, 0, 0])


def test_memory_of_the_caller_is_never_blanked() -> None:
    """Whoever lends it: an array by keyword, a buffer, an object's own array."""
    kept = np.array([1.0, 2.0, 3.0])
    lent = array("d", [1.0, 2.0, 3.0])

    class Lending:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return kept

    for lend in (
        lambda: np.asarray(a=kept),
        lambda: np.array(object=kept, copy=False),
        lambda: np.asarray(lent),
        lambda: np.frombuffer(lent),
        lambda: np.asarray(Lending()),
    ):

        def fill(x: Any, lend: Any = lend) -> Any:
            v = lend()
            v[0] = x[0]
            return np.sum(v)

        with pytest.raises(WorkbenchError):
            wb.grad(fill)(X)
        assert kept.tolist() == list(lent) == [1.0, 2.0, 3.0]


def test_an_array_given_by_keyword_is_itself() -> None:
    def fill(x: Any) -> Any:
        made = np.zeros(3)
        np.asarray(a=made)[0] = 2 * x[0]
        return np.sum(made)

    assert wb.grad(fill)(X).tolist()[0] == 2.0


def test_what_is_read_only_stays_so() -> None:
    def fill(x: Any) -> Any:
        np.broadcast_to(np.zeros(3), (2, 3))[0] = x[0]
        return np.sum(x)

    with pytest.raises((ValueError, WorkbenchError)):
        wb.grad(fill)(X)


def squeezed(x: Any) -> Any:
    a = np.zeros((3, 1))
    v = a.squeeze()
    a[:, 0] = x
    v[1] = 5.0
    return np.sum(a * a)


def raveled_column(x: Any) -> Any:
    a = np.zeros((3, 3))
    a[0] = x
    kept = a[:, 0].ravel()
    a[0] = 0.0
    return np.sum(kept * kept) + np.sum(a)


def contiguous_column(x: Any) -> Any:
    a = np.zeros((3, 3))
    a[0] = x
    kept = np.ascontiguousarray(a[:, 0])
    kept[:] = 9.0
    return np.sum(a * a) + np.sum(kept)


def reversed_part(x: Any) -> Any:
    a = np.zeros(3)
    a[:] = x
    a[::-1][0] = 1.0
    kept = a[::2].ravel()
    a[0] = 0.0
    return np.sum(a * a) + np.sum(kept * kept)


def made_like(x: Any) -> Any:
    a = np.zeros(3)
    a[0] = x[0]
    b, c = np.zeros_like(a), np.full_like(a, 2.0)
    b[1] = a[0] * 2
    return np.sum(b * b + a * c)


def nothing_in_it(x: Any) -> Any:
    a = np.zeros(3)
    a[3:][:] = x[3:]
    a[0] = x[0] * x[0]
    return np.sum(a)


def of_objects(x: Any) -> Any:
    a = np.zeros(2)
    a[:] = np.array([x[0], x[1]], dtype=object)
    return np.sum(a * a)


@pytest.mark.parametrize(
    "f",
    [squeezed, raveled_column, contiguous_column, reversed_part, made_like,
     nothing_in_it, of_objects],
)  # fmt: skip
def test_what_is_a_view_is_one_and_what_is_a_copy_too(f: Callable[..., Any]) -> None:
    value, slope = wb.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(slope, differences(f, X, 1e-3), rtol=1e-8, atol=1e-9)


def test_entries_of_a_filled_array_as_numbers_are_refused() -> None:
    for read in (lambda a: sum(a.tolist()), lambda a: a.item(0)):

        def f(x: Any, read: Any = read) -> Any:
            a = np.zeros(3)
            a[:] = x
            return read(a)

        with pytest.raises(GradientLostError, match="would lose its gradient"):
            wb.grad(f)(X)


def of_einsum(x: Any) -> Any:
    a = np.zeros((3, 3))
    diagonal = np.einsum("ii->i", a)
    a[0, 1] = x[0]
    diagonal[:] = 1.0
    return np.sum(a)


def of_the_base_class(x: Any) -> Any:
    a = np.zeros(3)
    view = a.view(np.ndarray)
    a[0] = x[0]
    return np.sum(view)


def of_a_library(x: Any) -> Any:
    a = np.zeros(3)
    held = REAL["asarray"](a)
    a[0] = x[0]
    return np.sum(held)


def of_windows(x: Any) -> Any:
    a = np.zeros(4)
    windows = np.lib.stride_tricks.sliding_window_view(a, 2)
    a[0] = x[0]
    return np.sum(windows)


def of_a_walk(x: Any) -> Any:
    a = np.ones(3)
    for i, v in np.ndenumerate(a):
        a[i] = v + x[i]
    return np.sum(a)


@pytest.mark.parametrize(
    "f", [of_einsum, of_the_base_class, of_a_library, of_windows, of_a_walk]
)
def test_a_view_that_would_not_show_a_store_is_an_error(f: Any) -> None:
    with pytest.raises(TraceError, match="another array of NumPy's shows the memory"):
        wb.grad(f)(X)


def test_an_array_given_twice_is_one() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        a[0] = 10 * x[0]
        return np.sum(b * x)

    w = np.ones(3)
    slope = wb.grad(f)(X, w, w)
    np.testing.assert_allclose(slope, [20 * X[0], 1.0, 1.0])
    assert w.tolist() == [1.0, 1.0, 1.0]


def test_stores_of_numbers_in_what_runs_many_times_are_refused() -> None:
    def f(x: Any) -> Any:
        count = np.ones(1)

        def one(y: Any) -> Any:
            count[0] += 1.0
            return y * count[0]

        return np.sum(wb.vmap(one)(x)) * count[0]

    with pytest.raises(TraceError, match="recorded once and runs many times"):
        wb.grad(f)(X)


def test_an_index_may_change_after_its_store() -> None:
    def f(x: Any) -> Any:
        i, a, b = np.array([0, 1, 1]), np.zeros(3), np.zeros(3)
        np.put_along_axis(a, i, x, 0)
        i[0], i[2] = 2, 0
        np.put_along_axis(b, i, x, 0)
        return np.sum((a * a + b * b) * np.array([1.0, 2.0, 3.0]))

    np.testing.assert_allclose(wb.grad(f)(X), differences(f, X, 1e-3), rtol=1e-9)
