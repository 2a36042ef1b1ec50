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

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from workbench.core import blame, dims, source, traces
from workbench.core.dims import broadcast_shapes
from workbench.core.op import OPS, Op
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Spec, is_differentiable
from workbench.errors import NotDifferentiableError, ShapeError, TraceError
from workbench.ops import random
from workbench.ops.define import refuse_out, shape_of
from workbench.ops.indexing import getitem
from workbench.ops.random import BETA, GAMMA, beta_tail, gamma_tail

__all__ = ["Generator", "Stream", "default_rng", "stream"]

#: What NumPy makes a stream from; a generator shares its own.
Seed = (
    int
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | None
)

#: The shape of what is drawn; None is that of the parameters.
Size = SupportsIndex | Sequence[SupportsIndex] | None

# The methods that take the place of NumPy's are typed with Any as their result: NumPy
# types a single draw as a float.

# What a draw checks of its parameters before it is made.


def has_tensor(*parameters: object) -> bool:
    """Return whether a Tensor is among the parameters, or inside one of them."""
    return any(
        isinstance(x, Tensor)
        or (isinstance(x, (list, tuple)) and has_tensor(*x))
        or (isinstance(x, np.ndarray) and x.dtype == object)
        for x in parameters
    )


def require_constant(x: object, call: str) -> Any:
    """Return a parameter through which no derivative goes.

    Raises
    ------
    NotDifferentiableError
        For a Tensor that would need one.
    """
    if not has_tensor(x):
        return x
    tensor: Any = admit(x)
    value = tensor._value
    cut = not is_differentiable(tensor.dtype) or tensor.op.name == "stop_gradient"
    if cut or (value is not None and not traces.is_active(tensor)):
        return tensor if value is None else value
    raise NotDifferentiableError(
        f"{call}{blame.user_line()}: a draw has no derivative by {blame.describe(x)},"
        " not at fixed noise either. Write wb.stop_gradient(x) in its place to draw at"
        " its value; the gradient of an expectation then needs the score function: add"
        " wb.stop_gradient(loss) * log_probability(draw, x) to what is differentiated."
    )


def broadcast_size(
    call: str, size: Size, *parameters: object
) -> tuple[Any, ...] | None:
    """Return the shape of the draws; None for one number.

    Raises
    ------
    ShapeError
        If the parameters do not broadcast to ``size``.
    """
    shape = broadcast_shapes(*map(shape_of, parameters))
    if size is None:
        return shape or None
    whole = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not dims.is_same_shape(broadcast_shapes(whole, shape), whole):
        raise ShapeError(
            f"{call}{blame.user_line()}: size {whole} does not hold parameters of shape"
            f" {shape}. Give size=None, or a size that they broadcast to."
        )
    return whole


def check_range(
    call: str, condition: Callable[[Any], Any], **parameters: object
) -> None:
    """Refuse a parameter out of range as NumPy does, where its value is known."""
    for name, x in parameters.items():
        value = value_of(x)
        if value is not None and not np.all(condition(value) | np.isnan(value)):
            raise ValueError(
                f"{call}{blame.user_line()}: {name} = {value} is out of range"
            )


def match_library(z: Array, *parameters: object) -> Array:
    """Return noise, which NumPy drew, as an array of the library of the parameters."""
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

    def _draw(self, name: str, size: Any, **settings: Any) -> Array:
        """Draw from a law of NumPy's whose parameters are constants."""
        with source.pin_line():
            return random.draw_sample(self, name, size, settings)


def defer_draws(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that draws when the program runs, if a parameter is a symbol."""

    @wraps(method)
    def draw(self: Drawing, *args: Any, **named: Any) -> object:
        if random.find_anchor() is None and (
            (self.always and not traces.has_open_trace())
            or any(_has_unknown(x) for x in (*args, *named.values()))
        ):
            with source.pin_line(), random.anchor_draws(self.shared):
                return method(self, *args, **named)
        return method(self, *args, **named)

    return draw


def _has_unknown(x: object) -> bool:
    """Return whether a parameter is a Tensor without a value, or holds one."""
    if isinstance(x, Tensor):
        return x._value is None
    if isinstance(x, (list, tuple)):
        return any(map(_has_unknown, x))
    return (
        isinstance(x, np.ndarray)
        and x.dtype == object
        and any(map(_has_unknown, x.flat))
    )


# Laws whose draws are functions of their parameters and of plain noise.


class Laws(Drawing):
    """`normal`, `lognormal`, `uniform`, `triangular`, `vonmises`, ..."""

    def _draw_scaled(
        self, name: str, base: str, loc: ArrayLike, scale: ArrayLike, size: Size
    ) -> tuple[Array, Array]:
        """Return the location, and the scale times noise of the law ``base``."""
        loc, scale = admit(loc), admit(scale)
        check_range(f"rng.{name}", lambda v: v >= 0, scale=scale)
        size = broadcast_size(f"rng.{name}", size, loc, scale)
        settings = {} if base.startswith("standard") else {"loc": 0.0, "scale": 1.0}
        z = self._draw(base, size, **settings)
        return loc, scale * match_library(z, loc, scale)

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a normal distribution.

        Parameters
        ----------
        loc, scale
            Mean and standard deviation; both may be Tensors, which broadcast.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``loc + scale * z`` of a standard normal ``z``, and its gradients
        are those at fixed ``z``.
        """
        if not has_tensor(loc, scale):
            return self._draw("normal", size, loc=loc, scale=scale)
        with source.pin_line():
            mean, noise = self._draw_scaled(
                "normal", "standard_normal", loc, scale, size
            )
            return mean + noise

    def lognormal(
        self, mean: ArrayLike = 0.0, sigma: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a log-normal distribution.

        Parameters
        ----------
        mean, sigma
            Mean and standard deviation of the logarithm; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``exp(mean + sigma * z)`` of a standard normal ``z``.
        """
        if not has_tensor(mean, sigma):
            return self._draw("lognormal", size, mean=mean, sigma=sigma)
        with source.pin_line():
            center, noise = self._draw_scaled(
                "lognormal", "standard_normal", mean, sigma, size
            )
            return np.exp(center + noise)

    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a uniform distribution on an interval.

        Parameters
        ----------
        low, high
            The ends of the interval; both may be Tensors. ``high`` is left out.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``low + (high - low) * u`` with ``u`` uniform in [0, 1).
        """
        if not has_tensor(low, high):
            return self._draw("uniform", size, low=low, high=high)
        with source.pin_line():
            low, high = admit(low), admit(high)
            size = broadcast_size("rng.uniform", size, low, high)
            u = match_library(self._draw("random", size), low, high)
            return low + (high - low) * u

    def triangular(
        self, left: ArrayLike, mode: ArrayLike, right: ArrayLike, size: Size = None
    ) -> Any:
        """Draw from a triangular distribution.

        Parameters
        ----------
        left, mode, right
            The lowest, the most likely and the highest value; all may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is the quantile of a uniform draw, so it has a gradient by all three.
        """
        if not has_tensor(left, mode, right):
            return self._draw("triangular", size, left=left, mode=mode, right=right)
        with source.pin_line():
            left, mode, right = admit(left), admit(mode), admit(right)
            call = "rng.triangular"
            check_range(call, lambda v: v >= 0, width=value_of(mode - left))
            check_range(call, lambda v: v >= 0, width=value_of(right - mode))
            size = broadcast_size(call, size, left, mode, right)
            u = match_library(self._draw("random", size), left, mode, right)
            base = right - left
            below_mode = u <= (mode - left) / base
            rising = np.sqrt(np.where(below_mode, u * (mode - left) * base, 1))
            falling = np.sqrt(np.where(below_mode, 1, (1 - u) * (right - mode) * base))
            return np.where(below_mode, left + rising, right - falling)

    def vonmises(self, mu: ArrayLike, kappa: ArrayLike, size: Size = None) -> Any:
        """Draw an angle from a von Mises distribution.

        Parameters
        ----------
        mu
            The most likely angle, in radians; it may be a Tensor.
        kappa
            The concentration, through which no gradient goes.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        NotDifferentiableError
            If ``kappa`` is a Tensor that is differentiated by.
        """
        kappa = require_constant(kappa, "rng.vonmises(kappa=x)")
        if not has_tensor(mu, kappa):
            return self._draw("vonmises", size, mu=mu, kappa=kappa)
        with source.pin_line():
            mu = admit(mu)
            size = broadcast_size("rng.vonmises", size, mu, kappa)
            angle = mu + self._draw("vonmises", size, mu=0.0, kappa=kappa)
            return angle - 2 * np.pi * np.round(angle / (2 * np.pi))

    def multivariate_normal(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        size: Size = None,
        check_valid: Literal["warn", "raise", "ignore"] = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        """Draw vectors from a multivariate normal distribution.

        Parameters
        ----------
        mean
            The mean, shape (n,); it may be a Tensor.
        cov
            The covariance, shape (n, n), positive semidefinite; it may be a Tensor.
        size
            How many vectors, in which shape; they have the last axis of the result.
        check_valid, tol
            How NumPy checks a plain covariance.
        method
            The factor of the covariance: ``"svd"``, ``"eigh"`` or ``"cholesky"``.

        Raises
        ------
        ShapeError
            If the shapes of ``mean`` and ``cov`` do not fit together.

        Notes
        -----
        Where ``cov`` has equal eigenvalues, its factor by ``"svd"`` or ``"eigh"`` has
        no derivative: write ``method="cholesky"``.
        """
        if not has_tensor(mean, cov):
            more = {"check_valid": check_valid, "tol": tol, "method": method}
            return self._draw("multivariate_normal", size, mean=mean, cov=cov, **more)
        with source.pin_line():
            mean, cov = admit(mean), admit(cov)
            length = shape_of(mean)[-1:]
            if len(shape_of(mean)) != 1 or shape_of(cov) != length * 2:
                raise ShapeError(
                    f"rng.multivariate_normal{blame.user_line()}: mean of shape"
                    f" {shape_of(mean)} and cov of shape {shape_of(cov)}. Give (n,) and"
                    " (n, n)."
                )
            loop = broadcast_size("rng.multivariate_normal", size) or ()
            z = match_library(
                self._draw("standard_normal", (*loop, *length)), mean, cov
            )
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


SIZE = "The shape of the result; by default that of the parameters."


def _set_doc(
    method: Any, name: str, summary: str, texts: dict[str, str]
) -> Callable[..., Any]:
    """Name a method, and write its docstring in numpydoc's layout."""
    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    listed = "".join(f"\n{key}\n    {text}" for key, text in texts.items())
    method.__doc__ = f"{summary}\n\nParameters\n----------{listed}\n"
    return method


def _make_law(
    name: str,
    base: str,
    law: Callable[..., Any],
    defaults: dict[str, float | None],
    summary: str,
    texts: dict[str, str],
) -> Callable[..., Any]:
    """Make a method that draws ``law(parameters, noise)``.

    The noise is NumPy's draw from ``base`` without parameters.
    """
    names = list(defaults)
    lowest = ("scale", "a")

    def method(self: Drawing, *given: Any, size: Size = None, **named: Any) -> Any:
        settings = defaults | dict(zip(names, given, strict=False)) | named
        if len(given) > len(names):
            size = given[len(names)]
        missing = [key for key in names if settings[key] is None]
        if missing or set(settings) - set(names) or len(given) > len(names) + 1:
            raise TypeError(f"{name}() takes {', '.join(names)} and size")
        if not has_tensor(*settings.values()):
            return self._draw(name, size, **settings)
        with source.pin_line():
            parameters = {key: admit(x) for key, x in settings.items()}
            bounded = {k: x for k, x in parameters.items() if k in lowest}
            check_range(f"rng.{name}", lambda v: v >= 0, **bounded)
            size = broadcast_size(f"rng.{name}", size, *parameters.values())
            more = {"loc": 0.0, "scale": 1.0} if base == name else {}
            z = self._draw(base, size, **more)
            return law(*parameters.values(), match_library(z, *parameters.values()))

    return _set_doc(method, name, summary, {**texts, "size": SIZE})


def _shift_and_scale(loc: Array, scale: Array, z: Array) -> Array:
    return loc + scale * z


_E = "standard_exponential"
_PLACE = {
    "loc": "The middle, a number or a Tensor.",
    "scale": "The width, a number or a Tensor; not negative.",
}
_SCALE = {"scale": "The scale, a number or a Tensor; not negative."}
_SHAPE = {"a": "The shape parameter, a number or a Tensor; not negative."}
for _law in (
    _make_law(
        "laplace",
        "laplace",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a Laplace distribution.",
        _PLACE,
    ),
    _make_law(
        "logistic",
        "logistic",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a logistic distribution.",
        _PLACE,
    ),
    _make_law(
        "gumbel",
        "gumbel",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a Gumbel distribution, of the largest of many values.",
        _PLACE,
    ),
    _make_law(
        "exponential",
        _E,
        lambda s, z: s * z,
        {"scale": 1.0},
        "Draw from an exponential distribution: ``scale * z`` of standard noise.",
        _SCALE,
    ),
    _make_law(
        "rayleigh",
        _E,
        lambda s, z: s * np.sqrt(2.0 * z),
        {"scale": 1.0},
        "Draw from a Rayleigh distribution: ``scale * sqrt(2 z)``, z exponential.",
        _SCALE,
    ),
    _make_law(
        "weibull",
        _E,
        lambda a, z: z ** (1.0 / a),
        {"a": None},
        "Draw from a Weibull distribution: ``z**(1 / a)``, z exponential.",
        _SHAPE,
    ),
    _make_law(
        "pareto",
        _E,
        lambda a, z: np.expm1(z / a),
        {"a": None},
        "Draw from a Lomax distribution (Pareto II): ``expm1(z / a)``, z exponential.",
        _SHAPE,
    ),
    _make_law(
        "power",
        _E,
        lambda a, z: (-np.expm1(-z)) ** (1.0 / a),
        {"a": None},
        "Draw from a power distribution on [0, 1], with density ``a x**(a - 1)``.",
        _SHAPE,
    ),
):
    setattr(Families, _law.__name__, _law)


def _make_plain(name: str, summary: str) -> Callable[..., Any]:
    """Make a method that draws from a law without parameters."""
    numpys = getattr(np.random.Generator, name)

    def method(self: Drawing, size: Size = None, *rest: Any, **more: Any) -> Any:
        if rest or more.get("out") is not None or not random.is_recording_draws():
            return numpys(self, size, *rest, **more)
        return self._draw(name, size, **more)

    size = "The shape of the result; by default one number."
    return _set_doc(method, name, summary, {"size": size})


for _law in (
    _make_plain("random", "Draw floats uniformly from [0, 1)."),
    _make_plain("standard_normal", "Draw from the standard normal distribution."),
    _make_plain("standard_exponential", "Draw from the exponential law of mean 1."),
    _make_plain("standard_cauchy", "Draw from the standard Cauchy distribution."),
):
    setattr(Families, _law.__name__, _law)


def _make_counting(
    name: str, summary: str, texts: dict[str, str], **defaults: float
) -> Callable[..., Any]:
    """Make a method that draws from a law without a derivative by its parameters."""
    numpys = getattr(np.random.Generator, name)
    names = list(texts)

    def method(self: Drawing, *given: Any, **named: Any) -> Any:
        if not random.is_recording_draws():
            return numpys(self, *given, **named)
        settings = defaults | dict(zip((*names, "size"), given, strict=False)) | named
        if len(given) > len(names) + 1:
            return numpys(self, *given, **named)
        for key in names:
            settings[key] = require_constant(settings.get(key), f"rng.{name}({key}=x)")
        return self._draw(name, settings.pop("size", None), **settings)

    summary += "\n\nIt has no derivative by its parameters."
    return _set_doc(method, name, summary, {**texts, "size": SIZE})


for _law in (
    _make_counting(
        "binomial",
        "Draw the number of successes in a number of trials.",
        {"n": "The number of trials.", "p": "The probability of success."},
    ),
    _make_counting(
        "geometric",
        "Draw the number of trials up to the first success.",
        {"p": "The probability of success."},
    ),
    _make_counting(
        "hypergeometric",
        "Draw how many good items are in a sample without replacement.",
        {
            "ngood": "How many items are good.",
            "nbad": "How many are not.",
            "nsample": "The size of the sample.",
        },
    ),
    _make_counting(
        "integers",
        "Draw whole numbers uniformly, ``high`` left out.",
        {
            "low": "The lowest number, or with one argument the end.",
            "high": "The end, left out unless ``endpoint`` is true.",
        },
    ),
    _make_counting(
        "logseries",
        "Draw from a logarithmic series distribution.",
        {"p": "The shape parameter, in (0, 1)."},
    ),
    _make_counting(
        "multinomial",
        "Draw how often each of several outcomes occurs.",
        {
            "n": "The number of trials.",
            "pvals": "The probabilities of the outcomes, along the last axis.",
        },
    ),
    _make_counting(
        "multivariate_hypergeometric",
        "Draw how many items of each kind are in a sample without replacement.",
        {
            "colors": "How many items there are of each kind.",
            "nsample": "The size of the sample.",
        },
    ),
    _make_counting(
        "negative_binomial",
        "Draw the number of failures before a number of successes.",
        {"n": "The number of successes, above 0.", "p": "The probability of success."},
    ),
    _make_counting(
        "poisson",
        "Draw from a Poisson distribution.",
        {"lam": "The expected number."},
        lam=1.0,
    ),
    _make_counting(
        "wald",
        "Draw from a Wald (inverse Gaussian) distribution.",
        {"mean": "The mean, above 0.", "scale": "The scale parameter, above 0."},
    ),
    _make_counting(
        "zipf", "Draw from a Zipf (zeta) distribution.", {"a": "The exponent, above 1."}
    ),
):
    setattr(Families, _law.__name__, _law)


# Draws of an order, or of some entries: they gather.


class Order(Drawing):
    """`permutation`, `permuted`, `shuffle`, `choice`."""

    def permutation(self, x: ArrayLike, axis: int = 0) -> Any:
        """Return the slices of an array in random order, or the numbers below ``x``.

        Parameters
        ----------
        x
            An array, or an integer for the whole numbers below it. Of a Tensor the
            gradient goes back to where each slice came from.
        axis
            The axis whose slices change places.
        """
        if not has_tensor(x):
            if random.find_anchor() is None:
                return super().permutation(x, axis)
            if np.ndim(x) == 0:
                return self._draw("permutation", None, n=int(np.asarray(x)))
        x = admit(x)
        index = self._draw("permutation", None, n=shape_of(x)[axis])
        return _take_slices(x, index, axis)

    def permuted(
        self,
        x: ArrayLike,
        *,
        axis: int | None = None,
        out: npt.NDArray[Any] | None = None,
    ) -> Any:
        """Return an array whose entries are in random order.

        Parameters
        ----------
        x
            An array. Of a Tensor the gradient goes back to where each entry came from.
        axis
            The axis along which each line gets an order of its own; all entries
            together by default.
        out
            A plain array for the result of a plain ``x``.
        """
        if not has_tensor(x) and random.find_anchor() is None:
            return super().permuted(x, axis=axis, out=out)
        refuse_out("rng.permuted", out)
        x = admit(x)
        flat = np.reshape(x, -1) if axis is None else x
        rank = len(shape_of(flat))
        axis = 0 if axis is None else axis % rank
        settings = {"shape": shape_of(flat), "axis": axis}
        index: Any = self._draw("permuted", None, **settings)
        if rank == 1:
            return np.reshape(_take_slices(flat, index, 0), shape_of(x))
        return np.take_along_axis(x, index, axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the slices of a plain array in random order, in place.

        Parameters
        ----------
        x
            The array, which changes.
        axis
            The axis whose slices change places.

        Raises
        ------
        TraceError
            For a Tensor: write ``x = rng.permutation(x)``.
        """
        if has_tensor(x) and not isinstance(x, list):
            raise TraceError(
                f"rng.shuffle(x){blame.user_line()} works in place, and a traced value"
                " never changes. Write x = rng.permutation(x)."
            )
        super().shuffle(x, axis)

    def choice(
        self,
        a: ArrayLike,
        size: Size = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """Draw entries of an array, or whole numbers below ``a``.

        Parameters
        ----------
        a
            An array, or an integer for the whole numbers below it. Of a Tensor the
            gradient goes to the entries that were drawn.
        size
            The shape of the draws; by default one.
        replace
            Whether an entry may be drawn again.
        p
            The probability of each entry, through which no gradient goes; equal by
            default.
        axis
            The axis that the entries are drawn from.
        shuffle
            Whether draws without replacement are in random order.

        Raises
        ------
        NotDifferentiableError
            If ``p`` is a Tensor that is differentiated by.
        """
        p = require_constant(p, "rng.choice(p=x)")
        inside = random.find_anchor() is not None
        if not has_tensor(a, p) and not inside:
            plain: Any = super().choice
            return plain(a, size, replace, p, axis, shuffle)
        number = shape_of(admit(a)) == ()
        settings = {"a": int(value_of(a)) if number else shape_of(admit(a))[axis]}
        more = {"replace": replace, "p": p, "shuffle": shuffle}
        index = self._draw("choice", size, **settings, **more)
        return index if number else _take_slices(admit(a), index, axis)


def _take_slices(x: Array, index: Array, axis: int) -> Array:
    """Return the slices of ``x`` at an index, which may have no value yet."""
    if isinstance(x, Tensor) or not isinstance(index, Tensor):
        return np.take(x, index, axis=axis)
    leading = (slice(None),) * (axis % len(shape_of(x)))
    return getitem(x, (*leading, index))


# Laws with a shape: gamma, beta, and what is made of them.

_normal = np.random.Generator.standard_normal
_gamma = np.random.Generator.standard_gamma


class Shapes(Drawing):
    """`gamma`, `beta`, `dirichlet`, `chisquare`, `f`, `standard_t`, ..."""

    # By the shape of a gamma or beta law

    def standard_gamma(
        self,
        shape: ArrayLike,
        size: Size = None,
        dtype: npt.DTypeLike = np.float64,
        out: npt.NDArray[Any] | None = None,
    ) -> Any:
        """Draw from a gamma distribution of scale 1.

        Parameters
        ----------
        shape
            The shape parameter, not negative; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.
        dtype
            float64 or float32.
        out
            A plain array for the result of a plain parameter.

        Notes
        -----
        The gradient by ``shape`` is implicit: that of the quantile at a fixed
        probability (Figurnov, Mohamed and Mnih, "Implicit reparameterization
        gradients", 2018).
        """
        if not has_tensor(shape):
            if out is not None:
                plain: Any = super().standard_gamma
                return plain(shape, size, dtype, out)
            return self._draw("standard_gamma", size, shape=shape, dtype=dtype)
        refuse_out("rng.standard_gamma", out)
        with source.pin_line():
            made = self._draw_gamma("rng.standard_gamma", admit(shape), size)
            return made if np.dtype(dtype) == np.float64 else made.astype(dtype)

    def _draw_gamma(
        self, call: str, a: Array, size: Size, drawn: Array | None = None
    ) -> Array:
        """Draw from gamma laws of shape ``a``; ``drawn`` are values, if there are."""
        check_range(call, lambda v: v >= 0, shape=a)
        size = broadcast_size(call, size, a)
        value = value_of(a)
        if value is None or random.find_anchor() is not None:
            return apply(GAMMA, (a, self._draw("random", size) - 0.5))
        y: Any = super().standard_gamma(value, size) if drawn is None else drawn
        return self._record_draw(GAMMA, (a,), gamma_tail(value, y), y)

    def _record_draw(
        self, op: Op, shapes: tuple[Array, ...], tail: Array, y: Array
    ) -> Tensor:
        """Record a draw ``y`` that NumPy has made as the quantile at its ``tail``."""
        noise = random.record_draw(OPS["random_uniform"], (tail,), tail)
        return random.record_draw(op, (*shapes, noise), y)

    def gamma(self, shape: ArrayLike, scale: ArrayLike = 1.0, size: Size = None) -> Any:
        """Draw from a gamma distribution: ``scale * standard_gamma(shape)``.

        Parameters
        ----------
        shape, scale
            The shape parameter and the scale, not negative; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.
        """
        if not has_tensor(shape, scale):
            return self._draw("gamma", size, shape=shape, scale=scale)
        with source.pin_line():
            shape, scale = admit(shape), admit(scale)
            size = broadcast_size("rng.gamma", size, shape, scale)
            return scale * self.standard_gamma(shape, size)

    def chisquare(self, df: ArrayLike, size: Size = None) -> Any:
        """Draw from a chi-square distribution: ``2 * standard_gamma(df / 2)``.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.
        """
        if not has_tensor(df):
            return self._draw("chisquare", size, df=df)
        with source.pin_line():
            return 2.0 * self.standard_gamma(admit(df) / 2, size)

    def beta(self, a: ArrayLike, b: ArrayLike, size: Size = None) -> Any:
        """Draw from a beta distribution.

        Parameters
        ----------
        a, b
            The shape parameters, above 0; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The gradients by both shapes are implicit, as that of `standard_gamma`.
        """
        if not has_tensor(a, b):
            return self._draw("beta", size, a=a, b=b)
        with source.pin_line():
            a, b = admit(a), admit(b)
            check_range("rng.beta", lambda v: v > 0, a=a, b=b)
            shape: Any = broadcast_size("rng.beta", size, a, b)
            p, q = value_of(a), value_of(b)
            if p is None or q is None or random.find_anchor() is not None:
                return apply(BETA, (a, b, self._draw("random", shape) - 0.5))
            y = super().beta(p, q, shape)
            return self._record_draw(BETA, (a, b), beta_tail(p, q, y), y)

    def dirichlet(self, alpha: ArrayLike, size: Size = None) -> Any:
        """Draw probabilities from a Dirichlet distribution.

        Parameters
        ----------
        alpha
            The shape parameters, (n,), above 0; it may be a Tensor.
        size
            How many vectors, in which shape; they have the last axis of the result.

        Notes
        -----
        The draw is that of gamma draws over their sum. Where all shapes are small,
        which would underflow, it breaks a stick by beta draws, as NumPy does.
        """
        if not has_tensor(alpha):
            return self._draw("dirichlet", size, alpha=alpha)
        with source.pin_line():
            alpha = admit(alpha)
            (count,) = shape_of(alpha)
            loop = broadcast_size("rng.dirichlet", size) or ()
            value = value_of(alpha)
            if value is None or np.max(value) >= 0.1:
                made = self.standard_gamma(alpha, (*loop, count))
                return made / np.sum(made, axis=-1, keepdims=True)
            rest = np.cumsum(alpha[::-1])[::-1]
            parts = self.beta(alpha[:-1], rest[1:], (*loop, count - 1))
            remaining = np.cumprod(1 - parts, axis=-1)
            ones = np.ones_like(remaining[..., :1])
            shares = np.concatenate([parts, ones], axis=-1)
            return shares * np.concatenate([ones, remaining], axis=-1)

    # Several laws in turn: NumPy draws all of an entry before the next entry

    def _draw_in_turn(
        self, call: str, kinds: list[Any], size: tuple[Any, ...] | None
    ) -> list[Array]:
        """Draw from several laws: a shape is for a gamma law, None for a normal one."""
        known = random.find_anchor() is None and all(
            a is None or value_of(a) is not None for a in kinds
        )
        if not known:
            return [
                self._draw("standard_normal", size)
                if a is None
                else self._draw_gamma_of(call, a, size)
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
        made: list[Array] = []
        for a, row in zip(kinds, rows, strict=True):
            if isinstance(a, Tensor):
                made.append(self._draw_gamma(call, a, size, row))
            else:
                name = "standard_normal" if a is None else "standard_gamma"
                made.append(random.record_draw(OPS[f"random_{name}"], (row,), row))
        return made

    def _draw_gamma_of(self, call: str, a: Array, size: Size) -> Array:
        """Draw from a gamma law, whose shape may be a Tensor or a constant."""
        if isinstance(a, Tensor):
            return self._draw_gamma(call, a, size)
        return self._draw("standard_gamma", size, shape=a)

    def f(self, dfnum: ArrayLike, dfden: ArrayLike, size: Size = None) -> Any:
        """Draw from an F distribution: a quotient of two scaled chi-square draws.

        Parameters
        ----------
        dfnum, dfden
            The degrees of freedom of numerator and denominator, above 0; both may be
            Tensors.
        size
            The shape of the result; by default that of the parameters.
        """
        if not has_tensor(dfnum, dfden):
            return self._draw("f", size, dfnum=dfnum, dfden=dfden)
        with source.pin_line():
            dfnum, dfden = admit(dfnum), admit(dfden)
            size = broadcast_size("rng.f", size, dfnum, dfden)
            above, below = self._draw_in_turn("rng.f", [dfnum / 2, dfden / 2], size)
            return above * dfden / (below * dfnum)

    def standard_t(self, df: ArrayLike, size: Size = None) -> Any:
        """Draw from Student's t distribution.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; it may be a Tensor.
        size
            The shape of the result; by default that of the parameter.

        Notes
        -----
        The draw is ``sqrt(df / 2) * z / sqrt(y)`` with ``z`` normal and ``y`` from a
        gamma law of shape ``df / 2``.
        """
        if not has_tensor(df):
            return self._draw("standard_t", size, df=df)
        with source.pin_line():
            df = admit(df)
            size = broadcast_size("rng.standard_t", size, df)
            z, y = self._draw_in_turn("rng.standard_t", [None, df / 2], size)
            return np.sqrt(df / 2) * z / np.sqrt(y)

    def noncentral_chisquare(
        self, df: ArrayLike, nonc: ArrayLike, size: Size = None
    ) -> Any:
        """Draw from a noncentral chi-square distribution.

        Parameters
        ----------
        df
            The degrees of freedom, above 0; above 1 where a parameter is a Tensor.
        nonc
            The noncentrality, not negative; it may be a Tensor.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        if not has_tensor(df, nonc):
            return self._draw("noncentral_chisquare", size, df=df, nonc=nonc)
        with source.pin_line():
            df, nonc = admit(df), admit(nonc)
            call = "rng.noncentral_chisquare (with a gradient, for df above 1)"
            check_range(call, lambda v: v > 1, df=df)
            check_range(call, lambda v: v >= 0, nonc=nonc)
            size = broadcast_size("rng.noncentral_chisquare", size, df, nonc)
            y, z = self._draw_in_turn(call, [(df - 1) / 2, None], size)
            return 2.0 * y + (z + np.sqrt(nonc)) ** 2

    def noncentral_f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        nonc: ArrayLike,
        size: Size = None,
    ) -> Any:
        """Draw from a noncentral F distribution.

        Parameters
        ----------
        dfnum
            The degrees of freedom of the numerator, above 0; above 1 where a parameter
            is a Tensor.
        dfden
            Those of the denominator, above 0.
        nonc
            The noncentrality of the numerator, not negative.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        if not has_tensor(dfnum, dfden, nonc):
            more = {"dfnum": dfnum, "dfden": dfden, "nonc": nonc}
            return self._draw("noncentral_f", size, **more)
        with source.pin_line():
            dfnum, dfden, nonc = admit(dfnum), admit(dfden), admit(nonc)
            call = "rng.noncentral_f (with a gradient, for dfnum above 1)"
            check_range(call, lambda v: v > 1, dfnum=dfnum)
            size = broadcast_size("rng.noncentral_f", size, dfnum, dfden, nonc)
            kinds = [(dfnum - 1) / 2, None, dfden / 2]
            y, z, below = self._draw_in_turn(call, kinds, size)
            above = 2.0 * y + (z + np.sqrt(nonc)) ** 2
            return above * dfden / (2.0 * below * dfnum)


# The public functions and classes


def default_rng(seed: Seed = None) -> Generator:
    """Return a generator as `numpy.random.default_rng` does, for traced programs too.

    Parameters
    ----------
    seed
        As for NumPy: None, integers, a `SeedSequence`, a bit generator, or a
        generator, whose stream is then shared.

    Returns
    -------
    A :class:`Generator`, which draws the same numbers as NumPy's.

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

    def __init__(self, bits: np.random.BitGenerator | np.random.Generator) -> None:
        if isinstance(bits, np.random.Generator):
            bits = bits.bit_generator
        super().__init__(bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.bit_generator,)


for _part in (Laws, Shapes, Order, Families):
    for _name, _method in list(vars(_part).items()):
        if not _name.startswith("_") and _name != "shuffle":
            setattr(_part, _name, defer_draws(_method))


class Stream(Generator):
    """A `Generator` all of whose draws are made when the program runs."""

    always = True


def stream(seed: Seed = None) -> Stream:
    """Return a generator for expressions of symbols, whose draws are Tensors.

    A function draws anew in each call, and functions that draw from one stream go on
    where the last one stopped. Within one call a draw is one number, however often
    the program reads it.

    Parameters
    ----------
    seed
        As for :func:`default_rng`.

    Returns
    -------
    A :class:`Stream`.

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
