"""Convolution and pooling of channels: settings, errors, a network that learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import workbench as wb
import workbench.ops.conv as conv_module
import workbench.ops.pooling as pooling
from tests.ops.samples.channels import by_loops, pool_by_loops
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


@pytest.mark.parametrize("limit", [conv_module.MOST_TAPS, 4])
def test_an_entry_of_minus_infinity_is_larger_than_what_is_added(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each window has its first entry that is none of the padding, as in PyTorch."""
    for module in (conv_module, pooling):
        monkeypatch.setattr(module, "MOST_TAPS", limit)
    x = np.full((1, 1, 4, 4), -np.inf)
    weights = np.arange(1.0, 5).reshape(1, 1, 2, 2)
    settings: dict[str, Any] = {"stride": 3, "padding": 2, "dilation": 2}

    def total(x: Any) -> Any:
        return np.sum(wb.max_pool(x, 3, **settings) * weights)

    expected = np.zeros((1, 1, 4, 4))
    expected[0, 0, :2, :2] = [[1, 2], [3, 4]]
    symbol = wb.tensor("x", shape=(None,) * 4)
    f = wb.function([symbol], wb.grad(total)(symbol))
    space: dict[str, Any] = {}
    exec(f.source, space)
    for slopes in (wb.grad(total), f, wb.compile(wb.grad(total)), space["function"]):
        np.testing.assert_array_equal(slopes(x), expected)


#: Shapes of ``x`` and ``w`` and settings, by the way that each of them is computed.
WAYS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "many channels": ((2, 20, 5, 6), (3, 20, 3, 2), {"padding": 1}),
    "many filters": ((2, 17, 5, 6), (18, 17, 3, 2), {"padding": 1}),
    "many filters of strides": ((1, 17, 6, 5), (18, 17, 2, 3), {"stride": (2, 3)}),
    "few channels": ((2, 3, 5, 6), (20, 3, 3, 2), {"dilation": (1, 2)}),
    "each channel alone": ((2, 6, 5, 6), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    "two of each": ((2, 3, 7, 4), (6, 1, 3, 2), {"groups": 3, "stride": 2}),
    "one entry": ((2, 17, 3, 4), (16, 17, 1, 1), {}),
    "one entry of strides": ((1, 3, 5, 7), (2, 3, 1, 1), {"stride": (2, 3)}),
    "few windows": ((2, 2, 7, 6), (3, 2, 6, 6), {}),
    "many windows of many": ((1, 2, 30), (2, 1, 14), {"groups": 2}),
    "three axes": ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), {"stride": (1, 2, 1)}),
    "strides with gaps": ((1, 2, 12), (2, 2, 3), {"stride": 4, "dilation": 3}),
}


@pytest.mark.parametrize("limit", [conv_module.MOST_TAPS, 4])
@pytest.mark.parametrize(("shapes"), WAYS.values(), ids=WAYS)
def test_each_way_to_convolve_gives_the_sum(
    shapes: Any, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (conv_module, pooling):
        monkeypatch.setattr(module, "MOST_TAPS", limit)
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(shape) for shape in shapes[:2])
    settings, rank = shapes[2], x.ndim - 2

    def convolve(x: Any, w: Any) -> Any:
        return wb.conv(x, w, **settings)

    def add_up(x: Any, w: Any) -> Any:
        whole = {
            name: np.broadcast_to(settings.get(name, default), rank).tolist()
            for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
        }
        pairs = [(n, n) for n in whole["padding"]]
        groups = settings.get("groups", 1)
        return by_loops(x, w, whole["stride"], pairs, whole["dilation"], groups)

    y, pull = wb.vjp(convolve, x, w)
    assert_allclose(y, add_up(x, w), atol=1e-12)
    # A product of both: what it sends back is its transpose in each.
    g, dx, dw = (rng.standard_normal(a.shape) for a in (y, x, w))
    back = pull(g)
    assert_allclose(np.sum(back[0] * dx), np.sum(g * add_up(dx, w)), rtol=1e-10)
    assert_allclose(np.sum(back[1] * dw), np.sum(g * add_up(x, dw)), rtol=1e-10)
    many = wb.vmap(convolve)(np.stack([x, dx]), np.stack([w, dw]))
    assert_allclose(many, [add_up(x, w), add_up(dx, dw)], atol=1e-12)


def test_an_infinite_filter_does_not_poison_what_is_masked() -> None:
    w = W.copy()
    w[0, 0, 0, 0], w[3, 1, 1, 1] = np.inf, np.nan
    good = np.isfinite(w).all((1, 2, 3))
    assert sum(good) == 4

    def loss(x: Any, w: Any) -> Any:
        y = wb.conv(x, w, groups=2)
        return np.sum(np.where(np.isfinite(y), y, 0) ** 2)

    def others(x: Any, w: Any) -> Any:
        y = wb.conv(x, np.where(np.isfinite(w), w, 0), groups=2)
        return np.sum((y * good[:, None, None]) ** 2)

    gradient = wb.grad(loss, (0, 1))
    with np.errstate(invalid="ignore"):
        found = gradient(X, w)
        compiled = wb.compile(gradient, backend="compiled")
        compiled(X, w)
        assert compiled.wait(60)
        again = compiled(X, w)
    for right, *each in zip(wb.grad(others, (0, 1))(X, w), found, again, strict=True):
        for one in each:
            assert_allclose(one, right, atol=1e-12)
    for one, right in zip(compiled(X, W), gradient(X, W), strict=True):
        assert_allclose(one, right, rtol=1e-10)


def test_the_first_nan_of_a_window_has_the_cotangent() -> None:
    x = np.array([[[1.0, np.nan, 5.0, np.nan, 2.0, 7.0]]])
    slopes = wb.grad(lambda x: np.sum(wb.max_pool(x, 3)))(x)
    assert slopes.tolist() == [[[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]]]


@pytest.mark.parametrize("limit", [conv_module.MOST_TAPS, 4])
def test_large_windows_are_pooled_as_small_ones(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (conv_module, pooling):
        monkeypatch.setattr(module, "MOST_TAPS", limit)
    settings: dict[str, Any] = {"stride": (2, 1), "padding": ((1, 0), (2, 1))}
    assert_allclose(
        wb.max_pool(X, (3, 4), **settings), pool_by_loops(X, np.max, (3, 4), **settings)
    )
    y, pull = wb.vjp(lambda x: wb.max_pool(x, (3, 4), **settings), X)
    g = RNG.standard_normal(y.shape)
    # Each entry of the result is one of x, to which its cotangent goes.
    expected = np.zeros_like(X)
    for at in np.ndindex(*y.shape):
        expected[(*at[:2], *np.argwhere(X[at[:2]] == y[at])[0])] += g[at]
    assert_allclose(pull(g)[0], expected, atol=1e-12)


def test_a_batch_of_convolutions_is_one_convolution() -> None:
    for axes in ((0, None), (None, 0), (0, 0)):
        x, w = (
            a if k is None else np.stack([a, a])
            for a, k in zip((X, W), axes, strict=True)
        )
        f = wb.vmap(lambda x, w: wb.max_pool(wb.conv(x, w, groups=2), 2), axes)
        names = [node.op.name for node in wb.trace(f)(x, w).nodes]
        assert names.count("conv") == names.count("max_pool") == 1


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
