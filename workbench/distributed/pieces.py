"""The driver: pieces of one computation, sent, counted, repeated, gathered, cancelled.

Nothing else in this room waits for the scheduler. What is lost with a worker Dask
computes again; data that cannot be computed again, arrays that were only scattered, is
sent again with the pieces that are left. A computation ends with its results, with the
user's own error, or with a `ClusterError` that says what became of the cluster.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.progress import Progress
from workbench.distributed.programs import (
    WorkerProgram,
    check_workers,
    find_library,
    place_array,
)
from workbench.errors import ClusterError

#: How often lost data is sent again before the computation is given up.
RESENDS = 3
#: Seconds without any worker until a computation is given up.
PATIENCE = 60.0
#: The scheduler takes so many seconds for a task, on a machine that has more to do; a
#: piece is long enough that it is idle nine tenths of the time.
PER_TASK = 1.3e-3
#: The least seconds of a piece.
LEAST = 0.2
#: The most pieces for each thread of a worker.
MOST_EACH = 8
#: Below so many seconds in all, sending costs more than it gives.
WORTHWHILE = 2.0


def choose_count(seconds: float, workers: int) -> int:
    """Return into how many pieces to cut work that takes so long on one worker.

    Two or more for each, so that none waits long for the last, unless the scheduler
    would be busy with more than a tenth of the time: then fewer than there are workers.
    One, that is none, where the cluster does not pay.

    Examples
    --------
    >>> choose_count(1.0, 4), choose_count(100.0, 4)
    (1, 32)
    >>> choose_count(1e5, 1000), choose_count(10.0, 1000)
    (7692, 27)
    """
    if seconds < WORTHWHILE:
        return 1
    least = max(LEAST, 10 * PER_TASK * workers)
    # So many pieces, each on a worker of its own, keep the scheduler busy for a tenth.
    alone = int((seconds / (10 * PER_TASK)) ** 0.5)
    count = max(int(seconds / least), min(2 * workers, alone))
    return min(MOST_EACH * workers, count)


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """Return the first and last of parts of one width; the last may be shorter.

    Examples
    --------
    >>> split(10, 3)
    [(0, 4), (4, 8), (8, 10)]
    """
    width = ceil(count / max(1, min(parts, count)))
    return [(a, min(a + width, count)) for a in range(0, count, width)]


class Sent(NamedTuple):
    """The tasks of one attempt."""

    #: Those that are counted, each with the place of its piece.
    counted: dict[Any, int]
    #: Those whose results come here, with the places that these are yielded with.
    wanted: dict[Any, int]
    #: All that is to be cancelled if the attempt fails.
    everything: list[Any]


#: Sends the pieces at these places.
Send = Callable[[list[int]], Sent]


def run_pieces(
    client: Any,
    function: Callable[..., Any],
    pieces: Sequence[Any],
    program: Any = None,
    shared: Sequence[Any] = (),
    *,
    name: str,
    progress: Progress | None = None,
    describe: Callable[[int], str] = str,
) -> list[Any]:
    """Return ``function(program, shared, piece)`` of each piece, in their order.

    Parameters
    ----------
    program
        What `pack` has made; a worker gets the `WorkerProgram`.
    shared
        Arrays that all pieces read; the constants of the program come before them.
    name
        What Dask's dashboard shows: ``"jacobian"``.
    describe
        The piece at a place in words, for errors.
    """

    def send(places: list[int]) -> Sent:
        # Sending may fail too: the worker that was to hold it has just died.
        arrays = [*(program.constants if program is not None else ()), *shared]
        placed = [place_array(client, x) for x in arrays]
        futures = client.map(
            run_piece, [pieces[i] for i in places], pure=False, retries=2,
            key=f"wb-{name}-{uuid.uuid4().hex}", function=function,
            program=None if program is None else program.place(client), shared=placed,
        )  # fmt: skip
        told = dict(zip(futures, places, strict=True))
        return Sent(told, told, futures)

    found = dict(drive(client, send, len(pieces), progress, describe))
    return [found[i] for i in range(len(pieces))]


def run_piece(piece: Any, function: Any, program: WorkerProgram, shared: Any) -> Any:
    """Run on a worker: one piece."""
    return function(program, shared, piece)


def drive(
    client: Any,
    send: Send,
    total: int,
    progress: Progress | None,
    describe: Callable[[int], str],
) -> Iterator[tuple[int, Any]]:
    """Yield the results with their places, as they arrive; send lost pieces again.

    Raises
    ------
    ClusterError
        If the scheduler is gone, no worker is left, data is lost again and again, or
        a piece ends its workers.
    KeyboardInterrupt
        If ``progress`` returns true. All is cancelled, as by an interrupt.
    Exception
        What a piece has raised, with a note that names it.
    """
    library = find_library()
    lost = find_losses()
    left = dict.fromkeys(range(total))
    sent = Sent({}, {}, [])
    resent = 0
    watch = Watch(client)
    done = False
    try:
        while not done:
            try:
                sent = send([*left])
                watch.futures = sent.everything
                open_ones = len(sent.wanted)
                waiting = library.as_completed({**sent.counted, **sent.wanted})
                for batch in waiting.batches():
                    for future in batch:
                        if future.status == "error":
                            future.result()  # raises what the worker has raised
                        elif future.status != "finished":
                            raise lost[0](future.key, "lost")
                    wanted = [x for x in batch if x in sent.wanted]
                    results = client.gather(wanted)
                    for future, result in zip(wanted, results, strict=True):
                        future.release()
                        open_ones -= 1
                        yield sent.wanted[future], result
                    for future in batch:
                        left.pop(sent.counted.get(future, -1), None)
                    done = not open_ones
                    stop = progress is not None and progress(total - len(left), total)
                    if done:
                        break
                    if stop:
                        raise KeyboardInterrupt
            except Exception as error:
                watch.explain()
                if isinstance(error, library.KilledWorker):
                    raise explain_death(error, sent, describe) from error
                if not isinstance(error, lost):
                    if client.status == "running":
                        explain(client, error, sent, describe)
                        raise
                else:
                    time.sleep(0.5)  # a client learns late that its scheduler is gone
                resent += 1
                if client.status != "running" or resent > RESENDS:
                    raise explain_loss(
                        client, resent, total - len(left), total
                    ) from error
                if len(sent.wanted) < len(sent.counted):
                    left = dict.fromkeys(range(total))  # a sum needs all of them
    finally:
        watch.stop()
        if client.status == "running" and not done:
            client.cancel(sent.everything, force=True)


def find_losses() -> tuple[type[Exception], ...]:
    """Return the errors of the client itself that mean that something was lost.

    An OSError may be the user's own, of a file that is not there.
    """
    errors = find_library("distributed.client")
    comm = find_library("distributed.comm")
    return (
        errors.FutureCancelledError,
        errors.FuturesCancelledError,
        comm.CommClosedError,
    )


# Errors


def explain_death(
    error: Any, sent: Sent, describe: Callable[[int], str]
) -> ClusterError:
    """Return the error for a piece that has ended its workers."""
    place = next((p for f, p in sent.counted.items() if f.key == error.task), None)
    what = "a sum of pieces" if place is None else describe(place)
    times = error.allowed_failures + 1
    # Dask counts what a dead worker had waiting too: another one may be guilty.
    return ClusterError(
        f"{what} was running {times} times on a worker that ended, and is the likely"
        " cause; most often there is too little memory. Give smaller pieces (pieces=,"
        " or x.rechunk), or workers with more memory."
    )


def explain(
    client: Any, error: Exception, sent: Sent, describe: Callable[[int], str]
) -> None:
    """Add a note to the error of a piece: the place of the failure."""
    if isinstance(error, (ImportError, AttributeError, TypeError)):
        check_workers(client)  # says so if it is for want of the package
    failed = [p for f, p in sent.counted.items() if f.status == "error"]
    if failed:
        error.add_note(f"Raised on a worker, in {describe(min(failed))}.")


def explain_loss(client: Any, resent: int, done: int, total: int) -> ClusterError:
    """Return the error for a lost scheduler or lost data."""
    count = f"{done} of {total} pieces were done"
    if client.status != "running":
        return ClusterError(
            f"the scheduler is gone ({count}). Connect a new Client, and call again."
        )
    return ClusterError(
        f"the cluster has lost the data that was sent to it {resent} times ({count}):"
        " its workers end again and again. Look at their logs"
        " (client.get_worker_logs()), or give them more memory."
    )


class Watch:
    """Ends an endless wait: for workers that do not come back."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.futures: list[Any] = []
        self.is_alone = False
        self._stopped = threading.Event()
        self._patience = PATIENCE
        threading.Thread(target=self._run, daemon=True, name="workbench-watch").start()

    def _run(self) -> None:
        since = None
        while not self._stopped.wait(min(1.0, self._patience)):
            try:
                has_workers = bool(self.client.nthreads())
            except Exception:
                return  # the client itself tells that its scheduler is gone
            now = time.monotonic()
            since = None if has_workers else (since or now)
            if since is not None and now - since > self._patience:
                self.is_alone = True
                self.client.cancel(self.futures, force=True)
                return

    def explain(self) -> None:
        """Raise the error if there was no worker."""
        if self.is_alone:
            raise ClusterError(
                f"the cluster has had no worker for {self._patience:.0f} seconds. Start"
                " some (cluster.scale(4)), and call again."
            )

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()


# Sums over pieces

#: How many results a task of a sum takes: few tasks where results are small, and where
#: they are large the least for a network to carry.
FAN, LARGE_FAN, LARGE = 8, 2, 2**20


#: How two results are put together.
JOINS = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "all": np.logical_and,
    "any": np.logical_or,
}


def join(joins: Sequence[str] | None, *parts: Any) -> list[Any]:
    """Run on a worker: results, each a list of arrays, put together in their order."""
    total = [x.copy() for x in parts[0]]
    names = ["sum"] * len(total) if joins is None else joins
    for part in parts[1:]:
        for name, t, x in zip(names, total, part, strict=True):
            JOINS[name](t, x, out=t)
    return total


def send_sum(
    client: Any,
    name: str,
    pieces: list[Any],
    size: int,
    joins: Sequence[str] | None = None,
) -> Sent:
    """Return the tasks of a tree of sums over pieces: one result comes here.

    The tree is that of the order of the pieces, not of the workers: the same digits on
    one worker or many, whichever of them has died. ``size`` is that of a result.
    """
    fan = FAN if size < LARGE else LARGE_FAN
    level, everything = pieces, [*pieces]
    while len(level) > 1:
        keys = [f"wb-{name}-sum-{uuid.uuid4().hex}" for _ in range(0, len(level), fan)]
        level = [
            client.submit(
                join, joins, *level[i * fan : (i + 1) * fan], key=key, priority=1
            )
            for i, key in enumerate(keys)
        ]
        everything += level
    counted = {future: i for i, future in enumerate(pieces)}
    return Sent(counted, {level[0]: 0}, everything)
