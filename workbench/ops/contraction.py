"""Contractions: products summed over axes, linear in each operand.

`matmul`, `tensordot` and `einsum` stand here; what is written with these (`dot`,
`outer`, ...) in `products.py`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.dims import (
    Dim,
    broadcast_lengths,
    broadcast_shapes,
    is_same_shape,
    unify_lengths,
)
from workbench.core.op import UFUNCS, Op, declare, implements
from workbench.core.tensor import Tensor, admit, apply, mask_cotangent
from workbench.core.traits import Traits
from workbench.core.types import (
    Array,
    Batched,
    Params,
    Shape,
    Spec,
    Tangent,
    as_spec,
    spec_of,
)
from workbench.ops.define import (
    align_batch,
    list_positions,
    multilinear,
    shape_of,
    sum_to,
)
from workbench.ops.indexing import ARRAY, SCATTER
from workbench.ops.shaping import normal_axes

#: The axes of the two operands of a tensordot that meet, pair by pair.
AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]
#: How einsum looks for an order of products: NumPy's ``optimize=``.
Optimize = bool | str | Sequence[Any] | None


def swap(x: Array) -> Array:
    """Return the transpose of the last two axes."""
    return x.T if len(shape_of(x)) == 2 else np.swapaxes(x, -1, -2)


def product_dtype(*operands: Any) -> np.dtype[Any]:
    """Return the dtype of a product; a Python number never decides it."""
    specs = map(as_spec, operands)
    return np.result_type(*(s.example() if s.weak else s.dtype for s in specs))


# matmul


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        raise ValueError("matmul: an operand has no axis, write * for a number")
    meeting = b[-2 if len(b) > 1 else 0]
    unify_lengths(
        a[-1],
        meeting,
        f"the last axis of {a} has length {a[-1]}, the axis of {b} that meets it"
        f" {meeting}",
    )
    loop = broadcast_shapes(a[:-2], b[:-2])
    return (*loop, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _matmul_infer(a: Array, b: Array) -> Spec:
    a, b = as_spec(a), as_spec(b)
    return Spec(_matmul_shape(a.shape, b.shape), product_dtype(a, b))


def _matmul_left(g: Array, a: Array, b: Array) -> Array:
    """Return the cotangent of ``a`` in ``a @ b``."""
    if len(shape_of(b)) == 1:
        return g[..., None] * b
    if len(shape_of(a)) == 1:
        if len(shape_of(b)) == 2:
            return b @ g
        g = g[..., None, :]
        return sum_to(g @ swap(b), (*shape_of(b)[:-2], 1, shape_of(a)[0]))[..., 0, :]
    return g @ swap(b)


def _matmul_right(g: Array, a: Array, b: Array) -> Array:
    """Return the cotangent of ``b`` in ``a @ b``."""
    if len(shape_of(a)) == 1:
        return a * g if len(shape_of(b)) == 1 else a[:, None] * g[..., None, :]
    if len(shape_of(b)) == 1:
        if len(shape_of(a)) == 2:
            return g @ a
        rows = math.prod(shape_of(g))
        return np.reshape(g, (rows,)) @ np.reshape(a, (rows, shape_of(b)[0]))
    return swap(a) @ g


def _matmul_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    a, b = inputs
    row = len(shape_of(a)) - batched[0] == 1
    column = len(shape_of(b)) - batched[1] == 1
    if row and column and all(batched):
        return np.einsum("bi,bi->b", a, b)
    # One product for the whole batch, where NumPy would loop over the examples.
    if column and not batched[1]:
        return a @ b
    if row and not batched[1] and len(shape_of(b)) == 2:
        return a @ b
    if column and not batched[0] and len(shape_of(a)) <= 2:
        return b @ swap(a) if len(shape_of(a)) == 2 else b @ a
    if not batched[1] and len(shape_of(a)) == 3 and len(shape_of(b)) == 2:
        size, rows, width = shape_of(a)
        flat = np.reshape(a, (size * rows, width)) @ b
        return np.reshape(flat, (size, rows, shape_of(b)[1]))
    # A vector becomes a matrix, so that the batch axis is one to loop over.
    if row:
        a = a[..., None, :]
    if column:
        b = b[..., None]
    a, b = align_batch((a, b), batched)
    y = a @ b
    y = y[..., 0] if column else y
    return (y[..., 0] if column else y[..., 0, :]) if row else y


def _pairs_vectors(inputs: tuple[Any, ...], params: Params) -> bool:
    return all(len(shape_of(x)) == 1 for x in inputs)


#: The traits of a product of two operands that sums over axes.
CONTRACTION: Any = {"contracts": True, "sums": True, "grows": True, "analytic": True}

MATMUL = multilinear(
    "matmul",
    operator.matmul,
    _matmul_left,
    _matmul_right,
    rule="g x₁ᵀ   x₀ᵀ g",
    batch=_matmul_batch,
    infer=_matmul_infer,
    cure="The last axis of the left operand must be as long as the second last (or"
    " only) axis of the right one; transpose one of them with .T.",
    template="{0} @ {1}",
    aliases=("dot", "inner"),
    **CONTRACTION,
)
UFUNCS[np.matmul] = MATMUL
MATMUL.pairs = _pairs_vectors


# tensordot


def _list_free_axes(rank: int, used: tuple[int, ...]) -> list[int]:
    return [n for n in range(rank) if n not in used]


def _tensordot_compute(a: Array, b: Array, *, axes: AxisPairs) -> Array:
    return np.tensordot(a, b, axes)


def _tensordot_infer(a: Array, b: Array, *, axes: AxisPairs) -> Spec:
    a, b = as_spec(a), as_spec(b)
    for i, j in zip(*axes, strict=True):
        unify_lengths(
            a.shape[i],
            b.shape[j],
            f"axis {i} of {a.shape} has length {a.shape[i]}, axis {j} of"
            f" {b.shape} has {b.shape[j]}",
        )
    shape = [a.shape[n] for n in _list_free_axes(len(a.shape), axes[0])]
    shape += [b.shape[n] for n in _list_free_axes(len(b.shape), axes[1])]
    return Spec(tuple(shape), product_dtype(a, b))


def _tensordot_left(g: Array, a: Array, b: Array, *, axes: AxisPairs) -> Array:
    rank, (left, right) = len(shape_of(a)), axes
    free, other = _list_free_axes(rank, left), _list_free_axes(len(shape_of(b)), right)
    outer = tuple(range(len(free), len(free) + len(other)))
    # The axes come out as: free ones of a, then the summed ones in the order of b.
    passed = np.tensordot(g, b, (outer, tuple(other)))
    order = [*free, *(left[right.index(n)] for n in sorted(right))]
    return np.transpose(passed, [order.index(n) for n in range(rank)])


def _tensordot_right(g: Array, a: Array, b: Array, *, axes: AxisPairs) -> Array:
    rank, (left, right) = len(shape_of(b)), axes
    other, free = _list_free_axes(len(shape_of(a)), left), _list_free_axes(rank, right)
    outer = tuple(range(len(other)))
    passed = np.tensordot(a, g, (tuple(other), outer))
    order = [*(right[left.index(n)] for n in sorted(left)), *free]
    return np.transpose(passed, [order.index(n) for n in range(rank)])


def _tensordot_batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> Array:
    a, b = inputs
    left, right = params["axes"]
    if not all(batched):
        # One operand is the same for all examples: its batch axis is a free one.
        shifted = (
            tuple(n + batched[0] for n in left), tuple(n + batched[1] for n in right)
        )  # fmt: skip
        y = np.tensordot(a, b, shifted)
        return y if batched[0] else np.moveaxis(y, len(shape_of(a)) - len(left), 0)
    ranks = len(shape_of(a)) - 1, len(shape_of(b)) - 1
    spelt = tensordot_subscripts(ranks, left, right)
    first, second, output = re.split(",|->", spelt)
    return np.einsum(f"Z{first},Z{second}->Z{output}", a, b)


def tensordot_subscripts(
    ranks: tuple[int, int], left: tuple[int, ...], right: tuple[int, ...]
) -> str:
    """Return the einsum that a tensordot is."""
    first = LETTERS[: ranks[0]]
    second = list(LETTERS[ranks[0] : sum(ranks)])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    output = [first[n] for n in _list_free_axes(ranks[0], left)]
    output += [second[n] for n in _list_free_axes(ranks[1], right)]
    return f"{first},{''.join(second)}->{''.join(output)}"


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
TENSORDOT = multilinear(
    "tensordot",
    _tensordot_compute,
    _tensordot_left,
    _tensordot_right,
    rule="g · x₁ over its free axes   x₀ · g over its free axes",
    batch=_tensordot_batch,
    infer=_tensordot_infer,
    cure="The axes that meet must have equal lengths, pair by pair.",
    aliases=("dot", "inner"),
    **CONTRACTION,
)


def _pairs_all_axes(inputs: tuple[Any, ...], params: Params) -> bool:
    left, right = params["axes"]
    return bool(left == right) and len(left) == len(shape_of(inputs[0]))


TENSORDOT.pairs = _pairs_all_axes


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Array, b: Array, axes: Any = 2) -> Array:
    """Sum products over pairs of axes, as `numpy.tensordot` does."""
    a, b = admit(a), admit(b)
    ranks = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, (tuple, list)):
        left, right = axes
    else:
        axes = min(axes, max(ranks) + 1)  # more there are not, and no list of them
        left, right = range(ranks[0] - axes, ranks[0]), range(axes)
    left, right = (
        normal_axes(list(n) if isinstance(n, range) else n, rank)
        for n, rank in zip((left, right), ranks, strict=True)
    )
    if len(left) != len(right):
        raise ValueError(f"tensordot: {len(left)} axes of a, {len(right)} of b")
    return apply(TENSORDOT, (a, b), {"axes": (left, right)})


# `einsum`: any product of any number of operands, summed over any axes.
#
# All spellings become one: explicit subscripts without an ellipsis. The gradient of
# an operand is an einsum of the cotangent and the other operands. Three operands and
# more are multiplied pair by pair, in the order that opt_einsum finds (D. G. A. Smith,
# J. Gray, "opt_einsum", Journal of Open Source Software 3 (2018) 753).


def _einsum_compute(
    *operands: Any, subscripts: str, optimize: Optimize = None
) -> Array:
    shapes = tuple(map(shape_of, operands))
    if optimize is None:
        # Looking for products that BLAS can do pays only for large operands.
        optimize = len(operands) > 1 and sum(map(math.prod, shapes)) > 4096
        if len(operands) > 2 and not optimize:
            optimize = (
                math.prod(_lengths(parse_subscripts(subscripts)[0], shapes).values())
                > 4096
            )
    if len(operands) > 2 and (optimize is True or isinstance(optimize, str)):
        how = "auto" if optimize is True else optimize
        optimize = _find_path(subscripts, shapes, how)
    return np.einsum(subscripts, *operands, optimize=optimize)


@lru_cache(maxsize=1024)
def _find_path(subscripts: str, shapes: tuple[Shape, ...], how: str) -> list[Any]:
    """Return the order of pairwise products, by opt_einsum; looked for once."""
    # Loaded here: a program without such products needs no search for paths.
    from opt_einsum import contract_path

    path, _ = contract_path(subscripts, *shapes, shapes=True, optimize=how)
    return ["einsum_path", *path]


def parse_subscripts(subscripts: str) -> tuple[list[str], str]:
    """Return the terms of the operands, and that of the output."""
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def _lengths(terms: list[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """Return the length of each letter's axis."""
    lengths: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"{term!r} names {len(term)} axes of shape {shape}")
        for letter, n in zip(term, shape, strict=True):
            known = lengths.setdefault(letter, n)
            if isinstance(known, Dim) or isinstance(n, Dim):
                lengths[letter] = broadcast_lengths(known, n)
            elif known != n:
                if 1 not in (n, lengths[letter]):
                    raise ValueError(
                        f"axes {letter!r} have lengths {lengths[letter]} and {n}"
                    )
                lengths[letter] = max(n, lengths[letter])
    return lengths


def _einsum_infer(*operands: Any, subscripts: str, **_: Any) -> Spec:
    specs = [as_spec(x) for x in operands]
    terms, output = parse_subscripts(subscripts)
    lengths = _lengths(terms, [s.shape for s in specs])
    if missing := set(output) - set(lengths):
        raise ValueError(f"the output names {sorted(missing)}, which no operand has")
    return Spec(tuple(lengths[c] for c in output), product_dtype(*specs))


def _einsum_transpose(
    k: int, g: Array, operands: tuple[Any, ...], subscripts: str
) -> Array:
    """Return the cotangent of operand ``k``: an einsum of ``g`` and the others."""
    terms, output = parse_subscripts(subscripts)
    term, shape = terms[k], shape_of(operands[k])
    others = [i for i in range(len(terms)) if i != k]
    letters = "".join(dict.fromkeys(term))
    reached = set(output).union(*(terms[i] for i in others))
    kept = "".join(c for c in letters if c in reached)
    inputs = ",".join([output, *(terms[i] for i in others)])
    # By the op, on arrays too: it multiplies pair by pair, np.einsum all at once.
    arrays = (g, *(operands[i] for i in others))
    passed = apply(EINSUM, arrays, {"subscripts": f"{inputs}->{kept}"})
    lengths = dict(zip(term, shape, strict=True))
    found = dict(zip(kept, shape_of(passed), strict=True))
    if kept != letters:
        passed = np.reshape(passed, tuple(found.get(c, 1) for c in letters))
    # Along axes that the forward pass summed away, it is the same for all.
    full = tuple(
        lengths[c]
        if is_same_shape((found.get(c, 1),), (1,))
        else broadcast_lengths(found[c], lengths[c])
        if isinstance(found[c], Dim) or isinstance(lengths[c], Dim)
        else found[c]
        for c in letters
    )
    if not is_same_shape(shape_of(passed), full):
        passed = np.broadcast_to(passed, full)
    passed = sum_to(passed, tuple(lengths[c] for c in letters))
    return passed if letters == term else _on_diagonal(passed, letters, term, shape)


def _on_diagonal(x: Array, letters: str, term: str, shape: Shape) -> Array:
    """Return zeros of ``shape`` with ``x`` where axes of the same letter agree."""
    parts = [
        np.reshape(
            list_positions(n, like=x), tuple(n if c == letter else 1 for c in letters)
        )
        for letter, n in zip(term, shape, strict=True)
    ]
    return apply(SCATTER, (x, *parts), {"key": (ARRAY,) * len(term), "shape": shape})


def _einsum_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    return [
        _einsum_transpose(k, g, inputs, params["subscripts"]) if mask >> k & 1 else None
        for k in range(len(inputs))
    ]


def _einsum_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    total = None
    for k, t in enumerate(tangents):
        if t is not None:
            term = apply(EINSUM, (*inputs[:k], t, *inputs[k + 1 :]), params)
            total = term if total is None else total + term
    return total


def _einsum_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    terms, output = parse_subscripts(params["subscripts"])
    batch = next(c for c in LETTERS if c not in params["subscripts"])
    terms = [batch + t if b else t for t, b in zip(terms, batched, strict=True)]
    subscripts = f"{','.join(terms)}->{batch}{output}"
    return apply(EINSUM, inputs, {**params, "subscripts": subscripts})


def _einsum_view(params: Params) -> bool:
    """Return whether NumPy gives a view: of one operand, no axis summed."""
    terms, output = parse_subscripts(params["subscripts"])
    return len(terms) == 1 and set(terms[0]) == set(output)


def _pairs_same_letters(inputs: tuple[Any, ...], params: Params) -> bool:
    terms, _ = parse_subscripts(params["subscripts"])
    return (
        len(terms) == 2 and terms[0] == terms[1] and len({*terms[0]}) == len(terms[0])
    )


EINSUM = declare("einsum")
EINSUM.compute, EINSUM.infer = _einsum_compute, _einsum_infer
EINSUM.view, EINSUM.pairs = _einsum_view, _pairs_same_letters
EINSUM.pull, EINSUM.push, EINSUM.batch = _einsum_pull, _einsum_push, _einsum_batch
EINSUM.template = "np.einsum({subscripts}, {all}{more})"
EINSUM.traits = Traits(**CONTRACTION)
EINSUM.rule = "einsum of g and the other operands"
EINSUM.cure = "Axes of the same letter must have the same length."


@implements(np.einsum)
def einsum(
    *operands: Any,
    out: None = None,
    optimize: Optimize = None,
    dtype: npt.DTypeLike | None = None,
    **_: Any,
) -> Array:
    """Sum products of subscripted arrays, in all spellings of `numpy.einsum`."""
    subscripts, arrays = _read_operands(operands)
    if dtype is not None:
        arrays = tuple(np.astype(x, dtype) for x in arrays)
    params: Params = {
        "subscripts": _make_explicit(subscripts, [shape_of(x) for x in arrays])
    }
    if optimize is not None:
        hashable = isinstance(optimize, (bool, str))
        params["optimize"] = optimize if hashable else _freeze_path(optimize)
    return apply(EINSUM, arrays, params)


def _freeze_path(path: object) -> object:
    return tuple(map(_freeze_path, path)) if isinstance(path, (list, tuple)) else path


def _read_operands(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the subscripts as text, from ``("ij->i", x)`` or ``(x, [0, 1], [0])``."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), tuple(map(admit, operands[1:]))
    pairs, output = list(operands), None
    if len(pairs) % 2:
        output = pairs.pop()
    arrays, terms = pairs[::2], pairs[1::2]
    used = sorted({n for term in terms for n in term if n is not Ellipsis})
    letters = {n: LETTERS[i] for i, n in enumerate(used)} | {Ellipsis: "..."}
    text = ",".join("".join(letters[n] for n in term) for term in terms)
    if output is not None:
        text += "->" + "".join(letters[n] for n in output)
    return text, tuple(map(admit, arrays))


def _make_explicit(subscripts: str, shapes: list[Shape]) -> str:
    """Write subscripts with an output, and letters in place of each ellipsis."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"einsum {subscripts!r} names {len(terms)} operands, and gets {len(shapes)}"
        )
    if not arrow:
        once = sorted(c for c in set(inputs) if c.isalpha() and inputs.count(c) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    if "..." in subscripts:
        free = [c for c in reversed(LETTERS) if c not in subscripts]
        ranks = [
            len(s) - len(t.replace("...", "")) if "..." in t else 0
            for t, s in zip(terms, shapes, strict=True)
        ]
        widest = "".join(free[: max(ranks)])
        terms = [
            t.replace("...", widest[len(widest) - r :])
            for t, r in zip(terms, ranks, strict=True)
        ]
        output = output.replace("...", widest)
    return f"{','.join(terms)}->{output}"


@implements(np.einsum_path)
def einsum_path(
    *operands: Any, optimize: Optimize = "greedy", einsum_call: bool = False
) -> tuple[list[Any], str]:
    """Find an order of contraction, as NumPy does, from the shapes alone."""
    find: Any = np.einsum_path
    return find(
        *(spec_of(x).example() if isinstance(x, Tensor) else x for x in operands),
        optimize=optimize,
        einsum_call=einsum_call,
    )


# Contractions of masked cotangents: a factor that is 0 wins over infinity.
#
# `multiply` and `divide` have `mul0` and `div0` in `elementwise.py`; here are the same
# for products that are summed. They cost a look for NaN, nothing more, until one is
# found.


EINSUM0 = '''\
def einsum0(subscripts, *arrays):
    """An einsum whose every product is 0 where a factor is 0."""
    with np.errstate(all="ignore"):
        y = np.einsum(subscripts, *arrays)
        if np.all(np.isfinite(y)):
            return y
        inputs, output = subscripts.split("->")
        letters = output + "".join(sorted(set(inputs) - {*output, ","}))
        product, nothing = 1, False
        for term, x in zip(inputs.split(","), arrays):
            kept = "".join(c for c in letters if c in term)
            x = np.einsum(f"{term}->{kept}", x)
            x = np.expand_dims(x, [i for i, c in enumerate(letters) if c not in kept])
            product, nothing = product * x, nothing | (x == 0)
    axes = tuple(range(len(output), len(letters)))
    return np.sum(np.where(nothing, 0, product), axis=axes)
'''


def _declare_masked(base: Op, spell: Callable[..., str]) -> None:
    """Declare the op that stands in for a contraction of masked cotangents.

    ``spell(arrays, **params)`` gives its subscripts as an einsum.
    """
    masked = base.masked = declare(f"{base.name}0")
    base.traits = base.traits._replace(subscripts=spell)

    def compute(*arrays: Any, **params: Any) -> Array:
        with np.errstate(invalid="ignore"):
            y = base.compute(*arrays, **params)
        # 0 * inf would show as NaN; nearly always there is none.
        if bool(np.all(np.isfinite(y))):
            return y
        return _multiply_entries(spell(arrays, **params), arrays)

    def pull(
        mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
    ) -> Sequence[Any]:
        assert base.pull is not None
        return base.pull(mask, mask_cotangent(g), y, inputs, params)

    def push(
        tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
    ) -> Tangent:
        assert base.push is not None
        flagged = tuple(t if t is None else mask_cotangent(t) for t in tangents)
        return base.push(flagged, y, inputs, params)

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        assert callable(base.batch)
        return base.batch((mask_cotangent(inputs[0]), *inputs[1:]), batched, params)

    masked.template = lambda node: (
        "einsum0({spelt}, {all})", {"spelt": spell(node.inputs, **node.params)}
    )  # fmt: skip
    masked.helper = EINSUM0
    masked.compute, masked.infer, masked.cure = compute, base.infer, base.cure
    masked.pull, masked.push, masked.batch = pull, push, batch
    masked.rule, masked.reads = base.rule, base.reads


def _multiply_entries(subscripts: str, arrays: tuple[Any, ...]) -> Array:
    """Return an einsum whose every product is 0 where a factor is 0."""
    terms, output = parse_subscripts(subscripts)
    letters = output + "".join(sorted(set("".join(terms)) - set(output)))
    nothing: Any = False
    product: Any = 1
    for term, x in zip(terms, arrays, strict=True):
        kept = "".join(c for c in letters if c in term)
        lengths = iter(shape_of(y := np.einsum(f"{term}->{kept}", x)))
        y = np.reshape(y, tuple(next(lengths) if c in kept else 1 for c in letters))
        zero = np.equal(y, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            product = product * y
        nothing = nothing | zero
    safe = np.where(nothing, np.zeros_like(product), product)
    return np.sum(safe, axis=tuple(range(len(output), len(letters))))


def _matmul_subscripts(arrays: tuple[Any, ...]) -> str:
    ranks = [len(shape_of(x)) for x in arrays]
    loops = [LETTERS[: max(n - 2, 0)] for n in ranks]
    widest = LETTERS[: max(map(len, loops))]
    left, right = (widest[len(widest) - len(loop) :] for loop in loops)
    row, column = "Y" * (ranks[0] > 1), "Z" * (ranks[1] > 1)
    return f"{left}{row}X,{right}X{column}->{widest}{row}{column}"


def _masked_tensordot_subscripts(arrays: tuple[Any, ...], *, axes: AxisPairs) -> str:
    a, b = arrays
    return tensordot_subscripts((len(shape_of(a)), len(shape_of(b))), *axes)


_declare_masked(MATMUL, _matmul_subscripts)
_declare_masked(TENSORDOT, _masked_tensordot_subscripts)
_declare_masked(EINSUM, lambda arrays, *, subscripts, **_: subscripts)
