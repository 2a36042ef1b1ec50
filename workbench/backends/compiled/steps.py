"""What a plan is made of: buffers, steps, and operands as steps find them."""

from __future__ import annotations

import ctypes
import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import KINDS
from workbench.backends.compiled.kernel import Kernel, View
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.systems import SystemStep
from workbench.core.dims import has_dim
from workbench.core.graph import Graph
from workbench.core.op import Repetition
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, is_repeated_number, is_weak

#: Buffers begin at multiples of this: the length of a line of the cache.
LINE = 64
#: What holds the memory of rows: its address, and how many bytes there are.
STATE = Spec((2,), np.dtype(np.int64))
#: A loop of more entries of nodes looks from time to time whether to stop.
LONG = 2**28
#: What the flag holds when a signal has interrupted a loop.
INTERRUPTED = 2


class Plan:
    """The steps of a graph, and the memory that they use.

    Attributes
    ----------
    graph
        The program, at fixed shapes.
    buffers
        All memory; a view names one by its place here.
    steps
        What runs, in order.
    outputs
        For each output of the graph a view, or a constant as it is.
    flag
        The buffer of a word that is 0 before a run, and 1 after it if something is
        wrong with the inputs: NumPy then says what. -1: nothing can be.
    nested
        It is a program inside of a step: each output has a buffer of its own.
    """

    def __init__(self, graph: Graph, nested: bool = False) -> None:
        self.graph = graph
        self.nested = nested
        self.flag = -1
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.outputs: list[Any] = []

    @property
    def is_native(self) -> bool:
        """True if no step calls NumPy."""
        return not any(isinstance(step, HostStep) for step in self.steps)

    def find_lifetimes(self) -> None:
        """Find the steps that use each buffer first and last."""
        for buffer in self.buffers:
            buffer.first = buffer.last = -1
        for number, step in enumerate(self.steps):
            for place in list_buffers(step):
                buffer = self.buffers[place]
                if buffer.first < 0:
                    buffer.first = number
                buffer.last = number
        for y in self.outputs:
            if isinstance(y, View):
                self.buffers[y.buffer].last = len(self.steps)


class Buffer:
    """A piece of memory that holds the entries of one value, one after the other.

    Attributes
    ----------
    kind
        ``input``, ``constant``, ``inner``, ``output`` (made new in each call), ``host``
        (what a call of NumPy gives), ``partial`` (of a reduction in pieces),
        ``growing`` (rows of which only the run knows how many), ``state`` (what holds
        the memory of such rows), ``flag`` (see `Plan`) or ``absent`` (nobody reads
        it).
    place
        Which input, constant or output it is.
    first, last
        The steps that write it first and read it last.
    count
        Where the number of rows of a growing one lies.
    """

    def __init__(
        self, kind: str, spec: Spec, place: int = -1, value: Any = None
    ) -> None:
        self.kind = kind
        self.spec = spec
        self.place = place
        self.value = value
        self.first = -1
        self.last = -1
        self.offset = -1
        self.count: View | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(math.prod(self.spec.shape)) * self.spec.dtype.itemsize

    @property
    def known_size(self) -> int:
        """Its bytes; 0 where a length is known only when the program runs."""
        return 0 if has_dim(self.spec.shape) else self.size


class KernelStep(NamedTuple):
    """A kernel that runs."""

    kernel: Kernel


class MoveStep(NamedTuple):
    """Kernels that put parts together, after zeros where ``zeros`` is a buffer.

    They run one after the other: the later ones change what the first ones wrote.
    """

    node: Tensor
    zeros: int
    parts: tuple[Kernel, ...]


class HostStep(NamedTuple):
    """A call of NumPy: the node, its operands, the buffers of its results."""

    node: Tensor
    #: A view, or a constant as it is.
    operands: tuple[Any, ...]
    results: tuple[int, ...]


class InnerProgram(NamedTuple):
    """A program inside a step: its plan, and the buffers shared with the outer plan.

    Each pair is a buffer outside and one inside.
    """

    plan: Plan
    shared: tuple[tuple[int, int], ...]


class LoopStep(NamedTuple):
    """A loop: the program of a step, repeated."""

    node: Tensor
    repetition: Repetition
    program: InnerProgram
    #: The number of steps, if it is known.
    steps: int | None
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    #: The buffer of all that the steps use, and for each growing result its state.
    frame: int
    states: dict[int, int]
    #: The flag to set where NumPy must run the program; -1: there is no such case.
    flag: int


class ChoiceStep(NamedTuple):
    """A choice of two programs."""

    node: Tensor
    programs: tuple[InnerProgram, ...]
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    frame: int


class StripStep(NamedTuple):
    """Steps that run on a few rows of long arrays at a time; see `strips`.

    Attributes
    ----------
    nodes
        What they compute.
    rounds, piece, pieces
        How many strips there are, how many make a piece, and how many pieces that are.
    programs
        The plan of the steps of a strip, and that of the last one if it is shorter.
        Their buffers have the same places.
    fills
        Kernels that prepare what the strips of a piece add to.
    links
        A buffer outside, the place inside that points to rows of it, and how many bytes
        further the next strip lies.
    sums
        A buffer outside of the results of all pieces, and the place inside of one.
    frame
        The buffer of what lies between the steps, of each piece.
    """

    nodes: tuple[Tensor, ...]
    rounds: int
    piece: int
    pieces: int
    programs: tuple[Plan, ...]
    fills: tuple[Kernel, ...]
    links: tuple[tuple[int, int, int], ...]
    sums: tuple[tuple[int, int], ...]
    frame: int


NestedStep = LoopStep | ChoiceStep
Step = (
    KernelStep
    | ProductStep
    | SystemStep
    | MoveStep
    | HostStep
    | LoopStep
    | ChoiceStep
    | StripStep
)


class Targets:
    """Which memory the outputs of a program inside of a step fill, by their buffers.

    Attributes
    ----------
    results
        The result that an output is: the whole of it, or of a loop a row.
    copies
        Results that get a copy of an output, each with its buffer.
    spots
        The place in the frame that another output fills.
    turns
        The size of a place that is one of two, in turns: a step of a loop reads there
        what the one before has written.
    in_place
        The carries of a loop that a step writes over.
    """

    def __init__(self) -> None:
        self.results: dict[int, int] = {}
        self.copies: list[tuple[int, int]] = []
        self.spots: dict[int, int] = {}
        self.turns: dict[int, int] = {}
        self.in_place: set[int] = set()

    def fill_result(self, number: int, place: int, fits: bool = True) -> None:
        """Make an output a result, or a copy of one where the layouts differ."""
        if place in self.results or not fits:
            self.copies.append((number, place))
        else:
            self.results[place] = number


def plan_choice(
    program: InnerProgram, kinds: Sequence[str], reserve: Callable[[int], int]
) -> Targets:
    """Choose which memory the outputs of a program of a choice fill.

    ``kinds`` are those of the results; ``reserve`` gives places of the frame.
    """
    made, plan = Targets(), program.plan
    for number, (y, kind) in enumerate(zip(plan.outputs, kinds, strict=True)):
        if kind != "absent":
            made.fill_result(number, y.buffer)
    for y in plan.outputs:
        if y.buffer not in made.results and y.buffer not in made.spots:
            made.spots[y.buffer] = reserve(plan.buffers[y.buffer].size)
    return made


def plan_loop(
    step: LoopStep,
    kinds: Sequence[str],
    reserve: Callable[[int], int],
    alignment: int = 1,
    is_in_place: Callable[[int, int], bool] = lambda carry, place: False,
) -> Targets:
    """Choose which memory the outputs of a step of a loop fill.

    Rows must begin at multiples of the alignment. ``is_in_place`` tells whether a step
    may write a carry, whose output is in a buffer, over the value before.
    """
    made, what, body = Targets(), step.repetition, step.program.plan
    for number, (kind, k) in enumerate(what.results):
        if kind == "rows" and kinds[number] != "absent":
            place = body.outputs[k].buffer
            whole = body.buffers[place].size % alignment == 0
            made.fill_result(number, place, whole and kinds[number] != "growing")
    users: dict[int, list[int]] = {}
    for k in range(what.carries):
        users.setdefault(body.outputs[k].buffer, []).append(k)
    for y in body.outputs:
        place = y.buffer
        if place in made.results or place in made.spots:
            continue
        size = -(-max(body.buffers[place].size, 1) // LINE) * LINE
        mine = users.get(place, [])
        if len(mine) == 1 and is_in_place(mine[0], place):
            made.in_place.add(mine[0])
        elif mine:  # the value before and the value after, in turns
            made.turns[place] = size
            size *= 2
        made.spots[place] = reserve(size)
    return made


class Rows(NamedTuple):
    """An operand in rows: a step takes one, or only the run knows their number."""

    view: View
    length: View | None


class Held(NamedTuple):
    """An operand passed on unchanged from NumPy: a tuple, an object."""

    buffer: int


def count_work(plan: Plan) -> float:
    """Return about how many entries of nodes a program computes.

    It is infinite for a loop of unknown length.
    """
    work = 0.0
    for step in plan.steps:
        if isinstance(step, KernelStep):
            work += step.kernel.size * (1 + len(step.kernel.nodes))
        elif isinstance(step, ProductStep):
            work += step.a.shape[-1] * max(1, int(np.prod(step.out.shape)))
        elif isinstance(step, SystemStep):
            work += step.work
        elif isinstance(step, LoopStep):
            steps = np.inf if step.steps is None else step.steps
            work += steps * (1 + count_work(step.program.plan))
        elif isinstance(step, ChoiceStep):
            work += max(count_work(program.plan) for program in step.programs)
        elif isinstance(step, StripStep):
            work += step.rounds * count_work(step.programs[0])
    return work


def list_buffers(step: Step) -> list[int]:
    """Return the buffers that a step reads or writes."""
    if isinstance(step, KernelStep):
        return sorted(step.kernel.buffers)
    if isinstance(step, ProductStep):
        return [step.a.buffer, step.b.buffer, step.out.buffer]
    if isinstance(step, MoveStep):
        found = {i for part in step.parts for i in part.buffers}
        return sorted(found | ({step.zeros} if step.zeros >= 0 else set()))
    if isinstance(step, SystemStep):
        views = [v for v in (step.matrix, step.right, step.pivots) if v is not None]
        return sorted(
            {v.buffer for v in views}.union(*(k.buffers for k in step.kernels))
        )
    if isinstance(step, (LoopStep, ChoiceStep)):
        rows = [x for x in step.operands if isinstance(x, Rows)]
        views = [x.view if isinstance(x, Rows) else x for x in step.operands]
        views += [x.length for x in rows if x.length is not None]
        return [*(v.buffer for v in views), *step.results, step.frame]
    if isinstance(step, StripStep):
        return [*(x[0] for x in step.links), *(i for i, _ in step.sums), step.frame]
    return [
        *(x.buffer for x in step.operands if isinstance(x, (View, Held))),
        *(v.buffer for x in step.operands if isinstance(x, Rows) for v in x if v),
        *step.results,
    ]


def list_written(step: Step) -> list[int]:
    """Return the buffers that a step writes, or may write."""
    if isinstance(step, (KernelStep, MoveStep)):
        kernels = step.parts if isinstance(step, MoveStep) else (step.kernel,)
        found = {i for kernel in kernels for i in kernel.written}
        zeros = step.zeros if isinstance(step, MoveStep) else -1
        return sorted(found | {zeros} if zeros >= 0 else found)
    if isinstance(step, ProductStep):
        return [step.out.buffer]
    if isinstance(step, HostStep):
        return [*step.results]
    if isinstance(step, (LoopStep, ChoiceStep)):
        return [*step.results, step.frame]
    return list_buffers(step)


def count_users(steps: Iterable[Step]) -> dict[int, int]:
    """Return how many steps use each buffer."""
    return Counter(i for step in steps for i in {*list_buffers(step)})


def list_nodes(step: Step) -> tuple[Tensor, ...]:
    """Return the nodes that a step computes."""
    if isinstance(step, KernelStep):
        return (*step.kernel.nodes, *(one.node for one in step.kernel.reductions))
    return step.nodes if isinstance(step, StripStep) else (step.node,)


# Operands, as steps find them


def is_plain(spec: Spec, kinds: Collection[str] = KINDS) -> bool:
    """Return whether registers hold the entries, and all lengths are numbers.

    ``kinds`` are those that the target of a plan computes with.
    """
    return (
        spec.dtype.str[1:] in kinds
        and spec.dtype.isnative
        and all(type(n) is int for n in spec.shape)
    )


def list_specs(node: Tensor) -> tuple[Any, ...]:
    """Return the specs of all results of a node."""
    spec: Any = node.spec
    return spec if isinstance(spec, tuple) else (spec,)


def read_spec(x: Any) -> Any:
    """Return the spec of an operand; a Python number's is weak."""
    if isinstance(x, Tensor):
        value = x._value
        return Spec((), np.result_type(type(value)), True) if is_weak(value) else x.spec
    if is_weak(x):
        return Spec((), np.result_type(type(x)), True)
    array = np.asarray(x)
    return Spec(array.shape, array.dtype)


def is_number(x: Any) -> bool:
    """Return whether an operand is a constant of one entry, which may be repeated."""
    value = x._value if isinstance(x, Tensor) else x
    if value is None:
        return False
    if is_weak(value) or is_repeated_number(value):
        return True
    return not isinstance(value, tuple) and getattr(value, "size", 0) == 1


def make_example(x: Any) -> Any:
    """Return an array of an operand's shape and dtype; a number stays a number."""
    spec = read_spec(x)
    return x if spec.weak else spec.example()


def read_value(x: Any) -> Any:
    """Return the value of an operand, None if known only at run time."""
    return x._value if isinstance(x, Tensor) else x


def find_domain(node: Tensor, role: str) -> tuple[int, ...]:
    """Return the shape of the loops that compute a node."""
    spec: Any = read_spec(node.inputs[0]) if role == "reduction" else node.spec
    return () if isinstance(spec, tuple) else spec.shape


def pack_strides(spec: Spec) -> tuple[int, ...]:
    """Return the strides of a contiguous array."""
    strides, step = [], spec.dtype.itemsize
    for n in reversed(spec.shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _ask_start(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


#: Where an array object has the address of its entries: NumPy's binary interface.
_ENTRIES = 16
_find_word = ctypes.c_void_p.from_address


def _read_start(array: np.ndarray[Any, Any]) -> int:
    return _find_word(id(array) + _ENTRIES).value or 0


def _choose_reader() -> Callable[[np.ndarray[Any, Any]], int]:
    """Return the function that reads an array's address, directly or by NumPy."""
    if sys.implementation.name != "cpython":  # an id is no address
        return _ask_start
    x = np.empty(9)
    return (
        _read_start
        if all(_read_start(one) == _ask_start(one) for one in (x, x[2:7]))
        else _ask_start
    )


#: Returns the address of the first entry of an array. To read it out of the object
#: takes a tenth of the time in which NumPy tells it.
find_start = _choose_reader()
