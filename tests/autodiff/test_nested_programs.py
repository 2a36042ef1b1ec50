"""Every transform of random programs with loops, branches and calls inside each other.

The truth is the same program written out in plain Python (`nested_programs`), and for
some the complex step. A failing program is printed as code that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.nested_programs import (
    CONTENTS,
    N,
    Program,
    draw_program,
    draw_rules,
    half_of_sine,
    is_in,
)
from tests.chunks import parametrize_chunks

MANY = 500
ALL = (0, 1, 2)

Function = Callable[..., Any]
Rules = Sequence[Any]


def loss_of(f: Function) -> Function:
    """Return one number of what a program gives."""

    def loss(*args: Any) -> Any:
        y = f(*args)
        return np.sum(np.cos(y) + 0.5 * y)

    return loss


def moves(args: Sequence[Any], phase: float = 1.0) -> tuple[Any, ...]:
    """Return a direction for each argument."""
    return tuple(np.cos(phase + 2 * i + np.arange(np.size(a))).reshape(np.shape(a))
                 for i, a in enumerate(args))  # fmt: skip


# One transform each: of a program, of where it runs (a Program), of overrides


def value(f: Function, at: Program, given: Rules) -> Any:
    return f(*at.args)


def grad(f: Function, at: Program, given: Rules) -> Any:
    return wb.grad(loss_of(f), ALL, overrides=given)(*at.args)


def block(f: Function, at: Program, given: Rules) -> Any:
    with wb.overrides(*given):
        return wb.grad(loss_of(f))(*at.args)


def value_and_grad(f: Function, at: Program, given: Rules) -> Any:
    y, slope = wb.value_and_grad(loss_of(f), overrides=given)(*at.args)
    return y, slope


def vjp(f: Function, at: Program, given: Rules) -> Any:
    y, pullback = wb.vjp(f, *at.args, overrides=given)
    return y, *pullback(np.cos(np.arange(N)))


def jvp(f: Function, at: Program, given: Rules) -> Any:
    return wb.jvp(f, at.args, moves(at.args), overrides=given)


def jacobian_forward(f: Function, at: Program, given: Rules) -> Any:
    return wb.jacobian(f, ALL, mode="fwd", overrides=given)(*at.args)


def jacobian_reverse(f: Function, at: Program, given: Rules) -> Any:
    return wb.jacobian(f, ALL, mode="rev", overrides=given)(*at.args)


def hessian(f: Function, at: Program, given: Rules) -> Any:
    return wb.hessian(loss_of(f), overrides=given)(*at.args)


def hvp(f: Function, at: Program, given: Rules) -> Any:
    return wb.hvp(loss_of(f), at.args, moves(at.args), overrides=given)


def grad_of_grad(f: Function, at: Program, given: Rules) -> Any:
    first = wb.grad(loss_of(f), overrides=given)
    return wb.grad(lambda *args: np.sum(first(*args) ** 2), ALL)(*at.args)


def vmap(f: Function, at: Program, given: Rules) -> Any:
    return wb.vmap(f)(*at.rows)


def vmap_of_grad(f: Function, at: Program, given: Rules) -> Any:
    return wb.vmap(wb.grad(loss_of(f), ALL, overrides=given))(*at.rows)


def grad_of_vmap(f: Function, at: Program, given: Rules) -> Any:
    many = wb.vmap(loss_of(f))
    return wb.grad(lambda *rows: np.sum(many(*rows)), ALL, overrides=given)(*at.rows)


def linearize(f: Function, at: Program, given: Rules) -> Any:
    with wb.overrides(*given):
        y, push = wb.linearize(f, *at.args)
        return y, push(*moves(at.args)), push(*moves(at.args, 2.0))


def checkpoint(f: Function, at: Program, given: Rules) -> Any:
    return grad(wb.checkpoint(f), at, given)


def symbols(f: Function, at: Program, given: Rules, n: int | None = N) -> Any:
    x, w, s = wb.vector("x", shape=n), wb.vector("w", shape=n), wb.scalar("s")
    cost = loss_of(f)(x, w, s)
    slopes = wb.grad(cost, [x, w, s], overrides=given)
    return tuple(wb.function([x, w, s], [cost, *slopes])(*at.args))


def unknown_lengths(f: Function, at: Program, given: Rules) -> Any:
    return symbols(f, at, given, None)


# Their truths, where a program written out takes other ways


def in_rows(one: Function) -> Function:
    """Return the truth of a batch: each row by itself."""

    def truth(f: Function, at: Program, given: Rules) -> Any:
        made = [one(f, row, given) for row in at.each()]
        if not isinstance(made[0], tuple):
            return np.stack(made)
        return tuple(map(np.stack, zip(*made, strict=True)))

    return truth


def value_and_grads(f: Function, at: Program, given: Rules) -> Any:
    y, slopes = wb.value_and_grad(loss_of(f), ALL, overrides=given)(*at.args)
    return y, *slopes


def two_tangents(f: Function, at: Program, given: Rules) -> Any:
    y, one = wb.jvp(f, at.args, moves(at.args), overrides=given)
    return y, one, wb.jvp(f, at.args, moves(at.args, 2.0), overrides=given)[1]


#: What is done to the program built, and to the one written out.
TRANSFORMS: dict[str, tuple[Function, Function]] = {
    "value": (value, value),
    "grad": (grad, grad),
    "grad in a block": (block, block),
    "value_and_grad": (value_and_grad, value_and_grad),
    "vjp": (vjp, vjp),
    "jvp": (jvp, jvp),
    "jacobian, forward": (jacobian_forward, jacobian_forward),
    "jacobian, reverse": (jacobian_reverse, jacobian_forward),
    "hessian": (hessian, hessian),
    "hvp": (hvp, hvp),
    "grad of grad": (grad_of_grad, grad_of_grad),
    "vmap": (vmap, in_rows(value)),
    "vmap of grad": (vmap_of_grad, in_rows(grad)),
    "grad of vmap": (grad_of_vmap, in_rows(grad)),
    "linearize": (linearize, two_tangents),
    "checkpoint": (checkpoint, grad),
    "symbols": (symbols, value_and_grads),
    "unknown lengths": (unknown_lengths, value_and_grads),
}
PAIRS = list(combinations(TRANSFORMS, 2))


def assert_agree(program: Program, transform: str) -> None:
    """Assert that both texts of a program agree; else say how to run them."""
    of_built, of_written = TRANSFORMS[transform]
    try:
        given, by_hand = draw_rules(program.rules)
        found = of_built(program.function(program.built), program, given)
        truth = of_written(program.function(program.written), program, by_hand)
        found = found if isinstance(found, tuple) else (found,)
        truth = truth if isinstance(truth, tuple) else (truth,)
        for a, b in zip(found, truth, strict=True):
            assert not isinstance(a, wb.Tensor), "a Tensor comes back for arrays"
            scale = 1 + np.max(np.abs(b), initial=0)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * scale)
    except Exception as error:
        error.add_note(
            f"\nOf this program the transform {transform!r} fails:\n\n{program.code}"
            "from tests.autodiff.test_nested_programs import assert_agree\n"
            f"assert_agree(program, {transform!r})\n"
        )
        raise


def samples(number: int) -> dict[str, tuple[int]]:
    return {f"program {i}": (i,) for i in range(number)}


@parametrize_chunks("number", samples(MANY // 50))
def test_two_transforms_of_each_program(number: int, rng: np.random.Generator) -> None:
    """Each run draws other pairs of transforms, for each kind of contents."""
    program = draw_program(rng, [*CONTENTS][number % len(CONTENTS)])
    for transform in PAIRS[rng.integers(len(PAIRS))]:
        assert_agree(program, transform)


@pytest.mark.long
@parametrize_chunks("number", samples(MANY))
def test_six_transforms_of_each_program(number: int, rng: np.random.Generator) -> None:
    program = draw_program(rng, [*CONTENTS][number % len(CONTENTS)])
    for transform in rng.choice([*TRANSFORMS], 6, replace=False):
        assert_agree(program, str(transform))


@parametrize_chunks("number", samples(30))
def test_gradients_against_the_complex_step(
    number: int, rng: np.random.Generator
) -> None:
    program = draw_program(rng)
    built, written = map(program.function, (program.built, program.written))
    slopes = wb.grad(loss_of(built), ALL)(*program.args)
    for i, slope in enumerate(slopes):
        for j in np.ndindex(np.shape(slope)):
            args = [np.array(a, complex) for a in program.args]
            args[i][j] += 1e-30j
            truth = np.imag(loss_of(written)(*args)) / 1e-30
            assert slope[j] == pytest.approx(truth, rel=1e-9, abs=1e-10), program.code


# Faults that these programs have found.

X = np.array([0.1, -0.2, 0.3])


def test_an_override_in_a_checkpoint_in_a_loop_of_unknown_lengths() -> None:
    def f(x: Any, w: Any, s: Any) -> Any:
        def step(e: Any, h: Any) -> Any:
            t = np.sin(s)
            part = wb.checkpoint(lambda p: np.mean(e) + np.tanh(p[-1] * t))
            return part(w) + h

        return wb.scan(step, np.stack([x, w]), s, last=True)

    given = [wb.override("tanh", "0.5 * d")]
    x, w, s = wb.vector("x"), wb.vector("w"), wb.scalar("s")
    slopes = wb.grad(f(x, w, s), [x, w, s], overrides=given)
    args = X, 2 * X, np.float64(0.3)
    found = wb.function([x, w, s], slopes)(*args)
    truth = wb.grad(f, ALL, overrides=given)(*args)
    for a, b in zip(found, truth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_an_override_in_a_batch_of_checkpoints_of_unknown_lengths() -> None:
    def f(x: Any, w: Any) -> Any:
        def turned(p: Any, q: Any) -> Any:
            return np.concatenate([np.tanh(p[1:] * q), p[:1]]) * np.mean(w)

        def step(e: Any, h: Any) -> Any:
            both = np.stack([w * e, w + h]), np.array([0.3, 0.4])
            return np.sum(wb.vmap(wb.checkpoint(turned))(*both))

        return wb.scan(step, x, 0.1, last=True)

    given = [wb.override("tanh", "0.5 * d")]
    x, w = wb.vector("x"), wb.vector("w")
    slopes = wb.grad(f(x, w), [x, w], overrides=given)
    args = X, X[:2]
    truth = wb.grad(f, (0, 1), overrides=given)(*args)
    for a, b in zip(wb.function([x, w], slopes)(*args), truth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_checkpoint_in_an_op_of_unknown_lengths() -> None:
    """What it gives has a length that no axis of what it takes tells by itself."""

    def f(x: Any) -> Any:
        q = wb.vector("q")
        turned = np.concatenate([q[1:], q[:1]])
        return wb.OpFromGraph([q], [wb.checkpoint(lambda r: r)(turned) + q])(x)

    found = wb.grad(lambda x: np.sum(np.cos(f(x))))(X)
    assert isinstance(found, np.ndarray)
    truth = wb.grad(lambda x: np.sum(np.cos(np.roll(x, -1) + x)))(X)
    np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_second_order_of_an_override_in_a_while_loop_in_a_checkpoint() -> None:
    def f(x: Any) -> Any:
        def step(e: Any, h: Any) -> Any:
            def more(p: Any) -> Any:
                def body(state: Any) -> Any:
                    return state[0] + 0.8 + 0.1 * np.sin(state[1]), state[1]

                return wb.while_loop(lambda s: s[0] < 1, body, (0.293, e))[0] * p

            return wb.checkpoint(more)(h)

        return wb.scan(step, x, 0.5, last=True)

    def written(x: Any) -> Any:
        h = 0.5
        for e in x:
            t = 0.293
            while t < 1:
                t = t + 0.8 + 0.1 * np.sin(e)
            h = t * h
        return h

    given = [wb.override("sin", half_of_sine)]
    found = wb.hessian(f, overrides=given)(X)
    np.testing.assert_allclose(found, wb.hessian(written, overrides=given)(X))


def test_second_order_of_steps_of_a_while_loop_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def step(e: Any, h: Any) -> Any:
            v = np.tanh(x * h)
            body = lambda s: (s[0] + 1, np.tanh(h) + s[1] * 0.5)  # noqa: E731
            return 0.3 * v + wb.while_loop(lambda s: s[0] < 2, body, (0, v))[1]

        return np.sum(wb.scan(step, X, x, last=True) ** 2)

    def written(x: Any) -> Any:
        h = x
        for i in range(3):
            with wb.scope(f"step{i}of3"):
                u = v = np.tanh(x * h)
                for j in range(2):
                    with wb.scope(f"step{j}of2"):
                        u = np.tanh(h) + u * 0.5
            h = 0.3 * v + u
        return np.sum(h**2)

    found = wb.hvp(f, X, 2 * X, overrides=[wb.override("tanh", "0.5 * d", steps=0)])
    truth = wb.hvp(written, X, 2 * X, overrides=[wb.override(is_in(0), "0.5 * d")])
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_second_order_of_loops_of_other_lengths_in_each_step() -> None:
    """Where a loop around them keeps only some states, what they keep is stacked."""

    def second(memory: Any) -> Any:
        def f(x: Any) -> Any:
            def step(e: Any, h: Any) -> Any:
                def inner(state: Any) -> Any:
                    k, u, s = state
                    v = np.tanh(h * w) + e + k + u + s
                    return 0.8 + 0.1 * np.sin(np.mean(u)), v, e

                first = e, x, e
                return wb.while_loop(lambda s: s[0] < 0.801, inner, first)[1]

            entries = np.array([0.812, 0.603, 0.634])
            return np.sum(np.cos(wb.scan(step, entries, x, memory=memory, last=True)))

        return wb.grad(lambda x: np.sum(wb.grad(f)(x) ** 2))(x)

    x, w = np.array([0.2, 0.5, 0.1]), np.array([0.9, 0.6, -1.0])
    np.testing.assert_allclose(second(1), second("all"), rtol=1e-10)


@pytest.mark.parametrize("kind", ["scan", "while", "cond"])
def test_gradients_of_a_batch_whose_steps_read_an_array_of_another_length(
    kind: str,
) -> None:
    """It is not batched, and its length is made of that of an array that is."""

    def f(p: Any) -> Any:
        twice = np.concatenate([p[1:], p])

        def step(h: Any) -> Any:
            return twice[0] + np.sin(h) * np.mean(twice)

        def one(q: Any) -> Any:
            if kind == "scan":
                return wb.scan(step, [], q, n_steps=2, last=True)
            if kind == "cond":
                return wb.cond(q[1] > 0, lambda h: step(step(h)), step, q)
            body = lambda s: (s[0] + 1, step(s[1]))  # noqa: E731
            return wb.while_loop(lambda s: s[0] < 2, body, (0, q), memory=2)[1]

        return np.sum(np.cos(wb.vmap(one)(np.stack([p, np.sin(p), -p]))))

    def written(p: Any) -> Any:
        twice, total = np.concatenate([p[1:], p]), 0.0
        for q in (p, np.sin(p), -p):
            h = q
            for _ in range(2 if kind != "cond" or q[1] > 0 else 1):
                h = twice[0] + np.sin(h) * np.mean(twice)
            total = total + np.sum(np.cos(h))
        return total

    x = wb.vector("x")
    found = wb.function([x], [wb.grad(f(x), x), wb.hvp(f, (x,), (x * x,))])(X)
    truth = wb.grad(written)(X), wb.hvp(written, (X,), (X * X,))
    for a, b in zip(found, truth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
