"""`Program`: a plan as compiled code, which runs.

Native steps that follow each other are one function, called without Python's lock;
large kernels are shared among cores, in pieces that do not depend on how many there
are, so that results are the same on each machine of a kind.
"""

from __future__ import annotations

import _thread
import ctypes
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import IMPLIED, Builder
from workbench.backends.compiled.entry import Table, make_entry
from workbench.backends.compiled.kernel import (
    Kernel,
    Reduction,
    View,
    reduced_bytes,
)
from workbench.backends.compiled.kernel_code import write_kernel, write_zeros
from workbench.backends.compiled.loops import GROW, write_step
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.machine import Machine, find_address, get_machine
from workbench.backends.compiled.memory import (
    Array,
    Growth,
    Pool,
    align_block,
    place_buffers,
    read_view,
    take_block,
)
from workbench.backends.compiled.products import ProductStep, share_products
from workbench.backends.compiled.steps import (
    INTERRUPTED,
    LINE,
    Buffer,
    ChoiceStep,
    Held,
    HostStep,
    KernelStep,
    LoopStep,
    MoveStep,
    Rows,
    StripStep,
    find_start,
    is_plain,
)
from workbench.backends.compiled.strips import cut_strips
from workbench.backends.compiled.systems import SystemStep
from workbench.backends.compiled.target import Processor
from workbench.backends.compiled.ufuncs import PREFIX, has_error_settings
from workbench.core import blame
from workbench.core.deferred import compute_op
from workbench.core.graph import Graph
from workbench.core.schedule import user_context
from workbench.core.types import Spec
from workbench.errors import CompilerError

#: A kernel of at least so many entries times nodes is shared among cores.
LARGE = 200_000
#: A reduction of more entries is made in pieces of about so many.
PIECE = 16_384
#: Rows of unknown number that take more bytes are given back after each call.
MOST_GROWN = 2**27
#: A module of more lines is compiled fast rather than to fast code.
MANY_LINES = 20_000

#: A program keeps so many frames for calls at the same time, if they are this small.
MOST_FRAMES = 4
MOST_KEPT = 2**16
#: Results of at most so many bytes are new arrays in each call, which NumPy has ready.
SMALL = 2**12

_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong
)


class Retreat(Exception):
    """NumPy must run a program for the inputs of this call."""


class Native(NamedTuple):
    """Code that runs: all rounds at once, or shared in pieces of so many."""

    function: str
    rounds: int
    piece: int
    steps: tuple[int, ...]


class Frame:
    """What one call at a time uses, and the next one again.

    Attributes
    ----------
    table
        The addresses of all buffers.
    block
        The memory of what comes and goes.
    numbers
        The arrays of results that are numbers, by their buffers.
    """

    __slots__ = ("_holders", "_whole", "block", "numbers", "table")

    def __init__(self, size: int, numbers: Sequence[tuple[int, np.dtype[Any]]]) -> None:
        self.table: Any = None
        self.block: Array | None = None
        self.numbers = {i: np.empty((), dtype) for i, dtype in numbers}
        self._whole = None
        if size and size <= MOST_KEPT:
            self._whole = np.empty(size + LINE, np.uint8)
            self.block = align_block(self._whole, find_start(self._whole), size)[0]
        self._holders = self._count_holders()

    def is_free(self) -> bool:
        """Return whether nobody else holds the block: an op may keep an operand."""
        # Counted as in the beginning: what Python itself holds differs from form to
        # form, and from version to version.
        return self._whole is not None and self._count_holders() == self._holders > 0

    def _count_holders(self) -> int:
        whole = self._whole
        return _count_references(whole)


_count_references: Callable[[Any], int] = getattr(sys, "getrefcount", lambda x: 0)


class Program:
    """A graph at fixed shapes, compiled.

    Attributes
    ----------
    plan
        Its steps and buffers.
    cached
        The code was read from disk.

    Parameters
    ----------
    graph
        What it computes, at fixed shapes.
    separate
        Call each step by itself, so that it can be measured.

    Raises
    ------
    CompilerError
        If it cannot be compiled here.
    """

    def __init__(
        self, graph: Graph, machine: Machine | None = None, separate: bool = False
    ) -> None:
        machine = get_machine() if machine is None else machine
        self.plan = plan = lower(graph, Processor(machine))
        cut_strips(plan)
        self._machine = machine
        self._builders: list[Builder] = []
        self._extra: list[str] = []
        self._runs: list[Native | HostStep] = []
        #: Functions that the next run calls, their rounds, and the steps they are of.
        self._pending: list[tuple[str, int, int]] = []
        self._write_functions(machine, separate)
        self._size = place_buffers(plan)
        self._specs = [Spec(x.spec.shape, x.spec.dtype) for x in graph.leaves]
        self._compile(machine)
        self._pool = Pool()
        self._grown: deque[Growth] = deque(maxlen=2)
        self._frames: deque[Frame] = deque(maxlen=MOST_FRAMES)
        self._tables: list[Table] = []
        buffers = list(enumerate(plan.buffers))
        self._constants = {i: b.value for i, b in buffers if b.kind == "constant"}
        self._inner = [
            (i, b.offset)
            for i, b in buffers
            if b.kind in ("inner", "partial", "flag") and b.offset >= 0
        ]
        #: Where in the block the flag lies, if there is one.
        self._flag = plan.buffers[plan.flag].offset if plan.flag >= 0 else -1
        self._states = [i for i, b in buffers if b.kind == "state"]
        outputs = [
            (i, tuple(b.spec.shape), b.spec.dtype, b.size)
            for i, b in buffers
            if b.kind == "output"
        ]
        #: Results that are numbers; small arrays, new in each call; and large ones. A
        #: call of NumPy may hand a number to an op that keeps it: then it is new too.
        calls_numpy = any(isinstance(run, HostStep) for run in self._runs)
        numbers = [] if calls_numpy else [x for x in outputs if not x[1]]
        self._numbers = [(i, dtype) for i, _, dtype, _ in numbers]
        arrays = [x for x in outputs if x not in numbers]
        self._small = [x[:3] for x in arrays if x[3] <= SMALL]
        self._large = [x[:3] for x in arrays if x[3] > SMALL]
        self._readers = self._plan_readers()
        #: Whether all results are arrays and numbers of the caller's own.
        self.is_fresh = all(isinstance(y, (View, Rows)) for y in plan.outputs)
        self._inputs = [
            (i, b.place, b.spec.dtype) for i, b in buffers if b.kind == "input"
        ]
        self._table = ctypes.c_void_p * len(buffers)
        #: The addresses of all buffers, of which a run fills in the others.
        self._template = [0] * len(buffers)
        for i, array in self._constants.items():
            self._template[i] = find_start(array)
        #: What NumPy is to give: None for an object that is handed on as it is.
        self._given = {
            i: (tuple(b.spec.shape), b.spec.dtype) if is_plain(b.spec) else None
            for i, b in buffers
            if b.kind == "host"
        }

    # Code

    def _write_functions(self, machine: Machine, separate: bool) -> None:
        """Write all steps; those that follow one another natively are one run.

        ``separate``: each is a run of its own.
        """
        plan = self.plan
        if plan.flag >= 0:
            self._add_zeros(machine, "clear_flag", plan.flag, 8, 0)
        for number, step in enumerate(list(plan.steps)):
            name = f"step{number}"
            if separate:
                self._close_run()
            if isinstance(step, KernelStep):
                kernel, rest = self._split_reductions(step.kernel)
                plan.steps[number] = KernelStep(kernel)
                self._add_kernel(machine, name, kernel, number)
                for k, one in enumerate(rest):
                    self._add_kernel(machine, f"{name}_{k}", one, number)
            elif isinstance(step, (ProductStep, SystemStep, LoopStep, ChoiceStep)):
                builders, calls = write_step(machine, name, step, plan)
                self._builders += builders
                piece = share_products(step) if isinstance(step, ProductStep) else 0
                if piece:
                    self._close_run()
                    self._runs.append(Native(name, calls[0][1], piece, (number,)))
                else:
                    self._pending += [(f, rounds, number) for f, rounds in calls]
            elif isinstance(step, StripStep):
                self._builders += write_step(machine, name, step, plan)[0]
                self._close_run()
                self._runs.append(Native(name, step.rounds, step.piece, (number,)))
            elif isinstance(step, MoveStep):
                if step.zeros >= 0:
                    size = plan.buffers[step.zeros].size
                    self._add_zeros(machine, f"{name}_zeros", step.zeros, size, number)
                for k, part in enumerate(step.parts):
                    self._add_kernel(machine, f"{name}_{k}", part, number)
            else:
                self._close_run()
                self._runs.append(step)
        self._close_run()

    def _add_zeros(
        self, machine: Machine, name: str, place: int, size: int, number: int
    ) -> None:
        """Write the function that fills a buffer with zeros, for a step."""
        self._builders.append(write_zeros(machine, name, place, size))
        self._pending.append((name, 0, number))

    def _add_kernel(
        self, machine: Machine, name: str, kernel: Kernel, number: int
    ) -> None:
        """Write a kernel of a step; one that several cores share is a run."""
        self._builders.append(write_kernel(machine, name, kernel))
        rounds = kernel.lengths[0]
        piece = kernel.chunk or self._share(kernel)
        if piece and piece < rounds:
            self._close_run()
            self._runs.append(Native(name, rounds, piece, (number,)))
        else:
            self._pending.append((name, rounds, number))

    def _close_run(self) -> None:
        """Write one function that calls those that wait."""
        if not self._pending:
            return
        name = f"run{len(self._runs)}"
        calls = "\n".join(
            f"  call void @{f}(ptr %table, i64 0, i64 {rounds})"
            for f, rounds, _ in self._pending
        )
        self._extra.append(
            f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{\n{calls}\n"
            "  ret void\n}"
        )
        steps = tuple(step for *_, step in self._pending)
        self._runs.append(Native(name, 0, 0, steps))
        self._pending.clear()

    def _share(self, kernel: Kernel) -> int:
        """Return how many rounds of the outermost loop make a piece; 0: all."""
        work = kernel.size * (1 + len(kernel.nodes))
        if work < LARGE or kernel.reduces_outermost or kernel.is_ordered:
            return 0
        rounds = kernel.lengths[0]
        pieces = min(rounds, max(1, work // LARGE), 64)
        return _round_piece(kernel, -(-rounds // pieces))

    def _split_reductions(self, kernel: Kernel) -> tuple[Kernel, list[Kernel]]:
        """Return a kernel with large reductions in pieces, and their joins."""
        if not kernel.reduces_outermost or kernel.size <= 2 * PIECE:
            return kernel, []
        rounds = kernel.lengths[0]
        first = len(kernel.loads) + len(kernel.stores)
        split = [
            k for k in range(len(kernel.reductions)) if kernel.steps[first + k][0] == 0
        ]
        bytes_ = max(reduced_bytes(kernel.reductions[k]) for k in split)
        size = kernel.size // rounds
        piece = _round_piece(kernel, max(1, PIECE // size))
        # The pieces together take no more than an eighth of what is reduced.
        most = max(1, kernel.size // max(1, bytes_))
        piece = max(piece, _round_piece(kernel, -(-rounds // most)))
        count = -(-rounds // piece)
        if count < 2 or len(split) < len(kernel.reductions):
            return kernel, []
        joins = []
        for k in split:
            one = kernel.reductions[k]
            shape = tuple(
                n if step else 1
                for n, step in zip(one.view.shape, one.view.strides, strict=True)
            )
            dtype = np.dtype(one.view.kind)
            spec = Spec((count, *shape), dtype)
            buffer = Buffer("partial", spec)
            self.plan.buffers.append(buffer)
            number = self._step_of(kernel)
            buffer.first = buffer.last = number
            place = len(self.plan.buffers) - 1
            strides = _contiguous(spec.shape, dtype.itemsize)
            partial = View(place, 0, spec.shape, strides, one.view.kind)
            view = partial._replace(
                shape=one.view.shape,
                strides=tuple(
                    own if step else 0
                    for own, step in zip(strides[1:], one.view.strides, strict=True)
                ),
            )
            kernel.reductions[k] = one._replace(view=view)
            target = one.view._replace(shape=spec.shape, strides=(0, *one.view.strides))
            joins.append(
                Kernel(
                    spec.shape,
                    (),
                    {one.source: partial},
                    (),
                    [Reduction(one.node, one.source, target)],
                )
            )
        made = kernel.with_reductions(kernel.reductions)
        made.chunk = piece
        if made.lengths[0] != rounds:
            raise CompilerError("a reduction in pieces has other loops.")
        return made, joins

    def _step_of(self, kernel: Kernel) -> int:
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, KernelStep) and step.kernel is kernel:
                return number
        raise CompilerError("a kernel that is in no step.")

    def _compile(self, machine: Machine) -> None:
        symbols = {s for b in self._builders for s in b.symbols}
        symbols |= {s for s in IMPLIED if find_address(s) is not None}
        declared = sorted({d for b in self._builders for d in b.declared})
        if "realloc" in symbols:
            declared.append("declare ptr @realloc(ptr, i64)")
            self._extra.append(GROW)
        texts = ["\n".join(b.lines) for b in self._builders]
        ir = "\n\n".join(["\n".join(declared), *texts, *self._extra])
        names = [run.function for run in self._runs if isinstance(run, Native)]
        self.ir = ir
        #: The loops of ufuncs set errors of Python's: of integers to negative powers,
        #: and SciPy's where `scipy.special.errstate` says so.
        self._raises = any(s.startswith(PREFIX) for s in symbols)
        if names:
            quick = ir.count("\n") > MANY_LINES
            self._library: Any = machine.compile(ir, names, symbols, quick)
            self.cached = self._library.cached
            functions = {n: _FUNCTION(a) for n, a in self._library.addresses.items()}
        else:
            self.cached, functions = False, {}
        self._calls: list[Any] = [
            (functions[run.function], run, None) if isinstance(run, Native)
            else (None, run, [*map(self._prepare_operand, run.operands)])
            for run in self._runs
        ]  # fmt: skip

    # Runs

    def run(
        self,
        arrays: Sequence[Any],
        observe: Callable[[Native | HostStep, float], None] | None = None,
    ) -> list[Any]:
        """Return the outputs for these inputs, as arrays that nobody else writes to.

        The inputs have the shapes and dtypes of the graph's leaves. ``observe`` gets
        the seconds of each call.

        Raises
        ------
        Retreat
            If NumPy must run the program for these inputs, which has the words for
            what is wrong with them.
        """
        frame = self._take_frame()
        table, block = frame.table, frame.block
        bases = self._constants | frame.numbers
        for i, place, dtype in self._inputs:
            array = arrays[place]
            if type(array) is not np.ndarray or array.flags.num & PLAIN != PLAIN:
                array = np.array(array, dtype, order="C")
            bases[i] = array
            table[i] = find_start(array)
        growth = self._take_growth() if self._states else None
        if growth is not None:
            first = find_start(growth.states)
            for k, i in enumerate(self._states):
                table[i] = first + 16 * k
        for i, shape, dtype in self._small:
            bases[i] = array = np.empty(shape, dtype)
            table[i] = find_start(array)
        for i, shape, dtype in self._large:
            bases[i], table[i] = self._pool.take(shape, dtype)
        # Other cores hold all this too: an interrupt may end the run before theirs.
        memory = self, table, bases, block, growth
        flag, began = self._flag, 0.0
        for function, run, prepared in self._calls:
            if observe is not None:
                began = perf_counter()
            if function is None:
                self._call_numpy(run, prepared, table, bases, block)
            else:
                try:
                    if run.rounds:
                        alone = self._raises and has_error_settings()
                        share_rounds(
                            function, table, run.rounds, run.piece, memory, alone
                        )
                    else:
                        function(table, 0, 0)
                except SystemError:  # the loop of a ufunc has set an error
                    raise Retreat from None
            if flag >= 0 and block is not None and block[flag]:
                raise KeyboardInterrupt if block[flag] == INTERRUPTED else Retreat
            if observe is not None:
                observe(run, perf_counter() - began)
        results = []
        for y, i, how in self._readers:
            if how == "whole":
                results.append(bases[i])
            elif how == "number":
                results.append(bases[i][()])
            else:
                results.append(self._read(y, table, bases, block))
        if growth is not None and growth.count_bytes() <= MOST_GROWN:
            self._grown.append(growth)
        if not self._size or frame.is_free():
            self._frames.append(frame)
        return results

    def _take_frame(self) -> Frame:
        """Return memory for a call, with all addresses that each call has alike."""
        try:
            return self._frames.pop()
        except IndexError:
            pass
        frame = Frame(self._size, self._numbers)
        if frame.block is None and self._size:
            frame.block = take_block(self._pool, self._size)[0]
        start = 0 if frame.block is None else find_start(frame.block)
        places = self._template[:]
        for i, offset in self._inner:
            places[i] = start + offset
        for i, array in frame.numbers.items():
            places[i] = find_start(array)
        frame.table = self._table(*places)
        return frame

    def _take_growth(self) -> Growth:
        try:
            return self._grown.pop()
        except IndexError:
            return Growth(len(self._states))

    def make_entry(
        self,
        form: type | None,
        fallback: Callable[..., Any],
        context: Any = None,
        empty: Sequence[Any] = (),
        numbers: bool = False,
    ) -> Callable[..., Any] | None:
        """Return the program as a built-in function, where possible; see `entry`."""
        addresses = [
            self._library.addresses[run.function]
            for run in self._runs
            if isinstance(run, Native) and not run.rounds
        ]
        if len(addresses) < len(self._runs) or not addresses:
            return None
        entry = make_entry(
            self._machine, self.plan, addresses, self._size, form, fallback, context,
            empty, numbers, self._raises,
        )  # fmt: skip
        if entry is not None:
            table: Table = entry.__self__  # type: ignore[attr-defined]
            table.owners["program"] = self  # whose code it calls
            self._tables.append(table)
        return entry

    @property
    def memory(self) -> int:
        """The bytes that a call takes: temporary memory, and results."""
        results = [b for b in self.plan.buffers if b.kind in ("output", "host")]
        return self._size + sum(b.known_size for b in results)

    def release(self) -> None:
        """Let the memory go that is kept for the next call."""
        self._pool.clear()
        self._grown.clear()
        self._frames.clear()
        for table in self._tables:
            table.release()

    def _plan_readers(self) -> list[tuple[Any, int, str]]:
        """Return for each result its buffer and the way to read the result.

        As the ``whole`` array of the buffer, as the ``number`` in it, or as a ``part``,
        which is copied, as is what others have.
        """
        made: list[tuple[Any, int, str]] = []
        taken: set[int] = set()
        for y in self.plan.outputs:
            i, how = y.buffer if isinstance(y, View) else -1, "part"
            own = i >= 0 and self.plan.buffers[i].kind in ("output", "host")
            if own and self._is_whole(y) and (i not in taken or not y.shape):
                how = "whole" if y.shape else "number"
                taken.add(i)
            made.append((y, i, how))
        return made

    def _prepare_operand(self, x: Any) -> tuple[Any, Any]:
        """Return an operand of a call of NumPy in the form of `_call_numpy`.

        Its buffer, and how its array is made of that: None, if it is all of it.
        """
        if not isinstance(x, View):
            return (x.buffer, None) if isinstance(x, Held) else (None, x)
        offset, buffer = x.offset, self.plan.buffers[x.buffer]
        if buffer.offset < 0 and x.shape and self._is_whole(x):
            return x.buffer, None
        inside = buffer.offset >= 0
        layout = x.shape, np.dtype(x.kind), offset + inside * buffer.offset, x.strides
        return -1 if inside else x.buffer, layout

    def _is_whole(self, view: View) -> bool:
        spec = self.plan.buffers[view.buffer].spec
        return (
            view.offset == 0
            and view.shape == tuple(spec.shape)
            and view.strides == _contiguous(spec.shape, spec.dtype.itemsize)
            and np.dtype(view.kind) == spec.dtype
        )

    def _array(
        self, view: View, bases: dict[int, Any], block: Array | None
    ) -> np.ndarray[Any, Any]:
        buffer = self.plan.buffers[view.buffer]
        if buffer.offset >= 0:
            assert block is not None
            moved = view._replace(offset=view.offset + buffer.offset)
            return read_view(moved, block)
        return read_view(view, bases[view.buffer])

    def _rows(
        self, x: Rows, table: Any, bases: dict[int, Any], block: Array | None
    ) -> np.ndarray[Any, Any]:
        """Return a copy of rows of which the run knows how many there are."""
        assert x.length is not None
        count = int(self._array(x.length, bases, block)[()])
        view = x.view._replace(shape=(count, *x.view.shape[1:]))
        if self.plan.buffers[view.buffer].kind != "growing":
            return self._array(view, bases, block).copy()
        size = math.prod(view.shape) * int(view.kind[1:])
        if not size:
            return np.empty(view.shape, np.dtype(view.kind))
        memory = ctypes.string_at(table[view.buffer], size)
        return np.frombuffer(bytearray(memory), view.kind).reshape(view.shape)

    def _read(
        self, y: Any, table: Any, bases: dict[int, Any], block: Array | None
    ) -> Any:
        """Return an output of a run, as the caller's own."""
        if isinstance(y, Held):
            return bases[y.buffer]
        if isinstance(y, Rows):
            return self._rows(y, table, bases, block)
        if not isinstance(y, View):
            return y
        array = self._array(y, bases, block)
        return array.copy() if array.shape else array[()]

    def _call_numpy(
        self, step: HostStep, prepared: Any, table: Any, bases: dict[int, Any],
        block: Array | None,
    ) -> None:  # fmt: skip
        operands = []
        for i, how in prepared:
            if i is None:
                operands.append(
                    self._rows(how, table, bases, block) if type(how) is Rows else how
                )
                continue
            array = block if i < 0 else bases[i]
            if how is not None:
                shape, dtype, offset, strides = how
                array = np.ndarray(shape, dtype, array, offset, strides)
                array = array if shape else array[()]
            operands.append(array)
        node = step.node
        try:
            made = compute_op(node.op, operands, node.params)
        except (ValueError, TypeError, IndexError) as error:
            place = user_context(node)
            raise blame.explain_refusal(
                node.op, tuple(operands), error, place.code, place.lasti
            ) from error
        several: Any = node.spec
        if type(several) is not tuple:
            made = (made,)
        for i, value in zip(step.results, made, strict=True):
            wanted = self._given[i]
            if wanted is None:
                bases[i] = value
                continue
            array, (shape, dtype) = np.asarray(value), wanted
            if array.shape != shape or array.dtype != dtype:
                raise CompilerError(
                    f"{node.op.name} gave {array.dtype}{list(array.shape)}, and was to"
                    f" give {self.plan.buffers[i].spec}."
                )
            if not _is_own(array, operands):
                array = np.array(array, order="C")
            bases[i] = array
            table[i] = find_start(array)


#: An array one entry after the other, aligned: as flags of NumPy's. And one with memory
#: of its own, which may be written to.
PLAIN, OWN = 0x1 | 0x100, 0x1 | 0x100 | 0x4 | 0x400


def _is_own(array: Array, operands: Sequence[Any]) -> bool:
    """Return whether a result of NumPy owns its memory, in plain layout."""
    if array.flags.num & OWN != OWN:
        return False
    for x in operands:
        if type(x) is np.ndarray:
            base = x.base
            if x is array or base is array:
                return False
            deep = base is not None and getattr(base, "base", base) is not None
            if deep and np.may_share_memory(x, array):
                return False
    return True


def _round_piece(kernel: Kernel, piece: int) -> int:
    """Return a number of rounds that is whole vectors, if the rounds are vectors."""
    return -(-piece // 64) * 64 if len(kernel.lengths) == 1 else piece


def _contiguous(shape: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) * size for i in range(len(shape)))


# Cores


def count_threads() -> int:
    """Return how many cores share a kernel: ``WORKBENCH_THREADS``, or all.

    ``OMP_NUM_THREADS`` is asked too: who starts a process for each core, as Dask does,
    says so there.
    """
    for name in ("WORKBENCH_THREADS", "OMP_NUM_THREADS"):
        chosen = os.environ.get(name, "")
        if chosen.isdigit() and int(chosen) > 0:
            return int(chosen)
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class Crew:
    """Threads that help the caller with the rounds of a kernel, if free in time.

    All that they share is made of single steps of C: an interrupt in the main thread
    leaves no lock behind, as those of `concurrent.futures` may stay.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._size = 0

    def send(self, job: Callable[[], None], size: int) -> None:
        """Let one of so many threads do a job, which may find nothing left to do."""
        while self._size < size:
            self._size += 1
            try:
                _thread.start_new_thread(self._work, ())
            except RuntimeError:  # the system has no more, or Python is about to end
                break
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()


_crew = Crew()


def share_rounds(
    function: Any,
    table: Any,
    rounds: int,
    piece: int,
    memory: Any = None,
    alone: bool = False,
) -> None:
    """Run all rounds of a kernel, in pieces, on several cores.

    The memory is what the kernel reads and writes; it lives until all are done.
    ``alone``: on the core of the caller, for a kernel that asks its thread.
    """
    global _crew
    members = 1 if alone else min(count_threads(), -(-rounds // piece))
    if members == 1:
        for start in range(0, rounds, piece):
            function(table, start, min(start + piece, rounds))
        return
    starts = deque(range(0, rounds, piece))
    errors: list[BaseException] = []

    def run() -> None:
        while starts:
            try:
                start = starts.popleft()
            except IndexError:  # another took the last one
                return
            function(table, start, min(start + piece, rounds))

    kept = [memory]

    def help_along(lock: Any, kept: list[Any]) -> None:
        with lock:
            try:
                run()
            except BaseException as error:
                errors.append(error)

    locks = [_thread.allocate_lock() for _ in range(1, members)]
    if locks and _crew.process != os.getpid():  # a fork has no threads
        _crew = Crew()
    for lock in locks:
        _crew.send(partial(help_along, lock, kept), members - 1)
    run()
    for lock in locks:  # one that comes later finds nothing to do
        with lock:
            pass
    kept.clear()  # those that are still to come hold nothing
    if errors:
        raise errors[0]
