"""`plan_kernels`: the GPU plan of a program, in words and as CUDA, without a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.steps import (
    ChoiceStep,
    HostStep,
    KernelStep,
    LoopStep,
    MoveStep,
    Plan,
    Step,
    list_nodes,
)
from workbench.backends.cupy.actions import find_call
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import Device, Launch, compile_unit
from workbench.backends.cupy.obstacles import explain_call
from workbench.core.blame import format_count, shorten
from workbench.core.formatting import format_bytes
from workbench.core.graph import Graph, inline
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of
from workbench.errors import TraceError, UsageError
from workbench.rewrite.driver import Replay, check_rewrites

#: So many ops of a kernel are named.
MOST_OPS = 8


class PlannedStep(NamedTuple):
    """One step of a program on a GPU.

    Attributes
    ----------
    name
        ``"kernel 1"``, ``"product 1"``; ``"call 1"`` is a kernel that an op brings
        with it, and ``"CuPy 1"`` a function of CuPy's.
    nodes
        The nodes that it computes.
    launches
        The functions in CUDA that it calls, in order: none of a product, which is
        cuBLAS's, nor of a call or a function of CuPy's, nor of a choice, nor of a loop
        whose steps the host launches.
    note
        How a loop or a choice runs, in words; of what CuPy computes, what to write
        instead.
    """

    name: str
    nodes: tuple[Tensor, ...]
    launches: tuple[Launch, ...]
    note: str = ""

    @property
    def source(self) -> str:
        """The functions in CUDA C++, as they stand in the text of all kernels."""
        texts = {launch.name: launch.source for launch in self.launches}
        return "\n".join(texts.values())

    def __str__(self) -> str:
        counts = Counter(node.op.name for node in self.nodes)
        texts = [f"{n} {op}" if n > 1 else op for op, n in counts.items()]
        if len(texts) > MOST_OPS:
            texts[MOST_OPS:] = [f"and {len(texts) - MOST_OPS} other ops"]
        where = "; ".join(f"{x.blocks} × {x.threads} threads" for x in self.launches)
        end = "; ".join(filter(None, (self.note, where)))
        return f"{self.name:<10} {', '.join(texts)}{f'  ({end})' if end else ''}"


class KernelPlan:
    """The plan of a program on a GPU, to print, or to iterate over step by step.

    Attributes
    ----------
    steps
        What runs one after another.
    memory
        The bytes that a call takes for what comes and goes, shared by buffers whose
        times do not overlap.
    buffers
        How many such buffers there are.
    """

    def __init__(self, steps: Sequence[PlannedStep], memory: int, buffers: int) -> None:
        self.steps = tuple(steps)
        self.memory, self.buffers = memory, buffers

    @property
    def source(self) -> str:
        """All functions in CUDA C++, the source for NVRTC."""
        return compile_unit(x for step in self.steps for x in step.launches).source

    def __iter__(self) -> Iterator[PlannedStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        launches = sum(len(step.launches) for step in self.steps)
        head = (
            f"{format_count(len(self.steps), 'step')},"
            f" {format_count(launches, 'call')} of functions in CUDA;"
            f" {format_count(self.buffers, 'buffer')} in {format_bytes(self.memory)}"
        )
        return "\n".join([head, *map(str, self.steps)])


def plan_kernels(graph: Graph) -> KernelPlan:
    """Return the GPU plan of a graph: its kernels, their CUDA, its memory.

    No GPU is needed, nor CuPy: it is the plan that ``backend="cupy"`` runs, for a GPU
    of 132 multiprocessors.

    Parameters
    ----------
    graph
        A program whose leaves have shapes and dtypes, as `trace` returns it.

    Raises
    ------
    TraceError
        If a length is not known.
    UsageError
        If it is not a graph.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(1000))
    >>> plan = wb.plan_kernels(graph)
    >>> [step.name for step in plan], "__global__" in plan.source
    (['kernel 1'], True)
    """
    if not isinstance(graph, Graph):
        raise UsageError(
            f"plan_kernels takes a graph, and is given {shorten(repr(graph))}."
            " wb.trace(f)(*args) records one, and a compiled function has one:"
            " f.graph."
        )
    simple = Replay(inline(graph), check_rewrites((), (), False)).run()
    specs = [spec_of(x) for x in simple.leaves]
    for x, spec in zip(simple.leaves, specs, strict=True):
        known = isinstance(spec, Spec) and all(type(n) is int for n in spec.shape)
        if not known:
            raise TraceError(
                f"plan_kernels: {simple.label(x)} has no known shape. Trace the"
                " function on arrays, or on wb.Spec(shape, dtype)."
            )
    device = Device()
    plan = lower(expand(simple, specs, kinds=device.kinds), device)
    counts: Counter[str] = Counter()
    steps = [_describe_step(step, plan, device, counts) for step in plan.steps]
    size = place_buffers(plan)
    inner = sum(b.kind in ("inner", "partial") and b.offset >= 0 for b in plan.buffers)
    return KernelPlan(steps, size, inner)


def _describe_step(
    step: Step, plan: Plan, device: Device, counts: Counter[str]
) -> PlannedStep:
    """Return a step with its launches."""
    number = len(plan.buffers)
    nodes, note = list_nodes(step), ""
    if isinstance(step, KernelStep):
        kind, launches = "kernel", write_launches(step.kernel, plan, device)
    elif isinstance(step, MoveStep):
        kind = "copy"
        launches = [
            x for part in step.parts for x in write_launches(part, plan, device)
        ]
    elif isinstance(step, LoopStep):
        kind, launches = "loop", []
        note = "launched step by step"
    else:
        names = {ProductStep: "product", ChoiceStep: "choice"}
        kind, launches = names.get(type(step), "CuPy"), []
        if isinstance(step, ChoiceStep):
            note = "one of two branches, or both and a selection if they are short"
        elif isinstance(step, HostStep) and find_call(step, plan, device.kinds):
            kind = "call"
        elif isinstance(step, HostStep):
            note = f"in no CUDA graph: {explain_call(step.node)}"
    for buffer in plan.buffers[number:]:
        if buffer.first < 0:
            buffer.first = buffer.last = plan.steps.index(step)
    counts[kind] += 1
    return PlannedStep(f"{kind} {counts[kind]}", nodes, tuple(launches), note)
