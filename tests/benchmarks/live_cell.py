"""A cell in a real kernel: to its picture, and from an override to its effect.

The kernel's part of it, over the kernel's own wire: no browser draws. One cell has a
hundred ops on 569×16, one ten thousand on 8 numbers, whose own run is part of the time.
Nobody else has such a picture, so there are no peers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jupyter_client.manager import KernelManager

from tests.benchmarks import harness
from tests.jupyter.test_kernel import HUNDRED_INPUTS, SETUP, Page, clipped, drawn

NAME = "live_cell"
TITLE = "A cell in a real kernel: to its picture, and from an override to its effect"
ROUNDS = 9
GOALS = {
    "cell to picture": 0.3,
    "override to effect": 0.1,
    "10,000 ops: cell to picture": 1.5,
    "10,000 ops: override of one to effect": 0.3,
    "10,000 ops: override of every tanh to effect": 0.3,
}
TEN_THOUSAND = """%%autodiff loss --wrt x
y = x
for _ in range(2500):
    y = np.tanh(y * 1.01 + x) - 0.1
loss = np.sum(y)
"""
#: A tanh in the middle of them.
MIDDLE = 4999


@contextmanager
def kernel() -> Iterator[Page]:
    """A front end of a fresh kernel."""
    manager = KernelManager(transport="ipc")
    manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        page = Page(client, manager)
        page.run(SETUP)
        yield page
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(keep: bool) -> None:
    """Measure, print and keep."""
    times: dict[str, list[float]] = {name: [] for name in GOALS}

    def measure(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = call()
        times[name].append(time.perf_counter() - start)
        time.sleep(0.1)  # patches are at most twenty a second
        return found

    with kernel() as page:
        page.run(HUNDRED_INPUTS)
        for _ in range(ROUNDS):
            comm, _ = measure("cell to picture", partial(drawn, page))
            measure("override to effect", partial(clipped, page, comm))
        page.run("x = np.linspace(0.1, 0.8, 8)")
        _, _, cell, one, every = GOALS
        for _ in range(ROUNDS):
            comm, _ = measure(cell, partial(drawn, page, TEN_THOUSAND))
            patch = measure(one, partial(clipped, page, comm, MIDDLE))
            page.send(comm, "ack", of=patch["seq"])
            page.send(comm, "undo", request=2, steps=1)
            patch = page.answer("patch")
            page.send(comm, "ack", of=patch["seq"])
            time.sleep(0.1)
            measure(every, partial(clipped, page, comm))
    print(TITLE)
    rows = []
    for name, goal in GOALS.items():
        median = sorted(times[name])[ROUNDS // 2]
        print(f"  {name:<46}{median * 1e3:>7.0f} ms   (goal {goal * 1e3:.0f} ms)")
        rows.append({"what": name, "median_s": round(median, 4), "goal_s": goal})
    if keep:
        harness.save(NAME, TITLE, {"rows": rows})
