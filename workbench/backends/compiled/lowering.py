"""A graph of fixed shapes becomes steps: kernels, products, moves, loops, calls.

`grouping` says which nodes are one kernel. A loop or a choice holds a plan of its own
for each of its programs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.backends.compiled.addresses import find_index_address, has_checks
from workbench.backends.compiled.builder import kind_of
from workbench.backends.compiled.grouping import (
    ALIASES,
    IN_REGISTERS,
    Groups,
    Joins,
)
from workbench.backends.compiled.kernel import (
    Address,
    Kernel,
    Reduction,
    Running,
    Scatter,
    View,
    find_combination,
)
from workbench.backends.compiled.products import (
    ProductStep,
    align_views,
    lies_for_blas,
)
from workbench.backends.compiled.roles import Roles
from workbench.backends.compiled.steps import (
    LONG,
    STATE,
    Buffer,
    ChoiceStep,
    Held,
    HostStep,
    InnerProgram,
    KernelStep,
    LoopStep,
    MoveStep,
    Plan,
    Rows,
    Step,
    count_work,
    find_domain,
    find_start,
    is_number,
    list_specs,
    pack_strides,
    read_spec,
)
from workbench.backends.compiled.systems import FUNCTIONS, SystemStep
from workbench.backends.compiled.target import Target
from workbench.core.graph import Graph
from workbench.core.op import Choice
from workbench.core.schedule import Schedule
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import CompilerError
from workbench.ops.indexing import ARRAY, SCATTER, as_index
from workbench.ops.shaping import RESHAPE


def lower(graph: Graph, target: Target) -> Plan:
    """Return the plan of a graph at fixed shapes, for a target."""
    return _Lowering(graph, target, False, {})


class _Lowering(Plan):
    """A plan during its construction."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        nested: bool,
        strides: Mapping[int, tuple[int, ...]],
    ) -> None:
        super().__init__(graph, nested)
        schedule = Schedule(graph.leaves, graph.outputs, whole=True)
        self.nodes = [step.node for step in schedule.steps]
        #: The buffer of each node that has memory of its own.
        self._places: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self._held: list[Any] = []
        for i, x in enumerate(graph.leaves):
            self._places[x.serial] = self._add(Buffer("input", read_spec(x), i))
        self._target = target
        self._strides = {graph.leaves[i].serial: s for i, s in strides.items()}
        self.roles = Roles(
            graph, self.nodes, target, self._strides,
            lambda graph, strides: _Lowering(graph, target, True, strides),
        )  # fmt: skip
        self._order = Groups(graph, self.nodes, self.roles)
        self._joins = Joins(graph, self.nodes, self.roles)
        self._write_steps()
        self.outputs = [self._read(y) for y in graph.outputs]
        if nested:
            self._own_outputs()
        self.find_lifetimes()

    # Steps

    def _write_steps(self) -> None:
        kept = self._order.find_kept(self._joins.placed)
        outputs: dict[int, int] = {}
        for i, y in enumerate(self.graph.outputs):
            if isinstance(y, Tensor):
                outputs.setdefault(y.serial, i)
        items: dict[int, dict[int, list[int]]] = {}
        for node in self.nodes:
            if self.roles.of[node.serial] == "part":
                parts = items.setdefault(node.inputs[0].serial, {})
                parts.setdefault(node.params["index"], []).append(node.serial)
        for node in self.nodes:
            role = self.roles.of[node.serial]
            if role in ALIASES or node.serial in self._joins.inside:
                continue
            if role == "nested":
                self._add_results(node, items.get(node.serial, {}), outputs)
            elif role == "host":
                first = len(self.buffers)
                for spec in list_specs(node):
                    self._add(Buffer("host", spec))
                self._places[node.serial] = first
            elif self._order.is_in_place(node):
                self._share_buffer(node, outputs.get(node.serial, -1))
            elif node.serial in kept or role not in IN_REGISTERS:
                place = outputs.get(node.serial, -1)
                kind = "inner" if place < 0 else "output"
                self._places[node.serial] = self._add(
                    Buffer(kind, read_spec(node), place)
                )
        for node in self.nodes:
            if self.roles.of[node.serial] == "part":
                x = node.inputs[0]
                self._places[node.serial] = (
                    self._places[x.serial] + node.params["index"]
                )
        self._joins.place_operands(self._order.groups, self._own_view, self._places)
        for _, _, group in self._order.ordered:
            if type(group) is list:
                self.steps.append(KernelStep(self._make_kernel(group)))
                continue
            step = self._make_step(group)
            if not isinstance(step, MoveStep) or step.parts or step.zeros >= 0:
                self.steps.append(step)

    def _share_buffer(self, node: Tensor, output: int) -> None:
        """Give an update the memory of the changed array; ``output`` is its place."""
        place = self._places[node.serial] = self._places[
            self._order.find_root(node.inputs[0])
        ]
        buffer = self.buffers[place]
        if output >= 0:
            buffer.kind, buffer.place = "output", output

    def _make_kernel(self, nodes: list[Tensor]) -> Kernel:
        domain = find_domain(nodes[0], self.roles.of[nodes[0].serial])
        inside = {x.serial for x in nodes if self.roles.of[x.serial] in IN_REGISTERS}
        loads: dict[int, View] = {}
        gathers: dict[int, Address] = {}
        stores, reductions, entries = [], [], []
        for node in nodes:
            role = self.roles.of[node.serial]
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
                if is_number(x):
                    continue
                key = x.serial if isinstance(x, Tensor) else -id(x)
                if key not in loads:
                    loads[key] = self._view(x).broadcast(domain)
            if role in IN_REGISTERS:
                entries.append(node)
                if node.serial in self._places:
                    stores.append((node.serial, self._own_view(node)))
                for target in self._joins.targets.get(node.serial, ()):
                    stores.append((node.serial, target))
                for x, target in self._joins.beside.get(node.serial, ()):
                    key = x.serial if isinstance(x, Tensor) else -id(x)
                    loads[key] = self._view(x).broadcast(domain)
                    stores.append((key, target))
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
        source: tuple[int, ...] = read_spec(node.inputs[0]).shape
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
        role = self.roles.of[node.serial]
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
        if not self._target.takes_matrices(a, b):
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
            self._add(Buffer("inner", spec)), 0, shape, pack_strides(spec), view.kind
        )
        whole = view._replace(shape=shape)
        kernel = Kernel(shape, (), {-1: whole}, [(-1, copy)], ())
        self.steps.append(MoveStep(node, -1, (kernel,)))
        return copy.broadcast(view.shape)

    def _read(self, x: Any) -> Any:
        """Return the operand of a call of NumPy: a view, a held result or a value."""
        if not isinstance(x, Tensor):
            return x
        if self.roles.of.get(x.serial) == "window":
            return self._read_rows(x)
        if x.serial in self._places:
            spec = read_spec(x)
            if isinstance(spec, Spec) and self.roles.is_plain(spec):
                return self._own_view(x)
            place = self._places[x.serial]
            if self.buffers[place].kind == "growing":
                return self._read_rows(x)
            return Held(place)
        return self._view(x) if x.serial in self.roles.of else x._value

    def _make_move(self, node: Tensor) -> MoveStep:
        out, op = self._own_view(node), node.op
        zeros = out.buffer if op is SCATTER else -1
        whole = np.empty(out.shape, np.dtype(out.kind))
        parts = []
        moved = node.inputs
        if node.op.compute_into is not None:
            if not self._order.is_in_place(node):
                parts.append(self._make_copy(node.inputs[0], out))
            moved = moved[1:]
        if op.kind == "update" and ARRAY in node.params["key"]:
            return MoveStep(node, zeros, (*parts, self._make_scatter(node, moved)))
        if op.kind == "running":
            return MoveStep(node, -1, (self._make_running(node, out),))
        if op is RESHAPE:
            places = [whole.reshape(read_spec(node.inputs[0]).shape)]
        elif op.kind == "update":
            index = as_index(node.params["key"], ())
            index = index if type(index) is tuple else (index,)
            ending = () if any(part is ... for part in index) else (...,)
            places = [whole[(*index, *ending)]]
        else:
            views = self._joins.locate_operands(node, out)
            parts = [
                self._make_copy(x, view)
                for k, (x, view) in enumerate(zip(node.inputs, views, strict=True))
                if (node.serial, k) not in self._joins.placed and 0 not in view.shape
            ]
            return MoveStep(node, -1, tuple(parts))
        for x, place in zip(moved, places, strict=True):
            if not place.size:
                continue
            offset = find_start(place) - find_start(whole)
            target = View(out.buffer, offset, place.shape, place.strides, out.kind)
            parts.append(self._make_copy(x, target))
        return MoveStep(node, zeros, tuple(parts))

    def _make_system(self, node: Tensor) -> SystemStep:
        """Return the step of LAPACK, which works on turned copies of its operands."""
        out, a = self._own_view(node), self._view(node.inputs[0])
        stack, n = a.shape[:-2], a.shape[-1]
        dtype = np.dtype(a.kind)
        flag = self._find_flag()
        if FUNCTIONS[node.op.name] == "potrf":
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
        b: Any = node.inputs[1] if len(node.inputs) > 1 else np.eye(n, dtype=dtype)
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
        assert node.op.combines is not None
        steps = x.strides[axis], out.strides[axis]
        running = Running(node.op.combines, out.shape[axis], steps)
        domain = around[1].shape
        return Kernel(
            domain, (), {-1: around[0]}, [(-1, around[1])], (), running=running
        )

    def _make_scatter(self, node: Tensor, operands: Any) -> Kernel:
        """Return a kernel that puts a value to where index arrays say."""
        x, *arrays = operands
        domain = np.broadcast_shapes(*(read_spec(i).shape for i in arrays))
        loads = {-1: self._view(x).broadcast(domain)}
        own = self._own_view(node)
        address = self._find_address(own, arrays, domain, set(), loads)
        combines = node.op.combines is not None
        combine = find_combination(node).combine if combines else None
        scatter = Scatter(combine, -1, address)
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
        if node.serial in self._joins.windows:
            return self._joins.windows[node.serial]
        spec = read_spec(node)
        strides = self._strides.get(node.serial, pack_strides(spec))
        place = self._places[node.serial]
        return View(place, 0, spec.shape, strides, kind_of(spec.dtype))

    def _view(self, x: Any) -> View:
        """Return where an operand lies."""
        if isinstance(x, Tensor):
            if x.serial in self._places:
                return self._own_view(x)
            layout = self.roles.layouts.get(x.serial)
            if layout is not None and self.roles.of.get(x.serial) == "view":
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
        view = View(place, 0, spec.shape, pack_strides(spec), kind_of(spec.dtype))
        return view.broadcast(read_spec(x).shape)

    def _find_constant(self, x: Tensor) -> Any:
        while self.roles.of.get(x.serial) == "view":
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
        programs = tuple(map(self._share, self.roles.nested[node.serial]))
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
        inner = programs[0].plan
        work = math.inf if steps is None else steps * (1 + count_work(inner))
        if states or what.limited or inner.flag >= 0 or work > LONG:
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
        """Return a program inside a step, with the buffers that both share."""
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
        while isinstance(x, Tensor) and self.roles.of.get(x.serial) == "window":
            x, n = x.inputs
            count = self._view(n) if count is None else count
        if isinstance(x, Tensor) and x.serial in self._places:
            place = self._places[x.serial]
            buffer = self.buffers[place]
            if buffer.kind == "growing":
                spec = Spec((-1, *buffer.spec.shape), buffer.spec.dtype)
                view = View(
                    place, 0, spec.shape, pack_strides(spec), kind_of(spec.dtype)
                )  # fmt: skip
                count = buffer.count if count is None else count
                assert count is not None
                return Rows(view, count)
        if self.roles.is_row_view(x):
            layout = self.roles.layouts[x.serial]
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
        inner = pack_strides(Spec(view.shape[axis:], np.dtype(view.kind)))
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
        return View(place, 0, spec.shape, pack_strides(spec), kind_of(spec.dtype))

    def _own_outputs(self) -> None:
        """Give each output a buffer of its own, shared with no other Tensor."""
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
