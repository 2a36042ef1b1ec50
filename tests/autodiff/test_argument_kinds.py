"""What may be differentiated: which arguments, how nested, of which kind."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, UsageError

X = np.array([0.5, -1.0, 2.0])
Z = np.array([0.5 + 1j, -1.0 + 0.2j])


@dataclasses.dataclass
class Params:
    w: Any
    b: Any
    steps: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


# Positions and names


def affine(x: Any, w: Any, b: Any = 1.0, *, scale: Any = 2.0) -> Any:
    return np.sum(scale * (x * w + b))


def test_negative_and_several_positions() -> None:
    last = wb.grad(affine, -1)(X, 3.0)
    assert last == 2 * np.sum(X)
    both = wb.grad(affine, (-1, 0))(X, 3.0)
    assert both[0] == 2 * np.sum(X)
    np.testing.assert_array_equal(both[1], np.full(3, 6.0))
    one = wb.grad(affine, (1,))(X, 3.0)
    assert isinstance(one, tuple)
    assert len(one) == 1
    assert wb.grad(affine, np.int64(1))(X, 3.0) == last


def test_by_name() -> None:
    assert wb.grad(affine, argnames="scale")(X, 3.0, scale=2.0) == np.sum(X * 3 + 1)
    # A name serves for what is passed by position too.
    assert wb.grad(affine, argnames="w")(X, 3.0) == 2 * np.sum(X)
    made = wb.grad(affine, 0, argnames=["b", "scale"])(X, 3.0, b=1.0, scale=2.0)
    np.testing.assert_array_equal(made[0], np.full(3, 6.0))
    assert made[1:] == (6.0, np.sum(X * 3 + 1))
    H = wb.hessian(affine, argnames=("b", "scale"))(X, 3.0, b=1.0, scale=2.0)
    np.testing.assert_allclose(H, [[0, 3], [3, 0]])
    J = wb.jacobian(lambda *, a, b: a * b, argnames=("a", "b"))(a=X, b=2.0)
    np.testing.assert_allclose(J[0], 2 * np.eye(3))
    np.testing.assert_allclose(J[1], X)


def test_keyword_arguments_pass_through() -> None:
    np.testing.assert_array_equal(wb.grad(affine)(X, 3.0, scale=5.0), np.full(3, 15.0))
    np.testing.assert_array_equal(wb.grad(affine)(X, w=3.0), np.full(3, 6.0))
    assert wb.jacobian(affine, 1)(X, 3.0, scale=5.0) == 5 * np.sum(X)
    assert wb.vmap(affine)(X, X, scale=5.0).shape == (3,)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"argnums": 2}, "argnums=2, but the call has 2 positional arguments"),
        ({"argnums": -3}, "argnums=-3"),
        ({"argnums": (0, 0)}, "names an argument twice"),
        ({"argnums": (0, -2)}, "names an argument twice"),
        ({"argnums": 0, "argnames": "x"}, "argnames='x' names an argument twice"),
        ({"argnames": "nothing"}, "argnames='nothing' is not an argument of this call"),
        ({"argnames": "scale"}, "it has x, w"),
        ({"argnums": ()}, "name no argument"),
    ],
)
def test_wrong_places_say_what_there_is(settings: Any, text: str) -> None:
    for transform in (wb.grad, wb.value_and_grad, wb.jacobian, wb.hessian):
        with pytest.raises(UsageError) as error:
            transform(affine, **settings)(X, 3.0)
        assert text in str(error.value)


# Auxiliary results


def with_aux(x: Any) -> Any:
    y = np.sin(x)
    return np.sum(y * y), {"y": y, "text": "kept", "n": 3}


def test_aux_of_every_transform() -> None:
    g = 2 * np.sin(X) * np.cos(X)
    total = np.sum(np.sin(X) ** 2)
    (value, aux), made = wb.value_and_grad(with_aux, has_aux=True)(X)
    assert (value, aux["text"], aux["n"]) == (total, "kept", 3)
    np.testing.assert_allclose(made, g)
    made, aux = wb.grad(with_aux, has_aux=True)(X)
    np.testing.assert_allclose(made, g)
    assert type(aux["y"]) is np.ndarray
    y, pullback, aux = wb.vjp(with_aux, X, has_aux=True)
    np.testing.assert_allclose(pullback(1.0)[0], g)
    assert (y, aux["n"]) == (total, 3)
    y, t, aux = wb.jvp(with_aux, (X,), (np.ones(3),), has_aux=True)
    np.testing.assert_allclose(t, np.sum(g))
    assert (y, aux["n"]) == (total, 3)
    J, aux = wb.jacobian(with_aux, has_aux=True)(X)
    np.testing.assert_allclose(J, g)
    H, aux = wb.hessian(with_aux, has_aux=True)(X)
    np.testing.assert_allclose(H, np.diag(2 * np.cos(2 * X)), atol=1e-15)
    assert type(aux["y"]) is np.ndarray
    np.testing.assert_allclose(aux["y"], np.sin(X))


def test_aux_carries_derivatives_of_outer_traces() -> None:
    def outer(s: Any) -> Any:
        _, aux = wb.grad(lambda x: (np.sum(x * s), x * s**2), has_aux=True)(X)
        return np.sum(aux)

    np.testing.assert_allclose(wb.grad(outer)(3.0), 6 * np.sum(X))


@pytest.mark.parametrize("transform", [wb.grad, wb.jacobian, wb.hessian])
def test_aux_wants_a_pair(transform: Any) -> None:
    with pytest.raises(UsageError, match="must return a pair"):
        transform(np.sum, has_aux=True)(X)


# Integers, complex numbers


def test_integers_have_no_gradient() -> None:
    p = {"w": X, "n": np.array([1, 2]), "flag": True, "k": 3}

    def f(p: Any) -> Any:
        assert isinstance(p["n"], np.ndarray)
        assert p["flag"] is True
        return np.sum(p["w"] ** p["k"]) * p["n"][1]

    with pytest.raises(DtypeError, match="only floats"):
        wb.grad(f)(p)
    g = wb.grad(f, allow_int=True)(p)
    np.testing.assert_allclose(g["w"], 6 * X**2)
    assert g["n"] is g["flag"] is g["k"] is None
    J = wb.jacobian(f, allow_int=True)(p)
    np.testing.assert_allclose(J["w"], g["w"])
    assert J["n"] is None
    H = wb.hessian(f, allow_int=True)(p)
    np.testing.assert_allclose(H["w"]["w"], np.diag(12 * X))
    assert H["n"] is None
    assert wb.grad(lambda n: 2.0 * n, allow_int=True)(3) is None


def test_holomorphic() -> None:
    g = wb.grad(lambda z: np.sum(np.exp(z) * z), holomorphic=True)(Z)
    np.testing.assert_allclose(g, np.exp(Z) * (1 + Z))
    H = wb.hessian(lambda z: np.sum(z**3), holomorphic=True)(Z)
    np.testing.assert_allclose(H, np.diag(6 * Z))
    J = wb.jacobian(np.sin, holomorphic=True)(Z)
    np.testing.assert_allclose(J, np.diag(np.cos(Z)))
    for transform in (wb.grad, wb.jacobian, wb.hessian):
        with pytest.raises(DtypeError, match=r"pass x \+ 0j"):
            transform(lambda x: np.sum(x), holomorphic=True)(X)
        with pytest.raises(DtypeError, match="has complex values"):
            transform(lambda z: np.sum(np.abs(z)), holomorphic=True)(Z)


# Nests


@pytest.mark.parametrize(
    "nest",
    [
        {"w": X, "b": 2.0},
        [X, 2.0],
        (X, (2.0, None)),
        Params(X, 2.0),
        Pair(X, {"deep": [2.0]}),
        {"a": Params({"x": X}, (2.0,)), "empty": {}, "none": None},
    ],
)
def test_nests_come_back_as_they_went(nest: Any) -> None:
    from workbench.core import tree

    def f(p: Any) -> Any:
        w, b = tree.flatten(p)[0][:2]
        if np.shape(w) == ():
            w, b = b, w
        return np.sum(w**2) * b

    flat, structure = tree.flatten(nest)
    g = wb.grad(f)(nest)
    made, same = tree.flatten(g)
    assert same == structure
    for a, b in zip(made, flat, strict=True):
        expected = np.sum(X**2) if np.shape(b) == () else 2 * X * 2.0
        np.testing.assert_allclose(a, expected)
    assert type(g) is type(nest)
    y, pullback = wb.vjp(lambda p: {"out": p}, nest)
    assert tree.flatten(y["out"])[1] == structure
    (back,) = pullback({"out": nest})
    assert tree.flatten(back)[1] == structure
    _, moved = wb.jvp(lambda p: [p], (nest,), (nest,))
    assert tree.flatten(moved[0])[1] == structure
    H = wb.hessian(f)(nest)
    assert len(tree.flatten(H)[0]) == len(flat) ** 2


# What a function is


class Model:
    """A model whose instances are called."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return np.sum(self.scale * x**2)

    def loss(self, x: Any) -> Any:
        return self(x) * 2

    @classmethod
    def made(cls, x: Any) -> Any:
        return cls(3.0)(x)

    @staticmethod
    def plain(x: Any) -> Any:
        return np.sum(x)


class Total:
    """A class whose instances are what it computes."""

    def __new__(cls, x: Any) -> Any:
        return np.sum(x * x)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (Model(3.0), 6 * X),
        (Model(3.0).loss, 12 * X),
        (Model.made, 6 * X),
        (Model.plain, np.ones(3)),
        (Total, 2 * X),
        (partial(affine, w=3.0), np.full(3, 6.0)),
        (partial(affine, X), 2 * np.sum(X)),
        (np.sum, np.ones(3)),
        (np.add.reduce, np.ones(3)),
        (np.linalg.norm, X / np.linalg.norm(X)),
        (sum, np.ones(3)),
        (max, np.array([0.0, 0.0, 1.0])),
    ],
)
def test_anything_that_can_be_called(f: Any, expected: Any) -> None:
    x = 3.0 if np.shape(expected) == () else X
    np.testing.assert_allclose(wb.grad(f)(x), expected)
    value, g = wb.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(g, expected)
    np.testing.assert_allclose(wb.jacobian(f)(x), expected)
    np.testing.assert_allclose(wb.vjp(f, x)[1](1.0)[0], expected)
    np.testing.assert_allclose(wb.jvp(f, (x,), (np.ones_like(x),))[1], np.sum(expected))
