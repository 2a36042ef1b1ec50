"""`SessionProfile`: what a run of a session costs, and where it is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.backends import numpy as numpy_backend
from workbench.backends.compiled.steps import KernelStep
from workbench.backends.cupy.actions import LaunchAction
from workbench.backends.cupy.devices import find_runtime
from workbench.backends.cupy.functions import CupyFunction
from workbench.backends.cupy.program import Program
from workbench.backends.profile import Cost, Profile, measure
from workbench.checks.statistics import is_on_device
from workbench.core.blame import format_count
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import DeviceError
from workbench.session.state import State


class SessionProfile(Profile):
    """The costs of a run of a session: print them, or iterate over the rows.

    Attributes
    ----------
    values
        What falls to the value of each node, by its id.
    rules
        What falls to the gradient rule of each node, by its id.
    """

    def __init__(
        self, measured: Profile, ids: Mapping[int, int], has_origins: bool
    ) -> None:
        super().__init__(measured.backend, measured.rows, measured.peak)
        #: The same as data for the page, once that is asked for.
        self.data: Any = None
        self.values: dict[int, Cost] = {}
        self.rules: dict[int, Cost] = {}
        for node, cost in self.costs.items():
            place = find_place(node, ids, has_origins)
            if place is not None:
                i, backward = place
                costs = self.rules if backward else self.values
                costs[i] = add_costs(costs.get(i), cost)


class ProfiledNode(NamedTuple):
    """The node with the value or the rule that a node of a program computes."""

    id: int
    backward: bool


def find_place(
    node: Tensor, ids: Mapping[int, int], has_origins: bool
) -> ProfiledNode | None:
    """Return the node of the program that a node computes; None if unknown.

    Origins lead to the nodes of ``ids``; with ``has_origins`` those of the values too.
    """
    steps = 0
    while node.serial not in ids:
        if node.origin is None:
            return None
        node, steps = node.origin.forward, steps + 1
    return ProfiledNode(ids[node.serial], steps > has_origins)


def add_costs(one: Cost | None, other: Cost) -> Cost:
    """Return the cost of both together, in the row where the larger part is."""
    if one is None:
        return other
    row = one.row if one.time >= other.time else other.row
    return Cost(one.time + other.time, one.traffic + other.traffic, row)


def measure_profile(state: State) -> SessionProfile:
    """Return the costs of a run, by steps and by nodes; print the result.

    See `Session.profile`.
    """
    state.require_gradients()
    programs = state.programs
    is_local = programs is not None and programs.is_local
    recorded = state.make_program() if is_local else None
    if recorded is not None and recorded.function is not None:
        measured = measure(recorded.function, state.list_inputs())
        found = SessionProfile(measured, recorded.ids, True)
    else:
        forward, gradients = state.forward, state.gradient_graph.outputs
        output = forward.graph.nodes[state.objective.output]
        graph = Graph(forward.graph.inputs, [output, *gradients])
        measured = measure(numpy_backend.compile(graph), state.list_inputs())
        found = SessionProfile(measured, forward.ids, False)
    return found


# Where a session computes: the backend, the GPU, and the kernels.

#: What computes on a GPU before kernels are ready, and where there are none.
OP_BY_OP = "cupy op by op"


class DeviceKernel(NamedTuple):
    """A kernel that computes a node's value or its rule, with its text in CUDA."""

    title: str
    source: str


def find_device(state: State) -> str | None:
    """Return the name of the GPU on which a session's values lie; None: on the CPU."""
    there = next((x for x in state.list_inputs() if is_on_device(x)), None)
    if there is None:
        return None
    function = _find_function(state)
    if isinstance(function, CupyFunction):
        return function.device
    try:
        return find_runtime().name
    except DeviceError:  # CuPy computes on it, compiled programs cannot
        return "a GPU"


def describe_backend(state: State, device: str | None) -> str:
    """Return the backend of the next run: ``compiled``, ``cupy op by op``."""
    if device is None:
        return state.backend
    return OP_BY_OP if _find_program(state) is None else "cupy"


def _find_function(state: State) -> Any:
    """Return the function that computes the next run with a backend, or None."""
    return None if state.programs is None else state.programs.find(state.key)


def _find_program(state: State) -> Program | None:
    """Return the compiled program for a GPU that the next run calls; None before."""
    attempt = getattr(_find_function(state), "_last", None)
    program = None if attempt is None else attempt.program
    return program if isinstance(program, Program) else None


def list_kernels(state: State, node: int) -> list[DeviceKernel]:
    """Return the kernels of a GPU that compute a node's value and its gradient rule."""
    program = _find_program(state)
    recorded = state.make_program()
    if program is None or recorded is None or state.programs is None:
        return []
    known, index = state.programs.kernels
    if known is not program:
        index = _index_kernels(program, recorded.ids)
        state.programs.kernels = program, index
    places = (ProfiledNode(node, False), ProfiledNode(node, True))
    found = [index.get(place) for place in places]
    return [
        kernel._replace(title=f"{what}: {kernel.title}")
        for what, kernel in zip(("value", "rule"), found, strict=True)
        if kernel is not None
    ]


def _index_kernels(
    program: Program, ids: Mapping[int, int]
) -> dict[ProfiledNode, DeviceKernel]:
    """Return the kernel of each value and each rule of a program."""
    plan, texts = program.plan, dict[int, list[str]]()
    for action in program.actions:
        if isinstance(action, LaunchAction):
            texts.setdefault(action.step, []).append(action.launch.source)
    index: dict[ProfiledNode, DeviceKernel] = {}
    number = 0
    for k, step in enumerate(plan.steps):
        if not isinstance(step, KernelStep):
            continue
        number += 1
        nodes = [*step.kernel.nodes, *[one.node for one in step.kernel.reductions]]
        counts = Counter(node.op.name for node in nodes)
        words = ", ".join(f"{n} {op}" if n > 1 else op for op, n in counts.items())
        title = f"kernel {number}, {format_count(len(nodes), 'node')}: {words}"
        kernel = DeviceKernel(title, "\n".join(dict.fromkeys(texts.get(k, ()))))
        for node in nodes:
            place = find_place(node, ids, True)
            if place is not None:
                index.setdefault(place, kernel)
    return index
