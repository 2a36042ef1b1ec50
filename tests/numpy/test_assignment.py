"""``x[i] = v`` in a library's code: as NumPy has it, or an error; never silent.

The programs run twice: on plain arrays, and on Tensors as if SciPy had written
them. Values and derivatives must be those of NumPy.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.numpy.libraries import differences
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import TraceError


def library(body: str, module: str = "scipy.invented") -> Callable[..., Any]:
    """A function of x, written in a library."""
    text = "def f(x, keep=None):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    scope: dict[str, Any] = {"__name__": module, "np": np, "wnp": wnp}
    exec(compile(text, "<library>", "exec"), scope)
    found: Callable[..., Any] = scope["f"]
    return found


X = np.array([0.3, -1.2, 2.0, 0.7])

RIGHT = {
    "a mask": "y = np.sin(x); y[x < 0] = 5.0; return y * x",
    "zeros": "y = wnp.zeros(3); y[0] = x[1]; y[1:] = x[:2] * x[2]; return y * y",
    "rows": """
        y = wnp.zeros((4, 3))
        for i in range(4):
            y[i, :] = x[i] ** wnp.asarray([1.0, 2.0, 3.0])
        return y
        """,
    "in place on an entry": "y = np.exp(x); y[1:3] *= x[:2]; return y * x",
    "used before": "y = np.exp(x); a = y * y; b = np.sum(y); y[0] = 2.0; return a*b+y",
    "used before and after": """
        y = np.exp(x)
        out = []
        for i in range(4):
            out = out + [np.sum(y)]
            y[i] = x[i] * y[i - 1]
        return y * (out[0] + out[1] * out[2] + out[3])
        """,
    "two names of one array": "y = np.exp(x); z = y; y[0] = x[1]; return z * y",
    "the same array again": """
        y = np.exp(x)
        a, b, c = y.conj(), y.astype(y.dtype, copy=False), np.real(y)
        y[0] = x[1]
        return a * b * c
        """,
    "copies": """
        import copy
        y = np.exp(x)
        a, b, c = copy.copy(y), copy.deepcopy({"y": y})["y"], y.copy()
        y[0] = x[1]
        return a * b * c * y
        """,
    "two of one tuple of inputs": """
        y = np.exp(x)
        pair = (y,)
        a, b = np.sum(*pair), np.sin(*pair)
        y[0] = x[1]
        return a * b * y
        """,
    "an index of many": "y = np.cos(x); y[wnp.asarray([2, 0])] = x[:2]; return y * x",
    "a view that nobody holds": "y = np.exp(x); s = np.sum(y[:2]); y[0] = s; return y",
    "a base that nobody holds": """
        y = np.transpose(np.reshape(np.exp(x), (2, 2)))
        y[0] = x[1]
        return y * y
        """,
    "a part that does not overlap": """
        y = np.exp(x)
        head, tail = y[:2], y[2:]
        del y
        tail[0] = x[0]
        return head * tail
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_as_numpy_has_it(name: str) -> None:
    f = library(RIGHT[name])
    with np.errstate(all="ignore"):
        truth = f(X)
        np.testing.assert_array_equal(wb.trace(f)(X).outputs[0].value, truth)
        expected = differences(f, (X,), 0)
        for mode in ("rev", "fwd"):
            found = wb.jacobian(f, mode=mode)(X)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "a mask",
        pytest.param("two names of one array", marks=pytest.mark.long),
        pytest.param("zeros", marks=pytest.mark.long),
    ],
)
def test_second_order(name: str) -> None:
    f = library(RIGHT[name])

    def total(x: Any) -> Any:
        return np.sum(f(x) ** 2)

    expected = differences(wb.grad(total), (X,), 0)
    np.testing.assert_allclose(wb.hessian(total)(X), expected, rtol=1e-7, atol=1e-7)


SHARED = {
    "an input": "x[0] = 1.0; return x",
    "an input as it is": "y = wnp.asarray(x); y[0] = 1.0; return y",
    "a view that is held": "y = np.exp(x); v = y[:2]; y[0] = 1.0; return v * y[:2]",
    "a base that is held": "y = np.exp(x); v = y[:2]; v[0] = 1.0; return y",
    "a view of a view": """
        y = np.exp(x)
        v = np.reshape(y, (2, 2))[0]
        y[0] = 1.0
        return v * y[:2]
        """,
    "its sibling": "y = np.exp(x); a, b = y[:3], y[1:]; del y; a[1] = 1.0; return b",
    "a view in a list": "y = np.exp(x); v = [y.T]; y[0] = 1.0; return v[0]",
    "its own view": "y = np.exp(x); y[:2] = y[2:]; return y",
    "a part of what is held": "y = np.exp(x); y[2:][0] = 1.0; return y",
    "a view of the input": "y = x[:2]; y[0] = 1.0; return y * x[:2]",
    "no copy": """
        y = np.exp(x)
        v = y.astype(y.dtype, copy=False)[:2]
        y[0] = 1.0
        return v
        """,
    "a diagonal's view": """
        y = np.reshape(np.exp(x), (2, 2)) * 1.0
        v = np.diagonal(y)[1:]
        y[1] = x[:2]
        return v
        """,
}


@pytest.mark.parametrize("name", SHARED)
def test_what_shares_memory_shows_the_change(name: str) -> None:
    f = library(SHARED[name])
    found = wb.trace(f)(X).outputs[0].value
    np.testing.assert_array_equal(found, f(X.copy()))
    expected = differences(lambda x: f(x.copy()), (X,), 0)
    np.testing.assert_allclose(wb.jacobian(f)(X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "body",
    [
        "k = np.ones(4); y = wnp.asarray(k); y[0] = 5.0; return y * k * x",
        "k = np.ones(4); y = wnp.asarray(k[:2])[1:]; y[0] = 5.0; return y * k[:1] * x",
    ],
)
def test_plain_data_is_not_written_to(body: str) -> None:
    with pytest.raises(TraceError, match=r"plain array.*\.copy\(\)"):
        wb.jacobian(library(body))(X)


def test_an_array_that_is_older_than_the_trace() -> None:
    f = library("keep[0] = x[1] * x[1]; return x * keep[0]")

    def outer(x: Any) -> Any:
        y = np.exp(x)
        return wb.grad(lambda a: np.sum(f(a, y)))(x) * y

    def apart(x: Any) -> Any:
        slopes = x[1] ** 2 + np.array([0, 2 * x[1] * np.sum(x), 0, 0])
        return slopes * np.array([x[1] ** 2, *np.exp(x[1:])])

    found, expected = wb.jacobian(outer)(X), differences(apart, (X,), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_what_a_mask_hides_never_poisons() -> None:
    f = library("y = 1 / x; y[x == 0] = 2.0; return y")
    x = np.array([0.5, 0.0, 2.0])
    with np.errstate(all="ignore"):
        for mode in ("rev", "fwd"):
            found = wb.jacobian(f, mode=mode)(x)
            np.testing.assert_array_equal(found, np.diag([-4.0, 0.0, -0.25]))
        hessian = wb.hessian(lambda x: np.sum(f(x)))(x)
        np.testing.assert_array_equal(hessian, np.diag([16.0, 0.0, 0.25]))


def test_without_a_value() -> None:
    f = library("y = np.exp(x); y[0] = 1.0; return y")
    graph = wb.trace(f)(wb.Spec((4,), float))
    np.testing.assert_array_equal(graph.run([X])[0], f(X))


def test_what_was_computed_before_keeps_its_inputs() -> None:
    """The graph is that of a program that never assigned."""
    f = library("y = np.exp(x); a = y * 2; y[0] = 5.0; return a, y")
    a, y = wb.trace(f)(X).outputs
    (before,) = [i for i in a.inputs if isinstance(i, Tensor)]
    assert before.op.name == "exp"
    assert before is not y
    assert y.inputs[0].serial == before.serial
    assert before.serial < a.serial < y.serial
    np.testing.assert_array_equal(before.value, np.exp(X))
    assert (y.name, y.origin) == (None, None)


def test_an_assignment_that_fails_changes_nothing() -> None:
    f = library("""
        y = np.exp(x)
        a = y * 2
        try:
            y[0] = np.zeros(3)
        except ValueError as error:
            keep.append(str(error))
        try:
            y[9] = 1.0
        except IndexError as error:
            keep.append(str(error))
        return a * y
        """)
    said: list[str] = []
    truth = np.diag(4 * np.exp(2 * X))
    np.testing.assert_allclose(wb.jacobian(lambda x: f(x, said))(X), truth, rtol=1e-14)
    assert len(said) == 2
    assert "broadcast" in said[0] or "sequence" in said[0]
    assert "index 9" in said[1]


def test_the_value_may_come_from_the_same_array() -> None:
    f = library("y = np.exp(x); y[0] = y[1] * y[0]; y[1] = y[0]; return y")
    np.testing.assert_allclose(
        wb.jacobian(f)(X), differences(f, (X,), 0), rtol=1e-9, atol=1e-9
    )


ALIKE = """
x.copy() x.astype(x.dtype) x.astype(x.dtype,copy=False) +x np.copy(x) np.conj(x)
x.conj() np.nan_to_num(x) np.nan_to_num(n) np.real(x) np.real(z) np.imag(z) z.real
z.imag np.clip(x,-9,9) x.ravel() np.ravel(x) np.reshape(x,(2,4)) x**1 x*1 x+0 x/1
np.tile(x,1) np.repeat(x,1) np.concatenate([x]) np.hstack([x]) np.vstack([m])
np.stack([x])[0] np.block([x]) np.append(x,[]) np.roll(x,0) np.pad(x,0) np.sort(x)
np.atleast_1d(x) np.atleast_2d(x) np.atleast_3d(m) np.squeeze(x) np.squeeze(m[None])
np.expand_dims(x,0) np.swapaxes(m,0,1) np.moveaxis(m,0,0) np.rollaxis(m,1) x.T m.T
m.mT np.transpose(x) np.matrix_transpose(m) np.flip(x) np.fliplr(m) np.rot90(m,0)
np.rot90(m) np.rot90(m,2) np.broadcast_to(x,(2,8)) np.broadcast_arrays(x,x)[0]
np.trim_zeros(x) np.split(x,2)[0] np.split(x,1)[0] np.array_split(x,3)[0]
np.hsplit(x,2)[0] np.vsplit(m,2)[0] np.unstack(m)[0] x[...] x[:] x[()] x[None] x[::2]
x[::-1] x[[0,1]] x[x>0] m[0] m[:,0] m[...,0] np.take(x,[0,1]) np.delete(x,[])
np.resize(x,8) np.fix(x) np.trunc(n) np.round(x,3) np.round(n) np.real_if_close(x)
np.meshgrid(x,copy=False)[0] np.meshgrid(x,x,copy=False)[0] np.meshgrid(x)[0]
np.tril(m) np.triu(m,-9) np.einsum('i->i',x) np.einsum('ij->ji',m) np.einsum('ij',m)
np.einsum('ii->i',m) np.linalg.matrix_power(m,1) np.fft.fftshift(x)
np.fft.fftshift(x,axes=()) np.diff(x,0) np.permute_dims(m,(0,1)) np.sum(m,axis=())
np.max(m,axis=()) np.mean(m,axis=()) np.where(x>-9,x,x) np.select([x>-9],[x])
np.cumsum(x) np.lib.stride_tricks.sliding_window_view(x,3) x.squeeze() m.swapaxes(0,1)
""".split()


@pytest.mark.parametrize("text", ALIKE)
def test_memory_is_shared_wherever_numpy_shares_it(text: str) -> None:
    """What NumPy would show a change in must not look like a copy, nor the reverse."""
    x = np.array([1.0, 2, 3, 4, 5, -1, -2, 7])
    plain = {"x": x, "m": x.reshape(2, 4)[:, :2], "z": x * 1j, "n": x.astype(int)}
    (which,) = set(re.findall(r"\b[xmzn]\b", text))
    source = plain[which]
    shares = bool(np.may_share_memory(eval(text, {"np": np}, plain), source))
    seen = []

    def f(x: Any) -> Any:
        whole = x * 1
        made = {
            "x": whole,
            "m": np.reshape(whole, (2, 4))[:, :2],
            "z": whole * 1j,
            "n": whole.astype(int),
        }
        found = eval(text, {"np": np}, made)
        assert isinstance(found, Tensor)
        of = made[which]
        seen.append((found is of, np.may_share_memory(found._value, of._value)))
        return np.sum(whole)

    wb.grad(f)(x)
    ((same, memory),) = seen
    assert (same or memory) or not shares, "NumPy shares it"
    assert shares or not same, "NumPy makes an array of its own"


def test_a_tensor_whose_making_was_interrupted_harms_none() -> None:
    """Python's collector knows it too, as long as a traceback keeps it."""
    half = object.__new__(Tensor)
    half.op, half.inputs = IDENTITY, ()

    f = library("y = x * 2; y[0] = 0; return np.sum(y)")
    np.testing.assert_array_equal(wb.grad(f)(X), [0, 2, 2, 2])
    assert not hasattr(half, "serial")
