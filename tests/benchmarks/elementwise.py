"""Elementwise: the gradient of a sum over ten million doubles.

One function is full of elementary functions, sum(exp(−x²) sin x + tanh x); the other is
the polynomial sum(((2 x + 3) x − 1) x + 1/2), whose least work is to read and write
the memory once: as much as a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem, compile_c, pointers

C = """
double f(const double* restrict x, long n) {
  double s = 0;
  for (long i = 0; i < n; i++) s += VALUE;
  return s;
}
void g(const double* restrict x, double* restrict y, long n) {
  for (long i = 0; i < n; i++) { double v = x[i]; y[i] = SLOPE; }
}
"""


def by_hand(x: Any, value: str, slope: str) -> Peer:
    """Compute in C, into memory that is there."""
    import ctypes

    library = compile_c(C.replace("VALUE", value).replace("SLOPE", slope))
    library.f.restype = ctypes.c_double
    y = np.empty_like(x)
    (start, end), n = pointers(x, y), ctypes.c_long(x.size)

    def gradient() -> Any:
        library.g(start, end, n)
        return y

    return Peer(lambda: library.f(start, n), gradient)


def copy(x: Any) -> Peer:
    """Copy the memory, as the limit."""
    y = np.empty_like(x)
    return Peer(lambda: np.copyto(y, x), lambda: np.copyto(y, x), answers=False)


def make(tiny: bool, objective: Any, value: str, slope: str) -> Problem:
    x = np.random.default_rng(0).standard_normal(1003 if tiny else 10**7)
    return Problem(
        objective,
        (x,),
        by_hand={
            "C": lambda: by_hand(x, value, slope),
            "copy": lambda: copy(x),
        },
    )


def transcendental(xp: Any, x: Any) -> Any:
    return xp.sum(xp.exp(-x * x) * xp.sin(x) + xp.tanh(x))


def polynomial(xp: Any, x: Any) -> Any:
    return xp.sum(((2 * x + 3) * x - 1) * x + 0.5)


def make_transcendental(tiny: bool) -> Problem:
    return make(
        tiny,
        transcendental,
        "exp(-x[i] * x[i]) * sin(x[i]) + tanh(x[i])",
        "exp(-v * v) * (cos(v) - 2 * v * sin(v)) + 1 - tanh(v) * tanh(v)",
    )


def make_polynomial(tiny: bool) -> Problem:
    return make(
        tiny,
        polynomial,
        "((2 * x[i] + 3) * x[i] - 1) * x[i] + 0.5",
        "(6 * v + 6) * v - 1",
    )


CASES = (
    Case(
        "transcendental",
        "Elementary functions of 1e7 doubles",
        make_transcendental,
        goals=(Goal(1.2, "C"), Goal(1.0, "torch.compile")),
        without={"casadi": "made for small programs"},
        rounds=9,
    ),
    Case(
        "polynomial",
        "A polynomial of 1e7 doubles",
        make_polynomial,
        goals=(Goal(1.5, "copy"), Goal(1.0, "torch.compile")),
        without={"casadi": "made for small programs"},
        rounds=9,
    ),
)
