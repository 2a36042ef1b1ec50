"""Decisions by values that Python took while a program was recorded.

``if q > 0`` sees a number, and only the branch that was taken becomes nodes. Each such
number is remembered (`traces.Decision`), and computed again with the inputs of a later
run: where Python would decide otherwise, the recorded program is not the user's. Of a
``float(x)`` nobody knows whether the program reads it or the user prints it: that is a
warning, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import is_draw
from workbench.autodiff.steps import with_inner_nodes
from workbench.core import blame, source, types, walk
from workbench.core.graph import Graph
from workbench.core.schedule import Schedule, compute_node
from workbench.core.tensor import Tensor, value_of
from workbench.core.traces import Decision
from workbench.core.walk import is_leaf
from workbench.errors import UsageError

#: How Python asked for a number, as an error writes it.
SPELLINGS = {"item": "x.item()", "tolist": "x.tolist()", "index": "int(x)"}
#: What surely decides which program is recorded; other numbers may only be printed.
DECISIVE = frozenset({"bool", "cond", "index"})


class Decisions:
    """The decisions of a program, computed again from its inputs.

    Parameters
    ----------
    leaves
        The leaves of a copy of the program without values, by the ids of the nodes.
    decisions
        The decisions, ascending, about nodes of that copy.
    """

    def __init__(
        self, leaves: Mapping[int, Tensor], decisions: Sequence[Decision]
    ) -> None:
        self._leaves, self._decisions = leaves, list(decisions)
        # What depends on some of the leaves, by their ids.
        self._plans: dict[frozenset[int], _Plan] = {}

    def check(self, changed: Mapping[int, Any], old: Callable[[int], Any]) -> None:
        """Raise an error if Python would decide otherwise with other inputs.

        Parameters
        ----------
        changed
            The new values of some leaves, by their ids.
        old
            Returns the value of another leaf.

        Raises
        ------
        UsageError
            For the first decision that would be another one.

        Warns
        -----
        UserWarning
            For a plain number that is another one, and may be one of the program: once.
        """
        ids = frozenset(self._leaves.keys() & changed.keys())
        if not ids:
            return
        if ids not in self._plans:
            self._plans[ids] = _Plan(self._leaves, self._decisions, ids)
        plan = self._plans[ids]
        values = [changed[i] if i in changed else old(i) for i in self._leaves]
        for leaf, value in zip(self._leaves.values(), values, strict=True):
            plan.compare(leaf, value)
        if plan.schedule is not None:

            def look(node: Tensor, operands: tuple[Any, ...]) -> Any:
                value = compute_node(node, operands)
                plan.compare(node, value)
                return value

            with np.errstate(all="ignore"):  # the program itself warns
                plan.schedule.run(values, look)
        for made, new in plan.changed:
            # It is told, and computed no more.
            self._decisions.remove(made)
            self._plans.clear()
            message = _describe_change(made, new)
            warnings.warn(message, stacklevel=source.count_frames())


class _Plan:
    """The decisions that depend on some leaves, and the program that computes these."""

    def __init__(
        self,
        leaves: Mapping[int, Tensor],
        decisions: Sequence[Decision],
        ids: frozenset[int],
    ) -> None:
        #: Plain numbers that are others now, and what they are.
        self.changed: list[tuple[Decision, Any]] = []
        nodes = walk.order_nodes([made.node for made in decisions])
        found = walk.find_dependents(nodes, [leaves[i] for i in ids])
        self._of: dict[int, list[Decision]] = {}
        for made in decisions:
            if made.node.serial in found:
                self._of.setdefault(made.node.serial, []).append(made)
        roots = {
            made.node.serial: made.node
            for several in self._of.values()
            for made in several
            if not is_leaf(made.node)
        }
        self.schedule = (
            Schedule([*leaves.values()], [*roots.values()]) if roots else None
        )

    def compare(self, node: Tensor, value: Any) -> None:
        """Raise an error if a decision about a node would be another one."""
        for made in self._of.get(node.serial, ()):
            new = _convert(made.kind, value)
            if _is_equal(new, made.value):
                continue
            if made.kind in DECISIVE:
                raise UsageError(_describe_change(made, new))
            self.changed.append((made, new))


def find_decisions(graph: Graph) -> Decisions | None:
    """Return the decisions that depend on the leaves of a graph; None for none.

    They are kept without the values of the program, and without what draws random
    numbers, which another run would draw otherwise.
    """
    if not graph.decisions:
        return None
    ids = {x.serial: i for i, x in enumerate(graph.nodes) if is_leaf(x)}
    tensors = graph.nodes
    copies: dict[int, Any] = {}
    leaves: dict[int, Tensor] = {}
    drawn: set[int] = set()
    roots = [made.node for made in graph.decisions]
    for node in walk.order_nodes(roots, min(ids, default=0)):
        if node.serial in ids:
            i = ids[node.serial]
            leaves[i] = copies[node.serial] = walk.copy_node(tensors[i], (), (), None)
            continue
        inputs = tuple(
            [
                copies[x.serial]
                if isinstance(x, Tensor) and x.serial in copies
                else _copy_constant(value_of(x))
                for x in node.inputs
            ]
        )
        if any(isinstance(x, Tensor) for x in inputs):
            if any(map(is_draw, with_inner_nodes([node]))) or any(
                isinstance(x, Tensor) and x.serial in drawn for x in node.inputs
            ):
                drawn.add(node.serial)
            copies[node.serial] = walk.copy_node(node, inputs, (), None)
    kept: dict[tuple[int, str], Decision] = {}
    for made in graph.decisions:
        serial = made.node.serial
        if serial in copies and serial not in drawn:
            kept.setdefault((serial, made.kind), made._replace(node=copies[serial]))
    return Decisions(leaves, [*kept.values()]) if kept else None


def _copy_constant(constant: Any) -> Any:
    """Return a constant that no other code can change."""
    if isinstance(constant, np.ndarray) and constant.flags.writeable:
        return constant.copy()
    return constant


def _convert(kind: str, value: Any) -> Any:
    """Return a value in the Python type of a decision's kind."""
    if kind in ("bool", "cond"):
        return bool(value)
    if kind in ("int", "index"):
        return int(value)
    if kind == "float":
        return float(value)
    return complex(value) if kind == "complex" else value


def _is_equal(new: Any, old: Any) -> bool:
    """Return whether two values are the same, entry by entry; NaN is NaN."""
    same = (new == old) | ((new != new) & (old != old))
    return bool(same.all() if hasattr(same, "all") else same)


def _describe_change(made: Decision, new: Any) -> str:
    """Return the error text for a decision that would change."""
    again = "Run the cell again with these values (elsewhere wb.trace)"
    place = blame.quote_site(source.decode(made.code, made.lasti))
    call = SPELLINGS.get(made.kind, f"{made.kind}(x)")
    if made.kind not in DECISIVE:
        return (
            f"run: {call} of {blame.describe(made.node)}{place} was"
            f" {_shorten(made.value)} when the program was recorded, and is"
            f" {_shorten(new)} now. Where the program reads that number, it holds the"
            f" one of then. {again}, or compute with x itself in place of {call}; to"
            " print it, x.value."
        )
    start = (
        f"run: with these inputs {'wb.cond' if made.kind == 'cond' else 'Python'} would"
        f" decide otherwise{place}:"
    )
    if made.kind in ("bool", "cond"):
        cure = "or write np.where(condition, a, b) in place of `if`, wb.while_loop in"
        cure += " place of `while`, which decide in each run"
        if made.kind == "cond":
            cure = "or write np.where(condition, a, b), which decides in each run"
        return (
            f"{start} {blame.describe(made.node)} was {made.value} when the program was"
            f" recorded, and is {new} now. The program holds only what ran then."
            f" {again}; {cure}."
        )
    return (
        f"{start} {call} of {blame.describe(made.node)} was {_shorten(made.value)} when"
        f" the program was recorded, and is {_shorten(new)} now. The program holds the"
        f" number of then. {again}; or compute with x itself in place of {call}, and"
        " print x.value."
    )


def _shorten(value: Any) -> str:
    if types.is_weak(value) or getattr(value, "shape", None) == ():
        return str(value)
    return blame.shorten(repr(value))
