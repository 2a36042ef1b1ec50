"""Statistics of arrays for the picture: summaries, histograms, changes.

Arrays on a GPU are measured there, and only the numbers of all of them are brought to
the host, together: see `device_statistics`. Complex entries count by their magnitude.
The outputs of one op, or what flows back to them, count as one array of their floats.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from workbench.core.numbers import format_percent
from workbench.session import device_statistics as device
from workbench.session.device_statistics import is_measured_there

#: The summary of no array: its `bad` is NaN too.
NOTHING = (math.nan,) * 6

BINS = 40
#: Up to this size BLAS starts no threads for a product.
SINGLE_THREAD = 10_000

#: Arrays up to this size are summarized many at once.
SMALL = 1000
#: From so many on: of fewer each by itself takes less time.
FEWEST_STACKED = 3
#: So many numbers at once, which stay in the cache.
MOST_STACKED = 50_000

#: Between these, sums of squares neither overflow nor vanish.
SMALLEST, LARGEST = 1e-140, 1e140
#: Such a sum then is larger than this.
LEAST_SQUARE = 1e-280

FLOAT64 = np.dtype(np.float64)


class Distribution(TypedDict):
    """A histogram: ``counts`` of equal bins from ``low`` to ``high``.

    Only finite entries are counted in the bins.
    """

    counts: list[int]
    low: float
    high: float
    zeros: int
    nan: int
    inf: int
    size: int


def summarize(x: Any) -> tuple[float, float, float, float, float, float]:
    """Return minimum, maximum, mean, standard deviation, L2 norm, count of NaN and inf.

    As in NumPy an array with a NaN has NaN for its mean. A value that is not an array
    of numbers has `NOTHING`.

    >>> summarize(np.array([3.0, -4.0]))
    (-4.0, 3.0, -0.5, 3.5, 5.0, 0.0)
    """
    if type(x) is float:
        return _summarize_number(x)
    if is_measured_there(x):
        low, high, mean, deviation, length, bad = summarize_arrays([x])[0].tolist()
        return low, high, mean, deviation, length, bad
    flat = _flatten(x)
    if flat is None:
        return NOTHING
    size = flat.size
    if size == 1:
        return _summarize_number(float(flat[0]))
    if size == 0:
        return (math.nan, math.nan, math.nan, math.nan, 0.0, 0.0)
    low, high = float(flat.min()), float(flat.max())
    largest = max(abs(low), abs(high))
    if SMALLEST < largest < LARGEST:
        mean, deviation, length = _compute_moments(flat, size)
        return (low, high, mean, deviation, length, 0.0)
    if 0 < largest < math.inf:
        # Scaled first, since squares would overflow or vanish.
        moments = _compute_moments(flat / largest, size)
        mean, deviation, length = (largest * x for x in moments)
        return (low, high, mean, deviation, length, 0.0)
    # A NaN or an infinity here is a fact about the data, not a mistake.
    with np.errstate(all="ignore"):
        mean, deviation = float(flat.mean()), float(flat.std())
        bad = float(size - int(np.isfinite(flat).sum()))
    length = math.nan if math.isnan(largest) else largest
    return (low, high, mean, deviation, length, bad)


def norm(x: Any) -> float:
    """Return the L2 norm of an array; NaN for a value that is not numeric.

    >>> norm(np.full(4, 1e200))
    2e+200
    """
    if is_measured_there(x):
        return float(compute_norms([x])[0])
    with np.errstate(all="ignore"):
        return _compute_norm(x)


def _compute_norm(x: Any) -> float:
    """Return the L2 norm of what lies in main memory, while NumPy ignores errors."""
    if isinstance(x, float):
        return abs(float(x))
    flat = _flatten(x)
    if flat is None:
        return math.nan
    square = sum_squares(flat)
    # A sum that has overflowed or vanished is computed with more care.
    if LEAST_SQUARE < square < math.inf or flat.size == 0:
        return math.sqrt(square)
    largest = float(abs(flat).max())
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(sum_squares(flat / largest))


def sum_squares(flat: Any) -> float:
    """Return the sum of the squares of a flat array.

    It is computed in parts on which BLAS starts no threads: on a busy machine waiting
    for threads takes milliseconds, the sum itself microseconds.
    """
    if type(flat) is not np.ndarray or flat.size <= SINGLE_THREAD:
        return float(flat.dot(flat))
    parts = [flat[i : i + SINGLE_THREAD] for i in range(0, flat.size, SINGLE_THREAD)]
    return sum([float(part.dot(part)) for part in parts])


def relative_change(g: Any, true: Any) -> float:
    """Return ``‖g − true‖ / ‖true‖``: 0 for equal arrays, inf if only ``true`` is zero.

    >>> relative_change(np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    0.5
    """
    if g is true:
        return 0.0
    if is_measured_there(g):
        return float(relative_changes([g], [true])[0])
    if isinstance(g, tuple):
        g, true = _flatten(g), _flatten(true)
    with np.errstate(all="ignore"):
        difference = norm(np.subtract(g, true))
        if difference == 0:
            return 0.0
        length = norm(true)
    if length == 0:
        return math.nan if math.isnan(difference) else math.inf
    return difference / length if math.isfinite(length) else math.nan


def angle(g: Any, true: Any) -> float:
    """Return the angle between two arrays in degrees; NaN where one has no direction.

    By the difference of the two unit vectors, which is exact for small angles
    too (Kahan, "How Futile are Mindless Assessments of Roundoff", section 13).

    >>> angle(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    90.0
    """
    if is_measured_there(g):
        return float(angles([g], [true])[0])
    lengths = norm(g), norm(true)
    if not all(math.isfinite(n) and n > 0 for n in lengths):
        return math.nan
    u, v = np.divide(g, lengths[0]), np.divide(true, lengths[1])
    return math.degrees(2 * math.atan2(norm(u - v), norm(u + v)))


def distribution(x: Any, bins: int = BINS) -> Distribution | None:
    """Return the histogram of an array; None for a value that is not numeric.

    >>> distribution(np.array([0.0, 1.0, 1.0, np.nan]), bins=2)["counts"]
    [1, 2]
    """
    if is_measured_there(x):
        return distributions([x], bins)[0]
    flat = _flatten(x)
    if flat is None:
        return None
    finite = flat[np.isfinite(flat)]
    histogram = Distribution(
        counts=[],
        low=0.0,
        high=0.0,
        zeros=int((flat == 0).sum()),
        nan=int(np.isnan(flat).sum()),
        inf=int(np.isinf(flat).sum()),
        size=int(flat.size),
    )
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        if low == high:
            histogram["counts"] = [int(finite.size)]
        else:
            # Scaled first: the width of the widest range overflows.
            places = (finite / 2 - low / 2) * (bins / (high / 2 - low / 2))
            places = places.clip(0, bins - 1).astype(np.int64)
            counts = np.bincount(places, minlength=bins)
            histogram["counts"] = [int(n) for n in counts]
        histogram["low"], histogram["high"] = low, high
    return histogram


def distributions(arrays: Sequence[Any], bins: int = BINS) -> list[Distribution | None]:
    """Return the histogram of each array, as `distribution` gives it.

    >>> [found and found["size"] for found in distributions([np.ones(3), None])]
    [3, None]
    """
    there = [i for i, x in enumerate(arrays) if is_measured_there(x)]
    found = device.fetch_histograms([arrays[i] for i in there], bins)
    known = dict(zip(there, map(_read_histogram, found), strict=True))
    return [
        known[i] if i in known else distribution(x, bins) for i, x in enumerate(arrays)
    ]


def _read_histogram(found: tuple[int, Any] | None) -> Distribution | None:
    """Return a histogram from its numbers, as a device counts them."""
    if found is None:
        return None
    size, numbers = found
    if numbers is None:
        return Distribution(counts=[], low=0.0, high=0.0, zeros=0, nan=0, inf=0, size=0)
    low, high, *counted = numbers.tolist()
    zeros, nan, inf, *counts = map(int, counted)
    if nan + inf == size:
        low, high, counts = 0.0, 0.0, []
    elif low == high:
        counts = [sum(counts)]
    return Distribution(
        counts=counts, low=low, high=high, zeros=zeros, nan=nan, inf=inf, size=size
    )


def _summarize_number(x: float) -> tuple[float, float, float, float, float, float]:
    spread = 0.0 if math.isfinite(x) else math.nan
    return (x, x, x, spread, abs(x), float(not math.isfinite(x)))


def _flatten(x: Any) -> Any:
    """Return an array's numbers in one row, as float64; None if it has none."""
    if type(x) is np.ndarray and x.dtype is FLOAT64:
        return x.ravel()  # as most are
    if isinstance(x, tuple):
        rows = [_flatten(part) for part in x if _has_floats(part)]
        return np.concatenate(rows) if rows else None
    if x is None or isinstance(x, str):
        return None
    if not hasattr(x, "dtype"):
        x = np.asarray(x)
    kind = x.dtype.kind
    if kind not in "biufc":
        return None
    if kind == "c":
        # In double precision and in a row: else its last digits differ with the layout.
        x = abs(x.ravel().astype(np.complex128, copy=False))
    # Strided views are copied by ravel; everything else is looked at in place.
    flat = x.ravel()
    return flat if flat.dtype == np.float64 else flat.astype(np.float64)


def _has_floats(part: Any) -> bool:
    return hasattr(part, "dtype") and part.dtype.kind in "fc"


def _compute_moments(flat: Any, size: int) -> tuple[float, float, float]:
    """Return mean, standard deviation and L2 norm of finite, moderate numbers."""
    mean = float(flat.sum()) / size
    centred = flat - mean
    spread = math.sqrt(sum_squares(centred) / size)
    return mean, spread, math.sqrt(sum_squares(flat))


# Many arrays at once: those of one shape and dtype are stacked, one in each row.
#
# What is found of an array is, digit by digit, what is found of it alone, whatever
# stands beside it: each row is summed as an array by itself is (`np.vecdot` computes
# the `dot` of each row).


def summarize_arrays(arrays: Sequence[Any]) -> Any:
    """Return a table with a row for each array, as `summarize` gives it.

    >>> summarize_arrays([np.array([3.0, -4.0]), 2.0])[:, :5]
    array([[-4. ,  3. , -0.5,  3.5,  5. ],
           [ 2. ,  2. ,  2. ,  0. ,  2. ]])
    """
    table = np.empty((len(arrays), len(NOTHING)))
    _fill_rows(table, _summarize_rows, summarize, device.summarize_rows, arrays)
    return table


def compute_norms(arrays: Sequence[Any], missing: float = math.nan) -> list[float]:
    """Return the L2 norm of each array, as `norm` gives it; ``missing`` for None.

    >>> compute_norms([np.array([3.0, -4.0]), None])
    [5.0, nan]
    """
    norms = np.empty(len(arrays))
    rows = device.compute_row_norms
    with np.errstate(all="ignore"):  # once, as it takes as long as a small array
        _fill_rows(norms, _norm_rows, _compute_norm, rows, arrays)
    found: list[float] = norms.tolist()
    if not math.isnan(missing):
        for i, x in enumerate(arrays):
            if x is None:
                found[i] = missing
    return found


def relative_changes(found: Sequence[Any], true: Sequence[Any]) -> Any:
    """Return the change of each array from its true one, as `relative_change` does.

    >>> relative_changes([np.array([0.0, 1.0])], [np.array([0.0, 2.0])])
    array([0.5])
    """
    changes = np.empty(len(found))
    rows = device.compute_row_changes
    _fill_rows(changes, _change_rows, relative_change, rows, found, true)
    return changes


def angles(found: Sequence[Any], true: Sequence[Any]) -> Any:
    """Return the angle between arrays and their true ones, as `angle` gives it.

    >>> angles([np.array([1.0, 0.0])], [np.array([0.0, 2.0])])
    array([90.])
    """
    there = [i for i, g in enumerate(found) if is_measured_there(g)]
    far = set(there)
    turned = np.array(
        [
            0.0 if i in far else angle(g, g_true)
            for i, (g, g_true) in enumerate(zip(found, true, strict=True))
        ]
    )
    chosen = [[column[i] for i in there] for column in (found, true)]
    _fill_there(turned, there, device.compute_row_angles, *chosen)
    return turned


def _fill_rows(
    table: Any,
    compute_rows: Callable[..., Any],
    compute: Callable[..., Any],
    compute_there: Callable[..., Any],
    *columns: Sequence[Any],
) -> None:
    """Fill a table from arrays: small ones that are alike together, others one by one.

    ``columns`` are the arguments; each row of the table is of one place in them. What
    lies on a device is computed there, and fetched at once.
    """
    kinds = [
        [(x.shape, x.dtype) if type(x) is np.ndarray else type(x) for x in column]
        for column in columns
    ]
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    for i, kind in enumerate(zip(*kinds, strict=True)):
        alike[kind].append(i)
    there: list[int] = []
    for kind, places in alike.items():
        if not isinstance(kind[0], tuple):
            there += [i for i in places if is_measured_there(columns[0][i])]
        size = _find_small_size(kind) if len(places) >= FEWEST_STACKED else None
        if size is None:
            for i in set(places).difference(there) if there else places:
                table[i] = compute(*[column[i] for column in columns])
            continue
        for part in _split(places, max(1, MOST_STACKED // size)):
            rows = [
                np.concatenate([column[i] for i in part], axis=None).reshape(-1, size)
                if type(column[part[0]]) is np.ndarray
                else np.array([column[i] for i in part])[:, None]
                for column in columns
            ]
            # A NaN or an infinity here is a fact about the data, not a mistake.
            with np.errstate(all="ignore"):
                table[part] = compute_rows(*rows)
    chosen = [[column[i] for i in there] for column in columns]
    _fill_there(table, there, compute_there, *chosen)


def _fill_there(
    table: Any,
    places: Sequence[int],
    compute_rows: Callable[..., Any],
    *columns: Sequence[Any],
) -> None:
    """Fill places of a table from arrays on a device; NaN for what is not numeric."""
    if not places:
        return
    table[places] = math.nan
    numbers = device.Table(compute_rows)
    numbers.add(places, *columns)
    known, found = numbers.fetch()
    if known:
        table[known] = found


def _find_small_size(kinds: tuple[Any, ...]) -> int | None:
    """Return the size of arrays that can be stacked; None if they cannot."""
    first = kinds[0]
    if any(kind != first for kind in kinds):
        return None
    if not isinstance(first, tuple):
        return 1 if first in (float, np.float64, np.float32) else None
    shape, dtype = first
    size = math.prod(shape)
    return size if 0 < size <= SMALL and dtype.kind in "biufc" else None


def _split(places: list[int], count: int) -> Iterator[list[int]]:
    """Yield a list in parts of so many."""
    for start in range(0, len(places), count):
        yield places[start : start + count]


def _to_reals(rows: Any) -> Any:
    """Return a table of numbers as float64, complex ones by their magnitude."""
    if rows.dtype.kind == "c":
        rows = abs(rows.astype(np.complex128, copy=False))
    return rows.astype(float, copy=False)


def _summarize_rows(rows: Any) -> Any:
    rows = _to_reals(rows)
    low, high = rows.min(axis=1), rows.max(axis=1)
    mean, deviation, length = _compute_row_moments(rows)
    largest = np.maximum(abs(low), abs(high))
    finite = np.isfinite(largest)
    extreme = finite & (largest > 0) & ((largest <= SMALLEST) | (largest >= LARGEST))
    if extreme.any():
        # Scaled first, since squares would overflow or vanish.
        scale = largest[extreme]
        moments = _compute_row_moments(rows[extreme] / scale[:, None])
        mean[extreme], deviation[extreme], length[extreme] = scale * moments
    length[~finite] = np.where(np.isnan(largest[~finite]), math.nan, math.inf)
    bad = np.zeros(len(rows))
    bad[~finite] = (~np.isfinite(rows[~finite])).sum(axis=1)
    return np.stack([low, high, mean, deviation, length, bad], axis=1)


def _compute_row_moments(rows: Any) -> Any:
    """Return mean, standard deviation and L2 norm of each row."""
    size = rows.shape[1]
    mean = rows.sum(axis=1) / size
    centred = rows - mean[:, None]
    spread = np.sqrt(np.vecdot(centred, centred) / size)
    length = abs(mean) if size == 1 else np.sqrt(np.vecdot(rows, rows))
    return np.stack([mean, spread, length])


def _norm_rows(rows: Any) -> Any:
    rows = _to_reals(rows)
    if rows.shape[1] == 1:
        return abs(rows[:, 0])
    squares = np.vecdot(rows, rows)
    lengths = np.sqrt(squares)
    extreme = ~((squares > LEAST_SQUARE) & (squares < math.inf))
    if extreme.any():
        largest = abs(rows[extreme]).max(axis=1)
        usual = (largest > 0) & np.isfinite(largest)
        scaled = rows[extreme] / np.where(usual, largest, 1.0)[:, None]
        within = np.sqrt(np.vecdot(scaled, scaled))
        lengths[extreme] = largest * np.where(usual, within, 1.0)
    return lengths


def _change_rows(rows: Any, true: Any) -> Any:
    differences, lengths = _norm_rows(np.subtract(rows, true)), _norm_rows(true)
    changes = np.where(np.isfinite(lengths), differences / lengths, math.nan)
    changes[(lengths == 0) & ~np.isnan(differences)] = math.inf
    changes[differences == 0] = 0.0
    return changes


# Effects of overrides


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one override, alone, on the gradient by one input.

    Attributes
    ----------
    node, name
        The input.
    relative
        ``‖g − g_true‖ / ‖g_true‖``; inf where only the true gradient is zero.
    angle
        Between the two, in degrees; NaN where one of them has no direction.
    """

    node: int
    name: str
    relative: float
    angle: float

    def __str__(self) -> str:
        if self.relative == 0:
            return f"{self.name} unchanged"
        turned = f", turned {self.angle:.2g}°" if self.angle >= 0.05 else ""
        if not math.isfinite(self.relative):
            return f"{self.name} beyond comparison"
        return f"{self.name} by {format_percent(self.relative)}{turned}"


def measure_effects(
    solo: Mapping[int, Any],
    true: Mapping[int, Any],
    wrt: Sequence[int],
    labels: Sequence[str],
) -> list[Effect]:
    """Return the effects on gradients beside the true ones, for each input."""
    pairs = []
    for i in wrt:
        g, g_true = solo.get(i), true.get(i)
        if g is not None or g_true is not None:
            g = np.zeros_like(g_true) if g is None else g
            pairs.append((i, g, np.zeros_like(g) if g_true is None else g_true))
    found, expected = [g for _, g, _ in pairs], [g for _, _, g in pairs]
    relative, turned = relative_changes(found, expected), angles(found, expected)
    changes = {
        i: (float(change), 0.0 if change == 0 else float(angle))
        for (i, _, _), change, angle in zip(pairs, relative, turned, strict=True)
    }
    return [Effect(i, labels[i], *changes.get(i, (0.0, 0.0))) for i in wrt]
