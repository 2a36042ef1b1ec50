"""Row D3: a derivative as plain NumPy source that runs on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

x = wb.scalar("x")


def run(f: wb.Function, *arrays: Any) -> Any:
    """What the source computes in an empty namespace."""
    assert f.constants == {}
    namespace: dict[str, Any] = {}
    exec(f.source, namespace)
    return namespace[f.name or "function"](*arrays)


def body(f: wb.Function) -> list[str]:
    """The lines of the function, which stands below its helpers."""
    last = f.source.split("\n\n\n")[-1].splitlines()
    return [line.strip() for line in last[1:]]


def test_D3_the_derivative_of_the_seeds_polynomial() -> None:
    """Row D3, on the seed's x*x + x - 2, whose derivative is 2*x + 1."""
    y = x * x + x - 2
    f = wb.function([x], wb.grad(y, x), name="derivative")
    assert f.source == (
        "import numpy as np\n\n\ndef derivative(x):\n    return 2 * x + 1.0"
    )
    for at in (-2.0, 0.0, 3.5):
        assert run(f, at) == f(at) == 2 * at + 1


def test_D3_forward_and_backward_part_are_told_apart() -> None:
    A, b, v = wb.matrix("A"), wb.vector("b"), wb.vector("v")
    h = np.tanh(A @ v + b)
    h.name = "h"
    loss = np.mean(h**2)
    loss.name = "loss"
    f = wb.function([A, b, v], {"loss": loss, "grads": wb.grad(loss, [A, b])}, name="f")
    lines = body(f)
    assert lines[:3] == [
        "# Forward",
        "h = np.tanh(A @ v + b)",
        "loss = np.mean(h ** 2)",
    ]
    assert "# Backward" in lines
    assert lines[-1] == "return {'loss': loss, 'grads': [dloss_dA, dloss_db]}"
    rng = np.random.default_rng(0)
    args = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)
    made, expected = run(f, *args), f(*args)
    assert made["loss"] == expected["loss"]
    for g, true in zip(made["grads"], expected["grads"], strict=True):
        np.testing.assert_array_equal(g, true)
    # Against differences: a step of 1e-6 in one entry of A.
    moved = args[0].copy()
    moved[1, 2] += 1e-6
    slope = (run(f, moved, *args[1:])["loss"] - made["loss"]) / 1e-6
    np.testing.assert_allclose(made["grads"][0][1, 2], slope, atol=1e-5)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (
        lambda v: -np.log((np.exp(v - np.max(v)) / np.sum(np.exp(v - np.max(v))))[1]),
        ([0.5, -1.0, 2.0],),
    ),
    "where": (lambda v: np.sum(np.where(v > 0, np.sqrt(v), v**3)), ([4.0, -1.0],)),
    "index": (lambda v: np.sum(v[1:] * v[:-1]) + v[0] ** 2, ([1.0, 2.0, 3.0],)),
    "stats": (lambda v: np.var(v) + np.std(v) * np.max(v), ([1.0, 2.0, 4.0],)),
    "linear": (
        lambda A, v: np.linalg.solve(A, v) @ v,
        ([[2.0, 1.0], [0.0, 3.0]], [1.0, 2.0]),
    ),
    "constants": (
        lambda v: np.sum((np.arange(12.0).reshape(4, 3) @ v * np.float32(2)) ** 3),
        ([1.0, 2.0, 3.0],),
    ),
    "sorted": (lambda v: np.sort(v)[0] * np.cumsum(v)[-1], ([3.0, 1.0, 2.0],)),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_D3_the_source_computes_the_same_numbers(
    program: str, known: bool, order: int
) -> None:
    """Value, gradient, and gradient of the gradient, of known and unknown lengths."""
    f, given = PROGRAMS[program]
    arrays = [np.array(a) for a in given]
    symbols = [
        wb.tensor(f"a{i}", shape=a.shape if known else (None,) * a.ndim)
        for i, a in enumerate(arrays)
    ]
    y = f(*symbols)
    for _ in range(order):
        y = np.sum(wb.grad(y, symbols[0]) ** 2)
    made = wb.function(symbols, y, name="made", on_unused_input="ignore")
    np.testing.assert_array_equal(run(made, *arrays), made(*arrays))


def test_shared_values_are_arguments_with_what_they_hold() -> None:
    w, v = wb.shared(np.array([1.0, 2.0]), "w"), wb.vector("v", shape=2)
    f = wb.function([v], v @ w, updates={w: w + v}, name="step")
    assert "def step(v, w=np.array([1.0, 2.0])):" in f.source
    assert '"""Returns the outputs, and the new values of w."""' in f.source
    at = np.array([3.0, 5.0])
    output, (new,) = run(f, at)
    assert output == f(at) == 13.0
    np.testing.assert_array_equal(new, w.get_value())
    assert "w=np.array([4.0, 7.0])" in f.source  # what it holds now
    assert run(f, at, np.zeros(2))[0] == 0.0


def test_nests_that_are_no_code_are_tuples() -> None:
    from dataclasses import dataclass

    @dataclass
    class Pair:
        a: Any
        b: Any

    f = wb.function([x], Pair(x + 1, x * 2))
    assert body(f) == ["return x + 1, x * 2"]
    assert run(f, 1.0) == (2.0, 2.0)
    assert body(wb.function([x], (x,))) == ["return (x,)"]
    assert body(wb.function([x], {"a": [x, (x + 1, x)]})) == [
        "return {'a': [x, (x + 1, x)]}"
    ]
    assert body(wb.function([x], [x, None])) == ["return [x, None]"]


@pytest.mark.parametrize("name", ["class", "np", "function", "two words", "2nd", "f"])
def test_any_name_is_a_name(name: str) -> None:
    f = wb.function([x], np.sin(x) + 1, name=name)
    namespace: dict[str, Any] = {}
    exec(f.source, namespace)
    made = next(
        value
        for key, value in namespace.items()
        if callable(value) and key not in ("__builtins__", "np")
    )
    assert made(0.5) == np.sin(0.5) + 1


def test_symbols_of_any_name(rng: np.random.Generator) -> None:
    names = ["np", "f", "lambda", "x", "x", "a b", "", "sum", "1"]
    symbols = [wb.scalar(name or None) for name in names]
    total: Any = 0.0
    for i, symbol in enumerate(symbols):
        total = total + symbol * (i + 1)
    f = wb.function(symbols, np.exp(total), name="f")
    values = rng.normal(size=len(names)) / 10
    np.testing.assert_allclose(run(f, *values), np.exp(values @ np.arange(1, 10)))


def test_large_arrays_are_handed_over() -> None:
    large = np.linspace(0, 1, 5000)
    v = wb.vector("v", shape=5000)
    f = wb.function([v], large @ v, name="f")
    assert list(f.constants) == ["c"]
    namespace = dict(f.constants)
    exec(f.source, namespace)
    np.testing.assert_allclose(namespace["f"](np.ones(5000)), 2500.0)


@pytest.mark.long
def test_a_long_program_has_a_source() -> None:
    y = x
    for _ in range(5_000):
        y = np.sin(y) + x
    f = wb.function([x], [y, wb.grad(y, x)])
    made = run(f, 0.5)
    assert made == f(0.5)
