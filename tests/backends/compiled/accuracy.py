"""How far a result may be from NumPy's: a few ulps of its natural scale.

The natural scale of an entry is what it moves by when the inputs and the results of all
ops move by an ulp, which no one who rounds can do without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.backends.numpy import compile
from workbench.core.graph import Graph
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor

#: How often a program is run to see by how much its results move.
ROUNDS = 12


def move_by_ulps(x: Any, rng: np.random.Generator) -> Any:
    """Numbers that are up to an ulp from others; what is no float stays."""
    if isinstance(x, tuple):
        return tuple([move_by_ulps(part, rng) for part in x])
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "fc":
        return x
    eps = np.finfo(x.dtype).eps
    moves = rng.uniform(-1, 1, size=(2, *x.shape)) * eps
    moved = np.asarray(x.real + x.real * moves[0])
    if x.dtype.kind == "c":
        moved = moved + 1j * (x.imag + x.imag * moves[1])
    made = moved.astype(x.dtype)
    return made if isinstance(x, np.ndarray) else made[()]


def measure_scales(graph: Graph, args: Sequence[Any], expected: Sequence[Any]) -> Any:
    """By how much each entry of each output moves, at most, in a few runs."""
    rng = np.random.default_rng(0)
    run = compile(graph).run
    largest = [np.zeros(np.shape(y)) for y in expected]

    def move(node: Tensor, operands: tuple[Any, ...]) -> Any:
        return move_by_ulps(compute_node(node, operands), rng)

    for _ in range(ROUNDS):
        try:
            # A maximum that has moved equals no operand, and its slope is 0/0: no move.
            with np.errstate(divide="ignore", invalid="ignore"):
                made = run([move_by_ulps(a, rng) for a in args], move)
        except (np.linalg.LinAlgError, ValueError):
            continue  # at the edge of where it is defined
        for k, (got, want) in enumerate(zip(made, expected, strict=True)):
            if want.dtype.kind not in "fc":
                continue
            for part in (np.real, np.imag):
                moved = np.abs(part(got) - part(want))
                largest[k] = np.fmax(largest[k], np.where(np.isnan(moved), 0, moved))
    return largest


def check_accuracy(
    graph: Graph, args: Sequence[Any], got: Sequence[Any], expected: Sequence[Any]
) -> None:
    """Equal shapes, dtypes, NaN and infinity; the rest to 4 ulps of its scale.

    To 16 where entries are mixed: there NumPy is no closer to the truth.
    """
    scales: Any = None
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
            continue
        info = np.finfo(a.dtype)
        size = np.abs(b)
        for x, y in [(a.real, b.real), (a.imag, b.imag)]:
            finite = np.isfinite(y)
            np.testing.assert_array_equal(x[~finite], y[~finite])
            apart = np.abs(x - y)[finite]
            known = np.where(np.isfinite(size), size, np.abs(y))[finite]
            bound = 4 * info.eps * known + 4 * info.tiny
            if np.all(apart <= bound):  # a NaN is not
                continue
            if scales is None:
                scales = measure_scales(graph, args, expected)
            # A few runs tell the scale of one entry roughly, that of all of them well.
            # Products and decompositions mix the errors of all entries, and NumPy's own
            # are as large as ours.
            mixed = any(not n.op.elementwise and n.op.view is None for n in graph.nodes)
            least = np.max(scales[k]) if mixed else np.median(scales[k]) / 5
            scale = (4 if mixed else 1) * np.maximum(scales[k], least)[finite]
            worst = np.max(apart / (bound + 4 * scale))
            assert worst <= 1, f"output {k} is {4 * worst:.3g} ulps of its scale apart"
