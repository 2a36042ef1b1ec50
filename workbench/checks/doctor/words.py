"""Why a value or slope is not finite: plain words, what to write or attach.

The rows of `singular.py` say it op by op; `forms.py` knows better lines where an op is
part of a form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor.case import Case, at, counted, finite, first, kinds, size
from workbench.checks.doctor.equivalence import Form, is_finite_in_float64, offer
from workbench.checks.doctor.finding import Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.singular import (
    BOUNDED,
    ENTRIES,
    EXPONENTIAL,
    GROWING,
    MEND,
    SAFE,
    SLOPES,
    VALUES,
    Row,
    has_both_signs,
    is_isolated,
)
from workbench.checks.doctor.spelling import LEFT_OUT, closed, operand, spell
from workbench.checks.doctor.vectors import BASES
from workbench.checks.doctor.zeros import dropped
from workbench.core import types, walk
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.errors import WorkbenchError
from workbench.overrides.override import override
from workbench.overrides.override_blocks import resolve_call

# The gradient rules that the doctor says to attach, tried before they are told.
#
# A rule is attached to the node to blame and the sweep runs once more. It must pass on
# what is finite, and the gradients must be the true ones wherever these have a limit:
# the gradients beside the point, on opposite sides of it, in mean. So a distance at 0,
# whose slopes are 1 and -1 beside it, has the limit 0, and what another pair of points
# adds to it has its own; a root at 0 has none, and nothing is asked of it.

#: Of programs with more nodes no limit is asked: it takes four more runs.
MOST = 20_000
#: How far the points beside are, in the size of what is differentiated by.
STEPS = (1e-4, 1e-5)
NARROW_STEPS = (1e-2, 3e-3)
#: How far apart what shall be the same may be.
ENOUGH = 1e-2


def choose_rule(case: Case, node: Tensor, rules: list[str]) -> str | None:
    """Return the first of some rules that mends a node; None if none does."""
    for rule in rules:
        if _mends(case, node, rule):
            return rule
    return None


def _mends(case: Case, node: Tensor, rule: str) -> bool:
    passed: list[Any] = []

    def visit(seen: reverse.Visit) -> None:
        if seen.node.serial == node.serial:
            passed.extend(c for c in seen.passed if c is not None)

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
    if not all(finite(c) for c in passed):
        return False
    limits = _limits(case)
    if limits is None:
        return True
    return all(
        g is None or limit is None or _agrees(value_of(g), *limit)
        for g, limit in zip(made, limits, strict=True)
    )


def _agrees(g: Any, limit: Any, off: Any) -> bool:
    """Return whether a gradient is the limit, where it is finite and one is known."""
    with np.errstate(all="ignore"):
        apart = abs(g - limit) > off
    return not bool(np.any(apart & np.isfinite(off) & np.isfinite(g)))


def _limits(case: Case) -> list[Any] | None:
    """Return the true gradient beside the point, in mean, and how well it is known.

    None for all where overrides are in force: what they do is meant.
    """
    if case.rules or len(case.nodes) > MOST:
        return None
    if "limits" not in case.forms:
        try:
            case.forms["limits"] = _find_means_beside(case)
        except (ArithmeticError, TypeError, ValueError, WorkbenchError):
            case.forms["limits"] = None
    found: list[Any] | None = case.forms["limits"]
    return found


def _find_means_beside(case: Case) -> list[Any] | None:
    if not all(isinstance(x._value, _HOST) for x in case.wrt):
        return None  # arrays of another library
    rng = np.random.default_rng(0)
    narrow = any(np.finfo(x.dtype).eps > 1e-10 for x in case.wrt)
    means = []
    for step in NARROW_STEPS if narrow else STEPS:
        shifts = [_shift(x, rng) * step for x in case.wrt]
        one, other = (_gradients(case, shifts, sign) for sign in (1, -1))
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


def _shift(x: Tensor, rng: np.random.Generator) -> Any:
    size = float(np.max(np.abs(x._value))) if np.size(x._value) else 0.0
    shift = rng.normal(size=np.shape(x._value)) * (size or 1.0)
    if x.dtype.kind == "c":
        shift = shift + 1j * rng.normal(size=np.shape(x._value)) * (size or 1.0)
    return shift if types.is_weak(x._value) else np.asarray(shift).astype(x.dtype)


def _gradients(case: Case, shifts: list[Any], sign: int) -> list[Any]:
    """Return the true gradients at a point beside that of the case."""
    leaves = [
        make_leaf(x._value + sign * shift)
        for x, shift in zip(case.wrt, shifts, strict=True)
    ]
    outputs = walk.substitute(case.outputs, dict(zip(case.wrt, leaves, strict=True)))
    made = reverse.pull_back(outputs, case.seeds, leaves, nulls_pass=True)
    return [None if g is None else value_of(g) for g in made]


# What is said


class Told(NamedTuple):
    """What there is to say of a node."""

    kind: str
    trouble: str
    evidence: str
    cause: str
    fix: Fix | None = None
    #: Which operand it hangs on, and at which entries.
    operand: int | None = None
    mask: Any = None


def _args(node: Tensor) -> list[Any]:
    return [value_of(a) for a in (node.args or node.inputs)]


def _hits(row: Row, args: list[Any]) -> Any:
    """Return where a row applies; None where it cannot be asked."""
    try:
        mask = np.asarray(row.where(*args))
    except (TypeError, ValueError):
        return None
    return mask if mask.dtype == bool and mask.any() else None


def _mended(case: Case, row: Row, node: Tensor) -> Fix | None:
    """Return the line of a row, if it is proved."""
    dtype = types.spec_of(_args(node)[0]).dtype
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
    return offer(case, node, row.text, code, changes=changes)


#: What is just beside 0 and beside 1, by the bytes of a float; else that of float64.
_SMALL = {2: ("1e-7", "1e-3"), 4: ("1e-30", "1e-6")}


def _numbers(node: Tensor, mask: Any, k: int = 0) -> str:
    """Return how many operands are there, and the first of them."""
    count, total = int(mask.sum()), int(mask.size)
    x = np.broadcast_to(_args(node)[k], mask.shape)
    index = first(mask)
    text = operand(node, k)
    text = "its operand" if text == LEFT_OUT else closed(text) if index else text
    seen = f"{text}{at(index)} = {x[index]:.6g}"
    return seen if total == 1 else f"{count:,} of {total:,} entries; {seen}"


def _point(x: Any, mask: Any) -> str:
    """Return the first operand there."""
    return f"{np.broadcast_to(x, mask.shape)[first(mask)]:.6g}"


# Forward


def value(case: Case, node: Tensor) -> Told:
    """Return why the value of a node is not finite, though its operands are."""
    name, args = node.op.name, _args(node)
    form = form_of(case, node)
    for row in VALUES.get(name, ()):
        mask = _hits(row, args)
        if mask is not None:
            k = len(node.inputs) - 1 if row.kind == "division-by-zero" else 0
            k = 0 if name in ("power", "float_power") else k
            fix = _mended(case, row, node) if form is None else form.fix
            numbers = _numbers(node, mask, k)
            return Told(row.kind, row.trouble, numbers, row.cause, fix, k, mask)
    dtype = types.spec_of(value_of(flat_first(node._value))).dtype
    how = counted(node._value)
    pole = _pole(case, node, args, form)
    if pole is not None:
        return pole
    grown = kinds(node._value) == "inf" and (name in GROWING or node.op.elementwise)
    if grown or name in EXPONENTIAL:
        return _overflow(case, node, args, dtype, how, form)
    if name in GROWING and has_both_signs(_computed(node), args):
        told = _overflow(case, node, args, dtype, how, form)
        less = "times 0" if "prod" in name else "less infinity"
        return told._replace(cause=f"{told.cause} Infinity {less} is NaN.")
    gives = "NaN" if kinds(node._value) == "nan" else "infinity"
    return Told(
        "not-finite",
        f"gives {gives} for finite operands",
        f"The result holds {how}.",
        f"{name} is not defined at these operands.",
        None if form is None else form.fix,
    )


def _computed(node: Tensor) -> Any:
    return lambda *args: node.op.compute(*args, **node.params)


def _pole(case: Case, node: Tensor, args: list[Any], form: Any) -> Told | None:
    """What to say of a function that is infinite at a point, and finite beside it."""
    if not node.op.elementwise or node.op.custom or isinstance(node._value, tuple):
        return None
    if not isinstance(node._value, np.ndarray | np.generic | float | complex):
        return None  # arrays of another library
    k, mask = None, np.asarray(np.isinf(node._value))
    if mask.any():
        k = is_isolated(_computed(node), args, mask)
    elif (mask := np.asarray(np.isnan(node._value))).any():  # between two signs
        k = is_isolated(_computed(node), args, mask, both=True)
    if k is None:
        return None
    return Told(
        "pole",
        f"has a pole at {_point(args[k], mask)}",
        _numbers(node, mask, k),
        f"{node.op.name} grows without bound towards that point; beside it it is"
        " finite.",
        None if form is None else form.fix,
    )


def _overflow(
    case: Case, node: Tensor, args: list[Any], dtype: Any, how: str, form: Any
) -> Told:
    name = node.op.name
    limit = np.finfo(dtype).max if dtype.kind in "fc" else 0
    largest = max(map(_largest, args), default=0.0)
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
        fix = Fix("compute it in float64", spell(node, "{0}.astype(np.float64)"))
    elif name in EXPONENTIAL:
        fix = _bounded(case, node, np.log2(limit) if name == "exp2" else np.log(limit))
    return Told("overflow", "overflows", evidence, cause, fix)


def _bounded(case: Case, node: Tensor, most: float) -> Fix | None:
    """An exponential whose operand is bounded, on both sides if both overflow."""
    top = float(np.ceil(most)) - 1
    both = node.op.name in ("sinh", "cosh")
    bound = (
        f"np.clip({{0}}, -{top:g}, {top:g})" if both else f"np.minimum({{0}}, {top:g})"
    )
    return offer(
        case,
        node,
        f"bound the exponent: beyond {top:g} the value stays what it is there",
        f"np.{node.op.name}({bound})",
        changes=lambda x: (np.abs(x) if both else x) > top,
    )


def from_infinity(case: Case, node: Tensor) -> Told:
    """Return why a node makes NaN of infinities that were meant to be there."""
    name = node.op.name
    if name in ("subtract", "add", "sum", "mean"):
        kind, cause = "inf-minus-inf", "Infinity less infinity is NaN."
        if name == "subtract" and any(
            isinstance(x, Tensor) and x.op.name == "max" for x in node.inputs
        ):
            cause += (
                " A row that is masked by minus infinity all along has no largest"
                " entry to subtract."
            )
    elif name in ("multiply", "matmul", "einsum", "tensordot"):
        kind, cause = "zero-times-inf", "0 times infinity is NaN."
    else:
        kind, cause = "not-finite", f"{name} of infinity is not defined here."
    return Told(
        kind,
        "makes NaN of infinite operands",
        f"The result holds {counted(node._value)}.",
        cause,
    )


def flat_first(x: Any) -> Any:
    """The first array that is not finite of several outputs, or the one there is."""
    if isinstance(x, tuple):
        return next((part for part in x if not finite(part)), x[0])
    return x


def _largest(x: Any) -> float:
    try:
        x = np.abs(np.asarray(x))
        return float(x.max()) if x.size and x.dtype.kind in "biuf" else 0.0
    except (TypeError, ValueError):
        return 0.0


# Backward


def slope(case: Case, node: Tensor, g: Any, passed: list[Any]) -> Told:
    """Why a rule passes on what is not finite, though a finite cotangent arrived."""
    name, args = node.op.name, _args(node)
    bad = next(p for p in passed if p is not None and not finite(p))
    how = counted(bad)
    rule = None if case.rules is None else case.rules.get(node.serial)
    if rule is not None:
        label = getattr(rule, "label", "") or "an override"
        return Told(
            "override-not-finite",
            f"has an override that passes on {_what(bad)}",
            f"A finite gradient of norm {_norm(g)} arrives, and {label} makes {how}.",
            f"The rule of the override {label!r} is not finite at these values.",
            attached(case, node, "nothing where the rule is not finite", [MEND]),
        )
    form = form_of(case, node, sloped=True)
    for row in SLOPES.get(name, ()):
        mask = _hits(row, args)
        if mask is not None:
            k = len(node.inputs) - 1 if name == "divide" else 0
            text = f"a gradient of 0 where the slope of {name} is infinite"
            rules = [SAFE[name], *ENTRIES] if name in SAFE else ENTRIES
            told = Told(
                row.kind,
                row.trouble,
                f"{_numbers(node, mask, k)}; passed on: {how}.",
                row.cause,
                attached(case, node, text, rules, form),
                k,
                mask,
            )
            return _unwanted(case, node, g, told)
    steep, mask = _steep(node, g)
    if steep is not None:
        text = f"a gradient of 0 where the slope of {name} is infinite"
        told = Told(
            "infinite-slope",
            f"has an infinite slope at {_point(args[steep], mask)}",
            f"{_numbers(node, mask, steep)}; passed on: {how}.",
            f"The slope of {name} grows without bound towards that point; beside it it"
            " is finite.",
            attached(case, node, text, ENTRIES, form),
            None,
            mask,
        )
        return _unwanted(case, node, g, told)
    wild = [k for k, a in enumerate(args) if not _finite(a)]
    if wild or not finite(node._value):
        what = f"Its operand {operand(node, wild[0])}" if wild else "Its value"
        text = "nothing where the slope is not finite"
        fix = attached(case, node, text, ENTRIES) if form is None else form.fix
        overflowed = not wild and name in EXPONENTIAL
        return Told(
            "overflow" if overflowed else "zero-times-inf",
            "has overflowed, and its slope with it"
            if overflowed
            else "multiplies infinity by 0 on the way back",
            f"{what} is not finite; passed on: {how}.",
            "The value is infinite, so its slope is too: times the 0 that arrives it"
            " is NaN.",
            fix,
        )
    if name in BASES and not node.op.custom:
        return Told(
            "undetermined",
            f"has vectors of a repeated {BASES[name]}, which nothing determines",
            f"A finite gradient of norm {_norm(g)} arrives; passed on: {how}.",
            "Any basis of its space is as good as another, rounding chooses one, and"
            " the result hangs on the choice: it has no slope.",
            attached(case, node, "nothing where there is no slope", ENTRIES),
        )
    if kinds(bad) == "inf" and not node.op.custom:
        dtype = types.spec_of(value_of(flat_first(bad))).dtype
        return Told(
            "gradient-overflow",
            f"passes on a gradient larger than {dtype} holds",
            f"A gradient of norm {_norm(g)} arrives; passed on: {how}.",
            f"The product with the slope of {name} overflows {dtype}.",
            attached(case, node, "bound the gradient that flows there", BOUNDED),
        )
    return Told(
        "rule-not-finite",
        f"passes on {_what(bad)}",
        f"A finite gradient of norm {_norm(g)} arrives; passed on: {how}.",
        f"The rule of {name} ({node.op.rule or 'its own'}) is not finite at these"
        " values.",
        attached(case, node, "nothing where the rule is not finite", ENTRIES),
    )


def _steep(node: Tensor, g: Any) -> tuple[int | None, Any]:
    """The operand at which a slope is infinite at a point, and finite beside it."""
    args, pull = _args(node), node.op.pull
    if not node.op.elementwise or node.op.custom or pull is None:
        return None, None
    if not all(map(_finite, args)) or not finite(node._value):
        return None, None
    shape = np.shape(node._value)
    ones = np.ones(shape, types.spec_of(value_of(g)).dtype)
    each = [np.broadcast_to(a, shape) for a in args]

    def slopes(*moved: Any) -> Any:
        y = node.op.compute(*moved, **node.params)
        made = pull((1 << len(moved)) - 1, ones, y, moved, node.params)
        found = [np.broadcast_to(value_of(c), shape) for c in made if c is not None]
        return np.sum(np.abs(found), axis=0)

    mask = np.asarray(np.isinf(slopes(*each)))
    return (is_isolated(slopes, each, mask), mask) if mask.any() else (None, None)


def attached(
    case: Case, node: Tensor, text: str, rules: list[str], form: Form | None = None
) -> Fix | None:
    """The first rule that mends a node, and what to write instead; None if none."""
    rule = choose_rule(case, node, rules)
    if rule is None:
        return None if form is None else form.fix
    if form is not None:
        text = f"{text}; or write {form.code}"
    return Fix(text, _line(node, rule), rule)


def _finite(a: Any) -> bool:
    try:
        return finite(a if isinstance(a, tuple) else np.asarray(a))
    except (TypeError, ValueError):
        return True


def _zero_arrives(g: Any, mask: Any) -> str:
    """Return what 0 · inf is, where a cotangent of 0 meets an infinite slope."""
    if isinstance(g, tuple) or np.shape(g) != mask.shape:
        return ""
    if bool(np.all(np.asarray(value_of(g))[mask] == 0)):
        return " The gradient that arrives there is 0, and 0 times infinity is NaN."
    return ""


def _unwanted(case: Case, node: Tensor, g: Any, told: Told) -> Told:
    """What is said of a slope, and where it is multiplied by 0 who made that 0."""
    zero = _zero_arrives(g, told.mask)
    if not zero:
        return told
    found = dropped(case, node, told.mask)
    if found is None:
        return told._replace(cause=told.cause + zero)
    fix = told.fix
    if fix is None:
        fix = found.fix
    elif found.fix is not None and "; or write" not in fix.text:
        fix = replace(fix, text=f"{fix.text}; or write {found.fix.code}")
    return told._replace(cause=f"{told.cause}{zero}{found.cause}", fix=fix)


def _what(bad: Any) -> str:
    return "NaN" if kinds(bad) == "nan" else "infinity"


def _norm(g: Any) -> str:
    return f"{size(g)[0]:.3g}"


def _line(node: Tensor, rule: str) -> str:
    return f'wb.override("{node.op.name}", "{rule}")'
