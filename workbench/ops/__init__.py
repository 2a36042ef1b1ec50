"""What can be computed: importing this package declares the ops.

Those behind NumPy's submodules and SciPy load when the first of them is needed.

To add facts to the row of an op:

- that it commutes, sums, is singular somewhere: its traits (`core/traits.py`), tested
  in ``tests/core/test_traits.py``;
- which entries it reads, for sparse derivatives: nothing where the row has a body or is
  linear, else ``pattern=Reading(...)``, tested in ``tests/autodiff/sparse``;
- that CuPy lacks it: ``@on_cupy`` or ``leave_device`` at the op (`device.py`), tested
  in ``tests/ops/test_foreign_arrays.py``;
- that texts of rules may not call it: ``overrides/allowed_ops.py``, tested in
  ``tests/overrides/test_hostile.py``.
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
