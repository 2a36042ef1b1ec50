"""Which nodes carry complex numbers: their complex step needs no second witness."""

from __future__ import annotations

from workbench.core.tensor import IDENTITY, Tensor

__all__ = ["carries"]

#: Ops whose ``compute`` is NumPy's own function, carries complex numbers and is
#: analytic wherever it is finite.
ANALYTIC = frozenset(
    """
    add subtract multiply negative positive square sin cos tan sinh cosh tanh exp
    arctan arcsinh matmul dot vdot inner outer tensordot einsum vecdot sum mean
    reshape transpose swapaxes moveaxis expand_dims squeeze broadcast_to concatenate
    stack getitem take roll flip tile repeat diagonal trace kron cumsum ravel
    """.split()
)


def carries(node: Tensor) -> bool:
    """Whether a node carries complex numbers and has no kink where it is finite.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.scalar("x")
    >>> [carries(y) for y in (np.sin(x), x**3, x**0.5, np.abs(x))]
    [True, True, False, False]
    """
    if node.op is IDENTITY:
        return True
    if node.op.name == "power" and isinstance(node.inputs[1], int):
        return not node.op.custom
    return node.op.name in ANALYTIC and not node.op.custom
