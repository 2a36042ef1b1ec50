"""`theano.tensor.shared_randomstreams`: random variables, drawn anew in each call.

Each has a generator of its own, seeded from that of the `RandomStreams`, as a shared
value: ``x.rng.get_value()``. The numbers are NumPy's PCG64, not Theano's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.op import Apply, Op
from workbench.compat.theano.tensor.lifting import as_lengths, lift
from workbench.compat.theano.types import as_tensor_variable, dtype_name
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike
from workbench.errors import NotDifferentiableError, UsageError
from workbench.gradient import grad_undefined
from workbench.ops.elementwise import stop_gradient
from workbench.random import Stream

__all__ = ["RandomState", "RandomStreams"]


class RandomState(Stream):
    """A generator with the methods by which old programs seed and copy one."""

    def seed(self, seed: Any = None) -> None:
        """Start again from a seed."""
        self.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def get_state(self) -> Any:
        """Return the state of the generator, its place in the stream."""
        return self.bit_generator.state

    def set_state(self, state: Any) -> None:
        """Go to another place of its stream."""
        self.bit_generator.state = state

    #: With `copy` what a shared value looks for before it hands out a copy.
    shape = ()

    def copy(self) -> RandomState:
        """Return a generator of its own at the same place."""
        made = RandomState(np.random.default_rng())
        made.set_state(self.get_state())
        return made


class Drawn(Op):
    """A draw that has no gradient by the parameters of its law."""

    __props__ = ("law",)

    def __init__(self, law: str) -> None:
        self.law = law

    def make_node(self, draw: Any, *parameters: Any) -> Apply:
        """Return the draw itself, which knows its parameters."""
        return Apply(self, [draw, *parameters], [draw.type()])

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Hand on the draw."""
        output_storage[0][0] = inputs[0]

    def infer_shape(self, node: Tensor, shapes: Sequence[Any]) -> Sequence[Any]:
        """Return the shape of the draw."""
        return shapes[:1]

    def grad(self, inputs: Sequence[Any], output_grads: Sequence[Any]) -> Sequence[Any]:
        """Return gradients that raise when they are used."""
        why = (
            f"a draw of rng.{self.law} has no derivative by this parameter. That of an"
            " expectation needs the score function: the loss times the gradient of the"
            " log-probability of the draw"
        )
        return [None] + [
            grad_undefined(self, i + 1, x, why) for i, x in enumerate(inputs[1:])
        ]


def _cut(x: ArrayLike) -> Any:
    return stop_gradient(x) if isinstance(x, Tensor) else x


def _drawn_from(law: str, draw: Any, parameters: Any) -> Any:
    moving = [
        x for x in parameters if isinstance(x, Tensor) and x.dtype.kind in "fc"
    ]  # fmt: skip
    return Drawn(law)(draw, *moving) if moving else draw


class RandomStreams:
    """Makes random variables.

    Parameters
    ----------
    seed
        An integer; the same gives the same draws.

    Examples
    --------
    >>> import workbench.compat.theano as theano
    >>> from workbench.compat.theano.tensor.shared_randomstreams import RandomStreams
    >>> u = RandomStreams(seed=234).uniform((2, 2))
    >>> f = theano.function([], u)
    >>> bool((f() == f()).any())
    False
    >>> g = theano.function([], u + u - 2 * u)
    >>> g()
    array([[0., 0.],
           [0., 0.]])
    """

    def __init__(self, seed: int | None = None, **_: Any) -> None:
        self.default_instance_seed = seed
        self.gen_seedgen = np.random.default_rng(seed)
        #: Each generator's shared value, in the order of the draws.
        self.state_updates: list[tuple[Shared, Shared]] = []

    def updates(self) -> list[tuple[Shared, Shared]]:
        """Return each generator paired with itself: draws advance the state."""
        return list(self.state_updates)

    def seed(self, seed: int | None = None) -> None:
        """Seed all generators again, each as at its creation."""
        if seed is None:
            seed = self.default_instance_seed
        seeds = np.random.default_rng(seed)
        for held, _ in self.state_updates:
            held.state.seed(int(seeds.integers(2**62)))

    def _stream(self) -> RandomState:
        made = RandomState(np.random.default_rng(int(self.gen_seedgen.integers(2**62))))
        self.state_updates.append((made.shared, made.shared))
        return made

    def draw(
        self,
        method: str,
        size: Any,
        *args: Any,
        dtype: npt.DTypeLike | None = None,
        **named: Any,
    ) -> Array:
        """Draw from the law of a method of NumPy's generators; floats are floatX."""
        stream = self._stream()
        shape = None if size is None else as_lengths(size)
        law, lost = getattr(stream, method), []
        try:
            made = law(*args, **named, size=shape)
        except NotDifferentiableError:  # it draws all the same
            lost = [*args, *named.values()]
            cut = {key: _cut(x) for key, x in named.items()}
            made = law(*map(_cut, args), **cut, size=shape)
        if dtype is not None or made.dtype.kind == "f":
            made = made.astype(dtype_name(dtype))
        made = _drawn_from(method, lift(made), lost)
        HOLDERS[made.serial] = stream.shared
        return made

    def uniform(
        self,
        size: Any = None,
        low: ArrayLike = 0.0,
        high: ArrayLike = 1.0,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = None,
        nstreams: object = None,
        **_: Any,
    ) -> Array:
        """Draw uniformly from an interval."""
        return self.draw("uniform", size, low, high, dtype=dtype_name(dtype))

    def normal(
        self,
        size: Any = None,
        avg: Any = 0.0,
        std: ArrayLike = 1.0,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = None,
        nstreams: object = None,
        **_: Any,
    ) -> Array:
        """Draw from a normal law of a mean and a standard deviation."""
        return self.draw("normal", size, avg, std, dtype=dtype_name(dtype))

    def binomial(
        self,
        size: Any = None,
        n: Any = 1,
        p: ArrayLike = 0.5,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
        prob: Any = None,
        nstreams: object = None,
        **_: Any,
    ) -> Array:
        """Return how often of ``n`` times something of probability ``p`` happens."""
        chance = p if prob is None else prob
        return self.draw("binomial", size, n, chance, dtype=dtype)

    def poisson(
        self,
        size: Any = None,
        lam: Any = 1.0,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
    ) -> Array:
        """Draw from a Poisson law of mean ``lam``."""
        return self.draw("poisson", size, lam, dtype=dtype)

    def random_integers(
        self,
        size: Any = None,
        low: Any = 0,
        high: Any = 1,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
    ) -> Array:
        """Draw integers from ``low`` to ``high``, both included."""
        return self.draw("integers", size, low, high + 1, dtype=dtype)

    def multinomial(
        self,
        size: Any = None,
        n: Any = 1,
        pvals: Any = (0.5, 0.5),
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
        nstreams: object = None,
        **_: Any,
    ) -> Array:
        """Return how often each of several outcomes happens in ``n`` draws."""
        if isinstance(size, tuple) and not size:
            size = None
        return self.draw("multinomial", size, n, pvals, dtype=dtype)

    def choice(
        self,
        size: Any = (),
        a: Any = 2,
        replace: bool = True,
        p: Any = None,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
    ) -> Array:
        """Draw entries of ``a``, or integers below ``a``."""
        stream = self._stream()
        made = stream.choice(a, size=as_lengths(size), replace=replace, p=_cut(p))
        made = _drawn_from("choice", lift(made), [p])
        HOLDERS[made.serial] = stream.shared
        return made

    def permutation(
        self,
        size: Any = None,
        n: int = 1,
        ndim: int | None = None,
        dtype: npt.DTypeLike | None = "int64",
    ) -> Array:
        """Draw an order of the integers below ``n`` for each entry of ``size``."""
        if size is not None and as_lengths(size) != ():
            rows = np.broadcast_to(np.arange(n), (*as_lengths(size), n))
            stream = self._stream()
            made = lift(stream.permuted(rows, axis=-1))
        else:
            stream = self._stream()
            made = lift(stream.permutation(n))
        made = made.astype(dtype)
        HOLDERS[made.serial] = stream.shared
        return made

    def shuffle_row_elements(self, input: Any) -> Array:
        """Return each row of a matrix in an order of its own."""
        stream = self._stream()
        made = lift(stream.permuted(as_tensor_variable(input), axis=-1))
        HOLDERS[made.serial] = stream.shared
        return made


#: The shared value of the generator of each random variable, for ``x.rng``.
HOLDERS: dict[int, Shared] = {}


def _rng(x: Tensor) -> Shared:
    """Return the shared value that holds the generator of a random variable."""
    if x.serial not in HOLDERS:
        raise UsageError(
            f"{x!r} has no generator, because it is not a random variable. Only the"
            " draws of RandomStreams have an rng."
        )
    return HOLDERS[x.serial]


Tensor.rng = property(_rng)  # type: ignore[attr-defined]
