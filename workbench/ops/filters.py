"""Linear ops with values from SciPy: cosines and sines, recursive filters.

Loaded by `workbench.scipy.fft` and `workbench.scipy.signal`, which give them SciPy's
names. For CuPy's arrays the values come from `cupyx.scipy`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import Op, Reading
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, Batched, Params, Spec, as_spec
from workbench.ops.contraction import product_dtype
from workbench.ops.define import dtype_of, linear, list_positions, op, shape_of, sum_to
from workbench.ops.device import find_library, on_cupy

# dct and dst along one axis, counted from the end. The matrix of type 2 is, up to one
# weight, the transpose of that of type 3; types 1 and 4 are symmetric but for weights.
# Conventions: scipy.fft.dct; N. Ahmed, T. Natarajan, K. R. Rao, "Discrete Cosine
# Transform" (1974).


def _transform(x: Array, kind: str, params: Params) -> Array:
    if dtype_of(x).kind == "c" and params["orthogonalize"] != (
        params["norm"] == "ortho"
    ):
        # SciPy forgets orthogonalize= of complex arrays.
        parts = (_transform(part, kind, params) for part in (np.real(x), np.imag(x)))
        return next(parts) + 1j * next(parts)
    return getattr(find_library(x, "fft"), kind)(x, **params)


def _transform_on_cupy(x: Array, kind: str, params: Params) -> Array:
    """Compute a transform on CuPy, where the functions have no ``orthogonalize=``.

    Without it a transform is orthogonalised where its norm is "ortho", and not else;
    the difference is a factor at the first and the last entry.
    """
    params = dict(params)
    wanted, given = params.pop("orthogonalize"), params["norm"] == "ortho"
    number, axis = params["type"], params["axis"]
    transform = getattr(find_library(x, "fft"), kind)
    if number in (1, 4):  # which CuPy does not have
        transform, given = _FOURIER[kind, number], False
    before = after = (1.0, 1.0)
    if wanted != given:
        root = 2**0.5 if wanted else 0.5**0.5
        if number == 1 and kind == "dct":
            before, after = (root, root), (1 / root, 1 / root)
        elif number == 2:
            after = (1 / root, 1.0) if kind == "dct" else (1.0, 1 / root)
        elif number == 3:
            before = (root, 1.0) if kind == "dct" else (1.0, root)
    if before != (1.0, 1.0):
        x = _weigh_ends(x, axis, before)
    if number in (1, 4):
        whole: Any = x * 1.0
        line = np.moveaxis(whole, axis, -1)
        if line.dtype.kind == "c":
            y = transform(np.real(line)) + 1j * transform(np.imag(line))
        else:
            y = transform(line)
        size = shape_of(line)[-1] + {("dct", 1): -1, ("dst", 1): 1}.get(
            (kind, number), 0
        )
        power = {"backward": 0.0, "ortho": -0.5, "forward": -1.0}[params["norm"]]
        y = np.moveaxis(y * (2 * size) ** power, -1, axis)
    else:
        y = transform(x, **params)
    return y if after == (1.0, 1.0) else _weigh_ends(y, axis, after)


# Types 1 and 4 along the last axis of real arrays, by a Fourier transform: type 1 of
# the line mirrored at both ends; of type 4 with half a step before and after it.


def _cosine_of_type_1(x: Array) -> Array:
    return np.real(np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], axis=-1)))


def _sine_of_type_1(x: Array) -> Array:
    zero = np.zeros_like(x[..., :1])
    whole = np.concatenate([zero, x, zero, -x[..., ::-1]], axis=-1)
    return -np.imag(np.fft.rfft(whole))[..., 1 : shape_of(x)[-1] + 1]


def _waves_of_type_4(x: Array) -> Array:
    size = shape_of(x)[-1]
    k = list_positions(size, like=x)
    kind = np.result_type(x.dtype, np.complex64)
    inner = np.exp(-0.5j * np.pi / size * k).astype(kind)
    outer = np.exp(-0.25j * np.pi / size * (2 * k + 1)).astype(kind)
    return 2 * outer * np.fft.fft(x * inner, 2 * size)[..., :size]


_FOURIER: dict[tuple[str, int], Callable[[Array], Array]] = {
    ("dct", 1): _cosine_of_type_1,
    ("dst", 1): _sine_of_type_1,
    ("dct", 4): lambda x: np.real(_waves_of_type_4(x)),
    ("dst", 4): lambda x: -np.imag(_waves_of_type_4(x)),
}


def _weigh_ends(x: Array, axis: int, ends: tuple[float, float]) -> Array:
    """Return the first and the last entry along an axis times these weights."""
    n = shape_of(x)[axis]
    k = list_positions(n, like=x)
    weights = np.where(np.equal(k, 0), ends[0], 1.0)
    weights = weights * np.where(np.equal(k, n - 1), ends[1], 1.0)
    weights = weights.astype(np.finfo(dtype_of(x)).dtype)
    return x * np.reshape(weights, (-1, *(1,) * (-axis - 1)))


def _trigonometric(kind: str) -> Op:
    def transpose(g: Array, x: Array, **params: Any) -> Array:
        number, axis = params["type"], params["axis"]
        # Where the matrix is orthogonal but for a factor no weight is left.
        even = params["orthogonalize"]
        before = after = (1.0, 1.0)
        if not even and number == 1 and kind == "dct":
            before, after = (2.0, 2.0), (0.5, 0.5)
        elif not even and number == 2:
            before = (2.0, 1.0) if kind == "dct" else (1.0, 2.0)
        elif not even and number == 3:
            after = (0.5, 1.0) if kind == "dct" else (1.0, 0.5)
        if before != (1.0, 1.0):
            g = _weigh_ends(g, axis, before)
        turned = {**params, "type": {2: 3, 3: 2}.get(number, number)}
        y = apply(new_op, (g,), turned)
        return y if after == (1.0, 1.0) else _weigh_ends(y, axis, after)

    def infer(x: Array, **params: Any) -> Spec:
        spec = as_spec(x)
        if not spec.shape:
            raise ValueError(f"{kind}: x must be at least one-dimensional")
        small = spec.dtype.kind not in "fc" or spec.dtype.itemsize < 4
        wide = np.dtype(np.float32 if spec.dtype == np.float16 else np.float64)
        return Spec(spec.shape, wide if small else spec.dtype)

    def template(node: Tensor) -> str:
        even = node.params["orthogonalize"]
        if node.dtype.kind == "c" and even != (node.params["norm"] == "ortho"):
            # SciPy forgets orthogonalize= of complex arrays.
            call = f"fft.{kind}({{0}}.%s{{more}})"
            return f"{call % 'real'} + 1j * {call % 'imag'}"
        return f"fft.{kind}({{0}}{{more}})"

    new_op = linear(
        kind,
        lambda x, **params: _transform(x, kind, params),
        transpose,
        rule=f"{kind} of g, of the transposed type",
        pattern="lines",
        infer=infer,
        template=template,
    )
    new_op.batch = "whole"
    on_cupy(new_op)(lambda x, **params: _transform_on_cupy(x, kind, params))
    return new_op


TRIGONOMETRIC = {kind: _trigonometric(kind) for kind in ("dct", "dst")}


def trigonometric(
    kind: str, x: Array, number: int, axis: int, norm: str, orthogonalize: bool
) -> Array:
    """Apply `scipy.fft.dct` or ``dst`` along an axis counted from the end."""
    params = {
        "type": number,
        "axis": axis,
        "norm": norm,
        "orthogonalize": orthogonalize,
    }
    return apply(TRIGONOMETRIC[kind], (x,), params)


# recursive: y with a * y = x along the last axis, the all-pole part of a filter.
# From a_0 y_t + a_1 y_{t-1} + ... = x_t follows A dy = dx - dA y, with A the lower
# triangular Toeplitz matrix of a; its transpose is A with time turned round.


def _recursive_compute(a: Array, x: Array) -> Array:
    one = np.ones_like(a, shape=(1,))
    with warnings.catch_warnings():
        # CuPy's is made by its compiler of Python code, which it calls experimental.
        warnings.simplefilter("ignore", FutureWarning)
        made: Array = find_library(x, "signal").lfilter(one, a, x)
    return made


def _recursive_transposed(a: Array, g: Array) -> Array:
    return np.flip(apply(RECURSIVE, (a, np.flip(g, -1))), -1)


def _recursive_right(g: Array, y: Array, a: Array, x: Array) -> Array:
    return sum_to(_recursive_transposed(a, g), shape_of(x))


def _recursive_left(g: Array, y: Array, a: Array, x: Array) -> Array:
    back = _recursive_transposed(a, g)
    return -np.stack(
        [_correlate_at_lag(back, y, k) for k in range(shape_of(a)[0])]
    )  # fmt: skip


def _correlate_at_lag(u: Array, y: Array, lag: int) -> Array:
    """Return the sum of u_t y_{t - lag} over time and examples."""
    length = shape_of(y)[-1]
    return np.sum(u[..., min(lag, length) :] * y[..., : max(length - lag, 0)])


def _recursive_push(tangents: tuple[Any, ...], y: Array, a: Array, x: Array) -> Array:
    moved_a, moved = tangents
    if moved_a is not None:
        length = shape_of(y)[-1]
        for k in range(min(shape_of(a)[0], length)):
            before = [(0, 0)] * (len(shape_of(y)) - 1) + [(k, 0)]
            term = moved_a[k] * np.pad(y[..., : length - k], before)
            moved = -term if moved is None else moved - term
    return apply(RECURSIVE, (a, moved))


def _recursive_infer(a: Array, x: Array) -> Spec:
    a, x = as_spec(a), as_spec(x)
    dtype = product_dtype(a, x)
    return Spec(x.shape, dtype if dtype.kind in "fc" else np.dtype(float))


def _recursive_batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> Array:
    # Where each example has a filter of its own: SciPy takes one at a time.
    return NotImplemented if batched[0] else apply(RECURSIVE, inputs)


def _read_past(a: Array, x: Array) -> Array:
    """Read all entries up to the same time; coefficient k comes in at time k."""
    (count,), length = shape_of(a), shape_of(x)[-1]
    own = np.pad(a, (0, max(0, length - count)))[:length]
    return np.cumsum(own, axis=-1) + np.cumsum(x, axis=-1)


RECURSIVE = op(
    "recursive_filter",
    _recursive_compute,
    _recursive_left,
    _recursive_right,
    push=_recursive_push,
    rule="−Σ r y, shifted   r = the filter of g, backwards in time",
    pattern=Reading(_read_past),
    reads=(0, "y"),
    batch=_recursive_batch,
    infer=_recursive_infer,
    template=lambda node: (
        f"signal.lfilter(np.ones(1, np.{node.dtype}), {{0}}, {{1}})"
        if node.dtype in (np.float32, np.complex64)
        else "signal.lfilter([1.0], {0}, {1})"
    ),
)


def recursive(a: Array, x: Array) -> Array:
    """Solve ``a[0] y[t] + a[1] y[t - 1] + ... = x[t]`` along the last axis."""
    return apply(RECURSIVE, (a, x))
