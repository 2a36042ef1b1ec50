"""The functional update: `at(x)[index].set(v)` and its relatives.

These return a changed copy, and the gradient flows to ``x`` where it is kept and to
``v`` where it is used. What changes in place stands in `writing.py`, made of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame, dims, hooks
from workbench.core.deferred import LengthParams
from workbench.core.dims import has_dim
from workbench.core.op import Op, declare
from workbench.core.tensor import (
    MaskedTensor,
    Tensor,
    admit,
    apply,
    mask_cotangent,
    value_of,
)
from workbench.core.types import (
    Array,
    ArrayLike,
    Batched,
    Params,
    Spec,
    is_differentiable,
    is_weak,
)
from workbench.errors import DtypeError, TraceError, UsageError
from workbench.ops.define import (
    dtype_of,
    list_positions,
    op,
    shape_of,
    sum_to,
)
from workbench.ops.device import make_zeros, on_cupy
from workbench.ops.indexing import (
    GETITEM,
    SCATTER,
    WHOLE,
    Key,
    as_index,
    batched_index,
    check_masks,
    find_library_ufunc,
    getitem,
    has_distinct_entries,
    indexed_shape,
    split_target_index,
)
from workbench.ops.lengths import is_mask


def _take_entries(x: Array, arrays: Sequence[Any], key: Key) -> Array:
    return apply(GETITEM, (x, *arrays), {"key": key})


def _put_entries(
    op: Op, x: Array, v: ArrayLike, arrays: Sequence[Any], key: Key
) -> Array:
    return apply(op, (x, v, *arrays), {"key": key})


def _batch(made: Op) -> Callable[..., Any]:
    """Return the batch rule of an update: the index gets the batch axis."""

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        x, v, *arrays = inputs
        size = next(shape_of(i)[0] for i, b in zip(inputs, batched, strict=True) if b)
        if not batched[0]:
            x = np.broadcast_to(x, (size, *shape_of(x)))
        rank = len(shape_of(x)) - 1
        moves = batched_index(
            params["key"], tuple(arrays), batched[2:], rank, has_batch=True
        )
        target = shape_of(moves.bring(_take_entries(x, moves.arrays, moves.key)))
        if batched[1]:
            short = len(target) - len(shape_of(v))
            v = np.reshape(v, (size, *(1,) * short, *shape_of(v)[1:]))
        v = moves.send(np.broadcast_to(v, target))
        return _put_entries(made, x, v, moves.arrays, moves.key)

    return batch


def _updated_spec(made: Op) -> Callable[..., Any]:
    """Return a function that gives the spec of an update: that of the array."""

    def find(x: Array, v: Array, *arrays: Any, key: Key) -> Spec | tuple[Any, ...]:
        shape = shape_of(x)
        if has_dim((shape, shape_of(v), *map(shape_of, arrays), key)):
            return shape
        target = indexed_shape(shape, key, arrays)
        if np.broadcast_shapes(target, shape_of(v)) != target:
            raise ValueError(f"values of shape {shape_of(v)} at {target}")
        one = v if is_weak(v) else np.ones((), dtype_of(v))  # host array: its dtype
        line = np.ones(1, dtype_of(x))  # host array: of its dtype
        return Spec(shape, made.compute(line, one, key=(WHOLE,)).dtype)

    return find


# set


def _set_into(out: Any, v: Array, *arrays: Any, key: Key) -> Array:
    out[as_index(key, arrays)] = v
    return out


def _set_compute(x: Array, v: Array, *arrays: Any, key: Key) -> Array:
    return _set_into(np.copy(x), v, *arrays, key=key)


def _set_pull_array(
    g: Array, y: Array, x: Array, v: Array, *arrays: Any, key: Key
) -> Array:
    passed = _put_entries(SET, g, 0, arrays, key)
    # What a mask replaces must stay 0, whatever its derivative is, as in `where`.
    return mask_cotangent(passed) if any(map(is_mask, arrays)) else passed


def _set_pull_values(
    g: Array, y: Array, x: Array, v: Array, *arrays: Any, key: Key
) -> Array:
    passed = _take_entries(g, arrays, key)
    if not has_distinct_entries(arrays):
        # Where an entry is set twice, the last one stays, as in NumPy.
        size = passed.size
        ids = np.reshape(list_positions(size, like=passed), shape_of(passed))
        blank = make_zeros(ids, shape_of(x))
        owner = _put_entries(SET, blank, ids, arrays, key)
        passed = np.where(np.equal(_take_entries(owner, arrays, key), ids), passed, 0)
    return sum_to(passed, shape_of(v))


def _set_push(
    tangents: tuple[Any, ...], y: Array, x: Array, v: Array, *arrays: Any, key: Key
) -> Array:
    kept = np.zeros_like(y) if tangents[0] is None else tangents[0]
    return _put_entries(
        SET, kept, 0 if tangents[1] is None else tangents[1], arrays, key
    )


SET: Op = op(
    "index_set",
    _set_compute,
    _set_pull_array,
    _set_pull_values,
    push=_set_push,
    kind="update",
    rule="0 at the index, else g   g at the index",
    pattern="replaced",
    template="index_set({0}, np.s_[{index:2}], {1})",
    helper='''\
def index_set(x, index, v):
    """A copy of x with v at an index."""
    out = np.copy(x)
    out[index] = v
    return out
''',
    reads=(),
)
SET.batch, SET.lengths = _batch(SET), _updated_spec(SET)
SET.compute_into = _set_into


def _set_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> tuple[Array | None, Array | None]:
    """Return both cotangents of a set; read that of the values before ``g`` changes."""
    values = _set_pull_values(g, y, *inputs, **params) if mask & 2 else None
    return _set_pull_array(g, y, *inputs, **params) if mask & 1 else None, values


SET.pull = _set_pull


@on_cupy(SET)
def _set_on_cupy(x: Array, v: Array, *arrays: Any, key: Key) -> Array:
    """Keep the last value of an entry named twice; CuPy keeps any of them."""
    if has_distinct_entries(arrays):
        return _set_compute(x, v, *arrays, key=key)
    places, values = _flatten_update(x, v, arrays, key)
    order = np.argsort(places, kind="stable")
    places = places[order]
    last = np.searchsorted(places, places, side="right") - 1
    out = np.copy(np.ravel(x))
    out[places] = values[order][last]
    return np.reshape(out, x.shape)


def _flatten_update(
    x: Array, v: Array, arrays: tuple[Any, ...], key: Key
) -> tuple[Array, Array]:
    """Return the places in the flat array that an index names, and their values."""
    whole = np.reshape(list_positions(x.size, like=x), x.shape)
    places = whole[as_index(key, arrays)]
    values = make_zeros(x, places.shape)
    values[...] = v
    return np.ravel(places), np.ravel(values)


# add

INDEX_AT = '''\
def index_at(ufunc, x, index, v):
    """A copy of x, changed at an index by a ufunc and v."""
    out = np.copy(x)
    ufunc.at(out, index, v)
    return out
'''


def _add_into(out: Any, v: Array, *arrays: Any, key: Key) -> Array:
    if has_distinct_entries(arrays):
        out[as_index(key, arrays)] += v
    else:
        find_library_ufunc("add", out).at(out, as_index(key, arrays), v)
    return out


def _add_compute(x: Array, v: Array, *arrays: Any, key: Key) -> Array:
    return _add_into(np.copy(x), v, *arrays, key=key)


def _add_push(
    tangents: tuple[Any, ...], y: Array, x: Array, v: Array, *arrays: Any, key: Key
) -> Array:
    if tangents[1] is None:
        return tangents[0]
    kept = np.zeros_like(y) if tangents[0] is None else tangents[0]
    return _put_entries(ADD, kept, tangents[1], arrays, key)


ADD: Op = op(
    "index_add",
    _add_compute,
    lambda g, y, x, v, *arrays, key: g,
    lambda g, y, x, v, *arrays, key: sum_to(_take_entries(g, arrays, key), shape_of(v)),
    push=_add_push,
    rule="g   g at the index",
    pattern="added",
    template="index_at(np.add, {0}, np.s_[{index:2}], {1})",
    helper=INDEX_AT,
    reads=(),
    kind="update",
    combines=np.add,
)
ADD.batch, ADD.lengths = _batch(ADD), _updated_spec(ADD)
ADD.compute_into = _add_into


#: What is added to so many times fewer entries than an array has is an update of it.
FEW = 8
#: A sum is looked through for so many updates of zeros.
MOST_UPDATES = 8


def add_to_entries(x: Any, y: Any) -> tuple[Any, list[tuple[Tensor, Key]]] | None:
    """Return a sum as updates of one of the two, if the other is zeros but at indices.

    That one, and what is added to it: nodes of which all inputs but what they are put
    into are operands of an update, with their keys. None where the other is no such
    array, or not zero at nearly all of its entries.
    """
    for whole, part in ((x, y), (y, x)):
        found: list[tuple[Tensor, Key]] = []
        node = part
        while _is_update(node, ADD) and len(found) < MOST_UPDATES:
            found.append((node, node.params["key"]))
            node = node.inputs[0]
        if not _is_update(node, SCATTER):
            continue
        if isinstance(whole, MaskedTensor) or isinstance(part, MaskedTensor):
            continue  # what is 0 there wins over infinity
        found.append((node, node.params["key"]))
        if (
            dtype_of(whole) == dtype_of(part)
            and shape_of(whole) == shape_of(part)
            and all(_is_small(added, part) for added, _ in found)
        ):
            return whole, found[::-1]
    return None


def _is_update(x: Any, op: Op) -> bool:
    """Return whether a value is made by an op at a known index of a known shape."""
    is_made = isinstance(x, Tensor) and x.op is op
    return is_made and type(x.params) is not LengthParams


def list_update(node: Tensor) -> tuple[Any, ...]:
    """Return the values that an update writes, and its index arrays."""
    return tuple(node.inputs[node.op is not SCATTER :])


def _is_small(node: Tensor, whole: Any) -> bool:
    """Return whether an update changes few entries."""
    v, *arrays = list_update(node)
    sizes = (*shape_of(v), *shape_of(whole), *(n for a in arrays for n in shape_of(a)))
    if dims.has_dim(sizes) or any(map(is_mask, arrays)):
        return False
    try:
        target = indexed_shape(shape_of(whole), node.params["key"], tuple(arrays))
    except TraceError:
        return False
    few = FEW * math.prod(target) <= math.prod(shape_of(whole))
    return few and dtype_of(v) == dtype_of(whole)


# max and min: entries that tie share evenly


def _share_ties(
    y: Array, x: Array, v: Array, arrays: Sequence[Array], key: Key
) -> tuple[Any, ...]:
    """Return which entries of x and v are the limits, and how many at each place."""
    kept = np.equal(x, y).astype(dtype_of(y))
    used = np.equal(v, _take_entries(y, arrays, key)).astype(dtype_of(y))
    return kept, used, _put_entries(ADD, kept, used, arrays, key)


def _limit(name: str, ufunc: str) -> Op:
    def compute_into(out: Any, v: Array, *arrays: Any, key: Key) -> Array:
        find_library_ufunc(ufunc, out).at(out, as_index(key, arrays), v)
        return out

    def compute(x: Array, v: Array, *arrays: Any, key: Key) -> Array:
        return compute_into(np.copy(x), v, *arrays, key=key)

    def compute_on_cupy(x: Array, v: Array, *arrays: Any, key: Key) -> Array:
        """Sort by place and value: CuPy's ``ufunc.at`` rounds float64 to float32."""
        places, values = _flatten_update(x, v, arrays, key)
        order = np.argsort(values, kind="stable")
        order = order[np.argsort(places[order], kind="stable")]
        places, values = places[order], values[order]
        best = values[np.searchsorted(places, places, side="right") - 1]
        if ufunc == "minimum":  # NaN is sorted to the end, and wins
            first = values[np.searchsorted(places, places, side="left")]
            best = np.where(np.equal(best, best), first, best)
        out = np.copy(np.ravel(x))
        out[places] = getattr(np, ufunc)(out[places], best)
        return np.reshape(out, x.shape)

    def pull_array(
        g: Array, y: Array, x: Array, v: Array, *arrays: Any, key: Key
    ) -> Array:
        kept, _, ties = _share_ties(y, x, v, arrays, key)
        return g / ties * kept

    def pull_values(
        g: Array, y: Array, x: Array, v: Array, *arrays: Any, key: Key
    ) -> Array:
        _, used, ties = _share_ties(y, x, v, arrays, key)
        return sum_to(_take_entries(g / ties, arrays, key) * used, shape_of(v))

    def push(
        tangents: tuple[Any, ...], y: Array, x: Array, v: Array, *arrays: Any, key: Key
    ) -> Array:
        kept, used, ties = _share_ties(y, x, v, arrays, key)
        moved = 0 * kept if tangents[0] is None else tangents[0] * kept
        if tangents[1] is not None:
            moved = _put_entries(ADD, moved, tangents[1] * used, arrays, key)
        return moved / ties

    made = op(
        name,
        compute,
        pull_array,
        pull_values,
        push=push,
        rule="g to what stays, shared evenly at a tie",
        partials=("x0 == y", "x1 == y"),
        pattern="added",
        template=f"index_at(np.{ufunc}, {{0}}, np.s_[{{index:2}}], {{1}})",
        helper=INDEX_AT,
        reads=(0, 1, "y"),
        kind="update",
        combines=getattr(np, ufunc),
    )
    made.batch, made.lengths = _batch(made), _updated_spec(made)
    made.compute_into = compute_into
    on_cupy(made)(compute_on_cupy)
    return made


MAX, MIN = _limit("index_max", "maximum"), _limit("index_min", "minimum")


# What users type


class at:
    """The functional update: ``at(x)[index]`` names a place, for a method to change.

    Methods of the place: ``set``, ``add``, ``multiply``, ``min``, ``max``, ``get``.
    Each returns a changed copy in the dtype of ``x``. Of an index that occurs
    twice, ``set`` keeps the last value, the others take in all.

    Parameters
    ----------
    x
        An array or Tensor.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.at(np.zeros(3))[1:].set(5.0)
    array([0., 5., 5.])
    >>> wb.at(np.zeros(3))[[0, 0, 2]].add(1.0)
    array([2., 0., 1.])
    """

    __slots__ = ("x",)

    def __init__(self, x: Array) -> None:
        self.x = admit(x)

    def __getitem__(self, index: object) -> Place:
        return Place(self.x, index)

    def __getattr__(self, name: str) -> Any:
        if name in ("set", "add", "multiply", "min", "max", "get"):
            raise AttributeError(
                f"wb.at(x).{name}{blame.user_line()}: say which entries are meant."
                f" Write wb.at(x)[index].{name}(...); wb.at(x)[...] means all."
            )
        raise AttributeError(
            f"wb.at(x){blame.user_line()} is not an array, and has no {name!r}. Take"
            " that of x itself."
        )

    def __setitem__(self, index: object, value: Array) -> None:
        raise UsageError(
            f"wb.at(x)[i] = v{blame.user_line()}: wb.at(x) changes nothing in place."
            " Write x = wb.at(x)[i].set(v), or x[i] = v."
        )


def _multiply_entries(x: Array, index: object, values: ArrayLike) -> Array:
    return Place(x, index).multiply(values)


class Place:
    """Some entries of an array, as ``at(x)[index]`` names them."""

    __slots__ = ("arrays", "index", "key", "numbered", "x")

    def __init__(self, x: Array, index: object) -> None:
        self.x = x
        self.index = index
        self.key, self.arrays, self.numbered = split_target_index(x, index)
        if self._flags() is None:
            check_masks(x, self.arrays)

    def _flags(self) -> Array | None:
        """Return the index as a mask with one flag per entry, or None."""
        mask = admit(self.index) if not isinstance(self.index, tuple) else None
        if not is_mask(mask) or not dims.is_same_shape(
            shape_of(mask), shape_of(self.x)
        ):
            return None
        return mask

    def __repr__(self) -> str:
        return "wb.at(x)[index], a place and no value (x[index] reads it)"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{NO_VALUE.format(blame.user_line())} It has no {name!r}."
        )

    def get(self) -> Array:
        """Return the entries: ``x[index]``."""
        return getitem(self.x, self.index)

    def set(self, values: ArrayLike) -> Array:
        """Return a copy of ``x`` with these entries replaced.

        Those that a boolean index replaces never poison a gradient, as in `np.where`:
        what they were may be infinite or NaN, and so may its slope.
        """
        values, mask = admit(values), self._flags()
        if mask is not None and shape_of(values) == ():
            # In a batch each example may have a mask of its own.
            made = np.where(mask, values, self.x)
            if dtype_of(made) == dtype_of(self.x):
                return made
        return self._change(SET, values)

    def add(self, values: ArrayLike) -> Array:
        """Return ``x`` with ``values`` added; an entry named twice gets both."""
        return self._change(ADD, values)

    def min(self, values: ArrayLike) -> Array:
        """Return a copy of ``x`` with ``values`` where they are smaller."""
        return self._change(MIN, values)

    def max(self, values: ArrayLike) -> Array:
        """Return a copy of ``x`` with ``values`` where they are larger."""
        return self._change(MAX, values)

    def multiply(self, values: ArrayLike) -> Array:
        """Return ``x`` times ``values``; an entry named twice takes both factors.

        Raises
        ------
        TraceError
            If an index has no value in the trace: it may name an entry twice.
        """
        arrays = tuple(map(value_of, self.arrays))
        place = self
        if not all(a is not None and has_distinct_entries((a,)) for a in arrays):
            if any(a is None for a in arrays):
                raise TraceError(
                    f"at(x)[...].multiply{blame.user_line()}: whether the index names"
                    " an entry twice is not known while tracing without values. Give"
                    " the index as a plain array, or write"
                    " at(x)[i].set(at(x)[i].get() * v) if no entry is named twice."
                )
            if dims.has_dim(shape_of(self.x)):
                return hooks.call_deferred(
                    _multiply_entries, (self.x, self.index, values), {}
                )
            values, chosen = self._factors(values, arrays)
            if chosen is not None:
                place = Place(np.ravel(self.x), chosen)
        changed = place._change(SET, place.get() * values)
        return np.reshape(changed, shape_of(self.x))

    def _factors(self, values: ArrayLike, arrays: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return one factor for each entry named, and where these entries are.

        Factors of the same entry are multiplied pair by pair, so that each has its
        derivative whichever of them is 0; after log2(repeats) rounds one is left.
        """
        shape = shape_of(self.x)
        line = np.arange(math.prod(shape))  # host array: the number of each entry
        named = line.reshape(shape)[as_index(self.key, tuple(map(_host, arrays)))]
        order = np.argsort(named, axis=None, kind="stable")
        entries = named.ravel()[order]
        if not (entries[1:] == entries[:-1]).any():
            return values, None
        factors = np.take(np.ravel(np.broadcast_to(values, named.shape)), order)
        while (again := np.append(False, entries[1:] == entries[:-1])).any():
            # The place of each factor among those of its entry.
            line = np.arange(len(entries))  # host array: positions
            first = np.maximum.accumulate(np.where(again, 0, line))
            even = np.flatnonzero((line - first) % 2 == 0)
            follows = np.append(entries[1:] == entries[:-1], False)[even]
            ahead = np.where(follows, even + 1, len(entries))
            padded = np.concatenate([factors, np.ones_like(factors[:1])])
            factors = np.take(factors, even) * np.take(padded, ahead)
            entries = entries[even]
        return factors, entries

    def _change(self, op: Op, values: ArrayLike) -> Array:
        values = admit(values)
        check_masks(self.x, self.arrays)
        dtype, value_dtype = dtype_of(self.x), dtype_of(values)
        smooth = isinstance(values, Tensor) and is_differentiable(value_dtype)
        if smooth and dtype.kind in "biu":
            raise DtypeError(
                f"at(x)[...] with x of dtype {dtype} and values of {value_dtype}"
                f"{blame.user_line()}: the values would be rounded and their gradient"
                " lost. Write x.astype(float)."
            )
        # Numbers of the entries now: that they were a mask is said of the array.
        hidden = self.numbered and op is SET
        x = apply(declare("mask"), (self.x,)) if hidden else self.x
        return _put_entries(op, x, values, self.arrays, self.key)


#: Said where a place is used as if it were the entries that it names.
NO_VALUE = (
    "wb.at(x)[index]{} is a place, and no value. Write x[index] to read its entries,"
    " or wb.at(x)[index].set(v), .add(v), .multiply(v), .min(v), .max(v) for a changed"
    " copy of x."
)


def _refuse_value(self: Any, *args: Any, **kwargs: Any) -> Array:
    raise UsageError(NO_VALUE.format(blame.user_line()))


# What reads or computes with a value; NumPy and Tensors ask the last three.
for _name in """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow
    matmul rmatmul neg pos abs lt le gt ge eq ne and rand or ror xor rxor iadd isub imul
    itruediv float int complex bool len iter getitem setitem contains array array_ufunc
    array_function
""".split():
    setattr(Place, f"__{_name}__", _refuse_value)
    if _name not in ("getitem", "setitem"):
        setattr(at, f"__{_name}__", _refuse_value)


def _host(array: Array) -> Array:
    """Return a copy in NumPy of an index of any library."""
    return array.get() if hasattr(array, "get") else array
