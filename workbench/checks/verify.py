"""Gradient checks: reverse mode, forward mode and differences must agree.

The truth is the function's own values on plain arrays (`differences.py`); none
of our rules takes part in it. What was compared comes back as a `Report`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import vjp
from workbench.checks.check_rule import halved
from workbench.checks.differences import NOISES, Tolerance, slope
from workbench.checks.nodes import check_nodes, checkable
from workbench.checks.progress import Progress, Telling
from workbench.checks.report import Comparison, Identity, Report, passing
from workbench.checks.running import Check, from_host, unfinite
from workbench.core import source, tree, walk
from workbench.core.arguments import check_arguments
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import ArgumentNames, check_function, is_float, record
from workbench.errors import OverrideError, UsageError
from workbench.overrides.override import Override
from workbench.overrides.override_blocks import aside, overrides

# Gradients that somebody has, held against differences of a function that runs.
#
# Entries one by one, as far as the work allows; and all that is left along a random
# direction: of each argument, or of all together where there are many. Where that is
# off, halving the set of arguments finds one that is.

Array = np.ndarray[Any, Any]

#: Directions of many arguments together; along one an error may be near 0 by chance.
DIRECTIONS = 2


class Given:
    """Gradients by several arguments, and what they are held against.

    Attributes
    ----------
    check
        Chooses, counts, and keeps what was found.
    known
        The function carries complex numbers and has no kink.
    noise
        What rounding does to the gradient by each argument, at most.
    most
        How many entries all arguments have together; None: each has its own share.
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
        self.wide = [
            x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x
            for x in self.arrays
        ]
        self.picked = [check.picked(x) for x in self.arrays]
        full = most is None or sum(map(len, self.picked)) <= most
        if not full:
            self.share(most or 0)
        rest = [i for i, x in enumerate(self.arrays) if len(self.picked[i]) < x.size]
        #: The arguments of each direction.
        self.groups = [[i] for i in rest] if full else [rest] * DIRECTIONS
        check.telling.total += len(self.groups) + sum(map(len, self.picked))

    def share(self, most: int) -> None:
        """Leave ``most`` entries in all: one of each argument, then another."""
        rng = self.check.rng
        turns = [rng.permutation(k) for k in self.picked]
        order = rng.permutation(len(turns))
        deepest = max(map(len, turns))
        dealt = [(i, t) for t in range(deepest) for i in order if t < len(turns[i])]
        counts = np.bincount([i for i, _ in dealt[:most]], minlength=len(turns))
        self.picked = [np.sort(k[:n]) for k, n in zip(turns, counts, strict=True)]

    def run(self) -> None:
        """Compare."""
        off: list[int] = []
        for group in self.groups:
            self.check.telling.step()
            if group != off and not self.together(group):
                off = group
        for i in range(len(self.arrays)):
            self.entries(i)

    def flat(self, *new: Array) -> Array:
        """Return the function's one number, as an array of one entry."""
        return np.reshape(np.asarray(self.function(*new)), (-1,))

    def entries(self, which: int) -> None:
        """Some entries of one argument, each by itself."""
        check, x = self.check, self.arrays[which]
        row = Comparison(check.names[which], x.shape, 1, "given")
        check.report.comparisons.append(row)
        for k in self.picked[which]:
            check.telling.step()
            found = check.measure(self.flat, self.arrays, which, k, self.known)
            truth = check.truth(
                self.flat, self.arrays, which, k, found, np.ones(1), True
            )
            got = self.gradients[which].flat[k]
            noise = self.noise[which]
            row.entries.append(check.entry(row, k, got, truth, noise))

    def together(self, group: list[int]) -> bool:
        """Whether all entries of some arguments agree along a random direction."""
        check = self.check
        ways: dict[int, Any] = {}
        for i in group:
            x = self.arrays[i]
            ways[i] = np.asarray(check.random_like(x)) * np.where(x != 0, np.abs(x), 1)
        said = self.along(ways)
        if said is not None and not said.holds and len(group) > 1:

            def off(chosen: Array) -> float:
                check.telling.total += 1
                check.telling.step()
                part = self.along(
                    {group[k]: ways[group[k]] for k in np.nonzero(chosen)[0]}
                )
                return 0.0 if part is None else part.error / part.tolerance

            i = group[halved(len(group), off, check.rng)]
            alone = self.along({i: ways[i]})
            said = said if alone is None or alone.holds else alone
        if said is None:
            return True
        check.report.identities.append(said)
        return said.holds

    def along(self, ways: dict[int, Any]) -> Identity | None:
        """One direction: what the gradients say of it, and what the function does."""

        def line(t: complex) -> Array:
            moved = [
                x + t * ways[i] if i in ways else x for i, x in enumerate(self.wide)
            ]
            return self.flat(*moved)

        real = all(self.arrays[i].dtype.kind != "c" for i in ways)
        found = slope(line, analytic=real, known=self.known, target=1e-9)
        if found.kink[0] or not np.isfinite(found.value[0] + found.error[0]):
            return None
        expected = float(np.real(found.value[0]))
        got = most = 0.0
        for i, way in ways.items():
            gradient = self.gradients[i]
            terms = (gradient * way).real
            got += float(np.sum(terms))
            kind: Any = gradient.dtype if gradient.dtype.kind in "fc" else float
            most = max(most, self.check.tolerance(expected, 0.0, kind))
            most += NOISES * self.noise[i] * float(np.sum(np.abs(way)))
            most += 4e3 * float(np.finfo(kind).eps * np.sum(np.abs(terms)))
        names = [self.check.names[i] for i in ways]
        what = names[0] if len(names) == 1 else f"{names[0]}, ... {names[-1]}"
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
        What an entry may be off by; by default 1e-6 relative in double precision,
        2e-3 in single, and what the differences themselves are uncertain by.
    entries
        At most so many entries of each argument, chosen at random.
    seed
        Repeats that choice; the report names it.
    progress
        Called with (done, all) before each entry; true stops the check, and so does
        an interrupt: the report then holds what was checked.

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
    check_function(f, "check_grads")
    if not isinstance(order, int):
        raise UsageError(
            f"check_grads: order={order!r} is no number: the arguments of"
            " the function stand in one tuple. Write wb.check_grads(f, (x, y))."
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

    seed = fresh_seed() if seed is None else seed
    function, values = from_host(on_leaves, [flat[i] for i in chosen])
    labels = [names[i] for i in range(len(chosen))]

    def looked() -> Report:
        telling = Telling(progress)
        check = Check(
            Report(_describe(f), seed),
            labels,
            tuple(modes),
            Tolerance(rtol, atol),
            entries,
            telling,
        )
        # What is not finite is told once, by the report.
        with telling, np.errstate(all="ignore"):
            check.run(function, values, order)
            if not check.report.ok or (atol is None and _faint(check.report)):
                _blame(check.report, function, values, order, telling)
        check.report.stopped = telling.stopped
        return check.report

    report = looked()
    if not report.stopped:
        report = _without(report, looked, function, values, labels)
    return report.raise_if_wrong()


def _without(
    report: Report,
    looked: Callable[[], Report],
    f: Callable[..., Any],
    values: list[Any],
    labels: Sequence[str],
) -> Report:
    """Return the check of the true gradients, where something changes them on purpose.

    The report itself where nothing does, no `workbench.overrides` block around the
    check and no op that is there for it, or where it is that which makes them right.
    """
    ops = passing(_program(f, values))
    with aside() as given:
        if not given and not ops:
            return report
        every = [*given, *ops]

        def gradients(rules: Sequence[Override]) -> Sequence[Any]:
            with overrides(*rules):
                return _gradients(f, values)

        def alone(one: Override) -> Sequence[Any]:
            """Return the gradients with nothing but this one to change them."""
            rest = [x for x in ops if x is not one]
            try:
                return gradients([*rest, one] if one in given else rest)
            except OverrideError:  # of a block around more than this function
                return true

        true = gradients(ops)
        made = [(one.label, alone(one)) for one in every] if len(every) > 1 else []
    every_label = tuple(dict.fromkeys(one.label for one in every))
    changed: dict[str, float] = {}
    changers: dict[str, tuple[str, ...]] = {}
    for i, (label, g) in enumerate(zip(labels, _gradients(f, values), strict=True)):
        changed[label] = _change(g, true[i])
        if changed[label] != 0:
            by = tuple(dict.fromkeys(n for n, h in made if _change(h[i], true[i]) != 0))
            changers[label] = by or every_label
    if report.ok and not changers:
        return report
    with aside(), overrides(*ops):
        found = looked()
    if report.ok and not found.ok:
        return report  # what is there to change it mends it
    found.overridden, found.changed, found.changers = every_label, changed, changers
    return found


def _change(g: Any, true: Any) -> float:
    """Return how far a gradient is from the true one, relatively to it."""
    off, size = np.linalg.norm(np.ravel(g) - np.ravel(true)), np.linalg.norm(true)
    return float(off / size) if size else float(off and np.inf)


def _program(f: Callable[..., Any], values: list[Any]) -> list[Tensor]:
    """Return the nodes of a function, at some values."""
    made = record(lambda leaves: f(*leaves), values)
    return walk.order([y for y in made.outputs if isinstance(y, Tensor)])


def _gradients(f: Callable[..., Any], values: list[Any]) -> Sequence[Any]:
    """Return the gradients of the sum of all that a function gives."""
    with np.errstate(all="ignore"):
        y, pullback = vjp(f, *values)
        leaves, structure = tree.flatten(y)
        made: Sequence[Any] = pullback(structure([np.ones_like(x) for x in leaves]))
    return made


def _faint(report: Report) -> bool:
    """Whether a derivative is so small that ``atol`` hides what is wrong with it.

    Rules are held to their own size.
    """
    for row in report.comparisons:
        size = max((abs(e.numeric) for e in row.entries if e.verdict == "right"),
                   default=0.0)  # fmt: skip
        if 0 < size < 100 * max(e.tolerance for e in row.entries):
            return True
    return False


def _blame(
    report: Report, f: Callable[..., Any], values: list[Any], order: int, to: Telling
) -> None:
    """Check each node of a program by itself, so that a rule that is wrong is found."""
    nodes = _program(f, values)
    to.total += sum(map(checkable, nodes))
    check_nodes(
        nodes, seed=report.seed, order=order, step=to.step, found=report.nodes
    )  # fmt: skip
    worst = report.worst
    if not report.faulty and worst is not None and not np.isfinite(worst.analytic):
        report.blamed = unfinite(f, values)


def check_graph(
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
) -> Report:
    """Compare gradients that somebody has with differences of a function's values.

    For programs that exist already: a session runs its graph on plain arrays.

    Parameters
    ----------
    function
        ``function(*values) -> number``, on plain arrays.
    values, gradients
        Where, and what the gradient by each of ``values`` is said to be.
    names
        How the report calls each of them.
    name
        How it calls what was differentiated.
    rtol, atol, entries, seed, progress
        As for `check_grads`. An argument of more entries is checked along a random
        direction too, all entries at once.
    most
        So many entries of all arguments together at most, and then one direction for
        all of them; by default each argument has its own.
    known
        The function carries complex numbers and has no kink where it is finite.

    Returns
    -------
    The `Report`, be it good or bad; ``report.raise_if_wrong()`` raises.

    Examples
    --------
    >>> x = np.array([1.0, 2.0])
    >>> report = check_graph(lambda x: np.sum(x**2), [x], [3 * x], names=["x"])
    >>> report.ok, report.worst.place, report.worst.analytic
    (False, 'x[1]', 6.0)
    """
    seed = fresh_seed() if seed is None else seed
    labels = [f"arg{i}" for i in range(len(values))] if names is None else list(names)
    telling = Telling(progress)
    check = Check(
        Report(name, seed), labels, ("given",), Tolerance(rtol, atol), entries, telling
    )
    arrays = [np.asarray(x) for x in values]
    with telling:
        Given(check, function, arrays, gradients, most=most, known=known).run()
    check.report.stopped = telling.stopped
    return check.report


def fresh_seed() -> int:
    """Return a seed that nobody has asked for."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def _describe(f: Callable[..., Any]) -> str:
    """Return a function's name and line, for messages."""
    name = getattr(f, "__name__", type(f).__name__)
    site = source.decode(getattr(inspect.unwrap(f), "__code__", None), 0)
    return str(name) if site is None else f"{name} ({site.place})"
