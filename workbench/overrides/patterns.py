"""`pattern`: a structure as the target of an override, at any place."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import index
from typing import Any

import numpy as np

from workbench.core import blame, types
from workbench.core.op import Op
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import OverrideError
from workbench.overrides.regions import Region, RegionLayout, Sources
from workbench.overrides.targets import UNSEEN, ByPart, Nodes, WriteFunction
from workbench.rewrite.forms import Forms, PatternForm, is_same_value
from workbench.rewrite.patterns import Match, Matches, find_matches, fit_ranks

# What a function is called where it is shown: a lambda by its source.


def describe_function(function: Any) -> str:
    """Return the name of a function, or the parameters of a lambda.

    >>> describe_function(abs), describe_function(eval("lambda x, y: x"))
    ('abs', 'of x, y')
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    if name != "<lambda>":
        return str(name)
    try:
        return f"of {', '.join(inspect.signature(function).parameters)}"
    except (TypeError, ValueError):
        return "lambda"


def write_function(function: object) -> str:
    """Return the source of a lambda, or the name of another function."""
    found = lambda_source(function)
    return describe_function(function) if found is None else found


def lambda_source(function: object) -> str | None:
    """Return the source of a lambda; None for another function, or if not found."""
    node = find_lambda(function)
    return None if node is None else ast.unparse(node)


def lambda_body(function: object) -> str | None:
    """Return the source of a lambda's body; None for another function."""
    node = find_lambda(function)
    return None if node is None else ast.unparse(node.body)


def find_lambda(function: object) -> ast.Lambda | None:
    """Return the syntax tree of a lambda, found by its position in its file."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return None
    source = "".join(linecache.getlines(code.co_filename))
    if not source:
        return None
    ran = set(code.co_positions())
    found = [
        node
        for node in list_lambdas(source)
        if position_of(node.body) in ran
        and node.lineno <= code.co_firstlineno <= position_of(node.body)[1]
    ]
    # Of lambdas in lambdas the outer one runs the whole of its own body alone.
    return max(found, key=lambda node: len(ast.unparse(node)), default=None)


@lru_cache(maxsize=8)
def list_lambdas(source: str) -> list[ast.Lambda]:
    """Return all lambdas of a file, or of a cell."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def position_of(node: ast.expr) -> tuple[int, int, int, int]:
    """Return the position of an expression, in the form of `co_positions`."""
    end, last = node.end_lineno, node.end_col_offset
    assert end is not None
    assert last is not None
    return node.lineno, end, node.col_offset, last


# The target

Condition = Callable[[Mapping[str, Any]], Any]


def _list_families(op: Op) -> set[str]:
    """Return the families of an op, each with several spellings.

    Where a program has another of them, that is said.
    """
    traits, symbol = op.traits, op.traits.symbol
    kinds = {point.kind for point in traits.undefined}
    root = op.root if op.elementwise else None
    found = {
        "product": traits.contracts or symbol == "*",
        "quotient": symbol in ("*", "/") or traits.safe == "safe_divide",
        "difference": symbol in ("+", "-", "-x"),
        "sum": traits.sums and not (traits.contracts or op.elementwise),
        "power": symbol == "*" or op.even is not None or root is not None,
        "size": root is not None,
        "extreme": traits.selects,
        "exponential": traits.exponential is not None or traits.logistic is not None,
        "logarithm": "log-of-zero" in kinds,
    }
    return {family for family, holds in found.items() if holds}


class ByPattern(ByPart):
    """Every part of a program that computes the same as a function of wildcards.

    Made by :func:`pattern`.

    Attributes
    ----------
    function
        The pattern.
    where
        Its condition, or None.
    ranks
        The ranks that wildcards may have, by their names.
    names
        The wildcards.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        where: Condition | None = None,
        ranks: Mapping[str, int | Collection[int]] | None = None,
    ) -> None:
        check_condition(where, "W")
        self.function = function
        self.where = where
        body = lambda_body(function)
        self.text = body if body and len(body) <= 60 else describe_function(function)
        self.forms = Forms(function, f"the pattern {self.text}")
        self.names = self.forms.names
        self.ranks = {
            name: check_ranks(name, rank, self.names)
            for name, rank in (ranks or {}).items()
        }

    def find_matches(self, nodes: Sequence[Tensor]) -> Matches:
        """Return the places of a program where the pattern stands."""
        return find_matches(self.forms, nodes, self.where, self.ranks)

    def find_regions(self, nodes: Sequence[Tensor], wrt: Nodes = ()) -> list[Region]:
        """Return the parts of a program that match the pattern."""
        label, names = self.label, tuple(self.names)
        layouts: dict[Sources, RegionLayout] = {}
        regions = []
        for match in self.find_matches(nodes).found:
            sources = match.sources
            layout = layouts.get(sources)
            if layout is None:
                layout = RegionLayout(label, names, sources, (len(sources) - 1,))
                layouts[sources] = layout
            unclear = self.explain_ambiguity(match) if match.other else ""
            regions.append(
                Region(layout, match.bound, match.nodes, [match.root], unclear=unclear)
            )
        return regions

    def explain_ambiguity(self, match: Match) -> str:
        """Return an error text for a match with two ways to fit its wildcards."""
        assert match.other is not None
        differ = [
            i
            for i, pair in enumerate(zip(match.bound, match.other, strict=True))
            if not is_same_value(*pair)
        ]
        one, two = (
            " and ".join(
                f"{self.names[i]} = {describe_value(bound[i])}" for i in differ
            )
            for bound in (match.bound, match.other)
        )
        return (
            f"{self} stands at {blame.describe(match.root)}"
            f"{blame.quote_site(match.root.site)} in two ways: {one}, or {two}. A rule"
            " must know which is which. Say it by a condition, where=lambda m:"
            f' m["{self.names[differ[0]]}"].name == ..., or by their ranks, if these'
            f" differ: wb.pattern(..., {self.names[differ[0]]}=2)."
        )

    @cached_property
    def label(self) -> str:
        """The name of the node that a rule sees: ``"W @ x + b"``."""
        body = lambda_body(self.function)
        return (
            body
            if body is not None and len(body) <= 40
            else describe_function(self.function)
        )

    @property
    def code(self) -> str:
        """The Python code of the pattern, with functions by name, except lambdas."""
        return self.write_code(lambda function, _: write_function(function))

    def write_code(self, write: WriteFunction) -> str:
        """Return the Python code of the pattern; ``write`` writes functions."""
        parts = [write(self.function, "pattern")]
        if self.where is not None:
            parts.append(f"where={write(self.where, 'where')}")
        for name, ranks in self.ranks.items():
            parts.append(f"{name}={ranks[0] if len(ranks) == 1 else ranks}")
        return f"wb.pattern({', '.join(parts)})"

    def explain_mismatch(self, nodes: Sequence[Tensor], wrt: Nodes = ()) -> str:
        """Return the reason why a program has no match: the closest candidates."""
        tried = self.find_matches(nodes)
        if not tried.forms:
            why = str(self.forms.failed or "").rstrip(".")
            return (
                "it cannot be computed for arrays of any ranks that the program has"
                f"{': ' if why else ''}{why}"
            )
        if tried.refused:
            count = tried.refused
            return (
                f"its condition where= refused {'the one' if count == 1 else 'all'}"
                f" {'place' if count == 1 else f'{count} places'} where it stands"
            )
        for bound in tried.misfits:
            name, x = next(
                (name, x)
                for name, x in zip(self.names, bound, strict=True)
                if not fit_ranks([name], [x], self.ranks)
            )
            rank = len(types.spec_of(x).shape)
            declared = " or ".join(map(str, self.ranks[name]))
            return f"where it stands {name} is of rank {rank}, not {name}={declared}"
        if tried.unlike:
            node, form = tried.unlike[0]
            return (
                f"{blame.describe(node)}{blame.quote_site(node.site)} has its"
                " structure, but other settings or"
                f" constants{describe_difference(node, form)}"
            )
        program_ops = {node.op.name: node.op for node in nodes}
        pattern_ops = {n.op.name: n.op for form in tried.forms for n in form.nodes}
        least = min(
            ({n.op.name for n in form.nodes} - {*program_ops} for form in tried.forms),
            key=len,
        )
        if least:
            missing = sorted(least)
            wanted = {f for name in least for f in _list_families(pattern_ops[name])}
            close = sorted(
                name
                for name, op in program_ops.items()
                if name not in pattern_ops and wanted & _list_families(op)
            )
            if close:
                return (
                    f"the program has {' and '.join(close)}, not"
                    f" {' or '.join(missing)}; a pattern matches the ops that it is"
                    " written with"
                )
            return f"the program has no {' and no '.join(missing)}.{UNSEEN}"
        roots = sorted({form.root.op.name for form in tried.forms})
        count = sum(node.op.name in roots for node in nodes)
        none = "it is not" if count == 1 else "none is"
        return (
            f"the program has {count} {' or '.join(roots)}, but {none} computed from"
            " the operands that the pattern names; an inner value must come from"
            " exactly that op"
        )

    def __str__(self) -> str:
        return f"pattern {self.text}"

    def __repr__(self) -> str:
        return f"<pattern {self.text}>"


def pattern(
    function: Callable[..., Any],
    /,
    where: Condition | None = None,
    **ranks: int | Collection[int],
) -> ByPattern:
    """Target every part of a program that computes the same as a function.

    Parameters
    ----------
    function
        A NumPy function of wildcards, ``lambda W, x, b: W @ x + b``. Each parameter
        stands for any Tensor, array or number, of any rank, whatever it is called:
        ``x @ W`` and ``W @ x`` are the same to it, unless ranks say what is what. For
        every linear structure at once there is :func:`workbench.patterns.linear`.
        One that is read twice means the same value. Constants
        (``2 * x + 1``, ``x**2``) match equal ones. Parameters with a default are
        constants of the pattern.
    where
        A condition: a function of a dict from the names of the wildcards to what they
        stand for, Tensors or arrays, ``lambda m: m["W"].shape[0] == 3``.
    ranks
        The rank of a wildcard, or several, by its name:
        ``wb.pattern(lambda x, W, b: x @ W + b, W=2, x=(1, 2))``.

    Returns
    -------
    ByPattern
        A target for :func:`workbench.override`. The rule sees one node for the whole
        part: ``node.inputs`` are what the wildcards stand for, in the order of the
        parameters, ``node.vjp(g)`` gives their true gradients, ``node.op.name`` is
        the pattern's text. In an expression they are ``x0``, ``x1``, ...

    Raises
    ------
    OverrideError
        If the function cannot be a pattern: it ignores a parameter, returns a
        parameter, a constant or several values, or fails for arrays of all ranks. When
        it is used, for a part that can be read in two ways.

    Notes
    -----
    A part matches if NumPy records the same ops for it, with the same settings; what
    is spelled otherwise (``np.einsum`` for ``@``) is another structure, and so is what
    a function does with numbers in the place of arrays (``np.dot`` multiplies). The
    arguments of add, multiply, maximum, minimum, fmax, fmin, hypot, logaddexp,
    logaddexp2, equal, not_equal and the logical and bitwise and, or, xor may stand in
    either order. Where both orders of an ``a * b`` fit, each wildcard is what stands in
    its place. Where the pattern fits in two ways that have other nodes inside, as
    ``W @ x + b`` at ``A @ u + B @ v``, ranks or ``where=`` must say which is meant,
    unless the rule is a text that treats all inputs alike.

    Steps of loops, branches and checkpointed functions are looked into; an op of your
    own is one node. What a function computes from plain arrays of its closure
    alone is not a node: give such arrays as arguments.

    An inner value that is read elsewhere too keeps its true rule there. Matches that
    share inner values all count; where one ends inside another, the one that ends
    later in the program counts. A match gives way to an override of a node in it, and
    to a later pattern that it overlaps; `Session.overrides` says so.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def model(W, x, b):
    ...     return np.sum(np.tanh(W @ x + b))
    >>> linear = wb.pattern(lambda W, x, b: W @ x + b)
    >>> half = wb.override(linear, "0.5 * d")
    >>> W, x, b = np.zeros((2, 2)), np.ones(2), np.zeros(2)
    >>> wb.grad(model, argnums=2, overrides=[half])(W, x, b)
    array([0.5, 0.5])
    """
    return ByPattern(function, where, ranks)


def check_condition(where: object, name: str) -> None:
    """Raise an error if a condition is not a function; ``name`` is an example role."""
    if where is not None and not callable(where):
        raise OverrideError(
            f"where={where!r} is not a condition. Give a function of the values"
            f' of the wildcards: where=lambda m: m["{name}"].ndim == 2.'
        )


def check_ranks(name: str, rank: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Return the ranks that a wildcard may have, as they are declared."""
    if name not in names:
        raise OverrideError(
            f"pattern(..., {name}={rank!r}): it has no wildcard {name!r}, but"
            f" {', '.join(names)}. Declare the rank of one of these."
        )
    try:
        ranks = tuple(map(index, rank)) if np.iterable(rank) else (index(rank),)
    except TypeError:
        ranks = ()
    if not ranks or min(ranks) < 0:
        raise OverrideError(
            f"pattern(..., {name}={rank!r}) is not a rank. Give a number of axes,"
            f" {name}=2, or several, {name}=(1, 2)."
        )
    return ranks


def describe_value(x: object) -> str:
    """Return the text for the value of a wildcard."""
    if isinstance(x, Tensor):
        return blame.describe(x) + (
            blame.quote_site(x.site) if x.op is not IDENTITY else ""
        )
    shape = types.spec_of(x).shape
    return f"an array of shape {shape}" if shape else repr(x)


def describe_difference(node: Tensor, form: PatternForm) -> str:
    """Return the first setting in which a node differs from a pattern, in words."""
    for name in sorted({*node.params, *form.root.params}):
        have, want = node.params.get(name), form.root.params.get(name)
        if repr(have) != repr(want):
            return f": it has {name}={have!r}, the pattern {name}={want!r}"
    return ""
