"""ONNX's ops at the ends of what they take: infinities, NaN, integers, no entries.

What is right is computed by hand or by NumPy; `onnxruntime` gives the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.onnx_programs import NEEDS_ONNX, model, node
from workbench import models

pytestmark = NEEDS_ONNX

NAN, INF = np.nan, np.inf
F32 = np.float32


def run(op: str, *operands: Any, opset: int = 20, outputs: str = "y", **k: Any) -> Any:
    """Return what a node gives of arrays; all but the first are constants."""
    names = " ".join("." if x is None else f"c{i}" for i, x in enumerate(operands[1:]))
    arrays = {f"c{i}": x for i, x in enumerate(operands[1:]) if x is not None}
    f, weights = models.from_onnx(
        model(
            node(op, f"x {names}", outputs, **k), opset=opset, outputs=outputs, **arrays
        )
    )
    ys = f(weights, operands[0])
    return ys[0] if outputs == "y" else ys


def slope(op: str, x: Any, *operands: Any, **k: Any) -> Any:
    return wb.grad(lambda x: np.sum(run(op, x, *operands, **k)))(x)


def same(got: Any, want: Any, dtype: Any = None, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol)
    assert got.dtype == np.dtype(dtype or np.asarray(want).dtype)


def test_a_rectifier_hands_nan_on() -> None:
    x = np.array([NAN, -1.0, 0.0, 2.0])
    same(run("Relu", x), [NAN, 0.0, 0.0, 2.0])
    same(slope("Relu", np.array([-1.0, 0.0, 2.0])), [0.0, 0.0, 1.0])
    same(run("ThresholdedRelu", x, alpha=1.0), [NAN, 0.0, 0.0, 2.0])
    same(run("Relu", np.array([-3, 4], np.int8)), np.array([0, 4], np.int8))
    one = np.ones((1, 1, 1))
    for name in ("Relu", "ThresholdedRelu"):
        (y,) = run("RNN", NAN * one, one, one, activations=[name], hidden_size=1)
        assert np.isnan(y).all()


def resize(x: Any, scale: float, mode: str, **k: Any) -> Any:
    scales = np.array([1, 1, scale], F32)
    return run("Resize", np.reshape(x, (1, 1, -1)), None, scales, mode=mode, **k)[0, 0]


def test_bytes_are_resized_as_numbers() -> None:
    x = np.array([0, 100, 200], np.uint8)
    same(resize(x, 2, "linear"), np.array([0, 25, 75, 125, 175, 200], np.uint8))
    same(resize(x, 2, "nearest"), np.repeat(x, 2))
    # Cubics that leave the range of the dtype stop at its ends.
    y = resize(np.array([0, 255, 255, 0], np.uint8), 2, "cubic")
    assert y.dtype == np.uint8
    assert (y[0], y[3]) == (0, 255)
    up = run("Upsample", x[None], np.array([1, 2], F32), opset=9, mode="linear")
    same(up[0], np.array([0, 50, 100, 150, 200, 200], np.uint8))


def test_an_infinite_entry_stays_where_it_is() -> None:
    x = np.array([0.0, -INF, 2, 3, 4])
    same(resize(x, 2, "nearest"), np.repeat(x, 2))
    want = [0, -INF, -INF, -INF, -INF, 2.25, 2.75, 3.25, 3.75, 4]
    same(resize(x, 2, "linear"), np.array(want))
    same(resize(x, 2, "cubic")[-2:], resize(np.arange(5.0), 2, "cubic")[-2:])
    got = slope(
        "Resize",
        np.arange(3.0).reshape(1, 1, 3),
        None,
        np.ones(3, F32) * [1, 1, 2],
        mode="linear",
    )
    same(got[0, 0], np.array([2.0, 2.0, 2.0]))


def test_places_of_a_resized_array() -> None:
    corners = {"coordinate_transformation_mode": "align_corners"}
    x = np.arange(5.0)
    same(resize(x, 1.5, "linear", **corners), np.linspace(0, 4, 7))
    torch = {"coordinate_transformation_mode": "pytorch_half_pixel"}
    same(resize(x, 0.2, "linear", **torch), np.array([0.0]))
    same(resize(x, 0.2, "cubic", **torch), np.array([0.0]))
    # 0.2 is no float32: its places would lie before whole ones, its lengths too.
    same(resize(x, 0.2, "nearest", nearest_mode="floor"), np.array([2.0]))
    assert resize(np.arange(100.0), 0.29, "nearest").shape == (29,)
    cut = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    same(resize(x, 1.5, "linear", **cut), np.linspace(0, 4, 7))


def test_a_region_beside_an_infinite_entry() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 3, 3] = INF
    rois = np.array([[0.0, 0.0, 1.0, 1.0]])
    k: dict[str, Any] = {"output_height": 1, "output_width": 1, "sampling_ratio": 1}
    k["coordinate_transformation_mode"] = "output_half_pixel"
    # The middle of the region lies at (0.5, 0.5): the mean of 0, 1, 4, 5.
    same(run("RoiAlign", x, rois, np.array([0]), **k)[0, 0], np.array([[2.5]]))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_the_largest_of_any_dtype(dtype: Any) -> None:
    x = np.array([0, 3, 200, 3], dtype)
    y, at = run("TopK", x, np.array([3]), outputs="y at")
    same(y, np.array([200, 3, 3], dtype))
    assert at.tolist() == [2, 1, 3]  # of equal ones the first
    y, at = run("TopK", x, np.array([2]), outputs="y at", largest=0)
    assert at.tolist() == [0, 1]


def test_the_largest_with_nan() -> None:
    x = np.array([[1.0, NAN, 3.0], [2.0, 0.0, -INF]])
    y, at = run("TopK", x, np.array([2]), outputs="y at", axis=0)
    assert at.tolist() == [[1, 0, 0], [0, 1, 1]]
    same(y[:, 1], np.array([NAN, 0.0]))


def test_integers_are_divided_without_floats() -> None:
    big = 2**60 + 1
    same(run("Div", np.array([big, -7, 7, -8]), np.array([1, 2, -2, 3])),
         np.array([big, -3, -3, -2]), rtol=0)  # fmt: skip
    same(run("Div", np.array([200, 7], np.uint8), np.array([3, 9], np.uint8)),
         np.array([66, 0], np.uint8))  # fmt: skip


@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_integers_are_scaled(opset: int) -> None:
    x = np.array([[0, 128, 255], [1, 2, 3]], np.uint8)
    scale, zero = np.array([0.5, 2.0], F32), np.array([128, 0], np.uint8)
    one = run("DequantizeLinear", x, scale[:1], zero[:1].reshape(1), opset=opset)
    same(one, (x.astype(F32) - 128) * F32(0.5))
    scalar = run("DequantizeLinear", x, scale[0], None, opset=opset)
    same(scalar, x.astype(F32) * F32(0.5))
    if opset > 10:
        rows = run("DequantizeLinear", x, scale, zero, opset=opset, axis=0)
        same(rows, np.array([[-64, 0, 63.5], [2, 4, 6]], F32))
    by_scale = wb.grad(lambda s: np.sum(_dequantize(opset, x, s)))(scale[:1])
    same(by_scale, np.array([np.sum(x)], F32))


def _dequantize(opset: int, x: Any, scale: Any) -> Any:
    made = model(node("DequantizeLinear", "x s", "y"), inputs="x s", opset=opset)
    f, weights = models.from_onnx(made)
    return f(weights, x, scale)[0]


@pytest.mark.parametrize("p", [2, 3])
def test_norms_at_zero_have_the_slope_zero(p: int) -> None:
    x = np.zeros((1, 1, 4))
    same(slope("LpPool", x, kernel_shape=[2], p=p), x)
    same(slope("GlobalLpPool", x, p=p), x)
    if p == 2:
        same(slope("ReduceL2", x), x)
        same(slope("LpNormalization", x), x)
    y = np.array([[[3.0, 4.0, 0.0, 0.0]]])
    same(run("GlobalLpPool", y, p=p), np.sum(y**p, keepdims=True) ** (1 / p))
    same(run("ReduceL2", y), np.array([[[5.0]]]))
    same(slope("ReduceL2", y), y / 5)
    for op in ("ReduceL2", "GlobalLpPool", "LpNormalization"):
        assert np.isnan(run(op, np.full((1, 1, 2), NAN))).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_reductions_keep_the_dtype(dtype: Any) -> None:
    x = np.array([[1, 2], [4, 4]], dtype)
    same(run("ReduceMean", x, keepdims=0), dtype(2))  # 11 / 4 without its fraction
    same(run("ReduceSum", x, keepdims=0), dtype(11))
    same(run("ReduceProd", x, keepdims=0), dtype(32))
    same(run("ReduceL2", x, keepdims=0), dtype(6))
    same(run("CumSum", x, np.array(1)), np.array([[1, 3], [4, 8]], dtype))
    same(run("Shrink", np.array([-3, 1, 2], dtype), lambd=1.5, bias=0.5),
         np.array([-2, 0, 1], dtype))  # fmt: skip
    none = run("ReduceMax", np.zeros((0, 2), dtype), np.array([0]), keepdims=0)
    same(none, np.full(2, np.iinfo(dtype).min, dtype))


def test_slices_that_go_back_from_before_the_start() -> None:
    def cut(*ends: int) -> Any:
        return run("Slice", np.arange(5.0), *(np.array([n]) for n in ends))

    same(cut(-100, -101, 0, -1), np.array([0.0]))
    same(cut(100, -101, 0, -2), np.array([4.0, 2.0, 0.0]))
    same(cut(-1, 1, 0, -1), np.array([4.0, 3.0, 2.0]))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_no_entries(op: str, opset: int) -> None:
    for shape in ((0, 3), (2, 0)):
        same(run(op, np.zeros(shape, F32), opset=opset), np.zeros(shape, F32))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_recurrence_of_no_steps_returns_its_state(direction: str) -> None:
    ways = 2 if direction == "bidirectional" else 1
    start = np.arange(4.0 * ways).reshape(ways, 2, 2)
    y, h, c = run(
        "LSTM", np.zeros((0, 2, 3)), np.ones((ways, 8, 3)), np.ones((ways, 8, 2)),
        None, None, start, start + 1, direction=direction, hidden_size=2,
        outputs="y h c",
    )  # fmt: skip
    assert y.shape == (0, ways, 2, 2)
    same(h, start)
    same(c, start + 1)
