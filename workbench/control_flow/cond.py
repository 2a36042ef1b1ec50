"""`cond`: one of two functions, of which only the one taken runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import steps
from workbench.autodiff.higher_order import (
    batch_graph,
    detach_leaves,
    is_draw,
    is_masked,
    outer_specs,
    pull_graph,
    push_graph,
)
from workbench.autodiff.steps import Rules
from workbench.backends.numpy import NumpyFunction
from workbench.control_flow import lowering  # noqa: F401  (what backends see)
from workbench.control_flow.signature import check_callable, check_condition
from workbench.core import blame, traces, tree, types
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.recorder import Recorder, is_array
from workbench.core.tensor import Tensor, gather_result, mask_cotangent, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.types import Array, ArrayLike, Params, Spec, is_differentiable
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.ops import define
from workbench.ops.define import shape_of

COND = declare("cond")


def cond(
    pred: ArrayLike,
    on_true: Callable[..., Any],
    on_false: Callable[..., Any],
    *operands: Any,
) -> Any:
    """Run one of two branches: ``on_true(*operands)`` if the condition holds.

    Only the branch taken runs, in derivatives too. In a function of values the
    branch becomes part of the program; on symbols the choice is a node, made when the
    program runs. In a :func:`workbench.vmap` over conditions both run, and each
    example takes its own: what the other gives, infinite or NaN, does no harm.

    Parameters
    ----------
    pred
        The condition, one boolean.
    on_true, on_false
        Functions of the operands, whose results have the same nest, shapes and
        dtypes. They may read Tensors through their closures.
    operands
        Arrays, or nests of arrays.

    Raises
    ------
    ShapeError, DtypeError, UsageError
        If the branches return different things; it names the output and both lines.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.scalar("x")
    >>> y = wb.cond(x > 0, np.log, lambda x: x - 1, x)
    >>> f = wb.function([x], [y, wb.grad(y, x)])
    >>> [float(v) for v in f(2.0)], [float(v) for v in f(0.0)]
    ([0.6931471805599453, 0.5], [-1.0, 1.0])
    """
    for f in (on_true, on_false):
        if not callable(f):
            raise UsageError(f"cond: a branch is {f!r}, which is not a function.")
        takes = [f"operand {i}" for i in range(len(operands))]
        cure = "It gets the operands, which stand after the branches."
        check_callable(f, takes, "cond: a branch", cure)
    flag = check_condition(pred, "cond")
    known = value_of(flag)
    if known is None:
        return _make_node(flag, on_true, on_false, operands)
    if isinstance(flag, Tensor):
        traces.note_decision(flag, "cond", bool(known))
    taken, other = (on_true, on_false) if bool(known) else (on_false, on_true)
    made = taken(*operands)
    returned, structure = tree.flatten(made)
    flat = list(map(gather_result, returned))
    if any(x is not y for x, y in zip(flat, returned, strict=True)):
        made = structure(flat)
    try:
        closed = _record_branch(other, operands)
    except TraceError:
        return made  # a branch that looks at values: it says nothing of its results
    sides = (flat, structure), (closed.graph.outputs, closed.graph.tree)
    _check_agreement(*(sides if bool(known) else sides[::-1]))
    return made


def _check_agreement(
    first: tuple[Any, tree.Tree], second: tuple[Any, tree.Tree]
) -> None:
    """Raise an error if the branches return different things."""
    (left, one), (right, two) = first, second
    if one != two:
        raise UsageError(
            f"cond{blame.user_line()}: on_false returns another nest than on_true:"
            f" {tree.describe_difference(one, two)}. Return the same nest from both."
        )
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        p, q = types.spec_of(a), types.spec_of(b)
        what = "what" if len(left) == 1 else f"output {i}"
        lines = " and ".join(
            blame.quote_site(x.site).removeprefix(" (at ").removesuffix(")")
            for x in (a, b)
            if isinstance(x, Tensor) and x.site is not None
        )
        lines = f" (at {lines})" if lines else blame.user_line()
        said = f"{what} on_true returns is {p}, of on_false {q}{lines}"
        if what != "what":
            said = f"{what} of on_true is {p}, of on_false {q}{lines}"
        if len(p.shape) != len(q.shape) or any(
            isinstance(m, int) and isinstance(n, int) and m != n
            for m, n in zip(p.shape, q.shape, strict=True)
        ):
            raise ShapeError(
                f"cond: {said}. Give both one shape, with np.broadcast_to or"
                " np.zeros_like."
            )
        if p.dtype != q.dtype and not (p.weak or q.weak):
            raise DtypeError(f"cond: {said}. Give both one dtype, with .astype.")


def _make_node(
    pred: Array,
    on_true: Callable[..., Any],
    on_false: Callable[..., Any],
    operands: tuple[Any, ...],
) -> Any:
    """Return the choice as a node."""
    closed = [_record_branch(on_true, operands), _record_branch(on_false, operands)]
    sides = [(c.graph.outputs, c.graph.tree) for c in closed]
    _check_agreement(*sides)
    captured = list({x.serial: x for c in closed for x in c.captured}.values())
    given = [x for x in tree.flatten(operands)[0] if is_array(x)] or [np.zeros(())]
    dtypes = [
        np.result_type(*(_result_type_of(x) for x in pair))
        for pair in zip(*(c.graph.outputs for c in closed), strict=True)
    ]
    bodies = tuple(_rebuild_branch(c, captured, dtypes) for c in closed)
    inputs = (pred, *captured, *given)
    made = define.apply_and_split(COND, inputs, {"branches": bodies})
    return closed[0].graph.tree(made)


def _record_branch(branch: Callable[..., Any], operands: tuple[Any, ...]) -> Recorder:
    """Return the program of a branch.

    A branch without operands gets a leaf too, so that its draws, which depend on it,
    wait for the run.
    """
    if any(map(is_array, tree.flatten(operands)[0])):
        return Recorder(branch, *operands)
    return Recorder(lambda _: branch(*operands), Spec((), np.dtype(float)))


def _result_type_of(x: object) -> Any:
    """Return an argument for `np.result_type`; a weak value gives a number."""
    spec = types.spec_of(x)
    return spec.dtype.type(0).item() if spec.weak else spec.dtype


def _rebuild_branch(
    closed: Recorder, captured: Sequence[Tensor], dtypes: list[Any]
) -> Graph:
    """Return a branch on leaves for all that either branch reads."""
    heads = len(closed.captured)
    own = dict(zip(closed.captured, closed.graph.leaves, strict=False))
    leaves = [own[x] if x in own else make_leaf_like(x, x.name) for x in captured]
    leaves += closed.graph.leaves[heads:]
    outputs = [
        (
            y
            if types.spec_of(y).dtype == d and isinstance(y, Tensor)
            else np.astype(_as_array(y), d)
        )
        for y, d in zip(closed.graph.outputs, dtypes, strict=True)
    ]
    return detach_leaves(Graph(leaves, outputs))


def _as_array(y: ArrayLike) -> Any:
    return y if isinstance(y, Tensor) else np.asarray(y)


# The op


def _compute(
    pred: Array, *inputs: Any, branches: tuple[Graph, Graph]
) -> tuple[Any, ...]:
    body = branches[0] if bool(pred) else branches[1]
    return tuple(compile_graph(body)(*inputs))


def _unfold(values: Sequence[Any], params: Params) -> list[Any] | None:
    """Return the outputs of the branch taken; None: no value tells which."""
    pred, *inputs = values
    taken = value_of(pred)
    if taken is None:
        return None
    body: Graph = params["branches"][0 if bool(taken) else 1]
    return body.run(inputs)


def compile_graph(graph: Graph) -> NumpyFunction:
    """Return a graph compiled to a function of arrays, cached with the graph."""
    if "numpy" not in graph.lowered:
        graph.lowered["numpy"] = NumpyFunction(graph)
    found: NumpyFunction = graph.lowered["numpy"]
    return found


def _infer(pred: Any, *inputs: Any, branches: tuple[Graph, Graph]) -> tuple[Any, ...]:
    sides = [outer_specs(body, inputs) for body in branches]
    made = []
    for a, b in zip(*sides, strict=True):
        shape = tuple(
            m if isinstance(m, int) or (n is not None and m == n) else n
            if isinstance(n, int) else None
            for m, n in zip(a.shape, b.shape, strict=True)
        )  # fmt: skip
        made.append(Spec(shape, a.dtype))
    return tuple(made)


def _refuse_draws(branches: Sequence[Graph]) -> None:
    """Raise an error for draws in a branch, which a derivative would draw again."""
    for body in branches:
        for node in steps.with_inner_nodes(body.interior):
            if is_draw(node):
                raise TraceError(
                    f"{blame.describe(node)}{blame.quote_site(node.site)} is drawn in a"
                    " branch of cond, and the derivative would draw again. Draw"
                    " outside, and give the noise as an operand."
                )


def _output_leaves(body: Graph) -> list[Tensor]:
    """Return a leaf for each output: a computed output itself, else a new leaf."""
    own = {x.serial for x in body.leaves}
    found = []
    for y in body.outputs:
        if isinstance(y, Tensor) and y.serial not in own:
            own.add(y.serial)
            found.append(y)
        else:
            found.append(make_leaf_like(y))
    return found


def _pull(
    mask: int,
    g: Any,
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
    rules: Rules = None,
) -> list[Any]:
    branches: tuple[Graph, Graph] = params["branches"]
    _refuse_draws(branches)
    leaves = branches[0].leaves
    wanted = [
        i
        for i, x in enumerate(leaves)
        if mask >> (i + 1) & 1 and is_differentiable(x.spec.dtype)
    ]
    arriving = [i for i, c in enumerate(g) if c is not None]
    flags = {i for i in arriving if is_masked(g[i])}
    sides = [pull_graph(body, arriving, wanted, flags, rules) for body in branches]
    kept = [
        k for k in range(len(wanted)) if any(side[1][k] is not None for side in sides)
    ]
    back = tuple(
        detach_leaves(
            Graph(
                [*body.leaves, *fresh, *_output_leaves(body)],
                [
                    np.zeros_like(body.leaves[wanted[k]])
                    if results[k] is None
                    else results[k]
                    for k in kept
                ],
            )
        )
        for body, (fresh, results) in zip(branches, sides, strict=True)
    )
    values = (*inputs, *(g[i] for i in arriving), *y)
    made = define.apply_and_split(COND, values, {"branches": back})
    passed: list[Any] = [None] * len(inputs)
    for k, c in zip(kept, made, strict=True):
        poisoned = any(is_masked(side[1][k]) for side in sides)
        passed[wanted[k] + 1] = mask_cotangent(c) if poisoned else c
    return passed


def _push(
    tangents: tuple[Any, ...],
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
    rules: Rules = None,
) -> tuple[Any, ...]:
    branches: tuple[Graph, Graph] = params["branches"]
    _refuse_draws(branches)
    moving = [i for i, t in enumerate(tangents[1:]) if t is not None]
    flags = {i for i in moving if is_masked(tangents[i + 1])}
    sides = [push_graph(body, moving, flags, rules) for body in branches]
    count = len(branches[0].outputs)
    kept = [k for k in range(count) if any(side[1][k] is not None for side in sides)]
    made: list[Any] = [None] * count
    if not kept:
        return tuple(made)
    along = []
    for body, (fresh, results) in zip(branches, sides, strict=True):
        ends = _output_leaves(body)
        outputs = [
            np.zeros_like(ends[k]) if results[k] is None else results[k] for k in kept
        ]
        along.append(detach_leaves(Graph([*body.leaves, *fresh, *ends], outputs)))
    values = (*inputs, *(tangents[i + 1] for i in moving), *y)
    moved = define.apply_and_split(COND, values, {"branches": tuple(along)})
    for k, t in zip(kept, moved, strict=True):
        poisoned = any(is_masked(side[1][k]) for side in sides)
        made[k] = mask_cotangent(t) if poisoned else t
    return tuple(made)


def _batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> tuple[Any, ...]:
    branches: tuple[Graph, Graph] = params["branches"]
    size = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    moving = [i for i, b in enumerate(batched[1:]) if b]
    everything = range(len(branches[0].outputs))
    pred, *values = inputs
    if not moving:
        made = [body.run(values) for body in branches]
        made = [[_broadcast_batch(y, size) for y in ys] for ys in made]
    else:
        many = [batch_graph(body, moving, size, everything)[0] for body in branches]
        if not batched[0]:
            chosen = {"branches": tuple(map(detach_leaves, many))}
            return define.apply_and_split(COND, (pred, *values), chosen)
        with np.errstate(all="ignore"):  # of the branch that an example does not take
            made = [body.run(values) for body in many]
    return tuple(
        np.where(np.reshape(pred, (size, *(1,) * (len(shape_of(a)) - 1))), a, b)
        for a, b in zip(*made, strict=True)
    )


def _broadcast_batch(y: Array, size: Any) -> Array:
    return np.broadcast_to(y, (size, *shape_of(y)))


COND.inner_sources = lambda node: [
    (leaf, (x,))
    for body in node.params["branches"]
    for leaf, x in zip(body.leaves, node.inputs[1:], strict=False)
]
COND.graphs = lambda inputs, params: params["branches"]
COND.compute = _compute
COND.unfold = _unfold
COND.infer = _infer
COND.pull = _pull
COND.push = _push
COND.batch = _batch
COND.rule = "the rule of the branch taken"
COND.reads = None
