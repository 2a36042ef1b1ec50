"""`Kernel`: one nest of loops over a domain, which computes many nodes at once.

Each entry of the domain is loaded, computed in registers, and stored or reduced. The
loops are planned from the strides of all arrays: axes that lie one after the other
become one, and the innermost runs in vectors. `kernel_code.py` writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import (
    PARTS,
    EntryBuilder,
    Value,
)
from workbench.backends.compiled.entries import (
    add,
    maximum,
    minimum,
    multiply,
)
from workbench.backends.compiled.machine import Machine
from workbench.core.tensor import Tensor
from workbench.core.types import Spec


class View(NamedTuple):
    """Where the entries of an array lie: in which buffer, how many bytes apart."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str

    def broadcast(self, shape: Sequence[int]) -> View:
        """Return the view broadcast to a larger shape, as NumPy does."""
        missing = len(shape) - len(self.shape)
        strides = [0] * missing + [
            0 if n == 1 else stride
            for n, stride in zip(self.shape, self.strides, strict=True)
        ]
        return self._replace(shape=tuple(shape), strides=tuple(strides))


Combine = Callable[[EntryBuilder, Value, Value], Value]


class Combination(NamedTuple):
    """The way to reduce entries: an op of two, and its identity.

    Attributes
    ----------
    kinds
        The kinds of NumPy's dtypes that kernels combine so.
    """

    combine: Combine
    identity: Callable[[str], Any]
    kinds: str


def _lowest(kind: str) -> Any:
    return -np.inf if kind[0] == "f" else 0 if kind == "b1" else np.iinfo(kind).min


def _highest(kind: str) -> Any:
    return np.inf if kind[0] == "f" else 1 if kind == "b1" else np.iinfo(kind).max


#: By the ufunc that an op says it combines with.
COMBINATIONS: dict[np.ufunc, Combination] = {
    np.add: Combination(add, lambda kind: -0.0 if kind[0] == "f" else 0, "fcbiu"),
    np.multiply: Combination(multiply, lambda kind: 1, "fiu"),
    np.maximum: Combination(maximum, _lowest, "fiu"),
    np.minimum: Combination(minimum, _highest, "fiu"),
    np.logical_or: Combination(lambda b, *xs: b.operate("or", *xs), lambda _: 0, "b"),
    np.logical_and: Combination(lambda b, *xs: b.operate("and", *xs), lambda _: 1, "b"),
}


def find_combination(node: Tensor) -> Combination:
    """Return how a node combines entries, which kernels know."""
    assert node.op.combines is not None
    return COMBINATIONS[node.op.combines]


class Reduction(NamedTuple):
    """A reduction of one value of a kernel, into a view without the reduced axes.

    Attributes
    ----------
    adds
        It is combined with what lies there, which otherwise it takes the place of.
    """

    node: Tensor
    source: int
    view: View
    adds: bool = False


class IndexAxis(NamedTuple):
    """An axis along which an index value says where an entry lies.

    Attributes
    ----------
    operand
        The serial number of the index value.
    length, stride
        Those of the axis in memory; a negative index counts from the end.
    checked
        The values are surely between 0 and the length.
    """

    operand: int
    length: int
    stride: int
    checked: bool


class Address(NamedTuple):
    """Where entries lie that index values name.

    Attributes
    ----------
    view
        Where they would lie if all index values were 0, over the domain.
    axes
        What each index value adds.
    """

    view: View
    axes: tuple[IndexAxis, ...]


class Scatter(NamedTuple):
    """A value of a kernel that goes to an address, in the order of the loops.

    Attributes
    ----------
    combine
        What becomes of the entry there and the value; None: the value takes its place.
    """

    combine: Combine | None
    source: int
    address: Address


class Running(NamedTuple):
    """An axis along which a kernel combines entries one after the other.

    Attributes
    ----------
    ufunc
        How: a key of `COMBINATIONS`.
    length
        The length of the axis, which is none of the domain.
    steps
        The strides of the load and of the store along it.
    """

    ufunc: np.ufunc
    length: int
    steps: tuple[int, int]


class Kernel:
    """Nodes that are computed entry by entry over one domain.

    Attributes
    ----------
    domain
        The shape of all loops together.
    nodes
        What is computed, in order.
    loads
        Where operands lie that no node of the kernel computes, by serial number,
        broadcast to the domain.
    stores
        The serial numbers of nodes whose entries are kept, and where.
    reductions
        What is reduced, and where the results lie, with a stride of 0 on each
        reduced axis.
    gathers
        For nodes that take an entry by index values: where from.
    scatters
        What goes to where index values say.
    flag
        The buffer of a word that becomes 1 where an index value is out of bounds; such
        an entry is read or written at the index 0. -1: none can be.
    running
        The axis of a running sum or product of the one load, which is the one store.
    views
        Where all of these lie, in this order.
    lengths, steps
        Those of the loops, outermost first; for each view its strides along them.
    """

    def __init__(
        self, domain: tuple[int, ...], nodes: Sequence[Tensor],
        loads: Mapping[int, View], stores: Sequence[tuple[int, View]],
        reductions: Sequence[Reduction], gathers: Mapping[int, Address] | None = None,
        scatters: Sequence[Scatter] = (), flag: int = -1,
        running: Running | None = None,
    ) -> None:  # fmt: skip
        self.domain = domain
        self.nodes = nodes
        self.loads = dict(loads)
        self.stores = list(stores)
        self.reductions = list(reductions)
        self.gathers = dict(gathers or {})
        self.scatters = list(scatters)
        self.flag = flag
        self.running = running
        self.views = [
            *self.loads.values(),
            *(view for _, view in self.stores),
            *(x.view for x in self.reductions),
            *(address.view for address in self.gathers.values()),
            *(x.address.view for x in self.scatters),
        ]
        self.lengths, self.steps = self._plan_loops()
        #: How many rounds of the outermost loop one call makes, if it reduces: each
        #: call then reduces into memory of its own.
        self.chunk = 0

    @property
    def size(self) -> int:
        """The number of entries that the kernel computes of each node."""
        length = 1 if self.running is None else self.running.length
        return math.prod(self.domain) * length

    @property
    def buffers(self) -> set[int]:
        """The buffers that the kernel reads or writes."""
        found = {view.buffer for view in self.views}
        return found | {self.flag} if self.flag >= 0 else found

    @property
    def written(self) -> set[int]:
        """The buffers that the kernel writes."""
        views = [view for _, view in self.stores]
        views += [x.view for x in self.reductions]
        return {v.buffer for v in (*views, *(x.address.view for x in self.scatters))}

    @property
    def addressed(self) -> set[int]:
        """The buffers that index values say the place of an entry in."""
        views = [address.view for address in self.gathers.values()]
        return {v.buffer for v in (*views, *(x.address.view for x in self.scatters))}

    @property
    def reduces_outermost(self) -> bool:
        """True if the rounds of the outermost loop meet in one result."""
        first = len(self.loads) + len(self.stores)
        last = first + len(self.reductions)
        return any(steps[0] == 0 for steps in self.steps[first:last])

    @property
    def is_ordered(self) -> bool:
        """True if several rounds of the outermost loop may write to one place.

        They do not where an axis of the target steps with them: its index differs.
        """
        first = len(self.steps) - len(self.scatters)
        return any(steps[0] == 0 for steps in self.steps[first:])

    def is_row(self, address: Address) -> bool:
        """Return whether the index values stay the same in the innermost loop."""
        if not all(axis.operand in self.loads for axis in address.axes):
            return False
        places = list(self.loads)
        return all(
            self.steps[places.index(axis.operand)][-1] == 0 for axis in address.axes
        )

    def with_reductions(self, reductions: Sequence[Reduction]) -> Kernel:
        """Return the same kernel with its results elsewhere."""
        return Kernel(
            self.domain, self.nodes, self.loads, self.stores, reductions, self.gathers,
            self.scatters, self.flag,
        )  # fmt: skip

    def _plan_loops(self) -> tuple[list[int], list[list[int]]]:
        """Return the lengths of the loops, outermost first, and each view's strides."""
        kept = [i for i, n in enumerate(self.domain) if n != 1]
        lengths = [self.domain[i] for i in kept]
        steps = [[view.strides[i] for i in kept] for view in self.views]
        lengths, steps = join_axes(lengths, steps)
        if len(lengths) > 1:
            inner = self._choose_inner(lengths, steps)
            order = [i for i in range(len(lengths)) if i != inner] + [inner]
            lengths = [lengths[i] for i in order]
            steps = [[one[i] for i in order] for one in steps]
            lengths, steps = join_axes(lengths, steps)
        return lengths or [1], [one or [0] for one in steps]

    def _choose_inner(self, lengths: list[int], steps: list[list[int]]) -> int:
        """Return the axis that runs in vectors: few strides, and not too short."""
        sizes = [int(view.kind[1:]) for view in self.views]

        def rate(axis: int) -> float:
            near = sum(
                one[axis] in (0, size) for one, size in zip(steps, sizes, strict=True)
            )
            return near * min(lengths[axis], 8)

        return max(range(len(lengths)), key=lambda axis: (rate(axis), axis))


def join_axes(
    lengths: list[int], steps: list[list[int]]
) -> tuple[list[int], list[list[int]]]:
    """Join axes that every view has one after the other in memory."""
    lengths, steps = list(lengths), [list(one) for one in steps]
    for i in range(len(lengths) - 2, -1, -1):
        if all(one[i] == one[i + 1] * lengths[i + 1] for one in steps):
            lengths[i : i + 2] = [lengths[i] * lengths[i + 1]]
            for one in steps:
                del one[i]
    return lengths, steps


def count_lanes(machine: Machine, kinds: Sequence[str], length: int) -> int:
    """Return how many entries a vector holds, of the widest kind among these."""
    widest = max((int(PARTS.get(kind, kind)[1:]) for kind in kinds), default=8)
    lanes = max(1, machine.width // max(widest, 4))
    while lanes // 2 >= length:
        lanes //= 2
    return lanes


def reduced_bytes(one: Reduction) -> int:
    """Return how many bytes the result of a reduction takes."""
    shape = [
        n for n, step in zip(one.view.shape, one.view.strides, strict=True) if step
    ]
    return math.prod(shape) * int(one.view.kind[1:])


def read_number(x: Any) -> tuple[Any, Spec]:
    """Return a constant of one entry as a Python number, and its spec."""
    value = x._value if isinstance(x, Tensor) else x
    if type(value) in (bool, int, float, complex):
        return value, Spec((), np.result_type(type(value)), True)
    array = np.asarray(value)
    return array.reshape(-1)[0].item(), Spec(array.shape, array.dtype)
