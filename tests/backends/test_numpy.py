"""The backend that defines what a graph means: values, slots, text."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.texts import run_text
from workbench.backends import Executable
from workbench.backends.numpy import compile
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.schedule import Schedule
from workbench.core.tensor import apply
from workbench.errors import ShapeError, UsageError
from workbench.symbolic.function import BACKENDS

W = np.arange(12.0).reshape(3, 4) / 10


def network(x: Any, b: Any) -> Any:
    h = np.tanh(W @ x + b)
    p = np.exp(h - np.max(h))
    p = p / np.sum(p, keepdims=True)
    return {"p": p, "loss": -np.log(p[0]), "pieces": np.concatenate([h, x[1:]])}


def test_it_computes_what_was_traced_on_other_values(
    rng: np.random.Generator,
) -> None:
    graph = wb.trace(network)(np.zeros(4), np.zeros(3))
    function = compile(graph)
    for _ in range(3):
        x, b = rng.standard_normal(4), rng.standard_normal(3)
        expected = network(x, b)
        made = function(x, b)
        # Dicts are flattened in the order of their keys.
        for got, key in zip(made, sorted(expected), strict=True):
            assert type(got) is type(expected[key])
            np.testing.assert_array_equal(got, expected[key])


def test_the_text_runs_on_its_own(rng: np.random.Generator) -> None:
    function = compile(wb.trace(network)(np.zeros(4), np.zeros(3)))
    x, b = rng.standard_normal(4), rng.standard_normal(3)
    for got, expected in zip(run_text(function, x, b), function(x, b), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert "workbench" not in function.source
    assert max(map(len, function.source.splitlines())) <= 88


def test_the_text_is_what_one_would_write() -> None:
    def f(x: Any, y: Any) -> Any:
        r = (x - y) ** 2
        return np.sum(r * np.array([1.0, 2.0])) / -(2.0 ** x[0]), r

    function = compile(wb.trace(f)(np.ones(2), np.ones(2)))
    assert (
        function.source
        == """\
import numpy as np


def function(x, y):
    t = (x - y) ** 2
    t2 = np.sum(t * np.array([1.0, 2.0])) / -2.0 ** x[0]
    return t2, t"""
    )


def test_names_of_the_user_stay_and_never_collide() -> None:
    def f(params: Any) -> Any:
        a, b = params["lambda"], params["np"]
        return np.sin(a * b), np.sin(b)

    graph = wb.trace(f)({"lambda": np.ones(2), "np": np.ones(2)})
    graph.outputs[0].name = "np"
    graph.outputs[1].name = "params[0]"
    function = compile(graph)
    made = run_text(function, np.ones(2), np.full(2, 2.0))
    np.testing.assert_array_equal(made[0], np.sin(np.full(2, 2.0)))
    np.testing.assert_array_equal(made[1], np.sin(np.full(2, 2.0)))
    assert "params_0" in function.source


def test_large_constants_are_listed() -> None:
    large = np.linspace(0, 1, 3000).reshape(3, 1000)
    function = compile(wb.trace(lambda x: large @ x)(np.ones(1000)))
    assert "#   c: float64[3, 1000]" in function.source
    assert function.constants["c"] is large


@pytest.mark.parametrize(
    "held",
    [
        W,
        np.arange(60, dtype=np.int16).reshape(3, 20),
        np.linspace(-1, 1, 40, dtype=np.float32),
        np.array([np.inf, -np.inf, np.nan, -0.0, 1e-300, 1, 2, 3]),
        np.arange(12) * (1 - 2j),
        np.zeros((0, 3)),
        np.arange(9) > 4,
    ],
)
def test_constants_of_moderate_size_stand_above(held: Any) -> None:
    """The text alone makes the very numbers, in their dtype."""
    function = compile(wb.trace(lambda x: held * x)(1.0))
    assert function.constants == {}
    assert all(len(line) <= 88 for line in function.source.splitlines())
    (made,), expected = run_text(function, 2.0), held * 2.0
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(np.signbit(made.real), np.signbit(expected.real))


def test_numbers_of_numpy_are_plain_where_that_is_equal() -> None:
    def lines(f: Any, x: Any) -> str:
        return compile(wb.trace(f)(x)).source.splitlines()[-1].strip()

    half = np.float32(0.5)
    assert lines(lambda x: half * x, np.ones(2, np.float32)) == "return 0.5 * x"
    assert lines(lambda x: half * x, np.ones(2)) == "return np.float32(0.5) * x"
    assert lines(lambda x: np.float64(2) - x, np.ones(2)) == "return 2.0 - x"
    assert "float64" in lines(lambda x: np.float64(2) * x, np.ones(2, np.float32))
    assert lines(lambda x: x**1 + x, np.ones(2)) == "return x + x"
    assert lines(lambda x: np.full(3, 0.5) * x, np.ones(3)) == "return 0.5 * x"
    assert lines(lambda x: np.full(3, 0.5) * x, np.ones((2, 3))) == "return 0.5 * x"
    assert "np.array" in lines(lambda x: np.full(3, 0.5) * x, np.ones(1))
    assert "np.array" in lines(lambda x: np.array([0.0, -0.0]) + x, np.ones(2))


def test_a_gradient_as_text(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, np.sqrt(x) * x, x**3))

    x = np.array([4.0, -1.0, 0.0])
    with np.errstate(all="ignore"):
        function = compile(wb.trace(wb.grad(f))(x))
        (expected,) = function(x)
        np.testing.assert_array_equal(run_text(function, x)[0], expected)
    np.testing.assert_allclose(expected, [3.0, 3.0, 0.0])
    assert "def mul0(a, b):" in function.source


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "complex128"])
def test_small_constants_keep_their_dtype(name: str) -> None:
    c = np.array([0, 1, 1], name)
    x = np.ones(3, np.float32)
    function = compile(wb.trace(lambda x: x * c)(x))
    assert function.constants == {}
    (got,) = run_text(function, x)
    assert got.dtype == (x * c).dtype


def test_constants_that_are_no_numbers() -> None:
    c = np.array([np.nan, np.inf, -np.inf])
    function = compile(wb.trace(lambda x: x * c + float("nan"))(np.ones(3)))
    run_text(function, np.ones(3))


def test_python_numbers_stay_weak() -> None:
    function = compile(wb.trace(lambda x: x * 2.5 + 1)(wb.Spec((2,), np.float32)))
    (y,) = function(np.ones(2, np.float32))
    assert y.dtype == np.float32
    assert run_text(function, np.ones(2, np.float32))[0].dtype == np.float32


def test_slots_are_reused() -> None:
    def chain(x: Any) -> Any:
        for _ in range(1000):
            x = np.sin(x) + 1.0
        return x

    graph = wb.trace(chain)(np.zeros(2))
    plan = Schedule(graph.leaves, graph.outputs, whole=True)
    assert len(plan.steps) == 2000
    assert plan.size <= 3


def test_dead_values_are_dropped_while_it_runs() -> None:
    """No more than a fixed number of intermediate arrays are alive at a time."""
    alive: set[int] = set()
    peak = 0

    class Array(np.ndarray):
        pass

    def watched(x: Any) -> Any:
        nonlocal peak
        y = (np.asarray(x) + 1).view(Array)
        alive.add(id(y))
        weakref.finalize(y, alive.discard, id(y))
        peak = max(peak, len(alive))
        return y

    op = declare("watched_for_backend_test")
    op.compute = watched

    def f(x: Any) -> Any:
        keep = apply(op, (x,))
        for _ in range(50):
            x = apply(op, (x,))
        return x + keep

    function = compile(wb.trace(f)(wb.Spec((3,), np.dtype(float))))
    gc.collect()
    alive.clear()
    peak = 0
    (y,) = function(np.zeros(3))
    np.testing.assert_array_equal(y, np.full(3, 51.0))
    assert peak <= 3


def test_a_hundred_thousand_nodes() -> None:
    """Linear, no recursion, no giant frame; the text as well."""

    def chain(x: Any) -> Any:
        for _ in range(50_000):
            x = x * 0.9999 + 0.0001
        return x

    function = compile(wb.trace(chain)(np.zeros(2)))
    assert len(function.schedule.steps) == 100_000
    (y,) = function(np.zeros(2))
    np.testing.assert_allclose(y, 1 - 0.9999**50_000)
    lines = function.source.splitlines()
    assert 10_000 < len(lines) < 100_010
    assert max(map(len, lines)) <= 88


def test_inputs_that_nothing_reads_and_outputs_that_are_inputs() -> None:
    graph = wb.trace(lambda x, y: (x, 3.0, x * 2))(np.ones(2), np.ones(2))
    function = compile(graph)
    x = np.arange(2.0)
    a, b, c = function(x, None)
    assert a is x
    assert b == 3.0
    np.testing.assert_array_equal(c, 2 * x)
    np.testing.assert_array_equal(run_text(function, x, None)[2], 2 * x)


def test_a_graph_may_start_in_the_middle() -> None:
    graph = wb.trace(lambda x: np.exp(np.sin(x)) + x)(np.ones(2))
    sin = next(node for node in graph.nodes if node.op.name == "sin")
    function = compile(Graph([sin, *graph.inputs], graph.outputs))
    (y,) = function(np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(y, np.full(2, 2.0))


def test_values_from_outside_are_constants() -> None:
    outer = wb.trace(np.exp)(np.ones(2)).outputs[0]
    graph = wb.trace(lambda x: x * outer)(np.ones(2))
    (y,) = compile(graph)(np.full(2, 2.0))
    np.testing.assert_array_equal(y, 2 * np.exp(np.ones(2)))


def test_a_leaf_without_a_value_that_is_no_input() -> None:
    graph = wb.trace(lambda x, y: x * y)(wb.Spec((2,), float), wb.Spec((2,), float))
    with pytest.raises(UsageError) as caught:
        compile(Graph(graph.inputs[:1], graph.outputs))
    text = str(caught.value)
    assert "'y'" in text
    assert "inputs: x" in text
    assert "Make it an input" in text


def test_a_wrong_number_of_arrays() -> None:
    function = compile(wb.trace(lambda x, y: x * y)(1.0, 2.0))
    with pytest.raises(UsageError, match=r"2 arrays \(x, y\), not 1"):
        function(1.0)


def test_shapes_that_do_not_fit_name_the_line() -> None:
    def f(x: Any, y: Any) -> Any:
        z = np.sin(x)
        return z + y  # shapes meet here

    function = compile(wb.trace(f)(np.ones(2), np.ones(2)))
    with pytest.raises(ShapeError) as caught:
        function(np.ones(2), np.ones(3))
    text = str(caught.value)
    assert "add(float64[2], float64[3])" in text
    assert "return z + y  # shapes meet here" in text


def test_a_backend_needs_what_its_protocol_names_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Least:
        """What `Executable` names, taken from NumPy's."""

        def __init__(self, graph: Graph, own: bool = False) -> None:
            made = BACKENDS["numpy"](graph, own)
            for name in vars(Executable):
                if not name.startswith("_"):
                    setattr(self, name, getattr(made, name))

    monkeypatch.setitem(BACKENDS, "least", Least)
    x = wb.vector("x", shape=2)
    f = wb.function([x], np.sum(np.sin(x) * x), backend="least")
    at = np.array([0.5, 1.0])
    assert f(at) == np.sum(np.sin(at) * at)
    assert "np.sin" in f.source
    assert f.wait()
    assert f.is_ready()
    assert f.profile(at).backend == "numpy"
    f.release()
    compiled = wb.compile(lambda x: np.sin(x) * x, backend="least")
    np.testing.assert_array_equal(compiled(at), np.sin(at) * at)
