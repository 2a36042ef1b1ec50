"""Derivatives along directions: `linearize`, `hvp`, `gnvp`, `elementwise_grad`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from workbench.autodiff import expressions
from workbench.autodiff.grad import (
    Argnames,
    Function,
    RecordedCall,
    copy_arrays,
    refuse_settings,
    wrt_of,
)
from workbench.autodiff.jacobian import (
    differentiate_gradient,
    fit_tangents,
    jvp,
    own_tangents,
    vjp,
)
from workbench.autodiff.linear_map import LinearMap
from workbench.core import blame, dims, tree, types
from workbench.core.dims import broadcast_shapes
from workbench.core.graph import Graph
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor
from workbench.core.trace import is_expression, make_leaf_like
from workbench.errors import ShapeError
from workbench.ops.define import shape_of


def linearize(f: Any, *primals: Any) -> tuple[Any, Function]:
    """Return the value at the primals, and the derivative there as a linear function.

    The derivative is recorded once and then runs without ``f``: cheaper than
    :func:`workbench.jvp` where many tangents meet one point.

    Parameters
    ----------
    f
        A function of arrays or nests; or an expression, or several.
    primals
        Where to differentiate; all of them are differentiated by. Of an expression
        the Tensors that it is differentiated by.

    Returns
    -------
    ``(y, f_jvp)``, where ``f_jvp(*tangents)`` takes one tangent per primal and
    returns the tangent of ``y``, nested alike. What ``f`` read besides the primals is
    read-only as long as ``f_jvp`` exists: a buffer that is filled anew in each step
    is passed as an argument, or ``del f_jvp`` comes before it is filled.

    Raises
    ------
    TraceError
        From ``f_jvp``, if an array that ``f`` read was changed in place meanwhile,
        through a view that was made before (of a large one, entries are looked at).

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y, f_jvp = wb.linearize(lambda x: np.sin(x) * x, np.array([0.0, np.pi]))
    >>> np.round(f_jvp(np.array([1.0, 1.0])), 12)
    array([ 0.        , -3.14159265])
    """
    if is_expression(f):
        return f, lambda *t: expressions.push_tangents(f, primals, t, name="linearize")
    primals = copy_arrays(primals)
    call = RecordedCall(f, range(len(primals)), primals, {}, "linearize")
    seeds = [make_leaf_like(x) for x in call.leaves]
    tangent_outputs = LinearMap(call.outputs, call.leaves, call.resolution).push(seeds)
    graph = Graph(seeds, [t for t in tangent_outputs if t is not None])
    check = call.guard_arrays("derivative")

    def f_jvp(*tangents: Any) -> Any:
        check()
        fitted = fit_tangents(call, tangents, "linearize")
        rest = iter(graph.run(fitted))
        made = [None if t is None else next(rest) for t in tangent_outputs]
        return call.recording.tree(own_tangents(call, call.outputs, made, fitted))

    return call.result(saved=True), f_jvp


def hvp(
    f: Function | Tensor,
    primals: Any,
    tangents: Any,
    *,
    overrides: Sequence[Override] | None = None,
) -> Any:
    """Return the Hessian times a vector, without the Hessian.

    Parameters
    ----------
    f
        A function that returns one number; or an expression, and then ``primals`` is
        what it is differentiated by, and the products are expressions, nested as that.
    primals, tangents
        Where, and along what: two tuples, one entry per argument of ``f``; or the
        single argument and its tangent.
    overrides
        Other gradient rules for parts of ``f``, for both derivatives, as those of
        :func:`workbench.hessian`.

    Returns
    -------
    A tuple with one product per argument; a bare one for a bare argument.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, v = np.array([1.0, 3.0]), np.array([1.0, 0.0])
    >>> wb.hvp(lambda x: x[0] ** 2 * x[1], x, v)
    array([6., 2.])
    """
    if isinstance(f, Tensor):
        return expressions.hessian_product(
            f, primals, tangents, overrides=overrides, name="hvp"
        )
    if not isinstance(primals, (tuple, list)):
        return hvp(f, (primals,), (tangents,), overrides=overrides)[0]
    call = RecordedCall(f, range(len(primals)), tuple(primals), {}, "hvp", overrides)
    linear = differentiate_gradient(call, "hvp")
    fitted = fit_tangents(call, tangents, "hvp")
    made = linear.push(fitted)
    return call.tree(own_tangents(call, linear.outputs, made, fitted))


def gnvp(
    f: Function | Tensor, loss: Function | Tensor, primals: Any, tangents: Any
) -> Any:
    """Return the Gauss-Newton matrix of ``loss(f(x))`` times a vector.

    ``Jᵀ H J v`` with J the Jacobian of ``f`` at the primals and H the Hessian of
    ``loss`` at ``f``'s result: the Hessian without the curvature of ``f``, positive
    semi-definite for a convex loss (Schraudolph, *Fast curvature matrix-vector
    products*, 2002).

    Parameters
    ----------
    f
        A function of arrays or nests, such as a network; or an expression.
    loss
        A function of what ``f`` returns, that returns one number; or an expression of
        one number, computed from that of ``f``. ``primals`` are then Tensors.
    primals, tangents
        Where, and along what: two tuples, one entry per argument of ``f``; or the
        single argument and its tangent.

    Returns
    -------
    A tuple with one product per argument; a bare one for a bare argument.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: x**2
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> wb.gnvp(f, lambda y: np.sum(y**2) / 2, x, v)
    array([ 4., 16.])
    """
    if is_expression(f):
        along = expressions.push_tangents(f, primals, tangents, name="gnvp")
        bent = expressions.hessian_product(loss, f, along, name="gnvp")
        return expressions.pull_cotangents(f, primals, bent, name="gnvp")
    if not isinstance(primals, (tuple, list)):
        return gnvp(f, loss, (primals,), (tangents,))[0]
    y, pullback = vjp(f, *primals)
    _, moved = jvp(f, tuple(primals), tuple(tangents))
    return pullback(hvp(loss, (y,), (moved,))[0])


def elementwise_grad(f: Any, argnums: Any = None, *, argnames: Argnames = None) -> Any:
    """Return the derivative, entry by entry, of a function that works entry by entry.

    It is the gradient of the sum of the outputs, so each entry of an argument gets
    the derivatives of all outputs by it; for a function that works entry by entry
    that is its own.

    Parameters
    ----------
    f
        A function of arrays that works entry by entry, or an expression of symbols.
    argnums
        The position, or positions, of what is differentiated by; the first by
        default. Of an expression ``wrt``: a Tensor or a nest of them.
    argnames
        The name, or names, of further arguments to differentiate by.

    Returns
    -------
    A function of the same arguments; each derivative has the shape and dtype of its
    argument. Of an expression: an expression.

    Raises
    ------
    ShapeError
        If an output's shape is not that of the arguments, broadcast together.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.elementwise_grad(np.tanh)(np.zeros(3))
    array([1., 1., 1.])
    >>> float(wb.elementwise_grad(wb.elementwise_grad(lambda x: x**3))(2.0))
    12.0
    """

    if isinstance(f, Tensor):
        refuse_settings("elementwise_grad", argnames=argnames)
        wrt = wrt_of("elementwise_grad", argnums, {})
        return expressions.pull_cotangents(
            f, wrt, np.ones_like(f), name="elementwise_grad"
        )

    @wraps(f)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "elementwise_grad", argnames=argnames
        )
        arrays = [
            shape_of(x)
            for x in tree.flatten((args, kwargs))[0]
            if hasattr(x, "shape") or types.is_weak(x)
        ]
        for y in call.outputs:
            if isinstance(y, Tensor) and dims.always_differ(
                y.shape, broadcast_shapes(*arrays)
            ):
                shapes = ", ".join(map(str, arrays))
                raise ShapeError(
                    f"elementwise_grad: the arguments have shapes {shapes}, and the"
                    f" function returned {blame.describe(y)}{blame.quote_site(y.site)},"
                    " so it does not work entry by entry. Ask for wb.grad of a sum, or"
                    " for wb.jacobian."
                )
        return call.gradients(
            [
                np.ones_like(y if y._value is None else y._value)
                if isinstance(y, Tensor) and types.is_differentiable(y.dtype)
                else None
                for y in call.outputs
            ]
        )

    return derivative
