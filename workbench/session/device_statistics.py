"""Statistics of arrays on a GPU: computed there, and fetched in one transfer.

What stands here is written without a look at a value: each such look would wait for the
device, and bring one number. Arrays that are alike are rows of one table, so that many
small ones take as few kernels as one large one does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.backends.cupy.devices import fetch_array

Array = np.ndarray[Any, Any]

#: Arrays up to this size are rows of one table.
SMALL = 1000
#: So many numbers are in one table.
MOST_STACKED = 1_000_000


def is_on_device(x: Any) -> bool:
    """Return whether a value is an array that lies on a device, as CuPy's do.

    >>> is_on_device(np.ones(2))
    False
    """
    kind: Any = type(x)
    return _is_device_type(kind)


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
        flatten = _flatten if len(columns) == 1 else _flatten_parts
        rows = [[flatten(x) for x in column] for column in columns]
        for k, first in enumerate(rows[0]):
            size = None if first is None else int(first.size)
            # Large ones are tables of one row each.
            alike[size if size is None or size <= SMALL else (size, k)].append(k)
        for size, chosen in alike.items():
            if size is None:
                continue  # no array of numbers has no statistics
            for part in _split(chosen, max(1, MOST_STACKED // max(1, rows_size(size)))):
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


def rows_size(size: Any) -> int:
    """Return how many numbers one row of a group has."""
    return int(size[0] if isinstance(size, tuple) else size)


def _split(places: list[int], count: int) -> Iterator[list[int]]:
    for start in range(0, len(places), count):
        yield places[start : start + count]


def _flatten(x: Any) -> Any:
    """Return the numbers of arrays in one row as float64; None if there are none."""
    if isinstance(x, tuple):
        rows = [
            _flatten(part) for part in x if is_on_device(part) and _has_floats(part)
        ]
        return np.concatenate(rows) if rows else None
    if x.dtype.kind not in "biufc":
        return None
    if x.dtype.kind == "c":  # the magnitude of a large complex64 is no float32
        x = abs(x.astype(np.complex128, copy=False))
    flat = x.ravel()
    return flat if flat.dtype == np.float64 else flat.astype(np.float64)


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
    return bool(x.dtype.kind in "fc")


# What is computed of rows. A row is scaled by its largest entry where that is a usual
# number, since squares of large or small ones overflow or vanish.


def summarize_rows(rows: Any) -> Any:
    """Return minimum, maximum, mean, deviation, norm and count of NaN and inf.

    >>> summarize_rows(np.array([[3.0, -4.0]]))
    array([[-4. ,  3. , -0.5,  3.5,  5. ,  0. ]])
    """
    size = rows.shape[1]
    if not size:
        blank = np.zeros_like(rows, shape=(rows.shape[0], 6))
        blank[:, :4] = math.nan
        return blank
    with np.errstate(all="ignore"):
        low, high = rows.min(axis=1), rows.max(axis=1)
        largest = np.maximum(abs(low), abs(high))
        usual = np.isfinite(largest) & (largest > 0)
        scale = np.where(usual, largest, 1.0)
        scaled = rows / scale[:, None]
        mean = scaled.sum(axis=1) / size
        centred = scaled - mean[:, None]
        deviation = np.sqrt((centred * centred).sum(axis=1) / size)
        # What is not finite has no length by squares; a zero has.
        length = np.sqrt((scaled * scaled).sum(axis=1))
        length = np.where(np.isfinite(largest), scale * length, largest)
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
        largest = abs(rows).max(axis=1)
        usual = np.isfinite(largest) & (largest > 0)
        scale = np.where(usual, largest, 1.0)
        scaled = rows / scale[:, None]
        length = np.sqrt((scaled * scaled).sum(axis=1))
        return np.where(np.isfinite(largest), scale * length, largest)


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
