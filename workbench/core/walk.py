"""Order, substitute, cut out: walks over Tensors, all iterative, linear time.

A Tensor's serial is larger than those of its inputs, so sorting by serial is a
topological order and no walk needs recursion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.core import traces, types
from workbench.core.memory import Memory, Version, replace_handles
from workbench.core.tensor import (
    IDENTITY,
    MaskedTensor,
    Tensor,
    apply,
    take_name,
    value_of,
)


def is_leaf(node: Tensor) -> bool:
    """Return whether a node is an input or a constant of its program."""
    return node.op is IDENTITY and not node.inputs


def order_nodes(
    roots: Iterable[Tensor], first: int = 0, stop: Collection[int] = frozenset()
) -> list[Tensor]:
    """Return all Tensors that the roots depend on, from serial ``first``, ascending.

    The walk does not go behind Tensors whose serials are in ``stop``.
    """
    if traces.WRITTEN[0]:
        roots = map(traces.node_of, roots)
    nodes = {root.serial: root for root in roots if root.serial >= first}
    stack = list(nodes.values())
    pop, push, changed = stack.pop, stack.append, traces.CHANGED
    while stack:
        node = pop()
        if stop and node.serial in stop:
            continue
        for x in node.inputs:
            # The exact class first: this loop runs for every edge of a program.
            if type(x) is not Tensor:
                if not isinstance(x, Tensor):
                    continue
                if type(x) in changed:
                    replace_handles(node)
                    push(node)  # again, and what it is made from
                    break
            serial = x.serial
            if serial >= first and serial not in nodes:
                nodes[serial] = x
                push(x)
    return list(map(nodes.__getitem__, sorted(nodes)))


def find_dependents(nodes: Sequence[Tensor], sources: Iterable[Tensor]) -> set[int]:
    """Return the serials of those nodes (ascending) that are or depend on a source."""
    found = {x.serial for x in sources}
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in found:
                found.add(node.serial)
                break
    return found


def substitute(outputs: Sequence[Any], new: Mapping[Tensor, Any]) -> list[Any]:
    """Return the outputs computed again with some Tensors replaced.

    Only what depends on a replaced Tensor is applied anew; with plain arrays in
    ``new`` and nothing else unknown, the results are plain arrays.
    """
    replaced: dict[int, Any] = {x.serial: y for x, y in new.items()}
    if not replaced:
        return list(outputs)
    roots = [x for x in outputs if isinstance(x, Tensor)]
    for node in order_nodes(roots, min(replaced)):
        if node.serial in replaced:
            continue
        if any(isinstance(x, Tensor) and x.serial in replaced for x in node.inputs):
            inputs = tuple(
                replaced.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            )
            replaced[node.serial] = apply(node.op, inputs, node.params)
    return [replaced.get(x.serial, x) if isinstance(x, Tensor) else x for x in outputs]


def copy_node(
    node: Tensor, inputs: tuple[Any, ...], args: tuple[Any, ...], value: object
) -> Tensor:
    """Return a copy of a node with other inputs and value, on its line, with its name.

    Of a shared variable that is a leaf of its name: what it holds is its own.
    """
    kind = MaskedTensor if isinstance(node, MaskedTensor) else Tensor
    copy = kind(
        node.op, inputs, args, node.params, value, node.code, node.lasti, node.context
    )
    if value is None:
        copy.spec = types.spec_of(node)
    return _take_names(copy, node)


def copy_version(node: Tensor, inputs: tuple[Any, ...]) -> Tensor:
    """Return a copy of a version that has no value yet (`is_lazy`).

    Its value is made from that of the one before, when somebody asks for it.
    """
    args = (node.args[0], *map(value_of, inputs[1:]))
    copy = Version(
        node.op, inputs, args, node.params, None, node.code, node.lasti, node.context
    )
    copy.spec = node.spec
    before = inputs[0]
    if type(before) is Version:
        copy.memory = before.memory
    else:
        copy.memory = Memory(before)
        copy.memory.latest = None  # not written to
    return _take_names(copy, node)


def _take_names(copy: Tensor, node: Tensor) -> Tensor:
    if not node.inputs:
        take_name(copy, node)  # that of an argument may not have been read yet
    elif node.name is not None:
        copy.name = node.name
    if node.origin is not None:
        copy.origin = node.origin
    return copy
