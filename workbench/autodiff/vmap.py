"""Every example of a batch at once: `vmap`.

The function is recorded once, on one example's shapes; `autodiff/batch.py` runs
what was recorded on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from workbench.autodiff import axes
from workbench.autodiff.batch import Batched
from workbench.autodiff.recorded_call import drawing, owned, released
from workbench.core import tree
from workbench.core.tensor import Tensor
from workbench.core.trace import argument_names, check_function, record
from workbench.errors import UsageError

__all__ = ["vmap"]

Function = Callable[..., Any]


def vmap(f: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """A function that runs ``f`` on every example of a batch at once.

    ``f`` is written for one example and traced once, on shapes alone; no Python
    loop over the examples runs, and no ``if`` may look at a value.

    Parameters
    ----------
    f
        A function of arrays or nests of them.
    in_axes
        The axis of the arguments that counts the examples; None for an argument
        that all examples share. A tuple gives one entry per argument; an entry
        holds for all arrays of a nested argument, or is nested as that is.
        Keyword arguments are shared.
    out_axes
        Where that axis goes in the result; a tuple gives one entry per output of
        a function that returns a tuple, and nests as for ``in_axes``. None: the
        same for all examples.

    Raises
    ------
    ShapeError
        If the arguments hold different numbers of examples.
    TraceError
        If ``f`` asks for a value, as Python's ``if`` does.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> W, X = np.ones((2, 3)), np.arange(12.0).reshape(4, 3)
    >>> wb.vmap(lambda W, x: W @ x, in_axes=(None, 0))(W, X).shape
    (4, 2)
    >>> per_example = wb.vmap(wb.grad(lambda x: np.sum(x**2)))
    >>> per_example(X[:2])
    array([[ 0.,  2.,  4.],
           [ 6.,  8., 10.]])
    """

    check_function(f, "vmap")
    if hasattr(in_axes, "shape"):
        raise UsageError(
            "vmap(f, x) is vmap(f)(x): it returns a function of the arguments of f. The"
            " second place is for in_axes, the axis that holds the examples."
        )

    @wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        names = argument_names(f, args, {})
        along = axes.leaf_axes(args, in_axes, names)
        size = axes.batch_size(leaves, along, names)
        chosen = [i for i, axis in enumerate(along) if axis is not None]
        specs = [axes.example_spec(leaves[i], along[i] or 0) for i in chosen]

        def call(inner: list[Tensor]) -> Any:
            filled = [drawing(x) for x in leaves]
            for i, x in zip(chosen, inner, strict=True):
                filled[i] = x
            named = {key: drawing(x) for key, x in kwargs.items()}
            return f(*structure(filled), **named)

        recording = record(call, specs, [names[i] for i in chosen])
        program = Batched(recording.outputs, recording.leaves)
        made = program([axes.front(leaves[i], along[i] or 0) for i in chosen], size)
        wanted = axes.output_axes(recording.tree(list(range(len(made)))), out_axes)
        placed = [
            axes.placed(released(y), batched, axis, size)
            for y, batched, axis in zip(made, program.batched, wanted, strict=True)
        ]
        shared = [*leaves, *tree.flatten(kwargs)[0], *recording.caught.values()]
        return recording.tree(owned(placed, shared))

    return batched
