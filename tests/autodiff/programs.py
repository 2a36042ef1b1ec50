"""Random programs for the fuzz tests: lines of NumPy that NumPy itself accepts.

A line is a template filled with names that exist; it joins the program if plain
NumPy runs it and gives a float array of moderate size and values. So NumPy's own
rules for shapes, axes and dtypes decide what is a program.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import workbench as wb

__all__ = ["Program", "programs"]

# ruff: noqa: E501 a template is one line
ELEMENTWISE = """
np.tanh({a}) | np.sin({a}) | np.cos({a}) | np.exp(-{a} ** 2) | np.expm1({a} / 3)
np.log1p({a} ** 2) | np.sqrt(1 + {a} * {a}) | np.abs({a}) | -{a} | {a} ** 3
np.log(np.abs({a}) + 0.3) | 1 / (2 + np.sin({a})) | np.arctan({a}) | np.sinh({a} / 4)
np.cosh({a} / 4) | np.arcsinh({a}) | np.square({a}) | np.cbrt(2 + {a} ** 2)
np.maximum({a}, 0) | np.clip({a}, -1, 1) | np.sign({a}) * {a} | np.sinc({a} / 3)
np.where({a} > 0, np.sqrt(np.abs({a})), {a}) | np.where({a} != 0, np.sin({a}) / {a}, 1)
np.where({a} > 0.5, np.log(np.where({a} > 0, {a}, 1)), 0) | np.nan_to_num({a})
np.logaddexp({a}, 0) | np.abs({a}) ** 1.5 | 2.0 ** ({a} / 2) | {a}.clip(min=-0.5)
np.exp2({a} / 4) | np.floor({a}) + {a} | np.remainder({a}, 3) | np.rint({a}) * {a}
np.arctan2({a}, 1.5) | np.select([{a} > 1, {a} < 0], [{a} ** 2, 2 * {a}], -{a})
np.copy({a}) / 3 | np.round({a}, 1) + {a} ** 2 | np.arcsin(np.tanh({a}) / 2)
np.heaviside({a}, 0.5) * {a} | np.reciprocal(3 + np.cos({a})) | np.deg2rad({a}) * 9
"""
BINARY = """
{a} + {b} | {a} - {b} | {a} * {b} | {a} / (2 + np.cos({b})) | np.maximum({a}, {b})
np.minimum({a}, {b}) | np.hypot({a}, {b}) | np.arctan2({a}, 2 + {b} ** 2)
np.logaddexp({a}, {b}) | np.where({a} > {b}, {a}, {b} / 2) | np.copysign({a}, {b})
np.power(np.abs({a}) + 0.5, np.sin({b})) | np.fmax({a}, {b}) | 3 * {a} - {b} / 4
np.where({b} > 0, {a} / {b}, {a}) | np.fmod({a}, 2 + {b} ** 2) | {a} * {a} - {b} * {b}
np.multiply(*np.broadcast_arrays({a}, {b})) | np.add.outer({a}, {b})
"""
REDUCTION = """
np.sum({a}) | np.sum({a}, axis={i}) | np.mean({a}, axis={i}, keepdims=True)
np.prod({a}, axis={i}) | np.max({a}, axis={i}) | np.min({a}, axis={i}, keepdims=True)
np.var({a}, axis={i}) | np.std({a} ** 3 + 0.1, axis={i}) | np.ptp({a}, axis={i})
wb.logsumexp({a}, axis={i}) | np.median({a}, axis={i}) | np.cumsum({a}, axis={i})
np.cumprod({a}, axis={i}) | np.sort({a}, axis={i}) | np.nansum({a}, axis={i})
np.linalg.norm({a}, axis={i}) | np.mean({a}) | np.max({a}) | np.var({a}, axis=({i}, {j}))
np.average({a}, axis={i}) | np.diff({a}, axis={i}) | {a} - np.mean({a}, axis={i})[..., None]
np.sum({a}, axis=({i}, {j})) | np.trapezoid({a}, axis={i}) | np.nanmax({a}, axis={i})
np.sum({a}, where={a} > 0) | np.take_along_axis({a}, np.argsort({a}, axis={i}), {i})
"""
SHAPING = """
{a}.reshape(-1) | {a}.T | {a}[None] | {a}[..., None] | np.expand_dims({a}, {i})
np.squeeze({a}) | np.swapaxes({a}, {i}, {j}) | np.moveaxis({a}, {i}, {j})
np.broadcast_to({a}, (2, *{a}.shape)) | np.concatenate([{a}, {b}], axis={i})
np.stack([{a}, {b}], axis={i}) | np.tile({a}, 2) | np.repeat({a}, 2, axis={i})
np.flip({a}, {i}) | np.roll({a}, 1, axis={i}) | np.pad({a}, 1) | np.ravel({a}, order="F")
np.split({a}, 2, axis={i})[{n} % 2] | np.tril({a}) | np.triu({a}, 1) | np.diag({a})
np.trace({a}) | np.rot90({a}) | np.atleast_2d({a}) | np.append({a}, {b})
np.delete({a}, 0, axis={i}) | np.array_split({a}, 2)[0] | np.diagonal({a})
np.array([np.sum({a}), np.sum({b})]) * np.sum({a}) | np.hstack([{a}, {a}]) | np.vstack([{a}, {b}])
np.transpose({a}, ({i}, {j})) | np.pad({a}, 1, mode="reflect") | np.reshape({a}, (2, -1))
np.zeros_like({a}) + {b} | np.meshgrid({a}, {b})[0] | np.column_stack([{a}, {b}])
"""
INDEXING = """
{a}[0] | {a}[-1] | {a}[..., ::-1] | {a}[1:] | {a}[[0, 0, -1]] | {a}[:, None] | {a}[..., 0]
{a}[np.arange({a}.shape[0]) % 2 == 0] | np.take({a}, [0, -1], axis={i}) | {a}[::2]
{a}[np.array([[0], [-1]]), np.array([0, -1])] | {a}[:, [0, -1]] | np.compress([True], {a})
wb.at({a})[0].set(2.0) | wb.at({a})[0].add({b}) | wb.at({a})[..., 0].multiply(2.0)
{a}[np.argmax({a}.ravel()) % 2] | wb.at({a})[[0, 0]].add(1.5) | {a}[..., -1:]
"""
CONTRACTION = """
{a} @ {b} | {a} @ {a}.T | np.dot({a}, {b}) | np.outer({a}, {b}) | np.tensordot({a}, {b}, 1)
np.einsum("...i,...i->...", {a}, {b}) | np.inner({a}, {b}) | np.kron({a}, {b})
np.einsum("ij,kj->ik", {a}, {b}) | np.vdot({a}, {b}) | np.cross({a}, {b})
np.einsum("ii->i", {a}) | np.matmul({a}, {b}) / 3 | np.einsum("i,j,i", {a}, {b}, {a})
np.tensordot({a}, {b}, 2) | np.vecdot({a}, {b})
"""
LINALG = """
np.linalg.inv({a} @ {a}.mT + 2 * np.eye({a}.shape[-2]))
np.linalg.solve({a} @ {a}.T + 2 * np.eye(len({a})), {b})
np.linalg.det({a} @ {a}.mT / 4 + np.eye({a}.shape[-2]))
np.linalg.cholesky({a} @ {a}.T + 2 * np.eye(len({a}))) | np.linalg.norm({a})
np.linalg.slogdet({a} @ {a}.mT + 2 * np.eye({a}.shape[-2]))[1]
np.linalg.matrix_power({a} / 2, 3) | np.linalg.norm({a}, 1) | np.linalg.norm({a}, np.inf)
"""
KINDS = [
    [t.strip() for line in kind.strip().splitlines() for t in line.split(" | ")]
    for kind in (
        ELEMENTWISE,
        BINARY,
        REDUCTION,
        SHAPING,
        INDEXING,
        CONTRACTION,
        LINALG,
    )
]
SHAPES = [(), (1,), (3,), (2, 3), (3, 3), (2, 1, 3), (4,), (1, 1)]
LARGEST, MOST = 40.0, 48


def weights(shape: tuple[int, ...]) -> Any:
    """Numbers by which entries are summed, so that none is like another."""
    size = int(np.prod(shape))
    return np.cos(1.0 + np.arange(size)).reshape(shape)


@dataclass(frozen=True)
class Program:
    """Lines of NumPy on inputs; the text is a function that runs."""

    inputs: dict[str, Any]
    lines: tuple[str, ...]
    ends: tuple[str, ...]

    @property
    def text(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        total = " + ".join(f"np.sum({v} * weights({v}.shape))" for v in self.ends)
        return f"def f({', '.join(self.inputs)}):\n{body}    return {total}\n"

    @property
    def code(self) -> str:
        """The whole program as a user would run it."""
        values = "".join(
            f"{name} = np.array({np.asarray(x).tolist()!r})\n"
            for name, x in self.inputs.items()
        )
        return (
            "import numpy as np, workbench as wb\n"
            "from tests.autodiff.programs import weights\n"
            f"{self.text}{values}"
            f"wb.grad(f, {tuple(range(len(self.inputs)))})({', '.join(self.inputs)})\n"
        )

    @property
    def function(self) -> Callable[..., Any]:
        space: dict[str, Any] = {"np": np, "wb": wb, "weights": weights}
        exec(self.text, space)
        made: Callable[..., Any] = space["f"]
        return made

    @property
    def outputs(self) -> Callable[..., Any]:
        """The function that returns what the program computes last, as a tuple."""
        space: dict[str, Any] = {"np": np, "wb": wb}
        body = "".join(f"    {line}\n" for line in self.lines)
        exec(
            f"def f({', '.join(self.inputs)}):\n{body}"
            f"    return ({', '.join(self.ends)},)\n",
            space,
        )
        made: Callable[..., Any] = space["f"]
        return made


def moderate(value: Any) -> bool:
    """Whether a plain value may go on: floats, few, neither huge nor NaN."""
    return (
        isinstance(value, (np.ndarray, np.float64))
        and value.dtype == np.float64
        and 0 < value.size <= MOST
        and value.ndim <= 4
        and bool(np.all(np.abs(value) < LARGEST))
    )


def run(text: str, values: dict[str, Any]) -> Any:
    """A line in plain NumPy; None where NumPy refuses it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return eval(text, {"np": np, "wb": wb}, dict(values))
        except (ValueError, IndexError, TypeError, AttributeError, ArithmeticError):
            return None


@st.composite
def programs(draw: Any, most: int = 30) -> Program:
    """A program of up to ``most`` lines, and values for its one to three inputs."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    inputs = {
        f"x{i}": np.asarray(np.round(rng.uniform(-2, 2, shape), 3))
        for i, shape in enumerate(shapes)
    }
    values: dict[str, Any] = dict(inputs)
    lines: list[str] = []
    used: set[str] = set()
    for _ in range(draw(st.integers(1, most))):
        template = draw(st.sampled_from(draw(st.sampled_from(KINDS))))
        names = list(values)[-8:]  # the newest, so that programs grow deep
        a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        numbers = {k: draw(st.integers(-1, 2)) for k in "ijn" if f"{{{k}}}" in template}
        text = template.format(a=a, b=b, **numbers)
        value = run(text, values)
        if not moderate(value):
            continue
        name = f"v{len(lines)}"
        values[name] = value
        lines.append(f"{name} = {text}")
        used |= {a, b} if "{b}" in template else {a}
    ends = tuple(n for n in values if n not in used and (n not in inputs or not lines))
    return Program(inputs, tuple(lines), ends or tuple(inputs))
