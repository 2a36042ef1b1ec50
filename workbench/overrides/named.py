"""Rules by name: `named_rule`. The texts that mean them are read in `rule_parser.py`.

The rules that Workbench ships stand in `shipped/`, whose modules read texts. They
register themselves when they are first asked for (`hooks.load_rules`).
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from workbench.core import hooks
from workbench.core.blame import shorten
from workbench.errors import RegistrationError
from workbench.overrides.allowed_ops import find_function
from workbench.overrides.expression import parse
from workbench.overrides.targets import name_of

F = TypeVar("F", bound=Callable[..., Any])

#: The rules by their names.
RULES: dict[str, NamedRule] = {}

#: The largest number that a setting may be.
LARGEST = 1e300
#: Texts that are rules of their own, here or of `OpFromGraph`.
_WORDS = {"true", "zero", "disconnected"}
NAMES = re.compile(r"[gdyxt]|[xt]\d{1,2}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

Setting = float | int | bool | None


@dataclass(frozen=True, eq=False)
class NamedRule:
    """A rule that is registered under a name.

    Attributes
    ----------
    name
        The name.
    rule
        ``rule(node, *cotangents, **settings)``.
    jvp
        What it does in forward mode: a function, a text, or None, which transposes
        a linear rule.
    of
        The ops that it is made for; empty: any.
    home
        The module and qualified name of the function: the same again is a
        definition that runs again.
    settings
        Its settings and their defaults; one without a default must be given.
    more
        Whether it takes any other setting too.
    label
        A short text for the picture, from the settings.
    """

    name: str
    rule: Callable[..., Any]
    jvp: Callable[..., Any] | str | None
    of: tuple[str, ...]
    home: tuple[str, str]
    settings: Mapping[str, Any]
    more: bool = False
    label: Callable[..., str] | None = None


def named_rule(
    name: str,
    *,
    jvp: Callable[..., Any] | str | None = None,
    of: str | Collection[str] = (),
    label: Callable[..., str] | None = None,
) -> Callable[[F], F]:
    """Register a gradient rule under a name, for use in texts.

    ``wb.override("sqrt", "safe")`` then runs the rule that is called ``safe``, and so
    do ``OpFromGraph(vjp="safe")`` and the form of the page. The name is looked up when
    the rule runs. Such a text is data: a session can store it, and the rule must be
    registered where the session is opened.

    Parameters
    ----------
    name
        Letters, digits and underscores, at most 40; no name of the language of
        expressions, such as ``clip`` or ``d``.
    jvp
        The rule in forward mode: ``rule(node, *tangents, **settings)``, an expression
        of ``t``, or ``"true"``. By default the rule is transposed, if it is linear
        in the gradients that arrive.
    of
        The op, or the ops, that the rule is made for: at another one it is refused.
        By default it may stand anywhere.
    label
        A function of the settings that gives a short text for the picture.

    Returns
    -------
    A decorator of ``rule(node, *cotangents)``, which stays as it is. Parameters that
    are keywords only are its settings: ``"safe(eps=0.1)"``. Values are numbers, True,
    False and None.

    Raises
    ------
    RegistrationError
        If the name is taken: by the language, by an op, or by another rule. The same
        definition again, as when its cell runs twice, replaces the one before.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.named_rule("capped_root", of="sqrt")
    ... def capped_root(node, g, *, most=10.0):
    ...     (y,) = node.outputs
    ...     return g * np.minimum(0.5 / np.maximum(y, 1e-300), most)
    >>> f = lambda x: np.sum(np.sqrt(x))
    >>> x = np.array([0.0, 1.0])
    >>> wb.grad(f, overrides=[wb.override("sqrt", "capped_root")])(x)
    array([10. ,  0.5])
    >>> wb.grad(f, overrides=[wb.override("sqrt", "capped_root(most=3)")])(x)
    array([3. , 0.5])
    """
    if not isinstance(name, str):
        raise RegistrationError(
            f"named_rule takes a name, and got {name!r}. Write @wb.named_rule"
            '("my_rule") above the rule.'
        )
    _check_name(name)
    if isinstance(jvp, str) and jvp != "true":
        parse(jvp, "t")
    elif jvp is not None and not isinstance(jvp, str) and not callable(jvp):
        raise RegistrationError(
            f"named_rule({name!r}): jvp={jvp!r} is not a forward rule. Give a function"
            ' rule(node, *tangents), an expression of t, or "true".'
        )
    ops = (of,) if isinstance(of, str) else tuple(of)

    def register(rule: F) -> F:
        if not callable(rule):
            raise RegistrationError(
                f"named_rule({name!r}): {rule!r} is not a rule; decorate a function"
                " rule(node, g)."
            )
        settings, more = _settings(name, rule)
        entry = NamedRule(name, rule, jvp, ops, _home(rule), settings, more, label)
        old = find_named_rule(name)
        if old is not None and old.home != entry.home:
            raise RegistrationError(
                f"the rule {name!r} is registered already, by"
                f" {'.'.join(old.home)}. Give {'.'.join(entry.home)} another name."
            )
        RULES[name] = entry
        return rule

    return register


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name):
        raise RegistrationError(
            f"{shorten(name)!r} cannot be the name of a rule: a name is made of"
            " letters, digits and underscores, and has at most 40 of them."
        )
    meaning = ""
    if find_function(name) is not None:
        meaning = f"a function of the language of rules ({name}(d), for example)"
    elif NAMES.fullmatch(name):
        meaning = "a name of the language of rules"
    elif name in _WORDS:
        meaning = "a rule by itself"
    if meaning:
        raise RegistrationError(
            f"{name!r} cannot be the name of a rule: it is {meaning} already. Choose"
            f" another, such as {f'my_{name}'!r}."
        )


def _home(rule: Callable[..., Any]) -> tuple[str, str]:
    """Return where a rule was defined; a lambda by its line too."""
    name = str(getattr(rule, "__qualname__", None) or name_of(rule))
    if name.endswith("<lambda>"):
        name += f" of line {rule.__code__.co_firstlineno}"
    return str(getattr(rule, "__module__", "")), name


def _settings(name: str, rule: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """Return the settings of a rule by name, and whether others are accepted."""
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError):
        return {}, False
    settings = {}
    for p in parameters:
        if p.kind is not p.KEYWORD_ONLY:
            continue
        if p.default is not p.empty and not is_setting(p.default):
            raise RegistrationError(
                f"named_rule({name!r}): the setting {p.name} has the default"
                f" {p.default!r}. A setting is a finite number, True, False or None,"
                " since it stands in a text."
            )
        settings[p.name] = p.default
    return settings, any(p.kind is p.VAR_KEYWORD for p in parameters)


def unwrap_scalar(value: Any) -> Any:
    """Return the entry of an array of one as a Python number; other values as given."""
    return value.item() if getattr(value, "size", 0) == 1 else value


def is_setting(value: Any) -> bool:
    """Return whether a value may stand in a text."""
    if value is None or isinstance(value, bool):
        return True
    return type(value) in (int, float) and abs(value) <= LARGEST  # and not NaN


def find_named_rule(name: str) -> NamedRule | None:
    """Return the rule of this name; None if there is none."""
    found = RULES.get(name)
    if found is None:
        hooks.load_rules()
        found = RULES.get(name)
    return found
