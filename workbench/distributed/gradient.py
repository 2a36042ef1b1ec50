"""One gradient over all chunks of Dask arrays: weights go out, gradients are summed.

The loss of a chunk counts by its rows where it is a mean, and as it is where it is a
sum; `exact.py` takes any other loss apart where the rows end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from workbench.autodiff import grad as derivatives
from workbench.autodiff.grad import Argnames, Argnums
from workbench.checks.progress import Progress
from workbench.core import types
from workbench.core.hooks import Override
from workbench.core.trace import check_function
from workbench.distributed.exact import cut_loss
from workbench.distributed.programs import count_workers, find_client
from workbench.distributed.rows import (
    Chunks,
    Rows,
    check_reduction,
    find_weights,
    is_input,
    read_rows,
    trace_chunks,
)
from workbench.errors import UsageError
from workbench.overrides.override_blocks import blocks_in_force

#: The types of settings that are the same where they are equal.
SETTINGS = (bool, int, float, complex, str, bytes, type(None))


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
        self._held: list[Any] = []
        self._client, self._progress, self._settings = client, progress, settings
        self._key: Any = None
        self._programs: Any = None
        self._chunks: Any = None
        self._told = "It was not called yet."

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the derivative returns for all rows."""
        client = find_client(self._client)
        rows = read_rows(args, kwargs, self._name)
        self._prepare(client, rows)
        begin, self._chunks.work = time.perf_counter(), 0.0
        others = [rows.flat[i] for i in self._programs.others]
        if self._reduce == "exact":
            value, gradients = self._programs.run(self._chunks, others)
        else:
            made = self._chunks.sum(self._programs, others)
            value, gradients = self._programs.tree(made)
        self._tell(client, rows, time.perf_counter() - begin)
        return (value, gradients) if self._name == "wd.value_and_grad" else gradients

    def _prepare(self, client: Any, rows: Rows) -> None:
        """Trace, try the loss and place the data, unless the last call has done so."""
        others = [x for i, x in enumerate(rows.flat) if i not in rows.places]
        # What is no array is a constant of the program: another object, another one.
        told = [
            types.spec_of(x) if is_input(x)
            else (type(x), x if type(x) in SETTINGS else id(x))
            for x in others
        ]  # fmt: skip
        arrays = [rows.flat[i].name for i in rows.places]
        key = id(client), rows.structure, arrays, told, blocks_in_force()
        if self._key is not None and self._key == key:
            return
        self._key = None
        find_weights(self.function, rows, self._settings, self._name)
        if self._reduce == "exact":
            self._programs = cut_loss(self.function, rows, self._settings, client)
        else:
            check_reduction(self.function, rows, self._reduce, client, self._name)
            self._programs = trace_chunks(
                partial(derivatives.value_and_grad, **self._settings),
                self.function, self._reduce, rows,
            )  # fmt: skip
        self._chunks = Chunks(client, rows, self._progress)
        self._key = key
        self._held = [x for x in others if not is_input(x)]  # whose ids stay theirs

    def _tell(self, client: Any, rows: Rows, seconds: float) -> None:
        work = self._chunks.work
        self._told = (
            f"{rows.total} rows in {len(rows.counts)} chunks; the last call took"
            f" {seconds:.3g} s, in which {count_workers(client)} workers computed for"
            f" {work:.3g} s in all."
        )
        if work < seconds:
            self._told += (
                " Sending cost more than it gave: one process alone is faster, if the"
                " rows fit into its memory. Larger chunks make it better"
                " (x.rechunk({0: rows}))."
            )

    def explain(self) -> str:
        """Return the cost of the last call, and its benefit, in words."""
        return self._told

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "f")
        return f"<{self._name} of {name} over rows, reduce={self._reduce!r}>"


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
    <wd.grad of <lambda> over rows, reduce='sum'>
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
