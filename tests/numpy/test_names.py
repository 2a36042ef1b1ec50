"""The namespace has every name of the standard, with the standard's signature."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.numpy import standard

MODULES: list[tuple[ModuleType, str]] = [
    (wnp, standard.MAIN),
    (wnp.linalg, standard.LINALG),
    (wnp.fft, standard.FFT),
]
ROWS = [
    pytest.param(module, name, parameters, id=f"{module.__name__}.{name}")
    for module, table in MODULES
    for name, parameters in standard.functions(table).items()
]


def parameters(text: str) -> list[inspect.Parameter]:
    """The parameters of a row of the table."""
    (made,) = ast.parse(f"def f({text}): pass").body
    assert isinstance(made, ast.FunctionDef)
    scope: dict[str, Any] = {}
    exec(f"def f({text}): pass", scope)
    return list(inspect.signature(scope["f"]).parameters.values())


def calls(rows: list[inspect.Parameter]) -> list[tuple[list[str], dict[str, str]]]:
    """Every way of calling that the standard allows, as positions and keywords."""
    first, either, named = [], [], []
    many = False
    for row in rows:
        if row.kind is row.POSITIONAL_ONLY:
            first.append(row)
        elif row.kind is row.POSITIONAL_OR_KEYWORD:
            either.append(row)
        elif row.kind is row.KEYWORD_ONLY:
            named.append(row)
        else:
            many = True
    needed = [row for row in first if row.default is row.empty]
    words = {row.name: row.name for row in named}
    required = {r.name: r.name for r in either if r.default is r.empty}
    found = [
        ([r.name for r in needed], required),
        ([r.name for r in (*first, *either)], words),
        ([r.name for r in first], {r.name: r.name for r in either} | words),
    ]
    return [(["x", "y", "z"], words)] if many else found


@pytest.mark.parametrize(("module", "name", "text"), ROWS)
def test_every_function_takes_what_the_standard_says(
    module: ModuleType, name: str, text: str
) -> None:
    function = getattr(module, name)
    assert name in module.__all__
    signature = inspect.signature(function)
    for positions, keywords in calls(parameters(text)):
        signature.bind(*positions, **keywords)


@pytest.mark.parametrize("name", [*standard.CONSTANTS, *standard.DTYPES])
def test_constants_and_dtypes(name: str) -> None:
    value = getattr(wnp, name)
    assert name in wnp.__all__
    if name in standard.DTYPES:
        assert value == np.dtype(name)
        assert wnp.zeros(1, dtype=value).dtype == value
    elif name == "newaxis":
        assert value is None
    else:
        assert type(value) is float


def test_a_signature_that_differs_is_found() -> None:
    """The comparison sees NumPy's own deviations."""
    texts = standard.functions(standard.MAIN)
    for name in ("argsort", "sort"):
        _, (positions, keywords), _ = calls(parameters(texts[name]))
        signature = inspect.signature(getattr(np, name))
        with pytest.raises(TypeError, match="descending"):
            signature.bind(*positions, **keywords)


def test_all_is_complete() -> None:
    for module in (wnp, wnp.linalg, wnp.fft):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name)
            assert name in dir(module)


def test_the_rest_is_numpys() -> None:
    """Every public name of NumPy is there; unknown ones are errors with both names."""
    for theirs, ours in (
        (np, wnp),
        (np.linalg, wnp.linalg),
        (np.fft, wnp.fft),
    ):
        missing = [name for name in theirs.__all__ if not hasattr(ours, name)]
        assert missing == []
        with pytest.raises(AttributeError, match=r"neither workbench\.numpy"):
            ours.no_such_name  # noqa: B018
    assert wnp.einsum is np.einsum
    assert wnp.linalg.norm is np.linalg.norm


def test_the_version() -> None:
    assert wnp.__array_api_version__ == "2024.12"
    assert wb.numpy is wnp


# What the namespace says of itself


def test_no_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    runtime = SimpleNamespace(getDeviceCount=refuse)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert wnp.__array_namespace_info__().devices() == ["cpu"]


def test_info() -> None:
    info = wnp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() == "cpu"
    assert "cpu" in info.devices()
    kinds = info.default_dtypes(device="cpu")
    assert set(kinds) == {
        "real floating",
        "complex floating",
        "integral",
        "indexing",
    }
    assert wnp.zeros(1).dtype == kinds["real floating"]
    assert wnp.asarray([1]).dtype == kinds["integral"]
    assert wnp.asarray([1j]).dtype == kinds["complex floating"]
    assert wnp.argmax(wnp.ones(2)).dtype == kinds["indexing"]
    assert set(info.dtypes()) == set(standard.DTYPES)
    assert set(info.dtypes(kind="integral")) == {
        name for name in standard.DTYPES if "int" in name
    }
    assert list(info.dtypes(kind=("bool", "complex floating"))) == [
        "bool",
        "complex64",
        "complex128",
    ]
    for name, dtype in info.dtypes().items():
        assert dtype == getattr(wnp, name)
    with pytest.raises(ValueError, match="'text' is not a kind of dtype"):
        info.dtypes(kind="text")
    with pytest.raises(ValueError, match="'mars' is not a device"):
        info.dtypes(device="mars")


def test_limits() -> None:
    for kind in (np.float32, np.float64, np.complex64, np.complex128):
        found, truth = wnp.finfo(kind), np.finfo(kind)
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            value = getattr(found, name)
            assert type(value) is (int if name == "bits" else float)
            assert value == getattr(truth, name)
        assert found.dtype == truth.dtype
        assert found.tiny == truth.tiny
        assert wnp.finfo(np.zeros(2, kind)).eps == found.eps
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64):
        limits = wnp.iinfo(kind)
        assert type(limits.max) is int
        assert (limits.bits, limits.max, limits.min, limits.dtype) == (
            np.iinfo(kind).bits,
            np.iinfo(kind).max,
            np.iinfo(kind).min,
            np.dtype(kind),
        )
        assert wnp.iinfo(np.zeros(2, kind)).max == limits.max
    with pytest.raises(ValueError, match="not inexact"):
        wnp.finfo(np.int32)


def test_dtypes_combine() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(wnp.result_type(x, 1.0))
        seen.append(wnp.result_type(x, wnp.float64))
        seen.append(wnp.can_cast(x, wnp.float64))
        seen.append(wnp.can_cast(x, wnp.int32))
        seen.append(wnp.finfo(x).bits)
        seen.append(wnp.isdtype(x.dtype, ("real floating", "bool")))
        return x

    wb.trace(f)(np.ones(2, np.float32))
    assert seen == [np.float32, np.float64, True, False, 32, True]
    assert wnp.can_cast(np.zeros(2, np.int8), wnp.int16)
    assert not wnp.can_cast(wnp.int64, wnp.int32)
    assert wnp.isdtype(np.dtype("complex64"), "numeric")
    assert not wnp.isdtype(np.dtype("bool"), "integral")
