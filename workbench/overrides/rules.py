"""The rules of overrides as both sweeps run them.

`Pull` and `Push` stand in for `op.pull` and `op.push` at one node. They show a
user's function the node, evaluate expressions, and look at what comes back: a
gradient of a shape that does not fit is an error that names the override.
"""

from __future__ import annotations

import inspect
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
    nonlinear,
    read_only,
    ruled,
)
from workbench.autodiff.steps import StandIn
from workbench.core import blame, dims, types
from workbench.core.op import Op, declare
from workbench.core.tensor import MaskedTensor, Tensor, masked
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.overrides.expression import Expression

# What a gradient rule sees of the node whose gradient it gives: `Node`.

Params = dict[str, Any]


class Node:
    """What a rule sees of the node whose gradient it gives.

    Attributes
    ----------
    op
        The op; ``node.op.name`` is ``"tanh"``.
    name
        The user's name for the node, or None.
    inputs, outputs
        What went in and came out: arrays in an eager run, Tensors where the rule
        is recorded (for second order, or the picture). Of a pattern what its
        wildcards stand for, by name as well: ``node["W"]``.
    params
        The op's settings.
    names
        The user's names for the inputs, None for one without a name.
    position
        Which one it is of the nodes that the override means, from 0.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def rule(node, g):
    ...     (x,), (y,) = node.inputs, node.outputs
    ...     return g * np.where(abs(x) < 1, 1 - y**2, 0)
    >>> flat = wb.override("tanh", vjp=rule)
    >>> f = lambda x: np.sum(np.tanh(x))
    >>> wb.grad(f, overrides=[flat])(np.array([0.0, 2.0]))
    array([1., 0.])
    """

    __slots__ = (
        "_mask",
        "_wildcards",
        "_y",
        "inputs",
        "name",
        "names",
        "op",
        "outputs",
        "params",
        "position",
    )

    def __init__(
        self, tensor: Tensor, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> None:
        self.op: Op = tensor.op
        self.name = tensor.name
        self.names = tuple([getattr(x, "name", None) for x in tensor.inputs])
        self.position = 0
        self.inputs = inputs
        self.outputs = y if isinstance(y, tuple) else (y,)
        self.params = params
        self._mask = mask
        self._wildcards: tuple[str, ...] = ()
        if type(tensor) is StandIn:
            self._wildcards = tensor.region.names
        self._y = y

    def __getitem__(self, name: str) -> Any:
        """The input of this name of a pattern or a subgraph: ``node["W"]``."""
        if name in self._wildcards:
            return self.inputs[self._wildcards.index(name)]
        known = ", ".join(map(repr, self._wildcards))
        raise OverrideError(
            f"{self.op.name} has no input called {name!r} here; "
            + (f"it has {known}." if known else "its inputs are node.inputs.")
        )

    def get_attr(self, name: str) -> Any:
        """The op's setting of this name, such as ``"axis"``."""
        if name in self.params:
            return self.params[name]
        known = ", ".join(map(repr, sorted(self.params))) or "none at all"
        raise OverrideError(
            f"{self.op.name} has no setting {name!r} here; it has {known}."
        )

    def vjp(self, *cotangents: Any) -> list[Any]:
        """What the op's true rule passes on: one gradient for each input.

        Also for inputs that the derivative is not asked by, such as data beside
        weights, so that a rule need not know which these are. Zeros where nothing
        flows, as to integers; None for what is no array.

        >>> import numpy as np, workbench as wb
        >>> rule = lambda node, g: [0.5 * c for c in node.vjp(g)]
        >>> half = wb.override("multiply", rule)
        >>> float(wb.grad(lambda x: 3.0 * x, overrides=[half])(1.0))
        1.5
        """
        passed = self.asked(*cotangents)
        rest = sum(1 << i for i, x in enumerate(self.inputs) if has_derivative(x))
        rest &= ~self._mask
        if rest:
            try:
                # Of what nobody has asked for, nobody is warned.
                with np.errstate(all="ignore"):
                    more = self._passed(rest, cotangents)
                passed = [
                    m if rest >> i & 1 else c
                    for i, (c, m) in enumerate(zip(passed, more, strict=True))
                ]
            except WorkbenchError:
                pass  # an op may refuse the derivative by some of its inputs
        return [
            nothing(x) if c is None else c
            for c, x in zip(passed, self.inputs, strict=True)
        ]

    def asked(self, *cotangents: Any) -> list[Any]:
        """What `vjp` gives of those inputs alone that the derivative is asked by.

        None for all others, which saves their gradients.
        """
        return self._passed(self._mask, cotangents)

    def _passed(self, mask: int, cotangents: tuple[Any, ...]) -> list[Any]:
        made: list[Any] = [None] * len(self.inputs)
        if self.op.pull is not None:
            g = cotangents if isinstance(self._y, tuple) else cotangents[0]
            passed = self.op.pull(mask, g, self._y, self.inputs, self.params)
            for i, (c, x) in enumerate(zip(passed, self.inputs, strict=False)):
                if c is not None and mask >> i & 1:
                    made[i] = reverse.fit(c, x)
        return made

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<node {self.op.name}{name} of {len(self.inputs)} inputs>"


def has_derivative(x: Any) -> bool:
    """Whether a gradient can be passed on to an input: floats and complex."""
    if types.weak(x):
        return type(x) in (float, complex)
    return hasattr(x, "dtype") and types.differentiable(x.dtype)


def nothing(x: Any) -> Any:
    """The gradient of an input that nothing flows to; None if it is no array."""
    if has_derivative(x):
        return np.zeros_like(x)
    array = types.weak(x) or hasattr(x, "dtype")
    return np.zeros_like(x, dtype=float) if array else None


# The rules of both sweeps

Rule = Callable[..., Any]


class Pull:
    """An override's rule at one node, in the place of ``op.pull``."""

    __slots__ = ("label", "node", "position", "rule")

    def __init__(
        self, node: Tensor, rule: Expression | Rule, label: str, position: int = 0
    ) -> None:
        self.node = node
        self.rule = rule
        #: Which one it is of the nodes that the override means.
        self.position = position
        #: What the provenance of its Tensors says.
        self.label = label

    def __call__(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """One gradient per input, each in a shape that fits; None for nothing."""
        if self.node.op is define.ITEM:
            return self.at_output(g, y, inputs, params)
        return self.applied(Node(self.node, mask, y, inputs, params), mask, g, y)

    def at_output(
        self, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """At one of several outputs: the rule sees it as what passes its ``g`` on."""
        view = Node(self.node, 1, y, (y,), params)
        view.op = declare("identity")
        (c,) = self.applied(view, 1, g, y)
        pull = define.ITEM.pull
        assert pull is not None
        return [None] if c is None else list(pull(1, c, y, inputs, params))

    def applied(self, view: Node, mask: int, g: Any, y: Any) -> list[Any]:
        """What the rule gives at a node."""
        view.position = self.position
        inputs = view.inputs
        if isinstance(self.rule, Expression):
            made = self.evaluate(self.rule, view, mask, g)
        else:
            cotangents = filled(g, y) if isinstance(g, tuple) else (g,)
            # The arrays of the sweep are lent: a rule that changes one in place
            # would change what flows elsewhere.
            lent = [read_only(c) for c in cotangents]
            view.inputs = tuple(map(read_only, inputs))
            view.outputs = tuple(map(read_only, view.outputs))
            try:
                made = ruled(self.rule, view, lent, view.outputs)
            except ValueError as error:
                if (told := in_place(error)) is None:
                    raise
                self.refuse(told, ONTO_COPIES)
            except TypeError:
                check_signature(self.rule, len(lent), self.node, self.label)
                raise
            made = self.sequence(made)
            returned = dict(zip(map(id, lent), cotangents, strict=True))
            made = [
                gradients.told(returned.get(id(c), c), self.node.op.name, i, x)
                for i, (c, x) in enumerate(zip(made, inputs, strict=True))
            ]
        return [
            None if c is None or not mask >> i & 1 else self.checked(c, inputs[i], i)
            for i, c in enumerate(made)
        ]

    def evaluate(self, rule: Expression, view: Node, mask: int, g: Any) -> list[Any]:
        """An expression, once for each input that varies."""
        inputs = view.inputs
        values = input_values(rule, inputs, self.node)
        if not isinstance(g, tuple):
            values |= {"g": g, "y": view.outputs[0]}
        elif one := {"g", "y"} & set(rule.names):
            self.refuse(
                f"the op has {len(g)} outputs, and an expression has one {min(one)}",
                f"Use d and x, or write a function rule(node, {outputs(len(g))}).",
            )
        true = [None] * len(inputs)
        if "d" in rule.names:
            true = view.asked(*g) if isinstance(g, tuple) else view.asked(g)
        made: list[Any] = []
        for i, x in enumerate(inputs):
            if not (mask >> i & 1 and has_derivative(x)):
                made.append(None)
                continue
            values["x"] = x
            values["d"] = np.zeros_like(x) if true[i] is None else true[i]
            try:
                made.append(rule(values))
            except (TypeError, ValueError, ArithmeticError) as error:
                self.refuse(f"{rule.text!r} failed: {error}", "", error)
        return made

    def sequence(self, made: Any) -> list[Any]:
        """What a function returned, as one gradient per input."""
        inputs = self.node.inputs
        if not isinstance(made, (tuple, list)):
            places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
            if made is None:
                self.refuse(f"the rule {NOTHING}", WITHOUT)
            if len(places) == 1:
                return [made if i == places[0] else None for i in range(len(inputs))]
        elif len(made) == len(inputs):
            return list(made)
        had = len(made) if isinstance(made, (tuple, list)) else 1
        has = f"{len(inputs)} input{'s' * (len(inputs) != 1)}"
        self.refuse(
            f"the rule returned {had} gradient{'s' * (had != 1)}; {self.node.op.name}"
            f" has {has}",
            f"Return one gradient (or None) per input: return {outputs(len(inputs))}.",
        )

    def checked(self, c: Any, x: Any, i: int) -> Any:
        """A gradient whose dtype and shape fit its input, or can be summed to it."""
        if not types.weak(c):
            if not hasattr(c, "dtype"):
                c = np.asarray(c)  # host array: a list of numbers
            if np.dtype(c.dtype).kind not in "iufc":
                self.refuse(
                    f"the gradient of input {i} is of dtype {c.dtype}",
                    "A condition becomes a gradient with where(x > 0, d, 0)."
                    if np.dtype(c.dtype).kind == "b"
                    else "Return one array of numbers (or None) per input.",
                )
            have, want = shape_of(c), shape_of(x)
            if not dims.same(have, want) and not is_broadcast(want, have):
                self.refuse(
                    f"the gradient of input {i} has shape {have}, the input has {want}",
                    "Give it the input's shape; a broadcast of that shape is summed"
                    " back.",
                )
        return reverse.fit(c, x, self.node)

    def refuse(
        self, what: str, cure: str, cause: BaseException | None = None
    ) -> NoReturn:
        """Raise an error that names the override and its node."""
        where = f"{blame.describe(self.node)}{blame.at(self.node.site)}"
        stop = "" if what.endswith("?") else "."
        raise OverrideError(
            f"override {self.label!r} on {where}: {what}{stop} {cure}".rstrip()
        ) from cause


def filled(parts: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
    """One cotangent per output: zeros where nothing arrived, None for integers.

    Beside one that has left a `where` they have too: 0 wins over infinity.
    """
    hidden = any(isinstance(c, MaskedTensor) for c in parts)
    found = []
    for c, out in zip(parts, y, strict=True):
        if c is None and has_derivative(out):
            c = masked(np.zeros_like(out)) if hidden else np.zeros_like(out)
        found.append(c)
    return tuple(found)


class Push:
    """An override's rule at one node in forward mode, in the place of ``op.push``.

    Without a rule of its own it transposes the reverse rule, which must then be
    linear in the gradient that arrives.
    """

    __slots__ = ("pull", "rule")

    def __init__(self, pull: Pull, rule: Expression | Rule | None) -> None:
        self.pull = pull
        self.rule = rule

    @property
    def label(self) -> str:
        """What the provenance of its Tensors says."""
        return self.pull.label

    def __call__(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        """The tangent of the node."""
        node, rule = self.pull.node, self.rule
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        if rule is None:
            why = nonlinear(self.pull, mask, y, inputs, params)
            if why is not None:
                self.pull.refuse(
                    f"it has a reverse rule only, and forward mode cannot follow it,"
                    f" because {why}",
                    'Give jvp=..., or jvp="true" for the true rule in forward mode,'
                    " or differentiate in reverse mode.",
                )
            return forward.transposed(self.pull)(tangents, y, inputs, params)
        view = Node(node, mask, y, inputs, params)
        view.position = self.pull.position
        if isinstance(rule, Expression):
            made = self.evaluate(rule, view, tangents)
        else:
            made = ruled(rule, view, tangents, view.inputs)
        many = isinstance(y, tuple)
        if (
            many
            and made is not None
            and (not isinstance(made, (tuple, list)) or len(made) != len(y))
        ):
            had = len(made) if isinstance(made, (tuple, list)) else 1
            self.pull.refuse(
                f"the rule gives {had} tangent{'s' * (had != 1)}; {node.op.name} has"
                f" {len(y)} outputs",
                "Return one tangent per output, as a tuple.",
            )
        if (lacks := missing_tangent(made, y)) is not None:
            self.pull.refuse(f"the rule {lacks[0]}", lacks[1])
        if not many:
            return self.checked(made, y, "the tangent", "the node")
        return tuple(
            np.zeros_like(part)
            if not has_derivative(part)
            else self.checked(t, part, f"tangent {i}", f"output {i}")
            for i, (t, part) in enumerate(zip(made or y, y, strict=True))
        )

    def checked(self, t: Any, y: Any, what: str, of: str) -> Any:
        """A tangent whose dtype and shape fit its output."""
        if t is None:
            return None
        if not types.weak(t):
            if not hasattr(t, "dtype"):
                t = np.asarray(t)  # host array: a list of numbers
            if np.dtype(t.dtype).kind not in "iufc":
                self.pull.refuse(
                    f"{what} is of dtype {t.dtype}",
                    "A condition becomes a tangent with where(x > 0, t, 0).",
                )
        have, want = shape_of(t), shape_of(y)
        if not dims.same(have, want) and not is_broadcast(have, want):
            self.pull.refuse(
                f"{what} has shape {have}, {of} has {want}",
                "Return a tangent in the shape of the output.",
            )
        return t

    def evaluate(self, rule: Expression, view: Node, tangents: tuple[Any, ...]) -> Any:
        """An expression of the tangents."""
        inputs, op, y = view.inputs, view.op, view._y
        values = {"y": y, **input_values(rule, inputs, self.pull.node)}
        filled = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(inputs, tangents, strict=True)
        ]
        values.update({f"t{i}": t for i, t in enumerate(filled)})
        single = [
            i for i, x in enumerate(self.pull.node.inputs) if isinstance(x, Tensor)
        ]
        for name, found in (("t", filled), ("x", inputs)):
            if name in rule.names and len(single) > 1:
                rule.refuse(
                    name,
                    f"{name} is ambiguous, since {op.name} has {len(inputs)} inputs:"
                    f" write {name}0, {name}1, ...: {name}",
                )
            values[name] = found[single[0] if single else 0]
        if "d" in rule.names:
            push = op.push or (op.pull and forward.transposed(op.pull))
            d = push(tangents, y, inputs, view.params) if push else None
            values["d"] = np.zeros_like(y) if d is None else d
        return rule(values)


def input_values(
    rule: Expression, inputs: Sequence[Any], node: Tensor
) -> dict[str, Any]:
    """``x0``, ``x1``, ... of a node, as far as the rule reads them."""
    found = {}
    for name in rule.names:
        if name[1:].isdigit():
            i = int(name[1:])
            if i >= len(inputs):
                last = f"x{len(inputs) - 1}" if len(inputs) > 1 else "x"
                rule.refuse(
                    name,
                    f"{node.op.name} has {len(inputs)}"
                    f" input{'s' * (len(inputs) != 1)}, the last is {last}: {name}",
                )
            if name[0] == "x":
                if not types.weak(inputs[i]) and not hasattr(inputs[i], "shape"):
                    rule.refuse(
                        name, f"input {i} of {node.op.name} is not an array: {name}"
                    )
                found[name] = inputs[i]
    return found


def check_signature(rule: Rule, count: int, node: Tensor, label: str) -> None:
    """Raise an error if a function does not take a node and so many gradients."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(node, *[None] * count)
    except TypeError:
        raise OverrideError(
            f"override {label!r}: the rule takes {signature}, but {node.op.name} has"
            f" {count} output{'s' * (count != 1)}{blame.at(node.site)}. Write"
            f" rule(node, {outputs(count)})."
        ) from None


def outputs(count: int) -> str:
    """The parameters of a rule for the gradients of so many outputs."""
    return "g" if count == 1 else ", ".join(f"g{i}" for i in range(count))


def is_broadcast(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether an array of shape ``small`` broadcasts to ``large``.

    A length that is not known yet may be any.
    """
    return len(small) <= len(large) and all(
        dims.found((n, m)) or n in (1, m)
        for n, m in zip(small, large[len(large) - len(small) :], strict=True)
    )
