"""Rules from their texts: expressions, and registered rules by their names.

Wherever a rule is given as a text, the text is an expression (`expression.py`) or the
name of a registered rule (`named.py`), alone, ``"safe_sqrt"``, or with settings,
``"safe_sqrt(eps=1e-6)"``. Settings are keywords whose values are finite numbers, True,
False or None. A text is read by `ast.parse`, which runs nothing; it is data, so it can
be stored and edited, and what a stranger wrote can be read.

In grammar::

    text     = rule | name ["(" [setting {"," setting}] ")"]
    setting  = name "=" (["+" | "-"] number | "True" | "False" | "None")
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from workbench.core import blame, hooks
from workbench.core.formatting import spell_number
from workbench.core.tensor import Tensor
from workbench.errors import ExpressionError, OverrideError
from workbench.overrides.allowed_ops import find_function, list_functions
from workbench.overrides.expression import (
    CHARACTERS,
    MOST_CHARACTERS,
    Expression,
    parse,
    quote,
)
from workbench.overrides.named import (
    NAMES,
    RULES,
    NamedRule,
    Setting,
    find_named_rule,
    is_setting,
    unwrap_scalar,
)
from workbench.overrides.node import Node
from workbench.overrides.targets import name_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*(\(.*\))?[ \t]*", re.DOTALL)


class BoundRule:
    """A registered rule with its settings, named in a text.

    It runs as a function of a node, whatever is registered under the name then.
    """

    def __init__(self, text: str, name: str, settings: Mapping[str, Setting]) -> None:
        self.text = text
        self.name = name
        self.settings = dict(settings)
        self.__name__ = " ".join(text.split())

    @property
    def entry(self) -> NamedRule:
        """The rule that is registered under the name now."""
        found = find_named_rule(self.name)
        if found is None:
            raise ExpressionError(_unknown_name(self.text, self.name))
        return found

    @property
    def label(self) -> str:
        """A short text for the rule."""
        entry = self.entry
        if entry.label is not None:
            return entry.label(**{**entry.settings, **self.settings})
        given = ", ".join(f"{k}={v:g}" if type(v) is float else f"{k}={v}"
                          for k, v in self.settings.items())  # fmt: skip
        words = self.name.replace("_", " ")
        return f"{words} {given}" if given else words

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters of the rule: a node and what arrives."""
        whole = inspect.signature(self.entry.rule)
        kept = [
            p
            for p in whole.parameters.values()
            if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
        ]
        return whole.replace(parameters=kept)

    def __call__(self, node: Node, *cotangents: Any) -> Any:
        """Return the gradients of a node."""
        return self.entry.rule(node, *cotangents, **self.settings)

    def forward_rule(self) -> Any:
        """Return its rule of forward mode, parsed; None: to transpose the rule."""
        jvp = self.entry.jvp
        if jvp is None or jvp == "true":
            return jvp
        return parse(jvp, "t") if isinstance(jvp, str) else BoundForwardRule(self)

    def check(self, node: Tensor) -> None:
        """Raise an error if the rule is not made for the op of a node."""
        of = self.entry.of
        if of and node.op.name not in of:
            others = sorted(r.name for r in RULES.values() if node.op.name in r.of)
            instead = f" For {node.op.name} there is {' or '.join(others)}."
            raise OverrideError(
                f"the rule {self.name} is made for {' and '.join(of)}, and it would run"
                f" on {blame.describe(node)}{blame.quote_site(node.site)}. Choose a"
                f" target that means {of[0]} alone.{instead if others else ''}"
            )

    def __repr__(self) -> str:
        return f"BoundRule({self.text!r})"


class BoundForwardRule:
    """The forward rule of a named rule, with its settings."""

    def __init__(self, bound: BoundRule) -> None:
        self.bound = bound
        self.__name__ = bound.__name__

    def __call__(self, node: Node, *tangents: Any) -> Any:
        """Return the tangent of a node."""
        jvp: Any = self.bound.entry.jvp
        return jvp(node, *tangents, **self.bound.settings)


def parse_rule(text: str, arriving: str = "g") -> Expression | BoundRule:
    """Return a rule from its text: an expression, or a rule by its name.

    Parameters
    ----------
    text
        The text.
    arriving
        The name of what arrives: ``"g"`` for a vjp, ``"t"`` for a jvp.

    Raises
    ------
    ExpressionError
        If it is neither; with what was close.

    Examples
    --------
    >>> parse_rule("safe_sqrt(eps=1e-3)").settings
    {'eps': 0.001}
    >>> parse_rule("0.5 * d")
    Expression('0.5 * d')
    """
    short = isinstance(text, str) and len(text) <= MOST_CHARACTERS
    match = _CALL.fullmatch(text) if short else None
    name = match[1] if match is not None else ""
    by_name = bool(name) and not (
        find_function(name) or NAMES.fullmatch(name) or keyword.iskeyword(name)
    )
    if by_name and (entry := find_named_rule(name)) is not None:
        return _bind_settings(text, entry)
    try:
        return parse(text, arriving)
    except ExpressionError as error:
        message = str(error)
    inside = [w for w in _WORD.findall(text) if w in RULES] if short else []
    if inside:
        message += (
            f" {inside[0]} is a rule by its name, which stands alone:"
            f' "{inside[0]}", or with settings.'
        )
    elif by_name:
        hooks.load_rules()
        close = blame.find_similar(name, [*list_functions(), *RULES], 1, 0.6)
        if close and close[0] in RULES:
            message = _unknown_name(text, name)
        else:
            message += f" {_LISTED}"
    raise ExpressionError(message)


#: Where to look for what there is, which is too much for an error.
_LISTED = "help(wb.rules) lists the rules that have names."


def _unknown_name(text: str, name: str) -> str:
    hint = blame.suggest(name, [*RULES, *list_functions()])
    called = repr(blame.shorten(name, 40))
    return (
        f"{quote(text)}: no rule is called {called}.{hint} {_LISTED}"
        f" Register yours with @wb.named_rule({called}), or write an expression of"
        " g, d, x and y."
    )


@lru_cache(maxsize=256)
def _bind_settings(text: str, entry: NamedRule) -> BoundRule:
    """Return a registered rule with the settings that stand in a text."""

    def refuse(why: str) -> ExpressionError:
        known = ", ".join(
            k if v is inspect.Parameter.empty else f"{k}={v}"
            for k, v in entry.settings.items()
        )
        takes = f"takes {known}" if known else "takes no settings"
        return ExpressionError(
            f"{quote(text)}: {why}. The rule {entry.name} {takes}; a setting is"
            " written eps=1e-6, with a number, True, False or None."
        )

    strange = CHARACTERS.match(text).end()  # type: ignore[union-attr]
    if strange < len(text):
        raise refuse(f"{text[strange]!r} has no meaning")
    try:
        with warnings.catch_warnings():  # Python warns of things like "1if"
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        raise refuse("this cannot be read") from None
    keywords: list[ast.keyword] = []
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        if tree.args:
            raise refuse("settings have names")
        keywords = tree.keywords
    elif not isinstance(tree, ast.Name):
        raise refuse("a rule by its name stands alone")
    settings: dict[str, Setting] = {}
    for one in keywords:
        if one.arg is None:
            raise refuse("** has no meaning here")
        if one.arg not in entry.settings and not entry.more:
            close = blame.find_similar(one.arg, entry.settings, 1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise refuse(f"there is no setting {one.arg[:40]}{meant}")
        if one.arg in settings:
            raise refuse(f"the setting {one.arg} stands there twice")
        settings[one.arg] = _read_setting(one.value, one.arg, refuse)
    missing = [
        k
        for k, v in entry.settings.items()
        if v is inspect.Parameter.empty and k not in settings
    ]
    if missing:
        raise refuse(f"the setting {missing[0]} is missing")
    return BoundRule(text, entry.name, settings)


def _read_setting(
    node: ast.expr, name: str, refuse: Callable[[str], ExpressionError]
) -> Setting:
    """Return the value of a setting."""
    what = f"the value of {blame.shorten(name, 40)}"
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        node = node.operand
        number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if not number:
            raise refuse(f"{what} is not a number")
    if not isinstance(node, ast.Constant) or not is_setting(node.value):
        raise refuse(f"{what} is not a finite number, True, False or None")
    value: Any = node.value
    if value is None or isinstance(value, bool):
        return value
    return sign * value  # type: ignore[no-any-return]


def write_rule(name: str, **settings: Any) -> str:
    """Return the text of a registered rule; settings at their defaults are left out.

    Raises
    ------
    OverrideError
        If a setting is not a finite number, True, False or None.

    Examples
    --------
    >>> write_rule("safe_sqrt", eps=1e-3), write_rule("safe_sqrt", eps=1e-6)
    ('safe_sqrt(eps=0.001)', 'safe_sqrt')
    """
    entry = find_named_rule(name)
    assert entry is not None, name
    arguments = []
    for key, value in settings.items():
        value = unwrap_scalar(value)
        if not is_setting(value):
            raise OverrideError(
                f"{name}: {key}={value!r} is not a setting: give a finite number, True,"
                " False or None."
            )
        default = entry.settings.get(key, inspect.Parameter.empty)
        if type(value) is not type(default) or value != default:
            arguments.append(f"{key}={value!r}")
    return f"{name}({', '.join(arguments)})" if arguments else name


# Short texts for gradient rules, for the picture and the lists of overrides.

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"

#: Labels of expressions; those that the functions of `workbench.rules` write too.
_LABELS: list[tuple[str, Callable[..., str]]] = [
    ("true|d", lambda: "true"),
    (
        rf"clip\(d,{_NUMBER},{_NUMBER}\)",
        lambda low, high: (
            f"clip ±{spell_number(abs(float(high)))}"
            if float(low) == -float(high)
            else f"clip {spell_number(float(low))} … {spell_number(float(high))}"
        ),
    ),
    (rf"{_NUMBER}\*d", lambda factor: f"scale ×{spell_number(float(factor))}"),
    (r"zeros_like\(d\)", lambda: "stop"),
    ("-d", lambda: "reverse"),
    (rf"-\({_NUMBER}\*d\)", lambda factor: f"reverse ×{spell_number(float(factor))}"),
    ("g", lambda: "straight-through"),
    (
        rf"where\(abs\(x\)<={_NUMBER},g,0\)",
        lambda limit: f"straight-through ±{spell_number(float(limit))}",
    ),
    (r"where\(isfinite\(d\),d,0\)", lambda: "sanitise"),
    (
        rf"d\*\({_NUMBER}/maximum\({_NUMBER},norm\(d[^()]*(?:\([^()]*\))?[^()]*\)\)\)",
        lambda limit, _: f"norm ≤ {spell_number(float(limit))}",
    ),
    (r"d/where\(norm\((.*)\)==0,1,norm\(\1\)\)", lambda _: "normalise"),
]


def label_of(rule: str | Callable[..., Any]) -> str:
    """Return a short text for a rule.

    >>> label_of("clip(d, -0.1, 0.1)"), label_of("0.5 * d"), label_of("g")
    ('clip ±0.1', 'scale ×0.5', 'straight-through')
    """
    if not isinstance(rule, str):
        return str(getattr(rule, "label", None) or name_of(rule))
    if (known := _formula_label(rule)) is not None:
        return known
    try:
        named = parse_rule(rule)
    except ExpressionError:  # it is that of a forward rule, or of one unregistered
        named = None
    text = named.label if isinstance(named, BoundRule) else " ".join(rule.split())
    return blame.shorten(text, 28)


@lru_cache(maxsize=256)
def _formula_label(rule: str) -> str | None:
    packed = "".join(rule.split())
    for pattern, label in _LABELS:
        if (match := re.fullmatch(pattern, packed)) is not None:
            return label(*match.groups())
    return None
