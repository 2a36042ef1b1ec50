"""Products of matrices: by BLAS from SciPy, small ones in registers.

A call of BLAS costs as much as thousands of multiplications. A product that is small
runs in tiles of registers, in one of two forms: along rows of the right matrix, or
along what is summed. Axes in front of the matrices are loops.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from workbench.backends.compiled.builder import TYPES, Builder, Value
from workbench.backends.compiled.entries import add
from workbench.backends.compiled.kernel import View, count_lanes
from workbench.backends.compiled.machine import Machine
from workbench.core.tensor import Tensor
from workbench.errors import CompilerError

#: BLAS's letter of a kind.
LETTERS = {"f8": "d", "f4": "s", "c16": "z", "c8": "c"}
#: A product of at most so many multiplications is computed in registers.
SMALL = 2**15


class ProductStep(NamedTuple):
    """Products of matrices: ``out = a @ b``.

    The last two axes are those of the matrices; the others are the same for all views.

    Attributes
    ----------
    adds
        The product is added to what lies there; BLAS computes it then.
    """

    node: Tensor
    a: View
    b: View
    out: View
    adds: bool = False

    @property
    def rounds(self) -> int:
        """The number of products along the first axis."""
        return self.out.shape[0] if len(self.out.shape) > 2 else 1

    @property
    def work(self) -> int:
        """The multiplications of all products together."""
        return math.prod(self.out.shape) * self.a.shape[-1]


def align_views(a: View, b: View, out: View) -> tuple[View, View, View]:
    """Return views as matrices in the last two axes, with common axes before."""
    size = int(a.kind[1:])
    shape, strides = list(out.shape), list(out.strides)
    if len(a.shape) == 1:
        a = a._replace(shape=(1, *a.shape), strides=(size, *a.strides))
        at = len(shape) - (len(b.shape) > 1)
        shape.insert(at, 1)
        strides.insert(at, math.prod(shape[at + 1 :]) * size)
    if len(b.shape) == 1:
        b = b._replace(shape=(*b.shape, 1), strides=(*b.strides, size))
        shape.append(1)
        strides.append(size)
    loop = tuple(shape[:-2])
    return (
        a.broadcast((*loop, *a.shape[-2:])), b.broadcast((*loop, *b.shape[-2:])),
        out._replace(shape=tuple(shape), strides=tuple(strides)),
    )  # fmt: skip


class Matrix(NamedTuple):
    """The matrix of a view: its lengths and strides."""

    rows: int
    columns: int
    row: int
    column: int

    @property
    def transposed(self) -> Matrix:
        """The same with rows and columns exchanged."""
        return Matrix(self.columns, self.rows, self.column, self.row)


def read_matrix(view: View) -> Matrix:
    """Return the matrix of the last two axes of a view."""
    return Matrix(*view.shape[-2:], *view.strides[-2:])


def find_leading(x: Matrix, size: int) -> tuple[bool, int] | None:
    """Return whether a matrix lies by columns, and the step from one to the next.

    The step is in entries; None: its entries lie otherwise, BLAS does not take it.
    """
    for turned, m in ((False, x), (True, x.transposed)):
        near = m.column == size or m.columns == 1
        apart = m.row >= m.columns * size and m.row % size == 0
        if near and (apart or m.rows == 1):
            return turned, max(m.row // size if m.rows > 1 else 1, m.columns, 1)
    return None


def find_form(a: Matrix, b: Matrix, size: int) -> str | None:
    """Return how a small product is computed: along ``rows``, ``sums``, or not so."""
    if b.column == size or b.columns == 1:
        if b.columns > 1:
            return "rows"
    if a.column == size and b.row == size:
        return "sums"
    return None


def _orient(a: Matrix, b: Matrix, size: int) -> tuple[str, bool] | None:
    """Return the form of a small product, and whether both sides are transposed.

    Those have the result in the same order if it is one column.
    """
    if b.columns > 1:
        form = find_form(a, b, size)
        return None if form is None else (form, False)
    form = find_form(b.transposed, a.transposed, size)
    return None if form is None else (form, True)


def is_small(a: View, b: View) -> bool:
    """Return whether a product is computed in registers."""
    if a.kind[0] != "f":
        return False
    x, y = read_matrix(a), read_matrix(b)
    if x.rows * x.columns * y.columns > SMALL:
        return False
    return _orient(x, y, int(a.kind[1:])) is not None


def is_product(a: View, b: View) -> bool:
    """Return whether products of arrays that lie so are computed here."""
    return is_small(a, b) or (lies_for_blas(a) and lies_for_blas(b))


def lies_for_blas(x: View) -> bool:
    """Return whether BLAS can read a matrix in place."""
    return find_leading(read_matrix(x), int(x.kind[1:])) is not None


#: Products of at least so many multiplications are shared among cores, in so many
#: pieces at most; BLAS itself shares one that is larger than the second.
LARGE, MOST_PIECES, LARGE_FOR_BLAS = 400_000, 64, 2**18


def share_products(step: ProductStep) -> int:
    """Return how many rounds of the first axis make a piece; 0: all."""
    if step.work < LARGE or step.work // step.rounds > LARGE_FOR_BLAS:
        return 0
    pieces = min(step.rounds, max(1, step.work // LARGE), MOST_PIECES)
    return -(-step.rounds // pieces) if pieces > 1 else 0


def write_product(machine: Machine, name: str, step: ProductStep) -> Builder:
    """Return a product as IR: a function like that of a kernel.

    The range is of the first axis of what stands in front of the matrices.
    """
    small = not step.adds and is_small(step.a, step.b)
    b = Builder(machine, 1)
    b.lines = [f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{", "start:"]
    pointers = []
    for view in (step.a, step.b, step.out):
        place = b.emit(f"getelementptr ptr, ptr %table, i64 {view.buffer}", "i8").text
        base = b.emit(f"load ptr, ptr {place}, align 8", "i8").text
        pointers.append(b.move(base, view.offset))
    call = None if small else _BlasCall(b, step)

    def write_axis(axis: int, pointers: list[str]) -> None:
        if axis == len(step.out.shape) - 2:
            if call is None:
                _write_small(b, step, pointers)
            else:
                call.write(pointers)
            return
        start, end = ("%lo", "%hi") if axis == 0 else ("0", str(step.out.shape[axis]))

        def write_round(i: str, carried: list[Value]) -> list[Value]:
            views = zip(pointers, (step.a, step.b, step.out), strict=True)
            write_axis(axis + 1, [b.step(p, i, v.strides[axis]) for p, v in views])
            return carried

        b.loop(start, end, 1, write_round)

    write_axis(0, pointers)
    b.line("ret void")
    b.lines.append("}")
    return b


class _BlasCall:
    """The call of BLAS for matrices of one shape, and its settings on the stack.

    An array of rows is the transpose of what BLAS sees: it computes the transpose of
    the product, from the operands in the other order.
    """

    def __init__(self, b: Builder, step: ProductStep) -> None:
        self.b = b
        kind = step.a.kind
        size = int(kind[1:])
        left, right = read_matrix(step.a), read_matrix(step.b)
        found, other = find_leading(left, size), find_leading(right, size)
        if found is None or other is None:
            raise CompilerError(f"BLAS does not multiply such arrays: {step}.")
        (left_turned, left_step), (right_turned, right_step) = found, other
        m, k, n = left.rows, left.columns, right.columns
        self.kind, self.adds = kind, step.adds
        one = self._keep_number("1.0")
        before = one if step.adds else self._keep_number("0.0")
        #: How many bytes of zeros a product of a vector is added to.
        self.zeros = 0
        if n == 1:
            self._set_vector(left, 0, 1, right.row if k > 1 else size, one)
            return
        if m == 1:
            column = left.column if k > 1 else size
            self._set_vector(right.transposed, 1, 0, column, one)
            return
        self.name = f"blas_{LETTERS[kind]}gemm"
        letters = [self._keep_letter(x) for x in (right_turned, left_turned)]
        sizes = [self._keep("i32", str(x)) for x in (n, m, k)]
        steps = [self._keep("i32", str(x)) for x in (right_step, left_step, max(n, 1))]
        self.given: list[str | int] = [
            *letters, *sizes, one, 1, steps[0], 0, steps[1], before, 2, steps[2],
        ]  # fmt: skip

    def _set_vector(
        self, x: Matrix, matrix: int, vector: int, stride: int, one: str
    ) -> None:
        """Set a product of a matrix and a vector, which are these operands."""
        size = int(self.kind[1:])
        found = find_leading(x, size)
        assert found is not None
        turned, leading = found
        # What lies by rows is, by columns, the transpose.
        lengths = (x.rows, x.columns) if turned else (x.columns, x.rows)
        self.name = f"blas_{LETTERS[self.kind]}gemv"
        self.given = [
            self._keep_letter(not turned),
            *(self._keep("i32", str(n)) for n in lengths), one, matrix,
            self._keep("i32", str(leading)), vector,
            self._keep("i32", str(stride // size)), one, 2, self._keep("i32", "1"),
        ]  # fmt: skip
        # Added to zeros: some versions multiply what lies there by 0, NaN too.
        self.zeros = 0 if self.adds else x.rows * size

    def write(self, pointers: list[str]) -> None:
        """Write the call for matrices that begin at these pointers."""
        b = self.b
        b.symbols.add(self.name)
        if self.zeros:
            b.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            b.line(
                f"call void @llvm.memset.p0.i64(ptr {pointers[2]}, i8 0, i64"
                f" {self.zeros}, i1 false)"
            )
        b.declared.add(
            f"declare void @{self.name}({', '.join(['ptr'] * len(self.given))})"
        )
        given = [pointers[x] if type(x) is int else x for x in self.given]
        b.line(f"call void @{self.name}({', '.join(f'ptr {x}' for x in given)})")

    def _keep(self, type_: str, value: str) -> str:
        slot = self.b.name()
        self.b.line(f"{slot} = alloca {type_}, align 8")
        self.b.line(f"store {type_} {value}, ptr {slot}")
        return slot

    def _keep_letter(self, transposed: bool) -> str:
        return self._keep("i8", str(ord("T" if transposed else "N")))

    def _keep_number(self, number: str) -> str:
        part = TYPES[{"c16": "f8", "c8": "f4"}.get(self.kind, self.kind)]
        if self.kind[0] == "f":
            return self._keep(part, number)
        return self._keep(f"[2 x {part}]", f"[{part} {number}, {part} 0.0]")


# Small products, in registers


def _write_small(b: Builder, step: ProductStep, pointers: list[str]) -> None:
    """Write a product of small matrices that begin at these pointers."""
    kind = step.a.kind
    size = int(kind[1:])
    x, y, z = map(read_matrix, (step.a, step.b, step.out))
    oriented = _orient(x, y, size)
    assert oriented is not None
    form, swapped = oriented
    if swapped:
        x, y, z = y.transposed, x.transposed, z.transposed
        pointers = [pointers[1], pointers[0], pointers[2]]
    tiles = _Tiles(b, kind, x, y, z, pointers)
    if form == "rows":
        tiles.write_along_rows()
    else:
        tiles.write_along_sums()
    b.lanes = 1


class _Tiles:
    """A product ``z = x @ y`` in tiles of registers."""

    def __init__(
        self, b: Builder, kind: str, x: Matrix, y: Matrix, z: Matrix,
        pointers: list[str],
    ) -> None:  # fmt: skip
        self.b = b
        self.kind = kind
        self.size = int(kind[1:])
        self.x, self.y, self.z = x, y, z
        self.left, self.right, self.out = pointers

    # Along rows of the right matrix: each tile is some rows times some vectors.

    def write_along_rows(self) -> None:
        """Add up rows of ``y``, each times an entry of ``x``."""
        b, n, m = self.b, self.y.columns, self.x.rows
        b.lanes = lanes = count_lanes(b.machine, [self.kind], n)
        vectors = -(-n // lanes)
        height = min(m, 4)
        width = min(vectors, {1: 8, 2: 4}.get(height, 2))
        full = n // (lanes * width) * width  # vectors in whole tiles

        def write_columns(row: str, rows: int) -> None:
            def write_tile(j: str, carried: list[Value]) -> list[Value]:
                self._write_row_tile(row, rows, j, width, None)
                return carried

            if full:
                b.loop(0, full * lanes, width * lanes, write_tile)
            if left := vectors - full:
                mask = b.make_mask(n % lanes) if n % lanes else None
                self._write_row_tile(row, rows, str(full * lanes), left, mask)

        def write_rows(i: str, carried: list[Value]) -> list[Value]:
            write_columns(i, height)
            return carried

        b.loop(0, m - m % height, height, write_rows)
        if m % height:
            write_columns(str(m - m % height), m % height)

    def _write_row_tile(
        self, row: str, rows: int, column: str, width: int, mask: Value | None
    ) -> None:
        """Write some rows of some vectors; the mask is of the last vector."""
        b, lanes, size = self.b, self.b.lanes, self.size
        masks = [None] * (width - 1) + [mask]
        left = b.step(self.left, row, self.x.row)
        right = b.step(self.right, column, size)

        def write_round(k: str, totals: list[Value]) -> list[Value]:
            line = b.step(right, k, self.y.row)
            parts = [
                b.load_part(b.move(line, c * lanes * size), self.kind, size, masks[c])
                for c in range(width)
            ]
            entry = b.step(left, k, self.x.column)
            news = []
            for r in range(rows):
                factor = b.load_part(b.move(entry, r * self.x.row), self.kind, 0, None)
                for c in range(width):
                    news.append(
                        b.intrinsic(
                            "llvm.fmuladd", factor, parts[c], totals[r * width + c]
                        )
                    )
            return news

        totals = b.loop(0, self.x.columns, 1, write_round, self._zeros(rows * width))
        out = b.step(b.step(self.out, row, self.z.row), column, size)
        for r in range(rows):
            for c in range(width):
                where = b.move(out, r * self.z.row + c * lanes * size)
                b.store(where, totals[r * width + c], size, masks[c])

    # Along what is summed: each tile is as many columns as a vector has lanes.

    def write_along_sums(self) -> None:
        """Multiply a row of ``x`` by columns of ``y``, and add up the lanes."""
        b, n = self.b, self.y.columns
        b.lanes = lanes = count_lanes(b.machine, [self.kind], max(self.x.columns, 2))

        def write_row(i: str, carried: list[Value]) -> list[Value]:
            def write_tile(j: str, kept: list[Value]) -> list[Value]:
                self._write_sum_tile(i, j, lanes)
                return kept

            if n >= lanes:
                b.loop(0, n - n % lanes, lanes, write_tile)
            if n % lanes:
                self._write_sum_tile(i, str(n - n % lanes), n % lanes)
            return carried

        b.loop(0, self.x.rows, 1, write_row)

    def _write_sum_tile(self, row: str, column: str, count: int) -> None:
        b, lanes, size = self.b, self.b.lanes, self.size
        length = self.x.columns
        left = b.step(self.left, row, self.x.row)
        right = b.step(self.right, column, self.y.column)

        def add(k: str, totals: list[Value], mask: Value | None) -> list[Value]:
            at = b.step(left, k, size)
            factor = b.load_part(at, self.kind, size, mask)
            if mask is not None:
                factor = b.choose(mask, factor, self._zeros(1)[0])
            line = b.step(right, k, size)
            return [
                b.intrinsic(
                    "llvm.fmuladd", factor,
                    b.load_part(
                        b.move(line, c * self.y.column), self.kind, size, mask
                    ),
                    totals[c],
                )
                for c in range(count)
            ]  # fmt: skip

        totals = self._zeros(count)
        whole = length - length % lanes
        if whole:
            totals = b.loop(0, whole, lanes, lambda k, t: add(k, t, None), totals)
        if length % lanes:
            totals = add(str(whole), totals, b.make_mask(length % lanes))
        sums = self._sum_lanes(totals + self._zeros(lanes - count))
        out = b.step(b.step(self.out, row, self.z.row), column, size)
        mask = b.make_mask(count) if count < lanes else None
        b.store(out, sums, size, mask)

    def _sum_lanes(self, totals: list[Value]) -> Value:
        """Return the sums of the lanes of as many vectors as there are lanes."""
        b, lanes = self.b, self.b.lanes
        while len(totals) > 1:
            totals = [
                add(b, b.join(x, y, range(0, 2 * lanes, 2)),
                    b.join(x, y, range(1, 2 * lanes, 2)))
                for x, y in zip(totals[::2], totals[1::2], strict=True)
            ]  # fmt: skip
        return totals[0]

    def _zeros(self, count: int) -> list[Value]:
        zero = self.b.literal(0.0, self.kind)
        assert isinstance(zero, Value)
        return [zero] * count
