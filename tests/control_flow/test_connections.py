"""Which outputs of a loop depend on which inputs; what an interrupt leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DisconnectedInputError


def test_an_input_that_an_output_does_not_read_is_disconnected() -> None:
    x, a, b = wb.vector("x"), wb.scalar("a"), wb.scalar("b")
    first, second = wb.scan(lambda x, h, k: (h * a + x, k + b * h), x, [1.0, 0.0])
    total = np.sum(first)
    with pytest.raises(DisconnectedInputError, match="'b'"):
        wb.grad(total, b)
    both = wb.grad(np.sum(second), [a, b])  # a through the first output, later
    f = wb.function([x, a, b], both)
    # k: b, b + b (a + x0), ...
    made = f([1.0, 1.0], 2.0, 3.0)
    assert np.allclose(made, [3.0, 1 + (1 + 3)])


def test_an_interrupt_leaves_everything_sound() -> None:
    calls: list[int] = []

    class Impatient(wb.Op):
        """An op that is interrupted once."""

        def infer(self, x: Any) -> Any:
            return x

        def compute(self, x: Any) -> Any:
            calls.append(1)
            if len(calls) == 700:
                raise KeyboardInterrupt
            return np.sin(x)

        def vjp(self, node: Any, g: Any) -> Any:
            return g * np.cos(node.inputs[0])

    op, x = Impatient(), wb.scalar("x")
    y = wb.scan(lambda h: op(h + x), initial=0.5, n_steps=500, memory=20, last=True)
    f = wb.function([x], [y, wb.grad(y, x)])
    with pytest.raises(KeyboardInterrupt):
        f(0.3)

    def plain(x: Any) -> Any:
        h = 0.5
        for _ in range(500):
            h = np.sin(h + x)
        return h

    value, slope = f(0.3)
    assert np.isclose(value, plain(0.3))
    assert np.isclose(slope, np.imag(plain(0.3 + 1e-30j)) / 1e-30)
    powers = lambda x: wb.scan(lambda h: h * x, initial=1.0, n_steps=3)  # noqa: E731
    assert np.isclose(wb.grad(lambda x: np.sum(powers(x)))(2.0), 1 + 4 + 12)
