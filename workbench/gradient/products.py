"""Products with the Jacobian, Jacobians and Hessians of expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.autodiff import expressions
from workbench.core.tensor import Tensor


def Lop(
    f: object,
    wrt: object,
    eval_points: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """Return the Jacobian of ``f`` by ``wrt``, multiplied from the left: a vjp.

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
    return expressions.pull_cotangents(
        f, wrt, eval_points, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
        return_disconnected=return_disconnected, name="Lop",
    )  # fmt: skip


def Rop(
    f: object,
    wrt: object,
    eval_points: object,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """Return the Jacobian of ``f`` by ``wrt``, multiplied from the right: a jvp.

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
    return expressions.push_tangents(
        f, wrt, eval_points, disconnected_outputs=disconnected_outputs,
        return_disconnected=return_disconnected, name="Rop",
    )  # fmt: skip


def pullback(
    f: object,
    wrt: object,
    cotangents: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """Return `Lop` of f: this is the name that mathematicians use.

    Parameters
    ----------
    f, wrt
        Expressions, or nests of them: what is differentiated, and by what.
    cotangents
        One for each ``f``, of its shape.
    consider_constant, disconnected_inputs, return_disconnected
        As those of :func:`workbench.gradient.Lop`.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import pullback
    >>> x = wb.scalar("x")
    >>> float(pullback(x**3, x, 10.0).eval({x: 2.0}))
    120.0
    """
    return expressions.pull_cotangents(
        f, wrt, cotangents, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
        return_disconnected=return_disconnected, name="pullback",
    )  # fmt: skip


def pushforward(
    f: object,
    wrt: object,
    tangents: object,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """Return `Rop` of f: this is the name that mathematicians use.

    Parameters
    ----------
    f, wrt
        Expressions, or nests of them: what is differentiated, and by what.
    tangents
        One for each ``wrt``, of its shape.
    disconnected_outputs, return_disconnected
        As those of :func:`workbench.gradient.Rop`.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import pushforward
    >>> x = wb.scalar("x")
    >>> float(pushforward(x**3, x, 10.0).eval({x: 2.0}))
    120.0
    """
    return expressions.push_tangents(
        f, wrt, tangents, disconnected_outputs=disconnected_outputs,
        return_disconnected=return_disconnected, name="pushforward",
    )  # fmt: skip


# All first and second derivatives of expressions: `jacobian`, `hessian`.


def jacobian(
    expression: object,
    wrt: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """Return the matrix of all first derivatives of expressions of any rank.

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
    wrt: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    *,
    cross: bool = True,
) -> Any:
    """Return the matrix of all second derivatives of an expression of one number.

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
    wrt: object,
    p: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """Return the Hessian times a vector, without the Hessian: forward over reverse.

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
        cost, wrt, p, "hessian_vector_product", consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
