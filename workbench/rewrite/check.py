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
#: The dtypes of other numbers: a rule does not hold for those kinds where it is wrong.
DTYPES = {"c": ("c16",), "i": ("i8", "i1"), "u": ("u8", "u1"), "b": ("?",)}
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
    and huge) before the rule is accepted, as floats of several shapes. Where they
    differ for complex numbers, integers or truth values, the rule does not hold for
    these.

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
    1. pythagoras: 1 - cos(x) ** 2 → sin(x) ** 2
    """
    if not (isinstance(name, str) and name):
        raise RewriteError(f"the name of a rewrite rule is a text, not {name!r}.")
    if name in RULES or name in (CONSTANTS, MERGE):
        raise RewriteError(
            f"there is a rewrite rule called {name!r} already. Choose another name:"
            " without=[...] tells rules by theirs."
        )
    if not callable(lhs):
        raise RewriteError(
            f"the left side of the rewrite rule {name!r} is a function of the arrays"
            f" that may be any, not {lhs!r}. Write lambda x: ..."
        )
    if not callable(rhs):
        raise RewriteError(
            f"the right side of the rewrite rule {name!r} is a function of the same"
            f" parameters as the left, not {rhs!r}. Write lambda x: ..."
        )
    if not (when is None or callable(when)):
        raise RewriteError(
            f"the condition (when=) of rule {name!r} is a function, not {when!r}. Write"
            " when=lambda bound: bound['x'].ndim == 1."
        )
    try:
        made = PairRule(name, lhs, rhs, when=when, depth=2)
        _add_simplified_side(made)
        names = made.names
    except OverrideError as error:
        raise RewriteError(str(error)) from None
    except Exception as error:
        raise RewriteError(
            f"the left side of the rewrite rule {name!r} fails: {type(error).__name__}:"
            f" {error}. It gets Tensors: write it in NumPy, as any function that is"
            " traced."
        ) from error
    found = False
    for values in _draw_values(len(names), fast):
        if made.holds(values):
            found = _compare_sides(made, names, values) or found
    if not found:
        failed = made.patterns[0][0].failed
        raise RewriteError(
            f"the rewrite rule {name!r} could be tried on no numbers: both sides must"
            " compute an array of numbers or arrays, and its condition (when=) must"
            f" hold for some{'' if failed is None else f' ({failed})'}."
        )
    for values in _draw_shapes(len(names)):
        if made.holds(values):
            _compare_sides(made, names, values, values_alone=True)
    made.unfit = frozenset(
        kind for kind in DTYPES if not _fits_numbers(made, names, kind, fast)
    )
    return made


def _add_simplified_side(made: PairRule) -> None:
    """Let a rule hold too for its left side as simplified by the tables.

    Not where that side is no pattern, or where the rule would hold for its own result.
    """
    side = _as_simplified(made.left)
    other = PairRule(made.name, side, made.right)
    try:
        for kind in KINDS:
            specs = [make_spec(kind)] * len(other.names)
            try:
                result = record(lambda leaves: other.right(*leaves), specs)
            except Exception:  # not meant for these shapes
                continue
            simplify(result, [other])
    except (OverrideError, RewriteError, *UNFIT):
        return
    made.sides.append(side)


def _fits_numbers(rule: PairRule, names: Sequence[str], kind: str, fast: bool) -> bool:
    """Return whether both sides compute the same for numbers of a kind too."""
    try:
        for values in _draw_kind(len(names), kind, fast):
            if rule.holds(values):
                _compare_sides(rule, names, values, values_alone=True)
    except RewriteError:
        return False
    return True


def _as_simplified(side: Callable[..., Any]) -> Callable[..., Any]:
    """Return a side in the simplified form that the rules of the tables leave."""

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
            yield [np.abs(x) if k % 2 else x for x in values]
    if fast:
        return
    special = np.array(SPECIAL)
    for k in range(len(SPECIAL) if count > 1 else 1):
        yield [special, *[np.roll(special, k + i) for i in range(count - 1)]]


def _draw_shapes(count: int) -> Iterator[list[Any]]:
    """Yield arguments of several shapes, one of them spread over the others."""
    rng = np.random.default_rng(1)
    for shape in ((), (1,), (3, 1)) if count > 1 else ():
        for k in range(count):
            yield [rng.uniform(-3, 3, shape if i == k else 4) for i in range(count)]


def _draw_kind(count: int, kind: str, fast: bool) -> Iterator[list[Any]]:
    """Yield arguments that are complex or integers, the largest among them."""
    rng = np.random.default_rng(2)
    for dtype in DTYPES[kind]:
        for _ in range(DRAWS):
            if kind == "c":
                yield [rng.normal(size=(4, 2)) @ (1, 1j) for _ in range(count)]
            else:
                yield [rng.integers(0, 9, 4).astype(dtype) for _ in range(count)]
        if kind == "c":
            special = np.array([0, 1, 1j, *([] if fast else [np.inf, np.nan])])
        elif kind == "b":
            special = np.array([False, True])
        else:
            limits = np.iinfo(dtype)
            special = np.array([0, 1, 2, limits.min, limits.max], dtype)
        for k in range(len(special) if count > 1 else 1):
            yield [special, *[np.roll(special, k + i) for i in range(count - 1)]]


def _compare_sides(
    rule: PairRule,
    names: Sequence[str],
    values: Sequence[Any],
    *,
    values_alone: bool = False,
) -> bool:
    """Return whether both sides can be computed; refuse a rule where they differ.

    With ``values_alone`` the right side may fail or have another shape or dtype: there
    the rule does not hold, which is known before it is applied.
    """
    with np.errstate(all="ignore"):
        try:
            before = np.asarray(rule.left(*values))
        except Exception:  # not meant for these shapes
            return False
        try:
            after = np.asarray(rule.right(*values))
        except Exception as error:
            if values_alone:
                return False
            raise RewriteError(
                f"the right side of the rewrite rule {rule.name!r} fails where the left"
                f" does not: {error}"
            ) from error
        what = ""
        if values_alone and (before.shape, before.dtype) != (after.shape, after.dtype):
            return False
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
