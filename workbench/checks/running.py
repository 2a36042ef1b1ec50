"""A gradient check while it runs: what is compared with what.

Every entry is measured by differences once; reverse mode is compared through a
random cotangent, forward mode through the tangent along the entry, where of all
outputs the worst counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.grad import RecordedCall
from workbench.autodiff.jacobian import jvp, vjp
from workbench.autodiff.linear_map import LinearMap
from workbench.backends.numpy import compile
from workbench.checks.differences import (
    EXACT_STEP,
    MULTIPLES,
    NOISES,
    Slope,
    Tolerance,
    Truth,
    curvature,
    noises,
    perturbed,
    slope,
    verdict,
)
from workbench.checks.progress import Telling
from workbench.checks.report import Comparison, Entry, Identity, Report
from workbench.core import blame, tree, types
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import record
from workbench.core.types import Spec, is_weak
from workbench.ops.define import flat, linear
from workbench.overrides.override_blocks import resolve_call

# Derivatives as programs of arrays, for checks that evaluate them many times.
#
# A derivative that is checked against differences is evaluated some thirty times for
# each entry. To trace the function and sweep back each time takes milliseconds;
# recorded once, the same program runs in microseconds.

Array = np.ndarray[Any, Any]
#: How far the program may be off at the points where it is tried, relatively.
ROUNDING = 1e-9
#: The relative step to the second point.
ASIDE = 1e-3


def as_program(f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[..., Any]:
    """Return a function of arrays that gives what another gives, by its program.

    Parameters
    ----------
    f
        A function of arrays that gives an array or a nest.
    arrays
        Where it will be evaluated, or near; in double precision.

    Returns
    -------
    The program's function, which gives the outputs as a list; the function itself where
    it has none: if it looks at values, as Python's ``if`` does, runs what cannot be
    traced, or gives something else at a second point.

    Examples
    --------
    >>> x = np.array([1.0, 2.0])
    >>> [y] = as_program(lambda x: np.sin(x) * 2, [x])(x)
    >>> bool(np.all(y == 2 * np.sin(x)))
    True
    >>> branch = lambda x: x if x[0] > 0 else -x
    >>> as_program(branch, [x]) is branch
    True
    """
    wide = [
        x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x
        for x in arrays
    ]
    try:
        specs = [Spec(x.shape, x.dtype) for x in wide]
        made = record(lambda leaves: f(*leaves), specs)
        program = compile(Graph(made.leaves, made.outputs))
        aside = [x + ASIDE * np.maximum(np.abs(x), ASIDE) for x in wide]
        for point in (wide, aside):
            if not _alike(_flat(f(*point)), _flat(program(*point))):
                return f
    except Exception:  # whatever the function does, it can do by itself
        return f
    return program


def _flat(outputs: Any) -> list[Array]:
    return [np.asarray(x) for x in tree.flatten(outputs)[0]]


def _alike(a: list[Array], b: list[Array]) -> bool:
    """Whether outputs agree to rounding, in all that is finite and all that is not."""
    return len(a) == len(b) and all(
        x.shape == y.shape
        and np.allclose(x, y, ROUNDING, ROUNDING * _size(x), equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def _size(x: Array) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


# Functions of arrays elsewhere, checked from main memory: there and back are ops.


def is_elsewhere(x: Any) -> bool:
    """Return whether a value is an array of another library, such as CuPy's."""
    x = value_of(x)
    return not (
        x is None or is_weak(x) or isinstance(x, np.ndarray | np.generic)
    ) and hasattr(x, "__cuda_array_interface__")


def to_host(x: Any) -> Any:
    """Return an array in main memory; what is there as it is."""
    return x.get() if is_elsewhere(x) else x


# The second input says where to; nothing of its values is read.
TO_HOST: Op = linear(
    "to_host", to_host, lambda g, x: apply(TO_DEVICE, (g, x)), rule="g"
)
TO_DEVICE: Op = linear(
    "to_device",
    lambda x, like: np.asarray(x, like=like) if is_elsewhere(like) else x,
    lambda g, x, like: apply(TO_HOST, (g,)),
    rule="g",
)
TO_HOST.batch = TO_DEVICE.batch = "whole"


def from_host(
    f: Callable[..., Any], values: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that runs where some values are, of values in main memory.

    It is ``f`` itself where all of them are there already.
    """
    if not any(map(is_elsewhere, values)):
        return f, list(values)

    def run(*given: Any) -> Any:
        there = [
            apply(TO_DEVICE, (x, like)) if is_elsewhere(like) else x
            for x, like in zip(given, values, strict=True)
        ]
        outputs, structure = tree.flatten(f(*there))
        return structure(
            [apply(TO_HOST, (y,)) if is_elsewhere(y) else y for y in outputs]
        )

    return run, [to_host(x) for x in values]


# Which op's rule made a gradient that is not finite.
#
# The first step of the backward sweep where what arrives is finite and what is passed
# on is not. Of a program with a hundred steps after it the check would blame all.


def unfinite(f: Callable[..., Any], values: Sequence[Any]) -> str | None:
    """Return the op and line where a gradient of ``f(*values)`` stops to be finite.

    Every output is asked for with a cotangent of ones. None: nowhere.

    Examples
    --------
    >>> with np.errstate(all="ignore"):
    ...     unfinite(lambda x: 3 * np.sqrt(x), [np.zeros(2)]).partition(" (at")[0]
    'sqrt float64[2]'
    """
    found: list[str] = []

    def look(visit: reverse.Visit) -> None:
        if found or not finite([visit.cotangent]):
            return
        if not finite(visit.passed):
            found.append(
                f"{blame.describe(visit.node)}{blame.quote_site(visit.node.site)}"
            )

    made = record(lambda leaves: f(*leaves), values)
    varying = [
        y
        for y in made.outputs
        if isinstance(y, Tensor) and types.is_differentiable(y.dtype)
    ]
    ones = [np.ones_like(y._value) for y in varying]
    with np.errstate(all="ignore"):
        reverse.pull_back(varying, ones, made.leaves, visit=look)
    return found[0] if found else None


def finite(cotangents: Sequence[Any]) -> bool:
    """Return whether all entries of all that has arrived are finite."""
    return all(
        c is None or bool(np.all(np.isfinite(value_of(c)))) for c in flat(cotangents)
    )


# The check


def slope_along(
    f: Callable[..., Any], direction: tuple[Any, ...]
) -> Callable[..., Any]:
    """Return the derivative of a function along a direction, as a function."""
    return lambda *leaves: jvp(f, leaves, direction)[1]


class Check:
    """One check while it runs."""

    def __init__(
        self,
        report: Report,
        names: list[str],
        modes: tuple[str, ...],
        tolerance: Tolerance,
        entries: int,
        telling: Telling,
    ) -> None:
        self.report = report
        self.names = names
        self.modes = modes
        self.tolerance = tolerance
        self.limit = entries
        self.telling = telling
        self.rng = np.random.default_rng(report.seed)
        self.chosen: dict[int, Array] = {}

    def picked(self, x: Array) -> Array:
        """Return the flat positions to check: all, or so many at random, ascending."""
        if x.size <= self.limit:
            return np.arange(x.size)
        if id(x) not in self.chosen:
            some = self.rng.choice(x.size, self.limit, replace=False)
            self.chosen[id(x)] = np.sort(some)
        return self.chosen[id(x)]

    def random_like(self, x: Any) -> Any:
        """Return a random direction in the shape and dtype of ``x``."""
        x = np.asarray(x)
        out = self.rng.standard_normal(x.shape)
        if x.dtype.kind == "c":
            out = out + 1j * self.rng.standard_normal(x.shape)
        return out.astype(x.dtype)

    # One order after the other

    def run(self, f: Callable[..., Any], values: list[Any], order: int) -> None:
        """All derivatives of a function up to an order."""
        arrays = [np.asarray(x) for x in values]
        functions = sum(len(self.modes) ** n for n in range(order))
        entries = sum(len(self.picked(x)) for x in arrays)
        self.telling.total += entries * functions
        level = [(f, "", 0.0)]
        for n in range(1, order + 1):
            following = []
            for g, over, grain in level:
                cotangent, noise = self.first_order(g, values, arrays, n, over, grain)
                if n < order:
                    made = self.derivatives(g, values, cotangent, over)
                    following += [(h, name, noise) for h, name in made]
            level = following
        if order > 1:
            self.second_differences(f, values, arrays)

    def derivatives(
        self, f: Callable[..., Any], values: list[Any], cotangent: Any, over: str
    ) -> list[tuple[Callable[..., Any], str]]:
        """The gradient of a function and its derivative along a line, as functions."""
        direction = tuple(self.random_like(x) for x in values)

        def reverse(*leaves: Any) -> Any:
            return vjp(f, *leaves)[1](cotangent)

        known = {"rev": reverse, "fwd": slope_along(f, direction)}
        return [(known[mode], f" over {mode}{over}") for mode in self.modes]

    def first_order(
        self,
        f: Callable[..., Any],
        values: list[Any],
        arrays: list[Array],
        order: int,
        over: str,
        grain: float,
    ) -> tuple[Any, float]:
        """Return all entries of the first derivatives of ``f``.

        ``grain`` is what rounding does to its outputs. Returns the cotangent, and what
        rounding does to the derivatives.
        """
        y, pullback = vjp(f, *values)
        outputs, structure = tree.flatten(y)
        cotangents = [
            self.random_like(x) if types.is_differentiable(np.asarray(x).dtype)
            else np.zeros_like(np.asarray(x), dtype=float)
            for x in outputs
        ]  # fmt: skip
        cotangent = structure(cotangents)
        real = all(np.asarray(x).dtype.kind != "c" for x in outputs)
        weights = np.concatenate([np.ravel(c) for c in cotangents] or [np.zeros(0)])

        # Of the function itself nothing but its own values counts; a derivative of it
        # is a program of ours, which need not be made anew for each of them.
        evaluated = as_program(f, arrays) if over else f

        def flat(*new: Array) -> Array:
            leaves = tree.flatten(evaluated(*new))[0]
            return np.concatenate([np.ravel(np.asarray(x)) for x in leaves])

        gradients = pullback(cotangent)
        noise = noises(lambda w: pullback(structure(w)), cotangents, gradients)
        call = RecordedCall(f, range(len(values)), tuple(values), {}, "check_grads")
        held = resolve_call(None, call.outputs, call.leaves, "check_grads")
        derivative = LinearMap(call.outputs, call.leaves, held)
        rows: dict[tuple[int, str], Comparison] = {}
        for i, x in enumerate(arrays):
            for mode in self.modes:
                row = Comparison(self.names[i], x.shape, order, mode + over)
                rows[i, mode] = row
                self.report.comparisons.append(row)
        for i, x in enumerate(arrays):
            for k in self.picked(x):
                self.telling.step()
                found = self.measure(flat, arrays, i, k, grain=grain)
                if "rev" in self.modes:
                    row = rows[i, "rev"]
                    truth = self.truth(flat, arrays, i, k, found, weights, real)
                    got = np.asarray(gradients[i]).flat[k]
                    row.entries.append(self.entry(row, k, got, truth, noise[i]))
                if "fwd" in self.modes:
                    row = rows[i, "fwd"]
                    row.entries.append(self.pushed(row, derivative, i, k, x, found))
        if set(self.modes) == {"fwd", "rev"}:
            self.adjoint(f, values, gradients, cotangents, noise, over)
        return cotangent, max(noise, default=0.0)

    def measure(
        self,
        flat: Callable[..., Array],
        arrays: list[Array],
        which: int,
        k: int,
        known: bool = False,
        grain: float = 0.0,
    ) -> Slope:
        """Return what differences say of all outputs along one entry."""
        line, scale = perturbed(flat, arrays, which, k)
        real = arrays[which].dtype.kind != "c"
        found = slope(line, scale, analytic=real, known=known, grain=grain)
        if found.method != "complex step":
            return found
        # A multiple of the step shows what rounding does where terms cancel.
        step = EXACT_STEP * MULTIPLES[1] * scale
        with np.errstate(all="ignore"):
            off = np.abs(np.asarray(line(1j * step)).imag / step - found.value)
        return replace(found, error=found.error + NOISES * np.nan_to_num(off))

    def truth(
        self,
        flat: Callable[..., Array],
        arrays: list[Array],
        which: int,
        k: int,
        found: Slope,
        weights: Array,
        real: bool,
    ) -> Truth:
        """Return what reverse mode should give: df/dx - i df/dy for a complex entry."""
        complex_entry = arrays[which].dtype.kind == "c"
        truth = Truth(found, weights, not complex_entry or real)
        if complex_entry:
            line, scale = perturbed(flat, arrays, which, k, 1j)
            turned = Truth(slope(line, scale, analytic=False), weights, True)
            for part in ("numeric", "left", "right"):
                along, across = getattr(truth, part), getattr(turned, part)
                setattr(truth, part, complex(along).real - 1j * across)
            truth.uncertainty += turned.uncertainty
        return truth

    def pushed(
        self,
        row: Comparison,
        derivative: LinearMap,
        which: int,
        k: int,
        x: Array,
        found: Slope,
    ) -> Entry:
        """Return the tangent along one entry; of all outputs the one that is worst."""

        def push(tangents: list[Any]) -> list[Array]:
            places = range(len(derivative.wrt))
            made = derivative.push(
                [tangents[0] if i == which else None for i in places]
            )
            parts = [
                np.zeros(np.size(value_of(y))) if t is None else np.ravel(value_of(t))
                for t, y in zip(made, derivative.outputs, strict=True)
            ]
            return [np.concatenate(parts or [np.zeros(0)])]

        tangent = np.zeros_like(x)
        tangent.flat[k] = 1
        (moved,) = push([tangent])
        (noise,) = noises(push, [tangent], [moved])
        candidates = []
        for j in _worst_first(moved, found):
            pick = np.zeros(len(moved))
            pick[j] = 1
            truth = Truth(found, pick, found.value.dtype.kind != "c")
            entry = self.entry(row, k, moved[j], truth, noise)
            candidates.append(entry)
        order = ("wrong", "kink", "unsure", "right")
        return min(candidates, key=lambda e: (order.index(e.verdict), -e.badness[1]))

    def entry(
        self,
        row: Comparison,
        k: int,
        got: Any,
        truth: Truth,
        noise: float = 0.0,
    ) -> Entry:
        """Return one entry and what to think of it."""
        got = np.asarray(got)
        dtype = got.dtype if got.dtype.kind in "fc" else np.dtype(np.float64)
        value = got.item()
        tolerance = self.tolerance(truth.numeric, truth.uncertainty, dtype, noise)
        index = tuple(int(n) for n in np.unravel_index(int(k), row.shape))
        return Entry(
            row.argument,
            index,
            row.order,
            row.mode,
            value,
            truth.numeric,
            truth.uncertainty,
            tolerance,
            truth.left,
            truth.right,
            verdict(value, truth, tolerance),
            truth.method,
        )

    # Equations that hold whatever the function is

    def adjoint(
        self,
        f: Callable[..., Any],
        values: list[Any],
        gradients: Any,
        cotangents: list[Any],
        noise: list[float],
        over: str,
    ) -> None:
        """``<w, J v> = <w J, v>``: the two modes are each other's transpose."""
        directions = tuple(self.random_like(x) for x in values)

        def push(tangents: Sequence[Any]) -> list[Any]:
            return tree.flatten(jvp(f, tuple(values), tuple(tangents))[1])[0]

        moved = push(directions)
        slack = _reach(cotangents, noises(push, directions, moved))
        slack += _reach(directions, noise)
        left, size_left = _inner(cotangents, moved)
        right, size_right = _inner(gradients, directions)
        eps = max(_eps(x) for x in [*values, *moved])
        size = size_left + size_right
        self.report.identities.append(
            Identity(
                f"the adjoint test{over}",
                left,
                right,
                1e5 * eps * size + NOISES * slack + 1e-300
                if np.isfinite(size)
                else np.inf,
            )
        )

    def second_differences(
        self, f: Callable[..., Any], values: list[Any], arrays: list[Array]
    ) -> None:
        """The Hessian along a line against second differences of the values."""
        if any(x.dtype.kind == "c" for x in arrays):
            return
        direction = tuple(self.random_like(x) for x in values)

        def along(t: complex) -> Array:
            moved = [
                x.astype(float) + t * v for x, v in zip(arrays, direction, strict=True)
            ]
            leaves = tree.flatten(f(*moved))[0]
            return np.concatenate([np.ravel(np.asarray(x)) for x in leaves])

        slope = slope_along(f, direction)

        def push(tangents: Sequence[Any]) -> list[Array]:
            twice = tree.flatten(jvp(slope, tuple(values), tuple(tangents))[1])[0]
            return [np.concatenate([np.ravel(np.asarray(x)) for x in twice])]

        (got,) = push(direction)
        if got.dtype.kind == "c":
            return
        expected, error = curvature(along)
        # Where the values are too noisy, or the derivative has a kink, they say
        # nothing.
        known = error <= 0.01 * np.abs(expected) + 1e-8
        if not np.any(known):
            return
        weights = np.where(known, self.rng.standard_normal(got.shape), 0)
        expected, error, got = (np.where(known, x, 0) for x in (expected, error, got))
        uncertainty = float(np.sum(np.abs(weights) * error))
        slack = _reach([weights], noises(push, direction, [got]))
        size = float(np.sum(np.abs(weights * expected)))
        rtol = 2e-3 if max(map(_eps, values)) < 1e-10 else 2e-2
        self.report.identities.append(
            Identity(
                "the second derivative along a line",
                float(np.sum(weights * got)),
                float(np.sum(weights * expected)),
                rtol * size + 10 * uncertainty + 1e-7 + NOISES * slack,
            )
        )


def _worst_first(moved: Array, found: Slope, count: int = 8) -> Array:
    """The outputs whose tangents seem worst, which are then judged one by one."""
    with np.errstate(all="ignore"):
        off = np.abs(moved - found.value) / (
            1e-12 + np.abs(found.value) * 1e-6 + found.error
        )
    off = np.where(np.isnan(off), np.inf, off)
    return np.argsort(-off, kind="stable")[:count]


def _reach(x: Sequence[Any], noise: Sequence[float]) -> float:
    """Return what roundings come to in a product with ``x``."""
    return sum(float(np.sum(np.abs(a))) * n for a, n in zip(x, noise, strict=True))


def _inner(left: Sequence[Any], right: Sequence[Any]) -> tuple[float, float]:
    """Return the real part of a bilinear product, and the size of its terms."""
    total = size = 0.0
    for a, b in zip(left, right, strict=True):
        terms = np.asarray(a) * np.asarray(b)
        total += float(np.sum(terms.real))
        size += float(np.sum(np.abs(terms)))
    return total, size


def _eps(x: Any) -> float:
    dtype = np.asarray(x).dtype
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0
