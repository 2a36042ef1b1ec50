"""`checkpoint`: values of the forward pass are computed again, not kept.

The backward pass of a long program needs what the forward pass computed. Inside a
checkpointed function only the inputs and outputs are kept; its program runs again
when its gradient is asked for (Griewank & Walther, *Evaluating Derivatives*, 2nd
ed., ch. 12): memory for time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from workbench.autodiff import steps
from workbench.autodiff.call import Call
from workbench.autodiff.grad import ensure_owned
from workbench.autodiff.higher_order import detach_leaves, is_draw
from workbench.core import traces, tree
from workbench.core.graph import Graph
from workbench.core.recorder import Recorder
from workbench.core.tensor import Tensor
from workbench.core.trace import check_function, is_live

Function = Callable[..., Any]


def checkpoint(f: Function) -> Function:
    """Return the same function, without keeping inner values for the backward pass.

    Parameters
    ----------
    f
        A function of arrays or nests. It may read Tensors through its closure,
        take keyword arguments, and look at values with Python's ``if``.

    Returns
    -------
    A function with the same results and derivatives, of any order and in both
    modes. Its gradient runs the program of ``f`` once more; what ``f`` computes in
    between is held in memory only while that lasts. In the graph it is one node, and
    overrides reach the ops inside, as they do in the steps of a loop: rules of these
    are recorded, and see no values. Two kinds of
    functions are recorded as they are: of symbols outside of a loop, and such as draw
    random numbers each time the program runs, which must not be drawn again.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> layer = wb.checkpoint(lambda W, x: np.tanh(W @ np.tanh(W @ x)))
    >>> W, x = np.eye(2), np.array([0.5, -0.5])
    >>> g = wb.grad(lambda W: np.sum(layer(W, x)))(W)
    >>> h = wb.grad(lambda W: np.sum(np.tanh(W @ np.tanh(W @ x))))(W)
    >>> bool(np.all(g == h))
    True
    """

    check_function(f, "checkpoint")

    @wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> object:
        if not traces.has_open_trace():
            flat, structure = tree.flatten(f(*args, **kwargs))
            return structure(ensure_owned(flat, tree.flatten((args, kwargs))[0]))
        closed = Recorder(lambda a, k: f(*a, **k), args, kwargs, values=True)
        graph, results = closed.graph, closed.values
        if any(map(is_live, closed.inputs)):
            # What the function returns besides (a text, a constant) stays as it is.
            moving = [i for i, y in enumerate(graph.outputs) if isinstance(y, Tensor)]
            kept = [graph.outputs[i] for i in moving]
            inner = detach_leaves(Graph(graph.inputs, kept, graph.captures))
            if any(map(is_draw, steps.with_inner_nodes(inner.interior))):
                # What the program draws when it runs must not be drawn again.
                made: Sequence[Any] = inner.run(closed.inputs)
            else:
                op = Call("checkpoint", inner, again=True)
                known = [results[i] for i in moving]
                made = op.apply_known(closed.inputs, known)
            for i, y in zip(moving, made, strict=True):
                results[i] = y
        return graph.tree(results)

    return checkpointed
