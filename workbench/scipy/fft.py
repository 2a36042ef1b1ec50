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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike
from workbench.ops import fft as transforms
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.fft import SWAPPED, resize_axes
from workbench.ops.filters import trigonometric
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import normal_axes, normal_axis

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
    "hfft",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
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
    name: str, axes: int | Sequence[int] | None
) -> Callable[..., Any]:
    transform = getattr(transforms, name)

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
        return transform(x, s, axes, norm)

    return _name_function(compute, name)


def _name_function(compute: Callable[..., Any], name: str) -> Callable[..., Any]:
    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"""Return the transform `scipy.fft.{name}` of ``x``.

    Its arguments are those of :func:`numpy.fft.{name}`.
    """
    return compute


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
