"""What breaks inside a node is told at the node inside, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.scipy.linalg as wl
from workbench.scipy import fft, integrate, special


def layer(y: Any) -> Any:
    u = y - 1
    return np.sum(np.log(u))


def length(y: Any) -> Any:
    return np.sqrt(np.sum(y**2))


SYMBOL = wb.vector("s")
ROOT = np.sqrt(SYMBOL)
GRAPH = wb.OpFromGraph([SYMBOL], [np.sum(ROOT)])
NESTED = wb.OpFromGraph([SYMBOL], [GRAPH(SYMBOL - 1) * 2])


def divided(node: Any, g: Any) -> Any:
    return g / np.log(node.inputs[0])


RULED = wb.OpFromGraph([SYMBOL], [np.sum(SYMBOL**2)], vjp=divided)


@wb.custom_vjp
def rooted(x: Any) -> Any:
    return np.sqrt(x - 1)


rooted.defvjp(lambda x: (np.sqrt(x - 1), x), lambda x, g: (g * np.log(x - 2),))


def lower(h: Any) -> Any:
    return np.sqrt(h) - 0.1


def falling(h: Any) -> Any:
    return np.log(h) - 2


def branch(h: Any) -> Any:
    return wb.cond(h[0] >= 0, lambda h: np.log(h) - 0.1, lambda h: h, h)


def stepped(step: Any) -> Any:
    return lambda x: np.sum(wb.scan(step, initial=x, n_steps=3))


#: The function, where it is asked, kind and sweep, the title, the line inside.
PROGRAMS: dict[str, tuple[Any, Any, str, str, str, str]] = {
    "checkpoint, value": (
        lambda x: wb.checkpoint(layer)(x * 2),
        np.zeros(2), "log-of-negative", "forward", "checkpoint, inside: log takes",
        "return np.sum(np.log(u))",
    ),
    "checkpoint, slope": (
        lambda x: wb.checkpoint(length)(x * 2),
        np.zeros(2), "infinite-slope", "backward", "checkpoint, inside: sqrt has",
        "return np.sqrt(np.sum(y**2))",
    ),
    "checkpoint in a checkpoint": (
        lambda x: wb.checkpoint(lambda x: wb.checkpoint(layer)(x) + 1)(x * 2),
        np.zeros(2), "log-of-negative", "forward", "inside: checkpoint, inside: log",
        "return np.sum(np.log(u))",
    ),
    "graph, value": (
        lambda x: GRAPH(x - 2),
        np.zeros(2), "sqrt-of-negative", "forward", "op_from_graph, inside: sqrt takes",
        "ROOT = np.sqrt(SYMBOL)",
    ),
    "graph, slope": (
        lambda x: GRAPH(x * 2),
        np.zeros(2), "infinite-slope", "backward", "op_from_graph, inside: sqrt has",
        "ROOT = np.sqrt(SYMBOL)",
    ),
    "graph in a graph": (
        lambda x: NESTED(x * 2),
        np.ones(2) / 2, "infinite-slope", "backward", "inside: op_from_graph, inside:",
        "ROOT = np.sqrt(SYMBOL)",
    ),
    "rule of a graph": (
        lambda x: RULED(x + 1),
        np.zeros(2), "division-by-zero", "backward", "in its rule: divide divides by 0",
        "return g / np.log(node.inputs[0])",
    ),
    "custom function, value": (
        lambda x: np.sum(rooted(x)),
        np.zeros(2), "sqrt-of-negative", "forward", "rooted, inside: sqrt takes",
        "return np.sqrt(x - 1)",
    ),
    "custom function, rule": (
        lambda x: np.sum(rooted(x)),
        np.ones(2), "log-of-negative", "backward", "rooted, in its rule: log takes",
        "lambda x, g: (g * np.log(x - 2),))",
    ),
    "branch in a loop": (
        stepped(branch),
        np.zeros(2), "log-of-zero", "forward", "scan, at step 0: cond, inside: log",
        "return wb.cond(h[0] >= 0, lambda h: np.log(h) - 0.1",
    ),
    "checkpoint in a loop": (
        stepped(wb.checkpoint(lower)),
        np.zeros(2), "sqrt-of-negative", "forward", "at step 1: checkpoint, inside: sq",
        "return np.sqrt(h) - 0.1",
    ),
    "loop in a checkpoint": (
        lambda x: wb.checkpoint(stepped(lower))(x),
        np.zeros(2), "sqrt-of-negative", "forward", "inside: scan, at step 1: sqrt",
        "return np.sqrt(h) - 0.1",
    ),
    "while loop": (
        lambda x: np.sum(wb.while_loop(lambda c: c[0] > -9, falling, x)),
        np.ones(2), "log-of-negative", "forward", "at step 1: log takes",
        "return np.log(h) - 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_breaks_inside_is_told_there(name: str) -> None:
    f, x, kind, sweep, title, line = PROGRAMS[name]
    (found,) = wb.diagnose(f, x)
    assert (found.kind, found.sweep) == (kind, sweep)
    assert title in found.title
    assert line in found.place
    assert line in found.evidence
    # The node of the program is the one outside, and so is what a rule is for.
    assert found.node.op.name == found.title.partition(",")[0]
    if found.fix is not None and found.fix.rule is not None:
        assert f'wb.override("{found.node.op.name}"' in found.fix.code


def test_an_override_is_told_where_it_gets_to() -> None:
    # Those in a checkpoint are reached by overrides, those of a graph's op are not.
    f = PROGRAMS["checkpoint, slope"][0]
    (found,) = wb.diagnose(f, np.zeros(2))
    assert found.fix is not None
    mend = eval(found.fix.code, {"wb": wb})
    assert wb.grad(f, overrides=[mend])(np.zeros(2)).tolist() == [0, 0]
    g = PROGRAMS["graph, slope"][0]
    (found,) = wb.diagnose(g, np.zeros(2))
    assert found.fix is not None
    mend = eval(found.fix.code, {"wb": wb})
    with np.errstate(all="ignore"):
        assert wb.grad(g, overrides=[mend])(np.zeros(2)).tolist() == [0, 0]


def test_what_is_healthy_inside_is_silent() -> None:
    for name, (f, *_) in PROGRAMS.items():
        if name != "while loop":  # which ends where the logarithm does
            assert list(wb.diagnose(f, np.full(2, 4.0))) == [], name


def test_a_function_that_raises_is_told_at_its_line() -> None:
    def f(a: Any) -> Any:
        y = a * np.ones(3)
        z = y[:2] * 2
        return np.sum(y + z)

    (found,) = wb.diagnose(f, 1.0)
    assert (found.kind, found.node.op.name) == ("raised", "add")
    assert "return np.sum(y + z)" in found.place

    def g(a: Any) -> Any:
        y = a * 2
        if y > 1:
            raise ValueError("too large")
        return y

    (found,) = wb.diagnose(g, 1.0)
    assert found.kind == "raised"
    assert 'raise ValueError("too large")' in found.place


def test_what_a_function_of_ours_is_made_of_stands_on_the_line_of_the_user() -> None:
    X = np.random.default_rng(0).normal(size=(16, 4))
    W = np.random.default_rng(1).normal(size=(4, 4)) * 2000

    def f(W: Any) -> Any:
        p = special.softmax((X @ W) @ X.T, axis=1)
        return np.sum((p @ X) ** 2)

    found = wb.diagnose(f, W)
    assert found
    assert all("test_inside.py" in one.place for one in found)
    assert "p = special.softmax((X @ W) @ X.T, axis=1)" in found[0].place


def test_no_op_stands_on_a_line_of_ours() -> None:
    A = np.full((3, 3), 0.3) + np.eye(3)
    given = [(A,), (A, A), (np.linspace(0.1, 0.9, 5),), (np.linspace(0.1, 0.9, 5),) * 2]
    ran, own = 0, str(Path(wb.__file__).parent)
    for module in (special, wl, fft, integrate):
        for name in module.__all__:
            f = getattr(module, name)
            for args in given:
                try:
                    graph = wb.trace(f)(*args)
                except Exception:
                    continue  # it takes others
                ran += 1
                for node in graph.nodes:
                    place = node.site.filename if node.inputs and node.site else ""
                    assert not place.startswith(own), (name, node.op.name)
    assert ran > 100
