"""ONNX models by value and gradient: loops, scopes, weights, layers."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.onnx_programs import HAS_ONNX, NEEDS_ONNX, body, model, node, value
from workbench import models
from workbench.errors import ModelError
from workbench.models import onnx as importer

if HAS_ONNX:
    import onnx
    from onnx import helper

pytestmark = NEEDS_ONNX

X = np.array([0.3, -0.7, 1.1])


def names_of(graph: wb.Graph) -> list[str]:
    return [x.op.name for x in graph.nodes if x.op is not None]


def test_weights_are_the_floats_among_the_initializers() -> None:
    f, weights = models.from_onnx(
        model(
            node("Gemm", "x W b", "h", transB=1),
            node("Reshape", "h shape", "z"),
            node("Tanh", "z", "y"),
            W=np.arange(6.0).reshape(2, 3) / 7,
            b=np.array([0.1, -0.2]),
            shape=np.array([-1]),
        )
    )
    assert sorted(weights) == ["W", "b"]
    x = X[None]
    want = np.tanh(x @ weights["W"].T + weights["b"]).ravel()
    np.testing.assert_allclose(f(weights, x)[0], want, rtol=1e-15)
    slopes = wb.grad(lambda w: np.sum(f(w, x)[0] ** 2))(weights)
    inner = 2 * want * (1 - want**2)
    np.testing.assert_allclose(slopes["b"], inner, rtol=1e-14)
    np.testing.assert_allclose(slopes["W"], np.outer(inner, X), rtol=1e-14)


def test_constants_of_several_floats_are_weights_too() -> None:
    """Some exporters keep what was trained in nodes; a number alone is no weight."""
    W, c = np.arange(9.0).reshape(3, 3) / 7, np.array(2.0)
    f, weights = models.from_onnx(
        model(
            node("Constant", "", "W", value=onnx.numpy_helper.from_array(W)),
            node("Constant", "", "c", value=onnx.numpy_helper.from_array(c)),
            node("MatMul", "x W", "h"),
            node("Pow", "h c", "y"),
        )
    )
    assert sorted(weights) == ["W"]
    slope = wb.grad(lambda w: np.sum(f(w, X)[0]))(weights)["W"]
    np.testing.assert_allclose(slope, 2 * np.outer(X, X @ W), rtol=1e-14)


def test_scales_are_no_weights() -> None:
    """They decide how long a result is, and a compiled function has to know that."""
    scales = onnx.numpy_helper.from_array(np.array([1, 2], np.float32))
    f, weights = models.from_onnx(
        model(
            node("Constant", "", "s", value=scales),
            node("Constant", "", "w", value=onnx.numpy_helper.from_array(X)),
            node("Mul", "x w", "h"),
            node("Resize", "h . s", "y", mode="nearest"),
        )
    )
    assert sorted(weights) == ["w"]
    (found,) = wb.compile(f)(weights, X[None])
    np.testing.assert_allclose(found, [np.repeat(X * X, 2)])


def test_a_constant_does_not_stand_in_for_an_input() -> None:
    again = node("Constant", "", "x", value=onnx.numpy_helper.from_array(X))
    with pytest.raises(ModelError, match="a constant has the name 'x' of an input"):
        models.from_onnx(model(again, node("Neg", "x", "y")))


@pytest.mark.parametrize(("inputs", "outputs"), [("x", "c"), ("", "c d"), ("", "")])
def test_a_constant_has_one_output_and_no_input(inputs: str, outputs: str) -> None:
    shared = onnx.numpy_helper.from_array(X)
    bad = node("Constant", inputs, outputs, value=shared)
    with pytest.raises(ModelError, match="has inputs, or not one output"):
        models.from_onnx(model(bad, node("Neg", "x", "y")))


def test_nodes_stand_in_the_scopes_of_their_names() -> None:
    f, weights = models.from_onnx(
        model(
            node("Tanh", "x", "h", name="/encoder/layer.0/Tanh"),
            node("Exp", "h", "y", name="Exp_3"),
        )
    )
    graph = wb.trace(lambda x: f(weights, x)[0])(X)
    scopes = {x.op.name: x.scope for x in graph.nodes if x.op is not None}
    assert scopes["tanh"] == "encoder/layer.0"
    assert scopes["exp"] is None
    assert "test_onnx_import.py" in str(graph.nodes[0].site)


def counted_loop(steps: int, condition: str) -> Any:
    """Return a model of ``s ← tanh(s) · 1.5`` with a stack of all states."""
    keep = (
        node("Identity", "go", "on")
        if condition == "kept"
        else node("Constant", "", "on", value=helper.make_tensor("t", 9, [], [True]))
    )
    inner = body(
        [keep, node("Tanh", "s", "t"), node("Mul", "t c", "s2")],
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("s", [3])],
        [value("on", [], "BOOL"), value("s2", [3]), value("t", [3])],
    )
    return model(
        node("Loop", "n . x", "last rows", body=inner),
        outputs="last rows",
        n=np.array(steps),
        c=np.array(1.5),
    )


@pytest.mark.parametrize("condition", ["kept", "constant"])
def test_a_loop_of_known_length_stays_a_loop(condition: str) -> None:
    f, weights = models.from_onnx(counted_loop(50, condition))
    graph = wb.trace(lambda x: f(weights, x))(X)
    assert "scan" in names_of(graph)
    assert len(graph.nodes) < 20

    def direct(x: Any) -> Any:
        rows = []
        for _ in range(50):
            rows.append(np.tanh(x))
            x = rows[-1] * 1.5
        return x, np.stack(rows)

    last, rows = f(weights, X)
    np.testing.assert_allclose(last, direct(X)[0], rtol=1e-13)
    np.testing.assert_allclose(rows, direct(X)[1], rtol=1e-13)
    slope = wb.grad(lambda x: np.sum(f(weights, x)[1]))(X)
    want = np.sum(direct(X + 1e-30j)[1].imag, 0) / 1e-30  # entry by entry
    np.testing.assert_allclose(slope, want, rtol=1e-12)


def test_a_loop_of_no_steps_returns_its_state() -> None:
    f, weights = models.from_onnx(counted_loop(0, "kept"))
    last, rows = f(weights, X)
    np.testing.assert_array_equal(last, X)
    assert rows.shape[0] == 0


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_without_a_step_the_body_tells_what_the_rows_are(op: str) -> None:
    nodes = [node("Add", "s s", "s2"), node("Cast", "s2", "o", to=7)]
    ends = [value("s2", [3]), value("o", [3, None], "INT64")]
    if op == "Loop":
        starts = [value("i", [], "INT64"), value("go", [], "BOOL"), value("s", [3])]
        nodes.append(node("Identity", "go", "on"))
        inner = body(nodes, starts, [value("on", [], "BOOL"), *ends])
        made, first = node("Loop", "n . x", "last rows", body=inner), np.array(0)
    else:
        inner = body(nodes, [value("s", [3]), value("e", [3])], ends)
        made = node("Scan", "x n", "last rows", body=inner, num_scan_inputs=1)
        first = np.zeros((0, 3))
    f, weights = models.from_onnx(model(made, inputs="x n", outputs="last rows"))
    last, rows = f(weights, X, first)
    np.testing.assert_array_equal(last, X)
    assert (rows.shape, rows.dtype) == ((0, 3, 0), np.int64)
    slope = wb.grad(lambda x: np.sum(f(weights, x, first)[0] ** 2))(X)
    np.testing.assert_allclose(slope, 2 * X)


def test_functions_of_one_name_are_told_apart_by_overload() -> None:
    functions, calls = [], []
    for op in ("Neg", "Abs"):
        versions = [helper.make_opsetid("", 20)]
        made = helper.make_function(
            "own", "F", ["x"], ["y"], [node(op, "x", "y")], versions
        )
        call = node("F", "x", op, domain="own")
        made.overload = call.overload = op.lower()
        functions.append(made)
        calls.append(call)
    f, weights = models.from_onnx(model(*calls, outputs="Neg Abs", functions=functions))
    negative, size = f(weights, X)
    np.testing.assert_array_equal(negative, -X)
    np.testing.assert_array_equal(size, np.abs(X))
    slope = wb.grad(lambda x: np.sum(f(weights, x)[1]))(X)
    np.testing.assert_array_equal(slope, np.sign(X))


def test_a_loop_that_ends_by_values_follows_them() -> None:
    inner = body(
        [
            node("Mul", "s s", "s2"),
            node("ReduceSum", "s2", "total", keepdims=0),
            node("Greater", "total limit", "on"),
        ],
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("s", [3])],
        [value("on", [], "BOOL"), value("s2", [3])],
    )
    f, weights = models.from_onnx(
        model(node("Loop", ". go x", "y", body=inner), go=np.array(True), limit=0.3)
    )
    x = np.array([0.9, 0.8, 0.5])
    steps = 0
    want = x
    while True:
        want, steps = want**2, steps + 1
        if np.sum(want) <= 0.3:
            break
    np.testing.assert_allclose(f(weights, x)[0], want)
    slope = wb.grad(lambda x: np.sum(f(weights, x)[0]))(x)
    power = 2**steps
    np.testing.assert_allclose(slope, power * x ** (power - 1), rtol=1e-13)


def test_a_state_that_grows_is_written_out() -> None:
    inner = body(
        [node("Identity", "go", "on"), node("Concat", "s x", "s2", axis=0)],
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("s", [None])],
        [value("on", [], "BOOL"), value("s2", [None])],
    )
    f, weights = models.from_onnx(
        model(node("Loop", "n . x", "y", body=inner), n=np.array(3))
    )
    np.testing.assert_array_equal(f(weights, X)[0], np.tile(X, 4))
    slope = wb.grad(lambda x: np.sum(f(weights, x)[0] ** 2))(X)
    np.testing.assert_allclose(slope, 8 * X)


def test_a_scan_runs_backwards_along_any_axis() -> None:
    inner = body(
        [node("Add", "s e", "s2"), node("Tanh", "s2", "o")],
        [value("s", [2]), value("e", [2])],
        [value("s2", [2]), value("o", [2])],
    )
    settings = {"scan_input_axes": [1], "scan_input_directions": [1]}
    settings |= {"scan_output_axes": [1], "scan_output_directions": [1]}
    f, weights = models.from_onnx(
        model(
            node("Scan", "s0 x", "y rows", body=inner, num_scan_inputs=1, **settings),
            outputs="y rows",
            s0=np.zeros(2),
        )
    )
    x = np.arange(6.0).reshape(2, 3) / 5
    want = np.cumsum(x[:, ::-1], 1)[:, ::-1]
    last, rows = f(weights, x)
    np.testing.assert_allclose(last, want[:, 0])
    np.testing.assert_allclose(rows, np.tanh(want))
    assert "scan" in names_of(wb.trace(lambda x: f(weights, x)[1])(x))
    slope = wb.grad(lambda x: np.sum(f(weights, x)[1]))(x)
    np.testing.assert_allclose(slope, np.cumsum(1 - np.tanh(want) ** 2, 1))


def branches() -> Any:
    yes = body([node("Exp", "x", "a")], [], [value("a", [3])])
    no = body([node("Neg", "x", "b")], [], [value("b", [3])])
    return model(
        node("ReduceSum", "x", "t", keepdims=0),
        node("Greater", "t zero", "c"),
        node("If", "c", "y", then_branch=yes, else_branch=no),
        zero=0.0,
    )


def test_a_branch_follows_values_and_is_a_node_on_symbols() -> None:
    f, weights = models.from_onnx(branches())
    for x, want in ((X, np.exp(X)), (-X, np.full(3, -1.0))):
        slope = wb.grad(lambda x: np.sum(f(weights, x)[0]))(x)
        np.testing.assert_allclose(slope, want)
    x = wb.tensor("x", shape=(3,))
    (y,) = f(weights, x)
    g = wb.function([x], [y, wb.grad(np.sum(y), x)])
    np.testing.assert_allclose(g(X), [np.exp(X), np.exp(X)])
    np.testing.assert_allclose(g(-X), [X, np.full(3, -1.0)])


def test_batch_norm_in_training_mode_returns_new_statistics() -> None:
    f, weights = models.from_onnx(
        model(
            node(
                "BatchNormalization",
                "x s b m v",
                "y m2 v2",
                training_mode=1,
                momentum=0.75,
                epsilon=2**-10,
            ),
            outputs="y m2 v2",
            s=np.array([1.5, 0.5]),
            b=np.array([0.1, 0.2]),
            m=np.array([0.3, 0.4]),
            v=np.array([1.0, 2.0]),
        )
    )
    x = np.random.default_rng(0).normal(size=(5, 2, 3))

    def direct(x: Any) -> Any:
        m = np.mean(x, (0, 2))
        v = np.mean((x - m[:, None]) ** 2, (0, 2))
        y = (x - m[:, None]) / np.sqrt(v + 2**-10)[:, None]
        y = y * np.array([1.5, 0.5])[:, None] + np.array([0.1, 0.2])[:, None]
        return (
            y,
            np.array([0.3, 0.4]) * 0.75 + m * 0.25,
            np.array([1.0, 2.0]) * 0.75 + v * 0.25,
        )

    for got, want in zip(f(weights, x), direct(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)

    def loss(parts: Any) -> Any:
        return sum(np.sum(p * p * p) for p in parts)

    slope = wb.grad(lambda x: loss(f(weights, x)))(x)
    d = np.random.default_rng(1).normal(size=x.shape)
    want = np.imag(loss(direct(x + 1e-30j * d))) / 1e-30
    np.testing.assert_allclose(np.sum(slope * d), want, rtol=1e-12)


def test_the_slope_of_relu_at_zero_is_that_of_other_libraries() -> None:
    f, weights = models.from_onnx(model(node("Relu", "x", "y")))
    slope = wb.grad(lambda x: np.sum(f(weights, x)[0]))(np.array([-1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(slope, [0.0, 0.0, 1.0])


def test_functions_of_the_model_take_attributes() -> None:
    function = helper.make_function(
        "mine", "Leak", ["a"], ["b"],
        [onnx.parser.parse_node("b = LeakyRelu <alpha: float = @slope> (a)")],
        [helper.make_opsetid("", 20)], ["slope"],
    )  # fmt: skip
    f, weights = models.from_onnx(
        model(node("Leak", "x", "y", domain="mine", slope=0.25), functions=[function])
    )
    np.testing.assert_allclose(f(weights, X)[0], np.where(X > 0, X, 0.25 * X))
    slope = wb.grad(lambda x: np.sum(f(weights, x)[0]))(X)
    np.testing.assert_allclose(slope, np.where(X > 0, 1, 0.25))


def test_a_function_compiles_and_takes_overrides() -> None:
    f, weights = models.from_onnx(
        model(node("Tanh", "x", "h", name="/net/Tanh"), node("Mul", "h h", "y"))
    )

    def loss(x: Any) -> Any:
        return np.sum(f(weights, x)[0])

    program = wb.compile(wb.grad(loss), backend="numpy")
    t = np.tanh(X)
    np.testing.assert_allclose(program(X), 2 * t * (1 - t**2), rtol=1e-14)
    zero = wb.override("net/*", "0 * d")
    np.testing.assert_array_equal(wb.grad(loss, overrides=[zero])(X), np.zeros(3))


def test_the_example_of_the_docstring(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model(
        node("Gemm", "x weight bias", "y"),
        kinds={"x": "FLOAT", "y": "FLOAT"},
        weight=np.ones((4, 2), np.float32),
        bias=np.ones(2, np.float32),
    )
    onnx.save(made, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    text = (importer.from_onnx.__doc__ or "").replace("  # doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(text, {}, "from_onnx", None, 0)
    assert len(test.examples) == 4
    assert doctest.DocTestRunner().run(test).failed == 0
