"""`graph_rule`: a gradient as data, as the seed's FunctionDefHelper has it (E3)."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, RegistrationError, UsageError

X = np.array([-1.0, 0.5, 2.0])


class ReluOfTest(wb.Op):
    """The seed's Relu, without a gradient."""

    name = "relu_of_test"

    def compute(self, x: Any) -> Any:
        return np.maximum(x, 0)


class ReluGrad(wb.Op):
    """The op that the seed's rule calls."""

    name = "relu_grad_of_test"

    def compute(self, dy: Any, x: Any) -> Any:
        return np.where(x > 0, dy, 0).astype(x.dtype)

    def vjp(self, node: Any, g: Any) -> Any:
        x = node.inputs[1]
        return ReluGrad()(g, x), None


def seed_rule(**more: Any) -> Any:
    """``FDH::Define({"x: T", "dy: T"}, {"dx: T"}, {{"T: {float, double}"}}, ...)``"""
    return wb.graph_rule(
        inputs=["x: T", "dy: T"],
        returns=["dx: T"],
        types={"T": ["float", "double"]},
        nodes=[(["dx"], "relu_grad_of_test", ["dy", "x"], {"T": "$T"})],
        **more,
    )


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    wb.register_gradient("relu_of_test")(seed_rule())


def test_E3_the_seeds_rule() -> None:
    relu = ReluOfTest()
    f = lambda x: np.sum(relu(x) ** 3)  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(X), 3 * np.maximum(X, 0) ** 2)
    np.testing.assert_allclose(wb.hessian(f)(X), np.diag(6 * np.maximum(X, 0)))
    assert wb.check_grads(f, (X,), order=2).ok
    single = wb.grad(f)(X.astype(np.float32))
    assert single.dtype == np.float32
    with pytest.raises(DtypeError, match=r"x is of dtype .*T: float32, float64"):
        wb.grad(f)(X.astype(np.longdouble))


def test_E3_it_is_shown_as_a_graph() -> None:
    rule = wb.graph_rule(
        ["x", "dy"],
        ["dx"],
        [
            {"outputs": ["c"], "op": "cos", "inputs": ["x"]},
            {"outputs": ["dx"], "op": "multiply", "inputs": ["dy", "c"]},
        ],
    )
    text = "dx of (x, dy):\n  c = cos(x)\n  dx = multiply(dy, c)"
    assert str(rule) == text
    graph = rule.graph(wb.Spec((3,), float), wb.Spec((3,), float))
    assert [n.op.name for n in graph.nodes] == [
        "identity",
        "identity",
        "cos",
        "multiply",
    ]
    assert graph.inputs[1].name == "dy"
    with pytest.raises(UsageError, match="inputs x, dy"):
        rule.graph(wb.Spec((3,), float))


def test_E3_it_is_stored_and_read() -> None:
    rule = seed_rule(name="relu_rule")
    text = rule.to_json()
    again = wb.graph_rule.from_json(text)
    assert again == rule
    assert hash(again) == hash(rule)
    assert again.__name__ == "relu_rule"
    assert wb.graph_rule.from_json(json.loads(text)).to_json() == text
    assert wb.graph_rule.from_json(text.encode()) == rule
    assert pickle.loads(pickle.dumps(rule)) == copy.deepcopy(rule) == rule
    assert eval(repr(rule), {"wb": wb}) == rule
    assert rule != seed_rule()


def test_everywhere_that_a_rule_is() -> None:
    rule = wb.graph_rule(
        ["x", "y", "dy"],  # with the node's output
        ["dx"],
        [
            (["s"], "square", ["y"]),
            (["one"], "subtract", [1.0, "s"]),
            (["dx"], "multiply", ["dy", "one"]),
        ],
    )
    want = 1 - np.tanh(X) ** 2

    class Tanh(wb.Op):
        name = "tanh_of_test"
        vjp = rule

        def compute(self, x: Any) -> Any:
            return np.tanh(x)

    f = lambda x: np.sum(Tanh()(x))  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(X), want)
    np.testing.assert_allclose(wb.jacobian(Tanh(), mode="fwd")(X), np.diag(want))
    over = wb.override("tanh", vjp=rule)
    g = lambda x: np.sum(np.tanh(x))  # noqa: E731
    np.testing.assert_allclose(wb.grad(g, overrides=[over])(X), want)
    by_rule = wb.custom_vjp(lambda x: np.tanh(x), vjp=rule)
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(by_rule(x)))(X), want)


def test_the_code_of_a_session_holds_it_whole() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(X), name="ad")
    rule = wb.graph_rule(["x", "dy"], ["dx"], [(["dx"], "multiply", ["dy", 3.0])])
    session.override("tanh", vjp=rule)
    np.testing.assert_array_equal(session.grads["x"], [3, 3, 3])
    (line,) = (one.code for one in session.overrides)
    assert "your function" not in line
    other = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(X), name="ad")
    exec(line, {"ad": other, "wb": wb})
    np.testing.assert_array_equal(other.grads["x"], [3, 3, 3])


def test_settings_of_the_node_and_lists_of_arrays() -> None:
    class Summed(wb.Op):
        name = "summed_of_test"
        axis: int

        def compute(self, x: Any) -> Any:
            return x.sum(axis=self.axis)

    wb.register_gradient(Summed)(
        wb.graph_rule(
            ["x", "dy"],
            ["dx"],
            [
                (["wide"], "expand_dims", ["dy"], {"axis": "$axis"}),
                (["ones"], "ones_like", ["x"]),
                (["dx"], "np.multiply", ["wide", "ones"]),
            ],
        )
    )
    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1):
        weight = np.arange(1.0, 4.0)[: x.shape[1 - axis]]
        op = Summed(axis)
        found = wb.grad(lambda x, op=op, w=weight: np.sum(op(x) * w))(x)
        np.testing.assert_array_equal(
            found, np.broadcast_to(np.expand_dims(weight, axis), x.shape)
        )
    both = wb.graph_rule(
        ["x", "dy"],
        ["dx"],
        [
            ("pair", "stack", [["x", "dy"]], {"axis": 0}),
            ("dx", "sum", ["pair"], {"axis": 0}),
        ],
    )
    over = wb.override("sin", vjp=both)
    found = wb.grad(lambda x: np.sum(np.sin(x)), overrides=[over])(X)
    np.testing.assert_array_equal(found, X + 1)


def test_several_inputs_and_none() -> None:
    rule = wb.graph_rule(
        ["a", "b", "dy"], ["da", None], [(["da"], "multiply", ["dy", "b"])]
    )
    over = wb.override("multiply", vjp=rule)
    f = lambda a, b: np.sum(a * b)  # noqa: E731
    da, db = wb.grad(f, (0, 1), overrides=[over])(X, 2 * X)
    np.testing.assert_array_equal(da, 2 * X)
    assert not db.any()
    with pytest.raises(
        UsageError, match=r"a, b, dy and returns 2 gradients; sin has 1"
    ):
        wb.grad(lambda x: np.sum(np.sin(x)), overrides=[wb.override("sin", vjp=rule)])(
            X
        )


GOOD: dict[str, Any] = {
    "inputs": ["x", "dy"],
    "returns": ["dx"],
    "nodes": [(["dx"], "multiply", ["dy", "x"], {})],
}


def nodes(*given: Any) -> dict[str, Any]:
    return {**GOOD, "nodes": list(given)}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (nodes((["dx"], "multipli", ["dy", "x"])), r"the op 'multipli' is unknown"),
        (
            nodes((["dx"], "relu_grad_of_tset", ["dy", "x"])),
            r"unknown\. Did you mean relu_grad_of_test",
        ),
        (nodes((["dx"], "load", ["x"])), "unknown"),
        (nodes((["dx"], "eval", ["x"])), "unknown"),
        (nodes((["dx"], "copyto", ["x", "dy"])), "unknown"),
        (nodes((["dx"], "empty_like", ["x"])), "unknown"),
        (nodes((["dx"], "apply_along_axis", ["x"])), "unknown"),
        (nodes((["dx"], "__class__", ["x"])), "unknown"),
        (nodes((["dx"], "linalg.__builtins__", ["x"])), "unknown"),
        (nodes((["dx"], "multiply", ["dy", "z"])), r"reads 'z', which nothing makes"),
        (nodes((["t"], "cos", ["x"])), r"returns 'dx', which nothing makes"),
        (
            nodes((["dx"], "multiply", ["dy", "t"]), (["t"], "cos", ["x"])),
            r"reads 't', which node 1 makes.*no cycle",
        ),
        (nodes((["dx"], "multiply", ["dy", "dx"])), r"reads 'dx', which it makes"),
        (
            nodes((["dx"], "cos", ["x"]), (["dx"], "cos", ["x"])),
            r"node 1 makes 'dx', which is made already",
        ),
        (nodes((["x"], "cos", ["dy"]), (["dx"], "cos", ["x"])), "node 0 makes 'x'"),
        ({**GOOD, "inputs": ["x", "x"]}, "'x' stands twice"),
        (nodes((["dx"], "multiply", ["dy"])), r"multiply takes 2 inputs and gives 1"),
        (nodes((["dx"], "sum", ["x"], {"axos": 1})), r"sum\(.*'axos'"),
        (nodes((["dx"], "cos", ["x"], {"out": 1})), "sets 'out'"),
        (nodes((["dx"], "cos", ["x"], {"n": 1})), "no setting 'n'"),
        (nodes((["dx"], "multiply", ["dy", np.nan])), "the number nan"),
        (nodes((["dx"], "multiply", ["dy", np.inf])), "the number inf"),
        (nodes((["dx"], "sum", ["x"], {"axis": 2**60})), "beyond 2"),
        (nodes((["dx"], "sum", ["x"], {"axis": X})), "ndarray among its params"),
        (nodes((["dx"], "sum", ["x"], {"axis": [0] * 20_000})), "too large"),
        (nodes((["dx"], "relu_grad_of_test", ["x"], {"p": 1})), "'p'|takes"),
        (nodes(3), r"node 0 is 3\. Write"),
        (nodes((["dx"], "cos", [])), "at least one input"),
        (nodes({"op": "cos", "inputs": ["x"]}), "names of outputs"),
        (nodes({**GOOD, "op": "cos"}), r"node 0 has 'nodes', 'returns'"),
        (nodes((["d x"], "cos", ["x"])), "'d x' is not a name"),
        (nodes((["d" * 101], "cos", ["x"])), "at most 100 letters"),
        (nodes((["dx"], "multiply", ["dy", True])), "reads True"),
        (nodes((["dx"], "stack", [[["x"], "dy"]])), "which nothing makes"),
        ({**GOOD, "nodes": "cos"}, "nodes is str"),
        ({**GOOD, "nodes": [GOOD["nodes"][0]] * 1001}, "1001 nodes, and 1000"),
        ({**GOOD, "inputs": "x"}, "Give a list of names"),
        ({**GOOD, "inputs": []}, "needs inputs"),
        ({**GOOD, "returns": [None]}, "at least one gradient"),
        ({**GOOD, "inputs": ["x: T", "dy"]}, "type 'T', which is neither declared"),
        ({**GOOD, "types": {"T": ["text"]}}, "'text' is not a dtype"),
        ({**GOOD, "types": {"T": ["object"]}}, "'object' is not a dtype"),
        ({**GOOD, "types": {"T": 3}}, "the type T is 3"),
        ({**GOOD, "types": ["T"]}, "Write types"),
        (
            {
                "inputs": ["x: T", "dy: T"], "returns": ["dx: T"],
                "nodes": [(["dx"], "invert", ["x"])], "types": {"T": ["float32"]},
            },
            "the types do not fit: invert",
        ),
        (
            {
                "inputs": ["x: T", "dy: T"], "returns": ["dx: double"],
                "nodes": [(["dx"], "multiply", ["x", "dy"])],
                "types": {"T": ["float32", "float64"]},
            },
            "the types do not fit: .*dx is of dtype float32",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_when_it_is_made(data: Any, says: str) -> None:
    with pytest.raises(RegistrationError, match=says) as error:
        wb.graph_rule(**data)
    assert str(error.value).startswith("graph_rule: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no rule"),
        ("{}", "no rule"),
        ('{"workbench_rule": 2}', "version 2, and this Workbench reads 1"),
        ('{"workbench_rule": true}', "version True"),
        ('{"workbench_rule": 1}', "inputs is missing"),
        ('{"workbench_rule": 1, "code": "x"}', "unknown code"),
        (" " * 1_000_001, "1000001 characters"),
        (
            '{"workbench_rule": 1, "inputs": ["x"], "returns": ["x"], "nodes": [],'
            ' "name": 3}',
            "name is 3, not text",
        ),
        (
            '{"workbench_rule": 1, "inputs": 3, "returns": ["x"], "nodes": []}',
            "inputs is 3, not a list",
        ),
        (
            '{"workbench_rule": 1, "inputs": ["x"], "returns": ["x"], "nodes": ['
            + "0, " * 1500
            + "0]}",
            "nodes has 1501 entries, more than 1000",
        ),
    ],
)
def test_what_is_refused_when_it_is_read(text: str, says: str) -> None:
    with pytest.raises(RegistrationError, match=says):
        wb.graph_rule.from_json(text)


def test_json_that_is_damaged_is_always_an_error_of_ours() -> None:
    """Any one value of a good rule is exchanged for another kind of value."""
    junk = [None, 3, -1.5, "", "x", [], {}, [[]], {"a": 1}, True, "dx", ["x"]]
    whole = json.loads(seed_rule(name="r").to_json())

    def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
        yield path
        if isinstance(value, (dict, list)):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            for key in keys:
                yield from places(value[key], (*path, key))

    for path in [p for p in places(whole) if p]:
        for bad in junk:
            made = json.loads(json.dumps(whole))
            inner = made
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = bad
            try:
                rule = wb.graph_rule.from_json(made)
            except RegistrationError:
                continue
            assert rule.to_json()


def test_the_rule_of_the_same_name_replaces_itself() -> None:
    class Held(wb.Op):
        name = "held_of_test"

        def compute(self, x: Any) -> Any:
            return x * 1

    def rule(factor: float, name: str) -> Any:
        return wb.graph_rule(
            ["x", "dy"], ["dx"], [("dx", "multiply", ["dy", factor])], name=name
        )

    wb.register_gradient("held_of_test")(rule(2.0, "mine"))
    wb.register_gradient("held_of_test")(rule(3.0, "mine"))
    assert wb.grad(Held())(1.0) == 3
    with pytest.raises(RegistrationError, match=r"already, .*\.mine"):
        wb.register_gradient("held_of_test")(rule(3.0, "yours"))


def test_an_op_made_of_a_graph_is_a_node_too() -> None:
    x, dy = wb.vector("x"), wb.vector("dy")
    slope = wb.OpFromGraph([x, dy], [dy * (1 - np.tanh(x) ** 2)], name="slope_of_test")
    rule = wb.graph_rule(["x", "dy"], ["dx"], [("dx", "slope_of_test", ["x", "dy"])])
    over = wb.override("tanh", vjp=rule)
    found = wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[over])(X)
    np.testing.assert_allclose(found, 1 - np.tanh(X) ** 2)
    assert slope.__op__ == "slope_of_test"


def test_a_rule_of_a_stranger_makes_no_arrays_of_any_size() -> None:
    doubled = [(["a0"], "concatenate", [["dy", "dy"]], {})]
    doubled += [
        ([f"a{i}"], "concatenate", [[f"a{i - 1}"] * 2], {}) for i in range(1, 40)
    ]
    rule = wb.graph_rule(["x", "dy"], ["dx"], [*doubled, (["dx"], "sum", ["a39"], {})])
    grow = wb.override("tanh", vjp=rule)
    with pytest.raises(UsageError, match=r"concatenate makes a\d+ of [\d,]+ entries"):
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[grow])(np.ones(3))
    for inputs, params in (
        (["dy", 10**9], {}),
        (["dy"], {"reps": 10**9}),
        (["dy"], {"reps": [10**5, 10**5]}),
    ):
        with pytest.raises(RegistrationError, match="more than 10,000,000 entries"):
            wb.graph_rule(["x", "dy"], ["dx"], [(["dx"], "tile", inputs, params)])
    wb.graph_rule(["x", "dy"], ["dx"], [(["dx"], "multiply", ["dy", 10**9], {})])


def test_what_is_too_large_to_be_said_is_said_shortly() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for inputs, says in (
        (["dy", 10**5000], "asks for more than"),
        ([[["dy"] * 9999]], r"reads \['dy'.{40,60}…, which nothing"),
        ([endless], "which nothing makes"),
    ):
        with pytest.raises(RegistrationError, match=says) as error:
            wb.graph_rule(["x", "dy"], ["dx"], [(["dx"], "concatenate", inputs, {})])
        assert len(str(error.value)) < 200


def rewritten(node: Any) -> Any:
    """The gradient of ``tanh`` by a rule of one node, at 0.5."""
    rule = wb.graph_rule(["x", "dy"], ["dx"], [node])
    given = [wb.override("tanh", vjp=rule)]
    return wb.grad(lambda x: np.sum(np.tanh(x)), overrides=given)(np.full(3, 0.5))


def test_a_node_that_fails_says_which() -> None:
    for node, says in (
        (
            (["dx"], "sum", ["dy"], {"axis": 7}),
            r"dx = sum\(dy, axis=7\) fails: AxisErr",
        ),
        (
            (["dx"], "where", ["x", [], 0.0], {}),
            r"where\(x, \[\], 0\.0\) fails: ShapeE",
        ),
    ):
        with pytest.raises(UsageError, match=says):
            rewritten(node)


def test_casts_and_dtypes_of_numbers_alone() -> None:
    assert rewritten((["dx"], "astype", ["dy"], {"dtype": "float32"})).tolist() == [
        1, 1, 1,
    ]  # fmt: skip
    for node, says in (
        (
            (["dx"], "sum", ["dy"], {"dtype": "object"}),
            "'object' is not a dtype of numbers",
        ),
        (
            (["dx"], "zeros_like", ["dy"], {"dtype": "V9"}),
            "'V9' is not a dtype of numbers",
        ),
        ((["dx"], "sum", ["dy"], {"dtype": 7}), "7 is not a dtype of numbers"),
        ((["dx"], "astype", ["dy"], {"copy": True}), "astype takes one input, and the"),
    ):
        with pytest.raises(RegistrationError, match=says):
            rewritten(node)


@pytest.mark.parametrize(
    "name", ["f8,(", ",", "(2,)f8", "(-1,)f8", "(1000000000000,)f8", "\ud800", "\0", ""]
)
def test_no_text_of_a_dtype_is_read_as_code(name: str) -> None:
    says = "is not a dtype of numbers"
    with pytest.raises(RegistrationError, match=says):
        rewritten((["dx"], "sum", ["dy"], {"dtype": name}))
    with pytest.raises(RegistrationError, match=says):
        wb.graph_rule(
            ["x", "dy"], ["dx"], [(["dx"], "negative", ["dy"])], types={"T": [name]}
        )


def test_subscripts_are_a_setting() -> None:
    node = (["dx"], "einsum", ["x", "dy"], {"subscripts": "i,j->j"})
    assert rewritten(node).shape == (3,)
    with pytest.raises(UsageError, match=r"subscripts=3 is no text"):
        rewritten((["dx"], "einsum", ["x", "dy"], {"subscripts": 3}))
    assert rewritten((["dx"], "einsum", ["x", [0], "dy", [1], [1]])).shape == (3,)
    apart = {"subscripts": ",".join("abcdefghijklmnopqrst") + "->"}
    with pytest.raises(UsageError, match=r"einsum makes .* operations"):
        rewritten((["dx"], "einsum", ["dy"] * 20, apart))
