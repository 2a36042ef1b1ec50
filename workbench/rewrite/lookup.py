"""Which rules may hold at a node: told by what its operands are, without a match.

Most rules are never tried at most nodes: the driver looks them up by this description.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.rewrite.forms import PatternForm, own_inputs, skip_identities

#: What an operand is to a rule: a number that a rule names, `NUMBER`, None of another
#: constant, or the name of its op and what its own operands are, if these are few.
Operand = complex | str | None | tuple[Any, ...]
#: Of a number that no rule names.
NUMBER = "number"
#: Of an op with more operands its name alone is told.
MOST_OPERANDS = 3


def describe_operands(
    node: Tensor, numbers: Collection[complex]
) -> tuple[Operand, ...]:
    """Return what the operands of a node are to the rules, and last how they relate.

    The rules that may hold at a node are looked up by this, so that most are never
    tried. ``numbers`` are those that they name.
    """
    kinds: list[Operand] = []
    inputs = [skip_identities(x) for x in node.inputs]
    for x in inputs:
        if isinstance(x, Tensor):
            own = x.inputs
            kinds.append(
                (x.op.name,)
                if len(own) > MOST_OPERANDS
                else (x.op.name, *[_kind_of(y, numbers) for y in own])
            )
        else:
            kinds.append(_kind_of(x, numbers))
    return (*kinds, _relate(inputs) if len(inputs) > 1 else "other")


def _relate(inputs: Sequence[Any]) -> str:
    """Return whether the last two operands are one, read the same value, or neither.

    A constant counts as read by both where both have one: two may be equal.
    """
    a, b = inputs[-2:]
    if a is b:
        return "same"
    values = _list_values(a)
    return "read" if any(x in values for x in _list_values(b)) else "other"


def _list_values(x: Any) -> list[int]:
    """Return the serials of an operand and of its own operands; 0 of a constant."""
    if not isinstance(x, Tensor):
        return [0]
    found = [x.serial]
    for y in x.inputs:
        y = skip_identities(y)
        found.append(y.serial if isinstance(y, Tensor) else 0)
    return found


def _kind_of(x: Any, numbers: Collection[complex]) -> Operand:
    """Return what a constant is to the rules; None for what is no number."""
    x = skip_identities(x)
    if isinstance(x, Tensor) or (number := number_of(x)) is None:
        return None
    return number if number in numbers else NUMBER


def number_of(x: Any) -> complex | None:
    """Return the value of a constant that is one number, else None."""
    if type(x) in types.WEAK_TYPES or (
        isinstance(x, (np.number, np.ndarray)) and x.shape == () and x.dtype != object
    ):
        return complex(x)
    return None


def fits_operands(
    form: PatternForm, scalars: Collection[str], kinds: Sequence[Operand]
) -> bool:
    """Return whether the operands of a form's last op may be of these kinds."""
    wild = {x.serial: x.name in scalars for x in form.leaves}
    inputs = own_inputs(form.root)
    if len(inputs) != len(kinds) - 1:
        return False
    if len(inputs) > 1 and kinds[-1] != "same":
        a, b = (_list_wildcards(x, wild) for x in inputs[-2:])
        if inputs[-1] is inputs[-2] or (kinds[-1] == "other" and a & b):
            return False
    return _fits_orders(form.root, kinds[:-1], wild)


def _list_wildcards(p: Any, wild: Mapping[int, bool]) -> set[int]:
    """Return the wildcards that an operand of a pattern is, or reads itself."""
    if not isinstance(p, Tensor):
        return set()
    return {x.serial for x in (p, *own_inputs(p))
            if isinstance(x, Tensor) and x.serial in wild}  # fmt: skip


def _fits_orders(p: Tensor, kinds: Sequence[Operand], wild: Mapping[int, bool]) -> bool:
    """Return whether operands of these kinds may be those of a node of a pattern."""
    inputs = own_inputs(p)
    orders = [inputs, inputs[::-1]] if p.op.traits.commutative else [inputs]
    return any(
        all(_fits_kind(x, kind, wild) for x, kind in zip(order, kinds, strict=False))
        for order in orders
    )


def _fits_kind(x: Any, kind: Operand, wild: Mapping[int, bool]) -> bool:
    """Return whether an operand of a pattern may be of a kind."""
    if not isinstance(x, Tensor):
        return number_of(x) == kind
    if x.serial in wild:
        return not wild[x.serial] or kind == NUMBER or isinstance(kind, complex)
    if not isinstance(kind, tuple):
        return kind is None  # of an operand's operand the op is not told
    return x.op.name == kind[0] and _fits_orders(x, kind[1:], wild)
