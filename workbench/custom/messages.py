"""What errors say of a user's rules: their names, lines, parameters and counts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from workbench.autodiff.call_rule import takes_arrays
from workbench.core import blame, source
from workbench.errors import UsageError, WorkbenchError
from workbench.overrides.rules import outputs
from workbench.overrides.targets import name_of

__all__ = ["called", "check_signature", "check_takes", "counted", "named", "placed"]

Rule = Callable[..., Any]


def check_signature(
    rule: Rule,
    count: int,
    name: str,
    kind: type[WorkbenchError],
    what: str = "gradient",
) -> None:
    """Raise an error if a rule does not take a node and so many gradients."""
    if takes_arrays(rule):
        return  # it says itself what it takes
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
        owner = "output" if what == "gradient" else "input"
        method = "self, " if inspect.ismethod(rule) else ""
        taken = ", ".join(_parameters(signature, count, letter))
        written = f"def {name_of(rule)}({method}{taken})."
        if name_of(rule) == "<lambda>":
            written = f"lambda {taken}: ..."
        raise kind(
            f"{name}: {placed(rule)} takes {signature}, but {name} has"
            f" {counted(count, owner)}, so it gets the node and"
            f" {counted(count, what)}. Write {written}"
        ) from None
    _FITTING.setdefault(function, set()).add(count)


def _parameters(signature: inspect.Signature, count: int, letter: str) -> list[str]:
    """A node and so many gradients, by the user's own names as far as they go."""
    usual = ["node", *outputs(count).replace("g", letter).split(", ")]
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


def check_takes(gradient: Rule, count: int, name: str) -> None:
    """Raise an error if a gradient does not take so many cotangents."""
    if type(gradient) is FunctionType:
        code = gradient.__code__
        if code.co_argcount == count and not code.co_kwonlyargcount:
            return  # one is made in every call: no time for its signature
    try:
        signature = inspect.signature(gradient)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise UsageError(
            f"{name}: its gradient {placed(gradient)} takes {signature}, but {name} has"
            f" {counted(count, 'output')}. Write lambda {outputs(count)}: ..."
        ) from None


def called(rule: Rule) -> str:
    """The name of a rule: ``Cdist.vjp``, ``zero_out_grad``."""
    name = str(getattr(rule, "__qualname__", None) or name_of(rule))
    return name.rpartition("<locals>.")[2]


def placed(rule: Any) -> str:
    """A rule and where it stands, as an error quotes it."""
    code = getattr(getattr(rule, "__func__", rule), "__code__", None)
    return f"{called(rule)}{blame.at(source.decode(code, 0))}"


def counted(count: int, what: str) -> str:
    """``1 input``, ``2 inputs``."""
    return f"{count} {what if count == 1 else 'axes' if what == 'axis' else what + 's'}"


def named(letter: str, count: int) -> str:
    """``g0, g1``; of one, ``g``."""
    return letter if count == 1 else ", ".join(f"{letter}{i}" for i in range(count))
