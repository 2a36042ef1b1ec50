"""C7: how a function is pushed forward, and held against the truth.

Every function is pushed three ways: eagerly, as a graph of symbols (`Rop`), and
against the truth, which is a complex step where the function is analytic and runs on
complex arrays, and differences of fourth order elsewhere. The same tangent must be
adjoint to reverse mode: <u, J v> = <Jᵀ u, v>.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import numpy as np

import workbench as wb
from workbench.core import tree
from workbench.gradient import Rop

Array = Any

Rng = np.random.Generator


def flat(made: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(y) for y in tree.flatten(made)[0]]


def by_complex_step(f: Any, args: list[Array], t: list[Array]) -> list[Array]:
    """The tangents of an analytic function, to the last digit."""
    h = 1e-20
    moved = f(*[x + 1j * h * v for x, v in zip(args, t, strict=True)])
    return [y.imag / h for y in flat(moved)]


def by_differences(f: Any, args: list[Array], t: list[Array]) -> list[Array]:
    """The tangents of any smooth function, to about ten digits."""
    h = 5e-4

    def at_step(s: float) -> list[Array]:
        return flat(f(*[x + s * h * v for x, v in zip(args, t, strict=True)]))

    return [
        (8 * (b - c) - (a - d)) / (12 * h)
        for a, b, c, d in zip(
            at_step(2), at_step(1), at_step(-1), at_step(-2), strict=True
        )
    ]


def pushes(
    f: Callable[..., Any],
    *args: Any,
    rng: Rng,
    step: str = "complex",
    symbols: bool = True,
    varies: bool = True,
) -> None:
    """Check the forward mode of a function at some arrays."""
    arrays = [np.asarray(x, float) for x in args]
    t = [rng.normal(size=x.shape) for x in arrays]
    value, pushed = wb.jvp(f, tuple(arrays), tuple(t))
    made = flat(pushed)
    if step == "complex":
        truth, rtol = by_complex_step(f, arrays, t), 1e-10
    else:
        truth, rtol = by_differences(f, arrays, t), 1e-7
    size = max(float(np.max(np.abs(y), initial=0)) for y in truth)
    for ours, theirs in zip(made, truth, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * (size + 1e-3))
    assert not varies or size > 0, "nothing moves: the test shows nothing"
    if symbols:
        inputs = [wb.tensor(f"x{i}", shape=x.shape) for i, x in enumerate(arrays)]
        expression = tree.flatten(f(*inputs))[0]
        moved = Rop(expression, inputs, t, disconnected_outputs="ignore")
        fn = wb.function(inputs, moved, on_unused_input="ignore")
        for ours, theirs in zip(fn(*arrays), made, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * (size + 1))
    u = [rng.normal(size=y.shape) for y in flat(value)]
    structure = tree.flatten(value)[1]
    back = wb.vjp(f, *arrays)[1](structure(u))
    left = sum(float(np.vdot(a, b).real) for a, b in zip(u, made, strict=True))
    right = sum(float(np.vdot(a, b)) for a, b in zip(back, t, strict=True))
    scale = sum(float(np.abs(a) @ np.abs(b)) for a, b in zip(
        map(np.ravel, u), map(np.ravel, made), strict=True))  # fmt: skip
    assert abs(left - right) <= 1e-9 * (scale + 1e-6)


def axes_of(rank: int) -> list[Any]:
    """None, each axis from both ends, and every set of axes."""
    single = [*range(rank), *range(-rank, 0)]
    sets = chain.from_iterable(combinations(range(rank), n) for n in range(2, rank + 1))
    return [None, *single, *sets]


def counted(shape: tuple[int, ...], axis: Any) -> int:
    """How many entries a reduction along some axes takes together."""
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    return int(np.prod([shape[a] for a in axes]))


RANKED = [(3,), (2, 3), (2, 3, 2), (2, 1, 3, 2)]


def apart(rng: Rng, *shape: int) -> Array:
    """Entries further apart from each other than any step."""
    size = int(np.prod(shape))
    return (rng.permutation(size) * 0.37 + rng.uniform(0, 0.1, size) - 1.3).reshape(
        shape
    )


def spread(rng: Rng, *shape: int) -> Array:
    """Matrices with singular values apart, and far from 0."""
    a = np.zeros(shape)
    n = np.arange(min(shape))
    a[n, n] = 1 + 2 * n
    return a + 0.1 * rng.uniform(-1, 1, shape)


def regular(rng: Rng, *shape: int) -> Array:
    """Matrices far from singular, with eigenvalues apart."""
    return rng.uniform(-0.3, 0.3, shape) + np.diag(1.0 + np.arange(shape[-1]))


def well(rng: Rng, n: int) -> Array:
    return 2 * np.eye(n) + rng.uniform(-1, 1, (n, n)) / n


def definite(rng: Rng, n: int = 3) -> Array:
    a = regular(rng, n, n)
    return a @ a.T + np.diag(np.arange(n) + 1.0)


def symmetric(a: Any) -> Any:
    return (a + np.swapaxes(a, -1, -2)) / 2
