"""Curvature by first derivatives, and the gradients of single examples.

The Gauss-Newton matrix ``Jᵀ H J`` has the Jacobian of an array in the middle of the
program, such as what a network predicts, and the Hessian of the output by it: the
Hessian without the curvature of what comes before. The Fisher matrix is the mean of
the outer products of the examples' gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workbench.autodiff.linear_map import LinearMap
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.propagation import find_jacobian_pattern
from workbench.checks.progress import Progress
from workbench.checks.statistics import to_host
from workbench.core import types
from workbench.core.tensor import Tensor, make_leaf
from workbench.core.walk import substitute
from workbench.errors import UsageError
from workbench.session.derivative import (
    Derivative,
    Endpoints,
    SecondDerivative,
    find_path,
    leave_out_overrides,
    make_derivative,
)
from workbench.session.nodes import Node
from workbench.session.state import State

Array = np.ndarray[Any, Any]
Wrt = Iterable[Node] | Node | None


class Curvature(SecondDerivative):
    """``Jᵀ H J``, symmetric: the derivative of ``Jᵀ g`` where J does not vary.

    Attributes
    ----------
    middle
        The label of the array whose Jacobian J is.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        first: list[Any],
        left_out: tuple[str, ...],
        name: str,
        middle: str,
    ) -> None:
        super().__init__(endpoints, first, left_out)
        self.title = f"{name} matrix of {self.label} by {', '.join(endpoints.labels)}"
        self.middle = middle

    def _find_structure(self) -> SparsityPattern:
        varying = [x if isinstance(x, Tensor) else np.asarray(x) for x in self._first]
        return find_jacobian_pattern(varying, self._endpoints.sources)

    @cached_property
    def zero_reason(self) -> str:
        """Why all entries are zero, if they are."""
        return f"{self.label} is linear in {self.middle}, or its derivative is zero"


def find_cuts(state: State, wrt: Wrt) -> list[int]:
    """Return the ids of the arrays that every path from the inputs goes through.

    The inputs are those of ``wrt`` and those of the session; the arrays have an axis
    and a derivative, and stand in the order of the program.
    """
    objective = state.objective
    given = Endpoints(state, None, wrt).wrt
    ends = Endpoints(state, None, [*dict.fromkeys([*objective.wrt, *given])])
    path = find_path(ends)
    place = {i: k for k, i in enumerate(path)}
    nodes, last = state.forward.graph.nodes, [0] * len(path)
    for k, i in enumerate(path):
        for x in nodes[i].inputs:
            before = place.get(ends.ids.get(getattr(x, "serial", -1), -1))
            if before is not None:
                last[before] = k
    found, open_until = [], 0
    for k, i in enumerate(path):
        # Nothing before it is used after it: inputs that come later are not before.
        starts_later = any(place.get(j, -1) > k for j in ends.wrt)
        if open_until <= k and not starts_later and i not in (*ends.wrt, ends.of):
            node = nodes[i]
            if node.ndim and types.is_differentiable(node.dtype):
                found.append(i)
        open_until = max(open_until, last[k])
    return found


def make_gauss_newton(
    state: State, of: Node | None = None, wrt: Wrt = None
) -> Curvature:
    """Return the Gauss-Newton matrix of a session's output; see `plots.gauss_newton`.

    Raises
    ------
    UsageError
        If no array is on all paths and none is given.
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    """
    if of is None:
        of = _first_cut(state, wrt, 0, "gauss_newton", "what the network predicts")
    inner = make_derivative(state, of, wrt, overrides=False)
    ends = Endpoints(state, None, wrt)
    left_out = leave_out_overrides(ends)
    middle = state.forward.graph.nodes[inner.of]
    seed = np.ones_like(ends.output._value) if ends.seed is None else ends.seed
    with np.errstate(all="ignore"):  # the program itself has warned already
        (bent,) = LinearMap([ends.output], [middle], record=True).pull([seed])
    return _make_product(
        ends, middle, bent, left_out, "Gauss-Newton", inner.row_parts[0][0]
    )


def make_fisher(state: State, of: Node | None = None, wrt: Wrt = None) -> Curvature:
    """Return the empirical Fisher matrix of a session; see `plots.fisher`.

    Raises
    ------
    UsageError
        If ``of`` has no axis of examples, or no array is on all paths and none is
        given.
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    """
    inner = make_example_derivative(state, of, wrt, overrides=False, name="fisher")
    ends = Endpoints(state, None, wrt)
    left_out = leave_out_overrides(ends)
    middle: Any = state.forward.graph.nodes[inner.of]
    n = middle.shape[0]
    with np.errstate(all="ignore"):
        one = (n, *(1 for _ in middle.shape[1:]))
        total = np.reshape(np.sum(middle, tuple(range(1, len(one)))), one)
        bent = np.broadcast_to(total, middle.shape) / n
    label = inner.row_parts[0][0]
    return _make_product(ends, middle, bent, left_out, "Fisher", label)


def _make_product(
    ends: Endpoints,
    middle: Tensor,
    bent: Any,
    left_out: tuple[str, ...],
    name: str,
    label: str,
) -> Curvature:
    """Return the derivative of ``Jᵀ bent`` by the sources where J does not vary."""
    with np.errstate(all="ignore"):
        fixed = {x: make_leaf(x._value, x.name) for x in ends.sources}
        # Of the middle alone, whatever else of the sources it reads.
        (bent,) = substitute([bent], {**fixed, middle: middle})
        (moved,) = substitute([middle], fixed)
        leaves = [*fixed.values()]
        made = LinearMap([moved], leaves, record=True).pull([bent])
    first = [
        np.zeros_like(x._value) if g is None else g
        for g, x in zip(made, ends.sources, strict=True)
    ]
    return Curvature(ends, first, left_out, name, label)


def _first_cut(state: State, wrt: Wrt, place: int, name: str, what: str) -> int:
    """Return one of `find_cuts`; raise an error that says what to name without any."""
    found = find_cuts(state, wrt)
    if not found:
        output = state.objective.nodes.labels[state.objective.output]
        raise UsageError(
            f"wb.plots.{name}: no array stands on all paths from the inputs to"
            f" {output}. Name the node of {what}: wb.plots.{name}(session, 'y')."
        )
    return found[place]


# Single examples


def make_example_derivative(
    state: State, of: Node | None, wrt: Wrt, *, overrides: bool, name: str
) -> Derivative:
    """Return the derivative of an array whose first axis counts the examples.

    Without ``of`` that of the last array that every path goes through.
    """
    if of is None:
        of = _first_cut(state, wrt, -1, name, "one loss for each example")
    found = make_derivative(state, of, wrt, overrides=overrides)
    label, shape = found.row_parts[0]
    if not shape:
        raise UsageError(
            f"wb.plots.{name}: {label} is one number. Name an array with an"
            " entry for each example, such as the losses before their mean."
        )
    return found


@dataclass(frozen=True)
class Spread:
    """The gradients of single examples, beside their mean.

    Attributes
    ----------
    sizes
        The norm of each example's gradient, ``(n,)``.
    cosines
        The cosine of its angle to the mean gradient, ``(n,)``; NaN where one is zero.
    mean
        The norm of the mean gradient.
    noise
        The trace of their covariance by the square of ``mean``: the batch size at
        which noise and gradient are alike (McCandlish et al., *An empirical model of
        large-batch training*, 2018, equation 2.9).
    """

    sizes: Array
    cosines: Array
    mean: float
    noise: float


@np.errstate(all="ignore")
def measure_spread(found: Derivative, progress: Progress | None = None) -> Spread:
    """Return the spread of the examples' gradients: the rows of a derivative.

    Of an example with several entries it is the gradient of their sum.

    Raises
    ------
    UsageError
        If the gradients are complex, or too many for memory.
    """
    if found.dtype.kind == "c":
        raise UsageError(
            f"{found.title} is complex, and has no spread of gradients. Make a session"
            " of a real loss for each example."
        )
    n = found.row_parts[0][1][0]
    entries = to_host(found.compute_all(progress)).astype(np.float64)
    rows = entries.reshape(n, len(entries) // max(n, 1), found.columns).sum(1)
    mean = rows.mean(0) if n else np.zeros(found.columns)
    size = float(np.linalg.norm(mean))
    sizes = np.linalg.norm(rows, axis=1)
    cosines = rows @ mean / (sizes * size)
    spread = float(np.sum((rows - mean) ** 2)) / max(n - 1, 1)
    noise = float(np.divide(spread, size**2))
    return Spread(sizes, np.clip(cosines, -1, 1), size, noise)
