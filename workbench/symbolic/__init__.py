"""Programs from symbols: declare variables, write expressions, make a function.

`variables.py` declares symbols and values that outlive a call; `function.py` makes
expressions a `Function`, whose calls `arguments.py` checks; `compiled_function.py`
traces a function of arrays for the compiler.
"""

from workbench.core.shared import Shared
from workbench.symbolic.compiled_function import CompiledFunction, compile
from workbench.symbolic.function import Function, function
from workbench.symbolic.variables import (
    constant,
    matrices,
    matrix,
    scalar,
    scalars,
    shared,
    sparse_matrix,
    tensor,
    vector,
    vectors,
)

__all__ = [
    "CompiledFunction",
    "Function",
    "Shared",
    "compile",
    "constant",
    "function",
    "matrices",
    "matrix",
    "scalar",
    "scalars",
    "shared",
    "sparse_matrix",
    "tensor",
    "vector",
    "vectors",
]
