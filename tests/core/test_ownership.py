"""What the caller gets is the caller's own: to write into, shared with nothing.

And what a trace, a pullback or a linear map reads besides is read-only while it does.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from workbench.core import traces
from workbench.errors import TraceError

FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: np.sum(a),
    lambda a, b: np.sum(a + b),
    lambda a, b: np.sum(a.reshape(3) + b[::-1]),
    lambda a, b: np.sum(np.stack([a, b])),
    lambda a, b: np.mean(np.broadcast_to(a, (2, 3))) + np.sum(a.copy()),
    lambda a, b: np.sum(a[1:]) + np.sum(np.where(a > 0, a, b)),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients(f: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    first, second = wb.grad(f, (0, 1))(a, b)
    kept = second.copy()
    first *= 7
    np.testing.assert_array_equal(second, kept)
    second += 1
    np.testing.assert_array_equal(a, [1.0, -2.0, 3.0])
    np.testing.assert_array_equal(b, [4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    "f", [lambda x: x, np.ravel, np.transpose, np.exp, lambda x: (x, x, x[1:])]
)
def test_values_and_tangents(f: Callable[[Any], Any]) -> None:
    x, t = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    y, pullback = wb.vjp(f, x)
    expected = pullback(y)[0].copy()
    seed = y
    for part in y if isinstance(y, tuple) else (y,):
        part *= 2  # the pullback reads none of it
    for part in y if isinstance(y, tuple) else (y,):
        part /= 2
    (g,) = pullback(seed)
    np.testing.assert_array_equal(g, expected)
    g += 1
    np.testing.assert_array_equal(x, [1.0, 2.0])
    value, tangent = wb.jvp(f, (x,), (t,))
    for part in value if isinstance(value, tuple) else (value,):
        part += 1
    for part in tangent if isinstance(tangent, tuple) else (tangent,):
        part += 1
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(t, [3.0, 4.0])


def test_a_pullback_does_not_read_what_the_caller_writes() -> None:
    y, pullback = wb.vjp(np.exp, np.zeros(2))
    y[:] = 100
    np.testing.assert_array_equal(pullback(np.ones(2))[0], [1.0, 1.0])


# Every transform, of functions that pass on what they are given

X, T, C = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 4.0]), np.ones(3)
M = np.arange(9.0).reshape(3, 3)

PASSING: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "twice": lambda x: (x, x),
    "a part": lambda x: x[1:],
    "reversed": lambda x: x[::-1],
    "reshaped": lambda x: {"a": x.reshape(3, 1)},
    "repeated": lambda x: np.broadcast_to(x, (2, 3)),
    "cut": wb.stop_gradient,
    "a checkpoint": wb.checkpoint(lambda x: x),
    "a branch": lambda x: wb.cond(x[0] > 0, lambda: x, lambda: 2 * x),
    "a product": lambda x: C @ x,
    "a sum": lambda x: x + C,
    "views of what it made": lambda x: (y := np.exp(x), y[1:], y.reshape(3, 1)),
}


def arrays(nest: Any) -> list[Any]:
    if isinstance(nest, dict):
        nest = tuple(nest.values())
    if isinstance(nest, (tuple, list)):
        return [x for part in nest for x in arrays(part)]
    return [nest] if isinstance(nest, np.ndarray) else []


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum(np.sum(y) for y in wb_leaves(f(x)))


def wb_leaves(nest: Any) -> list[Any]:
    if isinstance(nest, dict):
        return list(nest.values())
    return list(nest) if isinstance(nest, tuple) else [nest]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vjp": lambda f: (lambda y, pull: (y, pull(y), pull(y)))(*wb.vjp(f, X)),
    "jvp": lambda f: wb.jvp(f, (X,), (T,)),
    "linearize": lambda f: (lambda y, t: (y, t(T), t(T)))(*wb.linearize(f, X)),
    "value_and_grad": lambda f: wb.value_and_grad(total(f))(X),
    "grad with aux": lambda f: wb.grad(
        lambda x, t: (total(f)(x), (f(x), x, t)), has_aux=True
    )(X, T),
    "vjp with aux": lambda f: (lambda y, pull, aux: (y, aux, pull(y)))(
        *wb.vjp(lambda x: (f(x), (f(x), x)), X, has_aux=True)
    ),
    "jvp with aux": lambda f: wb.jvp(lambda x: (f(x), x), (X,), (T,), has_aux=True),
    "jacobian": lambda f: wb.jacobian(f)(X),
    "jacobian, reverse": lambda f: wb.jacobian(f, mode="rev")(X),
    "hessian": lambda f: wb.hessian(lambda x: total(f)(x * x))(X),
    "hvp": lambda f: wb.hvp(lambda x: total(f)(x * x), X, T),
    "vmap": lambda f: wb.vmap(f)(M),
    "vmap of a shared one": lambda f: wb.vmap(
        lambda x, t: (f(x), t), in_axes=(0, None), out_axes=(0, None)
    )(M, T),
    "vmap of grad": lambda f: wb.vmap(wb.grad(total(f)))(M),
    "checkpoint": lambda f: wb.checkpoint(f)(X),
}


@parametrize_chunks(
    "name passing",
    {f"{name}-{x}": (name, x) for name in TRANSFORMS for x in PASSING},
)
def test_no_result_shares_memory(name: str, passing: str) -> None:
    found = arrays(TRANSFORMS[name](PASSING[passing]))
    given = (X, T, C, M)
    for i, x in enumerate(found):
        assert x.flags.writeable
        for other in (*given, *found[:i]):
            assert not np.shares_memory(x, other)


def test_what_nobody_else_has_is_not_copied() -> None:
    whole = np.exp(np.ones((300, 300)))
    for f in (lambda x: np.exp(x).T, lambda x: np.exp(x).reshape(-1)):
        y = wb.vmap(f)(whole[None])
        assert y.base is not None  # the view that the function has made
    part = wb.jvp(lambda x: np.exp(x)[:1], (whole,), (whole,))[0]
    assert part.base is None  # which would keep three hundred times its memory


def test_gradients_in_a_derivative_are_the_callers_own() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        a, b = wb.grad(lambda u, v: np.sum((u + v) * y), (0, 1))(x, x)
        a += 1  # neither y nor b, as on plain arrays
        z, _ = wb.vjp(lambda v: v, y)
        z *= 2
        return np.sum(a * b * y * z)

    def apart(x: Any) -> Any:
        y = np.sin(x)
        return np.sum((y + 1) * y * y * (2 * y))

    np.testing.assert_allclose(f(X), apart(X), rtol=1e-14)
    np.testing.assert_allclose(wb.grad(f)(X), wb.grad(apart)(X), rtol=1e-12)


# Arrays that a function reads besides

LARGE = 100_000

READERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a product": lambda c: lambda x: c * x * x,
    "a view": lambda c: lambda x: c[::-1].reshape(2, -1) * x.reshape(2, -1),
    "a choice": lambda c: lambda x: np.where(c > 0, x * x * c, 0.0),
    "a stack": lambda c: lambda x: np.stack([x * x, c]) * x,
    "an update": lambda c: lambda x: wb.at(c)[:].multiply(x * x),
    "a checkpoint": lambda c: wb.checkpoint(lambda x: c * x * x),
    "a loop": lambda c: (
        lambda x: wb.scan(lambda i, h: h * c * i, np.arange(2.0), x, last=True)
    ),
    "a branch": lambda c: lambda x: wb.cond(x[0] > 0, lambda: c * x * x, lambda: x),
    "examples": lambda c: lambda x: wb.vmap(lambda v: c[:7] * v)(x),
}


@pytest.fixture(autouse=True)
def nothing_held() -> Iterator[None]:
    yield
    if traces.HELD or traces.WAITING:
        gc.collect()
    assert not traces.HELD
    assert not traces.WAITING


@pytest.mark.parametrize("name", READERS)
def test_what_is_read_is_read_only_while_it_is_held(name: str) -> None:
    c, x = np.ones(LARGE), np.ones(LARGE)
    f = READERS[name](c)
    for transform in (wb.vjp, wb.linearize):
        y, later = transform(f, x)
        expected = later(x if transform is wb.linearize else y)
        with pytest.raises(ValueError, match="read-only"):
            c[5] = 7
        x[5] = 7  # an argument stays writeable, and the pullback keeps its own
        found = later(np.ones(LARGE) if transform is wb.linearize else y)
        for a, b in zip(arrays(found), arrays(expected), strict=True):
            np.testing.assert_array_equal(a, b)
        x[5] = 1
        del later
        c[5] = 1  # writeable again

    def changes(x: Any) -> Any:
        y = f(x)
        c[5] = 7
        return np.sum(y)

    with pytest.raises(TraceError, match=r"changed in place.*\.copy\(\)"):
        wb.grad(changes)(x)
    c[5] = 7


def test_the_last_holder_counts() -> None:
    c, x = np.ones(4), np.ones(4)
    first = wb.vjp(lambda x: c * x, x)[1]
    second = wb.vjp(lambda x: c[1:] * x[1:], x)[1]
    third = wb.linearize(lambda x: c * x, x)[1]
    wb.grad(lambda x: np.sum(c * x))(x)  # a trace that ends
    for dropped in ("first", "third", "second"):
        assert not c.flags.writeable
        if dropped == "first":
            del first
        elif dropped == "third":
            del third
        else:
            del second
    assert c.flags.writeable


def test_nested_traces_and_views_of_what_is_held() -> None:
    c = np.ones((2, 3))
    row = c[0]
    pullbacks = []

    def outer(x: Any) -> Any:
        y = np.sum(x * c)
        pullbacks.append(wb.vjp(lambda z: z * row, np.ones(3))[1])
        wb.grad(lambda z: np.sum(z * row + x[0] * row))(np.ones(3))
        assert not row.flags.writeable
        assert not c.flags.writeable
        return y

    wb.grad(outer)(np.ones((2, 3)))
    assert not row.flags.writeable
    assert not c.flags.writeable
    pullbacks.clear()
    assert row.flags.writeable
    assert c.flags.writeable


def test_only_flags_that_were_set_are_taken_back() -> None:
    locked, base = np.ones(3), np.ones(3)
    locked.flags.writeable = False
    view = base[:]
    view.flags.writeable = False
    memory = bytearray(np.ones(3).tobytes())
    lent, fixed = np.frombuffer(memory), np.frombuffer(bytes(memory))
    _, pullback = wb.vjp(lambda x: x * locked * view * lent * fixed, np.ones(3))
    assert not base.flags.writeable
    assert not lent.flags.writeable
    del pullback
    assert [a.flags.writeable for a in (locked, view, base, lent, fixed)] == [
        False, False, True, True, False,
    ]  # fmt: skip


class Lent:
    """An owner of memory that NumPy cannot ask whether it may be written to."""

    def __init__(self) -> None:
        self.own = np.ones(3)
        self.__array_interface__ = self.own.__array_interface__


def test_what_could_not_be_made_writeable_again_is_not_locked() -> None:
    owner = Lent()
    array = np.asarray(owner)
    _, pullback = wb.vjp(lambda x: x * array, np.ones(3))
    assert array.flags.writeable
    array[0] = 5
    with pytest.raises(TraceError, match="changed in place before its pullback"):
        pullback(np.ones(3))


def test_an_exception_lets_go() -> None:
    c = np.ones(3)

    def f(x: Any) -> Any:
        y = np.sum(wb.grad(lambda z: np.sum(z * c[1:]))(x[1:]) * c[1:])
        raise RuntimeError(str(y))

    with pytest.raises(RuntimeError):
        wb.grad(f)(np.ones(3))
    assert c.flags.writeable


def test_threads_that_hold_one_array() -> None:
    c, x = np.ones(50), np.ones(50)
    failed: list[BaseException] = []
    kept: list[Any] = []
    start = threading.Barrier(4)

    def work(k: int) -> None:
        try:
            start.wait()
            for i in range(40):
                _, pullback = wb.vjp(lambda x: np.sum(x * c[k:]), x[k:].copy())
                assert not c.flags.writeable
                wb.grad(lambda x: np.sum(x * c))(x.copy())
                np.testing.assert_array_equal(pullback(1.0)[0], c[k:])
                if i % 10 == 0:
                    kept.append(pullback)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert not c.flags.writeable
    kept.clear()
    gc.collect()
    assert c.flags.writeable


def test_a_cycle_is_let_go_when_it_is_collected() -> None:
    c = np.ones(3)
    holder: dict[str, Any] = {"pullback": wb.vjp(lambda x: x * c, np.ones(3))[1]}
    holder["self"] = holder
    del holder
    gc.collect()
    assert c.flags.writeable


def test_a_session_keeps_copies() -> None:
    x, c = np.array([1.0, 2.0, 3.0]), np.ones(LARGE)
    session = wb.Session(wb.trace(lambda x: np.sum(c[:3] * x * x))(x))
    x[:], c[:] = 100, 50
    np.testing.assert_array_equal(session.grads["x"], [2, 4, 6])
