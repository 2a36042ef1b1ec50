"""Loops over integers as machine code, from the Python functions that say them.

What a vectorised call of NumPy cannot say, such as a greedy choice that depends on all
choices before, is written as functions of integers and arrays of integers in a small
part of Python. Python can run them; here the same text becomes LLVM's IR.

That part is: assignment to names and to entries of arrays, ``+ - * // % & | << >>``
(``//`` and ``%`` of numbers that are not negative), comparisons, ``and or not``,
``if``, ``while``, ``for`` over ``range``, ``break``, ``continue``, ``return`` of an
integer, calls of the other functions. A parameter is an ``int``, or else an array. No
index is checked.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.machine import Library, get_machine
from workbench.core import hooks
from workbench.errors import CompilerError

#: LLVM's words for operators.
OPERATIONS = {
    ast.Add: "add nsw", ast.Sub: "sub nsw", ast.Mult: "mul nsw",
    ast.FloorDiv: "sdiv", ast.Mod: "srem", ast.BitAnd: "and", ast.BitOr: "or",
    ast.LShift: "shl nsw", ast.RShift: "ashr",
}  # fmt: skip
RELATIONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt",
    ast.GtE: "sge",
}  # fmt: skip


class RoutineWriter:
    """Writes one function as LLVM's IR.

    Each name is a cell on the stack, so that no value needs to be followed from block
    to block; an integer is of 64 bits, an entry of an array as wide as ``word`` says.
    """

    def __init__(self, function: ast.FunctionDef, word: str, known: set[str]) -> None:
        self.function = function
        self.word = word
        self.known = known
        self.lines: list[str] = []
        self.count = 0
        self.arrays = {
            a.arg for a in function.args.args if not _is_int(a.annotation)
        }  # fmt: skip
        self.cells: dict[str, str] = {}
        #: Where ``continue`` and ``break`` lead to, of each loop around.
        self.loops: list[tuple[str, str]] = []

    def write(self) -> str:
        """Return the text of the function."""
        given = [a.arg for a in self.function.args.args]
        for name in given:
            if name not in self.arrays:
                self.store(name, f"%{name}")
        self.write_block(self.function.body)
        self.emit("ret i64 0")
        parameters = ", ".join(
            f"ptr %{name}" if name in self.arrays else f"i64 %{name}" for name in given
        )
        cells = [f"  {cell} = alloca i64" for cell in self.cells.values()]
        head = f"define i64 @{self.function.name}({parameters}) {{"
        return "\n".join([head, *cells, *self.lines, "}"])

    # One line, one value, one label

    def emit(self, text: str) -> None:
        """Add a line."""
        self.lines.append(f"  {text}")

    def name_value(self, text: str) -> str:
        """Add a line with a value that later lines read."""
        self.count += 1
        self.emit(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def make_label(self) -> str:
        """Return a name for a place to go to."""
        self.count += 1
        return f"l{self.count}"

    def place(self, label: str) -> None:
        """Let a label be here, where the lines before lead to."""
        self.emit(f"br label %{label}")
        self.lines.append(f"{label}:")

    def store(self, name: str, value: str) -> None:
        """Assign to a name."""
        cell = self.cells.setdefault(name, f"%cell.{name}")
        self.emit(f"store i64 {value}, ptr {cell}")

    # Statements

    def write_block(self, statements: Sequence[ast.stmt]) -> None:
        """Write statements one after the other."""
        for statement in statements:
            self.write_statement(statement)

    def write_statement(self, statement: ast.stmt) -> None:
        """Write a statement."""
        match statement:
            case ast.Expr(ast.Constant()) | ast.Pass():  # a docstring
                pass
            case ast.Expr(ast.Call() as call):
                self.read(call)
            case ast.Assign([target], value):
                self.assign(target, self.read(value))
            case ast.AugAssign(target, operator, value):
                x = ast.BinOp(_read_target(target), operator, value)
                self.assign(target, self.read(x))
            case ast.If(test, body, otherwise):
                yes, no, end = (self.make_label() for _ in range(3))
                self.branch(test, yes, no)
                self.lines.append(f"{yes}:")
                self.write_block(body)
                self.emit(f"br label %{end}")
                self.lines.append(f"{no}:")
                self.write_block(otherwise)
                self.place(end)
            case ast.While(test, body, []):
                again, inside, end = (self.make_label() for _ in range(3))
                self.place(again)
                self.branch(test, inside, end)
                self.lines.append(f"{inside}:")
                self.write_loop(body, again, end)
                self.emit(f"br label %{again}")
                self.lines.append(f"{end}:")
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), args), body, []):
                self.write_range(name, args, body)
            case ast.Break() | ast.Continue():
                self.leave(self.loops[-1][isinstance(statement, ast.Break)])
            case ast.Return(value):
                self.emit(f"ret i64 {'0' if value is None else self.read(value)}")
                self.lines.append(f"{self.make_label()}:")
            case _:
                raise _refuse(statement)

    def write_range(
        self, name: str, args: list[ast.expr], body: list[ast.stmt]
    ) -> None:
        """Write a loop over a range; its counter is a cell of its own, as in Python."""
        first, last = (ast.Constant(0), *args) if len(args) == 1 else args
        self.count += 1
        counter = f"{name}.{self.count}"
        self.store(counter, self.read(first))
        stop = self.read(last)
        again, inside, step, end = (self.make_label() for _ in range(4))
        self.place(again)
        at = self.name_value(f"load i64, ptr {self.cells[counter]}")
        self.emit(f"%t{again} = icmp slt i64 {at}, {stop}")
        self.emit(f"br i1 %t{again}, label %{inside}, label %{end}")
        self.lines.append(f"{inside}:")
        self.store(name, at)
        self.write_loop(body, step, end)
        self.place(step)
        self.store(counter, self.name_value(f"add nsw i64 {at}, 1"))
        self.emit(f"br label %{again}")
        self.lines.append(f"{end}:")

    def write_loop(self, body: list[ast.stmt], again: str, end: str) -> None:
        """Write the body of a loop."""
        self.loops.append((again, end))
        self.write_block(body)
        self.loops.pop()

    def leave(self, label: str) -> None:
        """Go to a label; the code after is unreachable."""
        self.emit(f"br label %{label}")
        self.lines.append(f"{self.make_label()}:")

    def assign(self, target: ast.expr, value: str) -> None:
        """Write to a name or to an entry of an array."""
        match target:
            case ast.Name(name) if name not in self.arrays:
                self.store(name, value)
            case ast.Subscript(ast.Name(name), index) if name in self.arrays:
                at = self.find_entry(name, index)
                if self.word != "i64":
                    value = self.name_value(f"trunc i64 {value} to {self.word}")
                self.emit(f"store {self.word} {value}, ptr {at}")
            case _:
                raise _refuse(target)

    # Values

    def find_entry(self, name: str, index: ast.expr) -> str:
        """Return the address of an entry."""
        at = self.read(index)
        return self.name_value(f"getelementptr {self.word}, ptr %{name}, i64 {at}")

    def read(self, x: ast.expr) -> str:
        """Return the value of an integer expression."""
        match x:
            case ast.Constant(value) if isinstance(value, int):
                return str(int(value))
            case ast.UnaryOp(ast.USub(), ast.Constant(value)):
                return str(-int(value))  # type: ignore[arg-type]
            case ast.Name(name) if name in self.cells:
                return self.name_value(f"load i64, ptr {self.cells[name]}")
            case ast.Subscript(ast.Name(name), index) if name in self.arrays:
                at = self.find_entry(name, index)
                found = self.name_value(f"load {self.word}, ptr {at}")
                if self.word == "i64":
                    return found
                return self.name_value(f"sext {self.word} {found} to i64")
            case ast.BinOp(left, operator, right) if type(operator) in OPERATIONS:
                a, b = self.read(left), self.read(right)
                return self.name_value(f"{OPERATIONS[type(operator)]} i64 {a}, {b}")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self.read_condition(x)
            case ast.Call(ast.Name(name), args, []) if name in self.known:
                given = [
                    f"ptr %{a.id}" if isinstance(a, ast.Name) and a.id in self.arrays
                    else f"i64 {self.read(a)}"
                    for a in args
                ]  # fmt: skip
                return self.name_value(f"call i64 @{name}({', '.join(given)})")
        raise _refuse(x)

    def read_condition(self, x: ast.expr) -> str:
        """Return a condition as 0 or 1."""
        yes, no, end = (self.make_label() for _ in range(3))
        self.branch(x, yes, no)
        for label in (yes, no):
            self.lines.append(f"{label}:")
            self.emit(f"br label %{end}")
        self.lines.append(f"{end}:")
        return self.name_value(f"phi i64 [1, %{yes}], [0, %{no}]")

    def branch(self, x: ast.expr, yes: str, no: str) -> None:
        """Go to one of two labels; ``and`` and ``or`` stop early, as in Python."""
        match x:
            case ast.BoolOp(operator, values):
                for value in values[:-1]:
                    further = self.make_label()
                    if isinstance(operator, ast.And):
                        self.branch(value, further, no)
                    else:
                        self.branch(value, yes, further)
                    self.lines.append(f"{further}:")
                self.branch(values[-1], yes, no)
            case ast.UnaryOp(ast.Not(), inner):
                self.branch(inner, no, yes)
            case ast.Compare(left, [relation], [right]) if type(relation) in RELATIONS:
                a, b = self.read(left), self.read(right)
                word = RELATIONS[type(relation)]
                self.go(f"icmp {word} i64 {a}, {b}", yes, no)
            case _:
                self.go(f"icmp ne i64 {self.read(x)}, 0", yes, no)

    def go(self, condition: str, yes: str, no: str) -> None:
        """Go to one of two labels by a comparison."""
        self.emit(f"br i1 {self.name_value(condition)}, label %{yes}, label %{no}")


def _is_int(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "bool")


def _read_target(target: ast.expr) -> ast.expr:
    """Return the target of an assignment, as an expression that reads."""
    read: ast.expr = ast.parse(ast.unparse(target), mode="eval").body
    return read


def _refuse(node: ast.AST) -> CompilerError:
    return CompilerError(
        f"{ast.unparse(node)!r} (line {getattr(node, 'lineno', '?')}) is not in the"
        " part of Python that loops over integers are written in."
    )


class Routine:
    """A function of integers and arrays of integers, as machine code.

    Parameters
    ----------
    functions
        The function, after those that it calls.
    dtype
        That of all arrays: int32 or int64.
    """

    def __init__(
        self, functions: Sequence[Callable[..., Any]], dtype: np.dtype[Any]
    ) -> None:
        word = f"i{8 * dtype.itemsize}"
        known: set[str] = set()
        texts = []
        for function in functions:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
            if not isinstance(tree, ast.FunctionDef):
                raise _refuse(tree)
            known.add(tree.name)
            writer = RoutineWriter(tree, word, known)
            texts.append(writer.write())
        self.name = writer.function.name
        self.dtype = dtype
        self._library: Library = get_machine().compile(
            "\n\n".join(texts), [self.name], (), quick=False
        )
        kinds = [
            ctypes.c_void_p if argument.arg in writer.arrays else ctypes.c_int64
            for argument in writer.function.args.args
        ]
        make = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)
        self._call = make(self._library.addresses[self.name])

    def __call__(self, *args: Any) -> int:
        """Run it; arrays are contiguous and of the routine's dtype."""
        given = []
        for x in args:
            if isinstance(x, np.ndarray):
                if x.dtype != self.dtype or not x.flags.c_contiguous:
                    raise CompilerError(
                        f"{self.name} takes contiguous arrays of {self.dtype}, not of"
                        f" {x.dtype}."
                    )
                given.append(x.ctypes.data)
            else:
                given.append(int(x))
        return int(self._call(*given))


@hooks.compile_routine.set
def compile_routine(
    functions: Sequence[Callable[..., Any]], dtype: np.dtype[Any]
) -> Routine | None:
    """Return the last of these functions as machine code; None: not to be had here."""
    try:
        return Routine(functions, dtype)
    except (CompilerError, OSError):  # no LLVM, or no source
        return None
