"""Gamma and beta laws, and those made of them: `dirichlet`, `f`, `standard_t`, ...

Their gradients by a shape are implicit (`workbench.ops.random`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import source
from workbench.core.op import OPS, Op
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike
from workbench.ops import random
from workbench.ops.define import shape_of
from workbench.ops.random import BETA, GAMMA, beta_tail, gamma_tail
from workbench.ops.writing import write_result
from workbench.random import drawing

_normal = np.random.Generator.standard_normal
_gamma = np.random.Generator.standard_gamma


class ImplicitLaws(drawing.Drawing):
    """`gamma`, `beta`, `dirichlet`, `chisquare`, `f`, `standard_t`, ..."""

    # By the shape of a gamma or beta law

    def standard_gamma(
        self,
        shape: ArrayLike,
        size: drawing.Size = None,
        dtype: npt.DTypeLike = np.float64,
        out: npt.NDArray[Any] | None = None,
    ) -> Any:
        """Draw from a gamma distribution of scale 1.

        Parameters
        ----------
        shape
            The shape parameter, not negative; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.
        dtype
            float64 or float32.
        out
            An array for the result; a Tensor for that of one.

        Notes
        -----
        The gradient by ``shape`` is implicit: that of the quantile at a fixed
        probability (Figurnov, Mohamed and Mnih, "Implicit reparameterization
        gradients", 2018).
        """
        if not drawing.has_tensor(shape):
            if out is not None:
                plain: Any = super().standard_gamma
                return plain(shape, size, dtype, out)
            return self._draw("standard_gamma", size, shape=shape, dtype=dtype)
        with source.pin_line():
            y = self._draw_gamma("rng.standard_gamma", admit(shape), size)
            if np.dtype(dtype) != np.float64:
                y = y.astype(dtype)
            return y if out is None else write_result("rng.standard_gamma", out, y)

    def _draw_gamma(
        self, call: str, a: Array, size: drawing.Size, values: Array | None = None
    ) -> Array:
        """Draw from gamma laws of shape ``a``; or take their ``values``."""
        drawing.check_range(call, lambda v: v >= 0, shape=a)
        size = drawing.broadcast_size(call, size, a)
        value = value_of(a)
        if value is None or random.find_anchor() is not None:
            return apply(GAMMA, (a, self._draw("random", size) - 0.5))
        y: Any = super().standard_gamma(value, size) if values is None else values
        return self._record_draw(GAMMA, (a,), gamma_tail(value, y), y)

    def _record_draw(
        self, op: Op, shapes: tuple[Array, ...], tail: Array, y: Array
    ) -> Tensor:
        """Record a draw ``y`` that NumPy has made as the quantile at its ``tail``."""
        noise = random.record_draw(OPS["random_uniform"], (tail,), tail)
        return random.record_draw(op, (*shapes, noise), y)

    def gamma(
        self, shape: ArrayLike, scale: ArrayLike = 1.0, size: drawing.Size = None
    ) -> Any:
        """Draw from a gamma distribution: ``scale * standard_gamma(shape)``.

        Parameters
        ----------
        shape, scale
            The shape parameter and the scale, not negative; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.
        """
        if not drawing.has_tensor(shape, scale):
            return self._draw("gamma", size, shape=shape, scale=scale)
        with source.pin_line():
            shape, scale = admit(shape), admit(scale)
            size = drawing.broadcast_size("rng.gamma", size, shape, scale)
            return scale * self.standard_gamma(shape, size)

    def chisquare(self, df: ArrayLike, size: drawing.Size = None) -> Any:
        """Draw from a chi-square distribution: ``2 * standard_gamma(df / 2)``.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.
        """
        if not drawing.has_tensor(df):
            return self._draw("chisquare", size, df=df)
        with source.pin_line():
            return 2.0 * self.standard_gamma(admit(df) / 2, size)

    def beta(self, a: ArrayLike, b: ArrayLike, size: drawing.Size = None) -> Any:
        """Draw from a beta distribution.

        Parameters
        ----------
        a, b
            The shape parameters, above 0; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The gradients by both shapes are implicit, as that of `standard_gamma`.
        """
        if not drawing.has_tensor(a, b):
            return self._draw("beta", size, a=a, b=b)
        with source.pin_line():
            a, b = admit(a), admit(b)
            drawing.check_range("rng.beta", lambda v: v > 0, a=a, b=b)
            shape: Any = drawing.broadcast_size("rng.beta", size, a, b)
            p, q = value_of(a), value_of(b)
            if p is None or q is None or random.find_anchor() is not None:
                return apply(BETA, (a, b, self._draw("random", shape) - 0.5))
            y = super().beta(p, q, shape)
            return self._record_draw(BETA, (a, b), beta_tail(p, q, y), y)

    def dirichlet(self, alpha: ArrayLike, size: drawing.Size = None) -> Any:
        """Draw probabilities from a Dirichlet distribution.

        Parameters
        ----------
        alpha
            The shape parameters, (n,), above 0; it may be a Tensor.
        size
            How many vectors, in which shape; they have the last axis of the result.

        Notes
        -----
        The draw is that of gamma draws over their sum. Where all shapes are small,
        which would underflow, it breaks a stick by beta draws, as NumPy does.
        """
        if not drawing.has_tensor(alpha):
            return self._draw("dirichlet", size, alpha=alpha)
        with source.pin_line():
            alpha = admit(alpha)
            (count,) = shape_of(alpha)
            loop = drawing.broadcast_size("rng.dirichlet", size) or ()
            value = value_of(alpha)
            if value is None or np.max(value) >= 0.1:
                y = self.standard_gamma(alpha, (*loop, count))
                return y / np.sum(y, axis=-1, keepdims=True)
            tail_sums = np.cumsum(alpha[::-1])[::-1]
            fractions = self.beta(alpha[:-1], tail_sums[1:], (*loop, count - 1))
            remaining = np.cumprod(1 - fractions, axis=-1)
            ones = np.ones_like(remaining[..., :1])
            shares = np.concatenate([fractions, ones], axis=-1)
            return shares * np.concatenate([ones, remaining], axis=-1)

    # Several laws in turn: NumPy draws all of an entry before the next entry

    def _draw_in_turn(
        self, call: str, shapes: list[Any], size: tuple[Any, ...] | None
    ) -> list[Array]:
        """Draw from several laws: a shape is for a gamma law, None for a normal one."""
        has_values = random.find_anchor() is None and all(
            a is None or value_of(a) is not None for a in shapes
        )
        if not has_values:
            return [
                self._draw("standard_normal", size)
                if a is None
                else self._draw_gamma_of(call, a, size)
                for a in shapes
            ]
        shape = size or ()
        values = [
            None if a is None else np.broadcast_to(value_of(a), shape) for a in shapes
        ]
        rows: list[Any] = [np.empty(shape) for _ in shapes]  # host array: draws
        for index in np.ndindex(shape):
            for row, value in zip(rows, values, strict=True):
                row[index] = (
                    _normal(self) if value is None else _gamma(self, value[index])
                )
        draws: list[Array] = []
        for a, row in zip(shapes, rows, strict=True):
            if isinstance(a, Tensor):
                draws.append(self._draw_gamma(call, a, size, row))
            else:
                name = "standard_normal" if a is None else "standard_gamma"
                draws.append(random.record_draw(OPS[f"random_{name}"], (row,), row))
        return draws

    def _draw_gamma_of(self, call: str, a: Array, size: drawing.Size) -> Array:
        """Draw from a gamma law with a shape that is a Tensor or a constant."""
        if isinstance(a, Tensor):
            return self._draw_gamma(call, a, size)
        return self._draw("standard_gamma", size, shape=a)

    def f(self, dfnum: ArrayLike, dfden: ArrayLike, size: drawing.Size = None) -> Any:
        """Draw from an F distribution: a quotient of two scaled chi-square draws.

        Parameters
        ----------
        dfnum, dfden
            The degrees of freedom of numerator and denominator, above 0; both may be
            Tensors.
        size
            The shape of the result; by default that of the parameters.
        """
        if not drawing.has_tensor(dfnum, dfden):
            return self._draw("f", size, dfnum=dfnum, dfden=dfden)
        with source.pin_line():
            dfnum, dfden = admit(dfnum), admit(dfden)
            size = drawing.broadcast_size("rng.f", size, dfnum, dfden)
            above, below = self._draw_in_turn("rng.f", [dfnum / 2, dfden / 2], size)
            return above * dfden / (below * dfnum)

    def standard_t(self, df: ArrayLike, size: drawing.Size = None) -> Any:
        """Draw from Student's t distribution.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.

        Notes
        -----
        The draw is ``sqrt(df / 2) * z / sqrt(y)`` with ``z`` normal and ``y`` from a
        gamma law of shape ``df / 2``.
        """
        if not drawing.has_tensor(df):
            return self._draw("standard_t", size, df=df)
        with source.pin_line():
            df = admit(df)
            size = drawing.broadcast_size("rng.standard_t", size, df)
            z, y = self._draw_in_turn("rng.standard_t", [None, df / 2], size)
            return np.sqrt(df / 2) * z / np.sqrt(y)

    def noncentral_chisquare(
        self, df: ArrayLike, nonc: ArrayLike, size: drawing.Size = None
    ) -> Any:
        """Draw from a noncentral chi-square distribution.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; above 1 where a parameter is a Tensor.
        nonc
            The noncentrality, not negative; it may be a Tensor.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        if not drawing.has_tensor(df, nonc):
            return self._draw("noncentral_chisquare", size, df=df, nonc=nonc)
        with source.pin_line():
            df, nonc = admit(df), admit(nonc)
            call = "rng.noncentral_chisquare (with a gradient, for df above 1)"
            drawing.check_range(call, lambda v: v > 1, df=df)
            drawing.check_range(call, lambda v: v >= 0, nonc=nonc)
            size = drawing.broadcast_size("rng.noncentral_chisquare", size, df, nonc)
            y, z = self._draw_in_turn(call, [(df - 1) / 2, None], size)
            return 2.0 * y + (z + np.sqrt(nonc)) ** 2

    def noncentral_f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        nonc: ArrayLike,
        size: drawing.Size = None,
    ) -> Any:
        """Draw from a noncentral F distribution.

        Parameters
        ----------
        dfnum
            The degrees of freedom of the numerator, above 0; above 1 where a parameter
            is a Tensor.
        dfden
            Those of the denominator, above 0.
        nonc
            The noncentrality of the numerator, not negative.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        if not drawing.has_tensor(dfnum, dfden, nonc):
            constants = {"dfnum": dfnum, "dfden": dfden, "nonc": nonc}
            return self._draw("noncentral_f", size, **constants)
        with source.pin_line():
            dfnum, dfden, nonc = admit(dfnum), admit(dfden), admit(nonc)
            call = "rng.noncentral_f (with a gradient, for dfnum above 1)"
            drawing.check_range(call, lambda v: v > 1, dfnum=dfnum)
            size = drawing.broadcast_size("rng.noncentral_f", size, dfnum, dfden, nonc)
            shapes = [(dfnum - 1) / 2, None, dfden / 2]
            y, z, below = self._draw_in_turn(call, shapes, size)
            above = 2.0 * y + (z + np.sqrt(nonc)) ** 2
            return above * dfden / (2.0 * below * dfnum)
