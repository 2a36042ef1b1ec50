"""One call of a function with rules: its arrays, its op, and how its rules are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Signature
from typing import Any, NoReturn, Protocol

import numpy as np

from workbench.autodiff.call_rule import NOTHING, WITHOUT, read_only
from workbench.autodiff.closed import is_array
from workbench.core import blame, source, tensor, tree, types, walk
from workbench.core.op import Op as Core
from workbench.core.tensor import MaskedTensor, Tensor, next_serial, value_of
from workbench.core.trace import live, record
from workbench.core.types import Spec
from workbench.custom.many import many
from workbench.custom.messages import check_takes, counted, placed
from workbench.custom.results import traced_lengths
from workbench.custom.running import Derivatives, OpNode
from workbench.errors import TraceError, UsageError
from workbench.ops import several
from workbench.overrides.rules import has_derivative

__all__ = ["Call"]

Function = Callable[..., Any]
Rule = Callable[..., Any]


class Ruled(Protocol):
    """A function and its rules, as a call of it reads them: a `CustomFunction`."""

    f: Function
    #: Its name, as overrides know it.
    __op__: str
    #: Rules of a node.
    vjp: Rule | None
    jvp: Rule | None
    #: Which rules are known to be linear.
    linear: set[Any]
    #: Whether it returns its gradient beside its value.
    paired: bool
    #: JAX's pair for reverse mode, its rule of forward mode, and the places of the
    #: arguments that these get apart.
    forward: Function | None
    backward: Function | None
    pushed: Function | None
    fixed: tuple[int, ...]
    #: Its parameters, where they can be told.
    signature: Signature | None


class Call:
    """One call: which of its arguments are arrays, and its op."""

    def __init__(
        self,
        function: Ruled,
        flat: list[Any],
        structure: tree.Tree,
        settings: dict[str, Any],
    ) -> None:
        self.function = function
        self.structure = structure
        self.chosen = [i for i, x in enumerate(flat) if is_array(x)]
        picked = set(self.chosen)
        self.flat = [None if i in picked else x for i, x in enumerate(flat)]
        #: The arguments that hold no arrays, by the names of their parameters.
        self.params = settings
        #: How the outputs nest, which of them are arrays, and the others.
        self.tree: tree.Tree | None = None
        self.moving: list[int] = []
        self.rest: list[Any] = []
        #: The outputs of the run that was recorded, and what its gradient keeps.
        self.kept: tuple[Any, Any] | None = None
        self._op: Core | None = None

    @property
    def same(self) -> bool:
        """Whether another call of such arguments may be this one: it keeps nothing."""
        return self.kept is None and all(x is None for x in self.rest)

    # Its value

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The arguments, with these arrays in their places."""
        filled = list(self.flat)
        for i, x in zip(self.chosen, leaves, strict=True):
            filled[i] = x
        args, kwargs = self.structure(filled)
        return args, kwargs

    def value(
        self, leaves: Sequence[Any], keep: bool = False, lent: bool = True
    ) -> list[Any]:
        """The outputs that are arrays, flat; with ``keep`` what the gradient needs.

        Arrays of a program are ``lent``: the function cannot change them.
        """
        function = self.function
        args, kwargs = self.arguments(list(map(read_only, leaves)) if lent else leaves)
        first = next_serial()
        kept = None
        if function.paired or (keep and function.forward is not None):
            made, kept = self.both(args, kwargs)
        else:
            made = function.f(*args, **kwargs)
        flat, self.tree = tree.flatten(made)
        self.captures(flat, first)
        flat = [value_of(y) for y in flat]
        self.moving = [i for i, y in enumerate(flat) if is_array(y)]
        self.rest = [None if is_array(y) else y for y in flat]
        outputs = [
            owned(flat[i]) if lent else flat[i]
            for i in self.moving
        ]  # fmt: skip
        if kept is not None:
            self.kept = outputs, kept
        return outputs

    def both(self, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
        """The value, and what the gradient needs of this run."""
        function = self.function
        run = function.f if function.paired else function.forward
        assert run is not None
        made = run(*args, **kwargs)
        if not isinstance(made, tuple) or len(made) != 2:
            what = "its gradient" if function.paired else "what backward needs"
            raise UsageError(
                f"{function.__op__}: {placed(run)} returned"
                f" {type(made).__name__}. Return two things, the value and {what}:"
                f" return y, {'lambda g: ...' if function.paired else 'kept'}."
            )
        if function.paired and not callable(made[1]):
            raise UsageError(
                f"{function.__op__}: {placed(run)} returned {made[1]!r} as its"
                " gradient, which is no function. Return y, lambda g: ..."
            )
        return made

    def whole(self, outputs: Sequence[Any]) -> Any:
        """The result as the function nests it."""
        filled = list(self.rest)
        for i, y in zip(self.moving, outputs, strict=True):
            filled[i] = y
        assert self.tree is not None
        return self.tree(filled)

    def captures(self, flat: Sequence[Any], first: int) -> None:
        """Raise an error if outputs depend on Tensors that are no arguments."""
        found = [y for y in flat if live(y)]
        if not found:
            return
        outer = next(
            (
                x
                for node in walk.order(found, first)
                for x in node.inputs
                if isinstance(x, Tensor) and x.serial < first and live(x)
            ),
            found[0],
        )
        raise TraceError(
            f"{self.function.__op__}: {placed(self.function.f)} reads"
            f" {blame.describe(outer)}{blame.at(outer.site)} from outside, and its rule"
            " gives gradients for its arguments alone: that of this one would be lost."
            " Make it an argument, or read x.value to cut its gradient on purpose."
        )

    # Its node

    def recorded(self, leaves: list[Any]) -> Any:
        """The result as one node of the program."""
        op = self._op = self._op or self.op()
        known = all(not isinstance(x, Tensor) or x._value is not None for x in leaves)
        if known and not any(isinstance(x, MaskedTensor) for x in leaves):
            args = tuple(map(value_of, leaves))
            outputs = self.value(args, keep=True)
            if not outputs:
                return self.whole([])
            value: Any = outputs[0] if len(outputs) == 1 else tuple(outputs)
            self.kept = None if self.kept is None else (value, self.kept[1])
            made = Tensor(
                op, tuple(leaves), args, self.params, value, *source.caller(),
                source.surroundings(),
            )  # fmt: skip
        else:
            made = tensor.apply(op, tuple(leaves), self.params)
        found = several.outputs(made)
        return self.whole(found if isinstance(found, tuple) else [found])

    def op(self) -> Core:
        """The op of this call: the function of its arrays alone."""
        function = self.function
        made = Core(function.__op__)
        made.custom, made.maker = True, function
        made.cure = f"This is what {function.__op__} says of these arguments."

        def compute(*arrays: Any, **params: Any) -> Any:
            outputs = self.value(arrays)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        compute.__name__ = function.__op__
        made.compute = compute
        made.unfold = lambda values, params: self.run(values)
        made.infer = self.infer
        made.lengths = self.lengths
        made.batch = self.batched(made)
        vjp = function.vjp
        if vjp is None and (function.paired or function.backward is not None):
            vjp = self.reverse
        jvp = function.jvp
        if jvp is None and function.pushed is not None:
            jvp = self.ahead
        rules = Derivatives(made, vjp, jvp)
        rules.linear = function.linear
        made.rule = f"the rule of {function.__op__}"
        return made

    def infer(self, *specs: Any, **params: Any) -> Any:
        """The specs of the outputs: by a run on examples, or by recording."""
        probe = Core(self.function.__op__)
        probe.compute = lambda *arrays: tuple(self.value(arrays))
        try:
            found = tensor.infer(probe, specs, {})
        except UsageError:
            raise
        except Exception:
            given = [s if isinstance(s, Spec) else types.spec_of(s) for s in specs]
            made = record(self.run, given)
            found = tuple(map(types.spec_of, made.outputs))
        return found[0] if len(found) == 1 else found

    def lengths(self, *specs: Any, **params: Any) -> Any:
        """The specs of the outputs where lengths are unknown, by recording.

        Raises
        ------
        UnknownLengthError
            If the function cannot be recorded so; it is asked at stand-ins then.
        """
        found = traced_lengths(self.run, specs, self.infer)
        return found[0] if len(found) == 1 else found

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The outputs that are arrays, as the ops inside compute them."""
        function = self.function
        args, kwargs = self.arguments(leaves)
        if function.paired:
            made = self.both(args, kwargs)[0]
        else:
            made = function.f(*args, **kwargs)
        flat, self.tree = tree.flatten(made)
        self.moving = [i for i, y in enumerate(flat) if is_array(y)]
        self.rest = [None if is_array(y) else y for y in flat]
        return [flat[i] for i in self.moving]

    def batched(self, op: Core) -> Function:
        """The op's rule for batches: one node, whose rules run on all examples."""

        def batch(
            inputs: tuple[Any, ...], flags: tuple[bool, ...], params: dict[str, Any]
        ) -> Any:
            return tensor.apply(many(op, flags, self.run), inputs, params)

        return batch

    # Its rules, in the form that all rules have

    def reverse(self, node: OpNode, *cotangents: Any) -> list[Any]:
        """The gradient by the function that the value came with, or by JAX's pair."""
        function = self.function
        args, kwargs = self.arguments(node.inputs)
        if self.kept is not None and node._y is self.kept[0]:
            kept = self.kept[1]
        else:
            kept = self.both(args, kwargs)[1]
        if function.paired:
            check_takes(kept, len(cotangents), function.__op__)
            made = kept(*cotangents)
            self.check_returned(made, kept)
            if len(node.inputs) == 1 and not isinstance(made, (tuple, list, dict)):
                return [made]
            if isinstance(made, (tuple, list)) and len(made) == len(node.inputs):
                flat = [c for c in made if not isinstance(c, (tuple, list, dict))]
                if len(flat) == len(made):
                    return list(made)  # one for each array, as TensorFlow has it
            return self.spread(made, args, kept)
        backward = function.backward
        assert backward is not None
        fixed = [args[i] for i in function.fixed]
        made = backward(*fixed, kept, self.whole(cotangents))
        self.check_returned(made, backward)
        return self.spread(made, args, backward, function.fixed)

    def ahead(self, node: OpNode, *tangents: Any) -> Any:
        """The tangent by JAX's rule of primals and tangents."""
        function = self.function
        rule = function.pushed
        assert rule is not None
        filled = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(node.inputs, tangents, strict=True)
        ]
        args, _ = self.arguments(node.inputs)
        moving, _ = self.arguments(filled)
        fixed = [args[i] for i in function.fixed]
        varying = [i for i in range(len(args)) if i not in function.fixed]
        made = rule(
            *fixed, tuple(args[i] for i in varying), tuple(moving[i] for i in varying)
        )
        if not isinstance(made, tuple) or len(made) != 2:
            raise UsageError(
                f"{function.__op__}: {placed(rule)} returned {type(made).__name__}."
                " Return two things, the value and its tangent: return y, t."
            )
        flat = opened(made[1])
        if made[1] is None and any(map(has_derivative, node.outputs)):
            raise UsageError(
                f"{function.__op__}: {placed(rule)} returned None for the tangent. For"
                " an output that does not move return np.zeros_like(y)."
            )
        if len(flat) != len(self.rest):
            raise UsageError(
                f"{function.__op__}: {placed(rule)} returned"
                f" {counted(len(flat), 'tangent')}; {function.__op__} has"
                f" {counted(len(self.rest), 'output')}. Nest the tangent as the value."
            )
        parts = [flat[i] for i in self.moving]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def spread(
        self,
        made: Any,
        args: tuple[Any, ...],
        rule: Rule,
        fixed: tuple[int, ...] = (),
    ) -> list[Any]:
        """One gradient for each array, from one for each argument, nested as it is."""
        varying = [i for i in range(len(args)) if i not in fixed]
        given = list(made) if isinstance(made, (tuple, list)) else [made]
        signature = self.function.signature
        declared = len(args) if signature is None else len(signature.parameters)
        if not len(varying) <= len(given) <= max(declared - len(fixed), len(varying)):
            self.refuse(
                rule, f"returned {counted(len(given), 'gradient')};", len(varying)
            )
        by_argument: dict[int, Any] = dict(zip(varying, given, strict=False))
        flat: list[Any] = []
        for i, arg in enumerate(args):
            count = len(tree.flatten(arg)[0]) if arg is not None else 0
            c = by_argument.get(i)
            if c is None:
                flat += [None] * count
                continue
            parts = [c] if count == 1 and is_array(c) else opened(c)
            if len(parts) != count:
                self.refuse(
                    rule,
                    f"returned {counted(len(parts), 'array')} for argument {i}, which"
                    f" holds {count};",
                    len(varying),
                )
            flat += parts
        flat += [None] * (len(self.flat) - len(flat))  # keyword-only arguments
        return [flat[i] for i in self.chosen]

    def check_returned(self, made: Any, rule: Rule) -> None:
        """Raise an error if a rule has no `return`."""
        if made is None:
            name = self.function.__op__
            raise UsageError(f"{name}: {placed(rule)} {NOTHING} {WITHOUT}")

    def refuse(self, rule: Rule, what: str, count: int) -> NoReturn:
        """Raise the error of a rule that returned the wrong number of gradients."""
        name = self.function.__op__
        raise UsageError(
            f"{name}: {placed(rule)} {what} {name} was given"
            f" {counted(count, 'argument')}. Return a tuple with one gradient (or None)"
            " for each argument, nested as the argument is."
        )


def owned(y: Any) -> Any:
    """An output as a program holds it: an array, which is no view of an input."""
    if types.weak(y):
        return np.asarray(y)[()]  # host array: a number
    return y.copy() if type(y) is np.ndarray and not y.flags.writeable else y


def opened(value: Any) -> list[Any]:
    """The leaves of a nest of gradients, None among them."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [leaf for part in value for leaf in opened(part)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in opened(value[key])]
    if value is None:
        return [None]
    return tree.flatten(value)[0]
