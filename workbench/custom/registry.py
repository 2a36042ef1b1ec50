"""The ops that users make, by name, and `register_gradient`.

An op is known from the moment its class is made, so that a gradient can be registered
for it and overrides can name it before there is an instance. What is registered is
looked up when a derivative is taken: graphs that exist already see it (`OpRunner`).
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast
from weakref import ref

import numpy as np

from workbench.core.blame import find_similar
from workbench.core.op import CUSTOM, OPS, Op, load_all_ops
from workbench.errors import NotDifferentiableError, RegistrationError, UsageError
from workbench.overrides.rule_errors import check_signature, name_of_rule
from workbench.overrides.rule_parser import BoundRule, parse_rule
from workbench.overrides.rules import Runner, UserRule
from workbench.overrides.targets import name_of, snake

# The registry

F = TypeVar("F", bound=Callable[..., Any])
Home = tuple[str, str]


@dataclass
class RegisteredOp:
    """What is known of an op that a user has made.

    Attributes
    ----------
    name
        The op's name.
    home
        The module and qualified name of what defines it: the same again is a
        definition that runs again, as when the cell of a notebook does.
    brings
        The gradient that it has of its own, such as ``"Cdist.vjp"``, or None.
    counts
        How many outputs it has had; empty before it first ran, where the number
        is not declared.
    maker
        Its class, for as long as anybody holds it; None: it stays.
    function
        It is a function, of whose name there may be others.
    place
        Where it was made, of an op that may share its name with others (see
        `OpFromGraph`): what is registered for one is not registered for the others.
    """

    name: str
    home: Home
    brings: str | None = None
    counts: set[int] = field(default_factory=set)
    maker: ref[Any] | None = None
    function: bool = False
    place: Hashable = None

    @property
    def key(self) -> Hashable:
        """The key of its registered gradient."""
        return self.name if self.place is None else (self.name, self.place)


#: The gradients that have been registered, by the name of their op (and its place).
REGISTERED: dict[Hashable, Callable[..., Any]] = {}
#: Those of ops that are not there yet, by the name that the op will have.
WAITING: dict[str, Callable[..., Any]] = {}


def home_of(made: Any) -> Home:
    """Return where a class or a function was defined."""
    name = str(getattr(made, "__qualname__", None) or name_of(made))
    if name.endswith("<lambda>"):
        # All lambdas are called alike: the line tells them apart.
        name += f" of line {made.__code__.co_firstlineno}"
    return str(getattr(made, "__module__", "")), name


def enter(entry: RegisteredOp, cure: str = "") -> RegisteredOp:
    """Enter an op in the list of user's ops, under its name.

    The same definition again replaces the one before; if it brings a gradient of its
    own now, one that was registered is dropped.

    Raises
    ------
    RegistrationError
        If the name is that of an op of NumPy's, or of another definition.
    """
    name = entry.name
    cure = cure or 'Give the class another name, or write name = "my_..." in it.'
    if not name.isidentifier():
        raise RegistrationError(
            f"{name!r} cannot be the name of an op: a name is made of letters, digits"
            f" and underscores. {cure}"
        )
    if name not in OPS:
        load_all_ops()  # it may be one of those that load when needed
    if name in OPS:
        raise RegistrationError(
            f"{'.'.join(entry.home)}: Workbench has an op {name!r} already. {cure} To"
            " change the gradient of that op, use"
            f" wb.override({name!r}, vjp=...)."
        )
    known = CUSTOM.get(name)
    if (
        known is not None
        and known.home != entry.home
        and not known.function
        and is_alive(known)
    ):
        raise RegistrationError(
            f"{'.'.join(entry.home)}: the op {name!r} is defined by"
            f" {'.'.join(known.home)} already. {cure}"
        )
    if entry.brings is not None or (known is not None and known.home != entry.home):
        REGISTERED.pop(entry.key, None)
    if known is not None and entry.place != known.place and entry.brings is None:
        rule = REGISTERED.get(known.key)
        if rule is not None and entry.key not in REGISTERED:
            warnings.warn(
                f"the gradient registered for {name!r}, {'.'.join(home_of(rule))}, is"
                " that of another op of this name, made elsewhere; this one has none."
                " Give it another name, or register its gradient.",
                stacklevel=3,
            )
    waiting = WAITING.pop(name, None)
    if waiting is not None:
        if entry.brings is not None:
            raise RegistrationError(_describe_own_gradient(entry))
        for count in entry.counts:
            check_signature(waiting, count, name, RegistrationError)
        REGISTERED[entry.key] = waiting
    CUSTOM[name] = entry
    return entry


def enter_function(entry: RegisteredOp) -> str:
    """Return the name of the op of a function with a gradient of its own.

    Functions of one name are many, in many modules: that of an op gets a prefix.
    """
    name = entry.name if entry.name.isidentifier() else "custom_function"
    if name not in OPS:
        load_all_ops()
    known = CUSTOM.get(name)
    if name in OPS or (known is not None and not known.function):
        name = f"custom_{name}"
    CUSTOM[name] = replace(entry, name=name, function=True)
    return name


def is_alive(entry: RegisteredOp) -> bool:
    """Return whether the class of an op still exists."""
    if entry.maker is None:
        return True
    if entry.maker() is not None:
        gc.collect()  # a class is a cycle, and goes only then
    return entry.maker() is not None


def get_gradient(key: Hashable) -> Callable[..., Any] | None:
    """Return the gradient that is registered for an op; None if there is none."""
    return REGISTERED.get(key)


def register_gradient(op: Any) -> Callable[[F], F]:
    """Register the gradient of an op, by the op's name.

    For an op that a user has made (:class:`workbench.Op`, ``wb.KernelOp``,
    ``wb.OpFromGraph``) and that brings no gradient. It holds from then on, for graphs
    that exist too. The same function of the same module again, as when the cell of a
    notebook runs again, replaces the one before.

    Parameters
    ----------
    op
        The op's name, such as ``"zero_out"``, or its class. Of several ops of one
        name that ``wb.OpFromGraph`` has made in different places, the name means the
        last one; give the op itself for another. The gradient of a name that no op
        has so far waits for the op, which a warning says.

    Returns
    -------
    A decorator of ``rule(node, *cotangents)``, as everywhere: one cotangent for each
    output of the op, one gradient (or None) for each input. ``node.inputs``,
    ``node.outputs`` and ``node.get_attr("name")`` tell of the node. A rule that
    is data, see :func:`workbench.graph_rule`, is registered by
    ``wb.register_gradient("relu6")(rule)``, and so are the name of a rule
    (:func:`workbench.named_rule`) and an op that takes the inputs, then the
    cotangents.

    Raises
    ------
    RegistrationError
        If the name is almost that of an op, if the op has a gradient (NumPy's have:
        put another in its place by `workbench.override`), or if the function does not
        take the node and one gradient per output.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> class ZeroOut(wb.Op):
    ...     def compute(self, x):
    ...         return np.where(np.arange(x.size) == 0, x, 0), np.array([0], np.int32)
    >>> @wb.register_gradient("zero_out")
    ... def zero_out_grad(node, g, g_index):
    ...     (x,) = node.inputs
    ...     return np.where(np.arange(x.size) == 0, g[0], np.zeros_like(x))
    >>> wb.grad(lambda x: 5 * ZeroOut()(x)[0][0])(np.ones(3))
    array([5., 0., 0.])
    """
    name = getattr(op, "__op__", op)
    entry = CUSTOM.get(name) if isinstance(name, str) else None
    own = getattr(op, "entry", None)
    entry = (
        own if isinstance(own, RegisteredOp) else entry
    )  # of several of one name, this one
    if entry is None and (told := describe_unknown(name)):
        raise RegistrationError(told)
    if entry is not None and entry.brings is not None:
        raise RegistrationError(_describe_own_gradient(entry))

    def register(rule: F) -> F:
        given: Any = rule
        found = parse_rule(given) if isinstance(given, str) else None
        if isinstance(found, BoundRule):
            rule = cast(F, found)  # a rule by its name
        if not callable(rule):
            raise RegistrationError(
                f"{rule!r} is not a gradient of {name!r}: decorate a function"
                " rule(node, g), or give a result of wb.graph_rule, or the name of a"
                " rule (wb.named_rule)."
            )
        if entry is None:
            keep_waiting(snake(name), rule)
            return rule
        known = REGISTERED.get(entry.key)
        if known is not None and not _is_same_rule(known, rule):
            raise RegistrationError(
                f"the op {name!r} has a registered gradient already,"
                f" {'.'.join(home_of(known))}. Register one of the two, and use"
                f" wb.override({name!r}, vjp=...) where you need the other."
                + " One with a name= is replaced by the next of that name."
                * getattr(rule, "is_anonymous", False)
            )
        for count in entry.counts:
            check_signature(rule, count, name, RegistrationError)
        REGISTERED[entry.key] = rule
        return rule

    return register


def _is_same_rule(known: Any, rule: Any) -> bool:
    """Return whether two rules are the same, or one definition that ran twice.

    Rules without a name are told apart by identity.
    """
    if getattr(rule, "is_anonymous", False) or getattr(known, "is_anonymous", False):
        return bool(known == rule)
    return home_of(known) == home_of(rule)


def _describe_own_gradient(entry: RegisteredOp) -> str:
    """Return the message for an op that has a gradient of its own."""
    return (
        f"the op {entry.name!r} has a gradient of its own, {entry.brings}. Change that,"
        " or put another in its place where you need it:"
        f" wb.override({entry.name!r}, vjp=rule)."
    )


def keep_waiting(name: str, rule: Callable[..., Any]) -> None:
    """Keep a gradient until an op of that name is made; the last one counts."""
    WAITING[name] = rule
    warnings.warn(
        f"register_gradient: no op is called {name!r} so far; the gradient"
        f" {'.'.join(home_of(rule))} waits for one of that name.",
        stacklevel=3,
    )


def describe_unknown(name: Any) -> str:
    """Return the message for a name that no user's op has; "" if one may come."""
    if isinstance(name, np.ufunc) or (callable(name) and name_of(name) in OPS):
        return describe_unknown(name_of(name))
    if not isinstance(name, str):
        return (
            f"register_gradient({name!r}): give the name of an op, such as"
            ' "zero_out", or its class.'
        )
    if name not in OPS:
        load_all_ops()
    if name in OPS:
        return (
            f"{name!r} is an op of Workbench and has its gradient. To put another in"
            f" its place, use wb.override({name!r}, vjp=rule)."
        )
    if not name.isidentifier():
        return f"register_gradient({name!r}): this is not a name that an op can have."
    close = find_similar(name, CUSTOM, alike=0.8)
    # TensorFlow's spelling is that of the class.
    close = [n for n in (snake(name),) if n in CUSTOM or n in OPS] or close
    if not close:
        return ""
    if close[0] in OPS:
        return describe_unknown(close[0])
    ops = ", ".join(sorted(CUSTOM)[:12])
    return (
        f"no op is called {name!r}. Did you mean {' or '.join(close)}? The"
        f" ops that have been defined: {ops}."
    )


# The rules of an op: its own, or the one that is registered for it.


class OpRunner(Runner):
    """The rules of an op that a user has made, or the one registered for it.

    Its ``pull`` and ``push`` become those of the op.

    Parameters
    ----------
    op, vjp, jvp, more
        As `Runner` has them.
    cure
        What to write where the op has no derivative at all.
    key
        The key of its registered gradient.
    """

    def __init__(
        self,
        op: Op,
        vjp: Any = None,
        jvp: Any = None,
        cure: str = "",
        key: Any = None,
        **more: Any,
    ) -> None:
        super().__init__(op, vjp, jvp, **more)
        self.cure = cure
        self.key = op.name if key is None else key
        op.pull, op.push, op.reads = self.pull, self.push, None
        op.rule = " · ".join(name_of_rule(r) for r in (vjp, jvp) if r is not None) or (
            "the gradient registered for it"
        )

    def find_rule(self) -> Any:
        """Return the rule that is registered for the op."""
        found = get_gradient(self.key)
        if found is None:
            raise NotDifferentiableError(
                f"{self.op.name} has no derivative. {self.cure}".rstrip()
            )
        return found

    def check_signature(self, rule: UserRule, count: int, what: str) -> None:
        """Raise an error if a rule does not take a node and so many arrays."""
        own = self.vjp is not None or self.jvp is not None
        kind = UsageError if own else RegistrationError
        check_signature(rule, count, self.op.name, kind, what)
