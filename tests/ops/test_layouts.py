"""Every sample in other clothes: strides, order, read-only; empty and of one entry.

How an array lies in memory changes nothing. On arrays without entries, or with one
along each axis, an op gives what NumPy gives, if NumPy gives anything.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE, SAMPLES, Sample
from tests.ops.test_samples import NAMED, close, direction, drawn, pairing


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
    "nanpercentile", "pinv ", "polymul", "take axis",
)  # fmt: skip

#: Families of vectors, where SciPy drops the axis of one entry.
ONE_IS_ANOTHER = ("multivariate_normal", "dirichlet")


@parametrize_chunks(
    "sample length",
    {f"{s.name}-{n}": (s, n) for s in SAMPLES for n in (0, 1)},
    alike={f"{name}-{n}" for name in ALIKE for n in (0, 1)},
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
