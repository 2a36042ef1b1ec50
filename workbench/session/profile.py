"""`SessionProfile`: the costs of a run of a session, by steps and by nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.backends import numpy as numpy_backend
from workbench.backends.profile import Cost, Profile, measure
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.session.state import State


class SessionProfile(Profile):
    """The costs of a run of a session: print them, or iterate over the rows.

    Attributes
    ----------
    values
        What falls to the value of each node, by its id.
    rules
        What falls to the gradient rule of each node, by its id.
    """

    def __init__(
        self, measured: Profile, ids: Mapping[int, int], has_origins: bool
    ) -> None:
        super().__init__(measured.backend, measured.rows, measured.peak)
        #: The same as data for the page, once that is asked for.
        self.data: Any = None
        self.values: dict[int, Cost] = {}
        self.rules: dict[int, Cost] = {}
        for node, cost in self.costs.items():
            place = find_place(node, ids, has_origins)
            if place is not None:
                i, backward = place
                costs = self.rules if backward else self.values
                costs[i] = add_costs(costs.get(i), cost)


class ProfiledNode(NamedTuple):
    """The node with the value or the rule that a node of a program computes."""

    id: int
    backward: bool


def find_place(
    node: Tensor, ids: Mapping[int, int], has_origins: bool
) -> ProfiledNode | None:
    """Return the node of the program that a node computes; None if unknown.

    Origins lead to the nodes of ``ids``; with ``has_origins`` those of the values too.
    """
    steps = 0
    while node.serial not in ids:
        if node.origin is None:
            return None
        node, steps = node.origin.forward, steps + 1
    return ProfiledNode(ids[node.serial], steps > has_origins)


def add_costs(one: Cost | None, other: Cost) -> Cost:
    """Return the cost of both together, in the row where the larger part is."""
    if one is None:
        return other
    row = one.row if one.time >= other.time else other.row
    return Cost(one.time + other.time, one.traffic + other.traffic, row)


def measure_profile(state: State) -> SessionProfile:
    """Return the costs of a run, by steps and by nodes; print the result.

    See `Session.profile`.
    """
    state.require_gradients()
    programs = state.programs
    is_local = programs is not None and programs.is_local
    recorded = state.make_program() if is_local else None
    if recorded is not None and recorded.function is not None:
        measured = measure(recorded.function, state.list_inputs())
        found = SessionProfile(measured, recorded.ids, True)
    else:
        forward, gradients = state.forward, state.gradient_graph.outputs
        output = forward.graph.nodes[state.objective.output]
        graph = Graph(forward.graph.inputs, [output, *gradients])
        measured = measure(numpy_backend.compile(graph), state.list_inputs())
        found = SessionProfile(measured, forward.ids, False)
    return found
