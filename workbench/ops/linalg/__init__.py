"""Linear algebra of NumPy; SciPy's part loads with `workbench.scipy.linalg`.

All work on stacks of matrices, real and complex. Each file says where its
formulas are from.
"""

from workbench.ops.linalg import factors, inverses, norms, shared, singular, spectra

__all__ = ["factors", "inverses", "norms", "shared", "singular", "spectra"]
