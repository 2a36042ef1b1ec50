"""Functions of arrays with gradients of their own.

`custom_vjp`, `custom_jvp` and `custom_gradient` differ in how a rule is written; all
make a `CustomFunction`, which is one node of a program, named after the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any

import numpy as np

from workbench.autodiff.closed import is_array
from workbench.core import tree
from workbench.core.tensor import Tensor, admit
from workbench.custom.calling import Call
from workbench.custom.registry import Entry, enter_function, home_of
from workbench.errors import UsageError
from workbench.overrides.targets import name_of

__all__ = ["CustomFunction", "custom_gradient", "custom_jvp", "custom_vjp"]

#: How many kinds of calls of one function are kept.
MOST_CALLS = 64

Function = Callable[..., Any]
Rule = Callable[..., Any]


class CustomFunction:
    """A function of arrays whose gradient is what its rules say.

    Made by :func:`workbench.custom_vjp`, :func:`workbench.custom_jvp` and
    :func:`workbench.custom_gradient`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.custom_vjp
    ... def first(x, n):
    ...     return x[:n]
    >>> first.defvjp(
    ...     lambda x, n: (first(x, n), (x, n)),
    ...     lambda kept, g: (np.ones_like(kept[0]) * np.sum(g), None),
    ... )
    >>> wb.grad(lambda x: np.sum(first(x, 2)))(np.zeros(3))
    array([2., 2., 2.])
    """

    def __init__(
        self,
        f: Function,
        vjp: Rule | None = None,
        jvp: Rule | None = None,
        *,
        paired: bool = False,
        nondiff_argnums: int | Sequence[int] = (),
    ) -> None:
        if not callable(f):
            raise UsageError(f"{f!r} is no function of arrays.")
        for rule in (vjp, jvp):
            if rule is not None and not callable(rule):
                raise UsageError(
                    f"{name_of(f)}: the rule {rule!r} is no function. Write"
                    " rule(node, *cotangents), or make one of data with wb.graph_rule."
                )
        update_wrapper(self, f)
        self.f = f
        self.vjp = vjp
        self.jvp = jvp
        #: Whether it returns its gradient beside its value.
        self.paired = paired
        given = nondiff_argnums
        self.fixed = (given,) if isinstance(given, int) else tuple(given)
        self.forward: Function | None = None
        self.backward: Function | None = None
        self.pushed: Function | None = None
        #: Which rules are known to be linear, of all calls.
        self.linear: set[Any] = set()
        self._calls: dict[Any, Call] = {}
        name = getattr(f, "__name__", type(f).__name__)
        self.__op__ = enter_function(Entry(name, home_of(f), f"{name}'s own rule"))
        try:
            self.signature: inspect.Signature | None = inspect.signature(f)
        except (TypeError, ValueError):
            self.signature = None
        known = () if self.signature is None else self.signature.parameters.values()
        self._names = [p.name for p in known if p.kind <= p.POSITIONAL_OR_KEYWORD]
        self._defaults = {
            p.name: p.default
            for p in known
            if p.default is not p.empty and not hasattr(p.default, "dtype")
        }

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Give the gradient as two functions, as JAX has it.

        ``forward(*args) -> (y, kept)`` computes the value, and what the gradient
        needs; ``backward(kept, g)`` gives a tuple, one gradient for each argument.
        """
        self.forward, self.backward = forward, backward
        self.linear.clear()
        self._calls.clear()

    def defjvp(self, rule: Function) -> Function:
        """Give forward mode as ``rule(primals, tangents) -> (y, t)``, as JAX has it."""
        self.pushed = rule
        self.linear.clear()
        self._calls.clear()
        return rule

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """A method of the object it is looked up in."""
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<{self.__op__}, with a gradient of its own>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value; in a trace one node of the program."""
        if not (self.paired or self.vjp or self.jvp or self.backward or self.pushed):
            raise UsageError(
                f"{self.__op__} has no rule yet. Give one:"
                " wb.custom_vjp(f, vjp=rule) with rule(node, *cotangents), or"
                " f.defvjp(forward, backward)."
            )
        if kwargs and self.signature is not None:
            bound = self.signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        flat, structure = tree.flatten((args, kwargs))
        flat = [
            admit(x) if type(x) is np.ndarray and x.dtype == object else x for x in flat
        ]
        key = self._key(flat, structure)
        call = None if key is None else self._calls.get(key)
        fresh = call is None
        if call is None:
            call = Call(self, flat, structure, self._settings(args, kwargs))
        leaves = [flat[i] for i in call.chosen]
        if not any(isinstance(x, Tensor) for x in leaves):
            return call.whole(call.value(leaves, lent=False))
        made = call.recorded(leaves)
        if fresh and key is not None and call.same:
            if len(self._calls) >= MOST_CALLS:
                self._calls.clear()
            self._calls[key] = call
        return made

    def _key(self, flat: list[Any], structure: tree.Tree) -> Any:
        """What calls that may share their op have in common; None: this one may not.

        Its arguments nest alike, and those that are no arrays are the same.
        """
        if self.paired or self.forward is not None:
            return None  # each keeps something for its gradient
        rest = [(i, x) for i, x in enumerate(flat) if not is_array(x)]
        if not all(type(x) in (int, bool, str) for _, x in rest):
            return None
        return structure, tuple([(i, type(x), x) for i, x in rest])

    def _settings(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments that hold no arrays, by the names of their parameters.

        A default that stays is one too, whatever it is: it has no gradient.
        """
        names = self._names
        names = [*names, *[f"arg{i}" for i in range(len(names), len(args))]]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        settings = {k: v for k, v in self._defaults.items() if k not in given}
        settings.update({k: v for k, v in given.items() if not _holds_arrays(v)})
        return settings

    @property
    def rule(self) -> Rule | None:
        """What errors name: the rule for reverse mode, or for forward mode."""
        return self.vjp or self.backward or self.jvp or self.pushed or self.f


def _holds_arrays(value: Any) -> bool:
    """Whether an argument is an array, or a nest with one inside."""
    if value is None or type(value) in (int, bool, str):
        return False
    return is_array(value) or any(map(is_array, tree.flatten(value)[0]))


def custom_vjp(
    f: Function | None = None,
    vjp: Rule | None = None,
    *,
    jvp: Rule | None = None,
    nondiff_argnums: int | Sequence[int] = (),
) -> Any:
    """A function of arrays with a gradient of your own.

    Parameters
    ----------
    f
        A function of arrays, or nests of them; other arguments are settings. Any code
        may stand inside, also what a trace cannot follow. It must not read Tensors
        from outside, which would have no gradient.
    vjp
        ``rule(node, *cotangents)``, as everywhere: one gradient (or None) for each
        array in ``node.inputs``; of a complex gradient of a real array the real part
        counts. ``node.outputs`` are the results,
        ``node.get_attr("n")`` finds what was given for the parameter ``n`` and is no
        array. A Python float is an array here.
    jvp
        ``rule(node, *tangents)``, for forward mode; the tangent is None for an input
        that does not vary. By default ``vjp`` transposed, if it is linear.
    nondiff_argnums
        For ``defvjp`` and ``defjvp``: arguments whose values come first among those
        of the rules, and that have no gradient.

    Returns
    -------
    A function. Without a rule, give one by ``f.defvjp(forward, backward)`` and
    ``f.defjvp(rule)``, as JAX has them. Without ``f``, a decorator.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.custom_vjp(vjp=lambda node, g: g / (1 + np.exp(-node.inputs[0])))
    ... def softplus(x):
    ...     return np.logaddexp(x, 0)
    >>> wb.grad(softplus)(0.0)
    np.float64(0.5)
    >>> wb.grad(wb.grad(softplus))(0.0)
    np.float64(0.25)
    """
    settings = {"vjp": vjp, "jvp": jvp, "nondiff_argnums": nondiff_argnums}
    if f is None:
        return partial(CustomFunction, **settings)  # type: ignore[arg-type]
    return CustomFunction(f, **settings)  # type: ignore[arg-type]


def custom_jvp(
    f: Function | None = None,
    jvp: Rule | None = None,
    *,
    vjp: Rule | None = None,
    nondiff_argnums: int | Sequence[int] = (),
) -> Any:
    """A function of arrays with a rule of your own for forward mode.

    As :func:`workbench.custom_vjp`. Reverse mode is the rule transposed, where ``vjp``
    does not give it; a rule must then be linear in the tangents.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def rule(node, t):
    ...     return t * np.cos(node.inputs[0])
    >>> sine = wb.custom_jvp(lambda x: np.sin(x), jvp=rule)
    >>> wb.jvp(sine, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    >>> wb.grad(sine)(0.0)
    np.float64(1.0)
    """
    return custom_vjp(f, vjp, jvp=jvp, nondiff_argnums=nondiff_argnums)


def custom_gradient(f: Function | None = None, *, jvp: Rule | None = None) -> Any:
    """A function that returns its value and its gradient, as TensorFlow has it.

    ``f(*args)`` returns ``(y, grad)``; ``grad`` takes one cotangent for each array in
    ``y`` and returns one gradient for each argument. It may read what ``f`` has
    computed; where its own derivative is asked for, ``f`` runs again on Tensors.

    Parameters
    ----------
    f
        The function; see :func:`workbench.custom_vjp` for its arguments.
    jvp
        ``rule(node, *tangents)``, for forward mode; by default the gradient
        transposed.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.custom_gradient
    ... def log1pexp(x):
    ...     e = np.exp(x)
    ...     return np.log(1 + e), lambda g: g * (1 - 1 / (1 + e))
    >>> log1pexp(0.0), wb.grad(log1pexp)(100.0)
    (np.float64(0.6931471805599453), np.float64(1.0))
    """
    if f is None:
        return partial(custom_gradient, jvp=jvp)
    return CustomFunction(f, jvp=jvp, paired=True)
