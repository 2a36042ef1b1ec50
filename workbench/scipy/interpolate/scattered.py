"""Functions of values at scattered points."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike, is_weak
from workbench.errors import UsageError
from workbench.ops.define import require_value, shape_of
from workbench.ops.interpolation import spread
from workbench.ops.taking import take
from workbench.scipy.interpolate.curves import admit_floats
from workbench.scipy.interpolate.tables import interp1d, join_points

__all__ = [
    "LinearNDInterpolator",
    "NearestNDInterpolator",
    "RBFInterpolator",
    "griddata",
]


def square_distances(a: Any, b: Any) -> Any:
    """Return the squares of the distances of the rows of two matrices.

    Entry by entry: the differences of near points keep their digits.
    """
    gap = a[:, None, :] - b[None, :, :]
    return np.sum(gap * gap, axis=-1)


def _thin_plate(s: Any) -> Any:
    is_zero = np.equal(s, 0)
    return np.where(is_zero, 0, 0.5 * s * np.log(np.where(is_zero, 1, s)))


def _power(n: int, sign: float) -> Callable[[Any], Any]:
    """Return an odd power of the distance, as a function of its square.

    Its slope at 0 is 0, that of the middle of all directions.
    """

    def kernel(s: Any) -> Any:
        is_zero = np.equal(s, 0)
        return np.where(is_zero, 0, sign * np.where(is_zero, 1, s) ** (n / 2))

    return kernel


#: Of each kernel: a function of the square of the distance, and the lowest degree of
#: the polynomial beside it. Source: the table in SciPy's documentation of
#: `RBFInterpolator`; G. F. Fasshauer, "Meshfree Approximation Methods" (2007).
KERNELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "linear": (_power(1, -1.0), 0),
    "thin_plate_spline": (_thin_plate, 1),
    "cubic": (_power(3, 1.0), 1),
    "quintic": (_power(5, -1.0), 2),
    "multiquadric": (lambda s: -np.sqrt(s + 1), 0),
    "inverse_multiquadric": (lambda s: 1 / np.sqrt(s + 1), -1),
    "inverse_quadratic": (lambda s: 1 / (s + 1), -1),
    "gaussian": (lambda s: np.exp(-s), -1),
}
#: Those that a length scale changes by a factor alone.
SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")


def _admit_setting(x: Any) -> Any:
    """Return a setting as a float array; a number fits arrays of every library."""
    return float(x) if is_weak(x) else admit_floats(x)


class RBFInterpolator:
    """Radial functions through scattered points: `scipy.interpolate.RBFInterpolator`.

    Differentiable by the query, the values, the points, ``smoothing`` and
    ``epsilon``.

    Parameters
    ----------
    y
        Points, shape (n, d).
    d
        Values, shape (n, ...).
    neighbors
        Must be None: all points are used.
    smoothing
        How far the function may stay off the values, a number or one for each point.
    kernel
        A name of SciPy's.
    epsilon
        What distances are multiplied with.
    degree
        The degree of the polynomial that is added, -1 for none.

    Raises
    ------
    ValueError
        If shapes do not fit or a setting is not known.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import RBFInterpolator
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> f = RBFInterpolator(points, np.array([0.0, 1.0, 2.0, 3.0]))
    >>> wb.grad(lambda x: f(x[None])[0])(np.array([0.3, 0.6])).round(6)
    array([1., 2.])
    """

    def __init__(
        self,
        y: ArrayLike,
        d: ArrayLike,
        neighbors: int | None = None,
        smoothing: ArrayLike = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: ArrayLike | None = None,
        degree: int | None = None,
    ) -> None:
        name = "RBFInterpolator"
        if neighbors is not None:
            raise UsageError(
                f"{name}(..., neighbors={neighbors}){blame.user_line()} is not known"
                " inside a derivative: the neighbours of a point jump. Leave it out."
            )
        if kernel not in KERNELS:
            raise ValueError(
                f"{name}(..., kernel={kernel!r}){blame.user_line()}: the kernels are"
                f" {', '.join(map(repr, KERNELS))}"
            )
        self.y, self.d = admit_floats(y), admit_floats(d)
        if len(shape_of(self.y)) != 2 or shape_of(self.d)[:1] != shape_of(self.y)[:1]:
            raise ValueError(
                f"{name}{blame.user_line()}: points of shape {shape_of(self.y)} and"
                f" values of shape {shape_of(self.d)}; they must be (n, d) and (n, ...)"
            )
        self.kernel = kernel
        self.smoothing = _admit_setting(smoothing)
        if epsilon is None:
            if kernel not in SCALE_FREE:
                raise ValueError(
                    f"{name}(..., kernel={kernel!r}){blame.user_line()}: `epsilon` must"
                    f" be specified if `kernel` is not one of {set(SCALE_FREE)}"
                )
            epsilon = 1.0
        self.epsilon = _admit_setting(epsilon)
        least = KERNELS[kernel][1]
        self.degree = max(least, 0) if degree is None else int(degree)
        if self.degree < -1:
            raise ValueError(f"{name}{blame.user_line()}: `degree` must be at least -1")
        count, dimension = shape_of(self.y)
        self.powers = [
            np.bincount(chosen, minlength=dimension) if chosen
            else np.zeros(dimension, int)
            for total in range(self.degree + 1)
            for chosen in combinations_with_replacement(range(dimension), total)
        ]  # fmt: skip
        if len(self.powers) > count:
            raise ValueError(
                f"{name}{blame.user_line()}: at least {len(self.powers)} data points"
                f" are required when `degree` is {self.degree} and the number of"
                f" dimensions is {dimension}"
            )
        self._solve()

    @classmethod
    def adopt(cls, theirs: Any) -> RBFInterpolator:
        """Return the same function as an object of SciPy's."""
        degree = max([int(np.sum(p)) for p in theirs.powers], default=-1)
        d = np.reshape(theirs.d, (-1, *theirs.d_shape))
        d = d.view(theirs.d_dtype) if theirs.d_dtype is complex else d
        return cls(
            theirs.y, d, theirs.neighbors, theirs.smoothing, theirs.kernel,
            theirs.epsilon, degree,
        )  # fmt: skip

    def _evaluate_kernel(self, a: Any, b: Any) -> Any:
        return KERNELS[self.kernel][0](square_distances(a, b) * self.epsilon**2)

    def _evaluate_powers(self, x: Any) -> Any:
        columns = []
        for powers in self.powers:
            term = np.ones_like(x[:, 0])
            for axis, power in enumerate(powers):
                for _ in range(int(power)):
                    term = term * x[:, axis]
            columns.append(term)
        return np.stack(columns, axis=1)

    def _solve(self) -> None:
        """Find the weights of the kernels and of the polynomial."""
        count = shape_of(self.y)[0]
        low, high = np.min(self.y, axis=0), np.max(self.y, axis=0)
        size = (high - low) / 2
        # The polynomial is one of moved and scaled points: for good digits alone.
        self._shift = (high + low) / 2
        self._scale = np.where(np.equal(size, 0), 1, size)
        smoothing = self.smoothing + np.zeros_like(self.y, shape=(count,))
        matrix = self._evaluate_kernel(self.y, self.y) + np.diag(smoothing)
        right = np.reshape(self.d, (count, -1))
        if self.powers:
            side = self._evaluate_powers((self.y - self._shift) / self._scale)
            corner = np.zeros_like(side, shape=(len(self.powers), len(self.powers)))
            matrix = np.concatenate(
                [
                    np.concatenate([matrix, side], axis=1),
                    np.concatenate([np.transpose(side), corner], axis=1),
                ]
            )
            zeros = np.zeros_like(right, shape=(len(self.powers), shape_of(right)[1]))
            right = np.concatenate([right, zeros])
        self._weights = np.linalg.solve(matrix, right)

    def __call__(self, x: ArrayLike) -> Any:
        """Return the values at points of shape (m, d)."""
        q = admit_floats(x)
        if len(shape_of(q)) != 2 or shape_of(q)[1] != shape_of(self.y)[1]:
            raise ValueError(
                f"RBFInterpolator{blame.user_line()}: expected the second axis of `x`"
                f" to have length {shape_of(self.y)[1]}; `x` has shape {shape_of(q)}"
            )
        columns = self._evaluate_kernel(q, self.y)
        if self.powers:
            side = self._evaluate_powers((q - self._shift) / self._scale)
            columns = np.concatenate([columns, side], axis=1)
        y = columns @ self._weights
        return np.reshape(y, (shape_of(q)[0], *shape_of(self.d)[1:]))


class LinearNDInterpolator:
    """Planes over the triangles of points: `scipy.interpolate.LinearNDInterpolator`.

    Differentiable by the query, the values and the points; the triangles are those of
    the points as they are.

    Parameters
    ----------
    points
        Shape (n, d) with values, or a triangulation of SciPy's.
    values
        Shape (n, ...).
    fill_value
        The value outside of all triangles.
    rescale
        Whether the triangles are found on coordinates scaled to one size.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import LinearNDInterpolator
    >>> f = LinearNDInterpolator([[0, 0], [1, 0], [0, 1]], [1.0, 3.0, 6.0])
    >>> wb.grad(f)(np.array([0.2, 0.3]))
    array([2., 5.])
    """

    def __init__(
        self,
        points: Any,
        values: ArrayLike,
        fill_value: Any = np.nan,
        rescale: bool = False,
    ) -> None:
        from scipy.spatial import Delaunay

        self.values = admit_floats(values)
        self.fill_value = fill_value
        self._offset: Any = 0.0
        self._scale: Any = 1.0
        if isinstance(points, Delaunay):
            self.points, self.tri = np.asarray(points.points), points
        else:
            self.points = admit_floats(points)
            plain = require_value(
                self.points, "LinearNDInterpolator(points)", "Give plain points."
            )
            if rescale:
                self._offset = np.mean(plain, axis=0)
                size = np.ptp(plain, axis=0)
                self._scale = np.where(size > 0, size, 1)
            self.tri = Delaunay((plain - self._offset) / self._scale)
        if shape_of(self.values)[:1] != shape_of(self.points)[:1]:
            raise ValueError(
                f"LinearNDInterpolator{blame.user_line()}: different number of values"
                f" and points: {shape_of(self.values)} and {shape_of(self.points)}"
            )

    @classmethod
    def adopt(cls, theirs: Any) -> LinearNDInterpolator:
        """Return the same function as an object of SciPy's."""
        values = np.reshape(theirs.values, (-1, *theirs.values_shape))
        made = cls(theirs.tri, values, theirs.fill_value)
        if theirs.scale is not None:
            made._offset, made._scale = theirs.offset, theirs.scale
            made.points = made.points * theirs.scale + theirs.offset
        return made

    def __call__(self, *args: ArrayLike) -> Any:
        """Return the values at points; their coordinates stand in the last axis."""
        count = shape_of(self.points)[1]
        points = join_points(args, count, "LinearNDInterpolator")
        shape = shape_of(points)[:-1]
        q = np.reshape(points, (-1, count))
        plain = require_value(
            q, "the triangle of a point", "Give points that have values."
        )
        found = self.tri.find_simplex((np.asarray(plain) - self._offset) / self._scale)
        corners = self.tri.simplices[np.maximum(found, 0)]
        places = take(self.points, corners, axis=0)
        last = places[:, -1]
        edges = np.swapaxes(places[:, :-1] - last[:, None], 1, 2)
        share = np.linalg.solve(edges, (q - last)[..., None])[..., 0]
        share = np.concatenate(
            [share, 1 - np.sum(share, axis=1, keepdims=True)], axis=1
        )
        values = take(self.values, corners, axis=0)
        y = np.sum(values * spread(share, len(shape_of(values))), axis=1)
        outside = spread(np.less(found, 0), len(shape_of(y)))
        y = np.where(outside, admit(self.fill_value), y)
        return np.reshape(y, shape + shape_of(self.values)[1:])


class NearestNDInterpolator:
    """The value of the nearest point: `scipy.interpolate.NearestNDInterpolator`.

    Differentiable by the values; a step has the slope 0.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        rescale: bool = False,
        tree_options: Any = None,
    ) -> None:
        from scipy.spatial import cKDTree

        self.points, self.values = admit_floats(x), admit_floats(y)
        plain = np.asarray(
            require_value(
                self.points, "NearestNDInterpolator(points)", "Give plain points."
            )
        )
        plain = plain[:, None] if plain.ndim == 1 else plain
        self._offset: Any = np.mean(plain, axis=0) if rescale else 0.0
        self._scale: Any = 1.0
        if rescale:
            size = np.ptp(plain, axis=0)
            self._scale = np.where(size > 0, size, 1)
        self.tree = cKDTree(
            (plain - self._offset) / self._scale, **(tree_options or {})
        )

    @classmethod
    def adopt(cls, theirs: Any) -> NearestNDInterpolator:
        """Return the same function as an object of SciPy's."""
        made = cls(theirs.tree.data, theirs.values)
        if theirs.scale is not None:
            made._offset, made._scale = theirs.offset, theirs.scale
            made.tree = theirs.tree
        return made

    def __call__(self, *args: Any, **query_options: Any) -> Any:
        """Return the values at points; their coordinates stand in the last axis."""
        count = self.tree.m
        points = join_points(args, count, "NearestNDInterpolator")
        plain = np.asarray(
            require_value(
                points, "the neighbour of a point", "Give points that have values."
            )
        )
        _, found = self.tree.query(
            np.reshape((plain - self._offset) / self._scale, (-1, count)),
            **query_options,
        )
        y = take(self.values, np.minimum(found, shape_of(self.values)[0] - 1), axis=0)
        is_lost = spread(found >= shape_of(self.values)[0], len(shape_of(y)))
        y = np.where(is_lost, np.nan, y) if bool(np.any(is_lost)) else y
        return np.reshape(y, shape_of(points)[:-1] + shape_of(self.values)[1:])


def griddata(
    points: Any,
    values: ArrayLike,
    xi: Any,
    method: str = "linear",
    fill_value: Any = np.nan,
    rescale: bool = False,
) -> Array:
    """Return values at points from scattered ones: `scipy.interpolate.griddata`.

    ``method`` is ``"linear"`` or ``"nearest"``; of one variable also ``"cubic"``.

    Raises
    ------
    UsageError
        For ``"cubic"`` in two variables, whose slopes SciPy finds by a search.
    """
    if isinstance(points, tuple):
        points = join_points(points, len(points), "griddata")
    points = admit_floats(points)
    if len(shape_of(points)) == 1 or shape_of(points)[-1] == 1:
        line = np.reshape(points, (-1,))
        xi = xi[0] if isinstance(xi, tuple) else xi
        q = admit_floats(xi)
        if len(shape_of(q)) > 1 and shape_of(q)[-1] == 1:
            q = q[..., 0]
        fill = "extrapolate" if method == "nearest" else fill_value
        return interp1d(
            line, values, method, axis=0, bounds_error=False, fill_value=fill
        )(q)
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale)(xi)
    if method == "linear":
        return LinearNDInterpolator(points, values, fill_value, rescale)(xi)
    raise UsageError(
        f"griddata(..., method={method!r}){blame.user_line()} is not known inside a"
        " derivative. Write method='linear' or 'nearest', or RBFInterpolator(points,"
        " values)(xi), which is smooth."
    )
