"""`autograd.extend`: functions with derivatives of one's own, and vector spaces.

A primitive is a function that is not looked into: each call of it in a program is one
node, made by `workbench.custom_vjp`, whose rules are those that `defvjp` and `defjvp`
have given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce, wraps
from itertools import count
from typing import Any, NoReturn

import numpy as np

from workbench.compat.autograd.boxes import (
    Box,
    Handle,
    find_live,
    getval,
    new_box,
)
from workbench.compat.autograd.vector_spaces import VSpace, vspace
from workbench.core import tree
from workbench.core.op import FUNCTIONS, UFUNCS
from workbench.core.recorder import is_array
from workbench.custom.functions import custom_vjp
from workbench.numpy.namespaces import find_true
from workbench.overrides.node import has_derivative
from workbench.overrides.override import override
from workbench.overrides.override_blocks import OverrideBlock

__all__ = [
    "Box",
    "JVPNode",
    "SparseObject",
    "VJPNode",
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
    "register_notrace",
    "vspace",
]

Function = Callable[..., Any]

#: The rules of primitives: of positions, value and arguments they make the maps.
primitive_vjps: dict[Function, Function] = {}
primitive_jvps: dict[Function, Function] = {}
#: Of NumPy's functions that have been given rules: what puts these in place.
REPLACED: dict[Function, OverrideBlock] = {}
#: Primitives that are called with values, and leave no trace.
NOT_TRACED: set[Function] = set()


class Node:
    """A node of a trace, as `autograd.tracer.trace` makes them; to be subclassed."""

    __slots__: Sequence[str] = ()

    def __init__(
        self,
        value: Any,
        fun: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Node, ...],
    ) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no __init__")

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        """Set what a node without parents has."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_root")

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a node without parents."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


class VJPNode(Node):
    """A node of reverse mode: its parents, and the map from a cotangent to theirs."""

    __slots__ = ("parents", "vjp")

    def __init__(
        self,
        value: Any,
        fun: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Node, ...],
    ) -> None:
        self.parents: Sequence[Node] = parents
        self.vjp: Function = lambda g: fun.vjp(g, parent_argnums)  # type: ignore[attr-defined]

    def initialize_root(self) -> None:
        """Set that nothing lies before it."""
        self.parents = ()
        self.vjp = lambda g: ()


class JVPNode(Node):
    """A node of forward mode: its tangent."""

    __slots__ = ("g",)

    def initialize_root(self, g: Any) -> None:
        """Set the tangent that a trace begins with."""
        self.g = g


class SparseObject:
    """A cotangent that knows how to add itself to a vector."""

    __slots__ = ("mut_add", "vs")

    def __init__(self, vs: Any, mut_add: Function) -> None:
        self.vs, self.mut_add = vs, mut_add


VSpace.register(SparseObject, lambda x: x.vs)


# Primitives


def primitive(f_raw: Function) -> Function:
    """Return a function that is one node of a program, whatever code stands in it.

    Its derivatives are given by `defvjp` and `defjvp`; forward mode is the transpose
    of reverse mode where only that is given.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.compat.autograd import grad
    >>> from workbench.compat.autograd.extend import defvjp, primitive
    >>> @primitive
    ... def cube(x):
    ...     return x**3
    >>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
    >>> float(grad(cube)(2.0)), float(grad(grad(cube))(2.0))
    (12.0, 12.0)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if Box.type_mappings and any(
            type(x) in Box.type_mappings.values() for x in args
        ):
            return _call_with_objects(call, f_raw, args, kwargs)
        varying = tuple([i for i, x in enumerate(args) if find_live(x)])
        if not varying:
            return f_raw(*args, **kwargs)
        if call in NOT_TRACED:
            return f_raw(*map(getval, args), **kwargs)
        rules = primitive_vjps.get(call), primitive_jvps.get(call)
        if rules == (None, None):
            _refuse("VJP", call, varying)
        leaves, structure = tree.flatten((args, kwargs))
        arrays = [i for i, x in enumerate(leaves) if is_array(x)]
        # Each call has its own: results may nest differently from call to call.
        made = _Call(f_raw, structure, leaves, arrays, varying, *rules)
        return made.function(*[leaves[i] for i in arrays])

    try:
        call = wraps(f_raw)(call)
    except (AttributeError, TypeError):  # it has no name
        pass
    call.fun = f_raw  # type: ignore[attr-defined]
    call._is_autograd_primitive = True  # type: ignore[attr-defined]
    _add_methods(call)
    return call


def _add_methods(call: Any) -> None:
    """Add the methods of a primitive that gave its rules before autograd 1.2."""

    def defgrad(gradmaker: Function | None, argnum: int = 0) -> None:
        given = primitive_vjps.get(call)
        defvjp(call, gradmaker, argnums=(argnum,))
        if given is not None:  # the rules of the other arguments stay
            defvjp_argnums(call, _replace_argument(given, primitive_vjps[call], argnum))

    def defgrads(gradmaker: Function, argnums: Iterable[int]) -> None:
        for i in argnums:
            defgrad(partial(gradmaker, i), i)

    def defvjp_of_spaces(vjpmaker: Function, argnum: int = 0) -> None:
        def maker(ans: Any, *args: Any, **kwargs: Any) -> Function:
            spaces = vspace(args[argnum]), vspace(ans)
            return lambda g: vjpmaker(g, ans, *spaces, *args, **kwargs)

        defgrad(maker, argnum)

    def defvjps(vjpmaker: Function, argnums: Iterable[int]) -> None:
        for i in argnums:
            defvjp_of_spaces(partial(vjpmaker, i), i)

    def defgrad_is_zero(argnums: Iterable[int] = (0,)) -> None:
        for i in argnums:
            defgrad(None, i)

    call.defgrad, call.defgrads = defgrad, defgrads
    call.defvjp, call.defvjps = defvjp_of_spaces, defvjps
    call.defgrad_is_zero = call.defvjp_is_zero = defgrad_is_zero


def _replace_argument(given: Function, new: Function, argnum: int) -> Function:
    """Return a rule of `defvjp_argnums` with that of one argument replaced."""

    def rule(argnums: Sequence[int], *of: Any) -> Function:
        own = tuple([i for i in argnums if i == argnum])
        rest = tuple([i for i in argnums if i != argnum])
        parts = [(p, make(p, *of)) for p, make in ((rest, given), (own, new)) if p]

        def pull(g: Any) -> list[Any]:
            found: dict[int, Any] = {}
            for places, pull_part in parts:
                found.update(zip(places, pull_part(g), strict=True))
            return [found[i] for i in argnums]

        return pull

    return rule


class _Call:
    """A call of a primitive, as a function of its arrays alone, and its rules."""

    def __init__(
        self,
        f_raw: Function,
        structure: tree.Tree,
        leaves: Sequence[Any],
        arrays: Sequence[int],
        varying: tuple[int, ...],
        vjp: Function | None,
        jvp: Function | None,
    ) -> None:
        self.f_raw, self.structure, self.varying = f_raw, structure, varying
        self.arrays, self.vjp, self.jvp = arrays, vjp, jvp
        picked = set(arrays)
        self.settings = [None if i in picked else x for i, x in enumerate(leaves)]
        self.tree: Any = None  # how the result nests

        def run(*arrays: Any) -> Any:
            return self.run(*arrays)

        run.__name__ = run.__qualname__ = str(getattr(f_raw, "__name__", "primitive"))
        run.__module__ = str(getattr(f_raw, "__module__", __name__))
        self.function = custom_vjp(run, vjp and self.pull, jvp=jvp and self.push)

    def fill(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, with these arrays in their places."""
        leaves = list(self.settings)
        for i, x in zip(self.arrays, arrays, strict=True):
            leaves[i] = x
        args, kwargs = self.structure(leaves)
        return args, kwargs

    def run(self, *arrays: Any) -> Any:
        """Return the value."""
        args, kwargs = self.fill(arrays)
        value = self.f_raw(*args, **kwargs)
        self.tree = tree.flatten(value)[1]
        return value

    def pull(self, node: Any, *cotangents: Any) -> list[Any]:
        """Return a gradient for each array, by the rule of `defvjp`."""
        assert self.vjp is not None
        args, kwargs = self.fill(node.inputs)
        value, g = self.tree(node.outputs), self.tree(cotangents)
        pulled = list(self.vjp(self.varying, value, args, kwargs)(g))
        given = dict(zip(self.varying, pulled, strict=True))
        flat: list[Any] = []
        for i, x in enumerate(args):
            c, count = given.get(i), len(tree.flatten(x)[0])
            if type(c) is SparseObject:
                c = c.mut_add(c.vs.zeros())
            flat += [None] * count if c is None else tree.flatten(c)[0]
        flat += [None] * (len(self.settings) - len(flat))  # those by keyword
        return [flat[i] for i in self.arrays]

    def push(self, node: Any, *tangents: Any) -> Any:
        """Return the tangent of the value, by the rule of `defjvp`."""
        assert self.jvp is not None
        args, kwargs = self.fill(node.inputs)
        moving = [
            np.zeros_like(x) if t is None else t
            for x, t in zip(node.inputs, tangents, strict=True)
        ]
        along = self.fill(moving)[0]
        gs = [along[i] for i in self.varying]
        value = self.tree(node.outputs)
        made = tree.flatten(self.jvp(self.varying, gs, value, args, kwargs))[0]
        return made[0] if len(made) == 1 else tuple(made)


def _refuse(what: str, fun: Function, argnums: Sequence[int]) -> NoReturn:
    name = getattr(fun, "__name__", fun)
    give = "defvjp" if what == "VJP" else "defjvp"
    raise NotImplementedError(
        f"{what} of {name} wrt argnums {tuple(argnums)} not defined. Give it by"
        f" {give}({name}, ...)."
    )


def _call_with_objects(
    call: Function, f_raw: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a primitive on objects of the user's types, in boxes.

    The node in the program takes their handles and the arrays that vary. When a
    cotangent comes back, the objects' parts of it go to the handles.
    """
    boxed = {
        i: x._node for i, x in enumerate(args) if type(x) in Box.type_mappings.values()
    }
    inner = tuple([x._value if i in boxed else x for i, x in enumerate(args)])
    arrays = [i for i, x in enumerate(inner) if i not in boxed and find_live(x)]
    varying = tuple(sorted([*boxed, *arrays]))
    maker = primitive_vjps.get(call)
    if maker is None:
        _refuse("VJP", call, varying)
    value = f_raw(*[getval(x) for x in inner], **kwargs)
    is_object = type(value) in Box.type_mappings
    handle = Handle(None, vspace(value)) if is_object else None

    def run(*leaves: Any) -> Any:
        return 0.0 if is_object else value

    def pull(node: Any, g: Any) -> Any:
        full = list(inner)
        for i, x in zip(arrays, node.inputs[len(boxed) :], strict=True):
            full[i] = x
        arriving = g if handle is None else handle.take()
        given = dict(
            zip(varying, maker(varying, value, full, kwargs)(arriving), strict=True)
        )
        for i, of in boxed.items():
            of.add(given[i])
        return [*(np.zeros_like(of.number) for of in boxed.values()),
                *(given[i] for i in arrays)]  # fmt: skip

    run.__name__ = str(getattr(f_raw, "__name__", "primitive")).strip("_") or "call"
    node = custom_vjp(run, pull)(
        *(of.number for of in boxed.values()), *(inner[i] for i in arrays)
    )
    if handle is None:
        return node
    handle.number = node
    return new_box(value, None, handle)


def notrace_primitive(f_raw: Function) -> Function:
    """Return a function that is called with the values of its arguments."""

    @wraps(f_raw)
    def call(*args: Any, **kwargs: Any) -> Any:
        return f_raw(*map(getval, args), **kwargs)

    return call


def register_notrace(trace_type: type, primitive_fun: Function) -> None:
    """Let calls of a primitive leave no trace: they have no derivative."""
    NOT_TRACED.add(primitive_fun)


# Their rules


def _register(rules: dict[Function, Function], fun: Function, rule: Function) -> None:
    rules[fun] = rule
    if getattr(fun, "_is_autograd_primitive", False):
        return
    true: Any = find_true(fun)
    if true not in UFUNCS and true not in FUNCTIONS:  # of a name that we lack
        name = getattr(fun, "__name__", fun)
        raise TypeError(
            f"{name} is no primitive. Decorate it, or write {name} ="
            f" primitive({name}), before its rules are given."
        )
    _replace_rule(fun, true)


def _replace_rule(fun: Function, true: Any) -> None:
    """Put the rules that were given in the place of those that NumPy's function has.

    They hold in all threads, until `restore_rules`.
    """
    vjp, jvp = primitive_vjps.get(fun), primitive_jvps.get(fun)

    def pull(node: Any, g: Any) -> Any:
        assert vjp is not None
        places = [i for i, x in enumerate(node.inputs) if has_derivative(x)]
        made = vjp(tuple(places), node.outputs[0], node.inputs, dict(node.params))(g)
        found = dict(zip(places, made, strict=True))
        return [found.get(i) for i in range(len(node.inputs))]

    def push(node: Any, *tangents: Any) -> Any:
        assert jvp is not None
        places = tuple([i for i, t in enumerate(tangents) if t is not None])
        gs = [tangents[i] for i in places]
        return jvp(places, gs, node.outputs[0], node.inputs, dict(node.params))

    settings: dict[str, Any] = {"vjp": "true"}
    if vjp is not None:
        settings["vjp"] = pull
    if jvp is not None:
        settings["jvp"] = push
    if fun in REPLACED:
        REPLACED.pop(fun).close()
    REPLACED[fun] = OverrideBlock([override(true, **settings)], everywhere=True)


def restore_rules() -> None:
    """Give NumPy's functions the rules back that they had before `defvjp`."""
    for fun, block in [*REPLACED.items()]:
        block.close()
        del REPLACED[fun]
        primitive_vjps.pop(fun, None)
        primitive_jvps.pop(fun, None)


def defvjp_argnums(fun: Function, vjpmaker: Function) -> None:
    """Give the rule ``(argnums, ans, args, kwargs) -> (g -> gradients)``."""
    _register(primitive_vjps, fun, vjpmaker)


def defvjp_argnum(fun: Function, vjpmaker: Function) -> None:
    """Give the rule ``(argnum, ans, args, kwargs) -> (g -> gradient)``."""

    def rule(argnums: Any, *call: Any) -> Function:
        maps = [vjpmaker(i, *call) for i in argnums]
        return lambda g: [pull(g) for pull in maps]

    defvjp_argnums(fun, rule)


def defvjp(
    fun: Function, *vjpmakers: Any, argnums: Iterable[int] | None = None
) -> None:
    """Give the gradient by each argument: ``(ans, *args) -> (g -> gradient)``.

    Parameters
    ----------
    fun
        A primitive; or a function of NumPy, whose own gradient gives way, in all
        threads, until `autograd.uninstall`.
    vjpmakers
        One for each argument; None for one whose gradient is zero.
    argnums
        The positions of these arguments; by default the first ones.
    """
    makers = dict(zip(count() if argnums is None else argnums, vjpmakers, strict=False))
    for maker in vjpmakers:
        if maker is not None and not callable(maker):
            raise TypeError(f"Bad VJP '{maker}' for '{_name_of(fun)}'")

    def rule(argnums: Any, ans: Any, args: Any, kwargs: Any) -> Function:
        missing = [i for i in argnums if i not in makers]
        if missing:
            _refuse("VJP", fun, missing)
        maps = [
            _pull_nothing if (make := makers[i]) is None else make(ans, *args, **kwargs)
            for i in argnums
        ]
        return lambda g: [pull(g) for pull in maps]

    defvjp_argnums(fun, rule)


def _pull_nothing(g: Any) -> None:
    return None


def _name_of(fun: Function) -> Any:
    return getattr(fun, "__name__", fun)


def defjvp_argnums(fun: Function, jvpmaker: Function) -> None:
    """Give the rule ``(argnums, gs, ans, args, kwargs) -> tangent``."""
    _register(primitive_jvps, fun, jvpmaker)


def defjvp_argnum(fun: Function, jvpmaker: Function) -> None:
    """Give the rule ``(argnum, g, ans, args, kwargs) -> tangent``; these are added."""

    def rule(argnums: Any, gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        each = [
            jvpmaker(i, g, ans, args, kwargs) for i, g in zip(argnums, gs, strict=True)
        ]
        return reduce(vspace(ans).add, each)

    defjvp_argnums(fun, rule)


def defjvp(fun: Function, *jvpfuns: Any, argnums: Iterable[int] | None = None) -> None:
    """Give the tangent by each argument: ``(g, ans, *args) -> tangent``.

    ``"same"`` says that the function is linear in an argument, None that the tangent is
    zero.
    """
    rules = dict(zip(count() if argnums is None else argnums, jvpfuns, strict=False))
    for given in jvpfuns:
        if given is not None and given != "same" and not callable(given):
            raise TypeError(f"Bad JVP '{given}' for '{_name_of(fun)}'")

    def rule(i: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if i not in rules:
            _refuse("JVP", fun, [i])
        if rules[i] is None:
            return vspace(ans).zeros()
        if rules[i] == "same":
            return fun(*args[:i], g, *args[i + 1 :], **kwargs)
        return rules[i](g, ans, *args, **kwargs)

    defjvp_argnum(fun, rule)


def def_linear(fun: Function) -> None:
    """Say that a primitive is linear in each of its arguments."""
    defjvp_argnum(
        fun,
        lambda i, g, ans, args, kwargs: fun(*args[:i], g, *args[i + 1 :], **kwargs),
    )
