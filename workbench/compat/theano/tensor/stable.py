"""Logarithms of what was made by a sigmoid or a softmax, without overflow.

Theano rewrote ``log(sigmoid(x))`` and its like when it compiled a function, so that old
programs take the logarithm of a probability that is 0 to 16 digits. Here the formula is
chosen when the logarithm is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tags import tag_of
from workbench.core.tensor import Tensor, value_of
from workbench.ops.indexing import GETITEM
from workbench.ops.keys import as_index

__all__ = ["log", "of_scores"]


def of_scores(probabilities: Any, scores: Any, axis: int) -> Any:
    """Probabilities that know the scores of which they are the softmax."""
    if isinstance(probabilities, Tensor) and probabilities._value is None:
        tag_of(probabilities)._scores = scores, axis
    return probabilities


def log(x: Any) -> Any:
    """`numpy.log`; of a sigmoid or a softmax its own formula."""
    made = _known(x) if isinstance(x, Tensor) and x._value is None else None
    return np.log(x) if made is None else made


def _known(x: Tensor) -> Any:
    from workbench.scipy import special

    name = x.op.name
    if name == "expit":
        return -special.softplus(-x.inputs[0])
    if name == "subtract" and _one(x.inputs[0]) and _is(x.inputs[1], "expit"):
        return -special.softplus(x.inputs[1].inputs[0])
    if name == "add":
        for a, b in (x.inputs, x.inputs[::-1]):
            if _one(a) and _is(b, "exp"):
                return special.softplus(b.inputs[0])
    whole = x.inputs[0] if x.op is GETITEM else x
    found = getattr(whole.notes, "_scores", None)
    if found is None:
        return None
    made = special.log_softmax(found[0], axis=found[1])
    if whole is x:
        return made
    return made[as_index(x.params["key"], tuple(x.inputs[1:]))]


def _is(x: Any, name: str) -> bool:
    return isinstance(x, Tensor) and x.op.name == name


def _one(x: Any) -> bool:
    """Whether an operand is the number 1."""
    value = value_of(x)
    return value is not None and np.ndim(value) == 0 and bool(value == 1)
