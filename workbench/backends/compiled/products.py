"""Products of matrices, by the BLAS that SciPy hands out to compiled code."""

from __future__ import annotations

from typing import NamedTuple

from workbench.backends.compiled.builder import TYPES, Builder
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.machine import Machine
from workbench.core.tensor import Tensor
from workbench.errors import CompilerError

#: BLAS's letter of a kind.
LETTERS = {"f8": "d", "f4": "s", "c16": "z", "c8": "c"}


class ProductStep(NamedTuple):
    """A product of matrices by BLAS: ``out = a @ b``."""

    node: Tensor
    a: View
    b: View
    out: View


def find_layout(view: View, columns: bool) -> tuple[bool, int] | None:
    """Return whether BLAS must transpose a matrix, and its leading length.

    BLAS has columns one after the other; an array of rows is its own transpose there.
    None: the entries lie otherwise.
    """
    size = int(view.kind[1:])
    if len(view.shape) == 1:
        shape = (view.shape[0], 1) if columns else (1, view.shape[0])
        strides = (view.strides[0], size) if columns else (size, view.strides[0])
        if columns and view.strides[0] == size:
            strides = (size, size)
    else:
        shape, strides = view.shape, view.strides  # type: ignore[assignment]
    (m, n), (row, column) = shape, strides
    if (column == size or n == 1) and (row >= n * size or m == 1) and row % size == 0:
        return False, max(row // size if m > 1 else n, n, 1)
    if (row == size or m == 1) and (column >= m * size or n == 1):
        return True, max(column // size if n > 1 else m, m, 1)
    return None


def is_product(a: View, b: View) -> bool:
    """Return whether BLAS multiplies arrays that lie so."""
    return find_layout(a, False) is not None and find_layout(b, True) is not None


def write_product(machine: Machine, name: str, step: ProductStep) -> Builder:
    """Return a product of matrices as IR: a function like that of a kernel.

    An array of rows is the transpose of what BLAS sees: it computes the transpose of
    the product, from the operands in the other order.
    """
    a, b, out = step.a, step.b, step.out
    left, right = find_layout(a, False), find_layout(b, True)
    if left is None or right is None:
        raise CompilerError(f"BLAS does not multiply arrays that lie so: {a}, {b}.")
    m = a.shape[0] if len(a.shape) == 2 else 1
    k = a.shape[-1]
    n = b.shape[1] if len(b.shape) == 2 else 1
    letter, part = LETTERS[a.kind], TYPES[{"c16": "f8", "c8": "f4"}.get(a.kind, a.kind)]
    made = Builder(machine, 1)
    made.lines = [f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{", "start:"]
    bases = []
    for view in (a, b, out):
        place = made.emit(
            f"getelementptr ptr, ptr %table, i64 {view.buffer}", "i8"
        ).text
        base = made.emit(f"load ptr, ptr {place}, align 8", "i8").text
        bases.append(
            made.emit(f"getelementptr i8, ptr {base}, i64 {view.offset}", "i8").text
        )

    def keep(type_: str, value: str) -> str:
        slot = made.name()
        made.line(f"{slot} = alloca {type_}, align 8")
        made.line(f"store {type_} {value}, ptr {slot}")
        return slot

    def letter_of(transposed: bool) -> str:
        return keep("i8", str(ord("T" if transposed else "N")))

    def scalar(number: str) -> str:
        if len(a.kind) < 3 and a.kind[0] == "f":
            return keep(part, number)
        slot = made.name()
        made.line(f"{slot} = alloca [2 x {part}], align 8")
        made.line(f"store [2 x {part}] [{part} {number}, {part} 0.0], ptr {slot}")
        return slot

    sizes = [keep("i32", str(x)) for x in (n, m, k)]
    leading = [keep("i32", str(x)) for x in (right[1], left[1], max(n, 1))]
    symbol = f"blas_{letter}gemm"
    made.symbols.add(symbol)
    made.declared.add(f"declare void @{symbol}({', '.join(['ptr'] * 13)})")
    given = [
        letter_of(right[0]), letter_of(left[0]), *sizes, scalar("1.0"), bases[1],
        leading[0], bases[0], leading[1], scalar("0.0"), bases[2], leading[2],
    ]  # fmt: skip
    made.line(f"call void @{symbol}({', '.join(f'ptr {x}' for x in given)})")
    made.line("ret void")
    made.lines.append("}")
    return made
