"""The functions of `scipy.special` that CuPy lacks, on a device, against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.gpu.device import cupy, needed
from tests.ops.special.arguments import arguments_of, device_tolerance_of, differences
from tests.ops.special.host import function_of
from workbench.ops.special.device import ROWS, DeviceFunction

pytestmark = needed()


@pytest.mark.parametrize("name", ROWS)
def test_a_function_agrees_with_scipy(name: str) -> None:
    function = function_of(name)
    ufunc = function.ufunc
    for types in function.loops:
        args = arguments_of(name, types)
        with np.errstate(all="ignore"):
            truth = ufunc(*args)
        found = function(*map(cupy.asarray, args))
        worst = differences(ufunc, [cupy.asnumpy(y) for y in _several(found)], truth)
        assert worst < device_tolerance_of(name), types


def test_single_precision_is_kept() -> None:
    x = cupy.linspace(0.5, 3, 7, dtype=np.float32)
    found = DeviceFunction("jv", special.jv)(2, x)
    assert found.dtype == np.float32
    truth = special.jv(2, x.get())
    np.testing.assert_allclose(found.get(), truth, rtol=1e-6)


def _several(y: Any) -> Any:
    return y if isinstance(y, tuple) else (y,)
