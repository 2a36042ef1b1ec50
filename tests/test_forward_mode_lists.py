"""C7: forward mode for every op of the seed's two lists, a test for each.

The first list names ops that Theano's R-op knew, half of them untested; the second
those that it lacked. Every function here is pushed forward three ways: eagerly, as a
graph of symbols (`Rop`), and against the truth, which is a complex step where the
function is analytic and runs on complex arrays, and differences of fourth order
elsewhere. The same tangent must be adjoint to reverse mode: <u, J v> = <Jᵀ u, v>.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.gradient import Rop
from workbench.graph import tree
from workbench.ops.products import mul_without_zeros, prod_without_zeros
from workbench.ops.stated import specify_shape
from workbench.ops.taking import permute_row_elements
from workbench.ops.updates import at
from workbench.scipy import linalg, sparse, special
from workbench.scipy.sparse.linalg import spsolve

Array = Any
Rng = np.random.Generator


def flat(made: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(y) for y in tree.flatten(made)[0]]


def by_complex_step(f: Any, args: list[Array], t: list[Array]) -> list[Array]:
    """The tangents of an analytic function, to the last digit."""
    h = 1e-20
    moved = f(*[x + 1j * h * v for x, v in zip(args, t, strict=True)])
    return [y.imag / h for y in flat(moved)]


def by_differences(f: Any, args: list[Array], t: list[Array]) -> list[Array]:
    """The tangents of any smooth function, to about ten digits."""
    h = 5e-4

    def at_step(s: float) -> list[Array]:
        return flat(f(*[x + s * h * v for x, v in zip(args, t, strict=True)]))

    return [
        (8 * (b - c) - (a - d)) / (12 * h)
        for a, b, c, d in zip(
            at_step(2), at_step(1), at_step(-1), at_step(-2), strict=True
        )
    ]


def pushes(
    f: Callable[..., Any],
    *args: Any,
    rng: Rng,
    step: str = "complex",
    symbols: bool = True,
    varies: bool = True,
) -> None:
    """Check the forward mode of a function at some arrays."""
    arrays = [np.asarray(x, float) for x in args]
    t = [rng.normal(size=x.shape) for x in arrays]
    value, pushed = wb.jvp(f, tuple(arrays), tuple(t))
    made = flat(pushed)
    if step == "complex":
        truth, rtol = by_complex_step(f, arrays, t), 1e-10
    else:
        truth, rtol = by_differences(f, arrays, t), 1e-7
    size = max(float(np.max(np.abs(y), initial=0)) for y in truth)
    for ours, theirs in zip(made, truth, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * (size + 1e-3))
    assert not varies or size > 0, "nothing moves: the test shows nothing"
    if symbols:
        inputs = [wb.tensor(f"x{i}", shape=x.shape) for i, x in enumerate(arrays)]
        expression = tree.flatten(f(*inputs))[0]
        moved = Rop(expression, inputs, t, disconnected_outputs="ignore")
        fn = wb.function(inputs, moved, on_unused_input="ignore")
        for ours, theirs in zip(fn(*arrays), made, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * (size + 1))
    u = [rng.normal(size=y.shape) for y in flat(value)]
    structure = tree.flatten(value)[1]
    back = wb.vjp(f, *arrays)[1](structure(u))
    left = sum(float(np.vdot(a, b).real) for a, b in zip(u, made, strict=True))
    right = sum(float(np.vdot(a, b)) for a, b in zip(back, t, strict=True))
    scale = sum(float(np.abs(a) @ np.abs(b)) for a, b in zip(
        map(np.ravel, u), map(np.ravel, made), strict=True))  # fmt: skip
    assert abs(left - right) <= 1e-9 * (scale + 1e-6)


def axes_of(rank: int) -> list[Any]:
    """None, each axis from both ends, and every set of axes."""
    single = [*range(rank), *range(-rank, 0)]
    sets = chain.from_iterable(combinations(range(rank), n) for n in range(2, rank + 1))
    return [None, *single, *sets]


def counted(shape: tuple[int, ...], axis: Any) -> int:
    """How many entries a reduction along some axes takes together."""
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    return int(np.prod([shape[a] for a in axes]))


RANKED = [(3,), (2, 3), (2, 3, 2), (2, 1, 3, 2)]


def apart(rng: Rng, *shape: int) -> Array:
    """Entries further apart from each other than any step."""
    size = int(np.prod(shape))
    return (rng.permutation(size) * 0.37 + rng.uniform(0, 0.1, size) - 1.3).reshape(
        shape
    )


def spread(rng: Rng, *shape: int) -> Array:
    """Matrices with singular values apart, and far from 0."""
    a = np.zeros(shape)
    n = np.arange(min(shape))
    a[n, n] = 1 + 2 * n
    return a + 0.1 * rng.uniform(-1, 1, shape)


def regular(rng: Rng, *shape: int) -> Array:
    """Matrices far from singular, with eigenvalues apart."""
    return rng.uniform(-0.3, 0.3, shape) + np.diag(1.0 + np.arange(shape[-1]))


def well(rng: Rng, n: int) -> Array:
    return 2 * np.eye(n) + rng.uniform(-1, 1, (n, n)) / n


def definite(rng: Rng, n: int = 3) -> Array:
    a = regular(rng, n, n)
    return a @ a.T + np.diag(np.arange(n) + 1.0)


def symmetric(a: Any) -> Any:
    return (a + np.swapaxes(a, -1, -2)) / 2


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
    pushes(
        lambda x: np.clip(x, 1.0, 1.4), apart(rng, 2, 6), rng=rng, step="differences"
    )


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


# The second list: what Theano lacked


def test_C7_AdvancedSubtensor(rng: Rng) -> None:
    x = rng.normal(size=(4, 3, 2))
    i, j = np.array([[2], [0]]), np.array([1, 0, 1])
    for key in ((i, j), (i, slice(None), 1), (slice(1, 3), j), (i, ..., [0, 1, 0]),
                (None, j), x > 0.2, (x[:, :, 0] > -5,)):  # fmt: skip
        pushes(lambda x, k=key: x[k] ** 2, x, rng=rng)


def test_C7_PermuteRowElements(rng: Rng) -> None:
    for shape in ((3,), (2, 3), (2, 2, 3)):
        x = rng.normal(size=shape)
        order = np.argsort(rng.normal(size=shape), axis=-1)
        for p in (order, np.array([2, 0, 1])):
            for inverse in (False, True):
                pushes(lambda x, p=p, i=inverse: permute_row_elements(x**2, p, i), x,
                       rng=rng)  # fmt: skip
    x = np.array([[1.0, 2.0, 3.0]])
    there = permute_row_elements(x, [[1, 2, 0]])
    assert np.array_equal(there, [[2, 3, 1]])
    assert np.array_equal(permute_row_elements(there, [[1, 2, 0]], inverse=True), x)


def test_C7_Tile(rng: Rng) -> None:
    x = rng.normal(size=(2, 3))
    for times in (2, (2,), (2, 1), (3, 2), (2, 1, 2), (0, 1)):
        pushes(lambda x, n=times: np.tile(x**2, n), x, rng=rng, varies=times != (0, 1))
    pushes(lambda x: np.repeat(x**2, 2, axis=1), x, rng=rng)
    pushes(lambda x: np.repeat(x**2, [1, 0, 3], axis=1), x, rng=rng)


def test_C7_TensorDot(rng: Rng) -> None:
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 3, 2))
    for axes in (0, 1, ([2, 1], [0, 1]), ([0], [2]), ([0, 1, 2], [2, 1, 0])):
        pushes(lambda a, b, x=axes: np.tensordot(a, b, x), a, b, rng=rng)
    pushes(lambda a, b: np.einsum("ijk,kjl->il", a, b), a, b, rng=rng)


def test_C7_Outer(rng: Rng) -> None:
    pushes(np.outer, rng.normal(size=3), rng.normal(size=4), rng=rng)
    pushes(np.outer, rng.normal(size=(2, 2)), rng.normal(size=3), rng=rng)
    pushes(np.multiply.outer, rng.normal(size=(2, 2)), rng.normal(size=3), rng=rng)
    pushes(lambda A, x, y: A + np.outer(x, y), rng.normal(size=(2, 3)),
           rng.normal(size=2), rng.normal(size=3), rng=rng)  # fmt: skip


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_Prod(shape: tuple[int, ...], rng: Rng) -> None:
    """Along any axes of any rank, with no, one and two entries that are 0."""
    x = rng.normal(size=shape)
    for zeros in range(3):
        y = x.copy()
        y.flat[:zeros] = 0
        for axis in axes_of(len(shape)):
            pushes(lambda x, a=axis: np.prod(x, axis=a), y, rng=rng,
                   varies=zeros < 2)  # fmt: skip


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_ProdWithoutZeros(shape: tuple[int, ...], rng: Rng) -> None:
    x = rng.normal(size=shape)
    for zeros in range(3):
        mask = np.ones(shape)
        mask.flat[:zeros] = 0
        for axis in axes_of(len(shape)):
            pushes(lambda x, a=axis, m=mask: prod_without_zeros(x * m, axis=a), x,
                   rng=rng, varies=zeros < x.size)  # fmt: skip
    assert prod_without_zeros(np.array([0.0, 2.0, 0.0, 3.0])) == 6
    assert prod_without_zeros(np.zeros(3)) == 1


def test_C7_MulWithoutZeros(rng: Rng) -> None:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=3)
    pushes(lambda a, b: mul_without_zeros(a * [1, 0, 1], b * [0, 1, 1]), a, b, rng=rng)
    made = mul_without_zeros(np.array([0.0, 2, 3, 0]), np.array([5.0, 0, 4, 0]))
    assert np.array_equal(made, [5, 2, 12, 0])


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_CAReduce(shape: tuple[int, ...], rng: Rng) -> None:
    """Reductions by any ufunc that adds up, along any axes of any rank."""
    x = apart(rng, *shape)
    for axis in axes_of(len(shape)):
        for f in (np.max, np.min, np.sum, np.prod, np.ptp):
            varies = f is not np.ptp or counted(shape, axis) > 1
            pushes(
                lambda x, f=f, a=axis: f(x, axis=a),
                x,
                rng=rng,
                step="differences",
                varies=varies,
            )
        for u in (np.maximum, np.minimum, np.add, np.multiply, np.logaddexp):
            pushes(
                lambda x, u=u, a=axis: u.reduce(x, axis=a),
                x,
                rng=rng,
                step="differences",
            )


# The second list: all of linear algebra


def test_C7_MatrixInverse(rng: Rng) -> None:
    pushes(lambda a: np.linalg.inv(a), regular(rng, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.inv(a), regular(rng, 2, 3, 3), rng=rng)
    pushes(lambda a: linalg.inv(a), regular(rng, 3, 3), rng=rng, step="differences")


def test_C7_MatrixPinv(rng: Rng) -> None:
    for shape in ((3, 2), (2, 3), (3, 3)):
        pushes(lambda a: np.linalg.pinv(a), spread(rng, *shape), rng=rng,
               step="differences")  # fmt: skip


def test_C7_Det(rng: Rng) -> None:
    pushes(lambda a: np.linalg.det(a), regular(rng, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.det(a), regular(rng, 2, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.slogdet(a)[1], regular(rng, 3, 3), rng=rng,
           step="differences")  # fmt: skip


def test_C7_Cholesky(rng: Rng) -> None:
    f = lambda a: np.linalg.cholesky(symmetric(a))  # noqa: E731
    pushes(f, definite(rng), rng=rng, step="differences")
    pushes(lambda a: linalg.cholesky(symmetric(a), lower=False), definite(rng),
           rng=rng, step="differences")  # fmt: skip


def test_C7_Solve(rng: Rng) -> None:
    a, b = regular(rng, 3, 3), rng.normal(size=(3, 2))
    pushes(lambda a, b: np.linalg.solve(a, b), a, b, rng=rng)
    pushes(lambda a, b: np.linalg.solve(a, b), a, b[:, 0], rng=rng)
    pushes(lambda a, b: linalg.solve(a, b), a, b, rng=rng, step="differences")


def test_C7_SolveTriangular(rng: Rng) -> None:
    a, b = regular(rng, 3, 3), rng.normal(size=(3, 2))
    for lower in (False, True):
        for trans in (0, 1):
            pushes(
                lambda a, b, lo=lower, t=trans: linalg.solve_triangular(
                    a, b, lower=lo, trans=t
                ),
                a, b, rng=rng, step="differences",
            )  # fmt: skip


def test_C7_CholeskySolve(rng: Rng) -> None:
    pushes(lambda a, b: linalg.cho_solve(linalg.cho_factor(symmetric(a)), b),
           definite(rng), rng.normal(size=3), rng=rng, step="differences")  # fmt: skip


def test_C7_SVD(rng: Rng) -> None:
    """Vectors are known up to signs: what does not depend on these is compared."""

    def f(a: Any) -> Any:
        U, S, Vh = np.linalg.svd(a, full_matrices=False)
        weights = np.arange(1.0, S.shape[0] + 1)
        return S, (U * weights) @ Vh, U**2, Vh**2

    for shape in ((3, 2), (2, 3), (3, 3)):
        a = spread(rng, *shape)
        pushes(f, a, rng=rng, step="differences")
        pushes(
            lambda a: np.linalg.svd(a, compute_uv=False),
            a,
            rng=rng,
            step="differences",
        )


def test_C7_Eigh(rng: Rng) -> None:
    a = regular(rng, 3, 3)
    for uplo in "LU":

        def f(a: Any, uplo: str = uplo) -> Any:
            values, vectors = np.linalg.eigh(symmetric(a), uplo)
            return values, (vectors * [1.0, 2.0, 5.0]) @ vectors.T, vectors**2

        pushes(f, a, rng=rng, step="differences")
        pushes(
            lambda a, u=uplo: np.linalg.eigvalsh(symmetric(a), u),
            a,
            rng=rng,
            step="differences",
        )


def test_C7_Eigvalsh_of_two_matrices(rng: Rng) -> None:
    pushes(lambda a, b: linalg.eigvalsh(symmetric(a), symmetric(b)),
           regular(rng, 3, 3), definite(rng), rng=rng, step="differences")  # fmt: skip


def test_C7_Eig(rng: Rng) -> None:
    """Neither order nor phase is fixed: what depends on neither is compared."""

    def f(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        order = np.argsort(np.real(values))
        return np.real(values)[order], np.abs(vectors)[:, order] ** 2

    def turns(a: Any) -> Any:
        values = np.linalg.eigvals(a)
        order = np.argsort(np.imag(values))
        return np.real(values)[order], np.imag(values)[order]

    pushes(f, regular(rng, 3, 3), rng=rng, step="differences")
    turning = np.array([[1.0, -2.0, 0.1], [2.0, 1.0, 0.3], [0.2, -0.1, 4.0]])
    pushes(turns, turning, rng=rng, step="differences")


def test_C7_QRFull(rng: Rng) -> None:
    for shape in ((3, 3), (4, 2)):
        pushes(lambda a: tuple(np.linalg.qr(a)), spread(rng, *shape), rng=rng,
               step="differences")  # fmt: skip


def test_C7_QRIncomplete(rng: Rng) -> None:
    pushes(lambda a: np.linalg.qr(a, mode="r"), spread(rng, 4, 2), rng=rng,
           step="differences")  # fmt: skip


def test_C7_LU(rng: Rng) -> None:
    pushes(lambda a: linalg.lu(a)[1:], regular(rng, 3, 3), rng=rng, step="differences")


def test_C7_lstsq(rng: Rng) -> None:
    pushes(lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
           spread(rng, 4, 2), rng.normal(size=(4, 2)), rng=rng,
           step="differences")  # fmt: skip


def test_C7_AllocDiag(rng: Rng) -> None:
    pushes(lambda x: np.diag(x**2), rng.normal(size=3), rng=rng)
    pushes(lambda x: np.diag(x**2, -1), rng.normal(size=3), rng=rng)
    pushes(lambda x: np.diagflat(x**2), rng.normal(size=(2, 2)), rng=rng)


def test_C7_ExtractDiag(rng: Rng) -> None:
    x = rng.normal(size=(3, 4, 2))
    for offset in (0, 1, -2):
        pushes(lambda x, k=offset: np.diagonal(x**2, k), x, rng=rng)
        pushes(lambda x, k=offset: np.diagonal(x**2, k, 2, 0), x, rng=rng,
               varies=offset == 0 or offset == 1)  # fmt: skip
        pushes(lambda x, k=offset: np.diag(x[:, :, 0] ** 2, k), x, rng=rng)
    pushes(lambda x: np.trace(x**2), x, rng=rng)


def test_C7_TensorInv(rng: Rng) -> None:
    pushes(lambda a: np.linalg.tensorinv(a), well(rng, 24).reshape(4, 6, 8, 3), rng=rng)


def test_C7_TensorSolve(rng: Rng) -> None:
    pushes(lambda a, b: np.linalg.tensorsolve(a, b), well(rng, 6).reshape(2, 3, 6),
           rng.normal(size=(2, 3)), rng=rng)  # fmt: skip


def test_C7_Kron(rng: Rng) -> None:
    pushes(np.kron, rng.normal(size=(2, 2)), rng.normal(size=(1, 3)), rng=rng)


def test_C7_Expm(rng: Rng) -> None:
    pushes(linalg.expm, rng.normal(size=(3, 3)) / 2, rng=rng, step="differences")


def test_C7_MatrixFunctions(rng: Rng) -> None:
    for f in (linalg.logm, linalg.sqrtm):
        pushes(f, definite(rng), rng=rng, step="differences")


def test_C7_MatrixPower(rng: Rng) -> None:
    for n in (0, 1, 3, -2):
        pushes(lambda a, n=n: np.linalg.matrix_power(a, n), regular(rng, 3, 3),
               rng=rng, varies=n != 0)  # fmt: skip


def test_C7_MatrixDot(rng: Rng) -> None:
    pushes(lambda a, b, c: np.linalg.multi_dot([a, b, c]), rng.normal(size=(2, 3)),
           rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng=rng)  # fmt: skip


def test_C7_Norm(rng: Rng) -> None:
    a = regular(rng, 3, 3)
    for order in (None, "fro", "nuc", 1, 2, np.inf, -1, -2, -np.inf):
        pushes(lambda a, o=order: np.linalg.norm(a, o), a, rng=rng, step="differences")
    a = np.where(a < 0, -1, 1) * apart(rng, 3, 3) + np.sign(a) * 2
    for order in (None, 1, 2, 3, np.inf, -np.inf, 0.5):
        pushes(lambda a, o=order: np.linalg.norm(a, o, axis=1), a, rng=rng,
               step="differences")  # fmt: skip


def test_C7_SolveSylvester(rng: Rng) -> None:
    pushes(linalg.solve_sylvester, regular(rng, 3, 3), regular(rng, 2, 2),
           rng.normal(size=(3, 2)), rng=rng, step="differences")  # fmt: skip


# The second list: all sparse ops

ROWS = np.array([0, 0, 2, 2, 2])
COLUMNS = np.array([1, 3, 0, 1, 3])
OTHER = np.array([0, 1, 1, 2, 2]), np.array([0, 1, 3, 1, 2])


def csr(d: Any) -> Any:
    """3×4 with five entries, in rows 0 and 2."""
    return sparse.csr_array((d * 1.0, COLUMNS.copy(), np.array([0, 2, 2, 5])),
                            shape=(3, 4))  # fmt: skip


def csc(d: Any) -> Any:
    return csr(d).tocsc()


def coo(d: Any) -> Any:
    return sparse.coo_array((d * 1.0, OTHER), shape=(3, 4))


def test_C7_sparse_CSM(rng: Rng) -> None:
    """A sparse array of stored values, and dense of it (`DenseFromSparse`)."""
    for make in (csr, csc, coo):
        pushes(lambda d, m=make: m(d**2).toarray(), rng.normal(size=5), rng=rng)


def test_C7_sparse_CSMProperties(rng: Rng) -> None:
    pushes(lambda d: (csr(d) * 3.0).data ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_SparseFromDense(rng: Rng) -> None:
    """Entries of a dense array that are stored; which ones, is fixed."""
    pushes(lambda x: csr(x[ROWS, COLUMNS]).toarray() ** 2, rng.normal(size=(3, 4)),
           rng=rng)  # fmt: skip
    pushes(lambda d, x: csr(d).multiply(x).toarray(), rng.normal(size=5),
           rng.normal(size=(3, 4)), rng=rng)  # fmt: skip


def test_C7_sparse_GetItem(rng: Rng) -> None:
    d = rng.normal(size=5)
    pushes(lambda d: csr(d)[2, 1] ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[1:, ::2].toarray() ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[[2, 0]].toarray() ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[[2, 0], [3, 3]] ** 2, d, rng=rng)


def test_C7_sparse_Transpose(rng: Rng) -> None:
    pushes(lambda d: csr(d).T.toarray() ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_Neg(rng: Rng) -> None:
    pushes(lambda d: (-csr(d)).toarray() ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_Cast(rng: Rng) -> None:
    pushes(lambda d: csr(d**2).astype(np.complex128).toarray().real, rng.normal(size=5),
           rng=rng, step="differences")  # fmt: skip


def test_C7_sparse_ColScaleCSC(rng: Rng) -> None:
    pushes(lambda d, s: (csc(d) * s).toarray(), rng.normal(size=5),
           rng.normal(size=4), rng=rng)  # fmt: skip


def test_C7_sparse_RowScaleCSC(rng: Rng) -> None:
    pushes(lambda d, s: csc(d).multiply(s[:, None]).toarray(), rng.normal(size=5),
           rng.normal(size=3), rng=rng)  # fmt: skip


def test_C7_sparse_SpSum(rng: Rng) -> None:
    for axis in (None, 0, 1, -1):
        pushes(lambda d, a=axis: csr(d**2).sum(axis=a), rng.normal(size=5), rng=rng)


def test_C7_sparse_Diag(rng: Rng) -> None:
    square = np.array([0, 0, 1, 2]), np.array([0, 2, 1, 2])
    pushes(lambda d: sparse.csr_array((d, square), shape=(3, 3)).diagonal() ** 2,
           rng.normal(size=4), rng=rng)  # fmt: skip


def test_C7_sparse_SquareDiagonal(rng: Rng) -> None:
    pushes(lambda d: sparse.diags_array(d**2).toarray(), rng.normal(size=3), rng=rng)
    pushes(lambda d: sparse.diags_array([d, d[1:] ** 2], offsets=[0, 1]).toarray(),
           rng.normal(size=3), rng=rng)  # fmt: skip


def test_C7_sparse_Add(rng: Rng) -> None:
    """Sparse and sparse, of the same entries and of others; sparse and dense."""
    d, e, x = rng.normal(size=5), rng.normal(size=5), rng.normal(size=(3, 4))
    pushes(lambda d, e: (csr(d) + coo(e)).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: (csr(d) - csr(e)).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, x: csr(d**2) + x, d, x, rng=rng)


def test_C7_sparse_Mul(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    x, v = rng.normal(size=(3, 4)), rng.normal(size=4)
    pushes(lambda d, e: csr(d).multiply(coo(e)).toarray(), d, e, rng=rng)
    pushes(lambda d, x: (csr(d) * x).toarray(), d, x, rng=rng)
    pushes(lambda d, v: (csr(d) * v).toarray(), d, v, rng=rng)
    pushes(lambda d: (csr(d) * 3.0 / 2.0).toarray() ** 2, d, rng=rng)


def test_C7_sparse_HStack_VStack(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    pushes(lambda d, e: sparse.hstack([csr(d), coo(e)]).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: sparse.vstack([csr(d), coo(e)]).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: sparse.block_array([[csr(d), None], [None, coo(e)]]).toarray()
           ** 2, d, e, rng=rng)  # fmt: skip


def test_C7_sparse_structured_functions(rng: Rng) -> None:
    """Functions of the stored values that keep 0: sin, tan, sqrt, expm1, ..."""
    d = rng.uniform(0.1, 0.7, 5)
    for (
        name
    ) in "sin tan sinh tanh arcsin arctan arcsinh arctanh expm1 log1p sqrt".split():
        pushes(lambda d, n=name: getattr(csr(d), n)().toarray(), d, rng=rng)
    pushes(lambda d: (csr(d) ** 3).toarray(), d, rng=rng)
    pushes(lambda d: csr(d).power(2).toarray(), d, rng=rng)
    pushes(lambda d: abs(csr(d)).toarray(), d, rng=rng, step="differences")


def test_C7_sparse_TrueDot(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    pushes(lambda d, e: (csr(d) @ coo(e).T).toarray(), d, e, rng=rng)


def test_C7_sparse_StructuredDot(rng: Rng) -> None:
    d, x = rng.normal(size=5), rng.normal(size=(4, 2))
    for make in (csr, csc, coo):
        pushes(lambda d, x, m=make: m(d) @ x, d, x, rng=rng)
        pushes(lambda d, x, m=make: m(d) @ x[:, 0], d, x, rng=rng)


def test_C7_sparse_Dot_from_the_left(rng: Rng) -> None:
    d, x = rng.normal(size=5), rng.normal(size=(2, 3))
    pushes(lambda d, x: x @ csr(d), d, x, rng=rng)
    pushes(lambda d, x: x[0] @ csc(d), d, x, rng=rng)


def test_C7_sparse_SamplingDot(rng: Rng) -> None:
    """Entries of a product of dense matrices, where a sparse one stores some."""
    p, x, y = rng.normal(size=5), rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    pushes(lambda p, x, y: csr(p).multiply(x @ y.T).toarray(), p, x, y, rng=rng)


def test_C7_sparse_Usmm(rng: Rng) -> None:
    """``alpha * x @ y + z``."""
    pushes(lambda s, d, y, z: s * (csr(d) @ y) + z, rng.normal(size=()),
           rng.normal(size=5), rng.normal(size=(4, 2)), rng.normal(size=(3, 2)),
           rng=rng)  # fmt: skip


def test_C7_sparse_Solve(rng: Rng) -> None:
    places = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 2, 1, 0, 2, 1])

    def f(d: Any, b: Any) -> Any:
        return spsolve(sparse.csc_array((d * 1.0, places), shape=(3, 3)), b)

    d = np.array([4.0, 1, 5, 1, 6, 1]) + 0.2 * rng.normal(size=6)
    pushes(f, d, rng.normal(size=3), rng=rng)
    pushes(f, d, rng.normal(size=(3, 2)), rng=rng)


def test_C7_sparse_Remove0_and_EnsureSorted(rng: Rng) -> None:
    """What changes the storage and no entry: the tangent follows the entries."""
    unsorted = np.array([3, 1, 3, 1, 0])

    def f(d: Any) -> Any:
        made = sparse.csr_array((d * 1.0, unsorted, np.array([0, 2, 2, 5])),
                                shape=(3, 4))  # fmt: skip
        return made.tocoo().tocsc().tocsr().toarray() ** 2

    pushes(f, rng.normal(size=5), rng=rng)


# Is the list whole?

#: The ops of the seed, each with the test that shows it.
SEED = """
SpecifyShape MaxAndArgmax Subtensor IncSubtensor SetSubtensor Alloc Dot Elemwise Sum
Softmax Shape Join Rebroadcast Reshape Flatten DimShuffle Scan Split ARange
ScalarFromTensor AdvancedSubtensor1 AdvancedIncSubtensor1 AdvancedIncSubtensor
PermuteRowElements Tile AdvancedSubtensor TensorDot Outer Prod MulWithoutZeros
ProdWithoutZeros CAReduce
""".split()


def test_C7_every_op_of_the_lists_has_its_test() -> None:
    for name in SEED:
        assert f"test_C7_{name}" in globals()
