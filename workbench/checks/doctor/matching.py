"""What forms are read off with: what an operand was, its readers, what it is called.

Which forms there are stands in `forms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.equivalence import Operands
from workbench.core.tensor import Tensor

__all__ = [
    "SUMS",
    "after",
    "axes_of",
    "axis_of",
    "inner",
    "is_op",
    "is_squared",
    "number",
    "taken",
]


#: What an operand may pass through and still be the operand.
THROUGH = {
    "reshape",
    "broadcast_to",
    "getitem",
    "transpose",
    "copy",
    "strong",
    "astype",
}
SUMS = {"sum", "mean"}


def inner(x: Any) -> Any:
    """What an operand was before it was only reshaped."""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        x = x.inputs[0]
    return x


def is_op(x: Any, *names: str) -> bool:
    """Whether an operand is the result of one of some ops."""
    return isinstance(x, Tensor) and x.op.name in names


def number(x: Any) -> float | None:
    """A constant that is one number."""
    if isinstance(x, Tensor):
        if x.inputs or x.name is not None:
            return None
        x = x._value
    if isinstance(x, (int, float)):
        return float(x)
    if getattr(x, "shape", None) == () and x.dtype.kind in "iuf":
        return float(x)
    return None


def after(case: Case, node: Tensor, *names: str) -> Iterator[Tensor]:
    """The readers of a node that are one of some ops, past those that only reshape."""
    stack = list(case.readers.get(node.serial, ()))
    for reader in stack:
        if reader.op.name in names:
            yield reader
        elif reader.op.name in THROUGH and len(stack) < 50:
            stack += case.readers.get(reader.serial, ())


def axis_of(node: Tensor) -> str:
    """The settings of a reduction as one writes them behind its operand."""
    told = ""
    axis = node.params.get("axis")
    if axis is not None:
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        told += f", axis={axis}"
    if node.params.get("keepdims"):
        told += ", keepdims=True"
    return told


def axes_of(total: Tensor) -> list[str]:
    """Return the settings that a reduction may need where its result is broadcast."""
    axis = axis_of(total).replace(", keepdims=True", "")
    return [f"{axis}, keepdims=True", axis]


def is_squared(x: Any) -> bool:
    """Return whether it is a square."""
    return (
        is_op(x, "square")
        or (is_op(x, "power") and number(x.inputs[1]) == 2)
        or (is_op(x, "multiply") and x.inputs[0] is x.inputs[1])
    )


def taken(x: Any, o: Operands) -> str:
    """Return what is taken of an operand on its way: ``"[_1]"``, or nothing."""
    text = ""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        if x.op.name == "getitem":
            text = f"[{o.index(x)}]{text}"
        x = x.inputs[0]
    return text
