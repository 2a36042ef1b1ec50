"""A part of an array as a picture: an image, a line, its change, its history.

The page draws few cells, whatever the size of the array: those of a matrix stand for
the entry of largest magnitude of a block, those of a line for the lowest and the
highest one. A past run is computed again from its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.autodiff.linear_map import Block
from workbench.checks import statistics
from workbench.checks.progress import Progress
from workbench.checks.statistics import to_host
from workbench.core import types
from workbench.errors import UsageError
from workbench.session.matrix import PooledView
from workbench.session.wire.moments import choose_evenly
from workbench.session.wire.protocol.messages import (
    ArrayData,
    ArrayHistoryData,
    ArrayQuantity,
    ArrayTime,
)
from workbench.session.wire.timeline import to_numbers

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]
#: An index along each axis; None for all of an axis.
Index = tuple[int | None, ...]

#: The most cells of an image along each side, and those of a line.
MOST_CELLS, MOST_POINTS = 64, 256
#: A part of more entries is not drawn.
MOST_ENTRIES = 2**24
#: So many past runs have a histogram, each of so many bins.
MOST_RUNS, BINS = 24, 32


def encode_array(
    session: Session,
    node: int,
    quantity: ArrayQuantity,
    index: Sequence[int | None],
    against: ArrayTime | None = None,
) -> ArrayData:
    """Return a part of a node's value or gradient in few cells.

    Parameters
    ----------
    session
        The session, at the run that is shown.
    node
        The id of the node.
    quantity
        ``"value"`` or ``"gradient"``.
    index
        An index along each of the first axes, as in NumPy; None for all of an axis. Of
        more than two axes that are left, the first ones are at 0.
    against
        The run that is subtracted: ``"first"`` or ``"last"`` of the kept ones before.

    Raises
    ------
    UsageError
        If there is no such array, part, or run.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones((2, 3))))
    >>> values = [session.run(x=np.full((2, 3), k)) for k in (3.0, 2.0)]
    >>> found = encode_array(session, 0, "gradient", [1], "last")
    >>> found["index"], found["values"], found["against"]
    ([1, None], [[-2.0, -2.0, -2.0]], 1)
    """
    whole = find_array(session, node, quantity)
    chosen = complete_index(np.shape(whole), index)
    part, step = take_part(whole, chosen), None
    if against is not None:
        step = find_run_before(session, against)
        before = find_array(session.find_view(step), node, quantity)
        with np.errstate(all="ignore"):
            # Of small integers and booleans the difference is none of their own.
            part = part * 1.0 - take_part(before, chosen)
    cells, block = pool_cells(part)
    return ArrayData(
        node=node,
        quantity=quantity,
        shape=[*np.shape(whole)],
        index=[*chosen],
        is_complex=np.iscomplexobj(part),
        block=block,
        values=[to_numbers(row) for row in cells],
        against=step,
    )


def list_array_history(
    session: Session,
    node: int,
    quantity: ArrayQuantity,
    index: Sequence[int | None],
    progress: Progress | None = None,
) -> ArrayHistoryData:
    """Return a histogram of a part of an array at kept runs, the oldest first.

    Raises
    ------
    UsageError
        If there is no such array or part, or no run is kept.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    >>> values = [session.run(x=np.array([0.0, k])) for k in (3.0, 2.0)]
    >>> found = list_array_history(session, 0, "value", [])
    >>> found["steps"], [one["high"] for one in found["histograms"]]
    ([1, 2], [3.0, 2.0])
    """
    chosen = complete_index(np.shape(find_array(session, node, quantity)), index)
    kept = session.timeline.inputs.steps
    if not kept:
        raise UsageError(
            f"{session.name} has not run yet: there is no history of its arrays."
            f" {session.name}.run(...) makes one."
        )
    steps = [kept[k] for k in choose_evenly(len(kept), MOST_RUNS)]
    found = []
    for k, step in enumerate(steps):
        if progress is not None and progress(k, len(steps)):
            raise KeyboardInterrupt
        view = session.at(step)  # looked at once: none of the views is given up for it
        part = take_part(find_array(view, node, quantity), chosen)
        found.append(statistics.distribution(part, BINS))
    there = [(s, one) for s, one in zip(steps, found, strict=True) if one is not None]
    return ArrayHistoryData(
        node=node,
        quantity=quantity,
        index=[*chosen],
        steps=[step for step, _ in there],
        histograms=[one for _, one in there],
    )


def find_array(session: Session, node: int, quantity: ArrayQuantity) -> Any:
    """Return a node's value or gradient.

    Raises
    ------
    UsageError
        If there is no such node, or what it has is no array of numbers.
    """
    i = session.nodes.find(node)
    state, label = session._state, session.nodes.labels[i]
    if quantity == "value":
        found = state.forward.graph.nodes[i]._value
    else:
        backward = state.backward
        found = None if backward is None else backward.cotangents.get(i)
    if found is None:
        raise UsageError(f"{label} has no {quantity} at this run: nothing to draw.")
    dtype = types.spec_of(found).dtype
    if isinstance(found, tuple) or dtype is None or dtype.kind not in "biufc":
        raise UsageError(f"the {quantity} of {label} is no array of numbers.")
    return found


def complete_index(shape: tuple[int, ...], index: Sequence[int | None]) -> Index:
    """Return an index along each axis, so that at most two axes are left whole.

    >>> complete_index((5, 4, 3), []), complete_index((5, 4, 3), [None, 2])
    ((0, None, None), (None, 2, None))

    Raises
    ------
    UsageError
        If the index is none of the array.
    """
    if len(index) > len(shape):
        raise UsageError(
            f"{len(index)} indices for an array of shape {shape}: give at most"
            f" {len(shape)}."
        )
    given = [*index, *[None] * (len(shape) - len(index))]
    for axis, (at, size) in enumerate(zip(given, shape, strict=True)):
        if at is not None and not 0 <= at < size:
            raise UsageError(
                f"index {at} is out of axis {axis} of an array of shape {shape}: take"
                f" one from 0 to {size - 1}."
            )
    surplus = sum(at is None for at in given) - 2
    for axis, at in enumerate(given):
        if surplus > 0 and at is None and shape[axis] > 0:
            given[axis] = 0
            surplus -= 1
    return tuple(given)


def take_part(array: Any, index: Index) -> Array:
    """Return a part of an array, in main memory.

    Raises
    ------
    UsageError
        If it has more entries than are drawn.
    """
    part = array
    if index:
        part = array[tuple(slice(None) if at is None else at for at in index)]
    size = int(np.prod(np.shape(part), dtype=np.int64))
    if size > MOST_ENTRIES:
        raise UsageError(
            f"{size:,} entries are too many for a picture, which shows up to"
            f" {MOST_ENTRIES:,}: choose a row or a column."
        )
    return to_host(part)


def find_run_before(session: Session, time: ArrayTime) -> int:
    """Return the first kept run, or the last one before the run that is shown.

    Raises
    ------
    UsageError
        If none is kept.
    """
    inputs = session.timeline.inputs
    before = [step for step in inputs.steps if step < session.timeline.count]
    if not before:
        why = f": {inputs.refusal}" if inputs.refusal else ""
        raise UsageError(f"no run before this one is kept{why}. There is no change.")
    return before[0 if time == "first" else -1]


def pool_cells(part: Array) -> tuple[Array, list[int]]:
    """Return the rows of cells of a part, and the entries of a cell each way.

    A matrix has the entry of largest magnitude of each block; a line its entries, or,
    where it is long, a row of the lowest and one of the highest of each block. Complex
    numbers are drawn by their magnitudes.

    >>> pool_cells(np.array([3.0, -4.0]))
    (array([[ 3., -4.]]), [1, 1])
    """
    with np.errstate(all="ignore"):
        numbers = np.abs(part) if part.dtype.kind == "c" else part
        numbers = numbers.astype(np.float64)
    if numbers.ndim < 2:
        return _pool_line(numbers.reshape(-1))
    edges, block = [], []
    for size in numbers.shape:
        block.append(max(1, -(-size // MOST_CELLS)))
        edges.append([*range(0, size, block[-1]), size])
    if numbers.size == 0:
        return np.zeros((0, 0)), block[:2]
    rows, columns = edges
    return PooledView(rows, columns, [Block(0, 0, numbers)]).values, block


def _pool_line(numbers: Array) -> tuple[Array, list[int]]:
    block = max(1, -(-len(numbers) // MOST_POINTS))
    if block == 1:
        return numbers[None], [1, 1]
    starts = range(0, len(numbers), block)
    # A NaN is the result of both, so that it stays to be seen.
    ends = [reduce.reduceat(numbers, starts) for reduce in (np.minimum, np.maximum)]
    return np.stack(ends), [1, block]
