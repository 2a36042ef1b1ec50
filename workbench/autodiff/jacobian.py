"""Derivatives of functions of many outputs: `vjp`, `jvp`, `jacobian`, `hessian`.

The first two record a function and run one sweep, the others ask the matrix of its
`LinearMap`. Those along directions, such as `hvp`, stand in `products.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, wraps
from typing import Any, Literal

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.grad import (
    Argnames,
    Argnums,
    Function,
    RecordedCall,
    check_target,
    copy_arrays,
    ensure_owned,
    grad,
    refuse_options,
    refuse_settings,
    scalar_seed,
    wrt_of,
)
from workbench.autodiff.linear_map import MODES, LinearMap
from workbench.core import blame, dims, tree, types
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, admit, gather_argument
from workbench.core.trace import detach, is_expression
from workbench.core.traces import reopen_trace
from workbench.core.types import ArrayLike
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.lengths import defer_function


def vjp(
    f: Any,
    *primals: Any,
    has_aux: bool = False,
    overrides: Sequence[Override] | None = None,
) -> tuple[Any, ...]:
    """Return the value at the primals, and the map from cotangents back to gradients.

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
    if not callable(f) and is_expression(f):
        from workbench.autodiff import expressions

        refuse_settings("vjp", has_aux=has_aux)

        def pulled(cotangent: object) -> Any:
            return expressions.pull_cotangents(
                f, primals, cotangent, overrides=overrides, name="vjp"
            )

        return f, pulled
    primals = copy_arrays(primals)
    places = range(len(primals))
    call = RecordedCall(f, places, primals, {}, "vjp", overrides, has_aux=has_aux)
    check = call.guard_arrays("pullback")

    def pullback(cotangent: object) -> Any:
        check()
        seeds, structure = tree.flatten(cotangent)
        if structure != call.recording.tree:
            raise ShapeError(
                "vjp: the cotangent is not nested as the output:"
                f" {tree.describe_difference(call.recording.tree, structure)}"
                f"{blame.user_line()}. Give one cotangent per output array."
            )
        fitted = [
            seed if not isinstance(y, Tensor) else checked_seed(seed, y)
            for seed, y in zip(seeds, call.outputs, strict=True)
        ]
        return call.gradients(fitted)

    made: tuple[Any, ...] = call.with_aux(call.result(saved=True), pullback, saved=True)
    return made


def checked_seed(seed: ArrayLike, y: Tensor, what: str = "cotangent") -> Any:
    """Return a cotangent of an output, or a tangent of a primal, in shape and dtype."""
    v = y._value
    if type(seed) is np.ndarray is type(v):
        if seed.shape == v.shape and seed.dtype is v.dtype:
            return admit(seed)
    if mixed := blame.describe_places((seed, v)):
        of = f"the {what}, and {blame.describe(y)}{blame.quote_site(y.site)}"
        raise UsageError(f"{of}: {mixed}")
    seed = gather_argument(seed)
    given = types.spec_of(seed).dtype
    if given.kind not in "biufc" or (given.kind == "c" and y.dtype.kind != "c"):
        raise DtypeError(
            f"the {what} is of dtype {given}, and that of"
            f" {blame.describe(y)} is {y.dtype}. Give real numbers for a real array."
        )
    if dims.always_differ(shape_of(admit(seed)), y.shape):
        of = f"that of {blame.describe(y)}{blame.quote_site(y.site)}"
        raise ShapeError(
            f"the {what} has shape {shape_of(admit(seed))}, and {of} is another."
            f" Give one of shape {y.shape}."
        )
    if not hasattr(seed, "dtype"):
        seed = np.asarray(seed, y.dtype)  # host array: a number or a list
    return reverse.fit_cotangent(seed, y)


def fit_tangents(call: RecordedCall, tangents: Sequence[Any], name: str) -> list[Any]:
    """Return the tangents of a call's arguments, flat, in their shapes and dtypes."""
    moving, structure = tree.flatten(tuple(tangents))
    if structure != call.tree:
        raise ShapeError(
            f"{name}: the tangents are not nested as the primals:"
            f" {tree.describe_difference(call.tree, structure)}{blame.user_line()}."
            " Give one tangent per primal array."
        )
    return [
        checked_seed(t, x, "tangent") for t, x in zip(moving, call.leaves, strict=True)
    ]


def own_tangents(
    call: RecordedCall, outputs: Sequence[Any], made: Sequence[Any], given: Any
) -> list[Any]:
    """Return what was made of the tangents ``given``: zeros for None, all one's own."""
    results = [
        np.zeros_like(detach(y)) if t is None
        else detach(t)
        for y, t in zip(outputs, made, strict=True)
    ]  # fmt: skip
    return ensure_owned(results, (*call.read_arrays, *given), call.first)


def differentiate_gradient(
    call: RecordedCall, name: str, *, holomorphic: bool = False
) -> LinearMap:
    """Return the second derivative at a call: that of its gradient, recorded.

    Overrides hold for both: for nodes too that a loop of the gradient computes again.
    """
    seed = scalar_seed(call, name, holomorphic=holomorphic)
    with reopen_trace(call.leaves):
        gradient: list[Any] = call.gradients([seed], record=True)
    rules = None
    if call.active is not None:
        rules = call.active.resolve(gradient, call.leaves, name)
    return LinearMap(gradient, call.leaves, rules)


def jvp(
    f: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
    overrides: Sequence[Override] | None = None,
) -> tuple[Any, ...]:
    """Return the value at the primals, and the tangent of the outputs.

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
    if not callable(f) and is_expression(f):
        from workbench.autodiff import expressions

        refuse_settings("jvp", has_aux=has_aux)
        return f, expressions.push_tangents(
            f, primals, tangents, overrides=overrides, name="jvp"
        )
    if not isinstance(primals, (tuple, list)):
        raise UsageError(
            f"jvp: primals is {'an array' if hasattr(primals, 'shape') else primals},"
            " and holds one entry per argument of the function: write (x,), and (t,)"
            " for the tangents."
        )
    primals = tuple(primals)
    places = range(len(primals))
    call = RecordedCall(f, places, primals, {}, "jvp", overrides, has_aux=has_aux)
    fitted = fit_tangents(call, tangents, "jvp")
    made = LinearMap(call.outputs, call.leaves, call.resolution).push(fitted)
    moved = call.recording.tree(own_tangents(call, call.outputs, made, fitted))
    pair: tuple[Any, ...] = call.with_aux(call.result(), moved)
    return pair


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
    sparse: Any = False,
    **options: Any,
) -> Any:
    """Return the matrix of all first derivatives, as a function of the same arguments.

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
    sparse
        True: find which entries can differ from zero, and compute only these, by few
        products. ``"auto"``: where that pays. Or the pattern, as a
        :class:`workbench.SparsityPattern`, a sparse array or a dense one. The function
        is then recorded once for each set of shapes and dtypes: what it reads from
        outside are constants, as they were at that call.
    options
        Of a sparse Jacobian: ``format`` (``"csr"``, ``"csc"`` or ``"coo"``);
        ``colouring``, what is coloured (``"columns"``, ``"rows"``, ``"both"``,
        ``"auto"``) or a colouring of the pattern; ``check=False`` to trust a pattern
        that was given, which the first call probes at its arguments (``J.check(x)``
        probes at others); ``explain=True`` to print how it is computed and why;
        ``backend``, as of :func:`workbench.compile`.

    Returns
    -------
    A function whose result is nested as the output of ``f``, and within each
    output as the argument (a tuple for several ``argnums``). Each block has the
    shape of the output followed by the shape of the argument. Entries are
    df/dx - i df/dy for a complex argument and a real output, and the complex
    derivative of an analytic function where both are complex.

    With ``sparse`` the result is one sparse array of SciPy: a row for each entry of
    the outputs, a column for each entry of the arguments, flattened in C order, one
    after the other. Zeros are stored where the pattern has a place, so its structure
    is the same in each call. See :class:`workbench.SparseDerivative` for what the
    function has besides: ``prepare``, ``pattern``, ``colouring``, ``explain``.

    Raises
    ------
    ShapeError
        From the call, if the pattern is not of the shape of the matrix.
    GradientError
        From the first call, if an entry outside of a pattern that was given is not
        zero.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> blocks = wb.jacobian(np.matmul, argnums=(0, 1))(np.ones((2, 3)), np.ones(3))
    >>> [block.shape for block in blocks]
    [(2, 2, 3), (2, 3)]
    >>> J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    >>> J(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    if mode not in ("auto", "fwd", "rev"):
        raise UsageError(
            f"jacobian: mode={mode!r}. Write 'fwd', 'rev', or 'auto' for the cheaper."
        )
    sparse = False if sparse is None else sparse
    if not callable(f) and is_expression(f):
        refuse_settings(
            "jacobian", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic,
            allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import expressions

        if sparse is not False:
            options["sparse"] = _sparse_maker("jacobian", sparse, options, mode)
        wrt = wrt_of("jacobian", argnums, options)
        return expressions.jacobian(f, wrt, overrides=overrides, mode=mode, **options)
    settings = None
    if sparse is not False:
        settings = _sparse_settings("jacobian", sparse, options, mode)
        refuse_aux("jacobian", has_aux)
    if options:
        refuse_options("jacobian", options)
    if argnums is not None:
        check_target(argnums, "jacobian")

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "jacobian", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        linear = LinearMap(call.outputs, call.leaves, call.resolution)
        made = call.recording.tree(_list_rows(call, linear.blocks(MODES[mode])))
        return call.with_aux(made) if has_aux else made

    found = defer_function(dense)
    if settings is None:
        return found
    from workbench.autodiff.sparse.evaluation import SparseDerivative

    return SparseDerivative(
        f, f, argnums, settings, found, argnames=argnames, overrides=overrides,
        allow_int=allow_int, holomorphic=holomorphic,
    )  # fmt: skip


def jacrev(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """Return `jacobian` in reverse mode: one sweep for each entry of the output.

    Parameters
    ----------
    f, argnums
        As those of :func:`workbench.jacobian`.
    settings
        Its other settings: ``argnames``, ``has_aux``, ``overrides``, and more.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.jacrev(lambda x: np.sum(x**2, keepdims=True))(np.arange(3.0))
    array([[0., 2., 4.]])
    """
    return jacobian(f, argnums, "rev", **settings)


def jacfwd(f: Function, argnums: Argnums = None, **settings: Any) -> Any:
    """Return `jacobian` in forward mode: one push for each entry of the argument.

    Parameters
    ----------
    f, argnums
        As those of :func:`workbench.jacobian`.
    settings
        Its other settings: ``argnames``, ``has_aux``, ``overrides``, and more.

    Examples
    --------
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
    sparse: Any = False,
    **options: Any,
) -> Any:
    """Return the matrix of second derivatives of a function that returns one number.

    Tangents are pushed forward through the recorded gradient, all at once; where
    an override has a reverse rule alone, cotangents are pulled back through it.

    Parameters
    ----------
    f
        A function of arrays that returns one number; with ``has_aux`` a pair of
        that number and anything else. Or an expression of symbols.
    argnums
        The position, or positions, of what is differentiated by; the first by
        default. Of an expression ``wrt``: a Tensor or a nest of them.
    argnames, has_aux, holomorphic, allow_int, overrides
        As those of :func:`workbench.grad`. Overrides hold for both derivatives: where
        the gradient reads a node that one means, its rule holds there too.
    sparse
        As that of :func:`workbench.jacobian`; the pattern of a Hessian is symmetric.
    options
        Of an expression alone, those of :func:`workbench.gradient.hessian`. Of a sparse
        Hessian those of a sparse Jacobian; ``colouring`` may be ``"star"`` too, as it
        is by default.

    Returns
    -------
    A function whose result is nested as the argument, twice; each block has the
    shape of the first variable followed by that of the second. With several
    ``argnums`` the cross blocks are included; with ``has_aux`` it gives
    ``(hessian, aux)``. Of an expression: an expression. With ``sparse`` one sparse
    array of SciPy, as that of :func:`workbench.jacobian`.

    Raises
    ------
    NonScalarOutputError
        If ``f`` returns more than one number.
    DtypeError
        If an argument to differentiate by is of integer dtype.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    >>> H = wb.hessian(lambda x: np.sum(x[1:] * x[:-1]), sparse=True)
    >>> H(np.zeros(3)).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    sparse = False if sparse is None else sparse
    settings: dict[str, Any] = {
        "argnames": argnames, "allow_int": allow_int, "holomorphic": holomorphic,
    }  # fmt: skip
    if isinstance(f, Tensor):
        refuse_settings("hessian", has_aux=has_aux, **settings)
        from workbench.autodiff import expressions

        if sparse is not False:
            options["sparse"] = _sparse_maker("hessian", sparse, options)
        wrt = wrt_of("hessian", argnums, options)
        return expressions.hessian(f, wrt, overrides=overrides, **options)
    sparse_settings = None
    if sparse is not False:
        sparse_settings = _sparse_settings("hessian", sparse, options)
        refuse_aux("hessian", has_aux)
    if options:
        refuse_options("hessian", options)
    if argnums is not None:
        check_target(argnums, "hessian")

    @wraps(f)
    def dense(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "hessian", overrides, has_aux=has_aux, **settings
        )
        linear = differentiate_gradient(call, "hessian", holomorphic=holomorphic)
        made = call.nest(_list_rows(call, linear.blocks("forward", optional=True)))
        return call.with_aux(made) if has_aux else made

    found = defer_function(dense)
    if sparse_settings is None:
        return found
    from workbench.autodiff.sparse.evaluation import SparseDerivative

    gradient = grad(f, argnums, overrides=overrides, **settings)
    return SparseDerivative(
        gradient, f, argnums, sparse_settings, found, overrides=overrides, **settings
    )


def _sparse_settings(
    name: Literal["jacobian", "hessian"],
    sparse: Any,
    options: dict[str, Any],
    mode: str = "auto",
) -> Any:
    """Take the settings of a sparse derivative out of the options."""
    from workbench.autodiff.sparse.choice import COLOURING_MODES, check_settings

    if mode != "auto":
        options.setdefault("colouring", COLOURING_MODES[mode])
    return check_settings(name, sparse, options)


def _sparse_maker(
    name: Literal["jacobian", "hessian"],
    sparse: Any,
    options: dict[str, Any],
    mode: str = "auto",
) -> Function:
    """Return the function that makes an expression's matrix, with these settings."""
    from workbench.autodiff.sparse.evaluation import make_expression

    return partial(
        make_expression, settings=_sparse_settings(name, sparse, options, mode)
    )


def refuse_aux(name: str, has_aux: bool) -> None:
    """Refuse ``has_aux=True`` for a sparse derivative, which returns entries alone."""
    if has_aux:
        raise UsageError(
            f"{name}: sparse= and has_aux=True do not go together: what is prepared"
            " returns entries alone. Call the function itself for the rest."
        )


def _list_rows(call: RecordedCall, rows: list[list[Any]]) -> list[Any]:
    """Return the rows of blocks at a call, each nested as its arguments, all owned."""
    made = iter(
        ensure_owned([detach(b) for row in rows for b in row], call.read_arrays)
    )
    return [call.nest([next(made) for _ in row]) for row in rows]
