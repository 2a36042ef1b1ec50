"""On a cluster of two worker processes: what is gained, and what sending costs.

Two workers against one process on one core by the clock, which says something on two
quiet cores alone; the processor seconds of all processes against those of one, which
says something anywhere. A step of a training stands beside what users write by hand:
the loss chunk by chunk over Dask's delayed values and over joblib's processes, the
slope by autograd. The scheduler is simulated for many workers with the costs that were
measured, and pieces as the driver chooses them.
"""

from __future__ import annotations

import heapq
import os
import pickle
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks import harness

NAME = "distributed"
TITLE = "On a Dask cluster of two workers"
GOAL = (
    "two workers ≥ 1.7 × one process for a gradient, ≥ 1.6 × for a Jacobian; 100,000"
    " nodes out and in ≤ 1.5 s; the scheduler ≤ 10 % of the time at 1,000 workers"
)
#: Seconds of one process that the shared work takes.
WORK = 10.0
STEPS = 3


def loss(w: Any, X: Any, y: Any) -> Any:
    """A small network on each row, so heavy that the data are little beside it."""
    h = np.tanh(X @ w)
    for _ in range(20):
        h = np.tanh(h @ w[: w.shape[1]])
    return np.mean((np.sum(h, axis=1) - y) ** 2)


def step_by_hand(w: Any, X: Any, y: Any) -> Any:
    """The slope of a chunk by autograd, times its rows: what users write."""
    anp = import_module("autograd.numpy")
    grad = import_module("autograd").grad

    def f(w: Any) -> Any:
        h = anp.tanh(anp.dot(X, w))
        for _ in range(20):
            h = anp.tanh(anp.dot(h, w[: w.shape[1]]))
        return anp.mean((anp.sum(h, axis=1) - y) ** 2)

    return len(X) * grad(f)(w)


def heavy(x: Any) -> Any:
    """A function whose Jacobian is dense."""
    A = np.cos(np.arange(x.shape[0] ** 2.0)).reshape(x.shape[0], -1) / 10
    for _ in range(40):
        x = x + 0.05 * (A @ np.tanh(x) - x)
    return x


def least(run: Callable[[], Any], rounds: int = STEPS) -> float:
    """Return the least seconds by the clock."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def least_on_all_cores(run: Callable[[], Any]) -> float:
    """Return the least seconds where all cores share the kernels of one process."""
    os.environ["WORKBENCH_THREADS"] = str(os.cpu_count())
    try:
        return least(run)
    finally:
        del os.environ["WORKBENCH_THREADS"]


def read_cpu(client: Any) -> float:
    """Return the processor seconds of this process and of all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def do_nothing(program: Any, shared: Any, piece: Any) -> Any:
    """Return the piece."""
    return piece


def measure_travel() -> dict[str, float]:
    """Return what it takes to send a program of 100,000 nodes."""
    import workbench as wb

    def f(x: Any) -> Any:
        for _ in range(33_000):
            x = np.sin(x) * 0.5 + x
        return x

    graph = wb.trace(f)(wb.Spec((4,), float))
    begin = time.process_time()
    data = pickle.dumps(graph)
    middle = time.process_time()
    pickle.loads(data)
    end = time.process_time()
    return {
        "nodes": len(graph), "bytes per node": len(data) / len(graph),
        "seconds out": middle - begin, "seconds in": end - middle,
    }  # fmt: skip


def measure_pieces(client: Any) -> dict[str, float]:
    """Return what a piece costs that does nothing."""
    from workbench.distributed.pieces import run_pieces

    count = 500
    run_pieces(client, do_nothing, range(20), name="warm")
    cpu, begin = time.process_time(), time.perf_counter()
    run_pieces(client, do_nothing, range(count), name="empty")
    return {
        "seconds per piece": (time.perf_counter() - begin) / count,
        # A local cluster's scheduler lives in this process, as the client does.
        "processor seconds per task": (time.process_time() - cpu) / count,
    }


def measure_gradient(client: Any, work: float) -> dict[str, Any]:
    """Return a step over chunks beside one process, and beside what is by hand."""
    import dask
    import dask.array as da

    import workbench as wb
    import workbench.distributed as wd

    rng = np.random.default_rng(0)
    w = rng.normal(size=(64, 64)) / 8
    rows = 2_000
    compiled = wb.compile(wb.value_and_grad(loss))
    X, y = rng.normal(size=(rows, 64)), rng.normal(size=rows)
    compiled(w, X, y)
    compiled.wait()
    rows = int(rows * max(1.0, work / least(lambda: compiled(w, X, y))))
    rows = min(rows, 400_000)  # 200 MB
    X, y = rng.normal(size=(rows, 64)), rng.normal(size=rows)
    compiled(w, X, y)
    compiled.wait()
    cpu = time.process_time()
    alone = least(lambda: compiled(w, X, y))
    cpu = (time.process_time() - cpu) / STEPS
    both = least_on_all_cores(lambda: compiled(w, X, y))
    size = -(-rows // 8)
    dX, dy = (client.persist(da.from_array(a, chunks=(size, *a.shape[1:])))
              for a in (X, y))  # fmt: skip
    slope = wd.value_and_grad(loss)
    begin = time.perf_counter()
    _, g = slope(w, dX, dy)
    first = time.perf_counter() - begin
    truth = compiled(w, X, y)
    assert np.allclose(g, truth[1], rtol=1e-8, atol=1e-12)
    before = read_cpu(client)
    shared = least(lambda: slope(w, dX, dy))
    spent = (read_cpu(client) - before) / STEPS
    found = {
        "rows": rows, "chunks": 8, "one process": alone, "on both cores": both,
        "two workers": shared,
        "times as fast": alone / shared, "first call": first,
        "processor seconds, of one process": spent / cpu,
        "bytes sent per step": 2 * w.nbytes + 8 * w.nbytes,
    }  # fmt: skip
    try:
        import_module("autograd")
    except ImportError:
        return found
    parts = [*zip(dX.to_delayed().ravel(), dy.to_delayed().ravel(), strict=True)]

    def by_hand() -> Any:
        made = [dask.delayed(step_by_hand)(w, *part) for part in parts]
        return sum(client.gather(client.compute(made))) / rows

    assert np.allclose(by_hand(), g, rtol=1e-8, atol=1e-12)
    found["by hand, Dask and autograd"] = least(by_hand)
    joblib = import_module("joblib")
    pieces = [slice(a, a + size) for a in range(0, rows, size)]
    with joblib.Parallel(n_jobs=2) as pool:

        def by_joblib() -> Any:
            return sum(
                pool(joblib.delayed(step_by_hand)(w, X[s], y[s]) for s in pieces)
            )

        by_joblib()
        found["by hand, joblib and autograd"] = least(by_joblib)
    return found


def measure_jacobian(work: float) -> dict[str, Any]:
    """Return a dense Jacobian of a heavy function beside one process."""
    import workbench as wb
    import workbench.distributed as wd

    n = 200 if work < 5 else 2_000
    x = np.linspace(-1, 1, n)
    here = wb.compile(wb.jacobian(heavy))
    here(x)
    here.wait()
    alone = least(lambda: here(x))
    both = least_on_all_cores(lambda: here(x))
    there = wd.jacobian(heavy, pieces=4)
    truth = there(x)
    assert np.allclose(truth, here(x), rtol=1e-9, atol=1e-12)
    shared = least(lambda: there(x))
    return {
        "unknowns": n, "one process": alone, "on both cores": both,
        "two workers": shared,
        "times as fast": alone / shared,
    }  # fmt: skip


def simulate(workers: int, work: float, per_task: float) -> dict[str, float]:
    """Return the efficiency of many workers behind one scheduler.

    It serves one task at a time; a worker holds one more than it runs.
    """
    from workbench.distributed.pieces import choose_count

    tasks = choose_count(work, workers)
    cost = work / tasks
    free, end = 0.0, 0.0
    ready = [(0.0, k) for k in range(workers)] * 2
    heapq.heapify(ready)
    busy = [0.0] * workers
    for _ in range(tasks):
        asked, k = heapq.heappop(ready)
        free = max(free, asked) + per_task
        busy[k] = max(free + 2e-3, busy[k]) + cost
        end = max(end, busy[k])
        heapq.heappush(ready, (busy[k], k))
    return {
        "workers": workers, "pieces": tasks, "efficiency": work / (workers * end),
        "scheduler": tasks * per_task / end,
    }  # fmt: skip


def run(keep: bool, work: float = WORK) -> None:
    """Measure, print and keep; ``work`` is less for a try."""
    distributed = import_module("distributed")
    if hasattr(os, "sched_setaffinity"):  # the harness keeps to one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    results: dict[str, Any] = {"goal": GOAL, "travel": measure_travel()}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        results["pieces"] = measure_pieces(client)
        results["gradient"] = measure_gradient(client, work)
        results["jacobian"] = measure_jacobian(work)
    per_task = results["pieces"]["processor seconds per task"]
    results["simulated"] = [
        simulate(n, 200.0 * n, per_task) for n in (2, 10, 100, 1_000)
    ]
    print(TITLE)
    for part, found in results.items():
        rows = found if isinstance(found, list) else [found]
        for row in rows:
            told = row if isinstance(row, str) else ", ".join(
                f"{name} {x:.4g}" for name, x in row.items()
            )  # fmt: skip
            print(f"  {part}: {told}")
    if keep:
        harness.save(NAME, TITLE, results)
