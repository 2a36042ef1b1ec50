"""Rules for softmax and sigmoid in programs of their entries and of their gradients.

Reverse mode divides a cotangent by a probability, for the logarithm of it, and later
multiplies with the same probability. In real numbers both cancel; in floats the
probability is 0 where its exponent is far below the largest, and the result NaN. These
rules leave both out, so that the gradient of a cross-entropy is the probability less
the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.core import dims
from workbench.core.tensor import Tensor, apply
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.indexing import GETITEM, SCATTER
from workbench.ops.reductions import logsumexp, reduced_axes
from workbench.rewrite.forms import (
    is_same_value,
    read_operands,
    skip_identities,
)
from workbench.rewrite.rule import Replacement, node_rule
from workbench.rewrite.stable_rules import (
    OF_ONE,
    OVERFLOW,
    TO_ONE,
    is_real,
    is_shifted,
    softmax,
)

#: A factor is looked through for quotients so many nodes far. What reverse mode makes
#: of one probability is a few; of longer sums the time would grow with the square.
MOST_NODES = 64


class _Given(tuple[Any, ...]):
    """The operands that a replacement is built from, with the parts that are built."""

    def __init__(self, operands: Sequence[Any]) -> None:
        self.built: dict[int, Any] = {}


#: A part of a replacement: a function of the operands that it is built from.
Part = Callable[[_Given], Any]


class _Parts:
    """Products of values of a program with a share: parts of a replacement.

    A rule reads a factor through sums and products down to the quotients by which the
    share cancels.

    Attributes
    ----------
    values
        The operands of what was found.
    is_cut
        Whether there is more to look at: what was found is not all.
    """

    def __init__(self, first: Any) -> None:
        self.values: list[Any] = [first]
        #: What was found of each node: a sum may read one in very many ways.
        self.known: dict[int, Part | None] = {}
        self.is_cut = False

    def multiply(self, x: Any) -> Part | None:
        """Return a value times the share; None where the share does not cancel."""
        x = skip_identities(x)
        if not isinstance(x, Tensor):
            return None
        if x.serial not in self.known:
            if len(self.known) >= MOST_NODES:
                self.is_cut = True
                return None
            self.known[x.serial] = None
            part = self.multiply_node(x)
            if part is not None:
                part = partial(_build_once, part, x.serial)
            self.known[x.serial] = part
        return self.known[x.serial]

    def multiply_node(self, x: Tensor) -> Part | None:
        """Return the same of a node that is looked at for the first time."""
        raise NotImplementedError

    def hold(self, x: Any) -> Part:
        """Add an operand; return the operand as a part."""
        i = len(self.values)
        self.values.append(x)
        return lambda given: given[i]


def _build_once(part: Part, key: int, given: _Given) -> Any:
    """Return a part, which several others may read, built once."""
    if key not in given.built:
        given.built[key] = part(given)
    return given.built[key]


def _is_sum_of(total: Any, exp: Tensor) -> bool:
    """Return whether a value is the sum of an exponential along axes."""
    total = skip_identities(total)
    if not isinstance(total, Tensor) or total.op.name != "sum":
        return False
    return _is_same_exp(read_operands(total)[0], exp)


def _is_same_exp(x: Any, exp: Tensor) -> bool:
    if is_same_value(x, exp):
        return True
    x = skip_identities(x)
    return (
        isinstance(x, Tensor)
        and x.op.name == "exp"
        and is_same_value(x.inputs[0], exp.inputs[0])
    )


def _is_softmax(p: Any) -> bool:
    """Return whether a value is an exponential over a sum of the same ones."""
    if not isinstance(p, Tensor) or p.op.name != "divide":
        return False
    exp = skip_identities(p.inputs[0])
    return (
        isinstance(exp, Tensor)
        and exp.op.name == "exp"
        and _is_sum_of(p.inputs[1], exp)
        and is_real({"x": exp.inputs[0]})
    )


def _is_sigmoid(p: Any) -> bool:
    return isinstance(p, Tensor) and p.op.name == "expit" and p.dtype.kind == "f"


@node_rule("log of entries of a softmax", "log", "log((exp(x) / sum(exp(x)))[i])",
    "(x - logsumexp(x))[i]", group="stabilise", note=TO_ONE,
    reads="getitem")  # fmt: skip
def log_of_entries(node: Tensor) -> Replacement | None:
    """Take the entries after the logarithm, in its stable form."""
    entries = skip_identities(node.inputs[0])
    quotient, *places = read_operands(entries)
    if not _is_softmax(quotient):
        return None
    exp, total = map(skip_identities, quotient.inputs)
    settings, params = total.params, entries.settings

    def build(x: Any, *places: Any) -> Any:
        y = x - logsumexp(x, **settings)
        return apply(GETITEM, (y, *places), params)

    operands = (exp.inputs[0], *places)
    return Replacement(operands, build, (str(settings), str(params)))


@node_rule("softmax in a cotangent", "multiply", "a / sum(exp(x)) * exp(x)",
    "a * softmax(x)", group="stabilise", note=OF_ONE, reads="exp")  # fmt: skip
def softmax_in_cotangent(node: Tensor) -> Replacement | None:
    """Join an exponential with its sum, by which terms of the other factor are divided.

    The terms are ``a / sum(exp(x))`` and ``sum(b / sum(exp(x)))``: what reverse mode
    makes of a softmax, and of the logarithm of such a sum.
    """
    for k in (0, 1):
        exp, factor = (skip_identities(node.inputs[i]) for i in (k, 1 - k))
        if not isinstance(exp, Tensor) or exp.op.name != "exp" or _is_softmax(factor):
            continue  # times a softmax it is what this rule makes
        if not dims.is_same_shape(exp.shape, node.shape) or not is_real(
            {"x": exp.inputs[0]}
        ):
            continue
        parts = _QuotientsBySum(exp)
        part, totals = parts.multiply(factor), parts.totals
        if part is None or any(_axes_of(x) != _axes_of(totals[0]) for x in totals):
            continue
        axis = totals[0].params.get("axis")
        of_terms = _softmax_of_shifted if is_shifted(exp.inputs[0]) else softmax
        build = partial(_build_product, part, of_terms, axis)
        return Replacement(tuple(parts.values), build, node.serial)
    return None


def _build_product(part: Part, share: Any, axis: Any, *given: Any) -> Any:
    return part(_Given(given)) * share(given[0], axis)


def _softmax_of_shifted(x: Any, axis: Any) -> Any:
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)


def _axes_of(total: Tensor) -> tuple[int, ...]:
    """Return the axes of a sum, from the first on."""
    return reduced_axes(total.params.get("axis"), len(read_operands(total)[0].shape))


class _QuotientsBySum(_Parts):
    """Quotients by an exponential's sum; the exponential times one is a softmax."""

    def __init__(self, exp: Tensor) -> None:
        super().__init__(exp.inputs[0])
        self.exp = exp
        #: The sums that were found, whose axes are to be the same.
        self.totals: list[Tensor] = []

    def multiply_node(self, x: Tensor) -> Part | None:
        """Return a node times the sum that all its terms are over."""
        if x.op.name == "divide" and _is_sum_of(x.inputs[1], self.exp):
            total = skip_identities(x.inputs[1])
            if total.shape and not total.params.get("keepdims"):
                return None  # it does not stand where it is spread over its own terms
            self.totals.append(total)
            return self.hold(x.inputs[0])
        if x.op.name == "reshape":
            return self._multiply_reshaped(x)
        if x.op.name == "add":
            a, b = map(self.multiply, x.inputs)
            if a is None or b is None:
                return None
            first, second = a, b
            return lambda given: first(given) + second(given)
        if x.op.name == "broadcast_to":
            return self.multiply(x.inputs[0])
        if x.op.name == "sum":
            term = skip_identities(read_operands(x)[0])
            part = self.multiply(term)
            spread = x.params.get("keepdims") or not x.shape
            if part is None or not spread:
                return None
            if any(set(_axes_of(x)) - set(_axes_of(y)) for y in self.totals):
                return None
            terms, params = part, x.params
            return lambda given: np.sum(_spread(terms(given), term), **params)
        return None

    def _multiply_reshaped(self, x: Tensor) -> Part | None:
        """Return the same of a quotient that gets the axis back that was summed."""
        inner, shape = skip_identities(x.inputs[0]), x.shape
        if not isinstance(inner, Tensor) or inner.op.name != "divide":
            return None
        total = skip_identities(inner.inputs[1])
        if not _is_sum_of(total, self.exp) or total.params.get("keepdims"):
            return None
        axes = _axes_of(total)
        kept = tuple(1 if i in axes else n for i, n in enumerate(self.exp.shape))
        if not dims.is_same_shape(shape, kept):
            return None
        self.totals.append(total)
        own = self.hold(inner.inputs[0])
        return lambda given: np.reshape(_spread(own(given), inner), shape)


#: The ops of a product and of a quotient; the second ones where entries are masked.
PRODUCTS = ("multiply", "mul0")
QUOTIENTS = ("divide", "div0")


@node_rule("probability times a quotient by it", " ".join(PRODUCTS),
    "a / softmax(x) * softmax(x)", "a", group="stabilise", note=OVERFLOW,
    reads="divide expit multiply mul0")  # fmt: skip
def probability_times_quotient(node: Tensor) -> Replacement | None:
    """Leave out the division by a softmax or sigmoid, which is 0 by rounding alone.

    Reverse mode makes this of the logarithm of a probability.
    """
    for k in (0, 1):
        share, factor = (skip_identities(node.inputs[i]) for i in (k, 1 - k))
        for p, rest in ((share, None), *_list_factors(share)):
            if not (_is_softmax(p) or _is_sigmoid(p)):
                continue
            if not dims.is_same_shape(p.shape, node.shape):
                continue
            found = _QuotientsByShare(p)
            part = found.multiply(factor)
            if part is not None and not found.is_cut:
                if rest is not None:
                    part = partial(_multiply_parts, part, found.hold(rest))
                build = partial(_build_spread, part, node)
                return Replacement(tuple(found.values), build, node.serial)
    return None


def _list_factors(x: Any) -> list[tuple[Any, Any]]:
    """Return the factors of a product, each with the other one."""
    if not isinstance(x, Tensor) or x.op.name not in PRODUCTS:
        return []
    a, b = map(skip_identities, x.inputs)
    return [(a, b), (b, a)]


def _build_spread(part: Part, node: Tensor, *given: Any) -> Any:
    return _spread(part(_Given(given)), node)


def _spread(x: Any, like: Tensor) -> Any:
    """Return an array in the shape of another, a Python number in its dtype too."""
    if dtype_of(x) != like.dtype:
        x = x * np.ones((), like.dtype)
    if dims.is_same_shape(shape_of(x), like.shape):
        return x
    return np.broadcast_to(x, like.shape)


class _QuotientsByShare(_Parts):
    """Quotients by a softmax or sigmoid; the share times one is the numerator."""

    def __init__(self, share: Tensor) -> None:
        super().__init__(share)
        self.share = share

    def multiply_node(self, x: Tensor) -> Part | None:
        """Return a node times the share that some of its terms are divided by."""
        if x.op.name in QUOTIENTS and is_same_value(x.inputs[1], self.share):
            return self.hold(x.inputs[0])
        if x.op.name == "negative":
            part = self.multiply(x.inputs[0])
            return None if part is None else partial(_negate, part)
        for y, other in _list_factors(x):
            part = self.multiply(y)
            if part is not None:
                return partial(_multiply_parts, part, self.hold(other))
        if x.op.name in ("add", "subtract"):
            parts = [self.multiply(y) for y in x.inputs]
            if all(part is None for part in parts):
                return None
            a, b = (
                partial(_multiply_parts, self.hold(y), _take_first)
                if part is None
                else part
                for part, y in zip(parts, x.inputs, strict=True)
            )
            if x.op.name == "add":
                return lambda given: a(given) + b(given)
            return lambda given: a(given) - b(given)
        return self._multiply_scattered(x) if x.op.name == "scatter" else None

    def _multiply_scattered(self, x: Tensor) -> Part | None:
        """Return the share times quotients by some of its entries, at their places."""
        quotient, *places = map(skip_identities, read_operands(x))
        if not isinstance(quotient, Tensor) or quotient.op.name != "divide":
            return None
        entries = skip_identities(quotient.inputs[1])
        params = x.settings
        if not isinstance(entries, Tensor) or entries.op.name != "getitem":
            return None
        source, *others = read_operands(entries)
        if not is_same_value(source, self.share) or len(others) != len(places):
            return None
        if entries.settings["key"] != params["key"]:
            return None
        if not all(map(is_same_value, places, others)):
            return None
        top = self.hold(quotient.inputs[0])
        parts = [self.hold(y) for y in places]
        return lambda given: apply(
            SCATTER,
            (_spread(top(given), quotient), *[y(given) for y in parts]),
            params,
        )


def _negate(part: Part, given: _Given) -> Any:
    return -part(given)


def _multiply_parts(a: Part, b: Part, given: _Given) -> Any:
    return a(given) * b(given)


def _take_first(given: _Given) -> Any:
    return given[0]
