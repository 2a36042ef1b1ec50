"""How exact patterns are: those of all samples, against differences at random points.

`python -m tests.autodiff.sparse.exactness` prints how many are exact, how many are
looser, and of how many each place is taken though the Jacobian has zeros; `--list`
names what is not exact, and why. A word chooses samples, by a part of their names.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import workbench as wb
from tests.chunks import choose_seed, generator
from tests.ops.samples import SAMPLES, Sample
from workbench.errors import WorkbenchError

#: So many points at first, and at most where some place has not been met.
FIRST, MOST = 3, 100
#: A derivative counts from this share of the largest entry of the result on.
SHARE = 1e-5
#: A difference beyond that is a jump, which has no derivative.
JUMP = 1e3


def draw(sample: Sample, rng: np.random.Generator) -> list[np.ndarray]:
    dtype = float if "f" in sample.kinds else complex
    return [np.asarray(a, dtype) for a in sample.arguments(rng)]


def find_columns(
    f: Callable[..., Any], args: list[np.ndarray], share: float = SHARE
) -> np.ndarray | None:
    """Central differences; None where the shape of the result depends on values."""
    step, columns = 1e-5, []
    for i, a in enumerate(args):
        for place in np.ndindex(a.shape):
            found: Any = False
            for turn in (1, 1j) if a.dtype.kind == "c" else (1,):
                ends = []
                for sign in (turn, -turn):
                    moved = [x.copy() for x in args]
                    moved[i][place] += sign * step
                    ends.append(np.asarray(f(*moved)))
                if ends[0].shape != ends[1].shape:
                    return None
                change = (ends[0] - ends[1]).reshape(-1) / (2 * step)
                scale = max(1.0, float(np.max(np.abs(ends[0]), initial=0)))
                size = np.abs(change) / scale
                found |= (size > share) & (size < JUMP)
            columns.append(found)
    return np.stack(columns, axis=1) if columns else None


def find_truth(
    sample: Sample, shape: tuple[int, int], points: int, rng: np.random.Generator
) -> np.ndarray:
    found = np.zeros(shape, bool)
    for _ in range(points):
        columns = find_columns(sample.value, draw(sample, rng))
        if columns is not None and columns.shape == shape:
            found |= columns
    return found


class Comparison(NamedTuple):
    """A pattern beside the places that differences have found."""

    name: str
    pattern: wb.SparsityPattern
    truth: np.ndarray

    @property
    def places(self) -> np.ndarray:
        return self.pattern.toarray() != 0

    @property
    def kind(self) -> str:
        """Whether it is exact, looser, full where the Jacobian is not; or wrong."""
        if (self.truth & ~self.places).any():
            return "wrong"
        if not (self.places & ~self.truth).any():
            return "exact"
        return "full" if self.places.all() else "looser"

    def __str__(self) -> str:
        reasons = "; ".join(sorted(map(str, self.pattern.dense_ops)))
        return (
            f"{self.kind:6} {self.name} {self.pattern.shape}:"
            f" {self.pattern.nnz} for {int(self.truth.sum())}. {reasons}"
        )


def compare(sample: Sample, rng: np.random.Generator) -> Comparison:
    """Compare the pattern of a sample with differences, at as many points as it takes.

    One that holds for the way that was taken at its arguments is compared there.
    """
    args = draw(sample, rng)
    pattern = wb.sparsity(sample.f, *args, argnums=tuple(range(len(args))))
    here = find_columns(sample.value, args, SHARE / 100)
    truth = np.zeros(pattern.shape, bool)
    if here is not None and here.shape == pattern.shape:
        truth |= here
    found = Comparison(sample.name, pattern, truth)
    for n in range(0 if pattern.notes else MOST):
        if n >= FIRST and found.kind == "exact":
            break
        moved = draw(sample, rng)
        if n >= FIRST:
            moved = leave_domain(moved, n, rng)
        try:
            columns = find_columns(sample.value, moved, SHARE / 100)
        except (ArithmeticError, ValueError, TypeError):  # there is none at these
            continue
        if columns is not None and columns.shape == pattern.shape:
            truth |= columns
    return found


def leave_domain(
    args: list[np.ndarray], n: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return other points than those that a sample draws, of four kinds in turn.

    A pattern holds for all values; a sample's are often in one order, and never equal.
    """
    if n % 4 == 0:
        return args
    if n % 4 == 1:
        return [rng.permutation(a.ravel()).reshape(a.shape) for a in args]
    if n % 4 == 2:
        return [rng.normal(size=a.shape).astype(a.dtype) for a in args]
    return [rng.integers(-1, 2, a.shape).astype(a.dtype) for a in args]


def main(words: list[str]) -> None:
    choose_seed()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    chosen = [w for w in words if not w.startswith("-")]
    counts = {"exact": 0, "looser": 0, "full": 0, "wrong": 0}
    started = time.process_time()
    for sample in SAMPLES:
        if chosen and not any(w in sample.name for w in chosen):
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            rng = generator(sample.name)
        try:
            found = compare(sample, rng)
        except WorkbenchError as error:
            print(f"error  {sample.name}: {error}")
            continue
        counts[found.kind] += 1
        if found.kind != "exact" and "--list" in words:
            print(found, flush=True)
    print(
        f"{sum(counts.values())} patterns: {counts['exact']} exact,"
        f" {counts['looser']} looser, {counts['full']} full though the Jacobian is not,"
        f" {counts['wrong']} that lack a place"
        f" ({time.process_time() - started:.0f} s)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
