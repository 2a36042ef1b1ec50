"""Reverse mode: cotangents walk back through a recorded program.

The walk runs rules on plain arrays unless a Tensor of an outer open trace takes
part, or the caller asks for the gradient as a graph; then the rules, which are
plain NumPy, record themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.batch import UnrecordedError
from workbench.autodiff.roots import RootCotangent, Roots, find_roots
from workbench.autodiff.steps import (
    Part,
    Rule,
    Rules,
    defer_pull,
    drop_cut_parts,
    ends_of,
    inner_rules,
    outer_steps,
    outputs_of,
    plan_steps,
)
from workbench.autodiff.versions import Totals, pull_version
from workbench.core import (
    blame,
    dims,
    hooks,
    residuals,
    traces,
    types,
    walk,
)
from workbench.core.deferred import LengthParams, measure_lengths
from workbench.core.dims import Dim
from workbench.core.memory import Version, read_args
from workbench.core.op import SINGULAR
from workbench.core.residuals import LEAN, is_private
from workbench.core.tensor import (
    BATCHES,
    IDENTITY,
    MaskedTensor,
    Tensor,
    array_of,
    mask_cotangent,
    next_serial,
)
from workbench.core.trace import detach
from workbench.core.types import Array, PullRule
from workbench.errors import ShapeError, UnknownLengthError, WorkbenchError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of, sum_to
from workbench.ops.indexing import GETITEM, Scattered


class Origin(NamedTuple):
    """Where a Tensor of a gradient graph comes from."""

    #: The forward Tensor whose rule made it.
    forward: Tensor
    #: The text of the rule, or the name of the override.
    rule: str
    #: Whether an override made it.
    overridden: bool
    #: What it was asked for as a derivative of; only at results.
    of: tuple[Tensor, ...] = ()


#: Watches a sweep: it is given the node of a step, its cotangent, and what the rule
#: passed on, one per input, fitted to its shape.
Visit = Callable[[Tensor, Any, list[Any]], None]


@dataclass
class Earlier:
    """The results of an earlier sweep of the same program.

    A sweep that is given it runs again only the steps that a change of rules reaches.
    What it finds is that of a whole sweep, bit for bit, as all that is summed is
    summed in the same order.

    Attributes
    ----------
    find
        Gives the cotangent of a node by its serial, as its rule was given it.
    changed
        The serials of the nodes that have other rules now, or other rules inside.
    affected
        The serials of the nodes whose cotangents may differ, after the new sweep; None
        if it was a whole one.
    """

    find: Callable[[int], Any]
    changed: Collection[int]
    affected: set[int] | None = None

    def fill(self, results: list[Any], wrt: Sequence[Tensor]) -> list[Any]:
        """Return the results of the new sweep, with those that are not affected."""
        if self.affected is None:
            return results
        return [
            g if x.serial in self.affected else self.find(x.serial)
            for x, g in zip(wrt, results, strict=True)
        ]


def pull_back(
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    wrt: Sequence[Tensor],
    *,
    record: bool = False,
    rules: Rules = None,
    visit: Visit | None = None,
    constant: Collection[int] = (),
    closed: Collection[int] = frozenset(),
    only: Mapping[int, Tensor] | None = None,
    nulls_pass: bool = False,
    last: bool = False,
    steps: Sequence[tuple[Tensor, int]] | None = None,
    earlier: Earlier | None = None,
) -> list[Any]:
    """Return the cotangents of ``wrt``, None for one that the outputs do not depend on.

    Parameters
    ----------
    outputs, cotangents
        Where the walk starts, and what arrives there (None for nothing).
    wrt
        Tensors of the program, usually its leaves.
    record
        Record every rule, so that the gradient is a graph with provenance.
    rules
        Rules that stand in for those of the ops, by the serial of the node.
    visit
        Called after each step of the sweep.
    constant
        Serials of Tensors that are held constant: they pass nothing on.
    closed
        Serials of Tensors that keep what ``cotangents`` give them, or nothing:
        what their readers pass on does not arrive.
    only
        The nodes of a part of the program, by serial: all others are constant. They
        are recorded all, or none.
    nulls_pass
        Return gradients that cannot be computed (see `ops/gradients.py`), in the
        place of an error.
    last
        Nobody needs the program afterwards: empty the list of ``outputs``, so that
        values are let go as the sweep passes them.
    steps
        The steps of the walk, if they are known, as `plan_steps` gives them.
    earlier
        What an earlier sweep found, with other rules at some nodes and the same
        cotangents; none of the rules may be that of a part of the program. What does
        not change is not computed again; nor is it visited, except where it passes
        something on to what does.
    """
    rules = drop_cut_parts(rules, wrt, {*constant, *closed}) if rules else {}
    found: list[Tensor] = []
    if steps is None:
        steps = plan_steps(outputs, wrt, rules, constant, only=only, found=found)
    else:
        steps = list(steps)
        found = [x for x, _ in steps if x.op in SINGULAR]
    wrt_serials = {x.serial for x in wrt}
    arrived = _seed(outputs, cotangents)  # a call: no name here holds a node
    detached = not record
    if found and detached and any(map(_meets_limit, found)):
        # The limit is a derivative of what the walk computes.
        record, visit = True, visit and _detach_visit(visit)
    plain = record or only is not None
    outer = set() if plain else outer_steps(outputs, steps, wrt)
    roots = None
    if found:
        roots = find_roots(found, steps, outputs, rules, "pull", record, outer)
        found.clear()  # the sweep lets values go as it passes them
    if roots or (detached and record):
        residuals.restore_values(steps)
    if last:
        assert isinstance(outputs, list)
        outputs.clear()
    if earlier is not None and not (plain or outer or roots):
        steps, closed = _keep_steps(steps, arrived, earlier)
    watched = rules or visit or constant or closed or earlier is not None
    if record or outer or roots or watched:
        Sweep(
            arrived, wrt_serials, outer, record, rules, visit, constant, closed, roots
        ).run(steps)
    else:
        sweep_arrays(steps, arrived, wrt_serials)
    results = [arrived.get(x.serial) for x in wrt]
    if roots:
        results = [roots.make_dense(g, x) for g, x in zip(results, wrt, strict=True)]
    if earlier is not None:
        results = earlier.fill(results, wrt)
    if gradients.MADE and not nulls_pass:
        refuse_nulls(results, wrt)
    if not detached:
        return results
    # A rule that reads a Tensor gives a Tensor.
    return [detach(g) if isinstance(g, Tensor) else g for g in results]


def _meets_limit(node: Tensor) -> bool:
    """Return whether equal values are met (see `limits.py`), as far as is known."""
    has_value = node.op.limit is not None and node._value is not None
    return has_value and define.has_limit(node)


def _detach_visit(visit: Visit) -> Visit:
    """Return a watcher of a walk that is recorded, for one that expects arrays."""

    def watch(node: Tensor, g: Any, passed: list[Any]) -> None:
        if isinstance(g, define.Parts):
            g = define.Parts(map(detach, g))
        visit(node, detach(g), list(map(detach, passed)))

    return watch


def _keep_steps(
    steps: list[tuple[Tensor, int]], arrived: dict[int, Any], earlier: Earlier
) -> tuple[list[tuple[Tensor, int]], set[int]]:
    """Return the steps to run again after a change, and the serials that are closed.

    These steps are all that pass something on to affected nodes. Those that are not
    affected themselves start with what they had, which is put into ``arrived``.
    """
    changed = earlier.changed
    affected = earlier.affected = find_affected(steps, changed)
    kept: list[tuple[Tensor, int]] = []
    closed: set[int] = set()
    for step in steps:
        node, serial = step[0], step[0].serial
        if serial not in affected:
            if serial not in changed:
                for x in node.inputs:
                    if isinstance(x, Tensor) and x.serial in affected:
                        break
                else:
                    continue
                inputs = [x.serial for x in node.inputs if isinstance(x, Tensor)]
                closed.update([s for s in inputs if s not in affected])
            if (g := earlier.find(serial)) is not None:
                arrived[serial] = g
        kept.append(step)
    return kept, closed


def find_affected(
    steps: Sequence[tuple[Tensor, int]], changed: Collection[int]
) -> set[int]:
    """Return the serials of all nodes that the nodes with changed rules depend on."""
    affected: set[int] = set()
    for node, mask in reversed(steps):
        if node.serial in affected or node.serial in changed:
            bit = 1
            for x in node.inputs:
                if mask & bit:
                    affected.add(x.serial)
                bit += bit
    return affected


def _seed(outputs: Sequence[Any], cotangents: Sequence[Any]) -> dict[int, Any]:
    """Return the cotangents at the outputs when the walk starts, by serial."""
    arrived: dict[int, Any] = {}
    for x, g in zip(outputs, cotangents, strict=True):
        if isinstance(x, Tensor) and g is not None:
            old = arrived.get(x.serial)
            arrived[x.serial] = g if old is None else old + g
    return arrived


def sweep_arrays(
    steps: list[tuple[Tensor, int]], arrived: dict[int, Any], wrt_serials: set[int]
) -> None:
    """Walk back on plain arrays: no recording, no override, no watcher.

    This is the hot loop of eager gradients; `Sweep` is the same with everything. It
    empties the list of steps: a node that nobody else holds is gone when its turn is
    over, and with it the values that its rule alone has read.
    """
    get, pop, take = arrived.get, arrived.pop, steps.pop
    #: Sums that the sweep has made, and that indices add to in place.
    totals: dict[int, Any] = {}
    try:
        while steps:
            node, mask = take()
            serial = node.serial
            kind = type(node)
            if kind is not Tensor and (kind in LEAN or kind is Version):
                inputs = args = x = v = c = g = old = None  # they hold arrays
                if serial in arrived:
                    is_wanted = serial in wrt_serials
                    _pull_in_place(node, mask, arrived, totals, is_wanted)
                continue
            g = pop(serial, None)
            if g is None:
                continue
            if serial in wrt_serials:
                arrived[serial] = g
            op, params = node.op, node.params
            pull = op.pull
            if pull is None:
                continue
            inputs, args = node.inputs, node.args
            if op.keeps:
                c = pull(mask, g, node._value, args, params)[0]
                s = inputs[0].serial
                old = get(s)
                arrived[s] = c if old is None else old + c
                continue
            if params and type(params) is LengthParams:
                args, params = measure_lengths(args, params)
            index = 0
            for c in pull(mask, g, node._value, args, params):
                if mask & 1 and c is not None:
                    x, v = inputs[index], args[index]
                    try:
                        fits = c.shape == v.shape and c.dtype is v.dtype
                    except AttributeError:  # a Python number has neither
                        fits = type(v) is float and type(c) is np.float64
                    s = x.serial
                    if not fits:
                        if type(c) is Scattered:
                            _add_scattered(c, x, s, arrived, totals)
                            mask >>= 1
                            index += 1
                            continue
                        c = fit_cotangent(c, x, node)
                    old = get(s)
                    arrived[s] = c if old is None else old + c
                mask >>= 1
                if not mask:
                    break
                index += 1
    except Exception as error:
        blame.note_derivative(error, node)
        raise


def _pull_in_place(
    node: Tensor,
    mask: int,
    arrived: dict[int, Any],
    totals: dict[int, Any],
    keep: bool,
) -> None:
    """Pull the cotangent through a node of large arrays, or a version, in place.

    What nobody else holds is written into: a cotangent by the rule that it goes
    through last, a sum by what arrives next. Hence no name here refers to an array
    longer than it must. ``keep``: the cotangent of the node is asked for itself.
    """
    serial, op = node.serial, node.op
    held = [arrived[serial] if keep else arrived.pop(serial)]
    totals.pop(serial, None)
    if held[0] is None or op.pull is None:
        return
    own = is_private(held)
    if type(node) is Version:
        args = node.args
        passed = [*pull_version(node, mask, held.pop(), own)]
    else:
        y, args = residuals.list_residuals(node)
        pull = op.pull
        if own and op.pull_into and _are_alike(held[0], y, args):
            numbers = sum(
                1 << i for i, x in enumerate(args) if type(x) is not np.ndarray
            )
            pull = op.pull_into(mask, numbers)
        passed = [*pull(mask, held.pop(), y, args, node.params)]
        y = None
    for i, (x, value) in enumerate(zip(node.inputs, args, strict=True)):
        if mask >> i == 0 or i == len(passed):
            break
        if not mask >> i & 1 or passed[i] is None:
            continue
        part, passed[i] = [passed[i]], None
        if type(part[0]) is Scattered:
            _add_scattered(part[0], value, x.serial, arrived, totals)
            continue
        if type(part[0]) is MaskedTensor and not traces.OPEN:
            if (bare := part[0]._value) is not None:  # without what it was made from
                part, bare = [mask_cotangent(bare)], None
        if not _is_like(part[0], value):
            part = [fit_cotangent(part.pop(), value, node)]
        if part[0] is None:
            continue
        _add_cotangent(part, x.serial, arrived)
        total = arrived[x.serial] if type(node) is Version and i == 0 else None
        if type(total) is np.ndarray:
            totals[x.serial] = total
        total = None


def _are_alike(g: Any, y: Any, args: Sequence[Any]) -> bool:
    """Return whether ``y`` and all arrays are like ``g``, the others real numbers."""
    return (
        g.dtype.kind == "f"
        and _is_like(y, g)
        and all(type(x) in (float, int) or _is_like(x, g) for x in args)
    )


def _is_like(x: Any, other: Any) -> bool:
    """Return whether two are arrays of NumPy of one shape and (native) dtype."""
    return (
        type(x) is np.ndarray is type(other)
        and x.shape == other.shape
        and x.dtype is other.dtype
        and bool(x.dtype.isnative)
    )


def _add_cotangent(part: list[Any], serial: int, arrived: dict[int, Any]) -> None:
    """Add the one array of a list to its total, in place if the total is private."""
    old = [arrived.get(serial)]
    if old[0] is None:
        arrived[serial] = part.pop()
    elif not _is_like(part[0], old[0]):
        arrived[serial] = old[0] + part[0]
    elif is_private(old, others=1):
        np.add(old[0], part[0], out=old[0])
    else:
        out = part[0] if is_private(part) else None
        arrived[serial] = np.add(old[0], part[0], out=out)


def _add_scattered(
    part: Scattered, x: Any, s: int, arrived: dict[int, Any], totals: dict[int, Any]
) -> None:
    """Add the cotangent of an index to its total, in place if the total is private.

    ``x`` is the Tensor of serial ``s``, or an array like its value.
    """
    old, total = arrived.get(s), totals.get(s)
    if old is not None and old is total and total.dtype == part.g.dtype:
        part.into(total)
        return
    made = fit_cotangent(part, x)
    if made is None:
        return
    arrived[s] = made = made if old is None else made + old
    if not isinstance(made, Tensor):  # a masked one was among what had arrived
        totals[s] = made


class Sweep:
    """A sweep backwards with recorded rules, overrides, a visitor and roots.

    ``arrived`` holds the cotangents by serial; the others are those of `pull_back`.
    """

    def __init__(
        self,
        arrived: dict[int, Any],
        wrt_serials: set[int],
        outer: set[int],
        record: bool,
        rules: Mapping[int, Rule],
        visit: Visit | None,
        constant: Collection[int],
        closed: Collection[int],
        roots: Roots | None,
    ) -> None:
        self.arrived, self.wrt_serials = arrived, wrt_serials
        self.outer, self.record, self.rules = outer, record, rules
        self.visit, self.roots = visit, roots
        self.constant, self.closed = constant, closed
        self.totals: Totals | None = None

    def run(self, steps: list[tuple[Tensor, int]]) -> None:
        """Walk the steps backwards."""
        arrived, wrt_serials, constant = self.arrived, self.wrt_serials, self.constant
        if self.visit is None and self.roots is None and not (constant or self.closed):
            if any(type(node) is Version for node, _ in steps):
                self.totals = Totals()
        try:
            for node, mask in reversed(steps):
                serial = node.serial
                if constant or isinstance(node, Part):
                    ends = ends_of(node)
                    g = _gather_cotangents(ends, arrived, wrt_serials, constant)
                elif serial in wrt_serials:
                    g = arrived.get(serial)
                else:
                    g = arrived.pop(serial, None)
                if g is not None:
                    self.pull(node, mask, g)
        except Exception as error:
            blame.note_derivative(error, node)
            raise
        finally:
            if self.totals is not None:
                self.totals.close()

    def pull(self, node: Tensor, mask: int, g: Any) -> None:
        """Pull the cotangent of a node back by the rule in force, to its inputs."""
        pull: Any = node.op.pull
        inside: tuple[Rules, ...] = ()
        rule, roots = None, self.roots
        if self.rules:
            rule = self.rules.get(node.serial)
            if rule is not None or node.op.graphs is not None:
                pull, inside = choose_pull(node, rule, self.rules)
        if pull is None:
            return
        recorded = self.record or node.serial in self.outer
        before = next_serial() if recorded else 0
        args: Sequence[Any] = node.inputs if recorded else node.args
        passed: Sequence[Any] | None = None
        if roots is not None and node in roots:
            passed = pull_by_root(roots, mask, g, node)
        elif recorded:
            if self.totals is not None and rule is None:
                if type(node) is Version or node.op is GETITEM:
                    passed = self.totals.pull(
                        node, mask, g, self.arrived, self.wrt_serials
                    )
            if passed is None:
                passed = record_pull(pull, mask, g, node, *inside)
        else:
            y = args[0] if type(node) is Version and rule is None else node._value
            if rule is not None:
                args = read_args(node)  # it may read what the true one does not
            params = node.params
            if type(params) is LengthParams:
                args, params = measure_lengths(args, params)
            passed = pull(mask, g, y, args, params, *inside)
        assert passed is not None
        fitted = _fit_passed(passed, mask, node, args)
        if recorded:
            end = ends_of(node)[-1]
            text = roots.name_rule(node, g) if roots is not None else None
            mark_origin(fitted, before, end, rule and rule.pull and rule, text)
            _add_recorded(fitted, node, self.arrived, self.closed)
        else:
            _add_passed(fitted, node, self.arrived, self.closed)
        if self.visit is not None:
            if roots is not None:
                g = roots.make_dense(g, node)
                fitted = list(map(roots.make_dense, fitted, node.inputs))
            self.visit(node, g, fitted)


def _fit_passed(
    passed: Iterable[Any], mask: int, node: Tensor, args: Sequence[Any]
) -> list[Any]:
    """Return what a rule passes on, fitted to the inputs that vary; None for others."""
    fitted: list[Any] = []
    for c, x, v in zip(passed, node.inputs, args, strict=False):
        if not mask & 1:
            c = None
        # What fits as it is needs no call: this loop runs for every edge.
        elif type(c) is np.ndarray is type(v):
            if c.dtype is not v.dtype or c.shape != v.shape:
                c = fit_cotangent(c, x, node)
        elif c is not None and not (type(c) is np.float64 is type(v)):
            c = fit_cotangent(c, x, node)
        fitted.append(c)
        mask >>= 1
    return fitted


def _add_passed(
    passed: Sequence[Any],
    node: Tensor,
    arrived: dict[int, Any],
    closed: Collection[int],
) -> None:
    """Add the cotangents that a rule passes on to the totals."""
    for c, x in zip(passed, node.inputs, strict=False):
        if c is None or x.serial in closed:
            continue
        old = arrived.get(x.serial)
        if type(c) is RootCotangent:
            arrived[x.serial] = c + old
        else:
            arrived[x.serial] = c if old is None else old + c


def _add_recorded(
    passed: Sequence[Any],
    node: Tensor,
    arrived: dict[int, Any],
    closed: Collection[int],
) -> None:
    """Add the cotangents of a recorded rule to the totals, with their origin."""
    for x, c in zip(node.inputs, passed, strict=False):
        if c is None or x.serial in closed:
            continue
        old = arrived.get(x.serial)
        arrived[x.serial] = total = c if old is None else _add_pair(old, c)
        for part in total if type(total) is RootCotangent else (total,):
            if isinstance(part, Tensor) and part.origin is None:
                part.origin = Origin(x, "the sum of what its readers pass", False)


def _add_pair(old: Any, c: Any) -> Any:
    """Return the sum of two cotangents of one shape; a repeated number stays one."""
    if type(c) is RootCotangent:
        return c + old
    if type(old) is RootCotangent:
        return old + c
    a, b = (x[(0,) * x.ndim] if types.is_repeated_number(x) else x for x in (old, c))
    if a is old and b is c:
        return old + c
    return _repeat(a + b, (c if a is old else old).shape)


def _gather_cotangents(
    ends: Sequence[Tensor],
    arrived: dict[int, Any],
    wrt_serials: set[int],
    constant: Collection[int],
) -> Any:
    """Return the cotangents at a step, one for each end; None if none arrived."""
    found = [
        arrived.get(s) if s in wrt_serials else arrived.pop(s, None)
        for s in (x.serial for x in ends)
    ]
    if constant:  # one of several outputs of a part
        found = [
            None if x.serial in constant else g
            for g, x in zip(found, ends, strict=True)
        ]
    if all(g is None for g in found):
        return None
    return found[0] if len(ends) == 1 else define.Parts(found)


def choose_pull(
    node: Tensor, rule: Rule | None, rules: Rules
) -> tuple[Any, tuple[Rules, ...]]:
    """Return the rule in force at a node, and its additional arguments.

    ``rule`` stands in for that of the op, if it has one for reverse mode.
    """
    pull = None if rule is None else rule.pull
    if pull is not None:
        return pull, (rules,)
    return node.op.pull, inner_rules(node.op, rules)


def record_pull(
    pull: PullRule, mask: int, g: Any, node: Tensor, *inside: Any
) -> Sequence[Any]:
    """Return a rule's cotangents; a node runs the rule later if a length is unknown."""
    if gradients.MADE and type(g) is define.Parts:
        g = _without_nulls(mask, g, node)
    given = g
    if node.op.elementwise and pull is node.op.pull and types.is_repeated_number(g):
        given = g[(0,) * g.ndim]  # the program has a number then, not an array of it
    if node.op.limit is not None and pull is node.op.pull and define.has_limit(node, g):
        if not BATCHES.isdisjoint(map(type, g)):
            raise UnrecordedError("the limit is a derivative of what the walk computes")
        found = hooks.pull_limit(node, mask, g)
        if found is not None:
            return found
    inputs, params = node.inputs, node.params
    if type(params) is LengthParams:
        inputs, params = measure_lengths(inputs, params)
    try:
        made: Sequence[Any] = pull(
            mask, given, outputs_of(node), inputs, params, *inside
        )
        if given is not g:
            made = [None if c is None else _repeat(c, g.shape) for c in made]
    except (UnknownLengthError, ValueError, TypeError, IndexError) as error:
        if not needs_length(node, error, bool(inside)):
            raise
        made = defer_pull(node, mask, g, pull, inside)
    return made


def pull_by_root(roots: Roots, mask: int, g: Any, node: Tensor) -> Sequence[Any]:
    """Return a node's cotangents by its root, or by its op if a length is unknown.

    Where a rule needs a length it may need it for the root too.
    """
    try:
        return roots.pull(mask, g, node)
    except (UnknownLengthError, ValueError, TypeError, IndexError) as error:
        if not needs_length(node, error, False):
            raise
        dense = roots.make_dense(g, node)
        assert node.op.pull is not None  # it has a slope
        return record_pull(node.op.pull, mask, dense, node)


def _repeat(c: Any, shape: tuple[int, ...]) -> Any:
    """Return a rule's result for one number in the shape of the whole cotangent."""
    return c if shape_of(c) == shape else np.broadcast_to(c, shape)


def _without_nulls(mask: int, g: define.Parts, node: Tensor) -> define.Parts:
    """Return cotangents, less nulls of outputs on which nothing that varies depends."""
    connection = node.op.connection
    if connection is None:
        return g
    rows = connection(node.operands, node.settings)
    rows = [row for i, row in enumerate(rows) if mask >> i & 1]
    return define.Parts(
        None if null is not None and not any(row[j] for row in rows) else c
        for j, (c, null) in enumerate(zip(g, gradients.find_nulls(g), strict=True))
    )


def needs_length(node: Tensor, error: Exception, ruled: bool) -> bool:
    """Return whether a rule failed because a length is not known yet.

    If it is ``ruled`` by overrides, what else fails is a fault of their rules.
    """
    if isinstance(error, UnknownLengthError) or ruled:
        return isinstance(error, UnknownLengthError)
    if isinstance(error, WorkbenchError) and not isinstance(error, ShapeError):
        return False
    shapes = [x.shape for x in node.inputs if hasattr(x, "shape")]
    return node._value is None and dims.has_dim(shapes)


def refuse_nulls(
    derivatives: Sequence[Any], sources: Sequence[Any], word: str = "by"
) -> None:
    """Raise an error if a derivative holds one that cannot be computed."""
    parts = [define.flatten_parts([g]) for g in derivatives]
    whose = [x for x, some in zip(sources, parts, strict=True) for _ in some]
    flat = [part for some in parts for part in some]
    for found, x in zip(gradients.find_nulls(flat), whose, strict=True):
        if found is not None:
            raise gradients.null_error(
                found, f"the derivative {word} {blame.describe(x)}"
            )


def fit_cotangent(c: Any, x: Array, node: Tensor | None = None) -> Any:
    """Return a cotangent in the shape and dtype of its Tensor or array.

    What was broadcast is summed back; complex becomes real for a real ``x``; None
    for integers, which do not vary.

    Raises
    ------
    ShapeError
        If the shape is no broadcast of that of ``x``.
    """
    if type(c) is np.ndarray is type(x) and c.dtype is x.dtype and c.shape == x.shape:
        return c  # as nearly all do
    if type(c) is RootCotangent:
        return c.map_parts(lambda part: fit_cotangent(part, x, node))
    if isinstance(c, define.Parts):
        return c  # each was fitted to the output that it belongs to
    if type(c) is Scattered:
        c = c.dense()
    shape = shape_of(x)
    if types.is_weak(c):
        c = np.full_like(array_of(x), c)
    have = shape_of(c)
    if not dims.is_same_shape(have, shape):
        if node is not None and not (node.op.elementwise or node.op.custom):
            if _must_be_equal(node, c, have, shape):
                return _state_lengths(c, x)
        if len(have) < len(shape) or any(
            not isinstance(n, Dim) and not isinstance(h, Dim) and n not in (1, h)
            for h, n in zip(have[len(have) - len(shape) :], shape, strict=True)
        ):
            where = "" if node is None else f" of {blame.describe(node)}"
            line = "" if node is None else blame.quote_site(node.site)
            raise ShapeError(
                f"the gradient rule{where}{line} returned shape {have} for an input of"
                f" shape {shape}. Return one gradient per input, each in the shape of"
                " that input (a broadcast of it is summed back)."
            )
        c = sum_to(c, shape)
    want = x.dtype if hasattr(x, "dtype") else np.result_type(type(x))
    if c.dtype == want or (types.is_weak(array_of(x)) and c.dtype.kind == want.kind):
        return c
    if c.dtype.kind == "c" and want.kind != "c":
        c = np.real(c)
    if not types.is_differentiable(want):
        return None  # what has been rounded to integers does not vary
    return c.astype(want) if c.dtype != want else c


def _must_be_equal(
    node: Tensor, c: object, have: tuple[Any, ...], shape: tuple[Any, ...]
) -> bool:
    """Return whether a rule's cotangent has the shape of its primal where the op runs.

    ``A @ x`` of two symbols needs two of their lengths to be one, which NumPy checks
    when the program runs. Not asked of ops that broadcast operands, or of a user's.
    """
    return len(have) == len(shape) and not any(
        (n == 1 or type(h) is int)
        if type(n) is int
        else dims.may_be_broadcast(h, (node, c))
        for h, n in zip(have, shape, strict=True)
        if not dims.is_same_shape((h,), (n,))
    )


def _state_lengths(c: Any, x: Any) -> Array:
    """Return a cotangent with the lengths of its primal, as the op of both asks."""
    if c._value is None and c.op is not IDENTITY:
        c.spec = types.Spec(x.shape, c.spec.dtype)
    return (
        fit_cotangent(c, x)
        if dims.is_same_shape(c.shape, x.shape)
        else sum_to(c, x.shape)
    )


def mark_origin(
    passed: Sequence[Any],
    before: int,
    node: Tensor,
    rule: Rule | None = None,
    text: str | None = None,
) -> None:
    """Write down the provenance of all Tensors that a rule has just made.

    ``rule`` is the one that stood in for the op's own, or None; ``text`` what another
    rule of the op says.
    """
    roots = [
        c
        for c in define.flatten_parts(passed)
        if isinstance(c, Tensor) and c.serial > before
    ]
    if roots:
        text = (text or node.op.rule) if rule is None else rule.label
        origin = Origin(node, text, rule is not None)
        for made in walk.order_nodes(roots, before):
            if made.origin is None:
                made.origin = origin
