"""Every sample with lengths that are known only when the program runs.

Value, gradient, tangent and second order are made once, of symbols all of whose
lengths are unknown. They run on the sample's own arrays, and on longer ones where the
sample allows, against the same sample on plain arrays; the text runs alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from workbench.autodiff import forward, reverse
from workbench.backends.numpy import compile
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor

FLOATS = [s for s in SAMPLES if "f" in s.kinds and s.batch]


def drawn(sample: Sample, rng: np.random.Generator) -> list[Any]:
    return [np.asarray(a, np.float64) for a in sample.arguments(rng)]


def symbols(args: list[Any]) -> list[Tensor]:
    return [
        wb.tensor(f"x{i}", dtype=a.dtype, shape=(None,) * a.ndim)
        for i, a in enumerate(args)
    ]


def same(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert np.shape(got) == np.shape(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def run_text(function: Any, arrays: list[Any]) -> Any:
    namespace = dict(function.constants)
    exec(function.source, namespace)
    made = namespace["function"](*arrays)
    return list(made) if isinstance(made, tuple) else [made]


#: What mathematics does not define on twice as many rows.
ONE_LENGTH = {
    "interp": "knots that do not ascend",
    **{
        s.name: "places that do not ascend"
        for s in FLOATS
        if getattr(s.f, "__module__", "") == "tests.ops.samples.interpolation"
    },
    "linalg.fractional_matrix_power": "a singular matrix, whose power is complex",
    "linalg.polar left": "a singular matrix, whose square root has no slope",
}

#: What has to know a length, and why.
NOT: dict[str, str] = {
    "poly": "NumPy iterates over the roots before it asks the protocol",
    "unpacked": "iterates over the rows",
    "unstack": "returns as many arrays as there are rows",
    "BSpline": "whether the coefficients suffice depends on both numbers",
    "PPoly integral": "the degree decides how often it multiplies",
    "BSpline slope": "which coefficients are padding depends on their number",
    "RegularGridInterpolator cubic": "the grid is plain, and its lengths are known",
    "RegularGridInterpolator linear": "the grid is plain, and its lengths are known",
    **{
        s.name: "how many conditions there are decides the knots"
        for s in FLOATS
        if s.name.startswith(("make_interp", "RBFInterpolator"))
    },
    **{
        s.name: "how long a filter is decides how many windows there are"
        for s in FLOATS
        if s.name.startswith(("conv ", "conv_transpose"))
    },
    "zoom": "the new length is a rounded product",
    "squareform": "a whole number of points must fit to the number of distances",
    "nearest neighbours": "points must have as many coordinates as the tree",
    **{
        s.name: "a rotation has three numbers or four"
        for s in FLOATS
        if s.name.startswith("rotation ")
    },
    "squeeze": "without axis=: which axes are 1 long decides the rank",
    "histogramdd": "returns as many arrays as there are columns",
    "cross": "vectors of length 2 or 3: that decides the rank",
    "cross axes": "vectors of length 2 or 3: that decides the rank",
    "linalg.lstsq (3, 2)": "more rows than columns or not: that decides the rank",
    "linalg.lstsq (2, 3)": "more rows than columns or not: that decides the rank",
    "linalg.lstsq rest": "more rows than columns or not: that decides the rank",
    "linalg.pinvh": "asks for values",
    "svd projectors 3 by 3": "the sample itself calls np.arange(n)",
    "svd projectors 3 by 2": "the sample itself calls np.arange(n)",
    "svd projectors 2 by 3": "the sample itself calls np.arange(n)",
    "sparse diagonals": "the places of entries depend on the length",
    "sparse expm": "the places of entries depend on the length",
    **{
        f"sparse {name}": "the solver looks at the right side"
        for name in ("cg", "minres", "gmres", "bicgstab")
    },
    "sparse solve matrix": "the solver looks at the right side",
    **{
        s.name: "expressions of symbols have no memory to be written to"
        for s in FLOATS
        if s.name.startswith("store ") and s.name != "store whole"
    },
}
#: To a symbol ``y *= x`` is another value of the name, as in Theano.
NOT_SYMBOLS = {*NOT, "store whole"}


@parametrize_chunks(
    "sample",
    {s.name: (s,) for s in FLOATS if s.name not in NOT_SYMBOLS},
    alike=ALIKE_IN_KIND,
)
def test_samples(sample: Sample, rng: np.random.Generator) -> None:
    args = drawn(sample, rng)
    xs = symbols(args)
    y = sample.f(*xs)
    expected = sample.f(*args)
    if not isinstance(y, Tensor):
        same(y, expected)
        return
    seed = wb.tensor("seed", dtype=y.dtype, shape=y.shape)
    ts = [wb.tensor(f"t{i}", dtype=x.dtype, shape=x.shape) for i, x in enumerate(xs)]
    gradients = reverse.pull_back([y], [seed], xs, record=True)
    (tangent,) = forward.push_forward([y], xs, ts, record=True)
    weight = np.asarray(rng.standard_normal(np.shape(expected)), y.dtype)
    moves = [rng.standard_normal(a.shape) for a in args]
    _, pullback = wb.vjp(sample.f, *args)
    back = [g for g in gradients if g is not None]
    whole = pullback(weight)
    truth = [
        expected,
        *(w for w, g in zip(whole, gradients, strict=True) if g is not None),
    ]
    outputs = [y, *back]
    if tangent is not None:
        outputs.append(tangent)
        truth.append(wb.jvp(sample.f, tuple(args), tuple(moves))[1])
    function = compile(Graph([*xs, seed, *ts], outputs))
    arrays = [*args, weight, *moves]
    made = function(*arrays)
    for got, right in zip(made, truth, strict=True):
        same(got, right)
    for got, right in zip(run_text(function, arrays), made, strict=True):
        same(got, right)
    if sample.name not in ONE_LENGTH:
        longer(sample, function, args, [g is not None for g in gradients], tangent, rng)


def longer(
    sample: Sample,
    function: Any,
    args: list[Any],
    given: list[bool],
    tangent: Any,
    rng: np.random.Generator,
) -> None:
    """The same function on arrays twice as long, where the sample takes them."""
    args = [np.concatenate([a, a * 1.01]) if a.ndim else a for a in args]
    try:
        expected, pullback = wb.vjp(sample.f, *args)
        weight = np.asarray(rng.standard_normal(np.shape(expected)), expected.dtype)
        whole = pullback(weight)
        moves = [rng.standard_normal(a.shape) for a in args]
        _, moved = wb.jvp(sample.f, tuple(args), tuple(moves))
    except (ValueError, TypeError, IndexError, RuntimeError, ArithmeticError):
        return
    truth = [expected, *(w for w, g in zip(whole, given, strict=True) if g)]
    truth += [] if tangent is None else [moved]
    if not all(np.all(np.isfinite(t)) for t in truth):
        return
    made = function(*args, weight, *moves)
    for got, right in zip(made, truth, strict=True):
        same(got, right, 1e-8)


@pytest.mark.parametrize("name", NOT)
def test_what_has_to_know_a_length_is_an_error(
    name: str, rng: np.random.Generator
) -> None:
    """Never a wrong answer: in the expression, or at the latest when it runs."""
    (sample,) = [s for s in FLOATS if s.name == name]
    args = drawn(sample, rng)

    def attempt() -> None:
        xs = symbols(args)
        y = sample.f(*xs)
        seed = wb.tensor("seed", dtype=y.dtype, shape=y.shape)
        gradients = reverse.pull_back([y], [seed], xs, record=True)
        weight = np.ones(np.shape(sample.f(*args)))
        compile(Graph([*xs, seed], [y, *gradients]))(*args, weight)

    with pytest.raises((TypeError, ValueError)):
        attempt()


SECOND = [s for s in FLOATS if s.order == 2 and s.name not in NOT_SYMBOLS][::5]


@pytest.mark.long
@parametrize_chunks("sample", {s.name: (s,) for s in SECOND})
def test_second_order(sample: Sample, rng: np.random.Generator) -> None:
    """Reverse over reverse and forward over reverse, against known lengths."""
    args = drawn(sample, rng)
    xs = symbols(args)
    y = sample.f(*xs)
    weight = np.asarray(rng.standard_normal(np.shape(sample.f(*args))), y.dtype)
    seed = wb.tensor("seed", dtype=y.dtype, shape=y.shape)
    first = reverse.pull_back([y], [seed], xs, record=True)
    given = [i for i, g in enumerate(first) if g is not None]
    ts = [wb.tensor(f"t{i}", dtype=x.dtype, shape=x.shape) for i, x in enumerate(xs)]
    back = reverse.pull_back(
        [first[i] for i in given], [ts[i] for i in given], xs, record=True
    )
    moved = forward.push_forward([first[i] for i in given], xs, ts, record=True)
    moves = [rng.standard_normal(a.shape) for a in args]

    def gradients(*args: Any) -> Any:
        whole = wb.vjp(sample.f, *args)[1](weight)
        return [whole[i] for i in given]

    found, twice = wb.vjp(gradients, *args)
    truth = [*twice([moves[i] for i in given])]
    truth += wb.jvp(gradients, tuple(args), tuple(moves))[1]
    outputs = [
        np.zeros_like(like) if made is None else made
        for made, like in zip(
            [*back, *moved], [*xs, *(xs[i] for i in given)], strict=True
        )
    ]
    made = compile(Graph([*xs, seed, *ts], outputs))(*args, weight, *moves)
    assert len(found) == len(given)
    for got, right in zip(made, truth, strict=True):
        same(got, right, 1e-9)


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: np.tile(x, 3), "(x.shape[0], 3*x.shape[1])"),
        (lambda x: np.tile(x, (2, 1)), "(2*x.shape[0], x.shape[1])"),
        (lambda x: np.repeat(x, 2, axis=1), "(x.shape[0], 2*x.shape[1])"),
        (lambda x: np.pad(x, ((1, 2), (0, 0))), "(x.shape[0] + 3, x.shape[1])"),
    ],
)
def test_what_repeats_or_pads_says_its_lengths(f: Any, shape: str) -> None:
    x = wb.matrix("x")
    made = f(x)
    assert str(made.shape) == shape
    assert made.eval({x: np.ones((2, 3))}).shape == f(np.ones((2, 3))).shape


#: Functions that run when lengths are known, and say what they will be.
LATE: dict[str, tuple[Any, str]] = {
    "resize": (lambda x: np.resize(x, (3, x.shape[0])), "(3, x.shape[0])"),
    "insert": (lambda x: np.insert(x, 1, 5.0, axis=0), "(x.shape[0] + 1, x.shape[1])"),
    "insert several": (
        lambda x: np.insert(x, [0, 1, 1], 2.0, axis=1),
        "(x.shape[0], x.shape[1] + 3)",
    ),
    "insert rows": (
        lambda x: np.insert(x, [1], x, axis=0),
        "(2*x.shape[0], x.shape[1])",
    ),
    "insert a list": (
        lambda x: np.insert(x, 1, [[1.0], [2.0]], axis=0),
        "(x.shape[0] + 2, x.shape[1])",
    ),
    "insert flat": (lambda x: np.insert(x, 2, 1.0), "(x.shape[0]*x.shape[1] + 1,)"),
    "insert at a slice": (
        lambda x: np.insert(x, slice(-2, None), 1.0, axis=1),
        "(x.shape[0], call[0].shape[1])",
    ),
    "delete": (lambda x: np.delete(x, -1, axis=1), "(x.shape[0], x.shape[1] - 1)"),
    "delete several": (
        lambda x: np.delete(x, [0, 1, 1]),
        "(x.shape[0]*x.shape[1] - 2,)",
    ),
    "delete from both ends": (
        lambda x: np.delete(x[0], [2, -2]),
        "(call[0].shape[0],)",
    ),
    "delete every second": (
        lambda x: np.delete(x[0], slice(1, None, 2)),
        "(x.shape[1] - (x.shape[1] // 2),)",
    ),
    "cov": (np.cov, "(x.shape[0], x.shape[0])"),
    "cov of columns": (
        lambda x: np.cov(x, rowvar=False),
        "(x.shape[1], x.shape[1])",
    ),
    "cov of two": (lambda x: np.cov(x, x), "(2*x.shape[0], 2*x.shape[0])"),
    "corrcoef": (np.corrcoef, "(x.shape[0], x.shape[0])"),
    "array_split": (
        lambda x: np.array_split(x, 2, axis=1)[0],
        "(x.shape[0], (x.shape[1] + 1) // 2)",
    ),
    "vsplit": (lambda x: np.vsplit(x, 2)[1], "(x.shape[0] // 2, x.shape[1])"),
    "convolve": (
        lambda x: np.convolve(x[0], x[:, 0], mode="same"),
        "(max(x.shape[0], x.shape[1]),)",
    ),
    "convolve with a list": (
        lambda x: np.convolve(x[0], [1.0, 2.0, 1.0], mode="same"),
        "(max(3, x.shape[1]),)",
    ),
    "correlate": (
        lambda x: np.correlate(x[0], x[:, 0]),
        "(max(x.shape[0], x.shape[1]) - min(x.shape[0], x.shape[1]) + 1,)",
    ),
    "pad with the mean": (
        lambda x: np.pad(x, ((1, 2), (0, 3)), mode="mean"),
        "(x.shape[0] + 3, x.shape[1] + 3)",
    ),
    "pad by a length": (
        lambda x: np.pad(x[0], x.shape[0], mode="maximum"),
        "(2*x.shape[0] + x.shape[1],)",
    ),
    "multi_dot": (
        lambda x: np.linalg.multi_dot([x, x.T, x]),
        "(x.shape[0], x.shape[1])",
    ),
    "multi_dot of a vector": (
        lambda x: np.linalg.multi_dot([x[0], x.T, x]),
        "(x.shape[1],)",
    ),
    "lstsq": (
        lambda x: np.linalg.lstsq(x, x[:, :2])[0],
        "(x.shape[1], min(2, x.shape[1]))",
    ),
    "partition": (lambda x: np.partition(x, 1), "(x.shape[0], x.shape[1])"),
    "lexsort": (lambda x: np.lexsort((x[:, 0], x[:, 1])), "(x.shape[0],)"),
    "histogram": (lambda x: np.histogram(x, 5)[1], "(6,)"),
    "polyadd": (
        lambda x: np.polyadd(x[0], x[:, 0]),
        "(max(x.shape[0], x.shape[1]),)",
    ),
    "polyder": (lambda x: np.polyder(x[0]), "(max(0, x.shape[1] - 1),)"),
    "polyint": (lambda x: np.polyint(x[0]), "(x.shape[1] + 1,)"),
    "polyfit": (lambda x: np.polyfit(x[:, 0], x, 1), "(2, x.shape[1])"),
    "vander": (lambda x: np.vander(x[0], 3), "(x.shape[1], 3)"),
    "arange": (
        lambda x: np.arange(2, x.shape[0] + 9, 3, like=x),
        "((x.shape[0] // 3) + 3,)",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_what_runs_late_says_its_lengths(name: str, rng: np.random.Generator) -> None:
    f, shape = LATE[name]
    x = wb.matrix("x")
    made = f(x)
    assert str(made.shape) == shape
    function = wb.function([x], made)
    counts = wb.function([x], [n * np.ones_like(x[0, 0]) for n in made.shape])
    for size in ((4, 3), (2, 5), (6, 4)):
        a = rng.standard_normal(size)
        assert function(a).shape == f(a).shape
        assert tuple(map(int, counts(a))) == f(a).shape


def test_a_length_that_is_said_is_read_before_the_run() -> None:
    v = wb.vector("v")
    assert len(np.resize(v, 7)) == 7
    assert len(np.polyfit(v, v, 2)) == 3


def test_a_function_at_a_place_far_from_the_start() -> None:
    v = wb.vector("v")
    made = np.insert(v, 40, 1.0)
    assert str(made.shape) == "(v.shape[0] + 1,)"
    a = np.zeros(50)
    np.testing.assert_array_equal(made.eval({v: a}), np.insert(a, 40, 1.0))
    with pytest.raises(IndexError, match=r"index 40 is out of bounds"):
        made.eval({v: np.zeros(7)})


def test_too_many_widths_name_the_place() -> None:
    with pytest.raises(ValueError, match=r"np.pad \(at .*: widths of shape \(3, 2\)"):
        np.pad(wb.matrix("x"), ((1, 2), (3, 4), (5, 6)))


def test_positions_far_from_the_start_fit_some_length() -> None:
    v = wb.vector("v")
    made = wb.at(v)[9].set(1.0)
    np.testing.assert_array_equal(made.eval({v: np.zeros(12)}), np.eye(12)[9])
