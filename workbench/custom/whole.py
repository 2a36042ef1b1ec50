"""`Whole`: an op whose value and derivatives are those of a recorded program.

In a graph it is one node, however much is inside. Its derivatives are such ops too,
recorded once for each set of inputs that vary and of outputs that are asked: a
gradient of a thousand calls holds a thousand nodes, and a program that holds ops
that hold ops stays as small as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from workbench.graph import types, walk
from workbench.graph.dims import Dim, Length, atoms_of, replaced
from workbench.graph.graph import Graph
from workbench.graph.op import Op
from workbench.graph.tensor import Tensor, apply, leaf
from workbench.graph.types import Spec
from workbench.ops import several
from workbench.ops.define import dtype_of, shape_of
from workbench.transforms import forward, reverse
from workbench.transforms.flat import vectorized
from workbench.transforms.program import Program

__all__ = ["Mapped", "Whole", "called", "key_of", "symbol"]

Params = dict[str, Any]


class Derived(NamedTuple):
    """A derivative of an op as an op, and which arrays it takes and gives."""

    op: Whole
    #: The places of what it reads, among the inputs and what arrives.
    reads: list[int]
    #: What its outputs are derivatives of.
    places: list[int]


class Whole(Op):
    """The op of a recorded program of leaves without values.

    Several outputs come as a tuple, one as itself.
    """

    def __init__(
        self, name: str, leaves: Sequence[Tensor], outputs: Sequence[Any]
    ) -> None:
        super().__init__(name)
        self.leaves = list(leaves)
        self.outputs = list(outputs)
        self.program = Program(outputs, leaves)
        self.single = len(self.outputs) == 1
        self.custom = True
        self.rule = "the rules of the ops inside"
        self.reads = None
        self.body = self._body
        self.compute = self._compute
        self.infer = self._infer
        self.pull = self._pull
        self.push = self._push
        self.batch = self._batch
        #: Its derivatives, and its form for many examples, by what they are asked.
        self.known: dict[Hashable, Any] = {}
        self.specs = [types.spec_of(y) for y in self.outputs]
        #: Whether a length of its outputs is known only when it runs.
        self.open = key_of(self.specs) is None
        self.spec: Any = self.specs[0] if self.single else tuple(self.specs)

    def _body(self, *specs: Any) -> Graph:
        """What it is made of."""
        return Graph(self.leaves, self.outputs)

    def _compute(self, *arrays: Any) -> Any:
        made = self.program(arrays)
        return made[0] if self.single else tuple(made)

    def _infer(self, *specs: Any) -> Any:
        made = self.specs if not self.open else self._placed(specs)
        return made[0] if self.single else tuple(made)

    def _placed(self, specs: Sequence[Any]) -> list[Spec]:
        """The specs of the outputs, in the lengths of what is given."""
        known: dict[Any, Any] = {}
        for x, given in zip(self.leaves, specs, strict=True):
            for n, m in zip(shape_of(x), shape_of(given), strict=True):
                for atom in alone(n):
                    known.setdefault(atom, m)
        made = []
        for spec in self.specs:
            shape: Any = replaced(spec.shape, known.get)
            # What is measured inside is told by the result alone.
            shape = [None if measured(n) & self.ours else n for n in shape]
            made.append(Spec(tuple(shape), spec.dtype))
        return made

    @cached_property
    def ours(self) -> set[int]:
        """The serials of all that is inside."""
        roots = [y for y in self.outputs if isinstance(y, Tensor)]
        return {x.serial for x in walk.order(roots)}

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = make()
        return found

    # Reverse mode

    def _pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        parts = (g,) if self.single else tuple(g)
        present = tuple([c is not None for c in parts])
        op, reads, places = self._once(
            ("vjp", mask, present), lambda: self._reverse(mask, present)
        )
        passed: list[Any] = [None] * len(inputs)
        if places:
            given = (*inputs, *[c for c in parts if c is not None])
            made = called(op, tuple([given[i] for i in reads]))
            for i, c in zip(places, made, strict=True):
                passed[i] = c
        return passed

    def _reverse(self, mask: int, present: Sequence[bool]) -> Derived:
        """The cotangents of some inputs."""
        chosen = [i for i in range(len(self.leaves)) if mask >> i & 1]
        outputs = [y for y, p in zip(self.outputs, present, strict=True) if p]
        seeds = [symbol(types.spec_of(y), _labelled("d_", y)) for y in outputs]
        made = reverse.pull_back(
            outputs, seeds, [self.leaves[i] for i in chosen], record=True
        )
        places = [i for i, c in zip(chosen, made, strict=True) if c is not None]
        found = [c for c in made if c is not None]
        return derived(f"{self.name}_vjp", [*self.leaves, *seeds], found, places)

    # Forward mode

    def _push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        moving = tuple([t is not None for t in tangents])
        op, reads, places = self._once(("jvp", moving), lambda: self._forward(moving))
        moved: list[Any] = [None] * len(self.outputs)
        if places:
            given = (*inputs, *[t for t in tangents if t is not None])
            made = called(op, tuple([given[i] for i in reads]))
            for i, t in zip(places, made, strict=True):
                moved[i] = t
        return moved[0] if self.single else tuple(moved)

    def _forward(self, moving: Sequence[bool]) -> Derived:
        """The tangents of the outputs that move."""
        wrt = [x for x, m in zip(self.leaves, moving, strict=True) if m]
        seeds = [symbol(types.spec_of(x), _labelled("t_", x)) for x in wrt]
        made = forward.push_forward(self.outputs, wrt, seeds, record=True)
        places = [i for i, t in enumerate(made) if t is not None]
        found = [t for t in made if t is not None]
        return derived(f"{self.name}_jvp", [*self.leaves, *seeds], found, places)

    # Many examples

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        specs = [types.spec_of(x) for x in inputs]
        key = ("batch", batched, key_of(specs))
        many = self._once(key, lambda: self._many(specs, batched))
        return apply(many, inputs)

    def _many(self, specs: Sequence[Spec], batched: Sequence[bool]) -> Whole:
        leaves = [symbol(s, x.name) for s, x in zip(specs, self.leaves, strict=True)]
        return Whole(
            self.name, leaves, vectorized(self.program, leaves, tuple(batched))
        )


class Mapped(Op):
    """An op with rules of its own, for many examples at once.

    Values and rules are those of the op, traced on one example and run on all. What
    a rule gives for an input that all examples share is summed.
    """

    def __init__(self, op: Any, batched: tuple[bool, ...]) -> None:
        super().__init__(op.name)
        self.inner = op
        self.single = op.single
        self.batched = batched
        self.custom = True
        self.rule = op.rule
        self.reads = None
        self.compute = self._compute
        self.infer = self._infer
        self.pull = self._pull
        self.push = self._push
        self.batch = self._batch

    def _compute(self, *arrays: Any) -> Any:
        made = self.run(arrays)
        return made[0] if self.single else tuple(made)

    def _infer(self, *specs: Any) -> Any:
        size = next(s.shape[0] for s, b in zip(specs, self.batched, strict=True) if b)
        examples = [
            Spec(s.shape[1:], s.dtype) if b else s
            for s, b in zip(specs, self.batched, strict=True)
        ]
        made = self.inner.infer(*examples)
        if isinstance(made, tuple):
            return tuple([Spec((size, *s.shape), s.dtype) for s in made])
        return Spec((size, *made.shape), made.dtype)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs in a list, as the ops inside compute them."""
        return vectorized(self.inner.run, values, self.batched)

    def _pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        single = not isinstance(y, tuple)
        ys, gs = ((y,), (g,)) if single else (y, tuple(g))
        present = [i for i, c in enumerate(gs) if c is not None]
        count, outs = len(inputs), len(ys)
        places: list[int] = []

        def run(values: Sequence[Any]) -> list[Any]:
            arrived: list[Any] = [None] * outs
            for i, c in zip(present, values[count + outs :], strict=True):
                arrived[i] = c
            out = tuple(values[count : count + outs])
            passed = self.inner.pull(
                mask,
                arrived[0] if single else several.Parts(arrived),
                out[0] if single else out,
                tuple(values[:count]),
                params,
            )
            places[:] = [i for i, c in enumerate(passed) if c is not None]
            return [reverse.fit(passed[i], values[i]) for i in places]

        values = (*inputs, *ys, *[gs[i] for i in present])
        flags = (*self.batched, *[True] * (outs + len(present)))
        found: list[Any] = [None] * count
        for i, c in zip(places, vectorized(run, values, flags), strict=False):
            found[i] = c if self.batched[i] else np.sum(c, axis=0)
        return found

    def _push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        single = not isinstance(y, tuple)
        ys = (y,) if single else y
        moving = [i for i, t in enumerate(tangents) if t is not None]
        count, outs = len(inputs), len(ys)
        places: list[int] = []

        def run(values: Sequence[Any]) -> list[Any]:
            arriving: list[Any] = [None] * count
            for i, t in zip(moving, values[count + outs :], strict=True):
                arriving[i] = t
            out = tuple(values[count : count + outs])
            made = self.inner.push(
                tuple(arriving), out[0] if single else out, values[:count], params
            )
            moved = (made,) if single else made
            places[:] = [i for i, t in enumerate(moved) if t is not None]
            return [moved[i] for i in places]

        values = (*inputs, *ys, *[tangents[i] for i in moving])
        flags = (
            *self.batched, *[True] * outs, *[self.batched[i] for i in moving],
        )  # fmt: skip
        found: list[Any] = [None] * outs
        for i, t in zip(places, vectorized(run, values, flags), strict=False):
            found[i] = t
        return found[0] if single else tuple(found)

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        return apply(Mapped(self, batched), inputs)


def derived(
    name: str, leaves: Sequence[Tensor], outputs: Sequence[Any], places: list[int]
) -> Derived:
    """A derivative that takes those leaves alone that its outputs depend on.

    So it is seen what it depends on: not on the cotangents, if it is linear in them.
    """
    serials = {x.serial for x in leaves}
    roots = [y for y in outputs if isinstance(y, Tensor)]
    needed = {x.serial for x in walk.order(roots, min(serials, default=0))}
    # Lengths of the outputs that no axis of what is read has.
    has = {
        a for x in leaves if x.serial in needed for n in shape_of(x) for a in alone(n)
    }
    for y in roots:
        if not has.issuperset(atoms_of(shape_of(y))):
            needed |= measured(shape_of(y))
    reads = [i for i, x in enumerate(leaves) if x.serial in needed]
    return Derived(Whole(name, [leaves[i] for i in reads], outputs), reads, places)


def called(op: Whole, inputs: tuple[Any, ...]) -> list[Any]:
    """The outputs of a whole op, one or several, in a list."""
    if op.single:
        return [apply(op, inputs)]
    return list(several.several(op, inputs))


def symbol(spec: Spec, name: str | None = None) -> Tensor:
    """A leaf without a value, of a known shape and dtype."""
    made = leaf(None, name)
    made.spec = Spec(spec.shape, spec.dtype)
    return made


def key_of(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """What tells values of other shapes or dtypes apart: they need other programs.

    None if a length is unknown: one program then serves all lengths.
    """
    key = []
    for x in values:
        shape: tuple[Any, ...] = shape_of(x)
        if any(isinstance(n, Dim) for n in shape):
            return None
        key.append((shape, dtype_of(x)))
    return tuple(key)


def alone(n: Any) -> list[Any]:
    """The unknown length that an entry of a shape is, and nothing more."""
    return [n.alone] if isinstance(n, Dim) and n.alone is not None else []


def measured(n: Any) -> set[int]:
    """The serials of the Tensors whose lengths an entry of a shape is made of."""
    return {a.tensor.serial for a in atoms_of(n) if isinstance(a, Length)}


def _labelled(prefix: str, x: Any) -> str | None:
    name = getattr(x, "name", None)
    return None if name is None else f"{prefix}{name}"
