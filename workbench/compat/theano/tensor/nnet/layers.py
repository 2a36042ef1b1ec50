"""Activations and losses, entry by entry or row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.elementwise import log, of_scores, switch
from workbench.compat.theano.tensor.lifting import lift, special
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike
from workbench.errors import ShapeError

__all__ = [
    "binary_crossentropy",
    "categorical_crossentropy",
    "confusion_matrix",
    "crossentropy_categorical_1hot",
    "crossentropy_softmax_1hot",
    "crossentropy_softmax_1hot_with_bias",
    "crossentropy_softmax_argmax_1hot_with_bias",
    "elu",
    "hard_sigmoid",
    "logsoftmax",
    "relu",
    "selu",
    "sigmoid",
    "sigmoid_binary_crossentropy",
    "softmax",
    "softmax_graph",
    "softmax_with_bias",
    "softplus",
    "softsign",
    "ultra_fast_sigmoid",
]

sigmoid = special("expit", "sigmoid")
#: An approximation in Theano, for speed; here the function itself.
ultra_fast_sigmoid = special("expit", "ultra_fast_sigmoid")
softplus = special("softplus", "softplus")

#: Klambauer et al., "Self-normalizing neural networks", 2017, equation 14.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def hard_sigmoid(x: ArrayLike) -> Array:
    """Return the line ``0.2 x + 0.5``, cut off at 0 and 1."""
    return lift(np.clip(as_tensor_variable(x) * 0.2 + 0.5, 0.0, 1.0))


def relu(x: Any, alpha: Any = 0) -> Array:
    """Return the greater of ``x`` and 0, or ``alpha x`` below 0; mean slope at 0."""
    x = as_tensor_variable(x)
    if isinstance(alpha, (int, float)) and alpha == 0:
        return lift(np.maximum(x, 0))
    return 0.5 * (1 + alpha) * x + 0.5 * (1 - alpha) * abs(x)


def elu(x: ArrayLike, alpha: ArrayLike = 1) -> Array:
    """Return ``x`` above 0, ``alpha (exp(x) - 1)`` below."""
    x = as_tensor_variable(x)
    return switch(np.greater(x, 0), x, alpha * np.expm1(x))


def selu(x: Any) -> Array:
    """Return `elu`, scaled so that layers keep mean 0 and variance 1."""
    return SELU_SCALE * elu(x, SELU_ALPHA)


def softsign(x: ArrayLike) -> Array:
    """Return ``x / (1 + abs(x))``."""
    x = as_tensor_variable(x)
    return x / (1.0 + abs(x))


def _to_rows(c: ArrayLike) -> Array:
    """Return a matrix; a vector becomes one row."""
    c = as_tensor_variable(c)
    if c.ndim == 0:
        raise ShapeError("softmax of a number: it runs along the last axis.")
    return np.expand_dims(c, 0) if c.ndim == 1 else c


def softmax(c: ArrayLike, axis: int = -1) -> Array:
    """Return the softmax of each row; of a vector, a matrix of one row."""
    from workbench.scipy import special as ours

    scores = _to_rows(c)
    return of_scores(lift(ours.softmax(scores, axis=axis)), scores, axis)


def softmax_graph(c: ArrayLike) -> Array:
    """Return the softmax of each row, as `softmax` does."""
    return softmax(c)


def softmax_with_bias(x: ArrayLike, b: ArrayLike) -> Array:
    """Return the softmax of each row of ``x + b``."""
    return softmax(as_tensor_variable(x) + b)


def logsoftmax(c: ArrayLike, axis: int = -1) -> Array:
    """Return the logarithm of each row's softmax; of a vector, a matrix of one row."""
    from workbench.scipy import special as ours

    return lift(ours.log_softmax(_to_rows(c), axis=axis))


def binary_crossentropy(output: ArrayLike, target: ArrayLike) -> Array:
    """Return ``-(t log(o) + (1 - t) log(1 - o))``, entry by entry."""
    o, t = as_tensor_variable(output), as_tensor_variable(target)
    return -(t * log(o) + (1.0 - t) * log(1.0 - o))


def sigmoid_binary_crossentropy(output: ArrayLike, target: ArrayLike) -> Array:
    """Return the cross-entropy of ``sigmoid(output)``, without overflow."""
    o, t = as_tensor_variable(output), as_tensor_variable(target)
    return t * softplus(-o) + (1.0 - t) * softplus(o)


def categorical_crossentropy(coding_dist: ArrayLike, true_dist: ArrayLike) -> Any:
    """Return each row's cross-entropy with a distribution, or with a class's number."""
    coding, true = as_tensor_variable(coding_dist), as_tensor_variable(true_dist)
    if true.ndim == coding.ndim:
        return lift(-np.sum(true * log(coding), axis=-1))
    if true.ndim == coding.ndim - 1:
        return crossentropy_categorical_1hot(coding, true)
    raise ShapeError(
        f"categorical_crossentropy: {true.ndim} axes of the truth for {coding.ndim} of"
        " the coding; as many, or one less (the number of the class)."
    )


def crossentropy_categorical_1hot(
    coding_dist: ArrayLike, true_one_of_n: ArrayLike
) -> Array:
    """Return ``-log`` of the entry of each row that the class's number names."""
    return -_take_classes(log(as_tensor_variable(coding_dist)), true_one_of_n)


def _take_classes(x: Any, classes: Any) -> Array:
    """Return the entry of each row that a class's number names."""
    classes = as_tensor_variable(classes)
    taken = np.take_along_axis(x, np.expand_dims(classes, -1), axis=-1)
    return taken[..., 0]


def crossentropy_softmax_1hot(
    x: ArrayLike, y_idx: ArrayLike, **_: Any
) -> tuple[Any, Any]:
    """Return the cross-entropy of each row's softmax with a class, and the softmax."""
    return -_take_classes(logsoftmax(x), y_idx), softmax(x)


def crossentropy_softmax_1hot_with_bias(
    x: ArrayLike, b: ArrayLike, y_idx: ArrayLike, **_: Any
) -> tuple[Any, Any]:
    """Return `crossentropy_softmax_1hot` of ``x + b``."""
    return crossentropy_softmax_1hot(as_tensor_variable(x) + b, y_idx)


def crossentropy_softmax_argmax_1hot_with_bias(
    x: ArrayLike, b: ArrayLike, y_idx: ArrayLike
) -> tuple[Any, Any, Any]:
    """Return `crossentropy_softmax_1hot_with_bias` and the most likely class."""
    x = as_tensor_variable(x) + b
    return (*crossentropy_softmax_1hot(x, y_idx), lift(np.argmax(x, axis=-1)))


def confusion_matrix(actual: ArrayLike, pred: ArrayLike) -> list[Any]:
    """Count how often each class was taken for each other; return the classes too."""
    both = np.concatenate([as_tensor_variable(actual), as_tensor_variable(pred)])
    order = lift(np.unique(both))
    rows = np.equal(as_tensor_variable(actual)[:, None], order).astype("int64")
    columns = np.equal(as_tensor_variable(pred)[:, None], order).astype("int64")
    return [lift(np.dot(rows.T, columns)), order]
