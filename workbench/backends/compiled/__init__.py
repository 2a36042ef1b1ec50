"""The backend that compiles: fused kernels for the CPU, made by LLVM.

`roles` finds what computes each node, `lowering` cuts a graph into the `steps` of a
plan, `strips` lets steps over long arrays run on a few rows at a time, `kernel` and
`loops` write them as IR, `program` runs them, `tiers` lets NumPy answer until they are
ready.

To give an op compiled code: a ufunc needs nothing, since kernels call its own loop.
What cannot be compiled is a call of NumPy between kernels; ``wb.compile(f).profile(x)``
shows these steps. There is no table of ops here: the row of the op is asked
(`core/op.py`). Give the row the first of these that does:

1. ``scalar="x / (1 + abs(x))"``, one entry as an expression of NumPy's functions, with
   the same results at NaN, infinities and signed zeros as ``compute``;
2. ``unfold=function``, the op in other ops at fixed shapes, in NumPy's own order;
3. a formula in `functions.py`, checked against mpmath, named in `entries.py`;
4. a role in `roles.py`, for a new way of computing: `lowering.py` makes its step, and a
   module of its own writes it, as `products.py` does.

Then ``python -m pytest tests/backends/compiled``: every sample runs compiled there.
`backends/cupy` begins where the plan ends.
"""
