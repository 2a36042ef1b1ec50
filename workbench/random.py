"""Random numbers in programs that are differentiated: `default_rng`, `Generator`.

A `Generator` is NumPy's, with the same streams: outside a trace it draws what NumPy
draws. In a traced function its draws are nodes that hold what was drawn, and the
parameters of a distribution may be Tensors. The gradient is then that of the draw at
fixed noise (the reparameterisation, or pathwise, gradient; Mohamed, Rosca, Figurnov
and Mnih, "Monte Carlo gradient estimation in machine learning", 2020, section 5).

- Gradients by their parameters: `normal`, `lognormal`, `uniform`, `exponential`,
  `laplace`, `logistic`, `gumbel`, `rayleigh`, `weibull`, `pareto`, `power`,
  `triangular`, `gamma`, `chisquare`, `beta`, `dirichlet`, `f`, `standard_t`,
  `noncentral_chisquare` (df > 1), `noncentral_f`, `multivariate_normal`, and
  `vonmises` by `mu`. Those by a shape of a gamma or beta law are implicit
  (`workbench.ops.random`).
- `permutation`, `permuted` and `choice` of a Tensor gather: the gradient flows to it.
- Draws of whole numbers have no derivative by their parameters; neither has `wald`,
  nor `vonmises` by `kappa`. Such a parameter is an error that names the other way.

A generator of NumPy's own that is an argument of a function under `grad`, `vmap` and
their like draws nodes too, on its own stream.

In an expression of symbols a draw is made when the program runs, each time anew: one
with a symbol among its parameters, and every one of a `stream`.

Each call draws anew, in the function as in NumPy. For a gradient that differences
confirm, make the generator inside the function, from a fixed seed. Under `vmap` each
example has draws of its own: one draw per example is what a loop would draw, of
several the order is another.

Examples
--------
>>> import numpy as np, workbench as wb
>>> def f(mu, sigma):
...     rng = wb.random.default_rng(7)
...     return np.mean(rng.normal(mu, sigma, size=1000) ** 2)
>>> g_mu, g_sigma = wb.grad(f, argnums=(0, 1))(1.0, 0.5)
>>> z = np.random.default_rng(7).standard_normal(1000)
>>> y = 1 + z / 2
>>> np.allclose([g_mu, g_sigma], [np.mean(2 * y), np.mean(2 * y * z)])
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.core import blame, dims, source, traces
from workbench.core.dims import broadcast_shapes
from workbench.core.op import OPS
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Spec, is_differentiable
from workbench.errors import NotDifferentiableError, ShapeError, TraceError
from workbench.ops import random
from workbench.ops.define import no_out, shape_of
from workbench.ops.indexing import getitem
from workbench.ops.random import BETA, GAMMA, beta_tail, gamma_tail

__all__ = ["Generator", "Stream", "default_rng", "stream"]

# What a draw asks of its parameters before it is made.


def traced(*parameters: Any) -> bool:
    """Whether a Tensor is among the parameters, or inside of one."""
    return any(
        isinstance(x, Tensor)
        or (isinstance(x, (list, tuple)) and traced(*x))
        or (isinstance(x, np.ndarray) and x.dtype == object)
        for x in parameters
    )


def constant(x: Any, call: str) -> Any:
    """A parameter through which no derivative goes."""
    if not traced(x):
        return x
    x = admit(x)
    cut = not is_differentiable(x.dtype) or x.op.name == "stop_gradient"
    if cut or (x._value is not None and not traces.is_active(x)):
        return x if x._value is None else x._value
    raise NotDifferentiableError(
        f"{call}{blame.user_line()}: a draw has no derivative by {blame.describe(x)},"
        " not at fixed noise either. Write wb.stop_gradient(x) in its place to draw at"
        " its value; the gradient of an expectation then needs the score function: add"
        " wb.stop_gradient(loss) * log_probability(draw, x) to what is differentiated."
    )


def extent(call: str, size: Any, *parameters: Any) -> Any:
    """The shape of the draws; None for one number."""
    shape = broadcast_shapes(*map(shape_of, parameters))
    if size is None:
        return shape or None
    whole = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not dims.is_same_shape(broadcast_shapes(whole, shape), whole):
        raise ShapeError(
            f"{call}{blame.user_line()}: size {whole} does not hold parameters of shape"
            f" {shape}. Give size=None, or a size that they are stretched to."
        )
    return whole


def checked(call: str, condition: Callable[[Any], Any], **parameters: Any) -> None:
    """NumPy's refusal of a parameter out of range, where its value is known."""
    for name, x in parameters.items():
        value = value_of(x)
        if value is not None and not np.all(condition(value) | np.isnan(value)):
            raise ValueError(
                f"{call}{blame.user_line()}: {name} = {value} is out of range"
            )


def fitted(z: Any, *parameters: Any) -> Any:
    """The noise in the library of the parameters: NumPy draws on the host."""
    for x in parameters:
        value = value_of(x)
        if hasattr(value, "__cuda_array_interface__"):
            return np.asarray(z, like=value)
    return z


class Drawing(np.random.Generator):
    """NumPy's generator, whose draws are nodes in a traced program."""

    #: Whether they are nodes outside of every trace too.
    always = False

    _shared: Shared | None = None
    _numpys: np.random.Generator | None = None

    @property
    def plain(self) -> np.random.Generator:
        """NumPy's own generator of the same stream."""
        if self._numpys is None:
            self._numpys = np.random.Generator(self.bit_generator)
        return self._numpys

    @property
    def shared(self) -> Shared:
        """The shared value that holds this generator for expressions of symbols.

        Functions that draw from it find it by themselves; ``set_value`` of another
        generator makes them draw from that.
        """
        if self._shared is None:
            spec = Spec((), np.dtype(object))
            self._shared = Shared(self, spec, "rng", source.caller())
        return self._shared

    def _plain(self, name: str, size: Any, **settings: Any) -> Any:
        with source.pin_line():
            return random.drawn(self, name, size, settings)


def waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose draws wait for the program, if a parameter is a symbol."""

    @wraps(method)
    def called(self: Drawing, *args: Any, **named: Any) -> Any:
        if random.unknown() is None and (
            (self.always and not traces.has_open_trace())
            or any(_unknown(x) for x in (*args, *named.values()))
        ):
            with source.pin_line(), random.anchored(self.shared):
                return method(self, *args, **named)
        return method(self, *args, **named)

    return called


def _unknown(x: Any) -> bool:
    """Whether a Tensor without value is a parameter, or inside of one."""
    if isinstance(x, Tensor):
        return x._value is None
    if isinstance(x, (list, tuple)):
        return any(map(_unknown, x))
    return (
        isinstance(x, np.ndarray) and x.dtype == object and any(map(_unknown, x.flat))
    )


# Laws whose draws are functions of their parameters and of plain noise.


class Laws(Drawing):
    """`normal`, `lognormal`, `uniform`, `triangular`, `vonmises`, ..."""

    def _located(
        self, name: str, base: str, loc: Any, scale: Any, size: Any
    ) -> tuple[Any, Any]:
        loc, scale = admit(loc), admit(scale)
        checked(f"rng.{name}", lambda v: v >= 0, scale=scale)
        size = extent(f"rng.{name}", size, loc, scale)
        settings = {} if base.startswith("standard") else {"loc": 0.0, "scale": 1.0}
        z = self._plain(base, size, **settings)
        return loc, scale * fitted(z, loc, scale)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``loc + scale * z`` of a standard normal ``z``."""
        if not traced(loc, scale):
            return self._plain("normal", size, loc=loc, scale=scale)
        with source.pin_line():
            loc, spread = self._located("normal", "standard_normal", loc, scale, size)
            return loc + spread

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``exp(mean + sigma * z)``."""
        if not traced(mean, sigma):
            return self._plain("lognormal", size, mean=mean, sigma=sigma)
        with source.pin_line():
            mean, spread = self._located(
                "lognormal", "standard_normal", mean, sigma, size
            )
            return np.exp(mean + spread)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``low + (high - low) * u``."""
        if not traced(low, high):
            return self._plain("uniform", size, low=low, high=high)
        with source.pin_line():
            low, high = admit(low), admit(high)
            size = extent("rng.uniform", size, low, high)
            u = fitted(self._plain("random", size), low, high)
            return low + (high - low) * u

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """As NumPy's: the quantile of a uniform draw, which moves with all three."""
        if not traced(left, mode, right):
            return self._plain("triangular", size, left=left, mode=mode, right=right)
        with source.pin_line():
            left, mode, right = map(admit, (left, mode, right))
            checked("rng.triangular", lambda v: v >= 0, width=value_of(mode - left))
            checked("rng.triangular", lambda v: v >= 0, width=value_of(right - mode))
            size = extent("rng.triangular", size, left, mode, right)
            u = fitted(self._plain("random", size), left, mode, right)
            base = right - left
            first = u <= (mode - left) / base
            rising = np.sqrt(np.where(first, u * (mode - left) * base, 1))
            falling = np.sqrt(np.where(first, 1, (1 - u) * (right - mode) * base))
            return np.where(first, left + rising, right - falling)

    def vonmises(self, mu: Any, kappa: Any, size: Any = None) -> Any:
        """As NumPy's; the gradient by ``mu`` alone."""
        kappa = constant(kappa, "rng.vonmises(kappa=x)")
        if not traced(mu, kappa):
            return self._plain("vonmises", size, mu=mu, kappa=kappa)
        with source.pin_line():
            mu = admit(mu)
            size = extent("rng.vonmises", size, mu, kappa)
            turned = mu + self._plain("vonmises", size, mu=0.0, kappa=kappa)
            return turned - 2 * np.pi * np.round(turned / (2 * np.pi))

    def multivariate_normal(
        self,
        mean: Any,
        cov: Any,
        size: Any = None,
        check_valid: Any = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        """As NumPy's. Where ``cov`` has equal eigenvalues, its factor by ``"svd"`` or
        ``"eigh"`` has no derivative: write ``method="cholesky"``.
        """
        if not traced(mean, cov):
            more = {"check_valid": check_valid, "tol": tol, "method": method}
            return self._plain("multivariate_normal", size, mean=mean, cov=cov, **more)
        with source.pin_line():
            mean, cov = admit(mean), admit(cov)
            length = shape_of(mean)[-1:]
            if len(shape_of(mean)) != 1 or shape_of(cov) != length * 2:
                raise ShapeError(
                    f"rng.multivariate_normal{blame.user_line()}: mean of shape"
                    f" {shape_of(mean)} and cov of shape {shape_of(cov)}. Give (n,) and"
                    " (n, n)."
                )
            lead = () if size is None else extent("rng.multivariate_normal", size)
            z = fitted(self._plain("standard_normal", (*lead, *length)), mean, cov)
            if method == "cholesky":
                factor = np.linalg.cholesky(cov).T
            elif method == "eigh":
                values, vectors = np.linalg.eigh(cov)
                factor = (vectors * np.sqrt(values)).T
            elif method == "svd":
                _, values, vectors = np.linalg.svd(cov)
                factor = np.sqrt(values)[:, None] * vectors
            else:
                raise ValueError("method must be 'svd', 'eigh' or 'cholesky'")
            return mean + z @ factor


# The families of one pattern, and those without a gradient.


class Families(Drawing):
    """`exponential`, `laplace`, `poisson`, ...: each is made by a table below."""


def _scaled(
    name: str, base: str, law: Callable[..., Any], *defaults: tuple[str, Any]
) -> Callable[..., Any]:
    """A method whose draw is ``law(parameters, noise)`` of noise without parameters."""
    names = [key for key, _ in defaults]
    lowest = ("scale", "a")

    def method(self: Drawing, *given: Any, size: Any = None, **named: Any) -> Any:
        settings = dict(defaults) | dict(zip(names, given, strict=False)) | named
        if len(given) > len(names):
            size = given[len(names)]
        missing = [key for key in names if settings[key] is None]
        if missing or set(settings) - set(names) or len(given) > len(names) + 1:
            raise TypeError(f"{name}() takes {', '.join(names)} and size")
        if not traced(*settings.values()):
            return self._plain(name, size, **settings)
        with source.pin_line():
            parameters = {key: admit(x) for key, x in settings.items()}
            bounded = {k: x for k, x in parameters.items() if k in lowest}
            checked(f"rng.{name}", lambda v: v >= 0, **bounded)
            size = extent(f"rng.{name}", size, *parameters.values())
            more = {"loc": 0.0, "scale": 1.0} if base == name else {}
            z = self._plain(base, size, **more)
            return law(*parameters.values(), fitted(z, *parameters.values()))

    made: Callable[..., Any] = _described(
        method, name, "with gradients by its parameters"
    )
    return made


def _described(method: Any, name: str, more: str) -> Any:
    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    method.__doc__ = f"As NumPy's; {more}."
    return method


def _located_law(loc: Any, scale: Any, z: Any) -> Any:
    return loc + scale * z


_E = "standard_exponential"
_LOCATION = (("loc", 0.0), ("scale", 1.0))
for _made in (
    _scaled("laplace", "laplace", _located_law, *_LOCATION),
    _scaled("logistic", "logistic", _located_law, *_LOCATION),
    _scaled("gumbel", "gumbel", _located_law, *_LOCATION),
    _scaled("exponential", _E, lambda s, z: s * z, ("scale", 1.0)),
    _scaled("rayleigh", _E, lambda s, z: s * np.sqrt(2.0 * z), ("scale", 1.0)),
    _scaled("weibull", _E, lambda a, z: z ** (1.0 / a), ("a", None)),
    _scaled("pareto", _E, lambda a, z: np.expm1(z / a), ("a", None)),
    _scaled("power", _E, lambda a, z: (-np.expm1(-z)) ** (1.0 / a), ("a", None)),
):
    setattr(Families, _made.__name__, _made)


def _without_parameters(name: str) -> Any:
    numpys = getattr(np.random.Generator, name)

    def method(self: Drawing, size: Any = None, *rest: Any, **more: Any) -> Any:
        if rest or more.get("out") is not None or not random.inside():
            return numpys(self, size, *rest, **more)
        return self._plain(name, size, **more)

    return _described(method, name, "a node in a traced program")


for _name in ("random", "standard_normal", "standard_exponential", "standard_cauchy"):
    setattr(Families, _name, _without_parameters(_name))


def _counting(name: str, *names: str, **defaults: Any) -> Any:
    """A draw that no derivative goes through."""
    numpys = getattr(np.random.Generator, name)

    def method(self: Drawing, *given: Any, **named: Any) -> Any:
        if not random.inside():
            return numpys(self, *given, **named)
        settings = defaults | dict(zip((*names, "size"), given, strict=False)) | named
        if len(given) > len(names) + 1:
            return numpys(self, *given, **named)
        for key in names:
            settings[key] = constant(settings.get(key), f"rng.{name}({key}=x)")
        return self._plain(name, settings.pop("size", None), **settings)

    return _described(method, name, "without a derivative by its parameters")


for _made in (
    _counting("binomial", "n", "p"),
    _counting("geometric", "p"),
    _counting("hypergeometric", "ngood", "nbad", "nsample"),
    _counting("integers", "low", "high"),
    _counting("logseries", "p"),
    _counting("multinomial", "n", "pvals"),
    _counting("multivariate_hypergeometric", "colors", "nsample"),
    _counting("negative_binomial", "n", "p"),
    _counting("poisson", "lam", lam=1.0),
    _counting("wald", "mean", "scale"),
    _counting("zipf", "a"),
):
    setattr(Families, _made.__name__, _made)


# Draws of an order, or of some entries: they gather.


class Order(Drawing):
    """`permutation`, `permuted`, `shuffle`, `choice`."""

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """As NumPy's; the gradient goes back to where each entry came from."""
        if not traced(x):
            if random.unknown() is None:
                return super().permutation(x, axis)
            if np.ndim(x) == 0:
                return self._plain("permutation", None, n=int(x))
        x = admit(x)
        index = self._plain("permutation", None, n=shape_of(x)[axis])
        return _taken(x, index, axis)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """As NumPy's; the gradient goes back to where each entry came from."""
        if not traced(x) and random.unknown() is None:
            return super().permuted(x, axis=axis, out=out)
        no_out("rng.permuted", out)
        x = admit(x)
        flat = np.reshape(x, -1) if axis is None else x
        rank = len(shape_of(flat))
        along = 0 if axis is None else axis % rank
        settings = {"shape": shape_of(flat), "axis": along}
        index = self._plain("permuted", None, **settings)
        if rank == 1:
            return np.reshape(_taken(flat, index, 0), shape_of(x))
        return np.take_along_axis(admit(x), index, along)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As NumPy's, of plain arrays: it works in place."""
        if traced(x) and not isinstance(x, list):
            raise TraceError(
                f"rng.shuffle(x){blame.user_line()} works in place, and a traced value"
                " never changes. Write x = rng.permutation(x)."
            )
        super().shuffle(x, axis)

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """As NumPy's; of a Tensor, the gradient goes to the entries that were taken."""
        p = constant(p, "rng.choice(p=x)")
        inside = random.unknown() is not None
        if not traced(a, p) and not inside:
            return super().choice(a, size, replace, p, axis, shuffle)
        number = shape_of(admit(a)) == ()
        settings = {"a": int(value_of(a)) if number else shape_of(admit(a))[axis]}
        more = {"replace": replace, "p": p, "shuffle": shuffle}
        index = self._plain("choice", size, **settings, **more)
        return index if number else _taken(admit(a), index, axis)


def _taken(x: Any, index: Any, axis: int) -> Any:
    """The slices of ``x`` at an index, which may have no value yet."""
    if isinstance(x, Tensor) or not isinstance(index, Tensor):
        return np.take(x, index, axis=axis)
    before = (slice(None),) * (axis % len(shape_of(x)))
    return getitem(x, (*before, index))


# Laws with a shape: gamma, beta, and what is made of them.

_normal = np.random.Generator.standard_normal
_gamma = np.random.Generator.standard_gamma


class Shapes(Drawing):
    """`gamma`, `beta`, `dirichlet`, `chisquare`, `f`, `standard_t`, ..."""

    # By the shape of a gamma or beta law

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None
    ) -> Any:
        """As NumPy's; the gradient by ``shape`` is implicit."""
        if not traced(shape):
            if out is not None:
                return super().standard_gamma(shape, size, dtype, out)
            return self._plain("standard_gamma", size, shape=shape, dtype=dtype)
        no_out("rng.standard_gamma", out)
        with source.pin_line():
            made = self._gammas("rng.standard_gamma", admit(shape), size)
            return made if np.dtype(dtype) == np.float64 else made.astype(dtype)

    def _gammas(self, call: str, a: Any, size: Any, known: Any = None) -> Any:
        """Gamma draws of shape ``a``; ``known`` are the values, if drawn already."""
        checked(call, lambda v: v >= 0, shape=a)
        size = extent(call, size, a)
        if a._value is None or random.unknown() is not None:
            return apply(GAMMA, (a, self._plain("random", size) - 0.5))
        value = a._value
        y = super().standard_gamma(value, size) if known is None else known
        return self._held(GAMMA, (a,), gamma_tail(value, y), y)

    def _held(self, made: Any, shapes: tuple[Any, ...], tail: Any, y: Any) -> Any:
        noise = random.node(OPS["random_uniform"], (tail,), tail)
        return random.node(made, (*shapes, noise), y)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``scale * standard_gamma(shape)``."""
        if not traced(shape, scale):
            return self._plain("gamma", size, shape=shape, scale=scale)
        with source.pin_line():
            shape, scale = admit(shape), admit(scale)
            size = extent("rng.gamma", size, shape, scale)
            return scale * self.standard_gamma(shape, size)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """As NumPy's: ``2 * standard_gamma(df / 2)``."""
        if not traced(df):
            return self._plain("chisquare", size, df=df)
        with source.pin_line():
            return 2.0 * self.standard_gamma(admit(df) / 2, size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """As NumPy's; the gradients by both shapes are implicit."""
        if not traced(a, b):
            return self._plain("beta", size, a=a, b=b)
        with source.pin_line():
            a, b = admit(a), admit(b)
            checked("rng.beta", lambda v: v > 0, a=a, b=b)
            size = extent("rng.beta", size, a, b)
            p, q = value_of(a), value_of(b)
            if p is None or q is None or random.unknown() is not None:
                return apply(BETA, (a, b, self._plain("random", size) - 0.5))
            y = super().beta(p, q, size)
            return self._held(BETA, (a, b), beta_tail(p, q, y), y)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """As NumPy's: gamma draws over their sum; for small shapes, broken sticks."""
        if not traced(alpha):
            return self._plain("dirichlet", size, alpha=alpha)
        with source.pin_line():
            alpha = admit(alpha)
            (count,) = shape_of(alpha)
            lead = () if size is None else extent("rng.dirichlet", size)
            value = alpha._value
            if value is None or np.max(value) >= 0.1:
                made = self.standard_gamma(alpha, (*lead, count))
                return made / np.sum(made, axis=-1, keepdims=True)
            rest = np.cumsum(alpha[::-1])[::-1]
            parts = self.beta(alpha[:-1], rest[1:], (*lead, count - 1))
            left = np.cumprod(1 - parts, axis=-1)
            ones = np.ones_like(left[..., :1])
            taken = np.concatenate([parts, ones], axis=-1)
            return taken * np.concatenate([ones, left], axis=-1)

    # Several laws in turn: NumPy draws all of an entry before the next entry

    def _in_turn(self, call: str, kinds: list[Any], size: Any) -> list[Any]:
        """Draws of several laws: a shape for a gamma law, None for a normal one."""
        known = random.unknown() is None and all(
            a is None or value_of(a) is not None for a in kinds
        )
        if not known:
            return [
                self._plain("standard_normal", size)
                if a is None
                else self._gamma_or_plain(call, a, size)
                for a in kinds
            ]
        shape = size or ()
        values = [
            None if a is None else np.broadcast_to(value_of(a), shape) for a in kinds
        ]
        rows: list[Any] = [np.empty(shape) for _ in kinds]  # host array: draws
        for index in np.ndindex(shape):
            for row, value in zip(rows, values, strict=True):
                row[index] = (
                    _normal(self) if value is None else _gamma(self, value[index])
                )
        made = []
        for a, row in zip(kinds, rows, strict=True):
            if isinstance(a, Tensor):
                made.append(self._gammas(call, a, size, row))
            else:
                name = "standard_normal" if a is None else "standard_gamma"
                made.append(random.node(OPS[f"random_{name}"], (row,), row))
        return made

    def _gamma_or_plain(self, call: str, a: Any, size: Any) -> Any:
        if isinstance(a, Tensor):
            return self._gammas(call, a, size)
        return self._plain("standard_gamma", size, shape=a)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """As NumPy's: a quotient of two scaled `chisquare` draws."""
        if not traced(dfnum, dfden):
            return self._plain("f", size, dfnum=dfnum, dfden=dfden)
        with source.pin_line():
            dfnum, dfden = admit(dfnum), admit(dfden)
            size = extent("rng.f", size, dfnum, dfden)
            above, below = self._in_turn("rng.f", [dfnum / 2, dfden / 2], size)
            return above * dfden / (below * dfnum)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        """As NumPy's: a normal draw over the root of a gamma draw."""
        if not traced(df):
            return self._plain("standard_t", size, df=df)
        with source.pin_line():
            df = admit(df)
            size = extent("rng.standard_t", size, df)
            z, y = self._in_turn("rng.standard_t", [None, df / 2], size)
            return np.sqrt(df / 2) * z / np.sqrt(y)

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        """As NumPy's; with a gradient for ``df`` above 1."""
        if not traced(df, nonc):
            return self._plain("noncentral_chisquare", size, df=df, nonc=nonc)
        with source.pin_line():
            df, nonc = admit(df), admit(nonc)
            call = "rng.noncentral_chisquare (with a gradient, for df above 1)"
            checked(call, lambda v: v > 1, df=df)
            checked(call, lambda v: v >= 0, nonc=nonc)
            size = extent("rng.noncentral_chisquare", size, df, nonc)
            y, z = self._in_turn(call, [(df - 1) / 2, None], size)
            return 2.0 * y + (z + np.sqrt(nonc)) ** 2

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        """As NumPy's; with a gradient for ``dfnum`` above 1."""
        if not traced(dfnum, dfden, nonc):
            more = {"dfnum": dfnum, "dfden": dfden, "nonc": nonc}
            return self._plain("noncentral_f", size, **more)
        with source.pin_line():
            dfnum, dfden, nonc = admit(dfnum), admit(dfden), admit(nonc)
            call = "rng.noncentral_f (with a gradient, for dfnum above 1)"
            checked(call, lambda v: v > 1, dfnum=dfnum)
            size = extent("rng.noncentral_f", size, dfnum, dfden, nonc)
            kinds = [(dfnum - 1) / 2, None, dfden / 2]
            y, z, below = self._in_turn(call, kinds, size)
            above = 2.0 * y + (z + np.sqrt(nonc)) ** 2
            return above * dfden / (2.0 * below * dfnum)


# What users call


def default_rng(seed: Any = None) -> Generator:
    """A generator as `numpy.random.default_rng` makes it, for traced programs too.

    Parameters
    ----------
    seed
        What NumPy's takes: None, integers, a `SeedSequence`, a bit generator, or a
        generator, whose stream is then shared.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rng, plain = wb.random.default_rng(1), np.random.default_rng(1)
    >>> bool(rng.normal() == plain.normal())
    True
    """
    return Generator(np.random.default_rng(seed))


class Generator(Laws, Shapes, Order, Families):
    """`numpy.random.Generator` whose draws take part in traced programs.

    Parameters
    ----------
    bits
        A bit generator, or a generator of NumPy's, whose stream it shares.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> plain = np.random.default_rng(0)
    >>> rng = wb.random.Generator(plain)
    >>> f = lambda scale: np.sum(rng.exponential(scale, size=3))
    >>> y, g = wb.value_and_grad(f)(2.0)
    >>> bool(np.isclose(2 * g, y))
    True
    """

    def __init__(self, bits: Any) -> None:
        super().__init__(getattr(bits, "bit_generator", bits))

    def __reduce__(self) -> Any:
        return type(self), (self.bit_generator,)


for _part in (Laws, Shapes, Order, Families):
    for _name, _method in list(vars(_part).items()):
        if not _name.startswith("_") and _name != "shuffle":
            setattr(_part, _name, waiting(_method))


class Stream(Generator):
    """A `Generator` all of whose draws are made when the program runs."""

    always = True


def stream(seed: Any = None) -> Stream:
    """A generator for expressions of symbols: what it draws are Tensors.

    A function draws anew in each call, and functions that draw from one stream go on
    where the last one stopped. Within one call a draw is one number, however often
    the program reads it.

    Parameters
    ----------
    seed
        What :func:`default_rng` takes.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> rng = wb.random.stream(7)
    >>> x = wb.vector("x", shape=3)
    >>> noisy = wb.function([x], x + 0.1 * rng.normal(size=3))
    >>> plain = np.random.default_rng(7)
    >>> np.allclose(noisy(np.zeros(3)), 0.1 * plain.normal(size=3))
    True
    >>> np.allclose(noisy(np.zeros(3)), 0.1 * plain.normal(size=3))
    True
    """
    return Stream(np.random.default_rng(seed))
