"""One output for one session: shown, refreshed when it is calm, closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import comm
import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import kind_of
from workbench.errors import UsageError
from workbench.jupyter import display
from workbench.jupyter.display import SessionOutput
from workbench.session import Session
from workbench.session.wire import MIME_TYPE

from .conftest import Notebook


class Timers:
    """A clock, and what is to be called when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        self.most = 0

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.waiting.append((self.now + seconds, call))
        self.most = max(self.most, len(self.waiting))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [call for when, call in self.waiting if when <= self.now]
        self.waiting = [x for x in self.waiting if x[0] > self.now]
        for call in due:
            call()


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(3)))


class Handle:
    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []

    def update(self, data: dict[str, Any], raw: bool, metadata: Any) -> None:
        assert raw
        assert metadata == {}
        self.updates.append(data)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    made = Handle()
    monkeypatch.setattr(display, "publish", lambda data, keep, metadata: made)
    return made


def test_the_text_of_a_gradient_that_is_nan_names_the_doctor(session: Session) -> None:
    hint = "Where that begins: ad.diagnose()"
    assert hint not in display.format_session(session)
    with np.errstate(all="ignore"):
        broken = Session(wb.trace(lambda x: np.sum(np.sqrt(x)) - x[1])(np.zeros(2)))
    text = display.format_session(broken)
    assert text.endswith(f"  ‖∂/∂x‖ = inf\n  {hint}")


def test_the_saved_output_follows_when_it_is_calm(
    session: Session, handle: Handle
) -> None:
    timers = Timers()
    shown = SessionOutput(session, clock=lambda: timers.now, later=timers.later)
    for k in range(500):  # a training loop: five seconds without rest
        session.run(x=np.full(3, 1.0 + k / 500))
        timers.wait(0.01)
    assert handle.updates == []
    assert timers.most == 1
    session.override("tanh", "clip(d, -0.1, 0.1)")
    timers.wait(0.9)
    assert handle.updates == []
    timers.wait(0.2)
    (update,) = handle.updates
    assert update[MIME_TYPE]["header"]["overrides"][0]["label"] == "clip ±0.1"
    timers.wait(10)
    assert len(handle.updates) == 1
    session.undo()
    timers.wait(1)
    assert len(handle.updates) == 2
    shown.close()
    session.redo()
    timers.wait(2)
    assert len(handle.updates) == 2


def test_a_cell_that_changes_it_brings_it_up_to_date(notebook: Notebook) -> None:
    notebook.run("w = np.array([0.5, 1.0])")
    notebook.run("%%autodiff\nnp.sum(w)")
    (shown,) = display._outputs[notebook.names["ad"]]
    made = Handle()
    shown._handle = made
    notebook.run("for k in range(5): ad.run(w=w * k)")
    (update,) = made.updates
    assert update[MIME_TYPE]["header"]["output_value"] == 6.0
    notebook.run("1 + 1")
    assert len(made.updates) == 1


def test_a_closed_session_is_not_refreshed(session: Session, handle: Handle) -> None:
    timers = Timers()
    shown = SessionOutput(session, clock=lambda: timers.now, later=timers.later)
    session.override("tanh", "2 * d")
    display.load_widget(session).close()
    timers.wait(2)
    assert handle.updates == []
    shown.close()


def test_show_in_words_without_a_notebook(
    session: Session,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(display, "current_shell", lambda: None)
    wb.show(session)
    session.show()
    wb.show(wb.trace(np.tanh)(np.ones(2)))
    wb.show(session["x"] * 2)
    said = capsys.readouterr().out
    assert said.count("<Session 'ad': sum = 1.74008 by x; 4 nodes>") == 2
    assert "<Session 'ad': tanh (2,) by x; 2 nodes>" in said
    assert "multiply (3,)" in said


SYMBOLS = """
x, n = wb.vector("x", shape=3), wb.vector("n")
y = np.sum(np.sin(x) ** 2)
f = wb.function([x], [y, wb.grad(y, x)])
"""


def test_a_function_shows_its_graph_with_its_gradients(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    notebook.run(SYMBOLS)
    graph = notebook.names["f"].graph
    (shown,) = notebook.run("wb.show(f)").outputs
    result, _ = notebook.shell.display_formatter.format(graph)
    for bundle in (shown, result):
        assert "from sin" in bundle["text/plain"]
        assert bundle["image/svg+xml"].count("<rect") == len(graph) + 1
    monkeypatch.setattr(display, "current_shell", lambda: None)
    wb.show(notebook.names["f"])
    assert capsys.readouterr().out == f"{graph}\n"


@pytest.mark.parametrize("shown", ["y", "np.cos(x)", "np.sum(n**2)", "np.tanh(n)"])
def test_an_expression_of_symbols_shows_without_values(
    notebook: Notebook, shown: str
) -> None:
    notebook.run(SYMBOLS)
    (bundle,) = notebook.run(f"wb.show({shown})").outputs
    assert set(bundle) == {MIME_TYPE, "image/svg+xml", "text/plain"}
    assert bundle["text/plain"].startswith("<Session 'ad': ")


def test_what_cannot_be_shown_is_said() -> None:
    with pytest.raises(UsageError, match=r"not ndarray.*wb.show\(wb.trace\(f\)"):
        wb.show(np.ones(3))


def test_show_names_the_parts_in_order(notebook: Notebook) -> None:
    notebook.run("w = np.array([0.5, 1.0])")
    ran = notebook.run(
        "%%autodiff loss --show graph jacobian hessian check\n"
        "h = np.tanh(w)\nloss = np.sum(h**2)"
    )
    graph, *figures = ran.outputs
    assert set(graph) == {MIME_TYPE, "image/svg+xml", "text/plain"}
    # The picture is written anew in its place when the check has found something.
    figures = [figure for figure in figures if MIME_TYPE not in figure]
    kinds = [set(figure) for figure in figures]
    assert kinds == [{"application/vnd.plotly.v1+json", "text/plain"}] * 3
    assert [figure["text/plain"] for figure in figures] == [
        "<Jacobian ∂h / ∂w>",
        "<Hessian ∂²loss / ∂(w)²>",
        "<Gradient check of loss>",
    ]
    assert notebook.run("%%autodiff --show none\nnp.sum(w)").outputs == []


def test_a_part_that_cannot_be_shown_is_an_error_at_the_line(
    notebook: Notebook,
) -> None:
    notebook.run("big = np.ones(70_000)")
    ran = notebook.run(
        "%%autodiff loss --show graph hessian\nloss = big @ big", ok=False
    )
    assert len(ran.outputs) == 1
    assert "----> 1 %%autodiff loss --show graph hessian" in ran.text
    assert "70,000 × 70,000 entries" in ran.text
    assert "workbench/" not in ran.text
    assert isinstance(notebook.names["ad"], Session)


def test_a_cell_run_again_has_one_live_picture(notebook: Notebook) -> None:
    notebook.run("w = np.array([0.5, 1.0])")
    notebook.run("%%autodiff\nnp.sum(w)")
    first = notebook.names["ad"]
    widget = display.load_widget(first)
    notebook.run("%%autodiff\nnp.sum(w) * 2")
    assert widget.comm is None
    assert display.load_widget(notebook.names["ad"]).comm is not None
    notebook.names["keep"] = first
    notebook.run("keep.show()")
    assert display.load_widget(first).comm is not None


@pytest.mark.parametrize("routes", [True, False])
def test_what_a_page_says_goes_where_it_asks(
    session: Session, monkeypatch: pytest.MonkeyPatch, routes: bool
) -> None:
    """ipykernel 7.4 would answer from elsewhere; others have no such method."""

    class Plain(comm.DummyComm):  # type: ignore[misc]
        pass

    class Routing(Plain):
        def _reply_subshell_for(self, data: object, asked: str | None) -> str | None:
            return None  # where the kernel has written last: the main shell

    monkeypatch.setattr(comm, "create_comm", Routing if routes else Plain)
    widget = display.load_widget(session)
    if routes:
        assert widget.comm._reply_subshell_for({}, "lane") == "lane"
        assert widget.comm._reply_subshell_for({}, None) is None
    else:
        assert not hasattr(widget.comm, "_reply_subshell_for")
    sent: list[Any] = []
    outbox = widget._link._outbox
    monkeypatch.setattr(outbox, "_send", lambda said, _: sent.append(said))
    widget._handle_custom_msg({"type": "event", "event": "hello", "schema": 1}, [])
    assert [kind_of(said) for said in sent] == ["snapshot"]
    display.close_picture(session)
