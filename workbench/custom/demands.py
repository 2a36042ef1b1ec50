"""What each function that a rule may name makes of its operands, before it runs.

One row each: how many entries its results have at most, and about how many nanoseconds
it takes, from shapes alone; from values only where they are lengths (the ``reps`` of
``tile``). What has no row here cannot be named by a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log2, prod
from typing import Any

import numpy as np

from workbench.autodiff.budget import Demand, count_entries, operand_lengths
from workbench.core.tensor import value_of

#: What a rule gives a function: an array, a number, a text, None, or a list of these.
Operand = object
#: ``estimate(*operands, **settings) -> Demand``.
Estimate = Callable[..., Demand]

#: Nanoseconds for an entry that is copied, computed, sorted.
COPIED, COMPUTED, SORTED = 2.0, 20.0, 200.0
#: For a product and a sum, where no library of matrices does them.
UNBLOCKED = 4.0
#: The same for calling a function of NumPy at all.
CALLED = 1e3
#: As many numbers as an operand that holds lengths may have.
MOST_LENGTHS = 1000


def _size(*operands: Operand) -> int:
    """Return the number of entries of all operands together."""
    return sum(map(count_entries, operands))


def _broadcast_size(*operands: Operand) -> int:
    """Return the number of entries of what operands broadcast to."""
    shapes = [operand_lengths(x) for x in operands]
    rank = max(map(len, shapes), default=0)
    found = 1
    for axis in range(-rank, 0):
        found *= max(s[axis] for s in shapes if len(s) >= -axis)
    return found


def _numbers(x: Operand, what: str) -> list[int]:
    """Return the whole numbers of an operand that determines the result's shape.

    Raises
    ------
    ValueError
        If they are not known before the program runs.
    """
    if isinstance(x, (list, tuple)):
        return [n for part in x for n in _numbers(part, what)]
    if isinstance(x, (bool, int, float)):
        return [int(x)]
    held = value_of(x) if hasattr(x, "shape") else None
    if held is None or isinstance(held, str) or count_entries(held) > MOST_LENGTHS:
        raise ValueError(f"its {what} must be numbers that stand in the rule")
    return [int(n) for n in np.ravel(held).tolist()]


def _length(x: Operand, axis: Operand) -> int:
    """Return the length of an axis; without an axis the number of all entries."""
    shape = operand_lengths(x)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return count_entries(x)
    return shape[axis]


def _rest(x: Operand, axis: Operand) -> float:
    """Return the number of rows along an axis."""
    return count_entries(x) / max(_length(x, axis), 1)


# Families


def entrywise(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate a function that broadcasts its operands and works entry by entry."""
    made = _broadcast_size(*operands)
    return Demand(made, CALLED + COMPUTED * made)


def two_per_entry(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate one with two results for each entry, or a complex one."""
    made = 2 * _broadcast_size(*operands)
    return Demand(made, CALLED + COMPUTED * made)


def pass_on(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate one that makes no more entries than it is given."""
    made = _size(*operands)
    return Demand(made, CALLED * (1 + _parts(operands)) + COPIED * made)


def _sort(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate one that sorts, and may return positions and counts too."""
    made = _size(*operands)
    return Demand(4 * made, CALLED + SORTED * made)


def _reduce(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate a reduction, or one that runs along an axis."""
    made = _size(*operands)
    return Demand(made, CALLED + COMPUTED * made)


def _accumulate(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate a running sum, which may begin with one entry more."""
    made = 2 * _size(*operands)
    return Demand(made, CALLED + COMPUTED * made)


def _parts(operands: Iterable[Operand]) -> int:
    """Return how many entries the lists among the operands have."""
    return sum(1 + _parts(x) for x in operands if isinstance(x, (list, tuple)))


def _broadcast(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate one array for each operand, in the shape that all broadcast to."""
    made = _broadcast_size(*operands) * max(len(operands), 1)
    return Demand(made, CALLED + COPIED * made)


def _positions(a: Operand, *more: Operand, **settings: Operand) -> Demand:
    """Estimate positions of entries: one number for each axis."""
    made = _size(a, *more) * max(len(operand_lengths(a)), 1)
    return Demand(2 * made, CALLED + COPIED * made)


# Longer results


def _tile(A: Operand, reps: Operand) -> Demand:
    made = _size(A) * prod(max(n, 0) for n in _numbers(reps, "reps"))
    return Demand(made, CALLED + COPIED * made)


def _repeat(a: Operand, repeats: Operand, axis: Operand = None) -> Demand:
    if not isinstance(repeats, (int, float)) and count_entries(repeats) > 1:
        held: Any = value_of(repeats) if hasattr(repeats, "shape") else repeats
        if held is None:
            raise ValueError("its repeats must be numbers that stand in the rule")
        made = float(np.sum(held)) * _rest(a, axis)
    else:
        made = _size(a) * max(sum(_numbers(repeats, "repeats")), 0)
    return Demand(made, CALLED + COPIED * made)


def _pad(
    array: Operand, pad_width: Operand, mode: Operand = "constant", **more: Operand
) -> Demand:
    shape = operand_lengths(array)
    widths = np.broadcast_to(_nested_lengths(pad_width), (len(shape), 2)).tolist()
    ends = zip(shape, widths, strict=True)
    made = prod(n + max(before, 0) + max(after, 0) for n, (before, after) in ends)
    return Demand(made, CALLED + COMPUTED * made)


def _nested_lengths(x: Operand) -> Any:
    """Return the lengths of a nest of lists, nested alike."""
    if isinstance(x, (list, tuple)):
        return [_nested_lengths(part) for part in x]
    found = _numbers(x, "pad_width")
    return found if operand_lengths(x) else found[0]


def _resize(a: Operand, new_shape: Operand) -> Demand:
    """Estimate `resize`: it joins copies, each of which takes memory."""
    made = prod(max(n, 0) for n in _numbers(new_shape, "new_shape"))
    parts = made / _size(a)
    return Demand(made + 16 * parts, CALLED * (1 + parts) + COPIED * made)


def _of_shape(shape: Operand) -> Demand:
    made = prod(max(n, 0) for n in _numbers(shape, "shape"))
    return Demand(made, CALLED + COPIED * made)


def _spread(array: Operand, shape: Operand) -> Demand:
    return _of_shape(shape)


def _fill(
    a: Operand, *value: Operand, shape: Operand = None, **more: Operand
) -> Demand:
    if shape is None:
        return pass_on(a, *value)
    return _of_shape(shape)


def _diag(v: Operand, k: Operand = 0) -> Demand:
    if len(operand_lengths(v)) > 1:
        return pass_on(v)
    return _diagflat(v, k)


def _diagflat(v: Operand, k: Operand = 0) -> Demand:
    made = (_size(v) + abs(_numbers(k, "k")[0])) ** 2
    return Demand(made, CALLED + COPIED * made)


def _triangle(m: Operand, k: Operand = 0) -> Demand:
    """Estimate a triangle; that of a vector has a row for each entry."""
    made = _size(m) * (_size(m) if len(operand_lengths(m)) == 1 else 1)
    return Demand(made, CALLED + COPIED * made)


def _vander(x: Operand, N: Operand = None, increasing: Operand = False) -> Demand:
    n = _size(x)
    made = n * (n if N is None else max(_numbers(N, "N")[0], 0))
    return Demand(made, CALLED + COMPUTED * made)


def _kron(a: Operand, b: Operand) -> Demand:
    made = _size(a) * _size(b)
    return Demand(made, CALLED + COPIED * made)


def _meshgrid(*xi: Operand, **settings: Operand) -> Demand:
    made = prod(map(_size, xi)) * len(xi)
    return Demand(made, CALLED + COPIED * made)


def _windows(
    x: Operand, window_shape: Operand, axis: Operand = None, **more: Operand
) -> Demand:
    made = _size(x) * prod(max(n, 1) for n in _numbers(window_shape, "window_shape"))
    return Demand(made, CALLED + COPIED * made)


def _unpackbits(
    a: Operand, axis: Operand = None, count: Operand = None, **more: Operand
) -> Demand:
    made = 8.0 * _size(a)
    if count is not None:
        made = max(made, _rest(a, axis) * max(_numbers(count, "count")[0], 0))
    return Demand(made, CALLED + COPIED * made)


def _take(
    a: Operand, indices: Operand, axis: Operand = None, **more: Operand
) -> Demand:
    made = _size(indices) * (1 if axis is None else _rest(a, axis))
    return Demand(made, CALLED + COPIED * made)


def _take_along(arr: Operand, indices: Operand, axis: Operand = -1) -> Demand:
    """Estimate `take_along_axis`: both broadcast, except along the axis."""
    made = _broadcast_size(arr, indices) * max(_length(indices, axis), 1)
    return Demand(made, CALLED + COPIED * made)


def _insert(
    arr: Operand, obj: Operand, values: Operand, axis: Operand = None
) -> Demand:
    wide = 1.0 if axis is None else _rest(arr, axis)
    made = _size(arr, values) + max(_size(obj), _length(values, axis)) * wide
    return Demand(made, CALLED + COPIED * made)


def _split(ary: Operand, indices_or_sections: Operand, axis: Operand = 0) -> Demand:
    """Estimate views, each of which takes memory of its own."""
    numbers = _numbers(indices_or_sections, "sections")
    lone = isinstance(indices_or_sections, int) and numbers[0] > 0
    parts = numbers[0] if lone else len(numbers) + 1
    return Demand(_size(ary) + 16 * parts, CALLED * (1 + parts))


def _unstack(x: Operand, **settings: Operand) -> Demand:
    parts = _length(x, settings.get("axis", 0))
    return Demand(_size(x) + 16 * parts, CALLED * (1 + parts))


def _choose(a: Operand, choices: Operand, **more: Operand) -> Demand:
    listed = choices if isinstance(choices, (list, tuple)) else [choices]
    made = _broadcast_size(a, *listed)
    return Demand(made, CALLED + COMPUTED * made * (1 + len(listed)))


def _select(condlist: Operand, choicelist: Operand, default: Operand = 0) -> Demand:
    return _choose(default, [*_as_list(condlist), *_as_list(choicelist)])


def _as_list(x: Operand) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _diff(
    a: Operand, n: Operand = 1, axis: Operand = -1, *ends: Operand, **more: Operand
) -> Demand:
    made = 3 * _size(a, *ends, *more.values())
    times = max(_numbers(n, "n")[0], 1)
    return Demand(made, times * (CALLED + COPIED * made))


def _gradient(f: Operand, *spacing: Operand, **more: Operand) -> Demand:
    made = _size(f) * max(len(operand_lengths(f)), 1)
    return Demand(made, CALLED + COMPUTED * made)


def _quantile(a: Operand, q: Operand, axis: Operand = None, **more: Operand) -> Demand:
    # Beside the result several arrays as large, between which it lies.
    made = _size(a) + 8 * _size(q) * (1 if axis is None else _size(a))
    return Demand(made, CALLED + SORTED * made)


def _nanquantile(
    a: Operand, q: Operand, axis: Operand = None, **more: Operand
) -> Demand:
    """Estimate quantiles that call a function for each row."""
    made, work = _quantile(a, q, axis)
    rows = 1 if axis is None else _rest(a, axis)
    return Demand(made, work + 100 * CALLED * rows)


def _ravel_index(multi_index: Operand, *more: Operand, **settings: Operand) -> Demand:
    return entrywise(*_as_list(multi_index))


def _roll(a: Operand, shift: Operand, axis: Operand = None) -> Demand:
    """Estimate `roll`, which takes a step for each of several shifts."""
    made, work = pass_on(a)
    return Demand(made, work + CALLED * _broadcast_size(shift, axis))


def _unravel(indices: Operand, shape: Operand, **more: Operand) -> Demand:
    made = _size(indices) * max(len(_numbers(shape, "shape")), 1)
    return Demand(made, CALLED + COMPUTED * made)


def _isin(
    element: Operand, test_elements: Operand, *flags: Operand, **more: Operand
) -> Demand:
    if more.get("kind") not in (None, "sort"):
        raise ValueError('its kind may be "sort" alone in a rule')
    return _sort(element, test_elements)


# Counts


def _bincount(x: Operand, weights: Operand = None, minlength: Operand = 0) -> Demand:
    held: Any = value_of(x) if hasattr(x, "shape") else x
    if held is None:
        raise ValueError("the largest of its entries must be known before it runs")
    largest = int(np.max(held)) + 1 if count_entries(held) else 0
    made = max(largest, _numbers(minlength, "minlength")[0])
    return Demand(made, CALLED + COMPUTED * (made + _size(x)))


def _bins(bins: Operand) -> int:
    """Return the number of bins of one axis."""
    if isinstance(bins, str):
        raise ValueError("its bins must be numbers, not the name of a way to find them")
    if operand_lengths(bins):
        return count_entries(bins)
    return max(_numbers(bins, "bins")[0], 0)


def _histogram(
    a: Operand, bins: Operand = 10, *more: Operand, **settings: Operand
) -> Demand:
    made = _bins(bins) + _size(a, *more)
    return Demand(2 * made, CALLED + SORTED * made)


def _histogram2d(
    x: Operand, y: Operand, bins: Operand = 10, *more: Operand, **rest: Operand
) -> Demand:
    if isinstance(bins, (list, tuple)) and len(bins) == 2:
        counts = [_bins(b) for b in bins]
    else:
        counts = [_bins(bins)] * 2
    return _grid(_size(x, y), counts)


def _histogramdd(
    sample: Operand, bins: Operand = 10, *more: Operand, **rest: Operand
) -> Demand:
    if isinstance(sample, (list, tuple)):
        axes = len(sample)
    else:
        axes = (
            (*operand_lengths(sample), 1, 1)[1]
            if len(operand_lengths(sample)) > 1
            else 1
        )
    alike = not isinstance(bins, (list, tuple)) and not operand_lengths(bins)
    counts = [_bins(bins)] * axes if alike else [_bins(b) for b in _as_list(bins)]
    return _grid(_size(sample), counts)


def _grid(given: int, counts: list[int]) -> Demand:
    made = prod(float(n + 2) for n in counts) + sum(counts)
    return Demand(2 * made + given, CALLED + SORTED * (made + given))


# Products


def _outer(a: Operand, b: Operand, **more: Operand) -> Demand:
    return _kron(a, b)


def _matmul(a: Operand, b: Operand, **more: Operand) -> Demand:
    left, right = operand_lengths(a), operand_lengths(b)
    rows, inner = (1, *left)[-2:] if left else (1, 1)
    columns = right[-1] if len(right) > 1 else 1
    made = _stack(left[:-2], right[:-2]) * rows * columns
    return Demand(made, CALLED + UNBLOCKED * made * inner)


def _matvec(a: Operand, b: Operand, **more: Operand) -> Demand:
    left, right = operand_lengths(a), operand_lengths(b)
    rows, inner = (1, 1, *left)[-2:]
    made = _stack(left[:-2], right[:-1]) * rows
    return Demand(made, CALLED + UNBLOCKED * made * inner)


def _vecmat(a: Operand, b: Operand, **more: Operand) -> Demand:
    left, right = operand_lengths(a), operand_lengths(b)
    inner, columns = (1, 1, *right)[-2:]
    made = _stack(left[:-1], right[:-2]) * columns
    return Demand(made, CALLED + UNBLOCKED * made * inner)


def _stack(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return how many products two stacks of matrices make."""
    return _broadcast_size(np.broadcast_to(0, a), np.broadcast_to(0, b))


def _dot(a: Operand, b: Operand, **more: Operand) -> Demand:
    left, right = operand_lengths(a), operand_lengths(b)
    if not left or not right:
        return entrywise(a, b)
    inner = left[-1]
    made = prod(left[:-1]) * (_size(b) / max(inner, 1))
    return Demand(made, CALLED + made * inner)


def _inner(a: Operand, b: Operand) -> Demand:
    if not operand_lengths(a) or not operand_lengths(b):
        return entrywise(a, b)
    made = prod(operand_lengths(a)[:-1]) * prod(operand_lengths(b)[:-1])
    return Demand(made, CALLED + made * operand_lengths(a)[-1])


def _tensordot(a: Operand, b: Operand, axes: Operand = 2) -> Demand:
    shape, listed = operand_lengths(a), 0
    if isinstance(axes, (list, tuple)) and len(axes) == 2:
        summed = _numbers(axes[0], "axes")
    else:
        count = _numbers(axes, "axes")[0]
        # NumPy lists so many axes of both, in Python's numbers, before it looks.
        listed = 10 * max(count, 0)
        summed = list(range(len(shape) - min(count, len(shape)), len(shape)))
    inner = prod(shape[n] for n in summed if -len(shape) <= n < len(shape))
    made = (_size(a) / max(inner, 1)) * (_size(b) / max(inner, 1))
    return Demand(made + listed, CALLED + COPIED * _size(a, b) + made * inner)


def _multi_dot(arrays: Operand, **more: Operand) -> Demand:
    """Estimate products from the left, which cost no less than the best order."""
    shapes = [(1, *operand_lengths(x))[-2:] for x in _as_list(arrays)]
    rows, work = shapes[0][0], 0.0
    for inner, columns in shapes[1:]:
        work += rows * inner * columns
    largest = max(n for n, _ in shapes) * max(n for _, n in shapes)
    order = CALLED * len(shapes) ** 3
    return Demand(len(shapes) * largest, order + work)


def _einsum(*operands: Operand, optimize: Operand = False, **more: Operand) -> Demand:
    """Estimate `einsum` with axes as lists of numbers: a rule has no letters."""
    lengths: dict[int, int] = {}
    counts: dict[int, int] = {}
    terms = len(operands) // 2
    for k in range(terms):
        axes = _numbers(operands[2 * k + 1], "axes")
        for axis, n in zip(axes, operand_lengths(operands[2 * k]), strict=False):
            lengths[axis] = max(lengths.get(axis, 1), n)
            counts[axis] = counts.get(axis, 0) + 1
    if len(operands) % 2:
        kept = _numbers(operands[-1], "axes")
    else:
        kept = [axis for axis, n in counts.items() if n == 1]
    every = prod(map(float, lengths.values()))
    made = prod(float(lengths.get(axis, 1)) for axis in kept)
    if optimize not in (False, None):
        if optimize not in (True, "greedy"):
            raise ValueError('its optimize may be True, False or "greedy" in a rule')
        made = made if terms < 3 else every  # of intermediate products
    return Demand(made, CALLED + every * max(terms, 1))


def _convolve(a: Operand, v: Operand, **more: Operand) -> Demand:
    return Demand(_size(a, v), CALLED + _size(a) * _size(v))


def _covariance(
    m: Operand, y: Operand = None, rowvar: Operand = True, **more: Operand
) -> Demand:
    def variables(x: Operand) -> int:
        shape = operand_lengths(x)
        return 1 if len(shape) < 2 else shape[0 if rowvar else 1]

    given = [m] if y is None else [m, y]
    count = sum(map(variables, given))
    seen = _size(*given) / max(count, 1)
    made = 2.0 * count**2 + 2 * _size(*given)
    return Demand(made, CALLED + count**2 * (seen + COMPUTED))


# Matrices


def _factor(a: Operand, *more: Operand, **settings: Operand) -> Demand:
    """Estimate one that takes n**3 steps for each matrix and makes a few as large."""
    *stack, m, n = (1, 1, *operand_lengths(a))
    work = 30.0 * prod(stack) * m * n * min(m, n)
    work += sum(_size(b) * min(m, n) for b in more if not isinstance(b, (int, float)))
    work += CALLED * prod(stack)
    return Demand(4 * _size(a, *more), 10 * CALLED + work)


def _svd(
    a: Operand, full_matrices: Operand = True, *more: Operand, **rest: Operand
) -> Demand:
    made, work = _factor(a)
    *stack, m, n = (1, 1, *operand_lengths(a))
    whole = prod(stack) * (m**2 + n**2) if full_matrices else 0
    return Demand(made + whole, work + 4.0 * whole * min(m, n))


def _qr(a: Operand, mode: Operand = "reduced") -> Demand:
    return _svd(a, mode == "complete")


def _norm(
    x: Operand,
    ord: Operand = None,
    axis: Operand = None,
    *flags: Operand,
    **more: Operand,
) -> Demand:
    if ord in (2, -2, "nuc") and not isinstance(axis, int):
        return _factor(x)
    return _reduce(x)


def _solve(a: Operand, b: Operand) -> Demand:
    """Estimate solutions; stacks of systems and of right sides broadcast."""
    stack = operand_lengths(a)[:-2]
    n = (1, *operand_lengths(a))[-1]
    columns = 1 if len(operand_lengths(b)) == 1 else (1, *operand_lengths(b))[-1]
    systems = _stack(stack, () if columns == 1 else operand_lengths(b)[:-2])
    made = systems * n * columns
    work = 30.0 * systems * n**2 * (n + columns)
    return Demand(made + 4 * _size(a), 10 * CALLED + CALLED * systems + work)


def _matrix_power(a: Operand, n: Operand) -> Demand:
    made, work = _factor(a)
    return Demand(made, work * (1 + log2(1 + abs(_numbers(n, "n")[0]))))


def _as_matrix(a: Operand, *more: Operand, **settings: Operand) -> Demand:
    """Estimate one that makes a matrix of all entries and solves with it."""
    made = _size(a, *more)
    return Demand(4 * made, CALLED + 30.0 * made**1.5)


# Polynomials


def _vectors(*operands: Operand) -> None:
    """Raise an error for coefficients that are not vectors, which NumPy broadcasts."""
    if any(len(operand_lengths(x)) > 1 for x in operands):
        raise ValueError("the coefficients of a polynomial must be vectors in a rule")


def _polynomial(*operands: Operand, **settings: Operand) -> Demand:
    """Estimate sums of polynomials, and ``m`` derivatives or integrals."""
    _vectors(*operands)
    times = max([1, *(n for n in settings.values() if isinstance(n, int))])
    times = max([times, *(n for n in operands[1:2] if isinstance(n, int))])
    made = _size(*operands) + times
    return Demand(made, (1 + times) * (20 * CALLED + COMPUTED * made))


def _polymul(a: Operand, b: Operand) -> Demand:
    _vectors(a, b)
    n, m = _size(a), _size(b)
    return Demand(2 * (n + m), 30 * CALLED * (1 + n + m) + COMPUTED * n * m)


def _poly(seq: Operand) -> Demand:
    if len(operand_lengths(seq)) > 1:
        return _factor(seq)
    n = _size(seq)
    return Demand(2 * n + 2, 10 * CALLED * (1 + n) + COMPUTED * n * n)


def _roots(p: Operand) -> Demand:
    n = _size(p)
    return Demand(4 * n**2, CALLED + 30.0 * n**3)


def _polyval(p: Operand, x: Operand) -> Demand:
    _vectors(p)
    made = _size(x)
    return Demand(2 * made, _size(p) * (2 * CALLED + COMPUTED * made))


def _polyfit(
    x: Operand, y: Operand, deg: Operand, *more: Operand, **rest: Operand
) -> Demand:
    terms = max(_numbers(deg, "deg")[0], 0) + 1
    made = 4 * _size(x) * terms + terms**2 + _size(y) * terms
    return Demand(made, 10 * CALLED + 30.0 * made * terms)


# Fourier transforms


def _fft(
    a: Operand, n: Operand = None, axis: Operand = -1, *more: Operand, **rest: Operand
) -> Demand:
    length = 2 * _length(a, axis) if n is None else _numbers(n, "n")[0]
    return _transform(_rest(a, axis) * max(length, 0))


def _fftn(
    a: Operand, s: Operand = None, axes: Operand = None, *more: Operand, **rest: Operand
) -> Demand:
    shape = [*operand_lengths(a)]
    if s is not None:
        wanted = _numbers(s, "s")
        along = range(-len(wanted), 0) if axes is None else _numbers(axes, "axes")
        for axis, n in zip(along, wanted, strict=False):
            if -len(shape) <= axis < len(shape) and n >= 0:
                shape[axis] = max(n, 1)
    return _transform(2.0 * prod(shape))


def _transform(entries: float) -> Demand:
    return Demand(2 * entries, 10 * CALLED + 20 * entries * log2(entries + 2))


# The table


def _each(names: str, estimate: Estimate) -> dict[str, Estimate]:
    return dict.fromkeys(names.split(), estimate)


#: Every function that a rule may name, ufuncs aside: what it makes.
DEMANDS: dict[str, Estimate] = {
    **_each(
        """
        allclose angle array_equal array_equiv average clip fix i0 imag interp isclose
        iscomplex iscomplexobj isneginf isposinf isreal isrealobj nan_to_num real
        real_if_close round sinc trapezoid unwrap where linalg.vecdot
        """,
        entrywise,
    ),
    **_each(
        """
        cross linalg.cross lib.scimath.arccos lib.scimath.arcsin lib.scimath.arctanh
        lib.scimath.log lib.scimath.log10 lib.scimath.log2 lib.scimath.logn
        lib.scimath.power lib.scimath.sqrt
        """,
        two_per_entry,
    ),
    **_each(
        """
        append around asanyarray asarray ascontiguousarray asfortranarray astype
        atleast_1d atleast_2d atleast_3d block column_stack compress concatenate copy
        delete diagonal dstack ediff1d expand_dims extract fft.fftshift fft.ifftshift
        flatnonzero flip fliplr flipud hstack linalg.diagonal linalg.matrix_transpose
        linalg.trace matrix_transpose moveaxis packbits ravel reshape rollaxis rot90
        squeeze stack swapaxes trace transpose trim_zeros vstack
        """,
        pass_on,
    ),
    **_each(
        """
        all amax amin any argmax argmin count_nonzero cumprod cumsum
        linalg.vector_norm max mean min nanargmax nanargmin nancumprod
        nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar prod ptp std sum
        var vdot
        """,
        _reduce,
    ),
    **_each(
        """
        argpartition argsort digitize intersect1d lexsort median nanmedian partition
        searchsorted setdiff1d setxor1d sort sort_complex union1d unique unique_all
        unique_counts unique_inverse unique_values
        """,
        _sort,
    ),
    **_each(
        "argwhere diag_indices_from nonzero tril_indices_from triu_indices_from",
        _positions,
    ),
    **_each("broadcast_arrays", _broadcast),
    **_each("cumulative_prod cumulative_sum", _accumulate),
    **_each("percentile quantile", _quantile),
    **_each("nanpercentile nanquantile", _nanquantile),
    **_each("array_split split hsplit vsplit dsplit", _split),
    **_each("full_like ones_like zeros_like", _fill),
    **_each("tril triu", _triangle),
    **_each("tensordot linalg.tensordot", _tensordot),
    **_each("outer linalg.outer", _outer),
    **_each("matmul linalg.matmul", _matmul),
    **_each("convolve correlate", _convolve),
    **_each("cov corrcoef", _covariance),
    **_each(
        """
        linalg.cholesky linalg.cond linalg.det linalg.eig linalg.eigh linalg.eigvals
        linalg.eigvalsh linalg.inv linalg.lstsq linalg.matrix_rank linalg.pinv
        linalg.slogdet linalg.svdvals
        """,
        _factor,
    ),
    **_each("linalg.norm linalg.matrix_norm", _norm),
    **_each("linalg.tensorinv linalg.tensorsolve", _as_matrix),
    **_each("polyadd polysub polyder polyint", _polynomial),
    **_each("polymul polydiv", _polymul),
    **_each("fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft", _fft),
    **_each(
        "fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn"
        " fft.irfftn",
        _fftn,
    ),
    "bincount": _bincount,
    "broadcast_to": _spread,
    "choose": _choose,
    "diag": _diag,
    "diagflat": _diagflat,
    "diff": _diff,
    "dot": _dot,
    "einsum": _einsum,
    "gradient": _gradient,
    "histogram": _histogram,
    "histogram2d": _histogram2d,
    "histogram_bin_edges": _histogram,
    "histogramdd": _histogramdd,
    "inner": _inner,
    "insert": _insert,
    "isin": _isin,
    "ix_": pass_on,
    "kron": _kron,
    "lib.stride_tricks.sliding_window_view": _windows,
    "linalg.matrix_power": _matrix_power,
    "linalg.multi_dot": _multi_dot,
    "linalg.qr": _qr,
    "linalg.solve": _solve,
    "linalg.svd": _svd,
    "matvec": _matvec,
    "meshgrid": _meshgrid,
    "pad": _pad,
    "poly": _poly,
    "polyfit": _polyfit,
    "polyval": _polyval,
    "ravel_multi_index": _ravel_index,
    "repeat": _repeat,
    "resize": _resize,
    "roll": _roll,
    "roots": _roots,
    "select": _select,
    "take": _take,
    "take_along_axis": _take_along,
    "tile": _tile,
    "unpackbits": _unpackbits,
    "unravel_index": _unravel,
    "unstack": _unstack,
    "vander": _vander,
    "vecmat": _vecmat,
}
