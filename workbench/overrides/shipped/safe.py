"""Derivatives that stay finite where the true one does not.

Each rule is the true one wherever that can be computed, and 0 nearer to the singular
point than ``eps``: of the slopes there (a root has every one up to infinity) 0 is the
one that leaves a parameter where it is. Values do not change, and neither do entries
away from the point, however small the gradient. All are linear in what arrives, so
forward mode transposes them; all are recorded where second order asks, and then 0
nearby as well. What lies under a `where` there is not poisoned by the branch not taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.formatting import spell_number
from workbench.core.types import Array, Cotangent
from workbench.errors import OverrideError
from workbench.overrides.named import named_rule, unwrap_scalar
from workbench.overrides.node import Node
from workbench.overrides.rule_parser import write_rule

#: What the derivative of a logarithm is divided by.
BASES = {"log": 1.0, "log2": 0.6931471805599453, "log10": 2.302585092994046}


def safe_quotient(g: Array, x: Array, eps: float) -> Array:
    """Return ``g / x``, and 0 where ``|x| < eps``, whatever g is there."""
    far = np.abs(x) >= eps
    return np.where(far, g / np.where(far, x, 1), 0)


def check_positive(name: str, **settings: Any) -> None:
    """Raise an error if a setting is not a positive number."""
    for key, value in settings.items():
        value = unwrap_scalar(value)
        if type(value) not in (int, float) or not value > 0:
            raise OverrideError(f"{name}: {key}={value!r}; give a positive number.")


def safe_text(name: str, **settings: float) -> str:
    """Return the text of a safe rule."""
    check_positive(name, **settings)
    return write_rule(name, **settings)


@named_rule("safe_sqrt", of="sqrt", label=lambda eps: "safe sqrt")
def _safe_sqrt(node: Node, g: Array, *, eps: float = 1e-6) -> Array:
    check_positive("safe_sqrt", eps=eps)
    return safe_quotient(0.5 * g, node.outputs[0], eps)


def safe_sqrt(eps: float = 1e-6) -> str:
    """Take 0 for the gradient of the square root at 0: ``g / (2 y)``, 0 near 0.

    The true slope is infinite at 0, and ``0 · ∞`` further back makes NaN: the gradient
    of ``sqrt(sum(x**2))`` at the origin, of a standard deviation of equal numbers.

    Parameters
    ----------
    eps
        How small a root ``y`` counts as 0.

    Returns
    -------
    The text of the rule, for `sqrt`; real or complex. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sqrt(np.sum(x**2))
    >>> rule = wb.override("sqrt", wb.rules.safe_sqrt())
    >>> wb.grad(f, overrides=[rule])(np.zeros(2))
    array([0., 0.])
    >>> wb.grad(f, overrides=[rule])(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    return safe_text("safe_sqrt", eps=eps)


@named_rule(
    "safe_log", of=("log", "log2", "log10", "log1p"), label=lambda eps: "safe log"
)
def _safe_log(node: Node, g: Array, *, eps: float = 1e-12) -> Array:
    check_positive("safe_log", eps=eps)
    (x,) = node.inputs
    if node.op.name == "log1p":
        return safe_quotient(g, 1 + x, eps)
    return safe_quotient(g / BASES[node.op.name], x, eps)


def safe_log(eps: float = 1e-12) -> str:
    """Return a logarithm with a gradient of 0 at 0: ``g / x``, 0 where ``|x| < eps``.

    For probabilities that underflow to 0, as in a cross-entropy: the value stays −∞
    there, the gradient does not become ∞ or, times 0, NaN.

    Parameters
    ----------
    eps
        How small an ``x`` counts as 0 (of `log1p` a ``1 + x``).

    Returns
    -------
    The text of the rule, for `log`, `log2`, `log10` and `log1p`; real or complex.
    Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.log(x))
    >>> rule = wb.override("log", wb.rules.safe_log())
    >>> with np.errstate(divide="ignore"):
    ...     wb.grad(f, overrides=[rule])(np.array([0.0, 0.5]))
    array([0., 2.])
    """
    return safe_text("safe_log", eps=eps)


@named_rule("safe_divide", of=("divide", "reciprocal"), label=lambda eps: "safe divide")
def _safe_divide(
    node: Node, g: Array, *, eps: float = 1e-12
) -> Array | tuple[Array, Array]:
    check_positive("safe_divide", eps=eps)
    x = node.inputs[-1]
    passed = safe_quotient(g, x, eps)
    if len(node.inputs) == 1:
        return -safe_quotient(passed, x, eps)
    # Not by the quotient itself, which is infinite, or NaN, where x is 0.
    return passed, -safe_quotient(passed * node.inputs[0], x, eps)


def safe_divide(eps: float = 1e-12) -> str:
    """Return a quotient with gradients of 0 where the divisor is: ``|x₁| < eps``.

    ``g / x₁`` and ``−g · x₀ / x₁²`` elsewhere. For a ratio that may be 0 / 0.

    Parameters
    ----------
    eps
        How small a divisor counts as 0.

    Returns
    -------
    The text of the rule, for `divide` and `reciprocal`; real or complex. Forward mode
    is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(x / np.array([0.0, 2.0]))
    >>> rule = wb.override("divide", wb.rules.safe_divide())
    >>> with np.errstate(divide="ignore"):
    ...     wb.grad(f, overrides=[rule])(np.ones(2))
    array([0. , 0.5])
    """
    return safe_text("safe_divide", eps=eps)


@named_rule("safe_power", of=("power", "float_power"), label=lambda eps: "safe power")
def _safe_power(
    node: Node, g: Array, *, eps: float = 1e-12
) -> tuple[Cotangent, Cotangent]:
    check_positive("safe_power", eps=eps)
    base, exponent = node.inputs
    # A whole power of at least 1 has all its derivatives at 0.
    whole = np.logical_and(np.rint(np.real(exponent)) == exponent,
                           np.real(exponent) >= 1)  # fmt: skip
    far = np.logical_or(np.abs(base) >= eps, whole)
    less = np.where(far, base, 1) ** (exponent - 1)
    passed = np.where(far, g * (exponent * less), 0)
    if not node._mask >> 1 & 1:
        return passed, None
    # Of a negative number no power that is not whole is real: no derivative by it.
    size = np.abs(base) if np.dtype(getattr(base, "dtype", float)).kind == "c" else base
    there = size >= eps
    logs = np.log(np.where(there, base, 1))
    return passed, np.where(there, g * (node.outputs[0] * logs), 0)


def safe_power(eps: float = 1e-12) -> str:
    """Return a power with a gradient of 0 at 0, where the true one is not finite.

    ``g · x₁ · x₀^(x₁ − 1)`` and ``g · y · log x₀``; 0 where ``|x₀| < eps``, unless the
    exponent is a whole number of at least 1, whose derivatives all exist. So
    ``x ** 0.5`` has no infinite slope at 0, and ``x ** 1.5`` no infinite curvature.

    Parameters
    ----------
    eps
        How small a base counts as 0.

    Returns
    -------
    The text of the rule, for `power` and `float_power`; real or complex. Forward mode
    is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(x**0.5)
    >>> rule = wb.override("power", wb.rules.safe_power())
    >>> wb.grad(f, overrides=[rule])(np.array([0.0, 4.0]))
    array([0.  , 0.25])
    """
    return safe_text("safe_power", eps=eps)


@named_rule("safe_norm", of=("norm", "hypot"), label=lambda eps: "safe norm")
def _safe_norm(node: Node, g: Array, *, eps: float = 1e-6) -> Array | list[Array]:
    check_positive("safe_norm", eps=eps)
    (y,) = node.outputs
    if len(node.inputs) == 2:
        return [safe_quotient(g * x, y, eps) for x in node.inputs]
    (x,) = node.inputs
    axis = node.params.get("axis")
    if axis is not None and not node.params.get("keepdims"):
        g, y = np.expand_dims(g, axis), np.expand_dims(y, axis)
    return safe_quotient(g * np.conj(x), y, eps)


def safe_norm(eps: float = 1e-6) -> str:
    """Take 0 for all derivatives of the Euclidean norm at the origin: ``g · x / y``.

    The first derivative of `norm` is 0 at 0 anyhow, but near it the second is as large
    as ``1 / y``. Here all of them are 0 where ``y < eps``.

    Parameters
    ----------
    eps
        How small a norm counts as 0.

    Returns
    -------
    The text of the rule, for `norm` and `hypot`; real or complex. Forward mode is its
    transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rule = wb.override("norm", wb.rules.safe_norm())
    >>> wb.hessian(np.linalg.norm, overrides=[rule])(np.zeros(2))
    array([[0., 0.],
           [0., 0.]])
    """
    return safe_text("safe_norm", eps=eps)


@named_rule(
    "safe_exp",
    of=("exp", "exp2", "expm1"),
    label=lambda limit: f"exp slope ≤ {spell_number(limit)}",
)
def _safe_exp(node: Node, g: Array, *, limit: float = 1e6) -> Array:
    check_positive("safe_exp", limit=limit)
    (y,) = node.outputs
    slope = {"exp": y, "exp2": y * BASES["log2"], "expm1": y + 1}[node.op.name]
    return g * np.where(np.abs(slope) > limit, limit, slope)


def safe_exp(limit: float = 1e6) -> str:
    """Return an exponential with slope at most ``limit``: ``g · min(y, limit)``.

    Where ``exp`` overflows, its slope does too, and one such entry carries every
    parameter away. Second derivatives are 0 where the limit holds. A stable form of
    the whole, `np.logaddexp` or `wb.logsumexp`, is better where there is one.

    Parameters
    ----------
    limit
        The largest slope.

    Returns
    -------
    The text of the rule, for `exp`, `exp2` and `expm1`; real or complex. Forward mode
    is its transpose.

    Raises
    ------
    OverrideError
        If the limit is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.exp(x))
    >>> rule = wb.override("exp", wb.rules.safe_exp(limit=100))
    >>> with np.errstate(over="ignore"):
    ...     wb.grad(f, overrides=[rule])(np.array([0.0, 1000.0]))
    array([  1., 100.])
    """
    return safe_text("safe_exp", limit=limit)


# Angles whose derivatives stay finite.
#
# `safe_atan2` is another function nearby, since the true derivative has no limit at the
# origin; the others are the true one wherever that can be computed.


@named_rule("safe_atan2", of="arctan2", label=lambda eps: "safe atan2")
def _safe_atan2(node: Node, g: Array, *, eps: float = 1e-12) -> tuple[Array, Array]:
    check_positive("safe_atan2", eps=eps)
    y, x = node.inputs
    square = x * x + y * y + eps
    return g * (x / square), g * (-y / square)


def safe_atan2(eps: float = 1e-12) -> str:
    """Return the angle of a point, with a gradient of 0 at the origin.

    ``g · x / (x² + y² + eps)`` and ``−g · y / (x² + y² + eps)``: near the origin every
    slope occurs, and there is no limit that could be kept. It is off by the part
    ``eps / r²`` at a distance r.

    Parameters
    ----------
    eps
        What is added to the square of the distance.

    Returns
    -------
    The text of the rule, for `arctan2`. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x, y: np.arctan2(y, x)
    >>> rule = wb.override("arctan2", wb.rules.safe_atan2(eps=0.01))
    >>> [float(g) for g in wb.grad(f, (0, 1), overrides=[rule])(0.0, 0.0)]
    [-0.0, 0.0]
    """
    return safe_text("safe_atan2", eps=eps)


def _divide_by_root(x: Array, g: Array, eps: float) -> Array:
    """Return ``g / √(1 − x²)``, and 0 where ``1 − x² < eps``."""
    square = (1 - x) * (1 + x)
    real = np.dtype(getattr(square, "dtype", float)).kind != "c"
    far = (square if real else np.abs(square)) >= eps
    return np.where(far, g / np.sqrt(np.where(far, square, 1)), 0)


@named_rule("safe_arcsin", of="arcsin", label=lambda eps: "safe arcsin")
def _safe_arcsin(node: Node, g: Array, *, eps: float = 1e-12) -> Array:
    check_positive("safe_arcsin", eps=eps)
    return _divide_by_root(node.inputs[0], g, eps)


@named_rule("safe_arccos", of="arccos", label=lambda eps: "safe arccos")
def _safe_arccos(node: Node, g: Array, *, eps: float = 1e-12) -> Array:
    check_positive("safe_arccos", eps=eps)
    return -_divide_by_root(node.inputs[0], g, eps)


def safe_arcsin(eps: float = 1e-12) -> str:
    """Return the arc sine with a gradient of 0 at ±1: ``g / √(1 − x²)``.

    It is 0 where ``1 − x² < eps``, so beyond ±1 too, where rounding may have carried
    a cosine between unit vectors, and where the value is NaN.

    Parameters
    ----------
    eps
        How small a ``1 − x²`` counts as 0.

    Returns
    -------
    The text of the rule, for `arcsin`; real or complex. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.arcsin(x))
    >>> rule = wb.override("arcsin", wb.rules.safe_arcsin())
    >>> wb.grad(f, overrides=[rule])(np.array([1.0, 0.6]))
    array([0.  , 1.25])
    """
    return safe_text("safe_arcsin", eps=eps)


def safe_arccos(eps: float = 1e-12) -> str:
    """Return the arc cosine with a gradient of 0 at ±1: ``−g / √(1 − x²)``.

    As :func:`safe_arcsin`; for the angle between vectors that may be parallel.

    Parameters
    ----------
    eps
        How small a ``1 − x²`` counts as 0.

    Returns
    -------
    The text of the rule, for `arccos`; real or complex. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.arccos(x))
    >>> rule = wb.override("arccos", wb.rules.safe_arccos())
    >>> wb.grad(f, overrides=[rule])(np.array([-1.0, 0.6]))
    array([-0.  , -1.25])
    """
    return safe_text("safe_arccos", eps=eps)
