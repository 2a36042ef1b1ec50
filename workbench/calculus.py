"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`.

Each takes a function of arrays and returns a function of arrays. Arguments and
results may be nests. Called on plain arrays outside every trace, they return
plain arrays; inside another derivative they record, so they nest to any order.
`jacobian`, `hessian` and `hvp` stand in `matrices.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from workbench.errors import DtypeError, NonScalarOutputError, ShapeError, UsageError
from workbench.graph import blame, tree, types
from workbench.graph.tensor import Tensor, value_of
from workbench.graph.trace import argument_names, check_float, live, record
from workbench.ops.define import shape_of
from workbench.transforms import forward, reverse
from workbench.transforms.overrides import Override, resolve_call

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]

Function = Callable[..., Any]


class Call:
    """One call of a function to differentiate: which leaves vary, what came out."""

    def __init__(
        self,
        f: Function,
        argnums: int | Sequence[int],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        overrides: Sequence[Override] | None = None,
    ) -> None:
        single = isinstance(argnums, int)
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise UsageError(
                    f"{name}: argnums={argnums!r}, but the call has {len(args)}"
                    " positional arguments. Count from 0, and pass what is"
                    " differentiated by position."
                )
        numbers = tuple(n % len(args) for n in numbers)
        if len(set(numbers)) < len(numbers):
            raise UsageError(
                f"{name}: argnums={argnums!r} names an argument twice. Name each once."
            )
        chosen = tuple(args[n] for n in numbers)
        values, self.tree = tree.flatten(chosen[0] if single else chosen)
        names = argument_names(f, args, {})
        sizes = [len(tree.flatten(a)[0]) for a in args]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        picked = [names[starts[n] + k] for n in numbers for k in range(sizes[n])]
        for value, label in zip(values, picked, strict=True):
            check_float(value, str(label), name)

        def call(leaves: list[Tensor]) -> Any:
            rebuilt = self.tree(leaves)
            new = list(args)
            for n, x in zip(numbers, (rebuilt,) if single else rebuilt, strict=True):
                new[n] = x
            return f(*new, **kwargs)

        self.values = values
        self.recording = record(call, values, picked)
        self.resolution = resolve_call(overrides, self.outputs, self.leaves, name)

    @property
    def leaves(self) -> list[Tensor]:
        """The Tensors that stand for what is differentiated by."""
        return self.recording.leaves

    @property
    def outputs(self) -> list[Any]:
        """The leaves of what the function returned."""
        return self.recording.outputs

    def result(self, *, saved: bool = False) -> Any:
        """What the function returned, plain where no outer trace takes part.

        ``saved``: a pullback still reads the values, so the caller gets copies.
        """
        made = [released(x) for x in self.outputs]
        return self.recording.tree(owned(made, made if saved else self.values))

    def gradients(self, cotangents: Sequence[Any]) -> Any:
        """The cotangents of the arguments, nested as they are; zeros for None."""
        rules = None if self.resolution is None else self.resolution.pulls()
        made = reverse.pull_back(self.outputs, cotangents, self.leaves, rules=rules)
        filled = [
            zeros_like(v) if g is None else g
            for v, g in zip(self.values, made, strict=True)
        ]
        return self.tree(owned(filled, (*self.values, *cotangents)))


def released(x: Any) -> Any:
    """A Tensor of a closed trace as its value, unless an outer trace needs it."""
    return x if live(x) else value_of(x)


def owned(arrays: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The arrays, each the caller's own to write into.

    A rule passes on what it got, or a view of it: the gradients of ``a + b`` are one
    array, that of ``sum`` is a single number seen many times.
    """
    taken = {id(x) for x in others}
    made = []
    for x in arrays:
        if isinstance(x, np.ndarray) and (
            id(x) in taken or x.base is not None or not x.flags.writeable
        ):
            x = x.copy()
        taken.add(id(x))
        made.append(x)
    return made


def zeros_like(value: Any) -> Any:
    """A zero gradient for an argument that the output does not depend on."""
    return np.zeros_like(value_of(value) if not live(value) else value)


def scalar_output(call: Call, name: str) -> Any:
    """The one number that a gradient needs, or the error that says what to do."""
    if len(call.outputs) != 1:
        raise NonScalarOutputError(
            f"{name} needs a function that returns one number; it returned"
            f" {len(call.outputs)} values. Return one of them, or use"
            " value_and_grad(..., has_aux=True), or vjp with a seed for each."
        )
    y = call.outputs[0]
    if not isinstance(y, Tensor) and np.asarray(y).dtype.kind not in "biufc":
        forgot = " Has it a `return` at its end?" if y is None else ""
        raise NonScalarOutputError(
            f"{name} needs one number; the function returned {y!r}.{forgot}"
        )
    if shape_of(y if isinstance(y, Tensor) else np.asarray(y)) != ():
        where = blame.at(y.site) if isinstance(y, Tensor) else ""
        what = blame.describe(y) if isinstance(y, Tensor) else "the output"
        raise NonScalarOutputError(
            f"{name} needs one number; the function returned {what}{where}. Reduce it"
            " (np.sum, np.mean), give a seed (wb.vjp), or ask for wb.jacobian."
        )
    return y


def seed_for(y: Any) -> Any:
    """The cotangent 1 in the dtype of a scalar output."""
    if not isinstance(y, Tensor):
        return None
    if y._value is None:
        return np.ones_like(y)
    if not types.differentiable(y.dtype):
        return None
    return np.ones_like(y._value)


def value_and_grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    overrides: Sequence[Override] | None = None,
) -> Function:
    """A function that returns ``(f(*args), gradient)``.

    Parameters
    ----------
    f
        A function of arrays that returns one number; with ``has_aux`` a pair of
        that number and anything else.
    argnums
        The position, or positions, of what is differentiated by. An argument may
        be a nest of arrays; its gradient is nested alike.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    A function ``(*args) -> (value, gradient)``; with ``has_aux``
    ``((value, aux), gradient)``. Each gradient has the shape and dtype of its
    argument; the complex gradient is df/dx - i df/dy.

    Raises
    ------
    NonScalarOutputError
        If ``f`` returns more than one number.
    DtypeError
        If an argument to differentiate by is of integer dtype.
    OverrideError
        If an override matches nothing in ``f``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y, g = wb.value_and_grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> float(y), g
    (9.0, array([ 3., 12.]))
    """

    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        aux: list[Any] = []

        def scalar(*a: Any, **k: Any) -> Any:
            pair = f(*a, **k)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise UsageError(
                    "has_aux=True: the function must return a pair, one number and"
                    f" anything else; it returned {pair!r}."
                )
            y, extra = pair
            aux.append(extra)
            return y

        if has_aux:
            scalar = wraps(f)(scalar)
        target = scalar if has_aux else f
        call = Call(target, argnums, args, kwargs, "grad", overrides)
        y = scalar_output(call, "grad")
        g = call.gradients([seed_for(y)])
        value = call.result()
        if has_aux:
            return (value, tree.map_tree(released, aux[0])), g
        return value, g

    return differentiated


def grad(
    f: Function,
    argnums: int | Sequence[int] = 0,
    *,
    overrides: Sequence[Override] | None = None,
) -> Function:
    """The gradient of a function that returns one number.

    As :func:`value_and_grad`, without the value. Nests to any order; a function
    that does not depend on its argument has gradient zero.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
    array([1., 1., 1.])
    >>> third = wb.grad(wb.grad(wb.grad(lambda x: x**4)))
    >>> float(third(2.0))
    48.0
    """
    both = value_and_grad(f, argnums, overrides=overrides)

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def vjp(
    f: Function, *primals: Any, overrides: Sequence[Override] | None = None
) -> tuple[Any, Function]:
    """The value at the primals, and the map from cotangents back to gradients.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be a nest too.
    primals
        Where to differentiate; all of them are differentiated by.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    ``(y, pullback)``, where ``pullback(cotangent)`` takes what is nested and
    shaped as ``y`` and returns a tuple, one gradient per primal.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y, pullback = wb.vjp(np.sin, np.array([0.0, 1.0]))
    >>> pullback(np.array([1.0, 0.0]))
    (array([1., 0.]),)
    """
    call = Call(f, range(len(primals)), primals, {}, "vjp", overrides)

    def pullback(cotangent: Any) -> Any:
        seeds, structure = tree.flatten(cotangent)
        if structure != call.recording.tree:
            raise ShapeError(
                f"vjp: the cotangent is nested as {structure}, the output as"
                f" {call.recording.tree}. Give one cotangent per output array."
            )
        fitted = [
            seed if not isinstance(y, Tensor) else checked_seed(seed, y)
            for seed, y in zip(seeds, call.outputs, strict=True)
        ]
        return call.gradients(fitted)

    return call.result(saved=True), pullback


def checked_seed(seed: Any, y: Tensor, what: str = "cotangent") -> Any:
    """A cotangent of an output, or a tangent of a primal, in its shape and dtype."""
    given = types.spec_of(seed).dtype
    if given.kind not in "biufc" or (given.kind == "c" and y.dtype.kind != "c"):
        raise DtypeError(
            f"the {what} is of dtype {given}, and that of"
            f" {blame.describe(y)} is {y.dtype}. Give real numbers for a real array."
        )
    if np.shape(value_of(seed)) != y.shape and shape_of(seed) != y.shape:
        of = f"that of {blame.describe(y)}{blame.at(y.site)}"
        raise ShapeError(
            f"the {what} has shape {np.shape(value_of(seed))}, and {of} is another."
            f" Give one of shape {y.shape}."
        )
    if not hasattr(seed, "dtype"):
        seed = np.asarray(seed, y.dtype)
    return reverse.fit(seed, y)


def jvp(
    f: Function,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    overrides: Sequence[Override] | None = None,
) -> tuple[Any, Any]:
    """The value at the primals, and how it moves along the tangents.

    Parameters
    ----------
    f
        A function of arrays or nests.
    primals, tangents
        Two tuples of the same structure, shapes and (float) dtypes.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    ``(y, ty)``, nested alike.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jvp(np.exp, (np.zeros(2),), (np.array([1.0, 2.0]),))
    (array([1., 1.]), array([1., 2.]))
    """
    moving, structure = tree.flatten(tuple(tangents))
    if structure != tree.flatten(tuple(primals))[1]:
        raise ShapeError(
            f"jvp: the tangents are nested as {structure}, the primals as"
            f" {tree.flatten(tuple(primals))[1]}. Give one tangent per primal array."
        )
    call = Call(f, range(len(primals)), tuple(primals), {}, "jvp", overrides)
    fitted = [
        checked_seed(t, x, "tangent") for t, x in zip(moving, call.leaves, strict=True)
    ]
    rules = None if call.resolution is None else call.resolution.pushes()
    made = forward.push_forward(call.outputs, call.leaves, fitted, rules=rules)
    results = [
        np.zeros_like(released(y)) if t is None
        else reverse.finish(t, False)
        for y, t in zip(call.outputs, made, strict=True)
    ]  # fmt: skip
    return call.result(), call.recording.tree(owned(results, (*call.values, *fitted)))
