"""Users' rules: how one is called, and whether it is linear in what arrives.

A rule gets arrays that it cannot change, or Tensors where its result is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import plan
from workbench.core import types, walk
from workbench.core.tensor import Tensor, leaf
from workbench.core.traces import OpenTrace
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import gradients
from workbench.ops.define import flat, shape_of

#: What to do in place of a change in place.
ONTO_COPIES = "Work on a copy: x = x.copy()."
#: What to say of a rule that gave a bare None, as a function does whose
#: `return` was forgotten: no gradient at all would be a wrong one in silence.
NOTHING = "returned None: has it a `return` at its end?"
#: How a rule says that an input has no gradient.
WITHOUT = "For an input without gradient put None in the list: return [None] for one."


def missing_tangent(made: Any, y: Any) -> tuple[str, str] | None:
    """Return what to say of a forward rule that gave None, and what to write instead.

    A tangent of 0 is written down, for every output: what a rule left out would be a
    wrong derivative in silence. None of a rule that gave all, integers aside.
    """
    many = isinstance(y, tuple)
    parts = made if many else (made,)
    if made is None:
        parts = (None,) * len(y) if many else (None,)
    elif not many and isinstance(made, (tuple, list)) and len(made) == 1:
        parts = made
    for i, (t, part) in enumerate(zip(parts, y if many else (y,), strict=True)):
        if t is None and (types.weak(part) or types.differentiable(part.dtype)):
            each = " Give one tangent per output." if len(parts) > 1 else ""
            return (
                NOTHING
                if made is None
                else f"returned None for the tangent of output {i}",
                "For an output that does not move return"
                f" np.zeros_like(node.outputs[{i}]).{each}",
            )
    return None


def read_only(x: Any) -> Any:
    """An array that cannot be changed in place; anything else as it is."""
    if isinstance(x, np.ndarray):
        x = x.view() if type(x) is np.ndarray else types.plain(x).view()
        x.flags.writeable = False
    return x


def in_place(error: ValueError) -> str | None:
    """What code did that changed an array which it was lent; None: another error."""
    if "read-only" not in str(error):
        return None
    return f"it changes an array in place that others read too ({error})"


def takes_arrays(rule: Any) -> bool:
    """Whether a rule is an op, called on arrays, and no function of a node."""
    return isinstance(getattr(rule, "__op__", None), str)


def ruled(
    rule: Callable[..., Any], node: Any, arriving: Sequence[Any], of: Sequence[Any]
) -> Any:
    """What a rule gives: a function of the node, or an op of its inputs.

    An op gets arrays alone: zeros where nothing arrives for one in ``of``.
    """
    if not takes_arrays(rule):
        return rule(node, *arriving)
    return rule(*node.inputs, *map(_filled, arriving, of))


def _filled(c: Any, x: Any) -> Any:
    if c is not None:
        return c
    varies = types.weak(x) or types.differentiable(x.dtype)
    return np.zeros_like(x, dtype=None if varies else float)


# Whether a gradient rule is linear in the gradient that arrives.
#
# Only then can it be transposed for forward mode. The question is asked of a rule as
# both sweeps run it, ``pull(mask, g, y, inputs, params)``, at one node.

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
        # One that cannot be computed (`ops/gradients.py`) is that in every mode.
        passed = [
            c for c in made if isinstance(c, Tensor) and gradients.first(c) is None
        ]
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
            None if c is None or gradients.first(c) is not None else reverse._bare(c)
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
