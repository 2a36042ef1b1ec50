"""Structures that a model has many of, as targets of overrides.

`linear` is every linear layer, however it is written. A structure of your own is
:func:`workbench.pattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import OverrideError
from workbench.ops.define import shape_of
from workbench.overrides.linear_structures import ByLinear, Subscripts
from workbench.overrides.rules import Node

__all__ = ["Layer", "layer", "linear"]


def linear(
    *,
    data: Any = None,
    where: Callable[[Mapping[str, Any]], Any] | None = None,
) -> ByLinear:
    """Every linear structure of a program: a target, whatever the model looks like.

    ``W @ x + b``, ``x @ W + b``, ``x @ W.T + b``, ``b - W @ x``, without a bias, by
    `dot`, `matmul`, `tensordot`, `einsum`, `multi_dot`, `inner`, `vecdot`: a product
    of two operands that is summed over an axis of both, and what is added to it.

    Which operand is the **weight** follows from what depends on data: the weight
    depends on none, the **input** does. Where both do, as in attention, or neither, as
    in a weight that is itself a product, there is no linear structure. The **bias** is
    what is added to or subtracted from the product directly, if it depends on no data,
    makes the result no larger, and nothing else reads the product; else it is a step
    of its own. Weight and input are given as they are stored, before their transposes.

    Parameters
    ----------
    data
        What is data: names of inputs or nodes, arrays, Tensors, one or a list. By
        default all arrays, arguments and constants, that the derivative is not asked
        by. Numbers are none.
    where
        A condition: a function of a dict with ``"weight"``, ``"input"`` and
        ``"bias"`` (0 where there is none), ``lambda m: m["weight"].ndim == 2``.

    Returns
    -------
    ByLinear
        A target for :func:`workbench.override`. The rule sees one node for each
        structure, in whatever spelling: ``node.inputs`` are weight, input and bias
        (also ``node["weight"]``), ``node.vjp(g)`` gives their true gradients.
        ``node.get_attr("subscripts")`` says what is multiplied, as for `numpy.einsum`:
        ``"oi,bi->bo"`` for ``x @ W.T``, with ``i``, ``j``, ... for the axes that are
        summed over, ``o``, ``p``, ... for the weight's own, ``b``, ``c``, ... for the
        input's, and capitals for those of all three; ``"sign"`` and ``"bias_sign"``
        are -1 for what is subtracted. :func:`layer` makes matrices of all that.

    Raises
    ------
    OverrideError
        When it is used, where the roles are not clear: the derivative is asked by all
        arrays, so that none is data, or by some of the weights alone. The error names
        ``data=`` and ``where=``, which say what is what.

    Notes
    -----
    An array that only masks or scales a weight counts as data too; where a product of
    two values of data has such a weight, ``data=`` must say what is. An `einsum` of
    three operands is no product of two, and a product that is written as
    ``np.sum(x[:, :, None] * W, axis=1)`` is no op of its own: neither is matched.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def model(params, x):
    ...     W, b, V = params
    ...     return np.sum(np.dot(np.tanh(x @ W.T + b), V))
    >>> params = np.ones((3, 2)), np.zeros(3), np.ones(3)
    >>> def rule(node, g):
    ...     dW, dx, db = node.vjp(g)
    ...     return 0 * dW, dx, db
    >>> frozen = wb.override(wb.patterns.linear(), rule)
    >>> gradients = wb.grad(model, overrides=[frozen])(params, np.zeros((4, 2)))
    >>> [float(np.sum(g)) for g in gradients]
    [0.0, 12.0, 0.0]
    """
    return ByLinear(data, where)


class Layer(NamedTuple):
    """A linear structure as matrices, whatever its spelling; made by :func:`layer`.

    Attributes
    ----------
    weight
        A row for each output, a column for each input.
    input
        A row for each example, a column for each input.
    gradient
        What arrives at the product: a row for each example, a column for each output.
    rows
        ``rows(dW)`` is what has the shape of the weight, such as its true gradient, as
        a matrix.
    restore
        ``restore(weight, input)`` are the gradients of weight and input, given as
        such matrices (or None), and the true one of the bias, in the shapes and the
        order that the rule returns them in.
    """

    weight: Any
    input: Any
    gradient: Any
    rows: Callable[[Any], Any]
    restore: Callable[[Any, Any], list[Any]]


def layer(node: Node, g: Any) -> Layer:
    """Return a linear structure and the gradient that arrives as matrices.

    Parameters
    ----------
    node, g
        What the rule of an override on :func:`linear` gets.

    Raises
    ------
    OverrideError
        If the node is no linear structure, or one whose weight differs from example to
        example.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def rule(node, g):  # the true one
    ...     layer = wb.patterns.layer(node, g)
    ...     return layer.restore(
    ...         layer.gradient.T @ layer.input, layer.gradient @ layer.weight
    ...     )
    >>> one = wb.override(wb.patterns.linear(), rule)
    >>> X = np.array([[1.0, 2.0]])
    >>> wb.grad(lambda W: np.sum(X @ W.T), overrides=[one])(np.ones((3, 2)))
    array([[1., 2.],
           [1., 2.],
           [1., 2.]])
    """
    if "subscripts" not in node.params:
        raise OverrideError(
            f"{node.op.name} is no linear structure. layer(node, g) is for the rule of"
            " an override on wb.patterns.linear()."
        )
    letters = Subscripts._make(re.split(",|->", node.get_attr("subscripts")))
    weight, x, *_ = node.inputs
    rows = [c for c in letters.output if c in letters.weight and c not in letters.input]
    batch = [c for c in letters.output if c not in letters.weight]
    if len(rows) + len(batch) < len(letters.output):
        raise OverrideError(
            f"the linear structure {letters} has another weight for each example, which"
            ' is no matrix. Write its rule with node.get_attr("subscripts").'
        )
    summed = letters.summed
    sizes = dict(zip(letters.weight, shape_of(weight), strict=True))
    sizes |= dict(zip(letters.input, shape_of(x), strict=True))

    def matrix(value: Any, term: str, first: Sequence[str], then: Sequence[str]) -> Any:
        """A value with axes ``term`` as a matrix."""
        turned = np.transpose(value, [term.index(c) for c in (*first, *then)])
        return np.reshape(
            turned, [prod(sizes[c] for c in part) for part in (first, then)]
        )

    def back(made: Any, term: str, first: Sequence[str], then: Sequence[str]) -> Any:
        """A matrix as the value with axes ``term`` that it stands for."""
        axes = [*first, *then]
        whole = np.reshape(made, [sizes[c] for c in axes])
        return np.transpose(whole, [axes.index(c) for c in term])

    def restore(d_weight: Any, d_input: Any) -> list[Any]:
        return [
            None if d_weight is None else back(d_weight, letters.weight, rows, summed),
            None if d_input is None else back(d_input, letters.input, batch, summed),
            g * node.get_attr("bias_sign"),
        ]

    return Layer(
        matrix(weight, letters.weight, rows, summed),
        matrix(x, letters.input, batch, summed),
        matrix(g * node.get_attr("sign"), letters.output, batch, rows),
        lambda value: matrix(value, letters.weight, rows, summed),
        restore,
    )
