"""Contractions: everything that multiplies and sums."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from tests.ops.samples.table import Table, apart, constant, matrix
from workbench.ops.products import mul_without_zeros, prod_without_zeros

row = Table()

for _a, _b in [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 0), (0, 3)),
]:
    row(
        f"matmul {_a} {_b}",
        lambda a, b: a @ b,
        apart(*_a),
        apart(*_b),
        kinds="fc" if len(_a) < 3 else "f",
    )
row("matmul of one array", lambda x: x @ x.T, apart(2, 3))
row(
    "matmul by a constant",
    lambda x: constant([[0.0, 1, 2], [3, 4, 5]], x) @ x,
    apart(3),
)
row("dot", lambda a, b: np.dot(a, b), apart(2, 3), apart(3, 2))
row("dot numbers", lambda a, b: np.dot(a, b) * np.dot(b, b), apart(), apart(2))
row("dot many axes", np.dot, apart(2, 3), apart(2, 3, 2))
row("inner", np.inner, apart(2, 3), apart(2, 3))
row("inner vectors", np.inner, apart(3), apart(3))
row("outer", np.outer, apart(2, 1), apart(3), kinds="fc")
row("vdot", np.vdot, apart(2, 2), apart(2, 2), kinds="fc")
row("vecdot", lambda a, b: np.vecdot(a, b), apart(2, 3), apart(3), kinds="fc")
row("matvec", lambda a, b: np.matvec(a, b), apart(2, 2, 3), apart(3))
row("vecmat", lambda a, b: np.vecmat(a, b), apart(3), apart(3, 2), kinds="fc")
row("kron", np.kron, apart(2, 1), apart(3))
row("cross", np.cross, apart(2, 3), apart(3))
row("tensordot", lambda a, b: np.tensordot(a, b), apart(2, 2, 3), apart(2, 3, 2))
row("tensordot 0", lambda a, b: np.tensordot(a, b, 0), apart(2), apart(2, 2))
row(
    "tensordot axes",
    lambda a, b: np.tensordot(a, b, ([2, 0], [0, 1])),
    apart(2, 2, 3),
    apart(3, 2, 2),
    kinds="fc",
)
row(
    "tensordot axis", lambda a, b: np.tensordot(a, b, (-1, 1)), apart(2, 3), apart(2, 3)
)
for _name in [
    "ij,jk->ik",
    "ij,jk",
    "i,i",
    "ij->ji",
    "ij->",
    "ij->j",
    "bij,bjk->bik",
    "ij,ij->i",
    "ii",
    "ii->i",
    "iij->j",
    "ij,jk,kl->il",
    "...ij,...j->...i",
    "i...,i...",
    "ij,kl->",
    "ij , j -> i",
    "iji->j",
]:
    _inputs = _name.replace(" ", "").split("->")[0].split(",")
    _shapes = [
        tuple(
            {"i": 2, "j": 3, "k": 2, "l": 2, "b": 2}[c] for c in t.replace("...", "b")
        )
        for t in _inputs
    ]
    row(
        f"einsum {_name}",
        lambda *a, s=_name: np.einsum(s, *a),
        *(apart(*s) for s in _shapes),
        kinds="fc" if len(_shapes) < 3 else "f",
    )
row(
    "einsum broadcast",
    lambda a, b: np.einsum("ij,ij->j", a, b),
    apart(2, 3),
    apart(2, 1),
)
row("einsum one for all", lambda a, b: np.einsum("i,i->", a, b), apart(3), apart(1))
row(
    "einsum lists",
    lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    apart(2, 3),
    apart(3, 2),
)
row("einsum lists implicit", lambda a: np.einsum(a, [0, 0]), apart(2, 2))
row(
    "einsum lists ellipsis",
    lambda a, b: np.einsum(a, [..., 1], b, [1], [...]),
    apart(2, 3),
    apart(3),
)
row(
    "einsum optimize",
    lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True),
    apart(2, 3),
    apart(3, 2),
)
for _how in (False, True, "greedy", "optimal", ("einsum_path", (0, 2), (0, 1))):
    row(
        f"einsum of three, {_how}",
        lambda a, b, c, o=_how: np.einsum("ij,jk,kl->il", a, b, c, optimize=o),
        apart(2, 3),
        apart(3, 2),
        apart(2, 2),
    )
row(
    "einsum of four",
    lambda a, b, c, d: np.einsum("ij,j,kj,k->i", a, b, c, d),
    apart(2, 3),
    apart(3),
    apart(2, 3),
    apart(2),
)
row(
    "einsum of complex",
    lambda a, b, c: np.einsum("ij,jk,k", a, b, c),
    apart(2, 2),
    apart(2, 2),
    apart(2),
    kinds="c",
)
row(
    "einsum ellipsis of unequal ranks",
    lambda a, b: np.einsum("...ij,j...->i...", a, b),
    apart(2, 2, 3),
    apart(3, 2),
)
row(
    "einsum lists of three",
    lambda a, b, c: np.einsum(a, [2, 0], b, [0, 5], c, [5], [2]),
    apart(2, 3),
    apart(3, 2),
    apart(2),
)
_SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0, 2], [0, -3, 0]]))
row("sparse @ vector", lambda x: _SPARSE @ (x * x), apart(3))
row("sparse @ matrix", lambda x: _SPARSE @ x, apart(3, 2))
row("vector @ sparse", lambda x: x @ _SPARSE, apart(2))
row("matrix @ sparse", lambda x: x @ _SPARSE, apart(2, 2))
row(
    "multi_dot",
    lambda a, b, c: np.linalg.multi_dot([a, b, c]),
    apart(2),
    apart(2, 3),
    apart(3, 2),
)
row("matrix_power", lambda a: np.linalg.matrix_power(a, 3), matrix(2, 2))
row("matrix_power negative", lambda a: np.linalg.matrix_power(a, -2), matrix(2, 2))
row("matrix_power 0", lambda a: np.linalg.matrix_power(a, 0) * a, matrix(2, 2))
row("linalg.cross axis", lambda a, b: np.linalg.cross(a, b, axis=0), apart(3, 2),
    apart(3, 1))  # fmt: skip
row(
    "cross axes",
    lambda a, b: np.cross(a, b, axisa=0, axisb=-1, axisc=0),
    apart(3, 2),
    apart(2, 3),
    kinds="fc",
)
row("kron of unequal ranks", np.kron, apart(2, 1, 2), apart(3, 1), kinds="fc")
row("kron of a number", lambda a, b: np.kron(a, b), apart(), apart(2, 2))
row("outer of a number", np.outer, apart(), apart(3))
row("inner of many axes", np.inner, apart(2, 3), apart(2, 2, 3), kinds="fc")
row("dot of a vector", np.dot, apart(3), apart(2, 3, 2), kinds="fc")
row("vecdot axis", lambda a, b: np.linalg.vecdot(a, b, axis=0), apart(3, 2),
    apart(3, 1), kinds="fc")  # fmt: skip
row("tensordot of nothing", lambda a, b: np.tensordot(a, b, 1), apart(2, 0),
    apart(0, 2))  # fmt: skip
row("mul_without_zeros", lambda a, b: mul_without_zeros(a * [1, 0, 1], b * [1, 1, 0]),
    apart(2, 3), apart(3), kinds="fc")  # fmt: skip
row("mul_without_zeros of nothing", lambda a, b: mul_without_zeros(a * 0, b * 0),
    apart(2), apart(2))  # fmt: skip
row("mul_without_zeros twice", lambda a: mul_without_zeros(a, a[::-1]), apart(4),
    kinds="fc")  # fmt: skip
for _axis in (None, 0, (0, 2)):
    row(
        f"prod_without_zeros axis={_axis}",
        lambda x, a=_axis: prod_without_zeros(x * [1, 0, 1], axis=a) ** 2,
        apart(2, 2, 3),
    )
row("prod_without_zeros keepdims",
    lambda x: prod_without_zeros(x * [1, 0], axis=1, keepdims=True), apart(3, 2),
    kinds="fc")  # fmt: skip
