"""One sweep, recorded once and run for many unit vectors.

`sweeping.py` makes matrices of what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import Batched
from workbench.autodiff.diagonal import Diagonal
from workbench.core import types
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import blank
from workbench.errors import TraceError
from workbench.ops.define import shape_of

__all__ = ["Program", "Pulled", "Pushed", "Rules", "size_of", "varies", "zeros"]

Rules = Mapping[int, Any] | None

#: What a sweep that runs by itself counts as, so that few are run between two words
#: of progress.
APART = 2**22


class Program:
    """A sweep recorded once, to be run for any unit vectors."""

    def __init__(self, place: int, seed_of: Any) -> None:
        #: The position of what it is seeded at, among outputs or sources.
        self.place = place
        self.bytes = 1
        self.like = seed_of
        self.batched: Batched | None = None
        self.seed: Tensor | None = None
        #: The position of each part's end in what was recorded, None for zeros.
        self.known: list[int | None] = []
        self.ends: list[Any] = []

    def _record(self, made: Sequence[Any], seed: Tensor, ends: Sequence[Any]) -> None:
        found = [g for g in made if g is not None]
        count = iter(range(len(found)))
        self.known = [None if g is None else next(count) for g in made]
        self.ends, self.seed = list(ends), seed
        if found:
            self.batched = Batched(found, [seed])
            self.bytes = self.batched.bytes_per_example()
        self.bytes += sum(size_of(x) * 8 for x in ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """One array for each end, unit vectors along axis 0."""
        raise NotImplementedError

    def _units(self, start: int, stop: int, unit: complex = 1) -> list[Any]:
        found: list[Any] = []
        if self.batched is not None and self.seed is not None:
            count = stop - start
            units = Diagonal.identity(self.seed, self.like._value, unit, start, stop)
            with np.errstate(all="ignore"):  # the program itself has warned already
                made = self.batched([units], count)
            found = [
                value_of(x)
                if many
                else np.broadcast_to(value_of(x), (count, *shape_of(x)))
                for x, many in zip(made, self.batched.batched, strict=True)
            ]
        return [
            zeros(x, stop - start) if k is None else found[k]
            for k, x in zip(self.known, self.ends, strict=True)
        ]


class Pulled(Program):
    """The cotangents of sources, for cotangents of one output."""

    def __init__(
        self, place: int, y: Any, sources: Sequence[tuple[int, Tensor]], rules: Rules
    ) -> None:
        super().__init__(place, y)
        self.rules = rules
        ends = [x for _, x in sources]
        self.eager = False
        if not varies(y):
            self.known, self.ends = [None] * len(ends), ends
            return
        seed = blank(y)
        try:
            made = reverse.pull_back([y], [seed], ends, rules=rules or None)
        except TraceError:
            # A rule of the user's looks at the values that arrive: one at a time.
            self.eager, self.ends = True, ends
            self.bytes = APART
            return
        self._record(made, seed, ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """See `Program.run`."""
        if self.eager:
            return self._eager(start, stop)
        real = self._units(start, stop)
        if not varies(self.like) or self.like.dtype.kind != "c":
            return real
        if all(x.dtype.kind == "c" for x in self.ends):
            return real
        # A cotangent of a complex output reaches a real argument as Re(g dy/dx).
        turned = self._units(start, stop, -1j)
        return [
            a if x.dtype.kind == "c" else a + 1j * b
            for a, b, x in zip(real, turned, self.ends, strict=True)
        ]

    def _eager(self, start: int, stop: int) -> list[Any]:
        y = self.like
        split = y.dtype.kind == "c"
        rows: list[list[Any]] = [[] for _ in self.ends]
        for i in range(start, stop):
            real = self._pull(i, 1)
            turned = self._pull(i, -1j) if split else real
            for found, a, b, x in zip(rows, real, turned, self.ends, strict=True):
                both = split and x.dtype.kind != "c"
                found.append(a + 1j * b if both else a)
        return [np.stack(found) for found in rows]

    def _pull(self, i: int, unit: complex) -> list[Any]:
        y = self.like
        g = np.zeros_like(y._value, dtype=y.dtype, shape=(size_of(y),))
        g[i] = unit
        g = np.reshape(g, y.shape)
        with np.errstate(all="ignore"):
            made = reverse.pull_back([y], [g], self.ends, rules=self.rules or None)
        return [
            zeros(x, 1)[0] if c is None else c
            for c, x in zip(made, self.ends, strict=True)
        ]


class Pushed(Program):
    """The tangents of outputs, for tangents of one source."""

    def __init__(
        self,
        place: int,
        x: Tensor,
        outputs: Sequence[tuple[int, Any]],
        sources: Sequence[Tensor],
        rules: Rules,
    ) -> None:
        super().__init__(place, x)
        ends = [y for _, y in outputs]
        seed = blank(x)
        tangents = [seed if other is x else None for other in sources]
        moved = forward.push_forward(
            [y if varies(y) else 0.0 for y in ends],
            sources,
            tangents,
            rules=rules or None,
        )
        self._record(moved, seed, ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """See `Program.run`."""
        real = self._units(start, stop)
        split = [varies(y) and y.dtype.kind != "c" for y in self.ends]
        if self.like.dtype.kind != "c" or not any(split):
            return real
        turned = self._units(start, stop, 1j)
        return [
            a - 1j * b if parted else a
            for a, b, parted in zip(real, turned, split, strict=True)
        ]


# Small things


def size_of(x: Any) -> int:
    """The number of entries."""
    return int(np.prod(shape_of(x), dtype=np.int64))


def zeros(x: Any, count: int) -> Any:
    """So many times zeros in the shape of a Tensor."""
    if not isinstance(x, Tensor):
        return np.zeros_like(x, shape=(count, *shape_of(x)))
    dtype = x.dtype if types.differentiable(x.dtype) else np.dtype(np.float64)
    return np.zeros_like(x._value, dtype=dtype, shape=(count, *x.shape))


def varies(y: Any) -> bool:
    """Whether something may have a derivative."""
    return isinstance(y, Tensor) and types.differentiable(y.dtype)
