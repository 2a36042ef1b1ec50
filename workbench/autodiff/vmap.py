"""`vmap`: a function of one example runs on every example of a batch at once.

The function is recorded once, on one example's shapes; `batch.py` runs what was
recorded on all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from workbench.autodiff.batch import example_spec, run_batch
from workbench.autodiff.grad import (
    chosen_arguments,
    ensure_owned,
    grad,
    record_argument,
)
from workbench.core import sharing, tree, types
from workbench.core.float_warnings import NamedWarnings
from workbench.core.tensor import Tensor
from workbench.core.trace import ArgumentNames, check_function, detach, record
from workbench.core.types import Spec
from workbench.errors import ShapeError, UsageError
from workbench.ops.define import shape_of

Function = Callable[..., Any]


def vmap(f: Function, in_axes: object = 0, out_axes: object = 0) -> Function:
    """Return a function that runs ``f`` on every example of a batch at once.

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
        places = range(len(args))
        names = ArgumentNames(f, places, structure.children)
        along = leaf_axes(args, in_axes, names)
        size = batch_size(leaves, along, names)
        chosen = [i for i, axis in enumerate(along) if axis is not None]
        specs = [example_spec(leaves[i], along[i] or 0) for i in chosen]

        def call(inner: list[Tensor]) -> Any:
            filled = [record_argument(x) for x in leaves]
            for i, x in zip(chosen, inner, strict=True):
                filled[i] = x
                sharing.note_example(x, leaves[i], along[i] or 0)
            named = {key: record_argument(x) for key, x in kwargs.items()}
            return f(*structure(filled), **named)

        picked = ArgumentNames(f, places, structure.children, chosen)
        recording = record(call, specs, picked)
        fronts = [move_to_front(leaves[i], along[i] or 0) for i in chosen]
        with NamedWarnings():
            made = run_batch(recording, fronts, size)
        wanted = output_axes(recording.tree(list(range(len(made)))), out_axes)
        results = [
            move_batch_axis(detach(y), batched, axis, size)
            for y, batched, axis in zip(made, recording.varying, wanted, strict=True)
        ]
        shared = [*leaves, *tree.flatten(kwargs)[0], *recording.caught.values()]
        return recording.tree(ensure_owned(results, shared))

    return batched


def per_example_grad(
    f: Function, argnums: int | Sequence[int] = 0, in_axes: object = None
) -> Function:
    """Return a function that gives the gradient of each example of a batch.

    It is ``vmap(grad(f))`` with the axes that this mostly needs: `wb.plots.spread`
    draws such gradients of a session.

    Parameters
    ----------
    f
        The loss of **one** example: a function that returns one number.
    argnums
        Which arguments to differentiate by, one or several: the parameters.
    in_axes
        The axis of each argument that counts the examples, as for `vmap`. By default
        the first one of all arguments but those of ``argnums``, which are shared.

    Returns
    -------
    A function of the parameters and a batch of examples; its result is shaped as that
    of `grad`, with an axis of the examples in front.

    Raises
    ------
    UsageError
        Without ``in_axes``, if every argument is differentiated by: nothing would count
        the examples; or if an array is given by keyword.
    ShapeError, TraceError
        As for `vmap`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> loss = lambda w, x, t: (x @ w - t) ** 2
    >>> X, t = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([1.0, 0.0])
    >>> wb.per_example_grad(loss)(np.ones(2), X, t)
    array([[ 0.,  0.],
           [ 6., 12.]])
    """
    check_function(f, "per_example_grad")
    gradient = grad(f, argnums)

    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        axes = in_axes
        if axes is None:
            _, places = chosen_arguments(
                f, argnums, None, args, kwargs, "per_example_grad"
            )
            for name, x in kwargs.items():
                if any(shape_of(part) for part in tree.flatten(x)[0]):
                    raise UsageError(
                        f"per_example_grad: {name}= holds an array, and keywords are"
                        " shared by all examples. Pass it by position, or say that it"
                        " is shared: in_axes= with an entry for each other argument."
                    )
            axes = tuple(None if i in places else 0 for i in range(len(args)))
            if all(axis is None for axis in axes):
                raise UsageError(
                    "per_example_grad: no argument counts the examples, since f is"
                    " differentiated by all of them. Pass the examples as arguments of"
                    " their own, or say where they are: in_axes=0."
                )
        return vmap(gradient, axes)(*args, **kwargs)

    return differentiated


# Which axis of which array counts the examples of a batch, checked.


def leaf_axes(
    args: tuple[Any, ...], in_axes: object, names: ArgumentNames
) -> list[int | None]:
    """Return the batch axis of each leaf of the arguments, checked."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    per_argument = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    if len(per_argument) != len(args):
        raise UsageError(
            f"vmap: in_axes={in_axes!r} has {len(per_argument)} entries, the call"
            f" {len(args)} arguments. Give one entry per argument, None for one that"
            " all examples share."
        )
    axes: list[int | None] = []
    for given, value in zip(per_argument, args, strict=True):
        leaves = [] if value is None else tree.flatten(value)[0]
        for axis, x in zip(spread_axes(given, value, "in_axes"), leaves, strict=True):
            array = hasattr(x, "shape") or types.is_weak(x)
            if axis is None or not array:
                axes.append(None)
                continue
            rank = len(shape_of(x))
            if not -rank <= axis < rank:
                raise UsageError(
                    f"vmap: in_axes={axis!r} for {names[len(axes)]}, of shape"
                    f" {shape_of(x)}: it has no such axis. Name one of its axes, or"
                    " None if all examples share it."
                )
            axes.append(axis % rank)
    return axes


def spread_axes(axes: object, value: object, what: str) -> list[int | None]:
    """Return one axis per leaf of a nest; an axis holds for all leaves below.

    >>> spread_axes({"w": 0, "b": None}, {"w": (1.0, 2.0), "b": 3.0}, "in_axes")
    [None, 0, 0]
    """
    if value is None:
        return []  # a nest without leaves
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(tree.flatten(value)[0])
    parts = _children(value)
    axes_by_key = _children(axes)
    if parts is None or axes_by_key is None or list(parts) != list(axes_by_key):
        shown = "an array" if parts is None else f"{type(value).__name__} of"
        keys = "" if parts is None else f" {', '.join(map(str, parts)) or 'nothing'}"
        raise UsageError(
            f"vmap: {what}={axes!r} does not fit {shown}{keys}. Give an axis, None,"
            " or axes nested as it is."
        )
    return [
        axis
        for key, part in parts.items()
        for axis in spread_axes(axes_by_key[key], part, what)
    ]


def _children(value: object) -> dict[Any, Any] | None:
    """Return the parts of a nest by key, in the order of its leaves; None of a leaf."""
    if isinstance(value, dict):
        try:
            return {key: value[key] for key in sorted(value)}
        except TypeError:  # keys that have no order stand as they came
            return dict(value)
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Spec)):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def batch_size(
    leaves: Sequence[Any], axes: Sequence[int | None], names: ArgumentNames
) -> int:
    """Return how many examples there are; all arguments must agree."""
    sizes: dict[int, tuple[int, int]] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is not None:
            sizes.setdefault(shape_of(x)[axis], (i, axis))
    if not sizes:
        raise UsageError(
            "vmap: no argument has a batch axis. Give in_axes=0 for one that holds"
            " one example per row."
        )
    if len(sizes) > 1:
        sizes_text = [
            f"{names[i]} has {n} along axis {k}" for n, (i, k) in sizes.items()
        ]
        raise ShapeError(
            f"vmap: the arguments hold different numbers of examples:"
            f" {', '.join(sizes_text)}. Give all the same length along their"
            " batch axis, or in_axes=None for one that all examples share."
        )
    return next(iter(sizes))


def move_to_front(x: Any, axis: int) -> Any:
    """Return the batch with its axis first."""
    return x if axis == 0 else np.moveaxis(x, axis, 0)


def output_axes(outputs: object, out_axes: object) -> list[int | None]:
    """Return one axis per leaf of the outputs."""
    if isinstance(out_axes, (tuple, list)) and (
        not isinstance(outputs, (tuple, list)) or len(outputs) != len(out_axes)
    ):
        count = len(outputs) if isinstance(outputs, (tuple, list)) else "no tuple of"
        raise UsageError(
            f"vmap: out_axes={out_axes!r} has {len(out_axes)} entries, the function"
            f" returns {count} outputs. Give one axis, or one entry per output."
        )
    return spread_axes(out_axes, outputs, "out_axes")


def move_batch_axis(y: Any, batched: bool, axis: int | None, size: int) -> Any:
    """Return an output with its batch axis at the place that ``out_axes`` names."""
    if axis is None:
        if batched:
            raise UsageError(
                f"vmap: out_axes=None for an output of shape {shape_of(y)[1:]} that"
                " differs from example to example. Give the axis to put them along."
            )
        return y
    if not batched:
        y = np.broadcast_to(y, (size, *shape_of(y)))
    rank = len(shape_of(y))
    if not -rank <= axis < rank:
        raise UsageError(
            f"vmap: out_axes={axis} for an output of shape {shape_of(y)[1:]} in each"
            f" example: the result has {rank} axes. Name one of them."
        )
    return y if axis in (0, -rank) else np.moveaxis(y, 0, axis)
