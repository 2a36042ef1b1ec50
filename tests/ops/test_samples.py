"""Every sample: value, both modes, second order, dtype, batching, inference.

The truth is plain NumPy, and differences of plain NumPy: central, extrapolated
from three step sizes. Cotangents pair with tangents as Re(sum(u * t)), so that the
same checks hold for complex arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import draw_share, parametrize_chunks
from tests.ops.samples import ALIKE, ALIKE_IN_KIND, KINKS, SAMPLES, Kink, Sample
from workbench.autodiff.vmap import vmap
from workbench.checks import comparison
from workbench.core.op import OPS
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.trace import record
from workbench.ops.random import NAMES, QUANTILES

KINDS = {"f": np.float64, "c": np.complex128}
NAMED = {sample.name: (sample,) for sample in SAMPLES}
CASES = {
    f"{sample.name}-{kind}": (sample, kind)
    for sample in SAMPLES
    for kind in sample.kinds
}
ALIKE_CASES = {name for name, row in CASES.items() if row[0].name in ALIKE}
BATCHED = {name: row for name, row in NAMED.items() if row[0].batch}


def drawn(sample: Sample, kind: str, rng: np.random.Generator) -> list[Any]:
    args = sample.arguments(rng)
    if kind == "c":
        turns = rng.uniform(-0.4, 0.4, len(args))
        args = [
            a if np.iscomplexobj(a) else a * np.exp(1j * t)
            for a, t in zip(args, turns, strict=True)
        ]
    return [np.asarray(a, KINDS[kind]) for a in args]


def direction(like: Any, rng: np.random.Generator) -> Any:
    like = np.asarray(like)
    made = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        made = made + 1j * rng.normal(size=like.shape)
    return made.astype(like.dtype)


def differences(f: Callable[..., Any], args: list[Any], moves: list[Any]) -> Any:
    """The derivative of ``f`` along ``moves``: error of order h**6.

    No entry moves farther than the largest step, for its argument's size, or a long
    direction would reach the kinks and poles that the samples keep away from.
    """

    def size(x: Any) -> float:
        return float(np.max(np.abs(x), initial=1.0))

    longest = max(size(t) / size(a) for a, t in zip(args, moves, strict=True))

    def central(h: float) -> Any:
        ahead = f(*[a + h * t for a, t in zip(args, moves, strict=True)])
        behind = f(*[a - h * t for a, t in zip(args, moves, strict=True)])
        return (np.asarray(ahead) - np.asarray(behind)) / (2 * h)

    d1, d2, d3 = (central(h / max(1.0, longest)) for h in (2e-3, 1e-3, 5e-4))
    e1, e2 = (4 * d2 - d1) / 3, (4 * d3 - d2) / 3
    return (16 * e2 - e1) / 15


def pairing(a: Any, b: Any) -> Any:
    return np.real(np.sum(np.asarray(a) * np.asarray(b)))


def close(actual: Any, expected: Any, tolerance: float = 1e-7) -> None:
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


@parametrize_chunks("sample kind", CASES, alike=ALIKE_CASES)
def test_value_and_both_modes(
    sample: Sample, kind: str, rng: np.random.Generator
) -> None:
    args = drawn(sample, kind, rng)
    expected = np.asarray(sample.value(*args))
    value, pullback = wb.vjp(sample.f, *args)
    assert not isinstance(value, Tensor)
    assert np.shape(value) == expected.shape
    assert np.asarray(value).dtype == expected.dtype
    # SciPy reaches some values by another way, and with other roundings.
    close(value, expected, 1e-14 if sample.truth is None else 1e-12)
    moves = [direction(a, rng) for a in args]
    truth = differences(sample.value, args, moves)
    _, tangent = wb.jvp(sample.f, tuple(args), tuple(moves))
    assert np.shape(tangent) == expected.shape
    close(tangent, truth)
    seed = direction(expected, rng)
    gradients = pullback(seed)
    for g, a in zip(gradients, args, strict=True):
        assert g.shape == a.shape
        assert g.dtype == a.dtype
    back = sum(pairing(g, t) for g, t in zip(gradients, moves, strict=True))
    close(back, pairing(seed, tangent), 1e-12)


@parametrize_chunks(
    "sample kind",
    {name: row for name, row in CASES.items() if row[0].order == 2},
    alike=ALIKE_CASES,
)
def test_second_order(sample: Sample, kind: str, rng: np.random.Generator) -> None:
    args = drawn(sample, kind, rng)
    seed = direction(sample.f(*args), rng)
    moves = [direction(a, rng) for a in args]

    def gradients(*args: Any) -> Any:
        return wb.vjp(sample.f, *args)[1](seed)

    def flat(*args: Any) -> Any:
        return np.concatenate([np.ravel(g) for g in gradients(*args)])

    truth = differences(flat, args, moves)
    _, tangents = wb.jvp(gradients, tuple(args), tuple(moves))
    close(np.concatenate([np.ravel(t) for t in tangents]), truth)
    # Reverse over reverse, and reverse over forward, by adjointness with the truth.
    weights = [direction(a, rng) for a in args]
    twice = wb.vjp(gradients, *args)[1](tuple(weights))
    back = sum(pairing(g, t) for g, t in zip(twice, moves, strict=True))
    whole = np.concatenate([np.ravel(w) for w in weights])
    close(back, pairing(whole, truth))

    def tangent(*args: Any) -> Any:
        return wb.jvp(sample.f, args, tuple(weights))[1]

    mixed = wb.vjp(tangent, *args)[1](seed)
    back = sum(pairing(g, t) for g, t in zip(mixed, moves, strict=True))
    close(back, pairing(whole, truth))


@parametrize_chunks("sample", NAMED, alike=ALIKE_IN_KIND)
def test_float32_stays(sample: Sample, rng: np.random.Generator) -> None:
    if "f" not in sample.kinds:
        args = [a.astype(np.complex64) for a in drawn(sample, "c", rng)]
    else:
        args = [a.astype(np.float32) for a in drawn(sample, "f", rng)]
    expected = np.asarray(sample.value(*args))
    value, pullback = wb.vjp(sample.f, *args)
    assert np.asarray(value).dtype == expected.dtype
    close(value, expected, 1e-5)
    gradients = pullback(np.ones_like(expected))
    assert [g.dtype for g in gradients] == [a.dtype for a in args]
    _, tangent = wb.jvp(sample.f, tuple(args), tuple(args))
    assert np.asarray(tangent).dtype == expected.dtype


@parametrize_chunks("sample", BATCHED, alike=ALIKE_IN_KIND)
def test_batches_equal_a_loop(sample: Sample, rng: np.random.Generator) -> None:
    """All arguments are batched at once, and of some samples one of them alone."""
    number = len(drawn(sample, sample.kinds[0], rng))
    ways = {(True,) * number}
    if rng.random() < 0.3:
        one = rng.integers(number)
        ways.add(tuple(i == one for i in range(number)))
    check_batches(sample, ways, rng)


@pytest.mark.long
@parametrize_chunks("sample", BATCHED)
def test_batches_of_each_argument(sample: Sample, rng: np.random.Generator) -> None:
    number = len(drawn(sample, sample.kinds[0], rng))
    ways = {tuple(i == k for i in range(number)) for k in range(number)}
    check_batches(sample, ways, rng)


def check_batches(
    sample: Sample, ways: set[tuple[bool, ...]], rng: np.random.Generator
) -> None:
    """Compare batches with loops; a way says for each argument if it is batched."""
    kind = sample.kinds[0]
    batches = [drawn(sample, kind, rng) for _ in range(3)]
    stacked = [np.stack(column) for column in zip(*batches, strict=True)]
    seed = direction(sample.f(*batches[0]), rng)

    def gradients(*args: Any) -> Any:
        return wb.vjp(sample.f, *args)[1](seed)

    def tangent(*args: Any) -> Any:
        return wb.jvp(sample.f, args, tuple(batches[0]))[1]

    for way in ways:
        axes = tuple(0 if batched else None for batched in way)
        args = [s if b else s[0] for s, b in zip(stacked, way, strict=True)]
        rows = [
            [row[i] if b else stacked[i][0] for i, b in enumerate(way)]
            for row in batches
        ]
        close(
            vmap(sample.f, axes)(*args),
            np.stack([np.asarray(sample.f(*row)) for row in rows]),
            1e-12,
        )
        made = vmap(gradients, axes)(*args)
        truth = [
            np.stack(column)
            for column in zip(*(gradients(*r) for r in rows), strict=True)
        ]
        for g, expected in zip(made, truth, strict=True):
            close(g, expected, 1e-11)
        close(
            vmap(tangent, axes)(*args),
            np.stack([np.asarray(tangent(*row)) for row in rows]),
            1e-11,
        )


@parametrize_chunks(
    "sample kind",
    {name: row for name, row in CASES.items() if row[0].batch},
    alike=ALIKE_CASES,
)
def test_inference_without_values(
    sample: Sample, kind: str, rng: np.random.Generator
) -> None:
    args = drawn(sample, kind, rng)
    expected = np.asarray(sample.value(*args))
    specs = [wb.Spec(a.shape, a.dtype) for a in args]
    output = wb.trace(sample.f)(*specs).outputs[0]
    if isinstance(output, Tensor):
        assert output.value is None
        assert (output.shape, output.dtype) == (expected.shape, expected.dtype)


@pytest.mark.parametrize("kink", KINKS, ids=lambda k: k[0])
def test_kinks(kink: Kink) -> None:
    _, f, x, expected = kink
    point = np.array(x)
    np.testing.assert_allclose(wb.grad(f)(point), expected, rtol=1e-12, atol=1e-12)
    for i, unit in enumerate(np.eye(len(x))):
        _, t = wb.jvp(f, (point,), (unit,))
        np.testing.assert_allclose(t, expected[i], rtol=1e-12, atol=1e-12)


#: Ops that no sample of a single function shows, and where they are tested.
ELSEWHERE = {
    "identity": "every test: a leaf",
    "covariance_factor": "tests/ops/test_random.py",
    "custom_linear_solve": "tests/autodiff/test_implicit.py",
    "custom_root": "tests/autodiff/test_implicit.py",
    "grad_clip": "tests/gradient/test_shaped.py",
    "grad_scale": "tests/gradient/test_shaped.py",
    "initial_value_adjoint": "tests/scipy/test_integrate.py",
    "initial_value_problem": "tests/scipy/test_integrate.py",
    "integral": "tests/scipy/test_integrate.py",
    "item": "tests/ops/test_several.py",
    "limit_of_jvp": "tests/autodiff/test_limits.py",
    **dict.fromkeys(
        ("batch", "call", "jvp", "length", "unbroadcast", "vjp"),
        "tests/ops/test_unknown_lengths.py",
    ),
    "jacobian": "tests/gradient/test_unknown_lengths.py",
    "null_gradient": "tests/gradient/test_shaped.py",
    **dict.fromkeys(
        ("cond", "in_steps", "scan", "scan_back", "scan_pad", "scan_window"),
        "tests/control_flow",
    ),
    **dict.fromkeys(
        ("arange", "nonzero_places", "span", "unspan"), "tests/ops/test_spans.py"
    ),
    "strong": "tests/core: a Python number under a ufunc",
    **dict.fromkeys(("to_device", "to_host"), "tests/ops/test_foreign_arrays.py"),
    "stop_gradient": "tests/core",
    "zero_grad": "tests/gradient/test_shaped.py",
    "div0": "tests/core: where never poisons",
    "mul0": "tests/core: where never poisons",
    "matmul0": "tests/core: where never poisons",
    "tensordot0": "tests/core: where never poisons",
    "einsum0": "tests/core: where never poisons",
    "conv0": "tests/ops/test_channels.py: an infinite filter",
    "left_shift": "integers only, no derivative",
    "right_shift": "integers only, no derivative",
    "invert": "integers only, no derivative",
    **dict.fromkeys((*NAMES, *QUANTILES), "tests/ops/test_random.py"),
}


def test_every_op_is_sampled(rng: np.random.Generator) -> None:
    """The third of those alike that each run takes shows every op."""
    assert wb.cond
    assert wb.scan
    assert wb.custom_root
    assert wb.custom_linear_solve  # looked at, their modules declare their ops
    assert comparison.to_host
    seen: set[str] = set()
    values = draw_share(CASES, ALIKE_CASES, "test_value_and_both_modes")
    for sample in {CASES[label][0].name: CASES[label][0] for label in values}.values():
        args = drawn(sample, sample.kinds[0], rng)
        seed = direction(sample.f(*args), rng)

        def gradients(*args: Any, s: Sample = sample, u: Any = seed) -> Any:
            return wb.vjp(s.f, *args)[1](u)

        given = [wb.Spec(a.shape, a.dtype) for a in args] if sample.batch else args
        for f in (sample.f, gradients):
            seen |= {node.op.name for node in wb.trace(f)(*given).nodes}
    own = {
        name
        for name, op in OPS.items()
        if not getattr(op.compute, "__module__", "").startswith("test")
    }
    # Those that other tests declare have not all gone when this one runs.
    own = {name for name in own if "test" not in name}
    assert sorted(own - seen - set(ELSEWHERE)) == []
    assert set(ELSEWHERE) - set(OPS) == set()


def test_sinc_near_zero() -> None:
    # sinc = 1 - z**2 / 6 + z**4 / 120 - ..., z = pi x
    second = wb.grad(wb.grad(np.sinc))
    fourth = wb.grad(wb.grad(second))
    np.testing.assert_allclose(second(0.0), -(np.pi**2) / 3, rtol=1e-14)
    np.testing.assert_allclose(fourth(0.0), np.pi**4 / 5, rtol=1e-14)
    np.testing.assert_allclose(fourth(0.0199999), fourth(0.0200001), rtol=1e-5)


def test_names_are_told_apart() -> None:
    names = [sample.name for sample in SAMPLES]
    assert len(set(names)) == len(names)


def test_the_table_warns_of_nothing(rng: np.random.Generator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sample in SAMPLES:
            sample.f(*drawn(sample, sample.kinds[0], rng))


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_give_what_ops_and_rules_do(kind: str, rng: np.random.Generator) -> None:
    """Of each node with a body: value and derivative, by the ops in there."""
    seen = set()
    for sample in SAMPLES:
        if kind not in sample.kinds:
            continue
        args = drawn(sample, kind, rng)
        with np.errstate(all="ignore"):
            graph = record(lambda leaves, f=sample.f: f(*leaves), args)
        for node in graph.interior:
            op = node.op
            if op.unfold is None or op.custom or op.graphs is not None:
                continue
            shapes = [np.shape(value_of(x)) for x in node.inputs]
            key = f"{op.name} {node.params} {shapes}"
            if key in seen:
                continue
            seen.add(key)
            check_body(node, rng)
    assert len(seen) > (300 if kind == "f" else 100)


def check_body(node: Tensor, rng: np.random.Generator) -> None:
    op, params = node.op, node.params
    values = [np.asarray(value_of(x)) for x in node.inputs]
    assert op.unfold is not None
    made = op.unfold(values, params)
    if made is None:
        return
    (got,) = map(np.asarray, made)
    want = np.asarray(node._value)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), op
    scale = np.max(np.abs(want), initial=0)
    np.testing.assert_allclose(got, want, 1e-12, 1e-13 * scale, err_msg=op.name)
    varied = [i for i, x in enumerate(values) if x.dtype.kind in "fc"]
    if op.pull is None or not varied or want.dtype.kind not in "fc":
        return
    moves = [direction(values[i], rng) for i in varied]

    def along(f: Callable[..., Any]) -> Any:
        def of_varied(*xs: Any) -> Any:
            whole: list[Any] = [*values]
            for i, x in zip(varied, xs, strict=True):
                whole[i] = x
            return f(whole)

        _, moved = wb.jvp(of_varied, tuple(values[i] for i in varied), tuple(moves))
        return np.asarray(moved)

    by_rule = along(lambda xs: apply(op, tuple(xs), params))
    by_body = along(lambda xs: op.unfold(xs, params)[0])
    scale = np.max(np.abs(by_rule), initial=0)
    np.testing.assert_allclose(by_body, by_rule, 1e-9, 1e-10 * scale, err_msg=op.name)
