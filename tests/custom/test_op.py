"""`wb.Op`: any code inside, the gradient beside it; the seed's `cdist` (A1 to A5)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

import workbench as wb
from workbench.backends.numpy import compile
from workbench.custom.registry import snake
from workbench.errors import (
    DtypeError,
    GradientError,
    NotDifferentiableError,
    OverrideError,
    RegistrationError,
    ShapeError,
    TraceError,
    UsageError,
)
from workbench.gradient import DisconnectedType
from workbench.graph.op import CUSTOM

X = np.array([[0.3, -1.2], [0.5, 2.0], [-0.7, 0.4]])
W = np.array([[1.0, 0.2], [-0.4, 0.9], [2.0, -2.0], [0.1, 0.1]])


def by_inputs(node: Any, g: Any) -> Any:
    """The seed's first form; there ``g`` lacks its axis, ``dimshuffle(0, 1, 'x')``."""
    x, w = node.inputs
    diff = x[:, None, :] - w[None, :, :]
    z = np.sqrt(np.sum(diff**2, axis=2, keepdims=True))
    diff = g[:, :, None] * diff / z
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def by_outputs(node: Any, g: Any) -> Any:
    """The seed's second form, which reads the distance that was computed."""
    x, w = node.inputs
    (z,) = node.outputs
    diff = x[:, None, :] - w[None, :, :]
    diff = g[:, :, None] * diff / z[:, :, None]
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def safe(node: Any, g: Any) -> Any:
    """The second form, with the subgradient 0 where two points coincide."""
    x, w = node.inputs
    z = node.outputs[0][:, :, None]
    diff = x[:, None, :] - w[None, :, :]
    unit = np.where(z > 0, diff / np.where(z > 0, z, 1.0), 0.0)
    diff = g[:, :, None] * unit
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def cdist_with(rule: Callable[..., Any]) -> Any:
    class Cdist(wb.Op):
        def compute(self, x: Any, w: Any) -> Any:
            return distance.cdist(x, w, "euclidean")

        def vjp(self, node: Any, g: Any) -> Any:
            return rule(node, g)

    return Cdist()


def true_distance(x: Any, w: Any) -> Any:
    """Of complex arrays too, for the complex step."""
    return np.sqrt(np.sum((x[:, None, :] - w[None, :, :]) ** 2, axis=2))


def complex_step(f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of f, which may be an array, by each entry of x."""
    columns = []
    for i in np.ndindex(x.shape):
        z = x.astype(complex)
        z[i] += 1e-30j
        columns.append(np.imag(f(z)) / 1e-30)
    made = np.stack(columns, axis=-1)
    return made.reshape(made.shape[:-1] + x.shape)


def cube(c: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: np.sum(c(x, w) ** 3)


def true_gradient(x: Any, w: Any) -> Any:
    """That of ``sum(distance**3)`` by x: ``3 z**2 * diff / z``, in closed form."""
    diff = x[:, None, :] - w[None, :, :]
    return np.sum(3 * true_distance(x, w)[:, :, None] * diff, axis=1)


# The seed


def test_A1_cdist_computes_by_scipy_and_its_type_is_inferred() -> None:
    cdist = cdist_with(by_inputs)
    np.testing.assert_array_equal(cdist(X, W), distance.cdist(X, W))
    symbol = cdist(wb.tensor("x", shape=(3, 2)), wb.tensor("w", shape=(4, 2)))
    assert (symbol.shape, symbol.dtype) == ((3, 4), np.dtype(float))
    assert symbol.op.name == "cdist"
    graph = wb.trace(cube(cdist))(X, W)
    node = next(n for n in graph.nodes if n.op.name == "cdist")
    assert "return lambda x, w: np.sum(c(x, w) ** 3)" in str(node.site)


@pytest.mark.parametrize("rule", [by_inputs, by_outputs], ids=["A2", "A3"])
def test_A2_A3_the_two_forms_of_its_gradient(rule: Callable[..., Any]) -> None:
    f = cube(cdist_with(rule))
    for i in (0, 1):
        want = complex_step(
            lambda z, i=i: cube(true_distance)(*((z, W), (X, z))[i]), (X, W)[i]
        )
        np.testing.assert_allclose(wb.grad(f, i)(X, W), want, rtol=1e-12)
    want = complex_step(lambda z: true_gradient(z, W), X)
    np.testing.assert_allclose(wb.hessian(f)(X, W), want, rtol=1e-10, atol=1e-12)
    assert wb.check_grads(f, (X, W), order=2).ok


@pytest.mark.parametrize("rule", [by_inputs, by_outputs])
def test_both_modes_agree_with_the_complex_step(rule: Callable[..., Any]) -> None:
    cdist = cdist_with(rule)
    want = complex_step(lambda z: true_distance(z, W), X)
    for mode in ("fwd", "rev"):
        found = wb.jacobian(cdist, mode=mode)(X, W)
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_A4_the_gradient_is_another_op() -> None:
    class CdistGrad(wb.Op):
        def compute(self, x: Any, w: Any, z: Any, g: Any) -> Any:
            scaled = (g / z)[:, :, None] * (x[:, None, :] - w[None, :, :])
            return scaled.sum(axis=1), -scaled.sum(axis=0)

        def vjp(self, node: Any, a: Any, b: Any) -> Any:
            x, w, z, g = node.inputs
            diff = x[:, None, :] - w[None, :, :]
            apart = np.sum((a[:, None, :] - b[None, :, :]) * diff, axis=2)
            both = (g / z)[:, :, None] * (a[:, None, :] - b[None, :, :])
            return (
                np.sum(both, axis=1),
                -np.sum(both, axis=0),
                -apart * g / z**2,
                apart / z,
            )

    op = CdistGrad()
    cdist = cdist_with(lambda node, g: op(*node.inputs, *node.outputs, g))
    f = cube(cdist)
    np.testing.assert_allclose(wb.grad(f)(X, W), true_gradient(X, W), rtol=1e-12)
    want = complex_step(lambda z: true_gradient(z, W), X)
    np.testing.assert_allclose(wb.hessian(f)(X, W), want, rtol=1e-10, atol=1e-12)
    recorded = wb.trace(wb.grad(f))(X, W)
    assert "cdist_grad" in {node.op.name for node in recorded.nodes}


@pytest.mark.parametrize("rule", [by_inputs, by_outputs])
def test_A5_points_that_coincide_are_nan_and_the_check_says_where(
    rule: Callable[..., Any],
) -> None:
    """0/0: the account of it names the op and its line."""
    cdist = cdist_with(rule)
    x = np.vstack([X[:2], W[1]])
    with np.errstate(all="ignore"):
        found = wb.grad(lambda x: np.sum(cdist(x, W)))(x)
        assert np.array_equal(np.isnan(found).any(axis=1), [False, False, True])
        with pytest.raises(GradientError) as error:
            wb.check_grads(lambda x: np.sum(cdist(x, W)), (x,))
    assert "nan" in str(error.value).lower()
    assert "cdist" in str(error.value)
    assert "test_op.py" in str(error.value)


def test_A5_a_safe_division_gives_the_subgradient_0() -> None:
    cdist = cdist_with(safe)
    x = np.vstack([X[:2], W[1]])
    found = wb.grad(lambda x: np.sum(cdist(x, W)))(x)
    others = np.delete(W, 1, axis=0)
    diff = W[1] - others
    want = np.sum(diff / np.linalg.norm(diff, axis=1)[:, None], axis=0)
    np.testing.assert_allclose(found[2], want, rtol=1e-12)
    assert np.all(wb.grad(lambda x: np.sum(cdist(x, x)))(x[:1]) == 0)
    block = wb.hessian(lambda x: np.sum(cdist(x, W[1:2])))(x)
    assert np.isfinite(block).all()
    assert not block[2].any()


# What an op may be


def test_several_outputs_and_integers() -> None:
    class Split(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.sin(x), np.argsort(x), float(x[0] * x[1])

        def vjp(self, node: Any, g: Any, g_index: Any, g_product: Any) -> Any:
            assert g_index is None
            (x,) = node.inputs
            swapped = np.stack([x[1], x[0]])
            return g * np.cos(x) + g_product * swapped

    split = Split()
    x = np.array([0.4, -1.1])
    y, index, product = split(x)
    np.testing.assert_array_equal(index, [1, 0])
    assert product == pytest.approx(-0.44)
    np.testing.assert_array_equal(y, np.sin(x))
    np.testing.assert_allclose(
        wb.grad(lambda x: np.sum(split(x)[0]) * split(x)[2])(x),
        np.cos(x) * -0.44 + np.sum(np.sin(x)) * x[::-1],
    )
    # Of an output that nothing depends on, zeros arrive.
    np.testing.assert_allclose(wb.grad(lambda x: split(x)[2])(x), x[::-1])
    smallest = wb.grad(lambda x: split(x)[0][split(x)[1][0]])(x)
    np.testing.assert_array_equal(smallest, [0, np.cos(-1.1)])
    tangent = wb.jvp(lambda x: split(x)[2], (x,), (np.array([1.0, 0.0]),))[1]
    assert tangent == pytest.approx(-1.1)


def test_settings_are_fields_and_take_part_in_equality() -> None:
    class Scaled(wb.Op):
        factor: float
        offset: float = 0.0

        def compute(self, x: Any) -> Any:
            return self.factor * x + self.offset

        def vjp(self, node: Any, g: Any) -> Any:
            assert node.params == {"factor": self.factor, "offset": self.offset}
            return g * node.get_attr("factor")

    assert Scaled(2.0) == Scaled(factor=2.0) != Scaled(3.0)
    assert len({Scaled(2.0), Scaled(2.0), Scaled(2), Scaled(2.0, offset=1.0)}) == 3
    assert repr(Scaled(2.0)).endswith("Scaled(factor=2.0, offset=0.0)")
    assert wb.grad(Scaled(2.0))(1.0) == 2.0
    graph = wb.trace(Scaled(2.0, 1.0))(np.ones(2))
    assert graph.outputs[0].params == {"factor": 2.0, "offset": 1.0}
    assert Scaled(1)(np.ones(1, np.int32)).dtype == np.float64  # 0.0 is a float
    with pytest.raises(TypeError):
        Scaled()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Scaled(2.0).factor = 3.0  # type: ignore[misc]


def test_settings_that_can_change_are_refused() -> None:
    class Listed(wb.Op):
        sizes: Any

        def compute(self, x: Any) -> Any:
            return x

    with pytest.raises(UsageError, match=r"sizes=\[1, 2\] can change.*tuple"):
        Listed([1, 2])(np.ones(2))
    assert Listed((1, 2))(np.ones(2)).shape == (2,)
    for wrap in (lambda x: x, lambda x: (1, x)):
        with pytest.raises(UsageError, match=r"sizes is a Tensor.*Make it an input"):
            wb.grad(lambda x, wrap=wrap: Listed(wrap(x))(x))(1.0)

    @dataclass
    class Thawed(wb.Op):
        n: int = 1

        def compute(self, x: Any) -> Any:
            return x

    with pytest.raises(UsageError, match=r"dataclass\(frozen=True\)"):
        Thawed()(np.ones(2))


def test_a_class_with_its_own_init_and_one_that_derives_from_it() -> None:
    class Shifted(wb.Op):
        def __init__(self, by: float) -> None:
            self.by = by

        def compute(self, x: Any) -> Any:
            return x + self.by

        def vjp(self, node: Any, g: Any) -> Any:
            return g

    class ShiftedTwice(Shifted):
        def compute(self, x: Any) -> Any:
            return x + 2 * self.by

    op = ShiftedTwice(3.0)
    assert op == ShiftedTwice(3.0) != Shifted(3.0)
    assert op(1.0) == 7.0
    assert wb.trace(op)(1.0).outputs[0].params == {"by": 3.0}
    with pytest.raises(UsageError, match=r"by cannot change.*by=4\.0"):
        op.by = 4.0

    @dataclass(frozen=True)
    class Field(Shifted):
        by: float = 1.0
        more: int = 2

    assert Field() == Field(1.0)
    assert wb.grad(Field(more=5))(2.0) == 1.0


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Cdist", "cdist"),
        ("CDist", "cdist"),
        ("ZeroOut", "zero_out"),
        ("CDistGrad", "cdist_grad"),
        ("ReLUGrad", "re_lu_grad"),
        ("RoiPool", "roi_pool"),
        ("SVDGrad", "svd_grad"),
        ("Conv2DGrad", "conv2d_grad"),
        ("FFT", "fft"),
        ("log1pexp", "log1pexp"),
        ("_Private", "private"),
        ("Log2Sum", "log2_sum"),
    ],
)
def test_the_name_is_the_class_in_snake_case(name: str, made: str) -> None:
    assert snake(name) == made


def test_names_that_are_taken() -> None:
    def define(module: str, **body: Any) -> Any:
        def compute(self: Any, x: Any) -> Any:
            return x

        made = {"compute": compute, "__module__": module, **body}
        return type("Doubled", (wb.Op,), made)

    with pytest.raises(
        RegistrationError, match=r"'tanh' already.*wb\.override\('tanh'"
    ):
        define("a", name="tanh")
    with pytest.raises(RegistrationError, match=r"has an op 'erf'"):
        define("a", name="erf")
    with pytest.raises(RegistrationError, match="letters"):
        define("a", name="my op")
    first = define("a")
    with pytest.raises(RegistrationError, match=r"b\.Doubled.*defined by a\.Doubled"):
        define("b")
    second = define("a")  # a cell that runs again
    assert CUSTOM["doubled"].maker() is second
    assert first()(2.0) == second()(2.0) == 2.0
    del first, second
    define("b")  # nobody holds the other any more


def test_overrides_know_it_before_there_is_an_instance() -> None:
    class Twice(wb.Op):
        def compute(self, x: Any) -> Any:
            return 2 * x

        def vjp(self, node: Any, g: Any) -> Any:
            return 2 * g

    for target in ("twice", Twice, Twice()):
        halved = wb.override(target, "0.5 * d")
        assert wb.grad(lambda x: Twice()(x), overrides=[halved])(1.0) == 1.0
    with pytest.raises(ValueError, match=r"did you mean the op 'twice'"):
        wb.grad(lambda x: Twice()(x), overrides=[wb.override("twise", "d")])(1.0)


def test_jvp_alone_and_both() -> None:
    calls = []

    class Sine(wb.Op):
        name = "sine_of_test"

        def compute(self, x: Any, y: Any) -> Any:
            return np.sin(x) * y

        def jvp(self, node: Any, tx: Any, ty: Any) -> Any:
            x, y = node.inputs
            total = np.zeros_like(node.outputs[0])
            if tx is not None:
                total = total + tx * np.cos(x) * y
            if ty is not None:
                total = total + ty * np.sin(x)
            return total

    class Both(Sine):
        name = "both_of_test"

        def vjp(self, node: Any, g: Any) -> Any:
            calls.append("vjp")
            x, y = node.inputs
            return g * np.cos(x) * y, g * np.sin(x)

    x, y = np.array([0.3, 1.2]), np.array([2.0, -1.0])
    for op in (Sine(), Both()):
        f = lambda x, y, op=op: np.sum(op(x, y) ** 2)  # noqa: E731
        s, c = np.sin(x), np.cos(x)
        for i, want in enumerate((2 * s * c * y**2, 2 * s**2 * y)):
            np.testing.assert_allclose(wb.grad(f, i)(x, y), want)
        np.testing.assert_allclose(
            wb.hessian(f)(x, y), np.diag(2 * np.cos(2 * x) * y**2), atol=1e-15
        )
        np.testing.assert_allclose(
            wb.jacobian(op, mode="fwd")(x, y), np.diag(c * y), atol=1e-15
        )
    assert calls


def test_a_rule_that_is_not_linear_is_not_transposed() -> None:
    class Clipped(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1.0

        def vjp(self, node: Any, g: Any) -> Any:
            return np.clip(g, -1, 1)

    class Signed(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1.0

        def jvp(self, node: Any, t: Any) -> Any:
            return np.sign(t)

    x = np.ones(2)
    assert wb.grad(lambda x: 5 * Clipped()(x)[0])(x)[0] == 1
    with pytest.raises(NotDifferentiableError, match=r"clipped has a vjp only.*clip"):
        wb.jvp(Clipped(), (x,), (x,))
    with pytest.raises(NotDifferentiableError, match=r"signed has a jvp only.*a vjp"):
        wb.grad(lambda x: np.sum(Signed()(x)))(x)
    # `jacobian` of its own choice takes the other mode.
    np.testing.assert_array_equal(wb.jacobian(Clipped())(x), np.eye(2))


def test_no_rule_at_all() -> None:
    class Rounded(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.round(x)

    f = lambda x: np.sum(Rounded()(x) * x)  # noqa: E731
    for derivative in (wb.grad(f), lambda x: wb.jvp(f, (x,), (x,))):
        with pytest.raises(NotDifferentiableError) as error:
            derivative(np.ones(2))
        assert "rounded has no derivative" in str(error.value)
        assert "Write vjp(self, node, *cotangents) in Rounded" in str(error.value)
        assert '@wb.register_gradient("rounded")' in str(error.value)
        assert "test_op.py" in str(error.value)


def op_with(vjp: Any = None, count: int = 1, **methods: Any) -> Any:
    """An op of two arrays whose rule is ``vjp(node, *cotangents)``."""

    class Wrong(wb.Op):
        name = "wrong_of_test"

        def compute(self, x: Any, y: Any) -> Any:
            made = tuple(np.sin(x) * np.sum(y) for _ in range(count))
            return made if count > 1 else made[0]

        def vjp(self, node: Any, *g: Any) -> Any:
            return vjp(node, *g)

    for name, method in methods.items():
        setattr(Wrong, name, method)
    return Wrong()


@pytest.mark.parametrize(
    ("vjp", "kind", "says"),
    [
        (
            lambda node, g: g,
            UsageError,
            r"returned 1 gradient; wrong_of_test has 2 inputs: float64\[3\],"
            r" float64\[2\]. Return one gradient \(or None\) per input: return g0, g1",
        ),
        (lambda node, g: (g, g, g), UsageError, "returned 3 gradients"),
        (
            lambda node, g: (g, g),
            ShapeError,
            r"shape \(3,\) for input 1, which is float64\[2\]",
        ),
        (
            lambda node, g: (np.ones(3, int), None),
            DtypeError,
            r"input 0 with dtype int64.*never of integers.*zeros_like",
        ),
        (lambda node, g: (g > 0, None), DtypeError, "dtype bool"),
        (lambda node, g: ("text", None), DtypeError, "as str, which is no array"),
    ],
)
def test_a_vjp_that_returns_what_does_not_fit(vjp: Any, kind: Any, says: str) -> None:
    op = op_with(vjp)
    with pytest.raises(kind, match=says) as error:
        wb.grad(lambda x, y: np.sum(op(x, y)), (0, 1))(np.ones(3), np.ones(2))
    text = str(error.value)
    assert (
        text.startswith("wrong_of_test: op_with") or "Wrong.vjp (at test_op.py" in text
    )
    assert "In the derivative of wrong_of_test" in text


def test_what_a_vjp_returns_is_made_to_fit() -> None:
    """Broadcasts are summed back, dtypes cast, lists are arrays; [None] is nothing."""
    op = op_with(lambda node, g: (np.ones((4, 3)), [1.0, 2.0]))
    gx, gy = wb.grad(lambda x, y: np.sum(op(x, y)), (0, 1))(
        np.ones(3, np.float32), np.ones(2)
    )
    assert (gx.dtype, gx.tolist(), gy.tolist()) == (np.float32, [4.0] * 3, [1.0, 2.0])
    op = op_with(lambda node, g: (None, None))
    assert not wb.grad(lambda x: np.sum(op(x, np.ones(2))))(np.ones(3)).any()


def test_wrong_parameters_name_the_signature() -> None:
    class Pair(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1, x * 2

        def vjp(self, node: Any, g: Any) -> Any:
            return g

    with pytest.raises(UsageError) as error:
        wb.grad(lambda x: Pair()(x)[0])(1.0)
    text = str(error.value)
    assert "Pair.vjp (at test_op.py" in text
    assert "takes (node: 'Any', g: 'Any')" in text
    assert "pair has 2 outputs" in text
    assert "Write def vjp(self, node, g0, g1)" in text
    assert "positional argument" not in text


@pytest.mark.parametrize(
    ("compute", "kind", "says"),
    [
        (lambda self, x, y: None, UsageError, r"returned None.*return.*lack"),
        (lambda self, x, y: (x, None), UsageError, "returned None as output 1"),
        (lambda self, x, y: (), UsageError, "returned no output"),
        (lambda self, x, y: "text", DtypeError, "returned str"),
        (
            lambda self, x, y: x.__iadd__(1),
            UsageError,
            r"changes an array in place.*x\.copy\(\)",
        ),
    ],
)
def test_a_compute_that_is_wrong(compute: Any, kind: Any, says: str) -> None:
    op = op_with(compute=compute)
    x = np.ones(3)
    for call in (op, wb.grad(lambda x, y: np.sum(op(x, y)))):
        with pytest.raises(kind, match=says) as error:
            call(x, np.ones(2))
        assert "wrong_of_test" in str(error.value)
    assert x.tolist() == [1, 1, 1]
    assert x.flags.writeable


def test_a_compute_of_lists_and_numbers_and_views() -> None:
    op = op_with(compute=lambda self, x, y: [1.0, float(x[0])])
    made = op(np.array([3.0]), np.ones(2))
    assert isinstance(made, np.ndarray)
    assert made.tolist() == [1, 3]
    op = op_with(compute=lambda self, x, y: 2.5)
    assert isinstance(op(np.ones(3), np.ones(2)), np.float64)
    op = op_with(compute=lambda self, x, y: x[1:])
    x = np.arange(3.0)
    made = op(x, np.ones(2))
    made[0] = 7  # its own
    assert x.tolist() == [0, 1, 2]
    assert op([1, 2.0, 3], np.ones(2)).tolist() == [2, 3]


def test_a_number_of_outputs_that_changes() -> None:
    op = op_with(compute=lambda self, x, y: (x,) * len(x))
    assert len(op(np.ones(2), np.ones(2))) == 2
    with pytest.raises(UsageError, match=r"returned 3 outputs, but the op had 2"):
        op(np.ones(3), np.ones(2))

    class Declared(wb.Op):
        n_outputs = 2

        def compute(self, x: Any) -> Any:
            return x

    with pytest.raises(UsageError, match=r"returned 1 output, but the op declares 2"):
        Declared()(1.0)


def test_infer() -> None:
    class Picked(wb.Op):
        """Does not run on ones, whose differences are 0."""

        def compute(self, x: Any) -> Any:
            if not np.ptp(x):
                raise ValueError("all entries are equal")
            return (x - x.min()) / np.ptp(x), x.argmax()

    class Inferred(Picked):
        def infer(self, x: wb.Spec) -> Any:
            return x, wb.Spec((), np.intp)

    symbol = wb.tensor("x", shape=(3,))
    with pytest.raises(TraceError) as error:
        Picked()(symbol)
    assert "Write infer(self, *specs) in Picked" in str(error.value)
    assert "all entries are equal" in str(error.value)
    y, index = Inferred()(symbol)
    assert (y.shape, y.dtype, index.dtype) == ((3,), np.float64, np.intp)
    assert y.eval({symbol: np.array([1.0, 3.0, 2.0])}).tolist() == [0, 1, 0.5]

    class Bad(Picked):
        name = "bad_of_test"

        def infer(self, x: wb.Spec) -> Any:
            return x.shape

    with pytest.raises(UsageError, match=r"Return wb\.Spec\(shape, dtype\)"):
        Bad()(symbol)


def test_connection_is_held_against_the_vjp() -> None:
    def connected(rows: Any, vjp: Any) -> Any:
        op = op_with(vjp, connection=lambda self: rows)
        return wb.grad(lambda x, y: np.sum(op(x, y)), (0, 1))(np.ones(3), np.ones(2))

    gx, gy = connected([[True], [False]], lambda node, g: (g, None))
    assert gx.tolist() == [1, 1, 1]
    assert not gy.any()
    with pytest.raises(UsageError, match=r"gradient for input 1, on which no output"):
        connected([[True], [False]], lambda node, g: (g, g[:2]))
    with pytest.raises(UsageError, match=r"returned None for input 0, on which an"):
        connected([[True], [False]], lambda node, g: (None, None))
    gx, gy = connected([[True], [False]], lambda node, g: (g, DisconnectedType()))
    assert gx.tolist() == [1, 1, 1]
    assert not gy.any()


@pytest.mark.parametrize(
    "rows", [[[True]], [[True, True], [False, True]], None, [True, False], [["a"], [1]]]
)
def test_a_connection_that_does_not_fit(rows: Any) -> None:
    op = op_with(lambda node, g: (g, None), connection=lambda self: rows)
    x, y = wb.vector("x", shape=3), wb.vector("y", shape=2)
    with pytest.raises(UsageError, match="one list for each of its 2 inputs"):
        wb.grad(np.sum(op(x, y)), x)


def test_vmap_is_one_node_and_keeps_every_derivative() -> None:
    cdist = cdist_with(by_outputs)
    many = np.stack([X, 2 * X - 0.1])
    f = lambda x, w: np.sum(wb.vmap(cdist, in_axes=(0, None))(x, w) ** 3)  # noqa: E731
    np.testing.assert_array_equal(
        wb.vmap(cdist, in_axes=(0, None))(many, W),
        np.stack([distance.cdist(x, W) for x in many]),
    )
    np.testing.assert_allclose(
        wb.grad(f)(many, W), np.stack([true_gradient(x, W) for x in many])
    )
    np.testing.assert_allclose(
        wb.grad(f, 1)(many, W), sum(true_gradient(W, x) for x in many)
    )
    hessian = wb.hessian(f)(many, W)
    want = complex_step(lambda z: true_gradient(z, W), many[1])
    np.testing.assert_allclose(hessian[1][:, :, 1], want, rtol=1e-10, atol=1e-12)
    tangent = wb.jvp(lambda x: f(x, W), (many,), (np.ones_like(many),))[1]
    assert tangent == pytest.approx(np.sum(wb.grad(f)(many, W)))
    names = [n.op.name for n in wb.trace(f)(many, W).nodes]
    assert names.count("cdist") == 1
    per_example = wb.vmap(wb.grad(cube(cdist)), in_axes=(0, None))(many, W)
    np.testing.assert_allclose(per_example, wb.grad(f)(many, W))


def test_a_batch_rule_and_a_rule_that_looks_at_values() -> None:
    calls = []

    class Branching(wb.Op):
        def compute(self, x: Any) -> Any:
            return x**2 if x[0] > 0 else x**3

        def vjp(self, node: Any, g: Any) -> Any:
            (x,) = node.inputs
            return g * 2 * x if x[0] > 0 else g * 3 * x**2

    class Fast(Branching):
        def batch(self, inputs: Any, batched: Any) -> Any:
            calls.append(batched)
            (x,) = inputs
            return np.where(x[:, :1] > 0, x**2, x**3)

    x = np.array([[1.0, 2.0], [-1.0, 3.0]])
    want = np.array([[1.0, 4.0], [-1.0, 27.0]])
    for op in (Branching(), Fast()):
        np.testing.assert_array_equal(wb.vmap(op)(x), want)
        found = wb.grad(lambda x, op=op: np.sum(wb.vmap(op)(x)))(x)
        np.testing.assert_array_equal(found, [[2.0, 4.0], [3.0, 27.0]])
    assert calls


def test_in_compiled_programs_and_their_text() -> None:
    cdist = cdist_with(by_outputs)
    graph = wb.trace(wb.grad(cube(cdist)))(X, W)
    function = compile(graph)
    np.testing.assert_allclose(function(2 * X, W)[0], true_gradient(2 * X, W))
    assert "cdist(x, w)" in function.source
    assert "#   cdist: a function" in function.source
    scope = dict(function.constants)
    exec(function.source, scope)
    np.testing.assert_allclose(scope["function"](2 * X, W), true_gradient(2 * X, W))


def test_on_symbols() -> None:
    cdist = cdist_with(by_inputs)
    x, w = wb.tensor("x", shape=(3, 2)), wb.tensor("w", shape=(4, 2))
    cost = np.sum(cdist(x, w) ** 3)
    found = wb.function([x, w], wb.grad(cost, x))(X, W)
    np.testing.assert_allclose(found, true_gradient(X, W))


def test_a_base_class_and_misuse() -> None:
    class Base(wb.Op):
        """No compute: a base for others."""

        scale: float = 2.0

    class Derived(Base):
        def compute(self, x: Any) -> Any:
            return x * self.scale

        def vjp(self, node: Any, g: Any) -> Any:
            return g * self.scale

    assert "base" not in CUSTOM
    with pytest.raises(UsageError, match="computes nothing yet"):
        Base()
    assert wb.grad(Derived(scale=3.0))(1.0) == 3.0
    with pytest.raises(UsageError, match="name is no setting"):

        class Named(wb.Op):
            name: str  # type: ignore[misc]

            def compute(self, x: Any) -> Any:
                return x

    class Asking(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1

        def vjp(self, node: Any, g: Any) -> Any:
            return node.vjp(g)

    with pytest.raises(UsageError, match="which is that rule itself"):
        wb.grad(Asking())(1.0)


def test_a_long_chain_of_them() -> None:
    class Step(wb.Op):
        name = "step_of_test"

        def compute(self, x: Any) -> Any:
            return x * 1.00001

        def vjp(self, node: Any, g: Any) -> Any:
            return g * 1.00001

    step = Step()

    def chain(x: Any) -> Any:
        for _ in range(20_000):
            x = step(x)
        return x

    assert wb.grad(chain)(1.0) == pytest.approx(1.00001**20_000)


def test_where_keeps_the_branch_not_taken_out_of_a_rule() -> None:
    """A5, G4: the seed's form as it stands, where the program asks for z > 0."""
    for rule in (by_inputs, by_outputs):
        cdist = cdist_with(rule)

        def f(x: Any, cdist: Any = cdist) -> Any:
            z = cdist(x, W)
            return np.sum(np.where(z > 0, z, 0.0))

        x = np.vstack([X[:2], W[1]])
        with np.errstate(all="ignore"):
            found = wb.grad(f)(x)
        diff = W[1] - np.delete(W, 1, axis=0)
        want = np.sum(diff / np.linalg.norm(diff, axis=1)[:, None], axis=0)
        np.testing.assert_allclose(found[2], want, rtol=1e-12)


def test_where_hides_the_outputs_that_nothing_reads_too() -> None:
    class LogAndRoot(wb.Op):
        def compute(self, x: Any) -> Any:
            with np.errstate(all="ignore"):
                return np.log(x), np.sqrt(x)

        def vjp(self, node: Any, g: Any, h: Any) -> Any:
            return g / node.inputs[0] + h / (2 * node.outputs[1])

    op = LogAndRoot()
    x = np.array([0.0, -1.0, 4.0])
    for f, expected in (
        (lambda x: op(x)[0], 0.25),
        (lambda x: op(x)[1], 0.25),
        (lambda x: sum(op(x)), 0.5),
    ):
        made = wb.grad(lambda x, f=f: np.sum(np.where(x > 0, f(x), 0)))(x)
        assert np.array_equal(made, [0, 0, expected])


def test_infer_and_compute_must_agree() -> None:
    op = op_with(
        compute=lambda self, x, y: x[1:],
        infer=lambda self, x, y: x,
    )
    with pytest.raises(ShapeError, match=r"returned float64\[2\].*says float64\[3\]"):
        op(np.ones(3), np.ones(2))


def test_no_example_at_all() -> None:
    cdist = cdist_with(by_outputs)
    none = np.zeros((0, 3, 2))
    many = wb.vmap(cdist, in_axes=(0, None))
    assert many(none, W).shape == (0, 3, 4)
    gx, gw = wb.grad(lambda x, w: np.sum(many(x, w)), (0, 1))(none, W)
    assert gx.shape == none.shape
    assert not gw.any()
    tangent = wb.jvp(lambda w: many(none, w), (W,), (W,))[1]
    assert tangent.shape == (0, 3, 4)


class Pickled(wb.Op):
    name = "pickled_of_test"
    n: int = 2

    def compute(self, x: Any) -> Any:
        return x * self.n


def test_it_can_be_copied_and_pickled() -> None:
    op = Pickled(5)
    assert op(2.0) == 10
    for again in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert again == op
        assert again(3.0) == 15


def test_python_numbers_leave_float32_as_it_is() -> None:
    class Times(wb.Op):
        def compute(self, x: Any, factor: Any) -> Any:
            return x * factor

        def vjp(self, node: Any, g: Any) -> Any:
            x, factor = node.inputs
            return g * factor, np.sum(g * x)

    times = Times()
    x = np.ones(3, np.float32)
    assert times(x, 2.0).dtype == np.float32
    assert wb.grad(lambda x: np.sum(times(x, 2.0)))(x).dtype == np.float32
    assert wb.grad(lambda f: np.sum(times(x, f)))(2.0) == 3
    assert times(2.0, 3.0) == 6
    assert wb.grad(times, (0, 1))(2.0, 3.0) == (3, 2)


def test_a_buffer_that_the_op_keeps_is_copied() -> None:
    class Buffered(wb.Op):
        def __init__(self, view: bool) -> None:
            self._buffer = np.zeros(2)
            self.view = view

        def compute(self, x: Any) -> Any:
            self._buffer[:] = x**2
            return self._buffer[:] if self.view else self._buffer

        def vjp(self, node: Any, g: Any) -> Any:
            return g * 2 * node.outputs[0] / node.inputs[0]

    for view in (False, True):
        op = Buffered(view)
        x = np.array([1.0, 3.0])
        first, second = op(x), op(2 * x)
        assert first.tolist() == [1, 9]
        assert second.tolist() == [4, 36]
        np.testing.assert_allclose(
            wb.grad(lambda x, op=op: np.sum(op(op(x))))(x), 4 * x**3
        )


def test_an_array_of_its_own_is_not_copied() -> None:
    made: list[Any] = []

    class Fresh(wb.Op):
        def compute(self, x: Any) -> Any:
            y = x * 2
            made.append(y.__array_interface__["data"])
            return y, (x * 3)[:1]

    y = Fresh()(np.ones(4))[0]
    assert y.__array_interface__["data"] == made[0]


def test_the_wrong_number_of_inputs() -> None:
    op = op_with()
    for call in (op, wb.grad(lambda *x: np.sum(op(*x)))):
        with pytest.raises(UsageError, match=r"takes 2 inputs, not 3, as .*\.compute"):
            call(np.ones(2), np.ones(2), np.ones(2))


def test_what_its_code_refuses_says_its_line_and_no_cure_of_ours() -> None:
    def compute(self: Any, x: Any, y: Any) -> Any:
        raise TypeError("only on Tuesdays")

    op = op_with(compute=compute)
    with pytest.raises(DtypeError, match="only on Tuesdays") as error:
        wb.grad(lambda x: np.sum(op(x, x)))(np.ones(2))
    assert "wrong_of_test(float64[2], float64[2]) (at test_op.py" in str(error.value)
    assert "astype" not in str(error.value)


def test_a_rule_that_changes_what_it_is_lent() -> None:
    class ChangesG(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 2

        def vjp(self, node: Any, g: Any) -> Any:
            g *= 2
            return g

        def jvp(self, node: Any, t: Any) -> Any:
            node.inputs[0][0] = 5.0
            return t

    op, x = ChangesG(), np.ones(2)
    says = r"ChangesG\.vjp.*changes an array.*in place.*x\.copy\(\)"
    with pytest.raises(UsageError, match=says):
        wb.grad(lambda x: np.sum(op(x)))(x)
    with pytest.raises(UsageError, match=r"ChangesG\.jvp.*changes an array"):
        wb.jvp(op, (x,), (x,))
    assert x.tolist() == [1, 1]

    def rule(node: Any, g: Any) -> Any:
        g *= 2
        return g

    changed = wb.override("sin", rule)
    with pytest.raises(OverrideError, match=r"changes an array.*Work on a copy"):
        wb.grad(lambda x: np.sum(np.sin(x)), overrides=[changed])(x)


def test_inputs_by_name() -> None:
    class Scaled(wb.Op):
        def compute(self, x: Any, by: Any = 2.0, *rest: Any) -> Any:
            return x * by

        def vjp(self, node: Any, g: Any) -> Any:
            x, by = node.inputs
            return g * by, g * x

    scaled = Scaled()
    assert scaled(by=3.0, x=2.0) == 6
    assert scaled(2.0, by=3.0) == 6
    assert wb.grad(lambda x: scaled(x=x, by=3.0))(2.0) == 3
    with pytest.raises(UsageError, match="given y by name, which it does not take so"):
        scaled(2.0, y=3.0)

    class Named(wb.Op):
        def compute(self, x: Any, *, scale: Any = 1.0) -> Any:
            return x * scale

    with pytest.raises(UsageError, match=r"by name alone.*annotated attribute"):
        Named()(2.0, scale=3.0)
    with pytest.raises(DtypeError, match="None stands where an array"):
        scaled(None, 1.0)


def test_arrays_of_subclasses_are_not_changed_and_keep_no_mask(tmp_path: Any) -> None:
    class AddsInPlace(wb.Op):
        def compute(self, x: Any) -> Any:
            x += 1
            return x

    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(3,))
    with pytest.raises(UsageError, match="changes an array in place"):
        AddsInPlace()(mapped)
    assert mapped.tolist() == [0, 0, 0]
    with pytest.raises(TraceError, match="its mask would be lost"):
        AddsInPlace()(np.ma.masked_array([1.0, 2.0], [0, 1]))


def test_lengths_that_depend_on_values() -> None:
    class PickPositive(wb.Op):
        def compute(self, x: Any) -> Any:
            return x[x > 0]

    class PickOpenly(PickPositive):
        def infer(self, x: Any) -> Any:
            return wb.Spec((None,), x.dtype)

        def vjp(self, node: Any, g: Any) -> Any:
            (x,) = node.inputs
            return wb.at(np.zeros_like(x))[x > 0].set(g)

    v, x = wb.vector("v"), np.array([1.0, -1.0, 2.0])
    cost = np.sum(PickOpenly()(v) ** 3)
    assert wb.function([v], wb.grad(cost, v))(x).tolist() == [3, 0, 12]
    with pytest.raises(ShapeError, match=r"write infer.*None in their place"):
        wb.function([v], PickPositive()(v))(x)
    with pytest.raises(
        ShapeError, match=r"of a batch give arrays of shapes \(2,\), \(1"
    ):
        wb.vmap(PickOpenly())(np.stack([x, -x]))


def test_A4_an_op_is_a_rule_wherever_a_function_is() -> None:
    class SquareGrad(wb.Op):
        def compute(self, x: Any, g: Any) -> Any:
            return 2 * g * x

        def vjp(self, node: Any, h: Any) -> Any:
            x, g = node.inputs
            return 2 * g * h, 2 * x * h

    class SquareByOp(wb.Op):
        vjp = SquareGrad()

        def compute(self, x: Any) -> Any:
            return x**2

    class SquareRegistered(wb.Op):
        def compute(self, x: Any) -> Any:
            return x**2

    wb.register_gradient("square_registered")(SquareGrad())
    x, u, g = wb.vectors("x u g")
    graph = wb.OpFromGraph([u, g], 2 * g * u, name="square_grad_graph")
    at = np.array([0.5, -2.0])
    for f, given in (
        (SquareByOp(), None),
        (SquareRegistered(), None),
        (wb.custom_vjp(lambda x: x**2, vjp=SquareGrad()), None),
        (wb.custom_vjp(lambda x: x**2, vjp=graph), None),
        (wb.OpFromGraph([x], x**2, vjp=graph, name="square_by_graph"), None),
        (np.square, wb.override("square", SquareGrad())),
        (np.square, wb.override("square", graph)),
    ):
        rules = [given] if given else None
        cost = lambda x, f=f: np.sum(f(x))  # noqa: E731
        assert np.array_equal(wb.grad(cost, overrides=rules)(at), 2 * at)
        assert np.array_equal(
            wb.jvp(f, (at,), (np.ones(2),), overrides=rules)[1], 2 * at
        )
        if given is None:
            assert np.array_equal(wb.hessian(cost)(at), 2 * np.eye(2))
            assert np.array_equal(wb.vmap(wb.grad(lambda x, f=f: f(x)[0]))(
                np.stack([at, at])), [[1, 0], [1, 0]])  # fmt: skip


def test_an_op_that_is_a_rule_gets_zeros_where_nothing_arrives() -> None:
    class TwoGrad(wb.Op):
        def compute(self, x: Any, g: Any, h: Any, i: Any) -> Any:
            assert all(isinstance(c, (np.ndarray, np.generic)) for c in (g, h, i))
            return 3 * g + 5 * h + 0 * i

    class TwoAndIndex(wb.Op):
        vjp = TwoGrad()

        def compute(self, x: Any) -> Any:
            return 3 * x, 5 * x, np.argmax(x)

    op, x = TwoAndIndex(), np.ones(2)
    assert wb.grad(lambda x: np.sum(op(x)[0]))(x).tolist() == [3, 3]
    assert wb.grad(lambda x: np.sum(op(x)[0] + op(x)[1]))(x).tolist() == [8, 8]


def test_rules_and_values_in_every_form_of_a_method() -> None:
    class Static(wb.Op):
        @staticmethod
        def compute(x: Any) -> Any:
            return 2 * x

        @classmethod
        def vjp(cls, node: Any, g: Any) -> Any:
            return 2 * g

    assert wb.grad(lambda x: Static()(x))(3.0) == 2
    with pytest.raises(UsageError, match="takes 1 input, not 2"):
        Static()(1.0, 2.0)
    with pytest.raises(UsageError, match=r"vjp is '2 \* g', which is no method"):
        type("Textual", (wb.Op,), {"compute": lambda self, x: x, "vjp": "2 * g"})


def test_what_is_computed_from_settings_is_none() -> None:
    class FromTable(wb.Op):
        def __init__(self, n: int) -> None:
            self.n = n

        @cached_property
        def table(self) -> Any:
            return np.arange(5.0) * self.n

        def compute(self, x: Any) -> Any:
            return x * self.table[2]

        def vjp(self, node: Any, g: Any) -> Any:
            return g * self.table[2]

    op = FromTable(3)
    assert op.table[1] == 3
    assert wb.grad(lambda x: op(x))(1.0) == 6
    assert op == FromTable(3)
    assert hash(op) == hash(FromTable(3))


def test_a_rule_that_indexes_what_all_examples_share() -> None:
    class Picked(wb.Op):
        def compute(self, x: Any, i: Any) -> Any:
            return x[i]

        def vjp(self, node: Any, g: Any) -> Any:
            x, i = node.inputs
            return wb.at(np.zeros_like(x))[i].add(g + 0 * x[i]), None

    places = np.array([[0, 2], [1, 1]])
    f = lambda x: np.sum(wb.vmap(lambda i: Picked()(x, i))(places) ** 2)  # noqa: E731
    assert wb.grad(f)(np.array([1.0, 2.0, 3.0])).tolist() == [2, 8, 6]


def test_a_jvp_that_forgets_its_return() -> None:
    def forgets(node: Any, t: Any) -> None:
        """Returns nothing."""

    class Forgetful(wb.Op):
        def compute(self, x: Any) -> Any:
            return 2 * x

        def jvp(self, node: Any, t: Any) -> Any:
            forgets(node, t)

    says = r"returned None: has it a `return` at its end\? For an output that does not"
    with pytest.raises(UsageError, match=says):
        wb.jvp(Forgetful(), (1.0,), (1.0,))
    with (
        pytest.raises(OverrideError, match=says),
        wb.overrides(wb.override("tanh", vjp="d", jvp=forgets)),
    ):
        wb.jvp(np.tanh, (1.0,), (1.0,))
