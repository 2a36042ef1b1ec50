"""Complex numbers: their parts, angle and sign, and what asks for them.

A complex gradient is df/dx - i df/dy. The sign of a complex number is its direction,
which has no derivative at 0: there it is taken as 0, as that of all lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.op import always, declare, implements
from workbench.core.tensor import admit, apply, value_of
from workbench.errors import TraceError
from workbench.ops.define import _batch_elementwise, dtype_of, elementwise, op

__all__ = ["conjugate", "divide_by_length", "sign"]

elementwise("conjugate", np.conjugate, "conj(g)")
_real = elementwise("real", np.real, "g")
_imag = op(
    "imag",
    np.imag,
    lambda g, y, x: g * -1j if dtype_of(x).kind == "c" else 0 * g,
    push=lambda t, y, x: np.imag(t[0]),
    rule="−i g",
)
_imag.elementwise = True
_real.view = _imag.view = always


def conjugate(x: Any) -> Any:
    """The conjugate of a complex array; a real one as it is."""
    return np.conjugate(x) if dtype_of(x).kind == "c" else x


@implements(np.real)
def real(val: Any) -> Any:
    """`numpy.real`."""
    return apply(_real, (val,)) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """`numpy.imag`."""
    return apply(_imag, (val,))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """`numpy.angle`."""
    turned = np.arctan2(np.imag(z), np.real(z))
    return np.rad2deg(turned) if deg else turned


def divide_by_length(x: Any, length: Any) -> Any:
    """Return ``x / length``; where the length is 0, 0 with all its derivatives."""
    zero = np.equal(length, 0)
    if dtype_of(x).kind == "c":  # which CuPy divides by infinity to NaN
        return np.where(zero, 0, x / np.where(zero, 1, length))
    return x / np.where(zero, np.inf, length)


def _direction(x: Any) -> Any:
    """Return ``x / abs(x)``, by parts: a complex divisor may overflow on the way."""
    if isinstance(x, (np.ndarray, np.generic, complex)):
        return np.sign(x)
    size = np.abs(x)
    safe = np.where(np.equal(size, 0), 1, size)
    return np.real(x) / safe + 1j * (np.imag(x) / safe)


# With u = ȳ dx, the direction turns by Im(u) / |x|: dy = i y Im(u) / |x|.
_sign = op(
    "direction",
    _direction,
    lambda g, y, x: 1j * np.conjugate(y) * divide_by_length(np.imag(g * y), np.abs(x)),
    push=lambda t, y, x: (
        1j * y * divide_by_length(np.imag(np.conjugate(y) * t[0]), np.abs(x))
    ),
    rule="i ȳ · Im(g y) / |x|, 0 at 0",
    reads=(0, "y"),
)
_sign.elementwise = True
_sign.batch = _batch_elementwise(_sign)


def sign(x: Any) -> Any:
    """`numpy.sign`: constant but for complex arrays, where it is ``x / abs(x)``."""
    made = _sign if dtype_of(x).kind == "c" else declare("sign")
    return apply(made, (x,))


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """`numpy.iscomplex`: whether each entry has an imaginary part."""
    return np.not_equal(np.imag(x), 0)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """`numpy.isreal`: whether each entry has no imaginary part."""
    return np.equal(np.imag(x), 0)


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """`numpy.real_if_close`: the values decide whether the result is complex.

    Raises
    ------
    TraceError
        For complex numbers in a trace without values (`workbench.vmap`).
    """
    a = admit(a)
    dtype = dtype_of(a)
    if dtype.kind != "c":
        return a
    value = value_of(a)
    if value is None:
        raise TraceError(
            f"np.real_if_close({blame.describe(a)}){blame.here()}: whether the"
            " result is real depends on values, which a trace without values does not"
            " have. Write np.real(x)."
        )
    limit = np.finfo(dtype).eps * tol if tol > 1 else tol
    return np.real(a) if bool(np.all(np.abs(np.imag(value)) < limit)) else a
