"""Differences of a heavy function, its entries shared out."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.gradient_check import check_grads as check_here
from workbench.checks.gradient_check import measure_report
from workbench.checks.progress import Progress
from workbench.checks.report import Report
from workbench.core import tree
from workbench.core.trace import check_function, is_float
from workbench.distributed.pieces import choose_count, run_pieces
from workbench.distributed.programs import count_workers, dump, find_client
from workbench.overrides.override_blocks import blocks_in_force

#: About so many runs of the function tell the slope by one entry.
RUNS = 40


def check_grads(
    f: Callable[..., Any],
    args: Any = (),
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    entries: int = 64,
    seed: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
    budget: float | None = None,
    pieces: int | None = None,
) -> Report:
    """Compare the derivatives of a heavy function with differences, entries shared out.

    As :func:`workbench.check_grads`, whose report this is. Of a function that takes a
    second the check takes minutes, nearly all of it in runs of the function: these go
    to the workers. One that takes little is checked here.

    Parameters
    ----------
    f
        A function of arrays; it goes to the workers by cloudpickle.
    args, order, modes, rtol, atol, entries, seed
        As of :func:`workbench.check_grads`.
    client, progress, pieces
        As of :func:`workbench.distributed.jacobian`.
    budget
        The seconds that each piece may take; None: no limit.

    Raises
    ------
    GradientError
        If an entry is off, as `workbench.check_grads` does.
    ClusterError
        If the function cannot be sent, or the cluster is gone.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench.distributed as wd
    >>> from dask.distributed import Client
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     report = wd.check_grads(lambda x: np.sum(x**3), np.ones(4), pieces=2)
    >>> report.ok, len(report.comparisons[0].entries)
    (True, 4)
    """
    check_function(f, "wd.check_grads")
    client = find_client(client)
    args = args if isinstance(args, tuple) else (args,)
    sizes = [min(np.size(x), entries) for x in tree.flatten(args)[0] if is_float(x)]
    if pieces is None and sizes:
        begin = time.perf_counter()
        with np.errstate(all="ignore"):
            f(*args)
        seconds = (time.perf_counter() - begin) * RUNS * sum(sizes) * order
        pieces = choose_count(seconds, count_workers(client))
    count = min(pieces or 1, max(sizes, default=1))
    if count <= 1 or blocks_in_force():  # blocks are of this process
        return check_here(
            f, args, order, modes, rtol=rtol, atol=atol, entries=entries, seed=seed,
            progress=progress, budget=budget,
        )  # fmt: skip
    if seed is None:
        seed = int(np.random.default_rng().integers(2**31))
    told = f, args, order, tuple(modes), rtol, atol, entries, seed
    name = getattr(f, "__name__", "f")
    data = dump(told, f"the function {name}", f)
    found = run_pieces(
        client, check_share, [(k, count, budget) for k in range(count)],
        shared=[data], name="check", progress=progress,
        describe=lambda i: f"every entry {i} of {count} of the check",
    )  # fmt: skip
    return join_reports(found).raise_if_wrong()


def check_share(program: None, shared: Sequence[Any], piece: Any) -> Report:
    """Run on a worker: the report of a share of the entries."""
    first, step, budget = piece
    f, args, order, modes, rtol, atol, entries, seed = pickle.loads(shared[0])
    return measure_report(
        f, args, order, modes, rtol, atol, entries, seed, None, budget,
        slice(first, None, step),
    )  # fmt: skip


def join_reports(reports: Sequence[Report]) -> Report:
    """Return one report of several of the same comparisons, each of other entries."""
    made = reports[0]
    for i, row in enumerate(made.comparisons):
        same = [r.comparisons[i] for r in reports if i < len(r.comparisons)]
        row.entries[:] = sorted(
            (e for c in same for e in c.entries), key=lambda e: e.index
        )
    wrong = next((r for r in reports if not r.ok), made)
    return replace(
        made,
        stopped=any(r.stopped for r in reports),
        unchecked=[one for r in reports for one in r.unchecked],
        nodes=wrong.nodes, labels=wrong.labels, blamed=wrong.blamed,
    )  # fmt: skip
