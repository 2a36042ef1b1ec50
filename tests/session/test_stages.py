"""A session's arrays are its own, and the program has run once."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from workbench.session.timeline import measure_norms
from workbench.session.wire.columns import value_statistics


class Counted(wb.Op):
    """The square, with a count of its runs."""

    name = "counted_square"
    runs = 0

    def infer(self, x: Any) -> Any:
        return x

    def compute(self, x: Any) -> Any:
        type(self).runs += 1
        return x * x

    def vjp(self, node: Any, g: Any) -> Any:
        return 2 * g * node.inputs[0]


class Passed(wb.Op):
    """An op that hands its input on, as some that only measure do."""

    name = "passed_on"

    def infer(self, x: Any) -> Any:
        return x

    def compute(self, x: Any) -> Any:
        return x

    def vjp(self, node: Any, g: Any) -> Any:
        return g


def test_a_session_computes_nothing_again() -> None:
    square = Counted()
    Counted.runs = 0
    graph = wb.trace(lambda x: np.sum(square(np.tanh(square(x)))))(np.ones(3))
    ran = Counted.runs
    session = wb.Session(graph)
    assert Counted.runs == ran
    session.override("tanh", "0.5 * d")
    session.undo()
    assert Counted.runs == ran
    session.run(x=np.zeros(3))
    assert Counted.runs == ran + 2


def test_values_of_its_own_are_not_copied() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x[1:]) * x[:2]))(np.arange(3.0))
    session = wb.Session(graph)
    for old, new in zip(graph.nodes, session.graph.nodes, strict=True):
        lent = old.op.name in ("identity", "getitem")
        assert (new._value is old._value) != lent, old


CONSTANT = np.arange(12.0).reshape(3, 4)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: np.tanh(x.reshape(4, 3)),
    "transpose": lambda x: x.T * 2,
    "slices of slices": lambda x: x[1:][:, ::-2] * x[:2, ::2],
    "one entry": lambda x: x[1, 2] * x,
    "broadcast": lambda x: np.broadcast_to(x[0], (5, 4)) + 1,
    "ravel": lambda x: x.ravel() ** 2,
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1),
    "diagonal": lambda x: np.diagonal(x[:, 1:]),
    "parts": lambda x: np.split(x, 2, axis=1)[1],
    "a leaf": lambda x: x,
    "a constant": lambda x: np.sin(x) * CONSTANT + CONSTANT.T.reshape(3, 4),
    "a part of a constant": lambda x: x + CONSTANT[::2, :1].sum() + CONSTANT[:1],
    "handed on": lambda x: Passed()(Passed()(x)[1:]),
    "a loop": lambda x: wb.scan(lambda y: np.tanh(y), initial=x, n_steps=3)[-1],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("made", ["whole", "part", "turned"])
def test_what_changes_in_place_does_not_reach_it(name: str, made: str) -> None:
    base = np.arange(48.0).reshape(6, 8) / 7
    x = {"whole": base[:3, :4].copy(), "part": base[1:4, ::2], "turned": base[::2, 4:]}
    x["turned"] = x["turned"].T.copy().T
    given, constant = x[made], CONSTANT.copy()
    session = wb.Session(wb.trace(PROGRAMS[name])(given), seed=_seed(name))
    values = [_copied(node._value) for node in session.graph.nodes]
    grads = session.grads["x"]
    try:
        base += 100
        given[...] = np.nan
        CONSTANT[...] = np.inf
        assert_values(session, values)
        if session.nodes.count > 1:
            session.override(lambda node: bool(node.inputs), "d")
            session.undo()
        np.testing.assert_array_equal(session.grads["x"], grads)
        session.run()
        assert_values(session, values)
    finally:
        CONSTANT[...] = constant


def assert_values(session: wb.Session, values: list[Any]) -> None:
    for value, node in zip(values, session.graph.nodes, strict=True):
        parts = node._value if isinstance(value, tuple) else [node._value]
        known = value if isinstance(value, tuple) else [value]
        for part, one in zip(parts, known, strict=True):
            np.testing.assert_array_equal(part, one)


def _seed(name: str) -> Any:
    return np.ones(np.shape(PROGRAMS[name](np.ones((3, 4)))))


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(np.copy, value))
    return np.copy(value)


def test_views_of_a_leaf_stay_views() -> None:
    def f(x: Any) -> Any:
        wide = np.broadcast_to(x, (100_000, 3))
        windows = np.lib.stride_tricks.sliding_window_view(x, 2)
        return np.sum(wide) + np.sum(windows)

    session = wb.Session(wb.trace(f)(np.ones(3)))
    views = {x.op.name: x._value for x in session.graph.nodes}
    assert views["broadcast_to"].strides[0] == 0
    assert views["windows"].base is not None


def test_two_inputs_that_share_memory_are_two_arrays() -> None:
    x = np.arange(4.0)
    session = wb.Session(wb.trace(lambda a, b: np.sum(a * b[::-1]))(x, x[:]))
    x[:] = 9
    assert session.value == 4
    session.run(a=np.ones(4))
    np.testing.assert_array_equal(session.values["b"], np.arange(4.0))


def test_a_session_that_nobody_holds_is_gone_at_once() -> None:
    """Its arrays do not wait for the next collection of circles."""
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x) * x))(np.ones(3)))
    session.override("tanh", "0.5 * d")
    assert [one.matched for one in session.overrides] == [(1,)]
    assert session.overrides[0].effects
    graph = weakref.ref(session.graph)
    gc.collect()
    gc.disable()
    try:
        del session
        assert graph() is None
    finally:
        gc.enable()


def _fill(x: Any, steps: int, length: int) -> Any:
    y = wnp.zeros(length)
    for i in range(steps):
        y[i] = x[i % 3] * 0.5 + (y[i - 1] if i else 0.0)
    return y


def test_versions_of_an_array_have_values_when_they_are_asked_for() -> None:
    def f(x: Any) -> Any:
        y = _fill(x, 40, 50)
        y[10:20] *= y[:10]
        return wnp.sum(y * y)

    start = np.array([2.0, 3.0, 4.0])
    session = wb.Session(wb.trace(f)(start))
    for x in (start, start[::-1] / 3):
        session.run(x=x)
        nodes = session.forward.graph.nodes
        places = [i for i, n in enumerate(nodes) if n.op.name == "index_set"]
        assert len(places) == 41
        rows = value_statistics(session.forward).reshape(len(nodes), -1)
        measured = measure_norms(session._state)[: len(nodes)]
        for k in (3, 30, 12, 39):  # in any order
            expected = _fill(x, k + 1, 50)
            place = places[k]
            np.testing.assert_array_equal(nodes[place].value, expected)
            np.testing.assert_array_equal(session.values[place], expected)
            np.testing.assert_allclose(rows[place][1], expected.max())
            np.testing.assert_allclose(measured[place], np.linalg.norm(expected))
        np.testing.assert_allclose(session.value, f(x))
        np.testing.assert_allclose(session.grads["x"], wb.grad(f)(x))
        assert session.check()


def test_a_session_keeps_one_value_of_an_array_that_is_filled() -> None:
    graph = wb.trace(lambda x: wnp.sum(_fill(x, 200, 20_000)))(np.ones(3))
    wb.Session(wb.trace(np.sum)(np.ones(3)))  # what is imported
    tracemalloc.start()
    try:
        session = wb.Session(graph)
        value_statistics(session.forward)
        kept, most = tracemalloc.get_traced_memory()
        # Each of 200 versions has 160 kB; a hundred are measured at once.
        assert kept < 4_000_000
        assert most < 25_000_000
    finally:
        tracemalloc.stop()
