"""What a browser's Python must do, where there are no threads: derivatives and a page.

`test_browser.py` runs it in a process that is made like one, and in Pyodide.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np

import workbench as wb
from workbench.checks.statistics import distribution
from workbench.errors import KernelError
from workbench.jupyter.link import Link
from workbench.jupyter.widget import GraphWidget
from workbench.session import Session

try:
    from pyodide.ffi import jsnull as null
except ImportError:  # no browser, or an older Pyodide, which has no such object

    class Null:
        """Like JavaScript's null in a message that Pyodide has converted."""

        def __bool__(self) -> bool:
            return False

    null = Null()


class Doubled(wb.KernelOp):
    """Twice the input, in C."""

    name = "doubled_in_a_browser"
    inputs = "x: float64[n]"
    outputs = "y: float64[n]"
    c = """
    void doubled_in_a_browser(const double *x, double *y, int64_t n) {
      for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    }
    """


class Wrong(wb.Op):
    """The sine, with a rule that is off by a factor."""

    name = "wrong_sine_of_a_browser"

    def infer(self, x: Any) -> Any:
        """Return what describes the output."""
        return x

    def compute(self, x: Any) -> Any:
        """Return the value."""
        return np.sin(x)

    def vjp(self, node: Any, g: Any) -> Any:
        """Return twice the cotangent of the input."""
        return 2 * g * np.cos(node.inputs[0])


def differentiate() -> None:
    """Compare a gradient with its formula, run, compiled and by NumPy."""
    x = np.linspace(-1.0, 1.0, 5)
    expected = 2 * np.tanh(x) * (1 - np.tanh(x) ** 2)

    def loss(x: Any) -> Any:
        return np.sum(np.tanh(x) ** 2)

    np.testing.assert_allclose(wb.grad(loss)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(wb.compile(wb.grad(loss))(x), expected, rtol=1e-12)
    program = wb.compile(wb.grad(loss), backend="numpy")
    np.testing.assert_allclose(program(x), expected, rtol=1e-12)


def count_with_short_indices() -> None:
    """Call what counts and indexes: there an index has 32 bits."""
    found = distribution(np.array([0.0, 1.0, 1.0, 3.0]), bins=3)
    assert found is not None
    assert found["counts"] == [1, 2, 1]
    u = np.linspace(0.0, 1.0, 6)
    expected = np.diag(-2 * u) + np.diag(np.ones(5), 1)
    jacobian = wb.jacobian(lambda u: np.append(u[1:], 0.0) - u * u, sparse=True)
    np.testing.assert_allclose(jacobian(u).toarray(), expected, rtol=1e-12)


def ask_for_a_kernel() -> str:
    """Return what is said where C cannot be compiled."""
    try:
        Doubled()(np.ones(3))
    except KernelError as error:
        return str(error)
    return "it was compiled"


async def drive_page() -> dict[str, Any]:
    """Return what a page gets: a check, a profile, then the effect of an override."""
    wrong = Wrong()
    session = Session(wb.trace(lambda x: np.sum(wrong(x) ** 2))(np.array([0.3, 0.8])))
    got: list[dict[str, Any]] = []
    link: Link

    def take(message: dict[str, Any], buffers: list[Any]) -> None:
        got.append(message)
        event = {"type": "event", "event": "ack", "of": message["seq"], "seq": 0}
        asyncio.get_running_loop().call_soon(lambda: link.receive(event))

    link = Link(session, take)

    async def ask(request: int, event: str, **fields: Any) -> list[dict[str, Any]]:
        began = len(got)
        message = {"type": "event", "event": event, "seq": request, "request": request}
        link.receive({**message, **fields})
        assert not [m for m in got[began:] if m["type"] == "done"], "answered at once"
        for _ in range(200):
            await asyncio.sleep(0.02)
            answers = [m for m in got[began:] if m.get("request") == request]
            if any(m["type"] in ("done", "failure", "plot") for m in answers):
                return answers
        raise AssertionError(f"{event} was not answered: {got[began:]}")

    link.receive({"type": "event", "event": "hello", "seq": 1, "schema": 1})
    await asyncio.sleep(0.1)
    done = (await ask(5, "check"))[-1]
    assert done["type"] == "done", done
    found = {}
    check = [m["header"]["check"] for m in got if m.get("header", {}).get("check")][-1]
    found["verdict"] = check["nodes"][0]["status"]
    found["profile"] = (await ask(6, "profile"))[-1]["type"]
    # Two at once: the second is told that the first is at work.
    link.receive({"type": "event", "event": "check", "seq": 7, "request": 7})
    (refused,) = await ask(8, "diagnose")
    found["second"] = refused["message"]
    await asyncio.sleep(0.2)
    began = len(got)
    node = check["nodes"][0]["node"]
    session.override(node, "0.5 * d")
    for _ in range(100):
        await asyncio.sleep(0.02)
        if [m for m in got[began:] if m["type"] == "picture"]:
            break
    found["overrides"] = len(got[-1]["header"]["overrides"])
    return found


def send_nulls() -> list[str]:
    """Return the conditions of a page's message, some of whose fields are null."""
    session = Session(wb.trace(lambda x: np.sum(x * x))(np.ones(2)), name="nulls")
    sent: list[Any] = []
    shown = GraphWidget(session)
    shown.send = lambda content, buffers: sent.append(content)
    hello = {"type": "event", "event": "hello", "seq": 1, "schema": 1}
    shown._handle_custom_msg(hello, [])
    event = {"type": "event", "event": "stop-when", "seq": 2, "request": 2, "node": 0}
    limits = {"norm_above": 3.0, "norm_below": null, "angle_above": null}
    shown._handle_custom_msg({**event, **limits}, [])
    return [stop.text for stop in session.stops] or sent


async def main() -> dict[str, Any]:
    """Return what was found: words for the test, which knows what they must be."""
    differentiate()
    count_with_short_indices()
    found: dict[str, Any] = {"platform": sys.platform, "kernel": ask_for_a_kernel()}
    found["stops"] = send_nulls()
    return found | await drive_page()
