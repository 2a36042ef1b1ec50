"""`+=`, views and aliases in plain functions: NumPy's value and its derivatives.

Each program runs on plain arrays, where NumPy changes memory, and in a trace, where a
write makes a new version. Both show the same, or there is an error with the line and
the cure; never a third thing.
"""

from __future__ import annotations

import random
import re
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.filling import NAMES
from tests.numpy.libraries import differences
from workbench.errors import DtypeError, ShapeError, TraceError, WorkbenchError

X = np.array([0.5, -1.5, 2.5, 1.25])


def function(body: str, name: str = "<program>", names: Any = np) -> Callable[..., Any]:
    """A function of x with this body, whose lines errors can quote."""
    text = "def f(x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    scope: dict[str, Any] = {"np": names, "wb": wb}
    exec(compile(text, name, "exec"), scope)
    found: Callable[..., Any] = scope["f"]
    return found


#: What goes on working: nobody reads the old value again.
RIGHT = {
    "a loss": "s = 0.0\nfor v in x: s += v * v\nreturn s",
    "a loss of a number": "s = np.sum(x)\nt = s\ns += 1.0\nreturn s * t",
    "an accumulator": "h = x * 1.0\nfor _ in range(3): h += np.sin(h) * x\nreturn h",
    "every operator": """
        y = x * x + 1
        y += x
        y -= 2 * x
        y *= x
        y /= 3
        y **= 2
        y %= 50
        return y
        """,
    "a residual": "h = np.tanh(x)\na = np.exp(h) * h\nh += a\nreturn h * a",
    "a matrix product": "M = np.outer(x, x)\nM @= M\nreturn M",
    "before the change": "y = x * 2\nz = y\na = np.sum(z)\ny += 1\nreturn y * a",
    "many names after": "y = x * 2\ny += 1\nz = y\nv = y[1:]\nreturn z[1:] * v",
    "what was copied": "y = x * 2\nz = y.copy()\ny += 1\nreturn y * z",
    "a flat copy": "y = np.outer(x, x)\nz = y.flatten()\ny += 1\nreturn y.ravel() * z",
    "an index by an array": "y = x * 2\nz = y[[0, 1]]\ny += 1\nreturn y[:2] * z",
    "an index by a mask": "y = x * 2\nz = y[y > 0]\ny *= 3\nreturn np.sum(z) * y",
    "a computed value": "y = x * 2\nz = y + 0\ny += 1\nreturn y * z",
    "take of a row": """
        y = np.outer(x, x)
        z = np.take(y, 0, axis=0)
        y += 1
        return z * y
        """,
    "meshgrid": "y = x * 2\n(z,) = np.meshgrid(y)\ny += 1\nreturn z * y",
    "an array of several": "y = x * 2\na = np.array([y, y])\ny += 1\nreturn a * y",
    "an array that is a copy": """
        y = x * 2
        z = np.array(y)
        z[0] = 5.0
        z += 1
        y *= 3
        return np.sum(y * z)
        """,
    "an entry, reshaped": "a = x[0]\nz = a.reshape(())\nz += 1\nreturn a * z",
    "a reshape that copies": """
        y = np.outer(x, x)
        z = y.T.reshape(16)
        y += 1
        return y.reshape(16) * z
        """,
    "another part": "y = x * 2\na, b = y[:2], y[2:]\nb *= 3\nreturn a * b",
    "entries between": "y = x * 2\na, b = y[::2], y[1::2]\nb *= 3\nreturn a * b",
    "its shape": "y = x * 2\nz = y\nz += 1\nreturn z * len(y) * y.size * y.ndim",
    "a list of layers": """
        layers = [x * k for k in range(1, 4)]
        for i in range(3): layers[i] += 1
        return layers[0] * layers[1] * layers[2]
        """,
    "an attribute": """
        class Net: pass
        net = Net()
        net.h = x * 2
        net.h *= x
        return net.h
        """,
    "integers": "n = np.floor(x).astype(int)\nn += 2\nn //= 2\nreturn n * x",
}

#: What NumPy shows changed.
SHARED = {
    "a view changes its base": "y = x * 2\nv = y[1:]\nv *= 3\nreturn np.sum(y)",
    "a base changes its view": "y = x * 2\nv = y[1:]\ny *= 3\nreturn np.sum(v)",
    "an alias": "y = x * 2\nz = y\nz += 1\nreturn np.sum(y)",
    "a function's argument": """
        def bump(a):
            a *= 3
        y = x * 2
        bump(y)
        return np.sum(y)
        """,
    "rows": """
        Y = np.outer(x, x)
        for row in Y:
            row /= row.sum()
        return np.sum(Y)
        """,
    "siblings": "y = x * 2\na, b = y[:3], y[1:]\nb *= 3\nreturn np.sum(a)",
    "a view of a view": "y = x * 2\nv = y[1:][::-1]\nv *= 3\nreturn np.sum(y)",
    "a transpose": "y = np.outer(x, x)\nv = y.T\nv += 1\nreturn np.sum(y)",
    "a reshape": "y = x * 2\nv = y.reshape(2, 2)\nv += 1\nreturn np.sum(y)",
    "ravel": "y = np.outer(x, x)\nv = y.ravel()\ny += 1\nreturn np.sum(v)",
    "squeeze": "y = x[None] * 2\nv = y.squeeze()\nv += 1\nreturn np.sum(y)",
    "swapaxes": "y = np.outer(x, x)\nv = y.swapaxes(0, 1)\nv += 1\nreturn np.sum(y)",
    "moveaxis": "y = np.outer(x, x)\nv = np.moveaxis(y, 0, 1)\nv += 1\nreturn y",
    "rollaxis": "y = np.outer(x, x)\nv = np.rollaxis(y, 1)\nv += 1\nreturn np.sum(y)",
    "expand_dims": "y = x * 2\nv = np.expand_dims(y, 0)\nv += 1\nreturn np.sum(y)",
    "a new axis": "y = x * 2\nv = y[None]\nv += 1\nreturn np.sum(y)",
    "atleast_2d": "y = x * 2\nv = np.atleast_2d(y)\nv += 1\nreturn np.sum(y)",
    "flip": "y = x * 2\nv = np.flip(y)\nv += 1\nreturn np.sum(y)",
    "rot90": "y = np.outer(x, x)\nv = np.rot90(y)\nv += 1\nreturn np.sum(y)",
    "split": "y = x * 2\na, b = np.split(y, 2)\na += 1\nreturn np.sum(y)",
    "array_split": "y = x * 2\na, *_ = np.array_split(y, 3)\na += 1\nreturn np.sum(y)",
    "real": "y = x * 2j\nv = y.real\nv += 1\nreturn np.sum(np.abs(y))",
    "imag": "y = x * 2j\nv = y.imag\ny *= 2\nreturn np.sum(v)",
    "broadcast_to": "y = x * 2\nv = np.broadcast_to(y, (3, 4))\ny += 1\nreturn v",
    "diagonal": "y = np.outer(x, x)\nv = np.diagonal(y)\ny += 1\nreturn np.sum(v)",
    "diag": "y = np.outer(x, x)\nv = np.diag(y)\ny += 1\nreturn np.sum(v)",
    "einsum": "y = np.outer(x, x)\nv = np.einsum('ij->ji', y)\nv += 1\nreturn y",
    "windows": """
        y = x * 2
        v = np.lib.stride_tricks.sliding_window_view(y, 2)
        y += 1
        return np.sum(v)
        """,
    "asarray": "y = x * 2\nv = np.asarray(y)\nv += 1\nreturn np.sum(y)",
    "asarray, read": "y = x * 2\nz = np.asarray(y)\ny += 1\nreturn np.sum(z * z)",
    "asarray, a part": "y = x * 2\nz = np.asarray(y)[1:]\ny += 1\nreturn np.sum(z)",
    "ascontiguousarray": """
        y = x * 2
        z = np.ascontiguousarray(y)
        y += 1
        return np.sum(z)
        """,
    "broadcast_arrays": """
        y = x * 2
        a, b = np.broadcast_arrays(y, np.ones((2, 4)))
        y += 1
        return np.sum(a)
        """,
    "meshgrid": """
        y = x * 2
        a, b = np.meshgrid(y, y, sparse=True, copy=False)
        y += 1
        return np.sum(a)
        """,
    "stop_gradient": "y = x * 2\nv = wb.stop_gradient(y)\nv += 1\nreturn np.sum(y)",
    "the truth of it": "y = x * 2\nz = y\nz += 9\nreturn x[0] if y[0] > 5 else x[1]",
    "a view's truth": "y = x * 2\nv = y[:1]\ny += 9\nreturn x[0] if v > 5 else x[1]",
    "a text": "y = x * 2\nz = y\nz += 9\nreturn x[0] * len(f'{y}')",
    "what is returned": "y = x * 2\nz = y\nz += 1\nreturn y",
    "what is returned in a nest": "y = x * 2\nz = y\nz += 1\nreturn {'a': [z, y]}",
    "a second change": "y = x * 2\nz = y\nz += 1\ny += 1\nreturn np.sum(y)",
    "a stack of them": "y = x * 2\nz = y\nz += 1\nreturn np.stack([z, y])",
    "an array of them": "y = x * 2\nz = y\nz += 1\nreturn np.array([z, y])",
    "an array without axes": "y = np.where(x[0] > 0, x[0], 0)\nz = y\nz += 1\nreturn y",
    "entries": "y = x * 2\ny[1:] += 1\nreturn np.sum(y)",
    "asarray, assigned": "y = x * 2\nz = np.asarray(y)\nz[0] = 5.0\nreturn np.sum(y)",
    "asarray, changed": "y = x * 2\nz = np.asanyarray(y)\nz += 1\nreturn y * y",
    "array(copy=None)": "y = x * 2\nz = np.array(y, copy=None)\nz[1:] *= 2\nreturn y",
    "out=": "y = x * 2\nz = y\nnp.multiply(y, 3, out=y)\nreturn z",
    "out= of a function": "y = x * 2\nz = y\nnp.cumsum(y, out=y)\nreturn z",
    "out= of a method": "y = x * 2\nz = y\ny.clip(-4, 2, out=y)\nreturn z",
    "the argument": "z = x\nx += 1\nreturn z * x",
    "an alias of it": "y = x\ny *= 2\nreturn x",
    "a view of it": "v = x[1:]\nv += 1\nreturn x * x",
    "a row of it": "for v in x.reshape(2, 2): v += 1\nreturn x * x",
    "inside a derivative": """
        y = x * 2
        def inner(w):
            v = y[1:]
            v *= 3
            return np.sum(w * y)
        return wb.grad(inner)(np.ones(4))
        """,
    "after a derivative": """
        y = x * 2
        def inner(w):
            v = y[1:]
            v *= 3
            return np.sum(w[1:] * v)
        g = wb.grad(inner)(np.ones(4))
        return np.sum(g) + np.sum(y)
        """,
}

#: What NumPy refuses.
REFUSED = {
    "a broadcast": (
        "v = np.broadcast_to(x * 2, (3, 4))\nv += 1\nreturn np.sum(v)",
        TraceError,
        "does not let anybody write",
    ),
    "a broadcast without entries": (
        "v = np.broadcast_to((x * 2)[:0], (3, 0))\nv += 1\nreturn np.sum(v)",
        TraceError,
        "does not let anybody write",
    ),
    "a diagonal": (
        "v = np.diagonal(np.outer(x, x))\nv += 1\nreturn np.sum(v)",
        TraceError,
        "does not let anybody write",
    ),
    "a larger shape": (
        "y = x * 2\ny += np.ones((2, 4))\nreturn np.sum(y)",
        ShapeError,
        r"\(2, 4\), and does not fit into",
    ),
    "another kind": (
        "y = x * 2\ny += 1j\nreturn np.sum(np.abs(y))",
        DtypeError,
        "complex128, and does not fit into",
    ),
    "floats into integers": (
        "y = np.floor(x).astype(int)\ny += 0.5\nreturn np.sum(y * x)",
        DtypeError,
        "float64, and does not fit into",
    ),
}


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: np.sum(f(x) ** 2)


@pytest.mark.parametrize("name", RIGHT)
def test_what_nobody_reads_again_works(name: str) -> None:
    f = function(RIGHT[name])
    truth = f(X.copy())
    value, _ = wb.vjp(f, X)
    np.testing.assert_allclose(value, truth, rtol=1e-14)
    assert np.asarray(value).dtype == np.asarray(truth).dtype
    expected = differences(f, (X,), 0)
    for mode in ("rev", "fwd"):
        found = wb.jacobian(f, mode=mode)(X)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


#: Where the derivative of the function is not that of its value.
CUT = ("stop_gradient", "a text")


@pytest.mark.parametrize("name", SHARED)
def test_what_shares_memory_shows_a_change(name: str) -> None:
    f = function(SHARED[name], names=NAMES)
    plain = function(SHARED[name])
    before = X.copy()
    graph = wb.trace(f)(X)
    value = [getattr(y, "value", y) for y in graph.outputs]
    if "derivative" in name:
        expected = [f(X.copy())]
    else:
        found = plain(X.copy())
        expected = found["a"] if isinstance(found, dict) else [found]
    for a, b in zip(value, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_array_equal(X, before)
    if (isinstance(expected, list) and len(expected) > 1) or name in CUT:
        return
    one = f if "derivative" in name else plain
    slopes = differences(total(lambda x: one(x.copy())), (X,), 0)
    moved = np.sum(slopes * X)
    np.testing.assert_allclose(wb.grad(total(f))(X), slopes, rtol=1e-5, atol=1e-6)
    if name not in OF_INPUTS:
        found = wb.grad(wb.checkpoint(total(f)))(X)
        np.testing.assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)
    made = wb.jvp(total(f), (X,), (X,))[1]
    np.testing.assert_allclose(made, moved, rtol=1e-6, atol=1e-6)


OF_INPUTS = ("the argument", "an alias of it", "a view of it", "a row of it")


@pytest.mark.parametrize("name", OF_INPUTS)
def test_the_argument_of_what_stands_for_a_call_is_not_written(name: str) -> None:
    f = function(SHARED[name], names=NAMES)
    for call in (
        lambda x: wb.vmap(f)(np.stack([x, x])),
        lambda x: wb.grad(lambda x: np.sum(wb.checkpoint(f)(x)))(x),
        lambda x: wb.scan(lambda v, h: (f(h), v), np.arange(3.0), [x, None]),
        lambda x: wb.compile(f)(x),
    ):
        with pytest.raises(TraceError, match=r"given to the function.*\.copy\(\)"):
            call(X)


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    body, kind, message = REFUSED[name]
    f = function(body)
    with pytest.raises(kind, match=message):
        wb.grad(f)(X)
    np.testing.assert_array_equal(X, [0.5, -1.5, 2.5, 1.25])


def test_the_error_tells_the_lines_and_the_cure() -> None:
    def f(x: Any) -> Any:
        v = np.broadcast_to(x * 2, (2, 4))  # the view
        v += 3  # the change
        return np.sum(v)

    with pytest.raises(TraceError) as error:
        wb.value_and_grad(f)(X)
    text = str(error.value)
    for part in ("# the view", "v += 3  # the change", ".copy()"):
        assert part in text, text


def test_a_dtype_stays_as_it_is() -> None:
    def f(x: Any) -> Any:
        y = x.astype(np.float32)
        y += np.ones(4)
        assert y.dtype == np.float32
        y *= np.float64(2)
        return y

    value, pullback = wb.vjp(f, X)
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, f(X.copy()))
    np.testing.assert_array_equal(pullback(value)[0], 2 * value)


def test_every_way_to_read_shows_the_change() -> None:
    reads: tuple[Callable[[Any], Any], ...] = (
        list, lambda y: y[0], lambda y: y.sum(), lambda y: 1.0 * y, lambda y: y == 0,
        lambda y: wb.at(y)[0].set(1.0), np.array, lambda y: np.add(X, y), abs, np.copy,
        lambda y: wb.grad(np.sum)(y), lambda y: y.T, lambda y: y.astype(int), np.shape,
        lambda y: wb.stop_gradient(y), len, np.ndim, lambda y: y.dtype, lambda y: -y,
        lambda y: 2.0**y, lambda y: X @ y, lambda y: divmod(y, 2.0), lambda y: y @ y,
        lambda y: [*y], np.isfinite, lambda y: y.size, lambda y: np.stack([y, y]),
        lambda y: getattr(y, "value", y), lambda y: y[1:][0], lambda y: y > 0,
    )  # fmt: skip
    found: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        z = y
        z += 1
        found.extend(read(y) for read in reads)
        return x[0]

    wb.grad(f)(X)
    for read, made in zip(reads, found, strict=True):
        for a, b in zip(flat(made), flat(read(X * 2 + 1)), strict=True):
            np.testing.assert_array_equal(getattr(a, "value", a), b)


def flat(x: Any) -> list[Any]:
    """The parts of a result, each without its place."""
    nested = isinstance(x, (list, tuple))
    return [y for part in x for y in flat(part)] if nested else [x]


def test_a_function_without_values() -> None:
    for name in (
        "an alias", "a view changes its base", "a transpose", "ravel", "split", "rows",
        "a reshape", "entries", "out=", "siblings", "swapaxes", "real",
    ):  # fmt: skip
        f, plain = function(SHARED[name], names=NAMES), function(SHARED[name])
        found = wb.vmap(f)(np.stack([X, X + 1]))
        np.testing.assert_allclose(found, [plain(X.copy()), plain(X + 1)], rtol=1e-14)
    for name in ("an accumulator", "a residual", "what was copied", "a flat copy"):
        f = function(RIGHT[name])
        found = wb.vmap(f)(np.stack([X, X + 1]))
        np.testing.assert_allclose(found, [f(X.copy()), f(X + 1)], rtol=1e-14)
    f = function("s = x[0]\nt = s\ns += x[1]\nreturn s * t")  # numbers to NumPy
    np.testing.assert_allclose(wb.vmap(f)(np.stack([X, X + 1])), [f(X), f(X + 1)])
    with pytest.raises(TraceError, match="given to the function"):
        wb.vmap(function(SHARED["the argument"]))(np.stack([X, X]))


def test_what_lies_outside_is_not_changed_by_each_example() -> None:
    def f(x: Any) -> Any:
        y = x * 2

        def example(v: Any) -> Any:
            nonlocal y
            y += 1
            return v * np.sum(y)

        return np.sum(wb.vmap(example)(np.arange(3.0)))

    with pytest.raises(TraceError, match="recorded once and runs many times"):
        wb.grad(f)(X)


def test_a_view_without_axes_of_each_example() -> None:
    def f(x: Any) -> Any:
        y = x[:1] * 2.0
        z = y.reshape(())
        z += 1.0
        return np.sum(y)

    def g(x: Any) -> Any:
        y = x * 2.0
        z = y[0, ...]
        z *= 3.0
        return y

    def h(x: Any) -> Any:
        a, s = x[0], np.sum(x)
        b, t = a, s
        b += 1.0
        t *= 2.0
        return a * b + s * t

    xs = np.array([X, X + 1])
    for program in (f, g):
        expected = [program(x.copy()) for x in xs]
        np.testing.assert_allclose(wb.vmap(program)(xs), expected, rtol=1e-14)
    np.testing.assert_allclose(wb.vmap(h)(xs), [h(x) for x in xs], rtol=1e-14)


def test_loops_of_ours() -> None:
    def step(v: Any, h: Any) -> Any:
        a = h * v
        a += np.sin(h)
        return a, a

    def f(x: Any) -> Any:
        return np.sum(wb.scan(step, np.arange(3.0), [x, None])[1])

    def truth(x: Any) -> Any:
        h, s = x, 0.0
        for v in np.arange(3.0):
            h = h * v + np.sin(h)
            s = s + np.sum(h)
        return s

    np.testing.assert_allclose(wb.grad(f)(X), wb.grad(truth)(X), rtol=1e-12)
    np.testing.assert_allclose(wb.hessian(f)(X), wb.hessian(truth)(X), rtol=1e-10)

    def shared(v: Any, h: Any) -> Any:
        a = h * v
        b = a
        b += 1
        a[0] *= 2
        return b, a

    def plain(x: Any) -> Any:
        h, s = x, 0.0
        for v in np.arange(3.0):
            h = (h * v + 1) * np.array([2.0, 1, 1, 1])
            s = s + np.sum(h)
        return s

    def scanned(x: Any) -> Any:
        return np.sum(wb.scan(shared, np.arange(3.0), [x, None])[1])

    np.testing.assert_allclose(wb.grad(scanned)(X), wb.grad(plain)(X), rtol=1e-12)


# Derivatives never see it


def smooth(x: Any) -> Any:
    """Reads old values, in views too, before they change in place."""
    y = np.sin(x)
    v = y[1:]
    a = np.sum(v**3)
    v *= x[:3]  # y changes too
    b = np.exp(v / 2)
    c = b
    d = c * v
    c -= v**2  # b too
    return a * np.sum(d) + np.sum(c**2)


def smooth_apart(x: Any) -> Any:
    """The same without a change in place."""
    y = np.sin(x)
    a = np.sum(y[1:] ** 3)
    v = y[1:] * x[:3]
    b = np.exp(v / 2)
    return a * np.sum(b * v) + np.sum((b - v**2) ** 2)


ORDERS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": wb.grad,
    "hessian": wb.hessian,
    "reverse over reverse": lambda f: wb.jacobian(wb.grad(f), mode="rev"),
    "forward over forward": lambda f: wb.jacobian(
        wb.jacobian(f, mode="fwd"), mode="fwd"
    ),
    "third order": lambda f: wb.jacobian(wb.hessian(f), mode="rev"),
    "third order, forward": lambda f: wb.jacobian(wb.hessian(f), mode="fwd"),
    "a product": lambda f: lambda x: wb.hvp(f, x, np.cos(x)),
    "jvp of grad of jvp": lambda f: (
        lambda x: wb.jvp(wb.grad(lambda z: wb.jvp(f, (z,), (X,))[1]), (x,), (X,))[1]
    ),
    "linearize": lambda f: lambda x: wb.linearize(wb.grad(f), x)[1](X),
    "batched gradients": lambda f: lambda x: wb.vmap(wb.grad(f))(np.stack([x, 2 * x])),
    "gradients of batches": lambda f: wb.grad(
        lambda x: np.sum(wb.vmap(f)(np.stack([x, 2 * x])))
    ),
    "Hessian of batches": lambda f: wb.hessian(
        lambda x: np.sum(wb.vmap(f)(np.stack([x, 2 * x])))
    ),
    "checkpoint": lambda f: wb.grad(lambda x: wb.checkpoint(f)(x * 1.0)),
    "Hessian of checkpoint": lambda f: wb.hessian(wb.checkpoint(f)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_derivatives_read_what_was_recorded(name: str) -> None:
    transform = ORDERS[name]
    np.testing.assert_allclose(smooth(X.copy()), smooth_apart(X), rtol=1e-14)
    expected = transform(smooth_apart)(X)
    np.testing.assert_allclose(transform(smooth)(X), expected, rtol=1e-9, atol=1e-11)


def test_an_outer_value_that_changes_inside() -> None:
    """The inner sweeps multiply by an outer Tensor that has changed by then."""

    def f(x: Any) -> Any:
        y = np.exp(x)

        def inner(w: Any) -> Any:
            nonlocal y
            t = np.sin(w * y) * y[::-1]
            y *= 2
            return np.sum(t) + np.sum(w * w * y)

        return np.sum(wb.grad(inner)(np.cos(x)) * wb.hvp(inner, np.cos(x), x))

    def apart(x: Any) -> Any:
        y = np.exp(x)

        def first(w: Any) -> Any:
            return np.sum(np.sin(w * y) * y[::-1]) + np.sum(w * w * (y * 2))

        def second(w: Any) -> Any:
            z = y * 2
            return np.sum(np.sin(w * z) * z[::-1]) + np.sum(w * w * (z * 2))

        return np.sum(wb.grad(first)(np.cos(x)) * wb.hvp(second, np.cos(x), x))

    value = wb.trace(f)(X).outputs[0].value
    np.testing.assert_allclose(value, apart(X), rtol=1e-13)
    for order in (wb.grad, wb.hessian, lambda f: wb.jacobian(wb.hessian(f))):
        np.testing.assert_allclose(order(f)(X), order(apart)(X), rtol=1e-8)


def test_a_pullback_made_before_the_change() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        value, pullback = wb.vjp(lambda w: np.sum(np.sin(w) * y), x)
        y += 1
        return np.sum(pullback(value)[0] * y)

    def apart(x: Any) -> Any:
        y = np.exp(x)
        return np.sum(np.sum(np.sin(x) * y) * np.cos(x) * y * (y + 1))

    np.testing.assert_allclose(wb.grad(f)(X), wb.grad(apart)(X), rtol=1e-12)
    np.testing.assert_allclose(wb.hessian(f)(X), wb.hessian(apart)(X), rtol=1e-10)


def test_rules_of_users() -> None:
    @wb.custom_gradient
    def square(x: Any) -> Any:
        def pull(g: Any) -> Any:
            a = x * g
            b = a
            b *= 2
            return b

        y = x * 1.0
        y *= x
        return y, pull

    def f(x: Any) -> Any:
        y = np.sin(x)
        z = square(y)
        y += 1  # what the rule has read changes
        return np.sum(z * y)

    def apart(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(y * y * (y + 1))

    np.testing.assert_allclose(wb.grad(f)(X), wb.grad(apart)(X), rtol=1e-12)
    np.testing.assert_allclose(wb.hessian(f)(X), wb.hessian(apart)(X), rtol=1e-10)

    def written(node: Any, g: Any) -> Any:
        y = g * 2.0
        v = y[1:]
        v *= 3.0
        return y

    rule = wb.override("tanh", vjp=written)
    gradient = wb.grad(lambda x: np.sum(np.tanh(x) ** 2), overrides=[rule])
    slopes = 2 * np.array([2, 6, 6, 6])
    np.testing.assert_allclose(gradient(X), np.tanh(X) * slopes, rtol=1e-15)


def test_the_graph_and_what_is_recorded_stay_readable() -> None:
    graph = wb.trace(smooth)(X)
    for node in graph.nodes if hasattr(graph, "nodes") else graph:
        assert node.value is not None
        assert all(x is not None for x in node.inputs)
    assert "multiply" in str(graph)
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        seen.append(y)
        y += 1
        return np.sum(y)

    wb.grad(f)(X)
    np.testing.assert_array_equal(seen[0].value, X * 2 + 1)


def test_symbols_rebind() -> None:
    x = wb.vector("x")
    y = x * 2
    z = y
    z += 1
    f = wb.function([x], [y, z])
    np.testing.assert_array_equal(f(X), [X * 2, X * 2 + 1])


def test_views_that_are_gone_leave_nothing_behind() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        for k in range(1000):
            y[k % 4 :]
        assert len(y.views) < 200
        return np.sum(y)

    wb.grad(f)(X)


# Programs drawn at random

UNARY = ("{a} * 2.0", "np.sin({a})", "{a} + {b}", "{a} * {b}", "{a}.copy()", "-{a}")
VIEWS = (
    "{a}", "{a}[1:]", "{a}[::-1]", "{a}[::2]", "{a}[:-1]", "{a}.T", "{a}.reshape(-1)",
    "{a}[None]", "np.squeeze({a})", "{a}.ravel()", "{a}.flatten()", "{a}[[0]]",
    "{a} + 0", "np.atleast_2d({a})", "np.flip({a})", "{a}.reshape({a}.shape)",
    "np.broadcast_to({a}, (2,) + {a}.shape)", "{a}[..., 0]", "np.expand_dims({a}, 0)",
)  # fmt: skip
CHANGES = (
    "{a} += {s}", "{a} *= {s}", "{a} -= np.mean({b})", "{a} /= 2.0", "bump({a})",
    "{a} += {b}",
)  # fmt: skip


REFUSAL = re.compile("in place|anybody write")


def drawn(rng: random.Random) -> str:
    """The body of a program that makes views, changes some, and reads some."""
    names = ["y"]
    lines = ["def bump(a):", "    a *= 1.5", "y = np.outer(x, x)", "out = 0.0"]
    for k in range(rng.randrange(3, 9)):
        a, b = rng.choice(names), rng.choice(names)
        kind = rng.random()
        if kind < 0.2:
            lines.append(f"v{k} = " + rng.choice(UNARY).format(a=a, b=b))
            names.append(f"v{k}")
        elif kind < 0.55:
            lines.append(f"v{k} = " + rng.choice(VIEWS).format(a=a))
            names.append(f"v{k}")
        elif kind < 0.85:
            lines.append(rng.choice(CHANGES).format(a=a, b=b, s=f"{rng.random():.3f}"))
        else:
            lines.append(f"out = out + np.sum(np.cos({a}))")
    lines.append(f"return out + np.sum(np.sin({rng.choice(names)}))")
    return "\n".join(lines)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_random_programs_have_numpys_value_or_an_error(
    rng: np.random.Generator,
) -> None:
    choices = random.Random(int(rng.integers(2**32)))
    right, refusals = 0, list[tuple[str, str]]()
    for _ in range(300):
        body = drawn(choices)
        f = function(body)
        with np.errstate(all="ignore"):
            try:
                truth = f(X.copy())
            except (ValueError, IndexError):  # what NumPy refuses has no value
                with pytest.raises((WorkbenchError, ValueError, IndexError)):
                    wb.value_and_grad(f)(X)
                continue
            try:
                value, found = wb.value_and_grad(f)(X)
            except TraceError as error:
                refusals.append((str(error), body))
                continue
            np.testing.assert_allclose(value, truth, rtol=1e-10, err_msg=body)
            moved = wb.jvp(f, (X,), (np.ones(4),))[1]
            size = np.sum(np.abs(found))
            if np.isfinite(size):
                assert abs(np.sum(found) - moved) <= 1e-8 * size, body
            else:
                assert not np.isfinite(moved), body
            try:
                batch = wb.vmap(f)(np.stack([X, X + 1]))
            except TraceError as error:
                refusals.append((str(error), body))
            else:
                expected = [f(X.copy()), f(X + 1)]
                np.testing.assert_allclose(batch, expected, rtol=1e-10, err_msg=body)
        right += 1
    for message, body in refusals:
        assert REFUSAL.search(message), body
    assert right > 150  # what is refused are views that nobody may write to


def test_a_mask_stays_one() -> None:
    def f(x: Any) -> Any:
        y = np.sqrt(x * x)
        z = np.where(x > 0, y, 0.0)
        w = z
        w += 1.0
        return np.sum(z * w)

    slopes = wb.grad(f)(np.array([2.0, 0.0, -1.0]))
    np.testing.assert_allclose(slopes, [6.0, 0.0, 0.0])


def test_threads_of_the_function() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0

        def work(k: int) -> None:
            for _ in range(20):
                y[k] += x[k]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return np.sum(y * y)

    np.testing.assert_allclose(wb.grad(f)(X), 2 * 21**2 * X)
