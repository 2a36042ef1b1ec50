"""`workbench.scipy.spatial`: SciPy's values and objects, slopes at special places."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.spatial
from scipy.spatial import distance as their_distance
from scipy.spatial import transform as their_transform

import workbench as wb
from workbench.ops.distances import METRICS
from workbench.scipy.spatial import KDTree, distance, transform
from workbench.scipy.spatial.transform import Rotation, Slerp

SEQUENCES = [
    "".join(letters)
    for letters in product("xyz", repeat=3)
    if letters[0] != letters[1] != letters[2]
]


def close(got: Any, expected: Any, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# Distances


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_have_their_values_and_slopes(
    metric: str, rng: np.random.Generator
) -> None:
    x, y = rng.uniform(0.1, 1, (4, 3)), rng.uniform(0.1, 1, (2, 3))
    w = rng.uniform(0.5, 2, 3)
    cases: list[dict[str, Any]] = [{}, {"w": w}, {"p": 3.5}, {"p": np.inf}]
    own = {"seuclidean": {"V": w}, "mahalanobis": {"VI": np.diag(w) + 0.1}}
    for settings in (*cases, own.get(metric, {})):
        try:
            expected = their_distance.cdist(x, y, metric, **settings)
        except TypeError:
            with pytest.raises(TypeError, match="takes no"):
                distance.cdist(x, y, metric, **settings)
            continue
        close(distance.cdist(x, y, metric, **settings), expected)

        def all_pairs(x: Any, s: Any = settings) -> Any:
            return distance.cdist(x, y, metric, **s)

        def own_pairs(x: Any, s: Any = settings) -> Any:
            return distance.pdist(x, metric, **s)

        close(own_pairs(x), their_distance.pdist(x, metric, **settings))
        both = lambda x: np.sum(np.sin(all_pairs(x))) + np.sum(own_pairs(x))  # noqa: E731
        wb.check_grads(both, (x,), order=2)
        # The body has the value that the row takes from SciPy.
        close(wb.vmap(all_pairs)(np.stack([x, 2 * x]))[0], expected)


def test_one_distance_of_each_metric(rng: np.random.Generator) -> None:
    u, v, w = rng.uniform(0.1, 1, (3, 4))
    names = set(METRICS) - {"seuclidean", "mahalanobis", "jensenshannon", "minkowski"}
    for name in names:
        for weights in ({}, {"w": w}):
            ours, theirs = (getattr(d, name) for d in (distance, their_distance))
            close(ours(u, v, **weights), theirs(u, v, **weights))
    close(distance.minkowski(u, v, 3, w), their_distance.minkowski(u, v, 3, w))
    close(distance.seuclidean(u, v, w), their_distance.seuclidean(u, v, w))
    inverse = np.diag(w)
    close(
        distance.mahalanobis(u, v, inverse), their_distance.mahalanobis(u, v, inverse)
    )
    close(distance.jensenshannon(u, v, 2), their_distance.jensenshannon(u, v, 2))
    close(
        distance.correlation(u, v, centered=False),
        their_distance.correlation(u, v, centered=False),
    )


def test_points_of_one_number_or_none(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(4, 1)), rng.normal(size=(3, 1))
    close(
        distance.cdist(x, y, "mahalanobis"), their_distance.cdist(x, y, "mahalanobis")
    )
    close(distance.pdist(x, "mahalanobis"), their_distance.pdist(x, "mahalanobis"))
    first: Any = lambda u, v: u[0]  # noqa: E731
    assert distance.pdist(x[:1], first).shape == (0,)
    assert distance.cdist(x[:0], y, first).shape == (0, 3)


@pytest.mark.parametrize(
    "metric", ["euclidean", "minkowski", "seuclidean", "mahalanobis", "jensenshannon"]
)
def test_slopes_at_equal_points_are_zero(metric: str) -> None:
    x = np.array([[0.3, 0.4], [0.3, 0.4], [0.5, 0.1], [0.7, 0.9]])

    def f(x: Any) -> Any:
        return their_distance.cdist(x, x[:2], metric)[0, 1]

    assert not np.any(wb.grad(f)(x))
    assert not np.any(wb.hessian(f)(x))


def test_squares_of_distances() -> None:
    v = np.arange(1.0, 7.0)
    close(distance.squareform(v), their_distance.squareform(v))
    close(distance.squareform(distance.squareform(v)), v)
    assert distance.squareform(np.zeros(0)).shape == (1, 1)
    g = wb.grad(lambda v: np.sum(their_distance.squareform(v) ** 2))(v)
    close(g, 4 * v)
    close(
        distance.cdist(np.eye(2), np.eye(2), lambda u, v: np.sum(u * v) ** 2),
        np.eye(2),
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: distance.cdist(x[0], x), ValueError, r"XA has shape \(2,\)"),
        (lambda x: distance.cdist(x, x[:, :1]), ValueError, "number of columns"),
        (lambda x: distance.cdist(x, x, "hamming"), ValueError, "no such metric"),
        (lambda x: distance.cdist(x, x, p=3), TypeError, "takes no p="),
        (lambda x: distance.pdist(x, out=x), ValueError, "leave out= away"),
        (lambda x: distance.squareform(x[0]), ValueError, "not n"),
        (lambda x: distance.squareform(x), ValueError, "must be symmetric"),
        (lambda x: distance.euclidean(x[0], x), ValueError, "vectors of one length"),
        (lambda x: KDTree(x).query(x[:, :1])[0], ValueError, "vectors of length 2"),
        (lambda x: Rotation.from_rotvec(x), ValueError, r"\(..., 3\), got \(2, 2\)"),
        (lambda x: Rotation.from_euler("xxy", x), ValueError, "no two neighbours"),
        (lambda x: Rotation.from_matrix(-np.eye(3) * x[0, 1]), ValueError, "no rot"),
        (lambda x: Slerp(x[0], Rotation.identity(2)), ValueError, "increasing"),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        wb.grad(lambda x: np.sum(call(x)))(np.array([[2.0, 1.0], [3.0, 4.0]]))
    assert "test_spatial.py" in str(raised.value)


# Nearest neighbours


@pytest.mark.parametrize("k", [1, 3, [2, 4], [2, 1, 3], [1, 1, 3], [2, 2], 25])
@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_neighbours(k: Any, p: float, rng: np.random.Generator) -> None:
    points, q = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    theirs = scipy.spatial.KDTree(points)
    for at, bound in product((q, q[0], q[None]), (np.inf, 0.8)):
        expected = theirs.query(at, k, p=p, distance_upper_bound=bound)
        got = KDTree(points).query(at, k, p=p, distance_upper_bound=bound)
        close(got[0], expected[0])
        np.testing.assert_array_equal(got[1], expected[1])

    def f(q: Any) -> Any:
        return np.sum(np.tanh(theirs.query(q, k, p=p)[0]))

    wb.check_grads(f, (q,), order=1)
    compiled = wb.compile(lambda q: KDTree(points).query(q, k, p=p)[0])
    close(compiled(q), theirs.query(q, k, p=p)[0])


# Rotations


@pytest.mark.parametrize("seq", SEQUENCES + [s.upper() for s in SEQUENCES])
def test_angles(seq: str, rng: np.random.Generator) -> None:
    angles = rng.uniform(-3, 3, (20, 3))
    theirs = their_transform.Rotation.from_euler(seq, angles)
    ours = Rotation.from_euler(seq, angles)
    close(ours.as_matrix(), theirs.as_matrix())
    close(ours.as_euler(seq), theirs.as_euler(seq), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for middle in (0, np.pi, np.pi / 2, -np.pi / 2):  # one of the axes is lost
            theirs = their_transform.Rotation.from_euler(seq, [0.3, middle, 0.4])
            got = Rotation.adopt(theirs).as_euler(seq)
            close(got, theirs.as_euler(seq), 1e-6)


def test_ways_in_and_out(rng: np.random.Generator) -> None:
    a = rng.normal(size=(6, 3))
    homes = (Rotation, their_transform.Rotation)
    ours, theirs = (home.from_rotvec(a) for home in homes)
    for name in ("as_quat", "as_matrix", "as_rotvec", "as_mrp", "magnitude"):
        close(getattr(ours, name)(), getattr(theirs, name)())
    m = theirs.as_matrix()
    for given in (m, m + 0.05, 1.3 * m):
        ours_m, theirs_m = (home.from_matrix(given).as_matrix() for home in homes)
        close(ours_m, theirs_m)
    close(Rotation.from_mrp(a).as_matrix(), homes[1].from_mrp(a).as_matrix())
    q = rng.normal(size=(5, 4))
    for settings in ({}, {"scalar_first": True}):
        made, expected = (home.from_quat(q, **settings) for home in homes)
        for canonical in (False, True):
            close(
                made.as_quat(canonical, **settings),
                expected.as_quat(canonical, **settings),
            )
    close(
        (ours * ours.inv() ** 2).as_matrix(), (theirs * theirs.inv() ** 2).as_matrix()
    )
    w = rng.uniform(1, 2, 6)
    close(ours.mean(w).as_matrix(), theirs.mean(w).as_matrix())
    for inverse in (False, True):
        close(ours.apply(a, inverse), theirs.apply(a, inverse))
        close(ours[0].apply(a, inverse), theirs[0].apply(a, inverse))
    for letter, angles in (("x", 30.0), ("y", [[10.0], [20.0]]), ("ZX", [[1.0, 2.0]])):
        made, expected = (
            home.from_euler(letter, angles, degrees=True) for home in homes
        )
        close(made.as_matrix(), expected.as_matrix())
    parts = (ours[0], ours[2:])
    close(Rotation.concatenate(parts).as_quat(), theirs.as_quat()[[0, 2, 3, 4, 5]])
    assert len(ours) == 6
    assert [r.single for r in ours] == [True] * 6


def test_powers_of_a_rotation_keep_the_signs() -> None:
    """Of whole turns: power 1 is the same quaternion, -1 that of the inverse."""
    q = np.array([0.1, 0.2, 0.3, -0.9])
    for n in (1, -1, 1.0, 0, 2, -0.5):
        expected = their_transform.Rotation.from_quat(q) ** n
        close((Rotation.from_quat(q) ** n).as_quat(), expected.as_quat())


def test_rotations_between_rotations(rng: np.random.Generator) -> None:
    keys = their_transform.Rotation.from_rotvec(rng.normal(size=(5, 3)))
    times, at = np.arange(5.0), np.array([0, 0.4, 2, 3.3, 4])
    theirs = their_transform.Slerp(times, keys)
    close(Slerp(times, keys)(at).as_matrix(), theirs(at).as_matrix())
    close(Slerp(times, keys)(1.7).as_rotvec(), theirs(1.7).as_rotvec())
    inner = at[1:-1] + 0.05
    wb.check_grads(lambda t: theirs(t).as_matrix(), (inner,), order=2)
    with pytest.raises(ValueError, match=r"within the range \[0.0, 4.0\]"):
        Slerp(times, keys)(5.0)
    batch = wb.vmap(lambda t: theirs(t).as_quat())(np.array([4.0, 5.0, -0.1]))
    close(batch[0], theirs(4.0).as_quat())
    assert np.all(np.isnan(batch[1:]))


def cross_matrix(v: Any) -> Any:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def test_derivatives_at_no_turn() -> None:
    """The exponential of a cross product: E + K + K K / 2 + K K K / 6."""

    def f(v: Any) -> Any:
        return their_transform.Rotation.from_rotvec(v).as_matrix()

    zero, basis = np.zeros(3), np.array([cross_matrix(e) for e in np.eye(3)])
    close(wb.jacobian(f)(zero), np.moveaxis(basis, 0, -1))
    both = np.einsum("aij,bjk->ikab", basis, basis)
    close(wb.jacobian(wb.jacobian(f))(zero), (both + np.swapaxes(both, -1, -2)) / 2)
    v = np.array([0.3, -0.2, 0.5])
    k = cross_matrix(v)
    slope: Any = lambda s: f(s * v)  # noqa: E731
    for _ in range(3):
        slope = wb.jacobian(slope)
    close(slope(0.0), k @ k @ k)


@pytest.mark.parametrize("length", [0.0, 1e-9, 1e-4, 0.0999, 0.1001, 0.2, 2.0, 3.1])
def test_a_vector_comes_back_with_its_derivatives(length: float) -> None:
    v = length * np.array([2.0, -1.0, 2.0]) / 3

    def f(v: Any) -> Any:
        return Rotation.from_rotvec(v).as_rotvec()

    close(f(v), v)
    close(wb.jacobian(f)(v), np.eye(3))
    close(wb.jacobian(wb.jacobian(f))(v), 0, 1e-9)


def test_the_nearest_rotation_has_its_derivative() -> None:
    """Of a symmetric move nothing is left, of a turn all."""
    turn = their_transform.Rotation.from_rotvec([0.2, 0.7, -0.4]).as_matrix()

    def f(m: Any) -> Any:
        return Rotation.from_matrix(m).as_matrix()

    spin, stretch = cross_matrix(np.array([1.0, 2.0, -1.0])), np.diag([1.0, -2.0, 3.0])
    close(wb.jvp(f, (turn,), (turn @ spin,))[1], turn @ spin)
    close(wb.jvp(f, (turn,), (turn @ stretch,))[1], np.zeros((3, 3)))


def test_a_matrix_far_from_a_rotation(rng: np.random.Generator) -> None:
    """With its value known, in a batch and compiled: SciPy's; never a reflection's."""
    turn = their_transform.Rotation.from_rotvec(rng.normal(size=3)).as_matrix()
    part = rng.normal(size=(3, 3))
    s = part @ part.T + np.eye(3)
    m = np.array([turn @ s, 20 * turn @ s, 2 * turn, turn * [5.0, 5.0, 0.5]])
    expected = their_transform.Rotation.from_matrix(m).as_matrix()

    def f(m: Any) -> Any:
        return Rotation.from_matrix(m).as_matrix()

    for one, nearest in zip(m, expected, strict=True):
        wb.check_grads(f, (one,), order=1)
        # By S = R^T M and R^T dM - dM^T R = K S + S K, solved as it stands.
        s, eye = nearest.T @ one, np.eye(3)
        moved = rng.normal(size=(3, 3))
        right = nearest.T @ moved - moved.T @ nearest
        system = np.kron(eye, s.T) + np.kron(s, eye)
        k = np.linalg.solve(system, right.ravel()).reshape(3, 3)
        close(wb.jvp(f, (one,), (moved,))[1], nearest @ k)
    wb.check_grads(f, (m[0],), order=2)
    compiled = wb.compile(f)
    for call in (f, wb.vmap(f), compiled):
        close(call(m), expected)
        with pytest.raises(ValueError, match="determinant that is not positive"):
            call(-m)


def test_objects_of_scipy_take_tensors(rng: np.random.Generator) -> None:
    R = their_transform.Rotation.from_rotvec(rng.normal(size=(4, 3)))
    v = rng.normal(size=3)
    for f in (
        lambda v: R.apply(v),
        lambda v: (R * their_transform.Rotation.from_rotvec(v)).as_matrix(),
        lambda v: (their_transform.Rotation.from_rotvec(v) * R[0]).as_rotvec(),
        lambda v: (R[1] ** v[0]).as_quat(),
        lambda v: transform.Rotation.concatenate(
            [R, their_transform.Rotation.from_euler("XYZ", v)]
        ).as_quat(),
    ):
        wb.check_grads(f, (v,), order=1)


def test_rotations_between_vectors(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 5, 3))
    for to, come, given in (
        (a, b, {}),
        (-b, b, {}),  # which only a mirror would do
        (a[:2], b[:2], {"weights": np.array([0.5, 2.0])}),
    ):
        their_turn, *theirs = their_transform.Rotation.align_vectors(to, come, **given)
        turn, *ours = Rotation.align_vectors(to, come, **given)
        close(turn.as_matrix(), their_turn.as_matrix())
        close(ours, theirs)

    def angle(v: Any) -> Any:
        turned = their_transform.Rotation.from_rotvec(v).apply(np.eye(3))
        turn, distance = their_transform.Rotation.align_vectors(turned, np.eye(3))
        return turn.as_rotvec() + distance

    v = np.array([0.3, -0.5, 0.2])  # by SciPy's own names, and at distance 0
    close(wb.jacobian(angle)(v), np.eye(3))
    for call, words in (
        (lambda x: Rotation.align_vectors(x, x[:, :2]), r"shape \(n, 3\)"),
        (lambda x: Rotation.align_vectors(x[:1], x[:1]), "at least two"),
        (lambda x: Rotation.align_vectors(x, x, [1, 1, np.inf]), "A large one"),
    ):
        with pytest.raises(ValueError, match=words):
            wb.grad(lambda x, call=call: call(x)[1])(np.eye(3))
