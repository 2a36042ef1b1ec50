"""`givens=` of a function: what stands in the place of a symbol or an expression."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, ShapeError

x, y = wb.scalars("x y")
v = wb.vector("v", shape=3)


def test_givens_replace_symbols_shared_values_and_expressions() -> None:
    w = wb.shared(2.0, "w")
    square = x * x
    assert wb.function([y], square + w, givens={x: y + 1})(2.0) == 11.0
    assert wb.function([x], square + w, givens={w: x})(3.0) == 12.0
    assert wb.function([y], square + w, givens=[(square, y)])(5.0) == 7.0
    assert wb.function([], square, givens={x: np.float64(3.0)})() == 9.0
    assert wb.function([x], square, givens={w: 1.0})(2.0) == 4.0


def test_givens_are_made_all_at_once() -> None:
    f = wb.function([x, y], x - y, givens={x: y, y: x})
    assert f(5.0, 2.0) == -3.0
    g = wb.function([x], x * y, givens=[(y, x + 1), (x, x * 10)])
    assert g(2.0) == 20.0 * 3.0  # the x that is put in is not replaced again


def test_givens_reach_updates() -> None:
    total = wb.shared(0.0)
    f = wb.function([y], None, updates={total: total + x}, givens={x: 2 * y})
    f(3.0)
    assert total.get_value() == 6.0


@pytest.mark.parametrize(
    ("new", "error", "told"),
    [
        (np.ones(4), ShapeError, "givens: what replaces the input 'v' float64[3]"),
        (1.0, ShapeError, "Give one of the shape (3,)"),
        (1j * v, DtypeError, "of dtype complex128"),
    ],
)
def test_givens_that_do_not_fit(new: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=re.escape(told)):
        wb.function([v], v * 2, givens={v: new})


def test_givens_that_are_plain_numbers() -> None:
    k = wb.scalar("k", dtype="int8")
    assert wb.function([], k * 2, givens={k: 3})() == 6
    assert wb.function([], x * 2, givens={x: 3})() == 6
    for new, told in ((3.5, "float64, which is not cast to int8"), (300, "range")):
        with pytest.raises(DtypeError, match=told):
            wb.function([], k * 2, givens={k: new})
    with pytest.raises(ShapeError, match="uneven lengths"):
        wb.function([], k * 2, givens={k: [[1], [2, 3]]})


def test_givens_keep_names_lines_and_origins() -> None:
    h = np.tanh(v)
    h.name = "h"
    g = wb.grad(np.sum(h), v)
    u = wb.vector("u", shape=3)
    text = str(wb.function([u], [h, g], givens={v: 2 * u}).graph)
    assert re.search(r"h +=\s+tanh\(%", text)
    assert "from tanh h" in text
