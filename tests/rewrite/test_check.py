"""`wb.rewrite_rule`: right rules are accepted, wrong ones refused, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.rewrite.graphs import run, simplify_soundly
from workbench.errors import RewriteError, UsageError

Side = Callable[..., Any]

RIGHT: dict[str, tuple[Side, Side]] = {
    "double": (lambda x: x + x + x, lambda x: 3 * x),
    "circle": (lambda x: 1 - np.cos(x) ** 2, lambda x: np.sin(x) ** 2),
    "line": (lambda a, x, b: a * x + b, lambda a, x, b: b + x * a),
    "ufunc": (np.square, lambda x: x * x),
    "sum of doubles": (lambda x: np.sum(x * 2), lambda x: np.sum(x) * 2),
    "matrices": (lambda a, b: a @ b.T, lambda a, b: (b @ a.T).T),
    "third": (lambda x: x * 0.25, lambda x: x / 4),
}  # fmt: skip
WRONG: dict[str, tuple[Side, Side, str]] = {
    "other value": (
        np.sin, lambda x: np.cos(x),
        r"the rewrite rule 'mine' changes what a program computes: for x0 = [\d.-]+ the"
        r" value [\d.-]+ becomes [\d.-]+\. Give it a condition \(when=\); fast=True"
        " accepts",
    ),
    "NaN goes": (lambda x: x * 0, lambda x: np.zeros_like(x),
                 "for x = inf the value nan becomes 0.0"),
    "zero": (lambda x: x / x, lambda x: np.ones_like(x),
             "for x = 0.0 the value nan becomes 1.0"),
    "overflow": (lambda x: np.log(np.exp(x)), lambda x: x,
                 r"for x = 1e\+300 the value inf becomes 1e\+300"),
    "negative numbers": (lambda x: np.sqrt(x * x), lambda x: x, "for x = -"),
    "two wildcards": (lambda x, y: x - y, lambda x, y: y - x,
                      r"for x = [\d.-]+, y = [\d.-]+ the value"),
    "shape": (np.sin, lambda x: np.sum(np.sin(x)), r"shape \(4,\) becomes \(\)"),
    "dtype": (np.sin, lambda x: np.sin(x).astype("f4"), "float64 becomes float32"),
    "random": (lambda x: np.random.normal() + x, lambda x: x + x, "the value"),
    "number of wildcards": (
        np.sin, lambda x, y: np.sin(x),
        "right side of the rewrite rule 'mine' fails where the left does not: .*'y'"),
    "no op": (lambda x: x, lambda x: x,
              "the left side of the rewrite rule 'mine': .*nothing"),
    "constant": (lambda x: 1.0, lambda x: x, "the left side .*returns a constant"),
    "fails": (lambda x: x.foo, lambda x: x,
              "^the left side of the rewrite rule 'mine' fails: AttributeError"),
    "unread": (lambda x, y: x * 2, lambda x, y: x + x, "it does not read 'y'"),
    "two values": (lambda x: (x, x), lambda x: x, "the left side .*returns 2 values"),
}  # fmt: skip


@pytest.mark.parametrize(("left", "right"), RIGHT.values(), ids=RIGHT)
def test_a_right_rule_is_accepted(left: Side, right: Side) -> None:
    made = wb.rewrite_rule("mine", left, right)
    assert made.name == "mine"
    assert made.group == "user"
    assert made.site[0] == __file__


@pytest.mark.parametrize(("left", "right", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_refused(left: Side, right: Side, text: str) -> None:
    with pytest.raises(RewriteError, match=text):
        wb.rewrite_rule("mine", left, right)


def test_a_rule_of_matrices_is_tried_where_all_entries_are_positive() -> None:
    """Elsewhere both sides are NaN, which tells nothing of them."""
    left = lambda x: np.trace(np.log(x) @ np.log(x.T))  # noqa: E731
    wb.rewrite_rule("mine", left, lambda x: np.sum(np.log(x) ** 2))
    with pytest.raises(RewriteError, match="'mine' changes what a program computes"):
        wb.rewrite_rule("mine", left, lambda x: np.sum(np.log(x)) ** 2)


def test_a_side_that_is_no_function() -> None:
    wrong: Any = 3
    with pytest.raises(RewriteError, match="the left side of the rewrite rule 'mine'"):
        wb.rewrite_rule("mine", wrong, lambda x: x)
    with pytest.raises(RewriteError, match="right side of the rewrite rule 'mine'"):
        wb.rewrite_rule("mine", lambda x: x * 2, wrong)


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_that_is_no_text(name: Any) -> None:
    with pytest.raises(RewriteError, match="name of a rewrite rule is a text, not"):
        wb.rewrite_rule(name, np.sin, np.sin)


@pytest.mark.parametrize("name", ["one times x", "constants", "equal nodes"])
def test_a_name_that_is_taken(name: str) -> None:
    with pytest.raises(RewriteError, match=f"a rewrite rule called '{name}' already"):
        wb.rewrite_rule(name, np.square, lambda x: x * x)


def test_fast_accepts_what_is_wrong_for_special_numbers_alone() -> None:
    made = wb.rewrite_rule(
        "whole", lambda x: x / x, lambda x: np.ones_like(x), fast=True
    )
    x = wb.vector("x", shape=2)
    graph = simplify_soundly(wb.Graph([x], [x / x]), [made])
    assert [step.name for step in graph.steps] == ["whole"]
    np.testing.assert_array_equal(run(graph, [np.array([0.0, np.nan])])[0], [1, 1])
    with pytest.raises(RewriteError, match="the value"):
        wb.rewrite_rule("worse", lambda x: x / x, lambda x: 2 + 0 * x, fast=True)


def test_when_a_rule_holds_under_a_condition() -> None:
    """On numbers it is asked as in a program; there it is asked of Tensors."""

    def is_small(bound: Any) -> bool:
        asked.append(bound)
        return all(x.ndim == 1 for x in bound.values())

    asked: list[Any] = []
    made = wb.rewrite_rule("mine", np.square, lambda x: x * x, when=is_small)
    assert asked
    assert all(set(bound) == {"x0"} for bound in asked)
    x, y = wb.vector("x", shape=2), wb.matrix("y", shape=(2, 2))
    graph = simplify_soundly(wb.Graph([x, y], [np.square(x), np.square(y)]), [made])
    assert [step.name for step in graph.steps] == ["mine"]
    assert [z.op.name for z in graph.outputs] == ["multiply", "square"]


def test_a_condition_makes_a_wrong_rule_right() -> None:
    def is_positive(bound: Any) -> bool:
        x = bound["x"]
        return bool(np.all(np.asarray(x) >= 0)) if isinstance(x, np.ndarray) else False

    wb.rewrite_rule("mine", lambda x: np.sqrt(x * x), lambda x: x, when=is_positive)


def test_a_condition_that_never_holds() -> None:
    with pytest.raises(RewriteError, match="'mine' could be tried on no numbers"):
        wb.rewrite_rule("mine", np.square, lambda x: x * x, when=lambda bound: False)


def test_a_rule_goes_before_those_of_the_tables() -> None:
    made = wb.rewrite_rule("twice", lambda x: x + x, lambda x: np.multiply(x, 2.0))
    x = wb.scalar("x")
    graph = simplify_soundly(wb.Graph([x], [x + x]), [made])
    assert [str(step) for step in graph.steps] == ["1. twice: x + x → x * 2"]
    assert str(made) == "<rewrite rule 'twice': x + x → np.multiply(x, 2.0)>"
    off = simplify_soundly(wb.Graph([x], [x + x]), [made], without="twice")
    assert [step.name for step in off.steps] == ["x plus x"]


def test_a_rule_that_would_change_a_dtype_in_a_program_does_not_fire() -> None:
    """It was tried on float64; where it makes another dtype it is not applied."""
    made = wb.rewrite_rule("mine", np.square, lambda x: x * np.float64(1) * x)
    specs = [wb.Spec((2,), "float32")]
    graph = simplify_soundly(wb.trace(lambda x: np.square(x))(*specs), [made])
    assert not graph.steps


def test_what_is_no_rule() -> None:
    x = wb.scalar("x")
    wrong: Any = "one times x"
    with pytest.raises(UsageError, match=r"'one times x' is not a rewrite rule. Make"):
        wb.simplify(wb.Graph([x], [x]), [wrong])
