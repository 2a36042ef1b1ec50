"""What a user gives to a loop: sequences and first values, with their taps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame, tree, types
from workbench.core.tensor import Tensor, admit
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.define import shape_of

__all__ = [
    "Recurrence",
    "Sequenced",
    "array",
    "listed",
    "recurrences",
    "sequenced",
]


class Sequenced(NamedTuple):
    """A sequence: a nest of arrays whose first axis are the steps."""

    label: str
    leaves: list[Any]
    tree: tree.Tree
    taps: tuple[int, ...]

    @property
    def lost(self) -> int:
        """How many entries taps leave out at the ends."""
        return max(*self.taps, 0) - min(*self.taps, 0)


class Recurrence(NamedTuple):
    """An output that is fed back: its first values, by the depth of its taps."""

    label: str
    leaves: list[Any]
    tree: tree.Tree
    taps: tuple[int, ...]
    #: The first values as they were given, to tell numbers from arrays.
    given: list[Any]

    @property
    def depth(self) -> int:
        """How many earlier values a step may read."""
        return -min(self.taps)

    @property
    def rows(self) -> bool:
        """Whether the first values have an axis of their own."""
        return self.taps != (-1,)

    def starts(self, leaf: int, dtype: Any = None) -> list[Any]:
        """The first values at the depths 1, 2, ...; as another dtype if need be."""
        x = self.leaves[leaf]
        if dtype is not None:
            x = np.astype(x, dtype)
        if not self.rows:
            return [x]
        return [x[self.depth - d] for d in range(1, self.depth + 1)]


def listed(given: Any) -> list[Any]:
    """Several entries in a list or tuple, or the one that stands alone."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def array(x: Any, what: str) -> Any:
    """A leaf as an array or Tensor.

    Raises
    ------
    DtypeError
        If it holds no numbers.
    """
    if isinstance(x, Tensor):
        return x
    x = admit(x)
    if isinstance(x, Tensor):
        return x
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        x = np.asarray(x)
    if x.dtype.kind not in "biufc":
        raise DtypeError(f"scan: {what} is {x!r}, no array of numbers.")
    return x


def _taps(given: Any, what: str, settings: dict[str, Any], key: str) -> Any:
    """The array and the taps of an entry that is a dict with settings."""
    known = {key, "taps", "name"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UsageError(
            f"scan: {what} has the setting {unknown[0]!r}; it takes {key}= and taps=."
        )
    taps = settings.get("taps")
    taps = listed(taps) if taps is not None else None
    if taps is not None and not all(
        isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in taps
    ):
        raise UsageError(f"scan: the taps of {what} are {taps!r}, and not integers.")
    return settings.get(key), None if taps is None else tuple(int(k) for k in taps)


def sequenced(given: Any) -> list[Sequenced]:
    """The sequences of a loop.

    Raises
    ------
    ShapeError
        If one has no axis of steps.
    """
    made = []
    for at, entry in enumerate(listed(given)):
        label = f"sequence {at}"
        taps: Any = (0,)
        if isinstance(entry, dict) and "input" in entry:
            entry, found = _taps(given, label, entry, "input")
            taps = found or (0,)
        leaves, structure = tree.flatten(_numbers(entry))
        leaves = [array(x, label) for x in leaves]
        for x in leaves:
            if not shape_of(x):
                said = blame.describe(x) if isinstance(x, Tensor) else repr(x)
                raise ShapeError(
                    f"scan: {label} is {said}{blame.here()}, which has no axis of"
                    " steps. What is the same in each step belongs into non_sequences."
                )
        made.append(Sequenced(label, leaves, structure, taps))
    return made


def _numbers(entry: Any) -> Any:
    """A list of plain numbers is an array, and no nest."""
    if isinstance(entry, (list, tuple)) and entry and all(map(_plain, entry)):
        return np.asarray(entry)
    return entry


def _plain(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_plain, x))
    return types.weak(x) or isinstance(x, np.generic)


def recurrences(given: Any) -> list[Recurrence | None]:
    """The outputs of a loop that have first values; None for one that is not fed back.

    Raises
    ------
    UsageError
        If an entry has taps and no first values, or taps that are not in the past.
    ShapeError
        If there are too few first values for the taps.
    """
    made: list[Recurrence | None] = []
    for at, entry in enumerate(listed(given)):
        label = f"output {at}"
        taps: Any = None
        if isinstance(entry, dict) and set(entry) <= {"initial", "taps", "name"}:
            entry, taps = _taps(given, label, entry, "initial")
            if entry is None and taps is not None:
                raise UsageError(
                    f"scan: {label} has taps={list(taps)} and no initial values. Give"
                    f" them: dict(initial=x0, taps={list(taps)}), where x0 has"
                    f" {-min(taps)} rows."
                )
        if entry is None:
            made.append(None)
            continue
        taps = taps or (-1,)
        if any(k >= 0 for k in taps):
            raise UsageError(
                f"scan: {label} has taps={list(taps)}; a step reads earlier values,"
                " so its taps are negative: -1 is the value before."
            )
        if len(set(taps)) < len(taps):
            raise UsageError(
                f"scan: {label} has taps={list(taps)}, one of them twice. Name"
                " each once."
            )
        rows = taps != (-1,)
        nest = _numbers(entry) if rows else entry
        leaves, structure = tree.flatten(nest)
        plain = list(leaves)
        leaves = [array(x, f"the initial value of {label}") for x in leaves]
        depth = -min(taps)
        for x in leaves if rows else ():
            shape = shape_of(x)
            if not shape or (isinstance(shape[0], int) and shape[0] < depth):
                raise ShapeError(
                    f"scan: {label} has taps={list(taps)}, so its initial values need"
                    f" {depth} rows, the oldest first; they have shape {shape}. Write"
                    " np.stack([...])."
                )
        made.append(Recurrence(label, leaves, structure, taps, plain))
    return made
