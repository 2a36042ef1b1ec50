"""Convolution and pooling of channels: settings, errors, a network that learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import workbench as wb
from tests.ops.samples.channels import by_loops
from workbench.errors import DtypeError, ShapeError, UnknownLengthError

RNG = np.random.default_rng(3)
X, W = RNG.standard_normal((2, 4, 6, 5)), RNG.standard_normal((6, 2, 3, 2))


def test_words_and_single_numbers_stand_for_pairs() -> None:
    ones = (1, 1)
    same = wb.conv(X, W, padding="same", groups=2)
    assert same.shape == (2, 6, 6, 5)
    assert_allclose(same, by_loops(X, W, ones, ((1, 1), (0, 1)), ones, 2), rtol=1e-12)
    wide = wb.conv(X, W, padding="same", dilation=2, groups=2)
    assert wide.shape == (2, 6, 6, 5)
    for padding, pairs in (
        ("valid", ((0, 0), (0, 0))),
        (1, ((1, 1), (1, 1))),
        ([2, 0], ((2, 2), (0, 0))),
        (np.array([[1, 0], [0, 2]]), ((1, 0), (0, 2))),
    ):
        found = wb.conv(X, W, padding=padding, stride=(2, 1), groups=2)
        expected = by_loops(X, W, (2, 1), pairs, ones, 2)
        assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_transpose_is_what_the_convolution_sends_back(stride: int) -> None:
    settings: dict[str, Any] = {"stride": stride, "padding": (1, 0), "groups": 2}
    y, pull = wb.vjp(lambda x: wb.conv(x, W, **settings), X)
    g = RNG.standard_normal(y.shape)
    (back,) = pull(g)
    rest = [
        n - ((m - 1) * stride + k - 2 * p)
        for n, m, k, p in zip(X.shape[2:], y.shape[2:], (3, 2), (1, 0), strict=True)
    ]
    found = wb.conv_transpose(g, W, output_padding=rest, **settings)
    assert_allclose(found, back, rtol=1e-12)


def test_the_first_of_equal_entries_has_the_cotangent() -> None:
    slopes = wb.grad(lambda x: np.sum(wb.max_pool(x, 2)))(np.ones((1, 1, 4)))
    assert slopes.tolist() == [[[1.0, 0.0, 1.0, 0.0]]]


def test_what_is_added_is_never_the_largest() -> None:
    x = -1.0 - np.arange(4.0).reshape(1, 1, 4)
    assert_allclose(wb.max_pool(x, 3, stride=2, padding=1), [[[-1, -2]]])
    slopes = wb.grad(lambda x: np.sum(wb.max_pool(x, 3, stride=2, padding=1)))(x)
    assert_allclose(slopes, [[[1, 1, 0, 0]]])


def test_a_network_learns_which_way_a_bar_lies() -> None:
    """Bars across and down: a convolution, a pooling and a sum tell them apart."""
    images = np.zeros((12, 1, 6, 6))
    for k in range(6):
        images[k, 0, k, :] = 1
        images[6 + k, 0, :, k] = 1
    sides = np.repeat([1.0, -1.0], 6)

    def loss(w: Any, v: Any) -> Any:
        h = wb.max_pool(np.tanh(wb.conv(images, w, padding=1)), 2)
        scores = np.mean(h, axis=(2, 3)) @ v
        return np.mean(np.log1p(np.exp(-sides * scores)))

    step = wb.compile(wb.value_and_grad(loss, (0, 1)))
    rng = np.random.default_rng(0)
    w, v = rng.standard_normal((3, 1, 3, 3)) * 0.3, rng.standard_normal(3)
    first, _ = step(w, v)
    for _ in range(60):
        value, (dw, dv) = step(w, v)
        w, v = w - 2.0 * dw, v - 2.0 * dv
    assert value < 0.1 * first
    session = wb.Session(wb.trace(loss)(w, v))
    assert session.check().ok
    assert {"conv", "max_pool"} <= {node.op.name for node in session.graph.nodes}


@pytest.mark.parametrize("padding", [0, 1, -1, ((2, -1),)])
def test_the_written_source_pools_what_the_op_pools(padding: Any) -> None:
    x = np.arange(1.0, 9).reshape(1, 1, 8)
    x[0, 0, 2] = np.nan
    symbol = wb.tensor("x", shape=(None,) * 3)
    made = [
        wb.max_pool(symbol, 3, padding=padding),
        wb.mean_pool(symbol, 3, padding=padding),
        wb.mean_pool(symbol, 3, padding=padding, counts_padding=True),
    ]
    f = wb.function([symbol], made)
    space: dict[str, Any] = {}
    exec(f.source, space)
    for found, again in zip(f(x), space["function"](x), strict=True):
        assert np.isnan(found).any()
        np.testing.assert_array_equal(again, found)


def test_a_large_stride_adds_no_more_than_the_result_has() -> None:
    w = np.arange(3.0).reshape(1, 1, 3)
    found = wb.conv_transpose(np.full((1, 1, 1), 2.0), w, stride=10**9)
    assert_allclose(found, 2 * w)
    assert wb.max_pool([[[1.0, 2.0]]], 2).tolist() == [[[2.0]]]  # type: ignore[arg-type]


def test_an_override_acts_on_a_convolution() -> None:
    rule = [wb.override("conv", "0.5 * d")]
    f = lambda w: np.sum(wb.conv(X, w, groups=2) ** 2)  # noqa: E731
    assert_allclose(wb.grad(f, overrides=rule)(W), 0.5 * wb.grad(f)(W), rtol=1e-12)


def test_a_program_of_symbols_knows_the_lengths_of_filters_alone() -> None:
    x, w = wb.tensor("x", shape=(None,) * 4), wb.tensor("w", shape=(None, None, 3, 2))
    y = wb.conv(x, w, padding=1, groups=2)
    value = np.sum(wb.max_pool(y, 2) ** 2)
    f = wb.function([x, w], [y, *wb.grad(value, [x, w])])

    def g(x: Any, w: Any) -> Any:
        return np.sum(wb.max_pool(wb.conv(x, w, padding=1, groups=2), 2) ** 2)

    for given in (X, np.concatenate([X, X], 2)):
        found, *slopes = f(given, W)
        expected = by_loops(given, W, (1, 1), ((1, 1), (1, 1)), (1, 1), 2)
        assert_allclose(found, expected, rtol=1e-12)
        for slope, right in zip(slopes, wb.grad(g, (0, 1))(given, W), strict=True):
            assert_allclose(slope, right, rtol=1e-12)
    with pytest.raises(UnknownLengthError, match="how long a filter is decides"):
        wb.conv(x, wb.tensor("w", shape=(None,) * 4))


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "no example": (
        lambda: wb.conv(X[0], W),
        ShapeError,
        r"x has shape \(4, 6, 5\) and w \(6, 2, 3, 2\).*one example write x\[None\]",
    ),
    "channels": (
        lambda: wb.conv(X, W),
        ShapeError,
        "x of 4 channels and 6 filters of 2 do not fit with groups=1",
    ),
    "groups": (lambda: wb.conv(X, W[:5], groups=2), ShapeError, "groups divides both"),
    "no groups": (lambda: wb.conv(X, W, groups=0), ShapeError, "groups=0: give an"),
    "stride": (
        lambda: wb.conv(X, W, groups=2, stride=0),
        ShapeError,
        "stride=0: give an integer of at least 1, or one for each of the 2 axes",
    ),
    "strides": (lambda: wb.conv(X, W, groups=2, stride=(1,)), ShapeError, "stride="),
    "half a stride": (lambda: wb.conv(X, W, groups=2, stride=0.5), ShapeError, "0.5"),
    "a word": (
        lambda: wb.conv(X, W, groups=2, padding="full"),
        ShapeError,
        "padding='full': give a number, 'same' or 'valid'",
    ),
    "three": (
        lambda: wb.conv(X, W, groups=2, padding=[(1, 2, 3), (1, 2, 3)]),
        ShapeError,
        r"a pair \(before, after\)",
    ),
    "a large window": (
        lambda: wb.conv(X, W, groups=2, dilation=4),
        ShapeError,
        "a window of 9 is larger than axis 0 of space, 6 long",
    ),
    "no filter": (lambda: wb.conv(X, W[:0], groups=2), ShapeError, "has no entries"),
    "transpose": (
        lambda: wb.conv_transpose(X, W),
        ShapeError,
        "x of 4 channels and w of 6 do not fit",
    ),
    "padding alone": (
        lambda: wb.max_pool(X, 2, padding=2),
        ShapeError,
        r"padding \(2, 2\) some windows of 2 on an axis of 6 would hold no entry",
    ),
    "padding between entries": (
        lambda: wb.mean_pool(np.ones((1, 1, 2)), 2, padding=4, dilation=4),
        ShapeError,
        "would hold no entry",
    ),
    "nothing to pool": (
        lambda: wb.max_pool(np.zeros((1, 1, 0)), 2, padding=1),
        ShapeError,
        "on an axis of 0 would hold no entry",
    ),
    "a cut of more": (
        lambda: wb.conv(np.ones((1, 1, 5)), np.ones((1, 1, 1)), padding=[(-6, 8)]),
        ShapeError,
        r"padding \(-6, 8\) cuts more than axis 0 of space has, which is 5 long",
    ),
    "all is cut": (
        lambda: wb.conv_transpose(np.ones((1, 1, 2)), np.ones((1, 1, 1)), padding=3),
        ShapeError,
        "cuts all that an axis of 2 with filters of 1 gives",
    ),
    "integers": (
        lambda: wb.max_pool(np.ones((1, 1, 4), int), 2),
        DtypeError,
        "pooling takes floats",
    ),
    "too few axes": (lambda: wb.mean_pool(X[0, 0], 2), ShapeError, r"x\[None\]"),
}


@pytest.mark.parametrize(("call", "kind", "words"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(
    call: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call()
