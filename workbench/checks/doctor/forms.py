"""Stable forms of expressions that overflow or lose their digits.

Each is found from its central node (the `exp` of a log-sum-exp, the `subtract` of
``1 - cos(x)``), in the usual spellings. It is a draft: where its values differ, for
another axis or a missing operand, `equivalence.py` refuses it and the next one is
tried; that module also writes the user's own names into it.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import WIDER, WIDEST, Case, find_first, rerun_wider
from workbench.checks.doctor.equivalence import (
    Form,
    Operands,
    prove,
)
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.spelling import LEFT_OUT, quote_operand, spell
from workbench.core import walk
from workbench.core.tensor import Tensor, value_of

# Helpers that recognise a form: operands, readers, constants.

#: Ops that only move or copy the entries of an operand.
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


def skip_reshapes(x: Any) -> Any:
    """Return an operand before the ops that only reshape it."""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        x = x.inputs[0]
    return x


def is_op(x: Any, *names: str) -> bool:
    """Return whether an operand is the result of one of these ops."""
    return isinstance(x, Tensor) and x.op.name in names


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


def find_readers(case: Case, node: Tensor, *names: str) -> Iterator[Tensor]:
    """Yield the readers of a node that are one of these ops, past reshapes."""
    stack = list(case.readers.get(node.serial, ()))
    for reader in stack:
        if reader.op.name in names:
            yield reader
        elif reader.op.name in THROUGH and len(stack) < 50:
            stack += case.readers.get(reader.serial, ())


def format_axis(node: Tensor) -> str:
    """Return the settings of a reduction as code behind its operand."""
    text = ""
    axis = node.params.get("axis")
    if axis is not None:
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        text += f", axis={axis}"
    if node.params.get("keepdims"):
        text += ", keepdims=True"
    return text


def list_axes(total: Tensor) -> list[str]:
    """Return the settings that a reduction may need where its result is broadcast."""
    axis = format_axis(total).replace(", keepdims=True", "")
    return [f"{axis}, keepdims=True", axis]


def is_squared(x: Any) -> bool:
    """Return whether an operand is a square."""
    return (
        is_op(x, "square")
        or (is_op(x, "power") and constant_value(x.inputs[1]) == 2)
        or (is_op(x, "multiply") and x.inputs[0] is x.inputs[1])
    )


def format_indexing(x: Any, o: Operands) -> str:
    """Return the indexing that an operand goes through, as code: ``"[_1]"``."""
    text = ""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        if x.op.name == "getitem":
            text = f"[{o.name_index(x)}]{text}"
        x = x.inputs[0]
    return text


# The forms


def find_form(case: Case, node: Tensor, with_slopes: bool = False) -> Form | None:
    """Return a stable form of the expression around a node; None if none is known.

    ``with_slopes`` requires that its gradient is finite at these values too.
    """
    finder = FINDERS.get(node.op.name)
    if finder is None:
        return None
    key = node.serial, with_slopes
    if key not in case.forms:
        o = Operands()
        proved = (prove(case, draft, o, with_slopes) for draft in finder(case, node, o))
        case.forms[key] = next((form for form in proved if form is not None), None)
    found: Form | None = case.forms[key]
    return found


# Around exp


def _find_exp_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for reader in find_readers(case, node, "sum", "add", "subtract"):
        for log in find_readers(case, reader, "log"):
            yield from _find_log_forms(case, log, o)
        for share in find_readers(case, reader, "divide", "reciprocal"):
            yield from _find_share_forms(case, share, o)
    for share in find_readers(case, node, "divide"):
        yield from _find_share_forms(case, share, o)
    for log in find_readers(case, node, "log1p"):
        yield Form(
            "softplus", f"np.logaddexp(0, {o(node)}{format_indexing(log, o)})", log
        )


def _find_share_forms(case: Case, share: Tensor, o: Operands) -> Iterator[Form]:
    """Yield the forms of a quotient of exponentials, and of its logarithm."""
    for log in find_readers(case, share, "log"):
        yield from _find_log_forms(case, log, o)
    above, below = (share.inputs[0], skip_reshapes(share.inputs[-1]))
    if share.op.name == "reciprocal":
        above = None
    if is_op(below, "sum") and is_op(skip_reshapes(above), "exp"):
        for code in _write_log_shares(above, below, o):
            yield Form("softmax", f"np.exp({code})", share)
    if not is_op(below, "add"):
        return
    for k in (0, 1):
        exp = skip_reshapes(below.inputs[k])
        if not is_op(exp, "exp"):
            continue
        z = o(exp)
        if is_op(skip_reshapes(above), "exp"):
            code = f"{EXPIT}({o(skip_reshapes(above))} - {z})"
            yield Form("sigmoid", code, share)
        if constant_value(below.inputs[1 - k]) != 1:
            continue
        if is_op(skip_reshapes(above), "exp"):
            yield Form("sigmoid", f"{EXPIT}({z})", share)
        elif above is None or constant_value(above) == 1:
            yield Form("sigmoid", f"{EXPIT}(-{z})", share)
        else:
            yield Form("sigmoid", f"{o(share)} * {EXPIT}(-{z})", share)


def _write_log_shares(above: Any, total: Tensor, o: Operands) -> Iterator[str]:
    """Yield code for the logarithm of an exponential over a sum of others."""
    entries = skip_reshapes(total.inputs[0])
    if not is_op(entries, "exp"):
        return
    a = f"{o(skip_reshapes(above))}{format_indexing(above, o)}"
    b = f"{o(entries)}{format_indexing(total.inputs[0], o)}"
    for axis in list_axes(total):
        yield f"{a} - wb.logsumexp({b}{axis})"


EXPIT = "workbench.scipy.special.expit"

# Around log

#: Ops that overflow or become 0 long before their logarithm does.
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


def _find_below_log_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for log in find_readers(case, node, "log"):
        yield from _find_log_forms(case, log, o)


def _find_log_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    """Yield the forms of a logarithm, with the indexing before it."""
    entries = format_indexing(node.inputs[0], o)
    for form in _find_operand_forms(skip_reshapes(node.inputs[0]), node, o):
        code = f"({form.code}){entries}" if entries else form.code
        yield form._replace(code=code)


def _find_operand_forms(x: Any, node: Tensor, o: Operands) -> Iterator[Form]:
    """Yield the forms of the logarithm of an operand."""
    if is_op(x, "sum") and is_op(skip_reshapes(x.inputs[0]), "exp"):
        z = f"{o(skip_reshapes(x.inputs[0]))}{format_indexing(x.inputs[0], o)}"
        yield Form("log-sum-exp", f"wb.logsumexp({z}{format_axis(x)})", node)
    if is_op(x, "divide", "reciprocal"):
        yield from _find_quotient_forms(x, node, o)
    if is_op(x, "expit"):
        yield Form("log of a sigmoid", f"-np.logaddexp(0, -{o(x)})", node)
    if is_op(x, "softmax"):
        code = f"workbench.scipy.special.log_softmax({o(x)}{format_axis(x)})"
        yield Form("log-softmax", code, node)
    if is_op(x, *LOGARITHMS):
        name, code, positive = LOGARITHMS[x.op.name]
        yield Form(name, code.format(o(x), axis=format_axis(x)), node, positive)
    if is_op(x, "add"):
        a, b = map(skip_reshapes, x.inputs)
        if is_op(a, "exp") and is_op(b, "exp"):
            name = "log of a sum of exponentials"
            yield Form(name, f"np.logaddexp({o(a)}, {o(b)})", node)
        for k in (0, 1):
            if constant_value(x.inputs[1 - k]) == 1:
                other = skip_reshapes(x.inputs[k])
                if is_op(other, "exp"):
                    yield Form("softplus", f"np.logaddexp(0, {o(other)})", node)
                yield Form("log(1 + x)", f"np.log1p({o(x, k)})", node)
    if is_op(x, "subtract"):
        a, b = map(skip_reshapes, x.inputs)
        if constant_value(b) == 1 and is_op(a, "exp"):
            code = f"{o(a)} + np.log(-np.expm1(-{o(a)}))"
            yield Form("log(exp(x) - 1)", code, node)
        if constant_value(a) != 1:
            return
        if is_op(b, "exp"):
            yield Form("log(1 - exp(x))", f"np.log(-np.expm1({o(b)}))", node)
        if is_op(b, "expit"):
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {o(b)})", node)
        if (exp := _match_sigmoid(b)) is not None:
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, -{o(exp)})", node)
        yield Form("log(1 - x)", f"np.log1p(-{o(x, 1)})", node)


def _find_quotient_forms(x: Tensor, node: Tensor, o: Operands) -> Iterator[Form]:
    """Yield the forms of the logarithm of a quotient of exponentials."""
    if (exp := _match_sigmoid(x)) is not None:
        yield Form("log of a sigmoid", f"-np.logaddexp(0, {o(exp)})", node)
    if is_op(x, "reciprocal") or not is_op(skip_reshapes(x.inputs[0]), "exp"):
        return
    above, below = skip_reshapes(x.inputs[0]), skip_reshapes(x.inputs[1])
    if is_op(below, "sum"):
        for code in _write_log_shares(x.inputs[0], below, o):
            yield Form("log-softmax", code, node)
    if is_op(below, "add"):
        for other in map(skip_reshapes, below.inputs):
            if is_op(other, "exp"):
                code = f"-np.logaddexp(0, {o(other)} - {o(above)})"
                yield Form("log of a sigmoid", code, node)
                code = f"-np.logaddexp(0, -{o(other)})"
                yield Form("log of a sigmoid", code, node)


def _match_sigmoid(x: Any) -> Tensor | None:
    """Return the exponential in ``1 / (1 + exp(-z))``; None for another expression."""
    if not is_op(x, "divide", "reciprocal"):
        return None
    below = skip_reshapes(x.inputs[-1])
    if (is_op(x, "divide") and constant_value(x.inputs[0]) != 1) or not is_op(
        below, "add"
    ):
        return None
    for k in (0, 1):
        exp = skip_reshapes(below.inputs[k])
        if constant_value(below.inputs[1 - k]) == 1 and is_op(exp, "exp"):
            found: Tensor = exp
            return found
    return None


# Differences


def _find_subtract_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    a, b = map(skip_reshapes, node.inputs)
    if constant_value(a) == 1 and is_op(b, "cos"):
        yield Form("1 - cos(x)", f"2 * np.sin({o(b)} / 2)**2", node)
    if constant_value(b) == 1 and is_op(a, "exp"):
        yield Form("exp(x) - 1", f"np.expm1({o(a)})", node)
    for log in find_readers(case, node, "log"):
        yield from _find_log_forms(case, log, o)
    if constant_value(b) == 1 and is_op(a, "cosh"):
        yield Form("cosh(x) - 1", f"2 * np.sinh({o(a)} / 2)**2", node)
    if (
        is_op(a, "mean")
        and is_squared(squares := skip_reshapes(a.inputs[0]))
        and is_squared(b)
    ):
        code = f"np.var({o(squares)}{format_axis(a)})"
        yield Form("the mean of squares less the square of the mean", code, node)
    if is_op(a, "mean") and is_op(product := skip_reshapes(a.inputs[0]), "multiply"):
        x, y = (_write_centred(o(product, k), format_axis(a)) for k in (0, 1))
        name = "the mean of products less the product of the means"
        yield Form(name, f"np.mean({x} * {y}{format_axis(a)})", node)
    if is_squared(a) and is_squared(b):
        p, q = o(a), o(b)
        yield Form("a**2 - b**2", f"({p} - {q}) * ({p} + {q})", node)
    for k in (0, 1):
        less = _match_root(
            skip_reshapes(node.inputs[1 - k]), skip_reshapes(node.inputs[k])
        )
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


def _write_centred(x: str, axis: str) -> str:
    if axis and "keepdims" not in axis:
        axis += ", keepdims=True"
    return f"({x} - np.mean({x}{axis}))"


def _match_root(root: Any, b: Any) -> Tensor | None:
    """Return the difference under the root ``sqrt(b**2 - q)``, else None."""
    inside: Any = skip_reshapes(root.inputs[0]) if is_op(root, "sqrt") else None
    if not is_op(inside, "subtract"):
        return None
    square = skip_reshapes(inside.inputs[0])
    if not is_squared(square) or skip_reshapes(square.inputs[0]) is not skip_reshapes(
        b
    ):
        return None
    found: Tensor = inside
    return found


def _find_add_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    for k in (0, 1):
        b, root = skip_reshapes(node.inputs[k]), skip_reshapes(node.inputs[1 - k])
        if is_op(b, "negative") and (q := _match_root(root, b.inputs[0])) is not None:
            code = f"-{o(q, 1)} / ({o(b)} + {o(node, 1 - k)})"
            yield Form("a root of a quadratic", code, node)
    for log in find_readers(case, node, "log"):
        yield from _find_log_forms(case, log, o)
    for k in (0, 1):
        if constant_value(node.inputs[1 - k]) == -1 and is_op(
            skip_reshapes(node.inputs[k]), "exp"
        ):
            code = f"np.expm1({o(skip_reshapes(node.inputs[k]))})"
            yield Form("exp(x) - 1", code, node)


# Lengths


def _find_sqrt_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    x = skip_reshapes(node.inputs[0])
    if is_op(x, *SUMS) and is_squared(squares := skip_reshapes(x.inputs[0])):
        base = skip_reshapes(squares.inputs[0])
        if is_op(x, "mean") and is_op(base, "subtract"):
            yield Form(
                "a standard deviation", f"np.std({o(base)}{format_axis(x)})", node
            )
        if is_op(x, "sum"):
            code = f"np.linalg.norm({o(squares)}{format_axis(x)})"
            yield Form("the length of a vector", code, node)
    if is_op(x, "subtract"):
        for form in _find_subtract_forms(case, x, o):
            if form.code.startswith("np.var("):
                code = form.code.replace("np.var(", "np.std(", 1)
                yield Form("a standard deviation", code, node)
    if is_op(x, "var"):
        ddof = x.params.get("ddof", x.params.get("correction", 0))
        more = f", ddof={ddof}" if ddof else ""
        code = f"np.std({o(x)}{format_axis(x)}{more})"
        yield Form("a standard deviation", code, node)
    if is_op(x, "matmul", "tensordot", "einsum") and len(x.inputs) == 2:
        yield Form("the length of a vector", f"np.linalg.norm({o(x)})", node)
    if is_op(x, "add"):
        a, b = map(skip_reshapes, x.inputs)
        if is_squared(a) and is_squared(b):
            yield Form("the length of two numbers", f"np.hypot({o(a)}, {o(b)})", node)


def _find_divide_forms(case: Case, node: Tensor, o: Operands) -> Iterator[Form]:
    below = skip_reshapes(node.inputs[1])
    lengths = ("norm", "sqrt", "hypot", "std")
    if is_op(below, *lengths):
        x, y = o(node), o(node, 1)
        code = f"{x} / np.where({y} == 0, 1, {y})"
        word = "standard deviation" if below.op.name == "std" else "length"
        yield Form(f"a quotient by a {word} that may be 0 (1 there)", code, node)


FINDERS = {
    **dict.fromkeys(LOGARITHMS, _find_below_log_forms),
    "exp": _find_exp_forms,
    "log": _find_log_forms,
    "subtract": _find_subtract_forms,
    "add": _find_add_forms,
    "sqrt": _find_sqrt_forms,
    "divide": _find_divide_forms,
}


# Notes on forms that are about to overflow.
#
# An exponential is near overflow where its operand is beyond half of what its dtype
# holds. There is a note only where a stable form is known, so that it says what to
# write.

NEAR = 0.5


def find_near_overflow(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
    """Yield a note for each form that is near overflow, unless its node is blamed."""
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
        form = find_form(case, node)
        if form is None:
            continue
        yield Finding(
            "near-overflow",
            "note",
            node,
            "forward",
            f"{case.name_node(node)} is near its largest value",
            f"{quote_operand(node, 0)} reaches {top:.4g}; from {limit:.4g} on exp"
            f" overflows {dtype}.",
            f"The {form.name} overflows for larger operands; its stable form does not.",
            form.fix,
        )


# Sums whose digits have cancelled, and their fixes.

ADDED = {"sum", "mean", "matmul", "einsum", "tensordot", "var", "cumsum"}


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
        return form.fix
    if np.dtype(x.dtype) in WIDER:
        return Fix("compute this part in float64", spell(x, "{0}.astype(np.float64)"))
    return None


def _sum_term_sizes(x: Tensor) -> Any:
    """Return the sum of a sum's absolute terms; None for other ops, or for data."""
    if x.op.name not in ("add", "subtract", *ADDED - {"var"}):
        return None
    # Inputs have not been rounded: a difference of data is exact.
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
    x = skip_reshapes(x)
    return not isinstance(x, Tensor) or not x.inputs
