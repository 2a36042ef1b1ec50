"""The rows of Dask arrays: their chunks, and results over the chunks.

A loss over rows is a mean or a sum of that of chunks. That it is so is tried on the
first rows, not believed. Chunks stay on their workers; each is given what a program
reads besides, and one sum of what all compute comes back.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.grad import chosen_arguments
from workbench.checks.progress import Progress
from workbench.core import tree, types
from workbench.core.trace import trace
from workbench.core.types import Spec
from workbench.distributed.pieces import Sent, drive, send_sum
from workbench.distributed.programs import (
    Packed,
    WorkerProgram,
    find_library,
    pack,
    place_array,
)
from workbench.errors import ClusterError, UsageError

# The rows of Dask arrays


class Rows(NamedTuple):
    """The arguments of a call, some of which are Dask arrays, split by rows.

    Attributes
    ----------
    flat, structure
        All leaves of the arguments, and how they nest.
    places
        Which of them are Dask arrays.
    counts
        The number of rows of each chunk that has some, and its number.
    """

    flat: list[Any]
    structure: tree.Tree
    places: list[int]
    counts: list[tuple[int, int]]

    @property
    def total(self) -> int:
        """The number of all rows."""
        return sum(n for n, _ in self.counts)

    @property
    def lengths(self) -> list[int]:
        """The numbers of rows that a chunk may have, each once."""
        return sorted({n for n, _ in self.counts})

    @property
    def inputs(self) -> list[int]:
        """The leaves that are inputs of a program; the others are settings."""
        return [i for i, x in enumerate(self.flat) if i in self.places or is_input(x)]

    @property
    def others(self) -> list[int]:
        """The leaves that are inputs of a program, without the Dask arrays."""
        return [i for i in self.inputs if i not in self.places]

    def list_specs(self, n: int) -> list[Any]:
        """Return all leaves, each input a spec, as a chunk of n rows has them."""
        specs = list(self.flat)
        for i in self.others:
            specs[i] = types.spec_of(specs[i])
        for i in self.places:
            _, *row = self.flat[i].shape
            specs[i] = Spec((n, *map(int, row)), self.flat[i].dtype)
        return specs

    def fill(self, data: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with these in the place of the Dask arrays."""
        flat = list(self.flat)
        for i, x in zip(self.places, data, strict=True):
            flat[i] = x
        args, kwargs = self.structure(flat)
        return args, kwargs

    def fetch(self, client: Any, rows: slice) -> list[Any]:
        """Return some rows of each array, here."""
        return [client.compute(self.flat[i][rows]).result() for i in self.places]

    def describe(self, place: int) -> str:
        """Return which rows one of the chunks has, for errors."""
        first = sum(n for n, _ in self.counts[:place])
        return f"rows {first} to {first + self.counts[place][0]} of the Dask arrays"


class DaskLeaf:
    """A Dask array among arguments: `tree` takes none by itself."""

    def __init__(self, array: Any) -> None:
        self.array = array


def read_rows(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Rows:
    """Return the arguments of a call, after a look at how they are split.

    Raises
    ------
    UsageError
        If none of them is a Dask array.
    ClusterError
        If they are split otherwise than by the same rows, or lengths are unknown.
    """
    array = find_library("dask.array").Array

    def wrap(x: Any) -> Any:
        return DaskLeaf(x) if isinstance(x, array) else x

    wrapped = tuple(map(wrap, args)), {k: wrap(x) for k, x in kwargs.items()}
    flat, structure = tree.flatten(wrapped)
    places = [i for i, x in enumerate(flat) if isinstance(x, DaskLeaf)]
    flat = [x.array if isinstance(x, DaskLeaf) else x for x in flat]
    if not places:
        raise UsageError(
            f"{name}: none of the arguments is a Dask array, split by rows. For arrays"
            f" that are here write wb.{name.removeprefix('wd.')}(f); or"
            " dask.array.from_array(x, chunks=(rows, -1))."
        )
    shown = ", ".join(f"{flat[i].shape} in {flat[i].chunks}" for i in places)
    if any(flat[i].ndim == 0 for i in places):
        raise ClusterError(f"{name}: a Dask array has no rows ({shown}). Compute it.")
    if any(np.isnan(n) for i in places for c in flat[i].chunks for n in c):
        raise ClusterError(
            f"{name}: the lengths of some chunks are unknown ({shown}). Write"
            " x.compute_chunk_sizes() for each of these arrays first."
        )
    split_alike = len({flat[i].chunks[0] for i in places}) == 1
    if not split_alike or any(len(c) > 1 for i in places for c in flat[i].chunks[1:]):
        raise ClusterError(
            f"{name}: the Dask arrays are split otherwise than by the same rows"
            f" ({shown}). Write x = x.rechunk({{0: rows, 1: -1}}) for each of them,"
            " with one number of rows."
        )
    lengths = flat[places[0]].chunks[0]
    counts = [(int(n), k) for k, n in enumerate(lengths) if n]
    if not counts:
        raise ClusterError(f"{name}: the Dask arrays have no rows ({shown}).")
    return Rows(flat, structure, places, counts)


def find_weights(
    f: Callable[..., Any], rows: Rows, settings: dict[str, Any], name: str
) -> tuple[list[int], tree.Tree]:
    """Return the leaves to differentiate by, and their nest.

    Raises
    ------
    UsageError
        If a Dask array is among them.
    """
    args, kwargs = rows.structure(list(range(len(rows.flat))))
    single, places = chosen_arguments(
        f, settings["argnums"], settings["argnames"], args, kwargs, name
    )
    named: Any = {**dict(enumerate(args)), **kwargs}
    chosen = named[places[0]] if single else tuple(named[p] for p in places)
    flat, nest = tree.flatten(chosen)
    for i in flat:
        if i in rows.places:
            raise UsageError(
                f"{name}: it is differentiated by the weights, and one of them is a"
                f" Dask array of shape {rows.flat[i].shape}. Give the position of the"
                " weights: argnums=1. Of a gradient by the data write"
                " X.map_blocks(wb.grad(loss), w)."
            )
    return flat, nest


def check_reduction(
    f: Callable[..., Any], rows: Rows, reduce: str, client: Any, name: str
) -> None:
    """Raise if the loss of some rows is not put together from that of their parts."""
    data = rows.fetch(client, slice(0, 8))
    n = len(data[0])
    if n < 2:
        return
    k = max(1, n // 3)

    def loss(some: slice) -> Any:
        args, kwargs = rows.fill([x[some] for x in data])
        with np.errstate(all="ignore"):
            return np.asarray(f(*args, **kwargs))

    together = loss(slice(0, n))
    if together.size != 1:
        return  # the gradient says what it needs
    first, rest = loss(slice(0, k)), loss(slice(k, n))
    part = k / n if reduce == "mean" else 1.0
    apart = part * first + (1 - part if reduce == "mean" else 1.0) * rest
    tolerance = 1e-3 if together.dtype.itemsize < 8 else 1e-6
    scale = max(abs(first), abs(rest), abs(together))
    if not np.isfinite(together) or abs(together - apart) <= tolerance * scale:
        return
    raise ClusterError(
        f"{name}: the loss of {n} rows is {float(together.real):.6g}, and put together"
        f" by reduce={reduce!r} from {k} and {n - k} of them"
        f" {float(apart.real):.6g}: it is no {reduce} over rows. Write"
        f" reduce={'sum' if reduce == 'mean' else 'mean'!r} if that is what it is; take"
        " a term of the weights alone out of a sum, and add its gradient here; or write"
        " reduce='exact', which takes a loss apart where its rows end, in two passes."
    )


# The program of a chunk


class ChunkPrograms(NamedTuple):
    """What a step runs: a program for each length of a chunk.

    Attributes
    ----------
    packed
        The programs, by the number of rows.
    sources
        For each input whether it is of the data, and its number among these or among
        the other arguments.
    others
        Which leaves of the arguments these others are.
    tree
        How the outputs nest.
    """

    packed: dict[int, Packed]
    sources: list[tuple[bool, int]]
    others: list[int]
    tree: tree.Tree


def is_input(x: Any) -> bool:
    """Return whether an argument is an input of the program, not a setting."""
    return type(x) in (float, complex) or (
        hasattr(x, "shape") and getattr(x, "dtype", np.dtype(object)).kind in "biufc"
    )


def find_share(reduce: str, n: int, rows: Rows) -> float:
    """Return how much the loss of so many rows counts in that of all."""
    return n / rows.total if reduce == "mean" else 1.0


def trace_chunks(
    differentiate: Callable[[Callable[..., Any]], Callable[..., Any]],
    f: Callable[..., Any],
    reduce: str,
    rows: Rows,
) -> ChunkPrograms:
    """Return the programs of a derivative for chunks of all lengths that there are.

    The loss of a chunk is multiplied by its share before it is differentiated: so a
    rule that is not linear, one that clips, sees what it would see of all rows.
    """
    packed, structure = {}, None
    for n in rows.lengths:
        args, kwargs = rows.structure(rows.list_specs(n))
        share = find_share(reduce, n, rows)
        graph = trace(differentiate(scale_loss(f, share)))(*args, **kwargs)
        packed[n], structure = pack(graph), graph.tree
    assert structure is not None
    numbers = {i: (True, k) for k, i in enumerate(rows.places)}
    numbers |= {i: (False, k) for k, i in enumerate(rows.others)}
    sources = [numbers[i] for i in rows.inputs]
    return ChunkPrograms(packed, sources, rows.others, structure)


def scale_loss(f: Callable[..., Any], share: float) -> Callable[..., Any]:
    """Return a loss times a number, with the parameters of the loss."""
    if share == 1:
        return f

    @wraps(f)
    def scaled(*args: Any, **kwargs: Any) -> Any:
        return share * f(*args, **kwargs)

    return scaled


def pull_chunk(
    program: WorkerProgram,
    constants: Sequence[Any],
    sources: Sequence[tuple[bool, int]],
    others: Sequence[Any],
    data: Sequence[Any],
) -> list[Any]:
    """Run on a worker: the outputs of the program of one chunk, and the seconds."""
    begin = time.perf_counter()
    inputs = [data[k] if of_data else others[k] for of_data, k in sources]
    made = [np.array(y) for y in program.run([*constants, *inputs])]
    return [*made, np.array(time.perf_counter() - begin)]


class Chunks:
    """The chunks of Dask arrays on a cluster, and sums over the chunks.

    Attributes
    ----------
    work
        The seconds that workers have computed, all together, since it was set to 0.
    """

    def __init__(self, client: Any, rows: Rows, progress: Progress | None) -> None:
        self.client, self.rows, self.progress = client, rows, progress
        self.work = 0.0
        self._blocks = self.compute_blocks()

    def compute_blocks(self) -> list[list[Any]]:
        """Return futures of the chunks that have rows, for each of these one list."""
        rows = self.rows
        columns = [
            self.client.compute(list(rows.flat[i].to_delayed().ravel()))
            for i in rows.places
        ]
        return [[column[k] for column in columns] for _, k in rows.counts]

    def sum(
        self,
        programs: ChunkPrograms,
        others: Sequence[Any],
        joins: Sequence[str] | None = None,
    ) -> list[Any]:
        """Return the outputs of a program for all chunks, put together in their order.

        Parameters
        ----------
        others
            What the program reads besides the data.
        joins
            How each output is put together; by default all are summed.
        """
        client, counts = self.client, self.rows.counts
        size = sum(np.asarray(x).nbytes for x in others)
        is_again = False

        def send(places: list[int]) -> Sent:
            nonlocal is_again
            if is_again:  # some were lost, and which ones is unknown
                self._blocks = self.compute_blocks()
            is_again = True
            placed = [place_array(client, x) for x in others]
            ready = {
                n: (one.place(client), [place_array(client, x) for x in one.constants])
                for n, one in programs.packed.items()
            }
            pieces = [
                client.submit(
                    pull_chunk, *ready[n], programs.sources, placed, block, pure=False,
                    key=f"wb-gradient-{uuid.uuid4().hex}", retries=2,
                )
                for (n, _), block in zip(counts, self._blocks, strict=True)
            ]  # fmt: skip
            names = None if joins is None else [*joins, "sum"]
            return send_sum(client, "gradient", pieces, size, names)

        ((_, made),) = drive(
            client, send, len(counts), self.progress, self.rows.describe
        )
        *outputs, seconds = made
        self.work += float(seconds)
        return [y[()] if y.ndim == 0 else y for y in outputs]
