"""Strips: steps along one long axis run together, some rows of that axis at a time.

Between two kernels over large arrays every entry goes out to memory and comes back.
Where a row of what a step computes needs only that row of what the steps before have
computed, they run one after the other on a few rows, then on the next ones: what lies
between them stays in the cache, and never exists whole. What is reduced along the axis
is added up.

Which axis a step walks is read from the strides of its views: no op is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from workbench.backends.compiled.builder import PARTS
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Kernel,
    Reduction,
    View,
)
from workbench.backends.compiled.products import ProductStep, is_product, lies_for_blas
from workbench.backends.compiled.steps import (
    Buffer,
    KernelStep,
    MoveStep,
    Plan,
    Rows,
    Step,
    StripStep,
    count_users,
    list_buffers,
    list_nodes,
    list_written,
    pack_strides,
)
from workbench.core.types import Spec

#: What the steps of a strip hand on takes about so many bytes, which a cache holds: the
#: gradient of a mixture of normals took 0.66 of the time by hand with half of this and
#: with this, 0.75 with twice as much, 0.79 with four times.
STRIP = 2**20
#: It takes as many as the matrices that products read again for each strip, and add to,
#: if these take more. With so many the time is that of steps run whole, the memory not.
LARGE_STRIP = 2**23
#: A strip has at least so many bytes of an array side by side, some lines of the cache.
LEAST_RUN = 2**8
#: The strips are shared among cores in at most so many pieces, each with memory of its
#: own. A piece has at least so many strips, and an axis those of two pieces.
MOST_PIECES, FEW_STRIPS = 16, 4


def cut_strips(plan: Plan) -> None:
    """Let steps of a plan that walk along one long axis run strip by strip."""
    sizes: dict[int, int] = {}
    for buffer in plan.buffers:
        if buffer.kind == "inner":
            for n in {*buffer.spec.shape}:
                sizes[n] = sizes.get(n, 0) + buffer.size
    lengths = sorted((n for n in sizes if n > 1), key=lambda n: -sizes[n])
    least = 2 * FEW_STRIPS * STRIP
    # Of the lengths of the largest arrays a few: each takes a walk over the plan.
    found = [_Cutter(plan, n) for n in lengths[:4] if sizes[n] >= least]
    if found:
        best = max(found, key=lambda cutter: cutter.saved)
        if best.saved:
            best.cut()


class _Use(NamedTuple):
    """How a step uses a view: the axis of the view that strips divide, and what for.

    It may ``read`` or ``write`` the rows of a strip, ``search`` for entries anywhere,
    or ``combine`` all rows into one result. The axis is -1 where there are no rows.
    """

    view: View
    axis: int
    way: str

    @property
    def stride(self) -> int:
        """How far the rows are from each other; 0: each strip uses the same entries."""
        return self.view.strides[self.axis] if self.axis >= 0 else 0

    @property
    def writes(self) -> bool:
        """Whether the step changes what the view shows."""
        return self.way in ("write", "combine")


def _list_uses(step: Step, length: int) -> Iterator[tuple[int, list[_Use]]]:
    """Yield for each axis of a length that a step walks all that it uses along it."""
    if isinstance(step, ProductStep):
        yield from _list_product_uses(step, length)
        return
    kernel = _find_kernel(step)
    if kernel is None or kernel.scatters or kernel.running:
        return
    for axis, n in enumerate(kernel.domain):
        if n == length:
            yield (
                axis,
                [
                    *(_Use(view, axis, "read") for view in kernel.loads.values()),
                    *(_Use(x.view, axis, "search") for x in kernel.gathers.values()),
                    *(_Use(view, axis, "write") for _, view in kernel.stores),
                    *(
                        _Use(
                            x.view, axis, "write" if x.view.strides[axis] else "combine"
                        )
                        for x in kernel.reductions
                    ),
                ],
            )


def _list_product_uses(
    step: ProductStep, length: int
) -> Iterator[tuple[int, list[_Use]]]:
    """Yield the same for a product: axes of stacks, of rows, columns, and of sums.

    The axis of sums is numbered behind all others.
    """
    last = len(step.out.shape)
    for axis, n in enumerate((*step.out.shape, step.a.shape[-1])):
        if n != length:
            continue
        a, b, out = axis, axis, axis
        if axis == last - 2:
            b = -1
        elif axis == last - 1:
            a = -1
        elif axis == last:
            a, b, out = last - 1, last - 2, -1
        yield (
            axis,
            [
                _Use(step.a, a, "read" if a >= 0 else "search"),
                _Use(step.b, b, "read" if b >= 0 else "search"),
                _Use(step.out, out, "write" if out >= 0 else "combine"),
            ],
        )


def _find_kernel(step: Step) -> Kernel | None:
    """Return the kernel that a step is, if it is one."""
    if isinstance(step, KernelStep):
        return step.kernel
    if isinstance(step, MoveStep) and step.zeros < 0 and len(step.parts) == 1:
        return step.parts[0]
    return None


def _split_moves(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps, those that put parts together as one for each part."""
    for step in steps:
        if isinstance(step, MoveStep) and step.zeros < 0:
            yield from (step._replace(parts=(part,)) for part in step.parts)
        else:
            yield step


class _Last(NamedTuple):
    """The last phases in which a buffer was written, and in which it was used."""

    written: int = -1
    used: int = -1

    def add(self, phase: int, writes: bool) -> _Last:
        """Return the same after one more use."""
        return _Last(
            max(self.written, phase) if writes else self.written, max(self.used, phase)
        )

    def find(self, writes: bool) -> int:
        """Return the last phase that a use must come after."""
        return self.used if writes else self.written


class _Cutter:
    """Finds strips along axes of one length, and puts them into a plan.

    Steps run in phases: those of phase 0 that run as a whole, the strips of phase 0,
    those of phase 1 that run as a whole, and so on. Each step has the first phase in
    which what it needs is there.
    """

    def __init__(self, plan: Plan, length: int) -> None:
        self.plan, self.length = plan, length
        #: The steps of each phase, in order; those of strips each with its axis.
        self.whole: dict[int, list[Step]] = {}
        self.strips: dict[int, list[tuple[Step, int]]] = {}
        #: The phases of whole steps, and of strips, that used a buffer last.
        self._last: dict[int, tuple[_Last, _Last]] = {}
        #: In which phase strips write a buffer, and which axis of it has the rows; -1:
        #: all rows are combined.
        self._laid: dict[int, tuple[int, int]] = {}
        for step in _split_moves(plan.steps):
            self._place(step)
        users = count_users(_split_moves(plan.steps))
        for y in plan.outputs:
            for view in (
                (y,) if isinstance(y, View) else y if isinstance(y, Rows) else ()
            ):
                if view is not None:
                    users[view.buffer] = users.get(view.buffer, 0) + 1
        self._groups = {
            phase: _Group(
                plan,
                length,
                group,
                {i: axis for i, (at, axis) in self._laid.items() if at == phase},
                users,
            )
            for phase, group in self.strips.items()
        }

    @property
    def saved(self) -> int:
        """The bytes that no longer exist whole."""
        return sum(group.saved for group in self._groups.values())

    def cut(self) -> None:
        """Put the strips into the plan that keep much from going to memory."""
        steps: list[Step] = []
        for phase in range(max([*self.whole, *self.strips]) + 1):
            steps += self.whole.get(phase, ())
            if phase in self._groups:
                steps += self._groups[phase].write()
        self.plan.steps = steps
        self.plan.find_lifetimes()

    def _place(self, step: Step) -> None:
        """Put a step into its phase, among the strips where an axis allows it."""
        found = None
        for axis, uses in _list_uses(step, self.length):
            laid = self._lay(uses)
            if laid is not None:
                phase = self._find_phase(uses)
                if found is None or phase < found[0]:
                    found = phase, axis, uses, laid
        if found is None:
            written, buffers = {*list_written(step)}, self.plan.buffers
            pairs = [
                (i, i in written)
                for i in list_buffers(step)
                if buffers[i].kind != "flag"  # each only ever sets it
            ]
            phase = 0
            for i, writes in pairs:
                whole, strips = self._find_last(i)
                phase = max(phase, whole.find(writes), strips.find(writes) + 1)
            self.whole.setdefault(phase, []).append(step)
            for i, writes in pairs:
                whole, strips = self._find_last(i)
                self._last[i] = whole.add(phase, writes), strips
            return
        phase, axis, uses, laid = found
        self.strips.setdefault(phase, []).append((step, axis))
        for i, rows in laid.items():
            self._laid[i] = phase, rows
        for use in uses:
            whole, strips = self._find_last(use.view.buffer)
            self._last[use.view.buffer] = whole, strips.add(phase, use.writes)

    def _find_last(self, i: int) -> tuple[_Last, _Last]:
        return self._last.get(i, (_Last(), _Last()))

    def _lay(self, uses: Sequence[_Use]) -> dict[int, int] | None:
        """Return which axis of each buffer that a step writes has the rows.

        None: it does not write row by row.
        """
        laid: dict[int, int] = {}
        for use in uses:
            if use.writes:
                axis = self._find_rows(use) if use.way == "write" else -1
                if use.way == "write" and axis < 0:
                    return None
                if laid.setdefault(use.view.buffer, axis) != axis:
                    return None
        for use in uses:
            axis = laid.get(use.view.buffer, 0)
            if not use.writes and use.view.buffer in laid:
                if use.way != "read" or axis < 0 or not self._walks_rows(use, axis):
                    return None
        return laid

    def _find_rows(self, use: _Use) -> int:
        """Return the axis of a buffer that a view walks along; -1: none."""
        shape = self.plan.buffers[use.view.buffer].spec.shape
        for axis, n in enumerate(shape):
            if n == self.length and self._walks_rows(use, axis):
                return axis
        return -1

    def _walks_rows(self, use: _Use, axis: int) -> bool:
        """Return whether a view walks along an axis of its buffer, row by row."""
        view, spec = use.view, self.plan.buffers[use.view.buffer].spec
        row = pack_strides(spec)[axis]
        block = row * self.length
        if use.stride != row or min(view.strides) < 0:
            return False
        within = view.offset % block + int(view.kind[1:])
        for k, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
            if k != use.axis and stride % block:
                within += (n - 1) * stride
        return within <= row

    def _find_phase(self, uses: Sequence[_Use]) -> int:
        """Return the first phase of strips in which a step can run."""
        found = 0
        for use in uses:
            whole, strips = self._find_last(use.view.buffer)
            last = strips.find(use.writes)
            found = max(found, whole.find(use.writes), last)
            phase, axis = self._laid.get(use.view.buffer, (-1, -1))
            in_rows = (
                use.way in ("read", "write")
                and phase == last
                and axis >= 0
                and self._walks_rows(use, axis)
            )
            if last >= 0 and not in_rows:
                found = max(found, last + 1)
        return found


class _Group:
    """The strips of one phase, during their construction.

    Parameters
    ----------
    steps
        Each with the axis that strips divide.
    laid
        The axis of the rows of each buffer that they write; -1: rows are combined.
    users
        How many steps of the plan use each buffer.
    """

    def __init__(
        self, plan: Plan, length: int, steps: Sequence[tuple[Step, int]],
        laid: Mapping[int, int], users: Mapping[int, int],
    ) -> None:  # fmt: skip
        self.plan, self.length, self.steps, self.laid = plan, length, steps, laid
        mine = count_users(step for step, _ in steps)
        #: The buffers of which only the rows of a strip ever exist.
        self.inner = {
            i
            for i, axis in laid.items()
            if axis >= 0 and plan.buffers[i].kind == "inner" and mine[i] == users[i]
        }
        self._constants: dict[tuple[str, str], int] = {}
        #: How many rows make a strip; 0: strips gain nothing.
        self.rows = self._choose_rows()

    @property
    def saved(self) -> int:
        """The bytes that no longer exist whole."""
        sizes = [self.plan.buffers[i].size for i in self.inner]
        return sum(sizes) if self.rows else 0

    def write(self) -> list[Step]:
        """Return what takes the place of the steps."""
        rows = self.rows
        if not rows:
            return [step for step, _ in self.steps]
        lengths = [rows, self.length % rows] if self.length % rows else [rows]
        programs = [_Program(self, n) for n in lengths]
        if not all(program.fits for program in programs):
            return [step for step, _ in self.steps]
        count = -(-self.length // rows)
        piece = max(-(-count // MOST_PIECES), FEW_STRIPS)
        pieces = -(-count // piece)
        first = programs[0]
        sums, after = [], []
        for place, join in first.sums:
            outer, kernel = self._join_pieces(first.plan.buffers[place], pieces, join)
            sums.append((outer, place))
            after.append(KernelStep(kernel))
        frame = self.add(Buffer("inner", Spec((0,), np.dtype(np.uint8))))
        made = StripStep(
            tuple(x for step, _ in self.steps for x in list_nodes(step)),
            count, piece, pieces, tuple(program.plan for program in programs),
            tuple(first.fills),
            tuple((i, k, stride * rows) for (i, stride), k in first.links.items()),
            tuple(sums), frame,
        )  # fmt: skip
        return [made, *after]

    def add(self, buffer: Buffer) -> int:
        """Add a buffer to the plan; return its place."""
        self.plan.buffers.append(buffer)
        return len(self.plan.buffers) - 1

    def add_constant(self, ufunc: np.ufunc, kind: str) -> int:
        """Return the buffer of what changes nothing that is combined with it."""
        key = ufunc.__name__, kind
        if key not in self._constants:
            number = COMBINATIONS[ufunc].identity(PARTS.get(kind, kind))
            dtype = np.dtype(kind)
            value = np.array(
                complex(number, number) if kind in PARTS else number, dtype
            )
            self._constants[key] = self.add(
                Buffer("constant", Spec((), dtype), value=value)
            )
        return self._constants[key]

    def _choose_rows(self) -> int:
        """Return how many rows make a strip; 0: strips gain nothing."""
        row = sum(self.plan.buffers[i].size for i in self.inner) // self.length
        again, near = 0, LEAST_RUN
        for step, axis in self.steps:
            for use in dict(_list_uses(step, self.length))[axis]:
                if use.way == "combine":
                    again += 2 * _count_bytes(use.view)
                elif use.axis < 0:
                    again += _count_bytes(use.view)
                elif use.stride:
                    near = min(near, abs(use.stride))
        if not row or again > LARGE_STRIP:
            return 0
        rows = max(max(STRIP, again) // row, LEAST_RUN // near)
        most = self.length // (2 * FEW_STRIPS)
        if rows > most:
            return 0
        even = (n for n in range(rows, min(rows + 64, most + 1)) if not self.length % n)
        return next(even, rows)

    def _join_pieces(
        self, buffer: Buffer, pieces: int, join: Reduction
    ) -> tuple[int, Kernel]:
        """Return the results of all pieces, and the kernel that combines them."""
        spec = Spec((pieces, *buffer.spec.shape), buffer.spec.dtype)
        outer = self.add(Buffer("partial", spec))
        view = View(outer, 0, spec.shape, pack_strides(spec), join.view.kind)
        target = join.view._replace(shape=spec.shape, strides=(0, *join.view.strides))
        one = join._replace(view=target)
        return outer, Kernel(spec.shape, (), {join.source: view}, (), [one])


class _Program:
    """The steps of a group on so many rows: a plan with buffers of its own.

    Attributes
    ----------
    links
        The buffers of rows outside, by the buffer and the stride of the rows there.
    sums
        The buffers that combine all rows, and where their results belong.
    fills
        Kernels that fill these at first with what changes nothing.
    fits
        Products take all matrices as they lie.
    """

    def __init__(self, group: _Group, rows: int) -> None:
        self.group, self.rows = group, rows
        self.plan = Plan(group.plan.graph, nested=True)
        self.links: dict[tuple[int, int], int] = {}
        self.sums: list[tuple[int, Reduction]] = []
        self.fills: list[Kernel] = []
        self.fits = True
        self._inner: dict[int, int] = {}
        for step, axis in group.steps:
            if isinstance(step, ProductStep):
                self._add_product(step, axis)
                continue
            kernel = _find_kernel(step)
            assert kernel is not None
            self.plan.steps.append(KernelStep(self._cut_kernel(kernel, axis)))
        self.plan.find_lifetimes()

    def _add(self, buffer: Buffer) -> int:
        self.plan.buffers.append(buffer)
        return len(self.plan.buffers) - 1

    def _link(self, i: int, stride: int) -> int:
        """Return the buffer of rows of an outer one, so many bytes apart."""
        if (i, stride) not in self.links:
            spec = self.group.plan.buffers[i].spec
            self.links[i, stride] = self._add(Buffer("input", spec))
        return self.links[i, stride]

    def _cut_view(self, view: View, axis: int) -> View:
        """Return a view of the rows of a strip, of which some lie inside only."""
        shape = list(view.shape)
        stride = view.strides[axis] if axis >= 0 else 0
        if axis >= 0:
            shape[axis] = self.rows
        if view.buffer not in self.group.inner:
            return view._replace(
                buffer=self._link(view.buffer, stride), shape=(*shape,)
            )
        spec, where = (
            self.group.plan.buffers[view.buffer].spec,
            self.group.laid[view.buffer],
        )
        row = pack_strides(spec)[where]
        if view.buffer not in self._inner:
            lengths = (*spec.shape[:where], self.rows, *spec.shape[where + 1 :])
            self._inner[view.buffer] = self._add(
                Buffer("inner", Spec(lengths, spec.dtype))
            )
        # The rows of a strip lie together: what walks from block to block of all rows
        # walks less far.
        old, new = row * self.group.length, row * self.rows
        strides = [x if x % old else x // old * new for x in view.strides]
        offset = view.offset // old * new + view.offset % old
        return View(self._inner[view.buffer], offset, (*shape,), (*strides,), view.kind)

    def _cut_kernel(self, kernel: Kernel, axis: int) -> Kernel:
        domain = list(kernel.domain)
        domain[axis] = self.rows
        loads = {key: self._cut_view(x, axis) for key, x in kernel.loads.items()}
        stores = [(key, self._cut_view(x, axis)) for key, x in kernel.stores]
        gathers = {
            key: x._replace(view=self._cut_view(x.view, axis))
            for key, x in kernel.gathers.items()
        }
        reductions = [self._cut_reduction(one, axis) for one in kernel.reductions]
        flag = self._link(kernel.flag, 0) if kernel.flag >= 0 else -1
        return Kernel(
            (*domain,), kernel.nodes, loads, stores, reductions, gathers, (), flag
        )

    def _cut_reduction(self, one: Reduction, axis: int) -> Reduction:
        view = one.view
        if view.strides[axis]:
            return one._replace(view=self._cut_view(view, axis))
        kept = [n if x else 1 for n, x in zip(view.shape, view.strides, strict=True)]
        own = self._add_sum(one, tuple(kept))
        shape = list(view.shape)
        shape[axis] = self.rows
        strides = [
            x if old else 0 for x, old in zip(own.strides, view.strides, strict=True)
        ]
        view = own._replace(shape=(*shape,), strides=(*strides,))
        return one._replace(view=view, adds=True)

    def _add_sum(self, one: Reduction, shape: tuple[int, ...]) -> View:
        """Return where all strips of a piece combine, filled once before them."""
        kind = one.view.kind
        spec = Spec(shape, np.dtype(kind))
        place = self._add(Buffer("input", spec))
        view = View(place, 0, shape, pack_strides(spec), kind)
        self.sums.append((place, one._replace(view=one.view._replace(shape=shape))))
        assert one.node.op.combines is not None
        constant = self._link(self.group.add_constant(one.node.op.combines, kind), 0)
        source = View(constant, 0, shape, (0,) * len(shape), kind)
        self.fills.append(Kernel(shape, (), {-1: source}, [(-1, view)], ()))
        return view

    def _add_product(self, step: ProductStep, axis: int) -> None:
        """Add a product; along its axis of sums, each strip adds to the result."""
        _, uses = next(x for x in _list_uses(step, self.group.length) if x[0] == axis)
        a, b = (self._cut_view(use.view, use.axis) for use in uses[:2])
        out = uses[2]
        if out.way == "combine":
            total = Reduction(np.sum(step.node), -1, step.out)
            made = step._replace(
                a=a, b=b, out=self._add_sum(total, step.out.shape), adds=True
            )
            self.fits &= lies_for_blas(a) and lies_for_blas(b)
        else:
            made = step._replace(a=a, b=b, out=self._cut_view(out.view, out.axis))
            size = int(step.out.kind[1:])
            n = made.out.shape[-1]
            self.fits &= is_product(a, b) and made.out.strides[-2:] == (n * size, size)
        self.plan.steps.append(made)


def _count_bytes(view: View) -> int:
    kept = [n for n, step in zip(view.shape, view.strides, strict=True) if step]
    return math.prod(kept) * int(view.kind[1:])
