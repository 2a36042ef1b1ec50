"""The backend that compiles: fused kernels for the CPU, made by LLVM.

`lowering` cuts a graph into steps, `kernel` writes a loop as IR, `program` runs them,
`tiers` lets NumPy answer until they are ready.
"""
