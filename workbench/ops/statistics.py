"""Moments and quantiles: variance, averages, covariance, medians.

All derivatives of `std` are 0 where all entries are equal; its square has those of
`var`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.core.deferred import operand_shape
from workbench.core.dims import Dim, always_differ, is_zero_length, largest
from workbench.core.op import Op, declare, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Axis, Shape, is_weak
from workbench.ops import define, reductions
from workbench.ops.elementwise import conjugate, divide_by_length, stop_gradient
from workbench.ops.reductions import settings
from workbench.ops.shaping import lay_like, lay_out, moveaxis, normal_axes

# Variance and standard deviation


def _freedom(x: Array, axis: Axis, ddof: float) -> Any:
    """Return the degrees of freedom: the entries of each result, less ``ddof``."""
    left: Any = reductions.count(x, axis) - ddof
    if isinstance(left, Tensor):  # a length less a fraction
        return np.maximum(left, 0)
    return largest(left, 0) if isinstance(left, Dim) else max(left, 0)


def _weigh_deviations(x: Array, axis: Axis = None, ddof: float = 0, **_: Any) -> Array:
    """Return the conjugate deviations from the mean by the degrees of freedom."""
    axes = reductions.reduced_axes(axis, len(define.shape_of(x)))
    x = reductions.promote_half(x)
    middle = np.mean(x, axis=axes, keepdims=True)
    return conjugate(x - middle) / _freedom(x, axis, ddof)


def _var_weight(
    y: Array, x: Array, *, axis: Axis = None, ddof: float = 0, **_: Any
) -> Array:
    return 2 * _weigh_deviations(x, axis, ddof)


def _std_weight(
    y: Array, x: Array, *, axis: Axis = None, ddof: float = 0, **_: Any
) -> Array:
    wide = reductions.promote_half(x)
    if wide is not x:  # in float16 NumPy's sum of squares may be infinite
        axes = reductions.reduced_axes(axis, len(define.shape_of(x)))
        y = np.std(wide, axis=axes, ddof=ddof, keepdims=True)
    return divide_by_length(_weigh_deviations(x, axis, ddof), y)


def _answer_moment(made: Op) -> None:
    """Answer `numpy.var` or `numpy.std`; the gradient of equal entries is 0."""

    @implements(getattr(np, made.name))
    def answer(
        a: Array,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Array | bool = True,
        mean: Array | None = None,
        correction: float | None = None,
    ) -> Array:
        ddof = ddof if correction is None else correction
        if dtype is not None:
            a = define.convert_for_mean(f"np.{made.name}", a, dtype)
        if where is True and mean is None:
            return apply(made, (a,), settings(axis, keepdims, a, ddof=ddof))
        wide = reductions.promote_half(a)
        if wide is not a and getattr(mean, "dtype", a.dtype) == a.dtype:
            y = answer(wide, axis, None, None, ddof, keepdims, where=where, mean=mean)
            return y.astype(a.dtype)
        variance = _variance(a, axis, ddof, keepdims, where, mean)
        if made.name == "var":
            return variance
        return apply(declare("root_of_squares"), (variance,))


def _variance(
    a: Array,
    axis: Axis,
    ddof: float,
    keepdims: bool,
    where: Array | bool,
    mean: Array | None,
) -> Array:
    """Return the variance of chosen entries, or around a mean that is given."""
    if mean is None:
        mean = np.mean(a, axis=axis, keepdims=True, where=where)  # a Tensor: so
    away = a - mean
    if define.dtype_of(away).kind == "c":
        squares = np.square(np.real(away)) + np.square(np.imag(away))
    else:  # not |away|**2: that has a kink on the mean, and no second derivative
        squares = np.square(away)
    total = np.sum(squares, axis=axis, keepdims=keepdims, where=where)  # a Tensor: so
    if where is True:
        return total / _freedom(a, axis, ddof)
    return total / np.maximum(
        reductions.count_chosen(a, where, axis, keepdims) - ddof, 0
    )


def _var_body(
    x: Array, *, axis: Axis = None, keepdims: bool = False, ddof: float = 0
) -> Any:
    if not reductions.can_reduce(x, "fcbiu"):
        return None
    x = x.astype(float) if x.dtype.kind in "biu" else x
    away = x - np.mean(x, axis=axis, keepdims=True)
    if x.dtype.kind == "c":
        squares = np.square(np.real(away)) + np.square(np.imag(away))
    else:
        squares = np.square(away)
    left = float(_freedom(x, axis, ddof))
    return np.sum(squares, axis=axis, keepdims=keepdims) / left


def _std_body(x: Array, **params: Any) -> Any:
    variance = _var_body(x, **params)
    return None if variance is None else np.sqrt(variance)


_answer_moment(
    reductions.reduction(
        "var",
        np.var,
        _var_weight,
        rule="g · 2 (x − mean) / n",
        reads=(0,),
        unfold=_var_body,
        sums=True,
        grows=True,
    )
)
_answer_moment(
    reductions.reduction(
        "std",
        np.std,
        _std_weight,
        rule="g · (x − mean) / (n y)",
        root=reductions.reduced_root("(x − mean) / n", _weigh_deviations),
        unfold=_std_body,
        grows=True,
    )
)


# Averages


def align_weights(weights: Array, a: Array, axis: Axis) -> Array:
    """Return weights in the rank of ``a``: for all entries, or along some axes.

    Raises
    ------
    TypeError, ValueError
        As NumPy's, where the shapes do not fit.
    """
    shape = define.shape_of(a)
    if define.shape_of(weights) == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normal_axes(axis, len(shape))
    if define.shape_of(weights) != tuple(shape[n] for n in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    if len(axes) > 1:  # in the order of the axes of ``a``
        weights = np.transpose(weights, sorted(range(len(axes)), key=axes.__getitem__))
    line = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    return np.reshape(weights, line)


@implements(np.average)
def average(
    a: Array,
    axis: Axis = None,
    weights: Array | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """Return the weighted mean along axes, differentiable in the weights too."""
    a = admit(a)
    weights = define.admit_like(weights, a)
    if weights is None:
        y = np.mean(a, axis=axis, keepdims=keepdims)
        return (y, np.full_like(y, reductions.count(a, axis))) if returned else y
    weights = align_weights(weights, a, axis)
    if define.dtype_of(a).kind in "biu":
        a = a.astype(np.float64)
    weights = np.broadcast_to(weights, define.shape_of(a))
    narrow = np.result_type(define.dtype_of(a), define.dtype_of(weights))
    weights = reductions.promote_half(weights.astype(narrow))
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    value = value_of(total)
    if value is not None and bool(np.any(value == 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    y = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    if define.dtype_of(weights) != narrow:
        y = y.astype(narrow)
        total = total.astype(narrow) if returned else None
    return (y, total) if returned else y


# Covariance


def _variables(x: Array, name: str, rowvar: bool, dtype: npt.DTypeLike | None) -> Array:
    """Return one variable a row."""
    rank = len(define.shape_of(x))
    if rank > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    rows = np.reshape(x, (1, -1)) if rank < 2 else x
    if not rowvar and (define.shape_of(rows)[0] != 1 if name == "y" else rank != 1):
        rows = np.transpose(rows)
    return rows.astype(dtype)


def _sample_weights(w: Array, name: str, rows: Array) -> Array:
    w, length = define.admit_like(w, rows).astype(np.float64), define.shape_of(rows)[1]
    if len(define.shape_of(w)) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if always_differ(define.shape_of(w), (length,)):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    value = value_of(w)
    if value is not None and name == "fweights" and np.any(value != np.rint(value)):
        raise TypeError("fweights must be integer")
    if value is not None and bool(np.any(value < 0)):
        raise ValueError(f"{name} cannot be negative")
    return w


def _cov_lengths(
    m: Array, y: Array | None = None, rowvar: bool = True, *rest: Any, **settings: Any
) -> Shape:
    def rows(x: ArrayLike) -> int | Dim:
        shape = operand_shape(x)
        return 1 if len(shape) < 2 else shape[0 if rowvar else 1]

    n = rows(m) + (0 if y is None else rows(y))
    return () if not isinstance(n, Dim) and n == 1 else (n, n)


@implements(np.cov, lengths=_cov_lengths)
def cov(
    m: Array,
    y: Array | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """Return the covariance matrix, differentiable in the data and ``aweights``."""
    m, y = admit(m), admit(y)
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    if dtype is None:
        given = [define.dtype_of(x) for x in (m, y) if x is not None]
        dtype = np.result_type(*given, np.float64)
    rows = _variables(m, "m", rowvar, dtype)
    if y is not None:
        rows = np.concatenate([rows, _variables(y, "y", rowvar, dtype)])
    length = define.shape_of(rows)[1]
    if ddof is None:
        ddof = 0 if bias else 1
    w = _sample_weights(fweights, "fweights", rows) if fweights is not None else None
    if aweights is not None:
        aweights = _sample_weights(aweights, "aweights", rows)
        w = aweights if w is None else w * aweights
    if w is None:
        freedom: Any = length - ddof
        middle = np.mean(rows, axis=1, keepdims=True)
        if isinstance(freedom, Dim):
            freedom = largest(freedom, 0)
        elif freedom <= 0:
            warnings.warn(
                "Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2
            )
            freedom = 0
    else:
        total = np.sum(w)
        middle = np.sum(rows * w, axis=1, keepdims=True) / total
        freedom = total
        if ddof:
            lost = 1 if aweights is None else np.sum(w * aweights) / total
            freedom = total - ddof * lost
    rows = rows - middle
    turned = np.transpose(rows if w is None else rows * w)
    scale = math.inf if w is None and is_zero_length(freedom) else 1 / freedom
    made = np.squeeze(rows @ conjugate(turned)) * scale
    return made if define.dtype_of(made) == np.dtype(dtype) else made.astype(dtype)


@implements(np.corrcoef, lengths=_cov_lengths)
def corrcoef(
    x: Array,
    y: Array | None = None,
    rowvar: bool = True,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """Return correlations; the rounding cut off beyond 1 has no derivative."""
    c = cov(x, y, rowvar, dtype=dtype)
    if len(define.shape_of(c)) == 0:
        return c / c
    size = np.sqrt(np.real(np.diagonal(c)))
    c = c / size[:, None] / size[None, :]
    if define.dtype_of(c).kind == "c":
        return _clip_to_unit(np.real(c)) + 1j * _clip_to_unit(np.imag(c))
    return _clip_to_unit(c)


def _clip_to_unit(c: Array) -> Array:
    still = stop_gradient(c)
    return c - (still - np.clip(still, -1, 1))


# Quantiles and medians: positions in the order of the entries, then a gather.
#
# The order is found by one partial sort (`argpartition`) or sort; from it come the
# indices of the entries that NumPy would take, and only those are gathered. So the
# gradient goes to these entries and to no other, and at a tie to the one that the
# sort put there. A NaN in a slice is taken, as by NumPy; the `nan` forms count the
# others and leave the NaN behind, with gradient 0. Methods and their numbers: R. J.
# Hyndman and Y. Fan, "Sample quantiles in statistical packages" (1996).


#: The plotting positions alpha and beta of the continuous methods.
POSITIONS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
#: Methods that take one entry and mix no two.
DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
MIXING = ("linear", "midpoint", "averaged_inverted_cdf", *POSITIONS)


class _Lines(NamedTuple):
    """The slices to reduce as the last axis, and how the result is put together."""

    line: Any
    #: How many entries of each slice count: a number, or an array with a last axis.
    size: Any
    axes: tuple[int, ...]
    keepdims: bool
    #: What sorts each slice; None until it is known which positions are wanted.
    order: Any = None


def _lines(a: Array, axis: Axis, keepdims: bool, skip: bool) -> _Lines:
    rank = len(define.shape_of(a))
    if axis is not None:
        several = axis if isinstance(axis, (tuple, list)) else (axis,)
        axis = np.lib.array_utils.normalize_axis_tuple(tuple(several), rank)
    axes = reductions.reduced_axes(axis, rank)
    line = _flat(a, axes)
    size: Any = define.shape_of(line)[-1]
    order = None
    if skip and define.dtype_of(a).kind in "fc":
        missing = np.isnan(line)
        size = np.sum(~missing, axis=-1, keepdims=True)
        # What is skipped passes nothing back, not even 0, which times inf is NaN.
        line = np.where(missing, np.nan, line)
        order = np.argsort(line, axis=-1)
    return _Lines(line, size, axes, keepdims, order)


def _flat(a: Array, axes: tuple[int, ...]) -> Array:
    """Return the reduced axes as one, the last."""
    shape = define.shape_of(a)
    kept = [n for n in range(len(shape)) if n not in axes]
    rows = tuple(shape[n] for n in kept)
    order = (*kept, *axes)
    turned = a if order == tuple(range(len(shape))) else np.transpose(a, order)
    return np.reshape(turned, (*rows, reductions.count(a, axes)))


def _gather(lines: _Lines, *positions: Any) -> list[Any]:
    """Return the entries at these positions of the sorted slices; a NaN where one is.

    Positions are integers or arrays of integers with the slices' last axis.
    """
    line, order = lines.line, lines.order
    length = define.shape_of(line)[-1]
    fixed = all(isinstance(p, (int, np.ndarray)) for p in positions)
    spreads = order is None and define.dtype_of(line).kind in "fc"
    if order is None and fixed:
        wanted = {int(p) for part in positions for p in np.ravel(part)}
        kth = sorted(wanted | ({length - 1} if spreads else set()))
        order = np.argpartition(line, kth, axis=-1)
    elif order is None:
        order = np.argsort(line, axis=-1)
    if spreads:  # NaN is sorted to the end
        last = order[..., -1:]
        spoiled = np.isnan(np.take_along_axis(line, last, -1))
    found = []
    for p in positions:
        if isinstance(p, (int, np.ndarray)):
            entry = order[..., np.atleast_1d(p)]
        elif isinstance(p, Dim):
            entry = order[..., p][..., None]
        else:
            p = p if define.shape_of(p) else np.reshape(p, (1,))
            wide = (*define.shape_of(line)[:-1], define.shape_of(p)[-1])
            entry = np.take_along_axis(order, np.broadcast_to(p, wide), -1)
        if spreads:
            entry = np.where(spoiled, last, entry)
        found.append(np.take_along_axis(line, entry, -1))
    return found


def _arrange_quantiles(y: Array, lines: _Lines, shape: tuple[int, ...]) -> Array:
    """Return the axis of the quantiles in front, in the shape of ``q``."""
    rows = define.shape_of(y)[:-1]
    y = np.reshape(moveaxis(y, -1, 0), shape + rows)
    if not lines.keepdims:
        return y
    return np.expand_dims(y, tuple(n + len(shape) for n in lines.axes))


# median


def _answer_median(name: str, *, skip: bool) -> None:
    """Answer `numpy.median`: the gradient goes to the middle entry, or middle two."""

    @implements(getattr(np, name))
    def answer(
        a: Array,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Array:
        a = admit(a)
        if define.dtype_of(a).kind in "biu":
            a = a.astype(float)
        lines = _lines(a, axis, keepdims, skip)
        y = _arrange_quantiles(_middle(lines), lines, ())
        value = value_of(a)
        if not isinstance(value, np.ndarray) or not value.size:
            return y
        part = slice(1) if keepdims else 0  # a mean of rows: they lie as those of a
        rank = len(define.shape_of(a))
        index = tuple(part if n in lines.axes else slice(None) for n in range(rank))
        return lay_like(y, value[index])


def _middle(lines: _Lines) -> Array:
    size, longest = lines.size, define.shape_of(lines.line)[-1]
    if is_zero_length(longest):
        return np.mean(lines.line, axis=-1, keepdims=True)
    if isinstance(size, (int, Dim)):
        low, high = (size - 1) // 2, size // 2
    else:
        low, high = np.maximum(size - 1, 0) // 2, size // 2
        high = np.minimum(high, longest - 1)
    if isinstance(size, int) and low == high:
        return _gather(lines, low)[0]
    first, second = _gather(lines, low, high)
    return (first + second) / 2


_answer_median("median", skip=False)
_answer_median("nanmedian", skip=True)


# quantile and percentile


def _position(method: str, n: Array | float, q: Array) -> Array:
    """Return the place of a quantile among ``n`` sorted entries, counted from 0."""
    if method in POSITIONS:
        alpha, beta = POSITIONS[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    if method == "averaged_inverted_cdf":
        return n * q - 1
    if method == "inverted_cdf":
        return np.maximum(np.ceil(n * q - 1), 0)
    if method == "closest_observation":
        place = n * q - 1.5
        below = np.floor(place)
        stays = (place == below) & (below % 2 == 1)
        return np.maximum(np.where(stays, below, below + 1), 0)
    place = (n - 1) * q
    if method == "midpoint":
        return 0.5 * (np.floor(place) + np.ceil(place))
    rounded = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}
    return rounded[method](place) if method in rounded else place


def _share(method: str, part: Any) -> Array:
    """Return the share of the upper entry, from the fraction of the position."""
    if method == "averaged_inverted_cdf":
        return np.where(part == 0, 0.5, 1.0)
    if method == "midpoint":
        return np.where(part == 0, 0.0, 0.5)
    return part


def _check_quantile(
    a: Array, q: Array, method: str, weights: Array | None, whole: int
) -> None:
    if define.dtype_of(a).kind == "c":
        raise TypeError("a must be an array of real numbers")
    value = value_of(q)
    if value is not None and not bool(np.all((value >= 0) & (value <= 1))):
        name = "Quantiles" if whole == 1 else "Percentiles"
        raise ValueError(f"{name} must be in the range [0, {whole}]")
    if method not in DISCRETE + MIXING:
        raise ValueError(
            f"{method!r} is not a valid method. Use one of: {DISCRETE + MIXING}"
        )
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    if len(define.shape_of(q)) > 2:
        raise ValueError("q must be a scalar or 1d")


def _quantile(
    a: Array,
    q: Array,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: Array | None,
    whole: int,
    skip: bool,
) -> Array:
    a, q = admit(a), admit(q)
    light = is_weak(value_of(q))  # a Python number decides no dtype
    if whole != 1:
        q = q / whole
    _check_quantile(a, q, method, weights, whole)
    lines = _lines(a, axis, keepdims, skip)
    shape = define.shape_of(q)
    plain = shape == () and not isinstance(q, Tensor)
    flat = q if plain else np.reshape(q, (-1,))
    if shape and (skip or weights is not None):  # it meets arrays, not numbers
        flat = define.convert_like(flat, lines.line)
    if weights is not None:
        return _weighted_quantile(
            lines, define.admit_like(weights, a), a, flat, shape, axis
        )
    place = _position(method, lines.size, flat)
    exact = define.dtype_of(place).kind in "iu"  # of q = 0 or q = 1, as integers
    last = lines.size - 1
    below = place if exact else np.floor(place)
    low = np.clip(below, 0, last if isinstance(last, int) else np.maximum(last, 0))
    if method in DISCRETE or exact:
        (y,) = _gather(lines, _as_indices(low))
        return _arrange_quantiles(y, lines, shape)
    high = np.minimum(low + 1, np.maximum(last, 0))
    high = np.where(below < 0, low, high)
    share = _share(method, place - below)
    # From the nearer of the two, as NumPy does it, so that 1 gives the upper one.
    upper = share >= 0.5
    base = np.where(upper, high, low)
    share = np.where(upper, share - 1, share)
    first, second, start = _gather(lines, *map(_as_indices, (low, high, base)))
    y = start + (second - first) * _cast_share(share, lines, light)
    return _arrange_quantiles(y, lines, shape)


def _as_indices(positions: Array | float) -> Array | int:
    """Return positions as indices; a known one as a number."""
    if isinstance(positions, (float, np.generic)):
        return int(positions)
    return positions.astype(np.intp)


def _cast_share(share: Array | float, lines: _Lines, light: bool) -> Array | float:
    """Return the factor of the upper entry in a dtype that promotes as NumPy's."""
    if isinstance(share, (float, np.floating, np.ndarray)):
        if np.ndim(share) == 0:
            return float(share) if light else share
        return define.convert_like(share, lines.line)
    kind = define.dtype_of(lines.line)
    return share.astype(kind) if light and kind.kind == "f" else share


def _weighted_quantile(
    lines: _Lines,
    weights: Array,
    a: Array,
    q: Array,
    shape: tuple[int, ...],
    axis: Axis,
) -> Array:
    """Return the first entry at which the running sum of the weights reaches ``q``."""
    weights = np.broadcast_to(align_weights(weights, a, axis), define.shape_of(a))
    heavy: Any = _flat(weights, lines.axes)
    value = value_of(heavy)
    if value is not None and bool(np.any(value < 0)):
        raise ValueError("Weights must be non-negative.")
    line = lines.line
    if lines.order is not None:
        heavy = np.where(np.isnan(line), 0, heavy)
    order: Any = np.argsort(line, axis=-1) if lines.order is None else lines.order
    run = np.cumsum(np.take_along_axis(heavy, order, -1), axis=-1, dtype=np.float64)
    total = run[..., -1:]
    wrong = value_of(((total == 0) | ~np.isfinite(total)) & np.greater(lines.size, 0))
    if wrong is not None and bool(np.any(wrong)):
        raise ValueError("Weights included NaN, inf or were all zero.")
    run = run / np.where(total == 0, 1, total)
    run = np.where(run == 0, -1, run)  # entries of weight 0 before the first
    bound = q[:, None] if define.shape_of(q) else q
    wide = run[..., None, :] < bound
    place = np.minimum(np.sum(wide, axis=-1), define.shape_of(line)[-1] - 1)
    (y,) = _gather(lines, place)
    return _arrange_quantiles(y, lines, shape)


def _answer_quantile(name: str, whole: int, *, skip: bool) -> None:
    """Answer `numpy.quantile`, differentiable in ``a`` and ``q``, not in the weights.

    >>> import numpy as np, workbench as wb
    >>> wb.grad(lambda x: np.quantile(x, 0.25))(np.array([3.0, 1.0, 2.0]))
    array([0. , 0.5, 0.5])
    """

    @implements(getattr(np, name))
    def answer(
        a: Array,
        q: Array,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Array | None = None,
    ) -> Array:
        y = _quantile(a, q, axis, method, keepdims, weights, whole, skip)
        if not skip and weights is None:
            return y
        if skip and np.ndim(q) == 1:  # those of a line lie side by side
            return moveaxis(lay_out(moveaxis(y, 0, -1), "C"), -1, 0)
        return lay_out(y, "C")


_answer_quantile("quantile", 1, skip=False)
_answer_quantile("percentile", 100, skip=False)
_answer_quantile("nanquantile", 1, skip=True)
_answer_quantile("nanpercentile", 100, skip=True)
