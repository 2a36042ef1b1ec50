"""Sparse Jacobian of Burgers' equation on 10,000 points, the colouring given.

du/dt = ν u″ − u u′ by central differences, with zeros beyond both ends. The Jacobian
has three diagonals: three tangents, each of ones at every third place, hold all of it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem, compile_c, pointers

NU = 0.1


def rate(xp: Any, u: Any) -> Any:
    zero = xp.constant(np.zeros(1))
    left, right = xp.concatenate([zero, u[:-1]]), xp.concatenate([u[1:], zero])
    return NU * (right - 2 * u + left) - u * (right - left) / 2


C = """
void f(const double* restrict u, double* restrict y, double nu, long n) {
  for (long i = 0; i < n; i++) {
    double left = i ? u[i-1] : 0, right = i < n - 1 ? u[i+1] : 0;
    y[i] = nu * (right - 2 * u[i] + left) - u[i] * (right - left) / 2;
  }
}
void g(const double* restrict u, double* restrict y, double nu, long n) {
  for (long k = 0; k < 3; k++) y[k * n] = y[k * n + n - 1] = 0;
  y[0] = -2 * nu - u[1] / 2; y[n] = nu - u[0] / 2;
  for (long k = 0; k < 3; k++) {
    double* restrict row = y + k * n;
    for (long i = (k + 2) % 3 ? (k + 2) % 3 : 3; i < n - 1; i += 3)
      row[i] = nu - u[i] / 2;
    for (long i = k ? k : 3; i < n - 1; i += 3)
      row[i] = -2 * nu - (u[i+1] - u[i-1]) / 2;
    for (long i = k + 1; i < n - 1; i += 3) row[i] = nu + u[i] / 2;
  }
  y[(n - 1) % 3 * n + n - 1] = u[n-2] / 2 - 2 * nu;
  y[(n - 2) % 3 * n + n - 1] = nu + u[n-1] / 2;
}
"""


def by_hand(u: Any) -> Peer:
    """Write the three diagonals into the products with the seeds, in C."""
    n, library = len(u), compile_c(C)
    y, made = np.empty(n), np.empty((3, n))
    (start, end, all_three) = pointers(u, y, made)
    length, nu = ctypes.c_long(n), ctypes.c_double(NU)

    def value() -> Any:
        library.f(start, end, nu, length)
        return y

    def compressed() -> Any:
        library.g(start, all_three, nu, length)
        return made

    return Peer(value, compressed)


def make(tiny: bool) -> Problem:
    n = 8 if tiny else 10_000
    u = np.sin(np.linspace(0, 3, n)) + 0.1
    seeds = (np.arange(n) % 3 == np.arange(3)[:, None]).astype(float)
    return Problem(
        rate,
        (u,),
        derivative="compressed",
        seeds=seeds,
        by_hand={"C": lambda: by_hand(u)},
    )


CASES = (
    Case(
        "burgers",
        "Sparse Jacobian, Burgers' equation, n = 10,000, colouring given",
        make,
        goals=(Goal(2.0, "C"), Goal(1.0, "jax")),
        without={"casadi": "its Jacobian colours by itself"},
        unit="µs",
    ),
)
