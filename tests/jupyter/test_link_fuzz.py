"""Whatever a page sends: nothing is raised, and nothing changes but what it may."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page, model
from workbench.session import Session
from workbench.session.wire.protocol.requests import REQUESTS

EVENTS = ["hello", "ack", "stop", "nonsense", "", *REQUESTS]
FIELDS = [
    "request", "of", "node", "target", "rule", "label", "id", "enabled", "to", "steps",
    "finding", "plot", "wrt", "window", "schema", "seq", "more",
]  # fmt: skip
JUNK: list[Any] = [
    None, True, False, -1, 0, 1, 7, 10**30, -(10**30), 1.5, math.nan, math.inf, "", "x",
    "\x00", "\ud83d", "x" * 5000, "__import__('os')", "jacobian", [], [0], [[0]],
    ["a"] * 50, {}, {"kind": "node"}, {"kind": "node", "node": -5},
    {"kind": "op", "op": "tanh"},
    {"kind": "scope", "scope": ""}, {"kind": "other", "text": "x"}, {"rows": [0, 1]},
    {"rows": [0, 1], "columns": [3, 2]}, {"rows": "ab", "columns": None}, b"bytes",
    {1: 2}, object(), lambda: None,
]  # fmt: skip


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(model)(np.array([0.5, 1.0]), np.array([2.0, -1.0])))


def message(rng: np.random.Generator) -> Any:
    """One message, near enough to a real one to get far."""
    if rng.random() < 0.02:
        return JUNK[rng.integers(len(JUNK))]
    made: dict[str, Any] = {"type": "event", "seq": 1, "request": int(rng.integers(9))}
    made["event"] = EVENTS[rng.integers(len(EVENTS))]
    for _ in range(int(rng.integers(7))):
        made[FIELDS[rng.integers(len(FIELDS))]] = JUNK[rng.integers(len(JUNK))]
    if rng.random() < 0.05:
        made["event"] = JUNK[rng.integers(len(JUNK))]
    return made


def test_five_thousand_messages_that_are_none(
    session: Session, rng: np.random.Generator
) -> None:
    page = Page(session, start=lambda work: None)  # long work is another test's
    page.hello()
    page.wait(1)
    state, answered = session._state, 0
    for _ in range(5000):
        page.link.receive(message(rng))
        page.now += 0.01
        assert session._state is state
        answered += len(page.take())
    assert session.report is None
    assert session.findings is None
    assert answered > 2500
    page.unread = [page.link._outbox.state]  # the last state, which waits to be read
    page.acknowledge()
    page.wait(1)
    assert page.shows(session)


def test_random_commands_leave_a_page_that_knows_the_session(
    session: Session, rng: np.random.Generator
) -> None:
    """Commands that may succeed, mixed with those that fail: both sides agree."""
    page = Page(session)
    page.hello()
    targets = [
        {"kind": "op", "op": "tanh"},
        {"kind": "op", "op": "multiply"},
        {"kind": "scope", "scope": "layer"},
        {"kind": "node", "node": 3},
        {"kind": "node", "node": 300},
    ]
    rules = ["0.5 * d", "clip(d, -0.1, 0.1)", "g", "mean(d)", "no", "safe_log", "true"]
    for k in range(250):
        pick = rng.integers
        fields: dict[str, Any] = {
            "id": int(pick(1, 8)),
            "target": targets[pick(len(targets))],
            "rule": rules[pick(len(rules))],
            "label": ["", "mine"][pick(2)],
            "enabled": bool(pick(2)),
            "to": int(pick(5)),
            "steps": int(pick(1, 4)),
        }
        event = ["override", "switch", "remove", "undo", "redo", "edit", "move"][
            pick(7)
        ]
        if event == "override" and pick(4):
            del fields["id"]
        page.send(event, request=k, **fields)
        page.wait(0.1)
        page.acknowledge()
        page.wait(0.1)
        if k % 10 == 0:
            assert page.shows(session)
    for _ in range(50):
        page.acknowledge()
        page.wait(0.1)
    assert page.shows(session)
    assert page.header["history"]["done"] == session.history.done[-200:]
