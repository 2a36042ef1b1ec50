"""Shared values: what they hold, how it is set, how expressions see it."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, ShapeError, UnknownLengthError, UsageError


def test_it_holds_a_copy_unless_it_borrows() -> None:
    given = np.zeros(3)
    own, borrowed = wb.shared(given), wb.shared(given, borrow=True)
    given += 1
    np.testing.assert_array_equal(own.get_value(), 0)
    assert borrowed.get_value(borrow=True) is given
    copy = own.get_value()
    copy += 5
    np.testing.assert_array_equal(own.get_value(), 0)
    own.set_value(given)
    given += 1
    np.testing.assert_array_equal(own.get_value(), 1)
    own.set_value(given, borrow=True)
    assert own.get_value(borrow=True) is given


@pytest.mark.parametrize("value", [2, 2.5, True, 1j, [1, 2], np.float32(3), [[1.0]]])
def test_dtype_and_shape_are_those_of_the_value(value: Any) -> None:
    made = wb.shared(value)
    expected = np.asarray(value)
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    assert made.get_value().dtype == expected.dtype


def test_a_dtype_of_its_own() -> None:
    assert wb.shared([1, 2], dtype="float32").get_value().dtype == np.float32
    with pytest.raises(DtypeError, match="of dtype int64 is given one of dtype float"):
        wb.shared(1.5, dtype=int)


def test_set_value_casts_within_a_kind() -> None:
    w = wb.shared(np.zeros(2, np.float32), "w")
    w.set_value([0.1, 2])
    assert w.get_value().dtype == np.float32
    w.set_value(np.arange(2))
    np.testing.assert_array_equal(w.get_value(), [0, 1])
    n = wb.shared(3, "n")
    for bad in (1.5, 1j):
        with pytest.raises(DtypeError, match=r"the shared value 'n' int64\[\]") as told:
            n.set_value(bad)
        assert "astype(np.int64)" in str(told.value)
    assert n.get_value() == 3


def test_numbers_out_of_range_are_refused() -> None:
    k = wb.shared(np.int8(1), "k")
    for change in (
        lambda: k.set_value(300),
        lambda: wb.function([], None, updates={k: 300}),
        lambda: wb.shared(300, dtype="int8"),
    ):
        with pytest.raises(DtypeError, match="300, which is out of"):
            change()
    with pytest.raises(ShapeError, match="uneven lengths"):
        k.set_value([[1], [2, 3]])
    assert k.get_value() == 1


def test_set_value_keeps_the_shape() -> None:
    w = wb.shared(np.zeros((2, 3)), "w")
    with pytest.raises(ShapeError) as caught:
        w.set_value(np.zeros((4, 3)))
    for word in ("'w' float64[2, 3]", "test_shared", "(4, 3)", "shape=(None, None)"):
        assert word in str(caught.value)


def test_lengths_may_be_left_open() -> None:
    rows = wb.shared(np.ones((2, 3)), "rows", shape=(None, 3))
    mean = wb.function([], np.mean(rows, axis=0))
    np.testing.assert_array_equal(mean(), np.ones(3))
    rows.set_value(np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal(mean(), [4.5, 5.5, 6.5])
    x = wb.vector("x", shape=3)
    push = wb.function([x], None, updates={rows: np.concatenate([rows, x[None]])})
    push(np.zeros(3))
    assert rows.get_value().shape == (5, 3)
    for bad in (np.ones((2, 4)), np.ones(3)):
        with pytest.raises(ShapeError, match="'rows'"):
            rows.set_value(bad)
    with pytest.raises(UnknownLengthError, match="rows"):
        range(rows.shape[0])


def test_lengths_are_outputs_and_updates() -> None:
    rows, seen = wb.shared(np.ones((2, 3)), "rows", shape=(None, 3)), wb.shared(0)
    x = wb.vector("x")
    f = wb.function(
        [x], [rows.shape, x.shape[0] + 1], updates={seen: seen + x.shape[0]}
    )
    assert f(np.ones(4)) == [(2, 3), 5]
    assert wb.function([x], None, updates={seen: x.shape[0]})(np.ones(7)) is None
    assert seen.get_value() == 7
    y = wb.scalar("y")
    assert wb.function([x], y * 2, givens={y: x.shape[0]})(np.ones(3)) == 6


@pytest.mark.parametrize("shape", [(2,), (2, 4), (None,), 3])
def test_a_shape_that_the_value_does_not_have(shape: Any) -> None:
    with pytest.raises(ShapeError, match="is given one of shape"):
        wb.shared(np.zeros((2, 3)), shape=shape)


def test_an_update_of_unknown_length_is_checked_before_it_is_written() -> None:
    w, n = wb.shared(np.zeros(3), "w"), wb.shared(0)
    x = wb.vector("x")
    step = wb.function([x], None, updates={n: n + 1, w: x * 2})
    step(np.ones(3))
    with pytest.raises(ShapeError, match="came out with shape"):
        step(np.ones(4))
    np.testing.assert_array_equal(w.get_value(), 2)
    assert n.get_value() == 1


@pytest.mark.parametrize("value", ["text", None, [object()], np.array(["a"])])
def test_it_holds_numbers(value: Any) -> None:
    with pytest.raises(DtypeError, match="a shared value holds numbers"):
        wb.shared(value)


@pytest.mark.parametrize("make", [wb.shared, wb.constant])
def test_a_nest_of_uneven_lengths(make: Any) -> None:
    with pytest.raises(ShapeError, match="a nest of uneven lengths"):
        make([[1.0, 2.0], [3.0]])


def test_a_name_is_a_text() -> None:
    with pytest.raises(UsageError, match="a text, not 3"):
        wb.shared(1.0, 3)  # type: ignore[arg-type]


def test_copies_that_would_share_in_silence() -> None:
    """A model copied deeply would train the one that it was copied from."""
    w, x = wb.shared(np.zeros(2), "w"), wb.vector("x", shape=2)
    step = wb.function([x], w, updates={w: w + x}, name="step")
    with pytest.raises(UsageError, match=r"'w'.*wb\.shared\(w\.get_value\(\)\)"):
        copy.deepcopy({"weights": w})
    with pytest.raises(UsageError, match=r"step.*1 update>.*f\.copy\(swap="):
        copy.deepcopy(step)
    with pytest.raises(TypeError, match=r"'w'.*Pickle its value, w\.get_value"):
        pickle.dumps(w)
    with pytest.raises(TypeError, match=r"step.*cannot be pickled.*f\.source"):
        pickle.dumps(step)
    again = copy.copy(step)
    assert again is not step
    again(np.ones(2))
    np.testing.assert_array_equal(step(np.ones(2)), [1, 1])


def test_it_is_a_symbol_in_expressions() -> None:
    w = wb.shared(np.array([1.0, 2.0]), "w")
    x = wb.vector("x", shape=2)
    for made in (w * x, x @ w, np.sin(w), w[0], np.stack([w, x]), -w, 2 / w, w > 0):
        assert isinstance(made, wb.Tensor)
        assert made.value is None
    assert repr(w) == "<Shared 'w', float64[2]>"
    np.testing.assert_array_equal(w.eval(), [1.0, 2.0])
    assert (w @ x).eval({x: [1.0, 1.0]}) == 3.0


def test_gradients_by_a_shared_value() -> None:
    w = wb.shared(np.array([1.0, -2.0]), "w")
    x = wb.vector("x", shape=2)
    loss = np.sum((w * x) ** 2)
    g = wb.function([x], wb.grad(loss, w))
    at = np.array([3.0, 0.5])
    np.testing.assert_allclose(g(at), 2 * w.get_value() * at**2)
    w.set_value([0.0, 1.0])
    np.testing.assert_allclose(g(at), 2 * w.get_value() * at**2)


def test_descent_arrives() -> None:
    """Least squares by gradient steps, against the normal equations."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(20, 3)), rng.normal(size=20)
    w = wb.shared(np.zeros(3), "w")
    X, y = wb.matrix("X"), wb.vector("y")
    loss = np.mean((X @ w - y) ** 2)
    step = wb.function([X, y], loss, updates={w: w - 0.2 * wb.grad(loss, w)})
    losses = np.array([step(A, b) for _ in range(300)])
    assert np.all(losses[1:] <= losses[:-1] * (1 + 1e-12))
    np.testing.assert_allclose(w.get_value(), np.linalg.lstsq(A, b)[0], atol=1e-8)


def test_it_goes_when_nobody_has_it() -> None:
    w = wb.shared(np.zeros(3))
    f = wb.function([], w * 2, updates={w: w + 1})
    f()
    gone = weakref.ref(w)
    del w, f
    gc.collect()
    assert gone() is None


def test_arrays_of_other_libraries_stay_where_they_are() -> None:
    class Elsewhere:
        """An array of some other library, as far as shared values look."""

        def __init__(self, data: Any) -> None:
            self.data = np.asarray(data)
            self.shape, self.dtype = self.data.shape, self.data.dtype

        def copy(self) -> Elsewhere:
            return Elsewhere(self.data.copy())

        def astype(self, dtype: Any) -> Elsewhere:
            return Elsewhere(self.data.astype(dtype))

    given = Elsewhere([1.0, 2.0])
    w = wb.shared(given, "w")
    held = w.get_value(borrow=True)
    assert isinstance(held, Elsewhere)
    assert held is not given
    w.set_value(Elsewhere(np.zeros(2, np.float32)))
    assert w.get_value().dtype == np.float64
    with pytest.raises(ShapeError):
        w.set_value(Elsewhere(np.zeros(3)))


def test_errors_name_the_line() -> None:
    w = wb.shared(0.0)
    with pytest.raises(ShapeError, match=re.escape("w = wb.shared(0.0)")):
        w.set_value([1.0])


def test_one_that_is_made_inside_of_a_loop() -> None:
    made: list[wb.Shared] = []

    def step(c: Any) -> Any:
        made.append(wb.shared(3.0, "inner"))
        return c * made[-1]

    f = wb.function([], wb.scan(step, initial=[1.0], n_steps=3))
    np.testing.assert_array_equal(f(), [3.0, 9.0, 27.0])
    for one in made:
        one.set_value(2.0)
    np.testing.assert_array_equal(f(), [2.0, 4.0, 8.0])
