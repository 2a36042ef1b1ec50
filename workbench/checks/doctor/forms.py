"""Stable forms: what to write for an expression that overflows or loses its digits.

Each is found from the node at its heart (the `exp` of a log-sum-exp, the `subtract` of
``1 - cos(x)``), in the ways people write it. What is found here is a draft: where it
gives other values, at another axis or of an operand that was lost, `equivalence.py`
refuses it, and the next one is tried; it also puts in the user's own names.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import WIDER, WIDEST, Case, again, first
from workbench.checks.doctor.equivalence import (
    Form,
    Operands,
    prove,
)
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.spelling import LEFT_OUT, operand, spell
from workbench.core import walk
from workbench.core.tensor import Tensor, value_of

# What forms are read off with: what an operand was, its readers, what it is called.

#: What an operand may pass through and still be the operand.
THROUGH = {
    "reshape",
    "broadcast_to",
    "getitem",
    "transpose",
    "copy",
    "strong",
    "astype",
}
SUMS = {"sum", "mean"}


def inner(x: Any) -> Any:
    """Return what an operand was before it was only reshaped."""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        x = x.inputs[0]
    return x


def is_op(x: Any, *names: str) -> bool:
    """Return whether an operand is the result of one of some ops."""
    return isinstance(x, Tensor) and x.op.name in names


def number(x: Any) -> float | None:
    """Return a constant that is one number."""
    if isinstance(x, Tensor):
        if x.inputs or x.name is not None:
            return None
        x = x._value
    if isinstance(x, (int, float)):
        return float(x)
    if getattr(x, "shape", None) == () and x.dtype.kind in "iuf":
        return float(x)
    return None


def after(case: Case, node: Tensor, *names: str) -> Iterator[Tensor]:
    """The readers of a node that are one of some ops, past those that only reshape."""
    stack = list(case.readers.get(node.serial, ()))
    for reader in stack:
        if reader.op.name in names:
            yield reader
        elif reader.op.name in THROUGH and len(stack) < 50:
            stack += case.readers.get(reader.serial, ())


def axis_of(node: Tensor) -> str:
    """Return the settings of a reduction as one writes them behind its operand."""
    told = ""
    axis = node.params.get("axis")
    if axis is not None:
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        told += f", axis={axis}"
    if node.params.get("keepdims"):
        told += ", keepdims=True"
    return told


def axes_of(total: Tensor) -> list[str]:
    """Return the settings that a reduction may need where its result is broadcast."""
    axis = axis_of(total).replace(", keepdims=True", "")
    return [f"{axis}, keepdims=True", axis]


def is_squared(x: Any) -> bool:
    """Return whether it is a square."""
    return (
        is_op(x, "square")
        or (is_op(x, "power") and number(x.inputs[1]) == 2)
        or (is_op(x, "multiply") and x.inputs[0] is x.inputs[1])
    )


def taken(x: Any, o: Operands) -> str:
    """Return what is taken of an operand on its way: ``"[_1]"``, or nothing."""
    text = ""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        if x.op.name == "getitem":
            text = f"[{o.index(x)}]{text}"
        x = x.inputs[0]
    return text


# The forms


def form_of(case: Case, node: Tensor, sloped: bool = False) -> Form | None:
    """Return the better form for what a node is part of; None where none is known.

    ``sloped`` asks for one whose gradient is finite at these values as well.
    """
    finder = FINDERS.get(node.op.name)
    if finder is None:
        return None
    key = node.serial, sloped
    if key not in case.forms:
        o = Operands()
        proved = (prove(case, draft, o, sloped) for draft in finder(case, node, o))
        case.forms[key] = next((form for form in proved if form is not None), None)
    found: Form | None = case.forms[key]
    return found


# Around exp


def _exp(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for reader in after(case, node, "sum", "add", "subtract"):
        for log in after(case, reader, "log"):
            yield from _log(case, log, o)
        for share in after(case, reader, "divide", "reciprocal"):
            yield from _share(case, share, o)
    for share in after(case, node, "divide"):
        yield from _share(case, share, o)
    for log in after(case, node, "log1p"):
        yield Form("softplus", f"np.logaddexp(0, {o(node)}{taken(log, o)})", log)


def _share(case: Case, share: Tensor, o: Operands) -> Iterator[Form]:
    """The forms of a quotient of exponentials, and of its logarithm."""
    for log in after(case, share, "log"):
        yield from _log(case, log, o)
    above, below = (share.inputs[0], inner(share.inputs[-1]))
    if share.op.name == "reciprocal":
        above = None
    if is_op(below, "sum") and is_op(inner(above), "exp"):
        for code in _log_share(above, below, o):
            yield Form("softmax", f"np.exp({code})", share)
    if not is_op(below, "add"):
        return
    for k in (0, 1):
        exp = inner(below.inputs[k])
        if not is_op(exp, "exp"):
            continue
        z = o(exp)
        if is_op(inner(above), "exp"):
            code = f"{EXPIT}({o(inner(above))} - {z})"
            yield Form("sigmoid", code, share)
        if number(below.inputs[1 - k]) != 1:
            continue
        if is_op(inner(above), "exp"):
            yield Form("sigmoid", f"{EXPIT}({z})", share)
        elif above is None or number(above) == 1:
            yield Form("sigmoid", f"{EXPIT}(-{z})", share)
        else:
            yield Form("sigmoid", f"{o(share)} * {EXPIT}(-{z})", share)


def _log_share(above: Any, total: Tensor, o: Operands) -> Iterator[str]:
    """The logarithm of an exponential over a sum of others, in the ways it may be."""
    entries = inner(total.inputs[0])
    if not is_op(entries, "exp"):
        return
    a = f"{o(inner(above))}{taken(above, o)}"
    b = f"{o(entries)}{taken(total.inputs[0], o)}"
    for axis in axes_of(total):
        yield f"{a} - wb.logsumexp({b}{axis})"


EXPIT = "workbench.scipy.special.expit"

# Around log

#: What overflows or becomes 0 long before its logarithm does.
LOGARITHMS = {
    "prod": (
        "the logarithm of a product of numbers above 0",
        "np.sum(np.log({0}){axis})",
        True,
    ),
    "cumprod": (
        "the logarithm of a product of numbers above 0",
        "np.cumsum(np.log({0}){axis})",
        True,
    ),
    "det": ("the logarithm of a determinant", "np.linalg.slogdet({0})[1]", False),
    "gamma": (
        "the logarithm of the gamma function",
        "workbench.scipy.special.gammaln({0})",
        False,
    ),
}


def _below_log(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for log in after(case, node, "log"):
        yield from _log(case, log, o)


def _log(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    """The forms of a logarithm, with the entries that are taken before it."""
    entries = taken(node.inputs[0], o)
    for form in _log_of(inner(node.inputs[0]), node, o):
        code = f"({form.code}){entries}" if entries else form.code
        yield form._replace(code=code)


def _log_of(x: Any, node: Tensor, o: Operands) -> Iterator[Form]:
    """The forms of the logarithm of an operand."""
    if is_op(x, "sum") and is_op(inner(x.inputs[0]), "exp"):
        z = f"{o(inner(x.inputs[0]))}{taken(x.inputs[0], o)}"
        yield Form("log-sum-exp", f"wb.logsumexp({z}{axis_of(x)})", node)
    if is_op(x, "divide", "reciprocal"):
        yield from _log_of_quotient(x, node, o)
    if is_op(x, "expit"):
        yield Form("log of a sigmoid", f"-np.logaddexp(0, -{o(x)})", node)
    if is_op(x, "softmax"):
        code = f"workbench.scipy.special.log_softmax({o(x)}{axis_of(x)})"
        yield Form("log-softmax", code, node)
    if is_op(x, *LOGARITHMS):
        name, code, positive = LOGARITHMS[x.op.name]
        yield Form(name, code.format(o(x), axis=axis_of(x)), node, positive)
    if is_op(x, "add"):
        a, b = map(inner, x.inputs)
        if is_op(a, "exp") and is_op(b, "exp"):
            name = "log of a sum of exponentials"
            yield Form(name, f"np.logaddexp({o(a)}, {o(b)})", node)
        for k in (0, 1):
            if number(x.inputs[1 - k]) == 1:
                other = inner(x.inputs[k])
                if is_op(other, "exp"):
                    yield Form("softplus", f"np.logaddexp(0, {o(other)})", node)
                yield Form("log(1 + x)", f"np.log1p({o(x, k)})", node)
    if is_op(x, "subtract"):
        a, b = map(inner, x.inputs)
        if number(b) == 1 and is_op(a, "exp"):
            code = f"{o(a)} + np.log(-np.expm1(-{o(a)}))"
            yield Form("log(exp(x) - 1)", code, node)
        if number(a) != 1:
            return
        if is_op(b, "exp"):
            yield Form("log(1 - exp(x))", f"np.log(-np.expm1({o(b)}))", node)
        if is_op(b, "expit"):
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {o(b)})", node)
        if (exp := _sigmoid_of(b)) is not None:
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, -{o(exp)})", node)
        yield Form("log(1 - x)", f"np.log1p(-{o(x, 1)})", node)


def _log_of_quotient(x: Tensor, node: Tensor, o: Operands) -> Iterator[Form]:
    """The forms of the logarithm of a quotient of exponentials."""
    if (exp := _sigmoid_of(x)) is not None:
        yield Form("log of a sigmoid", f"-np.logaddexp(0, {o(exp)})", node)
    if is_op(x, "reciprocal") or not is_op(inner(x.inputs[0]), "exp"):
        return
    above, below = inner(x.inputs[0]), inner(x.inputs[1])
    if is_op(below, "sum"):
        for code in _log_share(x.inputs[0], below, o):
            yield Form("log-softmax", code, node)
    if is_op(below, "add"):
        for other in map(inner, below.inputs):
            if is_op(other, "exp"):
                code = f"-np.logaddexp(0, {o(other)} - {o(above)})"
                yield Form("log of a sigmoid", code, node)
                code = f"-np.logaddexp(0, -{o(other)})"
                yield Form("log of a sigmoid", code, node)


def _sigmoid_of(x: Any) -> Tensor | None:
    """Return the exponential of a quotient ``1 / (1 + exp(-z))``."""
    if not is_op(x, "divide", "reciprocal"):
        return None
    below = inner(x.inputs[-1])
    if (is_op(x, "divide") and number(x.inputs[0]) != 1) or not is_op(below, "add"):
        return None
    for k in (0, 1):
        exp = inner(below.inputs[k])
        if number(below.inputs[1 - k]) == 1 and is_op(exp, "exp"):
            found: Tensor = exp
            return found
    return None


# Differences


def _subtract(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    a, b = map(inner, node.inputs)
    if number(a) == 1 and is_op(b, "cos"):
        yield Form("1 - cos(x)", f"2 * np.sin({o(b)} / 2)**2", node)
    if number(b) == 1 and is_op(a, "exp"):
        yield Form("exp(x) - 1", f"np.expm1({o(a)})", node)
    for log in after(case, node, "log"):
        yield from _log(case, log, o)
    if number(b) == 1 and is_op(a, "cosh"):
        yield Form("cosh(x) - 1", f"2 * np.sinh({o(a)} / 2)**2", node)
    if is_op(a, "mean") and is_squared(squares := inner(a.inputs[0])) and is_squared(b):
        code = f"np.var({o(squares)}{axis_of(a)})"
        yield Form("the mean of squares less the square of the mean", code, node)
    if is_op(a, "mean") and is_op(product := inner(a.inputs[0]), "multiply"):
        x, y = (_centred(o(product, k), axis_of(a)) for k in (0, 1))
        name = "the mean of products less the product of the means"
        yield Form(name, f"np.mean({x} * {y}{axis_of(a)})", node)
    if is_squared(a) and is_squared(b):
        p, q = o(a), o(b)
        yield Form("a**2 - b**2", f"({p} - {q}) * ({p} + {q})", node)
    for k in (0, 1):
        less = _root_beside(inner(node.inputs[1 - k]), inner(node.inputs[k]))
        if less is not None:
            sign = "" if k == 0 else "-"
            below = f"({o(node, k)} + {o(node, 1 - k)})"
            code = f"{sign}{o(less, 1)} / {below}"
            yield Form("a root of a quadratic", code, node)
    if is_op(a, "sqrt") and is_op(b, "sqrt"):
        p, q = o(a), o(b)
        code = f"({p} - {q}) / (np.sqrt({p}) + np.sqrt({q}))"
        yield Form("a difference of square roots", code, node)
    if is_op(a, "log") and is_op(b, "log"):
        p, q = o(a), o(b)
        yield Form("a difference of logarithms", f"np.log({p} / {q})", node)
        yield Form("a difference of logarithms", f"np.log1p(({p} - {q}) / {q})", node)


def _centred(x: str, axis: str) -> str:
    if axis and "keepdims" not in axis:
        axis += ", keepdims=True"
    return f"({x} - np.mean({x}{axis}))"


def _root_beside(root: Any, b: Any) -> Tensor | None:
    """Return the difference ``b**2 - q`` that a root is of."""
    inside: Any = inner(root.inputs[0]) if is_op(root, "sqrt") else None
    if not is_op(inside, "subtract"):
        return None
    square = inner(inside.inputs[0])
    if not is_squared(square) or inner(square.inputs[0]) is not inner(b):
        return None
    found: Tensor = inside
    return found


def _add(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for k in (0, 1):
        b, root = inner(node.inputs[k]), inner(node.inputs[1 - k])
        if is_op(b, "negative") and (q := _root_beside(root, b.inputs[0])) is not None:
            code = f"-{o(q, 1)} / ({o(b)} + {o(node, 1 - k)})"
            yield Form("a root of a quadratic", code, node)
    for log in after(case, node, "log"):
        yield from _log(case, log, o)
    for k in (0, 1):
        if number(node.inputs[1 - k]) == -1 and is_op(inner(node.inputs[k]), "exp"):
            code = f"np.expm1({o(inner(node.inputs[k]))})"
            yield Form("exp(x) - 1", code, node)


# Lengths


def _sqrt(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    x = inner(node.inputs[0])
    if is_op(x, *SUMS) and is_squared(squares := inner(x.inputs[0])):
        base = inner(squares.inputs[0])
        if is_op(x, "mean") and is_op(base, "subtract"):
            yield Form("a standard deviation", f"np.std({o(base)}{axis_of(x)})", node)
        if is_op(x, "sum"):
            code = f"np.linalg.norm({o(squares)}{axis_of(x)})"
            yield Form("the length of a vector", code, node)
    if is_op(x, "subtract"):
        for form in _subtract(case, x, o):
            if form.code.startswith("np.var("):
                code = form.code.replace("np.var(", "np.std(", 1)
                yield Form("a standard deviation", code, node)
    if is_op(x, "var"):
        ddof = x.params.get("ddof", x.params.get("correction", 0))
        more = f", ddof={ddof}" if ddof else ""
        code = f"np.std({o(x)}{axis_of(x)}{more})"
        yield Form("a standard deviation", code, node)
    if is_op(x, "matmul", "tensordot", "einsum") and len(x.inputs) == 2:
        yield Form("the length of a vector", f"np.linalg.norm({o(x)})", node)
    if is_op(x, "add"):
        a, b = map(inner, x.inputs)
        if is_squared(a) and is_squared(b):
            yield Form("the length of two numbers", f"np.hypot({o(a)}, {o(b)})", node)


def _divide(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    below = inner(node.inputs[1])
    lengths = ("norm", "sqrt", "hypot", "std")
    if is_op(below, *lengths):
        x, y = o(node), o(node, 1)
        code = f"{x} / np.where({y} == 0, 1, {y})"
        word = "standard deviation" if below.op.name == "std" else "length"
        yield Form(f"a quotient by a {word} that may be 0 (1 there)", code, node)


FINDERS = {
    **dict.fromkeys(LOGARITHMS, _below_log),
    "exp": _exp,
    "log": _log,
    "subtract": _subtract,
    "add": _add,
    "sqrt": _sqrt,
    "divide": _divide,
}


# Forms that hold at these values, and just so: notes, before they become errors.
#
# An exponential is near its edge where its operand is beyond half of what its dtype
# bears; by one more doubling it overflows. Told only of forms that have a stable
# spelling, so that the note says what to write.

NEAR = 0.5


def find_near_overflow(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
    """A note for each form that is near its edge; none where an error was found."""
    blamed = {node.serial for node in known}
    for node in case.nodes:
        if node.op.name != "exp" or node.serial in blamed:
            continue
        y = node._value
        if not isinstance(y, (np.ndarray, np.generic)) or y.size == 0:
            continue
        dtype = np.asarray(value_of(y)).dtype
        if dtype.kind != "f":
            continue
        limit = float(np.log(np.finfo(dtype).max))
        top = float(np.max(value_of(node.args[0])))
        if not NEAR * limit < top < limit:
            continue
        form = form_of(case, node)
        if form is None:
            continue
        yield Finding(
            "near-overflow",
            "note",
            node,
            "forward",
            f"{case.call(node)} is near its largest value",
            f"{operand(node, 0)} reaches {top:.4g}; from {limit:.4g} on exp overflows"
            f" {dtype}.",
            f"The {form.name} overflows for larger operands; its stable form never"
            " does.",
            form.fix,
        )


# Sums whose digits have cancelled, and what mends them.

ADDED = {"sum", "mean", "matmul", "einsum", "tensordot", "var", "cumsum"}


#: A result of so few roundings of its terms is nothing but rounding.
ROUNDINGS = 8


class Cancelled(NamedTuple):
    """A sum whose digits have cancelled, all of them."""

    node: Tensor
    evidence: str
    fix: Fix | None


#: What is said of it.
CAUSE = (
    "The leading digits of nearly equal numbers cancel, and what is left is their"
    " rounding."
)


def cancelled(case: Case, node: Tensor, k: int, mask: Any) -> Cancelled | None:
    """Whether what an op cannot take is the rounding of terms that have cancelled.

    Parameters
    ----------
    node, k
        The op, and which of its operands is 0 or less.
    mask
        At which of its entries.

    Returns
    -------
    None where the same program in a wider dtype gives the same: the operand is what it
    is.
    """
    x = inner(node.inputs[k])
    if not isinstance(x, Tensor) or isinstance(x._value, tuple):
        return None
    y, terms = np.asarray(value_of(x._value)), _terms(x)
    if terms is None or y.dtype.kind not in "fc":
        return None
    if x is node.inputs[k] and mask.shape != y.shape:
        return None
    asked = mask if x is node.inputs[k] else np.ones(y.shape, bool)
    unit = float(np.finfo(y.dtype).eps)
    asked = asked & (np.abs(y) <= ROUNDINGS * unit * terms) & (terms > 0)
    table = WIDER if y.dtype in WIDER else WIDEST
    wide_unit = float(np.finfo(table[y.dtype]).eps) if y.dtype in table else unit
    if not asked.any() or wide_unit >= unit:
        return None
    true = again(case, table, walk.order_nodes([x]), told=False)[x.serial]._value
    off = np.abs(true - y) > np.maximum(np.abs(true), np.abs(y)) / 2
    asked = asked & off & (np.abs(true) > ROUNDINGS * wide_unit * terms)
    if not asked.any():
        return None
    at = first(asked)
    text = operand(node, k)
    text = "Its value" if text == LEFT_OUT else text
    return Cancelled(
        x,
        f"{text} is {y[at]:.6g}, and in higher precision {true[at]:.6g}; its terms are"
        f" of size {float(terms[at]):.3g}, and their rounding of"
        f" {unit * float(terms[at]):.2g}.",
        _mend(case, node, x),
    )


def _mend(case: Case, node: Tensor, x: Tensor) -> Fix | None:
    form = form_of(case, node) or form_of(case, x)
    if form is not None:
        return form.fix
    if np.dtype(x.dtype) in WIDER:
        return Fix("compute this part in float64", spell(x, "{0}.astype(np.float64)"))
    return None


def _terms(x: Tensor) -> Any:
    """The sizes of what a sum is made of, added; None for another op, or of data."""
    if x.op.name not in ("add", "subtract", *ADDED - {"var"}):
        return None
    # What is given has not been rounded: a difference of data is exact.
    if all(is_given(a) for a in x.inputs):
        return None
    sizes = [np.abs(np.asarray(value_of(a))) for a in x.inputs]
    if x.op.name == "subtract":
        return sizes[0] + sizes[1]
    try:
        return np.abs(x.op.compute(*sizes, **x.params))
    except (TypeError, ValueError):
        return None


def is_given(x: Any) -> bool:
    """Return whether an operand is an input or a constant, perhaps only reshaped."""
    x = inner(x)
    return not isinstance(x, Tensor) or not x.inputs
