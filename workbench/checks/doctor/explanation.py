"""Explanations of values and slopes that are not finite, with their fixes.

The singular points of an op (`Traits.undefined`, `Traits.steep`) explain it;
`forms.py` has better lines where an op is part of a form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor.case import (
    Case,
    count_nonfinite,
    find_first,
    format_index,
    is_finite,
    measure_norm,
    name_nonfinite,
)
from workbench.checks.doctor.edits import widen_operand
from workbench.checks.doctor.equivalence import (
    EquivalentLine,
    Operands,
    is_finite_in_float64,
    offer_fix,
    prove,
)
from workbench.checks.doctor.finding import Fix
from workbench.checks.doctor.forms import find_form, offer_form
from workbench.checks.doctor.singular import (
    BOUNDED,
    ENTRIES,
    MEND,
    find_pole,
    has_both_signs,
)
from workbench.checks.doctor.spelling import (
    LEFT_OUT,
    find_own_logarithm,
    parenthesize,
    quote_operand,
)
from workbench.checks.progress import BudgetSpent, is_spent, tick
from workbench.core import blame, types, walk
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.core.traits import SingularPoint
from workbench.errors import WorkbenchError
from workbench.ops.indexing import GETITEM
from workbench.overrides.override import override
from workbench.overrides.override_blocks import resolve_call

# Gradient rules are tried before the doctor suggests them.
#
# A rule is attached to the node to blame, and the sweep runs once more. Its cotangents
# must be finite, and the gradients must equal the true limits where there are any: the
# mean of the gradients at two points on opposite sides of the point. So a distance at
# 0, with slopes 1 and -1 on its sides, has the limit 0. A root at 0 has no limit, so
# any finite gradient will do.

#: Larger programs are not compared with limits, which takes four more runs.
MOST = 20_000
#: The relative distances of the two points on the sides.
STEPS = (1e-4, 1e-5)
NARROW_STEPS = (1e-2, 3e-3)
#: The relative difference up to which gradients count as equal.
ENOUGH = 1e-2


def choose_rule(case: Case, node: Tensor, rules: list[str]) -> str | None:
    """Return the first of some rules that mends a node, or None."""
    for rule in rules:
        if is_spent():
            return None  # a rule that was not tried is none to offer
        if _is_mended(case, node, rule):
            return rule
    return None


def _is_mended(case: Case, node: Tensor, rule: str) -> bool:
    passed: list[Any] = []

    def visit(seen: Tensor, _: Any, parts: list[Any]) -> None:
        if seen.serial == node.serial:
            passed.extend(c for c in parts if c is not None)

    try:
        meant = resolve_call([override(node, rule)], case.outputs, case.wrt, "diagnose")
        assert meant is not None
        rules = {**(case.rules or {}), **meant.rules}
        made = reverse.pull_back(
            case.outputs, case.seeds, case.wrt, rules=rules, visit=visit,
            nulls_pass=True,
        )  # fmt: skip
    except (ArithmeticError, AssertionError, TypeError, ValueError, WorkbenchError):
        return False
    if not all(is_finite(c) for c in passed):
        return False
    limits = _find_limits(case)
    if limits is None:
        return True
    return all(
        g is None or limit is None or _is_limit(value_of(g), *limit)
        for g, limit in zip(made, limits, strict=True)
    )


def _is_limit(g: Any, limit: Any, off: Any) -> bool:
    """Return whether a gradient equals the limit, where both are finite and known."""
    with np.errstate(all="ignore"):
        apart = abs(g - limit) > off
    return not bool(np.any(apart & np.isfinite(off) & np.isfinite(g)))


def _find_limits(case: Case) -> list[Any] | None:
    """Return the limit of each true gradient, with the accuracy of the limit.

    None where overrides are active, since they change gradients on purpose.
    """
    if case.rules or len(case.nodes) > MOST:
        return None
    if "limits" not in case.forms:
        try:
            case.forms["limits"] = _average_neighbours(case)
        except (ArithmeticError, BudgetSpent, TypeError, ValueError, WorkbenchError):
            case.forms["limits"] = None
    found: list[Any] | None = case.forms["limits"]
    return found


def _average_neighbours(case: Case) -> list[Any] | None:
    if not all(isinstance(x._value, _HOST) for x in case.wrt):
        return None  # arrays of another library
    rng = np.random.default_rng(0)
    narrow = any(np.finfo(x.dtype).eps > 1e-10 for x in case.wrt)
    means = []
    for step in NARROW_STEPS if narrow else STEPS:
        shifts = [_draw_shift(x, rng) * step for x in case.wrt]
        one, other = (_differentiate_beside(case, shifts, sign) for sign in (1, -1))
        means.append(
            [
                None if g is None or h is None else (g + h) / 2
                for g, h in zip(one, other, strict=True)
            ]
        )
    found: list[Any] = []
    for far, near in zip(*means, strict=True):
        if far is None or near is None:
            found.append(None)
            continue
        size = np.maximum(abs(far), abs(near))
        sizes = np.where(np.isfinite(size), size, 0)
        top = float(np.max(sizes)) if np.size(sizes) else 0.0
        enough = ENOUGH * np.maximum(size, ENOUGH * top)
        found.append((near, np.where(abs(far - near) <= enough, enough, np.inf)))
    return found


_HOST = (np.ndarray, np.generic, float, complex)


def _draw_shift(x: Tensor, rng: np.random.Generator) -> Any:
    size = float(np.max(np.abs(x._value))) if np.size(x._value) else 0.0
    shift = rng.normal(size=np.shape(x._value)) * (size or 1.0)
    if x.dtype.kind == "c":
        shift = shift + 1j * rng.normal(size=np.shape(x._value)) * (size or 1.0)
    return shift if types.is_weak(x._value) else np.asarray(shift).astype(x.dtype)


def _differentiate_beside(case: Case, shifts: list[Any], sign: int) -> list[Any]:
    """Return the true gradients at a point beside that of the case."""
    tick()
    leaves = [
        make_leaf(x._value + sign * shift)
        for x, shift in zip(case.wrt, shifts, strict=True)
    ]
    outputs = walk.substitute(case.outputs, dict(zip(case.wrt, leaves, strict=True)))
    made = reverse.pull_back(outputs, case.seeds, leaves, nulls_pass=True)
    return [None if g is None else value_of(g) for g in made]


# Diagnoses


class Diagnosis(NamedTuple):
    """The explanation of one node, in the parts of a finding."""

    kind: str
    trouble: str
    evidence: str
    cause: str
    fix: Fix | None = None
    #: The number of the operand to blame, and the mask of its entries.
    operand: int | None = None
    mask: Any = None


def _operand_values(node: Tensor) -> list[Any]:
    return [value_of(a) for a in (node.args or node.inputs)]


def _find_hits(row: SingularPoint, args: list[Any]) -> Any:
    """Return the mask of the entries that a row applies to; None if not computable."""
    try:
        mask = np.asarray(row.where(*args))
    except (TypeError, ValueError):
        return None
    return mask if mask.dtype == bool and mask.any() else None


def _keep_bad(mask: Any, passed: Any) -> Any:
    """Return the masked entries that a rule has passed a nonfinite cotangent to.

    The others may be those that a `where` has left out.
    """
    try:
        found = mask & np.broadcast_to(~np.isfinite(passed), mask.shape)
    except (TypeError, ValueError):
        return mask
    return found if found.any() else mask


def _offer_row_fix(case: Case, row: SingularPoint, node: Tensor) -> Fix | None:
    """Return the fix with a row's line, if proved."""
    dtype = types.spec_of(_operand_values(node)[0]).dtype
    size = np.dtype(dtype).itemsize // (2 if dtype.kind == "c" else 1)
    tiny, near = _SMALL.get(size, ("1e-300", "1e-12"))
    code = row.code
    if dtype.kind == "c":
        code = code.replace(
            "np.maximum({0}, {tiny})", "np.where({0} == 0, {tiny}, {0})"
        )
    settings = {"op": node.op.name, "tiny": tiny, "near": near}
    low, high = (
        eval(bound.format(**settings), {"np": np})  # our own text
        for bound in row.bounds
    )

    def changes(x: Any, *rest: Any) -> Any:
        return ~((x >= low) & (x <= high)) if dtype.kind == "f" else np.equal(x, 0)

    for key, value in settings.items():
        code = code.replace(f"{{{key}}}", value)
    return offer_fix(case, node, row.text, code, changes=changes)


#: What is just beside 0 and beside 1, by the bytes of a float; else that of float64.
_SMALL = {2: ("1e-7", "1e-3"), 4: ("1e-30", "1e-6")}


def _format_operands(node: Tensor, mask: Any, k: int = 0) -> str:
    """Return the number of masked operands and the first of them, as text."""
    count, total = int(mask.sum()), int(mask.size)
    x = np.asarray(_operand_values(node)[k])
    # Of an operand that is broadcast the entry that it has itself.
    index = tuple(
        i if n > 1 else 0
        for i, n in zip(find_first(mask)[mask.ndim - x.ndim :], x.shape, strict=True)
    )
    text = quote_operand(node, k)
    text = "its operand" if text == LEFT_OUT else parenthesize(text) if index else text
    seen = f"{text}{format_index(index)} = {x[index]:.6g}"
    return seen if total == 1 else f"{count:,} of {total:,} entries; {seen}"


def _format_point(x: Any, mask: Any) -> str:
    """Return the first masked operand as text."""
    return f"{np.broadcast_to(x, mask.shape)[find_first(mask)]:.6g}"


# Forward


def diagnose_value(case: Case, node: Tensor) -> Diagnosis:
    """Return why the value of a node is not finite, though its operands are."""
    name, args = node.op.name, _operand_values(node)
    form = find_form(case, node)
    for row in node.op.traits.undefined:
        mask = _find_hits(row, args)
        if mask is not None:
            k = row.blamed % len(args)
            fix = (
                _offer_row_fix(case, row, node)
                if form is None
                else offer_form(case, form)
            )
            numbers, cause = _format_operands(node, mask, k), row.cause
            if row.kind == "log-of-zero" and node.op.compute is np.log and form is None:
                own = find_own_logarithm(node)
                if own is not None:
                    cause += f" {own} takes that logarithm itself, and stays finite."
            return Diagnosis(row.kind, row.trouble, numbers, cause, fix, k, mask)
    dtype = types.spec_of(value_of(first_nonfinite(node._value))).dtype
    how = count_nonfinite(node._value)
    pole = _diagnose_pole(case, node, args, form)
    if pole is not None:
        return pole
    grown = name_nonfinite(node._value) == "inf" and (
        node.op.traits.grows or node.op.elementwise
    )
    if grown or node.op.traits.exponential is not None:
        return _diagnose_overflow(case, node, args, dtype, how, form)
    if node.op.traits.grows and has_both_signs(_bind_params(node), args):
        diagnosis = _diagnose_overflow(case, node, args, dtype, how, form)
        less = "times 0" if "prod" in name else "less infinity"
        return diagnosis._replace(cause=f"{diagnosis.cause} Infinity {less} is NaN.")
    gives = "NaN" if name_nonfinite(node._value) == "nan" else "infinity"
    return Diagnosis(
        "not-finite",
        f"gives {gives} for finite operands",
        f"The result holds {how}.",
        f"{name} is not defined at these operands.",
        None if form is None else form.fix,
    )


def _bind_params(node: Tensor) -> Any:
    return lambda *args: compute_node(node, args)


def _diagnose_pole(
    case: Case, node: Tensor, args: list[Any], form: Any
) -> Diagnosis | None:
    """Explain a function that is infinite at an isolated point; None for others."""
    if not node.op.elementwise or node.op.custom or isinstance(node._value, tuple):
        return None
    if not isinstance(node._value, np.ndarray | np.generic | float | complex):
        return None  # arrays of another library
    k, mask = None, np.asarray(np.isinf(node._value))
    if mask.any():
        k = find_pole(_bind_params(node), args, mask)
    elif (mask := np.asarray(np.isnan(node._value))).any():  # between two signs
        k = find_pole(_bind_params(node), args, mask, both=True)
    if k is None:
        return None
    return Diagnosis(
        "pole",
        f"has a pole at {_format_point(args[k], mask)}",
        _format_operands(node, mask, k),
        f"{node.op.name} grows without bound towards that point; around it it is"
        " finite.",
        None if form is None else form.fix,
    )


def _diagnose_overflow(
    case: Case, node: Tensor, args: list[Any], dtype: Any, how: str, form: Any
) -> Diagnosis:
    limit = np.finfo(dtype).max if dtype.kind in "fc" else 0
    largest = max(map(_max_abs, args), default=0.0)
    evidence = (
        f"Its operands reach {largest:.6g} in size, its result holds {how}; the largest"
        f" {dtype} is {limit:.3g}."
    )
    narrow = dtype.itemsize < (16 if dtype.kind == "c" else 8)
    cause = f"The result is larger than the largest {dtype}"
    cause += "; float64 reaches 1.8e308." if narrow else "."
    fix: Fix | None = None
    if form is not None:
        fix = form.fix
    elif narrow and is_finite_in_float64(node):
        fix = widen_operand(node, "compute it in float64")
    elif (grows := node.op.traits.exponential) is not None:
        fix = _offer_bounded(case, node, grows.log(limit), grows.even)
    return Diagnosis("overflow", "overflows", evidence, cause, fix)


def _offer_bounded(case: Case, node: Tensor, most: float, both: bool) -> Fix | None:
    """Return a fix that bounds the operand of an exponential, on ``both`` sides."""
    top = float(np.ceil(most)) - 1
    bound = (
        f"np.clip({{0}}, -{top:g}, {top:g})" if both else f"np.minimum({{0}}, {top:g})"
    )
    return offer_fix(
        case,
        node,
        f"bound the exponent: beyond {top:g} the value stays constant",
        f"np.{node.op.name}({bound})",
        changes=lambda x: (np.abs(x) if both else x) > top,
    )


def diagnose_infinity(case: Case, node: Tensor) -> Diagnosis:
    """Explain a node that makes NaN from infinite constants."""
    traits = node.op.traits
    if traits.sums and not traits.contracts:
        kind, cause = "inf-minus-inf", "Infinity less infinity is NaN."
        if traits.symbol == "-" and any(
            isinstance(x, Tensor) and x.op.traits.picks == ">" for x in node.inputs
        ):
            cause += (
                " A row that is masked by minus infinity in all entries has no"
                " largest entry to subtract."
            )
    elif traits.contracts or node.op.pairs is not None:
        kind, cause = "zero-times-inf", "0 times infinity is NaN."
    else:
        kind = "not-finite"
        cause = f"{node.op.name} of infinity is not defined here."
    return Diagnosis(
        kind,
        "makes NaN of infinite operands",
        f"The result holds {count_nonfinite(node._value)}.",
        cause,
    )


def first_nonfinite(x: Any) -> Any:
    """Return the first nonfinite one of several outputs; a single output unchanged."""
    if isinstance(x, tuple):
        return next((part for part in x if not is_finite(part)), x[0])
    return x


def _max_abs(x: Any) -> float:
    try:
        x = np.abs(np.asarray(x))
        return float(x.max()) if x.size and x.dtype.kind in "biuf" else 0.0
    except (TypeError, ValueError):
        return 0.0


# Backward


def diagnose_slope(case: Case, node: Tensor, g: Any, passed: list[Any]) -> Diagnosis:
    """Explain a rule that makes bad cotangents from a finite one."""
    name, args = node.op.name, _operand_values(node)
    bad = next(p for p in passed if p is not None and not is_finite(p))
    how = count_nonfinite(bad)
    rule = None if case.rules is None else case.rules.get(node.serial)
    if rule is not None:
        label = getattr(rule, "label", "") or "an override"
        return Diagnosis(
            "override-not-finite",
            f"has an override that passes on {_name_bad(bad)}",
            f"A finite gradient of norm {_format_norm(g)} arrives, and {label} makes"
            f" {how}.",
            f"The rule of the override {label!r} is not finite at these values.",
            offer_rule(case, node, "nothing where the rule is not finite", [MEND]),
        )
    form = find_form(case, node, with_slopes=True)
    for row in node.op.traits.steep:
        mask = _find_hits(row, args)
        if mask is not None:
            mask = _keep_bad(mask, bad)
            k = row.blamed % len(args)
            text = f"a gradient of 0 where the slope of {name} is infinite"
            safe = node.op.traits.safe
            rules = [safe, *ENTRIES] if safe else ENTRIES
            diagnosis = Diagnosis(
                row.kind,
                row.trouble,
                f"{_format_operands(node, mask, k)}; passed on: {how}.",
                row.cause,
                offer_rule(case, node, text, rules, form),
                k,
                mask,
            )
            return _add_dropped(case, node, g, diagnosis)
    singular, mask = _find_infinite_slope(node, g)
    if singular is not None:
        text = f"a gradient of 0 where the slope of {name} is infinite"
        diagnosis = Diagnosis(
            "infinite-slope",
            f"has an infinite slope at {_format_point(args[singular], mask)}",
            f"{_format_operands(node, mask, singular)}; passed on: {how}.",
            f"The slope of {name} grows without bound towards that point; around it it"
            " is finite.",
            offer_rule(case, node, text, ENTRIES, form),
            None,
            mask,
        )
        return _add_dropped(case, node, g, diagnosis)
    bad_operands = [k for k, a in enumerate(args) if not _is_finite(a)]
    if bad_operands or not is_finite(node._value):
        what = (
            f"Its operand {quote_operand(node, bad_operands[0])}"
            if bad_operands
            else "Its value"
        )
        text = "nothing where the slope is not finite"
        fix = offer_rule(case, node, text, ENTRIES) if form is None else form.fix
        overflowed = not bad_operands and node.op.traits.exponential is not None
        return Diagnosis(
            "overflow" if overflowed else "zero-times-inf",
            "has overflowed, and its slope with it"
            if overflowed
            else "multiplies infinity by 0 on the way back",
            f"{what} is not finite; passed on: {how}.",
            "The value is infinite, so its slope is too; times a gradient of 0 it is"
            " NaN.",
            fix,
        )
    if (basis := node.op.traits.basis) is not None:
        return Diagnosis(
            "undetermined",
            f"has undetermined vectors of a repeated {basis.name}",
            f"A finite gradient of norm {_format_norm(g)} arrives; passed on: {how}.",
            "Every basis of their space is equally valid, rounding chooses one, and the"
            " result depends on the choice. What does not has a slope: write it with"
            " the values and vectors of one call, or a function of a matrix as"
            " workbench.scipy.linalg's expm, logm or sqrtm.",
            offer_rule(case, node, "nothing where there is no slope", ENTRIES),
        )
    if name_nonfinite(bad) == "inf" and not node.op.custom:
        dtype = types.spec_of(value_of(first_nonfinite(bad))).dtype
        return Diagnosis(
            "gradient-overflow",
            f"passes on a gradient larger than {dtype} holds",
            f"A gradient of norm {_format_norm(g)} arrives; passed on: {how}.",
            f"The product with the slope of {name} overflows {dtype}.",
            offer_rule(case, node, "bound the gradient that flows there", BOUNDED),
        )
    return Diagnosis(
        "rule-not-finite",
        f"passes on {_name_bad(bad)}",
        f"A finite gradient of norm {_format_norm(g)} arrives; passed on: {how}.",
        f"The rule of {name} ({node.op.rule or 'its own'}) is not finite at these"
        " values.",
        offer_rule(case, node, "nothing where the rule is not finite", ENTRIES),
    )


def _find_infinite_slope(node: Tensor, g: Any) -> tuple[int | None, Any]:
    """Return the operand with an isolated point of infinite slope, and the mask."""
    args, pull = _operand_values(node), node.op.pull
    if not node.op.elementwise or node.op.custom or pull is None:
        return None, None
    if not all(map(_is_finite, args)) or not is_finite(node._value):
        return None, None
    shape = np.shape(node._value)
    ones = np.ones(shape, types.spec_of(value_of(g)).dtype)
    each = [np.broadcast_to(a, shape) for a in args]

    def slopes(*moved: Any) -> Any:
        y = compute_node(node, moved)
        made = pull((1 << len(moved)) - 1, ones, y, moved, node.params)
        found = [np.broadcast_to(value_of(c), shape) for c in made if c is not None]
        return np.sum(np.abs(found), axis=0)

    mask = np.asarray(np.isinf(slopes(*each)))
    return (find_pole(slopes, each, mask), mask) if mask.any() else (None, None)


def offer_rule(
    case: Case,
    node: Tensor,
    text: str,
    rules: list[str],
    form: EquivalentLine | None = None,
) -> Fix | None:
    """Return a fix with the first rule that mends a node, or with the form; or None."""
    rule = choose_rule(case, node, rules)
    if rule is None:
        return None if form is None else form.fix
    if form is not None:
        text = f"{text}; or write {form.code}"
    edit = None if form is None else form.edit
    return Fix(text, _write_override(node, rule), rule, edit=edit)


def _is_finite(a: Any) -> bool:
    try:
        return is_finite(a if isinstance(a, tuple) else np.asarray(a))
    except (TypeError, ValueError):
        return True


def _describe_zero_cotangent(g: Any, mask: Any) -> str:
    """Return a sentence if a cotangent of 0 meets an infinite slope, else nothing."""
    if isinstance(g, tuple) or np.shape(g) != mask.shape:
        return ""
    if bool(np.all(np.asarray(value_of(g))[mask] == 0)):
        return " The gradient that arrives there is 0, and 0 times infinity is NaN."
    return ""


def _add_dropped(case: Case, node: Tensor, g: Any, diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis with the node that drops the bad entries, where one does."""
    zero = _describe_zero_cotangent(g, diagnosis.mask)
    if not zero:
        return diagnosis
    found = find_dropped(case, node, diagnosis.mask)
    if found is None:
        return diagnosis._replace(cause=diagnosis.cause + zero)
    fix = diagnosis.fix
    if fix is None:
        fix = found.fix
    elif found.fix is not None and "; or write" not in fix.text:
        text = f"{fix.text}; or write {found.fix.code}"
        fix = replace(fix, text=text, edit=found.fix.edit)
    return diagnosis._replace(cause=f"{diagnosis.cause}{zero}{found.cause}", fix=fix)


def _name_bad(bad: Any) -> str:
    return "NaN" if name_nonfinite(bad) == "nan" else "infinity"


def _format_norm(g: Any) -> str:
    return f"{measure_norm(g)[0]:.3g}"


def _write_override(node: Tensor, rule: str) -> str:
    return f'wb.override("{node.op.name}", "{rule}")'


# Entries that a program drops, but whose NaN stays in the gradient.
#
# ``(x > 0) * np.log(x)``, ``np.fmax(np.log(x), -5)``, ``np.minimum(1 / x, 9)``,
# ``np.log(x)[2]``: the entries that are not finite are not wanted, but 0 times infinity
# is NaN, in the value or on the way back. `np.where` sends nothing to the branch that
# it leaves out. From the blamed node a walk finds the node that drops its bad entries.

#: The most nodes that the walk visits.
MOST_VISITED = 40


class Dropped(NamedTuple):
    """The node that drops the bad entries of another, in a sentence, and a fix."""

    node: Tensor
    cause: str
    fix: Fix | None


def find_dropped(case: Case, node: Tensor, bad: Any) -> Dropped | None:
    """Return the node that drops these entries of a node; None if they are used."""
    if not isinstance(bad, np.ndarray | np.generic | bool):
        return None  # arrays of another library
    bad = np.asarray(bad)
    if isinstance(node._value, tuple) or bad.shape != np.shape(node._value):
        return None
    if not bad.any():
        return None
    stack, seen = [(node, bad)], {node.serial}
    while stack and len(seen) < MOST_VISITED:
        x, bad = stack.pop(0)
        for reader in case.readers.get(x.serial, ()):
            if reader.serial in seen or isinstance(reader._value, tuple):
                continue
            seen.add(reader.serial)
            k = next(i for i, a in enumerate(reader.inputs) if a is x)
            found = _explain_drop(case, node, reader, k, bad)
            if found is not None:
                return found
            further = _carry_mask(reader, k, bad)
            if further is not None:
                stack.append((reader, further))
    return None


def _explain_drop(
    case: Case, origin: Tensor, node: Tensor, k: int, bad: Any
) -> Dropped | None:
    """Return the explanation if a node drops the bad entries of its operand k."""
    traits, y = node.op.traits, np.asarray(node._value)
    if traits.symbol == "*":
        other = np.broadcast_to(value_of(node.inputs[1 - k]), y.shape)
        if not (other[np.broadcast_to(bad, y.shape)] == 0).all():
            return None
        truth = other.dtype == bool
        kept = f"{{{1 - k}}}" if truth else f"{{{1 - k}}} != 0"
        value = f"{{{k}}}" if truth else "{0} * {1}"
        what = (
            f"multiplies by 0 there, with {_quote_other(node, 1 - k)}: 0 times infinity"
            " or NaN is NaN, and a product masks nothing"
        )
        return _make_dropped(case, node, what, f"np.where({kept}, {value}, 0)")
    if traits.picks and len(node.inputs) == 2:
        mine = np.broadcast_to(value_of(node.inputs[k]), y.shape)
        there = np.broadcast_to(bad, y.shape)
        if not np.isfinite(y[there]).all() or (mine[there] == y[there]).any():
            return None
        return _make_dropped(
            case, node, "takes the other operand there, and sends back 0",
            f"np.where({{0}} {traits.picks} {{1}}, {{0}}, {{1}})",
        )  # fmt: skip
    if traits.moves and k == 0:
        rest = [value_of(a) for a in node.inputs[1:]]
        if not np.shape(bad) or np.any(compute_node(node, (bad, *rest))):
            return None
        return Dropped(
            node,
            f" {_describe_node(node)} does not use these entries, and sends back 0:"
            " take the entries that are used before the computation.",
            _offer_taking_first(case, origin, node),
        )
    return None


def _make_dropped(case: Case, node: Tensor, what: str, code: str) -> Dropped:
    text = "choose with np.where, which sends nothing to its other branch"
    return Dropped(
        node,
        f" {_describe_node(node)} {what}; np.where leaves it out in values and"
        " gradients.",
        offer_fix(case, node, text, code),
    )


def _describe_node(node: Tensor) -> str:
    return f"{node.op.name}{blame.quote_site(node.site)}"


def _quote_other(node: Tensor, k: int) -> str:
    text = quote_operand(node, k)
    return "its other operand" if text == LEFT_OUT else text


def _offer_taking_first(case: Case, origin: Tensor, node: Tensor) -> Fix | None:
    """Return a fix that indexes the operand in place of the result."""
    name = origin.op.name
    if node.op is not GETITEM or node.inputs[0] is not origin:
        return None
    if not origin.op.elementwise or len(origin.inputs) != 1 or not hasattr(np, name):
        return None
    o = Operands()
    code = f"np.{name}({o(origin, 0)}[{o.name_index(node)}])"
    form = prove(case, EquivalentLine("take the entries first", code, node), o)
    return None if form is None else Fix(form.name, form.code, edit=form.edit)


def _carry_mask(node: Tensor, k: int, bad: Any) -> Any:
    """Return the mask of bad entries after a node, from that of its operand k."""
    shape = np.shape(node._value)
    if node.op.traits.moves and k == 0:
        rest = map(value_of, node.inputs[1:])
        return np.asarray(compute_node(node, (bad, *rest)), bool)
    if node.op.joins is not None or not node.op.elementwise:
        return None
    return np.broadcast_to(bad, shape) if np.ndim(bad) <= len(shape) else None
