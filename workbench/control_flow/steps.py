"""Overrides that hold in some steps of a loop alone: ``steps=``.

The loop of a derivative gets one more sequence for each such rule, which says of every
step whether it is one of those. Steps are counted as the loop of the user goes: its
derivatives have their entries at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import Rules
from workbench.control_flow.loop import Loop
from workbench.core.op import Op
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.types import Array, Spec
from workbench.errors import OverrideError
from workbench.ops import define
from workbench.ops.define import shape_of


class StepRule:
    """A rule that holds where a flag is true.

    Elsewhere holds what would if there was no such rule: ``otherwise``, the rule of
    another override or None, for the true one.
    """

    __slots__ = ("flag", "label", "node", "otherwise", "rule")
    #: The flag tells the steps already.
    steps = None

    def __init__(self, rule: Any, flag: Tensor, otherwise: Any) -> None:
        self.rule, self.flag, self.otherwise = rule, flag, otherwise
        self.label = rule.label
        #: The node, or the part of the step, whose rule it is.
        self.node: Tensor = rule.node

    def pull(self, *arguments: Any) -> list[Any]:
        """Return the cotangents that the one or the other passes on."""
        *own, rules = arguments
        here, there = [
            [*(pull(*own, *inner) if pull else ())]
            for pull, inner in (
                reverse.choose_pull(self.node, rule, rules)
                for rule in (self.rule, self.otherwise)
            )
        ]
        pairs = zip_longest(here, there)
        return [self._select(*pair, x)
                for pair, x in zip(pairs, self.node.inputs, strict=False)]  # fmt: skip

    def push(self, *arguments: Any) -> Any:
        """Return the tangents that the one or the other gives."""
        *own, rules = arguments
        here, there = [
            push(*own, *inner) if push else None
            for push, inner in (
                forward.choose_push(self.node, rule, rules)
                for rule in (self.rule, self.otherwise)
            )
        ]
        parts: Any = self.node.spec
        if not isinstance(parts, tuple):
            return self._select(here, there, self.node)
        none = (None,) * len(parts)
        return tuple(map(self._select, here or none, there or none, parts))

    def _select(self, here: Any, there: Any, x: Any) -> Any:
        if here is None and there is None:
            return None
        if isinstance(here, define.Parts) or isinstance(there, define.Parts):
            # One of several outputs: what goes back to all of them.
            outputs: Any = define.output_values(x)
            none = (None,) * len(outputs)
            rows = zip(here or none, there or none, outputs, strict=True)
            return define.Parts(self._select(*row) for row in rows)
        parts = [
            np.zeros_like(x) if c is None else reverse.fit_cotangent(c, x)
            for c in (here, there)
        ]
        return np.where(self.flag, *parts)


def _count_steps(loop: Loop, inputs: Sequence[Any], y: Any) -> int | Tensor:
    """Return how many steps a loop makes, a number where that is known."""
    if loop.until:
        known = value_of(y[-1])
        return y[-1] if known is None else int(known)
    n = loop.count_steps(inputs)
    return inputs[0] if n is None else n


def apply_step_rules(
    loop: Loop, rules: Rules, inputs: Sequence[Any], y: Any
) -> tuple[Rules, list[tuple[Tensor, Any]]]:
    """Return the rules, those of some steps with a flag, and the flags."""
    # A rule for several outputs is one rule, with one flag.
    timed: dict[int, tuple[Any, list[int]]] = {}
    for x in loop.body.interior if rules else ():
        rule = rules.get(x.serial) if rules else None
        if rule is not None and rule.steps is not None:
            timed.setdefault(id(rule), (rule, []))[1].append(x.serial)
    made = dict(rules or {})
    given: list[tuple[Tensor, Any]] = []
    n = _count_steps(loop, inputs, y) if timed else None

    def choose(rule: Any) -> Any:
        """Return a rule, with a flag if the rule holds only in some steps."""
        if rule is None or rule.steps is None:
            return rule
        flag = make_leaf_like(Spec((), np.dtype(bool)), "flag")
        given.append((flag, _make_flags(rule, loop, n)))
        return StepRule(rule, flag, choose(rule.otherwise))

    for rule, serials in timed.values():
        made.update(dict.fromkeys(serials, choose(rule)))
    return made if timed else rules, given


def _make_flags(rule: Any, loop: Loop, n: Any) -> Array:
    """Return one flag per step: whether a rule holds there."""
    steps = rule.steps
    parts = (steps.start, steps.stop) if isinstance(steps, slice) else (steps,)
    stride = steps.step if isinstance(steps, slice) else None
    if loop.uneven and any(k is not None and k < 0 for k in (*parts, stride)):
        raise OverrideError(
            f"override {rule.label!r}: steps={steps!r} counts from the last step, and"
            " the examples of a vmap make different numbers of steps. Differentiate"
            " each: wb.vmap(wb.grad(f)), or count from 0."
        )
    span = (*parts, steps.step) if isinstance(steps, slice) else steps
    # A condition may hold less often: then a named step may be missing.
    strict = not (loop.derived or loop.until)
    params = {"steps": span, "label": rule.label, "strict": strict}
    if isinstance(n, int):
        return _mark_steps(n, **params)
    return apply(IN_STEPS, (admit(n),), params)


def _mark_steps(n: Any, *, steps: Any, label: str, strict: bool) -> Array:
    """Return one flag per step: whether the step is named; one row per loop."""
    counts = [int(k) for k in np.ravel(n)]
    made = np.zeros((len(counts), max(counts, default=0)), bool)
    for row, k in zip(made, counts, strict=True):
        if isinstance(steps, tuple):
            row[:k][slice(*steps)] = True
        elif -k <= steps < k:
            row[:k][steps] = True
        if strict and not row.any():
            shown = slice(*steps) if isinstance(steps, tuple) else steps
            raise OverrideError(
                f"override {label!r}: steps={shown!r} names none of the {k} steps"
                " that the loop makes. They are counted from 0, from the end if"
                " negative."
            )
    return np.reshape(made, (*np.shape(n), made.shape[1]))


def _flags_spec(n: Array | Spec, **params: Any) -> Spec:
    return Spec((*shape_of(n), None), np.dtype(bool))


IN_STEPS: Op = define.op(
    "in_steps",
    _mark_steps,
    infer=_flags_spec,
    batch=lambda inputs, batched, params: apply(IN_STEPS, inputs, params),
    template="in_steps({0}, {steps})",
    helper='''\
def in_steps(n, steps):
    """Whether each of n steps is one of those named: by a number, or from, to, by."""
    at = np.arange(n)
    if isinstance(steps, tuple):
        return np.isin(at, at[slice(*steps)])
    return at == (steps if steps >= 0 else n + steps)
''',
)
