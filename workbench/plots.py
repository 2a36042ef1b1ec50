"""Plotly figures of a session: Jacobians, Hessians, gradient checks.

Each function returns a `plotly.graph_objects.Figure`; a notebook or a page draws it.
"""

from workbench.jupyter.plots import (
    check,
    hessian,
    jacobian,
    landscape,
    singular,
    sparsity,
    spectrum,
    steps,
)

__all__ = [
    "check",
    "hessian",
    "jacobian",
    "landscape",
    "singular",
    "sparsity",
    "spectrum",
    "steps",
]
