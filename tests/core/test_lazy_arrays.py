"""Arrays that are not in memory: Dask's are refused, those in files are read once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from workbench.errors import TraceError

X = np.arange(6.0).reshape(3, 2)
W = np.ones(2)


class Array:
    """What NumPy sees of a Dask array; it counts how often it is brought here."""

    __array_priority__ = 11
    pulls = 0

    def __init__(self, data: Any, lazy: bool = True) -> None:
        self.data, self.lazy = np.asarray(data), lazy
        self.shape, self.dtype, self.ndim = data.shape, data.dtype, data.ndim
        self.nbytes = 2**40 if lazy else data.nbytes

    def __dask_graph__(self) -> dict[str, Any] | None:
        return {"x": self.data} if self.lazy else None

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        type(self).pulls += 1
        return self.data

    def __getitem__(self, key: Any) -> Any:
        return Array(self.data[key])

    def __array_ufunc__(self, *args: Any, **settings: Any) -> Any:
        return NotImplemented

    def __array_function__(self, *args: Any) -> Any:
        return NotImplemented


dX: Any = Array(X)


def loss(W: Any, X: Any) -> Any:
    return np.sum((X @ W) ** 2)


w, m = wb.vector("w"), wb.matrix("m")

#: Each way that an array comes into a program.
WAYS: dict[str, Callable[[], Any]] = {
    "an argument": lambda: wb.grad(loss)(W, dX),
    "what is differentiated by": lambda: wb.grad(loss, 1)(W, dX),
    "in a nest": lambda: wb.grad(lambda p: loss(p["W"], X))({"W": W, "X": [dX]}),
    "the left of an operator": lambda: wb.grad(lambda W: np.sum(dX @ W))(W),
    "the right of an operator": lambda: wb.grad(lambda W: np.sum(W * dX))(W),
    "a ufunc": lambda: wb.grad(lambda W: np.sum(np.multiply(W, dX)))(W),
    "a function": lambda: wb.grad(lambda W: np.sum(np.dot(dX, W)))(W),
    "a function of lists": lambda: wb.grad(
        lambda W: np.sum(np.concatenate([W, dX[0]])))(W),
    "a list": lambda: wb.grad(lambda W: np.sum(W * [dX[0, 0], dX[0, 1]]))(W),
    "an index": lambda: wb.grad(lambda W: np.sum(W[dX[:, 0]]))(W),
    "an update": lambda: wb.grad(lambda W: np.sum(wb.at(W)[:].set(dX[0])))(W),
    "asarray": lambda: wb.grad(lambda W: np.sum(wnp.asarray(dX) @ W))(W),
    "a result": lambda: wb.jacobian(lambda W: dX)(W),
    "trace": lambda: wb.trace(loss)(W, dX),
    "compile": lambda: wb.compile(loss)(W, dX),
    "compiled gradient": lambda: wb.compile(wb.grad(loss))(W, dX),
    "compiled, read": lambda: wb.compile(lambda W: np.sum(dX @ W))(W),
    "vmap": lambda: wb.vmap(lambda x: np.sum(x * W))(dX),
    "vjp": lambda: wb.vjp(loss, W, dX),
    "jvp": lambda: wb.jvp(np.sum, (W,), (dX[0],)),
    "check_grads": lambda: wb.check_grads(loss, (W, dX)),
    "a session": lambda: wb.Session(wb.trace(loss)(W, X)).run(X=dX),
    "function": lambda: wb.function([w, m], np.sum(m @ w))(W, dX),
    "eval": lambda: np.sum(m @ w).eval({w: W, m: dX}),
    "an expression": lambda: dX @ w,
    "shared": lambda: wb.shared(dX),
    "set_value": lambda: wb.shared(X).set_value(dX),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_dask_array_is_refused_and_not_brought_here(way: str) -> None:
    before = Array.pulls
    with pytest.raises(
        TraceError, match=r"Dask array of shape \(.*compute\(\)"
    ) as told:
        WAYS[way]()
    assert Array.pulls == before
    text = str(told.value)
    assert "1.1 TB" in text
    assert "wd.value_and_grad(loss)(W, X), with X split by rows" in text
    assert "(at test_lazy_arrays.py:" in text


def test_what_is_not_lazy_is_an_array() -> None:
    """An xarray object has Dask's protocol whether its data are lazy or not."""
    found = wb.grad(lambda W: np.sum(Array(X, lazy=False) @ W))(W)
    np.testing.assert_array_equal(found, X.sum(0))


# In a file


class Stored:
    """What NumPy sees of a dataset of h5py."""

    reads = 0

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape, self.dtype, self.ndim = data.shape, data.dtype, data.ndim

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        Stored.reads += 1
        return self.data


@dataclass(frozen=True)
class StoredByFields(Stored):
    """One of zarr's, which is a dataclass, and no nest."""

    data: Any
    path: str = "/"
    shape: Any = X.shape
    dtype: Any = X.dtype
    ndim: int = 2


@pytest.mark.parametrize("stored", [Stored(X), StoredByFields(X)])
def test_an_array_in_a_file_is_read(stored: Any) -> None:
    before = Stored.reads
    g = wb.grad(lambda X: np.sum(np.sin(X) * X) + np.sum(np.cos(X)))(stored)
    np.testing.assert_allclose(g, np.cos(X) * X, atol=1e-15)
    assert Stored.reads == before + 1
    by_weights = 2 * X.T @ (X @ W)
    np.testing.assert_allclose(wb.grad(loss)(W, stored), by_weights)
    np.testing.assert_allclose(wb.grad(lambda W: loss(W, stored))(W), by_weights)
    np.testing.assert_allclose(wb.vmap(np.sum)(stored), X.sum(1))
    np.testing.assert_array_equal(wb.shared(stored).get_value(), X)
    session = wb.Session(wb.trace(loss)(W, np.ones((3, 2))))
    session.run(X=stored)
    np.testing.assert_allclose(session.grads["W"], by_weights)
    assert wb.function([w, m], np.sum(m @ w))(W, stored) == np.sum(X @ W)
