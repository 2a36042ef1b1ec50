"""Sparse Jacobians and Hessians: prepared once, then called with numbers.

What is prepared for the shapes of the arguments: the pattern, and one program from the
arguments to all entries, which the compiled backend runs like any other. It computes
entry by entry where it can (`accumulation.py`); elsewhere it makes a few products with
the seeds of a colouring and reads the entries out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property, partial, update_wrapper
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from workbench.autodiff.grad import (
    Argnames,
    Argnums,
    RecordedCall,
    is_number_of_any_value,
)
from workbench.autodiff.linear_map import NO_RULE, LinearMap, Mode
from workbench.autodiff.sparse import choice
from workbench.autodiff.sparse.accumulation import accumulate
from workbench.autodiff.sparse.colouring import Colouring
from workbench.autodiff.sparse.matrices import MatrixMaker, make_layout, make_tensor
from workbench.autodiff.sparse.pattern import SparsityPattern, describe_ops
from workbench.autodiff.sparse.probing import check_entries
from workbench.autodiff.sparse.sparsity import BY_VALUES, find_call_pattern
from workbench.core import hooks, tree
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import is_live
from workbench.core.types import is_device_array, is_weak, spec_of
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.ops.sparse.pattern import to_host

#: A derivative is kept prepared for so many sets of shapes.
MOST_PREPARED = 16

_NOTHING: tuple[list[Any], Any] = [], None


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
        settings: choice.Settings,
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
        #: The forms of the floats of the last call, and what it ran.
        self._recent: tuple[list[Any], Prepared | None] = _NOTHING

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: not what was prepared, which is made again."""
        fresh: dict[str, Any] = {"_prepared": {}, "_last": None, "_recent": _NOTHING}
        return {**self.__dict__, **fresh}

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
        if prepared.is_ready:
            entries = prepared.program(*args, **kwargs)
        elif prepared.dense is None:
            entries = self._compute(prepared, args, kwargs)
        elif out is None:
            return prepared.compute_dense(args, kwargs)
        else:
            raise UsageError(
                f"{self._settings.name}: out= is for a sparse matrix, and this one"
                f" is dense: {prepared.reason}"
            )
        if out is None:
            return prepared.maker.make(entries)
        return prepared.fill(out, entries)

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
        if prepared.is_ready:
            return prepared.program(*args, **kwargs)
        if prepared.dense is not None:
            raise UsageError(
                f"{self._settings.name}: entries() is for a sparse matrix, and this one"
                f" is dense: {prepared.reason} Write sparse=True."
            )
        return self._compute(prepared, args, kwargs)

    def assemble(self, entries: Any) -> Any:
        """Return the matrix of entries as `entries` gives them, for the last shapes.

        The matrix holds the entries themselves: pass a copy to change them later. The
        shapes are those of the last call, whichever thread made it.

        Raises
        ------
        ShapeError
            If there are not as many entries as in the pattern.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
        >>> made = J.entries(np.array([1.0, 2.0, 3.0]))
        >>> J.assemble(2 * made).toarray()
        array([[4., 2., 0.],
               [0., 6., 4.]])
        """
        maker = self._read_prepared().maker
        if not hasattr(entries, "shape"):
            entries = np.asarray(entries)  # host array: of a list
        if entries.shape != maker.layout.data_shape:
            raise ShapeError(
                f"{self._settings.name}: entries of shape {entries.shape}, and"
                f" {maker.layout} takes {maker.layout.data_shape}. Give what"
                " entries() has returned."
            )
        return maker.make(entries)

    def _compute(
        self, prepared: Prepared, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the entries at these arguments, checked at the first."""
        if not prepared.is_checked and self._settings.check:
            self._check_pattern(prepared, args, kwargs)
        return prepared.compute(args, kwargs)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise if the matrix has an entry outside of its pattern at these arguments.

        One product with random numbers tells. A call makes the same probe of a pattern
        that was given, or that an op of yours says, once: at the first arguments at
        which the numbers tell. An entry that is zero there is not found; look again
        elsewhere with this.

        Raises
        ------
        GradientError
            Naming an entry that is outside.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> J = wb.jacobian(lambda x: x * x[::-1] * (x > 0), sparse=np.eye(2))
        >>> J(np.array([-1.0, -2.0])).toarray()
        array([[0., 0.],
               [0., 0.]])
        >>> J.check(np.array([1.0, 2.0]))
        Traceback (most recent call last):
        ...
        workbench.errors.GradientError: ...
        """
        prepared = self._find_prepared(args, kwargs)
        if prepared.dense is None:
            self._check_pattern(prepared, args, kwargs)

    def _find_prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        if not kwargs:
            forms: list[Any] = []
            for x in args:
                kind = type(x)
                forms += (x.dtype, x.shape) if kind is np.ndarray else (kind,)
            known, recent = self._recent
            if recent is not None and forms == known:
                return recent
        leaves, structure = tree.flatten_call(args, kwargs)
        if any(map(is_changeable, leaves)):
            self._last = self._prepare(args, kwargs).run_each_time()
            self._recent = _NOTHING
            return self._last
        key = structure, *map(_describe_leaf, leaves)
        found = self._prepared.get(key)
        if found is None:
            found = self._prepare(args, kwargs)
            if any(map(is_device_array, tree.flatten((args, kwargs))[0])):
                # Seeds and places are constants on its device: recorded with values.
                found.record_each_time()
            while len(self._prepared) >= MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared)), None)
            self._prepared[key] = found
            if self._settings.explain:
                print(found.explain())
        self._last = found
        self._recent = _NOTHING
        if not kwargs and all(map(_is_float, args)):  # whose values do not matter
            self._recent = forms, found
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
        """True if the matrix is sparse for the last shapes, as ``"auto"`` chose."""
        return self._read_prepared().dense is None

    @property
    def backend(self) -> str:
        """The backend for the last shapes: ``numpy``, ``compiled`` or ``cupy``."""
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
            choice.check_shape(pattern, shape, settings.name)
        else:
            pattern = self._find_pattern(args, kwargs)
        accumulated = choice.try_accumulation(linear, pattern, settings)
        chosen = choice.choose_colouring(
            linear, pattern, settings, accumulated is not None
        )
        reason = ""
        is_dense = False
        if settings.sparse == "auto":
            colouring = None if accumulated is not None else chosen()
            is_dense, reason = choice.judge(linear, pattern, colouring)
        if linear.dtype == np.float16 and not is_dense:
            cause = "SciPy has no sparse matrices of float16."
            if settings.sparse != "auto":
                raise DtypeError(
                    f"{settings.name}: {cause} Leave sparse= out, or give arguments of"
                    " float32: x.astype(np.float32)."
                )
            is_dense, reason = True, cause

        def entries(format: str, *args: Any, **kwargs: Any) -> Any:
            linear = self._record(args, kwargs)
            if accumulated is not None:
                made = accumulate(linear, pattern, format)
                if made is not None:
                    return made
                # An index that was known by its values is computed in the program.
                prepared.is_accumulated = False
            return compress(linear, chosen(), order_entries(pattern, format))

        prepared = Prepared(
            pattern, chosen, settings, entries, self._dense if is_dense else None,
            reason, given,
            bool(linear.rules) or any(op.is_given for op in pattern.dense_ops),
            accumulated is not None, (args, kwargs),
        )  # fmt: skip
        return prepared

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
    is_ready
        The program has run, and a call has nothing else to do.
    """

    def __init__(
        self,
        pattern: SparsityPattern,
        colour: Callable[[], Colouring],
        settings: choice.Settings,
        entries: Callable[..., Any],
        dense: Callable[..., Any] | None,
        reason: str,
        is_given: bool,
        is_overridden: bool,
        is_accumulated: bool,
        example: tuple[Any, Any],
    ) -> None:
        self.pattern = pattern
        self._colour = colour
        self.settings = settings
        self.entries = entries
        leaves, self._structure = tree.flatten(example)
        #: Integers and booleans among the arguments: their values belong to the key of
        #: what is prepared, so they are constants of its programs, which read entries
        #: by them. Copies, since the caller may change them.
        self._fixed = {i: x.copy() for i, x in enumerate(leaves) if is_fixed(x)}
        self.program = hooks.compile(
            self._fix(partial(entries, settings.format)), settings.backend
        )
        self.is_accumulated = is_accumulated
        self.dense = dense
        self.reason = reason
        self._dense_program: Any = None
        if dense is not None and not is_overridden and BY_VALUES not in pattern.notes:
            self._dense_program = hooks.compile(self._fix(dense), settings.backend)
        self._is_given = is_given
        self._needs_values = self.is_ready = False
        #: A found pattern is that of the program, whose entries an override can move.
        self.is_checked = not is_given and not is_overridden

    @property
    def colouring(self) -> Colouring:
        """The products that hold all entries, and the place of each entry in them."""
        return self._colour()

    def _fix(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the leaves of the arguments that are not fixed."""
        if not self._fixed:
            return f

        def run(*rest: Any) -> Any:
            left = iter(rest)
            count = len(rest) + len(self._fixed)
            leaves = [
                self._fixed[i] if i in self._fixed else next(left) for i in range(count)
            ]
            args, kwargs = self._structure(leaves)
            return f(*args, **kwargs)

        return run

    def _run(self, program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a program made by `_fix`."""
        if not self._fixed:
            return program(*args, **kwargs)
        leaves = tree.flatten((args, kwargs))[0]
        return program(*[x for i, x in enumerate(leaves) if i not in self._fixed])

    def record_each_time(self) -> None:
        """Record the function in each call, on the values of the arguments."""
        self._needs_values = True

    def run_each_time(self) -> Prepared:
        """Record the function in each call, and keep no program."""
        self._needs_values = True
        changeable = (
            "An argument is an object that may change, so pattern and program are found"
            " anew in each call. Give arrays, numbers, strings, functions or frozen"
            " dataclasses to prepare once."
        )
        self.reason = f"{self.reason}\n{changeable}".strip()
        return self

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the entries at these arguments."""
        if not self._needs_values:
            try:
                made = self._run(self.program, args, kwargs)
            except TraceError:
                if not self._is_given:
                    raise
                self._needs_values = True
            else:
                is_trusted = self.is_checked or not self.settings.check
                self.is_ready = is_trusted and not self._fixed
                return made
        made = self.entries(self.settings.format, *args, **kwargs)
        return made if is_live(made) else value_of(made)

    def compute_dense(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the dense matrix, by a program recorded once where possible."""
        assert self.dense is not None
        if self._dense_program is None or self._needs_values:
            return self.dense(*args, **kwargs)
        try:
            return self._run(self._dense_program, args, kwargs)
        except TraceError:  # it looks at values
            self._dense_program = None
            return self.dense(*args, **kwargs)

    @cached_property
    def maker(self) -> MatrixMaker:
        """The maker of matrices around entries."""
        return MatrixMaker(self.pattern, self.settings.format, self.settings.name)

    def fill(self, out: Any, entries: Any) -> Any:
        """Write entries into a matrix returned before, and return the matrix."""
        if isinstance(entries, Tensor):
            raise UsageError(
                f"{self.settings.name}: out= is given inside of a derivative, where"
                " entries are no plain numbers. Leave it out there."
            )
        self.maker.check(out, entries.dtype)
        np.copyto(out.data, entries)
        return out

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
        return "\n".join([*lines, *describe_ops(self.pattern.dense_ops)])

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


_WORDS = {
    "columns": "columns coloured", "rows": "rows coloured",
    "both": "rows and columns coloured", "star": "star colouring",
}  # fmt: skip


def _is_float(x: Any) -> bool:
    """Return whether an argument is of floats or complex numbers."""
    if type(x) is np.ndarray:
        return x.dtype.kind in "fc"
    return isinstance(x, (float, complex, np.inexact))


def _describe_leaf(x: Any) -> Any:
    """Return a key of an argument by its shape and dtype.

    Integers and booleans choose entries, so their values belong to the key.
    """
    if is_weak(x) and isinstance(x, (float, complex)):
        return type(x)
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        spec = spec_of(x)
        if isinstance(x, Tensor) or is_number_of_any_value(x):
            return spec.shape, spec.dtype, is_device_array(x)
        return spec.shape, spec.dtype, to_host(x).tobytes() if np.ndim(x) else x.item()
    return type(x), x


def is_fixed(x: Any) -> bool:
    """Return whether an argument is an array of integers or booleans."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biu"


#: Objects that are told by what they are, though they have no value to compare.
FIXED = (
    type(None), type, FunctionType, BuiltinFunctionType, MethodType, ModuleType,
    np.ufunc, np.dtype, Enum,
)  # fmt: skip


def is_changeable(x: Any) -> bool:
    """Return whether an argument may change and still be equal to itself.

    So it is with objects that are equal to themselves alone, or have no hash.
    """
    if x is None or is_weak(x) or hasattr(x, "dtype") or isinstance(x, FIXED):
        return isinstance(x, MethodType) and is_changeable(x.__self__)
    if isinstance(x, (tuple, frozenset)):
        return any(map(is_changeable, x))
    own: Any = type(x).__hash__
    return own is None or own is object.__hash__


# The steps of a sparse derivative


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
        if colouring.mode == "star":  # the transpose is the matrix
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


# Of expressions


def make_expression(
    linear: LinearMap, cost: Any = None, *, settings: choice.Settings
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
        choice.check_shape(pattern, shape, settings.name)
    else:
        pattern = choice.find_pattern(linear, cost, linear.wrt)
    entries = choice.try_accumulation(linear, pattern, settings)
    chosen = choice.choose_colouring(linear, pattern, settings, entries is not None)
    if settings.sparse == "auto":
        colouring = chosen() if entries is None else None
        if choice.judge(linear, pattern, colouring)[0]:
            return None
    if entries is None:
        order = order_entries(pattern, settings.format)
        entries = compress(linear, chosen(), order)
    return make_tensor(entries, make_layout(pattern, settings.format))
