"""Random draws as nodes of a program; draws that depend on a shape parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import dims, source, traces
from workbench.core.dims import broadcast_shapes
from workbench.core.op import OPS, Op
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Array, Params, Shape, Spec, Tangent, spec_of
from workbench.errors import NotDifferentiableError
from workbench.ops.define import op, shape_of

# Random draws as nodes: the noise that a program has drawn is part of it.
#
# A draw in a trace with values is made once, by NumPy, and its node holds it: whoever
# runs the program again runs it with the same draw. In a trace without values the node
# draws when the program runs; under `vmap` that is anew for each example. So does one
# in an expression of symbols: it hangs on a shared value that holds the generator.

Sampler = Callable[..., Any]


def _permutation(generator: np.random.Generator, size: None, *, n: int) -> Array:
    return np.random.Generator.permutation(generator, n)


def _permuted(
    generator: np.random.Generator, size: None, *, shape: Shape, axis: int
) -> Array:
    line = np.arange(shape[axis])  # host array: an index
    line = np.reshape(line, (-1,) + (1,) * (len(shape) - 1 - axis))
    index = np.broadcast_to(line, shape)
    return np.random.Generator.permuted(generator, index, axis=axis)


def _choice(
    generator: np.random.Generator, size: Shape | int | None, **settings: Any
) -> Array:
    return np.random.Generator.choice(generator, size=size, **settings)


#: The operand that is the generator itself.
HOLDER = "generator"

#: What draws an index, in one piece: a batch of it is drawn one by one.
SAMPLERS: dict[str, Sampler] = {
    "permutation": _permutation,
    "permuted": _permuted,
    "choice": _choice,
}

#: Parameters that are vectors: their last axis is one of the result.
VECTORS = {"pvals", "colors"}

FAMILIES = """
beta binomial chisquare dirichlet exponential f gamma geometric gumbel hypergeometric
integers laplace logistic lognormal logseries multinomial multivariate_hypergeometric
multivariate_normal negative_binomial noncentral_chisquare noncentral_f normal pareto
poisson power random rayleigh standard_cauchy standard_exponential standard_gamma
standard_normal standard_t triangular uniform vonmises wald weibull zipf
""".split()


def _sample(
    name: str,
    generator: np.random.Generator,
    size: Shape | int | None,
    settings: Params,
) -> Any:
    if name in SAMPLERS:
        return SAMPLERS[name](generator, size, **settings)
    return getattr(np.random.Generator, name)(generator, **settings, size=size)


def _make_compute() -> Callable[..., Any]:
    """Return a new ``compute`` for one op: texts name an op by its own ``compute``."""

    def compute(
        sample: Array, *given: Any, draw: _Draw | None = None, **lengths: Any
    ) -> Array:
        return sample if draw is None else draw(given, lengths)

    return compute


def _infer(
    sample: Array | Spec, *given: Any, draw: _Draw | None = None, **lengths: Any
) -> Spec:
    if draw is not None:
        return draw.shaped(lengths)
    return sample if isinstance(sample, Spec) else spec_of(sample)


class _Draw:
    """What a node without a value draws when the program runs.

    ``names`` are the settings that are operands of the node, ``settings`` the others.
    Those of them that hold lengths unknown until then, the size among them, are
    settings of the node (``lengths``), which measures them.
    """

    def __init__(
        self,
        name: str,
        generator: np.random.Generator | Shared,
        size: Shape | None,
        names: tuple[str, ...],
        settings: Params,
        spec: Spec,
    ) -> None:
        self.name = name
        #: A generator, or the shared value that holds it.
        self.origin = generator
        self.size = size
        self.names = names
        self.settings = settings
        self.spec = spec

    @property
    def generator(self) -> np.random.Generator:
        """The generator that draws now."""
        found = self.origin.state if isinstance(self.origin, Shared) else self.origin
        # NumPy's own, whose methods call each other and must draw at once.
        return getattr(found, "plain", found)

    def __repr__(self) -> str:
        return f"<{self.name} of {type(self.generator.bit_generator).__name__}>"

    def __call__(self, given: Sequence[Any], lengths: Params) -> Any:
        """Return the draw, with the operands' values."""
        settings = self.settings | dict(zip(self.names, given, strict=True)) | lengths
        size = settings.pop("size", self.size)
        held = settings.pop(HOLDER, None)
        # NumPy's own, as in `generator`.
        own: Any = getattr(held, "plain", held)
        generator = self.generator if held is None else own
        return _sample(self.name, generator, size, settings)

    def shaped(self, lengths: Params) -> Spec:
        """Return the spec of the draw, including lengths that are not known yet."""
        if not lengths:
            return self.spec
        settings = self.settings | lengths
        if self.name == "permutation":
            return Spec((settings["n"],), self.spec.dtype)
        if self.name == "permuted":
            return Spec(settings["shape"], self.spec.dtype)
        size = settings.get("size", self.size) or ()
        return Spec((*size, *self.spec.shape[len(size) :]), self.spec.dtype)

    def many(self, count: int) -> _Draw:
        """Return the same draw with an axis of examples in front."""
        spec = Spec((count, *self.spec.shape), self.spec.dtype)
        size = (count, *(self.size or ()))
        return _Draw(self.name, self.origin, size, self.names, self.settings, spec)


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Array:
    draw: _Draw = params["draw"]
    lengths = {k: x for k, x in params.items() if k != "draw"}
    count = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    given, marked = inputs[1:], batched[1:]
    if draw.name in SAMPLERS:
        rows = [
            _emit_draw(
                draw,
                [x[k] if b else x for x, b in zip(given, marked, strict=True)],
                lengths,
            )
            for k in range(count)
        ]
        return np.stack(rows)
    aligned = []
    for name, x, b in zip(draw.names, given, marked, strict=True):
        rank = len(lengths.get("size", draw.size) or ()) + (name in VECTORS)
        if b and (short := rank + 1 - len(shape_of(x))) > 0:
            x = np.reshape(x, (count, *(1,) * short, *shape_of(x)[1:]))
        aligned.append(x)
    if "size" in lengths:
        lengths["size"] = (count, *lengths["size"])
    return _emit_draw(draw.many(count), aligned, lengths)


def _emit_draw(draw: _Draw, given: Sequence[Any], lengths: Params) -> Any:
    """Return a node for the draw, or the draw itself where every value is known."""
    anchor = find_anchor()
    if anchor is None:
        return draw([value_of(x) for x in given], lengths)
    params = {"draw": draw, **lengths}
    return apply(OPS[f"random_{draw.name}"], (anchor, *given), params)


def _text(node: Tensor) -> tuple[str, Params] | None:
    """Return the text of a drawn value, or of a call of the generator."""
    made = node.params.get("draw")
    if made is None:
        return "{0}", {}
    if made.name in SAMPLERS:
        return None  # drawn by arguments of our own
    names = [name for name in made.names if name != HOLDER]
    given = {name: f"{{{i}}}" for i, name in enumerate(names, 1)}
    later = [k for k in node.params if k not in ("draw", "size")]
    texts = [
        f"{k}={given.get(k, f'{{{k}}}')}" for k in (*made.settings, *later, *given)
    ]
    call = f"{{generator}}.{made.name}({', '.join([*texts, 'size={size}'])})"
    size = {} if "size" in node.params else {"size": made.size}
    return call, {**made.settings, "generator": made.generator, **size}


#: The names of the ops, one for each family.
NAMES = [f"random_{name}" for name in (*FAMILIES, *SAMPLERS)]
for _name in NAMES:
    op(
        _name,
        _make_compute(),
        batch=_batch,
        infer=_infer,
        template=_text,
    )


def find_anchor() -> Tensor | Shared | None:
    """Return the anchor that delays draws until the program runs; None: draw now.

    A leaf without a value of the innermost open trace that has one, or the shared
    value of `anchor_draws`.
    """
    for opened in reversed(traces.LOCAL.stack):
        if opened.unknown is not None:
            return opened.unknown
    return _ANCHOR.get()


#: What the draws of a call hang on where no trace is open.
_ANCHOR: ContextVar[Shared | None] = ContextVar("_ANCHOR", default=None)


@contextmanager
def anchor_draws(holder: Shared) -> Iterator[None]:
    """Make the draws of the block wait for the program to run."""
    token = _ANCHOR.set(holder)
    try:
        yield
    finally:
        _ANCHOR.reset(token)


def is_recording_draws() -> bool:
    """Return whether draws are nodes here."""
    return traces.has_open_trace() or _ANCHOR.get() is not None


def record_draw(op: Op, inputs: tuple[Any, ...], value: object) -> Tensor:
    """Return a node for a value that is already computed."""
    context = source.current_context()
    if context is not None and context.code is not None:
        code, lasti = context.code, context.lasti
    else:
        code, lasti = source.caller(2)
    return Tensor(
        op, inputs, tuple(map(value_of, inputs)), {}, value, code, lasti, context
    )


def draw_sample(
    generator: Any,
    name: str,
    size: Shape | int | None,
    settings: Params,
) -> Any:
    """Return a draw of a family of NumPy's: a node while a trace is open, else plain.

    Whole numbers are plain wherever they are known: they have no gradient to lose,
    and count, index and look up.
    """
    anchor = find_anchor()
    if anchor is None:
        plain = {k: value_of(x) for k, x in settings.items()}
        value = _sample(name, generator, size, plain)
        if not traces.has_open_trace() or spec_of(value).dtype.kind != "f":
            return value
        return record_draw(OPS[f"random_{name}"], (value,), value)
    operands = {
        k: x for k, x in settings.items() if isinstance(x, (Tensor, np.ndarray))
    }
    rest = {k: x for k, x in settings.items() if k not in operands}
    shapes = [shape_of(x) for x in operands.values()]
    if size is None and dims.has_dim(shapes):
        size = broadcast_shapes(*shapes)
    elif size is not None and not isinstance(size, (tuple, list)):
        size = (size,)
    # NumPy tells the dtype, and the shape where nothing unknown is in it.
    trial = np.random.default_rng(0)
    examples = {k: _trial_value(x) for k, x in operands.items()}
    spec = spec_of(
        _sample(name, trial, _replace_lengths(size), _replace_lengths(rest) | examples)
    )
    lengths = {k: x for k, x in {**rest, "size": size}.items() if dims.has_dim(x)}
    rest = {k: x for k, x in rest.items() if k not in lengths}
    if name not in SAMPLERS and not lengths:
        vector = any(k in VECTORS or k in ("alpha", "mean") for k in settings)
        lead = spec.shape[:-1] if vector else spec.shape
        size = lead or None
    holder = _ANCHOR.get()
    origin = generator if holder is None else holder
    if holder is None and getattr(generator, "is_stream", False):
        # In the step of a loop, which then depends on what holds the generator.
        operands[HOLDER] = generator.shared
    size = None if "size" in lengths else size
    draw = _Draw(name, origin, size, tuple(operands), rest, spec)
    return _emit_draw(draw, list(operands.values()), lengths)


def _replace_lengths(x: Any) -> Any:
    """Return a setting with some length in the place of each that is not known."""
    return dims.replace_dims(x, lambda atom: 2)


def _trial_value(x: object) -> Any:
    """Return a value of an operand for a trial."""
    if value_of(x) is not None:
        return value_of(x)
    spec: Spec = spec_of(x)
    return Spec(_replace_lengths(spec.shape), spec.dtype).example()


# How a gamma or beta draw moves with its shape, at a fixed quantile.
#
# If F(z; a) = u stays, dz/da = -(dF/da) / f, with f the density: the implicit
# reparameterisation of Figurnov, Mohamed and Mnih, "Implicit reparameterization
# gradients", 2018, equation 5. dF/da is the integral of f(t) (d log f(t) / da), from 0
# to z or from z to infinity, whichever keeps one sign: then nothing cancels. In the
# logarithm of the distance from z the integrand is smooth, and the trapezoidal rule
# converges exponentially (Trefethen and Weideman, "The exponentially convergent
# trapezoidal rule", 2014, section 14). Against 80-digit arithmetic the relative error
# of dF/da is below 1e-12 for gamma shapes from 1e-3 to 1e5 and beta shapes from 1e-2 to
# 2e3, that of second derivatives below 2e-10.
#
# All of this runs in NumPy on the host, in float64.

HostArray = npt.NDArray[Any]
Function = Callable[[HostArray], HostArray]

NODES = 192
STEPS = 14
#: The most numbers that one sweep of the rule holds.
MOST = 2**17


def _find_last(condition: Function, low: HostArray) -> HostArray:
    """Return the last logarithm from ``low`` on at which a condition holds, roughly."""
    high = np.full_like(low, 110.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        holds = condition(middle)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return (low + high) / 2


def _integrals(exponent: Function, weights: Function, like: HostArray) -> HostArray:
    """Return the integrals of exp(exponent(v)) * weight(v) over v > 0, one per weight.

    ``exponent`` falls from 0; ``weights`` gives an array with an axis of weights in
    front. ``like`` is a column, and both take a row of points for each entry.
    """
    start = _find_last(lambda w: exponent(np.exp(w)) > -1, np.full_like(like, -90.0))
    # What a slow decay spreads over many decades counts by its width.
    stop = _find_last(lambda w: exponent(np.exp(w)) + w > start - 42, start)
    last = np.maximum(stop - start, 1.0) + 0.1
    step = (last + 3.7) / (NODES - 1)
    count = np.arange(NODES)  # host array: the rule's nodes
    t = -3.7 + step * count
    inward = np.exp(-t)
    v = np.exp(np.minimum(start + t - inward, 700.0))
    terms = np.exp(exponent(v)) * v * (1 + inward)
    made: HostArray = step[:, 0] * np.sum(terms * weights(v), axis=-1)
    return made


def _evaluate_columns(
    function: Callable[..., HostArray], count: int, arguments: Sequence[HostArray]
) -> HostArray:
    """Return a function of columns, for entries of any shape, some at a time."""
    given = np.broadcast_arrays(*arguments)
    shape = given[0].shape
    flat = [np.reshape(x, (-1, 1)).astype(float) for x in given]
    size = max(1, MOST // NODES)
    made = np.empty((count, flat[0].shape[0]))  # host array: results
    with np.errstate(all="ignore"):
        for i in range(0, flat[0].shape[0], size):
            made[:, i : i + size] = function(*(x[i : i + size] for x in flat))
    return np.reshape(made, (count, *shape))


def gamma_moments(a: HostArray, x: HostArray, count: int = 2) -> HostArray:
    """Return dF/da and d²F/da² over the density of the gamma law at ``x``.

    ``count`` is 1 for the first alone, which takes two thirds of the time.
    """
    return _evaluate_columns(partial(_gamma_moments, count=count), count, (a, x))


def _gamma_moments(a: HostArray, x: HostArray, *, count: int) -> HostArray:
    from scipy.special import psi, zeta

    # zeta(2, a) is the derivative of psi (DLMF 25.11.12).
    centre: HostArray = psi(a)
    spread: HostArray = zeta(2, a)
    log = np.log(x)
    moments = np.empty((count, a.shape[0]))  # host array: results
    # For small shapes what lies below spreads over too many decades to go around.
    below = ((log < centre) | ((a < 1) & (x < 1)))[:, 0]

    def lower(i: HostArray) -> HostArray:
        a_, x_, l_, c_, s_ = (z[i] for z in (a, x, log, centre, spread))

        def weights(v: HostArray) -> HostArray:
            first = l_ - v - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_])

        return x_[:, 0] * _integrals(lambda v: -a_ * v - x_ * np.expm1(-v), weights, a_)

    def upper(i: HostArray) -> HostArray:
        a_, x_, l_, c_, s_ = (z[i] for z in (a, x, log, centre, spread))

        def weights(v: HostArray) -> HostArray:
            first = l_ + np.log1p(v / x_) - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_])

        return -_integrals(lambda v: (a_ - 1) * np.log1p(v / x_) - v, weights, a_)

    moments[:, below] = lower(below)
    moments[:, ~below] = upper(~below)
    return moments


def beta_moments(
    a: HostArray, b: HostArray, x: HostArray, y: HostArray, count: int = 3
) -> HostArray:
    """Return dF/da, d²F/da² and d²F/dadb over the density of the beta law at ``x``.

    ``y`` is ``1 - x``, given apart so that both may be small; ``count`` is 1 for the
    first alone.
    """
    return _evaluate_columns(partial(_beta_moments, count=count), count, (a, b, x, y))


def _beta_moments(
    a: HostArray, b: HostArray, x: HostArray, y: HostArray, *, count: int
) -> HostArray:
    from scipy.special import psi, zeta

    whole = psi(a + b)
    centre, other = psi(a) - whole, psi(b) - whole
    shared = zeta(2, a + b)
    spread = zeta(2, a) - shared
    moments = np.empty((count, a.shape[0]))  # host array: results
    below = ((np.log(x) < centre) | ((a < 1) & (x < 0.5)))[:, 0]
    columns = (a, b, x, y, centre, other, spread, shared)

    def both(i: HostArray, up: bool) -> HostArray:
        a_, b_, x_, y_, c_, o_, s_, h_ = (z[i] for z in columns)
        # Towards 0 in log t, or towards 1 in log (1 - t).
        near, far, own, cross = (y_, x_, b_, a_) if up else (x_, y_, a_, b_)

        def drift(v: HostArray) -> HostArray:
            return np.log1p(-near / far * np.expm1(-v))

        def weights(v: HostArray) -> HostArray:
            inner, outer = np.log(near) - v, np.log(far) + drift(v)
            log_t, log_rest = (outer, inner) if up else (inner, outer)
            first = log_t - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_, first * (log_rest - o_) + h_])

        value = near[:, 0] * _integrals(
            lambda v: -own * v + (cross - 1) * drift(v), weights, a_
        )
        return -value if up else value

    moments[:, below] = both(below, False)
    moments[:, ~below] = both(~below, True)
    return moments


# Gamma and beta draws: values by quantile, derivatives by implicit reparameterisation.
#
# The noise is the quantile of what NumPy drew, kept as ``u`` for a probability below
# one half and as ``-(1 - u)`` above, so that neither tail loses digits. For the
# derivative by a shape see `gamma_moments`; it has a second one, and no third.

#: The ops of this file.
QUANTILES = [
    f"random_{law}_{what}"
    for law in ("gamma", "beta")
    for what in ("quantile", "slope", "bend")
]


def _signed_quantile(below: Any, above: Any) -> HostArray:
    return np.where(below <= 0.5, below, -above)


def gamma_tail(a: HostArray, x: HostArray) -> HostArray:
    """Return the signed quantile of a draw ``x`` of the gamma law of shape ``a``."""
    from scipy.special import gammainc, gammaincc

    return _signed_quantile(gammainc(a, x), gammaincc(a, x))


def beta_tail(a: HostArray, b: HostArray, x: HostArray) -> HostArray:
    """Return the signed quantile of a draw ``x`` of the beta law."""
    from scipy.special import betainc, betaincc

    return _signed_quantile(betainc(a, b, x), betaincc(a, b, x))


def _refuse_third(*_: Any, **__: Any) -> Array:
    raise NotDifferentiableError(
        "the third derivative of a gamma or beta draw by its shape is not known; two"
        " are. Cut it with stop_gradient where it is not wanted."
    )


def _mark_elementwise(op: Op) -> Op:
    op.elementwise = True
    return op


# Gamma


def _gamma(a: HostArray, q: HostArray) -> HostArray:
    from scipy.special import gammainccinv, gammaincinv

    size = np.abs(q)
    return np.where(q >= 0, gammaincinv(a, size), gammainccinv(a, size))


def _gamma_slope(a: HostArray, x: HostArray) -> HostArray:
    return np.where(x > 0, -gamma_moments(a, np.where(x > 0, x, 1), 1)[0], 0.0)


def _gamma_bend(a: HostArray, x: HostArray) -> HostArray:
    from scipy.special import psi

    safe = np.where(x > 0, x, 1)
    first, second = gamma_moments(a, safe)
    return np.where(x > 0, first * (np.log(safe) - psi(a)) - second, 0.0)


def _gamma_slope_by_x(y: HostArray, a: HostArray, x: HostArray) -> HostArray:
    from scipy.special import psi

    safe = np.where(x > 0, x, 1)
    whole = psi(a) - np.log(safe) - y * ((a - 1) / safe - 1)
    return np.where(x > 0, whole, 0)


GAMMA: Op = _mark_elementwise(
    op(
        "random_gamma_quantile",
        _gamma,
        lambda g, y, a, q: g * apply(GAMMA_SLOPE, (a, y)),
        None,
        push=lambda t, y, a, q: t[0] * apply(GAMMA_SLOPE, (a, y)),
        rule="−g · (∂F/∂a) / f(y)",
        template="gamma_quantile({0}, {1})",
        helper='''\
def gamma_quantile(a, q):
    """The gamma draw below which q lies, or above which -q does."""
    size = np.abs(q)
    above = special.gammainccinv(a, size)
    return np.where(q >= 0, special.gammaincinv(a, size), above)
''',
        reads=(0, "y"),
    )
)
GAMMA_SLOPE: Op = _mark_elementwise(
    op(
        "random_gamma_slope",
        _gamma_slope,
        lambda g, y, a, x: g * apply(GAMMA_BEND, (a, x)),
        lambda g, y, a, x: g * _gamma_slope_by_x(y, a, x),
        rule="g · ∂²y/∂a²",
        reads=(0, 1, "y"),
    )
)
GAMMA_BEND: Op = _mark_elementwise(
    op("random_gamma_bend", _gamma_bend, _refuse_third, _refuse_third)
)


# Beta


def _beta(a: HostArray, b: HostArray, q: HostArray) -> HostArray:
    from scipy.special import betainccinv, betaincinv

    size = np.abs(q)
    return np.where(q >= 0, betaincinv(a, b, size), betainccinv(a, b, size))


def _find_interior(x: HostArray) -> tuple[Any, Any]:
    """Return where ``x`` is inside (0, 1), and ``x`` with 0.5 elsewhere."""
    inside = (x > 0) & (x < 1)
    return inside, np.where(inside, x, 0.5)


def _moments(
    a: HostArray, b: HostArray, x: HostArray, by: str, count: int = 3
) -> HostArray:
    """Return F', F'' and the mixed F'' over the density, by the shape ``by``."""
    if by == "a":
        return beta_moments(a, b, x, 1 - x, count)
    return -beta_moments(b, a, 1 - x, x, count)


def _score(a: HostArray, b: HostArray, x: HostArray, by: str) -> HostArray:
    """Return the derivative of the log density by a shape."""
    from scipy.special import psi

    log = np.log(x) if by == "a" else np.log1p(-x)
    return log - psi(a if by == "a" else b) + psi(a + b)


def _beta_slope(a: HostArray, b: HostArray, x: HostArray, *, by: str) -> HostArray:
    inside, safe = _find_interior(x)
    return np.where(inside, -_moments(a, b, safe, by, 1)[0], 0.0)


def _beta_bend(
    a: HostArray, b: HostArray, x: HostArray, *, by: str, wrt: str
) -> HostArray:
    inside, safe = _find_interior(x)
    first, second, mixed = _moments(a, b, safe, by)
    bend = first * _score(a, b, safe, wrt) - (second if by == wrt else mixed)
    return np.where(inside, bend, 0.0)


def _beta_slope_by_x(
    y: HostArray, a: HostArray, b: HostArray, x: HostArray, by: str
) -> HostArray:
    inside, safe = _find_interior(x)
    bent = (a - 1) / safe - (b - 1) / (1 - safe)
    return np.where(inside, -_score(a, b, safe, by) - y * bent, 0)


def _slope(a: Array, b: Array, y: Array, by: str) -> Array:
    return apply(BETA_SLOPE, (a, b, y), {"by": by})


def _bend(a: Array, b: Array, x: Array, by: str, wrt: str) -> Array:
    return apply(BETA_BEND, (a, b, x), {"by": by, "wrt": wrt})


def _beta_push(t: tuple[Any, ...], y: Array, a: Array, b: Array, q: Array) -> Tangent:
    total = None
    for tangent, by in zip(t, ("a", "b"), strict=False):
        if tangent is not None:
            term = tangent * _slope(a, b, y, by)
            total = term if total is None else total + term
    return total


BETA: Op = _mark_elementwise(
    op(
        "random_beta_quantile",
        _beta,
        lambda g, y, a, b, q: g * _slope(a, b, y, "a"),
        lambda g, y, a, b, q: g * _slope(a, b, y, "b"),
        None,
        push=_beta_push,
        rule="−g · (∂F/∂a) / f(y)   −g · (∂F/∂b) / f(y)",
        template="beta_quantile({0}, {1}, {2})",
        helper='''\
def beta_quantile(a, b, q):
    """The beta draw below which q lies, or above which -q does."""
    size = np.abs(q)
    above = special.betainccinv(a, b, size)
    return np.where(q >= 0, special.betaincinv(a, b, size), above)
''',
        reads=(0, 1, "y"),
    )
)
BETA_SLOPE: Op = _mark_elementwise(
    op(
        "random_beta_slope",
        _beta_slope,
        lambda g, y, a, b, x, by: g * _bend(a, b, x, by, "a"),
        lambda g, y, a, b, x, by: g * _bend(a, b, x, by, "b"),
        lambda g, y, a, b, x, by: g * _beta_slope_by_x(y, a, b, x, by),
        rule="g · ∂²y/∂a²   g · ∂²y/∂a∂b",
        reads=(0, 1, 2, "y"),
    )
)
BETA_BEND: Op = _mark_elementwise(
    op("random_beta_bend", _beta_bend, _refuse_third, _refuse_third, _refuse_third)
)
