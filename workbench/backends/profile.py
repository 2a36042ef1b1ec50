"""What each node of a program costs: `Profile`.

The program that is measured is the one that runs, each op with a clock around it; one
that nobody measures pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

from workbench.backends.numpy import Function
from workbench.core.schedule import compute_node
from workbench.core.source import Site
from workbench.core.tensor import Tensor

#: As many of the dearest nodes are printed.
MOST_ROWS = 30


class Row(NamedTuple):
    """What one node has cost."""

    node: Tensor
    #: The op, and the name of its result where it has one.
    op: str
    calls: int
    #: Seconds, in all calls.
    time: float
    #: Its part of the time of all nodes.
    share: float
    #: Bytes that its result took in the last call; a view takes none.
    memory: int
    #: The user's line that made it.
    site: Site | None


class Profile:
    """What each node of a function has cost in the calls that were measured.

    Attributes
    ----------
    calls
        How many calls were measured.
    time
        Seconds that their nodes took.
    peak
        The most bytes that the results of nodes took at one moment of the last call.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.vector("x", shape=1000)
    >>> f = wb.function([x], np.sum(np.exp(x)))
    >>> float(f.profiled(np.zeros(1000)))
    1000.0
    >>> sorted(row.op for row in f.profile), f.profile.peak
    (['exp', 'sum'], 8008)
    """

    def __init__(self, function: Function) -> None:
        self._steps = function.schedule.steps
        count = len(self._steps)
        self._counts = [0] * count
        self._seconds = [0.0] * count
        self._bytes = [0] * count
        self._lock = Lock()
        self._function = function
        self._places = {step.node.serial: i for i, step in enumerate(self._steps)}
        self.calls = 0
        self.peak = 0

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs of a call that is measured; one at a time."""
        with self._lock:
            results = self._function.run(arrays, self._time)
            self.calls += 1
            self.peak = self._peak()
        return results

    def _time(self, node: Tensor, operands: tuple[Any, ...]) -> Any:
        """Compute one step with a clock around it."""
        start = perf_counter()
        result = compute_node(node, operands)
        seconds = perf_counter() - start
        i = self._places[node.serial]
        self._seconds[i] += seconds
        self._counts[i] += 1
        self._bytes[i] = _count_bytes(result)
        return result

    def _peak(self) -> int:
        """Return the most bytes at once, from what each step wrote and let go."""
        slots: dict[int, int] = {}
        now = peak = 0
        for step, size in zip(self._steps, self._bytes, strict=True):
            peak = max(peak, now + size)
            now += size - slots.get(step.writes, 0)
            slots[step.writes] = size
            for slot in step.forgets:
                now -= slots.pop(slot, 0)
        return peak

    @property
    def time(self) -> float:
        """Seconds that all nodes took in all calls."""
        return sum(self._seconds)

    @property
    def rows(self) -> list[Row]:
        """The cost of each node, the dearest first."""
        total = self.time or 1.0
        rows = [
            Row(
                step.node,
                " ".join(filter(None, (step.node.op.name, step.node.name))),
                self._counts[i],
                self._seconds[i],
                self._seconds[i] / total,
                self._bytes[i],
                step.node.site,
            )
            for i, step in enumerate(self._steps)
        ]
        return sorted(rows, key=lambda row: -row.time)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._steps)

    def __str__(self) -> str:
        if not self.calls:
            return "Nothing was measured yet: call f.profiled(...)."
        rows = self.rows
        lines = [
            f"{self.calls} call{'s' * (self.calls != 1)}, {_format_seconds(self.time)}"
            f" in {len(rows)} nodes; at most {_format_bytes(self.peak)} at once",
            f"{'share':>6} {'time':>9} {'calls':>7} {'memory':>9}  node",
        ]
        for row in rows[:MOST_ROWS]:
            place = "" if row.site is None else f"  {row.site}"
            lines.append(
                f"{row.share:>6.1%} {_format_seconds(row.time):>9} {row.calls:>7}"
                f" {_format_bytes(row.memory):>9}  {row.op:<20}{place}".rstrip()
            )
        if len(rows) > MOST_ROWS:
            rest = sum(row.share for row in rows[MOST_ROWS:])
            lines.append(f"{rest:>6.1%} in {len(rows) - MOST_ROWS:,} more nodes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Profile of {self.calls} calls: {_format_seconds(self.time)}>"


def _count_bytes(result: Any) -> int:
    """Return the bytes that a result takes; a view lies in what it is a view of."""
    if isinstance(result, tuple):
        return sum(map(_count_bytes, result))
    if getattr(result, "base", None) is not None:
        return 0
    return int(getattr(result, "nbytes", 0))


def _format_seconds(time: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if time >= size:
            return f"{time / size:.3g} {unit}"
    return f"{time / 1e-6:.3g} µs"


def _format_bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
