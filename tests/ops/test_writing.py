"""Every function of NumPy that writes into an array that it is given."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.core.test_filling import differences
from workbench.errors import WorkbenchError

A = np.array([[0.6, 1.5, 2.5], [1.27, 0.8, 3.1]])
#: What a function is called with, before ``out``, if not ``x, axis=0``.
ARGUMENTS = {
    "choose": "[0, 1, 0], [x[0], x[1]]",
    "clip": "x, 0.9, 2.0",
    "compress": "[True, False], x, 0",
    "concat": "[x, x]",
    "concatenate": "[x, x]",
    "dot": "x, x.T",
    "einsum": "'ij,kj->ik', x, x",
    "isneginf": "x",
    "isposinf": "x",
    "linalg.multi_dot": "[x, x.T, x]",
    "outer": "x[0], x[1]",
    "around": "x, 1",
    "round": "x, 1",
    "fix": "x",
    "percentile": "x, 30, 0",
    "nanpercentile": "x, 30, 0",
    "quantile": "x, 0.3, 0",
    "nanquantile": "x, 0.3, 0",
    "stack": "[x, x]",
    "take": "x, [1, 0], 1",
    "trace": "x",
}
#: Of what there is nothing to differentiate.
NO_FLOATS = {"busday_count", "busday_offset", "is_busday"}


def list_functions() -> dict[str, Any]:
    """Return all functions of NumPy that take ``out``."""
    found: dict[str, Any] = {}
    for module, prefix in ((np, ""), (np.linalg, "linalg."), (np.fft, "fft.")):
        for name in dir(module):
            f = getattr(module, name)
            if name.startswith("_") or isinstance(f, (type, ModuleType, np.ufunc)):
                continue
            if callable(f) and (
                "out" in read_names(f) or "out=" in (f.__doc__ or "")[:200]
            ):
                found[prefix + name] = f
    return found


def read_names(f: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(f).parameters)
    except (ValueError, TypeError):
        return set()


FUNCTIONS = list_functions()


def arguments_of(name: str) -> str:
    return ARGUMENTS.get(name, "x" if name.startswith("fft.") else "x, axis=0")


def check_out(call: Callable[..., Any], name: str) -> None:
    """Compare a call that writes with one that does not, in value and derivatives."""
    expected = np.asarray(call(A))
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)

    def total(y: Any) -> Any:
        y = y * y if expected.dtype.kind != "c" else wnp.real(y * np.conj(y))
        return wnp.sum(y * weights)

    def write(x: Any) -> Any:
        room = wnp.zeros(expected.shape, expected.dtype)
        made = call(x, out=room)
        assert made is room
        return total(room)

    def make(x: Any) -> Any:
        return total(call(x))

    try:
        truth = wb.grad(make)(A)
    except WorkbenchError as error:  # it has no derivative, and says so
        with pytest.raises(type(error), match=re.escape(name.rpartition(".")[2])):
            wb.grad(write)(A)
        return
    np.testing.assert_allclose(wb.grad(write)(A), truth, rtol=1e-12, atol=1e-14)
    value, tangent = wb.jvp(write, (A,), (A,))
    np.testing.assert_allclose(value, total(expected), rtol=1e-12)
    np.testing.assert_allclose(tangent, np.sum(truth * A), rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NO_FLOATS))
def test_functions_that_take_out(name: str) -> None:
    f = FUNCTIONS[name]
    text = f"lambda x, **out: f({arguments_of(name)}, **out)"
    call = eval(text, {"f": f, "np": np})
    if np.asarray(call(A)).dtype.kind in "biu":
        # It has no gradient: the result may lie in an array of its own.
        room, refusal = np.zeros_like(call(A)), ""
        try:
            wb.grad(lambda x: wnp.sum(x) + 0 * (call(x, out=room) is None))(A)
        except WorkbenchError as error:
            refusal = str(error)
        assert "out" in refusal or np.array_equal(room, call(A))
        return
    check_out(call, name)


UFUNCS = {
    name: f
    for name, f in vars(np).items()
    if isinstance(f, np.ufunc) and f.nout == 1 and f.signature is None
}


def makes_floats(f: np.ufunc) -> bool:
    return any(re.match(r"d+->d$", kind) for kind in f.types)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n, f in UFUNCS.items() if makes_floats(f)])
@pytest.mark.parametrize("where", [True, False])
def test_ufuncs_that_write(name: str, where: bool) -> None:
    f = UFUNCS[name]
    others = (np.full(A.shape, 1.3),) * (f.nin - 1)
    mask = A > 1
    start = A * 0.5

    def call(x: Any, out: Any = None) -> Any:
        if out is None:
            made = f(x, *others) * 1.0
            return np.where(mask, made, start) if where else made
        out[...] = start
        settings: dict[str, Any] = {"where": mask} if where else {}
        return f(x, *others, out=out, **settings)

    check_out(call, name)


#: Methods of arrays that write into them, or into ``out``.
METHODS = {
    "fill": "y.fill(x[0, 0])",
    "sort": "y.sort(axis=0)",
    "partition": "y.partition(1, axis=1); y.sort()",
    "put": "y.put([0, 3], [x[0, 1], x[1, 1]])",
    "resize": "y.resize((3, 2)); y[0] = x[0, :2]",
    "clip": "x.clip(0.9, 2.0, out=y)",
    "cumsum": "x.cumsum(axis=1, out=y)",
    "cumprod": "x.cumprod(axis=1, out=y)",
    "sum": "x.sum(axis=0, out=y[0])",
    "prod": "x.prod(axis=0, out=y[1])",
    "mean": "x.mean(axis=1, out=y[:, 0])",
    "std": "x.std(axis=1, out=y[:, 1])",
    "var": "x.var(axis=1, out=y[:, 1])",
    "max": "x.max(axis=0, out=y[0])",
    "min": "x.min(axis=0, out=y[0])",
    "round": "x.round(1, out=y)",
    "take": "x.take([2, 0, 1], axis=1, out=y)",
    "dot": "x.dot(x.T, out=y[:, :2])",
    "compress": "x.compress([False, True], axis=0, out=y[:1])",
    "choose": "np.array([0, 1, 0]).choose(x, out=y[0])",
    "trace": "x.trace(out=y[0, :1].reshape(()))",
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_write(name: str) -> None:
    def make(np: Any) -> Any:
        scope: dict[str, Any] = {"np": np}
        body = f"def f(x):\n y = x * 2.0\n {METHODS[name]}\n return y * y + y\n"
        exec(body, scope)
        return scope["f"]

    plain, f = make(np), make(wnp)
    if name == "dot":  # NumPy wants an array in one piece
        with pytest.raises(ValueError, match="output array"):
            plain(A.copy())
        return
    np.testing.assert_allclose(wb.vjp(f, A)[0], plain(A.copy()), rtol=1e-14)
    h, found = 1e-6, wb.jvp(f, (A,), (A,))[1]
    truth = (plain(A * (1 + h)) - plain(A * (1 - h))) / (2 * h)
    np.testing.assert_allclose(found, truth, atol=1e-7)
    weights = np.cos(np.arange(truth.size)).reshape(truth.shape)
    gradient = wb.grad(lambda x: wnp.sum(f(x) * weights))(A)
    np.testing.assert_allclose(np.sum(gradient * A), np.sum(truth * weights), atol=1e-6)


def test_places_that_depend_on_values_in_a_batch() -> None:
    def f(x: Any) -> Any:
        a, b = np.sin(x).reshape(2, 3) * 1.0, np.zeros((2, 3))
        np.put_along_axis(a, np.argmax(a, axis=1)[:, None], 0.5 * x[0], axis=1)
        np.put_along_axis(b, np.argsort(a, axis=0), a * x[1], axis=0)
        np.place(b, a > 0.1, x[2])
        np.place(a, a < 0.1, [2.0])
        return np.sum(a * b)

    rows = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_allclose(wb.vmap(f)(rows), [f(x) for x in rows], rtol=1e-12)
    slopes = wb.vmap(wb.grad(f))(rows)
    for x, slope in zip(rows, slopes, strict=True):
        np.testing.assert_allclose(slope, wb.grad(f)(x), rtol=1e-12)
        np.testing.assert_allclose(slope, differences(f, x, 1e-4), atol=1e-8)
