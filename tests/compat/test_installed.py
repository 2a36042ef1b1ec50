"""Between `install` and `uninstall` variables behave as Theano's did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import workbench.compat.theano.tensor as T
from workbench.compat import theano
from workbench.compat.theano.variables import DtypeName
from workbench.errors import TraceError


@pytest.fixture
def installed() -> Iterator[None]:
    theano.install()
    try:
        yield
    finally:
        theano.uninstall()


@pytest.mark.usefixtures("installed")
def test_a_dtype_is_a_string_for_programs() -> None:
    x, y = T.fmatrix("x"), T.ivector("y")
    assert x.dtype.startswith("float")
    assert y.dtype.startswith("int")
    assert x.dtype in ("float32", "float64")
    assert x.dtype in {"float32"}
    assert x.dtype == np.float32
    assert x.dtype != np.float64
    assert x.dtype != "int8"
    assert (x.dtype.kind, x.dtype.itemsize, "a " + y.dtype) == ("f", 4, "a int32")
    assert np.zeros(2, x.dtype).dtype == np.float32
    assert T.cast(y, x.dtype).dtype == "float32"
    f = theano.function([x, y], (x * y.astype(x.dtype)).sum())
    assert f(np.ones((2, 2), "float32"), np.array([1, 2], "int32")) == 6


@pytest.mark.usefixtures("installed")
def test_a_variable_is_true_and_a_condition_has_no_truth() -> None:
    x, W = T.dmatrix("x"), theano.shared(np.zeros((2, 2)), "W")
    assert x
    assert W
    assert not (not W)
    assert (W or None) is W
    assert bool(T.dot(x, W))
    for condition in (x < 1, T.all(x), T.eq(x, 0).any()):
        with pytest.raises(TraceError, match="not known yet"):
            bool(condition)


@pytest.mark.usefixtures("installed")
def test_the_text_of_a_variable_is_its_name() -> None:
    W = theano.shared(np.zeros(2), "W")
    assert str(W) == "W"
    assert f"{T.dvector('v')!s}" == "v"
    assert str(T.constant(2.0)) == "2.0"
    assert "add" in str(W + 1)


def test_and_afterwards_as_the_librarys() -> None:
    W = theano.shared(np.zeros(2), "W")
    theano.install()
    theano.install()
    assert isinstance(W.dtype, DtypeName)
    theano.uninstall()
    theano.uninstall()
    assert type(W.dtype) is type(np.dtype(float))
    assert "Shared" in str(W)
    with pytest.raises(TraceError):
        bool(W)


def test_what_is_written_on_a_tag_stays_there() -> None:
    x = T.dmatrix("x")
    x.tag.role = "input"
    assert x.tag.role == "input"
    assert getattr(T.dvector().tag, "role", None) is None


def test_test_values_follow_from_those_of_symbols() -> None:
    x, W = T.dmatrix("x"), theano.shared(np.full((3, 2), 2.0), "W")
    y = T.dot(x, W)
    with pytest.raises(AttributeError, match=r"x\.tag\.test_value = array"):
        _ = y.tag.test_value
    x.tag.test_value = np.ones((1, 3))
    assert np.array_equal(y.tag.test_value, [[6.0, 6.0]])
    assert theano.gof.op.get_test_value(y + 1)[0, 0] == 7.0
    y.tag.test_value = 0.0
    assert y.tag.test_value == 0.0
