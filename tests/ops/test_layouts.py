"""Every sample in other clothes: strides, order, read-only; empty and of one entry.

How an array lies in memory changes no value, and results lie as NumPy's do. On arrays
without entries, or with one along each axis, an op gives what NumPy gives, if NumPy
gives anything.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from tests.ops.test_samples import NAMED, close, direction, drawn, pairing
from workbench.core.op import CopyParams
from workbench.core.tensor import Tensor, value_of


def strided(a: Any) -> Any:
    """The same values in every second place of a larger array, read backwards."""
    if not np.ndim(a):
        return np.array(a)
    room = np.full([2 * n + 1 for n in a.shape], np.nan, a.dtype)
    view = room[tuple(slice(2 * n - 1, None, -2) if n else slice(0) for n in a.shape)]
    view = view[tuple(slice(n) for n in a.shape)]
    view[...] = a
    return view


def fortran(a: Any) -> Any:
    return np.array(a, order="F")


def locked(a: Any) -> Any:
    a = np.copy(a)
    a.flags.writeable = False
    return a


def spread(a: Any) -> Any:
    """A transposed view of a transposed copy: as of a matrix that a user turned."""
    return np.transpose(np.array(np.transpose(a)))


LAYOUTS = [strided, fortran, locked, spread]


@pytest.mark.long
@parametrize_chunks("sample", NAMED)
def test_how_it_lies_in_memory(sample: Sample, rng: np.random.Generator) -> None:
    args = drawn(sample, sample.kinds[0], rng)
    moves = [direction(a, rng) for a in args]
    value, pullback = wb.vjp(sample.f, *args)
    seed = direction(value, rng)
    gradients = pullback(seed)
    _, tangent = wb.jvp(sample.f, tuple(args), tuple(moves))
    for layout in LAYOUTS:
        turned = [layout(a) for a in args]
        before = [np.copy(a) for a in turned]
        y, pull = wb.vjp(sample.f, *turned)
        close(y, value, 1e-13)
        for found, expected, a in zip(
            pull(layout(np.asarray(seed))), gradients, args, strict=True
        ):
            assert (found.shape, found.dtype) == (a.shape, a.dtype)
            close(found, expected, 1e-12)
        _, t = wb.jvp(sample.f, tuple(turned), tuple(map(layout, moves)))
        close(t, tangent, 1e-12)
        for a, b in zip(turned, before, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.flags.writeable == (layout is not locked)


#: Rows that say they need entries, where NumPy or SciPy gives something for none:
#: nobody misses it.
NEEDS_ENTRIES = (
    "compress", "convolve_nd", "cov ", "insert slice", "linalg.", "lstsq limit",
    "nanpercentile", "pinv ", "polymul", "take axis", "wishart",
)  # fmt: skip

#: Families of vectors, where SciPy drops the axis of one entry; a line needs two.
ONE_IS_ANOTHER = ("multivariate_normal", "dirichlet", "interp1d")


@parametrize_chunks(
    "sample length",
    {f"{s.name}-{n}": (s, n) for s in SAMPLES for n in (0, 1)},
    alike={f"{name}-{n}" for name in ALIKE_IN_KIND for n in (0, 1)},
)
def test_few_entries(sample: Sample, length: int, rng: np.random.Generator) -> None:
    args = drawn(sample, sample.kinds[0], rng)
    args = [a[tuple(slice(length) for _ in a.shape)] for a in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the mean of nothing, as in NumPy
        try:
            expected = np.asarray(sample.value(*args))
        except Exception:
            return  # NumPy refuses; what we say is tested in tests/core
        few = ONE_IS_ANOTHER if length else NEEDS_ENTRIES
        if sample.name.startswith(few):
            return
        value, pullback = wb.vjp(sample.f, *args)
        assert (np.shape(value), np.asarray(value).dtype) == (
            expected.shape,
            expected.dtype,
        )
        np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-13)
        moves = [direction(a, rng) for a in args]
        _, tangent = wb.jvp(sample.f, tuple(args), tuple(moves))
        assert np.shape(tangent) == expected.shape
        seed = direction(expected, rng)
        gradients = pullback(seed)
        for g, a in zip(gradients, args, strict=True):
            assert (g.shape, g.dtype) == (a.shape, a.dtype)
    if np.all(np.isfinite(expected)):
        back = sum(pairing(g, t) for g, t in zip(gradients, moves, strict=True))
        close(back, pairing(seed, tangent), 1e-11)


def rounded(a: Any) -> Any:
    """Whole numbers near the entries, none of them 0, as a user types them."""
    return (np.sign(a) * (1 + np.floor(np.abs(a)))).astype(np.int64)


#: A row with a truth of its own is a function of SciPy, which has no such rule.
SEVERAL = [
    s for s in SAMPLES if len(s.draws) > 1 and "f" in s.kinds and s.truth is None
]


#: What may differ: whether a factor is rounded before or after it is used.
MADE = {"whole": (rounded, 1e-12), "float32": (np.float32, 1e-5)}


@parametrize_chunks(
    "sample made", {f"{s.name}-{made}": (s, made) for s in SEVERAL for made in MADE}
)
def test_constants_of_another_dtype(
    sample: Sample, made: str, rng: np.random.Generator
) -> None:
    convert, tolerance = MADE[made]
    args = drawn(sample, "f", rng)
    for k in range(len(args)):
        constant = convert(args[k])
        rest = [a for i, a in enumerate(args) if i != k]

        def f(*rest: Any, k: int = k, constant: Any = constant) -> Any:
            return sample.f(*rest[:k], constant, *rest[k:])

        def plain(*rest: Any, k: int = k, constant: Any = constant) -> Any:
            return sample.value(*rest[:k], constant, *rest[k:])

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                expected = np.asarray(plain(*rest))
            except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
                continue
            if expected.dtype.kind not in "fc":
                continue
            value, pullback = wb.vjp(f, *rest)
            assert np.asarray(value).dtype == expected.dtype
            np.testing.assert_allclose(value, expected, tolerance, tolerance)
            moves = [direction(a, rng) for a in rest]
            _, tangent = wb.jvp(f, tuple(rest), tuple(moves))
            seed = direction(expected, rng)
            gradients = pullback(seed)
        assert [g.dtype for g in gradients] == [a.dtype for a in rest]
        assert np.asarray(tangent).dtype == expected.dtype
        if np.all(np.isfinite(expected)):
            back = sum(pairing(g, t) for g, t in zip(gradients, moves, strict=True))
            close(back, pairing(seed, tangent), 100 * tolerance)


# What NumPy makes of an operand lies in memory as NumPy's does: strides decide what is
# a view, and so what a change in place changes.


def spaced(a: Any) -> Any:
    room = np.zeros([2 * n for n in a.shape], a.dtype)
    view = room[(slice(None, None, 2),) * a.ndim] if a.ndim else room
    view[...] = a
    return view


def backwards(a: Any) -> Any:
    turn = (slice(None, None, -1),) * a.ndim
    return np.copy(a[turn], order="C")[turn] if a.ndim else np.copy(a)


LAID_OUT = {"C": np.copy, "F": fortran, "S": spaced, "N": backwards}

#: Rows of functions whose layout NumPy leaves open.
OPEN_LAYOUTS = (
    # A view or a copy, "in some future release": its documentation. It cannot be
    # written to, so that nobody sees the difference.
    "diagonal",
)


def strides(a: Any) -> tuple[int, ...]:
    """Return the strides that matter: of axes with two entries or more."""
    a = np.asarray(a)
    return tuple(s for s, n in zip(a.strides, a.shape, strict=True) if n > 1 and a.size)


def check_layouts(f: Any, args: list[Any]) -> None:
    """Compare strides, and what is a view of what, with those of plain NumPy."""
    layouts = [(name,) * len(args) for name in LAID_OUT]
    if len(args) > 1:
        layouts += [("C", "F") * len(args), ("F", "C") * len(args)]
    for layout in layouts:
        turned = [LAID_OUT[name](a) for name, a in zip(layout, args, strict=False)]
        found: list[Any] = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = np.asarray(f(*turned))
            wb.trace(lambda *xs, kept=found: kept.append((f(*xs), xs)) or xs)(*turned)
        y, xs = found[0]
        value = np.asarray(value_of(y))
        assert strides(value) == strides(expected), layout
        copied = isinstance(y, Tensor) and type(y.params) is CopyParams
        for x, a in zip(xs, turned, strict=True):
            shared = np.shares_memory(value, value_of(x)) and not copied
            assert shared == np.shares_memory(expected, a), layout


@parametrize_chunks(
    "sample",
    {n: row for n, row in NAMED.items() if n not in OPEN_LAYOUTS},
    alike=ALIKE_IN_KIND,
)
def test_results_lie_as_those_of_numpy(
    sample: Sample, rng: np.random.Generator
) -> None:
    check_layouts(sample.f, drawn(sample, sample.kinds[0], rng))


#: What the samples have no matrix for: ``x`` is one, and ``t`` a stack of them.
OF_MATRICES = (
    """
np.array(x, like=x)  np.array(x, copy=True, order="F", like=x)  np.asarray(x, like=x)
np.array(x, copy=None, order="C", like=x)  np.asarray(x, order="F", like=x)
np.asarray(x, order="C", like=x)  np.array(t, order="A", like=x)
np.ascontiguousarray(x, like=x)  np.asfortranarray(t, like=x)  np.array([x, x], like=x)
np.copy(x)  np.copy(t, order="C")  np.copy(x, order="F")  np.copy(t.swapaxes(0, 1))
x.copy()  x.T.copy()  x.copy("F")  x.copy(order="K")  t.copy("A")
t.swapaxes(0, 1).copy()
x.astype(float)  x.astype(np.float32, order="C")  x.astype(np.float32, "F")
x.astype(float, copy=False)  t.astype(float, order="F", copy=False)
x.flatten()  x.flatten("F")  x.flatten("K")  x.ravel()  x.ravel("F")  t.ravel("K")
x[::2, 0].ravel()  x[0, ::-1].ravel()  np.ravel(t.swapaxes(0, 1), "K")  t.ravel("A")
x.reshape(-1)  x.reshape(2, -1, order="F")  x.reshape(-1, order="A")  t.reshape(2, -1)
x.squeeze()  t[..., None]  t[::-1, 0]  x[[1, 0]]  x[:, [1, 0]]  x[[0, 1], [1, 0]]
x[x > 0]  t.mT  x.T  np.rot90(x)  np.rot90(x, 2)  np.rollaxis(t, 1)
np.zeros_like(x, order="F")  np.ones_like(x, order="C")  np.full_like(x, 2.0)
np.full_like(x, x[0, 0])  np.full_like(t, t[0, 0, 0], order="C")  np.zeros_like(t)
np.full_like(t.swapaxes(0, 1), t[0, 0, 0])  np.full((3, 4), x[0, 0], like=x)
np.full((3, 4), x[0, 0], order="F", like=x)  np.full((3, 4), x[0], like=x)
np.add(x, x, order="F")  np.exp(t, order="C")  np.add(x, x, order="A")  x * x.copy()
np.concatenate([x, x.copy()], 0)  np.concatenate([x, x], None)  np.append(x, x, axis=1)
np.choose(x > 0, [x, -x])  np.select([x > 0, x < 0], [x, -x])  np.select([x > 0], [1.0])
np.meshgrid(x[0], x[1])[0]  np.meshgrid(x[0], x[1], sparse=True)[1]
np.meshgrid(x[0], x[1], copy=False)[0]  np.meshgrid(x[0], x[1], indexing="ij")[1]
np.take(x, [0, 1], axis=1)  np.take(t, [1, 0], axis=0)  np.take(x, 1, axis=1)
np.take(x, [[0, 1], [1, 0]], axis=1)  x.take([0, 1], 1, mode="clip")  np.take(x, [0, 1])
np.take_along_axis(x, np.argsort(x, 1), 1)  np.take_along_axis(t, np.argsort(t, 0), 0)
np.compress([True, False], t, axis=1)  np.extract(x > 0, x)  np.repeat(x, [1, 2, 1], 0)
np.delete(x, 0, axis=1)  np.delete(x, [0, 1], axis=1)  np.delete(x, slice(0, 1), axis=1)
np.delete(x, 0, axis=0)  np.delete(x, np.arange(4) == 1, axis=1)  np.delete(x, [1], 0)
np.insert(x, 1, 0.0, axis=1)  np.insert(x, [0, 1], 0.0, axis=0)  np.insert(t, 1, 0.0, 0)
np.pad(t, 1)  np.pad(x, 1, mode="edge")  np.pad(t, 1, mode="wrap")  np.pad(x, 0)
np.pad(x, 0, mode="edge")  np.pad(t, 1, mode="reflect", reflect_type="odd")
np.pad(x, 1, constant_values=x[0, 0])  np.tile(x, 2)  np.roll(x, 1, 0)  np.roll(x, 1)
np.sort(x)  np.sort(t, axis=0)  np.sort(t.swapaxes(0, 1), axis=1)  np.sort_complex(x)
np.partition(x, 1)  np.partition(x, 1, axis=0)  np.argsort(x, 0)  np.unique(t, axis=1)
np.median(t, 0)  np.median(t, -1, keepdims=True)  np.nanmedian(t, 0)
np.quantile(t, [0.3, 0.5], axis=0)  np.nanquantile(t, [0.3, 0.5], axis=1)
np.nanpercentile(t, 30, axis=0)  np.percentile(t, [30, 40], axis=1, keepdims=True)
np.sum(t, 1)  np.max(t, 0)  np.nansum(t, 0)  np.var(t, -1)  np.average(t, 0, weights=t)
np.cumulative_sum(x, axis=1, include_initial=True)  np.maximum.accumulate(t, axis=0)
np.subtract.accumulate(t, axis=1)  np.gradient(x)[0]  np.gradient(t, axis=1)
np.gradient(t, 2.0, axis=-1, edge_order=1)  np.diff(t, axis=0)  np.unwrap(t, axis=0)
np.cross(t[..., :3], t[0, ..., :3])  np.cross(t[..., :2], t[..., :2])  np.dot(t, x.T)
np.cross(t[..., :2], t[..., :3])  np.matvec(t, x[0])  np.vecmat(x[:, 0], t)  x @ x.T
np.tensordot(t, x, ([2], [1]))  np.inner(x, x)  np.outer(x, x)  np.kron(x, x)
np.einsum("ijk->kij", t)  np.einsum("ijk,lk->ijl", t, x)  np.multiply.outer(x, x)
np.linalg.matrix_power(t[0, :3, :3], 0)  np.linalg.cholesky(x @ x.T, upper=True)
np.linalg.qr(t)[1]  np.linalg.svd(t)[2]  np.linalg.inv(x[:3, :3])  np.linalg.pinv(t)
np.fft.fft(t, axis=0)  np.fft.hfft(t, axis=1)  np.fft.fftshift(t)  np.iscomplex(x)
np.linspace(x, 9, 5, axis=-1)  np.geomspace(abs(x) + 1, 9, 5)  np.nan_to_num(x)
np.apply_along_axis(lambda v: v * 2, 0, x)  np.piecewise(x, [x > 0], [1, 2.0])
np.array_split(x, 2, 1)[0]  np.unstack(t, axis=1)[0]  np.dsplit(t, 2)[0]
""".strip()
    .replace("\n", "  ")
    .split("  ")
)


@parametrize_chunks("text", {text: (text,) for text in OF_MATRICES})
def test_results_of_matrices_lie_as_those_of_numpy(
    text: str, rng: np.random.Generator
) -> None:
    args = [rng.normal(size=(3, 4)), rng.normal(size=(2, 3, 4))]
    check_layouts(eval(f"lambda x, t: {text}", {"np": np}), args)


#: Programs that write through what may be a view: values tell which it was.
WRITING = {
    "copy of a transpose": lambda x: (d := x.T.copy(), d.reshape(-1)),
    "copy": lambda x: (d := x.copy(), d.reshape(-1)),
    "copy as F": lambda x: (d := x.copy("F"), d.T.reshape(-1)),
    "sort": lambda x: (d := np.sort(x, 0), d.reshape(-1)),
    "take": lambda x: (d := np.take(x, [0, 1], axis=1), d.reshape(-1)),
    "select": lambda x: (d := np.select([x > 0], [x], 1.0), d.reshape(-1)),
    "meshgrid": lambda x: (d := np.meshgrid(x[0], x[1])[0], d.reshape(-1)),
    "insert": lambda x: (d := np.insert(x, 1, 2.0, axis=1), d.reshape(-1)),
    "delete": lambda x: (d := np.delete(x, 1, axis=1), d.reshape(-1)),
    "gradient": lambda x: (d := np.gradient(x, axis=0), d.T.reshape(-1)),
    "ravel of every second": lambda x: (d := x.copy()[0, ::2], d.ravel()),
    "of an input": lambda x: (x, x.reshape(-1)),
}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("layout", LAID_OUT)
@pytest.mark.parametrize("how", ["trace", "vjp", "compile", "vmap"])
def test_what_is_written_through_a_view_is_never_lost(
    name: str, layout: str, how: str
) -> None:
    """NumPy's value, or an error that says what to write: never another number."""

    def program(x: Any) -> Any:
        d, v = WRITING[name](x)
        v *= 3.0
        return np.sum(d * d)

    x = LAID_OUT[layout](np.arange(12.0).reshape(3, 4) % 5 - 1.5)
    expected = program(x.copy("K") if layout in "CF" else LAID_OUT[layout](x))
    batch = np.stack([x])
    if how == "vmap":
        expected = program(batch.copy("K")[0])
    run = {
        "trace": lambda: value_of(wb.value_and_grad(program)(x)[0]),
        "vjp": lambda: wb.vjp(program, x)[0],
        "compile": lambda: wb.compile(program)(x),
        "vmap": lambda: wb.vmap(program)(batch)[0],
    }[how]
    try:
        found, refusal = run(), ""
    except wb.errors.TraceError as error:
        found, refusal = expected, str(error)
    assert not refusal or re.search(r"in place|order", refusal)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("order", ["A", "K"])
def test_repeated_axes_are_read_in_the_order_of_numpy(order: Any) -> None:
    """Axes of stride 0 stand where a loop of NumPy's has them."""

    def program(x: Any) -> Any:
        repeated = np.broadcast_to(x[:, None], (2, 3, 4, 2))
        return np.ravel(np.transpose(repeated, (2, 0, 3, 1)), order=order)

    x = np.arange(6.0).reshape(3, 2)
    graph = wb.trace(program)(x)
    np.testing.assert_array_equal(value_of(graph.outputs[0]), program(x))


@pytest.mark.parametrize("order", ["C", "F", "A", "K", None])
@pytest.mark.parametrize("turn", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_astype_lays_out_as_numpy(turn: tuple[int, ...], order: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    weights = np.arange(24.0)

    def f(x: Any) -> Any:
        made = x.transpose(turn).astype(float, order=order)
        return np.sum(made.ravel("K") * weights)

    expected = [f(e) for e in np.eye(24).reshape(24, 2, 3, 4)]
    np.testing.assert_array_equal(wb.grad(f)(x).ravel(), expected)


@pytest.mark.parametrize("shape", [(2, 4, 3), (4, 3), (2, 2, 4, 3)])
def test_repeated_axes_are_read_where_they_stand(shape: tuple[int, ...]) -> None:
    """Their stride is 0, and NumPy does not move them in order "K"."""
    x = np.arange(12.0).reshape(3, 4)
    for turned in (lambda y: y, lambda y: np.moveaxis(y, 0, -1)):
        f = lambda x, t=turned: t(np.broadcast_to(x.T, shape)).ravel("K")  # noqa: E731
        np.testing.assert_array_equal(wb.vjp(f, x)[0], f(x))
