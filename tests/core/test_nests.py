"""Nests are taken apart and built again: each kind, its order, how its leaves read."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import workbench as wb
from workbench.core import tree


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any = 0.0


class Pair(NamedTuple):
    first: Any
    second: Any


class Registered:
    """A class that its author has registered."""

    def __init__(self, inside: Any, note: str) -> None:
        self.inside, self.note = inside, note

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Registered) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


optree.register_pytree_node(
    Registered,
    lambda x: ((x.inside,), x.note),
    lambda note, parts: Registered(*parts, note),
    namespace="workbench",
)

GROWN = defaultdict(list, {"b": 1.0, "a": 2.0})
NESTS: list[tuple[Any, list[Any], list[str]]] = [
    (1.0, [1.0], ["p"]),
    ((), [], []),
    ([1.0, (2.0,)], [1.0, 2.0], ["p[0]", "p[1][0]"]),
    ({"b": 1.0, "a": 2.0}, [2.0, 1.0], ["p['a']", "p['b']"]),
    ({"b": 1.0, 3: 2.0}, [2.0, 1.0], ["p[3]", "p['b']"]),
    (OrderedDict(b=1.0, a=2.0), [1.0, 2.0], ["p['b']", "p['a']"]),
    (GROWN, [2.0, 1.0], ["p['a']", "p['b']"]),
    (deque([1.0, 2.0], 5), [1.0, 2.0], ["p[0]", "p[1]"]),
    (Pair(1.0, [2.0]), [1.0, 2.0], ["p.first", "p.second[0]"]),
    (Layer(1.0, {"x": 2.0}), [1.0, 2.0], ["p.weight", "p.bias['x']"]),
    ([Registered([1.0, 2.0], "kept")], [1.0, 2.0], []),
    ({"none": None, "x": [None, 1.0]}, [1.0], ["p['x'][1]"]),
]


@pytest.mark.parametrize(("nest", "leaves", "names"), NESTS)
def test_each_kind_of_nest(nest: Any, leaves: list[Any], names: list[str]) -> None:
    found, structure = tree.flatten(nest)
    assert found == leaves
    built = structure(found)
    assert built == nest
    assert type(built) is type(nest)
    if isinstance(nest, dict):
        assert list(built) == list(nest)
    assert structure.leaves(nest) == leaves
    assert structure == tree.flatten(built)[1]
    assert hash(structure) == hash(tree.flatten(built)[1])
    assert len(structure.names("p")) == len(leaves)
    if names:
        assert structure.names("p") == names


def test_what_a_class_needs_besides_comes_back() -> None:
    assert tree.map_tree(lambda x: x, GROWN).default_factory is list
    assert tree.map_tree(lambda x: x, deque([1.0], 5)).maxlen == 5
    now = time.gmtime(0)
    assert tree.map_tree(lambda x: x, now) == now


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1.0, "b": 2.0}, {"b": 1.0, "a": 2.0}, True),
        ({"a": 1.0}, OrderedDict(a=1.0), False),
        ({"a": 1.0}, {"b": 1.0}, False),
        ((1.0, 2.0), [1.0, 2.0], False),
        ((1.0,), (1.0, 2.0), False),
        (OrderedDict(a=1.0, b=2.0), OrderedDict(b=1.0, a=2.0), False),
        ([Registered(1.0, "one")], [Registered(1.0, "other")], False),
        ((None, 1.0), (1.0, None), False),
    ],
)
def test_which_structures_are_equal(one: Any, other: Any, equal: bool) -> None:
    assert (tree.flatten(one)[1] == tree.flatten(other)[1]) is equal


@pytest.mark.parametrize(
    ("nest", "value"),
    [
        ([1.0, 2.0], (1.0, 2.0)),
        ((1.0, 2.0), (1.0, 2.0, 3.0)),
        ((1.0, (2.0,)), (1.0, 2.0)),
        ({"a": 1.0}, {"b": 1.0}),
        ((None, 1.0), (1.0, 1.0)),
    ],
)
def test_a_value_that_is_nested_otherwise(nest: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="is wanted"):
        tree.flatten(nest)[1].leaves(value)


def test_leaves_too_few_and_too_many() -> None:
    structure = tree.flatten((1.0, [2.0]))[1]
    with pytest.raises(ValueError, match="too few"):
        structure([1.0])
    with pytest.raises(ValueError, match="too many"):
        structure([1.0, 2.0, 3.0])


def test_a_class_may_be_registered_after_it_was_a_leaf() -> None:
    class Late:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    nest = [Late(1.0)]
    assert tree.flatten(nest)[0] == nest
    optree.register_pytree_node(
        Late, lambda x: ((x.inside,), None), lambda _, parts: Late(*parts),
        namespace="workbench",
    )  # fmt: skip
    assert tree.flatten(nest)[0] == [1.0]


def test_gradients_by_nests_load_nothing() -> None:
    code = (
        "import sys, numpy as np, workbench as wb\n"
        "wb.grad(lambda p: np.sum(p['w'] * p['l'][0][1]))"
        "({'w': np.ones(2), 'l': [(1.0, 2.0)]})\n"
        "wb.grad(lambda a, b: np.sum(a * b), (0, 1))(np.ones(2), 2.0)\n"
        "assert 'optree' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_wait_until_they_are_read() -> None:
    asked = []

    class Function:
        @property
        def __signature__(self) -> Any:
            asked.append(self)
            raise ValueError("none")

        def __call__(self, params: Any, x: Any) -> Any:
            kept.append(params)
            return np.sum(params["w"] * x)

    kept: list[Any] = []
    wb.grad(Function())({"w": np.ones(2), "v": 1.0}, 2.0)
    assert not asked
    assert kept[0]["w"].name == "arg0['w']"
    assert kept[0]["v"].name == "arg0['v']"
    assert len(asked) == 1


def test_a_structure_is_pickled_without_its_hash() -> None:
    structure = tree.flatten({"a": (1.0, [2.0])})[1]
    hash(structure)
    found = pickle.loads(pickle.dumps(structure))
    assert not hasattr(found, "_hash")  # that of a string is another in each process
    assert found == structure
    assert hash(found) == hash(structure)


def test_the_arguments_of_a_call_are_taken_apart_at_a_glance() -> None:
    x = np.ones(3)
    for args, kwargs in (
        ((x, 2.0, True), {}), ((), {}), (((x, 1), x), {}), ((x,), {"k": x}),
        ((None, x), {}), ((wb.vector("z"),), {}),
    ):  # fmt: skip
        leaves, structure = tree.flatten_call(args, kwargs)
        wanted, same = tree.flatten((args, kwargs))
        assert structure == same
        assert all(a is b for a, b in zip(leaves, wanted, strict=True))
