"""What an op is, and the tables in which NumPy's names find theirs.

This file knows no op by its mathematics; those stand in `workbench/ops`, one
paragraph each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["FUNCTIONS", "OPS", "UFUNCS", "Op", "declare", "implements"]


class Op:
    """One kind of computation: value, result type, both derivatives, batching.

    Attributes
    ----------
    name
        What users type to override it, ``"tanh"``.
    compute
        ``compute(*arrays, **params) -> array``, or a tuple of arrays for an op
        with several outputs. Plain NumPy: it also runs on CuPy arrays.
    pull
        Reverse mode, ``pull(mask, g, y, inputs, params) -> cotangents``: one
        cotangent (or None) per input; bit i of ``mask`` says that input i needs
        one. Plain NumPy on arrays or Tensors. None: the op has no derivative;
        what flows back through it is nothing.
    push
        Forward mode, ``push(tangents, y, inputs, params) -> tangent``, with None
        for an input that does not vary. None: the transpose of ``pull``.
    batch
        ``batch(inputs, batched, params) -> output`` with the batch axis first
        wherever ``batched`` is true. None: a loop.
    infer
        ``infer(*specs_or_values, **params) -> Spec``. None: run ``compute`` on
        examples that take no memory.
    rule
        The gradient in plain mathematics, for the picture.
    cure
        What to write instead when shapes do not fit.
    reads
        Which values ``pull`` reads: ``"y"`` for the output, integers for inputs;
        the picture draws them as saved values.
    """

    __slots__ = (
        "batch",
        "compute",
        "cure",
        "elementwise",
        "infer",
        "name",
        "pull",
        "push",
        "reads",
        "rule",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.compute: Callable[..., Any] = _undefined
        self.pull: Callable[..., Sequence[Any]] | None = None
        self.push: Callable[..., Any] | None = None
        self.batch: Callable[..., Any] | None = None
        self.infer: Callable[..., Any] | None = None
        self.rule = ""
        self.cure = ""
        self.reads: tuple[int | str, ...] | None = None
        self.elementwise = False

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _undefined(*arrays: Any, **params: Any) -> Any:
    raise NotImplementedError("this op was declared but never defined")


#: Every op by its name.
OPS: dict[str, Op] = {}

#: The op behind each NumPy (or SciPy) ufunc.
UFUNCS: dict[Any, Op] = {}

#: What answers a NumPy function when a Tensor is among its arguments.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def declare(name: str) -> Op:
    """The op of this name; made empty if nobody has defined it yet."""
    op = OPS.get(name)
    if op is None:
        op = OPS[name] = Op(name)
    return op


def implements(
    *functions: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Answer these NumPy functions with the decorated one for Tensors."""

    def register(answer: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = answer
        return answer

    return register
