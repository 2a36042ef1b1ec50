"""Polynomials as `numpy.poly` and its kin take them: the highest power first.

Roots have the derivative of the implicit function theorem: where p(r) = 0,
``dr = -sum(dp[k] * r**(n - k)) / p'(r)``. At a repeated root there is none, and the
division by 0 shows it as infinity or NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.deferred import operand_shape
from workbench.core.dims import is_zero_length, largest
from workbench.core.op import implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, ArrayLike, Shape
from workbench.errors import UnknownLengthError
from workbench.ops.define import dtype_of, list_positions, op, require_value, shape_of
from workbench.ops.device import on_cupy


def _coefficients(p: Any) -> Any:
    """Return the coefficients as an array or Tensor of one axis."""
    return np.atleast_1d(admit(p.coeffs if isinstance(p, np.poly1d) else p))


def _strip_leading_zeros(p: Any, name: str) -> Array:
    """Cut off the zeros in front, as `numpy.poly1d` does; a single 0 stays."""
    p = _coefficients(p)
    value = require_value(
        p, f"np.{name}", "Write np.convolve(a, b), which cuts no zeros."
    )
    first = 0
    while first < shape_of(p)[0] - 1 and not bool(value[first]):
        first += 1
    return p[first:] if first else p


# Values, sums, products


@implements(np.polyval)
def polyval(p: Any, x: Array | np.poly1d) -> Array:
    """Evaluate a polynomial by Horner's rule, as `numpy.polyval` does.

    Raises
    ------
    TypeError
        For an ``x`` that is a `numpy.poly1d`, whose class NumPy would keep.
    """
    if isinstance(x, np.poly1d):
        raise TypeError(
            f"np.polyval(p, x){blame.user_line()} with x = np.poly1d(...) composes"
            " polynomials of plain numbers only. Write out the composition with"
            " np.polymul and np.polyadd."
        )
    x = admit(x)
    p = _coefficients(p)
    y = np.zeros_like(x)
    for factor in p:
        y = y * x + factor
    return y


def _align_coefficients(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two polynomials with as many coefficients."""
    a, b = _coefficients(a), _coefficients(b)
    length = largest(shape_of(a)[0], shape_of(b)[0])
    a, b = (
        x if is_zero_length(short := length - shape_of(x)[0])
        else np.concatenate([np.zeros_like(x, shape=(short,)), x])
        for x in (a, b)
    )  # fmt: skip
    return a, b


@implements(np.polyadd)
def polyadd(a1: Array, a2: Array) -> Array:
    """Return the sum of two polynomials, as `numpy.polyadd` does."""
    a, b = _align_coefficients(a1, a2)
    return a + b


@implements(np.polysub)
def polysub(a1: Array, a2: Array) -> Array:
    """Return the difference of two polynomials, as `numpy.polysub` does."""
    a, b = _align_coefficients(a1, a2)
    return a - b


def _product(a: Array, b: Array) -> Array:
    """Return all products of coefficients, summed along the powers."""
    if shape_of(a)[0] < shape_of(b)[0]:
        a, b = b, a
    length, terms = shape_of(a)[0], shape_of(b)[0]
    # Row k of the outer product starts k places further: skew it by reshaping.
    table = b[:, None] * a[None, :]
    wide = np.concatenate([table, np.zeros_like(table, shape=(terms, terms))], axis=1)
    flat = np.reshape(wide, (-1,))[: terms * (length + terms - 1)]
    return np.sum(np.reshape(flat, (terms, length + terms - 1)), axis=0)


@implements(np.polymul)
def polymul(a1: Array, a2: Array) -> Array:
    """Multiply polynomials; leading zeros are cut, which needs values."""
    return _product(
        _strip_leading_zeros(a1, "polymul"), _strip_leading_zeros(a2, "polymul")
    )


@implements(np.polydiv)
def polydiv(u: Array, v: Array) -> tuple[Any, Any]:
    """Return quotient and remainder of two polynomials, by long division."""
    u, v = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    m, n = shape_of(u)[0] - 1, shape_of(v)[0] - 1
    dtype = np.result_type(dtype_of(u), dtype_of(v))
    rest = u.astype(dtype)
    if m < n:
        return np.zeros_like(rest[:1]), _strip_remainder(rest)
    scale = 1.0 / v[0]
    found, cleared = [], []
    for _ in range(m - n + 1):
        factor = scale * rest[0]
        found.append(factor)
        kept = rest[: n + 1] - factor * v
        # The first is 0 but for rounding, by which NumPy decides what to cut.
        cleared.append(kept[:1])
        rest = np.concatenate([kept[1:], rest[n + 1 :]])
    return np.stack(found), _strip_remainder(np.concatenate([*cleared, rest]))


def _strip_remainder(r: Array) -> Array:
    value = require_value(r, "the remainder in np.polydiv", "Write the division out.")
    first = 0
    while first < len(value) - 1 and bool(np.abs(value[first]) <= 1e-8):
        first += 1
    return r[first:] if first else r


# Derivatives and integrals


@implements(np.polyder)
def polyder(p: Array, m: int = 1) -> Array:
    """Return the ``m``-th derivative of a polynomial, as `numpy.polyder` does."""
    p, m = _coefficients(p), int(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(m):
        n = largest(shape_of(p)[0] - 1, 0)
        p = p[:-1] * list_positions(n, 0, -1, like=p)
    return p


@implements(np.polyint)
def polyint(p: Array, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integrate a polynomial ``m`` times, differentiable in the constants ``k`` too."""
    p, m = _coefficients(p), int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    if m == 0:
        return p
    if k is None:
        zeros: Any = np.zeros
        constants = zeros(m, like=p)
    else:
        constants = np.atleast_1d(admit(k))
        if shape_of(constants)[0] == 1 and m > 1:
            constants = np.broadcast_to(constants * 1.0, (m,))
    if shape_of(constants)[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        powers = list_positions(shape_of(p)[0], 0, -1, like=p)
        p = np.concatenate([p / powers, constants[i : i + 1]])
    return p


# Roots


def _roots_pull(g: Array, y: Array, p: Array) -> Array:
    return np.sum(
        (g * _root_derivative(y, p))[:, None] * _powers(y, shape_of(p)[0]), axis=0
    )


def _roots_push(tangents: tuple[Any, ...], y: Array, p: Array) -> Array:
    moved = tangents[0].astype(np.result_type(dtype_of(y), dtype_of(p)))
    return _root_derivative(y, p) * (_powers(y, shape_of(p)[0]) @ moved)


def _root_derivative(y: Array, p: Array) -> Array:
    """Return ``-1 / p'(y)``."""
    return -1 / polyval(polyder(p), y)


def _powers(y: Array, count: int) -> Array:
    return y[:, None] ** list_positions(count - 1, -1, -1, like=y)


ROOTS = op(
    "roots",
    np.roots,
    _roots_pull,
    push=_roots_push,
    rule="−g · yⁿ⁻ᵏ / p'(y)",
    pattern="whole",
    reads=(0, "y"),
)


@on_cupy(ROOTS)
def _roots_on_cupy(p: Any) -> Array:
    """Return the eigenvalues of the companion matrix: CuPy's takes symmetric ones."""
    places = np.flatnonzero(p)
    if not places.size:
        return np.zeros_like(p, dtype=float, shape=(0,))
    first, last = int(places[0]), int(places[-1])
    kept = p[first : last + 1] * 1.0
    found = np.zeros_like(kept, shape=(0,))
    if kept.size > 1:
        matrix = np.diag(np.ones_like(kept, shape=(kept.size - 2,)), -1)
        matrix[0] = -kept[1:] / kept[0]
        found = np.linalg.eigvals(matrix)
        if found.dtype.kind == "c" and kept.dtype.kind != "c":
            found = found if bool(np.any(np.imag(found))) else np.real(found)
    return np.concatenate([found, np.zeros_like(found, shape=(p.size - 1 - last,))])


@implements(np.roots)
def roots(p: Array) -> Array:
    """Find roots; their derivative is implicit, and repeated roots have none.

    >>> import numpy as np, workbench as wb
    >>> p = np.array([1.0, 0.0, -4.0])
    >>> abs(wb.jacobian(np.roots, mode="rev")(p)[:, 2])
    array([0.25, 0.25])
    """
    p = _coefficients(p)
    if len(shape_of(p)) != 1:
        raise ValueError("Input must be a rank-1 array.")
    require_value(
        p, "np.roots", "Trace with values (wb.grad, a %%autodiff cell), row by row."
    )
    return apply(ROOTS, (p,))


@implements(np.poly)
def poly(seq_of_zeros: ArrayLike) -> Array | float:
    """Return the coefficients of a polynomial from its roots, or from a matrix.

    Complex roots that are all there with their conjugates give real coefficients,
    so the result of complex roots needs values.
    """
    zeros = np.atleast_1d(admit(seq_of_zeros))
    shape = shape_of(zeros)
    if len(shape) == 2 and shape[0] == shape[1] != 0:
        zeros = np.linalg.eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if dtype_of(zeros).kind not in "fc":
        zeros = zeros.astype(float)
    if shape[0] == 0:
        return 1.0
    one = np.ones_like(zeros[:1])
    p = one
    for k in range(shape_of(zeros)[0]):
        nothing = np.zeros_like(one)
        p = np.concatenate([p, nothing]) - zeros[k] * np.concatenate([nothing, p])
    if dtype_of(p).kind == "c":
        value = require_value(
            zeros, "np.poly", "Trace with values, or give real roots."
        )
        if bool(np.all(np.sort(value) == np.sort(np.conjugate(value)))):
            return np.real(p)
    return p


# Least squares


@implements(np.vander)
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    """Return the powers of each entry, as columns."""
    if len(shape_of(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = shape_of(x)[0] if N is None else int(N)
    wide = x.astype(np.promote_types(dtype_of(x), int))
    powers = (
        list_positions(count, like=x) if increasing else _descending_powers(count, x)
    )
    return wide[:, None] ** powers


def _descending_powers(count: int, like: Array) -> Array:
    return list_positions(count - 1, -1, -1, like=like)


def _polyfit_lengths(
    x: Array, y: Array, deg: int, *rest: Any, **settings: Any
) -> Shape:
    if rest[1:2] == (True,) or rest[3:] or settings.get("full") or "cov" in settings:
        raise UnknownLengthError("only a run tells the lengths of all these results")
    return (int(deg) + 1, *operand_shape(y)[1:])


@implements(np.polyfit, lengths=_polyfit_lengths)
def polyfit(
    x: Array,
    y: Array,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Array | None = None,
    cov: bool | str = False,
) -> Array | tuple[Any, ...]:
    """Fit a polynomial by least squares, differentiable in ``x``, ``y``, ``w``."""
    x, y = admit(x) + 0.0, admit(y) + 0.0
    order = int(deg) + 1
    if order < 1:
        raise ValueError("expected deg >= 0")
    if len(shape_of(x)) != 1:
        raise TypeError("expected 1D vector for x")
    if shape_of(x)[0] == 0:
        raise TypeError("expected non-empty vector for x")
    if len(shape_of(y)) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if shape_of(x)[0] != shape_of(y)[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = shape_of(x)[0] * float(np.finfo(dtype_of(x)).eps)
    left, right = np.vander(x, order), y
    if w is not None:
        w = admit(w) + 0.0
        if shape_of(w) != shape_of(y)[:1]:
            raise TypeError("expected w and y to have the same length")
        left = left * w[:, None]
        right = right * (w[:, None] if len(shape_of(y)) == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    left = left / scale
    solution, residuals, rank, sizes = np.linalg.lstsq(left, right, rcond)
    c = np.transpose(np.transpose(solution) / scale)
    if full:
        return c, residuals, rank, sizes, rcond
    if not cov:
        return c
    base = np.linalg.inv(np.transpose(left) @ left) / np.outer(scale, scale)
    factor: Any = 1
    if cov != "unscaled":
        if shape_of(x)[0] <= order:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance"
                " matrix"
            )
        factor = residuals / (shape_of(x)[0] - order)
    return c, (base if len(shape_of(y)) == 1 else base[:, :, None]) * factor
