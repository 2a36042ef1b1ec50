"""What ATen's ops mean in NumPy: numbers, reductions, shapes, entries, matrices.

A row stands under the op's name, or under name and overload where overloads differ in
more than what they take. It gets what the op gets, with arrays or Tensors in the place
of PyTorch's, and returns the output, or a list of several; `NotImplemented` where it
does not know these settings. Slopes at kinks are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from workbench.core.tensor import Tensor
from workbench.models.rows import Rows, Rule, sort_entries
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.updates import at

#: The rows, by the names of ATen.
RULES = Rows()
row = RULES.enter


def to_numpy_dtype(dtype: Any) -> Any:
    """Return NumPy's dtype of PyTorch's; None for None."""
    import torch

    return None if dtype is None else torch.empty(0, dtype=dtype).numpy().dtype


def default_dtype() -> Any:
    """Return NumPy's dtype of what PyTorch makes of plain floats."""
    import torch

    return to_numpy_dtype(torch.get_default_dtype())


def rank_of(x: Any) -> int:
    """Return the number of axes."""
    return len(shape_of(x))


def cast(x: Any, dtype: Any) -> Any:
    """Return an array as one of another dtype, of PyTorch's name; None keeps it."""
    wanted = to_numpy_dtype(dtype)
    return x if wanted is None or dtype_of(x) == wanted else x.astype(wanted)


# Which dtype two operands have together


def is_number(x: Any) -> bool:
    """Return whether it is a plain number, which never decides a dtype."""
    return isinstance(x, (bool, int, float, complex))


ORDER = "biufc"


def promote(*operands: Any) -> list[Any]:
    """Return operands of the dtype that PyTorch gives them together.

    Unlike in NumPy, integers never widen floats, nor do arrays without axes those
    with axes.
    """
    arrays = [x for x in operands if not is_number(x)]
    if len({dtype_of(x) for x in arrays}) < 2:
        return list(operands)

    def weight(x: Any) -> tuple[int, bool]:
        kind = dtype_of(x).kind
        return 0 if kind == "b" else 1 if kind in "iu" else ORDER.index(kind), (
            rank_of(x) > 0
        )

    heaviest = max(map(weight, arrays))
    # An array without axes decides if it alone is of the widest kind.
    wanted = np.result_type(*[dtype_of(x) for x in arrays if weight(x) == heaviest])
    return [
        x if is_number(x) or dtype_of(x) == wanted else x.astype(wanted)
        for x in operands
    ]


def _float_operand(x: Any) -> Any:
    """Return integers as floats of PyTorch's usual dtype, for functions of floats."""
    if is_number(x) or dtype_of(x).kind in "fc":
        return x
    return x.astype(default_dtype())


# One number each

UNARY: dict[str, Rule] = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "neg": np.negative,
    "sign": np.sign, "sgn": np.sign, "trunc": np.trunc, "logical_not": np.logical_not,
    "bitwise_not": np.invert, "isnan": np.isnan, "isinf": np.isinf, "square": np.square,
    "positive": np.positive, "conj": np.conjugate, "_conj": np.conjugate,
    "conj_physical": np.conjugate, "real": np.real, "imag": np.imag,
    "isfinite": np.isfinite,
}  # fmt: skip
UNARY_FLOATS: dict[str, Rule] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv, "sigmoid": scipy.special.expit,
    "lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma,
    "logit": scipy.special.logit,
    "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
BINARY: dict[str, Rule] = {
    "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax,
    "fmin": np.fmin, "fmod": np.fmod, "remainder": np.remainder, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "hypot": np.hypot, "logaddexp": np.logaddexp,
}  # fmt: skip
BINARY_FLOATS: dict[str, Rule] = {
    "atan2": np.arctan2, "xlogy": scipy.special.xlogy, "copysign": np.copysign,
}  # fmt: skip


def _enter_elementwise() -> None:
    for name, f in UNARY.items():
        RULES[name] = f
    for name, f in UNARY_FLOATS.items():
        RULES[name] = lambda x, f=f: f(_float_operand(x))
    for name, f in BINARY.items():
        RULES[name] = lambda x, y, f=f: f(*promote(x, y))
    for name, f in BINARY_FLOATS.items():
        RULES[name] = lambda x, y, f=f: f(*map(_float_operand, promote(x, y)))
    for name in ("alias", "lift_fresh_copy", "lift_fresh", "resolve_conj"):
        RULES[name] = lambda x: x
    for name in ("detach", "detach_"):
        RULES[name] = stop_gradient


_enter_elementwise()


@row("pow")
def _power(x: Any, y: Any) -> Any:
    if is_number(y) and y == 2:
        return np.square(x)
    return np.power(*promote(x, y))


@row("round")
def _round(x: Any) -> Any:
    return np.round(x)


@row("round.decimals")
def _round_decimals(x: Any, *, decimals: int) -> Any:
    return np.round(x, decimals)


@row("add")
def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = promote(x, y)
    return np.add(x, y if alpha == 1 else alpha * y)


@row("sub")
def _subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = promote(x, y)
    return np.subtract(x, y if alpha == 1 else alpha * y)


@row("rsub")
def _subtract_from(x: Any, y: Any, alpha: Any = 1) -> Any:
    return _subtract(y, x, alpha)


@row("div")
def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    x, y = promote(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if rounding_mode == "trunc":
        whole = dtype_of(x)
        y = np.trunc(np.divide(x, y))
        return y if whole.kind == "f" else y.astype(whole)
    return np.divide(_float_operand(x), _float_operand(y))


@row("where")
def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, *promote(x, y))


@row("masked_fill")
def _fill_where(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, *promote(value, x))


@row("clamp")
def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    # At a bound the slope is 1.
    if min is not None:
        x, min = promote(x, min)
        x = np.where(x < min, min, x)
    if max is not None:
        x, max = promote(x, max)
        x = np.where(x > max, max, x)
    return x


@row("relu")
def _relu(x: Any) -> Any:
    return np.where(x <= 0, 0, x)  # the slope at 0 is 0, and NaN stays NaN


@row("leaky_relu")
def _leaky_relu(x: Any, slope: float = 0.01) -> Any:
    return np.where(x > 0, x, slope * x)


@row("elu")
def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    low = np.expm1(np.where(x <= 0, x, 0) * input_scale) * (alpha * scale)
    return np.where(x <= 0, low, x * scale)  # the slope of NaN is that of x * scale


@row("hardtanh")
def _hardtanh(x: Any, low: float = -1, high: float = 1) -> Any:
    # At a bound the slope is 0.
    return np.where(x <= low, low, np.where(x >= high, high, x))


@row("gelu")
def _gelu(x: Any, *, approximate: str = "none") -> Any:
    if approximate == "none":
        return x * (0.5 * (1 + scipy.special.erf(x * math.sqrt(0.5))))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x * (0.5 * (1 + np.tanh(inner)))


@row("silu")
def _silu(x: Any) -> Any:
    return x * scipy.special.expit(x)


@row("polygamma")
def _polygamma(n: int, x: Any) -> Any:
    if n == 0:
        return scipy.special.digamma(x)
    return (-1) ** (n + 1) * math.factorial(n) * scipy.special.zeta(n + 1, x)


# Reductions


def find_axes(dim: Any, rank: int) -> tuple[int, ...]:
    """Return axes as PyTorch names them: a number, several, none at all for all."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(rank))
    dims = [dim] if isinstance(dim, int) else dim
    return tuple(d % rank for d in dims) if rank else ()


def _reduce(
    f: Rule, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return f(cast(x, dtype), axis=find_axes(dim, rank_of(x)), keepdims=keepdim)


def _enter_reductions() -> None:
    reductions: dict[str, Rule] = {
        "amax": np.max, "amin": np.min, "any": np.any, "all": np.all, "mean": np.mean,
        "max": np.max, "min": np.min,
    }  # fmt: skip
    for name, f in reductions.items():
        RULES[name] = partial(_reduce, f)  # equal entries share the slope


_enter_reductions()


@row("sum")
def _sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is None and dtype_of(x).kind in "biu":
        x = x.astype(np.int64)
    return _reduce(np.sum, x, dim, keepdim, dtype=dtype)


@row("prod")
def _product(
    x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return _reduce(np.prod, x, dim, keepdim, dtype=dtype)


@row("var.correction")
def _variance(
    x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    axes = find_axes(dim, rank_of(x))
    free = 1 if correction is None else correction
    return np.var(x, axis=axes, ddof=free, keepdims=keepdim)


@row("var.dim", "var")
def _variance_unbiased(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> Any:
    return _variance(x, dim, correction=int(unbiased), keepdim=keepdim)


@row("argmax")
def _argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return np.argmax(x, axis=dim, keepdims=keepdim)


@row("argmin")
def _argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return np.argmin(x, axis=dim, keepdims=keepdim)


def _find_extremum(f: Rule, x: Any, dim: int, keepdim: bool = False) -> Any:
    """Return the values and their places; the slope is 1 at that place alone."""
    places = f(x, axis=dim, keepdims=True)
    values = np.take_along_axis(x, places, dim)
    if keepdim:
        return [values, places]
    return [np.squeeze(values, dim), np.squeeze(places, dim)]


RULES["max.dim"] = partial(_find_extremum, np.argmax)
RULES["min.dim"] = partial(_find_extremum, np.argmin)


@row("cumsum")
def _cumulate_sum(x: Any, dim: int, *, dtype: Any = None) -> Any:
    return np.cumsum(cast(x, dtype), dim)


@row("cumprod")
def _cumulate_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    return np.cumprod(cast(x, dtype), dim)


@row("sort")
def _sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return sort_entries(x, dim, descending)


@row("sort.stable")
def _sort_stable(
    x: Any, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Any:
    return sort_entries(x, dim, descending)


@row("topk")
def _top(
    x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    return sort_entries(x, dim, largest, k)


# Shapes


@row("view", "reshape", "_unsafe_view")
def _reshape(x: Any, size: Sequence[int]) -> Any:
    return np.reshape(x, tuple(size))


@row("permute")
def _permute(x: Any, dims: Sequence[int]) -> Any:
    return np.transpose(x, tuple(dims))


@row("t")
def _transpose_matrix(x: Any) -> Any:
    return np.transpose(x)


@row("transpose")
def _swap_axes(x: Any, a: int, b: int) -> Any:
    return np.swapaxes(x, a, b)


@row("unsqueeze")
def _unsqueeze(x: Any, dim: int) -> Any:
    return np.expand_dims(x, dim)


@row("squeeze")
def _squeeze(x: Any, dim: Any = None) -> Any:
    shape = shape_of(x)
    return np.squeeze(x, tuple(d for d in find_axes(dim, len(shape)) if shape[d] == 1))


@row("expand")
def _expand(x: Any, size: Sequence[int], *, implicit: bool = False) -> Any:
    shape = (1,) * (len(size) - rank_of(x)) + tuple(shape_of(x))
    return np.broadcast_to(
        x, [n if s == -1 else s for s, n in zip(size, shape, strict=True)]
    )


@row("repeat")
def _repeat(x: Any, times: Sequence[int]) -> Any:
    return np.tile(x, tuple(times))


@row("cat")
def _concatenate(arrays: Sequence[Any], dim: int = 0) -> Any:
    # An array of shape (0,) fits all others.
    return np.concatenate(promote(*[x for x in arrays if shape_of(x) != (0,)]), dim)


@row("stack")
def _stack(arrays: Sequence[Any], dim: int = 0) -> Any:
    return np.stack(promote(*arrays), dim)


@row("flip")
def _flip(x: Any, dims: Sequence[int]) -> Any:
    return np.flip(x, tuple(dims))


@row("roll")
def _roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not dims:
        return np.roll(x, shifts[0])
    return np.roll(x, tuple(shifts), tuple(dims))


@row("split_with_sizes")
def _split(x: Any, sizes: Sequence[int], dim: int = 0) -> Any:
    return list(np.split(x, np.cumsum(sizes)[:-1], dim))


@row("diagonal")
def _take_diagonal(x: Any, offset: int = 0, a: int = 0, b: int = 1) -> Any:
    return np.diagonal(x, offset, a, b)


@row("clone", "contiguous")
def _clone(x: Any, *, memory_format: Any = None) -> Any:
    return x


@row("_to_copy")
def _convert(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    return cast(x, dtype)


@row("sym_size")
def _take_length(x: Any, dim: int) -> Any:
    return shape_of(x)[dim]


@row("sym_numel")
def _count_entries(x: Any) -> Any:
    return math.prod(shape_of(x))


def pad(x: Any, widths: Sequence[int], mode: str, **settings: Any) -> Any:
    """Pad the last axes; PyTorch names the last one first, and negative widths cut."""
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)][::-1]
    shape = shape_of(x)
    first = len(shape) - len(pairs)
    if any(a < 0 or b < 0 for a, b in pairs):
        cuts = [
            slice(max(-a, 0), n + min(b, 0))
            for (a, b), n in zip(pairs, shape[first:], strict=True)
        ]
        x = x[(slice(None),) * first + tuple(cuts)]
    full = [(0, 0)] * first + [(max(a, 0), max(b, 0)) for a, b in pairs]
    return np.pad(x, full, mode, **settings)  # type: ignore[call-overload]


@row("constant_pad_nd")
def _pad_with_number(x: Any, widths: Sequence[int], value: Any = 0) -> Any:
    return pad(x, widths, "constant", constant_values=value)


@row("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _pad_by_reflection(x: Any, widths: Sequence[int]) -> Any:
    return pad(x, widths, "reflect")


@row("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _pad_with_edge(x: Any, widths: Sequence[int]) -> Any:
    return pad(x, widths, "edge")


# Entries


def _place(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    return (slice(None),) * (dim % rank_of(x)) + (index,)


def _key(index: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in index)


@row("select")
def _select(x: Any, dim: int, index: int) -> Any:
    return x[_place(x, dim, index)]


@row("slice")
def _slice(
    x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return x[_place(x, dim, slice(start, end, step))]


@row("index_select")
def _index_select(x: Any, dim: int, index: Any) -> Any:
    return np.take(x, index, dim)


@row("gather")
def _gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if shape_of(index)[:dim] != shape_of(x)[:dim] or rank_of(x) == 0:
        return x[_grid(index, dim)] if rank_of(x) else x
    return x[_grid(index, dim)]


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """Return the places that an index along one axis means, one array for each axis."""
    places: list[Any] = list(np.ix_(*[np.arange(n) for n in shape_of(index)]))
    places[dim] = index
    return tuple(places)


@row("index")
def _take_entries(x: Any, index: Sequence[Any]) -> Any:
    return x[_key(index)]


@row("index_put", "_unsafe_index_put")
def _put_entries(
    x: Any, index: Sequence[Any], values: Any, accumulate: bool = False
) -> Any:
    place = at(x)[_key(index)]
    values = values.astype(dtype_of(x)) if dtype_of(values) != dtype_of(x) else values
    return place.add(values) if accumulate else place.set(values)


RULES["_unsafe_index"] = _take_entries


@row("slice_scatter")
def _put_slice(
    x: Any, values: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return at(x)[_place(x, dim, slice(start, end, step))].set(values)


@row("select_scatter")
def _put_selected(x: Any, values: Any, dim: int, index: int) -> Any:
    return at(x)[_place(x, dim, index)].set(values)


@row("scatter.src", "scatter.value")
def _scatter(x: Any, dim: int, index: Any, values: Any) -> Any:
    return at(x)[_grid(index, dim)].set(_cut_to(values, index))


@row("scatter_add")
def _scatter_add(x: Any, dim: int, index: Any, values: Any) -> Any:
    return at(x)[_grid(index, dim)].add(_cut_to(values, index))


def _cut_to(values: Any, index: Any) -> Any:
    if is_number(values) or rank_of(values) == 0:
        return values
    return values[tuple(slice(n) for n in shape_of(index))]


@row("scatter_reduce")
def _scatter_reduce(
    x: Any, dim: int, index: Any, values: Any, reduce: str, *, include_self: bool = True
) -> Any:
    if reduce != "sum" or not include_self:
        return NotImplemented
    return _scatter_add(x, dim, index, values)


@row("index_add")
def _index_add(x: Any, dim: int, index: Any, values: Any, *, alpha: Any = 1) -> Any:
    return at(x)[_place(x, dim, index)].add(values if alpha == 1 else alpha * values)


@row("tril")
def _lower_triangle(x: Any, diagonal: int = 0) -> Any:
    return np.tril(x, diagonal)


@row("triu")
def _upper_triangle(x: Any, diagonal: int = 0) -> Any:
    return np.triu(x, diagonal)


# What is like an operand, but holds none of its values


def _plain(x: Any) -> Any:
    """Return an array in the place of a Tensor of which only the shape is read."""
    return np.empty(x.shape, x.dtype) if isinstance(x, Tensor) else x


@row("full_like")
def _fill_like(x: Any, value: Any, *, dtype: Any = None, **_: Any) -> Any:
    return np.full_like(_plain(x), value, dtype=to_numpy_dtype(dtype))


RULES["zeros_like"] = lambda x, **settings: _fill_like(x, 0, **settings)
RULES["ones_like"] = lambda x, **settings: _fill_like(x, 1, **settings)
RULES["empty_like"] = RULES["zeros_like"]


@row("new_zeros", "new_empty")
def _make_zeros(x: Any, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Any:
    return np.zeros(tuple(size), to_numpy_dtype(dtype) or dtype_of(x))


@row("new_ones")
def _make_ones(x: Any, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Any:
    return np.ones(tuple(size), to_numpy_dtype(dtype) or dtype_of(x))


@row("fill")
def _fill(x: Any, value: Any) -> Any:
    if is_number(value):
        return np.full_like(_plain(x), value)
    return np.broadcast_to(value.astype(dtype_of(x)), shape_of(x))


@row("copy")
def _copy(x: Any, y: Any, non_blocking: bool = False) -> Any:
    return np.broadcast_to(y.astype(dtype_of(x)), shape_of(x))


# Matrices

for _name in ("matmul", "mm", "bmm", "mv"):
    RULES[_name] = np.matmul
RULES["dot"] = np.dot


def _scaled(x: Any, factor: Any) -> Any:
    return x if factor == 1 else factor * x


@row("addmm", "baddbmm", "addmv")
def _add_product(b: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(np.matmul(x, y), alpha)
    return product if beta == 0 else product + _scaled(b, beta)


@row("linear")
def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = np.matmul(x, np.swapaxes(weight, -1, -2))
    return y if bias is None else y + bias


def swap_last(x: Any) -> Any:
    """Return matrices transposed."""
    return np.swapaxes(x, -1, -2)


def symmetrize(x: Any) -> Any:
    """Return the Hermitian part: gradients are shared by both triangles."""
    return (x + np.conjugate(swap_last(x))) * 0.5


@row("linalg_cholesky_ex")
def _cholesky(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    y = np.linalg.cholesky(symmetrize(x))
    return [np.conjugate(swap_last(y)) if upper else y, None]


@row("_linalg_slogdet")
def _slogdet(x: Any) -> Any:
    return [*np.linalg.slogdet(x), None, None]


@row("_linalg_det")
def _det(x: Any) -> Any:
    return [np.linalg.det(x), None, None]


@row("linalg_inv_ex")
def _inverse(x: Any, *, check_errors: bool = False) -> Any:
    return [np.linalg.inv(x), None]


@row("_linalg_solve_ex")
def _solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    if not left:
        return NotImplemented
    is_vector = rank_of(b) == 1 or shape_of(b) == shape_of(a)[:-1]
    y = np.linalg.solve(a, b[..., None] if is_vector else b)
    return [y[..., 0] if is_vector else y, None, None, None]


@row("_linalg_eigh")
def _eigh(x: Any, lower: Any = "L", compute_v: bool = True) -> Any:
    if not compute_v:
        return [np.linalg.eigvalsh(symmetrize(x), lower), None]
    return list(np.linalg.eigh(symmetrize(x), lower))


# Fourier transforms


def _norm_factor(n: int, normalization: int) -> float:
    """Return what a transform of so many entries is multiplied with."""
    return (1.0, n**-0.5, 1.0 / n)[normalization]


@row("_fft_r2c")
def _fft_of_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    f = np.fft.rfftn if onesided else np.fft.fftn
    n = math.prod(shape_of(x)[d] for d in dim)
    return _scaled(f(x, axes=tuple(dim)), _norm_factor(n, normalization))


@row("_fft_c2c")
def _fft_of_complex(
    x: Any, dim: Sequence[int], normalization: int, forward: bool
) -> Any:
    n = math.prod(shape_of(x)[d] for d in dim)
    factor = _norm_factor(n, normalization)
    if forward:
        return _scaled(np.fft.fftn(x, axes=tuple(dim)), factor)
    return _scaled(np.fft.ifftn(x, axes=tuple(dim)), factor * n)


@row("_fft_c2r")
def _fft_to_real(x: Any, dim: Sequence[int], normalization: int, last: int) -> Any:
    lengths = [*(shape_of(x)[d] for d in dim[:-1]), last]
    n = math.prod(lengths)
    factor = _norm_factor(n, normalization)
    return _scaled(np.fft.irfftn(x, lengths, tuple(dim)), factor * n)


# Distances between the rows of two matrices


@row("_cdist_forward")
def _distances(x: Any, y: Any, p: float, compute_mode: int | None) -> Any:
    difference = x[..., :, None, :] - y[..., None, :, :]
    if p == 2:
        return np.linalg.norm(difference, axis=-1)
    if p == 1:
        return np.sum(np.abs(difference), axis=-1)
    return NotImplemented
