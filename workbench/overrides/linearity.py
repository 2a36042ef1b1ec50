"""Whether a rule is linear in its cotangent: only then can the rule be transposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import plan_steps
from workbench.core import types, walk
from workbench.core.op import connect_nothing
from workbench.core.tensor import Tensor, array_of, make_leaf
from workbench.core.traces import OpenTrace
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of

#: A rule as a function of what arrives alone.
Run = Callable[[Sequence[Any]], Sequence[Any]]


def find_nonlinearity(run: Run, likes: Sequence[Any]) -> str | None:
    """Why a rule is not linear in the arriving values, like ``likes``; None if linear.

    A rule is linear if its derivative by ``g`` does not depend on ``g`` (seen in
    the graph of that derivative, so that ``clip(d, -1e9, 1e9)`` is found out) and
    if it is additive on examples (so that ``d + 1`` and ``sign(g)`` are).
    """
    try:
        # Example numbers may be outside the rule's domain: do not warn.
        with np.errstate(all="ignore"):
            if (name := find_step_with_g(run, likes)) is not None:
                return f"{name} is not linear in g"
            if not is_additive(run, likes):
                return "its result for a sum of gradients is not the sum of its results"
    except OverrideError:
        raise
    except WorkbenchError as error:
        return f"it cannot be recorded ({error})"
    return None


def find_step_with_g(run: Run, likes: Sequence[Any]) -> str | None:
    """Return the first step of a rule with a derivative that reads ``g``."""
    with OpenTrace() as opened:
        seeds = [make_leaf(make_example(x, i)) for i, x in enumerate(likes)]
        opened.leaves.update(seed.serial for seed in seeds)
        # One that cannot be computed (`ops/gradients.py`) is that in every mode.
        passed = [
            c
            for c in define.flatten_parts(run(seeds))
            if isinstance(c, Tensor) and gradients.find_null(c) is None
        ]
        steps = plan_steps(passed, seeds)
        ones = [np.ones_like(c._value) for c in passed]
        moved = reverse.pull_back(passed, ones, seeds, record=True)
    found = {seed.serial for seed in seeds}
    blamed = {node.serial: node for node, _ in steps}
    roots = [m for m in moved if isinstance(m, Tensor)]
    for node in walk.order_nodes(roots, min(found, default=0)):
        if node.op.connection is not connect_nothing and any(
            isinstance(x, Tensor) and x.serial in found for x in node.inputs
        ):
            found.add(node.serial)
            if node.serial not in blamed:
                return node.origin.forward.op.name if node.origin else node.op.name
    return None


def is_additive(run: Run, likes: Sequence[Any]) -> bool:
    """Return whether the rule of a sum is the sum of the rules, on examples."""
    one = [make_example(x, 10 + i) for i, x in enumerate(likes)]
    two = [make_example(x, 20 + i) for i, x in enumerate(likes)]
    both = [2 * a - 3 * b for a, b in zip(one, two, strict=True)]
    rows = [
        [None if c is None or gradients.find_null(c) is not None
         else array_of(c)
         for c in define.flatten_parts(run(g))]
        for g in (one, two, both)
    ]  # fmt: skip
    for a, b, c in zip(*rows, strict=True):
        if c is not None and a is not None and b is not None:
            size = np.abs(a) + np.abs(b) + np.abs(c)
            error = np.abs(2 * a - 3 * b - c)
            loose = 1e3 * float(np.finfo(error.dtype).eps)
            if bool(np.any(error > loose * size)):
                return False
    return True


def make_concrete(x: object, seed: int) -> Any:
    """Return an array for a Tensor: its value, or else an example."""
    if not isinstance(x, Tensor):
        return x
    return make_example(x.spec.example(), seed) if x._value is None else x._value


def make_example(x: Any, seed: int) -> Any:
    """Numbers of no special value in the shape and dtype of an array."""
    shape, dtype = shape_of(x), np.dtype(getattr(x, "dtype", type(x)))
    if not types.is_differentiable(dtype):
        return np.ones_like(x)
    turn = 0.6 + 0.8j if dtype.kind == "c" else 1.0
    if types.is_weak(x):
        return type(x)(float(np.sin(1.7 * seed + 0.9)) * turn)
    # Where the array is, which may be no place for NumPy's random numbers.
    count = np.arange(prod(shape), dtype=np.float64, like=np.zeros_like(x))
    drawn = 1.3 * np.sin(12.9898 * count + 1.7 * seed + 0.9) * turn
    return np.reshape(drawn.astype(dtype), shape)
