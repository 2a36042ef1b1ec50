"""Other moments of a picture: with their overrides, of other sessions, saved."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page
from workbench.errors import SnapshotError
from workbench.session import kept_inputs, timeline
from workbench.session.wire import (
    encode_moments,
    read_saved,
    save_snapshot,
    take_moment,
    take_peer,
    take_snapshot,
)
from workbench.session.wire.moments import NUMBERS, choose_evenly
from workbench.session.wire.protocol.fields import MOST_MOMENT_BYTES, MOST_MOMENTS


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "SHARE", 1e9)


def make(name: str, x: Any = 1.0, f: Any = np.tanh) -> wb.Session:
    graph = wb.trace(lambda x: np.sum(f(x) * 2.0))(np.full(3, x))
    return wb.Session(graph, name=name)


def run(session: wb.Session, *values: float) -> None:
    for value in values:
        session.run(x=np.full(3, value))


def test_a_run_is_shown_with_its_own_overrides() -> None:
    session = make("model")
    run(session, 1.0)
    session.override("tanh", "0.5 * d")
    run(session, 1.0)
    session.override("sum", "3 * d")
    shown = take_snapshot(session)
    for step, labels in ((1, []), (2, ["scale ×0.5"])):
        _, header, listed, buffers, _ = take_moment(session, step)
        assert [one["label"] for one in header["overrides"]] == labels
        names = [column["name"] for column in listed]
        column = buffers[names.index("override")]
        assert column.dtype == np.int32
        assert column.tolist() == [-1, 0 if labels else -1, -1, -1]
        # It fits into the picture that is shown: the page checks no less.
        columns = dict(shown.columns) | dict(zip(names, buffers, strict=True))
        patched = type(shown)({**shown.header, **header}, columns)
        saved = save_snapshot(patched)
        assert saved is not None
        read_saved(json.loads(json.dumps(saved)))


def test_of_a_run_without_inputs_the_norms_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", 0)
    session = make("model")
    run(session, 1.0)
    session.override("tanh", "0.5 * d")
    run(session, 1.0, 2.0)
    told = take_moment(session, 2)
    assert not told.extra["whole"]
    assert "overrides" not in told.header, "they are those of now"
    assert (told.header["check"], told.header["profile"]) == (None, None)
    assert take_moment(session, 1).header["overrides"] == []
    assert take_moment(session, 3).extra["whole"], "the last one is there anyway"


def test_what_was_found_of_the_present_is_nobodys_at_a_run() -> None:
    session = make("model")
    run(session, 0.5, 1.0, 2.0)
    session.override("tanh", "0.5 * d")
    session.check()
    session.diagnose()
    session.profile()
    told = take_moment(session, 2)
    for what in ("check", "findings", "profile"):
        assert told.header[what] is None
    now = take_snapshot(session)
    names = [column["name"] for column in told.columns]
    blank = dict(zip(names, told.buffers, strict=True))
    for name in ("true_stats", "true_edge_norm", "check_ratio", "rule_time"):
        assert name in now.columns
        assert np.isnan(blank[name]).all(), name
        assert blank[name].size == now.columns[name].size
    assert (blank["check"] == 0).all()
    assert (blank["value_step"] == -1).all()
    fit = {n: c for n, c in now.columns.items() if n not in blank}
    unlike = [n for n in fit if n.endswith(("_stats", "_norm", "change", "override"))]
    assert unlike == [], "all that depends on values or rules is told"


def test_a_norm_tells_of_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", 0)
    session = make("model")
    run(session, np.inf, np.nan, 1e200, 1.0)
    bad = {}
    for step in (1, 2, 3):
        told = take_moment(session, step)
        names = [column["name"] for column in told.columns]
        table = told.buffers[names.index("value_stats")].reshape(-1, 6)
        bad[step] = table[0, 4:].tolist()
    assert bad[1] == [np.inf, np.inf], "some, and no NaN"
    assert np.isnan(bad[2][0])
    assert bad[2][1] == np.inf
    assert bad[3] == [pytest.approx(3**0.5 * 1e200), 0]
    moments = encode_moments(session)
    assert moments is not None
    saved = np.frombuffer(base64.b64decode(moments["norms"]), "<f4").reshape(3, -1)
    assert np.isinf(saved[0, 0])
    assert np.isnan(saved[1, 0])
    assert np.isfinite(saved[2, 0]), "what is finite is not saved as infinity"


def test_a_page_compares_with_another_session() -> None:
    here, there = make("here"), make("there", 0.25)
    graph = wb.trace(lambda v: np.exp(np.max(v)))(np.ones(3))
    other = wb.Session(graph, name="other")
    there.override("tanh", "0.5 * d")
    pages = {session.name: Page(session) for session in (here, there, other)}
    page = pages["here"]
    page.hello()
    page.take()
    page.send("peers", request=1)
    (answer,) = page.take()
    assert "peers" in answer, answer
    known = {one["name"]: one["refused"] for one in answer["peers"]}
    assert "here" not in known
    assert known["there"] == ""
    assert "other is another program" in known["other"]

    page.send("peer", request=2, name="there")
    page.send("peer", request=3, name="other")
    page.send("peer", request=4, name="nobody")
    moment, refused, unknown = page.take()
    want = take_snapshot(there)
    told = take_peer(here, there)
    head = {"type": "peer", "request": 2, "seq": moment["seq"]}
    assert moment == {**head, **told.message}
    for column, buffer in zip(moment["columns"], told.buffers, strict=True):
        assert column["name"] in NUMBERS
        np.testing.assert_array_equal(buffer, want.columns[column["name"]])
    assert moment["header"]["output_value"] == pytest.approx(6 * np.tanh(0.25))
    assert [one["label"] for one in moment["header"]["overrides"]] == ["scale ×0.5"]
    assert "is another program" in refused["message"]
    assert "no other session 'nobody'" in unknown["message"]


def test_two_sessions_of_one_name_are_both_peers() -> None:
    here, first, second = make("twins"), make("twins", 0.25), make("twins", 0.5)
    page, _, _ = Page(here), Page(first), Page(second)
    page.hello()
    page.take()
    page.send("peers", request=1)
    (answer,) = page.take()
    assert "peers" in answer, answer
    names = [one["name"] for one in answer["peers"] if one["name"].startswith("twins")]
    assert names == ["twins (2)", "twins (3)"]
    for name, value in zip(names, (0.25, 0.5), strict=True):
        page.send("peer", request=2, name=name)
        (moment,) = page.take()
        want = pytest.approx(6 * np.tanh(value))
        assert moment["header"]["output_value"] == want


def test_a_page_gets_the_runs_that_it_saves() -> None:
    session = make("model")
    page = Page(session)
    page.hello()
    page.take()
    page.send("runs", request=1)
    (answer,) = page.take()
    assert (answer["type"], answer["moments"]) == ("runs", None)
    run(session, 0.1, 0.2, 0.3, 0.4, 0.5)
    page.send("runs", request=2)
    answer = page.until("runs", 2)
    assert answer["moments"] == encode_moments(session)
    assert answer["moments"]["steps"] == [1, 2, 3, 4]


def test_a_session_that_is_gone_is_no_peer() -> None:
    here, there = make("here"), make("gone")
    page, _ = Page(here), Page(there)
    del there
    page.hello()
    page.take()
    page.send("peers", request=1)
    (answer,) = page.take()
    assert "peers" in answer, answer
    assert "gone" not in [one["name"] for one in answer["peers"]]


def test_a_saved_picture_holds_runs_within_its_bounds(
    rng: np.random.Generator,
) -> None:
    session = make("model")
    assert encode_moments(session) is None, "it has not run"
    run(session, *rng.uniform(0.1, 1.0, 400))
    moments = encode_moments(session)
    assert moments is not None
    assert 2 < len(moments["steps"]) <= MOST_MOMENTS
    assert len(json.dumps(moments)) < 2**17
    assert len(moments["norms"]) <= MOST_MOMENT_BYTES
    assert moments["steps"][0] == 1
    count = session.nodes.count
    raw = np.frombuffer(base64.b64decode(moments["norms"]), "<f4")
    table = raw.reshape(len(moments["steps"]), -1)
    for step, row in zip(moments["steps"], table, strict=True):
        norms = session.timeline.read_norms(step)
        assert norms.step == step
        np.testing.assert_allclose(row[:count], norms.values, 1e-6)
        np.testing.assert_allclose(row[count : 2 * count], norms.gradients, 1e-6)
        np.testing.assert_allclose(row[2 * count :], norms.edges, 1e-6)
    assert moments["overrides"] == [None] * len(moments["steps"])


def test_saved_runs_say_which_overrides_they_had() -> None:
    session = make("model")
    run(session, 1.0, 2.0)
    session.override("tanh", "0.5 * d")
    run(session, 1.0, 2.0)
    moments = encode_moments(session)
    assert moments is not None
    assert moments["steps"] == [1, 2, 3]
    assert moments["overrides"] == ["no overrides", "no overrides", None]
    session.undo()
    moments = encode_moments(session)
    assert moments is not None
    assert moments["overrides"] == [None, None, "1: scale ×0.5 on every tanh"]


def test_a_program_too_large_for_two_runs_holds_none() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3000):
            x = np.sin(x)
        return x

    session = wb.Session(wb.trace(chain)(0.5))
    for _ in range(4):
        session.run(x=0.5)
    assert encode_moments(session) is None


def test_the_positions_are_even_and_have_both_ends(
    rng: np.random.Generator,
) -> None:
    for _ in range(50):
        count, most = (int(k) for k in rng.integers(2, 300, 2))
        found = choose_evenly(count, most)
        assert len(found) == min(count, most) == len(set(found))
        assert (found[0], found[-1]) == (0, count - 1)
        assert np.ptp(np.diff(found)) <= 1


def saved() -> dict[str, Any]:
    session = make("model")
    run(session, 1.0, 2.0, 3.0, 4.0)
    kept = save_snapshot(take_snapshot(session), moments=encode_moments(session))
    return dict(json.loads(json.dumps(kept)))


def test_saved_runs_come_back() -> None:
    assert read_saved(saved()).header["timeline"]["count"] == 4  # type: ignore[index]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("steps", [1, 3, 2], "one after another, from 1 to 4"),
        ("steps", [1, 2, 5], "one after another, from 1 to 4"),
        ("steps", [0, 1, 2], "one after another, from 1 to 4"),
        ("steps", [1, 2], "as many losses and overrides as steps"),
        ("losses", [1.0], "as many losses and overrides as steps"),
        ("overrides", [None, 3, None], "overrides[1] is 3"),
        ("norms", "AAAA", "have 3 bytes, not"),
        ("norms", "no base64!", "norms"),
        ("norms", "A" * 70_000, "norms"),
        ("steps", [*range(1, 300)], "moments.steps"),
        ("steps", "123", "moments.steps is '123'"),
    ],
)
def test_damaged_runs_are_refused(field: str, value: Any, words: str) -> None:
    data = copy.deepcopy(saved())
    data["moments"][field] = value
    with pytest.raises(SnapshotError) as caught:
        read_saved(data)
    assert words in str(caught.value)


def test_a_program_with_another_op_is_told_by_its_pairs() -> None:
    here, there = make("here"), make("there", f=np.sin)
    told, want = take_peer(here, there), take_snapshot(there)
    assert told.message["differing"] == [{"node": 1, "other": "sin 1", "op": "sin"}]
    assert told.message["header"]["overrides"] == []
    names = [column["name"] for column in told.columns]
    for name in ("value_stats", "grad_stats", "edge_norm"):
        column = told.buffers[names.index(name)]
        np.testing.assert_array_equal(column, want.columns[name], err_msg=name)


def test_programs_with_several_outputs_of_an_op_are_compared() -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])

    def make_spectrum(name: str, f: Any) -> wb.Session:
        graph = wb.trace(lambda x: np.sum(f(np.linalg.eigh(x * matrix)[0])))
        return wb.Session(graph(np.array(1.0)), name=name)

    here, there = make_spectrum("eigh", np.tanh), make_spectrum("eigh_sin", np.sin)
    steps = wb.trace(lambda x: np.sum(wb.scan(np.tanh, initial=x, n_steps=3)[0]))
    loop = wb.Session(steps(np.ones(2)), name="loop")
    page, _, _ = Page(here), Page(there), Page(loop)
    page.hello()
    page.take()
    page.send("peers", request=1)
    (answer,) = page.take()
    known = {one["name"]: one["refused"] for one in answer["peers"]}
    assert known["eigh_sin"] == ""
    assert known["loop"]  # another program
