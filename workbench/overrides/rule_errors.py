"""Texts of errors about a user's rules: names, lines, parameters and counts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from workbench.core import blame, sites
from workbench.core.blame import format_count
from workbench.errors import UsageError, WorkbenchError
from workbench.overrides.expression import Expression
from workbench.overrides.targets import name_of

UserRule = Callable[..., Any]

#: The cure for a change in place.
COPY_CURE = "Work on a copy: x = x.copy()."
#: What to say of a rule that gave a bare None, as a function without `return` does.
#: Taking it for "no gradient" would be wrong without a word.
RETURNED_NONE = "returned None: does it end with a `return`?"
#: The cure for that: how a rule says that an input has no gradient.
NONE_CURE = "For an input without gradient put None in the list: return [None] for one."


def describe_change_in_place(error: ValueError) -> str | None:
    """Return an error text for code that wrote to a read-only array, or None."""
    if "read-only" not in str(error):
        return None
    return f"changes an array in place that others read too ({error})"


def is_op(rule: object) -> bool:
    """Return whether a rule is an op, which is called on arrays without the node."""
    return isinstance(getattr(rule, "__op__", None), str)


def name_of_rule(rule: object) -> str:
    """Return the name of a rule: ``Cdist.vjp``, ``zero_out_grad``; or its text."""
    if isinstance(rule, tuple):
        return ", ".join(map(name_of_rule, rule))
    if isinstance(rule, Expression):
        return rule.text
    if is_op(rule):
        return str(getattr(rule, "__op__", None))
    if isinstance(rule, str):
        return rule
    name = str(getattr(rule, "__qualname__", None) or name_of(rule))
    return name.rpartition("<locals>.")[2]


def describe_rule(rule: object) -> str:
    """Return a rule and its place, quoted for an error."""
    code = getattr(getattr(rule, "__func__", rule), "__code__", None)
    return f"{name_of_rule(rule)}{blame.quote_site(sites.decode(code, 0))}"


def name_parameters(letter: str, count: int) -> str:
    """Return the parameters of a rule: ``g0, g1``; of one, ``g``."""
    return letter if count == 1 else ", ".join(f"{letter}{i}" for i in range(count))


def check_signature(
    rule: UserRule,
    count: int,
    name: str,
    kind: type[WorkbenchError],
    what: str = "gradient",
    owner: str = "",
) -> None:
    """Raise an error if a rule does not take a node and so many gradients.

    ``owner`` is the override that the rule is of, if it is of one.
    """
    function = getattr(rule, "__func__", rule)
    try:
        if is_op(rule) or count in _FITTING.get(function, ()):
            return
        signature = _find_misfit(rule, count + 1)
        if signature is None:
            _FITTING.setdefault(function, set()).add(count)
            return
    except TypeError:
        return  # it cannot be kept
    letter = "g" if what == "gradient" else "t"
    operand = "output" if what == "gradient" else "input"
    method = "self, " if inspect.ismethod(rule) else ""
    parameters = ", ".join(_suggest_parameters(signature, count, letter))
    written = f"def {name_of(rule)}({method}{parameters})."
    if owner:
        written = f"rule(node, {name_parameters(letter, count)})."
    elif name_of(rule) == "<lambda>":
        written = f"lambda {parameters}: ..."
    raise kind(
        f"{owner or name}: {describe_rule(rule)} takes {signature}, but {name} has"
        f" {format_count(count, operand)}, so it gets the node and"
        f" {format_count(count, what)}. Write {written}"
    )


def check_cotangents(gradient: UserRule, count: int, name: str) -> None:
    """Raise an error if a gradient does not take so many cotangents."""
    if (signature := _find_misfit(gradient, count)) is not None:
        raise UsageError(
            f"{name}: its gradient {describe_rule(gradient)} takes {signature}, but"
            f" {name} has {format_count(count, 'output')}. Write lambda"
            f" {name_parameters('g', count)}: ..."
        )


def _find_misfit(rule: UserRule, count: int) -> inspect.Signature | None:
    """Return the signature of a function that does not take so many arguments."""
    if type(rule) is FunctionType:
        code = rule.__code__
        if code.co_argcount == count and not code.co_kwonlyargcount:
            return None  # one may be made in every call: no time for its signature
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return None  # it is compiled
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return signature
    return None


def _suggest_parameters(
    signature: inspect.Signature, count: int, letter: str
) -> list[str]:
    """Return names for a node and its gradients, the user's own where they fit."""
    usual = ["node", *name_parameters(letter, count).split(", ")]
    own = [p.name for p in signature.parameters.values() if p.kind in POSITIONAL]
    if len(own) < 2:
        return usual  # one of two, and which is unknown
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
