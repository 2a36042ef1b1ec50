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
from functools import cache
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff.steps import defer_batch
from workbench.core import dims, source, types, walk
from workbench.core.deferred import LengthParams, measure_lengths, operand_shape
from workbench.core.dims import Dim
from workbench.core.graph import Graph
from workbench.core.infer import infer_spec
from workbench.core.op import Op, declare
from workbench.core.tensor import (
    BATCHES,
    IDENTITY,
    MASKED,
    NO_PARAMS,
    MaskedTensor,
    Tensor,
    apply,
    next_serial,
    value_of,
)
from workbench.core.trace import record
from workbench.core.types import Array, ArrayLike, Spec, Specs
from workbench.errors import (
    ShapeError,
    TraceError,
    UnknownLengthError,
    WorkbenchError,
)
from workbench.ops import define
from workbench.ops.contraction import MATMUL
from workbench.ops.define import ITEM, shape_of

MULTIPLY: Any = declare("multiply")
RESHAPE = declare("reshape")


def run_batch(graph: Graph, values: Sequence[Any], size: int | Dim) -> list[Any]:
    """Return the outputs of a program for many examples.

    The batch axis comes first in each output that depends on a leaf (`Graph.varying`).

    Parameters
    ----------
    graph
        A program recorded on one example.
    values
        For each leaf an array or Tensor of ``size`` examples.

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
        recording = any(isinstance(x, Tensor) for x in inputs)
        before = next_serial() if recording else 0
        result = _apply_batched(node.op, inputs, batched, node.params, size)
        if recording and isinstance(result, Tensor) and node.origin is None:
            if result.serial > before + 1:
                _mark_helpers(result, node.op, before)
        return result

    return graph.run(values, run_step)


def _apply_batched(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """Apply an op to many examples; a node does so later if a length is unknown."""
    try:
        if op is ITEM:  # takes one out of a tuple of batched arrays
            return apply(op, inputs, params)
        return apply_rule(op, inputs, batched, params, size)
    except UnknownLengthError:
        if type(params) is LengthParams:
            raise
        return defer_batch(op, inputs, batched, params)


def apply_rule(
    op: Op,
    inputs: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
    size: Any,
) -> Any:
    """Apply an op by its rule for batches, or example by example."""
    if type(params) is LengthParams:
        many = operand_shape(next(x for x, b in zip(inputs, batched, strict=True) if b))
        inputs, params = measure_lengths(inputs, params, batched)
        return apply_to_examples(op, inputs, batched[: len(inputs)], params, many[0])
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


def example_spec(x: Array, axis: int) -> Spec:
    """Return the spec of one example."""
    shape = shape_of(x)
    return Spec(shape[:axis] + shape[axis + 1 :], np.dtype(x.dtype))


# Many examples as one Tensor: nothing is recorded, each op runs at once.
#
# A sweep that starts from such Tensors, a batch of unit vectors for one, calls each
# rule once. To the rule they are Tensors without value, as in a program that is
# recorded on one example; what it computes from them is computed for all examples.


class BatchTensor(Tensor):
    """Many examples of one value, of which it has the shape and the dtype.

    >>> made = hold_batch(np.ones((5, 3)))
    >>> made.shape, np.sum(made).examples
    ((3,), array([3., 3., 3., 3., 3.]))
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        BATCHES.add(cls)

    @property
    def examples(self) -> Any:
        """The examples along axis 0; a `Diagonal`, or a tuple of several outputs."""
        return self.args[0]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of one example."""
        return tuple(self.args[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        found: np.dtype[Any] = np.dtype(self.args[0].dtype)
        return found

    spec: Any = property(lambda self: _spec_of_examples(self.examples))

    def run(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Return the result of an op that some examples are operands of."""
        batched = tuple([type(x) in BATCHES for x in inputs])
        for x, is_batch in zip(inputs, batched, strict=True):
            if not is_batch and isinstance(x, Tensor) and x._value is None:
                # A program that is being recorded has no place for many examples.
                raise UnrecordedError(f"{op.name} waits for a value")
        kind = BatchTensor if MASKED.isdisjoint(map(type, inputs)) else MaskedBatch
        given = [x.args[0] if b else x for x, b in zip(inputs, batched, strict=True)]
        for x in given:
            if type(x) is Diagonal:
                made = x.advance(op, given, batched, params)
                if made is not None:
                    return hold_batch(made, kind)
                given = [y.dense() if type(y) is Diagonal else y for y in given]
                break
        size = count_examples(given, batched)
        with np.errstate(all="ignore"):  # the program itself has warned already
            made = _apply_batched(op, tuple(given), batched, params, size)
        return hold_batch(made, kind)

    def mask(self) -> MaskedBatch:
        """Return the examples flagged as a `MaskedTensor`."""
        made: MaskedBatch = hold_batch(self.examples, MaskedBatch)
        return made


BATCHES.add(BatchTensor)


class UnrecordedError(WorkbenchError):
    """A rule reads the program of a sweep, and a sweep of many examples has none.

    No `TraceError`: rules that meet one of those go on in ways of their own.
    """


class MaskedBatch(BatchTensor, MaskedTensor):
    """Many examples of a cotangent that has left a `where` or a mask."""

    __slots__ = ()


def hold_batch(examples: Any, kind: type[Tensor] = BatchTensor) -> Any:
    """Return a Tensor of many examples, along axis 0 of an array or in a `Diagonal`."""
    held = examples.entries if type(examples) is Diagonal else examples
    inputs = (held,) if isinstance(held, Tensor) else ()  # as its provenance
    return kind(IDENTITY, inputs, (examples,), NO_PARAMS, None)


def read_batch(y: Any, size: Any, since: int) -> Any:
    """Return an array of all examples of what was computed from some made ``since``.

    What depends on none of them is repeated. What has been recorded all the same, since
    it was written to or needs a length, runs now.
    """
    if type(y) in BATCHES:
        examples = y.examples
        return examples.dense() if type(examples) is Diagonal else examples
    if isinstance(y, Tensor) and y._value is None:
        nodes = walk.order_nodes([y], since)
        leaves: list[Any] = [x for x in nodes if type(x) in BATCHES]
        if leaves:
            values = [read_batch(x, size, since) for x in leaves]
            return run_batch(Graph(leaves, [y]), values, size)[0]
    return np.broadcast_to(y, (size, *shape_of(y)))


def _spec_of_examples(examples: Any) -> Specs:
    """Return the spec of one of many examples."""
    parts = define.split_outputs(examples) if isinstance(examples, Tensor) else examples
    if isinstance(parts, tuple):
        return tuple([example_spec(part, 0) for part in parts])
    return example_spec(parts, 0)


# Unit vectors that stay diagonal as long as they can.
#
# A Jacobian starts from an identity matrix. Rules that work entry by entry keep it
# diagonal, and a product with a matrix only picks and scales its rows: so the
# first dense product is never computed, and what is zero by structure stays zero,
# be the partial derivatives beside it infinite.


class Diagonal:
    """Example ``i`` is zero but for entry ``start + i``, which is ``entries[i]``.

    ``example`` is the shape of one, and ``like`` an array of the same library.

    >>> units = Diagonal(np.array([5.0, 6.0]), (3,), 1, np.float64(0))
    >>> units.dense()
    array([[0., 5., 0.],
           [0., 0., 6.]])
    """

    __slots__ = ("_array", "dtype", "entries", "example", "like", "shape", "start")

    def __init__(
        self, entries: Array, example: tuple[Any, ...], start: int, like: ArrayLike
    ) -> None:
        self.entries = entries
        self.example = example
        self.start = start
        self.like = like
        #: Those of the array of all examples.
        self.shape = (shape_of(entries)[0], *example)
        self.dtype = np.dtype(entries.dtype)
        self._array: Array | None = None

    def __mul__(self, number: complex) -> Diagonal:
        return Diagonal(self.entries * number, self.example, self.start, self.like)

    def dense(self) -> Array:
        """Return the array, one example per row."""
        if self._array is None:
            count, width = self.shape[0], prod(self.example)
            entries = self.entries
            array = np.zeros_like(
                self.like, dtype=entries.dtype, order="C", shape=(count, width)
            )
            # A strided view of the diagonal, which CuPy knows too.
            array.reshape(-1)[self.start :: width + 1][:count] = (
                1 if isinstance(entries, Tensor) else entries
            )
            if isinstance(entries, Tensor):
                array = apply(MULTIPLY.masked, (array, entries[:, None]))
            self._array = np.reshape(array, (count, *self.example))
        return self._array

    def advance(
        self,
        op: Op,
        inputs: Sequence[Any],
        batched: Sequence[bool],
        params: dict[str, Any],
    ) -> Any | None:
        """Return the result of an op as it is smallest; None: use the array."""
        if op is MATMUL or op is MATMUL.masked:
            if sum(batched) > 1:
                return None  # the other operand has examples of its own
            multiply = MULTIPLY if op is MATMUL else MULTIPLY.masked
            return _scale_rows(inputs, multiply)
        example = self.example
        if op is RESHAPE and params.get("order", "C") == "C":
            example = infer_spec(op, (Spec(example, self.dtype),), params).shape
            return Diagonal(self.entries, example, self.start, self.like)
        if not _keeps_zeros(op, inputs, params):
            return None
        for x, varies in zip(inputs, batched, strict=True):
            if type(x) is Diagonal:
                if x.example != example:
                    return None
            elif varies or not _fits_into(shape_of(x), example):
                return None
        entries = apply(op, tuple(map(self.pick, inputs)), params)
        return Diagonal(entries, example, self.start, self.like)

    def pick(self, x: Any) -> Any:
        """Return the entries of an operand that meet the diagonal."""
        if type(x) is Diagonal:
            return x.entries
        if types.is_weak(x) or shape_of(x) == ():
            return x
        if shape_of(x) != self.example:
            x = np.broadcast_to(x, self.example)
        if len(self.example) != 1:
            x = np.reshape(x, (-1,))
        count = self.shape[0]
        return x if count == shape_of(x)[0] else x[self.start : self.start + count]


def _fits_into(shape: tuple[Any, ...], example: tuple[Any, ...]) -> bool:
    """Return whether arrays of these shapes have a result of the second shape."""
    pairs = zip(reversed(shape), reversed(example), strict=False)
    return len(shape) <= len(example) and all(n in (1, m) for n, m in pairs)


def _scale_rows(inputs: Sequence[Any], multiply: Op) -> Any | None:
    """Return ``d @ W`` and ``W @ d`` for unit vectors d: rows or columns of W."""
    left, right = inputs
    if type(left) is Diagonal and type(right) is Diagonal:
        return None
    units = left if type(left) is Diagonal else right
    matrix = right if units is left else left
    if len(units.example) != 1 or len(shape_of(matrix)) != 2:
        return None
    if units is right:
        matrix = np.swapaxes(matrix, 0, 1)
    count = units.shape[0]
    rows = matrix[units.start : units.start + count]
    return apply(multiply, (rows, units.entries[:, None]))


def _keeps_zeros(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return whether an op works entry by entry, and is 0 off the diagonal."""
    if not op.elementwise or op.custom:
        return False
    places = [i for i, x in enumerate(inputs) if type(x) is Diagonal]
    if all(i in op.carries for i in places):  # times, or divided by, what may be
        return True
    start = 0 if op.joins is None else op.joins
    zero = [type(x) is Diagonal or (types.is_weak(x) and x == 0) for x in inputs]
    if places[0] < start or not all(zero[start:]):
        return False
    return op.joins is not None or (not params and _is_zero_at_zero(op, len(inputs)))


@cache
def _is_zero_at_zero(op: Op, count: int) -> bool:
    with np.errstate(all="ignore"):
        return bool(op.compute(*(np.float64(0),) * count) == 0)


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
