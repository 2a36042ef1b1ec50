"""The first bad row of Dask arrays: found on its worker, explained here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.autodiff import grad as derivatives
from workbench.autodiff.grad import Argnums
from workbench.checks.doctor.diagnose import diagnose as diagnose_here
from workbench.checks.doctor.finding import Findings
from workbench.checks.progress import BUDGET, Progress
from workbench.core import tree
from workbench.core.trace import check_function
from workbench.distributed.pieces import Sent, drive
from workbench.distributed.programs import dump, find_client, place_array
from workbench.distributed.rows import Chunks, read_rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowFindings(Findings):
    """The findings about the first bad rows; empty if no row is bad.

    Attributes
    ----------
    rows
        The first and the end of the rows that were looked at, counted over all chunks:
        one row, or the fewest that are bad together. None if no row is bad.
    chunk
        The chunk in which they lie.
    """

    rows: tuple[int, int] | None = None
    chunk: int | None = None


def is_bad(run: Callable[..., Any]) -> bool:
    """Return whether a function raises or gives a value that is not finite."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            leaves = tree.flatten(run())[0]
        except Exception:
            return True
        return not all(np.all(np.isfinite(np.asarray(y))) for y in leaves)


def find_bad_rows(
    run: Callable[..., Any], others: Sequence[Any], data: Sequence[Any]
) -> tuple[int, int] | None:
    """Run on a worker: the first bad rows of a chunk, as few as are bad by themselves.

    Half of the rows, and half of these: a row is found by as many runs as its number
    has binary digits.
    """

    def bad(a: int, b: int) -> bool:
        return is_bad(lambda: run(others, [x[a:b] for x in data]))

    a, b = 0, len(data[0])
    if not bad(a, b):
        return None
    while b - a > 1:
        middle = (a + b) // 2
        if bad(a, middle):
            b = middle
        elif bad(middle, b):
            a = middle
        else:
            break  # it is in no half alone: rows that are bad together
    return a, b


@dataclass
class ChunkCall:
    """The value and gradient of a function for some rows of a call's arguments."""

    function: Callable[..., Any]
    structure: tree.Tree
    flat: list[Any]
    places: list[int]
    arrays: list[int]

    def __call__(self, others: Sequence[Any], data: Sequence[Any]) -> Any:
        """Return them, for these arrays and these rows of the Dask arrays."""
        flat = list(self.flat)
        for i, x in zip(self.arrays, others, strict=True):
            flat[i] = x
        for i, x in zip(self.places, data, strict=True):
            flat[i] = x
        args, kwargs = self.structure(flat)
        return self.function(*args, **kwargs)


def diagnose(
    f: Callable[..., Any],
    *args: Any,
    argnums: Argnums = None,
    client: Any = None,
    progress: Progress | None = None,
    budget: float | None = BUDGET,
) -> RowFindings:
    """Find the first row of Dask arrays with a bad value or gradient; explain why.

    Each chunk runs the function and its gradient where it lies. One that gives NaN or
    an infinity, or raises, halves itself until one row is left; the first such row of
    all comes here, and :func:`workbench.diagnose` names the node to blame.

    Parameters
    ----------
    f
        A function of arrays that returns one number, a mean or sum over rows or any
        other; it goes to the workers by cloudpickle.
    args
        Its arguments, of which some are Dask arrays, split by the same rows.
    argnums
        What is differentiated by; the first argument by default.
    client, progress
        As of :func:`workbench.distributed.value_and_grad`.
    budget
        As of :func:`workbench.diagnose`, for the explanation.

    Returns
    -------
    :class:`RowFindings`, with the ``rows`` and the ``chunk``; empty if all is finite.

    Raises
    ------
    ClusterError
        If the function cannot be sent, the arrays are split otherwise, or the cluster
        is gone.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> def loss(w, X):
    ...     return np.sum(np.sqrt(X @ w))
    >>> X = np.ones((100, 2))
    >>> X[77] = 0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     found = wd.diagnose(loss, np.ones(2), da.from_array(X, chunks=(30, 2)))
    >>> found.rows, found.chunk, found[0].kind, found[0].node.op.name
    ((77, 78), 2, 'infinite-slope', 'sqrt')
    """
    check_function(f, "wd.diagnose")
    client = find_client(client)
    rows = read_rows(args, {}, "wd.diagnose")
    arrays = [
        i for i, x in enumerate(rows.flat)
        if i not in rows.places and isinstance(x, np.ndarray)
    ]  # fmt: skip
    bare = [
        None if i in (*arrays, *rows.places) else x for i, x in enumerate(rows.flat)
    ]
    gradient = derivatives.value_and_grad(f, argnums)
    run = ChunkCall(gradient, rows.structure, bare, rows.places, arrays)
    name = getattr(f, "__name__", "f")
    dump(run, f"the function {name}", f)  # says what cannot be sent

    chunks = Chunks(client, rows, progress)

    def send(left: list[int]) -> Sent:
        placed = [place_array(client, rows.flat[i]) for i in arrays]
        blocks = chunks.compute_blocks()
        futures = [
            client.submit(
                partial(find_bad_rows, run), placed, blocks[k], pure=False, retries=2
            )
            for k in left
        ]
        told = dict(zip(futures, left, strict=True))
        return Sent(told, told, futures)

    count = len(rows.counts)
    found = dict(drive(client, send, count, progress, rows.describe))
    for place in range(count):
        if found[place] is not None:
            a, b = found[place]
            break
    else:
        return RowFindings((), f"{name}, {rows.total} rows in {count} chunks")
    start = sum(n for n, _ in rows.counts[:place])
    chunk = rows.counts[place][1]
    few, _ = rows.fill(rows.fetch(client, slice(start + a, start + b)))
    told = f"row {start + a}" if b == a + 1 else f"rows {start + a} to {start + b}"
    chosen: Any = 0 if argnums is None else argnums
    made = diagnose_here(f, *few, argnums=chosen, budget=budget)
    of = f"{name}, {told} (from row {a} of chunk {chunk})"
    return RowFindings(
        made.found, of, made.stopped, made.unchecked, made.budget,
        rows=(start + a, start + b), chunk=chunk,
    )  # fmt: skip
