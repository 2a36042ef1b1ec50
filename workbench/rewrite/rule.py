"""A rewrite rule: what stands in a program, and what computes the same in its place.

A rule is a pair of expressions in the same wildcards, or a function of a node. Both are
recorded for the shapes and dtypes at hand; the matcher is that of patterns
(`patterns.py`). The tables stand in `exact_rules.py` and `stable_rules.py`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from workbench.core import types
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.errors import RewriteError
from workbench.ops.define import RULE_NAMES
from workbench.rewrite.forms import (
    Form,
    Forms,
    make_spec,
    name_wildcards,
    own_inputs,
    skip_identities,
)
from workbench.rewrite.patterns import COMMUTATIVE, Exact, Search

#: The groups of rules, in the order in which their rules are tried at a node.
GROUPS = ("stabilise", "simplify")


#: What an operand is to a rule: the name of its op, a number, or None for neither.
Kind = str | complex | None


#: The ranks and kinds of numbers for which the structure of a left side is recorded.
KINDS = ((1, "f"), (2, "f"), (3, "f"), (0, "f"), (1, "b"), (1, "i"))


class Everything:
    """A set of serials that holds all: any node may be part of a match."""

    def __contains__(self, serial: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return sys.maxsize


class Replacement(NamedTuple):
    """What takes the place of a node: a function of some operands.

    Attributes
    ----------
    operands
        Values of the program, or constants.
    build
        A function of as many arrays, in plain NumPy.
    key
        What ``build`` depends on besides the rule and the specs of its operands.
    """

    operands: tuple[Any, ...]
    build: Callable[..., Any]
    key: Hashable = None


class Rule:
    """A named pair of expressions, or a function of a node, that compute the same.

    Attributes
    ----------
    name
        What users type to switch it off.
    group
        The table it is from, or ``"user"``.
    lhs, rhs
        Both sides as text.
    note
        How the result may differ; empty where it is the same to the last digit.
    site
        The file and the line where it is written.
    """

    def __init__(
        self, name: str, group: str, lhs: str, rhs: str, note: str, depth: int = 2
    ) -> None:
        self.name = name
        self.group = group
        self.lhs = lhs
        self.rhs = rhs
        self.note = note
        frame = sys._getframe(depth)
        self.site = (frame.f_code.co_filename, frame.f_lineno)

    @property
    def roots(self) -> set[str]:
        """The names of the ops at which it may hold."""
        raise NotImplementedError

    def may_hold(self, kinds: tuple[Kind, ...]) -> bool:
        """Return whether it may hold at a node whose operands are of these ops."""
        return True

    def propose(self, node: Tensor, matchers: dict[Rule, Any]) -> Replacement | None:
        """Return what may take the place of a node, or None.

        ``matchers`` holds what the rules know of the program of this run.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<rewrite rule {self.name!r}: {self.lhs} → {self.rhs}>"


Side = Callable[..., Any]
Condition = Callable[[Mapping[str, Any]], bool]


class PairRule(Rule):
    """A rule made of two functions of the same wildcards.

    Attributes
    ----------
    patterns
        The left side, as what the matcher takes; also in the form in which other rules
        leave it, where that is another one.
    """

    def __init__(
        self,
        name: str,
        left: Side,
        right: Side,
        *,
        when: Condition | None = None,
        group: str = "user",
        lhs: str = "",
        rhs: str = "",
        note: str = "",
        depth: int = 2,
    ) -> None:
        super().__init__(
            name,
            group,
            lhs or _source_of(left),
            rhs or _source_of(right),
            note,
            depth + 1,
        )
        self.left = left
        self.right = right
        self.when = when
        self.sides = [left]
        #: The kinds of numbers for which both sides do not compute the same.
        self.unfit: frozenset[str] = frozenset()

    @cached_property
    def patterns(self) -> list[tuple[Forms, list[Form]]]:
        """Each left side, with one form of each structure that it has."""
        made = []
        known: dict[Any, Form] = {}
        for side in self.sides:
            pattern = Forms(side, f"of the rewrite rule {self.name!r}")
            forms = []
            for kind in KINDS:
                form = pattern.record_form([make_spec(kind)] * len(pattern.names))
                if form is None or form.unread:
                    continue
                if known.setdefault(form.structure, form) is form:
                    forms.append(form)
            made.append((pattern, forms))
        return made

    @property
    def forms(self) -> list[Form]:
        """One form of each structure that the left sides have."""
        return [form for _, forms in self.patterns for form in forms]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the wildcards."""
        return self.patterns[0][0].names

    @cached_property
    def roots(self) -> set[str]:
        """The names of the ops at which it may hold."""
        return {form.root.op.name for form in self.forms}

    def may_hold(self, kinds: tuple[Kind, ...]) -> bool:
        """Return whether it may hold at a node whose operands are of these ops."""
        return any(_fits_kinds(form, kinds) for form in self.forms)

    def propose(self, node: Tensor, matchers: dict[Rule, Any]) -> Replacement | None:
        """Return what may take the place of a node, or None."""
        known = matchers.get(self)
        if known is None:
            allowed = Everything()
            known = matchers[self] = [
                (
                    [
                        Search(form, allowed, pattern.text, exact=False)
                        for form in forms
                    ],
                    Exact(pattern, allowed),
                )
                for pattern, forms in self.patterns
            ]
        for searches, exact in known:
            last = exact.match_last(node)  # most matches are of the shapes of the last
            if last is not None and self.holds(last.bound):
                return Replacement(last.bound, self.right)
            for search in searches:
                root = search.form.root
                if root.op.name != node.op.name or not search.fits(root, node):
                    continue
                for binding in search.bindings(node):
                    bound = tuple([binding[x.serial] for x in search.form.leaves])
                    if exact.match(node, bound) is not None and self.holds(bound):
                        return Replacement(bound, self.right)
        return None

    def holds(self, bound: Sequence[Any]) -> bool:
        """Return whether the condition holds for what the wildcards stand for."""
        if self.unfit and any(types.spec_of(x).dtype.kind in self.unfit for x in bound):
            return False
        if self.when is None:
            return True
        try:
            return bool(self.when(name_wildcards(self.names, bound)))
        except Exception as error:
            raise RewriteError(
                f"the condition (when=) of the rewrite rule {self.name!r} fails:"
                f" {type(error).__name__}: {error}. It gets what the parameters stand"
                " for by their names, of which in a program the shape and the dtype are"
                " known and most values are not, and returns True or False."
            ) from error


class NodeRule(Rule):
    """A rule that is a function of a node, which returns its replacement or None."""

    def __init__(
        self,
        name: str,
        ops: str,
        function: Callable[[Tensor], Replacement | None],
        *,
        group: str,
        lhs: str,
        rhs: str,
        note: str,
    ) -> None:
        super().__init__(name, group, lhs, rhs, note)
        self.function = function
        self._roots = set(ops.split())
        code = function.__code__
        self.site = (code.co_filename, code.co_firstlineno)

    @property
    def roots(self) -> set[str]:
        """The names of the ops at which it may hold."""
        return self._roots

    def propose(self, node: Tensor, matchers: dict[Rule, Any]) -> Replacement | None:
        """Return what may take the place of a node, or None."""
        return self.function(node)


#: Every rule of the tables by its name, in the order of the tables.
RULES: dict[str, Rule] = {}


def rule(
    name: str,
    lhs: str,
    rhs: str,
    *,
    group: str,
    when: Condition | None = None,
    note: str = "",
) -> None:
    """Add a row to a table of rules: two expressions in the same wildcards.

    The wildcards are the names that the left side has and NumPy has not.
    """
    names = [x for x in _names_in(lhs) if x not in RULE_NAMES and not hasattr(np, x)]
    head = f"lambda {', '.join(names)}: "
    scope = dict(RULE_NAMES)
    for used in (*_names_in(lhs), *_names_in(rhs)):
        if used not in names and used not in scope:
            scope[used] = getattr(np, used)
    made = PairRule(
        name, eval(head + lhs, scope), eval(head + rhs, scope),
        when=when, group=group, lhs=lhs, rhs=rhs, note=note,
    )  # fmt: skip
    if name in RULES:
        raise RewriteError(f"there are two rewrite rules called {name!r}.")
    RULES[name] = made


def node_rule(
    name: str, ops: str, lhs: str, rhs: str, *, group: str, note: str = ""
) -> Callable[[Callable[[Tensor], Replacement | None]], NodeRule]:
    """Add the decorated function to a table of rules."""

    def register(function: Callable[[Tensor], Replacement | None]) -> NodeRule:
        if name in RULES:
            raise RewriteError(f"there are two rewrite rules called {name!r}.")
        made = NodeRule(name, ops, function, group=group, lhs=lhs, rhs=rhs, note=note)
        RULES[name] = made
        return made

    return register


def _names_in(code: str) -> list[str]:
    """Return the names in an expression, in the order in which they come first."""
    names = compile(code, "<rule>", "eval").co_names
    return list(dict.fromkeys(names))


def _source_of(side: Side) -> str:
    """Return a side of a user's rule as text: a lambda's own expression, or a name."""
    name: str = getattr(side, "__name__", repr(side))
    code = getattr(side, "__code__", None)
    try:
        text = inspect.getsource(side)
    except (OSError, TypeError):
        return name
    if name != "<lambda>" or code is None:
        return name
    place = min(
        (line - code.co_firstlineno, column)
        for line, end, column, last in code.co_positions()
        if line is not None and column is not None and (line, column) != (end, last)
    )
    for start in range(len(text)):
        if not text.startswith("lambda", start):
            continue
        for end in range(len(text), start, -1):
            try:
                tree = ast.parse(text[start:end], mode="eval").body
            except SyntaxError:
                continue
            if isinstance(tree, ast.Lambda):
                above = text.count("\n", 0, start)
                column = tree.body.col_offset
                if tree.body.lineno == 1:
                    column += start - (text.rfind("\n", 0, start) + 1)
                if (above + tree.body.lineno - 1, column) == place:
                    return ast.unparse(tree.body)
                break
    return name


def operand_kinds(node: Tensor) -> tuple[Kind, ...]:
    """Return what the operands of a node are to a rule, and last if two are one.

    The rules that hold at a node are looked up by this, so that most are never tried.
    """
    kinds: list[Kind] = []
    inputs = [skip_identities(x) for x in node.inputs]
    for x in inputs:
        if isinstance(x, Tensor):
            kinds.append(x.op.name)
        else:
            kinds.append(_number_of(x))
    same = len(inputs) > 1 and inputs[-1] is inputs[-2]
    return (*kinds, "same" if same else "other")


def _number_of(x: Any) -> complex | None:
    if type(x) in types.WEAK_TYPES or (
        isinstance(x, (np.number, np.ndarray)) and x.shape == () and x.dtype != object
    ):
        return complex(x)
    return None


def _fits_kinds(form: Form, kinds: Sequence[Kind]) -> bool:
    """Return whether the operands of a form's last op may be of these kinds."""
    wild = {x.serial for x in form.leaves}
    inputs = own_inputs(form.root)
    if len(inputs) != len(kinds) - 1:
        return False
    if len(inputs) > 1 and inputs[-1] is inputs[-2] and kinds[-1] == "other":
        return False
    orders = [tuple(zip(inputs, kinds, strict=False))]
    if form.root.op.name in COMMUTATIVE:
        orders.append(tuple(zip(inputs[::-1], kinds, strict=False)))
    return any(all(_fits_kind(x, kind, wild) for x, kind in order) for order in orders)


def _fits_kind(x: Any, kind: Kind, wild: Collection[int]) -> bool:
    """Return whether an operand of a pattern may be of a kind."""
    if not isinstance(x, Tensor):
        return _number_of(x) == kind
    return x.serial in wild or x.op.name == kind


def record_replacement(
    rule: Rule,
    found: Replacement,
    specs: Sequence[Any],
    cache: dict[Any, Graph | None],
) -> Graph | None:
    """Return a replacement as a program of its operands; None where it cannot be.

    It is recorded once for the same shapes and dtypes, where all lengths are known.
    """
    known = all(
        isinstance(s, types.Spec) and all(isinstance(n, int) for n in s.shape)
        for s in specs
    )
    key = (rule, found.key, *[(s.shape, s.dtype, s.weak) for s in specs])
    if known and key in cache:
        return cache[key]
    try:
        with np.errstate(all="ignore"):
            made = record(
                lambda leaves: found.build(*leaves),
                specs,
                [f"x{i}" for i in range(len(specs))],
            )
    except (RewriteError, ArithmeticError, TypeError, ValueError, IndexError):
        return None
    except Exception as error:
        raise RewriteError(
            f"the right side of the rewrite rule {rule.name!r} fails in a program:"
            f" {type(error).__name__}: {error}. There it gets Tensors: write it in"
            " NumPy, as any function that is traced."
        ) from error
    if known:
        cache[key] = made
    return made
