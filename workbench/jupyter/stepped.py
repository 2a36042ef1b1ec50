"""The error of differences against their step, drawn: the V-curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.checks.steps import METHODS, Steps, node_steps
from workbench.core.tensor import Tensor
from workbench.jupyter.figure import GRID, INK, Figure, Plot, layout, plain_text

__all__ = ["stepped_plot"]

COLOURS = {
    "forward": "#9aa3ad",
    "central": "#6f8fa8",
    "extrapolated": "#ef8f00",
    "complex step": "#388e3c",
}
#: What lies below a rounding is drawn at a quarter of one.
FLOOR = 2.0**-54


def stepped_plot(node: Tensor, label: str) -> Plot:
    """The sweep over steps of one node as a figure."""
    return drawn(node_steps(node), label)


def drawn(found: Steps, label: str) -> Plot:
    """A sweep as a figure, log by log."""
    traces = [
        go.Scatter(
            x=found.steps.tolist(),
            y=_floored(errors),
            mode="lines+markers",
            name=way,
            line={"color": COLOURS[way], "width": 1.5},
            marker={"size": 4},
            hovertemplate=f"{way}: step %{{x:.1e}}, error %{{y:.1e}}<extra></extra>",
        )
        for way, errors in found.errors.items()
    ]
    traces += [_slope(found, way) for way in found.errors if way != "complex step"]
    traces.append(
        go.Scatter(
            x=found.steps.tolist(),
            y=(np.finfo(float).eps / found.steps).tolist(),
            mode="lines",
            name="rounding, eps / h",
            line={"color": GRID, "dash": "dot", "width": 1.5},
            hoverinfo="skip",
        )
    )
    way, step = found.chosen
    title = f"Error of differences of {label} against their step"
    note = (
        f"derivative {found.value:.6g} along a direction ({found.method}); a check"
        f" takes {way}, here with a step of {step:.1e}"
    )
    looks = layout(title, note)
    log: dict[str, Any] = {
        "type": "log",
        "exponentformat": "power",
        "gridcolor": GRID,
        "tickfont": {"size": 11},
    }
    lowest = float(np.log10(found.steps.min()))
    looks["xaxis"] = log | {
        "title": {"text": "step, relatively to the variable"},
        "range": [min(lowest, np.log10(max(step, 1e-22))) - 0.5, 0.3],
        "dtick": 2,
    }
    looks["yaxis"] = log | {
        "title": {"text": "relative error"},
        "range": [np.log10(FLOOR) - 0.5, 2],
        "dtick": 2,
    }
    looks["shapes"] = [
        {
            "type": "line",
            "x0": step,
            "x1": step,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": COLOURS[way], "width": 1, "dash": "dash"},
        }
    ]
    looks["annotations"] = [
        {
            "x": float(np.log10(step)) if step > 0 else lowest,
            "y": 1,
            "yref": "paper",
            "text": plain_text(f"{way}: {step:.0e}"),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 4,
            "yanchor": "top",
            "font": {"size": 11, "color": INK},
        }
    ]
    looks["legend"] = {"orientation": "h", "y": -0.2, "x": 0}
    return Plot(title, note, Figure(data=traces, layout=looks), views=("check",))


def _slope(found: Steps, way: str) -> Any:
    """How the error falls while the series is what is cut off: a power of the step."""
    power, errors = METHODS[way], found.errors[way]
    large = slice(1, 6)
    known = np.where(errors[large] > 0, errors[large], np.nan)
    if not np.any(np.isfinite(known)):
        height = 1.0
    else:
        height = float(np.nanmedian(known / found.steps[large] ** power))
    line = height * found.steps**power
    return go.Scatter(
        x=found.steps[line > FLOOR].tolist(),
        y=line[line > FLOOR].tolist(),
        mode="lines",
        name=f"cut off, h{SUPER.get(power, '')}",
        showlegend=False,
        line={"color": COLOURS[way], "dash": "dot", "width": 1},
        hoverinfo="skip",
    )


SUPER = {2: "²", 4: "⁴"}


def _floored(errors: Any) -> list[float | None]:
    return [max(float(e), FLOOR) if np.isfinite(e) else None for e in errors]
