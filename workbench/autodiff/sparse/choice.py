"""The settings of a sparse derivative, and the choice of a way to compute the matrix.

A matrix is dense or sparse by what a call of either costs, and finding the pattern. A
sparse one has its entries computed one by one where every op allows it, and else read
from products with the seeds of a colouring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff.linear_map import NO_RULE, LinearMap, count_made
from workbench.autodiff.sparse.accumulation import accumulate
from workbench.autodiff.sparse.colouring import Colouring, colour
from workbench.autodiff.sparse.pattern import FORMATS, SparsityPattern
from workbench.autodiff.sparse.sparsity import BY_VALUES
from workbench.core.blame import format_count
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError, UsageError

#: With ``sparse="auto"``: a sparse matrix has at most this share of entries.
MOST_DENSE = 0.25
#: What a call of a prepared matrix costs, in entries of a program that are computed
#: (about 0.2 ns each): to make a sparse array, to read one entry of it from the
#: products. And what it costs before: to find where an op leads, and for each entry its
#: place and its colour. A matrix is taken to be asked for so many times.
MAKE, READ, FIND_OP, FIND_ENTRY, CALLS = 40_000, 10, 250_000, 750, 100


#: What the compressed modes are called in `jacobian`.
COLOURING_MODES = {"auto": "auto", "fwd": "columns", "rev": "rows"}


class Settings(NamedTuple):
    """How a sparse derivative is asked for.

    Attributes
    ----------
    name
        ``"jacobian"`` or ``"hessian"``, for errors.
    sparse
        True, ``"auto"``, or a pattern.
    format
        Of the result: ``"csr"``, ``"csc"`` or ``"coo"``.
    colouring
        The mode of the colouring, or a colouring of the pattern.
    check
        Look for entries outside of a pattern that was given.
    explain
        Print how it is computed, and why, once it is prepared.
    backend
        What runs the program, as `workbench.compile` takes it.
    """

    name: Literal["jacobian", "hessian"]
    sparse: Any
    format: str = "csr"
    colouring: Any = "auto"
    check: bool = True
    explain: bool = False
    backend: str | None = "auto"


def check_settings(
    name: Literal["jacobian", "hessian"], sparse: Any, options: dict[str, Any]
) -> Settings:
    """Take the settings of a sparse derivative out of options, and check them.

    Raises
    ------
    UsageError
        If one is not known, or does not fit.
    """
    known = Settings._fields[2:]
    given = {key: options.pop(key) for key in known if key in options}
    settings = Settings(name, sparse, **given)
    if isinstance(sparse, str) and sparse != "auto":
        raise UsageError(
            f"{name}: sparse={sparse!r}. Write sparse=True, sparse='auto' (where it"
            " pays), or give a pattern: a wb.SparsityPattern or a sparse array."
        )
    if not isinstance(sparse, (str, bool)):
        settings = settings._replace(sparse=SparsityPattern.from_scipy(sparse))
    elif isinstance(settings.colouring, Colouring):
        settings = settings._replace(sparse=settings.colouring.pattern)
    if settings.format not in FORMATS:
        raise UsageError(
            f"{name}: format={settings.format!r}. Write one of"
            f" {', '.join(map(repr, FORMATS))}."
        )
    used = getattr(settings.colouring, "mode", settings.colouring)
    if name == "jacobian" and used == "star":
        raise UsageError(
            f"jacobian: a colouring {used!r} is for symmetric matrices, and a Jacobian"
            " need not be one. Write colouring='auto', 'columns', 'rows' or 'both'."
        )
    if isinstance(settings.colouring, Colouring) and (
        not isinstance(settings.sparse, SparsityPattern)
        or settings.colouring.pattern != settings.sparse
    ):
        raise UsageError(
            f"{name}: the colouring is one of another pattern. Give its own with it:"
            " sparse=colouring.pattern, colouring=colouring."
        )
    return settings


def find_pattern(
    linear: LinearMap, cost: Any = None, wrt: Sequence[Tensor] = ()
) -> SparsityPattern:
    """Return the pattern of a Jacobian; given a number, that of its Hessian.

    The pattern of a Hessian follows from the program of the number itself.
    """
    from workbench.autodiff.sparse import propagation

    if cost is None:
        return propagation.find_jacobian_pattern(linear.outputs, linear.wrt)
    return propagation.find_hessian_pattern(cost, wrt)


def check_shape(pattern: SparsityPattern, shape: tuple[int, int], name: str) -> None:
    """Raise if a pattern is not one of a matrix of this shape."""
    if pattern.shape != shape:
        raise ShapeError(
            f"{name}: the pattern is of shape {pattern.shape}, and the matrix has"
            f" {shape[0]} rows (entries of the outputs) and {shape[1]} columns (entries"
            " of what is differentiated by). Give a pattern of shape"
            f" {shape}."
        )


def try_accumulation(
    linear: LinearMap, pattern: SparsityPattern, settings: Settings
) -> Any | None:
    """Return the entries where each can be computed by itself; else None.

    It is not tried where a colouring was asked for, nor where a dense matrix is better.
    """
    if settings.colouring != "auto":
        return None
    if settings.sparse == "auto" and pattern.density > MOST_DENSE:
        return None
    return accumulate(linear, pattern, settings.format)


def choose_colouring(
    linear: LinearMap, pattern: SparsityPattern, settings: Settings, is_late: bool
) -> Callable[[], Colouring]:
    """Return a function that gives the requested colouring.

    Where none was, and an override or an op that a user has made has no forward
    rule, rows are coloured: that takes reverse mode alone.

    Parameters
    ----------
    linear
        The derivative.
    pattern
        Its places.
    settings
        How it is asked for.
    is_late
        Whether to colour only when somebody looks: no product is computed.

    Raises
    ------
    UsageError
        If it is one for symmetric matrices, and the Hessian need not be one.
    """
    used = getattr(settings.colouring, "mode", settings.colouring)
    is_complex = any(x.dtype.kind == "c" for x in linear.wrt)
    # Then it need not be symmetric, nor, by complex numbers, the same in reverse mode.
    refused = ("rows", "both", "star") if is_complex else ("star",)
    is_bent = is_complex or linear.rules or any(op.is_own for op in pattern.dense_ops)
    if settings.name == "hessian" and is_bent and used in refused:
        raise UsageError(
            f"hessian: a colouring {used!r} is for a matrix that is symmetric, which it"
            " need not be by complex numbers, with overrides, or where an op has a rule"
            " of its own. Write colouring='columns'."
        )
    if isinstance(settings.colouring, Colouring):
        return partial(_keep, settings.colouring)
    if settings.sparse == "auto" and pattern.density > MOST_DENSE:
        # A dense matrix it will be (see `judge`), so that a colour each is enough.
        own = np.arange(pattern.shape[1], dtype=np.int32)  # host array: colours
        return partial(_keep, Colouring(pattern, "columns", "natural", own))
    is_open = settings.colouring == "auto"
    is_hessian = settings.name == "hessian"
    mode = "columns" if is_hessian and is_open and is_complex else settings.colouring
    symmetric = is_hessian and is_open and not is_bent
    if is_late and not (symmetric and pattern != pattern.T):
        return cache(partial(colour, pattern, mode, symmetric=symmetric))
    chosen = colour(pattern, mode, symmetric=symmetric)
    if mode == "auto" and not symmetric and chosen.column_count:
        try:
            nothing = np.zeros((1, pattern.shape[1]))  # host array: a seed
            linear.multiply("forward", nothing)
        except NO_RULE:
            chosen = colour(pattern, "rows")
    return partial(_keep, chosen)


def _keep(colouring: Colouring) -> Colouring:
    return colouring


class Costs(NamedTuple):
    """The costs of a matrix, in entries of the program that are computed.

    Attributes
    ----------
    dense
        A call of the dense matrix.
    sparse
        A call of the sparse one.
    preparing
        To find its pattern and its colours.
    """

    dense: int
    sparse: int
    preparing: int


#: What a matrix costs whose entries are computed one by one, in products: they are
#: found and added up beside the values of the program.
ACCUMULATED = 2


def estimate_costs(
    linear: LinearMap, pattern: SparsityPattern, colouring: Colouring | None
) -> Costs:
    """Return the costs of a derivative as a dense and as a sparse matrix.

    A product runs through all entries of the program, one with the transpose twice.
    """
    height, width = pattern.shape
    ops = Graph(linear.wrt, linear.outputs).interior
    work = sum(count_made(x) for x in ops)
    products = ACCUMULATED
    if colouring is not None:
        products = colouring.column_count + 2 * colouring.row_count
    return Costs(
        min(width, 2 * height) * work + height * width,
        products * work + READ * pattern.nnz + MAKE,
        FIND_OP * len(ops) + FIND_ENTRY * pattern.nnz,
    )


def judge(
    linear: LinearMap, pattern: SparsityPattern, colouring: Colouring | None
) -> tuple[bool, str]:
    """Return whether a dense matrix is better, and why or why not.

    Without a colouring each entry is computed by itself.
    """
    height, width = pattern.shape
    if linear.rules:
        return True, "Dense: overrides may move entries."
    if BY_VALUES in pattern.notes:
        return True, (
            "Dense: the program decides something by values, so its pattern is not the"
            " same at other arguments."
        )
    if pattern.density > MOST_DENSE:
        return True, (
            f"Dense: {100 * pattern.density:.0f} % of the entries can differ from zero,"
            f" and a sparse array pays below {100 * MOST_DENSE:.0f} %."
        )
    costs = estimate_costs(linear, pattern, colouring)
    least = min(pattern.shape)
    entries = format_count(pattern.nnz, "entry")
    work = entries if colouring is None else format_count(colouring.count, "product")
    full = f"the {least} products of a dense one"
    if costs.sparse > costs.dense:
        return True, (
            f"Dense: it is small. {work} and a sparse array cost about"
            f" {costs.sparse / max(costs.dense, 1):.2g} times as much as {full}."
        )
    gain = costs.dense - costs.sparse
    found = "pattern" if colouring is None else "pattern and colours"
    if costs.preparing > CALLS * gain:
        return True, (
            f"Dense: to find {found} costs as much as {work} in the place of {full}"
            f" save in {costs.preparing / max(gain, 1):,.0f} calls; it pays up to"
            f" {CALLS}."
        )
    pays = max(1, round(costs.preparing / max(gain, 1)))
    instead = f"{work} in the place of {least}, and " if colouring is not None else ""
    return False, (
        f"Sparse: {instead}{entries} in the place of {height * width:,}. A call costs"
        f" about 1/{costs.dense / costs.sparse:,.0f} of a dense one; to find {found}"
        f" pays from {format_count(pays, 'call')} on."
    )
