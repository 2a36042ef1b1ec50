"""Products with the Jacobian: `Lop` from the left, `Rop` from the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.autodiff import expressions
from workbench.core.tensor import Tensor

__all__ = ["Lop", "Rop", "pullback", "pushforward"]


def Lop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """The Jacobian of ``f`` by ``wrt``, multiplied from the left: a vjp.

    Parameters
    ----------
    f
        An expression of any rank, or a list, tuple, mapping or nest of them.
    wrt
        What to differentiate by; one or many, as ``f``.
    eval_points
        One cotangent for each of ``f``, in its shape; None for zero.
    consider_constant, disconnected_inputs, return_disconnected
        As for `grad`.

    Returns
    -------
    For each ``wrt[j]``, in the same nest, the sum over i of
    ``eval_points[i] @ (d f[i] / d wrt[j])``, in the shape of ``wrt[j]``.

    Raises
    ------
    ShapeError, DtypeError
        If a cotangent does not fit its expression.
    UsageError
        If there are more of them or fewer.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import Lop
    >>> W, x = wb.matrix("W", shape=(2, 3)), wb.vector("x", shape=3)
    >>> v = Lop(W @ x, x, np.array([1.0, 10.0]))
    >>> v.eval({W: np.arange(6.0).reshape(2, 3)})
    array([30., 41., 52.])
    """
    return expressions.pulled(
        f, wrt, eval_points, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
        return_disconnected=return_disconnected, name="Lop",
    )  # fmt: skip


def Rop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """The Jacobian of ``f`` by ``wrt``, multiplied from the right: a jvp.

    It is forward mode; an op that has no rule for it has the transpose of the other.

    Parameters
    ----------
    f
        An expression of any rank, or a list, tuple, mapping or nest of them.
    wrt
        What to differentiate by; one or many, as ``f``.
    eval_points
        One tangent for each of ``wrt``, in its shape; None for zero.
    disconnected_outputs
        What to do where one of ``f`` depends on none of ``wrt``: ``"raise"`` an error,
        ``"warn"``, or ``"ignore"`` it.
    return_disconnected
        As for `grad`.

    Returns
    -------
    For each ``f[i]``, in the same nest, the sum over j of
    ``(d f[i] / d wrt[j]) @ eval_points[j]``, in the shape of ``f[i]``.

    Raises
    ------
    DisconnectedInputError
        As ``disconnected_outputs`` says.
    ShapeError, DtypeError
        If a tangent does not fit its variable.
    UsageError
        If there are more of them or fewer.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import Rop
    >>> W, x = wb.matrix("W", shape=(2, 3)), wb.vector("x", shape=3)
    >>> t = Rop(W @ x, x, np.array([1.0, 0.0, 10.0]))
    >>> t.eval({W: np.arange(6.0).reshape(2, 3)})
    array([20., 53.])
    """
    return expressions.pushed(
        f, wrt, eval_points, disconnected_outputs=disconnected_outputs,
        return_disconnected=return_disconnected, name="Rop",
    )  # fmt: skip


def pullback(
    f: Any,
    wrt: Any,
    cotangents: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """`Lop` by the name that it has where mathematicians write it.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import pullback
    >>> x = wb.scalar("x")
    >>> float(pullback(x**3, x, 10.0).eval({x: 2.0}))
    120.0
    """
    return expressions.pulled(
        f, wrt, cotangents, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
        return_disconnected=return_disconnected, name="pullback",
    )  # fmt: skip


def pushforward(
    f: Any,
    wrt: Any,
    tangents: Any,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """`Rop` by the name that it has where mathematicians write it.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import pushforward
    >>> x = wb.scalar("x")
    >>> float(pushforward(x**3, x, 10.0).eval({x: 2.0}))
    120.0
    """
    return expressions.pushed(
        f, wrt, tangents, disconnected_outputs=disconnected_outputs,
        return_disconnected=return_disconnected, name="pushforward",
    )  # fmt: skip
