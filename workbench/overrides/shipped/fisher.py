"""Natural gradients of linear layers, with a metric estimated from the gradients.

At a node that multiplies by a matrix of weights, each example n of a batch has its own
gradient ``sₙ aₙᵀ``: what went in, ``aₙ``, and what arrives, ``sₙ``. Their second
moments are the empirical Fisher information, of which `kfac` takes the two factors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.budget import explain_excess
from workbench.core import dims
from workbench.core.formatting import spell_number
from workbench.core.tensor import array_of
from workbench.core.types import Array
from workbench.errors import DtypeError, OverrideError
from workbench.ops.define import dtype_of, shape_of
from workbench.overrides.linear_structures import layer
from workbench.overrides.named import named_rule, unwrap_scalar
from workbench.overrides.node import Node
from workbench.overrides.rule_parser import write_rule
from workbench.overrides.shipped.natural import add_damping


def fisher(damping: float = 1e-3, weights: int | None = None, mean: bool = True) -> str:
    """Precondition the gradient of weights by their empirical Fisher information.

    ``(F + damping · I)⁻¹ d`` with ``F = mean(vec(sₙ aₙᵀ) vec(sₙ aₙᵀ)ᵀ)`` over the N
    examples of the batch (Amari, "Natural gradient works efficiently in learning",
    1998). Where there are fewer examples than weights F is never made: by Woodbury's
    identity a system of N equations does (Henderson and Searle, "On deriving the
    inverse of a sum of matrices", 1981).

    Parameters
    ----------
    damping
        What is added to the diagonal; positive, since F has a rank of at most N.
    weights
        Which input of the node is the matrix of weights. By default the one of the
        two that varies, or that is a matrix beside a vector.
    mean
        The loss is the mean over the examples, so the gradient that arrives for one
        is N times what is seen; False: the sum.

    Returns
    -------
    The text of a rule, for :func:`workbench.patterns.linear`, `matmul` and `dot`, or a
    pattern ``W @ x + b``. The other inputs keep their true gradients. It is not linear
    in what arrives: forward mode needs a rule of its own. Second order differentiates
    the metric too.

    Raises
    ------
    OverrideError
        If the damping is not positive; where it is not clear which input the weights
        are.
    DtypeError
        If the node is complex.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> X, T = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, -1.0])
    >>> loss = lambda w: np.mean((X @ w - T) ** 2) / 2
    >>> rule = wb.override("matmul", wb.rules.fisher(damping=1.0))
    >>> wb.grad(loss, overrides=[rule])(np.zeros(2))
    array([-0.33333333,  0.33333333])
    """
    _check_settings("fisher", damping, weights, mean)
    return write_rule("fisher", damping=damping, weights=weights, mean=mean)


def kfac(damping: float = 1e-3, weights: int | None = None, mean: bool = True) -> str:
    """Return the natural gradient of a matrix of weights by Kronecker factors.

    ``(G + √damping / π · I)⁻¹ D (A + π √damping · I)⁻¹`` for a gradient D of
    ``W @ a``, with ``A = mean(aₙ aₙᵀ)``, ``G = mean(sₙ sₙᵀ)`` and π the root of the
    quotient of their mean diagonals: the Fisher information if what goes in and what
    comes back are independent (Martens and Grosse, "Optimizing neural networks with
    Kronecker-factored approximate curvature", 2015, sections 3 and 6.3), here of the
    gradients that arrive, not of samples of the model.

    Parameters
    ----------
    damping
        The damping λ of the whole, shared between the factors; positive.
    weights, mean
        As for :func:`fisher`.

    Returns
    -------
    The text of a rule, for :func:`workbench.patterns.linear`, `matmul` and `dot`, or a
    pattern ``W @ x + b``. The other inputs keep their true gradients. It is not linear
    in what arrives: forward mode needs a rule of its own. Second order differentiates
    the metric too.

    Raises
    ------
    OverrideError
        If the damping is not positive; where it is not clear which input the weights
        are.
    DtypeError
        If the node is complex.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> X, T = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, -1.0])
    >>> loss = lambda w: np.mean((X @ w - T) ** 2) / 2
    >>> rule = wb.override("matmul", wb.rules.kfac(damping=1e-9))
    >>> wb.grad(loss, overrides=[rule])(np.zeros(2)).round(3)
    array([-1. ,  0.5])
    """
    _check_settings("kfac", damping, weights, mean)
    return write_rule("kfac", damping=damping, weights=weights, mean=mean)


class Layer(NamedTuple):
    """A node as a linear layer.

    Attributes
    ----------
    place
        The position of the weights among the inputs.
    a, s
        What goes in and what arrives, a row for each example.
    d
        The true gradient of the weights, a row for each output.
    back
        Gives a matrix with a row for each output as the weights have it.
    """

    place: int
    a: Any
    s: Any
    d: Any
    back: Callable[[Any], Any]


@named_rule("fisher", label=lambda damping, **_: f"Fisher +{spell_number(damping)}")
def _fisher(
    node: Node,
    g: Array,
    *,
    damping: float = 1e-3,
    weights: int | None = None,
    mean: bool = True,
) -> list[Any]:
    _check_settings("fisher", damping, weights, mean)
    true = node.vjp_wrt(g)
    layer = _as_layer("fisher", node, g, true, weights)
    if layer is None:
        return true
    count = shape_of(layer.a)[0]
    # F = Uᵀ U of rows uₙ = vec(sₙ aₙᵀ) · factor / √N, and U Uᵀ entry by entry.
    factor = (count if mean else 1.0) / count**0.5
    a, s = layer.a, layer.s * factor
    shape = shape_of(layer.d)
    _check_size("fisher", node, count * min(count, shape[0] * shape[1]))
    if shape[0] * shape[1] <= count:
        rows = np.reshape(s[:, :, None] * a[:, None, :], (count, -1))
        made = np.linalg.solve(add_damping(rows.T @ rows, damping), np.ravel(layer.d))
        true[layer.place] = layer.back(np.reshape(made, shape))
        return true
    among = (a @ a.T) * (s @ s.T)
    along = np.sum((s @ layer.d) * a, axis=1)
    inside = np.linalg.solve(add_damping(among, damping), along)
    true[layer.place] = layer.back((layer.d - s.T @ (inside[:, None] * a)) / damping)
    return true


@named_rule("kfac", label=lambda damping, **_: f"K-FAC +{spell_number(damping)}")
def _kfac(
    node: Node,
    g: Array,
    *,
    damping: float = 1e-3,
    weights: int | None = None,
    mean: bool = True,
) -> list[Any]:
    _check_settings("kfac", damping, weights, mean)
    true = node.vjp_wrt(g)
    layer = _as_layer("kfac", node, g, true, weights)
    if layer is None:
        return true
    count = shape_of(layer.a)[0]
    _check_size("kfac", node, max(shape_of(layer.d)) ** 2)
    s = layer.s * count if mean else layer.s
    first, second = layer.a.T @ layer.a / count, s.T @ s / count
    # A gradient of 0 has no diagonal to compare with: both factors share alike.
    one, two = np.mean(np.diag(first)), np.mean(np.diag(second))
    some = np.logical_and(one > 0, two > 0)
    pi = np.sqrt(np.where(some, one, 1) / np.where(some, two, 1))
    root = damping**0.5
    left = np.linalg.solve(_add_to_diagonal(second, root / pi), layer.d)
    true[layer.place] = layer.back(
        np.linalg.solve(_add_to_diagonal(first, root * pi), left.T).T
    )
    return true


def _check_size(name: str, node: Node, entries: int) -> None:
    """Raise an error if the metric is far larger than the node's operands."""
    if told := explain_excess(entries, [*node.inputs, *node.outputs]):
        raise OverrideError(
            f"{name}: at {node.op.name} the metric has {told}. Choose a smaller layer,"
            " or wb.rules.natural with a metric that is a product."
        )


def _add_to_diagonal(matrix: Array, number: Array) -> Array:
    """Return a matrix with a number added to its diagonal."""
    return matrix + number * np.identity(shape_of(matrix)[0], like=array_of(matrix))


def _check_settings(name: str, damping: Any, weights: object, mean: object) -> None:
    damping, weights = map(unwrap_scalar, (damping, weights))
    if type(damping) not in (int, float):
        raise OverrideError(f"{name}: damping={damping!r}; give a positive number.")
    if weights is not None and type(weights) is not int:
        raise OverrideError(
            f"{name}: weights={weights!r}; give the position of the input that is the"
            " matrix of weights, 0 or 1."
        )
    if not isinstance(mean, (bool, np.bool_)):
        raise OverrideError(
            f"{name}: mean={mean!r}; write True where the loss is the mean over the"
            " examples, False where it is their sum."
        )
    if not damping > 0:
        raise OverrideError(
            f"{name}: damping={damping!r}; give a positive number, since the Fisher"
            " information of a few examples is not invertible."
        )


def _as_layer(
    name: str, node: Node, g: Array, true: list[Any], weights: int | None
) -> Layer | None:
    """Return the node as a linear layer; None if the weights need no gradient."""
    inputs = node.inputs
    linear = "subscripts" in node.params  # of wb.patterns.linear(), which knows
    place = weights
    if place is None:
        place = 0 if linear else _find_weights(name, node, true)
    if linear and place != 0:
        raise OverrideError(
            f"{name}: weights={place}, and input 0 of a linear structure is its weight."
            " Leave weights out."
        )
    if not 0 <= place < len(inputs):
        raise OverrideError(
            f"{name}: weights={place}, and {node.op.name} has {len(inputs)} inputs."
        )
    d = true[place]
    if d is None:
        return None
    if any(dims.has_dim(shape_of(x)) for x in (*inputs, g)):
        raise OverrideError(
            f"{name} needs to know the shapes at {node.op.name}, and a length of them"
            " is not known before the program runs. Give the inputs shapes."
        )
    if any(dtype_of(x).kind == "c" for x in (*inputs, g)):
        raise DtypeError(
            f"{name}: {node.op.name} is complex here, and the Fisher information is"
            " that of real weights. Use wb.rules.natural with a metric of your own."
        )
    if linear:
        whole = layer(node, g)
        return Layer(
            0, whole.input, whole.gradient, whole.rows(d),
            lambda made: whole.restore(made, None)[0],
        )  # fmt: skip
    for other, x in enumerate(inputs):
        if other == place:
            continue
        found = _match_shapes(node.op.name, place < other, inputs[place], x, g)
        if len(found) > 1:
            raise OverrideError(
                f"{name}: at {node.op.name} the shapes {shape_of(inputs[place])} and"
                f" {shape_of(x)} fit both W @ x and x @ W.T. Attach the rule to the"
                " matmul itself."
            )
        if found:
            a, s, turned = found[0]
            rows = np.reshape(d, (-1, shape_of(s)[1])[:: 1 if turned else -1])
            rows = rows.T if turned else rows
            back = partial(_from_matrix, shape=shape_of(inputs[place]), turned=turned)
            return Layer(place, a, s, rows, back)
    shapes = " and ".join(str(shape_of(x)) for x in inputs)
    raise OverrideError(
        f"{name}: {node.op.name} of shapes {shapes} is not a linear layer: weights W"
        " with W @ x or x @ W. Attach the rule to matmul, or to wb.patterns.linear()."
    )


def _from_matrix(made: Array, shape: tuple[int, ...], turned: bool) -> Array:
    """Return a matrix with a row for each output in the shape of weights."""
    return np.reshape(made.T if turned else made, shape)


def _find_weights(name: str, node: Node, true: list[Any]) -> int:
    """Return which input the weights are, where nobody has said so."""
    moving = [i for i, d in enumerate(true) if d is not None]
    if len(moving) > 1:
        matrices = [i for i in moving if len(shape_of(node.inputs[i])) == 2]
        moving = matrices or moving
    if len(moving) != 1:
        raise OverrideError(
            f"{name}: which input of {node.op.name} the weights are is not clear, since"
            f" inputs {' and '.join(map(str, moving))} vary. Say it:"
            f" wb.rules.{name}(weights={moving[0] if moving else 0})."
        )
    return moving[0]


def _match_shapes(
    op: str, before: bool, w: Array, x: Array, g: Array
) -> list[tuple[Any, Any, bool]]:
    """Return the rows of ``x`` and ``g`` for each product of x and W that fits.

    A matmul is W @ x where W comes first; a pattern may have the other order.
    The flag says that the weights are stored as x @ W reads them.
    """
    shape, data, out = shape_of(w), shape_of(x), shape_of(g)
    found: list[tuple[Any, Any, bool]] = []
    product = op in ("matmul", "dot")
    if len(data) < 1 or len(shape) not in (1, 2):
        return found
    if len(shape) == 1:
        # One output: a vector of weights, on either side.
        n = shape[0]
        if (before or not product) and data == (n, *out) and len(data) <= 2:
            return [(np.reshape(x, (n, -1)).T, np.reshape(g, (-1, 1)), False)]
        if (not before or not product) and data == (*out, n):
            return [(np.reshape(x, (-1, n)), np.reshape(g, (-1, 1)), False)]
        return found
    m, k = shape
    if (before or not product) and len(data) <= 2 and (m, *data[1:]) == out:
        if data[0] == k:
            found.append((np.reshape(x, (k, -1)).T, np.reshape(g, (m, -1)).T, False))
    if (not before or not product) and data[-1] == m and (*data[:-1], k) == out:
        found.append((np.reshape(x, (-1, m)), np.reshape(g, (-1, k)), True))
    if not product and len(data) > 1 and data[-1] == k and (*data[:-1], m) == out:
        found.append((np.reshape(x, (-1, k)), np.reshape(g, (-1, m)), False))
    return found
