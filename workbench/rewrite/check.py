"""Rules of users: both sides tried on numbers before a rule is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.trace import record
from workbench.errors import OverrideError, RewriteError
from workbench.rewrite.driver import CONSTANTS, MERGE, simplify
from workbench.rewrite.forms import UNFIT, make_spec
from workbench.rewrite.rule import KINDS, RULES, PairRule, Rule

#: As many draws of random numbers both sides are compared on, for each rank.
DRAWS = 8
#: Where rules tend to move a NaN, an infinity or a sign.
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-300, 1e300)
#: How far apart the two sides may be, relative to the larger.
TOLERANCE = 1e-9


def rewrite_rule(
    name: str,
    lhs: Callable[..., Any],
    rhs: Callable[..., Any],
    *,
    when: Callable[[Mapping[str, Any]], bool] | None = None,
    fast: bool = False,
) -> Rule:
    """Make a rewrite rule of two functions that compute the same.

    Both are run on random numbers and on special ones (zeros, infinities, NaN, tiny
    and huge) before the rule is accepted.

    Parameters
    ----------
    name
        What it is called in the steps, and in ``without=``.
    lhs
        A function of arrays, in NumPy: what stands in a program. Its parameters stand
        for any values. It is found too in the form in which other rules leave it.
    rhs
        A function of the same parameters: what takes its place.
    when
        A condition, asked with a mapping from the names of the parameters to what they
        stand for.
    fast
        Accept a rule that moves a NaN or an infinity, or changes special values. It
        must still agree on ordinary numbers.

    Returns
    -------
    The rule, for ``wb.simplify(graph, [rule])``.

    Raises
    ------
    RewriteError
        If the two sides differ; with the numbers on which they do.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> pythagoras = wb.rewrite_rule(
    ...     "pythagoras", lambda x: 1 - np.cos(x) ** 2, lambda x: np.sin(x) ** 2
    ... )
    >>> x = wb.scalar("x")
    >>> graph = wb.simplify(wb.Graph([x], [1 - np.cos(x) ** 2]), [pythagoras])
    >>> print(graph.steps[0])
    1. power two: cos(x) ** 2 → cos(x) * cos(x)
    >>> print(graph.steps[1])
    2. pythagoras: 1 - cos(x) * cos(x) → sin(x) ** 2
    """
    if not (isinstance(name, str) and name):
        raise RewriteError(f"the name of a rewrite rule is a text, not {name!r}.")
    if name in RULES or name in (CONSTANTS, MERGE):
        raise RewriteError(
            f"there is a rewrite rule called {name!r} already. Choose another name:"
            " without=[...] tells rules by theirs."
        )
    try:
        made = PairRule(name, lhs, rhs, when=when, depth=2)
        _add_simplified_side(made)
        names = made.names
    except OverrideError as error:
        raise RewriteError(f"the left side of rule {name!r}: {error}") from None
    found = False
    for values in _draw_values(len(names), fast):
        if when is not None and not when(dict(zip(names, values, strict=True))):
            continue
        found = _compare_sides(made, names, values) or found
    if not found:
        raise RewriteError(
            f"the rewrite rule {name!r} could be tried on no numbers: both sides must"
            " compute an array of numbers or arrays, and its condition (when=) must"
            " hold for some."
        )
    return made


def _add_simplified_side(made: PairRule) -> None:
    """Let a rule hold too for what the tables make of its left side.

    Not where that is no pattern, or where the rule would hold for its own result.
    """
    side = _as_simplified(made.left)
    other = PairRule(made.name, side, made.right)
    try:
        for kind in KINDS:
            specs = [make_spec(kind)] * len(other.names)
            try:
                result = record(lambda leaves: other.right(*leaves), specs)
            except UNFIT:
                continue
            simplify(result, [other])
    except (OverrideError, RewriteError, *UNFIT):
        return
    made.sides.append(side)


def _as_simplified(side: Callable[..., Any]) -> Callable[..., Any]:
    """Return a side as the rules of the tables leave it: so it stands in a program."""

    @wraps(side)
    def simplified(*leaves: Any) -> Any:
        specs = list(map(types.spec_of, leaves))
        graph = simplify(record(lambda fresh: side(*fresh), specs))
        return graph.run(leaves)[0]

    return simplified


def _draw_values(count: int, fast: bool) -> Iterator[list[Any]]:
    """Yield arguments for both sides: random numbers, then special ones."""
    rng = np.random.default_rng(0)
    for shape in ((), (4,), (3, 3)):
        for k in range(DRAWS):
            values = [rng.uniform(-3, 3, shape) for _ in range(count)]
            yield [np.abs(x) + 0.1 if k % 2 else x for x in values]
    if fast:
        return
    special = np.array(SPECIAL)
    for k in range(len(SPECIAL) if count > 1 else 1):
        yield [special, *[np.roll(special, k + i) for i in range(count - 1)]]


def _compare_sides(rule: PairRule, names: Sequence[str], values: Sequence[Any]) -> bool:
    """Return whether both sides can be computed; refuse a rule where they differ."""
    with np.errstate(all="ignore"):
        try:
            before = np.asarray(rule.left(*values))
        except Exception:  # not meant for these shapes
            return False
        try:
            after = np.asarray(rule.right(*values))
        except Exception as error:
            raise RewriteError(
                f"the right side of the rewrite rule {rule.name!r} fails where the left"
                f" does not: {error}"
            ) from error
        what = ""
        if before.shape != after.shape:
            what = f"shape {before.shape} becomes {after.shape}"
        elif before.dtype != after.dtype:
            what = f"{before.dtype} becomes {after.dtype}"
        elif not np.allclose(before, after, TOLERANCE, 0, equal_nan=True):
            far = ~np.isclose(before, after, TOLERANCE, 1e-300, equal_nan=True)
            if not far.any():
                return True
            place = tuple(np.argwhere(far)[0])
            given = ", ".join(
                f"{n} = {x[place] if np.shape(x) == before.shape else x}"
                for n, x in zip(names, values, strict=True)
            )
            what = f"for {given} the value {before[place]} becomes {after[place]}"
    if not what:
        return True
    raise RewriteError(
        f"the rewrite rule {rule.name!r} changes what a program computes: {what}. Give"
        " it a condition (when=); fast=True accepts one that is wrong for infinity, NaN"
        " and huge numbers alone."
    )
