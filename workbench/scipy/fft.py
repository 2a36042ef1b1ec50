"""`scipy.fft` for Tensors and arrays: Fourier, cosine and sine transforms.

The same names, arguments and values as SciPy's. ``overwrite_x``, ``workers`` and
``plan`` are accepted and change nothing: a traced array is never overwritten.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import fft
>>> fft.dct(np.array([1.0, 2.0, 3.0]), norm="ortho").round(6)
array([ 3.464102, -1.414214,  0.      ])

What a transform keeps of the energy (all, by Parseval's theorem):

>>> wb.grad(lambda x: np.sum(np.abs(fft.fft(x, norm="ortho")) ** 2))(np.arange(3.0))
array([0., 2., 4.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.ops import fft as transforms
from workbench.ops.define import dtype_of, list_positions, shape_of
from workbench.ops.fft import SWAPPED, resize_axes
from workbench.ops.filters import trigonometric
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import distinct_axes, normal_axes, normal_axis
from workbench.ops.special.define import F

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

fftfreq, rfftfreq = np.fft.fftfreq, np.fft.rfftfreq
fftshift, ifftshift = transforms.fftshift, transforms.ifftshift


def _widen(x: ArrayLike) -> Array:
    """Return an array of a dtype that SciPy transforms: float16 as float32."""
    x = admit(x)
    return x.astype(np.float32) if dtype_of(x) == np.float16 else x


def _make_transform(name: str) -> Callable[..., Any]:
    transform = getattr(transforms, name)

    def compute(
        x: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        return transform(_widen(x), n, axis, norm)

    return _name_function(compute, name)


def _make_transform_nd(
    name: str, axes: int | Sequence[int] | None, kind: str = ""
) -> Callable[..., Any]:
    """Make a transform along axes; ``kind`` is NumPy's name, if it is another."""
    transform = getattr(transforms, kind or name)

    def compute(
        x: ArrayLike,
        s: int | Sequence[int] | None = None,
        axes: int | Sequence[int] | None = axes,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        x = _widen(x)
        if isinstance(axes, int):
            axes = (axes,)
        if s is not None:
            s = (s,) if isinstance(s, int) else tuple(s)
        if axes is not None:
            _check_axes(name, axes, s, len(shape_of(x)))
        return transform(x, s, axes, norm)

    return _name_function(compute, name)


def _check_axes(name: str, axes: Any, s: Any, rank: int) -> None:
    """Refuse what NumPy takes and SciPy does not: repeated axes, lengths left over."""
    if s is not None and len(s) != len(axes):
        raise ValueError(
            f"{name}{blame.user_line()}: s={s} has {len(s)} lengths for {len(axes)}"
            " axes. Give one for each."
        )
    distinct_axes(axes, rank)
    if not axes and name.lstrip("i")[0] in "rh":
        raise ValueError(
            f"{name}(..., axes=()){blame.user_line()}: a real transform needs an axis."
            " Leave axes out."
        )


def _name_function(compute: Callable[..., Any], name: str) -> Callable[..., Any]:
    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"""Return the transform `scipy.fft.{name}` of ``x``.

    Its arguments are those of :func:`numpy.fft.{name}`.
    """
    return compute


def _make_hermitian_nd(name: str) -> Callable[..., Any]:
    """Make a transform of a signal that is Hermitian in time, or its inverse."""
    axes = (-2, -1) if name.endswith("2") else None
    is_inverse = name.startswith("i")
    kind = ("rfft" if is_inverse else "irfft") + name[-1]
    inner = _make_transform_nd(name, axes, kind)

    def compute(
        x: ArrayLike,
        s: int | Sequence[int] | None = None,
        axes: int | Sequence[int] | None = axes,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        swapped = SWAPPED[transforms.norm_name(norm)]
        given = x if is_inverse else np.conjugate(_widen(x))
        made = inner(given, s, axes, swapped)
        return np.conjugate(made) if is_inverse else made

    return _name_function(compute, name)


fft, ifft = _make_transform("fft"), _make_transform("ifft")
rfft, irfft = _make_transform("rfft"), _make_transform("irfft")
hfft, ihfft = _make_transform("hfft"), _make_transform("ihfft")
fftn, ifftn = _make_transform_nd("fftn", None), _make_transform_nd("ifftn", None)
rfftn, irfftn = _make_transform_nd("rfftn", None), _make_transform_nd("irfftn", None)
fft2, ifft2 = (
    _make_transform_nd("fft2", (-2, -1)),
    _make_transform_nd("ifft2", (-2, -1)),
)
rfft2, irfft2 = (
    _make_transform_nd("rfft2", (-2, -1)),
    _make_transform_nd("irfft2", (-2, -1)),
)

hfftn, ihfftn = _make_hermitian_nd("hfftn"), _make_hermitian_nd("ihfftn")
hfft2, ihfft2 = _make_hermitian_nd("hfft2"), _make_hermitian_nd("ihfft2")


# Hankel transforms

LOG_2 = math.log(2)


def _find_hankel_factors(
    name: str, x: Any, dln: Any, mu: Any, offset: Any, bias: Any
) -> Any:
    """Return the factors of the frequencies: A. J. S. Hamilton (2000), eq. B17."""
    count = shape_of(x)[-1]
    high, low = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    k: Any = list_positions(count // 2 + 1, like=x)
    is_first, is_last = np.equal(k, 0), np.equal(2 * k, count)  # which are real
    y = np.where(is_first, 1, k) * (math.pi / (count * dln))
    above, below = F.loggamma(high + 1j * y), F.loggamma(low + 1j * y)
    size = np.exp(np.real(above) - np.real(below) + LOG_2 * bias)
    angle = np.imag(above) + np.imag(below) + 2 * y * (LOG_2 - offset)
    first = 2.0**bias * F.poch(low, bias)
    known = value_of(first)
    if known is not None and np.isinf(known):
        raise UsageError(
            f"{name}{blame.user_line()}: the transform of order {mu} is singular with"
            " this bias. Choose another bias."
        )
    turn = np.cos(angle)
    if name == "ifht":
        turn = np.where(is_last, 1 / turn, turn)
    real = np.where(is_first, first, size * turn)
    return real + 1j * np.where(is_first | is_last, 0, size * np.sin(angle))


def _transform_hankel(
    name: str, a: ArrayLike, dln: Any, mu: Any, offset: Any, bias: Any
) -> Any:
    x: Any = admit(a)
    x = _widen(x if hasattr(x, "shape") else np.asarray(x))
    kind = dtype_of(x).kind
    if kind == "c":
        raise TypeError(
            f"{name}{blame.user_line()} takes real entries. Transform np.real(x) and"
            " np.imag(x)."
        )
    x = x.astype(float) if kind != "f" else x
    count = shape_of(x)[-1]
    has_bias = isinstance(bias, Tensor) or bias != 0
    inner: Any = (list_positions(count, like=x) - (count - 1) / 2) * dln
    outer: Any = inner + offset
    if name == "ifht":  # the factors of the negative bias are its conjugate inverses
        inner, outer, bias = outer, inner, -bias
    factors = _find_hankel_factors(name, x, dln, mu, offset, bias)
    spectrum: Any = rfft(x * np.exp(-bias * inner) if has_bias else x)
    made = np.flip(irfft(spectrum * factors, count), -1)
    if not has_bias:
        return made.astype(dtype_of(x))  # as SciPy
    return made * np.exp(-bias * outer)


def fht(
    a: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0
) -> Array:
    """Return the Hankel transform, as `scipy.fft.fht` does.

    ``a`` has points at equal steps ``dln`` of the logarithm along its last axis. It is
    differentiable by ``a``, and by the order ``mu``, ``offset``, ``bias`` and ``dln``.

    Raises
    ------
    UsageError
        If the transform is singular: where SciPy warns.
    TypeError
        If entries are complex.
    """
    return _transform_hankel("fht", a, dln, mu, offset, bias)


def ifht(
    A: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0
) -> Array:
    """Return the inverse of `fht`, as `scipy.fft.ifht` does."""
    return _transform_hankel("ifht", A, dln, mu, offset, bias)


# Cosine and sine transforms

#: The type of the inverse of each type.
INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _transform_axis(
    kind: str,
    x: ArrayLike,
    number: int,
    n: int | None,
    axis: int,
    norm: str | None,
    orthogonalize: bool | None,
) -> Array:
    if number not in INVERSE:
        raise ValueError(
            f"{kind}(..., type={number!r}){blame.user_line()}: the types are 1, 2, 3"
            " and 4"
        )
    norm = "backward" if norm is None else norm
    if norm not in SWAPPED:
        raise ValueError(
            f"Invalid norm value {norm!r}{blame.user_line()}; should be 'backward',"
            " 'ortho' or 'forward'"
        )
    x = _widen(x)
    rank = len(shape_of(x))
    axis = normal_axis(axis, rank) - rank
    if n is not None:
        x = resize_axes(x, {axis: int(n)})
    if orthogonalize is None:
        orthogonalize = norm == "ortho"
    return trigonometric(kind, x, number, axis, norm, bool(orthogonalize))


def _make_trigonometric(name: str) -> Callable[..., Any]:
    kind, inverse = name.removeprefix("i"), name.startswith("i")

    def compute(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Array:
        number, scaled = _resolve_direction(type, norm, inverse)
        return _transform_axis(kind, x, number, n, axis, scaled, orthogonalize)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = (
        f"""Return `scipy.fft.{name}` of ``x``, of any type, along an axis."""
    )
    return compute


def _resolve_direction(
    number: int, norm: str | None, inverse: bool
) -> tuple[int, str | None]:
    """Return type and norm; an inverse is the transform of the inverse type."""
    if not inverse:
        return number, norm
    norm = "backward" if norm is None else norm
    return INVERSE.get(number, number), SWAPPED.get(norm, norm)


def _make_trigonometric_nd(name: str) -> Callable[..., Any]:
    kind, inverse = name.removeprefix("i").removesuffix("n"), name.startswith("i")

    def compute(
        x: ArrayLike,
        type: int = 2,
        s: int | Sequence[int] | None = None,
        axes: int | Sequence[int] | None = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Array:
        x = admit(x)
        rank = len(shape_of(x))
        if s is not None:
            s = (s,) if isinstance(s, int) else tuple(s)
        if axes is None:
            axes = range(rank) if s is None else range(rank - len(s), rank)
        axes = normal_axes([axes] if isinstance(axes, int) else list(axes), rank)
        lengths = [None] * len(axes) if s is None else s
        if len(lengths) != len(axes):
            raise ValueError(
                f"{name}{blame.user_line()}: when given, axes and s must have the same"
                " length"
            )
        number, scaled = _resolve_direction(type, norm, inverse)
        for axis, n in zip(axes, lengths, strict=True):
            n = None if n == -1 else n
            x = _transform_axis(kind, x, number, n, axis, scaled, orthogonalize)
        return x

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = (
        f"""Return `scipy.fft.{name}` of ``x``, of any type, along axes."""
    )
    return compute


dct, idct = _make_trigonometric("dct"), _make_trigonometric("idct")
dst, idst = _make_trigonometric("dst"), _make_trigonometric("idst")
dctn, idctn = _make_trigonometric_nd("dctn"), _make_trigonometric_nd("idctn")
dstn, idstn = _make_trigonometric_nd("dstn"), _make_trigonometric_nd("idstn")


defer_functions(globals(), __all__)
