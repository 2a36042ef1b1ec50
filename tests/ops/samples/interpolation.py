"""Tables as functions: curves through points, B-splines, grids, scattered points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.interpolate as truth
from scipy.sparse.linalg import spsolve

from tests.ops.samples.table import Table, apart
from workbench.scipy import interpolate

row = Table()

X = np.array([0.0, 0.7, 1.5, 2.6, 3.1])
#: Points between the places, one on either side outside.
Q = np.array([-0.4, 0.3, 1.9, 2.8, 3.5])
#: Values whose secants keep their signs and their order when they are moved a little.
VALUES = np.array([0.3, 1.4, 1.1, 3.2, 2.4])
P = np.array([[0.0, 0.1], [1.1, 0.0], [0.1, 0.9], [1.0, 1.2], [0.6, 0.5]])
INSIDE = np.array([[0.42, 0.31], [0.55, 0.77]])
GRID = (np.array([0.0, 0.8, 2.1, 3.0, 4.2]), np.array([-1.0, 0.5, 1.2, 2.0]))
AT = np.array([[0.35, 0.2], [1.7, 1.6], [3.6, -0.4]])


def near(values: Any, size: float = 0.05) -> Any:
    """Return what draws an array near another."""
    return lambda rng: values + rng.uniform(-size, size, np.shape(values))


def curve(kind: str, **settings: Any) -> Any:
    """Return a curve of places, values and points, of ours and of SciPy's."""
    return tuple(
        lambda x, y, q, home=home: getattr(home, kind)(x, y, **settings)(q)
        for home in (interpolate, truth)
    )


for kind, settings in (
    ("CubicSpline", {}),
    ("CubicSpline", {"bc_type": "natural"}),
    ("CubicSpline", {"bc_type": ((1, 0.5), (2, -0.3))}),
    ("PchipInterpolator", {}),
    ("Akima1DInterpolator", {"extrapolate": True}),
    ("Akima1DInterpolator", {"method": "makima", "extrapolate": True}),
    ("make_interp_spline", {"k": 2}),
    ("make_interp_spline", {"bc_type": "clamped"}),
    ("interp1d", {"fill_value": "extrapolate"}),
):
    ours, theirs = curve(kind, **settings)
    row(
        f"{kind} {settings}", ours, near(X), near(VALUES), near(Q),
        truth=theirs,
    )  # fmt: skip

row(
    "CubicSpline periodic",
    lambda y, q: interpolate.CubicSpline(
        X, np.concatenate([y, y[:1]]), bc_type="periodic"
    )(q),
    near(VALUES[:4]), near(Q),
    truth=lambda y, q: truth.CubicSpline(X, np.append(y, y[0]), bc_type="periodic")(q),
)  # fmt: skip
row(
    "CubicHermiteSpline",
    lambda y, s, q: interpolate.CubicHermiteSpline(X, y, s)(q),
    near(VALUES), apart(5), near(Q),
    truth=lambda y, s, q: truth.CubicHermiteSpline(X, y, s)(q),
)  # fmt: skip
row(
    "PPoly integral",
    lambda c, a, b: interpolate.PPoly(c, X).integrate(a, b),
    apart(3, 4), near(0.4), near(2.9),
    truth=lambda c, a, b: truth.PPoly(c, X).integrate(a, b),
)  # fmt: skip
row(
    "BSpline",
    lambda t, c, q: interpolate.BSpline(t, c, 2)(q),
    near(np.array([-1.0, -0.5, 0.0, 0.7, 1.5, 2.6, 3.1, 3.6, 4.2])), apart(6, 2),
    near(Q), truth=lambda t, c, q: truth.BSpline(t, c, 2)(q),
)  # fmt: skip
row(
    "BSpline slope",
    lambda c, q: interpolate.splev(q, (np.arange(9.0), c, 3), der=1),
    apart(5), near(Q + 3), truth=lambda c, q: truth.splev(q, (np.arange(9.0), c, 3), 1),
)  # fmt: skip
row(
    "make_smoothing_spline",
    lambda y, lam, q: interpolate.make_smoothing_spline(X, y, lam=lam)(q),
    near(VALUES), near(0.3), near(Q),
    truth=lambda y, lam, q: truth.make_smoothing_spline(X, y, lam=float(lam))(q),
)  # fmt: skip
for method in ("linear", "cubic"):
    row(
        f"RegularGridInterpolator {method}",
        lambda v, q, m=method: interpolate.RegularGridInterpolator(GRID, v, m)(q),
        apart(5, 4), near(AT),
        # SciPy's own solver is iterative, to six digits.
        truth=lambda v, q, m=method: truth.RegularGridInterpolator(
            GRID, v, m, **({} if m == "linear" else {"solver": spsolve})
        )(q),
    )  # fmt: skip
for kernel in ("thin_plate_spline", "cubic", "gaussian"):
    row(
        f"RBFInterpolator {kernel}",
        lambda d, q, k=kernel: interpolate.RBFInterpolator(P, d, kernel=k, epsilon=1.5)(
            q
        ),
        apart(5), near(INSIDE),
        truth=lambda d, q, k=kernel: truth.RBFInterpolator(
            P, d, kernel=k, epsilon=1.5
        )(q),
    )  # fmt: skip
