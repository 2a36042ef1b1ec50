"""The rules of a user's op, and the op for many examples at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, islice, repeat
from typing import Any

import numpy as np

from workbench import errors
from workbench.autodiff import reverse
from workbench.autodiff.call import run_examples
from workbench.core import dims
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Params, Spec, spec_of
from workbench.custom.registry import get_gradient
from workbench.ops import define
from workbench.ops.define import shape_of
from workbench.ops.device import make_zeros
from workbench.overrides.node import has_derivative
from workbench.overrides.rule_errors import check_signature, name_of_rule
from workbench.overrides.rules import Runner, UserRule
from workbench.overrides.targets import join_names


class OpRunner(Runner):
    """The rules of an op that a user has made, or the registered one.

    Its ``pull`` and ``push`` become those of the op.

    Parameters
    ----------
    op, vjp, jvp, more
        As `Runner` has them.
    cure
        What to write where the op has no derivative at all.
    key
        The key of its registered gradient.
    """

    def __init__(
        self,
        op: Op,
        vjp: Any = None,
        jvp: Any = None,
        cure: str = "",
        key: Any = None,
        **more: Any,
    ) -> None:
        super().__init__(op, vjp, jvp, **more)
        self.cure = cure
        self.key = op.name if key is None else key
        op.pull, op.push, op.reads = self.pull, self.push, None
        op.rule = " · ".join(name_of_rule(r) for r in (vjp, jvp) if r is not None) or (
            "the gradient registered for it"
        )

    def find_rule(self) -> Any:
        """Return the rule that is registered for the op."""
        found = get_gradient(self.key)
        if found is None:
            raise errors.NotDifferentiableError(
                f"{self.op.name} has no derivative. {self.cure}".rstrip()
            )
        return found

    def check_signature(self, rule: UserRule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        own = self.vjp is not None or self.jvp is not None
        kind = errors.UsageError if own else errors.RegistrationError
        check_signature(rule, count, self.op.name, kind, what)


# A user's op for many examples at once.
#
# Its value is that of each example. Its rules are recorded on one example and run on
# all of them; one that looks at values, and so cannot be recorded without them, runs
# example by example. What a rule gives for an input that all examples share is summed.

Run = Callable[[Sequence[Any]], Sequence[Any]]


class BatchedOp(Op):
    """The op that computes another for each example.

    Parameters
    ----------
    op
        An op with `compute`, `infer`, `pull` and `push`.
    batched
        For each input whether it has the axis of the batch in front.
    run
        What the op computes in terms of other ops, flat, if that is known.
    """

    def __init__(self, op: Op, batched: tuple[bool, ...], run: Run | None = None):
        super().__init__(op.name)
        self.custom = True
        self.cure, self.rule, self.reads = op.cure, op.rule, None
        self.connection, self.maker = op.connection, op.maker
        self.example_op, self.batched, self.run = op, batched, run
        self.compute, self.infer = self._compute, self._infer
        self.pull, self.push = self._pull, self._push
        self.batch = self._batch
        self.pattern = self._relate
        self.graphs = None if op.graphs is None else self._graphs

    def __reduce__(self) -> Any:
        return BatchedOp, (self.example_op, self.batched, self.run)

    def _examples(self, values: Sequence[Any]) -> list[Spec]:
        """Return the specs of one example."""
        given = [x if isinstance(x, Spec) else spec_of(x) for x in values]
        return [Spec(s.shape[1:], s.dtype) if b else s
                for s, b in zip(given, self.batched, strict=True)]  # fmt: skip

    @property
    def has_own_rule(self) -> bool:
        """True if the op of one example has a rule of its own."""
        return self.example_op.has_own_rule

    def _graphs(self, inputs: Sequence[Any], params: Params) -> Sequence[Graph]:
        graphs: Any = self.example_op.graphs
        found: Sequence[Graph] = graphs(self._examples(inputs), params)
        return found

    def _compute(self, *arrays: Any, **params: Any) -> Any:
        batched, run, several = self.batched, self.run, False
        if is_empty(arrays, batched):
            return make_empty(self._infer(*arrays, **params), arrays, batched)

        def run_example(values: Sequence[Any]) -> Sequence[Any]:
            nonlocal several
            found = self.example_op.compute(*values, **params)
            several = isinstance(found, tuple)
            return as_tuple(found)

        rows = None if run is None else record_one(run, arrays, batched)
        if rows is None:
            rows = run_each(run_example, arrays, batched)
        return pack(rows, several or len(rows) > 1)

    def _infer(self, *specs: Any, **params: Any) -> Any:
        size = count_examples(specs, self.batched)
        infer: Any = self.example_op.infer
        found = infer(*self._examples(specs), **params)
        made = [Spec((size, *s.shape), s.dtype) for s in as_tuple(found)]
        return pack(made, isinstance(found, tuple))

    def _relate(self, node: Any) -> Any:
        """Return the relations of a node: each example reads its own entries."""
        from workbench.autodiff.sparse.rules import relate
        from workbench.custom.dependence import relate_examples

        if any(shape is None for shape in node.shapes):
            return None
        op, examples = self.example_op, self._examples(node.specs)
        return relate_examples(
            node, self.batched, examples, lambda one: relate(one.replace_op(op))
        )

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        return apply(BatchedOp(self, batched), inputs, params)

    def _run_rule(
        self, rule: UserRule, inputs: Any, y: Any, arriving: Any, on: Any
    ) -> Any:
        """Run a rule ``(inputs, outputs, arriving)`` of one example on all.

        None among what arrives stays None; ``on`` says what of it is batched.
        """
        ys, present = as_tuple(y), [c is not None for c in arriving]
        values = [*inputs, *ys, *compress(arriving, present)]
        flags = [*self.batched, *[True] * len(ys), *compress(on, present)]

        def run_rule(given: Sequence[Any]) -> Sequence[Any]:
            rest = iter(given)
            xs, outputs = tuple(islice(rest, len(inputs))), list(islice(rest, len(ys)))
            arrived = tuple([next(rest) if there else None for there in present])
            held = pack(outputs, isinstance(y, tuple))
            return list(rule(xs, held, arrived))

        return run_all(run_rule, values, flags)

    def _pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params,
        *inside: Any,
    ) -> list[Any]:  # fmt: skip
        found: list[Any] = [None] * len(inputs)
        wanted = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        if is_empty(inputs, self.batched):
            return [np.zeros_like(x) if i in wanted else None
                    for i, x in enumerate(inputs)]  # fmt: skip
        pull: Any = self.example_op.pull

        def rule(xs: Any, held: Any, gs: Any) -> list[Any]:
            arrived = define.Parts(gs) if isinstance(y, tuple) else gs[0]
            passed = pull(mask, arrived, held, xs, params, *inside)
            return [
                None if passed[i] is None else reverse.fit_cotangent(passed[i], xs[i])
                for i in wanted
            ]

        rows = self._run_rule(rule, inputs, y, as_tuple(g), repeat(True))
        for i, c in zip(wanted, rows, strict=True):
            found[i] = c if self.batched[i] or c is None else np.sum(c, axis=0)
        return found

    def _push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...],
        params: Params, *inside: Any,
    ) -> Any:  # fmt: skip
        several, push = isinstance(y, tuple), self.example_op.push
        if is_empty(inputs, self.batched):
            return pack(list(map(np.zeros_like, as_tuple(y))), several)

        def rule(xs: Any, held: Any, ts: Any) -> Any:
            assert push is not None
            return as_tuple(push(ts, held, xs, params, *inside))

        rows = self._run_rule(rule, inputs, y, tangents, self.batched)
        return pack(rows, several)


def as_tuple(made: Any) -> Sequence[Any]:
    """Return the outputs of an op as a tuple, also a single one."""
    return made if isinstance(made, tuple) else (made,)


def pack(rows: Sequence[Any], several: bool) -> Any:
    """Return a tuple of the outputs if there are several, else the single one."""
    return tuple(rows) if several else rows[0]


def count_examples(values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """Return how many examples there are."""
    return next(shape_of(v)[0] for v, b in zip(values, batched, strict=True) if b)


def is_empty(values: Sequence[Any], batched: Sequence[bool]) -> bool:
    """Return whether there is no example; an unknown length is taken for more."""
    size = count_examples(values, batched)
    return isinstance(size, int) and size == 0


def make_empty(spec: Any, values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """Return the results of no example at all, of the library of the values."""
    like = next(v for v, b in zip(values, batched, strict=True) if b)
    if isinstance(spec, tuple):
        return tuple(make_empty(part, values, batched) for part in spec)
    return make_zeros(like, spec.shape, spec.dtype)


def run_all(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Return the outputs of all examples, recorded on one where that can be done.

    None, for a derivative that does not exist, stays None.
    """
    made: list[Any] = []

    def drop_nones(values: Sequence[Any]) -> list[Any]:
        made[:] = run(values)
        return [y for y in made if y is not None]

    found = record_one(drop_nones, values, batched)
    if found is None:
        return run_each(run, values, batched)
    rows = iter(found)
    return [None if y is None else next(rows) for y in made]


def record_one(
    run: Run, values: Sequence[Any], batched: Sequence[bool]
) -> list[Any] | None:
    """Return outputs by a program recorded on one example; None if values decide."""
    try:
        return run_examples(run, values, batched)
    except (errors.TraceError, IndexError):
        return None  # an IndexError: an array is indexed by what differs


def run_each(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Return the outputs, computed example by example and stacked."""
    size = count_examples(values, batched)
    rows = [
        list(run([v[k] if b else v for v, b in zip(values, batched, strict=True)]))
        for k in range(size)
    ]
    return [stack_examples(column) for column in zip(*rows, strict=True)]


def stack_examples(column: Sequence[Any]) -> Any:
    """Return the results of the examples along a new axis 0; None if all are None."""
    some = next((c for c in column if c is not None), None)
    if some is None:
        return None
    parts = [np.zeros_like(some) if c is None else c for c in column]
    shapes = list(dict.fromkeys(map(shape_of, parts)))
    if len(shapes) > 1 and not any(map(dims.has_dim, shapes)):
        raise errors.ShapeError(
            "the examples of a batch give arrays of shapes"
            f" {join_names(list(map(str, shapes)))}, and wb.vmap makes one array of"
            " them all. Give arrays of one shape, padded perhaps, or write a loop."
        )
    if any(isinstance(c, Tensor) for c in parts):
        return np.stack(parts)
    return np.stack([value_of(c) for c in parts])
