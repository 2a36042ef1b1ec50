"""Distances of the rows of matrices, each metric plain NumPy on two arrays of points.

Loaded by `workbench.scipy.spatial`, which gives them SciPy's names. Where two points
are equal the slope of a distance is 0, the middle of the slopes in all directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.tensor import apply
from workbench.core.types import Array, Spec, is_device_array
from workbench.ops.define import composite, shape_of
from workbench.ops.taking import take

# Metrics: functions of arrays of points along the last axis, which broadcast. ``w`` are
# the weights of the coordinates, or None; ``more`` a metric's own operand, or None.


def root(s: Array) -> Array:
    """Return the square root, of slope 0 at 0."""
    is_zero = np.equal(s, 0)
    return np.where(is_zero, 0, np.sqrt(np.where(is_zero, 1, s)))


def divide(a: Array, b: Array) -> Array:
    """Return a quotient, 0 where the divisor is 0."""
    is_zero = np.equal(b, 0)
    return np.where(is_zero, 0, a / np.where(is_zero, 1, b))


def _sum(x: Array, w: Array | None) -> Array:
    return np.sum(x if w is None else x * w, axis=-1)


def _measure_square(u: Array, v: Array, w: Any, more: Any) -> Array:
    gap = u - v
    return _sum(gap * gap, w)


def _measure_euclidean(u: Array, v: Array, w: Any, more: Any) -> Array:
    return root(_measure_square(u, v, w, None))


def _measure_scaled(u: Array, v: Array, w: Any, more: Any) -> Array:
    """Return the Euclidean distance of coordinates of variances ``more``."""
    gap = u - v
    return root(_sum(gap * gap / more, w))


def _measure_mahalanobis(u: Array, v: Array, w: Any, more: Any) -> Array:
    """Return the distance by ``more``, the inverse of a covariance."""
    gap = u - v
    return root(np.sum(np.matmul(gap, more) * gap, axis=-1))


def _measure_cityblock(u: Array, v: Array, w: Any, more: Any) -> Array:
    return _sum(np.absolute(u - v), w)


def _measure_chebyshev(u: Array, v: Array, w: Any, more: Any) -> Array:
    gap = np.absolute(u - v)
    if w is not None:  # which choose coordinates, and no more
        gap = np.where(np.greater(w, 0), gap, 0)
    return np.max(gap, axis=-1)


def _measure_minkowski(u: Array, v: Array, w: Any, p: float) -> Array:
    if p == np.inf:
        return _measure_chebyshev(u, v, w, None)
    gap = np.absolute(u - v)
    is_equal = np.equal(gap, 0)
    total = _sum(np.where(is_equal, 0, np.where(is_equal, 1, gap) ** p), w)
    is_zero = np.equal(total, 0)
    return np.where(is_zero, 0, np.where(is_zero, 1, total) ** (1 / p))


def _measure_canberra(u: Array, v: Array, w: Any, more: Any) -> Array:
    return _sum(divide(np.absolute(u - v), np.absolute(u) + np.absolute(v)), w)


def _measure_braycurtis(u: Array, v: Array, w: Any, more: Any) -> Array:
    return _sum(np.absolute(u - v), w) / _sum(np.absolute(u + v), w)


def _measure_cosine(u: Array, v: Array, w: Any, more: Any) -> Array:
    return 1 - _sum(u * v, w) / np.sqrt(_sum(u * u, w) * _sum(v * v, w))


def _measure_correlation(u: Array, v: Array, w: Any, more: Any) -> Array:
    total = shape_of(u)[-1] if w is None else np.sum(w)
    u = u - _sum(u, w)[..., None] / total
    v = v - _sum(v, w)[..., None] / total
    return _measure_cosine(u, v, w, None)


def _entropy(p: Array, m: Array) -> Array:
    is_zero = np.equal(p, 0)
    ratio = np.where(is_zero, 1, p) / np.where(is_zero, 1, m)
    return np.sum(np.where(is_zero, 0, p * np.log(ratio)), axis=-1)


def _measure_jensenshannon(u: Array, v: Array, w: Any, more: Any) -> Array:
    u = u / np.sum(u, axis=-1, keepdims=True)
    v = v / np.sum(v, axis=-1, keepdims=True)
    middle = (u + v) / 2
    total = _entropy(u, middle) + _entropy(v, middle)
    # Of equal points rounding leaves a little, of either sign.
    return root(np.where(np.all(np.equal(u, v), axis=-1), 0, total / 2))


#: The metrics with slopes, by SciPy's names.
METRICS: dict[str, Callable[[Array, Array, Any, Any], Array]] = {
    "braycurtis": _measure_braycurtis,
    "canberra": _measure_canberra,
    "chebyshev": _measure_chebyshev,
    "cityblock": _measure_cityblock,
    "correlation": _measure_correlation,
    "cosine": _measure_cosine,
    "euclidean": _measure_euclidean,
    "jensenshannon": _measure_jensenshannon,
    "mahalanobis": _measure_mahalanobis,
    "minkowski": _measure_minkowski,
    "seuclidean": _measure_scaled,
    "sqeuclidean": _measure_square,
}
#: The operand of their own that some of them have, by SciPy's name of it.
OWN = {"seuclidean": "V", "mahalanobis": "VI"}


def _resolve(
    metric: str, names: tuple[str, ...], more: tuple[Any, ...], p: float
) -> tuple[Any, Any]:
    """Return the weights and a metric's own operand."""
    given = dict(zip(names, more, strict=True))
    own = p if metric == "minkowski" else given.get(OWN.get(metric, ""))
    return given.get("w"), own


def _measure_all(
    x: Array, y: Array, *more: Any, metric: str, names: tuple[str, ...], p: float
) -> Array:
    w, own = _resolve(metric, names, more, p)
    return METRICS[metric](x[:, None, :], y[None, :, :], w, own)


def _find_pairs(n: int) -> tuple[Array, Array]:
    return np.triu_indices(n, 1)


def _measure_pairs(
    x: Array, *more: Any, metric: str, names: tuple[str, ...], p: float
) -> Array:
    w, own = _resolve(metric, names, more, p)
    left, right = _find_pairs(shape_of(x)[0])
    return METRICS[metric](take(x, left, axis=0), take(x, right, axis=0), w, own)


def _call_scipy(name: str, body: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of arrays: SciPy's on NumPy's, the body on all others."""

    def compute(*arrays: Any, metric: str, names: tuple[str, ...], p: float) -> Any:
        if any(map(is_device_array, arrays)):
            return body(*arrays, metric=metric, names=names, p=p)
        from scipy.spatial import distance

        count = len(arrays) - len(names)
        given = dict(zip(names, arrays[count:], strict=True))
        if metric == "minkowski":
            given["p"] = p
        return getattr(distance, name)(*arrays[:count], metric, **given)

    return compute


def _infer_all(x: Array, y: Array, *more: Any, **params: Any) -> Spec:
    return Spec((shape_of(x)[0], shape_of(y)[0]), np.dtype(float))


def _infer_pairs(x: Array, *more: Any, **params: Any) -> Spec:
    n = shape_of(x)[0]
    return Spec((n * (n - 1) // 2,), np.dtype(float))


# Not by SciPy's names, which people give to ops of their own.
RULE = "the slopes of the metric, 0 at equal points"
CDIST = composite(
    "cross_distances",
    _measure_all,
    compute=_call_scipy("cdist", _measure_all),
    rule=RULE,
    infer=_infer_all,
    helper='''\
def cross_distances(x, y, *more, metric, names, p):
    """The distances of the rows of x from those of y."""
    given = dict(zip(names, more))
    if metric == "minkowski":
        given["p"] = p
    return spatial.distance.cdist(x, y, metric, **given)
''',
)
PDIST = composite(
    "pair_distances",
    _measure_pairs,
    compute=_call_scipy("pdist", _measure_pairs),
    rule=RULE,
    infer=_infer_pairs,
    helper='''\
def pair_distances(x, *more, metric, names, p):
    """The distances of the rows of x from each other."""
    given = dict(zip(names, more))
    if metric == "minkowski":
        given["p"] = p
    return spatial.distance.pdist(x, metric, **given)
''',
)


# Nearest neighbours


def _find_nearest(x: Array, q: Array, *, k: int, p: float) -> Array:
    """Return the rows of ``x`` that are nearest to each row of ``q``, as integers."""
    far = _measure_minkowski(q[:, None, :], x[None, :, :], None, p)
    return np.argsort(far, axis=-1)[:, :k]


def _search_tree(x: Array, q: Array, *, k: int, p: float) -> Any:
    if is_device_array(x) or is_device_array(q):
        return _find_nearest(x, q, k=k, p=p)
    from scipy.spatial import cKDTree

    tree: Any = cKDTree
    return np.reshape(tree(x).query(q, range(1, k + 1), p=p)[1], (-1, k))


NEAREST = composite(
    "nearest_neighbours",
    _find_nearest,
    compute=_search_tree,
    rule="no derivative",
    infer=lambda x, q, *, k, p: Spec((shape_of(q)[0], k), np.dtype(np.intp)),
    helper='''\
def nearest_neighbours(x, q, k, p):
    """The rows of x that are nearest to each row of q."""
    return spatial.cKDTree(x).query(q, range(1, k + 1), p=p)[1]
''',
)


def find_nearest(x: Array, q: Array, k: int, p: float) -> Any:
    """Return the ``k`` rows of ``x`` that are nearest to each row of ``q``."""
    return apply(NEAREST, (x, q), {"k": k, "p": p})


def measure(
    kind: Any, points: tuple[Any, ...], metric: str, given: dict[str, Any], p: float
) -> Any:
    """Apply one of the two ops of a metric that has slopes."""
    names = tuple(given)
    params = {"metric": metric, "names": names, "p": p}
    return apply(kind, (*points, *given.values()), params)
