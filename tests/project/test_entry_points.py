"""What stands where a function, its arguments or a program should: words that help."""

from __future__ import annotations

import re
import warnings
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import OPS
from workbench.errors import UsageError
from workbench.gradient import verify_grad

X = np.array([0.5, 1.0, 2.0])


def loss(W: Any, x: Any) -> Any:
    return np.sum(W * x)


def test_a_function_where_a_graph_should_stand_says_how_to_trace_it() -> None:
    traced = wb.trace(loss)
    for line, call in (
        ("wb.Session(wb.trace(loss)(W, x))", wb.Session),
        ("wb.show(wb.trace(loss)(W, x))", wb.show),
        ("wb.plots.jacobian(wb.Session(wb.trace(loss)(W, x)))", wb.plots.jacobian),
        ("wb.plots.hessian(wb.Session(wb.trace(loss)(W, x)))", wb.plots.hessian),
        ("wb.plots.spectrum(wb.Session(wb.trace(loss)(W, x)))", wb.plots.spectrum),
        ("wb.plots.singular(wb.Session(wb.trace(loss)(W, x)))", wb.plots.singular),
        ("wb.plots.sparsity(wb.Session(wb.trace(loss)(W, x)))", wb.plots.sparsity),
        ("wb.plots.check(wb.Session(wb.trace(loss)(W, x)))", wb.plots.check),
        ("wb.plots.steps(wb.Session(wb.trace(loss)(W, x)))", wb.plots.steps),
    ):
        with pytest.raises(UsageError, match=re.escape(line)) as error:
            call(loss)
        assert "this is a function" in str(error.value)
        with pytest.raises(UsageError, match=re.escape(line)) as error:
            call(traced)
        assert "waits for its arguments" in str(error.value)
    # The line does what it says.
    assert wb.Session(wb.trace(loss)(X, X)).value == loss(X, X)


def test_other_things_where_a_graph_should_stand() -> None:
    with pytest.raises(UsageError, match=r"not ndarray\. Trace a function"):
        wb.Session(X)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"wb\.Session\(wb\.Graph\(\[x\], \[y\]\)\)"):
        wb.Session(np.sum(wb.vector("x") ** 2))
    with pytest.raises(UsageError, match=r"wb\.plots\.check\(wb\.Session\(graph\)\)"):
        wb.plots.check(wb.trace(loss)(X, X))
    with pytest.raises(UsageError, match=r"wb\.Session\(wb\.trace\(f\)\(x\)\)"):
        wb.Session(lambda x: np.sum(x))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "entry",
    [wb.grad, wb.value_and_grad, wb.jacobian, wb.hessian, wb.vmap, wb.checkpoint,
     wb.jacfwd, wb.jacrev],
)  # fmt: skip
def test_a_trace_or_graph_where_a_function_should_stand(entry: Any) -> None:
    with pytest.raises(UsageError, match=r"wb\.trace\(f\) gives graphs\. Pass f itse"):
        entry(wb.trace(np.sum))(X)
    with pytest.raises(UsageError, match="the function that it was traced from"):
        entry(wb.trace(np.sum)(X))(X)
    for call in (wb.vjp, wb.linearize, wb.diagnose, wb.check_grads):
        with pytest.raises(UsageError, match=r"gives graphs\. Pass f itself"):
            call(wb.trace(np.sum), X)


def test_a_callable_that_has_traces_of_its_own_is_a_function() -> None:
    class Model:
        traces = (1, 2)

        def __call__(self, w: Any) -> Any:
            return np.sum(w * w)

    np.testing.assert_array_equal(wb.grad(Model())(X), 2 * X)
    np.testing.assert_array_equal(wb.grad(MagicMock(side_effect=Model()))(X), 2 * X)


def test_arguments_that_are_missing_are_named_with_the_line_to_write() -> None:
    for call, told in (
        (lambda: wb.diagnose(loss), r"loss\(W, x\) is given no arguments\. Write"
         r" wb\.diagnose\(f, W, x\)"),
        (lambda: wb.diagnose(loss, X), r"given 1 argument\. Write wb\.diagnose\(f, W"),
        (lambda: wb.check_grads(loss), r"given no arguments\. Write"
         r" wb\.check_grads\(f, \(W, x\)\)"),
        (lambda: wb.check_grads(lambda x: x), r"wb\.check_grads\(f, \(x,\)\)"),
        (lambda: wb.check_grads(loss, [1.0, 2.0]), r"given 1 argument\. A list is one"
         r" argument; a tuple holds one for each parameter\. Write"
         r" wb\.check_grads\(f, \(W, x\)\)"),
        (lambda: wb.check_grads(loss, X, X), r"go into one tuple\. Write"
         r" wb\.check_grads\(f, \(x, y\)\)"),
        (lambda: verify_grad(loss, [X]), r"verify_grad\(f, \[W, x\]\)"),
        (lambda: wb.vjp(loss), r"given no arguments\. Write wb\.vjp\(f, x\)"),
        (lambda: wb.linearize(loss), r"given no arguments\. Write wb\.linearize\(f"),
        (lambda: wb.vmap(loss, X), r"vmap\(f, x\) is vmap\(f\)\(x\)"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            call()
    # Lists that are one argument, and defaults, are as they were.
    assert wb.check_grads(lambda pair: pair[0] * pair[1], [1.0, 2.0]).ok
    assert wb.check_grads(lambda x, scale=2.0: x * scale, 1.0).ok
    assert wb.check_grads(lambda *args: args[0] * args[1], (1.0, 2.0)).ok


# Places


def test_at_as_jax_has_it_says_wb_at() -> None:
    with pytest.raises(AttributeError, match=r"wb\.at\(x\)\[index\]\.set\(value\)"):
        wb.grad(lambda x: np.sum(x.at[0].set(1.0)))(X)


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p * 2, lambda p: 2 * p, lambda p: p + X, lambda p: X + p,
        lambda p: wb.vector("x") + p, lambda p: p @ X, lambda p: p**2, lambda p: -p,
        lambda p: p > 0, lambda p: p == 0, lambda p: np.sin(p), lambda p: np.sum(p),
        lambda p: np.asarray(p), lambda p: float(p), lambda p: bool(p),
        lambda p: len(p), lambda p: list(p), lambda p: p[1],
        lambda p: np.where(p, 1, 0),
    ],
)  # fmt: skip
def test_a_place_is_no_value(use: Any) -> None:
    for made in (wb.at(X)[0], wb.at(wb.vector("x"))[0]):
        with pytest.raises(UsageError, match=r"a place, and no value\. Write x\["):
            use(made)
    with pytest.raises(UsageError, match=r"test_entry_points\.py:\d+"):
        wb.grad(lambda x: np.sum(wb.at(x)[0] * 2))(X)
    with pytest.raises(AttributeError, match=r"no value\. .* It has no 'shape'"):
        assert wb.at(X)[0].shape


def test_at_without_an_index_says_so() -> None:
    with pytest.raises(AttributeError, match=r"wb\.at\(x\)\[index\]\.set\(\.\.\.\)"):
        wb.at(X).set(1.0)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"x = wb\.at\(x\)\[i\]\.set\(v\)"):
        wb.at(X)[0] = 1.0
    with pytest.raises(UsageError, match="a place, and no value"):
        wb.at(X) * 2


# What is shown


def test_warnings_of_numpy_name_the_derivative() -> None:
    """Each stands at its own line, so that none silences another's."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        wb.grad(lambda x: np.sum(np.log(x)))(np.zeros(2))
        wb.grad(lambda x: np.sum(np.sqrt(x)))(np.zeros(2))
    told = {str(w.message) for w in seen if w.filename == __file__}
    start = "divide by zero encountered in"
    assert {f"{start} the gradient of {op}" for op in ("log", "sqrt")} <= told
    assert not [w for w in seen if "<rule" in w.filename]
    assert OPS["log"].pull is not None


def test_in_a_notebook_the_text_of_an_error_breaks_between_words() -> None:
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactiveshell.InteractiveShell.instance()
    shell.user_ns.update(wb=wb, np=np, loss=loss)
    shown: list[str] = []
    before = shell._showtraceback
    shell._showtraceback = lambda kind, error, lines: shown.extend(lines)
    try:
        shell.run_cell("wb.Session(loss)")
        shell.run_cell("wb.grad(lambda x: x + np.ones((7, 7)))(np.ones((3, 4)))")
    finally:
        shell._showtraceback = before
        interactiveshell.InteractiveShell.clear_instance()
    told = [re.sub(r"\x1b\[[\d;]*m", "", text) for text in shown]
    kinds = re.compile(r"(Usage|Shape|NonScalarOutput)Error: ")
    errors = [text for text in told if kinds.match(text)]
    assert len(errors) >= 2
    for text in errors:
        lines = text.splitlines()
        assert len(lines) > 1
        assert max(map(len, lines)) <= 80
    assert "wb.Session(wb.trace(loss)(W, x))" in " ".join(errors[0].splitlines())
