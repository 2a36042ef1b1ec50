"""The cell, the widget and the plots.

The cell: `magic.py` registers it, `cell.py` parses its line and runs it. `rewrite.py`
changes its code; `plain_values.py` makes the values of the notebook plain again.

The picture: `display.py` puts a session into an output, `picture.py` draws it as SVG,
`widget.py` is its live model, `anyfront.py` that in hosts without extensions,
`hosts.py` chooses between them. `link.py` is the line to the page, `sending.py` when
and in which pieces states go out on it, `answers.py` what a page may ask, `jobs.py`
long work in threads that Stop ends.

The plots: `plots.py` has their functions, `heat.py` draws matrices and their patterns,
`spectrum.py` eigenvalues and singular values, `gradient_errors.py` checks, with the
layout of `figure.py`.

Modules load at first use. IPython, ipywidgets and Plotly come with the extra
``jupyter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from workbench.core import hooks
from workbench.errors import check_packages
from workbench.session.derivative import Derivative

if TYPE_CHECKING:
    from workbench.jupyter.display import Picture

__all__ = ["show"]

check_packages("workbench.jupyter", "jupyter", "IPython", "ipywidgets")


def show(x: object, widget: Literal["auto", "lab", "anywidget"] = "auto") -> Picture:
    """Show a session, a graph or a traced value as a live picture.

    Parameters
    ----------
    x
        A `Session`; a `Graph`, from :func:`workbench.trace`; or a Tensor, an
        expression of symbols too. An output of many numbers is shown with the gradient
        of their sum. A `Function` is shown as a static picture of its graph, in which
        its gradients are nodes.
    widget
        What draws the live picture: ``"lab"`` the extension of JupyterLab and
        Notebook, ``"anywidget"`` the package of this name, in hosts that have no such
        extensions (``pip install 'autodiff-workbench[anywidget]'``). ``"auto"`` takes
        anywidget in VS Code, Colab and marimo where it is installed, else the
        extension.

    Returns
    -------
    The picture. ``.to_html("x.html")`` writes it into a file that opens in a browser
    without a kernel.

    Raises
    ------
    UsageError
        If ``x`` is something else, or ``widget`` is, or anywidget is not installed.

    Examples
    --------
    Outside a notebook, as text:

    >>> import numpy as np, workbench as wb
    >>> wb.show(wb.trace(lambda x: np.sum(x**2))(np.ones(3)))
    <Session 'ad': sum = 3 by x; 3 nodes>
      ‖∂/∂x‖ = 3.464
    <Picture of 'ad'>
    """
    from workbench.jupyter.display import show

    return show(x, widget)


@hooks.show.set
def _show(x: object, window: Any) -> Any:
    """Show a session or draw a derivative, for modules that know no notebook."""
    if isinstance(x, Derivative):
        from workbench.jupyter import plots

        return plots.plot_derivative(x, window)
    return show(x)
