"""Floor 7: the cell, the widget and the plots.

Nothing is loaded before it is used: `load` needs IPython, `show` and the plots
need ipywidgets and Plotly.
"""

from __future__ import annotations

from typing import Any

from workbench.session import Session

__all__ = ["show"]


def show(x: Any) -> None:
    """Show a session, a graph or a traced value as a live picture.

    Parameters
    ----------
    x
        A `Session`; a `Graph`, from :func:`workbench.trace`; or a Tensor. An
        output of many numbers is shown with the gradient of their sum.

    Raises
    ------
    UsageError
        If it is none of these.

    Examples
    --------
    Outside a notebook, in words:

    >>> import numpy as np, workbench as wb
    >>> wb.show(wb.trace(lambda x: np.sum(x**2))(np.ones(3)))
    <Session 'ad': sum = 3 by x; 3 nodes>
      ‖∂/∂x‖ = 3.464
    """
    from workbench.jupyter.display import show

    show(x)


# A session knows no notebook; this floor tells it how it is shown.
Session.presenter = staticmethod(show)
