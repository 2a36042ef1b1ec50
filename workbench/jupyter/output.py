"""What goes into the output of a cell."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["current_shell", "in_notebook", "publish"]


def publish(bundle: dict[str, Any], *, keep: bool = False) -> Any:
    """Show data in the output of the cell; with ``keep`` a handle to update it."""
    from IPython import display

    show: Any = display.display
    return show(bundle, raw=True, display_id=True) if keep else show(bundle, raw=True)


def current_shell() -> Any:
    """The IPython shell of this process; None where there is none."""
    loaded: Any = sys.modules.get("IPython.core.getipython")
    return None if loaded is None else loaded.get_ipython()


def in_notebook() -> bool:
    """Whether there is an IPython to show things in."""
    return current_shell() is not None
