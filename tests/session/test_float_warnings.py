"""NumPy's warnings of a session: once for each line, at the user's line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import workbench as wb
from workbench.session import Session


@contextmanager
def catching() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found, np.errstate(all="warn"):
        warnings.simplefilter("always")
        yield found


def loss(x: np.ndarray) -> np.ndarray:
    a = np.sqrt(x)
    b = a * np.sin(a)
    return np.sum(b)


FIRST = loss.__code__.co_firstlineno


def make_session(x: np.ndarray) -> Session:
    with np.errstate(all="ignore"):
        return Session(wb.trace(loss)(x))


def lines(found: list[warnings.WarningMessage]) -> list[tuple[str, int]]:
    """The warnings, each with its line in the function."""
    assert all(one.category is RuntimeWarning for one in found)
    assert {one.filename for one in found} <= {__file__}
    return [(str(one.message), one.lineno - FIRST) for one in found]


def test_a_value_warns_at_the_line_that_computes_it() -> None:
    session = make_session(np.ones(3))
    with catching() as found:
        session.run(x=np.array([-1.0, 4.0, 1.0]))
    assert lines(found) == [("invalid value encountered in sqrt", 1)]


def test_a_gradient_warns_at_the_line_whose_rule_it_is() -> None:
    session = make_session(np.array([1.0, 4.0, 1.0]))
    with catching() as found:
        session.run(x=np.array([0.0, 4.0, 1.0]))
    # sqrt is finite at 0, and its slope is infinite: 0 · inf is NaN, by hand.
    assert np.isnan(session.grads["x"][0])
    ((text, line),) = lines(found)
    assert (text.split(" encountered in ")[1], line) == ("the gradient of sqrt", 1)


def test_each_line_warns_once_in_the_life_of_a_session() -> None:
    session = make_session(np.ones(3))
    with catching() as found:
        for _ in range(5):
            session.run(x=np.array([0.0, -4.0, 1.0]))
            session.run(x=np.ones(3))
    assert len(found) == 1
    other = make_session(np.ones(3))
    with catching() as found:
        other.run(x=np.array([0.0, -4.0, 1.0]))
    assert len(found) == 1


def test_an_override_warns_at_the_line_of_its_node() -> None:
    nodes = [(["z"], "subtract", ["g", "g"]), (["dx"], "divide", ["g", "z"])]
    for rule in ("d / (g - g)", wb.graph_rule(["x", "g"], ["dx"], nodes)):
        session = make_session(np.array([1.0, 4.0, 1.0]))
        with catching() as found:
            session.override("sqrt", rule)
        ((text, line),) = lines(found)
        assert (text.split(" encountered in ")[1], line) == ("the gradient of sqrt", 1)


def test_a_rule_of_the_users_warns_at_its_own_line() -> None:
    def rule(node: object, g: np.ndarray) -> np.ndarray:
        return g / (g - g)

    session = make_session(np.ones(3))
    with catching() as found:
        session.override("sqrt", rule)
    assert [one.lineno for one in found] == [rule.__code__.co_firstlineno + 1]


@pytest.mark.parametrize("how", ["ignore", "raise", "call"])
def test_other_settings_of_numpy_hold(how: str) -> None:
    session = make_session(np.ones(3))
    told: list[str] = []
    bad = np.array([-1.0, 4.0, 1.0])
    with catching() as found:
        settings = {"call": lambda what, _: told.append(what)} if how == "call" else {}
        with np.errstate(all="warn", invalid=how, **settings):  # type: ignore[call-overload]
            if how == "raise":
                with pytest.raises(FloatingPointError):
                    session.run(x=bad)
            else:
                session.run(x=bad)
    assert found == []
    assert (set(told) == {"invalid value"}) is (how == "call")


def test_derivatives_and_checks_do_not_warn_again() -> None:
    session = make_session(np.array([0.0, 4.0, 1.0]))
    with np.errstate(all="ignore"):
        session.override("sqrt", "d / (g - g)")
    with catching() as found:
        session.jacobian()
        session.hessian()
        np.asarray(session.derivative())
        session.derivative().pool((0, 1), (0, 3), (1, 1))
        session.check(nodes=True)
        session.diagnose()
        _ = session.overrides[0].effects
    assert found == []
