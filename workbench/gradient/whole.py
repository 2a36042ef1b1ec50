"""Gradients of a cost: `grad`, and `subgraph_grad`, one part of a program at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import derivatives
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import Override

__all__ = ["format_as", "grad", "subgraph_grad"]


def grad(
    cost: Tensor | None,
    wrt: Any,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Tensor, Any] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
    *,
    overrides: Sequence[Override] | None = None,
) -> Any:
    """The gradient of an expression by others, as expressions.

    Parameters
    ----------
    cost
        An expression of one number. None if ``known_grads`` say where to begin.
    wrt
        What to differentiate by: a Tensor, or a list, tuple, mapping or nest of them.
        Any Tensor of the program will do, be it a symbol, a shared variable, something
        computed on the way, or the cost itself.
    consider_constant
        Expressions through which nothing is passed back.
    disconnected_inputs
        What to do where the cost does not depend on one of ``wrt``: ``"raise"`` an
        error, ``"warn"``, or ``"ignore"`` it. Not connected are also what is read for
        its shape alone, and what is behind `disconnected_grad`. What passes through
        ops that are flat (comparisons, rounding) is connected, with gradient zero.
    add_names
        Name the gradients ``(dcost/dx)``, where both have names.
    known_grads
        Gradients that are known already, by the Tensor they belong to. They take the
        place of what would arrive there.
    return_disconnected
        What stands for a gradient that is disconnected: ``"zero"``, ``"None"``, or
        ``"Disconnected"``, a `DisconnectedType`.
    null_gradients
        What to do with a gradient that cannot be computed (`grad_undefined`):
        ``"raise"`` an error, or ``"return"`` it.
    overrides
        Other gradient rules for parts of the program; see :func:`workbench.override`.

    Returns
    -------
    One expression for each of ``wrt``, nested alike, in the shape and dtype of that;
    of a variable of integers a float64, zero.

    Raises
    ------
    NonScalarOutputError
        If the cost is more than one number.
    DisconnectedInputError
        As ``disconnected_inputs`` says.
    NullTypeGradError
        As ``null_gradients`` says.
    ShapeError, DtypeError
        If one of ``known_grads`` does not fit its Tensor.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import grad
    >>> x, y = wb.scalars("x y")
    >>> h = x * y
    >>> g = grad(np.sin(h) + x, {"x": x, "h": h})
    >>> [round(float(g[key].eval(x=0.0, y=2.0)), 6) for key in ("x", "h")]
    [3.0, 1.0]
    >>> dx = grad(None, x, known_grads={h: 10.0})
    >>> float(dx.eval(y=2.0))
    20.0
    """
    return derivatives.gradient(
        cost, wrt, consider_constant=consider_constant,
        disconnected_inputs=disconnected_inputs, add_names=add_names,
        known_grads=known_grads, return_disconnected=return_disconnected,
        null_gradients=null_gradients, overrides=overrides,
    )  # fmt: skip


def subgraph_grad(
    wrt: Sequence[Tensor],
    end: Sequence[Tensor],
    start: Mapping[Tensor, Any] | None = None,
    cost: Tensor | None = None,
    details: bool = False,
) -> tuple[list[Any], ...]:
    """Gradients through one part of a program, up to where it ends.

    For descent one layer at a time, and for steps without a derivative, such as a
    random draw: end at what comes out of it, say by a formula of your own what its
    gradient is, and start the next part there.

    Parameters
    ----------
    wrt
        What to differentiate by.
    end
        Where to stop; what lies behind is held constant. Their gradients are returned
        too.
    start
        Gradients of Tensors where this part begins: what `subgraph_grad` returned for
        the ends of the part before.
    cost
        One number, whose gradient is added: a penalty on the weights of a layer. If a
        part of it went into ``start`` already, that counts twice.
    details
        Return the two summands of the gradients by ``wrt`` as well.

    Returns
    -------
    Two lists: the gradients by ``wrt``, and by ``end``. With ``details`` two more: the
    part of those by ``wrt`` that comes from ``start``, and the part from ``cost``.
    Without ``start`` (or ``cost``) its part is zero. What is not connected has
    gradient zero.

    Raises
    ------
    UsageError
        If neither ``start`` nor ``cost`` is given.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.gradient import subgraph_grad
    >>> x, v, w = wb.scalars("x v w")
    >>> h = np.tanh(v * x)
    >>> (dw,), (dh,) = subgraph_grad([w], [h], cost=w * h)
    >>> (dv,), _ = subgraph_grad([v], [x], start={h: dh})
    >>> float(dv.eval(x=1.0, v=0.0, w=3.0))
    3.0
    """
    if not start and cost is None:
        raise UsageError(
            "subgraph_grad: give start, the gradients where this part begins, or cost,"
            " what it adds, or both."
        )
    wrt, end = _listed(wrt, "wrt"), _listed(end, "end")
    both = [*wrt, *end]

    def part(cost: Tensor | None, known: Mapping[Tensor, Any] | None) -> list[Any]:
        found: list[Any] = derivatives.gradient(
            cost, both, consider_constant=end, disconnected_inputs="ignore",
            known_grads=known, add_names=False, name="subgraph_grad",
        )  # fmt: skip
        return found

    begun = part(None, start) if start else None
    added = None if cost is None else part(cost, None)
    total = begun or added or []
    if begun is not None and added is not None:
        total = [a + b for a, b in zip(begun, added, strict=True)]
    count = len(wrt)
    if not details:
        return total[:count], total[count:]
    parts = [
        [np.zeros_like(x) for x in wrt] if some is None else some[:count]
        for some in (begun, added)
    ]
    return total[:count], total[count:], *parts


def _listed(given: Any, what: str) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    return [derivatives.expression_of(x, "subgraph_grad", what) for x in given]


def format_as(use_list: bool, use_tuple: bool, outputs: Any) -> Any:
    """Results as a list, as a tuple, or as they are.

    Parameters
    ----------
    use_list, use_tuple
        Which of the two; not both. If neither, a list or tuple of one result becomes
        that result.
    outputs
        One result, or a list or tuple of them.

    Raises
    ------
    UsageError
        If both are true, or neither is and there are several results.

    Examples
    --------
    >>> from workbench.gradient import format_as
    >>> format_as(True, False, 1.0), format_as(False, True, [1.0, 2.0])
    ([1.0], (1.0, 2.0))
    >>> format_as(False, False, [1.0])
    1.0
    """
    if use_list and use_tuple:
        raise UsageError(
            "format_as: use_list and use_tuple are both true. Choose one of them."
        )
    many = isinstance(outputs, (list, tuple))
    if use_list or use_tuple:
        items = outputs if many else [outputs]
        return list(items) if use_list else tuple(items)
    if many and len(outputs) != 1:
        raise UsageError(
            f"format_as: {len(outputs)} results do not make one. Write use_list=True"
            " or use_tuple=True."
        )
    return outputs[0] if many else outputs
