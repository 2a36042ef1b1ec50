"""Gradient checks: reverse mode, forward mode and differences must agree.

The truth is the function's own values on plain arrays (`differences.py`); none
of our rules takes part in it. The result is a `Report`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import vjp
from workbench.checks import conventions
from workbench.checks.check_rule import find_by_halving
from workbench.checks.comparison import Check, find_nonfinite, run_from_host
from workbench.checks.differences import (
    NOISES,
    Tolerance,
    measure_rounding,
    slope,
    to_double,
)
from workbench.checks.nodes import check_nodes, is_checkable
from workbench.checks.progress import BUDGET, Progress, ProgressMeter
from workbench.checks.report import (
    Comparison,
    Identity,
    Report,
    make_identity_overrides,
)
from workbench.checks.statistics import relative_change
from workbench.core import sites, tree, walk
from workbench.core.arguments import check_arguments
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import ArgumentNames, check_function, is_float, record
from workbench.errors import OverrideError, UsageError
from workbench.overrides.override import Override
from workbench.overrides.override_blocks import overrides, suspend_overrides

# Given gradients, compared with differences of a function that runs.
#
# Some entries are compared one by one, all others along a random direction: of each
# argument, or of all together where there are many. Where a direction is wrong, halving
# the set of arguments finds one that is.

Array = np.ndarray[Any, Any]

#: Directions of many arguments together; along one an error may be near 0 by chance.
DIRECTIONS = 2
#: The part of the time that is left which one direction may take, with the search for
#: an argument; and the comparison of all entries, before a wrong rule is looked for.
GROUP_SHARE, ENTRIES_SHARE = 0.5, 0.7


class GivenGradients:
    """Compare given gradients by several arguments with a function.

    Attributes
    ----------
    check
        Chooses entries, counts progress, and keeps the report.
    known
        The function takes complex numbers and has no kink.
    noise
        The largest rounding error of the gradient by each argument.
    most
        The most entries of all arguments together; None: no such limit.
    """

    def __init__(
        self,
        check: Check,
        function: Callable[..., Any],
        arrays: Sequence[Array],
        gradients: Sequence[Any],
        *,
        most: int | None = None,
        known: bool = False,
        noise: Sequence[float] | None = None,
    ) -> None:
        self.noise = [0.0] * len(arrays) if noise is None else noise
        self.check, self.function, self.known = check, function, known
        self.arrays = list(arrays)
        self.gradients = [np.asarray(g) for g in gradients]
        self.wide = list(map(to_double, self.arrays))
        self.chosen_entries = [check.choose_entries(x) for x in self.arrays]
        full = most is None or sum(map(len, self.chosen_entries)) <= most
        if not full:
            self.limit_entries(most or 0)
        rest = [
            i for i, x in enumerate(self.arrays) if len(self.chosen_entries[i]) < x.size
        ]
        #: The arguments of each direction.
        self.groups = [[i] for i in rest] if full else [rest] * DIRECTIONS
        check.meter.total += len(self.groups) + sum(map(len, self.chosen_entries))

    def limit_entries(self, most: int) -> None:
        """Keep ``most`` entries in all: one of each argument, then a second of each."""
        rng = self.check.rng
        shuffled = [rng.permutation(k) for k in self.chosen_entries]
        order = rng.permutation(len(shuffled))
        deepest = max(map(len, shuffled))
        dealt = [(i, t) for t in range(deepest) for i in order if t < len(shuffled[i])]
        counts = np.bincount([i for i, _ in dealt[:most]], minlength=len(shuffled))
        self.chosen_entries = [
            np.sort(k[:n]) for k, n in zip(shuffled, counts, strict=True)
        ]

    def run(self) -> None:
        """Compare all groups along directions, then all chosen entries."""
        off: list[int] = []
        meter = self.check.meter

        def compare(group: list[int]) -> None:
            nonlocal off
            meter.step()
            if group != off and not self.compare_group(group):
                off = group

        for group in self.groups:
            names = self.name_arguments(group)
            what = f"the gradient by {names}, all entries along a direction"
            meter.attempt(what, partial(compare, group), GROUP_SHARE)
        for i in range(len(self.arrays)):
            self.compare_entries(i)

    def name_arguments(self, group: Sequence[int]) -> str:
        """Return the names of some arguments: the first and the last of many."""
        names = [self.check.names[i] for i in group]
        return names[0] if len(names) == 1 else f"{names[0]}, ... {names[-1]}"

    @cached_property
    def center(self) -> Array:
        """The function's number at the arrays as they are."""
        with np.errstate(all="ignore"):
            return self.evaluate(*self.wide)

    def evaluate(self, *new: Array) -> Array:
        """Return the function's one number, as an array of one entry."""
        return np.reshape(np.asarray(self.function(*new)), (-1,))

    def compare_entries(self, which: int) -> None:
        """Compare the chosen entries of one argument, each by itself."""
        check, x = self.check, self.arrays[which]
        row = Comparison(check.names[which], x.shape, 1, "given")
        check.report.comparisons.append(row)

        def compare(k: int) -> None:
            check.meter.step()
            noise, got = self.noise[which], self.gradients[which].flat[k]
            # What rounding does is measured only where something may be wrong.
            for rounding in (False, True):
                found = check.measure_entry(
                    self.evaluate, self.arrays, which, k, self.known,
                    center=self.center, rounding=rounding,
                )  # fmt: skip
                truth = check.weigh_entry(
                    self.evaluate, self.arrays, which, k, found, np.ones(1), True
                )
                entry = check.judge_entry(row, k, got, truth, noise)
                if entry.verdict == "right":
                    break
            row.entries.append(entry)

        check.attempt_entries(row, self.chosen_entries[which], compare)

    def compare_group(self, group: list[int]) -> bool:
        """Return whether the gradients by some arguments agree along a direction."""
        check = self.check
        directions: dict[int, Any] = {}
        for i in group:
            x = self.arrays[i]
            directions[i] = np.asarray(check.draw_like(x)) * np.where(
                x != 0, np.abs(x), 1
            )
        identity = self.compare_direction(directions)
        if identity is not None and not identity.holds and len(group) > 1:

            def off(chosen: Array) -> float:
                check.meter.total += 1
                check.meter.step()
                part = self.compare_direction(
                    {group[k]: directions[group[k]] for k in np.nonzero(chosen)[0]}
                )
                return 0.0 if part is None else part.error / part.tolerance

            i = group[find_by_halving(len(group), off, check.rng)]
            single = self.compare_direction({i: directions[i]})
            identity = identity if single is None or single.holds else single
        if identity is None:
            return True
        check.report.identities.append(identity)
        return identity.holds

    def compare_direction(self, directions: dict[int, Any]) -> Identity | None:
        """Compare the derivative along one direction by the gradients and the function.

        None where the function has no derivative along it.
        """

        def line(t: complex) -> Array:
            moved = [
                x + t * directions[i] if i in directions else x
                for i, x in enumerate(self.wide)
            ]
            return self.evaluate(*moved)

        real = all(self.arrays[i].dtype.kind != "c" for i in directions)
        found = slope(
            line, analytic=real, known=self.known, target=1e-9, center=self.center
        )
        if found.kink[0] or not np.isfinite(found.value[0] + found.error[0]):
            return None
        expected = float(np.real(found.value[0]))
        got = most = 0.0
        for i, direction in directions.items():
            gradient = self.gradients[i]
            terms = (gradient * direction).real
            got += float(np.sum(terms))
            kind: Any = gradient.dtype if gradient.dtype.kind in "fc" else float
            most = max(most, self.check.tolerance(expected, 0.0, kind))
            most += NOISES * self.noise[i] * float(np.sum(np.abs(direction)))
            most += 4e3 * float(np.finfo(kind).eps * np.sum(np.abs(terms)))
        names = [self.check.names[i] for i in directions]
        what = self.name_arguments([*directions])
        name = f"the gradient by {what}, all entries along a direction"
        slack = 4 * float(found.error[0])
        return Identity(name, got, expected, most + slack, tuple(names))


# What users call


def check_grads(
    f: Callable[..., Any],
    args: Any = (),
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    entries: int = 64,
    seed: int | None = None,
    progress: Progress | None = None,
    budget: float | None = BUDGET,
) -> Report:
    """Compare the derivatives of a function with differences of its values.

    Parameters
    ----------
    f
        A function of arrays or nests, with one output or a nest of them. Integer
        arguments stay as they are.
    args
        The tuple of its arguments; a single argument may stand alone.
    order
        1 checks gradients, 2 the gradients of gradients too, and so on.
    modes
        ``"fwd"``, ``"rev"`` or both; with both, the adjoint test too.
    rtol, atol
        The error that an entry may have; by default 1e-6 relative in double
        precision, 2e-3 in single, and the uncertainty of the differences.
    entries
        At most so many entries of each argument, chosen at random.
    seed
        Repeats that choice; the report names it.
    progress
        Called with (done, all) before each entry; true stops the check, and so does
        an interrupt: the report then holds what was checked.
    budget
        The seconds that the check may take; None: no limit. What it has not come to
        stands in the report, and in its ``unchecked``.

    Returns
    -------
    The `Report`, if nothing is wrong. Entries at kinks are not counted as wrong
    as long as they lie between the one-sided derivatives.

    Raises
    ------
    GradientError
        If an entry is off; it names the worst, the op whose rule is to blame and its
        line. Its ``report`` holds all, with one line for each node.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> report = wb.check_grads(lambda x: np.sum(x * np.sin(x)), np.arange(3.0))
    >>> report.ok, len(report.comparisons[0].entries)
    (True, 3)

    In a ``with workbench.overrides(...)`` block what runs there is checked. Where that
    is wrong, the true gradients are, and the report tells what the overrides change on
    purpose (``report.verdict`` is ``"changed"``); so with `workbench.stop_gradient` and
    its like in the function.
    """
    report = measure_report(
        f, args, order, modes, rtol, atol, entries, seed, progress, budget
    )
    return report.raise_if_wrong()


def measure_report(
    f: Callable[..., Any],
    args: Any,
    order: int,
    modes: Sequence[str],
    rtol: float | None,
    atol: float | None,
    entries: int,
    seed: int | None,
    progress: Progress | None,
    budget: float | None,
    share: slice = slice(None),
) -> Report:
    """Return the report of `check_grads`, of a share of the chosen entries alone.

    Whatever the share, the same seed chooses the same entries and directions.
    """
    check_function(f, "check_grads")
    if not isinstance(order, int):
        raise UsageError(
            f"check_grads: order={order!r} is not an integer. The arguments of the"
            " function go into one tuple. Write wb.check_grads(f, (x, y))."
        )
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes or order < 1:
        raise UsageError(
            f"check_grads: modes={tuple(modes)!r}, order={order!r}. Modes are 'fwd' and"
            " 'rev', the order is 1 or more."
        )
    args = args if isinstance(args, tuple) else (args,)
    check_arguments(f, args, "check_grads", "wb.check_grads(f, ({}))")
    flat, structure = tree.flatten(args)
    flat = [value_of(x) for x in flat]
    chosen = [i for i, x in enumerate(flat) if is_float(x)]
    if not chosen:
        raise UsageError(
            "check_grads: no argument is of float dtype. Pass x.astype(float)."
        )
    names = ArgumentNames(f, range(len(args)), structure.children, chosen)

    def on_leaves(*leaves: Any) -> Any:
        filled = list(flat)
        for i, x in zip(chosen, leaves, strict=True):
            filled[i] = x
        return f(*structure(filled))

    seed = draw_seed() if seed is None else seed
    function, values = run_from_host(on_leaves, [flat[i] for i in chosen])
    labels = [names[i] for i in range(len(chosen))]

    def run_check() -> Report:
        meter = ProgressMeter(progress, budget=budget)
        check = Check(
            Report(_describe_function(f), seed),
            labels,
            tuple(modes),
            Tolerance(rtol, atol),
            entries,
            meter,
        )
        check.share = share
        # The report names what is not finite; NumPy need not warn of it too.
        with meter, np.errstate(all="ignore"):
            with meter.limit_share(ENTRIES_SHARE):
                check.run(function, values, order)
            _compare_sampled(check, function, values)
            if not check.report.ok or (
                atol is None and _has_faint_derivative(check.report)
            ):
                _find_wrong_rules(check.report, function, values, order, meter)
        check.report.end(meter)
        return check.report

    report = run_check()
    if not report.stopped:
        report = _check_true_gradients(report, run_check, function, values, labels)
    return report


def _compare_sampled(check: Check, f: Callable[..., Any], values: list[Any]) -> None:
    """Compare the gradients by arguments of which only some entries are compared.

    Along a direction of all their entries, so that one wrong entry among many is found.
    """
    arrays = [np.asarray(x) for x in values]
    sampled = [i for i, x in enumerate(arrays) if x.size > check.limit]
    if not sampled or "rev" not in check.modes:
        return

    def compare() -> None:
        """Compare the weighted outputs, a function that returns one number."""
        check.meter.step()
        outputs = tree.flatten(f(*values))[0]
        weights = [check.draw_like(y) for y in outputs]

        def number(*moved: Any) -> Any:
            leaves = tree.flatten(f(*moved))[0]
            pairs = zip(weights, leaves, strict=True)
            total = sum(np.sum(np.multiply(w, y)) for w, y in pairs)
            return np.real(total)

        y, pullback = vjp(number, *values)
        one = [np.ones_like(y)]
        gradients = pullback(one[0])
        noise = measure_rounding(lambda g: pullback(g[0]), one, gradients)
        total = check.meter.total
        given = GivenGradients(check, number, arrays, gradients, noise=noise)
        check.meter.total = total  # its entries are not compared again
        for i in sampled:
            given.compare_group([i])

    names = ", ".join(check.names[i] for i in sampled)
    check.meter.total += 1
    what = f"the gradient by {names}, all entries along a direction"
    check.meter.attempt(what, compare, GROUP_SHARE)


def _check_true_gradients(
    report: Report,
    run_check: Callable[[], Report],
    f: Callable[..., Any],
    values: list[Any],
    labels: Sequence[str],
) -> Report:
    """Return the check of the true gradients, where something changes them on purpose.

    The report itself where nothing does: no `workbench.overrides` block around the
    check and no op like `stop_gradient`; or where only the change makes them right.
    """
    ops = make_identity_overrides(_trace_nodes(f, values))
    with suspend_overrides() as given:
        if not given and not ops:
            return report
        every = [*given, *ops]

        def gradients(rules: Sequence[Override]) -> Sequence[Any]:
            with overrides(*rules):
                return _pull_ones(f, values)

        def gradients_under(one: Override) -> Sequence[Any]:
            """Return the gradients that this change alone makes."""
            rest = [x for x in ops if x is not one]
            try:
                return gradients([*rest, one] if one in given else rest)
            except OverrideError:  # of a block around more than this function
                return true

        true = gradients(ops)
        made = (
            [(one.label, gradients_under(one)) for one in every]
            if len(every) > 1
            else []
        )
    every_label = tuple(dict.fromkeys(one.label for one in every))
    changed: dict[str, float] = {}
    changers: dict[str, tuple[str, ...]] = {}
    for i, (label, g) in enumerate(zip(labels, _pull_ones(f, values), strict=True)):
        changed[label] = relative_change(g, true[i])
        if changed[label] != 0:
            by = tuple(
                dict.fromkeys(n for n, h in made if relative_change(h[i], true[i]) != 0)
            )
            changers[label] = by or every_label
    if report.ok and not changers:
        return report
    with suspend_overrides(), overrides(*ops):
        found = run_check()
    if report.ok and not found.ok:
        return report  # the changes make a wrong rule right
    found.overridden, found.changed, found.changers = every_label, changed, changers
    return found


def _trace_nodes(f: Callable[..., Any], values: list[Any]) -> list[Tensor]:
    """Return the nodes of a function, traced at some values."""
    made = record(lambda leaves: f(*leaves), values, owns=True)
    return walk.order_nodes([y for y in made.outputs if isinstance(y, Tensor)])


def _pull_ones(f: Callable[..., Any], values: list[Any]) -> Sequence[Any]:
    """Return the gradients of the sum of all outputs of a function."""
    with np.errstate(all="ignore"):
        y, pullback = vjp(f, *values)
        leaves, structure = tree.flatten(y)
        made: Sequence[Any] = pullback(structure([np.ones_like(x) for x in leaves]))
    return made


def _has_faint_derivative(report: Report) -> bool:
    """Return whether ``atol`` may hide an error in a small derivative.

    Then its rules are checked one by one, each relative to its own size.
    """
    for row in report.comparisons:
        size = max((abs(e.numeric) for e in row.entries if e.verdict == "right"),
                   default=0.0)  # fmt: skip
        if 0 < size < 100 * max(e.tolerance for e in row.entries):
            return True
    return False


def _find_wrong_rules(
    report: Report,
    f: Callable[..., Any],
    values: list[Any],
    order: int,
    to: ProgressMeter,
) -> None:
    """Check each node of a program by itself, to find a wrong rule."""
    made = record(lambda leaves: f(*leaves), values, owns=True)
    outputs = [y for y in made.outputs if isinstance(y, Tensor)]
    nodes = walk.order_nodes(outputs)
    to.total += sum(map(is_checkable, nodes))
    check_nodes(nodes, seed=report.seed, order=order, meter=to, found=report.nodes)
    worst = report.worst
    if not report.faulty and worst is not None and not np.isfinite(worst.analytic):
        report.blamed = find_nonfinite(f, values)
    if order > 1 and not report.faulty:
        found = conventions.find_conventions(outputs, made.inputs, None)
        report.convention = conventions.tell_convention(found[0]) if found else ""


def compare_gradients(
    function: Callable[..., Any],
    values: Sequence[Any],
    gradients: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    name: str = "the output",
    rtol: float | None = None,
    atol: float | None = None,
    entries: int = 64,
    seed: int | None = None,
    progress: Progress | None = None,
    most: int | None = None,
    known: bool = False,
    budget: float | None = BUDGET,
) -> Report:
    """Compare given gradients with differences of a function's values.

    For programs that exist already: a session runs its graph on plain arrays.

    Parameters
    ----------
    function
        ``function(*values) -> number``, on plain arrays.
    values, gradients
        The point, and the given gradient by each of ``values``.
    names
        The name of each in the report.
    name
        The name of what was differentiated.
    rtol, atol, entries, seed, progress
        As for `check_grads`. An argument of more entries is checked along a random
        direction too, all entries at once.
    most
        The most entries of all arguments together, with one direction for all of
        them; by default each argument has its own.
    known
        The function takes complex numbers and has no kink where it is finite.
    budget
        The seconds that the check may take; None: no limit.

    Returns
    -------
    The `Report`, with or without errors; ``report.raise_if_wrong()`` raises.

    Examples
    --------
    >>> x = np.array([1.0, 2.0])
    >>> report = compare_gradients(lambda x: np.sum(x**2), [x], [3 * x], names=["x"])
    >>> report.ok, report.worst.place, report.worst.analytic
    (False, 'x[1]', 6.0)
    """
    seed = draw_seed() if seed is None else seed
    labels = [f"arg{i}" for i in range(len(values))] if names is None else list(names)
    meter = ProgressMeter(progress, budget=budget)
    check = Check(
        Report(name, seed), labels, ("given",), Tolerance(rtol, atol), entries, meter
    )
    arrays = [np.asarray(x) for x in values]
    with meter:
        GivenGradients(check, function, arrays, gradients, most=most, known=known).run()
    check.report.end(meter)
    return check.report


def draw_seed() -> int:
    """Return a random seed."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def _describe_function(f: Callable[..., Any]) -> str:
    """Return a function's name and line, for messages."""
    name = getattr(f, "__name__", type(f).__name__)
    whole = inspect.unwrap(f)
    site = sites.decode(getattr(whole, "__code__", None), 0)
    # What Workbench made of a model has no line of the user's.
    own = str(getattr(whole, "__module__", "")).startswith("workbench.")
    return str(name) if site is None or own else f"{name} ({site.place})"
