"""Stable forms: what to write for an expression that overflows or loses its digits.

Each is found from the node at its heart (the `exp` of a log-sum-exp, the `subtract` of
``1 - cos(x)``), in the ways people write it, and told with the user's own names.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.spelling import closed, minus, operand, subscript
from workbench.graph.tensor import Tensor

__all__ = ["Form", "form_of"]


class Form(NamedTuple):
    """A form that there is a better one for.

    ``name`` is what people call it, ``code`` what to write, ``whole`` the node that
    the code stands for.
    """

    name: str
    code: str
    whole: Tensor


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


def form_of(case: Case, node: Tensor) -> Form | None:
    """The better form for what a node is part of; None where none is known."""
    name = node.op.name
    finder = FINDERS.get(name)
    return None if finder is None else next(finder(case, node), None)


def inner(x: Any) -> Any:
    """What an operand was before it was only reshaped."""
    while isinstance(x, Tensor) and x.op.name in THROUGH:
        x = x.inputs[0]
    return x


def _is(x: Any, *names: str) -> bool:
    return isinstance(x, Tensor) and x.op.name in names


def number(x: Any) -> float | None:
    """A constant that is one number."""
    if isinstance(x, Tensor):
        if x.inputs or x.name is not None:
            return None
        x = x._value
    if isinstance(x, (int, float)):
        return float(x)
    if getattr(x, "shape", None) == () and x.dtype.kind in "iuf":
        return float(x)
    return None


def _other(node: Tensor, x: Any) -> Any:
    """The other operand of two."""
    a, b = node.inputs[:2]
    return b if inner(a) is x or a is x else a


def _after(case: Case, node: Tensor, *names: str) -> Iterator[Tensor]:
    """The readers of a node that are one of some ops, past those that only reshape."""
    stack = list(case.readers.get(node.serial, ()))
    for reader in stack:
        if reader.op.name in names:
            yield reader
        elif reader.op.name in THROUGH and len(stack) < 50:
            stack += case.readers.get(reader.serial, ())


def _axis(node: Tensor) -> str:
    told = ""
    axis = node.params.get("axis")
    if axis is not None:
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        told += f", axis={axis}"
    if node.params.get("keepdims"):
        told += ", keepdims=True"
    return told


def _kept(total: Tensor) -> str:
    axis = _axis(total).replace(", keepdims=True", "")
    return f"{axis}, keepdims=True"


# Around exp


def _exp(case: Case, node: Tensor) -> Iterator[Form]:
    z = operand(node, 0)
    for total in _after(case, node, "sum"):
        for log in _after(case, total, "log"):
            yield Form("log-sum-exp", f"wb.logsumexp({z}{_axis(total)})", log)
        for share in _after(case, total, "divide"):
            if _same_exp(inner(share.inputs[0]), node):
                yield from _softmax(case, share, total, z)
    for share in _after(case, node, "divide"):
        total = inner(share.inputs[1])
        if _is(total, "sum") and _same_exp(inner(total.inputs[0]), node):
            yield from _softmax(case, share, total, z)
    for log in _after(case, node, "log1p"):
        yield Form("softplus", f"np.logaddexp(0, {z})", log)
    for total in _after(case, node, "add"):
        beside = inner(_other(total, node))
        if number(beside) == 1:
            for log in _after(case, total, "log"):
                yield Form("softplus", f"np.logaddexp(0, {z})", log)
            for share in _after(case, total, "divide", "reciprocal"):
                yield _sigmoid(node, share, z)
        elif _is(beside, "exp"):
            for log in _after(case, total, "log"):
                code = f"np.logaddexp({z}, {operand(beside, 0)})"
                yield Form("log of a sum of exponentials", code, log)
    for less in _after(case, node, "subtract"):
        if number(less.inputs[1]) == 1:
            for log in _after(case, less, "log"):
                code = f"{z} + np.log(-np.expm1({minus(z)}))"
                yield Form("log(exp(x) - 1)", code, log)


def _softmax(case: Case, share: Tensor, total: Tensor, z: str) -> Iterator[Form]:
    """The forms of a quotient of exponentials, and of its logarithm."""
    for log in _after(case, share, "log"):
        code = _taken(log, f"{z} - wb.logsumexp({z}{_kept(total)})")
        yield Form("log-softmax", code, log)
    yield Form("softmax", f"np.exp({z} - wb.logsumexp({z}{_kept(total)}))", share)


def _taken(log: Tensor, code: str) -> str:
    """A form, with the entries that the user takes of it: ``log(p[i, t])``."""
    if not _is(log.inputs[0], "getitem"):
        return code
    entries = subscript(log)
    return f"({code}){entries}" if entries else code


def _same_exp(x: Any, node: Tensor) -> bool:
    """Whether it is this exponential, or another of the same operand."""
    return x is node or (_is(x, "exp") and x.inputs[0] is node.inputs[0])


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
    for log in _after(case, node, "log"):
        yield from _log(case, log)


def _log(case: Case, node: Tensor) -> Iterator[Form]:
    x = inner(node.inputs[0])
    if _is(x, "sum") and _is(inner(x.inputs[0]), "exp"):
        z = operand(inner(x.inputs[0]), 0)
        yield Form("log-sum-exp", f"wb.logsumexp({z}{_axis(x)})", node)
    if _is(x, "divide"):
        above, below = map(inner, x.inputs)
        if _is(above, "exp") and _is(below, "sum"):
            z = operand(above, 0)
            code = _taken(node, f"{z} - wb.logsumexp({z}{_kept(below)})")
            yield Form("log-softmax", code, node)
        if (z2 := _sigmoid_of(x)) is not None:
            yield Form("log of a sigmoid", f"-np.logaddexp(0, {minus(z2)})", node)
    if _is(x, "expit"):
        z = operand(x, 0)
        yield Form("log of a sigmoid", f"-np.logaddexp(0, {minus(z)})", node)
    if _is(x, "softmax"):
        z = operand(x, 0)
        yield Form(
            "log-softmax", f"workbench.scipy.special.log_softmax({z}{_axis(x)})", node
        )
    if _is(x, *LOGARITHMS):
        name, code = LOGARITHMS[x.op.name]
        yield Form(name, code.format(operand(x, 0), axis=_axis(x)), node)
    if _is(x, "add"):
        for k in (0, 1):
            if number(x.inputs[1 - k]) == 1:
                other = inner(x.inputs[k])
                if _is(other, "exp"):
                    z = operand(other, 0)
                    yield Form("softplus", f"np.logaddexp(0, {z})", node)
                else:
                    yield Form("log(1 + x)", f"np.log1p({operand(x, k)})", node)
    if _is(x, "subtract") and number(x.inputs[0]) == 1:
        other = inner(x.inputs[1])
        if _is(other, "expit"):
            z = operand(other, 0)
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {z})", node)
        elif _is(other, "divide") and (z2 := _sigmoid_of(other)) is not None:
            yield Form("log(1 - sigmoid)", f"-np.logaddexp(0, {z2})", node)
        else:
            yield Form("log(1 - x)", f"np.log1p({minus(operand(x, 1))})", node)


def _sigmoid_of(x: Tensor) -> str | None:
    """The text of ``z`` where a quotient is ``1 / (1 + exp(-z))``."""
    below = inner(x.inputs[1])
    if number(x.inputs[0]) != 1 or not _is(below, "add"):
        return None
    for k in (0, 1):
        exp = inner(below.inputs[k])
        if number(below.inputs[1 - k]) == 1 and _is(exp, "exp"):
            return minus(operand(exp, 0))
    return None


# Differences


def _subtract(case: Case, node: Tensor) -> Iterator[Form]:
    a, b = map(inner, node.inputs)
    if number(a) == 1 and _is(b, "cos"):
        yield Form("1 - cos(x)", f"2 * np.sin({_half(operand(b, 0))})**2", node)
    if number(b) == 1 and _is(a, "exp"):
        yield Form("exp(x) - 1", f"np.expm1({operand(a, 0)})", node)
    if number(a) == 1:
        for log in _after(case, node, "log"):
            yield from _log(case, log)
    if number(b) == 1 and _is(a, "cosh"):
        yield Form("cosh(x) - 1", f"2 * np.sinh({_half(operand(a, 0))})**2", node)
    if _is(a, "mean") and _is(inner(a.inputs[0]), "square", "power", "multiply"):
        if _is(b, "square", "power", "multiply") and _is(inner(b.inputs[0]), "mean"):
            x = inner(a.inputs[0])
            code = f"np.var({operand(x, 0)}{_axis(a)})"
            yield Form("the mean of squares less the square of the mean", code, node)
    if _squared(a) and _squared(b):
        p, q = operand(a, 0), closed(operand(b, 0))
        yield Form("a**2 - b**2", f"({p} - {q}) * ({p} + {q})", node)
    for k, (b2, root) in enumerate(((b, a), (a, b))):
        if (less := _root_beside(root, b2)) is not None:
            below = f"({operand(node, 1 - k)} + {operand(node, k)})"
            sign = "-" if k == 0 else ""
            code = f"{sign}{closed(less)} / {below}"
            yield Form("a root of a quadratic", code, node)
    if _is(a, "sqrt") and _is(b, "sqrt"):
        p, q = operand(a, 0), operand(b, 0)
        code = f"({p} - {closed(q)}) / (np.sqrt({p}) + np.sqrt({q}))"
        yield Form("a difference of square roots", code, node)
    if _is(a, "log") and _is(b, "log"):
        p, q = operand(a, 0), operand(b, 0)
        code = f"np.log({closed(p)} / {closed(q)})"
        yield Form("a difference of logarithms", code, node)


def _half(x: str) -> str:
    return f"{closed(x)} / 2"


def _squared(x: Any) -> bool:
    return (
        _is(x, "square")
        or (_is(x, "power") and number(x.inputs[1]) == 2)
        or (_is(x, "multiply") and x.inputs[0] is x.inputs[1])
    )


def _root_beside(root: Any, b: Any) -> str | None:
    """The text of ``q`` where a root is that of ``b**2 - q``."""
    inside: Any = inner(root.inputs[0]) if _is(root, "sqrt") else None
    if not _is(inside, "subtract"):
        return None
    square = inner(inside.inputs[0])
    if not _squared(square) or inner(square.inputs[0]) is not inner(b):
        return None
    return operand(inside, 1)


def _add(case: Case, node: Tensor) -> Iterator[Form]:
    for k in (0, 1):
        b, root = inner(node.inputs[k]), inner(node.inputs[1 - k])
        if _is(b, "negative") and (q := _root_beside(root, b.inputs[0])) is not None:
            p, r = operand(b, 0), operand(node, 1 - k)
            yield Form("a root of a quadratic", f"-{closed(q)} / ({p} + {r})", node)
    for k in (0, 1):
        if number(node.inputs[1 - k]) == 1:
            for log in _after(case, node, "log"):
                yield from _log(case, log)
        if number(node.inputs[1 - k]) == -1 and _is(inner(node.inputs[k]), "exp"):
            z = operand(inner(node.inputs[k]), 0)
            yield Form("exp(x) - 1", f"np.expm1({z})", node)


# Lengths


def _sqrt(case: Case, node: Tensor) -> Iterator[Form]:
    x = inner(node.inputs[0])
    if _is(x, *SUMS) and _squared(inner(x.inputs[0])):
        squares = inner(x.inputs[0])
        base = inner(squares.inputs[0])
        if x.op.name == "mean" and _is(base, "subtract"):
            mean = inner(base.inputs[1])
            if _is(mean, "mean"):
                yield Form(
                    "a standard deviation",
                    f"np.std({operand(base, 0)}{_axis(x)})",
                    node,
                )
        if x.op.name == "sum":
            code = f"np.linalg.norm({operand(squares, 0)}{_axis(x)})"
            yield Form("the length of a vector", code, node)
    if _is(x, "var"):
        yield Form("a standard deviation", f"np.std({operand(x, 0)}{_axis(x)})", node)
    if _is(x, "matmul", "tensordot", "einsum") and len(x.inputs) == 2:
        if x.inputs[0] is x.inputs[1]:
            code = f"np.linalg.norm({operand(x, 0)})"
            yield Form("the length of a vector", code, node)
    if _is(x, "add"):
        a, b = map(inner, x.inputs)
        if _squared(a) and _squared(b):
            code = f"np.hypot({operand(a, 0)}, {operand(b, 0)})"
            yield Form("the length of two numbers", code, node)


def _divide(case: Case, node: Tensor) -> Iterator[Form]:
    below = inner(node.inputs[1])
    lengths = ("norm", "sqrt", "hypot", "std")
    if _is(below, *lengths):
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
