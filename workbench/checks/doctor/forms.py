"""Stable forms: what to write for an expression that overflows or loses its digits.

Each is found from the node at its heart (the `exp` of a log-sum-exp, the `subtract` of
``1 - cos(x)``), in the ways people write it, and told with the user's own names.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.matching import (
    SUMS,
    Form,
    after,
    axis_of,
    inner,
    is_op,
    kept,
    number,
    other_of,
)
from workbench.checks.doctor.spelling import closed, minus, operand, subscript
from workbench.graph.tensor import Tensor

__all__ = ["Form", "form_of"]


def form_of(case: Case, node: Tensor) -> Form | None:
    """The better form for what a node is part of; None where none is known."""
    name = node.op.name
    finder = FINDERS.get(name)
    return None if finder is None else next(finder(case, node), None)


# Around exp


def _exp(case: Case, node: Tensor) -> Iterator[Form]:
    z = operand(node, 0)
    for total in after(case, node, "sum"):
        for log in after(case, total, "log"):
            yield Form("log-sum-exp", f"wb.logsumexp({z}{axis_of(total)})", log)
        for share in after(case, total, "divide"):
            if _same_exp(inner(share.inputs[0]), node):
                yield from _softmax(case, share, total, z)
    for share in after(case, node, "divide"):
        total = inner(share.inputs[1])
        if is_op(total, "sum") and _same_exp(inner(total.inputs[0]), node):
            yield from _softmax(case, share, total, z)
        elif is_op(total, "add") and all(is_op(inner(x), "exp") for x in total.inputs):
            yield from _share_of_two(case, share, *map(inner, total.inputs))
    for log in after(case, node, "log1p"):
        yield Form("softplus", f"np.logaddexp(0, {z})", log)
    for total in after(case, node, "add"):
        beside = inner(other_of(total, node))
        if number(beside) == 1:
            for log in after(case, total, "log"):
                yield Form("softplus", f"np.logaddexp(0, {z})", log)
            for share in after(case, total, "divide", "reciprocal"):
                yield _sigmoid(node, share, z)
        elif is_op(beside, "exp"):
            for log in after(case, total, "log"):
                code = f"np.logaddexp({z}, {operand(beside, 0)})"
                yield Form("log of a sum of exponentials", code, log)
            for share in after(case, total, "divide"):
                yield from _share_of_two(case, share, node, beside)
    for less in after(case, node, "subtract"):
        if number(less.inputs[1]) == 1:
            for log in after(case, less, "log"):
                code = f"{z} + np.log(-np.expm1({minus(z)}))"
                yield Form("log(exp(x) - 1)", code, log)


def _softmax(case: Case, share: Tensor, total: Tensor, z: str) -> Iterator[Form]:
    """The forms of a quotient of exponentials, and of its logarithm."""
    for log in after(case, share, "log"):
        code = _taken(log, f"{z} - wb.logsumexp({z}{kept(total)})")
        yield Form("log-softmax", code, log)
    yield Form("softmax", f"np.exp({z} - wb.logsumexp({z}{kept(total)}))", share)


def _taken(log: Tensor, code: str) -> str:
    """A form, with the entries that the user takes of it: ``log(p[i, t])``."""
    if not is_op(log.inputs[0], "getitem"):
        return code
    entries = subscript(log)
    return f"({code}){entries}" if entries else code


def _share_of_two(
    case: Case, share: Tensor, one: Tensor, two: Tensor
) -> Iterator[Form]:
    """The forms of ``exp(a) / (exp(a) + exp(b))``, and of its logarithm."""
    above = inner(share.inputs[0])
    if not is_op(above, "exp"):
        return
    other = two if _same_exp(above, one) else one if _same_exp(above, two) else None
    if other is None:
        return
    a, b = operand(above, 0), closed(operand(other, 0))
    for log in after(case, share, "log"):
        code = f"-np.logaddexp(0, {operand(other, 0)} - {closed(a)})"
        yield Form("log of a sigmoid", code, log)
    yield Form("sigmoid", f"workbench.scipy.special.expit({a} - {b})", share)


def _same_exp(x: Any, node: Tensor) -> bool:
    """Whether it is this exponential, or another of the same operand."""
    if x is node or not is_op(x, "exp"):
        return x is node
    a, b = x.inputs[0], node.inputs[0]
    if a is b:
        return True
    # The same entry, taken twice: exp(z[0]) / (exp(z[0]) + exp(z[1])).
    return (
        is_op(a, "getitem")
        and is_op(b, "getitem")
        and a.params == b.params
        and len(a.inputs) == len(b.inputs)
        and all(p is q for p, q in zip(a.inputs, b.inputs, strict=True))
    )


def _sigmoid(exp: Tensor, share: Tensor, z: str) -> Form:
    above = share.inputs[0]
    if share.op.name == "divide" and _same_exp(inner(above), exp):
        return Form("sigmoid", f"workbench.scipy.special.expit({z})", share)
    code = f"workbench.scipy.special.expit({minus(z)})"
    if number(above) != 1 and share.op.name == "divide":
        code = f"{closed(operand(share, 0))} * {code}"
    return Form("sigmoid", code, share)


# Around log

#: What overflows or becomes 0 long before its logarithm does.
LOGARITHMS = {
    "prod": ("the logarithm of a product", "np.sum(np.log({0}){axis})"),
    "cumprod": ("the logarithm of a product", "np.cumsum(np.log({0}){axis})"),
    "det": ("the logarithm of a determinant", "np.linalg.slogdet({0})[1]"),
    "gamma": (
        "the logarithm of the gamma function",
        "workbench.scipy.special.gammaln({0})",
    ),
}


def _below_log(case: Case, node: Tensor) -> Iterator[Form]:
    for log in after(case, node, "log"):
        yield from _log(case, log)


def _log(case: Case, node: Tensor) -> Iterator[Form]:
    x = inner(node.inputs[0])
    if is_op(x, "sum") and is_op(inner(x.inputs[0]), "exp"):
        z = operand(inner(x.inputs[0]), 0)
        yield Form("log-sum-exp", f"wb.logsumexp({z}{axis_of(x)})", node)
    if is_op(x, "divide"):
        above, below = map(inner, x.inputs)
        if is_op(above, "exp") and is_op(below, "sum"):
            z = operand(above, 0)
            code = _taken(node, f"{z} - wb.logsumexp({z}{kept(below)})")
            yield Form("log-softmax", code, node)
        if (z2 := _sigmoid_of(x)) is not None:
            yield Form("log of a sigmoid", f"-np.logaddexp(0, {minus(z2)})", node)
    if is_op(x, "expit"):
        z = operand(x, 0)
        yield Form("log of a sigmoid", f"-np.logaddexp(0, {minus(z)})", node)
    if is_op(x, "softmax"):
        z = operand(x, 0)
        yield Form(
            "log-softmax", f"workbench.scipy.special.log_softmax({z}{axis_of(x)})", node
        )
    if is_op(x, *LOGARITHMS):
        name, code = LOGARITHMS[x.op.name]
        yield Form(name, code.format(operand(x, 0), axis=axis_of(x)), node)
    if is_op(x, "add"):
        for k in (0, 1):
            if number(x.inputs[1 - k]) == 1:
                other = inner(x.inputs[k])
                if is_op(other, "exp"):
                    z = operand(other, 0)
                    yield Form("softplus", f"np.logaddexp(0, {z})", node)
                else:
                    yield Form("log(1 + x)", f"np.log1p({operand(x, k)})", node)
    if is_op(x, "subtract") and number(x.inputs[0]) == 1:
        other = inner(x.inputs[1])
        if is_op(other, "exp"):
            z = operand(other, 0)
            yield Form("log(1 - exp(x))", f"np.log(-np.expm1({z}))", node)
        elif is_op(other, "expit"):
            z = operand(other, 0)
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {z})", node)
        elif is_op(other, "divide") and (z2 := _sigmoid_of(other)) is not None:
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {z2})", node)
        else:
            yield Form("log(1 - x)", f"np.log1p({minus(operand(x, 1))})", node)


def _sigmoid_of(x: Tensor) -> str | None:
    """The text of ``z`` where a quotient is ``1 / (1 + exp(-z))``."""
    below = inner(x.inputs[1])
    if number(x.inputs[0]) != 1 or not is_op(below, "add"):
        return None
    for k in (0, 1):
        exp = inner(below.inputs[k])
        if number(below.inputs[1 - k]) == 1 and is_op(exp, "exp"):
            return minus(operand(exp, 0))
    return None


# Differences


def _subtract(case: Case, node: Tensor) -> Iterator[Form]:
    a, b = map(inner, node.inputs)
    if number(a) == 1 and is_op(b, "cos"):
        yield Form("1 - cos(x)", f"2 * np.sin({_half(operand(b, 0))})**2", node)
    if number(b) == 1 and is_op(a, "exp"):
        yield Form("exp(x) - 1", f"np.expm1({operand(a, 0)})", node)
    if number(a) == 1:
        for log in after(case, node, "log"):
            yield from _log(case, log)
    if number(b) == 1 and is_op(a, "cosh"):
        yield Form("cosh(x) - 1", f"2 * np.sinh({_half(operand(a, 0))})**2", node)
    if is_op(a, "mean") and _squared(squares := inner(a.inputs[0])) and _squared(b):
        x, mean = inner(squares.inputs[0]), inner(b.inputs[0])
        if is_op(mean, "mean") and inner(mean.inputs[0]) is x:
            code = f"np.var({operand(squares, 0)}{axis_of(a)})"
            yield Form("the mean of squares less the square of the mean", code, node)
    if (centred := _covariance(a, b)) is not None:
        yield Form("the mean of products less the product of the means", centred, node)
    if _squared(a) and _squared(b):
        p, q = operand(a, 0), closed(operand(b, 0))
        yield Form("a**2 - b**2", f"({p} - {q}) * ({p} + {q})", node)
    for k, (b2, root) in enumerate(((b, a), (a, b))):
        if (less := _root_beside(root, b2)) is not None:
            below = f"({operand(node, 1 - k)} + {operand(node, k)})"
            sign = "-" if k == 0 else ""
            code = f"{sign}{closed(less)} / {below}"
            yield Form("a root of a quadratic", code, node)
    if is_op(a, "sqrt") and is_op(b, "sqrt"):
        p, q = operand(a, 0), operand(b, 0)
        code = f"({p} - {closed(q)}) / (np.sqrt({p}) + np.sqrt({q}))"
        yield Form("a difference of square roots", code, node)
    if is_op(a, "log") and is_op(b, "log"):
        p, q = operand(a, 0), operand(b, 0)
        code = f"np.log({closed(p)} / {closed(q)})"
        yield Form("a difference of logarithms", code, node)


def _covariance(a: Any, b: Any) -> str | None:
    """What to write for ``mean(x * y) - mean(x) * mean(y)``."""
    if not is_op(a, "mean") or not is_op(b, "multiply"):
        return None
    product, means = inner(a.inputs[0]), list(map(inner, b.inputs))
    if not is_op(product, "multiply") or not all(is_op(x, "mean") for x in means):
        return None
    factors = list(map(inner, product.inputs))
    of = [inner(x.inputs[0]) for x in means]
    if not all(any(x is y for y in of) for x in factors) or factors[0] is factors[1]:
        return None
    axis = axis_of(a)
    settings = f"{axis}, keepdims=True" if axis and "keepdims" not in axis else axis
    x, y = operand(product, 0), operand(product, 1)
    return f"np.mean({_centred(x, settings)} * {_centred(y, settings)}{axis})"


def _centred(x: str, settings: str) -> str:
    return f"({x} - np.mean({x}{settings}))"


def _half(x: str) -> str:
    return f"{closed(x)} / 2"


def _squared(x: Any) -> bool:
    return (
        is_op(x, "square")
        or (is_op(x, "power") and number(x.inputs[1]) == 2)
        or (is_op(x, "multiply") and x.inputs[0] is x.inputs[1])
    )


def _root_beside(root: Any, b: Any) -> str | None:
    """The text of ``q`` where a root is that of ``b**2 - q``."""
    inside: Any = inner(root.inputs[0]) if is_op(root, "sqrt") else None
    if not is_op(inside, "subtract"):
        return None
    square = inner(inside.inputs[0])
    if not _squared(square) or inner(square.inputs[0]) is not inner(b):
        return None
    return operand(inside, 1)


def _add(case: Case, node: Tensor) -> Iterator[Form]:
    for k in (0, 1):
        b, root = inner(node.inputs[k]), inner(node.inputs[1 - k])
        if is_op(b, "negative") and (q := _root_beside(root, b.inputs[0])) is not None:
            p, r = operand(b, 0), operand(node, 1 - k)
            yield Form("a root of a quadratic", f"-{closed(q)} / ({p} + {r})", node)
    for k in (0, 1):
        if number(node.inputs[1 - k]) == 1:
            for log in after(case, node, "log"):
                yield from _log(case, log)
        if number(node.inputs[1 - k]) == -1 and is_op(inner(node.inputs[k]), "exp"):
            z = operand(inner(node.inputs[k]), 0)
            yield Form("exp(x) - 1", f"np.expm1({z})", node)


# Lengths


def _sqrt(case: Case, node: Tensor) -> Iterator[Form]:
    x = inner(node.inputs[0])
    if is_op(x, *SUMS) and _squared(inner(x.inputs[0])):
        squares = inner(x.inputs[0])
        base = inner(squares.inputs[0])
        if x.op.name == "mean" and is_op(base, "subtract"):
            mean = inner(base.inputs[1])
            if is_op(mean, "mean"):
                yield Form(
                    "a standard deviation",
                    f"np.std({operand(base, 0)}{axis_of(x)})",
                    node,
                )
        if x.op.name == "sum":
            code = f"np.linalg.norm({operand(squares, 0)}{axis_of(x)})"
            yield Form("the length of a vector", code, node)
    if is_op(x, "subtract"):
        for form in _subtract(case, x):
            if form.code.startswith("np.var("):
                code = form.code.replace("np.var(", "np.std(", 1)
                yield Form("a standard deviation", code, node)
    if is_op(x, "var"):
        yield Form("a standard deviation", f"np.std({operand(x, 0)}{axis_of(x)})", node)
    if is_op(x, "matmul", "tensordot", "einsum") and len(x.inputs) == 2:
        if x.inputs[0] is x.inputs[1]:
            code = f"np.linalg.norm({operand(x, 0)})"
            yield Form("the length of a vector", code, node)
    if is_op(x, "add"):
        a, b = map(inner, x.inputs)
        if _squared(a) and _squared(b):
            code = f"np.hypot({operand(a, 0)}, {operand(b, 0)})"
            yield Form("the length of two numbers", code, node)


def _divide(case: Case, node: Tensor) -> Iterator[Form]:
    below = inner(node.inputs[1])
    lengths = ("norm", "sqrt", "hypot", "std")
    if is_op(below, *lengths):
        x, y = closed(operand(node, 0)), operand(node, 1)
        code = f"{x} / np.where({y} == 0, 1, {y})"
        word = "standard deviation" if below.op.name == "std" else "length"
        yield Form(f"a quotient by a {word} that may be 0", code, node)


FINDERS = {
    **dict.fromkeys(LOGARITHMS, _below_log),
    "exp": _exp,
    "log": _log,
    "subtract": _subtract,
    "add": _add,
    "sqrt": _sqrt,
    "divide": _divide,
}
