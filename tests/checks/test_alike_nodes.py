"""Small nodes of one elementwise op are checked together, with the same verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks import nodes as checked
from workbench.checks.alike_nodes import AlikeNodes
from workbench.checks.nodes import check_nodes
from workbench.checks.report import NodeCheck
from workbench.core.op import OPS, Op
from workbench.core.tensor import Tensor

UNARY = (np.sin, np.tanh, np.exp, np.abs, np.sqrt, np.square, np.arctan, np.cbrt)
BINARY = (np.add, np.multiply, np.subtract, np.maximum, np.divide, np.hypot)


def make_program(rng: np.random.Generator, count: int) -> list[Tensor]:
    """Return the nodes of a random program of small arrays of a few shapes."""
    choices = rng.random((count, 4))
    shapes = ((3,), (), (2, 3), (2, 1), (3,))
    inputs = [rng.standard_normal(shape) for shape in shapes]
    inputs[0][0] = 0.0  # at the kink of abs, and where sqrt has no derivative

    def program(*values: Any) -> Any:
        values = [*values]
        for which, kind, a, b in choices:
            x, y = values[int(a * len(values))], values[int(b * len(values))]
            if which < 0.4:
                values.append(UNARY[int(kind * len(UNARY))](x))
            elif which < 0.6:
                values.append(0.5 * x - 1)
            elif which < 0.7:
                values.append(np.where(y > 0, x, 2 * y))
            else:
                values.append(BINARY[int(kind * len(BINARY))](x, y))
        return values[-1]

    with np.errstate(all="ignore"):
        return wb.trace(program)(*inputs).nodes


def check_one_by_one(
    nodes: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> list[NodeCheck]:
    """Check each node by itself."""
    with monkeypatch.context() as patch:
        patch.setattr(AlikeNodes, "is_right", lambda self, node: False)
        return check_nodes(nodes)


def compare(nodes: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Compare both ways; return the statuses that there are."""
    together = check_nodes(nodes)
    alone = check_one_by_one(nodes, monkeypatch)
    assert [c.node for c in together] == [c.node for c in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.status == other.status, (one, other)
    return {c.status for c in together}


@pytest.mark.parametrize("trial", range(4))
def test_random_programs_have_the_same_verdicts(
    trial: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(make_program(rng, 40), monkeypatch)


def wrong_everywhere(pull: Any) -> Any:
    return lambda mask, g, *rest: [
        None if c is None else c * 1.001 for c in pull(mask, g, *rest)
    ]


def wrong_if_negative(pull: Any) -> Any:
    def wrong(mask: int, g: Any, y: Any, inputs: Any, params: Any) -> Any:
        (c,) = pull(mask, g, y, inputs, params)
        return [c * np.where(inputs[0] < 0, 1.1, 1.0)]

    return wrong


def mixes_entries(pull: Any) -> Any:
    def wrong(mask: int, g: Any, y: Any, inputs: Any, params: Any) -> Any:
        (c,) = pull(mask, g, y, inputs, params)
        return [c + 0.1 * np.sum(c)]

    return wrong


def has_wrong_derivative(pull: Any) -> Any:
    """Right itself, but not when it is differentiated."""

    def wrong(mask: int, g: Any, y: Any, inputs: Any, params: Any) -> Any:
        return [wb.stop_gradient(np.cos(inputs[0])) * g]

    return wrong


@pytest.mark.parametrize(
    "make", [wrong_everywhere, wrong_if_negative, mixes_entries, has_wrong_derivative]
)
def test_a_wrong_rule_of_a_shipped_op_is_found(
    make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.array([[0.3, 0.5], [-0.4, 0.9], [0.2, 0.1], [0.7, -1.2]])

    def program(x: Any) -> Any:
        return sum(np.sum(np.sin(x[k])) for k in range(4))

    sine: Op = OPS["sin"]
    monkeypatch.setattr(sine, "pull", make(sine.pull))
    nodes = wb.trace(program)(values).nodes
    assert "wrong" in compare(nodes, monkeypatch)


def test_a_wrong_forward_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sine: Op = OPS["sin"]
    push: Any = sine.push
    monkeypatch.setattr(
        sine, "push", lambda t, y, inputs, params: 1.01 * push(t, y, inputs, params)
    )
    nodes = wb.trace(lambda x: np.sum(np.sin(np.sin(x))))(np.ones(3)).nodes
    assert "wrong" in compare(nodes, monkeypatch)


def test_ops_of_users_are_checked_one_by_one() -> None:
    class Half(wb.Op):
        def infer(self, x: Any) -> Any:
            return x

        def compute(self, x: Any) -> Any:
            return x / 2

        def vjp(self, node: Any, g: Any) -> Any:
            return g / 2

    half = Half()
    nodes = wb.trace(lambda x: np.sum(half(half(x))))(np.ones(3)).nodes
    alike = AlikeNodes(nodes, np.random.default_rng(0))
    assert not any(alike.is_right(x) for x in nodes)


def test_a_long_chain_needs_few_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[Tensor] = []
    check_node = checked.check_node

    def count(node: Tensor, *args: Any, **settings: Any) -> NodeCheck:
        alone.append(node)
        return check_node(node, *args, **settings)

    monkeypatch.setattr(checked, "check_node", count)

    def chain(x: Any) -> Any:
        y = x
        for _ in range(50):
            y = np.tanh(y * 1.01 + x) - 0.1
        return y.sum()

    found = check_nodes(wb.trace(chain)(np.linspace(0.1, 0.8, 8)).nodes)
    assert {c.status for c in found} == {"right"}
    assert [x.op.name for x in alone] == ["sum"]


def test_large_nodes_of_one_op_need_one_evaluation_each(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, bias = rng.standard_normal((300, 20)), rng.standard_normal(20)
    nodes = wb.trace(lambda x, b: np.sum(np.tanh(np.tanh(x + b) * x)))(x, bias).nodes
    alike = AlikeNodes(nodes, rng)
    assert {x.op.name for x in nodes if alike.is_right(x)} == {
        "add", "multiply", "tanh",
    }  # fmt: skip
    assert compare(nodes, monkeypatch) == {"right"}


@pytest.mark.parametrize("make", [wrong_everywhere, wrong_if_negative, mixes_entries])
@pytest.mark.parametrize("shape", [(), (40, 30)])
def test_a_wrong_rule_of_a_single_node_is_found(
    make: Callable[[Any], Any],
    shape: tuple[int, ...],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = -np.abs(rng.standard_normal(shape)) - 0.1
    sine: Op = OPS["sin"]
    monkeypatch.setattr(sine, "pull", make(sine.pull))
    nodes = wb.trace(lambda x: np.sum(np.sin(x)))(x).nodes
    assert "wrong" in compare(nodes, monkeypatch)


@pytest.mark.parametrize("count", [1, 2])
def test_of_large_nodes_the_first_has_its_second_order_checked(
    count: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sine: Op = OPS["sin"]
    monkeypatch.setattr(sine, "pull", has_wrong_derivative(sine.pull))
    x = rng.uniform(0.2, 0.8, (count, 40, 30))
    nodes = wb.trace(lambda x: sum(np.sum(np.sin(x[k])) for k in range(count)))(x).nodes
    assert "wrong" in compare(nodes, monkeypatch)
    found = {c.node.op.name: c for c in reversed(check_nodes(nodes))}
    worst = found["sin"].entry
    assert worst is not None
    assert worst.order == 2


#: Times this an entry is off by half more than it may be.
SLIGHTLY = 1 + 1.5e-6
SEEDS = 8


def find_wrong(nodes: list[Tensor], rng: np.random.Generator) -> list[NodeCheck]:
    """Check with some seeds; return what is wrong with one of them.

    All must find the same.
    """
    found = []
    for seed in rng.integers(0, 2**31, SEEDS).tolist():
        found.append([c for c in check_nodes(nodes, seed=seed) if c.status != "right"])
    first = found[0]
    for other in found[1:]:
        assert [(c.node, c.status) for c in other] == [
            (c.node, c.status) for c in first
        ]
        for one, again in zip(first, other, strict=True):
            assert one.entry is not None
            assert again.entry is not None
            assert one.entry.index == again.entry.index
            assert one.entry.output == again.entry.output
    return first


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_a_slight_fault_in_one_entry_is_found_with_its_place(
    mode: str, count: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.uniform(0.2, 0.8, (count, 80, 40))
    k, i, j = (int(rng.integers(0, n)) for n in x.shape)
    sine: Op = OPS["sin"]
    pull: Any = sine.pull
    push: Any = sine.push

    def scale(inputs: Any) -> Any:
        return np.where(inputs[0] == x[k, i, j], SLIGHTLY, 1.0)

    if mode == "rev":
        monkeypatch.setattr(
            sine,
            "pull",
            lambda mask, g, y, inputs, params: [
                c * scale(inputs) for c in pull(mask, g, y, inputs, params)
            ],
        )
    else:
        monkeypatch.setattr(
            sine,
            "push",
            lambda t, y, inputs, params: push(t, y, inputs, params) * scale(inputs),
        )

    def program(x: Any) -> Any:
        return sum(np.sum(np.sin(x[k])) for k in range(count))

    nodes = wb.trace(program)(x).nodes
    (wrong,) = find_wrong(nodes, rng)
    assert wrong.node.inputs[0]._value[i, j] == x[k, i, j]
    assert (wrong.status, wrong.mode) == ("wrong", mode)
    assert wrong.entry is not None
    assert wrong.entry.index == (i, j)
    assert wrong.entry.output == f"y[{i}, {j}]"
    assert f"d{wrong.entry.output} / dx[{i}, {j}] " in wrong.text


@pytest.mark.parametrize("side", [0, 1])
def test_a_slight_fault_is_found_in_a_sum_that_broadcasting_makes(
    side: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, b = rng.uniform(0.2, 0.8, (200, 30)), rng.uniform(0.2, 0.8, 30)
    i, j = (int(rng.integers(0, n)) for n in x.shape)
    product: Op = OPS["multiply"]
    pull: Any = product.pull

    def wrong_at_one(mask: int, g: Any, y: Any, inputs: Any, params: Any) -> Any:
        passed = list(pull(mask, g, y, inputs, params))
        scale = np.where(inputs[0] == x[i, j], SLIGHTLY, 1.0)
        # What the rule passes on, before it is summed over the rows.
        passed[side] = (g * inputs[1 - side]) * scale
        return passed

    monkeypatch.setattr(product, "pull", wrong_at_one)
    nodes = wb.trace(lambda x, b: np.sum(x * b))(x, b).nodes
    (wrong,) = find_wrong(nodes, rng)
    assert wrong.status == "wrong"
    assert wrong.entry is not None
    assert wrong.entry.index == ((i, j), (j,))[side]
    assert wrong.entry.output == f"y[{i}, {j}]"


def test_entries_that_are_off_by_less_than_they_may_be_are_right(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sine: Op = OPS["sin"]
    pull: Any = sine.pull
    monkeypatch.setattr(
        sine, "pull", lambda *given: [c * (1 + 0.8e-6) for c in pull(*given)]
    )
    x = rng.uniform(0.2, 0.8, (80, 40))
    nodes = wb.trace(lambda x: np.sum(np.sin(x)))(x).nodes
    assert find_wrong(nodes, rng) == []
