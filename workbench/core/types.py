"""Rules of dtype and shape: the spec of a value that does not exist yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workbench.errors import DtypeError, TraceError


class Array(Protocol):
    """The operands of ops: a Tensor, or an array or NumPy scalar of any library.

    Only what all of them have; more is asked of NumPy: ``np.sum(x)``, not ``x.sum()``.
    """

    @property
    def shape(self) -> Shape: ...  # noqa: D102 as NumPy has it, like all below
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102
    @property
    def ndim(self) -> int: ...  # noqa: D102
    @property
    def size(self) -> Any: ...  # noqa: D102
    @property
    def T(self) -> Any: ...  # noqa: D102
    @property
    def real(self) -> Any: ...  # noqa: D102
    @property
    def imag(self) -> Any: ...  # noqa: D102
    # Properties, since NumPy's overloads of these fit no single signature.
    @property
    def astype(self) -> Callable[..., Any]: ...  # noqa: D102
    @property
    def reshape(self) -> Callable[..., Any]: ...  # noqa: D102
    def __array__(self, dtype: Any = ..., /) -> np.ndarray[Any, Any]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __rpow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __mod__(self, other: Any, /) -> Array: ...
    def __floordiv__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __invert__(self) -> Any: ...
    def __neg__(self) -> Array: ...
    def __abs__(self) -> Any: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


#: What users may pass for an array: also numbers and nested lists of them.
ArrayLike = npt.ArrayLike

#: What flows back into a value, and forward into one; None is zero.
Cotangent = Array | None
Tangent = Array | None

#: Integers, and `Dim`s for lengths that are known only when the program runs.
Shape = tuple[Any, ...]
#: The axes of a reduction; None is all of them.
Axis = int | tuple[int, ...] | None
#: The settings of an op: keyword-only, hashable.
Params = dict[str, Any]
#: Which inputs of an op have a batch axis, in front.
Batched = tuple[bool, ...]

#: Python's own numbers: they take the dtype of what they meet (NEP 50).
WEAK_TYPES = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a value; ``weak`` for a Python number.

    >>> Spec((2, 3), np.dtype("float32"))
    float32[2, 3]
    """

    shape: Shape
    dtype: np.dtype[Any]
    weak: bool = False

    def __post_init__(self) -> None:
        # Users write Spec((2, 3), float).
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def example(self) -> Any:
        """Return a value of this spec that takes no memory, read-only: ones.

        Of integers zeros, for they may be an index into an axis of length 1.

        Running an op on examples tells its result's spec, and raises the very
        errors that a run on data would raise.
        """
        if self.weak:
            return self.dtype.type(1).item()
        entry = 0 if self.dtype.kind in "iu" else 1
        return np.broadcast_to(np.full((), entry, self.dtype), self.shape)


#: The spec of a value; a tuple of them for the several outputs of an op.
Specs = Spec | tuple[Spec, ...]


# What the rules of an op are: `core/op.py` says what each is for. All are plain NumPy,
# on arrays or on Tensors, and a rule must not change what it is given.


class ComputeRule(Protocol):
    """The value of an op, of its operands and settings: an array, or several."""

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Return the value."""


class PullRule(Protocol):
    """Reverse mode: one cotangent, or None, for each input.

    Bit i of ``mask`` says that input i needs one; ``g`` is the cotangent of ``y``.
    """

    def __call__(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params, /
    ) -> Sequence[Any]:
        """Return the cotangents."""


class PushRule(Protocol):
    """Forward mode: the tangent of ``y``, along one tangent, or None, of each input."""

    def __call__(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        /,
    ) -> Any:
        """Return the tangent."""


class BatchRule(Protocol):
    """The value for many examples: their axis is first where ``batched`` is true."""

    def __call__(
        self, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params, /
    ) -> Any:
        """Return the values, batch axis first."""


class InferRule(Protocol):
    """Shape and dtype of the value, of the specs or values of the operands."""

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Return a `Spec`, or one for each output."""


def is_weak(value: object) -> bool:
    """Return whether a value is a Python number, which never decides a dtype."""
    return type(value) in WEAK_TYPES


def is_repeated_number(value: Any) -> bool:
    """Return whether an array, of any library, is one number in memory repeated.

    So is what ``np.broadcast_to`` makes of a number: no axis has a step in bytes.
    """
    strides: Any = getattr(value, "strides", None)
    return bool(strides) and not any(strides) and value.size > 1


#: Classes of Tensors that know their spec, and make their values on request.
SPECIFIED: set[type] = set()


def spec_of(value: Any) -> Any:
    """Return the spec of an array of any library, a NumPy scalar or a Python number.

    A tuple of specs for the tuple of an op's several outputs.
    """
    if type(value) in SPECIFIED:
        return value.spec
    stored = getattr(value, "_value", value)
    if stored is None:
        if value is None:
            raise DtypeError(
                "None stands where an array or a number is needed. Does each"
                " function end with a `return`?"
            )
        return value.spec
    if isinstance(stored, tuple):
        return tuple(map(spec_of, stored))
    if is_weak(value):
        return Spec((), np.result_type(type(value)), True)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        try:
            return Spec(tuple(value.shape), np.dtype(value.dtype))
        except TypeError:  # a class, or an array whose dtypes NumPy does not know
            pass
    array = np.asarray(value)
    return Spec(array.shape, array.dtype)


def as_spec(x: object) -> Any:
    """Return a spec, or that of a value."""
    return x if isinstance(x, Spec) else spec_of(x)


def strip_subclass(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of a subclass as a plain array of the same memory.

    Raises
    ------
    TraceError
        For those whose operations mean something else: masked arrays, matrices.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TraceError(
            f"a masked array of shape {array.shape} cannot be differentiated: its mask"
            " would be lost. Write the mask,"
            " np.where(x.mask, 0.0, x.data), and the NumPy functions with where=."
        )
    if isinstance(array, np.matrix):
        raise TraceError(
            f"an np.matrix of shape {array.shape} cannot be differentiated: its * is @."
            " Pass np.asarray(x), and write @."
        )
    make = CONSTANTS.get(type(array))
    return np.asarray(array) if make is None else make(array)


#: What an op notes of arrays that may be written to later (`plain.py`), by their class.
CONSTANTS: dict[type, Callable[[Any], Any]] = {}


def is_lazy(x: Any) -> bool:
    """Return whether an array is yet to be computed, elsewhere perhaps: Dask's."""
    ask = getattr(type(x), "__dask_graph__", None)
    # An xarray object has the method, and no graph unless its data are lazy.
    return ask is not None and ask(x) is not None


def is_differentiable(dtype: npt.DTypeLike) -> bool:
    """Return whether values of this dtype have derivatives: floats and complex."""
    return np.dtype(dtype).kind in "fc"


def format_shape(shape: Shape) -> str:
    """Return a shape in the picture's notation: ``"569×16"``, ``"()"`` for a scalar.

    >>> format_shape((569, 16)), format_shape(())
    ('569×16', '()')
    """
    return "×".join(map(str, shape)) or "()"


def is_one_number(shape: Shape) -> bool:
    """Return whether an array of this shape has one entry, and so a gradient.

    >>> is_one_number(()), is_one_number((1, 1)), is_one_number((2,))
    (True, True, False)
    """
    return all(isinstance(n, int) and n == 1 for n in shape)


def is_device_array(x: object) -> bool:
    """Return whether an object is an array in the memory of a GPU: one of CuPy's."""
    kind: Any = type(x)
    return is_device_type(kind)


@cache
def is_device_type(kind: type) -> bool:
    """Return whether the objects of a type are CuPy's arrays."""
    return kind.__module__.partition(".")[0] == "cupy" and hasattr(kind, "shape")
