"""What is connected: as ops declare it, through ops that users make, through loops."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_whole import at
from workbench.autodiff.derivatives import find_connected
from workbench.core.tensor import Tensor
from workbench.errors import DisconnectedInputError, DtypeError, WorkbenchError
from workbench.gradient import grad, grad_undefined


class TwoOfThree(wb.Op):
    """The product of two inputs, and twice the third."""

    def compute(self, x: Any, y: Any, z: Any) -> Any:
        return x * y, 2 * z

    def vjp(self, node: Any, g: Any, h: Any) -> Any:
        x, y, _ = node.inputs
        return g * y, g * x, 2 * h

    def connection(self) -> Any:
        return [[True, False], [True, False], [False, True]]


def test_C1_an_op_declares_what_it_connects() -> None:
    x, y, z = wb.scalars("x y z")
    product, twice = TwoOfThree()(x, y, z)
    assert at(grad(product, x), x=1.0, y=3.0, z=0.0) == 3.0
    assert at(grad(twice, z)) == 2.0
    for cost, other in ((product, z), (twice, x), (twice, y)):
        with pytest.raises(DisconnectedInputError, match=repr(other.name)):
            grad(cost, other)
    both = grad(product + twice, [x, y, z])
    assert [at(g, x=2.0, y=3.0, z=0.0) for g in both] == [3.0, 2.0, 2.0]


class Liar(wb.Op):
    """Declares that its second input does not count, and returns a gradient for it."""

    def compute(self, x: Any, y: Any) -> Any:
        return x * y

    def vjp(self, node: Any, g: Any) -> Any:
        x, y = node.inputs
        return g * y, g * x

    def connection(self) -> Any:
        return [[True], [False]]


def test_what_is_declared_is_checked() -> None:
    x, y = wb.scalars("x y")
    with pytest.raises(WorkbenchError, match=r"liar.*connect"):
        grad(Liar()(x, y) * y, [x, y])


def test_through_ops_built_on_graphs() -> None:
    x, y, z = wb.scalars("x y z")
    inner = wb.OpFromGraph([x, y], [x * 2, y * 3])
    a, b = inner(z, y)
    with pytest.raises(DisconnectedInputError, match="'y'"):
        grad(a, y)
    assert at(grad(a * b, z), y=2.0, z=1.0) == 12.0


def test_through_loops() -> None:
    x, y = wb.vector("x"), wb.scalar("y")
    states = wb.scan(lambda v, s: s * 2 + v, sequences=x, initial=y)
    made = states[0] if isinstance(states, (tuple, list)) else states
    g = grad(made[-1], [x, y])
    assert at(g[0], x=np.ones(3), y=0.0).tolist() == [4.0, 2.0, 1.0]
    assert at(g[1], x=np.ones(3), y=0.0) == 8.0


def test_the_walk_over_what_is_connected() -> None:
    x, y = wb.scalars("x y")
    h = x * 2
    cost = h * wb.stop_gradient(y)
    found = find_connected([cost])
    assert {cost.serial, h.serial, x.serial} <= found
    assert y.serial not in found
    assert x.serial not in find_connected([cost], stops={h.serial})
    assert h.serial in find_connected([cost], stops={h.serial})
    assert h.serial not in find_connected([cost], closed={h.serial})
    assert y.serial in find_connected([cost], rules={cost.inputs[1].serial})


def test_many_variables_and_a_null_somewhere_stay_linear() -> None:
    """One null that was ever made must not make each gradient look for it anew."""
    x = wb.scalar("x")
    assert isinstance(grad_undefined("op", 0, x), Tensor)

    def seconds(n: int) -> float:
        many = [wb.scalar() for _ in range(n)]
        total = many[0]
        for s in many[1:]:
            total = np.sin(total * s)
        start = process_time()
        grad(total, many)
        return process_time() - start

    seconds(100)
    small, large = seconds(500), seconds(4000)
    assert large < 32 * small + 0.5


def test_a_complex_cost_of_real_variables() -> None:
    r, z = wb.scalar("r"), wb.scalar("z", dtype=np.complex128)
    with pytest.raises(DtypeError, match=r"real part alone.*np\.real"):
        grad(np.exp(1j * r), r)
    assert at(grad(np.exp(z), z), z=0j) == 1.0
    # df/dx - i df/dy of a real cost
    assert at(grad(np.real(z * np.conj(z)), z), z=1 + 2j) == 2 - 4j
