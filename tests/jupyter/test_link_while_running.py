"""A page that asks while a loop in the cell runs the session, in another thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.jupyter import answers
from workbench.jupyter.link import Link
from workbench.session import Session
from workbench.session.wire.protocol.requests import REQUESTS

SECONDS = 2.5


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def program(w: Any, x: Any) -> Any:
    with wb.scope("layer"):
        h = np.tanh(w * x)
    for _ in range(3):
        h = np.sin(h) + x
    last = wb.scan(lambda c: np.tanh(c * w), initial=[h], n_steps=4)[-1]
    return np.sum(last * last)


def fresh(name: str) -> Session:
    graph = wb.trace(program)(np.array([0.5, 0.7]), np.array([0.2, -0.3]))
    return Session(graph, wrt=["w"], name=name)


def list_questions(session: Session) -> list[dict[str, Any]]:
    """All that a page can ask, but for what ends a request."""
    labels = session.nodes.labels
    tanh = next(i for i, label in enumerate(labels) if label.startswith("tanh"))
    scan = next(i for i, label in enumerate(labels) if label.startswith("scan"))
    path = [{"node": scan, "step": 1}]
    target = {"kind": "node", "node": tanh}
    every = {"kind": "op", "op": "sin"}
    rule = {"rule": "0.5 * d", "label": ""}
    plots = [
        {"event": "plot", "plot": kind, "wrt": []}
        for kind in ("jacobian", "hessian", "singular", "sparsity", "steps")
    ]
    return [
        *({"event": "inspect", "node": i} for i in range(len(labels))),
        {"event": "inspect-inside", "node": 0, "path": path},
        {"event": "inside", "path": path},
        {"event": "norms", "node": tanh},
        {"event": "peers"},
        {"event": "moment", "step": 1},
        {"event": "peer", "name": "asked_other"},
        {"event": "check-expression", "target": target, "rule": "clip(d, -1, 1)"},
        {"event": "check-expression", "target": every, "rule": "2 * d"},
        {"event": "override", "target": target, **rule},
        {"event": "preview", "node": tanh, "target": target, "rule": "d"},
        {"event": "override", "target": every, **rule},
        {"event": "move", "id": "last", "to": 0},
        {"event": "switch", "id": "last", "enabled": False},
        {"event": "edit", "id": "last", "rule": "3 * d", "label": ""},
        {"event": "check-expression", "target": every, "rule": "d", "id": "last"},
        {"event": "undo"},
        {"event": "redo"},
        {"event": "remove", "id": "last"},
        {"event": "check"},
        {"event": "diagnose"},
        {"event": "profile"},
        {"event": "simplify", "without": []},
        {"event": "program", "without": [], "step": 1},
        *plots,
    ]


class Asker:
    """A page in a thread of its own, which asks one question after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.got: list[dict[str, Any]] = []
        self.read = self.number = 0
        self.ended = threading.Event()
        self.broken: list[BaseException] = []
        self.link = Link(
            session,
            lambda message, _: self.got.append(message),
            is_running=lambda: True,
        )

    def send(self, event: str, **fields: Any) -> None:
        self.link.receive({"type": "event", "event": event, **fields})

    def acknowledge(self) -> None:
        while self.read < len(self.got):
            self.send("ack", of=self.got[self.read]["seq"])
            self.read += 1

    def ask(self, question: dict[str, Any]) -> None:
        """Ask, and wait for the end of what changes the session."""
        self.number += 1
        asked = {**question, "request": self.number}
        if asked.get("id") == "last":
            asked["id"] = self.session.overrides[-1].id
        self.send(**asked)
        self.acknowledge()
        while REQUESTS[asked["event"]].keeps and not self.is_over(self.number):
            self.acknowledge()
            time.sleep(1e-3)

    def is_over(self, number: int) -> bool:
        ends = [m for m in self.got if m["type"] in ("done", "failure")]
        return any(m["request"] == number for m in ends)

    def ask_on(self) -> None:
        try:
            self.send("hello", schema=1)
            questions = list_questions(self.session)
            while not self.ended.is_set():
                for question in questions:
                    self.ask(question)
        except BaseException as error:
            self.broken.append(error)


@pytest.mark.long
@pytest.mark.usefixtures("hasty")
def test_all_questions_are_answered_while_a_loop_runs() -> None:
    session, other = fresh("ad"), fresh("asked_other")
    answers.note_shown(other)
    session.run(w=session.values["w"])
    page = Asker(session)
    thread = threading.Thread(target=page.ask_on)
    thread.start()
    w, runs, until = session.values["w"], 0, time.monotonic() + SECONDS
    try:
        while thread.is_alive() and time.monotonic() < until:
            session.run(w=w)
            other.run(w=w)
            runs += 1
            w = 0.5 + 0.1 * np.cos(w + session.grads["w"])
            # What a cell may do in a step.
            for i, node in enumerate(session.graph.nodes):
                assert session.nodes.find(node) == i
            h = session[2]
            assert np.array_equal(session.values[h], h.value)
            assert session.cotangents[h].shape == h.shape
            assert repr(session)
            assert repr(session.timeline)
    finally:
        page.ended.set()
        while thread.is_alive():  # long requests end with a state that is sent
            session.run(w=w)
    assert not page.broken
    while page.link._jobs._running():
        time.sleep(0.01)
    failures = {m["message"] for m in page.got if m["type"] == "failure"}
    # One that asks faster than the machine draws is told to wait.
    assert not {text for text in failures if "are computed at the moment" not in text}
    assert runs > 1
    assert page.number >= len(list_questions(session))
    page.link.close()
