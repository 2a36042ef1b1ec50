"""Systems of equations as programs: how a rate of change runs inside a solver.

A solver calls it some hundred times with the same parameters. So it is one function of
straight Python code, which computes once what depends on the parameters alone; in a
program of a backend that compiles, it is compiled too. A rate that is not finite ends
the solve: no solver of SciPy's tells that, and some then shorten their steps for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import is_draw
from workbench.control_flow.running import Code, compile_text
from workbench.core import blame, dims
from workbench.core.graph import Graph
from workbench.core.recorder import Recorder
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import ConvergenceError, TraceError, UsageError

Rate = Callable[[Sequence[Any]], Sequence[Any]]
#: A rate of change at given parameters: of the time and the state.
Function = Callable[..., Any]

#: Settings of SciPy's solvers that hold for any system; the others (a Jacobian, its
#: bands) are those of the user's own.
COMMON = (
    "method", "rtol", "atol", "max_step", "min_step", "mxstep", "hmax", "hmin",
)  # fmt: skip

#: After a finite rate a solver may try so many steps that end where there is none: it
#: shortens them until they do not. From 1 to the last digit it takes DOP853 about 300.
MOST_FAILURES = 1000
#: A solver may call so many times per entry of the state at one time: for a Jacobian of
#: differences, and some iterations.
MOST_CALLS = 20


class RateSystem:
    """A system of equations as a flat program ``rate([*parameters, t, y]) -> [y']``.

    ``solver(function, times, y0, settings)`` is SciPy's, on plain arrays; it
    returns the states at the times, and its report.

    Attributes
    ----------
    name
        What errors call the solver.
    graph
        The program; None where it looks at values, and is recorded in each run.
    of_rate
        What it is, in words.
    states
        How many arrays it takes after the time: the state is the last of them.
    """

    def __init__(
        self,
        recorded: Recorder | Rate,
        solver: Callable[..., tuple[Any, Any]],
        settings: dict[str, Any],
        name: str,
        of_rate: str = "The rate of change",
        states: int = 1,
    ) -> None:
        self.graph: Graph | None = None
        self.rate: Rate = recorded.run if isinstance(recorded, Recorder) else recorded
        if isinstance(recorded, Recorder) and recorded.is_fixed:
            self.graph = recorded.graph
        self.solver = solver
        self.settings = settings
        self.name = name
        self.of_rate = of_rate
        self.states = states
        #: What the solver message of its last run.
        self.report: Any = None
        #: How many states of an adjoint problem run backward: they must arrive at
        #: what the last parameter says.
        self.backward = 0
        #: What to write instead where it is not solved.
        self.advice = ""
        self._derived: dict[Any, RateSystem] = {}
        self._make: Function | None = None
        self._is_compiled = False
        self._compiled: RateSystem | None = None

    def __repr__(self) -> str:
        return f"<a rate of change{', ' if self.settings else ''}{self._set_to()}>"

    def _set_to(self) -> str:
        return ", ".join(f"{name}={x!r}" for name, x in self.settings.items())

    def derive(
        self, key: Any, rate: Rate, parameters: Sequence[Any], *states: Spec
    ) -> RateSystem:
        """Return a larger system made of this one, recorded once for each ``key``.

        Its rate takes parameters like these, the time, and arrays of the specs.
        """
        if key not in self._derived:
            time = Spec((), np.dtype(float))
            made = self.record(rate, [*parameters, time, *states])
            settings = {k: v for k, v in self.settings.items() if k in COMMON}
            if np.ndim(settings.get("atol", 0)):
                settings["atol"] = float(np.min(settings["atol"]))
            self._derived[key] = RateSystem(
                made, self.solver, settings, self.name,
                "A derivative of the rate of change",
                len(states),
            )  # fmt: skip
            self._derived[key]._is_compiled = self._is_compiled
            self._derived[key].advice = self.advice
        return self._derived[key]

    def record(self, rate: Rate, examples: Sequence[Any]) -> Recorder | Rate:
        """Return a recorded program, or the function itself where values decide."""
        try:
            return Recorder(lambda *xs: list(rate(xs)), *examples)
        except TraceError:
            return rate

    def compile(self) -> RateSystem:
        """Return the same system with a compiled rate, for compiled programs."""
        if self.graph is None or self._is_compiled:
            return self
        if self._compiled is None:
            made = RateSystem(self.rate, self.solver, self.settings, self.name)
            made.graph, made.of_rate = self.graph, self.of_rate
            made.backward, made.advice = self.backward, self.advice
            made._is_compiled = True
            self._compiled = made
        return self._compiled

    # Running

    def bind(self, parameters: Sequence[Any]) -> Function:
        """Return the rate at these parameters, a function of the time and the state.

        Others may stand between them, such as the states that an adjoint reads. One
        that is not finite raises an error that says where.
        """
        if self._make is None:
            self._make = self._find_maker()
        function = self._make(*parameters)
        return watch(self.name, function, lambda t, *y: self.explain(parameters, t, *y))

    def _find_maker(self) -> Function:
        graph, rate = self.graph, self.rate
        if graph is not None and self._is_compiled:
            from workbench.symbolic.compiled_function import compile

            run = compile(lambda *xs: graph.run(xs)[0], backend="compiled")

            def make_compiled(*parameters: Any) -> Function:
                fixed = [np.asarray(x)[()] for x in parameters]
                return lambda t, *y: run(*fixed, np.float64(t), *y)

            return make_compiled
        if graph is None or any(dims.has_dim(x.spec.shape) for x in graph.leaves):
            return lambda *parameters: (
                lambda t, *y: rate([*parameters, np.float64(t), *y])[0]
            )
        write = _write_maker(graph, len(graph.leaves) - 1 - self.states)

        def make(*parameters: Any) -> Function:
            run = write(*parameters)

            def call(t: Any, *y: Any) -> Any:
                try:
                    return run(np.float64(t), *y)
                except Exception:  # which the graph tells with the op and the line
                    return rate([*parameters, np.float64(t), *y])[0]

            return call

        return make

    def explain(self, parameters: Sequence[Any], t: Any, *y: Any) -> str:
        """Return the words for a rate that is not finite, and where that begins."""
        begun = ""
        node = None
        if all(map(is_finite, (np.asarray(t), *y))):
            node = self._find_first_infinite([*parameters, np.float64(t), *y])
        if node is not None:
            told, what = node, "is not finite there"
            if node.origin is not None:
                told, what = node.origin.forward, "has no finite derivative there"
            begun = f" {blame.describe(told)}{blame.quote_site(told.site)} {what}."
        return (
            f"{self.of_rate} is not finite at t = {float(t):.6g}.{begun} Begin"
            " elsewhere, or write the function so that it and its slope are finite on"
            " the way (np.where does, with a value in each branch that is)."
        )

    def _find_first_infinite(self, values: Sequence[Any]) -> Tensor | None:
        """Return the first node that turns finite operands into a non-finite value."""
        if self.graph is None:
            return None
        bad: set[int] = set()

        def observe(node: Tensor, operands: tuple[Any, ...]) -> Any:
            made = compute_node(node, operands)
            if not is_finite(made):
                bad.add(node.serial)
            return made

        with np.errstate(all="ignore"):
            self.graph.run(values, observe)
        node = self.graph.outputs[0]
        while isinstance(node, Tensor):
            before = [
                x for x in node.inputs if isinstance(x, Tensor) and x.serial in bad
            ]
            if not before:
                return node if node.serial in bad else None
            node = before[0]
        return None


def is_finite(x: Any) -> bool:
    """Return whether all entries are finite numbers."""
    if type(x) is np.ndarray and x.ndim == 1 and x.dtype == float:
        if x.dot(x) < np.inf:  # which a finite one larger than 1e154 is not
            return True
    if isinstance(x, (tuple, list)):
        return all(map(is_finite, x))
    try:
        return bool(np.all(np.isfinite(x)))
    except TypeError:  # what is no number is for others to judge
        return True


def _write_maker(graph: Graph, count: int) -> Function:
    """Return ``make(*fixed) -> run``, of which ``run(*others)`` is a graph's output.

    What depends on the first ``count`` leaves alone is computed by ``make``.
    """
    fixed = [f"c{i}" for i in range(count)]
    moving = [f"x{i}" for i in range(len(graph.leaves) - count)]
    same = {x.serial for x in graph.leaves[:count]}
    before, inside = [], []
    for node in graph.interior:
        known = all(x.serial in same for x in node.inputs if isinstance(x, Tensor))
        if known and not is_draw(node):
            same.add(node.serial)
            before.append(node)
        else:
            inside.append(node)
    names = {
        x.serial: name for x, name in zip(graph.leaves, [*fixed, *moving], strict=True)
    }
    read = [x for node in inside for x in node.inputs]
    needed = [
        x for x in (*read, *graph.outputs) if isinstance(x, Tensor) and x.serial in same
    ]
    code = Code()
    code.line(f"def make({', '.join(fixed)}):")
    code.steps(before, names, "    ", needed, set(), "i")
    code.line(f"    def run({', '.join(moving)}):")
    (made,) = code.steps(inside, names, "        ", graph.outputs, set())
    code.line(f"        return {made}")
    code.line("    return run")
    exec(compile_text("\n".join(code.lines)), code.scope)
    maker: Function = code.scope["make"]
    return maker


# What ends a solve that would not end


def watch(name: str, function: Function, explain: Callable[..., str]) -> Function:
    """Return a rate that ends a solve which would go on for ever.

    The first rate must be finite, and then one in so many; and so many calls must not
    all be at one time. ``explain(t, *y)`` tells of a rate that is not finite.
    """
    left = 0
    last, stays = None, 0

    def watched(t: Any, *y: Any) -> Any:
        nonlocal left, last, stays
        made = function(t, *y)
        if is_finite(made):
            left = MOST_FAILURES
        else:
            if not watched.failed or all(map(is_finite, y)):  # type: ignore[attr-defined]
                # A copy: compiled solvers write the next state into the same array.
                kept = [np.array(x) if isinstance(x, np.ndarray) else x for x in y]
                watched.failed = t, *kept  # type: ignore[attr-defined]
            if left <= 0 or not np.isfinite(t):
                raise ConvergenceError(f"{name}{blame.user_line()}: {explain(t, *y)}")
            left -= 1
        if t != last:
            last, stays = t, 0
        elif stays > MOST_FAILURES + MOST_CALLS * np.size(made):
            raise ConvergenceError(
                f"{name}{blame.user_line()}: the solver does not get beyond"
                f" t = {float(t):.6g}, where its steps are shorter than the last digit:"
                " the state grows without bound there, or jumps. End before that time."
            )
        else:
            stays += 1
        return made

    watched.failed = ()  # type: ignore[attr-defined]
    return watched


def solve(
    name: str, function: Function, explain: Callable[..., str], run: Callable[[], Any]
) -> Any:
    """Call a solver of a watched function; name the point of failure in errors.

    Raises
    ------
    ConvergenceError
        If it fails, and a rate was not finite on the way.
    UsageError
        If it refuses its settings.
    """
    try:
        return blame.call_solver(name, run)
    except (UsageError, ConvergenceError) as error:
        failed = getattr(function, "failed", ())
        if not failed or explain(*failed) in str(error):
            raise
        raise ConvergenceError(f"{error} {explain(*failed)}") from error


def explain_plain(t: Any, *y: Any) -> str:
    """Return the words for a function of the user's that is not finite."""
    return (
        f"The rate of change is not finite at t = {float(t):.6g}. Begin elsewhere, or"
        " write the function so that it is finite on the way."
    )
