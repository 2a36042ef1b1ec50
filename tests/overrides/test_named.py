"""Rules by name: registered, meant by texts everywhere, and data."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    ExpressionError,
    OverrideError,
    RegistrationError,
    UsageError,
)
from workbench.overrides.allowed_ops import list_functions
from workbench.overrides.named import RULES
from workbench.overrides.rule_parser import BoundRule, parse_rule

X = np.array([0.5, -1.0])


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """What a test registers is gone after it."""
    wb.rules.scale(1)
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)


def total(x: Any) -> Any:
    return np.sum(np.tanh(x))


def gradient(rule: Any, **more: Any) -> Any:
    return wb.grad(total, overrides=[wb.override("tanh", rule, **more)])(X)


def test_E3_a_text_means_the_rule_of_that_name() -> None:
    @wb.named_rule("by_two")
    def by_two(node: Any, g: Any, *, also: float = 0.0, flip: bool = False) -> Any:
        (d,) = node.vjp(g)
        return (-2 if flip else 2) * d + also

    d = 1 - np.tanh(X) ** 2
    np.testing.assert_allclose(gradient("by_two"), 2 * d)
    np.testing.assert_allclose(gradient(" by_two ( ) "), 2 * d)
    np.testing.assert_allclose(gradient("by_two(also=-1.5)"), 2 * d - 1.5)
    np.testing.assert_allclose(gradient("by_two(flip=True, also=+1)"), 1 - 2 * d)
    np.testing.assert_allclose(gradient(by_two), 2 * d)  # the function stays one
    one = wb.override("tanh", "by_two(also=0.5)")
    assert (one.data, one.stored) == (True, True)
    assert (one.rule, one.label) == ("by_two(also=0.5)", "by two also=0.5")
    assert wb.override("tanh", "by_two").label == "by two"


def test_before_the_name_was_known_it_was_read_as_an_expression() -> None:
    """Now it is told what names there are, and how one is registered."""
    with pytest.raises(ExpressionError) as caught:
        wb.override("sin", "safe_sqr")
    assert "Did you mean safe_sqrt" in str(caught.value)
    assert '@wb.named_rule("safe_sqr")' in str(caught.value).replace("'", '"')
    with pytest.raises(ExpressionError, match=r"help\(wb\.rules\) lists the rules"):
        wb.override("sin", "entirely_else(a=1)")
    with pytest.raises(ExpressionError, match="Did you mean tanh"):
        wb.override("sin", "tanhh(x)")


@pytest.mark.parametrize("text", ["clipp(d, -1, 1)", "clip(dd, -1, 1)", "safe_sqr"])
def test_an_unknown_name_gets_the_close_ones_and_not_all(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        wb.override("sin", text)
    said = str(caught.value)
    assert "lists the rules" in said or "Functions are NumPy's" in said
    assert len(said) < 360
    # What it names to look at has all of them.
    shown = pydoc.render_doc(wb.rules, renderer=pydoc.plaintext)
    assert {name for name in wb.rules.__all__ if name in RULES} <= {
        *re.findall(r"\w+", shown)
    }
    for text in ("safe_sqrt * 2", "2 * safe_sqrt(eps=1)", "safe_sqrt(eps=1) + d"):
        with pytest.raises(ExpressionError, match="stands alone"):
            wb.override("sqrt", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one(1)", "settings have names"),
        ("one(size=g)", "size is not a finite number"),
        ("one(size=1e999)", "size is not a finite number"),
        ("one(size=1j)", "size is not a finite number"),
        ("one(size=f())", "size is not a finite number"),
        ("one(size=-True)", "size is not a number"),
        ("one(size=--1)", "size is not a number"),
        ("one(size=(1))(2)", "stands alone"),
        ("one(size=1).real", "stands alone"),
        ("one(**x)", r"\*\* has no meaning"),
        ("one(*x)", "settings have names"),
        ("one(sise=1)", r"no setting sise \(did you mean size\?\)"),
        ("one(other=1)", "takes size, sure=True"),
        ("one()", "the setting size is missing"),
        ("one(size=1, size=2)", "stands there twice"),
        ("one(size='a')", "has no meaning"),
        ("one(size=1", "unknown name|not an expression|was never closed"),
        ("one(size=[1])", "has no meaning"),
        ("one(size=__import__)", "size is not a finite number"),
        ("one(size=lambda: 1)", "has no meaning"),
        ("one(size=" + "9" * 400 + ")", "size is not a finite number"),
    ],
)
def test_settings_are_names_with_numbers(text: str, words: str) -> None:
    @wb.named_rule("one")
    def one(node: Any, g: Any, *, size: float, sure: bool = True) -> Any:
        raise AssertionError("it must not run")

    with pytest.raises(ExpressionError, match=words):
        wb.override("tanh", text)
    assert parse_rule("one(size=-1_0)").settings == {"size": -10}  # type: ignore[union-attr]
    assert parse_rule("one(size=None, sure=False)").settings == {  # type: ignore[union-attr]
        "size": None,
        "sure": False,
    }


def test_a_rule_may_take_any_setting() -> None:
    @wb.named_rule("every")
    def rule(node: Any, g: Any, **settings: Any) -> Any:
        return g * sum(settings.values())

    np.testing.assert_array_equal(gradient("every(a=1, b=2.5)"), [3.5, 3.5])


@pytest.mark.parametrize(
    "name", ["clip", "norm", "g", "d", "x", "y", "t", "x0", "t12", "true", "zero"]
)
def test_a_name_of_the_language_cannot_be_that_of_a_rule(name: str) -> None:
    with pytest.raises(RegistrationError, match=f"my_{name}"):
        wb.named_rule(name)(lambda node, g: g)


def test_no_function_of_the_language_can_be_shadowed() -> None:
    functions = [*filter(str.isidentifier, list_functions())]
    for name in functions:
        with pytest.raises(RegistrationError):
            wb.named_rule(name)(lambda node, g: g)
    assert not {*functions} & {*RULES}


@pytest.mark.parametrize("name", ["", "two words", "é", "a" * 41, "class", "1a", "a.b"])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(RegistrationError, match="cannot be the name of a rule"):
        wb.named_rule(name)(lambda node, g: g)


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"Write @wb.named_rule"):
        wb.named_rule(lambda node, g: g)  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="decorate a function"):
        wb.named_rule("mine")(3)  # type: ignore[type-var]
    with pytest.raises(RegistrationError, match="is not a forward rule"):
        wb.named_rule("mine", jvp=3)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match="unknown name 'q'"):
        wb.named_rule("mine", jvp="q")
    with pytest.raises(RegistrationError, match=r"the default array\(\["):
        wb.named_rule("mine")(lambda node, g, *, a=X: g)


def test_a_cell_that_runs_again_replaces_its_rule_and_another_may_not() -> None:
    def cell(factor: float) -> None:
        @wb.named_rule("of_a_cell")
        def rule(node: Any, g: Any) -> Any:
            return factor * g

    cell(2.0)
    given = wb.override("tanh", "of_a_cell")
    session = wb.Session(wb.trace(total)(X))
    session.override("tanh", "of_a_cell")
    np.testing.assert_array_equal(session.grads["x"], [2, 2])
    cell(3.0)
    # A text means what has that name when it runs.
    np.testing.assert_array_equal(wb.grad(total, overrides=[given])(X), [3, 3])

    def another(node: Any, g: Any) -> Any:
        return g

    with pytest.raises(RegistrationError, match=r"is registered already, by .*cell"):
        wb.named_rule("of_a_cell")(another)
    with pytest.raises(RegistrationError, match="is registered already"):
        wb.named_rule("safe_sqrt")(another)


def test_a_rule_that_is_gone_is_told_where_it_runs() -> None:
    @wb.named_rule("soon_gone")
    def rule(node: Any, g: Any) -> Any:
        return g

    given = wb.override("tanh", "soon_gone")
    del RULES["soon_gone"]
    assert given.label == "soon_gone"
    with pytest.raises(ExpressionError, match=r"help\(wb\.rules\) lists"):
        wb.grad(total, overrides=[given])(X)


# Forward mode


def test_B5_a_linear_rule_is_transposed_another_is_an_error() -> None:
    @wb.named_rule("triple")
    def triple(node: Any, g: Any) -> Any:
        return 3 * g

    @wb.named_rule("bent")
    def bent(node: Any, g: Any) -> Any:
        return np.abs(g)

    push = lambda rule, **more: wb.jvp(  # noqa: E731
        total, (X,), (np.ones(2),), overrides=[wb.override("tanh", rule, **more)]
    )[1]
    assert push("triple") == 6
    assert push("d", jvp="triple") == 6
    with pytest.raises(OverrideError, match="'bent' on tanh"):
        push("bent")
    true = np.sum(1 - np.tanh(X) ** 2)
    np.testing.assert_allclose(push("bent", jvp="true"), true)


@pytest.mark.parametrize(
    ("jvp", "expected"),
    [
        ("true", np.sum(1 - np.tanh(X) ** 2)),
        ("5 * t", 10.0),
        (lambda node, t, *, by=7.0: by * t, 14.0),
    ],
)
def test_B5_a_rule_says_what_it_does_forwards(jvp: Any, expected: float) -> None:
    @wb.named_rule("both_ways", jvp=jvp)
    def rule(node: Any, g: Any, *, by: float = 7.0) -> Any:
        return by * np.sign(g)

    np.testing.assert_array_equal(gradient("both_ways"), [7, 7])
    given = [wb.override("tanh", "both_ways")]
    tangent = wb.jvp(total, (X,), (np.ones(2),), overrides=given)[1]
    np.testing.assert_allclose(tangent, expected)
    given = [wb.override("tanh", "clip(d, -1, 1)", jvp="both_ways")]
    tangent = wb.jvp(total, (X,), (np.ones(2),), overrides=given)[1]
    np.testing.assert_allclose(tangent, expected)
    # Hessians follow it forwards, or find their way back.
    given = [wb.override("tanh", "both_ways")]
    np.testing.assert_array_equal(wb.hessian(total, overrides=given)(X), 0)


# Where texts are rules


def test_in_sessions_and_the_form_of_the_page() -> None:
    graph = wb.trace(lambda x: np.sum(np.sqrt(x)))(np.array([0.0, 4.0]))
    with np.errstate(divide="ignore"):
        session, fresh = wb.Session(graph), wb.Session(graph)
    assert session.check_rule("sqrt", "safe_sqrt(eps=1e-3)") == "ok"
    with pytest.raises(ExpressionError, match="takes eps=1e-06"):
        session.check_rule("sqrt", "safe_sqrt(epsilon=1)")
    one = session.override("sqrt", "safe_sqrt(eps=1e-3)")
    np.testing.assert_allclose(session.grads["x"], [0, 0.25])
    assert one.data
    assert "vjp='safe_sqrt(eps=1e-3)'" in session.code()
    again = session.override("sqrt", "safe_sqrt(eps=1e-3)")
    assert again.id == one.id
    exec(session.code(), {session.name: fresh, "wb": wb})
    np.testing.assert_allclose(fresh.grads["x"], [0, 0.25])


def test_a_rule_that_looks_at_values_passes_the_form() -> None:
    """The form tries it on shapes alone, which may be too little for a function."""

    @wb.named_rule("looks")
    def looks(node: Any, g: Any) -> Any:
        return g if np.sum(g) > 0 else -g

    session = wb.Session(wb.trace(total)(X))
    assert session.check_rule("tanh", "looks") == "ok"
    session.override("tanh", "looks")
    np.testing.assert_array_equal(session.grads["x"], [1, 1])


def test_in_ops_made_of_graphs() -> None:
    x = wb.vector("x")
    op = wb.OpFromGraph([x], [np.sqrt(x)], vjp="2 * g")
    np.testing.assert_array_equal(wb.grad(lambda v: np.sum(op(v)))(abs(X)), [2, 2])
    with pytest.raises(UsageError, match="made for sqrt, not for an op made of a"):
        wb.OpFromGraph([x], [np.sqrt(x)], vjp="safe_sqrt")

    @wb.named_rule("halved", jvp="t / 2")
    def halved(node: Any, g: Any) -> Any:
        return g / 2

    for rules in ("halved", ["halved"]):
        op = wb.OpFromGraph([x], [np.sin(x)], vjp=rules, jvp=rules)
        f = lambda v, op=op: np.sum(op(v))  # noqa: E731
        np.testing.assert_array_equal(wb.grad(f)(X), [0.5, 0.5])
        np.testing.assert_array_equal(wb.jvp(op, (X,), (X,))[1], X / 2)


def test_E1_a_name_is_registered_for_an_op_as_a_function_is() -> None:
    class NamedHalf(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.sin(x)

    @wb.named_rule("half_of_sine")
    def rule(node: Any, g: Any, *, part: float = 0.5) -> Any:
        return part * g * np.cos(node.inputs[0])

    wb.register_gradient("named_half")("half_of_sine(part=0.25)")
    f = lambda x: np.sum(NamedHalf()(x))  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(X), 0.25 * np.cos(X))
    with pytest.raises(RegistrationError, match="or the name of a rule"):
        wb.register_gradient("named_half")("0.5 * g")


def test_in_a_jvp_that_is_not_given_the_op_says_so() -> None:
    @wb.named_rule("backwards_only")
    def rule(node: Any, g: Any) -> Any:
        return g

    x = wb.vector("x")
    with pytest.raises(UsageError, match="backwards_only has no rule for forward mode"):
        wb.OpFromGraph([x], [np.sin(x)], jvp="backwards_only")


def test_E3_rules_of_nodes_are_stored_and_functions_are_not() -> None:
    nodes = wb.graph_rule(
        inputs=["x", "dy"], returns=["dx"], nodes=[(["dx"], "negative", ["dy"], {})]
    )
    one = wb.override("tanh", nodes)
    assert (one.data, one.stored) == (False, True)
    mixed = wb.override("tanh", "d", jvp=lambda node, t: t)
    assert (mixed.data, mixed.stored) == (False, False)
    assert wb.override("tanh", "d", jvp="t").data
    assert wb.override("tanh", nodes, jvp="true").stored


def test_the_kind_that_a_text_is() -> None:
    assert isinstance(parse_rule("safe_log"), BoundRule)
    assert isinstance(parse_rule("noise(scale=1, seed=2)"), BoundRule)
    assert not isinstance(parse_rule("clip(d, -1, 1)"), BoundRule)
    with pytest.raises(ExpressionError, match="not int"):
        parse_rule(3)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match="1001 characters"):
        parse_rule("a" * 1001)


def test_shipped_rules_load_when_one_is_first_asked_for() -> None:
    code = """
import sys, workbench as wb
assert "workbench.overrides.shipped.safe" not in sys.modules
one = wb.override("tanh", "clip(d, -1, 1)")
assert one.label == "clip ±1"
assert "workbench.overrides.shipped.safe" not in sys.modules
assert wb.override("sqrt", "safe_sqrt").label == "safe sqrt"
assert "workbench.overrides.shipped.safe" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_positions_tell_nodes_apart() -> None:
    seen = []

    @wb.named_rule("where_am_i")
    def rule(node: Any, g: Any) -> Any:
        seen.append((node.position, node.names))
        return g

    f = lambda x: np.sum(np.tanh(np.tanh(x)))  # noqa: E731
    wb.grad(f, overrides=[wb.override("tanh", "where_am_i")])(X)
    assert sorted(seen) == [(0, ("x",)), (1, (None,))]


def test_many_nodes_are_read_once() -> None:
    """A named rule on every node of a long chain takes linear time."""
    calls = 0

    @wb.named_rule("counted")
    def rule(node: Any, g: Any) -> Any:
        nonlocal calls
        calls += 1
        return g

    def chain(x: Any) -> Any:
        for _ in range(5000):
            x = np.tanh(x)
        return x

    assert wb.grad(chain, overrides=[wb.override("tanh", "counted")])(0.5) == 1
    assert calls == 5000
