"""JAX's programs here: value and gradients are JAX's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import models

REASON = "pip install autodiff-workbench[jax] flax optax"
jax = pytest.importorskip("jax", reason=REASON)
flax = pytest.importorskip("flax.linen", reason=REASON)
optax = pytest.importorskip("optax", reason=REASON)
pytestmark = pytest.mark.long
jnp, lax = jax.numpy, jax.lax

#: Programs as people write them: a function, its arguments, which of them vary.
PROGRAMS: dict[str, Callable[[Any], tuple[Any, tuple[Any, ...], tuple[int, ...]]]] = {}


def program(make: Callable[[Any], Any]) -> Any:
    PROGRAMS[make.__name__] = make
    return make


class Draws:
    """Normal draws of a dtype, the same each time."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int) -> Any:
        return jnp.asarray(self.rng.normal(size=shape), self.dtype)

    def weights(self, net: Any, *args: Any) -> Any:
        """Weights of a module of flax; its own initialisation takes long to compile."""
        specs = jax.eval_shape(net.init, jax.random.PRNGKey(0), *args)
        return jax.tree.map(lambda spec: self(*spec.shape), specs)

    @property
    def layers(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "param_dtype": self.dtype}


@program
def mlp(draw: Any) -> Any:
    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for w, b in layers[:-1]:
            x = jax.nn.gelu(x @ w + b)
        w, b = layers[-1]
        logs = jax.nn.log_softmax(jax.nn.relu(x) @ w + b)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], 1))

    layers = [(draw(8, 16), draw(16)), (draw(16, 16), draw(16)), (draw(16, 5), draw(5))]
    return loss, (layers, draw(7, 8), jnp.arange(7) % 5), (0,)


@program
def flax_cnn(draw: Any) -> Any:
    class Net(flax.Module):
        @flax.compact
        def __call__(self, x: Any) -> Any:
            x = flax.relu(flax.Conv(8, (3, 3), **draw.layers)(x))
            x = flax.avg_pool(x, (2, 2), (2, 2))
            x = flax.Conv(16, (3, 3), strides=2, feature_group_count=2, **draw.layers)(
                x
            )
            x = flax.swish(flax.GroupNorm(4, **draw.layers)(x))
            x = flax.max_pool(x, (2, 2), (2, 2))
            return flax.Dense(5, **draw.layers)(x.reshape(x.shape[0], -1))

    net, x = Net(), draw(4, 12, 12, 3)
    weights = draw.weights(net, x)
    loss = lambda w, x: jnp.mean(jax.nn.logsumexp(net.apply(w, x), -1))  # noqa: E731
    return loss, (weights, x), (0, 1)


@program
def flax_attention(draw: Any) -> Any:
    class Block(flax.Module):
        @flax.compact
        def __call__(self, tokens: Any) -> Any:
            x = flax.Embed(20, 16, **draw.layers)(tokens)
            h = flax.LayerNorm(**draw.layers)(x)
            heads = flax.MultiHeadDotProductAttention(4, **draw.layers)
            x = x + heads(h, h, mask=flax.make_causal_mask(tokens))
            h = flax.Dense(32, **draw.layers)(flax.LayerNorm(**draw.layers)(x))
            return x + flax.Dense(16, **draw.layers)(flax.gelu(h))

    net, tokens = Block(), jnp.arange(24).reshape(3, 8) % 20
    weights = draw.weights(net, tokens)
    return lambda w: jnp.mean(net.apply(w, tokens) ** 2), (weights,), (0,)


@program
def gru_by_scan(draw: Any) -> Any:
    cell, xs = flax.GRUCell(12, **draw.layers), draw(20, 3, 6)
    weights = draw.weights(cell, jnp.zeros((3, 12), draw.dtype), xs[0])

    def loss(weights: Any, xs: Any) -> Any:
        start = jnp.zeros((3, 12), draw.dtype)
        last, ys = lax.scan(lambda h, x: cell.apply(weights, h, x), start, xs)
        return jnp.sum(last**2) + jnp.mean(ys)

    return loss, (weights, xs), (0, 1)


def oscillate(y: Any, t: Any, constants: Any) -> Any:
    return jnp.array([y[1], -constants[0] * jnp.sin(y[0]) - constants[1] * y[1]])


@program
def pendulum(draw: Any) -> Any:
    def loss(angle: Any, speed: Any, constants: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            a = oscillate(y, 0, constants)
            b = oscillate(y + 0.005 * a, 0, constants)
            c = oscillate(y + 0.005 * b, 0, constants)
            d = oscillate(y + 0.01 * c, 0, constants)
            y = y + 0.01 / 6 * (a + 2 * b + 2 * c + d)
            return y, y[0]

        y, track = lax.scan(step, jnp.array([angle, speed]), None, length=30)
        return jnp.sum(track**2) * 0.01 + y[1]

    cast = lambda x: jnp.asarray(x, draw.dtype)  # noqa: E731
    return loss, (cast(1.0), cast(0.3), cast([9.8, 0.2])), (0, 1, 2)


@program
def odeint(draw: Any) -> Any:
    from jax.experimental.ode import odeint

    def loss(constants: Any) -> Any:
        start = jnp.array([1.0, 0.3], draw.dtype)
        times = jnp.linspace(0.0, 1.0, 3, dtype=draw.dtype)
        return jnp.sum(odeint(oscillate, start, times, constants) ** 2)

    return loss, (jnp.asarray([9.8, 0.2], draw.dtype),), (0,)


@program
def gaussian_process(draw: Any) -> Any:
    x, y = draw(15, 2), draw(15)

    def loss(h: Any) -> Any:
        d = jnp.sum((x[:, None] - x[None]) ** 2, -1)
        k = jnp.exp(h[0] - 0.5 * d * jnp.exp(h[1]))
        chol = jnp.linalg.cholesky(k + jnp.exp(h[2]) * jnp.eye(15, dtype=draw.dtype))
        a = jax.scipy.linalg.solve_triangular(chol, y, lower=True)
        return 0.5 * a @ a + jnp.sum(jnp.log(jnp.diag(chol)))

    return loss, (jnp.asarray([0.1, 0.2, -1.0], draw.dtype),), (0,)


@program
def solves(draw: Any) -> Any:
    def loss(a: Any, b: Any) -> Any:
        a = a @ a.T + 3 * jnp.eye(4, dtype=draw.dtype)
        y = jnp.linalg.solve(a, b) + jax.scipy.linalg.cho_solve(
            jax.scipy.linalg.cho_factor(a), b
        )
        return jnp.sum(y**2) + jnp.linalg.slogdet(a)[1] + jnp.linalg.inv(a)[0, 1]

    return loss, (draw(4, 4), draw(4)), (0, 1)


@program
def decompositions(draw: Any) -> Any:
    def loss(x: Any) -> Any:
        values = jnp.linalg.svd(x, compute_uv=False)
        _, r = jnp.linalg.qr(x)
        w, v = jnp.linalg.eigh(x.T @ x)
        return values[0] + jnp.sum(r**3) + w @ w[::-1] + jnp.sum(jnp.abs(v[:, 0]))

    return loss, (draw(5, 3),), (0,)


@program
def optax_training(draw: Any) -> Any:
    """Three steps of Adam, differentiated by the first weights and the rate."""

    def loss(w: Any, rate: Any, x: Any, y: Any) -> Any:
        optimiser = optax.adam(rate)
        state = optimiser.init(w)
        error = lambda w: optax.huber_loss(jnp.tanh(x @ w), y).mean()  # noqa: E731
        for _ in range(3):
            updates, state = optimiser.update(jax.grad(error)(w), state, w)
            w = optax.apply_updates(w, updates)
        return error(w)

    return loss, (draw(4), jnp.asarray(0.1, draw.dtype), draw(6, 4), draw(6)), (0, 1)


@program
def optax_losses(draw: Any) -> Any:
    def loss(logits: Any, labels: Any) -> Any:
        both = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        each = optax.sigmoid_binary_cross_entropy(logits, 1.0 * labels[:, None])
        return both + each.sum()

    return loss, (draw(5, 3), jnp.arange(5) % 3), (0,)


@program
def indices(draw: Any) -> Any:
    def loss(x: Any) -> Any:
        sums = jax.ops.segment_sum(x * x, jnp.arange(10) % 3, 3)
        most = jax.ops.segment_max(x, jnp.arange(10) % 4, 4)
        edited = x.at[jnp.array([1, 1, 3])].add(2 * x[:3]).at[0].set(5.0)
        edited = edited.at[jnp.array([2, 4])].multiply(x[:2], unique_indices=True)
        block = lax.dynamic_slice(x, (jnp.argmax(x),), (3,))
        picked = x[jnp.argsort(x)[::-1]][:3] @ jnp.arange(3.0, dtype=draw.dtype)
        beyond = x.at[jnp.array([3, 20])].get(mode="fill", fill_value=0.0)
        parts = sums**2, most**3, edited**2, block**2, beyond
        return sum(map(jnp.sum, parts)) + picked

    return loss, (draw(10),), (0,)


@program
def loops_and_choices(draw: Any) -> Any:
    def loss(x: Any) -> Any:
        z = lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)
        w = lax.fori_loop(0, 5, lambda i, v: v * jnp.cos(v) + x[i], x)
        s = lax.switch(jnp.argmax(x) % 3, [jnp.sin, jnp.cos, jnp.tanh], x)
        r = lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x, reverse=True)[1]
        return sum(map(jnp.sum, (z, w, s, r**2)))

    return loss, (draw(6),), (0,)


@program
def special_functions(draw: Any) -> Any:
    special = jax.scipy.special

    def loss(x: Any) -> Any:
        p = jnp.abs(x) + 0.5
        u = jax.nn.sigmoid(x)
        parts = (
            special.gammaln(p), special.digamma(p), special.erf(x),
            special.erfinv(u - 0.5),
            special.betainc(1.5, 2.5, u), special.i0e(x),
            special.i1(x), special.expit(x), special.logsumexp(x), special.xlogy(p, p),
            special.polygamma(1, p), special.log_ndtr(x), jnp.cbrt(p), jnp.sinc(x),
            jax.scipy.stats.norm.logpdf(x), jnp.arctan2(x, p), jnp.hypot(x, p),
        )  # fmt: skip
        return sum(jnp.sum(y) for y in parts)

    return loss, (draw(6),), (0,)


@program
def spectra(draw: Any) -> Any:
    def loss(x: Any) -> Any:
        f = jnp.fft.rfft(x)
        both = jnp.fft.ifft2(jnp.fft.fft2(x.reshape(2, 4)) * 2)
        back = jnp.fft.irfft(f * 1j, n=8)
        return jnp.sum(jnp.abs(f)) + jnp.sum(both.real**3) + jnp.sum(back**2)

    return loss, (draw(8),), (0,)


@program
def reductions(draw: Any) -> Any:
    def loss(x: Any) -> Any:
        running = jnp.prod(jnp.cumsum(x, 1)[:, :2]) + jnp.sum(lax.cummax(x)[-1])
        products = jnp.sum(jnp.cumprod(x, 1)) + jnp.sum(lax.cumlogsumexp(x, 1))
        spread = jnp.var(x, ddof=1) + jnp.std(x) + jnp.median(x) + jnp.linalg.norm(x)
        top = lax.top_k(x, 2)[0].sum() + jnp.sort(x)[:, 0].sum() + x.max() - x.min()
        return running + products + spread + top + jnp.percentile(x, 30.0)

    return loss, (draw(3, 4),), (0,)


@program
def ties_and_kinks(draw: Any) -> Any:
    """The slopes at kinks are JAX's: of relu, clip, max, abs."""

    def loss(x: Any) -> Any:
        w = jnp.arange(1.0, 7.0, dtype=draw.dtype)
        parts = jax.nn.relu(x), jnp.clip(x, -1.0, 1.0), jnp.maximum(x, 0.0), jnp.abs(x)
        more = jax.nn.relu6(x), jax.nn.leaky_relu(x), jax.nn.elu(x), jax.nn.selu(x)
        each = *parts, *more, jax.nn.hard_tanh(x)
        return sum(w @ y for y in each) + jnp.max(x)

    return loss, (jnp.asarray([0.0, 1.0, -1.0, 6.0, 0.5, 6.0], draw.dtype),), (0,)


@program
def dropout_with_key(draw: Any) -> Any:
    def loss(w: Any, x: Any) -> Any:
        key = jax.random.key(3)
        keep = jax.random.bernoulli(key, 0.5, x.shape)
        noise = jax.random.normal(jax.random.fold_in(key, 1), x.shape, draw.dtype)
        return jnp.sum(jnp.tanh(jnp.where(keep, (x + noise) @ w / 0.5, 0)))

    return loss, (draw(4, 4), draw(3, 4)), (0, 1)


@program
def mapped_and_kept(draw: Any) -> Any:
    """`vmap`, `checkpoint`, `jit`, `grad` and einsum inside."""

    def loss(w: Any, x: Any) -> Any:
        f = jax.checkpoint(lambda x: jnp.tanh(w @ x) @ x)
        slopes = jax.vmap(jax.grad(f))(x)
        pairs = jnp.einsum("bi,ij,bj->b", x, w, slopes)
        outer = jax.vmap(jnp.outer)(x, x)
        return jnp.sum(jax.jit(jnp.sin)(pairs)) + jnp.sum(outer[:, 0])

    return loss, (draw(3, 3), draw(5, 3)), (0, 1)


@program
def convolutions(draw: Any) -> Any:
    def loss(x: Any, w: Any, v: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(
            x, w, (2, 1), ((1, 2), (0, -1)), (1, 2), (2, 1), numbers, 2
        )
        z = lax.conv_transpose(x, v, (2, 2), "SAME", dimension_numbers=numbers)
        pooled = lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "SAME"
        )
        return jnp.sum(y**2) + jnp.sum(jnp.sin(z)) + jnp.sum(pooled**3)

    return loss, (draw(2, 6, 5, 4), draw(3, 2, 2, 6), draw(3, 2, 4, 3)), (0, 1, 2)


@program
def einsum_and_named_tuples(draw: Any) -> Any:
    from collections import namedtuple

    Weights = namedtuple("Weights", "q k")

    def loss(w: Any, x: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", x * w["a"].q, x * w["a"].k)
        return jnp.sum(jax.nn.softmax(scores) ** 2)

    return loss, ({"a": Weights(draw(3), draw(3))}, draw(2, 4, 2, 3)), (0, 1)


#: Also in float32, to its digits.
SINGLE = ("mlp", "gaussian_process")


@pytest.fixture
def draw(request: Any) -> Iterator[Draws]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param is np.float64)
    yield Draws(request.param)
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(
    ("name", "draw", "tolerance"),
    [
        *((name, np.float64, 1e-12) for name in PROGRAMS),
        *((name, np.float32, 1e-5) for name in SINGLE),
    ],
    indirect=["draw"],
)
def test_value_and_gradient_are_those_of_jax(
    name: str, draw: Draws, tolerance: float
) -> None:
    loss, args, varied = PROGRAMS[name](draw)
    value, slopes = jax.jit(jax.value_and_grad(loss, varied))(*args)
    given = jax.tree.map(np.asarray, args)
    f = models.from_jax(loss)
    assert float(f(*given)) == pytest.approx(float(value), rel=tolerance)
    own, found = wb.value_and_grad(f, varied)(*given)
    assert float(own) == pytest.approx(float(value), rel=tolerance)
    assert jax.tree.structure(found) == jax.tree.structure(slopes)
    leaves = jax.tree.leaves(found), jax.tree.leaves(slopes)
    for mine, jax_s in zip(*leaves, strict=True):
        scale = max(1.0, float(jnp.max(jnp.abs(jax_s))))
        np.testing.assert_allclose(mine, jax_s, rtol=0, atol=tolerance * scale)
        assert mine.dtype == jax_s.dtype
