"""The lines that the doctor says to write: the same values, and finite ones.

A line stands for the expression as a whole, with the user's own names and brackets:
where the program is healthy both give the same numbers, where it was sick the line
gives finite ones.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy import special as scipy_special

import workbench as wb

X = np.linspace(-1.5, 2, 6)
Z = np.stack([X, X[::-1] ** 2])
T = np.array([1, 4])
LEFT = np.array([-1000.0, 2.0])


def written(f: Any, bad: Any) -> str:
    with np.errstate(all="ignore"):
        found = wb.diagnose(f, bad)
    return str(next(one.fix.code for one in found if one.fix is not None))


@pytest.mark.parametrize(
    ("f", "bad", "good"),
    [
        (lambda x: (x - np.mean(x)) / np.std(x), np.ones(4), X),
        (lambda x: (x + 1) / np.sqrt(np.sum((x + 1) ** 2)), -np.ones(3), X),
        (lambda x: (x + 1) / (x - 2), np.array([2.0, 3.0]), X[:5]),
        (lambda x: 1 / (x * x - 1), np.array([1.0, 3.0]), X),
        (lambda x: np.log(np.sum(np.exp(x + 1))), 1000 * X, X),
        (lambda x: np.exp(x) / np.sum(np.exp(x)), 1000 * X, X),
        (lambda x: np.log(np.exp(x - 1) / np.sum(np.exp(x - 1))), 1000 * X, X),
        (
            lambda x: np.log(
                (np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True))[np.arange(2), T]
            ),
            2000 * Z,
            Z,
        ),
        (lambda x: np.log(1 + np.exp(2 * x - 1)), 1000 * X, X),
        (lambda x: np.log(1 - 1 / (1 + np.exp(-x))), 100 * X, X),
        (lambda x: 1 / (1 + np.exp(1 - x)), -1000 * X, X),
        (lambda x: (x + 2) / (1 + np.exp(-(x + 2))), LEFT, X),
        (lambda x: np.exp(x) / (1 + np.exp(x)), 1000 * X, X),
        (lambda x: (x + 1) ** 2 - (x - 1) ** 2, 1e14 * (2 + X), X),
        (lambda x: (np.exp(x / 3) - 1) / x, 1e-12 * X, X),
        (lambda x: 1 - np.cos(2 * x), 1e-7 * (1 + X**2), X),
        (lambda x: np.sqrt(x + 1) - np.sqrt(x - 1), 1e14 * (2 + X), 3 + X),
        (lambda x: np.log(x + 1) - np.log(x - 1), 1e14 * (2 + X), 3 + X),
        (lambda x: np.sign(x) * np.arccos(2 * x), np.array([0.7]), X / 8),
        (lambda x: np.abs(x - 1) + (x - 1) ** 1.5, np.array([0.5]), 3 + X),
        (lambda x: np.arctanh(x / 2), np.array([2.0]), X / 3),
    ],
)
def test_G3_a_line_to_write_keeps_the_values_and_mends(
    f: Any, bad: Any, good: Any
) -> None:
    code = written(f, bad)
    names = {"np": np, "wb": wb, "workbench": wb, "T": T}
    import workbench.scipy.special  # noqa: F401  (which the lines may name)

    # What the line stands for is the last expression, or the first operand of it.
    def whole(x: Any) -> Any:
        return eval(code, {**names, "x": x})

    assert np.isfinite(whole(bad)).all(), code
    expected = [f(good), *parts(f, good)]
    made = whole(good)
    assert any(
        np.shape(y) == np.shape(made) and np.allclose(y, made, rtol=1e-7, atol=1e-12)
        for y in expected
    ), code


def parts(f: Any, x: Any) -> list[Any]:
    """The values of all nodes of a program."""
    return [node.value for node in wb.trace(f)(x).nodes]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.log(x),
        lambda x: np.log(x - 1),
        lambda x: np.log1p(x - 1),
        lambda x: np.arctanh(x + 1),
        lambda x: 1 / (x + 0),
        lambda x: (x + 2) / (x * 1),
    ],
)
def test_a_line_to_write_holds_in_the_dtype_of_its_operand(f: Any, dtype: Any) -> None:
    x = np.zeros(2, dtype)
    code = written(f, x)
    made = eval(code, {"np": np, "x": x})
    assert made.dtype == dtype
    assert np.isfinite(made).all(), code


def test_a_logarithm_of_a_complex_zero() -> None:
    z = np.zeros(1, complex)
    code = written(lambda z: np.log(z), z)
    assert np.isfinite(eval(code, {"np": np, "z": z})).all(), code


def test_what_is_too_long_to_copy_is_left_out() -> None:
    def f(first: Any, second: Any) -> Any:
        return np.arccos(
            np.sin(first) * np.sin(second) + np.cos(first) * np.cos(second) * 1.0
        )

    found = wb.diagnose(f, np.float64(0.5), np.float64(0.5))
    assert "its operand = 1;" in found[0].evidence
    assert "x" not in found[0].evidence.split(";")[0]


def entropy(z: Any) -> Any:
    p = 1 / (1 + np.exp(-z))
    return -np.mean(LABEL * np.log(p) + (1 - LABEL) * np.log(1 - p))


def spread(z: Any) -> Any:
    p = 1 / (1 + np.exp(-z))
    sure = np.log(p)
    return -np.mean(LABEL * sure + (1 - LABEL) * np.log(1 - p))


LABEL = np.array([1.0, 0.0, 0.0, 1.0])


def repeated(z: Any) -> Any:
    p = 1 / (1 + np.exp(-z))
    total = 0.0
    for _ in range(2):
        total = total - np.mean(LABEL * np.log(p) + (1 - LABEL) * np.log(1 - p)) / 2
    return total


@pytest.mark.parametrize("f", [entropy, spread, repeated])
@pytest.mark.parametrize("at", [-800.0, 40.0, 800.0])
@pytest.mark.parametrize("place", [0, 1])
def test_the_logarithms_of_a_sigmoid_have_one_cure(
    f: Any, at: float, place: int
) -> None:
    """Whichever of the two overflows, and also where it is multiplied by 0."""
    z = np.array([1.0, 2.0, -3.0, 4.0])
    z[place] = at
    with np.errstate(all="ignore"):
        found = wb.diagnose(f, z)
    if not found:
        assert np.isfinite(f(z))
        return
    fix = found[0].fix
    assert fix is not None
    assert fix.text.count("; likewise ") == 1
    assert {fix.code, fix.text.split("; likewise ")[1].split(" for ")[0]} == {
        "-np.logaddexp(0, -z)",
        "-np.logaddexp(0, z)",
    }
    # The change writes both, and is right to SciPy's own.
    assert fix.edit is not None
    whole = "".join(inspect.getsource(f)).splitlines()
    k = fix.edit.line - inspect.getsourcelines(f)[1]
    whole[k : k + len(fix.edit.before)] = fix.edit.after
    names: dict[str, Any] = {"np": np, "Any": Any, "LABEL": LABEL}
    exec("\n".join(whole), names)
    g = names[f.__name__]
    expected = -np.mean(
        LABEL * scipy_special.log_expit(z) + (1 - LABEL) * scipy_special.log_expit(-z)
    )
    with np.errstate(all="ignore"):  # the sigmoid, which nothing reads any more
        np.testing.assert_allclose(g(z), expected, rtol=1e-12)
        assert not wb.diagnose(g, z)
