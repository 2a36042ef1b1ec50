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
from workbench.ops.fft import SWAPPED, resized
from workbench.ops.filters import trigonometric
from workbench.ops.lengths import delay
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


def _widened(x: ArrayLike) -> Array:
    """SciPy transforms float16 as float32."""
    x = admit(x)
    return x.astype(np.float32) if dtype_of(x) == np.float16 else x


def _one(name: str) -> Callable[..., Any]:
    transform = getattr(transforms, name)

    def answer(
        x: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        return transform(_widened(x), n, axis, norm)

    return _named(answer, name)


def _many(name: str, axes: int | Sequence[int] | None) -> Callable[..., Any]:
    transform = getattr(transforms, name)

    def answer(
        x: ArrayLike,
        s: int | Sequence[int] | None = None,
        axes: int | Sequence[int] | None = axes,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        x = _widened(x)
        if isinstance(axes, int):
            axes = (axes,)
        if s is not None:
            s = (s,) if isinstance(s, int) else tuple(s)
        return transform(x, s, axes, norm)

    return _named(answer, name)


def _named(answer: Callable[..., Any], name: str) -> Callable[..., Any]:
    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""`scipy.fft.{name}`; see :func:`numpy.fft.{name}`."""
    return answer


fft, ifft = _one("fft"), _one("ifft")
rfft, irfft = _one("rfft"), _one("irfft")
hfft, ihfft = _one("hfft"), _one("ihfft")
fftn, ifftn = _many("fftn", None), _many("ifftn", None)
rfftn, irfftn = _many("rfftn", None), _many("irfftn", None)
fft2, ifft2 = _many("fft2", (-2, -1)), _many("ifft2", (-2, -1))
rfft2, irfft2 = _many("rfft2", (-2, -1)), _many("irfft2", (-2, -1))


# Cosine and sine transforms

#: The type of the inverse of each type.
INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _along(
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
    x = _widened(x)
    rank = len(shape_of(x))
    axis = normal_axis(axis, rank) - rank
    if n is not None:
        x = resized(x, {axis: int(n)})
    if orthogonalize is None:
        orthogonalize = norm == "ortho"
    return trigonometric(kind, x, number, axis, norm, bool(orthogonalize))


def _trigonometric(name: str) -> Callable[..., Any]:
    kind, back = name.removeprefix("i"), name.startswith("i")

    def answer(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Array:
        number, scaled = _direction(type, norm, back)
        return _along(kind, x, number, n, axis, scaled, orthogonalize)

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""`scipy.fft.{name}`, of any type, along one axis."""
    return answer


def _direction(number: int, norm: str | None, back: bool) -> tuple[int, str | None]:
    """Return an inverse is the transform of the inverse type, scaled the other way."""
    if not back:
        return number, norm
    norm = "backward" if norm is None else norm
    return INVERSE.get(number, number), SWAPPED.get(norm, norm)


def _trigonometric_all(name: str) -> Callable[..., Any]:
    kind, back = name.removeprefix("i").removesuffix("n"), name.startswith("i")

    def answer(
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
        number, scaled = _direction(type, norm, back)
        for axis, n in zip(axes, lengths, strict=True):
            n = None if n == -1 else n
            x = _along(kind, x, number, n, axis, scaled, orthogonalize)
        return x

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""`scipy.fft.{name}`, of any type, along several axes."""
    return answer


dct, idct = _trigonometric("dct"), _trigonometric("idct")
dst, idst = _trigonometric("dst"), _trigonometric("idst")
dctn, idctn = _trigonometric_all("dctn"), _trigonometric_all("idctn")
dstn, idstn = _trigonometric_all("dstn"), _trigonometric_all("idstn")


delay(globals(), __all__)
