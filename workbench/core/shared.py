"""`Shared`: a leaf of a program with a value that lives on between runs.

To the graph it is a symbol: it has a dtype and a shape and no value. Whoever runs a
program reads what it holds now, and may write what it shall hold next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from itertools import compress, repeat
from operator import attrgetter, methodcaller
from threading import RLock
from typing import Any, NoReturn

import numpy as np

from workbench.core import blame, types
from workbench.core.tensor import IDENTITY, NO_PARAMS, Tensor, read_argument
from workbench.core.tree import is_sparse
from workbench.core.types import Spec
from workbench.errors import DtypeError, ShapeError, UsageError


class Shared(Tensor):
    """A value that programs share, and keep from one run to the next.

    Made by :func:`workbench.shared`. In an expression it is a symbol; a
    :func:`workbench.function` reads what it holds when it runs, and writes it where
    it is among its ``updates``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> total, x = wb.shared(0.0, "total"), wb.scalar("x")
    >>> add = wb.function([x], None, updates={total: total + x})
    >>> add(2.0), add(3.0)
    (None, None)
    >>> float(total.get_value())
    5.0
    """

    __slots__ = ("lock", "state")

    #: What it holds now.
    state: Any
    #: Held by a writer from before its read: no update is lost.
    lock: RLock

    def __init__(self, state: object, spec: Spec, name: str | None, site: Any) -> None:
        super().__init__(IDENTITY, (), (), NO_PARAMS, None, *site)
        self.name = name
        self.spec = spec
        self.state = state
        self.lock = RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        # As of any Tensor, the copy would be this one: two models, one state.
        raise UsageError(
            f"{self.describe()} cannot be copied deeply: expressions and functions"
            " made of it would go on with this one. Build them on another,"
            " wb.shared(w.get_value()), or swap it in a function:"
            " f.copy(swap={w: other})."
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self.describe()} cannot be pickled: it belongs to the programs of this"
            " process. Pickle its value, w.get_value()."
        )

    def get_value(self, borrow: bool = False) -> Any:
        """Return a copy of the value, or with ``borrow`` the array itself, to be read.

        Examples
        --------
        >>> import workbench as wb
        >>> wb.shared([1.0, 2.0]).get_value()
        array([1., 2.])
        """
        state = self.state
        return state if borrow else copy_state(state)

    def set_value(self, new: object, borrow: bool = False) -> None:
        """Hold another value, of the same shape and of a dtype of the same kind.

        Parameters
        ----------
        new
            An array or a number. It is cast where NumPy's ``same_kind`` allows
            that: float64 to float32, never float to int.
        borrow
            Keep the array itself, in place of a copy of it.

        Raises
        ------
        ShapeError, DtypeError
            If it is of another shape, or of a dtype that cannot become this one.

        Examples
        --------
        >>> import workbench as wb
        >>> w = wb.shared([1.0, 2.0], "w")
        >>> w.set_value([3, 4])
        >>> w.get_value()
        array([3., 4.])
        """
        fitted = self.fit_value(new)
        if fitted is new and not borrow:
            fitted = copy_state(new)
        with self.lock:
            self.state = fitted

    def fit_value(self, new: Any) -> Any:
        """Return a value in this dtype, if its shape is one that is allowed.

        Raises
        ------
        ShapeError, DtypeError
            As `set_value`.
        """
        spec = self.spec
        if spec.dtype == object:  # no array: a generator of random numbers
            return new
        if isinstance(new, Tensor):
            new = new.value
        refuse_sparse(new, self.describe())
        new = read_argument(new)
        if not hasattr(new, "dtype"):
            new = self._plain(new)
        elif isinstance(new, np.ndarray) and type(new) is not np.ndarray:
            new = types.strip_subclass(new)
        elif type(new) is np.ndarray and hasattr(
            self.state, "__cuda_array_interface__"
        ):
            new = np.asarray(new, like=self.state)  # to where it lies
        if not np.can_cast(new.dtype, spec.dtype, "same_kind"):
            raise DtypeError(
                f"{self.describe()} is given values of dtype {new.dtype}, which do"
                f" not become {spec.dtype} by themselves. Cast them on purpose:"
                f" values.astype(np.{spec.dtype})."
            )
        if not matches_lengths(new.shape, spec.shape):
            raise ShapeError(
                f"{self.describe()} is given a value of shape {new.shape}. Give one"
                " of its shape, or leave lengths open where it is made:"
                f" wb.shared(value, shape={(None,) * len(new.shape)})."
            )
        if isinstance(new, np.generic):
            return np.asarray(new, spec.dtype)
        return new if new.dtype == spec.dtype else new.astype(spec.dtype)

    def _plain(self, new: Any) -> Any:
        """Return Python's numbers, or lists of them, as an array."""
        try:
            array = np.asarray(new)
        except ValueError as error:
            raise ShapeError(
                f"{self.describe()} is given a nest of uneven lengths: {error} Give"
                " lists of one length."
            ) from error
        if array.dtype.kind in "iu" and not fits_dtype(array, self.spec.dtype):
            raise DtypeError(
                f"{self.describe()} is given {new!r}, which is out of its range. Give"
                " numbers that it holds, or make it of a wider dtype."
            )
        return array

    def describe(self) -> str:
        """Return the words for the shared value in an error."""
        name = "" if self.name is None else f" {self.name!r}"
        return f"the shared value{name} {self.spec}{blame.quote_site(self.site)}"

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r}, "
        return f"<Shared {name}{self.spec}>"

    __str__ = __repr__


def matches_lengths(shape: Sequence[int], lengths: Sequence[Any]) -> bool:
    """Return whether a shape has the known lengths; the others may be any."""
    return len(shape) == len(lengths) and all(
        not isinstance(n, int) or n == m for m, n in zip(shape, lengths, strict=True)
    )


def refuse_sparse(x: Any, what: str) -> None:
    """Refuse a sparse array in the place of a dense one: its ``*`` may be ``@``.

    Raises
    ------
    DtypeError
        If it is one.
    """
    if is_sparse(x):
        raise DtypeError(
            f"{what} is given a sparse array of shape {x.shape}, and is dense. Give"
            " S.toarray(), or write the sparse one into the expression, S @ x."
        )


def fits_dtype(x: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Return whether integers are in the range of a dtype; True for other values."""
    if dtype.kind not in "iu" or not np.can_cast(x.dtype, dtype, "same_kind"):
        return True
    return bool(np.all(x.astype(dtype) == x))


def copy_state(state: Any) -> Any:
    """Return a copy of an array of any library, or of a generator of random numbers."""
    return state.copy() if hasattr(state, "shape") else deepcopy(state)


_states = attrgetter("state")


def read_states(shared: Sequence[Shared]) -> list[Any]:
    """Return the values of several shared values at one moment.

    The loop runs in C: no other thread and no interrupt stands between two of them.
    """
    return list(map(_states, shared))


def write_states(shared: Sequence[Shared], states: Sequence[Any]) -> None:
    """Write all, as `read_states` reads: all of them or none, be there an interrupt."""
    deque(map(setattr, shared, repeat("state"), states), maxlen=0)


_acquire, _release = methodcaller("acquire"), methodcaller("release")
_consume = deque[Any](maxlen=0).extend


class Locks:
    """Several locks, taken in order; an interrupt at any moment leaves none behind.

    What is taken is noted, and let go, by loops in C: ``release`` is to be called in
    a ``finally`` whose ``try`` began before ``acquire``.
    """

    __slots__ = ("_acquired", "_locks", "release")

    def __init__(self, locks: Sequence[Any]) -> None:
        self._locks = locks
        self._acquired: list[Any] = []
        leaving = map(_release, compress(locks, self._acquired))
        #: Let go of those that are taken. No code of Python runs in it.
        self.release = partial(_consume, leaving)

    def acquire(self) -> None:
        """Take all, waiting for each."""
        self._acquired.extend(map(_acquire, self._locks))
