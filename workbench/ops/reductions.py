"""Reductions: many entries to few, along an axis, several, or all.

A reduction is written as its value and its weight, the partial derivative of
the result by each entry; both modes follow. Counts, and the sums that they divide,
are taken in float32 where the entries are float16 (`promote_half`). Variance,
averages and medians stand in `statistics.py`, running sums in `scans.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.dims import largest
from workbench.core.op import Op, Root, implements, note_traits
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, ArrayLike, Axis, Params, Spec
from workbench.ops import shaping
from workbench.ops.define import (
    Compute,
    convert_dtype,
    convert_for_mean,
    dtype_of,
    linear,
    op,
    shape_of,
)
from workbench.ops.elementwise import stop_gradient

_add: Any = np.add.reduce
#: NumPy's own, numbers too.
PLAIN = (np.ndarray, np.generic)
#: With fewer entries a copy is made faster than a view by `np.broadcast_to`.
FEW = 1000


# What all reductions share


def reduced_axes(axis: Axis, rank: int) -> tuple[int, ...]:
    """Return the axes that a reduction runs over, ascending and from 0."""
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(n % rank for n in axes))


def settings(axis: Axis, keepdims: Any = False, of: Any = None, **more: Any) -> Params:
    """Return the params of a reduction, hashable, without NumPy's defaults.

    ``of`` is what is reduced: a number has an axis 0, as NumPy sees it.
    """
    if axis is not None and type(axis) is not int:
        axis = (
            tuple(map(operator.index, axis))
            if isinstance(axis, (tuple, list))
            else operator.index(axis)
        )
    if axis in (0, -1, (0,), (-1,)) and getattr(of, "shape", None) == ():
        axis = None
    params: Params = {} if axis is None else {"axis": axis}
    if keepdims:
        params["keepdims"] = True
    params.update((k, v) for k, v in more.items() if v not in (None, 0))
    return params


def expand(
    g: Array, x: Array, *, axis: Axis = None, keepdims: bool = False, **_: Any
) -> Array:
    """Put the reduced axes back, of length 1, into a result of a reduction of ``x``."""
    if keepdims or shape_of(g) == ():
        return g
    shape = shape_of(x)
    axes = reduced_axes(axis, len(shape))
    return np.reshape(g, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def batch_reduction(op: Op) -> Callable[..., Any]:
    """Return the batch rule of a reduction: each axis one further."""

    def batch(
        inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Array:
        rank = len(shape_of(inputs[0])) - 1
        axes = tuple(n + 1 for n in reduced_axes(params.get("axis"), rank))
        return apply(op, inputs, {**params, "axis": axes})

    return batch


def reduced_shape(
    x: Array, *, axis: Axis = None, keepdims: bool = False, **_: Any
) -> tuple[Any, ...]:
    """Return the shape of a reduction; lengths may be unknown."""
    shape = shape_of(x)
    axes = reduced_axes(axis, len(shape))
    return tuple(
        1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes
    )


def lengths_of(compute: Compute) -> Callable[..., Spec]:
    """Return a function that gives the spec of a reduction at unknown lengths."""

    @cache
    def reduced(dtype: np.dtype[Any]) -> np.dtype[Any]:
        made: np.dtype[Any] = compute(np.ones(1, dtype)).dtype  # host array: its dtype
        return made

    return lambda x, **params: Spec(reduced_shape(x, **params), reduced(dtype_of(x)))


def reduction(
    name: str,
    compute: Compute,
    weight: Callable[..., Any],
    *,
    rule: str,
    reads: tuple[int | str, ...] = (0, "y"),
    lengths: Callable[..., Any] = reduced_shape,
    **more: Any,
) -> Op:
    """Declare a reduction by its weight.

    ``weight(y, x, **params)`` is the partial derivative of the result by each entry
    of ``x``, in the shape of ``x``; ``y`` has the reduced axes with length 1.
    ``traits`` are those of the op (`Traits`).
    """

    def pull(g: Array, y: Array, x: Array, **params: Any) -> Array:
        return expand(g, x, **params) * weight(expand(y, x, **params), x, **params)

    def push(tangents: tuple[Any, ...], y: Array, x: Array, **params: Any) -> Array:
        moved = tangents[0] * weight(expand(y, x, **params), x, **params)
        return _sum_moved(moved, params)

    made = op(
        name, compute, pull, push=push, rule=rule, reads=reads, lengths=lengths,
        kind="reduction", **more,
    )  # fmt: skip
    made.batch = batch_reduction(made)
    return made


def _sum_moved(moved: Array, params: Params) -> Array:
    axis, keepdims = params.get("axis"), params.get("keepdims", False)
    return np.sum(moved, axis=axis, keepdims=keepdims)


def reduced_root(text: str, weight: Callable[..., Any], squares: bool = False) -> Root:
    """Return the `Root` of a reduction: the square of its output is smooth.

    ``weight(x, **params)`` is the partial derivative of half its square by each entry,
    ``text`` the same in mathematics; ``squares`` as `Root` has it.
    """

    def pull(
        mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
    ) -> tuple[Any, ...]:
        return (expand(g, inputs[0], **params) * weight(inputs[0], **params),)

    def push(
        tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
    ) -> Array:
        return _sum_moved(tangents[0] * weight(inputs[0], **params), params)

    return Root(lambda: (pull, push), f"(g / y) · {text}", squares)


def can_reduce(x: Array, kinds: str = "fc") -> bool:
    """Return whether the bodies of reductions are right for entries of these kinds.

    They are not for float16, which NumPy adds up in float32, and for no entries.
    """
    dtype = dtype_of(x)
    return dtype.kind in kinds and dtype.char != "e" and 0 not in shape_of(x)


def count(x: Array, axis: Axis) -> Array:
    """Return how many entries make one of the result: an integer, or a length."""
    shape = shape_of(x)
    return math.prod(shape[n] for n in reduced_axes(axis, len(shape)))


def wide_dtype(x: Array) -> np.dtype[Any]:
    """Return the dtype in which entries of ``x`` are counted: float32 for float16.

    A count beyond 65,504 is infinite in float16, and its reciprocal has lost digits
    from 16,384 on. What is made of counts is rounded to float16 once, at its end.
    """
    dtype = dtype_of(x)
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def promote_half(x: Array) -> Array:
    """Return float16 entries in float32, all others as they are."""
    return x.astype(np.float32) if dtype_of(x).char == "e" else x


# sum and mean


def _sum_compute(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    if type(x) is np.ndarray:  # half of what np.sum takes on few entries
        return _add(x, axis, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims)


def _sum_transpose(g: Array, x: Array, **params: Any) -> Array:
    g = expand(g, x, **params) if params else g
    if type(x) is np.ndarray and x.size < FEW and isinstance(g, PLAIN):
        made = np.empty(x.shape, g.dtype)  # host array: as both are
        made[...] = g
        return made
    return np.broadcast_to(g, shape_of(x))


_sum_op = linear(
    "sum",
    _sum_compute,
    _sum_transpose,
    rule="g to every entry",
    lengths=lengths_of(_sum_compute),
    kind="reduction",
    combines=np.add,
    sums=True,
    grows=True,
    analytic=True,
)
_sum_op.batch = batch_reduction(_sum_op)


@implements(np.sum)
def sum_(
    a: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: Array | bool = True,
) -> Array:
    """Sum along axes, as `numpy.sum` does."""
    if dtype is not None:
        a = convert_dtype(a, dtype)
    if where is not True:
        a = np.where(where, a, 0)
    whole = axis is None and keepdims is False
    y = apply(_sum_op, (a,), {} if whole else settings(axis, keepdims, a))
    return y if initial is None else y + initial


def _mean_transpose(
    g: Array, x: Array, *, axis: Axis = None, keepdims: bool = False
) -> Array:
    wide = promote_half(g)
    share = wide / largest(count(x, axis), 1)
    if wide is not g:  # rounded before it is spread
        share = share.astype(g.dtype)
    return np.broadcast_to(expand(share, x, axis=axis, keepdims=keepdims), shape_of(x))


def _mean_body(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if not can_reduce(x, "fcbiu"):
        return None
    x = x.astype(float) if x.dtype.kind in "biu" else x
    number: Any = count(x, axis)
    return np.sum(x, axis=axis, keepdims=keepdims) / float(number)


_mean_op = linear(
    "mean",
    np.mean,
    _mean_transpose,
    rule="g / n to every entry",
    lengths=lengths_of(np.mean),
    unfold=_mean_body,
    kind="reduction",
    sums=True,
    grows=True,
    analytic=True,
    aliases=("average",),
)
_mean_op.batch = batch_reduction(_mean_op)


@implements(np.mean)
def mean(
    a: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Array | bool = True,
) -> Array:
    """Return the mean along axes, as `numpy.mean` does."""
    if dtype is not None:
        a = convert_for_mean("np.mean", a, dtype)
    if where is not True:
        wide = promote_half(a)
        total = np.sum(wide, axis=axis, keepdims=keepdims, where=where)  # a Tensor: so
        y = total / count_chosen(wide, where, axis, keepdims)
        return y if wide is a else y.astype(a.dtype)
    return apply(_mean_op, (a,), settings(axis, keepdims, a))


def count_chosen(a: Array, where: Array | bool, axis: Axis, keepdims: bool) -> Array:
    """Count the entries that ``where`` lets through, in the real dtype of ``a``."""
    dtype = np.finfo(a.dtype).dtype if a.dtype.kind in "fc" else float
    chosen = shaping.broadcast_to(admit(where), shape_of(a))
    return np.sum(chosen, axis=axis, keepdims=keepdims, dtype=dtype)


# Products


def _product_of_others(y: Array, x: Array, *, axis: Axis = None, **_: Any) -> Array:
    """Return for each entry the product of all others; right where some are 0."""
    shape = shape_of(x)
    axes = reduced_axes(axis, len(shape))
    if not axes:
        return np.ones_like(x)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        size, limits = np.abs(y), np.finfo(y.dtype)
        # Where no entry can be 0 a division does, in a quarter of the time.
        if bool(np.all((size > limits.tiny) & (size < limits.max))):
            return y / x
    kept = tuple(n for n in range(len(shape)) if n not in axes)
    order = kept + axes
    rows = tuple(shape[n] for n in kept)
    line = np.reshape(np.transpose(x, order), (*rows, count(x, axis)))
    one = np.ones_like(line[..., :1])
    before = np.cumprod(np.concatenate([one, line[..., :-1]], axis=-1), axis=-1)
    turned = np.flip(line, axis=-1)
    after = np.cumprod(np.concatenate([one, turned[..., :-1]], axis=-1), axis=-1)
    others = np.reshape(before * np.flip(after, axis=-1), [shape[n] for n in order])
    return np.transpose(others, [order.index(n) for n in range(len(shape))])


_prod_op = reduction(
    "prod",
    np.prod,
    _product_of_others,
    rule="g times the product of the others",
    reads=(0,),
    combines=np.multiply,
    grows=True,
)


@implements(np.prod)
def prod(
    a: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: Array | bool = True,
) -> Array:
    """Multiply along axes; the derivative is right where entries are 0."""
    if dtype is not None:
        a = convert_dtype(a, dtype)
    if where is not True:
        a = np.where(where, a, 1)
    y = apply(_prod_op, (a,), settings(axis, keepdims, a))
    return y if initial is None else y * initial


# logsumexp


def _logsumexp_compute(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    if 0 in x.shape:
        with np.errstate(divide="ignore"):
            return np.log(np.sum(x, axis=axis, keepdims=keepdims))
    largest = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore", over="ignore"):  # log(0) where all are -inf
        powers = np.exp(x - shift)
        wide = promote_half(powers)
        total = np.sum(wide, axis=axis, keepdims=keepdims)
        y = np.log(total) + (shift if keepdims else np.reshape(shift, total.shape))
        return y if wide is powers else y.astype(powers.dtype)


def _softmax(y: Array, x: Array, **_: Any) -> Array:
    # Where all entries are -inf, exp(-inf - 0) and not exp(-inf + inf).
    return np.exp(x - np.where(np.equal(y, -np.inf), 0, y))


def _logsumexp_body(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return the same by the largest entry, which is taken as 0 if infinite."""
    if not can_reduce(x, "f"):
        return None
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.sum(np.exp(x - largest), axis=axis, keepdims=keepdims)
    return np.log(total) + np.reshape(largest, total.shape)


_logsumexp_op = reduction(
    "logsumexp",
    _logsumexp_compute,
    _softmax,
    rule="g · exp(x − y)",
    unfold=_logsumexp_body,
    grows=True,
)
_logsumexp_op.helper = '''\
def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) without overflow."""
    shift = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=keepdims))
    return total + (shift if keepdims else np.reshape(shift, total.shape))
'''


def logsumexp(
    a: Array,
    axis: Axis = None,
    b: Array | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Array | tuple[Array, Any]:
    """Return ``log(sum(b * exp(a)))`` without overflow, as `scipy.special.logsumexp`.

    SciPy's own function cannot be traced; this one takes arrays too.

    Parameters
    ----------
    a
        An array or Tensor of floats.
    axis
        The axis, or tuple of axes, to sum over; all by default.
    b
        Factors of the exponentials, broadcast against ``a``.
    keepdims
        Keep the reduced axes with length 1.
    return_sign
        Return ``(log of the magnitude, sign)``, for sums that can be negative.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> float(wb.logsumexp(np.array([1000.0, 1000.0])))
    1000.6931471805599
    """
    a = admit(a)
    if b is None and not return_sign:
        return apply(_logsumexp_op, (a,), settings(axis, keepdims, a))
    factor: Any = np.ones_like(a) if b is None else b
    nothing = np.equal(factor, 0)  # but the sum moves with the factor
    largest = stop_gradient(
        np.max(np.where(nothing, -np.inf, a), axis=axis, keepdims=True)
    )
    shift = np.where(np.isfinite(largest), largest, 0)
    power = np.where(nothing & np.isnan(a), -np.inf, a) - shift
    if b is not None and dtype_of(power).kind == "f":  # 0 times infinity is not 0
        power = np.minimum(power, math.log(np.finfo(dtype_of(power)).max) - 1)
    parts = factor * np.exp(power)
    wide = promote_half(parts)
    total = np.sum(wide, axis=axis, keepdims=keepdims)
    if not keepdims:
        shift = np.reshape(shift, shape_of(total))
    y = np.log(np.abs(total) if return_sign else total) + shift
    sign = np.sign(total) if return_sign else None
    if wide is not parts:
        y = y.astype(parts.dtype)
        sign = None if sign is None else sign.astype(parts.dtype)
    return (y, sign) if return_sign else y


# The largest and the smallest entry: `max`, `min`, `ptp`.
#
# Ties share the gradient evenly. Where the extremes stand (`argmax`) says
# `sorting.py`; of two arrays, entry by entry, the larger one, `elementwise.py`.


def _extremum(name: str, function: Callable[..., Any], larger: np.ufunc) -> Op:
    """Declare `numpy.max` or `numpy.min`; ``larger`` is that of two."""

    def compute(
        x: Array,
        *,
        axis: Axis = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
    ) -> Array:
        if initial is None:
            return function(x, axis=axis, keepdims=keepdims)
        if not isinstance(x, np.ndarray | np.generic):
            # CuPy's have no initial=; of nothing the sum is 0.
            if 0 in shape_of(x):
                nothing = np.sum(x, axis=axis, keepdims=keepdims)
                return np.full_like(nothing, initial)
            return larger(function(x, axis=axis, keepdims=keepdims), initial)
        return function(x, axis=axis, keepdims=keepdims, initial=initial)

    def weight(
        y: Array,
        x: Array,
        *,
        axis: Axis = None,
        initial: ArrayLike | None = None,
        **_: Any,
    ) -> Array:
        hit = np.equal(x, y)
        axes = reduced_axes(axis, len(shape_of(x)))
        ties = np.sum(hit, axis=axes, keepdims=True, dtype=wide_dtype(x))
        return hit / (ties if initial is None else ties + np.equal(y, initial))

    def body(x: Array, *, initial: ArrayLike | None = None, **params: Any) -> Any:
        if initial is None or not can_reduce(x, "fiu"):
            return None
        found = larger(function(x, **params), initial)
        return found if found.dtype == x.dtype else None

    return reduction(
        name,
        compute,
        weight,
        rule=f"g to the {name}imum, shared evenly at a tie",
        partials=("x == y",),
        lengths=lengths_of(compute),
        unfold=body,
        combines=larger,
    )


_extrema = {
    "max": _extremum("max", np.max, np.maximum),
    "min": _extremum("min", np.min, np.minimum),
}
note_traits("max", picks=">", aliases=("amax",))
note_traits("min", picks="<", aliases=("amin",))


def _answer_extremum(name: str, *functions: Any) -> None:
    """Answer `numpy.max` or `numpy.min`; entries that tie share the gradient evenly."""
    limit = np.maximum if name == "max" else np.minimum

    @implements(*functions)
    def answer(
        a: Array,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: Array | bool = True,
    ) -> Array:
        if where is not True:
            if initial is None:
                raise ValueError(
                    f"np.{name}(where=...) needs initial=, the result where nothing is"
                    " chosen: -np.inf for max, np.inf for min"
                )
            a = np.where(where, a, initial)
        if initial is not None and not isinstance(initial, (int, float)):
            return limit(answer(a, axis, None, keepdims), initial)
        params = settings(axis, keepdims, a)
        if initial is not None:
            params["initial"] = initial
        return apply(_extrema[name], (a,), params)


_answer_extremum("max", np.max, np.amax)
_answer_extremum("min", np.min, np.amin)


@implements(np.ptp)
def ptp(a: Array, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the largest entry less the smallest, as `numpy.ptp` does."""
    largest = np.max(a, axis=axis, keepdims=keepdims)
    return largest - np.min(a, axis=axis, keepdims=keepdims)


# Reductions that skip NaN: it is replaced by what changes nothing.
#
# A NaN has gradient 0, in both modes and in all orders, since what flows through
# `where` is masked.


def _replace_nan(a: Array, neutral: float) -> Array:
    """Return the array with its NaN replaced; integers have none."""
    if dtype_of(a).kind not in "fc":
        return a
    return np.where(np.isnan(a), neutral, a)


def _mask_present(a: Array, where: Array | bool) -> Array:
    """Return where an entry counts."""
    return ~np.isnan(a) if where is True else ~np.isnan(a) & where


def _answer_without_nan(name: str, neutral: float, *, counted: bool) -> None:
    """Answer a function that skips NaN by NumPy's own, with ``neutral`` in place.

    Where entries are ``counted``, a NaN is not one of them.
    """
    plain: Any = getattr(np, name[3:])

    @implements(getattr(np, name))
    def answer(
        a: Array,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        *rest: Any,
        **more: Any,
    ) -> Array:
        if counted:
            more["where"] = _mask_present(a, more.get("where", True))
        return plain(_replace_nan(a, neutral), axis, dtype, None, *rest, **more)


for _name in ("nansum", "nanprod", "nancumsum", "nancumprod"):
    _answer_without_nan(_name, 1 if "prod" in _name else 0, counted=False)
for _name in ("nanmean", "nanvar", "nanstd"):
    _answer_without_nan(_name, 0, counted=True)


def _present_extremum(
    name: str, fast: np.ufunc, function: Callable[..., Any], plain: Compute
) -> Op:
    """Declare the largest or smallest entry that is not NaN; NaN where none is."""

    def compute(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
        if type(x) is np.ndarray:  # and no warning of what the docstring tells
            return fast.reduce(x, axis=axis, keepdims=keepdims)
        return function(x, axis=axis, keepdims=keepdims)

    def weight(y: Array, x: Array, *, axis: Axis = None, **_: Any) -> Array:
        hit = np.equal(x, y)
        axes = reduced_axes(axis, len(shape_of(x)))
        ties = np.sum(hit, axis=axes, keepdims=True, dtype=wide_dtype(x))
        return hit / np.where(np.equal(ties, 0), 1, ties)

    def body(x: Array, **params: Any) -> Any:
        if not can_reduce(x, "f"):
            return None
        missing = np.isnan(x)
        worst = np.inf if plain is np.min else -np.inf
        found = plain(np.where(missing, worst, x), **params)
        return np.where(np.all(missing, **params), np.nan, found)

    rule = f"g to the {name[3:]}imum, shared evenly at a tie"
    return reduction(
        name, compute, weight, rule=rule, unfold=body, partials=("x == y",)
    )


_nan_extrema = {
    "max": _present_extremum("nanmax", np.fmax, np.nanmax, np.max),
    "min": _present_extremum("nanmin", np.fmin, np.nanmin, np.min),
}


def _answer_nan_extremum(name: str, worst: float) -> None:
    """Answer `numpy.nanmax` or `numpy.nanmin`; ties share the gradient evenly."""
    plain: Any = getattr(np, name)

    @implements(getattr(np, f"nan{name}"))
    def answer(
        a: Array,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: Array | bool = True,
    ) -> Array:
        if dtype_of(a).kind in "fc" and initial is None and where is True:
            # Still NaN, and yet nothing flows back to it, whatever made it.
            a = np.where(np.isnan(a), np.nan, a)
            return apply(_nan_extrema[name], (a,), settings(axis, keepdims, a))
        given = {} if initial is None else {"initial": initial}
        return plain(
            _replace_nan(a, worst), axis, keepdims=keepdims, where=where, **given
        )


note_traits("nanmax", picks=">")
note_traits("nanmin", picks="<")
_answer_nan_extremum("max", -np.inf)
_answer_nan_extremum("min", np.inf)
