"""`wb.sparsity`: the pattern of a Jacobian or Hessian, for users."""

from __future__ import annotations

from typing import Any

from workbench.autodiff.grad import (
    Argnums,
    RecordedCall,
    chosen_arguments,
)
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.propagation import (
    find_hessian_pattern,
    find_jacobian_pattern,
)
from workbench.core import tree
from workbench.core.graph import Graph
from workbench.core.trace import is_expression, trace
from workbench.core.types import Spec, spec_of
from workbench.errors import UsageError

FINDERS = {1: find_jacobian_pattern, 2: find_hessian_pattern}


def sparsity(
    f: Any, *args: Any, argnums: Argnums = 0, order: int = 1, local: bool = False
) -> SparsityPattern:
    """Return where the derivative of a function can differ from zero.

    It follows from the ops of the program, not from values: each tells which entries of
    its operands an entry of its result reads. What cannot tell is taken as dense, and
    the pattern's ``report()`` names it with its line; so are functions with a rule of
    their own, such as those of `custom_vjp`. Rules of overrides are not looked at.

    Parameters
    ----------
    f
        A function of arrays or nests, which is called without values; if it needs
        some, with these. Or an expression of
        symbols, or a list of them; then the arguments are what it is differentiated by.
    args
        Its arguments: arrays, or :class:`workbench.Spec` for shapes and dtypes alone.
        Where ``f`` decides something by ``if`` on their values, the pattern is that of
        the way it took, and the report says so.
    argnums
        The position, or positions, of what is differentiated by.
    order
        1 for the Jacobian; 2 for the Hessian, of several outputs that of any weighted
        sum of them.
    local
        At these arguments only: partial derivatives of elementwise ops that are 0 here
        drop out, and of a choice only the branch taken counts. Of order 2 those
        drop out that are 0 around here too, such as by a constant factor 0.

    Returns
    -------
    A pattern with a row for each entry of the outputs and a column for each entry of
    what is differentiated by, flattened in C order, one after the other where there are
    several. Of order 2 rows are as columns.

    Raises
    ------
    UnknownLengthError
        If a length on the way is known only when the program runs.
    UsageError
        If the order is neither 1 nor 2, or the pattern is too large to be written out.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> pattern = wb.sparsity(lambda x: x[1:] * x[:-1], np.ones(4))
    >>> pattern.toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    >>> wb.sparsity(lambda x: np.sum(x**3), wb.Spec((1000,), float), order=2)
    <SparsityPattern 1000×1000, 1,000 nonzeros, density 0.001>
    """
    if order not in FINDERS:
        raise UsageError(
            f"sparsity: order={order!r}. Write 1 for the Jacobian, 2 for the Hessian."
        )
    find = FINDERS[order]
    if not callable(f) and is_expression(f):
        if not args:
            raise UsageError(
                "sparsity(expression, wrt): wrt is missing. Name the Tensors to"
                " differentiate by: wb.sparsity(y, x)."
            )
        wrt = tree.flatten(list(args))[0]
        return find(tree.flatten(f)[0], wrt, local=local)
    if any(isinstance(x, Spec) for x in tree.flatten(list(args))[0]):
        if local:
            raise UsageError(
                "sparsity: a local pattern is one at values. Give arrays, not wb.Spec."
            )
        graph = trace_specs(f, args, argnums)
        return find(list(graph.outputs), list(graph.inputs))
    call = RecordedCall(f, argnums, args, {}, "sparsity")
    if local:
        notes = (AT_POINT,)
        return find(list(call.outputs), list(call.leaves), local=True, notes=notes)
    return find_call_pattern(call, order)


#: What a report says of a pattern that does not hold for all arguments.
AT_POINT = "It is a local one: at other arguments there may be more places."
BY_VALUES = (
    "The program cannot be traced without values, for it decides something by them: the"
    " pattern is that of the way it took at these arguments."
)


def find_call_pattern(call: RecordedCall, order: int) -> SparsityPattern:
    """Return the pattern of a recorded call, for all values if traceable on shapes.

    The other real and complex arguments may then have any value too. Order 1 gives
    the pattern of the Jacobian, order 2 that of the Hessian.
    """
    graph = call.trace_structure()
    if graph is not None:
        wrt = list(graph.inputs[: len(call.values)])
        return FINDERS[order](list(graph.outputs), wrt)
    notes = (BY_VALUES,)
    return FINDERS[order](list(call.outputs), list(call.leaves), notes=notes)


def trace_specs(f: Any, args: tuple[Any, ...], argnums: Argnums) -> Graph:
    """Return the program of a function of which some arguments are shapes alone.

    Its inputs are what is differentiated by; other arguments are constants.
    """
    _, found = chosen_arguments(f, argnums, None, args, {}, "sparsity")
    places = [n for n in found if isinstance(n, int)]
    chosen = [_as_specs(args[n]) for n in places]

    def call(*new: Any) -> Any:
        filled = list(args)
        for n, x in zip(places, new, strict=True):
            filled[n] = x
        return f(*filled)

    return trace(call)(*chosen)


def _as_specs(nest: Any) -> Any:
    leaves, structure = tree.flatten(nest)
    return structure([x if isinstance(x, Spec) else spec_of(x) for x in leaves])
