"""What can be computed: importing this package declares the ops.

Those behind NumPy's submodules and SciPy load when the first of them is needed.
"""

from workbench.graph.op import LATER
from workbench.ops import (
    arithmetic,
    arranging,
    comparisons,
    complex_parts,
    contraction,
    convolution,
    einsum,
    entries,
    indexing,
    joining,
    makers,
    masked,
    moments,
    nans,
    padding,
    polynomials,
    positions,
    products,
    quantiles,
    reductions,
    refusals,
    rounding,
    scans,
    several,
    shaping,
    sorting,
    taking,
    ufuncs,
    updates,
)

__all__ = [
    "arithmetic",
    "arranging",
    "comparisons",
    "complex_parts",
    "contraction",
    "convolution",
    "einsum",
    "entries",
    "indexing",
    "joining",
    "makers",
    "masked",
    "moments",
    "nans",
    "padding",
    "polynomials",
    "positions",
    "products",
    "quantiles",
    "reductions",
    "refusals",
    "rounding",
    "scans",
    "several",
    "shaping",
    "sorting",
    "taking",
    "ufuncs",
    "updates",
]

LATER.update({"numpy.linalg": "workbench.ops.linalg"})
LATER.update({"numpy.fft": "workbench.ops.fft"})
LATER.update({"scipy.special": "workbench.ops.special"})
