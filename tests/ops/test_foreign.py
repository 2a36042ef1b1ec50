"""Arrays of another library flow through: compute follows data.

`Foreign` behaves as CuPy's arrays do: it answers NumPy's protocols, refuses to
become a NumPy array and refuses to meet one. Whatever sample runs on it plainly
must run on it traced, and give back its like.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

import workbench as wb
from tests.ops.samples import SAMPLES, Sample


class Foreign(NDArrayOperatorsMixin):
    """An array of another library, here around one of NumPy."""

    __array_priority__ = 100
    __cuda_array_interface__ = None

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        if method != "__call__" or not all(map(meets, inputs)):
            return NotImplemented
        return foreign(getattr(ufunc, method)(*map(plain, inputs), **plain(kw)))

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(t, (Foreign, np.ndarray)) for t in types):
            return NotImplemented
        if f in (np.result_type, np.shape, np.ndim, np.size, np.iscomplexobj):
            return f(*plain(args), **plain(kwargs))
        if f not in TAKES_INDICES:
            refuse((args, list(kwargs.values())))
        return foreign(f(*plain(args), **plain(kwargs)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.data, name)
        if name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
            return found
        if callable(found):

            def method(*args: Any, **kwargs: Any) -> Any:
                if name not in ("take", "compress"):
                    refuse((args, list(kwargs.values())))
                return foreign(found(*plain(args), **plain(kwargs)))

            return method
        return foreign(found)

    def __getitem__(self, index: Any) -> Foreign:
        return Foreign(self.data[plain(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        refuse((value,))
        self.data[plain(index)] = plain(value)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return self.data.__index__()


def library() -> ModuleType:
    """What CuPy's own module has beside NumPy's protocols: `add.at` and the like."""

    def at(ufunc: np.ufunc) -> Any:
        def change(x: Foreign, index: Any, values: Any) -> None:
            refuse((values,))
            ufunc.at(x.data, plain(index), plain(values))

        return SimpleNamespace(at=change)

    made = ModuleType("foreign_arrays")
    for ufunc in (np.add, np.maximum, np.minimum):
        setattr(made, ufunc.__name__, at(ufunc))
    return made


Foreign.__module__ = "foreign_arrays"
sys.modules["foreign_arrays"] = library()

#: CuPy takes indices from the host in these.
TAKES_INDICES = {np.take, np.compress, np.tensordot, np.repeat}


def meets(x: Any) -> bool:
    """Whether a foreign array computes with ``x``: its like, or a number."""
    return isinstance(x, (Foreign, int, float, complex, np.generic)) or (
        isinstance(x, np.ndarray) and x.ndim == 0
    )


def refuse(args: Any) -> None:
    for x in args:
        if isinstance(x, np.ndarray) and x.ndim:
            raise TypeError("a NumPy array meets a foreign one")
        if isinstance(x, (list, tuple)):
            refuse(x)


def plain(x: Any) -> Any:
    if isinstance(x, Foreign):
        return x.data
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(plain, x))
    return x


def foreign(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return Foreign(x)
    if isinstance(x, (list, tuple)):
        return list(map(foreign, x)) if type(x) is list else tuple(map(foreign, x))
    return x


def runs_plainly(sample: Sample, args: list[Any]) -> bool:
    try:
        return isinstance(sample.f(*args), Foreign)
    except (TypeError, ValueError, AttributeError):
        return False


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_foreign_arrays(sample: Sample, rng: np.random.Generator) -> None:
    if "f" not in sample.kinds:
        pytest.skip("of complex arrays")
    data = [np.asarray(a, float) for a in sample.arguments(rng)]
    args = [Foreign(a) for a in data]
    if not runs_plainly(sample, args):
        pytest.skip("holds NumPy arrays of its own")
    expected = np.asarray(sample.f(*data))
    y, pullback = wb.vjp(sample.f, *args)
    assert isinstance(y, Foreign)
    np.testing.assert_allclose(y.data, expected, rtol=1e-12, atol=1e-12)
    gradients = pullback(Foreign(np.ones_like(expected)))
    truth = wb.vjp(sample.f, *data)[1](np.ones_like(expected))
    for g, t in zip(gradients, truth, strict=True):
        assert isinstance(g, Foreign)
        np.testing.assert_allclose(g.data, t, rtol=1e-12, atol=1e-12)
    _, tangent = wb.jvp(sample.f, tuple(args), tuple(args))
    assert isinstance(tangent, Foreign)


def test_most_samples_are_tried(rng: np.random.Generator) -> None:
    tried = [
        runs_plainly(s, [Foreign(np.asarray(a, float)) for a in s.arguments(rng)])
        for s in SAMPLES
    ]
    assert sum(tried) > 0.7 * len(SAMPLES)
