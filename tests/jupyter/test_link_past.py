"""What a page asks about a run of the past is answered from that run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page
from workbench.session.wire import take_snapshot
from workbench.session.wire.protocol.requests import REQUESTS

#: What is asked about all runs, or about other sessions.
OF_ALL_RUNS = {"moment", "norms", "runs", "run-again", "peers", "peer"}
#: What is asked of each other question and job.
ASKED: dict[str, dict[str, Any]] = {
    "array": {"node": 0, "quantity": "gradient", "index": []},
    "details": {},
    "array-history": {"node": 0, "quantity": "value", "index": []},
    "entry": {"node": 0, "index": 0},
    "inspect": {"node": 2},
    "inspect-inside": {"path": [{"node": 3, "step": 1}], "node": 2},
    "inside": {"path": [{"node": 3, "step": 1}]},
    "lesson": {},
    "simplify": {"without": []},
    "program": {"without": [], "step": 0},
    "plot": {"plot": "jacobian", "wrt": [0]},
    "preview": {
        "node": 1,
        "target": {"kind": "op", "op": "tanh"},
        "rule": "0.5 * d",
    },
    "check-expression": {"target": {"kind": "op", "op": "tanh"}, "rule": "0.5 * d"},
    "check": {},
    "diagnose": {},
    "profile": {},
}
WEIGHTS = [np.array([0.5, -0.25]), np.array([1.5, 0.75]), np.array([-2.0, 3.0])]


def program(w: Any) -> Any:
    h = np.tanh(w)
    h = h * w
    walk = wb.scan(lambda s: np.tanh(s) * 0.5, initial=[h], n_steps=3)
    return np.sum(walk[-1] ** 2)


def make(runs: int) -> wb.Session:
    """A session after so many runs; the second one has an override."""
    session = wb.Session(wb.trace(program)(np.ones(2)))
    for k in range(runs):
        if k == 1:
            session.override("tanh", "0.5 * d")
        if k == 2:
            session.undo()
        session.run(w=WEIGHTS[k])
    return session


class HoldingPage(Page):
    """A page whose session lives as long as it does."""

    def __init__(self, session: wb.Session) -> None:
        super().__init__(session)
        self.session = session


def opened(session: wb.Session) -> Page:
    page = HoldingPage(session)
    page.hello()
    page.take()
    page.wait(1)
    return page


def answer(page: Page, name: str, **fields: Any) -> tuple[dict[str, Any], list[Any]]:
    """Ask; return the answer and its buffers."""
    page.take()
    page.buffers = []
    page.send(name, request=7, **{**ASKED.get(name, {}), **fields})
    (place,) = (k for k, m in enumerate(page.got) if m["type"] in (name, "failure"))
    found = {k: v for k, v in page.got[place].items() if k != "seq"}
    return found, page.buffers[place]


def test_every_question_is_asked_here() -> None:
    asked = {one.name for one in REQUESTS.values() if one.kind != "command"}
    assert asked == OF_ALL_RUNS | set(ASKED), "a new one is named above"


@pytest.mark.parametrize("name", sorted(n for n in ASKED if REQUESTS[n].keeps is None))
@pytest.mark.parametrize("step", [1, 2])
def test_a_question_about_a_run_is_answered_by_that_run(name: str, step: int) -> None:
    then, _ = answer(opened(make(step)), name)
    page = opened(make(3))
    found, buffers = answer(page, name, at=step)
    assert found == then
    _, expected = answer(opened(make(step)), name)
    for one, other in zip(buffers, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    now, _ = answer(page, name)
    if name not in ("check-expression", "simplify"):
        assert now != then or buffers, "of now it says something else"


def test_what_is_found_of_a_run_is_shown_there_and_not_now() -> None:
    session = make(3)
    page = opened(session)
    for name in ("check", "diagnose", "profile"):
        page.send(name, request=3, at=2)
        assert page.until("done", 3)
        page.take()
    assert (session.report, session.findings, session.last_profile) == (None,) * 3
    page.send("moment", request=4, step=2)
    moment = page.until("moment", 4)
    assert moment["header"]["check"]["stale"] is False
    assert moment["header"]["findings"]["stale"] is False
    assert moment["header"]["profile"]["backend"] == "numpy"
    page.take()
    page.send("moment", request=5, step=1)
    assert page.until("moment", 5)["header"]["check"] is None


def test_a_run_that_is_not_kept_is_refused_in_words() -> None:
    page = opened(make(3))
    failure, _ = answer(page, "inspect", at=9)
    assert failure["type"] == "failure"
    assert "ad.at(9): there were 3 runs, counted from 1" in failure["message"]
    failure, _ = answer(page, "inspect", at=0)
    assert failure["type"] == "failure"


def test_the_doctor_of_a_page_begins_at_the_first_bad_run() -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(np.log(w)))(np.ones(2)))
    with np.errstate(all="ignore"):
        for low in (1.0, -1.0, np.nan, np.nan):
            session.run(w=np.array([low, 2.0]))
    page = opened(session)
    assert page.header["timeline"]["first_bad"] == 2
    page.send("diagnose", request=3)
    page.until("done", 3)
    page.wait(1)
    findings = page.header["findings"]
    assert findings["step"] == 2
    assert not findings["stale"]
    (node,) = {one["node"] for one in findings["list"]}
    assert session.nodes.labels[node] == "log 1"
    assert page.shows(session)


def test_a_fix_of_a_run_is_attached_to_the_session() -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(np.sqrt(w)))(np.ones(2)))
    with np.errstate(all="ignore"):
        for low in (1.0, 2.0, 0.0, np.nan, 4.0):
            session.run(w=np.array([low, 1.0]))
    page = opened(session)
    failure, _ = fix(page, at=3)
    assert "no findings of run 3" in failure["message"]
    assert session.overrides == []
    page.send("diagnose", request=3, at=4)
    page.until("done", 3)
    page.take()
    _, messages = fix(page, at=4)
    assert "failure" not in {one["type"] for one in messages}
    (entry,) = session.overrides
    assert entry.matched == (session.nodes.find("sqrt 1"),)


def fix(page: Page, at: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Ask for the first fix of a run; return the last message, and all."""
    page.take()
    page.send("fix", request=8, finding=0, at=at)
    messages = page.take()
    return messages[-1], messages


def test_a_picture_of_a_run_has_the_numbers_of_a_session_that_stands_there() -> None:
    page = opened(make(3))
    for step in (1, 2):
        moment, buffers = answer(page, "moment", step=step)
        then = take_snapshot(make(step))
        assert (moment["step"], moment["whole"]) == (step, True)
        for column, buffer in zip(moment["columns"], buffers, strict=True):
            name = column["name"]
            if name in then.columns:
                np.testing.assert_array_equal(buffer, then.columns[name], name)
        for key in ("output_value", "overrides", "loops"):
            assert moment["header"][key] == then.header[key], key
