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

from collections.abc import Iterator
from typing import Any

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.equivalence import Form, Operands, prove
from workbench.checks.doctor.matching import (
    SUMS,
    after,
    axes_of,
    axis_of,
    inner,
    is_op,
    is_squared,
    number,
    taken,
)
from workbench.core.tensor import Tensor

__all__ = ["Form", "form_of"]


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
    """The exponential of a quotient ``1 / (1 + exp(-z))``."""
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
    """The difference ``b**2 - q`` that a root is of."""
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
