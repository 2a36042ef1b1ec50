"""What the standard asks of arrays, asked of Tensors: in and outside of traces."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.numpy import standard
from workbench.core.tensor import MaskedTensor, Tensor
from workbench.errors import GradientLostError, TraceError


def kept(value: Any) -> Any:
    """A Tensor whose trace has ended."""
    return wb.trace(np.positive)(value).outputs[0]


def constant(value: Any) -> Any:
    """A Tensor without a gradient, of any dtype."""
    found: list[Any] = []
    wb.trace(lambda x: found.append(wnp.asarray(value)))(1.0)
    return found[0]


def test_every_attribute_and_method_is_there() -> None:
    x = kept(np.ones((2, 2)))
    for name in standard.ATTRIBUTES:
        assert getattr(x, name) is not None
    for name in standard.METHODS:
        assert callable(getattr(Tensor, name)), name
        assert callable(getattr(MaskedTensor, name)), name
    assert isinstance(hash(x), int)


# The namespace and the place


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12"])
def test_the_namespace(version: str | None) -> None:
    assert kept(1.0).__array_namespace__(api_version=version) is wnp


def test_an_unknown_version() -> None:
    with pytest.raises(ValueError, match=r"'2034\.12'.* It follows .*2024\.12"):
        kept(1.0).__array_namespace__(api_version="2034.12")


def test_the_device() -> None:
    for x in (kept(np.ones(2)), kept(2.0), constant([1, 2])):
        assert x.device == "cpu"
        assert x.to_device("cpu") is x
        with pytest.raises(ValueError, match="lies on 'cpu', not on 'gpu'"):
            x.to_device("gpu")
        with pytest.raises(ValueError, match="streams"):
            x.to_device("cpu", stream=1)
    symbol = wb.trace(np.sin)(wb.Spec((2,), float)).outputs[0]
    assert symbol.device == "cpu"


def test_dlpack() -> None:
    data = np.arange(3.0)
    x = kept(data)
    assert x.__dlpack_device__() == data.__dlpack_device__()
    got = np.from_dlpack(x)
    np.testing.assert_array_equal(got, data)
    # A Tensor never changes, so what is handed out is a copy, or read-only.
    assert not np.shares_memory(got, x.value)
    shared = np.from_dlpack(x, copy=False)
    assert np.shares_memory(shared, x.value)
    assert not shared.flags.writeable
    assert np.from_dlpack(kept(np.float32(2))).dtype == np.float32
    assert np.from_dlpack(kept(2.0)) == 2.0
    assert np.from_dlpack(constant([True])).dtype == bool


def test_dlpack_inside_a_trace_would_lose_the_gradient() -> None:
    with pytest.raises(GradientLostError, match=r"x\.__dlpack__\(\).*x\.value"):
        wb.grad(lambda x: np.sum(np.from_dlpack(x)))(np.ones(2))
    # Integers have none.
    wb.grad(lambda x: np.sum(x[np.from_dlpack(np.argsort(x))]))(np.ones(2))


def test_libraries_recognise_it() -> None:
    """The checks of array-api-compat, of which SciPy has a copy."""
    from scipy._lib import array_api_compat as compat

    x = constant([[1.0, 2.0]])
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, 2.0, None, x) is wnp
    assert compat.device(x) == "cpu"
    assert compat.to_device(x, "cpu") is x
    assert compat.size(x) == 2
    assert not compat.is_numpy_array(x)


# Conversions: free outside a trace, refused inside where a gradient would be lost


FLOAT = {
    "float": float,
    "complex": complex,
    "int": int,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
}


@pytest.mark.parametrize("name", FLOAT)
def test_conversions_of_floats(name: str) -> None:
    convert: Callable[[Any], Any] = FLOAT[name]
    for value in (2.5, np.float64(2.5), np.array(2.5)):
        found = convert(kept(value))
        assert found == (2 if name == "int" else 2.5)
        assert type(found) in (int, float, complex)
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(convert(wnp.asarray(2.5)))  # not of this trace's leaf
        with pytest.raises(GradientLostError, match=r"would lose.*x\.value"):
            convert(x)
        assert bool(x > 1)
        return x * x

    assert wb.grad(f)(2.5) == 5.0
    assert seen[0] == convert(np.array(2.5))


def test_conversions_of_integers() -> None:
    def f(x: Any) -> Any:
        i = np.argmax(x)  # depends on x, and has no gradient
        assert operator.index(i) == int(i) == i.item() == 1
        assert [10, 20][i] == 20
        assert range(3)[i] == 1
        assert wnp.nonzero(x)[0].tolist() == [0, 1]
        return x[i]

    np.testing.assert_array_equal(wb.grad(f)(np.array([1.0, 2.0])), [0.0, 1.0])


def test_conversions_of_many_entries() -> None:
    x = kept(np.arange(4.0).reshape(2, 2))
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.item(3) == x.item(1, 1) == 3.0
    for convert in (bool, float, operator.methodcaller("item")):
        with pytest.raises((ValueError, TypeError), match=r"ambiguous|size 1|scalar"):
            convert(x)
    with pytest.raises(TypeError, match="integer"):
        operator.index(kept(1.0))


def test_conversions_without_values() -> None:
    x = wb.trace(np.sin)(wb.Spec((), float)).outputs[0]
    for convert in (*FLOAT.values(), np.from_dlpack):
        with pytest.raises(GradientLostError, match="has no value"):
            convert(x)
    with pytest.raises(TraceError, match=r"np\.where"):
        bool(x > 0)


# Operators


BINARY = {
    "f": "add sub mul truediv floordiv mod pow lt le gt ge eq ne matmul",
    "i": "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt eq matmul",
    "b": "and_ or_ xor eq ne",
}
ARRAYS: dict[str, Any] = {
    "f": np.array([1.5, 2.5]),
    "i": np.array([5, 6]),
    "b": np.array([True, False]),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(k, n) for k, names in BINARY.items() for n in names.split()]
)
def test_operators(kind: str, name: str) -> None:
    function = getattr(operator, name)
    data = ARRAYS[kind]
    other = data[::-1].copy()
    scalar = data[1].item()
    x = constant(data)
    pairs = [(x, constant(other), data, other), (x, other, data, other)]
    pairs += [(other, x, other, data)]
    if name != "matmul":
        pairs += [(x, scalar, data, scalar), (scalar, x, scalar, data)]
    for a, b, plain_a, plain_b in pairs:
        got, truth = function(a, b), function(plain_a, plain_b)
        assert isinstance(got, Tensor)
        assert got.dtype == truth.dtype
        np.testing.assert_array_equal(got.value, truth)


@pytest.mark.parametrize("name", BINARY["f"].split()[:7] + ["matmul"])
def test_operators_in_place_bind_a_new_value(name: str) -> None:
    """``x += y`` makes another Tensor; what held the old one keeps it."""
    function = getattr(operator, f"i{name}")
    x = y = constant(np.eye(2) + 1)
    x = function(x, np.full((2, 2), 2.0))
    assert x is not y
    truth = getattr(operator, name)(np.eye(2) + 1, np.full((2, 2), 2.0))
    np.testing.assert_array_equal(x.value, truth)
    np.testing.assert_array_equal(y.value, np.eye(2) + 1)


def test_unary_operators() -> None:
    for kind, names in {"f": "neg pos abs", "i": "neg invert abs", "b": "inv"}.items():
        for name in names.split():
            function = getattr(operator, name)
            got = function(constant(ARRAYS[kind]))
            np.testing.assert_array_equal(got.value, function(ARRAYS[kind]))


class Reflecting:
    """It knows how to combine with anything."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "added"

    def __rmatmul__(self, other: Any) -> str:
        return "multiplied"

    def __gt__(self, other: Any) -> str:
        return "compared"


def test_other_types() -> None:
    x = constant([1.0, 2.0])
    for other in ("text", None):
        assert (x == other) is False
        assert (x != other) is True
        with pytest.raises(TypeError, match=r"not supported|unsupported"):
            x < other  # noqa: B015
        for name in ("add", "matmul", "pow"):
            with pytest.raises(TypeError, match="unsupported"):
                getattr(operator, name)(x, other)
    for name in ("__add__", "__radd__", "__eq__", "__lt__", "__matmul__"):
        assert getattr(x, name)("text") is NotImplemented
    assert x + Reflecting() == "added"
    assert x @ Reflecting() == "multiplied"
    assert (x < Reflecting()) == "compared"


def test_matrices() -> None:
    data = np.arange(6.0).reshape(1, 2, 3)
    x = constant(data)
    assert (x.ndim, x.size, x.shape, x.itemsize) == (3, 6, (1, 2, 3), 8)
    np.testing.assert_array_equal(x.mT.value, data.mT)
    np.testing.assert_array_equal(x[0].T.value, data[0].T)
    assert x.astype(wnp.float32).dtype == np.float32
    with pytest.raises(ValueError, match=r"mT|axis|dimensions"):
        x[0, 0].mT  # noqa: B018
