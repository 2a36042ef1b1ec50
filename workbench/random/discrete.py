"""Draws of an order, of some entries, and of counts.

The first two gather, so a gradient flows to the array; counts have no derivative by
their parameters, and neither has `wald`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.ops import random
from workbench.ops.define import shape_of
from workbench.ops.indexing import getitem
from workbench.ops.writing import write_result
from workbench.random.drawing import (
    SIZE_TEXT,
    Drawing,
    Size,
    describe_method,
    has_tensor,
    require_constant,
)


class DiscreteLaws(Drawing):
    """`permutation`, `permuted`, `shuffle`, `choice`."""

    def permutation(self, x: ArrayLike, axis: int = 0) -> Any:
        """Return the slices of an array in random order, or the numbers below ``x``.

        Parameters
        ----------
        x
            An array, or an integer for the whole numbers below it. Of a Tensor the
            gradient goes back to where each slice came from.
        axis
            The axis whose slices change places.
        """
        if not has_tensor(x):
            if random.find_anchor() is None:
                return super().permutation(x, axis)
            if np.ndim(x) == 0:
                return self._draw("permutation", None, n=int(np.asarray(x)))
        x = admit(x)
        index = self._draw("permutation", None, n=shape_of(x)[axis])
        return _take_slices(x, index, axis)

    def permuted(
        self,
        x: ArrayLike,
        *,
        axis: int | None = None,
        out: npt.NDArray[Any] | None = None,
    ) -> Any:
        """Return an array with its entries in random order.

        Parameters
        ----------
        x
            An array. Of a Tensor the gradient goes back to where each entry came from.
        axis
            The axis along which each line gets an order of its own; all entries
            together by default.
        out
            An array for the result; a Tensor for that of one.
        """
        if not has_tensor(x) and random.find_anchor() is None:
            return super().permuted(x, axis=axis, out=out)
        x = admit(x)
        flat = np.reshape(x, -1) if axis is None else x
        rank = len(shape_of(flat))
        axis = 0 if axis is None else axis % rank
        settings = {"shape": shape_of(flat), "axis": axis}
        index: Any = self._draw("permuted", None, **settings)
        if rank == 1:
            y = np.reshape(_take_slices(flat, index, 0), shape_of(x))
        else:
            y = np.take_along_axis(x, index, axis)
        return y if out is None else write_result("rng.permuted", out, y)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the slices of an array in random order, in place.

        Parameters
        ----------
        x
            The array, which changes.
        axis
            The axis whose slices change places.
        """
        if has_tensor(x) and not isinstance(x, list):
            x[...] = self.permutation(x, axis)
        else:
            super().shuffle(x, axis)

    def choice(
        self,
        a: ArrayLike,
        size: Size = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Draw entries of an array, or whole numbers below ``a``.

        Parameters
        ----------
        a
            An array, or an integer for the whole numbers below it. Of a Tensor the
            gradient goes to the entries that were drawn.
        size
            The shape of the draws; by default one.
        replace
            Whether an entry may be drawn again.
        p
            The probability of each entry, through which no gradient goes; equal by
            default.
        axis
            The axis that the entries are drawn from.
        shuffle
            Whether draws without replacement are in random order.

        Raises
        ------
        NotDifferentiableError
            If ``p`` is a Tensor that is differentiated by.
        """
        p = require_constant(p, "rng.choice(p=x)")
        is_deferred = random.find_anchor() is not None
        if not has_tensor(a, p) and not is_deferred:
            plain: Any = super().choice
            return plain(a, size, replace, p, axis, shuffle)
        is_number = shape_of(admit(a)) == ()
        settings = {"a": int(value_of(a)) if is_number else shape_of(admit(a))[axis]}
        options = {"replace": replace, "p": p, "shuffle": shuffle}
        index = self._draw("choice", size, **settings, **options)
        return index if is_number else _take_slices(admit(a), index, axis)


def _take_slices(x: Array, index: Array, axis: int) -> Array:
    """Return the slices of ``x`` at an index, which may have no value yet."""
    if isinstance(x, Tensor) or not isinstance(index, Tensor):
        return np.take(x, index, axis=axis)
    leading = (slice(None),) * (axis % len(shape_of(x)))
    return getitem(x, (*leading, index))


# Laws without a derivative by their parameters.


def _make_counting(
    name: str, summary: str, texts: dict[str, str], **defaults: float
) -> Callable[..., Any]:
    """Make a method that draws from a law without a derivative by its parameters."""
    numpy_method = getattr(np.random.Generator, name)
    names = list(texts)

    def method(self: Drawing, *args: Any, **named: Any) -> Any:
        if not random.is_recording_draws():
            return numpy_method(self, *args, **named)
        settings = defaults | dict(zip((*names, "size"), args, strict=False)) | named
        if len(args) > len(names) + 1:
            return numpy_method(self, *args, **named)
        for key in names:
            settings[key] = require_constant(settings.get(key), f"rng.{name}({key}=x)")
        return self._draw(name, settings.pop("size", None), **settings)

    summary += "\n\nIt has no derivative by its parameters."
    return describe_method(method, name, summary, {**texts, "size": SIZE_TEXT})


for _law in (
    _make_counting(
        "binomial",
        "Draw the number of successes in a number of trials.",
        {"n": "The number of trials.", "p": "The probability of success."},
    ),
    _make_counting(
        "geometric",
        "Draw the number of trials up to the first success.",
        {"p": "The probability of success."},
    ),
    _make_counting(
        "hypergeometric",
        "Draw how many good items are in a sample without replacement.",
        {
            "ngood": "How many items are good.",
            "nbad": "How many are not.",
            "nsample": "The size of the sample.",
        },
    ),
    _make_counting(
        "integers",
        "Draw whole numbers uniformly, ``high`` left out.",
        {
            "low": "The lowest number, or with one argument the end.",
            "high": "The end, left out unless ``endpoint`` is true.",
        },
    ),
    _make_counting(
        "logseries",
        "Draw from a logarithmic series distribution.",
        {"p": "The shape parameter, in (0, 1)."},
    ),
    _make_counting(
        "multinomial",
        "Draw how often each of several outcomes occurs.",
        {
            "n": "The number of trials.",
            "pvals": "The probabilities of the outcomes, along the last axis.",
        },
    ),
    _make_counting(
        "multivariate_hypergeometric",
        "Draw how many items of each kind are in a sample without replacement.",
        {
            "colors": "How many items there are of each kind.",
            "nsample": "The size of the sample.",
        },
    ),
    _make_counting(
        "negative_binomial",
        "Draw the number of failures before a number of successes.",
        {"n": "The number of successes, above 0.", "p": "The probability of success."},
    ),
    _make_counting(
        "poisson",
        "Draw from a Poisson distribution.",
        {"lam": "The expected number."},
        lam=1.0,
    ),
    _make_counting(
        "wald",
        "Draw from a Wald (inverse Gaussian) distribution.",
        {"mean": "The mean, above 0.", "scale": "The scale parameter, above 0."},
    ),
    _make_counting(
        "zipf", "Draw from a Zipf (zeta) distribution.", {"a": "The exponent, above 1."}
    ),
):
    setattr(DiscreteLaws, _law.__name__, _law)
