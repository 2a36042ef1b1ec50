"""A session: stages, overrides with undo, effects, other derivatives, bad input.

The truth is the chain rule of the two-layer network, worked out by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import (
    B1,
    B2,
    NAMES,
    RULES,
    TRUE,
    W1,
    W2,
    T,
    X,
    assert_grads,
    by_hand,
    fresh,
    network,
)
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    NonScalarOutputError,
    OverrideError,
    ShapeError,
    UnknownNodeError,
    UsageError,
)


@pytest.fixture
def model() -> wb.Session:
    return fresh()


# What it shows


def test_values_and_gradients_of_every_node(model: wb.Session) -> None:
    h = np.tanh(X @ W1 + B1)
    p = 1 / (1 + np.exp(-(h @ W2 + B2)))
    loss = -np.mean(T * np.log(p) + (1 - T) * np.log(1 - p))
    assert model.value == pytest.approx(loss, rel=1e-14)
    np.testing.assert_array_equal(model.values["h"], h)
    np.testing.assert_array_equal(model.values[model["h"]], h)
    np.testing.assert_array_equal(model.values[model.nodes.find("h")], h)
    expected = by_hand(TRUE)
    assert_grads(model, expected)
    np.testing.assert_allclose(model.cotangents["h"], expected["h"], rtol=1e-13)
    assert model.cotangents["loss"] == 1
    assert list(model.grads) == NAMES
    assert len(model.grads) == 4
    np.testing.assert_array_equal(model.grads[model["W1"]], model.grads["W1"])
    assert "X" not in model.cotangents
    assert model.cotangents["X"] is None


def test_it_says_what_it_is(model: wb.Session) -> None:
    assert repr(model) == (
        "<Session 'model': loss = 1.32446 by W1, b1, W2, b2; 22 nodes>"
    )
    assert repr(model.grads) == (
        "<gradients of 'model': W1 (3, 2), b1 (2,), W2 (2,), b2 ()>"
    )
    assert model["h"].op.name == "tanh"
    assert model["h"].scope == "encoder"


def test_wrt_is_by_default_what_reaches_the_output() -> None:
    graph = wb.trace(lambda a, b: np.sum(a * 2))(np.ones(2), np.ones(2))
    assert list(wb.Session(graph).grads) == ["a"]


def test_the_gradient_graph_knows_where_each_of_its_nodes_belongs(
    model: wb.Session,
) -> None:
    graph = model.gradient_graph
    forward = {node.serial for node in model.graph.nodes}
    made = [node for node in graph.nodes if node.serial not in forward]
    assert made
    for node in made:
        assert node.origin.forward.serial in forward
        assert not node.origin.overridden
    for g, name in zip(graph.outputs, NAMES, strict=True):
        np.testing.assert_allclose(g.value, by_hand(TRUE)[name], rtol=1e-13)
    model.override("tanh", "0.5 * d", name="half")
    halved = [n for n in model.gradient_graph.nodes if n.origin and n.origin.overridden]
    assert halved
    assert {n.origin.rule for n in halved} == {"half"}
    assert {n.origin.forward.op.name for n in halved} == {"tanh"}


def test_a_session_does_not_see_later_changes_of_arrays() -> None:
    a, constant = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    graph = wb.trace(lambda a: np.sum(a[:1] * a * constant))(a)
    session = wb.Session(graph)
    before = session.value, session.grads["a"]
    a[:] = 100
    constant[:] = 100
    assert session.value == before[0]
    np.testing.assert_array_equal(session.grads["a"], before[1])
    session.override("multiply", "d")
    np.testing.assert_array_equal(session.grads["a"], before[1])
    assert session.run(a=[1.0, 2.0]) == before[0]


def test_what_it_hands_out_is_a_copy(model: wb.Session) -> None:
    g = model.grads["W1"]
    g *= 0
    model.values["h"][:] = 0
    assert_grads(model, by_hand(TRUE))


def test_an_output_of_many_numbers_takes_a_seed() -> None:
    x, seed = np.array([0.5, -1.0]), np.array([2.0, 3.0])
    session = wb.Session(wb.trace(np.tanh)(x), seed=seed)
    np.testing.assert_allclose(
        next(iter(session.grads.values())), seed * (1 - np.tanh(x) ** 2), rtol=1e-14
    )
    assert session.check().ok
    session.override("tanh", "g")
    np.testing.assert_array_equal(next(iter(session.grads.values())), seed)
    report = session.check()
    assert report.ok
    true = seed * (1 - np.tanh(x) ** 2)
    change = np.linalg.norm(seed - true) / np.linalg.norm(true)
    assert list(report.changed.values()) == [pytest.approx(change)]


# Runs


def test_a_run_with_other_inputs(model: wb.Session) -> None:
    new = W1 * 1.5 - 0.1
    model.override("h", "0.5 * d")
    value = model.run(W1=new)
    fresh = wb.Session(wb.trace(network)(X, new, B1, W2, B2), wrt=NAMES)
    assert value == fresh.value
    assert_grads(model, by_hand(RULES["0.5 * d"], new))
    model.undo()
    assert_grads(model, by_hand(TRUE, new))
    np.testing.assert_array_equal(model.values["W1"], new)
    assert model["h"].site == fresh["h"].site
    assert model["h"].name == "h"


def test_a_run_computes_only_what_depends_on_what_changed(model: wb.Session) -> None:
    before = model.graph.nodes
    model.run(b2=1.0)
    after = model.graph.nodes
    kept = {b.name or b.op.name for a, b in zip(after, before, strict=True)
            if a._value is b._value}  # fmt: skip
    assert {"X", "W1", "h", "matmul", "add"} <= kept
    assert not kept & {"p", "loss", "exp"}


def test_training_with_the_drawn_gradient_lowers_the_loss(model: wb.Session) -> None:
    values = [model.value]
    for _ in range(50):
        steps = {name: model.values[name] - 0.5 * model.grads[name] for name in NAMES}
        values.append(model.run(steps))
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.5 * values[0]


def test_a_program_without_values_gets_them_from_a_run() -> None:
    spec = wb.Spec((2,), np.dtype(float))
    session = wb.Session(wb.trace(lambda x: np.sum(np.sin(x)))(spec), name="s")
    assert session.value is None
    session.override("sin", "0.5 * d")
    with pytest.raises(UsageError, match=r"no gradients.*Pass all inputs to s\.run"):
        _ = session.grads
    assert session.run(x=np.zeros(2)) == 0
    np.testing.assert_array_equal(session.grads["x"], [0.5, 0.5])


def test_float32_and_python_numbers_keep_their_kind() -> None:
    def f(x: Any, c: Any) -> Any:
        return np.sum(x * c)

    session = wb.Session(wb.trace(f)(np.float32([1, 2]), 3.0))
    assert session.grads["x"].dtype == np.float32
    session.run(x=np.array([1.0, 2.0]), c=np.float64(2))
    assert session.grads["x"].dtype == np.float32
    assert session.value.dtype == np.float32
    assert type(session.values["c"]) is float


# Other derivatives


def test_jacobians_of_any_node_by_any_other(model: wb.Session) -> None:
    h = np.tanh(X @ W1 + B1)
    expected = np.einsum("ij,jk->ijk", 1 - h**2, np.eye(2))
    np.testing.assert_allclose(model.jacobian("h", "b1"), expected, rtol=1e-13)
    by_h = model.jacobian(wrt="h")
    np.testing.assert_allclose(by_h, by_hand(TRUE)["h"], rtol=1e-13)
    rows = model.jacobian()
    assert list(rows) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(rows[name], by_hand(TRUE)[name], rtol=1e-12)
    assert np.all(model.jacobian("W1", "W2") == 0)
    assert model.jacobian("W1", "W1").shape == (3, 2, 3, 2)


def test_jacobians_run_the_overrides(model: wb.Session) -> None:
    model.override("h", "g")
    assert_same = np.testing.assert_allclose
    assert_same(model.jacobian("h", "b1"), np.tile(np.eye(2), (4, 1, 1)))
    for name in NAMES:
        expected = by_hand(RULES["g"])[name]
        assert_same(model.jacobian(wrt=name), expected, rtol=1e-12)
    assert_same(model.jacobian(wrt="h"), by_hand(TRUE)["h"], rtol=1e-12)


def test_hessians_agree_with_differences_of_gradients(model: wb.Session) -> None:
    blocks = model.hessian(["b1", "W2"])
    assert blocks["b1"]["W2"].shape == (2, 2)
    np.testing.assert_allclose(blocks["b1"]["W2"], blocks["W2"]["b1"].T, rtol=1e-10)
    single = model.hessian("W2")
    np.testing.assert_allclose(single, blocks["W2"]["W2"])
    step = 1e-6
    for j in range(2):
        up, down = (W2 + s * step * np.eye(2)[j] for s in (1, -1))
        model.run(W2=up)
        high = model.grads["W2"]
        model.run(W2=down)
        np.testing.assert_allclose(
            single[:, j], (high - model.grads["W2"]) / (2 * step), rtol=1e-7
        )


def test_a_hessian_with_an_override_that_is_not_linear() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.array([0.3, 2.0])))
    session.override("power", "clip(d, -1, 1)")
    np.testing.assert_allclose(session.hessian("x"), np.diag([1.8, 0.0]), rtol=1e-13)


def test_the_check_tells_what_an_override_changes(model: wb.Session) -> None:
    assert model.check().ok
    model.override("h", "0.5 * d")
    report = model.check(seed=1)
    assert report.ok
    assert report.changed == {
        "W1": pytest.approx(0.5), "b1": pytest.approx(0.5), "W2": 0, "b2": 0
    }  # fmt: skip
    assert model.check(["W2", "b2"]).changed == {}
    # Differences at a few entries, where asked
    few = model.check(entries=1, seed=0)
    assert [len(c.entries) for c in few.comparisons] == [1, 1, 1, 1]


def test_another_rule_takes_effect_in_a_hundred_ops(
    measured: Callable[[str], None],
) -> None:
    """On 569 × 16 arrays, where an override is to take less than 100 ms."""

    def chain(x: Any) -> Any:
        for _ in range(50):
            x = np.tanh(x) * 1.01
        return np.sum(x)

    session = wb.Session(wb.trace(chain)(np.linspace(-1, 1, 9104).reshape(569, 16)))
    one = session.override("tanh", "clip(d, -1, 1)")
    rules = [f"clip(d, -1, {k})" for k in range(2, 8)]
    best = min(
        timed(lambda rule=rule: session.override("tanh", rule, replacing=one).effects)
        for rule in rules
    )
    measured(f"override on {len(session.graph)} nodes of 569×16: {best * 1e3:.2f} ms")
    assert [o.rule for o in session.overrides] == [rules[-1]]
    (effect,) = session.overrides[0].effects
    assert effect.node == session.wrt[0]


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_a_chain_of_20_000_ops_needs_no_recursion() -> None:
    def chain(x: Any) -> Any:
        for _ in range(10_000):
            x = np.sin(x) * 1.0
        return x

    session = wb.Session(wb.trace(chain)(0.5))
    assert len(session.graph) == 20_002
    session.override(10_000, "0.5 * d")
    true = session.truth
    assert true is not None
    assert session.grads["x"] == pytest.approx(0.5 * float(true.cotangents[0]))


# Bad input


def test_an_integer_in_wrt() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.argmax(x) * x)

    graph = wb.trace(f)(np.array([1.0, 2.0]))
    whole = next(n for n in graph.nodes if n.op.name == "argmax")
    whole.name = "k"
    with pytest.raises(DtypeError, match=r"k is of dtype int64.* = k\.astype\(float\)"):
        wb.Session(graph, wrt=["k"])


def test_an_output_that_does_not_depend_on_wrt(model: wb.Session) -> None:
    graph = wb.trace(lambda a, b, c: np.sum(a * b))(1.0, 2.0, 3.0)
    with pytest.raises(DisconnectedInputError) as caught:
        wb.Session(graph, wrt=["a", "c"])
    assert "does not depend on c. Leave it out of wrt; it depends on a, b." in str(
        caught.value
    )
    with pytest.raises(DisconnectedInputError, match="the constant 3: it depends"):
        wb.Session(wb.trace(lambda a: 3)(1.0))


def test_an_output_of_many_numbers_without_a_seed() -> None:
    graph = wb.trace(np.tanh)(np.ones(3))
    with pytest.raises(NonScalarOutputError) as caught:
        wb.Session(graph)
    assert "tanh float64[3]" in str(caught.value)
    assert "Reduce it (np.sum, np.mean), or give a seed: a cotangent of shape (3,)" in (
        str(caught.value)
    )
    with pytest.raises(ShapeError, match=r"the seed has shape \(2,\)"):
        wb.Session(graph, seed=np.ones(2))


def test_names_that_are_not_there(model: wb.Session) -> None:
    with pytest.raises(UnknownNodeError, match=r"named 'losss'.*mean loss\?"):
        _ = model["losss"]
    with pytest.raises(KeyError, match="There are X, W1, b1, W2, b2, h, p, loss"):
        _ = model.values["zebra"]
    with pytest.raises(UnknownNodeError, match="ids go from 0 to 21"):
        _ = model[22]
    with pytest.raises(UnknownNodeError, match=r"h is not in wrt.*cotangents\['h'\]"):
        _ = model.grads["h"]
    assert "zebra" not in model.values
    assert model.grads.get("zebra") is None
    with pytest.raises(UnknownNodeError, match="run: no input is named 'W3'"):
        model.run(W3=1.0)
    with pytest.raises(UnknownNodeError, match="no node is named 'V'"):
        wb.Session(model.graph, wrt=["V"])
    with pytest.raises(UnknownNodeError, match=r"is called like '\w+ \d+'"):
        model.derivative("zebra", "X")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("tahn", "is called 'tahn'. Did you mean"),
        ("tahn", "the op 'tanh'"),
        ("lss", "the node 'loss'"),
        ("encodr", "the scope 'encoder'"),
        ("zzzzz", "'zzzzz'. A target is the name of a node, an op or a scope"),
        ("zzzzz", 'write with wb.scope("zzzzz"): around the lines meant.'),
        ("zzzzz", "; model.nodes.labels lists them."),
        (
            "sinh",
            "every sinh matches nothing in session 'model'. Did you mean tanh?",
        ),
        (lambda n: False, "nodes where <lambda> matches nothing"),
        ("W1", "the input 'W1' float64[3, 2] has no op, so no rule to override"),
        (99, "there is no node 99: ids go from 0 to 21"),
        (True, "cannot target True"),
    ],
)
def test_an_override_that_matches_nothing(
    model: wb.Session, target: Any, words: str
) -> None:
    with pytest.raises((OverrideError, UnknownNodeError)) as caught:
        model.override(target, "d")
    assert words in str(caught.value)
    assert model.overrides == []


def test_integers_are_constants_and_errors_say_so() -> None:
    graph = wb.trace(lambda w, n, x: np.sum(w * x) * n)(np.arange(2), 3, np.ones(2))
    session = wb.Session(graph)
    cure = r"w is of dtype int64\[2\].*Pass w\.astype\(float\)"
    for ask in (
        lambda: session.grads["w"],
        lambda: wb.Session(graph, wrt=["w"]),
        lambda: session.values["w"],
    ):
        with pytest.raises(UnknownNodeError, match=cure):
            ask()
    with pytest.raises(UnknownNodeError, match=r"n is of dtype int.*Pass float\(n\)"):
        _ = session["n"]
    graph = wb.trace(lambda x, m, k: np.sum(x * m) * k[0])(
        np.ones(2), np.array([True, False]), [1, 2]
    )
    masked = wb.Session(graph)
    truth = r"bool\[2\]: a truth value has no derivative.*Pass m\.astype\(float\)"
    with pytest.raises(UnknownNodeError, match=truth):
        _ = masked["m"]
    with pytest.raises(UnknownNodeError, match=r"k\[0\] is of .*Pass float\(k\[0\]\)"):
        _ = masked["k"]
    with pytest.raises(DisconnectedInputError, match=cure):
        wb.Session(wb.trace(lambda w: np.sum(w))(np.arange(2)))


def test_ids_of_overrides_that_are_not_there(model: wb.Session) -> None:
    with pytest.raises(OverrideError, match="no override 7; the session has none"):
        model.remove(7)
    model.override("h", "d")
    with pytest.raises(OverrideError, match="no override 7; there are: 1"):
        model.switch(7, False)
    with pytest.raises(OverrideError, match="no override 7"):
        model.override("h", "d", replacing=7)
    with pytest.raises(UsageError, match=r"model\.switch\(1, False\) to switch the"):
        model.switch(1)


def test_nothing_to_undo(model: wb.Session) -> None:
    with pytest.raises(UsageError, match="there is nothing to undo"):
        model.undo()
    with pytest.raises(UsageError, match="there is nothing to redo"):
        model.redo()


def test_runs_with_inputs_that_do_not_fit(model: wb.Session) -> None:
    with pytest.raises(ShapeError, match=r"W1 has shape \(3, 2\).*not \(2, 3\)"):
        model.run(W1=W1.T)
    with pytest.raises(DtypeError, match=r"W1 is of dtype float64.*not complex128"):
        model.run(W1=W1 * 1j)
    with pytest.raises(UsageError, match="h is computed, it is not an input"):
        model.run(h=1.0)
    with pytest.raises(UnknownNodeError) as caught:
        model.run(W3=W1)
    said = str(caught.value)
    assert "Did you mean W1 or W2?" in said or "Did you mean W2 or W1?" in said
    inputs = [model.nodes.find(x) for x in model.graph.inputs]
    names = ", ".join(model.nodes.labels[i] for i in inputs)
    assert said.endswith(f"The inputs are {names}.")
    assert "h" not in names.split(", ")
    assert_grads(model, by_hand(TRUE))


def test_an_input_is_given_by_its_name_where_a_later_node_has_that_too() -> None:
    session = wb.Session(wb.trace(lambda q: wb.grad(lambda q: q**3)(q))(1.0))
    assert session.run(q=2.0) == 12.0


def test_a_node_without_a_name_is_found_by_what_the_picture_calls_it() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    assert session["tanh 1"] is session[1]
    assert session.jacobian("tanh 1", "x").shape == (3, 3)


def test_large_effects_are_whole_percents() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
    assert "changes x by 250 %" in repr(session.override("power", "3.5 * d"))


def test_the_same_line_again_attaches_nothing() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
    first = session.override("power", "2 * d")
    again = session.override("power", "2 * d")
    assert again.id == first.id
    assert len(session.overrides) == 1
    session.undo()
    assert session.overrides == []


def test_a_complex_output_of_real_inputs_asks_for_the_part_that_is_meant() -> None:
    x = np.array([1.0, 2.0])
    graph = wb.trace(lambda x: np.sum(x**2) + 1j * np.sum(x**3))(x)
    with pytest.raises(DtypeError, match=r"complex.*real part alone.*np\.imag\(y\)"):
        wb.Session(graph)
    np.testing.assert_allclose(wb.Session(graph, seed=1.0).grads["x"], 2 * x)
    np.testing.assert_allclose(wb.Session(graph, seed=-1j).grads["x"], 3 * x**2)


def test_what_an_override_mends_warns_no_more(recwarn: pytest.WarningsRecorder) -> None:
    """The true gradient is for comparison then, and its 0/0 nobody's trouble."""
    graph = wb.trace(lambda x: np.sum(np.sqrt(x * x) * x))(np.ones(2))
    session = wb.Session(graph)
    session.override("sqrt", "safe_sqrt")
    session.run(x=np.zeros(2))
    (one,) = session.overrides
    assert "changes x beyond comparison" in repr(one)
    truth = session.truth
    assert truth is not None
    assert np.all(np.isnan(truth.cotangents[0]))
    assert np.all(session.grads["x"] == 0)
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("name", ["", "my model", "a\nb", "class", "1st", None])
def test_a_session_is_called_as_a_variable_may_be(name: Any) -> None:
    graph = wb.trace(lambda x: np.sum(x**2))(np.ones(2))
    with pytest.raises(UsageError, match="a name that a variable may have"):
        wb.Session(graph, name=name)


def test_an_op_with_several_outputs_is_neither_output_nor_input() -> None:
    graph = wb.trace(lambda x: np.sum(np.linalg.svd(x)[1]))(np.eye(2))
    (svd,) = (x for x in graph.nodes if x.op.name == "svd")
    for output, wrt in ((svd, None), (None, [svd])):
        with pytest.raises(UsageError, match=r"several outputs.*Choose one of them"):
            wb.Session(graph, output, wrt)
