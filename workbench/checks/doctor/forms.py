"""Advice from the table of stable forms: the line to write for a part of a program.

The forms are the rows of `workbench.rewrite.stable_rules`. A program is rewritten by
them where it is written as they are; here they are also found past reshapes and
indices. What is found is a draft: where its values differ, for another axis or a
missing operand, `equivalence.py` refuses it and the next one is tried; that module also
writes the user's own names into it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import (
    WIDER,
    WIDEST,
    Case,
    find_first,
    is_leaf,
    rerun_wider,
)
from workbench.checks.doctor.edits import join_edits, widen_operand
from workbench.checks.doctor.equivalence import EquivalentLine, Operands, is_same, prove
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.spelling import LEFT_OUT, quote_operand
from workbench.core import walk
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, value_of
from workbench.ops.indexing import GETITEM
from workbench.rewrite.patterns import Binding, Matcher
from workbench.rewrite.rule import (
    AXES,
    RULES,
    PairRule,
    ReductionRule,
    name_settings,
)
from workbench.rewrite.stable_rules import PUBLIC_NAMES


def skip_reshapes(x: Any) -> Any:
    """Return an operand before the ops that only move its entries."""
    while isinstance(x, Tensor) and x.op.traits.moves:
        x = x.inputs[0]
    return x


def constant_value(x: Any) -> float | None:
    """Return the value of a constant that is one number, else None."""
    if isinstance(x, Tensor):
        if x.inputs or x.name is not None:
            return None
        x = x._value
    if isinstance(x, (int, float)):
        return float(x)
    if getattr(x, "shape", None) == () and x.dtype.kind in "iuf":
        return float(x)
    return None


def find_form(
    case: Case, node: Tensor, with_slopes: bool = False
) -> EquivalentLine | None:
    """Return a stable form of an expression that a node is part of; None if none is.

    ``with_slopes`` requires that its gradient is finite at these values too.
    """
    key = node.serial, with_slopes
    if key not in case.forms:
        o = Operands()
        drafts = {
            (draft.target.serial, draft.code): draft
            for root in _list_roots(case, node)
            for draft in _draft_forms(root, node, o)
        }
        proved = (prove(case, draft, o, with_slopes) for draft in drafts.values())
        case.forms[key] = next((form for form in proved if form is not None), None)
    found: EquivalentLine | None = case.forms[key]
    return found


def _draft_forms(root: Tensor, node: Tensor, o: Operands) -> Iterator[EquivalentLine]:
    """Yield the lines of all rows for an op, a node among the ops below."""
    for rule in _rules_by_root().get(root.op.name, ()):
        yield from write_drafts(rule, root, node, o)


def offer_form(case: Case, form: EquivalentLine) -> Fix:
    """Return the fix that writes a stable form, in all places that need it at once.

    A cross-entropy has the logarithms of a sigmoid and of 1 minus it: both lose what
    the sigmoid has rounded away, each for other inputs.
    """
    forms = [form, *_find_siblings(case, form)]
    # One text for a line that runs several times.
    others = dict.fromkeys((one.code, one.name) for one in forms)
    others.pop((form.code, form.name))
    text = "".join(f"; likewise {code} for {name}" for code, name in others)
    edits = [one.edit for one in forms if one.edit is not None]
    whole = len(edits) == len(forms)
    edit = (join_edits(form.target, edits) if whole else None) or form.edit
    return replace(form.fix, text=form.fix.text + text, edit=edit)


def _find_siblings(case: Case, form: EquivalentLine) -> Iterator[EquivalentLine]:
    """Yield the forms that replace the same op, made from a part of a form."""
    target, o = form.target, Operands()
    seen = {target.serial}
    level = [target]
    for _ in range(HEIGHT):
        below = (skip_reshapes(x) for node in level for x in node.inputs)
        level = [x for x in below if isinstance(x, Tensor) and not is_leaf(x)]
        for part in level:
            if not any(_draft_forms(target, part, o)):
                continue
            for root in _list_roots(case, part):
                if root.op is not target.op or root.serial in seen:
                    continue
                seen.add(root.serial)
                other = find_form(case, root)
                if (
                    other is not None
                    and other.target is root
                    and any(_draft_forms(root, part, o))
                ):
                    yield other


#: The last op of a form is looked for so many ops above a part of it.
HEIGHT = 4
#: Of a value that is read often, so many readers are looked at.
MOST_READERS = 50


def _list_roots(case: Case, node: Tensor) -> list[Tensor]:
    """Return the ops of which a node may be part, the last ones of the program first.

    So the logarithm of a softmax comes before the softmax.
    """
    found = {node.serial: node}
    level = [node]
    for _ in range(HEIGHT):
        waiting, level = level, []
        for x in waiting:
            for reader in case.readers.get(x.serial, ()):
                if reader.serial in found or len(found) > MOST_READERS:
                    continue
                if reader.op.traits.moves:
                    waiting.append(reader)
                else:
                    found[reader.serial] = reader
                    level.append(reader)
    return [found[serial] for serial in sorted(found, reverse=True)]


@cache
def _rules_by_root() -> dict[str, list[PairRule]]:
    """Return the rows of the table by the names of their last ops."""
    found: dict[str, list[PairRule]] = defaultdict(list)
    for rule in RULES.values():
        if isinstance(rule, PairRule) and rule.group in ("stabilise", "advice"):
            for root in rule.roots:
                found[root].append(rule)
    return found


# How the left side of a row stands in a program


class _Place(NamedTuple):
    """The operand that a wildcard stands for, and the code of the indices after."""

    reader: Tensor
    k: int
    indices: str

    @property
    def source(self) -> Any:
        """The operand before ops that only reshape."""
        return skip_reshapes(self.reader.inputs[self.k])


class _Reading(NamedTuple):
    """One way in which the left side of a row stands in a program.

    Attributes
    ----------
    places
        What each wildcard stands for, by its name.
    axes
        The settings of its reductions.
    indices
        The code of what takes entries of the whole.
    """

    places: Mapping[str, _Place]
    axes: Mapping[str, Any]
    indices: str


def _skip_steps(x: Any) -> Any:
    """Return an operand before ops that only reshape; a constant as a number."""
    x = skip_reshapes(x)
    number = constant_value(x) if isinstance(x, Tensor) else None
    return x if number is None else number


def _is_same_source(x: Any, y: Any) -> bool:
    return is_same(_skip_steps(x), _skip_steps(y))


@cache
def _list_matchers(rule: PairRule) -> list[Matcher]:
    """Return the matchers of a row's left side, past reshapes and over any axes."""
    return [
        Matcher(
            form,
            rule.name,
            settings=False,
            is_canonical=True,
            skip=_skip_steps,
            is_same=_is_same_source,
        )
        for form in rule.forms
    ]


def _find_readings(
    rule: PairRule, root: Tensor, node: Tensor, o: Operands
) -> Iterator[_Reading]:
    """Yield the readings of a row's left side at a root, a node among the parts."""
    for matcher in _list_matchers(rule):
        for binding in matcher.lay(root):
            if any(binding.values.get(serial) is node for serial in matcher.parts):
                found = _read_binding(rule, matcher, binding, o)
                if found is not None:
                    yield found


def _read_binding(
    rule: PairRule, matcher: Matcher, binding: Binding, o: Operands
) -> _Reading | None:
    """Return the reading of a binding; None where a wildcard stands for no operand."""
    reductions = rule.reductions if isinstance(rule, ReductionRule) else ()
    places: dict[str, _Place] = {}
    axes: Mapping[str, Any] = {}
    whole = ""
    root = matcher.form.root
    waiting = [(root, "")]
    seen: set[int] = set()
    while waiting:
        p, indices = waiting.pop()
        node = binding.values[p.serial]
        if node.op.name in reductions:
            indices = ""  # what takes entries of a sum takes none of its terms
            axes = node.params
        below = []
        used: set[tuple[int, int]] = set()
        for a in matcher.parts[p.serial][1]:
            if not isinstance(a, Tensor) or a.serial in seen:
                continue
            seen.add(a.serial)
            found = next(
                (
                    (reader, k)
                    for reader, k in _find_operands(node, binding.values[a.serial])
                    if (reader.serial, k) not in used
                ),
                None,
            )
            if found is None:
                return None
            reader, k = found
            used.add((reader.serial, k))
            if a.serial not in matcher.parts:
                places[str(a.name)] = _Place(reader, k, indices)
                continue
            taken = format_indexing(reader.inputs[k], o)
            if p is root and len(node.inputs) == 1:
                whole, taken = taken, ""
            below.append((a, taken + indices))
        waiting += reversed(below)
    return _Reading(places, axes, whole)


def _find_operands(node: Tensor, x: Any) -> Iterator[tuple[Tensor, int]]:
    """Yield the operand places of a value in a node, or in a negative just below."""
    for reader in (node, *map(skip_reshapes, node.inputs)):
        if isinstance(reader, Tensor):
            for k, y in enumerate(reader.inputs):
                if _is_same_source(x, y):
                    yield reader, k


def format_indexing(x: Any, o: Operands) -> str:
    """Return the indexing that an operand goes through, as code: ``"[_1]"``."""
    text = ""
    while isinstance(x, Tensor) and x.op.traits.moves:
        if x.op is GETITEM:
            text = f"[{o.name_index(x)}]{text}"
        x = x.inputs[0]
    return text


# The right side as a line of code


def write_drafts(
    rule: PairRule, root: Tensor, node: Tensor, o: Operands
) -> Iterator[EquivalentLine]:
    """Yield a row's lines for an op and the ops below, a given node among these."""
    for found in _find_readings(rule, root, node, o):
        if not found.axes.keys() <= AXES:
            continue
        texts = {name: f"{o(x.reader, x.k)}{x.indices}"
                 for name, x in found.places.items()}  # fmt: skip
        bound = {name: x.source for name, x in found.places.items()}
        for axes in _list_axes(rule, found.axes):
            settings = name_settings(axes)
            if rule.when is not None and not rule.when({**bound, **settings}):
                continue
            code = _write_code(rule.rhs, texts, settings)
            if code is not None:
                code = f"({code}){found.indices}" if found.indices else code
                yield EquivalentLine(rule.name, code, root, rule.positive)


def _list_axes(rule: PairRule, axes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of a reduction, also those where its result is broadcast."""
    if not isinstance(rule, ReductionRule):
        return [{}]
    given = dict(axes)
    if isinstance(axis := given.get("axis"), tuple) and len(axis) == 1:
        given["axis"] = axis[0]
    other = {key: x for key, x in given.items() if key != "keepdims"}
    if not given.get("keepdims"):
        other["keepdims"] = True
    return [given, other]


def _write_code(
    side: str, texts: Mapping[str, str], settings: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Return a side of a row as user code; None where impossible."""
    text = ""
    for part in re.split(r"(, \*\*\w+|[A-Za-z_]\w*)", side):
        if part.startswith(", **"):
            given = settings[part.removeprefix(", **")]
            text += "".join(f", {key}={x!r}" for key, x in given.items())
        elif not part.isidentifier():
            text += part
        elif part in texts or part in PUBLIC_NAMES:
            text += texts.get(part) or PUBLIC_NAMES[part]
        elif hasattr(np, part):
            text += f"np.{part}"
        else:
            return None
    return text


# Notes on forms that are about to overflow.
#
# An exponential is near overflow where its operand is beyond half of what its dtype
# holds. There is a note only where a stable form is known, so that it says what to
# write.

NEAR = 0.5


def find_near_overflow(case: Case) -> Iterator[Finding]:
    """Yield a note for each form that is near overflow, unless its node is blamed."""
    blamed = case.blamed
    for node in case.nodes:
        grows = node.op.traits.exponential
        if grows is None or node.serial in blamed:
            continue
        y = node._value
        if not isinstance(y, (np.ndarray, np.generic)) or y.size == 0:
            continue
        dtype = np.asarray(value_of(y)).dtype
        if dtype.kind != "f":
            continue
        limit = float(grows.log(np.finfo(dtype).max))
        top = float(np.max(value_of(node.args[0])))
        if not NEAR * limit < top < limit:
            continue
        form = find_form(case, node)
        if form is None:
            continue
        yield Finding(
            "near-overflow",
            "note",
            node,
            "forward",
            f"{case.name_node(node)} is near its largest value",
            f"{quote_operand(node, 0)} reaches {top:.4g}; from {limit:.4g} on"
            f" {node.op.name} overflows {dtype}.",
            f"The {form.name} overflows for larger operands; its stable form does not.",
            offer_form(case, form),
        )


# Sums whose digits have cancelled, and their fixes.

#: A result of so few roundings of its terms is nothing but rounding.
ROUNDINGS = 8


class Cancelled(NamedTuple):
    """A sum all of whose digits have cancelled."""

    node: Tensor
    evidence: str
    fix: Fix | None


#: The cause in the finding about it.
CAUSE = (
    "The leading digits of nearly equal numbers cancel, and what is left is their"
    " rounding."
)


def find_cancelled(case: Case, node: Tensor, k: int, mask: Any) -> Cancelled | None:
    """Find the cancelled sum that makes an operand 0 or less by rounding alone.

    Parameters
    ----------
    node, k
        The op, and the number of the operand that is 0 or less.
    mask
        The entries where it is.

    Returns
    -------
    None where the program in a wider dtype gives the same operand.
    """
    x = skip_reshapes(node.inputs[k])
    if not isinstance(x, Tensor) or isinstance(x._value, tuple):
        return None
    y, terms = np.asarray(value_of(x._value)), _sum_term_sizes(x)
    if terms is None or y.dtype.kind not in "fc":
        return None
    if x is node.inputs[k] and mask.shape != y.shape:
        return None
    chosen = mask if x is node.inputs[k] else np.ones(y.shape, bool)
    unit = float(np.finfo(y.dtype).eps)
    chosen = chosen & (np.abs(y) <= ROUNDINGS * unit * terms) & (terms > 0)
    table = WIDER if y.dtype in WIDER else WIDEST
    wide_unit = float(np.finfo(table[y.dtype]).eps) if y.dtype in table else unit
    if not chosen.any() or wide_unit >= unit:
        return None
    true = rerun_wider(case, table, walk.order_nodes([x]), report=False)[
        x.serial
    ]._value
    off = np.abs(true - y) > np.maximum(np.abs(true), np.abs(y)) / 2
    chosen = chosen & off & (np.abs(true) > ROUNDINGS * wide_unit * terms)
    if not chosen.any():
        return None
    at = find_first(chosen)
    text = quote_operand(node, k)
    text = "Its value" if text == LEFT_OUT else text
    return Cancelled(
        x,
        f"{text} is {y[at]:.6g}, and in higher precision {true[at]:.6g}; its terms are"
        f" of size {float(terms[at]):.3g}, and their rounding of"
        f" {unit * float(terms[at]):.2g}.",
        _find_fix(case, node, x),
    )


def _find_fix(case: Case, node: Tensor, x: Tensor) -> Fix | None:
    form = find_form(case, node) or find_form(case, x)
    if form is not None:
        return offer_form(case, form)
    if np.dtype(x.dtype) in WIDER:
        return widen_operand(x)
    return None


def _sum_term_sizes(x: Tensor) -> Any:
    """Return the sum of a sum's absolute terms; None for other ops, or for data."""
    if not x.op.traits.sums or (x.op.reads and not x.op.traits.contracts):
        return None  # a variance sums squares of differences
    # Inputs have not been rounded: a difference of data is exact.
    if all(is_given(a) for a in x.inputs):
        return None
    sizes = [np.abs(np.asarray(value_of(a))) for a in x.inputs]
    if x.op.traits.symbol == "-":
        return sizes[0] + sizes[1]
    try:
        return np.abs(compute_node(x, sizes))
    except (TypeError, ValueError):
        return None


def is_given(x: Any) -> bool:
    """Return whether an operand is an input or a constant, perhaps only reshaped."""
    x = skip_reshapes(x)
    return not isinstance(x, Tensor) or not x.inputs
