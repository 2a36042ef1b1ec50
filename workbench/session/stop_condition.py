"""`StopCondition`: what a gradient must do for a loop of runs to stop there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from workbench.checks import statistics
from workbench.checks.doctor.case import count_nonfinite
from workbench.errors import UsageError
from workbench.session.nodes import Node, Nodes, is_node, quote_argument, read_number
from workbench.session.state import State

_NUMBERS = count(1)


class StopCondition:
    """A condition on a gradient, which `Session.run` tests after each run.

    Made by :meth:`Session.stop_when <workbench.Session.stop_when>`; without it in
    ``session.stops`` no loop stops.

    Attributes
    ----------
    id
        Its number, by which a page names it.
    nodes
        The ids of the nodes of which the gradients count, as one vector.
    text
        The condition in words.
    """

    def __init__(
        self,
        names: Nodes,
        nodes: Sequence[int],
        *,
        not_finite: bool,
        norm_above: float | None,
        norm_below: float | None,
        angle_above: float | None,
    ) -> None:
        self.id = next(_NUMBERS)
        self.nodes = tuple(nodes)
        self.not_finite = not_finite
        self.norm_above, self.norm_below = norm_above, norm_below
        self.angle_above = angle_above
        labels = ", ".join(names.labels[i] for i in self.nodes)
        self._subject = f"the gradient of {labels}"
        parts = ["is not finite"] if not_finite else []
        for number, words in (
            (norm_above, "has a norm above {:g}"),
            (norm_below, "has a norm below {:g}"),
            (angle_above, "turns by more than {:g}° from one run to the next"),
        ):
            if number is not None:
                limit = read_number(number)
                if limit is None or not 0 <= limit < math.inf:
                    raise UsageError(
                        f"{names.session}.stop_when: a norm or an angle in degrees is a"
                        f" finite number from 0 on, not"
                        f" {quote_argument(number)}."
                    )
                parts.append(words.format(limit))
        if not parts:
            raise UsageError(
                f"{names.session}.stop_when(..., not_finite=False) names no condition:"
                " add norm_above=, norm_below= or angle_above=."
            )
        self.text = f"{self._subject} {' or '.join(parts)}"
        # The gradients of the run before.
        self._before: list[Any] | None = None

    def __repr__(self) -> str:
        return f"<stop when {self.text}>"

    def find_reason(self, state: State) -> str | None:
        """Return in words why the loop stops at a run; None if it goes on."""
        known: Mapping[int, Any] = state.require_gradients()
        if not known.keys() >= {*self.nodes}:
            known = {**state.require_backward().cotangents, **known}
        found = [known.get(i) for i in self.nodes]
        before, self._before = self._before, found
        arrays = [g for g in found if g is not None]
        if not arrays:
            return None
        norm = math.hypot(*statistics.compute_norms(arrays, 0.0))
        if not math.isfinite(norm):
            for g in arrays:
                if self.not_finite and not np.isfinite(statistics.to_host(g)).all():
                    how = count_nonfinite(statistics.to_host(g))
                    return f"{self._subject} is not finite: {how} entries"
        if self.norm_above is not None and norm > self.norm_above:
            return f"{self._subject} has norm {norm:.4g}, above {self.norm_above:g}"
        if self.norm_below is not None and norm < self.norm_below:
            return f"{self._subject} has norm {norm:.4g}, below {self.norm_below:g}"
        if self.angle_above is not None and before is not None:
            angle = measure_angle(before, found)
            if angle > self.angle_above:
                return (
                    f"{self._subject} has turned by {angle:.4g}° since the run before,"
                    f" more than {self.angle_above:g}°"
                )
        return None


def find_stop_nodes(state: State, node: Node | None) -> Sequence[int]:
    """Return the ids of the nodes whose gradients a condition is about.

    Raises
    ------
    UsageError
        If there is no such node, or it has no gradient, so that no loop would stop.
    """
    objective = state.objective
    wrt, names = objective.wrt, objective.nodes
    if node is None:
        return wrt
    if not is_node(node):
        raise UsageError(
            f"{names.session}.stop_when({node!r:.80}): a condition is about one node,"
            " by its name, its id or its Tensor, or about all of wrt if none is given."
            " Call stop_when once for each node."
        )
    found = names.find(node)
    if found in wrt or state.backward is None or state.truth is None:
        return [found]
    if found not in state.backward.cotangents.keys() | state.truth.cotangents.keys():
        by = ", ".join(names.labels[i] for i in wrt)
        raise UsageError(
            f"{names.session}.stop_when: {names.labels[found]} has no gradient, so no"
            f" loop would ever stop: the gradient by {by} does not pass through it."
            f" Name a node between {by} and {names.labels[objective.output]}, or make"
            f" the session with wrt=[..., {names.labels[found]!r}]."
        )
    return [found]


def measure_angle(before: Sequence[Any], after: Sequence[Any]) -> float:
    """Return the angle in degrees between two lists of arrays, each as one vector.

    NaN where one of them is 0 or not finite.

    >>> import numpy as np
    >>> round(measure_angle([np.array([1.0, 0.0])], [np.array([1.0, 1.0])]), 9)
    45.0
    """
    pairs = [
        (np.ravel(statistics.to_host(x)), np.ravel(statistics.to_host(y)))
        for x, y in zip(before, after, strict=True)
        if x is not None and y is not None
    ]
    if not pairs:
        return math.nan
    with np.errstate(all="ignore"):
        a, b = (
            np.concatenate(part).astype(complex) for part in zip(*pairs, strict=True)
        )
        # Scaled first, so that no square is infinite.
        a, b = a / np.abs(a).max(), b / np.abs(b).max()
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        # Right for small angles too, unlike the arc cosine.
        sine, cosine = np.linalg.norm(a - b), np.linalg.norm(a + b)
        return float(np.degrees(2 * np.arctan2(sine, cosine)))
