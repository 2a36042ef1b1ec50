"""What ONNX's ops mean in NumPy: entry by entry, along axes, by shape and place.

A row is a function with the operands of the op, then its settings by ONNX's names; what
was a setting before it became an operand has one name for both. `row` enters it into
`ROWS`, which reads from its signature what it takes; a node that asks for more is left
to the op's definition. A row takes ``step`` where the version of the op or the number
of its outputs decides. Slopes at kinks are those of other libraries: that of `Relu` at
0 is 0. Operands that decide lengths, as the scales of `Resize` do, are constants.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import index
from typing import Any

import numpy as np
import scipy.special

from workbench.core import blame
from workbench.core.tensor import Tensor, value_of
from workbench.errors import UnknownLengthError
from workbench.models.rows import sort_entries
from workbench.ops.reductions import logsumexp
from workbench.ops.special.logistic import log_softmax, softmax
from workbench.ops.updates import at

Array = Any
Ints = Any

#: By the name of an op, what computes it of a step and its operands.
ROWS: dict[str, Callable[[Any, Sequence[Any]], Any]] = {}

#: The most entries that a model's numbers may ask for; far more than memory has.
MOST_ENTRIES = 2**33


class Unsupported(Exception):
    """A row does not know a setting; the text says which."""


class RefusedError(Exception):
    """A model asks for what cannot be; the text says what."""


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what enters a function as the row of one or more ops."""

    def enter(f: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(f).parameters
        takes_step = "step" in parameters
        needed = {
            name
            for name, p in parameters.items()
            if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
        } - {"step"}
        takes_all = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())

        def compute(step: Any, operands: Sequence[Any]) -> Any:
            operands = list(operands)
            while operands and operands[-1] is None:
                operands.pop()
            settings = dict(step.settings)
            unknown = settings.keys() - parameters.keys()
            if unknown:
                raise Unsupported(f"with its setting {min(unknown)}")
            given = set() if takes_all else {*list(parameters)[: len(operands)]}
            if settings.keys() & given or (
                not takes_all and len(operands) > len(parameters)
            ):
                raise Unsupported(f"with {len(operands)} operands")
            missing = needed - given - settings.keys()
            if missing or (takes_all and not operands):
                raise RefusedError(f"{min(missing, default='operands')} is missing")
            if takes_step:
                settings["step"] = step
            return f(*operands, **settings)

        for name in names:
            ROWS[name] = compute
        return f

    return enter


def read_integers(x: Any) -> tuple[int, ...]:
    """Return integers that decide shapes or places; of a Tensor, those of its value."""
    value = value_of(x)
    if value is None:
        raise UnknownLengthError(
            f"A length of the model{blame.user_line()} depends on the values of"
            f" {blame.describe(x)}, which are known only when the program runs. Trace"
            " the function with values: wb.trace(f)(weights, x)."
        )
    return tuple(int(n) for n in np.reshape(np.asarray(value), -1))


def check_count(shape: Sequence[Any], what: str = "an array") -> tuple[Any, ...]:
    """Return a shape that a model's numbers ask for, unless it is absurdly large.

    Raises
    ------
    RefusedError
        If it has more than `MOST_ENTRIES` entries.
    """
    lengths = [n for n in shape if isinstance(n, int)]
    if math.prod(max(n, 1) for n in lengths) > MOST_ENTRIES:
        raise RefusedError(
            f"{what} of shape {blame.shorten(str(tuple(shape)))} needs more memory than"
            " there is"
        )
    return tuple(shape)


def read_lengths(x: Any) -> tuple[Any, ...]:
    """Return the lengths of an array, known or not."""
    return tuple(x.shape)


def rank_of(x: Any) -> int:
    """Return the number of axes."""
    return len(x.shape)


def take_root(total: Array, p: float = 2) -> Array:
    """Return a root of a sum of powers, whose slope where all are 0 is 0."""
    zero = total == 0
    safe: Any = np.where(zero, 1, total)
    return np.where(zero, 0, np.sqrt(safe) if p == 2 else safe ** (1 / p))


# Entry by entry


def enter_entrywise(**functions: Callable[..., Any]) -> None:
    """Enter functions of the operands alone."""
    for name, f in functions.items():
        row(name)(_without_settings(f))


def _without_settings(f: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*operands: Any, consumed_inputs: Any = None) -> Any:
        return f(*operands)

    return compute


enter_entrywise(
    Abs=np.abs, Acos=np.arccos, Acosh=np.arccosh, Add=np.add, And=np.logical_and,
    Asin=np.arcsin, Asinh=np.arcsinh, Atan=np.arctan, Atanh=np.arctanh, Ceil=np.ceil,
    Cos=np.cos, Cosh=np.cosh, Det=np.linalg.det, Equal=np.equal, Erf=scipy.special.erf,
    Exp=np.exp, Floor=np.floor, Greater=np.greater, GreaterOrEqual=np.greater_equal,
    Identity=lambda x: x, IsNaN=np.isnan, Less=np.less, LessOrEqual=np.less_equal,
    Log=np.log, MatMul=np.matmul, Mul=np.multiply, Neg=np.negative, Not=np.logical_not,
    Or=np.logical_or, Reciprocal=lambda x: 1 / x, Round=np.round,
    Sigmoid=scipy.special.expit, Sign=np.sign, Sin=np.sin, Sinh=np.sinh,
    Softplus=lambda x: np.logaddexp(x, 0), Softsign=lambda x: x / (1 + np.abs(x)),
    Sqrt=np.sqrt, Sub=np.subtract, Tan=np.tan, Tanh=np.tanh, Where=np.where,
    Xor=np.logical_xor,
    HardSwish=lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    Max=lambda *xs: reduce(np.maximum, xs),
    Mean=lambda *xs: reduce(np.add, xs) / len(xs),
    Min=lambda *xs: reduce(np.minimum, xs),
    Mish=lambda x: x * np.tanh(np.logaddexp(x, 0)),
    PRelu=lambda x, slope: np.where(x > 0, x, slope * x),
    Relu=lambda x: np.where(x <= 0, 0, x),
    Sum=lambda *xs: reduce(np.add, xs),
)  # fmt: skip


@row("Div")
def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind in "fc":
        return a / b
    return (a - np.fmod(a, b)) // b  # towards zero, without floats


@row("Mod")
def _take_remainder(a: Array, b: Array, fmod: int = 0) -> Array:
    return np.fmod(a, b) if fmod else np.remainder(a, b)


@row("Pow")
def _raise_to_power(x: Array, y: Array) -> Array:
    return np.power(x, y).astype(x.dtype)


@row("IsInf")
def _is_infinite(x: Array, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    kinds = [np.isposinf(x)] * detect_positive + [np.isneginf(x)] * detect_negative
    return reduce(np.logical_or, kinds, np.zeros_like(x, dtype=bool))


@row("Clip")
def _clip(x: Array, min: Array = None, max: Array = None) -> Array:
    if min is None and max is None:
        return x
    return np.clip(x, min, max)


@row("LeakyRelu")
def _leak(x: Array, alpha: float = 0.01) -> Array:
    return np.where(x > 0, x, alpha * x)


@row("ThresholdedRelu")
def _pass_above(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x <= alpha, 0, x)


def _bend(x: Array, alpha: float = 1.0) -> Array:
    return alpha * np.expm1(np.where(x > 0, 0, x))


@row("Elu")
def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, _bend(x, alpha))


@row("Celu")
def _celu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, _bend(x / alpha, alpha))


@row("Selu")
def _selu(
    x: Array,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Array:
    bent: Any = np.where(x > 0, x, _bend(x, alpha))
    return gamma * bent


@row("HardSigmoid")
def _hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


@row("Swish")
def _swish(x: Array, alpha: float = 1.0) -> Array:
    return x * scipy.special.expit(alpha * x)


@row("Gelu")
def _gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + np.tanh(inner))
    return 0.5 * x * (1 + scipy.special.erf(x * math.sqrt(0.5)))


@row("Shrink")
def _shrink(x: Array, bias: float = 0.0, lambd: float = 0.5) -> Array:
    y: Any = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
    return y.astype(x.dtype)


@row("DequantizeLinear")
def _scale_integers(
    x: Array,
    scale: Array,
    zero: Array = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    def spread(v: Array) -> Array:
        if rank_of(v) == 0 or (rank_of(v) == 1 and v.shape[0] == 1):
            return np.reshape(v, ())
        if block_size:
            whole = np.repeat(v, block_size, axis)
            return np.take(whole, np.arange(index(x.shape[axis])), axis)
        along = [1] * rank_of(x)
        along[axis] = -1
        return np.reshape(v, along)

    whole = x if zero is None else x.astype(np.int64) - spread(zero.astype(np.int64))
    y = whole.astype(scale.dtype) * spread(scale)
    return y.astype(_dtype_of_code(output_dtype)) if output_dtype else y


@row("Cast")
def _cast(x: Array, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    return x.astype(_dtype_of_code(to))


@row("CastLike")
def _cast_like(
    x: Array, target: Array, saturate: int = 1, round_mode: str = "up"
) -> Array:
    return x.astype(target.dtype)


def _dtype_of_code(code: int) -> Any:
    import onnx

    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    except KeyError:
        raise RefusedError(f"ONNX has no dtype of the number {code}") from None
    if dtype.kind not in "biufc":
        raise Unsupported(f"to {dtype}")
    return dtype


@row("Dropout")
def _drop(
    x: Array,
    ratio: Any = 0.5,
    training_mode: Any = None,
    seed: int = 0,
    *,
    step: Any,
) -> Array:
    if training_mode is not None and bool(value_of(training_mode)) and np.any(ratio):
        raise Unsupported("in training, which draws")
    return [x, np.ones(read_lengths(x), bool)][: max(len(step.outputs), 1)]


# Along axes


def _enter_reduction(name: str, f: Callable[..., Any], empty: float | None) -> None:
    """Enter a reduction; ``empty`` is what it gives of no entries."""

    @row(name)
    def compute(
        x: Array, axes: Ints = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Array:
        over = None if axes is None else read_integers(axes) or None
        if over is None and noop_with_empty_axes:
            y = f(x, axis=(), keepdims=True) if name != "ReduceSum" else x
        elif empty is not None and 0 in x.shape:
            shape = np.sum(x, axis=over, keepdims=bool(keepdims)).shape
            y = np.full(shape, _bound_of(x.dtype, empty), x.dtype)
        else:
            y = f(x, axis=over, keepdims=bool(keepdims))
        return y.astype(x.dtype)  # of integers too


def _bound_of(dtype: Any, bound: float) -> Any:
    """Return an infinite number, or the last one that a dtype has on that side."""
    if dtype.kind == "b":
        return bound > 0
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return ends.max if bound > 0 else ends.min
    return bound


for _name, _f, _empty in (
    ("ReduceSum", np.sum, None),
    ("ReduceMean", np.mean, None),
    ("ReduceMax", np.max, -np.inf),
    ("ReduceMin", np.min, np.inf),
    ("ReduceProd", np.prod, None),
    ("ReduceL1", lambda x, **k: np.sum(np.abs(x), **k), None),
    ("ReduceL2", lambda x, **k: take_root(np.sum(x * x, **k)), None),
    ("ReduceSumSquare", lambda x, **k: np.sum(x * x, **k), None),
    ("ReduceLogSum", lambda x, **k: np.log(np.sum(x, **k)), None),
    ("ReduceLogSumExp", logsumexp, -np.inf),
):
    _enter_reduction(_name, _f, _empty)


def _enter_extreme_place(name: str, f: Callable[..., Any]) -> None:
    @row(name)
    def compute(
        x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Array:
        if select_last_index:
            place = x.shape[axis] - 1 - f(np.flip(x, axis), axis=axis)
        else:
            place = f(x, axis=axis)
        return np.expand_dims(place, axis) if keepdims else place


_enter_extreme_place("ArgMax", np.argmax)
_enter_extreme_place("ArgMin", np.argmin)


def _along_last(f: Callable[..., Any], x: Array, axis: int | None, step: Any) -> Array:
    """Apply a function along an axis; before version 13 over it and all that follow."""
    if 0 in x.shape:
        return x
    if step.version >= 13:
        return f(x, -1 if axis is None else axis)
    first = 1 if axis is None else axis % max(rank_of(x), 1)
    rows = np.reshape(x, (math.prod(x.shape[:first]), math.prod(x.shape[first:])))
    return np.reshape(f(rows, 1), x.shape)


@row("Softmax")
def _softmax(x: Array, axis: int | None = None, *, step: Any) -> Array:
    return _along_last(softmax, x, axis, step)


@row("LogSoftmax")
def _log_softmax(x: Array, axis: int | None = None, *, step: Any) -> Array:
    return _along_last(log_softmax, x, axis, step)


@row("Hardmax")
def _hardmax(x: Array, axis: int | None = None, *, step: Any) -> Array:
    def mark(x: Array, axis: int) -> Array:
        places = np.expand_dims(np.argmax(x, axis=axis), axis)
        along = [1] * rank_of(x)
        along[axis] = x.shape[axis]
        return np.equal(places, np.reshape(np.arange(x.shape[axis]), along))

    return _along_last(mark, x, axis, step).astype(x.dtype)


@row("LpNormalization")
def _normalize_length(x: Array, axis: int = -1, p: int = 2) -> Array:
    size: Any = take_root(np.sum(np.abs(x) ** p, axis=axis, keepdims=True), p)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def _enter_running(name: str, f: Callable[..., Any], start: float) -> None:
    @row(name)
    def compute(x: Array, axis: Ints, exclusive: int = 0, reverse: int = 0) -> Array:
        (along,) = read_integers(axis)
        x = np.flip(x, along) if reverse else x
        if exclusive:  # from the neutral entry on, without the last
            before = (slice(None),) * (along % rank_of(x))
            first = np.full_like(x[(*before, slice(0, 1))], start)
            x = np.concatenate([first, x[(*before, slice(0, -1))]], along)
        y = f(x, along).astype(x.dtype)
        return np.flip(y, along) if reverse else y


_enter_running("CumSum", np.cumsum, 0)
_enter_running("CumProd", np.cumprod, 1)


@row("TopK")
def _choose_largest(
    x: Array, k: Ints, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Any:
    (count,) = read_integers(k)
    if not 0 <= count <= x.shape[axis]:
        raise RefusedError(f"{count} of {x.shape[axis]} entries are asked for")
    return sort_entries(x, axis, bool(largest), count)


@row("Gemm")
def _multiply_add(
    a: Array,
    b: Array,
    c: Array = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 1,
) -> Array:
    y = (a.T if transA else a) @ (b.T if transB else b)
    y = y if alpha == 1 else alpha * y
    y = y if c is None else y + (c if beta == 1 else beta * c)
    return y.astype(a.dtype)


@row("Einsum")
def _einsum(*operands: Array, equation: str) -> Array:
    return np.einsum(equation, *operands)


# By shape


@row("Constant")
def _constant(
    value: Array = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    sparse_value: Array = None,
) -> Array:
    if value is not None:
        if not isinstance(value, np.ndarray):
            raise RefusedError(f"its value {blame.shorten(repr(value))} is no tensor")
        return value
    if sparse_value is not None:
        return sparse_value
    if value_float is not None or value_floats is not None:
        given = value_float if value_floats is None else value_floats
        return np.array(given, np.float32)
    return np.array(value_int if value_ints is None else value_ints, np.int64)


@row("Shape")
def _shape(x: Array, start: int = 0, end: int | None = None) -> Array:
    lengths = read_lengths(x)[start:end]
    if not all(isinstance(n, int) for n in lengths):
        raise UnknownLengthError(
            f"The model{blame.user_line()} computes with the shape {x.shape} of"
            f" {blame.describe(x)}, which has to be known. Give the symbol its lengths:"
            " wb.tensor('x', shape=(1, 3, 224, 224))."
        )
    return np.array(lengths, np.int64)


@row("Size")
def _size(x: Array) -> Array:
    return np.array(math.prod(map(index, read_lengths(x))), np.int64)


@row("Reshape")
def _reshape(x: Array, shape: Ints, allowzero: int = 0) -> Array:
    lengths: Sequence[Any] = read_integers(shape)
    if not allowzero:
        lengths = [x.shape[i] if n == 0 else n for i, n in enumerate(lengths)]
    return np.reshape(x, check_count(lengths))


@row("Flatten")
def _flatten(x: Array, axis: int = 1) -> Array:
    axis = axis + rank_of(x) if axis < 0 else axis
    front = math.prod(x.shape[:axis])
    back = math.prod(x.shape[axis:])
    return np.reshape(x, (front, back))


@row("Squeeze")
def _squeeze(x: Array, axes: Ints = None) -> Array:
    return np.squeeze(x, None if axes is None else read_integers(axes))


@row("Unsqueeze")
def _unsqueeze(x: Array, axes: Ints) -> Array:
    return np.expand_dims(x, read_integers(axes))


@row("Transpose")
def _transpose(x: Array, perm: Any = None) -> Array:
    return np.transpose(x, perm)


@row("Expand")
def _expand(x: Array, shape: Ints) -> Array:
    lengths = check_count(read_integers(shape))
    if rank_of(x) == len(lengths) and all(
        n == m or n == 1 for n, m in zip(lengths, x.shape, strict=True)
    ):
        return x
    both = np.broadcast_shapes(lengths, tuple(map(index, x.shape)))
    return np.broadcast_to(x, check_count(both))


@row("Tile")
def _tile(x: Array, repeats: Ints) -> Array:
    times = read_integers(repeats)
    check_count([n * m for n, m in zip(x.shape, times, strict=True)])
    return np.tile(x, times)


@row("Concat")
def _concatenate(*operands: Array, axis: int = 1) -> Array:
    return np.concatenate(operands, axis)


@row("Split")
def _split(
    x: Array,
    split: Ints = None,
    axis: int = 0,
    num_outputs: int | None = None,
    *,
    step: Any,
) -> Any:
    if split is not None:
        lengths = read_integers(split)
    else:
        parts, whole = num_outputs or len(step.outputs), index(x.shape[axis])
        each = -(-whole // parts)
        lengths = tuple(max(min(each, whole - i * each), 0) for i in range(parts))
    ends = np.cumsum(lengths)[:-1]
    return list(np.split(x, [int(n) for n in ends], axis))


@row("Slice")
def _slice(
    x: Array, starts: Ints, ends: Ints, axes: Ints = None, steps: Ints = None
) -> Array:
    first, last = read_integers(starts), read_integers(ends)
    along = range(len(first)) if axes is None else read_integers(axes)
    strides = (1,) * len(first) if steps is None else read_integers(steps)
    key = [slice(None)] * rank_of(x)
    for axis, low, high, stride in zip(along, first, last, strides, strict=True):
        if stride < 0:  # what lies before the first entry is the end
            n = index(x.shape[axis])
            start = min(max(low + n * (low < 0), 0), n - 1)
            key[axis] = slice(start, None if high < -n else high, stride)
        else:
            key[axis] = slice(low, high, stride)
    return x[tuple(key)]


@row("Pad")
def _pad(
    x: Array,
    pads: Ints,
    value: Array = None,
    axes: Ints = None,
    mode: str = "constant",
) -> Array:
    lengths = read_integers(pads)
    rank, half = rank_of(x), len(lengths) // 2
    along = range(rank) if axes is None else [n % rank for n in read_integers(axes)]
    widths = [(0, 0)] * rank
    for axis, low, high in zip(along, lengths[:half], lengths[half:], strict=True):
        widths[axis] = (low, high)
    # Negative ones cut, before the rest is added.
    kept = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for n, (low, high) in zip(x.shape, widths, strict=True)
    )
    added = [(max(low, 0), max(high, 0)) for low, high in widths]
    check_count([n + sum(pair) for n, pair in zip(x.shape, added, strict=True)])
    x = x[kept]
    if mode == "constant":
        return np.pad(
            x, added, constant_values=0 if value is None else np.squeeze(value)
        )
    return np.pad(x, added, mode=mode)  # type: ignore[call-overload]


@row("DepthToSpace")
def _move_depth_to_space(x: Array, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    b, rest = blocksize, c // blocksize**2
    if mode == "DCR":
        parts = np.transpose(np.reshape(x, (n, b, b, rest, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = np.transpose(np.reshape(x, (n, rest, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return np.reshape(parts, (n, rest, h * b, w * b))


@row("Trilu")
def _keep_triangle(x: Array, k: Ints = 0, upper: int = 1) -> Array:
    return (np.triu if upper else np.tril)(x, read_integers(k)[0])


@row("ConstantOfShape")
def _fill_shape(shape: Ints, value: Array = None) -> Array:
    lengths = check_count(read_integers(shape))
    if value is None:
        return np.zeros(lengths, np.float32)
    return np.full(lengths, np.reshape(value, ()), value.dtype)


@row("Range")
def _range(start: Array, limit: Array, delta: Array) -> Array:
    ends = [np.asarray(value_of(x)).reshape(()) for x in (start, limit, delta)]
    low, high, gap = (float(x) for x in ends)
    if not gap or not all(map(math.isfinite, (low, high, gap))):
        raise RefusedError(f"no numbers go from {low} to {high} in steps of {gap}")
    count = max(math.ceil((high - low) / gap), 0)
    check_count((count,))
    if any(isinstance(x, Tensor) for x in (start, delta)):
        return start + np.arange(count) * delta
    return (ends[0] + np.arange(count) * ends[2]).astype(ends[0].dtype)


@row("EyeLike")
def _eye_like(x: Array, k: int = 0, dtype: int | None = None) -> Array:
    kind = x.dtype if dtype is None else _dtype_of_code(dtype)
    rows, columns = map(index, x.shape)
    return np.eye(rows, columns, k=k, dtype=kind)


@row("OneHot")
def _mark_places(places: Array, depth: Ints, values: Array, axis: int = -1) -> Array:
    (count,) = read_integers(depth)
    rank = rank_of(places) + 1
    check_count((*places.shape, count))
    along = [1] * rank
    along[axis] = count
    wanted = np.expand_dims(np.where(places < 0, places + count, places), axis)
    hit = np.equal(wanted, np.reshape(np.arange(count), along))
    return np.where(hit, values[1], values[0])


# By place


@row("Gather")
def _gather(x: Array, places: Array, axis: int = 0) -> Array:
    return np.take(x, places, axis)


@row("GatherElements")
def _gather_elements(x: Array, places: Array, axis: int = 0) -> Array:
    axis %= rank_of(x)
    return x[_grid(places, axis)]


def _grid(places: Array, axis: int) -> tuple[Any, ...]:
    """Return the index of each entry of ``places`` that moves along one axis alone."""
    key = list(np.ix_(*(np.arange(n) for n in places.shape)))
    key[axis] = places
    return tuple(key)


@row("GatherND")
def _gather_points(x: Array, places: Array, batch_dims: int = 0) -> Array:
    return x[_points(places, batch_dims)]


def _points(places: Array, batch: int = 0) -> tuple[Any, ...]:
    """Return the index whose parts lie along the last axis, after axes of batches."""
    rank = rank_of(places) - 1
    front = []
    for axis in range(batch):
        shape = [1] * rank
        shape[axis] = places.shape[axis]
        front.append(np.reshape(np.arange(places.shape[axis]), shape))
    return (*front, *(places[..., i] for i in range(places.shape[-1])))


_UPDATES = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


@row("ScatterElements", "Scatter")
def _scatter_elements(
    x: Array, places: Array, updates: Array, axis: int = 0, reduction: str = "none"
) -> Array:
    place = at(x)[_grid(places, axis % rank_of(x))]
    return getattr(place, _UPDATES[reduction])(updates)


@row("ScatterND")
def _scatter_points(
    x: Array, places: Array, updates: Array, reduction: str = "none"
) -> Array:
    return getattr(at(x)[_points(places)], _UPDATES[reduction])(updates)


@row("TensorScatter")
def _write_cache(
    cache: Array,
    update: Array,
    starts: Array = None,
    axis: int = -2,
    mode: str = "linear",
) -> Array:
    axis %= rank_of(cache)
    count, length = update.shape[axis], cache.shape[axis]
    first = np.zeros(cache.shape[0], np.int64) if starts is None else starts
    key = list(np.ix_(*(np.arange(n) for n in update.shape)))
    places = np.reshape(first, (-1, *(1,) * (rank_of(cache) - 1))) + key[axis]
    key[axis] = places % length if mode == "circular" else places
    return at(cache)[tuple(key)].set(update) if count else cache


@row("Compress")
def _compress(x: Array, condition: Array, axis: int | None = None) -> Array:
    keep = np.asarray(value_of(condition)).astype(bool)
    places = np.flatnonzero(keep)
    if axis is None:
        return np.reshape(x, -1)[places]
    return np.take(x, places, axis)


@row("Unique")
def _unique(x: Array, axis: int | None = None, sorted: int = 1, *, step: Any) -> Any:
    values = value_of(x)
    if values is None:
        raise Unsupported("without values")
    _, first, back, counts = np.unique(values, True, True, True, axis=axis)
    back = np.reshape(back, -1)
    if not sorted:
        order = np.argsort(first)
        places = np.argsort(order)
        first, back, counts = first[order], places[back], counts[order]
    y = np.reshape(x, -1)[first] if axis is None else np.take(x, first, axis)
    return [y, first, back, counts][: len(step.outputs)]


@row("ReverseSequence")
def _reverse_rows(
    x: Array, lengths: Ints, batch_axis: int = 1, time_axis: int = 0
) -> Array:
    count = x.shape[time_axis]
    steps = np.arange(count)
    each = np.reshape(np.array(read_integers(lengths)), (-1, 1))
    places = np.where(steps < each, each - 1 - steps, steps)  # (examples, steps)
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    turned = moved[np.arange(len(each))[:, None], places]
    return np.moveaxis(turned, (0, 1), (batch_axis, time_axis))
