"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`.

Each takes a function of arrays and returns a function of arrays. Arguments and
results may be nests. Called on plain arrays outside every trace, they return
plain arrays; inside another derivative they record, so they nest to any order.
`jacobian` and `hessian` stand in `jacobian.py`, `hvp` in `products.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.recorded_call import (
    Argnames,
    RecordedCall,
    copy_arrays,
    detach,
    ensure_owned,
    is_expression,
    no_options,
    only_for_functions,
    wrt_of,
)
from workbench.core import blame, dims, tree, types
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, admit
from workbench.core.trace import is_float
from workbench.errors import DtypeError, NonScalarOutputError, ShapeError, UsageError
from workbench.ops.define import shape_of

Function = Callable[..., Any]


def scalar_seed(call: RecordedCall, *, holomorphic: bool) -> Any:
    """The cotangent 1 of the one number that a gradient needs; or an error.

    None for a number that nothing can vary.
    """
    y = call.outputs[0] if len(call.outputs) == 1 else None
    if isinstance(y, Tensor) and isinstance(y._value, float):  # of NumPy's doubles too
        return np.array(1.0)  # host array: as the value is
    if not holomorphic:
        check_real(call)
    if len(call.outputs) != 1:
        raise NonScalarOutputError(
            "grad needs a function that returns one number; it returned"
            f" {len(call.outputs)} values. Return one of them, or use"
            " value_and_grad(..., has_aux=True), or vjp with a seed for each."
        )
    dtype = getattr(y, "dtype", None) or np.asarray(y).dtype  # host array: a number
    if not isinstance(y, Tensor) and dtype.kind not in "biufc":
        forgot = " Has it a `return` at its end?" if y is None else ""
        raise NonScalarOutputError(
            f"grad needs one number; the function returned {y!r}.{forgot}"
        )
    if shape_of(y if hasattr(y, "shape") else np.asarray(y)) != ():  # host array: list
        where = blame.at(y.site) if isinstance(y, Tensor) else ""
        what = blame.describe(y) if isinstance(y, Tensor) else "the output"
        raise NonScalarOutputError(
            f"grad needs one number; the function returned {what}{where}. Reduce it"
            " (np.sum, np.mean), give a seed (wb.vjp), or ask for wb.jacobian."
        )
    if not isinstance(y, Tensor) or not (y._value is None or is_float(y)):
        return None
    return np.ones_like(y if y._value is None else y._value)


def check_real(call: RecordedCall) -> None:
    """Refuse a complex result of real numbers: half of its derivative."""
    real = [x for x in call.leaves if x.dtype.kind != "c"]
    for y in call.outputs if real else ():
        if isinstance(y, Tensor) and y.dtype.kind == "c":
            raise DtypeError(
                f"grad: the function returned {blame.describe(y)}"
                f"{blame.at(y.site)}, and the gradient by"
                f" {blame.describe(real[0])} would be that of the real part alone."
                " Return the part that is meant, np.real(y), np.imag(y) or"
                " np.abs(y), or ask for wb.jacobian, which is complex."
            )


def check_target(argnums: Any, name: str) -> None:
    """Refuse what is differentiated at in the place of what by: ``grad(f, x)``."""
    if isinstance(argnums, Tensor):
        raise UsageError(
            f"{name}: {blame.describe(argnums)} is what to differentiate by, and what"
            " to differentiate is neither an expression nor a function. Write"
            f" wb.{name}(expression, wrt)."
        )
    dtype = getattr(argnums, "dtype", None)
    if dtype is not None and np.dtype(dtype).kind not in "iu":
        raise UsageError(
            f"{name}(f, x) is {name}(f)(x): it returns a function of the arguments of"
            " f. The second place is for argnums, the position of what is"
            " differentiated by."
        )


def value_and_grad(
    f: Any,
    argnums: Any = None,
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """A function that returns ``(f(*args), gradient)``; of an expression, the pair.

    Parameters
    ----------
    f
        A function of arrays that returns one number; with ``has_aux`` a pair of
        that number and anything else. Or an expression: then ``argnums`` is ``wrt``
        and ``options`` are as for :func:`workbench.grad`.
    argnums
        The position, or positions, of what is differentiated by; the first by
        default. An argument may be a nest of arrays; its gradient is nested alike.
    argnames
        The name, or names, of further arguments to differentiate by; they may be
        passed by keyword. Their gradients follow those of ``argnums``.
    has_aux
        The function returns a pair, and only the first is differentiated.
    holomorphic
        The function is complex-differentiable, and its complex derivative is
        wanted: arguments and result must be complex.
    allow_int
        Arrays of integers (and other things without a derivative) among what is
        differentiated by have gradient None, instead of an error.
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
    >>> loss = lambda x, *, scale: np.sum(scale * x)
    >>> y, g = wb.value_and_grad(loss, argnames="scale")(np.ones(2), scale=3.0)
    >>> float(g)
    2.0
    """
    if isinstance(f, Tensor):
        only_for_functions(
            "value_and_grad", argnames=argnames, has_aux=has_aux,
            holomorphic=holomorphic, allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import derivatives

        wrt = wrt_of("value_and_grad", argnums, options)
        return f, derivatives.gradient(f, wrt, overrides=overrides, **options)
    if options:
        no_options("value_and_grad", options)
    if argnums is not None:
        check_target(argnums, "grad")

    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "grad", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        g = call.gradients([scalar_seed(call, holomorphic=holomorphic)])
        return call.with_aux(call.result()), g

    return differentiated


def grad(
    f: Any,
    argnums: Any = None,
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """The gradient of a function that returns one number, or of an expression.

    As :func:`value_and_grad`, without the value; with ``has_aux`` it returns
    ``(gradient, aux)``. Nests to any order; a function that does not depend on its
    argument has gradient zero.

    ``wb.grad(expression, wrt)`` differentiates an expression of symbols by ``wrt``, a
    Tensor or a nest of them, and returns expressions in the same nest. Its options
    are those of `workbench.gradient.grad`: ``consider_constant``,
    ``disconnected_inputs``, ``known_grads``, and more.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
    array([1., 1., 1.])
    >>> third = wb.grad(wb.grad(wb.grad(lambda x: x**4)))
    >>> float(third(2.0))
    48.0
    >>> complex(wb.grad(np.exp, holomorphic=True)(0j))
    (1+0j)
    >>> x, w = wb.scalars("x w")
    >>> f = wb.function([x, w], wb.grad(x**2 * w, [x, w]))
    >>> [float(g) for g in f(3.0, 2.0)]
    [12.0, 9.0]
    """
    if isinstance(f, Tensor) or "known_grads" in options:
        only_for_functions(
            "grad", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic,
            allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import derivatives

        wrt = wrt_of("grad", argnums, options)
        return derivatives.gradient(f, wrt, overrides=overrides, **options)
    if options:
        no_options("grad", options)
    if argnums is not None:
        check_target(argnums, "grad")

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "grad", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        g = call.gradients([scalar_seed(call, holomorphic=holomorphic)])
        return call.with_aux(g) if has_aux else g

    return gradient


def vjp(
    f: Any,
    *primals: Any,
    has_aux: bool = False,
    overrides: Sequence[Override] | None = None,
) -> tuple[Any, ...]:
    """The value at the primals, and the map from cotangents back to gradients.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be a nest too. Or an expression,
        or a nest of them.
    primals
        Where to differentiate; all of them are differentiated by. Of an expression
        the Tensors that it is differentiated by.
    has_aux
        The function returns a pair, and only the first is differentiated.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    ``(y, pullback)``, where ``pullback(cotangent)`` takes what is nested and
    shaped as ``y`` and returns a tuple, one gradient per primal. With ``has_aux``
    ``(y, pullback, aux)``. The primals may change afterwards; the pullback keeps
    its own copy of them. What ``f`` read besides is read-only as long as the pullback
    exists: NumPy refuses ``data[0] = 5``. A buffer that is filled anew in each step
    is passed as an argument, or ``del pullback`` comes before it is filled.

    Raises
    ------
    TraceError
        By the pullback, if an array that ``f`` read besides has changed all the same,
        through a view of it that was made before. Of an array over 64 KiB only
        entries that stand evenly apart are looked at. What a rule of the user's reads
        when it runs is not seen.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y, pullback = wb.vjp(np.sin, np.array([0.0, 1.0]))
    >>> pullback(np.array([1.0, 0.0]))
    (array([1., 0.]),)
    """
    if is_expression(f):
        from workbench.autodiff import expressions

        only_for_functions("vjp", has_aux=has_aux)

        def pulled(cotangent: Any) -> Any:
            return expressions.pull_cotangents(
                f, primals, cotangent, overrides=overrides, name="vjp"
            )

        return f, pulled
    primals = copy_arrays(primals)
    places = range(len(primals))
    call = RecordedCall(f, places, primals, {}, "vjp", overrides, has_aux=has_aux)
    check = call.unchanged("pullback")

    def pullback(cotangent: Any) -> Any:
        check()
        seeds, structure = tree.flatten(cotangent)
        if structure != call.recording.tree:
            raise ShapeError(
                "vjp: the cotangent is not nested as the output:"
                f" {tree.difference(call.recording.tree, structure)}{blame.here()}."
                " Give one cotangent per output array."
            )
        fitted = [
            seed if not isinstance(y, Tensor) else checked_seed(seed, y)
            for seed, y in zip(seeds, call.outputs, strict=True)
        ]
        return call.gradients(fitted)

    made: tuple[Any, ...] = call.with_aux(call.result(saved=True), pullback, saved=True)
    return made


def checked_seed(seed: Any, y: Tensor, what: str = "cotangent") -> Any:
    """A cotangent of an output, or a tangent of a primal, in its shape and dtype."""
    v = y._value
    if type(seed) is np.ndarray is type(v):
        if seed.shape == v.shape and seed.dtype is v.dtype:
            return admit(seed)
    given = types.spec_of(seed).dtype
    if given.kind not in "biufc" or (given.kind == "c" and y.dtype.kind != "c"):
        raise DtypeError(
            f"the {what} is of dtype {given}, and that of"
            f" {blame.describe(y)} is {y.dtype}. Give real numbers for a real array."
        )
    if dims.differ(shape_of(admit(seed)), y.shape):
        of = f"that of {blame.describe(y)}{blame.at(y.site)}"
        raise ShapeError(
            f"the {what} has shape {shape_of(admit(seed))}, and {of} is another."
            f" Give one of shape {y.shape}."
        )
    if not hasattr(seed, "dtype"):
        seed = np.asarray(seed, y.dtype)  # host array: a number or a list
    return reverse.fit(seed, y)


def jvp(
    f: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
    overrides: Sequence[Override] | None = None,
) -> tuple[Any, ...]:
    """The value at the primals, and how it moves along the tangents.

    Parameters
    ----------
    f
        A function of arrays or nests. Or an expression, or a nest of them.
    primals, tangents
        Two tuples of the same structure, shapes and (float) dtypes. Of an expression
        the Tensors that move, and what they move along.
    has_aux
        The function returns a pair, and only the first is differentiated.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    ``(y, ty)``, nested alike; with ``has_aux`` ``(y, ty, aux)``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jvp(np.exp, (np.zeros(2),), (np.array([1.0, 2.0]),))
    (array([1., 1.]), array([1., 2.]))
    """
    if is_expression(f):
        from workbench.autodiff import expressions

        only_for_functions("jvp", has_aux=has_aux)
        return f, expressions.push_tangents(
            f, primals, tangents, overrides=overrides, name="jvp"
        )
    if not isinstance(primals, (tuple, list)):
        raise UsageError(
            f"jvp: primals is {'an array' if hasattr(primals, 'shape') else primals},"
            " and holds one entry per argument of the function: write (x,), and (t,)"
            " for the tangents."
        )
    moving, structure = tree.flatten(tuple(tangents))
    wanted = tree.flatten(tuple(primals))[1]
    if structure != wanted:
        raise ShapeError(
            "jvp: the tangents are not nested as the primals:"
            f" {tree.difference(wanted, structure)}{blame.here()}. Give one tangent per"
            " primal array."
        )
    primals = tuple(primals)
    places = range(len(primals))
    call = RecordedCall(f, places, primals, {}, "jvp", overrides, has_aux=has_aux)
    fitted = [
        checked_seed(t, x, "tangent") for t, x in zip(moving, call.leaves, strict=True)
    ]
    rules = None if call.resolution is None else call.resolution.rules
    made = forward.push_forward(call.outputs, call.leaves, fitted, rules=rules)
    results = [
        np.zeros_like(detach(y)) if t is None
        else reverse.finish(t, False)
        for y, t in zip(call.outputs, made, strict=True)
    ]  # fmt: skip
    moved = call.recording.tree(
        ensure_owned(results, (*call.known, *fitted), call.first)
    )
    pair: tuple[Any, ...] = call.with_aux(call.result(), moved)
    return pair
