"""What the page is told of a node that holds a program, or rules of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.session.wire import take_snapshot
from workbench.session.wire.detail import MOST_CODE_CHARACTERS, gather_details

W = np.array([0.5, 0.2])


def told(f: Any, op: str, *args: Any) -> tuple[dict[str, str], str | None]:
    """The settings and the code of the node of an op."""
    session = wb.Session(wb.trace(f)(*(args or (W,))))
    (i,) = [i for i, node in enumerate(session.graph.nodes) if node.op.name == op]
    found = gather_details(session, i)
    return dict(map(tuple, found["params"])), found["code"]


def run(code: str | None, *args: Any) -> Any:
    assert code is not None
    names: dict[str, Any] = {}
    exec(code, names)
    return names["function"](*args)


def test_a_loop_tells_its_steps_and_shows_code_that_runs() -> None:
    xs = np.linspace(-1.0, 1.0, 10).reshape(5, 2)

    def f(w: Any) -> Any:
        hs = wb.scan(
            lambda x, h, w: np.tanh(w * h + x),
            sequences=[xs],
            initial=[np.zeros(2)],
            non_sequences=[w],
        )
        return np.sum(hs[-1] ** 2)

    settings, code = told(f, "scan")
    assert settings == {
        "steps": "5",
        "sequences": "1: x",
        "states": "1: h",
        "constants": "1: w",
        "each step": "3 ops",
    }
    h = np.zeros(2)
    for x in xs:
        h = np.tanh(W * h + x)
    np.testing.assert_allclose(run(code, W)[0], h, rtol=1e-15)
    assert code is not None
    assert "t = np.tanh(w * h + x)" in code


def test_a_while_loop_tells_when_it_ends() -> None:
    def f(w: Any) -> Any:
        return np.sum(
            wb.while_loop(lambda v: np.sum(v) < 10, lambda v: v * 1.5, w, max_steps=50)
        )

    settings, code = told(f, "scan")
    assert settings["steps"] == "until it says so, at most 50"
    assert run(code, W)[0].sum() >= 10


def test_a_choice_shows_both_branches() -> None:
    x = wb.vector("x")
    y = np.sum(wb.cond(np.sum(x) > 0, lambda x: np.sin(x) * 2, lambda x: x * 3, x))
    session = wb.Session(wb.Graph([x], [y]))
    (i,) = [i for i, n in enumerate(session.graph.nodes) if n.op.name == "cond"]
    code = gather_details(session, i)["code"]
    np.testing.assert_allclose(run(code, True, W)[0], 2 * np.sin(W))
    np.testing.assert_allclose(run(code, False, W)[0], 3 * W)


def test_an_op_from_a_graph_shows_it() -> None:
    a, b = wb.vectors("a b")
    op = wb.OpFromGraph([a, b], [np.sin(a) * b], name="sin_times_of_page")
    _, code = told(lambda w: np.sum(op(w, w)), "sin_times_of_page")
    assert code is not None
    assert "np.sin(a) * b" in code
    np.testing.assert_allclose(run(code, W), np.sin(W) * W)


def test_an_op_of_the_users_tells_its_settings_and_lines() -> None:
    @dataclass(frozen=True)
    class ScaleOfPage(wb.Op):
        factor: float = 2.0

        def compute(self, x: Any) -> Any:
            return x * self.factor

        def vjp(self, node: Any, g: Any) -> Any:
            return g * self.factor

    op = ScaleOfPage(3.0)
    settings, code = told(lambda w: np.sum(op(w)), "scale_of_page")
    assert code is None
    assert settings["factor"] == "3.0"
    assert "test_inner_program.py" in settings["vjp"]
    assert settings["vjp"].endswith("def vjp(self, node: Any, g: Any) -> Any:")
    assert "jvp" not in settings


def test_a_kernel_shows_its_source_and_whether_it_runs() -> None:
    class TwiceOfPage(wb.KernelOp):
        inputs = "x: float64[n]"
        outputs = "y: float64[n]"
        c = """
void twice_of_page(const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""

        def fallback(self, x: Any) -> Any:
            return 2 * x

        def vjp(self, node: Any, g: Any) -> Any:
            return 2 * g

    op = TwiceOfPage()
    try:
        op(W)
    except wb.KernelError as error:
        pytest.skip(str(error))
    settings, code = told(lambda w: np.sum(op(w)), "twice_of_page")
    assert settings["kernel"] in (
        "C; compiled",
        "C; not compiled: the NumPy fallback runs",
    )
    assert code is not None
    assert "y[i] = 2 * x[i];" in code
    assert "fallback" in settings


def test_what_is_too_long_is_counted_or_cut() -> None:
    def long(w: Any) -> Any:
        def step(h: Any) -> Any:
            for _ in range(400):
                h = np.sin(h)
            return h

        return np.sum(wb.scan(step, initial=[w], n_steps=2)[-1])

    _, code = told(long, "scan")
    assert code == "400 ops: 400 × sin"

    def wide(w: Any) -> Any:
        def step(h: Any) -> Any:
            for i in range(290):
                h = np.where(h > i, np.float64(1.0 / 3) * i, h) if i % 3 == 0 else h
            return h

        return np.sum(wb.scan(step, initial=[w], n_steps=2)[-1])

    _, code = told(wide, "scan")
    assert code is not None
    assert len(code) < MOST_CODE_CHARACTERS + 40


def test_a_rule_of_nodes_is_told_node_by_node() -> None:
    rule = wb.graph_rule(
        inputs=["x", "dy"],
        returns=["dx"],
        nodes=[("p", "greater", ["x", 0.0]), ("dx", "where", ["p", "dy", 0.0])],
    )
    session = wb.Session(wb.trace(lambda w: np.sum(np.tanh(w)))(W))
    session.override("tanh", rule)
    (told,) = take_snapshot(session).header["overrides"]
    assert told["rule"].splitlines() == [
        "dx of (x, dy):",
        "  p = greater(x, 0.0)",
        "  dx = where(p, dy, 0.0)",
    ]
    assert told["data"] is False
