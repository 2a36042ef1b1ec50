"""What NumPy and Python ask of a Tensor, and what they get."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import workbench as wb
from workbench.core import source
from workbench.errors import (
    DtypeError,
    GradientLostError,
    ShapeError,
    TraceError,
    WorkbenchError,
)

X = np.array([0.5, 1.5, 2.5])


def gradient(f: Callable[..., Any], x: Any = X) -> Any:
    return wb.grad(lambda x: np.sum(f(x)))(np.copy(x))


def lines(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "test_protocols.py" in text, text
    return text


# Tensors inside arrays


def test_array_of_tensors_is_gathered() -> None:
    g = gradient(lambda x: np.array([x[0] ** 2, x[1] * x[2]]) * 2)
    np.testing.assert_array_equal(g, [2.0, 5.0, 3.0])


def test_nested_lists_and_arrays_of_tensors() -> None:
    seen = {}

    def f(x: Any) -> Any:
        made = np.array([[x, 2 * x], [x * x, 0 * x]])
        y = made + np.zeros(3)
        seen["shape"] = y.shape
        return y

    np.testing.assert_array_equal(gradient(f), 3 + 2 * X)
    assert seen == {"shape": (2, 2, 3)}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array([x[0], 2.0, x[1]]) @ np.ones(3),
        lambda x: np.ones(3) @ np.array([x[0], 2.0, x[1]]),
        lambda x: np.stack([x[0], 2.0, x[1]]),
        lambda x: np.full(3, x[0]) * np.array([1.0, 0.0, 0.0]) + x[1] * [1.0, 0, 0],
        lambda x: np.sum(np.array([x[0], x[1]])),
        lambda x: np.array([x[0], x[1]]),
        lambda x: wb.at(np.array([x[0], x[1]]))[0].add(1.0),
        lambda x: np.where([True, False], np.array([x[0], 1.0]), np.array([0, x[1]])),
        lambda x: np.einsum("i->i", np.array([x[0], x[1]])),
        lambda x: np.concatenate([np.array([x[0]]), x[1:2]]),
        lambda x: np.r_[x[0], x[1]] * 1.0,
        lambda x: np.vectorize(lambda a: a * a / a)(x[:2]) * np.ones(2),
        lambda x: np.asarray(x) * np.array([1.0, 1.0, 0.0]),
        lambda x: np.asarray(x)[:2].sum(),
        lambda x: np.array([x, x])[0, :2] * np.ones(2),
        lambda x: np.atleast_1d(np.asarray(x))[np.array([0, 1])],
        lambda x: wb.at(np.asarray(x) * 1.0)[2].set(0.0),
        lambda x: np.transpose(np.array([[x[0]], [x[1]]])) @ [1.0, 1.0],
        lambda x: (np.array([x[:2]]).T * np.array([[1.0], [1.0]])).ravel(),
    ],
)
def test_object_arrays_keep_the_gradient(f: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(gradient(f), [1.0, 1.0, 0.0])


def test_elements_of_an_object_array_have_methods() -> None:
    np.testing.assert_allclose(gradient(lambda x: np.sin(np.array(list(x)))), np.cos(X))


def test_numbers_and_tensors_in_one_array() -> None:
    with pytest.raises(TraceError, match=r"np\.array\(\[\.\.\.\], like=x\)") as error:
        gradient(lambda x: np.sin(np.array([x[0], 1.0])))
    assert "test_protocols.py" in str(error.value)


def test_arrays_of_tensors_broadcast_by_their_true_shape() -> None:
    w, x = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])

    def f(x: Any) -> Any:
        return np.sum(x * (np.asarray(x) * w))

    y, g = wb.value_and_grad(f)(x)
    assert y == f(x)
    np.testing.assert_allclose(g, 2 * w * x)

    def rows(x: Any) -> Any:
        return np.array([x[:2], x[1:]]) * np.array([1.0, 10.0])

    y, pullback = wb.vjp(rows, x)
    np.testing.assert_array_equal(y, rows(x))
    np.testing.assert_array_equal(pullback(np.ones((2, 2)))[0], [1, 11, 10])


def test_what_is_taken_apart_is_put_together_again() -> None:
    graph = wb.trace(lambda x: np.array([np.asarray(x), 2 * x]) @ x)(X)
    assert [node.op.name for node in graph.nodes] == [
        "identity", "multiply", "stack", "matmul"
    ]  # fmt: skip
    with pytest.raises(TraceError, match=r"Leave out np\.asarray\(x\)"):
        gradient(lambda x: __import__("numpy").asarray(x) * 2, np.ones(200_000))


def test_full_like_keeps_or_refuses() -> None:
    np.testing.assert_array_equal(
        gradient(lambda x: np.full_like(x, x[0]) * 1.0), [3.0, 0.0, 0.0]
    )
    with pytest.raises(GradientLostError, match=r"plain array.*np\.(broadcast|st)"):
        gradient(lambda x: np.full_like(np.zeros(3), x[0]))


def test_an_array_of_objects_is_no_number() -> None:
    with pytest.raises(DtypeError, match=r"object array.*astype\(float\)"):
        gradient(lambda x: x * np.array([1, "a", 2], object))


# The protocols in detail


def test_reflected_operators_of_arrays_and_scalars() -> None:
    for left in (np.float64(2), np.array(2.0), np.full(3, 2.0), 2, 2.0):
        np.testing.assert_array_equal(gradient(lambda x, a=left: a * x), [2, 2, 2])
        np.testing.assert_array_equal(gradient(lambda x, a=left: x * a), [2, 2, 2])
        np.testing.assert_allclose(gradient(lambda x, a=left: a / x), -2 / X**2)


def test_in_place_operators_rebind() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y *= 3
        y += x
        return y

    np.testing.assert_array_equal(gradient(f), [4, 4, 4])


def test_lists_are_arrays() -> None:
    np.testing.assert_array_equal(gradient(lambda x: x * [1, 2, 3]), [1, 2, 3])
    np.testing.assert_array_equal(gradient(lambda x: [1, 2, 3] * x), [1, 2, 3])
    np.testing.assert_array_equal(gradient(lambda x: np.add([1, 2, 3], x)), [1, 1, 1])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.average(x, weights=[1, 1, 1]) * 3,
        lambda x: np.trapezoid([1.0, 1.0, 1.0, 1.0], np.append(0.0, np.cumsum(x))),
        lambda x: np.diff(np.cumsum(x), prepend=[0.0]),
        lambda x: np.where([True, True, True], x, [0, 0, 0]),
        lambda x: np.take([1.0, 2.0], np.argsort(x) * 0) * x,
        lambda x: np.inner([1.0, 1.0, 1.0], x),
        lambda x: np.linalg.solve([[1, 0, 0], [0, 1, 0], [0, 0, 1]], x),
        lambda x: np.select([[True, True, True]], [x]),
        lambda x: np.unique(x),
        lambda x: np.clip(x, [-9, -9, -9], 9),
        lambda x: np.sum(np.broadcast_arrays([1, 1, 1], x)[1]),
        lambda x: np.vdot([1, 1, 1], x),
        lambda x: np.stack([x, [1, 2, 3]])[0],
    ],
)
def test_functions_take_lists(f: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(gradient(f), [1, 1, 1])


def test_python_numbers_are_weak() -> None:
    x = X.astype(np.float32)
    y, pullback = wb.vjp(lambda x: (2.5 * x + 1) ** 2 / 3, x)
    assert y.dtype == np.float32
    assert pullback(y)[0].dtype == np.float32
    assert wb.vjp(lambda x, a: a * x, x, 2.0)[0].dtype == np.float32


def test_a_sparse_array_on_either_side() -> None:
    s = scipy.sparse.csr_array(np.array([[0.0, 2, 0], [1, 0, 3]]))
    dense = s.toarray()
    np.testing.assert_array_equal(gradient(lambda x: s @ x), dense.sum(0))
    np.testing.assert_array_equal(gradient(lambda x: x @ s.T), dense.sum(0))
    np.testing.assert_array_equal(gradient(lambda x: s @ x[:, None]), dense.sum(0))
    with pytest.raises(ShapeError, match=r"sparse_matmul.*as many columns"):
        gradient(lambda x: s.T @ x)


def test_sizes_are_plain() -> None:
    def f(x: Any) -> Any:
        assert (x.shape, x.ndim, x.size, len(x)) == ((3,), 1, 3, 3)
        assert (np.shape(x), np.ndim(x), np.size(x)) == ((3,), 1, 3)
        assert np.result_type(x, np.float32) == np.float64
        assert np.result_type(x.astype(np.float32), 1.0) == np.float32
        assert np.isrealobj(x)
        assert not np.iscomplexobj(x)
        assert x.dtype == np.float64
        assert (x.itemsize, x.nbytes) == (8, 24)
        return x

    gradient(f)


def test_printing_takes_nothing_away(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x[0]:.1f}", np.array_str(x))
        return x

    np.testing.assert_array_equal(gradient(f), [1, 1, 1])
    assert capsys.readouterr().out == "[0.5 1.5 2.5] 0.5 [0.5 1.5 2.5]\n"


def test_positions_and_masks_index_plain_arrays() -> None:
    table = np.array([10.0, 20.0, 30.0])

    def f(x: Any) -> Any:
        return (
            x * table[np.argsort(-x)] + x * np.sum(table[x > 1]) + table[np.argmax(x)]
        )

    np.testing.assert_array_equal(gradient(f), [80.0, 70.0, 60.0])


def test_every_line_is_known() -> None:
    def f(x: Any) -> Any:
        y = np.var(x) + np.linalg.norm(x)
        z = np.cross(x, x[::-1])[0]
        return y * z + x.mean()

    nodes = wb.trace(f)(X).nodes[1:]
    texts = {node.site.text if node.site else None for node in nodes}
    assert texts == {
        "y = np.var(x) + np.linalg.norm(x)",
        "z = np.cross(x, x[::-1])[0]",
        "return y * z + x.mean()",
    }


def test_params_are_hashable() -> None:
    def f(x: Any) -> Any:
        y = np.sum(x[1:, ..., None], axis=(0,)) + np.pad(x, (1, 2))[[0, 1]]
        z = np.tile(x.reshape([3, 1]), [1, 2]).transpose([1, 0])
        return np.tensordot(z, np.einsum(x, [0], [0]), ([1], [0])) * y

    for node in wb.trace(f)(X).nodes:
        hash(tuple(sorted(node.params.items())))


def test_comparisons_give_booleans_that_index() -> None:
    np.testing.assert_array_equal(gradient(lambda x: x[x > 1] ** 2), [0, 3, 5])


def test_errors_are_also_the_builtin_ones() -> None:
    with pytest.raises(ValueError, match="add"):
        gradient(lambda x: x + np.ones(2))
    with pytest.raises(TypeError, match="float"):
        gradient(lambda x: math.sin(x[0]))
    assert issubclass(GradientLostError, WorkbenchError)


def test_ufuncs_of_object_arrays_of_tensors() -> None:
    """NumPy calls the method of its first operand's entries."""

    def f(x: Any) -> Any:
        pair = np.array([x[0], x[1]])
        return np.sum(np.hypot(pair, pair) * np.fmod(pair, 2.0) + np.arctan2(pair, 3))

    x = np.array([0.5, 1.5])
    # x * x * sqrt(2) + arctan(x / 3), while 0 < x < 2
    expected = 2 * np.sqrt(2) * x + 3 / (9 + x**2)
    np.testing.assert_allclose(wb.grad(f)(x), expected, rtol=1e-14)


def test_an_interrupt_leaves_no_place_pinned() -> None:
    before = source.CONTEXT.get()

    def interrupted(x: Any) -> Any:
        source.pin_line().__enter__()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wb.grad(interrupted)(1.0)
    assert source.CONTEXT.get() is before


def test_leaves_of_nests_are_called_as_one_writes_them() -> None:
    @dataclasses.dataclass
    class Layer:
        weight: Any
        bias: Any

    def model(params: Any, layer: Any, x: Any) -> Any:
        return np.sum(params["W1"] @ layer.weight) + layer.bias * params["l"][1] * x

    params = {"W1": np.ones((2, 2)), "l": [1.0, 2.0]}
    graph = wb.trace(model)(params, Layer(np.ones(2), 1.0), 3.0)
    assert [x.name for x in graph.inputs] == [
        "params['W1']",
        "params['l'][0]",
        "params['l'][1]",
        "layer.weight",
        "layer.bias",
        "x",
    ]
