"""The methods of NumPy's arrays, for Tensors: each is the NumPy function.

Nothing here computes: `x.sum(axis=0)` is `np.sum(x, axis=0)`, and goes through
the same op. Every elementwise function is a method too (`x.sin()`), because
NumPy calls those on the entries of an object array.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.core.op import CopyParams

__all__ = ["ArrayMethods"]


class ArrayMethods:
    """What `Tensor` shares with `numpy.ndarray` besides operators."""

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

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)

    @property
    def flat(self) -> Any:
        """The entries in C order, as a Tensor with one axis."""
        return np.ravel(cast(Any, self))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """As `numpy.ndarray.reshape`."""
        if len(shape) == 1:
            shape = shape[0]
        return np.reshape(cast(Any, self), shape, order=cast(Any, order))

    def transpose(self, *axes: Any) -> Any:
        """As `numpy.ndarray.transpose`."""
        if len(axes) == 1:
            axes = axes[0]
        return np.transpose(self, axes or None)

    def flatten(self, order: str = "C") -> Any:
        """The entries as one axis: a copy, whoever changes what it came from."""
        made: Any = np.ravel(cast(Any, self), order=cast(Any, order))
        made.params = CopyParams(made.params)
        return made

    def conj(self) -> Any:
        """The complex conjugate; a real Tensor is its own, as in NumPy."""
        return np.conj(cast(Any, self)) if self.dtype.kind == "c" else self

    conjugate = conj

    def __getattr__(self, name: str) -> Any:
        # Only names that the class does not have arrive here.
        function = FUNCTION_METHODS.get(name)
        if function is None:
            message = f"a Tensor has no attribute {name!r}"
            if name == "at":
                message += ": write wb.at(x)[index].set(value), which gives a new array"
            if hasattr(np.ndarray, name):
                message += f"; x.value.{name} reads it from the plain array"
            raise AttributeError(message)

        def method(*args: Any, **kwargs: Any) -> Any:
            return function(self, *args, **kwargs)

        method.__name__ = name
        return method

    def __invert__(self) -> Any:
        return np.invert(self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __round__(self, digits: int = 0) -> Any:
        return np.round(self, digits)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *FUNCTION_METHODS})


#: Methods whose arguments are those of the NumPy function after the array.
FUNCTION_METHODS: dict[str, Any] = {
    name: getattr(np, name)
    for name in """
    all any argmax argmin argpartition argsort astype clip copy cumprod
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
