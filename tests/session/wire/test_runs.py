"""Past runs on the wire: pieces that add up, few points with all peaks, moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.page import Page
from workbench.session import timeline
from workbench.session.wire import (
    find_changes,
    list_norms,
    merge_points,
    read_saved,
    save_snapshot,
    take_moment,
    take_snapshot,
)
from workbench.session.wire.protocol.fields import STATISTICS
from workbench.session.wire.timeline import MOST_PARTS, choose_points


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "SHARE", 1e9)


@pytest.fixture
def model() -> wb.Session:
    def f(w: Any) -> Any:
        return np.sum(np.log(w) * 2.0)

    return wb.Session(wb.trace(f)(np.ones(3)), name="model")


def run(model: wb.Session, *values: float) -> None:
    with np.errstate(all="ignore"):
        for value in values:
            model.run(w=np.full(3, value))


def test_pieces_add_up_to_the_whole(
    model: wb.Session, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(timeline, "MOST_LOSSES", 700)
    shown = take_snapshot(model)
    assert shown.header["timeline"] is None
    line, sent = None, []
    for _ in range(60):
        run(model, *rng.uniform(0.5, 2.0, 40))
        now = take_snapshot(model)
        patch = find_changes(shown, now)
        assert patch is not None
        piece = patch.header["timeline"]
        line = merge_points(line, piece)
        assert line == now.header["timeline"]
        assert len(line["steps"]) <= 2 * MOST_PARTS + 1
        sent.append(len(piece["steps"]))
        shown = now
    assert line is not None
    assert line["count"] == line["steps"][-1] == 2400
    assert np.median(sent) < 60, "mostly what is new"


def test_points_keep_the_peaks(rng: np.random.Generator) -> None:
    steps = np.arange(1.0, 5001.0)
    numbers = rng.uniform(1, 2, 5000)
    numbers[[100, 2345]] = 9.0, -9.0
    numbers[4000] = np.nan
    chosen = choose_points(steps, numbers)
    assert {100, 2345, 4000, 4999} <= {*chosen.tolist()}
    assert len(chosen) <= 2 * MOST_PARTS + 1
    assert (np.diff(chosen) > 0).all()


def test_a_moment_is_the_picture_as_it_was(model: wb.Session) -> None:
    pictures = {}
    for step, value in enumerate((1.5, 2.0, -1.0, 3.0), 1):
        run(model, value)
        pictures[step] = take_snapshot(model)
    for step, then in pictures.items():
        _, header, listed, buffers, extra = take_moment(model, step)
        assert extra["step"] == step
        assert header["output_value"] == then.header["output_value"]
        names = [column["name"] for column in listed]
        assert {"value_stats", "grad_stats", "edge_norm"} <= set(names)
        for name, column in zip(names, buffers, strict=True):
            np.testing.assert_array_equal(column, then.columns[name], name)


def test_the_norms_of_a_moment_are_those_of_the_picture(
    model: wb.Session,
) -> None:
    model.timeline.inputs.budget = 0
    pictures = {}
    for step, value in enumerate((1.5, 2.0, -1.0, 3.0), 1):
        run(model, value)
        pictures[step] = take_snapshot(model)
    for step in (1, 2, 3):
        then = pictures[step]
        _, header, listed, buffers, extra = take_moment(model, step)
        assert (extra["step"], extra["whole"]) == (step, False)
        assert header["output_value"] == then.header["output_value"]
        names = [column["name"] for column in listed]
        for name, column in zip(names, buffers, strict=True):
            old = then.columns[name]
            if name == "edge_norm":
                np.testing.assert_allclose(column, old)
            elif name != "change":
                new, old = (x.reshape(-1, len(STATISTICS)) for x in (column, old))
                np.testing.assert_allclose(new[:, 4], old[:, 4])
                there = np.isnan(old[:, 5]) == np.isnan(new[:, 5])
                assert there.all()
                assert ((new[:, 5] > 0) == (old[:, 5] > 0)).all()


def test_marks_travel(model: wb.Session) -> None:
    run(model, 1.0, -1.0)
    line = take_snapshot(model).header["timeline"]
    assert line is not None
    (mark,) = line["marks"]
    assert mark["step"] == 2
    assert mark["kind"] == "nan"
    assert mark["text"] == "NaN in the value of log 1: 3 of 3 entries"
    assert line["losses"] == [0.0, None]


def test_a_page_asks(model: wb.Session) -> None:
    page = Page(model)
    page.hello()
    page.take()
    page.send("moment", request=1, step=5)
    (refused,) = page.take()
    assert refused["type"] == "failure"
    assert "model.timeline is empty" in refused["message"]
    page.acknowledge()
    page.wait(1)
    run(model, 1.0, 2.0)
    page.wait(1)
    page.acknowledge()
    page.wait(1)
    assert page.header["timeline"]["steps"] == [1, 2]
    page.take()
    page.send("moment", request=2, step=1)
    page.send("norms", request=3, node=0)
    page.send("norms", request=4, node=99)
    moment, norms, failure = page.take()
    assert (moment["type"], moment["request"], moment["step"]) == ("moment", 2, 1)
    assert norms["values"] == pytest.approx([np.sqrt(3), 2 * np.sqrt(3)])
    assert norms["gradients"] == pytest.approx([2 * np.sqrt(3), np.sqrt(3)])
    assert failure["message"] == "there is no node 99"
    head = {"type": "norms", "request": 3, "seq": norms["seq"]}
    assert norms == {**head, **list_norms(model, 0)}


def test_a_saved_picture_keeps_the_runs(model: wb.Session) -> None:
    run(model, 1.0, 2.0)
    shown = take_snapshot(model)
    assert (
        read_saved(save_snapshot(shown)).header["timeline"]
        == (shown.header["timeline"])
    )


def test_overrides_do_not_stand_in_the_past(model: wb.Session) -> None:
    run(model, 1.0)
    model.override("log", "3 * d")
    _, _, listed, buffers, _ = take_moment(model, 1)
    names = [column["name"] for column in listed]
    assert np.isnan(buffers[names.index("true_stats")]).all()
    grads = buffers[names.index("grad_stats")].reshape(-1, len(STATISTICS))
    assert grads[0, 4] == pytest.approx(2 * np.sqrt(3)), "with the true rule"
