"""`Body`: the program of one step of a loop, or of a branch, and its derivatives.

A body is a graph without values: leaves (what comes in) and outputs. Its derivatives
are recorded on the same leaves and on fresh ones for tangents or cotangents, so they
read the values of the step that they belong to, and no value is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse, steps
from workbench.autodiff.batch import run_batch
from workbench.core import blame, types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import MaskedTensor, Tensor, masked
from workbench.core.trace import blank, blanks
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops import define


def bits(places: Iterable[int]) -> int:
    """A set of places as a mask."""
    found = 0
    for i in places:
        found |= 1 << i
    return found


class Body:
    """A program from leaves to outputs; an output may be a leaf or a constant.

    >>> x = blank(Spec((), np.dtype(float)))
    >>> body = Body([x], [np.sin(x) * 2, 3.0])
    >>> [node.op.name for node in body.nodes], body.reads
    (['sin', 'multiply'], [1, 0])
    """

    def __init__(self, leaves: Sequence[Tensor], outputs: Sequence[Any]) -> None:
        self.leaves = list(leaves)
        self.outputs = list(outputs)
        #: The body as a function of arrays, once it has run.
        self.function: Any = None

    @property
    def graph(self) -> Graph:
        """The body as a graph."""
        return Graph(self.leaves, self.outputs)

    @cached_property
    def nodes(self) -> list[Tensor]:
        """What lies between the leaves and the outputs, ascending."""
        stop = {x.serial for x in self.leaves}
        roots = [x for x in self.outputs if isinstance(x, Tensor)]
        return [x for x in walk.order(roots, stop=stop) if x.serial not in stop]

    @cached_property
    def reads(self) -> list[int]:
        """For each output, the leaves that it depends on, as a mask."""
        return self._depends(False)

    @property
    def varies(self) -> list[int]:
        """For each output, the leaves that it depends on through derivatives.

        An override may give one to a node whose op has none.
        """
        held = [steps.PULLS.get() or {}, steps.PUSHES.get() or {}]
        given = {
            x.serial for x in self._rough if any(x.serial in rules for rules in held)
        }
        return self._depends(True, given) if given else self._varies

    @cached_property
    def _varies(self) -> list[int]:
        return self._depends(True)

    @cached_property
    def _rough(self) -> list[Tensor]:
        """The nodes whose ops have no derivative."""
        return [x for x in self.nodes if x.op.pull is None]

    def cut(self) -> Body:
        """The same, on leaves of its own where they are results of other leaves.

        A value that comes from outside is no longer what the step computes: nothing
        must flow through it to its operands.
        """
        if not known_lengths(self):
            leaves = blanks(self.leaves)
            return Body(leaves, self.graph.run(leaves))
        inner = [x for x in self.leaves if x.inputs]
        if not inner:
            return self
        fresh = {x.serial: blank(x, x.name) for x in inner}
        leaves = [fresh.get(x.serial, x) for x in self.leaves]
        made: dict[int, Any] = dict(fresh)
        for node in self.nodes:
            inputs = tuple(
                [
                    made.get(x.serial, x) if isinstance(x, Tensor) else x
                    for x in node.inputs
                ]
            )
            if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
                continue
            copy = type(node)(
                node.op, inputs, node.args, node.params, None, node.code, node.lasti,
                node.context,
            )  # fmt: skip
            copy.spec = node.spec
            if node.name is not None:
                copy.name = node.name
            if node.origin is not None:
                forward = made.get(node.origin.forward.serial, node.origin.forward)
                copy.origin = node.origin._replace(forward=forward)
            made[node.serial] = copy
        outputs = [
            made.get(y.serial, y) if isinstance(y, Tensor) else y for y in self.outputs
        ]
        return Body(leaves, outputs)

    def _depends(self, smooth: bool, given: Collection[int] = ()) -> list[int]:
        found = {x.serial: 1 << i for i, x in enumerate(self.leaves)}
        for node in self.nodes:
            mask = 0
            if not smooth or node.op.pull is not None or node.serial in given:
                for x in node.inputs:
                    if isinstance(x, Tensor):
                        mask |= found.get(x.serial, 0)
            found[node.serial] = mask
        return [
            found.get(y.serial, 0) if isinstance(y, Tensor) else 0 for y in self.outputs
        ]

    def needed(self) -> set[int]:
        """The serials of those values that reverse mode reads, or may read.

        What is read and is no output must be computed again, from its operands.
        """
        emitted = {y.serial for y in self.outputs if isinstance(y, Tensor)}
        found: set[int] = set()
        for node in reversed(self.nodes):
            op, inputs = node.op, node.inputs
            if op.pull is not None:
                reads = op.reads
                if reads is None:
                    reads = (*range(len(inputs)), "y")
                if "y" in reads:
                    found.add(node.serial)
                found.update(
                    x.serial
                    for i in reads
                    if isinstance(i, int) and i < len(inputs)
                    if isinstance(x := inputs[i], Tensor)
                )
            if node.serial in found and node.serial not in emitted:
                found.update(x.serial for x in inputs if isinstance(x, Tensor))
        return found

    def pull(
        self, arriving: Sequence[int], wanted: Sequence[int], flags: Collection[int]
    ) -> tuple[list[Tensor], list[Any]]:
        """The cotangents of wanted leaves, from fresh leaves for those that arrive.

        ``arriving`` are outputs; ``flags`` are those of them whose cotangents have
        left a mask. Returns the fresh leaves, and one result (or None) per wanted.
        """
        outputs = [self.outputs[i] for i in arriving]
        fresh = [blank(y, _named(y)) for y in outputs]
        seeds = [
            masked(x) if i in flags else x for i, x in zip(arriving, fresh, strict=True)
        ]
        wrt = [self.leaves[i] for i in wanted]
        made = reverse.pull_back(
            outputs, seeds, wrt, record=True, rules=steps.PULLS.get()
        )
        return fresh, made

    def push(
        self, moving: Sequence[int], flags: Collection[int]
    ) -> tuple[list[Tensor], list[Any]]:
        """The tangents of all outputs, from fresh leaves for those of moving leaves."""
        wrt = [self.leaves[i] for i in moving]
        fresh = [blank(x, _named(x)) for x in wrt]
        tangents = [
            masked(x) if i in flags else x for i, x in zip(moving, fresh, strict=True)
        ]
        made = forward.push_forward(
            self.outputs, wrt, tangents, record=True, rules=steps.PUSHES.get()
        )
        return fresh, made

    def batch(
        self, batched: Collection[int], size: Any, spread: Collection[int]
    ) -> tuple[Body, list[bool], Any]:
        """Return the body for many examples: axis 0 of the leaves that are ``batched``.

        The outputs in ``spread`` carry the axis in any case. Returned with it: which
        do, and how many examples there are, as a length of its own leaves.
        """
        if not isinstance(size, int) or not known_lengths(self):
            return self._with_own_lengths(batched)._batch(batched, size, spread)
        return self._batch(batched, size, spread)

    def _with_own_lengths(self, batched: Collection[int]) -> Body:
        """Return the body with lengths of leaves that are not batched, where it can.

        What is computed for no example then has no length of a leaf that goes.
        """
        chosen = {*batched}
        order = sorted(range(len(self.leaves)), key=lambda i: i in chosen)
        fresh = blanks([self.leaves[i] for i in order])
        of = dict(zip(order, fresh, strict=True))
        leaves = [of[i] for i in range(len(order))]
        return Body(leaves, self.graph.run(leaves))

    def _batch(
        self, batched: Collection[int], size: Any, spread: Collection[int]
    ) -> tuple[Body, list[bool], Any]:
        leaves = list(self.leaves)
        for i in batched:
            spec = types.spec_of(leaves[i])
            leaves[i] = blank(Spec((size, *spec.shape), spec.dtype), leaves[i].name)
        if not all(isinstance(n, int) for x in leaves for n in x.spec.shape):
            kept = [x for i, x in enumerate(leaves) if i not in batched]
            given = iter(blanks([leaves[i] for i in batched], kept))
            leaves = [next(given) if i in batched else x for i, x in enumerate(leaves)]
            size = leaves[min(batched)].spec.shape[0] if batched else size
        graph = Graph([self.leaves[i] for i in batched], self.outputs)
        outputs = run_batch(graph, [leaves[i] for i in batched], size)
        carried = list(graph.varying)
        for i in spread:
            if not carried[i]:
                y = outputs[i]
                shape = types.spec_of(y).shape
                outputs[i] = np.broadcast_to(y, (size, *shape))
                carried[i] = True
        return Body(leaves, outputs), carried, size


def known_lengths(body: Body) -> bool:
    """Whether the shapes of all values of a step are known."""
    return all(
        isinstance(m, int)
        for x in (*body.leaves, *body.nodes)
        for spec in define.parts(x) or (x.spec,)
        for m in spec.shape
    )


def is_draw(x: Any) -> bool:
    """Whether a node draws random numbers when it runs, each time anew."""
    return (
        isinstance(x, Tensor) and "draw" in x.params and x.op.name.startswith("random_")
    )


def refuse_inner_draws(body: Body, name: str) -> None:
    """Refuse a derivative that would run an inner loop once more, and draw anew.

    Raises
    ------
    TraceError
        If a loop or a branch inside the step draws.
    """
    inner = set(steps.everything(body.nodes)) - set(body.nodes)
    for node in inner:
        if is_draw(node):
            raise TraceError(
                f"{blame.describe(node)}{blame.at(node.site)} is drawn by a loop or a"
                f" branch inside a {name}, whose derivative would draw anew. Draw"
                " outside, and give the noise as a sequence."
            )


def flagged(x: Any) -> bool:
    """Whether a cotangent has left a mask."""
    return isinstance(x, MaskedTensor)


def _named(x: Any) -> str | None:
    name = getattr(x, "name", None)
    return f"d_{name}" if name else None
