"""TensorFlow's seed, letter by letter: gradients in Python, its op in C++ (row E)."""

from __future__ import annotations

import importlib.util
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compat import tensorflow as tf
from workbench.custom.registry import CUSTOM, REGISTERED, WAITING
from workbench.errors import (
    DtypeError,
    KernelError,
    RegistrationError,
    ShapeError,
    UsageError,
)

PROGRAMS = Path(__file__).parent / "programs"
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler"
)


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    """Names of ops that a test defines are gone after it."""
    kept = [(table, dict(table)) for table in (CUSTOM, REGISTERED, WAITING)]
    tf.install()
    try:
        yield
    finally:
        tf.uninstall()
        for table, old in kept:
            table.clear()
            table.update(old)  # type: ignore[arg-type]


#: The first example of the seed; with two outputs its function takes one more.
REGISTERING = """
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops
    from tensorflow.python.ops import sparse_ops

    @ops.RegisterGradient("ZeroOut")
    def _zero_out_grad(op, grad{more}):
      to_zero = op.inputs[0]
      shape = array_ops.shape(to_zero)
      index = array_ops.zeros_like(shape)
      first_grad = array_ops.reshape(grad, [-1])[0]
      to_zero_grad = sparse_ops.sparse_to_dense([index], shape, first_grad, 0)
      return [to_zero_grad]  # List of one Tensor, since we have one input
"""


def register(more: str = "") -> None:
    exec(textwrap.dedent(REGISTERING.replace("{more}", more)), {"__name__": "seed"})


def define_zero_out(outputs: int = 1) -> Any:
    class ZeroOut(wb.Op):
        n_outputs = outputs

        def compute(self, x: Any) -> Any:
            zeroed = np.zeros_like(x)
            zeroed.flat[:1] = x.flat[:1]
            return (zeroed, np.array([3], np.int32)) if outputs == 2 else zeroed

    return ZeroOut()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_E1_a_gradient_before_or_after_its_op(before: bool, shape: Any) -> None:
    if before:
        register()
    op = define_zero_out()
    if not before:
        register()
    c = np.arange(2.0, 2 + np.prod(shape)).reshape(shape)
    g = wb.grad(lambda x: np.sum(c * op(x)))(np.ones(shape))
    want = np.zeros(shape)
    want.flat[0] = 2.0
    assert np.array_equal(g, want)
    # Recorded too: by symbols, and for a higher derivative.
    h = wb.hessian(lambda x: np.sum(op(x) ** 2))(np.ones(shape))
    assert h.flat[0] == 2.0
    assert np.sum(h) == 2.0


def test_E2_the_number_of_outputs() -> None:
    op = define_zero_out(2)
    with pytest.raises(RegistrationError, match="2 outputs"):
        register()
    register(", _")
    g = wb.grad(lambda x: np.sum(op(x)[0]))(np.ones(3))
    assert np.array_equal(g, [1, 0, 0])


def test_the_second_example_reads_inputs_outputs_and_attributes() -> None:
    """The seed's RoiPool: its gradient is another op, and rois have none."""

    class RoiPool(wb.Op):
        pooled_height: int
        pooled_width: int
        spatial_scale: float

        def compute(self, data: Any, rois: Any) -> Any:
            rows = np.asarray(rois, int)
            parts = [data[a:b] for a, b in rows]
            where = [
                a + int(np.argmax(p)) for (a, _), p in zip(rows, parts, strict=True)
            ]
            best = np.array([p.max() for p in parts]) * self.spatial_scale
            return best, np.array(where, np.int32)

    class RoiPoolGrad(wb.Op):
        scale: float

        def compute(self, data: Any, rois: Any, argmax: Any, grad: Any) -> Any:
            made = np.zeros_like(data)
            np.add.at(made, argmax, grad * self.scale)
            return made

    class roi_pooling_op:
        @staticmethod
        def roi_pool_grad(
            data: Any, rois: Any, argmax: Any, grad: Any, h: int, w: int, scale: float
        ) -> Any:
            assert (h, w) == (1, 1)
            return RoiPoolGrad(scale=scale)(data, rois, argmax, grad)

    program = """
        from tensorflow.python.framework import ops

        @ops.RegisterGradient("RoiPool")
        def _roi_pool_grad(op, grad, _):
          data = op.inputs[0]
          rois = op.inputs[1]
          argmax = op.outputs[1]
          pooled_height = op.get_attr('pooled_height')
          pooled_width = op.get_attr('pooled_width')
          spatial_scale = op.get_attr('spatial_scale')

          # compute gradient
          data_grad = roi_pooling_op.roi_pool_grad(data, rois, argmax, grad,
              pooled_height, pooled_width, spatial_scale)

          return [data_grad, None]
    """
    exec(textwrap.dedent(program), {"roi_pooling_op": roi_pooling_op})
    pool = RoiPool(pooled_height=1, pooled_width=1, spatial_scale=0.5)
    data, rois = np.array([1.0, 5.0, 2.0, 7.0]), np.array([[0, 3], [1, 4], [0, 2]])
    g = wb.grad(lambda x: np.sum(pool(x, rois)[0]))(data)
    assert np.array_equal(g, [0.0, 1.0, 0.0, 0.5])


def test_gradients_and_sessions() -> None:
    x = tf.placeholder(tf.float64, shape=[None], name="x")
    z = tf.placeholder(tf.float64, [None])
    y = tf.reduce_sum(x**2)
    (by_x, by_z) = tf.gradients([y, 3.0 * x], [x, z])
    assert by_z is None
    (cut,) = tf.gradients(tf.reduce_sum(x * tf.stop_gradient(x)), x)
    with tf.Session() as session:
        value, slope, half = session.run([y, by_x, cut], {x: [1.0, 2.0]})
    assert value == 5.0
    assert np.array_equal(slope, [5.0, 7.0])
    assert np.array_equal(half, [1.0, 2.0])
    (scaled,) = tf.gradients(y, x, grad_ys=2.0)
    assert np.array_equal(tf.Session().run(scaled, {x: [1.0, 2.0]}), [4.0, 8.0])


def test_a_function_with_its_gradient() -> None:
    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        return x**2, lambda dy: tf.minimum(dy * 2 * x, 1.0)

    assert wb.grad(clipped)(3.0) == 1.0
    assert wb.grad(clipped)(0.25) == 0.5


def test_E3_a_rule_as_data() -> None:
    rule = tf.FunctionDefHelper.Define(
        # Arg defs
        ["x: T", "dy: T"],
        # Ret val defs
        ["dx: T"],
        # Attr defs
        ["T: {float, double}"],
        # Nodes
        [(["dx"], "ReluGrad", ["dy", "x"], {"T": "$T"})],
    )
    tf.REGISTER_OP_GRADIENT("Relu", rule)
    x = np.array([-1.0, 2.0, 0.0])
    g = wb.grad(lambda x: np.sum(tf.nn.relu(x) * np.array([3.0, 4.0, 5.0])))(x)
    assert np.array_equal(g, [0.0, 4.0, 0.0])
    assert wb.graph_rule.from_json(rule.to_json()) == rule


def test_an_op_without_a_gradient() -> None:
    op = define_zero_out()
    tf.NotDifferentiable("ZeroOut")
    g = wb.grad(lambda x: np.sum(op(x)) + np.sum(x))(np.ones(2))
    assert np.array_equal(g, [1.0, 1.0])


# Sources in C++


@needs_compiler
def test_E4_the_op_of_the_seed(capfd: pytest.CaptureFixture[str]) -> None:
    """Its source as it stands: two outputs of integers, and what it prints."""
    import tensorflow  # type: ignore[import-not-found]

    module = tensorflow.load_op_library(str(PROGRAMS / "seed_zero_out.so"))
    found = module.zero_out([[5, 4], [3, 2]])
    assert np.array_equal(found.zeroed, [[5, 0], [0, 0]])
    assert np.array_equal(found[1], [3])
    assert found.zeroed.dtype == np.int32
    assert "hello, there" in capfd.readouterr().out
    # The gradient that the source registers for relu is the rule as data.
    g = wb.grad(lambda x: np.sum(tf.nn.relu(x)))(np.array([-1.0, 2.0]))
    assert np.array_equal(g, [0.0, 1.0])
    with pytest.raises(DtypeError, match=r"to_zero is of dtype float64.*int32"):
        module.zero_out(np.ones(2))


SCALE = """
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
using namespace tensorflow;
REGISTER_OP("ScaleRows")
    .Attr("T: {float, double}")
    .Attr("power: int = 2")
    .Input("x: T")
    .Input("w: T")
    .Output("y: T")
    .SetShapeFn([](shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(0));
      return Status::OK();
    });
template <typename T>
class ScaleRowsOp : public OpKernel {
 public:
  explicit ScaleRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("power", &power_));
    OP_REQUIRES(context, power_ > 0,
                errors::InvalidArgument("power is positive, not ", power_));
  }
  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    const Tensor& w = context->input(1);
    OP_REQUIRES(context, x.dims() == 2 && w.dim_size(0) == x.dim_size(0),
                errors::InvalidArgument("x has shape ", x.shape().DebugString()));
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    auto rows = x.matrix<T>();
    auto weights = w.vec<T>();
    auto out = y->matrix<T>();
    for (int64 i = 0; i < rows.dimension(0); i++)
      for (int64 j = 0; j < rows.dimension(1); j++)
        out(i, j) = std::pow(weights(i), power_) * rows(i, j);
  }
 private:
  int power_;
};
REGISTER_KERNEL_BUILDER(
    Name("ScaleRows").Device(DEVICE_CPU).TypeConstraint<float>("T"),
    ScaleRowsOp<float>);
REGISTER_KERNEL_BUILDER(
    Name("ScaleRows").Device(DEVICE_CPU).TypeConstraint<double>("T"),
    ScaleRowsOp<double>);
"""


@needs_compiler
def test_types_attributes_and_gradients_of_a_source(tmp_path: Path) -> None:
    @tf.RegisterGradient("ScaleRows")
    def _scale_rows_grad(op: Any, grad: Any) -> Any:
        x, w = op.inputs
        n = op.get_attr("power")
        return [grad * w[:, None] ** n, n * w ** (n - 1) * np.sum(grad * x, axis=1)]

    source = tmp_path / "scale_rows.cc"
    source.write_text(SCALE)
    scale = tf.load_op_library(source).scale_rows
    x, w = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 3.0])
    assert np.array_equal(scale(x, w), [[4, 8], [27, 36]])
    y = scale(x.astype("f"), w.astype("f"), power=1)
    assert y.dtype == np.float32
    assert np.array_equal(y, [[2, 4], [9, 12]])
    wb.check_grads(lambda x, w: np.sum(np.sin(scale(x, w, power=3))), (x / 9, w / 9))
    with pytest.raises(UsageError, match=r"ScaleRows.*x has shape \[2\]"):
        scale(w, w)
    with pytest.raises(UsageError, match="power is positive, not -1"):
        scale(x, w, power=-1)
    with pytest.raises(DtypeError, match=r"w is of dtype float32, and.*float64"):
        scale(x, w.astype("f"))


LABELLED = SCALE.replace(
    '.Attr("power: int = 2")',
    '.Attr("power: int = 2").Attr("label: string = \'a\'")'
    '.Attr("sizes: list(int) = [1]")',
).replace(
    "    OP_REQUIRES(context, power_",
    """    std::vector<int> sizes;
    OP_REQUIRES_OK(context, context->GetAttr("sizes", &sizes));
    OP_REQUIRES(context, power_""",
)


@needs_compiler
def test_wrong_calls_of_an_op_of_a_source(tmp_path: Path) -> None:
    source = tmp_path / "labelled.cc"
    source.write_text(LABELLED)
    scale = tf.load_op_library(source).scale_rows
    x, w = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 3.0])
    assert np.array_equal(scale(w=w, x=x, label="b", sizes=(1, 2)), [[4, 8], [27, 36]])
    form = r"scale_rows\(x, w, \*, power=2, label='a', sizes=\(1,\)\)"
    with pytest.raises(UsageError, match=rf"takes 2 inputs, not 3; .* Write {form}"):
        scale(x, w, 5)
    with pytest.raises(UsageError, match=rf"lacks x\. Write {form}"):
        scale(w=w)
    with pytest.raises(UsageError, match=f"'{2**40}' is no number of 32 bits"):
        scale(x, w, power=2**40)
    with pytest.raises(UsageError, match=f"'{2**40}' is no number of 32 bits"):
        scale(x, w, sizes=(1, 2**40))
    with pytest.raises(UsageError, match=r"label is 'a\\npower=7'.*a line break"):
        scale(x, w, label="a\npower=7")


@needs_compiler
def test_errors_of_sources(tmp_path: Path) -> None:
    source = tmp_path / "broken.cc"
    source.write_text('#include "tensorflow/core/framework/op.h"\nint f( {\n')
    with pytest.raises(KernelError, match=r"broken\.cc:2: "):
        tf.load_op_library(source)
    with pytest.raises(KernelError, match=r"no C\+\+ source none\.cc or none\.cpp"):
        tf.load_op_library(tmp_path / "none.so")


def test_what_is_not_known_says_so() -> None:
    with pytest.raises(AttributeError, match=r"tensorflow\.Variable is not known"):
        _ = tf.Variable
    with pytest.raises(ModuleNotFoundError, match=r"tensorflow\.keras is not known"):
        exec("import tensorflow.keras", {})
    with pytest.raises(UsageError, match="needs a shape"):
        tf.placeholder(tf.float32)


def test_names_mean_what_they_mean_in_tensorflow() -> None:
    """Values from TensorFlow's documentation, where NumPy's function differs."""
    parts = tf.split(np.arange(10.0), [2, 3, 5])
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
    assert [np.shape(part) for part in tf.split(np.ones((2, 6)), 3, 1)] == [(2, 2)] * 3
    assert [len(part) for part in tf.split(np.ones(7), [2, -1])] == [2, 5]
    with pytest.raises(ShapeError, match=r"\[2, 3\] entries .* the 10 of axis 0"):
        tf.split(np.arange(10.0), [2, 3])
    assert np.array_equal(tf.cumsum([[1, 2], [3, 4]]), [[1, 2], [4, 6]])
    assert np.array_equal(tf.cumprod([[1, 2], [3, 4]]), [[1, 2], [3, 8]])
    assert np.array_equal(tf.argmax([[1, 5, 0], [2, 3, 4]]), [1, 0, 1])
    assert np.array_equal(tf.argmin([[1, 5, 0], [2, 3, 4]]), [0, 1, 0])
    assert tf.div(np.int32(-7), np.int32(2)) == -4
    assert tf.div(7.0, 2) == 3.5
    assert np.array_equal(tf.where([True, False, True]), [[0], [2]])
    rows = tf.where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]])
    assert np.array_equal(rows, [[1, 2], [7, 8]])
    assert tf.ones([2]).dtype == tf.zeros((2, 3)).dtype == tf.eye(2).dtype == np.float32
    w = np.array([[1.0, 2.0], [3.0, 4.0]])
    g = wb.grad(lambda x: np.sum(w * tf.cumsum(x)))(np.ones((2, 2)))
    assert np.array_equal(g, [[4, 6], [3, 4]])
    g = wb.grad(lambda x: np.sum(3.0 * tf.split(x, [1, 2])[1]))(np.ones(3))
    assert np.array_equal(g, [0, 3, 3])


@pytest.mark.parametrize("name", ["unique", "load", "test", "fft", "linspace", "diag"])
def test_a_name_of_numpy_that_means_something_else_is_not_known(name: str) -> None:
    assert hasattr(np, name)
    with pytest.raises(AttributeError, match=rf"tensorflow\.{name} is not known"):
        getattr(tf, name)
    assert name not in dir(tf)
    assert "reshape" in dir(tf)


def test_a_program_may_ask_for_a_module_and_the_version() -> None:
    assert importlib.util.find_spec("tensorflow.keras") is None
    assert importlib.util.find_spec("tensorflow.python.ops.array_ops") is not None
    assert importlib.util.find_spec("tensorflow") is not None
    assert tf.__version__.startswith("1.")
