"""`+=`, views and aliases in plain functions: NumPy's value, or an error.

Each program runs on plain arrays, where NumPy changes memory, and in a trace, where
nothing changes. The value of the traced function is the function's, or there is an
error with the line of the change and the line of the read; never a third thing.
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
from workbench.core.aliases import _stale_class

import workbench as wb
from tests.numpy.libraries import differences
from workbench.core import traces
from workbench.core.op import declare
from workbench.core.tensor import MaskedTensor, apply
from workbench.errors import DtypeError, ShapeError, TraceError, WorkbenchError

X = np.array([0.5, -1.5, 2.5, 1.25])


def function(body: str, name: str = "<program>") -> Callable[..., Any]:
    """A function of x with this body, whose lines errors can quote."""
    text = "def f(x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    scope: dict[str, Any] = {"np": np, "wb": wb}
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

#: What NumPy would show changed.
STALE = {
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
    "asarray": "y = x * 2\nv = np.asarray(y, like=y)\nv += 1\nreturn np.sum(y)",
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

#: What NumPy refuses, or what would change the caller's array.
REFUSED = {
    "the argument": ("x += 1\nreturn np.sum(x)", TraceError, "the input 'x'.*given to"),
    "an alias of it": ("y = x\ny *= 2\nreturn np.sum(y)", TraceError, "given to"),
    "a view of it": ("v = x[1:]\nv += 1\nreturn np.sum(v)", TraceError, "given to"),
    "a row of it": (
        "for v in x.reshape(2, 2): v += 1\nreturn np.sum(x)",
        TraceError,
        "the input 'x'.*given to",
    ),
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
    "entries": ("y = x * 2\ny[1:] += 1\nreturn np.sum(y)", TraceError, r"wb\.at\(x\)"),
    "asarray, assigned": (
        "y = x * 2\nz = np.asarray(y)\nz[0] = 5.0\nreturn np.sum(y)",
        TraceError,
        r"changed in place.*\.copy\(\)",
    ),
    "asarray, changed": (
        "y = x * 2\nz = np.asanyarray(y)\nz += 1\nreturn np.sum(y * y)",
        TraceError,
        r"changed in place.*\.copy\(\)",
    ),
    "array(copy=None)": (
        "y = x * 2\nz = np.array(y, copy=None)\nz[1:] *= 2\nreturn np.sum(y * y)",
        TraceError,
        r"changed in place.*\.copy\(\)",
    ),
    "out=": (
        "y = x * 2\nnp.multiply(y, 3, out=y)\nreturn np.sum(y)",
        TraceError,
        r"np\.multiply\(..., out=...\)",
    ),
    "out= of a function": (
        "y = x * 2\nnp.cumsum(y, out=y)\nreturn np.sum(y)",
        TraceError,
        r"out=...\)",
    ),
    "out= of a method": (
        "y = x * 2\ny.clip(0, 1, out=y)\nreturn np.sum(y)",
        TraceError,
        r"out=...\)",
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


@pytest.mark.parametrize("name", STALE)
def test_a_stale_value_is_not_read(name: str) -> None:
    f = function(STALE[name])
    f(X.copy())  # NumPy runs it
    for transform in (
        lambda x: wb.vjp(f, x),
        lambda x: wb.jvp(f, (x,), (x,)),
        wb.trace(f),
        lambda x: wb.vjp(wb.checkpoint(f), x),
        lambda x: wb.grad(lambda z: np.sum(wb.jvp(f, (z,), (z,))[1]))(x),
    ):
        with pytest.raises(TraceError, match="has changed its memory in place"):
            transform(X)
    assert not traces.MARKED


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    body, kind, message = REFUSED[name]
    f = function(body)
    with pytest.raises(kind, match=message):
        wb.grad(f)(X)
    np.testing.assert_array_equal(X, [0.5, -1.5, 2.5, 1.25])


def test_the_error_tells_both_lines_and_the_cure() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        v = y[1:]
        v *= 3  # the change
        return np.sum(y)  # the read

    with pytest.raises(TraceError) as error:
        wb.value_and_grad(f)(X)
    text = str(error.value)
    for part in (
        "y = x * 2",
        "v *= 3  # the change",
        "return np.sum(y)  # the read",
        "after *= (at",
        "x = x * y",
        ".copy()",
    ):
        assert part in text, text
    with pytest.raises(TraceError, match=r"is returned \(at .*after \+= \(at"):
        wb.jacobian(function(STALE["what is returned"]))(X)


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


def test_the_plain_value_of_a_stale_one_is_not_read() -> None:
    def f(x: Any, read: Callable[[Any], Any]) -> Any:
        y = x * 2
        z = y
        z += 1
        read(y)
        return np.sum(z)

    reads: tuple[Callable[[Any], Any], ...] = (
        lambda y: y.value, str, list, lambda y: y[0], lambda y: y.sum(), bool,
        lambda y: 1.0 * y, lambda y: y == 0, lambda y: wb.at(y)[0].set(1.0), np.array,
        lambda y: np.add(X, y), lambda y: wb.grad(np.sum)(y), lambda y: y.T, abs,
        lambda y: y.astype(int), lambda y: wb.stop_gradient(y), np.copy,
    )  # fmt: skip
    for read in reads:
        with pytest.raises(TraceError, match="has changed its memory in place"):
            wb.grad(f)(X, read)
    for still in (np.shape, len, np.ndim, lambda y: y.dtype, repr, id, lambda y: y.op):
        np.testing.assert_array_equal(wb.grad(f)(X, still), [2, 2, 2, 2])


def test_a_function_without_values() -> None:
    for name in (
        "an alias",
        "a view changes its base",
        "a transpose",
        "ravel",
        "split",
    ):
        with pytest.raises(TraceError, match="has changed its memory in place"):
            wb.vmap(function(STALE[name]))(np.stack([X, X]))
    for name in ("an accumulator", "a residual", "what was copied", "a flat copy"):
        f = function(RIGHT[name])
        found = wb.vmap(f)(np.stack([X, X + 1]))
        np.testing.assert_allclose(found, [f(X.copy()), f(X + 1)], rtol=1e-14)
    f = function("s = x[0]\nt = s\ns += x[1]\nreturn s * t")  # numbers to NumPy
    np.testing.assert_allclose(wb.vmap(f)(np.stack([X, X + 1])), [f(X), f(X + 1)])
    with pytest.raises(TraceError, match="given to the function"):
        wb.vmap(function(REFUSED["the argument"][0]))(np.stack([X, X]))


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
    for stale in (f, g):
        with pytest.raises(TraceError, match="has changed its memory in place"):
            wb.vmap(stale)(xs)
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

    def stale(v: Any, h: Any) -> Any:
        a = h * v
        b = a
        b += 1
        return b, a

    with pytest.raises(TraceError, match="has changed its memory in place"):
        wb.grad(lambda x: np.sum(wb.scan(stale, np.arange(3.0), [x, None])[1]))(X)


# Derivatives never see it


def smooth(x: Any) -> Any:
    """Reads old values, in views too, before they change in place."""
    y = np.sin(x)
    v = y[1:]
    a = np.sum(v**3)
    v *= x[:3]  # y and the old v are stale from here
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
    assert not traces.MARKED


def test_an_outer_value_that_goes_stale_inside() -> None:
    """The inner sweeps multiply by an outer Tensor that is stale by then."""

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
        y += 1  # what the rule reads is stale
        return np.sum(z * y)

    def apart(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(y * y * (y + 1))

    np.testing.assert_allclose(wb.grad(f)(X), wb.grad(apart)(X), rtol=1e-12)
    np.testing.assert_allclose(wb.hessian(f)(X), wb.hessian(apart)(X), rtol=1e-10)

    def stale(node: Any, g: Any) -> Any:
        y = g * 2.0
        v = y[1:]
        v *= 3.0
        return y

    rule = wb.override("tanh", vjp=stale)
    gradient = wb.grad(lambda x: np.sum(np.tanh(x) ** 2), overrides=[rule])
    expected = 2 * np.tanh(X) * [2, 6, 6, 6]
    np.testing.assert_allclose(gradient(X), expected, rtol=1e-15)
    with pytest.raises(TraceError, match="has changed its memory in place"):
        wb.jacobian(gradient)(X)


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
        assert "stale" in repr(seen[0])
        return np.sum(y)

    wb.grad(f)(X)
    np.testing.assert_array_equal(seen[0].value, X * 2)  # what it was in its trace


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
    right = 0
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
                right -= not REFUSAL.search(str(error)) and 1000
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
                right -= not REFUSAL.search(str(error)) and 1000
            else:
                expected = [f(X.copy()), f(X + 1)]
                np.testing.assert_allclose(batch, expected, rtol=1e-10, err_msg=body)
        right += 1
    assert right > 30  # it does not refuse everything
    assert not traces.MARKED


def test_a_stale_mask_stays_one() -> None:
    x = wb.trace(lambda x: x * 2.0)(X).outputs[0]
    x.__class__ = _stale_class(MaskedTensor)
    made = apply(declare("multiply"), (x, np.full(4, np.inf)))
    assert isinstance(made, MaskedTensor)
    assert made.op.name == "mul0"


def test_numbers_of_changes_never_go_backwards() -> None:
    before = traces.LATEST[0]

    def work() -> None:
        for _ in range(50):
            wb.grad(function("y = x * 2\ny += 1\nreturn np.sum(y)"))(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traces.LATEST[0] == before + 200
