"""Functions of symbols on a GPU: arrays stay where they are.

Skipped, with the reason, where there is no CuPy or no device.
"""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.gpu.device import cupy, needed
from workbench.errors import DtypeError, ShapeError

pytestmark = needed()


def test_shared_values_and_updates_stay_on_the_device() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(20, 3)), rng.normal(size=20)
    w = wb.shared(cupy.zeros(3), "w")
    X, y = wb.matrix("X"), wb.vector("y")
    loss = np.mean((X @ w - y) ** 2)
    step = wb.function([X, y], loss, updates={w: w - 0.2 * wb.grad(loss, w)})
    data = cupy.asarray(A), cupy.asarray(b)
    for _ in range(300):
        assert isinstance(step(*data), cupy.ndarray)
    assert isinstance(w.get_value(), cupy.ndarray)
    expected = np.linalg.lstsq(A, b)[0]
    np.testing.assert_allclose(cupy.asnumpy(w.get_value()), expected, atol=1e-8)


def test_what_is_returned_is_the_callers_own() -> None:
    w = wb.shared(cupy.ones(3), "w")
    v = wb.vector("v")
    f = wb.function([v], [v, v[1:], w, w[:2], np.sin(v)])
    given = cupy.zeros(3)
    for made in f(given):
        assert isinstance(made, cupy.ndarray)
        made += 5
    np.testing.assert_array_equal(cupy.asnumpy(given), 0)
    np.testing.assert_array_equal(cupy.asnumpy(w.get_value()), 1)


def test_dtypes_and_lengths_are_checked_without_a_copy_to_the_host() -> None:
    v = wb.vector("v", dtype="float32", shape=3)
    f = wb.function([v], v * 2)
    assert f(cupy.ones(3, "int8")).dtype == np.float32
    with pytest.raises(DtypeError, match="'v'"):
        f(cupy.ones(3))
    with pytest.raises(ShapeError, match="'v'"):
        f(cupy.ones(4, "float32"))
