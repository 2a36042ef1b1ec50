"""The place of a session's computation: the backend, the GPU, and the kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.backends.compiled.steps import KernelStep
from workbench.backends.cupy.actions import LaunchAction
from workbench.backends.cupy.devices import find_runtime
from workbench.backends.cupy.functions import CupyFunction
from workbench.backends.cupy.program import Program
from workbench.checks.statistics import is_on_device
from workbench.core.blame import format_count
from workbench.errors import DeviceError
from workbench.session.profile import ProfiledNode, find_place
from workbench.session.state import State

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
