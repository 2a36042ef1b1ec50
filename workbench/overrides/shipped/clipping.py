"""Rules that change the result of the true rule: texts, left-out entries, noise.

``d`` is what the true rule would pass on to an input, in the shape of that input, and
``g`` what arrives at the node, in the shape of its output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import dims, types
from workbench.core.formatting import spell_number
from workbench.core.tensor import Tensor, array_of, mask_cotangent, value_of
from workbench.core.types import Array
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops.define import shape_of
from workbench.overrides.named import named_rule, unwrap_scalar
from workbench.overrides.node import Node
from workbench.overrides.rule_parser import parse_rule, write_rule

Axis = int | Sequence[int] | None


def clip(low: float, high: float | None = None) -> str:
    """Return each entry of the gradient clipped: ``clip(d, low, high)``.

    A single large entry then moves a parameter no further than any other. The
    direction changes; `clip_by_norm` keeps it (Mikolov, "Statistical language models
    based on neural networks", 2012, clips by value so).

    Parameters
    ----------
    low, high
        The bounds; one alone means ``-low`` and ``low``.

    Returns
    -------
    An expression. Not linear, so forward mode needs a rule of its own. Its derivative
    is 1 inside the bounds and 0 outside, as second order sees it.

    Raises
    ------
    OverrideError
        If a bound is not a finite number, or they are in the wrong order.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.rules.clip(0.1), wb.rules.clip(0, 2)
    ('clip(d, -0.1, 0.1)', 'clip(d, 0, 2)')
    >>> f = lambda x: np.sum(np.square(x))
    >>> rule = wb.override("square", wb.rules.clip(1))
    >>> wb.grad(f, overrides=[rule])(np.array([0.2, -5.0]))
    array([ 0.4, -1. ])
    """
    if high is None:
        low, high = -_check_number("clip", "the bound", low), low
    low = _check_number("clip", "low", low)
    high = _check_number("clip", "high", high)
    if low >= high:
        raise OverrideError(
            f"clip: the bounds {low!r} and {high!r} leave nothing between them. Give"
            " the lower one first; one alone is positive: clip(0.1)."
        )
    return f"clip(d, {low!r}, {high!r})"


def clip_by_norm(limit: float, axis: Axis = None) -> str:
    """Return the gradient shortened to a norm: ``d · limit / max(limit, ‖d‖)``.

    Where the norm is smaller, nothing changes; the direction never does. This keeps a
    recurrent network from exploding (Pascanu, Mikolov and Bengio, "On the difficulty
    of training recurrent neural networks", 2013, algorithm 1). The norm is that of
    the gradient of one input of the node, not of all parameters together.

    Parameters
    ----------
    limit
        The largest Euclidean norm.
    axis
        The axis or axes of the norm, one for each of the other entries; by default
        all.

    Returns
    -------
    An expression. Not linear, so forward mode needs a rule of its own.

    Raises
    ------
    OverrideError
        If the limit is not positive and finite, or an axis is not a whole number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.square(x)) / 2
    >>> rule = wb.override("square", wb.rules.clip_by_norm(1))
    >>> wb.grad(f, overrides=[rule])(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    limit = _check_positive("clip_by_norm", "the limit", limit)
    return f"d * ({limit!r} / maximum({limit!r}, {_write_norm('clip_by_norm', axis)}))"


def scale(factor: float) -> str:
    """Return the gradient times a number: ``factor · d``.

    What lies before the node learns faster, or slower, than the rest: the usual form
    of a learning rate for each layer.

    Parameters
    ----------
    factor
        What it is multiplied by; 0 stops it.

    Returns
    -------
    An expression. Linear: forward mode scales the tangent alike, and a second
    derivative through the node is scaled wherever the first one was.

    Raises
    ------
    OverrideError
        If the factor is not a finite number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> half = wb.override("tanh", wb.rules.scale(0.5))
    >>> wb.grad(np.tanh, overrides=[half])(0.0), half.label
    (np.float64(0.5), 'scale ×0.5')
    """
    return f"{_check_number('scale', 'the factor', factor)!r} * d"


def normalise(axis: Axis = None) -> str:
    """Return the direction of the gradient alone: ``d / ‖d‖``; a gradient of 0 stays 0.

    Every step then has the same length, whatever the scale of the loss (Hazan, Levy
    and Shalev-Shwartz, "Beyond convexity: stochastic quasi-convex optimization",
    2015). At 0 there is no direction; the derivative of the rule is 1 there.

    Parameters
    ----------
    axis
        The axis or axes of the norm; by default all.

    Returns
    -------
    An expression. Not linear, so forward mode needs a rule of its own.

    Raises
    ------
    OverrideError
        If an axis is not a whole number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.square(x)) / 2
    >>> rule = wb.override("square", wb.rules.normalise())
    >>> wb.grad(f, overrides=[rule])(np.array([30.0, 40.0]))
    array([0.6, 0.8])
    """
    norm = _write_norm("normalise", axis)
    return f"d / where({norm} == 0, 1, {norm})"


def stop() -> str:
    """Stop the gradient: ``zeros_like(d)``. Nodes before stay unchanged.

    As ``wb.stop_gradient`` at this place, without a change of the program.

    Returns
    -------
    An expression. Linear: in forward mode nothing moves behind the node.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.tanh(x) + x
    >>> wb.grad(f, overrides=[wb.override("tanh", wb.rules.stop())])(0.0)
    np.float64(1.0)
    """
    return "zeros_like(d)"


def reverse(factor: float = 1.0) -> str:
    """Return the gradient turned round: ``−factor · d``.

    What lies before the node is trained to make the loss larger, what lies behind it
    to make it smaller: the gradient reversal layer (Ganin and Lempitsky, "Unsupervised
    domain adaptation by backpropagation", 2015, section 3.2; their λ is ``factor``).

    Parameters
    ----------
    factor
        How strong what is turned round is.

    Returns
    -------
    An expression. Linear: forward mode turns the tangent round too.

    Raises
    ------
    OverrideError
        If the factor is not a finite number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> turned = wb.override("tanh", wb.rules.reverse(0.5))
    >>> wb.grad(np.tanh, overrides=[turned])(0.0), turned.label
    (np.float64(-0.5), 'reverse ×0.5')
    """
    factor = _check_number("reverse", "the factor", factor)
    return "-d" if factor == 1 else f"-({factor!r} * d)"


def straight_through(limit: float | None = None) -> str:
    """Return the gradient as if the node were not there: ``g``.

    For steps, signs and rounding, whose true derivative is 0 everywhere (Bengio,
    Léonard and Courville, "Estimating or propagating gradients through stochastic
    neurons for conditional computation", 2013). With a limit it is 0 where ``|x|`` is
    above it, as if the node were a hard tanh: saturated units stay where they are
    (Hubara et al., "Binarized neural networks", 2016, equation 4).

    Parameters
    ----------
    limit
        Where the gradient ends; by default nowhere.

    Returns
    -------
    An expression, for a node with one input of the shape of its output. Linear:
    forward mode passes the tangent on.

    Raises
    ------
    OverrideError
        If the limit is not positive and finite.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.sign(x) * np.array([1.0, 2.0]))
    >>> rule = wb.override("sign", wb.rules.straight_through(1))
    >>> wb.grad(f, overrides=[rule])(np.array([0.3, -4.0]))
    array([1., 0.])
    """
    if limit is None:
        return "g"
    return (
        f"where(abs(x) <= {_check_positive('straight_through', 'the limit', limit)!r},"
        " g, 0)"
    )


def sanitise() -> str:
    """Replace NaN and infinity by 0: ``where(isfinite(d), d, 0)``.

    Training goes on where one bad entry would make every parameter NaN. It hides the
    fault and does not mend it: `wb.diagnose` finds the node to blame.

    Returns
    -------
    An expression. It is not linear where the gradient is not finite, so forward mode
    needs a rule of its own.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.sqrt(x))
    >>> rule = wb.override("sqrt", wb.rules.sanitise())
    >>> with np.errstate(divide="ignore"):
    ...     wb.grad(f, overrides=[rule])(np.array([0.0, 4.0]))
    array([0.  , 0.25])
    """
    return "where(isfinite(d), d, 0)"


def formula(text: str) -> str:
    """Return a gradient by a formula of ``g``, ``d``, ``x`` and ``y``.

    The text itself, once it has been read: an error comes here, and not where it is
    attached. The page "Rules and formulas" has the language.

    Its functions are NumPy's, by their names: all that take Tensors and give one array,
    but for those that write into arrays, run functions, or make arrays from numbers.

    Parameters
    ----------
    text
        An expression, computed once for each input of the node: ``g`` is the gradient
        that arrives, ``d`` what the true rule would pass on, ``x`` the input (``x0``,
        ``x1``, ... all of them), ``y`` the output.

    Returns
    -------
    The text. Forward mode transposes it if it is linear in ``g``.

    Raises
    ------
    ExpressionError
        If the text is refused.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> soft = wb.override("sign", wb.rules.formula("g * (1 - tanh(3 * x)**2)"))
    >>> wb.grad(lambda x: np.sum(np.sign(x)), overrides=[soft])(np.zeros(1))
    array([1.])
    """
    parse_rule(text)
    return text


def _write_norm(name: str, axis: Axis) -> str:
    """Return the norm of ``d`` in the language of rules."""
    if axis is None:
        return "norm(d)"
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if not axes or any(type(a) is not int for a in axes):
        raise OverrideError(
            f"{name}: axis={axis!r} is not an axis; give a whole number."
        )
    if len(axes) > 2:
        raise OverrideError(f"{name}: a norm has one axis or two, not {len(axes)}.")
    written = axes[0] if len(axes) == 1 else axes
    return f"norm(d, axis={written}, keepdims=True)"


def _check_number(name: str, what: str, value: object) -> float | int:
    """Return a finite number as a Python number."""
    value = unwrap_scalar(value)
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
    ):
        raise OverrideError(f"{name}: {what} is {value!r}; give a finite number.")
    return value


def _check_positive(name: str, what: str, value: object) -> float | int:
    found = _check_number(name, what, value)
    if found <= 0:
        raise OverrideError(f"{name}: {what} is {found!r}; give a positive number.")
    return found


# A rule that leaves out those entries of a result at which the op's is not finite.

#: So often the rule runs to find the entries at which it is not finite.
MOST_RUNS = 400


@named_rule("sanitise_entries", label=lambda: "sanitise entries")
def _sanitise_entries(node: Node, *cotangents: Any) -> Any:
    given = any(isinstance(x, Tensor) for x in (*node.inputs, *cotangents))

    def pull(arriving: list[Any]) -> list[Any]:
        # As what leaves a `where`: a 0 that arrives wins over an infinite slope.
        found = node.vjp_wrt(
            *[None if c is None else mask_cotangent(c) for c in arriving]
        )
        return found if given else [None if c is None else value_of(c) for c in found]

    # The rule is linear in what arrives: where it is finite hangs on its inputs alone.
    ones = [None if c is None else np.ones_like(value_of(c)) for c in cotangents]
    with np.errstate(all="ignore"):
        try:
            found = pull(list(cotangents))
            known = all(c is None or value_of(c) is not None for c in found)
            if known and not _are_finite(pull(ones)):
                nothing = [c if c is None else np.zeros_like(c) for c in ones]
                if not _are_finite(pull(nothing)):
                    return _zero_nonfinite(node.vjp_wrt(*cotangents))
                kept: list[Any] = list(cotangents)
                for i, c in enumerate(ones):
                    if c is not None:
                        good = _find_finite_entries(pull, nothing, i, c)
                        kept[i] = np.where(good, kept[i], 0)
                found = pull(kept)
        except WorkbenchError:
            found = node.vjp_wrt(*cotangents)  # a rule that cannot be recorded
    return _zero_nonfinite(found)


def _zero_nonfinite(found: list[Any]) -> list[Any]:
    """Return gradients with 0 in place of values that are not finite."""
    return [
        None
        if c is None
        else c
        if value_of(c) is not None and _are_finite([c])
        else np.where(np.isfinite(c), c, 0)
        for c in found
    ]


def _are_finite(arrays: list[Any]) -> bool:
    """Return whether all numbers are finite, as far as they are known."""
    values = [value_of(c) for c in arrays]
    return all(
        bool(np.all(np.isfinite(v)))
        for v in values
        if v is not None and types.is_differentiable(types.spec_of(v).dtype)
    )


def _find_finite_entries(
    pull: Callable[[list[Any]], list[Any]], nothing: list[Any], i: int, c: Array
) -> Array:
    """Return the entries of cotangent i at which a rule is finite, found by halving."""
    size, shape = int(np.size(c)), np.shape(c)
    place = np.reshape(np.arange(size, like=array_of(c)), shape)
    good = np.equal(place, place)
    parts, runs = [(0, size)], 0
    while parts:
        low, high = parts.pop()
        part = (place >= low) & (place < high)
        arriving = list(nothing)
        arriving[i] = np.where(part, c, 0)
        runs += 1
        if _are_finite(pull(arriving)):
            continue
        if high - low > 1 and runs < MOST_RUNS:
            middle = (low + high) // 2
            parts += [(low, middle), (middle, high)]
        else:  # or more of them than can be told apart
            good = good & ~part
    return good


def sanitise_entries() -> str:
    """Take the op's own rule where finite; other entries of the result pass 0.

    They are left out before they are summed with good ones. An op of one's own that
    gives all distances of two sets of points, or a product with an infinite entry, has
    the gradient of all pairs but those at which there is none; `sanitise`, which looks
    at the sums, would lose the good ones with them.

    Returns
    -------
    The text of the rule, for any op. Forward mode is its transpose.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> class Distances(wb.Op):
    ...     def compute(self, x, y):
    ...         return abs(x[:, None] - y)
    ...     def vjp(self, node, g):
    ...         (x, y), (d,) = node.inputs, node.outputs
    ...         part = g * (x[:, None] - y) / d
    ...         return np.sum(part, 1), -np.sum(part, 0)
    >>> f = lambda x: np.sum(Distances()(x, np.array([1.0, 5.0])))
    >>> rule = wb.override("distances", wb.rules.sanitise_entries())
    >>> with np.errstate(invalid="ignore"):
    ...     wb.grad(f)(np.array([1.0, 2.0]))
    array([nan,  0.])
    >>> wb.grad(f, overrides=[rule])(np.array([1.0, 2.0]))
    array([-1.,  0.])
    """
    return "sanitise_entries"


# Noise on gradients, the same at each request.

_MASK = (1 << 64) - 1
#: The step of the sequence, and the two factors that mix it (Steele, Lea and Flood).
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def noise(
    scale: float, seed: int = 0, step: int | None = None, decay: float = 0.55
) -> str:
    """Add Gaussian noise to the gradient: ``d + σ · z``, z standard normal.

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
        If the scale is negative or no finite number, or a seed is not a whole number.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.sin(x))
    >>> rule = wb.override("sin", wb.rules.noise(0.1, seed=3))
    >>> one, two = (wb.grad(f, overrides=[rule])(np.zeros(1000)) for _ in range(2))
    >>> bool(np.all(one == two)), round(float(np.std(one)), 2)
    (True, 0.1)
    """
    _check_noise(scale, seed, step, decay)
    return write_rule("noise", scale=scale, seed=seed, step=step, decay=decay)


def _check_noise(scale: object, seed: object, step: object, decay: object) -> None:
    for name, value in (("scale", scale), ("decay", decay)):
        value = unwrap_scalar(value)
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise OverrideError(
                f"noise: {name}={value!r}; give a finite number that is not negative."
            )
    for name, value in (("seed", seed), ("step", step)):
        value = unwrap_scalar(value)
        if name == "step" and value is None:
            continue
        if type(value) is not int or value < 0:
            raise OverrideError(
                f"noise: {name}={value!r}; give a whole number that is not negative."
            )


def _label(scale: float, step: int | None, decay: float, seed: int) -> str:
    _check_noise(scale, seed, step, decay)
    return f"noise ±{spell_number(float(f'{_deviation(scale, step, decay):.3g}'))}"


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
    _check_noise(scale, seed, step, decay)
    deviation = _deviation(scale, step, decay)
    place = (seed, -1 if step is None else step, node.position)
    return [
        None if d is None else d + deviation * _draw_normal(d, (*place, i))
        for i, d in enumerate(node.vjp_wrt(*cotangents))
    ]


def _draw_normal(d: Array, place: tuple[int, ...]) -> Array:
    """Return standard normal numbers in the shape, dtype and place of a gradient."""
    if dims.has_dim(shape_of(d)):
        raise OverrideError(
            "noise needs to know the shape of the gradient, and a length of it is not"
            " known before the program runs. Give the input a shape."
        )
    dtype = np.dtype(getattr(d, "dtype", float))
    plain = getattr(d, "_value", d)
    like = {"like": np.zeros_like(plain)} if hasattr(plain, "dtype") else {}
    count = math.prod(shape_of(d))
    made = _draw_standard(count, (*place, 0), like)
    if dtype.kind == "c":
        made = made + 1j * _draw_standard(count, (*place, 1), like)
    return np.reshape(made.astype(dtype), shape_of(d))


def _draw_standard(count: int, place: tuple[int, ...], like: dict[str, Any]) -> Array:
    """Return as many standard normal numbers, in float64."""
    radius = np.sqrt(-2 * np.log(_draw_uniform(count, (*place, 0), like)))
    return radius * np.cos(2 * np.pi * _draw_uniform(count, (*place, 1), like))


def _draw_uniform(count: int, place: tuple[int, ...], like: dict[str, Any]) -> Array:
    """Numbers between 0 and 1, without both."""
    key = 0
    for part in place:
        key = _mix((key * _STEP + part + 1) & _MASK, lambda n: n) & _MASK
    counter = np.arange(
        1, count + 1, dtype=np.uint64, **like
    )  # host array: or that of `like`
    bits = _mix(counter * np.uint64(_STEP) + np.uint64(key), np.uint64)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def _mix(x: Any, number: Any) -> Any:
    """Mix bits as SplitMix64 does, of arrays that wrap, or of a whole number.

    ``number`` makes the constants: CuPy's arrays want them of their own dtype.
    """
    x = (x ^ (x >> number(30))) * number(_FIRST)
    x = x & number(_MASK)
    x = (x ^ (x >> number(27))) * number(_SECOND)
    x = x & number(_MASK)
    return x ^ (x >> number(31))
