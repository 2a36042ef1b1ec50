"""`expression.eval`: values for symbols, by symbol or by name."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from importlib import import_module
from time import process_time
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, MissingInputError, UsageError

x, y = wb.scalars("x y")


def test_by_symbol_and_by_name() -> None:
    z = x**2 + y
    assert z.eval({x: 3.0, y: 1.0}) == 10.0
    assert z.eval(x=3.0, y=1.0) == 10.0
    assert z.eval({x: 3.0}, y=1.0) == 10.0
    assert z.eval({"x": 3.0, y: 1.0}) == 10.0
    np.testing.assert_allclose(wb.grad(z, x).eval({x: 3.0}), 6.0)


def test_what_has_a_value() -> None:
    assert wb.constant(2.0).eval() == 2.0
    np.testing.assert_array_equal((wb.constant([1.0, 2.0]) * 3).eval(), [3.0, 6.0])
    assert wb.shared(4.0).eval() == 4.0
    assert (wb.shared(4.0) + 1).eval() == 5.0
    assert x.eval({x: 2}) == 2.0


def test_lengths_may_change_from_call_to_call() -> None:
    v = wb.vector("v")
    total = np.sum(v * v)
    assert total.eval({v: [1, 2]}) == 5.0
    assert total.eval({v: [1, 2, 3]}) == 14.0


@pytest.mark.parametrize(
    ("values", "named", "error", "told"),
    [
        ({x: 1.0}, {}, MissingInputError, "Give a value: .eval({y: ...})."),
        (None, {}, MissingInputError, "'x' float64[]"),
        ({x: 1.0, "z": 2.0}, {}, UsageError, "'z' is not one of its symbols"),
        (None, {"x": 1, "y": 1, "q": 1}, UsageError, "Its symbols are 'x', 'y'."),
        (1.0, {}, UsageError, "a mapping from symbols to values, not float"),
        ({x: 1j, y: 0.0}, {}, DtypeError, "the input 'x'"),
    ],
)
def test_values_that_do_not_fit(
    values: Any, named: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=re.escape(told)):
        (x + y).eval(values, **named)


def test_symbols_of_one_name_go_by_symbol() -> None:
    a, b = wb.scalar("a"), wb.scalar("a")
    assert (a - b).eval({a: 3.0, b: 1.0}) == 2.0
    with pytest.raises(UsageError, match="names several of its symbols"):
        (a - b).eval(a=1.0)


def test_its_function_is_made_once_and_goes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = import_module("workbench.symbolic.function")
    made = []
    real = module.function

    def counting(*args: Any, **named: Any) -> Any:
        made.append(args)
        return real(*args, **named)

    monkeypatch.setattr(module, "function", counting)
    z = np.sin(x) + 1
    for value in range(5):
        z.eval(x=value)
    assert len(made) == 1
    made.clear()
    gone = weakref.ref(z.compiled)
    del z
    gc.collect()
    assert gone() is None


def test_a_long_chain() -> None:
    z = x
    for _ in range(3 * sys.getrecursionlimit()):
        z = z + 1.0
    assert z.eval(x=0.0) == 3.0 * sys.getrecursionlimit()


def test_a_gradient_by_many_symbols() -> None:
    """It reads one of them, and takes all, in linear time; but nothing computed."""
    symbols = [wb.scalar(f"s{i}") for i in range(2000)]
    squares = [s**2 for s in symbols]
    g = wb.grad(sum(squares), symbols[7])
    values = dict.fromkeys(symbols, 1.5)
    start = process_time()
    assert g.eval(values) == 3.0
    assert process_time() - start < 2
    with pytest.raises(UsageError, match="is not one of its symbols"):
        g.eval({**values, squares[7]: 9.0})
