"""How a case is measured: peers interleaved in one process, medians, one core.

The machine may be busy, so only ratios within one run count: in each round every
peer is timed once, in random order, and the ratio is the median over the rounds of
that round's two times. The first call and the memory of each peer are measured in
a process of its own. A benchmark is not a test: nothing fails on a time, only on
answers that do not agree.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
OURS = "workbench"

#: A peer's objective and gradient, as functions without arguments.
Pair = tuple[Callable[[], Any], Callable[[], Any]]


@dataclass(frozen=True)
class Case:
    """One piece of mathematics and those who compute it.

    ``peers`` maps a name to a function that imports the peer and returns its
    objective and its gradient; ``unit`` and ``per`` scale the times for the table.
    """

    name: str
    title: str
    peers: dict[str, Callable[[], Pair]]
    goal: str
    unit: str = "ms"
    per: float = 1.0
    products: bool = False
    rounds: int = 15
    tolerance: float = 1e-8


@dataclass
class Row:
    """What one peer took; times in seconds, memory in bytes."""

    peer: str
    objective: float = math.nan
    gradient: float = math.nan
    ratio: float = math.nan
    first: float = math.nan
    memory: float = math.nan
    times: list[float] = field(default_factory=list)


SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}


def pin() -> None:
    """One core, one thread, for this process and all it starts."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def installed(case: Case) -> dict[str, Pair]:
    """The peers that can be imported, ready to run."""
    found = {}
    for name, setup in case.peers.items():
        try:
            found[name] = setup()
        except ImportError as error:
            print(f"  {name}: not installed ({error.name})")
    return found


def measure(case: Case) -> list[Row]:
    """Time all peers of a case against each other."""
    peers = installed(case)
    expected = None
    for name, (_, gradient) in peers.items():
        answer = np.asarray(gradient())
        if expected is None:
            expected = answer
        off = np.max(np.abs(answer - expected)) / max(1.0, np.max(np.abs(expected)))
        if not off <= case.tolerance:
            raise AssertionError(f"{case.name}: {name} is off by {off:.2g}")
    rows = {name: Row(name) for name in peers}
    objectives = {name: _repeated(pair[0]) for name, pair in peers.items()}
    gradients = {name: _repeated(pair[1]) for name, pair in peers.items()}
    values: dict[str, list[float]] = {name: [] for name in peers}
    order = list(peers)
    for _ in range(case.rounds):
        random.shuffle(order)
        for name in order:
            values[name].append(objectives[name]())
            rows[name].times.append(gradients[name]())
    for name, row in rows.items():
        row.objective = statistics.median(values[name])
        row.gradient = statistics.median(row.times)
        row.ratio = paired(rows[OURS].times, row.times)
        row.first, row.memory = probed(case.name, name)
    return list(rows.values())


def paired(ours: list[float], theirs: list[float]) -> float:
    """The median of our time over theirs, round by round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _repeated(call: Callable[[], Any], least: float = 0.03) -> Callable[[], float]:
    """A function that calls often enough to be timed; seconds per call."""
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(least / max(time.perf_counter() - start, 1e-9)))

    def timed() -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count

    return timed


# First call and memory, each peer in a fresh process


def probe(case: Case, peer: str) -> None:
    """Print what the first gradient of a peer costs in this process."""
    _, gradient = case.peers[peer]()
    before = peak_memory(reset=True)
    start = time.perf_counter()
    gradient()
    first = time.perf_counter() - start
    gradient()
    print(json.dumps([first, peak_memory() - before]))


def peak_memory(reset: bool = False) -> float:
    """The most memory this process has held, in bytes; Linux tells, others do not."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return math.nan
    (line,) = [x for x in status.splitlines() if x.startswith("VmHWM")]
    return float(line.split()[1]) * 1024


def probed(case: str, peer: str) -> tuple[float, float]:
    """What `probe` says in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks", "--probe", case, peer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        return math.nan, math.nan
    first, memory = json.loads(done.stdout.splitlines()[-1])
    return first, memory


# What is printed and kept


def table(case: Case, rows: list[Row], note: str = "") -> str:
    """The rows as text, fastest gradient first."""
    scale = SCALES[case.unit] / case.per
    lines = [
        f"{case.title}{note}",
        f"  goal: {case.goal}",
        f"  {'peer':<12}{'objective':>12}{'gradient':>12}{'ours/peer':>11}"
        f"{'first call':>13}{'memory':>10}",
    ]
    for row in sorted(rows, key=lambda r: r.gradient):
        lines.append(
            f"  {row.peer:<12}"
            f"{_number(row.objective * scale):>9} {case.unit}"
            f"{_number(row.gradient * scale):>9} {case.unit}"
            f"{_number(row.ratio):>11}"
            f"{_number(row.first * 1e3):>10} ms"
            f"{_number(row.memory / 1e6):>7} MB"
        )
    return "\n".join(lines)


def _number(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def machine() -> dict[str, Any]:
    """Where and with what the times were taken."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    versions = {}
    for name in ("numpy", "torch", "autograd", "jax", "pytensor"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores used": 1,
        "load": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
    }


def save(case: str, entry: dict[str, Any], tag: str) -> None:
    """Write a case's results; a second run replaces the first."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{case}{tag}.json"
    file.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n")


def report(case: Case, rows: list[Row], keep: bool) -> None:
    """Print a case's table and, if wanted, keep it."""
    kernel = os.environ.get("OPENBLAS_CORETYPE")
    note = f" [OPENBLAS_CORETYPE={kernel}]" if kernel else ""
    print(table(case, rows, note), flush=True)
    if not keep:
        return
    entry = {
        "case": case.title,
        "goal": case.goal,
        **machine(),
        "rows": [
            {
                "peer": row.peer,
                "objective_s": _kept(row.objective),
                "gradient_s": _kept(row.gradient),
                "ours_over_peer": _kept(row.ratio),
                "first_call_s": _kept(row.first),
                "extra_memory_bytes": _kept(row.memory),
                "rounds": len(row.times),
            }
            for row in rows
        ],
    }
    save(case.name, entry, f".{kernel}" if kernel else "")


def _kept(x: float) -> float | None:
    return None if math.isnan(x) else float(f"{x:.4g}")
