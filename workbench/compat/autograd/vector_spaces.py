"""autograd's vector spaces: what zeros, ones, sums and bases of a value are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from workbench.compat.autograd.boxes import getval
from workbench.core import tree
from workbench.core.tensor import Tensor, gather_argument

__all__ = ["ArrayVSpace", "ContainerVSpace", "VSpace", "vspace"]


class VSpace:
    """The space of a value; a subclass with ``register`` makes one of a user's type.

    A subclass defines ``zeros`` and ``_add``, and ``_scalar_mul``, ``_inner_prod``,
    ``randn`` and ``standard_basis`` where they are asked for.
    """

    mappings: ClassVar[dict[type, Callable[[Any], Any]]] = {}
    iscomplex = False
    size: int
    shape: Any

    def __init__(self, value: Any) -> None:
        pass

    @classmethod
    def register(
        cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None
    ) -> None:
        """Use this space, or what a function makes, for values of a type."""
        VSpace.mappings[value_type] = vspace_maker or cls

    def zeros(self) -> Any:
        """Return the zero of the space."""
        raise NotImplementedError(f"{type(self).__name__} has no zeros()")

    def add(self, x: Any, y: Any) -> Any:
        """Return the sum of two vectors."""
        return self._add(x, y)

    def mut_add(self, x: Any, y: Any) -> Any:
        """Return the sum of two vectors, the first of which may be None."""
        return self._mut_add(self.zeros() if x is None else x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return a vector times a number."""
        return self._scalar_mul(x, a)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the inner product of two vectors, a real number."""
        return self._inner_prod(x, y)

    def covector(self, x: Any) -> Any:
        """Return the covector of a vector: its conjugate."""
        return self._covector(x)

    def _add(self, x: Any, y: Any) -> Any:
        return x + y

    def _mut_add(self, x: Any, y: Any) -> Any:
        return self._add(x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return x * a

    def _inner_prod(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inner_prod(x, y)")

    def _covector(self, x: Any) -> Any:
        return x

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}_{vars(self)}"


class ArrayVSpace(VSpace):
    """The space of arrays of a shape and a dtype; integers count as floats."""

    def __init__(self, value: Any) -> None:
        self.shape = np.shape(value)
        found = np.result_type(getval(value))
        self.dtype = found if found.kind in "fc" else np.dtype(float)

    @property
    def iscomplex(self) -> bool:  # type: ignore[override]
        """Whether the entries are complex numbers."""
        return self.dtype.kind == "c"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The dimension over the real numbers: complex entries count twice."""
        return int(np.prod(self.shape)) * (2 if self.iscomplex else 1)

    def zeros(self) -> Any:
        """Return an array of zeros."""
        return np.zeros(self.shape, self.dtype)

    def ones(self) -> Any:
        """Return the sum of all unit vectors."""
        return np.full(self.shape, 1 + 1j if self.iscomplex else 1, self.dtype)

    def randn(self) -> Any:
        """Return an array of normal draws."""
        drawn = np.random.randn(*self.shape)
        if self.iscomplex:
            drawn = drawn + 1j * np.random.randn(*self.shape)
        return np.asarray(drawn, self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        """Yield the unit vectors, of complex numbers the imaginary ones too."""
        for place in np.ndindex(*self.shape):
            for unit in (1, 1j) if self.iscomplex else (1,):
                made = self.zeros()
                made[place] = unit
                yield made

    def _inner_prod(self, x: Any, y: Any) -> Any:
        product = np.vdot if self.iscomplex else np.dot
        return np.real(product(np.ravel(x), np.ravel(y)))

    def _covector(self, x: Any) -> Any:
        return np.conj(x) if self.iscomplex else x


class ContainerVSpace(VSpace):
    """The space of nests of arrays: lists, tuples, dicts."""

    def __init__(self, value: Any) -> None:
        leaves, self.structure = tree.flatten(value)
        self.spaces = [vspace(leaf) for leaf in leaves]

    @property
    def shape(self) -> Any:
        """The spaces of the leaves, nested like the value."""
        return self.structure(self.spaces)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of entries of all leaves."""
        return sum(space.size for space in self.spaces)

    def _map(self, name: str, *values: Any) -> Any:
        flat = [tree.flatten(x)[0] for x in values]
        each = zip(self.spaces, *flat, strict=True)
        return self.structure([getattr(s, name)(*leaves) for s, *leaves in each])

    def zeros(self) -> Any:
        """Return zeros in the place of each leaf."""
        return self._map("zeros")

    def ones(self) -> Any:
        """Return ones in the place of each leaf."""
        return self._map("ones")

    def randn(self) -> Any:
        """Return normal draws in the place of each leaf."""
        return self._map("randn")

    def standard_basis(self) -> Iterator[Any]:
        """Yield the unit vectors, leaf by leaf."""
        for i, space in enumerate(self.spaces):
            for unit in space.standard_basis():
                leaves = [s.zeros() for s in self.spaces]
                leaves[i] = unit
                yield self.structure(leaves)

    def _add(self, x: Any, y: Any) -> Any:
        return self._map("_add", x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        flat = tree.flatten(x)[0]
        each = zip(self.spaces, flat, strict=True)
        return self.structure([s._scalar_mul(leaf, a) for s, leaf in each])

    def _inner_prod(self, x: Any, y: Any) -> Any:
        flat = tree.flatten(x)[0], tree.flatten(y)[0]
        each = zip(self.spaces, *flat, strict=True)
        return sum(s._inner_prod(a, b) for s, a, b in each)

    def _covector(self, x: Any) -> Any:
        return self._map("_covector", x)


def vspace(value: Any) -> Any:
    """Return the space of a value: an array, a nest, or an object of a known type.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.compat.autograd.extend import vspace
    >>> vspace({"a": np.zeros(2), "b": 1.0}).ones()
    {'a': array([1., 1.]), 'b': array(1.)}
    """
    value = gather_argument(value)
    made = VSpace.mappings.get(type(value)) or VSpace.mappings.get(type(getval(value)))
    if made is not None:
        return made(getval(value))
    if isinstance(value, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
        return ArrayVSpace(value)
    leaves, structure = tree.flatten(value)
    if len(leaves) != 1 or leaves[0] is not value:
        made_of = ContainerVSpace(value)
        assert structure is not None
        return made_of
    raise TypeError(
        f"Can't find vector space for value {value!r} of type {type(value)}. Arrays,"
        " numbers and nests of them have one; for a type of your own write a subclass"
        " of VSpace and call its register."
    )
