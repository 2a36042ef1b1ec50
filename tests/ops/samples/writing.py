"""Programs that fill arrays: stores, views that are written through, ``out=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples.table import Table, apart

row = Table()


def filling(name: str, *shape: int, kinds: str = "f", **more: Any) -> Any:
    """Note a program as a row; it is given an array of a shape."""

    def note(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        row(f"store {name}", f, apart(*shape), kinds=kinds, **more)
        return f

    return note


@filling("entries", 4, kinds="fc")
def store_entries(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, 4):
        y[i] = 0.5 * y[i - 1] + x[i] * x[i]
    return y


@filling("slices", 4, kinds="fc")
def store_slices(x: Any) -> Any:
    y = x * x
    y[1:3] = x[2:] * x[0]
    y[::-1][:2] += x[:2]
    return y


@filling("rows", 3, 3, kinds="fc")
def store_rows(x: Any) -> Any:
    y = 0 * x
    y[0] = x[1]
    y[1:, 0] = x[0, 0] * x[2, 1:]
    y[2, 2] += y[0, 1] * x[0, 2]
    return y


@filling("through views", 6, kinds="fc")
def store_through_views(x: Any) -> Any:
    line = x * x
    y = line.reshape(2, 3)
    column = y.T[1]
    column *= x[0]
    line[4:] += x[1:3]
    return y * column[0]


@filling("whole", 3, kinds="fc")
def store_whole(x: Any) -> Any:
    y = x * 1.0
    other = y
    y *= x
    y += x[0]
    return other * y


@filling("numbers", 4)
def store_numbers(x: Any) -> Any:
    y = x * x
    y[1] = 2.0
    y[2:] = 0.5
    return y * x


@filling("at a mask", 4)
def store_at_a_mask(x: Any) -> Any:
    y = x * x
    y[x > 0] *= x[1]
    y[x < -1.05] = 0.25
    return y


@filling("at arrays", 4, kinds="fc")
def store_at_arrays(x: Any) -> Any:
    y = x * x
    y[[0, 2]] = x[1:3] * x[3]
    y[[3, 0]] += x[:2]
    return y


@filling("a swap", 3)
def store_a_swap(x: Any) -> Any:
    y = x * x
    y[0], y[2] = y[2], y[0]
    return y * x


@filling("out", 4)
def store_out(x: Any) -> Any:
    y = np.zeros_like(x)
    np.multiply(x, x, out=y)
    np.exp(y, out=y)
    return y


@filling("add.at", 4)
def store_add_at(x: Any) -> Any:
    y = x * x
    np.add.at(y, np.array([0, 0, 3]), x[1:])
    return y


@filling("copyto", 4)
def store_copyto(x: Any) -> Any:
    y = x * x
    np.copyto(y[1:], x[:3] * x[0])
    y.fill(y[2])
    y[0] = x[3]
    return y


@filling("elimination", 3, 3, order=1)
def store_elimination(x: Any) -> Any:
    y = x * 0.2 + np.eye(3, like=x) * 3.0
    for k in range(2):
        for i in range(k + 1, 3):
            y[i] -= y[k] * (y[i, k] / y[k, k])
    return y
