"""Nearest neighbours: `scipy.spatial.KDTree`, whose distances have derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import shape_of
from workbench.ops.distances import METRICS, find_nearest
from workbench.ops.taking import take
from workbench.scipy.spatial.distance import admit_double

__all__ = ["KDTree", "cKDTree"]


class KDTree:
    """Points among which the nearest are searched: `scipy.spatial.KDTree`.

    The distances of a query are differentiable by the query and by the points; the
    indices are integers, and which points are nearest has no derivative.

    Parameters
    ----------
    data
        Points, shape (n, d).
    leafsize, compact_nodes, copy_data, balanced_tree, boxsize
        As SciPy's; ``boxsize`` must be None, and the others change no result.

    Raises
    ------
    UsageError
        If ``boxsize`` is given.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.spatial import KDTree
    >>> tree = KDTree(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> distance, index = tree.query(np.array([3.0, 3.5]))
    >>> distance, index
    (np.float64(0.5), np.int64(1))
    >>> wb.grad(lambda x: tree.query(x)[0])(np.array([6.0, 8.0]))
    array([0.6, 0.8])
    """

    def __init__(
        self,
        data: ArrayLike,
        leafsize: int = 10,
        compact_nodes: bool = True,
        copy_data: bool = False,
        balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:
        if boxsize is not None:
            raise UsageError(
                f"KDTree(..., boxsize={boxsize}){blame.user_line()} is not known inside"
                " a derivative. Leave it out, and add copies of the points beyond the"
                " edges."
            )
        self.data = admit_double("KDTree", data)
        if len(shape_of(self.data)) != 2:
            raise ValueError(
                f"KDTree{blame.user_line()}: data must be 2 dimensions, a row for each"
                f" point, not of shape {shape_of(self.data)}"
            )
        self.n, self.m = shape_of(self.data)

    @classmethod
    def adopt(cls, theirs: Any) -> KDTree:
        """Return the same tree as an object of SciPy's."""
        return cls(theirs.data, boxsize=theirs.boxsize)

    def query(
        self,
        x: ArrayLike,
        k: Any = 1,
        eps: float = 0.0,
        p: float = 2.0,
        distance_upper_bound: float = np.inf,
        workers: int = 1,
    ) -> tuple[Any, Any]:
        """Return the distances of the ``k`` nearest points, and their indices.

        Parameters
        ----------
        x
            Points, shape (..., d).
        k
            How many neighbours, or a list of which, counted from 1.
        eps, workers
            Change no result: the neighbours are the nearest.
        p
            The power of Minkowski's distance.
        distance_upper_bound
            Beyond it the distance is infinite and the index n.

        Raises
        ------
        ValueError
            If the points have another number of coordinates, or k is not positive.
        """
        q = admit_double("KDTree.query", x)
        shape = shape_of(q)
        if not shape or shape[-1] != self.m:
            raise ValueError(
                f"KDTree.query{blame.user_line()}: x must consist of vectors of length"
                f" {self.m} but has shape {shape}"
            )
        is_one = isinstance(k, (int, np.integer)) and k == 1
        wanted = np.arange(1, k + 1) if isinstance(k, (int, np.integer)) else list(k)
        places = np.asarray(wanted, int) - 1
        if not places.size or places.min() < 0:
            raise ValueError(f"KDTree.query{blame.user_line()}: k must be at least 1")
        flat = np.reshape(q, (-1, self.m))
        count = min(int(places.max()) + 1, self.n)
        index = find_nearest(self.data, flat, count, float(p))
        near = take(self.data, index, axis=0)
        y = METRICS["minkowski" if p != 2 else "euclidean"](
            near, flat[:, None, :], None, float(p)
        )
        is_far = np.greater_equal(y, distance_upper_bound)
        y, index = np.where(is_far, np.inf, y), np.where(is_far, self.n, index)
        if not np.array_equal(places, np.arange(count)):
            y, index = _fill(y, places, np.inf), _fill(index, places, self.n)
        rest = shape[:-1] if is_one else (*shape[:-1], len(places))
        return np.reshape(y, rest)[()], np.reshape(index, rest)[()]


def _fill(y: Any, places: Any, value: Any) -> Any:
    """Return columns of a matrix, and a value for those that it does not have."""
    count = shape_of(y)[1]
    found = take(y, np.minimum(places, count - 1), axis=1)
    return np.where(np.less(places, count), found, value)


class cKDTree(KDTree):
    """`KDTree` by its other name: `scipy.spatial.cKDTree`."""
