"""`theano.updates`: the updates of shared values, in order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.shared import Shared
from workbench.errors import UsageError

__all__ = ["OrderedUpdates"]


class OrderedUpdates(OrderedDict[Any, Any]):
    """The updates that `theano.scan` returns with its outputs; they can be added.

    >>> import workbench.compat.theano as theano
    >>> n = theano.shared(0)
    >>> both = theano.OrderedUpdates({n: n + 1}) + []
    >>> len(both)
    1
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, Shared):
            raise UsageError(f"updates are of shared values, not of {key!r}.")
        super().__setitem__(key, value)

    def update(self, other: Any = (), **named: Any) -> None:  # type: ignore[override]
        """Take in others; the same shared value must not be updated to two things."""
        pairs: Iterable[Any]
        pairs = other.items() if isinstance(other, Mapping) else (other or ())
        for key, value in pairs:
            if key in self and self[key] is not value:
                raise UsageError(f"two updates of {key.describe()} collide.")
            self[key] = value

    def __add__(self, other: Any) -> OrderedUpdates:
        made = OrderedUpdates(self)
        made.update(other)
        return made

    def __radd__(self, other: Any) -> OrderedUpdates:
        made = OrderedUpdates(other)
        made.update(self)
        return made
