"""NumPy's methods for Tensors, and protocols of Python and array libraries.

Nothing here computes: `x.sum(axis=0)` is `np.sum(x, axis=0)`, and goes through
the same op. Every elementwise function is a method too (`x.sin()`), because
NumPy calls those on the entries of an object array.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt

from workbench.core import blame, hooks, sites, traces, types
from workbench.core.op import ATTRIBUTES, FUNCTIONS, CopyParams, Op
from workbench.errors import DtypeError, TraceError

T = TypeVar("T")


class ArrayMethods:
    """The methods that `Tensor` shares with `numpy.ndarray` besides operators."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[Any, ...]: ...  # noqa: D102 stands in tensor.py
        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102 stands in tensor.py

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of entries."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one entry."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all entries."""
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        """The transpose: all axes reversed."""
        return np.transpose(self)

    @property
    def mT(self) -> Any:
        """The transpose of the last two axes."""
        return np.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        """The real part."""
        return np.real(self)

    @real.setter
    def real(self, values: Any) -> None:
        np.real(self)[...] = values

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)

    @imag.setter
    def imag(self, values: Any) -> None:
        np.imag(self)[...] = values

    @property
    def flat(self) -> Any:
        """The entries in C order, as a Tensor with one axis."""
        return ATTRIBUTES[np.ndarray.flat](self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[...] = np.resize(values, (cast(Any, self).size,))

    def reshape(
        self, *shape: Any, order: str | None = "C", copy: bool | None = None
    ) -> Any:
        """Return the entries in another shape, given as one tuple or as its lengths."""
        if len(shape) == 1:
            shape = shape[0]
        settings: Any = {"order": order, "copy": copy}
        return np.reshape(cast(Any, self), shape, **settings)

    def transpose(self, *axes: Any) -> Any:
        """Return a view with the axes in another order; reversed if none is given."""
        if len(axes) == 1:
            axes = axes[0]
        return np.transpose(self, axes or None)

    def astype(
        self,
        dtype: npt.DTypeLike | None,
        order: str | None = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        """Return the entries in another dtype; their gradient comes back in this one.

        As of `numpy.ndarray`; a Tensor has no subclass.

        Raises
        ------
        DtypeError
            If ``casting`` does not allow it.
        """
        wanted = np.dtype(dtype)
        if casting != "unsafe" and not np.can_cast(self.dtype, wanted, casting):
            raise DtypeError(
                f"x.astype({wanted}, casting={casting!r}){blame.user_line()}: the"
                f" values are {self.dtype}, and that rule does not let them become"
                f" {wanted}. Write casting='unsafe', or leave it out."
            )
        check_order(order)
        # NumPy's stubs take no arrays but its own.
        made = cast(Any, np.astype)(self, wanted, copy=copy)
        if order in (None, "K"):
            return made
        return np.asarray(made, order=cast(Any, order), like=made)

    def clip(
        self, min: Any = None, max: Any = None, out: Any = None, **settings: Any
    ) -> Any:
        """Return the entries limited to an interval; None sets no bound."""
        return np.clip(cast(Any, self), min, max, out=out, **settings)

    def view(self, *wanted: Any, dtype: Any = None, type: Any = None) -> Any:
        """Return the entries as they are: the same values under another dtype.

        Raises
        ------
        DtypeError
            For another dtype, or a subclass: that would read the bytes.
        """
        for kind in (*wanted, dtype, type):
            if kind is None or kind is np.ndarray:
                continue
            if inspect.isclass(kind) and issubclass(kind, np.ndarray):
                told = f"a Tensor is no {kind.__name__}. Write x without the view"
            elif np.dtype(kind) == self.dtype:
                continue
            else:
                told = (
                    f"the bytes of {self.dtype} read as {np.dtype(kind)} have no"
                    " derivative. Write x.astype(...) for the same numbers, np.real(z)"
                    " and np.imag(z) for parts, a + 1j * b for a whole"
                )
            raise DtypeError(f"x.view(...){blame.user_line()}: {told}.")
        return cast(Any, self)[...]

    def flatten(self, order: str | None = "C") -> Any:
        """Return the entries as one axis, always a copy."""
        made: Any = np.ravel(cast(Any, self), order=cast(Any, order))
        made.params = CopyParams(made.params)
        return made

    def conj(self) -> Any:
        """Return the complex conjugate; a real Tensor is its own, as in NumPy."""
        return np.conj(cast(Any, self)) if self.dtype.kind == "c" else self

    conjugate = conj

    def __getattr__(self, name: str) -> Any:
        # Only names that the class does not have arrive here.
        function = FUNCTION_METHODS.get(name)
        if function is None:
            message = f"a Tensor has no attribute {name!r}"
            if name == "at":
                message += ": write wb.at(x)[index].set(value), which gives a new array"
            elif name in NOT_THERE:
                why, cure = NOT_THERE[name]
                message += f": {why}. Write {cure}."
            raise AttributeError(message)

        def method(*args: Any, **kwargs: Any) -> Any:
            return function(self, *args, **kwargs)

        method.__name__ = name
        return method

    def __invert__(self) -> Any:
        return np.invert(self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __round__(self, digits: int = 0) -> Any:
        return np.round(self, digits)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *FUNCTION_METHODS})


_MEMORY = "where an array lies in memory is no part of a program"
_BYTES = "bytes have no derivative"

#: What `numpy.ndarray` has and a Tensor has not: why, and what to write.
NOT_THERE: dict[str, tuple[str, str]] = {
    **{
        name: (_MEMORY, f"x.value.{name} for the plain array")
        for name in ("base", "ctypes", "data", "flags", "strides")
    },
    **{
        name: (_BYTES, f"x.value.{name}(...) for the plain array")
        for name in ("byteswap", "dump", "dumps", "getfield", "tobytes", "tofile")
    },
    "setfield": (_BYTES, "x[i] = v for the entries"),
    "setflags": (_MEMORY, "np.copy(x) for an array of its own"),
}

#: What is assigned to an attribute of an array, and what to write for a Tensor.
ASSIGNED = {
    "dtype": "x = x.astype(dtype)",
    "shape": "x = np.reshape(x, shape)",
}


def refuse_assignment(kind: type) -> None:
    """Make assignment to attributes of Tensors raise an error with the cure."""
    for name, cure in ASSIGNED.items():
        found = vars(kind).get(name)
        if isinstance(found, property):

            def refuse(
                self: object, value: object, name: str = name, cure: str = cure
            ) -> NoReturn:
                raise TraceError(
                    f"x.{name} = ... of {blame.describe(cast(Any, self))}"
                    f"{blame.user_line()}: a traced value keeps its {name}. Write"
                    f" {cure}."
                )

            setattr(kind, name, found.setter(refuse))


refuse_assignment(ArrayMethods)


def check_order(order: object) -> None:
    """Refuse a memory order that NumPy does not know."""
    if order not in (None, "C", "F", "A", "K"):
        raise ValueError(
            f"order must be one of 'C', 'F', 'A' or 'K'{blame.user_line()}"
        )


#: Methods whose arguments are those of the NumPy function after the array.
FUNCTION_METHODS: dict[str, Any] = {
    name: getattr(np, name)
    for name in """
    all any argmax argmin argpartition argsort cumprod
    cumsum diagonal dot max mean min nonzero prod ptp ravel repeat round searchsorted
    sort squeeze std sum swapaxes take trace var
    """.split()
}

_UFUNC_METHODS = [
    name
    for name in sorted(vars(np))  # not dir(np): it would load numpy.f2py
    if isinstance(function := getattr(np, name), np.ufunc)
    and function.nout == 1
    and (function.nin == 1 or "OO->O" in function.types)
]
FUNCTION_METHODS.update({name: getattr(np, name) for name in _UFUNC_METHODS})


# What others ask of a Tensor: its truth, its number, its items, its text, its copy.
#
# Python asks by its own protocols; array libraries by the array API standard's
# (2024.12): the namespace, the device, DLPack. Inside a trace, what would turn a
# Tensor into a plain number is an error with a cure, because its gradient would be
# lost in silence.

#: The versions of the array API standard that the namespace follows.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

#: NumPy's device, in the standard's words and in those of DLPack.
HOST = "cpu"
DLPACK_HOST = (1, 0)


class Conversions:
    """The part of `Tensor` that answers Python's own protocols."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: Any
        name: str | None
        op: Op

        @property
        def shape(self) -> tuple[Any, ...]: ...  # noqa: D102 stands in tensor.py
        @property
        def dtype(self) -> np.dtype[Any]: ...  # noqa: D102 stands in tensor.py
        @property
        def site(self) -> sites.Site | None: ...  # noqa: D102 stands in tensor.py
        def __getitem__(self, index: object) -> Any: ...
        def __add__(self, other: object) -> Any: ...
        def __radd__(self, other: object) -> Any: ...
        def __sub__(self, other: object) -> Any: ...
        def __rsub__(self, other: object) -> Any: ...
        def __mul__(self, other: object) -> Any: ...
        def __rmul__(self, other: object) -> Any: ...
        def __truediv__(self, other: object) -> Any: ...
        def __rtruediv__(self, other: object) -> Any: ...
        def __pow__(self, other: object) -> Any: ...
        def __neg__(self) -> Any: ...

    def __bool__(self) -> bool:
        if self._value is None:
            by_numpy = blame.find_numpy_caller()
            if by_numpy is not None:
                raise TraceError(
                    f"{by_numpy} of a list or array of Tensors{blame.user_line()}:"
                    f" NumPy compares them one by one, and {_describe(self)} is not"
                    " known while tracing without values. Make one Tensor of them"
                    f" first: {by_numpy}(np.stack([...])), or np.array([...], like=x)."
                )
            if not traces.OPEN:
                raise TraceError(
                    f"the truth of {_describe(self)}, an expression of symbols, is not"
                    f" known yet{blame.quote_site(self.site)}. Write"
                    " np.where(condition, a, b) or wb.cond(condition, f, g) in place of"
                    " `if`, or ask for its value: expression.eval({x: 1.0})."
                )
            raise TraceError(
                f"the truth of {_describe(self)} is not known while tracing without"
                f" values{blame.quote_site(self.site)}. Write np.where(condition, a, b)"
                " in place of `if`, or trace with values (wb.grad, a %%autodiff cell)."
            )
        return _note(self, "bool", bool(self._value))

    def eval(self, values: Any = None, /, **named: Any) -> Any:
        """Return the value of an expression for values of its symbols.

        Parameters
        ----------
        values
            A mapping from symbols to what they shall be; or give them by name.

        Returns
        -------
        An array. What runs is made once per expression. A Tensor that has a value
        returns that.

        Raises
        ------
        MissingInputError
            If a symbol that the expression needs is not given; it is named.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x, y = wb.scalars("x y")
        >>> float((x**2 + y).eval({x: 3.0, y: 1.0}))
        10.0
        >>> float(np.sin(x).eval(x=0.0))
        0.0
        """
        return hooks.evaluate(cast(Any, self), values, named)

    def __float__(self) -> float:
        return _note(self, "float", float(_plain_value(self, "float(x)")))

    def __complex__(self) -> complex:
        value = complex(_plain_value(self, "complex(x)"))
        return _note(self, "complex", value)

    def __int__(self) -> int:
        return _note(self, "int", int(_plain_value(self, "int(x)")))

    def __index__(self) -> int:
        value = operator.index(_plain_value(self, "operator.index(x)"))
        return _note(self, "index", value)

    def item(self, *index: Any) -> Any:
        """Return an entry as a Python number; the only one where no index is given.

        Raises
        ------
        GradientLostError
            For a float that has a gradient in a trace that is open.
        """
        value = _note(self, "item", _plain_value(self, "x.item()"))
        return (value if hasattr(value, "item") else np.array(value)).item(*index)

    def tolist(self) -> Any:
        """Return the entries as nested lists of Python numbers; raises as `item`."""
        value = _note(self, "tolist", _plain_value(self, "x.tolist()"))
        return value.tolist() if hasattr(value, "tolist") else value

    # What array libraries ask

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in API_VERSIONS:
            raise ValueError(
                f"version {api_version!r} of the array API standard is not known to"
                f" Workbench. It follows {', '.join(API_VERSIONS)}."
            )
        return hooks.namespace("numpy")

    @property
    def device(self) -> Any:
        """The device of the value: ``"cpu"``, or its library's own name."""
        return getattr(self._value, "device", HOST)

    def to_device(self, device: object, /, *, stream: object = None) -> Any:
        """Return the Tensor itself, if already on that device.

        Raises
        ------
        ValueError
            For another device: a traced program stays on that of its inputs.
        """
        if stream is not None:
            raise ValueError("to_device(..., stream=...): a Tensor has no streams.")
        here = self.device
        if not (device is here or device == here):
            raise ValueError(
                f"{_describe(self)} lies on {here!r}, not on"
                f" {device!r}{blame.user_line()}, and a program runs where its inputs"
                " lie. Move the inputs before: cupy.asarray(x) to a GPU,"
                " cupy.asnumpy(x) back."
            )
        return self

    def __dlpack__(self, *, copy: bool | None = None, **options: Any) -> Any:
        value = _plain_value(self, "x.__dlpack__()")
        if isinstance(value, np.ndarray):
            # A Tensor never changes, and who gets its memory could change it.
            if copy is not False:
                return value.copy().__dlpack__(**options)
            value = value.view()
            value.flags.writeable = False
        elif not hasattr(value, "__dlpack__") or isinstance(value, np.generic):
            return np.array(value).__dlpack__(**options)
        return value.__dlpack__(**options, **({} if copy is None else {"copy": copy}))

    def __dlpack_device__(self) -> tuple[int, int]:
        ask = getattr(self._value, "__dlpack_device__", None)
        found: tuple[int, int] = DLPACK_HOST if ask is None else ask()
        return found

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(
                f"len() of {_describe(self)}{blame.user_line()}, which has no axis: it"
                " is one number. np.atleast_1d(x) makes an axis."
            )
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError(
                f"{_describe(self)} is gone through entry by entry{blame.user_line()},"
                " and has no axis: it is one number. np.atleast_1d(x) makes an axis."
            )
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: object) -> bool:
        return bool(np.any(self == item))

    # How it is shown and copied

    def __repr__(self) -> str:
        value = self._value
        text = "" if value is None else f", value={value!r}"
        name = "" if self.name is None else f"{self.name!r}, "
        return f"<Tensor {name}{self.op.name} {types.spec_of(self)}{text}>"

    def __str__(self) -> str:
        return repr(self) if self._value is None else str(self._value)

    def __format__(self, how: str) -> str:
        return repr(self) if self._value is None else format(self._value, how)

    def __copy__(self) -> Any:
        # While a trace is open a library may fill what it has copied: a place of its
        # own (see `numpy/assignment.py`).
        made: Any = FUNCTIONS[np.copy](self) if traces.has_open_trace() else self
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{blame.describe(self)} cannot be pickled: it is a place in a program."
            " Pickle x.value."
        )


def _describe(x: Any) -> str:
    return blame.describe(x)


def _plain_value(x: Any, what: str) -> Any:
    """Return the value of a Tensor that somebody wants as plain numbers."""
    if type(x) in traces.CHANGED:
        x = x.memory.read()
    if x._value is None or (traces.is_active(x) and _has_gradient(x)):
        raise blame.lost_gradient_error(x, what)
    return x._value


def _has_gradient(x: Any) -> bool:
    """Return whether a Tensor is computed from a leaf of an open trace by floats alone.

    Integers and booleans have no gradient to lose, nor has what is computed of them.
    """
    leaves = {serial for trace in tuple(traces.OPEN) for serial in trace.leaves}
    seen, stack = {x.serial}, [x]
    while stack:
        node = stack.pop()
        value = node._value
        if isinstance(getattr(value, "dtype", None), np.dtype):
            if not types.is_differentiable(value.dtype):
                continue
        if node.serial in leaves:
            return True
        for y in node.inputs:
            if isinstance(y, Conversions):
                if (serial := cast(Any, y).serial) not in seen:
                    seen.add(serial)
                    stack.append(y)
    return False


def _note(x: Any, kind: str, value: T) -> T:
    """Return a plain value, and note for open traces that Python decides by this."""
    if traces.OPEN:
        traces.note_decision(x, kind, value)
    return value
