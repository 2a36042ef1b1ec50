"""How the rules of a user's op run: what they see, and what they may return.

`Derivatives` makes both modes from a ``vjp``, a ``jvp``, or both, written as all rules
in this house are: ``vjp(node, *cotangents)``, ``jvp(node, *tangents)``. What a rule
returns is looked at, so that a wrong number, shape or dtype is an error that names the
op, the input and the rule's line, and no wrong gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.call_rule import (
    NOTHING,
    ONTO_COPIES,
    WITHOUT,
    in_place,
    missing_tangent,
    read_only,
    ruled,
)
from workbench.autodiff.connections import DisconnectedType, apart
from workbench.autodiff.linearity import concrete, nonlinear
from workbench.core import types
from workbench.core.op import Op
from workbench.core.tensor import admit
from workbench.custom.messages import called, check_signature, counted, named, placed
from workbench.custom.registry import registered
from workbench.custom.transposing import transposed
from workbench.errors import (
    DtypeError,
    NotDifferentiableError,
    RegistrationError,
    ShapeError,
    UsageError,
    WorkbenchError,
)
from workbench.ops import nulls
from workbench.ops.define import shape_of
from workbench.overrides.rules import Node, filled, has_derivative, is_broadcast

__all__ = ["Derivatives", "OpNode", "shaped"]

Rule = Callable[..., Any]
Params = dict[str, Any]

#: How many answers to "is this rule linear?" are kept for one op.
MOST_KNOWN = 256


def shaped(inputs: Sequence[Any]) -> list[Any]:
    """What a user's code gets: arrays that it cannot change.

    Python numbers stay, so that float32 stays what it is beside them, unless there is
    nothing else: then the code finds the shape and dtype that it may ask for.
    """
    if all(map(types.weak, inputs)):
        return [np.asarray(x)[()] for x in inputs]  # host array: a number
    return list(map(read_only, inputs))


class OpNode(Node):
    """What the rule of a user's op sees of the node; see :class:`Node`."""

    __slots__ = ()

    def __init__(
        self, op: Op, y: Any, inputs: tuple[Any, ...], params: Params, mask: int
    ) -> None:
        self.op = op
        self.name = None
        self.names = (None,) * len(inputs)
        self.position = 0
        self.inputs = tuple(shaped(inputs))
        self.outputs = tuple(map(read_only, y if isinstance(y, tuple) else (y,)))
        self.params = params
        self._mask = mask
        self._y = y

    def vjp(self, *cotangents: Any) -> list[Any]:
        """There is no other rule than the one that asks."""
        raise UsageError(
            f"the rule of {self.op.name} asks for node.vjp, which is that rule itself."
            " Only the rule of an override stands beside another."
        )


class Derivatives:
    """Both modes of a user's op, from the rules that there are.

    Parameters
    ----------
    op
        The op; its ``pull`` and ``push`` are set.
    vjp, jvp
        The rules, or None. Without both, the registered one is looked up.
    cure
        What to write where the op has no derivative at all.
    """

    def __init__(
        self, op: Op, vjp: Rule | None = None, jvp: Rule | None = None, cure: str = ""
    ) -> None:
        self.op = op
        self.own = vjp
        self.jvp = jvp
        self.cure = cure
        self.linear: set[Any] = set()
        op.pull = self.pull
        op.push = self.push
        op.reads = None
        op.rule = " · ".join(called(r) for r in (vjp, jvp) if r is not None) or (
            "the gradient registered for it"
        )

    @property
    def vjp(self) -> Rule | None:
        """The reverse rule: the op's own, or the one registered by its name."""
        if self.own is None and self.jvp is None:
            return registered(self.op.name)
        return self.own

    def pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """Reverse mode."""
        rule = self.vjp
        if rule is None:
            if self.jvp is None:
                raise self.missing()
            self.check_linear("jvp", mask, y, inputs, params)
            passed: list[Any] = transposed(self.push)(mask, g, y, inputs, params)
            return passed
        view = OpNode(self.op, y, inputs, params, mask)
        cotangents = arriving(g, y) if isinstance(g, tuple) else (g,)
        lent = [read_only(c) for c in cotangents]
        check_signature(rule, len(lent), self.op.name, self.refusal)
        made = self.sequence(self.run(rule, view, lent, view.outputs), rule, inputs)
        connected = self.connection(inputs, params)
        returned = dict(zip(map(id, lent), cotangents, strict=True))
        fitted: list[Any] = []
        for i, (c, x) in enumerate(zip(made, inputs, strict=True)):
            c = nulls.told(c, self.op.name, i, x)
            if isinstance(c, DisconnectedType):
                apart(self.op, i, x)
                c = None
            if connected is not None:
                self.check_connected(c, i, connected[i], rule, x)
            wanted = c is not None and mask >> i & 1 and has_derivative(x)
            c = returned.get(id(c), c)
            fitted.append(self.fitted(c, x, i, rule) if wanted else None)
        return fitted

    def push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        """Forward mode."""
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        if self.jvp is None:
            if self.vjp is None:
                raise self.missing()
            self.check_linear("vjp", mask, y, inputs, params)
            return forward.transposed(self.pull)(tangents, y, inputs, params)
        rule = self.jvp
        view = OpNode(self.op, y, inputs, params, mask)
        check_signature(rule, len(inputs), self.op.name, UsageError, "tangent")
        made = self.run(rule, view, list(map(read_only, tangents)), view.inputs)
        if not isinstance(y, tuple):
            if (lacks := missing_tangent(made, y)) is not None:
                self.refuse(UsageError, rule, *lacks)
            return self.tangent(made, y, "output", rule)
        if made is not None and (
            not isinstance(made, (tuple, list)) or len(made) != len(y)
        ):
            had = len(made) if isinstance(made, (tuple, list)) else 1
            self.refuse(
                UsageError, rule,
                f"returned {counted(had, 'tangent')}; {self.op.name} has"
                f" {counted(len(y), 'output')}",
                f"Return one tangent per output: return {named('t', len(y))}.",
            )  # fmt: skip
        if (lacks := missing_tangent(made, y)) is not None:
            self.refuse(UsageError, rule, *lacks)
        return tuple(
            np.zeros_like(part)
            if not has_derivative(part)
            else self.tangent(t, part, f"output {i}", rule)
            for i, (t, part) in enumerate(zip(made or y, y, strict=True))
        )

    # What rules return

    @property
    def refusal(self) -> type[WorkbenchError]:
        """The error of a rule with the wrong parameters."""
        return UsageError if self.own is not None else RegistrationError

    def run(self, rule: Rule, view: OpNode, lent: list[Any], of: Sequence[Any]) -> Any:
        """What a rule returns for arrays that it cannot change."""
        try:
            return ruled(rule, view, lent, of)
        except ValueError as error:
            if (told := in_place(error)) is None:
                raise
            what = f"{self.op.name}: {placed(rule)}: {told}"
            raise UsageError(f"{what}. {ONTO_COPIES}") from error

    def sequence(self, made: Any, rule: Rule, inputs: tuple[Any, ...]) -> list[Any]:
        """What a reverse rule returned, as one gradient per input."""
        count = len(inputs)
        if made is None:
            self.refuse(UsageError, rule, NOTHING, WITHOUT)
        if isinstance(made, (tuple, list)):
            if len(made) == count:
                return list(made)
        elif count == 1:
            return [made]
        had = len(made) if isinstance(made, (tuple, list)) else 1
        specs = ", ".join(repr(types.spec_of(x)) for x in inputs)
        self.refuse(
            UsageError, rule,
            f"returned {counted(had, 'gradient')}; {self.op.name} has"
            f" {counted(count, 'input')}: {specs}",
            f"Return one gradient (or None) per input: return {named('g', count)}.",
        )  # fmt: skip

    def input(self, i: int) -> str:
        """What an error calls an input."""
        return f"input {i}"

    def fitted(self, c: Any, x: Any, i: int, rule: Rule) -> Any:
        """A gradient in the shape and dtype of its input."""
        c = self.number(c, f"the gradient of {self.input(i)}", rule)
        have, want = shape_of(c), shape_of(x)
        if not types.weak(c) and have != want and not is_broadcast(want, have):
            self.refuse(
                ShapeError, rule,
                f"returned a gradient of shape {have} for {self.input(i)}, which is"
                f" {types.spec_of(x)}",
                "Give it the input's shape; a broadcast of that shape is summed back.",
            )  # fmt: skip
        return reverse.fit(c, x)

    def tangent(self, t: Any, y: Any, which: str, rule: Rule) -> Any:
        """A tangent that fits its output."""
        if t is None or not has_derivative(y):
            return None
        t = self.number(t, f"the tangent of the {which}", rule)
        have, want = shape_of(t), shape_of(y)
        if have != want and not is_broadcast(have, want):
            self.refuse(
                ShapeError, rule,
                f"returned a tangent of shape {have} for the {which}, which is"
                f" {types.spec_of(y)}",
                "Return a tangent in the shape of the output.",
            )  # fmt: skip
        if have != want or types.weak(t):
            t = t + np.zeros_like(y)
        return t

    def number(self, c: Any, what: str, rule: Rule) -> Any:
        """An array of floats, or the error that says what came instead."""
        if types.weak(c):
            return c
        if isinstance(c, (list, tuple)) or (
            isinstance(c, np.ndarray) and c.dtype == object
        ):
            c = admit(c)
        if not hasattr(c, "dtype") or not hasattr(c, "shape"):
            self.refuse(
                DtypeError, rule,
                f"returned {what} as {type(c).__name__}, which is no array",
                "Return an array in the shape of the input, or None.",
            )  # fmt: skip
        if np.dtype(c.dtype).kind not in "fc":
            self.refuse(
                DtypeError, rule,
                f"returned {what} with dtype {c.dtype}; a gradient is never of integers"
                " or conditions",
                "Make arrays with np.zeros_like(x), which have the dtype of x, or cast"
                " with .astype(x.dtype).",
            )  # fmt: skip
        return c

    def connection(
        self, inputs: tuple[Any, ...], params: Params
    ) -> Sequence[Sequence[bool]] | None:
        """Which outputs depend on each input, if the op declares it."""
        if self.op.connection is None:
            return None
        return self.op.connection(inputs, params)

    def check_connected(
        self, c: Any, i: int, row: Sequence[bool], rule: Rule, x: Any
    ) -> None:
        """Raise an error if a gradient contradicts what the op declares."""
        if c is not None and not any(row):
            self.refuse(
                UsageError, rule,
                f"returned a gradient for {self.input(i)}, on which no output depends,"
                " as its connection declares",
                "Return None for it, or declare the connection.",
            )  # fmt: skip
        if c is None and any(row) and has_derivative(x):
            self.refuse(
                UsageError, rule,
                f"returned None for {self.input(i)}, on which an output depends, as its"
                " connection declares",
                "Return a gradient (np.zeros_like(x) where it is zero), or declare that"
                " no output depends on it.",
            )  # fmt: skip

    def check_linear(
        self, which: str, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> None:
        """Raise an error if a rule cannot be transposed for the other mode.

        Linear is asked once for each kind of operands; a rule may branch on values,
        but seldom so that this changes.
        """
        parts = [*inputs, *(y if isinstance(y, tuple) else (y,))]
        key: Any = (which, mask, tuple(types.spec_of(x) for x in parts))
        rule = self.vjp if which == "vjp" else self.jvp
        # The calls of one function share what is known: their rules are methods.
        key = (getattr(rule, "__func__", rule), *key)
        if key in self.linear:
            return
        if which == "vjp":
            known = tuple(concrete(p, 1) for p in y) if isinstance(y, tuple) else y
            why = nonlinear(self.pull, mask, known, inputs, params)
        else:
            moved = tuple(x for i, x in enumerate(inputs) if mask >> i & 1)
            start = tuple(concrete(x, i + 2) for i, x in enumerate(moved))
            pull = self._pushed_as_pull(y, inputs, params)
            why = nonlinear(pull, mask, start, (), params)
        if why is not None:
            mode, other = ("forward", "jvp") if which == "vjp" else ("reverse", "vjp")
            raise NotDifferentiableError(
                f"{self.op.name} has a {which} only, {placed(rule)}, and {mode} mode"
                f" cannot follow it, because {why}. Write a {other} too, or"
                f" differentiate in {'reverse' if which == 'vjp' else 'forward'} mode."
            )
        if len(self.linear) >= MOST_KNOWN:
            self.linear.clear()
        self.linear.add(key)

    def _pushed_as_pull(self, y: Any, inputs: tuple[Any, ...], params: Params) -> Rule:
        """The forward rule in the shape of a reverse one: from tangents to tangents."""
        y = tuple(concrete(p, 1) for p in y) if isinstance(y, tuple) else concrete(y, 1)
        solid = tuple(concrete(x, i + 2) for i, x in enumerate(inputs))

        def pull(mask: int, g: Any, _: Any, __: Any, settings: Params) -> list[Any]:
            arriving = iter(g)
            tangents = tuple(
                [next(arriving) if mask >> i & 1 else None for i in range(len(inputs))]
            )
            made = self.push(tangents, y, solid, params)
            return list(made) if isinstance(made, tuple) else [made]

        return pull

    def missing(self) -> NotDifferentiableError:
        """The error of an op that nobody has given a derivative."""
        return NotDifferentiableError(
            f"{self.op.name} has no derivative. {self.cure}".rstrip()
        )

    def refuse(
        self, kind: type[WorkbenchError], rule: Rule, what: str, cure: str
    ) -> NoReturn:
        """Raise an error that names the op and the rule with its line."""
        stop = "" if what.endswith("?") else "."
        raise kind(f"{self.op.name}: {placed(rule)} {what}{stop} {cure}")


def arriving(parts: tuple[Any, ...], y: Any) -> tuple[Any, ...]:
    """One cotangent per output: zeros where nothing arrived, None for integers."""
    outputs = y if isinstance(y, tuple) else (y,)
    return tuple(
        [
            c if has_derivative(out) else None
            for c, out in zip(filled(parts, outputs), outputs, strict=True)
        ]
    )
