"""Loops of small state: the cost of a step beside its few numbers.

A recurrent cell of 20 units, an LSTM of 16, a Kalman filter of four states, and an
equation of motion by the method of Runge and Kutta; the gradient of a cost by the
parameters.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem, compile_c, pointers

# A cell of tanh


def cell_cost(xp: Any, W: Any, xs: Any, start: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        (h,) = state
        h = xp.tanh(W @ h + x)
        return (h,), h

    _, states = xp.scan(step, (start,), xs)
    return (states**2).sum()


CELL = """
double forward(double* restrict h, const double* restrict x,
               const double* restrict columns, long steps) {
  double cost = 0;
  for (long t = 0; t < steps; t++) {
    double s[N];
    for (int i = 0; i < N; i++) s[i] = x[t*N+i];
    for (int j = 0; j < N; j++)
      for (int i = 0; i < N; i++) s[i] += columns[j*N+i] * h[t*N+j];
    for (int i = 0; i < N; i++) h[(t+1)*N+i] = tanh(s[i]);
    for (int i = 0; i < N; i++) cost += h[(t+1)*N+i] * h[(t+1)*N+i];
  }
  return cost;
}
void reverse(const double* restrict h, const double* restrict rows,
             double* restrict gW, long steps) {
  double carry[N] = {0};
  for (int i = 0; i < N*N; i++) gW[i] = 0;
  for (long t = steps - 1; t >= 0; t--) {
    const double *before = h + t*N, *after = before + N;
    double c[N] = {0}, g[N];
    for (int i = 0; i < N; i++)
      g[i] = (1 - after[i] * after[i]) * (carry[i] + 2 * after[i]);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) c[j] += rows[i*N+j] * g[i];
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) gW[i*N+j] += g[i] * before[j];
    for (int i = 0; i < N; i++) carry[i] = c[i];
  }
}
"""


def cell_in_c(W: Any, xs: Any, start: Any) -> Peer:
    library = compile_c(f"#define N {len(W)}{CELL}")
    library.forward.restype = ctypes.c_double
    h, columns, g = np.empty((len(xs) + 1, len(W))), W.T.copy(), np.empty_like(W)
    h[0] = start
    places, steps = pointers(h, xs, columns, W, g), ctypes.c_long(len(xs))

    def gradient() -> Any:
        library.forward(*places[:3], steps)
        library.reverse(places[0], *places[3:], steps)
        return g

    return Peer(lambda: library.forward(*places[:3], steps), gradient)


def make_cell(tiny: bool) -> Problem:
    steps, n = (6, 3) if tiny else (10_000, 20)
    rng = np.random.default_rng(0)
    W = rng.normal(size=(n, n)) / n**0.5
    arrays = (W, rng.normal(size=(steps, n)), np.zeros(n))
    return Problem(cell_cost, arrays, by_hand={"C": lambda: cell_in_c(*arrays)})


# An LSTM


def lstm_cost(n: int, xp: Any, W: Any, U: Any, b: Any, xs: Any, start: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + xp.exp(-x))

    def step(state: Any, x: Any) -> Any:
        h, c = state
        z = W @ x + U @ h + b
        let_in, forget = sigmoid(z[:n]), sigmoid(z[n : 2 * n])
        out, new = sigmoid(z[2 * n : 3 * n]), xp.tanh(z[3 * n :])
        c = forget * c + let_in * new
        h = out * xp.tanh(c)
        return (h, c), h

    _, states = xp.scan(step, (start, start), xs)
    return (states**2).sum()


def lstm_forward(W: Any, U: Any, b: Any, xs: Any, start: Any) -> Any:
    n, steps = len(start), len(xs)
    h, c = np.zeros((steps + 1, n)), np.zeros((steps + 1, n))
    gates, roots = np.empty((steps, 4 * n)), np.empty((steps, n))
    driven = xs @ W.T + b
    for t in range(steps):
        z = U @ h[t] + driven[t]
        z[: 3 * n] = 1 / (1 + np.exp(-z[: 3 * n]))
        z[3 * n :] = np.tanh(z[3 * n :])
        gates[t] = z
        c[t + 1] = z[n : 2 * n] * c[t] + z[:n] * z[3 * n :]
        roots[t] = np.tanh(c[t + 1])
        h[t + 1] = z[2 * n : 3 * n] * roots[t]
    return h, c, gates, roots


def lstm_by_hand(W: Any, U: Any, b: Any, xs: Any, start: Any) -> Any:
    h, c, gates, roots = lstm_forward(W, U, b, xs, start)
    n, steps = len(start), len(xs)
    gz, gh, gc = np.empty((steps, 4 * n)), np.zeros(n), np.zeros(n)
    slopes = gates * (1 - gates)
    slopes[:, 3 * n :] = 1 - gates[:, 3 * n :] ** 2
    for t in range(steps - 1, -1, -1):
        let_in, forget, out, new = gates[t].reshape(4, n)
        gh = gh + 2 * h[t + 1]
        gc = gc + gh * out * (1 - roots[t] ** 2)
        gz[t] = np.concatenate([gc * new, gc * c[t], gh * roots[t], gc * let_in])
        gz[t] *= slopes[t]
        gh, gc = gz[t] @ U, gc * forget
    return [gz.T @ xs, gz.T @ h[:-1], gz.sum(0)]


def make_lstm(tiny: bool) -> Problem:
    steps, n, m = (5, 2, 3) if tiny else (1000, 16, 8)
    rng = np.random.default_rng(0)
    arrays = (
        rng.normal(size=(4 * n, m)) / m**0.5,
        rng.normal(size=(4 * n, n)) / n**0.5,
        rng.normal(size=4 * n),
        rng.normal(size=(steps, m)),
        np.zeros(n),
    )
    hand = Peer(
        lambda: np.sum(lstm_forward(*arrays)[0] ** 2), lambda: lstm_by_hand(*arrays)
    )
    return Problem(
        partial(lstm_cost, n), arrays, (0, 1, 2), by_hand={"hand": lambda: hand}
    )


# A Kalman filter


def kalman_cost(xp: Any, A: Any, noise: Any, ys: Any, start: Any, spread: Any) -> Any:
    """Return minus the logarithm of the likelihood of what was seen.

    The first two of four states are seen; ``noise`` has the logarithms of the variances
    of motion and of sight.
    """
    eye, seen = xp.constant(np.eye(4)), xp.constant(np.eye(4)[:2])
    Q, R = xp.exp(noise[0]) * eye, xp.exp(noise[1]) * xp.constant(np.eye(2))

    def step(state: Any, y: Any) -> Any:
        x, P, cost = state
        x, P = A @ x, A @ P @ A.T + Q
        gap, S = y - seen @ x, seen @ P @ seen.T + R
        inverse = xp.linalg.inv(S)
        K = P @ seen.T @ inverse
        cost = cost + 0.5 * (gap @ inverse @ gap + xp.log(xp.linalg.det(S)))
        return x + K @ gap, P - K @ seen @ P, cost

    zero = xp.constant(np.zeros(()))
    return xp.fold(step, (start, spread, zero), ys)[2]


def make_kalman(tiny: bool) -> Problem:
    rng, dt = np.random.default_rng(0), 0.1
    A = np.eye(4)
    A[0, 2] = A[1, 3] = dt
    steps = 5 if tiny else 1000
    ys = np.cumsum(rng.normal(size=(steps, 2)), 0)
    arrays = (A, np.array([-1.0, 0.5]), ys, np.zeros(4), np.eye(4))
    return Problem(kalman_cost, arrays, (0, 1))


# An equation of motion


def motion_cost(steps: int, xp: Any, p: Any) -> Any:
    """Return where hunters and prey are after so many steps of Runge and Kutta."""
    dt = 0.01
    a, b, c, d = p[0], p[1], p[2], p[3]

    def field(x: Any, y: Any) -> Any:
        return x * (a - b * y), y * (c * x - d)

    def step(state: Any) -> Any:
        x, y = state
        k1, l1 = field(x, y)
        k2, l2 = field(x + dt / 2 * k1, y + dt / 2 * l1)
        k3, l3 = field(x + dt / 2 * k2, y + dt / 2 * l2)
        k4, l4 = field(x + dt * k3, y + dt * l3)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, y + dt / 6 * (l1 + 2 * l2 + 2 * l3 + l4)

    start = xp.constant(np.array(10.0)), xp.constant(np.array(5.0))
    x, y = xp.repeat(step, start, steps)
    return x * x + y * y


MOTION = """
#define DT 0.01
#define FIELD(k, l, x, y) double k = (x) * (a - b * (y)), l = (y) * (c * (x) - d)
// The cotangents of x and y, and of p, of the field's outputs at x and y.
static inline void pull(const double* p, double x, double y, double gk, double gl,
                        double* gx, double* gy, double* g) {
  *gx += gk * (p[0] - p[1] * y) + gl * y * p[2];
  *gy += gl * (p[2] * x - p[3]) - gk * x * p[1];
  g[0] += gk * x; g[1] -= gk * x * y; g[2] += gl * x * y; g[3] -= gl * y;
}
double forward(const double* p, double* restrict s, long steps) {
  double a = p[0], b = p[1], c = p[2], d = p[3], x = 10, y = 5;
  for (long t = 0; t < steps; t++) {
    s[2*t] = x; s[2*t+1] = y;
    FIELD(k1, l1, x, y);
    FIELD(k2, l2, x + DT/2*k1, y + DT/2*l1);
    FIELD(k3, l3, x + DT/2*k2, y + DT/2*l2);
    FIELD(k4, l4, x + DT*k3, y + DT*l3);
    x += DT/6 * (k1 + 2*k2 + 2*k3 + k4);
    y += DT/6 * (l1 + 2*l2 + 2*l3 + l4);
  }
  s[2*steps] = x; s[2*steps+1] = y;
  return x*x + y*y;
}
void reverse(const double* p, const double* restrict s, double* restrict g,
             long steps) {
  double a = p[0], b = p[1], c = p[2], d = p[3];
  double gx = 2*s[2*steps], gy = 2*s[2*steps+1];
  for (int i = 0; i < 4; i++) g[i] = 0;
  for (long t = steps - 1; t >= 0; t--) {
    double x = s[2*t], y = s[2*t+1], u, v;
    FIELD(k1, l1, x, y);
    double x2 = x + DT/2*k1, y2 = y + DT/2*l1;
    FIELD(k2, l2, x2, y2);
    double x3 = x + DT/2*k2, y3 = y + DT/2*l2;
    FIELD(k3, l3, x3, y3);
    double x4 = x + DT*k3, y4 = y + DT*l3;
    double g1 = DT/6*gx, h1 = DT/6*gy, g2 = 2*g1, h2 = 2*h1, g3 = g2, h3 = h2;
    double hx = gx, hy = gy;
    u = v = 0; pull(p, x4, y4, g1, h1, &u, &v, g);
    hx += u; hy += v; g3 += DT*u; h3 += DT*v;
    u = v = 0; pull(p, x3, y3, g3, h3, &u, &v, g);
    hx += u; hy += v; g2 += DT/2*u; h2 += DT/2*v;
    u = v = 0; pull(p, x2, y2, g2, h2, &u, &v, g);
    hx += u; hy += v; g1 += DT/2*u; h1 += DT/2*v;
    pull(p, x, y, g1, h1, &hx, &hy, g);
    gx = hx; gy = hy;
  }
}
"""


def motion_in_c(p: Any, count: int) -> Peer:
    library = compile_c(MOTION)
    library.forward.restype = ctypes.c_double
    s, g, steps = np.empty(2 * count + 2), np.empty(4), ctypes.c_long(count)
    given, states, made = pointers(p, s, g)

    def gradient() -> Any:
        library.forward(given, states, steps)
        library.reverse(given, states, made, steps)
        return g

    return Peer(lambda: library.forward(given, states, steps), gradient)


def make_motion(tiny: bool) -> Problem:
    steps, p = 7 if tiny else 2000, np.array([1.1, 0.4, 0.1, 0.4])
    return Problem(
        partial(motion_cost, steps),
        (p,),
        by_hand={"C": lambda: motion_in_c(p, steps)},
    )


UNROLLS = "it unrolls loops, and compiles for minutes"
SMALL = "made for small programs"
GOALS = (Goal(0.2, "jax"), Goal(1.5, "C"))
WITHOUT = {"torch.compile": UNROLLS, "casadi": SMALL}
CASES = (
    Case(
        "loop_cell",
        "Recurrent cell of 20, 10,000 steps",
        make_cell,
        goals=GOALS,
        without=WITHOUT,
        rounds=9,
    ),
    Case(
        "loop_lstm",
        "LSTM of 16, 1000 steps",
        make_lstm,
        goals=GOALS[:1],
        without=WITHOUT,
        rounds=9,
    ),
    Case(
        "loop_kalman",
        "Kalman filter of 4 states, 1000 steps",
        make_kalman,
        goals=GOALS[:1],
        without=WITHOUT,
        rounds=9,
    ),
    Case(
        "loop_motion",
        "Equation of motion of 2 states, 2000 steps of Runge and Kutta",
        make_motion,
        goals=GOALS,
        without=WITHOUT,
        rounds=9,
    ),
)
