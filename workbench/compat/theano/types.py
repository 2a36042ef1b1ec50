"""Types and variables: `TensorType`, its symbols, and constants.

A variable is a Tensor of the library. What Theano asks of a variable besides
(``x.type``, ``x.owner``, ``x.dimshuffle``) stands in `methods.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.config import config
from workbench.core import types as specs
from workbench.core import walk
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, Tensor, admit, make_leaf
from workbench.core.types import Array, ArrayLike
from workbench.errors import DtypeError, ShapeError
from workbench.ops import gradients
from workbench.symbolic import variables
from workbench.symbolic.preparing import is_leaf

__all__ = [
    "ALL_DTYPES",
    "SYMBOLS",
    "TYPES",
    "TensorConstant",
    "TensorType",
    "Type",
    "as_tensor_variable",
    "constant",
    "dtype_name",
    "type_of",
]

INTEGERS = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL_DTYPES = ("bool", *INTEGERS, *UNSIGNED, *FLOATS, *COMPLEX)


def dtype_name(dtype: npt.DTypeLike | None) -> str:
    """Return Theano's name of a dtype; ``"floatX"`` or None: the configured one."""
    if dtype is None or (isinstance(dtype, str) and dtype == "floatX"):
        return config.floatX
    return str(np.dtype(dtype))


class Type:
    """The base of all types; calling a type makes a variable."""

    def __call__(self, name: str | None = None) -> Array:
        """Return a new variable of this type."""
        return self.make_variable(name)

    def make_variable(self, name: str | None = None) -> Array:
        """Return a new variable of this type."""
        raise NotImplementedError(
            f"{type(self).__name__} makes no variables: a program's values are arrays"
            " of numbers. Write a type of arrays, such as tensor.dmatrix."
        )


class TensorType(Type):
    """The dtype, the rank and the axes of length 1 of an array.

    Parameters
    ----------
    dtype
        A name of NumPy's, or ``"floatX"``.
    broadcastable, shape
        One entry per axis: true or 1 where its length is 1, false or None where
        nothing is known, and any other length that is known. A 0 is a length in
        ``shape`` and false in ``broadcastable``.

    Raises
    ------
    ShapeError
        If an entry is none of these.

    Examples
    --------
    >>> import workbench.compat.theano.tensor as T
    >>> row = T.TensorType("float32", (True, False))
    >>> row, row.ndim, row.dtype
    (TensorType(float32, row), 2, 'float32')
    """

    def __init__(
        self,
        dtype: npt.DTypeLike | None,
        broadcastable: Sequence[Any] = (),
        name: str | None = None,
        sparse_grad: bool = False,
        *,
        shape: Sequence[Any] | None = None,
    ) -> None:
        self.dtype = dtype_name(dtype)
        if shape is None:
            shape = [n or None for n in broadcastable]
        self.shape = _read_lengths(shape)
        self.broadcastable = tuple(n == 1 for n in self.shape)
        self.name = name
        self.sparse_grad = sparse_grad

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.broadcastable)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype as NumPy's object."""
        return np.dtype(self.dtype)

    def __call__(self, name: str | None = None, shape: Any = None) -> Array:
        """Return a new symbol of this type, some of its lengths given."""
        if shape is None:
            return self.make_variable(name)
        made = TensorType(self.dtype, shape=shape)
        if made.ndim != self.ndim:
            raise ShapeError(f"shape={shape} has not the {self.ndim} axes of {self!r}.")
        return made.make_variable(name)

    def make_variable(self, name: str | None = None) -> Tensor:
        """Return a new symbol of this type."""
        return variables.tensor(name, dtype=self.dtype, shape=self.shape)

    def make_constant(self, value: Any, name: str | None = None) -> Tensor:
        """Return a constant of this type."""
        return variables.constant(value, name, dtype=self.dtype)

    def clone(
        self,
        dtype: npt.DTypeLike | None = None,
        broadcastable: Any = None,
        *,
        shape: Any = None,
    ) -> TensorType:
        """Return the same type with the given parts replaced.

        >>> import workbench.compat.theano.tensor as T
        >>> T.dvector("x").type.clone(shape=(3,))
        TensorType(float64, shape=(3,))
        """
        chosen = self.dtype if dtype is None else dtype
        if shape is None and broadcastable is not None:
            return TensorType(chosen, broadcastable)
        return TensorType(chosen, shape=self.shape if shape is None else shape)

    def filter(
        self, value: Any, strict: bool = False, allow_downcast: bool | None = None
    ) -> Array:
        """Return an array of this type, or raise an error that names the mismatch."""
        array = np.asarray(value)
        if strict and array.dtype != self.numpy_dtype:
            raise DtypeError(f"{array.dtype} is not {self.dtype}: {self!r}.")
        if not (allow_downcast or np.can_cast(array.dtype, self.dtype, "same_kind")):
            raise DtypeError(f"{array.dtype} does not fit {self!r}. Write .astype.")
        if array.ndim != self.ndim or any(
            m not in (None, n) for m, n in zip(self.shape, array.shape, strict=True)
        ):
            raise ShapeError(f"an array of shape {array.shape} does not fit {self!r}.")
        return array.astype(self.dtype, copy=False)

    def filter_variable(self, other: Any, allow_convert: bool = True) -> Array:
        """Return a variable of this type made from a variable or a value."""
        made = as_tensor_variable(other)
        return made if made.dtype == self.dtype else made.astype(self.dtype)

    def is_valid_value(self, value: Any) -> bool:
        """Return whether an array has this type without a cast."""
        try:
            self.filter(value, strict=True)
        except (ShapeError, DtypeError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorType)
            and (self.dtype, self.shape) == (other.dtype, other.shape)
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        if not {1, None}.issuperset(self.shape):
            return f"TensorType({self.dtype}, shape={self.shape})"
        found = KINDS.get(self.broadcastable)
        return f"TensorType({self.dtype}, {found or self.broadcastable})"


def _read_lengths(shape: Any) -> tuple[int | None, ...]:
    """Return the lengths in a shape; true is 1, false or None stays unknown."""
    if not isinstance(shape, Iterable):
        raise ShapeError(f"shape={shape!r} is not a tuple: write shape=({shape!r},).")
    lengths: list[int | None] = []
    for n in shape:
        if isinstance(n, (bool, np.bool_)) or n is None:
            lengths.append(1 if n else None)
        elif isinstance(n, (int, np.integer)) and n >= 0:
            lengths.append(int(n))
        else:
            raise ShapeError(
                f"shape={shape!r}: {n!r} is no length. Write a whole number from 0 on,"
                " or None for one that is not known."
            )
    return tuple(lengths)


#: The kinds of arrays that have a name, by their axes of length 1.
KINDS: dict[tuple[bool, ...], str] = {
    (): "scalar",
    (False,): "vector",
    (True, False): "row",
    (False, True): "col",
    (False, False): "matrix",
    (False,) * 3: "3D",
    (False,) * 4: "4D",
    (False,) * 5: "5D",
    (False,) * 6: "6D",
    (False,) * 7: "7D",
}
_NAMES = {f"{n}D": f"tensor{n}" for n in range(3, 8)}
_PLURALS = {"matrix": "matrices"}
PREFIXES = {
    "b": "int8",
    "w": "int16",
    "i": "int32",
    "l": "int64",
    "f": "float32",
    "d": "float64",
    "c": "complex64",
    "z": "complex128",
}


def type_of(x: Any) -> Any:
    """Return the type of a variable; an axis of known length 1 is broadcastable.

    Of a gradient that cannot be computed it is a `NullType`.
    """
    if gradients.is_null(x):
        return gradients.NullType(x.params["comment"])
    # A length that is not known yet is not a number.
    return TensorType(x.dtype, tuple(isinstance(n, int) and n == 1 for n in x.shape))


def tensor(*args: Any, **settings: Any) -> Array:
    """Return a new variable of the type that the arguments make, and of a ``name``."""
    name = settings.pop("name", None)
    return TensorType(*args, **settings)(name)


def _symbol(kind: str, broadcastable: tuple[bool, ...]) -> Callable[..., Any]:
    def symbol(
        name: str | None = None, dtype: npt.DTypeLike | None = None, shape: Any = None
    ) -> Array:
        return TensorType(dtype, broadcastable)(name, shape)

    symbol.__name__ = symbol.__qualname__ = kind
    symbol.__doc__ = f"A new {kind}, of `config.floatX` unless a dtype is given."
    return symbol


def _make_several(make: Callable[..., Any], kind: str) -> Callable[..., list[Any]]:
    def symbols(*names: Any, **more: Any) -> list[Any]:
        found = names[0] if len(names) == 1 else names
        if isinstance(found, int):
            return [make(**more) for _ in range(found)]
        return [make(name, **more) for name in found]

    symbols.__name__ = symbols.__qualname__ = kind
    symbols.__doc__ = f"Several {kind}: one per name, per letter, or a count."
    return symbols


#: Every type that has a name: ``dmatrix``, ``fvector``, ``iscalar``, ...
TYPES: dict[str, TensorType] = {}
#: What makes variables: ``matrix``, ``scalars``, ``dvectors``, ...
SYMBOLS: dict[str, Callable[..., Any]] = {"tensor": tensor}
for _broadcastable, _kind in KINDS.items():
    _name = _NAMES.get(_kind, _kind)
    _plural = _PLURALS.get(_name, f"{_name}s")
    SYMBOLS[_name] = _symbol(_name, _broadcastable)
    SYMBOLS[_plural] = _make_several(SYMBOLS[_name], _plural)
    for _prefix, _dtype in PREFIXES.items():
        _made = TensorType(_dtype, _broadcastable, _prefix + _name)
        TYPES[_prefix + _name] = _made
        SYMBOLS[_prefix + _plural] = _make_several(_made, _prefix + _plural)


def as_tensor_variable(
    x: ArrayLike, name: str | None = None, ndim: int | None = None
) -> Tensor:
    """Return a variable: itself, or a constant that holds a value.

    A list of variables is stacked. A Python number stays one: beside float32 the
    result is float32.
    """
    outputs = getattr(x, "outputs", None)
    if not isinstance(x, Tensor) and isinstance(outputs, list):  # an Apply
        if len(outputs) != 1:
            raise ShapeError(f"{x!r} has {len(outputs)} outputs: choose one of them.")
        x = outputs[0]
    if not isinstance(x, Tensor):
        x = admit(x)
    if not isinstance(x, Tensor):
        x = make_leaf(x) if specs.is_weak(x) else variables.constant(x, name)
    made: Any = x
    if ndim is not None and ndim != made.ndim:
        if ndim < made.ndim:
            raise ShapeError(
                f"a variable of {made.ndim} axes is not a variable of {ndim} axes."
            )
        made = np.expand_dims(made, tuple(range(ndim - made.ndim)))
    return made


def constant(
    x: ArrayLike,
    name: str | None = None,
    ndim: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Tensor:
    """Return a variable that holds a value.

    A Python number of no given dtype stays one: beside float32 the result is float32.
    """
    if dtype is None and not ndim and specs.is_weak(x):
        made = make_leaf(x, name)
        return made
    array = np.asarray(x, None if dtype is None else dtype_name(dtype))
    if ndim is not None and array.ndim < ndim:
        array = array.reshape((1,) * (ndim - array.ndim) + array.shape)
    return variables.constant(array, name)


class _ConstantKind(type):
    def __instancecheck__(cls, x: object) -> bool:
        return (
            isinstance(x, Tensor)
            and x.op is IDENTITY
            and not x.inputs
            and x._value is not None
        )


class TensorConstant(metaclass=_ConstantKind):
    """The class of constants, for ``isinstance``: variables with a fixed value."""


# ``x.tag``: what a program writes on a variable, and its test value.
#
# Test values are computed where they are asked for, whatever
# ``config.compute_test_value`` says: a program is not run while it is built.


class Tag(SimpleNamespace):
    """Attributes that a program writes; ``test_value`` is computed if not set.

    >>> import workbench.compat.theano.tensor as T
    >>> x = T.dvector("x")
    >>> x.tag.test_value = [1.0, 2.0]
    >>> float((x**2).sum().tag.test_value)
    5.0
    """

    def __init__(self, variable: Tensor) -> None:
        super().__init__()
        self._variable = variable

    def __getattr__(self, name: str) -> Any:
        if name == "test_value":
            return _compute_test_value(self._variable)
        raise AttributeError(f"nothing has set .tag.{name} of {self._variable!r}")


def _compute_test_value(x: Tensor) -> Array:
    if x._value is not None:
        return x.value
    if isinstance(x, Shared):
        return x.get_value()
    if is_leaf(x):
        raise AttributeError(
            f"{x!r} has no test value: set {x.name or 'x'}.tag.test_value = array."
        )
    leaves = [
        y for y in walk.order_nodes([x]) if is_leaf(y) and not isinstance(y, Shared)
    ]
    return x.eval({y: tag_of(y).test_value for y in leaves if y._value is None})


def tag_of(x: Tensor) -> Tag:
    """Return the tag of a variable, made at the first request."""
    if x.notes is None:
        x.notes = Tag(x)
    made: Tag = x.notes
    return made


def get_test_value(x: ArrayLike) -> Any:
    """Return the test value of a variable, set or computed from others."""
    return tag_of(x).test_value if isinstance(x, Tensor) else x
