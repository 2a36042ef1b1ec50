"""The figures hold the right numbers, small, named, and drawn by Plotly."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plotly import graph_objects as go

import workbench as wb
from workbench.errors import UsageError
from workbench.jupyter import plots


def make_session(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def dots(plot: Any, name: str) -> Any:
    return next(trace for trace in plot.figure.data if trace.name == name)


def test_a_jacobian_is_drawn_entry_by_entry() -> None:
    A = np.array([[1.0, -2.0, 0.0], [0.5, 0.0, 4.0]])
    session = make_session(lambda x: A @ x, np.ones(3), seed=np.ones(2))
    plot = plots.jacobian_plot(session)
    (heat,) = plot.figure.data
    np.testing.assert_allclose(heat.z, A)
    assert (heat.zmin, heat.zmax) == (-4.0, 4.0)
    assert list(heat.x) == ["x[0]", "x[1]", "x[2]"]
    assert plot.note == "2 × 3; reverse mode; 33% zeros"


def test_a_hessian_has_its_cross_blocks() -> None:
    session = make_session(lambda x, y: x * x * y, 3.0, 5.0)
    plot = plots.hessian_plot(session)
    np.testing.assert_allclose(plot.figure.data[0].z, [[10.0, 6.0], [6.0, 0.0]])
    assert list(plot.figure.layout.xaxis.ticktext) == ["x", "y"]


def test_a_pooled_plot_is_small_and_says_so() -> None:
    session = make_session(np.tanh, np.ones(900), seed=np.ones(900))
    plot = plots.jacobian_plot(session)
    assert "the largest magnitude of its block (5 × 5)" in plot.note
    assert len(json.dumps(plot.data)) < 1_000_000


def test_infinity_is_drawn_apart_and_counted() -> None:
    with np.errstate(all="ignore"):
        session = make_session(np.sqrt, np.array([0.0, 4.0]), seed=np.ones(2))
        plot = plots.jacobian_plot(session)
    assert plot.figure.data[0].z[1][1] == 0.25
    assert "not finite" in plot.note
    assert dots(plot, "not finite") is not None
    json.dumps(plot.data, allow_nan=False)


def test_complex_entries_are_drawn_as_magnitudes_from_zero_on() -> None:
    x = np.array([1.0, 2.0, 3.0])
    session = make_session(np.fft.fft, x, seed=np.ones(3, complex))
    plot = plots.jacobian_plot(session)
    (heat,) = plot.figure.data
    np.testing.assert_allclose(heat.z, 1.0)
    assert (heat.zmin, heat.zmax) == (0.0, pytest.approx(1.0))
    places = [place for place, _ in heat.colorscale]
    assert (places[0], places[-1]) == (0.0, 1.0)
    assert places == sorted(places)
    assert "magnitudes of complex numbers" in plot.note


def test_names_are_text_and_never_markup() -> None:
    graph = wb.trace(lambda x: np.sum(x * x))(np.ones(2))
    graph.inputs[0].name = "<b>x</b>"
    plot = plots.hessian_plot(wb.Session(graph))
    assert "<b>" not in json.dumps(plot.data)
    assert "&lt;b&gt;x" in plot.figure.data[0].x[0]


def test_a_check_draws_errors_and_tolerance_and_names_the_wrong() -> None:
    session = make_session(lambda x, y: np.sum(x * x) + y, np.array([1.0, 2.0]), 1.0)
    good = plots.check_plot(session)
    assert len(dots(good, "agrees").x) == 3
    assert dots(good, "tolerance").line.dash == "dot"
    assert good.note.startswith("agrees with differences; worst ")
    assert good.note.endswith("(3 entries, 3 rules)")
    assert good.figure.layout.yaxis.type == "log"
    session.override("multiply", "2 * d")
    changed = plots.check_plot(session)
    # The true gradient is compared: that by x agrees, but it is not what is passed on.
    agrees = dots(changed, "agrees")
    on_purpose = dots(changed, "changed on purpose, the true one agrees")
    assert (len(agrees.x), len(on_purpose.x)) == (1, 2)
    assert agrees.marker.symbol != on_purpose.marker.symbol
    assert session.report is not None
    said = session.report.changes()
    assert said in changed.note
    assert said in on_purpose.text[0]
    assert dots(changed, "rule changed on purpose").y == pytest.approx([2.0])
    double = wb.custom_vjp(lambda x: x * x, vjp=lambda node, g: 4 * g * node.inputs[0])
    bad = plots.check_plot(
        make_session(lambda x: np.sum(double(x)), np.array([1.0, 2.0]))
    )
    # The true gradient is 2x, the rule doubles it: off by 2x.
    assert dots(bad, "wrong").y == pytest.approx([2.0, 4.0])
    assert "x[1]: worst" in [note.text for note in bad.figure.layout.annotations]
    assert "should be" in dots(bad, "wrong rule").text[0]
    assert bad.note.startswith("x[1] is off by 4, tolerance ")
    # The caption of each is one line.
    assert all(
        "<br>" not in plot.figure.layout.title.subtitle.text
        for plot in (good, changed, bad)
    )


def test_the_errors_of_steps_are_drawn_as_a_v() -> None:
    session = make_session(lambda x: np.sum(np.tanh(x)), np.linspace(0.3, 1, 5))
    plot = plots.steps_plot(session, "tanh 1")
    central = [e for e in dots(plot, "central").y if e is not None]
    lowest = int(np.argmin(central))
    assert central[0] > 1e3 * central[lowest] < central[-1]
    assert dots(plot, "complex step").y[-1] < 1e-14
    assert plot.figure.layout.xaxis.type == plot.figure.layout.yaxis.type == "log"
    assert "complex step" in plot.note
    with pytest.raises(UsageError, match="is not computed from arrays"):
        plots.steps_plot(session, "x")


def test_a_kink_is_named() -> None:
    session = make_session(lambda x: np.sum(np.abs(x)), np.array([0.0, 1.0]))
    plot = plots.check_plot(session)
    assert len(dots(plot, "kink").x) == 1
    assert "x[0]: kink" in [note.text for note in plot.figure.layout.annotations]


def test_python_gets_plotly_figures_that_carry_no_javascript() -> None:
    session = make_session(lambda x: np.sum(x**3), np.ones(2))
    for figure in (
        wb.plots.jacobian(session),
        wb.plots.hessian(session),
        wb.plots.spectrum(session),
        wb.plots.singular(session),
        wb.plots.sparsity(session),
        wb.plots.check(session),
    ):
        assert isinstance(figure, go.Figure)
        shown = figure._repr_mimebundle_()
        assert sorted(shown) == ["application/vnd.plotly.v1+json", "text/plain"]
        assert len(json.dumps(shown)) < 50_000


def test_plots_without_values_say_so() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(wb.Spec((3,), float))
    session = wb.Session(graph)
    for plot in (getattr(wb.plots, name) for name in wb.plots.__all__):
        with pytest.raises(UsageError, match=r"traced without.*ad\.run"):
            plot(session)
