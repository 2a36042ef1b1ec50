"""Random programs with random overrides against the chain rule written out in NumPy.

The gradient by hand knows each op's partial derivatives, which override has the say
at each step, and nothing of Workbench.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb

Array = np.ndarray
Rule = Callable[[Any, Any, Any], Any]

#: A value, and its derivatives by each input, as matrices.
UNARY: dict[str, tuple[Any, Any]] = {
    "sin": (np.sin, np.cos),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "square": (np.square, lambda x: 2 * x),
    "arctan": (np.arctan, lambda x: 1 / (1 + x * x)),
}
BINARY: dict[str, tuple[Any, Any]] = {
    "multiply": (np.multiply, lambda a, b: (b, a)),
    "add": (np.add, lambda a, b: (np.ones(3), np.ones(3))),
    "arctan2": (np.arctan2, lambda a, b: (b / (a * a + b * b), -a / (a * a + b * b))),
}
#: A text, and what it means for g, d and x.
RULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "0.5 * d": lambda g, d, x: 0.5 * d,
    "clip(d, -0.3, 0.3)": lambda g, d, x: np.clip(d, -0.3, 0.3),
    "d * tanh(x)": lambda g, d, x: d * np.tanh(x),
    "d + 0.1 * x": lambda g, d, x: d + 0.1 * x,
    "where(x > 0, d, 0.1 * d)": lambda g, d, x: np.where(x > 0, d, 0.1 * d),
    "d / (1 + norm(d))": lambda g, d, x: d / (1 + np.sqrt(np.sum(d * d))),
    "true": lambda g, d, x: d,
}


class Step(NamedTuple):
    """One op, or the structure ``W @ x + b``, which is two."""

    op: str
    reads: tuple[int, ...]
    scope: str | None


class Say(NamedTuple):
    """Which rule runs where, by the names of `RULES`."""

    ops: dict[str, str]
    scopes: dict[str, str]
    predicates: dict[str, str]
    linear: str | None

    def at(self, op: str, scope: str | None) -> str:
        """The rule of one op: predicate, then the later scope, then op."""
        if op in self.predicates:
            return self.predicates[op]
        for name in reversed(self.scopes):
            if scope is not None and f"{scope}/".startswith(f"{name}/"):
                return self.scopes[name]
        return self.ops.get(op, "true")

    def overrides(self, rng: np.random.Generator) -> list[wb.Override]:
        """The same as overrides, in any order but that of the scopes."""
        made = [wb.override(op, rule) for op, rule in self.ops.items()]
        for op, rule in self.predicates.items():
            made.append(wb.override(lambda node, op=op: node.op.name == op, rule))
        if self.linear is not None:
            made.append(wb.override(wb.pattern(lambda W, x, b: W @ x + b), self.linear))
        order = rng.permutation(len(made))
        scopes = [wb.override(f"{s}/*", rule) for s, rule in self.scopes.items()]
        return [made[i] for i in order] + scopes


def program(rng: np.random.Generator) -> list[Step]:
    steps = [Step("linear", (0, 1), None)]
    for k in range(3, 3 + int(rng.integers(2, 8))):
        scope = [None, "a", "a/b"][rng.integers(3)]
        kind = rng.choice(["linear", *UNARY, *BINARY])
        other = int(rng.integers(k - 1))
        reads = (k - 1,) if kind in UNARY else (k - 1, other)
        steps.append(Step(str(kind), reads[:: int(rng.choice([1, -1]))], scope))
    return steps


def run(steps: list[Step], W: Any, a: Any, b: Any) -> Any:
    values = [a, b]
    for op, reads, scope in steps:
        xs = [values[i] for i in reads]
        with nullcontext() if scope is None else wb.scope(scope):
            if op == "linear":
                y = W @ xs[0] + xs[1]
            else:
                y = (UNARY.get(op) or BINARY[op])[0](*xs)
        values.append(y)
    return values[-1]


def by_hand(
    steps: list[Step], say: Say, inputs: list[Array], seed: Array
) -> list[Array]:
    """What flows back to W, a and b."""
    W, *values = inputs
    for op, reads, _ in steps:
        xs = [values[i] for i in reads]
        made = UNARY.get(op) or BINARY.get(op)
        values.append(W @ xs[0] + xs[1] if made is None else made[0](*xs))
    back = [np.zeros(3) for _ in values]
    back[-1] = seed
    by_W = np.zeros_like(W)
    for k in range(len(steps) - 1, -1, -1):
        op, reads, scope = steps[k]
        g, xs = back[k + 2], [values[i] for i in reads]
        if op in UNARY or op in BINARY:
            slopes = (UNARY.get(op) or BINARY[op])[1](*xs)
            slopes = slopes if isinstance(slopes, tuple) else (slopes,)
            rule = RULES[say.at(op, scope)]
            passed = [rule(g, g * s, x) for s, x in zip(slopes, xs, strict=True)]
        elif say.linear is not None:
            rule = RULES[say.linear]
            by_W = by_W + rule(g, np.outer(g, xs[0]), W)
            passed = [rule(g, W.T @ g, xs[0]), rule(g, g, xs[1])]
        else:
            add, product = (RULES[say.at(o, scope)] for o in ("add", "matmul"))
            inner = W @ xs[0]
            h = add(g, g, inner)
            by_W = by_W + product(h, np.outer(h, xs[0]), W)
            passed = [product(h, W.T @ h, xs[0]), add(g, g, xs[1])]
        for i, c in zip(reads, passed, strict=True):
            back[i] = back[i] + c
    return [by_W, back[0], back[1]]


@pytest.mark.parametrize("block", range(4))
def test_G1_random_programs_with_random_overrides(
    block: int, rng: np.random.Generator
) -> None:
    for _ in range(6):
        steps = program(rng)
        named = sorted({s.op for s in steps} - {"linear"}) + ["add", "matmul"]
        pick = lambda: str(rng.choice(list(RULES)))  # noqa: E731
        linear = pick() if rng.random() < 0.5 else None
        here = set(named) if linear is None else {s.op for s in steps} - {"linear"}
        inside = {s.scope for s in steps} - {None}
        say = Say(
            {op: pick() for op in sorted(here) if rng.random() < 0.4},
            {
                s: pick()
                for s in ("a", "a/b")
                if any(f"{x}/".startswith(f"{s}/") for x in inside)
                and rng.random() < 0.4
            },
            {op: pick() for op in sorted(here) if rng.random() < 0.2},
            linear,
        )
        inputs = [rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)]
        seed = rng.normal(size=3)
        given = say.overrides(rng)
        expected = by_hand(steps, say, inputs, seed)
        forms: list[Callable[..., Any]] = [
            lambda *args, steps=steps: run(steps, *args),
            wb.checkpoint(lambda *args, steps=steps: run(steps, *args)),
        ]
        for f in forms:
            _, pullback = wb.vjp(f, *inputs, overrides=given)
            for a, b in zip(pullback(seed), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=str(
                    (steps, say)))  # fmt: skip
