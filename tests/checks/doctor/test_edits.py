"""The doctor's advice as a change of the user's source.

The truth is Python: the changed source runs, gives the same numbers where the program
is healthy and finite ones where it was sick; and its other lines are as they were.
"""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.doctor.finding import Edit

X = np.linspace(-1.5, 2, 6)
IMPORTS = "import numpy as np; import workbench as wb\n"
_count = itertools.count()


def load(source: str) -> Callable[..., Any]:
    """Return the function f of a source that the doctor can read."""
    source = f"{IMPORTS}{source}"
    name = f"<edited {next(_count)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space: dict[str, Any] = {}
    exec(compile(source, name, "exec"), space)
    return space["f"]  # type: ignore[no-any-return]


def find_edits(source: str, *args: Any) -> list[Edit | None]:
    with np.errstate(all="ignore"):
        found = wb.diagnose(load(source), *args)
    return [one.fix.edit for one in found if one.fix is not None]


def apply(source: str, edit: Edit) -> str:
    lines = source.split("\n")
    first = edit.line - 2  # the imports are line 1
    last = first + len(edit.before)
    assert tuple(lines[first:last]) == edit.before
    return "\n".join([*lines[:first], *edit.after, *lines[last:]])


@pytest.mark.parametrize(
    ("body", "new"),
    [
        ("return np.log(np.sum(np.exp(x)))", "    return wb.logsumexp(x)"),
        # Of several same texts, only the one that is meant.
        (
            "return np.log(1 + np.exp(x / 1e4)) + np.log(1 + np.exp(x))",
            "    return np.log(1 + np.exp(x / 1e4)) + np.logaddexp(0, x)",
        ),
        # The bytes before it are not its characters; the brackets are kept right.
        (
            "return ['é'] and 2 * np.log(1 + np.exp(x)) ** 2",
            "    return ['é'] and 2 * np.logaddexp(0, x) ** 2",
        ),
        (
            "return 3 ** np.log(np.exp(x) / np.sum(np.exp(x)))",
            "    return 3 ** (x - wb.logsumexp(x))",
        ),
        # An expression of several lines becomes one.
        (
            "return 2 * np.log(\n        1 + np.exp(  # much\n           x)\n    ) - x",
            "    return 2 * np.logaddexp(0, x) - x",
        ),
        # What was given a name before.
        (
            "e = np.exp(x)\n    p = e / np.sum(e)\n    q = np.log(p)\n    return q",
            "    q = x - wb.logsumexp(x)",
        ),
        # In a loop, whose lines run several times.
        (
            "for _ in range(2):\n        x = x + np.log(1 + np.exp(x))\n    return x",
            "        x = x + np.logaddexp(0, x)",
        ),
    ],
)
def test_the_changed_source_mends_and_keeps_the_values(body: str, new: str) -> None:
    source = f"def f(x):\n    {body}\n"
    edits = [edit for edit in find_edits(source, 1000 * X) if edit is not None]
    assert edits[0].after == (new,)
    changed = load(apply(source, edits[0]))
    np.testing.assert_allclose(changed(X), load(source)(X), rtol=1e-12)
    with np.errstate(all="ignore"):
        assert not np.isfinite(load(source)(1000 * X)).all()
        # Some have a second fault, which has a change of its own.
        assert np.isfinite(changed(1000 * X)).all() or len(edits) > 1


@pytest.mark.parametrize(
    "body",
    [
        # x is another one by then.
        "e = np.exp(x)\n    x = 2 * x\n    return np.log(e / np.sum(e)) + x",
        "e = np.exp(x)\n    x[0] = 1\n    return np.log(e / np.sum(e)) + x",
        # The operand is named in another function.
        "g = lambda z: np.exp(z)\n    e = g(x)\n    return np.log(e / np.sum(e))",
        # Names change in each step, and the exponential is of the one before.
        "e = np.exp(x)\n    for _ in range(2):\n        y = np.log(e / np.sum(e))\n"
        "        x = y\n    return y",
    ],
)
def test_no_change_is_offered_where_a_name_may_mean_another_value(body: str) -> None:
    found = find_edits(f"def f(x):\n    x = x + 0\n    {body}\n", 1000 * X)
    assert found
    for edit in found:
        # The exponential itself may be bounded in its own line.
        assert edit is None or "x" not in "".join(edit.after).partition("np.log(")[2]


def test_a_module_that_the_source_does_not_know_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The names of code that is in no file are those of the notebook, which another
    # test may have left here.
    monkeypatch.delattr(sys.modules["__main__"], "wb", raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "workbench", raising=False)
    source = "def f(x):\n    return xp.log(xp.sum(xp.exp(x)))\n"
    name = f"<edited {next(_count)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space: dict[str, Any] = {"xp": np}
    exec(compile(source, name, "exec"), space)
    with np.errstate(all="ignore"):
        (found,) = wb.diagnose(space["f"], 1000 * X)
    assert found.fix is not None
    assert found.fix.code == "wb.logsumexp(x)"
    assert found.fix.edit is None


def test_an_operand_in_float64() -> None:
    source = "def f(x):\n    return np.sum(np.exp(x + 1))\n"
    x = np.array([100.0], "float32")
    (edit,) = find_edits(source, x)
    assert edit is not None
    assert str(edit).split("\n")[1:] == [
        "-     return np.sum(np.exp(x + 1))",
        "+     return np.sum(np.exp((x + 1).astype(np.float64)))",
    ]
    assert np.isfinite(load(apply(source, edit))(x))


def test_a_rule_with_another_spelling_has_both() -> None:
    source = "def f(x):\n    return np.sum(np.sqrt(np.sum(x**2)))\n"
    with np.errstate(all="ignore"):
        found = wb.diagnose(load(source), np.zeros(3))
    fix = found[0].fix
    assert fix is not None
    assert fix.rule is not None
    assert fix.edit is None or fix.text.count("; or write ") == 1


# The weights of layers where a gradient vanishes

DEEP = """def layer(a, u):
    return np.tanh(a @ u)
def f(x, w):
    h, spec, some = x, "ij,jk->ik", iter([w] * 99)
    for _ in range(14):
        h = {}
    return np.mean((h - 1) ** 2)
"""
SMALL = 0.05 * np.random.default_rng(0).normal(size=(8, 8))
SCALED = "(w / np.linalg.norm(w, 2))"


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("np.tanh(h @ w)", f"        h = np.tanh(h @ {SCALED})"),
        (
            "1 / (1 + np.exp(-(h @ w)))",
            f"        h = 1 / (1 + np.exp(-(h @ {SCALED})))",
        ),
        ("np.tanh(h @ w + 0.1)", f"        h = np.tanh(h @ {SCALED} + 0.1)"),
        ("0.5 * np.tanh(h @ w)", f"        h = 0.5 * np.tanh(h @ {SCALED})"),
        ("h @ w\n        h = np.tanh(h)", f"        h = h @ {SCALED}"),
        ("np.tanh(\n            h\n            @ w)", f"            @ {SCALED})"),
        ("np.tanh(w @ h)", "        h = np.tanh(w / np.linalg.norm(w, 2) @ h)"),
        ("np.tanh(np.dot(h, w))", f"        h = np.tanh(np.dot(h, {SCALED[1:-1]}))"),
        ("np.tanh(h.dot(w))", f"        h = np.tanh(h.dot({SCALED[1:-1]}))"),
        (
            "np.tanh(np.einsum('ij,jk->ik', h, w))",
            f"        h = np.tanh(np.einsum('ij,jk->ik', h, {SCALED[1:-1]}))",
        ),
        (
            "np.tanh(np.tensordot(h, w, 1))",
            f"        h = np.tanh(np.tensordot(h, {SCALED[1:-1]}, 1))",
        ),
        ("layer(h, w)", "    return np.tanh(a @ (u / np.linalg.norm(u, 2)))"),
    ],
)
def test_scaled_weights_keep_the_rest_of_a_layer(line: str, new: str) -> None:
    source, x = DEEP.format(line), np.random.default_rng(1).normal(size=(8, 8))
    edit = next(edit for edit in find_edits(source, x, SMALL) if edit is not None)
    assert edit.after == (new,)
    f, changed = load(source), load(apply(source, edit))
    scaled = SMALL / np.linalg.norm(SMALL, 2)
    np.testing.assert_allclose(changed(x, SMALL), f(x, scaled), rtol=1e-12)
    before, after = (np.linalg.norm(wb.grad(g)(x, SMALL)) for g in (f, changed))
    assert after > 1e4 * before


@pytest.mark.parametrize("weights", ["w", "W"])
@pytest.mark.parametrize(
    "line",
    [
        # Which argument is which operand, or what is written twice, is not certain.
        "np.tanh(np.einsum(spec, h, {}))",
        "np.tanh(np.einsum(h, [0, 1], {}, [1, 2]))",
        "np.tanh(np.matmul(*[h, {}]))",
        "np.tanh(h @ np.asarray({}))",
        "np.tanh(h @ next(some))",
    ],
)
def test_weights_that_are_not_certain_are_not_scaled(line: str, weights: str) -> None:
    source = DEEP.format(line.format(weights))
    x = np.random.default_rng(1).normal(size=(8, 8))
    f = load(f"W = 0.05 * np.random.default_rng(0).normal(size=(8, 8))\n{source}")
    found = [one.fix for one in wb.diagnose(f, x, SMALL) if one.fix is not None]
    assert found
    for fix in found:
        assert fix.edit is None or "linalg" not in "".join(fix.edit.after)
        assert "linalg" not in fix.code or fix.code == SCALED[1:-1]


def test_data_are_not_scaled_for_weights() -> None:
    """Of two inputs of a product it is not certain which are the weights."""
    source = (
        "def f(x, w):\n    h = x @ w\n    for _ in range(14):\n"
        "        h = 0.1 * np.tanh(h)\n    return np.mean((h - 1) ** 2)\n"
    )
    (found,) = wb.diagnose(load(source), SMALL, SMALL)
    assert (found.kind, found.fix is not None) == ("vanishing", True)
    assert "linalg" not in str(found)
