"""Files that are no model, damaged, too new or hostile: errors, and nothing run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.onnx_programs import (
    HAS_ONNX,
    NEEDS_ONNX,
    body,
    external,
    model,
    node,
    stored,
    value,
)
from workbench import models
from workbench.errors import ModelError, UsageError

if HAS_ONNX:
    import onnx
    from onnx import helper

pytestmark = NEEDS_ONNX

X = np.ones(2)


def run(source: Any, *inputs: Any) -> Any:
    f, weights = models.from_onnx(source)
    return f(weights, *(inputs or (X,)))


@pytest.mark.parametrize("data", [b"", b"no model at all", bytes(range(256)) * 40])
def test_bytes_that_are_no_model(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"these bytes are no ONNX model"):
        models.from_onnx(data)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = model(node("Relu", "x", "y")).SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(whole[:-30])
    with pytest.raises(ModelError, match=r"cut\.onnx is no ONNX model"):
        models.from_onnx(tmp_path / "cut.onnx")
    with pytest.raises(FileNotFoundError, match=r"gone\.onnx"):
        models.from_onnx(tmp_path / "gone.onnx")


def test_a_newer_version_than_the_package_knows() -> None:
    newer = model(node("Relu", "x", "y"), opset=999)
    told = r"version 999 of the ops ai\.onnx, and onnx .* knows up to \d+\. Run pip"
    with pytest.raises(ModelError, match=told):
        models.from_onnx(newer)


def test_a_circle_of_nodes() -> None:
    circle = model(
        node("Add", "x b", "a"), node("Relu", "a", "b"), node("Exp", "b", "y")
    )
    with pytest.raises(ModelError, match="Add, node 'a' of the model reads 'b', which"):
        models.from_onnx(circle)
    twice = model(node("Relu", "x", "y"), node("Exp", "x", "y"))
    with pytest.raises(ModelError, match=r"Exp, node 'y' .* makes 'y' a second time"):
        models.from_onnx(twice)


def test_a_function_that_calls_itself() -> None:
    function = helper.make_function(
        "mine", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    endless = model(node("F", "x", "y", domain="mine"), functions=[function])
    with pytest.raises(ModelError, match="or a function of the model calls itself"):
        run(endless)


HUGE = np.array([10**6, 10**6])


@pytest.mark.parametrize(
    ("op", "settings", "arrays"),
    [
        ("ConstantOfShape s", {}, {"s": HUGE}),
        ("Expand x s", {}, {"s": np.array([10**12, 2])}),
        ("Tile x s", {}, {"s": np.array([10**12])}),
        ("Pad x s", {}, {"s": np.array([0, 10**12])}),
        ("Range s t d", {}, {"s": 0.0, "t": 1e12, "d": 1.0}),
        ("OneHot i n v", {}, {"i": np.array([1]), "n": np.array(10**12), "v": X}),
        ("Resize x . s", {"mode": "linear"}, {"s": np.array([1e12], np.float32)}),
        ("Reshape x s", {}, {"s": HUGE}),
    ],
    ids=lambda x: x.split()[0] if isinstance(x, str) else "",
)
def test_sizes_that_no_memory_has(op: str, settings: Any, arrays: Any) -> None:
    name, *inputs = op.split()
    huge = model(node(name, " ".join(inputs), "y", **settings), **arrays)
    told = f"{name}, node 'y' of the model .*needs more memory than there is"
    with pytest.raises(ModelError, match=told):
        run(huge)


def test_a_loop_of_a_million_million_steps() -> None:
    inner = body(
        [node("Identity", "go", "on"), node("Exp", "s", "s2")],
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("s")],
        [value("on", [], "BOOL"), value("s2")],
    )
    endless = model(node("Loop", "n . x", "y", body=inner), n=np.array(10**12))
    with pytest.raises(ModelError, match="the steps of a Loop of shape"):
        run(endless)


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        ((1, [10**6, 10**6]), "'w' is damaged"),
        ((1, [-1], b"1234"), "'w' has a negative length"),
        ((1, [3], b"1234"), "'w' is damaged"),
        ((99, [1], b"1234"), "'w' is damaged"),
    ],
)
def test_a_stored_tensor_that_is_damaged(tensor: Any, told: str) -> None:
    damaged = model(node("Add", "x w", "y"), w=stored(*tensor))
    with pytest.raises(ModelError, match=told):
        models.from_onnx(damaged)


@pytest.mark.parametrize(
    ("location", "entries", "told"),
    [
        ("../secret", {}, "outside the model's folder, which is not read"),
        ("ABSOLUTE", {}, "outside the model's folder"),
        ("link", {}, "outside the model's folder"),
        ("", {}, "outside the model's folder"),
        ("gone.bin", {}, "'gone.bin', which is not there"),
        ("data.bin", {"offset": 8, "length": 80}, "which has no bytes 8 to 88"),
        ("data.bin", {"offset": -8}, "which has no bytes"),
        ("data.bin", {"offset": "x"}, "'w' is damaged"),
        ("data.bin", {}, "'w' is damaged"),
        ("a\0b", {}, "'w' is damaged"),
    ],
)
def test_external_data_is_read_in_the_folder_alone(
    tmp_path: Path, location: str, entries: Any, told: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(np.ones(2, np.float32).tobytes())
    (folder / "data.bin").write_bytes(np.ones(4, np.float32).tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    place = str(tmp_path / "secret") if location == "ABSOLUTE" else location
    path = folder / "m.onnx"
    hostile = model(node("Add", "x w", "y"), w=external(place, **entries))
    path.write_bytes(hostile.SerializeToString())
    with pytest.raises(ModelError, match=told):
        models.from_onnx(path)


def test_external_data_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    proto = model(node("Add", "x w", "y"), w=external("data.bin", offset=8, length=8))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    f, weights = models.from_onnx(str(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(weights["w"], np.float32([2, 3]))
    np.testing.assert_array_equal(f(weights, X)[0], [3.0, 4.0])
    with pytest.raises(ModelError, match="is found beside a path only"):
        models.from_onnx(proto)


def test_names_are_text() -> None:
    name = "/enc/<img src=x onerror=alert(1)>/Exp"
    f, weights = models.from_onnx(model(node("Exp", "x", "y", name=name)))
    graph = wb.trace(lambda x: f(weights, x)[0])(X)
    assert graph.outputs[0].scope == "enc/_img_src_x_onerror_alert_1_"


def test_an_op_that_nobody_knows_is_named_with_its_node() -> None:
    unknown = model(node("Shrug", "x", "y", name="/enc/Shrug_7"))
    told = r"Shrug, node '/enc/Shrug_7' of the model .* Replace it in the model"
    with pytest.raises(ModelError, match=told):
        run(unknown)


def test_an_op_without_derivative_is_named_with_its_node() -> None:
    regions = model(
        node("RoiAlign", "x r k", "y", name="/head/RoiAlign", mode="max"),
        inputs="x r",
        k=np.array([0]),
    )
    f, weights = models.from_onnx(regions)
    x, r = np.ones((1, 1, 4, 4)), np.array([[0.0, 0.0, 2.0, 2.0]])
    assert f(weights, x, r)[0].shape == (1, 1, 1, 1)
    told = "RoiAlign, node '/head/RoiAlign' .* cannot be differentiated"
    with pytest.raises(ModelError, match=told):
        wb.vjp(lambda x: f(weights, x, r)[0], x)


def test_what_is_missing_is_named() -> None:
    for made, told in (
        (model(node("Slice", "x", "y")), "Slice, node 'y' .*: ends is missing"),
        (model(node("If", "x", "y")), "If, node 'y' .*: its then_branch is missing"),
        (model(node("Concat", "", "y", axis=0)), "operands is missing"),
        (model(node("Exp", "x", "z")), "the list of outputs reads 'y'"),
    ):
        with pytest.raises(ModelError, match=told):
            run(made)


def test_wrong_arguments_are_refused() -> None:
    f, weights = models.from_onnx(model(node("Add", "x w", "y"), w=np.ones(2)))
    with pytest.raises(UsageError, match=r"takes weights and 1 input \(x\), not 2"):
        f(weights, X, X)
    with pytest.raises(UsageError, match="needs the weight 'w', which is not among"):
        f({}, X)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    two = model(node("Add", "x z", "y", name="/enc/Add"), inputs="x z")
    with pytest.raises(ValueError, match="broadcast") as caught:
        run(two, X, np.ones(3))
    assert caught.value.__notes__ == ["in Add, node '/enc/Add' of the model"]


def test_the_bytes_of_a_model_are_read_too() -> None:
    whole = model(node("Exp", "x", "y")).SerializeToString()
    np.testing.assert_allclose(run(whole)[0], np.exp(X))
    assert onnx.load_model_from_string(whole).graph.node[0].op_type == "Exp"


def test_names_that_are_missing_or_there_twice() -> None:
    whole = model(node("Add", "x w", "y"), w=np.ones(3))
    for change, told in (
        (lambda g: setattr(g.initializer[0], "name", ""), "initialiser has no name"),
        (lambda g: g.initializer.append(g.initializer[0]), "two initialisers .* 'w'"),
        (lambda g: g.input.append(g.input[0]), "two inputs have the name 'x'"),
        (lambda g: setattr(g.input[0], "name", ""), "an input has no name"),
    ):
        damaged = onnx.ModelProto()
        damaged.CopyFrom(whole)
        change(damaged.graph)
        with pytest.raises(ModelError, match=told):
            models.from_onnx(damaged)


def test_a_model_without_versions() -> None:
    whole = model(node("Exp", "x", "y"))
    del whole.opset_import[:]
    with pytest.raises(ModelError, match=r"its Exp is of: its opset_import is missing"):
        models.from_onnx(whole)


def test_two_functions_of_one_name() -> None:
    made = [
        onnx.helper.make_function(
            "own", "F", ["x"], ["y"], [node("Neg", "x", "y")], whole_versions()
        )
        for _ in range(2)
    ]
    both = model(node("F", "x", "y", domain="own"), functions=made)
    with pytest.raises(ModelError, match="two functions have one domain, name and"):
        models.from_onnx(both)


def whole_versions() -> Any:
    return [onnx.helper.make_opsetid("", 20)]


def test_numbers_and_lists_are_arrays() -> None:
    f, weights = models.from_onnx(
        model(node("Mul", "x w", "y"), kinds={"x": "FLOAT"}, w=np.float32(3))
    )
    for x in (2, 2.0, [2.0, 1.0], (2, 1), True):
        (y,) = f(weights, x)
        np.testing.assert_array_equal(y, np.multiply(x, 3))
        assert y.dtype == np.float32
    assert f({"w": 4}, 2.0)[0] == 8
    for wrong in ("abc", [[1.0], [1.0, 2.0]], object()):
        told = r"takes 'x' as an array of float32, and this \w+ is none: .* Give an"
        with pytest.raises(UsageError, match=told):
            f(weights, wrong)


def test_what_a_model_hands_out_is_no_part_of_it() -> None:
    shared = onnx.numpy_helper.from_array(np.ones(4, int), "c")
    f, weights = models.from_onnx(
        model(
            node("Constant", "", "c", value=shared),
            node("Reshape", "c shape", "d"),
            node("Cast", "d", "e", to=onnx.TensorProto.DOUBLE),
            node("Add", "x e", "y"),
            node("Identity", "shape", "s"),
            outputs="y c d s",
            kinds={"c": "INT64", "d": "INT64", "s": "INT64"},
            shape=np.array([2, 2]),
        )
    )
    for _ in range(2):
        y, c, d, s = f(weights, np.ones((2, 2)))
        np.testing.assert_array_equal(y, np.full((2, 2), 2.0))
        np.testing.assert_array_equal(c, np.ones(4))
        np.testing.assert_array_equal(s, [2, 2])
        for array in (y, c, d, s):
            array[...] = 100


def test_what_a_node_lacks_is_told() -> None:
    for nodes, told in (
        ([node("Resize", "x", "y")], "it has neither scales nor sizes"),
        ([node("Constant", "", "c", value=2.0), node("Add", "x c", "y")],
         r"its value 2\.0 is no tensor"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            run(model(*nodes))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0, 0.0])
def test_scales_that_are_no_positive_numbers(scale: float) -> None:
    scales = np.array([scale], np.float32)
    for made in (
        model(node("Resize", "x . s", "y"), s=scales),
        model(node("Upsample", "x s", "y"), s=scales, opset=9),
    ):
        with pytest.raises(ModelError, match=r"its scales \[.*\] are not positive"):
            run(made)


def test_numbers_that_ask_for_what_cannot_be() -> None:
    n = {f"n{i}": np.array(float(x)) for i, x in enumerate((0, 5, 0))}
    for made, told in (
        (model(node("Cast", "x", "y", to=9999)), "no dtype of the number 9999"),
        (model(node("Range", "n0 n1 n2", "y"), **n), "from 0.0 to 5.0 in steps of 0.0"),
        (
            model(node("TopK", "x k", "y i"), k=np.array([9])),
            "9 of 2 entries are",
        ),
        (model(node("TopK", "x k", "y i"), k=np.array([-1])), "-1 of 2 entries are"),
    ):
        with pytest.raises(ModelError, match=re.escape(told)):
            run(made)
