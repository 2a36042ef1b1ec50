"""Definite integrals of functions as an op, by Leibniz's rule.

``I = ∫ f(x, θ) dx`` from a to b has ``∂I/∂b = f(b)``, ``∂I/∂a = −f(a)`` and
``∂I/∂θ = ∫ ∂f/∂θ dx``: integrals of the same kind, so it nests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.closed import close
from workbench.autodiff.flat import pulled, pushed
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec, differentiable
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, shape_of

__all__ = ["Integrand", "integral"]

Rate = Callable[[Sequence[Any]], Sequence[Any]]
Params = dict[str, Any]

INTEGRAL = declare("integral")

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

    def derived(self, key: Any, value: Rate, parameters: Sequence[Any]) -> Integrand:
        """Another integrand made of this one, recorded once for each ``key``."""
        if key not in self._derived:
            x = Spec((), np.dtype(float))
            settings = {k: v for k, v in self.settings.items() if k in COMMON}
            try:
                closed = close(lambda *xs: list(value(xs)), *parameters, x)
                made = Integrand(closed.flat, closed.specs[0], settings)
            except TraceError:  # it looks at values, and is recorded at each point
                middle = value([*parameters, np.float64(0.5)])[0]
                spec = Spec(shape_of(middle), dtype_of(middle))
                made = Integrand(value, spec, settings)
            self._derived[key] = made
        return self._derived[key]


def integral(integrand: Integrand, parameters: Sequence[Any], a: Any, b: Any) -> Any:
    """The integral from a to b."""
    return apply(INTEGRAL, (*parameters, a, b), {"integrand": integrand})


def _compute(*inputs: Any, integrand: Integrand) -> Any:
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
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
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
            (moved,) = pushed(
                lambda ps: integrand.value([*ps, x]),
                fixed,
                [given.get(i) for i in range(count)],
            )
            if moved is None:
                moved = np.zeros_like(integrand.value([*fixed, x])[0])
            return [moved]

        extended = [*parameters, *[moving[i] for i in which]]
        moved = integrand.derived(("push", which), value, extended)
        total = integral(moved, extended, a, b)
    for end, t, sign in ((a, da, -1), (b, db, 1)):
        if t is not None:
            term = sign * t * integrand.value([*parameters, end])[0]
            total = term if total is None else total + term
    return total


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    integrand: Integrand = params["integrand"]
    *parameters, a, b = inputs
    count = len(parameters)
    which = tuple(
        [
            i
            for i, x in enumerate(parameters)
            if mask >> i & 1 and differentiable(dtype_of(x))
        ]
    )
    made: list[Any] = [None] * count
    if which:

        def value(xs: Sequence[Any]) -> list[Any]:
            fixed, c, x = list(xs[:count]), xs[-2], xs[-1]

            def at(ps: Sequence[Any]) -> Sequence[Any]:
                filled = list(fixed)
                for i, p in zip(which, ps, strict=True):
                    filled[i] = p
                return integrand.value([*filled, x])

            back = pulled(at, [fixed[i] for i in which], [c])
            rows = [
                np.reshape(np.zeros_like(fixed[i]) if m is None else m, -1)
                for i, m in zip(which, back, strict=True)
            ]
            return [np.concatenate(rows)]

        lower = integrand.derived(("pull", which), value, [*parameters, g])
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
