"""Vectors that nothing determines: of repeated eigenvalues and singular values.

Of a repeated value any basis of its space is as good as another; which one LAPACK
gives hangs on rounding, and so does a result that is not the same for all. So is what
completes a basis (``full_matrices``, ``mode="complete"``). Of values that are nearly
equal the vectors turn by the rounding of the matrix over their distance.

The doctor turns these vectors by as much as rounding may, computes the outputs again,
and speaks where they change. What is the same for every choice, as the projector ``U
@ U.T``, is left in peace. (G. W. Stewart and J. Sun, "Matrix Perturbation Theory",
1990, theorem V.3.4.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, at, finite
from workbench.checks.doctor.finding import Finding
from workbench.core import walk
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor, value_of
from workbench.errors import WorkbenchError

#: What is left is less than this part of the digits of its dtype.
LOST = 1e-4
#: From here on no digit is left that one could rely on.
WRONG = 0.1

#: What is repeated, by the ops that give vectors.
BASES = {
    "eigh": "eigenvalue",
    "eig": "eigenvalue",
    "svd": "singular value",
    "qr": "column of R",
}
#: A stack of more matrices is not looked at.
MOST = 4096


class Group(NamedTuple):
    """Columns of one matrix that may turn among themselves."""

    #: Where the matrix stands in its stack.
    place: tuple[int, ...]
    #: The columns of each basis: the same ones turn together, of a pair each alone.
    columns: tuple[slice, ...]
    #: How far, from the rounding unit to 1.
    angle: float
    #: The values that are equal, in words.
    told: str


def find_undetermined_vectors(
    case: Case, known: Collection[Tensor] = ()
) -> Iterator[Finding]:
    """A finding for each op whose undetermined vectors the outputs hang on."""
    blamed = {node.serial for node in known}
    for node in case.nodes:
        if node.op.name not in BASES or node.op.custom or node.serial in blamed:
            continue
        blamed.update(twin.serial for twin in _twins(case, node))
        if not isinstance(node._value, tuple) or not finite(node._value):
            continue
        if not all(isinstance(y, np.ndarray) for y in node._value):
            continue
        groups = list(_groups(node))
        if groups:
            yield from _compare_vectors(case, node, groups)


def _groups(node: Tensor) -> Iterator[Group]:
    """The columns that rounding may turn, of each matrix."""
    y = node._value
    first = y[1] if node.op.name in ("eigh", "eig") else y[0]
    places = list(np.ndindex(first.shape[:-2]))
    if not first.size or len(places) > MOST:
        return
    eps = float(np.finfo(first.dtype).eps)
    for place in places:
        if node.op.name in ("eigh", "eig"):
            yield from _equal(place, y[0][place], eps, 1)
        elif node.op.name == "qr":
            rows, columns = y[0][place].shape[0], node.args[0].shape[-1]
            if y[0][place].shape[1] == rows > columns + 1:
                yield Group(place, (slice(columns, rows),), 1.0, "the last columns")
        else:
            s = y[1][place]
            yield from _equal(place, s[s > eps / LOST * s.max(initial=0)], eps, 2)
            yield from _null(place, y, eps)


def _equal(
    place: tuple[int, ...], values: Any, eps: float, bases: int
) -> Iterator[Group]:
    """Groups of values in order that lie too near to each other."""
    noise = len(values) * eps * float(np.abs(values).max(initial=0))
    start = 0
    for i in range(1, len(values) + 1):
        if i < len(values) and abs(values[i] - values[i - 1]) * LOST < noise:
            continue
        if i - start > 1:
            gap = float(np.abs(np.diff(values[start:i])).min())
            told = f"values {start} to {i - 1}, near {values[start]:.6g}"
            angle = min(1.0, noise / gap) if gap else 1.0
            yield Group(place, (slice(start, i),) * bases, angle, told)
        start = i


def _null(place: tuple[int, ...], y: Any, eps: float) -> Iterator[Group]:
    """The columns of U and V for singular values of 0, and what completes them."""
    u, s, vh = y[0][place], y[1][place], y[2][place]
    noise = max(u.shape[0], vh.shape[1]) * eps * float(s.max(initial=0))
    few = int((s * LOST >= noise).sum()) if noise else 0
    largest = float(s[few:].max(initial=0))
    angle = min(1.0, noise / largest) if largest else 1.0
    left, right = slice(few, u.shape[1]), slice(few, vh.shape[0])
    # One vector alone is determined but for its sign, if nothing lies beside it.
    for side, columns, size in ((0, left, u.shape[0]), (1, right, vh.shape[1])):
        if columns.stop > few and size - few > 1:
            pair = (columns, slice(0, 0)) if side == 0 else (slice(0, 0), columns)
            count = columns.stop - few
            told = f"{format_count(count, 'vector')} for singular values of 0"
            if few >= len(s):
                told = "the vectors that complete a basis"
            yield Group(place, pair, angle, told)


def _twins(case: Case, node: Tensor) -> list[Tensor]:
    """The nodes that factor the same matrix in the same way: they choose alike."""
    return [
        other
        for other in case.readers.get(getattr(node.inputs[0], "serial", -1), ())
        if other.op is node.op and other.params == node.params
    ]


def _compare_vectors(
    case: Case, node: Tensor, groups: list[Group]
) -> Iterator[Finding]:
    new = _turned(node, groups)
    items = {
        reader: new[reader.params["index"]]
        for twin in _twins(case, node)
        for reader in case.readers.get(twin.serial, ())
        if reader.op.name == "item" and reader.params["index"] in new
    }
    if not items:
        return
    try:
        again = [value_of(y) for y in walk.substitute(case.outputs, items)]
    except (ArithmeticError, ValueError, TypeError, WorkbenchError):
        return
    off = max(
        _measure_change(y._value, z, node)
        for y, z in zip(case.outputs, again, strict=True)
    )
    if off <= LOST:
        return
    group = max(groups, key=lambda one: one.angle)
    what = BASES[node.op.name]
    where = f" of matrix{at(group.place)}" if group.place else ""
    more = f", and {len(groups) - 1:,} more such groups" if len(groups) > 1 else ""
    yield Finding(
        "undetermined",
        "error" if group.angle > WRONG else "warning",
        node,
        "forward",
        f"{case.call(node)}: the result hangs on vectors that nothing determines",
        f"{group.told[0].upper()}{group.told[1:]}{where}{more}: with these vectors"
        f" turned by as much as rounding may, the result changes by {off:.2g} of its"
        " size.",
        f"Of a repeated {what} any basis is as good as another, and rounding chooses."
        if node.op.name != "qr"
        else "What completes a basis is any basis of what is left.",
    )


def _measure_change(y: Any, z: Any, node: Tensor) -> float:
    """Return the relative change of a result; next to 0 where it is all rounding."""
    size = float(np.max(np.abs(y), initial=0))
    change = float(np.max(np.abs(np.subtract(y, z)), initial=0))
    eps = float(np.finfo(node._value[0].dtype).eps)
    inputs = max((float(np.max(np.abs(a), initial=0)) for a in node.args), default=0.0)
    return change / max(size, 1e3 * eps * max(inputs, 1.0))


def _turned(node: Tensor, groups: list[Group]) -> dict[int, Any]:
    """The bases with the columns of each group turned, by the index of the output."""
    rng = np.random.default_rng(0)
    name, y = node.op.name, node._value
    if name in ("eigh", "eig"):
        bases, places = [y[1].copy()], [1]
    elif name == "qr":
        bases, places = [y[0].copy()], [0]
    else:
        bases, places = [y[0].copy(), np.swapaxes(y[2], -1, -2).conj().copy()], [0, 2]
    for group in groups:
        together = len({(c.start, c.stop) for c in group.columns}) == 1
        turn = None
        for basis, columns in zip(bases, group.columns, strict=True):
            part = basis[group.place]
            count = columns.stop - columns.start
            if not count:
                continue
            space = part[:, columns]
            if not together and name == "svd":
                space = np.concatenate([space, _complete_basis(part, rng)], axis=1)
            if turn is None or not together:
                turn = _rotation(space.shape[1], group.angle, space.dtype, rng)
            part[:, columns] = (space @ turn)[:, :count]
    if name == "svd":
        bases[1] = np.swapaxes(bases[1], -1, -2).conj()
    return dict(zip(places, bases, strict=True))


def _complete_basis(basis: Any, rng: np.random.Generator) -> Any:
    """Return vectors that complete the columns of a basis."""
    rows, columns = basis.shape
    more = rng.normal(size=(rows, rows - columns)).astype(basis.dtype)
    return np.linalg.qr(np.concatenate([basis, more], axis=1))[0][:, columns:]


def _rotation(n: int, angle: float, dtype: Any, rng: np.random.Generator) -> Any:
    """Return an orthogonal matrix, nearer to the identity for small angles."""
    change = rng.normal(size=(n, n))
    if np.dtype(dtype).kind == "c":
        change = change + 1j * rng.normal(size=(n, n))
    q, r = np.linalg.qr(np.eye(n) + angle * change)
    signs = np.sign(np.real(np.diagonal(r)))
    return (q * np.where(signs == 0, 1, signs)).astype(dtype)
