"""`workbench.scipy.fft`: all of SciPy's names, with its arguments and values."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.fft

import workbench as wb
from workbench.scipy import fft

#: What SciPy has besides: helpers without arrays to differentiate.
OTHER = {
    "fhtoffset",
    "get_workers",
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
@pytest.mark.parametrize(
    "name", [n for n in fft.__all__ if "freq" not in n and "fht" not in n]
)
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
        (lambda x: fft.fht(x + 1j, 0.3, 0.0), TypeError, r"fht \(.*takes real"),
        (lambda x: fft.hfft2(np.outer(x, x), axes=(0, -2)), ValueError, "repeated"),
        (lambda x: fft.fftn(np.outer(x, x), axes=(1, 1)), ValueError, "repeated"),
        (lambda x: fft.ihfftn(x, axes=()), ValueError, "needs an axis"),
        (
            lambda x: fft.ihfft2(np.outer(x, x), (2, 2, 2)),
            ValueError,
            r"ihfft2 \(.*has 3 lengths for 2 axes",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wb.grad(lambda x: np.sum(np.abs(call(x))))(np.ones(3))


HANKEL = np.exp(-(np.linspace(-2, 2, 6) ** 2))


@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_hankel_transforms_by_their_settings(name: str) -> None:
    point = (0.3, 1.2, 0.1, 0.4)  # the step, the order, the offset and the bias
    theirs = getattr(scipy.fft, name)

    def f(*settings: Any) -> Any:
        return getattr(fft, name)(HANKEL, *settings)

    np.testing.assert_allclose(f(*point), theirs(HANKEL, *point), rtol=1e-13)
    for i, (got, unit) in enumerate(
        zip(wb.jacobian(f, (0, 1, 2, 3))(*point), np.eye(4), strict=True)
    ):
        near, far = (
            (theirs(HANKEL, *(point + h * unit)) - theirs(HANKEL, *(point - h * unit)))
            / (2 * h)
            for h in (1e-4, 2e-4)
        )
        truth = (4 * near - far) / 3
        np.testing.assert_allclose(got, truth, rtol=1e-6, atol=1e-7, err_msg=str(i))
    with pytest.raises(
        wb.errors.UsageError, match=r"is singular with this bias\. Choose"
    ):
        getattr(fft, name)(HANKEL, 0.3, 0.0, 0.0, -1.0 if name == "fht" else 1.0)


@pytest.mark.parametrize(("name", "sign"), [("fht", 1), ("ifht", -1)])
def test_hankel_transforms_at_a_zero_of_the_factors(name: str, sign: int) -> None:
    """The constant part of the signal is lost, which is no singularity."""
    own, theirs = getattr(fft, name), getattr(scipy.fft, name)
    for order, bias in ((0.0, 1.0), (0.0, 3.0), (2.0, 5.0), (0.3, 1.3)):
        truth = theirs(HANKEL, 0.3, order, 0.1, sign * bias)
        tolerance = 1e-12 * np.max(np.abs(truth))
        value = own(HANKEL, 0.3, order, 0.1, sign * bias)
        np.testing.assert_allclose(value, truth, rtol=0, atol=tolerance)
    found = wb.jacobian(lambda b: own(HANKEL, 0.3, 0.0, 0.1, b))(1.0 * sign)
    near, far = (
        theirs(HANKEL, 0.3, 0.0, 0.1, sign + h)
        - theirs(HANKEL, 0.3, 0.0, 0.1, sign - h)
        for h in (1e-4, 2e-4)
    )
    np.testing.assert_allclose(found, (8 * near - far) / 12e-4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_hankel_transforms_of_other_dtypes(name: str) -> None:
    for dtype in (np.float16, np.float32, np.int64, bool):
        for bias in (0.0, 0.4):
            settings = HANKEL.astype(dtype), 0.3, 1.2, 0.1, bias
            value = getattr(fft, name)(*settings)
            truth = getattr(scipy.fft, name)(*settings)
            assert value.dtype == truth.dtype
            np.testing.assert_allclose(value, truth, rtol=2e-5)
    single = HANKEL.astype(np.float32)
    slope = wb.grad(lambda x: np.sum(getattr(fft, name)(x, 0.3, 1.2)))(single)
    assert slope.dtype == np.float32
