"""A cell in a real kernel: to its picture, and from an override to its effect.

The kernel's part of it, over the kernel's own wire: no browser draws. One cell has a
hundred ops on 569×16, one ten thousand on 8 numbers, whose own run is part of the time.
Then how much longer a training takes if its runs are recorded, and if a page follows
it, in processor time of the kernel: the same steps in turn on a session with a picture,
on one without, and on one that records nothing.
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
from tests.jupyter.test_kernel import (
    HUNDRED_INPUTS,
    SETUP,
    Page,
    clipped,
    drawn,
    opened,
    subshell,
)
from workbench.session.wire.protocol.fields import SCHEMA

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


#: Trainings of different sizes: inputs, and the cell.
TRAININGS = {
    "8 nodes, 300 x 8": (
        "X = rng.normal(size=(300, 8)); W = rng.normal(size=(8, 20)) / 3\n"
        "b = np.zeros(20); V = rng.normal(size=(20, 3)) / 4",
        """%%autodiff loss --wrt W b V --name shown
h = np.tanh(X @ W + b)
loss = np.mean((np.tanh(h @ V) - 0.5)**2)
""",
    ),
    "100 nodes on 8 numbers": (
        "x = np.linspace(0.1, 0.8, 8)",
        """%%autodiff loss --wrt x --name shown
y = x
for _ in range(25):
    y = np.tanh(y * 1.01 + x) - 0.1
loss = np.sum(y)
""",
    ),
    "1,000 nodes on 8 numbers": (
        "x = np.linspace(0.1, 0.8, 8)",
        """%%autodiff loss --wrt x --name shown
y = x
for _ in range(250):
    y = np.tanh(y * 1.01 + x) - 0.1
loss = np.sum(y)
""",
    ),
    "the tutorial's 569 x 30": (
        "X = rng.normal(size=(569, 30)); benign = X[:, 0] > 0\n"
        "W1 = rng.normal(size=(30, 8)) * 0.3; b1 = np.zeros(8)\n"
        "w2 = rng.normal(size=8) * 0.3",
        """%%autodiff loss --wrt W1 b1 w2 --name shown
h = np.tanh(X @ W1 + b1)
p = 1 / (1 + np.exp(-(h @ w2)))
loss = -np.mean(np.log(np.where(benign, p, 1 - p)))
""",
    ),
}
#: Steps in a block take so many seconds of the processor; so many blocks of each
#: session take turns; and so many seconds has a training with its picture alone.
BLOCK, BLOCKS, ALONE = 0.02, 200, 6.0
#: On a machine where others work, times are compared only where they are taken at once:
#: blocks in turn of a session that records its runs and of one that does not; and of a
#: training with a picture the processor's time of all that listens, or runs in other
#: threads of the kernel, by that of the rest.
COMPARE = f"""
import gc, random, time
def train(session, steps):
    weights = {{name: session.values[name] for name in session.grads}}
    start = time.thread_time()
    for _ in range(steps):
        session.run(weights)
        weights = {{k: w - 1e-3 * session.grads[k] for k, w in weights.items()}}
    return time.thread_time() - start
def time_listener(listener):
    def listen(what):
        global listening
        start = time.thread_time()
        listener(what)
        listening += time.thread_time() - start
    return listen
hidden, silent = (
    wb.Session(shown.graph, shown.output, wrt=list(shown.grads)) for _ in range(2)
)
silent._timeline.record = lambda state, before: None
steps = int({BLOCK} / train(silent, 50) * 50) + 1
spent = {{hidden: 0.0, silent: 0.0}}
gc.collect()
gc.freeze()  # a pass over all that there is would fall on one of the two
for _ in range({BLOCKS}):
    for session in random.sample([hidden, silent], 2):
        spent[session] += train(session, steps)
recorded = spent[hidden] / spent[silent] - 1
shown._listeners[:] = map(time_listener, shown._listeners)
in_loop, listening, everywhere = 0.0, 0.0, time.process_time()
while in_loop < {ALONE}:
    in_loop += train(shown, steps)
everywhere = time.process_time() - everywhere
followed = everywhere / (in_loop - listening) - 1
"""
RECORDED = "recording, no picture"
FOLLOWED = "its picture open"


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


def follow_training(page: Page, inputs: str, cell: str) -> tuple[float, float, int]:
    """Return how much slower a training is if it is recorded, and if a page follows it.

    And how many patches the page has got.
    """
    page.run(inputs)
    _, seen = page.run(cell)
    comm, lane = opened(seen), subshell(page)
    page.send(comm, "hello", lane, schema=SCHEMA)
    asked = page.client.execute(COMPARE)
    patches = 0

    def answer_patches(message: dict[str, Any]) -> bool:
        nonlocal patches
        if message["msg_type"] == "comm_msg":
            content = message["content"]["data"].get("content", {})
            if content.get("type") == "picture":
                patches += content["of"] is not None
                page.send(comm, "ack", lane, of=content["seq"])
        idle = message["msg_type"] == "status"
        idle = idle and message["content"]["execution_state"] == "idle"
        return idle and message["parent_header"].get("msg_id") == asked

    page.until(answer_patches, 600)
    while page.client.get_shell_msg(timeout=30)["parent_header"]["msg_id"] != asked:
        pass
    return float(page.value("recorded")), float(page.value("followed")), patches


def measure_trainings(page: Page) -> list[dict[str, Any]]:
    """Measure and print what recording and an open picture cost a training."""
    rows = []
    for text, (inputs, cell) in TRAININGS.items():
        recorded, followed, patches = follow_training(page, inputs, cell)
        print(
            f"  training, {text:<28} {RECORDED} {recorded:+.1%}; {FOLLOWED}"
            f" {followed:+.1%}   (goal 3 %; {patches} patches)",
            flush=True,
        )
        for what, slower in ((RECORDED, recorded), (FOLLOWED, followed)):
            what = f"training, {text}: {what}"
            rows.append({"what": what, "slower": round(slower, 4), "goal": 0.03})
    return rows


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
    with kernel() as page:
        rows += measure_trainings(page)
    if keep:
        harness.save(NAME, TITLE, {"rows": rows})
