"""Who is blamed, and who is not: what users of many fields have brought."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.doctor import vanishing
from workbench.errors import UsageError
from workbench.scipy import special, stats


def told(f: Any, *args: Any, **settings: Any) -> list[tuple[str, str]]:
    """Kind and op of each finding."""
    found = wb.diagnose(f, *args, **settings)
    return [(one.kind, one.node.op.name) for one in found]


def loud(f: Any, *args: Any) -> list[str]:
    return [one.kind for one in wb.diagnose(f, *args) if one.severity != "note"]


# Values


def test_data_that_is_not_finite_is_named_and_counted() -> None:
    X = np.ones((5, 3))
    X[4, 1] = np.nan
    (found,) = wb.diagnose(lambda w: np.mean((X @ w) ** 2), np.ones(3))
    assert found.kind == "input-not-finite"
    assert "matmul reads data that is not finite" in found.title
    assert found.evidence == "X holds 1 NaN of 15."
    noise = np.array([np.inf, 1.0])
    (found,) = wb.diagnose(lambda z: np.sum((z - noise) ** 2), np.ones(2))
    assert (found.kind, found.evidence) == (
        "input-not-finite",
        "noise holds 1 infinite of 2.",
    )


def test_G3_an_overflow_is_told_beside_the_zero_that_another_entry_is() -> None:
    # One entry of the logarithm is that of 0, another is NaN from exp.
    kinds = told(
        lambda z: np.sum(np.log(np.exp(z) / np.sum(np.exp(z)) + 0.0)),
        np.array([0.0, 1000.0]),
    )
    assert kinds[0] == ("overflow", "exp")


@pytest.mark.parametrize(
    ("f", "x", "kind", "op", "code"),
    [
        (
            lambda p: np.log(np.prod(p)),
            np.full(400, 0.1),
            "log-of-zero",
            "log",
            "np.sum(np.log(p))",
        ),
        (
            lambda A: np.log(np.linalg.det(A)),
            1e-2 * np.eye(200),
            "log-of-zero",
            "log",
            "np.linalg.slogdet(A)[1]",
        ),
        (
            lambda x: np.log(special.gamma(x)),
            np.array([200.0]),
            "overflow",
            "gamma",
            "workbench.scipy.special.gammaln(x)",
        ),
        (
            lambda y: np.log(np.exp(y) - 1),
            np.array([800.0]),
            "overflow",
            "exp",
            "y + np.log(-np.expm1(-y))",
        ),
        (
            lambda p: special.logit(p),
            np.array([0.5, 1.0]),
            "outside-domain",
            "logit",
            "workbench.scipy.special.logit(np.clip(p, 1e-300, 1 - 1e-12))",
        ),
        (
            lambda p: special.erfinv(p),
            np.array([0.5, 1.0]),
            "outside-domain",
            "erfinv",
            "workbench.scipy.special.erfinv(np.clip(p, -1 + 1e-12, 1 - 1e-12))",
        ),
    ],
)
def test_G3_what_leaves_the_range_before_its_logarithm(
    f: Any, x: Any, kind: str, op: str, code: str
) -> None:
    (found,) = wb.diagnose(f, x)
    assert found.fix is not None
    assert (found.kind, found.node.op.name, found.fix.code) == (kind, op, code)


def test_numbers_of_python_are_as_those_of_numpy() -> None:
    assert told(lambda x: x**0.5, 0.0) == [("infinite-slope", "power")]
    assert told(lambda x: 1 / x, 0.0) == [("division-by-zero", "divide")]
    assert told(lambda x: x**200, 1e10) == [("overflow", "power")]


def test_what_it_refuses_in_its_own_words() -> None:
    with pytest.raises(UsageError, match="x is a symbol without a value"):
        wb.diagnose(lambda x: x**2, wb.vector("x"))
    with pytest.raises(UsageError, match=r"argnums=1\.5 is not a position"):
        wb.diagnose(lambda x: x**2, 1.0, argnums=1.5)  # type: ignore[arg-type]


def test_several_outputs_of_one_op_are_looked_at() -> None:
    assert told(lambda A: np.sum(np.linalg.eigh(A)[1][:, 0] ** 4), np.eye(3)) == [
        ("undetermined", "eigh")
    ]


# Digits


def test_G3_what_a_large_sum_has_swallowed() -> None:
    def f(x: Any) -> Any:
        total = np.float32(1e8)
        for _ in range(50):
            total = total + x
        return total - np.float32(1e8)

    (found,) = wb.diagnose(f, np.float32(1))
    assert (found.kind, found.node.op.name) == ("cancellation", "subtract")
    assert "Its value is 0, and in higher precision 50" in found.evidence


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, c: (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a),
        lambda a, b, c: (np.sqrt(b**2 - 4 * a * c) - b) / (2 * a),
        lambda a, b, c: -(b - np.sqrt(b**2 - 4 * a * c)) / (2 * a),
    ],
)
@pytest.mark.parametrize("b", [1e5, 1e9])
def test_G3_the_small_root_of_a_quadratic(f: Any, b: float) -> None:
    a, c = np.float64(1), np.float64(1)
    (found,) = wb.diagnose(f, a, np.float64(b), c)
    assert found.kind == "cancellation"
    assert found.fix is not None
    names = {"np": np, "a": a, "b": np.float64(b), "c": c}
    root = abs(eval(found.fix.code, names)) / 2
    # Vieta: the product of the roots is c / a, and the large one is well known.
    large = (b + np.sqrt(b * b - 4)) / 2
    assert root * large == pytest.approx(1, rel=1e-14)


# Sizes


def test_an_optimum_is_no_gradient_that_vanishes(rng: np.random.Generator) -> None:
    A, b = rng.normal(size=(20, 5)), rng.normal(size=20)
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    assert loud(lambda x: np.sum((A @ x - b) ** 2), x) == []
    assert loud(lambda m: np.sum((b - m) ** 2), np.mean(b)) == []


def test_units_are_no_alarm() -> None:
    def resonance(C: Any, L: Any) -> Any:
        return 1 / (2 * np.pi * np.sqrt(L * C))

    assert loud(resonance, np.float64(1e-12), np.float64(1e-9)) == []
    assert loud(lambda x: np.sqrt(x), np.float64(1e20)) == []
    # What stands beside a pole moves the result by far more than in proportion.
    assert loud(np.tan, np.float64(np.pi / 2)) == ["exploding"]


def test_G3_what_explodes_step_by_step_is_bounded_at_every_step(
    rng: np.random.Generator,
) -> None:
    A = 2 * np.linalg.qr(rng.normal(size=(6, 6)))[0]

    def f(A: Any, h: Any) -> Any:
        for _ in range(60):
            h = A @ h
        return np.sum(h)

    session = wb.Session(wb.trace(f)(A, np.ones(6)))
    (found,) = session.diagnose()
    assert found.kind == "exploding"
    attached = session.fix(found)
    assert not isinstance(attached, str)
    assert len(attached.matched) == 60
    assert np.linalg.norm(session.grads["h"]) <= 1 + 1e-12
    assert list(session.diagnose()) == []


def test_a_way_round_the_layers_is_told_by_its_worst_line(
    rng: np.random.Generator,
) -> None:
    xs = rng.normal(size=(200, 4, 3))
    W, U = rng.normal(size=(2, 3, 6)), 0.01 * rng.normal(size=(2, 6, 6))

    def f(h: Any) -> Any:
        for x in xs:
            z = 1 / (1 + np.exp(-(x @ W[0] + h @ U[0])))
            new = np.tanh(x @ W[1] + h @ U[1])
            h = z * h + (1 - z) * new
        return np.mean(h[0] ** 2)

    (found,) = wb.diagnose(f, np.zeros((4, 6)))
    assert (found.kind, found.node.op.name) == ("vanishing", "multiply")
    assert "on that line alone" in found.evidence


def test_what_moves_a_result_beyond_all_proportion_explodes() -> None:
    x = np.ones(3)
    found = wb.diagnose(lambda x: np.sum(np.exp(np.exp(5 * x))), x)
    assert [(one.kind, one.node.op.name) for one in found] == [("exploding", "exp")]
    # The largest of its gradients, by hand: 5 exp(5) exp(exp(5)).
    norm = 5 * np.exp(5) * np.exp(np.exp(5)) * 3**0.5
    assert f"it comes to {norm:.3g}" in found[0].evidence
    # Powers and exponentials as they occur are at home with such gradients.
    for f in (lambda x: np.sum((10 * x) ** 50), lambda x: np.sum(np.exp(90 * x))):
        assert loud(f, x) == []


def test_an_explosion_that_small_activations_hide_is_told() -> None:
    W = 2.5 * np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]

    def f(W: Any) -> Any:
        h = np.full(8, 1e-30)
        for _ in range(60):
            h = np.tanh(W @ h)
        return np.sum(h)

    (found,) = wb.diagnose(f, W)
    assert (found.kind, found.node.op.name) == ("exploding", "matmul")
    # Its slope along the way is 2.5 at each step, and tanh is linear there.
    assert "a factor of 2.5 at each" in found.evidence
    assert loud(f, W / 2.5) == []


# Gradients that are 0


@pytest.mark.parametrize(
    "relu",
    [
        lambda z: np.maximum(z, 0),
        lambda z: np.maximum(0, z),
        lambda z: np.where(z > 0, z, 0),
        lambda z: z * (z > 0),
        lambda z: (z > 0) * z,
    ],
)
def test_G3_a_leak_for_dead_units_leaves_those_alive_as_they_are(
    relu: Any, rng: np.random.Generator
) -> None:
    X, A = rng.normal(size=(64, 5)), rng.normal(size=(5, 16))
    b = np.full(16, -60.0)
    b[0] = 0

    def f(b: Any) -> Any:
        return np.mean(relu(X @ A + b) @ np.ones((16, 1)))

    (found,) = wb.diagnose(f, b)
    assert found.kind == "dead-relu"
    assert found.fix is not None
    assert found.fix.code == "np.where(z > 0, z, 0.01 * z)"
    if found.fix.rule is None:
        return
    plain = wb.grad(f)(b)
    override = wb.override("maximum", found.fix.rule)
    leaky = wb.grad(f, overrides=[override])(b)
    alive = np.mean(X @ A[:, 0] > 0)
    assert plain[0] == pytest.approx(alive)
    assert leaky[0] == pytest.approx(alive + 0.01 * (1 - alive))
    assert leaky[1:] == pytest.approx(0.01)
    with wb.overrides(override):
        assert loud(f, b) == []


def test_a_factor_of_zero_is_named(rng: np.random.Generator) -> None:
    X, A = rng.normal(size=(8, 4)), rng.normal(size=(4, 5))

    def f(A: Any, B: Any) -> Any:
        return np.mean((np.tanh(X @ A) @ B - 1) ** 2)

    (found,) = wb.diagnose(f, A, np.zeros((5, 2)))
    assert (found.severity, found.cause) == (
        "note",
        "It is a product, and its operand B is 0 in all entries.",
    )


def test_a_step_is_told_with_a_smooth_one_in_its_names() -> None:
    def code(f: Any) -> str:
        (found,) = wb.diagnose(f, np.array([0.3, -0.4]))
        assert found.fix is not None
        return found.fix.code

    expit = "workbench.scipy.special.expit"
    assert code(lambda x: np.sum(2.0 * (x > 0.1))) == f"{expit}((x - 0.1) / width)"
    assert (
        code(lambda x: np.sum(2.0 * (x + 1 < 2))) == f"{expit}((2 - (x + 1)) / width)"
    )
    assert code(lambda x: np.sum(np.sign(x) * 2)) == "np.tanh(x / width)"
    assert code(lambda x: np.sum(np.heaviside(x, 0.5))) == f"{expit}(x / width)"


# Forms, in the ways people write them


@pytest.mark.parametrize(
    ("f", "x", "code"),
    [
        (
            lambda z: -np.log(np.exp(z[0]) / (np.exp(z[0]) + np.exp(z[1]))),
            np.array([800.0, 0.0]),
            "-np.logaddexp(0, z[1] - z[0])",
        ),
        (
            lambda x: np.log(1 - np.exp(-x)),
            np.array([1e-17]),
            "np.log(-np.expm1(-x))",
        ),
        (
            lambda x: np.sqrt(np.mean(x**2) - np.mean(x) ** 2),
            np.full(7, 1234.567),
            "np.std(x)",
        ),
    ],
)
def test_G3_more_stable_forms(f: Any, x: Any, code: str) -> None:
    (found,) = wb.diagnose(f, x)
    assert found.fix is not None
    assert found.fix.code == code


def test_a_covariance_is_no_variance(rng: np.random.Generator) -> None:
    x = rng.normal(size=50) + 1e8
    y = rng.normal(size=50) + 1e8

    def f(x: Any, y: Any) -> Any:
        return np.mean(x * y) - np.mean(x) * np.mean(y)

    found = wb.diagnose(f, x, y)
    assert found[0].kind == "cancellation"
    assert found[0].fix is not None
    mend = eval(found[0].fix.code, {"np": np, "x": x, "y": y})
    assert mend == pytest.approx(np.cov(x, y, ddof=0)[0, 1], abs=1e-6)


def test_an_operand_of_a_loop_or_of_a_formula_is_not_mistaken() -> None:
    xs = np.array([1.0, np.nan])
    (found,) = wb.diagnose(
        lambda h: np.sum(wb.scan(lambda x, h: h + x, xs, h)), np.float64(0)
    )
    assert "lambda" not in str(found.fix)
    A = np.array([[np.inf, 1.0]])
    (found,) = wb.diagnose(lambda x: np.einsum("ij,j->i", A, x), np.ones(2))
    assert found.evidence == "A holds 1 infinite of 2."


def test_G3_what_vanishes_over_the_steps_of_a_loop() -> None:
    def f(h: Any) -> Any:
        return np.sum(wb.scan(lambda t, h: 0.1 * h + 0 * t, np.arange(60.0), h)[-1])

    assert told(f, np.ones(2)) == [("vanishing", "scan")]


def test_a_nearly_singular_matrix_is_told_so() -> None:
    x = np.arange(8.0)

    def f(scale: Any) -> Any:
        K = np.exp(-0.5 * ((x[:, None] - x) / scale) ** 2)
        return np.sum(np.log(np.diag(np.linalg.cholesky(K))))

    (found,) = wb.diagnose(f, np.float64(8))
    assert (found.kind, found.node.op.name) == ("singular-matrix", "cholesky")
    assert found.fix is not None
    assert found.fix.code == "K + 1e-8 * np.eye(K.shape[-1])"


# Gradients that are 0, and gradients that have vanished


def at_its_least(f: Any, x: Any) -> Any:
    """Return where a loss is least, by Newton's steps."""
    for _ in range(30):
        x = x - np.linalg.solve(wb.hessian(f)(x), wb.grad(f)(x))
    return x


A = np.sin(np.arange(24.0)).reshape(8, 3)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (np.cos, np.pi),
        (lambda x: np.cos(x + np.pi), 1e-9),
        (lambda x: np.sin(x) ** 1, np.pi / 2),
        (lambda x: np.sum(np.sin(x) ** 2 + np.cos(x) ** 2), np.array([0.3, 2.0])),
        (lambda x: np.sum(np.linalg.qr(x)[0] ** 2), A[:3] + np.eye(3)),
        (lambda x: np.sum(np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x)))), A[0]),
        (lambda b: np.sum((b + A[0] - np.mean(b + A[0])) ** 3), 0.3),
        (lambda w: np.sum(np.log(np.cosh(A @ w - A[:, 0]))), np.array([1.0, 0, 0])),
        (lambda x: x**4, 0.0),
    ],
)
def test_a_gradient_that_is_0_has_not_vanished(f: Any, x: Any) -> None:
    assert all(kind != "vanishing" for kind, _ in told(f, x))


def test_at_the_least_loss_nothing_has_vanished() -> None:
    target = np.array([1.0, 0, 0, 1, 1, 0, 1, 0])

    def loss(w: Any) -> Any:
        z = A @ w
        return np.mean(np.logaddexp(0, z) - target * z) + 0.1 * np.sum(w**2)

    w = at_its_least(loss, np.zeros(3))
    assert np.linalg.norm(wb.grad(loss)(w)) < 1e-12
    assert told(loss, w) == []


def squash(x: Any, squashed: Any, count: int) -> Any:
    """Return the sum after a function was applied some times."""
    for _ in range(count):
        x = squashed(x)
    return np.sum(x)


@pytest.mark.parametrize(
    ("squashed", "count", "x"),
    [
        (lambda x: 1 / (1 + np.exp(-x)), 50, np.array([0.3, -1.0])),
        (special.expit, 50, np.array([0.3, -1.0])),
        (lambda x: np.tanh(0.1 * x), 40, np.array([0.3, 0.0])),
        (special.expit, 1, np.array([-36.0])),
        (lambda x: np.exp(-(x**2)), 1, np.array([6.0])),
    ],
)
def test_a_gradient_that_shrinks_is_still_told(
    squashed: Any, count: int, x: Any
) -> None:
    def f(x: Any) -> Any:
        return 1 + squash(x, squashed, count)

    assert "vanishing" in [kind for kind, _ in told(f, x)]


RNG = np.random.default_rng(0)
TURNS = np.stack([np.linalg.qr(RNG.normal(size=(6, 6)))[0] for _ in range(37)])
SHIFTS = RNG.normal(size=(37, 6, 1))


def deep(h: Any) -> Any:
    for turn, shift in zip(TURNS, SHIFTS, strict=True):
        h = np.tanh(turn @ h + shift)
    return np.mean((h - 1) ** 2)


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (deep, "tanh"),
        (lambda x: 1 + squash(x[0, :2], special.expit, 50), "expit"),
        (lambda x: 1 + np.sum(np.exp(-36 * x[0, :1] ** 2)), "exp"),
    ],
)
def test_the_rule_for_what_vanishes_lets_it_arrive(f: Any, op: str) -> None:
    x = np.full((6, 4), 1.0)
    session = wb.Session(wb.trace(f)(x), name="faint")
    (found,) = session.diagnose()
    assert (found.kind, found.node.op.name) == ("vanishing", op)
    (faint,) = session.grads.values()
    session.fix(0)
    assert not session.diagnose()
    (g,) = session.grads.values()
    assert np.linalg.norm(g) > 1e-3
    if op == "exp":  # of one node the direction is the true one
        np.testing.assert_allclose(
            g / np.linalg.norm(g), faint / np.linalg.norm(faint), rtol=1e-12
        )


def test_the_rule_for_what_vanishes_says_that_it_may_make_gradients_explode() -> None:
    rng = np.random.default_rng(0)
    layers = 3 * rng.normal(size=(20, 8, 8))

    def f(h: Any) -> Any:
        for w in layers:
            h = np.maximum(np.tanh(h @ w), 0)
        return np.mean((h - 1) ** 2)

    session = wb.Session(wb.trace(f)(rng.normal(size=(4, 8))), name="saturated")
    (found,) = session.diagnose()
    assert (found.kind, found.node.op.name) == ("vanishing", "tanh")
    assert found.fix is not None
    assert "gradients may explode where other factors make them grow" in found.fix.text
    session.fix(0)
    assert [one.kind for one in session.diagnose()] == ["exploding"]


def test_the_other_cure_of_deep_layers_is_a_skip() -> None:
    (found,) = wb.diagnose(deep, np.ones((6, 4)))
    assert found.fix is not None
    assert "or let each layer add to what it reads, h + np.tanh(" in found.fix.text
    assert found.fix.edit is not None
    assert found.fix.edit.after == ("        h = h + np.tanh(turn @ h + shift)",)


def test_a_gradient_of_0_is_told_as_what_it_is() -> None:
    [one] = wb.diagnose(lambda x: np.sum(np.where(x > 0, 3.0, x)), np.ones(3))
    assert (one.kind, one.severity) == ("zero-gradient", "note")
    assert "takes the other operand in all entries" in one.cause


# Steps of a library's function


@pytest.mark.parametrize(
    ("f", "args", "call", "shown"),
    [
        (lambda x, s: np.sum(stats.norm.logpdf(x, 0.0, s)), (np.ones(3), 0.0),
         "stats.norm.logpdf", "s = 0"),
        (lambda s: np.sum(stats.expon.logpdf(np.ones(2), scale=s)), (0.0,),
         "stats.expon.logpdf", "s = 0"),
        (lambda x: np.sum(stats.lognorm.logpdf(x, 0.5)), (np.array([0.0, 1.0]),),
         "stats.lognorm.logpdf", "x from 0 to 1"),
        (lambda x: np.sum(stats.gamma.logpdf(x, 2.0)), (np.array([0.0, 1.0]),),
         "stats.gamma.logpdf", "x from 0 to 1"),
        (lambda x: np.sum(np.corrcoef(x)), (np.ones((2, 5)),), "np.corrcoef", "x = 1"),
    ],
)  # fmt: skip
def test_a_step_of_a_library_is_told_by_the_users_call(
    f: Any, args: Any, call: str, shown: str
) -> None:
    found = wb.diagnose(f, *args)
    assert found
    for one in found:
        assert call in one.title
        assert shown in one.evidence
        # No line of ours to write, and no text that nobody can copy.
        assert one.fix is None
        assert "test_causes.py" in one.place


def test_a_fix_for_a_step_of_a_library_is_in_the_users_names() -> None:
    def f(B: Any) -> Any:
        return stats.multivariate_normal.logpdf(np.ones(3), np.zeros(3), B @ B.T)

    one = wb.diagnose(f, np.ones((3, 3)))[0]
    assert one.fix is not None
    assert one.fix.code == "(B @ B.T) + 1e-8 * np.eye((B @ B.T).shape[-1])"
    [slope] = wb.diagnose(
        lambda a: stats.dirichlet.logpdf(np.array([0.0, 1.0]), a), np.ones(2)
    )
    assert slope.fix is not None
    assert slope.fix.rule == "sanitise_entries"


@pytest.mark.parametrize(
    ("f", "own"),
    [
        (lambda x: np.sum(np.log(stats.norm.cdf(x))), "stats.norm.logcdf"),
        (lambda x: np.sum(np.log(stats.norm.pdf(x))), "stats.norm.logpdf"),
        (lambda x: np.sum(np.log(special.softmax(x))), "special.log_softmax"),
    ],
)
def test_the_logarithm_that_a_library_takes_itself_is_named(f: Any, own: str) -> None:
    one = wb.diagnose(f, np.array([-1000.0, 0.0]))[0]
    assert one.kind == "log-of-zero"
    assert f"{own} takes that logarithm itself" in one.cause


PACKAGE = """\
import numpy as np

def length(v):
    return np.sqrt(np.sum(v ** 2))

def softplus(x):
    return np.log(1 + np.exp(x))
"""


def test_the_files_of_an_installed_package_are_not_to_be_changed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages" / "foreign_lengths"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder.parent))
    import foreign_lengths  # type: ignore[import-not-found]

    [slope] = wb.diagnose(lambda x: foreign_lengths.length(x), np.zeros(3))
    assert "inside foreign_lengths" in slope.title
    assert slope.fix is not None
    assert slope.fix.rule == "safe_sqrt"
    assert slope.fix.edit is not None
    assert Path(slope.fix.edit.file).name == Path(__file__).name
    assert "np.linalg.norm(x)" in slope.fix.edit.after[0]
    [value] = wb.diagnose(lambda x: foreign_lengths.softplus(x), 800.0)
    assert value.kind == "overflow"
    assert value.fix is None


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        (lambda x: 1 / (1 + np.exp(-x)), "sigmoid"),
        (lambda x: 1 / (1 + np.exp2(-x)), "sigmoid"),
        (lambda x: 1 / (1 + np.cosh(x)), None),
        (lambda x: 1 / (1 + np.sinh(x)), None),
        (lambda x: 1 / (1 + np.expm1(x)), None),
    ],
)
def test_a_quotient_of_an_exponential_alone_is_a_sigmoid(unit: Any, name: Any) -> None:
    graph = wb.trace(unit)(wb.Spec((3,), float))
    assert vanishing._classify_unit(graph.outputs[0]) == name
