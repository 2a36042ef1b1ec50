"""Random numbers in programs that are differentiated: `default_rng`, `Generator`.

A `Generator` is NumPy's, with the same streams: outside a trace it draws what NumPy
draws. In a traced function its draws are nodes that hold what was drawn, and the
parameters of a distribution may be Tensors. The gradient is then that of the draw at
fixed noise (the reparameterisation, or pathwise, gradient; Mohamed, Rosca, Figurnov
and Mnih, "Monte Carlo gradient estimation in machine learning", 2020, section 5).

- Gradients by their parameters: `normal`, `lognormal`, `uniform`, `exponential`,
  `laplace`, `logistic`, `gumbel`, `rayleigh`, `weibull`, `pareto`, `power`,
  `triangular`, `gamma`, `chisquare`, `beta`, `dirichlet`, `f`, `standard_t`,
  `noncentral_chisquare` (df > 1), `noncentral_f`, `multivariate_normal`, and
  `vonmises` by `mu`. Those by a shape of a gamma or beta law are implicit
  (`workbench.ops.random`).
- `permutation`, `permuted` and `choice` of a Tensor gather: the gradient flows to it.
- Draws of whole numbers have no derivative by their parameters; neither has `wald`,
  nor `vonmises` by `kappa`. Such a parameter is an error that names the other way.

A generator of NumPy's own that is an argument of a function under `grad`, `vmap` and
their like draws nodes too, on its own stream.

In an expression of symbols a draw is made when the program runs, each time anew: one
with a symbol among its parameters, and every one of a `stream`.

Each call draws anew, in the function as in NumPy. For a gradient that differences
confirm, make the generator inside the function, from a fixed seed. Under `vmap` each
example has draws of its own: one draw per example is what a loop would draw, of
several the order is another.

Examples
--------
>>> import numpy as np, workbench as wb
>>> def f(mu, sigma):
...     rng = wb.random.default_rng(7)
...     return np.mean(rng.normal(mu, sigma, size=1000) ** 2)
>>> g_mu, g_sigma = wb.grad(f, argnums=(0, 1))(1.0, 0.5)
>>> z = np.random.default_rng(7).standard_normal(1000)
>>> y = 1 + z / 2
>>> np.allclose([g_mu, g_sigma], [np.mean(2 * y), np.mean(2 * y * z)])
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.random.discrete import DiscreteLaws
from workbench.random.drawing import defer_draws
from workbench.random.explicit import ExplicitLaws
from workbench.random.implicit import ImplicitLaws

__all__ = ["Generator", "Stream", "default_rng", "stream"]

#: What NumPy makes a stream from; a generator shares its own.
Seed = (
    int
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | None
)


def default_rng(seed: Seed = None) -> Generator:
    """Return a generator as `numpy.random.default_rng` does, for traced programs too.

    Parameters
    ----------
    seed
        As for NumPy: None, integers, a `SeedSequence`, a bit generator, or a
        generator, whose stream is then shared.

    Returns
    -------
    A :class:`Generator`, which draws the same numbers as NumPy's.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rng, plain = wb.random.default_rng(1), np.random.default_rng(1)
    >>> bool(rng.normal() == plain.normal())
    True
    """
    return Generator(np.random.default_rng(seed))


class Generator(ExplicitLaws, ImplicitLaws, DiscreteLaws):
    """`numpy.random.Generator` with draws that take part in traced programs.

    Parameters
    ----------
    bits
        A bit generator, or a generator of NumPy's, whose stream it shares.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> plain = np.random.default_rng(0)
    >>> rng = wb.random.Generator(plain)
    >>> f = lambda scale: np.sum(rng.exponential(scale, size=3))
    >>> y, g = wb.value_and_grad(f)(2.0)
    >>> bool(np.isclose(2 * g, y))
    True
    """

    def __init__(self, bits: np.random.BitGenerator | np.random.Generator) -> None:
        if isinstance(bits, np.random.Generator):
            bits = bits.bit_generator
        super().__init__(bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.bit_generator,)


for _part in (ExplicitLaws, ImplicitLaws, DiscreteLaws):
    for _name, _method in list(vars(_part).items()):
        if not _name.startswith("_") and _name != "shuffle":
            setattr(_part, _name, defer_draws(_method))


class Stream(Generator):
    """A `Generator` that makes all of its draws when the program runs."""

    is_stream = True


def stream(seed: Seed = None) -> Stream:
    """Return a generator for expressions of symbols; its draws are Tensors.

    A function draws anew in each call, and functions that draw from one stream go on
    where the last one stopped. Within one call a draw is one number, however often
    the program reads it.

    Parameters
    ----------
    seed
        As for :func:`default_rng`.

    Returns
    -------
    A :class:`Stream`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rng = wb.random.stream(7)
    >>> x = wb.vector("x", shape=3)
    >>> noisy = wb.function([x], x + 0.1 * rng.normal(size=3))
    >>> plain = np.random.default_rng(7)
    >>> np.allclose(noisy(np.zeros(3)), 0.1 * plain.normal(size=3))
    True
    >>> np.allclose(noisy(np.zeros(3)), 0.1 * plain.normal(size=3))
    True
    """
    return Stream(np.random.default_rng(seed))
