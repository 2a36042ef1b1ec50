"""A session as one file: what it holds, and what it does not let happen."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.session import Session, html
from workbench.session.wire import (
    list_details,
    read_saved,
    save_snapshot,
    take_snapshot,
    write_lesson,
)

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


class Elements(HTMLParser):
    """The elements of a page with the texts that stand right in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.is_open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self.is_open = True

    def handle_endtag(self, tag: str) -> None:
        self.is_open = False

    def handle_data(self, data: str) -> None:
        if self.is_open:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)


def make_session(name: str = "x") -> Session:
    with wb.scope("layer"):
        graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.array([0.3, -2.0]))
    session = Session(graph)
    session.override("tanh", "clip(d, -0.1, 0.1)", name=name)
    return session


def saved_in(text: str) -> object:
    (data,) = (
        text for _, attrs, text in Elements(text).found if attrs.get("id") == html.ID
    )
    return json.loads(data)


def test_a_file_holds_what_a_notebook_would_keep(tmp_path: Path) -> None:
    session = make_session()
    session.check()
    path = session.to_html(tmp_path / "x.html")
    assert path == tmp_path / "x.html"
    saved = saved_in(path.read_text(encoding="utf-8"))
    # And the lesson and the details, as far as the program is small.
    again = save_snapshot(
        take_snapshot(session),
        lesson=write_lesson(session),
        details=list_details(session),
    )
    assert again is not None
    assert saved == json.loads(json.dumps(again))
    header = read_saved(saved).header
    assert [one["label"] for one in header["overrides"]] == ["x"]
    assert header["check"] is not None


def test_a_file_tells_what_a_kernel_would_of_each_node() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.sum(np.tanh(w @ x) ** 2)

    x, w = np.array([0.5, -1.0]), np.array([[1.0, 2.0], [0.0, 3.0], [1.0, -1.0]])
    graph = wb.trace(f)(x, w)
    (found,) = (node for node in graph.nodes if node.op.name == "tanh")
    found.name = "h"
    session = Session(graph, wrt=["x"])
    details = json.loads(json.dumps(saved_in(session.to_html())))["details"]
    assert [one["node"] for one in details] == [*range(len(session.graph.nodes))]
    (h,) = (one for one in details if one["node"] == session.nodes.find("h"))
    counted = np.histogram(np.tanh(w @ x), len(h["value"]["counts"]))[0]
    assert h["value"]["counts"] == counted.tolist()
    assert h["rule"] == "g · (1 − y²)"
    ((title, text),) = h["jacobians"]
    by_hand = (1 - np.tanh(w @ x) ** 2)[:, None] * w
    assert title == "∂h/∂x"
    told = [float(number) for number in re.findall(r"[-+.e\d]+", text)]
    np.testing.assert_allclose(told, by_hand.ravel(), rtol=1e-6)


def test_a_file_holds_derivatives_by_a_number() -> None:
    """A bias of Python's float has a derivative as an array has."""
    session = Session(wb.trace(lambda w, b: np.sum((w + b) ** 2))(np.ones(2), 0.5))
    details = list_details(session)
    assert details is not None
    output = details[session.output]
    assert output["jacobians"] == [["∂sum 4/∂w", "[3. 3.]"], ["∂sum 4/∂b", "6.0"]]


def test_details_of_a_large_program_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.session.wire.detail.MOST_DIFFERENTIATED", 2)
    details = list_details(make_session())
    assert details is not None
    assert not [one for one in details if "jacobians" in one]
    monkeypatch.undo()
    monkeypatch.setattr("workbench.session.wire.detail.MOST_SECONDS", 0.0)
    details = list_details(make_session())
    assert details is not None
    assert not [one for one in details if "jacobians" in one]
    for limit in ("MOST_DETAILED", "MOST_READ"):
        with monkeypatch.context() as changed:
            changed.setattr(f"workbench.session.wire.detail.{limit}", 2)
            assert list_details(make_session()) is None


def test_without_a_path_the_text_is_returned() -> None:
    session = make_session()
    assert session.to_html().startswith("<!doctype html>")
    assert wb.show(session).to_html() == session.to_html()


def test_the_page_stays_small() -> None:
    # The goal is 300 kB; it is 174.6 kB, and must not grow unnoticed.
    assert html.PAGE.stat().st_size <= 175_000


def test_labels_are_text_in_the_file() -> None:
    text = make_session(HOSTILE).to_html()
    plain = make_session("x").to_html()
    tags = [tag for tag, _, _ in Elements(text).found]
    assert tags == [tag for tag, _, _ in Elements(plain).found]
    assert tags.count("script") == 3
    assert HOSTILE not in text
    header = read_saved(saved_in(text)).header
    assert [one["label"] for one in header["overrides"]] == [HOSTILE]


def test_the_policy_allows_its_own_scripts_and_no_network() -> None:
    found = Elements(make_session().to_html()).found
    (policy,) = (
        attrs["content"] or ""
        for tag, attrs, _ in found
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    (loader,) = (text for _, attrs, text in found if attrs.get("type") == "module")
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in (loader, html.read_renderer())
    ]
    rules = dict(rule.strip().split(maxsplit=1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == " ".join(f"'sha256-{one}'" for one in hashes)
    assert rules.keys().isdisjoint({"connect-src", "frame-src", "object-src"})
    assert not re.search(r"https?:", policy)
    # No attribute leads anywhere, and no handler stands in the markup.
    names = {name for _, attrs, _ in found for name in attrs}
    assert names.isdisjoint({"src", "href"})
    assert not [name for name in names if name.startswith("on")]


def test_a_program_that_is_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.session.wire.notebook.MOST_SAVED", 2)
    with pytest.raises(UsageError, match=r"of up to .* nodes, and this program has 3"):
        make_session().to_html()


def test_a_page_that_is_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "PAGE", Path("missing.html"))
    with pytest.raises(
        UsageError, match=r"not built in this checkout\. Build it: make"
    ):
        make_session().to_html()


def test_a_function_says_how_to_be_written() -> None:
    x = wb.vector("x")
    shown = wb.show(wb.function([x], np.sum(x)))
    with pytest.raises(UsageError, match=r"wb\.show\(wb\.trace\(f\)\(x\)\)\.to_html"):
        shown.to_html()
