"""`Whole`: an op whose value and derivatives are those of a recorded program.

In a graph it is one node, however much is inside. Its derivatives are such ops too,
recorded once for each set of inputs that vary and of outputs that are asked: a
gradient of a thousand calls holds a thousand nodes, and a program that holds ops
that hold ops stays as small as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.call import vectorized
from workbench.autodiff.higher_order import Rules
from workbench.autodiff.steps import everything, plan
from workbench.core import types, walk
from workbench.core.broadcasting import Facts, meet
from workbench.core.dims import Dim, Length, Made, Replace, atoms_of, replaced
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.probe import STAND_INS
from workbench.core.tensor import MaskedTensor, Tensor, apply, next_serial
from workbench.core.trace import blank, blanks, record
from workbench.core.types import Spec
from workbench.ops import define
from workbench.ops.define import dtype_of, shape_of

# What a program inside an op makes of operands of unknown lengths.
#
# The ops inside know it: their lengths are told by those of what they are given, and
# what they need to be equal the whole needs. Nothing is guessed at stand-ins.


def traced_specs(
    run: Callable[[Sequence[Any]], Sequence[Any]], specs: Sequence[Any]
) -> tuple[Spec, ...]:
    """Return the specs of the outputs of a flat function, which is traced.

    A length that only its run tells is None; what must be equal is a fact of the op
    that asks (`facts.meet`).
    """
    first = next_serial()
    made = record(lambda leaves: list(run(leaves)), list(map(types.value_spec, specs)))
    found = [y for y in made.outputs if isinstance(y, Tensor)]

    def is_inner(length: Length) -> bool:
        return bool(length.tensor.serial >= first)

    given = list(map(types.spec_of, made.outputs))
    return outer_specs(walk.order(found, first), given, _keep_atom, is_inner)


def agrees(
    made: Sequence[Spec],
    facts: Facts,
    specs: Sequence[Any],
    ask: Callable[..., Any],
) -> bool:
    """Whether what a trace tells is what the function itself gives at small lengths.

    Code that takes arrays alone may do anything with Tensors: gather them as objects,
    for one. ``ask`` gives the specs of its outputs for operands of known lengths.
    """
    together = [*facts]
    shapes = [s.shape for s in (*made, *specs)]
    for atom in atoms_of([n for shape in shapes for n in shape]):
        if isinstance(atom, Made) and atom.kind == "broadcast":
            together += [(atom.args[0], other) for other in atom.args[1:]]
    groups: list[set[Any]] = [{a} for a in set(atoms_of(shapes))]
    for pair in together:
        ends = {n.alone if isinstance(n, Dim) else n for n in pair}
        touched = [group for group in groups if group & ends]
        groups = [g for g in groups if g not in touched] + [set().union(ends, *touched)]
    for row in STAND_INS[:2]:
        lengths: dict[Any, Any] = {}
        for group, n in zip(groups, cycle(row)):
            known = [m for m in group if isinstance(m, int)]
            at = known[0] if known else n
            lengths |= {a.key: at for a in group if isinstance(a, Length)}

        def new(atom: Any, lengths: dict[Any, Any] = lengths) -> Any:
            return lengths.get(atom.key)

        try:
            found = ask(*[Spec(replaced(s.shape, new), s.dtype) for s in specs])
        except Exception:  # of lengths that it does not take
            return False
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(made) or not all(
            len(y.shape) == len(want.shape)
            and y.dtype == want.dtype
            and all(
                n is None or replaced(n, new) == m
                for n, m in zip(want.shape, y.shape, strict=True)
            )
            for y, want in zip(found, made, strict=True)
        ):
            return False
    return True


def outer_specs(
    nodes: Iterable[Tensor],
    specs: Sequence[Any],
    new: Replace,
    is_inner: Callable[[Length], bool],
) -> tuple[Spec, ...]:
    """Return specs in the lengths outside, which ``new`` gives for those inside.

    What the nodes need to be equal is noted, as far as it can be told outside.
    """

    def told(n: Any) -> Any:
        n = replaced(n, new)
        inner = any(isinstance(a, Length) and is_inner(a) for a in atoms_of(n))
        return None if inner else n

    for node in nodes:
        for pair in node.facts or ():
            a, b = map(told, pair)
            if a is not None and b is not None:
                meet(a, b)
    return tuple([Spec(tuple(map(told, s.shape)), s.dtype) for s in specs])


def _keep_atom(atom: Any) -> None:
    return None


# The op

Params = dict[str, Any]


class Key(NamedTuple):
    """Which derivative of an op."""

    #: Reverse mode, or forward mode.
    back: bool
    #: Bit i says that input i varies.
    mask: int
    #: Of reverse mode, for which outputs a cotangent arrives.
    given: tuple[bool, ...]


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
        self.graph = Graph(leaves, outputs)
        self.program = self.graph.run
        self.single = len(self.outputs) == 1
        self.custom = True
        self.rule = "the rules of the ops inside"
        self.reads = None
        self.body = self._body
        self.graphs = lambda inputs, params: [self.graph]
        self.compute = self._compute
        self.unfold = self._unfold
        self.infer = self._infer
        self.lengths = self._lengths
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
        return self.graph

    def _compute(self, *arrays: Any) -> Any:
        made = self.program([np.asarray(x) if types.weak(x) else x for x in arrays])
        return made[0] if self.single else tuple(made)

    def _unfold(self, values: Sequence[Any], params: Params) -> list[Any]:
        return self.program(values)

    def _infer(self, *specs: Any) -> Any:
        made = self.specs if not self.open else self._placed(specs)
        return made[0] if self.single else tuple(made)

    def _placed(self, specs: Sequence[Any]) -> tuple[Spec, ...]:
        """The specs of the outputs, in the lengths of what is given."""
        known: dict[Any, Any] = {}
        for x, given in zip(self.leaves, specs, strict=True):
            for n, m in zip(shape_of(x), shape_of(given), strict=True):
                for atom in alone(n):
                    known.setdefault(atom, m)

        def is_inner(length: Length) -> bool:
            # What is measured inside is told by the result alone.
            return length.tensor.serial in self.ours

        return outer_specs(self._related, self.specs, known.get, is_inner)

    def _lengths(self, *specs: Any) -> Any:
        """What `_infer` says, where lengths are unknown; None for one of its own."""
        made = self._placed(specs)
        return made[0] if self.single else made

    @cached_property
    def _related(self) -> list[Tensor]:
        """What is inside and needs lengths to be equal."""
        roots = [y for y in self.outputs if isinstance(y, Tensor)]
        return [x for x in walk.order(roots) if x.facts]

    @cached_property
    def ours(self) -> set[int]:
        """The serials of all that is inside."""
        roots = [y for y in self.outputs if isinstance(y, Tensor)]
        return {x.serial for x in walk.order(roots)}

    @cached_property
    def within(self) -> set[int]:
        """The serials of all nodes inside, those inside others too."""
        return {x.serial for x in everything(self.graph.between)}

    def derivative(self, key: Key, rules: Rules = None) -> Derived:
        """A derivative as an op, recorded when it is first asked for.

        Those of the ops inside come first, from the innermost on: however deep ops
        lie in each other, recording one never waits for another. One with ``rules``
        of overrides for nodes inside is recorded each time.
        """
        if rules and not self.within.isdisjoint(rules):
            return self._reverse(key, rules) if key.back else self._forward(key, rules)
        waiting: list[tuple[Whole, Key]] = [(self, key)]
        looked: set[tuple[int, Key]] = set()
        while waiting:
            op, key = waiting[-1]
            if key not in op.known and (id(op), key) not in looked:
                looked.add((id(op), key))
                waiting += op.asked(key)
                continue
            if key not in op.known:
                op.known[key] = op._reverse(key) if key.back else op._forward(key)
            waiting.pop()
        found: Derived = self.known[key]
        return found

    def asked(self, key: Key) -> list[tuple[Whole, Key]]:
        """The derivatives of ops inside that one of this op is made of."""
        outputs = [
            y for y, p in zip(self.outputs, key.given, strict=True) if p or not key.back
        ]
        steps = plan(outputs, self.chosen(key))
        read: dict[int, set[int]] = {}
        for node, _ in steps:
            if node.op is define.ITEM:
                read.setdefault(node.inputs[0].serial, set()).add(node.params["index"])
        found = []
        for node, mask in steps:
            inner = getattr(node.op, "inside", None)
            if inner is None or (whole := inner(node.inputs)) is None:
                continue
            used = read.get(node.serial, {0})
            given = tuple([i in used for i in range(len(whole.outputs))])
            if not key.back:
                given = (True,) * len(whole.outputs)
            found.append((whole, Key(key.back, mask, given)))
        return [pair for pair in found if pair[1] not in pair[0].known]

    def inside(self, inputs: Sequence[Any]) -> Whole:
        """The op whose derivatives are taken for these inputs."""
        return self

    def chosen(self, key: Key) -> list[Tensor]:
        """The leaves that a derivative is taken by."""
        return [x for i, x in enumerate(self.leaves) if key.mask >> i & 1]

    # Reverse mode

    def _pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        parts = (g,) if self.single else tuple(g)
        present = tuple([c is not None for c in parts])
        op, reads, places = self.derivative(Key(True, mask, present), rules)
        passed: list[Any] = [None] * len(inputs)
        if places:
            given = (*inputs, *[c for c in parts if c is not None])
            made = called(op, tuple([given[i] for i in reads]))
            for i, c in zip(places, made, strict=True):
                passed[i] = c
        return passed

    def _reverse(self, key: Key, rules: Rules = None) -> Derived:
        """The cotangents of some inputs."""
        outputs = [y for y, p in zip(self.outputs, key.given, strict=True) if p]
        seeds = [blank(types.spec_of(y), _labelled("d_", y)) for y in outputs]
        made = reverse.pull_back(
            outputs, seeds, self.chosen(key), record=True, rules=rules
        )
        chosen = [i for i in range(len(self.leaves)) if key.mask >> i & 1]
        places = [i for i, c in zip(chosen, made, strict=True) if c is not None]
        found = [c for c in made if c is not None]
        return derived(f"{self.name}_vjp", [*self.leaves, *seeds], found, places)

    # Forward mode

    def _push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> Any:
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        key = Key(False, mask, (True,) * len(self.outputs))
        op, reads, places = self.derivative(key, rules)
        moved: list[Any] = [None] * len(self.outputs)
        if places:
            given = (*inputs, *[t for t in tangents if t is not None])
            made = called(op, tuple([given[i] for i in reads]))
            for i, t in zip(places, made, strict=True):
                moved[i] = t
        return moved[0] if self.single else tuple(moved)

    def _forward(self, key: Key, rules: Rules = None) -> Derived:
        """The tangents of the outputs that move."""
        wrt = self.chosen(key)
        seeds = [blank(types.spec_of(x), _labelled("t_", x)) for x in wrt]
        made = forward.push_forward(self.outputs, wrt, seeds, record=True, rules=rules)
        places = [i for i, t in enumerate(made) if t is not None]
        found = [t for t in made if t is not None]
        return derived(f"{self.name}_jvp", [*self.leaves, *seeds], found, places)

    # Many examples

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        specs = [types.spec_of(x) for x in inputs]
        shapes = key_of(specs)
        key = ("batch", batched, shapes)
        many = None if shapes is None else self.known.get(key)
        if many is None:
            many = self._many(specs, batched)
        if shapes is not None:  # which unknown lengths are equal differs by call
            self.known[key] = many
        return apply(many, inputs)

    def _many(self, specs: Sequence[Spec], batched: Sequence[bool]) -> Whole:
        leaves = [blank(s, x.name) for s, x in zip(specs, self.leaves, strict=True)]
        leaves = blanks(leaves)  # a length of the program outside is none of its own
        return Whole(
            self.name, leaves, vectorized(self.program, leaves, tuple(batched))
        )


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
    """The outputs of a whole op, one or several, in a list.

    A masked cotangent meets the ops inside, where 0 must win over infinity.
    """
    if any(isinstance(x, MaskedTensor) for x in inputs):
        return op.program(inputs)
    if op.single:
        return [apply(op, inputs)]
    return list(define.several(op, inputs))


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
