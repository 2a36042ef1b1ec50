"""All first and second derivatives of expressions: `jacobian`, `hessian`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.autodiff import expressions
from workbench.core.tensor import Tensor

__all__ = ["hessian", "hessian_vector_product", "jacobian"]


def jacobian(
    expression: Any,
    wrt: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The matrix of all first derivatives of expressions of any rank.

    Parameters
    ----------
    expression
        An expression, or a list, tuple, mapping or nest of them.
    wrt
        What to differentiate by; one or many, of any rank.
    consider_constant, disconnected_inputs
        As for `grad`. Not connected is what no expression depends on.

    Returns
    -------
    A block of shape ``(*expression.shape, *wrt.shape)``. With several ``wrt`` their
    blocks in the same nest; with several expressions one such for each of them. Where
    an expression does not depend on one of ``wrt``, and another does: zeros.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import jacobian
    >>> x = wb.vector("x", shape=3)
    >>> jacobian(x[:2] * x[1:], x).eval(x=np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return expressions.jacobian(
        expression, wrt, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip


def hessian(
    cost: Tensor,
    wrt: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    *,
    cross: bool = True,
) -> Any:
    """The matrix of all second derivatives of an expression of one number.

    Parameters
    ----------
    cost
        An expression of one number.
    wrt
        What to differentiate by; one or many, of any rank.
    consider_constant, disconnected_inputs
        As for `grad`.
    cross
        Give the blocks of each pair of variables, which make up the whole matrix. If
        false, only those of each variable with itself, which is what Theano gives.

    Returns
    -------
    For one variable a block of shape ``(*wrt.shape, *wrt.shape)``. For several a nest
    of nests: of ``wrt=[x, y]`` the lists ``[[xx, xy], [yx, yy]]``, where ``xy`` has the
    shape of x followed by that of y. Without ``cross`` ``[xx, yy]``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import hessian
    >>> x, s = wb.vector("x", shape=2), wb.scalar("s")
    >>> cost = s * x[0] ** 2 * x[1]
    >>> (xx, xs), (sx, ss) = hessian(cost, [x, s])
    >>> xx.eval(x=np.array([1.0, 3.0]), s=1.0)
    array([[6., 2.],
           [2., 0.]])
    >>> xs.eval(x=np.array([1.0, 3.0]))
    array([6., 1.])
    """
    return expressions.hessian(
        cost, wrt, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs, cross=cross,
    )  # fmt: skip


def hessian_vector_product(
    cost: Tensor,
    wrt: Any,
    p: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The Hessian times a vector, without the Hessian: forward over reverse.

    Parameters
    ----------
    cost
        An expression of one number.
    wrt
        What to differentiate by; one or many, of any rank.
    p
        The vector: one array or expression for each of ``wrt``, in its shape; None
        for zero.
    consider_constant, disconnected_inputs
        As for `grad`.

    Returns
    -------
    One product for each of ``wrt``, nested alike, in its shape: row i is the sum over
    j of ``(d2 cost / d wrt[i] d wrt[j]) @ p[j]``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import hessian_vector_product
    >>> x, p = wb.vector("x", shape=2), np.array([1.0, 0.0])
    >>> hessian_vector_product(x[0] ** 2 * x[1], x, p).eval(x=np.array([1.0, 3.0]))
    array([6., 2.])
    """
    return expressions.hessian_product(
        cost, wrt, p, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
