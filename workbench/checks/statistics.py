"""Statistics of arrays: summaries, histograms, changes, of one or of many at once.

Complex entries count by their magnitude. The outputs of one op, or what flows back to
them, count as one array of their floats. Arrays that are alike are rows of one table:
many small ones take as few steps as one large one does. Those on a GPU are measured
there, and only the numbers of all of them are brought to the host, in one transfer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypedDict

import numpy as np

from workbench.backends.cupy.devices import fetch_array

#: The summary of no array: its `bad` is NaN too.
NOTHING = (math.nan,) * 6

BINS = 40
#: Up to this size BLAS starts no threads for a product.
SINGLE_THREAD = 10_000

#: Arrays up to this size are rows of one table, from so many on: of fewer each by
#: itself takes less time.
SMALL, FEWEST_STACKED = 1000, 3
#: So many numbers are in one table: as stay in the cache, and on a device.
MOST_STACKED, MOST_STACKED_THERE = 50_000, 1_000_000

Array = np.ndarray[Any, Any]
FLOAT64 = np.dtype(np.float64)

#: Between these, sums of squares neither overflow nor vanish.
SMALLEST, LARGEST = 1e-140, 1e140
#: Such a sum then is larger than this.
LEAST_SQUARE = 1e-280


def is_on_device(x: Any) -> bool:
    """Return whether a value is an array that lies on a device, as CuPy's do.

    >>> is_on_device(np.ones(2))
    False
    """
    kind: Any = type(x)
    return _is_device_type(kind)


def to_host(x: Any) -> Array:
    """Return an array in main memory, a device's by a copy.

    >>> to_host(2.0)
    array(2.)
    """
    return np.asarray(x.get() if is_on_device(x) else x)  # host array: a copy of it


@cache
def _is_device_type(kind: type[Any]) -> bool:
    # Libraries that do not answer to NumPy's functions compute no session.
    return hasattr(kind, "__cuda_array_interface__") and hasattr(
        kind, "__array_function__"
    )


def is_measured_there(x: Any) -> bool:
    """Return whether the statistics of a value are computed on a device.

    Of several outputs of one op those on the device count, as one array.
    """
    return is_on_device(x) or (
        type(x) is tuple and any(is_on_device(part) for part in x)
    )


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
    """Return the L2 norm of a value in main memory, while NumPy ignores errors."""
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
            places = places.clip(0, bins - 1).astype(np.intp)  # 32 bits in a browser
            counts = np.bincount(places, minlength=bins)
            histogram["counts"] = [int(n) for n in counts]
        histogram["low"], histogram["high"] = low, high
    return histogram


def distributions(arrays: Sequence[Any], bins: int = BINS) -> list[Distribution | None]:
    """Return the histogram of each array, like `distribution`.

    >>> [found and found["size"] for found in distributions([np.ones(3), None])]
    [3, None]
    """
    there = [i for i, x in enumerate(arrays) if is_measured_there(x)]
    found = fetch_histograms([arrays[i] for i in there], bins)
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


def _compute_moments(flat: Any, size: int) -> tuple[float, float, float]:
    """Return mean, standard deviation and L2 norm of finite, moderate numbers."""
    mean = float(flat.sum()) / size
    centred = flat - mean
    spread = math.sqrt(sum_squares(centred) / size)
    return mean, spread, math.sqrt(sum_squares(flat))


# Many arrays at once: those of one shape and dtype are stacked, one in each row.
#
# What is found of an array is, digit by digit, what is found of it alone.


def summarize_arrays(arrays: Sequence[Any]) -> Any:
    """Return a table with a row for each array, like `summarize`.

    >>> summarize_arrays([np.array([3.0, -4.0]), 2.0])[:, :5]
    array([[-4. ,  3. , -0.5,  3.5,  5. ],
           [ 2. ,  2. ,  2. ,  0. ,  2. ]])
    """
    table = np.empty((len(arrays), len(NOTHING)))
    _fill_rows(table, summarize_rows, summarize, arrays)
    return table


def compute_norms(arrays: Sequence[Any], missing: float = math.nan) -> list[float]:
    """Return the L2 norm of each array, like `norm`; ``missing`` for None.

    >>> compute_norms([np.array([3.0, -4.0]), None])
    [5.0, nan]
    """
    norms = np.empty(len(arrays))
    with np.errstate(all="ignore"):  # once, as it takes as long as a small array
        _fill_rows(norms, compute_row_norms, _compute_norm, arrays)
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
    _fill_rows(changes, compute_row_changes, relative_change, found, true)
    return changes


def angles(found: Sequence[Any], true: Sequence[Any]) -> Any:
    """Return the angle between arrays and their true ones, like `angle`.

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
    _fill_there(turned, there, compute_row_angles, *chosen)
    return turned


def _fill_rows(
    table: Any,
    compute_rows: Callable[..., Any],
    compute: Callable[..., Any],
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
            rows = [_stack([column[i] for i in part], size) for column in columns]
            table[part] = compute_rows(*rows)
    chosen = [[column[i] for i in there] for column in columns]
    _fill_there(table, there, compute_rows, *chosen)


def _fill_there(
    table: Any,
    places: Sequence[int],
    compute_rows: Callable[..., Any],
    *columns: Sequence[Any],
) -> None:
    """Fill places of a table from arrays on a device; NaN where not numeric."""
    if not places:
        return
    table[places] = math.nan
    numbers = Table(compute_rows)
    numbers.add(places, *columns)
    known, found = numbers.fetch()
    if known:
        table[known] = found


def _stack(values: Sequence[Any], size: int) -> Any:
    """Return arrays of one size, or numbers, as the rows of a table of one dtype."""
    if type(values[0]) is not np.ndarray:
        return np.array(values)[:, None]
    return np.concatenate(values, axis=None).reshape(-1, size)


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


def _flatten(x: Any) -> Any:
    """Return an array's numbers in one row, as float64; None without numbers.

    Complex ones by their magnitude; the floats of several outputs of one op in one row,
    of those on a device where there are any.
    """
    if type(x) is np.ndarray and x.dtype is FLOAT64:
        return x.ravel()  # as most are
    if isinstance(x, tuple):
        there = is_measured_there(x)
        rows = [
            _flatten(part)
            for part in x
            if _has_floats(part) and is_on_device(part) == there
        ]
        return np.concatenate(rows) if rows else None
    if x is None or isinstance(x, str):
        return None
    if not hasattr(x, "dtype"):
        x = np.asarray(x)
    if x.dtype.kind not in "biufc":
        return None
    # Strided views are copied by ravel; everything else is looked at in place.
    return _to_reals(x.ravel())


def _to_reals(x: Any) -> Any:
    """Return numbers as float64, complex ones by their magnitude.

    In double precision: the magnitude of a large complex64 is no float32.
    """
    if x.dtype.kind == "c":
        x = abs(x.astype(np.complex128, copy=False))
    return x.astype(np.float64, copy=False)


def _flatten_parts(x: Any) -> Any:
    """Return the real and the imaginary parts of arrays in one row."""
    if isinstance(x, tuple):
        rows = [
            _flatten_parts(part)
            for part in x
            if is_on_device(part) and _has_floats(part)
        ]
        return np.concatenate(rows) if rows else None
    if x.dtype.kind != "c":
        return _flatten(x)
    return np.concatenate([_flatten(np.real(x)), _flatten(np.imag(x))])


def _has_floats(x: Any) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind in "fc"


# What is computed of rows, in main memory as on a device. What is found of a row is,
# digit by digit, what the functions above find of that array alone, whatever stands
# beside it. A row whose squares overflow or vanish is scaled by its largest entry; the
# others are divided by 1, which changes nothing.


def _square_rows(rows: Any) -> Any:
    """Return the sum of the squares of each row."""
    if is_on_device(rows):
        return (rows * rows).sum(axis=1)
    return np.vecdot(rows, rows)  # the `dot` of each row


def summarize_rows(rows: Any) -> Any:
    """Return minimum, maximum, mean, deviation, norm and count of NaN and inf.

    >>> summarize_rows(np.array([[3.0, -4.0]]))
    array([[-4. ,  3. , -0.5,  3.5,  5. ,  0. ]])
    """
    rows = _to_reals(rows)
    size = rows.shape[1]
    if not size:
        blank = np.zeros_like(rows, shape=(rows.shape[0], 6))
        blank[:, :4] = math.nan
        return blank
    with np.errstate(all="ignore"):
        low, high = rows.min(axis=1), rows.max(axis=1)
        largest = np.maximum(abs(low), abs(high))
        finite = np.isfinite(largest)
        moderate = (largest > SMALLEST) & (largest < LARGEST)
        scale = np.where(finite & (largest > 0) & ~moderate, largest, 1.0)
        scaled = rows / scale[:, None]
        mean = scaled.sum(axis=1) / size
        deviation = np.sqrt(_square_rows(scaled - mean[:, None]) / size)
        # What is not finite has no length by squares; a zero has.
        length = np.where(finite, scale * np.sqrt(_square_rows(scaled)), largest)
        bad = (~np.isfinite(rows)).sum(axis=1).astype(np.float64)
        found = [low, high, scale * mean, scale * deviation, length, bad]
    return np.stack(found, axis=1)


def compute_row_norms(rows: Any) -> Any:
    """Return the L2 norm of each row.

    >>> compute_row_norms(np.array([[3.0, -4.0], [0.0, 1e200]]))
    array([5.e+000, 1.e+200])
    """
    if not rows.shape[1]:
        return np.zeros_like(rows, shape=(rows.shape[0],))
    with np.errstate(all="ignore"):
        rows = _to_reals(rows)
        squares = _square_rows(rows)
        usual = (squares > LEAST_SQUARE) & (squares < math.inf)
        # A look at a value, for which a device would be waited for.
        if not is_on_device(rows) and usual.all():
            return np.sqrt(squares)
        largest = abs(rows).max(axis=1)
        scaling = ~usual & np.isfinite(largest) & (largest > 0)
        scale = np.where(scaling, largest, 1.0)
        length = scale * np.sqrt(_square_rows(rows / scale[:, None]))
        return np.where(usual | scaling, length, largest)


def compute_row_changes(rows: Any, true: Any) -> Any:
    """Return ``‖g − true‖ / ‖true‖`` of each row; inf if only ``true`` is zero.

    >>> compute_row_changes(np.array([[0.0, 1.0]]), np.array([[0.0, 2.0]]))
    array([0.5])
    """
    with np.errstate(all="ignore"):
        difference, length = compute_row_norms(rows - true), compute_row_norms(true)
        change = np.where(np.isfinite(length), difference / length, math.nan)
        only = (length == 0) & ~np.isnan(difference)
        change = np.where(only, math.inf, change)
        return np.where(difference == 0, 0.0, change)


def compute_row_angles(rows: Any, true: Any) -> Any:
    """Return the angle between rows in degrees; NaN where one has no direction.

    >>> compute_row_angles(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]))
    array([90.])
    """
    with np.errstate(all="ignore"):
        lengths = compute_row_norms(rows), compute_row_norms(true)
        u, v = (
            table / np.where(n > 0, n, math.nan)[:, None]
            for table, n in zip((rows, true), lengths, strict=True)
        )
        half = np.arctan2(compute_row_norms(u - v), compute_row_norms(u + v))
        known = [(n > 0) & np.isfinite(n) for n in lengths]
        return np.where(known[0] & known[1], np.degrees(2 * half), math.nan)


def count_entries(flat: Any, bins: int) -> Any:
    """Return the histogram of a row as numbers: its ends, its odd entries, its bins.

    They are the lowest and the highest finite entry, the numbers of zeros, NaN and
    infinities, and the counts of equal bins; of none finite the ends are infinite.

    >>> count_entries(np.array([0.0, 1.0, 1.0, np.nan]), 2)
    array([0., 1., 1., 1., 0., 1., 2.])
    """
    with np.errstate(all="ignore"):
        finite = np.isfinite(flat)
        low = np.where(finite, flat, math.inf).min()
        high = np.where(finite, flat, -math.inf).max()
        odd = [(flat == 0).sum(), np.isnan(flat).sum(), np.isinf(flat).sum()]
        # Scaled first: the width of the widest range overflows.
        width = high / 2 - low / 2
        places = (flat / 2 - low / 2) * (bins / np.where(width > 0, width, 1.0))
        places = np.where(finite, places.clip(0, bins - 1), bins)
        # Whole numbers as float64: a sum in any order is the same.
        counts = np.zeros_like(flat, shape=(bins + 1,))
        np.add.at(counts, places.astype(np.int64), 1.0)
        numbers = [x.astype(np.float64) for x in (low, high, *odd)]
    return np.concatenate([np.stack(numbers), counts[:bins]])


def fetch_histograms(arrays: Sequence[Any], bins: int) -> list[Any]:
    """Return the size and `count_entries` of each array; None for one of no numbers.

    There is one transfer for all of them.
    """
    rows = [_flatten(x) for x in arrays]
    full = [row for row in rows if row is not None and row.size]
    found = iter(fetch([count_entries(row, bins) for row in full]))
    return [
        None if row is None else (int(row.size), next(found) if row.size else None)
        for row in rows
    ]


# On a device: what is computed there, and fetched together.


def fetch(parts: Sequence[Any]) -> list[Array]:
    """Return tables of float64 in main memory, with one transfer for all of them.

    >>> fetch([np.ones((1, 2)), np.zeros(1)])
    [array([[1., 1.]]), array([0.])]
    """
    if not parts:
        return []
    flat: Any = np.concatenate([part.ravel() for part in parts])
    # host array: what the page is told
    numbers = fetch_array(flat) if is_on_device(flat) else flat
    ends = np.cumsum([math.prod(part.shape) for part in parts])[:-1]
    return [
        piece.reshape(part.shape)
        for piece, part in zip(np.split(numbers, ends), parts, strict=True)
    ]


class Table:
    """Numbers of arrays on a device, computed there and fetched together.

    Parameters
    ----------
    compute_rows
        What makes the numbers of each row of tables, one table for each argument.

    Attributes
    ----------
    parts
        The numbers so far, on the device.
    """

    def __init__(self, compute_rows: Callable[..., Any]) -> None:
        self._compute_rows = compute_rows
        self._places: list[int] = []
        self.parts: list[Any] = []

    def add(self, places: Sequence[int], *columns: Sequence[Any]) -> None:
        """Compute the numbers of arrays, which belong to these places.

        Each of ``columns`` has one argument of each place.
        """
        alike: defaultdict[Any, list[int]] = defaultdict(list)
        # Of two complex numbers the magnitudes do not tell how far they are apart.
        list_numbers = _flatten if len(columns) == 1 else _flatten_parts
        rows = [[list_numbers(x) for x in column] for column in columns]
        for k, first in enumerate(rows[0]):
            size = None if first is None else int(first.size)
            # Large ones are tables of one row each.
            alike[size if size is None or size <= SMALL else (size, k)].append(k)
        for size, chosen in alike.items():
            if size is None:
                continue  # no array of numbers has no statistics
            most = max(1, MOST_STACKED_THERE // max(1, _count_row(size)))
            for part in _split(chosen, most):
                tables = [
                    row[part[0]].reshape(1, -1)
                    if len(part) == 1
                    else np.stack([row[k] for k in part])
                    for row in rows
                ]
                self.parts.append(self._compute_rows(*tables))
                self._places += [places[k] for k in part]

    def fetch(self) -> tuple[list[int], Array]:
        """Return the places, and their numbers in rows, and forget them."""
        places, parts = self._places, self.parts
        self._places, self.parts = [], []
        found = fetch(parts)
        if not found:
            return [], np.zeros(0)  # host array: there is none
        return places, np.concatenate(found)


def _count_row(size: Any) -> int:
    """Return how many numbers one row of a group has."""
    return int(size[0] if isinstance(size, tuple) else size)
