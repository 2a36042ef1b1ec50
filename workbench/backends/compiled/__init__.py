"""The backend that compiles: fused kernels for the CPU, made by LLVM.

`roles` finds what computes each node, `lowering` cuts a graph into the `steps` of a
plan, `strips` lets steps over long arrays run on a few rows at a time, `kernel` and
`loops` write them as IR, `program` runs them, `tiers` lets NumPy answer until they are
ready.
"""
