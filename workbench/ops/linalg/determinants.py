"""Determinants.

A determinant is a polynomial of the entries, and so are its derivatives: the matrix
of cofactors, and the second cofactors, products of all singular values but one and
but two. They are right for singular matrices too, and so are those of all orders.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.op import Op, declare, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Spec, value_spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import swap
from workbench.ops.define import aligned, dtype_of, op
from workbench.ops.linalg.shared import (
    Params,
    broadcast,
    eye_like,
    real_dtype,
    reduced,
    square,
    stacked,
)

__all__ = ["SlogdetResult", "det", "slogdet"]


class SlogdetResult(NamedTuple):
    """What `numpy.linalg.slogdet` returns."""

    sign: Any
    logabsdet: Any


# The matrix of cofactors


def _products(sizes: Any) -> tuple[Any, Any, Any]:
    """Products of the first values, of the last ones, and of all but one."""
    one = np.ones_like(sizes[..., :1])
    before = np.cumprod(np.concatenate([one, sizes[..., :-1]], axis=-1), axis=-1)
    turned = np.flip(sizes, -1)
    after = np.cumprod(np.concatenate([one, turned[..., :-1]], axis=-1), axis=-1)
    after = np.flip(after, -1)
    return before, after, before * after


#: Up to this rounding error per row of ``x⁻¹``, ``det x · x⁻ᵀ`` has as many digits as
#: singular values give, which take ten times as long.
TAME = 2e-13


def _by_inverse(x: Any) -> Any:
    """The cofactors of matrices far from singular; None if one of them is not."""
    if x.shape[-1] < 8 or not x.size:  # small ones gain nothing
        return None
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return None
    whole = np.linalg.det(x)
    size, limits = np.abs(whole), np.finfo(x.dtype)
    error = _largest_row(x) * _largest_row(inverse) * limits.eps
    tame = (error < TAME * x.shape[-1]) & (size > limits.tiny) & (size < limits.max)
    if not bool(np.all(tame)):
        return None
    return whole[..., None, None] * swap(inverse)


def _largest_row(x: Any) -> Any:
    """The norm of each matrix as a map between largest entries."""
    return np.max(np.sum(np.abs(x), axis=-1), axis=-1)


def _cofactor_compute(x: Any) -> Any:
    quick = _by_inverse(x)
    if quick is not None:
        return quick
    left, sizes, right = np.linalg.svd(x)
    others = _products(sizes)[2]
    sign = np.linalg.det(left) * np.linalg.det(right)
    product = (conjugate(left) * others[..., None, :]) @ conjugate(right)
    return sign[..., None, None] * product


COFACTOR = stacked(
    op(
        "cofactor",
        _cofactor_compute,
        lambda g, y, x: apply(ALONG, (x, g)),
        push=lambda t, y, x: apply(ALONG, (x, t[0])),
        rule="x⁻ᵀ (g · y) − x⁻ᵀ gᵀ y",
        reads=(0,),
        infer=square,
    )
)


# Its derivatives along t, along t and u, and so on: symmetric maps, polynomials of x.
# With x = U S Vᴴ, cofactors multiply, so for the first it is enough to move S by
# D = Uᴴ t V: an entry beside the diagonal becomes minus the product of all values but
# two, one on it a sum of such products.


def _first_along(x: Any, t: Any) -> Any:
    left, sizes, right = np.linalg.svd(x)
    inner = conjugate(swap(left)) @ t @ conjugate(swap(right))
    pairs = _all_but_two(sizes)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    kept = np.sum(pairs * diagonal[..., None, :], axis=-1)
    moved = eye_like(inner) * kept[..., None, :] - pairs * swap(inner)
    sign = np.linalg.det(left) * np.linalg.det(right)
    return sign[..., None, None] * (conjugate(left) @ moved @ conjugate(right))


def _all_but_two(sizes: Any) -> Any:
    """For i and j the product of all values but these two; 0 where they are one."""
    before, after, _ = _products(sizes)
    eye = eye_like(sizes)
    above = np.triu(np.ones_like(eye), 1)
    # Row i: the values after i, multiplied up; the last factor goes to `between`.
    values = np.where(above == 1, sizes[..., None, :], 1)
    running = np.cumprod(values, axis=-1)
    between = np.concatenate(
        [np.ones_like(running[..., :1]), running[..., :-1]], axis=-1
    )
    upper = above * before[..., :, None] * between * after[..., None, :]
    return upper + swap(upper)


def _second_along(x: Any, a: Any, b: Any) -> Any:
    """Return the second derivative of the cofactors; None near singular matrices."""
    cofactor = _by_inverse(x)
    if cofactor is None:
        return None
    turned = swap(np.linalg.inv(x))
    first = _first_along(x, b)
    moved = -(turned @ swap(b) @ turned)
    return (
        first * _traced(turned * a)
        + cofactor * _traced(moved * a)
        - moved @ swap(a) @ cofactor
        - turned @ swap(a) @ first
    )


def _traced(x: Any) -> Any:
    return np.sum(x, axis=(-2, -1), keepdims=True)


def _along_compute(x: Any, *directions: Any) -> Any:
    *others, last = directions
    if not others:
        return _first_along(x, last)
    degree = x.shape[-1] - len(directions)
    made = np.zeros_like(sum(directions, x))
    if degree < 1:
        return made
    quick = _second_along(x, *directions) if len(directions) == 2 else None
    if quick is not None:
        return quick
    # Along the last direction the others' derivative is a polynomial of this degree:
    # its values on a circle, as many as the degree, tell the coefficient.
    size, step = (np.max(np.abs(v), (-2, -1), keepdims=True) for v in (x, last))
    radius = np.where(size == 0, 1, size) / np.where(step == 0, 1, step)
    unit = last * radius
    for k in range(count := max(degree, 2)):
        turn = 1 - 2 * k if count == 2 else np.exp(2j * np.pi * k / count)
        value = _along_compute(x + turn * unit, *others)
        part = value / (turn * count * radius)
        made = made + (part if made.dtype.kind == "c" else np.real(part))
    return made


def _along_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    x, *directions = inputs
    passed = [apply(ALONG, (*inputs, g)) if mask & 1 else None]
    for i in range(len(directions)):
        rest = (*directions[:i], *directions[i + 1 :], g)
        passed.append(apply(ALONG, (x, *rest)) if mask >> i + 1 & 1 else None)
    return passed


def _along_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            moved = (*inputs, t) if i == 0 else (*inputs[:i], t, *inputs[i + 1 :])
            term = apply(ALONG, moved)
            total = term if total is None else total + term
    return total


def _along_infer(x: Any, *directions: Any) -> Spec:
    spec = square(x)
    for t in directions:
        spec = broadcast(spec, value_spec(t).shape[:-2])
    return spec


ALONG: Op = declare("cofactor_along")
ALONG.batch = lambda inputs, batched, params: apply(ALONG, aligned(inputs, batched))
ALONG.compute, ALONG.infer = _along_compute, _along_infer
ALONG.pull, ALONG.push = _along_pull, _along_push
ALONG.rule = "the next derivative of det(x₀), along g too"


# det

DET = stacked(
    op(
        "det",
        np.linalg.det,
        lambda g, y, x: g[..., None, None] * apply(COFACTOR, (x,)),
        push=lambda t, y, x: np.sum(t[0] * apply(COFACTOR, (x,)), axis=(-2, -1)),
        rule="g · cofactors of x",
        reads=(0,),
        infer=reduced,
    )
)


@implements(np.linalg.det)
def det(a: Any) -> Any:
    """`numpy.linalg.det`; its derivatives are right for singular matrices too."""
    return apply(DET, (admit(a),))


# slogdet


def _logabsdet_infer(x: Any) -> Spec:
    spec = reduced(x)
    return Spec(spec.shape, real_dtype(spec.dtype))


LOGABSDET = stacked(
    op(
        "logabsdet",
        lambda x: np.linalg.slogdet(x)[1],
        lambda g, y, x: g[..., None, None] * swap(np.linalg.inv(x)),
        push=lambda t, y, x: np.sum(t[0] * swap(np.linalg.inv(x)), axis=(-2, -1)),
        rule="g · x⁻ᵀ",
        reads=(0,),
        infer=_logabsdet_infer,
    )
)


def _sign_pull(g: Any, y: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return None
    return 1j * np.imag(g * y)[..., None, None] * swap(np.linalg.inv(x))


def _sign_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return np.zeros_like(y)
    moved = np.sum(tangents[0] * swap(np.linalg.inv(x)), axis=(-2, -1))
    return 1j * y * np.imag(moved)


SIGN = stacked(
    op(
        "sign_of_det",
        lambda x: np.linalg.slogdet(x)[0],
        _sign_pull,
        push=_sign_push,
        rule="0, or i Im(g y) x⁻ᵀ for a complex matrix, whose sign turns",
        reads=(0, "y"),
        infer=reduced,
    )
)


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """`numpy.linalg.slogdet`; the sign of a complex matrix turns with it."""
    a = admit(a)
    return SlogdetResult(apply(SIGN, (a,)), apply(LOGABSDET, (a,)))
