"""`autograd.misc.fixed_points`: fixed points, with their implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.autodiff.implicit import custom_root
from workbench.core import tree

__all__ = ["fixed_point"]


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: Any,
    x0: Any,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """Return the x with ``x = f(a)(x)``, and its derivatives by ``a``.

    Examples
    --------
    >>> from workbench.compat.autograd import grad
    >>> from workbench.compat.autograd.misc.fixed_points import fixed_point
    >>> newton = lambda a: lambda x: 0.5 * (x + a / x)
    >>> root = lambda a: fixed_point(newton, a, 1.0, lambda x, y: abs(x - y), 1e-12)
    >>> round(float(root(4.0)), 9), round(float(grad(root)(4.0)), 9)
    (2.0, 0.25)
    """

    def residual(x: Any) -> Any:
        leaves, structure = tree.flatten(x)
        made = tree.flatten(f(a)(x))[0]
        return structure([y - z for y, z in zip(made, leaves, strict=True)])

    def solve(residual: Callable[..., Any], x: Any) -> Any:
        while True:
            leaves, structure = tree.flatten(x)
            change = tree.flatten(residual(x))[0]
            new = structure([y + d for y, d in zip(leaves, change, strict=True)])
            if not distance(new, x) > tol:
                return new
            x = new

    return custom_root(residual, x0, solve)
