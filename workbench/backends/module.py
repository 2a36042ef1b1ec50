"""What the functions of one text share, and what ops bring into it."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench.backends import libraries, spelling
from workbench.core.graph import Graph

__all__ = ["HELPERS", "Form", "Module", "Source"]

#: The functions that a text may call and then defines itself, by name, as code.
HELPERS = spelling.HELPERS | libraries.HELPERS


class Form(NamedTuple):
    """How the function of a text looks."""

    #: Its name.
    name: str = "function"
    #: What the last arguments are by default, where they are not given.
    held: Sequence[Any] = ()
    #: What its outputs are returned as, from the code of each.
    nested: Callable[[list[str]], str] | None = None
    #: What is said of it under its head.
    note: str = ""


class Source(NamedTuple):
    """The functions that an op brings into a text (`Op.source`), and its call."""

    #: Nodes with equal keys share their functions.
    key: Any
    #: A name and a graph for each function.
    graphs: Sequence[tuple[str, Graph]]
    #: The lines of a function: its name, its arguments, its steps (each indented),
    #: its outputs, and what gives fresh names.
    frame: Callable[
        [str, list[str], list[str], list[str], Callable[[str], str]], list[str]
    ]
    #: The code of a call: the names of the functions, the operands.
    call: Callable[[Sequence[str], Sequence[str]], str]
    #: The helpers that the call names.
    helpers: Sequence[str] = ()


class Module:
    """What the functions of one text share: what stands above and around them."""

    def __init__(self) -> None:
        self.helpers: dict[str, None] = {}
        self.imports: set[str] = set()
        self.constants: dict[str, Any] = {}
        #: Arrays of moderate size, by name, as code.
        self.arrays: dict[str, str] = {}
        #: What a function calls itself or hands over: no other may hide it.
        self.globals = {"np", "function", *HELPERS, *keyword.kwlist, *dir(builtins)}
        #: The functions of ops that are made of a graph, by op and specs of operands.
        self.functions: dict[Any, Any] = {}
