"""The namespace on arrays of another library, as CuPy's: nothing comes to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.gpu.stand_in import Foreign, inner
from workbench.core.tensor import Tensor

pytestmark = pytest.mark.usefixtures("stand_in")

X = np.array([[2.0, 0.5, 3.0], [0.25, 7.0, 0.0]])

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda x: wnp.asarray(x, copy=True) * x,
    "asarray of a nest": lambda x: wnp.asarray([x[0], x[1] * 2]),
    "astype": lambda x: wnp.astype(x, wnp.float32),
    "clip": lambda x: wnp.clip(x, 0.3, max=5.0),
    "descending": lambda x: wnp.sort(x, axis=0, descending=True),
    "full": lambda x: wnp.full((2,), x[0, 0]),
    "full_like": lambda x: wnp.full_like(x, 2.0) * x,
    "linspace": lambda x: wnp.linspace(x[0, 0], x[0, 1], 5),
    "ones_like": lambda x: wnp.ones_like(x) + x,
    "take": lambda x: wnp.take(x, wnp.argsort(x[0]), axis=1),
    "unique": lambda x: wnp.unique_values(x) * 2,
    "zeros_like": lambda x: wnp.zeros_like(x) * x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str, rng: np.random.Generator) -> None:
    f = PROGRAMS[name]
    truth, back = wb.vjp(f, X)
    made, pullback = wb.vjp(f, Foreign(X))
    np.testing.assert_array_equal(inner(made), truth)
    assert inner(made).dtype == truth.dtype
    seed = rng.standard_normal(truth.shape).astype(truth.dtype)
    np.testing.assert_allclose(
        inner(pullback(Foreign(seed))[0]), back(seed)[0], rtol=1e-12
    )


PLAIN: dict[str, Callable[[Any], Any]] = {
    "argsort": lambda x: wnp.argsort(x, descending=True),
    "asarray": lambda x: wnp.asarray(x),
    "astype": lambda x: wnp.astype(x, wnp.int32),
    "clip": lambda x: wnp.clip(x, 1.0),
    "empty_like": lambda x: wnp.empty_like(x) * 0 == 1,
    "unique_all": lambda x: tuple(wnp.unique_all(x)),
    "nonzero": wnp.nonzero,
    "zeros_like": wnp.zeros_like,
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", PLAIN)
def test_plain_arrays(name: str) -> None:
    f = PLAIN[name]
    truth, made = f(X), inner(f(Foreign(X)))
    for a, b in zip(made, truth, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constants_of_a_trace_stay_where_they_are() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(wnp.asarray(Foreign(X)))
        return np.sum(kept[0] * x)

    gradient = wb.grad(f)(Foreign(X))
    np.testing.assert_array_equal(inner(gradient), X)
    assert isinstance(kept[0], Tensor)
    assert type(kept[0].value) is Foreign
