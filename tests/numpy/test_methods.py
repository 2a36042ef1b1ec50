"""Every method and attribute of `numpy.ndarray` is there on a Tensor, or says why not.

NumPy tells the signatures; each parameter is given by place and by keyword.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import FUNCTIONS, load_all_ops
from workbench.core.refusals import name_of, supported_functions
from workbench.errors import DtypeError, TraceError, WorkbenchError

A = np.array([[1.5, -2.0, 3.0], [0.25, 4.0, -1.0]])
I = np.array([[0, 1, 2], [1, 0, 1]])  # noqa: E741

#: What each parameter is given, wherever it occurs; None is its default alone.
GIVEN: dict[str, list[Any]] = {
    "align": [None], "axis": [0, -1], "axis1": [0], "axis2": [1],
    "casting": ["same_kind", "unsafe"], "choices": [[A, -A, 2 * A]],
    "condition": [[True, False]], "copy": [True, None], "correction": [1],
    "ddof": [1], "decimals": [1], "device": ["cpu"], "dtype": [np.float32],
    "fid": ["never"], "file": ["never"], "format": ["%s"], "indices": [[0, 1]],
    "initial": [0.5], "inplace": [False], "keepdims": [True], "kind": ["introselect"],
    "kth": [1], "max": [2.0], "mean": [np.mean(A)], "min": [0.0],
    "mode": ["wrap", "clip"], "offset": [1], "order": ["C", None], "other": [A.T],
    "out": [None], "refcheck": [True], "repeats": [2], "sep": [" "], "side": ["right"],
    "sorter": [None], "stable": [True], "stream": [None], "subok": [False],
    "uic": [None], "v": [2.0], "val": [1.0], "value": [0.0], "values": [1.0],
    "where": [A > 0], "write": [None],
}  # fmt: skip

#: What NumPy hides behind ``*args`` and ``**kwargs``.
HIDDEN: dict[str, list[str]] = {
    **{n: ["initial", "keepdims", "where"] for n in ("max", "min", "prod", "sum")},
    "clip": ["casting", "dtype", "order", "subok"],
    "mean": ["keepdims", "where"],
    **{n: ["keepdims", "where", "mean"] for n in ("std", "var")},
}
OWN: dict[tuple[str, str], list[Any]] = {
    ("argsort", "kind"): ["stable"], ("argsort", "order"): [None],
    ("argpartition", "order"): [None], ("max", "where"): [True],
    ("min", "where"): [True], ("squeeze", "axis"): [0], ("take", "mode"): ["clip"],
}  # fmt: skip
#: What the methods are called on, where a matrix does not do.
ON = {"choose": I, "searchsorted": np.sort(A[0]), "squeeze": A[None]}
EXTRA: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "clip": [((0.0,), {"max": 2.0}), ((), {"min": 0.0, "max": 2.0}), ((0, 1), {})],
    "item": [((1,), {}), ((0, 1), {})],
    "reshape": [((3, 2), {}), ((-1,), {"copy": True}), (((3, 2),), {"order": "F"})],
    "diagonal": [((0, 1, 0), {})], "trace": [((1,), {"axis1": 1, "axis2": 0})],
    "max": [((), {"initial": 0.5, "where": A > 0})],
    "min": [((), {"initial": 0.5, "where": A > 0})],
    "transpose": [((1, 0), {}), (((1, 0),), {}), ((None,), {})],
    "view": [((A.dtype,), {}), ((np.ndarray,), {}), ((), {"dtype": float}),
             ((), {"type": np.ndarray})],
}  # fmt: skip

METHODS = [
    name for name in dir(np.ndarray)
    if not name.startswith("__") and callable(getattr(np.ndarray, name))
]  # fmt: skip
#: What reads the plain array, or changes it.
READING = {"item", "tolist"}
ABSENT = {"byteswap", "dump", "dumps", "getfield", "setfield", "setflags", "tobytes",
          "tofile"}  # fmt: skip
WRITING = {"fill", "partition", "put", "resize", "sort"}


def list_calls(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each way to call a method: every parameter by keyword, and all by place."""
    rows = [*inspect.signature(getattr(np.ndarray, name)).parameters.values()][1:]
    rows = [r for r in rows if r.kind not in (r.VAR_POSITIONAL, r.VAR_KEYWORD)]
    needed = [r for r in rows if r.default is r.empty]
    first = tuple(GIVEN[r.name][0] for r in needed)
    if name not in ("reshape", "resize"):
        yield first, {}
    if (
        name != "choose"
        and needed
        and needed[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ):
        yield (), {r.name: x for r, x in zip(needed, first, strict=True)}
    if name in ("reshape", "resize"):
        first = ((3, 2),)
    rest = [r for r in rows if r.default is not r.empty]
    for key in [*(r.name for r in rest), *HIDDEN.get(name, [])]:
        for x in OWN.get((name, key), GIVEN[key]):
            yield first, {key: x}
    places = [r.default for r in rest if r.kind is not r.KEYWORD_ONLY]
    if places and name not in ("all", "any"):  # NumPy's own defaults fail there
        yield first + tuple(places), {}
    yield from EXTRA.get(name, [])


def call_traced(name: str, x: Any, args: Any, settings: Any) -> Any:
    found: list[Any] = []
    wb.trace(lambda x: found.append(getattr(x, name)(*args, **settings)))(x)
    return found[0]


needs_signatures = pytest.mark.skipif(
    "dtype" not in str(inspect.signature(np.ndarray.astype)),
    reason="this NumPy does not tell the signatures of its methods",
) if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else pytest.mark.skip(
    reason="before 2.4 NumPy does not tell the signatures of its methods"
)  # fmt: skip


@needs_signatures
@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_what_numpys_does(name: str) -> None:
    data = ON.get(name, A)
    for args, settings in list_calls(name):
        if name in ABSENT:
            with pytest.raises(AttributeError, match=f"{name}'.*: .*Write "):
                call_traced(name, A, args, settings)
            continue
        if name in READING:
            with pytest.raises(TraceError, match="gradient"):
                call_traced(name, A, args, settings)
            continue
        changed = data.copy()
        with np.errstate(all="ignore"):
            try:
                want = getattr(changed, name)(*args, **settings)
            except (TypeError, ValueError):
                assert name in WRITING  # whose signature takes what they refuse
                continue
        if name in WRITING:
            write = lambda x, args=args, settings=settings: (  # noqa: E731
                getattr(y := x.copy(), name)(*args, **settings),
                y,
            )
            made = wb.trace(write)(data).outputs[-1]
            np.testing.assert_array_equal(made.value, changed)
            continue
        found = call_traced(name, data, args, settings)
        several = isinstance(want, tuple)
        pairs = zip(want, found, strict=True) if several else [(want, found)]
        for w, y in pairs:
            value = getattr(y, "value", y)
            np.testing.assert_array_equal(value, w, err_msg=f"{name}{args}{settings}")
            assert np.asarray(value).dtype == np.asarray(w).dtype


@pytest.mark.parametrize(
    "name",
    [
        name for name in dir(np.ndarray)
        if not name.startswith("__") and not callable(getattr(np.ndarray, name))
    ],
)  # fmt: skip
def test_every_attribute_is_there_or_says_why_not(name: str) -> None:
    found: list[Any] = []

    def read(x: Any) -> None:
        found.append(getattr(x, name))

    if name == "data" and "workbench.compat.theano" in sys.modules:
        return  # of Theano's variables it is the value
    if name in ("base", "ctypes", "data", "flags", "strides"):
        with pytest.raises(AttributeError, match=rf"memory.*x\.value\.{name}"):
            wb.trace(read)(A)
        return
    wb.trace(read)(A)
    want = getattr(A, name)
    want = want[:] if name == "flat" else want
    np.testing.assert_array_equal(getattr(found[0], "value", found[0]), want)


@pytest.mark.parametrize("size", [6, 20_000])  # of a large value the class is another
@pytest.mark.parametrize("name", ["dtype", "shape"])
def test_an_attribute_is_not_assigned(name: str, size: int) -> None:
    def assign(x: Any) -> Any:
        y = np.exp(x)
        setattr(y, name, getattr(y, name))
        return np.sum(y)

    with pytest.raises(TraceError, match=rf"x\.{name} = .*keeps its.* Write x = "):
        wb.grad(assign)(np.ones(size))


@pytest.mark.parametrize("size", [6, 20_000])
def test_an_attribute_that_writes(size: int) -> None:
    def assign(x: Any) -> Any:
        y = np.exp(x) * (1 + 1j)
        y.imag = x * x
        y.real = np.sin(x)
        z = x * 1.0
        z.flat = x[::-1]
        return np.sum(np.abs(y) ** 2 * z)

    x = np.linspace(0.5, 1, size)
    slopes = (4 * x**3 + 2 * np.sin(x) * np.cos(x)) * x[::-1]
    slopes += (x**4 + np.sin(x) ** 2)[::-1]
    np.testing.assert_allclose(wb.grad(assign)(x), slopes, rtol=1e-12)


# astype and view


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": np.float32},
        {"dtype": "f4", "casting": "same_kind", "order": "C"},
        {"dtype": np.float32, "subok": False, "copy": False},
    ],
)
def test_astype_by_keyword(settings: dict[str, Any]) -> None:
    def f(x: Any) -> Any:
        y = x.astype(**settings)
        assert y.dtype == np.float32
        return np.sum(y * y)

    x = np.array([1.5, -2.0])
    for ask in (wb.grad(f), wb.compile(wb.grad(f))):
        g = ask(x)
        assert g.dtype == np.float64
        np.testing.assert_allclose(g, 2 * x)


def test_astype_refuses_what_numpy_refuses() -> None:
    def cast(**settings: Any) -> Any:
        return wb.grad(lambda x: np.sum(x.astype(**settings)))(np.ones(2))

    with pytest.raises(DtypeError, match=r"casting='safe'\) \(at test_methods\.py"):
        cast(dtype=np.float32, casting="safe")
    with pytest.raises(DtypeError, match="float64, and that rule does not let"):
        cast(dtype=int, casting="same_kind")
    with pytest.raises(ValueError, match="order must be one of"):
        cast(dtype=float, order="X")


def test_a_view_of_other_bytes() -> None:
    for kind, text in ((np.int64, "bytes of float64"), (np.matrix, "no matrix")):
        with pytest.raises(DtypeError, match=text):
            wb.grad(lambda x, kind=kind: np.sum(x.view(kind)))(np.ones(2))
    np.testing.assert_array_equal(wb.grad(lambda x: np.sum(x.view()))(np.ones(2)), 1)


def test_a_mean_of_rounded_numbers() -> None:
    for name in ("mean", "std", "var"):
        with pytest.raises(DtypeError, match=rf"np\.{name}\(x\)\.astype\(int64\)"):
            wb.grad(lambda x, name=name: getattr(x, name)(dtype=int))(A)


def test_divmod_from_the_left() -> None:
    g = wb.grad(lambda x: sum(divmod(7.0, x)))(2.5)  # 7 % x is 7 - 2 x
    np.testing.assert_allclose(g, -2.0)


# Functions


def is_told(function: Any) -> bool:
    """Whether this NumPy tells a signature."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def bind_as_numpy(theirs: Any, ours: Any) -> None:
    """Bind each parameter of NumPy's to ours: all by place, and each by keyword."""
    rows = [*inspect.signature(theirs).parameters.values()]
    rows = [r for r in rows if r.kind not in (r.VAR_POSITIONAL, r.VAR_KEYWORD)]
    signature = inspect.signature(ours)
    places = [r for r in rows if r.kind is not r.KEYWORD_ONLY]
    signature.bind(*places, **{r.name: r for r in rows if r.kind is r.KEYWORD_ONLY})
    first = [r for r in places if r.kind is r.POSITIONAL_ONLY]
    signature.bind(*first, **{r.name: r for r in rows if r not in first})


def test_every_function_binds_what_numpys_does() -> None:
    supported_functions()
    load_all_ops()
    told = [f for f in FUNCTIONS if callable(f) and is_told(f)]
    assert len(told) > 250
    for function in told:
        try:
            bind_as_numpy(function, FUNCTIONS[function])
        except TypeError as error:
            pytest.fail(f"{name_of(function)}: {error}")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("np.array(object=x, like=x)", A),
        ("np.array(x, ndmin=3, like=x)", A[None]),
        ("np.asarray(a=x, order='C', dtype='f4', like=x)", A.astype("f4")),
        ("np.asarray(x, None, 'C', like=x)", A),
        ("np.ascontiguousarray(x[0, 0], like=x)", A[0, :1]),
        ("np.full((2,), 1.5, None, 'C', like=x)", np.full(2, 1.5)),
        ("np.tensordot(a=x, b=x.T, axes=1)", A @ A.T),
        ("np.astype(x, np.float32, copy=False)", A.astype("f4")),
        ("np.clip(x, a_min=0, a_max=None, casting='unsafe')", A.clip(0)),
    ],
)
def test_keywords_of_functions(text: str, want: Any) -> None:
    found: list[Any] = []
    wb.trace(lambda x: found.append(eval(text, {"np": np, "x": x})))(A)
    np.testing.assert_array_equal(getattr(found[0], "value", found[0]), want)
    assert found[0].dtype == want.dtype


def test_a_clip_in_part() -> None:
    with pytest.raises(WorkbenchError, match=r"np\.where\(condition, np\.clip"):
        wb.grad(lambda x: np.sum(np.clip(x, 0, 1, where=A > 0)))(A)
