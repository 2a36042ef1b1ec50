"""`Objective`: the output and inputs of a session's gradients, checked beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

import numpy as np

from workbench import errors
from workbench.core import blame, walk
from workbench.core.float_warnings import Warned
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import is_float
from workbench.core.types import is_one_number
from workbench.ops.define import shape_of
from workbench.session.decisions import find_decisions
from workbench.session.nodes import Node, Nodes, check_one_array


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
