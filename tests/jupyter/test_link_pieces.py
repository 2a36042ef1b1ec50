"""Large states go out in pieces, and the last state always arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page, kind_of, model
from workbench.jupyter import sending
from workbench.jupyter.sending import SLOWEST
from workbench.session import Session


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut all that has a column."""
    monkeypatch.setattr(sending, "PIECE", 200)
    monkeypatch.setattr(sending, "WHOLE", 10)


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(model)(np.array([0.5, 1.0]), np.array([2.0, -1.0])))


@pytest.fixture
def page(session: Session) -> Page:
    return Page(session)


def types(messages: list[dict[str, Any]]) -> list[str]:
    return [kind_of(message) for message in messages]


def settle(page: Page) -> list[dict[str, Any]]:
    """Acknowledge what comes until nothing does."""
    found: list[dict[str, Any]] = []
    while page.got:
        found += page.take()
        page.acknowledge()
        page.wait(1)
    return found


def test_each_piece_waits_for_the_one_before(session: Session, page: Page) -> None:
    page.send("hello", schema=1)
    for k in range(4):
        page.wait(1)
        assert types(page.got) == ["piece"]
        (piece,) = page.take()
        assert piece["start"] == 200 * k
        page.send("ack", of=piece["seq"] - 1)  # of another message
        assert page.got == []
        page.send("ack", of=piece["seq"])
        page.send("ack", of=piece["seq"])  # of a second page
    assert types(settle(page))[-2:] == ["piece", "snapshot"]
    assert page.shows(session)
    session.override("tanh", "2 * d")
    assert set(types(settle(page))) == {"piece", "patch"}
    assert page.shows(session)


def test_what_changes_between_the_pieces_follows(session: Session, page: Page) -> None:
    page.hello()
    page.take()
    session.override("tanh", "2 * d")
    session.override("multiply", "3 * d")
    page.send("switch", request=4, id=1, enabled=False)
    page.wait(1)
    assert page.got == []
    page.acknowledge()
    told = [m for m in settle(page) if m["type"] != "piece"]
    assert types(told) == ["snapshot", "patch"]
    assert told[1]["of"] == told[0]["seq"]
    assert told[1]["answers"] == 4
    assert page.shows(session)


def test_a_second_page_begins_anew(session: Session, page: Page) -> None:
    page.hello()
    page.acknowledge()
    page.take()
    page.send("hello", schema=1)
    (piece,) = page.take()
    assert piece["start"] == 0
    assert piece["first"] == piece["seq"]
    page.acknowledge()
    page.wait(1)
    assert types(settle(page))[-1] == "snapshot"
    assert page.shows(session)


def test_a_lost_piece_is_asked_for_again(session: Session, page: Page) -> None:
    page.send("hello", schema=1)
    lost = page.take()
    page.send("hello", schema=1, again=True)
    assert page.take() == []  # it may be on its way
    page.wait(2 * 200 / SLOWEST)
    page.send("hello", schema=1, again=True)
    (piece,) = page.got
    assert piece["first"] > lost[0]["first"]
    settle(page)
    assert page.shows(session)


def test_long_work_is_done_after_the_last_piece(session: Session, page: Page) -> None:
    page.hello()
    settle(page)
    page.send("check", request=3)
    page.wait(1)
    assert "done" not in types(page.got)
    told = settle(page)
    assert types(told)[-2:] == ["patch", "done"]
    assert page.shows(session)


def test_a_state_that_is_given_up_still_ends_its_requests(
    session: Session, page: Page
) -> None:
    page.hello()
    settle(page)
    page.send("check", request=3)
    assert types(page.take())[-1] == "piece"
    page.send("hello", schema=1)
    assert types(settle(page))[-2:] == ["snapshot", "done"]


def test_a_closed_link_sends_no_more_pieces(page: Page) -> None:
    page.send("hello", schema=1)
    page.take()
    page.link.close()
    page.acknowledge()
    assert page.got == []


def test_the_last_state_arrives_whatever_happens(
    session: Session, page: Page, rng: np.random.Generator
) -> None:
    page.hello()
    for k in range(200):
        match int(rng.integers(7)):
            case 0:
                session.run(w=rng.standard_normal(2))
            case 1:
                page.send("override", request=k, label="", rule=f"{1 + k} * d",
                          target={"kind": "op", "op": "tanh"})  # fmt: skip
            case 2:
                page.send("undo", request=k, steps=1)
            case 3 if rng.random() < 0.2:
                page.send("hello", schema=1, again=bool(rng.integers(2)))
            case 4:
                page.send("ack", of=int(rng.integers(page.seq + 9)))  # a second page
            case _:
                page.acknowledge()
        page.wait(0.03)
    page.got = [{"type": "start"}]
    settle(page)
    assert page.shows(session)
