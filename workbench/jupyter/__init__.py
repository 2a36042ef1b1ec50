"""Floor 7: the cell, the widget and the plots.

Nothing is loaded before it is used: `load` needs IPython, `show` and the plots
need ipywidgets and Plotly.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "show"]


def load(shell: Any) -> None:
    """What ``%load_ext workbench`` does: ``%%autodiff`` and its completions."""
    from workbench.jupyter.magic import load

    load(shell)


def show(x: Any) -> None:
    """Show a session, a graph or a traced value as a live picture.

    See `workbench.jupyter.display.show`.
    """
    from workbench.jupyter.display import show

    show(x)
