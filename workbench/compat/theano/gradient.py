"""`theano.gradient`: the names of `workbench.gradient`, by integers too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from workbench import gradient as ours
from workbench.autodiff.derivatives import label_gradient
from workbench.autodiff.steps import find_connections
from workbench.compat.theano import gof
from workbench.core import types, walk
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, apply
from workbench.core.types import ArrayLike
from workbench.errors import (
    DisconnectedInputError,
    GradUndefinedError,
    NullTypeGradError,
    WorkbenchError,
)
from workbench.gradient import (
    DisconnectedType,
    GradientError,
    NullType,
    Rop,
    consider_constant,
    disconnected_grad,
    format_as,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    numeric_grad,
    subgraph_grad,
    verify_grad,
    zero_grad,
)

__all__ = [
    "DisconnectedInputError",
    "DisconnectedType",
    "GradUndefinedError",
    "GradientError",
    "Lop",
    "NullType",
    "NullTypeGradError",
    "Rop",
    "consider_constant",
    "disconnected_grad",
    "disconnected_type",
    "format_as",
    "grad",
    "grad_clip",
    "grad_not_implemented",
    "grad_scale",
    "grad_sources_inputs",
    "grad_undefined",
    "hessian",
    "io_connection_pattern",
    "jacobian",
    "numeric_grad",
    "subgraph_grad",
    "verify_grad",
    "zero_grad",
]

# Derivatives by integers, as Theano has them.
#
# There an integer variable that an op makes floats of is differentiated like a real
# number: ``(i * 1.5) ** 2`` at 3 has the derivative 13.5. What passes through an op
# whose result is of integers has derivative 0. In the library itself integers do not
# vary, so the program is made anew here with floats in their places.

#: The ops, besides those of single entries, whose operands are all values: none is an
#: index or a number of axes.
OF_VALUES = frozenset(
    "concatenate convolve convolve_nd cumprod cumsum einsum einsum0 logsumexp matmul"
    " matmul0 mean prod stack std sum tensordot tensordot0 var".split()
)


def integers(nest: Any) -> list[Tensor]:
    """Return the variables of integers in a nest of variables."""
    return [x for x in _tensors(nest) if not types.is_differentiable(x.dtype)]


class Reals:
    """A program with floats in the place of some of its variables of integers.

    >>> import workbench.compat.theano.tensor as T
    >>> i = T.iscalar("i")
    >>> y = (i * 1.5) ** 2
    >>> program = Reals([y], [i])
    >>> program.nest(i).dtype, program.nest(y) is y
    (dtype('float64'), False)
    """

    def __init__(
        self, roots: Sequence[Any], chosen: Sequence[Tensor], others: Any = ()
    ) -> None:
        self.reals: dict[int, Any] = {x.serial: x.astype("float64") for x in chosen}
        #: The nodes that stand for others now, by the serial of the old ones.
        self.replacements: dict[int, Any] = {}
        outputs = _tensors(list(roots))
        for node in walk.order_nodes([*outputs, *_tensors(others)]):
            if node.serial not in self.reals:
                self.remake(node)
        # One that no op made floats of stays what it is: its derivative is 0.
        own = {x.serial for x in outputs}
        news = [self.replacements[s] for s in own if s in self.replacements]
        reached = {x.serial for x in walk.order_nodes(news)}
        self.reals = {
            s: x for s, x in self.reals.items() if x.serial in reached or s in own
        }

    def remake(self, node: Tensor) -> None:
        """Make a node again where its operands changed, with floats if possible."""
        op, inputs, params = node.op, node.operands, node.settings
        news = tuple(
            [
                self.replacements.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in inputs
            ]
        )
        casts = [self.real(x, node) for x in inputs]
        spec: Any = types.spec_of(node)
        smooth = (
            any(c is not None for c in casts)
            and isinstance(spec, types.Spec)
            and types.is_differentiable(spec.dtype)
            and (op.elementwise or op.name in OF_VALUES)
            and not op.custom
        )
        new = None
        if smooth:
            both = zip(casts, news, strict=True)
            try:
                new = apply(op, tuple(n if c is None else c for c, n in both), params)
            except WorkbenchError:  # one that takes integers alone
                new = None
            if new is not None and types.spec_of(new).dtype != spec.dtype:
                new = None
        if new is None and any(a is not b for a, b in zip(news, inputs, strict=True)):
            new = apply(op, news, params)
        if isinstance(new, Tensor):
            if node.name is not None and new.name is None:
                new.name = node.name
            self.replacements[node.serial] = new

    def real(self, x: ArrayLike, node: Tensor) -> Any:
        """Return the float that stands for an operand, in the dtype of the result."""
        found = self.reals.get(x.serial) if isinstance(x, Tensor) else None
        spec: Any = types.spec_of(node)
        if found is None or not isinstance(spec, types.Spec):
            return None
        dtype = spec.dtype
        return found.astype(dtype) if dtype.kind == "f" else found

    def nest(self, nest: Any) -> Any:
        """Return a nest of variables with those that stand for them now."""
        if isinstance(nest, Tensor):
            new = self.replacements.get(nest.serial, nest)
            return self.reals.get(nest.serial, new)
        if isinstance(nest, Mapping):
            return {self.nest(k): self.nest(v) for k, v in nest.items()}
        if type(nest) in (list, tuple):
            return type(nest)(map(self.nest, nest))
        return nest


def _tensors(nest: Any) -> list[Tensor]:
    """Return the variables in a nest, keys of mappings among them."""
    tensors: list[Tensor] = []
    stack = [nest]
    while stack:
        x = stack.pop()
        if isinstance(x, Tensor):
            tensors.append(x)
        elif isinstance(x, Mapping):
            stack += [*x.keys(), *x.values()]
        elif isinstance(x, (list, tuple)):
            stack += reversed(x)
    return tensors


# The names of `theano.gradient`

disconnected_type = DisconnectedType()


def _itself(x: ArrayLike, name: str | None = None) -> Any:
    """Return a type made a variable of itself there: ``DisconnectedType()()``."""
    return x


for _type in (DisconnectedType, NullType):
    setattr(_type, "__call__", _itself)  # noqa: B010  mypy: a method of two classes
    setattr(_type, "type", property(_itself))  # noqa: B010


def _by_reals(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a derivative be one by integers too, as far as ops make floats of them."""

    signature = inspect.signature(function)
    first = next(iter(signature.parameters))  # f, cost or expression

    @wraps(function)
    def differentiate(*args: Any, **settings: Any) -> Any:
        try:
            given = signature.bind(*args, **settings).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}") from None
        f, wrt = given[first], given["wrt"]
        chosen = integers(wrt)
        if not chosen:
            return function(*args, **settings)
        known = given.get("known_grads") or {}
        program = Reals([f, *known], chosen, given)
        made = function(**program.nest(given))
        if made is not None and wrt is chosen[0] and getattr(f, "name", None):
            label_gradient(made, f, wrt)
        return made

    return differentiate


grad = _by_reals(ours.grad)
Lop = _by_reals(ours.Lop)
jacobian = _by_reals(ours.jacobian)


def hessian(
    cost: Tensor,
    wrt: Any,
    consider_constant: Any = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """Return the second derivatives of a cost by each variable.

    Of several, each by itself: `workbench.gradient.hessian` gives the blocks of two
    different ones too.
    """
    by_reals = _by_reals(ours.hessian)

    def derive(x: ArrayLike) -> Any:
        return by_reals(cost, x, consider_constant, disconnected_inputs)

    if isinstance(wrt, (list, tuple)):
        return type(wrt)([derive(x) for x in wrt])
    return derive(wrt)


def grad_sources_inputs(
    sources: Sequence[tuple[Any, Any]], graph_inputs: Sequence[Any] | None = None
) -> dict[Any, Any]:
    """Return the gradients that flow back from several variables.

    Parameters
    ----------
    sources
        Pairs of a variable and the gradient that arrives there.
    graph_inputs
        The variables to stop at; by default all symbols and shared values behind the
        sources.

    Returns
    -------
    A mapping from each variable of ``graph_inputs`` that is reached to its gradient.

    Examples
    --------
    >>> import workbench.compat.theano.tensor as T
    >>> from workbench.compat.theano.gradient import grad_sources_inputs
    >>> x = T.dscalar("x")
    >>> y = x**2
    >>> float(grad_sources_inputs([(y, T.constant(1.0))], [x])[x].eval({x: 3.0}))
    6.0
    """
    known: dict[Any, Any] = {}
    for variable, arriving in sources:
        if arriving is None or isinstance(arriving, DisconnectedType):
            continue
        known[variable] = known[variable] + arriving if variable in known else arriving
    wrt = list(graph_inputs or gof.inputs(list(known)))
    if graph_inputs is None:
        wrt = [x for x in wrt if x._value is None or isinstance(x, Shared)]
    if not known or not wrt:
        return {}
    found = grad(
        None,
        wrt,
        known_grads=known,
        disconnected_inputs="ignore",
        return_disconnected="None",
    )
    return {x: g for x, g in zip(wrt, found, strict=True) if g is not None}


def io_connection_pattern(
    inputs: Sequence[Any], outputs: Sequence[Any]
) -> list[list[bool]]:
    """Return for each input and output whether the output depends on the input.

    >>> import workbench.compat.theano.tensor as T
    >>> x, y = T.dscalars("x", "y")
    >>> io_connection_pattern([x, y], [x * 2, x + y])
    [[True, True], [False, True]]
    """
    return find_connections(list(inputs), list(outputs))
