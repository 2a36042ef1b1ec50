"""A program again in a wider dtype, op by op, on the same leaves.

What has one dtype alone (LAPACK, kernels), or would be slow in the wide one, runs in
its own dtype on the rounded operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checks.doctor.case import Case, is_leaf
from workbench.core import walk
from workbench.core.tensor import Tensor, value_of

__all__ = ["WIDER", "WIDEST", "again"]

#: Products with more multiplications run in the dtype they have: others are slow.
MOST_PRODUCTS = 3e7

Table = dict[np.dtype[Any], Any]
WIDER: Table = {
    np.dtype(np.float16): np.float64,
    np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}
WIDEST: Table = {
    np.dtype(np.float64): np.longdouble,
    np.dtype(np.complex128): np.clongdouble,
}


def again(
    case: Case, table: Table, nodes: list[Tensor], told: bool = True
) -> dict[int, Tensor]:
    """The program in wider dtypes: new nodes by the serials of the old ones.

    ``told`` counts it as work, where somebody asks how far it is.
    """
    made: dict[int, Tensor] = {}
    total = len(case.nodes)
    for i, node in enumerate(nodes):
        if told and not i % 256:
            case.tell(2 * total + i // 4, total)
        inputs = tuple(
            [made[x.serial] if isinstance(x, Tensor) else x for x in node.inputs]
        )
        args = tuple([value_of(x) for x in inputs])
        if is_leaf(node) or not inputs:
            value = _wide(node._value, table)
        else:
            value = _computed(node, args, table)
        made[node.serial] = walk.like(node, inputs, args, value)
    return made


def _computed(node: Tensor, args: tuple[Any, ...], table: Table) -> Any:
    if node.op.name == "astype" and node.dtype in table:
        return _wide(args[0], table)
    if node.op.name == "identity":
        return args[0]
    if not (table is WIDEST and _large(node, args)):
        try:
            return _wide(node.op.compute(*args, **node.params), table)
        except Exception:
            pass
    old = [value_of(x) for x in (node.args or node.inputs)]
    plain = [
        a.astype(b.dtype) if hasattr(a, "astype") and hasattr(b, "dtype") else a
        for a, b in zip(args, old, strict=True)
    ]
    try:
        return _wide(node.op.compute(*plain, **node.params), table)
    except Exception:
        return _wide(node._value, table)


def _large(node: Tensor, args: tuple[Any, ...]) -> bool:
    if node.op.name not in ("matmul", "tensordot", "einsum", "convolve", "convolve_nd"):
        return False
    rows = float(np.size(args[0]))
    return rows * float(np.shape(args[-1])[-1] if np.ndim(args[-1]) else 1) > (
        MOST_PRODUCTS
    )


def _wide(value: Any, table: Table) -> Any:
    if isinstance(value, tuple):
        return tuple(_wide(part, table) for part in value)
    dtype = table.get(getattr(value, "dtype", np.dtype(bool)))
    if dtype is None:
        return (
            np.longdouble(value)
            if type(value) is float and table is WIDEST
            else (value)
        )
    return value.astype(dtype)
