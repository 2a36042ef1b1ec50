"""Rewrites: how long they take, and what they save.

The first table simplifies the derivative of chains of 1,000 to 1,000,000 nodes: the
time for each node must not grow. One chain has something to rewrite at every third
node, one has nothing, one adds the same thing again and again. PyTensor rewrites the
same programs with the rules that it uses before it compiles, where it survives.

The second table runs derivatives of other cases on NumPy, as written and simplified, in
turns: nodes, operations on numbers, bytes of results, and time, by default and with
``fast=True``. Where a derivative is written by hand, three ratios to it are told: as
written, by default, fast.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.benchmarks import eager_chain, elementwise, gmm, harness, mlp, rosenbrock
from tests.benchmarks.peers import Problem, differentiate

NAME = "simplify"
GOAL = "100,000 nodes in ≤ 2 s, linear; the mixture ≤ 1.4 × by hand"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
#: PyTensor is not asked for more: it takes minutes, or ends in a RecursionError.
MOST_PYTENSOR = 10_000
ROUNDS = 15


# How long it takes


def write_neutral(np: Any, x: Any, n: int) -> Any:
    """Return a chain with a product with 1 or a difference of 0 at two of four ops."""
    y = x
    for _ in range(n // 8):
        y = np.sin(y) * 1.0
        y = y + x - 0
    return y


def write_plain(np: Any, x: Any, n: int) -> Any:
    """Return a chain with nothing to rewrite."""
    y = x
    for _ in range(n // 6):
        y = np.tanh(y) * x
    return y


def write_sums(np: Any, x: Any, n: int) -> Any:
    """Return a chain of sums with one summand."""
    y = x
    for _ in range(n // 2):
        y = y + x
    return y


CHAINS: dict[str, Callable[[Any, Any, int], Any]] = {
    "neutral numbers": write_neutral,
    "nothing to do": write_plain,
    "sums of the same": write_sums,
}


def time_rewrites(write: Callable[..., Any], size: int) -> dict[str, Any]:
    """Return what the rewriting of the derivative of a chain takes."""
    import workbench as wb

    x = wb.vector("x", shape=3)
    start = time.perf_counter()
    graph = wb.Graph([x], [wb.grad(np.sum(write(np, x, size)), x)])
    traced = time.perf_counter() - start
    seconds = []
    for _ in range(1 if size > 100_000 else 3):
        start = time.perf_counter()
        made = wb.simplify(graph)
        seconds.append(time.perf_counter() - start)
    return {
        "nodes": len(graph),
        "after": len(made),
        "steps": len(made.steps),
        "seconds": min(seconds),
        "tracing_seconds": traced,
    }


def time_pytensor(write: Callable[..., Any], size: int) -> Any:
    """Return what PyTensor's rewriting of the same takes; the error where it fails."""
    import pytensor
    import pytensor.tensor as pt
    from pytensor.graph.rewriting.utils import rewrite_graph

    x = pt.dvector("x")
    try:
        gradient = pytensor.grad(pt.sum(write(pt, x, size)), x)
        start = time.perf_counter()
        rewrite_graph(gradient, include=("canonicalize", "stabilize", "specialize"))
        return time.perf_counter() - start
    except RecursionError:
        return "RecursionError"


def measure_times() -> list[dict[str, Any]]:
    """Return the rows of the first table, and print them."""
    peers = find_spec("pytensor") is not None
    if not peers:
        print("  pytensor: not installed")
    print(
        f"  {'chain':<18}{'nodes':>10}{'steps':>9}{'time':>10}{'a node':>10}"
        f"{'of tracing':>12}{'PyTensor':>16}"
    )
    rows = []
    for name, write in CHAINS.items():
        for size in SIZES:
            row = {"chain": name, **time_rewrites(write, size)}
            if peers and size <= MOST_PYTENSOR:
                row["pytensor"] = time_pytensor(write, size)
            rows.append(row)
            theirs = row.get("pytensor", "-")
            if isinstance(theirs, float):
                theirs = f"{theirs:.3g} s"
            print(
                f"  {name:<18}{row['nodes']:>10,}{row['steps']:>9,}"
                f"{row['seconds']:>8.3f} s"
                f"{row['seconds'] / row['nodes'] * 1e6:>7.1f} µs"
                f"{row['seconds'] / row['tracing_seconds']:>12.2f}{theirs:>16}",
                flush=True,
            )
    return rows


# What it saves


def make_product_of_matrices(tiny: bool) -> Problem:
    """Return a vector behind six square matrices, and the gradient of its length."""
    n, rng = 4 if tiny else 300, np.random.default_rng(0)
    arrays = [rng.normal(size=n), *rng.normal(size=(6, n, n)) / n**0.5]

    def objective(np: Any, v: Any, *matrices: Any) -> Any:
        product = matrices[0]
        for A in matrices[1:]:
            product = product @ A
        return np.sum((product @ v) ** 2)

    return Problem(objective, tuple(arrays))


def list_programs() -> dict[str, Callable[[bool], Problem]]:
    """Return what is simplified: cases of other modules, and one for products."""
    cases = [
        *gmm.CASES[:3],
        *mlp.CASES,
        *rosenbrock.CASES,
        *elementwise.CASES[1:],
        *eager_chain.CASES,
    ]
    made = {case.name: case.make for case in cases}
    return {**made, "six matrices and a vector": make_product_of_matrices}


def count_operations(program: Any, arrays: Sequence[Any]) -> tuple[int, int]:
    """Return how many operations on numbers a run makes, and the bytes of its results.

    A product of matrices makes two for each product of two numbers, any other op one
    for each number that it reads or writes, whichever are more.
    """
    from workbench.core.schedule import compute_node

    operations = written = 0

    def observe(node: Any, operands: tuple[Any, ...]) -> Any:
        nonlocal operations, written
        made = compute_node(node, operands)
        size = sum(map(np.size, made if isinstance(made, tuple) else (made,)))
        if node.op.name in ("matmul", "dot", "vecdot", "matvec", "vecmat"):
            operations += 2 * size * np.shape(operands[0])[-1]
        elif node.op.name == "einsum":
            operations += 2 * count_terms(node.params["subscripts"], operands)
        elif not is_view(made, operands):
            operations += max([size, *map(np.size, operands)])
        if not is_view(made, operands):
            parts = made if isinstance(made, tuple) else (made,)
            written += sum(getattr(y, "nbytes", 8) for y in parts)
        return made

    program.run(arrays, observe)
    return operations, written


def is_view(made: Any, operands: tuple[Any, ...]) -> bool:
    """Return whether a result is an operand's memory."""
    return isinstance(made, np.ndarray) and any(
        isinstance(x, np.ndarray) and np.may_share_memory(made, x) for x in operands
    )


def count_terms(subscripts: Any, operands: tuple[Any, ...]) -> int:
    """Return the number of terms of an einsum of letters."""
    lengths: dict[str, int] = {}
    text = subscripts if isinstance(subscripts, str) else str(subscripts)
    for letters, x in zip(text.split("->")[0].split(","), operands, strict=True):
        lengths.update(zip(letters, np.shape(x), strict=True))
    return int(np.prod(list(lengths.values()), dtype=float))


def measure_savings(tiny: bool = False) -> list[dict[str, Any]]:
    """Return the rows of the second table, and print them."""
    print(
        f"  {'program':<30}{'nodes':>12}{'operations':>12}{'bytes':>8}{'time':>8}"
        f"{'fast':>7}{'by hand':>16}{'to simplify':>14}   (simplified / as written)"
    )
    rows = []
    for name, make in list_programs().items():
        row = measure_saving(make(tiny))
        rows.append({"program": name, **row})
        hand = " ".join(f"{ratio:.2f}" for ratio in row["over_hand"]) or "-"
        nodes = "{:>6} →{:>4}".format(*row["nodes"])
        print(
            f"  {name:<30}{nodes}"
            f"{row['operations']:>12.2f}{row['bytes']:>8.2f}{row['time']:>8.2f}"
            f"{row['fast_time']:>7.2f}{hand:>16}{row['simplify_s'] * 1e3:>11.1f} ms",
            flush=True,
        )
    return rows


def measure_saving(problem: Problem) -> dict[str, Any]:
    """Return what rewrites save of the derivative of one program."""
    import workbench as wb

    _, derivative = differentiate(problem)
    arrays = problem.arrays
    programs = {
        "plain": wb.compile(derivative, backend="numpy", without="all"),
        "simple": wb.compile(derivative, backend="numpy"),
        "fast": wb.compile(derivative, backend="numpy", fast=True),
    }
    runs: dict[str, Callable[[], Any]] = {
        name: partial(program, *arrays) for name, program in programs.items()
    }
    if "hand" in problem.by_hand:
        runs["hand"] = problem.by_hand["hand"]().derivative
    expected = harness.flatten_answer(runs["plain"]())
    close = 1e-4 if arrays[0].dtype == np.float32 else 1e-8
    for name, call in runs.items():
        off = harness.compare_answers(harness.flatten_answer(call()), expected)
        assert off < close, (name, off)
    plain = programs["plain"].graph
    start = time.perf_counter()
    graph = wb.simplify(plain)
    seconds = time.perf_counter() - start
    before = count_operations(plain, arrays)
    after = count_operations(graph, arrays)
    times = take_turns(runs)
    return {
        "nodes": [len(plain), len(graph)],
        "operations": after[0] / before[0],
        "bytes": after[1] / before[1],
        "time": harness.pair_times(times["simple"], times["plain"]),
        "fast_time": harness.pair_times(times["fast"], times["plain"]),
        "over_hand": [
            harness.pair_times(times[name], times["hand"])
            for name in ("plain", "simple", "fast")
            if "hand" in times
        ],
        "simplify_s": seconds,
        "plain_s": statistics.median(times["plain"]),
    }


def take_turns(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Return the times of functions that are called in turns."""
    timed = {name: harness.repeat_call(call, 0.01) for name, call in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, call in timed.items():
            times[name].append(call())
    return times


def run(keep: bool) -> None:
    """Measure, print and keep."""
    print(f"Rewrites\n  goal: {GOAL}")
    times = measure_times()
    savings = measure_savings()
    if keep:
        results = {"goal": GOAL, "times": times, "savings": savings}
        harness.save(NAME, "What rewrites take, and what they save", results)
