"""The gradients of single examples as a figure: their norms and directions."""

from __future__ import annotations

import numpy as np
from plotly import graph_objects as go

from workbench.core.blame import format_count
from workbench.core.formatting import format_number
from workbench.jupyter.figure import GRID, Figure, Plot, escape_text, make_layout
from workbench.session.curvature import Spread
from workbench.session.derivative import Derivative

#: The colours of examples that pull with the mean gradient, and against it.
WITH, AGAINST = "rgb(216, 92, 0)", "rgb(33, 118, 212)"


def plot_spread(found: Spread, derivative: Derivative) -> Plot:
    """Return the examples by the norm of their gradient and its cosine to the mean."""
    label = derivative.row_parts[0][0]
    by = ", ".join(name for name, _ in derivative.column_parts)
    n, against = len(found.sizes), found.cosines < 0
    zero = int(np.count_nonzero(found.sizes == 0))
    bad = int(np.count_nonzero(~np.isfinite(found.sizes)))
    said = [
        format_count(n, "example"),
        f"{int(np.count_nonzero(against)):,} against the mean gradient",
        f"norm of the mean {format_number(found.mean, 4)}, of single ones"
        f" {format_number(float(np.median(found.sizes)), 4) if n else 'none'} (median)",
    ]
    if np.isfinite(found.noise):
        said.append(
            f"noise scale {format_number(found.noise, 3)}: the batch size at which"
            " noise and gradient are alike"
        )
    said += [f"{zero:,} have gradient zero, and no direction"] if zero else []
    said += [f"{bad:,} have a gradient that is not finite"] if bad else []
    said += filter(None, [derivative.caption])
    title = f"Gradients of the examples in {label} by {by}"
    note = "; ".join(said)
    traces = [
        go.Scatter(
            x=found.sizes[chosen],
            y=found.cosines[chosen],
            customdata=np.flatnonzero(chosen),
            mode="markers",
            name=name,
            marker={"color": colour, "size": 6, "opacity": 0.7},
            hovertemplate=f"{escape_text(label).replace('{', '&#123;')}"
            "[%{customdata}]<br>norm %{x:.4~g}, cosine %{y:.3f}<extra></extra>",
        )
        for name, chosen, colour in (
            ("with the mean", ~against, WITH),
            ("against it", against, AGAINST),
        )
    ]
    figure = Figure(traces, make_layout(title, note))
    figure.update_xaxes(
        title="norm of an example's gradient", gridcolor=GRID, rangemode="tozero"
    )
    figure.update_yaxes(
        title="cosine to the mean", gridcolor=GRID, range=[-1.05, 1.05], zeroline=True,
        zerolinecolor=GRID,
    )  # fmt: skip
    return Plot(title, note, figure)
