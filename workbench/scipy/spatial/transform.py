"""`scipy.spatial.transform` for Tensors and arrays: rotations as unit quaternions.

Derivatives of all orders are right at the angle 0 too, where the formulas of sines and
roots are replaced by their series.

Sources: F. L. Markley, "Unit quaternion from rotation matrix" (2008); E. Bernardes and
S. Viollet, "Quaternion to Euler angles conversion" (2022); M. D. Shuster, "A survey of
attitude representations" (1993).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import convert_like, op, shape_of
from workbench.ops.distances import root
from workbench.ops.interpolation import find_intervals, mask_outside
from workbench.ops.linalg.shared import square, stacked
from workbench.ops.taking import take
from workbench.scipy.spatial.distance import admit_double

__all__ = ["Rotation", "Slerp"]

#: Up to this square of an angle, or of its tangent, a function is its series.
SMALL = 0.01


def _sum_series(s: Any, terms: Iterable[float]) -> Any:
    y: Any = None
    for term in reversed(list(terms)):
        y = term + 0 * s if y is None else y * s + term
    return y


def _quaternion_of_vector(v: Any) -> Any:
    s = np.sum(v * v, axis=-1, keepdims=True)
    is_small = np.less(s, SMALL)
    angle = np.sqrt(np.where(is_small, 1, s))
    near = np.where(is_small, s, 0)
    signs = [(-0.25) ** k for k in range(7)]
    sine = _sum_series(
        near, (c / 2 / math.factorial(2 * k + 1) for k, c in enumerate(signs))
    )
    cosine = _sum_series(near, (c / math.factorial(2 * k) for k, c in enumerate(signs)))
    sine = np.where(is_small, sine, np.sin(angle / 2) / angle)
    cosine = np.where(is_small, cosine, np.cos(angle / 2))
    return np.concatenate([v * sine, cosine], axis=-1)


def _make_canonical(q: Any) -> Any:
    """Return the quaternion of the same rotation whose last entry is not negative."""
    return q * np.where(np.less(q[..., 3:], 0), -1.0, 1.0)


def _vector_of_quaternion(q: Any) -> Any:
    q = _make_canonical(q)
    v, w = q[..., :3], q[..., 3:]
    s = np.sum(v * v, axis=-1, keepdims=True)
    is_small = np.less(s, SMALL * w * w)
    length = np.sqrt(np.where(is_small, 1, s))
    cosine = np.where(is_small, w, 1)
    square = np.where(is_small, s, 0) / (cosine * cosine)
    series = _sum_series(square, (2 * (-1) ** k / (2 * k + 1) for k in range(11)))
    return v * np.where(is_small, series / cosine, 2 * np.arctan2(length, w) / length)


def _multiply(p: Any, q: Any) -> Any:
    a, b = p[..., :3], q[..., :3]
    v, w = p[..., 3:], q[..., 3:]
    return np.concatenate(
        [
            v * b + w * a + np.cross(a, b),
            v * w - np.sum(a * b, axis=-1, keepdims=True),
        ],
        axis=-1,
    )


def _matrix_of_quaternion(q: Any) -> Any:
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _quaternion_of_matrix(m: Any) -> Any:
    """Return the row of ``4 q q^T`` with the largest entry on the diagonal, scaled."""
    e = [[m[..., i, j] for j in range(3)] for i in range(3)]
    trace = e[0][0] + e[1][1] + e[2][2]
    xy, xz, yz = e[0][1] + e[1][0], e[0][2] + e[2][0], e[1][2] + e[2][1]
    xw, yw, zw = e[2][1] - e[1][2], e[0][2] - e[2][0], e[1][0] - e[0][1]
    x, y, z = (1 - trace + 2 * e[i][i] for i in range(3))
    rows = [[x, xy, xz, xw], [xy, y, yz, yw], [xz, yz, z, zw], [xw, yw, zw, 1 + trace]]
    choice = np.argmax(np.stack([e[0][0], e[1][1], e[2][2], trace], axis=-1), axis=-1)[
        ..., None
    ]
    found = np.stack(rows[3], axis=-1)
    for i in range(3):
        found = np.where(np.equal(choice, i), np.stack(rows[i], axis=-1), found)
    return _normalize(found)


def _normalize(q: Any) -> Any:
    return q / np.sqrt(np.sum(q * q, axis=-1, keepdims=True))


# The nearest rotation R of a matrix M, where M = R S and S is symmetric. With dR = R K,
# K the matrix of a cross product with k, R^T dM - dM^T R = K S + S K is that of a cross
# product with (trace(S) E - S) k: a system that is its own transpose.


def _find_nearest_rotation(m: Array, *, mirrored: bool = False) -> Array:
    """Return the nearest rotation; also of a matrix that mirrors, where allowed.

    The last column of u is then turned round (Kabsch, 1976), and S is not positive.
    """
    if not mirrored and not bool(np.all(np.linalg.det(m) > 0)):
        raise UsageError(
            f"Rotation.from_matrix{blame.user_line()}: a matrix has a determinant that"
            " is not positive: it is no rotation, nor near to one"
        )
    u, _, vh = np.linalg.svd(m)
    if mirrored:
        u[..., -1] *= np.sign(np.linalg.det(u @ vh))[..., None]
    return u @ vh


def _turn_nearest_rotation(g: Any, y: Any, x: Any, *, mirrored: bool = False) -> Any:
    """Return the move of the nearest rotation; of its cotangents the same."""
    back = np.swapaxes(y, -1, -2)
    s, a = back @ x, back @ g
    size = (s[..., 0, 0] + s[..., 1, 1] + s[..., 2, 2])[..., None, None]
    turn = [a[..., 2, 1], a[..., 0, 2], a[..., 1, 0]]
    turned = [a[..., 1, 2], a[..., 2, 0], a[..., 0, 1]]
    gap = np.stack(turn, axis=-1) - np.stack(turned, axis=-1)
    k = np.linalg.solve(size * convert_like(np.eye(3), s) - s, gap[..., None])
    return y @ _matrix_of_cross(k[..., 0])


def _matrix_of_cross(k: Any) -> Any:
    x, y, z = (k[..., i] for i in range(3))
    rows = [[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


NEAREST = stacked(
    op(
        "nearest_rotation",
        _find_nearest_rotation,
        _turn_nearest_rotation,
        push=lambda tangents, y, x, **_: _turn_nearest_rotation(tangents[0], y, x),
        rule="y K, K the turn of yᵀ g − gᵀ y",
        reads=(0, "y"),
        infer=square,
        helper='''\
def nearest_rotation(m, *, mirrored=False):
    """The rotation nearest to each matrix, by its singular vectors."""
    if not mirrored and not np.all(np.linalg.det(m) > 0):
        raise ValueError("a matrix has a determinant that is not positive")
    u, _, vh = np.linalg.svd(m)
    if mirrored:
        u[..., -1] *= np.sign(np.linalg.det(u @ vh))[..., None]
    return u @ vh
''',
    )
)


def _scale(x: Any, degrees: bool, inverse: bool = False) -> Any:
    if not degrees:
        return x
    return x * (180 / math.pi) if inverse else x * (math.pi / 180)


def _check_last(name: str, x: Any, length: int) -> None:
    if shape_of(x)[-1:] != (length,):
        raise ValueError(
            f"{name}{blame.user_line()}: expected an array of shape (..., {length}),"
            f" got {shape_of(x)}"
        )


def _read_axes(name: str, seq: str, counts: tuple[int, ...]) -> tuple[list[int], bool]:
    """Return the axes of a sequence of letters, and whether they turn with the body."""
    is_one_kind = seq.islower() or seq.isupper()
    axes = ["xyz".find(letter) for letter in seq.lower()]
    repeated = any(a == b for a, b in pairwise(axes))
    if len(axes) not in counts or not is_one_kind or -1 in axes or repeated:
        raise ValueError(
            f"{name}{blame.user_line()}: seq={seq!r} must be letters of 'xyz', fixed"
            " axes, or of 'XYZ', which turn along, with no two neighbours equal"
        )
    return axes, seq.isupper()


class Rotation:
    """Rotations in three dimensions: `scipy.spatial.transform.Rotation`.

    Made by `from_quat`, `from_matrix`, `from_rotvec`, `from_euler` and `from_mrp`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.spatial.transform import Rotation
    >>> turn = Rotation.from_rotvec(np.array([0.0, 0.0, np.pi / 2]))
    >>> turn.apply(np.array([1.0, 0.0, 0.0])).round(12)
    array([0., 1., 0.])

    The slope of a turned point by the rotation vector, at no turn at all:

    >>> def turned(v):
    ...     return Rotation.from_rotvec(v).apply(np.array([1.0, 0.0, 0.0]))
    >>> wb.jacobian(turned)(np.zeros(3)) + 0.0
    array([[ 0.,  0.,  0.],
           [ 0.,  0.,  1.],
           [ 0., -1.,  0.]])
    """

    _quat: Any

    def __init__(
        self,
        quat: ArrayLike,
        normalize: bool = True,
        copy: bool = True,
        scalar_first: bool = False,
    ) -> None:
        q = admit_double("Rotation.from_quat", quat)
        _check_last("Rotation.from_quat", q, 4)
        if scalar_first:
            q = np.roll(q, -1, axis=-1)
        known = value_of(q)
        if known is not None and not bool(np.all(np.any(known != 0, axis=-1))):
            raise ValueError(
                f"Rotation.from_quat{blame.user_line()}: found zero norm quaternions"
            )
        self._quat = _normalize(q) if normalize else q

    @classmethod
    def _make(cls, quat: Any) -> Rotation:
        made = object.__new__(cls)
        made._quat = quat
        return made

    @classmethod
    def adopt(cls, theirs: Any) -> Rotation:
        """Return the same rotations as an object of SciPy's, or of ours."""
        return theirs if isinstance(theirs, cls) else cls._make(theirs.as_quat())

    # Ways in

    @classmethod
    def from_quat(cls, quat: ArrayLike, *, scalar_first: bool = False) -> Rotation:
        """Return the rotations of quaternions (x, y, z, w), which are scaled to 1."""
        return cls(quat, scalar_first=scalar_first)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, *, assume_valid: bool = False) -> Rotation:
        """Return the rotations of matrices, shape (..., 3, 3).

        Those that are not orthogonal stand for the nearest that are, as of SciPy; so
        the derivative is that of the nearest rotation. ``assume_valid`` leaves it out.

        Raises
        ------
        ValueError
            If the shape does not fit or a determinant is not positive.
        """
        m = admit_double("Rotation.from_matrix", matrix)
        if shape_of(m)[-2:] != (3, 3):
            raise ValueError(
                f"Rotation.from_matrix{blame.user_line()}: expected an array of shape"
                f" (..., 3, 3), got {shape_of(m)}"
            )
        if not assume_valid:
            m = apply(NEAREST, (m,))
        return cls._make(_quaternion_of_matrix(m))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Return the rotations about vectors, by angles that are their lengths."""
        v = admit_double("Rotation.from_rotvec", rotvec)
        _check_last("Rotation.from_rotvec", v, 3)
        return cls._make(_quaternion_of_vector(_scale(v, degrees)))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Return rotations about axes one after another.

        ``seq`` has up to three letters: ``"xyz"`` are axes that stay, ``"XYZ"`` axes
        that turn along. ``angles`` has shape (..., letters), or is a number for one
        letter.
        """
        axes, is_intrinsic = _read_axes("Rotation.from_euler", seq, (1, 2, 3))
        a = _scale(admit_double("Rotation.from_euler", angles), degrees)
        if len(axes) == 1 and not shape_of(a):
            a = a[..., None]
        _check_last("Rotation.from_euler", a, len(axes))
        made: Any = None
        for i, axis in enumerate(axes):
            half = a[..., i] / 2
            parts = [0 * half, 0 * half, 0 * half, np.cos(half)]
            parts[axis] = np.sin(half)
            turn = np.stack(parts, axis=-1)
            if made is None:
                made = turn
            else:
                made = _multiply(made, turn) if is_intrinsic else _multiply(turn, made)
        return cls._make(made)

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Return rotations of Rodrigues parameters: axes times ``tan(angle / 4)``."""
        v = admit_double("Rotation.from_mrp", mrp)
        _check_last("Rotation.from_mrp", v, 3)
        s = np.sum(v * v, axis=-1, keepdims=True)
        return cls._make(np.concatenate([2 * v, 1 - s], axis=-1) / (1 + s))

    @classmethod
    def identity(cls, num: int | None = None) -> Rotation:
        """Return the rotation that turns nothing, or ``num`` of them."""
        shape = () if num is None else (num,)
        return cls._make(np.zeros((*shape, 4)) + np.array([0.0, 0.0, 0.0, 1.0]))

    @classmethod
    def concatenate(cls, rotations: Any) -> Rotation:
        """Return the rotations of several objects as one object."""
        if not isinstance(rotations, (list, tuple)):
            rotations = [rotations]
        parts = [np.reshape(cls.adopt(r)._quat, (-1, 4)) for r in rotations]
        return cls._make(np.concatenate(parts))

    @classmethod
    def align_vectors(
        cls,
        a: ArrayLike,
        b: ArrayLike,
        weights: ArrayLike | None = None,
        return_sensitivity: bool = False,
    ) -> tuple[Any, ...]:
        """Return the rotation that turns vectors ``b`` into ``a``, as well as it can.

        Parameters
        ----------
        a, b
            Vectors, both of shape (n, 3), at least two that are not parallel.
        weights
            Of the pairs, shape (n,), finite; 1 by default.
        return_sensitivity
            Whether to return the sensitivity matrix too.

        Returns
        -------
        The rotation, the root of the weighed sum of squared distances (of slope 0 where
        it is 0), and where it is asked for the sensitivity matrix, shape (3, 3).

        Raises
        ------
        ValueError
            If the shapes do not fit, or a weight is negative or infinite.

        Examples
        --------
        >>> import numpy as np
        >>> from workbench.scipy.spatial.transform import Rotation
        >>> b = np.array([[1.0, 0, 0], [0, 1, 0]])
        >>> turn, distance = Rotation.align_vectors([[0.0, 1, 0], [-1, 0, 0]], b)
        >>> turn.as_euler("xyz", degrees=True).round(9), float(distance)
        (array([ 0.,  0., 90.]), 0.0)
        """
        name = "Rotation.align_vectors"
        to, come = admit_double(name, a), admit_double(name, b)
        shape = shape_of(to)
        w = admit_double(name, np.ones(shape[:1] or 1) if weights is None else weights)
        known = value_of(w)
        fits = len(shape) == 2 and shape[1] == 3 and shape == shape_of(come)
        if not fits or shape[0] < 2 or shape_of(w) != shape[:1]:
            raise ValueError(
                f"{name}{blame.user_line()}: a has shape {shape}, b {shape_of(come)},"
                f" weights {shape_of(w)}. Give n vectors each, shape (n, 3), at least"
                " two, and n weights."
            )
        if known is not None and not bool(np.all((known >= 0) & np.isfinite(known))):
            raise ValueError(
                f"{name}{blame.user_line()}: weights must be finite and not negative."
                " A large one stands for infinity."
            )
        mixed: Any = np.swapaxes(w[:, None] * to, -1, -2) @ come
        turn: Any = apply(NEAREST, (mixed,), {"mirrored": True})
        stretch = mixed @ np.swapaxes(turn, -1, -2)
        trace: Any = np.trace(stretch)
        rest = np.sum(w * np.sum(to * to + come * come, axis=-1)) - 2 * trace
        distance = root(np.maximum(rest, 0))
        found = cls._make(_quaternion_of_matrix(turn))
        if not return_sensitivity:
            return found, distance
        minors = (trace * trace - np.sum(stretch * np.swapaxes(stretch, -1, -2))) / 2
        gaps = trace * minors - np.linalg.det(stretch)
        spread = minors * convert_like(np.eye(3), mixed)
        spread = spread + mixed @ np.swapaxes(mixed, -1, -2)
        return found, distance, np.mean(w) / gaps * spread

    # Ways out

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """Return quaternions (x, y, z, w); ``canonical`` ones with w not negative."""
        q = _make_canonical(self._quat) if canonical else self._quat
        return np.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> Any:
        """Return matrices, shape (..., 3, 3)."""
        return _matrix_of_quaternion(self._quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Return axes times angles, of a length up to half a turn."""
        return _scale(_vector_of_quaternion(self._quat), degrees, inverse=True)

    def as_mrp(self) -> Any:
        """Return Rodrigues parameters: axes times ``tan(angle / 4)``."""
        q = _make_canonical(self._quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Return the three angles about axes one after another.

        ``seq`` is as of `from_euler`. Where the first and the last axis are one
        ("gimbal lock"), the last angle is 0, and the slopes are those of the others.
        """
        (i, j, k), is_intrinsic = _read_axes("Rotation.as_euler", seq, (3,))
        if is_intrinsic:
            i, k = k, i
        is_symmetric = i == k
        if is_symmetric:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        x, y, z, w = (self._quat[..., n] for n in (i, j, k, 3))
        z = z * sign
        a, b, c, d = (w, x, y, z) if is_symmetric else (w - y, x + z, y + w, z - x)
        first, second = a * a + b * b, c * c + d * d
        middle = 2 * np.arctan2(root(second), root(first))
        is_low = np.less_equal(middle, 1e-7)
        is_high = np.less_equal(np.absolute(middle - math.pi), 1e-7)
        total = np.arctan2(np.where(is_high, 0, b), np.where(is_high, 1, a))
        gap = np.arctan2(np.where(is_low, 0, d), np.where(is_low, 1, c))
        is_lost = np.logical_or(is_low, is_high)
        angles = [total - gap, middle, total + gap]
        if is_intrinsic:
            angles.reverse()
        # Where it is lost, the angle of the first axis stands for both.
        turned = np.where(is_low, 2 * total, 2 * gap * (1 if is_intrinsic else -1))
        angles[0] = np.where(is_lost, turned, angles[0])
        angles[2] = np.where(is_lost, 0, angles[2])
        if not is_symmetric:
            last = 0 if is_intrinsic else 2
            angles[last] = angles[last] * sign
            angles[1] = angles[1] - math.pi / 2
        found = np.stack(angles, axis=-1)
        # Whole turns that are added have no derivative.
        found = found + 2 * math.pi * (
            np.less(found, -math.pi).astype(float)
            - np.greater(found, math.pi).astype(float)
        )
        return _scale(found, degrees, inverse=True)

    def magnitude(self) -> Any:
        """Return the angles, of slope 0 at 0."""
        v, w = self._quat[..., :3], self._quat[..., 3]
        return 2 * np.arctan2(root(np.sum(v * v, axis=-1)), np.absolute(w))

    # What they do

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Any:
        """Return vectors turned, shape (..., 3); the two shapes broadcast.

        Raises
        ------
        ValueError
            If the vectors do not have three entries.
        """
        v = admit_double("Rotation.apply", vectors)
        _check_last("Rotation.apply", v, 3)
        m = self.as_matrix()
        m = np.swapaxes(m, -1, -2) if inverse else m
        return np.sum(m * v[..., None, :], axis=-1)

    def inv(self) -> Rotation:
        """Return the rotations back."""
        return self._make(
            np.concatenate([-self._quat[..., :3], self._quat[..., 3:]], axis=-1)
        )

    def __mul__(self, other: Any) -> Rotation:
        """Return the rotation that first does the other, then this one."""
        try:
            theirs = Rotation.adopt(other)
        except AttributeError:
            return NotImplemented
        return self._make(_multiply(self._quat, theirs._quat))

    def __rmul__(self, other: Any) -> Rotation:
        """Return a rotation of SciPy's after this one."""
        try:
            return Rotation.adopt(other) * self
        except AttributeError:
            return NotImplemented

    def __pow__(self, n: Any, modulus: None = None) -> Rotation:
        """Return the rotation by ``n`` times the angle."""
        if not isinstance(n, Tensor) and n in (-1, 1):
            return self._make(self._quat) if n == 1 else self.inv()
        return Rotation.from_rotvec(n * self.as_rotvec())

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """Return the mean: the rotation of the least weighed squares of distances."""
        q = np.reshape(self._quat, (-1, 4))
        weighed = q if weights is None else q * np.reshape(weights, (-1, 1))
        _, vectors = np.linalg.eigh(np.transpose(weighed) @ q)
        return self._make(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of them."""
        return len(shape_of(self._quat)) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array of rotations."""
        return shape_of(self._quat)[:-1]

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return self._make(self._quat[key])

    def __iter__(self) -> Iterator[Rotation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Rotation: shape {self.shape}>"


class Slerp:
    """Rotations between rotations at equal speed: `scipy.spatial.transform.Slerp`.

    Differentiable by the times, by the rotations, and by the times of these.

    Parameters
    ----------
    times
        Ascending, shape (n,).
    rotations
        As many rotations.

    Raises
    ------
    ValueError
        If there are fewer than two, or as many times as rotations there are not.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.scipy.spatial.transform import Rotation, Slerp
    >>> key = Rotation.from_euler("z", [[0], [90]], degrees=True)
    >>> Slerp([0.0, 1.0], key)(0.5).as_euler("xyz", degrees=True).round(9)
    array([ 0.,  0., 45.])
    """

    def __init__(self, times: ArrayLike, rotations: Any) -> None:
        self.times = admit_double("Slerp", times)
        keys = Rotation.adopt(rotations)
        count = 1 if keys.single else len(keys)
        if count < 2 or shape_of(self.times) != (count,):
            raise ValueError(
                f"Slerp{blame.user_line()}: needs two rotations or more and a time for"
                f" each, not {count} with times of shape {shape_of(self.times)}"
            )
        known = value_of(self.times)
        if known is not None and not bool(np.all(np.diff(known) > 0)):
            raise ValueError(
                f"Slerp{blame.user_line()}: times must be in strictly increasing order"
            )
        self.rotations = keys[:-1]
        self.rotvecs = (self.rotations.inv() * keys[1:]).as_rotvec()

    @classmethod
    def adopt(cls, theirs: Any) -> Slerp:
        """Return the same path as an object of SciPy's."""
        made = object.__new__(cls)
        made.times, made.rotvecs = theirs.times, theirs.rotvecs
        made.rotations = Rotation.adopt(theirs.rotations)  # without the last one
        return made

    def __call__(self, times: ArrayLike) -> Rotation:
        """Return the rotations at times within those given, a number or a vector."""
        t = admit_double("Slerp", times)
        known = value_of(t), value_of(self.times)
        if known[0] is not None and known[1] is not None:
            first, last = known[1][0], known[1][-1]
            if not bool(np.all((known[0] >= first) & (known[0] <= last))):
                raise ValueError(
                    f"Slerp{blame.user_line()}: interpolation times must be within the"
                    f" range [{first}, {last}], both inclusive"
                )
        place = find_intervals(self.times, t)
        start = take(self.times, place)
        share = (t - start) / (take(self.times, place + 1) - start)
        # Without values nothing refuses times outside: no rotation stands for them.
        share = mask_outside(share, t, self.times[0], self.times[-1])
        vectors = take(self.rotvecs, place, axis=0) * share[..., None]
        start = take(self.rotations._quat, place, axis=0)
        return Rotation._make(_multiply(start, _quaternion_of_vector(vectors)))
