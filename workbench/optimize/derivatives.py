"""The values and derivatives of a program, each once per point.

A solver asks for value, gradient, constraints, Jacobian and Hessian one by one, often
at the same point, as plain arrays of one flat vector. Here each is a program of its
own, compiled where it can be, and its last answer is kept beside the bytes of the point
that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np

from workbench import errors
from workbench.autodiff.grad import value_and_grad
from workbench.autodiff.jacobian import hessian, jacobian
from workbench.autodiff.products import hvp
from workbench.autodiff.sparse.evaluation import SparseDerivative
from workbench.checks.doctor.diagnose import diagnose
from workbench.core import blame
from workbench.core.trace import is_live
from workbench.optimize.variables import (
    Vector,
    VectorLayout,
    check_order,
    flatten_outputs,
    stretch,
)
from workbench.symbolic.compiled_function import compile

Sparse = Literal["auto"] | bool
Function = Callable[..., Any]

_NONE = np.zeros(0)


class Evaluation:
    """Functions of a flat vector, each with its last answer.

    Attributes
    ----------
    n
        The number of variables.
    x0
        Where solvers start, (n,).
    bounds
        ``(lower, upper)``, each (n,), or None.
    counts
        How often each function was computed: answers that were kept do not count.
    """

    def __init__(
        self, layout: VectorLayout, bounds: tuple[Vector, Vector] | None, sparse: Sparse
    ) -> None:
        self._layout = layout
        self._sparse = sparse
        self._kept: dict[str, tuple[list[bytes | str], Any]] = {}
        self.n = layout.size
        self.x0 = layout.start.copy()
        self.bounds = bounds
        self.counts: dict[str, int] = {}

    def unpack(self, x: Any) -> Any:
        """Return a flat vector nested and shaped as ``x0``.

        Parameters
        ----------
        x
            Such as ``result.x`` of a solver, (n,).
        """
        return self._layout.unpack(x)

    def _to_point(self, x: Any) -> Vector:
        point = _to_floats(x, "the point")
        if point.shape != (self.n,):
            raise errors.ShapeError(
                f"the point has shape {point.shape}, and the problem {self.n}"
                " variables. Give a flat vector; p.unpack(x) nests it as x0."
            )
        return point

    def _compute(self, name: str, function: Function, *args: Vector) -> Any:
        """Return a function's result, from the last call if the arrays are the same."""
        key = [arg.tobytes() if arg.ndim else arg.item().hex() for arg in args]
        kept = self._kept.get(name)
        if kept is not None and kept[0] == key:
            return kept[1]
        # A solver may go on in the memory of the point.
        made = function(*[arg.copy() if arg.ndim else arg for arg in args])
        self.counts[name] = self.counts.get(name, 0) + 1
        self._kept[name] = (key, made)
        return made

    def _compute_matrix(self, name: str, function: Function, *args: Vector) -> Any:
        """Return a matrix that the caller may change.

        Of a sparse one the entries are kept: to make the matrix anew takes less time
        than to copy it.
        """
        if isinstance(function, SparseDerivative):
            entries = self._compute(name, function.entries, *args)
            return function.assemble(entries.copy())
        return self._compute(name, function, *args).copy()

    def _differentiate(
        self, derivative: Function, f: Function, argnums: int, *examples: Any
    ) -> Function:
        """Return the Jacobian or the Hessian of a function, prepared."""
        found = self._find_sparse(derivative, f, argnums, *examples)
        return found or prepare(derivative(f, argnums), *examples)

    def _find_sparse(
        self, derivative: Function, f: Function, argnums: int, *examples: Any
    ) -> Function | None:
        """Return a sparse derivative, if there is to be one; nothing is computed."""
        if self._sparse is False:
            return None
        made = derivative(f, argnums, sparse=self._sparse, format="csr")
        try:
            made.prepare(*examples)
        except errors.TraceError:  # the function looks at values
            return None
        return made if made.is_sparse else None


def _to_floats(value: Any, what: str) -> Vector:
    if type(value) is np.ndarray and value.dtype == np.float64 and value.ndim:
        return value
    if not isinstance(value, float) and np.iscomplexobj(value):
        raise errors.DtypeError(
            f"{what} is complex, and a problem takes real numbers. Pass its real part,"
            " np.real(...), if the rest is rounding."
        )
    # A number without axes is a scalar: compiled code takes it at once, no 0-d array.
    return np.asarray(value, dtype=np.float64)[()]


def _to_number(value: Any, what: str) -> Any:
    made = _to_floats(value, what)
    if made.ndim:
        raise errors.ShapeError(
            f"{what} has shape {made.shape}, and must be one number. Pass a float."
        )
    return made


def prepare(function: Function, *examples: Any) -> Function:
    """Return a compiled function, or the function itself where values decide."""
    compiled = compile(function)
    try:
        compiled(*examples)
    except errors.TraceError:
        return function
    return compiled


def try_call(f: Function, *args: Any) -> Any:
    """Return a value at the start, without warnings; `_check_finite` follows."""
    with np.errstate(all="ignore"):
        return f(*args)


def _check_finite(
    value: Any, f: Function, what: str, args: tuple[Any, ...], argnums: int = 0
) -> None:
    """Refuse a start where a function is not finite, in the doctor's words."""
    if is_live(value):
        raise errors.GradientLostError(
            f"problem{blame.user_line()}: {what} reads a traced value from outside,"
            " which is a constant to a solver, and its gradient would be lost. Write"
            " minimize, root or root_scalar of workbench.scipy.optimize, or solve_ivp"
            " of workbench.scipy.integrate, which have derivatives; or give the"
            " function x.value to cut the gradient on purpose."
        )
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise errors.DtypeError(
            f"problem: {what} is complex at x0, and solvers compare real numbers."
            " Return np.abs(z)**2 for an objective, or z.real and z.imag as two arrays."
        )
    if array.dtype.kind not in "biuf":
        raise errors.DtypeError(
            f"problem: {what} is of dtype {array.dtype} at x0. Return real numbers."
        )
    bad = np.flatnonzero(~np.isfinite(array.ravel()))
    if not bad.size:
        return
    first = "" if array.ndim == 0 else f" in entry {int(bad[0])}"
    found = [
        one for one in diagnose(f, *args, argnums=argnums) if one.severity != "note"
    ]
    told = f"\n{found[0]}" if found else ""
    raise errors.UsageError(
        f"problem: {what} is {array.ravel()[bad[0]]}{first} at x0, and no solver can"
        f" start there. Start elsewhere, or mend the function.{told}"
    )


class Objective(Evaluation):
    """An objective with constraints, in the form that `Problem` hands to solvers."""

    def __init__(
        self,
        f: Function,
        layout: VectorLayout,
        bounds: tuple[Vector, Vector] | None,
        constraints: list[tuple[Function, Any, Any]],
        sparse: Sparse,
    ) -> None:
        super().__init__(layout, bounds, sparse)
        self._objective: Function = lambda x: f(layout.unpack(x))
        start = layout.unpack(self.x0.copy())
        _check_finite(try_call(f, start), f, "the objective", (start,))
        functions = [g for g, _, _ in constraints]
        lower, upper = [_NONE], [_NONE]
        for i, (g, low, high) in enumerate(constraints):
            what = f"constraint {i}"
            value = flatten_outputs(try_call(g, start))
            _check_finite(value, g, what, (start,))
            lower.append(stretch(low, value.size, -np.inf, f"the lower end of {what}"))
            upper.append(stretch(high, value.size, np.inf, f"the upper end of {what}"))
            check_order(lower[-1], upper[-1], what)
        self.limits = (np.concatenate(lower), np.concatenate(upper))
        self.m = len(self.limits[0])

        def constrain(x: Any) -> Any:
            nested = layout.unpack(x)
            parts = [flatten_outputs(g(nested)) for g in functions]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        self._constrain = constrain

    # Value and gradient, together

    @cached_property
    def _value_and_gradient(self) -> Function:
        return prepare(value_and_grad(self._objective), self.x0)

    def _at(self, x: Any) -> tuple[Any, Any]:
        point = self._to_point(x)
        pair: tuple[Any, Any] = self._compute(
            "value_and_gradient", self._value_and_gradient, point
        )
        return pair

    def value(self, x: Any) -> float:
        """Return the objective."""
        return float(self._at(x)[0])

    def gradient(self, x: Any) -> Vector:
        """Return the gradient of the objective, (n,)."""
        return np.array(self._at(x)[1])

    def value_and_gradient(self, x: Any) -> tuple[float, Vector]:
        """Return the objective and its gradient."""
        value, gradient = self._at(x)
        return float(value), np.array(gradient)

    # Constraints

    @cached_property
    def _constraints(self) -> Function:
        return prepare(self._constrain, self.x0)

    @cached_property
    def _jacobian(self) -> Function:
        return self._differentiate(jacobian, self._constrain, 0, self.x0)

    def constraints(self, x: Any) -> Vector:
        """Return the values of all constraints, (m,), in their order."""
        point = self._to_point(x)
        if not self.m:
            return _NONE.copy()
        return np.array(self._compute("constraints", self._constraints, point))

    def jacobian(self, x: Any) -> Any:
        """Return the Jacobian of the constraints, (m, n), sparse where that pays.

        The entries that a sparse one stores are the same at every point.
        """
        point = self._to_point(x)
        if not self.m:
            return np.zeros((0, self.n))
        return self._compute_matrix("jacobian", self._jacobian, point)

    # Second derivatives of the Lagrangian

    def _lagrangian(self, x: Any, scale: Any, multipliers: Any) -> Any:
        value = scale * self._objective(x)
        return value + multipliers @ self._constrain(x) if self.m else value

    @cached_property
    def _lagrangian_hessian(self) -> Function:
        examples = (self.x0, np.float64(1.0), np.ones(self.m))
        return self._differentiate(hessian, self._lagrangian, 0, *examples)

    def _weigh(self, x: Any, multipliers: Any) -> Any:
        return multipliers @ self._constrain(x)

    @cached_property
    def _sparse_hessians(self) -> tuple[Function | None, Function | None]:
        """The sparse ones of the objective and of the constraints."""
        own = self._find_sparse(hessian, self._objective, 0, self.x0)
        if not self.m:
            return own, None
        weights = np.ones(self.m)
        return own, self._find_sparse(hessian, self._weigh, 0, self.x0, weights)

    @property
    def has_sparse_hessian(self) -> bool:
        """True if the Hessians of objective and constraints are sparse arrays."""
        own, other = self._sparse_hessians
        return own is not None and (other is not None or not self.m)

    @cached_property
    def _objective_hessian(self) -> Function:
        dense = hessian(self._objective)
        return self._sparse_hessians[0] or prepare(dense, self.x0)

    @cached_property
    def _constraints_hessian(self) -> Function:
        dense = hessian(self._weigh)
        found = self._sparse_hessians[1]
        return found or prepare(dense, self.x0, np.ones(self.m))

    def _to_multipliers(self, multipliers: Any) -> Vector:
        weights = _to_floats(multipliers, "the array of multipliers")
        if weights.shape != (self.m,):
            raise errors.ShapeError(
                f"the multipliers have shape {weights.shape}, and the problem"
                f" {self.m} constraints. Give one for each."
            )
        return weights

    def hessian(self, x: Any) -> Any:
        """Return the Hessian of the objective, (n, n), sparse where that pays."""
        point = self._to_point(x)
        return self._compute_matrix("hessian", self._objective_hessian, point)

    def constraints_hessian(self, x: Any, multipliers: Any) -> Any:
        """Return the Hessian of ``multipliers @ g``, (n, n), sparse where that pays."""
        point, weights = self._to_point(x), self._to_multipliers(multipliers)
        if not self.m:
            return np.zeros((self.n, self.n))
        return self._compute_matrix(
            "constraints_hessian", self._constraints_hessian, point, weights
        )

    def lagrangian_hessian(self, x: Any, multipliers: Any, scale: float = 1.0) -> Any:
        """Return the Hessian of ``scale * f + multipliers @ g``, (n, n).

        Parameters
        ----------
        x
            The point, (n,).
        multipliers
            One for each constraint, (m,).
        scale
            The weight of the objective.

        Returns
        -------
        A symmetric array, sparse where that pays; what a sparse one stores does not
        depend on the numbers.
        """
        point, weights = self._to_point(x), self._to_multipliers(multipliers)
        factor = _to_number(scale, "the scale")
        return self._compute_matrix(
            "lagrangian_hessian", self._lagrangian_hessian, point, factor, weights
        )

    @cached_property
    def _product(self) -> Function:
        def multiply(x: Any, v: Any, scale: Any, multipliers: Any) -> Any:
            f = lambda y: self._lagrangian(y, scale, multipliers)  # noqa: E731
            return hvp(f, (x,), (v,))[0]

        return prepare(multiply, self.x0, self.x0, np.float64(1), np.ones(self.m))

    def hessian_product(
        self, x: Any, v: Any, multipliers: Any = None, scale: float = 1.0
    ) -> Vector:
        """Return the Hessian of ``scale * f + multipliers @ g`` times ``v``, (n,).

        The matrix is never made: this costs a few times the gradient.
        """
        point, direction = self._to_point(x), self._to_point(v)
        weights = (
            np.zeros(self.m) if multipliers is None
            else self._to_multipliers(multipliers)
        )  # fmt: skip
        return np.array(
            self._compute(
                "hessian_product", self._product, point, direction,
                _to_number(scale, "the scale"), weights,
            )
        )  # fmt: skip


class Equations(Evaluation):
    """Residuals, or a right-hand side, in the form that `System` hands to solvers."""

    def __init__(
        self,
        f: Function,
        layout: VectorLayout,
        bounds: tuple[Vector, Vector] | None,
        t0: float | None,
        sparse: Sparse,
    ) -> None:
        super().__init__(layout, bounds, sparse)
        self.t0 = t0
        start = layout.unpack(self.x0.copy())
        given = (start,) if t0 is None else (t0, start)
        value = try_call(f, *given)
        flat = flatten_outputs(value)
        _check_finite(flat, f, "the value of f", given, len(given) - 1)
        self.m = int(flat.size)
        if t0 is not None and self.m != self.n:
            raise errors.ShapeError(
                f"problem: f(t, x) returns {self.m} numbers, and x has {self.n}. Return"
                " the derivative by time of each variable."
            )

        def evaluate(*args: Any) -> Any:
            return flatten_outputs(f(*args[:-1], layout.unpack(args[-1])))

        self._evaluate = evaluate
        self._examples = (self.x0,) if t0 is None else (np.float64(t0), self.x0)

    @cached_property
    def _values(self) -> Function:
        return prepare(self._evaluate, *self._examples)

    @cached_property
    def _jacobian(self) -> Function:
        place = len(self._examples) - 1
        return self._differentiate(jacobian, self._evaluate, place, *self._examples)

    def _to_arguments(self, args: tuple[Any, ...]) -> tuple[Vector, ...]:
        if len(args) != len(self._examples):
            wanted = "x" if self.t0 is None else "t, x"
            raise errors.UsageError(f"{len(args)} arguments; write ({wanted}).")
        times = tuple(_to_number(t, "the time") for t in args[:-1])
        return (*times, self._to_point(args[-1]))

    def value(self, *args: Any) -> Vector:
        """Return the values at ``x``, or at ``t, x``: a flat vector (m,)."""
        return np.array(self._compute("value", self._values, *self._to_arguments(args)))

    def jacobian(self, *args: Any) -> Any:
        """Return the Jacobian by x at ``x``, or at ``t, x``: (m, n).

        It is sparse where that pays; the stored entries are the same at every point.
        """
        arguments = self._to_arguments(args)
        return self._compute_matrix("jacobian", self._jacobian, *arguments)
