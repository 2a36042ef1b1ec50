"""What a program inside an op makes of operands of unknown lengths.

The ops inside know it: their lengths are told by those of what they are given, and
what they need to be equal the whole needs. Nothing is guessed at stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any

from workbench.core import types, walk
from workbench.core.atoms import Length, Made, Replace, atoms_of
from workbench.core.dims import Dim, replaced
from workbench.core.probe import STAND_INS
from workbench.core.shape_constraints import Facts, meet
from workbench.core.tensor import Tensor, next_serial
from workbench.core.trace import record
from workbench.core.types import Spec

__all__ = ["agrees", "outer_specs", "traced_specs"]


def traced_specs(
    run: Callable[[Sequence[Any]], Sequence[Any]], specs: Sequence[Any]
) -> tuple[Spec, ...]:
    """Return the specs of the outputs of a flat function, which is traced.

    A length that only its run tells is None; what must be equal is a fact of the op
    that asks (`facts.meet`).
    """
    first = next_serial()
    made = record(lambda leaves: list(run(leaves)), list(map(types.value_spec, specs)))
    found = [y for y in made.outputs if isinstance(y, Tensor)]

    def is_inner(length: Length) -> bool:
        return bool(length.tensor.serial >= first)

    given = list(map(types.spec_of, made.outputs))
    return outer_specs(walk.order(found, first), given, _keep_atom, is_inner)


def agrees(
    made: Sequence[Spec],
    facts: Facts,
    specs: Sequence[Any],
    ask: Callable[..., Any],
) -> bool:
    """Whether what a trace tells is what the function itself gives at small lengths.

    Code that takes arrays alone may do anything with Tensors: gather them as objects,
    for one. ``ask`` gives the specs of its outputs for operands of known lengths.
    """
    together = [*facts]
    shapes = [s.shape for s in (*made, *specs)]
    for atom in atoms_of([n for shape in shapes for n in shape]):
        if isinstance(atom, Made) and atom.kind == "broadcast":
            together += [(atom.args[0], other) for other in atom.args[1:]]
    groups: list[set[Any]] = [{a} for a in set(atoms_of(shapes))]
    for pair in together:
        ends = {n.alone if isinstance(n, Dim) else n for n in pair}
        touched = [group for group in groups if group & ends]
        groups = [g for g in groups if g not in touched] + [set().union(ends, *touched)]
    for row in STAND_INS[:2]:
        lengths: dict[Any, Any] = {}
        for group, n in zip(groups, cycle(row)):
            known = [m for m in group if isinstance(m, int)]
            at = known[0] if known else n
            lengths |= {a.key: at for a in group if isinstance(a, Length)}

        def new(atom: Any, lengths: dict[Any, Any] = lengths) -> Any:
            return lengths.get(atom.key)

        try:
            found = ask(*[Spec(replaced(s.shape, new), s.dtype) for s in specs])
        except Exception:  # of lengths that it does not take
            return False
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(made) or not all(
            len(y.shape) == len(want.shape)
            and y.dtype == want.dtype
            and all(
                n is None or replaced(n, new) == m
                for n, m in zip(want.shape, y.shape, strict=True)
            )
            for y, want in zip(found, made, strict=True)
        ):
            return False
    return True


def outer_specs(
    nodes: Iterable[Tensor],
    specs: Sequence[Any],
    new: Replace,
    is_inner: Callable[[Length], bool],
) -> tuple[Spec, ...]:
    """Return specs in the lengths outside, which ``new`` gives for those inside.

    What the nodes need to be equal is noted, as far as it can be told outside.
    """

    def told(n: Any) -> Any:
        n = replaced(n, new)
        inner = any(isinstance(a, Length) and is_inner(a) for a in atoms_of(n))
        return None if inner else n

    for node in nodes:
        for pair in node.facts or ():
            a, b = map(told, pair)
            if a is not None and b is not None:
                meet(a, b)
    return tuple([Spec(tuple(map(told, s.shape)), s.dtype) for s in specs])


def _keep_atom(atom: Any) -> None:
    return None
