"""`scipy.integrate` for Tensors: differential equations, integrals, sums.

`odeint` and `solve_ivp` are SciPy's solvers, whose derivatives are such solves too
(`initial.py`, on the rates of `rates.py`; events in `events.py`), `solve_bvp` is its
solver with the derivatives of its equations (`boundary.py`), `quad` with those of
Leibniz (`quadrature.py`), and the rules for samples are plain NumPy. On arrays outside
every trace each is SciPy's own function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from workbench.core import blame, traces, tree, types
from workbench.core.deferred import operand_shape
from workbench.core.recorder import Recorder
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import (
    ConvergenceError,
    ShapeError,
    UnknownLengthError,
    UsageError,
)
from workbench.ops.define import shape_of
from workbench.ops.lengths import defer_functions
from workbench.scipy.integrate.boundary import solve_bvp
from workbench.scipy.integrate.events import (
    Event,
    Solution,
    find_event_times,
    make_evaluator,
)
from workbench.scipy.integrate.initial import describe_failure
from workbench.scipy.integrate.initial import integrate as integrate_states
from workbench.scipy.integrate.quadrature import (
    Integrand,
    cumulative_trapezoid,
    integral,
    simpson,
    trapezoid,
)
from workbench.scipy.integrate.rates import RateSystem, explain_plain, solve, watch

__all__ = [
    "cumulative_trapezoid",
    "dblquad",
    "nquad",
    "odeint",
    "quad",
    "quad_vec",
    "simpson",
    "solve_bvp",
    "solve_ivp",
    "tplquad",
    "trapezoid",
]

Function = Callable[..., Any]

#: SciPy's tolerances of `odeint`.
DEFAULT = 1.49012e-8


def _scipy() -> ModuleType:
    """Return SciPy's module, loaded when one of its solvers is first needed."""
    return import_module("scipy.integrate")


# Differential equations


def odeint(
    func: Function,
    y0: ArrayLike,
    t: ArrayLike,
    args: tuple[Any, ...] = (),
    tfirst: bool = False,
    **settings: Any,
) -> Array:
    """Solve a differential equation as `scipy.integrate.odeint` does.

    Parameters
    ----------
    func
        ``func(y, t, *args)``, the rate of change of y, shape (n,). It may read
        Tensors through its closure.
    y0
        The state at ``t[0]``, shape (n,).
    t
        The times at which the state is wanted, shape (m,), ascending or descending.
    args
        Further arguments of ``func``: nests of arrays, differentiable.
    tfirst
        ``func`` is called as ``func(t, y, *args)``.
    settings
        Those of SciPy's solver: ``rtol``, ``atol``, ``hmax``, ``mxstep``, ... They
        hold for the equations of the derivatives too.

    Returns
    -------
    The states, shape (m, n), float64. Derivatives by ``y0``, ``t``, ``args`` and
    what ``func`` reads, of any order and in both modes; under `vmap` the solver
    runs example by example.

    Reverse mode by few numbers p, where n (1 + p) is at most 128, solves for their
    sensitivities beside the states, once. By more it solves the adjoint equation
    backward, from each time to the one before, and keeps one dense solve of the
    states: memory for n numbers, times the solver's order, for each of its steps,
    however far apart the times are. Derivatives of that adjoint run the states back
    from step to step, and are refused where a stiff system does not let them.

    Raises
    ------
    ConvergenceError
        If the solver does not reach the last time, or a rate of change or a
        derivative of one is not finite on the way; the error names the op and line.
    ShapeError
        If ``func`` returns another shape than ``y0`` has.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import odeint
    >>> t = np.array([0.0, 1.0])
    >>> decay = lambda k: odeint(lambda y, t, k: -k * y, np.ones(1), t, (k,))[-1, 0]
    >>> round(float(wb.grad(decay)(0.5)), 6)  # -exp(-0.5)
    -0.606531
    """
    if not traces.has_open_trace():
        return _scipy().odeint(func, y0, t, args=args, tfirst=tfirst, **settings)
    for name in ("Dfun", "full_output"):
        if settings.get(name):
            raise UsageError(
                f"odeint(..., {name}={settings[name]!r}){blame.user_line()} is not"
                " known inside a derivative. Leave it out."
            )
    rate = func if tfirst else lambda t, y, *rest: func(y, t, *rest)
    y0, t = _convert_state(y0), _convert_times(t)
    closed = _record_rate(rate, t[0], y0, args, "odeint")
    settings = {"method": "LSODA", "rtol": DEFAULT, "atol": DEFAULT, **settings}
    problem = RateSystem(closed, _solve_lsoda, settings, "odeint")
    return integrate_states(problem, closed.inputs[:-2], t, y0)


def _solve_lsoda(
    function: Function, times: Array, y0: Array, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Solve with SciPy's `odeint`, and turn its warnings into errors."""
    import warnings

    integrate = _scipy()
    settings = {k: v for k, v in settings.items() if k != "method"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", integrate.ODEintWarning)
        try:
            made = integrate.odeint(function, y0, times, tfirst=True, **settings)
        except integrate.ODEintWarning as warning:
            raise ConvergenceError(
                f"odeint{blame.user_line()}: {warning} Try other tolerances, or"
                " solve_ivp with another method."
            ) from warning
    return made, None


def solve_ivp(
    fun: Function,
    t_span: Sequence[Any],
    y0: ArrayLike,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: tuple[Any, ...] | None = None,
    **options: Any,
) -> Any:
    """Solve a differential equation as `scipy.integrate.solve_ivp` does.

    Parameters
    ----------
    fun
        ``fun(t, y, *args)``, the rate of change of y, shape (n,). It may read
        Tensors through its closure.
    t_span
        The first and the last time.
    y0
        The state at the first time, shape (n,).
    method
        ``"RK45"``, ``"DOP853"``, ``"Radau"``, ... The equations of the derivatives
        are solved by it too.
    t_eval
        The times at which the state is wanted; by default those at which the
        solver stops, which then count as constants, but for the first and last.
    dense_output
        The result has ``sol(t)``, the states at any time; each call is a solve.
    events
        A function ``event(t, y, *args)`` of one number, or a list of them, with
        SciPy's attributes ``terminal`` and ``direction``. They may read Tensors.
    args
        Further arguments of ``fun`` and of events: nests of arrays, differentiable.
    options
        ``rtol``, ``atol``, ``max_step``, ... as for SciPy. Derivatives are as
        accurate as these say: 1e-3 by default.

    Returns
    -------
    SciPy's result, with ``t``, ``y`` of shape (n, m), ``success``, ``message``.
    Derivatives of ``y`` as for `odeint`; ``y0`` may be complex. ``t_events`` and
    ``y_events``, and the last time where an event ends the solve, have derivatives
    by the implicit function theorem.

    Raises
    ------
    ConvergenceError
        Inside a derivative if the solver does not reach the last time, and always if
        it would not end: a rate of change is not finite from the first on, or steps
        are shorter than the last digit of the time.
    UsageError
        For ``events`` and ``dense_output`` in a trace without values.
    MatrixError
        For the derivative of an event that touches zero without crossing it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import solve_ivp
    >>> def end(k):
    ...     sol = solve_ivp(lambda t, y: -k * y, (0, 1), np.ones(1), rtol=1e-8)
    ...     return sol.y[0, -1]
    >>> round(float(wb.grad(end)(0.5)), 6)  # -exp(-0.5)
    -0.606531

    How long a stone falls from a height, and its derivative, ``1 / sqrt(2 g h)``:

    >>> def fall(h):
    ...     rate = lambda t, y: np.stack([y[1], -9.81])
    ...     ground = lambda t, y: y[0]
    ...     ground.terminal = True
    ...     start = np.stack([h, 0.0])
    ...     return solve_ivp(rate, (0, 9), start, events=ground, rtol=1e-9).t[-1]
    >>> round(float(wb.grad(fall)(10.0)), 6)
    0.071392
    """
    integrate = _scipy()
    if not traces.has_open_trace():
        function = watch("solve_ivp", fun, explain_plain)
        return solve(
            "solve_ivp", function, explain_plain,
            lambda: integrate.solve_ivp(
                function, t_span, y0, method, t_eval, dense_output, events, vectorized,
                args, **options,
            ),
        )  # fmt: skip
    y0 = _convert_state(y0)
    first, last = (_convert_times(t) for t in t_span)
    args = args or ()
    closed = _record_rate(fun, first, y0, args, "solve_ivp")
    parameters = closed.inputs[:-2]
    settings = {"method": method, **options}
    if callable(jac := settings.get("jac")):
        # It only helps the solver on; what it reads need not vary.
        settings["jac"] = lambda t, y: value_of(admit(jac(t, y)))
    problem = RateSystem(closed, _solve_stepwise, settings, "solve_ivp")
    events = [] if events is None else [events] if callable(events) else list(events)
    recorded = [Event(f, args, first, y0) for f in events]
    found: Any = None
    end: Any = last
    descending = False
    if t_eval is not None:
        _check_times(t_eval, value_of(first), value_of(last))
    if t_eval is None or events or dense_output:
        values = [value_of(x) for x in (first, last, y0, *parameters)]
        found = _find_steps(problem, values, recorded, t_eval)
        descending = bool(values[1] < values[0])
        if found.status == 1:  # the solver's last step goes on beyond the event
            end = np.float64(found.sol.interpolants[-1].t)
    evaluate = make_evaluator(
        lambda times: integrate_states(problem, parameters, times, y0),
        first, end, descending,
    )  # fmt: skip
    at = find_event_times(recorded, found.t_events, evaluate) if events else []
    if found is not None and found.status == 1:
        last = (min if descending else max)(
            (t[-1] for t in at if len(shape_of(t)) and shape_of(t)[0]), key=value_of
        )
    times = _choose_times(t_eval, first, last, found, descending)
    wanted = np.concatenate([times, *at]) if at else times
    rows = evaluate(wanted, value_of(wanted) if at else None)
    count = shape_of(times)[0]
    report = {**((problem.report or {}) if found is None else found)}
    report |= {"t": times, "y": rows[:count].T}
    if events:
        ends = np.cumsum([count, *(shape_of(t)[0] for t in at)])
        states = [rows[a:b] for a, b in pairwise(ends)]
        report |= {"t_events": at, "y_events": states}
    report["sol"] = Solution(evaluate, times, first, last) if dense_output else None
    optimize: Any = import_module("scipy.optimize")
    return optimize.OptimizeResult(report)


def _choose_times(
    t_eval: ArrayLike | None, first: Any, last: Any, found: Any, descending: bool
) -> Any:
    """Return the times of a solution that ended at ``last``."""
    if t_eval is None:
        return np.concatenate(
            [np.reshape(first, 1), found.t[1:-1], np.reshape(last, 1)]
        )
    times = _convert_times(t_eval)
    if found is not None and found.status == 1:
        sign = -1 if descending else 1
        times = times[sign * value_of(times) <= sign * value_of(last)]
    return times


def _check_times(t_eval: ArrayLike, first: Any, last: Any) -> None:
    """Refuse the times that SciPy refuses, where the numbers are known."""
    times = value_of(_convert_times(t_eval))
    if times is None or first is None or last is None:
        return
    where = f"solve_ivp{blame.user_line()}: t_eval"
    if times.ndim != 1:
        raise ShapeError(
            f"{where} has shape {times.shape}; it must have one axis: np.ravel it."
        )
    low, high = min(first, last), max(first, last)
    outside = times[(times < low) | (times > high)]
    if outside.size:
        raise UsageError(
            f"{where} holds {outside[0]:.6g}, outside t_span, which is"
            f" ({first:.6g}, {last:.6g}). Extend t_span, or leave that time out."
        )
    steps = np.diff(times)
    wrong = np.flatnonzero(steps >= 0 if last < first else steps <= 0)
    if wrong.size:
        i, order = wrong[0], "fall" if last < first else "rise"
        raise UsageError(
            f"{where} holds {times[i + 1]:.6g} behind {times[i]:.6g}; from t_span[0] to"
            f" t_span[1] its times must {order}, each one once. Sort them with"
            " np.unique, turned around where they fall."
        )


def _find_steps(
    problem: RateSystem,
    values: Sequence[Any],
    events: Sequence[Event],
    t_eval: ArrayLike | None,
) -> Any:
    """Return SciPy's result at known times, state and parameters."""
    if any(x is None for x in values):
        what = "the times at which the solver stops"
        if t_eval is not None:
            what = "events and dense_output"
        raise UsageError(
            f"solve_ivp{blame.user_line()}: {what} depend on values, which this"
            " trace does not have. Give t_eval, and neither of events and"
            " dense_output."
        )
    first, last, y0, *parameters = values
    function = problem.bind(parameters)
    called = [event.bind() for event in events]

    def run() -> Any:
        found = _scipy().solve_ivp(
            function, (first, last), y0, events=called or None,
            dense_output=bool(called), **problem.settings,
        )  # fmt: skip
        if not found.success:
            raise ConvergenceError(describe_failure(problem, last, found.message))
        return found

    return solve(
        "solve_ivp", function, lambda *ty: problem.explain(parameters, *ty), run
    )


def _solve_stepwise(
    function: Function, times: Array, y0: Array, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Solve by SciPy's `solve_ivp`, with one row per time."""
    made = _scipy().solve_ivp(
        function, (times[0], times[-1]), y0, t_eval=times[1:], **settings
    )
    # A solve that failed may have no state at all: a list.
    rows = np.reshape(np.asarray(made.y).T, (-1, y0.size))
    return np.concatenate([y0[None], rows]), made


def _record_rate(rate: Function, t: Array, y0: Array, args: Any, name: str) -> Recorder:
    """Record the rate of change as a program of its closure, the time, the state."""

    def compute_rate(args: Any, t: Array, y: Array) -> Array:
        made = admit(rate(t, y, *args))
        if not hasattr(made, "shape"):
            made = np.asarray(made)
        if shape_of(made) not in (shape_of(y0), ()) or (
            shape_of(made) == () and shape_of(y0) != (1,)
        ):
            raise ShapeError(
                f"{name}: the function returned shape"
                f" {shape_of(made)}{blame.user_line()}, and the state has shape"
                f" {shape_of(y0)}. Return one rate for each entry."
            )
        return np.reshape(made.astype(y0.dtype), shape_of(y0))

    return Recorder(compute_rate, args, t, y0, dynamic=True)


def _convert_state(y0: ArrayLike) -> Array:
    """Return a state in SciPy's form: one axis, float64 or complex."""
    y0 = admit(y0)
    if not hasattr(y0, "shape"):
        y0 = np.asarray(y0)
    if len(shape_of(y0)) > 1:
        raise ShapeError(
            f"the state has shape {shape_of(y0)}{blame.user_line()}; it must have one"
            " axis: np.ravel it, and np.reshape it inside the function."
        )
    kind = complex if y0.dtype.kind == "c" else float
    return np.reshape(y0.astype(kind), (-1,))


def _convert_times(t: ArrayLike) -> Array:
    """Return times as float64."""
    t = admit(t)
    return (t if hasattr(t, "shape") else np.asarray(t)).astype(float)


# Integrals of functions


def quad(
    func: Function,
    a: Any,
    b: Any,
    args: Any = (),
    **settings: Any,
) -> tuple[Any, Any]:
    """Integrate a function over an interval as `scipy.integrate.quad` does.

    Parameters
    ----------
    func
        ``func(x, *args)``, a real number; it may read Tensors through its closure.
        It may also be complex, or an array (then the method is `quad_vec`'s).
    a, b
        The limits, perhaps infinite. Differentiable where they are finite.
    args
        Further arguments of ``func``: nests of arrays, differentiable.
    settings
        ``epsabs``, ``epsrel``, ``limit``, ``points``, ... as for SciPy.

    Returns
    -------
    The integral and SciPy's estimate of its error. Inside a derivative that is a
    constant, or NaN while there are no values.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import quad
    >>> gauss = lambda s: quad(lambda x: np.exp(-s * x**2), -np.inf, np.inf)[0]
    >>> round(float(wb.grad(gauss)(1.0)), 6)  # -sqrt(pi) / 2
    -0.886227
    """
    args = args if isinstance(args, tuple) else (args,)
    if not traces.has_open_trace():
        made: tuple[Any, Any] = _scipy().quad(func, a, b, args, **settings)
        return made
    for name in ("full_output", "weight", "complex_func"):
        if settings.get(name):
            raise UsageError(
                f"quad(..., {name}={settings[name]!r}){blame.user_line()} is not known"
                " inside a derivative. Leave it out."
            )
    middle = np.float64(_choose_middle(value_of(a), value_of(b)))
    closed = Recorder(lambda args, x: func(x, *args), args, middle, dynamic=True)
    if closed.graph.tree != tree.flatten(0.0)[1]:
        raise ShapeError(
            f"quad: the function returned {closed.graph.tree}{blame.user_line()};"
            " return one number."
        )
    integrand = Integrand(closed.run, closed.specs[0], settings)
    made = integral(integrand, closed.inputs[:-1], _convert_limit(a), _convert_limit(b))
    return made, integrand.report[0] if integrand.report else np.nan


def quad_vec(
    f: Function,
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: Any = "2",
    *,
    args: Any = (),
    **settings: Any,
) -> tuple[Any, Any]:
    """Integrate an array of functions as `scipy.integrate.quad_vec` does.

    As :func:`quad` for a function that returns an array, all of whose entries are
    computed at the same points.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import quad_vec
    >>> powers = lambda n: quad_vec(lambda x: x**n, 0, 1)[0]
    >>> np.round(wb.jvp(powers, (np.array([1.0, 2.0]),), (np.ones(2),))[1], 6)
    array([-0.25    , -0.111111])
    """
    if not traces.has_open_trace():
        made: tuple[Any, Any] = _scipy().quad_vec(
            f, a, b, epsabs, epsrel, norm, args=args, **settings
        )
        return made
    return quad(f, a, b, args, epsabs=epsabs, epsrel=epsrel, **settings)


def nquad(
    func: Function,
    ranges: Sequence[Any],
    args: Any = (),
    opts: Any = None,
    full_output: bool = False,
) -> Any:
    """Integrate over several variables, as `scipy.integrate.nquad` does.

    Parameters
    ----------
    func
        ``func(x0, ..., xn, *args)``; it may read Tensors through its closure.
    ranges
        The two limits of each variable, or a function of the variables behind it, and
        of ``args``, that gives them. Differentiable where they are finite.
    args
        Further arguments of ``func``: nests of arrays, differentiable.
    opts
        Settings of `quad` for all variables.

    Returns
    -------
    The integral and an estimate of its error, that of the last variable.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.integrate import nquad
    >>> area = lambda r: nquad(lambda y, x: 1.0, [lambda x: (0, x), (0, r)])[0]
    >>> round(float(wb.grad(area)(2.0)), 9)  # of r**2 / 2
    2.0
    """
    args = args if isinstance(args, tuple) else (args,)
    if not traces.has_open_trace():
        return _scipy().nquad(func, ranges, args, opts, full_output)
    if full_output or not isinstance(opts, (dict, type(None))):
        raise UsageError(
            f"nquad(..., full_output=...) and a list as opts{blame.user_line()} are"
            " not known inside a derivative. Give one dict of settings for all."
        )

    def integrate(count: int, outer: tuple[Any, ...]) -> tuple[Any, Any]:
        """Integrate over the first ``count`` variables, given the others."""
        ends = ranges[count - 1]
        low, high = ends(*outer, *args) if callable(ends) else ends

        def inner(x: Any) -> Any:
            if count == 1:
                return func(x, *outer, *args)
            return integrate(count - 1, (x, *outer))[0]

        return quad(inner, low, high, **(opts or {}))

    return integrate(len(ranges), ())


def _make_limit(end: Any) -> Function:
    return end if callable(end) else lambda *x: end


def dblquad(
    func: Function,
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[Any, Any]:
    """Integrate ``func(y, x)`` over a plane region: `scipy.integrate.dblquad`.

    As :func:`nquad`, with x from ``a`` to ``b`` and y from ``gfun`` to ``hfun``,
    numbers or functions of x.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.integrate import dblquad
    >>> f = lambda c: dblquad(lambda y, x: c * x * y, 0, 1, 0, lambda x: x)[0]
    >>> round(float(wb.grad(f)(1.0)), 9)
    0.125
    """
    low, high = _make_limit(gfun), _make_limit(hfun)
    ranges = [lambda x, *_: (low(x), high(x)), (a, b)]
    found: tuple[Any, Any] = nquad(
        func, ranges, args, {"epsabs": epsabs, "epsrel": epsrel}
    )
    return found


def tplquad(
    func: Function,
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    qfun: Any,
    rfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[Any, Any]:
    """Integrate ``func(z, y, x)`` over a region of space: `scipy.integrate.tplquad`.

    As :func:`dblquad`, with z from ``qfun`` to ``rfun``, numbers or functions of x, y.
    """
    low, high = _make_limit(gfun), _make_limit(hfun)
    floor, ceiling = _make_limit(qfun), _make_limit(rfun)
    ranges = [
        lambda y, x, *_: (floor(x, y), ceiling(x, y)),
        lambda x, *_: (low(x), high(x)),
        (a, b),
    ]
    found: tuple[Any, Any] = nquad(
        func, ranges, args, {"epsabs": epsabs, "epsrel": epsrel}
    )
    return found


def _convert_limit(x: Any) -> Any:
    return float(x) if types.is_weak(x) else x


def _choose_middle(a: Any, b: Any) -> float:
    """Return a point for recording an integrand that needs a value of x."""
    if a is None or b is None:
        return 0.5
    low, high = max(float(a), -1e3), min(float(b), 1e3)
    return low + 0.5 * (high - low)


def _drop_axis(
    y: Array, *rest: Any, axis: int = -1, **settings: Any
) -> tuple[Any, ...]:
    """Return the shape of samples without their axis."""
    if rest[1:]:
        raise UnknownLengthError("measured when it runs")
    shape = list(operand_shape(y))
    del shape[axis]
    return tuple(shape)


defer_functions(
    globals(),
    ("cumulative_trapezoid", "simpson", "trapezoid"),
    {"simpson": _drop_axis, "trapezoid": _drop_axis},
)
