"""`numeric_grad`: a gradient from values alone, and how far another is off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.checks.differences import perturbed, slope
from workbench.core.tensor import Tensor
from workbench.core.trace import check_function
from workbench.errors import DtypeError, NonScalarOutputError, UsageError

__all__ = ["array_of", "numeric_grad", "value_at"]

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

    Attributes
    ----------
    gf
        The gradient: an array for an array, else a list of them.

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
        pt: Any,
        eps: float | None = None,
        out_type: Any = None,
    ) -> None:
        check_function(f, "numeric_grad")
        single = not isinstance(pt, (list, tuple))
        arrays = [np.asarray(x) for x in ([pt] if single else pt)]
        for i, x in enumerate(arrays):
            if x.dtype.kind not in "fc":
                raise DtypeError(
                    f"numeric_grad: pt[{i}] is of dtype {x.dtype}, and only floats and"
                    " complex numbers have derivatives. Pass it as .astype(float)."
                )
        if eps is not None and not eps > 0:
            raise UsageError(f"numeric_grad: eps={eps!r} is no step. Give one above 0.")

        narrow = False

        def value(*given: Array) -> Array:
            if narrow:
                given = tuple(
                    g.astype(x.dtype) for g, x in zip(given, arrays, strict=True)
                )
            y = np.asarray(value_at(f, given))
            if y.shape != ():
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
        found = [_slopes(value, arrays, i, eps) for i in range(len(arrays))]
        #: What each entry may be off by.
        self.uncertain = [error for _, error in found]
        self._each = [g for g, _ in found]
        self.gf: Any = self._each[0] if single else self._each

    @staticmethod
    def abs_rel_err(a: Any, b: Any) -> tuple[Any, Any]:
        """The absolute and the relative error between two arrays, entry by entry.

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
        """The errors of a gradient that somebody has, one pair for each array.

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
        """Where a gradient that somebody has breaks the tolerances most.

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


def value_at(f: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """What a function of arrays (or of expressions) returns, as an array."""
    return array_of(f(*arrays))


def array_of(x: Any) -> Any:
    """The array that an expression is, or anything else as it is."""
    return x.eval() if isinstance(x, Tensor) else x


def _slopes(
    value: Callable[..., Array], arrays: list[Array], which: int, eps: float | None
) -> tuple[Array, Array]:
    """The slope by each entry of an array, and what it may be off by."""
    x = arrays[which]
    found = np.empty(x.shape, np.result_type(x.dtype, np.float64))
    error = np.zeros(x.shape)
    for i in range(x.size):
        directions = (1, 1j) if x.dtype.kind == "c" else (1,)
        parts = []
        for direction in directions:
            line, scale = perturbed(value, arrays, which, i, direction)
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
    return found, error
