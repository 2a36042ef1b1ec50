"""One gradient over all chunks of Dask arrays: weights go out, gradients are summed.

The loss of a chunk counts by its rows where it is a mean, and as it is where it is a
sum. That the loss of all rows is put together so is tried on the first rows, not
believed; `exact.py` takes any other loss apart where the rows end.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff import grad as derivatives
from workbench.autodiff.grad import Argnames, Argnums
from workbench.checks.progress import Progress
from workbench.core import tree, types
from workbench.core.hooks import Override
from workbench.core.trace import check_function, trace
from workbench.core.types import Spec
from workbench.distributed.pieces import Sent, drive, send_sum
from workbench.distributed.programs import (
    Packed,
    Program,
    count_workers,
    find_client,
    find_library,
    pack,
    place_array,
)
from workbench.errors import ClusterError, UsageError
from workbench.overrides.override_blocks import blocks_in_force

Reduce = Literal["mean", "sum"]

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

    def compute_blocks(self, client: Any) -> list[list[Any]]:
        """Return futures of the chunks that have rows, for each of these one list."""
        columns = [
            client.compute(list(self.flat[i].to_delayed().ravel())) for i in self.places
        ]
        return [[column[k] for column in columns] for _, k in self.counts]

    def describe(self, place: int) -> str:
        """Return which rows one of the chunks has, for errors."""
        first = sum(n for n, _ in self.counts[:place])
        return f"rows {first} to {first + self.counts[place][0]} of the Dask arrays"


class Held:
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

    def hold(x: Any) -> Any:
        return Held(x) if isinstance(x, array) else x

    held = tuple(map(hold, args)), {k: hold(x) for k, x in kwargs.items()}
    flat, structure = tree.flatten(held)
    places = [i for i, x in enumerate(flat) if isinstance(x, Held)]
    flat = [x.array if isinstance(x, Held) else x for x in flat]
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


def check_reduction(
    f: Callable[..., Any], rows: Rows, reduce: Reduce, client: Any, name: str
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
    """Return whether an argument is an input of the program, not a setting of it."""
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
    specs = list(rows.flat)
    data = {i: k for k, i in enumerate(rows.places)}
    chosen = [i for i, x in enumerate(specs) if i in data or is_input(x)]
    others = [i for i in chosen if i not in data]
    for i in others:
        specs[i] = types.spec_of(specs[i])
    packed, structure = {}, None
    for n in sorted({n for n, _ in rows.counts}):
        for i in data:
            x = rows.flat[i]
            specs[i] = Spec((n, *map(int, x.shape[1:])), x.dtype)
        args, kwargs = rows.structure(specs)
        share = find_share(reduce, n, rows)
        graph = trace(differentiate(scale_loss(f, share)))(*args, **kwargs)
        packed[n], structure = pack(graph), graph.tree
    assert structure is not None
    numbers = {i: k for k, i in enumerate(others)}
    sources = [(i in data, data[i] if i in data else numbers[i]) for i in chosen]
    return ChunkPrograms(packed, sources, others, structure)


def scale_loss(f: Callable[..., Any], share: float) -> Callable[..., Any]:
    """Return a loss times a number; it has the parameters of the loss."""
    if share == 1:
        return f

    @wraps(f)
    def scaled(*args: Any, **kwargs: Any) -> Any:
        return share * f(*args, **kwargs)

    return scaled


def pull_chunk(
    program: Program,
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


# What users call


class RowGradient:
    """The value and gradient of a loss over the rows of Dask arrays.

    Made by :func:`workbench.distributed.value_and_grad` and
    :func:`workbench.distributed.grad`; called as the loss is.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        name: str,
        reduce: str,
        client: Any,
        progress: Progress | None,
        settings: dict[str, Any],
    ) -> None:
        self.function = f
        self._name, self._reduce = name, reduce
        self._client, self._progress, self._settings = client, progress, settings
        self._key: Any = None
        self._rows: Rows | None = None
        self._programs: Any = None
        self._blocks: list[list[Any]] = []
        self._told = "It was not called yet."

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the derivative returns for all rows."""
        client = find_client(self._client)
        rows = read_rows(args, kwargs, self._name)
        self._prepare(client, rows)
        begin = time.perf_counter()
        if self._reduce == "exact":
            value, gradients, work = self._programs.run(self, client, rows)
        else:
            value, gradients, work = self._sum(client, rows)
        self._tell(client, rows, time.perf_counter() - begin, work)
        return self._nest(value, gradients)

    def _nest(self, value: Any, gradients: Any) -> Any:
        return (value, gradients) if self._name == "wd.value_and_grad" else gradients

    def _prepare(self, client: Any, rows: Rows) -> None:
        """Trace, try the loss and place the data, unless the last call has done so."""
        blocks = blocks_in_force()
        others = [
            types.spec_of(x) if is_input(x) else (type(x), x)
            for i, x in enumerate(rows.flat)
            if i not in rows.places
        ]
        arrays = [rows.flat[i].name for i in rows.places]
        key = id(client), rows.structure, arrays, others, blocks
        if self._key is not None and self._key == key:
            return
        self._key = None
        if self._reduce == "exact":
            from workbench.distributed.exact import cut_loss

            self._programs = cut_loss(self.function, rows, self._settings, client)
        else:
            reduce: Any = self._reduce
            check_reduction(self.function, rows, reduce, client, self._name)
            differentiate = partial(derivatives.value_and_grad, **self._settings)
            self._programs = trace_chunks(differentiate, self.function, reduce, rows)
        self._blocks = rows.compute_blocks(client)
        self._key = key

    def send_chunks(
        self,
        client: Any,
        rows: Rows,
        programs: ChunkPrograms,
        others: Sequence[Any],
        tries: list[int],
    ) -> list[Any]:
        """Return futures of what `pull_chunk` gives of each chunk, in their order."""
        tries.append(len(tries))
        if len(tries) > 1:  # some were lost, and nobody knows which
            self._blocks = rows.compute_blocks(client)
        placed = [place_array(client, x) for x in others]
        ready = {
            n: (
                packed.place(client),
                [place_array(client, x) for x in packed.constants],
            )
            for n, packed in programs.packed.items()
        }
        return [
            client.submit(
                pull_chunk, *ready[n], programs.sources, placed, block, pure=False,
                key=f"wb-gradient-{uuid.uuid4().hex}", retries=2,
            )
            for (n, _), block in zip(rows.counts, self._blocks, strict=True)
        ]  # fmt: skip

    def _sum(self, client: Any, rows: Rows) -> tuple[Any, Any, float]:
        programs: ChunkPrograms = self._programs
        others = [np.asarray(rows.flat[i]) if not hasattr(rows.flat[i], "dtype")
                  else rows.flat[i] for i in programs.others]  # fmt: skip
        size = sum(x.nbytes for x in others)
        tries: list[int] = []

        def send(places: list[int]) -> Sent:
            pieces = self.send_chunks(client, rows, programs, others, tries)
            return send_sum(client, "gradient", pieces, size)

        count = len(rows.counts)
        ((_, made),) = drive(client, send, count, self._progress, rows.describe)
        *outputs, seconds = made
        value, gradients = programs.tree([y[()] if y.ndim == 0 else y for y in outputs])
        return value, gradients, float(seconds)

    def _tell(self, client: Any, rows: Rows, seconds: float, work: float) -> None:
        count = count_workers(client)
        self._told = (
            f"{rows.total} rows in {len(rows.counts)} chunks; the last call took"
            f" {seconds:.3g} s, in which {count} workers computed for {work:.3g} s in"
            " all."
        )
        if work < seconds:
            self._told += (
                " Sending cost more than it gave: one process alone is faster, if the"
                " rows fit into its memory. Larger chunks make it better"
                " (x.rechunk({0: rows}))."
            )

    def explain(self) -> str:
        """Return in words what the last call cost, and whether it paid."""
        return self._told

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "f")
        return f"<{self._name} of {name} over rows, a {self._reduce}>"


def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = None,
    *,
    reduce: Literal["mean", "sum", "exact"] = "mean",
    argnames: Argnames = None,
    overrides: Sequence[Override] | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> RowGradient:
    """Return a function that gives a loss and its gradient over Dask arrays.

    As :func:`workbench.value_and_grad`, where some arguments are Dask arrays that are
    split by the same rows. Each chunk stays on its worker; weights go there, and one
    gradient comes back. The first call sends the chunks and the program; these are kept
    for the next one.

    Parameters
    ----------
    f
        A function of arrays, or of nests of them, that returns one number; it is traced
        here, on shapes alone, and the workers need nothing of its module.
    argnums, argnames
        What is differentiated by; the first argument by default. No Dask arrays.
    reduce
        How the loss of all rows is put together from that of chunks: ``"mean"``, by
        their numbers of rows, or ``"sum"``. It is tried on the first rows. ``"exact"``
        is for a loss that is neither, such as the root of a mean: what chunks compute
        is cut off where their rows end, the rest is computed here, and what flows back
        goes to the chunks in a second pass.
    overrides
        Other gradient rules for parts of ``f``; those of open blocks hold as well.
    client
        The Dask client; by default the one of the moment.
    progress
        Called with (done, all) as chunks are done; true stops, as an interrupt does.

    Returns
    -------
    A function ``(*args) -> (value, gradient)``. The digits are the same however many
    workers there are, whichever of them are lost meanwhile. ``explain()`` says what the
    last call cost.

    Raises
    ------
    ClusterError
        If the loss is not put together so, with both numbers; if the arrays are split
        otherwise; if the cluster is gone.
    KeyboardInterrupt
        If ``progress`` returns true; nothing is left on the cluster.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> def loss(w, X, y):
    ...     return np.mean((X @ w - y) ** 2)
    >>> X = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(2, 2))
    >>> y = da.from_array(np.ones(6), chunks=2)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     value, g = wd.value_and_grad(loss)(np.zeros(2), X, y)
    >>> float(value), g
    (1.0, array([-10., -12.]))
    """
    return make_gradient(
        "wd.value_and_grad", f, argnums, argnames, reduce, overrides, client, progress
    )


def grad(
    f: Callable[..., Any],
    argnums: Argnums = None,
    *,
    reduce: Literal["mean", "sum", "exact"] = "mean",
    argnames: Argnames = None,
    overrides: Sequence[Override] | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> RowGradient:
    """Return a function that gives the gradient of a loss over Dask arrays.

    As :func:`workbench.distributed.value_and_grad`, without the value.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench.distributed as wd
    >>> wd.grad(lambda w, X: np.sum(X @ w), reduce="sum")
    <wd.grad of <lambda> over rows, a sum>
    """
    return make_gradient(
        "wd.grad", f, argnums, argnames, reduce, overrides, client, progress
    )


def make_gradient(
    name: str,
    f: Callable[..., Any],
    argnums: Argnums,
    argnames: Argnames,
    reduce: str,
    overrides: Sequence[Override] | None,
    client: Any,
    progress: Progress | None,
) -> RowGradient:
    """Return the derivative that `grad` and `value_and_grad` give."""
    check_function(f, name)
    if reduce not in ("mean", "sum", "exact"):
        raise UsageError(
            f"{name}: reduce={reduce!r}. Write 'mean', 'sum', or 'exact' for a loss"
            " that is neither over rows."
        )
    settings = {"argnums": argnums, "argnames": argnames, "overrides": overrides}
    return RowGradient(f, name, reduce, client, progress, settings)
