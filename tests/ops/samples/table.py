"""How a row of the table is written, and what its arguments are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.core.tensor import Tensor

Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Sample:
    """One row: ``f`` of arguments drawn from ``draws``; ``kinds`` of dtype to try.

    Of real draws complex arguments are made by a turn; complex ones stay as drawn.
    """

    name: str
    f: Callable[..., Any]
    draws: tuple[Draw, ...]
    kinds: str = "f"  # f: floats; c: complex too
    order: int = 2  # 1: its second derivative vanishes or is tested elsewhere
    batch: bool = True  # False: refused by vmap, with an error tested elsewhere
    truth: Callable[..., Any] | None = None  # None: f itself on plain arrays

    def value(self, *args: Any) -> Any:
        """What NumPy or SciPy says, on plain arrays."""
        return (self.truth or self.f)(*args)

    def arguments(self, rng: np.random.Generator) -> list[Any]:
        return [draw(rng) for draw in self.draws]


#: Magnitudes that keep away from each other and from 0, 1/2, 1 and 3/2.
GRID = np.concatenate(
    [
        np.linspace(*ends)
        for ends in ((0.1, 0.44, 8), (0.57, 0.93, 8), (1.07, 1.43, 8), (1.57, 1.93, 8))
    ]
)


def apart(*shape: int, shift: float = 0.0) -> Draw:
    """Entries in (-2, 2), apart from each other, from 0, 1 and -1, in magnitude too."""

    def draw(rng: np.random.Generator) -> Any:
        size = int(np.prod(shape))
        assert size <= len(GRID)
        chosen = rng.permutation(GRID + shift)[:size]
        return (chosen * rng.choice([-1.0, 1.0], size)).reshape(shape)

    return draw


def apart_in_both_parts(*shape: int) -> Draw:
    """Complex entries whose real and imaginary parts are as those of ``apart``."""
    draw = apart(*shape)
    return lambda rng: draw(rng) + 1j * draw(rng)


def positive(*shape: int) -> Draw:
    return lambda rng: np.abs(apart(*shape)(rng))


def inside(*shape: int) -> Draw:
    """Entries in (-1, 1)."""
    return lambda rng: apart(*shape)(rng) / 2


def above_one(*shape: int) -> Draw:
    return lambda rng: 1 + positive(*shape)(rng)


def stepped(*shape: int) -> Draw:
    """Matrices whose rows, and columns, have sums of magnitudes far apart."""

    def draw(rng: np.random.Generator) -> Any:
        steps = np.array([[1.0, 2.2, 4.0], [8.0, 8.8, 12.0]])
        made = np.reshape(steps, (2, *(1,) * (len(shape) - 2), 3)) + np.zeros(shape)
        made += rng.uniform(0, 0.1, shape)
        return made * rng.choice([-1.0, 1.0], shape)

    return draw


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


def constant(values: Any, x: Any) -> Any:
    """An array of these values in the library of ``x``, as in programs for a GPU."""
    kept = np.asarray(values)
    return np.asarray(kept, like=x) if isinstance(x, Tensor) else kept


class Table:
    """The rows of one file; calling it adds one."""

    def __init__(self) -> None:
        self.rows: list[Sample] = []

    def __call__(
        self, name: str, f: Callable[..., Any], *draws: Draw, **more: Any
    ) -> None:
        self.rows.append(Sample(name, f, draws, **more))
