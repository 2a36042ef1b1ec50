"""Jacobians, Hessians, their values and patterns as figures, whole and in windows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import workbench as wb
from workbench.errors import DisconnectedInputError, UsageError
from workbench.jupyter import jobs, plots
from workbench.jupyter.heat import Axis


def make_session(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def linear(A: Any) -> wb.Session:
    """A session whose Jacobian is a matrix."""
    return make_session(lambda x: A @ x, np.ones(A.shape[1]), seed=np.ones(A.shape[0]))


def text_of(plot: Any) -> str:
    """What is sent to a page; strict JSON."""
    return json.dumps(plot.data, allow_nan=False)


# Axes


def test_an_axis_names_entries_cells_and_groups() -> None:
    axis = Axis([("W", (30, 20)), ("b", (7,)), ("s", ())])
    assert (axis.size, axis.block) == (608, 4)
    assert axis.labels[0] == "W[0, 0] … W[0, 3]"
    assert axis.labels[150:] == ["b[0] … b[3]", "b[4] … b[6]", "s"]
    assert axis.find_edges() == [0, 150, 152, 153]
    assert axis.make_settings(600, across=True)["ticktext"] == ["W"]
    part = Axis([("W", (30, 20)), ("b", (7,)), ("s", ())], (598, 603))
    assert part.labels == ["W[29, 18]", "W[29, 19]", "b[0]", "b[1]", "b[2]"]
    assert part.find_edges() == [0, 2, 5]
    assert part.make_settings(600, across=True)["ticktext"] == part.labels
    twice = Axis([("x", ()), ("x", ())])
    assert twice.labels == ["x (1)", "x (2)"]


def test_labels_that_stand_side_by_side_have_room() -> None:
    axis = Axis([("a_name_that_is_long", (150, 150))], (0, 180))
    made = axis.make_settings(560, across=True)
    assert len(made["tickvals"]) * len("a_name_that_is_long[0, 100]") * 6 < 560
    long = Axis([("x" * 60, (4,))]).make_settings(560, across=False)
    assert all(len(text) < 40 for text in long["ticktext"])


# Heat maps


@pytest.mark.parametrize("is_column", [True, False])
def test_a_row_or_a_column_is_a_line(is_column: bool, rng: np.random.Generator) -> None:
    """A 40 × 1 matrix has no column of cells that is one wide."""
    A = rng.normal(size=(40, 1) if is_column else (1, 40))
    plot = plots.jacobian_plot(linear(A))
    (line,) = plot.figure.data
    assert line.type == "scatter"
    assert_allclose(line.y, A.ravel(), rtol=1e-12)
    assert len({*line.x}) == 40
    assert line.x[3].endswith("[3]")
    assert ("/ ∂ %{x}" in line.hovertemplate) != is_column
    assert plot.matrix is None
    assert f"{A.shape[0]} × {A.shape[1]}" in plot.note
    text_of(plot)
    # A part of it is a heat map, to be walked and zoomed.
    window = ((0, 20), (0, 1)) if is_column else ((0, 1), (0, 20))
    assert plots.jacobian_plot(linear(A), window=window).matrix is not None
    assert plots.jacobian_plot(linear(A[:8, :8])).figure.data[0].type == "heatmap"


def test_a_line_has_a_cross_where_it_is_not_finite() -> None:
    A = np.linspace(-1.0, 1.0, 20)[:, None]
    A[3], A[7] = np.nan, np.inf
    with np.errstate(all="ignore"):
        plot = plots.jacobian_plot(linear(A))
    line, crosses = plot.figure.data
    assert np.flatnonzero(~np.isfinite(line.y)).tolist() == [3, 7]
    assert [*crosses.x] == [line.x[3], line.x[7]]
    assert "2 entries are not finite" in plot.note
    text_of(plot)


def test_a_window_is_that_part_of_the_whole(rng: np.random.Generator) -> None:
    A = rng.normal(size=(300, 450))
    session = linear(A)
    plot = plots.jacobian_plot(session, window=((100, 110), (40, 60)))
    (heat,) = plot.figure.data
    assert_allclose(heat.z, A[100:110, 40:60], rtol=1e-12)
    assert heat.x[0] == "x[40]"
    assert heat.y[-1].endswith("[109]")
    assert "rows 100 to 109, columns 40 to 59 of it" in plot.note
    assert plot.matrix == {
        "kind": "jacobian",
        "of": session.output,
        "wrt": session.wrt,
        "path": [session.nodes.find("x"), session.output],
        "mode": "reverse",
        "rows": 300,
        "columns": 450,
        "window": {"rows": [100, 110], "columns": [40, 60]},
        "block": [1, 1],
    }
    asked = {"rows": [100, 110], "columns": [40, 60]}
    assert text_of(plots.jacobian_plot(session, window=asked)) == text_of(plot)
    assert plots.jacobian_plot(session, window=((0, 300), (7, 8))).matrix is not None


def test_G2_zooming_from_all_to_one_entry(rng: np.random.Generator) -> None:
    A = rng.normal(size=(1000, 450))
    A[123, 45], A[999, 449] = -99.0, np.nan
    session = linear(A)
    whole = plots.jacobian_plot(session)
    assert whole.matrix is not None
    assert whole.matrix["block"] == [5, 3]
    heat, bad = whole.figure.data
    assert heat.z.shape == (200, 150)
    assert heat.z[24, 15] == -99.0
    assert heat.text[24, 15] == " at [123], [45]"
    assert bad.text[199, 149] == "NaN at [999], [449]"
    assert np.count_nonzero(~np.isnan(bad.z)) == 1
    assert "1 entry is not finite, at matmul 1[999], x[449]" in whole.note
    part = plots.jacobian_plot(session, window=((120, 125), (45, 48)))
    assert part.figure.data[0].z[3, 0] == -99.0
    one = plots.jacobian_plot(session, window=((123, 124), (45, 46)))
    assert_array_equal(one.figure.data[0].z, [[-99.0]])
    assert list(one.figure.data[0].x) == ["x[45]"]
    text_of(whole)


def test_zooming_calls_each_rule_once() -> None:
    """All vectors of a window are pulled back together."""
    calls = 0

    def rule(node: Any, g: Any) -> Any:
        nonlocal calls
        calls += 1
        return g * np.cos(node.inputs[0])

    session = make_session(lambda x: np.sin(x), np.arange(4.0), seed=np.ones(4))
    session.override("sin", rule)
    plots.jacobian_plot(session, session.output, "x")
    before = calls
    plot = plots.jacobian_plot(session, session.output, "x", ((1, 2), (0, 4)))
    assert calls == before + 1
    assert_allclose(plot.figure.data[0].z, [[0, np.cos(1.0), 0, 0]])
    session.run(x=np.arange(4.0) + 1)
    plot = plots.jacobian_plot(session, session.output, "x", ((1, 2), (0, 4)))
    assert_allclose(plot.figure.data[0].z, [[0, np.cos(2.0), 0, 0]])
    session.override("sin", "2 * d")
    plot = plots.jacobian_plot(session, session.output, "x", ((1, 2), (0, 4)))
    assert_allclose(plot.figure.data[0].z, [[0, 2 * np.cos(2.0), 0, 0]])


def test_a_jacobian_larger_than_memory_is_drawn() -> None:
    n = 9104
    x = np.linspace(-2, 2, n)
    session = make_session(np.tanh, x, seed=np.ones(n))
    plot = plots.jacobian_plot(session)
    (heat,) = plot.figure.data
    slopes = 1 - np.tanh(x) ** 2
    blocks = [np.max(slopes[k : k + 46]) for k in range(0, n, 46)]
    assert_allclose(np.diag(heat.z), blocks)
    assert "over 99% zeros" in plot.note
    part = plots.jacobian_plot(session, window=((9000, 9010), (9000, 9010)))
    assert_allclose(part.figure.data[0].z, np.diag(slopes[9000:9010]))


def test_a_small_matrix_has_its_numbers_in_square_cells() -> None:
    A = np.arange(1.0, 17.0).reshape(4, 4)
    figure = plots.jacobian_plot(linear(A)).figure
    assert figure.data[0].texttemplate == "%{z:.3~g}"
    assert_array_equal(figure.data[0].z, A)
    assert figure.layout.yaxis.scaleanchor == "x"
    large = plots.jacobian_plot(linear(np.ones((40, 40)))).figure
    assert large.data[0].texttemplate is None
    assert large.layout.yaxis.scaleanchor is None


def test_lines_between_groups_end_where_the_cells_do() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x**2) * np.sum(y**3)

    figure = plots.hessian_plot(make_session(f, np.ones(2), np.ones(3))).figure
    down, across = figure.layout.shapes
    assert (down.x0, down.x1, down.y0, down.y1) == (1.5, 1.5, -0.5, 4.5)
    assert (across.y0, across.y1, across.x0, across.x1) == (1.5, 1.5, -0.5, 4.5)
    assert {down.yref, across.xref} <= {None, "x", "y"}


def test_a_robust_scale_says_what_lies_beyond() -> None:
    A = np.linspace(0.1, 1, 100).reshape(10, 10)
    A[3, 3] = 1e6
    figure = wb.plots.jacobian(linear(A), robust=True)
    assert figure.data[0].zmax == A.max(where=A < 10, initial=0)
    assert "1 cell is beyond" in figure.layout.title.subtitle.text
    assert wb.plots.jacobian(linear(A)).data[0].zmax == 1e6


def test_complex_entries_can_be_read() -> None:
    session = make_session(lambda x: 1j * x + x, np.ones(2), seed=np.ones(2, complex))
    heat = plots.jacobian_plot(session).figure.data[0]
    assert_allclose(heat.z, np.sqrt(2) * np.eye(2))
    assert heat.text[0, 0] == " = |1+1j|"


def test_bad_windows_are_refused_with_what_to_write() -> None:
    session = linear(np.ones((3, 4)))
    for window in (((0, 9), (0, 4)), 7, (1, 2, 3), {"rows": [1, 1], "columns": None}):
        with pytest.raises(UsageError, match=r"rows=.*(Write|A window begins)"):
            plots.jacobian_plot(session, window=window)
    with pytest.raises(UsageError, match="columns"):
        plots.sparsity_plot(session, session.output, window=(None, (-1, 2)))


def test_no_path_is_a_sentence() -> None:
    session = make_session(lambda x: np.sum(np.tanh(x)), np.ones(2))
    with pytest.raises(DisconnectedInputError, match="Swap them"):
        plots.jacobian_plot(session, "x", session.output)


def test_an_empty_matrix_is_an_empty_figure() -> None:
    session = make_session(
        lambda x: x.sum() + np.zeros(3), np.zeros(0), seed=np.ones(3)
    )
    for plot in (
        plots.jacobian_plot(session),
        plots.singular_plot(session),
        plots.sparsity_plot(session, session.output),
        plots.spectrum_plot(session),
    ):
        text_of(plot)


def test_a_derivative_draws_itself() -> None:
    session = linear(np.array([[1.0, 2.0]]))
    figure = session.derivative().plot()
    assert_array_equal(figure.data[0].z, [[1.0, 2.0]])
    figure = session.derivative().plot(((0, 1), (1, 2)))
    assert_array_equal(figure.data[0].z, [[2.0]])


# Values


def test_a_spectrum_is_sorted_signed_and_has_a_condition_number() -> None:
    A = np.diag([3.0, -0.5, 0.0, 1e-3])
    session = make_session(lambda x: x @ A @ x / 2, np.ones(4))
    plot = plots.spectrum_plot(session)
    by_name = {trace.name: trace for trace in plot.figure.data}
    assert_allclose(by_name["positive"].customdata, [3.0, 1e-3])
    assert_allclose(by_name["positive"].x, [1, 2])
    assert_allclose(by_name["negative"].y, [0.5])
    assert_array_equal(by_name["negative"].x, [4])
    assert_array_equal(by_name["zero"].x, [3])
    assert "2 positive, 1 negative, 1 zero" in plot.note
    assert "condition number infinite (singular up to rounding)" in plot.note
    assert plot.figure.layout.yaxis.type == "log"
    assert plot.matrix is None
    assert plot.views == plots.HESSIAN
    text_of(plot)


def test_the_condition_number_is_that_of_numpy(rng: np.random.Generator) -> None:
    A = rng.normal(size=(6, 6))
    A = A + A.T
    session = make_session(lambda x: x @ A @ x / 2, np.ones(6))
    note = plots.spectrum_plot(session).note
    assert f"condition number {np.linalg.cond(A):.3g}" in note
    assert "differs from its transpose" not in note


def test_an_asymmetric_hessian_is_said_to_be_so() -> None:
    session = make_session(lambda x, y: np.sin(x) * y * y, 0.3, 2.0)
    session.override("multiply", "d * (1 + x0)")
    note = plots.spectrum_plot(session).note
    found = session.hessian()
    one, other = float(found["x"]["y"]), float(found["y"]["x"])
    assert abs(one - other) > 0.1
    assert "differs from its transpose by" in note


@pytest.mark.parametrize("decades", [0.0, 1.4, 1.6, 7.0, 40.0])
def test_an_axis_over_two_decades_is_labelled_at_powers_of_ten(decades: float) -> None:
    """Over fewer there may be one such power, or none."""
    smallest = 10.0**-decades
    session = make_session(lambda x: (x[0] ** 2 + smallest * x[1] ** 2) / 2, np.ones(2))
    axis = plots.spectrum_plot(session).figure.layout.yaxis
    low, high = axis.range
    if high - low < 2:
        assert axis.dtick is None
        assert axis.tickformat
    else:
        assert float(axis.dtick).is_integer()
        assert 2 <= (high - low) / axis.dtick <= 9
    assert (high - low < 2) == (decades < 1.5)


def test_what_has_no_spectrum_is_said() -> None:
    with np.errstate(all="ignore"):
        session = make_session(lambda x: np.sum(np.sqrt(x)), np.array([0.0, 1.0]))
    with pytest.raises(UsageError, match=r"not finite, the first .*session\.diagnose"):
        plots.spectrum_plot(session)
    assert "not finite" in plots.hessian_plot(session).note
    with pytest.raises(UsageError, match="complex"):
        plots.spectrum_plot(make_session(lambda z: np.sum(z**3), np.array([1j, 2.0])))
    zero = make_session(lambda x: np.sum(x), np.ones(3))
    assert "every eigenvalue is zero" in plots.spectrum_plot(zero).note
    text_of(plots.spectrum_plot(zero))


def test_singular_values_with_the_rank_at_a_stated_tolerance(
    rng: np.random.Generator,
) -> None:
    A = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
    plot = plots.singular_plot(linear(A))
    by_name = {trace.name: trace for trace in plot.figure.data}
    expected = np.linalg.svd(A, compute_uv=False)
    assert_allclose(by_name["singular values"].y, expected[:2])
    assert "rank 2 of 5" in plot.note
    assert "singular up to rounding" in plot.note
    assert any(name.startswith("zero by rounding below") for name in by_name)
    assert plot.views == ("jacobian", "singular", "sparsity")
    full = plots.singular_plot(linear(np.diag([4.0, 2.0])))
    assert "condition number 2" in full.note
    # Within few decades Plotly would write digits alone, in a smaller type.
    assert full.figure.layout.yaxis.tickformat
    assert not full.figure.layout.showlegend
    zero = plots.singular_plot(linear(np.zeros((2, 2))))
    assert "every singular value is zero" in zero.note
    text_of(zero)


# Patterns


def test_a_pattern_counts_its_band_and_its_blocks() -> None:
    def f(x: Any) -> Any:
        return np.concatenate([x[1:] - x[:-1], x[-1:]])

    session = make_session(f, np.arange(50.0), seed=np.ones(50))
    plot = plots.sparsity_plot(session, session.output)
    z = plot.figure.data[0].z
    assert_array_equal(~np.isnan(z), np.eye(50) + np.eye(50, k=1) > 0)
    assert "99 of 2,500 entries can differ from zero (4%)" in plot.note
    assert "bandwidth 0 below the diagonal, 1 above" in plot.note
    assert "independent" not in plot.note
    assert "2 colours of columns: 2 products give all entries" in plot.note
    assert plot.matrix is not None
    assert plot.matrix["kind"] == "sparsity"
    blocks = np.kron(np.eye(4), np.ones((2, 3)))
    session = linear(blocks)
    note = plots.sparsity_plot(session, session.output).note
    assert "falls into 4 independent blocks" in note
    assert "empty" not in note
    blocks[:, 0] = 0
    session = linear(blocks)
    assert "1 empty column" in plots.sparsity_plot(session, session.output).note


def test_a_pattern_without_a_node_is_that_of_the_hessian() -> None:
    session = make_session(lambda x, y: np.sum(x * x) + y * y, np.ones(3), 1.0)
    plot = plots.sparsity_plot(session)
    assert_array_equal(~np.isnan(plot.figure.data[0].z), np.eye(4, dtype=bool))
    assert plot.views == plots.HESSIAN
    assert "diagonal" in plot.note
    part = plots.sparsity_plot(session, window=((3, 4), (0, 4)))
    assert part.figure.data[0].z.shape == (1, 4)


def test_a_large_pattern_shows_how_full_each_block_is() -> None:
    n = 1000
    session = make_session(np.sin, np.ones(n), seed=np.ones(n))
    plot = plots.sparsity_plot(session, session.output)
    z = plot.figure.data[0].z
    assert z.shape == (200, 200)
    assert_allclose(np.diag(z), 0.2)
    assert "1,000 of 1,000,000 entries" in plot.note
    assert "each cell is a block (5 × 5)" in plot.note


def test_progress_is_passed_on_and_stops() -> None:
    session = linear(np.ones((3, 4)))
    with pytest.raises(KeyboardInterrupt, match="stopped after 3 of 3 sweeps"):
        plots.jacobian_plot(session, progress=lambda done, total: True)
    with pytest.raises(KeyboardInterrupt):
        plots.singular_plot(session, progress=lambda done, total: True)
    assert "rank 1 of 3" in plots.singular_plot(session).note


def test_stop_ends_a_long_plot_and_the_next_one_is_right() -> None:
    session = make_session(np.tanh, np.zeros(30_000), seed=np.ones(30_000))
    begun, ended = threading.Event(), threading.Event()
    seen: list[BaseException] = []

    def work() -> None:
        try:
            plots.jacobian_plot(session, progress=lambda done, total: begun.set())
        except KeyboardInterrupt as error:
            seen.append(error)
        finally:
            ended.set()

    jobs.start(work)
    assert begun.wait(60)
    jobs.stop()
    assert ended.wait(60)
    assert len(seen) == 1
    plot = plots.jacobian_plot(session, window=((0, 2), (0, 2)))
    assert_array_equal(plot.figure.data[0].z, np.eye(2))
