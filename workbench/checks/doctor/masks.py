"""What a program throws away, and what stays poisoned all the same.

``(x > 0) * np.log(x)``, ``np.fmax(np.log(x), -5)``, ``np.minimum(1 / x, 9)``,
``np.log(x)[2]``: the entries that are not finite are not wanted, but 0 times infinity
is NaN, in the value or on the way back. Where `np.where` chooses, nothing flows to
what it has left out. From the node that is blamed the walk goes to who drops its bad
entries, and says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.equivalence import Form, Operands, offer, prove
from workbench.checks.doctor.finding import Fix
from workbench.checks.doctor.spelling import LEFT_OUT, operand
from workbench.core import blame
from workbench.core.tensor import Tensor, value_of

__all__ = ["Dropped", "dropped"]

CHOOSING = {"maximum": ">", "fmax": ">", "minimum": "<", "fmin": "<"}
TAKING = {"getitem", "take", "take_along_axis"}
#: Ops that move entries, and do nothing else.
MOVING = {"reshape", "transpose", "broadcast_to", "flip", "roll", "copy", "getitem"}
#: So far the walk goes.
MOST = 40


class Dropped(NamedTuple):
    """Who drops the bad entries of a node, in a sentence, and what to write there."""

    node: Tensor
    cause: str
    fix: Fix | None


def dropped(case: Case, node: Tensor, bad: Any) -> Dropped | None:
    """Return who drops those entries of a node; None if they are wanted."""
    if not isinstance(bad, np.ndarray | np.generic | bool):
        return None  # arrays of another library
    bad = np.asarray(bad)
    if isinstance(node._value, tuple) or bad.shape != np.shape(node._value):
        return None
    if not bad.any():
        return None
    stack, seen = [(node, bad)], {node.serial}
    while stack and len(seen) < MOST:
        x, bad = stack.pop(0)
        for reader in case.readers.get(x.serial, ()):
            if reader.serial in seen or isinstance(reader._value, tuple):
                continue
            seen.add(reader.serial)
            k = next(i for i, a in enumerate(reader.inputs) if a is x)
            found = _drops(case, node, reader, k, bad)
            if found is not None:
                return found
            further = _carried(reader, k, bad)
            if further is not None:
                stack.append((reader, further))
    return None


def _drops(
    case: Case, origin: Tensor, node: Tensor, k: int, bad: Any
) -> Dropped | None:
    """What to say if a node drops the bad entries of its operand k."""
    name, y = node.op.name, np.asarray(node._value)
    if name == "multiply":
        other = np.broadcast_to(value_of(node.inputs[1 - k]), y.shape)
        if not (other[np.broadcast_to(bad, y.shape)] == 0).all():
            return None
        truth = other.dtype == bool
        kept = f"{{{1 - k}}}" if truth else f"{{{1 - k}}} != 0"
        value = f"{{{k}}}" if truth else "{0} * {1}"
        return _tell_dropped(
            case, node, f"multiplies by 0 there, with {_text(node, 1 - k)}: 0 times"
            " infinity or NaN is NaN, and a product masks nothing",
            f"np.where({kept}, {value}, 0)",
        )  # fmt: skip
    if name in CHOOSING and len(node.inputs) == 2:
        mine = np.broadcast_to(value_of(node.inputs[k]), y.shape)
        there = np.broadcast_to(bad, y.shape)
        if not np.isfinite(y[there]).all() or (mine[there] == y[there]).any():
            return None
        return _tell_dropped(
            case, node, "takes the other operand there, and sends back 0",
            f"np.where({{0}} {CHOOSING[name]} {{1}}, {{0}}, {{1}})",
        )  # fmt: skip
    if name in TAKING and k == 0:
        rest = [value_of(a) for a in node.inputs[1:]]
        if not np.shape(bad) or np.any(node.op.compute(bad, *rest, **node.params)):
            return None
        return Dropped(
            node,
            f" {_named(node)} does not use these entries, and sends back 0: take what"
            " is used before it is computed with.",
            _taken_first(case, origin, node),
        )
    return None


def _tell_dropped(case: Case, node: Tensor, what: str, code: str) -> Dropped:
    text = "choose with np.where, to whose other branch nothing flows"
    return Dropped(
        node,
        f" {_named(node)} {what}; np.where leaves it out in values and gradients.",
        offer(case, node, text, code),
    )


def _named(node: Tensor) -> str:
    return f"{node.op.name}{blame.at(node.site)}"


def _text(node: Tensor, k: int) -> str:
    text = operand(node, k)
    return "its other operand" if text == LEFT_OUT else text


def _taken_first(case: Case, origin: Tensor, node: Tensor) -> Fix | None:
    """The entries of the operand in place of those of the result."""
    name = origin.op.name
    if node.op.name != "getitem" or node.inputs[0] is not origin:
        return None
    if not origin.op.elementwise or len(origin.inputs) != 1 or not hasattr(np, name):
        return None
    o = Operands()
    code = f"np.{name}({o(origin, 0)}[{o.index(node)}])"
    form = prove(case, Form("take the entries first", code, node), o)
    return None if form is None else Fix(form.name, form.code)


def _carried(node: Tensor, k: int, bad: Any) -> Any:
    """The bad entries of an operand in what is made of it, entry by entry."""
    shape = np.shape(node._value)
    if node.op.name in MOVING and k == 0:
        return node.op.compute(bad, *map(value_of, node.inputs[1:]), **node.params)
    if node.op.name == "where" or not node.op.elementwise:
        return None
    return np.broadcast_to(bad, shape) if np.ndim(bad) <= len(shape) else None
