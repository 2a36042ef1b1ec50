"""Patterns of solutions of equations, of differential equations, and of integrals.

Where ``f(x, p) = 0`` has a square matrix ``∂f/∂x``, the derivative of the root is
``-(∂f/∂x)⁻¹ ∂f/∂p``, and the structure of the inverse follows from that of the matrix
(see `ops.sparse.structure`). So a system that falls into parts has a root that does:
examples of a batch stay apart, whatever solves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import (
    NodeFacts,
    Relations,
    full_relation,
    relate_dense,
)
from workbench.autodiff.sparse.products import MOST_PRODUCTS
from workbench.autodiff.sparse.relations import Relation, count_up, make_csr
from workbench.core.types import Spec
from workbench.ops.sparse.structure import find_inverse_structure, find_reach

#: What is said of a program that cannot be recorded without values.
BY_VALUES = "its function looks at values, so what it reads is not known"
SINGULAR = "no pattern of its equations is that of a system with one solution"
TOO_MANY = "there are too many places for the inverse of its equations"

Run = Callable[[Sequence[Any]], Sequence[Any]]


def _find_inside(node: NodeFacts, run: Run, operands: Sequence[Any]) -> Any:
    """Return one matrix for each operand: its entries that the outputs depend on."""
    found = None
    if node.find_inside is not None:
        found = node.find_inside(run, operands, range(len(operands)))
    if found is None:
        node.loose = BY_VALUES
    return found


def _stack(matrices: Sequence[Any]) -> Any:
    from scipy.sparse import hstack

    return hstack(matrices, format="csr")


def _relate_by_inverse(
    node: NodeFacts, system: Any, right: Sequence[Any]
) -> list[Relations] | None:
    """Relate solutions of ``A x = B p`` to each p; None: the structure does not tell.

    Parameters
    ----------
    system
        The structure of A.
    right
        That of each B, one for each operand.
    """
    inverse = find_inverse_structure(system, MOST_PRODUCTS)
    if inverse is None:
        node.loose = SINGULAR if system.nnz < system.shape[0] else TOO_MANY
        return None
    sizes = [math.prod(shape) for shape in node.outputs]
    ends = np.cumsum(sizes)
    rows: list[Relations] = [[] for _ in sizes]
    for matrix, varies in zip(right, node.varies, strict=True):
        made = inverse @ matrix if varies and matrix.nnz else None
        for row, end, size in zip(rows, ends, sizes, strict=True):
            if made is None:
                row.append(None)
            else:
                row.append(Relation(matrix=made[end - size : end]))
    return rows


def relate_root(node: NodeFacts) -> list[Relations] | None:
    """Relate a root to the parameters of its equation, not to its start."""
    problem, count = node.params["problem"], len(node.outputs)
    operands = node.name_operands()
    operands[len(operands) - count :] = problem.specs
    found = _find_inside(node, problem.residual, operands)
    rows = None
    if found is not None:
        start = len(operands) - count
        # Where the solver starts has no part in the derivative.
        right = [*found[:start], *[m[:0] for m in found[start:]]]
        rows = _relate_by_inverse(node, _stack(found[start:]), right)
    if rows is None:
        rows = [relate_dense(node, i) for i in range(count)]
        for row in rows:
            row[len(operands) - count :] = [None] * count
    return rows


def relate_linear_solve(node: NodeFacts) -> list[Relations] | None:
    """Relate the solution of ``A x = b`` to the parameters of A, and to b."""
    system, count = node.params["system"], len(node.outputs)
    operands = node.name_operands()
    operands[len(operands) - count :] = system.specs
    found = _find_inside(node, system.product, operands)
    if found is None:
        return None
    start = len(operands) - count
    whole = _stack(found[start:])
    each = count_up(whole.shape[0])
    unit = make_csr(each, each, whole.shape)
    ends = np.cumsum([m.shape[1] for m in found[start:]])
    right = [
        unit[:, end - m.shape[1] : end]
        for end, m in zip(ends, found[start:], strict=True)
    ]
    return _relate_by_inverse(node, whole, [*found[:start], *right])


def relate_sparse_solve(node: NodeFacts) -> Relations | None:
    """Relate the solution with a sparse matrix to its stored values, and to b."""
    pattern = node.params["pattern"]
    rows, columns = pattern.rows, pattern.columns
    if node.params["transposed"]:
        rows, columns = columns, rows
    return _relate_stored_system(node, rows, columns, count_up(len(rows)))


def relate_banded_solve(node: NodeFacts) -> Relations | None:
    """Relate the solution of a banded system to the entries of its band, and to b.

    Entry (i, j) of the matrix stands in row ``upper + i - j`` of the band.
    """
    band, n = node.shapes[0]
    places = count_up(band * n)
    row, column = np.divmod(places, max(n, 1))
    row = row + column - node.params["upper"]
    inside = (row >= 0) & (row < n)
    return _relate_stored_system(node, row[inside], column[inside], places[inside])


def _relate_stored_system(
    node: NodeFacts, rows: Any, columns: Any, places: Any
) -> Relations | None:
    """Relate the solution of a system to the entries of its matrix, and to b.

    Entry ``places[k]`` of the first operand stands in ``rows[k]``, ``columns[k]``.
    """
    from scipy.sparse import eye_array, kron

    n, *more = node.shapes[1]
    count = math.prod(more)
    system = make_csr(rows, columns, (n, n))
    inverse = find_inverse_structure(system, MOST_PRODUCTS // max(count, 1))
    if inverse is None:
        node.loose = "it is taken to read its whole matrix"
        return None
    size = math.prod(node.shapes[0])
    by_data = inverse @ make_csr(rows, places, (n, size))
    ones = np.ones((count, 1), bool)
    unit = eye_array(count, dtype=bool)
    return [
        Relation(matrix=kron(by_data, ones, format="csr")),
        Relation(matrix=kron(inverse, unit, format="csr")),
    ]


def relate_matrix_function(node: NodeFacts) -> Relations:
    """Relate a function of a sparse matrix to the values in the same part of both.

    A part are all rows that stored entries join.
    """
    from scipy.sparse.csgraph import connected_components

    pattern, wanted = node.params["pattern"], node.params["wanted"]
    n = pattern.shape[0]
    joined = make_csr(pattern.rows, pattern.columns, (n, n))
    count, labels = connected_components(joined, directed=False)
    return [Relation(labels[wanted.rows], labels[pattern.rows], count)]


def relate_integral(node: NodeFacts) -> Relations | None:
    """Relate an integral to the parameters of the integrand, and to both ends."""
    integrand = node.params["integrand"]
    *parameters, _, _ = node.name_operands()
    x = node.specs[-1]
    found = _find_inside(node, integrand.value, [*parameters, x])
    if found is None:
        return None
    inside: Relations = [
        Relation(matrix=m) if varies and m.nnz else None
        for m, varies in zip(found[:-1], node.varies, strict=False)
    ]
    ends: Relations = [
        full_relation(1, node.size) if varies else None for varies in node.varies[-2:]
    ]
    return [*inside, *ends]


def relate_states(node: NodeFacts) -> Relations | None:
    """Relate states of a differential equation to its parameters, times and start.

    What a state's rate of change reads reaches the state, and in time all that the
    states read which it reads. Row 0 is the start itself.
    """
    from scipy.sparse import csr_array, vstack

    problem = node.params["problem"]
    *parameters, _, _ = node.name_operands()
    y = node.specs[-1]
    (steps,), (n,) = node.shapes[-2], node.shapes[-1]
    time = Spec((), np.dtype(float))
    found = _find_inside(node, problem.rate, [*parameters, time, y])
    if found is None or steps == 0:
        return None
    reach = find_reach(found[-1], MOST_PRODUCTS // max(steps, 1))
    if reach is None:
        node.loose = TOO_MANY
        return None
    related: Relations = []
    for matrix, varies in zip(found[:-2], node.varies, strict=False):
        first = csr_array((n, matrix.shape[1]), dtype=bool)
        parts = [first, *[reach @ matrix] * (steps - 1)]
        related.append(Relation(matrix=vstack(parts, format="csr")) if varies else None)
    unit = make_csr(count_up(n), count_up(n), (n, n))
    whole = vstack([unit, *[reach] * (steps - 1)], format="csr")
    # A state is read off at its own time, and comes from the first one.
    later = np.arange(n, steps * n)
    places = np.tile(later, 2), np.append(later // n, np.zeros(len(later), int))
    own = make_csr(*places, (steps * n, steps))
    by_times = Relation(matrix=own) if node.varies[-2] else None
    return [*related, by_times, Relation(matrix=whole) if node.varies[-1] else None]


#: What the rows of ops say (`Op.pattern`).
RELATIONS: dict[str, Any] = {
    "root": relate_root,
    "linear solution": relate_linear_solve,
    "integral": relate_integral,
    "states": relate_states,
    "stored solution": relate_sparse_solve,
    "banded solution": relate_banded_solve,
    "stored blocks": relate_matrix_function,
}
