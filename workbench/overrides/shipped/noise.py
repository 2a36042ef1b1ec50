"""Noise on gradients, the same whenever it is asked for again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import dims
from workbench.errors import OverrideError
from workbench.ops.define import shape_of
from workbench.overrides.named import named_rule
from workbench.overrides.rule_parser import short, spelled
from workbench.overrides.rules import Node

__all__ = ["noise"]

_MASK = (1 << 64) - 1
#: The step of the sequence, and the two factors that mix it (Steele, Lea and Flood).
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def noise(
    scale: float, seed: int = 0, step: int | None = None, decay: float = 0.55
) -> str:
    """Gaussian noise added to the gradient: ``d + σ · z``, z standard normal.

    ``σ = scale``, or, with a step, ``scale / (1 + step)^(decay / 2)``: noise that dies
    away lets deep networks out of bad starts (Neelakantan et al., "Adding gradient
    noise improves learning for very deep networks", 2015, equation 1; their η is
    ``scale²``, their γ is ``decay``).

    The noise is a function of the seed, the step, the input, and the node's place
    among those that the override means. So a gradient is the same when it is taken
    again, differences and second derivatives make sense, and every step of training
    has its own by ``step=``. It is the same for each example of a `vmap`, each row of
    a Jacobian and each turn of a `scan`.

    Parameters
    ----------
    scale
        The standard deviation, of the real and of the imaginary part.
    seed, step
        Whole numbers.
    decay
        How fast it dies away with the step.

    Returns
    -------
    The text of a rule. It does not depend on what arrives, so second derivatives are
    those without noise; forward mode needs a rule of its own.

    The numbers are those of a counter mixed by SplitMix64 (Steele, Lea and Flood,
    "Fast splittable pseudorandom number generators", 2014), made normal by Box and
    Muller's method, computed where the gradient is.

    Raises
    ------
    OverrideError
        If the scale is negative or no finite number, or a seed is no whole number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.sin(x))
    >>> rule = wb.override("sin", wb.rules.noise(0.1, seed=3))
    >>> one, two = (wb.grad(f, overrides=[rule])(np.zeros(1000)) for _ in range(2))
    >>> bool(np.all(one == two)), round(float(np.std(one)), 2)
    (True, 0.1)
    """
    _check(scale, seed, step, decay)
    return spelled("noise", scale=scale, seed=seed, step=step, decay=decay)


def _check(scale: Any, seed: Any, step: Any, decay: Any) -> None:
    for name, value in (("scale", scale), ("decay", decay)):
        value = value.item() if getattr(value, "size", 0) == 1 else value
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise OverrideError(
                f"noise: {name}={value!r}; give a finite number that is not negative."
            )
    for name, value in (("seed", seed), ("step", step)):
        value = value.item() if getattr(value, "size", 0) == 1 else value
        if name == "step" and value is None:
            continue
        if type(value) is not int or value < 0:
            raise OverrideError(
                f"noise: {name}={value!r}; give a whole number that is not negative."
            )


def _label(scale: float, step: int | None, decay: float, seed: int) -> str:
    _check(scale, seed, step, decay)
    return f"noise ±{short(float(f'{_deviation(scale, step, decay):.3g}'))}"


def _deviation(scale: float, step: int | None, decay: float) -> float:
    return float(scale if step is None else scale / (1 + step) ** (decay / 2))


@named_rule("noise", label=_label)
def _noise(
    node: Node,
    *cotangents: Any,
    scale: float,
    seed: int = 0,
    step: int | None = None,
    decay: float = 0.55,
) -> list[Any]:
    _check(scale, seed, step, decay)
    deviation = _deviation(scale, step, decay)
    place = (seed, -1 if step is None else step, node.position)
    return [
        None if d is None else d + deviation * _normal(d, (*place, i))
        for i, d in enumerate(node.asked(*cotangents))
    ]


def _normal(d: Any, place: tuple[int, ...]) -> Any:
    """Standard normal numbers in the shape and dtype of a gradient, where it is."""
    if dims.found(shape_of(d)):
        raise OverrideError(
            "noise needs to know the shape of the gradient, and a length of it is not"
            " known before the program runs. Give the input a shape."
        )
    dtype = np.dtype(getattr(d, "dtype", float))
    plain = getattr(d, "_value", d)
    like = {"like": np.zeros_like(plain)} if hasattr(plain, "dtype") else {}
    count = math.prod(shape_of(d))
    made = _standard(count, (*place, 0), like)
    if dtype.kind == "c":
        made = made + 1j * _standard(count, (*place, 1), like)
    return np.reshape(made.astype(dtype), shape_of(d))


def _standard(count: int, place: tuple[int, ...], like: dict[str, Any]) -> Any:
    """As many standard normal numbers, in float64."""
    radius = np.sqrt(-2 * np.log(_uniform(count, (*place, 0), like)))
    return radius * np.cos(2 * np.pi * _uniform(count, (*place, 1), like))


def _uniform(count: int, place: tuple[int, ...], like: dict[str, Any]) -> Any:
    """Numbers between 0 and 1, without both."""
    key = 0
    for part in place:
        key = _mixed((key * _STEP + part + 1) & _MASK, lambda n: n) & _MASK
    counter = np.arange(
        1, count + 1, dtype=np.uint64, **like
    )  # host array: or that of `like`
    bits = _mixed(counter * np.uint64(_STEP) + np.uint64(key), np.uint64)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def _mixed(x: Any, number: Any) -> Any:
    """The mixing function of SplitMix64, on arrays that wrap, or on a whole number.

    ``number`` makes the constants: CuPy's arrays want them of their own dtype.
    """
    x = (x ^ (x >> number(30))) * number(_FIRST)
    x = x & number(_MASK)
    x = (x ^ (x >> number(27))) * number(_SECOND)
    x = x & number(_MASK)
    return x ^ (x >> number(31))
