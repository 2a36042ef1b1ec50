"""What one function of a text calls its values, and what it calls from outside."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from workbench.backends.module import HELPERS, Module
from workbench.backends.spelling import array_text, literal
from workbench.core.op import Op
from workbench.core.tensor import Tensor

__all__ = ["Names", "suggestion"]


class Names:
    """The names of one function, besides those that its module has."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.constant_names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def callee(self, op: Op) -> str:
        """How the text calls an op that is a function."""
        if op.custom:
            return self.constant(op.compute, op.name)
        if op.name in HELPERS:
            self.module.helpers[op.name] = None
            return op.name
        if isinstance(op.compute, np.ufunc) and hasattr(np, op.compute.__name__):
            return f"np.{op.compute.__name__}"
        for prefix, home in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
            name = op.name.removeprefix("linalg_").removeprefix("fft_")
            if callable(getattr(home, name, None)):
                return f"{prefix}.{name}"
        return self.constant(op.compute, op.name)

    def literal(self, x: Any, name: str = "c") -> str:
        """A constant or a setting as code."""
        spelled = literal(x)
        return self.constant(x, name) if spelled is None else spelled

    def constant(self, x: Any, base: str) -> str:
        """The name of a global that holds what cannot be spelled out."""
        found = self.constant_names.get(id(x))
        if found is None:
            found = self.constant_names[id(x)] = self.name(base)
            code = array_text(x, f"{found} = ")
            if code is None:
                self.module.constants[found] = x
            else:
                self.module.arrays[found] = code
            self.module.globals.add(found)
        return found

    def name(self, base: str) -> str:
        """A fresh identifier like ``base``."""
        base = re.sub(r"\W+", "_", base).strip("_") or "x"
        if base[0].isdigit():
            base = f"x{base}"
        name, count = base, 0
        while name in self.taken or name in self.module.globals:
            count = self.counts.get(base, 1) + 1
            self.counts[base] = count
            name = f"{base}_{count}" if base[-1].isdigit() else f"{base}{count}"
        self.taken.add(name)
        return name


def suggestion(x: Tensor) -> str:
    """A name for a value: the user's, or that of the value it is a gradient of."""
    if x.name:
        return x.name
    origin = x.origin
    if origin is not None and origin.forward.name:
        return f"d_{origin.forward.name}"
    return "t"
