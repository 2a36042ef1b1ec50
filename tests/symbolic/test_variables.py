"""Symbols: the shapes that they may be declared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ShapeError, UsageError


@pytest.mark.parametrize(("make", "rank"), [(wb.vector, 1), (wb.matrix, 2)])
def test_a_shape_that_is_none_leaves_all_lengths_open(make: Any, rank: int) -> None:
    x = make("x", shape=None)
    assert len(x.shape) == rank
    assert float(np.sum(x).eval({x: np.ones((3,) * rank)})) == 3**rank


@pytest.mark.parametrize(
    ("make", "shape", "told"),
    [
        (wb.vector, (1, 2), "a vector has 1 axes"),
        (wb.matrix, 3, "a matrix has 2 axes"),
        (wb.vector, 3.0, "not a tuple of lengths"),
        (wb.matrix, (2.5, 3), "2.5 is not a length"),
        (wb.vector, (-1,), "-1 is not a length"),
    ],
)
def test_A1_a_shape_that_does_not_fit(make: Any, shape: Any, told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        make("x", shape=shape)


def test_names_of_several_symbols() -> None:
    for names in (("x y",), ("x", "y"), (["x", "y"],), ("x,y",)):
        assert [v.name for v in wb.scalars(*names)] == ["x", "y"]
        assert [v.ndim for v in wb.vectors(*names)] == [1, 1]
        assert [v.ndim for v in wb.matrices(*names)] == [2, 2]
    with pytest.raises(
        UsageError, match=r"2 is not a name\. Write them apart: 'x y'\."
    ):
        wb.scalars(2)  # type: ignore[arg-type]
