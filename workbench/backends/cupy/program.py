"""`Program`: a plan that runs on a GPU.

Its steps become actions on addresses: launches, products, copies, loops over actions.
A small program is captured once as CUDA graphs, on memory of its own, and repeated;
what cannot be captured, an op that CuPy computes, stands between them. Nothing waits
for the GPU but what says so: the condition of a choice, the end of a loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from workbench.backends.compiled import steps
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.cupy.actions import Action, Frame, write_actions
from workbench.backends.cupy.launches import ALIGNMENT
from workbench.backends.cupy.matrices import WORKSPACE
from workbench.backends.cupy.runtime import Address, Array, Runtime
from workbench.core import blame
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, is_weak
from workbench.errors import CompilerError, DeviceMemoryError

#: Inputs and outputs are copied where a program is captured: as many bytes for each
#: launch as cost a GPU no more time than the host needs to launch it.
COPIED = 2**23
#: Outputs of at most so many bytes lie in one array and are copied together: none of
#: them keeps much memory of the others.
TOGETHER = 2**16
#: Each of them begins at a multiple of so many bytes there, as CuPy's arrays do.
APART = 512
#: A program has CUDA graphs for inputs at so many sets of addresses.
MOST_BOUND = 4
#: What a call does, and whether it is a CUDA graph.
Part = tuple[Callable[[Frame], None], bool]
#: A CUDA graph has at least so many launches, and a program at most.
LEAST_CAPTURED, MOST_CAPTURED = 3, 20_000
#: It is captured after so many calls.
WARM = 2


class Program:
    """A graph at fixed shapes, compiled for a GPU.

    Attributes
    ----------
    plan
        Its steps and buffers.
    actions
        What a call does, in order.
    launches
        What its kernels are.
    captured
        How many CUDA graphs a call repeats; 0: it has not been captured.
    refusal
        Why it is not captured, in words; None: it is, or will be.

    Raises
    ------
    CompilerError
        If it cannot be compiled.
    """

    #: The code is in CuPy's own cache, which does not tell.
    cached = False
    #: Results may be views of one array, which `copy_aliases` tells apart.
    is_fresh = False

    def __init__(self, graph: Graph, runtime: Runtime) -> None:
        self.runtime = runtime
        self.plan = plan = lower(graph, runtime.description)
        with runtime.use(), runtime.guard():
            self.actions, self.launches = write_actions(plan, runtime)
            self.refusal = self._find_refusal()
            self.size = place_buffers(plan)
            buffers = list(enumerate(plan.buffers))
            #: The constants on the device.
            self._constants = {
                i: runtime.upload(b.value) for i, b in buffers if b.kind == "constant"
            }
            runtime.settle()  # others have streams of their own
        self._template = [0] * len(buffers)
        for i, array in self._constants.items():
            self._template[i] = runtime.find_address(array)
        self._inputs = [(i, b) for i, b in buffers if b.kind == "input"]
        self._outputs = [(i, b.spec) for i, b in buffers if b.kind == "output"]
        self._inner = [
            (i, b.offset)
            for i, b in buffers
            if b.kind in ("inner", "partial", "flag") and b.offset >= 0
        ]
        self._flag = plan.buffers[plan.flag].offset if plan.flag >= 0 else -1
        self._checked = self._list_checked() if self._flag >= 0 else ""
        self._lock = threading.Lock()
        self._calls = 0
        self._capture: _Capture | None = None

    # Runs

    def run(
        self,
        arrays: Sequence[Any],
        observe: Callable[[Action, float], None] | None = None,
    ) -> list[Any]:
        """Return the outputs for these inputs, as arrays that nobody else writes to.

        The inputs have the shapes and dtypes of the graph's leaves. ``observe`` gets
        the seconds of each action, and each action is waited for.

        Raises
        ------
        DeviceError
            If an index was out of bounds in an earlier call.
        """
        with self.runtime.use():
            return self._run(arrays, observe)

    def _run(
        self, arrays: Sequence[Any], observe: Callable[[Action, float], None] | None
    ) -> list[Any]:
        runtime = self.runtime
        self.check()
        with self._lock:
            if self._capture is None and self.refusal is None and observe is None:
                self._calls += 1
                if self._calls > WARM:
                    self._try_capture()
            if self._capture is not None and observe is None:
                return self._capture.run(arrays)
        frame = self._make_frame(arrays)
        if self._flag >= 0:
            runtime.clear(frame.places[self.plan.flag], 8)
        for action in self.actions:
            if observe is None:
                action.run(frame)
            else:
                observe(action, runtime.time(partial(action.run, frame)))
        return self.finish(frame)

    def _make_frame(self, arrays: Sequence[Any]) -> Frame:
        """Return the memory of one call."""
        runtime = self.runtime
        frame = Frame(runtime, self.plan, self._template[:], dict(self._constants))
        for i, buffer in self._inputs:
            frame.bind(i, self.fit_input(arrays[buffer.place], buffer.spec))
        block = runtime.make_array((max(self.size, 1),), _BYTE)
        start = runtime.find_address(block)
        frame.block = block
        for i, offset in self._inner:
            frame.places[i] = start + offset
        for i, spec in self._outputs:
            frame.bind(i, runtime.make_array(tuple(spec.shape), spec.dtype))
        return frame

    def fit_input(self, x: Any, spec: Any) -> Array:
        """Return an input in the form of kernels: contiguous, on the device.

        A number of the host becomes an array by a launch, without a transfer.
        """
        runtime = self.runtime
        if is_weak(x) or isinstance(x, np.generic):
            array = runtime.make_array((), spec.dtype)
            runtime.fill(array, x)
            return array
        array = runtime.pack(x)
        if runtime.find_address(array) % ALIGNMENT:
            array = array.copy()
        return array

    def finish(self, frame: Frame) -> list[Any]:
        """Return the outputs of a call that has been put on the stream."""
        if self._flag >= 0:
            place = frame.places[self.plan.flag]
            self.runtime.pending.add(self._checked, self.runtime.read_later(place))
        return [self._read(y, frame) for y in self.plan.outputs]

    def _read(self, y: Any, frame: Frame) -> Any:
        if isinstance(y, steps.Held):
            return frame.bases[y.buffer]
        if isinstance(y, steps.Rows):
            raise CompilerError("rows of which only the run knows the number.")
        if not isinstance(y, View):
            return self.runtime.upload(y) if isinstance(y, np.ndarray) else y
        kind = self.plan.buffers[y.buffer].kind
        if kind in ("output", "host"):
            whole = frame.bases[y.buffer]
            if y.shape == whole.shape and y.strides == whole.strides:
                return whole
        return frame.read(y).copy()

    def check(self, wait: bool = False) -> None:
        """Raise an error if an index was out of bounds in an earlier call.

        Parameters
        ----------
        wait
            Wait for the calls that are not done, and not only look at the others.
        """
        if self._flag >= 0:
            with self.runtime.use():
                self.runtime.pending.check(self._checked, wait)

    def _list_checked(self) -> str:
        """Return in words which nodes look whether their indices are in bounds."""
        names = [
            f"{blame.describe(node)}{blame.quote_site(node.site)}"
            for plan in _list_plans(self.plan)
            for node in plan.graph.interior
            if any(map(_has_integers, node.inputs))
            and ("key" in node.params or "index" in node.op.name)
        ]
        return " or ".join([*dict.fromkeys(names)][:3]) or "an index array"

    # Capture

    def _find_refusal(self) -> str | None:
        """Return the reason against a capture of the program, or None."""
        count = sum(action.count for action in self.actions)
        given = ("input", "output")
        known = [b.size for b in self.plan.buffers if b.kind in given]
        small = [b for b in self.plan.buffers if _is_small_output(b)]
        copies = len(known) - max(0, len(small) - 1)
        if count < LEAST_CAPTURED + copies:
            return (
                f"it has {count} launches, which cost less than to copy"
                f" {len(known)} inputs and outputs"
            )
        if count > MOST_CAPTURED:
            return f"it has {count:,} launches"
        if sum(known) > COPIED * count:
            return "its inputs and outputs are too large to copy them in each call"
        if not any(action.is_capturable for action in self.actions):
            return "no step of it can be captured"
        return None

    @property
    def captured(self) -> int:
        """The number of CUDA graphs that a call repeats."""
        return 0 if self._capture is None else self._capture.graphs

    def list_uncaptured(self) -> list[str]:
        """Return in words the steps that stand between CUDA graphs, and why."""
        return [
            action.describe() for action in self.actions if not action.is_capturable
        ]

    def _try_capture(self) -> None:
        try:
            with self.runtime.guard():
                self._capture = _Capture(self)
        except CompilerError as error:
            self.refusal = str(error)
        except DeviceMemoryError as error:  # the next calls would try in vain
            self.refusal = f"its buffers do not fit into memory: {error}"

    # Memory

    @property
    def memory(self) -> int:
        """The bytes that a call takes: temporary memory, and results."""
        results = [b for b in self.plan.buffers if b.kind in ("output", "host")]
        size = self.size + sum(b.known_size for b in results)
        capture = self._capture  # another thread may let go of it
        if capture is not None:
            size += 0 if capture.workspace is None else WORKSPACE
        return size

    def release(self) -> None:
        """Let the memory go that is kept for the next call."""
        with self._lock:
            self._capture = None
            self._calls = 0

    def make_entry(self, *args: Any, **named: Any) -> None:
        """Return None: a call of a GPU is not made without Python."""


_BYTE = np.dtype(np.uint8)


def _list_plans(plan: steps.Plan) -> Iterator[steps.Plan]:
    """Yield a plan, and those of the loops and choices inside."""
    pending = [plan]
    while pending:
        plan = pending.pop()
        yield plan
        for step in plan.steps:
            if isinstance(step, steps.LoopStep):
                pending.append(step.program.plan)
            elif isinstance(step, steps.ChoiceStep):
                pending += [program.plan for program in step.programs]


def _is_small_output(buffer: steps.Buffer) -> bool:
    return buffer.kind == "output" and buffer.size <= TOGETHER


def _has_integers(x: object) -> bool:
    if not (isinstance(x, Tensor) and isinstance(x.spec, Spec)):  # a tuple, of a loop
        return False
    return x.spec.dtype.kind in "iu"


class _Capture:
    """The CUDA graphs of a program, on memory that no other program uses.

    A graph reads its inputs from memory of its own, into which they are copied; one
    that is made later, where calls give arrays at the same addresses again and again,
    reads them there.

    Attributes
    ----------
    graphs
        How many there are in one call.
    workspace
        The work memory of products, which are one after the other; None: there is none.
    """

    _mark: Any = None

    def __init__(self, program: Program) -> None:
        self._program = program
        self._runtime = runtime = program.runtime
        plan = program.plan
        examples: dict[int, Array] = {}
        for _, b in program._inputs:
            array = runtime.make_array(tuple(b.spec.shape), b.spec.dtype)
            runtime.fill(array, 0)
            examples[b.place] = array
        self._frame = program._make_frame([examples[k] for k in sorted(examples)])
        self.workspace: Array = None
        #: Where results of ops lie that CuPy computes, which graphs read.
        self._hosts: dict[int, Array] = {}
        for i, buffer in enumerate(plan.buffers):
            if buffer.kind == "host" and buffer.known_size:
                array = runtime.make_array(tuple(buffer.spec.shape), buffer.spec.dtype)
                self._hosts[i] = array
                self._frame.bind(i, array)
        self._inputs = [
            (i, b.place, self._frame.places[i], b.size) for i, b in program._inputs
        ]
        joined = [i for i, _ in program._outputs if _is_small_output(plan.buffers[i])]
        if len(joined) < 2:
            joined = []
        self._outputs = [
            (i, tuple(spec.shape), spec.dtype, plan.buffers[i].size)
            for i, spec in program._outputs if i not in joined
        ]  # fmt: skip
        self._join_outputs(joined)
        #: What a call does where inputs are copied, and for inputs at some addresses.
        self._copying = self._make_parts()
        self.graphs = sum(is_graph for _, is_graph in self._copying)
        self._bound: dict[tuple[Address, ...], list[Part]] = {}
        self._seen: tuple[Address, ...] = ()
        #: More CUDA graphs may be made: none has failed.
        self._binds = True
        #: Behind the last run. It is waited for on every stream: two threads may have
        #: one each, and CuPy calls them equal.
        self._mark = runtime.mark()

    def __del__(self) -> None:
        # The memory goes back to the stream that it was made on, and the last run may
        # be on another.
        with suppress(Exception):  # a device that has stopped
            if self._mark is not None:
                self._runtime.wait(self._mark)

    def _join_outputs(self, numbers: Sequence[int]) -> None:
        """Give these outputs places in one array, which is copied as a whole."""
        plan, runtime = self._program.plan, self._runtime
        #: How each of them is a view of the array.
        self._joined: list[tuple[Any, ...]] = []
        self._joined_size = 0
        for i in numbers:
            spec = plan.buffers[i].spec
            shape, strides = tuple(spec.shape), steps.pack_strides(spec)
            self._joined.append((i, self._joined_size, shape, strides, spec.dtype))
            self._joined_size += -(-plan.buffers[i].size // APART) * APART
        if self._joined_size:
            block = runtime.make_array((self._joined_size,), _BYTE)
            for i, *view in self._joined:
                self._frame.bind(i, runtime.view(block, *view))
            self._joined_block = block

    def _make_parts(self) -> list[Part]:
        """Return the parts of a call: CUDA graphs, and actions between them."""
        parts: list[Part] = []
        pending: list[Action] = []
        for action in (*self._program.actions, None):
            if action is not None and action.is_capturable:
                pending.append(action)
                continue
            if sum(one.count for one in pending) < LEAST_CAPTURED:
                parts += [(one.run, False) for one in pending]
            else:
                parts.append((self._capture(tuple(pending)), True))
            pending.clear()
            if action is not None:
                parts.append((action.run, False))
        return parts

    def _capture(self, actions: tuple[Action, ...]) -> Callable[[Frame], None]:
        """Return a function that repeats some actions on the frame's addresses."""
        multiplies = any(action.multiplies for action in actions)
        if multiplies and self.workspace is None:
            self.workspace = self._runtime.make_array((WORKSPACE,), _BYTE)

        def run() -> None:
            for action in actions:
                action.run(self._frame)

        replay = self._runtime.capture(run, self.workspace if multiplies else None)
        return lambda frame: replay()

    def _find_bound(self, addresses: tuple[Address, ...]) -> list[Part] | None:
        """Return the parts for inputs at some addresses; capture them when due."""
        found = self._bound.get(addresses)
        if found is not None or not self._binds or len(self._bound) >= MOST_BOUND:
            return found
        if addresses != self._seen or not all(addresses):
            self._seen = addresses
            return None
        places = self._frame.places
        try:
            for (i, *_), address in zip(self._inputs, addresses, strict=True):
                places[i] = address
            with self._runtime.guard():
                made = self._bound[addresses] = self._make_parts()
        except (CompilerError, DeviceMemoryError):
            # Inputs are copied as before; the next calls would try in vain.
            self._binds = False
            return None
        finally:
            for i, _, place, _ in self._inputs:
                places[i] = place
        return made

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs for these inputs, as copies.

        Its program lets one thread do so at a time.
        """
        self._runtime.follow(self._mark)
        try:
            return self._run(arrays)
        finally:
            self._mark = self._runtime.mark(self._mark)

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        runtime, program, fixed = self._runtime, self._program, self._frame
        bases = fixed.bases.copy()
        frame = Frame(runtime, program.plan, fixed.places, bases)
        frame.block = fixed.block
        frame.kept = self._hosts
        addresses, given = [], []
        for i, place, target, size in self._inputs:
            x = arrays[place]
            if not runtime.owns(x):
                runtime.fill(fixed.bases[i], x)
                addresses.append(0)
                continue
            x = bases[i] = runtime.pack(x)
            address = runtime.find_address(x)
            addresses.append(0 if address % ALIGNMENT else address)
            given.append((target, address, size))
        parts = self._find_bound(tuple(addresses))
        if parts is None:
            parts = self._copying
            for one in given:
                runtime.copy(*one)
        else:
            # What stands between graphs reads them there too.
            frame.places = fixed.places[:]
            for (i, *_), address in zip(self._inputs, addresses, strict=True):
                frame.places[i] = address
        if program._flag >= 0:
            runtime.clear(frame.places[program.plan.flag], 8)
        for part, _ in parts:
            part(frame)
        for i, shape, dtype, size in self._outputs:
            array = runtime.make_array(shape, dtype)
            runtime.copy(runtime.find_address(array), frame.places[i], size)
            bases[i] = array
        if size := self._joined_size:
            block = runtime.make_array((size,), _BYTE)
            source = runtime.find_address(self._joined_block)
            runtime.copy(runtime.find_address(block), source, size)
            for i, *view in self._joined:
                bases[i] = runtime.view(block, *view)
        return program.finish(frame)
