"""Events of initial value problems, and their states at any time.

An event is a time τ at which a function of the state vanishes, ``g(τ, y(τ)) = 0``. By
the implicit function theorem ``τ̇ = −ġ / (dg/dτ)``, where ġ is the derivative at the
same time (Hairer, Nørsett and Wanner, *Solving ordinary differential equations I*,
II.6). SciPy's solver finds the times; each event has one equation, which the others
have no part in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.autodiff.batch import map_examples
from workbench.autodiff.implicit import root
from workbench.autodiff.jacobian import jvp
from workbench.core import blame
from workbench.core.recorder import Recorder
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import ConvergenceError, MatrixError, ShapeError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.taking import take

Function = Callable[..., Any]
#: Returns the states at times, one row each, given their values where not in order.
Evaluate = Callable[[Any, Array | None], Any]

NAME = "solve_ivp(events=...)"
#: Newton's steps from the times that SciPy found; there they are roots already.
MOST_STEPS = 20
#: A step of this part of the times is one of rounding errors.
ROUNDING = 1e-12


class Event:
    """An event function, as a program of what it reads, the time and the state."""

    def __init__(
        self, function: Function, args: tuple[Any, ...], t: Array, y0: Array
    ) -> None:
        def compute(args: Any, t: Array, y: Array) -> Array:
            made = admit(function(t, y, *args))
            if shape_of(made) not in ((), (1,)):
                raise ShapeError(
                    f"{NAME}{blame.user_line()}: an event function returned shape"
                    f" {shape_of(made)}. Return one number, which vanishes at the"
                    " event."
                )
            return np.reshape(made, ())

        self.function = function
        self.closed = Recorder(compute, args, t, y0, dynamic=True)

    def bind(self) -> Function:
        """Return the function of plain times and states that SciPy calls."""
        parameters = [value_of(x) for x in self.closed.inputs[:-2]]

        def call(t: Any, y: Array) -> Any:
            return self.closed.run([*parameters, np.float64(t), y])[0]

        for name in ("terminal", "direction"):
            if hasattr(self.function, name):
                setattr(call, name, getattr(self.function, name))
        return call

    def evaluate(self, times: Array, rows: Array) -> Any:
        """Return the function at times and states."""
        parameters = self.closed.inputs[:-2]
        batched = [False] * len(parameters) + [True, True]
        return map_examples(self.closed.run, [*parameters, times, rows], batched)[0]


def find_event_times(
    events: Sequence[Event], found: Sequence[Array], evaluate: Evaluate
) -> list[Any]:
    """Return the times of each event, with derivatives.

    ``found`` are those that SciPy found; ``evaluate`` gives the states.
    """
    ends = np.cumsum([0, *(shape_of(t)[0] for t in found)])
    pieces = [slice(a, b) for a, b in pairwise(ends)]
    if not ends[-1]:
        return list(found)

    known = np.concatenate(found)

    def residual(times: Any) -> Any:
        rows = evaluate(times, known)
        return np.concatenate(
            [
                event.evaluate(times[part], rows[part])
                for event, part in zip(events, pieces, strict=True)
                if part.start < part.stop
            ]
        )

    times = root(residual, known, _refine, _divide_by_slopes, NAME)
    return [times[part] for part in pieces]


def _refine(f: Function, times: Array) -> Array:
    """Return the roots of equations in one time each, by Newton's method."""
    for _ in range(MOST_STEPS):
        y, slope = jvp(f, (times,), (np.ones_like(times),))
        if not np.all(slope):
            return times  # the derivative, if it is asked for, is refused in words
        step = y / slope
        if np.all(np.abs(step) <= ROUNDING * np.maximum(1, np.abs(times))):
            return times
        times = times - step
    raise ConvergenceError(
        f"{NAME}{blame.user_line()}: the event times were not found to the last digits."
        " Ask for smaller tolerances."
    )


def _divide_by_slopes(matvec: Function, b: Array) -> Array:
    """Solve the linear system, which is diagonal."""
    slopes = matvec(np.ones_like(b))
    if not np.all(slopes):
        raise MatrixError(
            f"{NAME}{blame.user_line()}: an event function touches zero without"
            " crossing it, and there the event time has no derivative: for other"
            " parameters the event does not happen, or happens twice. Choose another"
            " event function or other parameters."
        )
    return b / slopes


class Solution:
    """The states at any time in between, as `scipy.integrate.OdeSolution`.

    Called with a time or a vector of them it returns shape (n,) or (n, times). Each
    call solves the differential equation, up to the times asked for.
    """

    def __init__(self, evaluate: Evaluate, ts: Any, first: Any, last: Any) -> None:
        self.ts = ts
        self._evaluate = evaluate
        self.t_min, self.t_max = sorted(float(value_of(t)) for t in (first, last))

    def __call__(self, t: ArrayLike) -> Any:
        """Return the states.

        Raises
        ------
        UsageError
            If a time is not between the first and the last.
        """
        times = admit(t)
        times = (times if hasattr(times, "shape") else np.asarray(times)).astype(float)
        known = value_of(times)
        if known is None:
            raise UsageError(
                f"sol(t){blame.user_line()}: the times are not known in this trace."
                " Give numbers, or t_eval."
            )
        if not np.all((known >= self.t_min) & (known <= self.t_max)):
            raise UsageError(
                f"sol(t){blame.user_line()}: a time is outside of"
                f" [{self.t_min:.6g}, {self.t_max:.6g}]. Give a longer t_span."
            )
        rows = self._evaluate(np.reshape(times, (-1,)), np.reshape(known, (-1,)))
        return rows[0] if not shape_of(times) else rows.T


def make_evaluator(
    integrate: Callable[[Any], Any], first: Any, end: Any, descending: bool
) -> Evaluate:
    """Return a function that gives the states at times, by the order of their values.

    ``integrate(times)`` takes them in order; the solver runs from ``first`` to ``end``.
    """

    def evaluate(times: Any, known: Array | None) -> Any:
        order = None
        if known is not None:
            order = np.argsort(-known if descending else known, kind="stable")
            times = take(times, order)
        ends = [np.reshape(first, 1), times, np.reshape(end, 1)]
        rows = integrate(np.concatenate(ends))[1:-1]
        return rows if order is None else take(rows, np.argsort(order), axis=0)

    return evaluate
