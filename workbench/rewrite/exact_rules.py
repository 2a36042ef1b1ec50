"""Rules that make a program smaller and leave its values where they are.

Each holds for all numbers, NaN and infinity among them; a note says where the sign of a
zero or the last digit may change. Rules that would move a NaN or an infinity, as
``x * 0`` to ``0``, are not here. So some do not hold for complex numbers, where
``1 * (inf + 1j)`` has a NaN: the sign of a zero part of one may change in all of them.
Others do not hold for integers, of which some have no negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import dims, types
from workbench.core.tensor import Tensor
from workbench.ops.updates import add_to_entries
from workbench.rewrite.rule import Replacement, node_rule, rule

ZERO = "The sign of a zero may change."
SAME = "The derivative at NaN is that of x, and not 0."


def _is_float(bound: Any) -> bool:
    """Return whether all wildcards stand for floats or complex numbers."""
    return all(types.spec_of(x).dtype.kind in "fc" for x in bound.values())


def _is_real(bound: Any) -> bool:
    """Return whether all wildcards stand for real floats."""
    return all(types.spec_of(x).dtype.kind == "f" for x in bound.values())


def _is_not_complex(bound: Any) -> bool:
    """Return whether no wildcard stands for complex numbers."""
    return all(types.spec_of(x).dtype.kind != "c" for x in bound.values())


# Neutral numbers

rule("one times x", "1 * x", "x", group="simplify", when=_is_not_complex)
rule("x over one", "x / 1", "x", group="simplify", when=_is_not_complex)
rule("x plus zero", "x + 0", "x", group="simplify", note=ZERO)
rule("x minus zero", "x - 0", "x", group="simplify", note=ZERO)
rule("zero minus x", "0 - x", "-x", group="simplify", note=ZERO)
rule("minus one times x", "-1 * x", "-x", group="simplify",
    when=_is_not_complex)  # fmt: skip
rule("x over minus one", "x / -1", "-x", group="simplify",
    when=_is_not_complex)  # fmt: skip
rule("exact zero times x", "mul0(0, x)", "zeros_like(x)", group="simplify")
rule("power one", "x**1", "x", group="simplify")
rule("power zero", "x**0", "ones_like(x)", group="simplify",
    note="The derivative is 0 also for infinity and NaN.")  # fmt: skip
rule("positive", "+x", "x", group="simplify")

# Signs

rule("double negative", "-(-x)", "x", group="simplify")
rule("minus a negative", "x - -y", "x + y", group="simplify",
    when=_is_float)  # fmt: skip
rule("plus a negative", "x + -y", "x - y", group="simplify",
    when=_is_float)  # fmt: skip
rule("product of negatives", "-x * -y", "x * y", group="simplify",
    when=_is_float)  # fmt: skip
rule("quotient of negatives", "-x / -y", "x / y", group="simplify",
    when=_is_real)  # fmt: skip
rule("negative of a difference", "-(x - y)", "y - x", group="simplify", note=ZERO)
rule("size of a negative", "abs(-x)", "abs(x)", group="simplify",
    when=_is_float)  # fmt: skip
rule("size of a size", "abs(abs(x))", "abs(x)", group="simplify", when=_is_real)
rule("square of a negative", "square(-x)", "square(x)", group="simplify")

# Sums of the same


def _is_full(bound: Any) -> bool:
    """Return whether x is real, and no array of zeros with a few entries."""
    x = bound["x"]
    return _is_real(bound) and add_to_entries(x, x) is None


rule("x plus x", "x + x", "2 * x", group="simplify", when=_is_full)
rule("two x plus x", "2 * x + x", "3 * x", group="simplify", when=_is_real)


def _has_small_number(bound: Any) -> bool:
    """Return whether c is a number that no overflow depends on, and x is real."""
    c, dtype = bound["c"], types.spec_of(bound["x"]).dtype
    if dtype.kind != "f" or isinstance(c, Tensor) or types.spec_of(c).shape != ():
        return False
    limits = np.finfo(dtype)
    return bool(abs(complex(c)) < float(limits.max) * float(limits.eps) / 8)


rule("x twice and a number", "c + x + x", "2 * x + c", group="simplify",
    scalars="c", when=_has_small_number, note="The last digit may change.")  # fmt: skip

# Choices between the same

rule("greater of the same", "maximum(x, x)", "x", group="simplify",
    note=SAME)  # fmt: skip
rule("smaller of the same", "minimum(x, x)", "x", group="simplify",
    note=SAME)  # fmt: skip
rule("either way the same", "where(c, x, x)", "x", group="simplify")
rule("conjugate twice", "conj(conj(x))", "x", group="simplify")
rule("reciprocal twice", "reciprocal(reciprocal(x))", "x", group="fast",
    when=_is_float, note="The last digits may change. Where 1/x overflows or"
    " underflows, NaN and infinity move.")  # fmt: skip

# Shapes


def _keeps_shape(node: Tensor) -> bool:
    """Return whether a node has the shape and dtype of its first operand."""
    a, b = types.spec_of(node), types.spec_of(node.inputs[0])
    return (
        isinstance(a, types.Spec)
        and isinstance(b, types.Spec)
        and a.dtype == b.dtype
        and a.weak == b.weak
        and dims.is_same_shape(a.shape, b.shape)
    )


@node_rule("shape it has", "reshape broadcast_to", "reshape(x, x.shape)", "x",
    group="simplify")  # fmt: skip
def keep_shape(node: Tensor) -> Replacement | None:
    """Take a reshape or a broadcast to the shape that the operand has out."""
    return (
        Replacement((node.inputs[0],), _return_operand) if _keeps_shape(node) else None
    )


@node_rule("array of one number", "add subtract multiply divide",
    "full_like(y, 2) * x", "2 * x", group="simplify", reads="full_like")  # fmt: skip
def take_number(node: Tensor) -> Replacement | None:
    """Compute with a number in place of a filled array; NumPy spreads the number."""
    for i, x in enumerate(node.inputs):
        if isinstance(x, Tensor) and x.op.name == "full_like":
            fill = x.params["fill"]
            if type(fill) in types.WEAK_TYPES and x.dtype.kind in "fc":
                return _with_operand(node, i, fill)
    return None


@node_rule("array spread in vain", "add subtract multiply divide",
    "broadcast_to(y, x.shape) * x", "y * x", group="simplify",
    reads="broadcast_to")  # fmt: skip
def take_unspread(node: Tensor) -> Replacement | None:
    """Compute with an array that NumPy spreads by itself."""
    for i, x in enumerate(node.inputs):
        if isinstance(x, Tensor) and x.op.name == "broadcast_to":
            return _with_operand(node, i, x.inputs[0])
    return None


def _with_operand(node: Tensor, place: int, operand: Any) -> Replacement | None:
    """Return a node of two operands with another one, where its shape stays."""
    if not isinstance(node.inputs[1 - place], Tensor):
        return None
    if not dims.is_same_shape(node.inputs[1 - place].shape, node.shape):
        return None
    operands = (operand, node.inputs[1]) if place == 0 else (node.inputs[0], operand)
    return Replacement(operands, getattr(np, node.op.name), node.op.name)


@node_rule("dtype it has", "astype", "x.astype(x.dtype)", "x", group="simplify")
def keep_dtype(node: Tensor) -> Replacement | None:
    """Take a cast to the dtype that the operand has out."""
    return (
        Replacement((node.inputs[0],), _return_operand) if _keeps_shape(node) else None
    )


@node_rule("reshape of a reshape", "reshape", "reshape(reshape(x, a), b)",
    "reshape(x, b)", group="simplify")  # fmt: skip
def join_reshapes(node: Tensor) -> Replacement | None:
    """Reshape once in place of twice."""
    inner = node.inputs[0]
    if not isinstance(inner, Tensor) or inner.op.name != "reshape":
        return None
    if {x.params.get("order", "C") for x in (node, inner)} != {"C"}:
        return None  # the entries would come in another order
    shape = node.shape
    if len(inner.inputs) != 1 or not all(isinstance(n, int) for n in shape):
        return None
    return Replacement(inner.inputs, lambda x: np.reshape(x, shape), shape)


@node_rule("transpose of a transpose", "transpose", "transpose(transpose(x, p), q)",
    "transpose(x, p[q])", group="simplify")  # fmt: skip
def join_transposes(node: Tensor) -> Replacement | None:
    """Transpose once in place of twice; not at all where the two undo each other."""
    inner = node.inputs[0]
    if not isinstance(inner, Tensor) or inner.op.name != "transpose":
        return None
    rank = len(node.shape)
    backwards = tuple(range(rank))[::-1]
    first = inner.params.get("axes") or backwards
    second = node.params.get("axes") or backwards
    axes = tuple(first[k % rank] % rank for k in second)
    if axes == tuple(range(rank)):
        return Replacement(inner.inputs, _return_operand)
    return Replacement(inner.inputs, lambda x: np.transpose(x, axes), axes)


def _return_operand(x: Any) -> Any:
    return x
