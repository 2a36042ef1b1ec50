"""`verify_grad`: a gradient against differences of values, through random projections.

:func:`workbench.check_grads` checks more: forward mode, higher orders, kinks, and it
reports every entry.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.autodiff.jacobian import vjp
from workbench.checks.comparison import run_from_host
from workbench.checks.differences import RTOL, perturb_entry, slope
from workbench.checks.progress import BUDGET, ProgressMeter, describe_unchecked
from workbench.core import tree, types
from workbench.core.arguments import check_arguments
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import check_function, record
from workbench.core.types import ArrayLike
from workbench.errors import DtypeError, NonScalarOutputError, UsageError
from workbench.errors import GradientError as WrongGradient

# `numeric_grad`: a gradient from values alone, and how far another is off it.

Array = np.ndarray[Any, Any]


class numeric_grad:
    """The gradient of a function of arrays that returns one number, by differences.

    Parameters
    ----------
    f
        ``f(*pt)`` returns one real number.
    pt
        Where: an array, or a list or tuple of arrays, of float dtype.
    eps
        The step of central differences. By default there is no one step: the complex
        step where f takes complex numbers, else differences extrapolated to step 0 (see
        `workbench.checks.differences`).
    out_type
        Taken for the sake of old programs; the precision of f is seen in its values.
    budget
        The seconds that it may take; None: no limit. Entries that it has not come to
        are NaN.

    Attributes
    ----------
    gf
        The gradient: an array for an array, else a list of them.
    unchecked
        Which entries it has not come to, in words.

    Raises
    ------
    NonScalarOutputError
        If f returns more than one number.
    DtypeError
        If an array is of integer dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.gradient import numeric_grad
    >>> found = numeric_grad(lambda x: np.sum(x**3), np.array([1.0, 2.0]))
    >>> np.round(found.gf, 9)
    array([ 3., 12.])
    >>> arg, position, abs_err, rel_err = found.max_err([np.array([3.0, 12.5])], 1, 1)
    >>> arg, position, round(abs_err, 9), round(rel_err, 9)
    (0, 1, 0.5, 0.020408163)
    """

    def __init__(
        self,
        f: Callable[..., Any],
        pt: ArrayLike | Sequence[ArrayLike],
        eps: float | None = None,
        out_type: npt.DTypeLike | None = None,
        *,
        budget: float | None = None,
    ) -> None:
        check_function(f, "numeric_grad")
        points = pt if isinstance(pt, (list, tuple)) else [pt]
        arrays = [np.asarray(x) for x in points]
        for i, x in enumerate(arrays):
            if x.dtype.kind not in "fc":
                raise DtypeError(
                    f"numeric_grad: pt[{i}] is of dtype {x.dtype}, and only floats and"
                    " complex numbers have derivatives. Pass it as .astype(float)."
                )
        if eps is not None and not eps > 0:
            raise UsageError(
                f"numeric_grad: eps={eps!r} is not a step. Give one above 0."
            )

        narrow = False

        def value(*given: Array) -> Array:
            if narrow:
                given = tuple(
                    g.astype(x.dtype) for g, x in zip(given, arrays, strict=True)
                )
            y = np.asarray(evaluate_array(f, given))
            if not types.is_one_number(y.shape):
                raise NonScalarOutputError(
                    "numeric_grad needs a function that returns one number; it"
                    f" returned shape {y.shape}. Reduce it, with np.sum say."
                )
            return y.reshape(1)

        if any(np.finfo(x.dtype).eps > 1e-10 for x in arrays):
            try:
                value(*(x.astype(np.result_type(x, np.float64)) for x in arrays))
            except DtypeError:
                narrow = True  # a function of single precision, and of nothing else
        found = []
        with ProgressMeter(None, sum(x.size for x in arrays), budget) as meter:
            for i in range(len(arrays)):
                found.append(_difference_slopes(value, arrays, i, eps, meter))
        if meter.stopped:
            raise KeyboardInterrupt
        self.unchecked = meter.unchecked
        #: Where it was measured.
        self.measured = [done for _, _, done in found]
        #: What each entry may be off by.
        self.uncertain = [error for _, error, _ in found]
        self._each = [g for g, _, _ in found]
        self.gf: Any = self._each if points is pt else self._each[0]

    @staticmethod
    def abs_rel_err(a: Any, b: Any) -> tuple[Any, Any]:
        """Return the absolute and the relative error of two arrays, entry by entry.

        ``abs(a - b)``, and that over ``max(abs(a) + abs(b), 1e-8)``, so that the
        relative error of two numbers near 0 is small too.

        Examples
        --------
        >>> from workbench.gradient import numeric_grad
        >>> numeric_grad.abs_rel_err(3.0, 1.0)
        (2.0, 0.5)
        """
        abs_err = abs(a - b)
        rel_err = abs_err / np.maximum(abs(a) + abs(b), 1e-8)
        return (
            (float(abs_err), float(rel_err))
            if np.ndim(abs_err) == 0
            else (abs_err, rel_err)
        )

    def abs_rel_errors(self, g_pt: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the errors of a gradient that somebody has, one pair for each array.

        Raises
        ------
        UsageError
            If there are more arrays or fewer than in ``gf``, or one of another shape.
        """
        given = list(g_pt) if isinstance(g_pt, (list, tuple)) else [g_pt]
        if len(given) != len(self._each):
            raise UsageError(
                f"abs_rel_errors: {len(given)} arrays are given, and there are"
                f" {len(self._each)} gradients. Give one for each."
            )
        errors = []
        for i, (a, b) in enumerate(zip(given, self._each, strict=True)):
            if np.shape(a) != b.shape:
                raise UsageError(
                    f"abs_rel_errors: array {i} has shape {np.shape(a)}, and the"
                    f" gradient {b.shape}. Give it that shape."
                )
            errors.append(self.abs_rel_err(np.asarray(a), b))
        return errors

    def max_err(
        self, g_pt: Sequence[Any], abs_tol: float, rel_tol: float
    ) -> tuple[int, int, float, float]:
        """Return where a gradient that somebody has breaks the tolerances most.

        Of all entries that for which ``min(abs_err / abs_tol, rel_err / rel_tol)`` is
        largest: above 1 both tolerances are exceeded.

        Returns
        -------
        The array, the flat position in it, and the absolute and relative error there.

        Raises
        ------
        UsageError
            As `abs_rel_errors`; and if an error is not finite.
        """
        worst: tuple[float, int, int, float, float] | None = None
        for arg, (abs_err, rel_err) in enumerate(self.abs_rel_errors(g_pt)):
            flat_abs, flat_rel = np.ravel(abs_err), np.ravel(rel_err)
            if not (np.isfinite(flat_abs).all() and np.isfinite(flat_rel).all()):
                at = int(np.argmin(np.isfinite(flat_abs) & np.isfinite(flat_rel)))
                raise UsageError(
                    f"max_err: the error of array {arg} is {flat_abs[at]} at position"
                    f" {at}: either gradient is infinite or NaN there."
                )
            if not flat_abs.size:
                continue
            scaled = np.minimum(flat_abs / abs_tol, flat_rel / rel_tol)
            at = int(np.argmax(scaled))
            if worst is None or scaled[at] > worst[0]:
                worst = (
                    float(scaled[at]), arg, at,
                    float(flat_abs[at]), float(flat_rel[at]),
                )  # fmt: skip
        return (0, 0, 0.0, 0.0) if worst is None else worst[1:]


def evaluate_array(f: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """Return the result of a function of arrays (or of expressions), as an array."""
    return as_array(f(*arrays))


def as_array(x: object) -> Any:
    """Return the array of an expression; return any other value unchanged."""
    return x.eval() if isinstance(x, Tensor) else x


def _difference_slopes(
    value: Callable[..., Array],
    arrays: list[Array],
    which: int,
    eps: float | None,
    meter: ProgressMeter,
) -> tuple[Array, Array, Array]:
    """Return the slope by each entry of an array, its error, and a mask of known ones.

    Entries for which there is no time are NaN. They are taken in a random order, the
    same at each call, so that the entries left out have no pattern.
    """
    x = arrays[which]
    found = np.full(x.shape, np.nan, np.result_type(x.dtype, np.float64))
    error, known = np.zeros(x.shape), np.zeros(x.shape, bool)

    def measure(i: int) -> None:
        """Measure the slope by one entry."""
        meter.step()
        directions = (1, 1j) if x.dtype.kind == "c" else (1,)
        parts = []
        for direction in directions:
            line, scale = perturb_entry(value, arrays, which, i, direction)
            if eps is not None:
                parts.append((line(eps) - line(-eps))[0] / (2 * eps))
                continue
            measured = slope(line, scale, analytic=x.dtype.kind == "f")
            near = float(abs(x.flat[i]))
            if measured.kink[0] and 0 < near < scale:
                # At 1e-9 the kink of abs(x) lies within the usual steps.
                measured = slope(line, near, analytic=x.dtype.kind == "f")
            parts.append(measured.value[0])
            error.flat[i] = max(error.flat[i], float(measured.error[0]))
        found.flat[i] = parts[0] - (1j * parts[1] if len(parts) > 1 else 0)
        known.flat[i] = True

    for i in np.random.default_rng(0).permutation(x.size).tolist():
        if not meter.attempt("", partial(measure, i)):
            break
    left = x.size - np.count_nonzero(known)
    if left:
        meter.list_unchecked(f"{left} of {x.size} entries of pt[{which}]")
    return found, error, known


# `verify_grad`

#: What a gradient may be off by where the user chose the step of the differences.
STEPPED = {"double": 1e-4, "single": 1e-2}


class GradientError(WrongGradient):
    """`verify_grad` found a wrong gradient.

    Parameters
    ----------
    arg, err_pos
        The argument, and the flat position in it, where the error is worst.
    abs_err, rel_err
        The absolute and relative error there.
    abs_tol, rel_tol
        What they may be.
    message
        What it says; by default these.

    Examples
    --------
    >>> from workbench.gradient import GradientError
    >>> error = GradientError(0, 2, 0.5, 0.1, 1e-4, 1e-4)
    >>> error.err_pos, error.abs_err
    (2, 0.5)
    """

    def __init__(
        self,
        arg: int,
        err_pos: int,
        abs_err: float,
        rel_err: float,
        abs_tol: float,
        rel_tol: float,
        message: str = "",
    ) -> None:
        super().__init__(
            message
            or f"the gradient of argument {arg} is wrong at position {err_pos}: the"
            f" absolute error {abs_err:.3g} exceeds {abs_tol:.3g}, the relative error"
            f" {rel_err:.3g} exceeds {rel_tol:.3g}.",
            arg=arg, err_pos=err_pos, abs_err=abs_err, rel_err=rel_err,
            abs_tol=abs_tol, rel_tol=rel_tol,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        six = self.arg, self.err_pos, self.abs_err, self.rel_err, self.abs_tol
        return type(self), (*six, self.rel_tol, str(self))


#: The modes that Theano and PyTensor know by name: they choose how these compile.
MODES = (
    "Mode", "FAST_RUN", "FAST_RUN_NOGC", "FAST_COMPILE", "STABILIZE", "JIT",
    "DebugMode", "DEBUG_MODE", "ProfileMode", "PROFILE_MODE", "NanGuardMode",
    "MonitorMode", "CVM", "C", "C_VM", "VM", "NUMBA", "JAX", "PYTORCH", "MLX",
)  # fmt: skip


def check_mode(mode: object, name: str) -> None:
    """Refuse the name of a mode that there never was; modes have no effect here."""
    if isinstance(mode, str) and mode not in MODES:
        raise UsageError(
            f"{name}: mode={mode!r} is not a mode of Theano's or PyTensor's. Those are"
            f" {', '.join(MODES)}; none has an effect here, so leave it out."
        )


def verify_grad(
    fun: Callable[..., Any],
    pt: Sequence[Any],
    n_tests: int = 2,
    rng: Any = None,
    eps: float | None = None,
    out_type: npt.DTypeLike | None = None,
    abs_tol: float | None = None,
    rel_tol: float | None = None,
    mode: object = None,
    cast_to_output_type: bool = False,
    no_debug_ref: bool = True,
    *,
    budget: float | None = BUDGET,
) -> None:
    """Compare the gradient of a function with differences of its values.

    The output is made a number by a random projection, ``sum(u * fun(*pt))``.

    Parameters
    ----------
    fun
        A function of arrays, or of expressions, that returns one (or a nest of them).
    pt
        A list or tuple of float arrays, one per argument.
    n_tests
        How many projections to try.
    rng
        What u is drawn from: a generator of NumPy's, old or new, or ``numpy.random``
        itself. By default a fresh one, whose seed the error tells.
    eps
        The step of the differences; by default the step is chosen for each entry, and
        extrapolated to 0.
    out_type
        The dtype of the output, if that is less precise than ``pt``.
    abs_tol, rel_tol
        What an entry may be off by; an error needs both to be exceeded. By default
        1e-6 in double precision and 2e-3 in single; with ``eps`` 1e-4 and 1e-2.
    mode, no_debug_ref
        Taken for the sake of old programs; they change nothing.
    cast_to_output_type
        Draw u in single precision where the output is.
    budget
        The seconds that each projection may take; None: no limit. Then some entries,
        chosen at random, are compared, and a UserWarning tells how many are not.

    Raises
    ------
    GradientError
        If an entry is off. It says the argument, the position, the absolute and
        relative error, and both tolerances; and holds them.
    DtypeError
        If one of ``pt`` is not of float dtype.
    UsageError
        If ``pt`` is not a list, ``mode`` is not a mode of Theano's, or ``budget`` is no
        number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.gradient import verify_grad
    >>> verify_grad(np.tanh, [np.array([[2, 3, 4], [-1, 3.3, 9.9]])], rng=np.random)
    """
    check_function(fun, "verify_grad")
    check_mode(mode, "verify_grad")
    fun, arrays = _read_point(fun, pt)
    seed = None
    if rng is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        rng = np.random.default_rng(seed)
    given = {"double": RTOL["double"], "single": RTOL["single"]}
    kinds = [x.dtype for x in arrays] + ([] if out_type is None else [out_type])
    single = any(np.finfo(np.dtype(kind)).eps > 1e-10 for kind in kinds)
    default = (given if eps is None else STEPPED)["single" if single else "double"]
    tolerances = (
        default if abs_tol is None else abs_tol,
        default if rel_tol is None else rel_tol,
    )
    y, pullback = vjp(fun, *arrays)
    outputs, structure = tree.flatten(y)
    outputs = [np.asarray(as_array(part)) for part in outputs]
    is_complex = any(y.dtype.kind == "c" for y in outputs)
    for _ in range(n_tests):
        weights = [_draw_projection(rng, y, cast_to_output_type) for y in outputs]
        # vjp takes a cotangent in the dtype of the output.
        seeds = [
            u.astype(y.dtype) if y.dtype.kind in "fc" else u
            for u, y in zip(weights, outputs, strict=True)
        ]
        claimed = [
            np.zeros_like(x) if g is None else np.asarray(as_array(g))
            for g, x in zip(pullback(structure(seeds)), arrays, strict=True)
        ]
        projected = _project(fun, weights, is_complex)
        truth = numeric_grad(projected, arrays, eps, budget=budget)
        if truth.unchecked:
            warnings.warn(
                "verify_grad: "
                + "; ".join(describe_unchecked(truth.unchecked, budget)),
                UserWarning,
                stacklevel=2,
            )
        for g, off, done in zip(truth.gf, truth.uncertain, truth.measured, strict=True):
            off[~done], g[~done] = np.inf, 0
        claimed = [
            np.where(done | ~np.isfinite(g), g, 0)
            for g, done in zip(claimed, truth.measured, strict=True)
        ]
        _compare(truth, claimed, tolerances, seed)


def _read_point(
    fun: Callable[..., Any], pt: Sequence[Any]
) -> tuple[Callable[..., Any], list[Array]]:
    """Return a function, and its arguments, as they run on the host.

    Raises
    ------
    UsageError, DtypeError
        If it is no list of float arrays.
    """
    if not isinstance(pt, (list, tuple)):
        raise UsageError(
            "verify_grad: pt is a list or tuple with one array per argument of the"
            f" function; a {type(pt).__name__} was given. Write [x]."
        )
    if not pt:
        raise UsageError("verify_grad: pt is empty. Give one array per argument.")
    check_arguments(fun, pt, "verify_grad", "verify_grad(f, [{}])")
    fun, values = run_from_host(fun, [value_of(x) for x in pt])
    arrays = [np.array(x) for x in values]
    for i, x in enumerate(arrays):
        if x.dtype.kind not in "fc":
            raise DtypeError(
                f"verify_grad: pt[{i}] is of dtype {x.dtype}, and only floats have"
                " derivatives. Pass it as .astype(float)."
            )
    return fun, arrays


def _project(
    fun: Callable[..., Any], weights: Sequence[Any], is_complex: bool
) -> Callable[..., Any]:
    """Return a function with one number as its value: the weighted sum of outputs."""

    def projected(*moved: Array) -> Any:
        # As the gradient runs it: on Tensors, whose derivatives it may take.
        made = record(lambda leaves: fun(*leaves), list(moved), owns=True)
        total: Any = 0.0
        for u, part in zip(weights, made.outputs, strict=True):
            value = value_of(part)  # None where it reads a symbol or a shared value
            value = as_array(part if value is None else value)
            total = total + np.sum(u * np.asarray(value))
        return np.real(total) if is_complex else total

    return projected


def _draw_projection(rng: Any, y: Array, narrow: bool) -> Array:
    """Return a projection with weights between 0.5 and 1.5: none vanishes."""
    draw = rng.random if hasattr(rng, "random") else rng.random_sample
    u = np.asarray(draw(y.shape)) + 0.5
    if y.dtype.kind == "c":
        u = u + 1j * (np.asarray(draw(y.shape)) + 0.5)
    return u.astype(y.dtype) if narrow and np.finfo(y.dtype).eps > 1e-10 else u


def _compare(
    truth: numeric_grad,
    claimed: list[Any],
    tolerances: tuple[float, float],
    seed: int | None,
) -> None:
    """Raise an error if a gradient is off by more than the differences may be."""
    abs_tol, rel_tol = tolerances
    for i, g in enumerate(claimed):
        wrong = ~np.isfinite(g)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise _error_text(i, at, g, truth.gf[i], np.inf, np.inf, tolerances, seed)
        unknown = ~np.isfinite(truth.gf[i])
        if unknown.any():
            at = int(np.argmax(unknown))
            raise UsageError(
                f"verify_grad: differences give {truth.gf[i].flat[at]} for entry"
                f" {_format_place(at, g)} of argument {i}, and tell nothing: the"
                " function is not finite everywhere near it. Choose another point, or a"
                " small eps."
            )
    arg, at, abs_err, rel_err = truth.max_err(claimed, abs_tol, rel_tol)
    if abs_err > abs_tol and rel_err > rel_tol:
        # As far as the differences themselves are certain.
        if abs_err <= abs_tol + 4 * truth.uncertain[arg].flat[at]:
            return
        raise _error_text(
            arg, at, claimed[arg], truth.gf[arg], abs_err, rel_err, tolerances, seed
        )


def _format_place(at: int, array: Array) -> tuple[int, ...]:
    """Return the entry at a flat position."""
    return tuple(map(int, np.unravel_index(at, array.shape)))


def _error_text(
    arg: int,
    at: int,
    claimed: Array,
    measured: Array,
    abs_err: float,
    rel_err: float,
    tolerances: tuple[float, float],
    seed: int | None,
) -> GradientError:
    abs_tol, rel_tol = tolerances
    place = _format_place(at, claimed)
    drawn = "" if seed is None else f" The projection was drawn with seed {seed}."
    return GradientError(
        arg, at, abs_err, rel_err, abs_tol, rel_tol,
        f"verify_grad: the gradient of argument {arg} is wrong at position {at}"
        f" (entry {place}): it is {claimed.flat[at]:.6g}, and differences give"
        f" {measured.flat[at]:.6g}. The absolute error {abs_err:.3g} exceeds"
        f" {abs_tol:.3g}, the relative error {rel_err:.3g} exceeds {rel_tol:.3g}."
        f" wb.check_grads says which op it is.{drawn}",
    )  # fmt: skip
