"""Initial value problems as an op; the derivatives are initial value problems too.

``y' = f(t, y, θ)`` from ``y(t₀) = y₀`` to the times ``t₁, t₂, ...``. Forward mode
integrates the sensitivity ``s' = ∂f/∂y s + ∂f/∂θ θ̇`` beside y (Hairer, Nørsett and
Wanner, *Solving ordinary differential equations I*, I.14). Reverse mode has two ways:

- By few inputs, all their sensitivities at once, in one solve, and then the product
  with the cotangents. It is as stable as the states themselves, in every order.
- By many, the adjoint ``a' = −(∂f/∂y)ᵀ a`` from the last time back to the first, with a
  jump by the cotangent at each, and ``θ̄`` along (Pontryagin; Chen et al., *Neural
  ordinary differential equations*, 2018, algorithm 2). It reads the states off a solve
  that keeps its own steps as checkpoints, and what they say between these: states that
  ran back with the adjoint would explode wherever they are damped. Its derivatives do
  run them back, from one such step to the one before.

The solver is SciPy's in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from workbench.autodiff.batch import run_batch, run_examples
from workbench.autodiff.call import Call, run_and_pull, run_and_push
from workbench.core import blame
from workbench.core.op import OPS, declare
from workbench.core.tensor import apply, value_of
from workbench.core.trace import record
from workbench.core.types import (
    Array,
    ArrayLike,
    Params,
    Spec,
    Tangent,
    is_differentiable,
)
from workbench.errors import ConvergenceError
from workbench.ops.define import apply_and_split, dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.scipy.integrate.rates import Function, RateSystem, solve

FLOW = declare("initial_value_problem")
FLOW.pattern = "states"
ADJOINT = OPS["initial_value_adjoint"] = Call(
    "initial_value_adjoint",
    run=lambda inputs, **params: _run_adjoint(inputs, **params),
)

#: Reverse mode solves for the sensitivities of so many numbers at most, states and
#: sensitivities together: implicit solvers factor matrices of that many rows.
MOST_NUMBERS = 128

#: What `solve_ivp` calls the settings of `odeint` that it has too.
ODEINT = {
    "method": "method", "rtol": "rtol", "atol": "atol", "hmax": "max_step",
    "hmin": "min_step", "h0": "first_step",
}  # fmt: skip

BACKWARD = (
    "The derivative of the adjoint runs the states backward in time, and a strongly"
    " damped (stiff) system is unstable there: use forward mode (wb.jacfwd, wb.jvp)."
)


def integrate(
    problem: RateSystem, parameters: Sequence[Any], times: ArrayLike, y0: ArrayLike
) -> Array:
    """Return the states at all times, the first of which is ``y0``: one row each."""
    return apply(FLOW, (*parameters, times, y0), {"problem": problem})


def _compute(*inputs: Any, problem: RateSystem) -> Array:
    *parameters, times, y0 = inputs
    times = np.asarray(times)
    # Solvers take no time twice; equal times share a row.
    fresh = np.concatenate([[True], times[1:] != times[:-1]])
    row = np.cumsum(fresh) - 1
    distinct = times[fresh]
    if len(distinct) == 1:
        return np.repeat(np.asarray(y0)[None], len(times), axis=0)
    try:
        function = problem.bind(parameters)
        made = _solve(problem, parameters, function, distinct, np.asarray(y0))
        if problem.backward:
            check_return(made[-1, : problem.backward], parameters[-1], problem.settings)
    except ConvergenceError as error:
        if problem.advice:
            raise ConvergenceError(f"{error} {problem.advice}") from error
        raise
    return made[row]


def _solve(
    problem: RateSystem,
    parameters: Sequence[Any],
    function: Function,
    times: Array,
    y0: Array,
) -> Array:
    """Return the states at distinct times, found by SciPy's solver."""

    def run() -> Array:
        made, problem.report = problem.solver(function, times, y0, problem.settings)
        if made.shape[0] != times.size or not np.all(np.isfinite(made)):
            failed = not getattr(problem.report, "success", True)
            message = problem.report.message if failed else "states are not finite"
            raise ConvergenceError(describe_failure(problem, times[-1], message))
        return made

    return solve(problem.name, function, partial(problem.explain, parameters), run)


def describe_failure(problem: RateSystem, last: float, message: str) -> str:
    """Return the error's words for a solve that did not reach its last time."""
    return (
        f"{problem.name}{blame.user_line()}: the differential equation was not solved"
        f" up to t = {last:g}: {message.rstrip('.')}. Try other tolerances or another"
        " method."
    )


def _infer(*inputs: Any, problem: RateSystem) -> Spec:
    times, y0 = inputs[-2:]
    return Spec((*shape_of(times), *shape_of(y0)), np.dtype(y0.dtype))


def _hoist(values: Sequence[Any], params: Params) -> Sequence[Any]:
    """Return the same op with its rates compiled, for a backend that compiles."""
    return [apply(FLOW, tuple(values), {"problem": params["problem"].compile()})]


def _compute_rates(
    problem: RateSystem, parameters: Sequence[Any], times: Array, y: Array
) -> Array:
    """Return the rate of change at all times."""
    values = [*parameters, times, y]
    batched = [False] * len(parameters) + [True, True]
    return run_examples(problem.rate, values, batched)[0]


def _push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    problem: RateSystem = params["problem"]
    *parameters, times, y0 = inputs
    *moving, dt, dy0 = tangents
    n, count = shape_of(y0)[0], len(parameters)
    which = tuple([i for i, t in enumerate(moving) if t is not None])
    start = np.zeros_like(y0) if dy0 is None else dy0
    rates = None if dt is None else _compute_rates(problem, parameters, times, y)
    if rates is not None:
        start = start - rates[0] * dt[0]
    if dy0 is None and dt is None and not which:
        return None

    def rate(xs: Sequence[Any]) -> list[Any]:
        fixed, along, (t, z) = xs[:count], xs[count:-2], xs[-2:]
        given = dict(zip(which, along, strict=True))
        point = [*fixed, z[:n]]
        motion = [*[given.get(i) for i in range(count)], z[n:]]
        (f,), (moved,) = run_and_push(
            lambda ps: problem.rate([*ps[:-1], t, ps[-1]]), point, motion
        )
        if moved is None:
            moved = np.zeros_like(z[n:])
        return [np.concatenate([f, moved])]

    extended = [*parameters, *[moving[i] for i in which]]
    state = Spec((2 * n,), dtype_of(y0))
    larger = problem.derive(("push", which), rate, extended, state)
    z = integrate(larger, extended, times, np.concatenate([y0, start]))
    made = z[:, n:]
    return made if rates is None else made + rates * dt[:, None]


# Reverse mode


def _pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    problem: RateSystem = params["problem"]
    *parameters, times, y0 = inputs
    n, count = shape_of(y0)[0], len(parameters)
    which = tuple(
        [
            i
            for i, x in enumerate(parameters)
            if mask >> i & 1 and is_differentiable(dtype_of(x))
        ]
    )
    by_times, by_start = bool(mask >> count & 1), bool(mask >> (count + 1) & 1)
    shapes = [shape_of(parameters[i]) for i in which]
    sizes = [int(np.prod(s)) for s in shapes]
    rates = _compute_rates(problem, parameters, times, y) if by_times else None
    columns = sum(sizes) + by_times + n * by_start
    kinds = {np.dtype(dtype_of(x)).kind for x in (y0, *[parameters[i] for i in which])}
    is_small = isinstance(n, int) and n * (1 + columns) <= MOST_NUMBERS
    if problem.graph is not None and kinds == {"f"} and is_small:
        first = None if rates is None else rates[0]
        sums = _pull_by_sensitivities(problem, which, first, by_start, g, inputs)
        total, lost, adjoint = sums
    else:
        total, adjoint = apply_and_split(
            ADJOINT, (*inputs, g), {"problem": problem, "which": which}
        )
        lost = None if rates is None else -np.sum((adjoint - g[0]) * rates[0])
    cotangents: list[Any] = [None] * count
    stops = np.cumsum(sizes)
    for i, end, m, shape in zip(which, stops, sizes, shapes, strict=True):
        cotangents[i] = np.reshape(total[end - m : end], shape)
    moved = None
    if rates is not None:
        # The first state is y0 at any time; the others depend on when it was.
        moved = np.sum(g * rates, axis=1)
        moved = np.concatenate([np.reshape(lost, (1,)), moved[1:]])
    return [*cotangents, moved, adjoint if by_start else None]


def _pull_by_sensitivities(
    problem: RateSystem,
    which: tuple[int, ...],
    first: Any,
    by_start: bool,
    g: Array,
    inputs: Sequence[Any],
) -> tuple[Any, Any, Any]:
    """Return the cotangents of parameters, first time and first state.

    ``first`` is the first rate of change, or None where the time does not matter. The
    states and their sensitivities are the rows of one matrix.
    """
    *parameters, times, y0 = inputs
    n, count = shape_of(y0)[0], len(parameters)
    sizes = [int(np.prod(shape_of(parameters[i]))) for i in which]
    total = sum(sizes)
    more = (first is not None) + n * by_start
    columns = total + more

    def rate(xs: Sequence[Any]) -> list[Any]:
        fixed, (t, z) = xs[:count], xs[-2:]
        rows = np.reshape(z, (1 + columns, n))

        def call(motion: Sequence[Any]) -> list[Any]:
            tangents: list[Any] = [None] * count + [motion[-1]]
            for i, moved in zip(which, motion, strict=False):
                tangents[i] = moved
            made, moved = run_and_push(
                lambda ps: problem.rate([*ps[:-1], t, ps[-1]]),
                [*fixed, rows[0]], tangents,
            )  # fmt: skip
            return [*made, *[rows[0] * 0 if x is None else x for x in moved]]

        units, start = [], 0
        for i, m in zip(which, sizes, strict=True):
            unit = np.zeros((columns, m))  # host array: SciPy's solvers run there
            unit[start : start + m] = np.eye(m)  # host array: too
            units.append(np.reshape(unit, (columns, *shape_of(parameters[i]))))
            start += m
        motion = [*units, rows[1:]]
        specs = [Spec(shape_of(x)[1:], dtype_of(x)) for x in motion]
        made = record(call, specs)
        f, moved = run_batch(made, motion, columns)
        if not made.varying[1]:
            moved = np.zeros_like(rows[1:]) + moved
        return [np.concatenate([f, np.reshape(moved, (-1,))])]

    key = "sensitivities", which, first is not None, by_start
    state = Spec((n * (1 + columns),), dtype_of(y0))
    larger = problem.derive(key, rate, parameters, state)
    starts = [y0, np.zeros_like(y0, shape=(total * n,))]
    if first is not None:
        starts.append(-first)
    if by_start:
        starts.append(np.eye(n).ravel())
    z = integrate(larger, parameters, times, np.concatenate(starts))
    rows = np.reshape(z[:, n:], (shape_of(times)[0], columns, n))
    sums = np.tensordot(rows, g, axes=((0, 2), (0, 1)))
    lost = None if first is None else sums[total] + np.sum(g[0] * first)
    return sums[:total], lost, sums[columns - n :] if by_start else None


# By many inputs: the adjoint


def _rate_back(
    problem: RateSystem,
    which: tuple[int, ...],
    fixed: Sequence[Any],
    t: Any,
    y: Array,
    adjoint: Array,
) -> tuple[Any, list[Any]]:
    """Return the rate of the states; and of the adjoint and the cotangents, flat."""

    def evaluate(ps: Sequence[Any]) -> Sequence[Any]:
        filled = list(fixed)
        for i, p in zip(which, ps, strict=False):
            filled[i] = p
        return problem.rate([*filled, t, ps[-1]])

    point = [*[fixed[i] for i in which], y]
    (f,), back = run_and_pull(evaluate, point, [adjoint])
    rows = []
    for c, p in zip([back[-1], *back[:-1]], [point[-1], *point[:-1]], strict=True):
        flat = np.zeros_like(p) if c is None else -c
        rows.append(np.astype(np.reshape(flat, -1), dtype_of(adjoint)))
    return f, rows


def _count_entries(parameters: Sequence[Any], which: tuple[int, ...]) -> int:
    return sum(int(np.prod(shape_of(parameters[i]))) for i in which)


def _compute_adjoint(
    *inputs: Any, problem: RateSystem, which: tuple[int, ...]
) -> tuple[Any, Any]:
    *parameters, times, y0, g = inputs
    y0, times = np.asarray(y0), np.asarray(times)
    n, count = len(y0), len(parameters)
    fresh = np.concatenate([[True], times[1:] != times[:-1]])
    distinct = times[fresh]
    jumps = np.zeros((len(distinct), n), y0.dtype)  # host array: SciPy's solvers
    np.add.at(jumps, np.cumsum(fresh) - 1, g)
    z = np.zeros(n + _count_entries(parameters, which), y0.dtype)  # host array: too
    z[:n] = jumps[-1]
    if len(distinct) == 1:
        return z[n:], z[:n]

    def rate(xs: Sequence[Any]) -> list[Any]:
        fixed, (t, y, adjoint) = xs[:count], xs[-3:]
        _, rows = _rate_back(problem, which, fixed, t, y, adjoint)
        return [np.concatenate(rows)]

    state = Spec((n,), y0.dtype)
    larger = problem.derive(("adjoint", which), rate, parameters, state, state)
    states = _solve_densely(problem, parameters, distinct, y0)
    function = larger.bind(parameters)

    def run(t: Any, z: Array) -> Any:
        return function(t, states.sol(t), z[:n])

    t = distinct[-1]
    for i in range(len(distinct) - 2, -1, -1):
        if i and not np.any(jumps[i]):
            continue
        if np.any(z):
            ends = np.stack([t, distinct[i]])
            z = _solve(larger, parameters, run, ends, z)[1]
        z = np.concatenate([z[:n] + jumps[i], z[n:]])
        t = distinct[i]
    return z[n:], z[:n]


def _solve_densely(
    problem: RateSystem, parameters: Sequence[Any], times: Array, y0: Array
) -> Any:
    """Return SciPy's result of one solve, with its steps and the dense output."""
    integrators: Any = import_module("scipy.integrate")
    settings = problem.settings
    if problem.name == "odeint":
        given = {ODEINT[k]: v for k, v in settings.items() if k in ODEINT}
        settings = {k: v for k, v in given.items() if np.any(v)}  # 0: the default
    function = problem.bind(parameters)

    def run() -> Any:
        span = times[0], times[-1]
        made = integrators.solve_ivp(function, span, y0, dense_output=True, **settings)
        if not made.success:
            raise ConvergenceError(describe_failure(problem, times[-1], made.message))
        return made

    return solve(problem.name, function, partial(problem.explain, parameters), run)


def _infer_adjoint(
    *inputs: Any, problem: RateSystem, which: tuple[int, ...]
) -> tuple[Spec, Spec]:
    *parameters, _, y0, _ = inputs
    dtype = np.dtype(y0.dtype)
    return Spec((_count_entries(parameters, which),), dtype), Spec(shape_of(y0), dtype)


def _hoist_adjoint(values: Sequence[Any], params: Params) -> Sequence[Any]:
    compiled = {**params, "problem": params["problem"].compile()}
    return apply_and_split(ADJOINT, tuple(values), compiled)


def _run_adjoint(
    inputs: Sequence[Any], *, problem: RateSystem, which: tuple[int, ...]
) -> list[Any]:
    """Return the same as the op by solves of states and adjoint together.

    They run from each checkpoint to the one before; these are the times, and where
    values are known all steps of the solver.
    """
    *parameters, times, y0, g = inputs
    n, count = shape_of(y0)[0], len(parameters)
    between = _find_checkpoints(problem, [value_of(x) for x in inputs[:-1]])
    pieces, rows = [], {}
    for i in range(shape_of(times)[0]):
        if i and between is not None:
            pieces.append(between[i - 1])
        rows[sum(shape_of(x)[0] for x in pieces)] = i
        pieces.append(times[i : i + 1])
    times = np.concatenate(pieces)

    def rate(xs: Sequence[Any]) -> list[Any]:
        fixed, (t, z) = xs[:count], xs[-2:]
        f, back = _rate_back(problem, which, fixed, t, z[:n], z[n : 2 * n])
        return [np.concatenate([f, *back])]

    # What is known of where the states come from, for the solver to be judged by.
    y = integrate(problem, parameters, times, y0)
    states = stop_gradient(y)
    total = np.zeros_like(y0, shape=(_count_entries(parameters, which),))
    size = Spec((2 * n + shape_of(total)[0],), dtype_of(y0))
    larger = problem.derive(("pull", which), rate, [*parameters, states[0]], size)
    larger.backward, larger.advice = n, BACKWARD
    adjoint = g[-1]
    for k in range(shape_of(times)[0] - 1, 0, -1):
        z = np.concatenate([y[k], adjoint, total])
        back = np.stack([times[k], times[k - 1]])
        z = integrate(larger, [*parameters, states[k - 1]], back, z)[1]
        adjoint, total = z[n : 2 * n], z[2 * n :]
        if k - 1 in rows:
            adjoint = adjoint + g[rows[k - 1]]
    return [total, adjoint]


def _find_checkpoints(problem: RateSystem, values: Sequence[Any]) -> list[Array] | None:
    """Return where the solver stops between the times; None without values."""
    if any(x is None for x in values):
        return None
    *parameters, times, y0 = values
    times = np.asarray(times)
    if np.all(times == times[0]):
        return None
    steps = _solve_densely(problem, parameters, times, np.asarray(y0)).t[1:-1]
    sign = np.sign(times[-1] - times[0])
    ends = zip(sign * times[:-1], sign * times[1:], strict=True)
    return [steps[(sign * steps > a) & (sign * steps < b)] for a, b in ends]


def check_return(returned: ArrayLike, states: Any, settings: dict[str, Any]) -> None:
    """Refuse an adjoint solve that did not bring the states back to their start."""
    if not states.size:
        return
    allowed = max(1e-2, 1e2 * float(np.max(settings.get("rtol", 0.0) or 0.0)))
    off = float(np.max(np.abs(returned - states)))
    if not off <= allowed * (1e-6 + float(np.max(np.abs(states)))):
        raise ConvergenceError(
            f"the states came back {off:.2g} away from where they had been"
            f"{blame.user_line()}."
        )


FLOW.compute = _compute
FLOW.infer = _infer
FLOW.pull = _pull
FLOW.push = _push
FLOW.hoist = _hoist
FLOW.rule = (
    "g · ∂y, by sensitivities or by the adjoint a′ = −(∂f/∂y)ᵀ a backward in time"
)
FLOW.reads = None
FLOW.calls_back = True

ADJOINT.compute = _compute_adjoint
ADJOINT.infer = _infer_adjoint
ADJOINT.batch = None  # example by example, like the op itself
ADJOINT.hoist = _hoist_adjoint
ADJOINT.rule = "the derivatives of the adjoint equation, a′ = −(∂f/∂y)ᵀ a"
ADJOINT.calls_back = True
