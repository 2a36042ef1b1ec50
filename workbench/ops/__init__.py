"""What can be computed: importing this package declares the ops.

Those behind NumPy's submodules and SciPy load when the first of them is needed.
"""

from workbench.core import hooks
from workbench.ops import (
    arranging,
    contraction,
    convolution,
    define,
    einsum,
    elementwise,
    gradients,
    indexing,
    joining,
    lengths,
    makers,
    polynomials,
    products,
    reductions,
    scans,
    shaping,
    sorting,
    statistics,
    taking,
    ufuncs,
    updates,
)

__all__ = [
    "arranging",
    "contraction",
    "convolution",
    "define",
    "einsum",
    "elementwise",
    "gradients",
    "indexing",
    "joining",
    "lengths",
    "makers",
    "polynomials",
    "products",
    "reductions",
    "scans",
    "shaping",
    "sorting",
    "statistics",
    "taking",
    "ufuncs",
    "updates",
]

hooks.OP_MODULES.update(
    {
        "numpy.linalg": "workbench.ops.linalg",
        "numpy.fft": "workbench.ops.fft",
        "numpy.lib.scimath": "workbench.ops.emath",
        "numpy.lib.stride_tricks": "workbench.ops.windows",
        "scipy.special": "workbench.ops.special",
        "scipy.sparse": "workbench.ops.sparse",
        "numpy.random": "workbench.ops.random",
    }
)
