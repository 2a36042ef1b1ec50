"""A user's op for many examples at once: `many`.

Its value is that of each example. Its rules are recorded on one example and run on all
of them; one that looks at values, and so cannot be recorded without them, runs example
by example. What a rule gives for an input that all examples share is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.flat import vectorized
from workbench.core import dims
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Spec, spec_of
from workbench.errors import ShapeError, TraceError
from workbench.ops import several
from workbench.ops.define import shape_of
from workbench.overrides.rules import has_derivative
from workbench.overrides.targets import listed

__all__ = ["many"]

Run = Callable[[Sequence[Any]], Sequence[Any]]
Params = dict[str, Any]


def many(op: Op, batched: tuple[bool, ...], run: Run | None = None) -> Op:
    """The op that computes ``op`` for each example: axis 0 of what is ``batched``.

    Parameters
    ----------
    op
        An op with `compute`, `infer`, `pull` and `push`.
    batched
        For each input whether it has the axis of the batch in front.
    run
        What the op computes in terms of other ops, flat, if that is known.
    """
    made = Op(op.name)
    made.custom = True
    made.cure, made.rule, made.reads = op.cure, op.rule, None
    made.connection, made.maker = op.connection, op.maker

    def compute(*arrays: Any, **params: Any) -> Any:
        if none_in(arrays, batched):
            return empty(infer(*arrays, **params), arrays, batched)
        single = [True]

        def each(values: Sequence[Any]) -> list[Any]:
            found = op.compute(*values, **params)
            single[0] = not isinstance(found, tuple)
            return [found] if single[0] else list(found)

        rows = None if run is None else attempted(run, arrays, batched)
        if rows is None:
            rows = looped(each, arrays, batched)
            return rows[0] if single[0] else tuple(rows)
        return rows[0] if len(rows) == 1 else tuple(rows)

    def infer(*specs: Any, **params: Any) -> Any:
        given = [s if isinstance(s, Spec) else spec_of(s) for s in specs]
        size = size_of(given, batched)
        ones = [
            Spec(s.shape[1:], s.dtype) if b else s
            for s, b in zip(given, batched, strict=True)
        ]
        assert op.infer is not None
        found = op.infer(*ones, **params)
        if isinstance(found, tuple):
            return tuple([Spec((size, *s.shape), s.dtype) for s in found])
        return Spec((size, *found.shape), found.dtype)

    def pull(
        mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        single = not isinstance(y, tuple)
        ys, gs = ((y,), (g,)) if single else (y, tuple(g))
        present = [i for i, c in enumerate(gs) if c is not None]
        wanted = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        count, outs = len(inputs), len(ys)
        if none_in(inputs, batched):
            return [np.zeros_like(x) if i in wanted else None
                    for i, x in enumerate(inputs)]  # fmt: skip

        def one(values: Sequence[Any]) -> list[Any]:
            arrived: list[Any] = [None] * outs
            for i, c in zip(present, values[count + outs :], strict=True):
                arrived[i] = c
            out = tuple(values[count : count + outs])
            assert op.pull is not None
            passed = op.pull(
                mask,
                arrived[0] if single else several.Parts(arrived),
                out[0] if single else out,
                tuple(values[:count]),
                params,
            )
            return [
                None if passed[i] is None else reverse.fit(passed[i], values[i])
                for i in wanted
            ]

        values = (*inputs, *ys, *[gs[i] for i in present])
        flags = (*batched, *[True] * (outs + len(present)))
        rows = either(one, values, flags)
        found: list[Any] = [None] * count
        for i, c in zip(wanted, rows, strict=True):
            found[i] = c if batched[i] or c is None else np.sum(c, axis=0)
        return found

    def push(
        tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        single = not isinstance(y, tuple)
        ys = (y,) if single else y
        present = [i for i, t in enumerate(tangents) if t is not None]
        count, outs = len(inputs), len(ys)
        if none_in(inputs, batched):
            still = tuple(map(np.zeros_like, ys))
            return still[0] if single else still

        def one(values: Sequence[Any]) -> list[Any]:
            moving: list[Any] = [None] * count
            for i, t in zip(present, values[count + outs :], strict=True):
                moving[i] = t
            out = tuple(values[count : count + outs])
            assert op.push is not None
            pushed = op.push(
                tuple(moving), out[0] if single else out, tuple(values[:count]), params
            )
            return [pushed] if single else list(pushed)

        values = (*inputs, *ys, *[tangents[i] for i in present])
        flags = (*batched, *[True] * outs, *[batched[i] for i in present])
        rows = either(one, values, flags)
        return rows[0] if single else tuple(rows)

    made.compute, made.infer, made.pull, made.push = compute, infer, pull, push
    made.batch = lambda inputs, flags, params: again(made, inputs, flags, params)
    return made


def again(
    op: Op, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> Any:
    """The result of an op for many examples, as one node where it is recorded."""
    return apply(many(op, batched), inputs, params)


def size_of(values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """How many examples there are."""
    return next(shape_of(v)[0] for v, b in zip(values, batched, strict=True) if b)


def none_in(values: Sequence[Any], batched: Sequence[bool]) -> bool:
    """Whether there is no example; a length that is not known yet is not 0."""
    size = size_of(values, batched)
    return isinstance(size, int) and size == 0


def empty(spec: Any, values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """The results of no example at all, of the library of the values."""
    like = next(v for v, b in zip(values, batched, strict=True) if b)
    if isinstance(spec, tuple):
        return tuple(empty(part, values, batched) for part in spec)
    return np.zeros_like(like, dtype=spec.dtype, shape=spec.shape)


def either(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs of all examples, recorded on one where that can be done.

    What is None, a derivative that there is not, stays None.
    """
    made: list[Any] = []

    def there(values: Sequence[Any]) -> list[Any]:
        made[:] = run(values)
        return [y for y in made if y is not None]

    found = attempted(there, values, batched)
    if found is None:
        return looped(run, values, batched)
    rows = iter(found)
    return [None if y is None else next(rows) for y in made]


def attempted(
    run: Run, values: Sequence[Any], batched: Sequence[bool]
) -> list[Any] | None:
    """The outputs by a program recorded on one; None where it looks at values."""
    try:
        return vectorized(run, values, batched)
    except (TraceError, IndexError):
        return None  # an IndexError: an array is indexed by what differs


def looped(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs example by example, stacked."""
    size = size_of(values, batched)
    rows = [
        list(run([v[k] if b else v for v, b in zip(values, batched, strict=True)]))
        for k in range(size)
    ]
    return [stacked(column) for column in zip(*rows, strict=True)]


def stacked(column: Sequence[Any]) -> Any:
    """What the examples gave, along a new axis 0; None where none gave any."""
    some = next((c for c in column if c is not None), None)
    if some is None:
        return None
    parts = [np.zeros_like(some) if c is None else c for c in column]
    shapes = list(dict.fromkeys(map(shape_of, parts)))
    if len(shapes) > 1 and not any(map(dims.found, shapes)):
        raise ShapeError(
            "the examples of a batch give arrays of shapes"
            f" {listed(list(map(str, shapes)))}, and wb.vmap makes one array of them"
            " all. Give arrays of one shape, padded perhaps, or write a loop."
        )
    if any(isinstance(c, Tensor) for c in parts):
        return np.stack(parts)
    return np.stack([value_of(c) for c in parts])
