"""The rules that users write: what one sees, how it runs, what it may return.

Rules of the op table are trusted. Those that users wrote, of an op, registered, of an
override, as a function, an op, an expression or one of these for each input, run here:
a `Runner` lends them arrays that they cannot change, calls them, makes a list of what
they return, and fits each gradient to its input. Where there is a rule for one mode
alone, the other mode transposes it, if it is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import Part
from workbench.core import blame, dims, types
from workbench.core.op import Op, declare
from workbench.core.tensor import MaskedTensor, Tensor, admit, masked
from workbench.core.traces import OpenTrace
from workbench.errors import (
    DtypeError,
    NotDifferentiableError,
    OverrideError,
    ShapeError,
    UsageError,
    WorkbenchError,
)
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.overrides.expression import Expression
from workbench.overrides.linearity import concrete, nonlinear
from workbench.overrides.rule_errors import (
    NOTHING,
    ONTO_COPIES,
    WITHOUT,
    check_signature,
    counted,
    in_place,
    numbered,
    placed,
    takes_arrays,
)

Params = dict[str, Any]
Rule = Callable[..., Any]

# What a rule sees of the node whose gradient it gives: `Node`.


class Node:
    """What a rule sees of the node whose gradient it gives.

    Attributes
    ----------
    op
        The op; ``node.op.name`` is ``"tanh"``.
    name
        The user's name for the node, or None.
    inputs, outputs
        What went in and came out: arrays in an eager run, which cannot be changed, or
        Tensors where the rule is recorded (for second order, or the picture). Of a
        pattern what its wildcards stand for, by name as well: ``node["W"]``.
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
        "_inputs",
        "_mask",
        "_outputs",
        "_true",
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
        self,
        op: Op,
        mask: int,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        true: Op | None = None,
    ) -> None:
        self.op = op
        self.name: str | None = None
        self.names: tuple[str | None, ...] = ()
        self.position = 0
        self.inputs = self._inputs = inputs
        self.outputs = self._outputs = y if isinstance(y, tuple) else (y,)
        self.params = params
        self._mask = mask
        self._true = true
        self._wildcards: tuple[str, ...] = ()
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
                    more = self._pass_on(rest, cotangents)[: len(self.inputs)]
                passed = [
                    m if rest >> i & 1 else c
                    for i, (c, m) in enumerate(zip(passed, more, strict=True))
                ]
            except WorkbenchError:
                pass  # an op may refuse the derivative by some of its inputs
        return [
            zeros_for(x) if c is None else c
            for c, x in zip(passed, self.inputs, strict=True)
        ]

    def asked(self, *cotangents: Any) -> list[Any]:
        """What `vjp` gives of those inputs alone that the derivative is asked by.

        None for all others, which saves their gradients.
        """
        return self._pass_on(self._mask, cotangents)[: len(self.inputs)]

    def _pass_on(self, mask: int, cotangents: Sequence[Any]) -> list[Any]:
        """Return what the true rule passes on to the inputs in a mask, fitted."""
        made: list[Any] = [None] * len(self._inputs)
        if self._true is None:
            raise UsageError(
                f"the rule of {self.op.name} asks for node.vjp, which is that rule"
                " itself. Only the rule of an override stands beside another."
            )
        if (pull := self._true.pull) is not None:
            g = tuple(cotangents) if isinstance(self._y, tuple) else cotangents[0]
            passed = pull(mask, g, self._y, self._inputs, self.params)
            for i, (c, x) in enumerate(zip(passed, self._inputs, strict=False)):
                if c is not None and mask >> i & 1:
                    made[i] = reverse.fit(c, x)
        return made

    def _push_on(self, tangents: tuple[Any, ...]) -> Sequence[Any]:
        """The tangents that the true rule gives, one for each output."""
        op = self._true
        assert op is not None  # else no rule is that of the op itself
        push = op.push or (op.pull and forward.transposed(op.pull))
        made = push(tangents, self._y, self._inputs, self.params) if push else None
        if isinstance(made, tuple):
            return made
        return [made] * len(self._outputs)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<node {self.op.name}{name} of {len(self.inputs)} inputs>"


def has_derivative(x: Any) -> bool:
    """Whether a gradient can be passed on to an input: floats and complex."""
    if types.weak(x):
        return type(x) in (float, complex)
    return hasattr(x, "dtype") and types.differentiable(x.dtype)


def zeros_for(x: Any) -> Any:
    """The gradient of an input that nothing flows to; None if it is no array."""
    if has_derivative(x):
        return np.zeros_like(x)
    array = types.weak(x) or hasattr(x, "dtype")
    return np.zeros_like(x, dtype=float) if array else None


def read_only(x: Any) -> Any:
    """An array that cannot be changed in place; anything else as it is."""
    if isinstance(x, np.ndarray):
        x = x.view() if type(x) is np.ndarray else types.plain(x).view()
        x.flags.writeable = False
    return x


def lend(inputs: Sequence[Any]) -> list[Any]:
    """Return what a user's code gets: arrays that it cannot change.

    Python numbers stay, so that float32 stays what it is beside them, unless there is
    nothing else: then the code finds the shape and dtype that it may ask for.
    """
    if all(map(types.weak, inputs)):
        return [np.asarray(x)[()] for x in inputs]  # host array: a number
    return list(map(read_only, inputs))


# How rules run, in both modes

#: Rules that are words: the true one, zeros, and no gradient at all.
TRUE, ZERO, APART = "true", "zero", "disconnected"
#: How many answers to "is this rule linear?" are kept for one owner of rules.
MOST_KNOWN = 256
#: What to return in place of what has another shape.
SHAPES = {
    "gradient": "Give it the input's shape; a broadcast of that shape is summed back.",
    "tangent": "Return a tangent in the shape of the output.",
}


class Runner:
    """Both modes of an op, from the rules that a user wrote.

    Parameters
    ----------
    op
        What a rule sees as ``node.op``, and what errors name.
    vjp, jvp
        The rules: a function of a node, an op of arrays, an expression, `TRUE`, or a
        tuple with one of these, `ZERO` or `APART` for each input (of ``jvp``: for
        each output). None: the other rule is transposed.
    true
        The op with the true rules, if there are any beside these.
    names
        What errors call the inputs that the rules tell of, if the op may read more,
        which keep the true rule.
    connection
        What the op declares to depend on what, if it does.
    linear
        Which rules are known to be linear, where several share that.
    """

    #: The kinds of dtypes that a gradient may have.
    kinds = "fc"
    #: The node that the rules are of, if they are of one alone.
    node: Tensor | None = None
    names: Sequence[str] | None = None
    declared: Callable[..., Sequence[Sequence[bool]]] | None = None

    def __init__(
        self,
        op: Op,
        vjp: Any = None,
        jvp: Any = None,
        *,
        true: Op | None = None,
        names: Sequence[str] | None = None,
        connection: Callable[..., Sequence[Sequence[bool]]] | None = None,
        linear: set[Any] | None = None,
    ) -> None:
        self.op = op
        self.vjp = vjp
        self.jvp = jvp
        self.true = true
        self.names = names
        self.declared = connection
        self.linear: set[Any] = set() if linear is None else linear

    # What differs from one owner of rules to another

    def find_rule(self) -> Any:
        """A rule of reverse mode, where the owner brings none of either mode."""
        raise NotDifferentiableError(f"{self.op.name} has no derivative.")

    def show(self, node: Node) -> None:
        """Let a function see a node: its arrays as they are lent, and their names."""
        count = None if self.names is None else len(self.names)
        node.inputs = tuple(lend(node._inputs[:count]))
        node.outputs = tuple(map(read_only, node._outputs))
        node.names = (None,) * len(node.inputs)

    def places(self, count: int) -> list[int]:
        """The inputs that may be meant where one is: by ``t``, by a bare gradient."""
        return list(range(count))

    def place(self, rule: Any) -> str:
        """Whose rule it is, and where it stands: how an error begins."""
        return f"{self.op.name}: {placed(rule)}"

    def refuse(
        self,
        rule: Any,
        what: str,
        cure: str,
        kind: type[WorkbenchError] = UsageError,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise an error that names the rule, and what it did."""
        stop = "" if what.endswith("?") else "."
        raise kind(f"{self.place(rule)} {what}{stop} {cure}".rstrip()) from cause

    def refuse_part(
        self, rule: Any, what: str, i: int | None, c: Any, x: Any
    ) -> NoReturn:
        """Refuse a gradient or tangent that does not fit what it is of, ``x``.

        ``i`` is the number of the input; or of the output, of which None is the only.
        """
        dtype = getattr(c, "dtype", None)
        kind: type[WorkbenchError] = DtypeError
        part = f"{what} of {self.called_part(what, i)}"
        if dtype is None:
            told = f"the {part} as {type(c).__name__}, which is no array"
            cure = "Return an array in the shape of the input, or None."
        elif dtype.kind not in self.kinds:
            told = f"the {part} with dtype {dtype}; a gradient is never of integers or"
            told += " conditions"
            cure = "Make arrays with np.zeros_like(x), which have the dtype of x, or"
            cure += " cast with .astype(x.dtype)."
        else:
            part = part.replace(" of ", f" of shape {shape_of(c)} for ", 1)
            told = f"a {part}, which is {types.spec_of(x)}"
            cure, kind = SHAPES[what], ShapeError
        self.refuse(rule, f"returned {told}", cure, kind)

    def called_part(self, what: str, i: int | None) -> str:
        """Return what errors call an input, or an output."""
        if what == "tangent":
            return "the output" if i is None else f"output {i}"
        names = self.names or ()
        return names[i] if i is not None and i < len(names) else f"input {i}"

    def refuse_mode(self, rule: Any, which: str, why: str) -> NoReturn:
        """Refuse a mode without rule, since that of the other is not linear."""
        mode, other, own = ("forward", "jvp", "reverse")
        if which == "jvp":
            mode, other, own = ("reverse", "vjp", "forward")
        raise NotDifferentiableError(
            f"{self.op.name} has a {which} only, {placed(rule)}, and {mode} mode"
            f" cannot follow it, because {why}. Write a {other} too, or differentiate"
            f" in {own} mode."
        )

    def check_takes(self, rule: Rule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        check_signature(rule, count, self.op.name, UsageError, what)

    # Reverse mode

    def pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """One gradient per input, each in a shape that fits; None for nothing."""
        rule = self.vjp
        if rule is None and self.jvp is not None:
            self.check_linear(self.jvp, "jvp", mask, y, inputs, params)
            return transpose(self.push, mask, g, y, inputs, params)
        if rule is None:
            rule = self.find_rule()
        node = Node(self.op, mask, y, inputs, params, self.true)
        cotangents = filled(g, y) if isinstance(g, tuple) else (g,)
        asked = [i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)]
        made = self.gradients(rule, node, cotangents, asked)
        for i, c in enumerate(made):
            if c is not None and not hasattr(c, "dtype"):
                made[i] = gradients.told(c, self.op, i, inputs[i])
        if self.declared is not None:
            self.check_connected(rule, made, self.declared(inputs, params), asked)
        fitted: list[Any] = [None] * len(inputs)
        for i in asked:
            if made[i] is not None:
                c = self.checked(rule, "gradient", i, made[i], inputs[i])
                fitted[i] = reverse.fit(c, inputs[i], self.node)
        return fitted

    def gradients(
        self, rule: Any, node: Node, cotangents: Sequence[Any], asked: Sequence[int]
    ) -> list[Any]:
        """Return what a rule gives: one gradient or None for each input."""
        inputs = node._inputs
        count = len(inputs) if self.names is None else len(self.names)
        given = [i for i in asked if i < count]
        rest = [i for i in asked if i >= count]
        made: list[Any] = [None] * len(inputs)
        parts: list[tuple[Any, Sequence[int]]] = [(rule, given)] if given else []
        if isinstance(rule, tuple):
            parts = [(rule[i], (i,)) for i in given]
        for one, chosen in parts:
            if isinstance(one, Expression):
                found = self.evaluate(one, node, cotangents, chosen)
            elif not isinstance(one, str):
                chosen = range(count) if one is rule else chosen
                found = self.call(one, node, cotangents, node._outputs, "gradient")
                found = self.listed(one, found, len(chosen), node)
            else:
                rest += [i for i in chosen if one == TRUE]
                found = [np.zeros_like(inputs[i]) if one == ZERO else None
                         for i in chosen]  # fmt: skip
            for i, c in zip(chosen, found, strict=True):
                made[i] = c
        if rest:
            true = node._pass_on(sum(1 << i for i in rest), cotangents)
            for i in rest:
                made[i] = true[i]
        return made

    def call(
        self,
        rule: Rule,
        node: Node,
        arriving: Sequence[Any],
        of: Sequence[Any],
        what: str,
    ) -> Any:
        """Return what a function of a node returns, or an op of arrays.

        An op gets arrays alone: zeros where nothing arrives for one in ``of``.
        """
        self.show(node)
        lent = list(map(read_only, arriving))
        operands: list[Any] = [node, *lent]
        if takes_arrays(rule):
            operands = [*node.inputs, *map(zeros_if_none, lent, of)]
        else:
            self.check_takes(rule, len(lent), what)
        try:
            made = rule(*operands)
        except ValueError as error:
            if (told := in_place(error)) is None:
                raise
            self.refuse(rule, told, ONTO_COPIES, cause=error)
        # What is handed on is no view of what had arrived, but that itself.
        back = dict(zip(map(id, lent), arriving, strict=True))
        if isinstance(made, (tuple, list)):
            return [back.get(id(c), c) for c in made]
        return back.get(id(made), made)

    def listed(self, rule: Rule, made: Any, count: int, node: Node) -> list[Any]:
        """Return what a function gave, as one gradient for each input that is meant."""
        if made is None:
            self.refuse(rule, NOTHING, WITHOUT)
        found: list[Any] = made if isinstance(made, list) else [made]
        if found is not made and len(places := self.places(count)) == 1:
            return [made if i == places[0] else None for i in range(count)]
        if len(found) == count:
            return found
        what = f"returned {counted(len(found), 'gradient')}"
        if count == 1 and len(node.inputs) > 1:
            self.refuse(rule, what, "Return 1: one gradient (or None) for this input.")
        what += f"; {self.op.name} has {counted(count, 'input')}"
        if count > 1:
            what += f": {', '.join(repr(types.spec_of(x)) for x in node.inputs)}"
        cure = "Return one gradient (or None) per input: return"
        self.refuse(rule, what, f"{cure} {numbered('g', count)}.")

    def evaluate(
        self,
        rule: Expression,
        node: Node,
        cotangents: Sequence[Any],
        chosen: Sequence[int],
    ) -> list[Any]:
        """Return what an expression gives, once for each input that is meant."""
        inputs, names = node._inputs, rule.names
        values = self.operands(rule, inputs)
        if len(cotangents) == 1:
            values |= {"g": cotangents[0], "y": node._outputs[0]}
        elif one := {"g", "y"} & set(names):
            what = (
                f"reads {min(one)}: {self.op.name} has {len(cotangents)} outputs, and"
                f" an expression has one {min(one)}"
            )
            written = f"rule(node, {numbered('g', len(cotangents))})"
            self.refuse(rule, what, f"Use d and x, or write a function {written}.")
        true: Sequence[Any] = inputs
        if "d" in names:
            true = node._pass_on(sum(1 << i for i in chosen), cotangents)
        made = []
        for i in chosen:
            x = values["x"] = inputs[i]
            values["d"] = np.zeros_like(x) if true[i] is None else true[i]
            try:
                made.append(rule(values))
            except (TypeError, ValueError, ArithmeticError) as error:
                self.refuse(rule, f"failed: {error}", "", cause=error)
        return made

    def operands(self, rule: Expression, inputs: Sequence[Any]) -> dict[str, Any]:
        """``x0``, ``x1``, ... of a node, as far as an expression reads them."""
        found = {}
        op, count = self.op.name, len(inputs)
        for name in rule.names:
            if name[1:].isdigit():
                i = int(name[1:])
                if i >= count:
                    last = f"x{count - 1}" if count > 1 else "x"
                    why = f"{op} has {counted(count, 'input')}, the last is {last}"
                    rule.refuse(name, f"{why}: {name}")
                if not types.weak(inputs[i]) and not hasattr(inputs[i], "shape"):
                    rule.refuse(name, f"input {i} of {op} is not an array: {name}")
                found[name] = inputs[i]
        return found

    def checked(self, rule: Any, what: str, i: int | None, c: Any, x: Any) -> Any:
        """A gradient or tangent whose dtype and shape fit what it is of, ``x``."""
        if types.weak(c):
            return c
        if isinstance(c, (list, tuple)) or (
            isinstance(c, np.ndarray) and c.dtype.hasobject
        ):
            c = admit(c)
        if hasattr(c, "dtype") and np.dtype(c.dtype).kind in self.kinds:
            have, want = shape_of(c), shape_of(x)
            both = (want, have) if what == "gradient" else (have, want)
            if dims.same(have, want) or is_broadcast(*both):
                return c
        self.refuse_part(rule, what, i, c, x)

    def check_connected(
        self,
        rule: Any,
        made: Sequence[Any],
        rows: Sequence[Sequence[bool]],
        asked: Sequence[int],
    ) -> None:
        """Raise an error if gradients contradict what the op declares."""
        for i, (c, row) in enumerate(zip(made, rows, strict=True)):
            of = self.called_part("gradient", i)
            if c is not None and not any(row):
                self.refuse(
                    rule,
                    f"returned a gradient for {of}, on which no output depends, as its"
                    " connection declares",
                    "Return None for it, or declare the connection.",
                )
            if c is None and any(row) and i in asked:
                self.refuse(
                    rule,
                    f"returned None for {of}, on which an output depends, as its"
                    " connection declares",
                    "Return a gradient (np.zeros_like(x) where it is zero), or declare"
                    " that no output depends on it.",
                )

    # Forward mode

    def push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        """The tangent of the output; a tuple of them for several."""
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        if self.jvp is None:
            rule = self.find_rule() if self.vjp is None else self.vjp
            self.check_linear(rule, "vjp", mask, y, inputs, params)
            return forward.transposed(self.pull)(tangents, y, inputs, params)
        node = Node(self.op, mask, y, inputs, params, self.true)
        made = self.tangents(node, tangents)
        return tuple(made) if isinstance(y, tuple) else made[0]

    def tangents(self, node: Node, tangents: tuple[Any, ...]) -> list[Any]:
        """Return what the rules give: one tangent for each output, in its shape."""
        inputs, outputs = node._inputs, node._outputs
        count = len(inputs) if self.names is None else len(self.names)
        nothing = (None,) * len(tangents)
        given, rest = tangents[:count], tangents[count:]
        more: Sequence[Any] = [None] * len(outputs)
        if any(t is not None for t in rest):
            more = node._push_on(nothing[:count] + rest)
        parts: list[tuple[Any, Sequence[int]]] = [(self.jvp, range(len(outputs)))]
        if isinstance(self.jvp, tuple):
            parts = [(one, (i,)) for i, one in enumerate(self.jvp)]
        made: list[Any] = []
        for one, chosen in parts:
            if isinstance(one, str):
                true: Sequence[Any] = [None] * len(outputs)
                if one == TRUE:
                    true = node._push_on(given + nothing[count:])
                found = [zeros_if_none(true[i], outputs[i]) for i in chosen]
            elif isinstance(one, Expression):
                t = self.evaluate_forward(one, node, tangents, chosen[0])
                found = self.listed_tangents(one, t, chosen, outputs)
            else:
                t = self.call(one, node, given, inputs, "tangent")
                found = self.listed_tangents(one, t, chosen, outputs)
            made += [t if t is None or more[i] is None else t + more[i]
                     for i, t in zip(chosen, found, strict=True)]  # fmt: skip
        return made

    def listed_tangents(
        self, rule: Any, made: Any, chosen: Sequence[int], outputs: tuple[Any, ...]
    ) -> list[Any]:
        """Return what a forward rule gave, as one tangent for each output it is for.

        A tangent of 0 is written down, for every output: what a rule left out would be
        a wrong derivative in silence.
        """
        count, many = len(chosen), len(outputs) > 1
        parts = [made] * count if made is None else [made]
        if isinstance(made, (tuple, list)) and (count > 1 or len(made) == 1):
            parts = list(made)
        if len(parts) != count:
            what = f"gives {counted(len(parts), 'tangent')}; {self.op.name} has"
            cure = f"Return one tangent per output: return {numbered('t', count)}."
            self.refuse(rule, f"{what} {counted(count, 'output')}", cure)
        found = []
        for i, t in zip(chosen, parts, strict=True):
            y = outputs[i]
            if not has_derivative(y):
                found.append(np.zeros_like(y) if many else None)
                continue
            if t is None:
                what = f"returned None for the tangent of output {i}"
                if made is None and count == len(outputs):
                    what = NOTHING
                zeros = f"np.zeros_like(node.outputs[{i}])"
                cure = f"For an output that does not move return {zeros}."
                self.refuse(rule, what, cure + " Give one tangent per output." * many)
            t = self.checked(rule, "tangent", i if many else None, t, y)
            found.append(forward.fitted(t, y))
        return found

    def evaluate_forward(
        self, rule: Expression, node: Node, tangents: tuple[Any, ...], i: int
    ) -> Any:
        """Return what an expression of the tangents gives for an output."""
        inputs = node._inputs
        moving = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(inputs, tangents, strict=True)
        ]
        values = {"y": node._outputs[i], **self.operands(rule, inputs)}
        values |= {f"t{k}": t for k, t in enumerate(moving)}
        places = self.places(len(inputs))
        for name, found in (("t", moving), ("x", inputs)):
            if name in rule.names and len(places) > 1:
                why = f"{name} is ambiguous, since {self.op.name} has {len(inputs)}"
                written = f"{name}0, {name}1, ..."
                rule.refuse(name, f"{why} inputs: write {written}: {name}")
            values[name] = found[places[0] if places else 0]
        if "d" in rule.names:
            values["d"] = zeros_if_none(node._push_on(tangents)[i], node._outputs[i])
        return rule(values)

    # One mode from the rule of the other

    def check_linear(
        self,
        rule: Any,
        which: str,
        mask: int,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
    ) -> None:
        """Raise an error if a rule cannot be transposed for the other mode.

        Linear is asked once for each kind of operands; a rule may branch on values,
        but seldom so that this changes.
        """
        many = isinstance(y, tuple)
        outputs = y if many else (y,)
        # The calls of one function share what is known: their rules are methods.
        specs = tuple(types.spec_of(x) for x in (*inputs, *outputs))
        key: Any = (getattr(rule, "__func__", rule), which, mask, specs)
        try:
            if key in self.linear:
                return
        except TypeError:
            key = None  # it has no hash: nothing is kept of it
        outputs = tuple(concrete(x, 1) for x in outputs)
        solid = tuple(concrete(x, i + 2) for i, x in enumerate(inputs))
        held: Any = outputs if many else outputs[0]

        def pull(g: Sequence[Any]) -> Sequence[Any]:
            return self.pull(mask, tuple(g) if many else g[0], held, solid, params)

        def push(t: Sequence[Any]) -> Sequence[Any]:
            moving = iter(t)
            tangents = [next(moving) if mask >> i & 1 else None
                        for i in range(len(solid))]  # fmt: skip
            made = self.push(tuple(tangents), held, solid, params)
            return made if isinstance(made, tuple) else [made]

        if which == "vjp":
            why = nonlinear(pull, outputs)
        else:
            why = nonlinear(push, [x for i, x in enumerate(solid) if mask >> i & 1])
        if why is not None:
            self.refuse_mode(rule, which, why)
        if len(self.linear) >= MOST_KNOWN:
            self.linear.clear()
        if key is not None:
            self.linear.add(key)


class NodeRunner(Runner):
    """The rules of an override at one node, in the place of those of its op.

    Parameters
    ----------
    node
        The node, or what a sweep walks over in the place of a part of the program.
    owner
        The override.
    vjp, jvp
        Its rules, as `Runner` has them.
    position
        Which one it is of the nodes that the override means.
    """

    kinds = "iufc"
    node: Tensor

    def __init__(
        self, node: Tensor, owner: Any, vjp: Any, jvp: Any = None, position: int = 0
    ) -> None:
        self.op = node.op if node.op is not define.ITEM else declare("identity")
        self.vjp, self.jvp, self.true = vjp, jvp, self.op
        self.linear = owner._linear
        self.node = node
        self.owner = owner
        self.position = position

    @property
    def steps(self) -> int | slice | None:
        """In which iterations of the loop around the node it holds; None: in all."""
        found: int | slice | None = self.owner.steps
        return found

    @property
    def label(self) -> str:
        """What the provenance of its Tensors says."""
        return str(self.owner.label)

    def __call__(self, *arguments: Any) -> Any:
        """Run in the mode whose arguments these are."""
        if self.node.op is define.ITEM:
            return self.run_at_output(*arguments)
        return self.push(*arguments) if len(arguments) == 4 else self.pull(*arguments)

    def run_at_output(self, *arguments: Any) -> Any:
        """At one of several outputs: a rule sees what passes its ``g`` on."""
        *_, y, _, params = arguments
        item: Any = define.ITEM
        if len(arguments) == 4:
            t = item.push(*arguments)
            return None if t is None else self.push((t,), y, (y,), params)
        (c,) = self.pull(1, arguments[1], y, (y,), params)
        return [None] if c is None else item.pull(1, c, *arguments[2:])

    def show(self, node: Node) -> None:
        """Let a function see a node: its arrays as they are lent, and their names."""
        super().show(node)
        node.name = self.node.name
        node.names = tuple([getattr(x, "name", None) for x in self.node.inputs])
        node.position = self.position
        if isinstance(self.node, Part):
            node._wildcards = self.node.names

    def places(self, count: int) -> list[int]:
        """The inputs that are no constants of the program."""
        return [i for i, x in enumerate(self.node.inputs) if isinstance(x, Tensor)]

    def place(self, rule: Any) -> str:
        """The override, and the node with its line."""
        where = f"{blame.describe(self.node)}{blame.at(self.node.site)}"
        text = f" {rule.text!r}" if isinstance(rule, Expression) else ""
        return f"override {self.label!r} on {where}: the rule{text}"

    def refuse(
        self,
        rule: Any,
        what: str,
        cure: str,
        kind: type[WorkbenchError] = OverrideError,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise an error that names the override, and what its rule did."""
        super().refuse(rule, what, cure, OverrideError, cause)

    def refuse_part(
        self, rule: Any, what: str, i: int | None, c: Any, x: Any
    ) -> NoReturn:
        """Refuse a gradient or tangent that does not fit what it is of, ``x``."""
        part = self.called_part(what, i).removeprefix("the ")
        name, dtype = f"the gradient of {part}", getattr(c, "dtype", None)
        if what == "tangent":
            name = "the tangent" + part.removeprefix("output")
        kind = np.dtype(dtype or np.asarray(c).dtype).kind  # host array: of a list
        if kind in self.kinds:
            told = f"{name} has shape {shape_of(c)}, the {part.split()[0]} has"
            self.refuse(rule, f"does not fit: {told} {shape_of(x)}", SHAPES[what])
        cure = "Return one array of numbers (or None) per input."
        if kind == "b":
            letter = "d" if what == "gradient" else "t"
            cure = f"A condition becomes a {what} with where(x > 0, {letter}, 0)."
        told = f"is of dtype {dtype}" if dtype else f"is {type(c).__name__}"
        self.refuse(rule, f"does not fit: {name} {told}", cure)

    def refuse_mode(self, rule: Any, which: str, why: str) -> NoReturn:
        """Refuse forward mode, since the rule is not linear."""
        self.refuse(
            rule,
            f"is for reverse mode only, and forward mode cannot follow it, because"
            f" {why}",
            'Give jvp=..., or jvp="true" for the true rule in forward mode,'
            " or differentiate in reverse mode.",
        )

    def check_takes(self, rule: Rule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        check_signature(
            rule, count, self.op.name, OverrideError, what, f"override {self.label!r}"
        )


def filled(parts: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
    """One cotangent per output: zeros where nothing arrived, None for integers.

    Beside one that has left a `where` they have too: 0 wins over infinity.
    """
    hidden = any(isinstance(c, MaskedTensor) for c in parts)
    found: list[Any] = []
    for c, out in zip(parts, y, strict=True):
        if not has_derivative(out):
            c = None
        elif c is None:
            c = masked(np.zeros_like(out)) if hidden else np.zeros_like(out)
        found.append(c)
    return tuple(found)


def zeros_if_none(c: Any, x: Any) -> Any:
    """Return what there is; zeros for ``x`` where there is nothing."""
    return zeros_for(x) if c is None else c


def is_broadcast(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether an array of shape ``small`` broadcasts to ``large``.

    A length that is not known yet may be any.
    """
    return len(small) <= len(large) and all(
        dims.found((n, m)) or n in (1, m)
        for n, m in zip(small, large[len(large) - len(small) :], strict=True)
    )


def transpose(
    push: Rule, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    """Return what reverse mode passes on, from a rule that is linear in the tangents.

    ``<pull(g), t> = <g, push(t)>`` for all ``t``; see `forward.transposed`.
    """
    chosen = [i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)]
    tangents: list[Any] = [None] * len(inputs)
    with OpenTrace() as opened:
        seeds = [forward.zero_leaf(inputs[i]) for i in chosen]
        opened.leaves.update(seed.serial for seed in seeds)
        for i, seed in zip(chosen, seeds, strict=True):
            tangents[i] = seed
        moved = push(tuple(tangents), y, inputs, params)
    made = zip(moved, g, strict=True) if isinstance(moved, tuple) else [(moved, g)]
    pairs = [(t, c) for t, c in made if t is not None and c is not None]
    found = reverse.pull_back([t for t, _ in pairs], [c for _, c in pairs], seeds)
    passed: list[Any] = [None] * len(inputs)
    for i, c in zip(chosen, found, strict=True):
        passed[i] = c
    return passed
