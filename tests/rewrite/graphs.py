"""What holds for every Graph that a rewrite gives, and how two programs compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import workbench as wb
from workbench.core import types
from workbench.core.infer import infer_spec
from workbench.rewrite.driver import CONSTANTS, MERGE
from workbench.rewrite.rule import RULES, Rule

__all__ = ["assert_sound", "assert_within", "only", "run", "simplify_soundly"]


def assert_sound(graph: wb.Graph, program: wb.Graph) -> None:
    """Assert that a graph is one, and on the leaves of the program it was made of."""
    assert len(graph.inputs) == len(program.inputs)
    assert len(graph.captures) == len(program.captures)
    for a, b in zip(graph.leaves, program.leaves, strict=True):
        assert a is b, "a leaf is another one"
    assert len(graph.outputs) == len(program.outputs)
    known = {x.serial for x in program.nodes if not x.inputs}
    last = 0
    for node in graph.nodes:
        assert node.serial > last, "serials do not ascend"
        last = node.serial
        if not node.inputs:
            assert node.serial in known, f"{node!r} is no leaf of the program"
            continue
        assert len(node.args) == len(node.inputs)
        for x in node.inputs:
            assert not isinstance(x, wb.Tensor) or x.serial < node.serial
        inferred = infer_spec(node.op, node.operands, node.settings)
        own = node._value if types.is_weak(node._value) else node
        assert_same_spec(types.spec_of(own), inferred, node)
    for a, b in zip(graph.outputs, program.outputs, strict=True):
        a, b = types.spec_of(a), types.spec_of(b)
        assert (a.dtype, len(a.shape)) == (b.dtype, len(b.shape))


def assert_same_spec(found: Any, truth: Any, node: Any) -> None:
    """Assert that two specs are equal; unknown lengths may be told in other ways."""
    if isinstance(truth, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(truth)
        for a, b in zip(found, truth, strict=True):
            assert_same_spec(a, b, node)
        return
    truth = types.as_spec(truth)  # of a constant some ops give the value
    what = f"{node!r} has {found}, and its op makes {truth}"
    assert found.dtype == truth.dtype, what
    assert len(found.shape) == len(truth.shape), what
    assert found.weak == truth.weak, what
    for a, b in zip(found.shape, truth.shape, strict=True):
        known = isinstance(a, int) and isinstance(b, int)
        assert not known or a == b, what


def only(*rules: Rule) -> list[str]:
    """Return what to switch off for no other rules to be tried."""
    return [*[r.name for r in RULES.values() if r not in rules], CONSTANTS, MERGE]


def simplify_soundly(program: wb.Graph, *args: Any, **settings: Any) -> wb.Graph:
    """Return the program simplified, after a look at it and at the program."""
    before = str(program)
    graph = wb.simplify(program, *args, **settings)
    assert_sound(graph, program)
    assert str(program) == before, "the program itself is another one"
    assert [step.number for step in graph.steps] == [*range(1, len(graph.steps) + 1)]
    return graph


def run(graph: wb.Graph, values: Sequence[Any]) -> list[Any]:
    """Return the outputs, without warnings of infinities and NaN."""
    with np.errstate(all="ignore"):
        return graph.run(values)


def assert_within(
    found: Any, truth: Any, scale: Any, ulps: float, *, zeros: bool = False
) -> None:
    """Assert that two arrays differ by some ulps of their natural scale at most.

    NaN and infinity stand at the same places; with ``zeros`` also the signs of zeros.
    """
    found, truth = np.asarray(found), np.asarray(truth)
    assert found.shape == truth.shape
    assert found.dtype == truth.dtype
    if found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, truth)
        return
    for a, b in ((found.real, truth.real), (found.imag, truth.imag)):
        special = ~np.isfinite(b)
        np.testing.assert_array_equal(a[special], b[special])
        np.testing.assert_array_equal(np.isfinite(a), ~special)
        if zeros and found.dtype.kind == "f":
            zero = (a == 0) & (b == 0)
            np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero])
    real = found.real.dtype
    with np.errstate(all="ignore"):
        scale = np.fmax(np.abs(scale), np.abs(truth)).astype(real)
        ulp = np.spacing(np.minimum(scale, np.finfo(real).max))
        far = (np.abs(found - truth) > ulps * ulp) & np.isfinite(truth)
        worst = np.abs(found - truth)[far] / ulp[far]
    if far.any():
        raise AssertionError(
            f"{found[far][0]} differs from {truth[far][0]}: by {np.max(worst):.3g} ulp"
            f" of the scale {scale[far][0]:.3g}, and {ulps:g} are allowed"
        )
