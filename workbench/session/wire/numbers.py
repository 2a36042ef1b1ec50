"""The columns of numbers: statistics, once for each stage, and what overrides do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from workbench.core import walk
from workbench.core.tensor import Tensor
from workbench.session import Session, statistics
from workbench.session.applied_override import Attached
from workbench.session.stages import Backward, Forward

__all__ = ["change", "gradient_statistics", "overriding", "value_statistics"]

Array = np.ndarray[Any, Any]


_values: WeakKeyDictionary[Forward, Array] = WeakKeyDictionary()
_gradients: WeakKeyDictionary[Backward, Array] = WeakKeyDictionary()


def value_statistics(forward: Forward) -> Array:
    """The column `value_stats`."""
    if forward not in _values:
        _values[forward] = table(node._value for node in forward.graph.nodes)
    return _values[forward]


def gradient_statistics(backward: Backward, count: int) -> Array:
    """The column `grad_stats` or `true_stats`."""
    if backward not in _gradients:
        _gradients[backward] = table(map(backward.cotangents.get, range(count)))
    return _gradients[backward]


def table(arrays: Iterable[Any]) -> Array:
    """The statistics of arrays, one after the other."""
    return np.array([statistics.summary(x) for x in arrays], float).ravel()


def change(session: Session, backward: Backward, truth: Backward, count: int) -> Array:
    """The column `change`: only what lies behind an override can have changed."""
    nodes, ids = session.graph.nodes, session.forward.ids
    column = np.full(count, np.nan)
    column[list(backward.cotangents)] = 0.0
    if backward is truth or session.resolution is None:
        return column
    winners = {
        i: nodes[i]
        for _, node in session.resolution.winners.values()
        for i in session.forward.places(node)
    }
    behind = {
        ids[x.serial]
        for x in walk.order(
            [x for y in winners.values() for x in y.inputs if isinstance(x, Tensor)]
        )
    }
    for i in behind & set(backward.cotangents):
        g, true = backward.cotangents[i], truth.cotangents.get(i)
        like = nodes[i]._value
        if isinstance(like, tuple):
            g, true = _filled(g, like), _filled(true, like)
        elif true is None:
            true = np.zeros_like(like)
        column[i] = statistics.relative_change(g, true)
    return column


def _filled(parts: Any, like: tuple[Any, ...]) -> tuple[Any, ...]:
    """What flows back to the outputs of one op, with zeros where nothing does."""
    given = (None,) * len(like) if parts is None else parts
    return tuple(
        np.zeros_like(x) if g is None else g for g, x in zip(given, like, strict=True)
    )


def overriding(session: Session, overrides: list[Attached], count: int) -> Array:
    """The column `override`: which override's rule each node runs, or lies within.

    A node within a match keeps its own rule where another override points at it.
    """
    column = np.full(count, -1, np.int32)
    if session.resolution is None:
        return column
    forward = session.forward
    for k, one in enumerate(overrides):
        if one.enabled:
            column[list(one.covered)] = k
    for k, node in session.resolution.winners.values():
        column[forward.places(node)] = k
    return column
