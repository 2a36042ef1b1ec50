"""A graph becomes a straight line, and the line runs: the interpreter of programs.

Values live in numbered slots; a slot is used again after the last step that reads its
value, so a program of a million steps holds only what is alive. Every backend starts
from a `Schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np

from workbench.core import blame, source, traces, walk
from workbench.core.deferred import LengthParams, bind_settings, compute_op
from workbench.core.op import Op
from workbench.core.residuals import is_private
from workbench.core.tensor import (
    MaskedTensor,
    Tensor,
    apply,
    mask_cotangent,
    next_serial,
)
from workbench.errors import ShapeError, UsageError

#: Sees each step of a run in the place of the interpreter: it is given the node and the
#: operands, and returns the result, by `compute_node` or otherwise.
Observer = Callable[[Tensor, tuple[Any, ...]], Any]

#: compute, how to take several operands (None: one), the one operand, the
#: result's slot, the slots to forget.
Instruction = tuple[
    Callable[..., Any],
    Callable[[list[Any]], tuple[Any, ...]] | None,
    int,
    int,
    tuple[int, ...],
]


class Step(NamedTuple):
    """One op: read slots, compute, write a slot, forget slots."""

    node: Tensor
    reads: tuple[int, ...]
    writes: int
    #: Slots whose values are dead after this step and are not written by it.
    forgets: tuple[int, ...]


class Schedule:
    """A graph in the order of its computation, which runs.

    Attributes
    ----------
    inputs
        The slot of each leaf of the graph; -1 for one that nothing reads.
    constants
        What lies in which slot before the first step; these slots are never used
        again.
    steps
        What to do.
    outputs
        The slot of each output.
    size
        The number of slots.
    varying
        The serials of all Tensors that depend on a leaf.

    Parameters
    ----------
    graph
        The program.
    own
        Copy constants that others may write into.
    whole
        Compute all that has no value yet, and refuse what is no input. Else what
        depends on no input is taken as it is: a symbol from outside, for one.

    Raises
    ------
    UsageError
        If an output of a ``whole`` program needs a Tensor without value that is no
        input.
    """

    def __init__(
        self,
        leaves: Sequence[Tensor],
        outputs: Sequence[Any],
        whole: bool = False,
        own: bool = False,
    ) -> None:
        self.constants: dict[int, Any] = {}
        allocation = _Allocation(self)
        computed, self.varying = _order_computed(leaves, outputs, whole)
        self.steps = allocation.place(computed, leaves, outputs)
        slot = allocation.slots.get
        self.inputs = tuple([slot(x.serial, -1) for x in leaves])
        self.outputs = tuple([allocation.slot(y) for y in outputs])
        self.size = allocation.next_slot()
        #: Constants that are Tensors with a value, and whether one has none.
        self._tensors: list[tuple[int, Tensor]] = []
        self._has_symbols = False
        template: list[Any] = [None] * self.size
        for i, x in self.constants.items():
            template[i] = x
            if isinstance(x, Tensor):
                self._has_symbols = self._has_symbols or x._value is None
                if x._value is not None:
                    template[i] = self.constants[i] = x._value
                    if not whole:
                        self._tensors.append((i, x))
            value = template[i]
            if own and isinstance(value, np.ndarray) and value.flags.writeable:
                template[i] = self.constants[i] = value = value.copy()
                value.flags.writeable = False
        self._template = template

    @cached_property
    def program(self) -> list[Instruction]:
        """The steps as the hot loop takes them."""
        return [_make_instruction(step) for step in self.steps]

    def replace_constants(self, change: Callable[[Any], Any]) -> None:
        """Let each constant be another value, of the same shape and dtype."""
        for i in self.constants:
            template = self._template[i]
            if not isinstance(template, Tensor):
                self._template[i] = self.constants[i] = change(template)

    def run(self, values: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for one value per leaf; see `Graph.run`."""
        slots = self._template.copy()
        recorded = self._has_symbols
        if self._tensors and traces.OPEN:
            # One that depends on an open trace stays a Tensor: what reads it records.
            for i, x in self._tensors:
                x = traces.node_of(x)
                if traces.is_active(x):
                    slots[i], recorded = x, True
        for i, value in zip(self.inputs, values, strict=True):
            if i >= 0:
                slots[i] = value
                if type(value) is np.ndarray:
                    recorded = recorded or value.dtype.hasobject
                elif isinstance(value, Tensor):
                    recorded = True
        if recorded:
            self._record(slots, observer or _apply_node)
        elif observer is None:
            self._compute(slots)
        else:
            self._observe(slots, observer)
        return [slots[i] for i in self.outputs]

    def _compute(self, slots: list[Any]) -> None:
        """Compute all steps on arrays: this is the hot loop of programs."""
        done = 0
        try:
            for compute, take, only, out, forgets in self.program:
                slots[out] = (
                    compute(slots[only]) if take is None else compute(*take(slots))
                )
                done += 1
                for i in forgets:
                    slots[i] = None
        except (ValueError, TypeError, IndexError) as error:
            self._refuse(done, slots, error)

    def _observe(self, slots: list[Any], observer: Observer) -> None:
        """Let the observer compute all steps on arrays."""
        done = 0
        try:
            for node, reads, out, forgets in self.steps:
                if len(reads) == 1:
                    slots[out] = observer(node, (slots[reads[0]],))
                else:
                    slots[out] = observer(node, tuple([slots[i] for i in reads]))
                done += 1
                for i in forgets:
                    slots[i] = None
        except (ValueError, TypeError, IndexError) as error:
            self._refuse(done, slots, error)

    def _record(self, slots: list[Any], observer: Observer) -> None:
        """Record all steps, each on its user's line, in its scope, under its name."""
        # The recorded Tensor of a node, which its gradient's nodes refer to.
        became: dict[int, Tensor] = {}
        token = source.CONTEXT.set(source.CONTEXT.get())
        try:
            for node, reads, out, forgets in self.steps:
                source.CONTEXT.set(user_context(node))
                before = next_serial()
                made = observer(node, tuple([slots[i] for i in reads]))
                if isinstance(made, Tensor):
                    if isinstance(node, MaskedTensor) and type(made) is Tensor:
                        made = mask_cotangent(made)
                    became[node.serial] = made
                    _inherit_name(made, node, before)
                for new in made if isinstance(made, tuple) else (made,):
                    _inherit_origin(new, node, before, became)
                slots[out] = made
                for i in forgets:
                    slots[i] = None
        finally:
            source.CONTEXT.reset(token)

    def _refuse(self, done: int, slots: list[Any], error: Exception) -> NoReturn:
        """Raise NumPy's refusal with op, operands and the line that traced the op."""
        node, reads, *_ = self.steps[done]
        place = user_context(node)
        operands = tuple([slots[i] for i in reads])
        refusal = blame.explain_refusal(
            node.op, operands, error, place.code, place.lasti
        )
        if refusal is error:
            raise error
        if isinstance(refusal, ShapeError):
            refusal.node = node
        raise refusal from error


def compute_node(node: Tensor, operands: Sequence[Any]) -> Any:
    """Compute a node at some operands: an array on arrays, recorded on Tensors."""
    for x in operands:
        if isinstance(x, Tensor) or (type(x) is np.ndarray and x.dtype.hasobject):
            return apply(node.op, tuple(operands), node.params)
    params = node.params
    if type(params) is LengthParams:
        return compute_op(node.op, operands, params)
    return node.op.compute(*operands, **params)


def _apply_node(node: Tensor, operands: tuple[Any, ...]) -> Any:
    return apply(node.op, operands, node.params)


def user_context(node: Tensor) -> source.Context:
    """Return the user's line and scope of a node, for its replacement."""
    context = node.context
    if context is None or context.code is None:
        context = source.Context(node.scope, node.code, node.lasti)
    return context


def _inherit_name(replacement: Tensor, node: Tensor, before: int) -> None:
    """Give the replacement of a node the node's name."""
    if node.name is not None and replacement.serial > before:
        replacement.name = node.name


def _inherit_origin(
    replacement: Any, node: Tensor, before: int, became: dict[int, Tensor]
) -> None:
    """Assign the replacement of a node to the same forward node."""
    if node.origin is not None and isinstance(replacement, Tensor):
        forward = became.get(node.origin.forward.serial)
        origin = node.origin
        if forward is not None:
            origin = origin._replace(forward=forward)
        for new in walk.order_nodes([replacement], before):
            if new.origin is None:
                new.origin = origin


def _order_computed(
    leaves: Sequence[Tensor], outputs: Sequence[Any], whole: bool
) -> tuple[list[Tensor], set[int]]:
    """Return the nodes that a run computes, in order, and all that vary."""
    varying = {x.serial for x in leaves}
    first = 0 if whole else min(varying, default=0)
    roots = [y for y in outputs if isinstance(y, Tensor)]
    computed = []
    leaf_serials = frozenset(varying)
    #: Values of constants alone that are not computed yet.
    fixed: set[int] = set()
    for node in walk.order_nodes(roots, first, stop=leaf_serials):
        if node.serial in leaf_serials:
            continue
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in varying:
                varying.add(node.serial)
                computed.append(node)
                break
        else:
            if node._value is not None:
                continue
            if whole and not node.inputs:
                raise _missing_input_error(node, leaves)
            if whole or (
                node.inputs
                and all(
                    not isinstance(x, Tensor)
                    or x._value is not None
                    or x.serial in fixed
                    for x in node.inputs
                )
            ):
                fixed.add(node.serial)
                computed.append(node)
    if any(node.op.compute_into is not None for node in computed):
        computed = _delay_updates(computed)
    return computed, varying


def _delay_updates(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Return nodes in an order in which an update comes when its result is needed.

    Those that read what it changes, or a view of that, have done so then, and it may be
    changed in place: a cotangent that is zeroed where a part of it was passed on.
    """
    waiting: dict[int, Tensor] = {}
    ordered: list[Tensor] = []

    def compute(needed: list[Tensor]) -> None:
        while needed:
            node = needed[-1]
            before = [
                waiting[x.serial]
                for x in node.inputs
                if isinstance(x, Tensor) and x.serial in waiting
            ]
            if before:
                needed += before
                continue
            needed.pop()
            if waiting.pop(node.serial, None) is not None or (
                node.op.compute_into is None
            ):
                ordered.append(node)

    for node in nodes:
        if node.op.compute_into is not None:
            waiting[node.serial] = node
        else:
            compute([node])
    while waiting:
        compute([next(iter(waiting.values()))])
    return ordered


def _missing_input_error(node: Tensor, leaves: Sequence[Tensor]) -> UsageError:
    names = ", ".join(x.name or f"%{i}" for i, x in enumerate(leaves)) or "none"
    return UsageError(
        f"{blame.describe(node)}{blame.quote_site(node.site)} has no value and is no"
        f" input of the graph (inputs: {names}). Make it an input, or trace it with a"
        " value."
    )


def _make_instruction(step: Step) -> Instruction:
    op, params, reads = step.node.op, step.node.params, step.reads
    if op.compute_into is not None and _reads_first_last(step):
        return _make_update(op, params), _take_held(reads), -1, *step[2:]
    compute = bind_settings(op, params)
    if len(reads) == 1:
        return compute, None, reads[0], step.writes, step.forgets
    take = itemgetter(*reads) if reads else _take_nothing
    return compute, take, -1, step.writes, step.forgets


def _take_nothing(slots: list[Any]) -> tuple[Any, ...]:
    return ()


# An op that changes a copy of its first operand changes that itself, where nobody reads
# it later: n stores into n entries take linear time. Whether anybody else holds it, the
# caller of the program or an array that is a view of it, Python tells at each run.


def _reads_first_last(step: Step) -> bool:
    """Return whether the first operand of a step is read there last, and once.

    Where its length is a setting it is read once more.
    """
    first = step.reads[0]
    if type(step.node.params) is LengthParams:
        return False
    free = first == step.writes or first in step.forgets
    return free and step.reads.count(first) == 1


def _make_update(op: Op, params: dict[str, Any]) -> Callable[..., Any]:
    """Return an op that updates an array in a list, in place if private."""
    compute, into = op.compute, op.compute_into
    assert into is not None

    def update(held: list[Any], *others: Any) -> Any:
        change = into if is_private(held, others=1) else compute  # the slot's
        return change(held[0], *others, **params)

    return update


def _take_held(reads: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that takes operands out of slots, the first one in a list."""
    first, *others = reads

    def take(slots: list[Any]) -> tuple[Any, ...]:
        return ([slots[first]], *[slots[i] for i in others])

    return take


class _Allocation:
    """The slots of a schedule while they are being given out."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.slots: dict[int, int] = {}
        self.shared: dict[int, int] = {}
        #: Gives a slot that nobody has had: their number, when all are given out.
        self.next_slot = count().__next__

    def slot(self, x: object) -> int:
        """Return the slot of a value that is read; one constant has one slot."""
        if isinstance(x, Tensor) and (known := self.slots.get(x.serial)) is not None:
            return known
        slot = self.shared.get(id(x))
        if slot is None:
            slot = self.shared[id(x)] = self.next_slot()
            self.schedule.constants[slot] = x
        return slot

    def place(
        self,
        computed: Sequence[Tensor],
        leaves: Sequence[Tensor],
        outputs: Sequence[Any],
    ) -> tuple[Step, ...]:
        """Return the steps; a slot is free after its last reader."""
        last = {
            x.serial: node.serial
            for node in computed
            for x in node.inputs
            if isinstance(x, Tensor)
        }
        slots = self.slots
        output_serials = {x.serial for x in outputs if isinstance(x, Tensor)}
        for x in leaves:
            if x.serial in last or x.serial in output_serials:
                slots[x.serial] = self.next_slot()
        free: list[int] = []
        steps = []
        for node in computed:
            reads, freed = [], []
            written = node.serial
            for x in node.inputs:
                serial = x.serial if isinstance(x, Tensor) else -1
                slot = slots.get(serial, -1)
                if slot < 0:
                    slot = self.slot(x)
                elif last[serial] == written and serial not in output_serials:
                    last[serial] = -1  # it is freed once, be it read twice
                    freed.append(slot)
                reads.append(slot)
            free += freed
            writes = slots[written] = free.pop() if free else self.next_slot()
            forgets = [slot for slot in freed if slot != writes] if freed else freed
            steps.append(Step(node, tuple(reads), writes, tuple(forgets)))
        return tuple(steps)
