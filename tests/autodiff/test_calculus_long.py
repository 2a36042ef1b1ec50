"""Derivatives of long and wide programs: no recursion, and linear time."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import OPS


def count_rules(monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, int]:
    """How often the reverse rule of each op runs from now on."""
    calls = dict.fromkeys(names, 0)
    for name in names:
        op = OPS[name]
        pull = op.pull
        assert pull is not None

        def counted(*args: Any, name: str = name, pull: Any = pull) -> Any:
            calls[name] += 1
            return pull(*args)

        monkeypatch.setattr(op, "pull", counted)
    return calls


def test_a_chain_of_a_hundred_thousand_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """No recursion; each rule runs once per node, so time is linear."""
    length = 100_000
    limit = sys.getrecursionlimit()
    calls = count_rules(monkeypatch, "multiply", "add")

    def chain(x: Any) -> Any:
        for _ in range(length // 2):
            x = x * 0.9999 + 1e-4
        return np.sum(x)

    g = wb.grad(chain)(np.ones(2))
    np.testing.assert_allclose(g, 0.9999 ** (length // 2), rtol=1e-9)
    assert calls == {"multiply": length // 2, "add": length // 2}
    assert sys.getrecursionlimit() == limit < length


def test_second_order_of_a_long_chain_is_linear_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chain(length: int) -> Any:
        def f(x: Any) -> Any:
            for _ in range(length):
                x = np.sin(x)
            return x

        return f

    counts = []
    for length in (200, 400):
        calls = count_rules(monkeypatch, "sin", "cos", "multiply")
        wb.grad(wb.grad(chain(length)))(1.0)
        counts.append(sum(calls.values()))
    assert counts[1] <= 2.05 * counts[0]


def test_gradients_in_each_step_of_a_long_loop_stay_linear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An inner gradient walks its own nodes, not the history before it."""
    from workbench.autodiff import reverse

    seen: list[int] = []
    plan = reverse.plan_steps

    def watched(*args: Any, **kwargs: Any) -> Any:
        steps = plan(*args, **kwargs)
        seen.append(len(steps))
        return steps

    monkeypatch.setattr(reverse, "plan_steps", watched)

    def descend(x: Any) -> Any:
        for _ in range(300):
            x = x - 0.1 * wb.grad(lambda y: np.sin(y) ** 2)(x)
        return x

    wb.grad(descend)(1.0)
    assert len(seen) == 301
    assert max(seen[:300]) <= 4


def test_a_wide_graph() -> None:
    """One value read by 20,000 ops, and their results added."""

    def f(x: Any) -> Any:
        total = x
        for i in range(20_000):
            total = total + x * i
        return total

    assert wb.grad(f)(1.0) == 1 + 20_000 * 19_999 / 2
