"""`theano.Op`, `Apply` and `OpFromGraph`.

Each class becomes an op of the library's own kind (`workbench.Op`) when it is first
applied: ``perform`` is its value, ``L_op`` or ``grad`` its reverse mode, ``R_op`` its
forward mode, ``infer_shape`` and the types of ``make_node`` what is known before it
runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from workbench.compat.theano.config import config
from workbench.compat.theano.types import TensorType, as_tensor_variable, type_of
from workbench.core.dims import Dim
from workbench.core.op import CUSTOM
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.trace import is_live
from workbench.core.types import Array, Spec
from workbench.custom.from_graph import OpFromGraph as Ours
from workbench.custom.op import Op as OurOp
from workbench.custom.op import entry_of
from workbench.errors import RegistrationError, ShapeError, UsageError
from workbench.ops import define
from workbench.ops.define import ITEM
from workbench.ops.gradients import DisconnectedType
from workbench.overrides.node import has_derivative
from workbench.overrides.rule_errors import NONE_CURE, RETURNED_NONE, describe_rule
from workbench.overrides.targets import snake

__all__ = ["Op", "PureOp", "ViewOp", "as_op"]

# `Apply`: an op on some inputs, as old programs make it and look at it.
#
# ``gof.Apply(op, inputs, outputs)`` records the op: its outputs are variables of the
# types given, whose values the op's ``perform`` computes. Seen from a variable,
# ``x.owner`` is the same thing again.


class NotScalarConstantError(UsageError):
    """A constant number was requested of a variable with an unknown value."""


class Apply:
    """An op on its inputs, with its outputs.

    Parameters
    ----------
    op
        An instance of a subclass of `theano.Op`.
    inputs
        Variables, or what can be made one.
    outputs
        One new variable per output: ``[x.type()]``. They say the types; the outputs
        themselves are made here.
    """

    def __init__(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.op = op
        self.inputs = [as_tensor_variable(x) for x in inputs]
        record: Callable[[Apply, Sequence[Any]], list[Any]] | None
        record = getattr(op, "record", None)
        if record is None:
            raise UsageError(
                f"Apply: {op!r} is not an Op. Derive its class from Op, with make_node"
                " and perform."
            )
        self.types = [type_of(y) for y in outputs]
        self.outputs = record(self, outputs)

    @property
    def nin(self) -> int:
        """The number of inputs."""
        return len(self.inputs)

    @property
    def nout(self) -> int:
        """The number of outputs."""
        return len(self.outputs)

    @property
    def out(self) -> Array:
        """The only output."""
        if len(self.outputs) != 1:
            raise UsageError(f"{self!r} has {len(self.outputs)} outputs.")
        return self.outputs[0]

    def default_output(self) -> Array:
        """Return the only output."""
        return self.out

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Apply):
            return NotImplemented
        return _node(self).serial == _node(other).serial

    def __hash__(self) -> int:
        return hash(_node(self).serial)

    def __repr__(self) -> str:
        inputs = ", ".join(x.name or x.op.name for x in self.inputs)
        return f"{self.op}({inputs})"


def _node(apply_node: Apply) -> Tensor:
    """Return the node of the program behind the outputs."""
    y: Tensor = apply_node.outputs[0]
    whole: Tensor = y.inputs[0] if y.op is ITEM else y
    return whole


def owner(x: Tensor) -> Apply | None:
    """Return the `Apply` behind a variable; None for a symbol or a constant."""
    node = x.inputs[0] if x.op is ITEM else x
    if node.op is IDENTITY and not node.inputs:
        return None
    made = Apply.__new__(Apply)
    made.op = theirs(node.op)
    made.inputs = [as_tensor_variable(i) for i in node.inputs]
    made.outputs = [x]
    if node is not x:
        made.outputs = [x if x.params["index"] == i else y for i, y in
                        enumerate(define.split_outputs(node))]  # fmt: skip
        assert len(made.outputs) == define.count_outputs(node)
    made.types = [type_of(y) for y in made.outputs]
    return made


def theirs(op: Any) -> Any:
    """Return the old program's op behind one of the library's; else that itself."""
    return getattr(getattr(op, "owner", None), "op", op)


def position(x: Tensor) -> int | None:
    """Return which output of its owner a variable is."""
    if x.op is IDENTITY and not x.inputs:
        return None
    return int(x.params["index"]) if x.op is ITEM else 0


def scalar_value(x: Tensor) -> Any:
    """Return the number that a constant holds."""
    if x._value is None or np.ndim(x._value) != 0:
        raise NotScalarConstantError(
            f"{x!r} is not a constant number: its value is known only at run time."
        )
    return np.asarray(x._value)


# `theano.Op`


class Op:
    """An op of an old program: subclasses bring ``make_node`` and ``perform``.

    ``__props__`` names the attributes that tell one instance from another: instances
    with the same are equal. ``itypes`` and ``otypes`` stand in for ``make_node``.
    ``c_code`` is not read; `workbench.KernelOp` runs native source.
    """

    view_map: ClassVar[dict[int, list[int]]] = {}
    destroy_map: ClassVar[dict[int, list[int]]] = {}
    default_output: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    # What a user writes

    def make_node(self, *inputs: Any) -> Apply:
        """Return the op on some inputs: ``Apply(self, inputs, [x.type()])``."""
        itypes, otypes = getattr(self, "itypes", None), getattr(self, "otypes", None)
        if itypes is None or otypes is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no make_node: write one that returns"
                " Apply(self, inputs, outputs), or give itypes and otypes."
            )
        if len(inputs) != len(itypes):
            raise UsageError(
                f"{type(self).__name__} takes {len(itypes)} inputs, not {len(inputs)}."
            )
        given = [as_tensor_variable(x) for x in inputs]
        for i, (x, kind) in enumerate(zip(given, itypes, strict=True)):
            if x.ndim != kind.ndim or not np.can_cast(x.dtype, kind.dtype, "same_kind"):
                raise UsageError(
                    f"{type(self).__name__}: input {i} is {x!r}, and its type is"
                    f" {kind!r}."
                )
        given = [
            x if x.dtype == kind.dtype else x.astype(kind.dtype)
            for x, kind in zip(given, itypes, strict=True)
        ]
        return Apply(self, given, [kind() for kind in otypes])

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Compute: ``output_storage[i][0] = array``."""
        native = hasattr(self, "c_code") or hasattr(self, "c_code_cache_version")
        more = (
            " Its c_code is not read: workbench.KernelOp runs native source."
            if native or hasattr(self, "make_thunk")
            else ""
        )
        raise NotImplementedError(
            f"{type(self).__name__} has no perform(self, node, inputs, output_storage)."
            + more
        )

    # How it is applied

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Its output on these inputs; a list of several."""
        wants_list = kwargs.pop("return_list", False)
        name = kwargs.pop("name", None)
        node = self.make_node(*inputs, **kwargs)
        if name is not None and len(node.outputs) == 1:
            node.outputs[0].name = name
        if self.default_output is not None:
            chosen = node.outputs[self.default_output]
            return [chosen] if wants_list else chosen
        if len(node.outputs) == 1 and not wants_list:
            return node.outputs[0]
        return list(node.outputs)

    def record(self, node: Apply, outputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of an `Apply`: one node of the program."""
        specs = tuple(y.spec if y._value is None else Spec(y.shape, y.dtype)
                      for y in outputs)  # fmt: skip
        site = (tuple(map(_like, node.inputs)), tuple(map(_like, outputs)))
        adapted = adapter(type(self))(self, site, node, specs)
        made = adapted(*node.inputs)
        found = list(made) if isinstance(made, tuple) else [made]
        return [as_tensor_variable(y) for y in found]

    # Equality by __props__

    def _props(self) -> tuple[Any, ...] | None:
        names = getattr(self, "__props__", None)
        if names is None:
            return None
        if isinstance(names, str):
            names = (names,)
        return tuple(getattr(self, name) for name in names)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        mine = self._props()
        return mine is not None and bool(mine == other._props())

    def __hash__(self) -> int:
        props = self._props()
        return object.__hash__(self) if props is None else hash((type(self), props))

    def __str__(self) -> str:
        names, props = getattr(self, "__props__", None), self._props()
        if not names or props is None:
            return type(self).__name__
        given = ", ".join(f"{k}={v!r}" for k, v in zip(names, props, strict=True))
        return f"{type(self).__name__}{{{given}}}"

    __repr__ = __str__


PureOp = Op


class ViewOp(Op):
    """An op that returns its operand, for a subclass with a ``grad`` of its own."""

    view_map: ClassVar[dict[int, list[int]]] = {0: [0]}
    __props__: ClassVar[tuple[str, ...]] = ()

    def make_node(self, x: Any) -> Apply:
        """Return one output, of the type of the input."""
        x = as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Hand on."""
        output_storage[0][0] = inputs[0]

    def infer_shape(self, node: Tensor, shapes: Sequence[Any]) -> Sequence[Any]:
        """Return the shape of the input."""
        return shapes

    def grad(self, inputs: Sequence[Any], output_grads: Sequence[Any]) -> Sequence[Any]:
        """Return the output gradients unchanged."""
        return output_grads


def _like(x: Any) -> tuple[str, tuple[Any, ...]]:
    """Return a hashable key of a variable's type: equal keys may share an op."""
    lengths = tuple(n if isinstance(n, int) else None for n in x.shape)
    return str(x.dtype), lengths


#: The op of the library's kind for each class of an old program.
ADAPTERS: dict[type[Op], type[OurOp]] = {}


def adapter(kind: type[Op]) -> type[OurOp]:
    """Return the op of the library's kind behind a class; made when first asked for."""
    found = ADAPTERS.get(kind)
    if found is not None:
        return found
    body: dict[str, Any] = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__annotations__": {
            "op": Any, "site": Any, "node": Any, "specs": Any,
        },
        "node": dataclasses.field(compare=False),
        "specs": dataclasses.field(compare=False),
        "compute": _compute,
        "infer": _infer,
    }  # fmt: skip
    if hasattr(kind, "L_op") or hasattr(kind, "grad"):
        body["vjp"] = _vjp
    if hasattr(kind, "R_op"):
        body["jvp"] = _jvp
    if hasattr(kind, "connection_pattern"):
        body["connection"] = _connection
    plain = snake(kind.__name__)
    for name in (plain, f"{plain}_op", f"{plain}_{id(kind):x}"):
        try:
            found = type(kind.__name__, (OurOp,), {**body, "name": name})
            break
        except RegistrationError:  # an op of NumPy's, or of another program
            continue
    assert found is not None
    # Theano's ops have no names that are theirs alone: another may take it.
    CUSTOM[found.name] = dataclasses.replace(entry_of(found), function=True)
    ADAPTERS[kind] = found
    return found


def _compute(self: Any, *arrays: Any) -> Any:
    storage: list[list[Any]] = [[None] for _ in self.specs]
    self.op.perform(self.node, list(arrays), storage)
    made = [
        _checked(self.op, i, cell[0], spec)
        for i, (cell, spec) in enumerate(zip(storage, self.specs, strict=True))
    ]
    return tuple(made) if len(made) > 1 else made[0]


def _checked(op: Op, i: int, value: Any, spec: Spec) -> Array:
    """Return an output of ``perform``, in the dtype and rank of its type."""
    if value is None:
        raise UsageError(
            f"{op}.perform left output {i} empty: write output_storage[{i}][0] = array."
        )
    array = value if hasattr(value, "dtype") else np.asarray(value)
    if len(array.shape) != len(spec.shape):
        raise ShapeError(
            f"{op}.perform gave output {i} the shape {array.shape}; its type, from"
            f" make_node, has {len(spec.shape)} axes."
        )
    return array if array.dtype == spec.dtype else array.astype(spec.dtype)


def _infer(self: Any, *given: Spec) -> Any:
    """Return the specs of the outputs, by their types and ``infer_shape``.

    A length that neither tells is None: it is measured when the op has run.
    """
    shapes: list[Any] = [spec.shape for spec in self.specs]
    if hasattr(self.op, "infer_shape"):
        shapes = list(self.op.infer_shape(self.node, [s.shape for s in given]))
    found = tuple(
        Spec(tuple(map(_read_length, lengths, spec.shape)), spec.dtype)
        for lengths, spec in zip(shapes, self.specs, strict=True)
    )
    return found if len(found) > 1 else found[0]


def _read_length(length: Any, typed: Any) -> Any:
    """Return a length of an output; unknown where ``make_node`` names a variable's."""
    if isinstance(typed, int):
        return typed
    if isinstance(length, Dim):
        return None if length is typed else length
    return int(length) if isinstance(length, (int, np.integer)) else None


def _vjp(self: Any, node: Tensor, *cotangents: Any) -> list[Any]:
    inputs, outputs = _variables(node.inputs), _variables(node.outputs)
    grads = _variables(cotangents)
    op = self.op
    late = hasattr(op, "L_op")
    rule = op.L_op if late else op.grad
    made = rule(inputs, outputs, grads) if late else rule(inputs, grads)
    if made is None:
        name = type(op).__name__
        raise UsageError(f"{name}: {describe_rule(rule)} {RETURNED_NONE} {NONE_CURE}")
    if not isinstance(made, (list, tuple)):
        made = [made]
    return lower_gradients(made, node.inputs)


def _jvp(self: Any, node: Tensor, *tangents: Any) -> Any:
    points = [None if t is None else as_tensor_variable(t) for t in tangents]
    made = self.op.R_op(_variables(node.inputs), points)
    if not isinstance(made, (list, tuple)):
        made = [made]
    moved = lower_gradients(made, node.inputs)
    for i, (t, y) in enumerate(zip(moved, node.outputs, strict=True)):
        if t is None and has_derivative(y):
            # As Theano has it: no derivative is 0 in silence.
            raise UsageError(
                f"{type(self.op).__name__}: {describe_rule(self.op.R_op)} returned None"
                f" for output {i}: it has no derivative, or its `return` lacks. Where"
                " it does not move return zeros in its shape, 0 * inputs[0] for one of"
                " the shape of input 0."
            )
    return tuple(moved) if len(moved) != 1 else moved[0]


def _connection(self: Any) -> Any:
    return self.op.connection_pattern(self.node)


def _variables(xs: Any) -> list[Any]:
    return [None if x is None else as_tensor_variable(x) for x in xs]


def lower_gradients(gradients: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return gradients of an old rule as the sweep takes them: arrays when eager."""
    if any(map(is_live, inputs)):
        return list(gradients)
    return [
        c._value if isinstance(c, Tensor) and not is_live(c) else c for c in gradients
    ]  # fmt: skip


def as_op(
    itypes: Sequence[TensorType],
    otypes: Sequence[TensorType],
    infer_shape: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Return a decorator that turns a function of arrays into an op without gradient.

    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> @theano.compile.ops.as_op(itypes=[T.dvector], otypes=[T.dscalar])
    ... def longest_run(x):
    ...     return np.asarray(float(max(map(len, "".join(
    ...         "x" if v > 0 else " " for v in x).split()))))
    >>> x = T.dvector("x")
    >>> float(longest_run(x).eval({x: [1.0, 1.0, -1.0, 1.0]}))
    2.0
    """
    takes = list(itypes) if isinstance(itypes, (list, tuple)) else [itypes]
    gives = list(otypes) if isinstance(otypes, (list, tuple)) else [otypes]

    def decorate(function: Callable[..., Any]) -> Op:
        def perform(
            self: Any,
            node: Tensor,
            inputs: Sequence[Any],
            output_storage: list[list[Any]],
        ) -> None:
            made = function(*inputs)
            if not isinstance(made, (list, tuple)):
                made = (made,)
            for cell, value in zip(output_storage, made, strict=True):
                cell[0] = value

        body: dict[str, Any] = {
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "itypes": takes,
            "otypes": gives,
            "perform": perform,
        }
        if infer_shape is not None:
            body["infer_shape"] = lambda self, node, shapes: infer_shape(node, shapes)
        made: Op = type(function.__name__, (Op,), body)()
        return made

    return decorate


# `theano.OpFromGraph`: `workbench.OpFromGraph` with Theano's overrides.
#
# There a rule takes lists: ``grad_overrides(inputs, output_grads)``,
# ``lop_overrides(inputs, outputs, output_grads)``, ``rop_overrides(inputs,
# eval_points)``; another `OpFromGraph` takes the same, one after the other.


class OpFromGraph(Ours):
    """A graph as an op, with a gradient that may be replaced.

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
        """Return the outputs: one as itself, several in a list."""
        made = super().__call__(*map(as_tensor_variable, args))
        if isinstance(made, tuple):
            return [as_tensor_variable(y) for y in made]
        return as_tensor_variable(made)


def _rule(given: Any, with_outputs: bool) -> Any:
    """Return an override in the library's form; None for the true one."""
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
    def rule(node: Tensor, *arriving: Any) -> list[Any]:
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
            raise UsageError(
                f"OpFromGraph: {describe_rule(given)} {RETURNED_NONE} {NONE_CURE}"
            )
        if isinstance(made, DisconnectedType):
            return [made]
        if isinstance(made, (list, tuple)):
            return lower_gradients(made, node.inputs)
        return lower_gradients([made], node.inputs)[0]

    return rule
