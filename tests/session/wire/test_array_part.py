"""Arrays as pictures: a part of a value or a gradient, its change, its history."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.wire.golden.write import session as session_of_golden
from workbench.errors import UsageError
from workbench.session.wire import encode_array, list_array_history

Array = np.ndarray[Any, Any]


def descend(x: Array, steps: int) -> tuple[wb.Session, list[Array]]:
    """Return a session after steps down sum(x**2) / 2, and the inputs of each."""
    session = wb.Session(wb.trace(lambda x: np.sum(x**2) / 2)(x))
    inputs = [x * 0.5**k for k in range(steps)]
    for one in inputs:
        session.run(x=one)
    return session, inputs


def test_an_image_has_the_largest_entry_of_each_block() -> None:
    rng = np.random.default_rng(2026)
    x = rng.normal(size=(130, 10))
    session, _ = descend(x, 1)
    found = encode_array(session, 0, "value", [])
    assert (found["shape"], found["index"]) == ([130, 10], [None, None])
    assert found["block"] == [3, 1]
    cells = np.array(found["values"])
    assert cells.shape == (44, 10)
    padded = np.concatenate([x, np.zeros((2, 10))]).reshape(44, 3, 10)
    largest = np.abs(padded).argmax(1)
    assert np.array_equal(cells, np.take_along_axis(padded, largest[:, None], 1)[:, 0])


def test_a_long_line_has_the_lowest_and_the_highest_of_each_block() -> None:
    x = np.sin(np.arange(1000.0))
    session, _ = descend(x, 1)
    found = encode_array(session, 0, "gradient", [])
    low, high = np.array(found["values"])
    blocks = x.reshape(250, 4)
    assert found["block"] == [1, 4]
    assert np.array_equal(low, blocks.min(1))
    assert np.array_equal(high, blocks.max(1))


@pytest.mark.parametrize(
    ("index", "chosen", "part"),
    [
        ([], [0, None, None], np.s_[0]),
        ([4], [4, None, None], np.s_[4]),
        ([None, 1], [None, 1, None], np.s_[:, 1]),
        ([None, 1, 2], [None, 1, 2], np.s_[:, 1, 2]),
        ([3, 0, 1], [3, 0, 1], np.s_[3, 0, 1]),
    ],
)
def test_a_part_is_one_sample_or_one_neuron(
    index: list[int | None], chosen: list[int | None], part: Any
) -> None:
    x = np.arange(30.0).reshape(5, 2, 3)
    session, _ = descend(x, 1)
    found = encode_array(session, 0, "value", index)
    assert found["index"] == chosen
    assert np.array_equal(np.array(found["values"]), np.atleast_2d(x[part]))


@pytest.mark.parametrize(("against", "run"), [("first", 1), ("last", 4)])
def test_a_change_is_since_a_run_before(against: Any, run: int) -> None:
    session, inputs = descend(np.array([[1.0, -2.0], [0.0, 3.0]]), 5)
    found = encode_array(session, 0, "gradient", [], against)
    assert found["against"] == run
    # The gradient of sum(x**2) / 2 is x.
    assert np.array_equal(np.array(found["values"]), inputs[4] - inputs[run - 1])
    past = session.find_view(3)
    found = encode_array(past, 0, "value", [1], against)
    run = {"first": 1, "last": 2}[against]
    assert found["against"] == run
    assert np.array_equal(found["values"], [inputs[2][1] - inputs[run - 1][1]])


def test_a_history_has_a_histogram_of_each_chosen_run() -> None:
    x = np.linspace(-1.0, 2.0, 50).reshape(5, 10)
    session, inputs = descend(x, 40)
    found = list_array_history(session, 0, "value", [None, 3])
    steps = found["steps"]
    assert len(steps) == 24
    assert (steps[0], steps[-1]) == (1, 40)
    for step, one in zip(steps, found["histograms"], strict=True):
        column = inputs[step - 1][:, 3]
        assert (one["low"], one["high"], one["size"]) == (column.min(), column.max(), 5)
        assert sum(one["counts"]) == 5
    told: list[tuple[int, int]] = []

    def stop(done: Any, total: Any) -> bool:
        told.append((done, total))
        return len(told) == 3

    with pytest.raises(KeyboardInterrupt):
        list_array_history(session, 0, "value", [], stop)
    assert told == [(0, 24), (1, 24), (2, 24)]


def test_numbers_that_are_not_finite_or_real() -> None:
    x = np.array([[1.0, np.nan], [-np.inf, 0.0]])
    with np.errstate(all="ignore"):
        session, _ = descend(x, 1)
        found = encode_array(session, 0, "value", [])
    assert found["values"] == [[1.0, None], [None, 0.0]]
    json.dumps(found, allow_nan=False)
    z = np.array([3 + 4j, 1j])
    made = wb.Session(wb.trace(lambda z: np.sum(np.abs(z) ** 2))(z))
    found = encode_array(made, 0, "value", [])
    assert (found["is_complex"], found["values"]) == (True, [[5.0, 1.0]])
    empty, _ = descend(np.ones((0, 3)), 1)
    assert encode_array(empty, 0, "value", [])["values"] == []


@pytest.mark.parametrize(
    ("index", "against", "words"),
    [
        ([5], None, "index 5 is out of axis 0 of an array of shape (2, 2): take one"),
        ([0, 0, 0], None, "3 indices for an array of shape (2, 2): give at most 2"),
        ([], "last", "no run before this one is kept"),
    ],
)
def test_what_there_is_not_is_refused(index: Any, against: Any, words: str) -> None:
    session, _ = descend(np.ones((2, 2)), 1)
    with pytest.raises(UsageError) as caught:
        encode_array(session, 0, "value", index, against)
    assert words in str(caught.value)


def test_a_node_without_a_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match="X has no gradient at this run"):
        encode_array(session_of_golden(), 0, "gradient", [])


def test_changes_of_booleans_and_of_small_integers_are_numbers() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.where(x > 0, x, -x)))(np.ones(2)))
    for x in ([1.0, 2.0], [-1.0, 2.0]):
        session.run(x=np.array(x))
    assert encode_array(session, 1, "value", [], "last")["values"] == [[-1.0, 0.0]]
    small = wb.trace(lambda x: np.sum(np.astype(np.abs(x), np.uint8) * 1.0))(np.ones(1))
    session = wb.Session(small)
    for value in (100.0, 1.0):
        session.run(x=np.array([value]))
    (node,) = [i for i, x in enumerate(small.nodes) if x.dtype == np.uint8]
    assert encode_array(session, node, "value", [], "last")["values"] == [[-99.0]]
