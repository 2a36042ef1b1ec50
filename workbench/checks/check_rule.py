"""The check of one node: its rule in both modes against its values, by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.jacobian import jvp
from workbench.checks.differences import (
    EXACT_STEP,
    Method,
    Slope,
    curvature,
    judge_entry,
    slope,
)
from workbench.checks.isolated_node import IsolatedNode, to_coordinates
from workbench.checks.progress import BudgetSpent
from workbench.checks.report import Entry, Verdict
from workbench.core import types
from workbench.core.tensor import Tensor, apply
from workbench.ops import define
from workbench.overrides.override_blocks import overrides_of_call

# Is a rule that is right in double precision right in single precision too?
#
# A backward stable way to compute a rule in single precision gives what the exact rule
# gives for operands and outputs that are rounded differently, ``x (1 + d)`` with ``|d|
# <= eps`` (N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.5).
# What such roundings change is measured with the rule itself, in double precision and
# with random ``d``; sixteen times that, and a thousand roundings of the largest entry
# for long sums, is what the run in single precision may be off by.

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)
#: How many random roundings of the operands are tried.
DRAWS = 3


def find_precision_loss(
    isolated: IsolatedNode,
    draw_weights: Callable[[int], Array],
    rng: np.random.Generator,
) -> str:
    """Return a text on losses of single precision beyond rounding; empty if none."""
    kind = np.dtype(types.spec_of(isolated.node.args[isolated.argnums[0]]).dtype)
    known = kind in (np.float32, np.complex64)
    if isolated.single_only or isolated.invariants or isolated.hermitian or not known:
        return ""
    weights = draw_weights(len(isolated.outputs)).astype(np.float32).astype(float)
    exact = isolated.pull_back(weights)
    spread = [np.zeros(1) for _ in exact]
    for _ in range(DRAWS):
        moved = list(isolated.values)
        for i in isolated.argnums:
            signs = rng.choice([-1.0, 1.0], np.shape(moved[i]))
            moved[i] = moved[i] * (1 + EPS * signs)
        again = isolated.pull_back(weights, values=moved)
        spread = [
            s if a is None or b is None else np.maximum(s, np.abs(a - b))
            for s, a, b in zip(spread, exact, again, strict=True)
        ]
    low = isolated.pull_back_unwidened(weights)
    for argnum, a, b, s in zip(isolated.argnums, exact, low, spread, strict=True):
        if a is None or b is None:
            continue
        most = 16 * s + 1e3 * EPS * np.max(np.abs(a), initial=0)
        off = np.abs(b - a)
        bad = ~(off <= most) & np.isfinite(most) & np.isfinite(a) & (np.abs(a) < 1e38)
        if np.any(bad):
            k = int(np.argmax(np.where(bad, off, -1)))
            place = ", ".join(str(int(n)) for n in np.unravel_index(k, np.shape(a)))
            suffix = f"[{place}]" if place else ""
            return (
                "right in double precision, but in single precision it gives"
                f" {np.ravel(b)[k]:.6g} at {isolated.input_label(argnum)}{suffix} in"
                f" place of {np.ravel(a)[k]:.6g}."
            )
    return ""


# The second order of one node: its rules differentiated, along one direction.
#
# The truth is the op's ``compute`` again: differences of its complex step where it is
# analytic, second differences of its values elsewhere.

#: The relative error allowed in a second derivative, by how it was measured.
SECOND_ORDER_RTOL = {"complex step": 1e-5, "differences": 2e-3}
#: At which error the differences are content: nothing beside the above.
SECOND_ORDER_TARGET = 1e-9


def check_second_order(
    isolated: IsolatedNode, check: RuleCheck, rng: np.random.Generator
) -> str:
    """Compare both modes over the reverse and the forward rule with values.

    Wrong entries are added to ``check.entries``. Returns a note where there is no
    second derivative, else an empty text.
    """
    values = [isolated.values[i] for i in isolated.argnums]
    if any(np.asarray(x).dtype.kind == "c" for x in values) or isolated.single_only:
        return ""
    if (
        isolated.node.op.pull is None
        or isolated.invariants
        or not len(isolated.outputs)
    ):
        return ""
    if isolated.outputs.dtype.kind == "c" or not np.all(np.isfinite(isolated.outputs)):
        return ""
    directions = [
        isolated.as_direction(
            check.draw_weights(isolated.count_coordinates(i)) * isolated.step_scales(i),
            np.asarray(x),
        )
        for i, x in zip(isolated.argnums, values, strict=True)
    ]
    weights = check.draw_weights(len(isolated.outputs))
    slopes, errors, method = compute_second_slopes(
        isolated, directions, weights, check, lambda terms: np.array([np.sum(terms)])
    )
    expected, error = float(slopes[0]), float(errors[0])
    if not np.isfinite(expected) or not error <= 0.01 * abs(expected) + 1e-6:
        return ""
    try:
        with np.errstate(all="ignore"):
            terms = apply_rules_twice(isolated, values, directions, weights)
            found = {
                mode: sum(float(np.sum(part)) for part in parts)
                for mode, parts in terms.items()
            }
    except Exception as failure:
        # A rule need not have a derivative of its own, such as a kernel's.
        return f"Its rule has no derivative: {type(failure).__name__}: {failure}"
    # As for the rule itself: what rounding hides while all entries move by their size.
    y = isolated.outputs
    tolerance = SECOND_ORDER_RTOL[method] * abs(expected) + 10 * error
    tolerance += 1e4 * 2.3e-16 * float(np.sum(np.abs(weights * y))) + 1e-300
    for mode, got in found.items():
        if abs(got - expected) <= tolerance or not np.isfinite(expected):
            continue
        names = ", ".join(
            dict.fromkeys(isolated.input_label(i) for i in isolated.argnums)
        )
        sides = expected, expected
        check.entries.append(
            Entry(
                names,
                (),
                2,
                mode,
                got,
                expected,
                error,
                tolerance,
                *sides,
                "wrong",
                method,
            )
        )
    return ""


def compute_second_slopes(
    isolated: IsolatedNode,
    directions: list[Array],
    weights: Array,
    check: RuleCheck,
    reduce: Callable[[Array], Array],
) -> tuple[Array, Array, str]:
    """Return the second derivatives of the weighted outputs, from values.

    ``reduce`` takes the outputs, each with its weight, to what is differentiated. With
    how far off each may be, and the method.
    """
    values = [np.asarray(isolated.values[i]) for i in isolated.argnums]

    def evaluate(t: complex) -> Array:
        filled = list(isolated.values)
        for i, x, direction in zip(isolated.argnums, values, directions, strict=True):
            filled[i] = x + t * direction
        return isolated.concatenate_outputs(isolated.compute(filled))

    def weigh_outputs(t: complex) -> Array:
        try:
            return reduce(weights * evaluate(t))
        except Exception:
            return np.full_like(reduce(weights), np.nan)

    def slope_at(t: complex) -> Array:
        return reduce(weights * evaluate(t + 1j * EXACT_STEP).imag)

    if check.methods == {"complex step"}:
        try:
            found = slope(
                lambda t: slope_at(t) / EXACT_STEP,
                analytic=False,
                target=SECOND_ORDER_TARGET,
            )
            if not np.any(found.kink):
                return found.value, found.error, "complex step"
        except Exception:
            pass  # inputs that move together may leave the domain: values are used
    value, error = curvature(weigh_outputs)
    return np.real(value), error, "differences"


def apply_rules_twice(
    isolated: IsolatedNode, values: list[Any], directions: list[Array], weights: Array
) -> dict[str, list[Array]]:
    """Return the second derivative by the rules, as terms that are to be summed.

    By forward over reverse for each input, and by forward over forward for each output.
    """
    node, inside = isolated.node, isolated.overrides

    def outputs(*moved: Any) -> tuple[Any, ...]:
        filled = list(isolated.values)
        for i, x in zip(isolated.argnums, moved, strict=True):
            filled[i] = x
        whole = apply(node.op, tuple(filled), isolated.params)
        if not isolated.is_tuple:
            return (whole,)
        made = define.split_outputs(whole) if isinstance(whole, Tensor) else whole
        return tuple(made[k] for k in isolated.output_indices)

    cotangents, at = [], 0
    for shape, size in zip(isolated.shapes, isolated.sizes, strict=True):
        cotangents.append(np.reshape(weights[at : at + size], shape))
        at += size

    def derivatives(*moved: Any) -> tuple[list[Any], list[Any]]:
        made = outputs(*moved)
        active, rules = overrides_of_call(inside), None
        if active is not None:
            rules = active.resolve(made, moved, "jvp").rules
        pulled = reverse.pull_back(made, cotangents, moved, record=True, rules=rules)
        pushed = forward.push_forward(made, moved, directions, record=True, rules=rules)
        return fill_zeros(pulled, moved), fill_zeros(pushed, made)

    moved, twice = jvp(derivatives, tuple(values), tuple(directions), overrides=inside)[
        1
    ]
    return {
        "rev": [c * direction for c, direction in zip(moved, directions, strict=True)],
        "fwd": [w * np.asarray(t) for w, t in zip(cotangents, twice, strict=True)],
    }


def fill_zeros(derivatives: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Return derivatives with zeros in the place of None."""
    pairs = zip(derivatives, like, strict=True)
    return [np.zeros_like(x) if d is None else d for d, x in pairs]


# Finding one wrong entry of many, by halving.

#: The relative error of the derivatives by which halves are compared: an error that is
#: searched for is larger than what differences leave, and need not be known well.
COARSE = 1e-3


def find_by_halving(
    count: int,
    off: Callable[[Array], complex],
    rng: np.random.Generator,
    total: complex | None = None,
) -> int:
    """Return one of ``count`` entries that is wrong, by some ``2 log2(count)`` calls.

    ``off(chosen)`` returns the error of the entries together where ``chosen`` is true.
    The half with the larger error is halved again; halves are drawn at random, so that
    errors that cancel in one pairing do not in all. ``total`` is the error of all, if
    errors add up; then one half tells that of the other, by ``log2(count)`` calls.

    Examples
    --------
    >>> wrong = np.arange(100) == 42
    >>> find_by_halving(100, lambda chosen: float(np.sum(wrong & chosen)),
    ...        np.random.default_rng(0), total=1.0)
    42
    """
    left = rng.permutation(count)

    def measure(some: Array) -> complex:
        chosen = np.zeros(count, bool)
        chosen[some] = True
        return off(chosen)

    while len(left) > 1:
        first, second = np.array_split(left, 2)
        here = measure(first)
        there = measure(second) if total is None else total - here
        left, rest = (first, here) if _size(here) >= _size(there) else (second, there)
        total = None if total is None else rest
    return int(left[0])


def _size(error: complex) -> float:
    """Return the size of an error; one that is not finite is the largest."""
    return abs(error) if np.isfinite(error) else np.inf


class Search:
    """Find the entry and the output of one node at which a wrong direction is wrong."""

    def __init__(self, isolated: IsolatedNode, rng: np.random.Generator) -> None:
        self.isolated = isolated
        self.rng = rng

    def find_forward_entry(
        self, argnum: int, direction: Array, output: int, got: Array, true: Array
    ) -> int:
        """Return an entry of the input by which forward mode is wrong at one output."""
        isolated = self.isolated
        if len(direction) == len(isolated.outputs):
            alone = np.zeros(len(direction))
            alone[output] = direction[output]
            off = abs(self.forward_error(argnum, alone, output))
            if not off < 0.5 * abs(got[output] - true[output]):
                return output

        def part(chosen: Array) -> complex:
            return self.forward_error(argnum, np.where(chosen, direction, 0), output)

        total = complex(got[output] - true[output])
        return find_by_halving(len(direction), part, self.rng, total)

    def forward_error(self, argnum: int, direction: Array, output: int) -> complex:
        """Return the error of forward mode along a direction at one output."""
        moved = self.isolated.push_forward(argnum, direction)
        true = self.isolated.measure_derivative(argnum, direction[None], COARSE).value
        return complex(moved[output] - true[0, output])

    def find_reverse_entry(
        self,
        argnum: int,
        direction: Array,
        weights: Array,
        back: Array,
        total: float,
    ) -> int:
        """Return an entry at which the cotangent of reverse mode is wrong.

        ``total`` is how far it is off along the whole direction.
        """
        if not np.all(np.isfinite(back)):
            return int(np.argmax(~np.isfinite(back)))

        def part(chosen: Array) -> float:
            some = np.where(chosen, direction, 0)
            found = self.isolated.measure_derivative(argnum, some[None], COARSE)
            true = np.where(weights != 0, weights * found.value[0], 0).real
            return float(np.sum(true)) - float(some @ back)

        return find_by_halving(len(direction), part, self.rng, total)

    def find_output(self, argnum: int, k: int, weights: Array) -> int:
        """Return the output with the cotangent that makes one entry's result wrong."""
        reach = self.isolated.step_scales(argnum)[k]
        true = self.measure_entry(argnum, k).value[0]

        def part(chosen: Array) -> float:
            some = np.where(chosen, weights, 0)
            terms = np.where(some != 0, some * true, 0).real
            return float(np.sum(terms) - reach * self.pull_one(argnum, some)[k])

        total = part(np.ones(len(weights), bool))
        if len(weights) == self.isolated.count_coordinates(argnum):
            alone = np.arange(len(weights)) == k
            if _size(part(alone)) >= 0.5 * _size(total):
                return k
        return find_by_halving(len(weights), part, self.rng, total)

    def find_kink(self, argnum: int, output: int) -> int:
        """Return an entry with one-sided derivatives that differ at one output."""
        reach = self.isolated.step_scales(argnum)

        def part(chosen: Array) -> float:
            some = self.isolated.measure_derivative(
                argnum, np.where(chosen, reach, 0)[None], COARSE
            )
            gap = abs(some.right[0, output] - some.left[0, output])
            return float(gap) if gap == gap else np.inf

        return find_by_halving(len(reach), part, self.rng)

    def pull_one(self, argnum: int, weights: Array) -> Array:
        """Return the cotangent of one input by reverse mode, as coordinates."""
        x = self.isolated.values[argnum]
        c = self.isolated.pull_back(weights)[self.isolated.argnums.index(argnum)]
        return to_coordinates(np.zeros(np.shape(x)) if c is None else c, x)

    def measure_entry(self, argnum: int, k: int) -> Slope:
        """Return the derivative along one entry from values, as exact as can be."""
        direction = np.zeros(self.isolated.count_coordinates(argnum))
        direction[k] = self.isolated.step_scales(argnum)[k]
        return self.isolated.measure_derivative(argnum, direction[None], 1e-11)


# The check of one rule


class Suspect(NamedTuple):
    """An entry of an input by which a rule may be wrong.

    Attributes
    ----------
    mode
        The mode of its rule: ``"fwd"`` or ``"rev"``.
    argnum, entry
        The input, and the position of the entry in it.
    output
        The position of the output; None where it is to be found.
    """

    mode: str
    argnum: int
    entry: int
    output: int | None


RTOL, SINGLE = 1e-6, 2e-3
#: Roundings of an output below which no value shows a derivative.
ROUNDINGS = 64
#: Roundings of an output divided by the smallest step of the differences.
SHRINKS = 2.0**19
#: The relative error of a sum over all outputs that starts a search for entries.
SCREEN = 1e-9
#: With more entries than these one random direction says enough.
MANY = 1000
#: The most derivatives, of each output by each entry, that are measured one by one.
MOST_EXACT = 10_000
#: How far one-sided derivatives, of two steps each, may be off, relatively.
SIDES_RTOL = 1e-3
#: Beyond so many tolerances an error along a direction is that of some entry.
SURE = 1e3
#: How many suspects of one kind are measured again.
SUSPECTS = 3


class RuleCheck(Search):
    """The check of the rule of one node.

    Attributes
    ----------
    entries
        The worst entries found, and those at kinks.
    notes
        Findings that concern no single entry.
    mode
        The mode that is checked now.
    """

    def __init__(
        self,
        isolated: IsolatedNode,
        rng: np.random.Generator,
        rtol: float | None,
        exact: int,
    ) -> None:
        super().__init__(isolated, rng)
        usual = SINGLE if isolated.single_only else RTOL
        self.rtol = usual if rtol is None else rtol
        self.exact = exact
        self.entries: list[Entry] = []
        self.notes: list[str] = []
        self.mode = "rev"
        #: Why there is no forward mode; empty where there is one.
        self.no_forward = ""
        kind = isolated.outputs.dtype
        self.eps = float(np.finfo(kind).eps) if kind.kind in "fc" else 2.2e-16
        self.pulled_rows: dict[int, list[Any]] = {}
        #: How the truth was found.
        self.methods: set[str] = set()

    def check_first_order(self) -> None:
        """Check the rule at all inputs, in both modes."""
        isolated = self.isolated
        if not len(isolated.outputs):
            return
        for argnum in isolated.argnums:
            if isolated.count_coordinates(argnum):
                self.check_input(argnum)
        if not self.entries or all(e.verdict == "right" for e in self.entries):
            note = find_precision_loss(isolated, self.draw_weights, self.rng)
            self.notes += [note] if note else []

    def check_input(self, argnum: int) -> None:
        """Check the rule at one input."""
        isolated = self.isolated
        n, reach = isolated.count_coordinates(argnum), isolated.step_scales(argnum)
        exact = n <= self.exact and n * len(isolated.outputs) <= MOST_EXACT
        if exact:
            directions = np.diag(reach)
        else:
            count = 2 if max(n, len(isolated.outputs)) <= MANY else 1
            drawn = [self.draw_weights(n) * reach for _ in range(count)]
            least = np.min(reach)
            if np.max(reach) > np.e * least:
                # Small entries count beside large ones too.
                drawn.append(np.copysign(least, self.rng.random(n) - 0.5))
            directions = np.array(drawn)
        found = isolated.measure_derivative(argnum, directions)
        if not exact and np.any(found.kink):
            # What looks like a kink may be rounding, which is seen in the outputs.
            noise = isolated.noise
            found = isolated.measure_derivative(argnum, directions, grain=noise)
        self.methods.add(found.method)
        tolerance = self.tolerances(found)
        before = len(self.entries)
        self.mode = "rev"
        self.check_reverse(argnum, directions, found, tolerance, exact)
        self.mode = "fwd"
        try:
            self.check_forward(argnum, directions, found, tolerance, exact)
        except Exception as error:
            if not isolated.is_transposed:
                raise
            # There is no forward rule, and the reverse rule cannot be transposed.
            self.no_forward = f"No forward mode: {type(error).__name__}: {error}"
        self.mode = "rev"
        if np.any(found.kink) and not self.has_wrong(before):
            self.add_kinks(argnum, found, exact)

    def has_wrong(self, start: int = 0) -> bool:
        """Return whether an entry is wrong among those from ``start`` on."""
        return any(e.verdict == "wrong" for e in self.entries[start:])

    def tolerances(self, found: Slope) -> Array:
        """Return the error that each derivative may have; infinite where unknown."""
        # In place: of large arrays the time goes into memory.
        tolerance: Array = np.abs(found.value)
        tolerance *= self.rtol
        tolerance += 4 * found.error
        tolerance += ROUNDINGS * self.eps * np.abs(self.isolated.outputs) + 1e-300
        tolerance[~(np.isfinite(tolerance) & np.isfinite(found.value))] = np.inf
        return tolerance

    def find_undefined(self, found: Slope, tolerance: Array) -> Array:
        """Return where an output, or an entry, has some undefined derivative."""
        sides = np.isfinite(found.left) & np.isfinite(found.right)
        none = ~np.isfinite(tolerance) | (found.kink & ~sides)
        lost: Array = np.any(none, axis=0) | np.any(none, axis=1)[:, None]
        return lost

    # Forward mode

    def check_forward(
        self,
        argnum: int,
        directions: Array,
        found: Slope,
        tolerance: Array,
        exact: bool,
    ) -> None:
        """Compare the tangents of all outputs along each direction."""
        isolated = self.isolated
        got = np.array(
            [isolated.push_forward(argnum, direction) for direction in directions]
        )
        off = np.abs(got - found.value)
        bad = ~(off <= tolerance)
        if np.any(bad):
            bad &= np.isfinite(tolerance) & np.isfinite(isolated.outputs)
        if not np.any(bad):
            return
        low, high = np.minimum(found.left, found.right), np.maximum(
            found.left, found.right
        )  # fmt: skip
        inside = (got >= low - tolerance) & (got <= high + tolerance)
        # Of infinity at one entry 0 times that is NaN at the others: one finding.
        bad &= np.isfinite(got) | ~self.find_undefined(found, tolerance)
        bad &= ~(found.kink & (found.jump | inside | ~np.isfinite(high - low)))
        if np.any(bad) and not exact:
            tolerance = tolerance + self.measure_slack(argnum, directions, found)
            bad &= ~(off <= tolerance)
        if not np.any(bad):
            return
        ratio = np.where(bad, off / tolerance, -1)
        ratio = np.where(bad & ~np.isfinite(ratio), np.inf, ratio)
        for flat in np.argsort(-ratio, axis=None, kind="stable")[:SUSPECTS]:
            d, o = (int(k) for k in np.unravel_index(flat, bad.shape))
            if not bad[d, o]:
                break
            numbers = got[d, o], found.value[d, o], found.error[d, o], tolerance[d, o]
            with self.keep_direction(argnum, "fwd", numbers, o, found.method):
                k = (
                    d
                    if exact
                    else self.find_forward_entry(
                        argnum, directions[d], o, got[d], found.value[d]
                    )
                )
                if self.confirm_entry(argnum, k, o, "fwd"):
                    return
        if not exact and np.max(ratio) > SURE:
            self.notes.append(
                "forward mode is wrong along a direction, but at no single entry."
            )

    # Reverse mode

    def check_reverse(
        self,
        argnum: int,
        directions: Array,
        found: Slope,
        tolerance: Array,
        exact: bool,
    ) -> None:
        """Compare the cotangents of one input, in products with each direction."""
        isolated = self.isolated
        y = isolated.outputs
        if exact and len(y) <= self.exact and y.dtype.kind != "c":
            self.check_each_output(argnum, directions, found, tolerance)
            return
        known = np.all(np.isfinite(tolerance) & ~found.kink, axis=0) & np.isfinite(y)
        value, error, outputs = found.value, found.error, y
        is_known = bool(np.all(known))
        if not is_known:
            value, error = np.where(known, value, 0), np.where(known, error, 0)
            outputs = np.where(known, y, 0)
        size = np.max(np.abs(value), axis=0)
        if not np.all(size > 1e-100):
            usual = np.where(np.abs(y) > 0, np.abs(y), 1)
            usual = np.where(np.isfinite(usual), usual, 1)
            size = np.where(size > 1e-100, size, usual)
        for _ in range(3 if exact else 2 if len(y) <= MANY else 1):
            weights = self.draw_weights(len(y))
            weights /= size
            if not is_known:
                weights = np.where(known, weights, 0)
            if y.dtype.kind == "c":
                turned = np.exp(2j * np.pi * self.rng.uniform(size=len(y)))
                weights = weights * turned
            back = self.pull_one(argnum, weights)
            odd = ~np.isfinite(back)
            if np.any(odd) and not exact:
                for k in np.nonzero(odd)[0][:SUSPECTS].tolist():
                    o = self.find_output(argnum, k, weights)
                    if self.confirm_entry(argnum, k, o, "rev"):
                        return
                # No derivative there: the other entries are compared without them.
                directions, back = np.where(odd, 0, directions), np.where(odd, 0, back)
                found = isolated.measure_derivative(argnum, directions)
                value = np.where(known, found.value, 0)
                error = np.where(known, found.error, 0)
            sizes = np.abs(weights)
            expected = (value @ weights).real
            got = back * np.diag(directions) if exact else directions @ back
            total = np.abs(value) @ sizes
            spread = np.square(error * sizes).sum(axis=1)
            largest = np.max(sizes * np.abs(outputs), initial=0)
            most = SCREEN * total + 8 * np.sqrt(spread)
            most += ROUNDINGS * self.eps * np.sqrt(len(y)) * largest
            if isolated.single_only:
                most += 1e-4 * total
            off = np.abs(got - expected)
            bad = ~(off <= most)
            if np.any(bad) and not exact:
                slack = self.measure_slack(argnum, directions, found) * sizes
                most += 8 * np.sqrt(np.square(slack).sum(axis=1))
                bad = ~(off <= most)
            if not np.any(bad):
                continue
            d = int(np.argmax(np.where(np.isnan(off), np.inf, off / most)))
            numbers = got[d], expected[d], np.sqrt(spread[d]), most[d]
            with self.keep_direction(argnum, "rev", numbers, None, found.method):
                k = (
                    d
                    if exact
                    else self.find_reverse_entry(
                        argnum, directions[d], weights, back, expected[d] - got[d]
                    )
                )
                o = self.find_output(argnum, k, weights)
                if self.confirm_entry(argnum, k, o, "rev"):
                    return
            if np.max(off / most) > 1e6:
                self.notes.append(
                    "reverse mode is wrong along a direction, but at no single entry."
                )

    def measure_slack(self, argnum: int, directions: Array, found: Slope) -> Array:
        """Return the possible effect of rounding on each derivative along directions.

        As `confirm_entry` has it for one entry: what it would let pass is not searched
        for.
        """
        isolated = self.isolated
        if found.method != "complex step":
            noise: Array = np.broadcast_to(SHRINKS * isolated.noise, found.value.shape)
            return noise
        moved = isolated.rounding_sensitivity(argnum, directions, self.rng)
        slack: Array = 8 * moved + ROUNDINGS * isolated.noise
        return slack

    @contextmanager
    def keep_direction(
        self,
        argnum: int,
        mode: str,
        numbers: tuple[Any, Any, Any, Any],
        output: int | None,
        method: Method,
    ) -> Iterator[None]:
        """Keep the error along a direction, if the search for its entry is cut short.

        ``numbers`` are what the rule gives, what it should, how far off that may be,
        and the tolerance.
        """
        try:
            yield
        except BudgetSpent:
            got, expected, error, most = numbers
            sure = not abs(got - expected) <= SURE * most
            where = "" if output is None else self.isolated.format_output(output)
            entry = Entry(
                self.isolated.input_label(argnum),
                (),
                1,
                mode,
                np.asarray(got).item(),
                np.asarray(expected).item(),
                float(error),
                float(most),
                np.asarray(expected).item(),
                np.asarray(expected).item(),
                "wrong" if sure else "unsure",
                method,
                where,
                along=True,
            )
            self.entries.append(entry)
            raise

    def draw_weights(self, n: int) -> Array:
        """Return random weights of either sign, none near 0."""
        drawn = self.rng.random(n)
        drawn -= 0.5
        drawn += np.copysign(0.5, drawn)
        return drawn

    def check_each_output(
        self, argnum: int, directions: Array, found: Slope, tolerance: Array
    ) -> None:
        """Compare each output by each entry, where there are few."""
        isolated, x = self.isolated, self.isolated.values[argnum]
        place = isolated.argnums.index(argnum)
        for o in range(len(isolated.outputs)):
            if o not in self.pulled_rows:
                one = np.zeros(len(isolated.outputs))
                one[o] = 1
                self.pulled_rows[o] = isolated.pull_back(one)
            c = self.pulled_rows[o][place]
            got = to_coordinates(np.zeros(np.shape(x)) if c is None else c, x)
            got = got * np.diag(directions)
            off = np.abs(got - found.value[:, o])
            bad = ~(off <= tolerance[:, o]) & np.isfinite(tolerance[:, o])
            bad &= bool(np.isfinite(isolated.outputs[o]))
            bad &= np.isfinite(got) | ~self.find_undefined(found, tolerance)[:, o]
            if not np.any(bad):
                continue
            ratio = np.where(bad, off / tolerance[:, o], -1)
            ratio = np.where(np.isnan(ratio), np.inf, ratio)
            for k in np.argsort(-ratio, kind="stable")[:SUSPECTS]:
                if bad[k] and self.confirm_entry(argnum, int(k), o, "rev"):
                    return

    # Entries

    def confirm_suspects(self, suspects: Sequence[Suspect]) -> bool:
        """Measure each suspect as exactly as can be; return whether one is wrong."""
        for mode, argnum, k, o in suspects:
            self.mode = mode
            if o is None:
                o = self.find_output(
                    argnum, k, self.draw_weights(len(self.isolated.outputs))
                )
            self.confirm_entry(argnum, k, o, mode)
        self.mode = "rev"
        return self.has_wrong()

    def confirm_entry(self, argnum: int, k: int, o: int, mode: str) -> bool:
        """Measure one entry as exactly as possible; add the entry unless right.

        Returns whether the entry is wrong.
        """
        isolated = self.isolated
        found, reach = (
            self.measure_entry(argnum, k),
            float(isolated.step_scales(argnum)[k]),
        )
        direction = np.zeros(isolated.count_coordinates(argnum))
        direction[k] = reach
        tolerance = self.tolerances(found)[0]
        if found.method == "complex step":
            tolerance = (
                tolerance
                + 8
                * isolated.rounding_sensitivity(argnum, direction[None], self.rng)[0]
            )
            tolerance = tolerance + ROUNDINGS * isolated.noise
        else:
            tolerance = tolerance + SHRINKS * isolated.noise
        # In the user's units, no derivative is smaller than the least float.
        tolerance = tolerance + reach * np.finfo(float).tiny
        turns: tuple[complex, ...] = (1,)
        if mode == "fwd":
            row = isolated.push_forward(argnum, direction)
            pairs: list[tuple[Any, Any, complex]] = [(row[o], found.value[0, o], 1)]
        else:
            pairs = []
            if isolated.outputs.dtype.kind == "c":
                turns = (1, -1j)
            for turn in turns:
                one = np.zeros(len(isolated.outputs), type(turn))
                one[o] = turn
                got = reach * self.pull_one(argnum, one)[k]
                pairs.append((got, (turn * found.value[0, o]).real, turn))
        wrong = False
        for got, expected, turn in pairs:
            left, right = found.left[0, o], found.right[0, o]
            if turn != 1 or mode == "rev":
                left, right = (turn * left).real, (turn * right).real
            verdict = judge_entry(
                got, expected, float(tolerance[o]), left, right,
                bool(found.kink[0, o]), bool(found.jump[0, o]),
            )  # fmt: skip
            if verdict == "wrong" and not np.isfinite(got):
                everywhere = self.find_undefined(found, self.tolerances(found))
                verdict = "unsure" if np.any(everywhere) else verdict
            if verdict == "wrong" and agree_with(left, right, got, expected):
                verdict = "unsure"  # two measurements disagree, not the rule
            if verdict == "right":
                continue
            if verdict == "wrong" and wrong:
                continue
            wrong |= verdict == "wrong"
            numbers = got, expected, left, right
            self.add_entry(
                argnum, k, o, mode, verdict, numbers, found, float(tolerance[o]), reach
            )
        return wrong

    def add_entry(
        self, argnum: int, k: int, o: int, mode: str, verdict: Verdict,
        numbers: tuple[Any, ...], found: Slope, tolerance: float, reach: float,
    ) -> None:  # fmt: skip
        """Add an entry, in the user's units."""
        plain = []
        for x in numbers:
            x = complex(x)
            plain.append(x.real / reach if x.imag == 0 else x / reach)
        self.entries.append(
            Entry(
                self.isolated.input_label(argnum),
                self.isolated.entry_index(argnum, k),
                1,
                mode,
                plain[0],
                plain[1],
                float(found.error[0, o]) / reach,
                tolerance / reach,
                plain[2],
                plain[3],
                verdict,
                found.method,
                self.isolated.format_output(o),
                bool(found.jump[0, o]),
            )
        )

    def add_kinks(self, argnum: int, found: Slope, exact: bool) -> None:
        """Add the first few entries that are at a kink."""
        isolated = self.isolated
        rows, outputs = np.nonzero(found.kink)
        for d, o in list(zip(rows.tolist(), outputs.tolist(), strict=True))[:SUSPECTS]:
            if exact:
                k = d
            elif isolated.count_coordinates(argnum) == len(isolated.outputs):
                k = o
            else:
                k = self.find_kink(argnum, o)
            column = self.measure_entry(argnum, k)
            if not column.kink[0, o]:
                continue
            direction = np.zeros(isolated.count_coordinates(argnum))
            direction[k] = isolated.step_scales(argnum)[k]
            row = isolated.push_forward(argnum, direction)
            tolerance = float(self.tolerances(column)[0, o])
            tolerance = tolerance if np.isfinite(tolerance) else 1e-6
            noise = float(isolated.noise[o])
            left, right = column.left[0, o], column.right[0, o]
            apart = max(abs(left), abs(right)) if column.jump[0, o] else right - left
            if abs(apart) <= SHRINKS * noise:
                continue  # rounding, which is not that of this output alone
            sides = column.left[0, o], column.right[0, o]
            jump = bool(column.jump[0, o])
            numbers = row[o], column.value[0, o], *sides
            verdict = judge_entry(*numbers[:2], tolerance, *sides, True, jump)
            reach = float(isolated.step_scales(argnum)[k])
            self.add_entry(
                argnum, k, o, "fwd", verdict, numbers, column, tolerance, reach
            )
            if verdict != "kink":
                return
        gaps = np.abs(found.right - found.left)
        if (
            np.any(found.kink & ~(gaps <= SHRINKS * isolated.noise))
            and not self.entries
        ):
            self.notes.append(
                "left and right derivatives differ along a direction, but at no single"
                " entry."
            )


def agree_with(left: Any, right: Any, got: Any, expected: Any) -> bool:
    """Return whether both one-sided derivatives are the one, and neither the other."""
    near = SIDES_RTOL * max(abs(got), abs(expected))
    return all(abs(got - x) <= near < abs(expected - x) for x in (left, right))
