"""The kernel's end of the wire: what a page asks, and what it may not break."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page, kind_of, model
from workbench.jupyter import link
from workbench.session import Session
from workbench.session.wire import take_snapshot
from workbench.session.wire.protocol.events import PAGE_REQUESTS


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(model)(np.array([0.5, 1.0]), np.array([2.0, -1.0])))


@pytest.fixture
def page(session: Session) -> Page:
    made = Page(session)
    made.hello()
    made.take()
    made.wait(1)
    return made


def test_hello_is_answered_by_everything(session: Session) -> None:
    page = Page(session)
    assert page.got == []
    page.send("hello", schema=1)
    assert [kind_of(m) for m in page.got] == ["snapshot"]
    assert page.shows(session)


def test_an_override_changes_the_session_and_the_page(
    session: Session, page: Page
) -> None:
    (node,) = (i for i, x in enumerate(session.graph.nodes) if x.op.name == "tanh")
    page.send(
        "override",
        request=1,
        target={"kind": "node", "node": node},
        rule="clip(d, -0.1, 0.1)",
        label="clip",
    )
    (patch,) = page.take()
    assert kind_of(patch) == "patch"
    assert np.abs(session.cotangents[node - 1]).max() == pytest.approx(0.1)
    assert patch["header"]["overrides"][0]["label"] == "clip"
    assert {"grad_stats", "true_stats", "override"} <= {
        c["name"] for c in patch["columns"]
    }
    assert "value_stats" not in {c["name"] for c in patch["columns"]}
    assert page.shows(session)


def test_commands_and_their_undoing(session: Session, page: Page) -> None:
    true = session.grads["w"]
    target = {"kind": "op", "op": "tanh"}
    for request, (event, fields) in enumerate(
        [
            ("override", {"target": target, "rule": "2 * d", "label": ""}),
            ("override", {"id": 1, "target": target, "rule": "3 * d", "label": "x"}),
            ("switch", {"id": 1, "enabled": False}),
            ("switch", {"id": 1, "enabled": True}),
            ("remove", {"id": 1}),
            ("undo", {}),
            ("undo", {}),
            ("redo", {}),
        ],
        1,
    ):
        page.send(event, request=request, **fields)
        (patch,) = page.take()
        assert kind_of(patch) == "patch", patch
        assert {"undo", "redo"} <= patch["header"].keys(), "the command is answered"
        assert patch["answers"] == request
        page.send("ack", of=patch["seq"])
        page.wait(0.1)
        factors = {2: 3, 4: 3, 6: 3, 8: 3}
        factor = 2 if request == 1 else factors.get(request, 1)
        np.testing.assert_allclose(session.grads["w"], factor * true)
    page.header.pop("columns", None)
    assert page.shows(session)


def test_states_tell_the_last_command_that_they_include(
    session: Session, page: Page
) -> None:
    answered = []
    for request in (4, 0, 9):
        if request:
            page.send("undo" if session.history.undo else "stop", request=request, of=1)
        else:
            session.override("tanh", "2 * d")  # not by the page
        (patch,) = page.take()
        answered.append(patch["answers"])
        page.send("ack", of=patch["seq"])
        page.wait(0.1)
    assert answered == [4, 4, 9]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("override", {"target": {"kind": "op", "op": "sum"}, "rule": "d", "label": ""}),
        ("override", {"id": 1, "target": {"kind": "op", "op": "sum"}, "rule": "d",
                      "label": "", "steps": ""}),
        ("edit", {"id": 1, "rule": "3 * d", "label": ""}),
        ("switch", {"id": 1, "enabled": False}),
        ("remove", {"id": 1}),
        ("move", {"id": 1, "to": 0}),  # where it stands already
        ("undo", {}),
        ("check", {}),
        ("stop", {"of": 99}),
    ],
)  # fmt: skip
def test_a_command_is_one_change_one_look_and_one_patch(
    session: Session,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
    event: str,
    fields: dict[str, Any],
) -> None:
    session.override("tanh", "2 * d")
    page.acknowledge()
    page.wait(1)
    page.take()
    looked = []

    def counted(*args: Any, **settings: Any) -> Any:
        looked.append(args)
        return take_snapshot(*args, **settings)

    monkeypatch.setattr(link, "take_snapshot", counted)
    heard: list[str] = []
    session.subscribe(heard.append)
    page.send(event, request=1, **fields)
    page.wait(1)
    page.acknowledge()
    page.wait(1)
    assert [kind_of(m) for m in page.take()].count("patch") == 1
    assert len(looked) == 1
    assert len(heard) == (event not in ("move", "stop"))


def test_in_a_large_program_effects_follow_the_gradients(
    session: Session, page: Page
) -> None:
    session.override("tanh", "2 * d")
    page.acknowledge()
    page.wait(1)
    assert session.truth is not None
    session.truth.seconds = 10.0  # as if a sweep took so long
    page.take()
    session.override("tanh", "3 * d")  # its effects, alone, need a sweep
    page.wait(1)
    (first,) = [m for m in page.take() if kind_of(m) == "patch"]
    assert not all(one["effects"] for one in first["header"]["overrides"])
    effects: list[Any] = []
    for _ in range(3):
        page.acknowledge()
        page.wait(1)
        for message in page.take():
            effects = message.get("header", {}).get("overrides", effects)
    assert all(one["effects"] for one in effects)


@pytest.fixture
def looped() -> Session:
    def f(w: Any) -> Any:
        return np.sum(wb.scan(lambda h, w: np.tanh(w * h), None, [w], w, n_steps=9))

    return Session(wb.trace(f)(np.full(2, 0.5)))


def test_steps_of_a_loop_are_shown_kept_and_set(looped: Session) -> None:
    """An edited rule holds in the steps in which it held, or in those that are sent."""
    page = Page(looped)
    page.hello()
    page.take()
    target = {"kind": "op", "op": "tanh"}
    for request, (event, fields, steps, words, text) in enumerate(
        [
            ("override", {"steps": "2:4"}, slice(2, 4), " in steps 2 to 3", "2:4"),
            ("override", {"id": 1}, slice(2, 4), " in steps 2 to 3", "2:4"),
            ("edit", {"id": 1}, slice(2, 4), " in steps 2 to 3", "2:4"),
            ("edit", {"id": 1, "steps": " -1 "}, -1, " in the last step", "-1"),
            (
                "edit",
                {"id": 1, "steps": "::3"},
                slice(None, None, 3),
                " in steps ::3",
                "::3",
            ),
            ("override", {"id": 1, "steps": ""}, None, "", ""),
        ],
        1,
    ):
        rule = f"{request} * d"
        fields |= {"target": target, "rule": rule, "label": ""}
        page.send(event, request=request, **fields)
        page.wait(1)
        assert [kind_of(m) for m in page.take()] == ["patch"]
        (one,) = looped.overrides
        assert (one.id, one.rule, one.override.steps) == (1, rule, steps)
        assert one.where == f"every tanh{words}"
        assert repr(one).startswith(f"<override 1: scale ×{request} on {one.where};")
        assert looped.history.done[-1].endswith(f"every tanh{words}")
        assert repr(one.override).endswith(f"every tanh{words}>")
        page.acknowledge()
        page.wait(1)
        assert page.header["overrides"][0]["steps"] == text
    assert looped.code() == "ad.override('tanh', vjp='6 * d')"


@pytest.mark.parametrize(
    "steps", ["x", "1.5", "1:2:3:4", "1e3", "9" * 30, "::0", "3,4"]
)
def test_what_names_no_steps_is_refused(looped: Session, steps: str) -> None:
    page = Page(looped)
    target = {"kind": "op", "op": "tanh"}
    fields = {"target": target, "rule": "2 * d", "label": "", "steps": steps}
    page.send("override", request=1, **fields)
    (answer,) = page.take()
    assert answer["type"] == "failure"
    assert "names no" in answer["message"]
    assert looped.overrides == []


def test_steps_of_a_node_in_no_loop_are_refused(session: Session, page: Page) -> None:
    target = {"kind": "op", "op": "tanh"}
    fields = {"target": target, "rule": "2 * d", "label": "", "steps": "3"}
    page.send("override", request=1, **fields)
    (answer,) = page.take()
    assert answer["type"] == "failure"
    assert "target a node in the step of wb.scan" in answer["message"]
    assert session.overrides == []


def test_every_kind_of_target_can_be_edited(looped: Session) -> None:
    page = Page(looped)
    scan = looped.nodes.labels[-2]
    for target in (
        "tanh",
        scan,
        wb.pattern(lambda x: np.sum(x)),
        wb.subgraph([-1 + looped.nodes.count], [scan]),
        lambda node: node.op.name == "sum",
    ):
        one = looped.override(target, "2 * d")
        page.send("edit", request=1, id=one.id, rule="3 * d", label="")
        assert not page.take()
        (edited,) = looped.overrides
        assert (edited.rule, edited.where) == ("3 * d", one.where)
        looped.remove(one.id)


def test_a_scope_is_a_target(session: Session, page: Page) -> None:
    page.send(
        "override",
        request=1,
        target={"kind": "scope", "scope": "layer"},
        rule="0 * d",
        label="stop",
    )
    assert [kind_of(m) for m in page.take()] == ["patch"]
    assert not session.grads["w"].any()


def test_questions_get_answers(session: Session, page: Page) -> None:
    page.send("inspect", request=7, node=3)
    page.send(
        "check-expression",
        request=8,
        target={"kind": "op", "op": "tanh"},
        rule="clip(d, -1, 1)",
    )
    page.send(
        "check-expression",
        request=9,
        target={"kind": "op", "op": "tanh"},
        rule="clip(q, -1, 1)",
    )
    detail, good, bad = page.take()
    assert (detail["type"], detail["request"], detail["node"]) == ("inspect", 7, 3)
    assert detail["rule"] == "g · (1 − y²)"
    assert (good["type"], good["request"], good["ok"]) == ("check-expression", 8, True)
    assert (bad["request"], bad["ok"]) == (9, False)
    assert "'q'" in bad["message"]
    assert session.overrides == []


def test_a_rule_is_tried_on_the_target_of_an_override(
    session: Session, page: Page
) -> None:
    """A pattern has no target as data, and the rule sees its inputs."""
    linear = wb.pattern(lambda W, x: np.tanh(W * x))
    known = session.override(linear, "0.5 * d")
    page.take()

    def ask(rule: str, which: int = known.id) -> tuple[bool, str]:
        target = {"kind": "other", "text": "a pattern"}
        page.send("check-expression", request=1, target=target, rule=rule, id=which)
        (answer,) = page.take()
        return answer["ok"], answer["message"]

    assert ask("clip(d, -1, 1)") == (True, "ok")
    assert ask("x1 * g") == (True, "ok")  # tanh alone has no second input
    assert ask("x2 * g")[0] is False
    good, words = ask("clip(q, -1, 1)")
    assert not good
    assert "'q'" in words
    assert ask("d", which=99) == (False, "there is no override 99")
    assert len(session.overrides) == 1


@pytest.mark.parametrize("kind", ["jacobian", "hessian", "check"])
def test_plots_are_figures_as_json(page: Page, kind: str) -> None:
    page.send("plot", request=3, plot=kind, of=None, wrt=[0])
    (plot,) = page.take()
    assert (plot["type"], plot["request"]) == ("plot", 3)
    assert plot["figure"]["data"]
    assert plot["title"]
    assert plot["note"]


# How often


def test_at_most_twenty_patches_a_second(session: Session, page: Page) -> None:
    """A thousand changes in one second by the page's clock."""
    acknowledged = 0
    for k in range(1000):
        session.run(w=np.array([0.5, k / 1000]))
        page.wait(0.001)
        if page.got and page.got[-1]["seq"] != acknowledged:
            acknowledged = page.got[-1]["seq"]
            page.acknowledge()
    page.wait(0.05)
    page.acknowledge()
    page.wait(0.05)
    assert 15 <= len([m for m in page.got if kind_of(m) == "patch"]) <= 22
    assert page.shows(session)


def test_a_loop_is_not_held_up_by_a_costly_picture(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state takes 41 ms of the processor: one in 2.7 s of it while a loop runs."""
    running = True
    spent = iter(range(10**6))
    page = Page(session, is_running=lambda: running)
    page.hello()
    page.take()
    monkeypatch.setattr(link, "thread_clock", lambda: 0.036 * next(spent))

    def train(seconds: int) -> list[dict[str, Any]]:
        for k in range(100 * seconds):
            session.run(w=np.array([0.5, k / 1000]))
            page.wait(0.01)
            page.acknowledge()
        return page.take()

    assert 3 <= len(train(10)) <= 6
    page.send("override", request=1, target={"kind": "op", "op": "tanh"},
              rule="2 * d", label="")  # fmt: skip
    page.wait(0.05)
    assert page.header["overrides"], "what the reader does is answered at once"
    page.acknowledge()
    train(1)
    running = False
    page.link.end_step()
    page.wait(0.05)
    assert page.shows(session), "and so is the end of the loop"


@pytest.mark.long
@pytest.mark.parametrize(
    ("share", "least", "most"),
    [
        pytest.param(1.0, 10, 13, id="alone"),
        pytest.param(0.5, 5, 7, id="beside others"),
        pytest.param(0.01, 2, 5, id="waiting for data"),
    ],
)
def test_a_loop_counts_by_what_it_has_of_the_processor(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    least: int,
    most: int,
) -> None:
    """Patches of 45 ms of the processor in 33 s: one in three seconds of a loop's own.

    By the clock at most four times as long.
    """
    page = Page(session, is_running=lambda: True)
    page.share = share
    page.hello()
    page.acknowledge()
    page.wait(12)  # the first follows at once
    page.take()
    spent = iter(range(10**6))
    monkeypatch.setattr(link, "thread_clock", lambda: 0.040 * next(spent))
    for k in range(3300):
        session.run(w=np.array([0.5, k / 1000]))
        page.wait(0.01)
        page.acknowledge()
    assert least <= len([m for m in page.take() if kind_of(m) == "patch"]) <= most


@pytest.mark.long
def test_a_loop_on_a_busy_machine_needs_few_timers(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a thread, which would cost as much as a patch does."""
    page = Page(session, is_running=lambda: True)
    page.share = 0.3
    page.hello()
    page.wait(12)
    page.acknowledge()
    spent, timers = iter(range(10**6)), 0
    monkeypatch.setattr(link, "thread_clock", lambda: 0.040 * next(spent))
    later = page.link._pacer._later

    def count(seconds: float, call: Callable[[], None]) -> object:
        nonlocal timers
        timers += 1
        return later(seconds, call)

    monkeypatch.setattr(page.link._pacer, "_later", count)
    page.take()
    for k in range(6000):
        session.run(w=np.array([0.5, k / 1000]))
        page.wait(0.01)
        page.acknowledge()
    patches = len([m for m in page.take() if kind_of(m) == "patch"])
    assert 5 <= patches <= 8
    assert timers <= 4 * patches


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        pytest.param("x" * 10**7, "schema is 'xxx", id="long"),
        pytest.param(10**100_000, "schema is a number of 332193 bits", id="huge"),
        pytest.param(2**40, "schema is 1099511627776; it must be from 1", id="large"),
        pytest.param(-1, "schema is -1; it must be from 1 to 1000", id="negative"),
        pytest.param(1e300, "schema is 1e+300, not a whole number", id="float"),
        pytest.param(math.nan, "schema is nan, not a whole number", id="nan"),
        pytest.param(True, "schema is True, not a whole number", id="true"),
        pytest.param(None, "schema is None, not a whole number", id="none"),
        pytest.param([[["a"] * 10**6]], "schema is [[['a', 'a'", id="list"),
        pytest.param({"a": "b" * 10**6}, "schema is {'a': 'bbb", id="object"),
    ],
)
def test_a_page_with_a_version_that_is_none_is_told_in_few_words(
    session: Session, schema: Any, told: str
) -> None:
    page = Page(session)
    page.send("hello", schema=schema)
    (answer,) = page.take()
    assert (answer["type"], answer["request"]) == ("failure", None)
    assert answer["message"].startswith("this request of the page cannot be read: ")
    assert told in answer["message"]
    assert len(answer["message"]) < 300
    page.hello()
    assert page.shows(session), "a page that says its version is answered all the same"


def scanned(w: Any) -> Any:
    steps = wb.scan(lambda h, w: w * h, initial=[w], non_sequences=[w], n_steps=9)
    return np.sum(steps[-1])


def told_norms(w: float) -> list[float]:
    """The gradient before each of nine steps: all later ones multiply by w."""
    return [w ** (9 - t) for t in range(9)]


def test_the_gradient_along_a_loop_follows_the_picture() -> None:
    session = Session(wb.trace(scanned)(0.9))
    page = Page(session)
    page.hello()
    assert page.header["loops"] == []
    page.wait(0.05)
    (told,) = page.header["loops"]
    np.testing.assert_allclose(told["norms"], told_norms(0.9))
    page.acknowledge()
    page.wait(0.05)
    session.run(w=0.8)
    page.wait(0.05)
    (told,) = page.header["loops"]
    assert told["norms"] != pytest.approx(told_norms(0.8)), "the run is told first"
    page.acknowledge()
    for _ in range(3):
        page.wait(0.05)
    (told,) = page.header["loops"]
    np.testing.assert_allclose(told["norms"], told_norms(0.8))
    page.acknowledge()
    page.take()
    for _ in range(20):
        page.wait(0.05)
        page.acknowledge()
    assert page.take() == [], "nothing is left to be told"
    assert page.timers == []


def test_a_training_pays_little_for_the_loops_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What takes 20 ms is measured once in two seconds while a cell runs."""
    running = True
    session = Session(wb.trace(scanned)(0.9))
    page = Page(session, is_running=lambda: running)
    page.hello()
    measured = []

    def measure(*args: Any, **settings: Any) -> Any:
        ticks[0] += 0.02
        measured.append(page.now)
        return true_measure(*args, **settings)

    ticks, true_measure = [0.0], link.measure_loops
    monkeypatch.setattr(link, "measure_loops", measure)
    monkeypatch.setattr(link.time, "perf_counter", lambda: ticks[0])
    for k in range(1000):
        session.run(w=0.9 - k / 10_000)
        page.wait(0.01)
        page.acknowledge()
    assert 4 <= len(measured) <= 6
    assert np.diff(measured).min() >= 2
    running = False
    page.link.end_step()
    for _ in range(60):
        page.wait(0.05)
        page.acknowledge()
    (told,) = page.header["loops"]
    np.testing.assert_allclose(told["norms"], told_norms(0.9 - 0.0999))


def test_one_patch_waits_for_its_acknowledgement(session: Session, page: Page) -> None:
    session.run(w=np.array([1.0, 1.0]))
    for k in range(10):
        session.run(w=np.array([1.0, float(k)]))
        page.wait(1)
    assert len(page.got) == 1
    page.acknowledge()
    assert len(page.got) == 2
    assert page.shows(session)
    page.acknowledge()
    page.wait(1)
    assert len(page.got) == 2


def test_nothing_is_sent_before_a_page_is_there(session: Session) -> None:
    page = Page(session)
    session.override("tanh", "2 * d")
    page.wait(1)
    assert page.got == []
    page.hello()
    assert page.shows(session)


def test_hello_again_after_a_lost_page(session: Session, page: Page) -> None:
    session.override("tanh", "2 * d")
    session.undo()
    assert len(page.take()) == 1  # never acknowledged: its page is gone
    page.hello()
    assert kind_of(page.take()[0]) == "snapshot"
    page.wait(1)
    session.override("tanh", "3 * d")
    assert [kind_of(m) for m in page.take()] == ["patch"]


def test_what_is_on_its_way_is_not_sent_again(session: Session, page: Page) -> None:
    page.send("hello", schema=1)
    assert [kind_of(m) for m in page.take()] == ["snapshot"]
    page.send("hello", schema=1, again=True)  # it asked before that came
    assert page.take() == []
    page.wait(10)
    page.send("hello", schema=1, again=True)  # it must be lost
    assert [kind_of(m) for m in page.take()] == ["snapshot"]
    page.send("hello", schema=1)  # another page: it asks for the first time
    assert [kind_of(m) for m in page.take()] == ["snapshot"]
    page.acknowledge()
    page.send("hello", schema=1, again=True)
    assert [kind_of(m) for m in page.take()] == ["snapshot"]


def test_a_patch_says_which_state_it_changes(session: Session, page: Page) -> None:
    page.send("inspect", node=0)  # answers have numbers too
    session.override("tanh", "2 * d")
    first = page.take()[-1]
    assert first["of"] == first["seq"] - 2
    page.acknowledge()
    page.wait(1)
    session.override("tanh", "3 * d")
    assert page.take()[-1]["of"] == first["seq"]


def test_parts_of_a_long_column_are_sent() -> None:
    def program(x: Any) -> Any:
        for _ in range(300):
            x = np.tanh(x) * 1.01
        return np.sum(x)

    session = Session(wb.trace(program)(np.ones(2)))
    page = Page(session)
    page.hello()
    page.wait(1)
    page.take()
    session.override(300, "2 * d")
    (patch,) = page.take()
    assert any("parts" in column for column in patch["columns"])


# What computes


def test_a_page_is_told_what_computes_the_runs() -> None:
    session = Session(wb.trace(model)(np.ones(2), np.ones(2)), backend="compiled")
    page = Page(session)
    page.hello()
    assert page.header["backend"] == "numpy"
    session.run(w=np.array([0.5, 2.0]))
    page.wait(1)
    assert session.wait(60)
    page.wait(1)
    page.acknowledge()
    page.wait(1)
    page.acknowledge()
    assert page.header["backend"] == "compiled"
    session.run(w=np.array([0.25, 2.0]))
    page.wait(1)
    assert page.shows(session)
    assert page.header["seconds"] == session.seconds


# What is refused


HOSTILE: list[Any] = [
    None,
    [],
    "hello",
    {},
    {"type": "event"},
    {"type": "event", "event": "explode", "request": 1},
    {"type": "event", "event": ["hello"], "request": 1},
    {"type": "event", "event": {"a": 1}, "request": 1},
    {"type": "event", "event": "inspect", "request": 1},
    {"type": "event", "event": "inspect", "request": 1, "node": -1},
    {"type": "event", "event": "inspect", "request": 1, "node": 10**30},
    {"type": "event", "event": "inspect", "request": 1, "node": True},
    {"type": "event", "event": "inspect", "request": "1", "node": 1},
    {"type": "event", "event": "inspect", "request": 1, "node": "__class__"},
    {"type": "event", "event": "undo", "request": None},
    {"type": "event", "event": "undo", "request": 1},
    {"type": "event", "event": "redo", "request": 1},
    {"type": "event", "event": "remove", "request": 1, "id": 99},
    {"type": "event", "event": "switch", "request": 1, "id": 1, "enabled": "yes"},
    {"type": "event", "event": "plot", "request": 1, "plot": "pie", "of": 0, "wrt": []},
    {"type": "event", "event": "plot", "request": 1, "plot": "check", "wrt": None},
    {
        "type": "event",
        "event": "plot",
        "request": 1,
        "plot": "jacobian",
        "of": 0,
        "wrt": [{}],
    },
    *(
        {
            "type": "event",
            "event": "override",
            "request": 1,
            "target": target,
            "rule": rule,
            "label": label,
        }
        for target, rule, label in [
            (None, "d", ""),
            ({}, "d", ""),
            ({"kind": "node"}, "d", ""),
            ({"kind": "node", "node": 10**9}, "d", ""),
            ({"kind": "node", "node": True}, "d", ""),
            ({"kind": "node", "node": 3, "op": "tanh"}, "__import__('os')", ""),
            ({"kind": "op", "op": "nothing"}, "d", ""),
            ({"kind": "op", "op": 5}, "d", ""),
            ({"kind": "other", "text": "lambda n: 1"}, "d", ""),
            ({"kind": "op", "op": "tanh"}, "d.__class__", ""),
            ({"kind": "op", "op": "tanh"}, "9**9**9**9", ""),
            ({"kind": "op", "op": "tanh"}, "(" * 400 + "d" + ")" * 400, ""),
            ({"kind": "op", "op": "tanh"}, "d" * 5000, ""),
            ({"kind": "op", "op": "tanh"}, {"a": 1}, ""),
            ({"kind": "op", "op": "tanh"}, "d", None),
            ({"kind": "op", "op": "tanh"}, "d", "x" * 100_000),
            ({"kind": "op", "op": "tanh"}, "d", "half of a character: \ud83d"),
            ({"kind": "op", "op": "\ud83d"}, "d", ""),
            ({"kind": "scope", "scope": "\ud83d"}, "\ud83d", ""),
        ]
    ),
]


@pytest.mark.parametrize("message", HOSTILE, ids=[ascii(m)[:60] for m in HOSTILE])
def test_nonsense_is_answered_and_changes_nothing(
    session: Session, page: Page, message: Any
) -> None:
    before, text = take_snapshot(session), repr(session)
    page.link.receive(message)
    (answer,) = page.take()
    assert answer["type"] == "failure"
    assert len(answer["message"]) <= 2001
    request = message.get("request") if isinstance(message, dict) else None
    assert answer["request"] == (request if type(request) is int else None)
    assert repr(session) == text
    assert session.history.undo is None
    for name, column in take_snapshot(session).columns.items():
        np.testing.assert_array_equal(column, before.columns[name])
    page.send("inspect", request=2, node=1)
    assert page.take()[0]["type"] == "inspect"


def test_an_interrupt_is_an_answer(
    session: Session, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "check", stop)
    page.send("plot", request=4, plot="check", of=None, wrt=[])
    assert page.take()[0] == {
        "type": "failure",
        "seq": page.link._outbox.seq,
        "request": 4,
        "message": "Stopped.",
    }


# Several, and their end


def test_several_sessions_do_not_meet(session: Session, page: Page) -> None:
    other = Session(wb.trace(model)(np.ones(2), np.ones(2)), name="other")
    elsewhere = Page(other)
    elsewhere.hello()
    elsewhere.take()
    elsewhere.wait(1)
    other.override("tanh", "2 * d")
    assert [kind_of(m) for m in elsewhere.take()] == ["patch"]
    assert page.take() == []
    assert session.overrides == []


def test_a_dropped_session_is_freed() -> None:
    session = Session(wb.trace(model)(np.ones(2), np.ones(2)))
    page = Page(session)
    page.hello()
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    page.take()
    page.send("undo", request=5)
    (answer,) = page.take()
    assert "Run the cell again" in answer["message"]


def test_a_closed_link_is_silent(session: Session, page: Page) -> None:
    page.link.close()
    session.override("tanh", "2 * d")
    page.wait(1)
    assert page.take() == []


def test_a_page_changes_a_session_between_the_steps_of_its_loop(
    session: Session,
) -> None:
    """The page sees the change at once, the loop from its next run on."""
    page = Page(session, is_running=lambda: True)
    page.hello()
    true = session.grads["w"]
    session.run(w=session.values["w"])
    page.take()

    def press() -> None:
        page.send(
            "override",
            request=1,
            target={"kind": "op", "op": "tanh"},
            rule="3 * d",
            label="",
        )

    thread = threading.Thread(target=press)
    thread.start()
    thread.join(30)
    page.wait(1)
    assert page.header["overrides"], "the page is told"
    np.testing.assert_array_equal(session.grads["w"], true)
    session.run(w=session.values["w"])
    np.testing.assert_allclose(session.grads["w"], 3 * true)


def test_the_end_of_a_cell_lets_it_see_what_the_page_changed(session: Session) -> None:
    page = Page(session, is_running=lambda: True)
    page.hello()
    session.run(w=session.values["w"])
    thread = threading.Thread(
        target=lambda: page.send(
            "override",
            request=1,
            target={"kind": "op", "op": "tanh"},
            rule="3 * d",
            label="",
        )
    )
    thread.start()
    thread.join(30)
    assert session.overrides == []
    page.link.end_step()
    assert len(session.overrides) == 1


def change_tanh(page: Page, request: int, rule: str = "2 * d") -> None:
    target = {"kind": "op", "op": "tanh"}
    page.send("override", request=request, target=target, rule=rule, label="")


def test_a_failed_command_leaves_the_one_before_its_answer(page: Page) -> None:
    change_tanh(page, 1)
    page.take()
    change_tanh(page, 2)  # done, but what was sent is not drawn yet
    assert page.take() == []
    change_tanh(page, 3, "nonsense(d")
    (failure,) = page.take()
    assert (failure["type"], failure["request"]) == ("failure", 3)
    page.acknowledge()
    page.wait(0.1)
    (patch,) = page.take()
    assert patch["answers"] == 2


def test_a_new_page_is_not_told_of_the_commands_of_another(
    session: Session, page: Page
) -> None:
    change_tanh(page, 37)
    page.acknowledge()
    page.wait(0.1)
    page.hello()  # a page that was loaded anew: its commands begin at 1
    page.wait(0.1)
    page.take()
    session.run(w=np.full(session.graph.inputs[0].shape, 2.0))
    (patch,) = page.take()
    assert patch["answers"] == 0


def test_one_state_answers_the_commands_of_two_pages(page: Page) -> None:
    one, other = 7 * PAGE_REQUESTS, 3 * PAGE_REQUESTS
    change_tanh(page, one + 1)
    page.take()
    change_tanh(page, one + 10)
    change_tanh(page, other + 3)  # both wait until the page has drawn
    change_tanh(page, other + 4, "nonsense(d")
    page.take()
    page.acknowledge()
    page.wait(0.1)
    (patch,) = page.take()
    assert patch["answers"] is None, "all that wait are done"
    assert {"undo", "redo"} <= patch["header"].keys()
    page.acknowledge()
    page.wait(0.1)
    change_tanh(page, one + 11)
    (patch,) = page.take()
    assert patch["answers"] == one + 11
