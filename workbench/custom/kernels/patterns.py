"""One array of a kernel as its author writes it: ``"float64[n, d]"``.

That is a dtype and a shape. A letter stands for a length, the same wherever it
appears; ``"T[n]"`` for a dtype among several; ``...`` for axes of any number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import KernelError

__all__ = ["DTYPES", "NAME", "RESERVED", "Pattern", "evaluate"]

#: The dtypes that kernels take.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip

_PATTERN = re.compile(r"\s*([A-Za-z]\w*)\s*\[([^\[\]]*)\]\s*")
NAME = re.compile(r"[A-Za-z_]\w*")
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

#: The words that C, C++ and CUDA keep for themselves, so that no argument has them.
RESERVED = frozenset(
    "auto bool break case char class const continue default delete do double else enum"
    " extern false float for friend goto if inline int long namespace new operator"
    " private protected public register return short signed sizeof static struct switch"
    " template this throw true try typedef union unsigned using virtual void volatile"
    " while size_t threadIdx blockIdx blockDim gridDim".split()
)


@dataclass(frozen=True)
class Pattern:
    """One array of a kernel: ``Pattern.of("zero_out", "x", "float64[n]")``.

    ``dims`` holds the text of each axis; ``"..."`` stands for any number of them.
    """

    name: str
    text: str
    dtype: str
    dims: tuple[str, ...]

    @classmethod
    def of(cls, op: str, name: object, text: object) -> Pattern:
        """Read a pattern, or say what is wrong with it."""
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise KernelError(
                f"{op}: {name!r} cannot name an array of a kernel; write a word that C"
                " takes for a parameter, such as 'x'."
            )
        found = _PATTERN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise KernelError(
                f"{op}: {name} is declared as {text!r}, which is no dtype and shape."
                " Write 'float64[n, d]', or 'float64[]' for one number."
            )
        dims = tuple(part.strip() for part in found[2].split(",") if part.strip())
        made = cls(name, str(text).strip(), found[1], dims)
        for dim in dims:
            if dim != "...":
                made.expression(op, dim)
        if dims.count("...") > 1:
            raise KernelError(f"{op}: {name} is declared as {text!r}: '...' once only.")
        return made

    def expression(self, op: str, dim: str) -> ast.expr:
        """The parsed text of one axis: letters, integers, + - * //."""
        try:
            if len(dim) > 80:
                raise SyntaxError
            tree = ast.parse(dim, mode="eval").body
        except SyntaxError:
            tree = None
        for part in ast.walk(tree) if tree is not None else ():
            fits = (
                isinstance(part, (ast.Name, ast.Load))
                or (isinstance(part, ast.Constant) and type(part.value) is int)
                or (isinstance(part, ast.BinOp) and type(part.op) in _ARITHMETIC)
                or type(part) in _ARITHMETIC
            )
            if not fits:
                tree = None
                break
        if tree is None:
            raise KernelError(
                f"{op}: {self.name} is declared as {self.text!r}, and {dim!r} is no"
                " length. Write a letter, an integer, or + - * // of them."
            )
        return tree

    def letters(self) -> list[str]:
        """The letters of the shape, in order; ``"..."`` among them."""
        found: list[str] = []
        for dim in self.dims:
            found += ["..."] if dim == "..." else NAME.findall(dim)
        return found


def evaluate(tree: ast.expr, known: Mapping[str, Any]) -> Any:
    """A length from those that it names; the text is short, so it may recurse."""
    if isinstance(tree, ast.Name):
        return known[tree.id]
    if isinstance(tree, ast.BinOp):
        left, right = evaluate(tree.left, known), evaluate(tree.right, known)
        return _ARITHMETIC[type(tree.op)](left, right)
    assert isinstance(tree, ast.Constant)
    return tree.value
