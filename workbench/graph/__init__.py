"""Floor 1: what a program is. A graph of Tensors, and how code becomes one."""
