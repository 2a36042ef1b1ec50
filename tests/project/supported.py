"""The guide's lists of what is supported, made from the tables of ops themselves.

`python -m tests.project.supported` prints them; `--write` puts them into the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.surface import SURFACE
from workbench.core.op import FUNCTIONS, UFUNCS, load_all_ops
from workbench.core.refusals import REFUSED, supported_functions
from workbench.ops.device import ON_HOST
from workbench.ops.special.define import Special
from workbench.ops.special.device import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "notebooks" / "guide" / "reference" / "functions.md"
START = "<!-- made by python -m tests.project.supported --write -->"
END = "<!-- the end of what tests.project.supported makes -->"

ELEMENTWISE = "elementwise, functions along axes"
#: A topic, and the modules of `workbench.ops` whose answers belong to it.
TOPICS = {
    ELEMENTWISE: "elementwise ufuncs",
    "sums, differences, order, statistics": "reductions scans sorting statistics",
    "shapes and joins": "shaping arranging joining makers windows",
    "indexing, choosing, positions, dtypes": "indexing lengths taking updates",
    "products and convolutions": "contraction einsum products convolution",
    "polynomials": "polynomials",
}
#: Modules of NumPy with a topic of their own, and where NumPy keeps them.
HOMES = {"linalg": "linalg", "fft": "fft", "emath": "lib.scimath"}
REST = "others"
#: Of SciPy, those under `workbench.scipy`, which work on arrays too.
OWN = (
    "fft integrate interpolate linalg ndimage optimize signal sparse sparse.linalg"
    " spatial spatial.distance spatial.transform special stats"
)


def topic_of(name: str, function: Any) -> str:
    """Where a function of NumPy stands in the table."""
    for module, home in HOMES.items():
        if name.startswith(f"np.{home}."):
            return f"`np.{module}`"
    if isinstance(function, np.ufunc):
        products = function.signature is not None
        return "products and convolutions" if products else ELEMENTWISE
    home = FUNCTIONS[function].__module__.rpartition(".")[2]
    return next((t for t, names in TOPICS.items() if home in names.split()), REST)


def rows() -> dict[str, list[str]]:
    """The names by topic: those of NumPy, of `scipy.special`, of our `scipy`."""
    import_module("scipy.special")
    load_all_ops()
    found: dict[str, set[str]] = {t: set() for t in TOPICS}
    found |= {f"`np.{module}`": set() for module in HOMES} | {REST: set()}
    special: set[str] = set()
    for name, function in supported_functions().items():
        if name.startswith("np."):
            found[topic_of(name, function)].add(name)
        elif name.startswith("scipy.special."):
            special.add(name)
    found["`scipy.special`, by its own ufuncs"] = special
    for module in OWN.split():
        try:
            ours = import_module(f"workbench.scipy.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"workbench.scipy.{module}":
                raise
            continue
        public = [n for n in ours.__all__ if callable(getattr(ours, n, None))]
        found[f"`workbench.scipy.{module}`"] = set(public)
    return {t: sorted(names, key=_short) for t, names in found.items() if names}


def _short(name: str) -> str:
    return name.rpartition(".")[2].lower()


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)


def table() -> str:
    """Return the section as Markdown."""
    found = rows()
    gradients = sum(op.pull is not None for op in set(UFUNCS.values()))
    lines = [START, "", "| topic | how many | among them |", "|---|---|---|"]
    for topic, names in found.items():
        few = code(names[:: max(1, len(names) // 6)][:6])
        lines.append(f"| {topic} | {len(names)} | {few} |")
    lines += [
        "",
        f"Of the ufuncs, {gradients} have a derivative. The others (comparisons,",
        "predicates, rounding, whole numbers) have none, or zero.",
        "",
        "## All names",
        "",
    ]
    for topic, names in found.items():
        lines += [f"### {topic[0].upper()}{topic[1:]}", "", code(names), ""]
    refused = [n for n in REFUSED if n.startswith("np.")]
    lines += [
        "## What is refused",
        "",
        f"Refused, with a reason and with what to write instead: {code(refused)}.",
        "",
        *host_table(),
        END,
    ]
    return "\n".join(lines)


def host_table() -> list[str]:
    """Return the section on ops that leave a GPU, as lines of Markdown."""
    lines = [
        "## What leaves the GPU",
        "",
        "All other ops are computed where their operands are. For these CuPy has no",
        "counterpart: they are computed on the CPU, and the first call says so in a",
        "warning. Nothing else is moved.",
        "",
        "| op | CuPy has no |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {lacks} |" for name, lacks in sorted(ON_HOST.items())]
    if special := special_on_host():
        lines.append(f"| {code(special)} of `scipy.special` | such special function |")
    return [*lines, ""]


def special_on_host() -> list[str]:
    """Functions of `scipy.special` that neither CuPy nor a kernel of ours computes."""
    load_all_ops()
    known = SURFACE["cupyx.scipy.special"].keys() | ROWS.keys()
    computed = (op.compute for op in UFUNCS.values())
    used = {f.__name__ for f in computed if isinstance(f, Special)}
    return sorted(used - known)


def written(text: str, made: str) -> str:
    """Return a page with its section replaced."""
    before, rest = text.split(START)
    return before + made + rest.split(END)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text(), table()))
    else:
        print(table())
