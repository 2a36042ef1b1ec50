"""Undetermined vectors: those of repeated eigenvalues and singular values.

For a repeated value any basis of its space is equally valid. Rounding decides which one
LAPACK returns, so a result that depends on the choice is arbitrary. The same holds for
the vectors that complete a basis (``full_matrices``, ``mode="complete"``). Vectors of
nearly equal values turn by the rounding of the matrix over the distance of the values.

The doctor turns these vectors by as much as rounding may, computes the outputs again,
and reports a finding where they change. A result that is the same for every choice, as
the projector ``U @ U.T``, gives none. (G. W. Stewart and J. Sun, "Matrix Perturbation
Theory", 1990, theorem V.3.4.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, format_index, is_finite
from workbench.checks.doctor.finding import Finding
from workbench.core import walk
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor, value_of
from workbench.core.traits import Basis
from workbench.errors import WorkbenchError
from workbench.ops.define import ITEM

#: A relative error above this leaves too few digits.
LOST = 1e-4
#: A relative error above this leaves no reliable digit.
WRONG = 0.1

#: Larger stacks of matrices are not examined.
MOST = 4096


class Group(NamedTuple):
    """Columns of one matrix that may turn among themselves."""

    #: The index of the matrix in its stack.
    place: tuple[int, ...]
    #: The columns of each basis; equal slices turn together, others separately.
    columns: tuple[slice, ...]
    #: The angle of the turn, from the rounding unit to 1.
    angle: float
    #: The equal values as text.
    text: str


def find_undetermined_vectors(case: Case) -> Iterator[Finding]:
    """Yield a finding for each op with undetermined vectors that change the outputs."""
    blamed = case.blamed
    for node in case.nodes:
        if node.op.traits.basis is None or node.serial in blamed:
            continue
        blamed.update(twin.serial for twin in _find_twins(case, node))
        if not isinstance(node._value, tuple) or not is_finite(node._value):
            continue
        if not all(isinstance(y, np.ndarray) for y in node._value):
            continue
        groups = list(_find_groups(node, node.op.traits.basis))
        if groups:
            yield from _compare_vectors(case, node, node.op.traits.basis, groups)


def _find_groups(node: Tensor, basis: Basis) -> Iterator[Group]:
    """Yield the columns that rounding may turn, of each matrix."""
    y = node._value
    first = y[basis.columns[0]]
    places = list(np.ndindex(first.shape[:-2]))
    if not first.size or len(places) > MOST:
        return
    eps = float(np.finfo(first.dtype).eps)
    for place in places:
        if basis.values is None:
            rows, columns = first[place].shape[0], node.args[0].shape[-1]
            if first[place].shape[1] == rows > columns + 1:
                yield Group(place, (slice(columns, rows),), 1.0, "the last columns")
        elif not basis.rows:
            yield from _group_equal_values(place, y[basis.values][place], eps, 1)
        else:
            s = y[basis.values][place]
            yield from _group_equal_values(
                place, s[s > eps / LOST * s.max(initial=0)], eps, 2
            )
            yield from _group_null_space(place, y, eps)


def _group_equal_values(
    place: tuple[int, ...], values: Any, eps: float, bases: int
) -> Iterator[Group]:
    """Yield groups of sorted values that are too close to each other."""
    noise = len(values) * eps * float(np.abs(values).max(initial=0))
    start = 0
    for i in range(1, len(values) + 1):
        if i < len(values) and abs(values[i] - values[i - 1]) * LOST < noise:
            continue
        if i - start > 1:
            gap = float(np.abs(np.diff(values[start:i])).min())
            text = f"values {start} to {i - 1}, near {values[start]:.6g}"
            angle = min(1.0, noise / gap) if gap else 1.0
            yield Group(place, (slice(start, i),) * bases, angle, text)
        start = i


def _group_null_space(place: tuple[int, ...], y: Any, eps: float) -> Iterator[Group]:
    """Yield the columns of U and V for singular values of 0, and their completions."""
    u, s, vh = y[0][place], y[1][place], y[2][place]
    noise = max(u.shape[0], vh.shape[1]) * eps * float(s.max(initial=0))
    few = int((s * LOST >= noise).sum()) if noise else 0
    largest = float(s[few:].max(initial=0))
    angle = min(1.0, noise / largest) if largest else 1.0
    left, right = slice(few, u.shape[1]), slice(few, vh.shape[0])
    # A single vector is determined up to its sign, unless others complete the basis.
    for side, columns, size in ((0, left, u.shape[0]), (1, right, vh.shape[1])):
        if columns.stop > few and size - few > 1:
            pair = (columns, slice(0, 0)) if side == 0 else (slice(0, 0), columns)
            count = columns.stop - few
            text = f"{format_count(count, 'vector')} for singular values of 0"
            if few >= len(s):
                text = "the vectors that complete a basis"
            yield Group(place, pair, angle, text)


def _find_twins(case: Case, node: Tensor) -> list[Tensor]:
    """Return the nodes that factor the same matrix in the same way: equal choices."""
    return [
        other
        for other in case.readers.get(getattr(node.inputs[0], "serial", -1), ())
        if other.op is node.op and other.params == node.params
    ]


def _compare_vectors(
    case: Case, node: Tensor, basis: Basis, groups: list[Group]
) -> Iterator[Finding]:
    new = _turn_bases(node, basis, groups)
    items = {
        reader: new[reader.params["index"]]
        for twin in _find_twins(case, node)
        for reader in case.readers.get(twin.serial, ())
        if reader.op is ITEM and reader.params["index"] in new
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
    where = f" of matrix{format_index(group.place)}" if group.place else ""
    more = f", and {len(groups) - 1:,} more such groups" if len(groups) > 1 else ""
    yield Finding(
        "undetermined",
        "error" if group.angle > WRONG else "warning",
        node,
        "forward",
        f"{case.name_node(node)}: the result depends on undetermined vectors",
        f"{group.text[0].upper()}{group.text[1:]}{where}{more}: with these vectors"
        f" turned by as much as rounding may, the result changes by {off:.2g} of its"
        " size.",
        f"For a repeated {basis.name} every basis is equally valid, and rounding"
        " chooses one."
        if basis.values is not None
        else "Any basis of the remaining space completes the columns equally well.",
    )


def _measure_change(y: Any, z: Any, node: Tensor) -> float:
    """Return the relative change of a result; near 0 if the result is all rounding."""
    size = float(np.max(np.abs(y), initial=0))
    change = float(np.max(np.abs(np.subtract(y, z)), initial=0))
    eps = float(np.finfo(node._value[0].dtype).eps)
    inputs = max((float(np.max(np.abs(a), initial=0)) for a in node.args), default=0.0)
    return change / max(size, 1e3 * eps * max(inputs, 1.0))


def _turn_bases(node: Tensor, kind: Basis, groups: list[Group]) -> dict[int, Any]:
    """Return the bases with each group's columns turned, by the index of the output."""
    rng = np.random.default_rng(0)
    y, places = node._value, (*kind.columns, *kind.rows)
    bases = [y[k].copy() for k in kind.columns]
    bases += [np.swapaxes(y[k], -1, -2).conj().copy() for k in kind.rows]
    for group in groups:
        together = len({(c.start, c.stop) for c in group.columns}) == 1
        turn = None
        for basis, columns in zip(bases, group.columns, strict=True):
            part = basis[group.place]
            count = columns.stop - columns.start
            if not count:
                continue
            space = part[:, columns]
            if not together and kind.rows:
                space = np.concatenate([space, _complete_basis(part, rng)], axis=1)
            if turn is None or not together:
                turn = _draw_rotation(space.shape[1], group.angle, space.dtype, rng)
            part[:, columns] = (space @ turn)[:, :count]
    for i in range(len(kind.columns), len(places)):
        bases[i] = np.swapaxes(bases[i], -1, -2).conj()
    return dict(zip(places, bases, strict=True))


def _complete_basis(basis: Any, rng: np.random.Generator) -> Any:
    """Return vectors that complete the columns of a basis."""
    rows, columns = basis.shape
    more = rng.normal(size=(rows, rows - columns)).astype(basis.dtype)
    return np.linalg.qr(np.concatenate([basis, more], axis=1))[0][:, columns:]


def _draw_rotation(n: int, angle: float, dtype: Any, rng: np.random.Generator) -> Any:
    """Return an orthogonal matrix, nearer to the identity for small angles."""
    change = rng.normal(size=(n, n))
    if np.dtype(dtype).kind == "c":
        change = change + 1j * rng.normal(size=(n, n))
    q, r = np.linalg.qr(np.eye(n) + angle * change)
    signs = np.sign(np.real(np.diagonal(r)))
    return (q * np.where(signs == 0, 1, signs)).astype(dtype)
