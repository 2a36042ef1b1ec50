"""Programs with sparse derivatives, their patterns and their entries by hand.

Each is written once, for any namespace of array functions. Beside it stand the places
of its entries, and most times C that writes these entries: what a peer finds and
computes is held against both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tests.benchmarks.burgers import NU, rate


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
    #: So many first rows are full: one colour each, before the columns are coloured.
    full_rows: int = 0


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


def choose_multipliers(count: int) -> Any:
    """Return the multipliers of both kinds of constraints, (2, count - 1)."""
    return np.random.default_rng(0).standard_normal((2, count - 1))


def make_lagrangian(n: int) -> tuple[Callable[..., Any], Any]:
    """Return the Lagrangian of a swing-up: a pendulum, midpoint rule, n // 3 times."""
    count = n // 3
    first, second = choose_multipliers(count)
    start = 0.3 * np.random.default_rng(1).standard_normal(3 * count)

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


#: A loop over the rods writes eight rows: the forces of the last end there.
CHAIN_C = (
    f"static const double h = {STEP};"
    + """
void entries(const double* restrict z, double* restrict a, long size, const int* c) {
  long n = size / 8;
  const double* across = z + 6 * n;
  const double* along = z + 7 * n;
  double *ends[2] = {a + 18 * n - 4, a + 22 * n - 6}, sine = 0, cosine = 0;
  for (long i = 0; i < n; i++) {
    int last = i == n - 1;
    double s = sin(z[2 * n + i]), k = cos(z[2 * n + i]);
    double pull = across[i] + (last ? 0 : across[i + 1]);
    double lift = along[i] + (last ? 0 : along[i + 1]);
    for (int block = 0; block < 3; block++) {
      double* row = a + 2 * (block * n + i);
      row[0] = 1; row[1] = -h;
    }
    for (int block = 0; block < 2; block++) {
      double* row = a + 6 * n + block * (3 * n - 1) + 3 * i;
      row[0] = 1; row[1] = -h;
      if (!last) row[2] = h;
    }
    double* row = a + 12 * n - 2 + 6 * i;
    *row++ = -6 * h * (k * pull + s * lift); *row++ = 1; *row++ = -6 * h * s;
    if (!last) *row++ = -6 * h * s;
    *row++ = 6 * h * k;
    if (!last) *row++ = 6 * h * k;
    double slopes[2][2] = {{sine / 2, s / 2}, {-cosine / 2, -k / 2}};
    for (int axis = 0; axis < 2; axis++) {
      double* end = ends[axis];
      if (i) *end++ = -1;
      *end++ = 1;
      if (i) *end++ = slopes[axis][0];
      *end++ = slopes[axis][1];
      ends[axis] = end;
    }
    sine = s; cosine = k;
  }
}
"""
)

#: ``weights`` are the multipliers of the second constraints.
LAGRANGIAN_C = (
    f"static const double h = {STEP};"
    + """
void entries(const double* restrict z, double* restrict a, long size,
             const double* restrict weights) {
  long n = size / 3;
  const double* force = z + 2 * n;
  double *row = a, *under = a + 6 * n - 4, bend = 0, cross = 0;
  for (long i = 0; i < n; i++) {
    double next_bend = 0, next_cross = 0;
    int last = i == n - 1;
    if (!last) {
      double middle = (z[i] + z[i + 1]) / 2, pull = (force[i] + force[i + 1]) / 2;
      double s = sin(middle), k = cos(middle), weight = weights[i] * h / 4;
      next_bend = weight * (pull * k - s);
      next_cross = weight * s;
    }
    if (i) *row++ = bend;
    *row++ = bend + next_bend;
    if (!last) *row++ = next_bend;
    if (i) *row++ = *under++ = cross;
    *row++ = *under++ = cross + next_cross;
    if (!last) *row++ = *under++ = next_cross;
    *under++ = 2 * h;
    bend = next_bend; cross = next_cross;
  }
}
"""
)


def make_constants(program: Program, n: int) -> Any:
    """Return the numbers that the C code of a program reads beside the point."""
    if program.name == "lagrangian":
        return choose_multipliers(n // 3)[1]
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
        full_rows=1,
    ),
    Program(
        "chain",
        "chain of rigid bodies",
        (800, 8_000, 80_000),
        make_chain,
        lambda n: make_pattern(n // 8, CHAIN, 8),
        CHAIN_C,
    ),
    Program(
        "lagrangian",
        "Hessian of a Lagrangian",
        (3_000, 30_000, 300_000),
        make_lagrangian,
        lambda n: make_pattern(n // 3, LAGRANGIAN, 3),
        LAGRANGIAN_C,
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
