"""What goes wrong says where, why, and what to write instead.

No gradient is lost in silence: each way out of a trace is an error.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy._core.overrides import array_function_dispatch

import workbench as wb
from workbench.core import tree
from workbench.core.op import FUNCTIONS, OPS, UFUNCS, implements
from workbench.errors import (
    DtypeError,
    GradientLostError,
    ShapeError,
    TraceError,
    UsageError,
    WorkbenchError,
)
from workbench.ops.define import elementwise

X = np.array([0.5, 1.5, 2.5])

#: NumPy under no name that a trace binds to the namespace.
PLAIN = [np]


def plain(shape: Any) -> Any:
    """An array of NumPy's own, in a trace too."""
    return PLAIN[0].zeros(shape)


def gradient(f: Callable[..., Any], x: Any = X) -> Any:
    return wb.grad(lambda x: np.sum(f(x)))(np.copy(x))


def lines(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "test_errors.py" in text, text
    return text


# Errors: where, why, and what instead


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
        lambda x: np.sin(x, out=plain(3)),
        lambda x: np.add(x, 1, out=plain(3)),
        lambda x: np.sign(x, out=plain(3)),
        lambda x: np.sum(x, out=plain(())),
        lambda x: np.add.reduce(x, out=plain(())),
        lambda x: np.concatenate([x, x], out=plain(6)),
        lambda x: np.cumsum(x, out=plain(3)),
        lambda x: np.einsum("i->i", x, out=plain(3)),
        lambda x: np.take(x, [0], out=plain(1)),
        lambda x: np.round(x, out=plain(3)),
        lambda x: np.clip(x, 0, 1, out=plain(3)),
    ],
)
def test_out(f: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=r"out=.*without out=") as error:
        gradient(f)
    lines(error)


def test_an_array_that_a_tensor_is_added_to() -> None:
    def sums(w: Any) -> Any:
        s = plain(3)
        s += w * 2
        return np.sum(s)

    with pytest.raises(TraceError) as error:
        gradient(sums)
    assert "s += (w * 2)" in str(error.value)
    assert "Write s = s + (w * 2), which makes a new one." in str(error.value)
    assert "out=" not in str(error.value)
    lines(error)

    def steps(w: Any) -> Any:
        s = plain((2, 3))
        for k in range(2):
            s[k] /= w
        return np.sum(s)

    with pytest.raises(TraceError, match=r"s\[k\] /= w") as error:
        gradient(steps)
    assert "Write s = wb.at(s)[k].set(s[k] / w)." in str(error.value)

    # What is advised works.
    def advised(w: Any) -> Any:
        s = np.ones((2, 3))
        for k in range(2):
            s = wb.at(s)[k].set(s[k] / w)
        t = np.zeros(3)
        t = t + (w * 2)
        return np.sum(s) + np.sum(t)

    np.testing.assert_allclose(wb.grad(advised)(np.full(3, 2.0)), 2 - 2 / 4)


def test_where_nobody_has_kept_the_text_of_an_operator() -> None:
    names: dict[str, Any] = {"plain": plain}
    exec("def f(w):\n    t = plain(3)\n    t *= w\n    return t", names)
    with pytest.raises(TraceError, match=r"Write s = s \* w, which makes a new one"):
        gradient(names["f"])


def test_where_of_a_ufunc() -> None:
    with pytest.raises(TraceError, match=r"np\.where\(condition, np\.log"):
        gradient(lambda x: np.log(x, where=x > 1))


def cumsums(x: Any) -> Any:
    """A function that NumPy dispatches and nobody answers."""
    raise AssertionError("plain")


wrapping = array_function_dispatch(lambda x: (x,), module="numpy")(cumsums)

gamely = np.frompyfunc(lambda x: x, 1, 1)


def test_unknown_functions() -> None:
    with pytest.raises(TraceError, match=r"np\.cumsums is not known.*") as error:
        gradient(wrapping)
    text = lines(error)
    assert "near to it: np.cumsum" in text
    assert "x.value" in text
    assert "@workbench.core.op.implements(np.cumsums)" in text


def test_an_unknown_function_is_added_as_its_error_says() -> None:
    implements(wrapping)(lambda x: x * x)
    try:
        np.testing.assert_array_equal(gradient(wrapping), 2 * X)
    finally:
        FUNCTIONS.pop(wrapping)


def test_an_unknown_ufunc_is_added_as_its_error_says() -> None:
    with pytest.raises(TraceError, match=r"elementwise\(.*partial.*x\.value") as error:
        gradient(gamely)
    lines(error)
    op = elementwise("gamely", gamely, "2")
    try:
        np.testing.assert_array_equal(wb.jvp(gamely, (X,), (X,))[1], 2 * X)
    finally:
        UFUNCS.pop(gamely)
        OPS.pop(op.name)


def test_what_a_ufunc_does_in_place() -> None:
    with pytest.raises(GradientLostError, match=r"np\.add\.at writes.*np\.where"):
        gradient(lambda x: np.add.at(plain(3), [0], x[0]))


@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda x: np.busday_count(x, x), r"np\.busday_count.*dates.*x\.value"),
        (lambda x: np.isnat(x), r"np\.isnat.*dates.*np\.isnan\(x\)"),
        (lambda x: np.save("file", x), r"np\.save\(file, x\.value\)"),
    ],
)
def test_refused_functions(f: Callable[[Any], Any], found: str) -> None:
    with pytest.raises(TraceError, match=found) as error:
        gradient(f)
    lines(error)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: math.sin(x[0]), r"float\(x\)"),
        (lambda x: float(x[0]), r"float\(x\)"),
        (lambda x: int(x[0]), r"int\(x\)"),
        (lambda x: complex(x[0]), r"complex\(x\)"),
        (lambda x: x[0].item(), r"x\.item\(\)"),
        (lambda x: x.tolist(), r"x\.tolist\(\)"),
        (lambda x: __import__("numpy").asarray(x, float), r"np\.asarray"),
        (lambda x: np.array([x[0], 1.0], float), r"np\.asarray|plain array"),
        (lambda x: plain(3).__setitem__(0, x[0]), "plain array"),
        (lambda x: np.copyto(plain(3), x), r"np\.copyto"),
        (lambda x: np.put(plain(3), 0, x), r"np\.put"),
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


def test_numbers_computed_of_whole_ones_convert_inside_a_trace() -> None:
    """Nothing varies with a count, nor with its half, or with a rate of successes."""
    x = np.array([0.5, -1.0, 2.0])
    for f in (
        lambda x: np.sum(x) * float((x > 0).sum()),
        lambda x: np.sum(x) * math.sqrt(4 * np.count_nonzero(x > 0) / 2),
        lambda x: np.sum(x) * float(3 * np.mean(x > 0)),
        lambda x: np.sum(x) * np.arange(np.argmax(x) + 1)[-1],
    ):
        np.testing.assert_array_equal(wb.grad(f)(x), [2.0, 2.0, 2.0])
    with pytest.raises(GradientLostError, match=r"float\(x\)"):
        wb.grad(lambda x: float(np.floor(x[0]) * (x > 0).sum()))(x)


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

    with pytest.raises(TraceError, match=r"given to the function.*\.copy\(\)") as error:
        wb.compile(f)(X)
    lines(error)
    x = wb.vector("x")
    with pytest.raises(TraceError, match=r"wb\.at\(x\)\[i\]\.set\(v\)"):
        x[0] = 1.0


def test_an_update_of_integers() -> None:
    with pytest.raises(DtypeError, match=r"int64.*astype\(float\)") as error:
        gradient(lambda x: wb.at(np.zeros(3, int))[0].set(x[0]))
    lines(error)


def test_a_plain_array_indexed_without_values() -> None:
    table, places = np.array([1.0, 2.0]), np.array([1, 0, 1])
    with pytest.raises(IndexError, match=r"wb\.at\(array\)\[index\]\.get") as error:
        wb.vmap(lambda i: table[i])(places)
    lines(error)
    found = wb.vmap(lambda i: wb.at(table)[i].get())(places)
    np.testing.assert_array_equal(found, [2, 1, 2])


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


@pytest.mark.parametrize(
    ("f", "kind", "found"),
    [
        (lambda x: np.sum(x, axis=2), np.exceptions.AxisError, r"sum\(float64\[3\]"),
        (lambda x: np.sum(x, axis=2), np.exceptions.AxisError, "axes are -1 to 0"),
        (lambda x: np.sort(x, axis=1), np.exceptions.AxisError, "axis 1 is out of"),
        (lambda x: np.moveaxis(x, 0, 5), np.exceptions.AxisError, "moveaxis.*axis 5"),
        (lambda x: np.flip(x, 3), np.exceptions.AxisError, "axis 3"),
        (lambda x: np.concatenate([x, x], 1), np.exceptions.AxisError, "axis 1"),
        (lambda x: np.take(x, 7), IndexError, "index 7 is out of bounds"),
        (lambda x: np.take(x, 0, axis=3), np.exceptions.AxisError, "axis 3"),
        (lambda x: np.sort(x, kind="no"), ValueError, "no"),
        (lambda x: np.split(x, 2), ValueError, "equal"),
        (lambda x: np.squeeze(x, 0), ValueError, "squeeze.*not 1"),
        (lambda x: np.repeat(x, [1, 2]), ValueError, r"repeat\(float64\[3\]"),
        (lambda x: np.linalg.inv(x), np.linalg.LinAlgError, "inv"),
        (lambda x: np.linalg.det(np.ones((2, 3)) * x), np.linalg.LinAlgError, "square"),
        (lambda x: np.add.reduce(x, axis=4), np.exceptions.AxisError, "axis 4"),
        (lambda x: np.logaddexp(x, "a"), TypeError, "logaddexp"),
        (lambda x: x + "a", TypeError, "unsupported operand"),
        (lambda x: np.dot(x, np.ones((2, 2))), ValueError, "matmul|dot"),
        (lambda x: np.average(x, weights=[1.0]), (TypeError, ValueError), "weights"),
    ],
)
def test_arguments_that_do_not_fit(f: Any, kind: Any, found: str) -> None:
    with pytest.raises(kind):
        f(np.copy(X))  # as NumPy itself
    with pytest.raises(kind, match=found) as error:
        gradient(f)
    assert "unsupported operand" in str(error.value) or lines(error)
    if not isinstance(kind, tuple):
        with pytest.raises(kind):
            wb.trace(f)(wb.Spec((3,), np.dtype(float)))


def test_a_list_of_tensors_where_numpy_looks_for_numbers() -> None:
    with pytest.raises(GradientLostError, match=r"np\.mean\(np\.stack") as error:
        # Nothing in the code says that it reads `np.mean`.
        gradient(lambda x: getattr(np, "mean")(list(x)))  # noqa: B009
    lines(error)


@pytest.mark.parametrize("name", ["ptp", "max", "min", "mean", "median", "sort"])
def test_an_array_of_tensors_without_values(name: str) -> None:
    def program(x: Any) -> Any:
        parts = np.empty(2, object)
        parts[0], parts[1] = x, 2 * x
        return getattr(np, name)(parts)

    with pytest.raises(WorkbenchError, match=rf"np\.{name}\(np\.stack") as error:
        wb.vmap(program)(X)
    lines(error)
    assert "np.where" not in str(error.value)


def test_the_truth_that_a_function_asks_for_inside_numpy() -> None:
    with pytest.raises(TraceError, match=r"Write np\.where"):
        wb.vmap(lambda x: np.apply_along_axis(lambda _: 1 if x > 0 else 0, 0, X))(X)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: wb.grad(np.sum)(x),
        lambda x: wb.value_and_grad(np.sum)(x),
        lambda x: wb.vjp(np.sin, x),
        lambda x: wb.jvp(np.sin, (x,), (x,)),
        lambda x: wb.jacobian(np.sin)(x),
        lambda x: wb.hessian(np.sum)(x),
        lambda x: wb.hvp(np.sum, (x,), (x,)),
    ],
)
def test_what_has_no_derivative_says_the_cast(ask: Callable[[Any], Any]) -> None:
    for x in (np.arange(3), np.array([True, False]), np.array(["2020"], "M8[D]")):
        with pytest.raises(DtypeError, match=r"Pass \w+\.astype\(float\)"):
            ask(x)
    with pytest.raises(DtypeError, match=r"Pass 3\.0"):
        ask(3)
    for x in ("text", None):
        with pytest.raises(DtypeError, match="not an array or a number"):
            ask(x)


@pytest.mark.parametrize(
    "ask",
    [
        lambda f, x: wb.trace(f)(x),
        lambda f, x: wb.vmap(f)(x),
        lambda f, x: wb.checkpoint(f)(x),
        lambda f, x: wb.check_grads(f, (x,)),
        lambda f, x: wb.gradient.numeric_grad(f, x),
        lambda f, x: wb.gradient.verify_grad(f, [x]),
    ],
    ids=["trace", "vmap", "checkpoint", "check_grads", "numeric_grad", "verify_grad"],
)
def test_what_is_no_function(ask: Callable[[Any, Any], Any]) -> None:
    """An expression, say: it is not called, and the function to make of it is told."""
    expression = np.sum(wb.vector("x") ** 2)
    with pytest.raises(UsageError, match=r"cannot be called\. .*wb\.function\(\[x\],"):
        ask(expression, np.ones(3))
    with pytest.raises(UsageError, match=r"3 cannot be called\. Pass the function"):
        ask(3, np.ones(3))


# Where nests differ, in words


@dataclasses.dataclass
class Pair:
    w: Any
    b: Any


DIFFERENT: dict[str, tuple[Any, Any, str]] = {
    "an entry": (
        {"a": 1.0, "b": (1.0, 2.0)},
        {"a": 1.0, "b": 1.0},
        "at ['b'] a tuple of 2 is wanted, and an array came",
    ),
    "keys": (
        {"a": 1.0},
        {"b": 1.0},
        "a dict of 'a' is wanted, and a dict of 'b' came",
    ),
    "a length": (
        [{"b": [1.0, 2.0]}],
        [{"b": [1.0]}],
        "at [0]['b'] a list of 2 is wanted, and a list of 1 came",
    ),
    "a kind": ((1.0, 2.0), [1.0, 2.0], "a tuple of 2 is wanted, and a list of 2 came"),
    "a class": (
        {"p": Pair(1.0, 2.0)},
        {"p": {"w": 1.0, "b": 2.0}},
        "at ['p'] an instance of Pair is wanted, and a dict of 'b', 'w' came",
    ),
    "in a class": (
        Pair(1.0, (2.0,)),
        Pair(1.0, 2.0),
        "at .b a tuple of 1 is wanted, and an array came",
    ),
    "nothing": ((1.0, 2.0), (1.0, None), "at [1] an array is wanted, and None came"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_told_in_words(name: str) -> None:
    wanted, found, text = DIFFERENT[name]
    _, pullback = wb.vjp(lambda x: tree.map_tree(lambda y: x * y, wanted), 1.5)
    with pytest.raises(ShapeError) as error:
        pullback(found)
    assert text in str(error.value)
    assert "pullback(found)" in str(error.value)
    assert "PyTreeSpec" not in str(error.value)


def test_loops_and_branches_tell_where_nests_differ() -> None:
    x = np.ones(2)
    for call in (
        lambda x: wb.scan(lambda h: {"a": h["b"]}, initial={"b": x}, n_steps=2),
        lambda x: wb.while_loop(lambda s: s["b"] < 3, lambda s: {"a": 1.0}, {"b": x}),
        lambda x: wb.cond(x[0] > 0, lambda: {"b": x}, lambda: {"a": x}),
    ):
        with pytest.raises((ShapeError, UsageError)) as error:
            wb.vjp(call, x)
        assert "a dict of 'b' is wanted, and a dict of 'a' came" in str(error.value)


def test_the_text_of_a_nest() -> None:
    nest = {"a": (1.0,), "b": [1.0, None], "p": Pair(1.0, {})}
    assert repr(tree.flatten(nest)[1]) == (
        "{'a': (*,), 'b': [*, None], 'p': Pair(w=*, b={})}"
    )


def test_a_number_has_no_entries() -> None:
    for f in (lambda x: sum(v for v in x[0]), lambda x: [*x[0]], lambda x: len(x[0])):
        with pytest.raises(TypeError, match=r"has no axis: it is one number") as error:
            wb.grad(f)(np.ones(2))
        assert "at test_errors.py" in str(error.value)


@pytest.mark.parametrize(
    "f",
    [
        lambda w: np.sum(w**2),
        lambda w: w.sum(),
        lambda w: np.sum(2.0 * w),
        lambda w: np.mean((np.ones((4, 3)) @ w - 1) ** 2),
    ],
)
def test_a_list_that_is_meant_as_one_array_is_named(f: Callable[..., Any]) -> None:
    with pytest.raises((TypeError, AttributeError, GradientLostError)) as caught:
        wb.grad(f)([0.0, 0.0, 0.0])
    assert "The list w is 3 separate arguments" in str(caught.value)
    assert "pass np.array(w)" in str(caught.value)
    assert wb.grad(f)(np.ones(3)).shape == (3,)


def sum_doubles(w: Any) -> Any:
    doubles: Any = [2 * x for x in w]
    return doubles.sum()


@pytest.mark.parametrize(
    "f",
    [
        lambda w: w[0].tolist(),
        lambda w: np.reshape(w[0], "list"),
        lambda w: list(w[0]),
        sum_doubles,
    ],
)
def test_errors_about_something_else_say_nothing_of_lists(
    f: Callable[..., Any],
) -> None:
    with pytest.raises((TypeError, AttributeError, GradientLostError)) as caught:
        wb.grad(f)([0.0, 0.0, 0.0])
    assert "separate" not in str(caught.value)


def test_a_list_that_makes_no_array_is_not_called_one() -> None:
    with pytest.raises(AttributeError) as caught:
        wb.grad(lambda w: w.sum())([np.ones(3), np.ones(2)])
    assert "separate" not in str(caught.value)
    assert caught.value.name == "sum"
