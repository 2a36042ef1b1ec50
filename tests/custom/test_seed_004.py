"""The seed on registered gradients, in its order, as a user types it today (E1 to E4).

Its ops: `ZeroOut` with one output and with two, `RoiPool` with attributes and a kernel
for its gradient, `Relu` with a gradient that is data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.conftest import kernel_cache
from tests.custom.kernels.sources import needs_c, needs_cpp, needs_cuda
from workbench.core.op import CUSTOM
from workbench.custom.registry import REGISTERED, WAITING
from workbench.errors import RegistrationError

__all__ = ["kernel_cache"]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Other tests have ops of these names too."""
    tables = CUSTOM, REGISTERED, WAITING
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    yield
    for table, old in zip(tables, kept, strict=True):
        table.clear()
        table.update(old)  # type: ignore[arg-type]


def test_E1_zero_out_of_one_output() -> None:
    class ZeroOut(wb.Op):
        def compute(self, to_zero: Any) -> Any:
            return np.where(np.arange(to_zero.size) == 0, to_zero, 0)

    @wb.register_gradient("zero_out")
    def _zero_out_grad(op: Any, grad: Any) -> Any:
        to_zero = op.inputs[0]
        first_grad = np.reshape(grad, [-1])[0]
        to_zero_grad = wb.at(np.zeros_like(to_zero))[0].set(first_grad)
        return [to_zero_grad]  # one array, since there is one input

    g = wb.grad(lambda x: np.sum(ZeroOut()(x) * [4.0, 5.0, 6.0]))(np.ones(3))
    np.testing.assert_array_equal(g, [4, 0, 0])


ROI_POOL = r"""
void {name}(const double *data, const int32_t *rois, {arguments}
            int64_t n, int64_t k, int64_t width, double scale) {{
    for (int64_t r = 0; r < k; r++) {{
        int64_t start = (int64_t)(rois[r] * scale);
        {body}
    }}
}}
"""


@needs_c
def test_E2_roi_pool_whose_gradient_is_an_op_of_its_own(
    rng: np.random.Generator,
) -> None:
    """`op.get_attr`, an output that the rule reads, and None for the regions."""

    class RoiPool(wb.KernelOp):
        """The largest entry of each region, and where it is."""

        inputs = "data: float64[n], rois: int32[k]"
        outputs = "pooled: float64[k], argmax: int32[k]"
        width: int
        spatial_scale: float = 1.0
        c = ROI_POOL.format(
            name="roi_pool",
            arguments="double *pooled, int32_t *argmax,",
            body="""
        int64_t best = start;
        for (int64_t i = start; i < start + width && i < n; i++)
            if (data[i] > data[best]) best = i;
        pooled[r] = data[best];
        argmax[r] = best;""",
        )

    class RoiPoolGrad(wb.KernelOp):
        inputs = "data: float64[n], rois: int32[k], argmax: int32[k], grad: float64[k]"
        outputs = "data_grad: float64[n]"
        width: int
        spatial_scale: float
        c = ROI_POOL.format(
            name="roi_pool_grad",
            arguments="const int32_t *argmax, const double *grad, double *data_grad,",
            body="(void)start; data_grad[argmax[r]] += grad[r];",
        )

    @wb.register_gradient("roi_pool")
    def _roi_pool_grad(op: Any, grad: Any, _: Any) -> Any:
        data, rois = op.inputs
        argmax = op.outputs[1]
        roi_pool_grad = RoiPoolGrad(
            width=op.get_attr("width"), spatial_scale=op.get_attr("spatial_scale")
        )
        return [roi_pool_grad(data, rois, argmax, grad), None]

    data = rng.normal(size=8)
    rois = np.array([0, 8, 10], np.int32)
    pool = RoiPool(width=3, spatial_scale=0.5)
    pooled, _ = pool(data, rois)
    starts = [0, 4, 5]
    np.testing.assert_array_equal(pooled, [data[s : s + 3].max() for s in starts])
    weights = np.array([1.0, 10.0, 100.0])
    g = wb.grad(lambda data: np.sum(weights * pool(data, rois)[0]))(data)
    want = np.zeros(8)
    for weight, start in zip(weights, starts, strict=True):
        want[start + data[start : start + 3].argmax()] += weight
    np.testing.assert_array_equal(g, want)
    wb.check_grads(lambda data: pool(data, rois)[0], (data,), modes=("rev",), order=1)


def seed_zero_out() -> type[wb.KernelOp]:
    """The seed's kernel, as it stands there but for TensorFlow's context."""

    class ZeroOut(wb.KernelOp):
        inputs = "to_zero: T[...]"
        outputs = "zeroed: T[...], indice: int32[1]"
        types = "T: int32 | float32 | float64"
        cpp = r"""
        void zero_out(const T *input, T *output_flat, int32_t *indice_flat, int64_t N) {
            indice_flat[0] = 3;
            // Set all but the first element of the output tensor to 0.
            for (int i = 1; i < N; i++) {
                output_flat[i] = 0;
            }

            // Preserve the first input value if possible.
            if (N > 0) output_flat[0] = input[0];
        }
        """
        cuda = r"""
        __global__ void zero_out(
            const T *input, T *output_flat, int32_t *indice_flat, int64_t N
        ) {
            int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
            if (i < N) output_flat[i] = i ? T(0) : input[0];
            if (i == 0) indice_flat[0] = 3;
        }
        """

    return ZeroOut


@needs_cpp
def test_E4_the_kernel_of_two_outputs() -> None:
    zero_out = seed_zero_out()()
    zeroed, indice = zero_out(np.array([[5, 4], [3, 2]], np.int32))
    np.testing.assert_array_equal(zeroed, [[5, 0], [0, 0]])
    np.testing.assert_array_equal(indice, [3])
    assert (zeroed.dtype, indice.dtype) == (np.int32, np.int32)


@needs_cuda
def test_E4_the_same_for_a_gpu() -> None:
    assert seed_zero_out().check_cuda()


@needs_cpp
def test_E4_then_the_wrong_gradient_and_the_right_one() -> None:
    """E2, too: N outputs mean N + 1 parameters, and the error says so."""
    zero_out = seed_zero_out()()
    with pytest.raises(RegistrationError) as wrong:

        @wb.register_gradient("zero_out")
        def _zero_out_grad(op: Any, grad: Any) -> Any:
            raise AssertionError

    assert "zero_out has 2 outputs" in str(wrong.value)
    assert "Write def _zero_out_grad(op, grad, grad1)" in str(wrong.value)

    @wb.register_gradient("zero_out")
    def _zero_out_grad(op: Any, grad: Any, _: Any) -> Any:
        to_zero = op.inputs[0]
        first_grad = np.reshape(grad, [-1])[0]
        flat = wb.at(np.zeros_like(np.reshape(to_zero, [-1])))[0].set(first_grad)
        return [np.reshape(flat, to_zero.shape)]

    def loss(x: Any) -> Any:
        zeroed, indice = zero_out(x)
        return np.sum(zeroed**2) + indice[0]

    x = np.array([[5.0, 4.0], [3.0, 2.0]])
    assert loss(x) == 28
    np.testing.assert_array_equal(wb.grad(loss)(x), [[10, 0], [0, 0]])
    h = wb.hessian(loss)(x)
    assert h[0, 0, 0, 0] == 2
    assert np.sum(np.abs(h)) == 2
    assert wb.check_grads(loss, (x,), order=2).ok


def test_E3_the_gradient_of_relu_as_data() -> None:
    class Relu(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.maximum(x, 0)

    class ReluGrad(wb.Op):
        def compute(self, dy: Any, x: Any) -> Any:
            return dy * (x > 0)

        def vjp(self, node: Any, g: Any) -> Any:
            return ReluGrad()(g, node.inputs[1]), None

    rule = wb.graph_rule(
        # Arg defs, Ret val defs, Attr defs, Nodes
        inputs=["x: T", "dy: T"],
        returns=["dx: T"],
        types={"T": ["float", "double"]},
        nodes=[(["dx"], "ReluGrad", ["dy", "x"], {"T": "$T"})],
    )
    wb.register_gradient("relu")(rule)
    x = np.array([-1.0, 2.0])
    np.testing.assert_array_equal(wb.grad(lambda x: np.sum(Relu()(x) ** 2))(x), [0, 4])


def relu_as_data(types: Any) -> Any:
    return wb.graph_rule(
        inputs=["x: T", "dy: T"],
        returns=["dx: T"],
        types=types,
        nodes=[
            (["positive"], "greater", ["x", 0.0], {}),
            (["dx"], "where", ["positive", "dy", 0.0], {}),
        ],
    )


@pytest.mark.parametrize(
    "text",
    ["T: {float, double}", ["T: {float, double}"], "T:{float,double}",
     "T: float32 | float64", {"T": ["float", "double"]}],
)  # fmt: skip
def test_E3_the_types_as_the_seed_writes_them(text: Any) -> None:
    rule = relu_as_data(text)
    assert rule.types == {"T": ["float32", "float64"]}
    assert wb.graph_rule.from_json(rule.to_json()) == rule


@pytest.mark.parametrize("text", ["T", "{float}", "T: {float,}", "T: ", "2: {float}"])
def test_E3_types_that_cannot_be_read(text: str) -> None:
    with pytest.raises(RegistrationError, match=r'Write types="T: \{float, double\}"'):
        relu_as_data(text)


@pytest.mark.parametrize("spelling", ["zero_out", "ZeroOut"])
def test_E1_a_gradient_that_is_registered_before_its_op(spelling: str) -> None:
    with pytest.warns(UserWarning, match="no op is called 'zero_out' so far"):

        @wb.register_gradient(spelling)
        def _zero_out_grad(op: Any, grad: Any) -> Any:
            (to_zero,) = op.inputs
            return [wb.at(np.zeros_like(to_zero))[0].set(grad[0])]

    class ZeroOut(wb.Op):
        def compute(self, to_zero: Any) -> Any:
            return np.where(np.arange(to_zero.size) == 0, to_zero, 0)

    g = wb.grad(lambda x: np.sum(ZeroOut()(x) * [4.0, 5.0, 6.0]))(np.ones(3))
    np.testing.assert_array_equal(g, [4, 0, 0])


def test_E1_what_waits_is_looked_at_when_the_op_comes() -> None:
    with pytest.warns(UserWarning, match="waits for one of that name"):
        wb.register_gradient("two_outs")(lambda op, grad: [grad])
    with pytest.raises(RegistrationError, match="two_outs has 2 outputs"):

        class TwoOuts(wb.Op):
            n_outputs = 2

            def compute(self, x: Any) -> Any:
                return x, 2 * x

    with pytest.warns(UserWarning, match="waits"):
        wb.register_gradient("own_rule")(lambda op, grad: [grad])
    with pytest.raises(RegistrationError, match=r"gradient of its own, OwnRule\.vjp"):

        class OwnRule(wb.Op):
            def compute(self, x: Any) -> Any:
                return x * 1

            def vjp(self, node: Any, g: Any) -> Any:
                return g

    with pytest.warns(UserWarning, match="waits"):
        wb.register_gradient("of_a_graph")(lambda op, grad: [7 * grad])
    x = wb.scalar("x")
    op = wb.OpFromGraph([x], [x * 2], name="of_a_graph")
    assert wb.grad(op)(1.0) == 7


@pytest.mark.parametrize("given", ["tanh", "Tanh", np.tanh])
def test_E1_the_gradient_of_an_op_of_numpy_s_is_overridden(given: Any) -> None:
    """Nothing is global: another rule holds where it is asked for."""
    with pytest.raises(RegistrationError, match=r"wb\.override\('tanh', vjp=rule\)"):
        wb.register_gradient(given)
    rule = wb.override("tanh", vjp=relu_as_data("T: {float, double}"))
    f, x = lambda x: np.sum(np.tanh(x)), np.array([-1.0, 2.0])
    assert wb.grad(f, overrides=[rule])(x).tolist() == [0, 1]
    with wb.overrides(rule):
        assert wb.grad(f)(x).tolist() == [0, 1]
    np.testing.assert_allclose(wb.grad(f)(x), 1 - np.tanh(x) ** 2)
