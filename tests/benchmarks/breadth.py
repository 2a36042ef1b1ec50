"""Breadth: what one gradient costs, in calls of the function itself.

Each row is a function of one array at a size where NumPy, not Python, sets the pace.
The gradient is that of ``sum(weight * f(x))``; the ratio to the plain value says
whether a rule does what mathematics asks, or something slower. Where autograd or
JAX (without jit, as ours) has the function, their ratio stands beside; "differs" says
that their answer is another one, as for factors of a symmetric matrix, of which we
read the triangle that NumPy reads.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks import harness

NAME = "breadth"
TITLE = "What a gradient costs, in calls of the function"
ROUNDS = 9
GOAL = "gradient / value ≤ 5"


@dataclass(frozen=True)
class Piece:
    """A function of one array, written for any library ``np``, and its start."""

    name: str
    f: Callable[[Any, Any], Any]
    x: Any
    #: What computes the plain value, where ``f`` is not NumPy's own.
    plain: Callable[[Any, Any], Any] | None = None
    peers: tuple[str, ...] = ()


def pieces() -> Iterator[Piece]:
    """All rows; their data is drawn here."""
    rng = np.random.default_rng(0)
    long = rng.standard_normal(10**6)
    both = ("autograd", "jax")
    yield Piece("sort 1e6", lambda np, x: np.sort(x), long, peers=both)
    yield Piece("median 1e6", lambda np, x: np.median(x), long, peers=("jax",))
    yield Piece(
        "percentile 1e6, five",
        lambda np, x: np.percentile(x, FIVE),
        long,
        peers=("jax",),
    )
    yield Piece(
        "quantile (1000, 1000), axis 0",
        lambda np, x: np.quantile(x, 0.3, axis=0),
        long.reshape(1000, 1000),
        peers=("jax",),
    )
    yield Piece("cumsum 1e6", lambda np, x: np.cumsum(x), long, peers=both)
    near = 1 + 1e-4 * long
    yield Piece("cumprod 1e6", lambda np, x: np.cumprod(x), near, peers=("jax",))
    yield Piece(
        "prod (1000, 1000)", lambda np, x: np.prod(x, 1), near.reshape(1000, -1)
    )
    yield Piece("logaddexp 1e6", lambda np, x: np.logaddexp(x, 0.5), long, peers=both)
    yield Piece("max (1000, 1000)", lambda np, x: np.max(x, 1), long.reshape(1000, -1))
    yield Piece("var 1e6", lambda np, x: np.var(x), long, peers=both)
    yield Piece("diff 1e6", lambda np, x: np.diff(x), long, peers=both)
    yield Piece(
        "interp 1e6 in 1000",
        lambda np, x: np.interp(x, GRID, np.sin(GRID)),
        long,
        peers=("jax",),
    )
    yield Piece("gradient 1e6", lambda np, x: np.gradient(x), long, peers=("jax",))
    pick = rng.integers(0, 10**5, 10**6)
    yield Piece("x[index] 1e6", lambda np, x: x[pick], long[: 10**5], peers=both)
    yield Piece("pad, roll 1e6", lambda np, x: np.roll(np.pad(x, 9), 7), long)
    a, b = rng.standard_normal((2, 60, 60))
    c, d = rng.standard_normal((2, 60, 60))
    yield Piece(
        "einsum of five, 60",
        lambda np, x: np.einsum("ab,bc,cd,de,ef->af", x, a, b, c, d, optimize=True),
        rng.standard_normal((60, 60)),
        peers=("jax",),
    )
    yield Piece(
        "matmul 400",
        lambda np, x: x @ x,
        rng.standard_normal((400, 400)),
        peers=both,
    )
    yield Piece("fft 1e6", lambda np, x: np.real(np.fft.fft(x)), long, peers=both)
    yield Piece(
        "rfft2 (1000, 1000)",
        lambda np, x: np.real(np.fft.rfft2(x)),
        long.reshape(1000, 1000),
        peers=("jax",),
    )
    yield Piece(
        "convolve 1e5, 300", lambda np, x: np.convolve(x, long[:300]), long[:100000]
    )
    square = rng.standard_normal((200, 200))
    definite = square @ square.T + 200 * np.eye(200)
    yield Piece("svd 200", lambda np, x: np.linalg.svd(x)[0], square, peers=("jax",))
    yield Piece("eigh 200", lambda np, x: np.linalg.eigh(x)[1], definite, peers=both)
    yield Piece("qr 200", lambda np, x: np.linalg.qr(x)[0], square, peers=("jax",))
    yield Piece("inv 200", lambda np, x: np.linalg.inv(x), definite, peers=both)
    yield Piece("det 200", lambda np, x: np.linalg.det(x / 15), square, peers=both)
    yield Piece(
        "slogdet 200", lambda np, x: np.linalg.slogdet(x)[1], square, peers=both
    )
    yield Piece(
        "cholesky 200", lambda np, x: np.linalg.cholesky(x), definite, peers=both
    )
    yield Piece(
        "pinv 200", lambda np, x: np.linalg.pinv(x), square[:, :100], peers=both
    )
    yield Piece(
        "solve 1000 of 5", lambda np, x: np.linalg.solve(x, SIDES), rng.standard_normal(
            (1000, 5, 5)
        ) + 5 * np.eye(5), peers=both,
    )  # fmt: skip
    yield from _workbench(rng, long, definite)


def _workbench(rng: np.random.Generator, long: Any, definite: Any) -> Iterator[Piece]:
    """Rows whose functions are Workbench's, or SciPy's under its names."""
    import scipy.integrate
    import scipy.linalg
    import scipy.signal
    import scipy.sparse
    import scipy.special
    import scipy.stats

    import workbench as wb
    import workbench.scipy.integrate as integrate
    import workbench.scipy.linalg as linalg
    import workbench.scipy.signal as signal
    import workbench.scipy.stats as stats

    image, kernel = long[: 512 * 512].reshape(512, 512), rng.standard_normal((31, 31))
    yield Piece(
        "convolve 512², 31²",
        lambda np, x: signal.convolve(x, kernel, "same"),
        image,
        lambda np, x: scipy.signal.convolve(x, kernel, "same"),
    )
    again = rng.integers(0, 1000, 10**5)
    factors = 1 + 1e-4 * rng.standard_normal(10**5)

    def multiplied(np: Any, x: Any) -> Any:
        y = np.array(x)
        np.multiply.at(y, again, factors)
        return y

    yield Piece(
        "at[1e5 repeated].multiply",
        lambda np, x: wb.at(x)[again].multiply(factors),
        long[:1000],
        multiplied,
    )
    yield Piece(
        "at[1e5 repeated].multiply, by the factors",
        lambda np, v: wb.at(long[:1000])[again].multiply(v),
        factors,
        lambda np, v: multiplied(np, long[:1000]) + 0 * v[0],
    )
    systems = rng.standard_normal((1000, 5, 5)) + 5 * np.eye(5)
    each = wb.vmap(lambda a, b: np.linalg.solve(a, b))
    yield Piece(
        "vmap of solve, 1000 of 5",
        lambda np, x: each(x, SIDES[..., 0]),
        systems,
        lambda np, x: np.linalg.solve(x, SIDES)[..., 0],
    )
    yield Piece(
        "expm 100",
        lambda np, x: linalg.expm(x / 300),
        definite[:100, :100],
        lambda np, x: scipy.linalg.expm(x / 300),
    )
    yield Piece(
        "norm.logpdf 1e6",
        lambda np, x: stats.norm.logpdf(x, 0.5, 2.0),
        long,
        lambda np, x: scipy.stats.norm.logpdf(x, 0.5, 2.0),
    )
    yield Piece(
        "gamma.logpdf 1e6",
        lambda np, x: stats.gamma.logpdf(x, 2.5),
        np.abs(long) + 0.1,
        lambda np, x: scipy.stats.gamma.logpdf(x, 2.5),
    )
    yield Piece("erf 1e6", lambda np, x: scipy.special.erf(x), long)
    yield Piece(
        "gammaln 1e6", lambda np, x: scipy.special.gammaln(x), np.abs(long) + 0.1
    )
    yield Piece("logsumexp 1e6", lambda np, x: wb.logsumexp(x), long,
                lambda np, x: scipy.special.logsumexp(x))  # fmt: skip
    yield Piece(
        "gamma draws 1e5, by the shape",
        lambda np, x: wb.random.default_rng(3).standard_gamma(x),
        np.abs(long[: 10**5]) + 0.5,
        lambda np, x: np.random.default_rng(3).standard_gamma(x),
    )
    places = rng.integers(0, 10**5, (2, 10**6))
    pattern = scipy.sparse.coo_array((long, tuple(places)), (10**5, 10**5)).tocsr()
    vector = rng.standard_normal(10**5)
    yield Piece("sparse 1e5², 1e6 stored, by x", lambda np, x: pattern @ x, vector)

    def stored(np: Any, data: Any) -> Any:
        import workbench.scipy.sparse as sparse

        made = sparse.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)
        return made @ vector

    yield Piece(
        "sparse 1e5², 1e6 stored, by its values",
        stored,
        pattern.data.copy(),
        lambda np, data: (
            scipy.sparse.csr_array(
                (data, pattern.indices, pattern.indptr), pattern.shape
            )
            @ vector
        ),
    )
    times = np.linspace(0, 1, 20)
    rate = -definite[:20, :20] / 100
    yield Piece(
        "odeint of 20",
        lambda np, x: integrate.odeint(lambda y, t: np.sin(rate @ y), x, times),
        vector[:20],
        lambda np, x: scipy.integrate.odeint(lambda y, t: np.sin(rate @ y), x, times),
    )


FIVE = np.array([5.0, 25.0, 50.0, 75.0, 95.0])
GRID = np.linspace(-5, 5, 1000)
SIDES = np.random.default_rng(1).standard_normal((1000, 5, 1))


def ours(piece: Piece) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The plain value and our gradient."""
    import workbench as wb

    value = piece.plain or piece.f
    with contextlib.suppress(AttributeError):
        piece.x.flags.writeable = False  # as what nobody changes
    weight = np.cos(np.arange(np.size(value(np, piece.x)))).reshape(
        np.shape(value(np, piece.x))
    )
    gradient = wb.grad(lambda x: np.sum(weight * piece.f(np, x)))
    return lambda: value(np, piece.x), lambda: gradient(piece.x)


def peer(name: str, piece: Piece) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Another library's value and gradient."""
    shape = np.shape(piece.f(np, piece.x))
    weight = np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    if name == "autograd":
        import autograd.numpy as anp
        from autograd import grad

        made = grad(lambda x: anp.sum(weight * piece.f(anp, x)))
        return lambda: piece.f(np, piece.x), lambda: made(piece.x)
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    x = jnp.asarray(piece.x)
    slope = jax.grad(lambda x: jnp.sum(weight * piece.f(jnp, x)))
    return (
        lambda: jax.block_until_ready(piece.f(jnp, x)),
        lambda: jax.block_until_ready(slope(x)),
    )


def timed(pair: tuple[Callable[[], Any], Callable[[], Any]]) -> tuple[float, float]:
    """The best of value and gradient, taken in turns: others share the machine."""
    calls = [_once(call) for call in pair]
    found = [[call() for call in calls] for _ in range(ROUNDS)]
    value, gradient = (min(x) for x in zip(*found, strict=True))
    return value, gradient


def _once(call: Callable[[], Any]) -> Callable[[], float]:
    call()

    def run() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return run


def row(piece: Piece) -> dict[str, Any]:
    """One line of the table; peers that are missing, or lack it, are left out."""
    mine = ours(piece)
    value, gradient = timed(mine)
    found: dict[str, Any] = {
        "op": piece.name,
        "value_s": float(f"{value:.4g}"),
        "gradient_s": float(f"{gradient:.4g}"),
        "ratio": round(gradient / value, 2),
    }
    for name in piece.peers:
        try:
            theirs = peer(name, piece)
            answer = np.asarray(theirs[1]())
        except ImportError:
            continue
        if not np.allclose(answer, mine[1](), rtol=1e-6, atol=1e-7, equal_nan=True):
            found[f"{name}_differs"] = True
        plain, slope = timed(theirs)
        found[f"{name}_gradient_s"] = float(f"{slope:.4g}")
        found[f"{name}_ratio"] = round(slope / plain, 2)
    return found


def run(keep: bool) -> None:
    """Measure, print and keep."""
    print(TITLE)
    print(f"  goal: {GOAL}")
    print(f"  {'op':<42}{'value':>12}{'gradient':>12}{'ratio':>8}   peers' ratio (ms)")
    rows = []
    for piece in pieces():
        found = row(piece)
        rows.append(found)
        others = "  ".join(
            f"{name} {found[f'{name}_ratio']:.3g} "
            f"({found[f'{name}_gradient_s'] * 1e3:.3g})"
            + (" differs" if f"{name}_differs" in found else "")
            for name in ("autograd", "jax")
            if f"{name}_ratio" in found
        )
        print(
            f"  {piece.name:<42}{found['value_s'] * 1e3:>9.3g} ms"
            f"{found['gradient_s'] * 1e3:>9.3g} ms{found['ratio']:>8.3g}   {others}",
            flush=True,
        )
    if keep:
        harness.save(NAME, TITLE, {"goal": GOAL, "rows": rows})
