"""Eager chain: 1000 ops on 8 doubles, forward and backward, per op.

x ← tanh(1.01 x + x₀) − 0.1, 250 times; the gradient of the sum by x₀.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

OPS = 1000
START = np.linspace(0.1, 0.8, 8)


def chain(xp: Any, start: Any, length: int = OPS) -> Any:
    """The mathematics, for any array library."""
    x, tanh = start, xp.tanh
    for _ in range(length // 4):
        x = tanh(x * 1.01 + start) - 0.1
    return x.sum()


def workbench() -> Pair:
    import workbench as wb

    gradient = wb.grad(lambda x: chain(np, x))
    return lambda: chain(np, START), lambda: gradient(START)


def autograd() -> Pair:
    import autograd.numpy as anp
    from autograd import grad

    gradient = grad(lambda x: chain(anp, x))
    return lambda: chain(np, START), lambda: gradient(START)


def torch() -> Pair:
    import torch

    torch.set_num_threads(1)

    def gradient() -> Any:
        x = torch.tensor(START, requires_grad=True)
        return torch.autograd.grad(chain(torch, x), x)[0].numpy()

    plain = torch.tensor(START)
    return lambda: chain(torch, plain), gradient


CASE = Case(
    "eager_chain",
    "Eager chain of 1000 ops on 8 doubles, forward and backward, per op",
    {"workbench": workbench, "torch": torch, "autograd": autograd},
    goal="ours/torch ≤ 0.7",
    unit="µs",
    per=OPS,
    rounds=41,
)
