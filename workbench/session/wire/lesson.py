"""A small program as a lesson: at each node its numbers, and the chain rule in symbols.

The page steps through both sweeps with it, in an HTML file too. The symbols are those
of the op's own rule, ``g x₁ᵀ``, with the names of the program in their places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.checks.statistics import to_host
from workbench.core import types
from workbench.core.formatting import format_number
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.ops.define import shape_of
from workbench.rewrite.text import format_node
from workbench.session.wire.columns import name_constant
from workbench.session.wire.detail import RULE_SEPARATOR
from workbench.session.wire.protocol.snapshot import LessonData, LessonNodeData

if TYPE_CHECKING:
    from workbench.session.session import Session

#: Larger programs are no lesson.
MOST_LESSON_NODES = 100
#: Arrays of more entries are not printed, and longer formulas are cut.
MOST_PRINTED, MOST_FORMULA = 24, 600
#: What stands for the cotangent, the output and the operands in the text of a rule.
_SYMBOL = re.compile(r"(?<![A-Za-z])(g|y|x[₀-₉]*)(?![A-Za-z0-9_])")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def write_lesson(session: Session, *, is_open: bool = False) -> LessonData | None:
    """Return the lesson of a session; None for a program that is too large.

    ``is_open`` tells whether a page is to begin with it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: -np.tanh(x))(np.array(0.0)))
    >>> [one["rule"] for one in write_lesson(session)["nodes"]][:2]
    ['∂negative/∂x = ∂negative/∂t1 · (1 − t1²)', '∂negative/∂t1 = −∂negative/∂negative']
    """
    with session.lock:
        nodes = session.graph.nodes
        if len(nodes) > MOST_LESSON_NODES or session.backward is None:
            return None
        writer = _Writer(session)
        cotangents = session.backward.cotangents
        return LessonData(
            open=is_open,
            nodes=[
                LessonNodeData(
                    value=_print_array(x._value),
                    gradient=_print_array(cotangents.get(i)),
                    made=clean_text(writer.write_value(i), MOST_FORMULA),
                    rule=clean_text(writer.write_gradient(i), MOST_FORMULA),
                )
                for i, x in enumerate(nodes)
            ],
        )


class _Writer:
    """Writes the formulas of a program in its own names."""

    def __init__(self, session: Session) -> None:
        self.session, self.nodes = session, session.graph.nodes
        self.names = name_values(self.nodes, session.output)
        taken = {x.name for x in self.nodes if x.name} | {*self.names.values()}
        unnamed = [x for x in self.nodes if not x.name and not is_leaf(x)]
        free = number_names("t", taken)
        for x in unnamed:
            if x.serial not in self.names:
                self.names[x.serial] = next(free)
        arrays = {id(x): x for node in self.nodes for x in node.inputs if _is_array(x)}
        free = number_names("c", taken)
        plain = len(arrays) == 1 and "c" not in taken
        #: The names of arrays that are constants, by their ids.
        self.constants = {i: "c" if plain else next(free) for i in arrays}
        self.overrides = {
            i: one for one in session.overrides if one.enabled for i in one.matched
        }

    def find_name(self, x: Any) -> str:
        """Return what an operand is called in a formula."""
        if not isinstance(x, Tensor):
            return self.constants.get(id(x)) or format_number(x, 4)
        known = self.names.get(x.serial) or x.name or name_constant(x)
        return known or self.constants.get(id(x), "c")

    def write_value(self, i: int) -> str:
        """Return what a node computes, "h = tanh(a)"; empty for an input."""
        node = self.nodes[i]
        if is_leaf(node):
            return ""
        return f"{self.find_name(node)} = {format_node(node, 1, self.names)}"

    def name_gradient(self, i: int) -> str:
        """Return the name of the gradient of a node: "∂loss/∂h"."""
        output = self.nodes[self.session.output]
        return f"∂{self.find_name(output)}/∂{self.find_name(self.nodes[i])}"

    def write_gradient(self, i: int) -> str:
        """Return the chain rule at a node, a sum over what reads it."""
        backward = self.session.backward
        if backward is None or i not in backward.cotangents:
            return ""
        left = self.name_gradient(i)
        if i == self.session.output:
            seed = _print_array(backward.cotangents[i])
            return f"{left} = {'1' if not seed or seed == '1' else seed}"
        terms = [
            self.write_share(reader, place)
            for reader, node in enumerate(self.nodes)
            if reader in backward.cotangents
            for place, x in enumerate(node.inputs)
            if x is self.nodes[i]
        ]
        return f"{left} = {' + '.join(terms)}".replace("+ −", "− ")

    def write_share(self, reader: int, place: int) -> str:
        """Return what a node passes on to one of its operands."""
        node = self.nodes[reader]
        g = self.name_gradient(reader)
        texts = (node.op.rule or "").split(RULE_SEPARATOR)
        which = place if len(texts) == len(node.inputs) else 0
        if not texts[which] or len(texts) not in (1, len(node.inputs)):
            share = (
                f"{g} · ∂{self.find_name(node)}/∂{self.find_name(node.inputs[place])}"
            )
        else:
            share = _SYMBOL.sub(
                lambda found: self.find_symbol(node, g, found[1]), texts[which]
            )
        if node.op.elementwise and shape_of(node.inputs[place]) != shape_of(node):
            share = f"Σ {share}" if share == g else f"Σ ({share})"
        one = self.overrides.get(reader)
        return share if one is None else f"{one.rule} with g = {g}, d = {share}"

    def find_symbol(self, node: Tensor, g: str, symbol: str) -> str:
        """Return what a symbol of a rule stands for at a node."""
        if symbol == "g":
            return g
        if symbol == "y":
            return self.find_name(node)
        place = int(symbol[1:].translate(_SUBSCRIPTS) or 0)
        return (
            self.find_name(node.inputs[place]) if place < len(node.inputs) else symbol
        )


def name_values(nodes: Sequence[Tensor], output: int) -> dict[int, str]:
    """Return names where those of the user's do not tell two nodes apart, by serial.

    What is computed under a name that another node has too gets a number: ``h1``,
    ``h2``. An input keeps its name. An output without a name is called by its op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x, sum: np.sum(np.tanh(np.exp(x)) * sum))(1.0, 2.0)
    >>> for node in graph.nodes[2:4]:
    ...     node.name = "h"
    >>> [*name_values(graph.nodes, len(graph.nodes) - 1).values()]
    ['h1', 'h2', 'sum1']
    """
    times = Counter(x.name for x in nodes)
    taken = {x.name for x in nodes if x.name}
    free = {name: number_names(name, taken) for name in taken}
    names = {
        x.serial: next(free[x.name])
        for x in nodes
        if x.name and times[x.name] > 1 and not is_leaf(x)
    }
    end = nodes[output]
    if not end.name and not is_leaf(end):
        taken |= {*names.values()}
        name = end.op.name
        names[end.serial] = next(number_names(name, taken)) if name in taken else name
    return names


def number_names(name: str, taken: Collection[str]) -> Iterator[str]:
    """Yield a name with the numbers from 1 on, without names that are taken."""
    return (one for k in count(1) if (one := f"{name}{k}") not in taken)


def _is_array(x: Any) -> bool:
    """Return whether an operand is a constant that has no name and is no number."""
    if isinstance(x, Tensor):
        return is_leaf(x) and name_constant(x) is None
    return not types.is_weak(x) and getattr(x, "shape", None) != ()


def _print_array(x: Any) -> str:
    """Return a small array in rows of numbers; empty for a larger one."""
    if (
        x is None
        or isinstance(x, tuple)
        or not (types.is_weak(x) or hasattr(x, "shape"))
    ):
        return ""
    if int(np.prod(shape_of(x))) > MOST_PRINTED or len(shape_of(x)) > 2:
        return ""
    array = to_host(x)
    if array.dtype.kind not in "biufc":
        return ""
    rows = np.atleast_2d(array)
    lines = [" ".join(format_number(n, 3) for n in row) for row in rows.tolist()]
    return "\n".join(lines).replace("-", "−")
