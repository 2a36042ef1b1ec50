"""Gradients of a cost: `grad`, and `subgraph_grad`, one part of a program at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench.autodiff import derivatives, expressions
from workbench.core import blame, types
from workbench.core.op import Op
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, ArrayLike
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops import gradients
from workbench.ops.define import shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.gradients import CLIP, SCALE, ZERO
from workbench.overrides.override import Override

#: Of a Tensor a Tensor, of an array an array.
T = TypeVar("T")


def grad(
    cost: Tensor | None,
    wrt: object,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Tensor, Any] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
    *,
    overrides: Sequence[Override] | None = None,
) -> Any:
    """Return the gradient of an expression by others, as expressions.

    Parameters
    ----------
    cost
        An expression of one number. None if ``known_grads`` say where to begin.
    wrt
        What to differentiate by: a Tensor, or a list, tuple, mapping or nest of them.
        Any Tensor of the program will do, be it a symbol, a shared variable, something
        computed on the way, or the cost itself.
    consider_constant
        Expressions through which nothing is passed back.
    disconnected_inputs
        What to do where the cost does not depend on one of ``wrt``: ``"raise"`` an
        error, ``"warn"``, or ``"ignore"`` it. Not connected are also what is read for
        its shape alone, and what is behind `disconnected_grad`. What passes through
        ops that are flat (comparisons, rounding) is connected, with gradient zero.
    add_names
        Name the gradients ``(dcost/dx)``, where both have names.
    known_grads
        Gradients that are known already, by the Tensor they belong to. They take the
        place of what would arrive there.
    return_disconnected
        What stands for a gradient that is disconnected: ``"zero"``, ``"None"``, or
        ``"Disconnected"``, a `DisconnectedType`.
    null_gradients
        What to do with a gradient that cannot be computed (`grad_undefined`):
        ``"raise"`` an error, or ``"return"`` it.
    overrides
        Other gradient rules for parts of the program; see :func:`workbench.override`.

    Returns
    -------
    One expression for each of ``wrt``, nested alike, in the shape and dtype of that;
    of a variable of integers a float64, zero.

    Raises
    ------
    NonScalarOutputError
        If the cost is more than one number.
    DisconnectedInputError
        As ``disconnected_inputs`` says.
    NullTypeGradError
        As ``null_gradients`` says.
    ShapeError, DtypeError
        If one of ``known_grads`` does not fit its Tensor.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import grad
    >>> x, y = wb.scalars("x y")
    >>> h = x * y
    >>> g = grad(np.sin(h) + x, {"x": x, "h": h})
    >>> [round(float(g[key].eval(x=0.0, y=2.0)), 6) for key in ("x", "h")]
    [3.0, 1.0]
    >>> dx = grad(None, x, known_grads={h: 10.0})
    >>> float(dx.eval(y=2.0))
    20.0
    """
    return expressions.gradient(
        cost, wrt, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs, add_names=add_names,
        known_grads=known_grads, return_disconnected=return_disconnected,
        null_gradients=null_gradients, overrides=overrides,
    )  # fmt: skip


def subgraph_grad(
    wrt: Sequence[Tensor],
    end: Sequence[Tensor],
    start: Mapping[Tensor, Any] | None = None,
    cost: Tensor | None = None,
    details: bool = False,
) -> tuple[list[Any], ...]:
    """Return gradients through one part of a program, up to the end of the part.

    For descent one layer at a time, and for steps without a derivative, such as a
    random draw: end at what comes out of it, say by a formula of your own what its
    gradient is, and start the next part there.

    Parameters
    ----------
    wrt
        What to differentiate by.
    end
        Where to stop; what lies behind is held constant. Their gradients are returned
        too.
    start
        Gradients of Tensors where this part begins: what `subgraph_grad` returned for
        the ends of the part before.
    cost
        One number, whose gradient is added: a penalty on the weights of a layer. If a
        part of it went into ``start`` already, that counts twice.
    details
        Return the two summands of the gradients by ``wrt`` as well.

    Returns
    -------
    Two lists: the gradients by ``wrt``, and by ``end``. With ``details`` two more: the
    part of those by ``wrt`` that comes from ``start``, and the part from ``cost``.
    Without ``start`` (or ``cost``) its part is zero. What is not connected has
    gradient zero.

    Raises
    ------
    UsageError
        If neither ``start`` nor ``cost`` is given.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import subgraph_grad
    >>> x, v, w = wb.scalars("x v w")
    >>> h = np.tanh(v * x)
    >>> (dw,), (dh,) = subgraph_grad([w], [h], cost=w * h)
    >>> (dv,), _ = subgraph_grad([v], [x], start={h: dh})
    >>> float(dv.eval(x=1.0, v=0.0, w=3.0))
    3.0
    """
    if not start and cost is None:
        raise UsageError(
            "subgraph_grad: give start, the gradients where this part begins, or cost,"
            " what it adds, or both."
        )
    wrt, end = _as_list(wrt, "wrt"), _as_list(end, "end")
    both = [*wrt, *end]

    def part(cost: Tensor | None, known: Mapping[Tensor, Any] | None) -> list[Any]:
        found: list[Any] = expressions.gradient(
            cost, both, consider_constant=end, disconnected_inputs="ignore",
            known_grads=known, add_names=False, name="subgraph_grad",
        )  # fmt: skip
        return found

    begun = part(None, start) if start else None
    added = None if cost is None else part(cost, None)
    total = begun or added or []
    if begun is not None and added is not None:
        total = [a + b for a, b in zip(begun, added, strict=True)]
    count = len(wrt)
    if not details:
        return total[:count], total[count:]
    parts = [
        [np.zeros_like(x) for x in wrt] if some is None else some[:count]
        for some in (begun, added)
    ]
    return total[:count], total[count:], *parts


def _as_list(given: Tensor | Iterable[object], what: str) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    return [derivatives.check_expression(x, "subgraph_grad", what) for x in given]


def format_as(use_list: bool, use_tuple: bool, outputs: object) -> Any:
    """Return results as a list, as a tuple, or as they are.

    Parameters
    ----------
    use_list, use_tuple
        Which of the two; not both. If neither, a list or tuple of one result becomes
        that result.
    outputs
        One result, or a list or tuple of them.

    Raises
    ------
    UsageError
        If both are true, or neither is and there are several results.

    Examples
    --------
    >>> from workbench.gradient import format_as
    >>> format_as(True, False, 1.0), format_as(False, True, [1.0, 2.0])
    ([1.0], (1.0, 2.0))
    >>> format_as(False, False, [1.0])
    1.0
    """
    if use_list and use_tuple:
        raise UsageError(
            "format_as: use_list and use_tuple are both true. Choose one of them."
        )
    results = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if use_list or use_tuple:
        return results if use_list else tuple(results)
    if len(results) != 1:
        raise UsageError(
            f"format_as: {len(results)} results do not make one. Write use_list=True"
            " or use_tuple=True."
        )
    return results[0]


# What stands in an expression, changes nothing in its value, and shapes its gradient.
#
# They work on expressions, and on the arrays of a function that is differentiated; of a
# plain array they return it as it is. To change a gradient without touching the
# program, see :func:`workbench.override`.


def zero_grad(x: T) -> T:
    """Return the same values, through which a gradient of zero flows back.

    Parameters
    ----------
    x
        An expression, or an array.

    Returns
    -------
    What has the values of x. It is connected to x, so that `grad` does not complain;
    `disconnected_grad` is not. In forward mode its tangent is zero.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import zero_grad
    >>> x = wb.scalar("x")
    >>> float(wb.grad(zero_grad(x) * x, x).eval(x=3.0))
    3.0
    >>> float(wb.grad(zero_grad(x) ** 2, x).eval(x=3.0))
    0.0
    """
    return apply(ZERO, (admit(x),)) if _has_tensor(x) else x


def consider_constant(x: T) -> T:
    """Return `zero_grad` of x; old programs use this name.

    Parameters
    ----------
    x
        An expression.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import consider_constant
    >>> x = wb.scalar("x")
    >>> float(wb.grad(consider_constant(x) * x, x).eval(x=3.0))
    3.0
    """
    return zero_grad(x)


def disconnected_grad(x: T) -> T:
    """Return the same values, with no way back to x: :func:`workbench.stop_gradient`.

    Unlike through `zero_grad` no gradient is computed for what lies behind. Where all
    ways to a variable are cut like this, `grad` acts as ``disconnected_inputs`` says.

    Parameters
    ----------
    x
        An expression, or a nest of them.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import disconnected_grad, grad
    >>> x = wb.scalar("x")
    >>> float(grad(disconnected_grad(x) * x, x).eval(x=3.0))
    3.0
    >>> grad(
    ...     disconnected_grad(x) ** 2,
    ...     x,
    ...     disconnected_inputs="ignore",
    ...     return_disconnected="None",
    ... ) is None
    True
    """
    stopped: T = stop_gradient(x)
    return stopped


def grad_clip(x: T, lower_bound: ArrayLike, upper_bound: ArrayLike) -> T:
    """Return the same values, with a gradient that is clipped entry by entry.

    Parameters
    ----------
    x
        An expression, or an array, of real numbers.
    lower_bound, upper_bound
        Between which the gradient that arrives is kept: numbers, or arrays or
        expressions that broadcast to the shape of x.

    Returns
    -------
    What has the values of x. Clipping is not linear, so that there is no forward mode
    of it: tangents pass as they are. So `hessian` and `hessian_vector_product`, which
    push tangents through the clipped gradient, give its derivative; a gradient of the
    gradient comes back to x this way once more, and is clipped itself.

    Raises
    ------
    UsageError
        If the lower bound lies above the upper one.
    DtypeError
        If x is complex: complex numbers have no order.
    ShapeError
        If a bound does not broadcast to the shape of x.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import grad_clip
    >>> x = wb.scalar("x")
    >>> z = wb.grad(grad_clip(x, -1, 1) ** 2, x)
    >>> z2 = wb.grad(x**2, x)
    >>> f = wb.function([x], [z, z2])
    >>> [float(y) for y in f(2.0)]
    [1.0, 4.0]
    """
    low, high = admit(lower_bound), admit(upper_bound)
    if types.spec_of(x).dtype.kind == "c":
        raise DtypeError(
            f"grad_clip{blame.user_line()}: x is complex, and complex numbers have no"
            " order. Clip its real and its imaginary part."
        )
    _refuse_broadcast(x, low, "grad_clip", "the lower bound")
    _refuse_broadcast(x, high, "grad_clip", "the upper bound")
    known = not isinstance(low, Tensor) and not isinstance(high, Tensor)
    if known and np.any(np.greater(low, high)):
        raise UsageError(
            f"grad_clip{blame.user_line()}: the lower bound {lower_bound!r} lies above"
            f" the upper one, {upper_bound!r}. Write grad_clip(x, lower, upper)."
        )
    return apply(CLIP, (admit(x), low, high)) if _has_tensor(x, low, high) else x


def grad_scale(x: T, multiplier: ArrayLike) -> T:
    """Return the same values, with a gradient that is multiplied by a factor.

    Parameters
    ----------
    x
        An expression, or an array.
    multiplier
        What the gradient that arrives is multiplied by: a number, or an array or
        expression that broadcasts to the shape of x. -1 reverses it (Ganin & Lempitsky,
        *Unsupervised Domain Adaptation by Backpropagation*, 2015).

    Returns
    -------
    What has the values of x. Its tangent in forward mode is multiplied too.

    Raises
    ------
    ShapeError
        If the multiplier does not broadcast to the shape of x.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import grad_scale
    >>> x = wb.scalar("x")
    >>> float(wb.grad(grad_scale(x, -0.5) ** 2, x).eval(x=3.0))
    -3.0
    """
    by = admit(multiplier)
    _refuse_broadcast(x, by, "grad_scale", "the multiplier")
    return apply(SCALE, (admit(x), by)) if _has_tensor(x, by) else x


def _has_tensor(*operands: object) -> bool:
    return any(isinstance(x, Tensor) for x in operands)


def _refuse_broadcast(x: object, setting: Array, name: str, what: str) -> None:
    """Refuse a setting of a larger shape than that of x."""
    have, want = shape_of(setting), types.spec_of(x).shape
    if len(have) > len(want) or any(
        isinstance(m, int) and isinstance(n, int) and m not in (1, n)
        for m, n in zip(have[::-1], want[::-1], strict=False)
    ):
        raise ShapeError(
            f"{name}{blame.user_line()}: {what} has shape {have}, which does not"
            f" broadcast to {want}, that of x."
        )


# Gradients that cannot be computed, and say why: what a rule may return for one.


def grad_undefined(op: object, x_pos: int, x: ArrayLike, comment: str = "") -> Tensor:
    """Return a gradient that mathematics does not define, for a rule to return.

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
    return gradients.make_null("undefined", _name(op), x_pos, x, comment)


def grad_not_implemented(
    op: object, x_pos: int, x: ArrayLike, comment: str = ""
) -> Tensor:
    """Return a gradient that nobody has written, for a rule to return.

    The error, where something is computed of it, is a `GradNotImplementedError`, which
    is a `NotImplementedError` too.

    Parameters
    ----------
    op
        The op, or its name.
    x_pos
        The position of the input among those of the op.
    x
        The input, whose shape and dtype the gradient has.
    comment
        What the error says besides.

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
    return gradients.make_null("not implemented", _name(op), x_pos, x, comment)


def _name(op: object) -> str:
    if isinstance(op, Op):
        return op.name
    return op if isinstance(op, str) else str(getattr(op, "name", op))
