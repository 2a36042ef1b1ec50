"""Ops that programs name by their classes: ``T.elemwise.Sum(axis=0)(x)``.

An instance holds its settings; called on variables it gives what the function of the
same meaning gives. `Elemwise` and `CAReduce` take an op of numbers besides, one of
`theano.scalar` or a class of a program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.tensor import elementwise, extra_ops, reductions, shapes
from workbench.compat.theano.tensor.lifting import axes, lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.op import Op as CoreOp
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import UsageError

__all__ = ["CLASSES", "CAReduce", "Elemwise", "NamedOp"]


class NamedOp:
    """An op with settings: instances with the same settings are equal.

    `settings` names the arguments of the class, in order, with the values that stand
    for those left out; `function` takes the inputs, then all settings by name.
    """

    settings: ClassVar[dict[str, Any]] = {}
    function: ClassVar[Callable[..., Any]]

    def __init__(self, *args: Any, **named: Any) -> None:
        given = dict(zip(self.settings, args, strict=False)) | named
        unknown = [name for name in given if name not in self.settings]
        if unknown or len(args) > len(self.settings):
            takes = ", ".join(self.settings) or "nothing"
            raise UsageError(
                f"{type(self).__name__} takes {takes}, not {[*args, *unknown]}."
            )
        for name, usual in self.settings.items():
            setattr(self, name, given.get(name, usual))

    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """Return the op's output on variables; a list of several."""
        return type(self).function(*inputs, **vars(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}{{{given}}}"


class _OfNumbers(type):
    """Let an op of the library be an instance too, if it works entry by entry."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Elemwise and isinstance(instance, CoreOp) and instance.elementwise:
            return True
        return super().__instancecheck__(instance)


class Elemwise(NamedOp, metaclass=_OfNumbers):
    """An op of numbers, entry by entry, on arrays that broadcast.

    Parameters
    ----------
    scalar_op
        A function of `theano.scalar`, or an instance of a `ScalarOp`.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> x = T.dvector("x")
    >>> y = T.elemwise.Elemwise(theano.scalar.sqr)(x)
    >>> y.eval({x: [1.0, 3.0]})
    array([1., 9.])
    """

    scalar_op: Any
    settings: ClassVar[dict[str, Any]] = {
        "scalar_op": None,
        "inplace_pattern": None,
        "name": None,
        "nfunc_spec": None,
    }

    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """Return the op's value for each entry."""
        return self.scalar_op(*map(as_tensor_variable, inputs))


class CAReduce(NamedOp):
    """An associative op of two numbers between all entries along axes.

    Parameters
    ----------
    scalar_op
        ``theano.scalar.add``, ``mul``, ``maximum``, ``minimum``, ``and_``, ``or_``,
        ``xor``, or ``mul_without_zeros``.
    axis
        An axis, several, or None for all.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> x = T.dmatrix("x")
    >>> y = T.elemwise.CAReduce(theano.scalar.maximum, axis=0)(x)
    >>> y.eval({x: [[1.0, 4.0], [2.0, 3.0]]})
    array([2., 4.])
    """

    scalar_op: Any
    axis: Any
    settings: ClassVar[dict[str, Any]] = {
        "scalar_op": None,
        "axis": None,
        "dtype": None,
        "acc_dtype": None,
        "upcast_discrete_output": None,
    }

    def __call__(self, input: Any, **_: Any) -> Any:
        """Return the reduced array."""
        x, axis = as_tensor_variable(input), axes(self.axis)
        if self.scalar_op is mul_without_zeros:
            return reductions.prod_without_zeros(x, axis)
        ufunc = getattr(self.scalar_op, "ufunc", None)
        if ufunc is None or ufunc.nin != 2:
            raise UsageError(
                f"CAReduce: {self.scalar_op!r} is not known as an associative op of"
                " two numbers. Take add, mul, maximum, minimum, and_, or_ or xor of"
                " the module scalar."
            )
        if axis is None:
            axis = tuple(range(x.ndim))
        return lift(ufunc.reduce(x, axis=axis))


def mul_without_zeros(a: ArrayLike, b: ArrayLike) -> Array:
    """Multiply where neither is 0; where one is, return the other."""
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    none_of_a, none_of_b = np.equal(a, 0), np.equal(b, 0)
    return lift(
        np.where(none_of_a, 1, a)
        * np.where(none_of_b, 1, b)
        * np.where(np.logical_and(none_of_a, none_of_b), 0, 1)
    )


# The functions whose arguments stand in another order in their classes.


def _dimshuffle(x: Any, input_broadcastable: Any, new_order: Any) -> Any:
    return shapes.dimshuffle(x, *new_order)


def _reshape(x: Any, shape: Any, ndim: int | None, name: Any) -> Any:
    return shapes.reshape(x, shape, ndim)


def _split(x: Any, axis: Any, sizes: Any, len_splits: int) -> Any:
    return shapes.split(x, sizes, len_splits, int(axis))


def _join(axis: Any, *tensors: Any, view: Any) -> Any:
    return shapes.join(int(axis), *tensors)


def _accumulate(x: Any, axis: int | None, mode: str) -> Any:
    along = {"add": reductions.cumsum, "mul": reductions.cumprod}
    if mode not in along:
        raise UsageError(f"CumOp: mode is 'add' or 'mul', not {mode!r}.")
    return along[mode](x, axis)


def _vector(*numbers: Any, dtype: npt.DTypeLike | None) -> Any:
    made = shapes.stack(list(numbers))
    return made if dtype is None else made.astype(dtype)


def _length(x: Any, i: int) -> Any:
    return as_tensor_variable(as_tensor_variable(x).shape[i])


def _number(x: ArrayLike) -> Array:
    """Return a variable without axes itself: a number is one here."""
    x = as_tensor_variable(x)
    if x.ndim:
        raise UsageError(f"scalar_from_tensor: {x!r} has {x.ndim} axes, not none.")
    return x


scalar_from_tensor = tensor_from_scalar = _number


def _choose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction that hands on the settings that are given."""

    def reduce_entries(x: ArrayLike, axis: Axis, **settings: Any) -> Any:
        given = {name: value for name, value in settings.items() if value is not None}
        return function(x, axes(axis), **given)

    return reduce_entries


def _class(
    title: str,
    function: Callable[..., Any],
    required: Sequence[str] = (),
    /,
    **settings: Any,
) -> type[NamedOp]:
    """Return the class of an op, of its function and its settings."""
    body = {
        "__doc__": f"`{function.__name__.strip('_')}`, as an op with settings.",
        "__module__": __name__,
        "function": staticmethod(function),
        "settings": {**dict.fromkeys(required), **settings},
    }
    return type(title, (NamedOp,), body)


_TABLE = {**elementwise.TABLE, **reductions.TABLE, **shapes.TABLE}
_REDUCE: dict[str, Any] = {"axis": None, "dtype": None, "acc_dtype": None}
_CLASSES = [
    _class("Sum", _choose(_TABLE["sum"]), **_REDUCE),
    _class("Prod", _choose(reductions.prod), **_REDUCE, no_zeros_in_input=None),
    _class(
        "ProdWithoutZeros",
        _choose(reductions.prod_without_zeros),
        axis=None,
        dtype=None,
    ),
    *[
        _class(name, _choose(_TABLE[name.lower()]), axis=None)
        for name in ("Max", "Min", "All", "Any", "Argmax")
    ],
    _class("MaxAndArgmax", reductions.max_and_argmax, axis=None),
    _class("MulWithoutZeros", mul_without_zeros),
    _class("CumOp", _accumulate, axis=None, mode="add"),
    _class("CumsumOp", reductions.cumsum, axis=None),
    _class("CumprodOp", reductions.cumprod, axis=None),
    _class("DiffOp", extra_ops.diff, n=1, axis=-1),
    _class("RepeatOp", shapes.repeat, axis=None),
    _class("SearchsortedOp", extra_ops.searchsorted, side="left"),
    _class("SqueezeOp", extra_ops.squeeze, axis=None),
    _class(
        "Unique",
        extra_ops.unique,
        return_index=False,
        return_inverse=False,
        return_counts=False,
        axis=None,
    ),
    _class("FillDiagonal", extra_ops.fill_diagonal),
    _class("FillDiagonalOffset", extra_ops.fill_diagonal_offset),
    _class("BartlettOp", extra_ops.bartlett),
    _class("DimShuffle", _dimshuffle, ["input_broadcastable", "new_order"]),
    _class("Reshape", _reshape, ndim=None, name=None),
    _class("Join", _join, view=-1),
    _class("Split", _split, ["len_splits"]),
    _class("Dot", shapes.dot),
    _class("Alloc", shapes.alloc),
    _class("ARange", shapes.arange, dtype=None),
    _class("Eye", shapes.eye, dtype=None),
    _class("MakeVector", _vector, dtype=None),
    _class("Shape_i", _length, ["i"]),
    _class("ScalarFromTensor", _number),
    _class("TensorFromScalar", _number),
]

#: The classes, and what is made of them, by name.
CLASSES: dict[str, Any] = {
    "CAReduce": CAReduce,
    "Elemwise": Elemwise,
    "mul_without_zeros": mul_without_zeros,
    "scalar_from_tensor": scalar_from_tensor,
    "tensor_from_scalar": tensor_from_scalar,
    **{made.__name__: made for made in _CLASSES},
}

globals().update(CLASSES)  # where pickle looks for them
