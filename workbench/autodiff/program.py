"""A recorded graph that runs again: `Program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from workbench.core import source, traces, walk
from workbench.core.tensor import MaskedTensor, Tensor, apply, value_of
from workbench.core.trace import live
from workbench.ops.define import masked

__all__ = ["Program"]


class Program:
    """A graph that runs on values for its leaves.

    Plain arrays give plain arrays, and what no later step reads is let go at once;
    a Tensor among the values, or a live one among the constants, and the steps
    record, each on its user's line, in its scope, under its name.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.exp(-x) * 2)(wb.Spec((3,), float))
    >>> Program(graph.outputs, graph.inputs)([np.zeros(3)])
    [array([2., 2., 2.])]
    """

    def __init__(self, outputs: Sequence[Any], leaves: Sequence[Tensor]) -> None:
        self.outputs = list(outputs)
        self.leaves = list(leaves)
        slots = {x.serial: i for i, x in enumerate(self.leaves)}
        template: list[Any] = [None] * len(slots)

        def slot(x: Any) -> int:
            if isinstance(x, Tensor):
                if x.serial in slots:
                    return slots[x.serial]
                if not live(x):
                    x = value_of(x)
            template.append(x)
            return len(template) - 1

        steps: list[tuple[Tensor, tuple[int, ...], int]] = []
        for node in _between(self.outputs, self.leaves):
            reads = tuple([slot(x) for x in node.inputs])
            slots[node.serial] = len(template)
            template.append(None)
            steps.append((node, reads, slots[node.serial]))
        self._results = [slot(x) for x in self.outputs]
        self._template = template
        # A value is let go after the last step that reads it.
        made = {out for _, _, out in steps} | set(range(len(self.leaves)))
        seen = set(self._results)
        self._steps = []
        for node, reads, out in reversed(steps):
            dead = tuple([i for i in {*reads} if i in made and i not in seen])
            seen.update(reads)
            self._steps.append((node, _taker(reads), out, dead))
        self._steps.reverse()
        self._recorded = any(isinstance(x, Tensor) for x in template)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for one value per leaf."""
        if traces.MARKED and not traces.reads_old():
            with traces.OldValues():
                return self(values)
        slots = self._template.copy()
        slots[: len(values)] = values
        if self._recorded or any(map(_recording, values)):
            self._record(slots)
        else:
            for node, take, out, dead in self._steps:
                # Not by `apply`: among plain arrays there is nothing to record.
                slots[out] = node.op.compute(*take(slots), **node.params)
                for i in dead:
                    slots[i] = None
        return [slots[i] for i in self._results]

    def _record(self, slots: list[Any]) -> None:
        # The recorded Tensor of a node, which its gradient's nodes refer to.
        became: dict[int, Tensor] = {}
        token = source.CONTEXT.set(source.CONTEXT.get())
        try:
            for node, take, out, dead in self._steps:
                source.CONTEXT.set(_place(node))
                made = apply(node.op, take(slots), node.params)
                if isinstance(made, Tensor):
                    if isinstance(node, MaskedTensor) and type(made) is Tensor:
                        made = masked(made)
                    became[node.serial] = made
                    if node.name is not None:
                        made.name = node.name
                    if node.origin is not None and made.origin is None:
                        first = became.get(node.origin.forward.serial)
                        made.origin = (
                            node.origin
                            if first is None
                            else node.origin._replace(forward=first)
                        )
                slots[out] = made
                for i in dead:
                    slots[i] = None
        finally:
            source.CONTEXT.reset(token)


def _recording(x: Any) -> bool:
    """Whether it is a Tensor, or an array of Tensors."""
    return isinstance(x, Tensor) or (type(x) is np.ndarray and x.dtype == object)


def _taker(reads: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """How a step takes its operands out of the slots: always a tuple."""
    if len(reads) > 1:
        return itemgetter(*reads)
    return lambda slots: tuple([slots[i] for i in reads])


def _place(node: Tensor) -> source.Context:
    """The user's line and scope of a node, for what is recorded in its place."""
    context = node.context
    if context is None or context.code is None:
        context = source.Context(node.scope, node.code, node.lasti)
    return context


def _between(outputs: Sequence[Any], leaves: Sequence[Tensor]) -> list[Tensor]:
    """The nodes that depend on a leaf and on which an output depends, ascending."""
    varying = {x.serial for x in leaves}
    roots = [x for x in outputs if isinstance(x, Tensor)]
    found = []
    for node in walk.order(roots, min(varying, default=0)):
        if node.serial not in varying and any(
            isinstance(x, Tensor) and x.serial in varying for x in node.inputs
        ):
            varying.add(node.serial)
            found.append(node)
    return found
