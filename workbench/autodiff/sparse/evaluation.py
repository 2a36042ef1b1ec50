"""Sparse Jacobians and Hessians: prepared once, then called with numbers.

What is prepared for the shapes of the arguments: the pattern, and one program from the
arguments to all entries, which the compiled backend runs like any other. It computes
entry by entry where it can (`accumulation.py`); elsewhere it makes a few products with
the seeds of a colouring and reads the entries out of them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial, update_wrapper
from typing import Any, Literal, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from workbench.autodiff.grad import (
    Argnames,
    Argnums,
    RecordedCall,
    is_number_of_any_value,
)
from workbench.autodiff.linear_map import NO_RULE, LinearMap, Mode
from workbench.autodiff.sparse.accumulation import accumulate
from workbench.autodiff.sparse.colouring import SYMMETRIC, Colouring, colour
from workbench.autodiff.sparse.pattern import FORMATS, SparsityPattern
from workbench.autodiff.sparse.sparsity import BY_VALUES, find_call_pattern
from workbench.core import blame, hooks, tree
from workbench.core.blame import format_count
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import is_live
from workbench.core.types import is_weak, spec_of
from workbench.errors import GradientError, ShapeError, TraceError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.sparse.pattern import Pattern, make_array, to_host

#: With ``sparse="auto"``: a sparse matrix has at most this share of entries, and its
#: products at most this share of the dense one's.
MOST_DENSE, MOST_PRODUCTS = 0.25, 0.5
#: A probe finds an error of more than this share, times the rounding of the dtype.
TOLERANCE = 2.0**14
#: So many rows that a probe finds wrong are looked at for the entry to name.
MOST_ROWS = 50
#: A derivative is kept prepared for so many sets of shapes.
MOST_PREPARED = 16

#: So many copies of the index arrays are kept: one is mostly still held by the caller.
MOST_COPIES = 2

#: What the compressed modes are called in `jacobian`.
COLOURING_MODES = {"auto": "auto", "fwd": "columns", "rev": "rows"}


class Settings(NamedTuple):
    """How a sparse derivative is asked for.

    Attributes
    ----------
    name
        ``"jacobian"`` or ``"hessian"``, for errors.
    sparse
        True, ``"auto"``, or a pattern.
    format
        Of the result: ``"csr"``, ``"csc"`` or ``"coo"``.
    colouring
        The mode of the colouring, or a colouring of the pattern.
    check
        Look for entries outside of a pattern that was given.
    explain
        Print how it is computed, and why, once it is prepared.
    backend
        What runs the program, as `workbench.compile` takes it.
    """

    name: Literal["jacobian", "hessian"]
    sparse: Any
    format: str = "csr"
    colouring: Any = "auto"
    check: bool = True
    explain: bool = False
    backend: str | None = "auto"


def check_settings(
    name: Literal["jacobian", "hessian"], sparse: Any, options: dict[str, Any]
) -> Settings:
    """Take the settings of a sparse derivative out of options, and check them.

    Raises
    ------
    UsageError
        If one is not known, or does not fit.
    """
    known = Settings._fields[2:]
    given = {key: options.pop(key) for key in known if key in options}
    settings = Settings(name, sparse, **given)
    if isinstance(sparse, str) and sparse != "auto":
        raise UsageError(
            f"{name}: sparse={sparse!r}. Write sparse=True, sparse='auto' (where it"
            " pays), or give a pattern: a wb.SparsityPattern or a sparse array."
        )
    if not isinstance(sparse, (str, bool)):
        settings = settings._replace(sparse=SparsityPattern.from_scipy(sparse))
    elif isinstance(settings.colouring, Colouring):
        settings = settings._replace(sparse=settings.colouring.pattern)
    if settings.format not in FORMATS:
        raise UsageError(
            f"{name}: format={settings.format!r}. Write one of"
            f" {', '.join(map(repr, FORMATS))}."
        )
    used = getattr(settings.colouring, "mode", settings.colouring)
    if name == "jacobian" and used in SYMMETRIC:
        raise UsageError(
            f"jacobian: a colouring {used!r} is for symmetric matrices, and a Jacobian"
            " need not be one. Write colouring='auto', 'columns', 'rows' or 'both'."
        )
    if isinstance(settings.colouring, Colouring) and (
        not isinstance(settings.sparse, SparsityPattern)
        or settings.colouring.pattern != settings.sparse
    ):
        raise UsageError(
            f"{name}: the colouring is one of another pattern. Give its own with it:"
            " sparse=colouring.pattern, colouring=colouring."
        )
    return settings


class SparseDerivative:
    """A sparse Jacobian or Hessian of a function, prepared once and called often.

    Made by :func:`workbench.jacobian` and :func:`workbench.hessian` with ``sparse=``.
    It is called with the arguments of the function; ``out=`` is a matrix that it has
    returned before, whose values are written over.

    The function is recorded when a derivative is prepared: at the first call for the
    shapes and dtypes of its arguments. What it reads from outside are constants from
    then on. One that looks at values (an ``if`` on an entry) is recorded in each call,
    where its pattern was given.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> pattern = wb.SparsityPattern.from_scipy(np.eye(3) + np.eye(3, k=1))
    >>> J = wb.jacobian(lambda x: x**2 + np.append(x[1:], 0), sparse=pattern)
    >>> J(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 4., 1.],
           [0., 0., 6.]])
    >>> J.colouring
    <Colouring of columns: 2 colours for 3×3, 5 nonzeros>
    """

    def __init__(
        self,
        f: Callable[..., Any],
        function: Callable[..., Any],
        argnums: Argnums,
        settings: Settings,
        dense: Callable[..., Any] | None,
        *,
        argnames: Argnames = None,
        overrides: Sequence[Override] | None = None,
        **call_settings: Any,
    ) -> None:
        update_wrapper(self, function)
        #: What is differentiated once: of a Hessian the gradient of the function.
        self._f = f
        self.function = function
        self._argnums, self._argnames = argnums, argnames
        self._settings = settings
        self._dense = dense
        self._overrides = overrides
        self._call_settings = call_settings
        self._prepared: dict[Any, Prepared] = {}
        self._last: Prepared | None = None

    def prepare(self, *args: Any, **kwargs: Any) -> SparseDerivative:
        """Find pattern and colouring for arguments of these shapes; return itself.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> J = wb.jacobian(np.sin, sparse=np.eye(3)).prepare(np.zeros(3))
        >>> J.pattern
        <SparsityPattern 3×3, 3 nonzeros, density 0.333>
        """
        self._find_prepared(args, kwargs)
        return self

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Return the matrix at these arguments."""
        prepared = self._find_prepared(args, kwargs)
        if prepared.dense is not None:
            if out is not None:
                raise UsageError(
                    f"{self._settings.name}: out= is for a sparse matrix, and this one"
                    f" is dense: {prepared.reason}"
                )
            return prepared.dense(*args, **kwargs)
        if self._settings.check and not prepared.is_checked:
            self._check_pattern(prepared, args, kwargs)
        return prepared.fill(prepared.compute(args, kwargs), out)

    def entries(self, *args: Any, **kwargs: Any) -> Any:
        """Return the stored entries of the matrix alone, in the order of its format.

        They are those of ``J(x).data``: what solvers take that know the places of the
        entries from before. No index array is copied.

        Returns
        -------
        A vector of ``J.pattern.nnz`` entries.

        Raises
        ------
        UsageError
            If the matrix is dense, as ``"auto"`` may choose.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
        >>> J.entries(np.array([1.0, 2.0, 3.0]))
        array([2., 1., 3., 2.])
        """
        prepared = self._find_prepared(args, kwargs)
        if prepared.dense is not None:
            raise UsageError(
                f"{self._settings.name}: entries() is for a sparse matrix, and this one"
                f" is dense: {prepared.reason} Write sparse=True."
            )
        if self._settings.check and not prepared.is_checked:
            self._check_pattern(prepared, args, kwargs)
        return prepared.compute(args, kwargs)

    def _find_prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        if len(args) == 1 and type(args[0]) is np.ndarray and not kwargs:
            key: Any = args[0].shape, args[0].dtype
        else:
            leaves, structure = tree.flatten((args, kwargs))
            key = structure, *map(_describe_leaf, leaves)
        try:
            found = self._prepared.get(key)
        except TypeError as error:
            raise UsageError(
                f"{self._settings.name}: an argument that is no array is known by its"
                f" hash, and this one has none: {error}. Leave it out of the arguments:"
                " the function can read it from outside."
            ) from None
        if found is None:
            found = self._prepare(args, kwargs)
            while len(self._prepared) >= MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared)), None)
            self._prepared[key] = found
            if self._settings.explain:
                print(found.explain())
        self._last = found
        return found

    # What is known once it is prepared

    def _read_prepared(self) -> Prepared:
        if self._last is None:
            raise UsageError(
                f"{self!r} is not prepared yet: its pattern depends on the shapes of"
                " its arguments. Call it, or J.prepare(x), before this."
            )
        return self._last

    @property
    def pattern(self) -> SparsityPattern:
        """The places of the entries, for the last shapes."""
        if isinstance(self._settings.sparse, SparsityPattern):
            return self._settings.sparse
        return self._read_prepared().pattern

    @property
    def colouring(self) -> Colouring:
        """The colouring for the last shapes."""
        return self._read_prepared().colouring

    @property
    def colours(self) -> Any:
        """The colour of each column (or row): see `Colouring.colours`."""
        return self.colouring.colours

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is sparse for the last shapes, as ``"auto"`` chose."""
        return self._read_prepared().dense is None

    @property
    def backend(self) -> str:
        """What a call of the last shapes runs on: ``numpy``, ``compiled``, ``cupy``."""
        return "numpy" if self._last is None else str(self._last.program.backend)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until compiled code for the last shapes is in place, or refused.

        Returns
        -------
        Whether the waiting has come to its end; False before the first call.
        """
        return self._last is not None and bool(self._last.program.wait(timeout))

    def explain(self) -> str:
        """Return in words how the matrix is computed for the last shapes, and why."""
        return self._read_prepared().explain()

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<sparse {self._settings.name} of {name}>"

    # Preparing

    def _call(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RecordedCall:
        return RecordedCall(
            f, self._argnums, args, kwargs, self._settings.name, self._overrides,
            argnames=self._argnames, **self._call_settings,
        )  # fmt: skip

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LinearMap:
        """Return the derivative where the arguments are."""
        call = self._call(self._f, args, kwargs)
        return LinearMap(call.outputs, call.leaves, call.resolution)

    def _find_pattern(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> SparsityPattern:
        call = self._call(self.function, args, kwargs)
        return find_call_pattern(call, 1 if self._settings.name == "jacobian" else 2)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        settings = self._settings
        linear = self._record(args, kwargs)
        shape = linear.row_starts[-1], linear.column_starts[-1]
        given = isinstance(settings.sparse, SparsityPattern)
        if given:
            pattern = settings.sparse
            check_shape(pattern, shape, settings.name)
        else:
            pattern = self._find_pattern(args, kwargs)
        accumulated = try_accumulation(linear, pattern, settings)
        chosen = choose_colouring(linear, pattern, settings, accumulated is not None)
        reason = ""
        is_dense = False
        if settings.sparse == "auto":
            is_dense, reason = judge(
                pattern, None if accumulated is not None else chosen()
            )
            if linear.rules:
                is_dense, reason = True, "Dense: overrides may move entries."

        def entries(format: str, *args: Any, **kwargs: Any) -> Any:
            linear = self._record(args, kwargs)
            if accumulated is not None:
                made = accumulate(linear, pattern, format)
                if made is not None:
                    return made
            return compress(linear, chosen(), order_entries(pattern, format))

        return Prepared(
            pattern, chosen, settings, entries, self._dense if is_dense else None,
            reason, given, bool(linear.rules), accumulated is not None,
        )  # fmt: skip

    def _check_pattern(
        self, prepared: Prepared, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Raise if the matrix has an entry that its pattern has not."""
        leaves = tree.flatten((args, kwargs))[0]
        if any(isinstance(x, Tensor) and is_live(x) for x in leaves):
            return
        linear = self._record(args, kwargs)
        values = value_of(prepared.entries("csr", *args, **kwargs))
        prepared.is_checked = check_entries(
            linear, prepared.pattern, values, self._settings.name
        )


def _count_references(parts: list[Any]) -> list[int]:
    """Return how many references there are to each of some arrays."""
    count = getattr(sys, "getrefcount", None)
    return [0 if count is None else count(part) for part in parts]


#: The references to an array that only a list holds; where Python does not count them,
#: no array is known to be free.
_OWN = _count_references([np.empty(1)])[0] or -1


class Prepared:
    """A sparse derivative for arguments of some shapes.

    Attributes
    ----------
    pattern
        The places of the entries.
    entries
        The function from a format and arguments to entries, in the order of the format.
    program
        The same as a program that is recorded once, in the format of the result.
    dense
        What computes the matrix instead, if it is not to be a sparse one.
    reason
        Why the one or the other was chosen; empty if the user chose.
    is_accumulated
        The entries are computed one by one, and no colouring is needed.
    is_checked
        The pattern is known to hold all entries.
    """

    def __init__(
        self,
        pattern: SparsityPattern,
        colour: Callable[[], Colouring],
        settings: Settings,
        entries: Callable[..., Any],
        dense: Callable[..., Any] | None,
        reason: str,
        is_given: bool,
        is_overridden: bool,
        is_accumulated: bool,
    ) -> None:
        self.pattern = pattern
        self._colour = colour
        self.settings = settings
        self.entries = entries
        self.program = hooks.compile(
            partial(entries, settings.format), settings.backend
        )
        self.is_accumulated = is_accumulated
        self.dense = dense
        self.reason = reason
        self._is_given = is_given
        self._needs_values = False
        #: A found pattern is that of the program, whose entries an override can move.
        self.is_checked = not is_given and not is_overridden
        self._layout: Pattern | None = None
        self._template: Any = None
        #: Index arrays of matrices that were returned: nobody else has made them.
        self._returned: WeakValueDictionary[int, Any] = WeakValueDictionary()
        #: Of those, some that may be used again once nobody else holds them.
        self._copies: deque[list[Any]] = deque(maxlen=MOST_COPIES)

    @property
    def colouring(self) -> Colouring:
        """Which products hold all entries, and how these are read from them."""
        return self._colour()

    @property
    def layout(self) -> Pattern:
        """The class and the index arrays of the result."""
        if self._layout is None:
            self._layout = make_layout(self.pattern, self.settings.format)
        return self._layout

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the entries at these arguments."""
        if not self._needs_values:
            try:
                return self.program(*args, **kwargs)
            except TraceError:
                if not self._is_given:
                    raise
                self._needs_values = True
        made = self.entries(self.settings.format, *args, **kwargs)
        return made if is_live(made) else value_of(made)

    def fill(self, entries: Any, out: Any) -> Any:
        """Return the matrix of these entries; or write them into one."""
        layout = self.layout
        if out is not None:
            self._check_out(out, entries)
            np.copyto(out.data, entries)
            return out
        if isinstance(entries, Tensor):
            return make_tensor(entries, layout)
        if isinstance(entries, np.ndarray):
            return self._make_matrix(entries)
        return make_array(entries, layout)

    def _make_matrix(self, entries: Any) -> Any:
        """Return an array of SciPy's with index arrays of its own.

        A copy of one takes a third of the time in which SciPy makes one.
        """
        if self._template is None:
            self._template = self.layout.matrix(entries, own=True)
        made = object.__new__(type(self._template))
        made.__dict__.update(self._template.__dict__)
        made.data = entries
        if made.format == "coo":
            made.coords = tuple(self._copy_index())
        else:
            made.indices, made.indptr = self._copy_index()
        return made

    def _copy_index(self) -> list[Any]:
        """Return copies of the index arrays, in memory that nobody else holds."""
        try:
            parts = self._copies.pop()
        except IndexError:
            parts = []
        if parts and all(n == _OWN for n in _count_references(parts)):
            for part, source in zip(parts, self.layout.index, strict=True):
                part[...] = source
        else:
            parts = [part.copy() for part in self.layout.index]
            for part in parts:
                self._returned[id(part)] = part
        self._copies.appendleft(parts)
        return parts

    def _check_out(self, out: Any, entries: Any) -> None:
        layout, name = self.layout, self.settings.name
        if isinstance(entries, Tensor):
            raise UsageError(
                f"{name}: out= is given inside of a derivative, where entries are no"
                " plain numbers. Leave it out there."
            )
        fits = getattr(out, "format", None) == layout.format
        if fits and out.shape == layout.shape:
            index = list_indices(out)
            if not all(self._returned.get(id(part)) is part for part in index):
                fits = all(map(np.array_equal, index, layout.index))
            fits = fits and out.data.shape == entries.shape
        if not fits or out.shape != layout.shape:
            raise UsageError(
                f"{name}: out= is {blame.shorten(repr(out))}, and its entries do not"
                f" stand where those of the {name} do: {layout}. Give a matrix that"
                " this derivative returned before, with all its entries."
            )
        if not np.can_cast(entries.dtype, out.dtype, "same_kind"):
            raise UsageError(
                f"{name}: out= holds {out.dtype}, and the entries are {entries.dtype}."
                " Give a matrix that was returned for arguments of this dtype."
            )

    def explain(self) -> str:
        """Return in words how the matrix is computed, and why."""
        height, width = self.pattern.shape
        lines = [
            f"{self.settings.name} {height}×{width}: {self.pattern.nnz:,} entries"
            f" can differ from zero ({100 * self.pattern.density:.3g} %)."
        ]
        if self.is_accumulated:
            lines.append(
                "Each entry is computed by itself, from the partial derivatives on its"
                " way: no products, and no colours."
            )
        else:
            lines.append(self._explain_products())
        if self.reason:
            lines.append(self.reason)
        if self.pattern.dense_ops:
            lines.append("Taken as dense, where it may be sparser:")
            lines += [f"  {op}" for op in self.pattern.dense_ops]
        return "\n".join(lines)

    def _explain_products(self) -> str:
        coloured = self.colouring
        products = []
        if coloured.column_colours is not None:
            products.append(f"{coloured.column_count} in forward mode")
        if coloured.row_colours is not None:
            products.append(f"{coloured.row_count} in reverse mode")
        return (
            f"Products: {' and '.join(products)} ({_WORDS[coloured.mode]}, order"
            f" {coloured.order}); dense it takes {min(self.pattern.shape)}."
        )


def list_indices(matrix: Any) -> tuple[Any, ...]:
    """Return the index arrays of a sparse array in CSR, CSC or COO."""
    if matrix.format == "coo":
        return tuple(matrix.coords)
    return matrix.indices, matrix.indptr


_WORDS = {
    "columns": "columns coloured", "rows": "rows coloured",
    "both": "rows and columns coloured", "star": "star colouring",
    "acyclic": "acyclic colouring, by substitution",
}  # fmt: skip


def _describe_leaf(x: Any) -> Any:
    """Return what tells the shapes of one argument from those of another.

    Integers and booleans choose entries, so their values belong to it.
    """
    if is_weak(x) and isinstance(x, (float, complex)):
        return type(x)
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        spec = spec_of(x)
        if isinstance(x, Tensor) or is_number_of_any_value(x):
            return spec.shape, spec.dtype
        return spec.shape, spec.dtype, to_host(x).tobytes() if np.ndim(x) else x.item()
    return type(x), x


# The steps of a sparse derivative


def find_pattern(
    linear: LinearMap, cost: Any = None, wrt: Sequence[Tensor] = ()
) -> SparsityPattern:
    """Return the pattern of a Jacobian; given a number, that of its Hessian.

    The pattern of a Hessian follows from the program of the number itself.
    """
    from workbench.autodiff.sparse import propagation

    if cost is None:
        return propagation.find_jacobian_pattern(linear.outputs, linear.wrt)
    return propagation.find_hessian_pattern(cost, wrt)


def check_shape(pattern: SparsityPattern, shape: tuple[int, int], name: str) -> None:
    """Raise if a pattern is not one of a matrix of this shape."""
    if pattern.shape != shape:
        raise ShapeError(
            f"{name}: the pattern is of shape {pattern.shape}, and the matrix has"
            f" {shape[0]} rows (entries of the outputs) and {shape[1]} columns (entries"
            " of what is differentiated by). Give a pattern of shape"
            f" {shape}."
        )


def try_accumulation(
    linear: LinearMap, pattern: SparsityPattern, settings: Settings
) -> Any | None:
    """Return the entries where each can be computed by itself; else None.

    It is not tried where a colouring was asked for, nor where a dense matrix is better.
    """
    if settings.colouring != "auto":
        return None
    if settings.sparse == "auto" and pattern.density > MOST_DENSE:
        return None
    return accumulate(linear, pattern, settings.format)


def choose_colouring(
    linear: LinearMap, pattern: SparsityPattern, settings: Settings, is_late: bool
) -> Callable[[], Colouring]:
    """Return what gives the colouring that was asked for.

    Where nothing was, and an override or an op that a user has made has no forward
    rule, rows are coloured: that takes reverse mode alone.

    Parameters
    ----------
    linear
        The derivative.
    pattern
        Its places.
    settings
        How it is asked for.
    is_late
        Whether to colour only when somebody looks: no product is computed.

    Raises
    ------
    UsageError
        If it is one for symmetric matrices, and the Hessian need not be one.
    """
    used = getattr(settings.colouring, "mode", settings.colouring)
    is_complex = any(x.dtype.kind == "c" for x in linear.wrt)
    # Then it need not be symmetric, nor, by complex numbers, the same in reverse mode.
    refused = ("rows", "both", *SYMMETRIC) if is_complex else SYMMETRIC
    is_bent = is_complex or linear.rules or any(op.is_own for op in pattern.dense_ops)
    if settings.name == "hessian" and is_bent and used in refused:
        raise UsageError(
            f"hessian: a colouring {used!r} is for a matrix that is symmetric, which it"
            " need not be by complex numbers, with overrides, or where an op has a rule"
            " of its own. Write colouring='columns'."
        )
    if isinstance(settings.colouring, Colouring):
        return partial(_keep, settings.colouring)
    if settings.sparse == "auto" and pattern.density > MOST_DENSE:
        # A dense matrix it will be (see `judge`), so that a colour each is enough.
        own = np.arange(pattern.shape[1], dtype=np.int32)  # host array: colours
        return partial(_keep, Colouring(pattern, "columns", "natural", own))
    is_open = settings.colouring == "auto"
    is_hessian = settings.name == "hessian"
    mode = "columns" if is_hessian and is_open and is_complex else settings.colouring
    symmetric = is_hessian and is_open and not is_bent
    if is_late and not (symmetric and pattern != pattern.T):
        return cache(partial(colour, pattern, mode, symmetric=symmetric))
    chosen = colour(pattern, mode, symmetric=symmetric)
    if mode == "auto" and not symmetric and chosen.column_count:
        try:
            nothing = np.zeros((1, pattern.shape[1]))  # host array: a seed
            linear.multiply("forward", nothing)
        except NO_RULE:
            chosen = colour(pattern, "rows")
    return partial(_keep, chosen)


def _keep(colouring: Colouring) -> Colouring:
    return colouring


def judge(pattern: SparsityPattern, colouring: Colouring | None) -> tuple[bool, str]:
    """Return whether a dense matrix is better, and why or why not.

    No colouring: each entry is computed by itself.
    """
    least = min(pattern.shape)
    if BY_VALUES in pattern.notes:
        return True, (
            "Dense: the program decides something by values, so its pattern is not the"
            " same at other arguments."
        )
    if pattern.density > MOST_DENSE:
        return True, (
            f"Dense: {100 * pattern.density:.0f} % of the entries can differ from zero,"
            f" and a sparse array pays below {100 * MOST_DENSE:.0f} %."
        )
    count = (
        f"{pattern.nnz:,} entries in the place of"
        f" {pattern.shape[0] * pattern.shape[1]:,}."
    )
    if colouring is None:
        return False, f"Sparse: {count}"
    products = colouring.column_count + 2 * colouring.row_count
    if products > MOST_PRODUCTS * least:
        return True, (
            f"Dense: its {format_count(colouring.count, 'product')} would save less"
            f" than half of the {least} that the dense matrix takes."
        )
    return False, (
        f"Sparse: {format_count(colouring.count, 'product')} in the place of {least},"
        f" and {count}"
    )


def compress(linear: LinearMap, colouring: Colouring, order: Any) -> Any:
    """Return the entries of a derivative, by products with the seeds of a colouring.

    Parameters
    ----------
    linear
        The derivative.
    colouring
        A colouring of its pattern.
    order
        Which entry of the pattern comes where; None: as in the pattern.
    """
    columns, rows = colouring.seeds()
    pieces: list[Any] = [None, None]
    if columns is not None:
        modes: list[Mode] = ["forward"]
        if colouring.mode in ("star", "acyclic"):  # the transpose is the matrix
            modes.append("reverse")
        pieces[0] = _multiply(linear, modes, columns)
    if rows is not None:
        pieces[1] = _multiply(linear, ["reverse"], rows)
    return colouring.decompress(*pieces, order=order)


def _multiply(linear: LinearMap, modes: list[Mode], seeds: Any) -> Any:
    """Return products with seeds in the first mode that has all rules."""
    for mode in modes[:-1]:
        try:
            return linear.multiply(mode, seeds)
        except NO_RULE:
            continue
    return linear.multiply(modes[-1], seeds)


def order_entries(pattern: SparsityPattern, format: str) -> Any:
    """Return which entry of a pattern comes where in a format; None: as they are."""
    return pattern.csc[2] if format == "csc" else None


def make_tensor(entries: Any, layout: Pattern) -> Any:
    """Return the sparse array of entries that are recorded."""
    from workbench.ops.sparse.tensor import SparseTensor

    return SparseTensor(entries, layout)


def make_layout(pattern: SparsityPattern, format: str) -> Pattern:
    """Return the class and index arrays of SciPy's array of a pattern."""
    import scipy.sparse

    if format == "csc":
        index: tuple[Any, ...] = pattern.csc[1], pattern.csc[0]
    elif format == "coo":
        index = pattern.rows, pattern.columns
    else:
        index = pattern.indices, pattern.indptr
    kind = getattr(scipy.sparse, f"{format}_array")
    return Pattern(kind, format, pattern.shape, index, (pattern.nnz,))


# A pattern that is too small


def check_entries(
    linear: LinearMap, pattern: SparsityPattern, values: Any, name: str
) -> bool:
    """Raise if a derivative has an entry outside of a pattern.

    Its product with a random vector is compared with that of the entries that were
    read: where they differ, one row of the matrix is computed.

    Returns
    -------
    Whether the values tell: not where they are NaN or infinite, nor where all are zero.

    Raises
    ------
    GradientError
        Naming the entry.
    """
    from scipy.sparse import csr_array

    height, width = pattern.shape
    if not height or not width:
        return True
    values = to_host(values)
    draws = np.random.default_rng(0)
    vector = draws.uniform(1, 2, width) * draws.choice([-1, 1], width)
    matrix = csr_array((values, pattern.indices, pattern.indptr), pattern.shape)
    try:
        exact = linear.multiply("forward", vector[None])[0]
    except NO_RULE:
        vector = draws.uniform(1, 2, height) * draws.choice([-1, 1], height)
        exact = linear.multiply("reverse", vector[None])[0]
        matrix = matrix.T.tocsr()
    exact = to_host(exact)
    with np.errstate(all="ignore"):
        size = abs(matrix) @ abs(vector) + abs(exact)
        rounding = TOLERANCE * np.finfo(exact.dtype).eps
        wrong = abs(matrix @ vector - exact) > rounding * size
    is_finite = np.isfinite(size)
    wrong &= is_finite
    if not wrong.any():
        return bool(is_finite.all() and size.any())
    if linear.rules:
        source = "of the program"
        cure = (
            "The rule of an override moves entries to where the program has none, or"
            " is not linear, so that products do not tell them: leave sparse= out."
        )
    else:
        source = "that was given"
        cure = "Add it to the pattern, or let Workbench find the pattern: sparse=True."
    place = _find_outside(linear, pattern, np.flatnonzero(wrong), len(exact) == height)
    where = "an entry" if place is None else f"the entry {place[:2]}, which is"
    size_text = " somewhere" if place is None else f" {place[2]:.4g}"
    raise GradientError(
        f"{name}: the pattern {source} is too small: the {name} has"
        f" {where}{size_text}, outside of it, and other entries came out wrong."
        f" {'' if place is None else _name_ends(linear, place)}{cure}"
    )


def _find_outside(
    linear: LinearMap, pattern: SparsityPattern, wrong: Any, by_rows: bool
) -> tuple[int, int, complex] | None:
    """Return an entry outside of the pattern, and its value; None: not found."""
    if not by_rows:
        pattern = pattern.T
    for line in wrong[:MOST_ROWS].tolist():
        unit = np.zeros((1, pattern.shape[0]))  # host array: a seed
        unit[0, line] = 1
        mode: Mode = "reverse" if by_rows else "forward"
        try:
            entries = to_host(linear.multiply(mode, unit))[0].copy()
        except NO_RULE:
            return None
        first, last = pattern.indptr[line : line + 2]
        entries[pattern.indices[first:last]] = 0
        if entries.any():
            other = int(abs(entries).argmax())
            value = entries[other].item()
            return (line, other, value) if by_rows else (other, line, value)
    return None


def _name_ends(linear: LinearMap, place: tuple[int, int, complex]) -> str:
    """Return which entry of which output depends on which entry of which argument."""
    y, output = _locate(linear.outputs, linear.row_starts, place[0])
    x, argument = _locate(linear.wrt, linear.column_starts, place[1])
    return (
        f"It is entry {output} of {_name(y, 'the output')} by entry {argument} of"
        f" {_name(x, 'the argument')}. "
    )


def _locate(parts: Sequence[Any], starts: Sequence[int], flat: int) -> tuple[Any, str]:
    place = int(np.searchsorted(starts, flat, side="right")) - 1
    shape = shape_of(parts[place])
    index = np.unravel_index(flat - starts[place], shape)
    return parts[place], str(tuple(int(i) for i in index))


def _name(x: Any, otherwise: str) -> str:
    name = x.name if isinstance(x, Tensor) else None
    return name or otherwise


# Of expressions


def make_expression(
    linear: LinearMap, settings: Settings, cost: Any = None
) -> Any | None:
    """Return the sparse matrix of an expression; None where a dense one is better.

    ``cost`` is the number of which it is the Hessian.
    """
    shape = linear.row_starts[-1], linear.column_starts[-1]
    if not all(isinstance(n, int) for n in shape):
        raise ShapeError(
            f"{settings.name}: a sparse matrix of an expression needs known lengths,"
            f" and this one is of shape {shape}. Give them where the symbols are made:"
            " wb.vector('x', shape=3)."
        )
    if isinstance(settings.sparse, SparsityPattern):
        pattern = settings.sparse
        check_shape(pattern, shape, settings.name)
    else:
        pattern = find_pattern(linear, cost, linear.wrt)
    entries = try_accumulation(linear, pattern, settings)
    chosen = choose_colouring(linear, pattern, settings, entries is not None)
    if settings.sparse == "auto":
        if judge(pattern, chosen() if entries is None else None)[0]:
            return None
    if entries is None:
        order = order_entries(pattern, settings.format)
        entries = compress(linear, chosen(), order)
    return make_tensor(entries, make_layout(pattern, settings.format))
