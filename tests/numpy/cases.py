"""A call of every function of the standard, for Tensors and plain arrays.

`CASES` maps a name to its calls, each a function of the namespace and of arrays,
with the kinds of dtypes that it takes: b, i, u, f, c as NumPy has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """One call: its arrays have ``shapes``, and a dtype of each of ``kinds``."""

    call: Callable[..., Any]
    kinds: str
    shapes: tuple[tuple[tuple[int, ...], ...], ...]


CASES: dict[str, list[Case]] = {}

ONE = (((3, 4),), ((2, 1, 3),), ((1,),), ((),), ((0, 3),))
TWO = (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((0, 3), (1, 3)), ((), ()))
MATRIX = (((3, 4),), ((2, 1, 3),), ((1, 1),))
SQUARE = (((3, 3),), ((2, 3, 3),), ((1, 1),))
LINE = (((5,),), ((1,),))


def case(name: str, kinds: str, shapes: Any, *calls: Callable[..., Any]) -> None:
    CASES.setdefault(name, []).extend(Case(call, kinds, shapes) for call in calls)


def _named(name: str) -> Callable[..., Any]:
    return lambda xp, *arrays: getattr(xp, name)(*arrays)


UNARY = {
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh"
    " sqrt tan tanh reciprocal": "fc",
    "abs negative positive square sign round": "iufc",
    "ceil floor trunc": "iuf",
    "signbit": "f",
    "isfinite isinf isnan": "iufc",
    "conj real imag": "c",
    "bitwise_invert": "biu",
    "logical_not": "b",
}
BINARY = {
    "add subtract multiply": "iufc",
    "divide pow": "fc",
    "equal not_equal": "biufc",
    "floor_divide remainder": "f",
    "greater greater_equal less less_equal maximum minimum": "iuf",
    "atan2 copysign hypot logaddexp nextafter": "f",
    "bitwise_and bitwise_or bitwise_xor": "biu",
    "bitwise_left_shift bitwise_right_shift": "iu",
    "logical_and logical_or logical_xor": "b",
}
for _names, _kinds in UNARY.items():
    for _name in _names.split():
        case(_name, _kinds, ONE, _named(_name))
for _names, _kinds in BINARY.items():
    for _name in _names.split():
        case(_name, _kinds, TWO, _named(_name))
case("add", "iufc", ONE, lambda xp, x: xp.add(x, 2), lambda xp, x: xp.add(2, x))
case("pow", "fc", ONE, lambda xp, x: xp.pow(x, 2))
case("maximum", "f", ONE, lambda xp, x: xp.maximum(x, 0.5))
case(
    "clip", "iuf", ONE,
    lambda xp, x: xp.clip(x, 1, 2),
    lambda xp, x: xp.clip(x, min=1),
    lambda xp, x: xp.clip(x, max=2),
    lambda xp, x: xp.clip(x),
)  # fmt: skip
case(
    "clip", "f", TWO[:2],
    # NumPy takes no such mix.
    lambda xp, x, y: xp.clip(x, y, y + 1) if xp is np else xp.clip(x, y, max=y + 1),
)  # fmt: skip
case("where", "biufc", TWO, lambda xp, x, y: xp.where(x == y, x, y))
case("where", "f", ONE, lambda xp, x: xp.where(x > 1, x, 0.0))

# Reductions

_REAL, _ANY = "iuf", "iufc"
for _name, _kinds in {
    "max": _REAL, "min": _REAL, "sum": _ANY, "prod": _ANY, "mean": "fc", "all": "biufc",
    "any": "biufc", "std": "f", "var": "f", "count_nonzero": "biufc",
}.items():  # fmt: skip
    case(
        _name, _kinds, MATRIX,
        _named(_name),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=0),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=(0, -1), keepdims=True),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=(), keepdims=False),
    )  # fmt: skip
for _name in ("argmax", "argmin"):
    case(
        _name, "iuf", MATRIX,
        _named(_name),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=-1, keepdims=True),
    )  # fmt: skip
case("std", "f", MATRIX, lambda xp, x: xp.std(x, axis=-1, correction=0.5))
case("var", "f", MATRIX, lambda xp, x: xp.var(x, axis=0, correction=0.5))
case("sum", "if", MATRIX, lambda xp, x: xp.sum(x, dtype=xp.float64))
case("prod", "if", MATRIX, lambda xp, x: xp.prod(x, axis=0, dtype=xp.float64))
for _name in ("cumulative_sum", "cumulative_prod"):
    case(
        _name, _ANY, MATRIX,
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=-1, include_initial=True),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=0, dtype=xp.complex128),
    )  # fmt: skip
    case(_name, _ANY, LINE, _named(_name))
case(
    "diff", _ANY, MATRIX[:1],
    _named("diff"),
    lambda xp, x: xp.diff(x, axis=0, n=2),
    lambda xp, x: xp.diff(x, prepend=x[:, :1], append=x[:, :2]),
)  # fmt: skip

# Order and sets

#: What the standard has by default, and NumPy has not.
STABLE = {"stable": True}
for _name in ("argsort", "sort"):
    case(
        _name, _REAL, MATRIX,
        lambda xp, x, f=_name: getattr(xp, f)(x, **STABLE if xp is np else {}),
        lambda xp, x, f=_name: getattr(xp, f)(x, axis=0, stable=False),
    )  # fmt: skip
case("nonzero", "biufc", MATRIX, _named("nonzero"))
case(
    "searchsorted", "iuf", (((5,), (2, 3)), ((5,), ())),
    lambda xp, x, v: xp.searchsorted(xp.sort(x), v),
    lambda xp, x, v: xp.searchsorted(x, v, side="right", sorter=xp.argsort(x)),
)  # fmt: skip
for _name in ("unique_all", "unique_counts", "unique_inverse"):
    case(_name, "biufc", MATRIX, _named(_name))
# NumPy's come in no order.
case("unique_values", "biufc", MATRIX, lambda xp, x: xp.sort(xp.unique_values(x)))

# Shapes and entries

case("broadcast_arrays", "biufc", TWO, _named("broadcast_arrays"))
case("broadcast_to", "biufc", ONE[1:3], lambda xp, x: xp.broadcast_to(x, (2, 4, 3)))
case(
    "concat", "biufc", (((3, 2), (3, 2)),),
    lambda xp, x, y: xp.concat([x, y]),
    lambda xp, x, y: xp.concat((x, y), axis=-1),
    lambda xp, x, y: xp.concat([x, y], axis=None),
)  # fmt: skip
case("expand_dims", "bf", ONE, lambda xp, x: xp.expand_dims(x, axis=0))
case("flip", "bfc", ONE, _named("flip"))
case("flip", "f", MATRIX, lambda xp, x: xp.flip(x, axis=(0, -1)))
case(
    "meshgrid", "if", (((3,), (2,)),),
    _named("meshgrid"),
    lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"),
)  # fmt: skip
case("moveaxis", "f", MATRIX, lambda xp, x: xp.moveaxis(x, 0, -1))
case("moveaxis", "f", MATRIX, lambda xp, x: xp.moveaxis(x, (0, 1), (1, 0)))
case("permute_dims", "f", MATRIX[:1], lambda xp, x: xp.permute_dims(x, axes=(1, 0)))
case("repeat", "bf", MATRIX, lambda xp, x: xp.repeat(x, 2))
case("repeat", "bf", MATRIX[:1], lambda xp, x: xp.repeat(x, [1, 0, 2], axis=0))
case(
    "reshape", "bifc", MATRIX,
    lambda xp, x: xp.reshape(x, (-1,)),
    lambda xp, x: xp.reshape(x, shape=(1, *x.shape), copy=True),
)  # fmt: skip
case(
    "roll", "bf", MATRIX,
    lambda xp, x: xp.roll(x, 2),
    lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)),
)  # fmt: skip
case("squeeze", "bf", MATRIX[1:2], lambda xp, x: xp.squeeze(x, axis=1))
case("stack", "bf", (((3, 2), (3, 2)),), lambda xp, x, y: xp.stack([x, y], axis=-1))
case("tile", "bf", ONE, lambda xp, x: xp.tile(x, (2, 1, 2)))
case("tril", "bfc", MATRIX, _named("tril"), lambda xp, x: xp.tril(x, k=1))
case("triu", "bfc", MATRIX, _named("triu"), lambda xp, x: xp.triu(x, k=-1))
case("unstack", "bf", MATRIX, _named("unstack"))
case("unstack", "bf", MATRIX, lambda xp, x: xp.unstack(x, axis=-1))
case(
    "take", "bf", MATRIX[:1],
    lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=0),
    lambda xp, x: xp.take(x[0], xp.asarray([2, 0])),
)  # fmt: skip
case(
    "take_along_axis", "bf", MATRIX[:1],
    lambda xp, x: xp.take_along_axis(x, xp.asarray([[2], [0], [1]])),
    lambda xp, x: xp.take_along_axis(x, xp.asarray([[2, 0, 1, 1]]), axis=0),
)  # fmt: skip

# Dtypes and new arrays

case("astype", "biuf", ONE, lambda xp, x: xp.astype(x, xp.float32))
case("astype", "f", ONE, lambda xp, x: xp.astype(x, xp.float64, copy=False))
case("result_type", "iufc", TWO, lambda xp, x, y: xp.result_type(x, y, xp.int8))
case("isdtype", "biufc", ONE, lambda xp, x: xp.isdtype(x.dtype, "real floating"))
case("can_cast", "biuf", ONE, lambda xp, x: xp.can_cast(x.dtype, xp.float64))
case("asarray", "biufc", ONE, _named("asarray"), lambda xp, x: xp.asarray(x, copy=True))
case("asarray", "f", ONE, lambda xp, x: xp.asarray([[1.0, 2.0]], dtype=x.dtype))
for _name in ("zeros_like", "ones_like"):
    case(_name, "biufc", ONE, _named(_name),
        lambda xp, x, f=_name: getattr(xp, f)(x, dtype=xp.int16),
    )  # fmt: skip
case("full_like", "iuf", ONE, lambda xp, x: xp.full_like(x, 2))
case("empty_like", "biufc", ONE, lambda xp, x: xp.zeros_like(xp.empty_like(x)))
case("zeros", "f", ONE, lambda xp, x: xp.zeros(x.shape, dtype=x.dtype))
case("ones", "f", ONE, lambda xp, x: xp.ones(x.shape, dtype=x.dtype))
case("empty", "f", ONE, lambda xp, x: xp.empty(x.shape, dtype=xp.int8) * 0)
case("full", "f", ONE, lambda xp, x: xp.full(x.shape, 3, dtype=x.dtype))
case("full", "f", ONE, lambda xp, x: xp.full((2,), 3))
case("eye", "f", ONE, lambda xp, x: xp.eye(3), lambda xp, x: xp.eye(3, 2, k=-1))
case(
    "arange", "f", ONE,
    lambda xp, x: xp.arange(4),
    lambda xp, x: xp.arange(1, stop=2, step=0.25, dtype=x.dtype),
)  # fmt: skip
case(
    "linspace", "f", (((), ()),),
    lambda xp, x, y: xp.linspace(x, y, 5),
    lambda xp, x, y: xp.linspace(0, 1, num=4, endpoint=False, dtype=x.dtype),
)  # fmt: skip
case("from_dlpack", "iuf", ONE, _named("from_dlpack"))

# Linear algebra

case("matmul", "iufc", (((3, 4), (4, 2)), ((2, 3, 4), (4,)), ((4,), (4,))),
    _named("matmul"),
)  # fmt: skip
case("matrix_transpose", "bifc", MATRIX, _named("matrix_transpose"))
case(
    "tensordot", "iufc", (((3, 4), (4, 3)),),
    lambda xp, x, y: xp.tensordot(x, y, axes=1),
    lambda xp, x, y: xp.tensordot(x, y, axes=((0, 1), (1, 0))),
)  # fmt: skip
case(
    "vecdot", "iufc", (((3, 4), (3, 4)), ((3, 4), (4,))),
    _named("vecdot"),
)  # fmt: skip
case("vecdot", "fc", (((3, 4), (3, 1)),), lambda xp, x, y: xp.vecdot(x, y, axis=0))


def _linalg(name: str, kinds: str, shapes: Any, *calls: Callable[..., Any]) -> None:
    case(f"linalg.{name}", kinds, shapes, *calls)


def _definite(xp: Any, x: Any) -> Any:
    """A positive definite matrix."""
    return xp.matmul(x, xp.conj(xp.matrix_transpose(x))) + 3 * xp.eye(
        x.shape[-1], dtype=x.dtype
    )


def _of(name: str, **settings: Any) -> Callable[..., Any]:
    return lambda xp, *arrays: getattr(xp.linalg, name)(*arrays, **settings)


def _of_definite(name: str, **settings: Any) -> Callable[..., Any]:
    return lambda xp, x: getattr(xp.linalg, name)(_definite(xp, x), **settings)


for _name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
    for _case in list(CASES[_name]):
        _linalg(_name, _case.kinds, _case.shapes,
            lambda xp, *arrays, f=_case.call: f(xp.linalg, *arrays),
        )  # fmt: skip
_linalg("cholesky", "fc", SQUARE, _of_definite("cholesky"))
_linalg("cholesky", "fc", SQUARE, _of_definite("cholesky", upper=True))
_linalg("cross", "ifc", (((2, 3), (2, 3)),), _of("cross"))
_linalg("cross", "f", (((3, 2), (3, 2)),), _of("cross", axis=0))
_linalg("det", "fc", SQUARE, _of("det"))
_linalg("diagonal", "bifc", MATRIX, _of("diagonal"), _of("diagonal", offset=1))
_linalg("eigvalsh", "fc", SQUARE, _of_definite("eigvalsh"))
_linalg(
    "eigh", "fc", SQUARE,
    lambda xp, x: (
        (found := xp.linalg.eigh(_definite(xp, x))).eigenvalues,
        abs(found.eigenvectors),
    ),
)  # fmt: skip
_linalg("inv", "fc", SQUARE, _of_definite("inv"))
_linalg("matrix_norm", "fc", MATRIX, _of("matrix_norm"))
for _ord in (1, -1, 2, -2, float("inf"), "nuc"):
    _linalg("matrix_norm", "f", MATRIX, _of("matrix_norm", ord=_ord, keepdims=True))
_linalg(
    "matrix_power", "fc", SQUARE,
    lambda xp, x: xp.linalg.matrix_power(x, 3),
    lambda xp, x: xp.linalg.matrix_power(_definite(xp, x), -2),
)  # fmt: skip
_linalg("matrix_rank", "f", MATRIX, _of("matrix_rank"), _of("matrix_rank", rtol=0.9))
_linalg("outer", "ifc", (((3,), (2,)),), _of("outer"))
_linalg("pinv", "f", MATRIX, _of("pinv"), _of("pinv", rtol=1e-3))
_linalg("qr", "f", MATRIX, lambda xp, x: abs(xp.linalg.qr(x).R))
_linalg("qr", "f", MATRIX, lambda xp, x: abs(xp.linalg.qr(x, mode="complete").Q))
_linalg("slogdet", "fc", SQUARE, _of("slogdet"))
_linalg(
    "solve", "fc", (((3, 3), (3,)), ((2, 3, 3), (3, 2))),
    lambda xp, x, y: xp.linalg.solve(_definite(xp, x), y),
)  # fmt: skip
_linalg("svdvals", "fc", MATRIX, _of("svdvals"))
_linalg(
    "svd", "f", MATRIX,
    lambda xp, x: [abs(part) for part in xp.linalg.svd(x, full_matrices=False)],
    lambda xp, x: xp.linalg.svd(x).S,
)  # fmt: skip
_linalg("trace", "ifc", MATRIX, _of("trace"), _of("trace", offset=1))
_linalg("trace", "f", MATRIX, lambda xp, x: xp.linalg.trace(x, dtype=xp.complex128))
_linalg(
    "vector_norm", "fc", MATRIX,
    _of("vector_norm"),
    _of("vector_norm", axis=-1, keepdims=True),
    _of("vector_norm", axis=(0, 1), ord=1),
    _of("vector_norm", axis=0, ord=float("inf")),
    _of("vector_norm", axis=0, ord=3),
    _of("vector_norm", axis=0, ord=0),
)  # fmt: skip

# Transforms


def _transform(name: str, kinds: str, *settings: dict[str, Any]) -> None:
    shapes = MATRIX[:2] if name in ("irfft", "hfft", "irfftn") else MATRIX
    for more in ({}, *settings):
        case(f"fft.{name}", kinds, shapes,
            lambda xp, x, more=more: getattr(xp.fft, name)(x, **more),
        )  # fmt: skip


_AXIS = {"axis": 0, "norm": "ortho"}
_AXES = {"axes": (0, 1), "s": (4, 2), "norm": "forward"}
for _name in ("fft", "ifft"):
    _transform(_name, "fc", {"n": 3}, _AXIS)
for _name in ("fftn", "ifftn"):
    _transform(_name, "fc", _AXES)
_transform("rfft", "f", {"n": 3}, _AXIS)
_transform("rfftn", "f", _AXES)
_transform("ihfft", "f", {"n": 3}, _AXIS)
for _name in ("irfft", "hfft"):
    _transform(_name, "c", {"n": 4}, {**_AXIS, "n": 5})
_transform("irfftn", "c", _AXES, {"s": (4, 4), "axes": (0, 1)})
for _name in ("fftshift", "ifftshift"):
    _transform(_name, "fc", {"axes": 0}, {"axes": (0, 1)})
for _name in ("fftfreq", "rfftfreq"):
    case(f"fft.{_name}", "f", ONE[:1],
        lambda xp, x, f=_name: getattr(xp.fft, f)(5, d=0.5),
    )  # fmt: skip
