"""What stands in an expression, changes nothing in its value, and shapes its gradient.

They work on expressions, and on the arrays of a function that is differentiated; of a
plain array they return it as it is. To change a gradient without touching the
program, see :func:`workbench.override`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame, types
from workbench.core.tensor import Tensor, admit, apply
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.arithmetic import stop_gradient
from workbench.ops.define import shape_of
from workbench.ops.passing import CLIP, SCALE, ZERO

__all__ = [
    "consider_constant",
    "disconnected_grad",
    "grad_clip",
    "grad_scale",
    "zero_grad",
]


def zero_grad(x: Any) -> Any:
    """The same values, through which a gradient of zero flows back.

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
    return apply(ZERO, (admit(x),)) if _traced(x) else x


def consider_constant(x: Any) -> Any:
    """`zero_grad` under the name that old programs have for it.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import consider_constant
    >>> x = wb.scalar("x")
    >>> float(wb.grad(consider_constant(x) * x, x).eval(x=3.0))
    3.0
    """
    return zero_grad(x)


def disconnected_grad(x: Any) -> Any:
    """The same values, with no way back to x: :func:`workbench.stop_gradient`.

    Unlike through `zero_grad` no gradient is computed for what lies behind. Where all
    ways to a variable are cut like this, `grad` acts as ``disconnected_inputs`` says.

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
    return stop_gradient(x)


def grad_clip(x: Any, lower_bound: Any, upper_bound: Any) -> Any:
    """The same values, whose gradient is clipped entry by entry.

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
            f"grad_clip{blame.here()}: x is complex, and complex numbers have no order."
            " Clip its real and its imaginary part."
        )
    _broadcasts(x, low, "grad_clip", "the lower bound")
    _broadcasts(x, high, "grad_clip", "the upper bound")
    known = not isinstance(low, Tensor) and not isinstance(high, Tensor)
    if known and np.any(np.greater(low, high)):
        raise UsageError(
            f"grad_clip{blame.here()}: the lower bound {lower_bound!r} lies above the"
            f" upper one, {upper_bound!r}. Write grad_clip(x, lower, upper)."
        )
    return apply(CLIP, (admit(x), low, high)) if _traced(x, low, high) else x


def grad_scale(x: Any, multiplier: Any) -> Any:
    """The same values, whose gradient is multiplied.

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
    _broadcasts(x, by, "grad_scale", "the multiplier")
    return apply(SCALE, (admit(x), by)) if _traced(x, by) else x


def _traced(*operands: Any) -> bool:
    return any(isinstance(x, Tensor) for x in operands)


def _broadcasts(x: Any, setting: Any, name: str, what: str) -> None:
    """Refuse a setting of a larger shape than that of x."""
    have, want = shape_of(setting), types.spec_of(x).shape
    if len(have) > len(want) or any(
        isinstance(m, int) and isinstance(n, int) and m not in (1, n)
        for m, n in zip(have[::-1], want[::-1], strict=False)
    ):
        raise ShapeError(
            f"{name}{blame.here()}: {what} has shape {have}, which does not broadcast"
            f" to {want}, that of x."
        )
