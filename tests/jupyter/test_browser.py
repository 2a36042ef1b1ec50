"""The Python of a browser (JupyterLite): no threads, no processes, no compilers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.jupyter import jobs, widget
from workbench.session import Session

ROOT = Path(__file__).resolve().parents[2]
#: A folder with Pyodide's runtime and its wheels of NumPy, SciPy and IPython.
RUNTIME = os.environ.get("WORKBENCH_PYODIDE", "")

#: A process like a browser's: what its Python refuses is refused.
LIKE_A_BROWSER = """
import asyncio, json, subprocess, sys, threading, time, _thread
import numpy, scipy, IPython, workbench.jupyter.widget

def refuse(*arguments, **settings):
    raise RuntimeError("can't start new thread")

for name in [name for name in sys.modules if name.startswith("workbench")]:
    del sys.modules[name]
sys.platform = "emscripten"
del time.thread_time
threading.Thread.start = _thread.start_new_thread = subprocess.Popen.__init__ = refuse
from tests.jupyter import browser_program
print(json.dumps(asyncio.run(browser_program.main())))
"""


def run(*command: str | Path, limit: float) -> dict[str, Any]:
    """What `browser_program.main` found, in the last line of a command."""
    answer = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=limit,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def check_found(found: dict[str, Any]) -> None:
    kernel = found.pop("kernel")
    assert "doubled_in_a_browser: this kernel needs a C compiler, which a browser" in (
        kernel
    )
    assert "Or write fallback(self, *arrays) in Doubled" in kernel
    second = found.pop("second")
    assert second.endswith("is still at work: wait for it, or stop it."), second
    assert found == {
        "platform": "emscripten",
        "verdict": "wrong",
        "profile": "done",
        "overrides": 1,
        # JavaScript's null in a message of the page is None.
        "stops": ["the gradient of x is not finite or has a norm above 3"],
    }


def test_a_page_is_answered_where_there_are_no_threads() -> None:
    check_found(run(sys.executable, "-c", LIKE_A_BROWSER, limit=120))


@pytest.mark.long
def test_the_same_in_pyodide() -> None:
    node = shutil.which("node")
    if node is None or not Path(RUNTIME, "pyodide.mjs").is_file():
        pytest.skip(
            "needs Node, and a folder of Pyodide with its wheels of NumPy, SciPy and"
            " IPython, which WORKBENCH_PYODIDE names"
        )
    packages = Path(np.__file__).parents[1]
    script = Path(__file__).with_name("pyodide.mjs")
    check_found(run(node, script, RUNTIME, ROOT, packages, limit=400))


def test_work_that_was_stopped_before_it_began_sees_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import asyncio

    monkeypatch.setattr(jobs, "IN_BROWSER", True)
    done: list[str] = []

    async def stop_at_once() -> None:
        work = jobs.start(lambda: done.append("work"))
        assert done == []
        assert work.running
        work.stop()
        await asyncio.sleep(0)
        assert done == ["work"]
        assert not work.running

    asyncio.run(stop_at_once())


def test_messages_of_a_browser_are_text_that_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "IN_BROWSER", True)
    sent: list[dict[str, Any]] = []
    session = Session(wb.trace(lambda x: np.sum(x * x))(np.ones(2)))
    shown = widget.GraphWidget(session)
    monkeypatch.setattr(shown, "send", lambda content, buffers: sent.append(content))
    event = {"type": "event", "event": "hello", "seq": 1, "schema": 1}
    shown._handle_custom_msg(event, [])
    (message,) = sent
    assert list(message) == ["json"]
    header = json.loads(message["json"])["header"]
    assert header["undo"] is None
    assert header["nodes"] == len(session.graph.nodes)
