"""What was inferred of unknown lengths, checked while a program runs.

NumPy itself checks most: operands that do not fit, shapes that hold too few entries.
What it cannot know is which lengths a symbol was declared with, and what was found
out about an op by asking it at a few lengths. Both are compared once per node; a
program without unknown lengths has no checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core import blame, dims
from workbench.core.deferred import Late
from workbench.core.dims import Dim, Length
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError

__all__ = ["Checks", "Known", "checks", "declared"]

#: What is known of lengths in one run, by the key of an atom.
Known = dict[Any, int]
#: A place in a shape, and its length: what it must be, or what it tells.
Look = tuple[int | None, int, Any]


class Checks:
    """Which shapes tell or are compared, when."""

    def __init__(
        self, inputs: list[tuple[int, Tensor, list[Look]]],
        steps: dict[int, tuple[Tensor, list[Look]]],
    ) -> None:  # fmt: skip
        self.inputs = inputs
        self.steps = steps

    def start(self, arrays: Sequence[Any]) -> Known:
        """The lengths that the inputs tell.

        Raises
        ------
        ShapeError
            If they contradict what was declared.
        """
        known: Known = {}
        for i, x, looks in self.inputs:
            _look(x, arrays[i], looks, known)
        return known

    def after(self, step: int, value: Any, known: Known) -> None:
        """Look at what a step has made."""
        found = self.steps.get(step)
        if found is not None:
            _look(found[0], value, found[1], known)


def checks(graph: Graph, nodes: Sequence[Tensor]) -> Checks | None:
    """The checks of a program; None if it has no unknown lengths."""
    if not (any(map(_unknown, graph.inputs)) or any(map(_unknown, nodes))):
        return None
    told: set[Any] = set()
    inputs = []
    for i, x in enumerate(graph.inputs):
        looks = _looks(x, told, trusted=False)
        if looks:
            inputs.append((i, x, looks))
    steps = {}
    needed = _needed(nodes)
    for i, node in enumerate(nodes):
        op = node.op.base if isinstance(node.op, Late) else node.op
        trusted = op.elementwise or (op.lengths is not None and not op.custom)
        looks = _looks(node, told, trusted=trusted)
        # What nobody compares with need not be measured.
        looks = [x for x in looks if not _tells(x) or _key(x) in needed]
        if looks:
            steps[i] = node, looks
    return Checks(inputs, steps) if inputs or steps else None


def _unknown(node: Tensor) -> bool:
    if node._value is not None:
        return False
    spec: Any = node.spec
    specs = spec if type(spec) is tuple else (spec,)
    return any(dims.found(x.shape) for x in specs)


def _tells(look: Look) -> bool:
    return isinstance(look[2], tuple)


def _key(look: Look) -> Any:
    return look[2]


def _needed(nodes: Sequence[Tensor]) -> set[Any]:
    """The lengths of nodes that shapes of other nodes name."""
    found: set[Any] = set()
    for node in nodes:
        for spec in _specs(node):
            for n in spec.shape:
                if isinstance(n, Dim):
                    alone = n.alone
                    own = isinstance(alone, Length) and alone.tensor is node
                    if not own:
                        found.update(a.key for p in n.terms for a in p)
    return found


def _specs(node: Tensor) -> tuple[Any, ...]:
    spec: Any = node.spec if node._value is None else ()
    return spec if isinstance(spec, tuple) else (spec,)


def _looks(node: Tensor, told: set[Any], *, trusted: bool) -> list[Look]:
    """What to look at in the shape of a node, which tells some lengths."""
    specs = _specs(node)
    many = node._value is None and isinstance(node.spec, tuple)
    found: list[Look] = []
    unknown = any(isinstance(n, Dim) for spec in specs for n in spec.shape)
    for part, spec in enumerate(specs) if unknown else ():
        for axis, n in enumerate(spec.shape):
            place = part if many else None
            if not isinstance(n, Dim):
                if not trusted:
                    found.append((place, axis, n))
                continue
            alone = n.alone
            if alone is not None and alone.key not in told:
                told.add(alone.key)
                found.append((place, axis, alone.key))
            elif not trusted and all(a.key in told for p in n.terms for a in p):
                found.append((place, axis, n))
    return found


def _look(node: Tensor, value: Any, looks: list[Look], known: Known) -> None:
    for part, axis, n in looks:
        held = value if part is None else value[part]
        shape = getattr(held, "shape", ())
        whole: Any = node.spec
        spec = whole if part is None else whole[part]
        if len(shape) != len(spec.shape):
            raise _mismatch(node, spec, shape, known)
        have = shape[axis]
        if type(n) is tuple:
            known[n] = have
        elif have != (n.replaced(lambda a: known.get(a.key)) if type(n) is Dim else n):
            raise _mismatch(node, spec, shape, known)


def _mismatch(node: Tensor, spec: Any, shape: Any, known: Known) -> ShapeError:
    atoms = {
        a.key: f"{a} = {known[a.key]}"
        for n in spec.shape
        if isinstance(n, Dim)
        for product in n.terms
        for a in product
        if a.key in known
    }
    where = f" ({', '.join(atoms.values())})" if atoms else ""
    cure = "Give arrays of the lengths that the symbols were declared with."
    if node.op.custom:
        cure = (
            "If its lengths depend on values, write infer(self, *specs) that returns"
            " wb.Spec with None in their place."
        )
    return ShapeError(
        f"{blame.describe(node)}{blame.at(node.site)} came out with shape"
        f" {tuple(shape)}, and was to have {spec}{where}. {cure}"
    )


def declared(node: Tensor) -> str:
    """What the operands of a node were declared as, where lengths were unknown."""
    shown = []
    for x in node.inputs:
        if (
            isinstance(x, Tensor)
            and x._value is None
            and _looks(x, set(), trusted=True)
        ):
            name = f"{x.name!r} " if x.name else ""
            shown.append(f"{name}{x.spec}")
    return f" The operands: {', '.join(shown)}." if shown else ""
