"""NumPy's warnings outside cells stand at the user's lines, and name the op."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core import float_warnings

X = np.array([0.0, 4.0])


def logs(x: Any) -> Any:
    y = np.log(x)
    return np.sum(y)


def roots(x: Any) -> Any:
    y = np.sqrt(x)
    return np.sum(y)


def powers(x: Any) -> Any:
    y = x**-1.0
    return np.sum(y)


def plain(x: Any) -> Any:
    k = np.ones(2) / np.zeros(2)
    return np.sum(x) + k.size


def told(run: Callable[[], Any]) -> set[tuple[str, str]]:
    """Return the texts and source lines of all warnings, which are of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    assert {w.filename for w in caught} <= {__file__}
    return {
        (str(w.message), linecache.getline(w.filename, w.lineno).strip())
        for w in caught
    }


ZERO = "divide by zero encountered in"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: wb.grad(logs)(X), {
            (f"{ZERO} log", "y = np.log(x)"),
            (f"{ZERO} the gradient of log", "y = np.log(x)"),
        }),
        (lambda: wb.grad(roots)(X), {
            (f"{ZERO} the gradient of sqrt", "y = np.sqrt(x)"),
        }),
        (lambda: wb.jvp(roots, (X,), (np.ones(2),)), {
            (f"{ZERO} the gradient of sqrt", "y = np.sqrt(x)"),
        }),
        (lambda: wb.trace(powers)(X), {(f"{ZERO} power", "y = x**-1.0")}),
        (lambda: wb.vmap(logs)(X[:, None]), {(f"{ZERO} log", "y = np.log(x)")}),
        (lambda: wb.grad(plain)(X), {
            (f"{ZERO} divide", "k = np.ones(2) / np.zeros(2)"),
        }),
    ],
)  # fmt: skip
def test_a_warning_stands_at_the_line_of_the_user(
    run: Callable[[], Any], expected: set[tuple[str, str]]
) -> None:
    assert told(run) == expected


def test_it_needs_no_private_place_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_warnings, "_PLACE", None)
    expected = (f"{ZERO} the gradient of sqrt", "y = np.sqrt(x)")
    assert told(lambda: wb.grad(roots)(X)) == {expected}


def test_a_graph_that_runs_warns_of_the_line_that_made_the_step() -> None:
    graph = wb.trace(logs)(np.ones(2))
    assert told(lambda: graph.run([X])) == {(f"{ZERO} log", "y = np.log(x)")}


def test_the_settings_of_numpy_hold() -> None:
    with np.errstate(all="ignore"):
        assert told(lambda: wb.grad(logs)(X)) == set()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        wb.grad(logs)(X)
    heard: list[str] = []
    with np.errstate(divide="call", call=lambda what, flag: heard.append(what)):
        assert told(lambda: wb.grad(logs)(X)) == set()
    assert heard == ["divide by zero"] * 2
    before = np.geterr(), np.geterrcall()

    def fails(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        wb.grad(fails)(X)
    assert (np.geterr(), np.geterrcall()) == before


def test_settings_that_are_not_those_of_the_start_hold_too() -> None:
    with np.errstate(divide="warn", invalid="ignore"):
        assert told(lambda: wb.grad(logs)(X)) == {
            (f"{ZERO} log", "y = np.log(x)"),
            (f"{ZERO} the gradient of log", "y = np.log(x)"),
        }
        assert told(lambda: wb.grad(logs)(-np.ones(2))) == set()


def test_a_warning_that_is_an_error_is_raised() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="in log"):
            wb.grad(logs)(X)
