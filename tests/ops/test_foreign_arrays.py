"""Arrays of another library go through the same code, as CuPy's do on a GPU.

`Foreign` stands in for an array of CuPy: it has what CuPy has, and refuses what it
refuses. Where no GPU is at hand, this finds a rule that makes an array in the wrong
place, and an op that CuPy cannot compute.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.gpu.stand_in import Foreign, inner
from tests.gpu.surface import SURFACE
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from tests.project.supported import special_on_host
from workbench import gradient
from workbench.backends.numpy import compile
from workbench.core.op import declare
from workbench.core.tensor import value_of
from workbench.errors import GradientError, UsageError
from workbench.ops import device
from workbench.scipy import fft as wfft
from workbench.scipy import linalg

pytestmark = pytest.mark.usefixtures("stand_in")

W = np.arange(12.0).reshape(3, 4) / 7 - 0.6
B = np.array([0.1, -0.2, 0.3])

#: Programs of x in R⁴, a matrix in R³ˣ⁴ and a vector in R³.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "network": lambda x, W, b: np.sum(np.tanh(W @ x + b) ** 2),
    "log-sum-exp": lambda x, W, b: np.log(np.sum(np.exp(W @ x))) + np.mean(b),
    "where": lambda x, W, b: np.sum(np.where(x > 0, np.sqrt(abs(x)), x)) + b[0],
    "maximum": lambda x, W, b: np.sum(np.maximum(W, 0) @ np.clip(x, -0.5, 0.5)) * b[1],
    "max": lambda x, W, b: np.max(W * x) + np.prod(b) + np.var(x),
    "slices": lambda x, W, b: np.sum(x[1:] * x[:-1]) + W[1, 2] * np.sum(b[::-1]),
    "shapes": lambda x, W, b: (
        np.sum(np.reshape(W, (2, 6)).T @ np.concatenate([b, -b]).reshape(6, 1)[:2])
        * np.sum(np.stack([x, x * x]))
    ),
    "einsum": lambda x, W, b: np.einsum("i,ij,j->", b, W, x) + np.linalg.norm(x),
    "powers": lambda x, W, b: np.sum(np.abs(x) ** 1.5) + np.sum(2.0**b) / 3,
    "outer": lambda x, W, b: np.sum(np.outer(b, x) * W) + np.sum(np.cumsum(x) ** 2),
}


def write_to_views(x: Any, W: Any, b: Any) -> Any:
    """Entries, slices and transposes of a value, written to by operators."""
    y = W * x
    y[1:] *= b[1]
    row = y[0]
    row += x
    y.T[1] -= b
    y[2, ::2] = b[:2]
    return np.sum(y * y) + np.sum(row)


PROGRAMS["views"] = write_to_views


def both(f: Callable[..., Any], rng: np.random.Generator) -> None:
    """The same on foreign arrays as on NumPy's, and foreign results."""
    args = (rng.standard_normal(4), W, B)
    expected = f(*args)
    made = inner(f(*map(Foreign, args)))
    if not isinstance(expected, (tuple, list)):
        expected, made = [expected], [made]
    for got, truth in zip(made, expected, strict=True):
        assert got.dtype == np.asarray(truth).dtype
        np.testing.assert_allclose(got, truth, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, rng: np.random.Generator) -> None:
    both(wb.grad(PROGRAMS[name], (0, 1, 2)), rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode(name: str, rng: np.random.Generator) -> None:
    f = PROGRAMS[name]
    both(lambda *args: wb.jvp(f, args, args)[1], rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_order(name: str, rng: np.random.Generator) -> None:
    f = PROGRAMS[name]
    both(lambda *args: wb.hvp(f, args, args), rng)
    both(
        lambda *args: wb.grad(lambda x: np.sum(wb.grad(f)(x, *args[1:])))(args[0]), rng
    )


@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, W, b: np.tanh(W @ x) * b,
        lambda x, W, b: np.outer(x, W @ x),
        lambda x, W, b: np.where(x > 0, x * x, 0),
    ],
)
def test_jacobians(f: Any, mode: Any, rng: np.random.Generator) -> None:
    both(wb.jacobian(f, mode=mode), rng)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, W, b: np.sum(wb.at(W)[1, 2].max(b[0])),
        lambda x, W, b: np.sum(wb.at(W)[1, 2].min(x[0]) * W),
        lambda x, W, b: wb.at(b[0])[(None,)].set(x[:1]),
        lambda x, W, b: np.resize(x, ()) + b[0],
    ],
)
def test_one_entry_of_an_array(f: Any, rng: np.random.Generator) -> None:
    """CuPy takes the shape () for none given."""
    both(f, rng)
    both(wb.grad(f, (0, 1, 2)), rng)
    both(lambda *args: wb.jvp(f, args, args)[1], rng)


def test_hessians(rng: np.random.Generator) -> None:
    both(wb.hessian(PROGRAMS["network"]), rng)
    both(wb.hessian(PROGRAMS["log-sum-exp"]), rng)


def test_structures(rng: np.random.Generator) -> None:
    """A pattern with a constant, and one whose rule is that of its ops."""
    linear = wb.pattern(lambda W, x, b: W @ x + 2 * b)
    given = [wb.override(linear, "0.5 * d")]

    def f(x: Any, W: Any, b: Any) -> Any:
        return np.sum(np.tanh(W @ x + 2 * b))

    both(wb.grad(f, (0, 1, 2), overrides=given), rng)
    both(lambda *args: wb.jvp(f, args, args, overrides=given)[1], rng)
    both(wb.hessian(f, overrides=given), rng)
    both(wb.grad(f, 0, overrides=given), rng)


def test_batches(rng: np.random.Generator) -> None:
    def f(x: Any, W: Any, b: Any) -> Any:
        rows = W * x
        return wb.vmap(wb.grad(lambda r, k: np.sum(np.sin(r) * k)), (0, 0))(rows, b)

    both(f, rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_backend(name: str, rng: np.random.Generator) -> None:
    """A graph traced on shapes alone runs wherever its inputs are."""
    specs = [wb.Spec(s, np.dtype(float)) for s in ((4,), (3, 4), (3,))]
    function = compile(wb.trace(PROGRAMS[name])(*specs))
    both(function, rng)


def test_mixing_is_refused_as_by_cupy() -> None:
    with pytest.raises(TypeError, match="a NumPy array among"):
        Foreign(np.ones(2)) + np.ones(2)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: wb.grad(lambda x, y: np.sum(np.tanh(x) * y))(x, y),
        lambda x, y: wb.grad(lambda x, y: np.sum(y @ np.tanh(x)))(x, y),
        lambda x, y: wb.grad(lambda x: np.sum(np.concatenate([y, x])))(x),
        lambda x, y: wb.grad(lambda x: np.sum(np.where(x > 0, x, y)))(x),
        lambda x, y: wb.compile(lambda y: np.sum(y * x), backend="numpy")(y),
        lambda x, y: wb.Session(wb.trace(lambda x, y: np.sum(x * y))(x, y)),
        lambda x, y: wb.jvp(np.sin, (x,), (y,)),
        lambda x, y: wb.vjp(np.sin, x)[1](y),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_arrays_of_both_kinds_are_told_which_to_move(mix: Any, turned: bool) -> None:
    x, y = Foreign(np.ones((2, 2))), np.ones((2, 2))
    told = r"NumPy's .* in the memory of the CPU, and CuPy's .* on the GPU.*to_gpu"
    with pytest.raises(UsageError, match=told):
        mix(y, x) if turned else mix(x, y)


#: Programs that were written with what CuPy's functions do not know.
SPELLED: dict[str, Callable[..., Any]] = {
    "identity": lambda x, W, b: np.sum(np.eye(3, like=b) @ W) + np.sum(b**2),
    "a diagonal": lambda x, W, b: np.sum(np.eye(3, 4, 1, like=b) * W) * b[0],
    "ones": lambda x, W, b: np.ones((2, 3), like=b) @ W @ x,
    "numbers of no axes": lambda x, W, b: (
        np.ones((), like=W) * b + np.full((), 2.0, like=W) * x[:3]
    ),
    "a number": lambda x, W, b: np.full(3, 2.5, like=b) * b,
    "initial": lambda x, W, b: np.max(x, initial=0.1) + np.min(W, 1, initial=-0.1),
    "where": lambda x, W, b: np.sum(W, where=W > 0) * np.mean(b, where=b > 0),
    "a variance": lambda x, W, b: np.var(W, axis=1, where=W > -0.5) * b,
    "power 0": lambda x, W, b: np.linalg.matrix_power(W[:, :3], 0) @ b,
    "lstsq": lambda x, W, b: np.linalg.lstsq(W.T + np.eye(4, 3, like=W), x)[0] * b,
    "companion": lambda x, W, b: linalg.companion(b) * x[0],
    "leslie": lambda x, W, b: linalg.leslie(x, b),
    "while": lambda x, W, b: wb.while_loop(
        lambda v: np.sum(v**2) < 9, lambda v: 1.5 * v, b, max_steps=9
    ),
    "scan": lambda x, W, b: wb.scan(lambda row, c, x: np.tanh(c + row @ x), W, b[0], x),
    "cond": lambda x, W, b: wb.cond(
        np.sum(b) > 0, lambda v: np.sin(v), lambda v: v * v, b
    ),
    "draws": lambda x, W, b: wb.random.default_rng(3).normal(b, np.exp(x[:3])),
    "fixed point": lambda x, W, b: wb.fixed_point(
        lambda y, a: 0.3 * np.cos(y) * a, 0 * b, b
    ),
}


@pytest.mark.parametrize("name", SPELLED)
def test_another_spelling_takes_the_place_of_what_cupy_lacks(
    name: str, rng: np.random.Generator
) -> None:
    def loss(*args: Any) -> Any:
        return np.sum(np.tanh(SPELLED[name](*args)))

    both(wb.grad(loss, (0, 1, 2)), rng)
    both(lambda x, W, b: wb.jvp(loss, (x, W, b), (x, W, b))[1], rng)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("what", ["jacobian", "hessian", "of a matrix"])
def test_symbolic_derivatives_are_where_their_arguments_are(
    what: str, known: bool, rng: np.random.Generator
) -> None:
    matrix = what == "of a matrix"
    x: Any = (
        wb.matrix("x", shape=(3, 3) if known else None)
        if matrix
        else wb.vector("x", shape=3 if known else None)
    )
    made = {
        "jacobian": lambda: gradient.jacobian(np.tanh(x) * x[::-1], x),
        "hessian": lambda: gradient.hessian(np.sum(np.tanh(x)) ** 2, x),
        "of a matrix": lambda: gradient.jacobian(x @ x, x),
    }[what]()
    f = wb.function([x], made)
    value = rng.normal(size=(3, 3) if matrix else 3)
    np.testing.assert_allclose(inner(f(Foreign(value))), f(value), atol=1e-15)


@pytest.mark.parametrize("kind", ["dct", "dst"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_cosine_transforms_without_what_cupy_lacks(
    kind: str,
    number: int,
    norm: str,
    orthogonal: bool,
    dtype: Any,
    rng: np.random.Generator,
) -> None:
    """Of four types CuPy has two, and no ``orthogonalize=``."""
    x = rng.normal(size=(3, 5)).astype(dtype)
    if dtype == np.complex128:
        x = x + 1j * rng.normal(size=(3, 5))
    settings: dict[str, Any] = {"type": number, "norm": norm}
    transform = getattr(wfft, kind)
    made = transform(Foreign(x), **settings, orthogonalize=orthogonal)
    expected = transform(x, **settings, orthogonalize=orthogonal)
    assert made.dtype == expected.dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(inner(made), expected, tolerance, tolerance)


def test_the_doctor_looks_at_foreign_arrays() -> None:
    """A form is proved there, and offered."""
    with np.errstate(all="ignore"):
        found = wb.diagnose(
            lambda a: np.log(np.sum(np.exp(a))), Foreign(np.array([1.0, 2000.0]))
        )
    assert found[0].fix is not None
    assert found[0].fix.code == "wb.logsumexp(a)"


@pytest.mark.parametrize("name", ["network", "where", "einsum", "max"])
@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.long)])
def test_gradients_are_checked_where_they_are(name: str, order: int) -> None:
    """Differences are taken in main memory; the program runs on its own arrays."""
    x = np.array([0.3, -0.7, 1.1, 0.2])
    seen = []

    def f(*args: Any) -> Any:
        # Traced once without values, it runs there as well.
        seen.append(all(isinstance(value_of(a), Foreign | None) for a in args))
        return PROGRAMS[name](*args)

    report = wb.check_grads(f, (Foreign(x), Foreign(W), Foreign(B)), order=order)
    assert report.ok
    assert len(report.comparisons) >= 6
    assert all(seen)
    wrong = wb.override("tanh", "2 * d")
    if name == "network" and order == 1:
        with wb.overrides(wrong):
            assert (
                wb.check_grads(f, tuple(map(Foreign, (x, W, B)))).verdict == "changed"
            )


def test_a_wrong_rule_is_found_there_too() -> None:
    class Cube(wb.Op):
        def compute(self, x: Any) -> Any:
            return x**3

        def vjp(self, node: Any, g: Any) -> Any:
            return 2 * g * node.inputs[0] ** 2

    with pytest.raises(GradientError, match="cube"):
        wb.check_grads(
            lambda x: np.sum(Cube()(x)), (Foreign(np.ones(3)),), modes=("rev",)
        )


def test_a_session_is_checked_where_it_is() -> None:
    x = Foreign(np.array([0.3, -0.7, 1.1]))
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(x))
    assert session.check().ok
    assert wb.plots.check(session) is not None


@pytest.mark.parametrize(
    "refused",
    [
        lambda c: np.eye(3, like=c),
        lambda c: np.ones(3, like=c),
        lambda c: np.max(c, initial=0),
        lambda c: np.sum(c, where=c > 1),
        lambda c: np.tanh(c, where=True),
        lambda c: np.clip(c, min=0),
        lambda c: np.maximum.reduce(c),
        lambda c: np.linalg.multi_dot([c, c]),
        lambda c: c.max(initial=0),
    ],
)
def test_what_cupy_refuses_is_refused(refused: Any) -> None:
    with pytest.raises((TypeError, NotImplementedError)):
        refused(Foreign(np.ones(3)))


#: Samples that mix arrays of NumPy's and of CuPy's, which is the user's to mend.
MIXED = {
    "fftfreq": "NumPy makes the frequencies",
    "Slerp": "a table of NumPy's, and tables are not moved",
    **dict.fromkeys(
        ("sparse @ vector", "sparse @ matrix", "vector @ sparse", "matrix @ sparse",
         "constant * x", "x - constant", "constant / x"),
        "the sparse array is SciPy's",
    ),
    **dict.fromkeys(
        ("store entries", "store out"), "np.zeros_like makes a plain array of CuPy's"
    ),
    **{
        s.name: "a table of NumPy's, and tables are not moved"
        for s in SAMPLES
        if getattr(s.f, "__module__", "") == "tests.ops.samples.interpolation"
    },
}  # fmt: skip


@pytest.fixture
def _refused_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no array leave the device but for an op that says so, and is listed."""
    fetch, compute = Foreign.get, device.compute_on_host
    free: list[str] = []

    def get(self: Foreign) -> Any:
        assert free or self.size <= 1, "an array leaves the device, silently"
        return fetch(self)

    def compute_on_host(name: str, *args: Any) -> Any:
        assert name in device.ON_HOST or name in special_on_host()
        free.append(name)
        try:
            return compute(name, *args)
        finally:
            free.pop()

    monkeypatch.setattr(Foreign, "get", get)
    monkeypatch.setattr(Foreign, "tolist", lambda self: get(self).tolist())
    monkeypatch.setattr(device, "compute_on_host", compute_on_host)


@pytest.mark.usefixtures("_refused_transfers")
@parametrize_chunks(
    "sample", {s.name: (s,) for s in SAMPLES if "f" in s.kinds}, alike=ALIKE_IN_KIND
)
@pytest.mark.filterwarnings("ignore:.*is computed on the CPU")
def test_every_sample_has_its_value_and_derivatives_there(
    sample: Sample, rng: np.random.Generator
) -> None:
    if sample.name in MIXED:
        pytest.skip(MIXED[sample.name])
    args = [np.asarray(a, np.float64) for a in sample.arguments(rng)]
    y, pullback = wb.vjp(sample.f, *args)
    seed = rng.standard_normal(np.shape(y))
    made, foreign = wb.vjp(sample.f, *map(Foreign, args))
    assert made.dtype == np.asarray(y).dtype
    np.testing.assert_allclose(inner(made), y, rtol=1e-9, atol=1e-12)
    for got, truth in zip(foreign(Foreign(seed)), pullback(seed), strict=True):
        np.testing.assert_allclose(inner(got), truth, rtol=1e-8, atol=1e-11)
    moves = [rng.standard_normal(a.shape) for a in args]
    _, truth = wb.jvp(sample.f, tuple(args), tuple(moves))
    _, got = wb.jvp(sample.f, tuple(map(Foreign, args)), tuple(map(Foreign, moves)))
    np.testing.assert_allclose(inner(got), truth, rtol=1e-8, atol=1e-11)


@pytest.mark.filterwarnings("ignore:.*is computed on the CPU")
@parametrize_chunks(
    "sample",
    {s.name: (s,) for s in SAMPLES if "f" in s.kinds and s.order > 1},
)
@pytest.mark.long
def test_every_sample_has_its_second_derivatives_there(
    sample: Sample, rng: np.random.Generator
) -> None:
    if sample.name in MIXED:
        pytest.skip(MIXED[sample.name])
    args = tuple(np.asarray(a, np.float64) for a in sample.arguments(rng))
    moves = tuple(rng.standard_normal(a.shape) for a in args)
    seed = rng.standard_normal(np.shape(sample.f(*args)))

    def loss(*args: Any) -> Any:
        y = sample.f(*args)
        return np.sum(np.real(y * np.asarray(seed, like=y)))

    truth = wb.hvp(loss, args, moves)
    got = wb.hvp(loss, tuple(map(Foreign, args)), tuple(map(Foreign, moves)))
    for a, b in zip(got, truth, strict=True):
        np.testing.assert_allclose(inner(a), b, rtol=1e-6, atol=1e-8)


def test_an_op_that_leaves_the_device_says_so_once() -> None:
    device._WARNED.discard("sqrtm")
    x = Foreign(np.array([[2.0, 0.5], [0.5, 1.0]]))
    with pytest.warns(
        RuntimeWarning,
        match="^sqrtm is computed on the CPU: CuPy has no Schur decomposition",
    ) as caught:
        y = linalg.sqrtm(x)
    assert isinstance(y, Foreign)
    assert caught[0].filename == __file__  # the line of the user's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.sqrtm(x)


def test_many_operands_of_one_type_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[type] = []
    monkeypatch.setattr(device, "is_device_type", asked.append)
    np.testing.assert_array_equal(declare("stack").compute(*[B] * 99, axis=0), [B] * 99)
    assert asked == [np.ndarray]


def test_entries_are_put_into_an_array_of_no_axes() -> None:
    y = declare("scatter").compute(Foreign(np.ones(1)), key=(None,), shape=())
    assert y.shape == ()
    assert inner(y) == 1


def test_few_ops_leave_the_device() -> None:
    """None that works entry by entry, and none that CuPy has."""
    functions = {
        n for names in SURFACE.values() if isinstance(names, dict) for n in names
    }
    assert len(device.ON_HOST) + len(special_on_host()) <= 150
    for name, reason in device.ON_HOST.items():
        if reason == "solver with SciPy's settings":  # CuPy's own take others
            continue
        op = declare(name)
        assert not op.elementwise
        assert name not in functions, f"CuPy has {name}"
