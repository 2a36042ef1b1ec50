"""Functions with ``import numpy as np`` that fill arrays, unchanged."""

from __future__ import annotations

import dataclasses
import functools
import gc
import inspect
import io
import os
import pdb
import pickle
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from numpy import zeros as make_zeros

import workbench as wb
from tests.core.filling import PROGRAMS, draw_program
from tests.core.test_filling import assert_close, differences, total
from workbench.errors import GradientLostError, TraceError
from workbench.numpy import namespaces, reach, swap
from workbench.numpy.reach import find_reach

#: NumPy's own, under names that nothing is swapped for.
REAL: dict[str, Any] = {"module": np, "zeros": np.zeros, "asarray": np.asarray}
X = np.array([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def _names_are_restored() -> Iterator[None]:
    yield
    assert np is REAL["module"]
    assert make_zeros is REAL["zeros"]
    assert not {"type", "isinstance"} & globals().keys()
    assert not namespaces.ACTIVE


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_imports_numpy(name: str) -> None:
    f, x, smooth = PROGRAMS[name]
    loss, before = total(f), x.copy()
    value, gradient = wb.value_and_grad(loss)(x)
    assert_close(value, loss(x.copy()), 1e-13)
    truth = differences(loss, x, 1e-3 if smooth else 1e-4)
    assert_close(gradient, truth, 1e-6)
    np.testing.assert_array_equal(x, before)
    v = np.cos(np.arange(x.size)).reshape(x.shape)
    assert_close(wb.jvp(loss, (x,), (v,))[1], np.sum(truth * v), 1e-6)


# How people write it

CHECKED: list[Callable[[Any], Any]] = []


def checked(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Note a function of three numbers, whose gradient is that of differences."""
    CHECKED.append(f)
    return f


class Model:
    """An object that fills arrays, and keeps one."""

    def __init__(self) -> None:
        self.cache = np.zeros(3)

    def step(self, x: Any) -> Any:
        out = np.empty(3)
        out[:] = x * 2
        self.cache = np.zeros(3)
        self.cache[0] = x[0]
        self.cache[1] = 4.0
        return out


MODEL = Model()


@checked
def methods(x: Any) -> Any:
    return np.sum(MODEL.step(x) ** 2)


@checked
def names_of_makers(x: Any) -> Any:
    out = make_zeros(3)
    out[1] = x[0]
    return np.sum(out * x)


LOSSES: list[Any] = []


@checked
def filled_list_of_the_module(x: Any) -> Any:
    LOSSES.clear()
    LOSSES.append(2 * x[0])
    LOSSES.insert(0, x[1] ** 2)
    return np.mean(LOSSES)


def decorate(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(f)
    def call(*args: Any) -> Any:
        return f(*args)

    return call


@checked
@decorate
def decorated(x: Any) -> Any:
    out = np.zeros(2)
    out[0] = x[0] ** 2
    return np.sum(out)


@checked
def closures(x: Any) -> Any:
    out = np.zeros(3)

    def put(i: int) -> None:
        out[i] = x[i] ** 2

    for i in range(3):
        put(i)
    return np.sum(out)


@dataclasses.dataclass
class Held:
    """A dataclass whose field is an array."""

    a: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))


@checked
def dataclass_fields(x: Any) -> Any:
    held = Held()
    held.a[0] = x[0]
    held.a += x
    return np.sum(held.a**2)


@functools.lru_cache
def make_cached(n: int) -> Any:
    return np.zeros(n)


@checked
def cached_arrays(x: Any) -> Any:
    out = make_cached(3)
    out[0] = x[0]
    out[1:] = 0
    return out[0] * x[1] + out[1]


STATE: Any = None


@checked
def global_names(x: Any) -> Any:
    global STATE
    STATE = np.zeros(3)
    STATE[1] = x[1]
    return np.sum(STATE * x)


@checked
def generators(x: Any) -> Any:
    def rows() -> Iterator[Any]:
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] * x[i]
            yield out

    return sum(np.sum(row) for row in rows())


@checked
def numpy_as_a_default(x: Any, xp: Any = np, *, make: Any = np.zeros) -> Any:
    out, other = xp.zeros(3), make(3)
    out[0] = x[0]
    other[1:] = x[:2]
    return xp.sum(out + other * 2)


@checked
def what_writes(x: Any) -> Any:
    a = np.zeros(3)
    np.multiply(x, 2, out=a)
    np.add(a, a, out=a)
    np.add.at(a, [0, 0], x[0])
    np.copyto(a, x, where=[True, False, False])
    b = np.ones(3)
    b += x
    b *= b
    b[b > 3] = x[0]
    b.fill(x[1])
    b.put([1], [x[2]])
    return np.sum(a * b)


@checked
def masks(x: Any) -> Any:
    out = np.zeros(3)
    out[x > 1.5] = 1.0
    out[x > 2.5] = x[x > 2.5]
    return np.sum(out * x)


@checked
def constants_are_as_they_were(x: Any) -> Any:
    a = np.ones((2, 3))
    before = a * x
    a[0, 0] = 5.0
    after = a @ x
    a[1] = x
    return np.sum(before) + np.sum(after) + np.sum(a) + a.T.sum() + len(a)


@checked
def large_constants_are_as_they_were(x: Any) -> Any:
    a = np.ones((1000, 3))
    first = a @ x
    a[7] = 3.0
    second = a @ x
    a[7] = 3.0
    third = a[:999] @ x
    return np.sum(first**2) + 2 * np.sum(second**2) + np.sum(third**2)


@checked
def lines_of_entries(x: Any) -> Any:
    a = np.zeros((2, 2)).T
    a.flat[1] = x[0]
    a.flat = [1.0, x[1], 2.0, x[2]]
    b = np.zeros((2, 2))
    b.flat[3] = x[1]
    return np.sum(a * np.arange(4.0).reshape(2, 2)) + np.sum(b * b)


@checked
def complex_parts(x: Any) -> Any:
    a = np.zeros(3, complex)
    real = a.real
    real[:] = x
    a.imag[0] = x[1]
    a.real[1] = x[2]
    return np.sum(np.abs(a) ** 2)


@checked
def what_is_made_of_arrays(x: Any) -> Any:
    a = np.zeros(3)
    b = a + 1
    made = [a.copy(), b, b[[0, 1, 2]], np.concatenate([a, b]), a.astype(float)]
    made += [np.full(3, x[0]), np.full_like(a, x[2]), np.linspace(0, 1, 3)]
    made += [np.outer(a, a)[0], np.meshgrid(b, b)[0][1], np.copy(X)]
    for k, part in enumerate(made):
        part[0] = x[k % 3]
    return sum(np.sum(part) * k for k, part in enumerate(made))


@checked
def views_before_and_after(x: Any) -> Any:
    a = np.zeros((3, 4))
    views = [
        a[1:, ::2], a.T[::-1], a.reshape(-1)[::5], a[1], a[..., None], a[2, 1:3],
        a.reshape(2, 6)[1], a.reshape(4, 3).T, a.reshape(-1)[7], a[::-1, ::-3],
        a.ravel()[3:9].reshape(2, 3), a[1:2, 1:2], a[:, 1:][1:][0], a[2, 2, ...],
    ]  # fmt: skip
    a[0, :3] = x
    for k, view in enumerate(views):
        if isinstance(view, np.ndarray):
            view += x[k % 3]
    for row in a:
        row[1] *= 2
    return sum(np.sum(view**2) for view in views) + np.sum(a * np.arange(4))


@checked
def the_same_array(x: Any) -> Any:
    a = np.zeros(3)
    b = np.asarray(a)
    assert b is a
    c = np.array(a, copy=False)
    d = np.atleast_2d(a)
    e = np.ascontiguousarray(a)
    a[0] = x[0]
    d[0, 1] = x[1]
    return np.sum(b) + np.sum(c) * 2 + np.sum(e) * 3 + np.sum(np.asarray(x, float))


@checked
def lists_of_arrays(x: Any) -> Any:
    rows = [np.zeros(3) for _ in range(3)]
    for i, row in enumerate(rows):
        row[i] = x[i]
    whole = np.array(rows) + np.asarray(rows)
    return np.sum(np.stack(rows) @ x) + np.sum(whole)


@checked
def texts(x: Any) -> Any:
    a = np.zeros(3)
    assert f"{a} {a!r} {a.shape}" == "[0. 0. 0.] array([0., 0., 0.]) (3,)"
    a[0] = x[0]
    assert f"{a.shape} {a.ndim} {a.size} {len(a)} {a.dtype}" == "(3,) 1 3 3 float64"
    return a[0]


@checked
def threads_of_its_own(x: Any) -> Any:
    out = np.zeros(3)

    def work(i: int) -> None:
        out[i] = x[i] ** 2

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.sum(out)


@checked
def another_shape(x: Any) -> Any:
    out = np.zeros(2)
    out[0] = x[0]
    out.resize(3)
    out[2] = x[1]
    return np.sum(out * x)


@pytest.mark.parametrize("f", CHECKED, ids=lambda f: f.__name__)
def test_how_people_write_it(f: Callable[[Any], Any]) -> None:
    make_cached.cache_clear()
    value, gradient = wb.value_and_grad(f)(X.copy())
    np.testing.assert_allclose(value, f(X.copy()), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences(f, X, 1e-3), rtol=1e-8, atol=1e-9)
    moved = wb.jvp(f, (X,), (X,))[1]
    np.testing.assert_allclose(moved, gradient @ X, rtol=1e-12)


def test_what_a_trace_leaves_is_an_array() -> None:
    model = Model()
    wb.grad(lambda x: np.sum(model.step(x) * model.cache))(X)
    np.testing.assert_array_equal(model.cache, [1, 4, 0])
    model.cache[2] = 5.0
    view = model.cache[1:]
    view *= 2
    np.testing.assert_array_equal(model.cache + 0, [1, 8, 10])
    assert memoryview(model.cache)[2] == 10
    assert repr(model.cache) == "array([ 1.,  8., 10.])"
    assert type(pickle.loads(pickle.dumps(model.cache))) is np.ndarray
    out = wb.value_and_grad(lambda x: (x[0], np.zeros(2)), has_aux=True)(X)
    assert isinstance(out[0][1], np.ndarray)
    found = wb.jacobian(lambda x: [fill(x), np.zeros(2)])(X)
    np.testing.assert_array_equal(found[1], np.zeros((2, 3)))
    assert {type(y) for y in wb.vmap(lambda x: (np.zeros(2), x))(BATCH)} == {np.ndarray}


def test_views_that_outlive_a_trace_share_their_memory() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        a = np.zeros((2, 2))
        kept[:] = [a, a[1], a.T]
        a[1, 0] = x[0]
        return np.sum(a)

    wb.grad(f)(X)
    a, row, turned = kept
    row[1] = 7.0
    turned[0, 0] = 5.0
    np.testing.assert_array_equal(a, [[5, 0], [1, 7]])


def check_random(count: int, rng: np.random.Generator) -> None:
    """Compare random programs of aliases, of a plain array with views of it."""
    begin = "base = np.zeros((4, 6)); kept = [base[1:], base.T, base[::-1, ::2]]"
    for _ in range(count):
        text = draw_program(random.Random(int(rng.integers(2**32))))
        text = text.replace("f(x):\n", f"f(x):\n    {begin}; base += x; x = base\n", 1)
        space: dict[str, Any] = {"np": np, "__name__": "programs"}
        exec(compile(text, "<program>", "exec"), space)
        f, x = space["f"], rng.normal(size=(4, 6))
        try:
            expected = f(x.copy())
        except IndexError:  # no array to NumPy, or too short
            continue
        value, gradient = wb.value_and_grad(f)(x)
        np.testing.assert_allclose(value, expected, rtol=1e-10, err_msg=text)
        truth, again = (differences(f, x, h) for h in (1e-6, 2e-6))
        size = 1 + np.abs(gradient).max()
        near = np.abs(truth - again) <= 1e-6 * size  # no mask changes on the way
        np.testing.assert_allclose(
            gradient[near], truth[near], atol=1e-5 * size, err_msg=text
        )


def test_random_programs_of_plain_arrays(rng: np.random.Generator) -> None:
    check_random(60, rng)


@pytest.mark.long
def test_many_random_programs_of_plain_arrays(rng: np.random.Generator) -> None:
    check_random(1000, rng)


def test_debuggers_and_inspect_find_what_they_look_for() -> None:
    out = io.StringIO()

    def f(x: Any) -> Any:
        a = np.zeros(3)
        debugger = pdb.Pdb(stdin=io.StringIO("p a\np np.zeros(2)\n!a[1] = 4.0\nc\n"),
                           stdout=out, nosigint=True)  # fmt: skip
        debugger.set_trace()
        a[0] = x[0]
        assert "def methods" in inspect.getsource(methods)
        inspect.getclosurevars(methods)
        assert inspect.signature(np.zeros_like).parameters["a"]
        assert dict(inspect.getmembers(np))["pi"] == np.pi
        assert repr(np) == repr(sys.modules["numpy"])
        assert np.__version__ == sys.modules["numpy"].__version__
        return np.sum(a * x)

    np.testing.assert_array_equal(wb.grad(f)(X), [2, 4, 0])
    assert "array([0., 0., 0.])" in out.getvalue()


# Whatever happens


def fill(x: Any) -> Any:
    """Fill three entries."""
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] * x[i]
    return out


def work_plainly() -> Any:
    """Return what a thread without a trace makes, and what it is told."""
    a, b = np.zeros(3), make_zeros(3)
    a[0] = 1.0
    told = isinstance(a, np.ndarray), type(a) is np.ndarray, type(b) is ndarray
    made = [a, b, np.linspace(0, 1, 3), np.asarray([1.0]), np.copy(a)]
    return [x.__class__ for x in made], told


def test_another_thread_sees_numpy() -> None:
    found: list[Any] = []

    def f(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        thread = threading.Thread(target=lambda: found.append(work_plainly()))
        thread.start()
        thread.join()
        assert np is not REAL["module"]
        return np.sum(out)

    wb.grad(f)(X)
    assert found == [([np.ndarray] * 5, (True, True, True))]


def test_threads_that_trace_and_run_at_once() -> None:
    done = threading.Event()
    wrong: list[Any] = []

    def run() -> None:
        while not done.is_set():
            kinds, told = work_plainly()
            if kinds != [REAL["module"].ndarray] * 5 or told != (True,) * 3:
                wrong.append((kinds, told))
                return

    def trace() -> None:
        for _ in range(30):
            if not np.array_equal(wb.grad(lambda x: np.sum(fill(x)))(X), 2 * X):
                wrong.append("a gradient")

    runner = threading.Thread(target=run)
    tracers = [threading.Thread(target=trace) for _ in range(3)]
    for thread in (runner, *tracers):
        thread.start()
    for thread in tracers:
        thread.join()
    done.set()
    runner.join()
    assert not wrong


def test_an_error_leaves_the_names_as_they_were() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        raise RuntimeError("in the midst")

    with pytest.raises(RuntimeError, match="in the midst"):
        wb.grad(f)(X)
    with pytest.raises(RuntimeError, match="in the midst"):
        wb.grad(lambda x: np.sum(wb.vmap(f)(np.stack([x, x]))))(X)


def test_an_interrupt_anywhere_leaves_the_names_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Python's own interrupts strike at no opcode between a lock and its block. These
    # do, and leave it locked: for other threads too, in whatever test comes later.
    monkeypatch.setattr(swap, "_LOCK", threading.RLock())
    struck, traced = 0, sys.gettrace()
    wb.grad(loss)(X)  # what it reaches is kept
    for k in range(1, 2000):
        left = k

        def strike(frame: Any, event: str, arg: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename != swap.__file__:
                return None
            if frame.f_code.co_name in ("run", "__exit__"):
                return None  # a strike between its two lines is Python's own matter
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= 1
                if not left:
                    raise KeyboardInterrupt
            return strike

        sys.settrace(strike)
        try:
            wb.grad(loss)(X)
        except KeyboardInterrupt:
            struck += 1
        else:
            break
        finally:
            sys.settrace(traced)
        assert np is REAL["module"]
        assert not namespaces.ACTIVE
    assert struck > 100


def test_a_generator_that_goes_on_after_its_trace() -> None:
    kept: list[Any] = []

    def rows() -> Iterator[Any]:
        while True:
            out = np.zeros(2)
            out[0] = 1.0
            yield out

    def f(x: Any) -> Any:
        kept.append(rows())
        out = next(kept[0])
        out[1] = x[0]
        return np.sum(out)

    np.testing.assert_array_equal(wb.grad(f)(X), [1, 0, 0])
    assert next(kept[0]).__class__ is np.ndarray


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_in_a_trace() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, str(float(np.ones(4).sum() + len(out))).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 9) == b"7.0"
        os.close(reading)
        os.close(writing)
        return np.sum(out)

    np.testing.assert_array_equal(wb.grad(f)(X), [1, 0, 0])


def test_nothing_is_left_for_the_collector() -> None:
    made: list[Any] = []

    def f(x: Any) -> Any:
        a = np.zeros((3, 3))
        column = a[:, 1]
        made[:] = map(weakref.ref, (a, column))
        for row in a:
            row[:] = x
        column *= 2
        return np.sum(a**2)

    for _ in range(2):
        wb.grad(f)(X)
        wb.vmap(f)(np.stack([X, X]))
    gc.collect()
    wb.grad(f)(X)
    assert gc.collect() == 0
    assert [x() for x in made] == [None, None]


# All that runs a function in a trace


def squares(x: Any) -> Any:
    """Return the squares, for those who take functions of arrays."""
    return fill(x)


def loss(x: Any) -> Any:
    """Return the sum of fourth powers."""
    return np.sum(fill(x) ** 2)


def body(x: Any, carry: Any) -> Any:
    """One step of a loop, which fills an array."""
    out = np.zeros(3)
    out[0] = carry[0] * x
    out[1:] = carry[1:]
    return out


def first(x: Any) -> Any:
    """Return the first entry in an array."""
    out = np.zeros(3)
    out[0] = x[0]
    return out


BATCH = np.stack([X, 2 * X])
RECORDERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "jacobian": (lambda: wb.jacobian(fill)(X), np.diag(2 * X)),
    "jacfwd": (lambda: wb.jacfwd(fill)(X), np.diag(2 * X)),
    "hessian": (lambda: wb.hessian(loss)(X), np.diag(12 * X**2)),
    "vjp": (lambda: wb.vjp(fill, X)[1](X)[0], 2 * X * X),
    "hvp": (lambda: wb.hvp(loss, X, X), 12 * X**3),
    "linearize": (lambda: wb.linearize(fill, X)[1](X), 2 * X * X),
    "elementwise_grad": (lambda: wb.elementwise_grad(fill)(X), 2 * X),
    "vmap": (lambda: wb.vmap(fill)(BATCH), BATCH**2),
    "vmap of grad": (lambda: wb.vmap(wb.grad(loss))(BATCH), 4 * BATCH**3),
    "trace": (lambda: wb.trace(fill)(X).outputs[0].value, X**2),
    "trace of a Spec": (
        lambda: wb.trace(fill)(wb.Spec((3,), np.dtype(float))).run([X])[0], X**2),
    "compile": (lambda: wb.compile(fill)(X), X**2),
    "compile for a backend": (lambda: wb.compile(fill, backend="compiled")(X), X**2),
    "checkpoint": (
        lambda: wb.grad(lambda x: np.sum(wb.checkpoint(fill)(x)))(X), 2 * X),
    "cond": (
        lambda: wb.grad(lambda x: np.sum(wb.cond(x[0] > 0, first, np.sin, x)))(X),
        [1, 0, 0]),
    "scan": (lambda: wb.scan(body, np.array([2.0, 3.0]), X)[-1], [6, 2, 3]),
    "while_loop": (
        lambda: wb.while_loop(lambda x: x[0] < 10, lambda x: first(x) * 2, X),
        [16, 0, 0]),
    "method": (lambda: wb.grad(lambda x: np.sum(MODEL.step(x)))(X), [2, 2, 2]),
    "partial": (
        lambda: wb.grad(functools.partial(lambda k, x: loss(x) * k, 2.0))(X), 8 * X**3),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDERS)
def test_all_that_records(name: str) -> None:
    run, expected = RECORDERS[name]
    np.testing.assert_allclose(run(), expected, rtol=1e-12)


def test_what_checks_a_function() -> None:
    assert wb.check_grads(loss, (X,)).ok
    assert not wb.diagnose(loss, X)


def test_arguments_that_nothing_is_differentiated_by() -> None:
    def f(x: Any, a: Any) -> Any:
        b = a.copy()
        b[0] = x[0]
        a[1] = x[1]
        return np.sum(a * b * x)

    given = np.ones(3)
    expected = differences(lambda x: f(x, np.ones(3)), X, 1e-3)
    np.testing.assert_allclose(wb.grad(f)(X, given), expected, rtol=1e-9)
    np.testing.assert_array_equal(given, np.ones(3))
    found = wb.vmap(f, in_axes=(0, None))(X[None], given)
    np.testing.assert_allclose(found, [f(X, np.ones(3))])

    def calls(x: Any, model: Any) -> Any:
        return np.sum(model.step(x))

    np.testing.assert_array_equal(wb.grad(calls)(X, Model()), [2, 2, 2])


def test_a_helper_that_has_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {"np": np, "__name__": "user"}
    exec("def helper(x): return x * x\ndef f(x): return np.sum(helper(x))", space)
    np.testing.assert_array_equal(wb.grad(space["f"])(X), 2 * X)
    text = "def helper(x):\n    a = np.zeros(3)\n    a[0] = x[0]\n    return a"
    exec(text, space)
    np.testing.assert_array_equal(wb.grad(space["f"])(X), [1, 0, 0])


# What it does not reach


def imports_inside(x: Any) -> Any:
    """Import NumPy inside of the function."""
    import numpy as np

    out = np.zeros(3)
    out[0] = x[0]
    return np.sum(out)


def make_function(np: Any) -> Callable[[Any], Any]:
    """Return a function that has NumPy in its closure."""

    def takes_numpy(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        return np.sum(out)

    return takes_numpy


def fills_the_callers(x: Any) -> Any:
    """Fill an array of its module."""
    OUTSIDE[0] = x[0]
    return OUTSIDE[0]


def fills_integers(x: Any) -> Any:
    """Store numbers with a gradient into integers."""
    out = np.zeros(3, int)
    out[0] = x[0]
    return out[0]


OUTSIDE = np.ones(3)


@pytest.mark.parametrize(
    ("f", "cure"),
    [
        (imports_inside, r"np is a local name.*import numpy as np at the top"),
        (fills_the_callers, r"not made in the traced function.*a = np\.array\(a\)"),
        (fills_integers, r"one of integers.*dtype float"),
    ],
)
def test_what_is_not_reached_says_so(f: Callable[[Any], Any], cure: str) -> None:
    with pytest.raises(GradientLostError, match=cure) as error:
        wb.grad(f)(X)
    assert "test_swap.py:" in str(error.value)
    np.testing.assert_array_equal(OUTSIDE, np.ones(3))


def test_numpy_in_a_closure_is_swapped() -> None:
    f = make_function(np)
    assert wb.grad(f)(X).tolist() == [1.0, 0.0, 0.0]
    assert inspect.getclosurevars(f).nonlocals == {"np": np}


def test_a_view_that_cannot_be_followed_says_so() -> None:
    def f(x: Any) -> Any:
        a = np.zeros(3)
        kept = a.view(np.int64)
        a[0] = x[0]
        return np.sum(a) + kept[0]

    with pytest.raises(TraceError, match=r"a view of x.*\.copy\(\)"):
        wb.grad(f)(X)


def test_names_are_those_of_the_namespace_and_of_no_dead_one() -> None:
    """Dicts are made in the place of others: the swap of one is not that of another."""
    text = "def f(x):\n    a = np.zeros(2)\n    a[0] = x[0]\n    return np.sum(a)\n"
    for k in range(60):
        space: dict[str, Any] = {"np": wb.numpy if k % 2 else np}
        exec(text, space)
        assert wb.grad(space["f"])(X).tolist() == [1.0, 0.0, 0.0]
        del space


def test_a_name_that_is_bound_anew_is_swapped() -> None:
    space: dict[str, Any] = {"np": wb.numpy}
    exec("def f(x):\n    a = np.zeros(2)\n    a[0] = x[0]\n    return np.sum(a)", space)
    for namespace in (wb.numpy, np, wb.numpy, np):
        space["np"] = namespace
        assert wb.grad(space["f"])(X).tolist() == [1.0, 0.0, 0.0]
        assert space["np"] is namespace


def test_a_part_that_is_set_is_a_store() -> None:
    def real(x: Any) -> Any:
        a = np.zeros(3)
        a.real = x
        return np.sum(a * a)

    def flat(x: Any) -> Any:
        a = np.zeros(3)
        a.flat = x
        return np.sum(a * a)

    for f in (real, flat):
        np.testing.assert_allclose(wb.grad(f)(X), 2 * X, rtol=1e-12)


def test_functions_from_one_line_follow_the_names_that_it_reads() -> None:
    """Each call of ``make`` gives another object; what it reaches may change too."""
    space: dict[str, Any] = {}
    exec(
        "import numpy as np\n"
        "def helper(x):\n    return 2 * x\n"
        "def make():\n    return lambda x: helper(x)\n",
        space,
    )
    for _ in range(2):
        assert wb.grad(space["make"]())(1.0) == 2.0
    exec(
        "def helper(x):\n"
        "    out = np.zeros(2)\n    out[0] = 3 * x\n    return out[0]\n",
        space,
    )
    for _ in range(2):
        assert wb.grad(space["make"]())(1.0) == 3.0
    space["helper"] = np.negative
    assert wb.grad(space["make"]())(1.0) == -1.0


class First:
    def run(self, x: Any) -> Any:
        return np.sin(x)


class Second:
    __slots__ = ("__weakref__", "scale")

    def __init__(self) -> None:
        self.scale = First()

    def run(self, x: Any) -> Any:
        return self.scale.run(x) * 2


def test_what_a_function_reaches_is_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names of classes are views made anew; their ids must not tell them apart."""
    second = Second()

    def f(x: Any) -> Any:
        return second.run(x) + First().run(x)

    reach = find_reach(f)
    assert all(find_reach(f) is reach for _ in range(5))
    second.scale = First()  # another object: it is looked at anew
    monkeypatch.setattr(First, "run", lambda self, x: np.cos(x))
    assert find_reach(f) is not reach


def test_what_a_step_of_a_loop_reaches_is_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step is another function at each call of f, of one code."""
    walked: list[object] = []

    class Counted(reach.Reach):
        def __init__(self, root: Any) -> None:
            walked.append(root)
            super().__init__(root)

    def f(x: Any) -> Any:
        return np.sum(wb.scan(lambda y: np.sin(y), initial=x, n_steps=3, last=True))

    expected = wb.grad(f)(np.ones(2))
    monkeypatch.setattr(reach, "Reach", Counted)
    np.testing.assert_array_equal(wb.grad(f)(np.ones(2)), expected)
    assert walked == []


def test_a_step_of_a_loop_calls_methods_that_fill() -> None:
    """What the step is given besides its arrays is a part of its code."""

    class Doubler:
        def run(self, x: Any) -> Any:
            out = np.zeros(2)
            out[:] = 2 * x
            return out

    made = wb.scan(
        lambda y, m: m.run(y),
        initial=np.ones(2), non_sequences=[Doubler()], n_steps=3, last=True,
    )  # fmt: skip
    np.testing.assert_array_equal(made, [8.0, 8.0])
