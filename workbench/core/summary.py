"""What the text and the pictures of a graph say of each of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from workbench.core import deferred, types
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, Tensor


class Drawable(Protocol):
    """What a text or a picture asks of a graph."""

    inputs: list[Tensor]
    outputs: list[Any]

    @property
    def nodes(self) -> list[Tensor]:
        """All its Tensors, in order."""

    @property
    def ids(self) -> dict[Tensor, int]:
        """The position of each among the nodes."""

    def label(self, x: Any) -> str:
        """How a node or a constant is called."""

    def __len__(self) -> int: ...


class Shown(NamedTuple):
    """One node."""

    node: Tensor
    #: Its name, or ``%3`` for its position.
    label: str
    #: ``input``, ``shared``, ``constant 1.0``, or the op with its operands.
    made: str
    #: The positions of the nodes that it reads.
    reads: list[int]
    #: Whether it belongs to a gradient.
    backward: bool
    #: The position of the forward node that it belongs to; None if it is not here.
    forward: int | None
    #: What a gradient's node comes from: ``from tanh h: g * (1 - y**2)``.
    origin: str

    @property
    def op(self) -> str:
        """The op's name; empty for what is not computed."""
        return "" if is_leaf(self.node) else self.node.op.name

    @property
    def spec(self) -> str:
        """Dtype and shape."""
        return repr(types.spec_of(self.node))

    @property
    def brief(self) -> str:
        """Dtype and shape in little room: ``?`` for a length with a long text."""
        spec = types.spec_of(self.node)
        if isinstance(spec, tuple):
            return f"{len(spec)} outputs"
        lengths = [str(n) for n in spec.shape]
        return f"{spec.dtype}[{', '.join(n if len(n) < 8 else '?' for n in lengths)}]"

    @property
    def overridden(self) -> bool:
        """Whether an override made it."""
        return self.node.origin is not None and self.node.origin.overridden


def is_leaf(node: Tensor) -> bool:
    """Whether it is given, not computed."""
    return node.op is IDENTITY and not node.inputs


def described(graph: Drawable) -> list[Shown]:
    """All nodes of a graph, in order."""
    given = {x.serial for x in graph.inputs}
    made = [_described(graph, node, given) for node in graph.nodes]
    # A constant that only a gradient reads is part of it, as its seed is.
    only: dict[int, bool] = {}
    for one in made:
        for i in one.reads:
            only[i] = only.get(i, True) and one.backward
    return [
        one._replace(backward=True)
        if only.get(i) and one.made.startswith("constant")
        else one
        for i, one in enumerate(made)
    ]


def _described(graph: Drawable, node: Tensor, given: set[int]) -> Shown:
    ids = graph.ids
    reads = [ids[x] for x in node.inputs if isinstance(x, Tensor) and x in ids]
    origin = node.origin
    forward, text = None, ""
    if origin is not None:
        forward = ids.get(origin.forward)
        whose = origin.forward
        label = whose.name if forward is None else graph.label(whose)
        op = "" if is_leaf(whose) else whose.op.name
        text = f"from {' '.join(filter(None, (op, label)))}"
        text += ", overridden" if origin.overridden else ""
        text += f": {origin.rule}" if origin.rule else ""
    return Shown(
        node,
        graph.label(node),
        _made(graph, node, given),
        reads,
        origin is not None,
        forward,
        text,
    )


def _made(graph: Drawable, node: Tensor, given: set[int]) -> str:
    if is_leaf(node):
        if isinstance(node, Shared):
            return "shared"
        if node.serial in given:
            return "input"
        if node._value is None:
            return "symbol"
        return f"constant {_constant(node._value)}"
    _, inputs, params = deferred.stripped(node)
    arguments = [graph.label(x) for x in inputs]
    arguments += [f"{k}={_cut(v)}" for k, v in params.items()]
    return f"{node.op.name}({', '.join(arguments)})"


def _constant(value: Any) -> str:
    """A constant in short: a number as it is, an array by its spec."""
    if types.weak(value) or getattr(value, "shape", None) == ():
        return str(value)
    return repr(types.spec_of(value))


def _cut(x: Any, most: int = 60) -> str:
    text = " ".join(str(x).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def counted(shown: Sequence[Shown], most: int) -> str:
    """How many nodes of each op there are, the commonest first."""
    counts: dict[str, int] = {}
    for one in shown:
        name = one.op or one.made.partition(" ")[0]
        counts[name] = counts.get(name, 0) + 1
    common = sorted(counts.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{n} × {op}" for op, n in common[:most])
    return listed + (", …" if len(common) > most else "")
