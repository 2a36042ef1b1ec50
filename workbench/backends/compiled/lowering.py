"""A graph of fixed shapes becomes steps: kernels, products, moves, loops, calls.

Nodes are cut into levels, so that no two kernels wait for each other: a node stands on
the level of an operand that its own kernel computes, and on the next one where it must
wait for an operand. Nodes of one level and one domain are one kernel. A loop or a
choice holds a plan of its own for each of its programs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.addresses import find_address as find_index_address
from workbench.backends.compiled.addresses import has_checks, is_index
from workbench.backends.compiled.builder import PARTS, TYPES, Builder, kind_of
from workbench.backends.compiled.entries import add, compute_entry, maximum, minimum
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Address,
    Kernel,
    Reduction,
    Running,
    Scatter,
    View,
    read_number,
)
from workbench.backends.compiled.machine import Machine, find_address
from workbench.backends.compiled.products import (
    LETTERS,
    ProductStep,
    align_views,
    is_product,
    lies_for_blas,
)
from workbench.backends.compiled.systems import FUNCTIONS, SystemStep, name_function
from workbench.core.deferred import DeferredOp
from workbench.core.dims import has_dim
from workbench.core.graph import Graph
from workbench.core.op import Choice, Repetition
from workbench.core.schedule import Schedule
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, is_weak
from workbench.errors import CompilerError, WorkbenchError
from workbench.ops.indexing import ARRAY, as_index

#: What becomes of an entry that is there and one that is put to it, by the op.
UPDATES: dict[str, Any] = {
    "scatter": add, "index_add": add, "index_set": None, "index_max": maximum,
    "index_min": minimum,
}  # fmt: skip

#: Running sums and products, and how they combine entries.
RUNNING = {"cumsum": "sum", "cumprod": "prod"}

#: What a kernel computes, and of this what has a value for each entry of the domain.
FUSED = ("entry", "gather", "reduction")
IN_REGISTERS = ("entry", "gather")

#: A kernel computes at most so many nodes: code generation takes more than linear time.
MOST_NODES = 256
#: From so many entries on, a kernel is of nodes that share operands.
LARGE_DOMAIN = 4096
#: What has no memory of its own.
ALIASES = ("view", "part", "window")
#: The rows of an example of an array of which only the run knows how many it has.
ROWS = 10_007
#: What holds the memory of rows: its address, and how many bytes there are.
STATE = Spec((2,), np.dtype(np.int64))


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
    """A program inside of a step: its plan, and what it shares with the plan outside.

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


NestedStep = LoopStep | ChoiceStep
Step = (
    KernelStep | ProductStep | SystemStep | MoveStep | HostStep | LoopStep | ChoiceStep
)


class Rows(NamedTuple):
    """An operand of which a step takes a row, or the run knows how many it has."""

    view: View
    length: View | None


class Layout(NamedTuple):
    """Where a node's entries lie: in the memory of which node, and an example array."""

    root: int
    offset: int
    array: np.ndarray[Any, Any]


class Plan:
    """The steps of a graph, and the memory that they use.

    Attributes
    ----------
    buffers
        All memory; a view names one by its place here.
    steps
        What runs, in order.
    outputs
        For each output of the graph a view, or a constant as it is.
    flag
        The buffer of a word that is 0 before a run, and 1 after it if something is
        wrong with the inputs: NumPy then says what. -1: nothing can be.

    Parameters
    ----------
    graph
        The program, at fixed shapes.
    machine
        What it is for.
    nested
        It is a program inside of a step: each output has a buffer of its own.
    strides
        Those of inputs whose entries do not lie one after the other, by their places.
    """

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        nested: bool = False,
        strides: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.nested = nested
        self.flag = -1
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        schedule = Schedule(graph.leaves, graph.outputs, whole=True)
        self.nodes = [step.node for step in schedule.steps]
        self._scratch = Builder(machine, 1)
        self._known: dict[Any, bool] = {}
        #: What computes each node: entry, reduction, view, part, move, product, host.
        self._roles: dict[int, str] = {}
        self._layouts: dict[int, Layout] = {}
        #: The buffer of each node that has memory of its own.
        self._places: dict[int, int] = {}
        #: For a result among several of a call, which one.
        self._levels: dict[int, int] = {}
        #: The kernel of each node that is computed in one.
        self._groups: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self._held: list[Any] = []
        #: What loops and choices hold, by their nodes.
        self._nested: dict[int, list[Plan]] = {}
        #: The first rows of an operand, as many as another says.
        self._windows: dict[int, Tensor] = {}
        for i, x in enumerate(graph.leaves):
            self._places[x.serial] = self._add(Buffer("input", _spec(x), i))
        self._strides = {
            graph.leaves[i].serial: steps for i, steps in (strides or {}).items()
        }
        #: Views of rows of unknown number that somebody reads who is not a loop.
        self._refused: set[int] = set()
        self._find_roles()
        self._find_levels()
        self._write_steps()
        self.outputs = [self._read(y) for y in graph.outputs]
        if nested:
            self._own_outputs()
        self._find_lifetimes()

    @property
    def is_native(self) -> bool:
        """True if no step calls NumPy."""
        return not any(isinstance(step, HostStep) for step in self.steps)

    # What computes a node

    def _find_roles(self) -> None:
        """Find what computes each node."""
        while True:
            for node in self.nodes:
                self._roles[node.serial] = self._find_role(node)
            refused = {
                x.serial
                for node in self.nodes
                if self._roles[node.serial] not in ("view", "nested")
                for x in node.inputs
                if self._is_row_view(x)
            }
            refused |= {y.serial for y in self.graph.outputs if self._is_row_view(y)}
            if not refused:
                return
            self._refused |= refused
            self._roles.clear()
            self._layouts.clear()

    def _is_row_view(self, x: Any) -> bool:
        """Return whether an operand is a view of rows of unknown number."""
        return (
            isinstance(x, Tensor)
            and self._roles.get(x.serial) == "view"
            and not is_plain(_spec(x))
        )

    def _find_role(self, node: Tensor) -> str:
        op = node.op
        spec: Any = node.spec
        if op.lower is not None and self._is_nested(node):
            return "nested"
        if isinstance(spec, tuple):
            return "host"
        if op.name == "item":
            return "part"
        if op.name == "scan_window" and self._is_window(node):
            return "window"
        if not is_plain(spec):
            views = op.view is not None and not op.elementwise and op.view(node.params)
            known = views and node.serial not in self._refused
            return "view" if known and self._has_layout(node) else "host"
        if not math.prod(spec.shape):
            return "host"
        if op.name == "getitem" and len(node.inputs) == 1:
            return "view" if self._has_layout(node) else "host"
        if op.view is not None and not op.elementwise and op.view(node.params):
            if self._has_layout(node):
                return "view"
            return "move" if op.name == "reshape" and self._is_copied(node) else "host"
        if op.elementwise:
            return "entry" if self._has_entry(node) else "host"
        if op.name == "getitem":
            return "gather" if self._is_indexed(node, 1) else "host"
        if op.name in COMBINATIONS:
            return "reduction" if self._is_reducible(node) else "host"
        if op.name == "matmul" and self._is_product(node):
            return "product"
        if op.name in FUNCTIONS and self._is_system(node):
            return "system"
        if op.name in RUNNING:
            return "move" if self._is_running(node) else "host"
        if op.name in UPDATES and ARRAY in node.params["key"]:
            first = 1 if op.name == "scatter" else 2
            return "move" if self._is_indexed(node, first) else "host"
        if op.name in ("concatenate", "stack", "scatter", "index_set"):
            return "move" if self._is_movable(node) else "host"
        return "host"

    def _has_entry(self, node: Tensor) -> bool:
        """Return whether a kernel computes an entry of a node, by trying."""
        spec: Any = node.spec
        specs, key = [], [node.op.name, spec.dtype, tuple(node.params.items())]
        numbers = []
        for x in node.inputs:
            one = _spec(x)
            if not isinstance(one, Spec) or not is_plain(one):
                return False
            if math.prod(one.shape) == 0:
                return False
            number = read_number(x)[0] if _is_number(x) else None
            specs.append(one)
            numbers.append(number)
            key.append((one.dtype, one.weak, number))
        try:
            known = self._known.get(tuple(key))
        except TypeError:  # a setting that has no hash
            return False
        if known is not None:
            return known
        b = self._scratch
        b.lines.clear()
        try:
            operands = [
                b.load("%p", kind_of(s.dtype), 0, None)
                if number is None else b.literal(number, kind_of(s.dtype))
                for s, number in zip(specs, numbers, strict=True)
            ]  # fmt: skip
            compute_entry(b, node, operands, specs)
            found = True
        except (CompilerError, TypeError, ValueError, OverflowError, KeyError):
            found = False
        self._known[tuple(key)] = found
        return found

    def _is_reducible(self, node: Tensor) -> bool:
        spec: Any = node.spec
        source = _spec(node.inputs[0])
        if not isinstance(node.inputs[0], Tensor) or _is_number(node.inputs[0]):
            return False
        kinds = "fcbiu" if node.op.name in ("sum", "any", "all") else "fiu"
        return (
            set(node.params) <= {"axis", "keepdims"}
            and is_plain(source)
            and math.prod(source.shape) > 0
            and source.dtype.kind in kinds
            and (node.op.name in ("sum", "prod") or spec.dtype in (source.dtype, bool))
            and not (node.op.name in ("any", "all") and source.dtype.kind != "b")
        )

    def _is_product(self, node: Tensor) -> bool:
        spec: Any = node.spec
        specs = [_spec(x) for x in node.inputs]
        return (
            spec.dtype.kind in "fc"
            and all(isinstance(x, Tensor) or hasattr(x, "dtype") for x in node.inputs)
            and all(s.dtype == spec.dtype and s.shape for s in specs)
            and all(math.prod(s.shape) for s in specs)
            and find_address("blas_dgemm") is not None
        )

    def _is_system(self, node: Tensor) -> bool:
        """Return whether LAPACK computes a node: stacks of one shape and one kind."""
        spec: Any = node.spec
        specs = [_spec(x) for x in node.inputs]
        return (
            spec.dtype.str[1:] in LETTERS
            and all(is_plain(s) and s.dtype == spec.dtype for s in specs)
            and len({s.shape[:-2] for s in specs}) == 1
            and find_address(name_function(node.op.name, spec.dtype.str[1:]))
            is not None
        )

    def _is_indexed(self, node: Tensor, first: int) -> bool:
        """Return whether a kernel reads or writes where index arrays say.

        There is one array for each axis; they begin with operand ``first``.
        """
        spec: Any = node.spec
        arrays = node.inputs[first:]
        name = node.op.name
        x = _spec(node.inputs[0])
        shape = node.params["shape"] if name == "scatter" else x.shape
        kinds = {"index_max": "fiu", "index_min": "fiu", "index_set": "fciub"}
        if (
            len(arrays) != len(shape)
            or any(part is not ARRAY for part in node.params["key"])
            or x.dtype != spec.dtype
            or not all(is_plain(_spec(i)) for i in node.inputs)
            or not math.prod(shape)
            or not all(map(is_index, map(_example, arrays)))
            or (name in UPDATES and spec.dtype.kind not in kinds.get(name, "fciu"))
            or (first == 2 and not self._is_assignable(node.inputs[1], spec))
        ):
            return False
        view = View(-1, 0, tuple(shape), (0,) * len(shape), kind_of(spec.dtype))
        domain = np.broadcast_shapes(*(_spec(i).shape for i in arrays))
        return find_index_address(view, arrays, domain, {}) is not None

    def _is_assignable(self, x: Any, spec: Spec) -> bool:
        """Return whether a kernel writes an operand as NumPy writes it to an array."""
        given = _spec(x)
        if math.prod(given.shape) == 0:
            return False
        if given.weak:
            return bool(np.result_type(spec.dtype, _value(x)) == spec.dtype)
        return np.can_cast(given.dtype, spec.dtype)

    def _is_running(self, node: Tensor) -> bool:
        source = _spec(node.inputs[0])
        spec: Any = node.spec
        kinds = "fciu" if node.op.name == "cumsum" else "fiu"
        return (
            is_plain(source)
            and spec.dtype.kind in kinds
            and set(node.params) == {"axis"}
            and type(node.params["axis"]) is int
        )

    def _is_copied(self, node: Tensor) -> bool:
        """Return whether a kernel copies what a reshape cannot view."""
        return is_plain(_spec(node.inputs[0])) and not node.params.get("order")

    def _is_movable(self, node: Tensor) -> bool:
        spec: Any = node.spec
        if node.op.name == "scatter":
            return len(node.inputs) == 1 and _spec(node.inputs[0]).dtype == spec.dtype
        if node.op.name == "index_set":
            return self._is_assignable(node.inputs[1], spec)
        return all(is_plain(_spec(x)) for x in node.inputs)

    def _has_layout(self, node: Tensor) -> bool:
        """Find where a view lies in the memory of what it is a view of."""
        x = node.inputs[0]
        known = isinstance(x, Tensor) and (
            x.serial in self._roles or x.serial in self._places
        )
        whole = self._find_layout(x) if known else None
        # Others are asked for their lengths alone, or are constants.
        measured = isinstance(node.op, DeferredOp)
        others = [self._example(y, measured) for y in node.inputs[1:]]
        if whole is None or any(y is None for y in others):
            return False
        made: Any = node.op.compute(whole.array, *others, **node.params)
        if isinstance(made, np.generic) and node.op.name == "getitem":
            index = as_index(node.params["key"], ())  # NumPy makes a number of an entry
            made = whole.array[(*(index if type(index) is tuple else (index,)), ...)]
        spec: Any = node.spec
        if not isinstance(made, np.ndarray) or made.dtype != spec.dtype:
            return False
        shape = tuple([n if type(n) is int else ROWS for n in spec.shape])
        if made.shape != shape or not np.may_share_memory(made, whole.array):
            return False
        moved = _address(made) - _address(whole.array)
        if not is_plain(_spec(x)):
            # Where it lies must not depend on how many rows there are.
            row = _find_row_bytes(whole.array)
            if is_plain(spec) or not 0 <= moved < row or _find_row_bytes(made) != row:
                return False
        self._layouts[node.serial] = Layout(whole.root, whole.offset + moved, made)
        return True

    def _find_layout(self, x: Tensor) -> Layout | None:
        found = self._layouts.get(x.serial)
        if found is None:
            spec = _spec(x)
            # Nothing is written to it, so that the system gives it no memory.
            if is_plain(spec):
                array = np.empty(spec.shape, spec.dtype)
            elif self._is_growing(x):
                array = np.empty((ROWS, *spec.shape[1:]), spec.dtype)
            else:
                return None
            strides = self._strides.get(x.serial)
            if strides is not None:
                array = np.lib.stride_tricks.as_strided(array, spec.shape, strides)
            found = Layout(x.serial, 0, array)
            self._layouts[x.serial] = found
        return found

    def _example(self, x: Any, measured: bool) -> Any:
        """Return the value of a constant, or an array that may be ``measured``."""
        if not isinstance(x, Tensor) or x._value is not None:
            return _value(x)
        layout = self._find_layout(x) if measured else None
        return None if layout is None else layout.array

    # Levels and groups

    def _find_levels(self) -> None:
        """Give each node a level, and nodes of one level and domain a group."""
        ready: dict[int, int] = {}
        groups: dict[Any, list[tuple[int, Tensor]]] = {}
        self._ordered: list[tuple[int, int, Any]] = []
        for order, node in enumerate(self.nodes):
            role = self._roles[node.serial]
            fused = role in FUSED
            domain = _domain(node, role)
            level = 0
            for k, x in enumerate(node.inputs):
                if not isinstance(x, Tensor) or x.serial not in self._roles:
                    continue
                if (
                    fused
                    and not (role == "gather" and k == 0)
                    and self._roles[x.serial] in IN_REGISTERS
                    and _spec(x).shape == domain
                ):
                    level = max(level, self._levels[x.serial])
                else:
                    level = max(level, ready[x.serial])
            self._levels[node.serial] = level
            ready[node.serial] = level if role in ALIASES else level + 1
            if not fused:
                if role not in ALIASES:
                    self._ordered.append((level, order, node))
                continue
            groups.setdefault((level, domain), []).append((order, node))
        for (level, domain), members in groups.items():
            for part in self._split_group(members, domain):
                kernel = [node for _, node in part]
                self._ordered.append((level, part[0][0], kernel))
        self._ordered.sort(key=lambda entry: entry[:2])
        for number, (_, _, group) in enumerate(self._ordered):
            for node in group if type(group) is list else (group,):
                self._groups[node.serial] = number

    def _split_group(
        self, members: list[tuple[int, Tensor]], domain: tuple[int, ...]
    ) -> list[list[tuple[int, Tensor]]]:
        """Return the nodes of one level and domain as kernels.

        Over a large domain, those that share no operand are apart: together they
        would only read from more places at a time.
        """
        parts = [members]
        if math.prod(domain) >= LARGE_DOMAIN:
            parts = self._connect(members)
        return [
            part[k : k + MOST_NODES]
            for part in parts
            for k in range(0, len(part), MOST_NODES)
        ]

    def _connect(
        self, members: list[tuple[int, Tensor]]
    ) -> list[list[tuple[int, Tensor]]]:
        """Return nodes in parts that share no operand."""
        heads: dict[int, int] = {}

        def find(key: int) -> int:
            while heads.setdefault(key, key) != key:
                heads[key] = key = heads[heads[key]]
            return key

        for _, node in members:
            for x in node.inputs:
                if not _is_number(x):
                    key = self._root(x) if isinstance(x, Tensor) else -id(x)
                    heads[find(key)] = find(node.serial)
        parts: dict[int, list[tuple[int, Tensor]]] = {}
        for order, node in members:
            parts.setdefault(find(node.serial), []).append((order, node))
        return list(parts.values())

    def _find_kept(self) -> set[int]:
        """Return the nodes whose entries are needed outside of their kernel."""
        kept = set()
        for node in self.nodes:
            role = self._roles[node.serial]
            group = self._groups.get(node.serial)
            for k, x in enumerate(node.inputs):
                if isinstance(x, Tensor) and x.serial in self._roles:
                    fused = role in FUSED and not (role == "gather" and k == 0)
                    if not fused or self._groups.get(x.serial) != group:
                        kept.add(self._root(x))
                    elif fused and _spec(x).shape != _domain(node, role):
                        kept.add(self._root(x))
        for y in self.graph.outputs:
            if isinstance(y, Tensor):
                kept.add(self._root(y))
        return kept

    def _root(self, x: Tensor) -> int:
        while self._roles.get(x.serial) in ("view", "window"):
            x = x.inputs[0]
        return x.serial

    # Steps

    def _write_steps(self) -> None:
        kept = self._find_kept()
        outputs: dict[int, int] = {}
        for i, y in enumerate(self.graph.outputs):
            if isinstance(y, Tensor):
                outputs.setdefault(y.serial, i)
        items: dict[int, dict[int, list[int]]] = {}
        for node in self.nodes:
            if self._roles[node.serial] == "part":
                parts = items.setdefault(node.inputs[0].serial, {})
                parts.setdefault(node.params["index"], []).append(node.serial)
        for node in self.nodes:
            role = self._roles[node.serial]
            if role in ALIASES:
                continue
            if role == "nested":
                self._add_results(node, items.get(node.serial, {}), outputs)
            elif role == "host":
                first = len(self.buffers)
                for spec in list_specs(node):
                    self._add(Buffer("host", spec))
                self._places[node.serial] = first
            elif node.serial in kept or role not in IN_REGISTERS:
                place = outputs.get(node.serial, -1)
                kind = "inner" if place < 0 else "output"
                self._places[node.serial] = self._add(Buffer(kind, _spec(node), place))
        for node in self.nodes:
            if self._roles[node.serial] == "part":
                x = node.inputs[0]
                self._places[node.serial] = (
                    self._places[x.serial] + node.params["index"]
                )
        for _, _, group in self._ordered:
            if type(group) is list:
                self.steps.append(KernelStep(self._make_kernel(group)))
            else:
                self.steps.append(self._make_step(group))

    def _make_kernel(self, nodes: list[Tensor]) -> Kernel:
        domain = _domain(nodes[0], self._roles[nodes[0].serial])
        inside = {x.serial for x in nodes if self._roles[x.serial] in IN_REGISTERS}
        loads: dict[int, View] = {}
        gathers: dict[int, Address] = {}
        stores, reductions, entries = [], [], []
        for node in nodes:
            role = self._roles[node.serial]
            if role == "gather":
                source = self._view(node.inputs[0])
                gathers[node.serial] = self._find_address(
                    source, node.inputs[1:], domain, inside, loads
                )
            for k, x in enumerate(node.inputs):
                if role == "gather" or (role == "reduction" and k):
                    continue
                if isinstance(x, Tensor) and x.serial in inside:
                    continue
                if _is_number(x):
                    continue
                key = x.serial if isinstance(x, Tensor) else -id(x)
                if key not in loads:
                    loads[key] = self._view(x).broadcast(domain)
            if role in IN_REGISTERS:
                entries.append(node)
                if node.serial in self._places:
                    stores.append((node.serial, self._own_view(node)))
            else:
                reductions.append(
                    Reduction(node, node.inputs[0].serial, self._reduced_view(node))
                )
        flag = self._find_flag() if has_checks(gathers.values()) else -1
        return Kernel(domain, entries, loads, stores, reductions, gathers, (), flag)

    def _find_address(
        self, view: View, arrays: Any, domain: tuple[int, ...], inside: set[int],
        loads: dict[int, View],
    ) -> Address:  # fmt: skip
        """Return the address at index values, which a kernel loads or has inside."""
        held: dict[int, Any] = {}
        address = find_index_address(view, arrays, domain, held)
        if address is None:
            raise CompilerError("an index that is known is out of bounds.")
        for key, x in held.items():
            if key not in inside and key not in loads:
                loads[key] = self._view(x).broadcast(domain)
        return address

    def _reduced_view(self, node: Tensor) -> View:
        """Return the view of a reduction's result over the domain."""
        source: tuple[int, ...] = _spec(node.inputs[0]).shape
        own = self._own_view(node)
        axis = node.params.get("axis")
        axes = (
            range(len(source))
            if axis is None
            else [n % len(source) for n in (axis if type(axis) is tuple else (axis,))]
        )
        if node.params.get("keepdims"):
            strides = list(own.strides)
        else:
            strides = list(own.strides)
            for n in sorted(axes):
                strides.insert(n, 0)
        for n in axes:
            strides[n] = 0
        return own._replace(shape=source, strides=tuple(strides))

    def _make_step(self, node: Tensor) -> Step:
        role = self._roles[node.serial]
        if role == "nested":
            return self._make_nested_step(node)
        if role == "product":
            return self._make_product(node)
        if role == "system":
            return self._make_system(node)
        if role == "move":
            return self._make_move(node)
        first = self._places[node.serial]
        count = len(list_specs(node))
        operands = tuple(map(self._read, node.inputs))
        return HostStep(node, operands, tuple(range(first, first + count)))

    def _make_product(self, node: Tensor) -> ProductStep:
        """Return a product, after steps that copy operands which lie otherwise."""
        a, b = map(self._view, node.inputs)
        a, b, out = align_views(a, b, self._own_view(node))
        if not is_product(a, b):
            a, b = (self._copy_matrices(node, x) for x in (a, b))
        return ProductStep(node, a, b, out)

    def _copy_matrices(self, node: Tensor, view: View) -> View:
        """Return where matrices lie by rows: there, or in a copy."""
        if lies_for_blas(view):
            return view
        shape = tuple(
            n if stride or axis >= len(view.shape) - 2 else 1
            for axis, (n, stride) in enumerate(
                zip(view.shape, view.strides, strict=True)
            )
        )
        spec = Spec(shape, np.dtype(view.kind))
        copy = View(
            self._add(Buffer("inner", spec)), 0, shape, _strides(spec), view.kind
        )
        whole = view._replace(shape=shape)
        kernel = Kernel(shape, (), {-1: whole}, [(-1, copy)], ())
        self.steps.append(MoveStep(node, -1, (kernel,)))
        return copy.broadcast(view.shape)

    def _read(self, x: Any) -> Any:
        """Return where NumPy finds an operand: a view, what a call gave, or a value."""
        if not isinstance(x, Tensor):
            return x
        if self._roles.get(x.serial) == "window":
            return self._read_rows(x)
        if x.serial in self._places:
            spec = _spec(x)
            if isinstance(spec, Spec) and is_plain(spec):
                return self._own_view(x)
            place = self._places[x.serial]
            if self.buffers[place].kind == "growing":
                return self._read_rows(x)
            return Held(place)
        return self._view(x) if x.serial in self._roles else x._value

    def _make_move(self, node: Tensor) -> MoveStep:
        out, name = self._own_view(node), node.op.name
        zeros = out.buffer if name == "scatter" else -1
        whole = np.empty(out.shape, np.dtype(out.kind))
        parts = []
        moved = node.inputs
        if name.startswith("index_"):
            parts.append(self._make_copy(node.inputs[0], out))
            moved = moved[1:]
        if name in UPDATES and ARRAY in node.params["key"]:
            return MoveStep(node, zeros, (*parts, self._make_scatter(node, moved)))
        if name in RUNNING:
            return MoveStep(node, -1, (self._make_running(node, out),))
        if name == "reshape":
            places = [whole.reshape(_spec(node.inputs[0]).shape)]
        elif name in UPDATES:
            index = as_index(node.params["key"], ())
            index = index if type(index) is tuple else (index,)
            ending = () if any(part is ... for part in index) else (...,)
            places = [whole[(*index, *ending)]]
        else:
            axis = node.params["axis"]
            places, start = [], 0
            for x in node.inputs:
                if node.op.name == "stack":
                    places.append(np.moveaxis(whole, axis, 0)[start, ...])
                    start += 1
                else:
                    n = _spec(x).shape[axis]
                    places.append(np.moveaxis(whole, axis, 0)[start : start + n])
                    places[-1] = np.moveaxis(places[-1], 0, axis)
                    start += n
        for x, place in zip(moved, places, strict=True):
            if not place.size:
                continue
            offset = _address(place) - _address(whole)
            target = View(out.buffer, offset, place.shape, place.strides, out.kind)
            parts.append(self._make_copy(x, target))
        return MoveStep(node, zeros, tuple(parts))

    def _make_system(self, node: Tensor) -> SystemStep:
        """Return the step of LAPACK, which works on turned copies of its operands."""
        out, a = self._own_view(node), self._view(node.inputs[0])
        stack, n = a.shape[:-2], a.shape[-1]
        dtype = np.dtype(a.kind)
        flag = self._find_flag()
        if node.op.name == "cholesky":
            lower = np.broadcast_to(np.tril(np.ones((n, n), bool)), a.shape)
            chosen: Any = np.where(lower, node.inputs[0], np.zeros((), dtype))
            loads = {
                node.inputs[0].serial: a,
                -id(lower): self._view(lower),
            }
            nodes = [chosen]
            keep = Kernel(a.shape, nodes, loads, [(chosen.serial, out)], ())
            return SystemStep(node, (keep,), out, None, None, (), flag)
        matrix = self._add_work(a.shape, dtype)
        before = [self._turn(a, matrix)]
        b: Any = np.eye(n, dtype=dtype) if node.op.name == "inv" else node.inputs[1]
        given = self._view(b)
        if len(given.shape) == 1:
            copy = Kernel(given.shape, (), {-1: given}, [(-1, out)], ())
            whole = out._replace(
                shape=(1, n), strides=(n * dtype.itemsize, out.strides[0])
            )
            pivots = self._add_work((n,), np.dtype(np.int32))
            return SystemStep(node, (*before, copy), matrix, whole, pivots, (), flag)
        columns = given.shape[-1]
        given = given.broadcast((*stack, n, columns))
        right = self._add_work((*stack, columns, n), dtype)
        before.append(self._turn(given, right))
        pivots = self._add_work((n,), np.dtype(np.int32))
        after = self._turn(right, out)
        return SystemStep(node, tuple(before), matrix, right, pivots, (after,), flag)

    def _add_work(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> View:
        """Return memory that one step uses."""
        return self._whole_view(self._add(Buffer("inner", Spec(shape, dtype))))

    def _turn(self, source: View, target: View) -> Kernel:
        """Return a kernel that copies matrices, rows to columns."""
        turned = source._replace(
            shape=(*source.shape[:-2], source.shape[-1], source.shape[-2]),
            strides=(*source.strides[:-2], source.strides[-1], source.strides[-2]),
        )
        return Kernel(target.shape, (), {-1: turned}, [(-1, target)], ())

    def _make_running(self, node: Tensor, out: View) -> Kernel:
        """Return a kernel of a running sum or product along an axis."""
        axis = node.params["axis"]
        x = self._view(node.inputs[0])
        around = [
            view._replace(
                shape=view.shape[:axis] + view.shape[axis + 1 :],
                strides=view.strides[:axis] + view.strides[axis + 1 :],
            )
            for view in (x, out)
        ]
        running = Running(
            RUNNING[node.op.name], out.shape[axis], (x.strides[axis], out.strides[axis])
        )
        domain = around[1].shape
        return Kernel(
            domain, (), {-1: around[0]}, [(-1, around[1])], (), running=running
        )

    def _make_scatter(self, node: Tensor, operands: Any) -> Kernel:
        """Return a kernel that puts a value to where index arrays say."""
        x, *arrays = operands
        domain = np.broadcast_shapes(*(_spec(i).shape for i in arrays))
        loads = {-1: self._view(x).broadcast(domain)}
        own = self._own_view(node)
        address = self._find_address(own, arrays, domain, set(), loads)
        scatter = Scatter(UPDATES[node.op.name], -1, address)
        flag = self._find_flag() if has_checks([address]) else -1
        return Kernel(domain, (), loads, (), (), {}, [scatter], flag)

    def _make_copy(self, x: Any, target: View) -> Kernel:
        """Return a kernel that copies an operand to a view."""
        source = self._view(x)
        return Kernel(
            target.shape, (), {-1: source.broadcast(target.shape)}, [(-1, target)], ()
        )

    # Memory

    def _add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _own_view(self, node: Tensor) -> View:
        spec = _spec(node)
        strides = self._strides.get(node.serial, _strides(spec))
        place = self._places[node.serial]
        return View(place, 0, spec.shape, strides, kind_of(spec.dtype))

    def _view(self, x: Any) -> View:
        """Return where an operand lies."""
        if isinstance(x, Tensor):
            if x.serial in self._places:
                return self._own_view(x)
            layout = self._layouts.get(x.serial)
            if layout is not None and self._roles.get(x.serial) == "view":
                place = self._places.get(layout.root)
                array = layout.array
                if place is None:  # a view of a constant
                    place = self._add_constant(layout.root, self._find_constant(x))
                return View(
                    place, layout.offset, array.shape, array.strides,
                    kind_of(array.dtype),
                )  # fmt: skip
            place = self._add_constant(x.serial, x._value)
        else:
            self._held.append(x)
            place = self._add_constant(-id(x), x)
        spec = self.buffers[place].spec
        view = View(place, 0, spec.shape, _strides(spec), kind_of(spec.dtype))
        return view.broadcast(_spec(x).shape)

    def _find_constant(self, x: Tensor) -> Any:
        while self._roles.get(x.serial) == "view":
            x = x.inputs[0]
        return x._value

    def _add_constant(self, key: int, value: Any) -> int:
        if key not in self._constants:
            array = np.asarray(value)
            if array.size and not any(array.strides):  # one number, repeated
                array = array.reshape(-1)[:1].reshape(())
            array = np.array(array, order="C")
            spec = Spec(array.shape, array.dtype)
            self._constants[key] = self._add(Buffer("constant", spec, value=array))
        return self._constants[key]

    # Programs inside of steps

    def _is_nested(self, node: Tensor) -> bool:
        """Return whether a loop or a choice is native, and keep the plans it holds."""
        assert node.op.lower is not None
        what = node.op.lower(node, "compiled")
        bodies: Sequence[Graph]
        if isinstance(what, Repetition):
            bodies, rows = (what.body,), range(what.consts, what.consts + what.seqs)
            given = node.inputs[len(node.inputs) - len(what.body.leaves) :]
        elif isinstance(what, Choice):
            bodies, rows, given = what.branches, range(0), node.inputs[1:]
        else:
            return False
        specs = []
        strides = {}
        for i, x in enumerate(given):
            spec = _spec(x)
            shape = spec.shape[1:] if i in rows else spec.shape
            spec = Spec(shape, spec.dtype)
            if not is_plain(spec) or not math.prod(shape):
                return False
            if i in rows and not self._has_rows(x):
                return False
            if self._is_row_view(x):
                strides[i] = self._layouts[x.serial].array.strides[1:]
            specs.append(spec)
        for x in node.inputs[: len(node.inputs) - len(given)]:
            if not is_plain(_spec(x)) or _spec(x).shape:
                return False
        plans = []
        for body in bodies:
            try:
                graph = expand(body, specs)
                plan = Plan(graph, self.machine, nested=True, strides=strides)
            except WorkbenchError:
                return False
            if not plan.is_native or not all(isinstance(y, View) for y in plan.outputs):
                return False
            carried = what.carries if isinstance(what, Repetition) else 0
            starts = specs[len(specs) - carried :]
            for spec, y in zip(starts, plan.outputs, strict=False):
                if y.kind != kind_of(spec.dtype) or y.shape != tuple(spec.shape):
                    return False
            plans.append(plan)
        if len({tuple(y.shape for y in plan.outputs) for plan in plans}) > 1:
            return False
        self._nested[node.serial] = plans
        return True

    def _has_rows(self, x: Any) -> bool:
        """Return whether a step finds an entry of an operand in memory."""
        if self._roles.get(getattr(x, "serial", -1)) == "window":
            return True
        spec = _spec(x)
        if self._is_row_view(x):
            array = self._layouts[x.serial].array
            return array.shape[0] == ROWS and ROWS not in array.shape[1:]
        return is_plain(spec) or self._is_growing(x)

    def _is_growing(self, x: Any) -> bool:
        """Return whether an operand is a result of a loop, of unknown length."""
        return (
            isinstance(x, Tensor)
            and self._roles.get(x.serial) == "part"
            and self._roles.get(x.inputs[0].serial) == "nested"
        )

    def _is_window(self, node: Tensor) -> bool:
        """Return whether first rows of an operand are read where they lie."""
        x, n = node.inputs
        if not isinstance(x, Tensor) or not isinstance(n, Tensor):
            return False
        return self._is_growing(x) or is_plain(_spec(x))

    def _add_results(
        self, node: Tensor, items: Mapping[int, list[int]], outputs: Mapping[int, int]
    ) -> None:
        """Add the buffers of the results of a loop or a choice.

        ``items`` are the serials of the nodes that take a result out.
        """
        first = self._places[node.serial] = len(self.buffers)
        for k, spec in enumerate(list_specs(node)):
            if k not in items:
                self._add(Buffer("absent", spec))
            elif type(spec.shape[0] if spec.shape else 0) is not int:
                self._add(Buffer("growing", Spec(spec.shape[1:], spec.dtype)))
            else:
                places = [outputs[serial] for serial in items[k] if serial in outputs]
                kind = "output" if places else "inner"
                self._add(Buffer(kind, spec, min(places, default=-1)))
        # Who reads rows reads how many there are.
        kinds = [b.kind for b in self.buffers[first:]]
        last = self.buffers[-1]
        if "growing" in kinds and last.kind == "absent" and not last.spec.shape:
            last.kind = "inner"

    def _make_nested_step(self, node: Tensor) -> Step:
        assert node.op.lower is not None
        what = node.op.lower(node, "compiled")
        first = self._places[node.serial]
        results = tuple(range(first, first + len(list_specs(node))))
        programs = tuple(map(self._share, self._nested[node.serial]))
        frame = self._add(Buffer("inner", Spec((0,), np.dtype(np.uint8))))
        if isinstance(what, Choice):
            given = tuple(self._contiguous_view(x, 0) for x in node.inputs)
            return ChoiceStep(node, programs, given, results, frame)
        rows = range(what.consts, what.consts + what.seqs)
        skipped = len(node.inputs) - len(what.body.leaves)
        operands = tuple(
            self._read_rows(x) if i - skipped in rows else self._contiguous_view(x, 0)
            for i, x in enumerate(node.inputs)
        )
        steps = what.steps
        if not skipped and steps is None:
            first_rows = next(x for x in operands if isinstance(x, Rows))
            steps = None if first_rows.length else first_rows.view.shape[0]
        states = {}
        for k, i in enumerate(results):
            if self.buffers[i].kind == "growing":
                states[k] = self._add(Buffer("state", STATE))
                last = self._whole_view(results[-1])
                first_operand: Any = operands[0]
                self.buffers[i].count = last if what.until else first_operand
        flag = -1
        if states or what.limited or steps is None or programs[0].plan.flag >= 0:
            flag = self._find_flag()
        return LoopStep(
            node, what, programs[0], steps, operands, results, frame, states, flag
        )

    def _find_flag(self) -> int:
        """Return the buffer of the flag, which there is from now on."""
        if self.flag < 0:
            self.flag = self._add(Buffer("flag", Spec((), np.dtype(np.int64))))
        return self.flag

    def _share(self, plan: Plan) -> InnerProgram:
        """Return a program inside of a step, and the buffers that it shares."""
        shared = []
        for i, buffer in enumerate(plan.buffers):
            if buffer.kind == "constant":
                outer = self._constants.get(id(buffer.value), -1)
                if outer < 0:
                    same = Buffer("constant", buffer.spec, value=buffer.value)
                    outer = self._constants[id(buffer.value)] = self._add(same)
            elif buffer.kind == "state":
                outer = self._add(Buffer("state", buffer.spec))
            elif buffer.kind == "flag":
                outer = self._find_flag()
            else:
                continue
            shared.append((outer, i))
        return InnerProgram(plan, tuple(shared))

    def _read_rows(self, x: Any) -> Rows:
        """Return an operand of which a step takes a row."""
        count = None
        while isinstance(x, Tensor) and self._roles.get(x.serial) == "window":
            x, n = x.inputs
            count = self._view(n) if count is None else count
        if isinstance(x, Tensor) and x.serial in self._places:
            place = self._places[x.serial]
            buffer = self.buffers[place]
            if buffer.kind == "growing":
                spec = Spec((-1, *buffer.spec.shape), buffer.spec.dtype)
                view = View(
                    place, 0, spec.shape, _strides(spec), kind_of(spec.dtype)
                )  # fmt: skip
                count = buffer.count if count is None else count
                assert count is not None
                return Rows(view, count)
        if self._is_row_view(x):
            layout = self._layouts[x.serial]
            array = layout.array
            root = self._places.get(layout.root, -1)
            if root < 0:  # a view of a constant
                root = self._add_constant(layout.root, self._find_constant(x))
            shape = (-1, *array.shape[1:])
            kind = kind_of(array.dtype)
            view = View(root, layout.offset, shape, array.strides, kind)
            return Rows(view, count)
        view = self._contiguous_view(x, 1)
        return Rows(view, count)

    def _contiguous_view(self, x: Any, axis: int) -> View:
        """Return where an operand lies, one entry after the other from an axis on."""
        view = self._view(x)
        inner = _strides(Spec(view.shape[axis:], np.dtype(view.kind)))
        have = view.strides[axis:]
        if all(
            n == 1 or a == b
            for n, a, b in zip(view.shape[axis:], have, inner, strict=True)
        ):
            return view
        target = self._whole_view(
            self._add(Buffer("inner", Spec(view.shape, np.dtype(view.kind))))
        )
        copy = Kernel(target.shape, (), {-1: view}, [(-1, target)], ())
        self.steps.append(MoveStep(self.graph.leaves[0], -1, (copy,)))
        return target

    def _whole_view(self, place: int) -> View:
        spec = self.buffers[place].spec
        return View(place, 0, spec.shape, _strides(spec), kind_of(spec.dtype))

    def _own_outputs(self) -> None:
        """Give each output a buffer that it fills, and shares with no other Tensor."""
        taken: dict[View, View] = {}
        for k, y in enumerate(self.outputs):
            if isinstance(y, View):
                buffer = self.buffers[y.buffer]
                whole = buffer.kind == "output" and y == self._whole_view(y.buffer)
                source = y
            elif isinstance(y, (Held, Rows)):
                self.outputs[k] = None
                continue
            else:
                whole, source = False, self._view(y)
            if whole:
                continue
            if source not in taken:
                spec = Spec(source.shape, np.dtype(source.kind))
                target = self._whole_view(self._add(Buffer("output", spec, k)))
                copy = Kernel(target.shape, (), {-1: source}, [(-1, target)], ())
                self.steps.append(MoveStep(self.graph.leaves[0], -1, (copy,)))
                taken[source] = target
            self.outputs[k] = taken[source]

    def _find_lifetimes(self) -> None:
        for number, step in enumerate(self.steps):
            for place in list_buffers(step):
                buffer = self.buffers[place]
                if buffer.first < 0:
                    buffer.first = number
                buffer.last = number
        for y in self.outputs:
            if isinstance(y, View):
                self.buffers[y.buffer].last = len(self.steps)


class Held(NamedTuple):
    """An operand that is handed on as NumPy gave it: a tuple, an object."""

    buffer: int


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
    return [
        *(x.buffer for x in step.operands if isinstance(x, (View, Held))),
        *(v.buffer for x in step.operands if isinstance(x, Rows) for v in x if v),
        *step.results,
    ]


def is_plain(spec: Spec) -> bool:
    """Return whether registers hold the entries, and all lengths are numbers."""
    kind = spec.dtype.str[1:]
    return (
        (kind in TYPES or kind in PARTS)
        and spec.dtype.isnative
        and all(type(n) is int for n in spec.shape)
    )


def list_specs(node: Tensor) -> tuple[Any, ...]:
    """Return the specs of all results of a node."""
    spec: Any = node.spec
    return spec if isinstance(spec, tuple) else (spec,)


def _spec(x: Any) -> Any:
    """Return the spec of an operand; a Python number's is weak."""
    if isinstance(x, Tensor):
        value = x._value
        return Spec((), np.result_type(type(value)), True) if is_weak(value) else x.spec
    if is_weak(x):
        return Spec((), np.result_type(type(x)), True)
    array = np.asarray(x)
    return Spec(array.shape, array.dtype)


def _is_number(x: Any) -> bool:
    """Return whether an operand is a constant of one entry."""
    value = x._value if isinstance(x, Tensor) else x
    if value is None:
        return False
    return is_weak(value) or (
        not isinstance(value, tuple) and getattr(value, "size", 0) == 1
    )


def _example(x: Any) -> Any:
    """Return an array of an operand's shape and dtype, or a number as it is."""
    spec = _spec(x)
    return x if spec.weak else spec.example()


def _value(x: Any) -> Any:
    return x._value if isinstance(x, Tensor) else x


def _domain(node: Tensor, role: str) -> tuple[int, ...]:
    spec: Any = _spec(node.inputs[0]) if role == "reduction" else node.spec
    return () if isinstance(spec, tuple) else spec.shape


def _strides(spec: Spec) -> tuple[int, ...]:
    """Return the strides of an array whose entries lie one after the other."""
    strides, step = [], spec.dtype.itemsize
    for n in reversed(spec.shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _find_row_bytes(array: np.ndarray[Any, Any]) -> int:
    """Return how far the rows of an example are from each other; 0: all are one."""
    steps = {
        step
        for n, step in zip(array.shape, array.strides, strict=True)
        if n == ROWS and step
    }
    return steps.pop() if len(steps) == 1 else 0 if not steps else -1


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
