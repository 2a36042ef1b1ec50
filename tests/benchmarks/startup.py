"""A fresh process: import, the first tiny gradient, the first long one.

Not interleaved in one process but process by process: each round starts one
process per peer, in random order. What counts is the best of each: a process that
starts while others work takes longer, and never less.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

from tests.benchmarks import harness
from tests.benchmarks.harness import Verdict

NAME = "startup"
TITLE = "Start-up: import, then the first gradients, in a fresh process"
ROUNDS = 9
LENGTHS = (1_000, 10_000, 100_000)

PROBE = """
import json, sys, time
clock = time.process_time
start = clock()
{imports}
imported = clock()
first = None
chains = []
f = {gradient}
if f is not None:
    x = {x}
    f(lambda x: x * x + x, x)
    first = clock() - imported
    def chain(length):
        def g(x):
            for _ in range(length // 2):
                x = {tanh}(x * 1.01)
            return x
        return g
    for length in {lengths}:
        begin = clock()
        f(chain(length), x)
        chains.append(clock() - begin)
print(json.dumps([imported - start, first, chains]))
"""

PEERS: dict[str, dict[str, Any]] = {
    "numpy": {
        "imports": "import numpy as np",
        "x": "0",
        "gradient": "None",
        "tanh": "np.tanh",
    },
    "workbench": {
        "imports": "import numpy as np, workbench as wb",
        "x": "0.3",
        "gradient": "(lambda f, x: wb.grad(f)(x))",
        "tanh": "np.tanh",
    },
    # What a compiled function answers at once, and what it loads for that.
    "workbench compiled": {
        "imports": "import numpy as np, workbench as wb",
        "x": "0.3",
        "gradient": "(lambda f, x: wb.compile(wb.grad(f))(x))",
        "tanh": "np.tanh",
        "lengths": LENGTHS[:2],
    },
    "autograd": {
        "imports": "import autograd.numpy as np\nfrom autograd import grad",
        "x": "0.3",
        "gradient": "(lambda f, x: grad(f)(x))",
        "tanh": "np.tanh",
    },
    "torch": {
        "imports": "import torch",
        "x": "torch.tensor(0.3, requires_grad=True)",
        "gradient": "(lambda f, x: torch.autograd.grad(f(x), x))",
        "tanh": "torch.tanh",
    },
    "jax": {
        "imports": "import jax, jax.numpy as np",
        "x": "0.3",
        "gradient": "(lambda f, x: jax.grad(f)(x).block_until_ready())",
        "tanh": "np.tanh",
        # Without jit 220 µs an op: the long ones would take minutes.
        "lengths": LENGTHS[:1],
    },
}


def once(peer: str) -> list[Any] | None:
    """One fresh process; None if the peer is not installed."""
    settings = {"lengths": LENGTHS, **PEERS[peer]}
    # An installed package has its bytecode; so has this one after the first round.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}
    code = PROBE.format(**settings)
    done = subprocess.run([sys.executable, "-c", code], env=env, **how)
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        if "RecursionError" not in done.stderr:
            raise RuntimeError(done.stderr)
        # It cannot do the long ones: ask for the first alone.
        code = PROBE.format(**{**settings, "lengths": LENGTHS[:1]})
        done = subprocess.run([sys.executable, "-c", code], env=env, **how)
    answer: list[Any] = json.loads(done.stdout)
    return answer


def run(keep: bool) -> None:
    """Measure, print and keep."""
    found: dict[str, list[list[Any]]] = {}
    order = list(PEERS)
    for peer in order:
        once(peer)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for peer in order:
            answer = once(peer)
            if answer is not None:
                found.setdefault(peer, []).append(answer)
    print(TITLE)
    head = "".join(f"{f'{n:,} ops':>15}" for n in LENGTHS)
    print(f"  {'peer':<20}{'import':>11}{'over NumPy':>13}{'first':>11}{head}")
    rows = []
    for peer in PEERS:
        if peer not in found:
            print(f"  {peer:<20}not installed")
            continue
        answers = found[peer]
        loaded = min(a[0] for a in answers)
        base = loaded - min(a[0] for a in found["numpy"])
        first = None if answers[0][1] is None else best(answers, lambda a: a[1])
        chains = [
            best(answers, lambda a, i=i: a[2][i])  # type: ignore[misc]
            if i < len(answers[0][2])
            else None
            for i in range(len(LENGTHS))
        ]
        cells = "".join(
            f"{'-' if c is None else f'{c * 1e3:.1f} ms':>15}" for c in chains
        )
        shown = "-" if first is None else f"{first * 1e3:.2f} ms"
        times = f"{loaded * 1e3:>8.0f} ms{base * 1e3:>10.0f} ms"
        print(f"  {peer:<20}{times}{shown:>11}{cells}")
        rows.append(
            {
                "peer": peer,
                "import_s": round(loaded, 4),
                "import_over_numpy_s": round(base, 4),
                "first_gradient_s": first,
                "first_chain_s": dict(zip(map(str, LENGTHS), chains, strict=True)),
                "rounds": len(answers),
            }
        )
    verdicts = judge(rows)
    for verdict in verdicts:
        print(f"  {harness.write_verdict(verdict)}")
    if keep:
        goals = [vars(v) for v in verdicts]
        harness.save(NAME, TITLE, {"goals": goals, "rows": rows})


def judge(rows: list[dict[str, Any]]) -> list[Verdict]:
    """Return what became of the goals."""
    (ours,) = [row for row in rows if row["peer"] == "workbench"]
    chains = ours["first_chain_s"]
    each = chains["100000"] / 100_000 / (chains["1000"] / 1000)
    found = (
        ("workbench: import ≤ NumPy + 40 ms", ours["import_over_numpy_s"], 0.04),
        ("workbench: first gradient ≤ 1 ms", ours["first_gradient_s"], 1e-3),
        ("workbench: first chain of 1000 ops ≤ 20 ms", chains["1000"], 0.02),
        ("workbench: an op of 100,000 ≤ 1.5 × one of 1000", each, 1.5),
    )
    return [Verdict(goal, float(f"{x:.4g}"), x <= most) for goal, x, most in found]


def best(answers: list[list[Any]], of: Any) -> float:
    """The least over the processes, to four digits."""
    return float(f"{min(of(a) for a in answers):.4g}")
