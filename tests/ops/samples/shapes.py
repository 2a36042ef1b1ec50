"""Shapes, joins, arrangements, makers."""

from __future__ import annotations

import numpy as np

from tests.ops.samples.table import Table, apart, constant
from workbench.ops.shaping import specify_shape

row = Table()

row("reshape", lambda x: np.reshape(x, (3, -1)), apart(2, 3), kinds="fc")
row("reshape F", lambda x: x.reshape(3, 2, order="F"), apart(2, 3))
row("ravel", lambda x: x.ravel() * x.ravel("F") * x.flatten(), apart(2, 3))
row("transpose", lambda x: np.transpose(x, (1, 2, 0)), apart(2, 3, 2))
row("T", lambda x: x.T * 2, apart(2, 3), kinds="fc")
row("mT", lambda x: x.mT * 2, apart(2, 2, 3))
row("transpose negative axes", lambda x: x.transpose(-1, 0, 1), apart(2, 3, 2))
row("swapaxes", lambda x: x.swapaxes(0, -1), apart(2, 3, 2))
row("moveaxis", lambda x: np.moveaxis(x, (0, 1), (-1, 0)), apart(2, 3, 2))
row("rollaxis", lambda x: np.rollaxis(x, 2), apart(2, 3, 2))
row("expand_dims", lambda x: np.expand_dims(x, (0, 2)) * x[:, None], apart(3))
row("squeeze", lambda x: np.squeeze(x) + x.squeeze(0), apart(1, 3))
row("broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), apart(3), kinds="fc")
row("broadcast_to column", lambda x: np.broadcast_to(x, (2, 3, 2)), apart(3, 1))
row(
    "broadcast_arrays",
    lambda x, y: np.multiply(*np.broadcast_arrays(x, y)),
    apart(3),
    apart(2, 1),
)
row("meshgrid", lambda x, y: np.multiply(*np.meshgrid(x, y)), apart(2), apart(3))
row(
    "meshgrid ij",
    lambda x, y: np.add(*np.meshgrid(x, y, indexing="ij")),
    apart(2),
    apart(3),
)
row(
    "atleast", lambda x: np.atleast_1d(x) * np.atleast_2d(x) + np.atleast_3d(x), apart()
)
row("atleast_3d", lambda x: np.atleast_3d(x) * 2, apart(3))
row(
    "concatenate",
    lambda x, y: np.concatenate([x, y, x], axis=1),
    apart(2, 1),
    apart(2, 2),
    kinds="fc",
)
row(
    "concatenate flat",
    lambda x, y: np.concatenate([x, y], axis=None),
    apart(2, 1),
    apart(3),
)
row(
    "concatenate a constant",
    lambda x: np.concatenate([x, constant([1.0, 1.0], x)]) ** 2,
    apart(2),
)
row("stack", lambda x, y: np.stack([x, y], axis=1), apart(3), apart(3), kinds="fc")
row("stack negative", lambda x, y: np.stack([x, 2 * y], axis=-1), apart(3), apart(3))
row("array of Tensors", lambda x: np.array([x[0], x[1] * 2, 3.0]) * x[0], apart(2))
row("nested array", lambda x: np.array([[x[0], 1.0], [x[1], x[0]]]) @ x, apart(2))
row("full of a Tensor", lambda x: np.full(3, x[0]) * x, apart(3))
row("hstack", lambda x, y: np.hstack([x, y]), apart(2), apart(3))
row("hstack matrices", lambda x: np.hstack([x, x]), apart(2, 2))
row("vstack", lambda x, y: np.vstack([x, y]), apart(3), apart(2, 3))
row("dstack", lambda x: np.dstack([x, x * x]), apart(2, 2))
row("column_stack", lambda x, y: np.column_stack([x, y]), apart(2), apart(2, 2))
row(
    "block",
    lambda x: np.block([[x, 2 * x], [x, constant([[1.0] * 2] * 2, x)]]),
    apart(2, 2),
)
row("split", lambda x: np.split(x, [1, 3])[1] * np.split(x, 2)[0], apart(4))
row("split axis", lambda x: np.split(x, 2, axis=1)[1], apart(2, 4))
row("array_split", lambda x: np.array_split(x, 3)[0] * 2, apart(4))
row("hsplit vsplit", lambda x: np.hsplit(x, 2)[0] @ np.vsplit(x, 2)[1], apart(2, 2))
row("unstack", lambda x: np.unstack(x, axis=1)[1] * 2, apart(2, 3))
row("tile", lambda x: np.tile(x, 2), apart(2, 2))
row("tile more axes", lambda x: np.tile(x, (2, 1, 3)), apart(2, 2))
row("tile fewer axes", lambda x: np.tile(x, (2,)), apart(2, 1, 2), kinds="fc")
row("repeat", lambda x: np.repeat(x, 2), apart(2, 2))
row("repeat axis", lambda x: np.repeat(x, 3, axis=-1), apart(2, 2))
row("repeat each", lambda x: np.repeat(x, [2, 0, 1], axis=0), apart(3, 2))
row("pad", lambda x: np.pad(x, ((1, 0), (0, 2))), apart(2, 2), kinds="fc")
row("pad number", lambda x: np.pad(x, 1, constant_values=3.0), apart(2, 2))
row("pad pairs", lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4))), apart(2, 2))
row("pad Tensor", lambda x: np.pad(x, 1, constant_values=x[0]), apart(2))
for _mode in ("edge", "reflect", "symmetric", "wrap"):
    row(f"pad {_mode}", lambda x, m=_mode: np.pad(x, ((1, 1), (0, 1)), m), apart(3, 2))
row(
    "flip",
    lambda x: np.flip(x) * np.flip(x, 0) * np.fliplr(x) * np.flipud(x),
    apart(2, 3),
)
row("flip axes", lambda x: np.flip(x, (0, -1)), apart(2, 2, 3))
row("roll", lambda x: np.roll(x, 2), apart(2, 3))
row("roll axis", lambda x: np.roll(x, (1, -1), (0, 1)), apart(2, 3), kinds="fc")
row("rot90", lambda x: np.rot90(x) @ np.rot90(x, 2) @ np.rot90(x, 3), apart(2, 2))
row("tril triu", lambda x: np.tril(x, -1) @ np.triu(x, 1), apart(3, 3))
row("tril of a vector", lambda x: np.tril(x), apart(3))
row("diag", lambda x: np.diag(x, 1), apart(2), kinds="fc")
row("diag of a matrix", lambda x: np.diag(x, -1) * 2, apart(3, 2))
row("diagflat", lambda x: np.diagflat(x), apart(2, 1))
row("diagonal", lambda x: np.diagonal(x, 0, 0, 2), apart(2, 3, 2))
row("trace", np.trace, apart(3, 3))
row("copy", lambda x: np.copy(x) * x.copy(), apart(3), kinds="fc")
row("astype", lambda x: x.astype(np.float64) * 2, apart(3))
row("zeros_like", lambda x: np.zeros_like(x) + np.ones_like(x) * x, apart(3))
row("full_like", lambda x: np.full_like(x, 2.0) * x + np.full_like(x, x[0]), apart(3))
row("like=", lambda x: np.arange(3.0, like=x) * x + np.eye(3, like=x)[0], apart(3))
row("zeros like=", lambda x: np.zeros((2, 3), x.dtype, like=x) + x, apart(3))
row("linspace", lambda a, b: np.linspace(a, b, 4), apart(2), apart(2))
row("linspace open", lambda a: np.linspace(0, a, 3, False, retstep=True)[0], apart())
row("append", lambda x, y: np.append(x, y), apart(2), apart(2, 2))
row("delete", lambda x: np.delete(x, [0, 2], axis=1), apart(2, 3))

# Margins

_MARGIN = ((1, 2), (0, 3))
for _mode in ("mean", "median", "maximum", "minimum"):
    # Of odd numbers of entries: two means of two might be equal, where a median bends.
    row(f"pad {_mode}", lambda x, m=_mode: np.pad(x, _MARGIN, m), apart(3, 3))
    row(
        f"pad {_mode} of some",
        lambda x, m=_mode: np.pad(x, _MARGIN, m, stat_length=((1, 3), (3, 2))),
        apart(3, 3),
    )
row("pad mean of complex", lambda x: np.pad(x, 1, "mean"), apart(3), kinds="c")
row("pad linear_ramp", lambda x: np.pad(x, _MARGIN, "linear_ramp"), apart(2, 3))
row(
    "pad linear_ramp to ends",
    lambda x, e: np.pad(x * e, 2, "linear_ramp", end_values=(e[0], 3.0)),
    apart(2, 2),
    apart(1),
    truth=lambda x, e: np.pad(x * e, 2, "linear_ramp", end_values=(float(e[0]), 3.0)),
)
for _mode in ("reflect", "symmetric"):
    row(
        f"pad {_mode} odd",
        lambda x, m=_mode: np.pad(x, ((2, 1), (0, 4)), m, reflect_type="odd"),
        apart(3, 2),
    )
    row(f"pad {_mode} often", lambda x, m=_mode: np.pad(x, (7, 4), m), apart(3))
    row(
        f"pad {_mode} odd, often",
        lambda x, m=_mode: np.pad(x, (7, 4), m, reflect_type="odd"),
        apart(3),
    )
    row(
        f"pad {_mode} odd, of one",
        lambda x, m=_mode: np.pad(x, 2, m, reflect_type="odd") * x[0],
        apart(1),
    )
row("pad wrap often", lambda x: np.pad(x, (5, 4), "wrap"), apart(3), kinds="fc")
row(
    "pad Tensors by axis",
    lambda x, v: np.pad(x * v[0, 0], 1, constant_values=v),
    apart(2, 3),
    apart(2, 2),
    truth=lambda x, v: np.pad(x * v[0, 0], 1, constant_values=v.tolist()),
)
row("pad dict", lambda x: np.pad(x, {-1: (1, 2)}), apart(2, 3))
row("pad empty", lambda x: np.pad(x, 1, "empty")[1:-1] * 2, apart(3))

# Entries put in, over and over, in order

row("insert", lambda x: np.insert(x, 1, 5.0), apart(3))
row("insert values", lambda x, v: np.insert(x, 1, v, axis=1), apart(2, 3), apart(2))
row(
    "insert rows",
    lambda x, v: np.insert(x, [0, 2, 2], v, 0),
    apart(2, 3),
    apart(3, 1),
    kinds="fc",
)
row("insert at one of a list", lambda x, v: np.insert(x, [1], v), apart(3), apart(2))
row("insert slice", lambda x, v: np.insert(x, slice(0, 3, 2), v), apart(3), apart(2))
row("insert mask", lambda x, v: np.insert(x, np.array([True, False, True]), v),
    apart(3), apart())  # fmt: skip
row("insert negative", lambda x, v: np.insert(x, -1, v, -1), apart(2, 2), apart(2))
row("delete flat", lambda x: np.delete(x, -1), apart(2, 3))
row("delete slice", lambda x: np.delete(x, slice(0, 2), 0) * 2, apart(3, 2))
row("delete mask", lambda x: np.delete(x, np.array([True, False])), apart(2))
row("append axis", lambda x, y: np.append(x, y, 1), apart(2, 1), apart(2, 2))
row("resize", lambda x: np.resize(x, (2, 4)) ** 2, apart(3), kinds="fc")
row("resize smaller", lambda x: np.resize(x, 2), apart(2, 2))
row("resize to nothing", lambda x: np.resize(x, (0, 2)), apart(2))
row("rollaxis back", lambda x: np.rollaxis(x, 1, -1) * np.rollaxis(x, 0, -2),
    apart(2, 2, 2))  # fmt: skip
row("concatenate as float32",
    lambda x: np.concatenate([x, x], dtype=np.float64) ** 2, apart(3))  # fmt: skip
row("split at a negative place", lambda x: np.split(x, [-1, 9])[0] * 2, apart(3))
row("meshgrid of three", lambda x, y: sum(np.meshgrid(x, y, x * x, sparse=True)),
    apart(2), apart(3))  # fmt: skip
row("block of depth three", lambda x: np.block([[[x, x]], [[2.0 * x, x * x]]]),
    apart(2, 2), kinds="fc")  # fmt: skip
row("block of numbers", lambda x: np.block([x[0], x * 2, x]), apart(3))
row("squeeze nothing", lambda x: np.squeeze(x, 0) * x, apart())
row("flip no axis", lambda x: np.flip(x, ()) * 2, apart(3))

# Windows

_windows = np.lib.stride_tricks.sliding_window_view
row("windows", lambda x: _windows(x, 3) ** 2, apart(5), kinds="fc")
row("windows of both axes", lambda x: _windows(x, (2, 3)), apart(3, 4))
row("windows of an axis", lambda x: np.max(_windows(x, 2, axis=0), -1), apart(3, 2))
row("windows of windows", lambda x: _windows(x, (2, 2), axis=(-1, -1)), apart(2, 4))
row("windows of all and of one", lambda x: _windows(x, (3, 1), (0, 1)), apart(3, 2))
row(
    "a convolution by windows",
    lambda x, k: np.einsum("ijkl,kl->ij", _windows(x, (2, 2)), k),
    apart(3, 4),
    apart(2, 2),
)
row("specify_shape", lambda x: specify_shape(x, (None, 3)) ** 2, apart(2, 3),
    kinds="fc")  # fmt: skip
