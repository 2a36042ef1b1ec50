"""The ``with workbench.overrides(...)`` blocks around a call.

They stand apart from `resolving.py`, which a program without overrides does not need:
it loads with the first override.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.transforms.resolving import overrides

__all__ = ["AROUND", "any_asked"]


class Around(threading.local):
    """The blocks that a thread is in, the inner ones last."""

    def __init__(self) -> None:
        self.stack: list[overrides] = []


AROUND = Around()


def any_asked(given: Any) -> bool:
    """Whether a call, given these overrides, has any, or stands in a block."""
    return bool(given) or bool(AROUND.stack)
