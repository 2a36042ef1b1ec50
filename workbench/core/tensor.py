"""`Tensor`: one value in a program, and how applying an op makes another.

Tracing is the hot path of the library: a forward op costs less than a
microsecond above NumPy's own call. Hence the `__slots__`, a serial number in
place of any ordering, and the frame kept as (code object, offset). NumPy's two
protocols are answered here; array methods (`x.sum()`) and
Python's own stand in `methods.py`, and what a result looks like is found in `infer.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import count
from numbers import Complex, Real
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from workbench.core import (
    blame,
    deferred,
    dims,
    hooks,
    residuals,
    sites,
    source,
    traces,
    types,
)
from workbench.core.deferred import LengthParams, measure_lengths
from workbench.core.infer import infer_spec
from workbench.core.methods import ArrayMethods, Conversions, refuse_assignment
from workbench.core.op import (
    ATTRIBUTES,
    FUNCTIONS,
    MAKERS,
    OPERANDS,
    UFUNCS,
    Op,
    declare,
    has_out,
    load_ops,
)
from workbench.core.refusals import name_of, unsupported_error
from workbench.core.types import Array, Spec
from workbench.errors import TraceError

next_serial = count(1).__next__
_frame = sys._getframe
_new = object.__new__
_context = source.CONTEXT.get
NOTED = source.NOTED
NO_PARAMS: dict[str, Any] = {}
LARGE, LEAN = residuals.LARGE, residuals.LEAN
IDENTITY = declare("identity")
MASK = declare("mask")


#: Slots of a Tensor that are None until set.
UNSET = frozenset(("origin", "notes", "readers", "views", "naming", "memory"))
#: The classes of Tensors, for `apply`, which looks at exact classes.
TENSORS: set[type] = set()
LISTS: set[type] = {list, tuple}
CHANGED = traces.CHANGED
#: What NumPy has of its own, or is not there.
ON_HOST = (np.ndarray, np.generic, *types.WEAK_TYPES, type(None))
#: Those of masked ones, stale ones too.
MASKED: set[type] = set()
#: Classes that answer operators and ufuncs in the place of Tensors.
ANSWERING: set[type] = set()
#: Classes of many examples of a value, which run ops themselves (`autodiff/batch.py`).
BATCHES: set[Any] = set()


class Tensor(ArrayMethods, Conversions):
    """One value in a program.

    Made by tracing, never by hand: :func:`workbench.grad` and friends, a
    ``%%autodiff`` cell, :func:`workbench.trace`. NumPy's functions and Python's
    operators on Tensors make further Tensors. A Tensor hashes by identity while
    ``==`` is elementwise, as for arrays, so Tensors are safe as keys of a dict.

    Attributes
    ----------
    op
        What made it; ``op.name`` is ``"identity"`` for an input.
    inputs
        The Tensors and constants it was made from, in order: the `operands` of the op,
        then Tensors of which only the length is read.
    params
        The op's settings (``axis``, ``keepdims``, ...). A length that is known only
        when the program runs is named by its place among the inputs; `settings` has
        the length itself.
    name
        The user's name for it, or None.
    origin
        For a Tensor of a gradient graph: the forward Tensor it belongs to, and
        the rule that made it. None in a forward graph.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y = wb.trace(np.tanh)(np.zeros(3)).outputs[0]
    >>> y.op.name, y.shape, y.dtype, y.value
    ('tanh', (3,), dtype('float64'), array([0., 0., 0.]))
    """

    __slots__ = (
        "__weakref__",
        "_value",
        "args",
        "code",
        "compiled",
        "context",
        "inputs",
        "lasti",
        "memory",
        "name",
        "naming",
        "notes",
        "op",
        "origin",
        "params",
        "readers",
        "serial",
        "spec",
        "views",
    )

    def __init__(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        args: tuple[Any, ...],
        params: dict[str, Any],
        value: object,
        code: CodeType | None = None,
        lasti: int = -1,
        context: source.Context | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.args = args
        self.params = params
        self._value = value
        self.serial = next_serial()
        self.code = code
        self.lasti = lasti
        self.context = context

    spec: Spec
    name: str | None
    #: Of an argument or a derivative: names, made when one is read, and its key there.
    naming: tuple[Any, Any] | None
    origin: Any
    #: Lengths that its op needs to be equal, where that is not known.
    #: What `eval` runs, once it has been asked.
    compiled: Any
    #: What old programs write on a variable (`compat.theano.types`).
    notes: Any
    #: Weak references to the nodes made from it, of one that may be let go.
    readers: Any
    #: Weak references to the views of it that a program has made (`memory.py`).
    views: Any
    #: What it shares its memory with, once that was written to (`memory.py`).
    memory: Any

    def __init_subclass__(cls) -> None:
        TENSORS.add(cls)
        refuse_assignment(cls)

    def __getattr__(self, attribute: str) -> Any:
        # An unset slot costs nothing when a Tensor is made.
        if attribute in UNSET:
            return None
        if attribute == "name":
            if self.naming is None:
                return None
            names, place = self.naming
            self.name = names[place]
            return self.name
        return super().__getattr__(attribute)

    # What it is

    @property
    def value(self) -> Any:
        """The array behind the Tensor, read-only; None for a Tensor without a value.

        Reading it inside a trace cuts the gradient on purpose.
        """
        value = self._value
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, a tuple of integers; a `Dim` stands for an unknown length."""
        value = self._value
        if value is None:
            return self.spec.shape
        return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype; that of ``np.asarray`` for a Python number."""
        value = self._value
        if value is None:
            return self.spec.dtype
        found = getattr(value, "dtype", None)
        made: np.dtype[Any] = (
            types.spec_of(value).dtype if found is None else np.dtype(found)
        )
        return made

    @property
    def operands(self) -> tuple[Any, ...]:
        """The inputs that the op takes, without those that only have a length."""
        params = self.params
        if type(params) is LengthParams:
            return self.inputs[: params.count]
        return self.inputs

    @property
    def settings(self) -> dict[str, Any]:
        """The op's settings, with a `Dim` or a number for each length of an input."""
        return measure_lengths(self.inputs, self.params)[1]

    @property
    def scope(self) -> str | None:
        """The scope of the Tensor's origin, like ``"encoder/layer1"``, or None."""
        return self.context.scope if self.context is not None else None

    @property
    def site(self) -> sites.Site | None:
        """The user's line that made the Tensor, or None."""
        return sites.decode(*sites.instruction_of(self))

    # What NumPy asks

    __array_priority__ = 1000
    #: Above that of its tables, so that pandas gives us the operator.
    __pandas_priority__ = 5000

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Any:
        # Integers and booleans have no gradient to lose: they index plain arrays.
        varies = types.is_differentiable(self.dtype) and traces.is_active(self)
        if self._value is None or varies:
            if str(_frame(1).f_globals.get("__name__")).startswith("numpy.ma."):
                raise blame.masked_array_error(self)
            if dtype is not None and np.dtype(dtype) != object:
                raise blame.lost_gradient_error(
                    self, f"np.asarray(..., dtype={np.dtype(dtype)})"
                )
            # NumPy then builds an object array of Tensors, which the first op that
            # meets it gathers into one: no gradient is lost. The answer looks at the
            # frame of its caller.
            return ATTRIBUTES[np.ndarray.__array__](self, copy)
        value = np.asarray(self._value, dtype=dtype)
        return value.copy() if copy or value is self._value else value

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        op = UFUNCS.get(ufunc)
        if op is not None and method == "__call__" and not kwargs:
            if len(inputs) == 1 and type(self) is Tensor:
                x = self._value
                if type(x) is np.ndarray or isinstance(x, np.generic):
                    node = _new(Tensor)  # as __init__, without the call
                    node.op = op
                    node.inputs = inputs
                    node.args = (x,)
                    node.params = NO_PARAMS
                    node._value = op.compute(x)
                    node.serial = next_serial()
                    frame = _frame(1)
                    node.code = code = frame.f_code
                    node.lasti = frame.f_lasti
                    if code is not NOTED[0]:
                        node.code, node.lasti = source.place_of(frame)
                    node.context = context = _context()
                    if context and context.block and context.block.moves:
                        node.context = source.prune_scopes(context)
                    return node
            if all(types.is_weak(value_of(x)) for x in inputs):
                # NumPy gives a float64 scalar here, where an operator would
                # keep a Python number.
                inputs = (apply(declare("strong"), (inputs[0],)), *inputs[1:])
            if not ANSWERING.isdisjoint(map(type, inputs)):
                return NotImplemented
            return apply(op, inputs)
        answer = FUNCTIONS.get((ufunc, method)) or ATTRIBUTES[np.ufunc.__call__]
        try:
            with source.pin_line():
                return answer(ufunc, method, inputs, kwargs)
        except blame.PLAIN as error:
            if deferred.can_defer(error, ufunc, inputs, kwargs):
                function = ufunc if method == "__call__" else getattr(ufunc, method)
                return deferred.defer_call(error, function, inputs, kwargs)
            part = "" if method == "__call__" else f".{method}"
            located = blame.locate_user_error(
                error, f"{name_of(ufunc)}{part}", inputs, kwargs
            )
            if located is error:
                raise
            raise located from error

    def __array_function__(
        self,
        function: Callable[..., Any],
        kinds: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        answer = FUNCTIONS.get(function)
        if answer is None and load_ops(function):
            answer = FUNCTIONS.get(function)
        if answer is None:
            raise unsupported_error(function)
        if function in MAKERS:
            kwargs = {**kwargs, "like": self}
        if (kwargs or len(args) > 2) and has_out(function, args, kwargs):
            answer = _answer_out(function)
        try:
            with source.pin_line():
                return answer(*args, **kwargs)
        except blame.PLAIN as error:
            if deferred.can_defer(error, function, args, kwargs):
                return deferred.defer_call(error, function, args, kwargs)
            placed = blame.locate_user_error(error, name_of(function), args, kwargs)
            if placed is error:
                raise
            raise placed from error

    def __hash__(self) -> int:
        return id(self) >> 4


def _answer_out(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: hooks.write_out.call(function, args, kwargs)


TENSORS.add(Tensor)
refuse_assignment(Tensor)


class MaskedTensor(Tensor):
    """A cotangent that has left a `where` or a mask: 0 wins over infinity.

    The branch not taken sends back zeros; ``0 * inf`` on its way must not become
    NaN. All that is computed from a masked Tensor is masked, and its products
    and quotients are `mul0`, `div0` and their like (`Op.masked`). Code without
    `where` never meets one.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        MASKED.add(cls)


MASKED.add(MaskedTensor)


class LeanTensor(Tensor):
    """A Tensor of a large value, or made from one: see `residuals.py`.

    Its ``stored`` value is released when the Tensor has no holder and no rule reads it.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        LEAN.add(cls)

    #: What is there: the value, or what is known of one that was let go.
    stored: Any = vars(Tensor)["_value"]
    _value = property(residuals.read_value, stored.__set__)
    #: Not held a second time, beside the inputs.
    args = property(residuals.read_operands, lambda self, given: None)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, a tuple of integers."""
        return self.stored.shape if hasattr(self.stored, "shape") else super().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.stored.dtype if hasattr(self.stored, "dtype") else super().dtype


LEAN.add(LeanTensor)
_forget_args: Any = vars(Tensor)["args"].__set__


def make_lean(node: Tensor) -> None:
    """Make a node with a large value lean, and register the node with its operands.

    ``node`` is of the plain class, and newly made.
    """
    if not residuals.is_watched():
        return
    _forget_args(node, ())
    node.__class__ = LeanTensor
    node.readers = []
    residuals.note_readers(node)
    if node.op is not IDENTITY and residuals.can_be_released(node.stored):
        pending = residuals.find_pending()
        if pending is not None:
            pending.append(ref(node))


def mask_cotangent(x: Any) -> MaskedTensor:
    """Flag a cotangent that leaves a `where` or a mask (see `MaskedTensor`)."""
    if type(x) in BATCHES:
        flagged: MaskedTensor = x.mask()
        return flagged
    value = x._value if isinstance(x, Tensor) else x
    made = MaskedTensor(MASK, (x,), (value,), {}, value)
    if value is None:
        made.spec = x.spec
    return made


def make_leaf(
    value: object,
    name: str | None = None,
    inputs: tuple[Any, ...] = (),
    line: tuple[Any, int] | None = None,
) -> Tensor:
    """Return a fresh input that holds ``value``, or wraps the Tensor in ``inputs``.

    ``line`` is the user's, as `source.caller` gives it.
    """
    code, lasti = line or source.caller()
    args = (value,) if inputs else ()
    made = Tensor(IDENTITY, inputs, args, NO_PARAMS, value, code, lasti)
    if name is not None:
        made.name = name
    return made


_own_name: Any = vars(Tensor)["name"].__get__


def take_name(target: Tensor, x: Tensor) -> None:
    """Give a Tensor the name of another; one that nobody has read waits on."""
    try:
        target.name = _own_name(x)
    except AttributeError:
        if x.naming is not None:
            target.naming = x.naming


def value_of(x: object) -> Any:
    """Return the array behind a Tensor; else the object unchanged."""
    return x._value if isinstance(x, Tensor) else x


def array_of(x: object) -> Any:
    """Return the array behind a Tensor, or the Tensor itself without a value."""
    value = getattr(x, "_value", x)
    return x if value is None else value


def apply(op: Op, inputs: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Apply an op: an array if no input is a Tensor, else the Tensor of its result.

    Raises
    ------
    ShapeError, DtypeError
        Where NumPy refuses the operands; with the op, shapes and user's line.
    """
    kind, is_lean = Tensor, False
    x = inputs[0] if len(inputs) == 1 else None
    if type(x) is Tensor and x._value is not None:
        # One operand with a value: nearly all of reductions, shapes and slices.
        args: tuple[Any, ...] = (x._value,)
        context = _context()
        if context is None:
            code, lasti = source.caller(2)
        else:
            code, lasti, context = _place_in(context)
    else:
        kinds = {type(x) for x in inputs}
        if not CHANGED.isdisjoint(kinds):
            latest = [x.memory.read() if type(x) in CHANGED else x for x in inputs]
            return apply(op, tuple(latest), params)
        if TENSORS.isdisjoint(kinds):
            return _apply_to_arrays(op, inputs, params)
        is_lean = not LEAN.isdisjoint(kinds)
        if is_lean and (pending := residuals.find_pending()) is not None:
            residuals.release_values(pending)  # before the result takes memory
        given = inputs
        inputs = tuple([x if isinstance(x, Tensor) else admit(x) for x in inputs])
        if not LISTS.isdisjoint(kinds):
            inputs = _move_lists(given, inputs)
        args = tuple([x._value if isinstance(x, Tensor) else x for x in inputs])
        if not MASKED.isdisjoint(kinds):
            kind, op = MaskedTensor, op.masked or op
        context = _context()
        if context is None:
            code, lasti = source.caller(2)
        else:
            code, lasti, context = _place_in(context)
        if any(isinstance(x, Tensor) and x._value is None for x in inputs):
            place = code, lasti, context
            return _apply_to_unknown(kind, op, inputs, args, params, place)
    try:
        value = op.compute(*args, **params)
    except Exception as error:
        if params and dims.has_dim(params):
            return _apply_later(kind, op, inputs, params, (code, lasti, context))
        refusal = blame.explain_refusal(op, args, error, code, lasti)
        if refusal is error:
            raise
        raise refusal from error
    node = kind(op, inputs, args, params, value, code, lasti, context)
    if op.view is not None:
        note_view(inputs[0], node)
    if is_lean or (type(value) is np.ndarray and value.nbytes >= LARGE):
        if kind is Tensor:
            make_lean(node)
    return node


def _place_in(
    context: source.Context,
) -> tuple[CodeType, int, source.Context | None]:
    """Return the user's line in a context, and the context, for `apply` to note.

    Scopes that have ended are left out.
    """
    noted: source.Context | None = context
    if context.block and context.block.moves:
        noted = source.prune_scopes(context)
    if noted is not None and noted.code is not None:
        return noted.code, noted.lasti, noted
    return *source.caller(3), noted


def _apply_to_arrays(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply an op to plain operands; arrays of objects may hold Tensors."""
    if any(type(x) is np.ndarray and x.dtype == object for x in inputs):
        gathered = tuple(map(admit, inputs))
        if any(isinstance(x, Tensor) for x in gathered):
            return apply(op, gathered, params)
    try:
        return op.compute(*inputs, **params)
    except Exception:
        if not (params and dims.has_dim(params)):
            raise
    inputs = tuple(map(admit, inputs))
    place = *source.caller(3), source.current_context()
    return _apply_later(Tensor, op, inputs, params, place)


def _apply_to_unknown(
    kind: type[Tensor],
    op: Op,
    inputs: tuple[Any, ...],
    args: tuple[Any, ...],
    params: dict[str, Any],
    place: tuple[CodeType, int, source.Context | None],
) -> Any:
    """Apply an op where a Tensor has no value: of the result the spec is known."""
    if params and dims.has_dim(params):
        return _apply_later(kind, op, inputs, params, place)
    if not BATCHES.isdisjoint(map(type, inputs)):
        batch = next(x for x in inputs if type(x) in BATCHES)
        return batch.run(op, inputs, params)
    node = kind(op, inputs, args, params, None, *place)
    spec = infer_spec(op, inputs, params)
    if type(spec) is tuple or None in spec.shape:
        spec = deferred.fill_own_lengths(node, spec)
    node.spec = spec
    if op.view is not None:
        note_view(inputs[0], node)
    return node


def _apply_later(
    kind: type[Tensor],
    op: Op,
    inputs: tuple[Any, ...],
    params: dict[str, Any],
    place: tuple[CodeType, int, source.Context | None],
) -> Any:
    """Apply an op with settings that hold unknown lengths."""
    if type(params) is LengthParams:  # those of a node: its lengths may be known here
        return apply(op, *measure_lengths(inputs, params))
    spec = infer_spec(op, inputs, params)
    return deferred.defer_op(op, inputs, params, spec, kind, *place)


#: How many views a Tensor notes before it looks which of them are still there.
MANY_VIEWS = 64


def note_view(x: object, view: Tensor) -> None:
    """Note a view of a Tensor, for later writes in place to either of the two."""
    if traces.OPEN and isinstance(x, Tensor):
        views = x.views
        if views is None:
            x.views = [ref(view)]
            return
        n = len(views)
        if n >= MANY_VIEWS and not n & (n - 1):
            views[:] = [other for other in views if other() is not None]
        views.append(ref(view))


def _move_lists(given: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Move former lists to the library of the other operands, like CuPy."""
    values = map(value_of, inputs)
    like = next((v for v in values if not isinstance(v, ON_HOST)), None)
    if like is None:
        return inputs
    return tuple(
        np.asarray(x, like=like)
        if isinstance(g, (list, tuple)) and type(x) is np.ndarray
        else x
        for g, x in zip(given, inputs, strict=True)
    )


def is_labelled(x: Any) -> bool:
    """Return whether ``x`` wraps an array, as a table of pandas or a DataArray does.

    It gives an array where NumPy asks for one, and has no part in NumPy's functions
    or in the standard for arrays, as arrays of other libraries have.
    """
    kind = type(x)
    return (
        hasattr(kind, "__array__")
        and not issubclass(kind, (np.ndarray, np.generic, Tensor))
        and not hasattr(kind, "__array_function__")
        and not hasattr(kind, "__array_namespace__")
        and not hasattr(kind, "__cuda_array_interface__")
    )


def read_argument(value: Any) -> Any:
    """Return an argument in a form that ops can compute with.

    A table is taken as the array that it wraps. An array in a file, such as h5py's and
    zarr's, is read: once, and not by each op that meets it. Anything else is returned
    as it is.

    Raises
    ------
    TraceError
        For an array of Dask's.
    """
    if types.is_lazy(value):
        raise blame.lazy_error(value)
    return _unwrap(value) if is_labelled(value) else value


def _unwrap(x: Any) -> Any:
    """Return the array of an array-like object, or the Tensor inside.

    NumPy takes no Tensor from ``__array__``.
    """
    try:
        return np.asarray(x)
    except ValueError:
        array = x.__array__()
        if isinstance(array, Tensor):
            return array
        raise


def gather_result(x: Any) -> Any:
    """Return one Tensor for a result that holds Tensors; else the result unchanged.

    That is an array of objects, or what another library has wrapped around one.
    """
    if isinstance(x, np.ndarray):
        if type(x) in types.CONSTANTS:
            return types.CONSTANTS[type(x)](x)
        return admit(x) if x.dtype == object else x
    if type(x) in ANSWERING:
        return np.asarray(x)  # which it refuses: it is no array yet
    if is_labelled(x):
        try:
            array = _unwrap(x)
        except Exception:  # it is no array after all, and no result of a function
            return x
        if isinstance(array, Tensor):
            return array
        if _holds_tensors(array):
            return admit(array)
    return x


def gather_argument(x: Any) -> Any:
    """Return one Tensor for an argument that holds Tensors; else the argument."""
    if isinstance(x, np.ndarray) and not _holds_tensors(x):
        return x
    return gather_result(x)


def _holds_tensors(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype == object and any(isinstance(x, Tensor) for x in array.flat)


def admit(x: Any) -> Array:
    """Make a constant fit to stand beside Tensors: gather, convert, lock.

    A Python number stays one: `shape_of` and `dtype_of` take numbers too.
    """
    array: Array = x
    if type(x) is np.ndarray:
        if x.dtype == object:
            array = OPERANDS[np.ndarray](x)
            return array
        if x.dtype.kind == "m":
            raise blame.timedelta_error(x)
        traces.lock(x)
        return x
    if type(x) in CHANGED:
        array = x.memory.read()
        return array
    if isinstance(x, (*types.WEAK_TYPES, np.generic, Tensor, slice, Spec)):
        if type(x) is np.timedelta64:
            raise blame.timedelta_error(x)
        return array
    if isinstance(x, (list, tuple)):
        array = OPERANDS[list](x)
    elif isinstance(x, dims.Dim):
        array = OPERANDS[dims.Dim](x)
    elif isinstance(x, np.ndarray):
        array = admit(types.strip_subclass(x))
    elif types.is_lazy(x):
        raise blame.lazy_error(x)
    elif hasattr(x, "__array_namespace__") or hasattr(x, "__cuda_array_interface__"):
        return array
    elif hasattr(type(x), "tocsr"):
        raise TraceError(
            f"a sparse array meets a Tensor in a function of NumPy{blame.user_line()},"
            " which takes only dense arrays. Write the operator (S @ x, S * x, S + x),"
            " or S.toarray()."
        )
    elif isinstance(x, Complex):  # a fraction, or a number of mpmath
        number: Any = float(x) if isinstance(x, Real) else complex(x)
        array = number
    elif hasattr(x, "__array__"):
        array = admit(_unwrap(x))  # an array-like may hold Tensors
    return array
