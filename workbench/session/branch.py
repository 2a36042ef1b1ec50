"""How the inputs of a branch's runs follow, where a past run is run again.

A session sees the inputs of its runs, not the lines of the user's loop that make them.
An input that gradient descent makes, ``w - rate * gradient``, is recognised by the kept
runs, and its rate measured there; an input that is the same in all runs stays; any
other one is known at the kept runs alone. Of what is not known an error says how to
tell it: ``update=``.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workbench.checks.statistics import to_host
from workbench.errors import UsageError
from workbench.session.kept_inputs import KeptInputs, RunInputs
from workbench.session.state import State
from workbench.session.timeline import Timeline

Array = np.ndarray[Any, Any]

#: At most so many pairs of successive runs tell how inputs follow from gradients, from
#: the first to the last run that a branch makes again.
MOST_PAIRS = 8
#: How many roundings may lie between a recomputed input and the one of the run, and how
#: far apart two measured rates may be.
ROUNDINGS, SAME_RATE = 16, 1e-5
#: The most branches that a session keeps.
MOST_BRANCHES = 4


class InputRule:
    """How the inputs of one run follow from the run before.

    Parameters
    ----------
    state
        The state of the session, of any run.
    kept
        The runs that are kept.
    step, last
        The run after which inputs will be asked for, and the last such run.
    given
        The ids of inputs that the user's update makes.

    Attributes
    ----------
    rates
        The learning rate of each input that gradient descent makes, by the input's id.

    Raises
    ------
    UsageError
        If an input that is differentiated by follows from its gradient in another way.
    """

    def __init__(
        self,
        state: State,
        kept: KeptInputs,
        step: int,
        last: int,
        given: frozenset[int],
    ) -> None:
        self.kept = kept
        self.session = state.objective.nodes.session
        self.labels = state.objective.nodes.labels
        runs = [kept.find(one, self.session) for one in kept.steps]
        changing = [
            i for i in kept.first_values if i not in given and not _is_constant(i, runs)
        ]
        trained = [i for i in changing if i in state.objective.wrt]
        #: The inputs that are known at the kept runs alone.
        self.data = [i for i in changing if i not in trained]
        self.rates: dict[int, float] = {}
        pairs = _choose_pairs(runs, step, last) if trained else []
        gradients = [
            state.go_to(run.values, run.entries).require_gradients() for run, _ in pairs
        ]
        for i in trained:
            rates = [
                rate
                for (run, after), found in zip(pairs, gradients, strict=True)
                if (rate := measure_rate(run.values[i], after.values[i], found.get(i)))
                is not None
            ]
            if not rates:
                self._refuse(i, "no two successive runs with finite numbers are kept")
            if any(map(math.isnan, rates)):
                self._refuse(i, "it is not w - rate * gradient")
            # One step of momentum, say, is one of gradient descent too.
            if len(pairs) < 2:
                self._refuse(i, "only one pair of successive runs is kept")
            first = rates[0]
            other = max(rates, key=lambda rate: abs(rate - first))
            if abs(other - first) > SAME_RATE * max(map(abs, rates)):
                self._refuse(i, f"its rate changes from {first:.4g} to {other:.4g}")
            self.rates[i] = rates[0]

    def _refuse(self, i: int, reason: str) -> None:
        name = self.labels[i]
        raise UsageError(
            f"how the next {name} follows from a run is not known: {reason}. Write it:"
            f" {self.session}.run_again(..., update=lambda run: {{{name!r}:"
            f" run.values[{name!r}] - 0.1 * run.grads[{name!r}]}})."
        )

    def make_inputs(self, state: State, step: int) -> dict[int, Any]:
        """Return the inputs of a run from the state of the run before, by their ids.

        Raises
        ------
        UsageError
            If an input of this run is not known.
        """
        gradients = state.require_gradients() if self.rates else {}
        leaves: dict[int, Any] = {}
        for i, rate in self.rates.items():
            x, g = state.find_leaf(i), gradients.get(i)
            leaves[i] = x if g is None else (x - rate * g).astype(g.dtype)
        if self.data:
            if step not in self.kept.steps:
                names = ", ".join(self.labels[i] for i in self.data)
                raise UsageError(
                    f"step {step} needs its own {names}, and the inputs of that run are"
                    f" not kept. Name them: {self.session}.run_again(..., update=lambda"
                    f" run: {{{self.labels[self.data[0]]!r}: ...}}), where"
                    " run.timeline.count is the last step."
                )
            values = self.kept.find(step, self.session).values
            leaves |= {i: values[i] for i in self.data}
        return leaves


def _is_constant(i: int, runs: list[RunInputs]) -> bool:
    """Return whether an input is the same in all kept runs."""
    first = runs[0].values[i]
    return all(
        run.values[i] is first
        or np.array_equal(to_host(run.values[i]), to_host(first), equal_nan=True)
        for run in runs[1:]
    )


def _choose_pairs(
    runs: list[RunInputs], step: int, last: int
) -> list[tuple[RunInputs, RunInputs]]:
    """Return pairs of successive runs from a run to a last one, spread evenly.

    Where there are not two of them, the two that are nearest to the first run.
    """
    pairs = [
        (run, after)
        for run, after in itertools.pairwise(runs)
        if after.step == run.step + 1
    ]
    inside = [
        (run, after) for run, after in pairs if step <= run.step and after.step <= last
    ]
    if len(inside) < 2:
        return sorted(pairs, key=lambda pair: abs(pair[0].step - step))[:2]
    places = np.linspace(0, len(inside) - 1, min(MOST_PAIRS, len(inside)))
    return [inside[k] for k in places.round().astype(int)]


def measure_rate(before: Any, after: Any, gradient: Any) -> float | None:
    """Return the rate of the gradient descent from one array to the next.

    The shortest decimal that gives the array exactly, if there is one. NaN if it is no
    gradient descent; None if nothing can be seen: where no entry is finite, or nothing
    has changed.

    Examples
    --------
    >>> import numpy as np
    >>> x, g = np.array([1.0, 2.0]), np.array([0.3, -0.7])
    >>> measure_rate(x, x - 0.1 * g, g), measure_rate(x, 2 * x, g)
    (0.1, nan)
    """
    if gradient is None:
        return None
    a, b, g = (np.ravel(to_host(x)) for x in (before, after, gradient))
    with np.errstate(all="ignore"):
        known = np.isfinite(a) & np.isfinite(b) & np.isfinite(g)
        a, b, g = a[known], b[known], g[known]
        if not a.size:
            return None
        if not g.any():
            return None if np.array_equal(a, b) else math.nan
        wide = g / abs(g).max()  # its square is finite
        moved = (a - b).astype(wide.dtype)
        rate = float(np.vdot(wide, moved).real / np.vdot(wide, wide).real)
        rate /= float(abs(g).max())
        for digits in range(1, 10):
            short = float(f"{rate:.{digits}g}")
            if np.array_equal((a - short * g).astype(b.dtype), b):
                return short
        size = np.maximum(np.maximum(abs(a), abs(b)), abs(rate * g))
        allowed = ROUNDINGS * np.finfo(b.dtype).eps * size
        return rate if np.all(abs(a - rate * g - b) <= allowed) else math.nan


def find_start(kept: KeptInputs, step: int, session: str) -> RunInputs:
    """Return the kept run at a step, or the nearest one before.

    Raises
    ------
    UsageError
        If there is none.
    """
    steps = kept.steps
    number = kept.resolve(step, session)
    at = bisect_right(steps, number)
    if steps and 0 < number <= steps[-1] and at:
        return kept.find(steps[at - 1], session)
    return kept.find(step, session)  # which says why not


def find_runs(
    line: Timeline, step: int, until: int | None, session: str
) -> tuple[RunInputs, int, int]:
    """Return where a branch starts, its first run and its last one.

    Raises
    ------
    UsageError
        If there is no such run to start from, or it is after the last one.
    """
    base = find_start(line.inputs, step, session)
    number = line.inputs.resolve(step, session)
    last = line.count if until is None else until
    if not isinstance(last, (int, np.integer)) or isinstance(last, bool):
        raise UsageError(
            f"{session}.run_again({step}, until={until!r}): until is the number of the"
            f" last run of the branch, an integer like {line.count}."
        )
    if last < number:
        raise UsageError(
            f"{session}.run_again({step}, until={until}): the branch begins at run"
            f" {number}, so its last run is {number} or later."
        )
    return base, number, int(last)


class InputRules:
    """How the inputs of a branch's runs follow, whatever the user's update makes.

    Parameters
    ----------
    state
        The state at the run from which the branch starts.
    kept
        The runs that are kept.
    step, last
        The run from which the branch starts, and its last one.
    """

    def __init__(self, state: State, kept: KeptInputs, step: int, last: int) -> None:
        self._about = state, kept, step, last
        self._rules: dict[frozenset[int], InputRule] = {}

    def find(self, given: frozenset[int]) -> InputRule:
        """Return the rule where an update makes some inputs, told by their ids."""
        if given not in self._rules:
            self._rules[given] = InputRule(*self._about, given)
        return self._rules[given]

    def make_inputs(
        self, state: State, k: int, given: dict[int, Any]
    ) -> dict[int, Any]:
        """Return the inputs of run k by their ids, after a run and an update."""
        return self.find(frozenset(given)).make_inputs(state, k) | given


def ask_update(
    update: Callable[[Any], object] | None, run: Any, session: str, example: str
) -> Mapping[str, Any]:
    """Return the inputs that the user's update makes, by their names.

    Raises
    ------
    UsageError
        If it makes no such thing; the text writes one for an input, the example.
    """
    if update is None:
        return {}
    found = update(run) if callable(update) else update
    if not isinstance(found, Mapping):
        what = "returned" if callable(update) else "is"
        raise UsageError(
            f"{session}.run_again(..., update=...): update is a function that returns"
            f" the inputs of the next run by their names, but it {what} {found!r:.80}."
            f" Write it: update=lambda run: {{{example!r}: run.values[{example!r}] -"
            f" 0.1 * run.grads[{example!r}]}}."
        )
    return found
