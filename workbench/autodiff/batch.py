"""Batching: a program recorded on one example runs on many at once.

The function is traced on specs, so no value is looked at; then its nodes run
again, in order, with the batch axis first. A node that depends on a batched leaf
goes through its op's ``batch`` rule, or, where there is none, a loop over the
batch. Everything goes through `apply`: what comes out is plain where no Tensor
takes part, and a further program otherwise, so batching nests with derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.core import dims, hooks, source, traces, walk
from workbench.core.deferred import Late, Place, shape_at
from workbench.core.dims import Atom
from workbench.core.op import Op
from workbench.core.tensor import MaskedTensor, Tensor, apply, next_serial, value_of
from workbench.errors import UnknownLengthError
from workbench.ops import several
from workbench.ops.define import _batch_elementwise, masked, shape_of

__all__ = ["Batched", "Structured"]


class Structured:
    """Many examples in a form smaller than the array of them (see `diagonal.py`).

    ``advance`` knows the ops that keep the form; ``dense`` gives the array.
    """

    __slots__ = ()

    def advance(self, node: Tensor, inputs: tuple[Any, ...], mask: int) -> Any | None:
        """The result of a node in a form of its own; None: use the array."""
        raise NotImplementedError

    def dense(self) -> Any:
        """The array, batch axis first."""
        raise NotImplementedError


class Batched:
    """A recorded program that runs on a batch of values for some of its leaves.

    Parameters
    ----------
    outputs
        What to compute: Tensors of the program, or constants.
    leaves
        The Tensors that are given a batch of values in each run.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.exp(-x) * 2)(wb.Spec((), np.float64))
    >>> program = Batched(graph.outputs, graph.inputs)
    >>> program([np.zeros(3)], 3)
    [array([2., 2., 2.])]
    """

    def __init__(self, outputs: Sequence[Any], leaves: Sequence[Tensor]) -> None:
        self.outputs = list(outputs)
        self.leaves = list(leaves)
        self.steps = _steps(self.outputs, self.leaves)
        varying = {x.serial for x in self.leaves} | {n.serial for n, _ in self.steps}
        #: Whether each output depends on a leaf, and so carries the batch axis.
        self.batched = [
            isinstance(x, Tensor) and x.serial in varying for x in self.outputs
        ]
        self._last = self._last_uses()

    def _last_uses(self) -> list[list[int]]:
        """For each step, the serials that no later step and no output reads."""
        kept = {x.serial for x in self.outputs if isinstance(x, Tensor)}
        seen = set(kept)
        released: list[list[int]] = []
        for node, mask in reversed(self.steps):
            dead = []
            for i, x in enumerate(node.inputs):
                if mask >> i & 1 and x.serial not in seen:
                    seen.add(x.serial)
                    dead.append(x.serial)
            released.append(dead)
        released.reverse()
        return released

    def bytes_per_example(self) -> int:
        """The most memory that the values of one example take at any time."""
        sizes = {x.serial: _bytes(x) for x in self.leaves}
        alive = peak = sum(sizes.values())
        for (node, _), dead in zip(self.steps, self._last, strict=True):
            sizes[node.serial] = size = _bytes(node)
            alive += size
            peak = max(peak, alive)
            alive -= sum(sizes[serial] for serial in dead)
        return max(peak, 1)

    def __call__(self, values: Sequence[Any], size: int) -> list[Any]:
        """The outputs for ``size`` examples, batch axis first where they carry it.

        ``values`` holds one array or Tensor of ``size`` examples per leaf, or a
        `Structured` form of one.
        """
        if traces.MARKED and not traces.reads_old():
            with traces.OldValues():
                return self(values, size)
        made: dict[int, Any] = {
            x.serial: v for x, v in zip(self.leaves, values, strict=True)
        }
        # The recorded Tensor of a node, which its gradient's nodes refer to.
        became: dict[int, Tensor] = {}
        plain = not traces.any_open()
        token = source.CONTEXT.set(source.CONTEXT.get())
        try:
            for (node, mask), dead in zip(self.steps, self._last, strict=True):
                inputs = tuple(
                    [
                        made[x.serial]
                        if mask >> i & 1
                        else value_of(x)
                        if plain and isinstance(x, Tensor) and x._value is not None
                        else x
                        for i, x in enumerate(node.inputs)
                    ]
                )
                made[node.serial] = _step(node, inputs, mask, size, became)
                for serial in dead:
                    made.pop(serial, None)
        finally:
            source.CONTEXT.reset(token)
        return [
            _dense(made[x.serial]) if batched else x
            for x, batched in zip(self.outputs, self.batched, strict=True)
        ]


def _steps(
    outputs: Sequence[Any], leaves: Sequence[Tensor]
) -> list[tuple[Tensor, int]]:
    """The nodes that depend on a leaf, ascending; bit i says that input i does."""
    varying = {x.serial for x in leaves}
    roots = [x for x in outputs if isinstance(x, Tensor)]
    steps = []
    for node in walk.order(roots, min(varying, default=0)):
        mask = 0
        for i, x in enumerate(node.inputs):
            if isinstance(x, Tensor) and x.serial in varying:
                mask |= 1 << i
        if mask and node.serial not in varying:
            varying.add(node.serial)
            steps.append((node, mask))
    return steps


def _step(
    node: Tensor,
    inputs: tuple[Any, ...],
    mask: int,
    size: int,
    became: dict[int, Tensor],
) -> Any:
    """One node of the program, for all examples."""
    for x in inputs:
        if isinstance(x, Structured):
            kept = x.advance(node, inputs, mask)
            if kept is not None:
                return kept
            inputs = tuple(map(_dense, inputs))
            break
    recording = any(isinstance(x, Tensor) for x in inputs)
    before = 0
    if recording:
        # What is recorded stands on the user's line inside the function.
        context = node.context
        if context is None or context.code is None:
            context = source.Context(node.scope, node.code, node.lasti)
        source.CONTEXT.set(context)
        before = next_serial()
    out = _apply_batched(node, inputs, mask, size)
    if recording and isinstance(out, Tensor):
        if isinstance(node, MaskedTensor) and not isinstance(out, MaskedTensor):
            out = masked(out)
        became[node.serial] = out
        if node.origin is not None:
            _inherit(out, node.origin, before, became)
        elif out.serial > before + 1:
            _tell_helpers(out, node.op, before)
    return out


def _apply_batched(node: Tensor, inputs: tuple[Any, ...], mask: int, size: Any) -> Any:
    op, params = node.op, node.params
    if op.name == "item":  # takes one out of a tuple whose every array is batched
        return apply(op, inputs, params)
    batched = tuple([bool(mask >> i & 1) for i in range(len(inputs))])
    try:
        return _ruled(node, op, inputs, batched, params, size)
    except UnknownLengthError:
        if isinstance(op, Late):
            raise
        return hooks.batch_late(op, inputs, batched, params)


def _ruled(
    node: Tensor | None,
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """An op by its rule for batches, or example by example."""
    if type(op) is Late:
        return _deferred(op, inputs, batched, params)
    batch = op.batch
    if batch is None and op.elementwise:
        batch = _batch_elementwise(op)
    if batch is None:
        mask = sum(1 << i for i, b in enumerate(batched) if b)
        return _loop(node, op, inputs, mask, size, params)
    return batch(inputs, batched, params)


def _deferred(
    op: Late,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Any:
    """An op whose settings name places of its operands, which have a further axis."""

    def length(atom: Atom) -> Any:
        if isinstance(atom, Place):
            shape = shape_at(inputs[atom.position])
            return shape[atom.axis + batched[atom.position]]
        return None

    settings: dict[str, Any] = dims.replaced(params, length)
    size = shape_at(next(x for x, b in zip(inputs, batched, strict=True) if b))[0]
    return applied(op.base, inputs[: op.count], batched[: op.count], settings, size)


def applied(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """An op for ``size`` examples, batch axis first in its result too."""
    if any(batched):
        try:
            return _ruled(None, op, inputs, batched, params, size)
        except UnknownLengthError:
            if dims.found(size) or any(dims.found(shape_of(x)) for x in inputs):
                return hooks.batch_late(op, inputs, batched, params)
            raise
    made = apply(op, inputs, params)
    parts = several.outputs(made) if isinstance(made, Tensor) else made
    if isinstance(parts, tuple):
        return tuple(np.broadcast_to(y, (size, *shape_of(y))) for y in parts)
    return np.broadcast_to(parts, (size, *shape_of(parts)))


def _loop(
    node: Tensor | None,
    op: Op,
    inputs: tuple[Any, ...],
    mask: int,
    size: int,
    params: dict[str, Any],
) -> Any:
    """An op without a rule for batches, example by example."""
    if size == 0:
        assert node is not None
        like = next(x for i, x in enumerate(inputs) if mask >> i & 1)
        return _empty(node.spec, like)
    rows = [
        apply(
            op,
            tuple(
                [_example(x, k) if mask >> i & 1 else x for i, x in enumerate(inputs)]
            ),
            params,
        )
        for k in range(size)
    ]
    if isinstance(rows[0], tuple) or several.many(rows[0]):
        split = [several.outputs(r) if isinstance(r, Tensor) else r for r in rows]
        return tuple(np.stack(column) for column in zip(*split, strict=True))
    return np.stack(rows)


def _empty(spec: Any, like: Any) -> Any:
    """The results of no example at all."""
    if isinstance(like, tuple):
        like = like[0]
    if isinstance(spec, tuple):
        return tuple(_empty(part, like) for part in spec)
    return np.zeros_like(value_of(like), dtype=spec.dtype, shape=(0, *spec.shape))


def _example(x: Any, k: int) -> Any:
    return tuple([part[k] for part in x]) if isinstance(x, tuple) else x[k]


def _dense(x: Any) -> Any:
    return x.dense() if isinstance(x, Structured) else x


def _inherit(
    out: Tensor, origin: reverse.Origin, before: int, became: Mapping[int, Tensor]
) -> None:
    """A batched node of a gradient belongs to the batched forward node."""
    forward = became.get(origin.forward.serial)
    if forward is not None:
        origin = origin._replace(forward=forward)
    for new in walk.order([out], before):
        if new.origin is None:
            new.origin = origin


def _tell_helpers(out: Tensor, op: Op, before: int) -> None:
    """Say which nodes are no op of the user's: all but the op itself.

    Those only turn its operands and its result, and an override of a scope, which
    means the op, must not run at each of them too.
    """
    made = walk.order([out], before)
    own = [out]
    if out.op.name != op.name:  # example by example it is there many times
        own = [x for x in made if x.op.name == op.name] or own
    kept = {x.serial for x in own}
    for x in made:
        if x.serial not in kept:
            x.context = (x.context or source.Context())._replace(helper=True)


def _bytes(x: Tensor) -> int:
    """Bytes of one value of a Tensor of a program traced on specs."""
    spec: Any = x.spec
    specs = spec if isinstance(spec, tuple) else (spec,)
    return sum(int(np.prod(s.shape, dtype=np.int64)) * s.dtype.itemsize for s in specs)
