"""Convolution in any number of dimensions, directly or through Fourier transforms.

Two shapes of it are enough: "full" has every overlap, "valid" only the complete ones.
Each is linear in both arrays, and the cotangents are convolutions again, with one
array turned round. `numpy.convolve` and `numpy.correlate` are written with these, and
so are SciPy's in `workbench/scipy`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.deferred import operand_shape
from workbench.core.op import Op, Reading, declare, implements
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, Batched, Params, Shape, Spec, as_spec
from workbench.ops.contraction import product_dtype
from workbench.ops.define import Compute, dtype_of, multilinear, shape_of
from workbench.ops.device import make_zeros
from workbench.ops.elementwise import conjugate
from workbench.ops.indexing import ARRAY, Slice
from workbench.ops.shaping import lay_out

# The values, on arrays of any library


def _compute(a: Array, b: Array, *, mode: str, method: str, batch: int) -> Array:
    if mode == "valid":  # NumPy would slide the longer one
        _refuse_larger(shape_of(a)[batch:], shape_of(b)[batch:])
    if method == "fft":
        return _convolve_by_fft(a, b, mode, batch)
    if batch == 0 and len(shape_of(a)) == 1:
        return np.convolve(a, b, mode=_as_mode(mode))
    if mode == "full":
        return _convolve_full(a, b, batch)
    return _convolve_valid(a, b, batch)


def _convolve_lines(a: Array, b: Array, *, mode: str) -> Array:
    return _compute(a, b, mode=mode, method="direct", batch=0)


def _as_mode(mode: str) -> Any:
    return mode


def _lengths(mode: str, a: Shape, b: Shape, batch: int) -> Shape:
    """Return the shape of a convolution."""
    apart = len(a) != len(b) or dims.always_differ(a[:batch], b[:batch])
    if apart or any(map(dims.is_zero_length, a[batch:] + b[batch:])):
        raise ValueError(f"shapes {a} and {b} do not convolve")
    if mode == "full":
        spatial = [n + m - 1 for n, m in zip(a[batch:], b[batch:], strict=True)]
    else:
        _refuse_larger(a[batch:], b[batch:])
        spatial = [n - m + 1 for n, m in zip(a[batch:], b[batch:], strict=True)]
    return (*a[:batch], *spatial)


def _refuse_larger(a: Shape, b: Shape) -> None:
    if any(map(dims.is_always_less, a, b)):
        raise ValueError(f"mode 'valid': {b} is larger than {a} along an axis")


def _index_window(
    rank: int, axes: list[int], starts: Shape, lengths: list[int]
) -> tuple[slice, ...]:
    """Return an index: a window along some axes, all along the others."""
    index = [slice(None)] * rank
    for axis, start, length in zip(axes, starts, lengths, strict=True):
        index[axis] = slice(start, start + length)
    return tuple(index)


def _convolve_full(a: Array, b: Array, batch: int) -> Array:
    """Return one multiple of ``a`` for each entry of ``b``, shifted and added."""
    if math.prod(shape_of(b)) > math.prod(shape_of(a)):
        a, b = b, a
    n, m, rank = shape_of(a), shape_of(b), len(shape_of(a))
    axes = [i for i in range(batch, rank) if n[i] > 1 and m[i] > 1]
    shape = _lengths("full", n, m, batch)
    out = make_zeros(a, shape, product_dtype(a, b))
    ones, widths = [1] * len(axes), [n[i] for i in axes]
    for j in np.ndindex(*(m[i] for i in axes)):
        out[_index_window(rank, axes, j, widths)] += (
            a * b[_index_window(rank, axes, j, ones)]
        )
    return out


def _convolve_valid(a: Array, b: Array, batch: int) -> Array:
    """Return the entries of a convolution where both operands overlap in full."""
    n, m, rank = shape_of(a), shape_of(b), len(shape_of(a))
    axes = [i for i in range(batch, rank) if m[i] > 1]
    shape = _lengths("valid", n, m, batch)
    out = make_zeros(a, shape, product_dtype(a, b))
    ones = [1] * len(axes)
    kernel, lengths = [m[i] for i in axes], [shape[i] for i in axes]
    back = np.flip(b, tuple(axes))
    if math.prod(kernel) <= math.prod(lengths):
        for j in np.ndindex(*kernel):
            out += (
                a[_index_window(rank, axes, j, lengths)]
                * back[_index_window(rank, axes, j, ones)]
            )
        return out
    for i in np.ndindex(*lengths):
        window = a[_index_window(rank, axes, i, kernel)] * back
        out[_index_window(rank, axes, i, ones)] = np.sum(
            window, axis=tuple(axes), keepdims=True
        )  # fmt: skip
    return out


@lru_cache(maxsize=1024)
def _find_fast_length(n: int) -> int:
    """Return the least length of at least ``n`` without prime factors beyond 5.

    >>> [_find_fast_length(n) for n in (1, 7, 17, 1001)]
    [1, 8, 18, 1024]
    """
    best, five = 1 << (n - 1).bit_length(), 1
    while five < best:
        three = five
        while three < best:
            rest = -(-n // three)
            best = min(best, three << (rest - 1).bit_length())
            three *= 3
        five *= 5
    return best


def _convolve_by_fft(a: Array, b: Array, mode: str, batch: int) -> Array:
    """Return the product of both spectra, by the convolution theorem.

    Axes of length 1 need no transform, and where a valid convolution leaves a single
    entry along an axis it is a sum of products.
    """
    n, m, rank = shape_of(a), shape_of(b), len(shape_of(a))
    shape, dtype = _lengths(mode, n, m, batch), product_dtype(a, b)
    full = mode == "full"
    axes = [
        i
        for i in range(batch, rank)
        if m[i] > 1 and (n[i] > 1 if full else n[i] != m[i])
    ]
    summed = [i for i in range(batch, rank) if not full and 1 < m[i] == n[i]]
    a, b = (x if dtype_of(x) == dtype else x.astype(dtype) for x in (a, b))
    b = np.flip(b, tuple(summed))
    # A circular convolution of length n has all that does not wrap round.
    sizes = [_find_fast_length(n[i] + m[i] - 1 if full else n[i]) for i in axes]
    real = dtype.kind != "c"
    ahead: Any = np.fft.rfftn if real else np.fft.fftn
    back: Any = np.fft.irfftn if real else np.fft.ifftn
    y = ahead(a, sizes, axes) * ahead(b, sizes, axes) if axes else a * b
    if summed:
        y = np.sum(y, axis=tuple(summed), keepdims=True)
    if axes:
        y = back(y, sizes, axes)
        starts = tuple(0 if full else m[i] - 1 for i in axes)
        y = y[_index_window(rank, axes, starts, [shape[i] for i in axes])]
    if dtype.kind in "biu":
        y = np.rint(y)
    return y.astype(dtype) if dtype_of(y) != dtype else y


# The op, and the one of NumPy's name for a single axis


def flip_axes(x: Array, batch: int = 0) -> Array:
    """Reverse ``x`` along every axis but the first ``batch``."""
    return np.flip(x, tuple(range(batch, len(shape_of(x)))))


def _apply_convolution(a: Array, b: Array, mode: str, method: str, batch: int) -> Array:
    if batch == 0 and method == "direct" and len(shape_of(a)) == 1:
        return apply(CONVOLVE, (a, b), {"mode": mode})
    params = {"mode": mode, "method": method, "batch": batch}
    return apply(CONVOLVE_ND, (a, b), params)


def _transpose_left(
    g: Array, a: Array, b: Array, *, mode: str, method: str = "direct", batch: int = 0
) -> Array:
    other = "valid" if mode == "full" else "full"
    return _apply_convolution(g, flip_axes(b, batch), other, method, batch)


def _transpose_right(
    g: Array, a: Array, b: Array, *, mode: str, method: str = "direct", batch: int = 0
) -> Array:
    if mode == "full":
        return _apply_convolution(g, flip_axes(a, batch), "valid", method, batch)
    return flip_axes(
        _apply_convolution(a, flip_axes(g, batch), "valid", method, batch), batch
    )


def _batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    a, b = inputs
    mode, method = params["mode"], params.get("method", "direct")
    batch = params.get("batch", 0)
    if all(batched):
        return _apply_convolution(a, b, mode, method, batch + 1)
    size = shape_of(a if batched[0] else b)[0]
    if batch or (mode == "valid" and batched[1]) or dims.is_zero_length(size):
        a, b = (
            x if k else np.broadcast_to(x, (size, *shape_of(x)))
            for x, k in zip(inputs, batched, strict=True)
        )
        return _apply_convolution(a, b, mode, method, batch + 1)
    # What is the same for all examples has length 1 along one axis more.
    a, b = (
        x if k else np.reshape(x, (1, *shape_of(x)))
        for x, k in zip(inputs, batched, strict=True)
    )
    return _apply_convolution(a, b, mode, method, 0)


def _infer(
    a: Array, b: Array, *, mode: str, method: str = "direct", batch: int = 0
) -> Spec:
    a, b = as_spec(a), as_spec(b)
    return Spec(_lengths(mode, a.shape, b.shape, batch), product_dtype(a, b))


#: A convolution with at most so many entries, or results, is a sum of products.
FEW = 64


def _convolution_body(a: Any, b: Any, *, mode: str, batch: int = 0, **more: Any) -> Any:
    """Write a convolution as a sum over windows of the one operand."""
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    lengths = shape_of(a)[batch:], shape_of(b)[batch:]
    if math.prod(lengths[0]) < math.prod(lengths[1]):
        a, b, lengths = b, a, lengths[::-1]
    if (
        dtype.kind not in "fciu"
        or dtype.char == "e"
        or more.get("method", "direct") != "direct"
        or 0 in (*shape_of(a), *shape_of(b))
    ):
        return None
    rank = len(lengths[0])
    key: list[Any] = [slice(None)] * batch
    margins = [(0, 0)] * batch
    results = 1
    for n, m in zip(*lengths, strict=True):
        start, size = (0, n + m - 1) if mode == "full" else (m - 1, n - m + 1)
        if size < 1:
            return None
        results *= size
        key.append(slice(max(0, start - m + 1), min(n, start + size)))
        margins.append((max(0, m - 1 - start), max(0, start + size - n)))
    if min(math.prod(lengths[1]), results) > FEW:
        return None
    a = np.pad(a[tuple(key)], margins)
    windows = np.lib.stride_tricks.sliding_window_view(
        a, lengths[1], tuple(range(batch, batch + rank))
    )
    turned = np.flip(b, tuple(range(batch, batch + rank)))
    front = shape_of(turned)[:batch]
    turned = np.reshape(turned, (*front, *(1,) * rank, *lengths[1]))
    axes = tuple(range(batch + rank, batch + 2 * rank))
    return np.sum(windows * turned, axis=axes).astype(dtype)


#: Patterns list no more products than this.
MOST_PRODUCTS = 2**25


def _add_products(a: Any, b: Any, *, mode: str, batch: int = 0, **_: Any) -> Any:
    """Write a convolution as all products of entries, added where they belong."""
    n, m = shape_of(a), shape_of(b)
    if math.prod(n) * math.prod(m) > MOST_PRODUCTS:
        return None
    rank, whole = len(n), _lengths(mode, n, m, batch)
    left, right, places = [*n[:batch]], [*m[:batch]], []
    for i in range(batch, rank):
        left += [n[i], 1]
        right += [1, m[i]]
        start = 0 if mode == "full" else m[i] - 1
        place = np.add.outer(np.arange(n[i]), np.arange(m[i])) - start  # host array: so
        place[(place < 0) | (place >= whole[i])] = whole[i]  # one too far: cut off
        places.append(place.reshape(*place.shape, *(1, 1) * (rank - 1 - i)))
    longer = [k + (i >= batch) for i, k in enumerate(whole)]
    out = np.zeros(longer)  # host array: of no value
    key = (Slice(None, None, None),) * batch + (ARRAY,) * len(places)
    terms = np.reshape(a, left) * np.reshape(b, right)
    made = apply(declare("index_add"), (out, terms, *places), {"key": key})
    return made[tuple(map(slice, whole))]


def _declare_convolution(name: str, compute: Compute) -> Op:
    return multilinear(
        name,
        compute,
        _transpose_left,
        _transpose_right,
        rule="g with x₁ turned round   g with x₀ turned round",
        batch=_batch,
        infer=_infer,
        cure="Both arrays have the same number of axes, none of length 0; for 'valid'"
        " one of them must be at least as long as the other along every axis.",
        unfold=_convolution_body,
        pattern=Reading(_add_products, is_same=True),
        contracts=True,
        sums=True,
        grows=True,
    )


CONVOLVE = _declare_convolution("convolve", _convolve_lines)
CONVOLVE_ND = _declare_convolution("convolve_nd", _compute)


def _text(node: Tensor) -> str:
    batch, axes = node.params["batch"], len(node.shape)
    if node.params["method"] == "fft":
        more = f", axes={tuple(range(batch, axes))}" if batch else ""
        return f"signal.fftconvolve({{0}}, {{1}}, {{mode}}{more})"
    if batch:
        return "convolve_each({0}, {1}, {mode}, {batch})"
    if axes == 1:
        return "np.convolve({0}, {1}, {mode})"
    return 'signal.convolve({0}, {1}, {mode}, "direct")'


CONVOLVE_ND.template = _text
CONVOLVE_ND.helper = '''\
def convolve_each(a, b, mode, axes):
    """The convolution of each pair along some axes in front."""
    if not axes:
        return signal.convolve(a, b, mode, "direct")
    return np.stack([convolve_each(x, y, mode, axes - 1) for x, y in zip(a, b)])
'''


def convolve_arrays(
    a: Array, b: Array, mode: str, method: str = "direct", batch: int = 0
) -> Array:
    """Return the convolution of two arrays with as many axes.

    Parameters
    ----------
    a, b
        Arrays or Tensors; their first ``batch`` axes are examples, of equal number.
    mode
        ``"full"``, ``"valid"`` (``b`` is nowhere longer than ``a``), or ``"same"``:
        the middle of the full one, in the shape of ``a``.
    method
        ``"direct"`` or ``"fft"``.
    batch
        The number of leading axes that the convolution does not touch.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    if mode == "same":
        y = _apply_convolution(a, b, "full", method, batch)
        return crop_to_center(y, shape_of(a), batch)
    return _apply_convolution(a, b, mode, method, batch)


def crop_to_center(x: Array, shape: Shape, batch: int = 0) -> Array:
    """Return the middle of ``x``, in a smaller shape."""
    return x[
        tuple(
            slice(None) if i < batch else slice((n - m) // 2, (n - m) // 2 + m)
            for i, (n, m) in enumerate(zip(shape_of(x), shape, strict=True))
        )
    ]


# NumPy's names, for one axis


def _check_line(x: Array, name: str, argument: str) -> Array:
    x = admit(x)
    if not shape_of(x):
        x = np.reshape(x, (1,))
    if len(shape_of(x)) > 1:
        raise ValueError(
            f"np.{name}{blame.user_line()}: {argument} has shape {shape_of(x)}, and"
            " must have one axis; workbench.scipy.signal has it for more."
        )
    if dims.is_zero_length(shape_of(x)[0]):
        raise ValueError(f"np.{name}{blame.user_line()}: {argument} cannot be empty")
    return x


def _check_mode(mode: str, name: str) -> str:
    if mode not in ("full", "same", "valid"):
        raise ValueError(
            f"np.{name}(..., mode={mode!r}){blame.user_line()}: mode is 'full', 'same'"
            " or 'valid'"
        )
    return str(mode)


def _line_lengths(a: Array, v: Array, mode: str = "valid") -> Shape:
    n, m = (operand_shape(x)[0] if operand_shape(x) else 1 for x in (a, v))
    if mode == "same":
        return (dims.largest(n, m),)
    return (
        n + m - 1 if mode == "full" else dims.largest(n, m) - dims.smallest(n, m) + 1,
    )


@implements(np.convolve, lengths=_line_lengths)
def convolve(a: Array, v: Array, mode: str = "full") -> Array:
    """Convolve two vectors, as `numpy.convolve` does."""
    a, v = _check_line(a, "convolve", "a"), _check_line(v, "convolve", "v")
    n, m = shape_of(a)[0], shape_of(v)[0]
    # In full, the order decides nothing: the lengths may be unknown.
    if dims.is_always_less(n, m) if _check_mode(mode, "convolve") == "full" else m > n:
        a, v = v, a
    return convolve_arrays(a, v, mode)


@implements(np.correlate, lengths=_line_lengths)
def correlate(a: Array, v: Array, mode: str = "valid") -> Array:
    """Correlate two vectors, the second conjugated, as `numpy.correlate` does."""
    a, v = _check_line(a, "correlate", "a"), _check_line(v, "correlate", "v")
    mode = _check_mode(mode, "correlate")
    if mode == "full" or shape_of(v)[0] <= shape_of(a)[0]:
        return convolve_arrays(a, np.flip(conjugate(v)), mode)
    # NumPy slides the shorter one, and turns the result round.
    return lay_out(np.flip(convolve_arrays(conjugate(v), np.flip(a), mode)), "C")
