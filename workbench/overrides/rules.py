"""The rules that users write: how they run, and the results they may return.

Rules of the op table are trusted. The rules of users (of an op, registered for one, or
of an override) run here, in a `Runner`. A rule is a function of a node, an op of
arrays, an expression, or a list with one of these for each input. The runner lends it
arrays that it cannot change, calls it, and fits each gradient that it returns to its
input. Where there is a rule for one mode alone, the other mode transposes it, if it
is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import Any, NoReturn

import numpy as np

from workbench import errors
from workbench.autodiff import forward, reverse
from workbench.autodiff.budget import BudgetError
from workbench.autodiff.higher_order import make_bitmask
from workbench.autodiff.steps import Rules, plan_steps
from workbench.core import dims, types, walk
from workbench.core.blame import format_count
from workbench.core.op import Op, connect_nothing
from workbench.core.tensor import Tensor, admit, array_of, make_leaf
from workbench.core.traces import OpenTrace
from workbench.core.types import Array, Params
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.overrides.expression import Expression
from workbench.overrides.node import (
    Node,
    fill_cotangents,
    has_derivative,
    lend_arrays,
    make_read_only,
    pull_true,
    zeros_if_none,
)
from workbench.overrides.rule_errors import (
    COPY_CURE,
    NONE_CURE,
    RETURNED_NONE,
    check_signature,
    describe_change_in_place,
    describe_rule,
    is_op,
    name_parameters,
)

# Whether a rule is linear in its cotangent: only then can it be transposed.

#: A rule as a function of what arrives alone.
Run = Callable[[Sequence[Any]], Sequence[Any]]


def find_nonlinearity(run: Run, likes: Sequence[Any]) -> str | None:
    """Why a rule is not linear in the arriving values, like ``likes``; None if linear.

    A rule is linear if its derivative by ``g`` does not depend on ``g`` (seen in
    the graph of that derivative, so that ``clip(d, -1e9, 1e9)`` is found out) and
    if it is additive on examples (so that ``d + 1`` and ``sign(g)`` are).
    """
    try:
        # Example numbers may be outside the rule's domain: do not warn.
        with np.errstate(all="ignore"):
            if (name := find_step_with_g(run, likes)) is not None:
                return f"{name} is not linear in g"
            if not is_additive(run, likes):
                return "its result for a sum of gradients is not the sum of its results"
    except OverrideError:
        raise
    except WorkbenchError as error:
        return f"it cannot be recorded ({error})"
    return None


def find_step_with_g(run: Run, likes: Sequence[Any]) -> str | None:
    """Return the first step of a rule with a derivative that reads ``g``."""
    with OpenTrace() as opened:
        seeds = [make_leaf(make_example(x, i)) for i, x in enumerate(likes)]
        opened.leaves.update(seed.serial for seed in seeds)
        # One that cannot be computed (`ops/gradients.py`) is that in every mode.
        passed = [
            c
            for c in define.flatten_parts(run(seeds))
            if isinstance(c, Tensor) and gradients.find_null(c) is None
        ]
        steps = plan_steps(passed, seeds)
        ones = [np.ones_like(c._value) for c in passed]
        moved = reverse.pull_back(passed, ones, seeds, record=True)
    found = {seed.serial for seed in seeds}
    blamed = {node.serial: node for node, _ in steps}
    roots = [m for m in moved if isinstance(m, Tensor)]
    for node in walk.order_nodes(roots, min(found, default=0)):
        if node.op.connection is not connect_nothing and any(
            isinstance(x, Tensor) and x.serial in found for x in node.inputs
        ):
            found.add(node.serial)
            if node.serial not in blamed:
                return node.origin.forward.op.name if node.origin else node.op.name
    return None


def is_additive(run: Run, likes: Sequence[Any]) -> bool:
    """Return whether the rule of a sum is the sum of the rules, on examples."""
    one = [make_example(x, 10 + i) for i, x in enumerate(likes)]
    two = [make_example(x, 20 + i) for i, x in enumerate(likes)]
    both = [2 * a - 3 * b for a, b in zip(one, two, strict=True)]
    rows = [
        [None if c is None or gradients.find_null(c) is not None
         else array_of(c)
         for c in define.flatten_parts(run(g))]
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


def make_concrete(x: object, seed: int) -> Any:
    """Return an array for a Tensor: its value, or else an example."""
    if not isinstance(x, Tensor):
        return x
    return make_example(x.spec.example(), seed) if x._value is None else x._value


def make_example(x: Any, seed: int) -> Any:
    """Numbers of no special value in the shape and dtype of an array."""
    shape, dtype = shape_of(x), np.dtype(getattr(x, "dtype", type(x)))
    if not types.is_differentiable(dtype):
        return np.ones_like(x)
    turn = 0.6 + 0.8j if dtype.kind == "c" else 1.0
    if types.is_weak(x):
        return type(x)(float(np.sin(1.7 * seed + 0.9)) * turn)
    # Where the array is, which may be no place for NumPy's random numbers.
    count = np.arange(prod(shape), dtype=np.float64, like=np.zeros_like(x))
    drawn = 1.3 * np.sin(12.9898 * count + 1.7 * seed + 0.9) * turn
    return np.reshape(drawn.astype(dtype), shape)


UserRule = Callable[..., Any]

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
        Which rules are known to be linear, where several runners share that.
    kind
        What tells those that share it apart: the settings that the rules look at.
    source
        The function that the user wrote, where the rules only call it.
    """

    #: The kinds of dtypes that a gradient may have.
    kinds = "fc"
    #: The node that the rules are of, if they are of one alone.
    node: Tensor | None = None
    names: Sequence[str] | None = None
    declared: Callable[..., Sequence[Sequence[bool]]] | None = None
    kind: Hashable = ()
    source: UserRule | None = None

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
        kind: Hashable = (),
        source: UserRule | None = None,
    ) -> None:
        self.op = op
        self.vjp = vjp
        self.jvp = jvp
        self.true = true
        self.names = names
        self.declared = connection
        self.linear: set[Any] = set() if linear is None else linear
        self.kind = kind
        self.source = source

    # What differs from one owner of rules to another

    def identify(self) -> Hashable:
        """Return a key that separates runners with a common ``linear``."""
        return self.kind

    def find_rule(self) -> Any:
        """Return the rule of reverse mode where ``vjp`` and ``jvp`` are None."""
        raise errors.NotDifferentiableError(f"{self.op.name} has no derivative.")

    def lend_to(self, node: Node) -> None:
        """Fill a node with read-only arrays and their names, for a user's function."""
        count = None if self.names is None else len(self.names)
        inputs = tuple(lend_arrays(node._inputs[:count]))
        outputs = tuple(map(make_read_only, node._outputs))
        node.lend(inputs, outputs, (None,) * len(inputs))

    def varying_inputs(self, count: int) -> list[int]:
        """Return the inputs that ``t``, or one bare gradient, may mean."""
        return list(range(count))

    def locate(self, rule: object) -> str:
        """Return the owner of a rule and its line, as errors begin."""
        return f"{self.op.name}: {describe_rule(self.source or rule)}"

    def refuse(
        self,
        rule: object,
        what: str,
        cure: str,
        kind: type[errors.WorkbenchError] = errors.UsageError,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise an error with the name of the rule and its fault."""
        stop = "" if what.endswith("?") else "."
        raise kind(f"{self.locate(rule)} {what}{stop} {cure}".rstrip()) from cause

    def refuse_part(
        self, rule: object, what: str, i: int | None, c: Any, x: object
    ) -> NoReturn:
        """Refuse a gradient or tangent that does not fit its ``x``.

        ``i`` is the number of the input; or of the output, of which None is the only.
        """
        dtype = getattr(c, "dtype", None)
        kind: type[errors.WorkbenchError] = errors.DtypeError
        part = f"{what} of {self.name_part(what, i)}"
        if dtype is None:
            problem = f"the {part} as {type(c).__name__}, which is not an array"
            cure = "Return an array in the shape of the input, or None."
        elif dtype.kind not in self.kinds:
            problem = (
                f"the {part} with dtype {dtype}; a gradient is never of integers or"
            )
            problem += " conditions"
            cure = "Make arrays with np.zeros_like(x), which have the dtype of x, or"
            cure += " cast with .astype(x.dtype)."
        else:
            part = part.replace(" of ", f" of shape {shape_of(c)} for ", 1)
            problem = f"a {part}, which is {types.spec_of(x)}"
            cure, kind = SHAPES[what], errors.ShapeError
        self.refuse(rule, f"returned {problem}", cure, kind)

    def name_part(self, what: str, i: int | None) -> str:
        """Return the name of an input, or of an output, for errors."""
        if what == "tangent":
            return "the output" if i is None else f"output {i}"
        names = self.names or ()
        return names[i] if i is not None and i < len(names) else f"input {i}"

    def refuse_mode(self, rule: object, which: str, why: str) -> NoReturn:
        """Refuse a mode without rule, since that of the other is not linear."""
        mode, other, own = ("forward", "jvp", "reverse")
        if which == "jvp":
            mode, other, own = ("reverse", "vjp", "forward")
        raise errors.NotDifferentiableError(
            f"{self.op.name} has a {which} only, {describe_rule(self.source or rule)},"
            f" and {mode} mode cannot follow it, because {why}. Write a {other} too, or"
            f" differentiate in {own} mode."
        )

    def check_signature(self, rule: UserRule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        check_signature(rule, count, self.op.name, errors.UsageError, what)

    # Reverse mode

    def pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        """Return one gradient per input, in a shape that fits; None for nothing.

        ``rules`` are those of overrides for nodes inside, which the true rule gets.
        """
        rule = self.vjp
        if rule is None and self.jvp is not None:
            self.check_linear(self.jvp, "jvp", mask, y, inputs, params, rules)
            push = partial(self.push, rules=rules)
            return transpose(push, mask, g, y, inputs, params)
        if rule is None:
            rule = self.find_rule()
        varying = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        g = fill_cotangents(g, y) if isinstance(g, tuple) else g
        fitted: list[Any] = [None] * len(inputs)
        if isinstance(rule, Expression) and self.names is None:
            results = self.evaluate_vjp(rule, varying, g, y, inputs, params, rules)
            for i, c in zip(varying, results, strict=True):
                fitted[i] = self.fit_gradient(rule, i, c, inputs[i])
            return fitted
        node = Node(self.op, mask, y, inputs, params, self.true, rules)
        results = self.compute_gradients(rule, node, g, varying)
        for i, c in enumerate(results):
            if not (c is None or type(c) is np.ndarray or hasattr(c, "dtype")):
                results[i] = gradients.resolve_cotangent(c, self.op, i, inputs[i])
        if self.declared is not None:
            self.check_connected(rule, results, self.declared(inputs, params), varying)
        for i in varying:
            if results[i] is not None:
                fitted[i] = self.fit_gradient(rule, i, results[i], inputs[i])
        return fitted

    def fit_gradient(self, rule: object, i: int, c: Any, x: Any) -> Any:
        """Return a gradient in the shape of its input, or raise an error."""
        if type(c) is np.ndarray is type(x) and c.dtype is x.dtype:
            if c.shape == x.shape:
                return c  # as nearly all are
        return reverse.fit_cotangent(
            self.check_part(rule, "gradient", i, c, x), x, self.node
        )

    def compute_gradients(
        self, rule: Any, node: Node, g: Any, varying: Sequence[int]
    ) -> list[Any]:
        """Return the gradients that a rule gives, one or None for each input."""
        inputs, cotangents = node._inputs, g if isinstance(g, tuple) else (g,)
        count = len(inputs) if self.names is None else len(self.names)
        covered = [i for i in varying if i < count]
        uncovered = [*varying[len(covered) :]]
        results: list[Any] = [None] * len(inputs)
        parts: list[tuple[Any, Sequence[int]]] = [(rule, covered)] if covered else []
        if isinstance(rule, tuple):
            parts = [(rule[i], (i,)) for i in covered]
        for one, chosen in parts:
            if isinstance(one, Expression):
                part = self.evaluate_vjp(
                    one, chosen, g, node._y, inputs, node.params, node._rules
                )
            elif not isinstance(one, str):
                chosen = range(count) if one is rule else chosen
                part = self.call_rule(one, node, cotangents, node._outputs, "gradient")
                part = self.list_gradients(one, part, len(chosen), node)
            else:
                uncovered += [i for i in chosen if one == TRUE]
                part = [np.zeros_like(inputs[i]) if one == ZERO else None
                         for i in chosen]  # fmt: skip
            for i, c in zip(chosen, part, strict=True):
                results[i] = c
        if uncovered:
            true = node.pull_true(make_bitmask(uncovered), cotangents)
            for i in uncovered:
                results[i] = true[i]
        return results

    def call_rule(
        self,
        rule: UserRule,
        node: Node,
        arriving: Sequence[Any],
        fallbacks: Sequence[Any],
        what: str,
    ) -> Any:
        """Call a rule that is a function of a node, or an op of arrays.

        An op gets arrays alone: zeros where nothing arrives for one in ``fallbacks``.
        """
        self.lend_to(node)
        lent = list(map(make_read_only, arriving))
        operands: list[Any] = [node, *lent]
        if is_op(rule):
            operands = [*node.inputs, *map(zeros_if_none, lent, fallbacks)]
        else:
            self.check_signature(rule, len(lent), what)
        try:
            result = rule(*operands)
        except ValueError as error:
            if (problem := describe_change_in_place(error)) is None:
                raise
            self.refuse(rule, problem, COPY_CURE, cause=error)
        # What is handed on is not a view of what had arrived, but that itself.
        originals = dict(zip(map(id, lent), arriving, strict=True))
        if isinstance(result, (tuple, list)):
            return [originals.get(id(c), c) for c in result]
        return originals.get(id(result), result)

    def list_gradients(
        self, rule: UserRule, result: object, count: int, node: Node
    ) -> list[Any]:
        """Return a function's result as a list, one gradient for each input."""
        if result is None:
            self.refuse(rule, RETURNED_NONE, NONE_CURE)
        gradients_list: list[Any] = result if isinstance(result, list) else [result]
        if (
            gradients_list is not result
            and len(places := self.varying_inputs(count)) == 1
        ):
            return [result if i == places[0] else None for i in range(count)]
        if len(gradients_list) == count:
            return gradients_list
        what = f"returned {format_count(len(gradients_list), 'gradient')}"
        if count == 1 and len(node.inputs) > 1:
            self.refuse(rule, what, "Return 1: one gradient (or None) for this input.")
        what += f"; {self.op.name} has {format_count(count, 'input')}"
        if count > 1:
            what += f": {', '.join(repr(types.spec_of(x)) for x in node.inputs)}"
        cure = "Return one gradient (or None) per input: return"
        self.refuse(rule, what, f"{cure} {name_parameters('g', count)}.")

    def evaluate_vjp(
        self,
        rule: Expression,
        chosen: Sequence[int],
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules,
    ) -> list[Any]:
        """Evaluate an expression of reverse mode, once for each input meant."""
        names, values = rule.names, self.operand_values(rule, inputs)
        if not isinstance(y, tuple):
            values["g"], values["y"] = g, y
        elif len(y) == 1:
            values["g"], values["y"] = g[0], y[0]
        elif one := {"g", "y"} & set(names):
            what = (
                f"reads {min(one)}: {self.op.name} has {len(y)} outputs, and"
                f" an expression has one {min(one)}"
            )
            written = f"rule(node, {name_parameters('g', len(y))})"
            self.refuse(rule, what, f"Use d and x, or write a function {written}.")
        true = None
        if "d" in names:
            assert self.true is not None  # an expression stands beside a rule
            mask = make_bitmask(chosen)
            true = pull_true(self.true, mask, g, y, inputs, params, rules)
        made = []
        for i in chosen:
            x = values["x"] = inputs[i]
            if true is not None:
                values["d"] = zeros_if_none(true[i], x)
            made.append(self.evaluate(rule, values))
        return made

    def evaluate(self, rule: Expression, values: dict[str, Any]) -> Array:
        """Evaluate an expression; raise the rule's error for values that fail."""
        try:
            return rule(values)
        except BudgetError as error:
            self.refuse(rule, f"makes {error}", "Write a function rule(node, g).")
        except errors.ExpressionError as error:
            told = str(error).rstrip(".")
            self.refuse(rule, f"failed: {told}", "", errors.ExpressionError, error)
        except (MemoryError, Warning):
            raise
        except Exception as error:
            told = str(error).rstrip(".") or type(error).__name__
            self.refuse(rule, f"failed: {told}", "", cause=error)

    def operand_values(self, rule: Expression, inputs: Sequence[Any]) -> dict[str, Any]:
        """Return ``x0``, ``x1``, ... of a node, as far as an expression reads them."""
        operands = {}
        for name, i in rule.numbered.items():
            op, count = self.op.name, len(inputs)
            if i >= count:
                last = f"x{count - 1}" if count > 1 else "x"
                why = f"{op} has {format_count(count, 'input')}, the last is {last}"
                rule.refuse(name, f"{why}: {name}")
            if not types.is_weak(inputs[i]) and not hasattr(inputs[i], "shape"):
                rule.refuse(name, f"input {i} of {op} is not an array: {name}")
            operands[name] = inputs[i]
        return operands

    def check_part(
        self, rule: object, what: str, i: int | None, c: Any, x: object
    ) -> Any:
        """Return a gradient or tangent; raise an error if shape or dtype is wrong."""
        if types.is_weak(c):
            return c
        if type(c) is np.ndarray is type(x) and c.shape == x.shape:
            if c.dtype.kind in self.kinds:
                return c
        if isinstance(c, (list, tuple)) or (
            isinstance(c, np.ndarray) and c.dtype.hasobject
        ):
            c = admit(c)
        if hasattr(c, "dtype") and np.dtype(c.dtype).kind in self.kinds:
            have, want = shape_of(c), shape_of(x)
            both = (want, have) if what == "gradient" else (have, want)
            if dims.is_same_shape(have, want) or is_broadcast(*both):
                return c
        self.refuse_part(rule, what, i, c, x)

    def check_connected(
        self,
        rule: object,
        results: Sequence[Any],
        rows: Sequence[Sequence[bool]],
        varying: Sequence[int],
    ) -> None:
        """Raise an error if gradients contradict the op's declaration."""
        for i, (c, row) in enumerate(zip(results, rows, strict=True)):
            part = self.name_part("gradient", i)
            if c is not None and not any(row):
                self.refuse(
                    rule,
                    f"returned a gradient for {part}, on which no output depends, as"
                    " its connection declares",
                    "Return None for it, or declare the connection.",
                )
            if c is None and any(row) and i in varying:
                self.refuse(
                    rule,
                    f"returned None for {part}, on which an output depends, as its"
                    " connection declares",
                    "Return a gradient (np.zeros_like(x) where it is zero), or declare"
                    " that no output depends on it.",
                )

    # Forward mode

    def push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> Any:
        """Return the tangent of the output; a tuple of them for several.

        ``rules`` are those of overrides for nodes inside, which the true rule gets.
        """
        mask = make_bitmask(i for i, t in enumerate(tangents) if t is not None)
        if self.jvp is None:
            rule = self.find_rule() if self.vjp is None else self.vjp
            self.check_linear(rule, "vjp", mask, y, inputs, params, rules)
            pull = partial(self.pull, rules=rules)
            return forward.transpose_rule(pull)(tangents, y, inputs, params)
        node = Node(self.op, mask, y, inputs, params, self.true, rules)
        made = self.compute_tangents(node, tangents)
        return tuple(made) if isinstance(y, tuple) else made[0]

    def compute_tangents(self, node: Node, tangents: tuple[Any, ...]) -> list[Any]:
        """Return the tangents that the rules give, one for each output."""
        inputs, outputs = node._inputs, node._outputs
        count = len(inputs) if self.names is None else len(self.names)
        nothing = (None,) * len(tangents)
        covered, uncovered = tangents[:count], tangents[count:]
        extra: Sequence[Any] = [None] * len(outputs)
        if any(t is not None for t in uncovered):
            extra = node.push_true(nothing[:count] + uncovered)
        parts: list[tuple[Any, Sequence[int]]] = [(self.jvp, range(len(outputs)))]
        if isinstance(self.jvp, tuple):
            parts = [(one, (i,)) for i, one in enumerate(self.jvp)]
        results: list[Any] = []
        for one, chosen in parts:
            if isinstance(one, str):
                true: Sequence[Any] = [None] * len(outputs)
                if one == TRUE:
                    true = node.push_true(covered + nothing[count:])
                part = [zeros_if_none(true[i], outputs[i]) for i in chosen]
            elif isinstance(one, Expression):
                t = self.evaluate_jvp(one, node, tangents, chosen[0])
                part = self.list_tangents(one, t, chosen, outputs)
            else:
                t = self.call_rule(one, node, covered, inputs, "tangent")
                part = self.list_tangents(one, t, chosen, outputs)
            results += [t if t is None or extra[i] is None else t + extra[i]
                     for i, t in zip(chosen, part, strict=True)]  # fmt: skip
        return results

    def list_tangents(
        self,
        rule: object,
        result: object,
        chosen: Sequence[int],
        outputs: tuple[Any, ...],
    ) -> list[Any]:
        """Return a forward rule's result as a list, one tangent for each output.

        A tangent of 0 is written down, for every output: what a rule left out would be
        a wrong derivative in silence.
        """
        count, many = len(chosen), len(outputs) > 1
        parts = [result] * count if result is None else [result]
        if isinstance(result, (tuple, list)) and (count > 1 or len(result) == 1):
            parts = list(result)
        if len(parts) != count:
            what = f"gives {format_count(len(parts), 'tangent')}; {self.op.name} has"
            cure = (
                f"Return one tangent per output: return {name_parameters('t', count)}."
            )
            self.refuse(rule, f"{what} {format_count(count, 'output')}", cure)
        fitted = []
        for i, t in zip(chosen, parts, strict=True):
            y = outputs[i]
            if not has_derivative(y):
                fitted.append(np.zeros_like(y) if many else None)
                continue
            if t is None:
                what = f"returned None for the tangent of output {i}"
                if result is None and count == len(outputs):
                    what = RETURNED_NONE
                zeros = f"np.zeros_like(node.outputs[{i}])"
                cure = f"For an output that does not move return {zeros}."
                self.refuse(rule, what, cure + " Give one tangent per output." * many)
            t = self.check_part(rule, "tangent", i if many else None, t, y)
            fitted.append(forward.fit_tangent(t, y))
        return fitted

    def evaluate_jvp(
        self, rule: Expression, node: Node, tangents: tuple[Any, ...], i: int
    ) -> Array:
        """Evaluate an expression of forward mode for one output."""
        inputs = node._inputs
        moving = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(inputs, tangents, strict=True)
        ]
        values = {"y": node._outputs[i], **self.operand_values(rule, inputs)}
        values |= {f"t{k}": t for k, t in enumerate(moving)}
        places = self.varying_inputs(len(inputs))
        for name, found in (("t", moving), ("x", inputs)):
            if name in rule.names and len(places) > 1:
                why = f"{name} is ambiguous, since {self.op.name} has {len(inputs)}"
                written = f"{name}0, {name}1, ..."
                rule.refuse(name, f"{why} inputs: write {written}: {name}")
            values[name] = found[places[0] if places else 0]
        if "d" in rule.names:
            values["d"] = zeros_if_none(node.push_true(tangents)[i], node._outputs[i])
        return self.evaluate(rule, values)

    # One mode from the rule of the other

    def check_linear(
        self,
        rule: Any,
        which: str,
        mask: int,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules,
    ) -> None:
        """Raise an error if a rule cannot be transposed for the other mode.

        Linear is asked once for each kind of operands; a rule may branch on values,
        but seldom so that this changes.
        """
        many = isinstance(y, tuple)
        outputs = y if many else (y,)
        # The calls of one function share what is known: their rules are methods.
        specs = tuple(types.spec_of(x) for x in (*inputs, *outputs))
        op = self.op.maker or self.op
        own = getattr(rule, "__func__", rule), op, *params.items()
        key: Any = (own, self.identify(), which, mask, specs)
        if rules and self.op.graphs is not None:
            key = None  # it hangs on the rules of nodes inside too
        try:
            if key in self.linear:
                return
        except TypeError:
            key = None  # it has no hash: nothing is kept of it
        outputs = tuple(make_concrete(x, 1) for x in outputs)
        solid = tuple(make_concrete(x, i + 2) for i, x in enumerate(inputs))
        primal_outputs: Any = outputs if many else outputs[0]

        def pull(g: Sequence[Any]) -> Sequence[Any]:
            arriving = tuple(g) if many else g[0]
            return self.pull(mask, arriving, primal_outputs, solid, params, rules)

        def push(t: Sequence[Any]) -> Sequence[Any]:
            moving = iter(t)
            tangents = [next(moving) if mask >> i & 1 else None
                        for i in range(len(solid))]  # fmt: skip
            made = self.push(tuple(tangents), primal_outputs, solid, params, rules)
            return made if isinstance(made, tuple) else [made]

        if which == "vjp":
            why = find_nonlinearity(pull, outputs)
        else:
            why = find_nonlinearity(
                push, [x for i, x in enumerate(solid) if mask >> i & 1]
            )
        if why is not None:
            self.refuse_mode(rule, which, why)
        if len(self.linear) >= MOST_KNOWN:
            self.linear.clear()
        if key is not None:
            self.linear.add(key)


def is_broadcast(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Return whether an array of shape ``small`` broadcasts to ``large``.

    A length that is not known yet may be any.
    """
    return len(small) <= len(large) and all(
        dims.has_dim((n, m)) or n in (1, m)
        for n, m in zip(small, large[len(large) - len(small) :], strict=True)
    )


def transpose(
    push: UserRule, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    """Return the cotangents of a linear forward rule, by transposing the rule.

    ``<pull(g), t> = <g, push(t)>`` for all ``t``; see `forward.transpose_rule`.
    """
    chosen = [i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)]
    tangents: list[Any] = [None] * len(inputs)
    with OpenTrace() as opened:
        # Not zeros: many a rule returns at once where no tangent is anything else.
        seeds = [forward.make_seed(inputs[i], 1) for i in chosen]
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
