"""Laws with a shape: gamma, beta, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import source
from workbench.core.op import OPS
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.ops.define import no_out, shape_of
from workbench.ops.random import draws
from workbench.ops.random.implicit import BETA, GAMMA, beta_tail, gamma_tail
from workbench.random.checking import Drawing, checked, extent, traced

__all__ = ["Shapes"]

_normal = np.random.Generator.standard_normal
_gamma = np.random.Generator.standard_gamma


class Shapes(Drawing):
    """`gamma`, `beta`, `dirichlet`, `chisquare`, `f`, `standard_t`, ..."""

    # By the shape of a gamma or beta law

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None
    ) -> Any:
        """As NumPy's; the gradient by ``shape`` is implicit."""
        if not traced(shape):
            if out is not None:
                return super().standard_gamma(shape, size, dtype, out)
            return self._plain("standard_gamma", size, shape=shape, dtype=dtype)
        no_out("rng.standard_gamma", out)
        with source.pinned():
            made = self._gammas("rng.standard_gamma", admit(shape), size)
            return made if np.dtype(dtype) == np.float64 else made.astype(dtype)

    def _gammas(self, call: str, a: Any, size: Any, known: Any = None) -> Any:
        """Gamma draws of shape ``a``; ``known`` are the values, if drawn already."""
        checked(call, lambda v: v >= 0, shape=a)
        size = extent(call, size, a)
        if a._value is None or draws.unknown() is not None:
            return apply(GAMMA, (a, self._plain("random", size) - 0.5))
        value = a._value
        y = super().standard_gamma(value, size) if known is None else known
        return self._held(GAMMA, (a,), gamma_tail(value, y), y)

    def _held(self, made: Any, shapes: tuple[Any, ...], tail: Any, y: Any) -> Any:
        noise = draws.node(OPS["random_uniform"], (tail,), tail)
        return draws.node(made, (*shapes, noise), y)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``scale * standard_gamma(shape)``."""
        if not traced(shape, scale):
            return self._plain("gamma", size, shape=shape, scale=scale)
        with source.pinned():
            shape, scale = admit(shape), admit(scale)
            size = extent("rng.gamma", size, shape, scale)
            return scale * self.standard_gamma(shape, size)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """As NumPy's: ``2 * standard_gamma(df / 2)``."""
        if not traced(df):
            return self._plain("chisquare", size, df=df)
        with source.pinned():
            return 2.0 * self.standard_gamma(admit(df) / 2, size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """As NumPy's; the gradients by both shapes are implicit."""
        if not traced(a, b):
            return self._plain("beta", size, a=a, b=b)
        with source.pinned():
            a, b = admit(a), admit(b)
            checked("rng.beta", lambda v: v > 0, a=a, b=b)
            size = extent("rng.beta", size, a, b)
            p, q = value_of(a), value_of(b)
            if p is None or q is None or draws.unknown() is not None:
                return apply(BETA, (a, b, self._plain("random", size) - 0.5))
            y = super().beta(p, q, size)
            return self._held(BETA, (a, b), beta_tail(p, q, y), y)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """As NumPy's: gamma draws over their sum; for small shapes, broken sticks."""
        if not traced(alpha):
            return self._plain("dirichlet", size, alpha=alpha)
        with source.pinned():
            alpha = admit(alpha)
            (count,) = shape_of(alpha)
            lead = () if size is None else extent("rng.dirichlet", size)
            value = alpha._value
            if value is None or np.max(value) >= 0.1:
                made = self.standard_gamma(alpha, (*lead, count))
                return made / np.sum(made, axis=-1, keepdims=True)
            rest = np.cumsum(alpha[::-1])[::-1]
            parts = self.beta(alpha[:-1], rest[1:], (*lead, count - 1))
            left = np.cumprod(1 - parts, axis=-1)
            ones = np.ones_like(left[..., :1])
            taken = np.concatenate([parts, ones], axis=-1)
            return taken * np.concatenate([ones, left], axis=-1)

    # Several laws in turn: NumPy draws all of an entry before the next entry

    def _in_turn(self, call: str, kinds: list[Any], size: Any) -> list[Any]:
        """Draws of several laws: a shape for a gamma law, None for a normal one."""
        known = draws.unknown() is None and all(
            a is None or value_of(a) is not None for a in kinds
        )
        if not known:
            return [
                self._plain("standard_normal", size)
                if a is None
                else self._gamma_or_plain(call, a, size)
                for a in kinds
            ]
        shape = size or ()
        values = [
            None if a is None else np.broadcast_to(value_of(a), shape) for a in kinds
        ]
        rows: list[Any] = [np.empty(shape) for _ in kinds]  # host array: draws
        for index in np.ndindex(shape):
            for row, value in zip(rows, values, strict=True):
                row[index] = (
                    _normal(self) if value is None else _gamma(self, value[index])
                )
        made = []
        for a, row in zip(kinds, rows, strict=True):
            if isinstance(a, Tensor):
                made.append(self._gammas(call, a, size, row))
            else:
                name = "standard_normal" if a is None else "standard_gamma"
                made.append(draws.node(OPS[f"random_{name}"], (row,), row))
        return made

    def _gamma_or_plain(self, call: str, a: Any, size: Any) -> Any:
        if isinstance(a, Tensor):
            return self._gammas(call, a, size)
        return self._plain("standard_gamma", size, shape=a)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """As NumPy's: a quotient of two scaled `chisquare` draws."""
        if not traced(dfnum, dfden):
            return self._plain("f", size, dfnum=dfnum, dfden=dfden)
        with source.pinned():
            dfnum, dfden = admit(dfnum), admit(dfden)
            size = extent("rng.f", size, dfnum, dfden)
            above, below = self._in_turn("rng.f", [dfnum / 2, dfden / 2], size)
            return above * dfden / (below * dfnum)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        """As NumPy's: a normal draw over the root of a gamma draw."""
        if not traced(df):
            return self._plain("standard_t", size, df=df)
        with source.pinned():
            df = admit(df)
            size = extent("rng.standard_t", size, df)
            z, y = self._in_turn("rng.standard_t", [None, df / 2], size)
            return np.sqrt(df / 2) * z / np.sqrt(y)

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        """As NumPy's; with a gradient for ``df`` above 1."""
        if not traced(df, nonc):
            return self._plain("noncentral_chisquare", size, df=df, nonc=nonc)
        with source.pinned():
            df, nonc = admit(df), admit(nonc)
            call = "rng.noncentral_chisquare (with a gradient, for df above 1)"
            checked(call, lambda v: v > 1, df=df)
            checked(call, lambda v: v >= 0, nonc=nonc)
            size = extent("rng.noncentral_chisquare", size, df, nonc)
            y, z = self._in_turn(call, [(df - 1) / 2, None], size)
            return 2.0 * y + (z + np.sqrt(nonc)) ** 2

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        """As NumPy's; with a gradient for ``dfnum`` above 1."""
        if not traced(dfnum, dfden, nonc):
            more = {"dfnum": dfnum, "dfden": dfden, "nonc": nonc}
            return self._plain("noncentral_f", size, **more)
        with source.pinned():
            dfnum, dfden, nonc = admit(dfnum), admit(dfden), admit(nonc)
            call = "rng.noncentral_f (with a gradient, for dfnum above 1)"
            checked(call, lambda v: v > 1, dfnum=dfnum)
            size = extent("rng.noncentral_f", size, dfnum, dfden, nonc)
            kinds = [(dfnum - 1) / 2, None, dfden / 2]
            y, z, below = self._in_turn(call, kinds, size)
            above = 2.0 * y + (z + np.sqrt(nonc)) ** 2
            return above * dfden / (2.0 * below * dfnum)
