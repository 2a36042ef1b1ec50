"""Integrals of functions as an op, by Leibniz's rule, and of samples.

``I = ∫ f(x, θ) dx`` from a to b has ``∂I/∂b = f(b)``, ``∂I/∂a = −f(a)`` and
``∂I/∂θ = ∫ ∂f/∂θ dx``: integrals of the same kind, so it nests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.call import pull_through, push_through
from workbench.core import blame, types
from workbench.core.op import declare
from workbench.core.recorder import Recorder
from workbench.core.tensor import admit, apply
from workbench.core.types import (
    Array,
    ArrayLike,
    Params,
    Spec,
    Tangent,
    is_differentiable,
)
from workbench.errors import ShapeError, TraceError, UsageError
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.shaping import normal_axis

Rate = Callable[[Sequence[Any]], Sequence[Any]]

INTEGRAL = declare("integral")
INTEGRAL.pattern = "integral"

#: Settings of `scipy.integrate.quad` that `quad_vec` knows too.
COMMON = {"epsabs", "epsrel", "limit"}


class Integrand:
    """A function as a flat program ``value([*parameters, x]) -> [f]``."""

    def __init__(self, value: Rate, spec: Spec, settings: dict[str, Any]) -> None:
        self.value = value
        self.spec = spec
        self.settings = settings
        #: What SciPy said of the last integral beside its value.
        self.report: tuple[Any, ...] = ()
        self._derived: dict[Any, Integrand] = {}

    def __repr__(self) -> str:
        return f"<a function of x to {self.spec}>"

    def derive(self, key: Any, value: Rate, parameters: Sequence[Any]) -> Integrand:
        """Return another integrand made of this one, recorded once for each ``key``."""
        if key not in self._derived:
            x = Spec((), np.dtype(float))
            settings = {k: v for k, v in self.settings.items() if k in COMMON}
            try:
                closed = Recorder(lambda *xs: list(value(xs)), *parameters, x)
                made = Integrand(closed.run, closed.specs[0], settings)
            except TraceError:  # it looks at values, and is recorded at each point
                middle = value([*parameters, np.float64(0.5)])[0]
                spec = Spec(shape_of(middle), dtype_of(middle))
                made = Integrand(value, spec, settings)
            self._derived[key] = made
        return self._derived[key]


def integral(
    integrand: Integrand, parameters: Sequence[Any], a: ArrayLike, b: ArrayLike
) -> Any:
    """Return the integral from a to b."""
    return apply(INTEGRAL, (*parameters, a, b), {"integrand": integrand})


def _compute(*inputs: Any, integrand: Integrand) -> Array:
    from scipy import integrate

    *parameters, a, b = inputs

    def function(x: float) -> Any:
        return integrand.value([*parameters, np.float64(x)])[0]

    spec, settings = integrand.spec, integrand.settings
    if spec.shape == () and spec.dtype.kind != "c":
        made, *report = integrate.quad(
            lambda x: float(function(x)), float(a), float(b), **settings
        )
    else:
        known = {k: v for k, v in settings.items() if k in COMMON}
        made, *report = integrate.quad_vec(
            function, float(a), float(b), norm="max", **known
        )
    integrand.report = tuple(report)
    return np.asarray(made, spec.dtype)[()]


def _infer(*inputs: Any, integrand: Integrand) -> Spec:
    return integrand.spec


def _push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    integrand: Integrand = params["integrand"]
    *parameters, a, b = inputs
    *moving, da, db = tangents
    count = len(parameters)
    which = tuple([i for i, t in enumerate(moving) if t is not None])
    total = None
    if which:

        def value(xs: Sequence[Any]) -> list[Any]:
            fixed, along, x = xs[:count], xs[count:-1], xs[-1]
            given = dict(zip(which, along, strict=True))
            (tangent,) = push_through(
                lambda ps: integrand.value([*ps, x]),
                fixed,
                [given.get(i) for i in range(count)],
            )
            if tangent is None:
                tangent = np.zeros_like(integrand.value([*fixed, x])[0])
            return [tangent]

        extended = [*parameters, *[moving[i] for i in which]]
        tangent = integrand.derive(("push", which), value, extended)
        total = integral(tangent, extended, a, b)
    for end, t, sign in ((a, da, -1), (b, db, 1)):
        if t is not None:
            term = sign * t * integrand.value([*parameters, end])[0]
            total = term if total is None else total + term
    return total


def _pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    integrand: Integrand = params["integrand"]
    *parameters, a, b = inputs
    count = len(parameters)
    which = tuple(
        [
            i
            for i, x in enumerate(parameters)
            if mask >> i & 1 and is_differentiable(dtype_of(x))
        ]
    )
    made: list[Any] = [None] * count
    if which:

        def value(xs: Sequence[Any]) -> list[Any]:
            fixed, c, x = list(xs[:count]), xs[-2], xs[-1]

            def evaluate(ps: Sequence[Any]) -> Sequence[Any]:
                filled = list(fixed)
                for i, p in zip(which, ps, strict=True):
                    filled[i] = p
                return integrand.value([*filled, x])

            back = pull_through(evaluate, [fixed[i] for i in which], [c])
            rows = [
                np.reshape(np.zeros_like(fixed[i]) if m is None else m, -1)
                for i, m in zip(which, back, strict=True)
            ]
            return [np.concatenate(rows)]

        lower = integrand.derive(("pull", which), value, [*parameters, g])
        total = integral(lower, [*parameters, g], a, b)
        start = 0
        for i in which:
            shape = shape_of(parameters[i])
            stop = start + int(np.prod(shape))
            made[i] = np.reshape(total[start:stop], shape)
            start = stop
    ends: list[Any] = [None, None]
    for place, end, sign in ((0, a, -1), (1, b, 1)):
        if mask >> (count + place) & 1:
            ends[place] = sign * np.sum(g * integrand.value([*parameters, end])[0])
    return [*made, *ends]


INTEGRAL.compute = _compute
INTEGRAL.infer = _infer
INTEGRAL.pull = _pull
INTEGRAL.push = _push
INTEGRAL.rule = "∫ g ∂f for what f reads   −g f(a)   g f(b)"
INTEGRAL.reads = None


# Integrals of samples: `trapezoid`, `cumulative_trapezoid`, `simpson`.
#
# Their public home is `workbench.scipy.integrate`.


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrate samples that are joined by lines: `scipy.integrate.trapezoid`.

    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import trapezoid
    >>> wb.grad(trapezoid)(np.array([1.0, 2.0, 4.0]))
    array([0.5, 1. , 0.5])
    """
    y, step = _arrange_samples(y, x, dx, axis)
    return np.sum(step * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)


def cumulative_trapezoid(
    y: ArrayLike,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: float | None = None,
) -> Array:
    """Integrate up to each sample: `scipy.integrate.cumulative_trapezoid`.

    >>> import numpy as np
    >>> from workbench.scipy.integrate import cumulative_trapezoid
    >>> cumulative_trapezoid(np.array([1.0, 2.0, 4.0]), initial=0)
    array([0. , 1.5, 4.5])
    """
    if initial is not None and initial != 0:
        raise UsageError(
            f"cumulative_trapezoid: initial={initial!r}{blame.user_line()}. It is 0 or"
            " None."
        )
    rank = len(shape_of(_to_array(y)))
    y, step = _arrange_samples(y, x, dx, axis)
    made = np.cumsum(step * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    if initial is not None:
        made = np.concatenate([np.zeros_like(y[..., :1]), made], axis=-1)
    return np.moveaxis(made, -1, normal_axis(axis, rank))


def simpson(
    y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrate samples that are joined by parabolas: `scipy.integrate.simpson`.

    For an even number of samples the last interval is that of the parabola
    through the last three (Cartwright, *Simpson's rule cumulative integration with
    MS Excel and irregularly-spaced data*, 2017, eq. 8).

    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import simpson
    >>> 3 * wb.grad(simpson)(np.ones(5))
    array([1., 4., 2., 4., 1.])
    """
    y, step = _arrange_samples(y, x, dx, axis)
    count = shape_of(y)[-1]
    if count == 1:
        return 0 * y[..., 0]
    if count == 2:
        return _select_steps(step, 0) * (y[..., 0] + y[..., 1]) / 2
    pairs = (count - 1) // 2
    h0, h1 = (_select_steps(step, slice(i, 2 * pairs, 2)) for i in range(2))
    left, middle, right = (y[..., i : i + 2 * pairs - 1 : 2] for i in range(3))
    both = h0 + h1
    total = np.sum(
        both / 6 * (
            left * (2 - h1 / h0) + middle * both**2 / (h0 * h1)
            + right * (2 - h0 / h1)
        ),
        axis=-1,
    )  # fmt: skip
    if count % 2 == 0:
        h0, h1 = _select_steps(step, -2), _select_steps(step, -1)
        both = h0 + h1
        total = (
            total
            + y[..., -1] * (h1 * (2 * h1 + 3 * h0) / (6 * both))
            + y[..., -2] * (h1 * (h1 + 3 * h0) / (6 * h0))
            - y[..., -3] * (h1**3 / (6 * h0 * both))
        )
    return total


def _arrange_samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[Array, Any]:
    """Return the samples with their axis last, and the steps between them."""
    y = _to_array(y)
    rank = len(shape_of(y))
    axis = normal_axis(axis, rank)
    y = np.moveaxis(y, axis, -1)
    count = shape_of(y)[-1]
    if x is None:
        return y, dx if types.is_weak(dx) else _to_array(dx)
    x = _to_array(x)
    if len(shape_of(x)) > 1:
        x = np.moveaxis(x, axis, -1)
    if shape_of(x)[-1] != count:
        raise ShapeError(
            f"{count} samples at {shape_of(x)[-1]} places{blame.user_line()}: give one"
            " place per sample, along the same axis."
        )
    return y, x[..., 1:] - x[..., :-1]


def _select_steps(step: Any, index: Any) -> Array:
    """Return some of the steps; the number itself where all are equal."""
    return step[..., index] if shape_of(step) else step


def _to_array(x: ArrayLike) -> Any:
    x = admit(x)
    return x if hasattr(x, "shape") else np.asarray(x)
