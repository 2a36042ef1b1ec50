"""`scipy.spatial.distance` for Tensors and arrays: the metrics that have slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.distances import CDIST, METRICS, OWN, PDIST, measure
from workbench.ops.lengths import defer_functions
from workbench.ops.taking import take

__all__ = [
    "braycurtis",
    "canberra",
    "cdist",
    "chebyshev",
    "cityblock",
    "correlation",
    "cosine",
    "euclidean",
    "jensenshannon",
    "mahalanobis",
    "minkowski",
    "pdist",
    "seuclidean",
    "sqeuclidean",
    "squareform",
]

#: SciPy's other names of metrics.
SHORT = {
    "cheby": "chebyshev", "chebychev": "chebyshev", "cheb": "chebyshev",
    "ch": "chebyshev", "cblock": "cityblock", "cb": "cityblock", "c": "cityblock",
    "co": "correlation", "cos": "cosine", "euclid": "euclidean", "eu": "euclidean",
    "e": "euclidean", "js": "jensenshannon", "mahal": "mahalanobis",
    "mi": "minkowski", "m": "minkowski", "pnorm": "minkowski", "se": "seuclidean",
    "s": "seuclidean", "sqe": "sqeuclidean", "sqeuclid": "sqeuclidean",
}  # fmt: skip


def admit_double(name: str, x: ArrayLike) -> Any:
    """Return an array or Tensor of real numbers in double precision, as SciPy's."""
    x = admit(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    if dtype_of(x).kind not in "biuf":
        raise ValueError(
            f"{name}{blame.user_line()}: entries of dtype {dtype_of(x)} are no real"
            " numbers"
        )
    return x if dtype_of(x) == np.float64 else x.astype(float)


def _admit_matrix(name: str, argument: str, x: ArrayLike) -> Any:
    x = admit_double(name, x)
    if len(shape_of(x)) != 2:
        raise ValueError(
            f"{name}{blame.user_line()}: {argument} has shape {shape_of(x)}, and must"
            " have a row for each point. x[:, None] makes points of numbers"
        )
    return x


def _resolve_metric(name: str, metric: str, given: dict[str, Any]) -> str:
    """Return the name of a metric, as a key of `METRICS`; refuse unknown settings."""
    chosen = str(metric).lower()
    chosen = SHORT.get(chosen, chosen)
    if chosen not in METRICS:
        raise ValueError(
            f"{name}(..., metric={metric!r}){blame.user_line()}: no such metric has a"
            f" derivative. Those that have one are {', '.join(map(repr, METRICS))}"
        )
    known = {OWN.get(chosen), "p" if chosen == "minkowski" else None}
    known |= set() if chosen in OWN or chosen == "jensenshannon" else {"w"}
    if unknown := sorted(set(given) - known):
        raise TypeError(
            f"{name}(..., metric={metric!r}){blame.user_line()}: this metric takes no"
            f" {unknown[0]}="
        )
    return chosen


def _find_operands(
    metric: str, points: list[Any], given: dict[str, Any]
) -> dict[str, Any]:
    """Return the operands of a metric besides the points, by SciPy's names."""
    found = {
        key: admit_double(key, value)
        for key, value in given.items()
        if key != "p" and value is not None
    }
    own = OWN.get(metric)
    if own is not None and own not in found:
        every = points[0] if len(points) == 1 else np.concatenate(points)
        if own == "V":
            found[own] = np.var(every, axis=0, ddof=1)
        else:
            covariance = np.atleast_2d(np.cov(np.transpose(every)))
            found[own] = np.transpose(np.linalg.inv(covariance))
    return found


def cdist(
    XA: ArrayLike,
    XB: ArrayLike,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Any:
    """Return the distance of each row of one matrix from each row of another.

    Parameters
    ----------
    XA, XB
        Points, shapes (n, d) and (m, d).
    metric
        The name of a metric with slopes, or a function of two points.
    out
        Must be None.
    kwargs
        ``w``, weights of the coordinates; ``p`` of ``"minkowski"``, ``V`` of
        ``"seuclidean"`` and ``VI`` of ``"mahalanobis"``, as SciPy has them.

    Returns
    -------
    Array
        Of shape (n, m), in double precision. Where two points are equal, slopes are 0.

    Raises
    ------
    ValueError
        If the shapes do not fit or the metric has no derivative.
    TypeError
        If the metric does not take a setting.

    Examples
    --------
    >>> import numpy as np
    >>> cdist(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 1.0]]), "cityblock")
    array([[7., 2.]])
    """
    _refuse_out("cdist", out)
    x, y = _admit_matrix("cdist", "XA", XA), _admit_matrix("cdist", "XB", XB)
    if shape_of(x)[1] != shape_of(y)[1]:
        raise ValueError(
            f"cdist{blame.user_line()}: XA and XB must have the same number of columns,"
            f" and have shapes {shape_of(x)} and {shape_of(y)}"
        )
    if callable(metric):
        shape = shape_of(x)[0], shape_of(y)[0]
        if 0 in shape:
            return np.zeros(shape)
        rows = [[metric(u, v, **kwargs) for v in y] for u in x]
        return np.stack([np.stack(row) for row in rows])
    chosen = _resolve_metric("cdist", metric, kwargs)
    given = _find_operands(chosen, [x, y], kwargs)
    return measure(CDIST, (x, y), chosen, given, float(kwargs.get("p", 2)))


def pdist(
    X: ArrayLike,
    metric: str | Callable[..., Any] = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Any:
    """Return the distances of the rows of a matrix from each other.

    Parameters
    ----------
    X
        Points, shape (n, d).
    metric, out, kwargs
        As of `cdist`.

    Returns
    -------
    Array
        Of shape (n (n - 1) / 2,): row 0 from 1, 2, ..., then 1 from 2, 3, ...

    Raises
    ------
    ValueError, TypeError
        As `cdist` does.

    Examples
    --------
    >>> import numpy as np
    >>> pdist(np.array([[0.0], [1.0], [4.0]]))
    array([1., 4., 3.])
    """
    _refuse_out("pdist", out)
    x = _admit_matrix("pdist", "X", X)
    if callable(metric):
        pairs = list(zip(*np.triu_indices(shape_of(x)[0], 1), strict=True))
        if not pairs:
            return np.zeros(0)
        return np.stack([metric(x[i], x[j], **kwargs) for i, j in pairs])
    chosen = _resolve_metric("pdist", metric, kwargs)
    given = _find_operands(chosen, [x], kwargs)
    return measure(PDIST, (x,), chosen, given, float(kwargs.get("p", 2)))


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise ValueError(
            f"{name}(..., out=array){blame.user_line()}: leave out= away, and write"
            f" y = {name}(...)"
        )


def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Any:
    """Return the symmetric matrix of the distances of `pdist`, or these of the matrix.

    Parameters
    ----------
    X
        A vector of n (n - 1) / 2 distances, or a matrix (n, n) with a diagonal of 0.
    force
        ``"tovector"`` or ``"tomatrix"`` refuses the other way.
    checks
        Whether a matrix must be symmetric, with a diagonal of 0.

    Raises
    ------
    ValueError
        If the shape is of neither kind, or the matrix is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> squareform(np.array([1.0, 4.0, 3.0]))
    array([[0., 1., 4.],
           [1., 0., 3.],
           [4., 3., 0.]])
    """
    x: Any = admit(X)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    shape = shape_of(x)
    ranks = {"tomatrix": (1,), "tovector": (2,)}.get(str(force).lower(), (1, 2))
    if len(shape) not in ranks or (len(shape) == 2 and shape[0] != shape[1]):
        raise ValueError(
            f"squareform(..., force={force!r}){blame.user_line()}: X has shape {shape},"
            " and is a vector of distances or a square matrix"
        )
    if len(shape) == 2:
        known = value_of(x) if checks else None
        if known is not None and not bool(
            np.allclose(known, known.T, atol=1e-8) and np.all(np.diag(known) == 0)
        ):
            raise ValueError(
                f"squareform{blame.user_line()}: the matrix must be symmetric, and its"
                " diagonal must be zero. checks=False takes its upper half"
            )
        return x[np.triu_indices(shape[0], 1)]
    n = round((1 + (1 + 8 * shape[0]) ** 0.5) / 2)
    if n * (n - 1) // 2 != shape[0]:
        raise ValueError(
            f"squareform{blame.user_line()}: {shape[0]} is not n (n - 1) / 2 for any"
            " whole n: these are not the distances of n points"
        )
    if not shape[0]:
        return np.zeros_like(x, shape=(n, n))
    place = np.zeros((n, n), int)
    place[np.triu_indices(n, 1)] = np.arange(shape[0])
    is_same = convert_like(np.eye(n, dtype=bool), x)
    return np.where(is_same, 0, take(x, convert_like(place + place.T, x)))


# One distance


def _measure_two(name: str, u: ArrayLike, v: ArrayLike, own: Any, w: Any) -> Any:
    a, b = admit_double(name, u), admit_double(name, v)
    if len(shape_of(a)) != 1 or shape_of(a) != shape_of(b):
        raise ValueError(
            f"{name}{blame.user_line()}: u and v must be vectors of one length, and"
            f" have shapes {shape_of(a)} and {shape_of(b)}"
        )
    weights = None if w is None else admit_double(name, w)
    return METRICS[name](a, b, weights, own)


def _make_metric(name: str) -> Callable[..., Any]:
    def compute(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
        return _measure_two(name, u, v, None, w)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"""Return the {name} distance of two points, as SciPy's."""
    return compute


braycurtis, canberra = _make_metric("braycurtis"), _make_metric("canberra")
chebyshev, cityblock = _make_metric("chebyshev"), _make_metric("cityblock")
cosine, euclidean = _make_metric("cosine"), _make_metric("euclidean")
sqeuclidean = _make_metric("sqeuclidean")


def correlation(
    u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None, centered: bool = True
) -> Any:
    """Return 1 minus the correlation of two vectors, of the centred ones by default."""
    return _measure_two("correlation" if centered else "cosine", u, v, None, w)


def minkowski(
    u: ArrayLike, v: ArrayLike, p: float = 2, w: ArrayLike | None = None
) -> Any:
    """Return the distance ``sum(w abs(u - v)**p)**(1 / p)`` of two points."""
    return _measure_two("minkowski", u, v, p, w)


def seuclidean(u: ArrayLike, v: ArrayLike, V: ArrayLike) -> Any:
    """Return the Euclidean distance of points whose coordinates have variances V."""
    return _measure_two("seuclidean", u, v, admit_double("seuclidean", V), None)


def mahalanobis(u: ArrayLike, v: ArrayLike, VI: ArrayLike) -> Any:
    """Return the distance by VI, the inverse of a covariance, of two points."""
    return _measure_two("mahalanobis", u, v, admit_double("mahalanobis", VI), None)


def jensenshannon(
    p: ArrayLike,
    q: ArrayLike,
    base: float | None = None,
    *,
    axis: int = 0,
    keepdims: bool = False,
) -> Any:
    """Return the Jensen-Shannon distance of probabilities along an axis.

    The logarithm is to ``base``, e by default.
    """
    a, b = (np.moveaxis(admit_double("jensenshannon", x), axis, -1) for x in (p, q))
    y = METRICS["jensenshannon"](a, b, None, None)
    y = y if base is None else y / np.sqrt(np.log(base))
    return np.expand_dims(y, axis) if keepdims else y


defer_functions(globals(), __all__)
