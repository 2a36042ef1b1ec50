"""`theano.printing`: expressions and programs as text, and an op that prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from workbench.compat.theano.op import Apply, Op
from workbench.compat.theano.types import as_tensor_variable
from workbench.core import types, walk
from workbench.core.graph import Graph
from workbench.core.spelling import operator_of
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.types import ArrayLike
from workbench.errors import UsageError
from workbench.symbolic.preparing import is_leaf

__all__ = ["Print", "debugprint", "pp", "pprint", "pydotprint"]

#: The most characters that `pp` writes before it names what it cuts short.
LONGEST = 20_000


def pp(*args: Any) -> str:
    """Return expressions as one would write them.

    >>> import workbench.compat.theano as theano, workbench.compat.theano.tensor as T
    >>> x, y = T.dscalars("x", "y")
    >>> theano.pp(x + T.exp(y) ** 2)
    '(x + (exp(y) ** 2))'
    """
    return ", ".join(_write(as_tensor_variable(x)) for x in args)


pprint = pp


def _write(root: Tensor) -> str:
    text: dict[int, str] = {}
    for x in walk.order_nodes([root]):
        if x.op is IDENTITY and not x.inputs:
            text[x.serial] = x.name or (
                f"<{types.spec_of(x)}>" if x._value is None else str(x._value)
            )
            continue
        parts = [
            text[i.serial] if isinstance(i, Tensor) else _constant(i) for i in x.inputs
        ]
        template = operator_of(x)
        if template is not None and template != "{0}":
            made = f"({template.format(*parts)})"
        else:
            parts += [f"{k}={v}" for k, v in x.params.items()]
            made = f"{x.op.name}({', '.join(parts)})"
        if len(made) > LONGEST:
            made = f"<{x.op.name} {types.spec_of(x)}>"
        text[x.serial] = made
    return text[root.serial]


def _constant(x: ArrayLike) -> str:
    if types.is_weak(x) or getattr(x, "shape", None) == ():
        return str(x)
    return repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x)


def debugprint(
    obj: Any,
    depth: int = -1,
    print_type: bool = False,
    file: Any = None,
    **_: Any,
) -> Any:
    """Return the program of a variable, of several, or of a function, line by line."""
    graph = getattr(obj, "graph", None)
    if graph is None:
        roots = [
            as_tensor_variable(x)
            for x in (obj if isinstance(obj, (list, tuple)) else [obj])
        ]
        leaves = [x for x in walk.order_nodes(roots) if is_leaf(x)]
        graph = Graph(leaves, roots)
    text = str(graph)
    if file == "str":
        return text
    print(text, file=sys.stdout if file is None else file)
    return file


def pydotprint(fct: Any, outfile: Any = None, format: str = "svg", **_: Any) -> None:
    """Write the picture of a program to a file: SVG, or DOT for Graphviz."""
    graph = getattr(fct, "graph", None)
    if graph is None:
        roots = [as_tensor_variable(fct)]
        graph = Graph([x for x in walk.order_nodes(roots) if is_leaf(x)], roots)
    path = str(outfile or f"theano.{format}")
    kind = path.rpartition(".")[2]
    if kind not in ("svg", "dot"):
        raise UsageError(
            f"pydotprint: {path!r} is neither .svg nor .dot. Graphviz makes other"
            " pictures of a .dot file."
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(graph.svg() if kind == "svg" else graph.dot())


def _print(op: Any, value: Any) -> None:
    for attribute in op.attrs:
        found = getattr(value, attribute)
        if callable(found):
            found = found()
        print(op.message, attribute, "=", found)


class Print(Op):
    """An op that returns its operand, and prints the value at each run.

    >>> import workbench.compat.theano as theano, workbench.compat.theano.tensor as T
    >>> x = T.dscalar("x")
    >>> y = theano.printing.Print("x is")(x) ** 2
    >>> float(y.eval({x: 3.0}))
    x is __str__ = 3.0
    9.0
    """

    __props__ = ("message", "attrs", "global_fn")

    def __init__(
        self,
        message: str = "",
        attrs: Any = ("__str__",),
        global_fn: Callable[[Any, Any], None] = _print,
    ) -> None:
        self.message = message
        self.attrs = tuple(attrs)
        self.global_fn = global_fn

    def make_node(self, x: Any) -> Apply:
        """Return one output, of the type of the input."""
        x = as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Print, and hand on."""
        (x,) = inputs
        self.global_fn(self, x)
        output_storage[0][0] = x

    def infer_shape(self, node: Tensor, shapes: Sequence[Any]) -> Sequence[Any]:
        """Return the shape of the input."""
        return shapes

    def grad(self, inputs: Sequence[Any], output_grads: Sequence[Any]) -> Sequence[Any]:
        """Return the output gradients unchanged."""
        return output_grads

    def R_op(self, inputs: Sequence[Any], eval_points: Sequence[Any]) -> list[Any]:
        """Return the tangents unchanged."""
        return list(eval_points)
