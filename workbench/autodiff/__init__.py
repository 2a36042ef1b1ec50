"""Derivatives of programs: reverse and forward mode, Jacobians, vmap, checkpoints.

Of functions: `grad.py`, `jacobian.py`, `products.py`, `vmap.py`,
`checkpoint.py`, `implicit.py`. Of expressions:
`expressions.py` on `derivatives.py`. Both walk by `reverse.py` and `forward.py`, over
what `steps.py` plans; every dense matrix is that of a `LinearMap` (`linear_map.py`).
`call.py` and `higher_order.py` are what ops that hold graphs are built on.
`deferred.py` is loaded here: its ops are in the table when a sweep needs one of them.
"""

from workbench.autodiff import deferred

__all__ = ["deferred"]
