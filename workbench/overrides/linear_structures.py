"""`linear`: an override's target that is every linear structure of a program.

A linear structure is a product of a weight and an input, summed over at least one axis
of both, and a bias that is added or subtracted, if there is one, whatever NumPy
function it was written with. Which operand is the weight follows from what depends on
data: see :func:`workbench.patterns.linear`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame, types
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.types import Array, Cotangent
from workbench.errors import OverrideError
from workbench.ops import define
from workbench.ops.contraction import parse_subscripts
from workbench.ops.define import shape_of
from workbench.ops.shaping import TRANSPOSE
from workbench.overrides.node import Node
from workbench.overrides.patterns import (
    Condition,
    check_condition,
    describe_value,
    write_function,
)
from workbench.overrides.regions import Region, RegionLayout
from workbench.overrides.targets import UNSEEN, ByPart, Nodes, WriteFunction
from workbench.rewrite.forms import (
    is_equal_constant,
    name_wildcards,
    skip_identities,
)

ROLES = ("weight", "input", "bias")
#: What a value depends on: data, what may be a weight, a product of two arrays.
DATA, WEIGHT, PRODUCT = 1, 2, 4


class Subscripts(NamedTuple):
    """The axes of a product of two operands as letters, as `numpy.einsum` has them."""

    weight: str
    input: str
    output: str

    def __str__(self) -> str:
        return f"{self.weight},{self.input}->{self.output}"

    @property
    def summed(self) -> str:
        """The axes that are summed over: those of both operands, not of the output."""
        return "".join(
            c for c in self.weight if c in self.input and c not in self.output
        )

    @property
    def is_product(self) -> bool:
        """True if axes of both operands are summed over, and none of one alone."""
        return bool(self.summed) and all(
            len(set(term)) == len(term) and set(term) - set(self.output) <= set(other)
            for term, other in ((self.weight, self.input), (self.input, self.weight))
        )

    def rename_axes(self) -> Subscripts:
        """Return the same subscripts in letters that name the role of each axis.

        Those from ``i`` on are summed, from ``o`` on the weight's own, from ``b``
        on the input's own, and in capitals those of all three.
        """
        names: dict[str, str] = {}
        count: Counter[str] = Counter()
        for c in (*self.weight, *self.input):
            if c not in names:
                in_both = c in self.weight and c in self.input
                kind = "i" if c in self.summed else "A" if in_both else (
                    "o" if c in self.weight else "b"
                )  # fmt: skip
                names[c] = chr(ord(kind) + count[kind])
                count[kind] += 1
        if any(count[k] > n for k, n in (("b", 7), ("i", 6), ("o", 12), ("A", 26))):
            return self
        return Subscripts._make("".join(names[c] for c in term) for term in self)


class Operand(NamedTuple):
    """One of two operands of a product, before the transposes that lead to it.

    ``axes`` are its axes as letters, ``dependence`` the bits of what it depends on.
    """

    value: Any
    transposes: tuple[Tensor, ...]
    axes: str
    dependence: int


class Product(NamedTuple):
    """A product of two operands in a program.

    ``addend`` is what is added to it, and ``add`` the node that does, if the product is
    read by that node alone.
    """

    node: Tensor
    operands: tuple[Operand, Operand]
    output: str
    add: Tensor | None
    addend: Any
    addend_dependence: int


class Match(NamedTuple):
    """A product with the roles of its operands.

    ``unclear`` says why they may have other roles; empty if they may not.
    """

    product: Product
    weight: Operand
    input: Operand
    unclear: str


class ByLinear(ByPart):
    """Every linear structure of a program; made by `workbench.patterns.linear`.

    Attributes
    ----------
    data
        What is data, as it was given; None for all that nobody differentiates by.
    where
        A condition on the roles, or None.
    """

    def __init__(self, data: object = None, where: Condition | None = None) -> None:
        check_condition(where, "weight")
        self.data: tuple[Any, ...] | None = None
        if data is not None:
            self.data = tuple(check_data(data))
        self.where = where

    label = "linear"

    def write_code(self, write: WriteFunction) -> str:
        """Return Python code of the target; ``write`` writes its functions."""
        parts = []
        if self.data is not None:
            names = [x if isinstance(x, str) else getattr(x, "name", None)
                     for x in self.data]  # fmt: skip
            text = repr(names[0] if len(names) == 1 else names)
            parts.append(f"data={write(None, 'data') if None in names else text}")
        if self.where is not None:
            parts.append(f"where={write(self.where, 'where')}")
        return f"wb.patterns.linear({', '.join(parts)})"

    @property
    def is_data_alone(self) -> bool:
        """True if a file can hold the target: data by name alone, and no condition."""
        return self.where is None and all(isinstance(x, str) for x in self.data or ())

    def find_regions(self, nodes: Nodes, wrt: Nodes = ()) -> list[Region]:
        """Return the linear structures of a program."""
        return [make_region(one, self) for one in self.match_roles(nodes, wrt)[0]]

    def match_roles(self, nodes: Nodes, wrt: Nodes) -> tuple[list[Match], Counter[str]]:
        """Return products with roles, and a count of the others by the reason why."""
        program = Analysis(nodes, wrt, self.data)
        matches, misfits = [], Counter[str]()
        for product in program.products:
            roles = program.assign_roles(product)
            if isinstance(roles, str):
                misfits[roles] += 1
                continue
            fit = [
                one
                for one in roles
                if self.where is None
                or self.where(name_wildcards(ROLES, role_values(one)))
            ]
            if not fit:
                misfits["refused"] += 1
            elif len(fit) == 1 and self.where is not None:
                matches.append(fit[0]._replace(unclear=""))
            else:
                matches.append(fit[0])
        return matches, misfits

    def explain_mismatch(self, nodes: Nodes, wrt: Nodes = ()) -> str:
        """Return why there is none in a program."""
        program = Analysis(nodes, wrt, self.data)
        lost = [x for x in self.data or () if not program.has_data(x)]
        if lost:
            names = ", ".join(sorted(program.names)) or "none"
            what = lost[0] if isinstance(lost[0], str) else describe_value(lost[0])
            return f"nothing there is its data={what!r}; its names: {names}"
        misfits = self.match_roles(nodes, wrt)[1]
        if not misfits:
            return (
                "the program has no product of two arrays that sums over an axis of"
                f" both.{UNSEEN}"
            )
        words = {
            "refused": "its condition where= refused",
            "both": "both operands depend on data in",
            "neither": "neither operand depends on data in",
        }
        return "; ".join(
            f"{words[why]} {count} product{'s' if count > 1 else ''}"
            for why, count in misfits.items()
        )

    def __str__(self) -> str:
        return "every linear structure"

    def __repr__(self) -> str:
        code = self.write_code(lambda f, word: word if f is None else write_function(f))
        return f"<{code}>"


def check_data(data: object) -> list[Any]:
    """Return the names, arrays and Tensors that are data, as a list."""
    found = list(data) if isinstance(data, (list, tuple, set, frozenset)) else [data]
    for x in found:
        if not (isinstance(x, (str, Tensor)) or hasattr(x, "shape")):
            raise OverrideError(
                f"linear(data={data!r}): {x!r} is not data. Give the names of inputs,"
                ' data=["X"], or the arrays or Tensors themselves.'
            )
    return found


class Analysis:
    """The dependences of a program's values, and its products of two operands."""

    def __init__(
        self, nodes: Nodes, wrt: Nodes, data: Sequence[Any] | None = None
    ) -> None:
        self.nodes = sorted(
            (x for x in nodes if x.op is not IDENTITY), key=lambda x: x.serial
        )
        self.inside = {x.serial for x in self.nodes}
        self.wrt = {x.serial for x in wrt}
        self.data = data
        self.dependence: dict[int, int] = {}
        self.names: set[str] = set()
        #: Those of `data` that the program has.
        self.found_data: list[Any] = []
        self._products: list[Product] | None = None
        self.contractions = {
            x.serial: made
            for x in self.nodes
            if (made := read_subscripts(x)) is not None and made.is_product
        }
        self.sources = [
            pair
            for x in self.nodes
            if (links := x.op.inner_sources) is not None
            for pair in links(x)
        ]
        self._propagate()
        self.readers = Counter(
            y.serial
            for x in self.nodes
            for y in {id(y): y for y in map(skip_identities, x.inputs)}.values()
            if isinstance(y, Tensor)
        )

    def _propagate(self) -> None:
        """Find each node's dependence; repeat until the carries of loops settle."""
        for leaf, _ in self.sources:
            self.dependence[leaf.serial] = 0
        changed = True
        while changed:
            before = dict(self.dependence)
            for leaf, given in self.sources:
                self.dependence[leaf.serial] |= self.join_dependences(given)
            for node in self.nodes:
                found = self.join_dependences(node.inputs)
                if node.serial in self.contractions:
                    found |= PRODUCT
                if self.data is None and node.serial in self.wrt:
                    found = WEIGHT  # what is differentiated by stands for itself
                if self.is_data(node):
                    found |= DATA
                self.dependence[node.serial] = found
                if node.name is not None:
                    self.names.add(node.name)
            changed = bool(self.sources) and self.dependence != before

    def join_dependences(self, values: Iterable[object]) -> int:
        """Return the bits of the dependences of some values, joined."""
        found = 0
        for x in values:
            found |= self.find_dependence(x)
        return found

    def find_dependence(self, x: object) -> int:
        """Return the bits of a value's dependence."""
        while isinstance(x, Tensor):
            if x.serial in self.dependence:
                return self.dependence[x.serial]
            if x.serial in self.inside:
                return 0  # not yet: what a step carries on
            if x.op is not IDENTITY or not x.inputs:
                break
            if self.is_data(x) or (self.data is None and x.serial in self.wrt):
                break
            x = x.inputs[0]
        if isinstance(x, Tensor):
            found = self._leaf_dependence(x)
            self.dependence[x.serial] = found
            return found
        return self._leaf_dependence(x) if hasattr(x, "shape") else 0

    def _leaf_dependence(self, x: object) -> int:
        """Return the bit of an input or a constant: data, or a possible weight."""
        if isinstance(x, Tensor) and x.name is not None:
            self.names.add(x.name)
        if self.data is not None:
            return DATA if self.is_data(x, leaf=True) else WEIGHT
        if isinstance(x, Tensor) and x.serial in self.wrt:
            return WEIGHT
        made_by_several = isinstance(x, Tensor) and define.output_values(x) is not None
        # A number is a setting: it tells nothing of what is multiplied with it.
        return DATA if made_by_several or len(types.spec_of(x).shape) else 0

    def is_data(self, x: object, leaf: bool = False) -> bool:
        """Return whether the user named a value as data; a leaf also by its entries."""
        for named in self.data or ():
            if isinstance(named, str):
                is_same = isinstance(x, Tensor) and x.name == named
            elif isinstance(named, Tensor):  # of a session's copy by its name
                is_same = x is named or (
                    named.name is not None and getattr(x, "name", None) == named.name
                )
            else:
                value = x._value if isinstance(x, Tensor) else x
                is_same = value is named or (
                    leaf
                    and hasattr(value, "shape")
                    and getattr(value, "dtype", None) == named.dtype
                    and is_equal_constant(value, named)
                )
            if is_same:
                self.found_data.append(named)
                return True
        return False

    def has_data(self, named: object) -> bool:
        """Return whether the program has the Tensor that the user named as data."""
        return any(x is named for x in self.found_data)

    # Products

    def find_products(self) -> list[Product]:
        """Return the products of two operands, in the order of the program."""
        sums: dict[int, tuple[Tensor, Any]] = {}
        for x in self.nodes:
            if not (x.op.elementwise and x.op.traits.sums):
                continue
            operands = x.operands
            for one, other in (operands, operands[::-1]):
                one = skip_identities(one)
                serial = getattr(one, "serial", None)
                if (
                    serial in self.contractions
                    and self.readers[serial] == 1
                    and self.is_bias(one, other, x)
                ):
                    sums.setdefault(serial, (x, other))
        products = []
        for node in self.nodes:
            letters = self.contractions.get(node.serial)
            if letters is None:
                continue
            pair = node.operands
            operands = tuple(
                self.strip_transposes(x, term)
                for x, term in zip(pair, letters[:2], strict=True)
            )
            add, addend = sums.get(node.serial, (None, None))
            products.append(
                Product(node, (operands[0], operands[1]), letters.output, add, addend,
                      self.find_dependence(addend))
            )  # fmt: skip
        return products

    def is_bias(self, product: Tensor, addend: object, total: Tensor) -> bool:
        """Return whether an addend is a bias: of no data, no larger than the sum."""
        if self.find_dependence(addend) & DATA or (
            isinstance(addend, Tensor) and define.output_values(addend) is not None
        ):
            return False
        a, b = types.spec_of(product).shape, types.spec_of(total).shape
        return len(a) == len(b) and all(
            not (isinstance(m, int) and isinstance(n, int)) or m == n
            for m, n in zip(a, b, strict=True)
        )

    def strip_transposes(self, x: object, letters: str) -> Operand:
        """Return an operand as stored, and the transposes that follow."""
        transposes: list[Tensor] = []
        node = skip_identities(x)
        while (
            isinstance(node, Tensor)
            and node.serial in self.inside
            and node.op is TRANSPOSE
            and not (self.data is None and node.serial in self.wrt)
        ):
            transposes.append(node)
            axes = node.params.get("axes") or range(len(letters))[::-1]
            stored = [""] * len(letters)
            for letter, axis in zip(letters, axes, strict=True):
                stored[axis] = letter
            letters, x = "".join(stored), node.operands[0]
            node = skip_identities(x)
        return Operand(x, tuple(transposes[::-1]), letters, self.find_dependence(x))

    # Roles

    def assign_roles(self, product: Product) -> list[Match] | str:
        """Return the roles at a product, both ways where that is not clear.

        Where the operands have no roles: the reason, ``"both"`` or ``"neither"`` of
        them depends on data.
        """
        a, b = product.operands
        data = [x for x in product.operands if x.dependence & DATA]
        if self.data is not None:
            if len(data) != 1:
                return "both" if data else "neither"
            return [Match(product, b if a is data[0] else a, data[0], "")]
        if len(data) == 2:
            mixed = [x for x in data if x.dependence & WEIGHT]
            if len(mixed) == 2:
                if not any(map(self.is_scaled, mixed)):
                    return "both"
                why = (
                    "both operands depend on data, but one is a weight times an array"
                    " that may be no data, such as a mask"
                )
            elif not mixed:
                if not product.addend_dependence & WEIGHT:
                    return "both"  # a constant: no derivative passes here
                why = "the derivative is asked by neither of the operands"
            else:
                why = (
                    "the derivative is asked by nothing in the one operand, and the"
                    " other depends on data and on what it is asked by"
                )
        elif data:
            weight, x = (b, a) if a is data[0] else (a, b)
            if not weight.dependence & WEIGHT:
                return "neither"
            if not weight.dependence & PRODUCT or x.dependence & WEIGHT:
                return [Match(product, weight, x, "")]
            why = (
                "the derivative is asked by nothing in the one operand, and the other"
                " is the result of a product itself"
            )
        elif any(x.dependence & DATA for p in self.products for x in p.operands):
            return "neither"  # a weight made of weights
        else:
            why = (
                "the derivative is asked by all that stands in products, so that"
                " nothing is known to be data"
            )
        shapes = " and ".join(str(types.spec_of(x.value).shape) for x in (a, b))
        text = (
            "which operand of"
            f" {product.node.op.name}{blame.quote_site(product.node.site)}, of shapes"
            f" {shapes}, is the weight is not clear: {why}. Say what is data,"
            f' wb.patterns.linear(data=["X"]), or which are weights, where=lambda m:'
            f' m["weight"].ndim == 2.'
        )
        return [Match(product, a, b, text), Match(product, b, a, text)]

    def is_scaled(self, operand: Operand) -> bool:
        """Return whether an operand is a weight that is multiplied with data."""
        node = skip_identities(operand.value)
        if not isinstance(node, Tensor):
            return False
        if not node.op.chooses and node.op.traits.symbol not in ("*", "/"):
            return False  # neither masked nor scaled
        found = [self.find_dependence(x) for x in node.operands]
        return any(b & WEIGHT and not b & DATA for b in found) and any(
            b & DATA and not b & WEIGHT for b in found
        )

    @property
    def products(self) -> list[Product]:
        """The products of two operands, found once."""
        if self._products is None:
            self._products = self.find_products()
        return self._products


def role_values(one: Match) -> tuple[Any, Any, Any]:
    """Return the weight, the input and the bias; 0 where there is no bias."""
    bias = 0.0 if one.product.add is None else one.product.addend
    return one.weight.value, one.input.value, bias


def make_region(one: Match, target: ByLinear) -> Region:
    """Return a linear structure as a part of the program."""
    product = one.product
    steps: list[tuple[Tensor, tuple[int, ...]]] = []

    def add_transposes(operand: Operand, source: int) -> int:
        """Add the transposes of an operand; return the step that the product reads."""
        for node in operand.transposes:
            steps.append((node, (source,)))
            source = 2 + len(steps)
        return source

    at = {
        id(one.weight): add_transposes(one.weight, 0),
        id(one.input): add_transposes(one.input, 1),
    }
    a, b = (at[id(x)] for x in product.operands)
    steps.append((product.node, (a, b)))
    root, sign, bias_sign = product.node, 1, 1
    if product.add is not None:
        root, step = product.add, 2 + len(steps)
        first = skip_identities(root.operands[0]) is product.node
        steps.append((root, (step, 2) if first else (2, step)))
        if root.op.traits.symbol == "-":
            sign, bias_sign = (1, -1) if first else (-1, 1)
    letters = Subscripts(one.weight.axes, one.input.axes, product.output).rename_axes()
    made, sources = zip(*steps, strict=True)
    return Region(
        RegionLayout(target.label, ROLES, sources, (len(steps) - 1,)),
        role_values(one),
        made,
        [root],
        settings={"subscripts": str(letters), "sign": sign, "bias_sign": bias_sign},
        unclear=one.unclear,
    )


def read_subscripts(node: Tensor) -> Subscripts | None:
    """Return the axes of a node that multiplies two operands; None for another node."""
    op, operands = node.op, node.operands
    if op.traits.subscripts is None or len(operands) != 2:
        return None
    if any(
        isinstance(x, Tensor) and define.output_values(x) is not None for x in operands
    ):
        return None
    ranks = [len(types.spec_of(x).shape) for x in operands]
    if sum(ranks) > len(ascii_letters) or not all(ranks):
        return None
    subscripts = op.traits.subscripts(operands, **node.settings)
    (first, second), output = parse_subscripts(subscripts)
    return Subscripts(first, second, output)


# What users call: every linear layer, however it is written. A structure of their own
# is :func:`workbench.pattern`.


def linear(
    *,
    data: object = None,
    where: Callable[[Mapping[str, Any]], Any] | None = None,
) -> ByLinear:
    """Target every linear structure of a program, however the model is written.

    ``W @ x + b``, ``x @ W + b``, ``x @ W.T + b``, ``b - W @ x``, without a bias, by
    `dot`, `matmul`, `tensordot`, `einsum`, `multi_dot`, `inner`, `vecdot`: a product
    of two operands that is summed over an axis of both, and what is added to it.

    Which operand is the **weight** follows from what depends on data: the weight
    depends on none, the **input** does. Where both do, as in attention, or neither, as
    in a weight that is itself a product, there is no linear structure. The **bias** is
    what is added to or subtracted from the product directly, if it depends on no data,
    makes the result no larger, and nothing else reads the product; else it is a step
    of its own. Weight and input are given as they are stored, before their transposes.

    Parameters
    ----------
    data
        What is data: names of inputs or nodes, arrays, Tensors, one or a list. By
        default all arrays, arguments and constants, that the derivative is not asked
        by. Numbers are none.
    where
        A condition: a function of a dict with ``"weight"``, ``"input"`` and
        ``"bias"`` (0 where there is none), ``lambda m: m["weight"].ndim == 2``.

    Returns
    -------
    ByLinear
        A target for :func:`workbench.override`. The rule sees one node for each
        structure, in whatever spelling: ``node.inputs`` are weight, input and bias
        (also ``node["weight"]``), ``node.vjp(g)`` gives their true gradients.
        ``node.get_attr("subscripts")`` says what is multiplied, as for `numpy.einsum`:
        ``"oi,bi->bo"`` for ``x @ W.T``, with ``i``, ``j``, ... for the axes that are
        summed over, ``o``, ``p``, ... for the weight's own, ``b``, ``c``, ... for the
        input's, and capitals for those of all three; ``"sign"`` and ``"bias_sign"``
        are -1 for what is subtracted. :func:`layer` makes matrices of all that.

    Raises
    ------
    OverrideError
        When it is used, where the roles are not clear: the derivative is asked by all
        arrays, so that none is data, or by some of the weights alone. The error names
        ``data=`` and ``where=``, which say what is what.

    Notes
    -----
    An array that only masks or scales a weight counts as data too; where a product of
    two values of data has such a weight, ``data=`` must say what is. An `einsum` of
    three operands is not a product of two, and a product that is written as
    ``np.sum(x[:, :, None] * W, axis=1)`` is not an op of its own: neither is matched.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def model(params, x):
    ...     W, b, V = params
    ...     return np.sum(np.dot(np.tanh(x @ W.T + b), V))
    >>> params = np.ones((3, 2)), np.zeros(3), np.ones(3)
    >>> def rule(node, g):
    ...     dW, dx, db = node.vjp(g)
    ...     return 0 * dW, dx, db
    >>> frozen = wb.override(wb.patterns.linear(), rule)
    >>> gradients = wb.grad(model, overrides=[frozen])(params, np.zeros((4, 2)))
    >>> [float(np.sum(g)) for g in gradients]
    [0.0, 12.0, 0.0]
    """
    return ByLinear(data, where)


class Layer(NamedTuple):
    """A linear structure as matrices, whatever its spelling; made by :func:`layer`.

    Attributes
    ----------
    weight
        A row for each output, a column for each input.
    input
        A row for each example, a column for each input.
    gradient
        What arrives at the product: a row for each example, a column for each output.
    rows
        ``rows(dW)`` is what has the shape of the weight, such as its true gradient, as
        a matrix.
    restore
        ``restore(weight, input)`` are the gradients of weight and input, given as
        such matrices (or None), and the true one of the bias, in the shapes and the
        order that the rule returns them in.
    """

    weight: Array
    input: Array
    gradient: Array
    rows: Callable[[Array], Array]
    restore: Callable[[Cotangent, Cotangent], list[Cotangent]]


def layer(node: Node, g: Array) -> Layer:
    """Return a linear structure and the gradient that arrives as matrices.

    Parameters
    ----------
    node, g
        What the rule of an override on :func:`linear` gets.

    Raises
    ------
    OverrideError
        If the node is not a linear structure, or its weight differs from example to
        example.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def rule(node, g):  # the true one
    ...     layer = wb.patterns.layer(node, g)
    ...     return layer.restore(
    ...         layer.gradient.T @ layer.input, layer.gradient @ layer.weight
    ...     )
    >>> one = wb.override(wb.patterns.linear(), rule)
    >>> X = np.array([[1.0, 2.0]])
    >>> wb.grad(lambda W: np.sum(X @ W.T), overrides=[one])(np.ones((3, 2)))
    array([[1., 2.],
           [1., 2.],
           [1., 2.]])
    """
    if "subscripts" not in node.params:
        raise OverrideError(
            f"{node.op.name} is not a linear structure. layer(node, g) is for the rule"
            " of an override on wb.patterns.linear()."
        )
    letters = Subscripts._make(re.split(",|->", node.get_attr("subscripts")))
    weight, x, *_ = node.inputs
    rows = [c for c in letters.output if c in letters.weight and c not in letters.input]
    batch = [c for c in letters.output if c not in letters.weight]
    if len(rows) + len(batch) < len(letters.output):
        raise OverrideError(
            f"the linear structure {letters} has another weight for each example, which"
            ' is not a matrix. Write its rule with node.get_attr("subscripts").'
        )
    summed = letters.summed
    sizes = dict(zip(letters.weight, shape_of(weight), strict=True))
    sizes |= dict(zip(letters.input, shape_of(x), strict=True))

    def to_matrix(
        value: Array, term: str, first: Sequence[str], last: Sequence[str]
    ) -> Array:
        """Return a value with axes ``term`` as a matrix."""
        turned = np.transpose(value, [term.index(c) for c in (*first, *last)])
        return np.reshape(
            turned, [prod(sizes[c] for c in part) for part in (first, last)]
        )

    def from_matrix(
        matrix: Array, term: str, first: Sequence[str], last: Sequence[str]
    ) -> Array:
        """Return the value with axes ``term`` that a matrix stands for."""
        axes = [*first, *last]
        array = np.reshape(matrix, [sizes[c] for c in axes])
        return np.transpose(array, [axes.index(c) for c in term])

    def restore(d_weight: Cotangent, d_input: Cotangent) -> list[Cotangent]:
        return [
            None
            if d_weight is None
            else from_matrix(d_weight, letters.weight, rows, summed),
            None
            if d_input is None
            else from_matrix(d_input, letters.input, batch, summed),
            g * node.get_attr("bias_sign"),
        ]

    return Layer(
        to_matrix(weight, letters.weight, rows, summed),
        to_matrix(x, letters.input, batch, summed),
        to_matrix(g * node.get_attr("sign"), letters.output, batch, rows),
        lambda value: to_matrix(value, letters.weight, rows, summed),
        restore,
    )
