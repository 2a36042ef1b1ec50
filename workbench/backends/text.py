"""A program as NumPy code that a person reads and that runs on its own.

The whole text: what is imported, helpers, inner functions, and the function, whose
lines `lines.py` writes. Constants of a few thousand characters are spelled out; larger
ones are listed and handed over as globals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.backends.lines import Lines, call_of
from workbench.backends.module import HELPERS, Form, Module
from workbench.backends.schedule import schedule
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.types import spec_of

__all__ = ["Text", "write"]


class Text(NamedTuple):
    """The code, and the globals it needs besides what it imports."""

    source: str
    constants: dict[str, Any]


def write(graph: Graph, nodes: Sequence[Tensor], form: Form | None = None) -> Text:
    """The code of ``nodes``, which are the steps from a graph's inputs to outputs."""
    form = Form() if form is None else form
    module = Module()
    last = Lines(graph, nodes, module)
    module.globals.add(form.name)
    inner = _inner(last)
    own = last.function(form)
    above = ["import numpy as np"]
    if module.imports:
        above.append(f"from scipy import {', '.join(sorted(module.imports))}")
    if module.constants:
        above += ["", "# Globals to hand over:"]
        above += [f"#   {name}: {_kind(v)}" for name, v in module.constants.items()]
    if module.arrays:
        above += ["", *module.arrays.values()]
    above += [f"\n\n{HELPERS[name].rstrip()}" for name in module.helpers]
    for lines in [*inner, own]:
        above += ["", "", *lines]
    return Text("\n".join(above), module.constants)


def _inner(last: Lines) -> list[list[str]]:
    """The functions of the ops that are made of graphs, those inside others too."""
    found: list[Lines] = []
    framed: dict[int, tuple[str, Any]] = {}
    module = last.module
    waiting = [last]
    while waiting:
        for node in waiting.pop().nodes:
            if node.op.source is not None:
                brought = node.op.source(node)
                if brought.key in module.functions:
                    continue
                module.helpers.update(dict.fromkeys(brought.helpers))
                names = []
                for base, graph in brought.graphs:
                    names.append(last.names.name(base))
                    module.globals.add(names[-1])
                    steps = [step.node for step in schedule(graph).steps]
                    found.append(Lines(graph, steps, module))
                    framed[id(found[-1])] = names[-1], brought.frame
                    waiting.append(found[-1])
                module.functions[brought.key] = tuple(names)
                continue
            if node.op.body is None:
                continue
            key = call_of(node)
            if key in module.functions:
                continue
            name = last.names.name(node.op.name)
            module.functions[key] = name
            module.globals.add(name)
            graph = node.op.body(*key[1])
            steps = [step.node for step in schedule(graph).steps]
            found.append(Lines(graph, steps, module))
            framed[id(found[-1])] = name, None
            waiting.append(found[-1])
    # What is called stands above what calls it.
    return [lines.inside(*framed[id(lines)]) for lines in reversed(found)]


def _kind(value: Any) -> str:
    if hasattr(value, "shape"):
        return repr(spec_of(value))
    return "a function" if callable(value) else type(value).__name__
