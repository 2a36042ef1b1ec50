"""How a case is measured: peers interleaved in one process, on one core.

The machine may be busy, so only ratios within one run count. In each round every peer
is timed once, in random order, in processor time; a ratio is that of the least times,
which others who work disturb least. The first call and the memory of each peer are
measured in a process of its own, with empty caches. A benchmark is not a test: nothing
fails on a time, only on answers that do not agree.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gc
import importlib
import importlib.metadata
import json
import math
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peers import (
    OURS,
    PEERS,
    NotApplicable,
    Peer,
    Problem,
    workbench_names,
)

RESULTS = Path(__file__).parent / "results"
SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}
#: What peers may be imported from, for the versions.
LIBRARIES = (
    "numpy scipy llvmlite torch jax pytensor autograd casadi numba opt-einsum asdex"
    " sparsejac cyipopt cyipopt-wheels".split()
)
#: What a peer is imported from, where that is not its name.
IMPORTS = {"workbench": "workbench.symbolic.compiled_function", "jax": "jax.numpy"}
#: A peer that has taken so many seconds is not timed again, after three rounds.
ENOUGH = 4.0
#: A peer that has given no first answer after so many seconds is left out.
PATIENCE = 300


@dataclass(frozen=True)
class Goal:
    """Something of ours is to be at most so much: times a peer's, or in s or bytes.

    ``reason`` says why it is missed, as long as it is.
    """

    most: float
    peer: str = ""
    of: str = "workbench compiled"
    what: str = "gradient"
    reason: str = ""

    def __str__(self) -> str:
        ours = f"{self.of}: {WHAT[self.what]}"
        if self.peer:
            return f"{ours} ≤ {self.most:g} × {self.peer}"
        if self.what == "memory":
            return f"{ours} ≤ {self.most / 1e6:g} MB"
        unit = next((u for u in SCALES if self.most * SCALES[u] >= 1), "µs")
        return f"{ours} ≤ {self.most * SCALES[unit]:g} {unit}"


#: What is measured, as the tables call it.
WHAT = {
    "objective": "objective",
    "gradient": "gradient",
    "first": "first answer",
    "compiled": "until compiled",
    "memory": "extra memory",
}


@dataclass(frozen=True)
class Case:
    """One piece of mathematics, and what of it is measured.

    ``make(tiny)`` makes the problem, small for the tests. ``without`` names peers
    that are left out, with the reason. ``unit`` and ``per`` scale the times for the
    table. ``products``: matrix products bound it, so that OpenBLAS's choice of
    kernels counts.
    """

    name: str
    title: str
    make: Callable[[bool], Problem]
    goals: tuple[Goal, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)
    unit: str = "ms"
    per: float = 1.0
    products: bool = False
    rounds: int = 21
    tolerance: float = 1e-8

    @property
    def ours(self) -> str:
        """Which of ours the ratios are of."""
        return self.goals[0].of if self.goals else "workbench compiled"


@dataclass
class Row:
    """What one peer took; times in seconds, memory in bytes."""

    peer: str
    objectives: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)
    first: float = math.nan
    compiled: float = math.nan
    memory: float = math.nan
    #: Why there is nothing.
    error: str = ""

    def get(self, what: str) -> float:
        """Return the least time, or what was measured once."""
        if what in ("objective", "gradient"):
            times: list[float] = getattr(self, what + "s")
            return min(times, default=math.nan)
        value: float = getattr(self, what)
        return value


def pin() -> None:
    """Keep this process and all that it starts on one core and one thread."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


# Who takes part, and whether they agree


def list_peers(
    case: Case, problem: Problem, names: Collection[str] | None = None
) -> dict[str, Callable[[], Peer]]:
    """Return how each peer of a case is made; those by hand come first.

    ``names``: of the others, besides ours, only these.
    """
    makers: dict[str, Callable[[], Peer]] = dict(problem.by_hand)
    for name, adapter in PEERS.items():
        chosen = names is None or name in names or name in OURS
        if chosen and name not in case.without:
            makers[name] = lambda adapter=adapter: adapter(problem)  # type: ignore[misc]
    return makers


def prepare(
    case: Case, problem: Problem, names: Collection[str] | None = None
) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers that are ready to run and agree, and why others are not.

    What the first gives is right: a derivative by hand where there is one.
    """
    ready: dict[str, Peer] = {}
    errors: dict[str, str] = {}
    expected: Any = None
    for name, make in list_peers(case, problem, names).items():
        try:
            with limit_time(PATIENCE):
                peer = make()
                peer.objective()
                answer = peer.derivative()
                peer.wait()
                answer = peer.derivative()
        except ImportError as error:
            print(f"  {name}: not installed ({error.name})", flush=True)
            continue
        except NotApplicable as error:
            print(f"  {name}: left out: {error}", flush=True)
            continue
        except Exception as error:
            said = str(error).splitlines()
            errors[name] = f"{type(error).__name__}: {said[0] if said else ''}"
            continue
        if peer.answers:
            arrays = flatten_answer(peer.read(answer))
            if expected is None:
                expected = arrays
            off = compare_answers(arrays, expected)
            if not off <= case.tolerance:
                errors[name] = f"differs by {off:.2g}"
                continue
        ready[name] = peer
    return ready, errors


def flatten_answer(answer: Any) -> list[Any]:
    """Return the arrays of an answer, one after the other."""
    if isinstance(answer, dict):
        answer = [answer[key] for key in sorted(answer)]
    if isinstance(answer, (list, tuple)):
        return [array for part in answer for array in flatten_answer(part)]
    return [np.asarray(answer)]


def compare_answers(arrays: list[Any], expected: list[Any]) -> float:
    """Return how far arrays are off, by the largest number of each."""
    if [x.shape for x in arrays] != [x.shape for x in expected]:
        return math.inf
    off = 0.0
    for x, y in zip(arrays, expected, strict=True):
        if x.size:
            distance = float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-300))
            off = max(off, distance if distance == distance else math.inf)
    return off


@contextlib.contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in what takes longer, where the system has alarms."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer after {seconds} s")

    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "SIGALRM") or not main:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Times


def measure(
    case: Case,
    tiny: bool = False,
    probes: bool = True,
    names: Collection[str] | None = None,
) -> list[Row]:
    """Time all peers of a case against each other; of the others only those named."""
    problem = case.make(tiny)
    peers, errors = prepare(case, problem, names)
    rows = {name: Row(name) for name in peers}
    timers = {
        name: [repeat_call(peer.objective), repeat_call(peer.derivative)]
        for name, peer in peers.items()
    }
    gc.collect()
    gc.freeze()  # what the compilers of others have left is nobody's garbage to sort
    spent = dict.fromkeys(peers, 0.0)
    order = list(peers)
    for turn in range(case.rounds):
        random.shuffle(order)
        for name in order:
            if turn >= 3 and spent[name] > ENOUGH:
                continue
            start = time.perf_counter()
            objective, derivative = timers[name]
            rows[name].objectives.append(objective())
            rows[name].gradients.append(derivative())
            spent[name] += time.perf_counter() - start
    gc.unfreeze()
    if probes:
        for row in rows.values():
            with tempfile.TemporaryDirectory() as folder:
                measured = run_probe(case.name, row.peer, folder)
            row.first, row.compiled, row.memory = measured
    return [*rows.values(), *(Row(name, error=e) for name, e in errors.items())]


def repeat_call(call: Callable[[], Any], least: float = 0.02) -> Callable[[], float]:
    """Return a function that calls often enough to be timed; seconds per call."""
    call()
    start = time.process_time()
    call()
    count = max(1, int(least / max(time.process_time() - start, 1e-7)))

    def run() -> float:
        gc.collect()  # what one leaves behind must not cost the next
        start = time.process_time()
        for _ in range(count):
            call()
        return (time.process_time() - start) / count

    return run


def pair_times(ours: list[float], theirs: list[float]) -> float:
    """Return the median of our time over theirs, round by round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


# First call and memory, each peer in a fresh process


def probe(case: Case, name: str) -> None:
    """Print what the first derivative of a peer costs in this process.

    Its library is imported before, and of ours what is imported late. The memory is
    what a later call has at most, over what the process holds between calls.
    """
    problem = case.make(False)
    library = name.partition(" ")[0].partition(".")[0]
    with contextlib.suppress(ImportError):
        importlib.import_module(IMPORTS.get(library, library))
    if name in OURS:
        workbench_names()
    make = list_peers(case, problem)[name]
    start = read_clock()
    peer = make()
    peer.derivative()
    first = read_clock() - start
    peer.wait()
    peer.derivative()
    compiled = read_clock() - start
    peer.release()
    memory = measure_memory(peer.derivative)
    print(json.dumps([first, compiled, memory]))


def read_clock() -> float:
    """Return the processor seconds of this process and of compilers it has called."""
    try:
        import resource
    except ImportError:
        return time.process_time()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + spent.ru_utime + spent.ru_stime


def measure_memory(call: Callable[[], Any]) -> float:
    """Return the most bytes that a call adds; Linux tells, others do not."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _read_status("VmRSS")
        call()
        return _read_status("VmHWM") - before
    except OSError:
        return math.nan


def _read_status(key: str) -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = [x for x in status.splitlines() if x.startswith(key)]
    return float(line.split()[1]) * 1024


def run_probe(case: str, name: str, folder: str) -> tuple[float, float, float]:
    """Return what `probe` says in a process of its own, whose caches are a folder's."""
    command = [sys.executable, "-m", "tests.benchmarks", "--probe", case, name]
    env = {
        **os.environ,
        "WORKBENCH_CACHE": folder,
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "NUMBA_CACHE_DIR": folder,
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTENSOR_FLAGS": f"base_compiledir={folder}",
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env=env
        )
        first, compiled, memory = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return math.nan, math.nan, math.nan
    return first, compiled, memory


# What is printed and kept


@dataclass(frozen=True)
class Verdict:
    """A goal, what was measured, and whether that meets it; None: not measured."""

    goal: str
    value: float | None
    met: bool | None
    reason: str = ""


def judge(goals: Sequence[Goal], rows: Sequence[Row]) -> list[Verdict]:
    """Return what became of the goals of a case."""
    found = {row.peer: row for row in rows}
    made = []
    for goal in goals:
        value = math.nan
        if goal.of in found:
            value = found[goal.of].get(goal.what)
            if goal.peer:
                theirs = found[goal.peer].get(goal.what) if goal.peer in found else 0
                value = value / theirs if theirs else math.nan
        met = None if math.isnan(value) else value <= goal.most
        made.append(Verdict(str(goal), keep_digits(value), met, goal.reason))
    return made


def write_table(case: Case, rows: list[Row], note: str = "") -> str:
    """Return the rows as text, fastest gradient first."""
    scale = SCALES[case.unit] / case.per
    ours = {row.peer: row for row in rows}.get(case.ours)
    width = max(len(row.peer) for row in rows)
    head = ("objective", "gradient", "ours/peer", "first", "compiled", "memory")
    lines = [f"{case.title}{note}"]
    lines += [f"  {line}" for line in map(write_verdict, judge(case.goals, rows))]
    lines.append(f"  {'peer':<{width}}" + "".join(f"{x:>12}" for x in head))
    for row in sorted(rows, key=lambda r: (bool(r.error), r.get("gradient"))):
        if row.error:
            lines.append(f"  {row.peer:<{width}}  {row.error}")
            continue
        cells = [f"{write_number(row.get(x) * scale)} {case.unit}" for x in head[:2]]
        cells.append(write_number(find_ratio(ours, row)))
        cells += [f"{write_number(row.get(x) * 1e3)} ms" for x in head[3:5]]
        cells.append(f"{write_number(row.memory / 1e6)} MB")
        lines.append(f"  {row.peer:<{width}}" + "".join(f"{x:>12}" for x in cells))
    return "\n".join(lines)


def find_ratio(ours: Row | None, row: Row) -> float:
    """Return the least time of our gradient over that of a peer."""
    return math.nan if ours is None else ours.get("gradient") / row.get("gradient")


def write_verdict(verdict: Verdict) -> str:
    """Return a goal and what became of it, as a line."""
    if verdict.value is None:
        return f"goal: {verdict.goal}: not measured"
    word = "met" if verdict.met else "missed"
    return f"goal: {verdict.goal}: {verdict.value:g}, {word}"


def write_number(x: float) -> str:
    """Return a number of three digits or more, without an exponent where it is long."""
    return "-" if math.isnan(x) else f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def keep_digits(x: float) -> float | None:
    """Return a number to four digits, or None for NaN, which JSON lacks."""
    return None if math.isnan(x) else float(f"{x:.4g}")


def describe_machine() -> dict[str, Any]:
    """Return where and with what the times were taken."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    versions = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": os.cpu_count(),
        "cores used": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": int(os.environ.get("OPENBLAS_NUM_THREADS", "0")) or None,
        "load": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
    }


def describe_results(case: Case, rows: list[Row]) -> dict[str, Any]:
    """Return a case's results as they are kept."""
    ours = {row.peer: row for row in rows}.get(case.ours)
    return {
        "goals": [vars(v) for v in judge(case.goals, rows)],
        "left out": dict(case.without),
        "ours": case.ours,
        "unit": case.unit,
        "per": case.per,
        "rows": [
            {
                "peer": row.peer,
                "objective_s": keep_digits(row.get("objective")),
                "objective_median_s": _median(row.objectives),
                "gradient_s": keep_digits(row.get("gradient")),
                "gradient_median_s": _median(row.gradients),
                "ours_over_peer": keep_digits(find_ratio(ours, row)),
                "first_answer_s": keep_digits(row.first),
                "compiled_s": keep_digits(row.compiled),
                "extra_memory_bytes": keep_digits(row.memory),
                "rounds": len(row.gradients),
                "error": row.error,
            }
            for row in rows
        ],
    }


def _median(times: list[float]) -> float | None:
    return keep_digits(statistics.median(times)) if times else None


def load(name: str) -> dict[str, Any]:
    """Return what is kept of a case; nothing where it was never measured."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return {}
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return kept


def save(name: str, title: str, results: Mapping[str, Any], tag: str = "") -> None:
    """Write what was measured of a case, and where; a second run replaces the first."""
    RESULTS.mkdir(exist_ok=True)
    entry = {"case": title, **describe_machine(), **results}
    file = RESULTS / f"{name}{tag}.json"
    file.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n")


def run(
    case: Case, keep: bool, probes: bool = True, names: Collection[str] | None = None
) -> bool:
    """Measure a case, print its table, keep it if wanted; return whether all agree."""
    kernel = os.environ.get("OPENBLAS_CORETYPE")
    note = f" [OPENBLAS_CORETYPE={kernel}]" if kernel else ""
    rows = measure(case, probes=probes, names=names)
    print(write_table(case, rows, note), flush=True)
    if keep:
        tag = f".{kernel}" if kernel else ""
        save(case.name, case.title, describe_results(case, rows), tag)
    return not any("differs" in row.error for row in rows) and not any(
        row.error and row.peer in OURS for row in rows
    )
