"""Windows as shifts: each entry of a window is one slice of the whole array.

A window of ``k`` entries that moves along an array of examples, channels and space
meets its first entries in one slice, its second ones in the next: its *taps*. The axes
of space are one axis for this, so that a slice lies in memory as BLAS and kernels like
it, with some entries at the end of each row that are cut off in the end. A stride takes
the array apart first, into as many arrays as it has steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.ops.define import shape_of

#: The lengths before and after each axis of space.
Pads = tuple[tuple[int, int], ...]
Numbers = tuple[int, ...]


def pad_space(x: Any, padding: Pads, fill: float = 0.0) -> Any:
    """Pad the axes of space; a negative length cuts, and may cut all."""
    cuts, widths = [], []
    for n, (low, high) in zip(shape_of(x)[2:], padding, strict=True):
        if low >= 0 and high >= 0:
            cuts.append(slice(None))
            widths.append((low, high))
            continue
        start = min(max(-low, 0), n)
        stop = max(start, min(n, n + high))
        before = min(max(low, 0), n + low + high)
        cuts.append(slice(start, stop))
        widths.append((before, n + low + high - before - stop + start))
    if any(cut != slice(None) for cut in cuts):
        x = x[(slice(None), slice(None), *cuts)]
    widths = [(0, 0), (0, 0), *widths]
    if not any(map(any, widths)):
        return x
    return np.pad(x, widths, constant_values=fill) if fill else np.pad(x, widths)


def spread_space(x: Any, spacing: Numbers) -> Any:
    """Put ``spacing - 1`` zeros between neighbours along each axis of space."""
    shape: list[Any] = list(shape_of(x))
    for i, step in enumerate(spacing, 2):
        if step > 1:
            n = shape[i]
            before = (slice(None),) * i
            # A row of zeros follows each entry but the last.
            apart = np.reshape(
                x[(*before, slice(None, n - 1))],
                (*shape[:i], n - 1, 1, *shape[i + 1 :]),
            )
            widths = [(0, 0)] * (len(shape) + 1)
            widths[i + 1] = (0, step - 1)
            joined = (*shape[:i], (n - 1) * step, *shape[i + 1 :])
            spread = np.reshape(np.pad(apart, widths), joined)
            x = np.concatenate([spread, x[(*before, slice(n - 1, None))]], i)
            shape[i] = (n - 1) * step + 1
    return x


class Taps(NamedTuple):
    """The taps of a window: for each of its entries the slice of all windows.

    Attributes
    ----------
    parts
        Every so many entries of the padded array, as many as a stride has steps, each
        of shape ``(N, C, length)``.
    places
        For each entry of a window, in their order, its part and where its slice begins.
    rows
        The lengths of the axes of space that are one axis in a slice.
    lengths
        Those of the windows, at most as long as the rows.
    """

    parts: dict[Numbers, Any]
    places: list[tuple[Numbers, int]]
    rows: Numbers
    lengths: Numbers

    @property
    def slices(self) -> list[Any]:
        """The slices, each of shape ``(N, C, length)``."""
        length = math.prod(self.rows)
        return [
            self.parts[part][..., start : start + length] for part, start in self.places
        ]

    def cut(self, y: Any) -> Any:
        """Return what was computed of slices, along all windows."""
        front = shape_of(y)[:-1]
        y = np.reshape(y, (*front, *self.rows))
        if self.rows == self.lengths:
            return y
        return y[(..., *map(slice, self.lengths))]


def count_windows(
    space: tuple[Any, ...],
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    padding: tuple[tuple[Any, Any], ...],
    dilation: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Return how many windows there are along each axis."""
    return tuple(
        (n + low + high - (k - 1) * gap - 1) // step + 1
        for n, k, step, (low, high), gap in zip(
            space, size, stride, padding, dilation, strict=True
        )
    )


def slice_taps(
    x: Any,
    size: Numbers,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    fill: float = 0.0,
) -> Taps:
    """Return the taps of windows of ``x``, which is padded before."""
    rank = len(size)
    lengths = count_windows(shape_of(x)[2:], size, stride, padding, dilation)
    spans = [
        (k - 1) * gap // s for k, s, gap in zip(size, stride, dilation, strict=True)
    ]
    needed = [n + span for n, span in zip(lengths, spans, strict=True)]
    # The slices of the last row end behind it; one row more has their entries.
    needed[0] += any(spans[1:])
    rows = (lengths[0], *needed[1:])
    far = [math.prod(needed[axis + 1 :]) for axis in range(rank)]
    parts: dict[Numbers, Any] = {}
    places = []
    for tap in itertools.product(*map(range, size)):
        shifts = [k * gap for k, gap in zip(tap, dilation, strict=True)]
        part = tuple([n % step for n, step in zip(shifts, stride, strict=True)])
        if part not in parts:
            parts[part] = _take_part(x, part, stride, padding, needed, fill)
        steps = zip(shifts, stride, far, strict=True)
        places.append((part, sum(n // step * m for n, step, m in steps)))
    return Taps(parts, places, rows, lengths)


def _take_part(
    x: Any,
    part: Numbers,
    stride: Numbers,
    padding: Pads,
    lengths: list[int],
    fill: float,
) -> Any:
    """Return every so many entries of the padded array, its axes of space as one."""
    index, pads = [], []
    axes = zip(shape_of(x)[2:], part, stride, padding, lengths, strict=True)
    for n, r, step, (low, _), length in axes:
        first = (r - low) % step
        before = (first + low - r) // step
        index.append(slice(first, None, step))
        pads.append((before, length - before - len(range(first, n, step))))
    if max(stride) > 1:
        x = x[(slice(None), slice(None), *index)]
    x = pad_space(x, tuple(pads), fill)
    return np.reshape(x, (*shape_of(x)[:2], math.prod(lengths)))


class Residue(NamedTuple):
    """The windows at every so many entries, and the entries that they meet there.

    Attributes
    ----------
    taps
        Which entries of a window meet entries of a spread array; None: none does.
    padding, dilation
        Those of the windows along the array that is not spread.
    """

    taps: tuple[slice, ...] | None
    padding: Pads
    dilation: Numbers


def merge_residues(
    compute: Callable[[Residue], Any],
    space: Numbers,
    size: Numbers,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    spacing: Numbers,
) -> Any:
    """Return a result over the windows of an array with zeros between its entries.

    Windows that are ``spacing`` apart meet the same entries of the array, so that these
    are computed together, by ``compute``, and no zero is multiplied. None from it is a
    zero. A stride and a spacing of more than 1 do not meet on one axis.
    """
    spread = tuple((n - 1) * gap + 1 for n, gap in zip(space, spacing, strict=True))
    lengths = count_windows(spread, size, stride, padding, dilation)
    counts = [-(-n // gap) for n, gap in zip(lengths, spacing, strict=True)]
    axes = [
        list(_find_residues(*each))
        for each in zip(
            space, size, stride, padding, dilation, spacing, counts, strict=True
        )
    ]
    made = []
    for parts in itertools.product(*axes):
        taps = [tap for tap, _, _ in parts]
        known = tuple([tap for tap in taps if tap is not None])
        found = known if len(known) == len(taps) else None
        pads = tuple(pair for _, pair, _ in parts)
        made.append(compute(Residue(found, pads, tuple(gap for *_, gap in parts))))
    example = next(y for y in made if y is not None)
    made = [np.zeros_like(example) if y is None else y for y in made]
    shape = list(shape_of(example))
    for axis in range(len(size) - 1, -1, -1):
        gap = spacing[axis]
        shape[2 + axis] *= gap
        made = [
            np.reshape(np.stack(made[k : k + gap], 3 + axis), shape) if gap > 1 else y
            for k, y in list(enumerate(made))[::gap]
        ]
    (y,) = made  # one is left of them
    whole = [n * gap for n, gap in zip(counts, spacing, strict=True)]
    return y if whole == list(lengths) else y[(..., *map(slice, lengths))]


def _find_residues(
    n: int,
    size: int,
    stride: int,
    pair: tuple[int, int],
    gap: int,
    spacing: int,
    count: int,
) -> Iterator[tuple[slice | None, tuple[int, int], int]]:
    """Find for every ``spacing``-th window what it meets, along one axis.

    Window ``q * spacing + r`` has entry ``k`` at ``q * spacing + r + k * gap - low`` of
    the spread array, which is an entry of the array where ``spacing`` divides it.
    """
    common = math.gcd(gap, spacing)
    for r in range(spacing):
        place = r - pair[0]
        first = next(
            (k for k in range(min(size, spacing)) if (place + k * gap) % spacing == 0),
            None,
        )
        if first is None:
            yield None, (0, 0), 1
            continue
        step = spacing // common
        start = (place + first * gap) // spacing
        last = (len(range(first, size, step)) - 1) * (gap // common)
        ends = (-start, (count - 1) * stride + 1 + start + last - n)
        yield slice(first, None, step), ends, gap // common
