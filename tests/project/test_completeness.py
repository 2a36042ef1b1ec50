"""Every public function of NumPy: supported, refused with a reason, or takes no array.

The names are NumPy's own, of whatever version is installed: a function that a later
NumPy adds fails here until somebody has looked at it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.refusals import REFUSED, supported_functions
from workbench.errors import GradientLostError, TraceError

X = np.array([0.5, 1.5, 2.5])

#: Functions that take no array: names, shapes, numbers, files and NumPy's settings.
TAKES_NO_ARRAY = {
    "dates and texts of numbers": """
    base_repr binary_repr datetime_data format_float_positional format_float_scientific
    """,
    "what is read from files, bytes and texts": """
    frombuffer fromfile fromregex fromstring genfromtxt load loadtxt
    """,
    "made from whole numbers": """
    bartlett blackman hamming hanning diag_indices indices mask_indices tril_indices
    triu_indices broadcast_shapes fft.fftfreq fft.rfftfreq
    """,
    "about dtypes": """
    can_cast isdtype issubdtype mintypecode promote_types typename
    """,
    "NumPy's settings, and NumPy itself": """
    get_include get_printoptions getbufsize geterr geterrcall info printoptions
    set_printoptions setbufsize seterr seterrcall show_config show_runtime test
    """,
}
NO_ARRAY = {f"np.{n}" for names in TAKES_NO_ARRAY.values() for n in names.split()}

#: Those of NumPy; the refusals of `scipy.special` have a test of their own.
OURS = {name: said for name, said in REFUSED.items() if name.startswith("np.")}

Program = Callable[[Any], Any]
#: Functions that NumPy does not dispatch: a program that keeps its gradient.
KEEPS: dict[str, Program] = {
    "np.arange": lambda x: np.arange(3.0) * x,
    "np.array": lambda x: np.array([x[0], 2.0 * x[1]]) * np.array(x)[:2],
    "np.asanyarray": lambda x: np.asanyarray(x) * x,
    "np.asarray": lambda x: np.asarray([x, x]) * np.asarray(x),
    "np.asarray_chkfinite": lambda x: np.asarray_chkfinite(x) * x,
    "np.ascontiguousarray": lambda x: np.ascontiguousarray(x) * x,
    "np.asfortranarray": lambda x: np.asfortranarray(x) * x,
    "np.asmatrix": lambda x: np.asmatrix(x) * 2,
    "np.bmat": lambda x: np.bmat([[x, x]]),
    "np.c_": lambda x: np.c_[x, x] ** 2,
    "np.empty": lambda x: np.empty(0) + np.sum(x) * 0,
    "np.eye": lambda x: np.eye(3) @ x,
    "np.fromfunction": lambda x: np.fromfunction(lambda i, j: x[0] * i + j, (2, 3)),
    "np.full": lambda x: np.full((2, 3), x) * np.full(3, x[0]),
    "np.identity": lambda x: np.identity(3) @ x,
    "np.isscalar": lambda x: x * (not np.isscalar(x)),
    "np.iterable": lambda x: x * np.iterable(x),
    "np.kaiser": lambda x: np.kaiser(3, x[0]),
    "np.ndenumerate": lambda x: sum(v * v for _, v in np.ndenumerate(x)),
    "np.ones": lambda x: np.ones(3) * x,
    "np.poly1d": lambda x: np.poly1d(x)(2.0) + np.poly1d([1.0, 2.0])(x),
    "np.polynomial": lambda x: np.polynomial.Polynomial(x)(x),
    "np.r_": lambda x: np.r_[x, 1.0, x[0]] ** 2,
    "np.require": lambda x: np.require(x, requirements="C") * x,
    "np.row_stack": lambda x: np.row_stack([x, x]) * 2,  # type: ignore[attr-defined]
    "np.tri": lambda x: np.tri(3) @ x,
    "np.vectorize": lambda x: np.vectorize(lambda v: v * v)(x),
    "np.zeros": lambda x: np.zeros(3) + x,
}  # fmt: skip
#: Functions that NumPy does not dispatch: a program that is an error, and what it says.
SAYS: dict[str, tuple[Program, str]] = {
    "np.from_dlpack": (np.from_dlpack, r"__dlpack__.*x\.value"),
    "np.fromiter": (lambda x: np.fromiter(iter(x), float), "stored into a plain array"),
    "np.frompyfunc": (
        np.frompyfunc(lambda v: v * v, 1, 1),
        r"Python objects.*x\.value",
    ),
    "np.isfortran": (np.isfortran, r"x\.value\.flags"),
    "np.nested_iters": (
        lambda x: np.nested_iters(np.outer(x, x), [[0], [1]]),
        "plain numbers.*whole arrays",
    ),
    "np.nditer": (lambda x: sum(np.nditer(x)), "plain numbers.*whole arrays"),
    "np.array of floats": (
        lambda x: np.array(x, float),
        r"lose its gradient.*x\.value",
    ),
    "np.float64": (lambda x: np.float64(x[0]), r"lose its gradient.*x\.value"),
    "np.random.normal": (
        lambda x: np.random.normal(x, 1.0),
        r"lose its gradient.*x\.value",
    ),
}


def public() -> Iterator[tuple[str, Any]]:
    """Every public function and ufunc of NumPy, by the name that users type."""
    for prefix, module in (
        ("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)
    ):  # fmt: skip
        for name in module.__all__:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function = getattr(module, name, None)
            if callable(function) and not isinstance(function, type):
                yield f"{prefix}.{name}", function


def test_every_function_of_numpy_is_answered_for() -> None:
    known = {id(f) for f in supported_functions().values()}
    groups = {**dict.fromkeys(NO_ARRAY), **KEEPS, **SAYS, **OURS}
    missing = [
        name
        for name, function in public()
        if id(function) not in known and name not in groups
    ]
    assert missing == []


def test_the_lists_are_up_to_date() -> None:
    known = {id(f) for f in supported_functions().values()}
    names = dict(public())
    assert [n for n in OURS if id(names.get(n)) in known] == []
    assert [n for n in (*OURS, *NO_ARRAY) if n not in names] == []
    assert len(OURS) <= 10
    for why, instead in OURS.values():
        assert len(why) > 10
        assert "x" in instead


@pytest.mark.parametrize("name", KEEPS)
def test_what_is_not_dispatched_keeps_the_gradient(name: str) -> None:
    f = KEEPS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # np.row_stack, np.matrix are old
        found = wb.grad(lambda x: np.sum(f(x)))(np.copy(X))
        h = 1e-6
        truth = [
            float(np.sum(f(X + h * e)) - np.sum(f(X - h * e))) / (2 * h)
            for e in np.eye(3)
        ]
    np.testing.assert_allclose(found, truth, atol=1e-6)


@pytest.mark.parametrize("name", SAYS)
def test_what_is_not_dispatched_says_so(name: str) -> None:
    f, says = SAYS[name]
    kinds = (GradientLostError, TraceError, TypeError, AttributeError)
    with pytest.raises(kinds, match=says):
        wb.grad(lambda x: np.sum(f(x)))(np.copy(X))


@pytest.mark.parametrize("name", OURS)
def test_what_is_refused_says_why_and_what_to_write(name: str) -> None:
    function = dict(public())[name]
    programs: dict[str, Program] = {
        "np.save": lambda x: function("file", x),
        "np.savetxt": lambda x: function("file", x),
        "np.savez": lambda x: function("file", x),
        "np.savez_compressed": lambda x: function("file", x),
    }
    two = name in ("np.busday_count", "np.busday_offset")
    f = programs.get(name, (lambda x: function(x, x)) if two else function)
    with pytest.raises(TraceError) as error:
        wb.grad(lambda x: np.sum(f(x)))(np.copy(X))
    text = str(error.value)
    assert name in text
    assert "test_completeness.py" in text
    assert OURS[name][1] in text


#: Methods and attributes of arrays that a Tensor does not have, and why.
NOT_OF_TENSORS = {
    "memory, which a traced value does not have": """
    base ctypes data flags strides byteswap setflags view newbyteorder
    """,
    "in place, into memory or files": """
    dump dumps getfield setfield tofile tobytes tostring itemset resize
    """,
}
REASONED = {n for names in NOT_OF_TENSORS.values() for n in names.split()}


def test_methods_of_arrays() -> None:
    x = wb.trace(lambda x: x * 2)(np.outer(X, X)).outputs[0]
    missing = {n for n in dir(np.ndarray) if not n.startswith("_")}
    missing = {n for n in missing if not hasattr(x, n)}
    assert sorted(missing - REASONED) == []
    for name in missing:
        with pytest.raises(AttributeError, match=rf"x\.value\.{name}|Write "):
            getattr(x, name)
