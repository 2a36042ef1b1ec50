"""The gradient of an op made of a graph, where it is not that of the graph.

A rule may be an op, a function, a text, or one of these for each input (of forward
mode: for each output). All become one function of a node, which `Derivatives` runs
and whose results it checks; what the graph reads besides its inputs keeps the true
gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from workbench.autodiff.call_rule import NOTHING, WITHOUT, takes_arrays
from workbench.core import blame, types
from workbench.core.op import Op, declare
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, NO_PARAMS, Tensor, admit, apply
from workbench.core.trace import blank, live
from workbench.custom.program_op import Whole, key_of
from workbench.custom.registry import (
    Entry,
    check_signature,
    counted,
    placed,
    registered,
)
from workbench.custom.running import Derivatives, OpNode
from workbench.errors import (
    DtypeError,
    MissingInputError,
    ShapeError,
    UnusedInputError,
    UsageError,
)
from workbench.ops import define
from workbench.ops.define import shape_of
from workbench.overrides.expression import Expression
from workbench.overrides.rule_parser import Bound, read
from workbench.overrides.rules import Node, Pull, Push, filled, has_derivative
from workbench.overrides.targets import name_of

# What an op made of a graph takes: its symbols, and the arguments of a call.

STRONG = declare("strong")


def check_symbols(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Refuse inputs that are no symbols, one given twice, and outputs of no graph."""
    seen: set[int] = set()
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            raise UsageError(
                f"{name}: input {i} is {x!r}, not a symbol. Declare one with"
                " wb.scalar, wb.vector, wb.matrix or wb.tensor."
            )
        if isinstance(x, Shared):
            raise UsageError(
                f"{name}: input {i} is {x.described()}, which the op reads by itself."
                " Leave it out of the inputs, or write a symbol in its place."
            )
        if x.op is not IDENTITY or x.inputs or x._value is not None:
            what = "holds a value" if x._value is not None else "is an expression"
            raise UsageError(
                f"{name}: input {i}, {blame.describe(x)}{blame.at(x.site)}, {what}."
                " Inputs are symbols (wb.scalar, wb.vector, ...): build the outputs on"
                " a symbol, and give this to the call."
            )
        if x.serial in seen:
            raise UsageError(
                f"{name}: {listed([x], i)} is given twice. Each input is given once;"
                " two symbols may get the same value in the call."
            )
        seen.add(x.serial)
    if not outputs:
        raise UsageError(f"{name}: there is no output. Give a Tensor, or a list.")
    for i, y in enumerate(outputs):
        if not isinstance(y, Tensor):
            raise UsageError(
                f"{name}: output {i} is {type(y).__name__}, not an expression of the"
                " inputs. An output that never changes is wb.constant(value)."
            )
        if isinstance(types.spec_of(y), tuple):
            raise UsageError(
                f"{name}: output {i} is the tuple of all outputs of"
                f" {y.op.name}. Give each of them."
            )


def closure(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], set[int]]:
    """What the outputs read: shared values and live Tensors; missing symbols; all."""
    seen = {y.serial: y for y in outputs}
    stops = {x.serial for x in inputs}
    stack = list(seen.values())
    implicit, lost = [], []
    while stack:
        node = stack.pop()
        if node.serial in stops:
            continue
        if isinstance(node, Shared) and node.spec.dtype == object:
            raise UsageError(
                f"{name}: a random draw is inside{blame.at(node.site)}, and its"
                " gradient would draw anew. Draw outside, and give the noise as an"
                " input."
            )
        if node._value is not None or isinstance(node, Shared):
            if live(node):
                implicit.append(node)
            continue
        if not node.inputs and node.op is IDENTITY:
            lost.append(node)
            continue
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial not in seen:
                seen[x.serial] = x
                stack.append(x)
    by_age = lambda x: x.serial  # noqa: E731
    return sorted(implicit, key=by_age), sorted(lost, key=by_age), set(seen)


def missing(name: str, x: Tensor, inputs: Sequence[Tensor]) -> MissingInputError:
    """The error for a symbol that an output needs and nobody gives."""
    given = ", ".join(listed([y], i) for i, y in enumerate(inputs)) or "none"
    return MissingInputError(
        f"{name}: an output needs the symbol {types.spec_of(x)}{_called(x)}"
        f"{blame.at(x.site)}, which is no input (inputs: {given}). Add it to the"
        " inputs, or make it a wb.shared or a wb.constant value."
    )


def unused(name: str, inputs: Sequence[Tensor], needed: set[int], policy: str) -> None:
    """Refuse an input that no output needs, warn of it, or let it pass."""
    if policy not in ("raise", "warn", "ignore"):
        raise UsageError(
            f"{name}: on_unused_input is 'raise', 'warn' or 'ignore', not {policy!r}."
        )
    for i, x in enumerate(inputs):
        if x.serial not in needed and policy != "ignore":
            text = (
                f"{name}: no output needs {listed([x], i)}{blame.at(x.site)}. Leave it"
                " out, or write on_unused_input='ignore'."
            )
            if policy == "raise":
                raise UnusedInputError(text)
            warnings.warn(text, stacklevel=4)


def listed(symbols: Sequence[Tensor], first: int = 0) -> str:
    """Inputs as an error names them: ``input 'x', input 'y'``."""
    return ", ".join(
        f"input {x.name!r}" if x.name else f"input {i}"
        for i, x in enumerate(symbols, first)
    )


def fitted(name: str, symbols: Sequence[Tensor], args: Sequence[Any]) -> list[Any]:
    """The arguments of a call in the dtypes of their symbols.

    Raises
    ------
    UsageError, ShapeError, DtypeError
        For a wrong number, a rank or length, or a dtype that does not fit.
    """
    if len(args) != len(symbols):
        raise UsageError(
            f"{name} takes {counted(len(symbols), 'array')} ({listed(symbols)}), not"
            f" {len(args)}{blame.here()}."
        )
    return [
        _fitted(name, x, i, given)
        for i, (x, given) in enumerate(zip(symbols, args, strict=True))
    ]


def _fitted(name: str, x: Tensor, i: int, given: Any) -> Any:
    if not isinstance(given, Tensor):
        plain = types.weak(given) or isinstance(given, (list, tuple))
        if not types.weak(given):
            given = admit(given)
        if (plain and not isinstance(given, Tensor)) or not hasattr(given, "dtype"):
            given = np.asarray(given)
            if given.dtype.kind not in "biufc":
                raise DtypeError(
                    f"{name}: {listed([x], i)} takes an array of {x.dtype}, and is"
                    f" given one of dtype {given.dtype}{blame.here()}."
                )
            if np.can_cast(given.dtype, x.dtype, "same_kind"):
                given = given.astype(x.dtype)  # numbers of Python have no width
    elif types.weak(given._value):
        given = apply(STRONG, (given,))  # inside, it is an array like any other
    shape, want = shape_of(given), x.spec.shape
    if len(shape) != len(want):
        raise ShapeError(
            f"{name}: {listed([x], i)} has {counted(len(want), 'axis')}, and is given"
            f" an array of shape {shape}{blame.here()}. Reshape it, or declare the"
            f" symbol with {len(shape)}."
        )
    if any(
        type(n) is int and type(m) is int and n != m
        for n, m in zip(want, shape, strict=True)
    ):
        raise ShapeError(
            f"{name}: {listed([x], i)} has shape {want}, and is given an array of shape"
            f" {shape}{blame.here()}."
        )
    if given.dtype == x.dtype:
        return given
    if not np.can_cast(given.dtype, x.dtype, "safe"):
        raise DtypeError(
            f"{name}: {listed([x], i)} is of dtype {x.dtype}, and is given"
            f" {given.dtype}{blame.here()}, which does not fit without a loss. Cast it"
            f" on purpose: .astype(np.{x.dtype})."
        )
    return given.astype(x.dtype)


def _called(x: Tensor) -> str:
    return f" {x.name!r}" if x.name else ""


# An op made of a graph, with the derivatives of that graph, before any other rule.


class GraphOp(Op):
    """What an op made of a graph holds, and what its graph derives.

    Attributes
    ----------
    inputs, outputs
        The symbols that it takes, and what it computes of them.
    implicit
        What the graph reads besides its inputs: shared values, Tensors of a trace.
    single
        Whether there is one output, which comes as itself.
    whole
        The graph as an op, of `inputs` and `implicit`.
    declared
        The connection pattern of the inputs, if the user has given one.
    entry
        What is known of it by its name; those made on one line are one definition.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    implicit: list[Tensor]
    single: bool
    whole: Whole
    declared: list[Any] | None
    entry: Entry

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._wholes: dict[Hashable, Whole] = {}

    @cached_property
    def _key(self) -> Hashable:
        return key_of(self.whole.leaves)

    def _whole(self, values: Sequence[Any]) -> Whole:
        """The graph for values of these shapes: recorded once for each."""
        key = key_of(values)
        if key is None or key == self._key:
            return self.whole
        found = self._wholes.get(key)
        if found is None:
            leaves = [
                blank(types.spec_of(v), x.name)
                for v, x in zip(values, self.whole.leaves, strict=True)
            ]
            found = Whole(self.name, leaves, self.whole.program(leaves))
            self._wholes[key] = found
        return found

    def true_pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...]
    ) -> list[Any]:
        """The cotangents that the graph passes on, as far as it is connected."""
        whole = self._whole(inputs)
        if self.declared is None:
            return whole._pull(mask, g, y, inputs, {})
        everything = [True] * len(self.outputs)
        rows = [*self.declared, *[everything] * len(self.implicit)]
        places: dict[tuple[bool, ...], int] = {}
        for i, row in enumerate(rows):
            if mask >> i & 1:
                places[tuple(row)] = places.get(tuple(row), 0) | 1 << i
        passed: list[Any] = [None] * len(inputs)
        for row, chosen in places.items():
            parts = (g,) if self.single else tuple(g)
            kept = [c if on else None for c, on in zip(parts, row, strict=True)]
            if all(c is None for c in kept):
                continue
            arriving = kept[0] if self.single else define.Parts(kept)
            made = whole._pull(chosen, arriving, y, inputs, {})
            for i, c in enumerate(made):
                if chosen >> i & 1:
                    passed[i] = c
        return passed

    def true_push(self, tangents: tuple[Any, ...], y: Any, inputs: Any) -> Any:
        """The tangents of the graph."""
        return self._whole(inputs)._push(tangents, y, inputs, {})


# Rules of its own

Rule = Callable[..., Any]

#: Rules that are words: of the graph, zeros, and no gradient at all.
TRUE, ZERO, APART = "true", "zero", "disconnected"


class Rules:
    """The rules that an op made of a graph has of its own, if any."""

    def __init__(self, op: GraphOp, vjp: Any, jvp: Any) -> None:
        self.op = op
        self.vjp = self._checked(vjp, "vjp", len(op.inputs), "g")
        self.jvp = self._checked(jvp, "jvp", len(op.outputs), "t")
        self.true = _true(op)
        #: What stands for the node where a text is evaluated.
        self.stand_in = Tensor(
            self.true, tuple(op.whole.leaves), (), NO_PARAMS, None, None, -1, None
        )
        self.stand_in.spec = op.whole.spec
        own = vjp is not None or jvp is None
        self.derivatives = _Checked(
            op,
            Named(self._vjp, self.vjp, op) if own else None,
            None if self.jvp is None else Named(self._jvp, self.jvp, op),
        )

    def __bool__(self) -> bool:
        """Whether there is any, be it one that was registered by the op's name."""
        return (
            self.vjp is not None
            or self.jvp is not None
            or registered(self.op.entry.key) is not None
        )

    @property
    def text(self) -> str:
        """What the picture says of the gradient."""
        named = [_text(r) for r in (self.vjp, self.jvp) if r is not None]
        return " · ".join(named) or "the rules of the ops inside"

    def connection(self, found: list[list[bool]]) -> list[list[bool]] | None:
        """Which outputs each input has gradients of; None: only the rules know."""
        if not self:
            return found
        if not isinstance(self.vjp, list):
            return None
        everything = [True] * len(self.op.outputs)
        rows = [
            [False] * len(self.op.outputs) if rule == APART
            else row if rule in (None, TRUE)
            else everything
            for rule, row in zip(self.vjp, found, strict=False)
        ]  # fmt: skip
        return rows + found[len(self.op.inputs) :]

    # What is accepted

    def _checked(self, rule: Any, which: str, count: int, arriving: str) -> Any:
        """A rule as it runs: texts read, ops of the right number of arrays."""
        if rule is None:
            return None
        if isinstance(rule, (list, tuple)):
            unit = "input" if which == "vjp" else "output"
            if len(rule) != count:
                raise UsageError(
                    f"{self.op.name}: {which} holds {len(rule)} rules, and the op has"
                    f" {count} {unit}{'s' * (count != 1)}. Give one for each; None is"
                    " that of the graph."
                )
            return [
                entry if entry is None else self._one(entry, which, 1, arriving)
                for entry in rule
            ]
        made = self._one(rule, which, count, arriving)
        return [made] * count if made in (ZERO, APART) else made

    def _one(self, rule: Any, which: str, gives: int, arriving: str) -> Any:
        if isinstance(rule, str):
            if rule in (TRUE, ZERO, APART):
                return rule
            found = read(rule, arriving)
            if isinstance(found, Bound) and found.entry.of:
                raise UsageError(
                    f"{self.op.name}: the rule {found.name} is made for"
                    f" {' and '.join(found.entry.of)}, not for an op made of a graph."
                    f" Override what is inside: wb.override({found.entry.of[0]!r},"
                    f" {rule!r})."
                )
            if which == "jvp" and isinstance(found, Bound):
                forward = found.forward()
                if forward is None:
                    raise UsageError(
                        f"{self.op.name}: the rule {found.name} says nothing of forward"
                        " mode. Leave jvp= out: the op's vjp is then transposed, if it"
                        " is linear."
                    )
                return forward
            return found
        if hasattr(rule, "whole") and isinstance(rule, Op):
            self._check_op(rule, which, gives)
        elif not callable(rule):
            raise UsageError(
                f"{self.op.name}: {which}={rule!r} is no rule. Give an op, a function"
                " rule(node, g), a text such as 'clip(d, -1, 1)', or a list of these."
            )
        return rule

    def _check_op(self, rule: Any, which: str, gives: int) -> None:
        """An op that is a rule takes the inputs and what arrives."""
        op = self.op
        what = "cotangent per output" if which == "vjp" else "tangent per input"
        arriving = op.outputs if which == "vjp" else op.inputs
        wanted = len(op.inputs) + len(arriving)
        if len(rule.inputs) != wanted:
            raise UsageError(
                f"{op.name}: its {which} {rule.name} takes"
                f" {counted(len(rule.inputs), 'array')} ({listed(rule.inputs)}). It"
                f" must take {wanted}: {listed(op.inputs)}, then one {what}"
                f" ({len(arriving)}). Give those that it does not need too, with"
                " on_unused_input='ignore'."
            )
        if len(rule.outputs) != gives:
            unit = "gradient" if which == "vjp" else "tangent"
            of = "input" if which == "vjp" else "output"
            one = f"one {unit} per {of}" if gives != 1 else f"one {unit}"
            raise UsageError(
                f"{op.name}: its {which} {rule.name} gives"
                f" {counted(len(rule.outputs), 'array')}. It must give {gives}: {one}."
            )
        models = [*op.inputs, *arriving]
        for i, (x, model) in enumerate(zip(rule.inputs, models, strict=True)):
            if len(x.spec.shape) != len(model.spec.shape):
                role = (
                    listed([model], i)
                    if i < len(op.inputs)
                    else f"the {what.split()[0]}"
                )
                raise ShapeError(
                    f"{op.name}: {listed([x], i)} of its {which} {rule.name} has"
                    f" {counted(len(x.spec.shape), 'axis')}, and {role} that it stands"
                    " for has"
                    f" {len(model.spec.shape)}."
                )

    # Reverse mode

    def pull(self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...]) -> Sequence[Any]:
        """The cotangents of all that the op reads."""
        return self.derivatives.pull(mask, g, y, inputs, {})

    def _vjp(self, node: Node, *cotangents: Any) -> list[Any]:
        """The rule that `Derivatives` runs: of inputs and what else the graph reads."""
        op, count = self.op, len(self.op.inputs)
        rule = registered(op.entry.key) if self.vjp is None else self.vjp
        mask, y = node._mask, node._y
        g = tuple(cotangents) if isinstance(y, tuple) else cotangents[0]
        given = mask & ((1 << count) - 1)
        rest = mask ^ given
        if rule is None or rule == TRUE:
            return op.true_pull(mask, g, y, node.inputs)
        passed: list[Any] = [None] * len(node.inputs)
        if isinstance(rule, list):
            each = list(zip(range(count), rule, strict=True))
            rest |= sum(1 << i for i, r in each if r in (None, TRUE) and given >> i & 1)
            for i, entry in each:
                if given >> i & 1 and entry not in (None, TRUE, APART):
                    passed[i] = self._entry(entry, i, node, cotangents)
        elif isinstance(rule, Expression):
            passed = self._evaluated(rule, node, given, g)
        elif given:
            made = self._called(rule, node, cotangents)
            made = made if isinstance(made, (tuple, list)) else [made]
            if len(made) != count:
                self._wrong_number(rule, len(made), count)
            passed[:count] = made
        if rest:
            true = op.true_pull(rest, g, y, node.inputs)
            passed = [true[i] if rest >> i & 1 else c for i, c in enumerate(passed)]
        return passed

    def _entry(self, rule: Any, i: int, node: Node, cotangents: tuple[Any, ...]) -> Any:
        """The gradient of one input, by a rule of its own."""
        if rule == ZERO:
            return np.zeros_like(node.inputs[i])
        if isinstance(rule, Expression):
            g = cotangents if isinstance(node._y, tuple) else cotangents[0]
            return self._evaluated(rule, node, 1 << i, g)[i]
        made = self._called(rule, node, cotangents)
        if isinstance(made, (tuple, list)):
            if len(made) != 1:
                self._wrong_number(rule, len(made), 1)
            made = made[0]
        return made

    def _called(self, rule: Any, node: Node, cotangents: tuple[Any, ...]) -> Any:
        """What an op gives for arrays, or a function for a node."""
        given = node.inputs[: len(self.op.inputs)]
        if takes_arrays(rule):
            zeros = [
                np.zeros_like(out, dtype=float) if c is None else c
                for c, out in zip(cotangents, node.outputs, strict=True)
            ]
            return rule(*given, *zeros)
        check_signature(rule, len(cotangents), self.op.name, UsageError)
        made = rule(self._view(node, given), *cotangents)
        if made is None:
            raise UsageError(
                f"{self.op.name}: its rule {placed(rule)} {NOTHING} {WITHOUT}"
            )
        return made

    def _view(self, node: Node, given: tuple[Any, ...]) -> OpNode:
        view = OpNode(self.op, node._y, given, node.params, node._mask)
        view.op = self.op
        return view

    def _evaluated(self, rule: Expression, node: Node, mask: int, g: Any) -> list[Any]:
        """A text, once for each input in the mask."""
        view = Node(self.stand_in, mask, node._y, node.inputs, {})
        return Pull(self.stand_in, rule, self.text).evaluate(rule, view, mask, g)

    # Forward mode

    def push(self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...]) -> Any:
        """The tangents of the outputs."""
        return self.derivatives.push(tangents, y, inputs, {})

    def _jvp(self, node: Node, *tangents: Any) -> Any:
        op, count, y = self.op, len(self.op.inputs), node._y
        rule = self.jvp
        if rule == TRUE:
            return self._fill_zeros(op.true_push(tangents, y, node.inputs), node)
        outs = len(op.outputs)
        given, rest = tangents[:count], tangents[count:]
        if isinstance(rule, list):
            true = None
            made: list[Any] = []
            for i, entry in enumerate(rule):
                if entry in (None, TRUE):
                    if true is None:
                        found = op.true_push((*given, *rest), y, node.inputs)
                        true = self._fill_zeros(found, node)
                        true = (true,) if op.single else true
                    made.append(true[i])
                elif entry in (ZERO, APART):
                    made.append(np.zeros_like(node.outputs[i]))
                else:
                    found = self._pushed(entry, node, given)
                    several_ = isinstance(found, (tuple, list))
                    if several_ and len(found) != 1:
                        self._wrong_number(entry, len(found), 1, "tangent")
                    made.append(found[0] if several_ else found)
        else:
            found = self._pushed(rule, node, given)
            made = list(found) if isinstance(found, (tuple, list)) else [found]
            if len(made) != outs:
                self._wrong_number(rule, len(made), outs, "tangent")
            if any(t is not None for t in rest):
                nothing = (None,) * count
                more = op.true_push((*nothing, *rest), y, node.inputs)
                made = [
                    a if a is None or b is None else a + b
                    for a, b in zip(made, (more,) if op.single else more, strict=True)
                ]
        return made[0] if op.single else tuple(made)

    def _fill_zeros(self, made: Any, node: Node) -> Any:
        """Return the graph's tangents, with zeros for an output that does not move."""
        parts = (made,) if self.op.single else made
        filled = tuple(
            np.zeros_like(y) if t is None else t
            for t, y in zip(parts, node.outputs, strict=True)
        )
        return filled[0] if self.op.single else filled

    def _pushed(self, rule: Any, node: Node, tangents: tuple[Any, ...]) -> Any:
        """What a forward rule gives."""
        given = node.inputs[: len(self.op.inputs)]
        if isinstance(rule, Expression):
            view = Node(self.stand_in, node._mask, node._y, node.inputs, {})
            rest = (None,) * (len(node.inputs) - len(given))
            pull = Pull(self.stand_in, rule, self.text)
            return Push(pull, rule).evaluate(rule, view, (*tangents, *rest))
        if takes_arrays(rule):
            zeros = [
                np.zeros_like(x, dtype=None if has_derivative(x) else float)
                if t is None
                else t
                for t, x in zip(tangents, given, strict=True)
            ]
            return rule(*given, *zeros)
        check_signature(rule, len(tangents), self.op.name, UsageError, "tangent")
        return rule(self._view(node, given), *tangents)

    def _wrong_number(
        self, rule: Any, had: int, wanted: int, what: str = "gradient"
    ) -> None:
        op = self.op
        of = "input" if what == "gradient" else "output"
        inputs = f" ({listed(op.inputs)})" if what == "gradient" else ""
        raise UsageError(
            f"{op.name}: its rule {_text(rule)} returned {had} {what}"
            f"{'s' * (had != 1)}. Return {wanted}: one {what} (or None) per {of}"
            f"{inputs}."
        )


class Named:
    """A rule as it runs, under the name of what the user gave."""

    def __init__(self, run: Rule, given: Any, op: GraphOp) -> None:
        self.run = run
        self.given = given
        self.op = op

    @property
    def __name__(self) -> str:
        """The name of the rule that the user gave, with its line."""
        given = registered(self.op.entry.key) if self.given is None else self.given
        ours = isinstance(given, (list, str, Expression)) or takes_arrays(given)
        return _text(given) if ours else placed(given)

    def __call__(self, node: Node, *arriving: Any) -> Any:
        """Run the rule."""
        return self.run(node, *arriving)


class _Checked(Derivatives):
    """Both modes, whose gradients are compared with what a user has declared."""

    def connection(
        self, inputs: tuple[Any, ...], params: Any
    ) -> Sequence[Sequence[bool]] | None:
        """The pattern, where it is declared and not found."""
        op: Any = self.op
        return None if op.declared is None else op.connection(inputs, params)

    def input(self, i: int) -> str:
        """An input by its name."""
        op: Any = self.op
        return listed([op.whole.leaves[i]], i)


def _true(op: GraphOp) -> Op:
    """The op with the derivatives of its graph, for rules that ask for them."""
    made = Op(op.name)

    def pull(mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Any) -> Any:
        arriving = define.Parts(filled(g, y)) if isinstance(g, tuple) else g
        return op.true_pull(mask, arriving, y, inputs)

    def push(tangents: Any, y: Any, inputs: tuple[Any, ...], params: Any) -> Any:
        return op.true_push(tangents, y, inputs)

    made.pull, made.push = pull, push
    return made


def _text(rule: Any) -> str:
    """How a picture and an error call a rule."""
    if isinstance(rule, list):
        return ", ".join("true" if r is None else _text(r) for r in rule)
    if isinstance(rule, str):
        return rule
    if isinstance(rule, Expression):
        return rule.text
    return str(getattr(rule, "name", None) or name_of(rule))
