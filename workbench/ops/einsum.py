"""`einsum`: any product of any number of operands, summed over any axes.

All spellings become one: explicit subscripts without an ellipsis. The gradient of an
operand is an einsum of the cotangent and the other operands. Three operands and more
are multiplied pair by pair, in the order that opt_einsum finds (D. G. A. Smith and
J. Gray, "opt_einsum", Journal of Open Source Software 3 (2018) 753).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.dims import (
    Dim,
    broadcast_lengths,
    is_same_shape,
)
from workbench.core.op import Op, View, declare, implements
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
from workbench.ops.contraction import (
    CONTRACTION,
    LETTERS,
    MATMUL,
    TENSORDOT,
    AxisPairs,
    parse_subscripts,
    product_dtype,
    tensordot_subscripts,
)
from workbench.ops.define import (
    dtype_of,
    list_positions,
    shape_of,
    sum_to,
    unfold_by,
)
from workbench.ops.indexing import ARRAY, SCATTER

#: How einsum looks for an order of products: NumPy's ``optimize=``.
Optimize = bool | str | Sequence[Any] | None


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


# The body. Operands meet in pairs: where an axis of each is left over, and one is
# summed, it is a product of stacks of matrices; else entries are multiplied and added.

#: An operand, and a letter for each of its axes.
Factor = tuple[Any, str]


def _einsum_body(*operands: Any, subscripts: str, optimize: Any = None) -> Any:
    """Return an einsum of floats as products of matrices and sums of products."""
    terms, output = parse_subscripts(subscripts)
    dtype = np.result_type(*map(dtype_of, operands))
    shapes = [shape_of(x) for x in operands]
    if dtype.kind not in "fc" or dtype.char == "e" or any(0 in s for s in shapes):
        return None
    lengths: dict[str, int] = {}
    parts: list[Factor] = []
    for x, term in zip(operands, terms, strict=True):
        x = x.astype(dtype) if dtype_of(x) != dtype else x
        x, term = _take_diagonals(x, term)
        for letter, n in zip(term, shape_of(x), strict=True):
            lengths[letter] = max(n, lengths.get(letter, 1))
        parts.append((x, term))
    # An axis of length 1 that meets a longer one is spread: it has no letter.
    parts = [_drop_short_axes(x, term, lengths) for x, term in parts]
    for pair in _order_pairs(parts, output, lengths):
        chosen = [parts[i] for i in pair]
        parts = [one for i, one in enumerate(parts) if i not in pair]
        kept = set(output).union(*(term for _, term in parts))
        parts.append(_contract_pair(chosen, kept, lengths, output))
    x, term = _sum_letters(*parts[0], set(output))
    return _arrange(x, term, output, lengths)[0]


def _order_pairs(
    parts: list[Factor], output: str, lengths: Mapping[str, int]
) -> list[tuple[int, int]]:
    """Return the order of pairwise products, by positions in the list that remains."""
    if len(parts) < 3:
        return [(0, 1)] * (len(parts) - 1)
    # Loaded here: a program without such products needs no search for paths.
    from opt_einsum import contract_path

    inputs = ",".join(term for _, term in parts)
    spelt = f"{inputs}->{''.join(c for c in output if c in inputs)}"
    shapes = [tuple(lengths[c] for c in term) for _, term in parts]
    path, _ = contract_path(spelt, *shapes, shapes=True, optimize="auto")
    pairs: list[tuple[int, int]] = []
    left = len(parts)
    for group in path:
        first, *others = sorted(group)
        for k, other in enumerate(others):
            # The product of the first ones stands at the end.
            pairs.append((first, other) if k == 0 else (other - k - 1, left - 1))
            left -= 1
    return pairs


def _take_diagonals(x: Any, term: str) -> Factor:
    """Return an operand with each letter once."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = np.diagonal(x, axis1=first, axis2=second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


def _drop_short_axes(x: Any, term: str, lengths: Mapping[str, int]) -> Factor:
    short = [n == 1 and lengths[c] > 1 for n, c in zip(shape_of(x), term, strict=True)]
    if not any(short):
        return x, term
    x = np.reshape(x, [n for n, is_short in zip(shape_of(x), short, strict=True)
                       if not is_short])  # fmt: skip
    return x, "".join(
        c for c, is_short in zip(term, short, strict=True) if not is_short
    )


def _sum_letters(x: Any, term: str, kept: set[str]) -> Factor:
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    if axes:
        x = np.sum(x, axis=axes)
    return x, "".join(c for c in term if c in kept)


def _arrange(x: Any, term: str, output: str, lengths: Mapping[str, int]) -> Factor:
    """Return an operand with axes in the order ``output``, broadcast to new ones."""
    inner = "".join(c for c in output if c in term)
    if inner != term:
        x = np.transpose(x, [term.index(c) for c in inner])
    if inner != output:
        x = np.reshape(x, [lengths[c] if c in term else 1 for c in output])
        x = np.broadcast_to(x, [lengths[c] for c in output])
    return x, output


def _contract_pair(
    pair: Sequence[Factor], kept: set[str], lengths: Mapping[str, int], output: str
) -> Factor:
    """Return the product of two operands, summed over letters that nobody needs."""
    (a, left), (b, right) = (
        _sum_letters(x, term, kept | set(other))
        for (x, term), (_, other) in zip(pair, reversed(pair), strict=True)
    )
    batch, summed, rows, columns = (
        sorted(group, key=output.find)
        for group in (
            [c for c in left if c in right and c in kept],
            [c for c in left if c in right and c not in kept],
            [c for c in left if c not in right],
            [c for c in right if c not in left],
        )
    )
    if summed and (rows or columns) and not (batch and not (rows and columns)):
        if rows and columns and output.find(rows[0]) > output.find(columns[0]):
            a, left, b, right, rows, columns = b, right, a, left, columns, rows
        return _multiply_matrices(
            a, left, b, right, (batch, rows, summed, columns), lengths
        )
    # Entry by entry, which what follows may join.
    letters = left + "".join(columns)
    b, right = _arrange(b, right, "".join(c for c in letters if c in right), lengths)
    spread = [
        np.reshape(x, [lengths[c] if c in term else 1 for c in letters])
        for x, term in ((a, left), (b, right))
    ]
    return _sum_letters(spread[0] * spread[1], letters, kept)


def _multiply_matrices(
    a: Any, left: str, b: Any, right: str, groups: tuple[list[str], ...],
    lengths: Mapping[str, int],
) -> Factor:  # fmt: skip
    """Return the product of two operands as that of stacks of matrices."""
    batch, rows, summed, columns = groups

    def merge(x: Any, term: str, *groups: list[str]) -> Any:
        order = [c for group in (batch, *groups) for c in group]
        x = np.transpose(x, [term.index(c) for c in order])
        sizes = [math.prod(lengths[c] for c in group) for group in groups if group]
        return np.reshape(x, [*(lengths[c] for c in batch), *sizes])

    made = merge(a, left, rows, summed) @ merge(b, right, summed, columns)
    letters = [*batch, *rows, *columns]
    return np.reshape(made, [lengths[c] for c in letters]), "".join(letters)


EINSUM = declare("einsum")
EINSUM.compute, EINSUM.infer = _einsum_compute, _einsum_infer
EINSUM.unfold = unfold_by(_einsum_body)
EINSUM.view, EINSUM.pairs = View(_einsum_view), _pairs_same_letters
EINSUM.pull, EINSUM.push, EINSUM.batch = _einsum_pull, _einsum_push, _einsum_batch
EINSUM.pattern = "contraction"
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


def declare_masked(base: Op, multiply: Callable[..., Any]) -> Op:
    """Declare the op that stands in for a contraction of masked cotangents.

    ``multiply(*arrays, **params)`` gives the same as the contraction, with products
    that are 0 wherever one factor is. The template is left to the caller.
    """
    masked = base.masked = declare(f"{base.name}0")

    def compute(*arrays: Any, **params: Any) -> Array:
        with np.errstate(invalid="ignore"):
            y = base.compute(*arrays, **params)
        # 0 * inf would show as NaN; nearly always there is none.
        if bool(np.all(np.isfinite(y))):
            return y
        made: Array = multiply(*arrays, **params)
        return made

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

    masked.compute, masked.infer, masked.cure = compute, base.infer, base.cure
    masked.finite, masked.unfold = base, unfold_by(multiply)
    masked.pull, masked.push, masked.batch = pull, push, batch
    masked.rule, masked.reads = base.rule, base.reads
    masked.pattern = base.pattern
    return masked


def _declare_masked_product(base: Op, spell: Callable[..., str]) -> None:
    """Do so for a product that `numpy.einsum` spells.

    ``spell(arrays, **params)`` gives its subscripts.
    """
    masked = declare_masked(
        base,
        lambda *arrays, **params: multiply_entries(spell(arrays, **params), arrays),
    )
    for op in (base, masked):
        op.traits = op.traits._replace(subscripts=spell)
    masked.template = lambda node: (
        "einsum0({spelt}, {all})", {"spelt": spell(node.inputs, **node.params)}
    )  # fmt: skip
    masked.helper = EINSUM0


def multiply_entries(subscripts: str, arrays: tuple[Any, ...]) -> Array:
    """Return an einsum in which a product is 0 wherever one factor is 0."""
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


_declare_masked_product(MATMUL, _matmul_subscripts)
_declare_masked_product(TENSORDOT, _masked_tensordot_subscripts)
_declare_masked_product(EINSUM, lambda arrays, *, subscripts, **_: subscripts)
