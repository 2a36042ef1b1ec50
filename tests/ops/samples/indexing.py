"""Indexing and the functional update."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.table import Table, apart, constant
from workbench.ops.taking import permute_row_elements
from workbench.ops.updates import at

row = Table()

_I, _J = np.array([0, 2, 0]), np.array([[1], [0]])
for _name, _index in {
    "int": 1,
    "negative int": -1,
    "slice": slice(1, None),
    "step": slice(None, None, -2),
    "ellipsis": (..., 0),
    "newaxis": (None, slice(None), None, 1),
    "mixed basic": (1, slice(0, 2), None),
    "empty": slice(2, 2),
    "array": _I,
    "list": [0, 0],
    "array last": (slice(None), _I),
    "0-d array": np.array(1),
    "two arrays": (_I, _I),
    "broadcast arrays": (_J, _I),
    "apart": (_I, slice(None), _I),
    "int and array apart": (0, slice(None), _I),
    "int and array": (slice(None), 0, _I),
    "apart by None": (slice(None), _I, None, _I),
    "apart by ellipsis": (_I, ..., _I),
    "array middle": (slice(None), _I, slice(1, 3)),
    "negative entries": ([-1, 0, -1],),
}.items():
    row(f"x[{_name}]", lambda x, i=_index: x[i], apart(3, 3, 3), order=1)
row("x[mask]", lambda x: x[np.array([True, False, True])] ** 2, apart(3, 2))
row("x[mask of 2 axes]", lambda x: x[np.eye(2, dtype=bool)] ** 2, apart(2, 2, 3))
row("x[:, mask]", lambda x: x[:, np.array([True, False, True])] ** 2, apart(2, 3))
row("x[mask, i]", lambda x: x[np.array([True, False, True]), [0, 1]], apart(3, 2))
row(
    "x[i, ..., mask]",
    lambda x: x[_I[:2], ..., np.array([True, False, True])],
    apart(3, 3),
)
row("x[0, ..., mask]", lambda x: x[0, ..., np.array([True, False, True])], apart(2, 3))
row("x[x > 0]", lambda x: np.sum(np.log(x[x > 0])), apart(5), batch=False)
row("x[True]", lambda x: x[True] * 2, apart(2), batch=False)
row("x[i] of complex", lambda x: x[_I] * x[0], apart(3), kinds="fc")
row("x[argsort]", lambda x: x[np.argsort(x)] * constant(range(4), x), apart(4))
row("unpacked", lambda x: x[0] * sum(a * a for a in x), apart(3))
row("take", lambda x: np.take(x, [[0, 3], [0, 1]]) ** 2, apart(2, 2))
row("take axis", lambda x: x.take(_I, axis=1), apart(2, 3))
row(
    "take modes",
    lambda x: x.take([4, -5], mode="wrap") * x.take([-2, 9], mode="clip"),
    apart(3),
)
row(
    "take_along_axis",
    lambda x: np.take_along_axis(x, np.array([[0], [1]]), 1),
    apart(2, 3),
)
row("compress", lambda x: np.compress([True, False, True], x, axis=1), apart(2, 3))
row("extract", lambda x: np.extract(np.array([1, 0, 1]), x) * 2, apart(3))

# The functional update

row("at set", lambda x, v: at(x)[1:].set(v), apart(3, 2), apart(2), kinds="fc")
row("at set number", lambda x: at(x)[0].set(5.0) * x, apart(3))
row("at set twice", lambda x, v: at(x)[_I].set(v), apart(3), apart(3))
row(
    "at set mask",
    lambda x, v: at(x)[np.array([True, False, True])].set(v),
    apart(3),
    apart(2),
)
row("at set apart", lambda x, v: at(x)[_I, :, _I].set(v), apart(3, 2, 3), apart(2))
row(
    "at set into a constant",
    lambda v: at(constant([1.0] * 3, v))[1].set(v) ** 2,
    apart(),
)
row("at add", lambda x, v: at(x)[_I].add(v), apart(3, 2), apart(3, 2), kinds="fc")
row("at add column", lambda x, v: at(x)[:, 1].add(v), apart(3, 2), apart())
row("at multiply", lambda x, v: at(x)[1:].multiply(v), apart(3), apart(2))
row("at max", lambda x, v: at(x)[_I].max(v), apart(3), apart(3, shift=0.024))
row("at min", lambda x, v: at(x)[_I, 0].min(v), apart(3, 2), apart(3, shift=0.024))
row("at get", lambda x: at(x)[_I].get() ** 2, apart(3))
_R = np.array([2, 0, 2, 2, 0])
row("at multiply twice", lambda x, v: at(x)[_R].multiply(v), apart(3), apart(5))
row(
    "at multiply rows twice",
    lambda x, v: at(x)[_R[:3]].multiply(v),
    apart(3, 2),
    apart(2),
    kinds="fc",
)
row(
    "at multiply apart",
    lambda x, v: at(x)[_I, :, _I].multiply(v),
    apart(3, 2, 3),
    apart(3, 1),
)
row(
    "at multiply mask",
    lambda x, v: at(x)[np.array([True, False, True])].multiply(v),
    apart(3),
    apart(),
)
row(
    "at multiply by zeros",
    lambda x, v: at(x)[_R].multiply(v * constant([0, 1, 0, 1, 1], v)),
    apart(3),
    apart(5),
)


def _pieces(x: Any) -> Any:
    return np.piecewise(x, [x < -0.5, x > 0.5], [np.square, np.exp, 0.25])


row("piecewise", _pieces, apart(3, 2))
row("piecewise 0-d", _pieces, apart())
row(
    "piecewise of one condition",
    lambda x: np.piecewise(x, x > 0, [lambda a, k: a * k, lambda a, k: a**2 - k], 3.0),
    apart(4),
)
row(
    "piecewise of overlapping conditions",
    lambda x: np.piecewise(x, [x > -1, x > 1], [lambda a: a**3, 0.0, np.sin]),
    apart(5),
    kinds="f",
)
row(
    "piecewise by plain conditions",
    lambda x: np.piecewise(x, [[True, False, True]], [np.exp, np.negative]),
    apart(3),
    kinds="fc",
)
row(
    "ix_",
    lambda x: x[np.ix_(np.array([0, 2]), np.array([True, False, True]))] * 2,
    apart(3, 3),
)
row(
    "unravel_index",
    lambda x: x[np.unravel_index(np.argmax(x), (2, 3))] * x,
    apart(2, 3),
)
row(
    "ravel_multi_index",
    lambda x: np.ravel(x)[
        np.ravel_multi_index(
            (np.argmax(x, 0), constant(range(3), x)), (2, 3), order="C"
        )
    ],
    apart(2, 3),
)
row(
    "indices of the shape",
    lambda x: (
        x[np.tril_indices_from(x, -1)] * x[np.triu_indices_from(x, 1)]
        + x[np.diag_indices_from(x)]
    ),
    apart(3, 3),
)
row(
    "packbits",
    lambda x: x * np.unpackbits(np.packbits(x > 0), count=5),
    apart(5),
    batch=False,
)
row("take_along_axis flat", lambda x: np.take_along_axis(x, _R, None), apart(2, 2))

row("permute_row_elements",
    lambda x: permute_row_elements(x, np.array([[2, 0, 1], [0, 2, 1]])) ** 2,
    apart(2, 3), kinds="fc")  # fmt: skip
row("permute_row_elements one for all, inverse",
    lambda x: permute_row_elements(x, np.array([2, 0, 1]), inverse=True) ** 2,
    apart(2, 2, 3))  # fmt: skip
row("permute_row_elements of one row",
    lambda x: permute_row_elements(x, np.array([[1, 0], [0, 1], [1, 0]])) ** 2,
    apart(2))  # fmt: skip
