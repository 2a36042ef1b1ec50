"""Derivatives where values coincide: ``V f(w) Vᵀ`` at repeated eigenvalues.

What is made of eigenvalues *and* eigenvectors, and is the same for every choice of
vectors, has a derivative where eigenvalues are equal. The rule of `eigh` alone cannot
know it: it divides what a cotangent says of a turn of two vectors, 0 there, by the
distance of their eigenvalues, 0 too. The quotient is a limit: let the eigenvalues move
apart by ``ε d`` while the vectors stay. The divisor is then ``ε (dⱼ - dᵢ)``, and the
dividend ``ε`` times the derivative of the cotangent along d. That is one derivative
more of the program that reads values and vectors, whatever it is, and gives ``f'``: the
divided difference of Daleckii and Krein (N. J. Higham, "Functions of Matrices", 2008,
theorem 3.11) at equal points. In forward mode it is the mixed second derivative of that
program, along d and along the turns.

All that is computed at another choice of the vectors. There the dividend must be 0, and
two directions d must give the same: else the result depends on the choice, and its
derivative is NaN.

Each of these is a node of the program, which costs next to nothing as long as no values
are equal. The derivative of the limit itself is NaN where some are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.autodiff.call import push_through
from workbench.autodiff.higher_order import outer_specs
from workbench.autodiff.steps import defer_pull, outputs_of
from workbench.core import hooks, types, walk
from workbench.core.graph import Graph
from workbench.core.op import Limit, Op, declare
from workbench.core.recorder import capture
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import detach
from workbench.core.types import Array, Params, Spec
from workbench.errors import UnknownLengthError, WorkbenchError
from workbench.ops import define
from workbench.ops.define import (
    ITEM,
    Parts,
    convert_dtype,
    dtype_of,
    list_positions,
    shape_of,
)
from workbench.ops.device import make_zeros
from workbench.ops.linalg.shared import largest, noise, peak

#: The settings of the op whose limit a node computes, hashable.
Settings = tuple[tuple[str, Any], ...]

PULLED = declare("limit_of_vjp")
PUSHED = declare("limit_of_jvp")


def _capture_readers(
    node: Tensor, results: Sequence[Any]
) -> tuple[Graph, list[Tensor], tuple[Tensor, ...]]:
    """Return the program from the outputs of a node to some results, as a graph.

    Also return the Tensors that the graph captures, and the outputs.
    """
    outputs = outputs_of(node)
    assert isinstance(outputs, tuple)
    roots = [x for x in results if isinstance(x, Tensor)]
    items = [
        x
        for x in walk.order_nodes(roots, node.serial)
        if x.op is ITEM and x.inputs[0] is node
    ]

    def compute(*values: Any) -> list[Any]:
        return walk.substitute(results, {x: values[x.params["index"]] for x in items})

    graph, captured = capture(compute, *outputs)
    return graph, captured, outputs


def _list_reads(graph: Graph) -> list[bool]:
    """Return which outputs of a node a graph of its readers depends on."""
    reads = 0
    for mask in graph.reads:
        reads |= mask
    first = len(graph.captures)
    return [bool(reads >> first + i & 1) for i in range(len(graph.inputs))]


def _directions(values: Array) -> list[Any]:
    """Return two directions along which equal values move apart."""
    n = shape_of(values)[-1]
    k = list_positions(n, like=values).astype(values.dtype)
    return [
        np.broadcast_to(d.astype(values.dtype), shape_of(values))
        for d in (k + 1, k * (k / n + 1) + 2**0.5)
    ]


def _mark(closed: Array) -> Array:
    """Return NaN for matrices with equal values, else 0."""
    return np.where(closed, np.nan, 0.0)[..., None, None]


def _tolerance(values: Array) -> Array:
    """Return by how much rounding may have moved values, for each matrix."""
    return noise(values[..., None, :], 64)


def _vectors(limit: Limit, parts: Sequence[Any]) -> list[Any]:
    """Return the parts of a cotangent that are of vectors."""
    return [c for i, c in enumerate(parts) if i != limit.values and c is not None]


def _with_values(limit: Limit, parts: Sequence[Any], of_values: Any) -> Parts:
    """Return cotangents of vectors with another one of the values."""
    return Parts(of_values if i == limit.values else c for i, c in enumerate(parts))


# Reverse mode


@dataclass(frozen=True, slots=True)
class _OpenPull:
    """The reverse rule of an op without the part that goes through equal values."""

    limit: Limit

    def __call__(
        self, mask: int, g: Any, y: Any, inputs: Sequence[Any], params: Params
    ) -> Sequence[Any]:
        return self.limit.pull(None, g, y, inputs, params)


def _pull_limit(node: Tensor, mask: int, g: Any) -> list[Any] | None:
    """Return the cotangents from a node, with its limit; None if not recordable."""
    of, inputs, settings = node.op, node.operands, node.settings
    try:
        graph, captured, y = _capture_readers(node, [c for c in g if c is not None])
    except WorkbenchError:
        return None
    try:
        passed = list(_limit_of(of).pull(None, g, y, inputs, settings))
    except UnknownLengthError:
        passed = defer_pull(node, mask, g, _OpenPull(_limit_of(of)), ())
    params = {
        "of": of,
        "graph": graph,
        "there": tuple(c is not None for c in g),
        "settings": tuple(settings.items()),
    }
    passed[0] = passed[0] + apply(PULLED, (*captured, inputs[0], *y), params)
    return passed


def _pulled_compute(
    *arrays: Any, of: Op, graph: Graph, there: Sequence[bool], settings: Settings
) -> Array:
    limit, count = _limit_of(of), len(there)
    captured, x, y = arrays[: -count - 1], arrays[-count - 1], arrays[-count:]
    closed = limit.coincide(y)
    zeros: Array = np.zeros_like(x)
    if not bool(np.any(closed)):
        return zeros
    y = limit.turn(y)

    def run(values: Sequence[Any]) -> list[Any]:
        return graph.run([*captured, *values])

    def spread(parts: Sequence[Any]) -> Parts:
        rest = iter(parts)
        found = [next(rest) if given else None for given in there]
        return Parts(
            np.zeros_like(v) if given and c is None else c
            for c, v, given in zip(found, y, there, strict=True)
        )

    def pull(along: Array, g: Parts) -> Any:
        return limit.pull(along, g, y, (x,), dict(settings))[0]

    values = y[limit.values]
    g, still, made, moved = spread(run(y)), [], [], []
    for d in _directions(values):
        tangents = [d if i == limit.values else None for i in range(count)]
        try:
            moved.append(spread(push_through(run, y, tangents)))
        except WorkbenchError:  # what it reads has no second derivative
            return _like(zeros + _mark(closed), x)
        still.append(pull(d, _with_values(limit, g, None)))
        made.append(pull(d, _with_values(limit, moved[-1], g[limit.values])))
    tiny = _tolerance(values)
    bent = largest(moved[0][limit.values][..., None, :])
    turns, swung = _vectors(limit, g), _vectors(limit, moved[0])
    off = largest(still[0]) > sum(map(noise, turns)) + tiny * sum(map(largest, swung))
    floor = sum(map(noise, (*swung, *made))) + tiny * bent
    wrong = off | (largest(made[0] - made[1]) > floor)
    found = np.where(wrong & closed[..., None, None], np.nan, made[0])
    return _like(found, x)


def _like(found: Array, x: Array) -> Array:
    """Return a derivative in the dtype of its primal."""
    if dtype_of(x).kind != "c" and dtype_of(found).kind == "c":
        found = np.real(found)
    return convert_dtype(found, dtype_of(x))


def _limit_of(of: Op) -> Limit:
    assert of.limit is not None
    return of.limit


def _pulled_infer(*operands: Any, there: Sequence[bool], **_: Any) -> Spec:
    spec = types.as_spec(operands[-len(there) - 1])
    return Spec(spec.shape, spec.dtype)


def _pulled_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    outputs = inputs[-len(params["there"]) :]
    poison = np.sum(_mark(_limit_of(params["of"]).coincide(outputs)))
    total = np.where(np.any(np.not_equal(g, 0)), poison, 0)
    return _spread_poison(mask, total, inputs)


def _pulled_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Array:
    outputs = inputs[-len(params["there"]) :]
    return np.zeros_like(y) + _mark(_limit_of(params["of"]).coincide(outputs))


def _spread_poison(mask: int, poison: Array, inputs: Sequence[Any]) -> list[Any]:
    """Return a number, NaN or 0, as the cotangent of all inputs that vary."""
    return [
        np.zeros_like(x) + poison.astype(np.finfo(dtype_of(x)).dtype)
        if mask >> i & 1 and dtype_of(x).kind in "fc"
        else None
        for i, x in enumerate(inputs)
    ]


PULLED.compute, PULLED.infer = _pulled_compute, _pulled_infer
PULLED.pull, PULLED.push = _pulled_pull, _pulled_push
PULLED.rule = "NaN where values are equal: this derivative is not known; else 0"


# Forward mode


def _push_limit(
    node: Tensor, tangents: tuple[Any, ...], outputs: Sequence[Any], recorded: bool
) -> list[Any] | None:
    """Return the limit's part of the tangents of ``outputs``, which follow a node.

    None if the limit cannot be recorded.
    """
    of, inputs, settings = node.op, node.operands, node.settings
    place = _limit_of(of).values
    try:
        graph, captured, y = _capture_readers(node, outputs)
    except WorkbenchError:
        return None
    params = {
        "of": of,
        "graph": graph,
        "count": len(y),
        "turns": any(r for i, r in enumerate(_list_reads(graph)) if i != place),
        "settings": tuple(settings.items()),
    }
    operands = (*captured, inputs[0], tangents[0], *y)
    if not recorded:
        operands = tuple(map(detach, operands))
    return list(define.apply_and_split(PUSHED, operands, params))


def _pushed_compute(
    *arrays: Any, of: Op, graph: Graph, count: int, settings: Settings, turns: bool
) -> tuple[Array, ...]:
    limit, first = _limit_of(of), len(arrays) - count - 2
    captured, (x, t), y = arrays[:first], arrays[first:-count], arrays[-count:]
    closed = limit.coincide(y)
    specs = outer_specs(graph, (*captured, *y))
    zeros = [make_zeros(x, s.shape, s.dtype) for s in specs]
    if not bool(np.any(closed)):
        return tuple(zeros)
    y = limit.turn(y) if turns else y

    def run(values: Sequence[Any]) -> list[Any]:
        return graph.run([*captured, *values])

    def push(
        program: Callable[..., list[Any]], values: Sequence[Any], along: Sequence[Any]
    ) -> list[Any]:
        made = push_through(program, values, along)
        return [z if m is None else m for m, z in zip(made, zeros, strict=True)]

    values, made, firsts = y[limit.values], [], []
    tiny = float(np.max(_tolerance(values)))
    rounding = 1e3 * shape_of(values)[-1] * float(np.finfo(dtype_of(values)).eps)
    try:
        for d in _directions(values):
            tangents = limit.push(d, (t,), y, (x,), dict(settings))
            turned = _with_values(limit, tangents, None)
            size = max(map(_peak, _vectors(limit, turned)))
            rest = [v if i == limit.values else None for i, v in enumerate(tangents)]
            own = push(run, y, rest)
            if not turns or size <= float(np.max(noise(t))):
                return tuple(own)  # no vectors of equal values turn
            apart = [d if i == limit.values else None for i in range(count)]

            def push_apart(v: Sequence[Any], apart: Sequence[Any] = apart) -> list[Any]:
                return push(run, v, apart)

            firsts.append(push(run, y, turned))
            ends = push(push_apart, y, turned)
            made.append([a + b for a, b in zip(own, ends, strict=True)])
        # How large the same is along what is no turn tells what rounding may leave.
        mixed = _mix(limit, y, size)
        sizes = [
            push(run, y, mixed), push(push_apart, y, mixed), push(push_apart, y, apart)
        ]  # fmt: skip
    except WorkbenchError:  # what it reads has no second derivative
        return tuple(z + np.nan for z in zeros)
    results = []
    for one, other, still, large, bent, curved in zip(
        *made, firsts[0], *sizes, strict=True
    ):
        reach, bends = _peak(one), size * _peak(curved)
        off = np.abs(still) > rounding * _peak(large) + tiny * (reach + bends)
        floor = rounding * (reach + _peak(bent)) + tiny * bends
        off = off | (np.abs(one - other) > floor)
        results.append(np.where(off, np.nan, one).astype(dtype_of(one)))
    return tuple(results)


def _peak(x: Any) -> float:
    found: Any = peak(np.abs(x))
    return float(found)


def _mix(limit: Limit, y: Sequence[Any], size: float) -> list[Any]:
    """Return tangents of vectors that are no turns, of a size."""
    mixed: list[Any] = []
    for i, v in enumerate(y):
        if i == limit.values:
            mixed.append(None)
            continue
        n = shape_of(v)[-1]
        k = list_positions(n, like=y[limit.values])
        mixed.append((v @ (size * np.cos(k[:, None] * 2 + k))).astype(v.dtype))
    return mixed


def _pushed_infer(
    *operands: Any, graph: Graph, count: int, **_: Any
) -> tuple[Any, ...]:
    first = len(operands) - count - 2
    given = (*operands[:first], *operands[-count:])
    return tuple(outer_specs(graph, given))


def _pushed_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    outputs = inputs[-params["count"] :]
    poison = np.sum(_mark(_limit_of(params["of"]).coincide(outputs)))
    seen: Any = False
    for c in g:
        seen = seen if c is None else seen | np.any(np.not_equal(c, 0))
    return _spread_poison(mask, np.where(seen, poison, 0), inputs)


def _pushed_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    outputs = inputs[-params["count"] :]
    poison = np.sum(_mark(_limit_of(params["of"]).coincide(outputs)))
    return tuple(np.zeros_like(v) + poison.astype(v.dtype) for v in y)


PUSHED.compute, PUSHED.infer = _pushed_compute, _pushed_infer
PUSHED.pull, PUSHED.push = _pushed_pull, _pushed_push
PUSHED.rule = PULLED.rule

hooks.pull_limit.set(_pull_limit)
hooks.push_limit.set(_push_limit)
