"""What JAX's primitives mean in NumPy.

A row stands under the primitive's name. It gets the operands, arrays or Tensors, and
the primitive's parameters by name; it returns the output, or a list of several;
`NotImplemented` where it does not know these parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special

from workbench.core.tensor import Tensor
from workbench.models.rows import Rows, Rule, sort_entries
from workbench.ops.conv import apply_conv
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.linalg.systems import triangular
from workbench.ops.updates import at

#: The rows, by the names of JAX's primitives.
RULES = Rows()
row = RULES.enter


def cast(x: Any, dtype: Any) -> Any:
    """Return an array as one of another dtype; of complex numbers the real part."""
    wanted = np.dtype(dtype)
    if dtype_of(x).kind == "c" and wanted.kind not in "cb":
        x = np.real(x)
    return x if dtype_of(x) == wanted else x.astype(wanted)


# One number each

ELEMENTWISE: dict[str, Rule] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "atan2": np.arctan2,
    "cbrt": np.cbrt, "ceil": np.ceil, "conj": np.conjugate, "cos": np.cos,
    "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "floor": np.floor, "imag": np.imag, "real": np.real, "log": np.log,
    "log1p": np.log1p, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "sign": np.sign, "square": np.square, "add": np.add,
    "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "pow": np.power, "rem": np.fmod, "neg": np.negative, "nextafter": np.nextafter,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "is_finite": np.isfinite,
    "add_any": np.add, "not": np.invert, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "erf_inv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma,
    "igamma": scipy.special.gammainc, "igammac": scipy.special.gammaincc,
    "zeta": scipy.special.zeta, "logistic": scipy.special.expit,
    "regularized_incomplete_beta": scipy.special.betainc,
    "bessel_i0e": scipy.special.i0e, "bessel_i1e": scipy.special.i1e,
}  # fmt: skip


def _enter_elementwise() -> None:
    for name, f in ELEMENTWISE.items():
        RULES[name] = lambda *xs, f=f, **_: f(*xs)
    for name in ("copy", "copy_p", "sharding_constraint", "name"):
        RULES[name] = lambda x, **_: x
    for name in ("optimization_barrier", "device_put"):
        RULES[name] = lambda *xs, **_: list(xs)


_enter_elementwise()


@row("stop_gradient")
def _stop(x: Any, **_: Any) -> Any:
    return stop_gradient(x)


@row("reduce_precision")
def _reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    known = np.finfo(dtype_of(x))
    if known.nmant > mantissa_bits or known.nexp > exponent_bits:
        return NotImplemented
    return x


@row("abs")
def _abs(x: Any, **_: Any) -> Any:
    if dtype_of(x).kind != "f":
        return np.abs(x)
    # At 0 the slope is 1, as in JAX; the sum makes -0 the 0 that an absolute value is.
    return np.where(x >= 0, x, -x) + 0.0


@row("rsqrt")
def _rsqrt(x: Any, **_: Any) -> Any:
    return 1 / np.sqrt(x)


@row("integer_pow")
def _integer_power(x: Any, y: int, **_: Any) -> Any:
    return np.square(x) if y == 2 else x**y


@row("round")
def _round(x: Any, rounding_method: Any = 1, **_: Any) -> Any:
    if int(rounding_method) != 1:  # halves away from zero
        return np.copysign(np.floor(np.abs(x) + 0.5), x)
    return np.round(x)


@row("complex")
def _complex(a: Any, b: Any, **_: Any) -> Any:
    return a + b * np.asarray(1j, np.result_type(dtype_of(a), np.complex64))


@row("clamp")
def _clamp(low: Any, x: Any, high: Any, **_: Any) -> Any:
    # At a bound the slope is 0, to the bound too, as in JAX.
    x = np.where((low < x) & (x < high), x, stop_gradient(x))
    return np.where(x < low, low, np.where(x > high, high, x))


@row("convert_element_type")
def _convert(x: Any, new_dtype: Any, **_: Any) -> Any:
    return cast(x, new_dtype)


@row("div")
def _divide(x: Any, y: Any, **_: Any) -> Any:
    if dtype_of(x).kind in "iu":  # towards zero
        return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))
    return np.divide(x, y)


@row("select_n")
def _select(which: Any, *cases: Any) -> Any:
    if len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    y = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        y = np.where(which <= i, cases[i], y)
    return y


@row("polygamma")
def _polygamma(n: Any, x: Any, **_: Any) -> Any:
    if isinstance(n, Tensor):
        return NotImplemented
    sign = np.where(np.asarray(n) % 2 == 0, -1.0, 1.0)
    zeta = scipy.special.zeta(n + 1, x)
    y = sign * scipy.special.gamma(n + 1) * zeta
    return np.where(np.asarray(n) == 0, scipy.special.digamma(x), y)


# Shapes


@row("reshape")
def _reshape(x: Any, new_sizes: Any, dimensions: Any = None, **_: Any) -> Any:
    return np.reshape(
        x if dimensions is None else np.transpose(x, dimensions), new_sizes
    )


@row("squeeze")
def _squeeze(x: Any, dimensions: Any, **_: Any) -> Any:
    return np.squeeze(x, tuple(dimensions))


@row("expand_dims")
def _expand_dims(x: Any, dimensions: Any, **_: Any) -> Any:
    return np.expand_dims(x, tuple(dimensions))


@row("transpose")
def _transpose(x: Any, permutation: Any, **_: Any) -> Any:
    return np.transpose(x, permutation)


@row("rev")
def _reverse(x: Any, dimensions: Any, **_: Any) -> Any:
    return np.flip(x, tuple(dimensions))


@row("concatenate")
def _concatenate(*xs: Any, dimension: int, **_: Any) -> Any:
    return np.concatenate(xs, dimension)


@row("split")
def _split(x: Any, sizes: Any, axis: int, **_: Any) -> Any:
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


@row("broadcast_in_dim")
def _broadcast(x: Any, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    lengths = dict(zip(broadcast_dimensions, shape_of(x), strict=True))
    x = np.reshape(x, tuple(lengths.get(i, 1) for i in range(len(shape))))
    return x if shape_of(x) == tuple(shape) else np.broadcast_to(x, shape)


@row("slice")
def _slice(
    x: Any, start_indices: Any, limit_indices: Any, strides: Any = None, **_: Any
) -> Any:
    steps = strides or (1,) * len(start_indices)
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


@row("pad")
def _pad(x: Any, value: Any, padding_config: Any, **_: Any) -> Any:
    shape = shape_of(x)
    if any(gap for _, _, gap in padding_config):
        spread = [
            max((n - 1) * (gap + 1) + 1, 0)
            for n, (_, _, gap) in zip(shape, padding_config, strict=True)
        ]
        place = tuple(slice(None, None, gap + 1) for _, _, gap in padding_config)
        x = at(np.broadcast_to(value, spread))[place].set(x)
        shape = tuple(spread)
    x = x[
        tuple(
            slice(max(-low, 0), n + min(high, 0))
            for n, (low, high, _) in zip(shape, padding_config, strict=True)
        )
    ]
    widths = [(max(low, 0), max(high, 0)) for low, high, _ in padding_config]
    if not any(map(any, widths)):
        return x
    if not isinstance(value, Tensor):
        return np.pad(x, widths, constant_values=np.asarray(value)[()])
    shape = shape_of(x)
    full = [n + a + b for n, (a, b) in zip(shape, widths, strict=True)]
    place = tuple(slice(a, a + n) for n, (a, _) in zip(shape, widths, strict=True))
    return at(np.broadcast_to(value, full))[place].set(x)


# Reductions and sums so far


def _enter_reductions() -> None:
    reductions: dict[str, Rule] = {
        "reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min,
        "reduce_prod": np.prod, "reduce_and": np.all, "reduce_or": np.any,
    }  # fmt: skip
    for name, f in reductions.items():
        # A sum of small integers stays one.
        RULES[name] = lambda x, axes, f=f, **_: cast(f(x, tuple(axes)), dtype_of(x))
    for name, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        RULES[name] = lambda x, axes, index_dtype, f=f, **_: cast(
            f(x, axes[0]), index_dtype
        )
    cumulative: dict[str, Rule] = {
        "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate,
        "cummin": np.minimum.accumulate, "cumlogsumexp": np.logaddexp.accumulate,
    }  # fmt: skip
    for name, f in cumulative.items():
        RULES[name] = lambda x, axis, reverse, f=f, **_: _cumulate(f, x, axis, reverse)


def _cumulate(f: Rule, x: Any, axis: int, reverse: bool) -> Any:
    if reverse:
        return np.flip(f(np.flip(x, axis), axis), axis)
    return cast(f(x, axis), dtype_of(x))


_enter_reductions()


def _take_first(find: Rule) -> Rule:
    """Return a reduction to the entry found: the first of equal ones has the slope."""

    def reduce(x: Any, axis: tuple[int, ...]) -> Any:
        x = np.reshape(x, (*shape_of(x)[: axis[0]], -1))
        return np.take_along_axis(x, find(x, -1, keepdims=True), -1)[..., 0]

    return reduce


def _reduce_windows(reduce: Rule, fill: float) -> Rule:
    def compute(
        x: Any, *_: Any, window_dimensions: Any, window_strides: Any, padding: Any,
        base_dilation: Any, window_dilation: Any, **__: Any,
    ) -> Any:  # fmt: skip
        if set(base_dilation) != {1} or dtype_of(x).kind != "f":
            return NotImplemented
        widths = [(max(a, 0), max(b, 0)) for a, b in padding]
        if any(a < 0 or b < 0 for a, b in padding):
            return NotImplemented
        if any(map(any, widths)):
            x = np.pad(x, widths, constant_values=fill)
        full = [
            (n - 1) * gap + 1
            for n, gap in zip(window_dimensions, window_dilation, strict=True)
        ]
        rank = len(full)
        for axis, n in enumerate(full):
            x = np.lib.stride_tricks.sliding_window_view(x, n, axis)
        steps = (*window_strides, *window_dilation)
        x = x[tuple(slice(None, None, step) for step in steps)]
        return reduce(x, axis=tuple(range(rank, 2 * rank)))

    return compute


RULES["reduce_window_sum"] = _reduce_windows(np.sum, 0.0)
RULES["reduce_window_max"] = _reduce_windows(_take_first(np.argmax), -np.inf)
RULES["reduce_window_min"] = _reduce_windows(_take_first(np.argmin), np.inf)


@row("sort")
def _sort(*xs: Any, dimension: int, num_keys: int, **_: Any) -> Any:
    if num_keys > 1:
        return NotImplemented
    order = np.argsort(xs[0], dimension, kind="stable")
    return [np.take_along_axis(x, order, dimension) for x in xs]


@row("top_k")
def _top_k(x: Any, k: int, axis: int = -1, **_: Any) -> Any:
    found, places = sort_entries(x, axis, descending=True, count=k)
    return [found, places.astype(np.int32)]


# Products


@row("dot_general")
def _dot(
    x: Any, y: Any, dimension_numbers: Any, preferred_element_type: Any = None, **_: Any
) -> Any:
    (cx, cy), (bx, by) = dimension_numbers
    if preferred_element_type is not None:
        x, y = cast(x, preferred_element_type), cast(y, preferred_element_type)
    nx, ny = len(shape_of(x)), len(shape_of(y))
    if not bx and len(cx) == 1 and 1 <= nx <= 2 and 1 <= ny <= 2:
        # The spellings that are found as linear layers.
        a = x if cx[0] == nx - 1 else np.transpose(x)
        return np.matmul(a, y if cy[0] == 0 else np.transpose(y))
    if not bx:
        return np.tensordot(x, y, (tuple(cx), tuple(cy)))
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    left, right = [""] * nx, [""] * ny
    for i, j in (*zip(bx, by, strict=True), *zip(cx, cy, strict=True)):
        left[i] = right[j] = next(letters)
    left = [c or next(letters) for c in left]
    right = [c or next(letters) for c in right]
    kept = [left[i] for i in bx]
    kept += [c for i, c in enumerate(left) if i not in bx and i not in cx]
    kept += [c for i, c in enumerate(right) if i not in by and i not in cy]
    spelled = f"{''.join(left)},{''.join(right)}->{''.join(kept)}"
    return np.einsum(spelled, x, y)


@row("conv_general_dilated")
def _convolve(
    x: Any, w: Any, window_strides: Any, padding: Any, lhs_dilation: Any,
    rhs_dilation: Any, dimension_numbers: Any, feature_group_count: int,
    batch_group_count: int, **_: Any,
) -> Any:  # fmt: skip
    if len(window_strides) == 0:
        return NotImplemented
    lhs, rhs, out = dimension_numbers
    x, w = np.transpose(x, lhs), np.transpose(w, rhs)
    if batch_group_count > 1:  # the same as groups of channels
        n, c, *space = shape_of(x)
        groups = batch_group_count
        x = np.reshape(x, (groups, n // groups, c, *space))
        x = np.reshape(np.swapaxes(x, 0, 1), (n // groups, groups * c, *space))
    y = apply_conv(
        x, w, tuple(window_strides), tuple(map(tuple, padding)), tuple(rhs_dilation),
        tuple(lhs_dilation), max(feature_group_count, batch_group_count),
    )  # fmt: skip
    return np.transpose(y, tuple(np.argsort(out).tolist()))


@row("cholesky")
def _cholesky(x: Any, symmetrize_input: bool = False, **_: Any) -> Any:
    if symmetrize_input:
        x = (x + np.conjugate(np.swapaxes(x, -1, -2))) * 0.5
    return np.linalg.cholesky(x)


@row("triangular_solve")
def _solve_triangular(
    a: Any, b: Any, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool,
    unit_diagonal: bool, **_: Any,
) -> Any:  # fmt: skip
    if conjugate_a:
        a = np.conjugate(a)
    if transpose_a == left_side:  # b on the right of a: all transposed
        a, lower = np.swapaxes(a, -1, -2), not lower
    if left_side:
        return triangular(a, b, lower, unit_diagonal)
    turned = triangular(a, np.swapaxes(b, -1, -2), lower, unit_diagonal)
    return np.swapaxes(turned, -1, -2)


@row("eigh")
def _eigh(
    x: Any, lower: bool, sort_eigenvalues: bool = True, subset_by_index: Any = None,
    **_: Any,
) -> Any:  # fmt: skip
    if subset_by_index is not None:
        return NotImplemented
    values, vectors = np.linalg.eigh(x, "L" if lower else "U")
    return [vectors, values]


@row("svd")
def _svd(
    x: Any, full_matrices: bool, compute_uv: bool, subset_by_index: Any = None,
    **_: Any,
) -> Any:  # fmt: skip
    if subset_by_index is not None:
        return NotImplemented
    if not compute_uv:
        return [np.linalg.svd(x, compute_uv=False)]
    u, values, vh = np.linalg.svd(x, full_matrices)
    return [values, u, vh]


@row("qr")
def _qr(x: Any, full_matrices: bool, pivoting: bool = False, **_: Any) -> Any:
    if pivoting:
        return NotImplemented
    return list(np.linalg.qr(x, "complete" if full_matrices else "reduced"))


@row("fft")
def _fft(x: Any, fft_type: Any, fft_lengths: Any, **_: Any) -> Any:
    kind = getattr(fft_type, "name", str(fft_type)).rsplit(".", 1)[-1].lower()
    f = getattr(np.fft, f"{kind}n")
    axes = tuple(range(-len(fft_lengths), 0))
    return f(x, tuple(fft_lengths), axes)


# Entries


@row("dynamic_slice")
def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    return x[_find_block(shape_of(x), starts, slice_sizes)]


@row("dynamic_update_slice")
def _dynamic_update_slice(x: Any, update: Any, *starts: Any, **_: Any) -> Any:
    return at(x)[_find_block(shape_of(x), starts, shape_of(update))].set(update)


def _find_block(shape: Any, starts: Sequence[Any], sizes: Any) -> tuple[Any, ...]:
    """Return the index of a block, moved inside: arrays where a start is a Tensor."""
    known = not any(isinstance(i, Tensor) for i in starts)
    found: list[Any] = []
    for axis, (i, n, size) in enumerate(zip(starts, shape, sizes, strict=True)):
        first = np.clip(i, 0, n - size)
        if known:
            found.append(slice(int(first), int(first) + size))
        else:
            line = [1] * len(shape)
            line[axis] = size
            found.append(np.reshape(first + np.arange(size), line))
    return tuple(found)


def _reshape_at(x: Any, rank: int, dims: Sequence[int]) -> Any:
    """Return an array of ``rank`` axes that has those of ``x`` at ``dims``."""
    shape = [1] * rank
    for d, n in zip(dims, shape_of(x), strict=True):
        shape[d] = n
    return np.reshape(x, shape)


def _find_windows(
    shape: Any, starts: Any, sizes: Sequence[int], *, offset_dims: Sequence[int],
    dropped: Sequence[int], batching: Sequence[int], start_batching: Sequence[int],
    start_map: Sequence[int], rank: int,
) -> tuple[tuple[Any, ...], Any]:  # fmt: skip
    """Return an index array for each axis of the operand, and which are inside it."""
    batch_dims = [i for i in range(rank) if i not in offset_dims]
    batch_shape = shape_of(starts)[:-1]
    inside: Any = True
    index = []
    windows = iter(offset_dims)
    for axis, n in enumerate(shape):
        if axis in start_map:
            first = starts[..., start_map.index(axis)].astype(np.int64)
            inside = inside & (first >= 0) & (first <= n - sizes[axis])
            first = np.clip(first, 0, n - sizes[axis])
        elif axis in batching:
            line = np.arange(n)
            d = start_batching[batching.index(axis)]
            first = np.broadcast_to(
                _reshape_at(line, len(batch_shape), [d]), batch_shape
            )
        else:
            first = np.zeros(batch_shape, np.int64)
        place = _reshape_at(first, rank, batch_dims)
        if axis not in dropped and axis not in batching:
            place = place + _reshape_at(np.arange(sizes[axis]), rank, [next(windows)])
        index.append(place)
    if inside is True:
        inside = np.ones(batch_shape, bool)
    return tuple(index), _reshape_at(inside, rank, batch_dims)


def _holds(inside: Any) -> bool:
    return not isinstance(inside, Tensor) and bool(np.all(inside))


def _mode(mode: Any) -> str:
    """Return what becomes of what is outside: ``clip``, ``fill`` or ``promise``."""
    name = str(getattr(mode, "name", mode)).lower()
    return "clip" if "clip" in name else "fill" if "fill" in name else "promise"


@row("gather")
def _gather(
    x: Any, starts: Any, dimension_numbers: Any, slice_sizes: Any, mode: Any,
    fill_value: Any = None, **_: Any,
) -> Any:  # fmt: skip
    d = dimension_numbers
    index, inside = _find_windows(
        shape_of(x), starts, slice_sizes, offset_dims=d.offset_dims,
        dropped=d.collapsed_slice_dims, batching=list(d.operand_batching_dims),
        start_batching=d.start_indices_batching_dims,
        start_map=list(d.start_index_map),
        rank=len(shape_of(starts)) - 1 + len(d.offset_dims),
    )  # fmt: skip
    y = x[index]
    if _mode(mode) != "fill" or _holds(inside):
        return y
    dtype = dtype_of(x)
    if fill_value is None:
        fill_value = (
            np.nan
            if dtype.kind in "fc"
            else dtype.kind == "b"
            or (np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
        )
    return np.where(inside, y, np.asarray(fill_value, dtype))


def _scatter(how: str) -> Rule:
    def compute(
        x: Any, starts: Any, updates: Any, dimension_numbers: Any, mode: Any, **_: Any
    ) -> Any:
        d = dimension_numbers
        batching = list(d.operand_batching_dims)
        shape, new = shape_of(x), shape_of(updates)
        kept = [
            axis
            for axis in range(len(shape))
            if axis not in d.inserted_window_dims and axis not in batching
        ]
        sizes = [1] * len(shape)
        for axis, window in zip(kept, d.update_window_dims, strict=True):
            sizes[axis] = new[window]
        index, inside = _find_windows(
            shape, starts, sizes, offset_dims=d.update_window_dims,
            dropped=d.inserted_window_dims, batching=batching,
            start_batching=d.scatter_indices_batching_dims,
            start_map=list(d.scatter_dims_to_operand_dims), rank=len(new),
        )  # fmt: skip
        if _mode(mode) == "fill" and not _holds(inside):  # what is outside is dropped
            if how == "add":
                updates = np.where(inside, updates, np.zeros((), dtype_of(updates)))
            elif isinstance(inside, Tensor):
                return NotImplemented
            else:
                chosen = np.broadcast_to(inside, new)
                index = tuple(np.broadcast_to(i, new)[chosen] for i in index)
                updates = updates[chosen]
        return getattr(at(x)[index], how)(updates)

    return compute


for _name, _how in (
    ("scatter-add", "add"), ("scatter", "set"), ("scatter-mul", "multiply"),
    ("scatter-min", "min"), ("scatter-max", "max"),
):  # fmt: skip
    RULES[_name] = _scatter(_how)
