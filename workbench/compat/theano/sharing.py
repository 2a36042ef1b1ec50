"""`theano.shared`: values that functions share, whose lengths may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core.shared import Shared
from workbench.errors import UsageError
from workbench.symbolic.sharing import shared as share

__all__ = ["DEFAULT_UPDATES", "SharedVariable", "shared"]

SharedVariable = Shared

#: What `default_update` has been set to, by the serial of the shared value.
DEFAULT_UPDATES: dict[int, Any] = {}


def shared(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    *,
    borrow: bool = False,
    broadcastable: Sequence[bool] | None = None,
    **settings: Any,
) -> Shared:
    """A value that functions share: `workbench.shared`, with all lengths open.

    An axis that ``broadcastable`` names has the length 1 for good.

    >>> from workbench.compat import theano
    >>> state = theano.shared(0)
    >>> count = theano.function([], state, updates=[(state, state + 1)])
    >>> int(count()), int(count())
    (0, 1)
    """
    unknown = set(settings) - {"target", "allow_gc"}
    if unknown:
        raise UsageError(f"theano.shared: unknown settings {', '.join(unknown)}.")
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    ones = broadcastable or (False,) * len(value.shape)
    shape = tuple(1 if b else None for b in ones)
    return share(value, name, shape=shape, borrow=borrow)


def _default_update(x: Shared) -> Any:
    return DEFAULT_UPDATES.get(x.serial)


def _set_default_update(x: Shared, new: Any) -> None:
    if new is None:
        DEFAULT_UPDATES.pop(x.serial, None)
    else:
        DEFAULT_UPDATES[x.serial] = new


Shared.default_update = property(  # type: ignore[attr-defined]
    _default_update, _set_default_update, doc="What each function updates it to."
)
