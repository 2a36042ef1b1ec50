"""The cell, the widget and the plots.

The cell: `magic.py` registers it, `cell.py` reads its line and runs it. `rewrite.py`
changes its code; `memory.py` lets all that held an array follow its item assignments,
and takes the Tensors out of the notebook again.

The picture: `display.py` puts a session into an output, `picture.py` draws it still,
`widget.py` is its live model, `link.py` what it says to the page and what the page may
ask for, long answers among it.

The plots: `plots.py` has their functions, `heat.py` draws matrices and their patterns,
`spectrum.py` eigenvalues and singular values, `gradient_errors.py` checks, in the looks
of `figure.py`.

Nothing is loaded before it is used: the cell needs IPython, pictures and plots need
ipywidgets and Plotly.
"""

from __future__ import annotations

from typing import Any

from workbench.core import hooks
from workbench.session.derivative import Derivative

__all__ = ["show"]


def show(x: Any) -> None:
    """Show a session, a graph or a traced value as a live picture.

    Parameters
    ----------
    x
        A `Session`; a `Graph`, from :func:`workbench.trace`; or a Tensor, an
        expression of symbols too. An output of many numbers is shown with the gradient
        of their sum. A `Function` is shown as a still picture of its graph, in which
        its gradients stand beside what they come from.

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


@hooks.show.set
def _show(x: Any, window: Any) -> Any:
    """Show a session, or draw a derivative: what these know no notebook for."""
    if isinstance(x, Derivative):
        from workbench.jupyter import plots

        return plots.drawn(x, window)
    return show(x)
