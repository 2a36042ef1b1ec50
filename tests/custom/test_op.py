"""`wb.Op`: any code inside; what an op may be, its settings, its name, its inputs."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import CUSTOM
from workbench.errors import DtypeError, RegistrationError, TraceError, UsageError
from workbench.overrides.targets import snake

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
    with pytest.raises(ValueError, match=r"Did you mean the op 'twice'"):
        wb.grad(lambda x: Twice()(x), overrides=[wb.override("twise", "d")])(1.0)


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
    with pytest.raises(UsageError, match="name is not a setting"):

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
    with pytest.raises(UsageError, match=r"vjp is '2 \* g', which is not a method"):
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
