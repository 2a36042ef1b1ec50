"""What an op made of a graph is given: its symbols, arguments and rules, looked at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core import blame, types, walk
from workbench.core.blame import format_count
from workbench.core.op import Op, declare
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, Tensor, admit, apply
from workbench.core.trace import is_live
from workbench.ops.define import shape_of
from workbench.overrides.rule_parser import BoundRule, parse_rule
from workbench.overrides.rules import APART, TRUE, ZERO

# What an op made of a graph takes: its symbols, and the arguments of a call.

STRONG = declare("strong")


def check_symbols(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Refuse inputs that are not symbols, one given twice, and outputs of no graph."""
    seen: set[int] = set()
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            raise errors.UsageError(
                f"{name}: input {i} is {x!r}, not a symbol. Declare one with"
                " wb.scalar, wb.vector, wb.matrix or wb.tensor."
            )
        if isinstance(x, Shared):
            raise errors.UsageError(
                f"{name}: input {i} is {x.describe()}, which the op reads without an"
                " input. Leave it out of the inputs, or write a symbol in its place."
            )
        if x.op is not IDENTITY or x.inputs or x._value is not None:
            what = "holds a value" if x._value is not None else "is an expression"
            raise errors.UsageError(
                f"{name}: input {i}, {blame.describe(x)}{blame.quote_site(x.site)},"
                f" {what}. Inputs are symbols (wb.scalar, wb.vector, ...): build the"
                " outputs on a symbol, and give this to the call."
            )
        if x.serial in seen:
            raise errors.UsageError(
                f"{name}: {name_inputs([x], i)} is given twice. Each input is given"
                " once; two symbols may get the same value in the call."
            )
        seen.add(x.serial)
    if not outputs:
        raise errors.UsageError(
            f"{name}: there is no output. Give a Tensor, or a list."
        )
    for i, y in enumerate(outputs):
        if not isinstance(y, Tensor):
            raise errors.UsageError(
                f"{name}: output {i} is {type(y).__name__}, not an expression of the"
                " inputs. An output that never changes is wb.constant(value)."
            )
        if isinstance(types.spec_of(y), tuple):
            raise errors.UsageError(
                f"{name}: output {i} is the tuple of all outputs of"
                f" {y.op.name}. Give each of them."
            )


def trace_inputs(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], set[int]]:
    """Return the Tensors that the outputs read, up to the inputs.

    First the shared values and live Tensors, then the symbols that are no inputs, then
    the serials of all Tensors on the way.
    """
    seen = {y.serial: y for y in outputs}
    stops = {x.serial for x in inputs}
    stack = list(seen.values())
    implicit, lost = [], []
    while stack:
        node = stack.pop()
        if node.serial in stops:
            continue
        if _is_generator(node):
            raise errors.UsageError(
                f"{name}: a random draw inside{blame.quote_site(node.site)} depends on"
                " an input, and its gradient would draw again. Draw outside, and give"
                " the noise as an input."
            )
        if node._value is not None or isinstance(node, Shared):
            if is_live(node):
                implicit.append(node)
            continue
        if not node.inputs and node.op is IDENTITY:
            lost.append(node)
            continue
        if _draws_alone(node):
            implicit.append(node)
            continue
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial not in seen:
                seen[x.serial] = x
                stack.append(x)
    by_age = lambda x: x.serial  # noqa: E731
    return sorted(implicit, key=by_age), sorted(lost, key=by_age), set(seen)


def _draws_alone(node: Tensor) -> bool:
    """Return whether a node draws random numbers, in a way that no symbol changes.

    It is drawn in the caller's program then, once, for the value and the gradient.
    """
    spec = types.spec_of(node)
    if not any(map(_is_generator, node.inputs)) or isinstance(spec, tuple):
        return False
    if not all(isinstance(n, int) for n in spec.shape):
        return False
    given = [x for x in node.inputs if isinstance(x, Tensor)]
    return not any(
        x.op is IDENTITY and not x.inputs and x._value is None
        and not isinstance(x, Shared)
        for x in walk.order_nodes(given)
    )  # fmt: skip


def _is_generator(x: object) -> bool:
    return isinstance(x, Shared) and x.spec.dtype == object


def missing_symbol_error(
    name: str, x: Tensor, inputs: Sequence[Tensor]
) -> errors.MissingInputError:
    """Return the error for a symbol that an output needs and that is not an input."""
    given = ", ".join(name_inputs([y], i) for i, y in enumerate(inputs)) or "none"
    return errors.MissingInputError(
        f"{name}: an output needs the symbol {types.spec_of(x)}{_quote_name(x)}"
        f"{blame.quote_site(x.site)}, which is not an input (inputs: {given}). Add it"
        " to the inputs, or make it a wb.shared or a wb.constant value."
    )


def check_unused(
    name: str, inputs: Sequence[Tensor], needed: set[int], policy: str
) -> None:
    """Raise an error for an input that no output needs, or warn, as the policy says."""
    if policy not in ("raise", "warn", "ignore"):
        raise errors.UsageError(
            f"{name}: on_unused_input is 'raise', 'warn' or 'ignore', not {policy!r}."
        )
    for i, x in enumerate(inputs):
        if x.serial not in needed and policy != "ignore":
            text = (
                f"{name}: no output needs"
                f" {name_inputs([x], i)}{blame.quote_site(x.site)}. Leave it out, or"
                " write on_unused_input='ignore'."
            )
            if policy == "raise":
                raise errors.UnusedInputError(text)
            warnings.warn(text, stacklevel=4)


def name_inputs(symbols: Sequence[Tensor], first: int = 0) -> str:
    """Return the inputs as an error names them: ``input 'x', input 'y'``."""
    return ", ".join(
        f"input {x.name!r}" if x.name else f"input {i}"
        for i, x in enumerate(symbols, first)
    )


def fit_arguments(
    name: str, symbols: Sequence[Tensor], args: Sequence[Any]
) -> list[Any]:
    """Return the arguments of a call in the dtypes of their symbols.

    Raises
    ------
    UsageError, ShapeError, DtypeError
        For a wrong number, a rank or length, or a dtype that does not fit.
    """
    if len(args) != len(symbols):
        raise errors.UsageError(
            f"{name} takes {format_count(len(symbols), 'array')}"
            f" ({name_inputs(symbols)}), not {len(args)}{blame.user_line()}."
        )
    return [
        _fit_argument(name, x, i, given)
        for i, (x, given) in enumerate(zip(symbols, args, strict=True))
    ]


def _fit_argument(name: str, x: Tensor, i: int, given: Any) -> Any:
    if not isinstance(given, Tensor):
        plain = types.is_weak(given) or isinstance(given, (list, tuple))
        if not types.is_weak(given):
            given = admit(given)
        if (plain and not isinstance(given, Tensor)) or not hasattr(given, "dtype"):
            given = np.asarray(given)
            if given.dtype.kind not in "biufc":
                raise errors.DtypeError(
                    f"{name}: {name_inputs([x], i)} takes an array of {x.dtype}, and is"
                    f" given one of dtype {given.dtype}{blame.user_line()}."
                )
            if np.can_cast(given.dtype, x.dtype, "same_kind"):
                given = given.astype(x.dtype)  # numbers of Python have no width
    elif types.is_weak(given._value):
        given = apply(STRONG, (given,))  # inside, it is an array like any other
    shape, want = shape_of(given), x.spec.shape
    if len(shape) != len(want):
        raise errors.ShapeError(
            f"{name}: {name_inputs([x], i)} has {format_count(len(want), 'axis')}, and"
            f" is given an array of shape {shape}{blame.user_line()}. Reshape it, or"
            f" declare the symbol with {len(shape)}."
        )
    if any(
        type(n) is int and type(m) is int and n != m
        for n, m in zip(want, shape, strict=True)
    ):
        raise errors.ShapeError(
            f"{name}: {name_inputs([x], i)} has shape {want}, and is given an array of"
            f" shape {shape}{blame.user_line()}."
        )
    if given.dtype == x.dtype:
        return given
    if not np.can_cast(given.dtype, x.dtype, "safe"):
        raise errors.DtypeError(
            f"{name}: {name_inputs([x], i)} is of dtype {x.dtype}, and is given"
            f" {given.dtype}{blame.user_line()}, which does not fit without a loss."
            f" Cast it on purpose: .astype(np.{x.dtype})."
        )
    return given.astype(x.dtype)


def _quote_name(x: Tensor) -> str:
    return f" {x.name!r}" if x.name else ""


# Rules of its own


def read_rules(op: Any, rule: Any, which: str) -> Any:
    """Return the rules of an op of a graph: texts parsed, lists as tuples.

    ``which`` is "vjp" or "jvp". An op must take the right number of arrays.
    """
    unit, whose = ("input", op.inputs) if which == "vjp" else ("output", op.outputs)
    count = len(whose)
    if isinstance(rule, (list, tuple)):
        if len(rule) != count:
            raise errors.UsageError(
                f"{op.name}: {which} holds {len(rule)} rules, and the op has"
                f" {format_count(count, unit)}. Give one for each; None is that of"
                " the graph."
            )
        return tuple([TRUE if r is None else _read_rule(op, r, which, 1) for r in rule])
    made = None if rule is None else _read_rule(op, rule, which, count)
    return (made,) * count if isinstance(made, str) else made


def _read_rule(op: Any, rule: Any, which: str, gives: int) -> Any:
    if isinstance(rule, str):
        if rule in (TRUE, ZERO, APART):
            return rule
        found = parse_rule(rule, "g" if which == "vjp" else "t")
        if not isinstance(found, BoundRule):
            return found
        if found.entry.of:
            raise errors.UsageError(
                f"{op.name}: the rule {found.name} is made for"
                f" {' and '.join(found.entry.of)}, not for an op made of a graph."
                f" Override what is inside: wb.override({found.entry.of[0]!r},"
                f" {rule!r})."
            )
        forward = found.forward_rule() if which == "jvp" else found
        if forward is None:
            raise errors.UsageError(
                f"{op.name}: the rule {found.name} has no rule for forward"
                " mode. Leave jvp= out: the op's vjp is then transposed, if it"
                " is linear."
            )
        return forward
    if isinstance(rule, Op) and hasattr(rule, "implicit"):
        _check_op(op, rule, which, gives)
    elif not callable(rule):
        raise errors.UsageError(
            f"{op.name}: {which}={rule!r} is not a rule. Give an op, a function"
            " rule(node, g), a text such as 'clip(d, -1, 1)', or a list of these."
        )
    return rule


def _check_op(op: Any, rule: Any, which: str, gives: int) -> None:
    """Raise an error if an op that is a rule takes or gives other arrays."""
    what = "cotangent per output" if which == "vjp" else "tangent per input"
    arriving = op.outputs if which == "vjp" else op.inputs
    models = [*op.inputs, *arriving]
    if len(rule.inputs) != len(models):
        raise errors.UsageError(
            f"{op.name}: its {which} {rule.name} takes"
            f" {format_count(len(rule.inputs), 'array')} ({name_inputs(rule.inputs)})."
            f" It must take {len(models)}: {name_inputs(op.inputs)}, then one {what}"
            f" ({len(arriving)}). Give those that it does not need too, with"
            " on_unused_input='ignore'."
        )
    if len(rule.outputs) != gives:
        unit, of = ("gradient", "input") if which == "vjp" else ("tangent", "output")
        one = f"one {unit} per {of}" if gives != 1 else f"one {unit}"
        raise errors.UsageError(
            f"{op.name}: its {which} {rule.name} gives"
            f" {format_count(len(rule.outputs), 'array')}. It must give {gives}: {one}."
        )
    for i, (x, model) in enumerate(zip(rule.inputs, models, strict=True)):
        have, want = len(x.spec.shape), len(model.spec.shape)
        if have != want:
            role = f"the {what.split()[0]}"
            if i < len(op.inputs):
                role = name_inputs([model], i)
            raise errors.ShapeError(
                f"{op.name}: {name_inputs([x], i)} of its {which} {rule.name} has"
                f" {format_count(have, 'axis')}, and {role} that it stands for has"
                f" {want}."
            )
