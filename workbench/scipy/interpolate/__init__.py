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

from workbench.scipy.interpolate import curves, scattered, splines, tables
from workbench.scipy.interpolate.curves import *  # noqa: F403
from workbench.scipy.interpolate.scattered import *  # noqa: F403
from workbench.scipy.interpolate.splines import *  # noqa: F403
from workbench.scipy.interpolate.tables import *  # noqa: F403

__all__ = sorted(
    name for part in (curves, scattered, splines, tables) for name in part.__all__
)
