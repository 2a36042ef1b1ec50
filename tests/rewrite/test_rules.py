"""Every rule of the tables, tried on random numbers: value and both derivatives.

A rule is found in its table. Of a pair of expressions the left one is the program; a
rule that is a function of a node has programs in `PROGRAMS`, written by hand. No rule
but this one is on.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest

import workbench as wb
from tests.rewrite.graphs import assert_within, only, run, simplify_soundly
from workbench.core.trace import record
from workbench.rewrite.driver import TABLES
from workbench.rewrite.rule import (
    FUNCTIONS,
    RULES,
    NodeRule,
    PairRule,
    ReductionRule,
    Rule,
)

#: The files of the tables of rules.
EXACT, *_, CONTRACT = [table.__file__ for table in TABLES]

Program = Callable[..., Any]
Args = list[Any]

#: A program or more, and the shapes of its arguments.
PROGRAMS: dict[str, list[tuple[Program, list[tuple[int, ...]]]]] = {
    "shape it has": [
        (lambda x: np.reshape(np.sin(x), (2, 3)) * 2, [(2, 3)]),
        (lambda x: np.broadcast_to(x * 3, (2, 3)) - 1, [(2, 3)]),
        (lambda x: np.reshape(x, ()), [()]),
    ],
    "entry that was stored": [
        (lambda x, y: wb.at(x)[1].set(np.sin(y))[1] * 2, [(3,), ()]),
        (lambda x, y: wb.at(x)[-1, 0].set(y * 3)[2, -2] - 1, [(3, 2), ()]),
        (lambda x, y: wb.at(x)[1].set(y * 3)[1] - 1, [(3, 2), (2,)]),
        (lambda x: np.stack([np.sin(x), x])[0] * 2, [(2,)]),
    ],
    "sum with a few entries": [
        (lambda x: wb.grad(lambda x: np.sum(x * x) + x[3])(x), [(9,)]),
        (lambda x: wb.grad(lambda x: x[1] * x[-2] * np.sin(x[1]))(x), [(8, 2)]),
    ],
    "sum with an entry that was stored": [
        (lambda x, y: wb.at(wb.at(x)[1].set(np.sin(y)))[1].add(y), [(3,), ()]),
        (lambda x, y: wb.at(wb.at(x)[1].set(0.0))[1].add(y * y), [(3,), ()]),
    ],
    "array stored entry by entry": [
        (lambda x, y: wb.at(wb.at(x)[0].set(y * y))[1].set(np.sin(y)), [(2,), ()]),
        (lambda x, y: wb.at(wb.at(x)[1].set(y * y))[0].set(np.sin(y)), [(2, 3), (3,)]),
    ],
    "x twice and a number": [
        (lambda x: 0.25 + x + x, [(2, 3)]),
        (lambda x: (x + -3) + x, [(2, 3)]),
        (lambda x: x + (x + 1), [()]),
    ],
    "array of one number": [
        (lambda x: np.full_like(x, 3.0) * np.sin(x), [(2, 3)]),
        (lambda x: np.ones_like(x) / x, [(2, 3)]),
        (lambda x, y: np.sin(x) - np.full_like(y, 0.5), [(2, 3), (3,)]),
        (lambda x: np.zeros_like(x) + x, [()]),
    ],
    "array spread in vain": [
        (lambda x, y: np.broadcast_to(x, (2, 3)) * y, [(3,), (2, 3)]),
        (lambda x, y: np.sin(y) / np.broadcast_to(x, (2, 3)), [(), (2, 3)]),
        (lambda x, y: y - np.broadcast_to(x, (2, 3)), [(2, 1), (2, 3)]),
    ],
    "dtype it has": [(lambda x: (x * 2).astype(x.dtype) + 1, [(2, 3)])],
    "reshape of a reshape": [
        (lambda x: np.reshape(np.reshape(x, (3, 2)), 6) * 2, [(2, 3)]),
        (lambda x: np.reshape(np.reshape(x, (1, 1)), ()), [()]),
        (lambda x: np.ravel(np.reshape(x, (3, -1))), [(2, 3)]),
    ],
    "transpose of a transpose": [
        (lambda x: np.sin(x.T.T), [(2, 3)]),
        (lambda x: np.transpose(np.transpose(x, (1, 2, 0)), (1, 2, 0)), [(2, 3, 4)]),
        (lambda x: np.transpose(np.transpose(x, (-1, 0, 1))), [(2, 3, 4)]),
        (lambda x: np.swapaxes(np.moveaxis(x, 0, -1), 0, 1) * 2, [(2, 3, 4)]),
    ],
}
#: As many draws a rule is tried on.
MANY = 40
#: What a rule may be asked at, by kind of numbers; those of the second have no
#: derivatives, and none of its rules need fire there.
USUAL = ("float64", "float64", "float32", "complex128", "float16")
OTHER = ("int64", "int8", "uint8", "bool")
#: Tiny and huge numbers, whose double is none of either, by dtype.
FAR = {"float64": (1e-300, 1e300), "float32": (1e-37, 1e37), "float16": (1e-7, 1e4)}
#: By how much a result may differ, of its natural scale.
ULPS = 4
#: The same of a rule that says "last digits"; and the numbers it is tried on: those of
#: two bytes overflow on the way.
FAST_ULPS = 32
FAST = ("float64", "float32", "complex128")


def named(*kinds: type[Rule]) -> list[Any]:
    return [
        pytest.param(rule, id=name)
        for name, rule in RULES.items()
        if isinstance(rule, kinds) and rule.site[0] == EXACT
    ]


def needs_program(name: str) -> bool:
    """Return whether a rule is tried on programs of its own."""
    return name in PROGRAMS or isinstance(RULES[name], NodeRule)


def draw_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: bool
) -> Any:
    """Return random numbers; with ``special`` zeros, infinities, NaN among them."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "complex128":
        made = np.zeros(shape, complex)
        for part in (made.real, made.imag):  # NumPy's products of huge ones vary
            part[...] = draw_array(rng, shape, "float64", special)
            part[np.isfinite(part)] = np.clip(part, -1e3, 1e3)[np.isfinite(part)]
        return made
    if dtype in OTHER:
        limits = np.iinfo(dtype)
        made = rng.integers(-3 * (limits.min < 0), 4, shape)
        made = np.where(rng.random(shape) < 0.2, limits.min, made)
        return np.where(rng.random(shape) < 0.1, limits.max, made).astype(dtype)
    made = rng.normal(size=shape)
    if special:
        tiny, huge = FAR[dtype]
        odd = [0, -0.0, 1, np.inf, -np.inf, np.nan, tiny, -tiny, huge, -huge]
        made = np.where(rng.random(shape) < 0.5, rng.choice(odd, shape), made)
    return np.asarray(made).astype(dtype)


def draw_args(
    rng: np.random.Generator, rule: PairRule, dtypes: Sequence[str], special: bool
) -> Args:
    """Return values for the wildcards of a rule: ranks 0 to 3, which broadcast."""
    rank = int(rng.integers(4))
    shape = tuple(int(n) for n in rng.integers(1, 4, rank))
    if rng.random() < 0.3:
        shape = (3,) * rank
    usual = str(rng.choice(dtypes))
    made = []
    for name in rule.names:
        own = shape[int(rng.integers(rank + 1)) :] if rng.random() < 0.3 else shape
        own = tuple(1 if rng.random() < 0.1 else n for n in own)
        dtype = str(rng.choice(dtypes)) if rng.random() < 0.2 else usual
        if name == "c":
            dtype = "bool"
        made.append(draw_array(rng, own, dtype, special))
    return made


def trace(f: Program, args: Args) -> wb.Graph | None:
    """Return a program of arguments of such shapes; None where it takes no such."""
    specs = [wb.Spec(np.shape(x), x.dtype) for x in args]
    names = [f"x{i}" for i in range(len(args))]
    try:
        with np.errstate(all="ignore"):
            return record(lambda leaves: f(*leaves), specs, names)
    except (ValueError, TypeError, OverflowError):
        return None


def rewrite(rule: Rule, program: wb.Graph) -> wb.Graph | None:
    """Return the program with this rule alone applied; None if it did not fire."""
    fast = rule.group == "fast"
    graph = simplify_soundly(program, without=only(rule), fast=fast)
    assert all(step.rule is rule for step in graph.steps)
    return graph if graph.steps else None


def derive(graph: wb.Graph, args: Args, g: Any, moves: Args) -> tuple[list[Any], Any]:
    """Return the cotangents of the arguments that have some, and the tangent."""
    varying = [i for i, x in enumerate(args) if x.dtype.kind in "fc"]

    def f(*given: Any) -> Any:
        values = list(args)
        for i, x in zip(varying, given, strict=True):
            values[i] = x
        return graph.run(values)[0]

    primals = [args[i] for i in varying]
    with np.errstate(all="ignore"):
        _, pullback = wb.vjp(f, *primals)
        _, tangent = wb.jvp(f, primals, [moves[i] for i in varying])
        return list(pullback(g)), tangent


def sizes_of_terms(program: wb.Graph, args: Args, g: Any, moves: Args) -> list[Any]:
    """Return the size of what each argument adds to a tangent."""
    made = []
    for i, move in enumerate(moves):
        size = 0
        for part in (move.real, 1j * move.imag) if move.dtype.kind == "c" else (move,):
            alone = [np.zeros_like(x) for x in moves]
            alone[i] = alone[i] + part
            size = size + np.abs(derive(program, args, g, alone)[1])
        made.append(size)
    return made


def scale_of_sums(
    program: wb.Graph, f: Program, args: Args, g: Any, slopes: Sequence[Any]
) -> list[Any]:
    """Return the natural scale of cotangents: sums over the axes that broadcast."""
    if not all(x.op.elementwise for x in program.interior):
        return [np.max(np.abs(x[np.isfinite(x)]), initial=0) * np.size(g)
                for x in map(np.asarray, slopes)]  # fmt: skip
    full = [np.array(np.broadcast_to(x, np.shape(g))) for x in args]
    program = trace(f, full) or program
    terms, _ = derive(program, full, g, full)
    shapes = [np.shape(x) for x in args if x.dtype.kind in "fc"]
    made = []
    for term, shape in zip(terms, shapes, strict=True):
        size = np.abs(term)
        size = size.sum(axis=tuple(range(size.ndim - len(shape))))
        short = tuple(i for i, n in enumerate(shape) if n == 1)
        made.append(size.sum(axis=short, keepdims=True) if short else size)
    return made


@np.errstate(all="ignore")
def compare(
    rule: Rule, f: Program, before: wb.Graph, after: wb.Graph, args: Args, rng: Any
) -> None:
    """Assert that both programs agree, but for what the rule's note says."""
    ulps = FAST_ULPS if "last digits" in rule.note else ULPS
    (truth,), (found,) = run(before, args), run(after, args)
    truth, found = np.asarray(truth), np.asarray(found)
    # NumPy multiplies complex numbers with other instructions in other places.
    exact = "digit" not in rule.note and all(x.dtype.kind != "c" for x in args)
    zeros = "sign of a zero" not in rule.note
    (scale,) = run(before, args if exact else [np.abs(x) + 0 * x for x in args])
    assert_within(found, truth, scale, 0 if exact else ulps, zeros=zeros)
    if truth.dtype.kind not in "fc" or not any(x.dtype.kind in "fc" for x in args):
        return
    g = draw_array(rng, truth.shape, str(truth.dtype), False)
    moves = [draw_array(rng, x.shape, str(x.dtype), False) for x in args]
    slopes, tangent = derive(before, args, g, moves)
    others, other = derive(after, args, g, moves)
    scales = scale_of_sums(before, f, args, g, slopes)
    if "derivative" in rule.note:  # it says what it is at NaN and infinity
        odd = ~np.isfinite(sum(args))
        slopes = [np.where(odd, a, b) for a, b in zip(others, slopes, strict=True)]
        tangent = np.where(odd, other, tangent)
    for a, b, scale in zip(others, slopes, scales, strict=True):
        assert_within(a, b, scale, ulps)
    assert_within(other, tangent, sum(sizes_of_terms(before, args, g, moves)), ulps)


def try_rule(rule: PairRule, args: Args, rng: np.random.Generator) -> bool:
    """Compare both sides at some values; return whether the rule fired."""
    before = trace(rule.left, args)
    if before is None or (after := rewrite(rule, before)) is None:
        return False
    try:
        compare(rule, rule.left, before, after, args, rng)
    except Exception as error:
        error.add_note(f"rule {rule.name!r} at {args!r}\n{before}\nbecomes\n{after}")
        raise
    return True


@pytest.mark.parametrize("rule", named(PairRule))
def test_both_sides_of_a_rule(rule: PairRule, rng: np.random.Generator) -> None:
    fired = 0
    for k in range(MANY):
        usual = FAST if rule.group == "fast" else USUAL
        dtypes = usual if k % 3 else (*usual, *OTHER)
        special = k % 2 == 1 and rule.group != "fast"
        fired += try_rule(rule, draw_args(rng, rule, dtypes, special), rng)
    assert fired or needs_program(rule.name), "it never fires"


#: A name in a form that no function follows: a wildcard.
WILDCARD = re.compile(r"\b[a-z]\b(?!\()")
#: What forms say beside the functions of rules.
ALL_NAMES = {
    **vars(np), **FUNCTIONS, "norm": np.linalg.norm, "logsumexp": wb.logsumexp,
    "axes": {}, "axis": {}, "kept": {"keepdims": True},
}  # fmt: skip


@pytest.mark.parametrize(
    "rule", [x for x in RULES.values() if isinstance(x, PairRule)], ids=lambda x: x.name
)
def test_another_value_in_one_place_is_another_program(
    rule: PairRule, rng: np.random.Generator
) -> None:
    """One occurrence of a wildcard is exchanged: all rules together keep its value.

    Inputs, and functions of them that are alike in all but their inputs.
    """
    for place in WILDCARD.finditer(rule.lhs):
        text = f"{rule.lhs[: place.start()]}other{rule.lhs[place.end() :]}"
        names = [*dict.fromkeys(WILDCARD.findall(rule.lhs)), "other"]
        form = eval(f"lambda {', '.join(names)}: {text}", ALL_NAMES)
        for inner in (lambda x: x, np.sin):
            args = [0.3 + rng.random(3) / 2 for _ in names]
            program = trace(lambda *xs, f=form, g=inner: f(*map(g, xs)), args)
            if program is None:
                continue
            with np.errstate(all="ignore"):
                value = run(program, args)
                found = run(wb.simplify(program), args)
            np.testing.assert_allclose(found, value, rtol=1e-6, err_msg=text)


@pytest.mark.parametrize("rule", named(PairRule))
def test_a_rule_of_numbers_without_derivative(
    rule: PairRule, rng: np.random.Generator
) -> None:
    """It need not fire there; where it does, the values are the same."""
    for _ in range(MANY // 2):
        try_rule(rule, draw_args(rng, rule, OTHER, False), rng)


@pytest.mark.parametrize("rule", [x for x in named(Rule) if needs_program(x.id)])
def test_programs_of_a_rule(rule: Rule, rng: np.random.Generator) -> None:
    assert rule.name in PROGRAMS, "write a program that it rewrites"
    for f, shapes in PROGRAMS[rule.name]:
        for k, dtype in enumerate((*USUAL, *OTHER) * 2):
            args = [draw_array(rng, shape, dtype, k % 2 == 1) for shape in shapes]
            before = trace(f, args)
            if before is None:
                assert dtype in OTHER
                continue
            after = rewrite(rule, before)
            plain = dtype in ("float32", "float64")
            assert after is not None or not plain
            assert after is None or len(after) <= len(before)
            if after is not None:
                compare(rule, f, before, after, args, rng)


# Stable forms: the truth is the plain form in numbers of 1,000 digits

#: Numbers with an exponent of any size, and NumPy's functions as their methods.
REALS = mpmath.MPContext()
REALS.dps = 1000
#: Steps of difference quotients, relative to the number.
STEP, SMALLEST = REALS.mpf("1e-60"), REALS.mpf("1e-400")
#: The derivatives of all results, each with the argument and the place it is by.
Slopes = list[tuple[int, tuple[int, ...], Any]]


def exp(x: Any) -> Any:
    """Return the exponential, of a large integer too not by powers of e."""
    half = REALS.mpf(0.5)
    return REALS.exp(x - half) * REALS.exp(half) if abs(x) > 1e3 else REALS.exp(x)


def method(name: str, low: float = -np.inf) -> Callable[[Any], Any]:
    """Return a function as a method, NaN below where it is real."""
    function = exp if name == "exp" else getattr(REALS, name)

    # A difference quotient moves one number, and asks for all the others again.
    @functools.lru_cache(4096)
    def call(x: Any) -> Any:
        if x < low:
            return REALS.nan
        return -REALS.inf if name.startswith("log") and x == low else function(x)

    return call


for name, low in (("exp", -np.inf), ("expm1", -np.inf), ("log", 0), ("log1p", -1),
                  ("sqrt", 0), ("tanh", -np.inf), ("sin", -np.inf), ("cos", -np.inf),
                  ("cosh", -np.inf), ("sinh", -np.inf)):  # fmt: skip
    setattr(REALS.mpf, name, method(name, low))


def as_reals(x: Any) -> Any:
    made = np.empty(np.shape(x), object)
    for place in np.ndindex(made.shape):
        made[place] = REALS.mpf(float(x[place]))
    return made


def value_in_reals(f: Program, args: Args) -> Any:
    made = np.asarray(f(*args), object)
    for place in np.ndindex(made.shape):
        made[place] = REALS.mpf(made[place])
    return made


def partials(f: Program, args: Args) -> Iterator[tuple[int, tuple[int, ...], Any]]:
    """Yield by argument and place the derivative of all results, by differences."""
    args = [np.asarray(x, object) for x in args]
    for i, x in enumerate(args):
        for place in np.ndindex(x.shape):
            step = abs(x[place]) * STEP or SMALLEST
            ends = []
            for sign in (1, -1):
                moved = [np.array(a) for a in args]
                moved[i][place] += sign * step
                ends.append(value_in_reals(f, moved))
            yield i, place, (ends[0] - ends[1]) / (2 * step)


def slopes_in_reals(given: Slopes, g: Any, moves: Args) -> tuple[Args, Any]:
    """Return cotangents, and the tangent."""
    slopes, tangent = [as_reals(np.zeros(x.shape)) for x in moves], 0
    for i, place, slope in given:
        slopes[i][place] = np.sum(g * slope)
        tangent = tangent + slope * moves[i][place]
    return slopes, tangent


def largest_slopes(
    f: Program, args: Args, given: Slopes, g: Any, moves: Args
) -> tuple[Args, Any]:
    """Return the natural scale of both: their terms, and how the inputs' last digits
    change them.
    """
    sizes, size = [as_reals(np.zeros(x.shape)) for x in args], 0
    for i, place, slope in given:
        sizes[i][place] = np.sum(abs(g * slope))
        size = size + abs(slope * moves[i][place])
    slopes, tangent = slopes_in_reals(given, g, moves)
    for k in range(len(args)):
        moved = [a * (1 + STEP) if i == k else a for i, a in enumerate(args)]
        others, other = slopes_in_reals(list(partials(f, moved)), g, moves)
        size = size + abs(other - tangent) / STEP
        for i, (a, b) in enumerate(zip(others, slopes, strict=True)):
            sizes[i] = sizes[i] + abs(a - b) / STEP
    return sizes, size


def rounded(x: Any, dtype: Any) -> Any:
    """Return reals as floats of a dtype."""
    with np.errstate(all="ignore"):
        return np.vectorize(float, otypes=[float])(x).astype(dtype)


def draw_wide(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Return numbers of all sizes."""
    tiny, huge = FAR[dtype]
    sizes = [tiny, 1e-10, 1e-3, 0.5, 1.0, 5.0, 40.0, 90.0, 800.0, 1e5, huge**0.6]
    sizes.append(huge / 8)  # of normal numbers none is 8 times as large
    return np.asarray(rng.normal(size=shape) * rng.choice(sizes, shape)).astype(dtype)


def in_reals(rule: PairRule) -> Program:
    """Return the left side of a rule for numbers of 1,000 digits."""
    scope = {
        **{name: getattr(np, name) for name in dir(np)},
        "expit": lambda x: 1 / (1 + np.exp(-x)),
        "norm": lambda x: np.sqrt(np.sum(x * x)),
        "mul0": lambda a, b: a * b,
        "div0": lambda a, b: a / b,
        "axes": {},
        "axis": {},
        "kept": {"keepdims": True},
    }
    made: Program = eval(f"lambda {', '.join(rule.names)}: {rule.lhs}", scope)
    return made


#: Programs of the stable rules of reductions, over axes of all kinds.
STABLE: dict[str, list[Program]] = {
    "log-sum-exp": [
        lambda x: np.log(np.sum(np.exp(x))),
        lambda x: np.log(np.sum(np.exp(x), axis=-1)),
        lambda x: np.log(np.sum(np.exp(x), axis=0, keepdims=True)),
    ],
    "softmax": [
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True),
        lambda x: np.exp(x) / np.sum(np.exp(x)),
    ],
    "log-softmax": [
        lambda x: np.log(np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)),
        lambda x: np.log(np.exp(2 * x) / np.sum(np.exp(x))),
    ],
    "variance in one pass": [
        lambda x: np.mean(x * x) - np.mean(x) ** 2,
        lambda x: np.mean(x**2, axis=0) - np.mean(x, axis=0) ** 2,
        lambda x: (
            np.mean(np.square(x), axis=-1, keepdims=True)
            - np.square(np.mean(x, axis=-1, keepdims=True))
        ),
    ],
    "vector over its length": [
        lambda x: x / np.linalg.norm(x),
        lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
    ],
    "vector over the root of its squares": [
        lambda x: x / np.sqrt(np.sum(x**2)),
        lambda x: x / np.sqrt(np.sum(x * x, axis=0, keepdims=True)),
        lambda x: x / np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True)),
    ],
    "log of entries of a softmax": [
        lambda x: np.log((np.exp(x) / np.sum(np.exp(x)))[1:]),
        lambda x: np.log(softmax_of(x)[..., 0]),
        lambda x: np.log(softmax_of(x)[np.array([0, 1, 0])]),
    ],
    "softmax in a cotangent": [
        lambda x: 2.0 / np.sum(np.exp(x)) * np.exp(x),
        lambda x: np.exp(x) * (x / np.sum(np.exp(x), axis=-1, keepdims=True)),
        lambda x: (
            np.reshape(3.0 / np.sum(np.exp(x), axis=0), (1, *x.shape[1:])) * np.exp(x)
        ),
        lambda x: (
            np.exp(x)
            * np.sum(x / np.sum(np.exp(x), axis=-1, keepdims=True), -1, keepdims=True)
        ),
    ],
    "probability times a quotient by it": [
        lambda x: (lambda p: np.tanh(x) / p * p)(softmax_of(x)),
        lambda x: (lambda p: p * -(3.0 / p))(softmax_of(x)),
        lambda x: (lambda p: np.tanh(x) * (3.0 / p) * p)(softmax_of(x)),
    ],
}


def softmax_of(x: Any) -> Any:
    """Return the plain form, its exponential and its sum computed each time."""
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def stable(kind: type[Rule]) -> list[Any]:
    return [
        pytest.param(rule, id=name)
        for name, rule in RULES.items()
        if isinstance(rule, kind) and rule.group == "stabilise"
    ]


@np.errstate(over="ignore")
def compare_with_reals(
    f: Program,
    after: wb.Graph,
    args: Args,
    rng: np.random.Generator,
    least: float = 0.0,
    steep: float = 1.0,
) -> None:
    """Assert that a stable form is right where reals are, and finite.

    The natural scale of a derivative is ``least`` times what it is applied to, and as
    many times the numbers up to 1,000 that it is taken at; ``steep`` as many times.
    """
    least *= 1 + min(1e3, max(np.max(np.abs(x), initial=0) for x in args))
    reals = [as_reals(x) for x in args]
    exact = value_in_reals(f, reals)
    (found,) = run(after, args)
    dtype = np.asarray(found).dtype
    scale = abs(exact)
    given = list(partials(f, reals))
    for i, place, slope in given:
        scale = scale + abs(slope * reals[i][place])
    truth = rounded(exact, dtype)
    assert_within(found, truth, np.fmax(rounded(scale, dtype), least), ULPS)
    least *= steep
    if not np.all(np.isfinite(truth)):
        return
    g = draw_array(rng, truth.shape, str(dtype), False)
    moves = [draw_array(rng, x.shape, str(x.dtype), False) for x in args]
    slopes, tangent = derive(after, args, g, moves)
    in_reals = as_reals(g), [as_reals(x) for x in moves]
    true_slopes, true_tangent = slopes_in_reals(given, *in_reals)
    scales, scale = largest_slopes(f, reals, given, *in_reals)
    for a, b, x, size in zip(slopes, true_slopes, args, scales, strict=True):
        size = np.fmax(rounded(size, x.dtype), least * np.max(np.abs(g), initial=0))
        assert_within(a, rounded(b, x.dtype), size, 2 * ULPS)
    dtype = np.asarray(tangent).dtype
    true_tangent = rounded(np.broadcast_to(true_tangent, truth.shape), dtype)
    moved = least * sum(np.sum(np.abs(x)) for x in moves)
    scale = np.fmax(rounded(scale, dtype), moved)
    assert_within(tangent, true_tangent, scale, 2 * ULPS)


def steepness(rule: Rule, args: Args) -> float:
    """Return how steep a rule's left side is: the direction of a vector by its size."""
    if not rule.name.startswith("vector over"):
        return 1.0
    tiny, _ = FAR[str(args[0].dtype)]
    return 1 / max(10 * tiny, float(np.min(np.abs(args[0]), initial=1)))


@pytest.mark.parametrize("rule", stable(PairRule))
def test_a_stable_form_in_reals(rule: PairRule, rng: np.random.Generator) -> None:
    """Its value and derivatives are right where the plain form overflows or cancels."""
    fired = 0
    for k in range(MANY // 4 // len(rule.names) + 1):
        rank = int(rng.integers(3))
        shape = tuple(int(n) for n in rng.integers(1, 3, rank))
        args = []
        for _ in rule.names:
            own = shape[int(rng.integers(rank + 1)) :] if rng.random() < 0.3 else shape
            args.append(draw_wide(rng, own, ("float64", "float32")[k % 2]))
        if "cos(" in rule.lhs or "log(1 -" in rule.lhs:  # 1,000 digits are too few
            args = [np.clip(x, -1e3, 1e3) for x in args]
        before = trace(rule.left, args)
        if before is None or (after := rewrite(rule, before)) is None:
            continue
        fired += 1
        try:
            least = 1 if "digits of 1" in rule.note else 0
            steep = steepness(rule, args)
            compare_with_reals(in_reals(rule), after, args, rng, least, steep)
        except Exception as error:
            error.add_note(f"rule {rule.name!r} at {args!r}\n{before}\nis\n{after}")
            raise
    assert fired, "it never fires"


@pytest.mark.parametrize(
    "rule",
    [x for x in stable(PairRule) if "At infinity the limit" not in RULES[x.id].note],
)
def test_a_stable_form_at_infinity_and_nan(
    rule: PairRule, rng: np.random.Generator
) -> None:
    """The plain form's NaN and infinity stay, but for those of its own overflows."""
    for _ in range(MANY // 2):
        args = draw_args(rng, rule, ("float64", "float32"), True)
        # Neither tiny nor huge: there the plain form may overflow.
        args = [np.where(np.isfinite(x), np.clip(x, -3, 3), x) for x in args]
        before = trace(rule.left, args)
        if before is None or (after := rewrite(rule, before)) is None:
            continue
        (plain,), (found,) = run(before, args), run(after, args)
        with np.errstate(all="ignore"):
            odd, own = sum(x * 0 for x in args), sum(np.isnan(x) for x in args)
            if isinstance(rule, ReductionRule):  # all entries are in each result
                odd, own = np.sum(odd), np.any(own) * np.isnan(plain)
            given = np.isnan(np.broadcast_to(odd, plain.shape))
            own = np.broadcast_to(own, plain.shape)
            kept = given & ~np.isnan(plain)
            mine = (own > 0) & ("NaN" not in rule.note)
        what = str(args)
        np.testing.assert_allclose(found[kept], plain[kept], 1e-3, 1e-6, err_msg=what)
        assert np.all(np.isnan(found[mine])), args


@pytest.mark.parametrize("rule", stable(ReductionRule) + stable(NodeRule))
def test_programs_of_a_stable_rule(rule: Rule, rng: np.random.Generator) -> None:
    assert rule.name in STABLE, "write a program that it rewrites"
    for f in STABLE[rule.name]:
        for shape, dtype in (((2,), "float64"), ((2, 2), "float64"), ((3,), "float32")):
            args = [draw_wide(rng, shape, dtype)]
            before = trace(f, args)
            assert before is not None
            after = rewrite(rule, before)
            assert after is not None, "it does not fire"
            try:
                # Their derivatives are differences of numbers up to 1.
                compare_with_reals(f, after, args, rng, 1.0, steepness(rule, args))
            except Exception as error:
                error.add_note(f"rule {rule.name!r} at {args!r}\n{before}\nis\n{after}")
                raise
