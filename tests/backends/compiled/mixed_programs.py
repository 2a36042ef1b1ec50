"""Random programs of every dtype: lines of NumPy that NumPy itself accepts.

As `tests.autodiff.programs`, where all is float64 and has a gradient; here numbers are
of several kinds, integers and truth values among them, and some are infinite or NaN.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import workbench as wb

# ruff: noqa: E501 a template is one line
ELEMENTWISE = """
{a} + {b} | {a} * {b} | {a} - {b} | {a} / {b} | {a} * 2 | {a} + 0.5 | 3 - {a} | 1j * {a}
-{a} | np.abs({a}) | {a} ** 2 | np.square({a}) | np.sign({a}) | np.conj({a}) | np.real({a})
np.exp(-np.abs({a})) | np.sqrt(np.abs({a})) | np.sin({a}) | np.tanh({a}) | np.log1p({a} * {a})
np.maximum({a}, {b}) | np.minimum({a}, {b}) | np.where({a} > {b}, {a}, {b}) | {a} > {b}
{a} == {b} | {a} <= 1 | np.isfinite({a}) | np.isnan({a}) | np.logical_not({a}) | {a} != 0
np.where({c}, {a}, {b}) | np.where({c}, {a}, 0) | {c} & {d} | {c} | {d} | {c} ^ {d} | ~{c}
{a} // 3 | {a} % 3 | {a} // {b} | {a} % {b} | {a} & 3 | {a} << 1 | {a} >> 1 | ~{a}
np.floor({a}) | np.rint({a} * 3) | np.clip({a}, -1, 1) | np.imag({a}) | np.angle({a})
{a}.astype("f4") | {a}.astype("f8") | {a}.astype("c8") | {a}.astype(bool) | ({a} % 7).astype("i4")
np.copysign({a}, {b}) | np.hypot({a}, {b}) | np.fmax({a}, {b}) | np.heaviside({a}, 1)
"""
SHAPING = """
{a}.T | {a}[..., ::-1] | {a}[::-1] | {a}[1:] | {a}[..., 0] | {a}[:, None] | {a}[None] | {a}.ravel()
{a}.reshape(-1) | np.broadcast_to({a}, (2, *{a}.shape)) | np.concatenate([{a}, {b}]) | {a}[::2]
np.concatenate([{a}, {b}], axis={i}) | np.stack([{a}, {b}], axis={i}) | np.swapaxes({a}, 0, -1)
np.flip({a}, {i}) | np.roll({a}, 2, axis={i}) | np.pad({a}, 1) | np.tril({a}) | np.diagonal({a})
np.repeat({a}, 2, axis={i}) | np.tile({a}, 3) | np.take({a}, [0, -1, 0], axis={i}) | {a}[[0, -1]]
{a}[{n}] | {a}[..., {n}] | wb.at({a})[0].set({b}) | wb.at({a})[..., 0].add(1) | np.squeeze({a})
"""
REDUCTION = """
np.sum({a}) | np.sum({a}, axis={i}) | np.sum({a}, axis={i}, keepdims=True) | np.mean({a}, axis={i})
np.max({a}, axis={i}) | np.min({a}) | np.prod({a}, axis={i}) | np.any({c}, axis={i}) | np.all({c})
np.sum({a}, axis=({i}, {j})) | np.sum({a} > 0, axis={i}) | np.cumsum({a}, axis={i}) | np.argmax({a}, axis={i})
{a} @ {b} | {a} @ {a}.T | np.dot({a}, {b}) | np.outer({a}, {b}) | np.var({a}, axis={i}) | np.max({a}, axis=({i}, {j}))
np.einsum("...i,...i->...", {a}, {b}) | np.linalg.norm({a}, axis={i}) | np.sort({a}, axis={i})
"""
KINDS = [
    [t.strip() for line in kind.strip().splitlines() for t in line.split(" | ")]
    for kind in (ELEMENTWISE, ELEMENTWISE, SHAPING, REDUCTION)
]
#: Where BLAS puts NaN, of infinite complex numbers, is its own affair.
PRODUCTS = ("@", "np.dot", "np.outer", "np.einsum")
SHAPES = [(), (1,), (3,), (7,), (2, 3), (3, 3), (2, 1, 5), (0, 3), (17,), (4, 9)]
DTYPES = ["f8", "f8", "f4", "c16", "c8", "i8", "i4", "i2", "u1", "?"]
MOST_ENTRIES, MOST_OUTPUTS = 400, 4


@dataclass(frozen=True)
class MixedProgram:
    """Lines of NumPy on inputs, and which of them are the outputs."""

    inputs: dict[str, Any]
    lines: tuple[str, ...]
    ends: tuple[str, ...]

    @property
    def text(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f({', '.join(self.inputs)}):\n{body}    return [{', '.join(self.ends)}]\n"

    @property
    def code(self) -> str:
        values = "".join(f"{k} = np.{x!r}\n" for k, x in self.inputs.items())
        return f"{self.text}{values}print(wb.compile(f)({', '.join(self.inputs)}))\n"

    @property
    def function(self) -> Callable[..., Any]:
        space: dict[str, Any] = {"np": np, "wb": wb}
        exec(self.text, space)
        made: Callable[..., Any] = space["f"]
        return made


def run_line(text: str, values: dict[str, Any]) -> Any:
    """A line in plain NumPy; None where NumPy refuses it, or what comes is too much."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            value = eval(text, {"np": np, "wb": wb}, dict(values))
        except (ValueError, IndexError, TypeError, AttributeError, ArithmeticError):
            return None
    if (
        not isinstance(value, (np.ndarray, np.generic))
        or value.dtype.kind not in "biufc"
    ):
        return None
    if value.size > MOST_ENTRIES or value.ndim > 4 or value.dtype.itemsize > 16:
        return None
    if value.dtype.char in "eg" or value.dtype.itemsize > 8 != value.dtype.kind == "c":
        return None
    finite = value[np.isfinite(value)]
    return value if np.all(np.abs(finite.astype(complex)) < 1e4) else None


def draw_values(rng: np.random.Generator, shape: Any, dtype: str, special: bool) -> Any:
    x = np.round(rng.uniform(-3, 3, size=shape), 2)
    if special and np.size(x):
        odd = rng.uniform(size=shape) < 0.2
        x = np.where(odd, rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape), x)
    if dtype[0] == "c":
        x = x + 1j * np.round(rng.uniform(-3, 3, size=shape), 2)
    elif dtype == "?":
        x = x > 0
    elif dtype[0] != "f":
        x = np.abs(np.nan_to_num(x, posinf=3, neginf=2))
    return np.asarray(x).astype(dtype)


@st.composite
def mixed_programs(draw: Any, most: int = 12) -> MixedProgram:
    """A program of up to ``most`` lines, and values for its one to three inputs."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    special = draw(st.integers(0, 3)) == 0
    inputs = {
        f"x{i}": draw_values(rng, shape, draw(st.sampled_from(DTYPES)), special)
        for i, shape in enumerate(shapes)
    }
    values: dict[str, Any] = dict(inputs)
    lines: list[str] = []
    for _ in range(draw(st.integers(1, most))):
        template = draw(st.sampled_from(draw(st.sampled_from(KINDS))))
        if special and any(product in template for product in PRODUCTS):
            continue
        names = list(values)[-8:]
        truths = [name for name in names if values[name].dtype == bool]
        chosen = {k: draw(st.sampled_from(names)) for k in "ab"}
        chosen |= {k: draw(st.sampled_from(truths or names)) for k in "cd"}
        numbers = {k: draw(st.integers(-1, 2)) for k in "ijn" if f"{{{k}}}" in template}
        text = template.format(**chosen, **numbers)
        value = run_line(text, values)
        if value is None:
            continue
        name = f"v{len(lines)}"
        values[name] = value
        lines.append(f"{name} = {text}")
    ends = tuple(values)[-draw(st.integers(1, MOST_OUTPUTS)) :]
    return MixedProgram(inputs, tuple(lines), ends)
