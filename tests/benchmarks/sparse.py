"""Sparse Jacobians and Hessians: to find the pattern, to colour it, to call.

Everybody computes the same numbers: the entries of the pattern that stands beside each
program, written by hand. Who finds patterns and colours is timed for that; the others
are given both: JAX the groups of SciPy's `group_columns`, sparsejac the pattern, C the
loop that writes the entries. A call is timed as in the other benchmarks: in turns, in
processor time, on one core. The memory is what finding, colouring and three calls add
at most, in a process of its own.
"""

from __future__ import annotations

import ctypes
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
from tests.benchmarks.burgers import NU, rate
from tests.benchmarks.peers import (
    JaxLoops,
    Names,
    NotApplicable,
    compile_c,
    pointers,
    workbench_names,
)

#: A peer that has prepared nothing after so many seconds is left out.
PATIENCE = 60
ROUNDS = 15
#: The sizes up to which peers take part that take minutes beyond.
MOST = {"sparsejac": 10_000, "asdex": 100_000, "casadi": 100_000}
#: The most colours for which a peer without rows and columns together is asked.
MOST_COLOURS = 500


@dataclass(frozen=True)
class Program:
    """A vector function, or a number of which the Hessian is asked.

    ``make(n)`` gives the function of a namespace and the point, ``pattern(n)`` the
    places of its entries, by hand. ``c`` writes the entries of the rows, in order.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    make: Callable[[int], tuple[Callable[..., Any], Any]]
    pattern: Callable[[int], Any]
    c: str = ""
    is_hessian: bool = False


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

    @property
    def call(self) -> float:
        """The least time of a call."""
        return min(self.calls, default=math.nan)


# The programs


def make_pattern(n: int, places: Iterable[tuple[int, int, int]], count: int) -> Any:
    """Return blocks of n rows and columns, each of some diagonals.

    A place is the row of blocks, the column of blocks, and the diagonal.
    """
    rows, columns = [], []
    for i, j, offset in places:
        row = np.arange(max(0, -offset), min(n, n - offset))
        rows.append(i * n + row)
        columns.append(j * n + row + offset)
    row, column = np.concatenate(rows), np.concatenate(columns)
    shape = (count * n, count * n)
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)


def make_wave(n: int) -> Any:
    return np.sin(np.linspace(0, 3, n)) + 0.1


def korteweg_de_vries(xp: Any, u: Any) -> Any:
    """Return -6 u u' - u''' by central differences, with zeros beyond both ends."""
    zeros = xp.constant(np.zeros(2))
    padded = xp.concatenate([zeros, u, zeros])
    n = len(padded) if hasattr(padded, "__len__") else padded.shape[0]
    far_left, left = padded[: n - 4], padded[1 : n - 3]
    right, far_right = padded[3 : n - 1], padded[4:]
    third = (far_right - 2 * right + 2 * left - far_left) / 2
    return -3 * u * (right - left) - third


def make_bratu(n: int) -> tuple[Callable[..., Any], Any]:
    """Return the five-point stencil of Δu + 2 exp(u) on a square, zero around it."""
    side = math.isqrt(n)
    u = 0.3 * np.cos(np.arange(side * side) * 0.7)

    def bratu(xp: Any, u: Any) -> Any:
        grid = xp.reshape(u, (side, side))
        line = xp.constant(np.zeros((1, side)))
        column = xp.constant(np.zeros((side, 1)))
        up = xp.concatenate([line, grid[:-1, :]], 0)
        down = xp.concatenate([grid[1:, :], line], 0)
        left = xp.concatenate([column, grid[:, :-1]], 1)
        right = xp.concatenate([grid[:, 1:], column], 1)
        made = up + down + left + right - 4 * grid + 2 * xp.exp(grid)
        return xp.reshape(made, (side * side,))

    return bratu, u


def make_five_points(n: int) -> Any:
    side = math.isqrt(n)
    line = sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(side, side))
    one = sparse.eye_array(side)
    return (sparse.kron(line, one) + sparse.kron(one, line)).tocsr()


def arrow(xp: Any, x: Any) -> Any:
    """Return a sum over all, then equations that only the first unknown couples."""
    rest = x[1:]
    first = xp.sum(x * x, axis=0)
    return xp.concatenate([xp.reshape(first, (1,)), rest * rest + x[:1] * rest])


def make_arrow_pattern(n: int) -> Any:
    rest = np.arange(1, n)
    rows = np.concatenate([np.zeros(n, int), rest, rest])
    columns = np.concatenate([np.arange(n), np.zeros(n - 1, int), rest])
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))


STEP = 0.01


def make_chain(n: int) -> tuple[Callable[..., Any], Any]:
    """Return an implicit Euler step of n // 8 rods, each hung at the end of the last.

    Unknown are places, angles, their rates, and the forces in the joints.
    """
    count = n // 8
    start = 0.2 * np.sin(np.arange(8 * count) * 0.37)

    def chain(xp: Any, z: Any) -> Any:
        parts = [z[k * count : (k + 1) * count] for k in range(8)]
        x, y, angle, dx, dy, turn, across, along = parts
        before = [xp.constant(start[k * count : (k + 1) * count]) for k in range(6)]
        zero = xp.constant(np.zeros(1))
        cos, sin = xp.cos(angle), xp.sin(angle)
        next_across = xp.concatenate([across[1:], zero])
        next_along = xp.concatenate([along[1:], zero])
        torque = sin * (across + next_across) - cos * (along + next_along)
        end_x, end_y = x + cos / 2, y + sin / 2
        return xp.concatenate(
            [
                x - before[0] - STEP * dx,
                y - before[1] - STEP * dy,
                angle - before[2] - STEP * turn,
                dx - before[3] - STEP * (across - next_across),
                dy - before[4] - STEP * (along - next_along - 9.81),
                turn - before[5] - STEP * 6 * torque,
                x - cos / 2 - xp.concatenate([zero, end_x[:-1]]),
                y - sin / 2 - xp.concatenate([zero, end_y[:-1]]),
            ]
        )

    return chain, start


CHAIN = (
    *((i, i, 0) for i in range(6)),
    *((i, i + 3, 0) for i in range(3)),
    *((i, i + 3, k) for i in (3, 4) for k in (0, 1)),
    *((5, j, k) for j in (6, 7) for k in (0, 1)),
    (5, 2, 0),
    *((i, j, k) for i, j in ((6, 0), (7, 1), (6, 2), (7, 2)) for k in (-1, 0)),
)


def make_lagrangian(n: int) -> tuple[Callable[..., Any], Any]:
    """Return the Lagrangian of a swing-up: a pendulum, midpoint rule, n // 3 times."""
    count = n // 3
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, count - 1))
    start = 0.3 * rng.standard_normal(3 * count)

    def lagrangian(xp: Any, z: Any) -> Any:
        angle, turn = z[:count], z[count : 2 * count]
        force = z[2 * count :]
        middle = (angle[1:] + angle[:-1]) / 2
        pull = (force[1:] + force[:-1]) / 2
        swing = pull * xp.cos(middle) - xp.sin(middle)
        moves = angle[1:] - angle[:-1] - STEP / 2 * (turn[1:] + turn[:-1])
        speeds = turn[1:] - turn[:-1] - STEP * swing
        bound = xp.constant(first) * moves + xp.constant(second) * speeds
        return STEP * xp.sum(force * force, axis=0) + xp.sum(bound, axis=0)

    return lagrangian, start


LAGRANGIAN = (
    *((i, j, k) for i, j in ((0, 0), (0, 2), (2, 0)) for k in (-1, 0, 1)),
    (2, 2, 0),
)

#: How many others each oscillator sees.
SEEN = 4


@functools.cache
def choose_neighbours(n: int) -> Any:
    """Return for each of n nodes four others, at random, unlike each other."""
    rng = np.random.default_rng(1)
    steps = rng.integers(1, max(2, n // SEEN), (n, SEEN))
    return (np.arange(n)[:, None] + np.cumsum(steps, axis=1)) % n


def make_oscillators(n: int) -> tuple[Callable[..., Any], Any]:
    """Return Kuramoto's coupled oscillators on a random graph."""
    neighbours = choose_neighbours(n)

    def couple(xp: Any, x: Any) -> Any:
        made = 0.0
        for k in range(SEEN):
            made = made + xp.sin(x[xp.index(neighbours[:, k])] - x)
        return made

    return couple, np.linspace(0, 6, n)


def make_graph_pattern(n: int) -> Any:
    rows = np.repeat(np.arange(n), SEEN + 1)
    columns = np.concatenate([choose_neighbours(n), np.arange(n)[:, None]], 1).ravel()
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))


def simple(f: Callable[..., Any]) -> Callable[[int], tuple[Callable[..., Any], Any]]:
    return lambda n: (f, make_wave(n))


BURGERS_C = f"""
void entries(const double* restrict u, double* restrict a, long n, const int* c) {{
  const double nu = {NU};
  a[0] = -2 * nu - u[1] / 2; a[1] = nu - u[0] / 2;
  for (long i = 1; i < n - 1; i++) {{
    double* restrict row = a + 3 * i - 1;
    row[0] = nu + u[i] / 2;
    row[1] = -2 * nu - (u[i+1] - u[i-1]) / 2;
    row[2] = nu - u[i] / 2;
  }}
  a[3*n-4] = nu + u[n-1] / 2; a[3*n-3] = u[n-2] / 2 - 2 * nu;
}}
"""

KDV_C = """
void entries(const double* restrict u, double* restrict a, long n, const int* c) {
  long at = 0;
  for (long i = 0; i < n; i++) {
    double left = i ? u[i-1] : 0, right = i < n - 1 ? u[i+1] : 0;
    if (i >= 2 && i < n - 2) {
      a[at] = 0.5; a[at+1] = 3 * u[i] - 1; a[at+2] = -3 * (right - left);
      a[at+3] = 1 - 3 * u[i]; a[at+4] = -0.5; at += 5;
      continue;
    }
    if (i > 1) a[at++] = 0.5;
    if (i > 0) a[at++] = 3 * u[i] - 1;
    a[at++] = -3 * (right - left);
    if (i < n - 1) a[at++] = 1 - 3 * u[i];
    if (i < n - 2) a[at++] = -0.5;
  }
}
"""

BRATU_C = """
void entries(const double* restrict u, double* restrict a, long n, const int* c) {
  long m = c[0], at = 0;
  for (long i = 0; i < m; i++) for (long j = 0; j < m; j++) {
    if (i) a[at++] = 1;
    if (j) a[at++] = 1;
    a[at++] = 2 * exp(u[i * m + j]) - 4;
    if (j < m - 1) a[at++] = 1;
    if (i < m - 1) a[at++] = 1;
  }
}
"""

ARROW_C = """
void entries(const double* restrict x, double* restrict a, long n, const int* c) {
  for (long i = 0; i < n; i++) a[i] = 2 * x[i];
  double* restrict rest = a + n - 2;
  for (long i = 1; i < n; i++) {
    rest[2 * i] = x[i];
    rest[2 * i + 1] = 2 * x[i] + x[0];
  }
}
"""

#: ``c`` is for each row where its diagonal stands, then its columns without it.
GRAPH_C = """
void entries(const double* restrict x, double* restrict a, long n, const int* c) {
  for (long i = 0; i < n; i++) {
    const int* row = c + 5 * i;
    double sum = 0;
    long at = 5 * i;
    for (int k = 0; k < 4; k++) {
      if (row[0] == k) at++;
      double slope = cos(x[row[k + 1]] - x[i]);
      a[at++] = slope; sum += slope;
    }
    a[5 * i + row[0]] = -sum;
  }
}
"""


def make_constants(program: Program, n: int) -> Any:
    """Return the integers that the C code of a program reads."""
    if program.name == "stencil":
        return np.array([math.isqrt(n)], np.int32)
    if program.name != "graph":
        return np.zeros(1, np.int32)
    others = np.sort(choose_neighbours(n), axis=1)
    places = np.sum(others < np.arange(n)[:, None], axis=1)
    return np.concatenate([places[:, None], others], 1).astype(np.int32)


PROGRAMS = (
    Program(
        "burgers",
        "Burgers' equation",
        (1_000, 10_000, 100_000, 1_000_000),
        simple(rate),
        lambda n: make_pattern(n, [(0, 0, k) for k in (-1, 0, 1)], 1),
        BURGERS_C,
    ),
    Program(
        "kdv",
        "Korteweg-de Vries equation",
        (1_000, 10_000, 100_000, 1_000_000),
        simple(korteweg_de_vries),
        lambda n: make_pattern(n, [(0, 0, k) for k in range(-2, 3)], 1),
        KDV_C,
    ),
    Program(
        "stencil",
        "five-point stencil in two dimensions",
        (10_000, 99_856, 1_000_000),
        make_bratu,
        make_five_points,
        BRATU_C,
    ),
    Program(
        "arrow",
        "arrow: a dense row, a dense column, a diagonal",
        (1_000, 100_000),
        simple(arrow),
        make_arrow_pattern,
        ARROW_C,
    ),
    Program(
        "chain",
        "chain of rigid bodies",
        (800, 8_000, 80_000),
        make_chain,
        lambda n: make_pattern(n // 8, CHAIN, 8),
    ),
    Program(
        "lagrangian",
        "Hessian of a Lagrangian",
        (3_000, 30_000, 300_000),
        make_lagrangian,
        lambda n: make_pattern(n // 3, LAGRANGIAN, 3),
        is_hessian=True,
    ),
    Program(
        "graph",
        "oscillators on a random graph",
        (1_000, 10_000, 100_000),
        make_oscillators,
        make_graph_pattern,
        GRAPH_C,
    ),
)


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
        """A column colouring by SciPy, which is given to those who take one."""
        from scipy.optimize._numdiff import group_columns

        return group_columns(self.pattern, np.arange(self.pattern.shape[1]))

    def read_rows(self, values: Any) -> Any:
        """Return the entries of the rows as a sparse array."""
        made = self.pattern
        parts = np.asarray(values), made.indices, made.indptr
        return sparse.csr_array(parts, shape=made.shape)

    def count_colours(self) -> int:
        """Return how many groups of columns there are; refuse too many."""
        dense = int(np.diff(self.pattern.indptr).max())
        if dense > MOST_COLOURS:
            raise NotApplicable(f"a row of {dense:,} entries takes as many columns")
        return int(self.groups.max()) + 1


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
    integers, x = make_constants(task.program, task.n), np.ascontiguousarray(task.x)
    start, entries, constants = pointers(x, made, integers)
    length = ctypes.c_long(len(x))

    def call() -> Any:
        library.entries(start, entries, length, constants)
        return made

    return Prepared(call, task.read_rows, kept=(x, integers))


def workbench(task: Task) -> Prepared:
    """Find, colour and compile: nothing is given."""
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
    count = task.count_colours()
    seeds = jnp.asarray(task.groups == np.arange(count)[:, None], float)
    rows = np.repeat(np.arange(len(task.x)), np.diff(task.pattern.indptr))
    colours = jnp.asarray(task.groups[task.pattern.indices])
    places = jnp.asarray(rows)
    g = library.grad(f) if task.program.is_hessian else f

    @library.jit
    def entries(x: Any) -> Any:
        push = library.vmap(lambda t: library.jvp(g, (x,), (t,))[1])
        return push(seeds)[colours, places]

    return Prepared(
        lambda: library.block_until_ready(entries(x)), task.read_rows, colours=count
    )


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
    task.count_colours()
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
    task.count_colours()
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

    task.count_colours()  # it colours columns or rows, not both
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
    task.count_colours()
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
                and peer not in ("C", "workbench")
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
    lines = [f"  {'peer':<12}" + "".join(f"{x:>12}" for x in head)]
    for row in sorted(rows, key=lambda r: (bool(r.error), r.call)):
        if row.error:
            lines.append(f"  {row.peer:<12}  {row.error}")
            continue
        times = (row.find * 1e3, row.colour * 1e3, row.call * 1e6)
        cells = [harness.write_number(x) for x in times]
        ratio = math.nan if ours is None else ours.call / row.call
        cells.append(harness.write_number(ratio))
        cells.append("-" if row.colours is None else str(row.colours))
        cells.append(harness.write_number(row.memory / 1e6))
        lines.append(f"  {row.peer:<12}" + "".join(f"{x:>12}" for x in cells))
    return "\n".join(lines)


def describe_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows as they are kept."""
    return [
        {
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
        }
        for row in rows
    ]


def run(keep: bool, names: Iterable[str] = tuple(PEERS)) -> None:
    """Measure all programs at all sizes, print, and keep if wanted."""
    every: list[Row] = []
    for program in PROGRAMS:
        for n in program.sizes:
            task = Task(program, n)
            print(f"{program.title}, n = {n:,}, {task.pattern.nnz:,} entries")
            rows = measure(task, names)
            if n == program.sizes[-1]:
                for row in rows:
                    if not row.error:
                        row.memory = measure_memory(program.name, n, row.peer)
            print(write_table(rows), flush=True)
            every += rows
    results = {"goals": judge(every), "rows": describe_rows(every)}
    for one in results["goals"]:
        word = "met" if one["met"] else "missed"
        print(f"goal: {one['goal']}: {one['value']:g}, {word}")
    if keep:
        harness.save("sparse", "Sparse Jacobians and Hessians", results)


if __name__ == "__main__":
    print_memory(sys.argv[1], int(sys.argv[2]), sys.argv[3])
