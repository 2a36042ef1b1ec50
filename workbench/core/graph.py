"""`Graph`: a program as data, its inputs, outputs and all between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from workbench.core import pickling, tree, types, walk
from workbench.core.blame import shorten
from workbench.core.deferred import measure_lengths
from workbench.core.float_warnings import NamedWarnings
from workbench.core.op import declare
from workbench.core.schedule import Observer, Schedule
from workbench.core.tensor import Tensor, value_of
from workbench.core.traces import Decision
from workbench.errors import UsageError

#: Beside a picture, a larger graph is described in one line.
MOST_TEXT = 200


class Integers:
    """The integer arguments of a function, which are constants of its graph.

    Parameters
    ----------
    list_names
        Returns the names of the arguments' leaves.
    leaves
        The leaves themselves, those that are inputs too.
    """

    __slots__ = ("kinds", "list_names")

    def __init__(
        self, list_names: Callable[[], Sequence[str]], leaves: Sequence[Any]
    ) -> None:
        self.list_names = list_names
        self.kinds = [_integer_kind(x) for x in leaves]

    def describe(self, name: str | None = None) -> str:
        """Return a sentence on the argument of this name, by default on the first.

        Of a list it is a sentence on its first integer.
        """
        for x, kind in zip(self.list_names(), self.kinds, strict=True):
            if kind and (name in (None, x) or x.startswith(f"{name}[")):
                what = "a truth value" if kind.startswith("bool") else "an integer"
                cast = f"{x}.astype(float)" if kind.endswith("]") else f"float({x})"
                return (
                    f"The argument {x} is of dtype {kind}: {what} has no derivative, so"
                    f" it is a constant of the program. Pass {cast} to the traced"
                    " function."
                )
        return ""


def _integer_kind(x: object) -> str | None:
    """Return the dtype of an integer or a truth value, in words; None for others."""
    if isinstance(x, (bool, int)):
        return type(x).__name__
    if getattr(getattr(x, "dtype", None), "kind", "") in ("b", "i", "u"):
        return repr(types.spec_of(x))
    return None


class Graph:
    """A piece of program: the Tensors that lie between some inputs and some outputs.

    It never changes. Printed it is a list of its nodes; a node of a gradient says which
    forward node it comes from, and by which rule.

    Parameters
    ----------
    inputs, outputs
        Two lists of Tensors; an output may be a constant.
    captures
        Placeholders for what the program reads besides its inputs; their values come
        before those of the inputs when it runs.

    Raises
    ------
    UsageError
        If an input is not a Tensor, or they are no lists.

    Attributes
    ----------
    inputs, captures
        The leaves the program was traced with, in order.
    outputs
        What it computes; constants where an output depends on no input.
    caught
        The arrays that a recorded function has read, by their ids.
    steps
        What :func:`workbench.simplify` did to reach it, each with the rule, what stood
        there before and after, and the whole program at that point.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.sum(x * x))(np.arange(3.0))
    >>> print(graph)
    x      = input              float64[3]
    %1     = multiply(x, x)     float64[3]
    %2     = sum(%1)            float64[]
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Any],
        captures: Sequence[Tensor] = (),
        *,
        tree: tree.Tree | None = None,
        caught: Mapping[int, Any] | None = None,
    ) -> None:
        groups = ("inputs", inputs), ("outputs", outputs), ("captures", captures)
        for what, given in groups:
            if isinstance(given, (Tensor, str)) or not hasattr(given, "__iter__"):
                shown = shorten(repr(given))
                raise UsageError(
                    f"the {what} of a graph are a list, not {shown}. Write"
                    " wb.Graph([x], [y])."
                )
        self.inputs = tuple(inputs)
        self.captures = tuple(captures)
        self.leaves = (*self.captures, *self.inputs)
        for x in self.leaves:
            if not isinstance(x, Tensor):
                raise UsageError(
                    f"an input of a graph is a Tensor, not {shorten(repr(x))}: a symbol"
                    " (wb.scalar('x')), or a leaf of a trace."
                )
        self.outputs = tuple(outputs)
        self._tree = tree
        self.caught: Mapping[int, Any] = caught or {}
        #: What backends have made of it, by their names.
        self.lowered: dict[str, Any] = {}
        #: The integer arguments of the function that it was traced from, if any.
        self.integers: Integers | None = None
        self.steps: Sequence[Any] = ()
        #: What Python decided by values while it was recorded (`traces.Decision`).
        self.decisions: Sequence[Decision] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program without the values of its nodes, and without ``steps``."""
        return pickling.reduce_graph(self)

    @property
    def tree(self) -> tree.Tree:
        """The nest of the outputs that a function returned; else a list."""
        return tree.flatten([*self.outputs])[1] if self._tree is None else self._tree

    @cached_property
    def nodes(self) -> list[Tensor]:
        """Every Tensor the outputs need, and every input, in order of creation."""
        roots = [x for x in self.outputs if isinstance(x, Tensor)]
        return walk.order_nodes([*roots, *self.leaves])

    @cached_property
    def interior(self) -> list[Tensor]:
        """The nodes between the leaves and the outputs, ascending, without leaves."""
        stop = {x.serial for x in self.leaves}
        roots = [x for x in self.outputs if isinstance(x, Tensor)]
        return [x for x in walk.order_nodes(roots, stop=stop) if x.serial not in stop]

    @cached_property
    def schedule(self) -> Schedule:
        """The order in which a run computes the nodes."""
        return Schedule(self.leaves, self.outputs)

    @cached_property
    def varying(self) -> tuple[bool, ...]:
        """For each output, whether a leaf reaches that output."""
        known = self.schedule.varying
        return tuple(
            [isinstance(y, Tensor) and y.serial in known for y in self.outputs]
        )

    @cached_property
    def reads(self) -> list[int]:
        """For each output, the leaves that reach that output, as a bitmask."""
        return self.depends(())

    def depends(self, cut: Collection[int]) -> list[int]:
        """Return which leaves each output depends on other than through ``cut``."""
        masks = {x.serial: 1 << i for i, x in enumerate(self.leaves)}
        for node in self.interior:
            mask = 0
            if node.serial not in cut:
                for x in node.inputs:
                    if isinstance(x, Tensor):
                        mask |= masks.get(x.serial, 0)
            masks[node.serial] = mask
        return [
            masks.get(y.serial, 0) if isinstance(y, Tensor) else 0 for y in self.outputs
        ]

    def run(self, values: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for other values of the leaves.

        Plain arrays give plain arrays, and what no later step reads is let go at once;
        a Tensor among the values, or a live one among the constants, and the steps
        record, each on its user's line, in its scope, under its name.

        Parameters
        ----------
        values
            One array or Tensor for each capture, then for each input.
        observer
            Called as ``observer(node, operands)`` in each step, whose result it
            returns: that of `schedule.compute_node`, looked at or changed.

        Raises
        ------
        ShapeError, DtypeError
            Where NumPy refuses the operands of a step, with the user's line.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> graph = wb.trace(lambda x: np.exp(-x) * 2)(wb.Spec((3,), float))
        >>> graph.run([np.zeros(3)])
        [array([2., 2., 2.])]
        """
        with NamedWarnings():
            return self.schedule.run(values, observer)

    @cached_property
    def ids(self) -> dict[Tensor, int]:
        """The position of each Tensor among the nodes."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def _repeated(self) -> set[str]:
        """The names that several nodes have."""
        counts = Counter(node.name for node in self.nodes if node.name)
        return {name for name, count in counts.items() if count > 1}

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> Tensor:
        for node in reversed(self.nodes):
            if node.name == name:
                return node
        names = sorted({node.name for node in self.nodes if node.name})
        raise KeyError(f"no node is named {name!r}; there are {', '.join(names)}")

    def label(self, x: object) -> str:
        """Return a Tensor's name, ``%3`` for its position, or a constant's text.

        Several of one name have their positions too: ``x%0``, ``x%3``.
        """
        if isinstance(x, Tensor):
            name, place = x.name, self.ids.get(x)
            if place is None:
                return name or "outer"
            if not name:
                return f"%{place}"
            return f"{name}%{place}" if name in self._repeated else name
        if types.is_weak(x) or getattr(x, "shape", None) == ():
            return str(x)
        return repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x)

    # How it is shown: text and pictures load at their first use

    def __str__(self) -> str:
        from workbench.core.listing import write_listing

        return write_listing(self)

    def dot(self) -> str:
        """Return the graph in the DOT language, for Graphviz and other programs.

        Forward and backward nodes stand in a cluster each; a dashed line joins a node
        of a gradient to the forward node whose rule made it.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.scalar("x")
        >>> print(wb.Graph([x], [np.sin(x)]).dot().splitlines()[-2])
          n0 -> n1;
        """
        from workbench.core.listing import write_dot

        return write_dot(self)

    def svg(self) -> str:
        """Return the graph as a picture that stands alone: a text of SVG.

        The program runs down, and its gradient further down from there. A large graph
        is folded by its scopes, or described in words. In a notebook a graph shows this
        by itself.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.scalar("x")
        >>> picture = wb.Graph([x], [np.sin(x)]).svg()
        >>> picture.startswith("<svg"), "float64[]" in picture
        (True, True)
        """
        from workbench.core.listing import draw_graph

        return draw_graph(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = str(self) if len(self) <= MOST_TEXT else repr(self)
        return {"image/svg+xml": self.svg(), "text/plain": text}

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} nodes>"


def copy_onto(graph: Graph, fresh: Mapping[Tensor, Tensor]) -> Graph:
    """Return a copy of a graph without values, on other leaves in place of some.

    Nodes that depend on none of these stay as they are.
    """
    copies: dict[int, Any] = {x.serial: y for x, y in fresh.items()}
    for node in graph.interior:
        inputs = tuple(
            [
                copies.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            ]
        )
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            copies[node.serial] = copy = walk.copy_node(node, inputs, node.args, None)
            if node.origin is not None:
                forward = copies.get(node.origin.forward.serial, node.origin.forward)
                copy.origin = node.origin._replace(forward=forward)
    return Graph(
        [fresh.get(x, x) for x in graph.inputs],
        [
            copies.get(y.serial, y) if isinstance(y, Tensor) else y
            for y in graph.outputs
        ],
        [fresh.get(x, x) for x in graph.captures],
    )


# Inlining: nodes that ask for it become the ops that they are made of.
#
# An op with rules of its own must stay one node until the program has been
# differentiated; a backend puts its ops in its place when it makes a function.


def inline(graph: Graph) -> Graph:
    """Return the graph with each node that is to be inlined replaced by its ops.

    Each stands on the line where it was written. The same graph if there is none.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> cube = wb.OpFromGraph([x], x * x * x, inline=True, vjp="clip(d, -1, 1)")
    >>> print(inline(Graph([x], [cube(x)])))
    x      = input              float64[]
    %1     = multiply(x, x)     float64[]
    %2     = multiply(%1, x)    float64[]
    """
    while any(node.op.inline for node in graph.interior):
        graph = _inline_once(graph)
    return graph


def _inline_once(graph: Graph) -> Graph:
    replacements: dict[int, Any] = {}
    for node in graph.interior:
        inputs = tuple(
            [
                replacements.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            ]
        )
        if node.op.inline and node.op.graphs is not None:
            operands, settings = measure_lengths(inputs, node.params)
            (program,) = node.op.graphs(operands, settings)
            outputs = program.run(operands)
            several = isinstance(types.spec_of(node), tuple)
            replacements[node.serial] = tuple(outputs) if several else outputs[0]
            _pass_name(replacements[node.serial], node)
        elif node.op is declare("item") and isinstance(inputs[0], tuple):
            replacements[node.serial] = inputs[0][node.params["index"]]
            _pass_name(replacements[node.serial], node)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            values = tuple(map(value_of, inputs))
            replacements[node.serial] = walk.copy_node(
                node, inputs, values, node._value
            )
    outputs = [
        replacements.get(y.serial, y) if isinstance(y, Tensor) else y
        for y in graph.outputs
    ]
    return Graph(graph.inputs, outputs, graph.captures)


def _pass_name(replacement: object, node: Tensor) -> None:
    """Give the replacement of a node the node's name."""
    if (
        isinstance(replacement, Tensor)
        and node.name is not None
        and replacement.name is None
    ):
        replacement.name = node.name
