"""Whole programs of Theano's, as they stand, and what they must give.

Rows A2, A3, A4 (the distances), B1 and B2 (the safe angle), C1, C4 and C6 (the toolbox)
run here as their seeds print them.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal
from scipy.spatial import distance

from workbench.compat import theano

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def program() -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs a program with ``import theano`` in place; what it has defined."""
    theano.install()

    def run(name: str, **given: Any) -> dict[str, Any]:
        return runpy.run_path(str(PROGRAMS / f"{name}.py"), given)

    try:
        yield run
    finally:
        theano.uninstall()
        theano.config.floatX = "float64"


def slopes(f: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Central differences of a function of arrays, entry by entry."""
    made = []
    for i, a in enumerate(arrays):
        g = np.zeros(np.shape(a))
        for place in np.ndindex(np.shape(a)):
            ends = []
            for h in (1e-6, -1e-6):
                moved = [np.array(x, dtype=float) for x in arrays]
                moved[i][place] += h
                ends.append(f(*moved))
            g[place] = (ends[0] - ends[1]) / 2e-6
        made.append(g)
    return made


def test_A2_A3_A4_distances(program: Any, rng: np.random.Generator) -> None:
    """A2, A3, A4: the gradient by the inputs, by the outputs, by another op."""
    functions = program("seed_cdist")["functions"]
    a, b, c = (rng.normal(size=n) for n in ((4, 3), (5, 3), (4, 5)))
    want = slopes(lambda a, b: np.sum(c * distance.cdist(a, b)), a, b)
    assert sorted(functions) == ["CdistByInputs", "CdistByOp", "CdistByOutputs"]
    for f in functions.values():
        z, *grads = f(a, b, c)
        assert np.array_equal(z, distance.cdist(a, b))
        for g, w in zip(grads, want, strict=True):
            np.testing.assert_allclose(g, w, atol=1e-7)


@pytest.mark.parametrize("inline", [False, True])
def test_B1_B2_the_safe_angle(program: Any, inline: bool) -> None:
    """B1, B2: 1/1.01 at (1, 0), and no NaN at (0, 0), inlined or whole."""
    made = program("seed_atan2", INLINE=inline)
    np.testing.assert_allclose(made["at_one"], [0.0, 1 / 1.01], rtol=1e-15)
    assert np.signbit(made["at_one"][0])
    assert np.array_equal(made["at_zero"], [0.0, 0.0])


def test_C1_C4_C6_the_toolbox(program: Any, rng: np.random.Generator) -> None:
    """C1, C4, C6: layer by layer as at once, a clipped gradient, a checked one."""
    made = program("seed_gradient")
    assert np.array_equal(made["clipped"], [1.0, 4.0])
    x, t = (rng.normal(size=n).astype("float32") for n in (3, 2))
    got = made["layered"](x, t)
    held = [made["w2"], made["w1"]]
    start = [w.get_value() for w in held]

    def cost(w2: Any, w1: Any) -> Any:
        hidden = np.tanh(x @ w1)
        out = np.tanh(hidden @ w2)
        return np.sum((out - t) ** 2) + np.sum(w2) ** 2 + np.sum(w1) ** 2

    np.testing.assert_allclose(made["cost"](x, t), cost(*start), rtol=1e-12)
    for g, w in zip(got, slopes(cost, *start), strict=True):
        np.testing.assert_allclose(g, w, atol=1e-6)


def test_logistic_regression(program: Any) -> None:
    made = program("logistic_regression")
    w, b = made["first"].copy(), 0.0
    x, y, n = made["data"], made["labels"], made["points"]
    for _ in range(made["steps"]):
        off = 1 / (1 + np.exp(-(x @ w) - b)) - y
        w, b = w - 0.1 * (x.T @ off / n + 0.02 * w), b - 0.1 * np.mean(off)
    np.testing.assert_allclose(made["weights"], w, rtol=1e-10)
    np.testing.assert_allclose(made["bias"], b, rtol=1e-10)
    assert made["right"] == np.mean((x @ w + b > 0) == (y > 0))
    assert made["pred"].dtype == bool


def test_a_network_with_momentum_on_batches_by_index(program: Any) -> None:
    made = program("mlp_momentum")
    params = [p.astype(float) for p in made["start"]]
    speeds = [np.zeros_like(p) for p in params]
    costs = []
    for _ in range(20):
        for i in range(3):
            x, y = (made[k][20 * i : 20 * i + 20] for k in ("raw_x", "raw_y"))
            W, b, V, c = params
            h = np.tanh(x @ W + b)
            line = h @ V + c
            p = np.exp(line - line.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            rows = np.arange(20)
            costs.append(
                -np.mean(np.log(p[rows, y])) + 0.001 * (abs(W).sum() + (V**2).sum())
            )
            p[rows, y] -= 1
            p /= 20
            back = (p @ V.T) * (1 - h**2)
            grads = [
                x.T @ back + 0.001 * np.sign(W),
                back.sum(0),
                h.T @ p + 0.002 * V,
                p.sum(0),
            ]
            speeds = [0.9 * s - 0.05 * g for s, g in zip(speeds, grads, strict=True)]
            params = [p + s for p, s in zip(params, speeds, strict=True)]
    np.testing.assert_allclose(made["costs"], costs, rtol=2e-4)
    for got, want in zip(made["end"], params, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, atol=2e-3)


def test_a_recurrent_network_with_taps(program: Any, rng: np.random.Generator) -> None:
    """C8: gradients through a loop that reads two states and three inputs."""
    made = program("rnn_taps")
    u, h0, target = (rng.normal(size=n) for n in ((7, 2), (2, 3), 5))
    held = [made[k] for k in ("W", "W_before", "W_in", "W_out")]

    def cost(W: Any, W_before: Any, W_in: Any, W_out: Any) -> Any:
        states = list(h0)
        for k in range(1, 6):
            line = sum(u[k - 1 + j] @ W_in[j] for j in range(3))
            states.append(np.tanh(line + states[-1] @ W + states[-2] @ W_before))
        return np.sum((np.stack(states[2:]) @ W_out - target) ** 2)

    values = [w.get_value() for w in held]
    got, h, *grads = made["f"](u, h0, target)
    assert h.shape == (5, 3)
    np.testing.assert_allclose(got, cost(*values), rtol=1e-12)
    for g, w in zip(grads, slopes(cost, *values), strict=True):
        np.testing.assert_allclose(g, w, atol=1e-6)


def test_loops(program: Any) -> None:
    made = program("scans")
    a = np.arange(5.0)
    assert np.array_equal(made["power"](a, 3), a**3)
    np.testing.assert_allclose(made["power_slope"](a, 3), 3 * a**2)
    assert made["polynomial"]([1.0, 0.0, 2.0], 3.0) == 19.0
    assert np.array_equal(made["doubled"](45.0), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    assert made["count"](3) == []
    made["count"](2)
    assert made["total"].get_value() == 10
    squares, added, left, right = made["folds"]([1.0, 2.0, 3.0])
    assert np.array_equal(squares, [1.0, 4.0, 9.0])
    # ((0*2+1)*2+2)*2+3 = 11, and from the other end ((0*2+3)*2+2)*2+1 = 17
    assert (added, left, right) == (6.0, 11.0, 17.0)
    assert np.array_equal(made["outer"](a), np.outer(a, a))
    assert np.array_equal(made["from_the_end"]([1.0, 2.0, 3.0]), [3.0, 5.0, 6.0])


def test_second_order(program: Any, rng: np.random.Generator) -> None:
    """C2, C3: Jacobians and Hessians by loops, at once, and their products."""
    made = program("second_order")
    x, v = rng.normal(size=3), rng.normal(size=3)

    def f(x: Any) -> Any:
        return x**2 * np.sin(x[::-1])

    h = 1e-30
    columns = [f(x + 1j * h * e).imag / h for e in np.eye(3)]
    J = np.stack(columns, axis=1)
    np.testing.assert_allclose(made["jacobian"](x), J, atol=1e-12)
    np.testing.assert_allclose(made["direct"](x), J, atol=1e-12)
    turned = x[::-1]
    # cost = sum(x_i^2 sin(x_{n-1-i})), differentiated twice by hand
    H = np.diag(2 * np.sin(turned) - turned**2 * np.sin(x))
    mixed = 2 * x * np.cos(turned)
    H = H + np.diag(mixed)[:, ::-1] + np.diag(mixed)[:, ::-1].T
    np.testing.assert_allclose(made["hessian"](x), H, atol=1e-12)
    np.testing.assert_allclose(made["hessian_direct"](x), H, atol=1e-12)
    for product in made["products"](x, v):
        np.testing.assert_allclose(product, H @ v, atol=1e-12)
    forward, backward = made["both"]
    W, V, u = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)
    np.testing.assert_allclose(forward(W, V, u), u @ V)
    np.testing.assert_allclose(backward(v, u), np.outer(u, v))


def test_random_variables(program: Any) -> None:
    made = program("dropout")
    f, g = made["f"], made["g"]
    assert not np.any(f() == f())
    assert np.array_equal(g(), g())
    assert np.all(abs(made["nearly_zeros"]()) < 1e-12)
    held = made["rv_u"].rng
    state = held.get_value(borrow=True)
    state.seed(89234)
    held.set_value(state, borrow=True)
    first = f()
    copied = held.get_value()
    second = f()
    held.set_value(copied)
    assert np.array_equal(f(), second)
    made["srng"].seed(902340)
    third = f()
    made["srng"].seed(902340)
    assert np.array_equal(f(), third)
    assert not np.array_equal(first, third)
    x = np.ones((40, 5))
    mask, cost, slope = made["train"](x)
    assert set(np.unique(mask)) == {0.0, 1.0}
    assert abs(mask.mean() - 0.8) < 0.12
    np.testing.assert_allclose(cost, mask.sum() / 0.8 * 3)
    np.testing.assert_allclose(slope, np.tile(mask.sum(0)[:, None] / 0.8, 3))
    normal = made["normal"]()
    assert abs(normal.mean() - 3.0) < 0.03
    assert abs(normal.std() - 0.5) < 0.02
    whole = made["whole"]()
    assert whole.dtype == np.int64
    assert set(whole) == {1, 2, 3, 4, 5, 6}
    picked = made["picked"]()
    assert picked.shape == (500, 3)
    assert not picked[:, 2].any()
    assert abs(picked[:, 1].mean() - 0.8) < 0.1
    assert np.all(picked.sum(1) == 1)
    assert sorted(made["order"]()) == list(range(6))
    assert set(made["chosen"]()) == {0, 1, 2}


def test_state_defaults_and_conditions(program: Any) -> None:
    made = program("counters")
    assert made["seen"] == [0, 1, 301, -1, 2]
    assert made["skipped"] == (7, 2)
    assert made["defaults"] == [68.0, 33.0, 34.0, 66.0]
    assert made["named"] == {"sum": 5.0, "product": 6.0}
    assert made["kept"] == [1.0, 3.0, 6.0]
    with np.errstate(all="raise"):  # the branch not taken would divide by zero
        np.testing.assert_allclose(made["chosen"](-1.0, 0.0), [np.exp(-1)] * 2)
    np.testing.assert_allclose(made["chosen"](2.0, 1.5), [np.log(1.5), 0.0])


def test_filters_and_pooling(program: Any, rng: np.random.Generator) -> None:
    made = program("convolution")
    x = rng.normal(size=(2, 3, 8, 7))
    W, b = made["W"].get_value(), made["b"].get_value()

    def filtered(W: Any, mode: str, flip: bool = True) -> Any:
        kernels = W if flip else W[:, :, ::-1, ::-1]
        return np.array(
            [
                [
                    sum(
                        scipy.signal.convolve2d(image[c], kernel[c], mode)
                        for c in range(3)
                    )
                    for kernel in kernels
                ]
                for image in x
            ]
        )

    def pooled(line: Any) -> Any:
        rows, columns = (n // 2 for n in line.shape[2:])
        cut = line[:, :, : 2 * rows, : 2 * columns]
        return cut.reshape(2, 2, rows, 2, columns, 2).max(axis=(3, 5))

    def cost(W: Any, b: Any) -> Any:
        made = np.tanh(pooled(filtered(W, "valid")) + b[:, None, None])
        return np.sum(made**2)

    line, small, out, got, *grads = made["layer"](x)
    np.testing.assert_allclose(line, filtered(W, "valid"), atol=1e-12)
    np.testing.assert_allclose(small, pooled(line), atol=1e-12)
    np.testing.assert_allclose(out, np.tanh(small + b[:, None, None]), atol=1e-12)
    np.testing.assert_allclose(got, cost(W, b))
    for g, w in zip(grads, slopes(cost, W, b), strict=True):
        np.testing.assert_allclose(g, w, atol=1e-6)
    full = filtered(W, "full")
    # The middle of the full one: 3 rows and 2 columns reach over by 1 and 1.
    np.testing.assert_allclose(made["half"](x), full[:, :, 1:-1:2], atol=1e-12)
    np.testing.assert_allclose(made["full"](x), filtered(W, "full", False), atol=1e-12)
    edge = np.full((2, 3, 8, 8), -np.inf)
    edge[..., :7] = x
    want = edge.reshape(2, 3, 4, 2, 4, 2).max(axis=(3, 5))
    assert np.array_equal(made["partial"](x), want)
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    want = np.stack(
        [
            np.stack(
                [
                    np.nanmean(around[:, :, i : i + 3, j : j + 2], axis=(2, 3))
                    for j in range(0, 8, 2)
                ],
                axis=-1,
            )
            for i in range(8)
        ],
        axis=-2,
    )
    np.testing.assert_allclose(made["average"](x), want, atol=1e-12)


def test_import_theano_in_a_fresh_process() -> None:
    """A script that knows nothing of Workbench runs after one line."""
    script = (
        "from workbench.compat import theano; theano.install()\n"
        "import runpy, sys\n"
        f"made = runpy.run_path({str(PROGRAMS / 'seed_atan2.py')!r})\n"
        "print([float(x) for x in made['at_one']])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[-0.0, 0.9900990099009901]"


def test_a_chain_of_draws_learns_its_patterns(program: Any) -> None:
    made = program("rbm")
    errors = [float(error) for _, error, _ in made["history"]]
    ends = made["history"][-1][2]
    assert set(np.unique(ends)) <= {0.0, 1.0}
    assert np.mean(errors[:5]) > 0.2
    assert np.mean(errors[-20:]) < 0.08


def test_a_language_model_with_gates(program: Any) -> None:
    """C8: gradients through a loop whose step takes a column by a variable."""
    made = program("language_model")
    x, y = made["text"][:-1], made["text"][1:]
    assert np.array_equal(made["predict"](x), y)

    def loss(E: Any, V: Any, U: Any, W: Any, b: Any, c: Any) -> Any:
        state, total = np.zeros(5), 0.0
        for word, follows in zip(x, y, strict=True):
            lines = [U[k] @ E[:, word] + b[k] for k in range(3)]
            update = np.clip(0.2 * (lines[0] + W[0] @ state) + 0.5, 0, 1)
            reset = 1 / (1 + np.exp(-(lines[1] + W[1] @ state)))
            fresh = np.tanh(lines[2] + W[2] @ (state * reset))
            state = (1 - update) * fresh + update * state
            scores = V @ state + c
            total += np.log(np.sum(np.exp(scores))) - scores[follows]
        return total

    now = [p.get_value() for p in made["params"]]
    np.testing.assert_allclose(made["loss"](x, y), loss(*now), rtol=1e-10)
    for g, w in zip(made["first"], slopes(loss, *made["start"]), strict=True):
        np.testing.assert_allclose(g, w, atol=1e-7)


def test_dynamics_sample_a_law(program: Any) -> None:
    made = program("leapfrog")
    seen = np.concatenate(made["seen"])
    np.testing.assert_allclose(seen.mean(0), made["centre"], atol=0.1)
    np.testing.assert_allclose(np.cov(seen.T), made["covariance"], atol=0.2)
    assert 0.8 < made["accepted"].get_value() <= 1


@pytest.mark.parametrize("rule", ["rmsprop", "adam"])
def test_layers_and_rules_of_updates(program: Any, rule: str) -> None:
    made = program("layers")
    first, costs, end, error, name = made["runs"][rule]
    assert name == "W"
    params = [p.astype(float) for p in first]
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    want = []
    for turn in range(30):
        part = slice(20 * (turn % 3), 20 * (turn % 3) + 20)
        x, y, rows = made["raw"][part].astype(float), made["classes"][part], range(20)
        W, b, V, c = params
        h = np.tanh(x @ W + b)
        p = np.exp(h @ V + c)
        p /= p.sum(1, keepdims=True)
        want.append(-np.mean(np.log(p[rows, y])))
        p[rows, y] -= 1
        p /= 20
        back = (p @ V.T) * (1 - h**2)
        grads = [x.T @ back, back.sum(0), h.T @ p, p.sum(0)]
        for k, g in enumerate(grads):
            if rule == "adam":
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g**2
                rate = 0.01 * np.sqrt(1 - 0.999 ** (turn + 1)) / (1 - 0.9 ** (turn + 1))
                params[k] = params[k] - rate * m[k] / (np.sqrt(v[k]) + 1e-8)
            else:
                v[k] = 0.9 * v[k] + 0.1 * g**2
                params[k] = params[k] - 0.01 * g / np.sqrt(v[k] + 1e-6)
    np.testing.assert_allclose(costs, want, rtol=1e-3)
    for got, w in zip(end, params, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, w, atol=2e-3)
    p = np.tanh(made["raw"] @ end[0] + end[1]) @ end[2] + end[3]
    np.testing.assert_allclose(error, np.mean(p.argmax(1) != made["classes"]))
