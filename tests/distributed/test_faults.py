"""What a computation survives on a cluster, and what it says where it cannot."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import dask.array as da
import distributed
import numpy as np
import pytest

import workbench.distributed as wd
from tests.chunks import generator
from workbench.distributed import pieces, programs
from workbench.errors import ClusterError

long = pytest.mark.long


def nap(program: Any, shared: Any, piece: Any) -> Any:
    time.sleep(0.3)
    return piece + (shared[0][0] if shared else 0)


def run(client: Any, function: Any, count: int, **settings: Any) -> list[Any]:
    return list(
        pieces.run_pieces(client, function, range(count), name="test", **settings)
    )


def kill_later(pids: Any, seconds: float = 0.7) -> None:
    def kill() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    threading.Timer(seconds, kill).start()


def test_a_worker_is_killed(client: Any) -> None:
    """What it had is computed again; nothing else changes."""
    kill_later([next(iter(client.run(os.getpid).values()))])
    assert run(client, nap, 12) == [*range(12)]


@long
def test_a_worker_is_killed_under_a_gradient(client: Any) -> None:
    X = generator("killed").normal(size=(60, 3))
    split = da.from_array(X, chunks=(6, 3)).map_blocks(slowly, dtype=float)
    f = wd.value_and_grad(lambda w, X: np.mean(np.sin(X @ w)))
    w = np.ones(3)
    first = f(w, split)
    kill_later([next(iter(client.run(os.getpid).values()))], 0.2)
    again = wd.value_and_grad(lambda w, X: np.mean(np.sin(X @ w)))(w, split)
    assert again[0] == first[0]
    assert np.array_equal(again[1], first[1])


def slowly(x: Any) -> Any:
    time.sleep(0.2)
    return x


@long
def test_all_workers_are_killed_with_everything_that_was_sent(
    client: Any, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "IN_TASK", 0)  # scattered: nobody else holds it
    kill_later([nanny.pid for nanny in local.workers.values()])
    assert run(client, nap, 10, shared=[np.array([5])]) == [*range(5, 15)]


def end_worker(program: Any, shared: Any, piece: Any) -> Any:
    os._exit(9)


def fill_memory(program: Any, shared: Any, piece: Any) -> Any:
    held = np.ones(2**27)
    time.sleep(60)
    return held[0]


@long
def test_a_piece_that_ends_its_worker_is_named() -> None:
    """It exits, or it takes more memory than there is."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, memory_limit="600MB",
            dashboard_address=":0", silence_logs=logging.CRITICAL,
        ) as made,
        distributed.Client(made) as client,
    ):  # fmt: skip
        with pytest.raises(ClusterError, match=r"piece 0 .* likely cause.*smaller"):
            run(client, end_worker, 1, describe=lambda i: f"piece {i}")
        with pytest.raises(ClusterError, match=r"piece 0 .* 2 times .* little memory"):
            run(client, fill_memory, 1, describe=lambda i: f"piece {i}")


@long
def test_the_scheduler_is_closed() -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as made:  # fmt: skip
        client = distributed.Client(made)
        threading.Timer(1.0, lambda: made.sync(made.scheduler.close)).start()
        begin = time.perf_counter()
        with pytest.raises(ClusterError, match=r"the scheduler is gone \(\d+ of 100"):
            run(client, nap, 100)
        assert time.perf_counter() - begin < 30
        client.close(timeout=1)


def test_no_worker_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PATIENCE", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        distributed.Client(empty) as client,
        pytest.raises(ClusterError, match=r"no worker for 1 seconds.*scale\(4\)"),
    ):
        run(client, nap, 2)


def test_an_interrupt_leaves_nothing_behind(client: Any) -> None:
    threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        run(client, nap, 200)
    assert time.perf_counter() - begin < 20
    wait_until(lambda: not any(client.processing().values()))


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_progress_stops_it(client: Any) -> None:
    seen = []

    def stop(done: int, count: int) -> bool:
        seen.append(done)
        return done > 1

    with pytest.raises(KeyboardInterrupt):
        run(client, nap, 50, progress=stop)
    assert seen[-1] < 50


def no_file(program: Any, shared: Any, piece: Any) -> Any:
    raise FileNotFoundError("weights.npy")


def test_an_error_of_the_user_is_raised_as_it_is(client: Any) -> None:
    """An OSError is no lost connection."""
    with pytest.raises(FileNotFoundError, match=r"weights\.npy") as found:
        run(client, no_file, 2, describe=lambda i: f"piece {i}")
    assert found.value.__notes__[0].startswith("Raised on a worker, in piece ")


def test_another_version_is_refused(client: Any, monkeypatch: Any) -> None:
    def answers(found: Any) -> Any:
        return SimpleNamespace(run=lambda *_, **__: {"tcp://there": found})

    with pytest.raises(
        ClusterError, match=r"has Workbench 0\.0\.1 and Python 3\.11, h"
    ):
        programs.check_workers(answers(("0.0.1", "3.11")))
    with pytest.raises(ClusterError, match=r"has no Workbench \(.*pip install"):
        programs.check_workers(answers(("ImportError('no')", "")))
    programs.check_workers(client)


@long
def test_a_worker_without_the_package_says_so(client: Any) -> None:
    def hide() -> None:
        sys.modules["workbench"] = None  # type: ignore[assignment]

    client.run(hide)
    try:
        programs.CHECKED.pop(client, None)
        with pytest.raises(ClusterError, match="has no Workbench"):
            programs.find_client(client)
    finally:
        client.restart(timeout=120)
