"""Convolution and pooling of examples with channels, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench as wb
from tests.ops.samples.table import Table, apart

row = Table()


def by_loops(
    x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The sum that defines a convolution, term by term."""
    x = np.pad(x, [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)])
    for axis, pair in enumerate(padding, 2):
        before, after = (max(-n, 0) for n in pair)
        x = np.take(x, range(before, x.shape[axis] - after), axis)
    lengths = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilation, stride, strict=True)
    ]
    assert w.size
    assert min(lengths) > 0
    y = np.zeros((len(x), len(w), *lengths), np.result_type(x, w))
    for n, o, *at in np.ndindex(*y.shape):
        first = o // (len(w) // groups) * w.shape[1]
        for c, *k in np.ndindex(*w.shape[1:]):
            place = np.multiply(at, stride) + np.multiply(k, dilation)
            y[(n, o, *at)] += x[(n, first + c, *place)] * w[(o, c, *k)]
    return y


def transpose_by_loops(
    x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int, more: Any
) -> Any:
    """What each entry of ``x`` adds, times the filters, where it belongs."""
    assert w.size
    whole = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x.shape[2:], stride, w.shape[2:], dilation, strict=True)
    ]
    longer = [n + m for n, m in zip(whole, more, strict=True)]
    own, inputs = w.shape[1], len(w) // groups
    y = np.zeros((len(x), groups * own, *longer), np.result_type(x, w))
    for n, c, *at in np.ndindex(*x.shape):
        for o, *k in np.ndindex(*w.shape[1:]):
            place = np.multiply(at, stride) + np.multiply(k, dilation)
            y[(n, c // inputs * own + o, *place)] += x[(n, c, *at)] * w[(c, o, *k)]
    cut = [slice(a, n - b) for n, (a, b) in zip(longer, padding, strict=True)]
    return y[(..., *cut)]


def pool_by_loops(
    x: Any, reduce: Any, size: Any, stride: Any, padding: Any, dilation: Any = None
) -> Any:
    """Each window cut out and reduced, without the entries that are not there."""
    dilation = dilation or (1,) * len(size)
    lengths = [
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, (a, b), k, d, s in zip(
            x.shape[2:], padding, size, dilation, stride, strict=True
        )
    ]
    assert min(lengths) > 0
    y = np.zeros((*x.shape[:2], *lengths), x.dtype)
    for at in np.ndindex(*lengths):
        key = []
        for i, s, (a, _), k, d, n in zip(
            at, stride, padding, size, dilation, x.shape[2:], strict=True
        ):
            places = i * s - a + d * np.arange(k)
            key.append(places[(places >= 0) & (places < n)])
        part = x[np.ix_(range(len(x)), range(x.shape[1]), *key)]
        y[(..., *at)] = reduce(part, tuple(range(2, x.ndim)))
    return y


for _name, _x, _w, _settings, _kinds in (
    ("plain", (2, 2, 5), (3, 2, 2), {}, "fc"),
    ("two axes", (1, 2, 4, 3), (2, 2, 2, 2), {}, "f"),
    ("of one entry", (2, 2, 3), (3, 2, 1), {}, "f"),
    ("as long as the filter", (1, 2, 4), (3, 2, 4), {}, "f"),
    (
        "strides and groups",
        (1, 4, 6),
        (4, 2, 2),
        {"stride": (2,), "padding": ((1, 2),), "dilation": (3,), "groups": 2},
        "fc",
    ),
    (
        "strides of two axes",
        (1, 2, 4, 4),
        (2, 1, 2, 3),
        {"stride": (1, 2), "padding": ((0, 1), (1, 1)), "groups": 2},
        "f",
    ),
    ("cut", (2, 1, 7), (2, 1, 2), {"padding": ((-1, -2),)}, "f"),
):
    _rank = len(_x) - 2
    _given = {
        "stride": (1,) * _rank, "padding": ((0, 0),) * _rank,
        "dilation": (1,) * _rank, "groups": 1, **_settings,
    }  # fmt: skip
    row(
        f"conv {_name}",
        lambda x, w, s=_given: wb.conv(x, w, **s),
        apart(*_x),
        apart(*_w),
        kinds=_kinds,
        truth=lambda x, w, s=_given: by_loops(x, w, **s),
    )

for _name, _x, _w, _settings, _more in (
    ("plain", (1, 2, 3), (2, 3, 2), {}, (0,)),
    (
        "strides and groups",
        (2, 2, 3),
        (2, 2, 3),
        {"stride": (2,), "padding": ((1, 0),), "dilation": (2,), "groups": 2},
        (1,),
    ),
    ("two axes", (1, 2, 2, 3), (2, 1, 2, 2), {"stride": (2, 1)}, (0, 0)),
):
    _rank = len(_x) - 2
    _given = {
        "stride": (1,) * _rank, "padding": ((0, 0),) * _rank,
        "dilation": (1,) * _rank, "groups": 1, **_settings,
    }  # fmt: skip
    row(
        f"conv_transpose {_name}",
        lambda x, w, s=_given, m=_more: wb.conv_transpose(x, w, output_padding=m, **s),
        apart(*_x),
        apart(*_w),
        truth=lambda x, w, s=_given, m=_more: transpose_by_loops(x, w, more=m, **s),
    )

for _name, _x, _size, _settings in (
    ("side by side", (2, 2, 7), (3,), {}),
    ("overlapping", (1, 2, 4, 4), (2, 2), {"stride": (1, 2), "padding": ((1, 0),) * 2}),
    ("far apart", (1, 2, 8), (2,), {"stride": (1,), "dilation": (3,)}),
):
    _given = {
        "stride": _size, "padding": ((0, 0),) * len(_size), **_settings,
    }  # fmt: skip
    row(
        f"max_pool {_name}",
        lambda x, n=_size, s=_given: wb.max_pool(x, n, **s),
        apart(*_x),
        truth=lambda x, n=_size, s=_given: pool_by_loops(x, np.max, n, **s),
    )
    row(
        f"mean_pool {_name}",
        lambda x, n=_size, s=_given: wb.mean_pool(x, n, **s),
        apart(*_x),
        truth=lambda x, n=_size, s=_given: pool_by_loops(x, np.mean, n, **s),
    )
row(
    "mean_pool with its padding",
    lambda x: wb.mean_pool(x, 3, stride=2, padding=1, counts_padding=True),
    apart(2, 2, 5),
    truth=lambda x: pool_by_loops(
        np.pad(x, [(0, 0), (0, 0), (1, 1)]), np.mean, (3,), (2,), ((0, 0),)
    ),
)
