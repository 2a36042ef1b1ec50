"""Sparse derivatives: which entries can differ from zero, and how few sweeps find them.

`pattern.py` holds what is known of a matrix before it has values. `propagation.py`
finds it from a program, and `curvature.py` what a Hessian needs besides: by the rules
of the ops in `rules.py` and `products.py`, in the compact form of `relations.py`.
`sparsity.py` is that for users. `accumulation.py` is the same walk with the entries
beside their places (`tangents.py`), which `assembly.py` writes in order; where an op
does not allow it, `colouring.py` says which columns or rows are computed together.
`evaluation.py` chooses and computes.
"""
