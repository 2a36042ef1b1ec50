"""The whole table of ops: none is called wrong, and each that is spoilt is."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import draw_share
from tests.ops.samples import ALIKE, SAMPLES, Sample
from tests.ops.test_samples import NAMED, drawn
from workbench.autodiff import forward
from workbench.checks.nodes import check_node, check_nodes, is_checkable
from workbench.core.op import OPS
from workbench.core.tensor import Tensor
from workbench.ops.indexing import Scattered

#: Their slope is zero or the second derivative by an argument is not known: there is
#: nothing that a factor spoils.
FLAT = {"heaviside", "imag", "sign_of_det", "riemann_zeta", "zetac"}
#: They round to single precision: errors below 2e-3 are not seen.
ROUGH = {"astype"}
KINDS = {"f8": "f", "f4": "f", "c16": "c", "c8": "c"}


def nodes_of(sample: Sample, dtype: str, rng: np.random.Generator) -> list[Tensor]:
    args = [a.astype(dtype) for a in drawn(sample, KINDS[dtype], rng)]
    return list(wb.trace(sample.f)(*args).nodes)


LONG = [pytest.param(dtype, marks=pytest.mark.long) for dtype in ("f8", "f4", "c8")]


@pytest.mark.parametrize("dtype", ["c16", *LONG])
def test_G5_no_healthy_op_is_called_wrong(dtype: str, rng: np.random.Generator) -> None:
    """One node of each kind that the table has, in both modes; in f8 of both orders."""
    seen: set[Any] = set()
    wrong = []
    for sample in SAMPLES:
        if KINDS[dtype] not in sample.kinds:
            continue
        some = []
        for node in nodes_of(sample, dtype, rng):
            settings = re.sub(r"-?\d+", "0", repr(sorted(node.params)))
            value = node._value
            shape = len(value) if isinstance(value, tuple) else np.ndim(value)
            kind = node.op.name, settings, shape
            if kind not in seen:
                seen.add(kind)
                some.append(node)
        # Single precision is raised to double: its second order is that of f8.
        order = 2 if dtype == "f8" else 1
        found = check_nodes(some, seed=int(rng.integers(1000)), order=order)
        wrong += [(sample.name, c.text) for c in found if c.status == "wrong"]
    assert not wrong


def spoilt(c: Any) -> Any:
    """A part of a derivative, off by a thousandth."""
    if c is None or isinstance(c, tuple):
        return c
    return (c.dense() if type(c) is Scattered else c) * 1.001


@pytest.mark.parametrize(
    ("alike", "least"), [(ALIKE, 250), pytest.param((), 300, marks=pytest.mark.long)]
)
def test_G5_a_thousandth_off_is_found_in_every_op(
    alike: Collection[str],
    least: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: set[str] = set()
    missed = set()
    for name in draw_share([s.name for s in SAMPLES], alike, "a thousandth off"):
        (sample,) = NAMED[name]
        if "f" not in sample.kinds:
            continue
        for node in nodes_of(sample, "f8", rng):
            op = node.op
            if op.name in seen or not is_checkable(node) or op.pull is None:
                continue
            seen.add(op.name)
            pull, push = op.pull, forward.push_of(op)

            def pulled(*args: Any, rule: Any = pull) -> Any:
                return [spoilt(c) for c in rule(*args)]

            def pushed(*args: Any, rule: Any = push) -> Any:
                made = rule(*args)
                if isinstance(made, tuple):
                    return tuple(map(spoilt, made))
                return spoilt(made)

            for mode, rule in (("pull", pulled), ("push", pushed)):
                with monkeypatch.context() as patch:
                    patch.setattr(op, mode, rule)
                    found = check_node(node, np.random.default_rng(1), order=1)
                if found.status != "wrong":
                    missed.add(op.name)
    purposeful = {name for name, op in OPS.items() if op.traits.purpose}
    assert missed - FLAT - ROUGH - purposeful == set()
    assert len(seen) > least


#: Functions whose derivative is known, at entries of all sizes.
SCALED = {
    "log": (np.log, lambda x: 1 / x),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(np.minimum(x, 300)) ** 2),
    "reciprocal": (np.reciprocal, lambda x: -1 / x**2),
    "cube": (lambda x: x**3, lambda x: 3 * x**2),
    "absolute": (np.abs, np.sign),
    "arctan": (np.arctan, lambda x: 1 / (1 + x**2)),
    "log1p": (np.log1p, lambda x: 1 / (1 + x)),
}


@pytest.mark.parametrize("size", [12, 300])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", SCALED)
def test_G5_entries_of_all_sizes(name: str, dtype: str, size: int) -> None:
    """From 1e-8 to 1e8 in one array: no false alarm, and a thousandth is found."""
    f, slope = SCALED[name]
    x = np.geomspace(1e-8, 1e8, size).astype(dtype)
    found = check_nodes(wb.trace(lambda x: np.sum(f(x)))(x).nodes, seed=3)
    assert [c.status for c in found] == ["right"] * len(found), [c.text for c in found]
    place = size // 3  # at 1e-8 ** (1/3): no slope is hidden by rounding there

    def vjp(node: Any, g: Any) -> Any:
        (x,) = node.inputs
        at = np.arange(size) == place
        return (g * slope(x.astype(float)) * np.where(at, 1.001, 1)).astype(x.dtype)

    wrong = wb.custom_vjp(lambda x: f(x), vjp=vjp)
    found = check_nodes(wb.trace(lambda x: np.sum(wrong(x)))(x).nodes, seed=3, order=1)
    (bad,) = [c for c in found if c.status == "wrong"]
    assert bad.entry is not None
    assert bad.entry.index == (place,)


def test_the_tolerance_of_a_solver_is_no_error_of_its_rule() -> None:
    """A solver or root of few digits is right; one whose rule is wrong is found."""

    def jacobi(matvec: Any, b: Any) -> Any:
        x = np.zeros_like(b)
        while np.max(np.abs(b - matvec(x))) > 1e-3 * np.max(np.abs(b)):
            x = x + (b - matvec(x)) / 4
        return x

    def bisect(f: Any, x: Any) -> Any:
        low, high = x - 3, x + 3
        while np.max(high - low) > 1e-3:
            middle = (low + high) / 2
            below = f(middle) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    A = np.array([[4.0, 1.0, 0.3], [0.5, 4.0, 0.1], [0.2, 0.7, 4.0]])
    b = np.array([1.0, 2.0, 3.0])

    def system(A: Any, b: Any) -> Any:
        return wb.custom_linear_solve(lambda x: A @ x, b, jacobi)

    def root(a: Any) -> Any:
        return wb.custom_root(lambda x: x**3 + x - a, np.zeros_like(b), bisect)

    for f, args in ((system, (A, b)), (root, (b,))):
        (node,) = [n for n in wb.trace(f)(*args).nodes if "custom" in n.op.name]
        found = check_node(node, np.random.default_rng(0), order=1)
        assert found.status == "right", found.text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                node.op,
                "pull",
                lambda *a, rule=node.op.pull: [*map(spoilt, rule(*a))],
            )
            wrong = check_node(node, np.random.default_rng(0), order=1)
        assert wrong.status == "wrong", f
