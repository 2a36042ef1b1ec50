"""Elementwise functions: arithmetic, comparisons, functions of mathematics."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.tensor import lifting
from workbench.compat.theano.tensor.lifting import special
from workbench.compat.theano.types import as_tensor_variable, dtype_name, tag_of
from workbench.core.dims import broadcast_shapes
from workbench.core.tensor import Tensor, value_of
from workbench.core.types import Array, ArrayLike
from workbench.ops.indexing import GETITEM, as_index

__all__ = ["TABLE", "cast", "clip", "inv", "round", "second", "switch"]

# Logarithms of what was made by a sigmoid or a softmax, without overflow.
#
# Theano rewrote ``log(sigmoid(x))`` and its like when it compiled a function, so that
# old programs take the logarithm of a probability that is 0 to 16 digits. Here the
# formula is chosen when the logarithm is written.


def of_scores(probabilities: ArrayLike, scores: ArrayLike, axis: int) -> Any:
    """Probabilities that know the scores of which they are the softmax."""
    if isinstance(probabilities, Tensor) and probabilities._value is None:
        tag_of(probabilities)._scores = scores, axis
    return probabilities


def log(x: ArrayLike) -> Array:
    """Return the logarithm; of a sigmoid or a softmax by its own formula."""
    made = _find_special(x) if isinstance(x, Tensor) and x._value is None else None
    return np.log(x) if made is None else made


def _find_special(x: Tensor) -> Any:
    from workbench.scipy import special

    name = x.op.name
    if name == "expit":
        return -special.softplus(-x.inputs[0])
    if name == "subtract" and _is_one(x.inputs[0]) and _is(x.inputs[1], "expit"):
        return -special.softplus(x.inputs[1].inputs[0])
    if name == "add":
        for a, b in (x.inputs, x.inputs[::-1]):
            if _is_one(a) and _is(b, "exp"):
                return special.softplus(b.inputs[0])
    whole = x.inputs[0] if x.op is GETITEM else x
    found = getattr(whole.notes, "_scores", None)
    if found is None:
        return None
    made = special.log_softmax(found[0], axis=found[1])
    if whole is x:
        return made
    return made[as_index(x.params["key"], tuple(x.inputs[1:]))]


def _is(x: ArrayLike, name: str) -> bool:
    return isinstance(x, Tensor) and x.op.name == name


def _is_one(x: ArrayLike) -> bool:
    """Return whether an operand is the number 1."""
    value = value_of(x)
    return value is not None and np.ndim(value) == 0 and bool(value == 1)


# The functions


def inv(x: ArrayLike) -> Array:
    """Return one over ``x``; a float for integers too."""
    return lifting.lift(np.true_divide(1, x), (x,))


def round(x: Any, mode: str = "half_to_even") -> Array:
    """Return the nearest integers; ``mode="half_away_from_zero"`` rounds 0.5 to 1."""
    if mode == "half_to_even":
        return lifting.lift(np.round(x), (x,))
    if mode != "half_away_from_zero":
        raise ValueError(f"mode is 'half_to_even' or 'half_away_from_zero': {mode!r}")
    return lifting.lift(np.sign(x) * np.floor(np.abs(x) + 0.5), (x,))


def iround(x: Any, mode: str = "half_to_even") -> Array:
    """Return the nearest integers, as int64."""
    return round(x, mode).astype("int64")


def cast(x: ArrayLike, dtype: npt.DTypeLike | None) -> Array:
    """Convert to a dtype; ``"floatX"`` is the configured dtype."""
    return as_tensor_variable(x).astype(dtype_name(dtype))


def switch(condition: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Choose as `numpy.where` does; a number other than 0 is a true condition."""
    condition = as_tensor_variable(condition)
    if condition.dtype != bool:
        condition = np.not_equal(condition, 0)
    return lifting.lift(np.where(condition, on_true, on_false))


def where(condition: ArrayLike, *branches: Any, **_: Any) -> Any:
    """Choose as `switch` does; of a condition alone, return indices."""
    if not branches:
        return lifting.lift(np.nonzero(as_tensor_variable(condition)))
    return switch(condition, *branches)


def clip(x: ArrayLike, min: ArrayLike, max: ArrayLike) -> Array:
    """Clip to bounds, as `numpy.clip` does."""
    return lifting.lift(np.clip(x, min, max), (x, min, max))


def second(a: ArrayLike, b: ArrayLike) -> Array:
    """Return ``b`` broadcast to the shape of ``a`` (also `fill`)."""
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    return lifting.lift(np.broadcast_to(b, broadcast_shapes(a.shape, b.shape)))


def identity(x: ArrayLike) -> Array:
    """Copy the values, as `numpy.copy` does (also `tensor_copy`)."""
    return lifting.lift(np.copy(as_tensor_variable(x)))


def complex(real: ArrayLike, imag: ArrayLike) -> Array:
    """Return a complex array of its real and imaginary part."""
    return lifting.lift(np.add(real, np.multiply(1j, imag)), (real, imag))


def complex_from_polar(radius: ArrayLike, angle: ArrayLike) -> Array:
    """Return a complex array of its modulus and argument."""
    return lifting.lift(
        np.multiply(radius, np.exp(np.multiply(1j, angle))), (radius, angle)
    )


def ceil_intdiv(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the quotient of integers, rounded up."""
    return lifting.lift(-(-as_tensor_variable(a) // b))


def tri_gamma(x: ArrayLike) -> Array:
    """Return the trigamma function, `scipy.special.polygamma` of order 1."""
    from workbench.scipy import special

    return lifting.lift(special.polygamma(1, x), (x,))


def chi2sf(x: ArrayLike, k: ArrayLike) -> Array:
    """Return the survival function of the chi-squared law: `scipy.special.chdtrc`."""
    from workbench.scipy import special

    return lifting.lift(special.chdtrc(k, x), (x, k))


def smallest(*xs: Any) -> Array:
    """Return the least entry of several arrays, entry by entry."""
    return lifting.lift(reduce(np.minimum, xs), xs)


def largest(*xs: Any) -> Array:
    """Return the greatest entry of several arrays, entry by entry."""
    return lifting.lift(reduce(np.maximum, xs), xs)


def _fold(function: Callable[..., Any], name: str) -> lifting.Function:
    """Return a function of two that Theano lets take any number."""

    def call(*operands: Any) -> Any:
        if len(operands) == 1:
            return as_tensor_variable(operands[0])
        return lifting.lift(reduce(function, operands), operands)

    like = f"numpy.{function.__name__}"
    return lifting.documented(call, name, like, function)


_SAME = """
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil cos cosh deg2rad exp exp2
    expm1 floor isclose isinf isnan log10 log1p log2 maximum minimum rad2deg sin
    sinh sqrt tan tanh trunc angle imag real conj
"""
_OTHER: lifting.Table = {
    "log": log,
    "abs_": np.abs,
    "abs": np.abs,
    "sgn": np.sign,
    "sign": np.sign,
    "sqr": np.square,
    "square": np.square,
    "neg": np.negative,
    "negative": np.negative,
    "eq": np.equal,
    "neq": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "invert": np.invert,
    "bitwise_not": np.invert,
    "sub": np.subtract,
    "true_div": np.true_divide,
    "int_div": np.floor_divide,
    "floor_div": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "power": np.power,
    "allclose": np.allclose,
}
_FOLDED = {
    "add": np.add,
    "mul": np.multiply,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
_SPECIAL = {
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": "erfcx",
    "erfinv": "erfinv",
    "erfcinv": "erfcinv",
    "gamma": "gamma",
    "gammaln": "gammaln",
    "psi": "psi",
    "j0": "j0",
    "j1": "j1",
    "jv": "jv",
    "i0": "i0",
    "i1": "i1",
    "iv": "iv",
}

TABLE: lifting.Table = {
    "inv": inv,
    "round": round,
    "iround": iround,
    "cast": cast,
    "switch": switch,
    "where": where,
    "clip": clip,
    "second": second,
    "fill": second,
    "identity": identity,
    "tensor_copy": identity,
    "complex": complex,
    "complex_from_polar": complex_from_polar,
    "ceil_intdiv": ceil_intdiv,
    "tri_gamma": tri_gamma,
    "chi2sf": chi2sf,
    "smallest": smallest,
    "largest": largest,
}
TABLE |= {name: lifting.lifted(getattr(np, name), name) for name in _SAME.split()}
TABLE |= {name: lifting.lifted(function, name) for name, function in _OTHER.items()}
TABLE |= {name: _fold(function, name) for name, function in _FOLDED.items()}
TABLE |= {name: special(ours, name) for name, ours in _SPECIAL.items()}
