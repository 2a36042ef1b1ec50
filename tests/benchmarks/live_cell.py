"""A cell in a real kernel: to its picture, and from an override to its effect.

The kernel's part of it, over the kernel's own wire: no browser draws. The cell has a
hundred ops on 569×16. Nobody else has such a picture, so there are no peers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_client.manager import KernelManager

from tests.benchmarks import harness
from tests.jupyter.test_kernel import HUNDRED_INPUTS, SETUP, Page, clipped, drawn

NAME = "live_cell"
TITLE = "A cell in a real kernel: to its picture, and from an override to its effect"
ROUNDS = 9
GOALS = {"cell to picture": 0.3, "override to effect": 0.1}


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
    with kernel() as page:
        page.run(HUNDRED_INPUTS)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            comm, _ = drawn(page)
            times["cell to picture"].append(time.perf_counter() - start)
            time.sleep(0.1)  # patches are at most twenty a second
            start = time.perf_counter()
            clipped(page, comm)
            times["override to effect"].append(time.perf_counter() - start)
    print(TITLE)
    rows = []
    for name, goal in GOALS.items():
        median = sorted(times[name])[ROUNDS // 2]
        print(f"  {name:<20}{median * 1e3:>7.0f} ms   (goal {goal * 1e3:.0f} ms)")
        rows.append({"what": name, "median_s": round(median, 4), "goal_s": goal})
    if keep:
        harness.save(NAME, TITLE, {"rows": rows})
