"""The comparison of derivatives with differences, entry by entry.

Every entry is measured by differences once; reverse mode is compared through a
random cotangent, forward mode through the tangent along the entry, where of all
outputs the worst counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
    judge_truth,
    max_finite,
    measure_rounding,
    perturb_entry,
    slope,
    to_double,
)
from workbench.checks.isolated_node import to_host
from workbench.checks.progress import ProgressMeter
from workbench.checks.report import Comparison, Entry, Identity, Report
from workbench.core import blame, tree, types
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import record
from workbench.core.types import Spec, is_weak
from workbench.errors import UsageError
from workbench.ops.define import flatten_parts, linear
from workbench.overrides.override_blocks import resolve_call

# Derivatives as programs of arrays, for checks that evaluate them many times.
#
# A derivative that is checked against differences is evaluated some thirty times for
# each entry. To trace the function and sweep back each time takes milliseconds;
# recorded once, the same program runs in microseconds.

Array = np.ndarray[Any, Any]
#: How far the program may be off at the points where it is tried, relatively.
ROUNDING = 1e-9
#: How far the values of two calls may differ, relatively, where sums run in threads.
REPEATS = 1e-6
#: The relative step to the second point.
NEARBY = 1e-3


def compile_if_traceable(
    f: Callable[..., Any], arrays: Sequence[Array]
) -> Callable[..., Any]:
    """Return the compiled program of a function of arrays, where traceable.

    Parameters
    ----------
    f
        A function of arrays that gives an array or a nest.
    arrays
        The point near which it will be evaluated, in double precision.

    Returns
    -------
    A function that returns the outputs as a list; ``f`` itself where it has no program:
    if it branches on values, calls what cannot be traced, or differs from the program
    at a second point.

    Examples
    --------
    >>> x = np.array([1.0, 2.0])
    >>> [y] = compile_if_traceable(lambda x: np.sin(x) * 2, [x])(x)
    >>> bool(np.all(y == 2 * np.sin(x)))
    True
    >>> branch = lambda x: x if x[0] > 0 else -x
    >>> compile_if_traceable(branch, [x]) is branch
    True
    """
    wide = list(map(to_double, arrays))
    try:
        specs = [Spec(x.shape, x.dtype) for x in wide]
        made = record(lambda leaves: f(*leaves), specs)
        program = compile(Graph(made.leaves, made.outputs))
        nearby = [x + NEARBY * np.maximum(np.abs(x), NEARBY) for x in wide]
        for point in (wide, nearby):
            if not _are_close(
                _flatten_arrays(f(*point)), _flatten_arrays(program(*point))
            ):
                return f
    except Exception:  # whatever the function does, it can do by itself
        return f
    return program


def _flatten_arrays(outputs: Any) -> list[Array]:
    return [np.asarray(x) for x in tree.flatten(outputs)[0]]


def _are_close(a: list[Array], b: list[Array]) -> bool:
    """Return whether outputs agree to rounding, in their infinite entries too."""
    return len(a) == len(b) and all(
        x.shape == y.shape
        and np.allclose(x, y, ROUNDING, ROUNDING * max_finite(x), equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


# Functions of arrays on a device, checked from main memory: both copies are ops.


def is_elsewhere(x: Any) -> bool:
    """Return whether a value is an array of another library, like CuPy."""
    x = value_of(x)
    return not (
        x is None or is_weak(x) or isinstance(x, np.ndarray | np.generic)
    ) and hasattr(x, "__cuda_array_interface__")


# The second input is the target's example; its values are not read.
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


def run_from_host(
    f: Callable[..., Any], values: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return ``f`` as a function of values in main memory, and these values.

    ``f`` itself where all values are in main memory already.
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


# The op whose rule makes a gradient that is not finite: the first step of the backward
# sweep that gets a finite cotangent and returns one that is not.


def find_nonfinite(f: Callable[..., Any], values: Sequence[Any]) -> str | None:
    """Return the op and line where a gradient of ``f(*values)`` stops being finite.

    The cotangent of every output is ones. None where all gradients are finite.

    Examples
    --------
    >>> with np.errstate(all="ignore"):
    ...     find_nonfinite(lambda x: 3 * np.sqrt(x), [np.zeros(2)]).partition(" (at")[0]
    'sqrt float64[2]'
    """
    found: list[str] = []

    def find(node: Tensor, cotangent: Any, passed: list[Any]) -> None:
        if found or not is_all_finite([cotangent]):
            return
        if not is_all_finite(passed):
            found.append(f"{blame.describe(node)}{blame.quote_site(node.site)}")

    made = record(lambda leaves: f(*leaves), values, owns=True)
    varying = [
        y
        for y in made.outputs
        if isinstance(y, Tensor) and types.is_differentiable(y.dtype)
    ]
    ones = [np.ones_like(y._value) for y in varying]
    with np.errstate(all="ignore"):
        reverse.pull_back(varying, ones, made.leaves, visit=find)
    return found[0] if found else None


def is_all_finite(cotangents: Sequence[Any]) -> bool:
    """Return whether all entries of all cotangents are finite."""
    return all(
        c is None or bool(np.all(np.isfinite(value_of(c))))
        for c in flatten_parts(cotangents)
    )


# The check


def differentiate_along(
    f: Callable[..., Any], direction: tuple[Any, ...]
) -> Callable[..., Any]:
    """Return the derivative of a function along a direction, as a function."""
    return lambda *leaves: jvp(f, leaves, direction)[1]


class Check:
    """Compare the derivatives of one function, and fill its report."""

    def __init__(
        self,
        report: Report,
        names: list[str],
        modes: tuple[str, ...],
        tolerance: Tolerance,
        entries: int,
        meter: ProgressMeter,
    ) -> None:
        self.report = report
        self.names = names
        self.modes = modes
        self.tolerance = tolerance
        self.limit = entries
        self.meter = meter
        self.rng = np.random.default_rng(report.seed)
        self.chosen: dict[int, Array] = {}
        #: Which of the chosen entries it compares; others check the rest elsewhere.
        self.share = slice(None)

    def choose_entries(self, x: Array) -> Array:
        """Return the flat positions to check, ascending: all, or a random sample."""
        if x.size <= self.limit:
            return np.arange(x.size)[self.share]
        if id(x) not in self.chosen:
            some = self.rng.choice(x.size, self.limit, replace=False)
            self.chosen[id(x)] = np.sort(some)
        return self.chosen[id(x)][self.share]

    def draw_like(self, x: Any) -> Any:
        """Return a random direction in the shape and dtype of ``x``."""
        x = np.asarray(x)
        out = self.rng.standard_normal(x.shape)
        if x.dtype.kind == "c":
            out = out + 1j * self.rng.standard_normal(x.shape)
        return out.astype(x.dtype)

    # Derivatives of each order

    def run(self, f: Callable[..., Any], values: list[Any], order: int) -> None:
        """Compare all derivatives of a function up to an order."""
        arrays = [np.asarray(x) for x in values]
        functions = sum(len(self.modes) ** n for n in range(order))
        entries = sum(len(self.choose_entries(x)) for x in arrays)
        self.meter.total += entries * functions
        level = [(f, "", 0.0)]
        following: list[tuple[Callable[..., Any], str, float]] = []

        def compare(n: int, g: Callable[..., Any], over: str, grain: float) -> None:
            cotangent, noise = self.compare_first_order(
                g, values, arrays, n, over, grain
            )
            if n < order:
                made = self.make_derivatives(g, values, cotangent, over)
                following.extend((h, name, noise) for h, name in made)

        for n in range(1, order + 1):
            following = []
            for g, over, grain in level:
                what = f"derivatives of order {n}{over}"
                self.meter.attempt(what, partial(compare, n, g, over, grain))
            level = following
        if order > 1:
            self.meter.attempt(
                "the second derivative along a line",
                partial(self.compare_second_differences, f, values, arrays),
            )

    def make_derivatives(
        self, f: Callable[..., Any], values: list[Any], cotangent: Any, over: str
    ) -> list[tuple[Callable[..., Any], str]]:
        """Return the gradient and the derivative along a line, as functions."""
        direction = tuple(self.draw_like(x) for x in values)

        def reverse(*leaves: Any) -> Any:
            return vjp(f, *leaves)[1](cotangent)

        known = {"rev": reverse, "fwd": differentiate_along(f, direction)}
        return [(known[mode], f" over {mode}{over}") for mode in self.modes]

    def compare_first_order(
        self,
        f: Callable[..., Any],
        values: list[Any],
        arrays: list[Array],
        order: int,
        over: str,
        grain: float,
    ) -> tuple[Any, float]:
        """Compare all entries of the first derivatives of ``f``.

        ``grain`` is the rounding error of its outputs. Returns the cotangent, and the
        rounding error of the derivatives.
        """
        y, pullback = vjp(f, *values)
        outputs, structure = tree.flatten(y)
        cotangents = [
            self.draw_like(x) if types.is_differentiable(np.asarray(x).dtype)
            else np.zeros_like(np.asarray(x), dtype=float)
            for x in outputs
        ]  # fmt: skip
        if not any(types.is_differentiable(np.asarray(x).dtype) for x in outputs):
            kinds = ", ".join(dict.fromkeys(str(np.asarray(x).dtype) for x in outputs))
            raise UsageError(
                f"check_grads: the function returns {kinds or 'nothing'}, and only"
                " floats have a derivative. Return an array or a number of float dtype."
            )
        cotangent = structure(cotangents)
        real = all(np.asarray(x).dtype.kind != "c" for x in outputs)
        weights = np.concatenate([np.ravel(c) for c in cotangents] or [np.zeros(0)])

        # The user's function is called itself: its values are the truth. A derivative
        # of it is our own program, which is traced once.
        evaluated = compile_if_traceable(f, arrays) if over else f

        def flat(*new: Array) -> Array:
            leaves = tree.flatten(evaluated(*new))[0]
            return np.concatenate([np.ravel(np.asarray(x)) for x in leaves])

        if not over:
            _check_repeatable(flat(*arrays), flat(*arrays))
        gradients = pullback(cotangent)
        noise = measure_rounding(
            lambda w: pullback(structure(w)), cotangents, gradients
        )
        call = RecordedCall(f, range(len(values)), tuple(values), {}, "check_grads")
        resolution = resolve_call(None, call.outputs, call.leaves, "check_grads")
        derivative = LinearMap(call.outputs, call.leaves, resolution)
        rows: dict[tuple[int, str], Comparison] = {}
        for i, x in enumerate(arrays):
            for mode in self.modes:
                row = Comparison(self.names[i], x.shape, order, mode + over)
                rows[i, mode] = row
                self.report.comparisons.append(row)

        def compare(i: int, k: int) -> None:
            """Compare one entry in each mode."""
            self.meter.step()
            found = self.measure_entry(flat, arrays, i, k, grain=grain)
            made = []
            if "rev" in self.modes:
                row = rows[i, "rev"]
                truth = self.weigh_entry(flat, arrays, i, k, found, weights, real)
                got = np.asarray(gradients[i]).flat[k]
                made.append((row, self.judge_entry(row, k, got, truth, noise[i])))
            if "fwd" in self.modes and weights.size:  # of no entries, none is worst
                row = rows[i, "fwd"]
                pushed = self.push_entry(row, derivative, i, k, arrays[i], found)
                made.append((row, pushed))
            for row, entry in made:
                row.entries.append(entry)

        # The modes in one equation first: it costs less than an entry.
        if set(self.modes) == {"fwd", "rev"}:
            self.meter.attempt(
                f"the adjoint test{over}",
                partial(
                    self.compare_adjoint,
                    f, values, gradients, cotangents, noise, over,
                ),
            )  # fmt: skip
        for i, x in enumerate(arrays):
            row = rows[i, self.modes[0]]
            self.attempt_entries(row, self.choose_entries(x), partial(compare, i))
        return cotangent, max(noise, default=0.0)

    def attempt_entries(
        self, row: Comparison, chosen: Array, compare: Callable[[int], None]
    ) -> None:
        """Compare the chosen entries of an argument; note those without time."""
        done = 0
        for k in chosen.tolist():
            if not self.meter.attempt("", partial(compare, k)):
                break
            done += 1
        if done < len(chosen):
            over = "" if row.order == 1 else f" at order {row.order}, {row.mode}"
            left = len(chosen) - done
            self.meter.list_unchecked(
                f"{left} of {len(chosen)} chosen entries of {row.argument}{over}"
            )

    def measure_entry(
        self,
        flat: Callable[..., Array],
        arrays: list[Array],
        which: int,
        k: int,
        known: bool = False,
        grain: float = 0.0,
        center: Array | None = None,
        rounding: bool = True,
    ) -> Slope:
        """Return the derivatives of all outputs along one entry, from differences.

        ``rounding`` adds to their errors what rounding does where terms cancel.
        """
        line, scale = perturb_entry(flat, arrays, which, k)
        real = arrays[which].dtype.kind != "c"
        found = slope(
            line, scale, analytic=real, known=known, grain=grain, center=center
        )
        if found.method != "complex step" or not rounding:
            return found
        # A multiple of the step shows what rounding does where terms cancel.
        step = EXACT_STEP * MULTIPLES[1] * scale
        with np.errstate(all="ignore"):
            off = np.abs(np.asarray(line(1j * step)).imag / step - found.value)
        return replace(found, error=found.error + NOISES * np.nan_to_num(off))

    def weigh_entry(
        self,
        flat: Callable[..., Array],
        arrays: list[Array],
        which: int,
        k: int,
        found: Slope,
        weights: Array,
        real: bool,
    ) -> Truth:
        """Return the true cotangent of an entry: df/dx - i df/dy for a complex one."""
        complex_entry = arrays[which].dtype.kind == "c"
        truth = Truth(found, weights, not complex_entry or real)
        if complex_entry:
            line, scale = perturb_entry(flat, arrays, which, k, 1j)
            turned = Truth(slope(line, scale, analytic=False), weights, True)
            for part in ("numeric", "left", "right"):
                evaluate, across = getattr(truth, part), getattr(turned, part)
                setattr(truth, part, complex(evaluate).real - 1j * across)
            truth.uncertainty += turned.uncertainty
        return truth

    def push_entry(
        self,
        row: Comparison,
        derivative: LinearMap,
        which: int,
        k: int,
        x: Array,
        found: Slope,
    ) -> Entry:
        """Return the tangent along one entry, judged at its worst output."""

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
        (noise,) = measure_rounding(push, [tangent], [moved])
        candidates = []
        for j in _rank_outputs(moved, found):
            pick = np.zeros(len(moved))
            pick[j] = 1
            truth = Truth(found, pick, found.value.dtype.kind != "c")
            entry = self.judge_entry(row, k, moved[j], truth, noise)
            candidates.append(entry)
        order = ("wrong", "kink", "unsure", "right")
        return min(candidates, key=lambda e: (order.index(e.verdict), -e.badness[1]))

    def judge_entry(
        self,
        row: Comparison,
        k: int,
        got: Any,
        truth: Truth,
        noise: float = 0.0,
    ) -> Entry:
        """Return one entry with its verdict."""
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
            judge_truth(value, truth, tolerance),
            truth.method,
        )

    # Equations that hold whatever the function is

    def compare_adjoint(
        self,
        f: Callable[..., Any],
        values: list[Any],
        gradients: Any,
        cotangents: list[Any],
        noise: list[float],
        over: str,
    ) -> None:
        """Compare ``<w, J v>`` and ``<w J, v>``: the modes must be transposes."""
        directions = tuple(self.draw_like(x) for x in values)

        def push(tangents: Sequence[Any]) -> list[Any]:
            return tree.flatten(jvp(f, tuple(values), tuple(tangents))[1])[0]

        moved = push(directions)
        slack = _bound_rounding(cotangents, measure_rounding(push, directions, moved))
        slack += _bound_rounding(directions, noise)
        left, size_left = _multiply_all(cotangents, moved)
        right, size_right = _multiply_all(gradients, directions)
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

    def compare_second_differences(
        self, f: Callable[..., Any], values: list[Any], arrays: list[Array]
    ) -> None:
        """Compare the Hessian along a line with second differences of the values."""
        if any(x.dtype.kind == "c" for x in arrays):
            return
        direction = tuple(self.draw_like(x) for x in values)

        def evaluate(t: complex) -> Array:
            moved = [
                x.astype(float) + t * v for x, v in zip(arrays, direction, strict=True)
            ]
            leaves = tree.flatten(f(*moved))[0]
            return np.concatenate([np.ravel(np.asarray(x)) for x in leaves])

        slope = differentiate_along(f, direction)

        def push(tangents: Sequence[Any]) -> list[Array]:
            twice = tree.flatten(jvp(slope, tuple(values), tuple(tangents))[1])[0]
            return [np.concatenate([np.ravel(np.asarray(x)) for x in twice])]

        (got,) = push(direction)
        if got.dtype.kind == "c":
            return
        expected, error = curvature(evaluate)
        # Where the values are too noisy, or the derivative has a kink, they say
        # nothing.
        known = error <= 0.01 * np.abs(expected) + 1e-8
        if not np.any(known):
            return
        weights = np.where(known, self.rng.standard_normal(got.shape), 0)
        expected, error, got = (np.where(known, x, 0) for x in (expected, error, got))
        uncertainty = float(np.sum(np.abs(weights) * error))
        slack = _bound_rounding([weights], measure_rounding(push, direction, [got]))
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


def _check_repeatable(first: Array, second: Array) -> None:
    """Raise an error if a function returns other values on a second call."""
    with np.errstate(all="ignore"):
        same = first.shape == second.shape and np.allclose(
            first, second, REPEATS, REPEATS * max_finite(first), equal_nan=True
        )
    if not same:
        raise UsageError(
            "check_grads: the function returns other values when it is called again,"
            " so differences of its values tell nothing. If it draws random numbers,"
            " let it draw the same ones: np.random.default_rng(0) inside of it, say."
        )


def _rank_outputs(moved: Array, found: Slope, count: int = 8) -> Array:
    """Return the outputs with the worst tangents, to judge them one by one."""
    with np.errstate(all="ignore"):
        off = np.abs(moved - found.value) / (
            1e-12 + np.abs(found.value) * 1e-6 + found.error
        )
    off = np.where(np.isnan(off), np.inf, off)
    return np.argsort(-off, kind="stable")[:count]


def _bound_rounding(x: Sequence[Any], noise: Sequence[float]) -> float:
    """Return the most that roundings change in a product with ``x``."""
    return sum(float(np.sum(np.abs(a))) * n for a, n in zip(x, noise, strict=True))


def _multiply_all(left: Sequence[Any], right: Sequence[Any]) -> tuple[float, float]:
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
