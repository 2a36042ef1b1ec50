"""Linear algebra."""

from __future__ import annotations

import numpy as np

from tests.ops.samples.table import Table, apart, definite, matrix, stepped

row = Table()

for _ord in (None, 2, 1, 3, 2.5, 0.5, np.inf, -np.inf, 0):
    row(
        f"norm {_ord}",
        lambda x, o=_ord: np.linalg.norm(x, o),
        apart(4),
        kinds="fc" if _ord in (None, 1, 3) else "f",
    )
for _ord in ("fro", 1, -1, np.inf, -np.inf):
    row(
        f"norm of a matrix {_ord}",
        lambda x, o=_ord: np.linalg.norm(x, o),
        stepped(2, 3),
    )
row("norm of all", lambda x: np.linalg.norm(x), apart(2, 2, 2))
row("norm axis", lambda x: np.linalg.norm(x, axis=1, keepdims=True), apart(2, 3))
row("norm axis ord", lambda x: np.linalg.norm(x, 3, axis=0), apart(2, 3))
row("norm axes", lambda x: np.linalg.norm(x, axis=(0, 2)), apart(2, 2, 3))
row("norm axes ord", lambda x: np.linalg.norm(x, 1, (0, 2), True), stepped(2, 2, 3))
row("vector_norm", lambda x: np.linalg.vector_norm(x, axis=1), apart(2, 3))
row("matrix_norm", lambda x: np.linalg.matrix_norm(x), apart(2, 2, 3))
row("inv", np.linalg.inv, matrix(3, 3), kinds="fc")
row("inv of a stack", np.linalg.inv, matrix(2, 2, 2))
row("solve", np.linalg.solve, matrix(3, 3), apart(3, 2), kinds="fc")
row("solve vector", np.linalg.solve, matrix(3, 3), apart(3), kinds="fc")
row("solve stacks", np.linalg.solve, matrix(2, 2, 2), apart(2, 3))
row("solve stack and vector", np.linalg.solve, matrix(2, 2, 2), apart(2))
row("det", np.linalg.det, matrix(3, 3), kinds="fc")
row("det of a stack", np.linalg.det, matrix(2, 2, 2))
row("slogdet", lambda x: np.linalg.slogdet(x)[1], matrix(3, 3), kinds="fc")
row("slogdet sign", lambda x: np.prod(np.linalg.slogdet(x)), matrix(3, 3), kinds="fc")
row("cholesky", np.linalg.cholesky, definite(3, 3))
row("cholesky of a stack", np.linalg.cholesky, definite(2, 2, 2))
row("cholesky upper", lambda x: np.linalg.cholesky(x, upper=True), definite(2, 2))
row(
    "linalg aliases",
    lambda x: (
        np.linalg.matmul(x, np.linalg.matrix_transpose(x)) * np.linalg.trace(x)
        + np.linalg.diagonal(x)
    ),
    apart(2, 2),
)
