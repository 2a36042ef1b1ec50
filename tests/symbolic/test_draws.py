"""Draws of random numbers in expressions: anew in each call, reproducible by seed."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb


def test_a_symbol_among_the_parameters_makes_a_draw_wait() -> None:
    rng, plain = wb.random.default_rng(7), np.random.default_rng(7)
    mu = wb.scalar("mu")
    y = rng.normal(mu, 2.0, size=3)
    draw = wb.function([mu], [y, wb.grad(np.sum(y * y), mu)])
    for _ in range(3):  # the state goes on from call to call
        values, slope = draw(5.0)
        z = plain.standard_normal(3)
        np.testing.assert_allclose(values, 5 + 2 * z)
        np.testing.assert_allclose(slope, np.sum(2 * (5 + 2 * z)))


def test_a_stream_draws_when_the_program_runs() -> None:
    rng, plain = wb.random.stream(3), np.random.default_rng(3)
    u = rng.uniform(size=4)
    f = wb.function([], [u, u - u])
    first, none = f()
    np.testing.assert_array_equal(first, plain.uniform(size=4))
    np.testing.assert_array_equal(none, 0)  # one number within one call
    np.testing.assert_array_equal(f()[0], plain.uniform(size=4))


def test_two_functions_share_one_stream() -> None:
    rng, plain = wb.random.stream(11), np.random.default_rng(11)
    u, n = rng.uniform(size=2), rng.normal(size=2)
    f, g = wb.function([], u), wb.function([], n)
    np.testing.assert_array_equal(f(), plain.uniform(size=2))
    np.testing.assert_array_equal(g(), plain.normal(size=2))
    np.testing.assert_array_equal(f(), plain.uniform(size=2))


def test_another_generator_in_its_place() -> None:
    rng = wb.random.stream(0)
    f = wb.function([], rng.exponential(2.0, size=3))
    rng.shared.set_value(np.random.default_rng(5))
    np.testing.assert_array_equal(f(), np.random.default_rng(5).exponential(2.0, 3))
    kept = rng.shared.get_value()  # a copy: drawing from it moves nothing
    ahead = kept.exponential(2.0, 3)
    np.testing.assert_array_equal(f(), ahead)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.permutation(6),
        lambda rng: rng.choice(9, 4),
        lambda rng: rng.integers(0, 5, size=3),
        lambda rng: rng.gamma(2.0, 3.0, size=2),
        lambda rng: rng.multivariate_normal(np.zeros(2), np.eye(2)),
        lambda rng: rng.dirichlet([1.0, 2.0]),
        lambda rng: rng.poisson(3.0, size=3),
        lambda rng: rng.standard_t(4.0, size=2),
        lambda rng: rng.random(),
    ],
)
def test_every_kind_of_draw_is_the_one_of_numpy(draw: object) -> None:
    made = wb.function([], draw(wb.random.stream(1)))  # type: ignore[operator]
    plain = np.random.default_rng(1)
    for _ in range(2):
        np.testing.assert_array_equal(made(), draw(plain))  # type: ignore[operator]


def test_outside_of_expressions_nothing_changes() -> None:
    rng, plain = wb.random.default_rng(2), np.random.default_rng(2)
    assert isinstance(rng.normal(), float)
    plain.normal()
    np.testing.assert_array_equal(rng.choice(5, 3), plain.choice(5, 3))


def test_a_stream_in_a_trace_with_values_draws_at_once() -> None:
    rng, plain = wb.random.stream(4), np.random.default_rng(4)
    g = wb.grad(lambda x: np.sum(x * rng.normal(size=3)))(np.ones(3))
    np.testing.assert_array_equal(g, plain.normal(size=3))


def test_threads_draw_different_numbers() -> None:
    f = wb.function([], wb.random.stream(9).normal())
    drawn: list[float] = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(float(f()) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plain = np.random.default_rng(9)
    assert sorted(drawn) == sorted(plain.normal() for _ in range(200))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, x: x + rng.normal(size=x.shape),
        lambda rng, x: x * rng.gamma(2.0, size=x.shape[0]),
        lambda rng, x: x * rng.dirichlet([1.0, 2.0], size=x.shape[0])[:, 0],
        lambda rng, x: x + rng.binomial(5, 0.5, size=2 * x.shape[0])[: x.shape[0]],
        lambda rng, x: rng.permutation(x),
        lambda rng, x: rng.permuted(x),
        lambda rng, x: rng.choice(x, 3),
        lambda rng, x: rng.exponential(x),
    ],
)
def test_lengths_of_draws_may_be_unknown(draw: object) -> None:
    x = wb.vector("x")
    made = wb.function([x], draw(wb.random.stream(1), x))  # type: ignore[operator]
    plain = np.random.default_rng(1)
    for length in (4, 7):
        values = np.arange(1.0, length + 1)
        np.testing.assert_allclose(made(values), draw(plain, values))  # type: ignore[operator]


def test_the_source_draws_too() -> None:
    x = wb.vector("x")
    rng = wb.random.stream(1)
    f = wb.function([x], x + rng.normal(size=x.shape), name="noisy")
    namespace = dict(f.constants)
    exec(f.source, namespace)
    made = namespace["noisy"](np.zeros(3))
    np.testing.assert_array_equal(made, np.random.default_rng(1).normal(size=3))


def test_each_step_of_a_loop_draws_anew() -> None:
    rng, plain = wb.random.stream(0), np.random.default_rng(0)
    walk = wb.scan(lambda c: c + rng.normal(), initial=[0.0], n_steps=5)
    f = wb.function([], walk)
    for _ in range(2):
        np.testing.assert_allclose(f(), np.cumsum(plain.normal(size=5)))


def test_the_parameters_of_a_draw_in_a_loop() -> None:
    rng, plain = wb.random.stream(0), np.random.default_rng(0)
    x = wb.scalar("x")
    walk = wb.scan(lambda c: c + rng.normal(x, 2.0), initial=[0.0], n_steps=3)
    made, slope = wb.function([x], [walk, wb.grad(np.sum(walk), x)])(1.0)
    np.testing.assert_allclose(made, np.cumsum(1 + 2 * plain.standard_normal(3)))
    assert slope == 6.0
