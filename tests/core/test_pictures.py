"""A graph as text, as DOT and as SVG: complete, linked, harmless whatever names are."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.drawing import MOST_CARDS
from workbench.core.listing import MOST_LINES
from workbench.errors import UsageError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a</text><script>alert("1")</script> \\N {b|c} \x00\n"; n0 -> n1'


def network(*overrides: Any, name: str = "b") -> wb.Graph:
    """A layer with its gradients: forward and backward in one graph."""
    A, v = wb.matrix("A", shape=(4, 3)), wb.vector("v", shape=3)
    b = wb.vector(name, shape=4)
    h = np.tanh(A @ v + b)
    h.name = "h"
    loss = np.sum(h**2)
    loss.name = "loss"
    grads = wb.grad(loss, [A, b], overrides=list(overrides))
    return wb.Graph([A, b, v], [loss, *grads])


def test_text_shows_names_shapes_and_what_a_gradient_comes_from() -> None:
    lines = str(network()).splitlines()
    assert re.fullmatch(r"A +=\s+input +float64\[4, 3\]", lines[0])
    (tanh,) = (line for line in lines if line.startswith("h "))
    assert re.search(r"= tanh\(%\d+\) +float64\[4\]$", tanh)
    last = next(line for line in lines if line.startswith("(dloss/dA)"))
    assert re.search(r"float64\[4, 3\]    from matmul %\d+: ", last)
    assert any("from tanh h: g · (1 − y²)" in line for line in lines)
    assert "overridden" not in str(network())


def test_text_tells_an_override() -> None:
    clip = wb.override("tanh", "clip(d, -1, 1)", name="clip it")
    assert "from tanh h, overridden: clip it" in str(network(clip))


def test_text_tells_leaves_apart() -> None:
    x, w = wb.scalar("x"), wb.shared(1.0, "w")
    other, two = wb.scalar("other"), wb.constant(2.0, "two")
    text = str(wb.Graph([x], [x * w + other * two]))
    for line in ("x +=\\s+input", "w +=\\s+shared", "other += symbol"):
        assert re.search(line, text), text
    assert re.search(r"two +=\s+constant 2\.0", text)


def test_several_of_one_name_have_their_positions_too() -> None:
    a, b, c = wb.scalar("a"), wb.scalar("a"), wb.scalar("c")
    lines = str(wb.Graph([a, b, c], [a - b * c])).splitlines()
    assert [line.split()[0] for line in lines] == ["a%0", "a%1", "c", "%3", "%4"]
    assert "multiply(a%1, c)" in lines[3]


def test_a_large_graph_is_cut_with_a_count(measured: Callable[[str], None]) -> None:
    x = y = wb.scalar("x")
    for _ in range(10_000):
        y = np.sin(y)
    graph = wb.Graph([x], [y])
    start = time.perf_counter()
    lines = str(graph).splitlines()
    assert len(lines) == MOST_LINES + 1
    assert f"... {10_001 - MOST_LINES:,} more nodes ..." in lines
    picture = graph.svg()
    assert "10,001 nodes, 10,000 edges: too many to draw" in picture
    assert "10000 × sin" in picture
    assert len(graph.dot().splitlines()) > 20_000
    seconds = time.perf_counter() - start
    measured(f"10,001 nodes as text, SVG and DOT: {seconds:.2f} s")


@pytest.mark.parametrize(
    ("inputs", "outputs", "told"),
    [
        (wb.scalar("x"), [], "the inputs of a graph are a list"),
        ([], wb.scalar("x"), "the outputs of a graph are a list"),
        ([1.0], [], "an input of a graph is a Tensor, not 1.0"),
        (3, [], "the inputs of a graph are a list, not 3"),
    ],
)
def test_a_graph_of_what_is_none(inputs: Any, outputs: Any, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        wb.Graph(inputs, outputs)


# DOT

_TEXT = r'"(?:[^"\\]|\\.)*"'
_WORD = r"[\w#.]+"
_ATTRIBUTES = rf"\[{_WORD}=(?:{_TEXT}|{_WORD})(?:, ?{_WORD}=(?:{_TEXT}|{_WORD}))*\]"
_STATEMENTS = (
    r"digraph \w+ \{",
    r"subgraph \w+ \{",
    r"\}",
    rf"(?:node|edge) {_ATTRIBUTES};",
    rf"(?:{_WORD}={_TEXT}; ?)+",
    rf"n\d+ {_ATTRIBUTES};",
    rf"n\d+ -> n\d+(?: {_ATTRIBUTES})?;",
)


def statements(text: str) -> list[str]:
    """The lines of DOT, each of which must be a statement of its grammar."""
    lines = [line.strip() for line in text.split("\n")]
    for line in lines:
        assert any(re.fullmatch(one, line) for one in _STATEMENTS), line
    return lines


@pytest.mark.parametrize("name", ["b", HOSTILE])
def test_dot_is_a_program_of_its_language(name: str) -> None:
    graph = network(name=name)
    lines = statements(graph.dot())
    nodes = [line for line in lines if re.match(r"n\d+ \[", line)]
    assert len(nodes) == len(graph)
    solid = [line for line in lines if re.fullmatch(r"n\d+ -> n\d+;", line)]
    reads = [x for node in graph.nodes for x in node.inputs if isinstance(x, wb.Tensor)]
    assert len(solid) == len(reads)
    assert sum("cluster_" in line for line in lines) == 2
    dashed = [line for line in lines if "dashed" in line]
    assert len(dashed) == sum(node.origin is not None for node in graph.nodes)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("name", ["b", HOSTILE])
def test_graphviz_reads_the_dot(name: str) -> None:
    made = subprocess.run(
        ["dot", "-Tsvg"], input=network(name=name).dot(), capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert not made.stderr
    titles = [x.text for x in ElementTree.fromstring(made.stdout).iter(f"{SVG}text")]
    assert "loss" in titles
    assert any(name.split("\n")[0].replace("\x00", "�") in str(t) for t in titles)


# SVG


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = []
    for rect in list(ElementTree.fromstring(svg).iter(f"{SVG}rect"))[1:]:
        x, y, w, h = (float(rect.get(k, "0")) for k in ("x", "y", "width", "height"))
        found.append((x, y, x + w, y + h))
    return found


def test_every_node_is_in_the_picture_and_none_overlaps() -> None:
    graph = network(wb.override("tanh", "clip(d, -1, 1)"))
    svg = graph.svg()
    root = ElementTree.fromstring(svg)
    found = boxes(svg)
    assert len(found) == len(graph)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for left, top, right, bottom in found:
        assert 0 < left < right < width
        assert 0 < top < bottom < height
    for a, b in combinations(found, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a, b)
    texts = [x.text for x in root.iter(f"{SVG}text")]
    for word in ("A", "tanh", "float64[4]", "loss", "(dloss/db)", "matmul"):
        assert word in texts
    kinds = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert {"paper", "leaf", "op", "gradient", "override"} == set(kinds)
    # The legend tells the colours that are there.
    told = "".join(list(root.iter(f"{SVG}text"))[-1].itertext())
    assert [part[2:] for part in told.split("\N{EM SPACE}") if part] == [
        "input or constant", "gradient", "overridden",
    ]  # fmt: skip


def test_values_and_gradients_run_down() -> None:
    graph = network()
    tops = [top for _, top, _, _ in boxes(graph.svg())]
    for node, top in zip(graph.nodes, tops, strict=True):
        for x in node.inputs:
            if isinstance(x, wb.Tensor):
                assert tops[graph.ids[x]] < top
    assert tops[graph.ids[graph.outputs[1]]] > tops[graph.ids[graph.outputs[0]]]


def test_a_program_in_scopes_is_folded_by_them() -> None:
    """Card for card what is left: what stands in no scope, and one for each scope."""
    x = y = wb.scalar("x")
    for name in ("first", "second"):
        with wb.scope(name):
            for _ in range(MOST_CARDS):
                y = np.sin(y) * 2
    svg = wb.Graph([x], [np.exp(y)]).svg()
    root = ElementTree.fromstring(svg)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert [t for t in texts if t in ("x", "first", "second", "exp")] == [
        "x", "first", "second", "exp",
    ]  # fmt: skip
    assert texts.count(f"{2 * MOST_CARDS} nodes") == 2
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert f"{MOST_CARDS} × sin, {MOST_CARDS} × multiply" in titles
    assert len(list(root.iter(f"{SVG}path"))) == 3
    assert len(svg) < 5000


def test_a_gradient_is_folded_by_the_scopes_of_its_program() -> None:
    x = y = wb.scalar("x")
    for name in ("first", "second"):
        with wb.scope(name):
            for _ in range(MOST_CARDS):
                y = np.sin(y)
    root = ElementTree.fromstring(wb.Graph([x], [y, wb.grad(y, x)]).svg())
    names = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "name"]
    assert names[1:] == ["x", "first", "second", "∂ second", "∂ first"]
    kinds = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert kinds == ["paper", "leaf", "fold", "fold", "gradient", "gradient"]


def test_the_picture_stands_alone_in_light_and_dark() -> None:
    svg = network().svg()
    assert "@media (prefers-color-scheme:dark)" in svg
    assert not re.search(r"<script|href|url\(|@import|\son\w+=", svg)


def test_a_name_is_text_in_the_picture() -> None:
    svg = network(name=HOSTILE).svg()
    root = ElementTree.fromstring(svg)
    assert {x.tag.removeprefix(SVG) for x in root.iter()} == {
        "svg", "title", "style", "rect", "text", "tspan", "path", "g",
    }  # fmt: skip
    assert any((x.text or "").startswith("a</text><scrip") for x in root.iter())


@pytest.mark.parametrize("length", [MOST_CARDS - 1, MOST_CARDS])
def test_the_largest_picture(length: int, measured: Callable[[str], None]) -> None:
    x = y = wb.scalar("x")
    for _ in range(length):
        y = np.sin(y)
    start = time.perf_counter()
    svg = wb.Graph([x], [y]).svg()
    assert ("too many to draw" in svg) == (length == MOST_CARDS)
    measured(f"SVG of {length + 1:,} nodes: {time.perf_counter() - start:.2f} s")


def test_a_notebook_shows_the_picture_beside_the_text() -> None:
    graph = network()
    shown = graph._repr_mimebundle_()
    assert shown == {"image/svg+xml": graph.svg(), "text/plain": str(graph)}
    assert graph._repr_svg_() == graph.svg()


def test_odd_graphs_have_pictures() -> None:
    x = wb.vector("x", shape=3)
    second = wb.grad(np.sum(wb.grad(np.sum(x**3), x) ** 2), x)
    for graph in (
        wb.Graph([], []),
        wb.Graph([x], [x]),
        wb.Graph([x], [second]),
        wb.Graph([x], [np.linalg.eigh(np.outer(x, x))[0], 2.0]),
        wb.Graph([x], [wb.grad(np.sum(np.sin(x)), x) * 2 + x]),
    ):
        assert len(boxes(graph.svg())) == len(graph)
        statements(graph.dot())
        assert len(str(graph).splitlines()) == len(graph)
