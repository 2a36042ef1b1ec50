"""The same plans on a GPU: kernels as CUDA C++, which CuPy compiles and launches."""
