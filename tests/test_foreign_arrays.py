"""Arrays of another library go through the same code, as CuPy's do on a GPU.

`Foreign` answers NumPy's two protocols and refuses what CuPy refuses: to become a
NumPy array by itself, and to be mixed with one. Where no GPU is at hand, this
finds a rule that makes an array in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.samples import SAMPLES, Sample
from workbench.backends.numpy import compile


class Foreign(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in a place that NumPy cannot reach."""

    __module__ = "foreign"  # a library of its own, which is not imported

    def __init__(self, inner: Any) -> None:
        self._inner = np.asarray(inner)

    shape = property(lambda self: self._inner.shape)
    dtype = property(lambda self: self._inner.dtype)
    ndim = property(lambda self: self._inner.ndim)
    size = property(lambda self: self._inner.size)
    nbytes = property(lambda self: self._inner.nbytes)
    T = property(lambda self: Foreign(self._inner.T))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("no silent way to the host")

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if not all(isinstance(x, KNOWN) for x in inputs):
            return NotImplemented
        if method == "at":
            a, index, *values = inputs
            return ufunc.at(unwrapped(a), indices(index), *unwrapped(values))
        return wrapped(getattr(ufunc, method)(*unwrapped(inputs), **unwrapped(kwargs)))

    def __array_function__(
        self, function: Any, kinds: Any, args: Any, kwargs: Any
    ) -> Any:
        if not all(issubclass(kind, KNOWN) for kind in kinds):
            return NotImplemented
        return wrapped(function(*unwrapped(args), **unwrapped(kwargs)))

    def __getitem__(self, index: Any) -> Foreign:
        return wrapped(self._inner[indices(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._inner[indices(index)] = unwrapped(value)

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __float__(self) -> float:
        return float(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def reshape(self, *shape: Any, **kwargs: Any) -> Foreign:
        return wrapped(self._inner.reshape(*shape, **kwargs))

    def astype(self, dtype: Any, **kwargs: Any) -> Foreign:
        return wrapped(self._inner.astype(dtype, **kwargs))


#: What CuPy looks at; for others it steps back.
KNOWN = (Foreign, np.ndarray, np.generic, bool, int, float, complex, tuple, slice)


def unwrapped(x: Any) -> Any:
    if isinstance(x, Foreign):
        return x._inner
    if isinstance(x, np.ndarray):
        raise TypeError(f"a NumPy array of shape {x.shape} among foreign ones")
    if isinstance(x, (tuple, list)) and type(x) in (tuple, list):
        return type(x)(map(unwrapped, x))
    if isinstance(x, dict):
        return {k: unwrapped(v) for k, v in x.items()}
    return x


def indices(x: Any) -> Any:
    """An index; arrays of NumPy may be part of it, as in CuPy."""
    if isinstance(x, tuple):
        return tuple(map(indices, x))
    return x._inner if isinstance(x, Foreign) else x


def wrapped(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return Foreign(x)
    if isinstance(x, tuple):  # named ones too
        return tuple(map(wrapped, x)) if type(x) is tuple else type(x)(*map(wrapped, x))
    if isinstance(x, list):
        return list(map(wrapped, x))
    return x


W = np.arange(12.0).reshape(3, 4) / 7 - 0.6
B = np.array([0.1, -0.2, 0.3])

#: Programs of x in R⁴, a matrix in R³ˣ⁴ and a vector in R³.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "network": lambda x, W, b: np.sum(np.tanh(W @ x + b) ** 2),
    "log-sum-exp": lambda x, W, b: np.log(np.sum(np.exp(W @ x))) + np.mean(b),
    "where": lambda x, W, b: np.sum(np.where(x > 0, np.sqrt(abs(x)), x)) + b[0],
    "maximum": lambda x, W, b: np.sum(np.maximum(W, 0) @ np.clip(x, -0.5, 0.5)) * b[1],
    "max": lambda x, W, b: np.max(W * x) + np.prod(b) + np.var(x),
    "slices": lambda x, W, b: np.sum(x[1:] * x[:-1]) + W[1, 2] * np.sum(b[::-1]),
    "shapes": lambda x, W, b: (
        np.sum(np.reshape(W, (2, 6)).T @ np.concatenate([b, -b]).reshape(6, 1)[:2])
        * np.sum(np.stack([x, x * x]))
    ),
    "einsum": lambda x, W, b: np.einsum("i,ij,j->", b, W, x) + np.linalg.norm(x),
    "powers": lambda x, W, b: np.sum(np.abs(x) ** 1.5) + np.sum(2.0**b) / 3,
    "outer": lambda x, W, b: np.sum(np.outer(b, x) * W) + np.sum(np.cumsum(x) ** 2),
}


def inner(x: Any) -> Any:
    """The values of a foreign array, which everything in a result must be."""
    if isinstance(x, (tuple, list)):
        return [inner(part) for part in x]
    assert isinstance(x, Foreign), f"{type(x)} came back"
    return x._inner


def both(f: Callable[..., Any], rng: np.random.Generator) -> None:
    """The same on foreign arrays as on NumPy's, and foreign results."""
    args = (rng.standard_normal(4), W, B)
    expected = f(*args)
    made = inner(f(*map(Foreign, args)))
    if not isinstance(expected, (tuple, list)):
        expected, made = [expected], [made]
    for got, truth in zip(made, expected, strict=True):
        assert got.dtype == np.asarray(truth).dtype
        np.testing.assert_allclose(got, truth, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, rng: np.random.Generator) -> None:
    both(wb.grad(PROGRAMS[name], (0, 1, 2)), rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode(name: str, rng: np.random.Generator) -> None:
    f = PROGRAMS[name]
    both(lambda *args: wb.jvp(f, args, args)[1], rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_order(name: str, rng: np.random.Generator) -> None:
    f = PROGRAMS[name]
    both(lambda *args: wb.hvp(f, args, args), rng)
    both(
        lambda *args: wb.grad(lambda x: np.sum(wb.grad(f)(x, *args[1:])))(args[0]), rng
    )


@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, W, b: np.tanh(W @ x) * b,
        lambda x, W, b: np.outer(x, W @ x),
        lambda x, W, b: np.where(x > 0, x * x, 0),
    ],
)
def test_jacobians(f: Any, mode: Any, rng: np.random.Generator) -> None:
    both(wb.jacobian(f, mode=mode), rng)


def test_hessians(rng: np.random.Generator) -> None:
    both(wb.hessian(PROGRAMS["network"]), rng)
    both(wb.hessian(PROGRAMS["log-sum-exp"]), rng)


def test_structures(rng: np.random.Generator) -> None:
    """A pattern with a constant, and one whose rule is that of its ops."""
    linear = wb.pattern(lambda W, x, b: W @ x + 2 * b)
    given = [wb.override(linear, "0.5 * d")]

    def f(x: Any, W: Any, b: Any) -> Any:
        return np.sum(np.tanh(W @ x + 2 * b))

    both(wb.grad(f, (0, 1, 2), overrides=given), rng)
    both(lambda *args: wb.jvp(f, args, args, overrides=given)[1], rng)
    both(wb.hessian(f, overrides=given), rng)
    both(wb.grad(f, 0, overrides=given), rng)


def test_batches(rng: np.random.Generator) -> None:
    def f(x: Any, W: Any, b: Any) -> Any:
        rows = W * x
        return wb.vmap(wb.grad(lambda r, k: np.sum(np.sin(r) * k)), (0, 0))(rows, b)

    both(f, rng)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_backend(name: str, rng: np.random.Generator) -> None:
    """A graph traced on shapes alone runs wherever its inputs are."""
    specs = [wb.Spec(s, np.dtype(float)) for s in ((4,), (3, 4), (3,))]
    function = compile(wb.trace(PROGRAMS[name])(*specs))
    both(function, rng)


def test_mixing_is_refused_as_by_cupy() -> None:
    with pytest.raises(TypeError, match="among foreign ones"):
        Foreign(np.ones(2)) + np.ones(2)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if "f" in s.kinds], ids=lambda s: s.name
)
def test_rules_make_no_arrays_of_numpy(
    sample: Sample, rng: np.random.Generator
) -> None:
    """Every sample that foreign arrays can run at all has its derivatives there."""
    args = [np.asarray(a, np.float64) for a in sample.arguments(rng)]
    try:
        inner(sample.f(*map(Foreign, args)))
    except (TypeError, AttributeError, AssertionError):
        pytest.skip("the sample itself needs NumPy arrays")
    y, pullback = wb.vjp(sample.f, *args)
    seed = rng.standard_normal(np.shape(y))
    made, foreign = wb.vjp(sample.f, *map(Foreign, args))
    np.testing.assert_allclose(inner(made), y, rtol=1e-12)
    for got, truth in zip(foreign(Foreign(seed)), pullback(seed), strict=True):
        np.testing.assert_allclose(inner(got), truth, rtol=1e-10, atol=1e-12)
    moves = [rng.standard_normal(a.shape) for a in args]
    _, truth = wb.jvp(sample.f, tuple(args), tuple(moves))
    _, got = wb.jvp(sample.f, tuple(map(Foreign, args)), tuple(map(Foreign, moves)))
    np.testing.assert_allclose(inner(got), truth, rtol=1e-10, atol=1e-12)
