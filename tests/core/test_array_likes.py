"""Objects of other libraries that hold a Tensor: tables, labelled arrays.

Such an object gives NumPy an array where it is asked for one, and what comes out is an
array of objects. Either it is gathered, and the numbers are right, or an error says
what to write. The classes below do what pandas and xarray do.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import GradientLostError

W = np.array([1.0, 2.0])
MASK = np.array([True, False])


class Labelled:
    """Gives an array, and no more."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.data, dtype=dtype)


class Column(Labelled):
    """Computes with operators and ufuncs of its own, as `pandas.Series` does.

    It makes room for what has a higher priority.
    """

    __array_priority__ = 500
    __pandas_priority__ = 3000

    def compute(self, run: Callable[..., Any], *others: Any) -> Any:
        if any(getattr(x, "__pandas_priority__", 0) > 3000 for x in others):
            return NotImplemented
        return type(self)(run(*[getattr(x, "data", x) for x in (self, *others)]))

    def __mul__(self, other: Any) -> Any:
        return self.compute(np.multiply, other)

    def __rmul__(self, other: Any) -> Any:
        return self.compute(np.multiply, other)

    def __add__(self, other: Any) -> Any:
        return self.compute(np.add, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        if any(getattr(x, "__pandas_priority__", 0) > 3000 for x in inputs):
            return NotImplemented
        made = [x.data if isinstance(x, Labelled) else x for x in inputs]
        return type(self)(getattr(ufunc, method)(*made))

    def sum(self, *_: Any, **__: Any) -> Any:
        return self.data.sum()


class Wrapper(Labelled):
    """Keeps what it is given, a Tensor too, as `xarray.DataArray` does."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __mul__(self, other: Any) -> Any:
        own = other.data if isinstance(other, Labelled) else other
        return type(self)(self.data * own)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        made = [getattr(x, "data", x) if isinstance(x, Labelled) else x for x in inputs]
        return type(self)(getattr(ufunc, method)(*made))

    def sum(self, *_: Any, **__: Any) -> Any:
        return type(self)(np.sum(self.data))


KINDS = [Labelled, Column, Wrapper]

#: Programs, and their gradients at [1, 2].
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "w * s": (lambda w, s: np.sum(w * s(w)), 2 * W),
    "s * w": (lambda w, s: np.sum(s(w) * w), 2 * W),
    "s + w": (lambda w, s: np.sum(s(w * w) + w), 2 * W + 1),
    "w - s": (lambda w, s: np.sum(w - s(w * w)), 1 - 2 * W),
    "w / s": (lambda w, s: np.sum(w / s(w * w)), -1 / W**2),
    "w ** s": (lambda w, s: np.sum(w ** s(w)), W**W * (np.log(W) + 1)),
    "w @ s": (lambda w, s: w @ s(w), 2 * W),
    "a number": (lambda w, s: np.sum(w[0] * s(w)), [4.0, 1.0]),
    "add": (lambda w, s: np.sum(np.add(w, s(w))), [2.0, 2.0]),
    "add, left": (lambda w, s: np.sum(np.add(s(w), w)), [2.0, 2.0]),
    "exp": (lambda w, s: np.sum(np.exp(s(w))), np.exp(W)),
    "power": (lambda w, s: np.sum(np.power(w, s(w))), W**W * (np.log(W) + 1)),
    "maximum": (lambda w, s: np.sum(np.maximum(w - 9, s(w))), [1.0, 1.0]),
    "arctan2": (
        lambda w, s: np.sum(np.arctan2(w, s(2 * w + 1))),
        1 / (5 * W**2 + 4 * W + 1),
    ),
    "hypot": (lambda w, s: np.sum(np.hypot(w, s(w))), [2**0.5, 2**0.5]),
    "logaddexp": (lambda w, s: np.sum(np.logaddexp(w, s(w))), [1.0, 1.0]),
    "clip": (lambda w, s: np.sum(np.clip(w, s(w - 2), s(w + 3))), [1.0, 1.0]),
    "where": (lambda w, s: np.sum(np.where(MASK, w, s(w))), [1.0, 1.0]),
    "dot": (lambda w, s: np.dot(w, s(w)), 2 * W),
    "matmul, left": (lambda w, s: np.matmul(np.asarray(s(w)), w), 2 * W),
    "einsum": (lambda w, s: np.einsum("i,i->", w, s(w)), 2 * W),
    "outer": (lambda w, s: np.sum(np.outer(w, s(w))), [6.0, 6.0]),
    "concatenate": (lambda w, s: np.sum(np.concatenate([w, s(w)]) ** 2), 4 * W),
    "stack": (lambda w, s: np.sum(np.stack([s(w), w]) ** 2), 4 * W),
    "a list": (lambda w, s: np.sum(w * [s(w), s(w)]), 4 * W),
    "nested": (lambda w, s: np.sum(np.array([s(w), w]) * w), 4 * W),
    "of objects": (lambda w, s: np.sum(w * np.asarray(s(w), dtype=object)), 2 * W),
    "a mask": (lambda w, s: np.sum(w[np.asarray(s(MASK))]), [1.0, 0.0]),
    "its sum": (lambda w, s: np.sum(np.asarray(s(w)) ** 2), 2 * W),
    "returned": (lambda w, s: s(np.sum(w * w)), 2 * W),
    "not a table": (lambda w, s: np.sum(s([3.0, 4.0]) * w), [3.0, 4.0]),
    "a table on the right": (lambda w, s: np.sum(w * s([3.0, 4.0])), [3.0, 4.0]),
    "in place": (lambda w, s: np.sum(add_in_place(w * 1.0, s(w))), [2.0, 2.0]),
}


def add_in_place(y: Any, other: Any) -> Any:
    y += other
    return y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, kind: Any) -> None:
    if name == "s + w" and kind is Wrapper:
        pytest.skip("a Wrapper adds nothing")
    program, right = CASES[name]

    def f(w: Any) -> Any:
        return program(w, kind)

    np.testing.assert_allclose(wb.grad(f)(W), right, rtol=1e-12)
    value, tangent = wb.jvp(f, (W,), (np.array([0.5, -1.0]),))
    np.testing.assert_allclose(tangent, np.dot(right, [0.5, -1.0]), rtol=1e-12)
    assert isinstance(value, (float, np.generic, np.ndarray))


@pytest.mark.parametrize("kind", KINDS)
def test_other_derivatives(kind: Any) -> None:
    def f(w: Any) -> Any:
        return np.sum(w * kind(w) * w)

    def rows(w: Any) -> Any:
        return kind(w * w)

    np.testing.assert_allclose(wb.hessian(f)(W), np.diag(6 * W))
    batch = np.stack([W, W + 1])
    np.testing.assert_allclose(wb.vmap(wb.grad(f))(batch), 3 * batch**2)
    np.testing.assert_allclose(wb.compile(wb.grad(f))(W), 3 * W**2)
    np.testing.assert_allclose(wb.jacobian(rows)(W), np.diag(2 * W))
    np.testing.assert_allclose(wb.grad(lambda w: wb.grad(f)(w) @ w)(W), 9 * W**2)
    loop = wb.grad(
        lambda w: wb.while_loop(lambda s: s < 9, lambda s: kind(s * 2), w[0])
    )
    np.testing.assert_allclose(loop(W), [16.0, 0.0])


@pytest.mark.parametrize("kind", KINDS)
def test_as_an_argument(kind: Any) -> None:
    f = lambda w: np.sum(w * w)  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(kind(W)), 2 * W)
    assert type(wb.grad(f)(kind(W))) is np.ndarray
    np.testing.assert_allclose(wb.jvp(f, (kind(W),), (W,))[1], 10.0)
    np.testing.assert_allclose(wb.grad(lambda w, s: np.sum(w * s))(W, kind(W)), W)


def test_nothing_to_find_for_the_doctor() -> None:
    assert not wb.diagnose(lambda w: np.sum(w * Labelled(w)), W)


#: A package of somebody else, which is installed.
PACKAGE = """
import numpy as np

def mean(x):
    return _convert(x).mean()

def _convert(x):
    return np.asarray(x).astype(float)

def fill(x):
    out = np.zeros(3)
    out[0] = x[0]
    return out

def rate(x):
    return -(np.exp(x) * 2)

def unequal(x):
    return x + np.ones(5)

class Table:
    def __init__(self, x):
        self.x = x

    def mean(self):
        return float(self.x[0])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package, `strangers`, and the same worked on in place, `friends`."""
    installed, own = tmp_path / "env" / "site-packages", tmp_path / "work"
    for folder, name in ((installed, "strangers"), (own, "friends")):
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(PACKAGE)
        monkeypatch.syspath_prepend(folder)
    yield import_module("strangers"), import_module("friends")
    for name in ("strangers", "friends"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda p, x: p.mean(x), r"strangers\.mean \("),
        (lambda p, x: p.fill(x), r"strangers\.fill \("),
        (lambda p, x: p.Table(x).mean(), r"strangers\.Table\.mean \("),
    ],
)
def test_an_installed_package_is_named_with_the_users_line(
    package: Any, f: Callable[..., Any], said: str
) -> None:
    cure = r"Write it with NumPy's functions.*np\.asarray\(\.\.\.\) of what strangers"
    with pytest.raises(GradientLostError, match=said + ".*" + cure) as error:
        wb.grad(lambda x: np.sum(f(package[0], x)))(W)
    assert "(at test_array_likes.py:" in str(error.value)
    assert "strangers.py" not in str(error.value)


def test_nodes_have_the_users_own_line(package: Any) -> None:
    strangers, friends = package

    def f(x: Any, p: Any) -> Any:
        return np.sum(p.rate(x))

    for p, file in ((strangers, "test_array_likes.py"), (friends, "friends.py")):
        graph = wb.trace(lambda x, p=p: f(x, p))(W)
        nodes = [x for x in graph.nodes if x.op.name in ("exp", "negative", "multiply")]
        assert len(nodes) == 3
        assert {Path(x.site.filename).name for x in nodes if x.site} == {file}
    with pytest.raises(ValueError, match=r"at test_array_likes\.py:\d+: strangers\.u"):
        wb.grad(
            lambda x: np.sum(
                strangers.unequal(x)))(W)  # fmt: skip
    with pytest.raises(ValueError, match=r"at friends\.py:\d+: return x \+ np"):
        wb.grad(lambda x: np.sum(friends.unequal(x)))(W)


def test_modules_of_python_are_not_the_users() -> None:
    with pytest.raises(GradientLostError, match=r"statistics\.mean \(at test_array"):
        wb.grad(lambda x: statistics.mean(x))(W)


class Holder:
    """Gives the Tensor itself, which NumPy takes for no array."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.data


def cubes(x: Any) -> Any:
    return np.sum(x**3)


@pytest.mark.parametrize("wrap", [np.asarray, Labelled, Holder])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(wb.grad(cubes)(y)),
        lambda x, y: np.sum(wb.grad(cubes, allow_int=True)(y)),
        lambda x, y: np.sum(wb.grad(lambda p: cubes(p["a"]))({"a": y})["a"]),
        lambda x, y: np.sum(wb.hessian(cubes)(y)) / 2 + np.sum(3 * x**2 - 3 * x),
        lambda x, y: wb.jvp(cubes, (y,), (np.ones(2),))[1],
        lambda x, y: wb.jvp(cubes, (x,), (y,))[1] + np.sum(3 * x**2 - 3 * x**3),
        lambda x, y: np.sum(wb.vjp(lambda z: z**2, x)[1](y)[0]) + np.sum(x**2),
    ],
    ids=["grad", "integers", "nest", "hessian", "jvp", "tangent", "cotangent"],
)
def test_derivatives_inside_of_a_function_by_what_holds_a_tensor(
    f: Callable[..., Any], wrap: Callable[[Any], Any]
) -> None:
    """All are the sum of 3 x^2."""
    value, gradient = wb.value_and_grad(lambda x: f(x, wrap(x)))(W)
    np.testing.assert_allclose(value, 15.0)
    np.testing.assert_allclose(gradient, 6 * W)
    moved = wb.jvp(lambda x: f(x, wrap(x)), (W,), (np.array([1.0, 0.5]),))[1]
    np.testing.assert_allclose(moved, 12.0)


def test_the_tensor_of_an_array_like_meets_ops_and_is_a_result() -> None:
    f = lambda x: np.sum(np.concatenate([x * Holder(x), Holder(x)]))  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(W), 2 * W + 1)
    np.testing.assert_allclose(wb.grad(lambda x: Holder(cubes(x)))(W), 3 * W**2)


@pytest.mark.parametrize("wrap", [np.asarray, Labelled, Holder])
def test_a_branch_may_return_what_holds_a_tensor(wrap: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        double = wb.cond(x[0] > 0, lambda y: wrap(2 * y), lambda y: y, x)
        same = wb.cond(x[0] > 9, lambda y: wrap(2 * y), lambda y: wrap(y), x)
        return np.sum(double * same)

    np.testing.assert_allclose(wb.grad(f)(W), 4 * W)
    np.testing.assert_allclose(wb.compile(wb.grad(f))(W), 4 * W)
