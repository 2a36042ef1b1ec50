"""Gradients that cannot be computed, and say why: what a rule may return for one."""

from __future__ import annotations

from typing import Any

from workbench.core.op import Op
from workbench.ops import nulls
from workbench.ops.nulls import NullType

__all__ = ["NullType", "grad_not_implemented", "grad_undefined"]


def grad_undefined(op: Any, x_pos: int, x: Any, comment: str = "") -> Any:
    """For a rule to return: the gradient that mathematics does not define.

    Parameters
    ----------
    op
        The op, or its name.
    x_pos
        Which of its inputs has no gradient, from 0 on.
    x
        That input.
    comment
        Why; the error says it.

    Returns
    -------
    An expression in the shape of x that has no value. Who asks for a gradient that
    holds it, in whatever way it was computed from it, gets a `GradUndefinedError`, or
    it itself with ``null_gradients="return"``. Running it is an error too.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import grad_undefined
    >>> def rule(node, g):
    ...     return grad_undefined(node.op, 0, node.inputs[0], "a step")
    >>> x = wb.scalar("x")
    >>> never = wb.override("floor", vjp=rule)
    >>> try:
    ...     wb.grad(np.floor(x) * 2, x, overrides=[never])
    ... except wb.errors.GradUndefinedError as error:
    ...     print(str(error).partition(". ")[0])
    grad: the gradient by 'x' cannot be computed:
    the gradient of input 0 of floor is mathematically undefined (a step)
    """
    return nulls.null("undefined", _name(op), x_pos, x, comment)


def grad_not_implemented(op: Any, x_pos: int, x: Any, comment: str = "") -> Any:
    """For a rule to return: the gradient that nobody has written.

    As `grad_undefined`; the error is a `GradNotImplementedError`, which is a
    `NotImplementedError` too.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import grad_not_implemented
    >>> x = wb.scalar("x")
    >>> y = 2 * grad_not_implemented("fit", 1, x)
    >>> try:
    ...     wb.gradient.Lop(x * 3, x, y)
    ... except NotImplementedError as error:
    ...     print("input 1 of fit" in str(error))
    True
    """
    return nulls.null("not implemented", _name(op), x_pos, x, comment)


def _name(op: Any) -> str:
    if isinstance(op, Op):
        return op.name
    return op if isinstance(op, str) else str(getattr(op, "name", op))
