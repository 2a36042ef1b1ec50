"""`theano.tensor.nnet.bn`: batch normalisation (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lifting import axes as several
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike

__all__ = [
    "batch_normalization",
    "batch_normalization_test",
    "batch_normalization_train",
]


def batch_normalization(
    inputs: Any,
    gamma: Any,
    beta: Any,
    mean: Any,
    std: Any,
    mode: str = "low_mem",
) -> Array:
    """Return ``(inputs - mean) gamma / std + beta``."""
    return (as_tensor_variable(inputs) - mean) * (gamma / std) + beta


def _axes(x: Any, axes: Any) -> tuple[int, ...]:
    if axes == "per-activation":
        return (0,)
    if axes == "spatial":
        return (0, *range(2, x.ndim))
    numbers: Any = several(axes)
    return tuple(np.atleast_1d(numbers).tolist())


def _pad_axes(x: Any, parameter: Any, axes: tuple[int, ...]) -> Array:
    """Return a parameter with an axis of length 1 for each that is normalised."""
    p = as_tensor_variable(parameter)
    return p if p.ndim == x.ndim else np.expand_dims(p, axes)


def batch_normalization_test(
    inputs: Any,
    gamma: ArrayLike,
    beta: ArrayLike,
    mean: ArrayLike,
    var: Any,
    axes: Any = "per-activation",
    epsilon: float = 1e-4,
) -> Array:
    """Normalise by a mean and a variance that are given."""
    x = as_tensor_variable(inputs)
    along = _axes(x, axes)
    gamma, beta, mean, var = (_pad_axes(x, p, along) for p in (gamma, beta, mean, var))
    return (x - mean) * (gamma / np.sqrt(var + epsilon)) + beta


def batch_normalization_train(
    inputs: Any,
    gamma: ArrayLike,
    beta: ArrayLike,
    axes: Any = "per-activation",
    epsilon: float = 1e-4,
    running_average_factor: float = 0.1,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
) -> tuple[Any, ...]:
    """Normalise by the batch's own mean and variance.

    Returns the result, the mean and one over the standard deviation; then the running
    mean and variance, where those before are given.
    """
    x = as_tensor_variable(inputs)
    along = _axes(x, axes)
    gamma, beta = _pad_axes(x, gamma, along), _pad_axes(x, beta, along)
    mean = np.mean(x, axis=along, keepdims=True)
    var = np.var(x, axis=along, keepdims=True)
    inverse = 1.0 / np.sqrt(var + epsilon)
    made: tuple[Any, ...] = ((x - mean) * (gamma * inverse) + beta, mean, inverse)
    a = running_average_factor
    if running_mean is not None:
        made += ((1.0 - a) * _pad_axes(x, running_mean, along) + a * mean,)
    if running_var is not None:
        count = x.size / mean.size
        unbiased = count / (count - 1.0) * var
        made += ((1.0 - a) * _pad_axes(x, running_var, along) + a * unbiased,)
    return made
