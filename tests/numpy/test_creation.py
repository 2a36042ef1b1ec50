"""Arrays that the namespace makes: from what, of which dtype, where, and whose."""

from __future__ import annotations

import array as buffers
import sys
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from workbench.core.tensor import Tensor
from workbench.errors import GradientLostError


def traced(f: Any, *args: Any) -> Any:
    """What ``f`` returns inside a trace of its arguments."""
    kept: list[Any] = []

    def call(*given: Any) -> None:
        kept.append(f(*given))

    wb.trace(call)(*(args or (1.0,)))
    return kept[0]


class Shared:
    """What has nothing but DLPack."""

    def __init__(self, inner: np.ndarray[Any, Any]) -> None:
        self.inner = inner

    def __dlpack__(self, **how: Any) -> Any:
        return self.inner.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


@pytest.mark.parametrize(
    "obj",
    [
        3,
        2.5,
        1j,
        True,
        [1, 2.0],
        [[1], [2]],
        (),
        np.arange(3),
        np.float32(2),
        buffers.array("d", [1.0, 2.0]),
        memoryview(b"ab"),
        range(3),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_asarray_of_plain_things(obj: Any) -> None:
    truth = np.asarray(obj)
    got = wnp.asarray(obj)
    assert type(got) is np.ndarray
    assert got.dtype == truth.dtype
    np.testing.assert_array_equal(got, truth)
    inside = traced(lambda x: wnp.asarray(obj))
    assert isinstance(inside, Tensor)
    assert (inside.dtype, inside.shape) == (truth.dtype, truth.shape)
    np.testing.assert_array_equal(inside.value, truth)


def test_asarray_of_what_has_dlpack_alone() -> None:
    data = np.arange(3.0)
    got = wnp.asarray(Shared(data))
    assert np.shares_memory(got, data)
    assert wnp.asarray(Shared(data), dtype=wnp.float32).dtype == np.float32
    assert not np.shares_memory(wnp.from_dlpack(Shared(data), copy=True), data)


@pytest.mark.parametrize(
    ("f", "jacobian"),
    [
        (lambda x: wnp.asarray([x[0], x[1]]), [[1, 0], [0, 1]]),
        (lambda x: wnp.asarray([[x[0]], [5.0]])[:, 0], [[1, 0], [0, 0]]),
        (lambda x: wnp.asarray((x[1], np.float64(2))), [[0, 1], [0, 0]]),
        (lambda x: wnp.asarray(np.array([x[1], 3.0])), [[0, 1], [0, 0]]),
        (lambda x: wnp.asarray([x, x])[1], [[1, 0], [0, 1]]),
        (lambda x: wnp.array([x[0], 2 * x[1]]), [[1, 0], [0, 2]]),
        (lambda x: wnp.asarray(x, copy=True), [[1, 0], [0, 1]]),
        (lambda x: wnp.asanyarray(x), [[1, 0], [0, 1]]),
        (lambda x: wnp.ascontiguousarray(x[0]), [[1, 0]]),
        (lambda x: wnp.from_dlpack(x), [[1, 0], [0, 1]]),
        (lambda x: wnp.full(2, x[0]), [[1, 0], [1, 0]]),
        (lambda x: wnp.full_like(np.ones(2), x[1]), [[0, 1], [0, 1]]),
        (lambda x: wnp.linspace(x[0], x[1], 3), [[1, 0], [0.5, 0.5], [0, 1]]),
        (lambda x: wnp.linspace(x[0], 2, 2, endpoint=False), [[1, 0], [0.5, 0]]),
        (lambda x: wnp.astype(x, wnp.complex128).real, [[1, 0], [0, 1]]),
        (lambda x: wnp.zeros_like(x) * x, [[0, 0], [0, 0]]),
        (lambda x: wnp.stack([wnp.ones(()), x[0]]), [[0, 0], [1, 0]]),
        (lambda x: wnp.eye(2) @ x + wnp.arange(2), [[1, 0], [0, 1]]),
    ],
)
def test_what_is_made_of_tensors_keeps_their_gradient(f: Any, jacobian: Any) -> None:
    for mode in ("rev", "fwd"):
        found = wb.jacobian(f, mode=mode)(np.array([1.5, -2.0]))
        np.testing.assert_array_equal(found, np.array(jacobian, float))


def test_what_gives_an_array_of_tensors_keeps_their_gradient() -> None:
    class Labelled:
        def __init__(self, data: Any) -> None:
            self.data = data

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([self.data[0], self.data[1]], object)

    slope = wb.grad(lambda x: wnp.sum(wnp.asarray(Labelled(x)) ** 2))
    np.testing.assert_allclose(slope(np.array([1.0, 2.0])), [2.0, 4.0])


def test_signatures_are_those_of_numpy() -> None:
    x = np.asfortranarray(np.ones((2, 3)))
    for f in (
        lambda np, x: np.zeros((2, 3), float, "F"),
        lambda np, x: np.ones((2, 3), order="F", like=x),
        lambda np, x: np.full((2, 3), 2.0, order="F"),
        lambda np, x: np.full((2, 3), x[0, 0], order="F"),
        lambda np, x: np.empty((2, 3), order="F") * 0,
        lambda np, x: np.eye(2, 3, k=1, order="F"),
        lambda np, x: np.arange(3.0, like=x),
        lambda np, x: np.array(x[0], ndmin=2),
        lambda np, x: np.array(x, order="C", subok=True),
        lambda np, x: np.zeros_like(x),
        lambda np, x: np.ones_like(x, order="C"),
        lambda np, x: np.full_like(x, 2, shape=(3, 2)),
        lambda np, x: np.empty_like(x, float, "C", False, (3,)) * 0,
        lambda np, x: np.logspace(0, 1, 3),
        lambda np, x: np.tri(2, 3),
    ):
        expected = f(np, x)
        for made in (f(wnp, x), traced(lambda x, f=f: f(wnp, x), x)._value):
            np.testing.assert_allclose(made, expected)
            assert made.dtype == expected.dtype
            assert made.strides == expected.strides


def test_dtypes() -> None:
    x = np.ones(2, np.float32)
    assert traced(lambda x: wnp.asarray([x[0], x[1]]), x).dtype == np.float32
    assert traced(lambda x: wnp.asarray(x, dtype=wnp.int8), x).dtype == np.int8
    assert traced(lambda x: wnp.full(2, x[0], dtype=wnp.float64), x).dtype == float
    assert traced(lambda x: wnp.full_like(x, 2), x).dtype == np.float32
    assert wnp.full(2, 1j).dtype == complex
    assert wnp.full(2, True).dtype == bool
    assert wnp.arange(3).dtype == np.intp
    assert wnp.arange(3.0).dtype == float
    # A number of Python's decides no dtype; an array made of it does, as in NumPy.
    strong = traced(lambda x: wnp.asarray(x) * np.float32(1), 2.0)
    assert strong.dtype == np.float64


def test_copies() -> None:
    data = np.arange(3.0)
    assert np.shares_memory(wnp.asarray(data), data)
    assert not np.shares_memory(wnp.asarray(data, copy=True), data)
    assert np.shares_memory(wnp.asarray(data, copy=False), data)
    assert wnp.astype(data, float, copy=False) is data
    assert wnp.astype(data, float) is not data
    with pytest.raises(ValueError, match="copy"):
        wnp.asarray([1.0], copy=False)
    assert traced(lambda x: wnp.asarray(x, copy=False) is x, data)
    with pytest.raises(ValueError, match="float64 to float32 copies"):
        traced(lambda x: wnp.asarray(x, dtype=wnp.float32, copy=False), data)
    with pytest.raises(ValueError, match="made of several is new"):
        traced(lambda x: wnp.asarray([x, x], copy=False), data)


def test_constants_of_a_trace() -> None:
    """They have no gradient, convert freely, and are arrays again outside."""
    made: list[Any] = []

    def f(x: Any) -> Any:
        weights = wnp.asarray([1.0, 2.0])
        made.append(weights)
        assert float(weights[0]) == 1.0
        np.testing.assert_array_equal(np.asarray(weights), [1.0, 2.0])
        return np.sum(weights * x)

    x = np.array([3.0, 4.0])
    np.testing.assert_array_equal(wb.grad(f)(x), [1.0, 2.0])
    np.testing.assert_array_equal(wb.hessian(f)(x), np.zeros((2, 2)))
    batched = wb.vmap(wb.grad(f))(np.stack([x, x]))
    np.testing.assert_array_equal(batched, [[1.0, 2.0], [1.0, 2.0]])
    assert all(isinstance(w, Tensor) for w in made)
    assert type(wnp.asarray([1.0])) is np.ndarray


def test_a_constant_runs_on_the_backend() -> None:
    from workbench.backends.numpy import compile

    graph = wb.trace(lambda x: wnp.asarray([1.0, 2.0]) * x + wnp.eye(2)[0])(
        wb.Spec((2,), float)
    )
    function = compile(graph)
    np.testing.assert_array_equal(function(np.array([3.0, 4.0]))[0], [4.0, 8.0])
    scope: dict[str, Any] = dict(function.constants)
    exec(function.source, scope)
    np.testing.assert_array_equal(scope["function"](np.array([3.0, 4.0])), [4, 8])


def test_the_users_array_is_locked_while_it_is_a_constant() -> None:
    data = np.ones(2)

    def f(x: Any) -> Any:
        y = x * wnp.asarray(data)
        data[0] = 5.0
        return np.sum(y)

    with pytest.raises(TypeError, match="changed in place"):
        wb.grad(f)(np.ones(2))


def test_ends_with_a_gradient_are_refused() -> None:
    with pytest.raises(GradientLostError, match=r"x\.item\(\)"):
        wb.grad(lambda x: np.sum(wnp.arange(0.0, x, 0.5)))(2.0)
    np.testing.assert_array_equal(
        traced(lambda x: wnp.arange(wnp.asarray(3))).value, [0, 1, 2]
    )


# Devices


def test_devices_of_numpy() -> None:
    for make in (wnp.zeros, wnp.ones, wnp.empty, wnp.arange, wnp.eye):
        assert make(2, device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="'mars' is not a device"):
            make(2, device="mars")
    for make in (wnp.zeros_like, wnp.ones_like, wnp.empty_like, wnp.asarray):
        assert make(np.ones(2), device="cpu").device == "cpu"
        with pytest.raises(ValueError, match="'mars' is not a device"):
            make(np.ones(2), device="mars")
    with pytest.raises(ValueError, match="lies on 'cpu'"):
        wnp.astype(np.ones(2), float, device="mars")
    with pytest.raises(ValueError, match="is not a device"):
        wnp.zeros(2, device=3)


class Place:
    """A device as CuPy's: it is current inside a ``with``."""

    __module__ = "elsewhere.cuda"
    current: ClassVar[list[Place]] = []

    def __enter__(self) -> Place:
        Place.current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        Place.current.pop()


class Far(np.ndarray[Any, Any]):
    """An array that lies on a `Place`."""

    device: Any = None


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """The device of a library that is loaded, whose makers are NumPy's."""
    library = ModuleType("elsewhere")

    def maker(name: str) -> Any:
        def make(*args: Any, **settings: Any) -> Any:
            (device,) = Place.current
            made = getattr(np, name)(*args, **settings).view(Far)
            made.device = device
            return made

        return make

    for name in "arange asarray empty eye full linspace ones zeros".split():
        setattr(library, name, maker(name))
    monkeypatch.setitem(sys.modules, "elsewhere", library)
    return Place()


def test_a_device_leads_to_its_library(place: Place) -> None:
    like = wnp.asarray([1.0, 2.0], device=place)
    made = [
        like,
        wnp.zeros(2, device=place),
        wnp.ones((2, 1), dtype=wnp.int8, device=place),
        wnp.empty(3, device=place),
        wnp.full(2, 7, device=place),
        wnp.eye(2, device=place),
        wnp.arange(3, device=place),
        wnp.linspace(0, 1, 3, device=place),
        wnp.zeros_like(np.ones(2), device=place),
        wnp.full_like(np.ones(2), 3, device=place),
    ]
    for x in made:
        assert type(x) is Far
        assert x.device is place
    assert Place.current == []
    assert made[2].dtype == np.int8
    inside = traced(lambda x: (wnp.zeros(2, device=place), wnp.asarray(like).device))
    assert inside[0].device is place
    with pytest.raises(ValueError, match=r"moving to .* copies"):
        wnp.asarray(np.ones(2), device=place, copy=False)
