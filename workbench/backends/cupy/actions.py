"""What a step does on a GPU: launches, products, copies, calls of CuPy, loops.

An action works on a `Frame`, which knows where each buffer of a plan lies in one call.
A loop has a frame of its own for its step, and fills it anew for each, so that nothing
is copied that need not be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.kernel import Kernel, View
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.program import Retreat
from workbench.backends.compiled.steps import (
    LINE,
    Buffer,
    ChoiceStep,
    Held,
    HostStep,
    InnerProgram,
    KernelStep,
    LoopStep,
    MoveStep,
    NestedStep,
    Plan,
    Rows,
    Step,
    count_work,
    is_plain,
    list_nodes,
    pack_strides,
    plan_choice,
    plan_loop,
)
from workbench.backends.cupy.launches import ALIGNMENT, Launch
from workbench.backends.cupy.matrices import Gemm, write_gemms
from workbench.backends.cupy.obstacles import explain_call
from workbench.backends.cupy.runtime import Address, Array, Runtime
from workbench.core import blame
from workbench.core.deferred import compute_op
from workbench.core.op import CudaCall
from workbench.core.schedule import user_context
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec
from workbench.errors import CompilerError

#: Both branches of a choice run where they are so many launches, and entries of nodes
#: at most: they take some microseconds then, and less than to wait for the condition.
MOST_BOTH, MOST_WORK = 16, 2**20
#: Constants as steps have them.
ARRAYS = np.ndarray, np.generic


class Frame:
    """Where the buffers of a plan lie in one call.

    Attributes
    ----------
    places
        The address of each buffer.
    bases
        The arrays of those that do not lie in the block: inputs, outputs, what CuPy
        gives.
    block
        The memory of all others.
    kept
        Arrays of fixed places that get a copy of what CuPy gives.
    """

    def __init__(
        self,
        runtime: Runtime,
        plan: Plan,
        places: list[Address],
        bases: dict[int, Array],
    ) -> None:
        self.runtime = runtime
        self.plan = plan
        self.places = places
        self.bases = bases
        self.block: Array = None
        self.kept: dict[int, Array] = {}

    def bind(self, buffer: int, array: Array) -> None:
        """Let a buffer be an array."""
        self.bases[buffer] = array
        self.places[buffer] = self.runtime.find_address(array)

    def locate(self, view: View) -> Address:
        """Return where a view begins."""
        return self.places[view.buffer] + view.offset

    def read(self, view: View) -> Array:
        """Return a view as an array."""
        offset = self.plan.buffers[view.buffer].offset
        inside = offset >= 0 and view.buffer not in self.bases
        return self.runtime.view(
            self.block if inside else self.bases[view.buffer],
            view.offset + (offset if inside else 0),
            view.shape,
            view.strides,
            np.dtype(view.kind),
        )


class Action(ABC):
    """One action of a call, after the actions before.

    Attributes
    ----------
    step
        The number of the step of the plan that it is of.
    count
        How many launches it is, about.
    is_capturable
        It can be a part of a CUDA graph.
    multiplies
        cuBLAS is called.
    """

    step = -1
    count = 1
    is_capturable = True
    multiplies = False

    @abstractmethod
    def run(self, frame: Frame) -> None:
        """Put the action on the stream."""

    def describe(self) -> str:
        """Return a description of the action."""
        return type(self).__name__


class LaunchAction(Action):
    """A kernel is launched.

    Attributes
    ----------
    function
        What launches it, of the addresses of its pointers; set when it is loaded.
    """

    function: Callable[..., None]

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def run(self, frame: Frame) -> None:
        """Launch the kernel."""
        places = frame.places
        self.function(*[places[i] + offset for i, offset in self.launch.pointers])

    def describe(self) -> str:
        """Return its name."""
        return f"the kernel {self.launch.name}"


class ClearAction(Action):
    """A buffer becomes zero."""

    def __init__(self, buffer: int, size: int) -> None:
        self.buffer = buffer
        self.size = size

    def run(self, frame: Frame) -> None:
        """Clear the buffer."""
        frame.runtime.clear(frame.places[self.buffer], self.size)


class ProductAction(Action):
    """Products of matrices, by cuBLAS."""

    multiplies = True

    def __init__(self, gemms: Sequence[Gemm]) -> None:
        self.gemms = gemms
        self.count = len(gemms)

    def run(self, frame: Frame) -> None:
        """Call cuBLAS."""
        places = frame.places
        for gemm in self.gemms:
            addresses = [places[i] + offset for i, offset in gemm.places]
            frame.runtime.multiply(gemm, addresses)

    def describe(self) -> str:
        """Return the lengths of its first product."""
        one = self.gemms[0]
        return f"the product of {one.rows} × {one.depth} × {one.columns}"


class HostAction(Action):
    """An op that CuPy's function computes, on the device."""

    is_capturable = False
    count = 0

    def __init__(self, step: HostStep, plan: Plan, runtime: Runtime) -> None:
        self.node = step.node
        self._results = step.results
        kinds = runtime.description.kinds
        self._specs = [
            plan.buffers[i].spec if is_plain(plan.buffers[i].spec, kinds) else None
            for i in step.results
        ]
        if any(isinstance(x, Rows) for x in step.operands):
            raise CompilerError(
                f"{step.node.op.name} reads rows of which only the run knows the number"
            )
        self._operands = [
            runtime.upload(x) if isinstance(x, np.ndarray) else x for x in step.operands
        ]

    def run(self, frame: Frame) -> None:
        """Compute the node by NumPy's or CuPy's function."""
        operands = tuple(
            frame.read(x)
            if isinstance(x, View)
            else frame.bases[x.buffer]
            if isinstance(x, Held)
            else x
            for x in self._operands
        )
        node = self.node
        try:
            made = compute_op(node.op, operands, node.params)
        except (ValueError, TypeError, IndexError) as error:
            place = user_context(node)
            raise blame.explain_refusal(
                node.op, operands, error, place.code, place.lasti
            ) from error
        several: Any = node.spec
        if not isinstance(several, tuple):
            made = (made,)
        for i, spec, value in zip(self._results, self._specs, made, strict=True):
            if spec is None:
                frame.bases[i] = value
            else:
                self._keep(frame, i, spec, value, operands)

    def _keep(
        self, frame: Frame, i: int, spec: Spec, value: Any, operands: tuple[Any, ...]
    ) -> None:
        """Keep a result as an array that shares its memory with no other."""
        runtime = frame.runtime
        array = value if runtime.owns(value) else runtime.upload(np.asarray(value))
        if tuple(array.shape) != tuple(spec.shape):
            raise CompilerError(
                f"{self.node.op.name} gave {array.dtype}{list(array.shape)}, and was to"
                f" give {spec}."
            )
        if array.dtype != spec.dtype:
            array = array.astype(spec.dtype)
        shared = array.base is not None or any(array is x for x in operands)
        array = array.copy() if shared else runtime.pack(array)
        kept = frame.kept.get(i)
        if kept is None:
            frame.bind(i, array)
        else:
            frame.bases[i] = array
            place = frame.places[i]
            runtime.copy(place, runtime.find_address(array), int(array.nbytes))

    def describe(self) -> str:
        """Return the op, the library that computes the node, and an alternative."""
        return explain_call(self.node)


class CallAction(Action):
    """A user's kernel is launched, after its results have become zero."""

    def __init__(
        self, step: HostStep, call: CudaCall, operands: Sequence[View], plan: Plan,
        runtime: Runtime,
    ) -> None:  # fmt: skip
        self.node = step.node
        self._operands = operands
        self._results = [(i, plan.buffers[i].size) for i in step.results]
        self._function = runtime.load_call(call)
        self.count = 1 + len(self._results)

    def run(self, frame: Frame) -> None:
        """Launch the user's kernel."""
        places = [frame.places[i] for i, _ in self._results]
        for place, (_, size) in zip(places, self._results, strict=True):
            frame.runtime.clear(place, size)
        self._function(*map(frame.locate, self._operands), *places)

    def describe(self) -> str:
        """Return its op."""
        return f"the kernel of {self.node.op.name}"


# Programs inside of steps


class _NestedAction(Action):
    """An action that runs programs, in the memory of its frame."""

    def __init__(self, step: NestedStep, plan: Plan) -> None:
        self.node = step.node
        self.frame = step.frame
        self.results = step.results
        self.kinds = [plan.buffers[i].kind for i in step.results]
        if "growing" in self.kinds:
            raise CompilerError(
                f"{step.node.op.name} has rows of which only the run knows the number"
            )
        #: The size of what it uses of its frame.
        self.used = 0

    def reserve(self, size: int) -> int:
        """Return a place of so many bytes in the frame."""
        at = self.used
        self.used += -(-max(size, 1) // LINE) * LINE
        return at

    def make_table(self, frame: Frame, program: InnerProgram, start: int) -> Frame:
        """Return the frame of a program with its own memory at an address."""
        buffers = program.plan.buffers
        places = [0] * len(buffers)
        for outer, inner in program.shared:
            places[inner] = frame.places[outer]
        for i, buffer in enumerate(buffers):
            if buffer.offset >= 0:
                places[i] = start + buffer.offset
        return Frame(frame.runtime, program.plan, places, {})


class _Operand:
    """An operand that a program reads in place, or from a copy.

    Kernels take what begins at a multiple of `ALIGNMENT`.
    """

    def __init__(
        self, view: View, action: _NestedAction, step: int = 0, shift: int = 0
    ) -> None:
        self.view = view
        self.step = step
        self.shape = view.shape[shift:]
        self.strides = view.strides[shift:]
        self.spot = -1
        if view.offset % ALIGNMENT or step % ALIGNMENT:
            if any(n < 0 for n in self.strides):
                raise CompilerError("rows that lie backwards, and at odd places")
            self.spot = action.reserve(self.size)

    @property
    def size(self) -> int:
        """The bytes from the first entry to the last."""
        if 0 in self.shape:
            return 0
        apart = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return apart + int(self.view.kind[1:])

    def place(self, frame: Frame, start: Address, t: int = 0) -> Address:
        """Return the operand's address in a step; copy the operand there if needed."""
        address = frame.locate(self.view) + t * self.step
        if self.spot < 0:
            return address
        frame.runtime.copy(start + self.spot, address, self.size)
        return start + self.spot


class LoopAction(_NestedAction):
    """A loop: the actions of a step, repeated."""

    def __init__(self, step: LoopStep, plan: Plan, actions: Sequence[Action]) -> None:
        super().__init__(step, plan)
        what = self.what = step.repetition
        self.program = step.program
        self.actions = actions
        self.steps = step.steps
        self.flag = step.flag
        body = self.body = step.program.plan
        leaves = [i for i, x in enumerate(body.buffers) if x.kind == "input"]
        skipped = len(step.operands) - len(what.body.leaves)
        self._given: View | None = step.operands[0] if skipped else None
        operands = step.operands[skipped:]
        first = what.consts + what.seqs
        self._own = self.reserve(place_buffers(body))
        self._consts = [
            (i, _Operand(x, self))
            for i, x in zip(leaves, operands[: what.consts], strict=False)
        ]
        self._seqs = []
        for i, x in zip(
            leaves[what.consts :], operands[what.consts : first], strict=False
        ):
            if x.length is not None:
                raise CompilerError("a loop over rows of which only the run knows")
            operand = _Operand(x.view, self, x.view.strides[0], 1)
            self._seqs.append((i, operand))
        self._carried = leaves[first:]
        self._firsts = [_Operand(x, self) for x in operands[first:]]
        if self.steps is None and self._given is None:
            raise CompilerError("a loop of which nothing tells the number of steps")
        self._targets = plan_loop(step, self.kinds, self.reserve, ALIGNMENT)
        plan.buffers[step.frame].spec = Spec((self.used,), np.dtype(np.uint8))
        inner = sum(a.count for a in actions) + len(self._targets.copies)
        self.count = int(inner * (self.steps or 1))
        self.multiplies = any(a.multiplies for a in actions)
        self.is_capturable = (
            self._given is None
            and not what.until
            and all(a.is_capturable for a in actions)
        )

    def run(self, frame: Frame) -> None:
        """Run the steps one after the other."""
        what, body, runtime = self.what, self.body, frame.runtime
        targets = self._targets
        start = frame.places[self.frame]
        inner = self.make_table(frame, self.program, start + self._own)
        table = inner.places
        for i, operand in self._consts:
            table[i] = operand.place(frame, start)
        for i, operand in zip(self._carried, self._firsts, strict=True):
            table[i] = operand.place(frame, start)
        count = self._count_steps(frame)
        made = 0
        ended = not what.until
        for k in range(count):
            t = count - 1 - k if what.reverse else k
            for i, operand in self._seqs:
                table[i] = operand.place(frame, start, t)
            self._keep_marks(frame, table, t)
            for place, number in targets.results.items():
                size = body.buffers[place].size
                table[place] = frame.places[self.results[number]] + t * size
            for place, spot in targets.spots.items():
                table[place] = start + spot + k % 2 * targets.turns.get(place, 0)
            for action in self.actions:
                action.run(inner)
            for number, place in targets.copies:
                size = body.buffers[place].size
                target = frame.places[self.results[number]] + t * size
                runtime.copy(target, table[place], size)
            for k_, leaf in enumerate(self._carried):
                table[leaf] = table[body.outputs[k_].buffer]
            made += 1
            if what.until:
                stop = body.outputs[-1]
                if runtime.read(table[stop.buffer] + stop.offset, np.dtype(bool)):
                    ended = True
                    break
        if what.limited and count and not ended:
            raise Retreat
        self._fill_results(frame, table, made)

    def _count_steps(self, frame: Frame) -> int:
        if self._given is None:
            assert self.steps is not None
            return self.steps
        view = self._given
        count = frame.runtime.read(frame.locate(view), np.dtype(view.kind))
        rows = [operand.view.shape[0] for _, operand in self._seqs]
        if count < 0 or any(n >= 0 and count > n for n in rows):
            raise Retreat
        return count

    def _keep_marks(self, frame: Frame, table: list[Address], t: int) -> None:
        """Keep values before every so many steps."""
        what = self.what
        for number, (kind, carry) in enumerate(what.results):
            if kind != "marks" or self.kinds[number] == "absent" or t % what.every:
                continue
            leaf = self._carried[carry]
            size = self.body.buffers[leaf].size
            target = frame.places[self.results[number]] + t // what.every * size
            frame.runtime.copy(target, table[leaf], size)

    def _fill_results(self, frame: Frame, table: list[Address], made: int) -> None:
        """Fill in the results of the loop after its end."""
        for number, (kind, k) in enumerate(self.what.results):
            i = self.results[number]
            if self.kinds[number] == "absent":
                continue
            if kind == "last":
                leaf = self._carried[k]
                size = self.body.buffers[leaf].size
                frame.runtime.copy(frame.places[i], table[leaf], size)
            elif kind == "count":
                frame.runtime.write_number(frame.places[i], made)

    def describe(self) -> str:
        """Return the op, and the reason against a capture if there is one."""
        name = self.node.op.name
        if self.what.until:
            return (
                f"{name}, which the host must ask after each step whether it ends: a"
                " wb.scan with a fixed number of steps is captured"
            )
        if self._given is not None:
            return (
                f"{name}, whose number of steps the host must read: a number that does"
                " not come from the GPU is captured"
            )
        inside = (x.describe() for x in self.actions if not x.is_capturable)
        return next((f"{name}, in which is {x}" for x in inside), name)


class ChoiceAction(_NestedAction):
    """A choice of two programs; the host waits for the condition."""

    is_capturable = False

    def __init__(
        self, step: ChoiceStep, plan: Plan, actions: Sequence[Sequence[Action]]
    ) -> None:
        super().__init__(step, plan)
        self.programs = step.programs
        self.actions = actions
        self._condition: View = step.operands[0]
        self._given = [_Operand(x, self) for x in step.operands[1:]]
        sizes = [place_buffers(program.plan) for program in step.programs]
        self._own = self.reserve(max(sizes))
        self._targets = [
            plan_choice(program, self.kinds, self.reserve) for program in step.programs
        ]
        plan.buffers[step.frame].spec = Spec((self.used,), np.dtype(np.uint8))
        self.count = max(sum(a.count for a in some) for some in actions)

    def run(self, frame: Frame) -> None:
        """Wait for the condition, and run one of the programs."""
        runtime, view = frame.runtime, self._condition
        chosen = runtime.read(frame.locate(view), np.dtype(view.kind))
        which = 0 if chosen else 1
        program = self.programs[which]
        start = frame.places[self.frame]
        inner = self.make_table(frame, program, start + self._own)
        table, buffers = inner.places, program.plan.buffers
        leaves = [i for i, x in enumerate(buffers) if x.kind == "input"]
        for i, operand in zip(leaves, self._given, strict=True):
            table[i] = operand.place(frame, start)
        targets = self._targets[which]
        places = [frame.places[i] for i in self.results]
        for place, number in targets.results.items():
            table[place] = places[number]
        for place, spot in targets.spots.items():
            table[place] = start + spot
        for action in self.actions[which]:
            action.run(inner)
        for number, place in targets.copies:
            runtime.copy(places[number], table[place], buffers[place].size)

    def describe(self) -> str:
        """Return the op, and the reason against a capture."""
        return (
            f"{self.node.op.name}, whose condition the host must read: np.where of both"
            " results is captured, and so are short branches of kernels"
        )


class BothAction(_NestedAction):
    """Both programs of a choice, each into memory of its own; kernels choose then.

    Attributes
    ----------
    spots
        For each program the buffer of the plan outside that an output of it fills.
    """

    def __init__(
        self, step: ChoiceStep, plan: Plan, actions: Sequence[Sequence[Action]],
        spots: Sequence[Mapping[int, int]],
    ) -> None:  # fmt: skip
        super().__init__(step, plan)
        self.programs = step.programs
        self.actions = actions
        self.spots = spots
        self._given = [_Operand(x, self) for x in step.operands[1:]]
        # They run one after the other: the second may write over what the first used.
        self._own = self.reserve(max(place_buffers(x.plan) for x in step.programs))
        plan.buffers[step.frame].spec = Spec((self.used,), np.dtype(np.uint8))
        self.count = sum(a.count for some in actions for a in some)
        self.multiplies = any(a.multiplies for some in actions for a in some)

    def run(self, frame: Frame) -> None:
        """Run both programs."""
        start = frame.places[self.frame]
        for program, actions, spots in zip(
            self.programs, self.actions, self.spots, strict=True
        ):
            inner = self.make_table(frame, program, start + self._own)
            buffers = enumerate(program.plan.buffers)
            leaves = [i for i, x in buffers if x.kind == "input"]
            for i, operand in zip(leaves, self._given, strict=True):
                inner.places[i] = operand.place(frame, start)
            for i, spot in spots.items():
                inner.places[i] = frame.places[spot]
            for action in actions:
                action.run(inner)

    def describe(self) -> str:
        """Return its op."""
        return f"both branches of {self.node.op.name}"


# From steps to actions


def write_actions(plan: Plan, runtime: Runtime) -> tuple[list[Action], list[Launch]]:
    """Return the actions of a plan, and the launches of its kernels.

    The plan gets buffers that kernels need for themselves: its memory is placed after
    this.

    Raises
    ------
    CompilerError
        If a step cannot run on the device.
    """
    writer = _Writer(runtime)
    actions = writer.write_plan(plan)
    launches = [action.launch for action in writer.launched]
    for action, function in zip(writer.launched, runtime.load(launches), strict=True):
        action.function = function
    return actions, launches


class _Writer:
    """Makes the actions of plans, those inside of steps among them."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.launched: list[LaunchAction] = []

    def write_plan(self, plan: Plan) -> list[Action]:
        """Return the actions of a plan."""
        actions: list[Action] = []
        for number, step in enumerate(plan.steps):
            before = len(plan.buffers)
            made = self.write_step(step, plan)
            for buffer in plan.buffers[before:]:
                if buffer.first < 0:
                    buffer.first = buffer.last = number
            for action in made:
                action.step = number
            actions += made
        return actions

    def write_step(self, step: Step, plan: Plan) -> list[Action]:
        """Return the actions of a step."""
        if isinstance(step, KernelStep):
            return self.write_kernel(step.kernel, plan)
        if isinstance(step, ProductStep):
            return [ProductAction(write_gemms(step))]
        if isinstance(step, MoveStep):
            actions: list[Action] = []
            if step.zeros >= 0:
                actions.append(ClearAction(step.zeros, plan.buffers[step.zeros].size))
            for part in step.parts:
                actions += self.write_kernel(part, plan)
            return actions
        if isinstance(step, HostStep):
            called = self.write_call(step, plan)
            return called or [HostAction(step, plan, self.runtime)]
        if isinstance(step, LoopStep):
            return [LoopAction(step, plan, self.write_plan(step.program.plan))]
        if isinstance(step, ChoiceStep):
            inside = [self.write_plan(program.plan) for program in step.programs]
            if self._is_cheap(step, inside):
                return self.write_both(step, plan, inside)
            return [ChoiceAction(step, plan, inside)]
        raise CompilerError(f"{list_nodes(step)[0].op.name} is a step of LAPACK.")

    def _is_cheap(self, step: ChoiceStep, inside: Sequence[Sequence[Action]]) -> bool:
        """Return whether both branches take less than a wait for the condition.

        Neither may look whether indices are in bounds: the one not taken would tell.
        """
        actions = [action for some in inside for action in some]
        plans = [program.plan for program in step.programs]
        return (
            step.operands[0].kind == "b1"
            and all(action.is_capturable for action in actions)
            and all(plan.flag < 0 for plan in plans)
            and sum(action.count for action in actions) <= MOST_BOTH
            and sum(map(count_work, plans)) <= MOST_WORK
        )

    def write_both(
        self, step: ChoiceStep, plan: Plan, inside: Sequence[Sequence[Action]]
    ) -> list[Action]:
        """Return both branches of a choice, and the kernels that choose."""
        spots: list[dict[int, int]] = []
        for program in step.programs:
            spots.append({})
            for y in program.plan.outputs:
                if y.buffer not in spots[-1]:
                    spec = program.plan.buffers[y.buffer].spec
                    spots[-1][y.buffer] = add_buffer(plan, Buffer("inner", spec)).buffer
        actions: list[Action] = [BothAction(step, plan, inside, spots)]
        outputs = [program.plan.outputs for program in step.programs]
        for i, *ys in zip(step.results, *outputs, strict=True):
            result = plan.buffers[i]
            if result.kind == "absent":
                continue
            spec = result.spec
            condition = make_leaf_like(Spec((), np.dtype(bool)))
            ways = [make_leaf_like(spec) for _ in ys]
            chosen: Any = np.where(condition, *ways)
            view = whole_view(i, spec)
            loads = {condition.serial: step.operands[0].broadcast(spec.shape)}
            for way, y, own in zip(ways, ys, spots, strict=True):
                loads[way.serial] = view._replace(buffer=own[y.buffer])
            kernel = Kernel(spec.shape, [chosen], loads, [(chosen.serial, view)], ())
            actions += self.write_kernel(kernel, plan)
        return actions

    def write_call(self, step: HostStep, plan: Plan) -> list[Action]:
        """Return the launch of a user's kernel; nothing, if CuPy must compute the node.

        Its results lie where the memory plan has them, so that it can be captured.
        Operands that do not lie one entry after the other are copied before.
        """
        call = find_call(step, plan, self.runtime.description.kinds)
        if call is None:
            return []
        actions: list[Action] = []
        operands = []
        for x in step.operands:
            if isinstance(x, ARRAYS):
                array = np.ascontiguousarray(x)
                spec = Spec(array.shape, array.dtype)
                view = add_buffer(plan, Buffer("constant", spec, value=array))
            elif x.strides == pack_strides(Spec(x.shape, np.dtype(x.kind))):
                view = x
            else:
                view = add_buffer(
                    plan, Buffer("inner", Spec(x.shape, np.dtype(x.kind)))
                )
                kernel = Kernel(x.shape, (), {-1: x}, [(-1, view)], ())
                actions += self.write_kernel(kernel, plan)
            operands.append(view)
        for i in step.results:
            plan.buffers[i].kind = "inner"
        actions.append(CallAction(step, call, operands, plan, self.runtime))
        return actions

    def write_kernel(self, kernel: Kernel, plan: Plan) -> list[Action]:
        """Return the launches of a kernel."""
        made = [LaunchAction(x) for x in self.runtime.write(kernel, plan)]
        self.launched += made  # they are loaded later
        return [*made]


def find_call(step: HostStep, plan: Plan, kinds: Collection[str]) -> CudaCall | None:
    """Return the user's kernel that computes a step; None: CuPy does."""
    op = step.node.op
    results = [plan.buffers[i] for i in step.results]
    if op.lower is None or not all(is_plain(b.spec, kinds) and b.size for b in results):
        return None
    if not all(isinstance(x, (View, *ARRAYS)) for x in step.operands):
        return None
    call = op.lower(step.node, "cupy")
    # Else it is a loop that runs op by op, say.
    return call if isinstance(call, CudaCall) else None


def add_buffer(plan: Plan, buffer: Buffer) -> View:
    """Add a buffer to a plan; return a view of the whole buffer."""
    plan.buffers.append(buffer)
    return whole_view(len(plan.buffers) - 1, buffer.spec)


def whole_view(i: int, spec: Spec) -> View:
    """Return all of a buffer."""
    return View(i, 0, spec.shape, pack_strides(spec), spec.dtype.str[1:])
