"""Rules that sum products without the products, and multiply the smallest first.

Each computes the same in another order, so the last digits may change. Those of the
group ``contract`` add up the very products that the program multiplies, so none of them
overflows anew. Those of the group ``fast``, which users ask for, multiply in another
order: of ``1e200 * (1e200 * 1e-300)`` the first product may then be infinite.
`contraction.py` says how a sum of products is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.core import dims, types
from workbench.core.tensor import Tensor
from workbench.ops.contraction import parse_subscripts, swap
from workbench.ops.reductions import reduced_axes
from workbench.rewrite.contraction import ContractionPlan, Factor, contract
from workbench.rewrite.forms import is_value, read_operands, skip_identities
from workbench.rewrite.rule import Replacement, Uses, node_rule, rule

DIGITS = "The last digits may change."
INFINITE = " Beside an infinity a NaN may become infinite, and the reverse."
ORDER = (
    DIGITS + " A sum next to the largest number may overflow, or no longer." + INFINITE
)
PRODUCTS_DIFFER = (
    DIGITS + " A product on the way may overflow or vanish where none did." + INFINITE
)
ZERO = "The sign of a zero may change."

#: As many factors of a product are told apart.
MOST_FACTORS = 6
#: As many products of a chain are ordered at once.
MOST_MATRICES = 16
SUMS = ("sum", "mean")
#: The ops that spread or move axes.
VIEWS = ("broadcast_to", "transpose", "reshape", "getitem")


def _dtype_of(x: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = types.spec_of(x).dtype
    return dtype


def _shape_of(x: Any) -> tuple[Any, ...]:
    shape: tuple[Any, ...] = types.spec_of(x).shape
    return shape


def _is_float(x: Any) -> bool:
    """Return whether BLAS computes with numbers of this dtype."""
    return _dtype_of(x).char in "fdFD"


def _is_summed_only(x: Tensor, uses: Uses) -> bool:
    """Return whether nothing reads a value but sums; a sign may have been between."""
    readers = uses.find_readers(x)
    return readers == ["negative"] or all(name in SUMS for name in readers)


def _is_read_once(x: Tensor, uses: Uses) -> bool:
    return len(uses.find_readers(x)) <= 1


def _is_shorter(shape: tuple[Any, ...], full: tuple[Any, ...]) -> bool:
    """Return whether a shape is spread along an axis of a full one."""
    missing = full[: len(full) - len(shape)]
    rest = zip(shape, full[len(missing) :], strict=True)
    return any(not _is_one(n) for n in missing) or any(
        _is_one(a) and not _is_one(b) for a, b in rest
    )


def _is_one(n: Any) -> bool:
    return type(n) is int and n == 1


# Sums of products


def _read_term(x: Any, full: tuple[Any, ...]) -> Factor | None:
    """Return a factor, before the ops that spread its axes, and the places of its axes.

    None if unknown lengths leave that open.
    """
    rank = len(full)
    places: list[int | None] = list(range(rank - len(_shape_of(x)), rank))
    while True:
        shape = _shape_of(x)
        for i, (n, place) in enumerate(zip(shape, places, strict=True)):
            if place is None:
                continue
            if _is_one(n) and not _is_one(full[place]):
                places[i] = None
            elif not dims.is_same_shape((n,), (full[place],)):
                return None
        if not isinstance(x, Tensor) or (moved := _read_view(x, places)) is None:
            break
        x, places = moved
    return Factor(x, tuple(places))


def _read_view(
    x: Tensor, places: list[int | None]
) -> tuple[Any, list[int | None]] | None:
    """Return the operand of an op that only spreads or moves axes, and its axes."""
    if len(x.inputs) != 1:
        return None
    inner = skip_identities(x.inputs[0])
    if x.op.name not in VIEWS or not is_value(inner):
        return None
    before, after = _shape_of(inner), _shape_of(x)
    if x.op.name == "broadcast_to":
        return inner, places[len(after) - len(before) :]
    if x.op.name == "transpose":
        axes = x.params.get("axes") or tuple(range(len(after)))[::-1]
        found: list[int | None] = [None] * len(before)
        for place, axis in zip(places, axes, strict=True):
            found[axis] = place
        return inner, found
    if x.op.name == "reshape":
        kept = [p for n, p in zip(after, places, strict=True) if not _is_one(n)]
        lengths = [n for n in after if not _is_one(n)]
        if not dims.is_same_shape(
            tuple(lengths), tuple(n for n in before if not _is_one(n))
        ):
            return None
        follow = iter(kept)
        return inner, [None if _is_one(n) else next(follow) for n in before]
    if x.op.name == "getitem":
        key = x.params["key"]
        if not all(part is None or part is Ellipsis or _is_whole(part) for part in key):
            return None
        made = []
        spread = len(after) - sum(part is not Ellipsis for part in key)
        follow_places = iter(places)
        for part in key if Ellipsis in key else (*key, Ellipsis):
            if part is Ellipsis:
                made += [next(follow_places) for _ in range(spread)]
            elif part is None:
                next(follow_places)
            else:
                made.append(next(follow_places))
        return inner, made
    return None


def _is_whole(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


class _Product:
    """The factors of a product, of which those that only sums read are taken apart."""

    def __init__(self, node: Tensor, uses: Uses) -> None:
        self.full = _shape_of(node)
        self.sign = 1
        self.count = 0
        self.numbers: list[Any] = []
        self.terms: list[Factor] = []
        self.uses = uses
        self.dtype = _dtype_of(node)
        self.fits = self._add(node, True)

    def _add(self, x: Any, is_whole: bool) -> bool:
        """Add a value to the factors; return False if the value is no known factor."""
        x = skip_identities(x)
        if isinstance(x, Tensor) and (is_whole or self._may_open(x)):
            if x.op.name in ("multiply", "square"):
                self.count += 1
                inputs = read_operands(x)
                pair = inputs * 2 if x.op.name == "square" else inputs
                return self._add(pair[0], False) and self._add(pair[1], False)
            if x.op.name == "negative":
                self.count += 1
                self.sign = -self.sign
                return self._add(read_operands(x)[0], is_whole)
        if _shape_of(x) == ():
            self.numbers.append(x)
            return types.spec_of(x).weak or _dtype_of(x) == self.dtype
        term = _read_term(x, self.full)
        if term is None or _dtype_of(term.x) != self.dtype:
            return False
        self.terms.append(term)
        return True

    def is_pair(self, axes: Sequence[int]) -> bool:
        """Return whether there are two factors, both along all the axes."""
        return (
            not self.numbers
            and len(self.terms) == 2
            and all(axis in term.places for term in self.terms for axis in axes)
        )

    def _may_open(self, x: Tensor) -> bool:
        """Return whether a factor that is a product is taken apart."""
        return (
            len(self.terms) + 2 < MOST_FACTORS
            and _dtype_of(x) == self.dtype
            and dims.is_same_shape(_shape_of(x), self.full)
            and _is_read_once(x, self.uses)
        )


def _read_sum(node: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """Return the array under a sum, and the axes of the sum."""
    if len(node.inputs) != 1 or not node.params.keys() <= {"axis", "keepdims"}:
        return None
    x = skip_identities(node.inputs[0])
    if not isinstance(x, Tensor) or not _is_float(node) or _dtype_of(x) != node.dtype:
        return None
    return x, reduced_axes(node.params.get("axis"), len(_shape_of(x)))


def _count_terms(x: Tensor, axes: Sequence[int]) -> int | None:
    """Return how many entries make one of a sum; None where that is not known."""
    lengths: list[int] = [_shape_of(x)[axis] for axis in axes]
    if not all(type(n) is int and n > 0 for n in lengths):
        return None
    return math.prod(lengths)


@node_rule("sum of a product", "sum mean", "sum(x[:, None, :] * y[None], -1)",
    "x @ y.T", group="contract", note=ORDER, uses=True)  # fmt: skip
def sum_product(node: Tensor, uses: Uses) -> Replacement | None:
    """Sum the products of two broadcast factors without an array of the products."""
    found = _read_product(node, uses)
    if found is None or not found[0].is_pair(found[1]):
        return None
    return _contract(node, *found)


@node_rule("sum of a product of several", "sum mean", "sum(c * x * y * z, -1)",
    "c * einsum('ij,ij,ij->i', x, y, z)", group="fast", note=PRODUCTS_DIFFER,
    uses=True)  # fmt: skip
def sum_product_of_several(node: Tensor, uses: Uses) -> Replacement | None:
    """Sum the products of any factors, in the order that takes the fewest products."""
    found = _read_product(node, uses)
    return None if found is None else _contract(node, *found)


def _read_product(node: Tensor, uses: Uses) -> tuple[_Product, tuple[int, ...]] | None:
    """Return the factors of the product that a node sums, and over which axes."""
    found = _read_sum(node)
    if found is None:
        return None
    x, axes = found
    if x.op.name not in ("multiply", "square", "negative"):
        return None
    if x.op.name != "negative" and not _is_summed_only(x, uses):
        return None
    product = _Product(x, uses)
    if not product.fits or (x.op.name == "negative" and product.count == 1):
        return None
    return product, axes


def _contract(
    node: Tensor, product: _Product, axes: tuple[int, ...]
) -> Replacement | None:
    """Return the contraction of factors over axes."""
    lengths = []
    reached = {place for term in product.terms for place in term.places}
    for axis in axes:
        if axis not in reached:
            n = product.full[axis]
            if type(n) is not int or n == 0:
                return None
            lengths.append(n)
    over = 1
    if node.op.name == "mean":
        total = [product.full[axis] for axis in axes]
        if not all(type(n) is int and n > 0 for n in total):
            return None
        over = math.prod(total)
    scale = product.sign * math.prod(lengths)
    plan = ContractionPlan(
        tuple(term.places for term in product.terms),
        len(product.full),
        axes,
        bool(node.params.get("keepdims")),
        scale,
        over,
    )
    operands = (*[term.x for term in product.terms], *product.numbers)
    return Replacement(operands, partial(contract, plan), plan)


@node_rule("sum of a negative", "sum mean", "sum(-x)", "-sum(x)", group="contract",
    note=ZERO, uses=True)  # fmt: skip
def sum_negative(node: Tensor, uses: Uses) -> Replacement | None:
    """Change the sign of the sum, which is the smaller array."""
    found = _read_sum(node)
    if found is None or found[0].op.name != "negative":
        return None
    if not _is_summed_only(found[0], uses):
        return None
    build = np.sum if node.op.name == "sum" else np.mean
    settings = dict(node.params)
    return Replacement(
        read_operands(found[0]),
        lambda x: -build(x, **settings),
        (node.op.name, *settings.items()),
    )


@node_rule("sum of a broadcast", "sum", "sum(broadcast_to(x, (n, *x.shape)), 0)",
    "n * x", group="contract", note=DIGITS)  # fmt: skip
def sum_broadcast(node: Tensor) -> Replacement | None:
    """Multiply by the number of copies in place of adding them up."""
    found = _read_sum(node)
    if found is None or found[0].op.name != "broadcast_to":
        return None
    x, axes = found
    full = _shape_of(x)
    term = _read_term(x, full)
    if term is None:
        return None
    copies = [axis for axis in axes if axis not in term.places]
    count = _count_terms(x, copies)
    if count is None or not copies:
        return None
    keepdims = bool(node.params.get("keepdims"))
    plan = ContractionPlan((term.places,), len(full), axes, keepdims, count, 1)
    shape = _shape_of(node)
    return Replacement(
        (term.x,), lambda x: np.broadcast_to(contract(plan, x), shape), (plan, shape)
    )


PRODUCTS = ("multiply", "matmul", "einsum", "tensordot")


@node_rule("sum of a sum of products", "sum", "sum(x * y + z * w)",
    "sum(x * y) + sum(z * w)", group="contract", note=ORDER,
    uses=True)  # fmt: skip
def sum_products(node: Tensor, uses: Uses) -> Replacement | None:
    """Sum each of two products by itself, so that no array of either is made."""
    found = _read_sum(node)
    if found is None or found[0].op.name not in ("add", "subtract"):
        return None
    x = found[0]
    if not _is_summed_only(x, uses):
        return None
    full = _shape_of(x)
    for y in read_operands(x):
        # What is no product has not been rounded: its digits may cancel.
        if not isinstance(y, Tensor) or y.op.name not in PRODUCTS:
            return None
        if not dims.is_same_shape(_shape_of(y), full) or _dtype_of(y) != node.dtype:
            return None
        if not _is_read_once(y, uses):
            return None
    join = np.add if x.op.name == "add" else np.subtract
    settings = dict(node.params)
    return Replacement(
        read_operands(x),
        lambda a, b: join(np.sum(a, **settings), np.sum(b, **settings)),
        (x.op.name, *settings.items()),
    )


@node_rule("sum of a matrix product", "sum", "sum(x @ y, axis=0)",
    "sum(x, axis=0) @ y", group="fast", note=PRODUCTS_DIFFER, uses=True)  # fmt: skip
def sum_matrix_product(node: Tensor, uses: Uses) -> Replacement | None:
    """Sum the rows of the left factor, the columns of the right one, then multiply."""
    found = _read_sum(node)
    if found is None or not _is_summed_only(found[0], uses):
        return None
    x, axes = found
    letters = _read_letters(x)
    if letters is None:
        return None
    first, second, output = letters
    if any((output[axis] in first) == (output[axis] in second) for axis in axes):
        return None  # along such an axis both factors vary
    # As a product of both factors, over the output's axes and then the summed ones.
    order = [*output, *sorted({*first, *second} - {*output})]
    if len(x.params) > 1 or any(_dtype_of(y) != node.dtype for y in read_operands(x)):
        return None
    places = tuple(tuple(order.index(c) for c in term) for term in (first, second))
    over = (*axes, *range(len(output), len(order)))
    plan = ContractionPlan(places, len(order), over, False, 1, 1)
    if node.params.get("keepdims"):
        where = tuple(axes)
        return Replacement(
            read_operands(x),
            lambda a, b: np.expand_dims(contract(plan, a, b), where),
            (plan, where),
        )
    return Replacement(read_operands(x), partial(contract, plan), plan)


def _read_letters(x: Tensor) -> tuple[str, str, str] | None:
    """Return the axes of both factors and of their product as letters, if it is one."""
    inputs, spell = read_operands(x), x.op.traits.subscripts
    if len(inputs) != 2 or spell is None:
        return None
    (first, second), output = parse_subscripts(spell(inputs, **x.settings))
    if any(len(set(term)) < len(term) for term in (first, second)):
        return None
    known: dict[str, Any] = {}
    for term, y in zip((first, second), inputs, strict=True):
        for letter, n in zip(term, _shape_of(y), strict=True):
            if not dims.is_same_shape((known.setdefault(letter, n),), (n,)):
                return None
    return first, second, output


# Products of small factors first


def _are_factors_of(x: Any, *small: Any) -> bool:
    """Return whether factors can be multiplied first, or negated, in the dtype of x.

    They are of it, or numbers: integers would wrap around, as none of x's does.
    """
    return _is_float(x) and all(
        _dtype_of(c) == _dtype_of(x)
        or (not isinstance(c, Tensor) and c.shape == () and c.dtype.char in "fdFDl")
        for c in small
    )


def _is_large_last(bound: Any) -> bool:
    """Return whether c and d are smaller together than their product with x."""
    c, d, x = bound["c"], bound["d"], bound["x"]
    try:
        both = dims.broadcast_shapes(_shape_of(c), _shape_of(d))
        full = dims.broadcast_shapes(both, _shape_of(x))
    except ValueError:
        return False
    return (
        _are_factors_of(x, c, d)
        and _is_shorter(both, full)
        and not _is_shorter(_shape_of(x), full)
        and _can_multiply(c, d, _dtype_of(x))
    )


def _is_small_factor(bound: Any) -> bool:
    """Return whether c is smaller than its product with x, of real floats."""
    c, x = bound["c"], bound["x"]
    full = dims.broadcast_shapes(_shape_of(c), _shape_of(x))
    # Of complex numbers an infinite part beside a zero has a NaN.
    is_real = all(_dtype_of(y).kind != "c" for y in (c, x))
    is_exact = _are_factors_of(x, c) or (isinstance(c, Tensor) and _is_float(c))
    # An integer has no negative zero, and the least one no negative.
    is_whole = not isinstance(c, Tensor) and _dtype_of(c).kind in "iu"
    has_negative = not is_whole or -np.iinfo(c.dtype).max <= c < 0 or c > 0
    return is_real and is_exact and has_negative and _is_shorter(_shape_of(c), full)


def _can_multiply(a: Any, b: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether two constants have a product that is a number."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return True
    with np.errstate(all="ignore"):
        size = np.abs(np.asarray(a) * np.asarray(b))  # host array: constants
        given = (np.asarray(a) != 0) & (np.asarray(b) != 0)  # host array: constants
    limits = np.finfo(dtype)
    return bool(np.all((size <= limits.max) & ((size >= limits.tiny) | ~given)))


rule("small factors first", "c * (d * x)", "(c * d) * x", group="fast",
    when=_is_large_last, note=PRODUCTS_DIFFER)  # fmt: skip
rule("negative of a product", "-(c * x)", "(-c) * x", group="contract",
    when=_is_small_factor)  # fmt: skip


# Chains of matrices


class _Link:
    """A matrix of a chain, perhaps transposed."""

    def __init__(self, x: Any, is_transposed: bool) -> None:
        self.x = x
        self.is_transposed = is_transposed
        shape = _shape_of(x)
        self.rank = len(shape)
        self.shape = (
            (*shape[:-2], shape[-1], shape[-2])
            if is_transposed and len(shape) > 1
            else shape
        )


def _is_transpose(x: Any) -> bool:
    """Return whether an op swaps the last two axes, and no others."""
    if not isinstance(x, Tensor) or x.op.name != "transpose" or len(x.shape) < 2:
        return False
    rank = len(x.shape)
    axes = x.params.get("axes") or tuple(range(rank))[::-1]
    return tuple(n % rank for n in axes) == (*range(rank - 2), rank - 1, rank - 2)


def _read_chain(node: Tensor, uses: Uses) -> tuple[list[_Link], Any]:
    """Return the matrices of a chain from left to right, and its order as a tree."""
    links: list[_Link] = []
    opened = 0

    def read(x: Any, is_transposed: bool, is_first: bool) -> Any:
        nonlocal opened
        x = skip_identities(x)
        if isinstance(x, Tensor) and opened < MOST_MATRICES:
            opened += 1
            if is_first or _is_read_once(x, uses):
                if x.op.name == "matmul" and _dtype_of(x) == _dtype_of(node):
                    pair = read_operands(x)
                    if min(len(_shape_of(y)) for y in pair) > 1 or not is_transposed:
                        if is_transposed:
                            pair = pair[::-1]
                        return tuple([read(y, is_transposed, False) for y in pair])
            if _is_transpose(x) and not is_first:
                return read(x.inputs[0], not is_transposed, False)
        links.append(_Link(x, is_transposed))
        return len(links) - 1

    tree = read(node, False, True)
    return links, tree


def _cost_of(left: _Span, right: _Span) -> tuple[float, _Span]:
    """Return the number of products of two links, and the span of the result."""
    batch = np.broadcast_shapes(left[0], right[0])
    cost = float(math.prod(batch)) * left[1] * left[2] * right[2]
    return cost, (batch, left[1], right[2])


#: What multiplies to one matrix: the loop axes, rows and columns.
_Span = tuple[tuple[int, ...], int, int]


def _spans_of(links: Sequence[_Link]) -> list[_Span] | None:
    """Return the matrices' lengths; None where they are not known or do not fit."""
    spans: list[_Span] = []
    last = len(links) - 1
    batched = any(link.rank > 2 for link in links)
    for i, link in enumerate(links):
        shape: Any = link.shape
        if not all(type(n) is int for n in shape):
            return None
        if len(shape) == 1:
            if batched or i not in (0, last):
                return None
            shape = (1, *shape) if i == 0 else (*shape, 1)
        spans.append((shape[:-2], shape[-2], shape[-1]))
    return spans


def _cost_of_tree(tree: Any, spans: Sequence[_Span]) -> tuple[float, _Span]:
    if isinstance(tree, int):
        return 0.0, spans[tree]
    (a, left), (b, right) = (_cost_of_tree(part, spans) for part in tree)
    cost, made = _cost_of(left, right)
    return a + b + cost, made


def _find_order(spans: Sequence[_Span]) -> tuple[float, Any]:
    """Return the least cost of a chain, and its order as a tree."""
    best: dict[tuple[int, int], tuple[float, Any, _Span]] = {
        (i, i): (0.0, i, span) for i, span in enumerate(spans)
    }
    for length in range(1, len(spans)):
        for i in range(len(spans) - length):
            found = None
            for k in range(i, i + length):
                a, left, one = best[i, k]
                b, right, two = best[k + 1, i + length]
                cost, made = _cost_of(one, two)
                if found is None or a + b + cost < found[0]:
                    found = (a + b + cost, (left, right), made)
            assert found is not None
            best[i, i + length] = found
    cost, tree, _ = best[0, len(spans) - 1]
    return cost, tree


def _order_towards_vector(links: Sequence[_Link]) -> Any:
    """Return the order for a vector at an end; None where there is none."""
    if any(link.rank > 2 for link in links):
        return None
    places: list[Any] = list(range(len(links)))
    if links[-1].rank == 1:
        tree = places.pop()
        while places:
            tree = (places.pop(), tree)
        return tree
    if links[0].rank == 1:
        tree = places.pop(0)
        while places:
            tree = (tree, places.pop(0))
        return tree
    return None


@node_rule("order of a chain of matrices", "matmul", "x @ y @ v", "x @ (y @ v)",
    group="fast", note=PRODUCTS_DIFFER, uses=True)  # fmt: skip
def order_chain(node: Tensor, uses: Uses) -> Replacement | None:
    """Multiply in the order that takes the fewest products."""
    inputs = read_operands(node)
    if not _is_float(node) or uses.is_ordered or uses.at_place == ["matmul"]:
        return None  # the whole chain is looked at once, from its end
    if not any(
        isinstance(x, Tensor) and x.op.name in ("matmul", "transpose") for x in inputs
    ):
        return None
    links, tree = _read_chain(node, uses)
    if len(links) < 3 or any(_dtype_of(x.x) != node.dtype for x in links):
        return None
    spans = _spans_of(links)
    if spans is None:
        better = _order_towards_vector(links)
        if better is None or better == tree:
            return None
    else:
        cost, better = _find_order(spans)
        if cost >= _cost_of_tree(tree, spans)[0]:
            return None
    uses.is_ordered = True
    turned = tuple(link.is_transposed and link.rank > 1 for link in links)

    def multiply(*matrices: Any) -> Any:
        given = [
            swap(x) if is_turned else x
            for x, is_turned in zip(matrices, turned, strict=True)
        ]

        def make(part: Any) -> Any:
            return (
                given[part] if isinstance(part, int) else make(part[0]) @ make(part[1])
            )

        return make(better)

    return Replacement(tuple(link.x for link in links), multiply, (better, turned))


@node_rule("transpose of a product", "transpose", "(x.T @ y).T", "y.T @ x",
    group="contract", note=DIGITS, uses=True)  # fmt: skip
def transpose_product(node: Tensor, uses: Uses) -> Replacement | None:
    """Multiply in the other order, where that takes a transpose away."""
    x = skip_identities(node.inputs[0])
    if not _is_transpose(node) or not isinstance(x, Tensor) or x.op.name != "matmul":
        return None
    pair = read_operands(x)
    if min(len(_shape_of(y)) for y in pair) < 2 or not any(map(_is_transpose, pair)):
        return None
    if not dims.is_same_shape(*[_shape_of(y)[:-2] for y in pair]):
        return None
    if not _is_read_once(x, uses):
        return None
    turned = tuple(map(_is_transpose, pair))
    operands = [y.inputs[0] if t else y for y, t in zip(pair, turned, strict=True)]

    def multiply(a: Any, b: Any) -> Any:
        a, b = (y if t else swap(y) for y, t in zip((a, b), turned, strict=True))
        return b @ a

    return Replacement(tuple(operands), multiply, turned)


@node_rule("transpose of a vector", "transpose", "transpose(v)", "v",
    group="contract")  # fmt: skip
def drop_transpose(node: Tensor) -> Replacement | None:
    """Leave out a transpose that moves no axis."""
    rank = len(_shape_of(node))
    axes = node.params.get("axes") or tuple(range(rank))[::-1]
    if len(node.inputs) != 1 or tuple(n % rank for n in axes) != tuple(range(rank)):
        return None
    return Replacement((node.inputs[0],), lambda x: x)
