"""`Mapped`: an op with rules of its own, for many examples at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.graph.op import Op
from workbench.graph.tensor import apply
from workbench.graph.types import Spec
from workbench.ops import several
from workbench.transforms import reverse
from workbench.transforms.flat import vectorized

__all__ = ["Mapped"]

Params = dict[str, Any]


class Mapped(Op):
    """An op with rules of its own, for many examples at once.

    Values and rules are those of the op, traced on one example and run on all. What
    a rule gives for an input that all examples share is summed.
    """

    def __init__(self, op: Any, batched: tuple[bool, ...]) -> None:
        super().__init__(op.name)
        self.inner = op
        self.single = op.single
        self.batched = batched
        self.custom = True
        self.rule = op.rule
        self.reads = None
        self.compute = self._compute
        self.infer = self._infer
        self.pull = self._pull
        self.push = self._push
        self.batch = self._batch

    def _compute(self, *arrays: Any) -> Any:
        made = self.run(arrays)
        return made[0] if self.single else tuple(made)

    def _infer(self, *specs: Any) -> Any:
        size = next(s.shape[0] for s, b in zip(specs, self.batched, strict=True) if b)
        examples = [
            Spec(s.shape[1:], s.dtype) if b else s
            for s, b in zip(specs, self.batched, strict=True)
        ]
        made = self.inner.infer(*examples)
        if isinstance(made, tuple):
            return tuple([Spec((size, *s.shape), s.dtype) for s in made])
        return Spec((size, *made.shape), made.dtype)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs in a list, as the ops inside compute them."""
        return vectorized(self.inner.run, values, self.batched)

    def _pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        single = not isinstance(y, tuple)
        ys, gs = ((y,), (g,)) if single else (y, tuple(g))
        present = [i for i, c in enumerate(gs) if c is not None]
        count, outs = len(inputs), len(ys)
        places: list[int] = []

        def run(values: Sequence[Any]) -> list[Any]:
            arrived: list[Any] = [None] * outs
            for i, c in zip(present, values[count + outs :], strict=True):
                arrived[i] = c
            out = tuple(values[count : count + outs])
            passed = self.inner.pull(
                mask,
                arrived[0] if single else several.Parts(arrived),
                out[0] if single else out,
                tuple(values[:count]),
                params,
            )
            places[:] = [i for i, c in enumerate(passed) if c is not None]
            return [reverse.fit(passed[i], values[i]) for i in places]

        values = (*inputs, *ys, *[gs[i] for i in present])
        flags = (*self.batched, *[True] * (outs + len(present)))
        found: list[Any] = [None] * count
        for i, c in zip(places, vectorized(run, values, flags), strict=False):
            found[i] = c if self.batched[i] else np.sum(c, axis=0)
        return found

    def _push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        single = not isinstance(y, tuple)
        ys = (y,) if single else y
        moving = [i for i, t in enumerate(tangents) if t is not None]
        count, outs = len(inputs), len(ys)
        places: list[int] = []

        def run(values: Sequence[Any]) -> list[Any]:
            arriving: list[Any] = [None] * count
            for i, t in zip(moving, values[count + outs :], strict=True):
                arriving[i] = t
            out = tuple(values[count : count + outs])
            made = self.inner.push(
                tuple(arriving), out[0] if single else out, values[:count], params
            )
            moved = (made,) if single else made
            places[:] = [i for i, t in enumerate(moved) if t is not None]
            return [moved[i] for i in places]

        values = (*inputs, *ys, *[tangents[i] for i in moving])
        flags = (
            *self.batched, *[True] * outs, *[self.batched[i] for i in moving],
        )  # fmt: skip
        found: list[Any] = [None] * outs
        for i, t in zip(places, vectorized(run, values, flags), strict=False):
            found[i] = t
        return found[0] if single else tuple(found)

    def _batch(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
    ) -> Any:
        return apply(Mapped(self, batched), inputs)
