"""Axes out of range, in every function of NumPy that has an axis.

Each raises what NumPy raises, at the user's line: with values, and while tracing
without them.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from workbench.core.refusals import supported_functions

MATRIX = np.arange(1.0, 7.0).reshape(2, 3)

#: What stands between the array and the axis, where something must.
MORE: dict[str, tuple[Any, ...]] = {
    "np.append": (MATRIX,),
    "np.apply_along_axis": (),
    "np.compress": ([True, False],),
    "np.cross": (MATRIX,),
    "np.delete": (0,),
    "np.insert": (0, 1.0),
    "np.linalg.cross": (MATRIX,),
    "np.lib.stride_tricks.sliding_window_view": (1,),
    "np.linalg.vecdot": (MATRIX,),
    "np.nanpercentile": (50,),
    "np.nanquantile": (0.5,),
    "np.argpartition": (1,),
    "np.partition": (1,),
    "np.percentile": (50,),
    "np.quantile": (0.5,),
    "np.repeat": (2,),
    "np.roll": (1,),
    "np.split": (1,),
    "np.array_split": (1,),
    "np.take": (0,),
    "np.take_along_axis": (np.zeros((2, 3), int),),
}
#: Their array is not the first argument, or of bits, or they write in place.
ELSEWHERE = {"np.apply_along_axis", "np.put_along_axis", "np.linspace", "np.geomspace"}
ELSEWHERE |= {"np.logspace", "np.compress", "np.packbits", "np.unpackbits"}


def with_an_axis() -> list[str]:
    found = []
    for name, function in supported_functions().items():
        if not name.startswith("np.") or isinstance(function, np.ufunc):
            continue
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:
            continue
        if "axis" in parameters and name not in ELSEWHERE:
            found.append(name)
    return sorted(found)


def call(name: str, x: Any, axis: Any) -> Any:
    function = supported_functions()[name]
    first = [x, x] if name in ("np.concatenate", "np.stack") else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(first, *MORE.get(name, ()), axis=axis)


@parametrize_chunks(
    "name axis",
    {f"{n}-{axis}": (n, axis) for n in with_an_axis() for axis in (2, -3, 9, "a")},
)
def test_an_axis_that_is_not_there(name: str, axis: Any) -> None:
    kinds = np.exceptions.AxisError, IndexError, ValueError, TypeError
    try:
        call(name, MATRIX, axis)
    except kinds as error:
        kind = next(k for k in kinds if isinstance(error, k))
    else:
        pytest.skip("NumPy takes it")
    with pytest.raises(kind) as error:
        wb.grad(lambda x: np.sum(call(name, x, axis)))(np.copy(MATRIX))
    assert "test_bad_axes.py" in str(error.value)
    if axis != "a":
        assert str(axis).lstrip("-") in str(error.value)
    if name in ("np.trim_zeros", "np.unique"):
        return  # without values the shape of the result is not known
    with pytest.raises(kind):
        wb.trace(lambda x: call(name, x, axis))(wb.Spec((2, 3), np.dtype(float)))


def test_texts_and_none_among_the_operands() -> None:
    for f in (lambda x: np.dot(x, None), lambda x: np.kron(x, "z")):
        with pytest.raises(TypeError, match="not an array") as error:
            wb.grad(lambda x, f=f: np.sum(f(x)))(np.ones(3))
        assert "test_bad_axes.py" in str(error.value)


def test_a_list_with_a_dtype_and_a_traced_mask_is_refused_with_the_line() -> None:
    def f(x: Any) -> Any:
        return np.mean([1.0, 2.0], dtype=float, where=x > 0)

    with pytest.raises(TypeError, match="NumPy array or scalar") as error:
        wb.grad(f)(np.ones(2))
    assert "test_bad_axes.py" in str(error.value)


def test_the_shape_of_a_transform_may_be_an_array() -> None:
    with pytest.raises(ValueError, match=r"different lengths .*: \(.*2.*2.*\) and"):
        wb.grad(
            lambda x: np.sum(np.fft.fftn(x, s=np.array([2, 2]), axes=(0, 1, 2)).real)
        )(np.ones((2, 2, 2)))
