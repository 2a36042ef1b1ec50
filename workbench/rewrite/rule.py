"""A rewrite rule: a pattern in a program, and code that computes the same instead.

A rule is a pair of expressions in the same wildcards, or a function of a node. Both are
recorded for the shapes and dtypes at hand; the matcher is that of patterns
(`patterns.py`). The tables stand in `exact_rules.py` and `stable_rules.py`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Hashable,
    Mapping,
    Sequence,
)
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from workbench.core import types
from workbench.core.graph import Graph
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.trace import record
from workbench.errors import RewriteError
from workbench.ops.define import RULE_NAMES
from workbench.rewrite.forms import (
    Forms,
    PatternForm,
    is_alike,
    is_same_value,
    make_spec,
    name_wildcards,
    number_of,
    read_operands,
)
from workbench.rewrite.patterns import Description, Matcher

#: The groups of rules, in the order in which their rules are tried at a node.
GROUPS = ("stabilise", "simplify", "contract")
#: Those whose rules are matched in one spelling. Rules of the others turn one spelling
#: into another, and those of users mean what they write.
CANONICAL = ("stabilise", "advice")


#: The ranks and kinds of numbers for which the structure of a left side is recorded.
KINDS = ((1, "f"), (2, "f"), (3, "f"), (0, "f"), (1, "b"), (1, "i"))


class Replacement(NamedTuple):
    """The replacement of a node: a function of some operands.

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


class Uses:
    """Which ops read each value of a program, by their names."""

    def __init__(self, program: Graph) -> None:
        self.written: dict[int, list[str]] = defaultdict(list)
        self.nodes: dict[int, list[Tensor]] = defaultdict(list)
        for node in program.interior:
            if node.op is not IDENTITY:
                for x in node.inputs:
                    if isinstance(x, Tensor):
                        self.written[x.serial].append(node.op.name)
                        self.nodes[x.serial].append(node)
        for y in program.outputs:
            if isinstance(y, Tensor):
                self.written[y.serial].append("output")
        self.readers: dict[int, list[str]] = defaultdict(list)
        #: What reads the node of the program that is being rewritten.
        self.at_place: list[str] = []
        self.nodes_at_place: list[Tensor] = []
        #: That node.
        self.place: Tensor | None = None
        #: How many nodes are of an op, by its name.
        self.counts = Counter(node.op.name for node in program.interior)
        #: What rules keep in mind in this run.
        self.notes: dict[Any, Any] = {}
        #: Whether a chain of matrices there has been put in order.
        self.is_ordered = False

    def start(self, node: Tensor) -> None:
        """Tell which node of the program is about to be rewritten."""
        self.place = node
        self.at_place = self.written.get(node.serial, [])
        self.nodes_at_place = self.nodes.get(node.serial, [])
        self.is_ordered = False

    def settle(self, before: Tensor, after: Any) -> None:
        """Give the readers of a node of the program to its replacement."""
        if isinstance(after, Tensor):
            self.readers[after.serial] += self.written.get(before.serial, ())

    def find_readers(self, x: Tensor) -> list[str]:
        """Return the ops that read a value; none of one that a rule has just made."""
        return self.readers.get(x.serial, [])


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
        #: The module of the table, which is loaded where the rule is read.
        self.home = ""

    def __reduce__(self) -> Any:
        """Pickle a rule of a table by its name, a user's with its functions."""
        if RULES.get(self.name) is self:
            return find_rule, (self.name, self.home)
        kept = {
            key: value
            for key, value in self.__dict__.items()
            if not isinstance(getattr(type(self), key, None), cached_property)
        }
        return object.__new__, (type(self),), kept

    @property
    def roots(self) -> set[str]:
        """The names of the ops that the rule may hold at."""
        raise NotImplementedError

    @property
    def numbers(self) -> set[complex]:
        """The numbers that tell where the rule may hold."""
        return set()

    def may_hold(self, node: Description) -> bool:
        """Return whether the rule may hold at a node with this description."""
        return True

    def propose(self, node: Tensor, matchers: dict[Any, Any]) -> Replacement | None:
        """Return a replacement for a node, or None.

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
    sides
        The left side; also in the form in which other rules leave it, where that is
        another one.
    scalars
        The wildcards that stand for Python's and NumPy's numbers alone.
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
        scalars: str = "",
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
        self.scalars = scalars.split()
        #: Whether it holds for values above 0 only.
        self.positive = False
        #: The kinds of numbers for which both sides do not compute the same.
        self.unfit: frozenset[str] = frozenset()

    @cached_property
    def patterns(self) -> list[tuple[Forms, list[PatternForm]]]:
        """Each left side, with one form per structure.

        Those of a table are trusted, and elementwise ops are the same for all ranks and
        numbers: with 50 rules the first program would wait for what is recorded.
        """
        made = []
        known: dict[Any, PatternForm] = {}
        is_trusted = self.is_trusted
        text = f"the left side of the rewrite rule {self.name!r}"
        for side in self.sides:
            pattern = Forms(side, text, ()) if is_trusted else Forms(side, text)
            forms = []
            for kind in KINDS:
                form = pattern.record_form([make_spec(kind)] * len(pattern.names))
                if form is None or form.unread:
                    continue
                if known.setdefault(form.structure, form) is form:
                    forms.append(form)
                if is_trusted and all(x.op.elementwise for x in form.nodes):
                    break
            made.append((pattern, forms))
        return made

    @property
    def is_trusted(self) -> bool:
        """True of a rule of a table: settings and constants depend on no shapes."""
        return self.group != "user"

    @cached_property
    def matchers(self) -> list[tuple[Forms, list[Matcher]]]:
        """The matchers that lay the forms of each left side over a node."""
        return [
            (
                pattern,
                [
                    Matcher(
                        form,
                        pattern.text,
                        settings=self.is_trusted,
                        constants=self.is_trusted,
                        is_canonical=self.group in CANONICAL,
                        is_same=is_alike if self.group in CANONICAL else is_same_value,
                        scalars=self.scalars,
                    )
                    for form in forms
                ],
            )
            for pattern, forms in self.patterns
        ]

    def list_matchers(self) -> list[Matcher]:
        """Return those of all left sides."""
        return [matcher for _, known in self.matchers for matcher in known]

    @property
    def forms(self) -> list[PatternForm]:
        """One form of each structure that the left sides have."""
        return [form for _, forms in self.patterns for form in forms]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the wildcards."""
        return self.patterns[0][0].names

    @cached_property
    def roots(self) -> set[str]:
        """The names of the ops that the rule may hold at."""
        return {name for m in self.list_matchers() for name in m.roots}

    @cached_property
    def numbers(self) -> set[complex]:
        """The numbers that tell where the rule may hold."""
        parts = [part for m in self.list_matchers() for part in m.parts.values()]
        found = {number_of(x) for _, operands, _ in parts for x in operands}
        return {x for x in found if x is not None}

    def may_hold(self, node: Description) -> bool:
        """Return whether the rule may hold at a node with this description."""
        return any(m.may_start(node) for m in self.list_matchers())

    def propose(self, node: Tensor, matchers: dict[Any, Any]) -> Replacement | None:
        """Return a replacement for a node, or None."""
        for pattern, known in self.matchers:
            for matcher in known:
                for binding in matcher.lay(node):
                    bound = matcher.list_bound(binding)
                    if not self.is_trusted:
                        exact = pattern.form_at(bound)
                        if exact is None or not matcher.has_details(binding, exact):
                            continue
                    if self.holds(bound):
                        return Replacement(bound, self.right)
        return None

    def holds(self, bound: Sequence[Any]) -> bool:
        """Return whether the condition holds for the values of the wildcards."""
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


#: The names by which both sides of a rule give the settings of its reductions: all of
#: them, those without ``keepdims``, and those with ``keepdims=True``.
SETTINGS = ("axes", "axis", "kept")
#: The settings that a reduction may have there.
AXES = {"axis", "keepdims", "ddof", "correction"}
#: A reduction is looked for so many operands below a node.
DEPTH = 3


def name_settings(axes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of a reduction by the names that rules have for them."""
    axis = {key: x for key, x in axes.items() if key != "keepdims"}
    return {"axes": dict(axes), "axis": axis, "kept": {**axis, "keepdims": True}}


class ReductionRule(PairRule):
    """A pair of expressions with reductions over the same axes, any ones.

    Both sides, and the condition, get these by the names in `SETTINGS`.
    """

    @cached_property
    def reductions(self) -> set[str]:
        """The names of the left side's reductions."""
        along = self.fix_axes({"axis": -1})
        return {x.op.name for form in along.forms for x in form.nodes
                if "axis" in x.params}  # fmt: skip

    def fix_axes(self, axes: Mapping[str, Any]) -> PairRule:
        """Return the rule for reductions over some axes."""
        given = name_settings(axes)

        def holds(bound: Mapping[str, Any]) -> bool:
            return self.when is None or self.when({**bound, **given})

        made = PairRule(
            self.name, partial(self.left, **given), partial(self.right, **given),
            when=holds, group=self.group, lhs=self.lhs, rhs=self.rhs,
        )  # fmt: skip
        made.sides = [partial(side, **given) for side in self.sides]
        return made

    def propose(self, node: Tensor, matchers: dict[Any, Any]) -> Replacement | None:
        """Return a replacement for a node, or None."""
        for axes in self._find_axes(node):
            key = tuple(axes.items())
            made = matchers.get((self, key))
            if made is None:
                made = matchers[self, key] = self.fix_axes(axes)
            found = made.propose(node, matchers)
            if found is not None:
                return found._replace(key=key)
        return None

    def _find_axes(self, node: Tensor) -> list[dict[str, Any]]:
        """Return the settings of the reductions near a node, each once."""
        found: list[dict[str, Any]] = []
        level: list[Any] = [node]
        for _ in range(DEPTH):
            for x in level:
                if x.op.name in self.reductions and x.params.keys() <= AXES:
                    if x.settings not in found:
                        found.append(x.settings)
            level = [
                y for x in level for y in read_operands(x) if isinstance(y, Tensor)
            ]
        return found


class NodeRule(Rule):
    """A rule that is a function of a node, which returns its replacement or None.

    With ``uses`` the function takes the `Uses` of the program's values too.
    """

    def __init__(
        self,
        name: str,
        ops: str,
        function: Callable[..., Replacement | None],
        *,
        group: str,
        lhs: str,
        rhs: str,
        note: str,
        uses: bool = False,
        reads: str = "",
    ) -> None:
        super().__init__(name, group, lhs, rhs, note)
        self.function = function
        self.uses = uses
        self.reads = set(reads.split())
        self._roots = set(ops.split())
        code = function.__code__
        self.site = (code.co_filename, code.co_firstlineno)

    @property
    def roots(self) -> set[str]:
        """The names of the ops that the rule may hold at."""
        return self._roots

    def may_hold(self, node: Description) -> bool:
        """Return whether the rule may hold at a node with this description."""
        return not self.reads or any(
            isinstance(kind, str) and kind in self.reads for kind in node[0][1:]
        )

    def propose(self, node: Tensor, matchers: dict[Any, Any]) -> Replacement | None:
        """Return a replacement for a node, or None."""
        if self.uses:
            return self.function(node, matchers[Uses])
        return self.function(node)


#: Every rule of the tables by its name, in the order of the tables.
RULES: dict[str, Rule] = {}


def find_rule(name: str, home: str) -> Rule:
    """Return the rule of a table by its name; ``home`` is the module of the table."""
    import_module(home)
    return RULES[name]


#: What the expressions of rules may call besides `numpy`'s functions.
FUNCTIONS: dict[str, Any] = dict(RULE_NAMES)


def rule(
    name: str,
    lhs: str,
    rhs: str,
    *,
    group: str,
    when: Condition | None = None,
    note: str = "",
    scalars: str = "",
    positive: bool = False,
) -> None:
    """Add a row to a table of rules: two expressions in the same wildcards.

    The wildcards are the names that the left side has and NumPy has not. Those in
    ``scalars`` stand for numbers alone, and those of `SETTINGS`, as in ``**axes``, for
    the settings of the reductions.
    """
    scope = {key: dict(x) for key, x in name_settings({}).items()} | FUNCTIONS
    used = [*_names_in(lhs), *_names_in(rhs)]
    names = [x for x in _names_in(lhs) if x not in scope and not hasattr(np, x)]
    scope |= {x: getattr(np, x) for x in used if x not in names and x not in scope}
    reduces = [x for x in used if x in SETTINGS]
    settings = ", *, axes=axes, axis=axis, kept=kept" if reduces else ""
    head = f"lambda {', '.join(names)}{settings}: "
    made = (ReductionRule if reduces else PairRule)(
        name, eval(head + lhs, scope), eval(head + rhs, scope),
        when=when, group=group, lhs=lhs, rhs=rhs, note=note, scalars=scalars,
    )  # fmt: skip
    made.positive = positive
    made.home = str(sys._getframe(1).f_globals["__name__"])
    if name in RULES:
        raise RewriteError(f"there are two rewrite rules called {name!r}.")
    RULES[name] = made


def node_rule(
    name: str,
    ops: str,
    lhs: str,
    rhs: str,
    *,
    group: str,
    note: str = "",
    uses: bool = False,
    reads: str = "",
) -> Callable[[Callable[..., Replacement | None]], NodeRule]:
    """Add the decorated function to a table of rules.

    It is asked at nodes of ``ops``; with ``reads`` only where an operand is the result
    of one of these ops.
    """

    def register(function: Callable[..., Replacement | None]) -> NodeRule:
        if name in RULES:
            raise RewriteError(f"there are two rewrite rules called {name!r}.")
        made = NodeRule(
            name, ops, function, group=group, lhs=lhs, rhs=rhs, note=note, uses=uses,
            reads=reads,
        )  # fmt: skip
        made.home = function.__module__
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


def record_replacement(
    rule: Rule,
    found: Replacement,
    specs: Sequence[Any],
    cache: dict[Any, Graph | None],
) -> Graph | None:
    """Return a replacement as a program of its operands; None where impossible.

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
