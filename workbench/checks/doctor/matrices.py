"""Nearly singular matrices, how many digits they leave, and vectors left to chance.

A matrix of condition c multiplies the relative rounding of its entries by up to c. A
finding reports it where fewer than four digits remain, c · eps > 1e-4 in its dtype:
from 4.5e11 in float64, from 840 in float32. The condition is estimated, never read off
digits that rounding has made: so the verdict is the same on every machine, and whether
a factorisation that stands at its edge succeeds or raises an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.steps import with_inner_nodes
from workbench.checks.doctor.case import (
    DEPTH,
    Case,
    format_index,
    is_finite,
    lift_finding,
    measure_norm,
    record_inside,
)
from workbench.checks.doctor.edits import edit_operand, widen_operand
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.spelling import spell
from workbench.core import walk
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor, value_of
from workbench.core.traits import Basis
from workbench.errors import WorkbenchError
from workbench.ops.contraction import swap
from workbench.ops.define import ITEM

#: A relative error above this leaves too few digits.
LOST = 1e-4
#: A relative error above this leaves no reliable digit.
WRONG = 0.1

#: Larger stacks of matrices are not examined.
MOST = 4096


# Undetermined vectors: those of repeated eigenvalues and singular values.
#
# For a repeated value any basis of its space is equally valid. Rounding decides which
# one LAPACK returns, so a result that depends on the choice is arbitrary. The same
# holds for the vectors that complete a basis (``full_matrices``, ``mode="complete"``).
# Vectors of nearly equal values turn by the rounding of the matrix over the distance of
# the values.
#
# The doctor turns these vectors by as much as rounding may, computes the outputs again,
# and reports a finding where they change. A result that is the same for every choice,
# as the projector ``U @ U.T``, gives none. (G. W. Stewart and J. Sun, "Matrix
# Perturbation Theory", 1990, theorem V.3.4.)


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


# How near to singular matrices are: LAPACK's estimates of their condition.
#
# A factor tells the 1-norm of the inverse in O(n²) (N. J. Higham, "Accuracy and
# Stability of Numerical Algorithms", 2nd ed., 2002, section 15.2), to a factor of about
# 3 and, unlike the digits of a solution, hardly any differently on another CPU:
# rounding moves it by the share of itself that the matrix is away from singular.
#
# Rows and columns are scaled first, symmetrically where the matrix is (A. van der
# Sluis, "Condition numbers and equilibration of matrices", 1969): that one unknown is
# counted in metres and another in nanometres costs no digits. All is computed in
# double.

#: A symmetric matrix is definite but for rounding where its least eigenvalue is no
#: further below 0 than this many roundings of its largest, for each row.
ROUNDINGS = 10


def general_condition(a: Any) -> float:
    """Return the condition of a square matrix, infinite for a singular one.

    0 for a matrix that is not finite or has no entries: nothing is known there.

    Examples
    --------
    >>> import numpy as np
    >>> general_condition(np.diag([1.0, 1e-9])), general_condition(np.ones((2, 2)))
    (1.0, inf)
    >>> bool(1e9 < general_condition(np.array([[1, 1], [1, 1 + 1e-9]])) < 1e10)
    True
    """
    a = _to_double(a)
    if a is None:
        return 0.0
    a = _equilibrate(a)
    getrf, gecon = _get_lapack("getrf", of=a), _get_lapack("gecon", of=a)
    factor, _, failed = getrf(a)
    return np.inf if failed else _invert(gecon(factor, _one_norm(a))[0])


def definite_condition(a: Any) -> float:
    """Return the condition of the positive definite matrix in a lower triangle.

    Whether rounding lets Cholesky's factor through makes no difference: where it does
    not, the condition is infinite. 0 for a matrix that is clearly not definite: it has
    no factor, and that is no matter of digits.

    Examples
    --------
    >>> import numpy as np
    >>> definite_condition(np.ones((3, 3)))
    inf
    >>> definite_condition(np.array([[1.0, 2.0], [2.0, 1.0]]))  # eigenvalues 3 and -1
    0.0
    """
    a = _to_double(a)
    if a is None:
        return 0.0
    a = np.tril(a) + np.tril(a, -1).conj().T
    diagonal = np.diagonal(a).real
    if not (diagonal > 0).all():
        return 0.0 if (diagonal < 0).any() else np.inf
    root = np.sqrt(diagonal)
    a = a / root / root[:, None]
    potrf, pocon = _get_lapack("potrf", of=a), _get_lapack("pocon", of=a)
    factor, failed = potrf(a, lower=1)
    if not failed:
        return _invert(pocon(factor, _one_norm(a), uplo="L")[0])
    values = np.linalg.eigvalsh(a)
    noise = ROUNDINGS * len(a) * np.finfo(float).eps * values[-1]
    return np.inf if values[0] > -noise else 0.0


def triangular_condition(a: Any, lower: bool, unit: bool = False) -> float:
    """Return the condition of a triangular matrix; ``unit``: its diagonal is 1.

    Examples
    --------
    >>> import numpy as np
    >>> triangular_condition(np.array([[1.0, 1.0], [9.0, 0.0]]), lower=False)
    inf
    """
    a = _to_double(np.tril(a) if lower else np.triu(a))
    if a is None:
        return 0.0
    if unit:
        np.fill_diagonal(a, 1)
    if not np.diagonal(a).all():
        return np.inf
    a = _equilibrate(a)
    trtrs = _get_lapack("trtrs", of=a)
    solve = lambda x: trtrs(a, x, lower=lower)[0]  # noqa: E731
    solve_adjoint = lambda x: trtrs(a, x, lower=lower, trans=2)[0]  # noqa: E731
    return _one_norm(a) * inverse_norm(solve, solve_adjoint, len(a))


def banded_condition(ab: Any, lower: int, upper: int) -> float:
    """Return the condition of a banded matrix, from its diagonals.

    Examples
    --------
    >>> import numpy as np
    >>> banded_condition(np.array([[0, 1.0], [2, 2], [1, 0]]), 1, 1)  # [[2, 1], [1, 2]]
    3.0
    """
    ab = _to_double(ab)
    if ab is None:
        return 0.0
    rows, n = ab.shape
    # Entry (i, j) of the matrix stands in row upper + i - j of the band.
    i = np.arange(rows)[:, None] - upper + np.arange(n)
    inside = (i >= 0) & (i < n)
    ab, i = np.where(inside, ab, 0), np.clip(i, 0, n - 1)
    largest = np.zeros(n)
    np.maximum.at(largest, i, np.abs(ab))
    ab = ab / np.where(largest == 0, 1, largest)[i]
    columns = np.abs(ab).max(axis=0)
    ab = ab / np.where(columns == 0, 1, columns)
    gbtrf, gbtrs = _get_lapack("gbtrf", of=ab), _get_lapack("gbtrs", of=ab)
    room = np.concatenate([np.zeros_like(ab, shape=(lower, n)), ab])
    factor, swaps, failed = gbtrf(room, lower, upper)
    if failed:
        return np.inf
    solve = lambda x: gbtrs(factor, lower, upper, x, swaps)[0]  # noqa: E731
    solve_adjoint = lambda x: gbtrs(factor, lower, upper, x, swaps, trans=2)[0]  # noqa: E731
    return _one_norm(ab) * inverse_norm(solve, solve_adjoint, n)


def truncated_condition(a: Any, limit: float) -> float:
    """Return the condition of the part of a matrix that least squares uses.

    Singular values up to ``limit`` times the largest count as 0 there. Where there is
    none, unknowns (of a wide matrix equations) are scaled, which changes no digits.

    Examples
    --------
    >>> import numpy as np
    >>> round(truncated_condition(np.ones((3, 2)), 1e-15))
    1
    """
    a = _to_double(a)
    if a is None:
        return 0.0
    values = np.linalg.svd(a, compute_uv=False)
    kept = values[values > limit * values[0]] if limit else values
    if not kept.size or not values[0]:
        return 0.0
    if kept.size == min(a.shape):
        tall = a if a.shape[1] <= a.shape[0] else a.T
        kept = np.linalg.svd(_scale_columns(tall), compute_uv=False)
    return _invert(kept[-1] / kept[0])


def inverse_norm(
    solve: Callable[[Any], Any], solve_adjoint: Callable[[Any], Any], n: int
) -> float:
    """Return about the 1-norm of an inverse, known by its solutions alone.

    ``back`` solves with the conjugate transpose. Hager's estimate, as LAPACK has it.

    Examples
    --------
    >>> import numpy as np
    >>> inverse = np.array([[1.0, -4.0], [0.0, 2.0]])
    >>> inverse_norm(lambda x: inverse @ x, lambda x: inverse.T @ x, 2)
    6.0
    """
    x, found, place = np.full(n, 1 / n), 0.0, -1
    for _ in range(5):
        y = solve(x)
        size = float(np.abs(y).sum())
        if not np.isfinite(size):
            return np.inf
        if size <= found:
            break
        found = size
        turned = np.abs(y)
        z = np.abs(
            solve_adjoint(
                np.where(turned == 0, 1, y / np.where(turned == 0, 1, turned))
            )
        )
        best = int(np.argmax(z))
        if best == place or (place >= 0 and z[best] <= z[place]):
            break
        place, x = best, np.zeros(n)
        x[best] = 1
    # A vector that no cancellation hides from (Higham, algorithm 15.5).
    signs = (-1.0) ** np.arange(n) * (1 + np.arange(n) / max(n - 1, 1))
    return max(found, 2 * float(np.abs(solve(signs)).sum()) / (3 * n))


def _to_double(a: Any) -> Any:
    """Return a matrix in double, a copy; None if not finite, or empty."""
    a = np.array(a, complex if np.iscomplexobj(a) else float)
    return a if a.size and np.isfinite(a).all() else None


def _equilibrate(a: Any) -> Any:
    """Return a matrix with rows, then columns, scaled to largest entries of 1."""
    largest = np.abs(a).max(axis=1, keepdims=True)
    return _scale_columns(a / np.where(largest == 0, 1, largest))


def _scale_columns(a: Any) -> Any:
    largest = np.abs(a).max(axis=0)
    return a / np.where(largest == 0, 1, largest)


def _one_norm(a: Any) -> float:
    return float(np.abs(a).sum(axis=0).max())


def _invert(reciprocal: Any) -> float:
    return 1 / float(reciprocal) if reciprocal > 0 else np.inf


def _get_lapack(name: str, of: Any) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, (of,))


# The condition that counts for each op.


class MatrixCheck(NamedTuple):
    """The conditions of an op's matrices: ``measure(node, *args)`` returns them."""

    measure: Callable[..., Any]
    #: Whether adding a multiple of the identity is a fix.
    shift: bool = False
    #: Whether the result has the relative error of a product, however large that is.
    exact: bool = False
    #: The call that leaves out what rounding makes, where there is one, and the names
    #: of its operands.
    truncated: tuple[str, ...] = ()


def _map_stack(find: Callable[..., float], *stacks: Any) -> Any:
    """Return the condition of each matrix of a stack."""
    loop = stacks[0].shape[:-2]
    flat = [np.reshape(x, (-1, *x.shape[-2:])) for x in stacks]
    found = [find(*rows) for rows in zip(*flat, strict=True)]
    return np.reshape(np.array(found, float), loop)


def _general_conditions(node: Tensor, a: Any, *_: Any) -> Any:
    return _map_stack(general_condition, a)


def _definite_conditions(node: Tensor, a: Any) -> Any:
    return _map_stack(definite_condition, a)


def _triangular_conditions(node: Tensor, a: Any, b: Any) -> Any:
    lower, unit = node.params["lower"], node.params["unit"]
    find = lambda x: triangular_condition(x, lower, unit)  # noqa: E731
    return _map_stack(find, a)


def _banded_conditions(node: Tensor, ab: Any, b: Any) -> Any:
    return _map_stack(lambda x: banded_condition(x, **node.params), ab)


def _truncated_conditions(node: Tensor, a: Any, *_: Any) -> Any:
    limit = node.params.get("rcond")
    if limit is None or limit < 0:
        eps = float(np.finfo(_result_dtype(a)).eps)
        limit = eps * max(a.shape[-2:])
    return _map_stack(lambda x: truncated_condition(x, float(limit)), a)


def _pseudoinverse_conditions(node: Tensor, a: Any) -> Any:
    """Return the conditions of a pseudoinverse, which has NumPy's own limit."""
    if node.params.get("rcond") is None:
        return _map_stack(lambda x: truncated_condition(x, 1e-15), a)
    return _truncated_conditions(node, a)


def _lu_conditions(node: Tensor, a: Any) -> Any:
    """Return conditions for LU: the derivative divides by a square matrix's factors."""
    whole = a.shape[-1] == a.shape[-2]
    return _general_conditions(node, a) if whole else np.zeros(a.shape[:-2])


def _qr_conditions(node: Tensor, a: Any, **_: Any) -> Any:
    """Return conditions for QR: the derivative divides by R, or its first columns."""
    count = min(a.shape[-2:])
    return _map_stack(lambda x: truncated_condition(x, 0), a[..., :count])


def _eigenvector_conditions(node: Tensor, a: Any) -> Any:
    """Return the conditions of the eigenvectors (Bauer and Fike's theorem)."""
    values = node._value
    v = values[1] if isinstance(values, tuple) else np.linalg.eig(a)[1]
    return _map_stack(general_condition, v)


def _sylvester_conditions(node: Tensor, a: Any, b: Any, q: Any) -> Any:
    return _map_stack(_sylvester_condition, a, b)


def _sylvester_condition(a: Any, b: Any) -> float:
    from scipy.linalg import solve_sylvester

    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return 0.0
    shape = len(a), len(b)

    def solve(x: Any, a: Any = a, b: Any = b) -> Any:
        return np.ravel(solve_sylvester(a, b, np.reshape(x, shape)))

    def solve_adjoint(x: Any) -> Any:
        return solve(x, np.conj(swap(a)), np.conj(swap(b)))

    norm = np.abs(a).sum(axis=0).max() + np.abs(b).sum(axis=1).max()
    return float(norm) * inverse_norm(solve, solve_adjoint, math.prod(shape))


def _sparse_conditions(node: Tensor, data: Any, b: Any) -> Any:
    pattern = node.params["pattern"]
    if not isinstance(data, np.ndarray) or not np.isfinite(data).all():
        return np.zeros(())
    matrix = pattern.matrix(data).tocsc()
    solve = lambda x: node.op.compute(data, x, **node.params)  # noqa: E731
    turned = {**node.params, "transposed": not node.params["transposed"]}
    solve_adjoint = lambda x: node.op.compute(data, x.conj(), **turned).conj()  # noqa: E731
    columns = abs(matrix).sum(axis=int(node.params["transposed"]))
    n = matrix.shape[0]
    return np.array(float(columns.max()) * inverse_norm(solve, solve_adjoint, n))


def _function_conditions(node: Tensor, *args: Any) -> Any:
    """Return the factor by which a function of a matrix multiplies its relative change.

    It is the norm of the derivative, by two steps of the power method.
    """
    a, y, op = value_of(node.args[0]), node._value, node.op
    pull: Any = op.pull
    push: Any = op.push
    if pull is None or push is None:
        return np.zeros(())
    if not (np.isfinite(a).all() and np.isfinite(y).all()) or not measure_norm(y)[0]:
        return np.zeros(())
    norm = 0.0
    change: Any = np.ones_like(a)
    for _ in range(2):
        moved = push((change / measure_norm(change)[0],), y, (a,), node.params)
        change = pull(1, moved / measure_norm(moved)[0], y, (a,), node.params)[0]
        norm = max(norm, measure_norm(moved)[0], measure_norm(change)[0])
        if not 0 < norm < math.inf:
            return np.zeros(())
    return np.array(norm * measure_norm(a)[0] / measure_norm(y)[0])


#: How a condition is measured, by its name (`Traits.condition`).
CONDITIONS: dict[str, MatrixCheck] = {
    "banded": MatrixCheck(_banded_conditions),
    "columns": MatrixCheck(_qr_conditions),
    "definite": MatrixCheck(_definite_conditions, shift=True),
    "determinant": MatrixCheck(_general_conditions, shift=True, exact=True),
    "eigenvectors": MatrixCheck(_eigenvector_conditions),
    "factors": MatrixCheck(_lu_conditions),
    "function": MatrixCheck(_function_conditions),
    "general": MatrixCheck(_general_conditions, shift=True),
    "least squares": MatrixCheck(
        _truncated_conditions,
        truncated=("np.linalg.lstsq({{0}}, {{1}}, rcond={limit})[0]", "A", "b"),
    ),
    "pseudoinverse": MatrixCheck(
        _pseudoinverse_conditions,
        truncated=("np.linalg.pinv({{0}}, rcond={limit})", "A"),
    ),
    "sparse": MatrixCheck(_sparse_conditions),
    "sylvester": MatrixCheck(_sylvester_conditions),
    "triangular": MatrixCheck(_triangular_conditions),
}


def find_singular_matrices(case: Case) -> Iterator[Finding]:
    """Yield a finding for each matrix that leaves too few digits."""
    blamed: set[int] = set()
    for node in case.nodes:
        found = diagnose_matrix(case, node)
        if found is not None:
            if not _is_blamed_factor(node, blamed):
                yield found
            blamed.add(node.serial)
        elif case.depth < DEPTH and _has_conditioned_op(node):
            yield from _find_inside(case, node)


def diagnose_matrix(case: Case, node: Tensor) -> Finding | None:
    """Return the finding for one node, if its matrix is nearly singular.

    Its value need not be known: the op may have raised an error.
    """
    row = CONDITIONS.get(node.op.traits.condition)
    if row is None:
        return None
    args = [value_of(a) for a in (node.args or node.inputs)]
    if not all(isinstance(a, np.ndarray) for a in args):
        return None
    try:
        found = np.asarray(row.measure(node, *args))
    except (ArithmeticError, ValueError, TypeError):
        return None  # LAPACK itself fails
    dtype = _result_dtype(*args)
    eps = float(np.finfo(dtype).eps)
    bad = found * eps > LOST
    return _make_finding(case, node, dtype, found, bad) if bad.any() else None


def _has_conditioned_op(node: Tensor) -> bool:
    """Return whether a node contains an op that depends on a condition number."""
    return node.op.graphs is not None and any(
        x.op.traits.condition for x in with_inner_nodes([node], ruled=True)
    )


def _find_inside(case: Case, node: Tensor) -> Iterator[Finding]:
    """Yield a finding for the first matrix inside a node that leaves too few digits."""
    for made, where, prefix in record_inside(node):
        outputs = [y for y in made if isinstance(y, Tensor) and y.inputs]
        sub = Case("what is inside", outputs, [], [], depth=case.depth + 1)
        for found in find_singular_matrices(sub):
            yield lift_finding(case, node, found, where, prefix)
            return


def _result_dtype(*args: Any) -> Any:
    dtype = np.result_type(*args)
    return dtype if dtype.kind in "fc" else np.dtype(float)


def _is_blamed_factor(node: Tensor, blamed: set[int]) -> bool:
    """Return whether the matrix is a factor of one that was blamed already."""
    stack = [x for x in node.inputs[:1] if isinstance(x, Tensor)]
    while stack:
        x = stack.pop()
        if x.serial in blamed:
            return True
        if x.op.pull is not None and x.op.reads == ():  # it is linear
            stack += [a for a in x.inputs if isinstance(a, Tensor)]
    return False


def _make_finding(
    case: Case, node: Tensor, dtype: Any, found: Any, bad: Any
) -> Finding:
    eps = float(np.finfo(dtype).eps)
    worst = np.unravel_index(int(np.argmax(found)), found.shape)
    condition = float(found[worst])
    left = max(0, round(-math.log10(eps * condition))) if condition < 1 / eps else 0
    have = round(-math.log10(eps))
    what = "Its matrix"
    if found.shape:
        place = format_index([int(i) for i in worst])
        what = f"{int(bad.sum()):,} of its {found.size:,} matrices: matrix{place}"
    text = f"{condition:.2g}" if condition < 1 / eps else f"more than {1 / eps:.2g}"
    digits = f"about {left} are left" if left else "none is left"
    real = np.finfo(dtype).dtype
    exact = CONDITIONS[node.op.traits.condition].exact
    return Finding(
        "singular-matrix",
        "error" if condition * eps > WRONG and not exact else "warning",
        node,
        "forward",
        f"{case.name_node(node)}: its matrix is nearly singular",
        f"{what} has condition {text}; of the {have} digits of {real} {digits}.",
        "A rounding of the matrix changes the result by as much times the"
        " condition, and a gradient by more."
        + (" Rounding decides whether it succeeds at all." if not left else ""),
        _make_fix(node, dtype),
    )


def _make_fix(node: Tensor, dtype: Any) -> Fix | None:
    row = CONDITIONS[node.op.traits.condition]
    narrow = np.finfo(dtype).eps > 1e-10
    if row.shift:
        a = np.abs(np.diagonal(value_of(node.inputs[0]), axis1=-2, axis2=-1))
        scale = float(a.max()) if a.size else 1.0
        power = round(math.log10(scale)) if 0 < scale < math.inf else 0
        small = f"1e{power - (3 if narrow else 8)}"
        code = spell(node, f"{{0}} + {small} * np.eye({{0}}.shape[-1])", "K")
        return Fix(
            "add a small multiple of the identity: the matrix is nearly singular",
            code,
            edit=edit_operand(node, 0, code),
        )
    limit = "1e-3" if narrow else "1e-8"
    text = "leave out the directions that rounding makes"
    if row.truncated:
        line, *names = row.truncated
        return Fix(text, spell(node, line.format(limit=limit), *names))
    if narrow:
        return widen_operand(node)
    return None
