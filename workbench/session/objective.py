"""`Objective`: the output and inputs of a session's gradients, checked beforehand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from workbench import errors
from workbench.autodiff.higher_order import is_draw
from workbench.autodiff.steps import with_inner_nodes
from workbench.core import blame, sites, source, types, walk
from workbench.core.float_warnings import Warned
from workbench.core.graph import Graph
from workbench.core.schedule import Schedule, compute_node
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import is_float
from workbench.core.traces import Decision
from workbench.core.types import is_one_number
from workbench.core.walk import is_leaf
from workbench.errors import UsageError
from workbench.ops.define import shape_of
from workbench.session.nodes import Node, Nodes, check_one_array

#: How Python asked for a number, as an error writes it.
SPELLINGS = {"item": "x.item()", "tolist": "x.tolist()", "index": "int(x)"}
#: What surely decides which program is recorded; other numbers may only be printed.
DECISIVE = frozenset({"bool", "cond", "index"})

# Decisions by values that Python took while a program was recorded.
#
# ``if q > 0`` sees a number, and only the branch that was taken becomes nodes. Each
# such number is remembered (`traces.Decision`), and computed again with the inputs of a
# later run: where Python would decide otherwise, the recorded program is not the
# user's. Of a ``float(x)`` nobody knows whether the program reads it or the user prints
# it: that is a warning, once.


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
    place = blame.quote_site(sites.decode(made.code, made.lasti))
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


# The objective


class Objective:
    """The output, inputs and seed of a session's gradients; an objective never changes.

    Attributes
    ----------
    nodes
        The nodes of the session by name and id.
    output
        The id of the node that is differentiated.
    wrt
        The ids of the nodes it is differentiated by.
    seed
        The cotangent of an output that is not one number.
    warned
        The places that have had a warning of NumPy's.
    decisions
        What Python decided when the program was recorded; None for nothing.
    """

    def __init__(
        self,
        nodes: Nodes,
        graph: Graph,
        output: Node | None,
        wrt: Iterable[Node] | None,
        seed: Any,
    ) -> None:
        self.nodes = nodes
        self.output = find_output(nodes, graph, output)
        self.wrt = find_wrt(nodes, graph, self.output, wrt)
        self.seed = check_seed(
            seed, graph.nodes[self.output], [graph.nodes[i] for i in self.wrt]
        )
        self.warned: Warned = set()
        self.decisions = find_decisions(graph)


def check_name(name: str) -> str:
    """Check the name of a session: a variable's name, since its code must run.

    Raises
    ------
    UsageError
        If it is not.
    """
    if isinstance(name, str) and name.isidentifier() and not iskeyword(name):
        return name
    raise errors.UsageError(
        f"a session cannot be called {name!r}: its code has lines such as"
        " ad.override(...). Choose a name that a variable may have."
    )


def find_output(nodes: Nodes, graph: Graph, output: Node | None) -> int:
    """Return the id of the output node, by default of the last output.

    Raises
    ------
    DisconnectedInputError
        If it is a constant.
    DtypeError
        If it is of integer or boolean dtype.
    UsageError
        If the program has no output, or the node has several arrays.
    """
    if output is None:
        if not graph.outputs:
            raise errors.UsageError(
                "the program has no output. Name a node to differentiate."
            )
        output = graph.outputs[-1]
        if not isinstance(output, Tensor):
            integer = "" if graph.integers is None else graph.integers.describe()
            cure = "Return something that is computed from the inputs with NumPy."
            raise errors.DisconnectedInputError(
                f"the output is the constant {output!r}: it depends on no input."
                f" {integer or cure}"
            )
    output_id = nodes.find(output)
    node = graph.nodes[output_id]
    if not is_float(node):
        check_one_array(node, graph.nodes, nodes.labels)
        raise errors.DtypeError(
            f"the output {nodes.labels[output_id]} ({blame.describe(node)}"
            f"{blame.quote_site(node.site)}) is of dtype {node.dtype}, and has no"
            " derivative. Name a float value that it is computed from."
        )
    return output_id


def find_wrt(
    nodes: Nodes, graph: Graph, output: int, wrt: Iterable[Node] | None
) -> list[int]:
    """Return the ids of the nodes to differentiate by.

    Raises
    ------
    DtypeError
        If one of them is of integer dtype.
    DisconnectedInputError
        If the output does not depend on one of them.
    """
    tensors = graph.nodes
    reached = {x.serial for x in walk.order_nodes([tensors[output]])}
    if wrt is None:
        return [
            nodes.find(x) for x in graph.inputs if x.serial in reached and is_float(x)
        ]
    ids = [nodes.find(x) for x in ([wrt] if isinstance(wrt, str) else wrt)]
    labels = nodes.labels
    for i in ids:
        if not is_float(tensors[i]):
            check_one_array(tensors[i], tensors, labels)
            raise errors.DtypeError(
                f"{labels[i]} is of dtype {tensors[i].dtype}, and an integer has no"
                f" derivative. Write {labels[i]} = {labels[i]}.astype(float) before,"
                " or leave it out of wrt."
            )
    missing = [labels[i] for i in ids if tensors[i].serial not in reached]
    if missing:
        others = [x.name for x in graph.inputs if x.serial in reached and x.name]
        raise errors.DisconnectedInputError(
            f"{labels[output]} does not depend on {', '.join(missing)}. Leave"
            f" {'it' if len(missing) == 1 else 'them'} out of wrt; it depends on"
            f" {', '.join(others) or 'no input'}."
        )
    return ids


def check_seed(seed: Any, node: Tensor, wrt: Iterable[Tensor]) -> Any:
    """Return the seed in the output's shape and dtype; None if none is needed.

    Raises
    ------
    NonScalarOutputError
        If the output is many numbers and there is no seed.
    DtypeError
        If the output is complex, a ``wrt`` is real, and there is no seed.
    ShapeError
        If the seed has another shape.
    """
    if seed is None:
        if not is_one_number(shape_of(node)):
            raise errors.NonScalarOutputError(
                f"a session needs one number; the output is {blame.describe(node)}"
                f"{blame.quote_site(node.site)}. Reduce it (np.sum, np.mean), or give a"
                f" seed: a cotangent of shape {node.shape}."
            )
        real = next((x for x in wrt if x.dtype.kind != "c"), None)
        if node.dtype.kind == "c" and real is not None:
            raise errors.DtypeError(
                f"the output {blame.describe(node)}{blame.quote_site(node.site)} is"
                f" complex, and its gradient by {blame.describe(real)} would be that of"
                " the real part alone. Return the part that you mean, np.real(y),"
                " np.imag(y) or np.abs(y), or give a seed: 1 for the real part, -1j for"
                " the other."
            )
        return None
    if np.shape(seed) != node.shape:
        raise errors.ShapeError(
            f"the seed has shape {np.shape(seed)}; the output is"
            f" {blame.describe(node)}{blame.quote_site(node.site)}. Give a cotangent of"
            f" shape {node.shape}."
        )
    if hasattr(seed, "astype"):
        return seed.astype(node.dtype)
    return np.array(seed, node.dtype)
