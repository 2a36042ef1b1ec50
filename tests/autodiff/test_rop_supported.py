"""C7: the seed's first list, the ops that Theano's R-op knew, half of them untested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.pushing import (
    RANKED,
    Rng,
    apart,
    axes_of,
    by_complex_step,
    counted,
    pushes,
)
from workbench.gradient import Rop
from workbench.ops.shaping import specify_shape
from workbench.ops.updates import at
from workbench.scipy import special

# The first list, tested by Theano


def test_C7_SpecifyShape(rng: Rng) -> None:
    x = rng.normal(size=(2, 3))
    pushes(lambda x: specify_shape(x, (2, None)) ** 2, x, rng=rng)


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_MaxAndArgmax(shape: tuple[int, ...], rng: Rng) -> None:
    """Along any axes of any rank; Theano had two axes of matrices."""
    x = apart(rng, *shape)
    for axis in axes_of(len(shape)):
        pushes(lambda x, a=axis: np.max(x, axis=a), x, rng=rng, step="differences")
    for axis in range(len(shape)):
        pushes(
            lambda x, a=axis: x * (1 + np.argmax(x, axis=a, keepdims=True)),
            x,
            rng=rng,
            step="differences",
        )


def test_C7_Subtensor(rng: Rng) -> None:
    x = rng.normal(size=(4, 5, 3))
    for key in (1, -1, np.s_[1:3], np.s_[::-2], np.s_[..., 0], np.s_[1, :, None, 2:],
                np.s_[3:1]):  # fmt: skip
        pushes(lambda x, k=key: x[k] ** 2, x, rng=rng, varies=key != np.s_[3:1])


def test_C7_IncSubtensor(rng: Rng) -> None:
    x, v = rng.normal(size=(4, 3)), rng.normal(size=3)
    for key in (1, np.s_[1:3], np.s_[::2, 1:], np.s_[-1, :2]):
        part = v[: np.shape(x[key])[-1]]
        pushes(lambda x, v, k=key: at(x)[k].add(v**2), x, part, rng=rng)


def test_C7_SetSubtensor(rng: Rng) -> None:
    x, v = rng.normal(size=(4, 3)), rng.normal(size=3)
    for key in (1, np.s_[1:3], np.s_[::2, 1:], np.s_[-1, :2]):
        part = v[: np.shape(x[key])[-1]]
        pushes(lambda x, v, k=key: at(x**2)[k].set(v**2), x, part, rng=rng)


def test_C7_Alloc(rng: Rng) -> None:
    pushes(lambda x: np.full((2, 3), x**2, like=x), rng.normal(size=3), rng=rng)
    pushes(lambda x: np.broadcast_to(x**2, (4, 2, 3)), rng.normal(size=(2, 1)), rng=rng)
    pushes(lambda x: np.zeros_like(x, shape=(2, 3)) + x, rng.normal(size=()), rng=rng)


@pytest.mark.parametrize(
    "shapes",
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((), (2, 3)),
     ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2))],
    ids=str,
)  # fmt: skip
def test_C7_Dot(shapes: Any, rng: Rng) -> None:
    pushes(lambda a, b: np.dot(a, b), *(rng.normal(size=s) for s in shapes), rng=rng)


def test_C7_Elemwise(rng: Rng) -> None:
    """One of every kind; all others are in the table of samples."""
    x, y = rng.uniform(0.2, 0.8, (2, 3)), rng.uniform(0.2, 0.8, 3)
    for f in (np.add, np.subtract, np.multiply, np.divide, np.power):
        pushes(f, x, y, rng=rng)
    for name in (
        "exp log log1p expm1 sqrt sin cos tan arcsin arccos arctan sinh cosh tanh"
        " arcsinh arctanh square reciprocal negative log2 log10 exp2"
    ).split():
        f = getattr(np, name)
        pushes(lambda x, f=f: f(x), x, rng=rng)
    for f in (np.maximum, np.minimum, np.arctan2, np.hypot, np.fmod, np.logaddexp):
        pushes(f, x, y + 1, rng=rng, step="differences")
    for f in (np.abs, np.cbrt, special.gammaln, special.erf, special.digamma):
        pushes(lambda x, f=f: f(x), x + 1, rng=rng, step="differences")
    pushes(lambda x, y: np.where(x > 0.5, x * y, y), x, y, rng=rng)
    # Below, between and above the bounds, and not at one.
    x = rng.choice([0.4, 1.2, 2.0], (2, 6)) + rng.uniform(-0.15, 0.15, (2, 6))
    pushes(lambda x: np.clip(x, 1.0, 1.4), x, rng=rng, step="differences")


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_Sum(shape: tuple[int, ...], rng: Rng) -> None:
    x = rng.normal(size=shape)
    for axis in axes_of(len(shape)):
        pushes(lambda x, a=axis: np.sum(x**2, axis=a), x, rng=rng)
        pushes(lambda x, a=axis: np.mean(x**2, axis=a, keepdims=True), x, rng=rng)


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_Softmax(shape: tuple[int, ...], rng: Rng) -> None:
    x = rng.normal(size=shape)
    for axis in axes_of(len(shape)):
        varies = counted(shape, axis) > 1
        for f in (special.softmax, special.log_softmax):
            pushes(
                lambda x, f=f, a=axis: f(x, axis=a),
                x,
                rng=rng,
                step="differences",
                varies=varies,
            )


def test_C7_Shape(rng: Rng) -> None:
    """A shape does not vary; what is multiplied by it does."""
    x = rng.normal(size=(2, 3))
    pushes(lambda x: x * x.shape[0] / np.size(x), x, rng=rng)
    pushes(lambda x: np.ones_like(x) * len(x), x, rng=rng, varies=False)
    v = wb.vector("v")
    moved = Rop(np.sum(v) * v.shape[0], v, np.ones_like(v))
    assert wb.function([v], moved)(np.arange(4.0)) == 16


def test_C7_Join(rng: Rng) -> None:
    a, b = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2))
    for axis in (0, 1, 2, -1):
        pushes(lambda a, b, i=axis: np.concatenate([a, b**2, a], axis=i), a, b, rng=rng)
        pushes(lambda a, b, i=axis: np.stack([a, b**2], axis=i), a, b, rng=rng)
    pushes(lambda a, b: np.concatenate([a, np.ones((1, 3, 2)), b]), a, b, rng=rng)


def test_C7_Rebroadcast(rng: Rng) -> None:
    """An axis that is stated to have the length 1, so that it broadcasts."""
    x, y = wb.matrix("x"), wb.matrix("y")
    row = specify_shape(x, (1, None))
    fn = wb.function([x, y], Rop(row * y, [x, y], [np.ones_like(x), np.zeros_like(y)]))
    b = rng.normal(size=(3, 2))
    np.testing.assert_allclose(fn(rng.normal(size=(1, 2)), b), b)
    pushes(lambda x, y: specify_shape(x, (1, None)) * y, rng.normal(size=(1, 2)), b,
           rng=rng)  # fmt: skip


def test_C7_Reshape(rng: Rng) -> None:
    x = rng.normal(size=(2, 3, 2))
    for shape in ((12,), (3, 4), (-1, 2), (2, 2, 3, 1)):
        pushes(lambda x, s=shape: np.reshape(x**2, s), x, rng=rng)
    pushes(lambda x: x.reshape(4, 3, order="F") ** 2, x, rng=rng)


def test_C7_Flatten(rng: Rng) -> None:
    x = rng.normal(size=(2, 3, 2))
    pushes(lambda x: x.flatten() ** 2, x, rng=rng)
    pushes(lambda x: np.ravel(x, "F") ** 2, x, rng=rng)
    pushes(lambda x: np.reshape(x, (2, -1)) ** 2, x, rng=rng)


def test_C7_DimShuffle(rng: Rng) -> None:
    x = rng.normal(size=(2, 3, 1))
    pushes(lambda x: np.transpose(x, (2, 0, 1)) ** 2, x, rng=rng)
    pushes(lambda x: np.expand_dims(np.squeeze(x, 2).T, (0, 3)) ** 2, x, rng=rng)
    pushes(lambda x: np.moveaxis(np.swapaxes(x, 0, 1), -1, 0) ** 2, x, rng=rng)


def test_C7_Scan(rng: Rng) -> None:
    """As `test_rop` of Theano's scan: a recurrence, by all that enters it."""
    W, h0, xs = rng.normal(size=(2, 2)), rng.normal(size=2), rng.normal(size=(4, 2))

    def f(W: Any, h0: Any, xs: Any) -> Any:
        return wb.scan(lambda x, h, W: np.tanh(W @ h + x), xs, h0, W)

    def truth(W: Any, h: Any, xs: Any) -> Any:
        rows = []
        for x in xs:
            h = np.tanh(W @ h + x)
            rows.append(h)
        return np.stack(rows)

    inputs = [wb.matrix("W"), wb.vector("h0"), wb.matrix("xs")]
    t = [rng.normal(size=x.shape) for x in (W, h0, xs)]
    outs = f(*inputs)
    fn = wb.function(inputs, Rop(outs, inputs, t))
    expected = by_complex_step(truth, [W, h0, xs], t)[0]
    np.testing.assert_allclose(fn(W, h0, xs), expected, rtol=1e-11)
    u = rng.normal(size=(4, 2))
    back = wb.function(inputs, wb.grad(np.sum(outs * u), inputs))(W, h0, xs)
    right = sum(np.vdot(a, b) for a, b in zip(back, t, strict=True))
    assert np.isclose(np.vdot(u, expected), right, rtol=1e-10)
    _, moved = wb.jvp(f, (W, h0, xs), tuple(t))
    np.testing.assert_allclose(moved, expected, rtol=1e-11)


# The first list, untested by Theano


def test_C7_Split(rng: Rng) -> None:
    x = rng.normal(size=(4, 6, 3))
    for axis, places in ((0, 2), (1, [1, 4]), (2, 3), (-2, [2])):
        pushes(lambda x, a=axis, p=places: np.split(x**2, p, axis=a), x, rng=rng)
    pushes(lambda x: np.array_split(x**2, 4, axis=1), x, rng=rng)


def test_C7_ARange(rng: Rng) -> None:
    """Its step may vary, and the array with it; its length is fixed."""
    pushes(lambda x: np.arange(6) * x**2, rng.normal(size=()), rng=rng)
    pushes(lambda a, b: np.linspace(a, b, 5), rng.normal(size=()),
           rng.normal(size=()), rng=rng)  # fmt: skip
    n = wb.scalar("n", dtype="int64")
    x = wb.scalar("x")
    moved = Rop(x**2 * np.arange(n, like=x), x, np.ones(()))
    np.testing.assert_allclose(wb.function([n, x], moved)(4, 3.0), 6 * np.arange(4))


def test_C7_ScalarFromTensor(rng: Rng) -> None:
    pushes(lambda x: x[()] ** 2, rng.normal(size=()), rng=rng)
    pushes(lambda x: np.reshape(x, ()) ** 2, rng.normal(size=(1, 1)), rng=rng)
    pushes(lambda x: x.squeeze() ** 2, rng.normal(size=(1,)), rng=rng)


def test_C7_TensorFromScalar(rng: Rng) -> None:
    pushes(lambda x: np.reshape(x**2, (1,)), rng.normal(size=()), rng=rng)
    pushes(lambda x: np.stack([x, x**2]), rng.normal(size=()), rng=rng)
    pushes(lambda x: np.atleast_2d(x) ** 2, rng.normal(size=()), rng=rng)


def test_C7_AdvancedSubtensor1(rng: Rng) -> None:
    x = rng.normal(size=(4, 3))
    rows = np.array([2, 0, 2, -1])
    pushes(lambda x: x[rows] ** 2, x, rng=rng)
    pushes(lambda x: np.take(x, rows, axis=0) ** 2, x, rng=rng)


def test_C7_AdvancedIncSubtensor1(rng: Rng) -> None:
    """Rows that stand twice are added twice; set, the last one stays."""
    x, v = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    pushes(lambda x, v: at(x)[np.array([2, 0, 2])].add(v**2), x, v, rng=rng)
    pushes(lambda x, v: at(x)[np.array([2, 0, 1])].set(v**2), x, v, rng=rng)


def test_C7_AdvancedIncSubtensor(rng: Rng) -> None:
    x, v = rng.normal(size=(4, 3, 2)), rng.normal(size=(3, 2))
    i, j = np.array([2, 0, 2]), np.array([1, 0, 1])
    pushes(lambda x, v: at(x)[i, j].add(v**2), x, v, rng=rng)
    pushes(lambda x, v: at(x)[i, j[::-1]].set(v**2), x, v, rng=rng)
    mask = x > 0
    pushes(lambda x: at(x)[mask].add(np.sum(x**2)), x, rng=rng)
    pushes(lambda x: at(x)[:, [0, 2]].multiply(x[:, [1, 1]]), x, rng=rng)
