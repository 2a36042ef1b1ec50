"""`Timeline`: the record of a session's runs.

Of each run the loss and the size of the gradient; of as many as memory and time allow,
the norm of every node's value and gradient. What is remembered is bounded: when the
memory is full, every second run is forgotten, so that a long training stays there from
its first run to its last, less densely. Nothing is computed for it but norms.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from workbench.checks import statistics
from workbench.checks.statistics import (
    Table,
    compute_row_norms,
    fetch,
    is_on_device,
)
from workbench.core.blame import format_count
from workbench.errors import UnknownNodeError, UsageError
from workbench.overrides.override import Override
from workbench.session.applied_override import format_target
from workbench.session.checks import find_origin
from workbench.session.history import Entries
from workbench.session.kept_inputs import KeptInputs, RunInputs, Trend
from workbench.session.nodes import Node, Nodes
from workbench.session.state import State

Array = np.ndarray[Any, Any]

#: The most runs of which losses are kept: 24 bytes each.
MOST_LOSSES = 8192
#: The most runs of which norms are kept, and the bytes for them; but at least so many.
MOST_MOMENTS, MOST_BYTES, LEAST_MOMENTS = 2048, 32 * 10**6, 8
#: The most marks of a kind, and the most changes of overrides.
MOST_MARKS, MOST_CHANGES = 64, 1000
#: The part of the time of the runs that all norms may take, and the size of the
#: gradient by itself; each beyond so many seconds.
SHARE, GRACE = 0.003, 0.01
#: The norm of an array that there is not.
MISSING = -1.0
#: A gradient has exploded if it is so many times as large as it was lately.
EXPLOSION = 100.0
#: After so many runs it is known how large it is; the weight of one more.
SETTLED, WEIGHT = 5, 0.1

MarkKind = Literal["nan", "explosion", "overrides", "stop"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A run at which something happened.

    Attributes
    ----------
    step
        The run.
    kind
        ``"nan"``: the first with a NaN or an infinity, after runs without;
        ``"explosion"``: the gradient is a hundred times as large as lately;
        ``"overrides"``: the first run with other overrides; ``"stop"``: a condition of
        `Session.stop_when` held, and the loop was stopped.
    node
        The id of the node whose value, or gradient rule, made the first NaN or
        infinity; else None.
    text
        That in words.
    """

    step: int
    kind: MarkKind
    node: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Moment:
    """The norms of one run.

    Attributes
    ----------
    step
        The run, counted from 1.
    loss
        The value of the output; NaN if it is not one real number.
    values, gradients
        The L2 norm of each node's value, or gradient, by the labels of the nodes. Of
        an array with a NaN it is NaN.
    overrides
        The overrides that were in force, ``"2: clip ±0.1 on every tanh"``.
    """

    step: int
    loss: float
    values: Mapping[str, float]
    gradients: Mapping[str, float]
    overrides: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<step {self.step}: {self.loss:.6g}; norms of {len(self.values)} nodes>"


class Norms(NamedTuple):
    """The norms of one run as arrays, by the ids of nodes and edges.

    `MISSING` where there is no array.
    """

    step: int
    loss: float
    values: Array
    gradients: Array
    edges: Array


class Kept(NamedTuple):
    """The runs with norms, and a row of norms for each; later rows are free."""

    steps: list[int]
    rows: Array


class Timeline(Mapping[int, Moment]):
    """The runs of a session: a mapping from the number of a run to its norms.

    Runs are counted from 1, by :meth:`Session.run <workbench.Session.run>`. The loss is
    kept of each run, up to some thousands, then with its peaks. The norms of all nodes
    are kept of the last run, of each with a mark, and of as many others as take no more
    than 32 MB and 0.3 % of the time of the runs, but of 8 at any size. They are never
    cut: of a long training the kept ones lie further apart.

    A session with compiled code computes no inner nodes while nobody looks at them:
    there the norms are those of the gradients by `wrt`, and of what has been shown.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)**2))(np.ones(2)))
    >>> x = np.ones(2)
    >>> for _ in range(20):
    ...     loss = session.run(x=x)
    ...     x = x - 0.1 * session.grads["x"]
    >>> session.timeline
    <timeline: 20 steps, loss 1.16005 to 0.00364574>
    >>> session.timeline[-1].gradients["x"] < session.timeline[1].gradients["x"]
    True
    >>> session.timeline.losses.shape
    (20,)
    """

    def __init__(self, nodes: Nodes, session: Callable[[], Any]) -> None:
        self._nodes = nodes
        # A weak reference: the norms of the last run are computed when they are read.
        self._session = session
        #: How many runs there were.
        self.count = 0
        #: What has happened, the first of it first.
        self.marks: list[Mark] = []
        # Step, loss and size of the gradient, one run after the other: one array, so
        # that an interrupt comes before or after all three.
        self._losses = array("d")
        self._kept = Kept([], np.empty((0, 0)))
        # Whether the last row lacks what compiled code had not computed.
        self._is_partial = False
        # At least so many runs lie between two with norms.
        self._stride = 1
        # Seconds of the runs, and of what is measured of them.
        self._elapsed = self._spent = self._spent_sizes = 0.0
        self._trend = Trend()
        #: What it takes to be at a run again.
        self.inputs = KeptInputs()
        self._entries: Entries = ()
        self._key: tuple[Override, ...] = ()
        # The overrides, each with the first run that they held in.
        self._rules: list[tuple[int, Entries]] = []

    # What is remembered

    def __len__(self) -> int:
        return len(self._read().steps)

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._read().steps))

    @overload
    def __getitem__(self, step: int) -> Moment: ...
    @overload
    def __getitem__(self, step: slice) -> list[Moment]: ...
    def __getitem__(self, step: int | slice) -> Moment | list[Moment]:
        """Return the norms of a run; of a slice, those of its runs that are kept.

        Negative numbers count the kept runs from the last one.

        Raises
        ------
        UnknownNodeError
            If the norms of this run are not kept; the text names those beside it.
        """
        with self._hold():
            return self._find_moments(step)

    def find_nearest(self, step: int) -> Moment:
        """Return the norms of the kept run that is nearest to one.

        Raises
        ------
        UsageError
            If there has been no run.
        """
        with self._hold():
            return self._make_moment(self._find_nearest(step))

    @property
    def first_bad(self) -> Mark | None:
        """The run in which NaN or an infinity came in; None if there is none.

        If the last run is not finite, it is the run since which none was; otherwise the
        first one that was not. :meth:`Session.at <workbench.Session.at>` goes there.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(2)))
        >>> with np.errstate(all="ignore"):
        ...     values = [session.run(x=np.full(2, x)) for x in (1.0, 0.5, -0.1, -0.7)]
        >>> session.timeline.first_bad.step, session.timeline.first_bad.text
        (3, 'NaN in the value of log 1: 2 of 2 entries')
        """
        found = [mark for mark in self.marks if mark.kind == "nan"]
        if not found:
            return None
        return found[-1] if self.is_bad else found[0]

    @property
    def is_bad(self) -> bool:
        """True if the last run has a loss or a gradient that is not finite."""
        return self._trend.is_bad

    @property
    def steps(self) -> Array:
        """The numbers of the runs of which the loss is kept."""
        return self.table[:, 0].astype(np.int64)

    @property
    def losses(self) -> Array:
        """The loss of each of `steps`; NaN for an output that is not one number."""
        return self.table[:, 1]

    @property
    def gradients(self) -> Array:
        """The norm of the gradient by all `wrt` together, at each of `steps`.

        NaN where it would have taken more than 0.3 % of the time of the runs.
        """
        return self.table[:, 2]

    def norms(self, node: Node) -> tuple[Array, Array, Array]:
        """Return how the norms of a node went on.

        Parameters
        ----------
        node
            Its name, its id or its Tensor.

        Returns
        -------
        The kept runs, and the norms of the value and of the gradient at each; NaN where
        there is none.

        Raises
        ------
        UnknownNodeError
            If there is no such node.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> values = [session.run(x=np.full(2, k)) for k in (3.0, 2.0)]
        >>> steps, values, gradients = session.timeline.norms("x")
        >>> steps, gradients / values
        (array([1, 2]), array([2., 2.]))
        """
        i, count = self._nodes.find(node), self._nodes.count
        with self._hold():
            kept, rows = self._read()
            steps = np.array(kept, np.int64)
            # Of a session that has not run there are no columns yet.
            used = len(steps)
            found = rows[:used, [i, count + i]] if used else np.empty((0, 2))
        found = np.where(found == MISSING, np.nan, found)
        return steps, found[:, 0], found[:, 1]

    def read_norms(self, step: int) -> Norms:
        """Return the norms of the kept run that is nearest to one, as arrays."""
        with self._hold():
            return self._split_row(self._find_nearest(step))

    def _split_row(self, at: int) -> Norms:
        row, count = self._kept.rows[at], self._nodes.count
        values, gradients, edges = np.split(row[:-1], [count, 2 * count])
        loss = float(row[-1])
        return Norms(self._kept.steps[at], loss, values, gradients, edges)

    def to_dataframe(self) -> Any:
        """Return the kept runs as a DataFrame of pandas.

        Its index are the runs; its columns the loss, and the norms of the value and
        the gradient of each node: ``("value", "h")``, ``("gradient", "h")``.

        Raises
        ------
        UsageError
            If pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError(
                "timeline.to_dataframe() needs pandas: pip install pandas. Without it,"
                ' timeline.losses and timeline.norms("h") are arrays.'
            ) from None
        labels = self._nodes.labels
        with self._hold():
            kept, rows = self._read()
            steps = [*kept]
            # Before the first run there are no columns.
            used, width = len(steps), 2 * len(labels) + 1
            numbers = rows[:used].copy() if used else np.empty((0, width))
        columns = {("loss", ""): numbers[:, -1]}
        numbers = np.where(numbers == MISSING, np.nan, numbers)
        for i, label in enumerate(labels):
            columns["value", label] = numbers[:, i]
            columns["gradient", label] = numbers[:, len(labels) + i]
        return pandas.DataFrame(columns, index=pandas.Index(steps, name="step"))

    def __repr__(self) -> str:
        if not self.count:
            return "<timeline: no steps yet>"
        losses = self.table[:, 1]
        loss = f", loss {losses[0]:.6g} to {losses[-1]:.6g}"
        loss = loss if np.isfinite(losses).any() else ""
        marks = f"; {format_count(len(self.marks), 'mark')}" if self.marks else ""
        return f"<timeline: {format_count(self.count, 'step')}{loss}{marks}>"

    def _hold(self) -> AbstractContextManager[object]:
        """Return a context that keeps out runs in other threads."""
        session = self._session()
        return nullcontext() if session is None else session.lock

    def _read(self) -> Kept:
        """Return the runs with norms; the last run is one of them."""
        session = self._session()
        if session is not None:
            with session.lock:
                self.complete(session._state)
        return self._kept

    @property
    def table(self) -> Array:
        """A row for each of `steps`: the number of the run, its loss, its gradient."""
        return np.frombuffer(self._losses.tobytes()).reshape(-1, 3)

    def _find_moments(self, step: int | slice) -> Moment | list[Moment]:
        """Return the norms of a run, or of those of a slice."""
        steps = self._read().steps
        if isinstance(step, slice):
            if step.step not in (None, 1):
                raise UsageError(
                    f"timeline[{step.start}:{step.stop}:{step.step}]: the kept runs"
                    " lie at any distance. Take [start:stop], and of the list every"
                    " so many."
                )
            first, last = (
                self._resolve(end, other)
                for end, other in ((step.start, 0), (step.stop, self.count + 1))
            )
            return [
                self._make_moment(k) for k, s in enumerate(steps) if first <= s < last
            ]
        wanted = self._resolve(step, 0)
        at = bisect_left(steps, wanted)
        if at == len(steps) or steps[at] != wanted:
            raise UnknownNodeError(self._explain(step, at))
        return self._make_moment(at)

    def _resolve(self, step: int | None, other: int) -> int:
        """Return the number of a run, of which negative ones count from the end."""
        if step is None:
            return other
        steps = self._read().steps
        if step < 0:
            return steps[step] if -step <= len(steps) else 0
        return int(step)

    def _find_nearest(self, step: int) -> int:
        """Return the row of the kept run that is nearest to one."""
        steps = self._read().steps
        if not steps:
            raise UsageError(
                f"{self._nodes.session}.timeline is empty: it remembers what"
                f" {self._nodes.session}.run(...) computes."
            )
        at = bisect_left(steps, step)
        if at == len(steps) or (at > 0 and step - steps[at - 1] < steps[at] - step):
            return at - 1
        return at

    def _explain(self, step: int, at: int) -> str:
        """Return why there are no norms of a run."""
        steps, name = self._read().steps, f"{self._nodes.session}.timeline"
        if not 0 < step <= self.count:
            had = format_count(self.count, "run")
            return f"{name}[{step}]: there were {had}, counted from 1."
        beside = " and ".join(str(s) for s in steps[max(at - 1, 0) : at + 1])
        return (
            f"{name}[{step}]: the norms of this run are not kept, those of {beside}"
            f" are. Write {name}.find_nearest({step}); the loss of each run is in"
            f" {name}.losses."
        )

    def _make_moment(self, at: int) -> Moment:
        """Return the norms of a row, by the labels of the nodes."""
        steps, rows = self._read()
        labels = self._nodes.labels
        row = rows[at].tolist()
        values, gradients = (
            {a: x for a, x in zip(labels, part, strict=True) if x != MISSING}
            for part in (row[: len(labels)], row[len(labels) : 2 * len(labels)])
        )
        overrides = describe_entries(self.find_entries(steps[at]), self._nodes)
        return Moment(steps[at], row[-1], values, gradients, overrides)

    def find_entries(self, step: int) -> Entries:
        """Return the overrides of a run, as of the last change before the run."""
        at = bisect_right(self._rules, step, key=lambda rule: rule[0])
        return self._rules[max(at - 1, 0)][1] if self._rules else ()

    # Recording

    def record(self, state: State, before: State) -> None:
        """Remember a run.

        Parameters
        ----------
        state
            The state that the run led to.
        before
            The state before it: what has been computed of it since is kept too.
        """
        if before.results is not None and before.has_arrays:
            self.complete(before)
        # Little is done here, since it is done in each step of a training.
        self._elapsed += state.seconds
        most = SHARE * self._elapsed + GRACE
        size = None
        if self._spent_sizes <= most:
            start = time.perf_counter()
            loss, size = measure_run(state)
            self._spent_sizes += time.perf_counter() - start
        else:
            loss = find_loss(state.value)
        step = self.count + 1
        # The run itself, then its number: what is interrupted has not been.
        nan = math.nan
        self._losses.extend(
            (step, nan if loss is None else loss, nan if size is None else size)
        )
        self.count = step
        if len(self._losses) > 3 * MOST_LOSSES:
            self._losses = thin_losses(self._losses)
        kind = self._judge(loss or 0.0, size or 0.0)
        changed = False
        # That a gradient was bad is seen late where it was not measured: by what the
        # weights became.
        cause = self._find_cause(before) if kind == "nan" else None
        if state.entries is not self._entries or not self._rules:
            self._keep_rules(step, state.entries)
            changed = state.key != self._key
            self._entries, self._key = state.entries, state.key
        kept = self._kept.steps
        is_due = not kept or step - kept[-1] >= self._stride
        if kind or changed or (is_due and (not kept or self._spent <= most)):
            self._keep_norms(step, state)
        values = {i: state.find_leaf(i) for i in self.inputs.first_values}
        kept_run = RunInputs(
            step, values, state.entries, nan if loss is None else loss,
            nan if size is None else size, self._trend,
        )  # fmt: skip
        # From the first two a branch learns how inputs follow from gradients.
        self.inputs.add(kept_run, pinned=kind is not None or step == 2)
        if changed and step > 1:
            count = sum(entry.override.enabled for entry in state.entries)
            text = f"with {format_count(count, 'override')} from here on"
            self._mark(Mark(step, "overrides", None, text))
        if cause is not None:
            self._mark(self._describe_bad(step - 1, cause))
        elif kind == "nan":
            self._mark(self._describe_bad(step, state.make_visible()))
        elif kind is not None:
            times = f"more than {EXPLOSION:.0f} times as large as lately"
            self._mark(Mark(step, kind, None, f"the gradient is {times}"))

    def _find_cause(self, before: State) -> State | None:
        """Return the run before, if its gradient was bad and nobody has looked."""
        size = self._losses[-4] if len(self._losses) > 3 else 0.0
        if not math.isnan(size):
            return None
        # Overrides that were changed since did not hold in it.
        before = before.make_visible(self._entries)
        return None if math.isfinite(measure_run(before)[1]) else before

    def _keep_rules(self, step: int, entries: Entries) -> None:
        """Keep the overrides that hold from a run on."""
        if len(self._rules) >= MOST_CHANGES:
            # Of a loop that changes them in each run every second change is left.
            self._rules = self._rules[:1] + self._rules[1::2]
        self._rules.append((step, entries))

    def complete(self, state: State) -> None:
        """Remember the norms of the last run, as far as that has not been done."""
        if not self.count:
            return
        # Later overrides held in none of the runs.
        partial = self._is_partial and state.has_arrays and state.key == self._key
        if self._kept.steps[-1:] != [self.count] or partial:
            self._keep_norms(self.count, state)

    def _judge(self, loss: float, size: float) -> MarkKind | None:
        """Return the trouble that begins with a run, NaN or an explosion, or None."""
        before = self._trend
        if not (math.isfinite(loss) and math.isfinite(size)):
            self._trend = before._replace(is_bad=True)
            return None if before.is_bad else "nan"
        if not size:
            self._trend = before._replace(is_bad=False)
            return None
        exponent = math.log(size)
        far = before.size + math.log(EXPLOSION)
        has_exploded = before.runs >= SETTLED and exponent > far
        runs = before.runs + 1
        mean = before.size + max(WEIGHT, 1 / runs) * (exponent - before.size)
        self._trend = Trend(False, has_exploded, mean, runs)
        return "explosion" if has_exploded and not before.has_exploded else None

    def mark_stop(self, node: int | None, text: str) -> None:
        """Note that the loop was stopped at the last run."""
        self.inputs.pin_last()
        self._mark(Mark(self.count, "stop", node, text))

    def _mark(self, mark: Mark) -> None:
        same = [one for one in self.marks if one.kind == mark.kind]
        if len(same) >= MOST_MARKS:
            # The first of a kind stay, and the last one.
            self.marks.remove(same[-1])
        self.marks.append(mark)

    def _describe_bad(self, step: int, state: State) -> Mark:
        """Return the mark of a run with a NaN or an infinity."""
        found = find_origin(state)
        if found is None:
            text = "the norm of the gradient is beyond the largest number"
            return Mark(step, "nan", None, text)
        labels, bad = self._nodes.labels, found.bad
        count = int(statistics.summarize(bad)[-1])
        word = "NaN" if math.isnan(statistics.norm(bad)) else "infinity"
        what = "value" if found.sweep == "forward" else "gradient"
        text = f"{word} in the {what} of {labels[found.shown]}"
        text += f": {count} of {np.size(bad)} entries"
        if found.shown != found.node:
            text += f", by the rule of {labels[found.node]}"
        return Mark(step, "nan", found.node, text)

    def _keep_norms(self, step: int, state: State) -> None:
        """Keep the norms of a run, as far as its arrays are computed."""
        start = time.perf_counter()
        row = measure_norms(state)
        row[-1] = self._losses[-2]
        if self._kept.steps[-1:] == [step]:
            self._kept.steps.pop()
        most = min(MOST_MOMENTS, max(LEAST_MOMENTS, MOST_BYTES // (8 * row.size)))
        if len(self._kept.steps) >= most:
            self._thin()
        steps, rows = self._kept
        used = len(steps)
        if used == len(rows):
            grown = np.empty((min(most, max(LEAST_MOMENTS, 2 * used)), row.size))
            if used:
                grown[:used] = rows
            self._kept = Kept(steps, grown)
        self._kept.rows[used] = row
        steps.append(step)
        self._is_partial = not state.has_arrays
        self._spent += time.perf_counter() - start

    def _thin(self) -> None:
        """Forget the norms of every second run, but not of the first nor of marks."""
        steps, rows = self._kept
        # Of very many marks the first are what one looks for.
        pinned = {steps[0], *[mark.step for mark in self.marks][: len(steps) // 4]}
        left = [k for k, s in enumerate(steps) if k % 2 == 0 or s in pinned]
        thinned = np.empty_like(rows)
        thinned[: len(left)] = rows[left]
        span = (steps[-1] - steps[0]) // len(left)
        self._kept = Kept([steps[k] for k in left], thinned)
        self._stride = max(2 * self._stride, span)

    def cut(
        self, nodes: Nodes, session: Callable[[], Any], run: RunInputs | None = None
    ) -> Timeline:
        """Return an independent copy; without what was after a kept run, if given."""
        made = Timeline(nodes, session)
        made.__dict__.update(
            {
                name: copy(value) if isinstance(value, (list, array)) else value
                for name, value in self.__dict__.items()
                if name not in ("_nodes", "_session", "inputs")
            }
        )
        step = self.count if run is None else run.step
        made.inputs = self.inputs.cut(step)
        used = bisect_right(self._kept.steps, step)
        # Rows are shared: a copy that adds one first makes them its own.
        made._kept = Kept(self._kept.steps[:used], self._kept.rows[:used])
        if run is not None:
            table = self.table
            rows = table[table[:, 0] < step].ravel()
            made._losses = array("d", [*rows, step, run.loss, run.size])
            made.count = step
            made.marks = [mark for mark in self.marks if mark.step <= step]
            made._rules = [rule for rule in self._rules if rule[0] <= step]
            made._entries = run.entries
            made._key = tuple(e.override for e in run.entries if e.override.enabled)
            # That a gradient was not finite is seen in the next run at times.
            was_bad = any(m.kind == "nan" and m.step == step for m in self.marks)
            made._trend = run.trend._replace(is_bad=run.trend.is_bad or was_bad)
            made._is_partial = False
        return made

    def cut_before(
        self, nodes: Nodes, session: Callable[[], Any], run: RunInputs, step: int
    ) -> Timeline:
        """Return an independent copy of what was before a run, which comes next in it.

        ``run`` is the kept run at this step, or the nearest one before.
        """
        made = self.cut(nodes, session, run)
        table = self.table
        made._losses = array("d", table[table[:, 0] < step].ravel())
        made.count = step - 1
        made.marks = [mark for mark in self.marks if mark.step < step]
        made._rules = [rule for rule in self._rules if rule[0] < step]
        made._entries = self.find_entries(step - 1)
        made._key = tuple(e.override for e in made._entries if e.override.enabled)
        made.inputs = self.inputs.cut(step - 1)
        earlier = made.inputs.steps
        made._trend = made.inputs.find(earlier[-1], "").trend if earlier else Trend()
        used = bisect_left(self._kept.steps, step)
        made._kept = Kept(self._kept.steps[:used], self._kept.rows[:used])
        return made


def describe_entries(entries: Entries, nodes: Nodes) -> tuple[str, ...]:
    """Return the overrides among some that are on, each as a text."""
    return tuple(
        f"{number}: {one.label} on {format_target(one.target, nodes, one.steps)}"
        for number, one in entries
        if one.enabled
    )


def find_loss(value: Any) -> float | None:
    """Return the value of an output as a number; None if not one real number."""
    if type(value) in (float, np.float64):
        return float(value)
    if np.shape(value) != () or np.dtype(getattr(value, "dtype", float)).kind != "f":
        return None
    return float(value.get() if is_on_device(value) else value)


def measure_run(state: State) -> tuple[float | None, float]:
    """Return the loss, and the norm of the gradient by all `wrt` together."""
    gradients, value = state.require_gradients(), state.value
    found = [gradients.get(i) for i in state.objective.wrt]
    if is_on_device(value) and value.dtype.kind == "f" and value.shape == ():
        # The loss and the norms are one transfer.
        table = Table(compute_row_norms)
        found = [g for g in found if g is not None]
        table.add(range(len(found)), found)
        number, *parts = fetch([value.astype(np.float64), *table.parts])
        return float(number), math.hypot(*[x for part in parts for x in part.tolist()])
    return find_loss(value), math.hypot(*statistics.compute_norms(found, 0.0))


def measure_norms(state: State) -> Array:
    """Return the norms of all values, gradients and edges, and room for the loss.

    Of compiled code whose inner nodes nobody has looked at, only of its inputs, its
    output and the gradients by `wrt`.
    """

    def measure(arrays: list[Any]) -> list[float]:
        return statistics.compute_norms(arrays, MISSING)

    start, objective, results = state.start, state.objective, state.results
    count = len(start.graph.nodes)
    if results is None or state.has_arrays:
        of_values = state.forward.measure(measure)
        backward = state.backward
        known = {} if backward is None else backward.cotangents
        edges = None if backward is None else backward.edge_norms
        gradients = [*map(known.get, range(count))]
    else:
        ids = [start.ids[x.serial] for x in start.graph.inputs]
        inputs = dict(zip(ids, state.list_inputs(), strict=True))
        inputs[objective.output] = results.value
        of_values = measure([inputs.get(i) for i in range(count)])
        gradients = [*map(results.gradients.get, range(count))]
        edges = None
    row = np.full(2 * count + start.starts[-1] + 1, MISSING)
    row[:count], row[count : 2 * count] = of_values, measure(gradients)
    if edges is not None:
        # NaN means that nothing flows; where a NaN does, the nodes' norms say so.
        row[2 * count : -1] = np.where(np.isnan(edges), MISSING, edges)
    return row


def thin_losses(losses: array[float]) -> array[float]:
    """Return half of some losses: of each four runs the lowest and the highest.

    A NaN counts as the highest, so that it stays to be seen.

    >>> table = array("d", [1, 0.5, 0, 2, 0.1, 0, 3, 0.9, 0, 4, 0.6, 0])
    >>> thin_losses(table).tolist()
    [2.0, 0.1, 0.0, 3.0, 0.9, 0.0]
    """
    table = np.frombuffer(losses).reshape(-1, 3)
    whole = len(table) // 4 * 4
    loss = np.where(np.isnan(table[:whole, 1]), np.inf, table[:whole, 1])
    fours = loss.reshape(-1, 4)
    low = fours.argmin(1)
    # Of four equal ones the first and the last.
    high = 3 - fours[:, ::-1].argmax(1)
    high = np.where(high == low, 3 - low, high)
    first = 4 * np.arange(len(fours))
    chosen = np.sort(np.concatenate([first + low, first + high]))
    kept = np.concatenate([table[chosen], table[whole:]])
    return array("d", kept.tobytes())
