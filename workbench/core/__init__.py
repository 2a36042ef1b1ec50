"""What a program is: Tensors and their Graph, and how NumPy code becomes one."""
