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
REAL: dict[str, Any] = {
    "module": np, "zeros": np.zeros, "asarray": np.asarray, "type": type,
}  # fmt: skip
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
    with pytest.raises(TraceError, match="another NumPy array shares the memory"):
        wb.grad(f)(X)


def test_an_array_given_twice_is_one() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        a[0] = 10 * x[0]
        return np.sum(b * x)

    w = np.ones(3)
    slope = wb.grad(f)(X, w, w)
    np.testing.assert_allclose(slope, [20 * X[0], 1.0, 1.0])
    assert w.tolist() == [1.0, 1.0, 1.0]


def _add_number(a: Any) -> None:
    a += 1


def _double_part(a: Any) -> None:
    part = a[1:]
    part *= 2


def _set_entry(a: Any) -> None:
    a[0] = 5


#: Ways to write plain numbers into an array of floats, or of integers.
NUMBERS: list[Callable[[Any], Any]] = [
    _add_number,
    _double_part,
    _set_entry,
    lambda a: np.add(a, 1, out=a),
    lambda a: np.cumsum(a, out=a),
    lambda a: np.copyto(a, 3),
    lambda a: np.put(a, [1], 3),
    lambda a: a[::-1].sort(),
    lambda a: a.fill(3),
    lambda a: a.partition(1),
]


def _in_vmap(one: Callable[[Any], Any], x: Any) -> Any:
    return np.sum(wb.vmap(one)(x))


def _in_scan(one: Callable[[Any], Any], x: Any) -> Any:
    return wb.scan(lambda t, c: c + one(t), x, initial=0.0, last=True)


@pytest.mark.parametrize("dtype", [float, int])
@pytest.mark.parametrize("run", [_in_vmap, _in_scan])
@pytest.mark.parametrize("write", NUMBERS)
def test_numbers_written_in_what_runs_many_times_are_refused(
    write: Callable[[Any], Any], run: Callable[..., Any], dtype: type
) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        a = np.arange(3).astype(dtype)
        kept.append(a)

        def one(y: Any) -> Any:
            write(a)
            return y * np.sum(a)

        return run(one, x)

    with pytest.raises(TraceError, match=r"recorded once and runs many times.*copy"):
        wb.grad(f)(X)
    assert kept[-1].tolist() == [0, 1, 2]  # nothing was written
    kept[-1][:] = 7  # and may be again
    assert kept[-1].tolist() == [7, 7, 7]


def test_a_ufunc_at_an_older_array_in_what_runs_many_times_is_refused() -> None:
    def f(x: Any) -> Any:
        a = np.zeros(3)

        def one(y: Any) -> Any:
            np.add.at(a, [0, 0], 1.0)
            return y * np.sum(a)

        return np.sum(wb.vmap(one)(x))

    with pytest.raises(TraceError, match=r"np\.add\.at.*recorded once.*copy"):
        wb.grad(f)(X)


@pytest.mark.parametrize("write", NUMBERS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_that_is_not_taken_writes_no_numbers(
    write: Callable[[Any], Any], sign: int
) -> None:
    def f(x: Any) -> Any:
        a = np.arange(3.0)

        def on_true(x: Any) -> Any:
            write(a)
            return x[0] * np.sum(a)

        y = wb.cond(sign * x[0] > 0, on_true, lambda x: x[1] * 2.0, x)
        return y * np.sum(a)

    def plainly(x: Any) -> Any:
        a = np.arange(3.0)
        if sign > 0:
            write(a)
        return (x[0] * np.sum(a) if sign > 0 else x[1] * 2.0) * np.sum(a)

    value, slope = wb.value_and_grad(f)(X)
    np.testing.assert_allclose(value, plainly(X))
    np.testing.assert_allclose(slope, differences(plainly, X, 1e-3), atol=1e-9)


def test_numbers_written_in_a_checkpoint_are_written_once() -> None:
    def f(x: Any) -> Any:
        a = np.ones(3)

        def inner(x: Any) -> Any:
            nonlocal a
            a += 1.0
            a[0] *= 3.0
            return x[0] ** 2 * np.sum(a)

        return wb.checkpoint(inner)(x) * np.sum(a)

    np.testing.assert_allclose(wb.grad(f)(X), [2 * 100.0, 0, 0])


def test_an_older_array_is_read_in_what_runs_many_times() -> None:
    def f(x: Any) -> Any:
        table, more = np.arange(4.0), np.zeros(2)

        def one(y: Any) -> Any:
            a = table[1:] * 1.0
            a[0] = y
            more_of = table[::2].copy()
            more_of += y
            return np.sum(a) * np.sum(more_of)

        made = wb.vmap(one)(x)
        table[0] = 8.0
        more[1] = x[0]
        return np.sum(made) * table[0] + more[1] ** 2

    np.testing.assert_allclose(
        wb.grad(f)(X),
        8 * ((2 + 2 * X) + 2 * (X + 5)) + [2 * X[0], 0, 0],
    )


def test_an_index_may_change_after_its_store() -> None:
    def f(x: Any) -> Any:
        i, a, b = np.array([0, 1, 1]), np.zeros(3), np.zeros(3)
        np.put_along_axis(a, i, x, 0)
        i[0], i[2] = 2, 0
        np.put_along_axis(b, i, x, 0)
        return np.sum((a * a + b * b) * np.array([1.0, 2.0, 3.0]))

    np.testing.assert_allclose(wb.grad(f)(X), differences(f, X, 1e-3), rtol=1e-9)


class Labelled(np.ndarray[Any, Any]):
    """A class of arrays that a user might write."""


def _mask_data(a: Any) -> Any:
    masked = np.ma.asarray(a)
    return masked, masked.data  # a view of the class that the array has


@pytest.mark.parametrize(
    "show",
    [
        lambda a: np.ma.array(a, copy=False),
        lambda a: np.ma.masked_less(a[1:], -1, copy=False),
        lambda a: np.ma.asarray(a)[1:],
        lambda a: a.view(np.ma.MaskedArray),
        _mask_data,
        lambda a: a.reshape(1, 3).view(np.matrix),
        lambda a: a.view(np.recarray),
        lambda a: a[::-1].view(Labelled),
    ],
    ids=["array", "less", "slice", "view", "data", "matrix", "rec", "own"],
)
def test_a_view_of_another_class_is_an_error_or_gone(show: Callable[..., Any]) -> None:
    def keeps(x: Any) -> Any:
        a = np.zeros(3)
        shown = show(a)
        a[0] = x[0]
        return np.sum(a), shown

    def drops(x: Any) -> Any:
        a = np.zeros(3)
        assert np.sum(show(a)) is not None
        a[0] = x[0]
        return np.sum(a) ** 2

    with pytest.raises(TraceError, match=r"a\[0\] = x\[0\].*shares the memory.*copy"):
        wb.grad(keeps, has_aux=True)(X)
    np.testing.assert_allclose(wb.grad(drops)(X), [2, 0, 0])


def test_entries_set_through_a_masked_array_show() -> None:
    def f(x: Any) -> Any:
        a = np.ones(3)
        masked = np.ma.array(a, mask=[0, 1, 0], copy=False)
        masked[0] = 5.0
        masked.data[1] = 6.0
        kept = np.ma.array(a, copy=True)
        del masked
        a[2] = x[0]
        assert kept.sum() == 12
        return np.sum(a * x)

    np.testing.assert_allclose(wb.grad(f)(X), [5 + 2 * 1 - 1 + 2, 6, 1])


def test_a_masked_array_of_traced_values_is_an_error() -> None:
    def f(x: Any) -> Any:
        a = np.zeros(3)
        a[0] = x[0]
        return np.ma.array(a, copy=False).sum()

    with pytest.raises(TraceError, match=r"a masked array of.*np\.where"):
        wb.grad(f)(X)


@pytest.mark.parametrize("index", [0, 1], ids=["a", "b"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_arguments_that_overlap_are_not_written(argnums: Any, index: int) -> None:
    def f(*arrays: Any) -> Any:
        arrays[index][1] = arrays[1 - index][0] ** 2
        return np.sum(arrays[0] * arrays[1])

    def read(a: Any, b: Any) -> Any:
        a = a.copy()
        a[0] = b[0]
        return np.sum(a * b)

    whole = np.arange(1.0, 9.0)
    pairs = [(whole[:5], whole[3:]), (whole, whole), (whole[:4], whole[3::-1])]
    for a, b in pairs:
        if len({a.shape, b.shape}) > 1:
            continue
        with pytest.raises(TraceError, match=r"shares memory with another one.*copies"):
            wb.grad(f, argnums=argnums)(a, b)
        assert np.all(np.isfinite(wb.grad(read, argnums=0)(a, b)))
    apart = whole[::2], whole[1::2]
    copies = [x.copy() for x in apart]
    found, truth = (wb.grad(f, argnums=argnums)(*x) for x in (apart, copies))
    for y, z in zip(np.atleast_2d(found), np.atleast_2d(truth), strict=True):
        np.testing.assert_array_equal(y, z)
    np.testing.assert_array_equal(whole, np.arange(1.0, 9.0))


@pytest.mark.parametrize("cut", [2, 3])
def test_arguments_of_an_inner_program_that_overlap(cut: int) -> None:
    def inner(a: Any, b: Any) -> Any:
        a[-1] = b[0] * 2
        return np.sum(a * a) + np.sum(b * b)

    def outer(x: Any) -> Any:
        whole = np.zeros(6)
        whole[:3], whole[3:] = x, x * 2
        return np.sum(wb.grad(inner, argnums=(0, 1))(whole[:3], whole[cut:])[1] * x[0])

    if cut == 2:
        with pytest.raises(TraceError, match="shares memory with another one"):
            wb.grad(outer)(X)
    else:  # 2 b, and 8 b[0] for the entry of a
        truth = differences(lambda x: (4 * x.sum() + 16 * x[0]) * x[0], X, 1e-3)
        np.testing.assert_allclose(wb.grad(outer)(X), truth, rtol=1e-9)


def test_two_others_that_overlap_are_not_written() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        a[0] = x[0]
        return np.sum(a) + np.sum(b)

    whole = np.arange(6.0)
    with pytest.raises(TraceError, match="shares memory with another one"):
        wb.grad(f)(X, whole[:4], whole[::-1])
    np.testing.assert_array_equal(wb.grad(f)(X, whole, whole), [2, 0, 0])


def test_what_compiled_code_writes_is_not_lost() -> None:
    def draw(x: Any) -> Any:
        a = np.zeros(3)
        rng = np.random.default_rng(0)
        rng.random(out=a)
        rng.shuffle(a)
        before = a.copy()
        a[0] = x[0]
        return np.sum(a * before)

    np.testing.assert_allclose(
        wb.grad(draw)(X)[0], differences(draw, X, 1e-3)[0], rtol=1e-9
    )

    def write(x: Any, change: Any) -> Any:
        a = np.zeros(3)
        a[0] = x[0]
        change(np.random.default_rng(0), a)
        return np.sum(a)

    for change in (
        lambda rng, a: rng.random(out=a),
        lambda rng, a: rng.standard_normal(out=a),
        lambda rng, a: rng.standard_exponential(out=a),
        lambda rng, a: rng.shuffle(a),
    ):
        with pytest.raises(TraceError, match=r"writes to an array.*A\[\.\.\.\] ="):
            wb.grad(write)(X, change)


def test_a_generator_that_is_given_shuffles_traced_values() -> None:
    def f(x: Any, rng: Any, shape: Any = (6, 2), axis: int = 0) -> Any:
        a = np.zeros(shape)
        a[...] = np.arange(float(a.size)).reshape(shape) * x[0]
        rng.shuffle(a, axis)
        return np.sum(a * np.arange(float(a.size)).reshape(shape))

    for more in (((6, 2),), ((6, 2), 1), ((7,),)):
        expected = f(X, np.random.default_rng(3), *more)
        value, slope = wb.value_and_grad(f)(X, np.random.default_rng(3), *more)
        np.testing.assert_allclose(value, expected)
        np.testing.assert_allclose(slope, [expected / X[0], 0, 0])


def test_columns_and_rows_of_arrays_that_hold_tensors() -> None:
    from numpy import c_, r_

    def f(x: Any) -> Any:
        a = np.zeros(2)
        a[0] = x[0] ** 2
        a[1] = x[1]
        rows = np.r_[a, 1.0, a[::-1]], np.r_["0,2", a, a]
        columns = np.c_[a, a * x[2]], np.c_[a[:1], a[1:]], np.r_[0:3, a]
        parts = [np.ravel(y) for y in (*rows, *columns)]
        return np.sum(np.concatenate(parts) * np.arange(1.0, 21.0))

    np.testing.assert_allclose(wb.grad(f)(X), differences(f, X, 1e-3), rtol=1e-9)
    assert (c_, r_) == (np.c_, np.r_)


def test_an_array_without_values_that_is_kept_says_so() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        a, b = np.zeros(2), np.ones(2)
        a[0] = x
        kept.extend([a, b, a[1:]])
        return np.sum(a)

    for run, x in ((wb.vmap(f), X), (wb.compile(f), 1.0)):
        kept.clear()
        run(x)
        a, b = kept[:2]
        for use in (np.sum, lambda a: a + 1, lambda a: a[0], lambda a: a.shape):
            with pytest.raises(TraceError, match=r"recorded without values.*Return it"):
                use(a)
        b += 1.0
        assert type(b + 0) is not wb.Tensor
        assert b.tolist() == [2.0, 2.0]
        assert "without values" in repr(a)


def test_functions_that_write_take_lists_of_tensors() -> None:
    def f(x: Any) -> Any:
        a, b = np.zeros(4), np.zeros((2, 2))
        np.put(a, [0, 1], [x[0] ** 2, x[1]])
        np.copyto(a[2:], [x[2], 1.0])
        np.place(a, a > 2.5, [x[0], 0.2])
        np.putmask(a, a < 0.1, (x[1], 2.0))
        np.fill_diagonal(b, [x[0], x[1]])
        np.put_along_axis(b, np.array([[1], [0]]), [[x[2]], [x[0]]], 1)
        return np.sum(a * np.arange(1.0, 5.0)) + np.sum(b * b)

    value, slope = wb.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X))
    np.testing.assert_allclose(slope, differences(f, X, 1e-3), rtol=1e-8, atol=1e-9)


def test_a_number_of_a_plain_array_is_a_number() -> None:
    kinds: list[type] = []

    def f(x: Any) -> Any:
        a = np.ones(3)
        a[0] = 2.0
        first = made = np.sum(a)
        made += 1.0  # a new number: `first` stays
        second = made = a @ a
        made *= 3.0
        third = made = np.dot(a, a) + a.max()
        made -= 5.0
        numbers = [
            first, second, third, a.mean(), a.std(), np.add.reduce(a), np.median(a),
            np.linalg.norm(a), np.vdot(a, a), np.ptp(a), np.all(a > 0), (a > 1).sum(),
            -np.sum(a), np.sqrt(np.sum(a)), np.interp(0.5, a, a), np.trapezoid(a),
        ]  # fmt: skip
        kinds.extend(map(REAL["type"], numbers))
        whole = np.array(2.0)  # an array without axes is one
        alias = whole
        whole += 1.0
        return (first + second + third + alias) * x[0]

    value = f(X)
    plain, kinds[:] = kinds[:], []
    np.testing.assert_allclose(wb.grad(f)(X), [value / X[0], 0, 0])
    assert kinds == plain
