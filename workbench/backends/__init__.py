"""A Graph becomes a function of arrays.

`numpy.py` is the definition: it runs op by op what `core/schedule.py` has put in order.
`text.py` writes a graph as NumPy code, each op as `core/spelling.py` has it;
`compiled/` makes fused kernels of it; `profile.py` says what each step costs.
"""
