"""Derivatives of a function that runs: no rule of ours takes part.

Three ways, from a function of one real step ``t`` around 0: the complex step,
exact to rounding, where the function is analytic and takes complex numbers;
central differences, extrapolated to step 0 with an estimate of what is left
(C. Ridders, Advances in Engineering Software 4, 1982); one-sided differences,
which disagree at a kink.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

import numpy as np

from workbench.checks.progress import tick
from workbench.checks.report import Verdict
from workbench.core import tree
from workbench.core.trace import check_float
from workbench.core.types import is_one_number
from workbench.errors import NonScalarOutputError

Array = np.ndarray[Any, Any]
Line = Callable[[complex], Array]
Method = Literal["complex step", "differences"]

#: The first step of the differences, for a variable of size 1; then halved.
FIRST_STEP = 2.0**-4
LEVELS = 14
#: Steps of the one-sided differences; small, so that curvature vanishes.
KINK_STEPS = (2.0**-13, 2.0**-14)
BEND_STEP = 2.0**-10
EXACT_STEP = 1e-20
#: A derivative below this, or this part of the largest, may be what such a step leaves.
FAINT = 1e-12
#: Steps that may still confirm the complex step where those above do not.
NEAR_STEPS = tuple(2.0**-k for k in (24, 28, 32, 36, 40, 44, 48))
#: Steps that tell a kink at the point from one nearby.
NEARER_STEPS = tuple(2.0**-k for k in (20, 27, 34, 40))
#: Steps of the central differences that an extrapolated derivative must agree with.
CENTRAL_STEPS = (2.0**-20, 2.0**-21)
#: Scales of steps, where the function has no value at those of the usual one.
SMALLER_SCALES = (2.0**-8, 2.0**-16, 2.0**-22)
#: A step that is no power of 2: across jumps at equal distances these agree.
UNEVEN_STEP = 0.83 * KINK_STEPS[0]
#: What the extrapolation is content with, relatively: alone, and to confirm.
TIGHT, LOOSE = 1e-11, 1e-6


@dataclass(frozen=True, slots=True)
class Slope:
    """The derivative of several outputs by one step, entry by entry.

    Attributes
    ----------
    value
        The derivative.
    error
        How far off it may be.
    left, right
        The one-sided derivatives.
    kink
        Where the two disagree: the function has no derivative there.
    jump
        Where they disagree without bound: the function itself jumps.
    method
        How ``value`` was found.
    """

    value: Array
    error: Array
    left: Array
    right: Array
    kink: Array
    jump: Array
    method: Method


def slope(
    line: Line,
    scale: float = 1.0,
    *,
    analytic: bool = True,
    known: bool = False,
    target: float = TIGHT,
    grain: Array | float = 0.0,
    center: Array | None = None,
) -> Slope:
    """Return the derivative at 0 of a function of one real step.

    Parameters
    ----------
    line
        ``line(t) -> array``; it gets complex steps too if ``analytic`` is true, and
        may raise for them.
    scale
        A step that changes the function noticeably, usually the size of the variable.
    analytic
        Try the complex step. Its result counts only if differences confirm it, so a
        function that drops imaginary parts on its way does no harm.
    known
        The function is one that carries complex numbers and has no kink where it is
        finite: the complex step needs no differences to confirm it.
    target
        The relative error at which the differences are content.
    grain
        What rounding does to the function's values, where it is known to be more than
        a rounding of their own.
    center
        The function's values at 0, if they are known.
    """
    line = _ask_before(line)
    with np.errstate(all="ignore"):
        center = np.asarray(line(0.0)) if center is None else center
        exact = _complex_step(line, center, scale, known) if analytic else None
        if known and exact is not None:
            exact[~np.isfinite(center)] = np.nan
            error = np.maximum(np.abs(exact), _small_size(exact))
            error *= 16 * np.finfo(exact.dtype).eps
            error += _truncation(line, exact, scale, known)
            nowhere = np.zeros(exact.shape, bool)
            return Slope(exact, error, exact, exact, nowhere, nowhere, "complex step")
        wanted = LOOSE if exact is not None else target
        near, scale = _evaluate_near(line, center, scale)
        rounding = (
            np.maximum(_rounding(center), _cancellation_error(center, near)) + grain
        )
        left, right, kink, jump = _measure_sides(center, near, rounding)

        def extrapolate(target: float) -> tuple[Array, Array, Array]:
            made = _extrapolate(line, rounding, scale, target)
            return _correct_chance(line, near, rounding, scale, target, kink, *made)

        value, error, unknown = extrapolate(wanted)
        if np.any(kink):
            value, error, kink, jump = _drop_nearby_kinks(
                line, center, scale, rounding, (value, error, left, right, kink, jump)
            )
        method: Method = "differences"
        if exact is not None:
            size = np.maximum(np.abs(exact), _small_size(exact))
            close = np.all(np.abs(exact - value) <= 10 * error + 1e-6 * size)
            if close or _is_confirmed(line, center, scale, exact, size):
                method = "complex step"
                # What the function rounds away on its way, at least.
                value, error = exact, 16 * np.finfo(exact.dtype).eps * size
                error += _truncation(line, exact, scale, known)
            else:
                again, off, again_unknown = extrapolate(target)
                better = (off < error) & ~again_unknown
                value = np.where(better, again, value)
                error = np.where(better, off, error)
                unknown &= ~better
        if method == "differences":
            error = np.where(unknown, np.inf, error)
    return Slope(value, error, left, right, kink, jump, method)


def _evaluate_near(
    line: Line, center: Array, scale: float
) -> tuple[list[tuple[float, Array, Array]], float]:
    """Return steps with the function's values on both sides, and the scale of steps.

    Where the function has no value at any of them, as the factor of a matrix that is
    barely positive definite, the scale is a smaller one, for which it has.
    """
    made = []
    for smaller in (1.0, *SMALLER_SCALES):
        steps = [step * scale * smaller for step in KINK_STEPS]
        made.append(([(h, line(h), line(-h)) for h in steps], scale * smaller))
        _, ahead, behind = made[-1][0][0]
        found = np.isfinite(ahead) & np.isfinite(behind)
        if np.any(found) or not np.any(np.isfinite(center)):
            return made[-1]
    return made[0]


def _ask_before(line: Line) -> Line:
    """Return the function with a `tick` before each call, which may end the check."""

    def ask(t: complex) -> Array:
        tick()
        return line(t)

    return ask


def curvature(line: Line, scale: float = 1.0) -> tuple[Array, Array]:
    """Return the second derivative at 0 from values alone, and its possible error.

    The error is infinite where the two sides differ.
    """
    line = _ask_before(line)
    with np.errstate(all="ignore"):
        center = np.asarray(line(0.0))
        value, error = _ridders(
            lambda h: (line(h) - 2 * center + line(-h)) / h**2,
            lambda h: 4 * _rounding(center) / h**2,
            scale,
            1e-8,
        )
        right, left = (
            _one_sided_curvature(line, center, scale),
            _one_sided_curvature(line, center, -scale),
        )
        size = np.maximum(np.abs(right), np.abs(left))
        noise = 128 * _rounding(center) / (BEND_STEP * scale) ** 2
        differs = np.abs(right - left) > 1e-3 * size + noise
    return value, np.where(differs, np.inf, error)


def _one_sided_curvature(line: Line, center: Array, scale: float) -> Array:
    """Return the second derivative on one side."""
    wide, narrow = (
        (line(2 * h) - 2 * line(h) + center) / h**2
        for h in (BEND_STEP * scale, BEND_STEP * scale / 2)
    )
    return np.asarray(2 * narrow - wide)


def numeric_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Any:
    """Return the gradient of a function that returns one number, from its values alone.

    As :func:`workbench.grad`, with no derivative rule involved: complex step where
    ``f`` is analytic, extrapolated differences elsewhere. The cost is some ten
    calls of ``f`` per entry; it is for checking.

    Examples
    --------
    >>> import numpy as np
    >>> numeric_grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([1., 1.])
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = []
        for n in numbers:
            leaves, structure = tree.flatten(args[n])
            for x in leaves:
                check_float(x, f"argument {n}", "numeric_grad: ")
            arrays = [np.asarray(x) for x in leaves]

            def value(*new: Any, n: int = n, structure: Any = structure) -> Array:
                changed = (*args[:n], structure(list(new)), *args[n + 1 :])
                y = np.asarray(f(*changed, **kwargs))
                if not is_one_number(y.shape):
                    raise NonScalarOutputError(
                        "numeric_grad needs a function that returns one number; it"
                        f" returned shape {y.shape}. Reduce it, with np.sum say."
                    )
                return y.reshape(1)

            found.append(
                structure([_gradient(value, arrays, i) for i in range(len(arrays))])
            )
        return found[0] if isinstance(argnums, int) else tuple(found)

    return gradient


def _gradient(value: Callable[..., Array], arrays: list[Array], which: int) -> Array:
    x = arrays[which]
    out = np.empty(x.shape, x.dtype)
    for i in range(x.size):
        line, scale = perturb_entry(value, arrays, which, i)
        if x.dtype.kind == "c":
            real = slope(line, scale, analytic=False).value[0]
            turned, _ = perturb_entry(value, arrays, which, i, 1j)
            imaginary = slope(turned, scale, analytic=False).value[0]
            out.flat[i] = real - 1j * imaginary
        else:
            out.flat[i] = slope(line, scale).value[0]
    return out


def to_double(x: Array) -> Array:
    """Return a float array in double precision at least; others unchanged."""
    if x.dtype.kind not in "fc":
        return x
    return x.astype(np.result_type(x.dtype, np.float64))


def perturb_entry(
    f: Callable[..., Array],
    arrays: Sequence[Array],
    which: int,
    entry: int,
    direction: complex = 1,
) -> tuple[Line, float]:
    """Return ``f`` along one entry of one of its arrays, and the size of that entry.

    Single precision is raised to double, so that differences can tell.
    """
    wide = list(map(to_double, arrays))
    start = wide[which]

    def line(t: complex) -> Array:
        moved = start.astype(np.result_type(start.dtype, type(t * direction)))
        moved.flat[entry] += t * direction
        # Only the entry asked for differs, in a fresh array each time: the function
        # may keep what it is given.
        return f(*wide[:which], moved, *wide[which + 1 :])

    size = float(abs(start.flat[entry]))
    return line, size if 1e-3 < size < 1e6 else (1.0 if size <= 1e-3 else size)


def _truncation(line: Line, exact: Array, scale: float, known: bool) -> Array | float:
    """Return how far off a complex step may be since its step is not 0.

    It is as the third derivative times the square of the step: nothing beside a
    derivative, but all that is left where that is 0, as of ``x**3`` at 0. A step of
    twice the size tells it, which is made only where an entry is so small.
    """
    size = np.abs(exact)
    if not size.size or not np.any(
        (size > 0) & (size < FAINT * max(1.0, float(np.max(size))))
    ):
        return 0.0
    wide = _complex_step(line, exact, scale, known, 2 * EXACT_STEP)
    return 0.0 if wide is None else np.nan_to_num(np.abs(wide - exact))


def _complex_step(
    line: Line, center: Array, scale: float, known: bool, step: float = EXACT_STEP
) -> Array | None:
    """Return the complex step; None where the function takes no complex numbers.

    One that is ``known`` drops no imaginary part, for which NumPy has a warning.
    """
    if center.dtype.kind != "f":
        return None
    step = step * scale
    try:
        with nullcontext() if known else warnings.catch_warnings():
            if not known:
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
            moved = np.asarray(line(1j * step))
    except Exception:
        # Any refusal, also one of the user's own code: differences do instead.
        return None
    if moved.dtype.kind != "c" or moved.shape != center.shape:
        return None
    return np.asarray(moved.imag / step)


def _is_confirmed(
    line: Line, center: Array, scale: float, exact: Array, size: Array
) -> bool:
    """Return whether differences of some far smaller step agree with the complex step.

    A function may bend within the usual steps, as cos(x) at 1e6, or end there, as
    log(x) at 1e-9.
    """
    for step in NEAR_STEPS:
        h = step * scale
        found = (line(h) - line(-h)) / (2 * h)
        if np.all(_rounding(center) / h <= 1e-5 * size):
            if np.all(np.abs(exact - found) <= 1e-5 * size):
                return True
    return False


def _extrapolate(
    line: Line, rounding: Array, scale: float, target: float
) -> tuple[Array, Array]:
    return _ridders(
        lambda h: (line(h) - line(-h)) / (2 * h),
        lambda h: rounding / h,
        scale,
        target,
    )


def _ridders(
    quotient: Callable[[float], Array],
    rounding: Callable[[float], Array],
    scale: float,
    target: float,
) -> tuple[Array, Array]:
    """Extrapolate a quotient that is even in its step to step 0 (Richardson).

    Each halving of the step adds a row; of all entries of the tableau the one that
    differs least from its neighbours is taken, for each output on its own.
    """
    best = error = np.zeros(0)
    previous: list[Array] = []
    for level in range(LEVELS):
        h = FIRST_STEP * scale * 2.0**-level
        row = [np.asarray(quotient(h))]
        noise = rounding(h)
        if level == 0:
            best, error = row[0], np.full(row[0].shape, np.inf)
        for j in range(1, level + 1):
            factor = 4.0**j
            row.append((factor * row[-1] - previous[j - 1]) / (factor - 1))
            spread = noise + np.maximum(
                np.abs(row[j] - row[j - 1]), np.abs(row[j] - previous[j - 1])
            )
            better = spread < error
            best = np.where(better, row[j], best)
            error = np.where(better, spread, error)
        previous = row
        if level > 1 and target > TIGHT:
            # Rounding is reached: a smaller step makes it worse.
            if np.all((error <= target * np.abs(best)) | (error <= 4 * noise)):
                break
        elif level > 1 and np.all(error <= target * np.maximum(np.abs(best), 1e-300)):
            break
    return best, error


def _correct_chance(
    line: Line,
    near: Sequence[tuple[float, Array, Array]],
    rounding: Array,
    scale: float,
    target: float,
    kink: Array,
    value: Array,
    error: Array,
) -> tuple[Array, Array, Array]:
    """Return derivatives that small steps agree with, and where there are none.

    Steps across several jumps, as of ``floor(x)`` at 100.3, or beyond a bend can give
    the same slope twice by chance. What differs from central differences of smaller
    steps is extrapolated again, from those on; kinks are left as they are.
    """
    middle, slack = _measure_center(near, rounding)
    size = np.maximum(np.abs(value), np.abs(middle))
    off = np.abs(value - middle) + slack
    h = UNEVEN_STEP * scale
    off = np.maximum(off, np.abs(value - (line(h) - line(-h)) / (2 * h)))
    suspect = ~kink & (off > error + 1e-3 * size)
    # An infinite error says already that nothing is known.
    suspect &= np.isfinite(middle)
    if not np.any(suspect):
        return value, error, suspect
    steps = (step * scale for step in CENTRAL_STEPS)
    middle, slack = _measure_center([(h, line(h), line(-h)) for h in steps], rounding)

    def differs(value: Array, error: Array) -> Array:
        size = np.maximum(np.abs(value), np.abs(middle))
        found: Array = np.abs(value - middle) > error + slack + 1e-3 * size
        return found

    suspect &= differs(value, error)
    if not np.any(suspect):
        return value, error, suspect
    nearer = scale * KINK_STEPS[0] / FIRST_STEP
    again, off = _extrapolate(line, rounding, nearer, target)
    better = suspect & ~differs(again, off) & np.isfinite(off)
    value, error = np.where(better, again, value), np.where(better, off, error)
    return value, error, suspect & ~better


def _measure_center(
    near: Sequence[tuple[float, Array, Array]], rounding: Array
) -> tuple[Array, Array]:
    """Return the derivative by central differences of two steps, and its error."""
    wide, narrow = ((y - z) / (2 * h) for h, y, z in near)
    noise = 8 * rounding / near[1][0]
    return (4 * narrow - wide) / 3, 2 * np.abs(narrow - wide) + noise


def _measure_sides(
    center: Array, near: Sequence[tuple[float, Array, Array]], rounding: Array
) -> tuple[Array, Array, Array, Array]:
    """Return one-sided derivatives, and where they disagree: kinks and jumps."""
    wide, narrow = ((h, (y - center) / h, (center - z) / h) for h, y, z in near)
    right = 2 * narrow[1] - wide[1]
    left = 2 * narrow[2] - wide[2]
    gap_wide, gap = wide[1] - wide[2], narrow[1] - narrow[2]
    noise = 64 * rounding / narrow[0]
    size = np.maximum(np.maximum(np.abs(left), np.abs(right)), 1e-12)
    # A smooth function's gap halves with the step, a kink's stays, a jump's doubles.
    limit = np.abs(2 * gap - gap_wide)
    kink = limit > np.maximum(1e-4 * size, noise)
    kink |= ~np.isfinite(limit) & np.isfinite(center)
    jump = kink & (np.abs(gap) > 1.5 * np.abs(gap_wide))
    across, across_wide = narrow[1] + narrow[2], wide[1] + wide[2]
    jump |= (np.abs(across) > 1.5 * np.abs(across_wide)) & (np.abs(across) > noise)
    return left, right, kink | jump, jump


def _drop_nearby_kinks(
    line: Line,
    center: Array,
    scale: float,
    rounding: Array,
    found: tuple[Array, ...],
) -> tuple[Array, Array, Array, Array]:
    """Return which kinks lie at the point itself, and which only within the steps.

    With ever smaller steps the two sides of a kink nearby come to agree; then that is
    the derivative. So it goes on until rounding hides the gap.
    """
    value, error, left, right, kink, jump = found
    gap, size = np.abs(right - left), np.maximum(np.abs(left), np.abs(right))
    for step in NEARER_STEPS:
        h = step * scale
        noise = 8 * rounding / h
        ahead, behind = (line(h) - center) / h, (center - line(-h)) / h
        near = kink & (np.abs(ahead - behind) <= np.maximum(1e-4 * size, 8 * noise))
        near &= (noise < 0.01 * gap) & np.isfinite(ahead) & np.isfinite(behind)
        # At a jump whose middle is the value both sides grow alike, as 1 / h.
        near &= np.abs(ahead) <= 8 * size
        value = np.where(near, (ahead + behind) / 2, value)
        error = np.where(near, noise + np.abs(ahead - behind), error)
        kink, jump = kink & ~near, jump & ~near
        if not np.any(kink):
            break
    return value, error, kink, jump


def _cancellation_error(
    center: Array, near: Sequence[tuple[float, Array, Array]]
) -> Array:
    """Return the rounding of terms that cancel: ``x log(x/y) - x + y`` near ``x = y``.

    The value is almost 0 there and does not show it. A smooth function's second
    difference over a step of the square root of a rounding is as large; a kink's, which
    halves with the step, tells nothing.
    """
    wide, narrow = (np.abs(y + z - 2 * center) for _, y, z in near)
    kind = center.dtype if center.dtype.kind in "fc" else np.dtype(np.float64)
    found = np.where(wide > 3 * narrow, wide, 0) / KINK_STEPS[0] ** 2
    return np.asarray(np.nan_to_num(found * np.finfo(kind).eps, posinf=0))


def _rounding(center: Array) -> Array:
    """Return the rounding error of the values of the function."""
    kind = center.dtype if center.dtype.kind in "fc" else np.dtype(np.float64)
    return np.asarray(np.finfo(kind).eps * np.abs(center))


def _small_size(x: Array) -> Any:
    """Return the size that counts as small among outputs; 0 for rows of directions."""
    return max_finite(x) * 1e-3 if x.ndim < 2 else 0.0


def max_finite(x: Array) -> float:
    """Return the largest finite absolute value, 0 where there is none."""
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


# The rounding of a derivative, measured: where terms cancel, it is all that is left.
#
# A derivative is linear in its cotangents, or in its tangents: a multiple of these
# gives the same multiple of it, but for rounding.

#: The multiples, whose digits have nothing in common.
MULTIPLES = (1.1, 1.3819660112501052, 1.7320508075688772)


def measure_rounding(
    linear: Callable[[list[Any]], Sequence[Any]],
    given: Sequence[Any],
    made: Sequence[Any],
) -> list[float]:
    """Return the largest rounding error in each of ``made = linear(given)``.

    Examples
    --------
    >>> def gradient(g):
    ...     return [g[0] - 49 * (g[0] / 49)]
    >>> off = measure_rounding(gradient, [np.ones(2)], gradient([np.ones(2)]))
    >>> 0 < off[0] < 1e-15
    True
    """
    most = [0.0] * len(made)
    for c in MULTIPLES:
        again = linear([np.asarray(x * c).astype(np.asarray(x).dtype) for x in given])
        for i, (x, y) in enumerate(zip(made, again, strict=True)):
            off = np.abs(np.asarray(y) / c - np.asarray(x))
            most[i] = max(most[i], float(np.max(off[np.isfinite(off)], initial=0)))
    return most


# A claimed derivative judged by a measured one.

#: The relative error that a derivative may have, in double and in single precision.
RTOL = {"double": 1e-6, "single": 2e-3}
ATOL = {"double": 1e-8, "single": 1e-4}
#: How many measured roundings the error of a derivative may have.
NOISES = 64


class Tolerance:
    """The error that an entry may have."""

    def __init__(self, rtol: float | None, atol: float | None) -> None:
        self.rtol, self.atol = rtol, atol

    def __call__(
        self,
        expected: complex,
        uncertainty: float,
        dtype: Any,
        noise: float = 0.0,
    ) -> float:
        """Return the absolute error that an entry of this size and dtype may have.

        ``noise`` is what rounding does to it, measured.
        """
        kind = "single" if np.finfo(dtype).eps > 1e-10 else "double"
        rtol = RTOL[kind] if self.rtol is None else self.rtol
        atol = ATOL[kind] + NOISES * noise if self.atol is None else self.atol
        size = abs(expected) if np.isfinite(expected) else 0.0
        slack = 4 * uncertainty if np.isfinite(uncertainty) else 0.0
        return atol + rtol * size + slack


class Truth:
    """The derivative by one entry from differences, weighted by the cotangent."""

    __slots__ = ("jump", "kink", "left", "method", "numeric", "right", "uncertainty")

    def __init__(self, found: Slope, weights: Array, real: bool) -> None:
        moves = weights != 0

        def total(x: Array) -> complex:
            with np.errstate(all="ignore"):
                y = complex(np.sum(np.where(moves, weights * x, 0)))
            return y.real if real else y

        self.numeric = total(found.value)
        self.left = self.right = self.numeric
        if found.left is not found.value or found.right is not found.value:
            self.left, self.right = total(found.left), total(found.right)
        self.uncertainty = float(np.sum(np.abs(weights[moves]) * found.error[moves]))
        self.kink = bool(np.any(found.kink & moves))
        self.jump = bool(np.any(found.jump & moves))
        self.method = found.method


def judge_truth(got: complex, truth: Truth, tolerance: float) -> Verdict:
    """Return the verdict on a derivative, by a weighted sum of measured ones."""
    if abs(got - truth.numeric) <= tolerance:
        return "kink" if truth.kink else "right"
    if truth.jump:
        return "kink"
    if truth.kink:
        sides = (truth.left, truth.right)
        if not np.all(np.isfinite(sides)):
            return "unsure"
        low, high = sorted(complex(s).real for s in sides)
        inside = low - tolerance <= complex(got).real <= high + tolerance
        return "kink" if inside else "wrong"
    if not np.isfinite(truth.numeric) or not np.isfinite(truth.uncertainty):
        return "unsure"
    return "wrong"


def judge_entry(
    got: Any, expected: Any, limit: float, left: Any, right: Any, kink: bool, jump: bool
) -> Verdict:
    """Return the verdict on one entry of a derivative, by its measured value."""
    if kink:
        if jump:
            return "kink"
        sides = complex(left), complex(right)
        if not np.all(np.isfinite(sides)):
            return "unsure"
        low, high = sorted(s.real for s in sides)
        fits = low - limit <= complex(got).real <= high + limit
        # Where rounding looks like a kink the sides are less sure than the derivative.
        return "kink" if fits or abs(got - expected) <= limit else "wrong"
    if not np.isfinite(expected) or not np.isfinite(limit):
        return "unsure"
    return "right" if abs(got - expected) <= limit else "wrong"
