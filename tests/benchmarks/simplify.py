"""Rewrites: how long they take, and what they save.

The first table simplifies the derivative of chains of 1,000 to 1,000,000 nodes: the
time for each node must not grow. One chain has something to rewrite at every third
node, one has nothing, one adds the same thing again and again. PyTensor rewrites the
same programs with the rules that it uses before it compiles, where it survives.

The second table runs functions of symbols on NumPy, as written and simplified, in
turns: nodes, operations on numbers, bytes of results, and time, by default and with
``fast=True``. Where a derivative is written by hand, three ratios to it are told: as
written, by default, fast.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from tests.benchmarks import harness

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


@dataclass(frozen=True)
class Saving:
    """A program of symbols, its arguments, and who computes it by hand, if anybody."""

    name: str
    symbols: list[Any]
    outputs: list[Any]
    arrays: list[Any]
    by_hand: Callable[..., Any] | None = None


def write_mixture(
    rng: np.random.Generator, n: int, d: int, k: int, spelling: str
) -> Saving:
    """Return the likelihood of a mixture of normals, as ADBench has it.

    The gaps are multiplied with the triangles in the ``spelling`` "@" or "einsum".
    The root of each component's precision has the exponentials of the first numbers of
    ``icf`` on its diagonal and the others below (Šrajer, Kukelova and Fitzgibbon 2018).
    """
    import workbench as wb

    rows, columns = np.tril_indices(d, -1)
    place = np.zeros((d, d), int)
    place[rows, columns] = np.arange(len(rows)) + d
    below = np.tri(d, k=-1)
    alphas = wb.vector("alphas", shape=k)
    means = wb.matrix("means", shape=(k, d))
    icf = wb.matrix("icf", shape=(k, d + len(rows)))
    x = wb.matrix("x", shape=(n, d))
    roots, lower = np.exp(icf[:, :d]), icf[:, place] * below
    gaps = x[:, None, :] - means
    if spelling == "@":
        product = np.swapaxes(np.swapaxes(gaps, 0, 1) @ np.swapaxes(lower, 1, 2), 0, 1)
    else:
        product = np.einsum("ijk,mik->mij", lower, gaps)
    whitened = roots * gaps + product
    logs = np.sum(icf[:, :d], 1)
    inner = alphas + logs - 0.5 * np.sum(whitened**2, 2)
    likelihood = np.sum(wb.logsumexp(inner, axis=1)) - n * wb.logsumexp(alphas)
    prior = 0.5 * (np.sum(roots**2) + np.sum(lower**2)) - np.sum(logs)
    loss = likelihood + prior
    symbols = [alphas, means, icf]
    arrays = [
        rng.normal(size=k),
        rng.random((k, d)),
        rng.normal(size=icf.shape) * 0.1,
        rng.normal(size=(n, d)),
    ]
    outputs = [loss, *wb.grad(loss, symbols)]
    name = f"mixture {n} d{d} k{k}, {spelling}"
    return Saving(name, [*symbols, x], outputs, arrays, by_hand)


def by_hand(alphas: Any, means: Any, icf: Any, x: Any) -> list[Any]:
    """Return the mixture's likelihood and gradient, one component after the other."""
    (n, d), k = x.shape, len(alphas)
    rows, columns = np.tril_indices(d, -1)
    diagonal = np.arange(d)
    logs, roots = icf[:, :d], np.exp(icf[:, :d])
    Q = np.zeros((k, d, d))
    Q[:, rows, columns], Q[:, diagonal, diagonal] = icf[:, d:], roots
    y, gap, p = np.empty((k, n, d)), np.empty((n, d)), np.empty((n, k))
    for i in range(k):
        np.subtract(x, means[i], out=gap)
        np.matmul(gap, Q[i].T, out=y[i])
        p[:, i] = np.einsum("ij,ij->i", y[i], y[i])
    p *= -0.5
    p += alphas + logs.sum(1)
    largest = p.max(1, keepdims=True)
    p -= largest
    np.exp(p, out=p)
    total = p.sum(1, keepdims=True)
    likelihood = np.sum(np.log(total) + largest)
    p /= total
    top = alphas.max()
    weights = np.exp(alphas - top)
    likelihood -= n * (np.log(weights.sum()) + top)
    loss = likelihood + 0.5 * np.sum(Q * Q) - logs.sum()
    share = p.sum(0)
    g_means, g_icf = np.empty((k, d)), np.empty_like(icf)
    for i in range(k):
        np.subtract(x, means[i], out=gap)
        y[i] *= p[:, i, None]
        g_means[i] = y[i].sum(0) @ Q[i]
        g = Q[i] - y[i].T @ gap
        g_icf[i, d:] = g[rows, columns]
        g_icf[i, :d] = g[diagonal, diagonal] * roots[i] + share[i] - 1
    return [loss, share - n * weights / weights.sum(), g_means, g_icf]


def write_network(rng: np.random.Generator) -> Saving:
    """Return a training step of a network of 784-512-512-10 and 128 examples."""
    import workbench as wb

    sizes = (784, 512, 512, 10)
    x = wb.matrix("x", dtype="float32", shape=(128, 784))
    t = wb.matrix("t", dtype="float32", shape=(128, 10))
    weights = [
        wb.matrix(f"W{i}", dtype="float32", shape=shape)
        for i, shape in enumerate(pairwise(sizes))
    ]
    h = x
    for W in weights[:-1]:
        h = np.tanh(h @ W)
    e = np.exp(h @ weights[-1])
    p = e / np.sum(e, axis=1, keepdims=True)
    loss = -np.mean(np.sum(t * np.log(p), axis=1))
    arrays = [rng.normal(size=x.shape), np.eye(10)[rng.integers(0, 10, 128)]]
    arrays += [rng.normal(size=W.shape) / 30 for W in weights]
    return Saving(
        "network 784-512-512-10",
        [x, t, *weights],
        [loss, *wb.grad(loss, weights)],
        [a.astype(np.float32) for a in arrays],
    )


def write_rosenbrock(rng: np.random.Generator) -> Saving:
    """Return Rosenbrock's function of ten numbers and its gradient."""
    import workbench as wb

    x = wb.vector("x", shape=10)
    y = np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    return Saving("Rosenbrock of 10", [x], [y, wb.grad(y, x)], [rng.normal(size=10)])


def write_polynomial(rng: np.random.Generator) -> Saving:
    """Return a polynomial of a million numbers and its gradient."""
    import workbench as wb

    x = wb.vector("x", shape=10**6)
    y = np.sum(((2 * x + 3) * x - 1) * x + 0.5)
    return Saving("polynomial 1e6", [x], [y, wb.grad(y, x)], [rng.normal(size=10**6)])


def write_chain(rng: np.random.Generator) -> Saving:
    """Return a chain of 1000 ops on eight numbers and its gradient."""
    import workbench as wb

    x = wb.vector("x", shape=8)
    y = x
    for i in range(250):
        y = np.sin(y) * 0.9 + x * 0.1 if i % 2 else np.tanh(y) + 0.5 * y
    y = np.sum(y)
    return Saving("chain of 1000", [x], [y, wb.grad(y, x)], [rng.normal(size=8)])


def write_chain_of_matrices(rng: np.random.Generator) -> Saving:
    """Return a vector behind six square matrices, and the gradient of its length."""
    import workbench as wb

    matrices = [wb.matrix(f"A{i}", shape=(300, 300)) for i in range(6)]
    v = wb.vector("v", shape=300)
    product = matrices[0]
    for A in matrices[1:]:
        product = product @ A
    y = np.sum((product @ v) ** 2)
    arrays = [rng.normal(size=(300, 300)) / 17 for _ in matrices]
    return Saving(
        "six matrices and a vector",
        [*matrices, v],
        [y, wb.grad(y, v)],
        [*arrays, rng.normal(size=300)],
    )


def count_operations(program: Any, arrays: list[Any]) -> tuple[int, int]:
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


def measure_savings() -> list[dict[str, Any]]:
    """Return the rows of the second table, and print them."""
    import workbench as wb

    rng = np.random.default_rng(0)
    cases = [
        write_mixture(rng, 10_000, 32, 25, "@"),
        write_mixture(rng, 10_000, 32, 25, "einsum"),
        write_mixture(rng, 1_000, 2, 5, "@"),
        write_network(rng),
        write_rosenbrock(rng),
        write_polynomial(rng),
        write_chain(rng),
        write_chain_of_matrices(rng),
    ]
    print(
        f"  {'program':<30}{'nodes':>12}{'operations':>12}{'bytes':>8}{'time':>8}"
        f"{'fast':>7}{'by hand':>16}{'to simplify':>14}   (simplified / as written)"
    )
    rows = []
    for case in cases:
        plain = wb.function(case.symbols, case.outputs, without="all")
        start = time.perf_counter()
        graph = wb.simplify(plain.graph)
        seconds = time.perf_counter() - start
        simple = wb.function(case.symbols, case.outputs)
        runs = {"plain": partial(plain, *case.arrays)}
        runs["simple"] = partial(simple, *case.arrays)
        fast = wb.function(case.symbols, case.outputs, fast=True)
        runs["fast"] = partial(fast, *case.arrays)
        if case.by_hand is not None:
            runs["hand"] = partial(case.by_hand, *case.arrays)
        expected = runs["plain"]()
        single = case.arrays[0].dtype == np.float32
        for name in runs:
            for a, b in zip(runs[name](), expected, strict=True):
                scale = np.max(np.abs(b))
                off = np.max(np.abs(a - b)) / scale
                assert off < (1e-4 if single else 1e-8), (case.name, name, off)
        times = take_turns(runs)
        before = count_operations(plain.graph, case.arrays)
        after = count_operations(graph, case.arrays)
        row = {
            "program": case.name,
            "nodes": [len(plain.graph), len(graph)],
            "operations": after[0] / before[0],
            "bytes": after[1] / before[1],
            "time": harness.paired(times["simple"], times["plain"]),
            "fast_time": harness.paired(times["fast"], times["plain"]),
            "over_hand": [
                harness.paired(times[name], times["hand"])
                for name in ("plain", "simple", "fast")
                if "hand" in times
            ],
            "simplify_s": seconds,
            "plain_s": statistics.median(times["plain"]),
        }
        rows.append(row)
        hand = " ".join(f"{ratio:.2f}" for ratio in row["over_hand"]) or "-"
        print(
            f"  {case.name:<30}{len(plain.graph):>6} →{len(graph):>4}"
            f"{row['operations']:>12.2f}{row['bytes']:>8.2f}{row['time']:>8.2f}"
            f"{row['fast_time']:>7.2f}{hand:>16}{seconds * 1e3:>11.1f} ms",
            flush=True,
        )
    return rows


def take_turns(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Return the times of functions that are called in turns."""
    timed = {name: harness._repeated(call, 0.01) for name, call in runs.items()}
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
        entry = {
            "case": NAME, "goal": GOAL, **harness.machine(),
            "times": times, "savings": savings,
        }  # fmt: skip
        harness.save(NAME, entry, "")
