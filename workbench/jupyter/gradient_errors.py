"""The errors of a gradient check, by entry and by step."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.checks.report import Entry, Report
from workbench.checks.step_sweep import METHODS, Steps, sweep_node
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor
from workbench.jupyter.figure import GRID, INK, Figure, Plot, escape_text, make_layout

#: What is changed on purpose, readable on light and on dark pages; red is for wrong.
AMBER = "#ef8f00"
VERDICTS = {
    "right": ("agrees", "#6f8fa8", "circle"),
    "wrong": ("wrong", "#d32f2f", "x"),
    "changed": ("changed on purpose, the true one agrees", AMBER, "circle-open"),
    "kink": ("kink", "#9575cd", "diamond"),
    "unsure": ("differences cannot tell", "#9aa3ad", "circle-open"),
}
#: The same for nodes whose rule is not simply right.
RULES = {
    "wrong": ("wrong rule", "#d32f2f", "star"),
    "overridden": ("rule changed on purpose", AMBER, "square"),
}


def report_plot(report: Report, label: str) -> Plot:
    """Return a check's report as a figure: one point per entry, grouped by variable."""
    groups = [c for c in report.comparisons if c.entries]
    entries = [e for c in groups for e in c.entries]
    positive = [x for e in entries for x in (e.error, e.tolerance) if 0 < x < np.inf]
    floor = min(positive, default=1e-16) / 10
    shown = [
        min(max(e.error, floor), 1e300) if e.error == e.error else floor
        for e in entries
    ]
    tolerances = [e.tolerance for e in entries]
    verdicts = [_choose_verdict(report, e) for e in entries]
    traces = []
    for verdict, (text, colour, symbol) in VERDICTS.items():
        chosen = [k for k, found in enumerate(verdicts) if found == verdict]
        if chosen:
            traces.append(
                go.Scatter(
                    x=chosen,
                    y=[shown[k] for k in chosen],
                    mode="markers",
                    name=text,
                    marker={"color": colour, "symbol": symbol, "size": 7},
                    text=[_format_hover(report, entries[k]) for k in chosen],
                    hovertemplate="%{text}<extra></extra>",
                )
            )
    traces.append(
        go.Scatter(
            x=list(range(len(entries))),
            y=tolerances,
            mode="lines",
            name="tolerance",
            line={"color": "#388e3c", "dash": "dot", "width": 1.5, "shape": "hvh"},
            hovertemplate="tolerance %{y:.2g}<extra></extra>",
        )
    )
    rules = [c for c in report.nodes if c.status in RULES and c.entry is not None]
    for status, (text, colour, symbol) in RULES.items():
        chosen = [k for k, c in enumerate(rules) if c.status == status]
        if not chosen:
            continue
        errors = [rules[k].entry.error for k in chosen]  # type: ignore[union-attr]
        places = [len(entries) + k for k in chosen]
        traces.append(
            go.Scatter(
                x=places,
                y=[min(max(e, floor), 1e300) if e == e else floor for e in errors],
                mode="markers",
                name=text,
                marker={"color": colour, "symbol": symbol, "size": 9},
                text=[_wrap_html(rules[k].text) for k in chosen],
                hovertemplate="%{text}<extra></extra>",
            )
        )  # fmt: skip
        shown += [min(max(e, floor), 1e300) if e == e else floor for e in errors]
    title = f"Gradient check of {label}"
    note = _make_caption(report)
    settings = make_layout(title, note)
    middles, texts, lines, start = [], [], [], 0
    for c in groups:
        middles.append(start + (len(c.entries) - 1) / 2)
        texts.append(escape_text(c.argument))
        start += len(c.entries)
        lines.append(start - 0.5)
    if rules:
        middles.append(start + (len(rules) - 1) / 2)
        texts.append("rules")
        lines.append(start + len(rules) - 0.5)
    settings["xaxis"] = {
        "tickvals": middles,
        "ticktext": texts,
        "showgrid": False,
        "zeroline": False,
    }
    settings["yaxis"] = {
        "type": "log",
        "title": {"text": "error"},
        "exponentformat": "power",
        "tickfont": {"size": 11},
        "gridcolor": GRID,
        "dtick": 2,
        "range": _choose_range([*shown, *tolerances], min(shown, default=floor)),
    }
    settings["shapes"] = [
        {
            "type": "line",
            "x0": x,
            "x1": x,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": GRID, "width": 1},
        }
        for x in lines[:-1]
    ]
    settings["annotations"] = _annotate(entries, shown)
    settings["legend"] = {"orientation": "h", "y": -0.12, "x": 0}
    return Plot(title, note, Figure(data=traces, layout=settings))


def _make_caption(report: Report) -> str:
    """Return the summary of a report in a line; the figure shows the rest."""
    checked = sum(len(c.entries) for c in report.comparisons)
    rules = f", {format_count(len(report.nodes), 'rule')}" if report.nodes else ""
    entries = format_count(checked, "entry")
    stopped = "; stopped early" if report.stopped else ""
    left = "".join(f"; {text}" for text in report.describe_unchecked())
    return f"{_describe_outcome(report)} ({entries}{rules}{stopped}{left})"


def _describe_outcome(report: Report) -> str:
    """Return a text on the first fault, or on the agreement if there is none."""
    worst, wrong, faulty = report.worst, report.wrong, report.faulty
    failed = [x for x in report.identities if not x.holds]
    if wrong and worst is not None:
        if not np.isfinite(worst.analytic):
            off = sum(not np.isfinite(e.analytic) for e in wrong)
            return f"{worst.place} is {worst.analytic:g}; {off} not finite"
        return (
            f"{worst.place} is off by {worst.error:.2g}, tolerance"
            f" {worst.tolerance:.2g}; {len(wrong)} wrong"
        )
    if failed:
        return f"{failed[0].name} fails: off by {failed[0].error:.2g}"
    if faulty:
        node = faulty[0].node
        more = f" and of {len(faulty) - 1} more" if len(faulty) > 1 else ""
        return f"the rule of {node.name or node.op.name}{more} is wrong"
    if changes := report.changes():
        return changes
    if worst is None:
        return "no rule is wrong" if report.nodes else "nothing to check"
    if worst.verdict == "unsure":
        return f"differences cannot tell at {worst.place}"
    return (
        f"agrees with differences; worst {worst.place}, off by {worst.error:.2g},"
        f" tolerance {worst.tolerance:.2g}"
    )


def _choose_range(errors: Sequence[float], low: float) -> list[float]:
    """Return the range of the axis of errors, with room for words."""
    known = [x for x in errors if 0 < x < np.inf]
    return [float(np.log10(low)) - 0.7, float(np.log10(max(known, default=1))) + 1.3]


def _choose_verdict(report: Report, e: Entry) -> str:
    """Return the verdict on an entry, or "changed" for a right one that is changed."""
    changed = e.verdict == "right" and report.changed.get(e.argument, 0) != 0
    return "changed" if changed else e.verdict


def _format_hover(report: Report, e: Entry) -> str:
    words = VERDICTS[e.verdict][0]
    text = f"{e.place}: {words}, error {e.error:.2g} (tolerance {e.tolerance:.2g})"
    if report.changed.get(e.argument, 0) != 0:
        text = f"{report.changes(e.argument)}. The true one at {text}"
    return _wrap_html(text)


def _wrap_html(text: str) -> str:
    """Return a text in escaped lines of at most 80 characters."""
    return "<br>".join(map(escape_text, wrap(text, 80)))


def _annotate(entries: Sequence[Entry], shown: Sequence[float]) -> list[dict[str, Any]]:
    """Return annotations for the worst entry and for a few kinks."""
    worst = max(range(len(entries)), key=lambda k: entries[k].badness, default=None)
    kinks = [k for k, e in enumerate(entries) if e.verdict == "kink"][:6]
    made = []
    for k in dict.fromkeys([*([] if worst is None else [worst]), *kinks]):
        e = entries[k]
        word = "kink" if e.verdict == "kink" else "worst"
        made.append(
            {
                "x": k,
                "y": float(np.log10(shown[k])),
                "text": escape_text(f"{e.place}: {word}"),
                "showarrow": True,
                "arrowhead": 0,
                "arrowcolor": INK,
                "ax": 0,
                "ay": -24,
                "font": {"size": 11, "color": VERDICTS[e.verdict][1]},
            }
        )
    return made


# The error of differences against their step, drawn: the V-curve.

COLOURS = {
    "forward": "#9aa3ad",
    "central": "#6f8fa8",
    "extrapolated": "#ef8f00",
    "complex step": "#388e3c",
}
#: Errors below a rounding are drawn at a quarter of one.
FLOOR = 2.0**-54


def plot_steps(node: Tensor, label: str) -> Plot:
    """Return the sweep over steps of one node as a figure."""
    return plot_sweep(sweep_node(node), label)


def plot_sweep(sweep: Steps, label: str) -> Plot:
    """Return a sweep as a figure, log by log."""
    traces = [
        go.Scatter(
            x=sweep.steps.tolist(),
            y=_clip_to_floor(errors),
            mode="lines+markers",
            name=way,
            line={"color": COLOURS[way], "width": 1.5},
            marker={"size": 4},
            hovertemplate=f"{way}: step %{{x:.1e}}, error %{{y:.1e}}<extra></extra>",
        )
        for way, errors in sweep.errors.items()
    ]
    traces += [
        _draw_truncation(sweep, way) for way in sweep.errors if way != "complex step"
    ]
    traces.append(
        go.Scatter(
            x=sweep.steps.tolist(),
            y=(np.finfo(float).eps / sweep.steps).tolist(),
            mode="lines",
            name="rounding, eps / h",
            line={"color": GRID, "dash": "dot", "width": 1.5},
            hoverinfo="skip",
        )
    )
    way, step = sweep.chosen
    title = f"Error of differences of {label} against their step"
    note = (
        f"derivative {sweep.value:.6g} along a direction ({sweep.method}); a check"
        f" takes {way}, here with a step of {step:.1e}"
    )
    if sweep.unchecked:
        note += f"; {sweep.unchecked}"
    settings = make_layout(title, note)
    log: dict[str, Any] = {
        "type": "log",
        "exponentformat": "power",
        "gridcolor": GRID,
        "tickfont": {"size": 11},
    }
    lowest = float(np.log10(sweep.steps.min()))
    settings["xaxis"] = log | {
        "title": {"text": "step, relatively to the variable"},
        "range": [min(lowest, np.log10(max(step, 1e-22))) - 0.5, 0.3],
        "dtick": 2,
    }
    settings["yaxis"] = log | {
        "title": {"text": "relative error"},
        "range": [np.log10(FLOOR) - 0.5, 2],
        "dtick": 2,
    }
    settings["shapes"] = [
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
    settings["annotations"] = [
        {
            "x": float(np.log10(step)) if step > 0 else lowest,
            "y": 1,
            "yref": "paper",
            "text": escape_text(f"{way}: {step:.0e}"),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 4,
            "yanchor": "top",
            "font": {"size": 11, "color": INK},
        }
    ]
    settings["legend"] = {"orientation": "h", "y": -0.2, "x": 0}
    return Plot(title, note, Figure(data=traces, layout=settings), views=("check",))


def _draw_truncation(sweep: Steps, way: str) -> go.Scatter:
    """Return the line of the truncation error, a power of the step."""
    power, errors = METHODS[way], sweep.errors[way]
    large = slice(1, 6)
    known = np.where(errors[large] > 0, errors[large], np.nan)
    if not np.any(np.isfinite(known)):
        height = 1.0
    else:
        height = float(np.nanmedian(known / sweep.steps[large] ** power))
    line = height * sweep.steps**power
    return go.Scatter(
        x=sweep.steps[line > FLOOR].tolist(),
        y=line[line > FLOOR].tolist(),
        mode="lines",
        name=f"truncation, h{SUPER.get(power, '')}",
        showlegend=False,
        line={"color": COLOURS[way], "dash": "dot", "width": 1},
        hoverinfo="skip",
    )


SUPER = {2: "²", 4: "⁴"}


def _clip_to_floor(errors: np.ndarray[Any, Any]) -> list[float | None]:
    return [max(float(e), FLOOR) if np.isfinite(e) else None for e in errors]
