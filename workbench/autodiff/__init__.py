"""Derivatives of programs: reverse and forward mode, Jacobians, vmap, checkpoints.

Of functions: `grad.py`, `jacobian.py`, `products.py`, `batch.py` (`vmap`),
`checkpoint.py`, `implicit.py`, each by one `recorded_call.py`. Of expressions:
`expressions.py` on `derivatives.py`. Both walk by `reverse.py` and `forward.py`, over
what `steps.py` plans; `program.py` and `body.py` hold recorded programs that run again.
"""
