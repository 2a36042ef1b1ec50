"""`pattern`: an override's target that is a structure, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from workbench.errors import OverrideError
from workbench.graph import blame
from workbench.graph.tensor import Tensor
from workbench.rewrite.forms import Form, Forms
from workbench.rewrite.patterns import Matches, find
from workbench.transforms.lambdas import body_of, lambda_text, short, written
from workbench.transforms.regions import Region
from workbench.transforms.targets import UNSEEN, ByPart

__all__ = ["ByPattern", "pattern"]

Condition = Callable[[Mapping[str, Any]], Any]

#: Ops that compute alike: where a program has another of them, that is said.
ALIKE = (
    {"matmul", "einsum", "tensordot", "vecdot", "inner", "outer", "multiply", "dot"},
    {"power", "square", "multiply", "sqrt", "float_power", "cbrt"},
    {"divide", "multiply", "reciprocal"},
    {"subtract", "add", "negative"},
    {"sum", "mean", "einsum", "average", "add_reduce"},
    {"maximum", "fmax", "where", "clip", "minimum", "fmin"},
    {"abs", "absolute", "fabs", "sqrt"},
    {"exp", "expm1", "exp2", "logistic", "expit"},
    {"log", "log1p", "log2", "log10"},
)


class ByPattern(ByPart):
    """Every part of a program that computes what a function of wildcards does.

    Made by :func:`pattern`.

    Attributes
    ----------
    function
        The pattern.
    where
        Its condition, or None.
    names
        The wildcards.
    """

    def __init__(self, function: Callable[..., Any], where: Condition | None) -> None:
        if where is not None and not callable(where):
            raise OverrideError(
                f"where={where!r} is not a condition. Give a function of what the"
                ' wildcards stand for: where=lambda m: m["W"].ndim == 2.'
            )
        self.function = function
        self.where = where
        body = body_of(function)
        self.text = body if body and len(body) <= 60 else short(function)
        self.forms = Forms(function, self.text)
        self.names = self.forms.names

    def matches(self, nodes: Sequence[Tensor]) -> Matches:
        """Every place where it stands in a program."""
        return find(self.forms, nodes, self.where)

    def regions(self, nodes: Sequence[Tensor]) -> list[Region]:
        """The parts of a program that it matches."""
        return [
            Region(
                self.label,
                match.bound,
                self.names,
                match.steps,
                [match.root],
                [source_of(match.steps, match.root)],
            )
            for match in self.matches(nodes).found
        ]

    def select(self, nodes: Sequence[Tensor]) -> list[Tensor]:
        """The nodes that its matches end with."""
        return [match.root for match in self.matches(nodes).found]

    @cached_property
    def label(self) -> str:
        """What the node of a rule is called: ``"W @ x + b"``."""
        body = body_of(self.function)
        return body if body is not None and len(body) <= 40 else short(self.function)

    @property
    def code(self) -> str:
        """The Python that makes it, with functions by name that are no lambdas."""
        made = written(self.function)
        if self.where is None:
            return f"wb.pattern({made})"
        return f"wb.pattern({made}, where={written(self.where)})"

    @property
    def functions(self) -> list[Any]:
        """Those that its code calls by name, which it does not hold."""
        return [
            f
            for f in (self.function, self.where)
            if f is not None and lambda_text(f) is None
        ]

    def missed(self, nodes: Sequence[Tensor]) -> str:
        """Why it matches nothing in a program: what was close."""
        tried = self.matches(nodes)
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
        if tried.unlike:
            node, form = tried.unlike[0]
            return (
                f"{blame.describe(node)}{blame.at(node.site)} has its structure, but"
                f" other settings or constants{difference(node, form)}"
            )
        here = {node.op.name for node in nodes}
        wanted = {node.op.name for form in tried.forms for node in form.nodes}
        least = min(
            ({n.op.name for n in form.nodes} - here for form in tried.forms), key=len
        )
        if least:
            missing = sorted(least)
            close = sorted(
                other
                for group in ALIKE
                if least & group
                for other in group & here - wanted
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
            " what the pattern says; an inner value must be computed by the very op"
        )

    def __str__(self) -> str:
        return f"pattern {self.text}"

    def __repr__(self) -> str:
        return f"<pattern {self.text}>"


def pattern(function: Callable[..., Any], where: Condition | None = None) -> ByPattern:
    """Every part of a program that computes what a function does: a target.

    Parameters
    ----------
    function
        A NumPy function of wildcards, ``lambda W, x, b: W @ x + b``. Each parameter
        stands for any Tensor, array or number, of any rank: ``X @ W`` and ``W @ x``
        are the same to it. One that is read twice means the same value. Constants
        (``2 * x + 1``, ``x**2``) match equal ones. Parameters with a default are
        constants of the pattern.
    where
        A condition: a function of a dict from the names of the wildcards to what they
        stand for, Tensors or arrays, ``lambda m: m["W"].ndim == 2``.

    Returns
    -------
    ByPattern
        A target for :func:`workbench.override`. The rule sees one node for the whole
        part: ``node.inputs`` are what the wildcards stand for, in the order of the
        parameters, ``node.vjp(g)`` gives their true gradients, ``node.op.name`` is
        the pattern's text. In an expression they are ``x0``, ``x1``, ...

    Notes
    -----
    A part matches if NumPy records the same ops for it, with the same settings; what
    is spelled otherwise (``np.einsum`` for ``@``) is another structure, and so is what
    a function does with numbers in the place of arrays (``np.dot`` multiplies). The
    arguments of add, multiply, maximum, minimum, fmax, fmin, hypot, logaddexp,
    logaddexp2, equal, not_equal and the logical and bitwise and, or, xor may stand in
    either order.

    Steps of loops, branches and checkpointed functions are looked into; an op of your
    own is one node. What a function computes from plain arrays of its closure
    alone is no node: give such arrays as arguments.

    An inner value that is read elsewhere too keeps its true rule there. Matches that
    share inner values all count; where one ends inside another, the one that ends
    later in the program counts. A match gives way to an override of a node in it, and
    to a later pattern that it overlaps; `Session.overrides` says so.

    Raises
    ------
    OverrideError
        If the function cannot be a pattern: it ignores a parameter, returns a
        parameter, a constant or several values, or fails for arrays of all ranks.

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
    return ByPattern(function, where)


def source_of(steps: Sequence[tuple[Tensor, Any]], root: Tensor) -> int:
    """The step that ends with a node: the last of them."""
    return max(i for i, (node, _) in enumerate(steps) if node is root)


def difference(node: Tensor, form: Form) -> str:
    """The first setting in which a node differs from a pattern, in words."""
    for name in sorted({*node.params, *form.root.params}):
        have, want = node.params.get(name), form.root.params.get(name)
        if repr(have) != repr(want):
            return f": it has {name}={have!r}, the pattern {name}={want!r}"
    return ""
