"""`truncate_gradient`: the gradient of the last steps, the state before them held."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import workbench.compat.theano.tensor as T
from workbench.compat import theano
from workbench.errors import UsageError

XS = np.array([0.3, 0.5, -0.2, 0.9, -0.7, 0.4])
H = 1e-30


def run(w: Any, xs: Any, h: Any) -> list[Any]:
    """The states of the loop, step by step."""
    states = []
    for x in xs:
        h = np.tanh(w * h + w * x)
        states.append(h)
    return states


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 6, 9])
def test_only_the_last_steps_have_a_gradient(
    steps: int, counted: bool, backwards: bool
) -> None:
    x, w, h = T.dvector("x"), T.dscalar("w"), T.dscalar("h")
    ys, _ = theano.scan(
        lambda x, h, w: T.tanh(w * h + w * x), x, h, w, truncate_gradient=steps,
        go_backwards=backwards, n_steps=x.shape[0] if counted else None,
    )  # fmt: skip
    cost = T.sum(ys**2)
    f = theano.function([x, w, h], [cost, *T.grad(cost, [x, w, h])])
    order = XS[::-1] if backwards else XS
    before = max(0, len(XS) - steps)
    states = run(0.8, order, 0.1)
    start = states[before - 1] if before else 0.1

    def end(w: Any, xs: Any, h: Any) -> Any:
        return sum(y**2 for y in run(w, xs, h))

    seen = order[before:].astype(complex)
    by_w = np.imag(end(0.8 + 1j * H, seen, start)) / H
    by_h = 0.0 if before else np.imag(end(0.8, seen, start + 1j * H)) / H
    by_x = np.zeros(len(XS))
    for k in range(len(seen)):
        moved = seen.copy()
        moved[k] += 1j * H
        by_x[before + k] = np.imag(end(0.8, moved, start)) / H
    got = f(XS, 0.8, 0.1)
    np.testing.assert_allclose(got[0], sum(y**2 for y in states), rtol=1e-14)
    np.testing.assert_allclose(got[1], by_x[::-1] if backwards else by_x, atol=1e-14)
    np.testing.assert_allclose(got[2:], [by_w, by_h], atol=1e-14)


def test_with_taps_several_outputs_and_what_the_step_reads_by_itself() -> None:
    x, w = T.dvector("x"), theano.shared(0.8, "w")
    (ys, _), _ = theano.scan(
        lambda a, b, h: [T.tanh(w * h + a * b), h * 2],
        {"input": x, "taps": [-1, 0]}, [T.constant(0.1), None], truncate_gradient=2,
    )  # fmt: skip
    f = theano.function([x], [ys, T.grad(ys[-1], w)])
    h, states = 0.1, []
    for a, b in itertools.pairwise(XS):
        h = np.tanh(0.8 * h + a * b)
        states.append(h)
    moved = states[-3]
    for a, b in itertools.pairwise(XS[3:]):
        moved = np.tanh((0.8 + 1j * H) * moved + a * b)
    got, slope = f(XS)
    np.testing.assert_allclose(got, states, rtol=1e-14)
    np.testing.assert_allclose(slope, np.imag(moved) / H, rtol=1e-13)


def test_what_cannot_be_cut_short_says_so() -> None:
    x = T.dvector("x")
    with pytest.raises(UsageError, match="the number of steps that the gradient"):
        theano.scan(lambda x: x, x, truncate_gradient=0)
    with pytest.raises(UsageError, match=r"until\(\) ends it earlier"):
        theano.scan(
            lambda x: (x, theano.scan_module.until(x > 1)), x, truncate_gradient=2
        )
    with pytest.raises(UsageError, match="takes no taps"):
        theano.scan(
            lambda a, b: a + b, {"input": x, "taps": [-1, 0]}, go_backwards=True,
            truncate_gradient=2,
        )  # fmt: skip


@pytest.mark.parametrize("steps", [-1, 2])
def test_a_step_of_other_parameters_is_told_what_it_gets(steps: int) -> None:
    x, h, w = T.dvector("x"), T.dscalar("h"), T.dscalar("w")
    with pytest.raises(UsageError) as error:
        theano.scan(
            lambda x: x, [x, {"input": x, "taps": [-1, 0]}],
            [None, {"initial": h}, {}], w, truncate_gradient=steps,
        )  # fmt: skip
    got = (
        "takes (x), and gets 5 arguments: sequence 0, sequence 1 at -1,"
        " sequence 1 at 0, earlier output 1, non-sequence 0."
    )
    assert got in str(error.value)
