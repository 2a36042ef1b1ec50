"""Random draws as nodes: the noise that a program has drawn is part of it.

A draw in a trace with values is made once, by NumPy, and its node holds it: whoever
runs the program again runs it with the same draw. In a trace without values the node
draws when the program runs; under `vmap` that is anew for each example. So does one in
an expression of symbols: it hangs on a shared value that holds the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from workbench.core import dims, source, traces
from workbench.core.broadcasting import broadcast_shapes
from workbench.core.op import OPS, Op
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Spec, spec_of
from workbench.ops.define import op, shape_of

__all__ = ["NAMES", "SAMPLERS", "anchored", "drawn", "inside", "node", "unknown"]

Params = dict[str, Any]
Sampler = Callable[..., Any]


def _permutation(generator: Any, size: None, *, n: int) -> Any:
    return np.random.Generator.permutation(generator, n)


def _permuted(generator: Any, size: None, *, shape: Any, axis: int) -> Any:
    line = np.arange(shape[axis])  # host array: an index
    line = np.reshape(line, (-1,) + (1,) * (len(shape) - 1 - axis))
    index = np.broadcast_to(line, shape)
    return np.random.Generator.permuted(generator, index, axis=axis)


def _choice(generator: Any, size: Any, **settings: Any) -> Any:
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


def _sample(name: str, generator: Any, size: Any, settings: Params) -> Any:
    if name in SAMPLERS:
        return SAMPLERS[name](generator, size, **settings)
    return getattr(np.random.Generator, name)(generator, **settings, size=size)


def _computing() -> Callable[..., Any]:
    """What one op computes; each has its own, for the text of a program names it."""

    def compute(
        held: Any, *given: Any, draw: _Draw | None = None, **lengths: Any
    ) -> Any:
        return held if draw is None else draw(given, lengths)

    return compute


def _infer(held: Any, *given: Any, draw: _Draw | None = None, **lengths: Any) -> Spec:
    if draw is not None:
        return draw.shaped(lengths)
    return held if isinstance(held, Spec) else spec_of(held)


class _Draw:
    """What a node without a value draws when the program runs.

    ``names`` are the settings that are operands of the node, ``settings`` the others.
    Those of them that hold lengths unknown until then, the size among them, are
    settings of the node (``lengths``), which measures them.
    """

    def __init__(
        self,
        name: str,
        generator: Any,
        size: Any,
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
    def generator(self) -> Any:
        """The generator that draws now."""
        found = self.origin.state if isinstance(self.origin, Shared) else self.origin
        # NumPy's own, whose methods call each other and must draw at once.
        return getattr(found, "plain", found)

    def __repr__(self) -> str:
        return f"<{self.name} of {type(self.generator.bit_generator).__name__}>"

    def __call__(self, given: Sequence[Any], lengths: Params) -> Any:
        """The draw, with the operands' values."""
        settings = self.settings | dict(zip(self.names, given, strict=True)) | lengths
        size = settings.pop("size", self.size)
        held = settings.pop(HOLDER, None)
        generator = self.generator if held is None else getattr(held, "plain", held)
        return _sample(self.name, generator, size, settings)

    def shaped(self, lengths: Params) -> Spec:
        """The spec of the draw, lengths that are not known yet among it."""
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
        """The same draw with an axis of examples in front."""
        spec = Spec((count, *self.spec.shape), self.spec.dtype)
        size = (count, *(self.size or ()))
        return _Draw(self.name, self.origin, size, self.names, self.settings, spec)


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Any:
    draw: _Draw = params["draw"]
    lengths = {k: x for k, x in params.items() if k != "draw"}
    count = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    given, marked = inputs[1:], batched[1:]
    if draw.name in SAMPLERS:
        rows = [
            _emitted(
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
    return _emitted(draw.many(count), aligned, lengths)


def _emitted(draw: _Draw, given: Sequence[Any], lengths: Params) -> Any:
    """A node for the draw, or the draw itself where every value is known."""
    anchor = unknown()
    if anchor is None:
        return draw([value_of(x) for x in given], lengths)
    params = {"draw": draw, **lengths}
    return apply(OPS[f"random_{draw.name}"], (anchor, *given), params)


#: The names of the ops, one for each family.
NAMES = [f"random_{name}" for name in (*FAMILIES, *SAMPLERS)]
for _name in NAMES:
    op(_name, _computing(), batch=_batch, infer=_infer, lengths=_infer)


def unknown() -> Any:
    """What a draw hangs on that waits for the program to run; None: draw now.

    A leaf without a value of the innermost open trace that has one, or the shared
    value of `anchored`.
    """
    for opened in reversed(traces.LOCAL.stack):
        if opened.unknown is not None:
            return opened.unknown
    return _ANCHOR.get()


#: What the draws of a call hang on where no trace is open.
_ANCHOR: ContextVar[Shared | None] = ContextVar("_ANCHOR", default=None)


@contextmanager
def anchored(holder: Shared) -> Iterator[None]:
    """Make the draws of the block wait for the program to run."""
    token = _ANCHOR.set(holder)
    try:
        yield
    finally:
        _ANCHOR.reset(token)


def inside() -> bool:
    """Whether draws are nodes here."""
    return traces.any_open() or _ANCHOR.get() is not None


def node(made: Op, inputs: tuple[Any, ...], value: Any) -> Tensor:
    """A node whose value is known already."""
    context = source.surroundings()
    if context is not None and context.code is not None:
        code, lasti = context.code, context.lasti
    else:
        code, lasti = source.caller(2)
    return Tensor(
        made, inputs, tuple(map(value_of, inputs)), {}, value, code, lasti, context
    )


def drawn(generator: Any, name: str, size: Any, settings: Params) -> Any:
    """A draw of a family of NumPy's: a node while a trace is open, else plain.

    Whole numbers are plain wherever they are known: they have no gradient to lose,
    and count, index and look up.
    """
    anchor = unknown()
    if anchor is None:
        plain = {k: value_of(x) for k, x in settings.items()}
        value = _sample(name, generator, size, plain)
        if not traces.any_open() or spec_of(value).dtype.kind != "f":
            return value
        return node(OPS[f"random_{name}"], (value,), value)
    operands = {
        k: x for k, x in settings.items() if isinstance(x, (Tensor, np.ndarray))
    }
    rest = {k: x for k, x in settings.items() if k not in operands}
    shapes = [shape_of(x) for x in operands.values()]
    if size is None and dims.found(shapes):
        size = broadcast_shapes(*shapes)
    elif size is not None and not isinstance(size, (tuple, list)):
        size = (size,)
    # NumPy tells the dtype, and the shape where nothing unknown is in it.
    trial = np.random.default_rng(0)
    examples = {k: _example(x) for k, x in operands.items()}
    spec = spec_of(_sample(name, trial, _known(size), _known(rest) | examples))
    lengths = {k: x for k, x in {**rest, "size": size}.items() if dims.found(x)}
    rest = {k: x for k, x in rest.items() if k not in lengths}
    if name not in SAMPLERS and not lengths:
        vector = any(k in VECTORS or k in ("alpha", "mean") for k in settings)
        lead = spec.shape[:-1] if vector else spec.shape
        size = lead or None
    holder = _ANCHOR.get()
    origin = generator if holder is None else holder
    if holder is None and getattr(generator, "always", False):
        # In the step of a loop, which then depends on what holds the generator.
        operands[HOLDER] = generator.shared
    size = None if "size" in lengths else size
    draw = _Draw(name, origin, size, tuple(operands), rest, spec)
    return _emitted(draw, list(operands.values()), lengths)


def _known(x: Any) -> Any:
    """A setting with some length in the place of each that is not known."""
    return dims.replaced(x, lambda atom: 2)


def _example(x: Any) -> Any:
    """A value of an operand for a trial."""
    if value_of(x) is not None:
        return value_of(x)
    spec: Spec = spec_of(x)
    return Spec(_known(spec.shape), spec.dtype).example()
