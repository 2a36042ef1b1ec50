"""`workbench.scipy.fft`: all of SciPy's names, with its arguments and values."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.fft

import workbench as wb
from workbench.scipy import fft

#: What SciPy has besides: helpers without arrays to differentiate, and the logarithmic
#: Hankel transform.
OTHER = {
    "fht",
    "fhtoffset",
    "get_workers",
    "hfft2",
    "hfftn",
    "ifht",
    "ihfft2",
    "ihfftn",
    "next_fast_len",
    "prev_fast_len",
    "register_backend",
    "set_backend",
    "set_global_backend",
    "set_workers",
    "skip_backend",
}


def test_every_name_is_there_or_said_to_be_missing() -> None:
    assert set(fft.__all__) == set(scipy.fft.__all__) - OTHER


@pytest.mark.parametrize("name", fft.__all__)
def test_arguments_are_those_of_scipy(name: str) -> None:
    if name.startswith(("fftfreq", "rfftfreq")):
        pytest.skip("NumPy's own")
    own = inspect.signature(getattr(fft, name)).parameters
    theirs = inspect.signature(getattr(scipy.fft, name)).parameters
    assert [(p.name, p.default) for p in own.values()] == [
        (p.name, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
@pytest.mark.parametrize("name", [n for n in fft.__all__ if "freq" not in n])
def test_values_and_dtypes_are_those_of_scipy(
    name: str, dtype: Any, rng: np.random.Generator
) -> None:
    x = (4 * rng.normal(size=(3, 4))).astype(dtype)
    truth = getattr(scipy.fft, name)(x)
    value = getattr(fft, name)(x)
    assert value.dtype == truth.dtype
    tolerance = 1e-13 if truth.dtype.itemsize > 8 or truth.dtype == float else 1e-5
    np.testing.assert_allclose(value, truth, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: fft.dct(x, type=5), ValueError, "types are 1, 2, 3 and 4"),
        (lambda x: fft.dct(x, norm="both"), ValueError, "norm value 'both'"),
        (lambda x: fft.dct(x, axis=2), np.exceptions.AxisError, "axis 2"),
        (lambda x: fft.dctn(x, s=(2, 2), axes=0), ValueError, "same"),
        (lambda x: fft.rfft(x * 1j), TypeError, "complex"),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wb.grad(lambda x: np.sum(np.abs(call(x))))(np.ones(3))
