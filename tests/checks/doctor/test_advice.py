"""What the doctor says to write computes what it stands for.

Programs are written from a family: other operands above and below, an index, a
temperature, each axis, with and without keepdims, square matrices, single numbers. Of
each the line that is offered runs as Python, with the program's own variables, on
random numbers: one of the program's values must come out.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.scipy.special  # which the lines may name

#: Kinds whose line is an input by its name, or something else on purpose.
OTHER = {"disconnected", "near-overflow", "rounded"}
NAMES = {"np": np, "wb": wb, "workbench": workbench}
_count = itertools.count()


def program(*lines: str, given: str) -> Callable[..., Any]:
    """A function whose source the doctor can read, written from its lines."""
    source = f"def f({given}):\n" + "".join(f"    {line}\n" for line in lines)
    name = f"<advice {next(_count)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space = dict(NAMES)
    exec(compile(source, name, "exec"), space)
    return space["f"]  # type: ignore[no-any-return]


def lines_of(f: Any, args: dict[str, Any]) -> list[str]:
    """The lines to write in the program, one for each finding that has one."""
    with np.errstate(all="ignore"):
        found = wb.diagnose(f, *args.values())
    return [
        one.fix.code
        for one in found
        if one.fix and one.fix.rule is None and one.kind not in OTHER
    ]


def run(code: str, variables: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):
        return eval(code, {**NAMES, **variables})


def values(f: Any, args: dict[str, Any]) -> Iterator[Any]:
    """The values of all nodes of a program."""
    with np.errstate(all="ignore"):
        for node in wb.trace(f)(*args.values()).nodes:
            yield node.value


def is_value(made: Any, f: Any, args: dict[str, Any]) -> bool:
    """Whether an array is one of the values of a program where that is finite."""
    return any(
        np.shape(made) == np.shape(y)
        and np.isfinite(y).any()
        and np.allclose(made, y, rtol=1e-7, atol=1e-11)
        for y in values(f, args)
        if not isinstance(y, tuple)
    )


# Quotients of exponentials

AXES = ("", ", axis=0", ", axis=1", ", axis=0, keepdims=True", ", keepdims=True",
        ", axis=1, keepdims=True", ", axis=(0, 1)", ", axis=-1")  # fmt: skip
ABOVE = ("a", "2 * a", "a + c", "a / t", "a - np.max(a)", "a @ c")
BELOW = ("a", "b", "a / t", "a + c", "2 * a", "a.T")
TAKEN = ("", "[0]", "[:, 1]", "[np.arange(3), i]", "[0, 1]")
WHOLES = ("np.log({e}{k} / np.sum({s}{x}))", "np.log(({e} / np.sum({s}{x})){k})",
          "-np.log({e}{k} / np.sum({s}{x})) * 2", "{e}{k} / np.sum({s}{x})",
          "np.log({e}{k} / (np.sum({s}{x})[:, None]))")  # fmt: skip


def squares(rng: np.random.Generator, scale: float) -> dict[str, Any]:
    """Arguments: square matrices, so that a wrong axis has a fitting shape."""
    a, b, c = (rng.normal(size=(3, 3)) for _ in range(3))
    return {"a": a * scale, "b": b * scale, "c": c, "t": rng.uniform(0.5, 2),
            "i": rng.integers(0, 3, 3)}  # fmt: skip


@pytest.mark.parametrize("times", [40, pytest.param(150, marks=pytest.mark.long)])
def test_every_quotient_of_exponentials(times: int, rng: np.random.Generator) -> None:
    family = list(itertools.product(WHOLES, ABOVE, BELOW, AXES, TAKEN))
    offered = 0
    for pick in rng.choice(len(family), times, replace=False):
        whole, above, below, axis, taken = family[pick]
        e, s = f"np.exp({above})", f"np.exp({below})"
        line = whole.format(e=e, s=s, x=axis, k=taken)
        well = squares(rng, 1.0)
        f = program(f"return np.sum({line})", given="a, b, c, t, i")
        try:
            f(**well)
        except (ValueError, IndexError):
            continue
        sick = squares(rng, 3000.0)
        codes = lines_of(f, sick)
        for code in codes:
            if "logsumexp" in code or "logaddexp" in code:
                offered += 1
                assert is_value(run(code, well), f, well), (line, code)
    assert offered > times // 8


def test_what_a_line_of_code_must_not_lose() -> None:
    """The programs of which an operand, an index, a temperature, an axis was lost."""
    a = np.array([-800.0, 1.0])
    b = np.array([1.0, 2.0])
    w = np.array([-800.0, 0.0, 3.0])
    z = np.array([[-800.0, 0.0, 3.0], [1.0, -900.0, 2.0]])
    y = np.array([0, 1])

    def form(f: Any, *args: Any) -> str:
        return next(c for c in lines_of(f, dict(zip("abcd", args, strict=False))) if c)

    assert (
        form(lambda a, b: np.sum(np.log(np.exp(a) / np.sum(np.exp(b)))), a, b)
        == "a - wb.logsumexp(b)"
    )

    def entry(w: Any) -> Any:
        e = np.exp(w)
        return np.log(e[0] / np.sum(e))

    assert form(entry, w) == "w[0] - wb.logsumexp(w)"

    def rows(z: Any) -> Any:
        e = np.exp(z)
        return -np.mean(np.log(e[np.arange(2), y] / np.sum(e, axis=1)))

    assert form(rows, z) == "z[np.arange(2), y] - wb.logsumexp(z, axis=1)"

    def warm(z: Any, t: Any) -> Any:
        return -np.sum(np.log(np.exp(z) / np.sum(np.exp(z / t), axis=1, keepdims=True)))

    # A temperature that is 1 today is a variable all the same.
    for t in (2.0, 1.0, 1):
        assert form(warm, z, t) == "z - wb.logsumexp(z / t, axis=1, keepdims=True)"
    # Where the index takes the diagonal, a wrong axis gives the same entries.
    t = np.arange(3)

    def diagonal(a: Any, t: Any, k: Any) -> Any:
        p = np.exp(a) / np.sum(np.exp(a.T), axis=1)
        return np.sum(np.log(p[np.arange(3), t])) + np.log(p[k, k])

    far = np.array([[800.0, 1.0, 2.0], [790.0, 799.0, 3.0], [1.0, 2.0, 798.0]])
    for code in lines_of(diagonal, {"a": far, "t": t, "k": 0}):
        if "logsumexp" in code:
            assert "keepdims" not in code
    square = np.array([[800.0, 1.0, 2.0], [790.0, 799.0, 3.0], [1.0, 2.0, 798.0]])
    assert (
        form(lambda a: np.sum(np.exp(a) / np.sum(np.exp(a), axis=1)), square)
        == "np.exp(a - wb.logsumexp(a, axis=1))"
    )


# The other forms, each among things that it could lose

X = np.array([0.3, 0.8, 1.7])
OFFSET = np.array([0.1, 0.2, 0.4])
#: An expression of ``x``, ``y`` and ``t``, an operand that makes it sick, and whether
#: a form is known for it. Expressions that look like a form and are none have none.
FORMS = [
    ("np.log(np.sum(np.exp(x)))", 1000 * X, True),
    ("np.log(np.sum(np.exp(x)[1:]))", 1000 * X, True),
    ("np.log(np.sum(np.exp(x) * y))", 1000 * X, False),
    ("np.log(np.sum(np.exp(x)) * y)", 1000 * X, False),
    ("np.log(1 + np.exp(x))", 1000 * X, True),
    ("np.log(t + np.exp(x))", 1000 * X, False),
    ("np.log(y + np.exp(x))", 1000 * X, False),
    ("np.log1p(np.exp(x))", 1000 * X, True),
    ("np.log1p(np.exp(x))[1:]", 1000 * X, True),
    ("np.log(np.exp(x) + np.exp(y))", 1000 * X, True),
    ("np.log(np.exp(x) + np.exp(y))[0]", 1000 * X, True),
    ("np.log(np.exp(x) - 1)", 1000 * X, True),
    ("np.log(np.exp(x) - t)", 1000 * X, False),
    ("1 / (1 + np.exp(x))", 1000 * X, True),
    ("1 / (1 + np.exp(-x))", -1000 * X, True),
    ("y / (1 + np.exp(x))", 1000 * X, True),
    ("1 / (t + np.exp(x))", 1000 * X, False),
    ("t / (1 + np.exp(x))", 1000 * X, True),
    ("np.exp(x) / (1 + np.exp(x))", 1000 * X, True),
    ("np.exp(x) / (t + np.exp(x))", 1000 * X, False),
    ("np.exp(x) / (1 + np.exp(y))", 1000 * X, False),
    ("np.exp(x) / (np.exp(x) + np.exp(y))", 1000 * X, True),
    ("np.exp(x) / (np.exp(y) + np.exp(x))", 1000 * X, True),
    ("np.exp(2 * x) / (np.exp(x) + np.exp(y))", 1000 * X, False),
    ("np.exp(x[0]) / (np.exp(x[0]) + np.exp(x[1]))", 1000 * X, True),
    ("np.exp(x[0]) / (np.exp(x[2]) + np.exp(x[1]))", 1000 * X, False),
    ("np.log(1 / (1 + np.exp(-x)))", -1000 * X, True),
    ("np.log(1 - 1 / (1 + np.exp(-x)))", 100 * X, True),
    ("np.log(1 - 1 / (t + np.exp(-x)))", 100 * X, False),
    ("np.log(1 - np.exp(-x))", 1e-17 * X, True),
    ("np.log(np.prod(x))", np.full(400, 0.1), True),
    ("np.log(np.prod(x, axis=0, keepdims=True))", np.full((400, 2), 0.1), True),
    ("np.log(np.prod(x) * t)", np.full(400, 0.1), False),
    ("np.log(1 + x)", 1e-17 * X, True),
    ("1 - np.cos(x)", 1e-8 * X, True),
    ("t - np.cos(x)", 1e-8 * X, False),
    ("1 - np.cos(x)[1:]", 1e-8 * X, True),
    ("np.exp(x) - 1", 1e-13 * X, True),
    ("np.exp(x) - t", 1e-13 * X, False),
    ("-1 + np.exp(x)", 1e-13 * X, True),
    ("np.cosh(x) - 1", 1e-8 * X, True),
    ("np.mean(x**2) - np.mean(x)**2", 1e7 + OFFSET, True),
    ("np.mean(x**2) - np.mean(y)**2", 1e7 + OFFSET, False),
    ("np.mean(x**2) - np.mean(x[1:])**2", 1e7 + OFFSET, False),
    ("np.mean(x * y) - np.mean(x) * np.mean(y)", 1e8 + OFFSET, True),
    ("np.mean(x * y) - np.mean(x) * np.mean(x)", 1e8 + OFFSET, False),
    ("(x + 1)**2 - (x - 1)**2", 1e14 * X, True),
    ("(x + 1)**t - (x - 1)**t", 1e14 * X, False),
    ("np.sqrt(x + 1) - np.sqrt(x - 1)", 1e14 * X, True),
    ("np.log(x + 1) - np.log(x - 1)", 1e14 * X, True),
    ("-x + np.sqrt(x * x - y)", 1e9 * X, True),
    ("-x + np.sqrt(y * y - x)", 1e9 * X, False),
    ("np.sqrt(x * x - y) - x", 1e9 * X, True),
    ("x - np.sqrt(x**2 - t)", 1e9 * X, True),
    ("np.sqrt(np.mean((x - np.mean(x))**2) - 0 * t)", np.ones(3), False),
    ("(x - np.mean(x)) / np.std(x)", np.ones(3), True),
    ("x / np.sqrt(np.sum(x**2))", np.zeros(3), True),
    ("x / np.linalg.norm(x)", np.zeros(3), True),
    ("np.linalg.norm(x) / np.linalg.norm(x)", np.zeros(3), True),
    ("y // (x - t)", X / 0.8, True),
    ("np.fmod(y, x - t)", X / 0.8, True),
    ("1 / (x - t)", X / 0.8, True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "bad", "known"), FORMS)
def test_every_form_computes_the_same(
    text: str, bad: Any, known: bool, rng: np.random.Generator
) -> None:
    """On random operands, with one number that is 1 and may be another tomorrow."""
    f = program(f"return {text}", given="x, y, t")
    y = 0.5 + 0.1 * np.arange(float(np.size(bad))).reshape(np.shape(bad))
    sick = {"x": bad, "y": y, "t": 1.0 if "**t" not in text else 2}
    well = {"x": rng.uniform(1.5, 3, np.shape(bad)), "y": rng.uniform(0.5, 1, y.shape),
            "t": 1.7}  # fmt: skip
    codes = lines_of(f, sick)
    exact = [c for c in codes if not any(w in c for w in CHANGING)]
    assert bool(exact) == known, codes
    for code in codes:
        made = run(code, well)
        if code in exact:
            assert is_value(made, f, well), code
            assert np.isfinite(run(code, sick)).all(), code


#: What stands in lines that say that they change what is out of bounds.
CHANGING = ("np.maximum(", "np.minimum(", "np.clip(", ".astype(", "np.eye(")


@pytest.mark.parametrize(
    ("text", "bad", "inside"),
    [
        ("np.cosh(x)", [-800.0, 3.0, 800.0], [-20.0, 5.0]),
        ("np.sinh(x)", [-800.0, 3.0], [-20.0, 5.0]),
        ("np.exp(x)", [-800.0, 800.0], [-20.0, 5.0]),
        ("np.exp2(x)", [-1100.0, 1100.0], [-20.0, 1000.0]),
        ("np.expm1(x)", [-800.0, 800.0], [-20.0, 5.0]),
        ("np.log(x)", [0.0, -1.0, 2.0], [1e-10, 3.0]),
        ("np.log1p(x)", [-1.0, -2.0, 2.0], [-0.9, 3.0]),
        ("np.arccos(x)", [1.5, 0.1], [-0.9, 0.9]),
        ("np.arctanh(x)", [1.0, -2.0, 0.1], [-0.9, 0.9]),
        ("np.arccosh(x)", [0.5, 2.0], [1.5, 9.0]),
        ("np.sqrt(x)", [-1.0, 2.0], [1.5, 9.0]),
        ("(x + 1.0) ** -1.5", [-1.0, 2.0], [1.5, 9.0]),
        ("x ** 1.5", [-1.0, 2.0], [1.5, 9.0]),
    ],
)
def test_a_line_that_bounds_an_operand_changes_nothing_inside(
    text: str, bad: list[float], inside: list[float]
) -> None:
    f = program(f"return {text}", given="x")
    (code, *_) = lines_of(f, {"x": np.array(bad)})
    assert np.isfinite(run(code, {"x": np.array(bad)})).all(), code
    x = np.linspace(*inside, 7)
    np.testing.assert_allclose(run(code, {"x": x}), f(x), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, complex])
@pytest.mark.parametrize(
    "text", ["np.log(np.sum(np.exp(x)))", "x / np.sqrt(np.sum(x**2))",
             "np.sqrt(np.sum(x**2))"]
)  # fmt: skip
def test_forms_of_other_dtypes(text: str, dtype: Any, rng: np.random.Generator) -> None:
    """``sqrt(sum(z**2))`` of complex numbers is not a length, for example."""
    f = program(f"return np.sum(np.real({text}))", given="x")
    scale = 0 if "sqrt" in text else 1e5 if dtype is np.float32 else 1e3
    sick = {"x": (scale * X).astype(dtype)}
    well = {"x": rng.uniform(0.5, 2, 3).astype(dtype)}
    if dtype is complex:
        well["x"] = well["x"] + 1j * rng.uniform(0.5, 2, 3)
    for code in lines_of(f, sick):
        if not any(w in code for w in CHANGING):
            made = run(code, well)
            tolerance = {np.float16: 2e-2, np.float32: 1e-5}.get(dtype, 1e-9)
            assert any(
                np.shape(made) == np.shape(y)
                and np.allclose(made, y, rtol=tolerance, atol=0)
                for y in values(f, well)
            ), code


# Which variable is meant


def test_a_variable_that_is_assigned_anew_is_told_apart() -> None:
    f = program("z = np.exp(z)", "return np.sum(z / np.sum(z))", given="z")
    with np.errstate(all="ignore"):
        (found,) = wb.diagnose(f, 1000 * X)
    assert found.fix is not None
    assert found.fix.code == "workbench.scipy.special.softmax(z)"
    assert "(with the z of `np.exp(z)`)" in found.fix.text


def test_a_variable_of_another_function_is_told_apart() -> None:
    f = program(
        "def softmax(v):", "    return np.exp(v) / np.sum(np.exp(v))",
        "return np.sum(np.log(softmax(2 * z)))", given="z",
    )  # fmt: skip
    with np.errstate(all="ignore"):
        found = wb.diagnose(f, 1000 * X)[0]
    assert found.fix is not None
    assert "(with the v of `np.exp(v)`)" in found.fix.text


def test_an_operand_of_a_function_of_several_ops_is_none_of_each() -> None:
    """``softplus(x)`` is recorded as ``logaddexp(0, x)``: its first operand is 0."""
    assert "x" in str(wb.diagnose(lambda x: np.log(x), np.zeros(1))[0].evidence)
    found = wb.diagnose(
        lambda x: np.log(workbench.scipy.special.softplus(x)), np.array([-1000.0])
    )
    assert all("logaddexp" not in str(one.fix) for one in found)


# Units, steps, positions


def test_the_leak_of_a_unit_keeps_its_upper_bound(rng: np.random.Generator) -> None:
    A, W = rng.normal(size=(64, 5)), rng.normal(size=(5, 16))

    def f(b: Any) -> Any:
        z = A @ W + b
        return np.mean(np.clip(z, 0, 6) @ np.ones((16, 1)))

    (code,) = lines_of(f, {"b": np.full(16, -60.0)})
    z = rng.normal(size=(4, 4)) * 6
    expected = np.where(z > 0, np.minimum(z, 6), 0.01 * z)
    np.testing.assert_array_equal(run(code, {"z": z}), expected)


@pytest.mark.parametrize("offset", [0.0, 60.0])
@pytest.mark.parametrize(
    "unit", ["np.tanh(z)", "1 / (1 + np.exp(-z))", "workbench.scipy.special.expit(z)"]
)
def test_what_scales_a_saturated_unit_wakes_it_up(
    unit: str, offset: float, rng: np.random.Generator
) -> None:
    f = program(
        f"z = x + {offset}", f"y = {unit}", "return np.mean(y @ np.ones((5, 1)))",
        given="x",
    )  # fmt: skip
    x = rng.normal(size=(20, 5)) * (1 if offset else 150)
    (code,) = lines_of(f, {"x": x})
    z = run(code, {"z": x + offset})
    assert np.mean(1 - np.tanh(z / 2) ** 2 > 0.1) > 0.5, code


def test_weights_that_shrink_are_scaled_up(rng: np.random.Generator) -> None:
    W = 0.15 * np.linalg.qr(rng.normal(size=(8, 8)))[0]

    def f(h: Any, W: Any) -> Any:
        for _ in range(14):
            h = np.tanh(h @ W)
        return np.mean((h + np.linspace(-1, 1, 8)) ** 2)

    codes = lines_of(f, {"h": rng.normal(size=(6, 8)), "W": W})
    made = run(codes[0], {"W": W})
    np.testing.assert_allclose(made, W / 0.15)


def test_a_position_has_a_smooth_one_and_a_cast_its_own_rounding() -> None:
    x = np.array([0.1, 2.7, -1.2])
    for text, position in (("np.argmax", 1), ("np.argmin", 2)):
        f = program(f"return np.sum({text}(x) * 2.0)", given="x")
        (code,) = lines_of(f, {"x": x})
        assert run(code, {"x": 100 * x}) == pytest.approx(position)
    f = program("return np.sum(x.astype(int) * 2.0)", given="x")
    (code,) = lines_of(f, {"x": x})
    np.testing.assert_array_equal(run(code, {"x": x}), x.astype(int))
