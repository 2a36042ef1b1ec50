"""What NumPy and Python ask of a Tensor, and what they are told.

No gradient is lost in silence: each way out of a trace is an error whose text says
where, why, and what to write instead.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import workbench as wb
from workbench.errors import (
    DtypeError,
    GradientLostError,
    NotDifferentiableError,
    ShapeError,
    TraceError,
    WorkbenchError,
)
from workbench.graph.tensor import Tensor

X = np.array([0.5, 1.5, 2.5])


def gradient(f: Callable[..., Any], x: Any = X) -> Any:
    return wb.grad(lambda x: np.sum(f(x)))(np.copy(x))


# Tensors inside arrays


def test_array_of_tensors_is_gathered() -> None:
    g = gradient(lambda x: np.array([x[0] ** 2, x[1] * x[2]]) * 2)
    np.testing.assert_array_equal(g, [2.0, 5.0, 3.0])


def test_nested_lists_and_arrays_of_tensors() -> None:
    seen = {}

    def f(x: Any) -> Any:
        made = np.array([[x, 2 * x], [x * x, 0 * x]])
        seen["dtype"] = made.dtype
        y = made + np.zeros(3)
        seen["shape"] = y.shape
        return y

    np.testing.assert_array_equal(gradient(f), 3 + 2 * X)
    assert seen == {"dtype": np.dtype(object), "shape": (2, 2, 3)}


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
    with pytest.raises(
        TraceError, match=r"np\.stack\(\[\.\.\.\]\).*np\.array"
    ) as error:
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
        "identity", "multiply", "stack", "reshape", "matmul"
    ]  # fmt: skip
    with pytest.raises(TraceError, match=r"Leave out np\.asarray\(x\)"):
        gradient(lambda x: np.asarray(x) * 2, np.ones(200_000))


def test_full_like_keeps_or_refuses() -> None:
    np.testing.assert_array_equal(
        gradient(lambda x: np.full_like(x, x[0]) * 1.0), [3.0, 0.0, 0.0]
    )
    with pytest.raises(GradientLostError, match=r"np\.copyto.*np\.broadcast_to"):
        gradient(lambda x: np.full_like(np.zeros(3), x[0]))


def test_an_array_of_objects_is_no_number() -> None:
    with pytest.raises(DtypeError, match=r"object array.*astype\(float\)"):
        gradient(lambda x: x * np.array([1, "a", 2], object))


# Errors: where, why, and what instead


def lines(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "test_protocols.py" in text, text
    return text


def test_shapes_that_do_not_match() -> None:
    with pytest.raises(ShapeError) as error:
        gradient(lambda x: x + np.ones(2))
    text = lines(error)
    assert "add(float64[3], float64[2])" in text
    assert "x + np.ones(2)" in text
    assert "x[:, None]" in text


def test_shapes_that_do_not_match_in_a_product() -> None:
    with pytest.raises(ShapeError) as error:
        gradient(lambda x: np.ones((2, 2)) @ x)
    text = lines(error)
    assert "matmul(float64[2, 2], float64[3])" in text
    assert "np.ones((2, 2)) @ x" in text
    assert ".T" in text


@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda x: x.reshape(2, 2), r"reshape\(float64\[3\]\).*-1"),
        (lambda x: np.concatenate([x, np.ones((2, 2))]), r"concatenate\(float64\[3\]"),
        (lambda x: np.stack([x, x[1:]]), r"stack\(float64\[3\], float64\[2\]\)"),
        (lambda x: np.einsum("i,i->", x, np.ones(2)), "einsum.*same letter"),
        (lambda x: np.tensordot(x, np.ones((2, 2)), 1), "tensordot.*equal lengths"),
        (lambda x: np.linalg.solve(np.eye(2), x), "solve.*rows"),
        (lambda x: np.broadcast_to(x, (2, 2)), "broadcast_to"),
    ],
)
def test_each_op_names_itself(f: Callable[[Any], Any], found: str) -> None:
    with pytest.raises(ShapeError, match=found) as error:
        gradient(f)
    lines(error)
    with pytest.raises(ShapeError, match=found) as error:
        wb.trace(f)(wb.Spec((3,), np.dtype(float)))
    lines(error)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sin(x, out=np.zeros(3)),
        lambda x: np.add(x, 1, out=np.zeros(3)),
        lambda x: np.sum(x, out=np.zeros(())),
        lambda x: np.add.reduce(x, out=np.zeros(())),
        lambda x: np.concatenate([x, x], out=np.zeros(6)),
        lambda x: np.cumsum(x, out=np.zeros(3)),
        lambda x: np.einsum("i->i", x, out=np.zeros(3)),
        lambda x: np.take(x, [0], out=np.zeros(1)),
        lambda x: np.round(x, out=np.zeros(3)),
        lambda x: np.clip(x, 0, 1, out=np.zeros(3)),
        lambda x: np.exp(np.zeros(3), out=x),
    ],
)
def test_out(f: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=r"out=.*without out=") as error:
        gradient(f)
    lines(error)


def test_where_of_a_ufunc() -> None:
    with pytest.raises(TraceError, match=r"np\.where\(condition, np\.log"):
        gradient(lambda x: np.log(x, where=x > 1))


def test_unknown_functions() -> None:
    with pytest.raises(TraceError, match=r"numpy\.unwrap is not known.*x\.value"):
        gradient(np.unwrap)
    with pytest.raises(TraceError, match=r"np\.spacing is not known.*x\.value"):
        gradient(np.spacing)
    with pytest.raises(TraceError, match=r"np\.add\.reduceat is not known"):
        gradient(lambda x: np.add.reduceat(x, [0]))
    with pytest.raises(TraceError, match=r"np\.add\.at.*wb\.at\(x\)\[i\]\.add"):
        gradient(lambda x: np.add.at(x, [0], 1.0))


def test_singular_values_have_no_derivative() -> None:
    with pytest.raises(NotDifferentiableError, match=r"singular values.*'fro'"):
        gradient(lambda x: np.linalg.norm(np.outer(x, x), 2))


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: math.sin(x[0]), r"float\(x\)"),
        (lambda x: float(x[0]), r"float\(x\)"),
        (lambda x: int(x[0]), r"int\(x\)"),
        (lambda x: complex(x[0]), r"complex\(x\)"),
        (lambda x: x[0].item(), r"x\.item\(\)"),
        (lambda x: x.tolist(), r"x\.tolist\(\)"),
        (lambda x: np.asarray(x, float), r"np\.asarray"),
        (lambda x: np.array([x[0], 1.0], float), r"np\.asarray|plain array"),
        (lambda x: np.zeros(3).__setitem__(0, x[0]), "plain array"),
        (lambda x: np.copyto(np.zeros(3), x), r"np\.copyto"),
        (lambda x: np.put(np.zeros(3), 0, x), r"np\.put"),
        (lambda x: x.sort(), r"x\.sort.*np\.sort"),
        (lambda x: x.fill(1.0), r"x\.fill.*np\.full_like"),
    ],
)
def test_what_would_lose_a_gradient(f: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(GradientLostError, match=what) as error:
        wb.grad(f)(np.copy(X))
    text = lines(error)
    assert "x.value" in text or "np." in text


def test_without_a_trace_a_tensor_converts() -> None:
    x = wb.trace(lambda x: 2 * x)(np.array([3.0])).outputs[0]
    assert float(x[0]) == 6.0
    assert math.sin(x[0]) == math.sin(6.0)
    assert x.item() == 6.0
    assert x.tolist() == [6.0]
    np.testing.assert_array_equal(np.asarray(x), [6.0])
    assert np.asarray(x, np.float32).dtype == np.float32


def test_what_does_not_vary_converts_inside_a_trace() -> None:
    constant = wb.trace(lambda x: 2 * x)(np.array([3.0])).outputs[0]
    assert gradient(lambda x: x * float(constant[0])).tolist() == [6.0] * 3


def test_whole_numbers_convert_inside_a_trace() -> None:
    def f(x: Any) -> Any:
        return x[int(np.argmax(x))] + x[np.argmin(x)] * range(5)[np.argmax(x)]

    np.testing.assert_array_equal(gradient(f), [2.0, 0.0, 1.0])


def test_truth() -> None:
    np.testing.assert_array_equal(gradient(lambda x: x if x[0] < 1 else -x), [1, 1, 1])
    with pytest.raises(TraceError, match=r"np\.where\(condition") as error:
        wb.trace(lambda x: x if x > 0 else -x)(wb.Spec((), np.dtype(float)))
    lines(error)


def test_masks_without_values() -> None:
    spec = wb.Spec((3,), np.dtype(float))
    for f in (lambda x: x[x > 0], lambda x: np.nonzero(x), lambda x: np.where(x > 0)):
        with pytest.raises(TraceError, match=r"np\.where\(") as error:
            wb.trace(f)(spec)
        lines(error)
    with pytest.raises(TraceError, match=r"depends on values.*np\.where"):
        wb.vmap(lambda x, m: x[m])(np.ones((2, 3)), np.ones((2, 3), bool))


def test_item_assignment() -> None:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    with pytest.raises(TraceError, match=r"wb\.at\(x\)\[i\]\.set\(v\)") as error:
        gradient(f)
    lines(error)


def test_an_update_of_integers() -> None:
    with pytest.raises(DtypeError, match=r"int64.*astype\(float\)") as error:
        gradient(lambda x: wb.at(np.zeros(3, int))[0].set(x[0]))
    lines(error)
    with pytest.raises(TraceError, match="names an entry twice"):
        wb.at(np.ones(3))[[0, 0]].multiply(2.0)


def test_an_index_of_floats() -> None:
    with pytest.raises(IndexError, match=r"astype\(int\)") as error:
        gradient(lambda x: x[np.array([0.0, 1.0])])
    lines(error)
    with pytest.raises(IndexError, match="out of bounds"):
        gradient(lambda x: x[3])


def test_pickling() -> None:
    x = wb.trace(np.sin)(X).outputs[0]
    with pytest.raises(TypeError, match=r"x\.value"):
        pickle.dumps(x)


def test_an_attribute_that_is_not_there() -> None:
    x = wb.trace(np.sin)(X).outputs[0]
    with pytest.raises(AttributeError, match=r"x\.value\.strides"):
        _ = x.strides
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = x.nonsense


# Arrays that a trace has caught


def test_a_captured_array_is_read_only_while_the_trace_is_open() -> None:
    buffer = np.zeros(3)

    def f(x: Any) -> Any:
        total = 0.0
        for k in range(2):
            buffer[:] = k + 1
            total = total + np.sum(x * buffer)
        return total

    with pytest.raises(TraceError, match=r"changed in place.*\.copy\(\)") as error:
        wb.grad(f)(np.copy(X))
    assert "buffer[:] = k + 1" in lines(error)
    buffer[:] = 7  # writable again


def test_views_of_a_captured_array_are_read_only_too() -> None:
    base = np.zeros((2, 3))

    def f(x: Any) -> Any:
        y = np.sum(x * base[0])
        base[0, 0] = 1.0
        return y

    with pytest.raises(TraceError, match="changed in place"):
        wb.grad(f)(np.copy(X))
    base[0, 0] = 1.0


def test_arguments_are_writable_afterwards() -> None:
    x = np.copy(X)
    wb.grad(np.sum)(x)
    x += 1


# The protocols in detail


def test_reflected_operators_of_arrays_and_scalars() -> None:
    for left in (np.float64(2), np.array(2.0), np.full(3, 2.0), 2, 2.0):
        np.testing.assert_array_equal(gradient(lambda x, a=left: a * x), [2, 2, 2])
        np.testing.assert_array_equal(gradient(lambda x, a=left: x * a), [2, 2, 2])
        np.testing.assert_allclose(gradient(lambda x, a=left: a / x), -2 / X**2)


def test_in_place_operators_rebind() -> None:
    def f(x: Any) -> Any:
        y = x
        y *= 3
        y += x
        return y

    np.testing.assert_array_equal(gradient(f), [4, 4, 4])


def test_lists_are_arrays() -> None:
    np.testing.assert_array_equal(gradient(lambda x: x * [1, 2, 3]), [1, 2, 3])
    np.testing.assert_array_equal(gradient(lambda x: [1, 2, 3] * x), [1, 2, 3])
    np.testing.assert_array_equal(gradient(lambda x: np.add([1, 2, 3], x)), [1, 1, 1])


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


# Derivatives inside derivatives


def test_perturbations_are_not_confused() -> None:
    def outer(x: Any) -> Any:
        return x * wb.grad(lambda y: x + y)(1.0)

    assert wb.grad(outer)(3.0) == 1.0
    inner = wb.jvp(
        lambda x: x * wb.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,)
    )
    assert inner[1] == 6.0


def test_closures_over_outer_tensors() -> None:
    def f(x: Any) -> Any:
        g = wb.grad(lambda y: np.sum(y**2 * x))(x * 2)  # 2 * y * x = 4 x**2
        return np.sum(g)

    np.testing.assert_allclose(wb.grad(f)(X), 8 * X)


@pytest.mark.parametrize("modes", ["rrr", "rrf", "rfr", "frr", "ffr", "frf", "fff"])
def test_third_order(modes: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) * np.sin(x) ** 2)

    for mode in modes:
        f = (
            (lambda x, f=f: np.sum(wb.grad(f)(x)))
            if mode == "r"
            else (lambda x, f=f: wb.jvp(f, (x,), (np.ones_like(x),))[1])
        )
    e, s, c = np.exp(X), np.sin(2 * X), np.cos(2 * X)
    # d3 (e^x (1 - cos 2x) / 2) = e^x / 2 * (1 + 11 cos 2x + 2 sin 2x * -1 ...)
    truth = np.sum(e / 2 * (1 - (-11 * c + 2 * s)))
    np.testing.assert_allclose(f(X), truth)


def test_a_derivative_of_a_part_of_a_trace() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        slope = wb.grad(lambda y: np.sum(y**3))(y)  # 3 sin(x)**2
        return np.sum(slope)

    np.testing.assert_allclose(wb.grad(f)(X), 6 * np.sin(X) * np.cos(X))


def test_a_long_chain_needs_no_recursion() -> None:
    def f(x: Any) -> Any:
        for _ in range(50_000):
            x = x * 1.00001 + 0.0
        return np.sum(x)

    np.testing.assert_allclose(wb.grad(f)(X), 1.00001**50_000)


def test_a_long_chain_of_functions() -> None:
    def f(x: Any) -> Any:
        for _ in range(3_000):
            x = np.concatenate([x[1:], x[:1]]).reshape(3)
        return np.sum(x * np.arange(3.0))

    np.testing.assert_array_equal(wb.grad(f)(X), [0, 1, 2])
    assert isinstance(wb.trace(f)(X).outputs[0], Tensor)
