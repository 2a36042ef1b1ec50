"""Which axis of which array counts the examples of a batch, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import tree, types
from workbench.core.tensor import value_of
from workbench.core.types import Spec
from workbench.errors import ShapeError, UsageError
from workbench.ops.define import shape_of

__all__ = ["batch_size", "example_spec", "front", "leaf_axes", "output_axes", "placed"]


def leaf_axes(
    args: tuple[Any, ...], in_axes: Any, names: Sequence[str | None]
) -> list[int | None]:
    """The batch axis of each leaf of the arguments, checked."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    per_argument = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    if len(per_argument) != len(args):
        raise UsageError(
            f"vmap: in_axes={in_axes!r} has {len(per_argument)} entries, the call"
            f" {len(args)} arguments. Give one entry per argument, None for one that"
            " all examples share."
        )
    axes: list[int | None] = []
    for given, value in zip(per_argument, args, strict=True):
        leaves = [] if value is None else tree.flatten(value)[0]
        for axis, x in zip(prefixed(given, value, "in_axes"), leaves, strict=True):
            name = names[len(axes)]
            array = hasattr(x, "shape") or types.weak(x)
            if axis is None or not array:
                axes.append(None)
                continue
            rank = len(shape_of(x))
            if not -rank <= axis < rank:
                raise UsageError(
                    f"vmap: in_axes={axis!r} for {name}, of shape {shape_of(x)}: it"
                    " has no such axis. Name one of its axes, or None if all examples"
                    " share it."
                )
            axes.append(axis % rank)
    return axes


def prefixed(given: Any, value: Any, what: str) -> list[int | None]:
    """One axis for each leaf of a nest; an axis holds for all leaves below it.

    >>> prefixed({"w": 0, "b": None}, {"w": (1.0, 2.0), "b": 3.0}, "in_axes")
    [None, 0, 0]
    """
    if value is None:
        return []  # a nest without leaves
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return [given] * len(tree.flatten(value)[0])
    parts = _children(value)
    named = _children(given)
    if parts is None or named is None or list(parts) != list(named):
        shown = "an array" if parts is None else f"{type(value).__name__} of"
        keys = "" if parts is None else f" {', '.join(map(str, parts)) or 'nothing'}"
        raise UsageError(
            f"vmap: {what}={given!r} does not fit {shown}{keys}. Give an axis, None,"
            " or axes nested as it is."
        )
    return [
        axis for key, part in parts.items() for axis in prefixed(named[key], part, what)
    ]


def _children(value: Any) -> dict[Any, Any] | None:
    """The parts of a nest by key, in the order of its leaves; None of a leaf."""
    if isinstance(value, dict):
        try:
            return {key: value[key] for key in sorted(value)}
        except TypeError:  # keys that have no order stand as they came
            return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Spec)):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def batch_size(
    leaves: Sequence[Any], axes: Sequence[int | None], names: Sequence[str | None]
) -> int:
    """How many examples there are; all arguments must agree."""
    found: dict[int, str] = {}
    for x, axis, name in zip(leaves, axes, names, strict=True):
        if axis is not None:
            found.setdefault(
                shape_of(x)[axis], f"{name} has {shape_of(x)[axis]} along axis {axis}"
            )
    if not found:
        raise UsageError(
            "vmap: no argument has a batch axis. Give in_axes=0 for one that holds"
            " one example per row."
        )
    if len(found) > 1:
        raise ShapeError(
            f"vmap: the arguments hold different numbers of examples:"
            f" {', '.join(found.values())}. Give all the same length along their"
            " batch axis, or in_axes=None for one that all examples share."
        )
    return next(iter(found))


def example_spec(x: Any, axis: int) -> Spec:
    """What one example looks like."""
    shape = shape_of(x)
    return Spec(shape[:axis] + shape[axis + 1 :], np.dtype(x.dtype))


def front(x: Any, axis: int) -> Any:
    """The batch with its axis first."""
    return x if axis == 0 else np.moveaxis(x, axis, 0)


def output_axes(outputs: Any, out_axes: Any) -> list[int | None]:
    """One axis per leaf of the outputs."""
    if isinstance(out_axes, (tuple, list)) and (
        not isinstance(outputs, (tuple, list)) or len(outputs) != len(out_axes)
    ):
        count = len(outputs) if isinstance(outputs, (tuple, list)) else "no tuple of"
        raise UsageError(
            f"vmap: out_axes={out_axes!r} has {len(out_axes)} entries, the function"
            f" returns {count} outputs. Give one axis, or one entry per output."
        )
    return prefixed(out_axes, outputs, "out_axes")


def placed(y: Any, batched: bool, axis: int | None, size: int) -> Any:
    """An output with its batch axis where ``out_axes`` wants it."""
    if axis is None:
        if batched:
            raise UsageError(
                f"vmap: out_axes=None for an output of shape {shape_of(y)[1:]} that"
                " differs from example to example. Give the axis to put them along."
            )
        return y
    if not batched:
        y = np.broadcast_to(y, (size, *np.shape(value_of(y))))
    rank = len(shape_of(y))
    if not -rank <= axis < rank:
        raise UsageError(
            f"vmap: out_axes={axis} for an output of shape {shape_of(y)[1:]} in each"
            f" example: the result has {rank} axes. Name one of them."
        )
    return y if axis in (0, -rank) else np.moveaxis(y, 0, axis)
