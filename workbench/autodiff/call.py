"""Derivatives and batches of flat functions, which ops are built on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import run_batch
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import live, record
from workbench.core.types import Spec
from workbench.ops.define import shape_of

Run = Callable[[Sequence[Any]], Sequence[Any]]
Rules = Mapping[int, Any] | None


def pulled(
    run: Run, values: Sequence[Any], cotangents: Sequence[Any], rules: Rules = None
) -> list[Any]:
    """The cotangents of ``values``; None for one that ``run`` does not depend on.

    ``rules`` are those of overrides for nodes that it holds.

    >>> import numpy as np
    >>> pulled(lambda xs: [np.sin(xs[0]) * xs[1]], [0.0, 3.0], [np.float64(1)])
    [np.float64(3.0), np.float64(0.0)]
    """
    return valued(run, values, cotangents, rules)[1]


def valued(
    run: Run, values: Sequence[Any], cotangents: Sequence[Any], rules: Rules = None
) -> tuple[list[Any], list[Any]]:
    """The outputs, and what `pulled` gives, of one run.

    >>> import numpy as np
    >>> valued(lambda xs: [xs[0] ** 2], [3.0], [np.float64(1)])
    ([9.0], [np.float64(6.0)])
    """
    made = record(lambda leaves: list(run(leaves)), values)
    seeds = [
        None if g is None or not isinstance(y, Tensor) else reverse.fit(g, y)
        for g, y in zip(cotangents, made.outputs, strict=True)
    ]
    outputs = [y if live(y) else value_of(y) for y in made.outputs]
    back = reverse.pull_back(made.outputs, seeds, made.inputs, rules=rules)
    return outputs, back


def pushed(
    run: Run, values: Sequence[Any], tangents: Sequence[Any], rules: Rules = None
) -> list[Any]:
    """The tangents of the outputs; None for one that does not move."""
    made = record(lambda leaves: list(run(leaves)), values)
    fitted = [
        None if t is None else reverse.fit(t, x)
        for t, x in zip(tangents, made.inputs, strict=True)
    ]
    return forward.push_forward(made.outputs, made.inputs, fitted, rules=rules)


def vectorized(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs for many examples: axis 0 of the values that are ``batched``.

    Every output carries the batch axis first.
    """
    chosen = [i for i, b in enumerate(batched) if b]
    size = values[chosen[0]].shape[0]
    specs = [Spec(values[i].shape[1:], values[i].dtype) for i in chosen]

    def call(inner: list[Tensor]) -> list[Any]:
        filled = list(values)
        for i, x in zip(chosen, inner, strict=True):
            filled[i] = x
        return list(run(filled))

    made = record(call, specs)
    outputs = run_batch(made, [values[i] for i in chosen], size)
    return [
        y if b else np.broadcast_to(y, (size, *shape_of(y)))
        for y, b in zip(outputs, made.varying, strict=True)
    ]
