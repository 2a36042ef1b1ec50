"""Distances, nearest neighbours, rotations."""

from __future__ import annotations

from typing import Any

from scipy.spatial import KDTree, distance
from scipy.spatial.transform import Rotation, Slerp

from tests.ops.samples.table import Table, apart, positive
from workbench.scipy import spatial

row = Table()


def _align(home: Any, a: Any, b: Any, w: Any) -> Any:
    turn, distance, matrix = home.align_vectors(a, b, w, return_sensitivity=True)
    return turn.as_matrix() * distance + matrix


for name, settings in (
    ("euclidean", {}),
    ("minkowski", {"p": 3.5}),
    ("correlation", {}),
    ("jensenshannon", {}),
):
    row(
        f"cdist {name}",
        lambda x, y, m=name, s=settings: spatial.distance.cdist(x, y, m, **s),
        positive(2, 3), positive(4, 3),
        truth=lambda x, y, m=name, s=settings: distance.cdist(x, y, m, **s),
    )  # fmt: skip
row(
    "pdist",
    lambda x, w: spatial.distance.pdist(x, "sqeuclidean", w=w),
    apart(4, 3), positive(3),
    truth=lambda x, w: distance.pdist(x, "sqeuclidean", w=w),
)  # fmt: skip
row(
    "pdist mahalanobis", lambda x: spatial.distance.pdist(x, "mahalanobis"),
    apart(5, 2), truth=lambda x: distance.pdist(x, "mahalanobis"),
)  # fmt: skip
row("squareform", spatial.distance.squareform, apart(6), truth=distance.squareform)
row(
    "nearest neighbours",
    lambda x, q: spatial.KDTree(x).query(q, 2)[0],
    lambda rng: rng.permutation(8).reshape(4, 2) + rng.uniform(-0.1, 0.1, (4, 2)),
    lambda rng: rng.permutation(4).reshape(2, 2) + 0.3,
    truth=lambda x, q: KDTree(x).query(q, 2)[0],
)  # fmt: skip

for name, f in (
    ("apply", lambda home, v, x: home.from_rotvec(v).apply(x)),
    ("vector", lambda home, v, x: (home.from_rotvec(v) * home.from_mrp(x)).as_rotvec()),
    ("euler", lambda home, v, x: home.from_euler("XYZ", v).as_euler("zxy") + x),
    (
        "matrix",
        lambda home, v, x: (
            home.from_matrix(home.from_euler("zyx", v).as_matrix()).inv().apply(x)
        ),
    ),
):
    row(
        f"rotation {name}",
        lambda v, x, f=f: f(spatial.transform.Rotation, v, x),
        apart(3), apart(3),
        truth=lambda v, x, f=f: f(Rotation, v, x),
    )  # fmt: skip
for name, sign in (("", 1.0), (" mirrored", -1.0)):
    row(
        f"rotation alignment{name}",
        lambda a, b, w, s=sign: _align(spatial.transform.Rotation, s * a, b, w),
        apart(4, 3), apart(4, 3), positive(4),
        truth=lambda a, b, w, s=sign: _align(Rotation, s * a, b, w),
    )  # fmt: skip
KEYS = Rotation.from_rotvec([[0.1, 0.2, 0.3], [0.5, -0.4, 0.2], [1.0, 0.1, -0.3]])
row(
    "Slerp",
    lambda t: spatial.transform.Slerp([0.0, 1.0, 2.0], KEYS)(t).as_matrix(),
    positive(2), truth=lambda t: Slerp([0.0, 1.0, 2.0], KEYS)(t).as_matrix(),
)  # fmt: skip
