"""The first call of a compiled function: how long until there is an answer.

Each peer runs in a fresh process: its library is imported before, and no cache on disk
has anything; then once more with what the first process left in the caches.
Workbench's first answer comes from NumPy, and its compiled code is made meanwhile.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

from tests.benchmarks import harness
from tests.benchmarks.__main__ import list_cases
from tests.benchmarks.harness import Verdict, keep_digits

NAME = "first_call"
TITLE = "The first call of a compiled function, in a fresh process"
#: What is called, from small to large.
PROGRAMS = (
    "call_three",
    "rosenbrock",
    "gmm_1k_einsum",
    "mlp",
    "loop_cell",
    "eager_chain",
)
PEERS = (
    "workbench numpy",
    "workbench compiled",
    "torch.compile",
    "jax",
    "pytensor",
    "casadi",
)
#: Until compiled, at most so many seconds.
GOAL = 0.1
HEAD = ("first answer", "until compiled", "with caches")


def measure_program(name: str) -> list[dict[str, Any]]:
    """Return a row for each peer of a case."""
    (case,) = [case for case in list_cases() if case.name == name]
    makers = harness.list_peers(case, case.make(True))
    rows = []
    for peer in PEERS:
        if peer not in makers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            first, compiled, _ = harness.run_probe(name, peer, folder)
            if math.isnan(first):
                continue
            again = harness.run_probe(name, peer, folder)[1]
        times = zip(HEAD, (first, compiled, again), strict=True)
        rows.append({"peer": peer, **{x: keep_digits(t) for x, t in times}})
    return rows


def run(keep: bool) -> None:
    """Measure, print and keep."""
    print(TITLE)
    programs: dict[str, Any] = {}
    verdicts = []
    for name in PROGRAMS:
        programs[name] = rows = measure_program(name)
        print(f"  {name:<22}" + "".join(f"{x:>18}" for x in HEAD))
        for row in rows:
            cells = [row[x] for x in HEAD]
            shown = [f"{x * 1e3:.1f} ms" if x is not None else "-" for x in cells]
            print(f"    {row['peer']:<20}" + "".join(f"{x:>18}" for x in shown))
            if row["peer"] == "workbench compiled":
                value = row[HEAD[1]]
                goal = f"{name}: until compiled ≤ {GOAL * 1e3:g} ms"
                met = None if value is None else value <= GOAL
                verdicts.append(Verdict(goal, value, met))
                print(f"    {harness.write_verdict(verdicts[-1])}", flush=True)
    if keep:
        goals = [vars(v) for v in verdicts]
        harness.save(NAME, TITLE, {"goals": goals, "programs": programs})
