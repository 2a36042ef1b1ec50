"""The pattern with its colours, the compressed matrix beside and below."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import workbench as wb
from workbench.autodiff.linear_map import LinearMap
from workbench.errors import UsageError
from workbench.jupyter import plots, sparsity


def make_session(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def band(x: Any) -> Any:
    return x[1:] * x[:-1]


def arrow(x: Any) -> Any:
    return np.concatenate([np.sum(x * x, keepdims=True), x[1:] * x[1:] * x[0]])


def plot_of(f: Callable[..., Any], n: int, **settings: Any) -> sparsity.Plot:
    x = np.linspace(1, 2, n)
    session = make_session(f, x, seed=np.ones_like(f(x)))
    return plots.sparsity_plot(session, session.output, **settings)


def by_name(plot: sparsity.Plot) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for trace in plot.figure.data:
        found.setdefault(trace.name, []).append(trace)
    return found


def test_columns_of_one_colour_share_no_row() -> None:
    plot = plot_of(band, 12)
    z = plot.figure.data[0].z
    dense = np.eye(11, 12) + np.eye(11, 12, k=1)
    assert_array_equal(~np.isnan(z), dense > 0)
    for colour in np.unique(z[~np.isnan(z)]):
        assert np.all(np.sum(z == colour, axis=1) <= 1)
    (compressed,) = by_name(plot)["compressed"]
    # Each row of the compressed matrix holds the colours of that row.
    for wide, narrow in zip(z, compressed.z, strict=True):
        assert sorted(wide[~np.isnan(wide)]) == sorted(narrow[~np.isnan(narrow)])
    assert "2 colours of columns: 2 products give all entries" in plot.note
    assert plot.matrix is not None
    assert plot.matrix["colours"] == 2


def test_rows_and_columns_have_colours_of_their_own() -> None:
    n = 40
    plot = plot_of(arrow, n)
    assert "1 of rows, 2 of columns" in plot.note
    beside, below = by_name(plot)["compressed"]
    assert (beside.xaxis, below.yaxis) == ("x2", "y2")
    assert (beside.z.shape, below.z.shape) == ((n, 2), (1, n))
    z = plot.figure.data[0].z
    rows = np.unique(below.z[~np.isnan(below.z)])
    columns = np.unique(beside.z[~np.isnan(beside.z)])
    assert not set(rows) & set(columns)
    # The full row is read from the product with it, but where it meets the column.
    assert np.all(z[0, 1:] == rows[0])
    assert np.all(np.isin(z[1:, 0], columns))
    assert plot.figure.layout.xaxis.anchor == "y2"


def test_a_hessian_is_coloured_as_a_symmetric_matrix() -> None:
    session = make_session(lambda x: np.sum(x[1:] * x[:-1]), np.ones(20))
    plot = plots.sparsity_plot(session)
    assert "of a symmetric matrix" in plot.note
    assert_array_equal(
        ~np.isnan(plot.figure.data[0].z), np.eye(20, k=1) + np.eye(20, k=-1) > 0
    )


def test_a_large_pattern_is_pooled_and_a_part_has_colours() -> None:
    plot = plot_of(band, 2001)
    assert plot.matrix is not None
    assert plot.matrix["colours"] == 0
    (compressed,) = by_name(plot)["compressed"]
    assert compressed.z.shape == (200, 2)
    window = ((100, 130), (90, 140))
    part = plot_of(band, 2001, window=window)
    assert part.matrix is not None
    assert part.matrix["colours"] == 2
    z = part.figure.data[0].z
    assert z.shape == (30, 50)
    assert np.count_nonzero(~np.isnan(z)) == 60
    # Colours are those of the whole: column 100 has the same one in each part.
    other = plot_of(band, 2001, window=((99, 101), (100, 101))).figure.data[0].z
    assert_array_equal(other[1, 0], z[0, 10])


def test_no_number_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 100_000
    session = make_session(band, np.ones(n), seed=np.ones(n - 1))
    for name in ("push", "pull", "matrix", "windows"):
        monkeypatch.setattr(LinearMap, name, None)
    plot = plots.sparsity_plot(session, session.output)
    assert f"{2 * n - 2:,} of" in plot.note
    assert len(json.dumps(plot.data, allow_nan=False)) < 2_000_000


def test_with_overrides_values_are_counted_and_have_no_colours() -> None:
    session = make_session(band, np.ones(5), seed=np.ones(4))
    session.override("multiply", "d * (x > 2)")
    plot = plots.sparsity_plot(session, session.output)
    assert "every entry is zero" in plot.note
    assert "colour" not in plot.note
    assert plot.matrix is not None
    assert "colours" not in plot.matrix
    true = plots.sparsity_plot(session, session.output, overrides=False)
    assert "2 colours" in true.note


def test_a_dense_matrix_needs_as_many_products_as_columns() -> None:
    plot = plot_of(lambda x: np.fft.fft(x).real, 80)
    assert "80 colours" in plot.note
    assert "give all" not in plot.note
    assert "compressed" not in by_name(plot)  # it would be the matrix itself


def test_an_op_without_a_pattern_is_named() -> None:
    plot = plot_of(np.sort, 8)
    assert "taken as dense: getitem" in plot.note
    assert "taken as dense" not in plot_of(band, 8).note


# A pattern or a colouring without a session


@pytest.mark.parametrize("mode", ["columns", "rows", "both"])
def test_a_colouring_is_drawn_as_the_matrix_of_a_session(mode: str) -> None:
    pattern = wb.sparsity(arrow, np.ones(9))
    colouring = pattern.colouring(mode)
    figure = wb.plots.sparsity(colouring)
    z = figure.data[0].z
    assert_array_equal(~np.isnan(z), pattern.toarray())
    assert_array_equal(
        z[pattern.rows, pattern.columns], sparsity.number_entries(colouring) + 1
    )
    shapes = [one.z.shape for one in figure.data[1:]]
    beside, below = (9, colouring.column_count), (colouring.row_count, 9)
    assert shapes == [shape for shape in (beside, below) if all(shape)]
    assert figure.layout.title.text == f"Sparsity and colours: {mode}"


def test_the_colouring_of_a_symmetric_matrix_is_drawn() -> None:
    pattern = wb.sparsity(lambda x: np.sum(x[1:] * x[:-1]), np.ones(8), order=2)
    figure = wb.plots.sparsity(pattern.colouring("star"))
    assert_array_equal(~np.isnan(figure.data[0].z), pattern.toarray())
    assert "of a symmetric matrix" in figure.layout.title.subtitle.text


def test_a_large_pattern_is_pooled_and_a_window_has_its_entries() -> None:
    pattern = wb.sparsity(band, np.ones(100_000))
    figure = wb.plots.sparsity(pattern)
    assert figure.data[0].z.shape == (200, 200)
    assert "is a block (500 × 500)" in figure.layout.title.subtitle.text
    part = wb.plots.sparsity(pattern, window=((500, 503), (500, 504)))
    assert_array_equal(~np.isnan(part.data[0].z), np.eye(3, 4) + np.eye(3, 4, k=1) > 0)


def test_the_names_of_colours_stand_at_their_colours() -> None:
    # Numbers from 0 on would be read as the names of the colours 1, 2, 3.
    pattern = wb.sparsity(lambda x: x[2:] * x[:-2] * x[1:-1], np.ones(9))
    axis = wb.plots.sparsity(pattern).layout.xaxis2
    assert (axis.tickvals, axis.ticktext) == (("1", "2", "3"), None)
    below = wb.plots.sparsity(pattern.T.colouring("rows")).layout.yaxis2
    assert below.tickvals == ("colour 1", "colour 3")  # as many as there is room for
    assert not below.title.text


def test_a_pattern_has_no_nodes_to_choose() -> None:
    pattern = wb.sparsity(band, np.ones(4))
    with pytest.raises(UsageError, match=r"leave of= and wrt= away"):
        wb.plots.sparsity(pattern, "h")
    with pytest.raises(UsageError, match="lies outside the matrix"):
        wb.plots.sparsity(pattern, window=((0, 2), (0, 99)))
