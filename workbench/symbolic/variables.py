"""The leaves of an expression: symbols, constants and shared values.

A symbol is a Tensor that has a dtype and a shape and no value yet; NumPy's functions
and Python's operators make expressions of it. `function.py` gives it values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import source, types
from workbench.core.blame import shorten
from workbench.core.dims import Dim, Length, dim_of_atom
from workbench.core.shared import (
    Shared,
    copy_state,
    fits_dtype,
    matches_lengths,
    refuse_sparse,
)
from workbench.core.tensor import Tensor, make_leaf, read_argument
from workbench.core.tree import is_sparse
from workbench.core.types import ArrayLike, Spec
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.sparse.pattern import split_sparse
from workbench.ops.sparse.tensor import SparseTensor

Shape = Sequence[Any]


def tensor(
    name: str | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    shape: Shape,
) -> Tensor:
    """Return a symbol of any rank.

    Parameters
    ----------
    name
        How it is called in pictures, source and errors.
    dtype
        Its dtype; float64 unless given.
    shape
        Its shape; None for a length that is known only when the program runs, and
        ``x.shape[0]`` for one that is that of another symbol.

    Returns
    -------
    A Tensor without a value.

    Raises
    ------
    ShapeError
        If an entry of the shape is neither None nor a length.
    DtypeError
        If the dtype is not one that arrays of numbers have.

    Examples
    --------
    >>> import workbench as wb
    >>> wb.tensor("images", dtype="float32", shape=(8, 8, 3))
    <Tensor 'images', identity float32[8, 8, 3]>
    """
    made = make_leaf(None, check_symbol_name(name))
    made.spec = Spec(as_shape(made, shape), _dtype(dtype, name))
    return made


def check_symbol_name(name: object) -> str | None:
    """Return a name if valid: a text, or None."""
    if name is None or (isinstance(name, str) and name):
        return name
    raise UsageError(f"a symbol's name is a text, not {name!r}: wb.scalar('x').")


def _dtype(dtype: npt.DTypeLike, name: str | None) -> np.dtype[Any]:
    try:
        made: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise DtypeError(
            f"the symbol {name or ''!s} cannot have the dtype {dtype!r}: {error}."
            " Write one of NumPy's: 'float64', np.int32."
        ) from error
    if made.kind not in "biufc":
        raise DtypeError(
            f"the symbol {name or ''!s} cannot have the dtype {made}: programs compute"
            " with booleans, integers, floats and complex numbers."
        )
    return made


def as_shape(symbol: Tensor, shape: Shape) -> tuple[Any, ...]:
    """Return the shape of a symbol as given, None for an unknown length."""
    if isinstance(shape, int) or not isinstance(shape, Sequence):
        raise ShapeError(
            f"shape={shape!r} is not a tuple of lengths. Write ({shape!r},)."
        )
    for n in shape:
        if n is None or isinstance(n, Dim):
            continue
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise ShapeError(
                f"shape={tuple(shape)!r}: {n!r} is not a length. Give an integer from 0"
                " on, or None for a length that is not known yet."
            )
    return tuple(
        dim_of_atom(Length(symbol, axis))
        if n is None
        else n
        if isinstance(n, Dim)
        else int(n)
        for axis, n in enumerate(shape)
    )


def scalar(name: str | None = None, *, dtype: npt.DTypeLike = np.float64) -> Tensor:
    """Return a symbol for one number.

    Parameters
    ----------
    name
        How it is called in pictures, source and errors.
    dtype
        Its dtype.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> x * x + x - 2
    <Tensor subtract float64[]>
    """
    return tensor(name, dtype=dtype, shape=())


def vector(
    name: str | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    shape: Shape | None = None,
) -> Tensor:
    """Return a symbol for an array of one axis, of unknown length unless given.

    Parameters
    ----------
    name
        How it is called in pictures, source and errors.
    dtype
        Its dtype.
    shape
        Its length; None, as by default, if only the run tells.

    Examples
    --------
    >>> import workbench as wb
    >>> wb.vector("v", shape=3)
    <Tensor 'v', identity float64[3]>
    """
    return _make_symbol(name, dtype, shape, 1, "vector")


def matrix(
    name: str | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    shape: Shape | None = None,
) -> Tensor:
    """Return a symbol for an array of two axes, of unknown lengths unless given.

    Parameters
    ----------
    name
        How it is called in pictures, source and errors.
    dtype
        Its dtype.
    shape
        Its two lengths, None for one that only the run tells.

    Examples
    --------
    >>> import workbench as wb
    >>> wb.matrix("A", dtype="float32", shape=(2, 3)) @ wb.vector("v", shape=3)
    <Tensor matmul float64[2]>
    """
    return _make_symbol(name, dtype, shape, 2, "matrix")


def sparse_matrix(
    name: str | None = None,
    pattern: Any = None,
    *,
    dtype: npt.DTypeLike = np.float64,
) -> SparseTensor:
    """Return a symbol for a sparse array with a fixed pattern of stored entries.

    Parameters
    ----------
    name
        How it is called in pictures, source and errors.
    pattern
        A sparse array of SciPy's, of any values, or a
        :class:`workbench.SparsityPattern` (in CSR): the class, the shape and the
        places. A function of the symbol takes arrays of this class with the same
        places.
    dtype
        Its dtype.

    Raises
    ------
    UsageError
        Without a pattern: which entries are stored is structure, as a shape is.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, workbench as wb
    >>> K = scipy.sparse.csr_array([[2.0, -1.0], [0.0, 3.0]])
    >>> S, x = wb.sparse_matrix("S", K), wb.vector("x")
    >>> slope = wb.function([S, x], wb.grad(np.sum((S @ x) ** 2), S))
    >>> slope(K, np.ones(2)).toarray()
    array([[2., 2.],
           [0., 6.]])
    """
    if pattern is not None and hasattr(pattern, "to_scipy"):
        pattern = pattern.to_scipy("csr")
    if not is_sparse(pattern):
        raise UsageError(
            f"wb.sparse_matrix({name!r}, {shorten(repr(pattern))}): which entries are"
            " stored is part of the symbol, as a shape is. Give a sparse array of"
            " SciPy's with entries in these places, or a wb.SparsityPattern."
        )
    places = split_sparse(pattern)[1]
    places.built = None
    return SparseTensor(tensor(name, dtype=dtype, shape=places.data_shape), places)


def _make_symbol(
    name: str | None,
    dtype: npt.DTypeLike,
    shape: int | Shape | None,
    rank: int,
    kind: str,
) -> Tensor:
    if shape is None:
        shape = (None,) * rank
    if isinstance(shape, int):
        shape = (shape,)
    if isinstance(shape, Sequence) and len(shape) != rank:
        raise ShapeError(
            f"a {kind} has {rank} axes, and shape={tuple(shape)!r} has {len(shape)}."
            " Write wb.tensor(name, shape=...) for another rank."
        )
    return tensor(name, dtype=dtype, shape=shape)


def scalars(
    *names: str | Sequence[str], dtype: npt.DTypeLike = np.float64
) -> tuple[Tensor, ...]:
    """Make several number symbols, from names in one text or as separate arguments.

    Parameters
    ----------
    names
        ``"x y"``, or ``"x", "y"``.
    dtype
        The dtype of all of them.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, y = wb.scalars("x y")
    >>> np.arctan2(y, x)
    <Tensor arctan2 float64[]>
    """
    return _make_symbols(scalar, names, dtype)


def vectors(
    *names: str | Sequence[str], dtype: npt.DTypeLike = np.float64
) -> tuple[Tensor, ...]:
    """Make several vector symbols of unknown lengths.

    Parameters
    ----------
    names
        ``"u v"``, or ``"u", "v"``.
    dtype
        The dtype of all of them.

    Examples
    --------
    >>> import workbench as wb
    >>> u, v = wb.vectors("u v")
    >>> u @ v
    <Tensor matmul float64[]>
    """
    return _make_symbols(vector, names, dtype)


def matrices(
    *names: str | Sequence[str], dtype: npt.DTypeLike = np.float64
) -> tuple[Tensor, ...]:
    """Make several matrix symbols of unknown lengths.

    Parameters
    ----------
    names
        ``"A B"``, or ``"A", "B"``.
    dtype
        The dtype of all of them.

    Examples
    --------
    >>> import workbench as wb
    >>> A, B = wb.matrices("A B")
    >>> A @ B
    <Tensor matmul float64[A.shape[0], B.shape[1]]>
    """
    return _make_symbols(matrix, names, dtype)


def _make_symbols(
    make: Callable[..., Tensor],
    names: Sequence[str | Sequence[str]],
    dtype: npt.DTypeLike,
) -> tuple[Tensor, ...]:
    found: list[Any] = []
    for part in names:
        if isinstance(part, str):
            found += [name for name in re.split(r"[\s,]+", part) if name]
        elif isinstance(part, (list, tuple)):
            found += part
        else:
            raise UsageError(f"{part!r} is not a name. Write them apart: 'x y'.")
    if not found:
        raise UsageError("no name is given. Write them apart: 'x y'.")
    return tuple(make(name, dtype=dtype) for name in found)


def as_numbers(value: ArrayLike, what: str) -> np.ndarray[Any, Any]:
    """Return an array of array-like input, nested lists included."""
    refuse_sparse(value, what)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"{what} is given a nest of uneven lengths: {error} Give lists of one"
            " length, or fill them up."
        ) from error


def constant(
    value: ArrayLike, name: str | None = None, *, dtype: npt.DTypeLike | None = None
) -> Tensor:
    """Return a Tensor that holds a value, and never another.

    Parameters
    ----------
    value
        An array, a number, or a nest of lists; it is copied.
    name
        How it is called in pictures, source and errors.
    dtype
        Its dtype, if not that of the value.

    Raises
    ------
    DtypeError
        If the value holds no numbers.

    Examples
    --------
    >>> import workbench as wb
    >>> wb.constant([1.0, 2.0]) * 3
    <Tensor multiply float64[2], value=array([3., 6.])>
    """
    array = np.array(as_numbers(value, "a constant"), dtype=dtype)
    if array.dtype.kind not in "biufc":
        raise DtypeError(
            f"a constant holds numbers; {value!r} would be of dtype {array.dtype}."
        )
    array.flags.writeable = False
    return make_leaf(array, check_symbol_name(name))


# `shared`: a value that lives between the runs of functions.


def shared(
    value: Any,
    name: str | None = None,
    *,
    shape: Sequence[int | None] | None = None,
    dtype: npt.DTypeLike | None = None,
    borrow: bool = False,
) -> Shared:
    """Return a value that functions share, and keep from one call to the next.

    Parameters
    ----------
    value
        What it holds first: an array of any library, a list or a number.
    name
        How it is called in pictures, source and errors.
    shape
        None for a length that may change: ``(None, 3)``. By default the shape of
        the value, for good.
    dtype
        Its dtype, if not that of the value.
    borrow
        Hold the array itself, in place of a copy of it.

    Returns
    -------
    A :class:`workbench.Shared`: in an expression a symbol that no function needs as
    input; :func:`workbench.grad` differentiates by it.

    Raises
    ------
    DtypeError, ShapeError
        If the value holds no numbers, or does not have the known lengths.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> w = wb.shared(np.zeros(3), "w")
    >>> x = wb.vector("x", shape=3)
    >>> loss = np.sum((w - x) ** 2)
    >>> step = wb.function([x], loss, updates={w: w - 0.25 * wb.grad(loss, w)})
    >>> float(step([2.0, 4.0, 6.0])), float(step([2.0, 4.0, 6.0]))
    (56.0, 14.0)
    >>> w.get_value()
    array([1.5, 3. , 4.5])
    """
    if isinstance(value, Tensor):
        value = value.get_value() if isinstance(value, Shared) else value.value
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        value = types.strip_subclass(value)
    refuse_sparse(value, "a shared value")
    value = read_argument(value)
    given = value
    if not hasattr(value, "dtype") or isinstance(value, np.generic):
        value = as_numbers(value, "a shared value")
    if value.dtype.kind not in "biufc":
        raise DtypeError(
            f"a shared value holds numbers; {shorten(repr(given))} is of dtype"
            f" {value.dtype}."
        )
    if dtype is not None and value.dtype != np.dtype(dtype):
        if not np.can_cast(value.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"a shared value of dtype {np.dtype(dtype)} is given one of dtype"
                f" {value.dtype}. Cast it on purpose: value.astype(...)."
            )
        if not hasattr(given, "dtype") and not fits_dtype(value, np.dtype(dtype)):
            raise DtypeError(
                f"a shared value of dtype {np.dtype(dtype)} is given"
                f" {shorten(repr(given))}, which is out of its range."
            )
        value = value.astype(dtype)
    name = check_symbol_name(name)
    spec = Spec(tuple(value.shape), np.dtype(value.dtype))
    made = Shared(value, spec, name, source.caller())
    if shape is not None:
        if not isinstance(shape, Sequence) or not matches_lengths(
            value.shape, [n if isinstance(n, int) else None for n in shape]
        ):
            raise ShapeError(
                f"a shared value of shape={shape!r} is given one of shape"
                f" {tuple(value.shape)}. Give None for each length that may change."
            )
        made.spec = Spec(as_shape(made, shape), spec.dtype)
    if value is given and not borrow:
        made.state = copy_state(value)
    return made
