"""Programs that fill arrays, as NumPy users write them, and random ones.

Each runs plainly, which tells its value, and in a trace with `workbench.numpy` for
``np``. The gradient is that of differences of the plain value.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import workbench.numpy as wnp
from workbench.numpy.creation import JOINED

#: NumPy's names, those of the namespace in the place of its own.
NAMES = SimpleNamespace(
    **vars(np)
    | {"random": np.random}
    | {n: getattr(wnp, n) for n in (*wnp.__all__, *JOINED)},
)

_draw = np.random.default_rng(5)
V6, V8, V16 = (_draw.normal(size=n) for n in (6, 8, 16))
P6 = _draw.uniform(0.5, 2.0, size=6)
M3, M4 = _draw.normal(size=(3, 3)), _draw.normal(size=(4, 4))
S4 = M4 @ M4.T + 4 * np.eye(4)
D5 = _draw.normal(size=(5, 5)) + 5 * np.eye(5)
G56 = _draw.normal(size=(5, 6))
W = _draw.normal(size=4096)

#: A program, where it is run, and whether it has a second derivative there.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any, bool]] = {}


def program(x: Any, *, smooth: bool = True) -> Callable[[Any], Any]:
    """Note a program, and the array that it is run on."""

    def note(f: Any) -> Any:
        PROGRAMS[f.__name__] = (f, x, smooth)
        return f

    return note


def with_names(f: Any, names: Any = NAMES) -> Any:
    """Return the same function with other names for ``np``."""
    scope = {**f.__globals__, "np": names}
    made = FunctionType(f.__code__, scope, f.__name__, f.__defaults__, f.__closure__)
    return made


# Filling


@program(V6)
def fill_entries(x: Any) -> Any:
    out = np.zeros(6)
    for i in range(6):
        out[i] = x[i] ** 2
    return out


@program(V6)
def fill_empty(x: Any) -> Any:
    out = np.empty(6)
    for i in range(6):
        out[i] = np.sin(x[i]) * x[-1 - i]
    return out


@program(V6)
def fill_like(x: Any) -> Any:
    out = np.zeros_like(x)
    out[::2] = x[::2] * 3
    out[1::2] = x[:3] * x[3:]
    return out


@program(V6)
def fill_rows(x: Any) -> Any:
    M = np.zeros((3, 6))
    for k in range(3):
        M[k] = x ** (k + 1)
    return M.T @ M


@program(V6)
def vandermonde_columns(x: Any) -> Any:
    V = np.ones((6, 4))
    for k in range(1, 4):
        V[:, k] = V[:, k - 1] * x
    return V.sum(axis=0)


@program(V6)
def toeplitz(x: Any) -> Any:
    T = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            T[i, j] = x[abs(i - j)]
    return T @ x


@program(V6)
def full_then_set(x: Any) -> Any:
    a = np.full(6, x[0])
    a[2:4] = x[1]
    return a * x


@program(V6)
def array_of_entries(x: Any) -> Any:
    a = np.array([x[0], x[1] * x[2], 1.0])
    a[2] = x[5]
    a[0] *= a[1]
    return a


@program(V6)
def rotation_matrix(x: Any) -> Any:
    R = np.eye(3)
    R[0, 0], R[0, 1] = np.cos(x[0]), -np.sin(x[0])
    R[1, 0], R[1, 1] = np.sin(x[0]), np.cos(x[0])
    return R @ x[:3] + R.T @ x[3:]


# Views and aliases


@program(V8)
def view_of_view(x: Any) -> Any:
    y = x * 2
    v = y[1:]
    w = v[::2]
    w[1] = x[0] * 10
    v += 1
    return y * y


@program(V8)
def base_shows_view(x: Any) -> Any:
    y = x * 1.0
    a, b = y[:4], y[4:]
    b *= a
    y[0] = 7 * x[1]
    return a + b


@program(V8)
def alias(x: Any) -> Any:
    y = x * 2
    z = y
    z += x
    z[3] = x[0]
    return y * z


@program(M4)
def transposed_row(x: Any) -> Any:
    y = x * 1.0
    y.T[0] = x[1]
    return y @ x


@program(M4)
def reshaped_entry(x: Any) -> Any:
    y = x * 1.0
    y.reshape(-1)[5] = x[0, 0] ** 2
    y.ravel()[6] *= 3
    return y @ y


@program(M4)
def flat_entries(x: Any) -> Any:
    y = x.T * 1.0
    y.flat[3] = x[0, 1] * x[1, 0]
    y.flat[::5] = 2.0
    return y * x


@program(M4)
def reshape_that_copies(x: Any) -> Any:
    y = x * 1.0
    z = y.T.reshape(16)
    z[0] = 100.0
    y[0, 1] = x[2, 2]
    return y.ravel() * z


@program(M4)
def rows_normalised(x: Any) -> Any:
    y = x * 1.0
    for row in y:
        row /= np.sqrt(np.sum(row * row))
    return y


@program(M4)
def fill_diagonal(x: Any) -> Any:
    y = x * 1.0
    np.fill_diagonal(y, x[0])
    return y @ y


@program(M4)
def swapped_rows(x: Any) -> Any:
    y = x * 1.0
    y[[0, 1]] = y[[1, 0]]
    y[:, [2, 3]] = y[:, [3, 2]]
    return y @ x


@program(V8)
def overlapping_forward(x: Any) -> Any:
    y = x * 1.0
    y[1:] = y[:-1]
    y[:-2] += y[2:]
    return y * x


@program(V8)
def overlapping_backward(x: Any) -> Any:
    y = x * 1.0
    y[:-1] -= y[1:]
    y[::-1][2:5] *= 3
    return y * y


@program(V8)
def reversed_view(x: Any) -> Any:
    y = x * 1.0
    r = y[::-1]
    r[0] = x[0] * x[1]
    y[0] = 3.0
    return r * x


@program(V8)
def two_views_apart(x: Any) -> Any:
    y = x * 1.0
    a, b = y[::2], y[1::2]
    a += b
    b -= a
    return y * x


@program(V8)
def swap_by_tuple(x: Any) -> Any:
    y = x * 1.0
    y[0], y[1] = y[1], y[0]
    y[2:4], y[4:6] = y[4:6].copy(), y[2:4].copy()
    return y * x * x


@program(V8)
def mutate_in_helper(x: Any) -> Any:
    def bump(a, k):
        a[k] *= 3
        a[:] = a + 1

    y = x * 2
    bump(y, 2)
    bump(y[3:], 0)
    return y * y


@program(V8)
def kept_in_list(x: Any) -> Any:
    y = x * 1.0
    held = [y, y[2:]]
    held[1][0] = x[7]
    held[0] -= x
    return y + held[1].sum()


@program(V8)
def copy_is_apart(x: Any) -> Any:
    y = x * 2
    z = y.copy()
    y[0] = 5.0
    y += z
    z *= x
    return y * z


# Masks, fancy indices


@program(V8)
def relu_by_mask(x: Any) -> Any:
    y = x * 1.0
    y[y < 0] = 0
    return y * y * x


@program(V8)
def mask_values(x: Any) -> Any:
    y = x * 1.0
    m = x > 0
    y[m] *= 2
    y[~m] = x[~m] ** 2
    return y


@program(V8)
def fancy_add_loses(x: Any) -> Any:
    y = x * 1.0
    y[[0, 0, 3]] += x[:3]
    return y * x


@program(V8)
def add_at(x: Any) -> Any:
    y = np.zeros(4)
    np.add.at(y, [0, 1, 1, 3, 0, 2, 2, 2], x * x)
    np.subtract.at(y, [1, 1], x[:2])
    return y * y


@program(P6)
def multiply_at(x: Any) -> Any:
    y = x * 1.0
    np.multiply.at(y, [0, 0, 2], x[3:])
    np.maximum.at(y, [1, 4], np.array([0.1, 9.0]))
    return y


@program(V8)
def put_place_mask(x: Any) -> Any:
    y = x * 1.0
    np.put(y, [1, 3], x[:2] * 4)
    np.place(y, x > 1.0, [2.0])
    np.putmask(y, x < -0.5, x * x)
    np.copyto(y, x[::-1], where=np.arange(8) % 3 == 0)
    return y * x


@program(M4, smooth=False)
def put_along_axis(x: Any) -> Any:
    y = x * 1.0
    best = np.argmax(x, axis=1)[:, None]
    np.put_along_axis(y, best, 0.0, axis=1)
    return y @ x


@program(V8)
def histogram_weights(x: Any) -> Any:
    bins = np.zeros(5)
    for v in x:
        number = float(v.value if hasattr(v, "value") else v)
        k = int(np.clip(np.floor(number) + 2, 0, 4))
        bins[k] += v * v
    return bins


# out= and methods


@program(V8)
def out_arguments(x: Any) -> Any:
    y = np.empty(8)
    np.multiply(x, x, out=y)
    np.add(y, x, out=y)
    np.exp(-y, out=y)
    np.add(y[:-1], y[1:], out=y[1:])
    return y


@program(V8)
def out_where(x: Any) -> Any:
    y = np.zeros(8)
    np.sqrt(x * x + 1, out=y, where=x > 0)
    np.cumsum(y, out=y)
    return y


@program(V8, smooth=False)
def sort_in_place(x: Any) -> Any:
    y = x * 2
    v = y[2:]
    v.sort()
    return y * np.arange(8.0)


@program(V8)
def fill_method(x: Any) -> Any:
    y = x * 1.0
    y[2:5].fill(0.5)
    y[:] = y * x
    y[...] -= 1
    return y


@program(V8)
def complex_parts(x: Any) -> Any:
    z = np.zeros(4, complex)
    z.real = x[:4]
    z.imag[1:] = x[5:]
    z *= 1j
    return z.real * 2 + z.imag**2


# Linear algebra by hand


@program(D5)
def gauss_elimination(A):
    A = A.copy()
    b = np.arange(1.0, 6.0)
    n = len(b)
    for k in range(n - 1):
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            A[i, k:] -= m * A[k, k:]
            b[i] -= m * b[k]
    z = np.zeros(n)
    for i in range(n - 1, -1, -1):
        z[i] = (b[i] - A[i, i + 1 :] @ z[i + 1 :]) / A[i, i]
    return z


@program(D5)
def lu_with_pivots(A):
    A = A * 1.0
    n = A.shape[0]
    p = np.arange(n)
    for k in range(n - 1):
        j = k + int(np.argmax(np.abs(A[k:, k])))
        if j != k:
            A[[k, j]] = A[[j, k]]
            p[[k, j]] = p[[j, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A


@program(S4)
def cholesky(A):
    n = A.shape[0]
    L = np.zeros((n, n))
    for j in range(n):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
    return L


@program(V16)
def thomas(x: Any) -> Any:
    n = 8
    b, d = 4 + np.tanh(x[:8]), x[8:] * 1.0
    c = np.empty(n)
    c[0] = 1 / b[0]
    d[0] /= b[0]
    for i in range(1, n):
        w = b[i] - c[i - 1]
        c[i] = 1 / w
        d[i] = (d[i] - d[i - 1]) / w
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d


@program(D5)
def gram_schmidt(A):
    Q = A.copy()
    for k in range(5):
        for j in range(k):
            Q[:, k] -= (Q[:, j] @ Q[:, k]) * Q[:, j]
        Q[:, k] /= np.linalg.norm(Q[:, k])
    return Q


@program(D5)
def gauss_jordan_inverse(A):
    n = 5
    M = np.zeros((n, 2 * n))
    M[:, :n] = A
    M[:, n:] = np.eye(n)
    for k in range(n):
        M[k] /= M[k, k]
        for i in range(n):
            if i != k:
                M[i] -= M[i, k] * M[k]
    return M[:, n:]


@program(D5)
def jacobi_iteration(A):
    z, new = np.zeros(5), np.zeros(5)
    for _ in range(4):
        for i in range(5):
            s = A[i] @ z - A[i, i] * z[i]
            new[i] = (1 - s) / A[i, i]
        z[:] = new
    return z


@program(D5)
def gauss_seidel(A):
    z = np.zeros(5)
    for _ in range(3):
        for i in range(5):
            z[i] = (i + 1 - A[i, :i] @ z[:i] - A[i, i + 1 :] @ z[i + 1 :]) / A[i, i]
    return z


@program(D5)
def householder(A):
    R = A.copy()
    for k in range(4):
        v = R[k:, k].copy()
        v[0] += np.sign(v[0]) * np.sqrt(v @ v)
        v /= np.sqrt(v @ v)
        R[k:, k:] -= 2 * np.outer(v, v @ R[k:, k:])
    return R


@program(V8)
def givens(x: Any) -> Any:
    R = np.outer(x, x) + np.eye(8)
    c, s = np.cos(x[0]), np.sin(x[0])
    top = R[0].copy()
    R[0] = c * top + s * R[1]
    R[1] = -s * top + c * R[1]
    return R


# Stencils, recurrences, tables


@program(V16)
def heat_steps(x: Any) -> Any:
    u = x.copy()
    for _ in range(4):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@program(G56)
def stencil_2d(x: Any) -> Any:
    u = x * 1.0
    new = np.zeros_like(u)
    for _ in range(3):
        new[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
        u[1:-1, 1:-1] = new[1:-1, 1:-1] * u[1:-1, 1:-1]
    return u


@program(V8)
def ghost_cells(x: Any) -> Any:
    u = np.zeros(10)
    u[1:-1] = x
    for _ in range(3):
        u[0], u[-1] = u[-2], u[1]
        u[1:-1] -= 0.2 * (u[1:-1] ** 2 - u[:-2] ** 2)
    return u


@program(P6)
def cumulative_product(x: Any) -> Any:
    y = x * 1.0
    for i in range(1, 6):
        y[i] *= y[i - 1]
    return y


@program(V8)
def prefix_sums_blelloch(x: Any) -> Any:
    y = x * 1.0
    d = 1
    while d < 8:
        y[2 * d - 1 :: 2 * d] += y[d - 1 :: 2 * d]
        d *= 2
    y[-1] = 0
    d = 4
    while d:
        t = y[d - 1 :: 2 * d].copy()
        y[d - 1 :: 2 * d] = y[2 * d - 1 :: 2 * d]
        y[2 * d - 1 :: 2 * d] += t
        d //= 2
    return y * x


@program(V6)
def fibonacci_like(x: Any) -> Any:
    f = np.empty(12)
    f[0], f[1] = x[0], x[1]
    for i in range(2, 12):
        f[i] = 0.5 * f[i - 1] + x[i % 6] * f[i - 2]
    return f


@program(G56)
def dp_soft_alignment(x: Any) -> Any:
    n, m = 5, 6
    T = np.full((n + 1, m + 1), 10.0)
    T[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best = np.array([T[i - 1, j], T[i, j - 1], T[i - 1, j - 1]])
            T[i, j] = x[i - 1, j - 1] ** 2 - np.log(np.sum(np.exp(-best)))
    return T[1:, 1:]


@program(V8, smooth=False)
def dp_knapsack(x: Any) -> Any:
    values = np.abs(x)
    best = np.zeros(12)
    for i in range(8):
        w = 1 + i % 3
        for c in range(11, w - 1, -1):
            best[c] = np.maximum(best[c], best[c - w] + values[i])
    return best


@program(P6, smooth=False)
def shortest_paths(x: Any) -> Any:
    d = np.full((4, 4), 50.0)
    np.fill_diagonal(d, 0)
    d[0, 1], d[1, 2], d[2, 3], d[0, 2], d[1, 3], d[3, 0] = x
    for k in range(4):
        d[:] = np.minimum(d, d[:, k, None] + d[None, k])
    return d


@program(V8, smooth=False)
def bubble_sort(x: Any) -> Any:
    y = x * 1.0
    for i in range(8):
        for j in range(7 - i):
            if y[j] > y[j + 1]:
                y[j], y[j + 1] = y[j + 1], y[j]
    return y * np.arange(8.0)


@program(V8, smooth=False)
def sorting_network(x: Any) -> Any:
    y = x * 1.0
    k = 2
    while k <= 8:
        j = k // 2
        while j:
            for i in range(8):
                m = i ^ j
                if m > i:
                    lo, hi = np.minimum(y[i], y[m]), np.maximum(y[i], y[m])
                    if i & k:
                        y[i], y[m] = hi, lo
                    else:
                        y[i], y[m] = lo, hi
            j //= 2
        k *= 2
    return y * W[:8]


@program(V8, smooth=False)
def sift_down_heap(x: Any) -> Any:
    h = x * 1.0
    n = 8

    def sift(k, end):
        while 2 * k + 1 < end:
            c = 2 * k + 1
            if c + 1 < end and h[c + 1] > h[c]:
                c += 1
            if h[k] >= h[c]:
                return
            h[[k, c]] = h[[c, k]]
            k = c

    for k in range(n // 2 - 1, -1, -1):
        sift(k, n)
    for end in range(n - 1, 0, -1):
        h[0], h[end] = h[end], h[0]
        sift(0, end)
    return h * W[:8]


@program(V8, smooth=False)
def heap_of_entries(x: Any) -> Any:
    queue = [(float(getattr(v, "value", v)), i) for i, v in enumerate(x)]
    heapq.heapify(queue)
    out = np.zeros(8)
    for k in range(8):
        _, i = heapq.heappop(queue)
        out[k] = x[i] * (k + 1)
    return out


@program(V8)
def fft_butterflies(x: Any) -> Any:
    n = 8
    rev = [0, 4, 2, 6, 1, 5, 3, 7]
    a = np.zeros(n, complex)
    a[:] = x[rev]
    size = 2
    while size <= n:
        w = np.exp(-2j * np.pi * np.arange(size // 2) / size)
        for start in range(0, n, size):
            top = a[start : start + size // 2].copy()
            low = w * a[start + size // 2 : start + size]
            a[start : start + size // 2] = top + low
            a[start + size // 2 : start + size] = top - low
        size *= 2
    return np.abs(a) ** 2


@program(V8)
def haar_wavelet(x: Any) -> Any:
    y = x * 1.0
    n = 8
    while n > 1:
        a = (y[0:n:2] + y[1:n:2]) / 2
        d = (y[0:n:2] - y[1:n:2]) / 2
        y[: n // 2], y[n // 2 : n] = a, d
        n //= 2
    return y**2


# Integrators, walks, normalisation


@program(V6)
def euler_trajectory(x: Any) -> Any:
    path = np.zeros((20, 2))
    path[0] = x[:2]
    for k in range(19):
        p, q = path[k]
        path[k + 1, 0] = p + 0.1 * q
        path[k + 1, 1] = q - 0.1 * (x[2] * p + x[3] * q)
    return path


@program(V6)
def rk4_in_place(x: Any) -> Any:
    y = x[:2].copy()
    dy = np.empty(2)

    def rhs(y):
        dy[0] = y[1]
        dy[1] = (1 - y[0] ** 2) * y[1] * x[2] - y[0]
        return dy.copy()

    for _ in range(6):
        k1 = rhs(y)
        k2 = rhs(y + 0.05 * k1)
        k3 = rhs(y + 0.05 * k2)
        k4 = rhs(y + 0.1 * k3)
        k1 += 2 * k2
        k1 += 2 * k3
        k1 += k4
        y += 0.1 / 6 * k1
    return y


@program(V6)
def leapfrog(x: Any) -> Any:
    q, v = x[:3].copy(), x[3:].copy()
    for _ in range(5):
        v -= 0.05 * np.sin(q)
        q += 0.1 * v
        v -= 0.05 * np.sin(q)
    return np.concatenate([q, v])


@program(V6)
def buffer_reused(x: Any) -> Any:
    force = np.zeros(6)
    total = 0.0
    for k in range(3):
        force[:] = 0
        for i in range(5):
            f = x[i] * x[i + 1] * (k + 1)
            force[i] += f
            force[i + 1] -= f
        total = total + np.sum(force**2)
    return total


@program(V6)
def random_walk(x: Any) -> Any:
    rng = np.random.default_rng(3)
    steps = rng.normal(size=(10, 6))
    path = np.zeros((11, 6))
    for t in range(10):
        path[t + 1] = path[t] + x * steps[t]
        path[t + 1][path[t + 1] > 3] = 3.0
    return path


@program(M4)
def standardise(x: Any) -> Any:
    y = x.copy()
    y -= y.mean(axis=0)
    y /= y.std(axis=0)
    return y @ y.T


@program(M4)
def softmax_rows(x: Any) -> Any:
    y = x * 1.0
    y -= y.max(axis=1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(axis=1, keepdims=True)
    return y


@program(V6)
def adam_steps(x: Any) -> Any:
    w, m, v = x * 1.0, np.zeros(6), np.zeros(6)
    for t in range(1, 5):
        g = 2 * w + 1
        m *= 0.9
        m += 0.1 * g
        v *= 0.99
        v += 0.01 * g**2
        w -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
    return w


@program(V6)
def own_argument(x: Any) -> Any:
    x[0] = 0
    x *= x[1]
    x[2:] += x[:-2]
    return x * x


@program(V6)
def class_with_state(x: Any) -> Any:
    class Filter:
        def __init__(self):
            self.state = np.zeros(3)

        def push(self, v):
            self.state[1:] = self.state[:-1]
            self.state[0] = v
            return self.state @ x[:3]

    f = Filter()
    out = np.empty(6)
    for i in range(6):
        out[i] = f.push(x[i])
    return out


@program(V6)
def generator_state(x: Any) -> Any:
    def run():
        s = np.zeros(2)
        for v in x:
            s *= 0.5
            s[0] += v
            s[1] += v * v
            yield s

    total = 0.0
    for s in run():
        total = total + s[0] * s[1]
    return total


@program(V8)
def error_then_go_on(x: Any) -> Any:
    y = x * 1.0
    try:
        y[20] = x[0]
    except IndexError:
        y[0] = x[1] ** 2
    try:
        y[:3] = np.zeros(5)
    except ValueError:
        y[1] = 2 * x[0]
    return y * y


# Random programs

HELPER = "def change(a):\n    a *= 0.5\n    a[-1] = 2.0\n\n"


def draw_program(r: Random) -> str:
    """Return a program on a 4 x 6 array, with aliases, views and writes, as text."""
    lines = ["a = x * 1.0", "b = np.zeros((4, 6))", "c = x.T * 2"]
    if r.random() < 0.3:
        lines[0] = "a = x"  # its own argument
    names: dict[str, tuple[int, ...]] = {"a": (4, 6), "b": (4, 6), "c": (6, 4)}

    def axis_slice(n: int) -> tuple[str, int | None]:
        kind = r.randrange(6)
        if kind == 0:
            return ":", n
        if kind == 1:
            k = r.randrange(n)
            return f"{k}:", n - k
        if kind == 2 and n > 1:
            k = r.randrange(1, n)
            return f":{k}", k
        if kind == 3:
            return "::-1", n
        if kind == 4:
            return "::2", (n + 1) // 2
        return f"{r.randrange(n)}", None

    def index(shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        parts, rest = [], []
        for n in shape:
            p, m = axis_slice(n)
            parts.append(p)
            if m is not None:
                rest.append(m)
        return ", ".join(parts), tuple(rest)

    for k in range(r.randrange(6, 16)):
        name = r.choice(list(names))
        shape = names[name]
        step = r.randrange(19)
        new = f"v{k}"
        if step < 3 and shape:
            i, s = index(shape)
            if s and 0 not in s:
                lines.append(f"{new} = {name}[{i}]")
                names[new] = s
        elif step == 3:
            lines.append(f"{new} = {name}.T")
            names[new] = shape[::-1]
        elif step == 4:
            size = 1
            for n in shape:
                size *= n
            lines.append(f"{new} = {name}.reshape(-1)")
            names[new] = (size,)
        elif step == 5:
            lines.append(f"{new} = {name}")
            names[new] = shape
        elif step == 6:
            lines.append(f"{new} = {name}.copy()")
            names[new] = shape
        elif step == 7:
            op = r.choice(["+=", "*=", "-="])
            value = r.choice(["x[0, 1]", "2.0", "np.sin(x[1, 2])"])
            lines.append(f"{name} {op} {value}")
        elif step == 8:
            others = [n for n in names if names[n] == shape]
            lines.append(f"{name} {r.choice(['+=', '*='])} {r.choice(others)} * 0.5")
        elif step in (9, 10) and shape:
            i, s = index(shape)
            value = r.choice(["x[2, 3]", "1.5", "x[0, 0] * x[3, 5]"])
            lines.append(f"{name}[{i}] {r.choice(['=', '+=', '*='])} {value}")
        elif step == 11:
            others = [n for n in names if names[n] == shape]
            lines.append(f"{name}[...] = {r.choice(others)}[...] * 0.5 + 1")
        elif step == 12:
            lines.append(f"{name}[{name} > 0.8] {r.choice(['= 0.25', '*= 0.5'])}")
        elif step == 13 and len(shape) and shape[0] > 1:
            lines.append(f"{name}[[0, 1]] = {name}[[1, 0]]")
        elif step == 14:
            lines.append(f"{new} = np.flip({name}, 0)")
            names[new] = shape
        elif step == 15:
            lines.append(f"np.multiply({name}, 0.5, out={name})")
        elif step == 16:
            lines.append(f"np.add.at({name}, 0, x[1, 1])")
        elif step == 17:
            lines.append(f"{name}.flat[1] = x[1, 3]")
        elif step == 18:
            lines.append(f"change({name})" if r.random() < 0.5 else f"np.sum({name})")
    tail = " + ".join(f"np.sum({n} * {k + 1})" for k, n in enumerate(names))
    lines.append("return " + tail)
    return HELPER + "def f(x):\n" + "\n".join("    " + line for line in lines)


def function_of(text: str, names: Any) -> Callable[[Any], Any]:
    """Return the function f of a text, with these names for ``np``."""
    scope: dict[str, Any] = {"np": names, "__name__": "programs"}
    exec(compile(text, "<program>", "exec"), scope)
    found: Callable[[Any], Any] = scope["f"]
    return found
