"""Where a pattern stands in a program: structure, constants, order, errors, time.

The truth is what stands in the program's text, line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import OPS
from workbench.errors import OverrideError
from workbench.overrides.patterns import ByPattern
from workbench.rewrite import forms, patterns
from workbench.rewrite.forms import PatternForm
from workbench.rewrite.patterns import Matcher

V = wb.Spec((3,), float)
M = wb.Spec((3, 3), float)
S = wb.Spec((), float)
V_A = np.array([0.5, -1.0, 2.0])


def matches(
    pattern: Callable[..., Any] | ByPattern, program: Callable[..., Any], *specs: Any
) -> list[Any]:
    """The matches of a pattern in a program, in order."""
    if not isinstance(pattern, ByPattern):
        pattern = wb.pattern(pattern)
    nodes = [node for node in wb.trace(program)(*specs).nodes if node.inputs]
    return pattern.find_matches(nodes).found


def test_a_wildcard_is_any_value_of_any_rank() -> None:
    def program(A: Any, B: Any, x: Any) -> Any:
        one = A @ B + 1.0  # matrices, a number
        two = x @ A + x  # a row from the left
        three = A @ x + np.ones(3)  # an array of the program's own
        return np.sum(one) + np.sum(two) + np.sum(three) + np.sum(A * B + x)

    found = matches(lambda W, x, b: W @ x + b, program, M, M, V)
    assert [m.root.shape for m in found] == [(3, 3), (3,), (3,)]
    assert [m.root.op.name for m in found] == ["add"] * 3
    assert found[0].bound[2] == 1.0
    assert found[1].bound[0].name == "x"
    assert found[1].bound[1].name == "A"


def test_wildcards_are_bound_in_the_order_of_the_parameters() -> None:
    def program(p: Any, q: Any, r: Any) -> Any:
        return p - q * r

    (found,) = matches(lambda c, a, b: b - a * c, program, V, V, V)
    assert [x.name for x in found.bound] == ["r", "q", "p"]


def test_constants_are_equal_constants() -> None:
    def program(x: Any) -> Any:
        return [2 * x + 1, 2 * x + 2, x * 2.0 + 1, x**2, x**3, 2 * x - 1, 1 + x * 2]

    found = matches(lambda x: 2 * x + 1, program, V)
    assert len(found) == 3  # in either order, and 2.0 is 2
    assert len(matches(lambda x: x**2, program, V)) == 1
    arrays = matches(lambda x: x + np.array([1, 2]), lambda x: [
        x + np.array([1, 2]), x + np.array([1, 3]), x + 1
    ], wb.Spec((2,), float))  # fmt: skip
    assert len(arrays) == 1


def test_a_repeated_wildcard_is_one_value() -> None:
    def program(x: Any, y: Any) -> Any:
        return [x * np.tanh(x), np.tanh(x) * x, x * np.tanh(y), y * np.tanh(y)]

    found = matches(lambda x: x * np.tanh(x), program, V, V)
    assert [m.bound[0].name for m in found] == ["x", "x", "y"]
    both = matches(lambda a, b: (a + b) * (a - b), lambda x, y: (y + x) * (x - y), V, V)
    assert [x.name for x in both[0].bound] == ["x", "y"]


@pytest.mark.parametrize(
    "name", sorted(name for name, op in OPS.items() if op.traits.commutative)
)
def test_commutative_ops_match_in_either_order(name: str) -> None:
    op = getattr(np, name)
    kind = int if name.startswith("bitwise") else float
    a, b = np.ones(3, kind), np.full(3, 2, kind)
    assert np.array_equal(op(a, b), op(b, a))  # that it is one, said by NumPy

    def program(u: Any) -> Any:
        v = u.astype(kind)
        return [op(np.negative(v), a), op(a, np.negative(v)), op(v, a)]

    found = matches(lambda x, y: op(np.negative(x), y), program, V)
    assert len(found) == 2


def test_ops_that_do_not_commute_do_not() -> None:
    program = lambda x, y: [np.exp(x) - y, y - np.exp(x), y / np.exp(x)]  # noqa: E731
    assert len(matches(lambda a, b: np.exp(a) - b, program, V, V)) == 1
    assert len(matches(lambda a, b: np.exp(a) / b, program, V, V)) == 0


def test_settings_are_those_that_the_function_records_for_these_shapes() -> None:
    def program(A: Any, x: Any) -> Any:
        return [
            np.sum(A, axis=-1), np.sum(A, axis=0), np.sum(A), np.sum(x),
            A / np.sum(A, axis=1, keepdims=True), A.reshape(-1), A.reshape(3, 3),
        ]  # fmt: skip

    assert len(matches(lambda a: np.sum(a, axis=-1), program, M, V)) == 1
    assert len(matches(lambda a: np.sum(a), program, M, V)) == 2
    rows = matches(lambda a: a / np.sum(a, axis=1, keepdims=True), program, M, V)
    assert len(rows) == 1
    assert len(matches(lambda a: a.reshape(-1), program, M, V)) == 1
    # A setting that depends on the shape: the pattern is asked for this very shape.
    halves = matches(
        lambda a: a[: a.shape[0] // 2], lambda x: [x[:5], x[:4]], wb.Spec((10,), float)
    )
    assert len(halves) == 1
    mean = matches(
        lambda a: np.sum(a) / a.size, lambda x: [np.sum(x) / 10, np.sum(x) / 9],
        wb.Spec((10,), float),
    )  # fmt: skip
    assert len(mean) == 1


def test_what_a_function_does_with_numbers_is_another_structure() -> None:
    def program(A: Any, x: Any, s: Any) -> Any:
        return [np.dot(A, x) + x, 0.1 * s + s, s * x + x]

    assert len(matches(lambda W, x, b: np.dot(W, x) + b, program, M, V, S)) == 1
    assert len(matches(lambda w, x, b: w * x + b, program, M, V, S)) == 2


def test_several_outputs_and_indices() -> None:
    def pattern(a: Any, b: Any) -> Any:
        q, r = np.linalg.qr(a)
        return r @ (q.T @ b)

    def program(A: Any, B: Any, x: Any) -> Any:
        q, r = np.linalg.qr(A)
        p, s = np.linalg.qr(B)
        return [r @ (q.T @ x), s @ (q.T @ x), s @ (p.T @ x)]

    found = matches(pattern, program, M, M, V)
    assert [m.bound[0].name for m in found] == ["A", "B"]
    assert [node.op.name for node in found[0].nodes].count("qr") == 1
    index = wb.pattern(lambda t, i: np.exp(t[i]))
    at = np.array([0, 2])
    assert len(matches(index, lambda x: [np.exp(x[at]), np.exp(x[1:])], V)) == 1
    choice = wb.pattern(lambda c, a, b: np.where(c, a, b))
    assert len(matches(choice, lambda x: np.where(x > 0, x, 0), V)) == 1


def test_a_condition_sees_what_the_wildcards_stand_for() -> None:
    def program(A: Any, x: Any) -> Any:
        return [A @ x + x, x @ x + 1.0, A @ A + 2]

    seen: list[Any] = []

    def where(m: Any) -> bool:
        seen.append({name: (x.ndim, x.dtype.kind) for name, x in m.items()})
        return bool(m["W"].ndim == 2 and m["x"].ndim == 1)

    found = matches(wb.pattern(lambda W, x, b: W @ x + b, where), program, M, V)
    assert len(found) == 1
    assert seen[1] == {"W": (1, "f"), "x": (1, "f"), "b": (0, "f")}
    # Where one order is refused, the other is tried.
    either = wb.pattern(lambda a, b: a + b, lambda m: m["a"].ndim == 2)
    (found_one,) = matches(either, lambda A, x: x + A, M, V)
    assert [x.name for x in found_one.bound] == ["A", "x"]


def test_unknown_lengths_and_functions_with_a_name() -> None:
    def linear(W: Any, x: Any, b: Any = 3) -> Any:  # a default is a constant
        return W @ x + b

    W, x = wb.matrix("W"), wb.vector("x")
    y = [W @ x + 3, W @ x + 4, np.sum(W @ x + 3)]
    nodes = [n for n in wb.Graph([W, x], y).nodes if n.inputs]
    assert len(wb.pattern(linear).find_matches(nodes).found) == 2
    soft = wb.pattern(lambda z: np.exp(z) / np.sum(np.exp(z), axis=-1, keepdims=True))
    z = W @ x
    y = [np.exp(z) / np.sum(np.exp(z), axis=-1, keepdims=True)]
    nodes = [n for n in wb.Graph([W, x], y).nodes if n.inputs]
    assert len(soft.find_matches(nodes).found) == 1


def test_ufuncs_and_closures_are_patterns() -> None:
    assert len(matches(np.tanh, lambda x: np.tanh(np.tanh(x)), V)) == 2
    factor = 0.25
    scaled = wb.pattern(lambda x: factor * x)
    assert len(matches(scaled, lambda x: [0.25 * x, 0.5 * x], V)) == 1
    assert wb.pattern(np.add).names == ("x0", "x1")


# Time


def test_deep_and_wide_programs_are_searched_in_linear_time() -> None:
    def program(x: Any) -> Any:
        for _ in range(5_000):
            x = np.sin(x * 0.5 + x)
        return x

    found = matches(lambda a, b: np.sin(a * 0.5 + b), program, S)
    assert len(found) == 5_000


def test_a_tree_of_sums_does_not_blow_up() -> None:
    """2**63 orders, of which one leaf alone decides that none fits."""

    def tree(leaves: list[Any]) -> Any:
        while len(leaves) > 1:
            pairs = zip(leaves[::2], leaves[1::2], strict=True)
            leaves = [a + b for a, b in pairs]
        return leaves[0]

    def pattern(x: Any) -> Any:
        return tree([np.sin(x)] * 63 + [np.cos(x)])

    def unlike(x: Any) -> Any:
        return tree([np.sin(x)] * 64)

    def turned(x: Any) -> Any:
        return tree([np.cos(x)] + [np.sin(x)] * 63)

    assert len(matches(pattern, unlike, V)) == 0
    assert len(matches(pattern, turned, V)) == 1


def test_too_many_ways_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pattern(a: Any, b: Any) -> Any:
        total = a * b
        for _ in range(40):
            total = total + a * b
        return total - np.sin(a)

    def program(x: Any, y: Any) -> Any:
        total = x * y
        for i in range(40):
            total = total + (x * y if i % 2 else y * x)
        return total - np.sin(y)

    (found,) = matches(pattern, program, V, V)
    assert [x.name for x in found.bound] == ["y", "x"]

    monkeypatch.setattr(patterns, "MOST_STEPS", 100)
    with pytest.raises(OverrideError, match="in too many ways"):
        matches(pattern, program, V, V)


# Errors


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x, "computes nothing"),
        (lambda x, y: x * 2, "does not read 'y'"),
        (lambda x: 3.0, "returns a constant"),
        (lambda x: np.ones(3), "returns a constant"),
        (lambda x: None, "returns a constant"),
        (lambda x: (x * 2, x * 3), "returns 2 values.*wb.subgraph"),
        (lambda: 1, "without parameters"),
        (lambda *x: x[0], "any number"),
        (3, "a function of arrays, not 3"),
    ],
)
def test_what_is_no_pattern_is_refused_when_it_is_made(
    function: Any, text: str
) -> None:
    with pytest.raises(OverrideError, match=text):
        wb.pattern(function)


def test_what_fails_for_all_ranks_tells_why() -> None:
    told = missed(lambda x: np.reshape(x, (7, 11)) * 2, lambda x: np.sum(x * 2), V_A)
    assert "cannot be computed for arrays of any ranks that the program has" in told
    assert "reshape" in told
    with pytest.raises(OverrideError, match=r"where=3 is not a condition"):
        wb.pattern(np.tanh, where=3)  # type: ignore[arg-type]


def test_a_program_without_arrays_of_its_ranks_is_passed_by() -> None:
    """In a block, and at second order, an override need not mean every program."""
    linear = wb.override(wb.pattern(lambda W, x, b: W @ x + b), "0.5 * d")
    with wb.overrides(linear):
        assert wb.grad(lambda s: s * s)(3.0) == 6.0
        found = wb.grad(lambda W: np.sum(W @ np.ones(2) + 1.0))(np.eye(2))
    np.testing.assert_allclose(found, np.full((2, 2), 0.5))


def test_too_many_wildcards_are_refused_with_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forms, "MOST_FORMS", 20)
    many = wb.pattern(lambda a, b, c, d, e: a @ b + c * d - e)
    with pytest.raises(OverrideError, match=r"5 wildcards may each be of 3 ranks here"):
        matches(many, lambda A, x: np.sum(A @ x), M, V)


def missed(pattern: Any, f: Any, *args: Any, where: Any = None) -> str:
    one = wb.override(wb.pattern(pattern, where), "d")
    with pytest.raises(OverrideError) as caught:
        wb.grad(f, overrides=[one])(*args)
    return str(caught.value)


def test_one_that_matches_nothing_says_what_was_close() -> None:
    A, x = np.eye(3), np.ones(3)
    text = missed(
        lambda W, x, b: W @ x + b,
        lambda W: np.sum(np.einsum("ij,j->i", W, x) + 1), A,
    )  # fmt: skip
    assert "matches nothing" in text
    assert "the program has einsum, not matmul" in text
    text = missed(lambda x: np.sum(x, axis=0), lambda x: np.sum(np.sum(x, axis=1)), A)
    assert "has its structure, but other settings or constants" in text
    assert "axis=1, the pattern axis=0" in text
    text = missed(lambda x: 2 * x + 1, lambda x: np.sum(2 * x + 3), x)
    assert "other settings or constants" in text
    text = missed(lambda a, b: a @ b, lambda x: np.sum(A @ x), x, where=lambda m: False)
    assert "its condition where= refused the one place" in text
    text = missed(lambda a, b: np.exp(a) + b, lambda x: np.sum(np.exp(x) * 2 + 1), x)
    assert "the program has 1 add, but it is not computed from" in text
    assert "Its ops: add, exp, multiply, sum." in text
    text = missed(lambda W, x, b: W @ x + b, lambda b: np.sum(np.tanh(A @ x + b)), x)
    assert "the program has no matmul. A value computed from plain arrays" in text
    assert "give these arrays as arguments. Its ops: add, sum, tanh." in text


# What it is called


def test_a_pattern_is_called_by_its_source() -> None:
    linear = wb.pattern(lambda W, x, b: W @ x + b)
    assert str(linear) == "pattern W @ x + b"
    assert linear.code == "wb.pattern(lambda W, x, b: W @ x + b)"
    one, two = wb.pattern(lambda x: x + 1), wb.pattern(lambda x: x * np.tanh(x))
    assert (str(one), str(two)) == ("pattern x + 1", "pattern x * np.tanh(x)")
    long = wb.pattern(
        lambda W, x, b: (
            np.tanh(
                W @ x + b,
            )
            * 2
        ),
        where=lambda m: m["W"].ndim == 2,
    )
    assert str(long) == "pattern np.tanh(W @ x + b) * 2"
    assert long.code == (
        "wb.pattern(lambda W, x, b: np.tanh(W @ x + b) * 2,"
        " where=lambda m: m['W'].ndim == 2)"
    )

    def dense(W: Any, x: Any) -> Any:
        return np.tanh(W @ x)

    assert str(wb.pattern(dense)) == "pattern dense"
    assert wb.pattern(dense).code == "wb.pattern(dense)"
    unseen = wb.pattern(eval("lambda u, v: u - v", {}))
    assert str(unseen) == "pattern of u, v"


def test_a_python_number_is_a_value_like_any_other() -> None:
    """NumPy's functions make a scalar of it, which is not a step of the user's.

    Of three sines each slope is halved, so d/dx is the product of ``1 + x cos(x²)``.
    """
    square = wb.pattern(lambda c: np.sin(c * c))

    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.sin(x * x) + x
        return x

    expected, x = 1.0, 0.7
    for _ in range(3):
        expected *= 1 + x * np.cos(x * x)
        x = np.sin(x * x) + x
    halved = [wb.override(square, "0.5 * d")]
    for start in (0.7, np.float64(0.7), np.array(0.7)):
        found = wb.grad(f, overrides=halved)(start)
        assert found == pytest.approx(expected, rel=1e-12)
        assert wb.jvp(f, (start,), (1.0,), overrides=halved)[1] == pytest.approx(
            expected, rel=1e-12
        )
    twice = [wb.override(wb.pattern(lambda c: np.multiply(c, c)), "0.5 * d")]
    assert wb.grad(lambda x: np.multiply(x, x), overrides=twice)(0.7) == 0.7
    with pytest.raises(OverrideError, match="computes nothing"):
        wb.pattern(lambda x: np.asarray(x))


def lay_in_all_orders(
    form: PatternForm, p: Any, x: Any, known: dict[int, Any]
) -> list[dict[int, Any]]:
    """Return the ways to lay a part of a form over a value, each order tried."""
    if p.serial in known:
        return [known] if known[p.serial] is x else []
    known = {**known, p.serial: x}
    if any(p is leaf for leaf in form.leaves):
        return [known]
    if not isinstance(x, wb.Tensor) or x.op is not p.op:
        return []
    found = []
    for order in (x.inputs, x.inputs[::-1]) if p.op.traits.commutative else (x.inputs,):
        ways = [known]
        for a, b in zip(p.inputs, order, strict=True):
            ways = [more for way in ways for more in lay_in_all_orders(form, a, b, way)]
        found += ways
    return found


@pytest.mark.parametrize("seed", range(20))
def test_all_ways_to_lay_are_found(seed: int) -> None:
    """Random programs, against a search that tries every order of all operands."""
    rng = np.random.default_rng(seed)
    patterns = [
        lambda a, b, c: a * b + c,
        lambda a, b: (a + b) * (a - b) + a * b,
        lambda a, b, c: (a * b + b * c) * (a + np.sin(c)),
    ]

    def program(x: Any, y: Any) -> Any:
        known = [x, y, np.sin(x)]
        for _ in range(40):
            a, b, c = (known[-1 - i] for i in rng.integers(6, size=3) % len(known))
            whole = (a * b + b * c) * (a + np.sin(c))
            made = (a * b + c, c + a * b, a * b, a + b, a - b, np.sin(a), whole)
            known.append(made[rng.integers(7)])
        return np.sum(known[-1])

    nodes = wb.trace(program)(V, V).interior
    for pattern in patterns:
        (form,) = wb.pattern(pattern).forms.forms_for([(1, "f")])
        matcher = Matcher(form, "it")
        for node in nodes:
            ways = [
                tuple(id(values[x.serial]) for x in (*form.leaves, *form.nodes))
                for values in lay_in_all_orders(form, form.root, node, {})
            ]
            found = [
                tuple(id(one.values[x.serial]) for x in (*form.leaves, *form.nodes))
                for one in matcher.lay(node)
            ]
            assert set(found) == set(ways), f"seed {seed}, {node}"
