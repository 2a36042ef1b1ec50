"""`Roles`: the role of each node of a graph, and the places of views.

An op becomes an entry of a kernel, a gather, a reduction, a product, a system of
equations, a move of memory, a loop or a choice with plans of its own, or a call of
NumPy. A view, and a result among several, is memory of another node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.addresses import find_index_address, is_index
from workbench.backends.compiled.builder import kind_of
from workbench.backends.compiled.entries import compute_entry
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    View,
    find_combination,
    read_number,
)
from workbench.backends.compiled.products import (
    LETTERS,
)
from workbench.backends.compiled.steps import (
    Plan,
    find_start,
    is_number,
    is_plain,
    make_example,
    read_spec,
    read_value,
)
from workbench.backends.compiled.systems import FUNCTIONS
from workbench.backends.compiled.target import Target
from workbench.core.deferred import LengthParams
from workbench.core.graph import Graph
from workbench.core.op import Choice, Repetition
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import CompilerError, WorkbenchError
from workbench.ops.contraction import MATMUL
from workbench.ops.define import ITEM
from workbench.ops.indexing import ARRAY, GETITEM, SCATTER, as_index
from workbench.ops.shaping import RESHAPE

#: The rows of an example of an array of which only the run knows how many it has.
ROWS = 10_007


class MemoryLayout(NamedTuple):
    """Where a node's entries lie: in the memory of which node, and an example array."""

    root: int
    offset: int
    array: np.ndarray[Any, Any]


class Roles:
    """What computes each node.

    Attributes
    ----------
    of
        By the serial of a node: ``entry``, ``gather``, ``reduction``, ``running``,
        ``product``, ``system``, ``move``, ``view``, ``part`` (a result among several),
        ``window`` (first rows, as many as the run says), ``nested`` (a loop, a choice)
        or ``host``, a call of NumPy.
    layouts
        Where the entries of views lie.
    nested
        The plans of the programs that a loop or a choice holds.

    Parameters
    ----------
    graph, nodes
        The program, and what it computes, in order.
    target
        What it is computed on.
    strides
        Those of inputs whose entries do not lie one after the other, by their serials.
    make_plan
        Makes the plan of a program inside, whose inputs have such strides.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Tensor],
        target: Target,
        strides: Mapping[int, tuple[int, ...]],
        make_plan: Callable[[Graph, Mapping[int, tuple[int, ...]]], Plan],
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.of: dict[int, str] = {}
        self.layouts: dict[int, MemoryLayout] = {}
        self.nested: dict[int, list[Plan]] = {}
        self._leaves = {x.serial for x in graph.leaves}
        #: The results that somebody takes out of a node that has several.
        self._taken = {
            (x.inputs[0].serial, x.params["index"])
            for x in nodes
            if x.op is ITEM and isinstance(x.inputs[0], Tensor)
        }
        self._strides = strides
        self._make_plan = make_plan
        self._target = target
        self._scratch = target.make_builder()
        self._known: dict[Any, bool] = {}
        #: Views of rows of unknown number with a reader other than a loop.
        self._refused: set[int] = set()
        self._find_roles()

    def _find_roles(self) -> None:
        """Find the role of each node."""
        while True:
            for node in self.nodes:
                self.of[node.serial] = self._find_role(node)
            refused = {
                x.serial
                for node in self.nodes
                if self.of[node.serial] not in ("view", "nested")
                for x in node.inputs
                if self.is_row_view(x)
            }
            refused |= {y.serial for y in self.graph.outputs if self.is_row_view(y)}
            if not refused:
                return
            self._refused |= refused
            self.of.clear()
            self.layouts.clear()

    def is_plain(self, spec: Spec) -> bool:
        """Return whether registers hold the entries, and all lengths are numbers."""
        return is_plain(spec, self._target.kinds)

    def is_row_view(self, x: Any) -> bool:
        """Return whether an operand is a view of rows of unknown number."""
        return (
            isinstance(x, Tensor)
            and self.of.get(x.serial) == "view"
            and not self.is_plain(read_spec(x))
        )

    def _find_role(self, node: Tensor) -> str:
        op = node.op
        spec: Any = node.spec
        if op.lower is not None and self._is_nested(node):
            return "nested"
        if isinstance(spec, tuple):
            return "host"
        if op is ITEM:
            return "part"
        if op.kind == "window" and self._is_window(node):
            return "window"
        is_view = (
            op.view is not None and not op.elementwise and op.view.shares(node.params)
        )
        if not self.is_plain(spec):
            known = is_view and node.serial not in self._refused
            return "view" if known and self._has_layout(node) else "host"
        if not math.prod(spec.shape):
            return "host"
        if op is GETITEM and len(node.inputs) == 1:
            return "view" if self._has_layout(node) else "host"
        if is_view:
            if self._has_layout(node):
                return "view"
            return "move" if op is RESHAPE and self._is_copied(node) else "host"
        if op.elementwise:
            return "entry" if self._has_entry(node) else "host"
        if op is GETITEM:
            return "gather" if self._is_indexed(node, 1) else "host"
        if op.kind == "reduction":
            return "reduction" if self._is_reducible(node) else "host"
        if op is MATMUL and self._is_product(node):
            return "product"
        if op.name in FUNCTIONS and self._is_system(node):
            return "system"
        if op.kind == "running":
            return "move" if self._is_running(node) else "host"
        if op.kind == "update" and ARRAY in node.params["key"]:
            first = 1 if op is SCATTER else 2
            return "move" if self._is_indexed(node, first) else "host"
        if op.kind in ("join", "update"):
            return "move" if self._is_movable(node) else "host"
        return "host"

    def _has_entry(self, node: Tensor) -> bool:
        """Return whether a kernel computes an entry of a node, by trying."""
        spec: Any = node.spec
        specs, key = [], [node.op.name, spec.dtype, tuple(node.params.items())]
        numbers = []
        for x in node.inputs:
            one = read_spec(x)
            if not isinstance(one, Spec) or not self.is_plain(one):
                return False
            if math.prod(one.shape) == 0:
                return False
            number = read_number(x)[0] if is_number(x) else None
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
        source = read_spec(node.inputs[0])
        if not isinstance(node.inputs[0], Tensor) or is_number(node.inputs[0]):
            return False
        return (
            node.op.combines in COMBINATIONS
            and set(node.params) <= {"axis", "keepdims"}
            and self.is_plain(source)
            and math.prod(source.shape) > 0
            and source.dtype.kind in find_combination(node).kinds
        )

    def _is_product(self, node: Tensor) -> bool:
        spec: Any = node.spec
        specs = [read_spec(x) for x in node.inputs]
        return (
            spec.dtype.kind in "fc"
            and all(isinstance(x, Tensor) or hasattr(x, "dtype") for x in node.inputs)
            and all(s.dtype == spec.dtype and s.shape for s in specs)
            and all(math.prod(s.shape) for s in specs)
            and self._target.has_products(kind_of(spec.dtype))
        )

    def _is_system(self, node: Tensor) -> bool:
        """Return whether LAPACK computes a node: stacks of one shape and one kind."""
        spec: Any = node.spec
        specs = [read_spec(x) for x in node.inputs]
        return (
            spec.dtype.str[1:] in LETTERS
            and all(self.is_plain(s) and s.dtype == spec.dtype for s in specs)
            and len({s.shape[:-2] for s in specs}) == 1
            and self._target.has_systems(node.op.name, spec.dtype.str[1:])
        )

    def _is_indexed(self, node: Tensor, first: int) -> bool:
        """Return whether a kernel reads or writes where index arrays say.

        There is one array for each axis; they begin with operand ``first``.
        """
        spec: Any = node.spec
        arrays = node.inputs[first:]
        x = read_spec(node.inputs[0])
        shape = node.params["shape"] if node.op is SCATTER else x.shape
        if node.op.combines is None:
            kinds = "fciub"
        else:  # sums of booleans are none of kernels
            kinds = find_combination(node).kinds.replace("b", "")
        if (
            len(arrays) != len(shape)
            or any(part is not ARRAY for part in node.params["key"])
            or x.dtype != spec.dtype
            or not all(self.is_plain(read_spec(i)) for i in node.inputs)
            or not math.prod(shape)
            or not all(map(is_index, map(make_example, arrays)))
            or (node.op.kind == "update" and spec.dtype.kind not in kinds)
            or (first == 2 and not self._is_assignable(node.inputs[1], spec))
        ):
            return False
        view = View(-1, 0, tuple(shape), (0,) * len(shape), kind_of(spec.dtype))
        domain = np.broadcast_shapes(*(read_spec(i).shape for i in arrays))
        return find_index_address(view, arrays, domain, {}) is not None

    def _is_assignable(self, x: Any, spec: Spec) -> bool:
        """Return whether a kernel can write an operand as NumPy assigns to an array."""
        given = read_spec(x)
        if math.prod(given.shape) == 0:
            return False
        if given.weak:
            return bool(np.result_type(spec.dtype, read_value(x)) == spec.dtype)
        return np.can_cast(given.dtype, spec.dtype)

    def _is_running(self, node: Tensor) -> bool:
        source = read_spec(node.inputs[0])
        spec: Any = node.spec
        return (
            self.is_plain(source)
            and spec.dtype.kind in find_combination(node).kinds
            and set(node.params) == {"axis"}
            and type(node.params["axis"]) is int
        )

    def _is_copied(self, node: Tensor) -> bool:
        """Return whether a kernel copies the operand of a reshape that is no view."""
        return self.is_plain(read_spec(node.inputs[0])) and not node.params.get("order")

    def _is_movable(self, node: Tensor) -> bool:
        spec: Any = node.spec
        if node.op is SCATTER:
            return (
                len(node.inputs) == 1 and read_spec(node.inputs[0]).dtype == spec.dtype
            )
        if node.op.kind == "update":
            return node.op.combines is None and self._is_assignable(
                node.inputs[1], spec
            )
        return all(self.is_plain(read_spec(x)) for x in node.inputs)

    def _has_layout(self, node: Tensor) -> bool:
        """Find the place of a view in the memory of its base."""
        x = node.inputs[0]
        known = isinstance(x, Tensor) and (
            x.serial in self.of or x.serial in self._leaves
        )
        whole = self._find_layout(x) if known else None
        # Other operands are read for their lengths alone, or are constants.
        measured = type(node.params) is LengthParams
        others = [self._example(y, measured) for y in node.inputs[1:]]
        if whole is None or any(y is None for y in others):
            return False
        made: Any = compute_node(node, (whole.array, *others))
        if isinstance(made, np.generic) and node.op is GETITEM:
            index = as_index(node.params["key"], ())  # NumPy makes a number of an entry
            made = whole.array[(*(index if type(index) is tuple else (index,)), ...)]
        spec: Any = node.spec
        if not isinstance(made, np.ndarray) or made.dtype != spec.dtype:
            return False
        shape = tuple([n if type(n) is int else ROWS for n in spec.shape])
        if made.shape != shape or not np.may_share_memory(made, whole.array):
            return False
        moved = find_start(made) - find_start(whole.array)
        if not self.is_plain(read_spec(x)):
            # Where it lies must not depend on how many rows there are.
            row = _find_row_bytes(whole.array)
            if (
                self.is_plain(spec)
                or not 0 <= moved < row
                or _find_row_bytes(made) != row
            ):
                return False
        self.layouts[node.serial] = MemoryLayout(whole.root, whole.offset + moved, made)
        return True

    def _find_layout(self, x: Tensor) -> MemoryLayout | None:
        found = self.layouts.get(x.serial)
        if found is None:
            spec = read_spec(x)
            # Nothing is written to it, so that the system gives it no memory.
            if self.is_plain(spec):
                array = np.empty(spec.shape, spec.dtype)
            elif self._is_growing(x):
                array = np.empty((ROWS, *spec.shape[1:]), spec.dtype)
            else:
                return None
            strides = self._strides.get(x.serial)
            if strides is not None:
                array = np.lib.stride_tricks.as_strided(array, spec.shape, strides)
            found = MemoryLayout(x.serial, 0, array)
            self.layouts[x.serial] = found
        return found

    def _example(self, x: Any, measured: bool) -> Any:
        """Return the value of a constant, or an array that may be ``measured``."""
        if not isinstance(x, Tensor) or x._value is not None:
            return read_value(x)
        layout = self._find_layout(x) if measured else None
        return None if layout is None else layout.array

    def _is_nested(self, node: Tensor) -> bool:
        """Return whether a loop or choice is native, and keep its inner plans."""
        assert node.op.lower is not None
        what = node.op.lower(node, "compiled")
        bodies: Sequence[Graph]
        if isinstance(what, Repetition):
            bodies = (self._skip_unread(node, what),)
            rows = range(what.consts, what.consts + what.seqs)
            given = node.inputs[len(node.inputs) - len(what.body.leaves) :]
        elif isinstance(what, Choice):
            bodies, rows, given = what.branches, range(0), node.inputs[1:]
        else:
            return False
        specs = []
        strides = {}
        for i, x in enumerate(given):
            spec = read_spec(x)
            shape = spec.shape[1:] if i in rows else spec.shape
            spec = Spec(shape, spec.dtype)
            if not self.is_plain(spec) or not math.prod(shape):
                return False
            if i in rows and not self._has_rows(x):
                return False
            if self.is_row_view(x):
                strides[i] = self.layouts[x.serial].array.strides[1:]
            specs.append(spec)
        for x in node.inputs[: len(node.inputs) - len(given)]:
            if not self.is_plain(read_spec(x)) or read_spec(x).shape:
                return False
        plans = []
        for body in bodies:
            try:
                graph = expand(body, specs, kinds=self._target.kinds)
                plan = self._make_plan(graph, strides)
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
        self.nested[node.serial] = plans
        return True

    def _skip_unread(self, node: Tensor, what: Repetition) -> Graph:
        """Return the program of a step without the rows that nobody reads.

        They would be copied in each step; another output stands in their place.
        """
        read = set(range(what.carries))
        read |= {
            k
            for number, (kind, k) in enumerate(what.results)
            if kind == "rows" and (node.serial, number) in self._taken
        }
        if what.until:
            read.add(len(what.body.outputs) - 1)
        body: Graph = what.body
        outputs = body.outputs
        if not read or len(read) == len(outputs):
            return body
        kept = outputs[min(read)]
        return Graph(
            body.leaves,
            [y if k in read else kept for k, y in enumerate(outputs)],
        )

    def _has_rows(self, x: Any) -> bool:
        """Return whether a step finds an entry of an operand in memory."""
        if self.of.get(getattr(x, "serial", -1)) == "window":
            return True
        spec = read_spec(x)
        if self.is_row_view(x):
            array = self.layouts[x.serial].array
            return array.shape[0] == ROWS and ROWS not in array.shape[1:]
        return self.is_plain(spec) or self._is_growing(x)

    def _is_growing(self, x: Any) -> bool:
        """Return whether an operand is a result of a loop, of unknown length."""
        return (
            isinstance(x, Tensor)
            and self.of.get(x.serial) == "part"
            and self.of.get(x.inputs[0].serial) == "nested"
        )

    def _is_window(self, node: Tensor) -> bool:
        """Return whether first rows of an operand are read where they lie."""
        x, n = node.inputs
        if not isinstance(x, Tensor) or not isinstance(n, Tensor):
            return False
        return self._is_growing(x) or self.is_plain(read_spec(x))


def _find_row_bytes(array: np.ndarray[Any, Any]) -> int:
    """Return how far the rows of an example are from each other; 0: all are one."""
    steps = {
        step
        for n, step in zip(array.shape, array.strides, strict=True)
        if n == ROWS and step
    }
    return steps.pop() if len(steps) == 1 else 0 if not steps else -1
