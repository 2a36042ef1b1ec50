"""The rules that users write: what one sees, how it runs, what it may return.

Rules of the op table are trusted. Those that users wrote, of an op, registered, of an
override, as a function, an op, an expression or one of these for each input, run here:
a `Runner` lends them arrays that they cannot change, calls them, makes a list of what
they return, and fits each gradient to its input. Where there is a rule for one mode
alone, the other mode transposes it, if it is linear.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from types import FunctionType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import StandIn, plan
from workbench.core import blame, dims, source, types, walk
from workbench.core.op import Op, declare
from workbench.core.tensor import MaskedTensor, Tensor, admit, leaf, masked
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
from workbench.overrides.targets import name_of

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
        "_mask",
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
        inputs: Sequence[Any],
        params: Params,
        true: Op | None = None,
    ) -> None:
        self.op = op
        self.name: str | None = None
        self.names: tuple[str | None, ...] = (None,) * len(inputs)
        self.position = 0
        self.inputs = tuple(lend(inputs))
        self.outputs = tuple(map(read_only, y if isinstance(y, tuple) else (y,)))
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
                    more = self._pass_on(rest, cotangents)
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
        return self._pass_on(self._mask, cotangents)

    def _pass_on(self, mask: int, cotangents: tuple[Any, ...]) -> list[Any]:
        if self._true is None:
            raise UsageError(
                f"the rule of {self.op.name} asks for node.vjp, which is that rule"
                " itself. Only the rule of an override stands beside another."
            )
        return pass_on(self._true, mask, cotangents, self._y, self.inputs, self.params)

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
    """What a user's code gets: arrays that it cannot change.

    Python numbers stay, so that float32 stays what it is beside them, unless there is
    nothing else: then the code finds the shape and dtype that it may ask for.
    """
    if all(map(types.weak, inputs)):
        return [np.asarray(x)[()] for x in inputs]  # host array: a number
    return list(map(read_only, inputs))


# What errors say of a user's rules: their names, lines, parameters and counts.

#: What to do in place of a change in place.
ONTO_COPIES = "Work on a copy: x = x.copy()."
#: What to say of a rule that gave a bare None, as a function does whose
#: `return` was forgotten: no gradient at all would be a wrong one in silence.
NOTHING = "returned None: has it a `return` at its end?"
#: How a rule says that an input has no gradient.
WITHOUT = "For an input without gradient put None in the list: return [None] for one."


def in_place(error: ValueError) -> str | None:
    """What code did that changed an array which it was lent; None: another error."""
    if "read-only" not in str(error):
        return None
    return f"changes an array in place that others read too ({error})"


def takes_arrays(rule: Any) -> bool:
    """Whether a rule is an op, called on arrays, and no function of a node."""
    return isinstance(getattr(rule, "__op__", None), str)


def called(rule: Any) -> str:
    """The name of a rule: ``Cdist.vjp``, ``zero_out_grad``; a text as it is."""
    if isinstance(rule, tuple):
        return ", ".join(map(called, rule))
    if isinstance(rule, Expression):
        return rule.text
    if takes_arrays(rule):
        return str(rule.__op__)
    if isinstance(rule, str):
        return rule
    name = str(getattr(rule, "__qualname__", None) or name_of(rule))
    return name.rpartition("<locals>.")[2]


def placed(rule: Any) -> str:
    """A rule and where it stands, as an error quotes it."""
    code = getattr(getattr(rule, "__func__", rule), "__code__", None)
    return f"{called(rule)}{blame.at(source.decode(code, 0))}"


def counted(count: int, what: str) -> str:
    """``1 input``, ``2 inputs``."""
    return f"{count} {what if count == 1 else 'axes' if what == 'axis' else what + 's'}"


def numbered(letter: str, count: int) -> str:
    """The parameters of a rule: ``g0, g1``; of one, ``g``."""
    return letter if count == 1 else ", ".join(f"{letter}{i}" for i in range(count))


def check_signature(
    rule: Rule,
    count: int,
    name: str,
    kind: type[WorkbenchError],
    what: str = "gradient",
    owner: str = "",
) -> None:
    """Raise an error if a rule does not take a node and so many gradients.

    ``owner`` is the override that the rule is of, if it is of one.
    """
    if takes_arrays(rule) or _takes(rule, count + 1):
        return
    function = getattr(rule, "__func__", rule)
    try:
        if count in _FITTING.get(function, ()):
            return
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return  # it is compiled, or cannot be kept
    try:
        signature.bind(None, *[None] * count)
    except TypeError:
        letter = "g" if what == "gradient" else "t"
        of = "output" if what == "gradient" else "input"
        method = "self, " if inspect.ismethod(rule) else ""
        taken = ", ".join(_parameters(signature, count, letter))
        written = f"def {name_of(rule)}({method}{taken})."
        if owner:
            written = f"rule(node, {numbered(letter, count)})."
        elif name_of(rule) == "<lambda>":
            written = f"lambda {taken}: ..."
        raise kind(
            f"{owner or name}: {placed(rule)} takes {signature}, but {name} has"
            f" {counted(count, of)}, so it gets the node and"
            f" {counted(count, what)}. Write {written}"
        ) from None
    _FITTING.setdefault(function, set()).add(count)


def check_takes(gradient: Rule, count: int, name: str) -> None:
    """Raise an error if a gradient does not take so many cotangents."""
    if _takes(gradient, count):
        return
    try:
        signature = inspect.signature(gradient)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise UsageError(
            f"{name}: its gradient {placed(gradient)} takes {signature}, but {name} has"
            f" {counted(count, 'output')}. Write lambda {numbered('g', count)}: ..."
        ) from None


def _takes(rule: Rule, count: int) -> bool:
    """Whether a function plainly takes so many: no time for its signature."""
    if type(rule) is not FunctionType:
        return False
    code = rule.__code__
    return code.co_argcount == count and not code.co_kwonlyargcount


def _parameters(signature: inspect.Signature, count: int, letter: str) -> list[str]:
    """A node and so many gradients, by the user's own names as far as they go."""
    usual = ["node", *numbered(letter, count).split(", ")]
    own = [p.name for p in signature.parameters.values() if p.kind in POSITIONAL]
    if len(own) < 2:
        return usual  # which of the two it is, nobody knows
    if own[1:] == [letter]:
        own.pop()  # one of several has a number
    stem = own[-1].rstrip("0123456789") if len(own) > 1 else letter
    made = own[: count + 1] + [f"{stem}{i - 1}" for i in range(len(own), count + 1)]
    return made if len(set(made)) == len(made) else usual


#: The parameters that a call by position fills.
POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
#: Rules, and how many gradients they are known to take.
_FITTING: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()

# How rules run, in both modes

#: Rules that are words: the true one, zeros, and no gradient at all.
TRUE, ZERO, APART = "true", "zero", "disconnected"
#: How many answers to "is this rule linear?" are kept for one owner of rules.
MOST_KNOWN = 256


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
    linear
        Which rules are known to be linear, where several share that.
    """

    #: The kinds of dtypes that a gradient may have.
    kinds = "fc"
    #: The node that the rules are of, if they are of one alone.
    node: Tensor | None = None

    def __init__(
        self,
        op: Op,
        vjp: Any = None,
        jvp: Any = None,
        *,
        true: Op | None = None,
        names: Sequence[str] | None = None,
        linear: set[Any] | None = None,
    ) -> None:
        self.op = op
        self.vjp = vjp
        self.jvp = jvp
        self.true = true
        self.names = names
        self.linear: set[Any] = set() if linear is None else linear

    # What differs from one owner of rules to another

    def reverse_rule(self) -> Any:
        """The rule of reverse mode; None: there is none."""
        return self.vjp

    def view(self, mask: int, y: Any, inputs: tuple[Any, ...], params: Params) -> Node:
        """What a function sees of the node."""
        if self.names is None:
            return Node(self.op, mask, y, inputs, params, self.true)
        return Node(self.op, mask, y, inputs[: len(self.names)], params)

    def places(self, count: int) -> list[int]:
        """The inputs that may be meant where one is: by ``t``, by a bare gradient."""
        return list(range(count))

    def connection(
        self, inputs: tuple[Any, ...], params: Params
    ) -> Sequence[Sequence[bool]] | None:
        """Which outputs depend on each input, if that is declared."""
        return None

    def called_input(self, i: int) -> str:
        """What errors call an input."""
        names = self.names or ()
        return names[i] if i < len(names) else f"input {i}"

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

    def refuse_shape(self, rule: Any, what: str, of: str, have: Any, x: Any) -> None:
        """Refuse a gradient or tangent that does not fit what it is of."""
        self.refuse(
            rule,
            f"returned a {what} of shape {have} for {of}, which is {types.spec_of(x)}",
            SHAPES[what],
            ShapeError,
        )

    def refuse_dtype(self, rule: Any, what: str, of: str, c: Any) -> None:
        """Refuse a gradient or tangent that is no array of floats."""
        told = f"returned the {what} of {of}"
        if not hasattr(c, "dtype"):
            told += f" as {type(c).__name__}, which is no array"
            cure = "Return an array in the shape of the input, or None."
        else:
            told += (
                f" with dtype {c.dtype}; a gradient is never of integers or conditions"
            )
            cure = (
                "Make arrays with np.zeros_like(x), which have the dtype of x, or cast"
                " with .astype(x.dtype)."
            )
        self.refuse(rule, told, cure, DtypeError)

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

    def refuse_both(self) -> NoReturn:
        """Refuse to differentiate what has no rule at all."""
        raise NotDifferentiableError(f"{self.op.name} has no derivative.")

    def check_takes(self, rule: Rule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        check_signature(rule, count, self.op.name, UsageError, what)

    # Reverse mode

    def pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """One gradient per input, each in a shape that fits; None for nothing."""
        rule = self.reverse_rule()
        if rule is None:
            if self.jvp is None:
                self.refuse_both()
            self.check_linear(self.jvp, "jvp", mask, y, inputs, params)
            return transpose(self.push, mask, g, y, inputs, params)
        cotangents = filled(g, y) if isinstance(g, tuple) else (g,)
        made = self.gradients(rule, mask, cotangents, y, inputs, params)
        connected = self.connection(inputs, params)
        fitted: list[Any] = []
        for i, (c, x) in enumerate(zip(made, inputs, strict=True)):
            wanted = mask >> i & 1 and has_derivative(x)
            c = gradients.told(c, self.op, i, x)
            if connected is not None:
                self.check_connected(rule, c, i, any(connected[i]), bool(wanted))
            fitted.append(None if c is None or not wanted else self.fit(rule, c, x, i))
        return fitted

    def gradients(
        self,
        rule: Any,
        mask: int,
        cotangents: Sequence[Any],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
    ) -> list[Any]:
        """What a rule gives: one gradient or None for each input."""
        count = len(inputs) if self.names is None else len(self.names)
        asked = [i for i in range(count) if mask >> i & 1 and has_derivative(inputs[i])]
        rest = mask >> count << count
        made: list[Any] = [None] * len(inputs)
        parts: list[tuple[Any, Sequence[int]]] = [(rule, asked)] if asked else []
        if isinstance(rule, tuple):
            parts = [(rule[i], (i,)) for i in asked]
        for one, chosen in parts:
            if isinstance(one, str):
                rest |= sum(1 << i for i in chosen if one == TRUE)
                found = [np.zeros_like(inputs[i]) if one == ZERO else None
                         for i in chosen]  # fmt: skip
            elif isinstance(one, Expression):
                found = self.evaluate(one, chosen, cotangents, y, inputs, params)
            else:
                node = self.view(mask, y, inputs, params)
                returned = self.call(one, node, cotangents, node.outputs, "gradient")
                if one is rule:
                    chosen = range(count)
                found = self.listed(one, returned, chosen, inputs)
            for i, c in zip(chosen, found, strict=True):
                made[i] = c
        if rest and self.true is not None:
            true = pass_on(self.true, rest, cotangents, y, inputs, params)
            for i in range(len(inputs)):
                made[i] = true[i] if rest >> i & 1 else made[i]
        return made

    def call(
        self,
        rule: Rule,
        node: Node,
        arriving: Sequence[Any],
        of: Sequence[Any],
        what: str,
    ) -> Any:
        """What a function of a node returns, or an op of arrays.

        An op gets arrays alone: zeros where nothing arrives for one in ``of``.
        """
        lent = [read_only(c) for c in arriving]
        if takes_arrays(rule):
            operands = [*node.inputs, *map(zeros_if_none, lent, of)]
        else:
            self.check_takes(rule, len(lent), what)
            operands = [node, *lent]
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

    def listed(
        self, rule: Rule, made: Any, chosen: Sequence[int], inputs: tuple[Any, ...]
    ) -> list[Any]:
        """What a function returned, as one gradient for each input that is meant."""
        if made is None:
            self.refuse(rule, NOTHING, WITHOUT)
        if isinstance(made, list):
            if len(made) == len(chosen):
                return made
        else:
            places = self.places(len(chosen))
            if len(places) == 1:
                return [made if i == places[0] else None for i in range(len(chosen))]
        had = len(made) if isinstance(made, list) else 1
        count = len(chosen)
        what = f"returned {counted(had, 'gradient')}"
        if count == 1 and len(inputs) > 1:
            self.refuse(rule, what, "Return 1: one gradient (or None) for this input.")
        what += f"; {self.op.name} has {counted(count, 'input')}"
        if count > 1:
            what += f": {', '.join(repr(types.spec_of(x)) for x in inputs[:count])}"
        cure = "Return one gradient (or None) per input: return"
        self.refuse(rule, what, f"{cure} {numbered('g', count)}.")

    def evaluate(
        self,
        rule: Expression,
        chosen: Sequence[int],
        cotangents: Sequence[Any],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
    ) -> list[Any]:
        """What an expression gives, once for each input that is meant."""
        values = self.operands(rule, inputs)
        if not isinstance(y, tuple):
            values |= {"g": cotangents[0], "y": y}
        elif one := {"g", "y"} & set(rule.names):
            self.refuse(
                rule,
                f"reads {min(one)}, of which {self.op.name} has {len(y)}",
                "Use d and x, or write a function"
                f" rule(node, {numbered('g', len(y))}).",
            )
        true: Sequence[Any] = inputs
        if "d" in rule.names and self.true is not None:
            mask = sum(1 << i for i in chosen)
            true = pass_on(self.true, mask, cotangents, y, inputs, params)
        made = []
        for i in chosen:
            x = inputs[i]
            values |= {"x": x, "d": np.zeros_like(x) if true[i] is None else true[i]}
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

    def fit(self, rule: Any, c: Any, x: Any, i: int) -> Any:
        """A gradient in the shape and dtype of its input, or what sums to it."""
        of = self.called_input(i)
        c = self.as_array(rule, c, "gradient", of)
        have, want = shape_of(c), shape_of(x)
        same = types.weak(c) or dims.same(have, want)
        if not same and not is_broadcast(want, have):
            self.refuse_shape(rule, "gradient", of, have, x)
        return reverse.fit(c, x, self.node)

    def as_array(self, rule: Any, c: Any, what: str, of: str) -> Any:
        """A number or an array of a dtype that a gradient may have."""
        if types.weak(c):
            return c
        if isinstance(c, (list, tuple)) or (
            isinstance(c, np.ndarray) and c.dtype.hasobject
        ):
            c = admit(c)
        if not hasattr(c, "dtype") or np.dtype(c.dtype).kind not in self.kinds:
            self.refuse_dtype(rule, what, of, c)
        return c

    def check_connected(
        self, rule: Any, c: Any, i: int, connected: bool, wanted: bool
    ) -> None:
        """Raise an error if a gradient contradicts what the op declares."""
        of = self.called_input(i)
        if c is not None and not connected:
            self.refuse(
                rule,
                f"returned a gradient for {of}, on which no output depends, as its"
                " connection declares",
                "Return None for it, or declare the connection.",
            )
        if c is None and connected and wanted:
            self.refuse(
                rule,
                f"returned None for {of}, on which an output depends, as its connection"
                " declares",
                "Return a gradient (np.zeros_like(x) where it is zero), or declare that"
                " no output depends on it.",
            )

    # Forward mode

    def push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        """The tangent of the output; a tuple of them for several."""
        mask = sum(1 << i for i, t in enumerate(tangents) if t is not None)
        if self.jvp is None:
            rule = self.reverse_rule()
            if rule is None:
                self.refuse_both()
            self.check_linear(rule, "vjp", mask, y, inputs, params)
            return forward.transposed(self.pull)(tangents, y, inputs, params)
        many = isinstance(y, tuple)
        outputs = y if many else (y,)
        made = self.tangents(mask, tangents, y, outputs, inputs, params)
        return tuple(made) if many else made[0]

    def tangents(
        self,
        mask: int,
        tangents: tuple[Any, ...],
        y: Any,
        outputs: tuple[Any, ...],
        inputs: tuple[Any, ...],
        params: Params,
    ) -> list[Any]:
        """What the rules give: one tangent for each output, in its shape."""
        count = len(inputs) if self.names is None else len(self.names)
        rest: tuple[Any, ...] = (None,) * count + tangents[count:]
        more: Sequence[Any] = [None] * len(outputs)
        if self.true is not None and any(t is not None for t in rest):
            more = push_on(self.true, rest, y, inputs, params)
        parts: list[tuple[Any, Sequence[int]]] = [(self.jvp, range(len(outputs)))]
        if isinstance(self.jvp, tuple):
            parts = [(one, (i,)) for i, one in enumerate(self.jvp)]
        true: Sequence[Any] | None = None
        made: list[Any] = []
        for one, chosen in parts:
            if one == TRUE:
                if true is None and self.true is not None:
                    true = push_on(self.true, tangents, y, inputs, params)
                made += [zeros_if_none(true[i] if true else None, outputs[i])
                         for i in chosen]  # fmt: skip
                continue
            if isinstance(one, str):
                found = [np.zeros_like(outputs[i]) for i in chosen]
            elif isinstance(one, Expression):
                t = self.evaluate_forward(one, chosen[0], tangents, y, inputs, params)
                found = self.listed_tangents(one, t, chosen, outputs)
            else:
                node = self.view(mask, y, inputs, params)
                given = tangents[:count]
                t = self.call(one, node, given, node.inputs, "tangent")
                found = self.listed_tangents(one, t, chosen, outputs)
            made += [t if t is None or more[i] is None else t + more[i]
                     for i, t in zip(chosen, found, strict=True)]  # fmt: skip
        return made

    def listed_tangents(
        self, rule: Any, made: Any, chosen: Sequence[int], outputs: tuple[Any, ...]
    ) -> list[Any]:
        """What a forward rule returned, as one tangent for each output it is for.

        A tangent of 0 is written down, for every output: what a rule left out would be
        a wrong derivative in silence.
        """
        count = len(chosen)
        parts = [made] * count if made is None else [made]
        if isinstance(made, (tuple, list)) and (count > 1 or len(made) == 1):
            parts = list(made)
        if len(parts) != count:
            self.refuse(
                rule,
                f"gives {counted(len(parts), 'tangent')}; {self.op.name} has"
                f" {counted(count, 'output')}",
                f"Return one tangent per output: return {numbered('t', count)}.",
            )
        found = []
        for i, t in zip(chosen, parts, strict=True):
            y = outputs[i]
            if not has_derivative(y):
                found.append(np.zeros_like(y) if len(outputs) > 1 else None)
                continue
            if t is None:
                whole = made is None and count == len(outputs)
                each = " Give one tangent per output." if len(outputs) > 1 else ""
                self.refuse(
                    rule,
                    NOTHING
                    if whole
                    else f"returned None for the tangent of output {i}",
                    "For an output that does not move return"
                    f" np.zeros_like(node.outputs[{i}]).{each}",
                )
            of = f"output {i}" if len(outputs) > 1 else "the output"
            t = self.as_array(rule, t, "tangent", of)
            have, want = shape_of(t), shape_of(y)
            same = types.weak(t) or dims.same(have, want)
            if not same and not is_broadcast(have, want):
                self.refuse_shape(rule, "tangent", of, have, y)
            found.append(forward.fitted(t, y))
        return found

    def evaluate_forward(
        self,
        rule: Expression,
        i: int,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
    ) -> Any:
        """What an expression of the tangents gives for an output."""
        output = y[i] if isinstance(y, tuple) else y
        moving = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(inputs, tangents, strict=True)
        ]
        values = {"y": output, **self.operands(rule, inputs)}
        values |= {f"t{k}": t for k, t in enumerate(moving)}
        places = self.places(len(inputs))
        for name, found in (("t", moving), ("x", inputs)):
            if name in rule.names and len(places) > 1:
                rule.refuse(
                    name,
                    f"{name} is ambiguous, since {self.op.name} has {len(inputs)}"
                    f" inputs: write {name}0, {name}1, ...: {name}",
                )
            values[name] = found[places[0] if places else 0]
        if "d" in rule.names and self.true is not None:
            d = push_on(self.true, tangents, y, inputs, params)[i]
            values["d"] = zeros_if_none(d, output)
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


#: What to return in place of what has another shape.
SHAPES = {
    "gradient": "Give it the input's shape; a broadcast of that shape is summed back.",
    "tangent": "Return a tangent in the shape of the output.",
}


class NodeRunner(Runner):
    """The rules of an override at one node, in the place of those of its op.

    Parameters
    ----------
    node
        The node, or what a sweep walks over in the place of a part of the program.
    vjp, jvp
        The rules, as `Runner` has them.
    label
        What the provenance of its Tensors says, and errors call the override.
    position
        Which one it is of the nodes that the override means.
    """

    kinds = "iufc"
    node: Tensor

    def __init__(
        self,
        node: Tensor,
        vjp: Any,
        jvp: Any = None,
        *,
        label: str,
        position: int = 0,
        linear: set[Any] | None = None,
    ) -> None:
        op = node.op if node.op is not define.ITEM else declare("identity")
        super().__init__(op, vjp, jvp, true=op, linear=linear)
        self.node = node
        self.label = label
        self.position = position

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

    def view(self, mask: int, y: Any, inputs: tuple[Any, ...], params: Params) -> Node:
        """What a function sees of the node."""
        made = super().view(mask, y, inputs, params)
        node = self.node
        made.name = node.name
        made.names = tuple([getattr(x, "name", None) for x in node.inputs])
        made.position = self.position
        if type(node) is StandIn:
            made._wildcards = node.region.names
        return made

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

    def refuse_shape(self, rule: Any, what: str, of: str, have: Any, x: Any) -> None:
        """Refuse a gradient or tangent that does not fit what it is of."""
        whose = of.removeprefix("the ").split()[0]
        name = self._called(what, of)
        told = f"does not fit: {name} has shape {have}, the {whose} has {shape_of(x)}"
        self.refuse(rule, told, SHAPES[what])

    def refuse_dtype(self, rule: Any, what: str, of: str, c: Any) -> None:
        """Refuse a gradient or tangent that is no array of numbers."""
        cure = "Return one array of numbers (or None) per input."
        dtype = getattr(c, "dtype", None) or np.asarray(c).dtype  # host array: of lists
        if np.dtype(dtype).kind == "b":
            letter = "d" if what == "gradient" else "t"
            cure = f"A condition becomes a {what} with where(x > 0, {letter}, 0)."
        told = f"does not fit: {self._called(what, of)} is of dtype {dtype}"
        self.refuse(rule, told, cure)

    def _called(self, what: str, of: str) -> str:
        """``the gradient of input 0``, ``the tangent``, ``the tangent 1``."""
        if what == "gradient":
            return f"the gradient of {of}"
        return "the tangent" + of.removeprefix("the ").removeprefix("output")

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


def pass_on(
    op: Op,
    mask: int,
    cotangents: Sequence[Any],
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
) -> list[Any]:
    """Return what the rule of an op passes on to the inputs in a mask, fitted."""
    made: list[Any] = [None] * len(inputs)
    if op.pull is not None:
        g = tuple(cotangents) if isinstance(y, tuple) else cotangents[0]
        for i, c in enumerate(op.pull(mask, g, y, inputs, params)):
            if c is not None and mask >> i & 1:
                made[i] = reverse.fit(c, inputs[i])
    return made


def push_on(
    op: Op, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Sequence[Any]:
    """Return the tangents that the rule of an op gives, one for each output."""
    push = op.push or (op.pull and forward.transposed(op.pull))
    made = push(tangents, y, inputs, params) if push else None
    if isinstance(y, tuple):
        return (None,) * len(y) if made is None else tuple(made)
    return (made,)


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
    """What there is; zeros for ``x`` where there is nothing."""
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


# Whether a rule is linear in what arrives: only then can it be transposed.

#: Ops that read no value of their input: nothing flows through them.
VALUELESS = {"empty_like", "full_like", "ones_like", "zeros_like"}
#: A rule as a function of what arrives alone.
Run = Callable[[Sequence[Any]], Sequence[Any]]


def nonlinear(run: Run, likes: Sequence[Any]) -> str | None:
    """Why a rule is not linear in what arrives, which is like ``likes``; None if it is.

    A rule is linear if its derivative by ``g`` does not depend on ``g`` (seen in
    the graph of that derivative, so that ``clip(d, -1e9, 1e9)`` is found out) and
    if it is additive on examples (so that ``d + 1`` and ``sign(g)`` are).
    """
    try:
        # Of example numbers, which may be none that the rule is for, nobody is warned.
        with np.errstate(all="ignore"):
            if (name := find_step_with_g(run, likes)) is not None:
                return f"{name} is not linear in g"
            if not is_additive(run, likes):
                return "what it gives for a sum of gradients is not the sum"
    except OverrideError:
        raise
    except WorkbenchError as error:
        return f"it cannot be recorded ({error})"
    return None


def find_step_with_g(run: Run, likes: Sequence[Any]) -> str | None:
    """The first step of a recorded rule whose derivative depends on ``g``."""
    with OpenTrace() as opened:
        seeds = [leaf(example(x, i)) for i, x in enumerate(likes)]
        opened.leaves.update(seed.serial for seed in seeds)
        # One that cannot be computed (`ops/gradients.py`) is that in every mode.
        passed = [
            c
            for c in define.flat(run(seeds))
            if isinstance(c, Tensor) and gradients.first(c) is None
        ]
        steps = plan(passed, seeds)
        ones = [np.ones_like(c._value) for c in passed]
        moved = reverse.pull_back(passed, ones, seeds, record=True)
    found = {seed.serial for seed in seeds}
    blamed = {node.serial: node for node, _ in steps}
    roots = [m for m in moved if isinstance(m, Tensor)]
    for node in walk.order(roots, min(found, default=0)):
        if node.op.name not in VALUELESS and any(
            isinstance(x, Tensor) and x.serial in found for x in node.inputs
        ):
            found.add(node.serial)
            if node.serial not in blamed:
                return node.origin.forward.op.name if node.origin else node.op.name
    return None


def is_additive(run: Run, likes: Sequence[Any]) -> bool:
    """Whether the rule of a sum is the sum of the rules, on examples."""
    one = [example(x, 10 + i) for i, x in enumerate(likes)]
    two = [example(x, 20 + i) for i, x in enumerate(likes)]
    both = [2 * a - 3 * b for a, b in zip(one, two, strict=True)]
    rows = [
        [None if c is None or gradients.first(c) is not None else reverse._bare(c)
         for c in define.flat(run(g))]
        for g in (one, two, both)
    ]  # fmt: skip
    for a, b, c in zip(*rows, strict=True):
        if c is not None and a is not None and b is not None:
            size = np.abs(a) + np.abs(b) + np.abs(c)
            error = np.abs(2 * a - 3 * b - c)
            loose = 1e3 * float(np.finfo(error.dtype).eps)
            if bool(np.any(error > loose * size)):
                return False
    return True


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
