"""Graphs as ONNX models, out and in again, and as ONNX's reference runs them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from scipy import signal

import workbench as wb
from tests.models.onnx_programs import HAS_ONNX, NEEDS_ONNX
from tests.ops.samples import SAMPLES
from workbench import models
from workbench.errors import ModelError, UsageError

if HAS_ONNX:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.reference import ReferenceEvaluator

pytestmark = NEEDS_ONNX

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=(3, 3))
IMAGE = RNG.normal(size=(2, 3, 6, 6))
FILTER = RNG.normal(size=(4, 3, 3, 3))

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layer": (lambda x, w: np.tanh(x @ w + w[0]) ** 2, (X, W)),
    "softmax": (
        lambda x: np.exp(x - wb.logsumexp(x, axis=1, keepdims=True)),
        (X,),
    ),
    "branch by entries": (
        lambda x: np.where(x > 0, np.log1p(np.abs(x)), np.expm1(x)),
        (X,),
    ),
    "indices": (lambda x: x[1:3, ::-1] * x[np.array([0, 0]), :2].sum(), (X,)),
    "embedding": (lambda x: np.take(x, np.argsort(x[:, 0]), 0) * X, (X,)),
    "statistics": (lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 0.1), (X,)),
    "joins": (lambda x, w: np.concatenate([x, w]) * np.stack([x[0], w[0]])[0], (X, W)),
    "einsum": (lambda x, w: np.einsum("ij,kj->ik", x, w), (X, W)),
    "running sum": (lambda x: np.cumsum(np.flip(x, 1), 1) ** 2, (X,)),
    "convolution": (
        lambda x, w: wb.max_pool(wb.conv(x, w, padding=1, stride=1), 2),
        (IMAGE, FILTER),
    ),
    "mean pool": (lambda x: wb.mean_pool(x, 3, stride=2, padding=1) ** 2, (IMAGE,)),
    "loop": (
        lambda x, w: wb.scan(lambda r, h: np.tanh(w @ h + r), [x], initial=x[0]),
        (X, W),
    ),
}


def gradient(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    def loss(*xs: Any) -> Any:
        return np.sum(f(*xs) * np.cos(np.arange(f(*xs).size)).reshape(f(*xs).shape))

    return wb.grad(loss, tuple(range(count)))


@pytest.mark.parametrize("kind", ["value", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_goes_out_and_in(name: str, kind: str) -> None:
    f, args = PROGRAMS[name]
    f = f if kind == "value" else gradient(f, len(args))
    graph = wb.trace(f)(*args)
    want = graph.run(args)
    made = models.to_onnx(graph)
    again, weights = models.from_onnx(made)
    feed = {f"x{i}": x for i, x in enumerate(args)}
    reference = ReferenceEvaluator(made).run(None, feed)
    for got in (again(weights, *args), reference):
        for y, right in zip(got, want, strict=True):
            np.testing.assert_allclose(y, right, rtol=1e-11, atol=1e-12)
            assert y.dtype == np.asarray(right).dtype


def test_a_gradient_of_what_came_back_is_the_gradient() -> None:
    f, args = PROGRAMS["layer"]
    again, weights = models.from_onnx(models.to_onnx(wb.trace(f)(*args)))
    slope = wb.grad(lambda x: np.sum(again(weights, x, W)[0]))(X)
    d = RNG.normal(size=X.shape)
    want = np.sum(np.imag(np.tanh((X + 1e-30j * d) @ W + W[0]) ** 2)) / 1e-30
    np.testing.assert_allclose(np.sum(slope * d), want, rtol=1e-12)


def test_overrides_are_in_what_is_written() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.tanh(x))

    cut = wb.override("tanh", "clip(d, -0.1, 0.1)")
    graph = wb.trace(wb.grad(loss, overrides=[cut]))(X)
    f, weights = models.from_onnx(models.to_onnx(graph))
    want = np.clip(1 - np.tanh(X) ** 2, -0.1, 0.1)
    np.testing.assert_allclose(f(weights, X)[0], want, rtol=1e-13)


def test_a_branch_on_symbols_stays_a_branch() -> None:
    x = wb.scalar("x")
    y = wb.cond(x > 0, np.sin, lambda x: x * x, x)
    made = models.to_onnx(wb.Graph([x], [y, wb.grad(y, x)]))
    assert [n.op_type for n in made.graph.node].count("If") == 2
    for at, want in ((2.0, [np.sin(2), np.cos(2)]), (-3.0, [9.0, -6.0])):
        got = ReferenceEvaluator(made).run(None, {"x0": np.array(at)})
        np.testing.assert_allclose(got, want)


def test_a_loop_stays_a_loop_and_its_gradient_too() -> None:
    f, args = PROGRAMS["loop"]
    made = models.to_onnx(wb.trace(gradient(f, 2))(*args))
    assert [n.op_type for n in made.graph.node].count("Scan") == 2


def test_a_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "slope.onnx"
    models.to_onnx(wb.trace(wb.grad(lambda x: np.sum(x**3)))(X), path, opset=18)
    f, weights = models.from_onnx(path)
    np.testing.assert_allclose(f(weights, X)[0], 3 * X**2)


def test_single_precision_stays_single() -> None:
    x = X.astype(np.float32)
    graph = wb.trace(lambda x: 2 * np.log1p(x * x) + 1)(x)
    f, weights = models.from_onnx(models.to_onnx(graph))
    (y,) = f(weights, x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, 2 * np.log1p(x * x) + 1, rtol=1e-6)


def test_what_onnx_cannot_say_is_named_with_its_line() -> None:
    graph = wb.trace(lambda a: np.linalg.svd(a)[1])(W)
    told = r"to_onnx: svd .*\(at test_onnx_export\.py:\d+: .*ONNX has no op for it"
    with pytest.raises(ModelError, match=told):
        models.to_onnx(graph)
    graph = wb.trace(lambda a: np.abs(a + 1j))(W)
    with pytest.raises(ModelError, match="do not compute with complex128"):
        models.to_onnx(graph)


def goes_out(f: Callable[..., Any], *args: Any) -> None:
    """Test a function's model by NumPy, as Workbench and as ONNX run it."""
    want = np.asarray(f(*args))
    graph = wb.trace(f)(*[wb.Spec(x.shape, x.dtype) for x in args])
    made = models.to_onnx(graph)
    again, weights = models.from_onnx(made)
    feed = {f"x{i}": x for i, x in enumerate(args)}
    for got in (again(weights, *args), ReferenceEvaluator(made).run(None, feed)):
        np.testing.assert_allclose(got[0], want, rtol=1e-13, atol=0)
        assert got[0].dtype == want.dtype


NUMBERS = np.array([5.0, -5.0, 1.0, -0.3, 7.5, 1e300])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("by", [0.1, -0.1, 2.0, np.inf, -np.inf, 0.0, np.nan])
def test_quotients_and_rests_are_those_of_numpy(by: float) -> None:
    goes_out(lambda x: x // by, NUMBERS)
    goes_out(lambda x: x % by, NUMBERS)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_lengths_that_are_huge_or_tiny() -> None:
    x = np.array([3.0, 1e200, 1e-200, 0.0, np.inf, np.nan])
    y = np.array([-4.0, 1e200, 1e-200, 0.0, np.nan, 1.0])
    goes_out(np.hypot, x, y)


def test_what_erf_leaves_keeps_its_digits() -> None:
    x = np.array(
        [-np.inf, -3.0, 0.0, 0.4, 0.51, 1.0, 2.0, 5.9, 6.1, 10.0, 20.0, np.inf]
    )
    made = models.to_onnx(wb.trace(scipy.special.erfc)(x))
    f, weights = models.from_onnx(made)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(weights, x)[0], scipy.special.erfc(x), rtol=2e-13)


TRUTHS = np.array([True, True, False, False]), np.array([True, False, True, False])
TWO = np.array([4, -7, 2, 9]), np.array([3, 2, -5, 9])


@pytest.mark.parametrize(
    "f",
    [np.add, np.multiply, np.maximum, np.minimum, np.less, np.less_equal, np.greater,
     np.greater_equal, np.equal, np.not_equal, np.logical_xor, np.bitwise_or,
     lambda a, b: ~a, lambda a, b: np.abs(a), lambda a, b: a * 2.5,
     lambda a, b: np.where(a, 1, 2)],
)  # fmt: skip
def test_booleans_are_computed_with(f: Callable[..., Any]) -> None:
    goes_out(f, *TRUTHS)


@pytest.mark.parametrize(
    "f",
    [np.floor_divide, np.remainder, np.fmod, np.not_equal, np.divide, np.maximum,
     lambda a, b: np.sqrt(a * a), lambda a, b: np.floor(a), lambda a, b: np.rint(a),
     lambda a, b: np.isnan(a), lambda a, b: np.isinf(a), lambda a, b: np.log1p(a * a),
     lambda a, b: np.sin(a.astype(np.int16))],
)  # fmt: skip
def test_integers_are_computed_with(f: Callable[..., Any]) -> None:
    goes_out(f, *TWO)


@pytest.mark.parametrize(
    "key", [(-100, None, -1), (100, None, -2), (None, -100, -1), (3, 1, 1), (1, 1, -1)]
)
def test_slices_beyond_the_ends(key: Any) -> None:
    goes_out(lambda x: x[slice(*key)] * 2, np.arange(3.0))


def test_a_mask_is_refused() -> None:
    x = X[:, 0]
    programs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x: x[x > 0], (x,)),
        (lambda x: np.sum(x[x > 0]), (x,)),
        (wb.grad(lambda x: np.sum(x[x > 0] ** 2)), (x,)),
    ]
    for f, args in programs:
        told = r"a mask takes a number of entries .* Write np\.where\(mask, x, 0\)"
        with pytest.raises(ModelError, match=told):
            models.to_onnx(wb.trace(f)(*args))


def test_places_that_are_computed_count_from_either_end() -> None:
    k = np.array([-1, 0, -1])
    goes_out(lambda x, k: x[k] * 2, X, k)
    goes_out(wb.grad(lambda x, k: np.sum(x[k] ** 2)), X, k)


def test_places_that_are_computed_along_each_axis() -> None:
    def f(x: Any) -> Any:
        return np.take_along_axis(x, np.argsort(x, 1), 1) * np.arange(3)

    goes_out(f, X)
    goes_out(wb.grad(lambda x: np.sum(f(x) ** 2)), X)


def test_a_symbol_that_is_no_input() -> None:
    x, y = wb.vector("x"), wb.vector("y")
    graph = wb.Graph([x], [x * y])
    with pytest.raises(ModelError, match=r"a symbol that is none of its inputs\. Make"):
        models.to_onnx(graph)


def test_what_onnx_does_not_take_is_no_raw_error() -> None:
    graph = wb.trace(lambda x: -x)(wb.Spec((3,), np.dtype(np.uint8)))
    with pytest.raises(ModelError, match="ONNX does not take what was written"):
        models.to_onnx(graph)


def test_versions_that_are_not_written() -> None:
    graph = wb.trace(np.sin)(X)
    for opset in (17, 999):
        with pytest.raises(UsageError, match=f"opset={opset} is not written. Give a"):
            models.to_onnx(graph, opset=opset)


def test_unknown_lengths_are_named() -> None:
    x = wb.tensor("x", shape=(None, 3))
    with pytest.raises(ModelError, match="a length is not known"):
        models.to_onnx(wb.Graph([x], [np.reshape(x, -1)]))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("bad", [0.7, np.inf])
@pytest.mark.parametrize("spelt", ["matmul", "tensordot", "einsum"])
def test_contractions_of_masked_cotangents(spelt: str, bad: float) -> None:
    w = np.array([[1.0, 2.0, -1.0], [0.5, 1.0, 3.0], [2.0, 0.1, bad]])
    x = np.array([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0]])  # the last column is shut
    contract = {
        "matmul": np.matmul,
        "tensordot": lambda x, w: np.tensordot(x, w, 1),
        "einsum": lambda x, w: np.einsum("ij,jk->ik", x, w),
    }[spelt]

    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, contract(x, w), 0.0))

    f_x = wb.trace(wb.grad(f))(x)
    assert any(node.op and node.op.name == f"{spelt}0" for node in f_x.nodes)
    loaded, weights = models.from_onnx(models.to_onnx(f_x))
    want = (x > 0)[:, :2] @ w[:, :2].T
    np.testing.assert_allclose(loaded(weights, x)[0], want, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:divide by zero|invalid value:RuntimeWarning")
def test_angles_roots_and_extrema_beside_nan() -> None:
    around = np.linspace(-3.0, 3.0, 13)
    y, x = np.sin(around), np.cos(around)
    goes_out(np.arctan2, np.append(y, [0.0, 2.0, -2.0]), np.append(x, [0.0, 0.0, 0.0]))
    goes_out(np.cbrt, np.array([-8.0, 0.0, 1e-30, 27.0]))
    first, second = np.array([1.0, np.nan, 3.0]), np.array([2.0, 4.0, np.nan])
    for f in (np.fmax, np.fmin):
        goes_out(f, first, second)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_along_several_axes(mode: str) -> None:
    rng = np.random.default_rng(3)
    image, mask = rng.normal(size=(5, 6)), rng.normal(size=(3, 2))
    goes_out(lambda a, b: signal.convolve2d(a, b, mode), image, mask)
    goes_out(lambda a, b: signal.convolve(a, b, mode), mask, image)
    rows = wb.vmap(lambda a, b: np.convolve(a, b, mode))
    goes_out(rows, image, rng.normal(size=(5, 3)))


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_truths_are_reduced(axis: Any) -> None:
    goes_out(lambda x: np.where(np.all(x > -0.5, axis), x, -x), X)
    goes_out(lambda x: np.where(np.any(x > 0.5, axis), x, -x), X)


def test_truths_of_nothing_are_reduced() -> None:
    for reduce in (np.any, np.all):
        goes_out(lambda x, f=reduce: np.where(f(x > 0, 0), 1.0, 2.0), np.ones((0, 3)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_samples_are_written_right_or_refused() -> None:
    """Whatever can be written means the same; the rest names op and line."""
    right, wrong = 0, []
    refused: list[str] = []
    for sample in SAMPLES[::7]:
        args = [np.asarray(x) for x in sample.arguments(np.random.default_rng(0))]
        if "f" not in sample.kinds or any(x.dtype.kind != "f" for x in args):
            continue
        try:
            graph = wb.trace(wb.grad(lambda *xs, f=sample.f: np.sum(f(*xs))))(*args)
        except wb.errors.WorkbenchError:
            continue  # a result that is no float
        if len(graph.inputs) != len(args):
            continue
        try:
            made = models.to_onnx(graph)
        except ModelError as error:
            refused.append(str(error))
            continue
        f, weights = models.from_onnx(made)
        got, want = f(weights, *args), graph.run(args)
        if all(
            np.allclose(y, z, 1e-9, 1e-11, equal_nan=True)
            for y, z in zip(got, want, strict=True)
        ):
            right += 1
        else:
            wrong.append(sample.name)
    assert not wrong
    place = re.compile(r"to_onnx: \w+ .*\(at .*\): ")
    assert not [text for text in refused if not place.match(text)]
    assert right >= 80, (right, len(refused))
