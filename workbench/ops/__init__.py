"""What can be computed: importing this package declares the ops.

Those behind NumPy's submodules and SciPy load when the first of them is needed.
"""

from workbench.core.op import LATER
from workbench.ops import (
    applying,
    arithmetic,
    arranging,
    comparisons,
    complex_parts,
    contraction,
    convolution,
    differencing,
    einsum,
    entries,
    extremes,
    histograms,
    indexing,
    joining,
    lengths,
    lines,
    makers,
    masked,
    moments,
    nans,
    padding,
    passing,
    polynomials,
    positions,
    products,
    quantiles,
    reductions,
    rounding,
    scans,
    sets,
    several,
    shaping,
    sorting,
    spans,
    stated,
    taking,
    ufunc_methods,
    ufuncs,
    updates,
)

__all__ = [
    "applying",
    "arithmetic",
    "arranging",
    "comparisons",
    "complex_parts",
    "contraction",
    "convolution",
    "differencing",
    "einsum",
    "entries",
    "extremes",
    "histograms",
    "indexing",
    "joining",
    "lengths",
    "lines",
    "makers",
    "masked",
    "moments",
    "nans",
    "padding",
    "passing",
    "polynomials",
    "positions",
    "products",
    "quantiles",
    "reductions",
    "rounding",
    "scans",
    "sets",
    "several",
    "shaping",
    "sorting",
    "spans",
    "stated",
    "taking",
    "ufunc_methods",
    "ufuncs",
    "updates",
]

LATER.update({"numpy.linalg": "workbench.ops.linalg"})
LATER.update({"numpy.fft": "workbench.ops.fft"})
LATER.update({"numpy.lib.scimath": "workbench.ops.emath"})
LATER.update({"numpy.lib.stride_tricks": "workbench.ops.windows"})
LATER.update({"scipy.special": "workbench.ops.special"})
LATER.update({"scipy.sparse": "workbench.ops.sparse"})
LATER.update({"numpy.random": "workbench.ops.random"})
