"""A training over Dask arrays that a session shows: its timeline, its overrides.

The session holds the program of a few rows, which stay here: their values and gradients
are what it shows of inner nodes. Each run takes the loss and the gradient of all rows
from the cluster. An override makes other programs, with the next run, for every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from workbench.checks.progress import Progress
from workbench.core import types
from workbench.core.graph import Graph
from workbench.core.trace import ArgumentNames, check_function, record
from workbench.distributed.programs import Packed, find_client, pack
from workbench.distributed.rows import (
    ChunkPrograms,
    Chunks,
    check_reduction,
    find_share,
    read_rows,
)
from workbench.errors import UsageError
from workbench.session import Session
from workbench.session.programs import Programs, Recorded
from workbench.session.stages import Values

#: The rows that a session shows, where the caller does not say.
SAMPLE = 16


class RowFunction:
    """The loss and gradient of all rows, in the form that a session runs."""

    #: What a session asks of a compiled function.
    backend, reason, has_warned = "compiled", None, True

    def __init__(self, packed: dict[int, Packed], source: RowPrograms) -> None:
        self.packed, self._source = packed, source

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the loss and the gradients for these inputs, on the cluster."""
        source = self._source
        places = source.data_places
        for i in places:
            old, new = source.sample[i], inputs[i]
            has_nan = np.asarray(old).dtype.kind in "fc"
            if new is not old and not np.array_equal(new, old, equal_nan=has_nan):
                raise UsageError(
                    "wd.session: the data of a run are those of its Dask arrays. Open"
                    " another session for other data."
                )
        rest = [i for i in range(len(inputs)) if i not in places]
        sources = [
            (True, places[i]) if i in places else (False, rest.index(i))
            for i in range(len(inputs))
        ]
        chunks = source.chunks
        programs = ChunkPrograms(self.packed, sources, [], chunks.rows.structure)
        return chunks.sum(programs, [inputs[i] for i in rest])

    def is_ready(self) -> bool:
        """Return True: the workers wait for their compiler."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Return True."""
        return True

    def release(self) -> None:
        """Do nothing: memory is the workers'."""


class RowPrograms(Programs):
    """What computes a session over Dask arrays: programs by the overrides that hold."""

    is_local = False

    def __init__(
        self,
        graphs: Mapping[int, Graph],
        chunks: Chunks,
        sample: list[Any],
        data_places: dict[int, int],
        reduce: str,
    ) -> None:
        super().__init__("compiled", lambda: None)
        self.graphs, self.chunks, self.sample = graphs, chunks, sample
        self.data_places, self.reduce = data_places, reduce

    def renew(self) -> Programs:
        """Raise: settings are a fixed part of the programs."""
        raise UsageError("wd.session: only inputs can have other values in a run.")

    def make(self, key: Hashable, record: Callable[..., Any]) -> Recorded:
        """Return the program of some overrides, for chunks of each length."""
        if key not in self._known:
            packed = {
                n: pack(
                    record(Values(g), find_share(self.reduce, n, self.chunks.rows))[0]
                )
                for n, g in self.graphs.items()
            }
            function: Any = RowFunction(packed, self)
            self._known[key] = Recorded(function, None, record()[1])
        return self._known[key]


def session(
    f: Callable[..., Any],
    *args: Any,
    wrt: Sequence[str] | None = None,
    reduce: Literal["mean", "sum"] = "mean",
    sample: int = SAMPLE,
    name: str = "ad",
    client: Any = None,
    progress: Progress | None = None,
) -> Session:
    """Return a session that takes loss and gradient from all rows of Dask arrays.

    Shown in JupyterLab (``wb.show(session)``) it is live: timeline, marks and overrides
    are those of any session, and an override that is attached while a training runs
    holds from its next step on every worker. Inner nodes show their values for the
    first rows.

    Parameters
    ----------
    f
        A function of arrays, or of nests of them, that returns one number.
    args
        Its arguments: weights, and Dask arrays that are split by the same rows.
    wrt
        The names of what is differentiated by; by default all weights of float dtype.
    reduce, client, progress
        As of :func:`workbench.distributed.value_and_grad`.
    sample
        How many of the first rows the session shows.
    name
        As of :class:`workbench.Session`.

    Returns
    -------
    A :class:`workbench.Session`; ``session.run(W=W)`` is one step over all rows.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> def loss(w, X):
    ...     return np.mean(np.tanh(X @ w) ** 2)
    >>> data = np.arange(12.0).reshape(6, 2) / 10
    >>> X = da.from_array(data, chunks=(3, 2))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     ad = wd.session(loss, np.ones(2), X)
    ...     value = ad.run(w=np.array([0.5, 0.5]))
    >>> bool(np.isclose(value, loss(np.array([0.5, 0.5]), data)))
    True
    """
    check_function(f, "wd.session")
    if reduce not in ("mean", "sum"):
        raise UsageError(
            f"wd.session: reduce={reduce!r}. Write 'mean' or 'sum': what each run adds"
            " up over the rows."
        )
    client = find_client(client)
    rows = read_rows(args, {}, "wd.session")
    check_reduction(f, rows, reduce, client, "wd.session")
    few = rows.fetch(client, slice(0, max(1, sample)))
    flat = list(rows.flat)
    for i, x in zip(rows.places, few, strict=True):
        flat[i] = np.asarray(x)
    chosen = rows.inputs
    positional, _ = rows.structure.children
    names = ArgumentNames(f, range(len(args)), positional.children, chosen)

    def trace_of(values: Sequence[Any]) -> Graph:
        def call(leaves: list[Any]) -> Any:
            filled = list(flat)
            for i, x in zip(chosen, leaves, strict=True):
                filled[i] = x
            given, named = rows.structure(filled)
            return f(*given, **named)

        return record(call, values, names)

    graphs = {}
    for n in rows.lengths:
        specs = rows.list_specs(n)
        graphs[n] = trace_of([specs[i] for i in chosen])
    values = [flat[i] for i in chosen]
    labels = [names[k] for k in range(len(chosen))]
    data = {k: rows.places.index(i) for k, i in enumerate(chosen) if i in rows.places}
    weights = [
        label for k, label in enumerate(labels)
        if k not in data and types.is_differentiable(types.spec_of(values[k]).dtype)
    ]  # fmt: skip
    made = Session(trace_of(values), wrt=weights if wrt is None else wrt, name=name)
    chunks = Chunks(client, rows, progress)
    made.compute_by(RowPrograms(graphs, chunks, values, data, reduce))
    return made
