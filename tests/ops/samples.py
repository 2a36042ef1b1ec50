"""One table of samples: every op, as a user would call it, on small arrays.

A row names a function of arrays and what to draw its arguments from. The tests
run each row for value, both modes, second order, dtype, batching and inference.
Entries drawn are apart from each other and from 0 unless a row says otherwise, so
that no difference steps over a kink; the kinks have a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from workbench.ops.reductions import logsumexp
from workbench.ops.updates import at

Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Sample:
    """One row: ``f`` of arguments drawn from ``draws``; ``kinds`` of dtype to try."""

    name: str
    f: Callable[..., Any]
    draws: tuple[Draw, ...]
    kinds: str = "f"  # f: floats; c: complex too
    order: int = 2  # 1: its second derivative vanishes or is tested elsewhere
    batch: bool = True  # False: refused by vmap, with an error tested elsewhere

    def arguments(self, rng: np.random.Generator) -> list[Any]:
        return [draw(rng) for draw in self.draws]


#: Magnitudes that keep away from each other and from 0, 1/2, 1 and 3/2.
GRID = np.concatenate(
    [np.linspace(*ends) for ends in ((0.1, 0.44, 8), (0.57, 0.93, 8), (1.07, 1.43, 8),
                                     (1.57, 1.93, 8))]
)  # fmt: skip


def apart(*shape: int, shift: float = 0.0) -> Draw:
    """Entries in (-2, 2), apart from each other, from 0, 1 and -1, in magnitude too."""

    def draw(rng: np.random.Generator) -> Any:
        size = int(np.prod(shape))
        assert size <= len(GRID)
        chosen = rng.permutation(GRID + shift)[:size]
        return (chosen * rng.choice([-1.0, 1.0], size)).reshape(shape)

    return draw


def positive(*shape: int) -> Draw:
    return lambda rng: np.abs(apart(*shape)(rng))


def inside(*shape: int) -> Draw:
    """Entries in (-1, 1)."""
    return lambda rng: apart(*shape)(rng) / 2


def above_one(*shape: int) -> Draw:
    return lambda rng: 1 + positive(*shape)(rng)


def matrix(*shape: int) -> Draw:
    """Square matrices that are well conditioned."""

    def draw(rng: np.random.Generator) -> Any:
        return rng.normal(size=shape) * 0.4 + 2 * np.eye(shape[-1])

    return draw


def definite(*shape: int) -> Draw:
    def draw(rng: np.random.Generator) -> Any:
        a = rng.normal(size=shape)
        return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])

    return draw


#: Two operands whose quotients are apart from whole numbers.
DIVIDED: tuple[Draw, Draw] = (
    lambda rng: np.array([0.7, -1.3, 1.85]),
    lambda rng: np.array([0.4, 0.5, 0.7]),
)

SAMPLES: list[Sample] = []


def row(name: str, f: Callable[..., Any], *draws: Draw, **more: Any) -> None:
    assert name not in {s.name for s in SAMPLES}, name
    SAMPLES.append(Sample(name, f, draws, **more))


# Elementwise: the ops of one operand, by where they are defined

for _name in "exp exp2 expm1 sin cos sinh cosh tanh arctan arcsinh square".split():
    _complex = "" if _name in ("exp2", "arctan", "arcsinh") else "c"
    row(_name, getattr(np, _name), apart(2, 3), kinds="f" + _complex)
for _name in "log log2 log10 log1p sqrt cbrt reciprocal".split():
    _complex = "" if _name in ("cbrt", "log2", "log10", "log1p") else "c"
    row(_name, getattr(np, _name), positive(4), kinds="f" + _complex)
for _name in "arcsin arccos arctanh tan".split():
    row(_name, getattr(np, _name), inside(3))
row("arccosh", np.arccosh, above_one(3))
for _name in "negative positive absolute fabs deg2rad rad2deg radians degrees".split():
    row(_name, getattr(np, _name), apart(3))
for _name in "sign floor ceil trunc rint".split():
    row(_name, getattr(np, _name), apart(3), order=1)
row("absolute of complex", np.absolute, apart(3), kinds="c")
row("sinc", np.sinc, apart(3))
row("nan_to_num", np.nan_to_num, apart(3))
row("round", lambda x: np.round(x) + x.round(), apart(3), order=1)
row("python abs and neg", lambda x: abs(-x), apart(3))
row("conjugate", np.conjugate, apart(3), kinds="fc")
row("real of complex", lambda x: np.real(x) * 2.0, apart(3), kinds="c")
row("imag of complex", lambda x: np.imag(x) * 2.0, apart(3), kinds="c")
row("real of real", lambda x: x.real + x.imag, apart(3))
row("angle", lambda z: np.angle(z) + np.angle(z, deg=True), apart(3), kinds="c")

# Elementwise: two operands, with broadcasting, scalars and empty arrays

for _name in "add subtract multiply divide".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3), kinds="fc")
    row(f"{_name} of columns", getattr(np, _name), apart(2, 1), apart(1, 3))
row("power", np.power, positive(2, 3), apart(3))
row("power of complex", lambda x, y: x**y, positive(3), apart(3), kinds="c")
row("power by numbers", lambda x: x**3 + x**-1 + x**2 + x**1 + x**0.0, apart(3))
row("number to a power", lambda x: 2.0**x, apart(3))
row("float_power", np.float_power, positive(3), apart(3))
for _name in "arctan2 hypot logaddexp logaddexp2 copysign".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3))
for _name in "maximum minimum fmax fmin".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3, shift=0.024))
row("remainder", np.remainder, *DIVIDED)
row("fmod", np.fmod, *DIVIDED)
row("floor_divide", np.floor_divide, *DIVIDED, order=1)
row("divmod", lambda x, y: np.divmod(x, y)[1], *DIVIDED)
row("modf", lambda x: np.modf(x)[0] ** 2, apart(3))
row("heaviside", np.heaviside, apart(3), positive(3), order=1)
row("a Python number", lambda x: (3 * x - 1) / 2 + 1 / x, apart(3))
row("empty operands", lambda x, y: x * y + np.exp(x), apart(0, 3), apart(3))
row("shape ()", lambda x, y: x * np.sin(y) / y, apart(), apart())
row("negative strides", lambda x, y: x[::-1, ::-1] * y[::2], apart(2, 3), apart(5))
row("clip", lambda x, a, b: np.clip(x, a, b), apart(2, 3),
    lambda rng: np.full(3, -1.0), lambda rng: np.full(3, 1.0))  # fmt: skip
row(
    "clip by numbers",
    lambda x: np.clip(x, -1, 1) + x.clip(0.5) + x.clip(max=1),
    apart(4),
)
row("where", lambda x, y: np.where(x > 0, x * y, y), apart(2, 3), apart(3))
row("select", lambda x: np.select([x > 1, x > 0], [x**2, 3 * x], x), apart(6))
row("choose", lambda x: np.choose([0, 1, 0], [x, x**2]), apart(3))
row("dtype=", lambda x: np.add(x, x * x, dtype=np.float64), apart(3))
row("add.outer", np.add.outer, apart(2), apart(3))
row("multiply.outer", np.multiply.outer, apart(2, 2), apart(3))
row(
    "comparisons", lambda x, y: x * ((x > y) & (x >= y) | ~(x == y)), apart(3), apart(3)
)
row(
    "predicates", lambda x: x * (np.isfinite(x) & ~np.isnan(x) & ~np.isinf(x)), apart(3)
)
row("logic", lambda x, y: x * (np.logical_and(x > 0, np.logical_not(y)) | np.logical_or(x < 0, y < 1)
    ^ np.logical_xor(np.signbit(x), np.signbit(y))), apart(3), apart(3))  # fmt: skip
row("isclose", lambda x, y: x * np.isclose(x, y), apart(3), apart(3, shift=0.024))
row("stop_gradient", lambda x: x * np.sign(x), apart(3))

# Reductions

_REDUCED: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
    "var": np.var, "std": np.std, "logsumexp": logsumexp, "ptp": np.ptp,
    "median": np.median, "average": np.average,
}  # fmt: skip
for _name, _f in _REDUCED.items():
    _kinds = "fc" if _name in ("sum", "mean", "prod", "var", "std") else "f"
    row(_name, _f, apart(2, 3), kinds=_kinds)
    row(f"{_name} axis=0", lambda x, f=_f: f(x, axis=0), apart(2, 3))
    row(f"{_name} axis=-1 keepdims", lambda x, f=_f: f(x, axis=-1, keepdims=True),
        apart(2, 3))  # fmt: skip
    row(f"{_name} axis=(0, 2)", lambda x, f=_f: f(x, axis=(0, 2)), apart(2, 2, 3))
row("sum of nothing", np.sum, apart(0, 3))
row(
    "sum of a number",
    lambda x: np.sum(x) + np.mean(x) + np.prod(x) + np.max(x),
    apart(),
)
row("sum axis=()", lambda x: np.sum(x, axis=()), apart(2))
row("sum initial where", lambda x: np.sum(x, initial=3.0, where=x > 0), apart(5))
row("sum dtype", lambda x: np.sum(x, dtype=np.float64), apart(5))
row("mean where", lambda x: x.mean(axis=1, where=np.array([True, False, True])), apart(2, 3))
row("prod initial where", lambda x: np.prod(x, initial=2.0, where=x > 0), apart(5))
row("prod with zeros", np.prod, lambda rng: np.array([0.0, 1.5, -2.0]))
row("prod with two zeros", np.prod, lambda rng: np.array([0.0, 1.5, 0.0]))
row("max initial", lambda x: np.max(x, axis=0, initial=0.02), apart(2, 3))
row("max where", lambda x: x.max(where=x < 1, initial=-9.0), apart(2, 3))
row("min initial", lambda x: np.min(x, initial=0.02), apart(2, 3))
row("var ddof", lambda x: np.var(x, axis=1, ddof=1), apart(2, 3))
row("var where", lambda x: np.var(x, where=x > -3), apart(4))
row("std correction", lambda x: np.std(x, correction=1.5), apart(4))
row("std where", lambda x: x.std(axis=0, where=np.array([[True], [True], [False]])),
    apart(3, 2))  # fmt: skip
row("average weights", lambda x, w: np.average(x, axis=1, weights=w), apart(2, 3),
    positive(3))  # fmt: skip
row("logsumexp b", lambda x, b: logsumexp(x, 1, b), apart(2, 3), positive(2, 3))
row("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, axis=1), apart(2, 3))
row("add.reduce", lambda x: np.add.reduce(x) + np.multiply.reduce(x), apart(3, 2))
row("maximum.reduce", lambda x: np.maximum.reduce(x, axis=None) * 2, apart(3, 2))
row("hypot.reduce", lambda x: np.hypot.reduce(x, axis=1), apart(2, 5))
row("nansum", lambda x: np.nansum(x) + np.nanmean(x) + np.nanmax(x) + np.nanmin(x),
    apart(4))  # fmt: skip
row("nanprod", lambda x: np.nanprod(x) + np.nanvar(x) + np.nanstd(x), apart(4))
row("weighted by argmax", lambda x: x * np.argmax(x, axis=0), apart(3, 2))
row("argmin", lambda x: x[np.argmin(x)] ** 2, apart(4))
row("any all count", lambda x: x * (np.any(x > 0) + np.all(x > 0)) * np.count_nonzero(x),
    apart(4))  # fmt: skip
row("sort", lambda x: np.sort(x) ** 2, apart(2, 4))
row("sort axis", lambda x: np.sort(x, axis=0) * np.argsort(x, 0), apart(3, 2))
row("searchsorted", lambda x: x * np.searchsorted(np.array([-1.0, 0, 1]), x), apart(3))

# Running sums and products

row("cumsum", np.cumsum, apart(4), kinds="fc")
row("cumsum flat", lambda x: np.cumsum(x), apart(2, 2))
row("cumsum axis", lambda x: np.cumsum(x, axis=-2), apart(3, 2))
row("cumsum empty", np.cumsum, apart(0))
row("cumulative_sum", lambda x: np.cumulative_sum(x, include_initial=True), apart(3))
row("cumprod", np.cumprod, apart(5), kinds="fc")
row("cumprod with zeros", np.cumprod, lambda rng: np.array([0.5, 0.0, 2.0, 0.0, 3.0]))
row("cumprod axis", lambda x: np.cumprod(x, axis=0), apart(3, 2))
row("cumulative_prod", lambda x: np.cumulative_prod(x, include_initial=True), apart(3))
row("add.accumulate", np.add.accumulate, apart(3, 2))
row("multiply.accumulate", lambda x: np.multiply.accumulate(x, 1), apart(2, 3))
row("maximum.accumulate", np.maximum.accumulate, apart(5))
row("minimum.accumulate", lambda x: np.minimum.accumulate(x, axis=1), apart(2, 4))
row("logaddexp.accumulate", np.logaddexp.accumulate, apart(5))
row("diff", lambda x: np.diff(x, 2) ** 2, apart(2, 4))
row("diff ends", lambda x: np.diff(x, prepend=0, append=x[-1:]) ** 2, apart(3))
row("trapezoid", lambda y, x: np.trapezoid(y, x) + np.trapezoid(y, dx=2), apart(4),
    apart(4))  # fmt: skip

# Shapes

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
row("broadcast_arrays", lambda x, y: np.multiply(*np.broadcast_arrays(x, y)), apart(3),
    apart(2, 1))  # fmt: skip
row("meshgrid", lambda x, y: np.multiply(*np.meshgrid(x, y)), apart(2), apart(3))
row("meshgrid ij", lambda x, y: np.add(*np.meshgrid(x, y, indexing="ij")), apart(2),
    apart(3))  # fmt: skip
row(
    "atleast", lambda x: np.atleast_1d(x) * np.atleast_2d(x) + np.atleast_3d(x), apart()
)
row("atleast_3d", lambda x: np.atleast_3d(x) * 2, apart(3))
row("concatenate", lambda x, y: np.concatenate([x, y, x], axis=1), apart(2, 1),
    apart(2, 2), kinds="fc")  # fmt: skip
row("concatenate flat", lambda x, y: np.concatenate([x, y], axis=None), apart(2, 1),
    apart(3))  # fmt: skip
row("concatenate a constant", lambda x: np.concatenate([x, np.ones(2)]) ** 2, apart(2))
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
row("block", lambda x: np.block([[x, 2 * x], [x, np.ones((2, 2))]]), apart(2, 2))
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
row("flip", lambda x: np.flip(x) * np.flip(x, 0) * np.fliplr(x) * np.flipud(x),
    apart(2, 3))  # fmt: skip
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

# Indexing

_I, _J = np.array([0, 2, 0]), np.array([[1], [0]])
for _name, _index in {
    "int": 1, "negative int": -1, "slice": slice(1, None), "step": slice(None, None, -2),
    "ellipsis": (..., 0), "newaxis": (None, slice(None), None, 1),
    "mixed basic": (1, slice(0, 2), None), "empty": slice(2, 2),
    "array": _I, "list": [0, 0], "array last": (slice(None), _I), "0-d array": np.array(1),
    "two arrays": (_I, _I), "broadcast arrays": (_J, _I), "apart": (_I, slice(None), _I),
    "int and array apart": (0, slice(None), _I), "int and array": (slice(None), 0, _I),
    "apart by None": (slice(None), _I, None, _I), "apart by ellipsis": (_I, ..., _I),
    "array middle": (slice(None), _I, slice(1, 3)), "negative entries": ([-1, 0, -1],),
}.items():  # fmt: skip
    row(f"x[{_name}]", lambda x, i=_index: x[i], apart(3, 3, 3), order=1)
row("x[mask]", lambda x: x[np.array([True, False, True])] ** 2, apart(3, 2))
row("x[mask of 2 axes]", lambda x: x[np.eye(2, dtype=bool)] ** 2, apart(2, 2, 3))
row("x[:, mask]", lambda x: x[:, np.array([True, False, True])] ** 2, apart(2, 3))
row("x[mask, i]", lambda x: x[np.array([True, False, True]), [0, 1]], apart(3, 2))
row("x[x > 0]", lambda x: np.sum(np.log(x[x > 0])), apart(5), batch=False)
row("x[True]", lambda x: x[True] * 2, apart(2), batch=False)
row("x[i] of complex", lambda x: x[_I] * x[0], apart(3), kinds="fc")
row("x[argsort]", lambda x: x[np.argsort(x)] * np.arange(4), apart(4))
row("unpacked", lambda x: x[0] * sum(a * a for a in x), apart(3))
row("take", lambda x: np.take(x, [[0, 3], [0, 1]]) ** 2, apart(2, 2))
row("take axis", lambda x: x.take(_I, axis=1), apart(2, 3))
row("take modes", lambda x: x.take([4, -5], mode="wrap") * x.take([-2, 9], mode="clip"),
    apart(3))  # fmt: skip
row("take_along_axis", lambda x: np.take_along_axis(x, np.array([[0], [1]]), 1),
    apart(2, 3))  # fmt: skip
row("compress", lambda x: np.compress([True, False, True], x, axis=1), apart(2, 3))
row("extract", lambda x: np.extract(np.array([1, 0, 1]), x) * 2, apart(3))

# The functional update

row("at set", lambda x, v: at(x)[1:].set(v), apart(3, 2), apart(2), kinds="fc")
row("at set number", lambda x: at(x)[0].set(5.0) * x, apart(3))
row("at set twice", lambda x, v: at(x)[_I].set(v), apart(3), apart(3))
row("at set mask", lambda x, v: at(x)[np.array([True, False, True])].set(v), apart(3),
    apart(2))  # fmt: skip
row("at set apart", lambda x, v: at(x)[_I, :, _I].set(v), apart(3, 2, 3), apart(2))
row("at set into a constant", lambda v: at(np.ones(3))[1].set(v) ** 2, apart())
row("at add", lambda x, v: at(x)[_I].add(v), apart(3, 2), apart(3, 2), kinds="fc")
row("at add column", lambda x, v: at(x)[:, 1].add(v), apart(3, 2), apart())
row("at multiply", lambda x, v: at(x)[1:].multiply(v), apart(3), apart(2))
row("at max", lambda x, v: at(x)[_I].max(v), apart(3), apart(3, shift=0.024))
row("at min", lambda x, v: at(x)[_I, 0].min(v), apart(3, 2),
    apart(3, shift=0.024))  # fmt: skip
row("at get", lambda x: at(x)[_I].get() ** 2, apart(3))

# Contractions

for _a, _b in [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
    ((2, 0), (0, 3)),
]:  # fmt: skip
    row(f"matmul {_a} {_b}", lambda a, b: a @ b, apart(*_a), apart(*_b),
        kinds="fc" if len(_a) < 3 else "f")  # fmt: skip
row("matmul of one array", lambda x: x @ x.T, apart(2, 3))
row("matmul by a constant", lambda x: np.arange(6.0).reshape(2, 3) @ x, apart(3))
row("dot", lambda a, b: np.dot(a, b), apart(2, 3), apart(3, 2))
row("dot numbers", lambda a, b: np.dot(a, b) * np.dot(b, b), apart(), apart(2))
row("dot many axes", np.dot, apart(2, 3), apart(2, 3, 2))
row("inner", np.inner, apart(2, 3), apart(2, 3))
row("inner vectors", np.inner, apart(3), apart(3))
row("outer", np.outer, apart(2, 1), apart(3), kinds="fc")
row("vdot", np.vdot, apart(2, 2), apart(2, 2), kinds="fc")
row("vecdot", lambda a, b: np.vecdot(a, b), apart(2, 3), apart(3), kinds="fc")
row("matvec", lambda a, b: np.matvec(a, b), apart(2, 2, 3), apart(3))
row("vecmat", lambda a, b: np.vecmat(a, b), apart(3), apart(3, 2), kinds="fc")
row("kron", np.kron, apart(2, 1), apart(3))
row("cross", np.cross, apart(2, 3), apart(3))
row("tensordot", lambda a, b: np.tensordot(a, b), apart(2, 2, 3), apart(2, 3, 2))
row("tensordot 0", lambda a, b: np.tensordot(a, b, 0), apart(2), apart(2, 2))
row("tensordot axes", lambda a, b: np.tensordot(a, b, ([2, 0], [0, 1])), apart(2, 2, 3),
    apart(3, 2, 2), kinds="fc")  # fmt: skip
row(
    "tensordot axis", lambda a, b: np.tensordot(a, b, (-1, 1)), apart(2, 3), apart(2, 3)
)
for _name in [
    "ij,jk->ik", "ij,jk", "i,i", "ij->ji", "ij->", "ij->j", "bij,bjk->bik", "ij,ij->i",
    "ii", "ii->i", "iij->j", "ij,jk,kl->il", "...ij,...j->...i", "i...,i...", "ij,kl->",
    "ij , j -> i", "iji->j",
]:  # fmt: skip
    _inputs = _name.replace(" ", "").split("->")[0].split(",")
    _shapes = [
        tuple(
            {"i": 2, "j": 3, "k": 2, "l": 2, "b": 2}[c] for c in t.replace("...", "b")
        )
        for t in _inputs
    ]
    row(f"einsum {_name}", lambda *a, s=_name: np.einsum(s, *a),
        *(apart(*s) for s in _shapes), kinds="fc" if len(_shapes) < 3 else "f")  # fmt: skip
row(
    "einsum broadcast",
    lambda a, b: np.einsum("ij,ij->j", a, b),
    apart(2, 3),
    apart(2, 1),
)
row("einsum one for all", lambda a, b: np.einsum("i,i->", a, b), apart(3), apart(1))
row("einsum lists", lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), apart(2, 3),
    apart(3, 2))  # fmt: skip
row("einsum lists implicit", lambda a: np.einsum(a, [0, 0]), apart(2, 2))
row("einsum lists ellipsis", lambda a, b: np.einsum(a, [..., 1], b, [1], [...]),
    apart(2, 3), apart(3))  # fmt: skip
row("einsum optimize", lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True),
    apart(2, 3), apart(3, 2))  # fmt: skip
_SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0, 2], [0, -3, 0]]))
row("sparse @ vector", lambda x: _SPARSE @ (x * x), apart(3))
row("sparse @ matrix", lambda x: _SPARSE @ x, apart(3, 2))
row("vector @ sparse", lambda x: x @ _SPARSE, apart(2))
row("matrix @ sparse", lambda x: x @ _SPARSE, apart(2, 2))
row("multi_dot", lambda a, b, c: np.linalg.multi_dot([a, b, c]), apart(2), apart(2, 3),
    apart(3, 2))  # fmt: skip
row("matrix_power", lambda a: np.linalg.matrix_power(a, 3), matrix(2, 2))
row("matrix_power negative", lambda a: np.linalg.matrix_power(a, -2), matrix(2, 2))
row("matrix_power 0", lambda a: np.linalg.matrix_power(a, 0) * a, matrix(2, 2))

# Linear algebra

for _ord in (None, 2, 1, 3, 2.5, 0.5, np.inf, -np.inf, 0):
    row(f"norm {_ord}", lambda x, o=_ord: np.linalg.norm(x, o), apart(4),
        kinds="fc" if _ord in (None, 1, 3) else "f")  # fmt: skip
for _ord in ("fro", 1, -1, np.inf, -np.inf):
    row(f"norm of a matrix {_ord}", lambda x, o=_ord: np.linalg.norm(x, o), apart(2, 3))
row("norm of all", lambda x: np.linalg.norm(x), apart(2, 2, 2))
row("norm axis", lambda x: np.linalg.norm(x, axis=1, keepdims=True), apart(2, 3))
row("norm axis ord", lambda x: np.linalg.norm(x, 3, axis=0), apart(2, 3))
row("norm axes", lambda x: np.linalg.norm(x, axis=(0, 2)), apart(2, 2, 3))
row("norm axes ord", lambda x: np.linalg.norm(x, 1, (0, 2), True), apart(2, 2, 3))
row("vector_norm", lambda x: np.linalg.vector_norm(x, axis=1), apart(2, 3))
row("matrix_norm", lambda x: np.linalg.matrix_norm(x), apart(2, 2, 3))
row("inv", np.linalg.inv, matrix(3, 3), kinds="fc")
row("inv of a stack", np.linalg.inv, matrix(2, 2, 2))
row("solve", np.linalg.solve, matrix(3, 3), apart(3, 2), kinds="fc")
row("solve vector", np.linalg.solve, matrix(3, 3), apart(3), kinds="fc")
row("solve stacks", np.linalg.solve, matrix(2, 2, 2), apart(2, 3))
row("solve stack and vector", np.linalg.solve, matrix(2, 2, 2), apart(2))
row("det", np.linalg.det, matrix(3, 3), kinds="fc")
row("det of a stack", np.linalg.det, matrix(2, 2, 2))
row("slogdet", lambda x: np.linalg.slogdet(x)[1], matrix(3, 3), kinds="fc")
row("slogdet sign", lambda x: np.prod(np.linalg.slogdet(x)), matrix(3, 3), kinds="fc")
row("cholesky", np.linalg.cholesky, definite(3, 3))
row("cholesky of a stack", np.linalg.cholesky, definite(2, 2, 2))
row("cholesky upper", lambda x: np.linalg.cholesky(x, upper=True), definite(2, 2))
row("linalg aliases", lambda x: np.linalg.matmul(x, np.linalg.matrix_transpose(x))
    * np.linalg.trace(x) + np.linalg.diagonal(x), apart(2, 2))  # fmt: skip


# Kinks: the derivative there is a fixed choice

Kink = tuple[str, Callable[[Any], Any], list[float], list[float]]
KINKS: list[Kink] = [
    ("absolute at 0", lambda x: np.sum(np.abs(x)), [0.0, -2.0], [0.0, -1.0]),
    ("fabs at 0", lambda x: np.sum(np.fabs(x)), [0.0], [0.0]),
    ("sign at 0", lambda x: np.sum(np.sign(x)), [0.0], [0.0]),
    ("maximum at a tie", lambda x: np.maximum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5]),
    ("minimum at a tie", lambda x: np.minimum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5]),
    ("relu at 0", lambda x: np.sum(np.maximum(x, 0)), [0.0, 1.0, -1.0], [0.5, 1.0, 0.0]),
    ("max of ties", np.max, [2.0, 1.0, 2.0, 2.0], [1 / 3, 0.0, 1 / 3, 1 / 3]),
    ("min of ties", np.min, [2.0, 1.0, 1.0], [0.0, 0.5, 0.5]),
    ("max with initial", lambda x: np.max(x, initial=2.0), [2.0, 1.0], [0.5, 0.0]),
    ("max below initial", lambda x: np.max(x, initial=9.0), [2.0, 2.0], [0.0, 0.0]),
    ("clip on a bound", lambda x: np.sum(np.clip(x, 0, 1)), [0.0, 1.0, 2.0], [0.5, 0.5, 0]),
    ("norm at 0", np.linalg.norm, [0.0, 0.0], [0.0, 0.0]),
    ("3-norm at 0", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0.0, 0.0]),
    ("std of equals", np.std, [2.0, 2.0], [0.0, 0.0]),
    ("logsumexp of -inf", logsumexp, [-np.inf, -np.inf], [0.0, 0.0]),
    ("logsumexp with -inf", logsumexp, [-np.inf, 0.0], [0.0, 1.0]),
    ("at max of ties", lambda x: at(x)[[0, 0]].max(x[0])[0], [1.0, 0.0], [1.0, 0.0]),
    ("power 0 at 0", lambda x: np.sum(x**0), [0.0], [0.0]),
    ("power 1 at 0", lambda x: np.sum(x**1), [0.0], [1.0]),
    ("square at 0", lambda x: np.sum(x**2), [0.0], [0.0]),
    ("det of a singular matrix", lambda x: np.linalg.det(x.reshape(2, 2)),
     [1.0, 2.0, 2.0, 4.0], [4.0, -2.0, -2.0, 1.0]),
    ("det of zeros", lambda x: np.linalg.det(x.reshape(2, 2)), [0.0] * 4, [0.0] * 4),
]  # fmt: skip
