"""Initial value problems as an op: its derivatives are such problems again.

``y' = f(t, y, θ)`` from ``y(t₀) = y₀`` to the times ``t₁, t₂, ...``. Forward mode
integrates the sensitivity ``s' = ∂f/∂y s + ∂f/∂θ θ̇`` beside y (Hairer, Nørsett and
Wanner, *Solving ordinary differential equations I*, I.14). Reverse mode integrates
``a' = −(∂f/∂y)ᵀ a`` from the last time back to the first, with a jump by the
cotangent at each, and ``θ̄`` along (Pontryagin; Chen et al., *Neural ordinary
differential equations*, 2018, algorithm 2). The solver is SciPy's in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.call import (
    push_through,
    record_once,
    run_and_pull,
    run_examples,
)
from workbench.core import blame
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import (
    Array,
    ArrayLike,
    Params,
    Spec,
    Tangent,
    is_differentiable,
)
from workbench.errors import ConvergenceError
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient

Rate = Callable[[Sequence[Any]], Sequence[Any]]

FLOW = declare("initial_value_problem")

#: Settings of SciPy's solvers that hold for any system; the others (a Jacobian, its
#: bands) are those of the user's own.
COMMON = {"rtol", "atol", "max_step", "min_step", "mxstep", "hmax", "hmin"}


BACKWARD = (
    "The adjoint method runs the states backward in time, and a strongly damped (stiff)"
    " system is unstable there: use forward mode (wb.jacfwd, wb.jvp)."
)


class Problem:
    """A system of equations as a flat program ``rate([*parameters, t, y]) -> [y']``.

    ``solver(function, times, y0, settings)`` is SciPy's, on plain arrays; it
    returns the states at the times, and its report.
    """

    def __init__(
        self,
        rate: Rate,
        solver: Callable[..., tuple[Any, Any]],
        settings: dict[str, Any],
    ) -> None:
        self.rate = rate
        self.solver = solver
        self.settings = settings
        #: What the solver message of its last run.
        self.report: Any = None
        #: How many states of an adjoint problem run backward: they must arrive at
        #: what the last parameter says.
        self.backward = 0
        self._derived: dict[Any, Problem] = {}

    def __repr__(self) -> str:
        return f"<a rate of change{', ' if self.settings else ''}{self._set_to()}>"

    def _set_to(self) -> str:
        return ", ".join(f"{name}={x!r}" for name, x in self.settings.items())

    def derive(self, key: Any, rate: Rate, inputs: Sequence[Any], n: int) -> Problem:
        """Return a larger system made of this one, recorded once for each ``key``."""
        if key not in self._derived:
            t = Spec((), np.dtype(float))
            y = Spec((n,), dtype_of(inputs[-1]))
            run = record_once(rate, *inputs[:-2], t, y)
            settings = {k: v for k, v in self.settings.items() if k in COMMON}
            if np.ndim(settings.get("atol", 0)):
                settings["atol"] = float(np.min(settings["atol"]))
            self._derived[key] = Problem(run, self.solver, settings)
        return self._derived[key]


def integrate(
    problem: Problem, parameters: Sequence[Any], times: ArrayLike, y0: ArrayLike
) -> Array:
    """Return the states at all times, the first of which is ``y0``: one row each."""
    return apply(FLOW, (*parameters, times, y0), {"problem": problem})


def _compute(*inputs: Any, problem: Problem) -> Array:
    *parameters, times, y0 = inputs
    times = np.asarray(times)
    # Solvers take no time twice; some rows stand for the same.
    fresh = np.concatenate([[True], times[1:] != times[:-1]])
    row = np.cumsum(fresh) - 1
    distinct = times[fresh]
    if len(distinct) == 1:
        return np.repeat(np.asarray(y0)[None], len(times), axis=0)

    def function(t: Any, y: Any) -> Array:
        return problem.rate([*parameters, np.float64(t), y])[0]

    try:
        made, problem.report = problem.solver(
            function, distinct, np.asarray(y0), problem.settings
        )
        if made.shape[0] != len(distinct) or not np.all(np.isfinite(made)):
            message = getattr(problem.report, "message", "values that are not finite")
            raise ConvergenceError(
                f"the differential equation was not solved up to t = {times[-1]:g}"
                f"{blame.user_line()}: {message} Try other tolerances or another"
                " method."
            )
        if problem.backward:
            check_return(made[-1, : problem.backward], parameters[-1], problem.settings)
    except ConvergenceError as error:
        if problem.backward:
            raise ConvergenceError(f"{error} {BACKWARD}") from error
        raise
    return made[row]


def _infer(*inputs: Any, problem: Problem) -> Spec:
    times, y0 = inputs[-2:]
    return Spec((*shape_of(times), *shape_of(y0)), np.dtype(y0.dtype))


def _compute_rates(
    problem: Problem, parameters: Sequence[Any], times: Array, y: Array
) -> Array:
    """Return the rate of change at all times."""
    values = [*parameters, times, y]
    batched = [False] * len(parameters) + [True, True]
    return run_examples(problem.rate, values, batched)[0]


def _push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    problem: Problem = params["problem"]
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

        def evaluate(ps: Sequence[Any]) -> Sequence[Any]:
            return problem.rate([*ps[:-1], t, ps[-1]])

        point = [*fixed, z[:n]]
        motion = [*[given.get(i) for i in range(count)], z[n:]]
        (moved,) = push_through(evaluate, point, motion)
        if moved is None:
            moved = np.zeros_like(z[n:])
        return [np.concatenate([evaluate(point)[0], moved])]

    extended = [*parameters, *[moving[i] for i in which]]
    larger = problem.derive(("push", which), rate, [*extended, times, y0], 2 * n)
    z = integrate(larger, extended, times, np.concatenate([y0, start]))
    made = z[:, n:]
    return made if rates is None else made + rates * dt[:, None]


def _pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    problem: Problem = params["problem"]
    *parameters, times, y0 = inputs
    n, count = shape_of(y0)[0], len(parameters)
    steps = shape_of(times)[0]
    which = tuple(
        [
            i
            for i, x in enumerate(parameters)
            if mask >> i & 1 and is_differentiable(dtype_of(x))
        ]
    )
    shapes = [shape_of(parameters[i]) for i in which]
    sizes = [int(np.prod(s)) for s in shapes]

    def rate(xs: Sequence[Any]) -> list[Any]:
        fixed, (t, z) = xs[:count], xs[-2:]

        def evaluate(ps: Sequence[Any]) -> Sequence[Any]:
            filled = list(fixed)
            for i, p in zip(which, ps, strict=False):
                filled[i] = p
            return problem.rate([*filled, t, ps[-1]])

        point = [*[fixed[i] for i in which], z[:n]]
        (f,), back = run_and_pull(evaluate, point, [z[n : 2 * n]])
        rows = [f]
        for c, p in zip([back[-1], *back[:-1]], [point[-1], *point[:-1]], strict=True):
            flat = np.zeros_like(p) if c is None else -c
            rows.append(np.astype(np.reshape(flat, -1), z.dtype))
        return [np.concatenate(rows)]

    size = 2 * n + sum(sizes)
    # What is known of where the states come from, for the solver to be judged by.
    states = stop_gradient(y)
    inputs = (*parameters, states[0], times, y0)
    larger = problem.derive(("pull", which), rate, inputs, size)
    larger.backward = n
    adjoint, total = g[-1], np.zeros_like(y0, shape=(sum(sizes),))
    for i in range(steps - 1, 0, -1):
        z = np.concatenate([y[i], adjoint, total])
        back = np.stack([times[i], times[i - 1]])
        z = integrate(larger, [*parameters, states[i - 1]], back, z)[1]
        before = z[n : 2 * n]
        adjoint, total = before + g[i - 1], z[2 * n :]
    cotangents: list[Any] = [None] * count
    stops = np.cumsum(sizes)
    for i, end, m, shape in zip(which, stops, sizes, shapes, strict=True):
        cotangents[i] = np.reshape(total[end - m : end], shape)
    by_times = None
    if mask >> count & 1:
        by_times = np.sum(g * _compute_rates(problem, parameters, times, y), axis=1)
        # The first state is y0 at any time; the others depend on when it was.
        lost = adjoint - g[0]
        first = -np.sum(lost * problem.rate([*parameters, times[0], y[0]])[0])
        by_times = np.concatenate([np.reshape(first, (1,)), by_times[1:]])
    return [*cotangents, by_times, adjoint]


def check_return(returned: ArrayLike, states: Any, settings: dict[str, Any]) -> None:
    """Refuse an adjoint whose states did not come back to where they had been."""
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
FLOW.rule = "the adjoint equation, a′ = −(∂f/∂y)ᵀ a, backward in time"
FLOW.reads = None
