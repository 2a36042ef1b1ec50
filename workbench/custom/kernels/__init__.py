"""Native kernels: C and C++ source for the CPU, CUDA for the GPU.

`op.py` is what users type and `declared.py` what they declare with it, `patterns.py`
and `signature.py` the arrays, `units.py` the text that a compiler sees, `toolchain.py`
the compilers, `cache.py` what they made, `native.py` and `cuda.py` how it is called,
`running.py` which of them runs, `places.py` the user's lines.
"""

from workbench.custom.kernels.op import KernelOp

__all__ = ["KernelOp"]
