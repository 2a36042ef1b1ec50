"""Reverse mode: cotangents walk back through a recorded program.

The walk runs rules on plain arrays unless a Tensor of an outer open trace takes
part, or the caller asks for the gradient as a graph; then the rules, which are
plain NumPy, record themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import DtypeError, ShapeError
from workbench.graph import blame, types, walk
from workbench.graph.tensor import MaskedTensor, Tensor
from workbench.graph.trace import live
from workbench.ops.define import shape_of, sum_to

__all__ = ["Origin", "Visit", "fit", "plan", "pull_back"]

Pull = Callable[[int, Any, Any, tuple[Any, ...], dict[str, Any]], Sequence[Any]]


class Origin(NamedTuple):
    """Where a Tensor of a gradient graph comes from."""

    #: The forward Tensor whose rule made it.
    forward: Tensor
    #: The text of the rule, or the name of the override.
    rule: str
    #: Whether an override made it.
    overridden: bool


class Visit(NamedTuple):
    """One step of the backward sweep, for who wants to watch it."""

    node: Tensor
    cotangent: Any
    #: What the rule passed on, one per input, fitted to its shape.
    passed: list[Any]


def plan(
    outputs: Sequence[Any], wrt: Sequence[Tensor]
) -> list[tuple[Tensor, int]]:
    """The nodes between ``wrt`` and ``outputs``, ascending, and the inputs that vary.

    Bit i of the mask says that input i depends on a ``wrt`` Tensor.
    """
    needed = {x.serial for x in wrt}
    steps = []
    for node in walk.order(
        [x for x in outputs if isinstance(x, Tensor)], min(needed, default=0)
    ):
        mask, bit = 0, 1
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in needed:
                mask |= bit
            bit <<= 1
        if mask and node.serial not in needed:
            needed.add(node.serial)
            steps.append((node, mask))
    return steps


def pull_back(
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    wrt: Sequence[Tensor],
    *,
    record: bool = False,
    rules: Mapping[int, Pull] | None = None,
    visit: Callable[[Visit], None] | None = None,
    steps: list[tuple[Tensor, int]] | None = None,
) -> list[Any]:
    """The cotangents of ``wrt``, None for one that the outputs do not depend on.

    Parameters
    ----------
    outputs, cotangents
        Where the walk starts, and what arrives there (None for nothing).
    wrt
        Tensors of the program, usually its leaves.
    record
        Record every rule, so that the gradient is a graph with provenance.
    rules
        Rules that stand in for those of the ops, by the serial of the node.
    visit
        Called after each step of the sweep.
    steps
        The plan, if the caller has it already.
    """
    if steps is None:
        steps = plan(outputs, wrt)
    outer = set() if record else _outer(steps, wrt)
    wanted = {x.serial for x in wrt}
    varying = wanted | {node.serial for node, _ in steps}
    arrived: dict[int, Any] = {}
    for x, g in zip(outputs, cotangents, strict=True):
        if isinstance(x, Tensor) and g is not None and x.serial in varying:
            old = arrived.get(x.serial)
            arrived[x.serial] = g if old is None else old + g
    for node, mask in reversed(steps):
        serial = node.serial
        g = arrived.get(serial) if serial in wanted else arrived.pop(serial, None)
        if g is None:
            continue
        op, inputs = node.op, node.inputs
        pull = op.pull if rules is None else rules.get(serial, op.pull)
        if pull is None:
            continue
        if record or serial in outer:
            before = _latest(g)
            passed = pull(mask, g, node, inputs, node.params)
            _mark(passed, before, node, rules is not None and serial in rules)
        else:
            passed = pull(mask, g, node._value, node.args, node.params)
        if visit is not None:
            passed = [
                None if c is None or not mask >> i & 1 else fit(c, inputs[i], node)
                for i, c in enumerate(passed)
            ]
            visit(Visit(node, g, passed))
        for x, c in zip(inputs, passed, strict=False):
            if c is None or not isinstance(x, Tensor):
                continue
            s = x.serial
            if s not in varying:
                continue
            v = x._value
            try:
                fits = c.shape == v.shape and c.dtype is v.dtype
            except AttributeError:
                fits = False
            if not fits:
                c = fit(c, x, node)
            old = arrived.get(s)
            arrived[s] = c if old is None else old + c
    return [finish(arrived.get(x.serial), record) for x in wrt]


def finish(g: Any, record: bool) -> Any:
    """A cotangent as the caller gets it: plain unless it had to be recorded."""
    if isinstance(g, MaskedTensor) and not record and not live(g):
        return g._value
    return g


def fit(c: Any, x: Any, node: Tensor | None = None) -> Any:
    """A cotangent in the shape and dtype of the Tensor (or array) it belongs to.

    What was broadcast is summed back; complex becomes real for a real ``x``.

    Raises
    ------
    ShapeError
        If the shape is no broadcast of that of ``x``.
    """
    shape = shape_of(x)
    if types.weak(c) or shape_of(c) == () != shape and not isinstance(c, Tensor):
        c = np.broadcast_to(c, shape) if not types.weak(c) else np.full_like(_bare(x), c)
    if shape_of(c) != shape:
        have = shape_of(c)
        if len(have) < len(shape) or any(
            n not in (1, h)
            for h, n in zip(have[len(have) - len(shape) :], shape, strict=True)
        ):
            where = "" if node is None else f" of {blame.describe(node)}"
            line = "" if node is None else blame.at(node.site)
            raise ShapeError(
                f"the gradient rule{where}{line} returned shape {have} for an input of"
                f" shape {shape}. Return one gradient per input, each in the shape of"
                " that input (a broadcast of it is summed back)."
            )
        c = sum_to(c, shape)
    want = x.dtype if hasattr(x, "dtype") else np.result_type(type(x))
    if c.dtype == want or (types.weak(_bare(x)) and c.dtype.kind == want.kind):
        return c
    if c.dtype.kind == "c" and want.kind != "c":
        c = np.real(c)
    if not types.differentiable(want):
        raise DtypeError(f"a gradient of dtype {want} has been asked for")
    return c.astype(want) if c.dtype != want else c


def _bare(x: Any) -> Any:
    return x if not isinstance(x, Tensor) or x._value is None else x._value


def _latest(g: Any) -> int:
    """A serial such that Tensors made from now on lie above it."""
    from workbench.graph.tensor import next_serial

    return next_serial()


def _mark(passed: Sequence[Any], before: int, node: Tensor, overridden: bool) -> None:
    """Write down the provenance of all Tensors that a rule has just made."""
    roots = [c for c in passed if isinstance(c, Tensor) and c.serial > before]
    if roots:
        origin = Origin(node, node.op.rule, overridden)
        for made in walk.order(roots, before):
            if made.origin is None:
                made.origin = origin


def _outer(steps: Sequence[tuple[Tensor, int]], wrt: Sequence[Tensor]) -> set[int]:
    """The serials of those nodes whose rules must be recorded.

    These depend on a Tensor of an outer open trace, or have no value.
    """
    from workbench.graph import traces

    first = min((x.serial for x in wrt), default=0)
    abstract = any(node._value is None for node, _ in steps)
    if not abstract and not traces.any_open():
        return set()
    known: dict[int, bool] = {}

    def is_live(x: Tensor) -> bool:
        if x.serial not in known:
            known[x.serial] = live(x)
        return known[x.serial]

    found = {
        x.serial for x in wrt if any(is_live(i) for i in x.inputs) or x._value is None
    }
    roots = [node for node, _ in steps]
    for node in walk.order(roots, first):
        for x in node.inputs:
            if isinstance(x, Tensor) and (
                x.serial in found or (x.serial < first and is_live(x))
            ):
                found.add(node.serial)
                break
    return found
