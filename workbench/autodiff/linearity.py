"""Whether a gradient rule is linear in the gradient that arrives.

Only then can it be transposed for forward mode. The question is asked of a rule as
both sweeps run it, ``pull(mask, g, y, inputs, params)``, at one node.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import plan
from workbench.core import types, walk
from workbench.core.tensor import Tensor, leaf
from workbench.core.traces import OpenTrace
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import nulls
from workbench.ops.define import shape_of
from workbench.ops.several import flat

__all__ = ["nonlinear"]

Pull = Callable[[int, Any, Any, tuple[Any, ...], dict[str, Any]], list[Any]]
Params = dict[str, Any]

#: Ops that read no value of their input: nothing flows through them.
VALUELESS = {"empty_like", "full_like", "ones_like", "zeros_like"}


def nonlinear(
    pull: Pull, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
) -> str | None:
    """Why a rule is not linear in the gradient that arrives; None if it is.

    A rule is linear if its derivative by ``g`` does not depend on ``g`` (seen in
    the graph of that derivative, so that ``clip(d, -1e9, 1e9)`` is found out) and
    if it is additive on examples (so that ``d + 1`` and ``sign(g)`` are).
    """
    y = concrete(y, 1)
    inputs = tuple(concrete(x, i + 2) for i, x in enumerate(inputs))
    try:
        # Of example numbers, which may be none that the rule is for, nobody is warned.
        with np.errstate(all="ignore"):
            return steps_with_g(pull, mask, y, inputs, params) or sums_apart(
                pull, mask, y, inputs, params
            )
    except OverrideError:
        raise
    except WorkbenchError as error:
        return f"it cannot be recorded ({error})"


def steps_with_g(
    pull: Pull, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
) -> str | None:
    """The first step of a recorded rule whose derivative depends on ``g``."""
    with OpenTrace() as opened:
        parts = y if isinstance(y, tuple) else (y,)
        seeds = [leaf(example(part, i)) for i, part in enumerate(parts)]
        opened.leaves.update(seed.serial for seed in seeds)
        g = tuple(seeds) if isinstance(y, tuple) else seeds[0]
        made = flat(pull(mask, g, y, inputs, params))
        # One that cannot be computed (`ops/nulls.py`) is that in every mode.
        passed = [c for c in made if isinstance(c, Tensor) and nulls.first(c) is None]
        steps = plan(passed, seeds)
        moved = reverse.pull_back(
            passed, [np.ones_like(c._value) for c in passed], seeds, record=True
        )
    found = {seed.serial for seed in seeds}
    blamed = {node.serial: node for node, _ in steps}
    for node in walk.order(
        [m for m in moved if isinstance(m, Tensor)], min(found, default=0)
    ):
        if node.op.name not in VALUELESS and any(
            isinstance(x, Tensor) and x.serial in found for x in node.inputs
        ):
            found.add(node.serial)
            if node.serial not in blamed:
                op = node.origin.forward.op.name if node.origin else node.op.name
                return f"{op} is not linear in g"
    return None


def sums_apart(
    pull: Pull, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
) -> str | None:
    """Whether the rule of a sum is the sum of the rules, on examples."""
    several = isinstance(y, tuple)
    parts = y if several else (y,)
    one = [example(part, 10 + i) for i, part in enumerate(parts)]
    two = [example(part, 20 + i) for i, part in enumerate(parts)]
    both = [2 * a - 3 * b for a, b in zip(one, two, strict=True)]

    def passed(g: list[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            made = pull(mask, tuple(g) if several else g[0], y, inputs, params)
        return [
            None if c is None or nulls.first(c) is not None else reverse._bare(c)
            for c in flat(made)
        ]

    for a, b, c in zip(passed(one), passed(two), passed(both), strict=True):
        if c is not None and a is not None and b is not None:
            with np.errstate(all="ignore"):
                size = np.abs(a) + np.abs(b) + np.abs(c)
                error = np.abs(2 * a - 3 * b - c)
                loose = 1e3 * float(np.finfo(error.dtype).eps)
                if bool(np.any(error > loose * size)):
                    return "what it gives for a sum of gradients is not the sum"
    return None


def concrete(x: Any, seed: int) -> Any:
    """An array for a Tensor: its value, or an example where it has none."""
    if not isinstance(x, Tensor):
        return x
    return example(x.spec.example(), seed) if x._value is None else x._value


def example(x: Any, seed: int) -> Any:
    """Numbers of no special value in the shape and dtype of an array."""
    shape, dtype = shape_of(x), np.dtype(getattr(x, "dtype", type(x)))
    if not types.differentiable(dtype):
        return np.ones_like(x)
    turn = 0.6 + 0.8j if dtype.kind == "c" else 1.0
    if types.weak(x):
        return type(x)(float(np.sin(1.7 * seed + 0.9)) * turn)
    # Where the array is, which may be no place for NumPy's random numbers.
    count = np.arange(prod(shape), dtype=np.float64, like=np.zeros_like(x))
    drawn = 1.3 * np.sin(12.9898 * count + 1.7 * seed + 0.9) * turn
    return np.reshape(drawn.astype(dtype), shape)
