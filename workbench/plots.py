"""Plotly figures of a session: Jacobians, Hessians, curvature, gradient checks.

Each function returns a `plotly.graph_objects.Figure`; a notebook or a page draws it.
"""

from workbench.jupyter.plots import (
    check,
    fisher,
    gauss_newton,
    hessian,
    jacobian,
    landscape,
    singular,
    sparsity,
    spectrum,
    spread,
    steps,
)

__all__ = [
    "check",
    "fisher",
    "gauss_newton",
    "hessian",
    "jacobian",
    "landscape",
    "singular",
    "sparsity",
    "spectrum",
    "spread",
    "steps",
]
