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
from workbench.autodiff.call import vectorized
from workbench.autodiff.call_rule import (
    NOTHING,
    ONTO_COPIES,
    WITHOUT,
    concrete,
    in_place,
    missing_tangent,
    nonlinear,
    read_only,
    ruled,
)
from workbench.autodiff.derivatives import DisconnectedType, apart
from workbench.core import dims, types
from workbench.core.op import Op
from workbench.core.tensor import Tensor, admit, apply, leaf, value_of
from workbench.core.traces import OpenTrace
from workbench.core.types import Spec, spec_of
from workbench.custom.registry import (
    called,
    check_signature,
    counted,
    named,
    placed,
    registered,
)
from workbench.errors import (
    DtypeError,
    NotDifferentiableError,
    RegistrationError,
    ShapeError,
    TraceError,
    UsageError,
    WorkbenchError,
)
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.overrides.rules import Node, filled, has_derivative, is_broadcast
from workbench.overrides.targets import listed

# Reverse mode of an op that has a rule for forward mode alone: `transposed`.

Rule = Callable[..., Any]
Params = dict[str, Any]


def transposed(push: Rule) -> Rule:
    """Reverse mode from forward mode: a rule is linear in the tangents.

    ``<pull(g), t> = <g, push(t)>`` for all ``t``; see `forward.transposed`.
    """

    def pull(
        mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        chosen = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        with OpenTrace() as opened:
            seeds = [
                forward.reverse_leaf(x)
                if isinstance(x, Tensor) and x._value is None
                else leaf(np.zeros_like(reverse._bare(x)))
                for x in (inputs[i] for i in chosen)
            ]
            opened.leaves.update(s.serial for s in seeds)
            tangents: list[Any] = [None] * len(inputs)
            for i, seed in zip(chosen, seeds, strict=True):
                tangents[i] = seed
            moved = push(tuple(tangents), y, inputs, params)
        pairs = [
            (t, c)
            for t, c in (
                zip(moved, g, strict=True) if isinstance(moved, tuple) else [(moved, g)]
            )
            if t is not None and c is not None
        ]
        found = reverse.pull_back([t for t, _ in pairs], [c for _, c in pairs], seeds)
        passed: list[Any] = [None] * len(inputs)
        for i, c in zip(chosen, found, strict=True):
            passed[i] = c
        return passed

    return pull


# A user's op for many examples at once: `many`.
#
# Its value is that of each example. Its rules are recorded on one example and run on
# all of them; one that looks at values, and so cannot be recorded without them, runs
# example by example. What a rule gives for an input that all examples share is summed.

Run = Callable[[Sequence[Any]], Sequence[Any]]


def many(op: Op, batched: tuple[bool, ...], run: Run | None = None) -> Op:
    """The op that computes ``op`` for each example: axis 0 of what is ``batched``.

    Parameters
    ----------
    op
        An op with `compute`, `infer`, `pull` and `push`.
    batched
        For each input whether it has the axis of the batch in front.
    run
        What the op computes in terms of other ops, flat, if that is known.
    """
    made = Op(op.name)
    made.custom = True
    made.cure, made.rule, made.reads = op.cure, op.rule, None
    made.connection, made.maker = op.connection, op.maker

    def compute(*arrays: Any, **params: Any) -> Any:
        if none_in(arrays, batched):
            return empty(infer(*arrays, **params), arrays, batched)
        single = [True]

        def each(values: Sequence[Any]) -> list[Any]:
            found = op.compute(*values, **params)
            single[0] = not isinstance(found, tuple)
            return [found] if single[0] else list(found)

        rows = None if run is None else attempted(run, arrays, batched)
        if rows is None:
            rows = looped(each, arrays, batched)
            return rows[0] if single[0] else tuple(rows)
        return rows[0] if len(rows) == 1 else tuple(rows)

    def infer(*specs: Any, **params: Any) -> Any:
        given = [s if isinstance(s, Spec) else spec_of(s) for s in specs]
        size = size_of(given, batched)
        ones = [
            Spec(s.shape[1:], s.dtype) if b else s
            for s, b in zip(given, batched, strict=True)
        ]
        assert op.infer is not None
        found = op.infer(*ones, **params)
        if isinstance(found, tuple):
            return tuple([Spec((size, *s.shape), s.dtype) for s in found])
        return Spec((size, *found.shape), found.dtype)

    def pull(
        mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        single = not isinstance(y, tuple)
        ys, gs = ((y,), (g,)) if single else (y, tuple(g))
        present = [i for i, c in enumerate(gs) if c is not None]
        wanted = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        count, outs = len(inputs), len(ys)
        if none_in(inputs, batched):
            return [np.zeros_like(x) if i in wanted else None
                    for i, x in enumerate(inputs)]  # fmt: skip

        def one(values: Sequence[Any]) -> list[Any]:
            arrived: list[Any] = [None] * outs
            for i, c in zip(present, values[count + outs :], strict=True):
                arrived[i] = c
            out = tuple(values[count : count + outs])
            assert op.pull is not None
            passed = op.pull(
                mask,
                arrived[0] if single else define.Parts(arrived),
                out[0] if single else out,
                tuple(values[:count]),
                params,
            )
            return [
                None if passed[i] is None else reverse.fit(passed[i], values[i])
                for i in wanted
            ]

        values = (*inputs, *ys, *[gs[i] for i in present])
        flags = (*batched, *[True] * (outs + len(present)))
        rows = either(one, values, flags)
        found: list[Any] = [None] * count
        for i, c in zip(wanted, rows, strict=True):
            found[i] = c if batched[i] or c is None else np.sum(c, axis=0)
        return found

    def push(
        tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        single = not isinstance(y, tuple)
        ys = (y,) if single else y
        present = [i for i, t in enumerate(tangents) if t is not None]
        count, outs = len(inputs), len(ys)
        if none_in(inputs, batched):
            still = tuple(map(np.zeros_like, ys))
            return still[0] if single else still

        def one(values: Sequence[Any]) -> list[Any]:
            moving: list[Any] = [None] * count
            for i, t in zip(present, values[count + outs :], strict=True):
                moving[i] = t
            out = tuple(values[count : count + outs])
            assert op.push is not None
            pushed = op.push(
                tuple(moving), out[0] if single else out, tuple(values[:count]), params
            )
            return [pushed] if single else list(pushed)

        values = (*inputs, *ys, *[tangents[i] for i in present])
        flags = (*batched, *[True] * outs, *[batched[i] for i in present])
        rows = either(one, values, flags)
        return rows[0] if single else tuple(rows)

    made.compute, made.infer, made.pull, made.push = compute, infer, pull, push
    made.batch = lambda inputs, flags, params: again(made, inputs, flags, params)
    return made


def again(
    op: Op, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> Any:
    """The result of an op for many examples, as one node where it is recorded."""
    return apply(many(op, batched), inputs, params)


def size_of(values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """How many examples there are."""
    return next(shape_of(v)[0] for v, b in zip(values, batched, strict=True) if b)


def none_in(values: Sequence[Any], batched: Sequence[bool]) -> bool:
    """Whether there is no example; a length that is not known yet is not 0."""
    size = size_of(values, batched)
    return isinstance(size, int) and size == 0


def empty(spec: Any, values: Sequence[Any], batched: Sequence[bool]) -> Any:
    """The results of no example at all, of the library of the values."""
    like = next(v for v, b in zip(values, batched, strict=True) if b)
    if isinstance(spec, tuple):
        return tuple(empty(part, values, batched) for part in spec)
    return np.zeros_like(like, dtype=spec.dtype, shape=spec.shape)


def either(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs of all examples, recorded on one where that can be done.

    What is None, a derivative that there is not, stays None.
    """
    made: list[Any] = []

    def there(values: Sequence[Any]) -> list[Any]:
        made[:] = run(values)
        return [y for y in made if y is not None]

    found = attempted(there, values, batched)
    if found is None:
        return looped(run, values, batched)
    rows = iter(found)
    return [None if y is None else next(rows) for y in made]


def attempted(
    run: Run, values: Sequence[Any], batched: Sequence[bool]
) -> list[Any] | None:
    """The outputs by a program recorded on one; None where it looks at values."""
    try:
        return vectorized(run, values, batched)
    except (TraceError, IndexError):
        return None  # an IndexError: an array is indexed by what differs


def looped(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs example by example, stacked."""
    size = size_of(values, batched)
    rows = [
        list(run([v[k] if b else v for v, b in zip(values, batched, strict=True)]))
        for k in range(size)
    ]
    return [stacked(column) for column in zip(*rows, strict=True)]


def stacked(column: Sequence[Any]) -> Any:
    """What the examples gave, along a new axis 0; None where none gave any."""
    some = next((c for c in column if c is not None), None)
    if some is None:
        return None
    parts = [np.zeros_like(some) if c is None else c for c in column]
    shapes = list(dict.fromkeys(map(shape_of, parts)))
    if len(shapes) > 1 and not any(map(dims.found, shapes)):
        raise ShapeError(
            "the examples of a batch give arrays of shapes"
            f" {listed(list(map(str, shapes)))}, and wb.vmap makes one array of them"
            " all. Give arrays of one shape, padded perhaps, or write a loop."
        )
    if any(isinstance(c, Tensor) for c in parts):
        return np.stack(parts)
    return np.stack([value_of(c) for c in parts])


# What a rule sees and returns

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
            c = gradients.told(c, self.op.name, i, x)
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
