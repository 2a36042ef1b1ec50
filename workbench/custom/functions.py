"""Functions of arrays with gradients of their own.

`custom_vjp`, `custom_jvp` and `custom_gradient` differ in how a rule is written; all
make a `CustomFunction`, which is one node of a program, named after the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff.call import apply_to_batch, apply_valued
from workbench.core import blame, dims, tree, types, walk
from workbench.core.blame import format_count
from workbench.core.infer import infer_spec
from workbench.core.op import Op
from workbench.core.pickling import find_own_name
from workbench.core.recorder import is_array, take_argument
from workbench.core.tensor import Tensor, next_serial, value_of
from workbench.core.trace import is_live, record
from workbench.core.types import Spec
from workbench.custom.registry import OpRunner, RegisteredOp, enter_function, home_of
from workbench.errors import TraceError, UnknownLengthError, UsageError
from workbench.ops import define
from workbench.overrides.node import Node, has_derivative, make_read_only
from workbench.overrides.rule_errors import (
    NONE_CURE,
    RETURNED_NONE,
    check_cotangents,
    describe_rule,
)
from workbench.overrides.targets import name_of

# One call of a function with rules: its arrays, its op, and how its rules are read.

Function = Callable[..., Any]
UserRule = Callable[..., Any]

#: What a rule that takes what the function takes is to return.
EACH = (
    "Return a tuple with one gradient (or None) for each argument, nested as the"
    " argument is."
)


class CallOp(Op):
    """The op of one call, in the form that programs hold."""

    __slots__ = ("call",)

    def __init__(self, name: str, call: FunctionCall) -> None:
        super().__init__(name)
        self.call = call

    def __reduce__(self) -> Any:
        return find_call_op, (self.call,)


def find_call_op(call: FunctionCall) -> Op:
    """Return the op of a call, made if there is none yet."""
    if call.op is None:
        call.op = call.make_op()
    return call.op


class FunctionCall:
    """One call: which of its arguments are arrays, and its op."""

    def __init__(
        self,
        function: CustomFunction,
        flat: list[Any],
        structure: tree.Tree,
        settings: dict[str, Any],
    ) -> None:
        self.function = function
        self.structure = structure
        self.chosen = [i for i, x in enumerate(flat) if is_array(x)]
        picked = set(self.chosen)
        self.flat = [None if i in picked else x for i, x in enumerate(flat)]
        #: The arguments that hold no arrays, by the names of their parameters.
        self.params = settings
        #: How the outputs nest, which of them are arrays, and the others.
        self.tree: tree.Tree | None = None
        self.array_places: list[int] = []
        self.rest: list[Any] = []
        #: The outputs of the run that was recorded, and what its gradient keeps.
        self.kept: tuple[Any, Any] | None = None
        self.op: Op | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the values of the run that was recorded."""
        return {**self.__dict__, "kept": None, "op": None}

    @property
    def is_reusable(self) -> bool:
        """True if another call may use this: no argument is kept."""
        return self.kept is None and all(x is None for x in self.rest)

    # Its value

    def build_arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the arguments, with these arrays in their places."""
        filled = list(self.flat)
        for i, x in zip(self.chosen, leaves, strict=True):
            filled[i] = x
        args, kwargs = self.structure(filled)
        return args, kwargs

    def compute_value(
        self, leaves: Sequence[Any], keep: bool = False, lent: bool = True
    ) -> list[Any]:
        """Return the outputs that are arrays, flat.

        With ``keep`` the residuals of the gradient are stored in `kept`. Arrays of a
        program are ``lent``: the function cannot change them.
        """
        first = next_serial()
        if lent:
            leaves = list(map(make_read_only, leaves))
        made, kept = self._call(leaves, keep)
        self.check_captures(made, first)
        made = list(map(value_of, made))
        outputs = list(map(copy_view, made)) if lent else made
        if kept is not None:
            self.kept = outputs, kept
        return outputs

    def compute_outputs(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the outputs that are arrays, as the ops inside compute them."""
        return self._call(leaves)[0]

    def _call(self, leaves: Sequence[Any], keep: bool = False) -> tuple[list[Any], Any]:
        """Return those outputs, and the residuals of the gradient or None."""
        function, kept = self.function, None
        args, kwargs = self.build_arguments(leaves)
        if function.paired or (keep and function.forward is not None):
            made, kept = self.call_with_residuals(args, kwargs)
        else:
            made = function.f(*args, **kwargs)
        flat, self.tree = tree.flatten(made)
        self.array_places = [i for i, y in enumerate(flat) if is_array(y)]
        self.rest = [None if is_array(y) else y for y in flat]
        return [flat[i] for i in self.array_places], kept

    def call_with_residuals(
        self, args: tuple[Any, ...], kwargs: Any
    ) -> tuple[Any, Any]:
        """Return the value of the function, and the residuals of its gradient."""
        function = self.function
        run = function.f if function.paired else function.forward
        assert run is not None
        made = run(*args, **kwargs)
        if not isinstance(made, tuple) or len(made) != 2:
            what = "its gradient" if function.paired else "what backward needs"
            written = "lambda g: ..." if function.paired else "kept."
            cure = f"Return two things, the value and {what}: return y, {written}"
            self.refuse(run, f"returned {type(made).__name__}", cure)
        if function.paired and not callable(made[1]):
            told = f"returned {made[1]!r} as its gradient, which is not a function"
            self.refuse(run, told, "Return y, lambda g: ...")
        return made

    def rebuild_result(self, outputs: Sequence[Any]) -> Any:
        """Return the outputs nested as the function returned them."""
        filled = list(self.rest)
        for i, y in zip(self.array_places, outputs, strict=True):
            filled[i] = y
        assert self.tree is not None
        return self.tree(filled)

    def check_captures(self, flat: Sequence[Any], first: int) -> None:
        """Raise an error if outputs depend on Tensors that are not arguments."""
        found = [y for y in flat if is_live(y)]
        if not found:
            return
        outer = next(
            (
                x
                for node in walk.order_nodes(found, first)
                for x in node.inputs
                if isinstance(x, Tensor) and x.serial < first and is_live(x)
            ),
            found[0],
        )
        raise TraceError(
            f"{self.function.__op__}: {describe_rule(self.function.f)} reads"
            f" {blame.describe(outer)}{blame.quote_site(outer.site)} from outside, and"
            " its rule gives gradients for its arguments alone: that of this one would"
            " be lost. Make it an argument, or read x.value to cut its gradient on"
            " purpose."
        )

    # Its node

    def record_call(self, leaves: list[Any]) -> Any:
        """Return the result as one node of the program."""
        op = find_call_op(self)
        made = apply_valued(op, tuple(leaves), self.params, self._find_value)
        found = define.split_outputs(made)
        return self.rebuild_result(found if isinstance(found, tuple) else [found])

    def _find_value(self, args: tuple[Any, ...]) -> Any:
        outputs = self.compute_value(args, keep=True)
        value = outputs[0] if len(outputs) == 1 else tuple(outputs)
        self.kept = None if self.kept is None else (value, self.kept[1])
        return value

    def make_op(self) -> Op:
        """Return the op of this call: the function of its arrays alone."""
        function = self.function
        made = CallOp(function.__op__, self)
        made.custom, made.maker = True, function
        made.cure = (
            f"The error comes from {function.__op__}, called with these arguments."
        )

        def compute(*arrays: Any, **params: Any) -> Any:
            outputs = self.compute_value(arrays)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        compute.__name__ = function.__op__
        made.compute = compute
        made.unfold = lambda values, params: self.compute_outputs(values)
        made.infer = self.infer
        made.batch = lambda inputs, batched, params: apply_to_batch(
            made, inputs, batched, params, self.compute_outputs
        )
        vjp = function.vjp
        if vjp is None and (function.paired or function.backward is not None):
            vjp = self.pull_rule
        jvp = function.jvp
        if jvp is None and function.jvp_rule is not None:
            jvp = self.push_rule
        OpRunner(
            made, vjp, jvp, linear=function.linear,
            kind=tuple([(type(x), x) for x in self.flat if x is not None]),
            source=None if function.vjp or function.jvp else function.rule,
        )  # fmt: skip
        made.rule = f"the rule of {function.__op__}"
        if function.pattern is not None:
            made.pattern = self.read_pattern
        return made

    def read_pattern(self, node: Any) -> Any:
        """Return the user's pattern of the function, as relations."""
        from workbench.custom.dependence import read_declaration

        declare = self.function.pattern
        assert declare is not None

        def call(*specs: Spec) -> Any:
            args, kwargs = self.build_arguments(specs)
            return declare(*args, **kwargs)

        return read_declaration(self.function.__op__, call, node)

    def infer(self, *specs: Any, **params: Any) -> Any:
        """Return the specs of the outputs: by a run on examples, or by recording."""
        probe = Op(self.function.__op__)
        probe.compute = lambda *arrays: tuple(self.compute_value(arrays))
        try:
            found = infer_spec(probe, specs, {})
        except UsageError:
            raise
        except Exception:
            given = [s if isinstance(s, Spec) else types.spec_of(s) for s in specs]
            if dims.has_dim([s.shape for s in given]):
                raise UnknownLengthError(
                    "its function needs numbers for the lengths"
                ) from None
            made = record(self.compute_outputs, given)
            found = tuple(map(types.spec_of, made.outputs))
        return found[0] if len(found) == 1 else found

    # Its rules, in the form that all rules have

    def pull_rule(self, node: Node, *cotangents: Any) -> list[Any]:
        """Call the gradient that came with the value, or JAX's backward function."""
        function = self.function
        args, kwargs = self.build_arguments(node.inputs)
        if self.kept is not None and node._y is self.kept[0]:
            kept = self.kept[1]
        else:
            kept = self.call_with_residuals(args, kwargs)[1]
        if function.paired:
            check_cotangents(kept, len(cotangents), function.__op__)
            made = kept(*cotangents)
            if made is None:
                self.refuse(kept, RETURNED_NONE, NONE_CURE)
            each = list(made) if isinstance(made, (tuple, list)) else [made]
            nested = any(isinstance(c, (tuple, list, dict)) for c in each)
            if len(each) == len(node.inputs) and not nested:
                return each  # one for each array, as TensorFlow has it
            return self.flatten_gradients(made, args, kept)
        backward = function.backward
        assert backward is not None
        fixed = [args[i] for i in function.nondiff]
        made = backward(*fixed, kept, self.rebuild_result(cotangents))
        if made is None:
            self.refuse(backward, RETURNED_NONE, NONE_CURE)
        return self.flatten_gradients(made, args, backward, function.nondiff)

    def push_rule(self, node: Node, *tangents: Any) -> Any:
        """Call JAX's rule of primals and tangents."""
        function = self.function
        rule = function.jvp_rule
        assert rule is not None
        filled = [
            np.zeros_like(x) if t is None and has_derivative(x) else t
            for x, t in zip(node.inputs, tangents, strict=True)
        ]
        args, _ = self.build_arguments(node.inputs)
        moving, _ = self.build_arguments(filled)
        fixed = [args[i] for i in function.nondiff]
        varying = [i for i in range(len(args)) if i not in function.nondiff]
        made = rule(
            *fixed, tuple(args[i] for i in varying), tuple(moving[i] for i in varying)
        )
        if not isinstance(made, tuple) or len(made) != 2:
            cure = "Return two things, the value and its tangent: return y, t."
            self.refuse(rule, f"returned {type(made).__name__}", cure)
        flat = flatten_gradient(made[1])
        if made[1] is None and any(map(has_derivative, node.outputs)):
            cure = "For an output that does not move return np.zeros_like(y)."
            self.refuse(rule, "returned None for the tangent", cure)
        if len(flat) != len(self.rest):
            told = (
                f"returned {format_count(len(flat), 'tangent')}; {function.__op__} has"
            )
            told += f" {format_count(len(self.rest), 'output')}"
            self.refuse(rule, told, "Nest the tangent as the value.")
        parts = [flat[i] for i in self.array_places]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def flatten_gradients(
        self,
        made: Any,
        args: tuple[Any, ...],
        rule: UserRule,
        fixed: tuple[int, ...] = (),
    ) -> list[Any]:
        """Return one gradient for each array, from gradients nested as arguments."""
        name = self.function.__op__
        varying = [i for i in range(len(args)) if i not in fixed]
        given = list(made) if isinstance(made, (tuple, list)) else [made]
        signature = self.function.signature
        declared = len(args) if signature is None else len(signature.parameters)
        if not len(varying) <= len(given) <= max(declared - len(fixed), len(varying)):
            told = f"returned {format_count(len(given), 'gradient')}; {name} was given"
            self.refuse(rule, f"{told} {format_count(len(varying), 'argument')}", EACH)
        by_argument: dict[int, Any] = dict(zip(varying, given, strict=False))
        flat: list[Any] = []
        for i, arg in enumerate(args):
            count = len(tree.flatten(arg)[0]) if arg is not None else 0
            c = by_argument.get(i)
            if c is None:
                flat += [None] * count
                continue
            parts = [c] if count == 1 and is_array(c) else flatten_gradient(c)
            if len(parts) != count:
                told = f"returned {format_count(len(parts), 'array')} for argument {i}"
                self.refuse(rule, f"{told}, which holds {count}", EACH)
            flat += parts
        flat += [None] * (len(self.flat) - len(flat))  # keyword-only arguments
        return [flat[i] for i in self.chosen]

    def refuse(self, rule: UserRule, what: str, cure: str) -> NoReturn:
        """Raise the error for a rule's wrong result."""
        stop = "" if what.endswith("?") else "."
        told = f"{self.function.__op__}: {describe_rule(rule)} {what}{stop} {cure}"
        raise UsageError(told)


def copy_view(y: Any) -> Any:
    """Return an output as an array that is not a read-only view of an input."""
    if types.is_weak(y):
        return np.asarray(y)[()]  # host array: a number
    return y.copy() if type(y) is np.ndarray and not y.flags.writeable else y


def flatten_gradient(value: Any) -> list[Any]:
    """Return the leaves of a nest of gradients, None among them."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [leaf for part in value for leaf in flatten_gradient(part)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten_gradient(value[key])]
    if value is None:
        return [None]
    return tree.flatten(value)[0]


# The function with rules, and what users call

#: How many kinds of calls of one function are kept.
MOST_CALLS = 64


class CustomFunction:
    """A function of arrays with a gradient given by its own rules.

    Made by :func:`workbench.custom_vjp`, :func:`workbench.custom_jvp` and
    :func:`workbench.custom_gradient`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.custom_vjp
    ... def take_first(x, n):
    ...     return x[:n]
    >>> take_first.defvjp(
    ...     lambda x, n: (take_first(x, n), (x, n)),
    ...     lambda kept, g: (np.ones_like(kept[0]) * np.sum(g), None),
    ... )
    >>> wb.grad(lambda x: np.sum(take_first(x, 2)))(np.zeros(3))
    array([2., 2., 2.])
    """

    def __init__(
        self,
        f: Function,
        vjp: UserRule | None = None,
        jvp: UserRule | None = None,
        *,
        paired: bool = False,
        nondiff_argnums: int | Sequence[int] = (),
        pattern: Function | None = None,
    ) -> None:
        if not callable(f):
            raise UsageError(f"{f!r} is not a function of arrays.")
        for rule in (vjp, jvp):
            if rule is not None and not callable(rule):
                raise UsageError(
                    f"{name_of(f)}: the rule {rule!r} is not a function. Write"
                    " rule(node, *cotangents), or make one of data with wb.graph_rule."
                )
        if pattern is not None and not callable(pattern):
            raise UsageError(
                f"{name_of(f)}: pattern={blame.shorten(repr(pattern))} is not a"
                " function. Write one that takes what the function takes, with"
                " wb.Spec(shape, dtype) for each array, and returns a matrix of 0 and 1"
                " for each."
            )
        update_wrapper(self, f)
        self.f = f
        self.vjp = vjp
        self.jvp = jvp
        #: Whether it returns its gradient beside its value.
        self.paired = paired
        #: What says which entries its derivatives read.
        self.pattern = pattern
        #: JAX's pair for reverse mode, its rule of forward mode, and the places of the
        #: arguments that these get apart.
        given = nondiff_argnums
        self.nondiff = (given,) if isinstance(given, int) else tuple(given)
        self.forward: Function | None = None
        self.backward: Function | None = None
        self.jvp_rule: Function | None = None
        #: Which rules are known to be linear, of all calls.
        self.linear: set[Any] = set()
        self._calls: dict[Any, FunctionCall] = {}
        name = getattr(f, "__name__", type(f).__name__)
        self.__op__ = enter_function(
            RegisteredOp(name, home_of(f), f"{name}'s own rule")
        )
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
        """Give the gradient as two functions, in JAX's form.

        ``forward(*args) -> (y, kept)`` computes the value, and what the gradient
        needs; ``backward(kept, g)`` gives a tuple, one gradient for each argument.
        """
        self.forward, self.backward = forward, backward
        self.linear.clear()
        self._calls.clear()

    def defjvp(self, rule: Function) -> Function:
        """Give forward mode as ``rule(primals, tangents) -> (y, t)``, in JAX's form."""
        self.jvp_rule = rule
        self.linear.clear()
        self._calls.clear()
        return rule

    def __reduce__(self) -> Any:
        """Pickle as functions do: by name, where that leads here; else by its rules."""
        name = find_own_name(self)
        if name is not None:
            return name
        return object.__new__, (CustomFunction,), {**self.__dict__, "_calls": {}}

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """Return a method of the object it is looked up in."""
        return self if owner is None else MethodType(self, owner)

    def __repr__(self) -> str:
        return f"<{self.__op__}, with a gradient of its own>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the value; in a trace one node of the program."""
        if not (self.paired or self.vjp or self.jvp or self.backward or self.jvp_rule):
            raise UsageError(
                f"{self.__op__} has no rule yet. Give one:"
                " wb.custom_vjp(f, vjp=rule) with rule(node, *cotangents), or"
                " f.defvjp(forward, backward)."
            )
        if kwargs and self.signature is not None:
            bound = self.signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        flat, structure = tree.flatten((args, kwargs))
        flat = [*map(take_argument, flat)]
        key = self._key(flat, structure)
        call = None if key is None else self._calls.get(key)
        fresh = call is None
        if call is None:
            call = FunctionCall(self, flat, structure, self._settings(args, kwargs))
        leaves = [flat[i] for i in call.chosen]
        if not any(isinstance(x, Tensor) for x in leaves):
            return call.rebuild_result(call.compute_value(leaves, lent=False))
        made = call.record_call(leaves)
        if fresh and key is not None and call.is_reusable:
            if len(self._calls) >= MOST_CALLS:
                self._calls.clear()
            self._calls[key] = call
        return made

    def _key(self, flat: list[Any], structure: tree.Tree) -> Any:
        """Return the key of calls that may share an op; None for a call of its own.

        Their arguments nest alike, and those that are no arrays are the same.
        """
        if self.paired or self.forward is not None:
            return None  # each keeps something for its gradient
        rest = [(i, x) for i, x in enumerate(flat) if not is_array(x)]
        if not all(type(x) in (int, bool, str) for _, x in rest):
            return None
        return structure, tuple([(i, type(x), x) for i, x in rest])

    def _settings(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments that hold no arrays, by the names of their parameters.

        A default that stays is one too, whatever it is: it has no gradient.
        """
        names = self._names
        names = [*names, *[f"arg{i}" for i in range(len(names), len(args))]]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        settings = {k: v for k, v in self._defaults.items() if k not in given}
        settings.update({k: v for k, v in given.items() if not _holds_arrays(v)})
        return settings

    @property
    def rule(self) -> UserRule | None:
        """The function that errors name: its rule of one mode, or itself."""
        return self.vjp or self.backward or self.jvp or self.jvp_rule or self.f


def _holds_arrays(value: Any) -> bool:
    """Return whether an argument is an array, or a nest with one inside."""
    if value is None or type(value) in (int, bool, str):
        return False
    return is_array(value) or any(map(is_array, tree.flatten(value)[0]))


def custom_vjp(
    f: Function | None = None,
    vjp: UserRule | None = None,
    *,
    jvp: UserRule | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    pattern: Function | None = None,
) -> Any:
    """Return a function of arrays with a gradient of your own.

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
    pattern
        Which entries the derivatives read, for sparse ones; by default all. A function
        that takes what ``f`` takes, with a ``wb.Spec(shape, dtype)`` in the place of
        each array, and returns what :meth:`workbench.Op.pattern` does: a list with a
        matrix of 0 and 1 for each array, None where it is not read; for one array the
        matrix alone; for several outputs a tuple of such lists.

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

    >>> shift = wb.custom_vjp(
    ...     lambda x, n: np.roll(x, n),
    ...     lambda node, g: np.roll(g, -node.get_attr("n")),
    ...     pattern=lambda x, n: np.roll(np.eye(x.shape[0]), n, axis=0),
    ... )
    >>> wb.sparsity(lambda x: shift(x, 1), np.ones(4))
    <SparsityPattern 4×4, 4 nonzeros, density 0.25>
    """
    settings = {
        "vjp": vjp, "jvp": jvp, "nondiff_argnums": nondiff_argnums, "pattern": pattern
    }  # fmt: skip
    if f is None:
        return partial(CustomFunction, **settings)  # type: ignore[arg-type]
    return CustomFunction(f, **settings)  # type: ignore[arg-type]


def custom_jvp(
    f: Function | None = None,
    jvp: UserRule | None = None,
    *,
    vjp: UserRule | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    pattern: Function | None = None,
) -> Any:
    """Return a function of arrays with a rule of your own for forward mode.

    Reverse mode is the rule transposed, where ``vjp`` does not give it; the rule must
    then be linear in the tangents.

    Parameters
    ----------
    f
        A function of arrays; without it a decorator is returned.
    jvp
        ``rule(node, *tangents)``: one tangent for each output.
    vjp
        ``rule(node, *cotangents)``: one gradient (or None) for each input.
    nondiff_argnums, pattern
        The positions of arguments that are settings, and which entries are read, as in
        :func:`workbench.custom_vjp`.

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
    return custom_vjp(f, vjp, jvp=jvp, nondiff_argnums=nondiff_argnums, pattern=pattern)


def custom_gradient(
    f: Function | None = None,
    *,
    jvp: UserRule | None = None,
    pattern: Function | None = None,
) -> Any:
    """Return a function from one that returns value and gradient, as in TensorFlow.

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
    pattern
        Which entries the gradient reads, as in :func:`workbench.custom_vjp`.

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
        return partial(custom_gradient, jvp=jvp, pattern=pattern)
    return CustomFunction(f, jvp=jvp, paired=True, pattern=pattern)
