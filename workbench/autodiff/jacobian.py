"""Many derivatives at once: `jacobian`, `hessian`.

Both record a function and ask the matrix of its `LinearMap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal

from workbench.autodiff.grad import check_target, grad
from workbench.autodiff.linear_map import MODES, LinearMap, Mode
from workbench.autodiff.recorded_call import (
    Argnames,
    Argnums,
    RecordedCall,
    detach,
    ensure_owned,
    is_expression,
    no_options,
    only_for_functions,
    wrt_of,
)
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops.lengths import delayed

Function = Callable[..., Any]


def jacobian(
    f: Any,
    argnums: Any = None,
    mode: Literal["auto", "fwd", "rev"] = "auto",
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """The matrix of all first derivatives, as a function of the same arguments.

    ``wb.jacobian(expression, wrt)`` is that of an expression, as an expression; its
    options are those of `workbench.gradient.jacobian`.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be of any shape, or a nest. Or
        an expression, or several; then ``argnums`` is ``wrt``.
    argnums
        The position, or positions, of what is differentiated by.
    mode
        ``"rev"`` pulls all cotangents back at once, ``"fwd"`` pushes all tangents
        forward; ``"auto"`` takes the one with fewer of them.
    argnames, has_aux, holomorphic, allow_int
        As for :func:`workbench.value_and_grad`; with ``has_aux`` the result is
        ``(jacobian, aux)``.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    A function whose result is nested as the output of ``f``, and within each
    output as the argument (a tuple for several ``argnums``). Each block has the
    shape of the output followed by the shape of the argument. Entries are
    df/dx - i df/dy for a complex argument and a real output, and the complex
    derivative of an analytic function where both are complex.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> blocks = wb.jacobian(np.matmul, argnums=(0, 1))(np.ones((2, 3)), np.ones(3))
    >>> [block.shape for block in blocks]
    [(2, 2, 3), (2, 3)]
    """
    if mode not in ("auto", "fwd", "rev"):
        raise UsageError(
            f"jacobian: mode={mode!r}. Write 'fwd', 'rev', or 'auto' for the cheaper."
        )
    if is_expression(f):
        only_for_functions(
            "jacobian", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic,
            allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import expressions

        wrt = wrt_of("jacobian", argnums, options)
        return expressions.jacobian(f, wrt, overrides=overrides, mode=mode, **options)
    if options:
        no_options("jacobian", options)
    if argnums is not None:
        check_target(argnums, "jacobian")

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "jacobian", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        return call.with_aux(_matrix(call, MODES[mode]))

    return delayed(dense)


def jacrev(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """`jacobian` in reverse mode: one sweep for each entry of the output.

    >>> import numpy as np, workbench as wb
    >>> wb.jacrev(lambda x: np.sum(x**2, keepdims=True))(np.arange(3.0))
    array([[0., 2., 4.]])
    """
    return jacobian(f, argnums, "rev", **settings)


def jacfwd(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """`jacobian` in forward mode: one push for each entry of the argument.

    >>> import numpy as np, workbench as wb
    >>> wb.jacfwd(lambda t: np.stack([t, t**2]))(3.0)
    array([1., 6.])
    """
    return jacobian(f, argnums, "fwd", **settings)


def hessian(
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
    """The matrix of all second derivatives of a function that returns one number.

    ``wb.hessian(expression, wrt)`` is that of an expression, as an expression; its
    options are those of `workbench.gradient.hessian`.

    Tangents are pushed forward through the recorded gradient, all at once; where
    an override has a reverse rule alone, cotangents are pulled back through it.

    Returns
    -------
    A function whose result is nested as the argument, twice; each block has the
    shape of the first variable followed by that of the second. With several
    ``argnums`` the cross blocks are included. The other settings are those of
    :func:`workbench.value_and_grad`; with ``has_aux`` it gives ``(hessian, aux)``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    settings: dict[str, Any] = {
        "argnames": argnames, "allow_int": allow_int, "holomorphic": holomorphic,
    }  # fmt: skip
    if isinstance(f, Tensor):
        only_for_functions("hessian", has_aux=has_aux, **settings)
        from workbench.autodiff import expressions

        wrt = wrt_of("hessian", argnums, options)
        return expressions.hessian(f, wrt, overrides=overrides, **options)
    if options:
        no_options("hessian", options)
    if argnums is not None:
        check_target(argnums, "hessian")
    gradient = grad(f, argnums, has_aux=has_aux, overrides=overrides, **settings)

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            gradient, argnums, args, kwargs, "hessian", overrides,
            has_aux=has_aux, **settings,
        )  # fmt: skip
        return call.with_aux(_matrix(call, "forward", optional=True))

    return delayed(dense)


def _matrix(call: RecordedCall, mode: Mode | None, optional: bool = False) -> Any:
    """Return all blocks of a recorded call, nested as its result."""
    linear = LinearMap(call.outputs, call.leaves, call.resolution)
    rows = linear.blocks(mode, optional)
    made = iter(ensure_owned([detach(b) for row in rows for b in row], call.known))
    return call.recording.tree([call.nested([next(made) for _ in row]) for row in rows])
