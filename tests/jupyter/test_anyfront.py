"""The widget for hosts without the extension: chosen where it is, and small."""

from __future__ import annotations

import json
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.jupyter import display, hosts
from workbench.session import Session
from workbench.session.html import read_renderer
from workbench.session.wire import MIME_TYPE


@pytest.fixture
def session() -> Session:
    return Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))


def pretend_installed(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    spec = object() if installed else None
    monkeypatch.setattr(hosts, "find_spec", lambda name: spec)


@pytest.mark.parametrize("installed", [True, False])
def test_jupyterlab_takes_its_extension(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, installed)
    assert hosts.choose_front() == hosts.choose_front("lab") == "lab"


@pytest.mark.parametrize("host", ["colab", "marimo", "code"])
def test_other_hosts_take_anywidget_where_it_is(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host == "colab":
        monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    elif host == "marimo":
        marimo: Any = ModuleType("marimo")
        marimo.running_in_notebook = lambda: True
        monkeypatch.setitem(sys.modules, "marimo", marimo)
    else:
        shell = SimpleNamespace(user_ns={"__vsc_ipynb_file__": "a.ipynb"})
        ipython: Any = ModuleType("getipython")
        ipython.get_ipython = lambda: shell
        monkeypatch.setitem(sys.modules, "IPython.core.getipython", ipython)
    pretend_installed(monkeypatch, True)
    assert hosts.choose_front() == "anywidget"
    pretend_installed(monkeypatch, False)
    assert hosts.choose_front() == "lab"


def test_marimo_draws_what_show_returns(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("anywidget")
    given: list[object] = []

    def as_html(x: object) -> Any:
        given.append(x)
        return SimpleNamespace(_mime_=lambda: ("text/html", "<marimo-anywidget>"))

    marimo: Any = ModuleType("marimo")
    marimo.running_in_notebook = lambda: True
    marimo.as_html = as_html
    monkeypatch.setitem(sys.modules, "marimo", marimo)
    picture = display.show(session)
    assert picture._mime_() == ("text/html", "<marimo-anywidget>")
    assert given == [hosts.get_widget(session, "anywidget")]
    assert capsys.readouterr().out == ""
    # Without anywidget a still picture.
    pretend_installed(monkeypatch, False)
    mime, data = display.show(session)._mime_()
    assert mime == "text/html"
    assert data.startswith("<svg")


def test_a_wrong_word_and_a_missing_package_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match='none of "auto", "lab", "anywidget"'):
        hosts.choose_front("vscode")
    pretend_installed(monkeypatch, False)
    with pytest.raises(UsageError, match=r"pip install 'autodiff-workbench\[anywidget"):
        hosts.choose_front("anywidget")


@pytest.mark.parametrize("word", ["nonsense", "x" * 10**6, None, 3, ["lab"]])
@pytest.mark.parametrize("what", ["function", "session", "program"])
def test_a_wrong_word_is_refused_whatever_is_shown(
    session: Session, what: str, word: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = wb.scalar("x")
    shown = {
        "function": wb.function([x], x**2),
        "session": session,
        "program": session.graph,
    }[what]
    with pytest.raises(UsageError) as caught:
        wb.show(shown, widget=word)
    told = str(caught.value)
    assert told.startswith(f"widget={word!r}"[:40])
    assert 'is none of "auto", "lab", "anywidget".' in told
    assert len(told) < 400
    assert capsys.readouterr().out == ""


def test_the_renderer_is_sent_when_it_is_asked_for(session: Session) -> None:
    pytest.importorskip("anywidget")
    shown = hosts.get_widget(session, "anywidget")
    assert shown is hosts.get_widget(session, "anywidget")
    assert shown is not hosts.get_widget(session)
    sent: list[tuple[Any, Any]] = []
    shown.send = lambda content, buffers=None: sent.append((content, buffers))
    shown._handle_custom_msg({"type": "renderer"}, [])
    ((content, [code]),) = sent
    assert content == {"type": "renderer"}
    assert code.decode() == read_renderer()
    # What a notebook saves of each widget is the loader alone.
    assert len(json.dumps(shown.get_state(), default=str)) < 3000
    hosts.close_widget(session)
    assert shown.comm is None


def test_its_output_is_a_view_and_a_picture(session: Session) -> None:
    pytest.importorskip("anywidget")
    shown = display.SessionOutput(session, widget="anywidget")
    bundle, metadata = shown._make_bundle(session)
    assert metadata == {}
    assert MIME_TYPE not in bundle
    assert {"image/svg+xml", "text/plain"} <= bundle.keys()
    view = bundle["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == hosts.get_widget(session, "anywidget").model_id
    display.close_picture(session)


# What VS Code and Colab document of widgets, which no test can start


def test_colab_is_told_where_its_manager_of_widgets_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colab draws widgets of others where the output names the manager."""
    anywidget = pytest.importorskip("anywidget")
    anywidget._util.enable_custom_widget_manager_once.cache_clear()
    asked: list[str] = []
    address = "https://ssl.gstatic.com/colaboratory-static/widgets/colab-cdn-widget"
    output: Any = ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append("manager")
    output._widgets = SimpleNamespace(_installed_url=address)
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    shown = display.SessionOutput(session)
    bundle, metadata = shown._make_bundle(session)
    view = "application/vnd.jupyter.widget-view+json"
    assert view in bundle
    assert metadata[view]["colab"]["custom_widget_manager"]["url"] == address
    assert asked == ["manager"]
    display.close_picture(session)
    anywidget._util.enable_custom_widget_manager_once.cache_clear()


def list_addresses(code: str) -> set[str]:
    return set(re.findall(r"\bhttps?://[\w.-]+", code))


def test_its_code_is_a_module_that_asks_no_other_machine() -> None:
    """VS Code and Colab load one ES module: no require.js, and nothing besides."""
    pytest.importorskip("anywidget")
    from workbench.jupyter.anyfront import LOADER

    renderer = read_renderer()
    assert "export default { render };" in LOADER
    assert re.search(r"export\s*\{[^}]*\bmount\b[^}]*\}", renderer)
    for code in (LOADER, renderer):
        assert not re.search(r"\b(?:require|requirejs)\s*\(\s*\[?[\"']", code)
        # Of require.js only what a library asks whether it is there.
        rest = code.replace("define.amd?define(", "")
        assert not re.search(r"(?<![.\w])define\s*\(\s*[\[\"']", rest)
        # Modules of other files or machines: a webview has neither.
        assert not re.search(r"\bimport\s*\(\s*[\"']|\bfrom\s*[\"'](?:\.|/|http)", code)
        assert not re.search(r"\b(?:importScripts|XMLHttpRequest|EventSource)\b", code)
    # Names of formats, which nobody loads.
    assert list_addresses(LOADER) == set()
    assert list_addresses(renderer) <= {"http://www.w3.org"}


def test_what_it_sends_is_json_and_binary_buffers(session: Session) -> None:
    """A comm of the Jupyter protocol carries JSON and buffers, in any host."""
    pytest.importorskip("anywidget")
    shown = hosts.get_widget(session, "anywidget")
    sent: list[tuple[Any, Any]] = []
    shown.send = lambda content, buffers=None: sent.append((content, buffers))
    hello = {"type": "event", "seq": 1, "event": "hello", "schema": 1}
    shown._handle_custom_msg(hello, [])
    assert sent
    for content, buffers in sent:
        json.dumps(content, allow_nan=False)
        assert all(memoryview(one).nbytes > 0 for one in buffers or ())
    assert any(buffers for _, buffers in sent)
    hosts.close_widget(session)
