"""Overrides that hold in some steps of a loop alone: ``steps=``.

The truth is the loop written out by hand, with another rule where it is asked.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError, SnapshotError

N = 6
W, X = np.array([0.7, -0.4]), np.array([0.5, 0.9])


def loop(w: Any, x: Any, memory: Any = "all") -> Any:
    last = wb.scan(
        lambda h, w: np.tanh(w * h), None, [x], w, n_steps=N, last=True, memory=memory
    )
    return np.sum(last)


def reverse_loop(w: Any, x: Any) -> Any:
    def step(s: Any, h: Any) -> Any:
        return np.tanh(w * h) + 0 * s

    return np.sum(wb.scan(step, np.zeros(N), x, n_steps=N, reverse=True)[-1])


def until_loop(w: Any, x: Any) -> Any:
    def step(k: Any, h: Any) -> Any:
        return (k + 1, np.tanh(w * h)), wb.until(k >= N - 1)

    return np.sum(wb.scan(step, None, [0.0, x], n_steps=100, last=True)[1])


def while_loop(w: Any, x: Any) -> Any:
    made = wb.while_loop(
        lambda s: s[0] < N, lambda s: (s[0] + 1, np.tanh(w * s[1])), (0.0, x)
    )
    return np.sum(made[1])


def by_hand(
    chosen: list[int], factor: float = 3.0, others: float = 1.0
) -> tuple[Any, Any]:
    """The gradients by W and X, where in those steps tanh passes on a multiple.

    In the others it passes on another.
    """
    states = [X]
    for _ in range(N):
        states.append(np.tanh(W * states[-1]))
    g, gw = np.ones_like(X), np.zeros_like(W)
    for i in reversed(range(N)):
        d = g * (1 - states[i + 1] ** 2) * (factor if i in chosen else others)
        gw = gw + d * states[i]
        g = d * W
    return gw, g


STEPS: list[tuple[Any, list[int]]] = [
    (0, [0]),
    (3, [3]),
    (-1, [N - 1]),
    (slice(1, 4), [1, 2, 3]),
    (slice(-2, None), [N - 2, N - 1]),
    (slice(None, 2), [0, 1]),
]


@pytest.mark.parametrize(("steps", "chosen"), STEPS)
@pytest.mark.parametrize(
    "f", [loop, reverse_loop, until_loop, while_loop], ids=lambda f: f.__name__
)
def test_the_rule_holds_in_those_steps_alone(
    f: Any, steps: Any, chosen: list[int]
) -> None:
    given = [wb.override("tanh", "3 * d", steps=steps)]
    gw, gx = by_hand(chosen)
    found = wb.grad(f, (0, 1), overrides=given)(W, X)
    np.testing.assert_allclose(found[0], gw, rtol=1e-12)
    np.testing.assert_allclose(found[1], gx, rtol=1e-12)
    _, moved = wb.jvp(lambda w: f(w, X), (W,), (np.array([1.0, 2.0]),), overrides=given)
    np.testing.assert_allclose(moved, gw @ [1.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize(("steps", "chosen"), STEPS)
def test_loops_in_pieces_and_jacobians(steps: Any, chosen: list[int]) -> None:
    given = [wb.override("tanh", lambda node, g: 3 * node.vjp(g)[0], steps=steps)]
    f = lambda w: loop(w, X, memory=2)  # noqa: E731
    gw, _ = by_hand(chosen)
    np.testing.assert_allclose(wb.grad(f, overrides=given)(W), gw, rtol=1e-12)
    for mode in ("fwd", "rev"):
        found = wb.jacobian(f, mode=mode, overrides=given)(W)
        np.testing.assert_allclose(found, gw, rtol=1e-12)


@pytest.mark.parametrize("steps", [3, slice(-2, None)])
def test_second_order(steps: Any) -> None:
    """Of a rule that multiplies, the derivative of its gradient does so too."""
    given = [wb.override("tanh", "3 * d", steps=steps)]
    one, two = np.array([1.0, -0.5]), 1e-6

    def slope(w: Any) -> Any:
        return wb.grad(lambda w: loop(w, X), overrides=given)(w)

    _, moved = wb.jvp(slope, (W,), (one,))
    ahead, behind = slope(W + two * one), slope(W - two * one)
    np.testing.assert_allclose(moved, (ahead - behind) / (2 * two), rtol=1e-6)


@pytest.mark.parametrize(("steps", "chosen"), STEPS)
def test_symbols_whose_number_of_steps_the_run_tells(
    steps: Any, chosen: list[int]
) -> None:
    w, x = wb.vector("w"), wb.vector("x")
    n = wb.scalar("n", dtype=int)
    last = wb.scan(lambda h, w: np.tanh(w * h), None, [x], w, n_steps=n, last=True)
    given = [wb.override("tanh", "3 * d", steps=steps)]
    f = wb.function([w, x, n], wb.grad(np.sum(last), w, overrides=given))
    np.testing.assert_allclose(f(W, X, N), by_hand(chosen)[0], rtol=1e-12)


def test_a_node_outside_of_the_loop_keeps_its_rule() -> None:
    given = [wb.override("tanh", "3 * d", steps=slice(None))]
    found = wb.grad(lambda w: np.sum(np.tanh(w)) + loop(w, X), overrides=given)(W)
    true = by_hand(list(range(N)))[0] + 1 - np.tanh(W) ** 2
    np.testing.assert_allclose(found, true, rtol=1e-12)


def test_a_session_shows_stores_and_rebuilds_it(tmp_path: Any) -> None:
    session = wb.Session(wb.trace(loop)(W, X))
    session.override("tanh", "3 * d", steps=slice(1, 4))
    gw, gx = by_hand([1, 2, 3])
    np.testing.assert_allclose(session.grads["w"], gw, rtol=1e-12)
    assert "steps=slice(1, 4, None)" in session.code()
    assert "every tanh in steps 1 to 3" in repr(session.overrides[0])
    session.edit(1, "1 * d")
    np.testing.assert_allclose(session.grads["w"], by_hand([])[0], rtol=1e-12)
    session.undo()
    path = tmp_path / "overrides.json"
    session.save(path)
    (stored,) = json.loads(path.read_text())["overrides"]
    assert stored["steps"] == [1, 4, None]
    other = wb.Session(wb.trace(loop)(W, X))
    other.load(path)
    np.testing.assert_allclose(other.grads["x"], gx, rtol=1e-12)
    path.write_text(path.read_text().replace("null", '"x"', 1).replace("1,", "true,"))
    with pytest.raises(SnapshotError):
        other.load(path)
    np.testing.assert_allclose(other.grads["x"], gx, rtol=1e-12)


@pytest.mark.parametrize(
    "steps", [True, 1.5, "3", slice(0.5, 2), slice(0, 3, 0), (1, 2)]
)
def test_what_names_no_steps_is_refused(steps: Any) -> None:
    with pytest.raises(OverrideError, match=r"names no iterations.*slice\(10, 20\)"):
        wb.override("tanh", "3 * d", steps=steps)


def test_errors_say_where() -> None:
    given = [wb.override("tanh", "3 * d", steps=3)]
    with pytest.raises(OverrideError, match=r"tanh.*is in none.*wb\.scan"):
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=given)(X)
    late = [wb.override("tanh", "3 * d", steps=17)]
    with pytest.raises(OverrideError, match="none of the 6 steps"):
        wb.grad(loop, overrides=late)(W, X)

    def branched(w: Any) -> Any:
        step = lambda h: wb.cond(h > 0, np.tanh, np.sin, w * h)  # noqa: E731
        return wb.scan(step, None, [0.5], n_steps=3, last=True)

    with pytest.raises(OverrideError, match="stands in a branch"):
        wb.grad(branched, overrides=given)(0.3)


def test_numpys_integers_name_steps() -> None:
    assert wb.override("tanh", "3 * d", steps=np.int64(2)).steps == 2
    several = wb.override("tanh", "3 * d", steps=slice(np.int64(0), np.int32(2)))
    assert several.steps == slice(0, 2)


def test_patterns_hold_in_some_steps() -> None:
    pattern = wb.pattern(lambda a, b: np.tanh(a * b))
    plain = wb.grad(loop)(W, X)
    true = [wb.override(pattern, lambda node, g: node.vjp(g), steps=1)]
    np.testing.assert_allclose(wb.grad(loop, overrides=true)(W, X), plain)
    for target, rule in ((pattern, "3 * d"), (pattern, lambda n, g: n.vjp(3 * g))):
        one = [wb.override(target, rule, steps=1)]
        truth = [wb.override("tanh", "3 * d", steps=1)]
        np.testing.assert_allclose(
            wb.grad(loop, overrides=one)(W, X), wb.grad(loop, overrides=truth)(W, X)
        )
    moved = wb.jvp(
        loop, (W, X), (W, X), overrides=[wb.override(pattern, "3 * d", steps=1)]
    )
    truth = wb.jvp(
        loop, (W, X), (W, X), overrides=[wb.override("tanh", "3 * d", steps=1)]
    )
    np.testing.assert_allclose(moved[1], truth[1])


def test_parts_with_several_outputs_hold_in_some_steps() -> None:
    def several(w: Any, x: Any) -> Any:
        def step(h: Any, w: Any) -> Any:
            u = w * h
            a, b = np.tanh(u), np.sin(u)
            for y, name in ((u, "u"), (a, "a"), (b, "b")):
                y.name = name
            return a * b + a

        return np.sum(wb.scan(step, None, [x], w, n_steps=4, last=True))

    part = wb.subgraph(["a", "b"], "u")
    true = [wb.override(part, lambda n, ga, gb: n.vjp(ga, gb), steps=2)]
    plain = wb.grad(several)(W, X)
    np.testing.assert_allclose(wb.grad(several, overrides=true)(W, X), plain)
    scaled = [wb.override(part, lambda n, ga, gb: n.vjp(3 * ga, 3 * gb), steps=2)]
    truth = [wb.override(op, "3 * d", steps=2) for op in ("tanh", "sin")]
    np.testing.assert_allclose(
        wb.grad(several, overrides=scaled)(W, X),
        wb.grad(several, overrides=truth)(W, X),
    )


def test_an_inner_loop_is_a_node_of_the_step() -> None:
    def inner(h: Any, w: Any) -> Any:
        step = lambda k, w: np.sin(w * k)  # noqa: E731
        return wb.scan(step, None, [h], w, n_steps=2, last=True)

    def nested(w: Any, x: Any) -> Any:
        return np.sum(wb.scan(inner, None, [x], w, n_steps=3, last=True))

    with pytest.raises(OverrideError, match=r"scan.*is in none"):
        wb.grad(loop, overrides=[wb.override("scan", "2 * d", steps=0)])(W, X)

    def by_steps(w: Any, x: Any) -> Any:
        """Written out: the scan of step 1 passes twice the gradient on."""
        h = x
        for i in range(3):
            h = double(w, h) if i == 1 else np.sin(w * np.sin(w * h))
        return np.sum(h)

    @wb.custom_vjp
    def double(w: Any, h: Any) -> Any:
        return np.sin(w * np.sin(w * h))

    double.defvjp(
        lambda w, h: (double(w, h), (w, h)),
        lambda kept, g: tuple(
            2 * c for c in wb.vjp(lambda w, h: np.sin(w * np.sin(w * h)), *kept)[1](g)
        ),
    )
    given = [wb.override("scan", "2 * d", steps=1)]
    np.testing.assert_allclose(
        wb.grad(nested, (0, 1), overrides=given)(W, X), wb.grad(by_steps, (0, 1))(W, X)
    )


# Several overrides at one node


SEVERAL: list[tuple[list[wb.Override], list[int], float, float]] = [
    ([wb.override("tanh", "2 * d"), wb.override("tanh", "3 * d", steps=2)], [2], 3, 2),
    (
        [wb.override("tanh", "3 * d", steps=4), wb.override("tanh", "3 * d", steps=2)],
        [2, 4],
        3,
        1,
    ),
    (
        [wb.override("tanh", "2 * d"), wb.override("tanh", "true", steps=slice(1, 3))],
        [1, 2],
        1,
        2,
    ),
    ([wb.override("tanh", "3 * d", steps=2), wb.override("tanh", "2 * d")], [], 3, 2),
]


@pytest.mark.parametrize(("given", "chosen", "factor", "others"), SEVERAL)
@pytest.mark.parametrize("f", [loop, while_loop], ids=lambda f: f.__name__)
def test_in_the_other_steps_holds_what_would_without_it(
    f: Any, given: Any, chosen: list[int], factor: float, others: float
) -> None:
    gw, gx = by_hand(chosen, factor, others)
    found = wb.grad(f, (0, 1), overrides=given)(W, X)
    np.testing.assert_allclose(found[0], gw, rtol=1e-12)
    np.testing.assert_allclose(found[1], gx, rtol=1e-12)
    _, moved = wb.jvp(lambda w: f(w, X), (W,), (np.array([1.0, 2.0]),), overrides=given)
    np.testing.assert_allclose(moved, gw @ [1.0, 2.0], rtol=1e-12)


def test_other_steps_keep_the_rules_of_nodes_inside() -> None:
    """A checkpoint has another rule in one step; the tanh in it one in all."""

    def step(h: Any, w: Any) -> Any:
        return wb.checkpoint(lambda h: np.tanh(w * h))(h)

    def inside(w: Any, x: Any) -> Any:
        return np.sum(wb.scan(step, None, [x], w, n_steps=N, last=True))

    given = [wb.override("tanh", "2 * d"), wb.override("checkpoint", "3 * d", steps=2)]
    gw, gx = by_hand([2], 6.0, 2.0)
    found = wb.grad(inside, (0, 1), overrides=given)(W, X)
    np.testing.assert_allclose(found[0], gw, rtol=1e-12)
    np.testing.assert_allclose(found[1], gx, rtol=1e-12)


def test_steps_of_a_structure_leave_it_alone_outside_of_loops() -> None:
    pattern = wb.pattern(lambda a, b: np.tanh(a * b))
    given = [wb.override(pattern, "3 * d", steps=slice(None))]
    found = wb.grad(lambda w: np.sum(np.tanh(w * X)) + loop(w, X), overrides=given)(W)
    true = by_hand(list(range(N)))[0] + X * (1 - np.tanh(W * X) ** 2)
    np.testing.assert_allclose(found, true, rtol=1e-12)


def test_a_note_says_in_which_steps_another_has_the_say() -> None:
    session = wb.Session(wb.trace(loop)(W, X))
    session.override("tanh", "2 * d")
    session.override("tanh", "3 * d", steps=2)
    assert "in step 2" in repr(session.overrides[1])
    np.testing.assert_allclose(session.grads["w"], by_hand([2], 3, 2)[0], rtol=1e-12)


def test_structures_with_steps_stand_alone() -> None:
    """What would hold in the other steps is another part: nobody has said which."""
    pattern = wb.pattern(lambda a, b: np.tanh(a * b))
    timed = wb.override(pattern, "3 * d", steps=2)
    for other in (pattern, "tanh", "multiply"):
        given = [wb.override(other, "2 * d"), timed]
        with pytest.raises(OverrideError, match=r"in step 2.*may name steps"):
            wb.grad(loop, overrides=given)(W, X)
    both = [timed, wb.override(pattern, "2 * d")]  # the later holds in all steps
    np.testing.assert_allclose(
        wb.grad(loop, overrides=both)(W, X)[0], by_hand(list(range(N)), 2.0)[0][0]
    )


def test_one_of_several_outputs_in_some_steps() -> None:
    matrix = np.array([[2.0, 0.3], [0.3, 1.0]])

    def f(x: Any) -> Any:
        def step(h: Any) -> Any:
            values, _ = np.linalg.eigh(matrix + np.diag(h))
            return np.tanh(values)

        return np.sum(wb.scan(step, None, [x], n_steps=2, last=True))

    def by_steps(x: Any) -> Any:
        @wb.custom_vjp
        def values(h: Any) -> Any:
            return np.linalg.eigh(matrix + np.diag(h))[0]

        values.defvjp(
            lambda h: (values(h), h),
            lambda h, g: (
                2
                * wb.vjp(lambda h: np.linalg.eigh(matrix + np.diag(h))[0], h)[1](g)[0],
            ),
        )
        h = np.tanh(values(x))
        return np.sum(np.tanh(np.linalg.eigh(matrix + np.diag(h))[0]))

    given = [wb.override(lambda node: node.op.name == "item", "2 * d", steps=0)]
    x = np.array([0.3, 0.5])
    found = wb.grad(f, overrides=given)(x)
    np.testing.assert_allclose(found, wb.grad(by_steps)(x), rtol=1e-10)
    _, moved = wb.jvp(f, (x,), (np.ones(2),), overrides=given)
    np.testing.assert_allclose(moved, found.sum(), rtol=1e-10)


def test_a_block_need_not_mean_a_loop() -> None:
    with wb.overrides(wb.override("tanh", "3 * d", steps=1)):
        found = wb.grad(lambda x: np.sum(np.tanh(x)))(X)
        np.testing.assert_allclose(found, 1 - np.tanh(X) ** 2, rtol=1e-12)
        gw, _ = wb.grad(loop, (0, 1))(W, X)
    np.testing.assert_allclose(gw, by_hand([1])[0], rtol=1e-12)


def test_a_condition_may_hold_less_often_than_a_step_is_named() -> None:
    given = [wb.override("tanh", "3 * d", steps=slice(N + 2, N + 4))]
    for f in (while_loop, until_loop):
        found = wb.grad(f, overrides=given)(W, X)
        np.testing.assert_allclose(found, by_hand([])[0], rtol=1e-12)


def test_strides_from_the_end_of_loops_that_differ_are_refused() -> None:
    def f(x: Any, k: Any) -> Any:
        step = lambda s: (s[0] + 1, np.sin(s[1]))  # noqa: E731
        return wb.while_loop(lambda s: s[0] < k, step, (0, x))[1]

    counts = np.array([1, 3, 2])
    given = [wb.override("sin", "2 * d", steps=slice(None, None, -2))]
    with pytest.raises(OverrideError, match="counts from the last step"):
        wb.grad(lambda x: np.sum(wb.vmap(f)(x, counts)), overrides=given)(np.ones(3))


def test_a_check_tells_of_overrides_inside_loops() -> None:
    session = wb.Session(wb.trace(loop)(W, X))
    session.override("tanh", "3 * d", steps=1)
    text = str(session.check())
    assert "by 200 %" in text
    assert "TypeError" not in text
