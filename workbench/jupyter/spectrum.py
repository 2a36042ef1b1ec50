"""The eigenvalues of Hessians and the singular values of Jacobians, as figures."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.checks.progress import Progress
from workbench.core.formatting import format_number
from workbench.jupyter.figure import GRID, INK, Figure, Plot, make_layout
from workbench.session.derivative import SecondDerivative
from workbench.session.matrix import Matrix

Array = np.ndarray[Any, Any]

#: The colours of eigenvalues above zero, below zero, and of zero ones.
WARM, COLD, NONE = "rgb(216, 92, 0)", "rgb(33, 118, 212)", "#9aa3ad"
#: The relative asymmetry that is only rounding.
ROUNDING = 1e-6


#: How many eigenvalues are found of a matrix that is too large for all.
LARGEST = 20


def eigenvalue_plot(
    hessian: SecondDerivative,
    title: str,
    progress: Progress | None = None,
    count: int | None = None,
) -> Plot:
    """Return the eigenvalues from the largest down, their magnitudes on a log scale.

    Only ``count`` of largest magnitude, if it is given; `LARGEST` of a matrix of which
    all would take too long.
    """
    asymmetry = 0.0
    if count is None and hessian.is_decomposable:
        values, asymmetry = hessian.eigenvalues(progress)
        values = values[::-1]
    else:
        values, _ = hessian.largest_eigenvalues(count or LARGEST, progress)
        values = np.sort(values)[::-1]
    sizes = np.abs(values)
    largest = float(np.max(sizes, initial=0.0))
    tolerance = largest * hessian.rows * float(np.finfo(hessian.dtype).eps)
    is_part = len(values) < hessian.rows
    zero = sizes <= tolerance
    groups = [
        ("positive", (values > 0) & ~zero, WARM, "circle"),
        ("negative", (values < 0) & ~zero, COLD, "circle"),
        ("zero", zero, NONE, "circle-open"),
    ]
    said = [
        f"{hessian.rows:,} × {hessian.columns:,}",
        ", ".join(
            f"{int(np.count_nonzero(chosen)):,} {name}" for name, chosen, _, _ in groups
        ),
    ]
    if is_part:
        said[1] = f"the {len(values):,} eigenvalues of largest magnitude: {said[1]}"
    if largest and is_part:
        said.append(
            f"from {format_number(values[-1], 4)} to {format_number(values[0], 4)},"
            " by Lanczos' method"
        )
    elif largest:
        said.append(
            f"from {format_number(values[-1], 4)} to {format_number(values[0], 4)};"
            " condition number"
            f" {_format_condition(largest, float(np.min(sizes)), bool(zero.any()))}"
        )
    else:
        said.append("every eigenvalue is zero")
    if asymmetry > ROUNDING:
        said.append(
            f"the matrix differs from its transpose by {asymmetry:.1%} of its largest"
            " entry, as overrides make it: the eigenvalues are those of its symmetric"
            " part"
        )
    elif is_part and not hessian.is_symmetric:
        said.append("those of its symmetric part: overrides are in force")
    shown = _clip_zeros(sizes, tolerance)
    traces = [
        go.Scatter(
            x=np.flatnonzero(chosen) + 1,
            y=shown[chosen],
            customdata=values[chosen],
            mode="markers",
            name=name,
            marker={
                "color": colour,
                "symbol": symbol,
                "size": _choose_size(len(values)),
            },
            hovertemplate="eigenvalue %{x}: %{customdata:.6~g}<extra></extra>",
        )
        for name, chosen, colour, symbol in groups
        if chosen.any()
    ]
    note = "; ".join([*said[:1], *filter(None, [hessian.caption]), *said[1:]])
    settings = _make_settings(title, note, "|eigenvalue|", shown, len(values))
    if zero.any() and largest:
        traces.append(_draw_line(len(values), tolerance, "zero by rounding below"))
        _extend_range(settings, tolerance)
    return Plot(title, note, Figure(data=traces, layout=settings))


def singular_value_plot(
    matrix: Matrix, title: str, progress: Progress | None = None
) -> Plot:
    """Return the singular values on a log scale, with the limit that counts as zero."""
    values = matrix.compute_singular_values(progress)
    rank, tolerance = matrix.rank, matrix.tolerance
    said = [
        f"{matrix.rows:,} × {matrix.columns:,}",
        f"rank {rank:,} of {len(values):,}",
    ]
    if len(values) and values[0]:
        smallest = float(values[-1])
        said.append(
            f"from {format_number(values[-1], 4)} to {format_number(values[0], 4)};"
            " condition number"
            f" {_format_condition(float(values[0]), smallest, rank < len(values))}"
        )
    elif len(values):
        said.append("every singular value is zero")
    shown = _clip_zeros(values, tolerance)
    counts = np.arange(len(values))  # host array: a figure's
    traces = [
        go.Scatter(
            x=counts[chosen] + 1,
            y=shown[chosen],
            customdata=values[chosen],
            mode="markers",
            name=name,
            marker={
                "color": colour,
                "symbol": symbol,
                "size": _choose_size(len(values)),
            },
            hovertemplate="singular value %{x}: %{customdata:.6~g}<extra></extra>",
        )
        for name, chosen, colour, symbol in (
            ("singular values", counts < rank, WARM, "circle"),
            ("zero", counts >= rank, NONE, "circle-open"),
        )
        if chosen.any()
    ]
    note = "; ".join([*said[:1], *filter(None, [matrix.caption]), *said[1:]])
    settings = _make_settings(title, note, "singular value", shown, len(values))
    if 0 < rank < len(values):
        traces.append(_draw_line(len(values), tolerance, "zero by rounding below"))
        _extend_range(settings, tolerance)
    return Plot(title, note, Figure(data=traces, layout=settings))


def _format_condition(largest: float, smallest: float, deficient: bool) -> str:
    """Return the condition number as text, with a note on singular matrices."""
    number = f"{largest / smallest:.3g}" if smallest else "infinite"
    return f"{number} (singular up to rounding)" if deficient else number


def _clip_zeros(sizes: Array, tolerance: float) -> Array:
    """Return values for a log scale, with exact zeros at its lower end."""
    positive = sizes[sizes > 0]
    floor = float(np.min(positive, initial=1.0 if not positive.size else np.inf))
    if tolerance:
        floor = min(floor, tolerance) / 3
    return np.maximum(sizes, max(floor, 1e-300))


def _choose_size(count: int) -> int:
    return 8 if count <= 40 else 6 if count <= 200 else 4


def _draw_line(count: int, height: float, name: str) -> go.Scatter:
    return go.Scatter(
        x=[0.5, count + 0.5],
        y=[height, height],
        mode="lines",
        name=f"{name} {height:.1g}",
        line={"color": INK, "dash": "dot", "width": 1.2},
        hoverinfo="skip",
    )


def _make_settings(
    title: str, note: str, what: str, shown: Array, count: int
) -> dict[str, Any]:
    made = make_layout(title, note)
    low, high = (0.0, 0.0)
    if shown.size:
        low, high = (float(np.log10(x)) for x in (shown.min(), shown.max()))
    pad = max(0.25, 0.06 * (high - low))
    decades = high - low + 2 * pad
    made["xaxis"] = {
        "range": [0.4, max(count, 1) + 0.6],
        "showgrid": False,
        "zeroline": False,
        "tickfont": {"size": 11},
        "tickformat": "d",
        "nticks": min(10, max(count, 1) + 1),
        "automargin": True,
    }
    if count <= 10:
        made["xaxis"] |= {"tickmode": "linear", "tick0": 1, "dtick": 1}
    made["yaxis"] = {
        "type": "log",
        "title": {"text": f"{what}, largest first", "font": {"size": 11}},
        "exponentformat": "power",
        "tickfont": {"size": 11},
        "gridcolor": GRID,
        "zeroline": False,
        "range": [low - pad, high + pad],
        "automargin": True,
    }
    _set_ticks(made["yaxis"], decades)
    made["legend"] = {
        "orientation": "h",
        "y": -0.1,
        "yanchor": "top",
        "x": 0,
        "font": {"size": 11},
    }
    return made


def _set_ticks(axis: dict[str, Any], decades: float) -> None:
    """Set ticks at whole powers of ten where there are several, at most eight."""
    for key in ("dtick", "nticks", "tickformat"):
        axis.pop(key, None)
    if decades >= 2:
        axis["dtick"] = max(1, int(np.ceil(decades / 8)))
    else:
        # Without it, digits between powers of ten are labelled alone, in small type.
        axis |= {"nticks": 6, "tickformat": ".3~g"}


def _extend_range(settings: dict[str, Any], height: float) -> None:
    """Extend the range of the axis, so that a line is visible."""
    axis = settings["yaxis"]
    low, high = axis["range"]
    at = float(np.log10(max(height, 1e-300)))
    axis["range"] = [min(low, at - 0.3), max(high, at + 0.3)]
    _set_ticks(axis, axis["range"][1] - axis["range"][0])
