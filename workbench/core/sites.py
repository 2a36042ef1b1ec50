"""A line of the user's: where an instruction stands, and what is called there.

A Tensor keeps only its code object and the offset of its instruction; they are read
here on request, so tracing pays nothing for lines that are never read.
"""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from dis import get_instructions
from itertools import islice
from opcode import opmap
from types import CodeType
from typing import Any

from workbench.core import hooks
from workbench.core.source import caller


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the user's code.

    ``place`` reads ``"[3]:1"`` for line 1 of cell 3 and ``"net.py:20"`` for a
    file; ``text`` is that line without its indentation.
    """

    filename: str
    line: int
    column: int
    text: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}  {self.text}" if self.text else self.place


def is_assignment(code: CodeType, lasti: int) -> bool:
    """Return whether an instruction is an assignment to entries: ``x[i] = v``."""
    return 0 <= lasti < len(code.co_code) and (
        code.co_code[lasti] == opmap["STORE_SUBSCR"]
    )


def find_in_place_operator() -> tuple[str, str] | None:
    """Return the operator that the user's line is at, ``"+="``, and the statement.

    None for anything else; where the text was not kept the statement is empty.
    """
    code, lasti = caller()
    step = next((x for x in get_instructions(code) if x.offset == lasti), None)
    if step is None or step.opname != "BINARY_OP" or not step.argrepr.endswith("="):
        return None
    line, last, start, end = step.positions or (None,) * 4
    if line is None or last is None or start is None or end is None:
        return step.argrepr, ""
    lines = [
        linecache.getline(code.co_filename, i).encode() for i in range(line, last + 1)
    ]
    lines[-1] = lines[-1][:end]  # columns count bytes
    lines[0] = lines[0][start:]
    return step.argrepr, b"".join(lines).decode(errors="replace")


def dotted_call_name(code: CodeType | Site, lasti: int) -> tuple[str, ...]:
    """Return the parts of the dotted name that an instruction calls.

    They start where the call does: those of its arguments start later.
    """
    if not isinstance(code, CodeType):
        return ()
    before = [step for step in get_instructions(code) if step.offset <= lasti]
    starts = [step.positions and step.positions[::2] for step in before]
    return tuple(
        step.argval
        for step, start in zip(before, starts, strict=True)
        if start == starts[-1]
        and step.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
    )


#: What NumPy calls Python's operators.
OPERATORS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power",
    "//": "floor_divide", "%": "remainder", "@": "matmul",
}  # fmt: skip


def function_at(code: CodeType | Site, lasti: int) -> str | None:
    """Return the function or the operator that an instruction calls, by NumPy's name.

    None where that does not show.
    """
    if not isinstance(code, CodeType):
        return None
    step = next((x for x in get_instructions(code) if x.offset == lasti), None)
    if step is not None and step.opname == "BINARY_OP":
        return OPERATORS.get(step.argrepr.removesuffix("="))
    names = dotted_call_name(code, lasti) if step is not None else ()
    return names[-1] if names else None


def instruction_of(node: Any) -> tuple[CodeType | None, int]:
    """Return the code of a node's origin, and the instruction there."""
    context = node.context
    if context is not None and context.code is not None:
        return context.code, context.lasti
    return node.code, node.lasti


def decode(code: CodeType | Site | None, lasti: int) -> Site | None:
    """Return the line, column and text behind a code object and offset."""
    if code is None:
        return None
    if isinstance(code, Site):  # of a program that was made in another process
        return code
    position = next(islice(code.co_positions(), max(lasti, 0) // 2, None), None)
    line = (position[0] if position else None) or code.co_firstlineno
    column = (position[2] if position else None) or 0
    filename = code.co_filename
    text = linecache.getline(filename, line).strip()
    return Site(filename, line, column, text, f"{display_name(filename)}:{line}")


def display_name(filename: str) -> str:
    """Return how a file or cell is called: ``"net.py"``, or ``"[3]"`` for a cell."""
    cell = hooks.source(filename) if hooks.source.is_set else None
    return cell or os.path.basename(filename)
