"""The shapes of a body's outputs, told by the shapes of what it is given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.body import Body
from workbench.core import types
from workbench.core.atoms import Length, atoms_of
from workbench.core.dims import Dim
from workbench.core.types import Spec

__all__ = ["outward"]


def outward(
    body: Body, inputs: Sequence[Any], rows: Collection[int] = ()
) -> list[Spec]:
    """The specs of the outputs for these inputs (specs or values), one per leaf.

    ``rows`` are the leaves that stand for one row of their input. A length that the
    body itself must find out is None.
    """
    places = {x.serial: i for i, x in enumerate(body.leaves)}
    inner = {x.serial for x in body.nodes}

    def outer(atom: Any) -> Any:
        i = places.get(atom.tensor.serial, -1) if isinstance(atom, Length) else -1
        if i < 0:
            return None
        x = inputs[i]
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
        return shape[atom.axis + (i in rows)]

    def told(n: Any) -> Any:
        if not isinstance(n, Dim):
            return n
        made = n.replaced(outer)
        hidden = any(
            isinstance(atom, Length) and atom.tensor.serial in inner
            for atom in atoms_of(made)
        )
        return None if hidden else made

    specs = [types.spec_of(y) for y in body.outputs]
    return [Spec(tuple(map(told, s.shape)), s.dtype) for s in specs]
