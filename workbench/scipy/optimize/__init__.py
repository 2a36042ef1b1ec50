"""`scipy.optimize` for Tensors: roots and minima as functions of parameters.

SciPy's solvers find them; their derivatives follow from the equation that they
solve (see `autodiff/implicit.py`), for what the function reads through its closure
and for ``args``. On arrays outside every trace each is SciPy's own function.
"""

from __future__ import annotations

from workbench.scipy.optimize import limits, minima, roots
from workbench.scipy.optimize.limits import *  # noqa: F403
from workbench.scipy.optimize.minima import *  # noqa: F403
from workbench.scipy.optimize.roots import *  # noqa: F403

__all__ = sorted((*limits.__all__, *minima.__all__, *roots.__all__))
