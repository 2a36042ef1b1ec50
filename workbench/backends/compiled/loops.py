"""Loops and choices as native code: a plan inside of a plan.

The program of a step runs on a table of buffers of its own, which the loop fills: with
an entry of each sequence, with the place of each value that the step before has handed
on, with the row that an output is to fill. So nothing is copied that need not be. Rows
of which only the run knows how many lie in memory that grows, and that is kept for the
next call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled import steps
from workbench.backends.compiled.builder import Builder, Value
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.kernel_code import write_kernel, write_zeros
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.products import ProductStep, write_product
from workbench.backends.compiled.systems import SystemStep, write_system
from workbench.core.types import Spec
from workbench.errors import CompilerError

#: What a long loop asks Python, which has handed its lock on.
SIGNALS = {
    "PyGILState_Ensure": "declare i32 @PyGILState_Ensure()",
    "PyGILState_Release": "declare void @PyGILState_Release(i32)",
    "PyErr_CheckSignals": "declare i32 @PyErr_CheckSignals()",
    "PyErr_Clear": "declare void @PyErr_Clear()",
}
#: A function and how many rounds of its outermost loop it makes.
Call = tuple[str, int]

#: Makes room for so many bytes of rows, twice as many as it had; false: there is none.
GROW = """define i1 @grow(ptr %state, i64 %bytes) {
start:
  %place = getelementptr i64, ptr %state, i64 1
  %have = load i64, ptr %place, align 8
  %enough = icmp sge i64 %have, %bytes
  br i1 %enough, label %good, label %more
more:
  %twice = shl i64 %have, 1
  %larger = icmp sgt i64 %twice, %bytes
  %some = select i1 %larger, i64 %twice, i64 %bytes
  %least = icmp sgt i64 %some, 1024
  %size = select i1 %least, i64 %some, i64 1024
  %old = load ptr, ptr %state, align 8
  %new = call ptr @realloc(ptr %old, i64 %size)
  %none = icmp eq ptr %new, null
  br i1 %none, label %bad, label %keep
keep:
  store ptr %new, ptr %state, align 8
  store i64 %size, ptr %place, align 8
  br label %good
good:
  ret i1 true
bad:
  ret i1 false
}"""


def write_step(
    machine: Machine, name: str, step: steps.Step, plan: steps.Plan
) -> tuple[list[Builder], list[Call]]:
    """Return a native step as functions, and their calls in order.

    Raises
    ------
    CompilerError
        If the step is not native.
    """
    if isinstance(step, steps.KernelStep):
        return [write_kernel(machine, name, step.kernel)], [
            (name, step.kernel.lengths[0])
        ]
    if isinstance(step, ProductStep):
        return [write_product(machine, name, step)], [(name, step.rounds)]
    if isinstance(step, steps.MoveStep):
        builders, calls = [], []
        if step.zeros >= 0:
            size = plan.buffers[step.zeros].size
            builders.append(write_zeros(machine, f"{name}_zeros", step.zeros, size))
            calls.append((f"{name}_zeros", 0))
        for k, part in enumerate(step.parts):
            builders.append(write_kernel(machine, f"{name}_{k}", part))
            calls.append((f"{name}_{k}", part.lengths[0]))
        return builders, calls
    if isinstance(step, SystemStep):
        builders = [
            write_kernel(machine, f"{name}_{k}", part)
            for k, part in enumerate(step.kernels)
        ]
        calls = [(f"{name}_{k}", x.lengths[0]) for k, x in enumerate(step.kernels)]
        calls.insert(len(step.before), (name, 0))
        return [*builders, write_system(machine, name, step)], calls
    if isinstance(step, steps.LoopStep):
        return _LoopWriter(machine, name, step, plan).write(), [(name, 0)]
    if isinstance(step, steps.ChoiceStep):
        return _ChoiceWriter(machine, name, step, plan).write(), [(name, 0)]
    if isinstance(step, steps.StripStep):
        return _StripWriter(machine, name, step, plan).write(), [(name, step.rounds)]
    raise CompilerError(f"{step.node.op.name} is a call of NumPy.")


class _Writer:
    """The text of a step that holds programs, during its construction."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        step: steps.NestedStep | steps.StripStep,
        plan: steps.Plan,
    ) -> None:
        self.machine = machine
        self.function = name
        self.plan = plan
        self.b = Builder(machine, 1)
        self.builders = [self.b]
        #: The size of what the step uses of its frame.
        self.used = 0
        self.frame_place = step.frame
        self.block = "start"
        self._labels = 0
        self.b.lines = [
            f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{", "start:",
        ]  # fmt: skip
        self.frame = self.read_table(step.frame)

    # Text

    def emit(self, text: str) -> str:
        """Add a line that gives a value."""
        return self.b.emit(text, "i8").text

    def label(self) -> str:
        """Return a fresh name of a block."""
        self._labels += 1
        return f"b{self._labels}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.b.lines.append(f"{label}:")
        self.block = label

    def move(self, pointer: str, offset: int | str) -> str:
        """Return a pointer so many bytes further on."""
        if offset == 0:
            return pointer
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def find_row(self, base: str, t: str, size: int) -> str:
        """Return where a row begins, one of rows of so many bytes."""
        return self.move(base, self.emit(f"mul i64 {t}, {size}"))

    def read_table(self, place: int, table: str = "%table") -> str:
        """Return the pointer in a place of a table."""
        at = self.emit(f"getelementptr ptr, ptr {table}, i64 {place}")
        return self.emit(f"load ptr, ptr {at}, align 8")

    def write_table(self, place: int, pointer: str, table: str = "%table") -> None:
        """Put a pointer into a place of a table."""
        at = self.emit(f"getelementptr ptr, ptr {table}, i64 {place}")
        self.b.line(f"store ptr {pointer}, ptr {at}, align 8")

    def locate(self, view: View) -> str:
        """Return where a view of the plan outside begins."""
        return self.move(self.read_table(view.buffer), view.offset)

    def copy(self, target: str, source: str, size: int) -> None:
        """Copy bytes from one place to another without overlap."""
        self.b.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.b.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size},"
            " i1 false)"
        )

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block by a choice of the next."""
        self.b.line(f"br i1 {condition}, label %{yes}, label %{no}")

    # Frames

    def reserve(self, size: int) -> int:
        """Return a place of so many bytes in the frame."""
        at = self.used
        self.used += -(-max(size, 1) // steps.LINE) * steps.LINE
        return at

    def make_table(self, program: steps.InnerProgram, frame: int) -> str:
        """Return a table for a program with its own memory in the frame."""
        buffers = program.plan.buffers
        table = self.emit(f"alloca [{max(1, len(buffers))} x ptr], align 8")
        for outer, inner in program.shared:
            self.write_table(inner, self.read_table(outer), table)
        for i, buffer in enumerate(buffers):
            if buffer.offset >= 0:
                self.write_table(i, self.move(self.frame, frame + buffer.offset), table)
        return table

    def write_program(self, program: steps.InnerProgram, prefix: str) -> list[Call]:
        """Write the functions of a program; return their calls."""
        calls = []
        for number, step in enumerate(program.plan.steps):
            builders, more = write_step(
                self.machine, f"{prefix}_{number}", step, program.plan
            )
            self.builders += builders
            calls += more
        return calls

    def call_program(self, calls: Sequence[Call], table: str) -> None:
        """Run a program once."""
        for function, rounds in calls:
            self.b.line(f"call void @{function}(ptr {table}, i64 0, i64 {rounds})")

    def finish(self) -> list[Builder]:
        """Return all functions; those that are called stand first."""
        self.b.line("ret void")
        self.b.lines.append("}")
        spec = Spec((self.used,), np.dtype(np.uint8))
        self.plan.buffers[self.frame_place].spec = spec
        return [*self.builders[1:], self.b]


class _ChoiceWriter(_Writer):
    """A choice: one of two programs fills the results."""

    def __init__(
        self, machine: Machine, name: str, step: steps.ChoiceStep, plan: steps.Plan
    ) -> None:
        super().__init__(machine, name, step, plan)
        self.step = step

    def write(self) -> list[Builder]:
        """Write the function."""
        step, b = self.step, self.b
        condition = step.operands[0]
        pred = b.load(self.locate(condition), condition.kind, 0, None)
        yes = b.convert(pred, "b1")
        given = [self.locate(view) for view in step.operands[1:]]
        kinds = [self.plan.buffers[i].kind for i in step.results]
        results = [
            "" if kind == "absent" else self.read_table(i)
            for i, kind in zip(step.results, kinds, strict=True)
        ]
        labels, after = [self.label(), self.label()], self.label()
        self.branch(yes.text, *labels)  # type: ignore[union-attr]
        sizes = [place_buffers(program.plan) for program in step.programs]
        frame = self.reserve(max(sizes))
        for k, (label, program) in enumerate(zip(labels, step.programs, strict=True)):
            self.begin(label)
            calls = self.write_program(program, f"{self.function}_{'yn'[k]}")
            table = self.make_table(program, frame)
            buffers = program.plan.buffers
            inputs = [i for i, x in enumerate(buffers) if x.kind == "input"]
            for i, pointer in zip(inputs, given, strict=True):
                self.write_table(i, pointer, table)
            targets = steps.plan_choice(program, kinds, self.reserve)
            for place, number in targets.results.items():
                self.write_table(place, results[number], table)
            for place, spot in targets.spots.items():
                self.write_table(place, self.move(self.frame, spot), table)
            self.call_program(calls, table)
            for number, place in targets.copies:
                source = results[targets.results[place]]
                self.copy(results[number], source, buffers[place].size)
            b.line(f"br label %{after}")
        self.begin(after)
        return self.finish()


class _StripWriter(_Writer):
    """Strips: the table of their steps points to other rows for each.

    The range is of the strips of one piece, which has a part of the frame.
    """

    def __init__(
        self, machine: Machine, name: str, step: steps.StripStep, plan: steps.Plan
    ) -> None:
        super().__init__(machine, name, step, plan)
        self.step = step

    def write(self) -> list[Builder]:
        """Write the function."""
        step, b = self.step, self.b
        size = -(-max(map(place_buffers, step.programs)) // steps.LINE) * steps.LINE
        self.reserve(step.pieces * size)
        piece = self.emit(f"udiv i64 %lo, {step.piece}")
        self.frame = self.find_row(self.frame, piece, size)
        bases = [self.read_table(outer) for outer, _, _ in step.links]
        sums = [
            self.find_row(
                self.read_table(outer), piece, step.programs[0].buffers[i].size
            )
            for outer, i in step.sums
        ]
        first, start = step.rounds - len(step.programs) + 1, "%lo"
        for k, plan in enumerate(step.programs):
            program = steps.InnerProgram(plan, ())
            calls = self.write_program(program, f"{self.function}_{k}")
            table = self.make_table(program, 0)
            for base, (_, i, _) in zip(bases, step.links, strict=True):
                self.write_table(i, base, table)
            for pointer, (_, i) in zip(sums, step.sums, strict=True):
                self.write_table(i, pointer, table)
            if k == 0:
                self._fill_sums(table)

            def run_strip(
                i: str,
                carried: list[Value],
                calls: Sequence[Call] = calls,
                table: str = table,
            ) -> list[Value]:
                for base, (_, place, stride) in zip(bases, step.links, strict=True):
                    if stride:
                        self.write_table(place, self.find_row(base, i, stride), table)
                self.call_program(calls, table)
                return carried

            end = "%hi"
            if k == 0 and first < step.rounds:
                less = b.emit(f"icmp slt i64 %hi, {first}", "b1").text
                end = self.emit(f"select i1 {less}, i64 %hi, i64 {first}")
            b.loop(start, end, 1, run_strip)
            start = str(first)
        return self.finish()

    def _fill_sums(self, table: str) -> None:
        """Fill what the strips add to."""
        for k, kernel in enumerate(self.step.fills):
            name = f"{self.function}_fill{k}"
            self.builders.append(write_kernel(self.machine, name, kernel))
            self.call_program([(name, kernel.lengths[0])], table)


class _LoopWriter(_Writer):
    """A loop: the table of its step is filled anew for each."""

    def __init__(
        self, machine: Machine, name: str, step: steps.LoopStep, plan: steps.Plan
    ) -> None:
        super().__init__(machine, name, step, plan)
        self.step = step
        self.what = step.repetition
        self.body = step.program.plan
        self.skipped = len(step.operands) - len(self.what.body.leaves)
        #: The buffers of the leaves, of the constants first.
        self.leaves = [i for i, x in enumerate(self.body.buffers) if x.kind == "input"]

    def write(self) -> list[Builder]:
        """Write the function."""
        step, b = self.step, self.b
        if step.flag >= 0:
            self._stop_if_flagged()
        kinds = [self.plan.buffers[i].kind for i in step.results]
        targets = steps.plan_loop(
            step, kinds, self.reserve, is_in_place=self._is_in_place
        )
        for carry in targets.in_place:
            self._drop_copy(carry, self._output(carry))
        calls = self.write_program(step.program, f"{self.function}_s")
        inner_size = place_buffers(self.body)
        table = self.make_table(step.program, self.reserve(inner_size))
        seqs = self._place_operands(targets, table)
        count = self._count_steps()
        head, inside, after = self.label(), self.label(), self.label()
        fixed = self._locate_results()
        before = self.block
        b.line(f"br label %{head}")
        self.begin(head)
        k, following = b.name(), b.name()
        at = len(b.lines)
        b.line("")
        more = self.emit(f"icmp slt i64 {k}, {count}")
        self.branch(more, inside, after)
        self.begin(inside)
        t = self._begin_round(k, count, seqs, table)
        if any(kind == "marks" for kind, _ in self.what.results):
            self._write_marks(t, table, fixed)
        self._make_room(k, fixed)
        rows = self._write_targets(targets, k, t, table, fixed)
        self._run_round(calls, rows, table)
        b.line(f"{following} = add i64 {k}, 1")
        latch, done = self.block, self._close_round(head, after, table)
        b.lines[at] = f"  {k} = phi i64 [0, %{before}], [{following}, %{latch}]"
        self.begin(after)
        made = k
        if self.what.until:
            made = self._count_made((k, head), (following, done))
        self._write_finals(made, table)
        return self.finish()

    def _place_operands(
        self, targets: steps.Targets, table: str
    ) -> list[tuple[str, View]]:
        """Fill in the operands that all steps read, and the first step's carries.

        Returns where the rows of each sequence begin, and its view.
        """
        what = self.what
        operands = self.step.operands[self.skipped :]
        for i, view in zip(self.leaves, operands[: what.consts], strict=False):
            self.write_table(i, self.locate(view), table)
        first = what.consts + what.seqs
        seqs = [(self.locate(x.view), x.view) for x in operands[what.consts : first]]
        finals = [self.locate(view) for view in operands[first:]]
        for i, leaf in enumerate(self.leaves[first:]):
            if i in targets.in_place:
                spot = self.move(self.frame, targets.spots[self._output(i)])
                self.copy(spot, finals[i], self.body.buffers[leaf].size)
                finals[i] = spot
            self.write_table(leaf, finals[i], table)
        return seqs

    # A round

    def _begin_round(
        self, k: str, count: str, seqs: Sequence[tuple[str, View]], table: str
    ) -> str:
        """Fill in the rows that a step takes; return which ones they are."""
        what = self.what
        if self.step.flag >= 0:
            self._stop_if_interrupted(k)
        t = k
        if what.reverse:
            last = self.emit(f"sub i64 {count}, 1")
            t = self.emit(f"sub i64 {last}, {k}")
        leaves = self.leaves[what.consts : what.consts + what.seqs]
        for (base, view), leaf in zip(seqs, leaves, strict=True):
            self.write_table(leaf, self.find_row(base, t, view.strides[0]), table)
        return t

    def _run_round(
        self, calls: Sequence[Call], rows: Sequence[tuple[str, str, int]], table: str
    ) -> None:
        """Run a step, copy the kept results, and hand the carries on."""
        self.call_program(calls, table)
        if self.body.flag >= 0:
            self._stop_if_flagged()
        for target, source, size in rows:
            self.copy(target, source, size)
        for i, leaf in enumerate(self.leaves[self.what.consts + self.what.seqs :]):
            self.write_table(leaf, self.read_table(self._output(i), table), table)

    def _close_round(self, head: str, after: str, table: str) -> str:
        """Go on with the next round, or leave; return the block that leaves early."""
        if not self.what.until:
            self.b.line(f"br label %{head}")
            return after
        stop = self.read_table(self.body.outputs[-1].buffer, table)
        word = self.emit(f"load i8, ptr {stop}, align 1")
        ended = self.emit(f"icmp ne i8 {word}, 0")
        done = self.label()
        self.branch(ended, done, head)
        self.begin(done)
        self.b.line(f"br label %{after}")
        return done

    def _count_made(self, run: tuple[str, str], ended: tuple[str, str]) -> str:
        """Return the number of steps that were made: each value, and its block.

        ``run`` where all were made, ``ended`` where a step has said to stop.
        """
        (k, head), (following, done) = run, ended
        made = self.emit(f"phi i64 [{k}, %{head}], [{following}, %{done}]")
        if self.what.limited:
            # NumPy says what is wrong, if no step has ended it.
            open_ = self.emit(f"phi i1 [true, %{head}], [false, %{done}]")
            any_ = self.emit(f"icmp sgt i64 {made}, 0")
            self._fail_if(self.emit(f"and i1 {open_}, {any_}"))
        return made

    # The number of steps

    def _count_steps(self) -> str:
        step, b = self.step, self.b
        if self.skipped:
            view = step.operands[0]
            given = b.load(self.locate(view), view.kind, 0, None)
            count = b.convert(given, "i8").text  # type: ignore[union-attr]
            wrong = self.emit(f"icmp slt i64 {count}, 0")
            for x in self._sequences():
                rows = x.view.shape[0]
                if rows >= 0:
                    short = self.emit(f"icmp sgt i64 {count}, {rows}")
                    wrong = self.emit(f"or i1 {wrong}, {short}")
            self._fail_if(wrong)
            return count
        if step.steps is not None:
            return str(step.steps)
        for x in self._sequences():
            if x.length is not None:
                given = b.load(self.locate(x.length), x.length.kind, 0, None)
                return b.convert(given, "i8").text  # type: ignore[union-attr]
        raise CompilerError("a loop of which nothing tells the number of steps.")

    def _sequences(self) -> Sequence[Any]:
        start = self.skipped + self.what.consts
        return self.step.operands[start : start + self.what.seqs]

    def _stop_if_flagged(self) -> None:
        """Return after an error flag: further steps would read invalid memory."""
        stop, go_on = self.label(), self.label()
        flag = self.emit(f"load i64, ptr {self.read_table(self.step.flag)}, align 8")
        self.branch(self.emit(f"icmp ne i64 {flag}, 0"), stop, go_on)
        self.begin(stop)
        self.b.line("ret void")
        self.begin(go_on)

    def _stop_if_interrupted(self, k: str) -> None:
        """Let Python see its signals from time to time; return if one interrupts."""
        work = min(1 + steps.count_work(self.body), 2.0**20)  # a loop inside looks too
        often = 2 ** max(0, 22 - int(work).bit_length())
        look, bad, good = self.label(), self.label(), self.label()
        rest = self.emit(f"and i64 {k}, {often - 1}")
        self.branch(self.emit(f"icmp eq i64 {rest}, {often - 1}"), look, good)
        self.begin(look)
        flag = self.read_table(self.step.flag)
        self.b.symbols |= set(SIGNALS)
        self.b.declared |= set(SIGNALS.values())
        state = self.emit("call i32 @PyGILState_Ensure()")
        found = self.emit("call i32 @PyErr_CheckSignals()")
        self.b.line("call void @PyErr_Clear()")
        self.b.line(f"call void @PyGILState_Release(i32 {state})")
        self.branch(self.emit(f"icmp ne i32 {found}, 0"), bad, good)
        self.begin(bad)
        self.b.line(f"store i64 {steps.INTERRUPTED}, ptr {flag}, align 8")
        self.b.line("ret void")
        self.begin(good)

    def _fail_if(self, condition: str) -> None:
        """Set the flag that makes NumPy run the program, and return."""
        bad, good = self.label(), self.label()
        self.branch(condition, bad, good)
        self.begin(bad)
        self.b.line(f"store i64 1, ptr {self.read_table(self.step.flag)}, align 8")
        self.b.line("ret void")
        self.begin(good)

    # What a step fills

    def _output(self, k: int) -> int:
        """Return the buffer of an output of the step."""
        place: int = self.body.outputs[k].buffer
        return place

    def _is_in_place(self, carry: int, place: int) -> bool:
        """Return whether a step may overwrite the previous value of a carry."""
        leaf = self.leaves[self.what.consts + self.what.seqs + carry]
        body = self.body
        last, first = body.buffers[leaf].last, body.buffers[place].first
        if last > first or first < 0:
            return False
        if last < first:
            return True
        step = body.steps[first]
        if self._begins_with_copy(step, leaf, place):
            return True
        kernels = (
            [step.kernel] if isinstance(step, steps.KernelStep)
            else step.parts if isinstance(step, steps.MoveStep) and step.zeros < 0
            and len(step.parts) == 1 else []
        )  # fmt: skip
        if not kernels:
            return False
        (kernel,) = kernels
        whole = [view for _, view in kernel.stores if view.buffer == place]
        read = [view for view in kernel.loads.values() if view.buffer == leaf]
        return (
            len(whole) == 1
            and not any(x.view.buffer == place for x in kernel.reductions)
            and all(
                (x.offset, x.strides, x.kind)
                == (whole[0].offset, whole[0].strides, whole[0].kind)
                for x in read
            )
        )

    def _begins_with_copy(self, step: steps.Step, leaf: int, place: int) -> bool:
        """Return whether a step copies a value, and then changes entries of the copy.

        What it changes does not depend on the value, but for one entry, which is read
        before it is written.
        """
        if (
            not isinstance(step, steps.MoveStep)
            or step.zeros >= 0
            or len(step.parts) < 2
        ):
            return False
        copy, *changes = step.parts
        source, target = [*copy.loads.values()], [view for _, view in copy.stores]
        return (
            len(source) == len(target) == 1
            and (source[0].buffer, target[0].buffer) == (leaf, place)
            and source[0]._replace(buffer=place) == target[0]
            and copy.size * int(source[0].kind[1:]) == self.body.buffers[leaf].size
            and all(leaf not in x.buffers or x.size == 1 for x in changes)
        )

    def _drop_copy(self, carry: int, place: int) -> None:
        """Let a step that is to change a copy of a carry change that itself."""
        leaf = self.leaves[self.what.consts + self.what.seqs + carry]
        first = self.body.buffers[place].first
        step = self.body.steps[first]
        if isinstance(step, steps.MoveStep) and self._begins_with_copy(
            step, leaf, place
        ):
            self.body.steps[first] = step._replace(parts=step.parts[1:])

    def _locate_results(self) -> dict[int, str]:
        """Return the fixed starts of results, and the states of growing ones."""
        fixed = {}
        for number, i in enumerate(self.step.results):
            kind = self.plan.buffers[i].kind
            if kind == "growing":
                fixed[number] = self.read_table(self.step.states[number])
            elif kind != "absent":
                fixed[number] = self.read_table(i)
        return fixed

    def _make_room(self, k: str, fixed: dict[int, str]) -> None:
        """Let the memory of growing results have room for one more row."""
        for number in self.step.states:
            size = self.plan.buffers[self.step.results[number]].size
            rows = self.emit(f"add i64 {k}, 1")
            bytes_ = self.emit(f"mul i64 {rows}, {size}")
            self.b.symbols.add("realloc")
            room = self.emit(f"call i1 @grow(ptr {fixed[number]}, i64 {bytes_})")
            self._fail_if(self.emit(f"xor i1 {room}, true"))

    def _write_targets(
        self, targets: steps.Targets, k: str, t: str, table: str, fixed: dict[int, str]
    ) -> list[tuple[str, str, int]]:
        """Fill in the targets of outputs; return the copies due after the step."""
        buffers = self.body.buffers
        pointers: dict[int, str] = {}
        for place, number in targets.results.items():
            pointers[place] = self.find_row(fixed[number], t, buffers[place].size)
        turn = self.emit(f"and i64 {k}, 1") if targets.turns else ""
        for place, spot in targets.spots.items():
            pointer = self.move(self.frame, spot)
            if place in targets.turns:
                pointer = self.find_row(pointer, turn, targets.turns[place])
            pointers[place] = pointer
        for place, pointer in pointers.items():
            self.write_table(place, pointer, table)
        copies = []
        for number, place in targets.copies:
            base = fixed[number]
            if number in self.step.states:
                base = self.emit(f"load ptr, ptr {base}, align 8")
            size = buffers[place].size
            copies.append((self.find_row(base, t, size), pointers[place], size))
        return copies

    def _write_marks(self, t: str, table: str, fixed: dict[int, str]) -> None:
        """Keep values before every so many steps."""
        what = self.what
        keep, go_on = self.label(), self.label()
        rest = self.emit(f"urem i64 {t}, {what.every}")
        self.branch(self.emit(f"icmp eq i64 {rest}, 0"), keep, go_on)
        self.begin(keep)
        row = self.emit(f"udiv i64 {t}, {what.every}")
        for number, (kind, carry) in enumerate(what.results):
            if kind == "marks" and number in fixed:
                leaf = self.leaves[what.consts + what.seqs + carry]
                size = self.body.buffers[leaf].size
                target = self.find_row(fixed[number], row, size)
                self.copy(target, self.read_table(leaf, table), size)
        self.b.line(f"br label %{go_on}")
        self.begin(go_on)

    def _write_finals(self, made: str, table: str) -> None:
        """Fill in the results of the loop after its end."""
        what = self.what
        for number, (kind, k) in enumerate(what.results):
            i = self.step.results[number]
            if self.plan.buffers[i].kind == "absent":
                continue
            if kind == "last":
                leaf = self.leaves[what.consts + what.seqs + k]
                size = self.body.buffers[leaf].size
                self.copy(self.read_table(i), self.read_table(leaf, table), size)
            elif kind == "count":
                self.b.line(f"store i64 {made}, ptr {self.read_table(i)}, align 8")
            elif number in self.step.states:
                state = self.read_table(self.step.states[number])
                rows = self.emit(f"load ptr, ptr {state}, align 8")
                self.write_table(i, rows)
