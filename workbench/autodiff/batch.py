"""Batching: a program recorded on one example runs on many at once; `vmap`.

The function is traced on specs, so no value is looked at; then its graph runs again,
with the batch axis first. A node that depends on a batched leaf
goes through its op's ``batch`` rule, or, where there is none, a loop over the
batch. Everything goes through `apply`: what comes out is plain where no Tensor
takes part, and a further program otherwise, so batching nests with derivatives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff.recorded_call import detach, ensure_owned, record_draws
from workbench.core import dims, hooks, source, tree, types, walk
from workbench.core.deferred import Late, Place, shape_at
from workbench.core.dims import Atom
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, infer, next_serial, value_of
from workbench.core.trace import ArgumentNames, check_function, record
from workbench.core.types import Spec
from workbench.errors import ShapeError, UnknownLengthError, UsageError
from workbench.ops import define
from workbench.ops.define import batch_elementwise, shape_of

#: What a length counts in bytes that only the run tells: the steps of an inner loop.
TYPICAL = 100


class Structured:
    """Many examples in a form smaller than the array of them (see `linear_map.py`).

    ``advance`` knows the ops that keep the form; ``dense`` gives the array.
    """

    __slots__ = ()

    def advance(self, node: Tensor, inputs: tuple[Any, ...], mask: int) -> Any | None:
        """The result of a node in a form of its own; None: use the array."""
        raise NotImplementedError

    def dense(self) -> Any:
        """The array, batch axis first."""
        raise NotImplementedError


def run_batch(graph: Graph, values: Sequence[Any], size: Any) -> list[Any]:
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

    def observe(node: Tensor, operands: tuple[Any, ...]) -> Any:
        mask, bit = 0, 1
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in varying:
                mask |= bit
            bit += bit
        return _run_step(node, operands, mask, size)

    return [_dense(y) for y in graph.run(values, observe)]


def count_bytes(graph: Graph) -> int:
    """Return the most bytes that the values of one example take at any time."""
    slots = dict(zip(graph.schedule.inputs, map(_bytes, graph.leaves), strict=True))
    alive = peak = sum(slots.values())
    for node, _, out, forgets in graph.schedule.steps:
        size = _bytes(node)
        peak = max(peak, alive + size)
        alive += size - slots.get(out, 0)
        slots[out] = size
        alive -= sum(slots.pop(i, 0) for i in forgets)
    return max(peak, 1)


def _run_step(node: Tensor, inputs: tuple[Any, ...], mask: int, size: Any) -> Any:
    """Compute one node of the program for all examples."""
    for x in inputs:
        if isinstance(x, Structured):
            kept = x.advance(node, inputs, mask)
            if kept is not None:
                return kept
            inputs = tuple(map(_dense, inputs))
            break
    recording = any(isinstance(x, Tensor) for x in inputs)
    before = next_serial() if recording else 0
    out = _apply_batched(node, inputs, mask, size)
    if recording and isinstance(out, Tensor) and node.origin is None:
        if out.serial > before + 1:
            _tell_helpers(out, node.op, before)
    return out


def _apply_batched(node: Tensor, inputs: tuple[Any, ...], mask: int, size: Any) -> Any:
    op, params = node.op, node.params
    if op.name == "item":  # takes one out of a tuple whose every array is batched
        return apply(op, inputs, params)
    batched = tuple([bool(mask >> i & 1) for i in range(len(inputs))])
    try:
        return _ruled(op, inputs, batched, params, size)
    except UnknownLengthError:
        if isinstance(op, Late):
            raise
        return hooks.batch_late(op, inputs, batched, params)


def _ruled(
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
        batch = batch_elementwise(op)
    if batch is None:
        return _loop(op, inputs, batched, params, size)
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
            return _ruled(op, inputs, batched, params, size)
        except UnknownLengthError:
            if dims.found(size) or any(dims.found(shape_of(x)) for x in inputs):
                return hooks.batch_late(op, inputs, batched, params)
            raise
    made = apply(op, inputs, params)
    parts = define.outputs(made) if isinstance(made, Tensor) else made
    if isinstance(parts, tuple):
        return tuple(np.broadcast_to(y, (size, *shape_of(y))) for y in parts)
    return np.broadcast_to(parts, (size, *shape_of(parts)))


def _loop(
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
        return _empty(infer(op, example, params), next(x for x, b in pairs if b))
    rows = [
        apply(
            op,
            tuple(
                [
                    _example(x, k) if b else x
                    for x, b in zip(inputs, batched, strict=True)
                ]
            ),
            params,
        )
        for k in range(size)
    ]
    if isinstance(rows[0], tuple) or define.many(rows[0]):
        split = [define.outputs(r) if isinstance(r, Tensor) else r for r in rows]
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
    shapes = [[n if isinstance(n, int) else TYPICAL for n in s.shape] for s in specs]
    return sum(
        prod(shape) * s.dtype.itemsize for shape, s in zip(shapes, specs, strict=True)
    )


# Which axis of which array counts the examples of a batch, checked.


def leaf_axes(
    args: tuple[Any, ...], in_axes: Any, names: ArgumentNames
) -> list[int | None]:
    """The batch axis of each leaf of the arguments, checked."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    per_argument = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    if len(per_argument) != len(args):
        raise UsageError(
            f"vmap: in_axes={in_axes!r} has {len(per_argument)} entries, the call"
            f" {len(args)} arguments. Give one entry per argument, None for one that"
            " all examples share."
        )
    axes: list[int | None] = []
    for given, value in zip(per_argument, args, strict=True):
        leaves = [] if value is None else tree.flatten(value)[0]
        for axis, x in zip(prefixed(given, value, "in_axes"), leaves, strict=True):
            array = hasattr(x, "shape") or types.weak(x)
            if axis is None or not array:
                axes.append(None)
                continue
            rank = len(shape_of(x))
            if not -rank <= axis < rank:
                raise UsageError(
                    f"vmap: in_axes={axis!r} for {names[len(axes)]}, of shape"
                    f" {shape_of(x)}: it has no such axis. Name one of its axes, or"
                    " None if all examples share it."
                )
            axes.append(axis % rank)
    return axes


def prefixed(given: Any, value: Any, what: str) -> list[int | None]:
    """One axis for each leaf of a nest; an axis holds for all leaves below it.

    >>> prefixed({"w": 0, "b": None}, {"w": (1.0, 2.0), "b": 3.0}, "in_axes")
    [None, 0, 0]
    """
    if value is None:
        return []  # a nest without leaves
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return [given] * len(tree.flatten(value)[0])
    parts = _children(value)
    named = _children(given)
    if parts is None or named is None or list(parts) != list(named):
        shown = "an array" if parts is None else f"{type(value).__name__} of"
        keys = "" if parts is None else f" {', '.join(map(str, parts)) or 'nothing'}"
        raise UsageError(
            f"vmap: {what}={given!r} does not fit {shown}{keys}. Give an axis, None,"
            " or axes nested as it is."
        )
    return [
        axis for key, part in parts.items() for axis in prefixed(named[key], part, what)
    ]


def _children(value: Any) -> dict[Any, Any] | None:
    """The parts of a nest by key, in the order of its leaves; None of a leaf."""
    if isinstance(value, dict):
        try:
            return {key: value[key] for key in sorted(value)}
        except TypeError:  # keys that have no order stand as they came
            return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Spec)):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def batch_size(
    leaves: Sequence[Any], axes: Sequence[int | None], names: ArgumentNames
) -> int:
    """How many examples there are; all arguments must agree."""
    found: dict[int, tuple[int, int]] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is not None:
            found.setdefault(shape_of(x)[axis], (i, axis))
    if not found:
        raise UsageError(
            "vmap: no argument has a batch axis. Give in_axes=0 for one that holds"
            " one example per row."
        )
    if len(found) > 1:
        told = [f"{names[i]} has {n} along axis {k}" for n, (i, k) in found.items()]
        raise ShapeError(
            f"vmap: the arguments hold different numbers of examples:"
            f" {', '.join(told)}. Give all the same length along their"
            " batch axis, or in_axes=None for one that all examples share."
        )
    return next(iter(found))


def example_spec(x: Any, axis: int) -> Spec:
    """What one example looks like."""
    shape = shape_of(x)
    return Spec(shape[:axis] + shape[axis + 1 :], np.dtype(x.dtype))


def front(x: Any, axis: int) -> Any:
    """The batch with its axis first."""
    return x if axis == 0 else np.moveaxis(x, axis, 0)


def output_axes(outputs: Any, out_axes: Any) -> list[int | None]:
    """One axis per leaf of the outputs."""
    if isinstance(out_axes, (tuple, list)) and (
        not isinstance(outputs, (tuple, list)) or len(outputs) != len(out_axes)
    ):
        count = len(outputs) if isinstance(outputs, (tuple, list)) else "no tuple of"
        raise UsageError(
            f"vmap: out_axes={out_axes!r} has {len(out_axes)} entries, the function"
            f" returns {count} outputs. Give one axis, or one entry per output."
        )
    return prefixed(out_axes, outputs, "out_axes")


def placed(y: Any, batched: bool, axis: int | None, size: int) -> Any:
    """An output with its batch axis where ``out_axes`` wants it."""
    if axis is None:
        if batched:
            raise UsageError(
                f"vmap: out_axes=None for an output of shape {shape_of(y)[1:]} that"
                " differs from example to example. Give the axis to put them along."
            )
        return y
    if not batched:
        y = np.broadcast_to(y, (size, *np.shape(value_of(y))))
    rank = len(shape_of(y))
    if not -rank <= axis < rank:
        raise UsageError(
            f"vmap: out_axes={axis} for an output of shape {shape_of(y)[1:]} in each"
            f" example: the result has {rank} axes. Name one of them."
        )
    return y if axis in (0, -rank) else np.moveaxis(y, 0, axis)


# Every example of a batch at once: `vmap`.

Function = Callable[..., Any]


def vmap(f: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """A function that runs ``f`` on every example of a batch at once.

    ``f`` is written for one example and traced once, on shapes alone; no Python
    loop over the examples runs, and no ``if`` may look at a value.

    Parameters
    ----------
    f
        A function of arrays or nests of them.
    in_axes
        The axis of the arguments that counts the examples; None for an argument
        that all examples share. A tuple gives one entry per argument; an entry
        holds for all arrays of a nested argument, or is nested as that is.
        Keyword arguments are shared.
    out_axes
        Where that axis goes in the result; a tuple gives one entry per output of
        a function that returns a tuple, and nests as for ``in_axes``. None: the
        same for all examples.

    Raises
    ------
    ShapeError
        If the arguments hold different numbers of examples.
    TraceError
        If ``f`` asks for a value, as Python's ``if`` does.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> W, X = np.ones((2, 3)), np.arange(12.0).reshape(4, 3)
    >>> wb.vmap(lambda W, x: W @ x, in_axes=(None, 0))(W, X).shape
    (4, 2)
    >>> per_example = wb.vmap(wb.grad(lambda x: np.sum(x**2)))
    >>> per_example(X[:2])
    array([[ 0.,  2.,  4.],
           [ 6.,  8., 10.]])
    """

    check_function(f, "vmap")
    if hasattr(in_axes, "shape"):
        raise UsageError(
            "vmap(f, x) is vmap(f)(x): it returns a function of the arguments of f. The"
            " second place is for in_axes, the axis that holds the examples."
        )

    @wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        places = range(len(args))
        names = ArgumentNames(f, places, structure.children)
        along = leaf_axes(args, in_axes, names)
        size = batch_size(leaves, along, names)
        chosen = [i for i, axis in enumerate(along) if axis is not None]
        specs = [example_spec(leaves[i], along[i] or 0) for i in chosen]

        def call(inner: list[Tensor]) -> Any:
            filled = [record_draws(x) for x in leaves]
            for i, x in zip(chosen, inner, strict=True):
                filled[i] = x
            named = {key: record_draws(x) for key, x in kwargs.items()}
            return f(*structure(filled), **named)

        picked = ArgumentNames(f, places, structure.children, chosen)
        recording = record(call, specs, picked)
        made = run_batch(
            recording, [front(leaves[i], along[i] or 0) for i in chosen], size
        )
        wanted = output_axes(recording.tree(list(range(len(made)))), out_axes)
        results = [
            placed(detach(y), batched, axis, size)
            for y, batched, axis in zip(made, recording.varying, wanted, strict=True)
        ]
        shared = [*leaves, *tree.flatten(kwargs)[0], *recording.caught.values()]
        return recording.tree(ensure_owned(results, shared))

    return batched
