"""Programs from symbols: declare variables, write expressions, make a function.

`variables.py` declares them, `function.py` makes an expression a `Function`.
"""

from workbench.symbolic.variables import (
    constant,
    matrices,
    matrix,
    scalar,
    scalars,
    tensor,
    vector,
    vectors,
)

__all__ = [
    "constant",
    "matrices",
    "matrix",
    "scalar",
    "scalars",
    "tensor",
    "vector",
    "vectors",
]
