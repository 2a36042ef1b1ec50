"""What the methods of an op return: held against its inputs, and made to fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.gradient import DisconnectedType


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


# Gradients


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
        (lambda node, g: ("text", None), DtypeError, "as str, which is not an array"),
    ],
)
def test_a_vjp_that_returns_what_does_not_fit(vjp: Any, kind: Any, says: str) -> None:
    op = op_with(vjp)
    with pytest.raises(kind, match=says) as error:
        wb.grad(lambda x, y: np.sum(op(x, y)), (0, 1))(np.ones(3), np.ones(2))
    text = str(error.value)
    assert (
        text.startswith("wrong_of_test: op_with")
        or "Wrong.vjp (at test_op_returns.py" in text
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
    assert "Pair.vjp (at test_op_returns.py" in text
    assert "takes (node: 'Any', g: 'Any')" in text
    assert "pair has 2 outputs" in text
    assert "Write def vjp(self, node, g0, g1)" in text
    assert "positional argument" not in text


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


# Values and their types


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


def test_infer_and_compute_must_agree() -> None:
    op = op_with(
        compute=lambda self, x, y: x[1:],
        infer=lambda self, x, y: x,
    )
    with pytest.raises(ShapeError, match=r"returned float64\[2\].*says float64\[3\]"):
        op(np.ones(3), np.ones(2))


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
    assert wb.function([v], PickPositive()(v))(x).tolist() == [1, 2]
    with pytest.raises(
        ShapeError, match=r"of a batch give arrays of shapes \(2,\), \(1"
    ):
        wb.vmap(PickOpenly())(np.stack([x, -x]))


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
    assert "wrong_of_test(float64[2], float64[2]) (at test_op_returns.py" in str(
        error.value
    )
    assert "astype" not in str(error.value)


# Buffers


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
