"""`theano.OpFromGraph`: `workbench.OpFromGraph` with Theano's overrides.

There a rule takes lists: ``grad_overrides(inputs, output_grads)``,
``lop_overrides(inputs, outputs, output_grads)``, ``rop_overrides(inputs,
eval_points)``; another `OpFromGraph` takes the same, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.autodiff.call_rule import NOTHING, WITHOUT
from workbench.autodiff.derivatives import DisconnectedType
from workbench.compat.theano.config import config
from workbench.compat.theano.op import plain
from workbench.compat.theano.types import as_tensor_variable
from workbench.custom.from_graph import OpFromGraph as Ours
from workbench.custom.registry import placed
from workbench.errors import UsageError

__all__ = ["OpFromGraph"]


class OpFromGraph(Ours):
    """A graph as an op, whose gradient may be another.

    Parameters
    ----------
    inputs, outputs
        The variables that it takes and gives.
    inline
        Put its ops into the program of the caller.
    lop_overrides, grad_overrides, rop_overrides
        ``"default"``, an `OpFromGraph`, a function, or a list with one of these (or
        None) for each input; for each output in ``rop_overrides``.
    connection_pattern
        For each input, and each output: whether that depends on it.
    name
        What graphs call it.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> x, y = T.scalars("xy")
    >>> product = theano.OpFromGraph(
    ...     [x, y], [x * y],
    ...     grad_overrides=lambda inputs, grads: [7 * grads[0], 8 * grads[0]])
    >>> f = theano.function([x, y], T.grad(product(x, y), [x, y]))
    >>> [float(g) for g in f(1.0, 2.0)]
    [7.0, 8.0]
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        inline: bool = False,
        lop_overrides: Any = "default",
        grad_overrides: Any = "default",
        rop_overrides: Any = "default",
        connection_pattern: Any = None,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(outputs, (list, tuple)):
            raise UsageError(f"OpFromGraph: outputs is a list of variables: {outputs}.")
        for refused in ("updates", "givens"):
            if settings.pop(refused, None):
                raise UsageError(f"OpFromGraph does not take {refused}=.")
        both = lop_overrides != "default" and grad_overrides != "default"
        if both:
            raise UsageError("OpFromGraph: give lop_overrides or grad_overrides.")
        with_outputs = lop_overrides != "default"
        rule = lop_overrides if with_outputs else grad_overrides
        policy = settings.pop("on_unused_input", None) or config.on_unused_input
        super().__init__(
            list(inputs),
            [as_tensor_variable(y) for y in outputs],
            inline=inline,
            vjp=_rule(rule, with_outputs),
            jvp=_rule(rop_overrides, False),
            on_unused_input=policy,
            connection_pattern=connection_pattern,
            name=name,
        )

    def __call__(self, *args: Any, **_: Any) -> Any:
        """The outputs: one as itself, several in a list."""
        made = super().__call__(*map(as_tensor_variable, args))
        if isinstance(made, tuple):
            return [as_tensor_variable(y) for y in made]
        return as_tensor_variable(made)


def _rule(given: Any, with_outputs: bool) -> Any:
    """An override in the library's form; None for the true one."""
    if given is None or (isinstance(given, str) and given == "default"):
        return None
    if isinstance(given, (list, tuple)):
        return [_rule(one, with_outputs) for one in given]
    if isinstance(given, Ours) and not with_outputs:
        return given
    if not callable(given):
        raise UsageError(
            f"OpFromGraph: an override is 'default', an OpFromGraph, a function, or a"
            f" list of these, not {given!r}."
        )
    return _function(given, with_outputs)


def _function(given: Callable[..., Any], with_outputs: bool) -> Callable[..., Any]:
    def rule(node: Any, *arriving: Any) -> Any:
        inputs = [as_tensor_variable(x) for x in node.inputs]
        outputs = [as_tensor_variable(y) for y in node.outputs]
        grads = [None if g is None else as_tensor_variable(g) for g in arriving]
        if isinstance(given, Ours):
            made = given(*inputs, *outputs, *grads)
        elif with_outputs:
            made = given(inputs, outputs, grads)
        else:
            made = given(inputs, grads)
        if made is None:
            raise UsageError(f"OpFromGraph: {placed(given)} {NOTHING} {WITHOUT}")
        if isinstance(made, DisconnectedType):
            return [made]
        if isinstance(made, (list, tuple)):
            return plain(made, node.inputs)
        return plain([made], node.inputs)[0]

    return rule
