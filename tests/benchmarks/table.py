"""Tables of speed, made from the results that are kept.

The guide's page shows a user each case beside other libraries. The README of this
folder has the goals, and what misses them. `python -m tests.benchmarks.table` prints
all tables; `--write` puts them into both files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.__main__ import CASES, list_cases
from tests.benchmarks.harness import RESULTS, SCALES, write_number
from tests.benchmarks.optimise import WHAT
from tests.benchmarks.peers import OURS, PEERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "notebooks" / "guide" / "reference" / "benchmarks.md"
README = Path(__file__).with_name("README.md")
START = "<!-- made by python -m tests.benchmarks.table --write -->"
END = "<!-- the end of what tests.benchmarks.table makes -->"
#: Columns of the tables of solvers.
ASKED = {"prepare": "ready", **WHAT}
#: Columns of the table of gradients: ours, others, and what is written by hand. A user
#: calls a derivative as it is made, or compiled; the backend in between is left out.
COLUMNS = (*(peer for peer in PEERS if peer != "workbench numpy"), "by hand")


def read_results() -> dict[str, dict[str, Any]]:
    """Return what is kept of each case with goals, by its name."""
    names = [case.name for case in list_cases(CASES)] + [
        "startup",
        "first_call",
        "sparse",
        "optimise",
        "distributed",
    ]
    files = {name: RESULTS / f"{name}.json" for name in names}
    return {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name, file in files.items()
        if file.exists()
    }


def write_tables(results: dict[str, dict[str, Any]]) -> str:
    """Return the tables of the guide's page as Markdown."""
    results = dict(results)
    cluster = results.pop("distributed", None)
    cases = {name: one for name, one in results.items() if "unit" in one}
    lines = [START, "", *describe_run(results.values()), ""]
    lines += ["## Gradients", "", *write_gradients(cases), ""]
    lines += ["## Memory", "", *write_memory(cases), ""]
    if "first_call" in results:
        lines += ["## First calls", "", *write_first_calls(results["first_call"]), ""]
    if "sparse" in results:
        lines += ["## Sparse derivatives", "", *write_sparse(results["sparse"]), ""]
    if "optimise" in results:
        lines += ["## Solvers", "", *write_solvers(results["optimise"]), ""]
    if cluster is not None:
        lines += ["## On a cluster", "", *write_cluster(cluster), ""]
    if "startup" in results:
        lines += ["## Start-up", "", *write_startup(results["startup"]), ""]
    return "\n".join([*lines, END])


def write_goal_tables(results: dict[str, dict[str, Any]]) -> str:
    """Return the tables of the README: each goal, and what only we look at."""
    results = {name: one for name, one in results.items() if name != "distributed"}
    lines = [START, "", *describe_run(results.values()), ""]
    lines += ["## Goals", "", *write_goals(results), ""]
    if "sparse" in results:
        lines += ["## Sparse patterns", "", *write_patterns(results["sparse"]), ""]
    return "\n".join([*lines, END])


def describe_run(results: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Return when, where and with what was measured."""
    results = list(results)
    rows = [row for one in results for row in one.get("rows", [])]
    measured = [*results, *(row for row in rows if row.get("date"))]
    dates = sorted({one["date"][:10] for one in measured})
    cpus = sorted({f"{one['cpu']} of {one['cores']} cores" for one in results})
    versions: dict[str, set[str]] = {}
    for one in results:
        for library, version in one["versions"].items():
            versions.setdefault(library, set()).add(version)
    listed = ", ".join(f"{k} {'/'.join(sorted(v))}" for k, v in versions.items())
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    yield f"Measured {when} on {'; '.join(cpus)}, one core and one thread; {listed}."


def write_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def write_head(*cells: str) -> list[str]:
    return [write_row(*cells), "|" + "---|" * len(cells)]


def write_goals(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Return each goal, what was measured, and the reason where it is missed."""
    verdicts = [v for one in results.values() for v in one["goals"]]
    met = sum(v["met"] is True for v in verdicts)
    yield f"{met} of {len(verdicts)} are met."
    yield ""
    yield from write_head("`make bench CASE=`", "goal", "measured", "")
    for name, one in results.items():
        for verdict in one["goals"]:
            word = {True: "met", False: "**missed**", None: "not measured"}
            said = word[verdict["met"]]
            if verdict["met"] is False and verdict.get("reason"):
                said += f": {verdict['reason']}"
            value = write_goal_value(verdict["goal"], verdict["value"])
            yield write_row(f"`{name}`", verdict["goal"], value, said)


def write_goal_value(goal: str, value: float | None) -> str:
    """Return what was measured, in the unit in which the goal is told."""
    if value is None:
        return "-"
    unit = goal.split()[-1]
    if unit in SCALES:
        return f"{write_number(value * SCALES[unit])} {unit}"
    return write_number(value)


def write_gradients(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Return the least time of each gradient by everybody."""
    yield from write_head("case", *COLUMNS)
    for name, one in cases.items():
        scale = SCALES[one["unit"]] / one["per"]
        times: dict[str, str] = {}
        best = float("inf")
        for row in one["rows"]:
            seconds, peer = row["gradient_s"], row["peer"]
            if row["error"]:
                times[peer] = row["error"].partition(":")[0]
            elif seconds is not None and peer in PEERS:
                times[peer] = write_number(seconds * scale)
            elif seconds is not None and peer != "copy":
                best = min(best, seconds)
        if best < float("inf"):
            times["by hand"] = write_number(best * scale)
        cells = [times.get(column, "") for column in COLUMNS]
        yield write_row(f"{one['case']} (`{name}`), {one['unit']}", *cells)


def write_memory(cases: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Return what a gradient takes beside its arguments, where that is much."""
    yield from write_head("case, MB", *COLUMNS)
    for name, one in cases.items():
        found = {row["peer"]: row["extra_memory_bytes"] for row in one["rows"]}
        by_hand = [v for k, v in found.items() if k not in PEERS and k != "copy" and v]
        found["by hand"] = min(by_hand, default=None)
        if max((found.get(peer) or 0 for peer in OURS), default=0) < 20e6:
            continue
        shown = [found.get(column) for column in COLUMNS]
        cells = ["" if x is None else f"{x / 1e6:.0f}" for x in shown]
        yield write_row(f"`{name}`", *cells)


def write_first_calls(one: dict[str, Any]) -> Iterator[str]:
    """Return how long the first call takes: answer, compiled, with caches."""
    programs = one["programs"]
    peers = list(dict.fromkeys(r["peer"] for rows in programs.values() for r in rows))
    yield from write_head("milliseconds", *peers)
    for name, rows in programs.items():
        cells = []
        for peer in peers:
            found = [row for row in rows if row["peer"] == peer]
            times = list(found[0].values())[1:] if found else []
            cells.append(
                " / ".join("-" if x is None else write_number(x * 1e3) for x in times)
            )
        yield write_row(f"`{name}`", *cells)


def write_sparse(one: dict[str, Any]) -> Iterator[str]:
    """Return the time of finding a pattern, of colouring it, and of a call."""
    peers = list(dict.fromkeys(row["peer"] for row in one["rows"]))
    others = [peer for peer in peers if peer not in ("workbench", "C")]
    yield SPARSE_WORDS
    yield ""
    heads = ["find, colour (ms)", "colours", "call: ours", "C", *others]
    yield from write_head("program, n", *heads)
    for (program, n), rows in group_programs(one).items():
        ours = rows["workbench"]
        prepared = [write_scaled(ours[key], 1e3) for key in ("find_s", "colour_s")]
        colours = "" if ours["colours"] is None else str(ours["colours"])
        calls = [
            write_scaled(rows[peer]["call_s"], 1e6) if peer in rows else ""
            for peer in ("workbench", "C", *others)
        ]
        cells = [", ".join(prepared), colours, *calls]
        yield write_row(f"`{program}`, {n:,}", *cells)


def group_programs(one: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows of sparse programs by program and size, then by library."""
    cases: dict[tuple[str, int], dict[str, Any]] = {}
    for row in one["rows"]:
        cases.setdefault((row["program"], row["n"]), {})[row["peer"]] = row
    return cases


def write_patterns(one: dict[str, Any]) -> Iterator[str]:
    """Return the time of finding and colouring in each library, and the memory."""
    peers = list(dict.fromkeys(row["peer"] for row in one["rows"]))
    cases = group_programs(one)
    finders = [peer for peer in FINDERS if peer in peers]
    yield from write_head("to find and colour, ms", *finders)
    for (program, n), rows in cases.items():
        cells = []
        for peer in finders:
            row = rows.get(peer, {})
            parts = [row.get("find_s"), row.get("colour_s")]
            known = [x for x in parts if x is not None]
            cells.append(write_scaled(sum(known), 1e3) if known else "")
        yield write_row(f"`{program}`, {n:,}", *cells)
    yield ""
    yield from write_head("memory, MB", *peers)
    for (program, n), rows in cases.items():
        used = [rows[peer]["memory_bytes"] if peer in rows else None for peer in peers]
        if any(used):
            cells = [write_scaled(x, 1e-6) for x in used]
            yield write_row(f"`{program}`, {n:,}", *cells)


#: The words above the table of sparse derivatives.
SPARSE_WORDS = """Least times of a call in µs: all entries at the places of the pattern.
JAX, sparsejac, SciPy (differences) and C are given the pattern, JAX the colouring too;
Workbench, asdex and CasADi find it. C, JAX, CasADi and "workbench entries" hand back
the entries alone; ours is a matrix of SciPy's with index arrays of its own, which takes
about two µs at a thousand unknowns, and as long as hardly any arithmetic at many
(arrow). Where a number is missing the program is too large, takes too many colours, or
the library has no such function."""
#: The libraries that find a pattern or a colouring.
FINDERS = ("workbench", "asdex", "casadi", "sparsejac", "scipy")


def write_scaled(value: float | None, scale: float) -> str:
    """Return a measured number in another unit; empty where there is none."""
    return "" if value is None else write_number(value * scale)


def write_solvers(one: dict[str, Any]) -> Iterator[str]:
    """Return what each answer takes that a solver asks for, and whole solutions."""
    yield SOLVERS_WORDS
    problems = dict.fromkeys((row["problem"], row["unknowns"]) for row in one["rows"])
    for problem, unknowns in problems:
        rows = [
            r
            for r in one["rows"]
            if (r["problem"], r["unknowns"]) == (problem, unknowns)
        ]
        asked = [what for what in ASKED if any(f"{what}_s" in row for row in rows)]
        yield ""
        heads = [ASKED[what] for what in asked]
        yield from write_head(f"`{problem}`, {unknowns:,} unknowns, ms", *heads)
        for row in rows:
            if row["error"] and "prepare_s" not in row:
                continue
            cells = []
            for what in asked:
                cell = write_scaled(row.get(f"{what}_s"), 1e3)
                steps = row.get(f"{what}_steps")
                inside = write_scaled(row.get(f"{what}_answers_s"), 1e3)
                told = f"{steps}; {inside}" if inside else f"{steps}"
                cells.append(f"{cell} ({told})" if steps is not None else cell)
            said = f"; {row['error']}" if row["error"] else ""
            yield write_row(row["peer"] + said, *cells)


#: The words above the tables of solvers.
SOLVERS_WORDS = """What solvers ask for, each answer at a point that is new, and whole
solutions with their steps in brackets (IPOPT, trust-constr: iterations; BDF, Radau:
values of the function), and for IPOPT how much of the time was answers. JAX, the
differences of SciPy and what is by hand are given the patterns. CasADi calls the IPOPT
that it brings, ours and JAX that of cyipopt, which is built in another way: ahead of
CasADi in most answers, we are behind it in solving, since that IPOPT takes longer by
itself. The Hessian of a small Lagrangian takes longer than CasADi's, which is written
into set memory: here a matrix is made."""


def write_startup(one: dict[str, Any]) -> Iterator[str]:
    """Return what import and the first gradients take in a fresh process."""
    lengths = list(one["rows"][0]["first_chain_s"])
    heads = [f"first of {int(n):,} ops" for n in lengths]
    yield from write_head("milliseconds", "import", "first gradient", *heads)
    for row in one["rows"]:
        times = [row["import_s"], row["first_gradient_s"]]
        times += [row["first_chain_s"][n] for n in lengths]
        cells = ["" if x is None else write_number(x * 1e3) for x in times]
        yield write_row(row["peer"], *cells)


def write_cluster(one: dict[str, Any]) -> Iterator[str]:
    """Return what two workers of Dask gain, and what sending costs."""
    gradient, jacobian = one["gradient"], one["jacobian"]
    yield "Two worker processes on one machine of two cores."
    yield ""
    yield from write_head("seconds", "gradient", "Jacobian")
    names = {
        "one process": "one process, one core",
        "on both cores": "one process, both cores",
        "two workers": "two workers",
        "by hand, Dask and autograd": "by hand: autograd on each chunk, Dask",
        "by hand, joblib and autograd": "by hand: autograd on each chunk, joblib",
    }
    for name, told in names.items():
        times = [part.get(name) for part in (gradient, jacobian)]
        yield write_row(told, *["" if x is None else write_number(x) for x in times])
    ratios = [part["times as fast"] for part in (gradient, jacobian)]
    yield write_row("two workers are so many times as fast", *map(write_number, ratios))
    pieces, travel, last = one["pieces"], one["travel"], one["simulated"][-1]
    yield ""
    empty = write_number(pieces["seconds per piece"] * 1e3)
    yield f"- A piece that does nothing takes {empty} ms."
    there, back = (write_number(travel[f"seconds {way}"]) for way in ("out", "in"))
    yield f"- A program of {travel['nodes']:,} nodes: {there} s out, {back} s in."
    yield f"- A step sends {write_number(gradient['bytes sent per step'] / 1e3)} kB."
    busy = write_number(last["scheduler"] * 100)
    yield (
        f"- With {last['workers']:,} workers, simulated with these costs, the scheduler"
        f" is busy {busy} % of the time."
    )


def put_into(page: str, tables: str) -> str:
    """Return a page with its tables replaced."""
    before, rest = page.split(START)
    return before + tables + rest.split(END)[1]


def write_pages() -> dict[Path, str]:
    """Return both pages as they should be, by their paths."""
    results = read_results()
    made = {PAGE: write_tables(results), README: write_goal_tables(results)}
    return {
        path: put_into(path.read_text(encoding="utf-8"), tables)
        for path, tables in made.items()
    }


if __name__ == "__main__":
    if "--write" in sys.argv:
        for path, text in write_pages().items():
            path.write_text(text, encoding="utf-8")
    else:
        print(write_tables(read_results()))
        print(write_goal_tables(read_results()))
