"""`KeptInputs`: the inputs and overrides of some runs, so that a session can go back.

A run is its inputs and its overrides: what they lead to is computed again, exactly,
when somebody looks. The session owns these arrays anyway, so a run is kept by a
reference, in no time, and costs memory alone, of which there is a budget. When that is
spent every second run is forgotten, but never the first one, nor those where trouble
began, as long as these leave room for others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.core.blame import format_count
from workbench.errors import UsageError
from workbench.session.history import Entries
from workbench.session.state import State

#: The bytes of inputs that a session keeps of its past, and the most runs.
MOST_BYTES, MOST_RUNS = 64 * 10**6, 1024


class Trend(NamedTuple):
    """What is known after a run of how the runs go.

    Attributes
    ----------
    is_bad
        Whether the run's loss or gradient was not finite; False if it is not known.
    has_exploded
        Whether the gradient was far larger than lately.
    size, runs
        The mean logarithm of the size of the gradient lately, and of how many runs.
    """

    is_bad: bool = False
    has_exploded: bool = False
    size: float = 0.0
    runs: int = 0


class RunInputs(NamedTuple):
    """What it takes to compute a run again.

    Attributes
    ----------
    step
        The run, counted from 1.
    values
        The values of all inputs that any run has changed, by id.
    entries
        The overrides that held.
    loss, size
        The output, and the norm of the gradient; NaN where they are not known.
    trend
        How the runs went until then.
    """

    step: int
    values: Mapping[int, Any]
    entries: Entries
    loss: float
    size: float
    trend: Trend = Trend()


class KeptInputs:
    """The inputs of the first run, the last one, pinned ones, and some between.

    Attributes
    ----------
    first_values
        The values before the first run of the inputs that runs have changed, by id.
    bytes
        How many bytes the arrays have that are kept for the past alone.
    refusal
        Why no run can be computed again; "" if it can.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = MOST_BYTES if budget is None else budget
        self.first_values: dict[int, Any] = {}
        self.bytes = 0
        self.refusal = ""
        self._runs: list[RunInputs] = []
        self._pinned: set[int] = set()
        # No more than these are pinned.
        self._most_pinned = MOST_RUNS // 2
        # At least so many runs lie between two that are kept.
        self._stride = 1

    @property
    def steps(self) -> list[int]:
        """The kept runs, in order."""
        return [run.step for run in self._runs]

    def add(self, run: RunInputs, *, pinned: bool) -> None:
        """Keep the last run, in the place of one before that need not stay.

        A run that is ``pinned`` stays, and so does the one before it: what happened in
        it may have its cause there.
        """
        if self.refusal:
            return
        runs = self._runs
        if pinned and len(self._pinned) < self._most_pinned:
            self._pinned.update(one.step for one in runs[-1:])
            self._pinned.add(run.step)
        if len(runs) > 1 and not self._is_due(runs[-1].step, runs[-2].step):
            dropped = runs.pop()
            self.bytes -= count_new_bytes(dropped.values, runs[-1].values)
        if runs:
            # The arrays of the last run are the session's own.
            self.bytes += count_new_bytes(runs[-1].values, run.values)
        runs.append(run)
        while self.bytes > self.budget or len(self._runs) > MOST_RUNS:
            if not self._thin():
                break

    def pin_last(self) -> None:
        """Let the last run stay, and the one before it."""
        self._pinned.update(self.steps[-2:])

    def _is_due(self, step: int, before: int) -> bool:
        return step in self._pinned or step - before >= self._stride

    def _thin(self) -> bool:
        """Forget every second run that is not pinned.

        Returns whether there is anything left to forget.
        """
        runs = self._runs
        first, inner, last = runs[:1], runs[1:-1], runs[-1:]
        if not inner:
            # Not even one more set of inputs has room.
            self._runs = last
            self.bytes = 0
            return False
        pinned = [run.step for run in inner if run.step in self._pinned]
        # The later runs need room too; of what happened the first is looked for.
        most = max(len(inner) // 2, 2)
        if len(pinned) > most:
            self._most_pinned = most
            self._pinned.difference_update(pinned[most:])
        left = [
            run for k, run in enumerate(inner) if k % 2 == 1 or run.step in self._pinned
        ]
        if len(left) == len(inner):
            left.pop()
        else:
            self._stride *= 2
        self._runs = [*first, *left, *last]
        self._pinned.intersection_update(self.steps)
        self.bytes = count_kept_bytes(self._runs)
        return True

    def find(self, step: int, session: str) -> RunInputs:
        """Return the inputs of a run.

        Raises
        ------
        UsageError
            If they are not kept; the text names the kept runs beside it.
        """
        steps, number = self.steps, self.resolve(step, session)
        if self.refusal:
            raise UsageError(
                f"{session}.at({step}): no run can be shown again: {self.refusal}."
            )
        if steps and not 0 < number <= steps[-1]:
            had = format_count(steps[-1], "run")
            raise UsageError(
                f"{session}.at({step}): there were {had}, counted from 1"
                f" ({len(steps)} of them are kept); {session}.at(-1) is the last one."
            )
        at = bisect_left(steps, number)
        if at < len(steps) and steps[at] == number:
            return self._runs[at]
        beside = [str(one) for one in steps[max(at - 1, 0) : at + 1]]
        if not beside:
            raise UsageError(
                f"{session}.at({step}): there is no run to go back to yet:"
                f" {session}.run(...) makes them."
            )
        kept = f"{' and '.join(beside)} {'is' if len(beside) == 1 else 'are'}"
        raise UsageError(
            f"{session}.at({step}): the inputs of this run are not kept, those of"
            f" {kept}. {format_count(len(steps), 'run')} of the past have room in"
            f" {self.budget / 1e6:.0f} MB; write {session}.at({beside[0]})."
        )

    def resolve(self, step: int, session: str) -> int:
        """Return the number of a run, of which negative ones count from the end.

        Raises
        ------
        UsageError
            If it is no integer.
        """
        if not isinstance(step, (int, np.integer)) or isinstance(step, bool):
            raise UsageError(
                f"{session}.at({step!r}): pass the number of a run, an integer counted"
                f" from 1: {session}.at(1), or {session}.at(-1) for the last one."
            )
        steps = self.steps
        if step < 0:
            return steps[step] if -step <= len(steps) else 0
        return int(step)

    def find_nearest(self, step: int) -> int | None:
        """Return the kept run that is nearest to one; None if there is none."""
        return min(self.steps, key=lambda one: (abs(one - step), one), default=None)

    def cut(self, step: int) -> KeptInputs:
        """Return a copy without the runs after one."""
        made = KeptInputs(self.budget)
        made.first_values = dict(self.first_values)
        made._runs = [run for run in self._runs if run.step <= step]
        made._pinned = {one for one in self._pinned if one <= step}
        made._stride, made.refusal = self._stride, self.refusal
        made._most_pinned = self._most_pinned
        made.bytes = count_kept_bytes(made._runs)
        return made

    def watch(self, changed: Collection[int], state: State) -> None:
        """Note inputs that a run is about to change, with the values that they have."""
        new = {i: state.find_leaf(i) for i in changed if i not in self.first_values}
        if not new:
            return
        if not self.first_values and state.draws_anew():
            self.refusal = "it draws random numbers, in each run anew"
        self.first_values |= new
        # Until now they were the same in all runs.
        self._runs = [run._replace(values={**new, **run.values}) for run in self._runs]


def count_new_bytes(values: Mapping[int, Any], others: Mapping[int, Any]) -> int:
    """Return the bytes of the arrays that are not the same ones in another run.

    >>> import numpy as np
    >>> x, y = np.zeros(2), np.ones(3)
    >>> count_new_bytes({0: x, 1: y}, {0: x, 1: y + 1})
    24
    """
    return sum(
        getattr(x, "nbytes", 0) for i, x in values.items() if x is not others.get(i)
    )


def count_kept_bytes(runs: Sequence[RunInputs]) -> int:
    """Return the bytes of the arrays of some runs but those of the last one.

    >>> import numpy as np
    >>> x = np.zeros(2)
    >>> runs = [RunInputs(k, {0: x}, (), 0.0, 0.0) for k in (1, 2)]
    >>> count_kept_bytes(runs), count_kept_bytes([*runs, runs[0]._replace(values={})])
    (0, 16)
    """
    if not runs:
        return 0
    *past, last = runs
    own = {id(x) for x in last.values.values()}
    known = {
        id(x): getattr(x, "nbytes", 0) for run in past for x in run.values.values()
    }
    return sum(size for key, size in known.items() if key not in own)
