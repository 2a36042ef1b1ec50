"""`register_gradient`: the seed's TensorFlow programs (E1, E2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import CUSTOM
from workbench.custom.registry import REGISTERED
from workbench.errors import OverrideError, RegistrationError, UsageError


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Other tests have ops of these names too."""
    kept = dict(CUSTOM), dict(REGISTERED)
    for name in ("zero_out", "roi_pool"):
        CUSTOM.pop(name, None)
        REGISTERED.pop(name, None)
    yield
    for table, old in zip((CUSTOM, REGISTERED), kept, strict=True):
        table.clear()
        table.update(old)  # type: ignore[arg-type]


def zero_out(outputs: int = 1, **body: Any) -> Any:
    """The seed's op: all but the first entry become 0; with two outputs the index."""

    def compute(self: Any, x: Any) -> Any:
        y = np.zeros_like(x)
        y.flat[:1] = x.flat[0]
        return y if outputs == 1 else (y, np.array([3], np.int32))

    return type("ZeroOut", (wb.Op,), {"compute": compute, **body})()


def first_only(node: Any, grad: Any) -> Any:
    """The seed's rule: ``reshape(grad, [-1])[0]`` at index 0, zeros elsewhere."""
    to_zero = node.inputs[0]
    first = np.reshape(grad, -1)[0]
    index = np.reshape(np.arange(to_zero.size), to_zero.shape)
    return [np.where(index == 0, first, np.zeros_like(to_zero))]


def test_E1_a_gradient_by_the_name_of_the_op() -> None:
    op = zero_out()
    x = np.arange(1.0, 7.0).reshape(2, 3)
    f = lambda x: np.sum(op(x) ** 2 * 3)  # noqa: E731
    graph = wb.trace(f)(x)  # before there is a gradient

    @wb.register_gradient("zero_out")
    def _zero_out_grad(node: Any, grad: Any) -> Any:
        return first_only(node, grad)

    want = np.zeros((2, 3))
    want[0, 0] = 6.0
    np.testing.assert_array_equal(wb.grad(f)(x), want)
    hessian = wb.hessian(f)(x)
    assert hessian[0, 0, 0, 0] == 6
    assert np.count_nonzero(hessian) == 1
    session = wb.Session(graph)
    np.testing.assert_array_equal(session.grads["x"], want)
    tangent = wb.jvp(f, (x,), (np.ones_like(x),))[1]
    assert tangent == 6
    assert wb.check_grads(f, (x,), order=2).ok


def test_E1_the_node_tells_inputs_outputs_and_attributes() -> None:
    """The seed's RoiPool: settings by name, an output read, None for the rois."""

    class RoiPool(wb.Op):
        pooled_height: int
        pooled_width: int
        spatial_scale: float = 1.0

        def compute(self, data: Any, rois: Any) -> Any:
            n = self.pooled_height * self.pooled_width
            x0, x1 = rois
            region = data[x0:x1].reshape(-1, n)
            where = region.argmax(axis=0)
            pooled = region.max(axis=0) * self.spatial_scale
            return pooled, (x0 + where * n + np.arange(n)).astype(np.int32)

    @wb.register_gradient("roi_pool")
    def _roi_pool_grad(node: Any, grad: Any, _: Any) -> Any:
        data = node.inputs[0]
        argmax = node.outputs[1]
        assert node.get_attr("pooled_height") == 1
        assert node.get_attr("pooled_width") == 2
        with pytest.raises(ValueError, match="no setting 'pooled'"):
            node.get_attr("pooled")
        scale = node.get_attr("spatial_scale")
        return [wb.at(np.zeros_like(data))[argmax].add(scale * grad), None]

    pool = RoiPool(1, 2, spatial_scale=0.5)
    data, rois = np.array([9.0, 1.0, 4.0, 3.0, 2.0, 8.0]), np.array([1, 5])
    pooled, argmax = pool(data, rois)
    assert pooled.tolist() == [1.5, 2.0]
    assert argmax.tolist() == [3, 2]
    found = wb.grad(lambda d: np.sum(pool(d, rois)[0] * np.array([2.0, 10.0])))(data)
    assert found.tolist() == [0, 0, 5.0, 1.0, 0, 0]


def test_E2_two_outputs_need_two_gradients() -> None:
    """The seed's mistake: ``takes 2 positional arguments but 3 were given``."""
    op = zero_out(2)
    x = np.array([2.0, 5.0])
    assert op(x)[1].tolist() == [3]

    def register(rule: Any) -> None:
        with pytest.raises(RegistrationError) as error:
            wb.register_gradient("zero_out")(rule)
        text = str(error.value)
        assert "zero_out has 2 outputs" in text
        assert "Write def _zero_out_grad(op, grad, grad1)" in text
        assert "positional argument" not in text
        assert "test_registry.py" in text

    def _zero_out_grad(op: Any, grad: Any) -> Any:
        return first_only(op, grad)

    register(_zero_out_grad)

    @wb.register_gradient("zero_out")
    def _zero_out_grad_of_two(op: Any, grad: Any, _: Any) -> Any:
        assert _ is None
        return first_only(op, grad)

    assert wb.grad(lambda x: np.sum(op(x)[0]) * 4)(x).tolist() == [4, 0]


def test_E2_before_the_op_has_run_the_first_use_says_it() -> None:
    op = zero_out(2)

    @wb.register_gradient("zero_out")
    def _zero_out_grad(op: Any, grad: Any) -> Any:
        return first_only(op, grad)

    with pytest.raises(RegistrationError) as error:
        wb.grad(lambda x: np.sum(op(x)[0]))(np.ones(2))
    assert "Write def _zero_out_grad(op, grad, grad1)" in str(error.value)
    assert "zero_out has 2 outputs" in str(error.value)


def test_E2_the_number_that_is_declared_is_known_at_once() -> None:
    zero_out(2, n_outputs=2)
    with pytest.raises(RegistrationError, match="zero_out has 2 outputs"):
        wb.register_gradient("zero_out")(lambda node, g: g)


def test_E2_none_and_the_wrong_number() -> None:
    op = zero_out()
    wb.register_gradient("zero_out")(lambda node, g: [None])
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [0, 0]
    REGISTERED.clear()
    wb.register_gradient("zero_out")(lambda node, g: [g, None])
    with pytest.raises(UsageError, match=r"returned 2 gradients; zero_out has 1 input"):
        wb.grad(lambda x: np.sum(op(x)))(np.ones(2))


def test_an_unknown_name_is_an_error() -> None:
    zero_out()
    with pytest.raises(RegistrationError, match=r"'zero_oot'\. Did you mean zero_out"):
        wb.register_gradient("zero_oot")
    with pytest.raises(RegistrationError, match=r"'ZeroOut'\. Did you mean zero_out"):
        wb.register_gradient("ZeroOut")
    with pytest.raises(RegistrationError, match=r"tanh.*wb\.override\('tanh'"):
        wb.register_gradient("tanh")
    with pytest.raises(RegistrationError, match=r"erf.*wb\.override\('erf'"):
        wb.register_gradient("erf")
    with pytest.raises(RegistrationError, match="give the name of an op"):
        wb.register_gradient(3)
    with pytest.raises(RegistrationError, match="is not a gradient"):
        wb.register_gradient("zero_out")("clip(d, -1, 1)")


def test_rules_of_data_without_a_name_do_not_replace_each_other() -> None:
    def scaled(factor: float, name: str | None = None) -> Any:
        nodes = [(["dx"], "multiply", ["dy", factor])]
        return wb.graph_rule(["x", "dy"], ["dx"], nodes, name=name)

    op = zero_out()
    register = wb.register_gradient("zero_out")
    register(scaled(3.0))
    register(scaled(3.0))  # its cell runs again
    says = r"has a registered gradient already.* One with a name= is replaced"
    with pytest.raises(RegistrationError, match=says):
        register(scaled(5.0))
    with pytest.raises(RegistrationError, match="has a registered gradient already"):
        register(scaled(3.0, "three"))
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [3, 3]
    REGISTERED.clear()
    register(scaled(3.0, "named"))
    register(scaled(5.0, "named"))
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [5, 5]


def test_by_the_class() -> None:
    op = zero_out()
    wb.register_gradient(type(op))(first_only)
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [1, 0]


def test_a_second_registration() -> None:
    op = zero_out()

    def define(factor: float) -> Any:
        def _zero_out_grad(node: Any, g: Any) -> Any:
            return factor * first_only(node, g)[0]

        return _zero_out_grad

    f = lambda x: np.sum(op(x))  # noqa: E731
    wb.register_gradient("zero_out")(define(1.0))
    assert wb.grad(f)(np.ones(2))[0] == 1
    wb.register_gradient("zero_out")(define(2.0))  # the cell runs again
    assert wb.grad(f)(np.ones(2))[0] == 2
    with pytest.raises(RegistrationError) as error:
        wb.register_gradient("zero_out")(first_only)
    text = str(error.value)
    assert "has a registered gradient already" in text
    assert "_zero_out_grad" in text
    assert "wb.override('zero_out'" in text
    assert wb.grad(f)(np.ones(2))[0] == 2


def test_E1_two_lambdas_are_two_gradients() -> None:
    """They share a name; the second takes the place of the first on its line alone."""
    op = zero_out()
    for factor in (1.0, 2.0):  # the cell runs again
        wb.register_gradient("zero_out")(lambda node, g, factor=factor: factor * g)
    with pytest.raises(RegistrationError, match=r"already, .*<lambda> of line \d+\. "):
        wb.register_gradient("zero_out")(lambda node, g: 3 * g)
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [2, 2]


def test_a_lambda_of_other_parameters_is_told_how_to_write_it() -> None:
    zero_out(2, n_outputs=2)
    with pytest.raises(RegistrationError, match=r"Write lambda node, g0, g1: \.\.\.$"):
        wb.register_gradient("zero_out")(lambda node, g: g)


def test_an_op_that_brings_its_gradient() -> None:
    zero_out(vjp=lambda self, node, g: g)
    with pytest.raises(RegistrationError, match=r"of its own, ZeroOut\.vjp.*override"):
        wb.register_gradient("zero_out")(first_only)


def test_a_class_that_is_defined_again() -> None:
    """As the cell of a notebook does; with a gradient of its own that one holds."""
    zero_out()
    wb.register_gradient("zero_out")(first_only)
    op = zero_out()
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [1, 0]
    op = zero_out(vjp=lambda self, node, g: 5 * g)
    assert wb.grad(lambda x: np.sum(op(x)))(np.ones(2)).tolist() == [5, 5]
    assert "zero_out" not in REGISTERED


def test_integers_have_no_gradient() -> None:
    """The seed's op takes int32: its rule is never asked, and the cast is said."""
    op = zero_out(2)
    wb.register_gradient("zero_out")(lambda node, g, _: first_only(node, g))
    assert op(np.array([5, 4, 3], np.int32))[0].dtype == np.int32
    with pytest.raises(TypeError, match=r"int32.*\.astype\(float\)"):
        wb.grad(lambda x: np.sum(op(x)[0]))(np.array([5, 4, 3], np.int32))
    found = wb.grad(lambda x: np.sum(op(x.astype(np.int32))[0] * x[1]))(
        np.array([5.0, 4.0, 3.0])
    )
    assert found.tolist() == [0, 5, 0]


def test_two_ops_of_one_name_do_not_share_what_is_registered() -> None:
    x = wb.scalar("x")
    square = wb.OpFromGraph([x], x**2, name="of_one_name")
    cube = wb.OpFromGraph([x], x**3, name="of_one_name")
    wb.register_gradient("of_one_name")(lambda node, g: 10 * g)  # the last one's
    assert wb.grad(square)(2.0) == 4
    assert wb.grad(cube)(2.0) == 10
    wb.register_gradient(square)(lambda node, g: 20 * g)
    assert wb.grad(square)(2.0) == 20
    assert wb.grad(cube)(2.0) == 10
    with pytest.warns(UserWarning, match="another op of this name, made elsewhere"):
        other = wb.OpFromGraph([x], x**4, name="of_one_name")
    assert wb.grad(other)(2.0) == 32


def test_an_op_that_is_made_again_on_its_line_keeps_what_is_registered() -> None:
    x = wb.scalar("x")
    made = []
    for _ in range(2):  # as when a cell runs again
        made.append(wb.OpFromGraph([x], x**2, name="made_again"))
        if len(made) == 1:
            wb.register_gradient("made_again")(lambda node, g: 10 * g)
    assert [wb.grad(op)(2.0) for op in made] == [10, 10]


def test_an_override_of_an_op_means_that_one_and_of_its_name_all() -> None:
    class PowerOfOne(wb.Op):
        n: int

        def compute(self, x: Any) -> Any:
            return x**self.n

        def vjp(self, node: Any, g: Any) -> Any:
            return g * self.n * node.inputs[0] ** (self.n - 1)

    def times(factor: float) -> Any:
        @wb.custom_vjp(vjp=lambda node, g: factor * g)
        def times_it(x: Any) -> Any:
            return factor * x

        return times_it

    x = wb.scalar("x")
    for one, two, name, true in (
        (PowerOfOne(2), PowerOfOne(3), "power_of_one", (4, 12)),
        (times(2.0), times(3.0), "times_it", (2, 3)),
        (
            wb.OpFromGraph([x], x**2, name="some_power"),
            wb.OpFromGraph([x], x**3, name="some_power"),
            "some_power",
            (4, 12),
        ),
    ):
        f = lambda x, y, one=one, two=two: one(x) + two(y)  # noqa: E731
        for target, want in ((one, (7, true[1])), (two, (true[0], 7)), (name, (7, 7))):
            set_7 = wb.override(target, lambda node, g: 7 * g)
            assert wb.grad(f, (0, 1), overrides=[set_7])(2.0, 2.0) == want
        many = lambda x, y, f=f: np.sum(wb.vmap(f)(x, y))  # noqa: E731
        made = wb.grad(
            many, (0, 1), overrides=[wb.override(one, lambda node, g: 7 * g)]
        )
        assert np.array_equal(made(*np.full((2, 1), 2.0)), [[7], [true[1]]])
        with pytest.raises(OverrideError, match="there is another, made elsewhere"):
            wb.grad(one, overrides=[wb.override(two, "2 * d")])(2.0)


def test_the_code_of_a_session_says_which_of_several_ops() -> None:
    x = wb.scalar("x")
    square = wb.OpFromGraph([x], x**2, name="in_session")
    cube = wb.OpFromGraph([x], x**3, name="in_session")
    session = wb.Session(wb.trace(lambda x: square(x) + cube(x))(2.0), wrt=["x"])
    session.override(square, "7 * g")
    assert session.grads["x"] == 7 + 12
    line = "override(in_session, vjp='7 * g')  # with your function in_session"
    assert line in session.code()
    alone = wb.Session(wb.trace(lambda x: np.sin(square(x)))(2.0), wrt=["x"])
    alone.override(square, "7 * g")
    assert "override('in_session', vjp='7 * g')" in alone.code()
