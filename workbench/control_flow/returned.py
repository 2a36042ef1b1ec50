"""What a step returns: outputs, what becomes of shared values, whether to stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame
from workbench.core.shared import Shared
from workbench.errors import ShapeError, UsageError
from workbench.ops.define import shape_of

__all__ = ["Returned", "Until", "condition", "returned", "until"]


class Until:
    """A condition that ends a loop after the step in which it is true."""

    __slots__ = ("condition",)

    def __init__(self, condition: Any) -> None:
        self.condition = condition


def until(condition: Any) -> Until:
    """End a :func:`workbench.scan` after the step in which a condition is true.

    A step returns it beside its outputs.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def double(x):
    ...     return 2 * x, wb.until(2 * x > 50)
    >>> wb.scan(double, initial=1.0, n_steps=1000)
    array([ 2.,  4.,  8., 16., 32., 64.])
    """
    return Until(condition)


class Returned(NamedTuple):
    """What a step returned, taken apart."""

    #: The outputs, one entry each, and whether it was one bare output.
    outputs: list[Any]
    bare: bool
    #: How several outputs came: as a list or as a tuple.
    kind: type
    updates: dict[Shared, Any]
    stop: Any


def returned(value: Any, count: int) -> Returned:
    """What a step returned, in any of Theano's orders.

    ``count`` is the number of initial entries: where it is one, a tuple may be one
    nested output.
    """
    stop, updates = None, {}
    rest = value
    if isinstance(value, Until):
        rest, stop = (), value.condition
    elif _updates(value):
        rest, updates = (), dict(_pairs(value))
    elif isinstance(value, tuple) and len(value) in (2, 3):
        tail = value[1:]
        if all(isinstance(x, Until) or _updates(x) for x in tail):
            rest = value[0]
            for x in tail:
                if isinstance(x, Until):
                    stop = x.condition
                else:
                    updates = dict(_pairs(x))
            if isinstance(rest, Until):
                stop, rest = rest.condition, ()
            elif _updates(rest):
                updates = {**dict(_pairs(rest)), **updates}
                rest = ()
        elif isinstance(value[-1], Until):
            rest, stop = value[:-1], value[-1].condition
    if rest is None:
        if not (updates or stop is not None):
            raise UsageError(
                f"scan: the step returned None{blame.here()}. Has it a `return` at its"
                " end?"
            )
        rest = ()
    kind = list if isinstance(rest, list) else tuple
    bare = not isinstance(rest, (list, tuple)) or hasattr(rest, "_fields")
    outputs = [rest] if bare else list(rest)
    return Returned(outputs, bare, kind, updates, stop)


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, Mapping) else value


def _updates(value: Any) -> bool:
    """Whether a value says what becomes of shared values."""
    if isinstance(value, Mapping):
        return all(isinstance(key, Shared) for key in value)
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and isinstance(pair[0], Shared)
            for pair in value
        )
    )


def condition(value: Any, name: str) -> Any:
    """A condition as one boolean.

    Raises
    ------
    ShapeError
        If it is several.
    """
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if shape_of(value) != ():
        raise ShapeError(
            f"{name}: the condition has shape {shape_of(value)}{blame.here()}, and must"
            " be one boolean. Reduce it with np.all or np.any."
        )
    return value if value.dtype.kind == "b" else value != 0
