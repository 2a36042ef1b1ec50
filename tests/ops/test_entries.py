"""What `np.asarray` makes of a Tensor: one node for each operation, as without it.

Other people's libraries call it on what they are given, and compute with the array of
objects that comes back. The truth is the same program without it.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.testing
import pytest

import workbench as wb
from workbench.errors import GradientLostError, TraceError, WorkbenchError

#: NumPy as a function finds it whose names are not swapped: its own `np.asarray`.
np = SimpleNamespace(**vars(np))

Convert = Callable[[Any], Any]

X = np.array([0.5, 1.5, 2.0, 0.7, 1.1, 3.0])
W = np.arange(6.0)


def keep(x: Any) -> Any:
    return x


#: Programs, and how many nodes each may have more than without `np.asarray`.
PROGRAMS: dict[str, tuple[Callable[[Any, Convert], Any], int]] = {
    "ufuncs": (lambda x, a: np.sum(np.exp(-a(x))), 0),
    "two operands": (lambda x, a: np.sum(np.sin(a(x)) * a(x) + np.cos(a(x))), 0),
    "numbers": (lambda x, a: np.sum(1 / (2 ** a(x)) - a(x) ** 2 / 3), 0),
    "an array": (lambda x, a: np.sum(a(x) * W - W), 0),
    "three names": (lambda x, a: np.sum(np.hypot(a(x), np.arctan2(a(x), 2 * x))), 0),
    "twice": (lambda x, a: np.sum(a(a(x) * 2) ** 2), 0),
    "transposed": (lambda x, a: np.sum(a(x).reshape(2, 3).T ** 2 * x[:2]), 0),
    "slices": (lambda x, a: np.sum(a(x)[::2] ** 2 * a(x)[1:4] - a(x)[2::-1]), 0),
    "of a matrix": (
        lambda x, a: np.sum(a(x.reshape(2, 3))[:, 1:] ** 2 + a(x.reshape(2, 3))[0, 0]),
        1,
    ),
    "places": (lambda x, a: np.sum(a(x)[[0, 2, 2]] ** 2), 0),
    "a mask": (lambda x, a: np.sum(a(x)[W > 2] ** 2), 0),
    "a copy": (lambda x, a: np.sum(a(x).copy() ** 2), 0),
    "ravel": (lambda x, a: np.sum(a(x.reshape(2, 3)).ravel() ** 2), 0),
    "ascontiguousarray": (lambda x, a: np.sum(np.ascontiguousarray(a(x)) ** 2), 0),
    "atleast_2d": (lambda x, a: np.sum(np.atleast_2d(a(x)) ** 2), 0),
    "broadcast": (lambda x, a: np.sum(a(x)[:, None] * a(x), axis=1) @ W, 2),
    "concatenate": (lambda x, a: np.sum(np.concatenate([a(x), x, W]) ** 2), 4),
    "mean": (lambda x, a: np.mean(a(x)) ** 2, 1),
    "mean of rows": (lambda x, a: np.sum(np.mean(a(x).reshape(2, 3), axis=0) ** 2), 3),
    "var": (lambda x, a: np.var(a(x)) + np.std(a(x)), 13),
    "prod": (lambda x, a: np.prod(a(x)), 0),
    "cumsum": (lambda x, a: np.cumsum(a(x)) @ np.sin(x), 18),
    "cumsum of rows": (
        lambda x, a: np.sum(np.cumsum(a(x).reshape(2, 3), axis=1) ** 2),
        25,
    ),
    "dot": (lambda x, a: np.dot(a(x), W) + a(x) @ a(x), 2),
    "matmul": (lambda x, a: np.ones((4, 6)) @ a(x) @ np.arange(4.0), 9),
    "norm": (lambda x, a: np.linalg.norm(a(x)), 2),
    "a loop": (lambda x, a: sum(v * v for v in a(x)), 8),
    "a list": (lambda x, a: np.sum([np.exp(v) for v in a(x)]), 0),
    "two sums": (lambda x, a: np.sum(a(x) + W + 1.0 + W), 1),
    "a recurrence": (
        lambda x, a: reduce(lambda s, v: np.sin(s) * 0.5 + v, a(x)),
        20,
    ),
    "many steps": (
        lambda x, a: np.sum(reduce(lambda s, _: np.sin(s) * 0.9 + s, range(50), a(x))),
        2,
    ),
    "floor": (lambda x, a: np.sum(np.floor(a(x)) * a(x)), 0),
}
#: Those that look at values.
LOOKING: dict[str, tuple[Callable[[Any, Convert], Any], int]] = {
    "maximum": (lambda x, a: np.sum(np.maximum(a(x), 1.0) ** 2), 10),
    "where": (lambda x, a: np.sum(np.where(a(x) > 1, a(x), 0.0) ** 2), 9),
    "sort": (lambda x, a: np.sort(a(x)) @ np.sin(x), 2),
    "max": (lambda x, a: np.max(a(x)) * 2 + np.ptp(a(x)), 3),
    "median": (lambda x, a: np.median(a(x)), 2),
}


def count_nodes(f: Callable[[Any], Any], x: Any) -> int:
    return len(wb.trace(f)(x).nodes)


@pytest.mark.parametrize("name", [*PROGRAMS, *LOOKING])
def test_it_is_what_it_is_without(name: str) -> None:
    program, more = (PROGRAMS | LOOKING)[name]

    def f(x: Any) -> Any:
        return program(x, np.asarray)

    def plain(x: Any) -> Any:
        return program(x, keep)

    value, right = wb.value_and_grad(plain)(X)
    np.testing.assert_allclose(f(X), value, rtol=1e-12)
    np.testing.assert_allclose(wb.grad(f)(X), right, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(wb.jvp(f, (X,), (W,))[1], right @ W, rtol=1e-12)
    twice = wb.hvp(plain, (X,), (W,))
    np.testing.assert_allclose(wb.hvp(f, (X,), (W,)), twice, rtol=1e-12, atol=1e-12)
    assert count_nodes(f, X) <= count_nodes(plain, X) + more
    if name in PROGRAMS:
        batch = np.stack([X, X + 0.25])
        made = wb.vmap(wb.grad(f))(batch)
        np.testing.assert_allclose(made, wb.vmap(wb.grad(plain))(batch), rtol=1e-12)
        compiled = wb.compile(wb.grad(f))(X)
        np.testing.assert_allclose(compiled, right, rtol=1e-12, atol=1e-12)


#: Of these the length may be any.
GROWING = [
    "ufuncs",
    "twice",
    "a copy",
    "mean",
    "var",
    "prod",
    "cumsum",
    "norm",
    "a loop",
]


@pytest.mark.parametrize("name", [*GROWING, *LOOKING])
def test_the_number_of_nodes_does_not_depend_on_the_length(name: str) -> None:
    program = (PROGRAMS | LOOKING)[name][0]
    counts = {
        count_nodes(lambda x: program(x, np.asarray), np.resize(X, n) + np.arange(n))
        for n in (60, 120)
    }
    assert len(counts) == 1


#: Steps of random programs: of two values of one shape, a number and an axis.
STEPS: list[Callable[[Any, Any, float, int], Any]] = [
    lambda a, b, c, k: np.sin(a),
    lambda a, b, c, k: c - a,
    lambda a, b, c, k: a * b,
    lambda a, b, c, k: a + b,
    lambda a, b, c, k: a / (2 + b * b),
    lambda a, b, c, k: a.T,
    lambda a, b, c, k: a.reshape(-1),
    lambda a, b, c, k: a[::-1],
    lambda a, b, c, k: np.sum(a, axis=k) if a.ndim > 1 else -a,
    lambda a, b, c, k: np.cumsum(a, axis=k),
    lambda a, b, c, k: np.concatenate([a, a * c]),
    lambda a, b, c, k: np.repeat(a, 2, axis=0),
]


def random_program(rng: np.random.Generator) -> Callable[[Any, Convert], Any]:
    """Return a program of six steps, each on values made before."""
    steps = [
        (STEPS[rng.integers(len(STEPS))], rng.integers(1000), rng.uniform(0.5, 1.5))
        for _ in range(6)
    ]

    def run(x: Any, convert: Convert) -> Any:
        values = [convert(x)]
        for step, which, c in steps:
            a = values[which % len(values)]
            b = values[which // 7 % len(values)]
            b = b if b.shape == a.shape else a
            values.append(step(a, b, c, which % a.ndim))
        return sum(
            np.sum(np.sin(v) * np.cos(np.arange(v.size)).reshape(v.shape))
            for v in values[1:]
        )

    return run


def test_random_programs(rng: np.random.Generator) -> None:
    for _ in range(8):
        program = random_program(rng)
        x = rng.uniform(0.3, 2.0, rng.integers(1, 4, rng.integers(1, 4)))
        made = wb.grad(lambda x, p=program: p(x, np.asarray))(x)
        right = wb.grad(lambda x, p=program: p(x, keep))(x)
        np.testing.assert_allclose(made, right, rtol=1e-9, atol=1e-12)


def test_an_entry_alone_is_a_node_of_its_own() -> None:
    def f(x: Any) -> Any:
        a = np.asarray(x)
        return np.exp(a[1]) * a[0] if a[0] < 1 else a[2]

    np.testing.assert_allclose(
        wb.grad(f)(X), [np.exp(1.5), 0.5 * np.exp(1.5), 0, 0, 0, 0], rtol=1e-12
    )
    graph = wb.trace(f)(X)
    assert [x.op.name for x in graph.nodes].count("getitem") == 2


def test_what_is_guarded_is_not_computed_for_others() -> None:
    # log of the entry that is 0 would poison the gradient of the others.
    x = np.array([0.0, 1.0, 4.0])
    made = wb.grad(lambda x: np.sum([np.log(v) for v in np.asarray(x) if v > 0]))(x)
    np.testing.assert_allclose(made, [0.0, 1.0, 0.25])


def test_each_node_has_the_line_of_its_operation() -> None:
    def f(x: Any) -> Any:
        a = np.asarray(x)
        b = np.exp(a)
        return np.sum(b)

    lines = {x.op.name: x.site.text for x in wb.trace(f)(X).nodes if x.site}
    assert lines["exp"] == "b = np.exp(a)"
    assert lines["sum"] == "return np.sum(b)"


def test_a_sum_as_it_grows() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for v in np.asarray(x):
            total = total + v * v
            if total > 5:
                break
        return total

    np.testing.assert_allclose(wb.grad(f)(X), [1.0, 3.0, 4.0, 0, 0, 0])


def test_memory_that_changes() -> None:
    def early(x: Any) -> Any:
        y = x * 2
        b = -np.asarray(y)
        y += 1
        return np.sum(b * y)

    np.testing.assert_allclose(wb.grad(early)(X), -8 * X - 2)

    def late(x: Any) -> Any:
        y = x * 2
        a = np.asarray(y)
        y += 1
        return np.sum(-a)

    with pytest.raises(TraceError, match=r"np\.asarray.*after the array was written"):
        wb.trace(late)(X)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (np.isnan, r"np\.isnan meets an array of objects .*Leave np\.asarray\(x\) out"),
        (lambda a: np.logaddexp(a, 0.0), r"np\.logaddexp meets an array of objects"),
        (lambda a: np.interp(1.0, W, a), r"np\.interp meets an array of objects"),
        (lambda a: np.cov(a.reshape(2, 3)), r"np\.cov meets an array of objects"),
        (lambda a: np.percentile(a, 30), r"np\.percentile.*np\.array\(a, like=x\)"),
        (lambda a: a.astype(float), r"array of plain numbers.*Leave out the dtype"),
    ],
)
def test_what_numpy_does_not_let_us_see(f: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(WorkbenchError, match=said) as error:
        wb.grad(lambda x: np.sum(f(np.asarray(x))))(X)
    assert "(at test_entries.py" in str(error.value)
    assert isinstance(error.value, (TraceError, GradientLostError))


def test_nothing_is_left_for_the_collector() -> None:
    import gc

    f = wb.grad(lambda x: np.sum(np.exp(-np.asarray(x)) * np.asarray(x)))
    f(X)
    gc.collect()
    gc.disable()
    try:
        f(X)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_operators_of_all_kinds() -> None:
    for name in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv"):
        run = getattr(operator, name)
        for f in (lambda a, r=run: r(a, 1.5), lambda a, r=run: r(2.5, a)):
            made = wb.jacobian(lambda x, f=f: np.array(f(np.asarray(x)), like=x))(X)
            np.testing.assert_allclose(made, wb.jacobian(f)(X), rtol=1e-12)


def test_a_graph_that_returns_an_entry_is_pickled() -> None:
    """An entry is a node like others."""
    graph = wb.trace(lambda x: np.sum(np.asarray(x) ** 2))(np.arange(3.0))
    (y,) = pickle.loads(pickle.dumps(graph)).run([np.array([1.0, 2.0, 3.0])])
    assert y == 14


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.sum(np.asarray(z).imag ** 2),
        lambda z: np.sum(np.abs(np.real(np.asarray(z)))),
        lambda z: np.sum(np.array([z, 2 * z]).imag),
    ],
)
def test_complex_entries_are_refused(f: Callable[[Any], Any]) -> None:
    """To NumPy the imaginary part of a Python object is 0, and nobody is asked."""
    with pytest.raises(
        TraceError, match=r"\.imag is 0.*np\.asarray\(x\), or.*np\.stack"
    ):
        wb.grad(lambda x: f(x * (1 + 2j)))(X)
    # Numbers of a list become no array before they meet an op.
    g = lambda x: np.sum(np.abs(np.array([1j * x[0], x[1] + 2j])) ** 2)  # noqa: E731
    np.testing.assert_allclose(wb.grad(g)(X), [1.0, 3.0, 0, 0, 0, 0])
