"""Steps that another library computes, with derivatives of its own.

What an importer has no row for is one node all the same: the library gives its value
and, of that one step, the products with its derivatives, which are such nodes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from workbench.core.tensor import Tensor
from workbench.custom.op import Op
from workbench.ops.define import dtype_of

#: A function of the library's arrays that returns a tuple of them.
Step = Callable[..., tuple[Any, ...]]


class Library:
    """What a library must be able to do: run a step on NumPy arrays, and derive it.

    Integers have no derivatives: cotangents, tangents and gradients are those of the
    inputs and outputs of floats alone, in their order.

    Attributes
    ----------
    name
        How it is called, the prefix of the names of its nodes.
    """

    name: ClassVar[str]

    def run(self, step: Step, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the step computes, as NumPy arrays."""
        raise NotImplementedError

    def pull(self, step: Step, count: int) -> Step:
        """Return the step of its ``count`` inputs, then cotangents, to gradients."""
        raise NotImplementedError

    def push(self, step: Step, count: int) -> Step:
        """Return the step of its ``count`` inputs, then tangents, to tangents."""
        raise NotImplementedError


class ForeignStep:
    """One step of a library, as a function of arrays; equal only to itself."""

    def __init__(self, library: Library, name: str, step: Step) -> None:
        self.library = library
        self.name = name
        self.step = step
        self._derived: dict[tuple[str, int], ForeignStep] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs; of Tensors, those of one node."""
        made = foreign_class(f"{self.library.name}_{self.name}")(self)(*inputs)
        return made if isinstance(made, tuple) else (made,)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the outputs as NumPy arrays."""
        return self.library.run(self.step, arrays)

    def derive(self, kind: str, count: int) -> ForeignStep:
        """Return the step of the derivatives, ``"pull"`` or ``"push"``."""
        found = self._derived.get((kind, count))
        if found is None:
            step = getattr(self.library, kind)(self.step, count)
            found = ForeignStep(self.library, f"{self.name}_{kind}", step)
            self._derived[kind, count] = found
        return found

    def __repr__(self) -> str:
        return f"<{self.name} of {self.library.name}>"


class Foreign(Op):
    """An op that another library computes; it is neither compiled nor on a GPU."""

    step: ForeignStep

    def compute(self, *arrays: Any) -> Any:
        """Return the library's value."""
        made = self.step.run(*arrays)
        return made[0] if len(made) == 1 else made

    def vjp(self, node: Any, *cotangents: Any) -> Any:
        """Return the library's gradients, one node again."""
        given = [
            np.zeros_like(y) if g is None else g
            for g, y in zip(cotangents, node.outputs, strict=True)
            if is_float(y)
        ]
        pull = self.step.derive("pull", len(node.inputs))
        made = iter(pull(*node.inputs, *given))
        return [next(made) if is_float(x) else None for x in node.inputs]

    def jvp(self, node: Any, *tangents: Any) -> Any:
        """Return the library's tangents, one node again."""
        given = [
            np.zeros_like(x) if t is None else t
            for t, x in zip(tangents, node.inputs, strict=True)
            if is_float(x)
        ]
        push = self.step.derive("push", len(node.inputs))
        moved = iter(push(*node.inputs, *given))
        made = [next(moved) if is_float(y) else None for y in node.outputs]
        return made[0] if len(made) == 1 else tuple(made)


def is_float(x: Any) -> bool:
    """Return whether an array can have a derivative."""
    return dtype_of(x).kind in "fc"


@cache
def foreign_class(name: str) -> type[Foreign]:
    """Return the class of the ops of one name, which pictures and overrides know."""
    space = {"__module__": __name__, "name": name, "__doc__": Foreign.__doc__}
    return type(name, (Foreign,), space)


def has_tensor(values: Sequence[Any]) -> bool:
    """Return whether a Tensor takes part."""
    return any(isinstance(x, Tensor) for x in values)
