"""Batching: a program recorded on one example runs on many at once.

The program was traced on specs, so no value is looked at; it runs with the batch axis
first. A node that depends on a batched leaf goes through its op's ``batch`` rule, or,
where there is none, a loop over the batch. Everything goes through `apply`: what comes
out is plain where no Tensor takes part, and a further program otherwise, so batching
nests with derivatives. A function of arrays is recorded on one example first; one that
looks at values runs example by example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff.steps import defer_batch
from workbench.core import dims, source, walk
from workbench.core.deferred import DeferredOp, operand_shape
from workbench.core.dims import Dim
from workbench.core.graph import Graph
from workbench.core.infer import infer_spec
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, next_serial, value_of
from workbench.core.trace import record
from workbench.core.types import Array, Spec, Specs
from workbench.errors import ShapeError, TraceError, UnknownLengthError
from workbench.ops import define
from workbench.ops.define import ITEM, shape_of

#: What a length counts in bytes that only the run tells: the steps of an inner loop.
TYPICAL = 100


class Structured:
    """Many examples in a form smaller than the array of them (see `linear_map.py`).

    ``advance`` knows the ops that keep the form; ``dense`` gives the array.
    """

    __slots__ = ()

    def advance(
        self, node: Tensor, inputs: tuple[Any, ...], batched: tuple[bool, ...]
    ) -> Any | None:
        """Return the result of a node in a form of its own; None: use the array."""
        raise NotImplementedError

    def dense(self) -> Array:
        """Return the array, batch axis first."""
        raise NotImplementedError


def run_batch(graph: Graph, values: Sequence[Any], size: int | Dim) -> list[Any]:
    """Return the outputs of a program for many examples.

    The batch axis comes first in each output that depends on a leaf (`Graph.varying`).

    Parameters
    ----------
    graph
        A program recorded on one example.
    values
        For each leaf an array or Tensor of ``size`` examples, or a `Structured` form
        of one.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.exp(-x) * 2)(wb.Spec((), np.float64))
    >>> run_batch(graph, [np.zeros(3)], 3)
    [array([2., 2., 2.])]
    """
    varying = graph.schedule.varying

    def run_step(node: Tensor, inputs: tuple[Any, ...]) -> Any:
        batched = tuple(
            [isinstance(x, Tensor) and x.serial in varying for x in node.inputs]
        )
        for x in inputs:
            if isinstance(x, Structured):
                advanced = x.advance(node, inputs, batched)
                if advanced is not None:
                    return advanced
                inputs = tuple(map(_as_dense, inputs))
                break
        recording = any(isinstance(x, Tensor) for x in inputs)
        before = next_serial() if recording else 0
        op, params = node.op, node.params
        try:
            if op is ITEM:  # takes one out of a tuple of batched arrays
                result = apply(op, inputs, params)
            else:
                result = apply_rule(op, inputs, batched, params, size)
        except UnknownLengthError:
            if isinstance(op, DeferredOp):
                raise
            result = defer_batch(op, inputs, batched, params)
        if recording and isinstance(result, Tensor) and node.origin is None:
            if result.serial > before + 1:
                _mark_helpers(result, node.op, before)
        return result

    return [_as_dense(y) for y in graph.run(values, run_step)]


def count_bytes(graph: Graph) -> int:
    """Return the most bytes that the values of one example take at any time."""
    slots = dict(
        zip(graph.schedule.inputs, map(_count_value_bytes, graph.leaves), strict=True)
    )
    alive = peak = sum(slots.values())
    for node, _, out, forgets in graph.schedule.steps:
        size = _count_value_bytes(node)
        peak = max(peak, alive + size)
        alive += size - slots.get(out, 0)
        slots[out] = size
        alive -= sum(slots.pop(i, 0) for i in forgets)
    return max(peak, 1)


def apply_rule(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """Apply an op by its rule for batches, or example by example."""
    if type(op) is DeferredOp:
        many = operand_shape(next(x for x, b in zip(inputs, batched, strict=True) if b))
        count = op.count
        op, inputs, params = op.measure_lengths(inputs, params, batched)
        return apply_to_examples(op, inputs, batched[:count], params, many[0])
    batch = "aligned" if op.elementwise and op.batch is None else op.batch
    if isinstance(batch, str):
        return define.BATCHES[batch](op, inputs, batched, params)
    made = NotImplemented if batch is None else batch(inputs, batched, params)
    if made is NotImplemented:
        return _apply_in_loop(op, inputs, batched, params, size)
    return made


def apply_to_examples(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """Apply an op to ``size`` examples, batch axis first in its result too."""
    if any(batched):
        try:
            return apply_rule(op, inputs, batched, params, size)
        except UnknownLengthError:
            if dims.has_dim(size) or any(dims.has_dim(shape_of(x)) for x in inputs):
                return defer_batch(op, inputs, batched, params)
            raise
    made = apply(op, inputs, params)
    parts = define.split_outputs(made) if isinstance(made, Tensor) else made
    if isinstance(parts, tuple):
        return tuple(np.broadcast_to(y, (size, *shape_of(y))) for y in parts)
    return np.broadcast_to(parts, (size, *shape_of(parts)))


def _apply_in_loop(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: int,
) -> Any:
    """Run an op without a rule for batches, example by example."""
    if size == 0:
        pairs = list(zip(inputs, batched, strict=True))
        example = tuple([example_spec(x, 0) if b else x for x, b in pairs])
        like = next(x for x, b in pairs if b)
        like = value_of(like[0] if isinstance(like, tuple) else like)
        return make_empty(infer_spec(op, example, params), like)

    def call(*values: Any) -> Any:
        made = apply(op, values, params)
        return define.split_outputs(made) if isinstance(made, Tensor) else made

    return call_each(call, inputs, batched)


def make_empty(spec: Specs, like: Any) -> Any:
    """Return the results of no example at all, of the library of an array.

    ``spec`` is that of one example.
    """
    if isinstance(spec, tuple):
        return tuple(make_empty(part, like) for part in spec)
    return np.zeros_like(like, dtype=spec.dtype, shape=(0, *spec.shape))


def _take_example(x: Any, k: int) -> Any:
    return tuple([part[k] for part in x]) if isinstance(x, tuple) else x[k]


def _as_dense(x: object) -> Any:
    return x.dense() if isinstance(x, Structured) else x


def _mark_helpers(out: Tensor, op: Op, before: int) -> None:
    """Say which nodes are not ops of the user's: all but the op itself.

    Those only turn its operands and its result, and an override of a scope, which
    means the op, must not run at each of them too.
    """
    made = walk.order_nodes([out], before)
    own = [out]
    if out.op.name != op.name:  # example by example it is there many times
        own = [x for x in made if x.op.name == op.name] or own
    kept = {x.serial for x in own}
    for x in made:
        if x.serial not in kept:
            x.context = (x.context or source.Context())._replace(helper=True)


def _count_value_bytes(x: Tensor) -> int:
    """Return the bytes of a Tensor's value, in a program traced on specs."""
    spec: Any = x.spec
    specs = spec if isinstance(spec, tuple) else (spec,)
    shapes = [[n if isinstance(n, int) else TYPICAL for n in s.shape] for s in specs]
    return sum(
        prod(shape) * s.dtype.itemsize for shape, s in zip(shapes, specs, strict=True)
    )


def example_spec(x: Array, axis: int) -> Spec:
    """Return the spec of one example."""
    shape = shape_of(x)
    return Spec(shape[:axis] + shape[axis + 1 :], np.dtype(x.dtype))


# Functions of arrays, for many examples.

Run = Callable[[Sequence[Any]], Sequence[Any]]


def run_examples(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Return the outputs for many examples: axis 0 of the values that are ``batched``.

    Every output carries the batch axis first. The function is recorded on one.

    Raises
    ------
    TraceError
        If it looks at values.
    """
    chosen = [i for i, b in enumerate(batched) if b]
    size = values[chosen[0]].shape[0]
    specs = [Spec(values[i].shape[1:], values[i].dtype) for i in chosen]

    def call(inner: list[Tensor]) -> list[Any]:
        filled = list(values)
        for i, x in zip(chosen, inner, strict=True):
            filled[i] = x
        return list(run(filled))

    made = record(call, specs)
    outputs = run_batch(made, [values[i] for i in chosen], size)
    return [
        y if b else np.broadcast_to(y, (size, *shape_of(y)))
        for y, b in zip(outputs, made.varying, strict=True)
    ]


def map_examples(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Return the same; of a function that looks at values example by example.

    An output that is None, a derivative that does not exist, stays None.
    """
    made: list[Any] = []

    def drop_nones(values: Sequence[Any]) -> list[Any]:
        made[:] = run(values)
        return [y for y in made if y is not None]

    try:
        rows = iter(run_examples(drop_nones, values, batched))
    except (TraceError, IndexError):  # an array is indexed by what differs
        found = call_each(lambda *xs: tuple(run(xs)), values, batched)
        return list(found)
    return [None if y is None else next(rows) for y in made]


def count_examples(values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """Return how many examples there are."""
    x = next(x for x, b in zip(values, batched, strict=True) if b)
    return shape_of(x[0] if isinstance(x, tuple) else x)[0]


def call_each(
    call: Callable[..., Any], values: Sequence[Any], batched: Sequence[bool]
) -> Any:
    """Return the results of a function on each example, stacked.

    A tuple of outputs stays a tuple.
    """
    rows = [
        call(
            *[
                _take_example(x, k) if b else x
                for x, b in zip(values, batched, strict=True)
            ]
        )
        for k in range(count_examples(values, batched))
    ]
    if isinstance(rows[0], tuple):
        return tuple([_stack_examples(column) for column in zip(*rows, strict=True)])
    return _stack_examples(rows)


def _stack_examples(column: Sequence[Any]) -> Any:
    """Return the results of the examples along a new axis 0; None if all are None."""
    some = next((c for c in column if c is not None), None)
    if some is None:
        return None
    parts = [np.zeros_like(some) if c is None else c for c in column]
    shapes = list(dict.fromkeys(map(shape_of, parts)))
    if len(shapes) > 1 and not any(map(dims.has_dim, shapes)):
        told = ", ".join(map(str, shapes[:12])) + (", …" if len(shapes) > 12 else "")
        raise ShapeError(
            f"the examples of a batch give arrays of shapes {told}, and wb.vmap makes"
            " one array of them all. Give arrays of one shape, padded perhaps, or write"
            " a loop."
        )
    if any(isinstance(c, Tensor) for c in parts):
        return np.stack(parts)
    return np.stack([value_of(c) for c in parts])
