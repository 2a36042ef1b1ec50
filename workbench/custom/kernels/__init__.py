"""Native kernels: C and C++ source for the CPU, CUDA for the GPU.

`op.py` is what users type and declare, `signature.py` reads the arrays, `units.py`
makes the text that a compiler sees, `toolchain.py` has the compilers and keeps what
they made, `native.py` and `cuda.py` call it.
"""

from workbench.custom.kernels.op import KernelOp

__all__ = ["KernelOp"]
