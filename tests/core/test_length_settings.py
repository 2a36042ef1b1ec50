"""Nodes whose settings name lengths of their inputs, in every copy of a program."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.deferred import LengthParams, OperandLength
from workbench.core.dims import Length, atoms_of
from workbench.core.graph import Graph, copy_onto
from workbench.core.tensor import Tensor
from workbench.core.trace import make_leaf_like

#: Steps of a program, each of an array with as many rows as z has entries.
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda y, z: np.reshape(np.reshape(y, (-1,)), (z.shape[0], -1)),
    lambda y, z: np.reshape(y, (z.shape[0], y.shape[1])) * 2,
    lambda y, z: y + np.broadcast_to(np.sum(y, axis=0), (z.shape[0], y.shape[1])),
    lambda y, z: np.concatenate(
        [y, np.zeros_like(y, shape=(z.shape[0], 1)) + z[:, None]], axis=1
    ),
    lambda y, z: y[: z.shape[0]] * z[:, None],
    lambda y, z: np.reshape(y.T, (y.shape[1], z.shape[0])).T,
    lambda y, z: np.sin(y),
]


def draw_program(rng: np.random.Generator) -> Callable[[Any, Any], Any]:
    chosen = rng.integers(0, len(STEPS), 6)

    def f(x: Any, z: Any) -> Any:
        x = x * z[:, None]
        for i in chosen:
            x = STEPS[i](x, z)
        return x

    return f


def assert_reads_come_first(graph: Graph) -> None:
    """What a node reads, a length too, is among its inputs, which are made before."""
    for node in graph.nodes:
        inputs = [x for x in node.inputs if isinstance(x, Tensor)]
        assert all(x.serial < node.serial for x in inputs)
        for atom in atoms_of(node.params):
            assert not isinstance(atom, Length)
            if isinstance(atom, OperandLength):
                assert isinstance(node.params, LengthParams)
                assert atom.axis < len(node.inputs[atom.position].shape)
    known = {*graph.schedule.constants, *graph.schedule.inputs}
    for step in graph.schedule.steps:
        assert known.issuperset(step.reads)
        known.add(step.writes)


@pytest.mark.parametrize("number", range(25))
def test_lengths_follow_their_inputs(number: int) -> None:
    rng = np.random.default_rng(number)
    f = draw_program(rng)
    x, z = wb.matrix("x"), wb.vector("z")
    y = f(x, z)
    loss = np.sum(y * y)
    graph = Graph([x, z], [loss, *wb.grad(loss, [x, z])])
    leaves = {old: make_leaf_like(old.spec, old.name) for old in (x, z)}
    copies = {
        "itself": graph,
        "copy": copy_onto(graph, leaves),
        "pickled": pickle.loads(pickle.dumps(graph)),
        "simplified": wb.simplify(graph),
    }
    for shape in ((2, 3), (3, 4)):
        a, b = rng.standard_normal(shape), rng.standard_normal(shape[0])
        t, s = rng.standard_normal(shape), rng.standard_normal(shape[0])
        h = 1e-30
        moved = f(a + 1j * h * t, b + 1j * h * s)
        slope = np.sum(moved * moved).imag / h
        for what, one in copies.items():
            assert_reads_come_first(one)
            value, *passed = one.run([a, b])
            np.testing.assert_allclose(value, np.sum(f(a, b) ** 2), err_msg=what)
            along = np.sum(passed[0] * t) + np.sum(passed[1] * s)
            np.testing.assert_allclose(along, slope, rtol=1e-9, err_msg=what)


def test_the_op_takes_its_operands_alone() -> None:
    x, z = wb.matrix("x"), wb.vector("z")
    y = np.reshape(x, (z.shape[0], -1))
    assert y.op is wb.trace(lambda a: np.reshape(a, (2, -1)))(np.ones(4)).outputs[0].op
    assert [i.name for i in y.inputs] == ["x", "z"]
    assert [i.name for i in y.operands] == ["x"]
    assert str(y.params["shape"]) == "(inputs[1].shape[0], -1)"
    assert str(y.settings["shape"]) == "(z.shape[0], -1)"


def test_an_override_reads_the_operands_alone() -> None:
    x, z = wb.matrix("x"), wb.vector("z")
    read: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        read.append((node.inputs, str(node.params["shape"])))
        return 3 * np.reshape(g, node.inputs[0].shape)

    loss = np.sum(np.reshape(x, (z.shape[0], -1)) * 2)
    slope = wb.grad(loss, x, overrides=[wb.override("reshape", vjp=rule)])
    assert [str(shape) for _, shape in read] == ["(z.shape[0], -1)"]
    assert all(len(inputs) == 1 for inputs, _ in read)
    made = Graph([x, z], [slope]).run([np.ones((2, 3)), np.ones(3)])[0]
    np.testing.assert_array_equal(made, np.full((2, 3), 6.0))


def test_nothing_varies_with_a_length() -> None:
    x, z = wb.matrix("x"), wb.vector("z")
    loss = np.sum(np.reshape(x, (z.shape[0], -1)) ** 2)
    slope = wb.grad(loss, z, disconnected_inputs="ignore")
    made = Graph([x, z], [slope]).run([np.ones((2, 3)), np.ones(3)])[0]
    np.testing.assert_array_equal(made, np.zeros(3))
