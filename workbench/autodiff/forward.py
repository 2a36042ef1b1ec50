"""Forward mode: tangents walk along a recorded program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.batch import BatchTensor
from workbench.autodiff.roots import Roots, RootTangent, find_roots
from workbench.autodiff.steps import (
    Rule,
    Rules,
    defer_push,
    drop_cut_parts,
    ends_of,
    inner_rules,
    outer_steps,
    outputs_of,
    plan_steps,
)
from workbench.autodiff.versions import Tangents
from workbench.core import blame, dims, hooks, types
from workbench.core.deferred import LengthParams, measure_lengths
from workbench.core.graph import Graph, copy_onto
from workbench.core.memory import Version
from workbench.core.op import Op
from workbench.core.tensor import (
    BATCHES,
    Tensor,
    array_of,
    make_leaf,
    next_serial,
    value_of,
)
from workbench.core.traces import OpenTrace
from workbench.core.types import Array, PullRule, PushRule
from workbench.errors import UnknownLengthError
from workbench.ops import define, gradients
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.indexing import GETITEM


def push_forward(
    outputs: Sequence[Any],
    wrt: Sequence[Tensor],
    tangents: Sequence[Any],
    *,
    rules: Rules = None,
    record: bool = False,
    constant: Collection[int] = (),
    only: Mapping[int, Tensor] | None = None,
    nulls_pass: bool = False,
    spelled: bool = False,
    by_roots: bool = True,
) -> list[Any]:
    """Return the tangents of ``outputs``, None for one that does not depend on ``wrt``.

    Parameters
    ----------
    outputs, wrt
        Tensors of one recorded program.
    tangents
        One per ``wrt`` Tensor, in its shape; None for zero.
    rules
        Rules that stand in for those of the ops, by the serial of the node.
    record
        Record every rule, so that the tangents are a graph.
    constant
        Serials of Tensors that are held constant: they do not move.
    only
        The nodes of a part of the program, by serial: all others are constant. They
        are recorded all, or none.
    nulls_pass
        Return tangents that cannot be computed, in the place of an error.
    spelled
        Write the 0 of a constant in sums and differences, as a textbook does.
    by_roots
        Tell the tangents of lengths by their squares, as `roots.py` does.
    """
    rules = drop_cut_parts(rules, wrt, constant) if rules else {}
    found: list[Tensor] = []
    steps = plan_steps(outputs, wrt, rules, constant, "push", only, found)
    outer = set() if record or only is not None else outer_steps(outputs, steps, wrt)
    roots = None
    if found and by_roots:
        roots = find_roots(found, steps, outputs, rules, "push", record, outer)
    moving = {x.serial: t for x, t in zip(wrt, tangents, strict=True) if t is not None}
    versions = Tangents(steps, outputs, wrt, moving)
    sweep = _Sweep(outputs, rules, roots, versions, moving, constant)
    if not (versions.last or BATCHES.isdisjoint(map(type, moving.values()))):
        sweep.find_last_readers(steps)
    try:
        for node, mask in steps:
            incoming = sweep.take(node, mask)
            if all(t is None for t in incoming):
                continue
            if roots is not None and node not in roots:
                incoming = tuple(map(roots.make_plain, incoming))
            if spelled and node.op.elementwise and node.op.traits.sums:
                incoming = tuple([0 if t is None else t for t in incoming])
            before = next_serial()
            recorded = record or node.serial in outer
            t = sweep.push(node, incoming, recorded)
            if t is not None:
                sweep.move(node, t, before if recorded else None)
    except Exception as error:
        if roots is not None and reverse.needs_length(node, error, False):
            return push_forward(
                outputs, wrt, tangents, rules=rules, record=record, constant=constant,
                only=only, nulls_pass=nulls_pass, spelled=spelled, by_roots=False,
            )  # fmt: skip
        blame.note_derivative(error, node)
        raise
    finally:
        versions.close()
    moved = [moving.get(x.serial) if isinstance(x, Tensor) else None for x in outputs]
    if roots is not None:
        moved = list(map(roots.make_plain, moved))
    for node, incoming in sweep.closing:
        _add_limit(node, incoming, outputs, moved, record)
    if gradients.MADE and not nulls_pass:
        reverse.refuse_nulls(moved, outputs, "of")
    return moved


class _Sweep:
    """One sweep forward: the tangents that move, by serial, and how a step is taken."""

    def __init__(
        self,
        outputs: Sequence[Any],
        rules: Mapping[int, Rule],
        roots: Roots | None,
        versions: Tangents,
        moving: dict[int, Any],
        constant: Collection[int],
    ) -> None:
        self.outputs, self.rules, self.constant = outputs, rules, constant
        self.roots, self.versions, self.moving = roots, versions, moving
        #: Nodes of which the limit is added in the end, with what has arrived there.
        self.closing: list[tuple[Tensor, tuple[Any, ...]]] = []
        #: After which node a tangent is let go, by serials; none, where all are kept.
        self.last: dict[int, int] = {}

    def find_last_readers(self, steps: Sequence[tuple[Tensor, int]]) -> None:
        """Let go each tangent after its last reader, as those of a batch are large."""
        for node, _ in steps:
            for x in node.inputs:
                if isinstance(x, Tensor):
                    self.last[x.serial] = node.serial
        for y in self.outputs:
            self.last.pop(getattr(y, "serial", -1), None)

    def take(self, node: Tensor, mask: int) -> tuple[Any, ...]:
        """Return the tangents that arrive at a node, None for what rests."""
        inputs = node.inputs
        if type(node.params) is LengthParams:
            inputs = node.operands
        varying = [x if mask >> i & 1 else None for i, x in enumerate(inputs)]
        get, last = self.moving.get, self.last
        incoming = tuple([None if x is None else get(x.serial) for x in varying])
        for x in varying if last else ():
            if x is not None and last.get(x.serial) == node.serial:
                self.moving.pop(x.serial, None)
        return incoming

    def push(self, node: Tensor, incoming: tuple[Any, ...], recorded: bool) -> Any:
        """Return the tangents of a node by the rule in force; None if it rests."""
        op, rules, versions = node.op, self.rules, self.versions
        push: Any = op.push or push_of(op)
        inside: tuple[Rules, ...] = ()
        if rules:
            push, inside = choose_push(node, rules.get(node.serial), rules)
        if push is None:
            return None
        if op.limit is not None and _is_closed(node, self.outputs, rules):
            push = partial(op.limit.push, None)
            self.closing.append((node, incoming))
        is_true = push is op.push
        if self.roots is not None and node in self.roots:
            return self.roots.push(incoming, node)
        if recorded:
            if versions.last and (type(node) is Version or op is GETITEM):
                if is_true and self.roots is None:
                    t = versions.record(incoming, node)
                    if t is not None:
                        return t
            return record_push(push, incoming, node, *inside)
        args, is_version = node.args, type(node) is Version and is_true
        y = args[0] if is_version else node._value
        if is_version:
            t = versions.push(incoming, node)
            if t is not None:
                return t
        if not is_true and any(type(x) is Version for x in node.inputs):
            args = tuple(map(value_of, node.inputs))
        params = node.params
        if type(params) is LengthParams:
            args, params = measure_lengths(args, params)
        return push(incoming, y, args, params, *inside)

    def move(self, node: Tensor, t: Any, before: int | None) -> None:
        """Let the ends of a step move by what its rule has returned.

        ``before`` is the serial before the rule ran, if that was recorded.
        """
        if self.versions.last and type(t) is np.ndarray:
            t = self.versions.unshare(t, node)
        ends, moving = ends_of(node), self.moving
        for x, tangent in zip(ends, (t,) if len(ends) == 1 else t, strict=True):
            if x.serial in self.constant:
                continue  # one of several outputs of a part
            if type(x) is not Version:  # whose value would be computed again
                is_array = type(tangent) is np.ndarray or type(tangent) is BatchTensor
                if not is_array or (tangent.shape, tangent.dtype) != (x.shape, x.dtype):
                    tangent = fit_tangent(tangent, x)
            if before is not None:
                rule = self.rules.get(node.serial)
                text = None if self.roots is None else self.roots.name_rule(node)
                reverse.mark_origin(
                    [tangent], before, ends[-1], rule and rule.push and rule, text
                )
            # A node that is in `wrt` itself moves on its own too.
            old = moving.get(x.serial)
            if old is not None and type(tangent) is RootTangent:
                moving[x.serial] = tangent.move(old)
            else:
                moving[x.serial] = tangent if old is None else old + tangent


def _is_closed(node: Tensor, outputs: Sequence[Any], rules: Rules) -> bool:
    """Return whether the tangents of outputs need the limit of a node."""
    return (
        not rules
        and define.has_limit(node)
        and not any(map(define.is_tuple_tensor, outputs))
    )


def _add_limit(
    node: Tensor,
    incoming: tuple[Any, ...],
    outputs: Sequence[Any],
    moved: list[Any],
    record: bool,
) -> None:
    """Add the contribution of a node's equal values to the tangents of outputs."""
    places = [k for k, t in enumerate(moved) if t is not None]
    before = next_serial()
    made = hooks.push_limit(node, incoming, [outputs[k] for k in places], record)
    for i, k in enumerate(places):
        moved[k] = moved[k] + (np.nan if made is None else made[i])
        if record:
            reverse.mark_origin([moved[k]], before, node)


def choose_push(
    node: Tensor, rule: Rule | None, rules: Rules
) -> tuple[Any, tuple[Rules, ...]]:
    """Return the rule in force at a node, and its additional arguments.

    ``rule`` stands in for that of the op, if it has one for forward mode.
    """
    if rule is not None and rule.push is not None:
        return rule.push, (rules,)
    return push_of(node.op), inner_rules(node.op, rules)


def record_push(
    push: PushRule, incoming: tuple[Any, ...], node: Tensor, *inside: Any
) -> Any:
    """Return a rule's tangents; a node runs the rule later if a length is unknown."""
    inputs, params = node.inputs, node.params
    if type(params) is LengthParams:
        inputs, params = measure_lengths(inputs, params)
    try:
        return push(incoming, outputs_of(node), inputs, params, *inside)
    except (UnknownLengthError, ValueError, TypeError, IndexError) as error:
        if not reverse.needs_length(node, error, bool(inside)):
            raise
        return defer_push(node, incoming, push, inside)


def push_of(op: Op) -> PushRule | None:
    """Return the forward rule of an op: its own, else its reverse rule transposed."""
    if op.push is not None or op.pull is None:
        return op.push
    return transpose_rule(op.pull)


def transpose_rule(pull: PullRule) -> PushRule:
    """Return the forward rule that is the transpose of a reverse rule, linear in ``g``.

    ``<push(t), g> = <t, pull(g)>`` for all ``g`` (the double-vjp of Townsend).
    """

    def push(
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
    ) -> Any:
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        many = isinstance(y, tuple)
        parts = y if many else (y,)
        with OpenTrace() as opened:
            # The rule does not depend on g otherwise than linearly: any g serves.
            seeds = list(map(make_seed, parts))
            opened.leaves.update(s.serial for s in seeds)
            passed = pull(mask, tuple(seeds) if many else seeds[0], y, inputs, params)
        for c, t in zip(passed, tangents, strict=False) if gradients.MADE else ():
            for found in map(gradients.find_null, define.flatten_parts([c])):
                if t is not None and found is not None:
                    refused = [gradients.copy_null(part, found) for part in parts]
                    return tuple(refused) if many else refused[0]
        chosen = [
            pair
            for c, t in zip(passed, tangents, strict=False)
            for pair in (
                zip(c, t, strict=True) if isinstance(c, tuple) and t else [(c, t)]
            )
            if pair[0] is not None and pair[1] is not None
        ]
        moved = reverse.pull_back([c for c, _ in chosen], [t for _, t in chosen], seeds)
        moved = _replace_seeds(moved, seeds, parts)
        filled = [
            # Not like the seeds: those without values are no part of the program.
            np.zeros_like(array_of(part)) if m is None else m
            for part, m in zip(parts, moved, strict=True)
        ]
        return tuple(filled) if many else filled[0]

    return push


def _replace_seeds(
    moved: Sequence[Any], seeds: Sequence[Tensor], parts: Sequence[Any]
) -> list[Any]:
    """Return the tangents with zeros for the seeds, where they are still read.

    That a rule is linear in ``g`` may rest on what its numbers are: `eigh` looks at
    them to find the entries that cannot be told. A seed without value has none.
    """
    open_seeds = [s for s in seeds if s._value is None]
    graph = Graph(open_seeds, [m for m in moved if isinstance(m, Tensor)])
    if not open_seeds or not any(graph.reads):
        return list(moved)
    zeros = {
        s: np.zeros_like(x)
        for s, x in zip(seeds, parts, strict=True)
        if s._value is None
    }
    copied = iter(copy_onto(graph, zeros).outputs)
    return [next(copied) if isinstance(m, Tensor) else m for m in moved]


def make_seed(x: Tensor, fill: int = 0) -> Tensor:
    """Return a leaf in the shape of a value; without value for a Tensor of none.

    All its entries are ``fill``, which linear rules do not look at.
    """
    if not isinstance(x, Tensor) or x._value is not None:
        return make_leaf(np.full_like(array_of(x), fill))
    made = make_leaf(None)
    made.spec = x.spec
    return made


def fit_tangent(t: Any, primal: Array) -> Any:
    """Return a tangent in the shape and dtype of its primal, a Tensor or an array."""
    if type(t) is RootTangent:
        return t.map_parts(lambda part: fit_tangent(part, primal))
    if isinstance(t, tuple):
        return t  # one per output, each fitted when it is taken out
    value = array_of(primal)
    if type(t) is np.ndarray is type(value):
        if t.shape == value.shape and t.dtype is value.dtype:
            return t
    shape = shape_of(value)
    if types.is_weak(t):
        t = np.full_like(value, t)
    if not dims.is_same_shape(shape_of(t), shape):
        t = np.broadcast_to(t, shape)
    want = dtype_of(value)
    if t.dtype != want and not (types.is_weak(value) and t.dtype.kind == want.kind):
        if t.dtype.kind == "c" and want.kind != "c":
            t = np.real(t)
        t = t.astype(want)
    return t
