"""Long requests of a page: checks, the doctor, costs, plots; progress, stopping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page, kind_of, model
from workbench.checks.doctor.finding import Findings
from workbench.checks.report import Report
from workbench.errors import LoopStoppedError
from workbench.jupyter import answers, jobs
from workbench.session import Session
from workbench.session.wire import read_saved, save_snapshot, take_snapshot
from workbench.session.wire.protocol.fields import STATUSES


class Wrong(wb.Op):
    """The sine, with a rule that is off by a factor."""

    name = "wrong_sine_of_the_link"

    def infer(self, x: Any) -> Any:
        return x

    def compute(self, x: Any) -> Any:
        return np.sin(x)

    def vjp(self, node: Any, g: Any) -> Any:
        return 2 * g * np.cos(node.inputs[0])


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(model)(np.array([0.5, 1.0]), np.array([2.0, -1.0])))


@pytest.fixture
def page(session: Session) -> Page:
    return opened(session)


def opened(session: Session, start: Callable[..., Any] | None = None) -> Page:
    """A page that has seen the session and is ready for the next patch."""
    made = Page(session) if start is None else Page(session, start)
    made.hello()
    made.take()
    made.wait(1)
    return made


def test_G5_a_check_paints_the_node_whose_rule_is_wrong() -> None:
    bad = Wrong()
    session = Session(wb.trace(lambda x: np.sum(bad(x) ** 2))(np.array([0.3, 0.8])))
    page = opened(session)
    page.send("check", request=5)
    patch, done = page.take()
    assert (done["type"], done["request"]) == ("done", 5)
    assert kind_of(patch) == "patch"
    assert patch["seq"] < done["seq"]
    (node,) = (i for i, x in enumerate(session.graph.nodes) if x.op.custom)
    assert page.columns["check"][node] == STATUSES.index("wrong")
    assert page.columns["check_ratio"][node] > 1
    check = page.header["check"]
    assert not check["ok"]
    assert not check["stale"]
    assert check["nodes"][0]["node"] == node
    assert check["nodes"][0]["status"] == "wrong"
    # 2 cos against cos, whichever entry it is.
    first = check["nodes"][0]
    assert first["got"] == pytest.approx(2 * first["expected"])
    assert sum(check["counts"].values()) == len(session.graph.nodes)
    assert check["counts"]["wrong"] == 1
    assert page.shows(session)
    page.acknowledge()
    page.wait(1)
    session.override(node, "0.5 * d")
    page.acknowledge()
    assert page.header["check"]["stale"]


def train_on_batches() -> Session:
    """Return a session after runs of which a few are kept."""
    session = Session(
        wb.trace(lambda w, x: np.sum((w * x) ** 2))(np.ones(2), np.ones(2)), wrt=["w"]
    )
    session.timeline.inputs.budget = 400
    w, random = np.ones(2), np.random.default_rng(0)
    for _ in range(40):
        session.run(w=w, x=random.normal(size=2))
        w = w - 0.001 * session.grads["w"]
    return session


def test_a_branch_that_fails_midway_is_drawn_as_far_as_it_came() -> None:
    session = train_on_batches()
    page = opened(session)
    page.send("run-again", request=4, step=1)
    patch, failure = page.take()
    assert (failure["type"], failure["request"]) == ("failure", 4)
    assert "step 4 needs its own x" in failure["message"]
    assert kind_of(patch) == "patch"
    (branch,) = page.header["branches"]
    assert (branch["step"], branch["count"]) == (1, 3)
    assert branch["losses"] == session.timeline.losses[:3].tolist()
    assert [one.branch_name for one in session.branches] == [branch["name"]]


def test_a_branch_that_cannot_begin_changes_nothing() -> None:
    session = train_on_batches()
    page = opened(session)
    page.send("run-again", request=4, step=99)
    (failure,) = page.take()
    assert (failure["type"], failure["request"]) == ("failure", 4)
    assert session.branches == []


def test_a_branch_that_is_stopped_before_its_first_run_is_done() -> None:
    session = train_on_batches()
    waiting: list[Callable[[], None]] = []
    page = opened(session, waiting.append)
    page.send("run-again", request=4, step=1)
    page.send("stop", request=5, of=4)
    page.acknowledge()
    waiting.pop()()
    page.acknowledge()
    page.wait(1)
    assert ("done", 4) in [(one["type"], one.get("request")) for one in page.take()]
    assert session.branches == []
    assert page.header["branches"] == []


def test_G3_the_doctor_finds_and_its_fix_is_attached() -> None:
    with np.errstate(divide="ignore"):
        graph = wb.trace(lambda x: np.sum(np.sqrt(x)))(np.array([0.0, 4.0]))
        session = Session(graph)
        page = opened(session)
    assert not np.isfinite(session.grads["x"]).all()
    page.send("diagnose", request=2)
    assert page.take()[-1] == {"type": "done", "request": 2, "seq": 3}
    found = page.header["findings"]
    assert not found["stale"]
    (node,) = (i for i, x in enumerate(session.graph.nodes) if x.op.name == "sqrt")
    first = found["list"][0]
    assert (first["node"], first["severity"]) == (node, "error")
    assert first["fix"]["attachable"]
    page.acknowledge()
    page.wait(1)
    page.send("fix", request=3, finding=0)
    assert np.isfinite(session.grads["x"]).all()
    np.testing.assert_allclose(session.grads["x"][1], 0.25)
    page.acknowledge()
    assert page.header["findings"]["stale"]
    assert page.header["overrides"][0]["matched"] == [node]


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_a_profile_says_what_nodes_cost(backend: str) -> None:
    start = np.array([0.5, 1.0]), np.array([2.0, -1.0])
    session = Session(wb.trace(model)(*start), backend=backend)
    page = opened(session)
    assert page.header["profile"] is None
    assert "value_time" not in page.columns
    page.send("profile", request=4)
    told = page.take()
    page.acknowledge()  # that compiled code is ready, where it was told before
    page.wait(1)
    assert "done" in {message["type"] for message in told + page.take()}
    profile = page.header["profile"]
    assert (profile["backend"], profile["stale"]) == (backend, False)
    columns = [page.columns[name] for name in ("value_time", "rule_time")]
    np.testing.assert_allclose(np.nansum(columns), profile["time"])
    ops = [x.op.name for x in session.graph.nodes]
    tanh = ops.index("tanh")
    assert np.isfinite([column[tanh] for column in columns]).all()
    assert np.isnan(page.columns["value_time"][0])
    if backend == "compiled":
        (step,) = profile["steps"]
        assert step["name"] == "kernel 1"
        assert "tanh" in step["ops"]
        assert page.columns["value_step"][tanh] == 0
    else:
        assert profile["steps"] == []
        assert page.columns["value_bytes"][tanh] == 32
    assert page.shows(session)
    saved = read_saved(save_snapshot(take_snapshot(session), "model"))
    assert saved.header["profile"] == profile
    np.testing.assert_array_equal(saved.columns["rule_time"], columns[1])
    page.acknowledge()
    page.wait(1)
    session.override(tanh, "0.5 * d")
    page.acknowledge()
    assert page.header["profile"]["stale"]


@pytest.mark.parametrize("finding", [-1, 1000, None, "0", 0.0])
def test_a_fix_that_is_none(page: Page, session: Session, finding: Any) -> None:
    page.send("fix", request=1, finding=finding)
    assert page.take()[-1]["type"] == "failure"
    page.send("diagnose", request=2)
    page.take()
    page.send("fix", request=3, finding=finding)
    assert page.take()[-1]["type"] == "failure"
    assert session.overrides == []


# In threads


class Slow:
    """A check that goes on until it is told to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hears: bool = True) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()
        self.steps = 0
        monkeypatch.setattr(Session, "check", self.check)
        monkeypatch.setattr(Session, "diagnose", self.diagnose)
        self.hears = hears

    def check(self, *_: Any, progress: Callable[[int, int], Any], **__: Any) -> Report:
        return Report("slow", 0, stopped=self.run(progress))

    def diagnose(self, progress: Callable[[int, int], Any]) -> Findings:
        return Findings((), "slow", self.run(progress))

    def run(self, progress: Callable[[int, int], Any]) -> bool:
        self.started.set()
        for k in range(100_000):
            self.steps = k
            if progress(k, 100_000) and self.hears:
                return True
            if self.go_on.is_set():
                return False
            time.sleep(0.001)
        raise AssertionError("nobody stopped it")


def test_one_long_request_at_a_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, page = Slow(monkeypatch), opened(session, jobs.start)
    page.send("check", request=1)
    assert slow.started.wait(10)
    page.send("diagnose", request=2)
    refused = page.until("failure", 2)
    assert refused["message"].startswith("The gradient check is still at work (")
    assert refused["message"].endswith("of 100000 nodes): wait for it, or stop it.")
    slow.go_on.set()
    page.until("done", 1)
    slow.go_on.clear()
    page.acknowledge()
    page.now += 1
    page.send("diagnose", request=3)
    slow.go_on.set()
    assert page.until("done", 3)


def test_a_check_that_is_stopped_gives_what_it_has(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, page = Slow(monkeypatch), opened(session, jobs.start)
    page.send("check", request=1)
    assert slow.started.wait(10)
    page.send("stop", request=2, of=1)
    while session.report is None:  # the page's clock stands still: no interrupt
        time.sleep(0.01)
    page.acknowledge()
    page.wait(1)
    page.until("done", 1)
    assert page.header["check"]["stopped"]
    assert session.report is not None
    page.send("stop", request=3, of=1)  # it is over
    page.send("stop", request=4, of=99)


def test_what_does_not_hear_is_interrupted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, page = Slow(monkeypatch, hears=False), opened(session, jobs.start)
    page.send("check", request=1)
    assert slow.started.wait(10)
    page.send("stop", request=2, of=1)
    assert not any(m["type"] == "failure" for m in page.got)
    page.wait(1.5)  # its patience is at an end
    assert page.until("failure", 1)["message"] == "Stopped."
    page.send("check", request=3)
    page.send("stop", request=4, of=3)
    page.send("stop", request=5, of=3)  # twice: at once
    assert page.until("failure", 3)["message"] == "Stopped."


def test_an_interrupt_of_the_kernel_stops_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, page = Slow(monkeypatch, hears=False), opened(session, jobs.start)
    page.send("diagnose", request=1)
    assert slow.started.wait(10)
    jobs.stop()
    assert page.until("failure", 1)["message"] == "Stopped."
    assert session.findings is None


def test_what_was_found_meanwhile_is_stale(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, page = Slow(monkeypatch), opened(session, jobs.start)
    page.send("diagnose", request=1)
    assert slow.started.wait(10)
    session.override("tanh", "0.5 * d")
    page.acknowledge()
    page.wait(1)
    slow.go_on.set()
    page.until("done", 1)
    assert page.header["findings"]["stale"]
    assert session.stale == {"findings"}
    session.undo()  # the values are those, but it is another state
    assert session.findings is not None


def test_progress_is_said_five_times_a_second(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(session)

    def check(*_: Any, progress: Callable[[int, int], Any], **__: Any) -> Report:
        for k in range(1000):
            page.now += 0.01
            progress(k + 1, 1000)
        return Report("slow", 0)

    monkeypatch.setattr(Session, "check", check)
    page.send("check", request=4)
    told = [m for m in page.take() if m["type"] == "progress"]
    assert 45 <= len(told) <= 51  # in ten seconds
    assert {m["request"] for m in told} == {4}
    for m in told:
        assert m["total"] == 1000
        assert m["left"] == pytest.approx((1000 - m["done"]) * 0.01)


def test_a_job_that_fails_says_so_and_makes_room(
    session: Session, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: Any, **__: Any) -> Report:
        raise ZeroDivisionError("a rule of yours")

    with monkeypatch.context() as patched:
        patched.setattr(Session, "check", check)
        page.send("check", request=1)
    (failure,) = page.take()
    assert failure["message"] == "ZeroDivisionError: a rule of yours"
    page.send("check", request=2)
    assert page.take()[-1]["type"] == "done"


def test_a_thread_that_cannot_start_makes_room(session: Session) -> None:
    def start(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    page = opened(session, start)
    for request in (1, 2):
        page.send("check", request=request)
        assert "can't start new thread" in page.take()[-1]["message"]


# Plots


def test_plots_have_windows_matrices_and_views(page: Page, session: Session) -> None:
    window = {"rows": [0, 1], "columns": [0, 2]}
    tanh = next(i for i, x in enumerate(session.graph.nodes) if x.op.name == "tanh")
    page.send("plot", request=1, plot="jacobian", of=tanh, wrt=[0], window=window)
    (plot,) = page.take()
    assert plot["type"] == "plot", plot
    assert plot["matrix"]["window"] == window
    assert (plot["matrix"]["of"], plot["matrix"]["wrt"]) == (tanh, [0])
    assert "sparsity" in plot["views"]
    for kind in plot["views"]:
        page.send("plot", request=2, plot=kind, of=tanh, wrt=[0], window=None)
        assert page.take()[-1]["type"] == "plot", kind


@pytest.mark.parametrize(
    "window",
    [
        3,
        [],
        {},
        {"rows": [0, 1]},
        {"rows": [0, 1], "columns": [0]},
        {"rows": [1, 0], "columns": [0, 1]},
        {"rows": [-1, 1], "columns": [0, 1]},
        {"rows": [0, 10**9], "columns": [0, 10**9]},
        {"rows": [0, 1.0], "columns": [0, 1]},
    ],
)
def test_windows_that_are_none(page: Page, window: Any) -> None:
    page.send("plot", request=1, plot="jacobian", of=2, wrt=[0], window=window)
    (answer,) = page.take()
    whole = window == {"rows": [0, 10**9], "columns": [0, 10**9]}
    assert answer["type"] == "failure" or whole


def test_a_plot_is_stopped(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        started.set()
        while True:
            time.sleep(0.001)

    jacobian = replace(answers.PLOTS["jacobian"], make=slow)
    monkeypatch.setitem(answers.PLOTS, "jacobian", jacobian)
    page = opened(session, jobs.start)
    page.send("plot", request=1, plot="jacobian", of=None, wrt=[], window=None)
    assert started.wait(10)
    page.send("plot", request=2, plot="hessian", of=None, wrt=[], window=None)
    assert page.until("plot", 2)  # the other does not wait
    page.send("stop", request=3, of=1)
    assert page.until("failure", 1)["message"] == "Stopped."


# How the derivative is simplified


@pytest.fixture
def quadratic() -> Iterator[Page]:
    session = Session(wb.trace(lambda x: x * x + x - 2)(3.0))
    yield opened(session)
    assert session.simplify().steps


def test_D2_the_page_gets_the_steps_and_the_program_at_each(quadratic: Page) -> None:
    quadratic.send("simplify", request=1, without=[])
    (answer,) = quadratic.take()
    assert (answer["type"], answer["request"]) == ("simplify", 1)
    assert [step["after"] for step in answer["steps"]] == [
        "x",
        "x",
        "2 * x",
        "2 * x + 1",
    ]
    quadratic.send("program", request=2, without=[], step=4)
    (program,) = quadratic.take()
    assert (program["type"], program["request"]) == ("program", 2)
    assert program["text"].endswith("= 2 * x + 1")
    listed = program["columns"]
    for column, buffer in zip(listed, quadratic.buffers[-1], strict=True):
        assert (column["dtype"], column["length"]) == (str(buffer.dtype), buffer.size)
    quadratic.send("simplify", request=3, without=["x plus x"])
    (answer,) = quadratic.take()
    assert "x plus x" not in [step["rule"] for step in answer["steps"]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"without": ["no such rule"]}, "no rewrite rule is called 'no such rule'"),
        ({"without": "x plus x"}, "without is 'x plus x', not a list"),
        ({"without": [["x"]]}, "without[0] is ['x'], not text"),
        ({"without": ["x" * 3000]}, "characters, more than 2000"),
        ({"without": ["x"] * 3000}, "has 3000 entries, more than 1000"),
        ({}, "without is missing"),
    ],
)
def test_rules_that_a_page_cannot_switch_off(
    quadratic: Page, fields: dict[str, Any], words: str
) -> None:
    quadratic.send("simplify", request=1, **fields)
    (answer,) = quadratic.take()
    assert (answer["type"], answer["request"]) == ("failure", 1)
    assert words in answer["message"]


@pytest.mark.parametrize("step", [-1, 1.5, "1", None])
def test_a_step_that_is_none(quadratic: Page, step: Any) -> None:
    quadratic.send("program", request=1, without=[], step=step)
    (answer,) = quadratic.take()
    assert answer["type"] == "failure"
    assert "step is" in answer["message"]


def test_a_simplification_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def rewrite_slowly(*_: Any) -> Any:
        begun.set()
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(answers, "list_rewrites", rewrite_slowly)
    session = Session(wb.trace(lambda x: x * x)(3.0))
    page = opened(session, jobs.start)
    page.send("simplify", request=1, without=[])
    assert begun.wait(20)
    page.send("stop", request=2, of=1)
    assert page.until("failure", 1)["message"] == "Stopped."


# Previews of rules, and derivatives without overrides


def test_a_preview_has_what_would_pass(page: Page, session: Session) -> None:
    tanh = next(i for i, x in enumerate(session.graph.nodes) if x.op.name == "tanh")
    target = {"kind": "op", "op": "tanh"}
    page.send("preview", request=1, node=tanh, target=target, rule="0.5 * d")
    (found,) = page.take()
    assert (found["type"], found["request"], found["node"]) == ("preview", 1, tanh)
    (sent,) = found["passed"]
    # By hand: the derivative of sum(tanh(z)²) is 2 tanh(z) (1 - tanh(z)²).
    t = np.tanh(np.array([0.5, 1.0]) * np.array([2.0, -1.0]))
    true = np.linalg.norm(2 * t * (1 - t**2))
    assert sent["before_norm"] == pytest.approx(true)
    assert sent["after_norm"] == pytest.approx(true / 2)
    assert sent["change"] == pytest.approx(0.5)
    assert sum(sent["before"]["counts"]) == sum(sent["after"]["counts"]) == 2
    assert session.overrides == []
    page.send("preview", request=2, node=tanh, target=target, rule="clip(q)")
    (refused,) = page.take()
    assert (refused["type"], refused["request"]) == ("failure", 2)
    assert "q" in refused["message"]
    page.send("preview", request=3, node=999, target=target, rule="d")
    assert page.take()[-1]["type"] == "failure"


def test_a_preview_is_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, over = threading.Event(), threading.Event()

    def slow(*args: Any, **settings: Any) -> Any:
        entered.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            over.set()

    monkeypatch.setattr(type(session), "preview", slow)
    page = opened(session, jobs.start)
    target = {"kind": "op", "op": "tanh"}
    page.send("preview", request=1, node=2, target=target, rule="0.5 * d")
    assert entered.wait(10)
    page.send("stop", request=2, of=1)
    assert over.wait(10)


def test_a_plot_tells_the_overrides_and_shows_the_truth(
    page: Page, session: Session
) -> None:
    tanh = next(i for i, x in enumerate(session.graph.nodes) if x.op.name == "tanh")
    session.override(tanh, "0 * d", name="halt")
    page.take()
    told = {}
    for request, overrides in enumerate((True, False)):
        page.send(
            "plot", request=request, plot="jacobian", of=tanh, wrt=[0], window=None,
            overrides=overrides,
        )  # fmt: skip
        told[overrides] = page.take()[-1]
    label = f"halt at {session.nodes.labels[tanh]}"
    assert told[True]["overrides"] == told[False]["overrides"] == [label]
    assert (told[True]["is_true"], told[False]["is_true"]) == (False, True)
    assert (told[True]["verdict"], told[False]["verdict"]) == ("changed", None)
    assert told[True]["zero"] == f"stopped by {label}"
    assert told[False]["zero"] == ""


def test_H1_a_page_puts_a_stop_on_a_gradient_and_takes_it_off() -> None:
    session = Session(wb.trace(lambda w: np.sum(w**4))(np.ones(2)), name="fit")
    page = opened(session)
    page.send("stop-when", request=2, node=0, not_finite=False, norm_above=20.0)
    page.acknowledge()
    (stop,) = page.header["stops"]
    assert stop["nodes"] == [0]
    assert stop["text"] == "the gradient of w has a norm above 20"
    w = np.ones(2)

    def train() -> None:
        nonlocal w
        for _ in range(9):
            session.run(w=w)
            w = w + 0.1 * session.grads["w"]

    with pytest.raises(LoopStoppedError, match="stopped at run 3: the gradient of w"):
        train()
    page.acknowledge()
    page.send("stop-no-more", request=3, id=stop["id"])
    page.acknowledge()
    page.wait(1)
    assert page.header["stops"] == session.stops == []
    session.run(w=w)
    page.take()
    page.send("stop-no-more", request=4, id=stop["id"])
    failures = [one for one in page.take() if one["type"] == "failure"]
    assert f"no stop condition {stop['id']}" in failures[-1]["message"]
    page.send("stop-when", request=5, node=0, norm_above=-1.0)
    failures = [one for one in page.take() if one["type"] == "failure"]
    assert "a finite number from 0 on, not -1.0" in failures[-1]["message"]
