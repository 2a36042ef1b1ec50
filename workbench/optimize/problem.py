"""`problem`: the values and derivatives of a program, each once per point.

A solver asks for value, gradient, constraints, Jacobian and Hessian one by one, often
at the same point, as plain arrays of one flat vector. Here each is a program of its
own, compiled where it can be, and its last answer is kept beside the bytes of the point
that it belongs to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import Any, Literal

import numpy as np

from workbench.autodiff.grad import value_and_grad
from workbench.autodiff.jacobian import hessian, jacobian
from workbench.autodiff.products import hvp
from workbench.autodiff.sparse.evaluation import SparseDerivative
from workbench.checks.doctor.diagnose import diagnose
from workbench.core import blame
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.optimize import solvers
from workbench.optimize.variables import (
    Layout,
    Vector,
    check_order,
    flatten_outputs,
    read_bounds,
    stretch,
)
from workbench.symbolic.compiled_function import compile

Sparse = Literal["auto"] | bool
Function = Callable[..., Any]

#: What SciPy calls constraints of its dicts: ``g(x) = 0``, ``g(x) >= 0``.
KINDS = ("eq", "ineq")

_NONE = np.zeros(0)


def problem(
    f: Function,
    x0: Any,
    *,
    constraints: Sequence[Any] = (),
    bounds: Any = None,
    t0: float | None = None,
    sparse: Sparse = "auto",
) -> Any:
    """Return the derivatives of a program in the form that solvers take.

    Parameters
    ----------
    f
        What is solved. If it returns one number, an objective to be made small; if it
        returns an array or a nest of them, residuals or the right-hand side of a
        system.
    x0
        Where the solver starts: an array or a nest of arrays, as ``f`` takes it.
        Solvers see one flat vector of float64; ``f`` is called with what is nested and
        shaped as ``x0``.
    constraints
        Of an objective: triples ``(g, lower, upper)`` for ``lower <= g(x) <= upper``,
        with None for no bound and twice the same for an equation. ``g`` returns
        numbers of any shape, the bounds are a number or one for each of these. Or as
        SciPy takes them: ``{"type": "eq", "fun": g}``, a `NonlinearConstraint` or a
        `LinearConstraint`; derivatives that stand in them are not used.
    bounds
        ``(lower, upper)`` on the variables: numbers, arrays or nests like ``x0``, or
        None; or a `scipy.optimize.Bounds`.
    t0
        For `scipy.integrate.solve_ivp`: a time. ``f`` is then ``f(t, x)``, the
        derivative of x by time.
    sparse
        Whether Jacobians and Hessians are sparse arrays: ``"auto"`` where that pays,
        True or False.

    Returns
    -------
    A :class:`Problem` for an objective, a :class:`System` for anything else. What ``f``
    and ``g`` read besides their argument is constant: as it was at the first call.

    Raises
    ------
    UsageError
        If the value at ``x0`` is not finite, with what the doctor says of it.
    ShapeError, DtypeError
        If bounds do not fit, or something is complex.

    Examples
    --------
    >>> import numpy as np, scipy.optimize, workbench as wb
    >>> def valley(x):
    ...     return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> circle = (lambda x: np.sum(x**2), None, 1.0)
    >>> p = wb.optimize.problem(valley, np.zeros(2), constraints=[circle])
    >>> result = scipy.optimize.minimize(**p.minimize("trust-constr"))
    >>> np.round(result.x, 4)
    array([0.7864, 0.6177])
    >>> np.round(p.solve("SLSQP").x, 4)
    array([0.7864, 0.6177])

    >>> p = wb.optimize.problem(lambda x: x**2 - np.array([4.0, 9.0]), np.ones(2))
    >>> np.round(scipy.optimize.root(**p.root()).x, 6)
    array([2., 3.])
    """
    if not callable(f):
        raise UsageError(
            f"problem: f is {blame.shorten(repr(f))}, not a function. Of a symbolic"
            " expression pass wb.function([x], expression)."
        )
    sparse = _read_sparse(sparse)
    layout = Layout(x0)
    limits = read_bounds(bounds, layout)
    if t0 is not None:
        _refuse_constraints(constraints, "solve_ivp")
        return System(f, layout, limits, float(t0), sparse)
    value = _try(f, layout.unpack(layout.start.copy()))
    if getattr(value, "shape", None) == () or np.isscalar(value):
        return Problem(f, layout, limits, _list_constraints(constraints), sparse)
    _refuse_constraints(constraints, f"f, which returns {_describe(value)},")
    return System(f, layout, limits, None, sparse)


def _read_sparse(given: Any) -> Sparse:
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    if isinstance(given, str) and given == "auto":
        return "auto"
    raise UsageError(
        f"problem: sparse={blame.shorten(repr(given))}. Write 'auto', True or False."
    )


def _refuse_constraints(constraints: Sequence[Any], what: str) -> None:
    if len(constraints):
        raise UsageError(
            f"problem: {what} takes no constraints: only an objective, a function that"
            " returns one number, has them. Return np.sum(r**2) to make residuals"
            " small under constraints."
        )


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"shape {shape}"


def _list_constraints(constraints: Any) -> list[tuple[Function, Any, Any]]:
    """Return the triples of an argument, one of them alone too."""
    triple = isinstance(constraints, tuple) and constraints and callable(constraints[0])
    several = isinstance(constraints, Iterable) and not isinstance(constraints, Mapping)
    if triple or not several:
        constraints = [constraints]
    return [_read_constraint(i, one) for i, one in enumerate(constraints)]


def _call_with(g: Function, args: Sequence[Any], x: Any) -> Any:
    return g(x, *args)


def _read_constraint(i: int, one: Any) -> tuple[Function, Any, Any]:
    """Return a constraint as a triple; SciPy's own forms are taken too."""
    given = one
    if isinstance(one, Mapping):
        kind, g, args = str(one.get("type")).lower(), one.get("fun"), one.get("args")
        if args and callable(g):
            g = partial(_call_with, g, args)
        one = (g, 0.0, 0.0 if kind == "eq" else None) if kind in KINDS else None
    elif hasattr(one, "lb") and hasattr(one, "ub"):  # without loading SciPy for it
        g = partial(operator.matmul, one.A) if hasattr(one, "A") else one.fun
        one = (g, one.lb, one.ub)
    if isinstance(one, (tuple, list)) and len(one) == 3 and callable(one[0]):
        return one[0], one[1], one[2]
    raise UsageError(
        f"problem: constraint {i} is {blame.shorten(repr(given))}. Write"
        " (g, lower, upper) for lower <= g(x) <= upper, with None for no bound"
        " and (g, 0, 0) for g(x) = 0; or give one of SciPy's: a dict of 'type'"
        " ('eq' or 'ineq') and 'fun', or a NonlinearConstraint."
    )


class _Evaluation:
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
        self, layout: Layout, bounds: tuple[Vector, Vector] | None, sparse: Sparse
    ) -> None:
        self._layout = layout
        self._sparse = sparse
        self._kept: dict[str, tuple[bytes, Any]] = {}
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
            raise ShapeError(
                f"the point has shape {point.shape}, and the problem {self.n}"
                " variables. Give a flat vector; p.unpack(x) nests it as x0."
            )
        return point

    def _compute(self, name: str, function: Function, *args: Vector) -> Any:
        """Return a function of arrays; of the same arrays what was computed before."""
        key = b"".join([arg.tobytes() for arg in args])
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
        except TraceError:  # the function looks at values
            return None
        return made if made.is_sparse else None


def _to_floats(value: Any, what: str) -> Vector:
    if type(value) is np.ndarray and value.dtype == np.float64 and value.ndim:
        return value
    if np.iscomplexobj(value):
        raise DtypeError(
            f"{what} is complex, and a problem is of real numbers. Pass its real part,"
            " np.real(...), if the rest is rounding."
        )
    # A number without axes is a scalar: compiled code takes it at once, no 0-d array.
    return np.asarray(value, dtype=np.float64)[()]


def prepare(function: Function, *examples: Any) -> Function:
    """Return a function compiled, or itself where it must see values to run."""
    compiled = compile(function)
    try:
        compiled(*examples)
    except TraceError:
        return function
    return compiled


def _try(f: Function, *args: Any) -> Any:
    """Return a value at the start; what is not finite is told by `_check_finite`."""
    with np.errstate(all="ignore"):
        return f(*args)


def _check_finite(
    value: Any, f: Function, what: str, args: tuple[Any, ...], argnums: int = 0
) -> None:
    """Refuse a start where a function is not finite, in the doctor's words."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise DtypeError(
            f"problem: {what} is complex at x0, and solvers compare real numbers."
            " Return np.abs(z)**2 for an objective, or z.real and z.imag as two arrays."
        )
    if array.dtype.kind not in "biuf":
        raise DtypeError(
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
    raise UsageError(
        f"problem: {what} is {array.ravel()[bad[0]]}{first} at x0, and no solver can"
        f" start there. Start elsewhere, or mend the function.{told}"
    )


class Problem(_Evaluation):
    """An objective with constraints, made by :func:`workbench.optimize.problem`.

    Every method takes a flat vector (n,) and returns plain numbers and arrays, which
    the caller may change. What was computed at a point is kept until another point
    comes.

    Attributes
    ----------
    n, m
        The numbers of variables and of constraints.
    x0, bounds
        Where solvers start, (n,), and ``(lower, upper)`` or None.
    limits
        ``(lower, upper)`` of the constraints, each (m,).
    counts
        How often each function was computed.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> p = wb.optimize.problem(
    ...     lambda x: x[0] * x[1], np.array([2.0, 3.0]),
    ...     constraints=[(lambda x: x[0] ** 2 + x[1] ** 2, None, 8.0)], sparse=False)
    >>> p.value(p.x0), p.gradient(p.x0), p.constraints(p.x0), p.jacobian(p.x0)
    (6.0, array([3., 2.]), array([13.]), array([[4., 6.]]))
    >>> p.lagrangian_hessian(p.x0, [1.0])
    array([[2., 1.],
           [1., 2.]])
    """

    def __init__(
        self,
        f: Function,
        layout: Layout,
        bounds: tuple[Vector, Vector] | None,
        constraints: list[tuple[Function, Any, Any]],
        sparse: Sparse,
    ) -> None:
        super().__init__(layout, bounds, sparse)
        self._objective: Function = lambda x: f(layout.unpack(x))
        start = layout.unpack(self.x0.copy())
        _check_finite(_try(f, start), f, "the objective", (start,))
        functions = [g for g, _, _ in constraints]
        lower, upper = [_NONE], [_NONE]
        for i, (g, low, high) in enumerate(constraints):
            what = f"constraint {i}"
            value = flatten_outputs(_try(g, start))
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

    def __repr__(self) -> str:
        return f"<Problem of {self.n} variables and {self.m} constraints>"

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
        """Whether the Hessians of objective and constraints are sparse arrays."""
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
            raise ShapeError(
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
        factor = _to_floats(scale, "the scale")
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
                _to_floats(scale, "the scale"), weights,
            )
        )  # fmt: skip

    # What solvers take

    def minimize(self, method: str = "trust-constr", hessian: str = "auto") -> Any:
        """Return the arguments of `scipy.optimize.minimize`, as keywords.

        Parameters
        ----------
        method
            A method of SciPy's that uses derivatives.
        hessian
            How ``"trust-constr"`` sees second derivatives: ``"matrix"``, ``"product"``
            (never made as a matrix), or ``"auto"``: a matrix where it is sparse or
            small. ``"bfgs"`` is an estimate from gradients.

        Raises
        ------
        UsageError
            If the method knows no constraints or bounds, and the problem has some; if
            it uses no derivatives.

        Examples
        --------
        >>> import numpy as np, scipy.optimize, workbench as wb
        >>> p = wb.optimize.problem(lambda x: np.sum((x - 3) ** 4), np.zeros(2),
        ...                         bounds=(None, 2.0))
        >>> scipy.optimize.minimize(**p.minimize("L-BFGS-B")).x
        array([2., 2.])
        """
        return solvers.minimize_arguments(self, method, hessian)

    def solve(self, method: str = "trust-constr", **settings: Any) -> Any:
        """Solve by `scipy.optimize.minimize`, or by IPOPT with ``method="ipopt"``.

        Parameters
        ----------
        method
            ``"ipopt"`` (needs cyipopt), or a method of SciPy's.
        settings
            Further arguments of `scipy.optimize.minimize`, such as ``tol``,
            ``callback`` and ``options``; of IPOPT its options.

        Returns
        -------
        SciPy's result; ``p.unpack(result.x)`` nests the solution as ``x0``.
        """
        if method.lower() == "ipopt":
            return solvers.solve_with_ipopt(self, settings)
        form = settings.pop("hessian", "auto")
        return _scipy().minimize(**self.minimize(method, form), **settings)

    def ipopt(self) -> dict[str, Any]:
        """Return the arguments of `cyipopt.Problem`, as keywords.

        Structures are those of the sparse Jacobian and of the lower triangle of the
        Hessian of the Lagrangian: ``cyipopt.Problem(**p.ipopt()).solve(p.x0)``.
        """
        return solvers.ipopt_arguments(self)

    def __getattr__(self, name: str) -> Any:
        if name in ("least_squares", "root", "solve_ivp"):
            raise AttributeError(
                f"a Problem, whose f returns one number, has no {name}: that solves for"
                " a vector. Let f return the residuals, or f(t, x) with t0=."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class System(_Evaluation):
    """Residuals or the right-hand side of a system, made by `problem`.

    Attributes
    ----------
    n, m
        The numbers of variables and of values.
    x0, bounds
        Where solvers start, (n,), and ``(lower, upper)`` or None.
    t0
        A time, of a right-hand side ``f(t, x)``; else None.
    counts
        How often each function was computed.

    Examples
    --------
    >>> import numpy as np, scipy.integrate, workbench as wb
    >>> decay = wb.optimize.problem(lambda t, x: -x * t, np.ones(2), t0=0.0)
    >>> made = scipy.integrate.solve_ivp(**decay.solve_ivp((0.0, 2.0)), rtol=1e-8)
    >>> np.round(made.y[:, -1], 5)
    array([0.13534, 0.13534])
    """

    def __init__(
        self,
        f: Function,
        layout: Layout,
        bounds: tuple[Vector, Vector] | None,
        t0: float | None,
        sparse: Sparse,
    ) -> None:
        super().__init__(layout, bounds, sparse)
        self.t0 = t0
        start = layout.unpack(self.x0.copy())
        given = (start,) if t0 is None else (t0, start)
        value = _try(f, *given)
        flat = flatten_outputs(value)
        _check_finite(flat, f, "the value of f", given, len(given) - 1)
        self.m = int(flat.size)
        if t0 is not None and self.m != self.n:
            raise ShapeError(
                f"problem: f(t, x) returns {self.m} numbers, and x has {self.n}. Return"
                " the derivative by time of each variable."
            )

        def evaluate(*args: Any) -> Any:
            return flatten_outputs(f(*args[:-1], layout.unpack(args[-1])))

        self._evaluate = evaluate
        self._examples = (self.x0,) if t0 is None else (np.float64(t0), self.x0)

    def __repr__(self) -> str:
        return f"<System of {self.n} variables and {self.m} values>"

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
            raise UsageError(f"{len(args)} arguments; write ({wanted}).")
        times = tuple(_to_floats(t, "the time") for t in args[:-1])
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

    def least_squares(self, method: str = "trf") -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.least_squares`, as keywords.

        Examples
        --------
        >>> import numpy as np, scipy.optimize, workbench as wb
        >>> t = np.linspace(0, 1, 5)
        >>> misfit = lambda p: p["a"] * np.exp(p["k"] * t) - 2 * np.exp(-t)
        >>> p = wb.optimize.problem(misfit, {"a": 1.0, "k": 0.0})
        >>> best = scipy.optimize.least_squares(**p.least_squares())
        >>> np.round(best.x, 4)
        array([ 2., -1.])
        """
        return solvers.least_squares_arguments(self, method)

    def root(self, method: str = "hybr") -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.root`, as keywords."""
        return solvers.root_arguments(self, method)

    def solve_ivp(
        self, t_span: tuple[float, float], method: str = "Radau"
    ) -> dict[str, Any]:
        """Return the arguments of `scipy.integrate.solve_ivp`, as keywords.

        Parameters
        ----------
        t_span
            The first and the last time.
        method
            ``"Radau"``, ``"BDF"`` and ``"LSODA"`` use the Jacobian.
        """
        return solvers.solve_ivp_arguments(self, t_span, method)

    def __getattr__(self, name: str) -> Any:
        if name in ("minimize", "solve", "ipopt", "gradient", "hessian"):
            raise AttributeError(
                f"a System, whose f returns {self.__dict__.get('m')} numbers, has no"
                f" {name}: that needs one number. Return np.sum(r**2), or f(x)[0] of"
                " one entry; residuals go to p.least_squares() and p.root()."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _scipy() -> Any:
    return import_module("scipy.optimize")
