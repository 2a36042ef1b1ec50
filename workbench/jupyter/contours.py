"""The output of a session over a plane, as a figure: heights, contours, the path."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.core.blame import format_count
from workbench.core.formatting import format_number
from workbench.jupyter.figure import GRID, Figure, Plot, escape_text, make_layout
from workbench.session.landscape import Landscape

#: Pale where the output is small; readable on light and on dark pages.
HEIGHTS = [
    (0.0, "rgba(33, 118, 212, 0.05)"),
    (0.35, "rgba(33, 118, 212, 0.55)"),
    (0.7, "rgb(94, 83, 168)"),
    (1.0, "rgb(216, 92, 0)"),
]
PATH = "#ef8f00"
#: Heights that span more than so many powers of ten are coloured by their logarithm.
DECADES = 2.0


def contour_plot(found: Landscape, label: str) -> Plot:
    """Return a landscape as contours, with the kept runs and the place of now."""
    title = f"{label} over a plane"
    # Plotly reads markup in texts, and puts values in the place of names in braces.
    label = escape_text(label).replace("{", "&#123;")
    heights, ticks, is_log = _scale_heights(found.values)
    names = found.names
    traces: list[Any] = [
        go.Contour(
            x=found.across,
            y=found.down,
            z=heights,
            customdata=found.values,
            colorscale=HEIGHTS,
            line={"width": 0.6, "color": "rgba(128, 128, 128, 0.5)"},
            ncontours=24,
            colorbar={"title": {"text": label}, "thickness": 12, **ticks},
            hovertemplate=f"{names[0]} %{{x:.4~g}}<br>{names[1]} %{{y:.4~g}}<br>"
            f"{label} %{{customdata:.6~g}}<extra></extra>",
            showlegend=False,
        )
    ]
    if len(found.steps):
        x, y, z = found.path.T
        traces.append(
            go.Scatter(
                x=x, y=y, mode="lines+markers", name="kept runs",
                line={"color": PATH, "width": 2},
                marker={"size": 5 if len(x) <= 100 else 3, "color": PATH},
                customdata=np.column_stack([found.steps, z]),
                hovertemplate=f"run %{{customdata[0]}}<br>{label} "
                "%{customdata[1]:.6~g}<extra></extra>",
            )
        )  # fmt: skip
    traces.append(
        go.Scatter(
            x=[0.0], y=[0.0], mode="markers", name="now",
            marker={"size": 12, "symbol": "star", "color": "white",
                    "line": {"color": "#333", "width": 1}},
            hovertemplate="the values of now<extra></extra>",
        )
    )  # fmt: skip
    said = [_describe_heights(found), *_describe_path(found)]
    if is_log:
        said.append("colours by the logarithm")
    note = "; ".join(said)
    layout = make_layout(title, note)
    axis = {"zeroline": False, "gridcolor": GRID, "automargin": True}
    layout["xaxis"] = axis | {"title": {"text": names[0], "font": {"size": 11}}}
    layout["yaxis"] = axis | {"title": {"text": names[1], "font": {"size": 11}}}
    layout["legend"] = {"orientation": "h", "y": -0.16, "yanchor": "top", "x": 0}
    return Plot(title, note, Figure(data=traces, layout=layout))


def _scale_heights(values: Any) -> tuple[Any, dict[str, Any], bool]:
    """Return what is coloured, the ticks of its scale, and whether it is a logarithm.

    By the logarithm where the values are positive and span `DECADES`, taken from the
    lowest one of the picture: a valley has contours then, not only the hills around.
    """
    known = values[np.isfinite(values)]
    if not known.size or known.min() <= 0:
        return values, {}, False
    low, high = np.log10(known.min()), np.log10(known.max())
    if high - low < DECADES:
        return values, {}, False
    places = np.unique(np.linspace(low, high, 6).round(1))
    texts = [format_number(10.0**p, 2) for p in places]
    return np.log10(values), {"tickvals": places, "ticktext": texts}, True


def _describe_heights(found: Landscape) -> str:
    values = found.values
    bad = int(np.count_nonzero(~np.isfinite(values)))
    known = values[np.isfinite(values)]
    if not known.size:
        return "the output is finite nowhere"
    least, most = format_number(known.min(), 4), format_number(known.max(), 4)
    text = f"from {least} to {most}"
    return f"{text}, {bad:,} of {values.size:,} not finite" if bad else text


def _describe_path(found: Landscape) -> list[str]:
    if not len(found.steps):
        return []
    said = format_count(len(found.steps), "kept run")
    if np.isfinite(found.share):
        said += f", {found.share:.0%} of their squared distance in this plane"
    return [said]
