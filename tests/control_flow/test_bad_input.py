"""What a scan refuses: it says what, where, and what to write."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    DtypeError,
    ShapeError,
    TraceError,
    UsageError,
    WorkbenchError,
)


def refused(kind: type[WorkbenchError], *parts: str, **settings: Any) -> None:
    fn = settings.pop("fn")
    with pytest.raises(kind) as caught:
        wb.scan(fn, **settings)
    for part in parts:
        assert part in str(caught.value)


def test_a_step_that_changes_a_shape() -> None:
    refused(
        ShapeError,
        "output 0 changes its shape",
        "np.concatenate",  # the line
        "shape (2,)",
        "shape (4,)",
        fn=lambda h: np.concatenate([h, h]),
        initial=np.ones(2),
        n_steps=3,
    )
    refused(
        ShapeError,
        "Give an initial value of shape (3,)",
        fn=lambda x, h: h + x,
        sequences=np.ones((4, 3)),
        initial=0.0,
    )


def test_a_step_that_changes_a_shape_that_only_the_run_tells() -> None:
    """NumPy would stretch the state to the rows, or let it grow, without a word."""
    x, rows = wb.vector("x"), wb.matrix("rows")
    y = wb.scan(lambda row, h: row + h, rows, x)
    f = wb.function([rows, x], [y, wb.grad(np.sum(y), x)])
    assert np.allclose(f(np.ones((3, 4)), np.zeros(4))[1], 3)
    text = r"shape of 'h'.*row \+ h.*given shape \(1,\), and returns shape \(4,\)"
    with pytest.raises(ShapeError, match=text):
        f(np.ones((3, 4)), np.zeros(1))
    growing = wb.scan(lambda h: np.concatenate([h, h]), initial=x, n_steps=60)
    with pytest.raises(ShapeError, match="changes the shape of 'h'"):
        wb.function([x], growing)(np.ones(2))
    long = wb.while_loop(
        lambda h: np.sum(h) < 99, lambda h: np.concatenate([h, h]), x, max_steps=60
    )
    with pytest.raises(ShapeError, match="changes the shape of"):
        wb.function([x], long)(np.ones(2))


def test_outputs_that_are_no_arrays() -> None:
    refused(DtypeError, "not an array of numbers", fn=lambda: "a", n_steps=2)
    refused(
        UsageError,
        "return outputs, wb.until(condition)",
        fn=lambda h: (wb.until(h > 1), h),
        initial=1.0,
        n_steps=2,
    )


def test_a_step_that_changes_a_dtype() -> None:
    refused(
        DtypeError,
        "output 0 changes its dtype",
        "int64",
        "float64",
        ".astype(int64)",
        fn=lambda h: h * 0.5,
        initial=np.arange(2),
        n_steps=3,
    )


def test_outputs_that_do_not_match_initial() -> None:
    refused(
        UsageError,
        "returns 2 outputs, and initial has 1 entry",
        "None for one",
        fn=lambda h: (h, h),
        initial=[np.ones(2)],
        n_steps=3,
    )
    refused(
        UsageError,
        "Give the same nest",
        fn=lambda h: h["a"],
        initial=[{"a": np.ones(2)}],
        n_steps=3,
    )


def test_taps_without_initial_values() -> None:
    refused(
        UsageError,
        "has taps=[-2, -1] and no initial values",
        "2 rows",
        fn=lambda a, b: a + b,
        initial={"taps": [-2, -1]},
        n_steps=3,
    )
    refused(
        ShapeError,
        "need 3 rows, the oldest first",
        fn=lambda a, b: a + b,
        initial={"initial": np.ones(2), "taps": [-3, -1]},
        n_steps=3,
    )
    refused(
        UsageError,
        "its taps are negative",
        fn=lambda a: a,
        initial={"initial": np.ones(2), "taps": [0]},
        n_steps=3,
    )
    refused(
        UsageError,
        "has the setting 'step'",
        fn=lambda a: a,
        sequences={"input": np.ones(3), "step": 2},
    )


def test_sequences_without_steps() -> None:
    refused(
        ShapeError,
        "no axis of steps",
        "non_sequences",
        fn=lambda x: x,
        sequences=[np.ones(3), 2.0],
    )


def test_the_number_of_steps() -> None:
    refused(
        ShapeError,
        "n_steps=5",
        "entries for 3 steps",
        fn=lambda x: x,
        sequences=np.ones(3),
        n_steps=5,
    )
    refused(
        UsageError,
        "write n_steps=2, reverse=True",
        fn=lambda h: h,
        initial=1.0,
        n_steps=-2,
    )
    refused(UsageError, "Give n_steps=", fn=lambda h: h, initial=1.0)
    refused(DtypeError, "n_steps=2.5", fn=lambda h: h, initial=1.0, n_steps=2.5)
    refused(
        DtypeError,
        "one integer",
        fn=lambda h: h,
        initial=1.0,
        n_steps=wb.scalar("n"),
    )


def test_a_symbol_that_tells_too_many_steps() -> None:
    n, x = wb.scalar("n", dtype=int), wb.vector("x")
    f = wb.function([n, x], wb.scan(lambda x: x, x, n_steps=n))
    assert list(f(2, [1.0, 2.0, 3.0])) == [1, 2]
    with pytest.raises(ShapeError, match="5 steps"):
        f(5, [1.0, 2.0, 3.0])
    m = wb.function([n], wb.scan(lambda h: h + 1, initial=0.0, n_steps=n))
    with pytest.raises(UsageError, match="-1"):
        m(-1)


def test_strict_names_what_the_step_reads() -> None:
    w = wb.scalar("rate")
    refused(
        UsageError,
        "strict=True",
        "'rate'",
        "non_sequences",
        fn=lambda h: h * w,
        initial=1.0,
        n_steps=2,
        strict=True,
    )
    made = wb.scan(
        lambda h, w: h * w, initial=1.0, non_sequences=w, n_steps=2, strict=True
    )
    assert list(wb.function([w], made)(3.0)) == [3, 9]


def test_a_step_without_return() -> None:
    refused(UsageError, "with a `return`", fn=lambda h: None, initial=1.0, n_steps=2)


def test_a_step_that_asks_for_a_value() -> None:
    refused(
        WorkbenchError,
        "np.where",
        fn=lambda h: h * 2 if h > 0 else h,
        initial=1.0,
        n_steps=2,
    )


def test_numpys_refusal_in_a_step_names_the_line() -> None:
    n = wb.vector("a")
    f = wb.function([n], wb.scan(lambda x: np.dot(n, x), np.ones((2, 3))))
    with pytest.raises(ShapeError, match=r"np\.dot\(n, x\)"):
        f([1.0, 2.0])


def test_shared_updates_need_a_place_to_go() -> None:
    w = wb.shared(1.0, "w")
    refused(
        UsageError,
        "return_updates=True",
        fn=lambda x: (x * w, {w: w + 1}),
        sequences=np.ones(3),
    )


def test_a_step_that_takes_other_arguments() -> None:
    """The error lists what the step gets, in its order."""
    refused(
        UsageError,
        "takes (a, b)",
        "gets 4 arguments: sequence 0, earlier output 0 at -2, earlier output 0 at -1,"
        " non-sequence 0.",
        fn=lambda a, b: a + b,
        sequences=np.ones(3),
        initial={"initial": np.ones(2), "taps": [-2, -1]},
        non_sequences=2.0,
    )
    refused(UsageError, "gets 0 arguments.", fn=lambda x: x, n_steps=3)
    refused(
        UsageError,
        "scan: until",
        "gets 2 arguments: output 0, output 1",
        fn=lambda x, y: (y, x),
        initial=[0.0, 1.0],
        n_steps=3,
        until=lambda x: x > 1,
    )


@pytest.mark.parametrize("asked", [False, True])
def test_a_wrapped_step_is_taken_by_its_own_parameters(asked: bool) -> None:
    if asked:  # who asks a ufunc of NumPy leaves the answer on it, and `wraps` copies
        inspect.signature(np.add)

    @wraps(np.add)
    def step(*args: Any) -> Any:
        return np.add(*args[:2])

    made = wb.scan(step, np.arange(3.0), initial=0.0, non_sequences=[1.0, 2.0])
    assert made.tolist() == [0, 1, 3]


def test_branches_and_conditions_that_take_other_arguments() -> None:
    x = wb.scalar("x")
    with pytest.raises(
        UsageError, match=r"takes \(a\), and gets 0 arguments\. It gets"
    ):
        wb.cond(x > 0, lambda a: a, lambda a: -a)
    with pytest.raises(UsageError, match=r"the step .* gets 1 argument: the state\."):
        wb.while_loop(lambda state: state[0] < 3, lambda i, y: (i + 1, y), (0, 1.0))


@pytest.mark.parametrize(
    "run",
    [
        lambda f, z: wb.scan(f, np.stack([z, z])),
        lambda f, z: wb.vmap(f)(np.stack([z, z])),
        lambda f, z: wb.cond(z[0] > 0, np.sum, f, z),
    ],
    ids=["scan", "vmap", "cond"],
)
@pytest.mark.parametrize("keep", [lambda y: 2 * y, np.asarray], ids=["node", "entries"])
def test_what_a_step_keeps_in_a_list_is_not_there_after_it(run: Any, keep: Any) -> None:
    def f(z: Any) -> Any:
        kept: list[Any] = []
        run(lambda y: (kept.append(keep(y)), np.sum(y))[1], z)
        return np.sum(z * kept[0])

    x = np.array([0.5, 1.0])
    for differentiate in (lambda: wb.grad(f)(x), lambda: wb.jvp(f, (x,), (x,))):
        with pytest.raises(TraceError, match=r"'y'.*kept.*after that.*Return it"):
            differentiate()
