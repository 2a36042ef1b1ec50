"""Overrides of functions: targets, rules, blocks, errors.

The truth is worked out by hand: a two-layer network with its chain rule written
in NumPy, or the derivative of a function of one line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.overrides.network import (
    B1,
    RULES,
    W1,
    W2,
    X,
    assert_same,
    by_hand,
    gradients,
)
from workbench.core.op import OPS
from workbench.errors import ExpressionError, OverrideError
from workbench.overrides.rule_parser import label_of


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_on_the_network_is_the_chain_rule_by_hand(rule: str) -> None:
    found = gradients(wb.override("tanh", rule))
    assert_same(found, by_hand(RULES[rule]))


def test_a_function_is_the_same_rule() -> None:
    def clipped(node: Any, g: Any) -> Any:
        (d,) = node.vjp(g)
        assert node.op.name == "tanh"
        assert node.name is None
        np.testing.assert_array_equal(node.inputs[0], X @ W1 + B1)
        np.testing.assert_array_equal(node.outputs[0], np.tanh(X @ W1 + B1))
        return np.clip(d, -0.02, 0.02)

    found = gradients(wb.override("tanh", clipped))
    assert_same(found, by_hand(RULES["clip(d, -0.02, 0.02)"]))


def test_without_overrides_nothing_changes() -> None:
    assert_same(gradients(), by_hand(RULES["d"]))
    off = wb.override("tanh", "0", enabled=False)
    assert_same(gradients(off), by_hand(RULES["d"]))
    nothing = wb.override("sinh", "0", enabled=False)
    assert_same(gradients(nothing), by_hand(RULES["d"]))


# Targets


def test_an_op_itself_is_a_target_and_a_shape_a_condition() -> None:
    for target in (OPS["tanh"], lambda n: n.op.name == "tanh" and n.shape == (4, 2)):
        assert_same(gradients(wb.override(target, "g")), by_hand(RULES["g"]))


def test_a_ufunc_of_another_name_than_its_op_is_found() -> None:
    assert np.absolute.__name__ in OPS or OPS["abs"]
    for target in ("absolute", "abs", np.abs):
        found = wb.grad(np.abs, overrides=[wb.override(target, "3 * g")])(-2.0)
        assert found == 3.0


@pytest.mark.parametrize(
    "glob", ["encoder", "encoder/*", "enc*", "*coder", "[e]ncoder"]
)
def test_a_scope_means_all_ops_in_it(glob: str) -> None:
    """Stopping matmul and add stops W1 and b1; the rest keeps its gradient."""
    found = gradients(wb.override(glob, "zeros_like(d)"))
    true = by_hand(RULES["d"])
    if glob == "*coder":  # the decoder too: nothing flows back at all
        true = [0 * g for g in true]
    assert_same(found, [0 * true[0], 0 * true[1], true[2], true[3]])


@pytest.mark.parametrize("glob", ["decoder/out", "decoder", "decoder/*", "*/out"])
def test_a_scope_means_the_scopes_inside_it_too(glob: str) -> None:
    found = gradients(wb.override(glob, "zeros_like(d)"))
    assert all(np.all(g == 0) for g in found)


def test_scopes_of_another_name_are_left_alone() -> None:
    def f(x: Any) -> Any:
        with wb.scope("encoder2"):
            y = np.sin(x)
        with wb.scope("encoder"):
            return np.cos(y)

    stopped = wb.grad(f, overrides=[wb.override("encoder", "3 * g")])(0.7)
    assert stopped == pytest.approx(3 * np.cos(0.7))


def test_the_more_particular_target_wins_then_the_later_one() -> None:
    by_op = wb.override("tanh", "2 * d")
    by_scope = wb.override(lambda n: n.scope == "encoder" and n.op.name == "tanh", "d")
    assert_same(gradients(by_scope, by_op), by_hand(RULES["d"]))
    assert_same(gradients(by_op, by_scope), by_hand(RULES["d"]))
    # In a scope, an op's own override does not reach over that of the scope.
    scope, op = wb.override("encoder", "d"), wb.override("tanh", "-d")
    assert_same(gradients(scope, op), by_hand(RULES["d"]))
    first, second = wb.override("tanh", "-d"), wb.override("tanh", "g")
    assert_same(gradients(first, second), by_hand(RULES["g"]))
    assert_same(gradients(second, first), by_hand(RULES["-d"]))
    off = wb.override("tanh", "-d", enabled=False)
    assert_same(gradients(second, off), by_hand(RULES["g"]))


def test_nodes_that_a_derivative_made_are_none_of_the_program() -> None:
    """The gradient of x**2 multiplies; that multiplication is not the user's."""
    f = wb.grad(lambda x: x**2 * 1.5)
    given = [wb.override("multiply", "7 * d")]
    with pytest.raises(OverrideError, match="every multiply matches nothing"):
        wb.grad(lambda x: f(x) + 0.0, overrides=[wb.override("multiply", "d")])(2.0)
    assert wb.grad(lambda x: x**2 * 1.5, overrides=given)(2.0) == pytest.approx(42)


# Rules


def test_gradients_of_a_broadcast_shape_are_summed_back() -> None:
    f = lambda b: np.sum((X @ W1 + b) ** 2)  # noqa: E731
    true = wb.grad(f)(B1)
    for rule in ("g", lambda node, g: (g, g), "d"):
        found = wb.grad(f, overrides=[wb.override("add", rule)])(B1)
        assert_same([found], [true])


def test_clipping_a_bias_clips_its_summed_gradient() -> None:
    """`d` is what the true rule passes on, in the shape of the input."""
    f = lambda b: np.sum(3.0 * (X[:, :2] + b))  # noqa: E731
    clip = wb.override("add", "clip(d, -5, 5)")
    assert_same([wb.grad(f, overrides=[clip])(B1)], [np.array([5.0, 5.0])])


def test_several_inputs_have_their_own_names() -> None:
    x, y = np.array([0.3, -0.4]), np.array([2.0, 5.0])
    product = wb.override("multiply", "g * (x0 + 10 * x1 + 100 * x)")
    f = lambda x, y: np.sum(x * y)  # noqa: E731
    found = wb.grad(f, argnums=(0, 1), overrides=[product])(x, y)
    assert_same(found, [x + 10 * y + 100 * x, x + 10 * y + 100 * y])


def test_an_op_without_derivative_gets_one() -> None:
    f = lambda x: np.sum(np.round(x) ** 2)  # noqa: E731
    x = np.array([0.4, 1.6])
    assert_same([wb.grad(f)(x)], [np.zeros(2)])
    through = wb.override(lambda n: "rint" in n.op.name or "round" in n.op.name, "g")
    assert_same([wb.grad(f, overrides=[through])(x)], [2 * np.round(x)])
    assert_same(
        [wb.jvp(f, (x,), (np.ones(2),), overrides=[through])[1]],
        [np.sum(2 * np.round(x))],
    )


def test_none_is_no_gradient_and_settings_can_be_read() -> None:
    def rule(node: Any, g: Any) -> Any:
        assert node.get_attr("axis") == 0
        with pytest.raises(OverrideError, match="sum has no setting 'axes' here"):
            node.get_attr("axes")
        return [None]

    f = lambda x: np.sum(x, axis=0) @ W2 + np.sum(x)  # noqa: E731
    only = wb.override(lambda n: n.params.get("axis") == 0, rule)
    assert_same([wb.grad(f, overrides=[only])(X[:, :2])], [np.ones((4, 2))])


def test_a_rule_cannot_change_the_arrays_of_the_sweep() -> None:
    def rule(node: Any, g: Any) -> Any:
        g *= 2
        return g

    with pytest.raises(ValueError, match="read-only"):
        gradients(wb.override("tanh", rule))
    through = wb.override("square", lambda node, g: g)
    found = wb.grad(lambda x: np.sum(np.square(x)), overrides=[through])(np.ones(2))
    assert_same([found], [np.ones(2)])


def test_float32_stays_float32() -> None:
    x = np.float32([0.5, 3.0])
    for rule in ("clip(d, -1, 1)", "0.5 * d", lambda node, g: np.float64(2) * g):
        f = lambda x: np.sum(np.square(x))  # noqa: E731
        found = wb.grad(f, overrides=[wb.override("square", rule)])(x)
        assert found.dtype == np.float32


def test_the_branch_not_taken_stays_silent_through_an_override() -> None:
    f = lambda x: np.sum(np.where(x > 0, np.log(np.abs(x)), 0.0))  # noqa: E731
    x = np.array([0.0, 2.0])
    with np.errstate(all="ignore"):
        found = wb.grad(f, overrides=[wb.override("log", "2 * g / x")])(x)
    assert_same([found], [np.array([0.0, 1.0])])


# Blocks


def test_a_block_applies_to_every_derivative_inside() -> None:
    with wb.overrides(wb.override("tanh", "g")):
        assert_same(gradients(), by_hand(RULES["g"]))
        _, pullback = wb.vjp(np.tanh, 0.5)
        with wb.overrides(wb.override("tanh", "-d")):
            assert_same(gradients(), by_hand(RULES["-d"]))
        assert_same(gradients(wb.override("tanh", "d")), by_hand(RULES["d"]))
    assert_same(gradients(), by_hand(RULES["d"]))
    assert pullback(1.0)[0] == 1.0


def test_a_block_says_at_its_end_what_matched_nothing() -> None:
    block = wb.overrides(wb.override("tanh", "d"), wb.override("sinh", "d"))
    with pytest.raises(OverrideError) as caught, block:
        gradients()
    assert "on every sinh matches nothing in what the block differentiated" in str(
        caught.value
    )
    assert "Did you mean tanh" in str(caught.value) or "tanh" in str(caught.value)
    empty = wb.overrides(wb.override("tanh", "d"))
    with pytest.raises(OverrideError, match="no derivative was taken"), empty:
        pass
    with pytest.raises(ZeroDivisionError), wb.overrides(wb.override("tanh", "d")):
        raise ZeroDivisionError


# Errors


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sinh", ["every sinh matches nothing", "Its ops: ", "tanh"]),
        ("cbrt", ["A value computed from plain arrays alone is not a node: give"]),
        ("tahn", ["scope tahn matches nothing", "Did you mean", "the op 'tanh'"]),
        ("z", ["local variables of a function give no names", 'with wb.scope("z"):']),
        ("encodr/*", ["matches nothing", "the scope 'encoder'"]),
        ("nowhere/*", ["Its scopes: decoder, decoder/out, encoder"]),
        (lambda node: False, ["nodes where <lambda> matches nothing"]),
        (3, ["ids belong to a session", "use session.override"]),
    ],
)
def test_what_matches_nothing_is_told_what_was_close(
    target: Any, words: list[str]
) -> None:
    with pytest.raises(OverrideError) as caught:
        gradients(wb.override(target, "d"))
    for word in words:
        assert word in str(caught.value)
    assert "the function given to grad" in str(caught.value) or target == 3


def test_a_name_of_a_node_is_not_a_scope() -> None:
    def f(x: Any) -> Any:
        z = np.tanh(x)
        z.name = "z"
        return np.sum(z)

    x = np.zeros(2)
    with pytest.raises(OverrideError, match="A node is called 'z'") as caught:
        wb.grad(f, overrides=[wb.override("z", "0 * d")])(x)
    assert "wb.override(lambda node: node.name == 'z', ...)" in str(caught.value)
    named = wb.override(lambda node: node.name == "z", "0 * d")
    np.testing.assert_array_equal(wb.grad(f, overrides=[named])(x), 0)
    with pytest.raises(OverrideError, match="'x' is the name of an input"):
        wb.grad(f, overrides=[wb.override("x", "0 * d")])(x)


def test_a_scope_names_lines_of_a_plain_function() -> None:
    def f(x: Any) -> Any:
        with wb.scope("lin"):
            z = np.tanh(x)
        return np.sum(z)

    lin = wb.override("lin", "0 * d")
    np.testing.assert_array_equal(wb.grad(f, overrides=[lin])(np.zeros(2)), 0)
    assert f(np.zeros(2)) == 0


def test_a_tensor_of_another_program_is_no_target() -> None:
    h = wb.trace(np.tanh)(np.ones(2)).outputs[0]
    with pytest.raises(OverrideError, match="belongs to another program"):
        gradients(wb.override(h, "d"))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda node, g: (g, g), "returned 2 gradients; tanh has 1 input. Return one"),
        (lambda node, g: [], "returned 0 gradients; tanh has 1 input"),
        (lambda node, g: g[0], "the gradient of input 0 has shape (2,), the input has"),
        (lambda node, g: g > 0, "of dtype bool"),
        (lambda node: 0, "tanh has 1 output"),
        (lambda node, g, h: 0, "Write rule(node, g)"),
        ("mean(d)", "has shape (), the input has (4, 2)"),
        ("d > 0", "where(x > 0, d, 0)"),
        ("x1 * d", "tanh has 1 input, the last is x: x1 at character 1"),
        ("norm(d, axis=5)", "'norm(d, axis=5)' failed"),
    ],
)
def test_a_rule_that_does_not_fit_is_told_so(rule: Any, words: str) -> None:
    with pytest.raises(OverrideError) as caught:
        gradients(wb.override("tanh", rule))
    assert words in str(caught.value)


def test_an_error_names_the_override_the_node_and_the_line() -> None:
    with pytest.raises(OverrideError) as caught:
        gradients(wb.override("tanh", lambda node, g: (g, g), name="twice"))
    assert "override 'twice' on tanh float64[4, 2] (at network.py:" in str(caught.value)
    assert "h = np.tanh(X @ w1 + b1)" in str(caught.value)


def test_two_inputs_want_two_gradients() -> None:
    with pytest.raises(OverrideError, match="returned 1 gradient; matmul has 2 inputs"):
        wb.grad(
            lambda a, b: np.sum(a @ b),
            argnums=(0, 1),
            overrides=[wb.override("matmul", lambda node, g: g)],
        )(W1, W2)


def test_straight_through_needs_the_same_shape() -> None:
    with pytest.raises(
        OverrideError, match=r"has shape \(4,\), the input has \(4, 2\)"
    ):
        gradients(wb.override("matmul", "g"))


def test_an_override_without_a_rule_is_refused() -> None:
    with pytest.raises(OverrideError, match="of 'tanh' has no vjp: give the reverse"):
        wb.override("tanh")
    with pytest.raises(OverrideError, match="has no vjp"):
        wb.override("tanh", jvp="t")
    with pytest.raises(OverrideError, match=r"every log has no vjp.*clip\(d, -1, 1\)"):
        wb.Session(wb.trace(np.log)(1.0)).override("log", None)
    with pytest.raises(OverrideError, match="vjp=3 is not a rule"):
        wb.override("tanh", 3)  # type: ignore[arg-type]
    with pytest.raises(OverrideError, match="cannot target None"):
        wb.override(None, "d")
    with pytest.raises(OverrideError, match=r"is not an override\. Make one with"):
        wb.grad(np.tanh, overrides=["tanh"])(1.0)  # type: ignore[list-item]
    with pytest.raises(ExpressionError, match="unknown name 'e'"):
        wb.override("tanh", "clip(e, -1, 1)")


def test_an_override_is_a_value_that_says_what_it_is() -> None:
    one = wb.override("tanh", "clip(d, -0.1, 0.1)")
    with pytest.raises(AttributeError):
        one.enabled = False  # type: ignore[misc]
    assert repr(one) == "<override 'clip ±0.1' on every tanh>"
    named = wb.override("tanh", "clip(d, -0.1, 0.1)", name="clip ±0.1")
    assert named.name is None  # which is what it is called anyhow
    assert wb.override("tanh", "true").rule == "d"
    off = wb.override("encoder/*", lambda node, g: g, name="mine", enabled=False)
    assert repr(off) == "<override 'mine' on scope encoder/*, off>"


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        ("clip(d,-1,1)", "clip ±1"),
        ("clip(d, -0.5, 1e-6)", "clip −0.5 … 1e−6"),
        ("0.25*d", "scale ×0.25"),
        ("-1.5e10 * d", "scale ×−15000000000"),
        ("zeros_like( d )", "stop"),
        ("-d", "reverse"),
        ("g", "straight-through"),
        ("d", "true"),
        ("g * (1 - y**2)", "g * (1 - y**2)"),
        ("d" + " + d" * 20, "d + d + d + d + d + d + d +…"),
    ],
)
def test_labels_are_those_of_the_form(rule: str, label: str) -> None:
    assert label_of(rule) == label


def test_of_a_complex_gradient_of_a_real_input_the_real_part_counts() -> None:
    turned = wb.override("tanh", lambda node, g: g * (2 + 3j))
    found = wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[turned])(np.ones(2))
    assert_same([found], [np.full(2, 2.0)])
    own = wb.custom_vjp(lambda x: 5 * x, vjp=lambda node, g: g * (2 + 3j))
    assert_same([wb.grad(own)(1.0)], [np.float64(2.0)])


@pytest.mark.parametrize("name", ["\ud800", "x" * 201, 5, ["a"]])
def test_a_name_that_no_page_could_show_is_refused(name: Any) -> None:
    with pytest.raises(OverrideError, match="is not a name of an override") as caught:
        wb.override("tanh", "d", name=name)
    assert len(str(caught.value)) < 200
