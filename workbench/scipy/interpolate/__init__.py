"""`scipy.interpolate` for Tensors and arrays: tables, splines, scattered points.

The same names, arguments and values as SciPy's; derivatives by the query, by the values
and by the places of a table. A curve that SciPy made is taken too, where traced code
calls it.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import interpolate
>>> curve = interpolate.CubicSpline([0, 1, 2, 3], [0.0, 1.0, 0.0, 1.0])
>>> wb.grad(curve)(1.5).round(6)
np.float64(-1.166667)
"""

from __future__ import annotations

from workbench.scipy.interpolate import curves, grids, splines
from workbench.scipy.interpolate.curves import *  # noqa: F403
from workbench.scipy.interpolate.grids import *  # noqa: F403
from workbench.scipy.interpolate.splines import *  # noqa: F403

__all__ = sorted([*curves.__all__, *grids.__all__, *splines.__all__])
