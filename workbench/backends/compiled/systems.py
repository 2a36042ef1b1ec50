"""Systems of equations, inverses and Cholesky factors, by SciPy's LAPACK.

LAPACK has the columns of a matrix one after the other, and overwrites what it is given:
kernels copy the operands to where it works, turned where need be, as NumPy does. Where
it finds a matrix singular or not positive definite, the flag lets NumPy say so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from workbench.backends.compiled.builder import Builder
from workbench.backends.compiled.kernel import Kernel, View
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.products import LETTERS
from workbench.core.tensor import Tensor

#: The function of LAPACK that computes an op.
FUNCTIONS = {"solve": "gesv", "inv": "gesv", "cholesky": "potrf"}


class SystemStep(NamedTuple):
    """A call of LAPACK for each matrix of a stack, between kernels that copy."""

    node: Tensor
    #: They fill the memory that LAPACK overwrites.
    before: tuple[Kernel, ...]
    #: The matrices as LAPACK sees them; the right sides, a row for each column.
    matrix: View
    right: View | None
    pivots: View | None
    after: tuple[Kernel, ...]
    flag: int

    @property
    def work(self) -> int:
        """Its multiplications, about."""
        n = self.matrix.shape[-1]
        return n * math.prod(self.matrix.shape)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that copy."""
        return (*self.before, *self.after)


def name_function(op: str, kind: str) -> str:
    """Return the symbol of the function of LAPACK for an op and a kind of entries."""
    return f"lapack_{LETTERS[kind]}{FUNCTIONS[op]}"


def write_system(machine: Machine, name: str, step: SystemStep) -> Builder:
    """Return the calls of LAPACK as a function like that of a kernel."""
    b = Builder(machine, 1)
    b.lines = [f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{", "start:"]

    def emit(text: str) -> str:
        return b.emit(text, "i8").text

    def locate(buffer: int) -> str:
        place = emit(f"getelementptr ptr, ptr %table, i64 {buffer}")
        return emit(f"load ptr, ptr {place}, align 8")

    def keep(kind: str, value: object) -> str:
        slot = emit(f"alloca {kind}, align 8")
        b.line(f"store {kind} {value}, ptr {slot}")
        return slot

    def move(base: str, view: View) -> str:
        """Return where the entries of one matrix of a stack begin."""
        size = math.prod(view.shape[-2:]) * int(view.kind[1:])
        offset = emit(f"mul i64 %i, {size}")
        return emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    n = step.matrix.shape[-1]
    count = math.prod(step.matrix.shape[:-2])
    matrices = locate(step.matrix.buffer)
    length, info = keep("i32", n), keep("i32", 0)
    symbol = name_function(step.node.op.name, step.matrix.kind)
    b.symbols.add(symbol)
    if step.right is not None and step.pivots is not None:
        rights, pivots = locate(step.right.buffer), locate(step.pivots.buffer)
        columns = keep("i32", step.right.shape[-2])
    else:
        rights = pivots = columns = ""
        letter = keep("i8", ord("U"))  # the lower triangle of rows
    flag = locate(step.flag)
    b.lines += [
        "  br label %head",
        "head:",
        "  %i = phi i64 [0, %start], [%next, %go]",
        f"  %more = icmp slt i64 %i, {count}",
        "  br i1 %more, label %body, label %end",
        "body:",
    ]
    matrix = move(matrices, step.matrix)
    if step.right is not None:
        right = move(rights, step.right)
        given = [length, columns, matrix, length, pivots, right, length, info]
    else:
        given = [letter, length, matrix, length, info]
    b.declared.add(f"declare void @{symbol}({', '.join(['ptr'] * len(given))})")
    b.line(f"call void @{symbol}({', '.join(f'ptr {x}' for x in given)})")
    found = emit(f"load i32, ptr {info}, align 4")
    wrong = emit(f"icmp ne i32 {found}, 0")
    b.lines += [
        f"  br i1 {wrong}, label %bad, label %go",
        "go:",
        "  %next = add i64 %i, 1",
        "  br label %head",
        "bad:",
        f"  store i64 1, ptr {flag}, align 8",
        "  br label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return b
