"""A real kernel: what JupyterLab would see on its wire, and in its outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from queue import Empty
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.jupyter.page import kind_of
from workbench.session.wire import MIME_TYPE, read_saved

from .conftest import ESCAPES

SETUP = """
%load_ext workbench
import numpy as np, workbench as wb
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 5)); W = rng.normal(size=(5, 4)); b = np.zeros(4)
"""
CELL = (
    "%%autodiff loss --wrt W b --name model\n"
    "h = np.tanh(X @ W + b)\nloss = np.sum(h**2)"
)


class Page:
    """The front end: runs cells, speaks for the picture."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        self.client = client
        self.manager = manager
        self.seq = 0
        self.seen: list[dict[str, Any]] = []

    def run(self, code: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The reply to a cell, and all that it published."""
        self.seen.clear()
        asked = self.client.execute(code)
        reply = self.client.get_shell_msg(timeout=30)
        while reply["parent_header"].get("msg_id") != asked:
            reply = self.client.get_shell_msg(timeout=30)
        self.until(
            lambda m: (
                m["msg_type"] == "status"
                and m["content"]["execution_state"] == "idle"
                and m["parent_header"].get("msg_id") == asked
            )
        )
        return reply["content"], list(self.seen)

    def until(self, wanted: Any, seconds: float = 20) -> dict[str, Any]:
        """The first message that is wanted; what came before is kept in `seen`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            self.seen.append(message)
            if wanted(message):
                return message
        raise AssertionError(f"nothing came but {[m['msg_type'] for m in self.seen]}")

    def send(
        self, comm: str, event: str, subshell: str | None = None, **f: Any
    ) -> None:
        self.seq += 1
        content = {"type": "event", "seq": self.seq, "event": event, **f}
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def answer(self, *kinds: str) -> dict[str, Any]:
        """The next message of the kernel to the page of one of these types."""
        found = self.until(
            lambda m: (
                m["msg_type"] == "comm_msg"
                and kind_of(m["content"]["data"].get("content", {})) in kinds
            )
        )
        return {**found["content"]["data"]["content"], "buffers": found["buffers"]}

    def value(self, expression: str) -> str:
        asked = self.client.execute("", user_expressions={"x": expression}, silent=True)
        reply = self.client.get_shell_msg(timeout=30)
        while reply["parent_header"].get("msg_id") != asked:
            reply = self.client.get_shell_msg(timeout=30)
        text: str = reply["content"]["user_expressions"]["x"]["data"]["text/plain"]
        return text


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    manager = KernelManager(transport="ipc")
    manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    made = Page(client, manager)
    reply, _ = made.run(SETUP)
    assert reply["status"] == "ok"
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def opened(seen: list[dict[str, Any]]) -> str:
    """The id of the widget that a cell has opened."""
    states = {
        m["content"]["comm_id"]: m["content"]["data"]["state"]
        for m in seen
        if m["msg_type"] == "comm_open"
    }
    ((comm, state),) = (
        (comm, state)
        for comm, state in states.items()
        if state["_model_name"] == "GraphModel"
    )
    assert state["_model_module"] == state["_view_module"] == "autodiff-workbench"
    assert state["_view_name"] == "GraphView"
    return comm


def bundle_of(seen: list[dict[str, Any]], kind: str = "display_data") -> dict[str, Any]:
    found = [
        m["content"]
        for m in seen
        if m["msg_type"] == kind and MIME_TYPE in m["content"]["data"]
    ]
    assert found, [m["msg_type"] for m in seen]
    made: dict[str, Any] = found[-1]
    return made


def test_a_cell_opens_a_widget_and_shows_one_output(page: Page) -> None:
    reply, seen = page.run(CELL)
    assert reply["status"] == "ok"
    comm = opened(seen)
    content = bundle_of(seen)
    assert content["data"][MIME_TYPE]["model_id"] == comm
    assert content["data"]["image/svg+xml"].startswith("<svg")
    assert content["data"]["text/plain"].startswith("<Session 'model': loss = ")
    assert read_saved(content["data"][MIME_TYPE]).header["output_name"] == "loss"
    assert "display_id" in content["transient"]


def test_the_page_clips_undoes_and_the_notebook_keeps_up(page: Page) -> None:
    _, seen = page.run(CELL)
    comm, shown = opened(seen), bundle_of(seen)["transient"]["display_id"]
    page.send(comm, "hello", schema=1)
    snapshot = page.answer("snapshot")
    header = snapshot["header"]
    assert len(snapshot["buffers"]) == len(snapshot["columns"])
    page.send(comm, "ack", of=snapshot["seq"])
    true = page.value("float(np.abs(model.grads['W']).max())")
    node = header["strings"].index("tanh")
    ops = np.frombuffer(snapshot["buffers"][1], "<i4")
    page.send(
        comm,
        "override",
        request=1,
        target={"kind": "node", "node": int(np.flatnonzero(ops == node)[0])},
        rule="clip(d, -0.001, 0.001)",
        label="",
    )
    patch = page.answer("patch")
    assert patch["header"]["overrides"][0]["label"] == "clip ±0.001"
    clipped = page.value(
        "float(np.abs(model.grads['W'] - X.T @ np.clip("
        "2 * h * (1 - h**2), -0.001, 0.001)).max())"
    )
    assert float(clipped) < 1e-12
    update = page.until(lambda m: m["msg_type"] == "update_display_data")
    assert update["content"]["transient"]["display_id"] == shown
    saved = update["content"]["data"][MIME_TYPE]
    assert saved["header"]["overrides"][0]["label"] == "clip ±0.001"
    assert "clip ±0.001" in update["content"]["data"]["image/svg+xml"]
    page.send(comm, "ack", of=patch["seq"])
    page.send(comm, "undo", request=2)
    assert page.answer("patch")["header"]["overrides"] == []
    assert page.value("float(np.abs(model.grads['W']).max())") == true


def test_running_a_cell_again_closes_its_old_widget(page: Page) -> None:
    _, first = page.run(CELL)
    _, second = page.run(CELL)
    closed = [m["content"]["comm_id"] for m in second if m["msg_type"] == "comm_close"]
    assert opened(first) in closed
    assert opened(second) != opened(first)


def test_a_dropped_session_closes_its_widget(page: Page) -> None:
    _, seen = page.run(CELL.replace("model", "other"))
    _, after = page.run("import gc\ndel other\nNone\ngc.collect();")
    closed = [m["content"]["comm_id"] for m in after if m["msg_type"] == "comm_close"]
    assert opened(seen) in closed


def test_a_failing_cell_fails_and_keeps_the_session(page: Page) -> None:
    page.run(CELL)
    number = int(page.value("get_ipython().execution_count"))
    reply, _ = page.run("%%autodiff loss --name model\nh = X @ W.T\nloss = h.sum()")
    assert reply["status"] == "error"
    assert reply["ename"] == "ShapeError"
    text = ESCAPES.sub("", "\n".join(reply["traceback"]))
    assert "workbench/" not in text
    assert "run_cell_magic" not in text
    assert f"Cell In[{number}], line 2" in text
    assert f"[{number}]:2: h = X @ W.T" in reply["evalue"]
    assert page.value("model.value > 0") == "np.True_"


def test_saved_data_is_json_that_any_reader_takes(page: Page) -> None:
    _, seen = page.run(
        "%%autodiff --name model\nwith np.errstate(all='ignore'):\n"
        "    y = np.log(W * 0)\nnp.sum(y)"
    )
    data = bundle_of(seen)["data"]
    json.dumps(data, allow_nan=False)
    assert read_saved(data[MIME_TYPE]).header["output_value"] is None


#: A hundred ops on 569×16, as `tests/benchmarks/live_cell.py` times them.
HUNDRED = (
    "%%autodiff loss --wrt weights --name m\nh = data @ weights\n"
    + "h = np.tanh(h) + 0.5\n" * 49
    + "loss = np.sum(h)"
)
HUNDRED_INPUTS = (
    "data = rng.normal(size=(569, 30)); weights = rng.normal(size=(30, 16))"
)


def drawn(page: Page, cell: str = HUNDRED) -> tuple[str, dict[str, Any]]:
    """Run a cell, of a hundred ops; its widget, and the picture that it sends."""
    page.seen.clear()
    page.client.execute(cell)
    page.until(lambda m: m["msg_type"] == "display_data")
    comm = opened(page.seen)
    page.send(comm, "hello", schema=1)
    snapshot = page.answer("snapshot")
    page.send(comm, "ack", of=snapshot["seq"])
    return comm, snapshot


def clipped(page: Page, comm: str, node: int | None = None) -> dict[str, Any]:
    """Clip the gradients of all tanh, or of a node; the first patch that says so."""
    target: dict[str, Any] = {"kind": "op", "op": "tanh"}
    if node is not None:
        target = {"kind": "node", "node": node}
    rule = "clip(d, -0.1, 0.1)"
    page.send(comm, "override", request=1, target=target, rule=rule, label="")
    return page.answer("patch")


def test_one_message_draws_a_cell_and_one_shows_an_override(page: Page) -> None:
    """The page waits for nothing else: a picture, then a patch with the effect."""
    page.run(HUNDRED_INPUTS)
    comm, snapshot = drawn(page)
    assert snapshot["header"]["nodes"] == 102
    (override,) = clipped(page, comm)["header"]["overrides"]
    assert len(override["matched"]) == 49
    assert override["effects"][0]["name"] == "weights"
    assert override["effects"][0]["relative"] > 0


def subshell(page: Page) -> str:
    message = page.client.session.msg("create_subshell_request", {})
    page.client.control_channel.send(message)
    reply = page.client.get_control_msg(timeout=20)
    made: str = reply["content"]["subshell_id"]
    return made


def test_the_page_overrides_while_a_loop_runs(page: Page) -> None:
    """JupyterLab speaks for widgets in a thread of their own: a subshell."""
    _, seen = page.run(CELL)
    comm, lane = opened(seen), subshell(page)
    page.send(comm, "hello", lane, schema=1)
    snapshot = page.answer("snapshot")
    page.send(comm, "ack", lane, of=snapshot["seq"])
    asked = page.client.execute(
        "import time\nend = time.monotonic() + 20\nsteps = 0\n"
        "while not model.overrides and time.monotonic() < end:\n"
        "    model.run(W=W * (1 + steps / 1e3))\n    steps += 1\n"
        "print('found', len(model.overrides), 'gradient', abs(model.grads['W']).max())"
    )
    patches = 0
    while patches < 3:  # values stream while the cell runs
        patch = page.answer("patch")
        patches += 1
        page.send(comm, "ack", lane, of=patch["seq"])
    target = {"kind": "op", "op": "tanh"}
    page.send(comm, "override", lane, request=1, target=target, rule="0 * d", label="")
    page.until(
        lambda m: (
            m["msg_type"] == "status"
            and m["content"]["execution_state"] == "idle"
            and m["parent_header"].get("msg_id") == asked
        )
    )
    said = [m["content"]["text"] for m in page.seen if m["msg_type"] == "stream"]
    assert "".join(said) == "found 1 gradient 0.0\n"


def test_a_loop_in_line_behind_the_cell_is_seen_and_hears(page: Page) -> None:
    """Run All: the cell that opens the picture is followed at once by a loop."""
    lane = subshell(page)
    page.seen.clear()
    page.client.execute(CELL)
    asked = page.client.execute(
        "import time\nend = time.monotonic() + 90\nsteps = 0\n"
        "while not model.overrides and time.monotonic() < end:\n"
        "    model.run(W=W * (1 + steps / 1e3))\n    steps += 1\n"
        "    time.sleep(0.01)\n"
        "print('heard', len(model.overrides))"
    )
    page.until(
        lambda m: (
            m["msg_type"] == "comm_open"
            and m["content"]["data"]["state"]["_model_name"] == "GraphModel"
        )
    )
    comm = opened(page.seen)
    # Until the loop has begun, the cells have the main shell for themselves.
    page.until(
        lambda m: (
            m["msg_type"] == "execute_input" and m["parent_header"]["msg_id"] == asked
        )
    )
    page.send(comm, "hello", lane, schema=1)
    page.send(comm, "ack", lane, of=page.answer("snapshot")["seq"])
    # A loop that sleeps has one every few seconds.
    for _ in range(3):
        page.send(comm, "ack", lane, of=page.answer("patch")["seq"])
    target = {"kind": "op", "op": "tanh"}
    page.send(comm, "override", lane, request=1, target=target, rule="0 * d", label="")
    said = page.until(lambda m: m["msg_type"] == "stream")
    assert said["content"]["text"] == "heard 1\n"
    page.run("1")


def test_stop_ends_a_plot_and_nothing_else(page: Page) -> None:
    _, seen = page.run(
        "%%autodiff loss --name model --wrt W\nh = X @ W\nfor _ in range(20_000):\n"
        "    h = np.tanh(h)\nloss = np.sum(h)"
    )
    comm, lane = opened(seen), subshell(page)
    page.run("1")
    time.sleep(1.5)  # the kernel is at rest, as it is when somebody presses Stop
    page.send(comm, "plot", lane, request=5, plot="check", of=None, wrt=[])
    page.send(comm, "inspect", lane, request=6, node=0)
    assert page.answer("inspect")["request"] == 6
    time.sleep(0.3)
    page.manager.interrupt_kernel()
    told = page.answer("failure", "plot")  # a check gives what it has
    assert told["request"] == 5
    assert told.get("message") == "Stopped." or "stopped early" in told["note"]
    assert page.value("model.graph.nodes is not None") == "True"


def test_a_check_tells_how_far_it_is_and_stops_with_what_it_has(page: Page) -> None:
    _, seen = page.run(
        "%%autodiff loss --name long --wrt W\nh = X @ W\nfor _ in range(3000):\n"
        "    h = np.tanh(h)\nloss = np.sum(h)"
    )
    comm, lane = opened(seen), subshell(page)
    page.send(comm, "hello", lane, schema=2)
    state = page.answer("snapshot")
    page.send(comm, "ack", lane, of=state["seq"])
    page.send(comm, "check", lane, request=3)
    progress = page.answer("progress")
    assert (progress["request"], progress["total"] > 1000) == (3, True)
    page.send(comm, "diagnose", lane, request=4)
    refused = page.answer("failure")
    assert refused["request"] == 4
    assert "still at work" in refused["message"]
    page.send(comm, "stop", lane, request=5, of=3)
    seq = state["seq"]
    while (told := page.answer("patch", "done"))["type"] != "done":
        state, seq = told, told["seq"]
        page.send(comm, "ack", lane, of=seq)
    assert told["request"] == 3
    assert state["header"]["check"]["stopped"]
    assert page.value("long.report.stopped") == "True"


@pytest.mark.long
def test_a_picture_on_its_own_from_python(page: Page) -> None:
    reply, seen = page.run("wb.show(wb.trace(lambda x: np.tanh(x))(np.ones(3)))")
    assert reply["status"] == "ok"
    comm = opened(seen)
    assert bundle_of(seen)["data"][MIME_TYPE]["model_id"] == comm
    page.send(comm, "hello", schema=1)
    assert page.answer("snapshot")["header"]["nodes"] == 2
    page.run(CELL)
    reply, seen = page.run("model.show()")
    assert bundle_of(seen)["data"][MIME_TYPE]["header"]["session"] == "model"
    reply, _ = page.run("wb.show(3)")
    assert reply["ename"] == "UsageError"
    assert "wb.trace(f)" in reply["evalue"]
