"""Sparse Jacobians and Hessians: to find the pattern, to colour it, to call.

Everybody computes the same numbers: the entries of the pattern that stands beside each
program, written by hand. Who finds patterns and colours is timed for that; the others
are given both: JAX the groups of SciPy's `group_columns`, sparsejac the pattern, C the
loop that writes the entries. C, JAX and CasADi hand back the entries alone, C and
CasADi in memory that is set once; Workbench makes a matrix of SciPy's, with index
arrays of its own, and is listed with the entries alone too. A call is timed as in the
other benchmarks: in turns, in processor time, on one core. The memory is what finding,
colouring and three calls add at most, in a process of its own.
"""

from __future__ import annotations

import ctypes
import datetime
import functools
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from tests.benchmarks import harness
from tests.benchmarks.peers import (
    JaxLoops,
    Names,
    NotApplicable,
    compile_c,
    pointers,
    workbench_names,
)
from tests.benchmarks.sparse_programs import PROGRAMS, Program, make_constants

#: A peer that has prepared nothing after so many seconds is left out.
PATIENCE = 60
ROUNDS = 15
#: The sizes up to which peers take part that take minutes beyond.
MOST = {"sparsejac": 10_000, "asdex": 100_000, "casadi": 100_000}
#: The memory is measured from this size on.
LARGE = 50_000
#: The most colours for which a peer without rows and columns together is asked.
MOST_COLOURS = 1_000


@dataclass
class Prepared:
    """A peer that is ready: what it took in seconds, and how it is called."""

    call: Callable[[], Any]
    read: Callable[[Any], Any]
    find: float = math.nan
    colour: float = math.nan
    colours: int | None = None
    nnz: int | None = None
    tolerance: float = 1e-9
    #: What the call's memory stays in, as long as it is called.
    kept: Any = None


@dataclass
class Row:
    """What one peer took for one program at one size; seconds and bytes."""

    program: str
    n: int
    peer: str
    find: float = math.nan
    colour: float = math.nan
    calls: list[float] = field(default_factory=list)
    memory: float = math.nan
    colours: int | None = None
    nnz: int | None = None
    error: str = ""
    date: str = ""

    @property
    def call(self) -> float:
        """The least time of a call."""
        return min(self.calls, default=math.nan)


# Who computes them


@dataclass
class Task:
    """A program at one size."""

    program: Program
    n: int

    @functools.cached_property
    def made(self) -> tuple[Callable[..., Any], Any]:
        return self.program.make(self.n)

    @property
    def f(self) -> Callable[..., Any]:
        return self.made[0]

    @property
    def x(self) -> Any:
        return self.made[1]

    @functools.cached_property
    def pattern(self) -> Any:
        """The pattern by hand, as CSR of sorted rows."""
        made = self.program.pattern(self.n).tocsr()
        made.sort_indices()
        return made

    @functools.cached_property
    def groups(self) -> Any:
        """A colouring of the columns by SciPy; rows that are full are not counted."""
        from scipy.optimize._numdiff import group_columns

        rest = self.pattern[self.program.full_rows :]
        return group_columns(rest, np.arange(rest.shape[1]))

    def read_rows(self, values: Any) -> Any:
        """Return the entries of the rows as a sparse array."""
        made = self.pattern
        parts = np.asarray(values), made.indices, made.indptr
        return sparse.csr_array(parts, shape=made.shape)

    def refuse_full_rows(self) -> None:
        """Leave out who colours either columns or rows, where that takes too many."""
        most = int(np.diff(self.pattern.indptr).max())
        if most > MOST_COLOURS:
            raise NotApplicable(f"a row of {most:,} entries takes as many columns")


def clock(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of a call, and what it returns."""
    start = time.process_time()
    made = call()
    return time.process_time() - start, made


def by_hand(task: Task) -> Prepared:
    if not task.program.c:
        raise NotApplicable("it is not written")
    library = compile_c(task.program.c)
    made = np.empty(task.pattern.nnz)
    numbers, x = make_constants(task.program, task.n), np.ascontiguousarray(task.x)
    start, entries, constants = pointers(x, made, numbers)
    length = ctypes.c_long(len(x))

    def call() -> Any:
        library.entries(start, entries, length, constants)
        return made

    return Prepared(call, task.read_rows, kept=(x, numbers))


def workbench(task: Task, alone: bool = False) -> Prepared:
    """Find, colour and compile: nothing is given; or with the entries alone."""
    import workbench as wb

    names, x, f = workbench_names(), task.x, task.f
    names.__dict__["index"] = np.asarray

    def program(x: Any) -> Any:
        return f(names, x)

    hessian = task.program.is_hessian
    wb.sparsity(np.sin, np.ones(3)).colouring()  # loads what is imported late
    find, pattern = clock(lambda: wb.sparsity(program, x, order=1 + hessian))
    colour, colouring = clock(
        lambda: pattern.colouring(symmetric=True) if hessian else pattern.colouring()
    )
    transform = wb.hessian if hessian else wb.jacobian
    J = transform(program, sparse=pattern)
    J.prepare(x)
    J(x)
    wait = getattr(J, "wait", None)
    if wait is not None:
        wait()
    J(x)
    if alone:
        return Prepared(
            lambda: J.entries(x), lambda made: _read_scipy(J.assemble(made))
        )
    return Prepared(
        lambda: J(x), _read_scipy, find, colour, colouring.count, pattern.nnz
    )


def _read_scipy(answer: Any) -> Any:
    return sparse.csr_array(answer)


def jax(task: Task) -> Prepared:
    """Compressed forward mode with the colours and places given, jitted."""
    import jax as library
    import jax.numpy as jnp

    f, x = _make_jax(task)
    count, full = int(task.groups.max()) + 1, task.program.full_rows
    seeds = jnp.asarray(task.groups == np.arange(count)[:, None], float)
    units = jnp.eye(full, task.pattern.shape[0])
    split = int(task.pattern.indptr[full])
    rows = np.repeat(np.arange(task.pattern.shape[0]), np.diff(task.pattern.indptr))
    # Where each entry stands in what is pulled back, and then in what is pushed on.
    above = jnp.asarray(rows[:split]), jnp.asarray(task.pattern.indices[:split])
    colours = jnp.asarray(task.groups[task.pattern.indices[split:]])
    below = colours, jnp.asarray(rows[split:])
    g = library.grad(f) if task.program.is_hessian else f

    @library.jit
    def entries(x: Any) -> Any:
        push = library.vmap(lambda t: library.jvp(g, (x,), (t,))[1])
        pushed = push(seeds)[below]
        if not full:
            return pushed
        (pulled,) = library.vmap(library.vjp(g, x)[1])(units)
        return jnp.concatenate([pulled[above], pushed])

    def call() -> Any:
        return library.block_until_ready(entries(x))

    return Prepared(call, task.read_rows, colours=count + full)


def _make_jax(task: Task) -> tuple[Callable[..., Any], Any]:
    import jax as library
    import jax.numpy as jnp

    library.config.update("jax_enable_x64", True)
    names = Names(jnp, JaxLoops(), constant=jnp.asarray, index=jnp.asarray)
    return (lambda x: task.f(names, x)), jnp.asarray(task.x)


def asdex(task: Task) -> Prepared:
    """Find, colour, and compute under jit."""
    import asdex as library
    import jax as engine

    f, x = _make_jax(task)
    hessian = task.program.is_hessian
    task.refuse_full_rows()
    detect = library.hessian_sparsity if hessian else library.jacobian_sparsity
    find, pattern = clock(lambda: detect(f, x))
    if hessian:
        paint = library.hessian_coloring_from_sparsity
        make = library.hessian_from_coloring
    else:
        paint = library.jacobian_coloring_from_sparsity
        make = library.jacobian_from_coloring
    colour, colouring = clock(lambda: paint(pattern))
    made = engine.jit(make(f, colouring))
    return Prepared(
        lambda: engine.block_until_ready(made(x)),
        _read_jax,
        find,
        colour,
        int(colouring.num_colors),
        int(pattern.nnz),
    )


def _read_jax(answer: Any) -> Any:
    """Return a sparse array of JAX as one of SciPy."""
    indices = np.asarray(answer.indices)
    parts = np.asarray(answer.data), (indices[:, 0], indices[:, 1])
    return sparse.coo_array(parts, shape=answer.shape).tocsr()


def sparsejac(task: Task) -> Prepared:
    """Colour a given pattern, and compute under jit."""
    import jax as engine
    import sparsejac as library
    from jax.experimental import sparse as jax_sparse

    f, x = _make_jax(task)
    task.refuse_full_rows()
    given = jax_sparse.BCOO.from_scipy_sparse(sparse.coo_matrix(task.pattern))
    g = engine.grad(f) if task.program.is_hessian else f
    colour, made = clock(lambda: library.jacfwd(g, given))
    compiled = engine.jit(made)
    return Prepared(
        lambda: engine.block_until_ready(compiled(x)), _read_jax, colour=colour
    )


def casadi(task: Task) -> Prepared:
    """Find, colour and write scalar code, in one; then it runs on set buffers."""
    import casadi as library

    task.refuse_full_rows()
    names = Names(
        library,
        constant=library.DM,
        index=lambda places: places.tolist(),
        concatenate=_join_casadi,
        sum=lambda x, axis: library.sum1(x),
        reshape=lambda x, shape: library.reshape(x, *(*shape, 1)[:2]),
    )

    def make() -> Any:
        x = library.SX.sym("x", len(task.x))
        y = task.f(names, x)
        derived = (
            library.hessian(y, x)[0]
            if task.program.is_hessian
            else library.jacobian(y, x)
        )
        return library.Function("derivative", [x], [derived])

    find, f = clock(make)
    places = f.sparsity_out(0)
    indptr, rows = np.array(places.colind()), np.array(places.row())
    buffer, run = f.buffer()
    held, made = np.ascontiguousarray(task.x), np.zeros(len(rows))
    buffer.set_arg(0, memoryview(held))
    buffer.set_res(0, memoryview(made))

    def call() -> Any:
        run()
        return made

    def read(values: Any) -> Any:
        shape = (f.size1_out(0), f.size2_out(0))
        return sparse.csc_array((values.copy(), rows, indptr), shape=shape).tocsr()

    kept = (buffer, held)
    return Prepared(call, read, find, nnz=len(rows), kept=kept)


def _join_casadi(parts: Any, axis: int = 0) -> Any:
    import casadi as library

    return (library.horzcat if axis else library.vertcat)(*parts)


def scipy(task: Task) -> Prepared:
    """Differences with the pattern given, coloured by SciPy."""
    from scipy.optimize._numdiff import approx_derivative, group_columns

    if task.program.is_hessian:
        raise NotApplicable("differences of a gradient are not tried")
    names = Names(np, constant=np.asarray, index=np.asarray)
    task.refuse_full_rows()
    pattern = task.pattern
    colour, groups = clock(lambda: group_columns(pattern, np.arange(len(task.x))))

    def call() -> Any:
        return approx_derivative(
            lambda x: task.f(names, x), task.x, "2-point", sparsity=(pattern, groups)
        )

    count = int(groups.max()) + 1
    return Prepared(call, _read_scipy, colour=colour, colours=count, tolerance=1e-5)


PEERS: dict[str, Callable[[Task], Prepared]] = {
    "C": by_hand,
    "workbench": workbench,
    "workbench entries": functools.partial(workbench, alone=True),
    "jax": jax,
    "asdex": asdex,
    "sparsejac": sparsejac,
    "casadi": casadi,
    "scipy": scipy,
}


# What is measured


def prepare(task: Task, name: str) -> Prepared:
    """Return a peer that is ready, with time to prepare it in.

    Raises
    ------
    NotApplicable
        If the program is too large for it, or of a kind that it has not.
    """
    if task.n > MOST.get(name, task.n):
        raise NotApplicable(f"tried up to {MOST[name]:,}")
    with harness.limit_time(PATIENCE):
        ready = PEERS[name](task)
        ready.call()
    return ready


def measure(task: Task, names: Iterable[str], rounds: int = ROUNDS) -> list[Row]:
    """Return what each peer took; those whose entries differ have an error."""
    rows: dict[str, Row] = {}
    peers: dict[str, Prepared] = {}
    expected: Any = None
    for name in names:
        row = rows[name] = Row(task.program.name, task.n, name)
        try:
            ready = prepare(task, name)
        except ImportError as error:
            row.error = f"not installed ({error.name})"
            continue
        except NotApplicable as error:
            row.error = f"left out: {error}"
            continue
        except Exception as error:
            row.error = f"{type(error).__name__}: {error}".splitlines()[0][:90]
            continue
        row.find, row.colour = ready.find, ready.colour
        row.colours, row.nnz = ready.colours, ready.nnz
        found = ready.read(ready.call())
        if expected is None:
            expected = found
        off = find_distance(found, expected)
        if off <= ready.tolerance:
            peers[name] = ready
        else:
            row.error = f"differs by {off:.2g}"
    timers = {name: harness.repeat_call(ready.call) for name, ready in peers.items()}
    order, spent = list(peers), dict.fromkeys(peers, 0.0)
    for turn in range(rounds):
        random.shuffle(order)
        for name in order:
            if turn >= 3 and spent[name] > harness.ENOUGH:
                continue
            start = time.perf_counter()
            rows[name].calls.append(timers[name]())
            spent[name] += time.perf_counter() - start
    return list(rows.values())


def find_distance(found: Any, expected: Any) -> float:
    """Return how far sparse arrays are apart, by the largest entry."""
    if found.shape != expected.shape:
        return math.inf
    largest = float(np.max(np.abs(expected.data), initial=1e-300))
    distance = float(np.max(np.abs((found - expected).data), initial=0.0)) / largest
    return distance if distance == distance else math.inf


def measure_memory(program: str, n: int, name: str) -> float:
    """Return what finding, colouring and three calls add, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.sparse", program, str(n), name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2 * PATIENCE
        )
        return float(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return math.nan


def print_memory(program: str, n: int, name: str) -> None:
    """Print the bytes that a peer adds in this process; libraries are loaded before."""
    harness.pin()
    (chosen,) = [one for one in PROGRAMS if one.name == program]
    prepare(Task(chosen, 16 if program != "chain" else 64), name)
    task = Task(chosen, n)
    _ = task.x, task.pattern

    def all_of_it() -> None:
        ready = prepare(task, name)
        for _ in range(3):
            ready.call()

    print(json.dumps(harness.measure_memory(all_of_it)))


# What is printed and kept


def judge(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the goals, what was measured, and whether that meets them."""
    found = {(row.program, row.n, row.peer): row for row in rows}
    made: list[dict[str, Any]] = []

    def add(goal: str, value: float, most: float) -> None:
        if not math.isnan(value):
            kept = harness.keep_digits(value)
            made.append(
                {"goal": goal, "value": kept, "met": value <= most, "reason": ""}
            )

    for program in PROGRAMS:
        for n in program.sizes:
            ours = found.get((program.name, n, "workbench"))
            if ours is None:
                continue
            at = f"{program.name}, n = {n:,}"
            hand = found.get((program.name, n, "C"))
            if hand is not None:
                add(f"{at}: call ≤ 2 × C", ours.call / hand.call, 2)
            others = {
                peer: row.call
                for (name, size, peer), row in found.items()
                if (name, size) == (program.name, n)
                and peer not in ("C", "workbench", "workbench entries")
                and not math.isnan(row.call)
            }
            if others:
                best = min(others, key=lambda peer: others[peer])
                add(f"{at}: call ≤ 1 × {best}", ours.call / others[best], 1)
            if 99_000 <= n <= 100_000 and program.name in STENCILS:
                add(f"{at}: find and colour ≤ 0.2 s", ours.find + ours.colour, 0.2)
            if n >= 1_000_000:
                small = found.get((program.name, program.sizes[-2], "workbench"))
                if small is not None:
                    grown = (ours.find + ours.colour) / (small.find + small.colour)
                    add(f"{at}: find and colour ≤ 15 × a tenth", grown, 15)
    return made


#: The programs that read a few entries near to each.
STENCILS = ("burgers", "kdv", "stencil")


def write_table(rows: list[Row]) -> str:
    """Return the rows of one program at one size as text."""
    head = ("find ms", "colour ms", "call µs", "ours/peer", "colours", "memory MB")
    ours = {row.peer: row for row in rows}.get("workbench")
    lines = [f"  {'peer':<18}" + "".join(f"{x:>12}" for x in head)]
    for row in sorted(rows, key=lambda r: (bool(r.error), r.call)):
        if row.error:
            lines.append(f"  {row.peer:<18}  {row.error}")
            continue
        times = (row.find * 1e3, row.colour * 1e3, row.call * 1e6)
        cells = [harness.write_number(x) for x in times]
        ratio = math.nan if ours is None else ours.call / row.call
        cells.append(harness.write_number(ratio))
        cells.append("-" if row.colours is None else str(row.colours))
        cells.append(harness.write_number(row.memory / 1e6))
        lines.append(f"  {row.peer:<18}" + "".join(f"{x:>12}" for x in cells))
    return "\n".join(lines)


def describe_row(row: Row) -> dict[str, Any]:
    """Return a row as it is kept."""
    return {
        "program": row.program,
        "n": row.n,
        "peer": row.peer,
        "find_s": harness.keep_digits(row.find),
        "colour_s": harness.keep_digits(row.colour),
        "call_s": harness.keep_digits(row.call),
        "memory_bytes": harness.keep_digits(row.memory),
        "colours": row.colours,
        "nnz": row.nnz,
        "rounds": len(row.calls),
        "error": row.error,
        "date": row.date,
    }


def read_row(kept: dict[str, Any]) -> Row:
    """Return a row of what is kept of it."""

    def number(key: str) -> float:
        return math.nan if kept[key] is None else float(kept[key])

    return Row(
        kept["program"],
        kept["n"],
        kept["peer"],
        number("find_s"),
        number("colour_s"),
        [number("call_s")] * kept["rounds"],
        number("memory_bytes"),
        kept["colours"],
        kept["nnz"],
        kept["error"],
        kept.get("date", ""),
    )


def join_rows(rows: list[Row]) -> list[Row]:
    """Return new rows with those that are kept, in the order of programs and sizes.

    What is kept of the same program and size makes room: ratios are of one run.
    """
    parts = {(program.name, n): at for at, (program, n) in enumerate(list_sizes())}
    fresh = {(row.program, row.n) for row in rows}
    kept = [read_row(one) for one in harness.load("sparse").get("rows", [])]
    stay = [r for r in kept if (r.program, r.n) in parts.keys() - fresh]
    return sorted(stay + rows, key=lambda row: parts[row.program, row.n])


def list_sizes() -> list[tuple[Program, int]]:
    """Return every program with each of its sizes."""
    return [(program, n) for program in PROGRAMS for n in program.sizes]


#: The parts that run in processes of their own: ``make bench CASE=sparse.kdv.1000``.
PARTS = tuple(f"sparse.{program.name}.{n}" for program, n in list_sizes())


def run(part: str, keep: bool, names: Iterable[str] | None = None) -> None:
    """Measure one program at one size, print, and keep if wanted."""
    program, n = list_sizes()[PARTS.index(part)]
    task = Task(program, n)
    entries = task.pattern.nnz
    print(f"{program.title}, n = {n:,}, {entries:,} entries (`{part}`)", flush=True)
    rows = measure(task, PEERS if names is None else names)
    for row in rows:
        row.date = datetime.date.today().isoformat()
        if n >= LARGE and not row.error:
            row.memory = measure_memory(program.name, n, row.peer)
    print(write_table(rows), flush=True)
    goals = judge(join_rows(rows))
    for one in goals:
        if one["goal"].startswith(f"{program.name}, n = {n:,}:"):
            word = "met" if one["met"] else "missed"
            print(f"  goal: {one['goal']}: {one['value']:g}, {word}")
    if keep:
        every = [describe_row(row) for row in join_rows(rows)]
        results = {"goals": goals, "rows": every}
        harness.save("sparse", "Sparse Jacobians and Hessians", results)


if __name__ == "__main__":
    print_memory(sys.argv[1], int(sys.argv[2]), sys.argv[3])
