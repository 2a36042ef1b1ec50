"""The still picture: well-formed, in order, harmless whatever the names are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.wire.golden.write import examined
from tests.session.wire.golden.write import session as golden
from workbench.core.drawing import MOST_CARDS, lay_out
from workbench.jupyter.display import make_bundle
from workbench.jupyter.picture import draw_picture
from workbench.session import Session
from workbench.session.wire import (
    MIME_TYPE,
    read_saved,
    take_failed_snapshot,
    take_snapshot,
)

SVG = "{http://www.w3.org/2000/svg}"


def network(W1: Any, b1: Any, W2: Any) -> Any:
    h = np.tanh(np.ones((4, 3)) @ W1 + b1)
    return np.sum((h @ W2) ** 2)


@pytest.fixture
def session() -> Session:
    rng = np.random.default_rng(0)
    args = rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=5)
    return Session(wb.trace(network)(*args), name="net")


def texts(svg: str) -> list[str]:
    return [x.text or "" for x in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def cards(svg: str) -> list[tuple[float, float, float, float]]:
    found = []
    for rect in list(ElementTree.fromstring(svg).iter(f"{SVG}rect"))[1:]:
        box = [float(rect.get(key, "0")) for key in ("x", "y", "width", "height")]
        found.append((box[0], box[1], box[2], box[3]))
    return found


def test_every_node_is_there_with_its_shape_and_gradient(session: Session) -> None:
    found = texts(draw_picture(take_snapshot(session)))
    for word in ("W1", "b1", "W2", "tanh", "matmul", "3×5", "4×5"):
        assert word in found
    assert found[0].startswith("net · sum = ")
    assert found.count("matmul") == 2
    assert "1" in found  # the gradient of the output by itself


def test_nothing_overlaps_or_leaves_the_picture(session: Session) -> None:
    session.override("tanh", "clip(d, -0.1, 0.1)")
    svg = draw_picture(take_snapshot(session))
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    boxes = cards(svg)
    for x, y, w, h in boxes:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, k, m in boxes[i + 1 :]:
            assert x + w <= u or u + k <= x or y + h <= v or v + m <= y


def test_an_override_is_written_beside_its_node(session: Session) -> None:
    session.override("tanh", "clip(d, -0.1, 0.1)")
    assert "clip ±0.1" in texts(draw_picture(take_snapshot(session)))


def test_data_flows_down(session: Session) -> None:
    shown = take_snapshot(session)
    inputs = [
        shown.columns["inputs"][a:b].tolist()
        for a, b in zip(
            shown.columns["input_start"], shown.columns["input_start"][1:], strict=False
        )
    ]
    rows = lay_out(inputs, [100.0] * len(inputs), 10.0)
    for node, read in enumerate(inputs):
        for source in read:
            assert rows.row[source] < rows.row[node]


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></svg>",
    "&lt;b&gt; & é ∂",
    "\x00\x08\x1b\ufffe",
    "<b>" * 40,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_and_never_markup(name: str) -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    graph.nodes[1].name = name
    session = Session(graph)
    session.override("tanh", "d", name=name)
    session.name = name  # as a file may have it that somebody else has written
    svg = draw_picture(take_snapshot(session))
    root = ElementTree.fromstring(svg)
    tags = {element.tag for element in root.iter()}
    assert {tag.removeprefix(SVG) for tag in tags} <= {
        "svg", "title", "style", "rect", "path", "text", "tspan", "g",
    }  # fmt: skip
    for element in root.iter():
        assert not [key for key in element.keys() if key.startswith("on")]
    assert any(clean(text)[:5] == clean(name)[:5] for text in texts(svg))


def clean(text: str) -> str:
    return re.sub("[\x00-\x1f\ufffd-\uffff]", "", text)


def test_nan_and_zero_gradients_are_said() -> None:
    with np.errstate(all="ignore"):
        session = Session(wb.trace(lambda x: np.sum(np.sqrt(x) * 0))(np.zeros(2)))
        found = texts(draw_picture(take_snapshot(session)))
    assert "NaN" in found
    assert "0" in found


def wind(x: Any, times: int) -> Any:
    """Return a long program that has no loop and no scope."""
    bits = np.random.default_rng(0).integers(2, size=times)
    for bit in bits.tolist():
        x = np.tanh(x) if bit else np.sin(x)
    return x


def test_a_large_graph_is_told_in_words() -> None:
    session = Session(wb.trace(lambda x: np.sum(wind(x, MOST_CARDS)))(np.ones(3)))
    svg = draw_picture(take_snapshot(session))
    told = " ".join(texts(svg))
    assert f"{MOST_CARDS + 2} nodes" in told
    ops = [node.op.name for node in session.graph.nodes]
    assert f"{ops.count('tanh')} × tanh" in told
    assert "x 3: norm " in told
    assert len(svg) < 5000


def test_loops_and_scopes_of_a_large_graph_are_folded() -> None:
    def deep(x: Any, w: Any) -> Any:
        for _ in range(20):
            for _ in range(12):
                x = np.tanh(x) * w
            x = np.sqrt(x + 1)
        with wb.scope("head/inner"):
            for _ in range(20):
                x = x + w
        return np.sum(x)

    session = Session(wb.trace(deep)(np.ones(3), 0.5))
    snapshot = take_snapshot(session)
    # As in a cell, where each node stands on a line.
    inside = snapshot.columns["loop"] >= 0
    snapshot.columns["line"][:] = np.where(inside, 4 + snapshot.columns["loop"] % 3, 9)
    svg = draw_picture(snapshot)
    root = ElementTree.fromstring(svg)
    shown = texts(svg)
    cards = ["x", "w", "×20 · lines 4–6", "head", "sum"]
    assert [text for text in shown if text in cards] == cards
    assert "520 nodes" in shown
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any("240 × tanh" in title for title in titles)
    # Each card has a gradient, and each edge brings one.
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + 2 * 5
    assert len(svg) < 8000


def test_a_large_drawing_is_laid_out_soon() -> None:
    """As many nodes as are drawn, in a ladder with long edges."""
    inputs: list[list[int]] = [[], []]
    for i in range(2, MOST_CARDS):
        inputs.append([i - 1, i // 2])
    rows = lay_out(inputs, [140.0] * MOST_CARDS, 18.0)
    assert len(rows.x) == MOST_CARDS
    by_row: dict[int, list[float]] = {}
    for row, x in zip(rows.row, rows.x, strict=True):
        by_row.setdefault(row, []).append(x)
    for line in by_row.values():
        assert np.all(np.diff(sorted(line)) >= 158 - 1e-6)


def test_a_program_without_values_and_one_that_failed_are_drawn() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(wb.Spec((3,), np.dtype(float)))
    assert "tanh" in texts(draw_picture(take_snapshot(Session(graph))))
    svg = draw_picture(take_failed_snapshot(graph, "broken", "it broke"))
    assert texts(svg)[0] == "broken"


def test_the_saved_bundle_is_one_picture_three_times(session: Session) -> None:
    data = make_bundle(session, "some-id")
    assert set(data) == {MIME_TYPE, "image/svg+xml", "text/plain"}
    assert data[MIME_TYPE]["model_id"] == "some-id"
    kept = read_saved(data[MIME_TYPE])
    assert kept.header == {
        **take_snapshot(session).header,
        "seconds": kept.header["seconds"],
    }
    assert "‖∂/∂W1‖ = " in data["text/plain"]
    lines = data["text/plain"].splitlines()
    norm = float(np.linalg.norm(session.grads["b1"]))
    assert f"  ‖∂/∂b1‖ = {norm:.4g}" in lines


def test_an_output_is_said_to_be_one_of_its_op() -> None:
    def f(a: Any) -> Any:
        q, r = np.linalg.qr(a)
        return np.sum(q) + np.sum(r)

    made = Session(wb.trace(f)(np.array([[2.0, 1.0], [0.5, 3.0]])))
    assert texts(draw_picture(take_snapshot(made))).count("of qr") == 2


def test_what_was_checked_and_found_is_marked() -> None:
    """A red frame, a disc at the corner, and the words for who points at a card."""
    svg = draw_picture(take_snapshot(examined(golden())))
    root = ElementTree.fromstring(svg)
    titled = {
        (group.findtext(f"{SVG}title"), "wrong" in (rect.get("class") or "").split())
        for group in root.iter(f"{SVG}g")
        for rect in list(group.iter(f"{SVG}rect"))[:1]
    }
    assert ("exp: expected 0.75 by x[3, 1], got 1.5", True) in titled
    assert any(text and "log: a kink at y" in text for text, _ in titled)
    assert any(text and "log has an infinite slope" in text for text, _ in titled)
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    assert texts(svg).count("!") == 2
    assert "circle" not in draw_picture(take_snapshot(golden()))


def test_nodes_within_a_match_have_a_dashed_frame_and_no_pill(
    session: Session,
) -> None:
    session.override(wb.pattern(lambda x, W, b: x @ W + b), "0.5 * d", name="half")
    svg = draw_picture(take_snapshot(session))
    dashed = [r for r in ElementTree.fromstring(svg).iter(f"{SVG}rect")
              if "covered" in (r.get("class") or "")]  # fmt: skip
    assert len(dashed) == 1  # the matmul; the sum is the node that it ends with
    assert texts(svg).count("half") == 1


def test_hostile_findings_are_text() -> None:
    made = golden()
    examined(made)
    findings = made.findings
    assert findings is not None
    hostile = replace(findings[0], title='</title><script>x</script>"')
    made._keep("findings", replace(findings, found=(hostile,)), made._state)
    svg = draw_picture(take_snapshot(made))
    ElementTree.fromstring(svg)
    assert "<script" not in svg


def test_a_large_graph_tells_its_findings_in_words() -> None:
    def f(x: Any) -> Any:
        x = wind(x, MOST_CARDS)
        return np.sum(np.sqrt(x - x))

    with np.errstate(all="ignore"):
        session = Session(wb.trace(f)(np.ones(2)))
        session.diagnose()
        lines = texts(draw_picture(take_snapshot(session)))
    assert any(line.startswith("error: ") for line in lines)
