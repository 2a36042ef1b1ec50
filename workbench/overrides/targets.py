"""The targets of an override: a node, an op, a scope, a predicate.

Each kind of target finds its nodes in a program, and has a rank: where several
overrides meet at a node, the one of higher rank wins. Patterns and cut-out subgraphs,
whose rank is between those of predicates and nodes, have files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core import blame
from workbench.core.op import CUSTOM, OPS, UFUNCS, Op, load_all_ops
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import OverrideError

if TYPE_CHECKING:
    from workbench.overrides.regions import Region

Nodes = Sequence[Tensor]
#: Writes a function, or an object without a name (None), as code, given its role in the
#: target.
WriteFunction = Callable[[Callable[..., Any] | None, str], str]
#: Whose functions are no predicates: NumPy would compute with the node.
LIBRARIES = {"numpy", "scipy"}

#: Why a program has no node of an op that its user has written.
UNSEEN = (
    " A value computed from plain arrays alone is not a node: give these arrays as"
    " arguments."
)


@dataclass(frozen=True, slots=True)
class ByOp:
    """Every node of an op: of all of its name, or of the one that a user has made."""

    op: str
    maker: Any = None
    rank = 0

    def select(self, nodes: Nodes) -> list[Tensor]:
        """Return the nodes that the target means."""
        found = [node for node in nodes if node.op.name == self.op]
        if self.maker is None:
            return found
        return [node for node in found if node.op.maker == self.maker]

    def __str__(self) -> str:
        return f"every {self.op}" if self.maker is None else f"this {self.op}"


@dataclass(frozen=True, slots=True)
class ByScope:
    """Every node made in a scope, or in scopes that match a glob, at any depth."""

    glob: str
    rank = 1

    def select(self, nodes: Nodes) -> list[Tensor]:
        """Return the nodes that the target means."""
        from fnmatch import fnmatchcase

        glob = self.glob.removesuffix("/*")
        known: dict[str | None, bool] = {None: False}
        found = []
        for node in nodes:
            scope = node.scope
            if scope not in known:
                known[scope] = any(
                    fnmatchcase(s, glob) for s in enclosing_scopes(scope)
                )
            if known[scope]:
                found.append(node)
        # An op that was not loaded yet when the override was made.
        return found or [node for node in nodes if node.op.name == self.glob]

    def __str__(self) -> str:
        return f"scope {self.glob}"


@dataclass(frozen=True, slots=True)
class ByPredicate:
    """Every node for which a function is true."""

    predicate: Callable[[Tensor], Any]
    rank = 2

    def select(self, nodes: Nodes) -> list[Tensor]:
        """Return the nodes that the target means."""
        found = []
        for node in nodes:
            answer = self.predicate(node)
            if isinstance(answer, Tensor) and answer.dtype.kind != "b":
                raise OverrideError(
                    f"an override cannot target the function {name_of(self.predicate)}:"
                    " it computes with the node, and a predicate says True or False of"
                    " it: lambda node: node.op.name == 'tanh'."
                )
            if answer:
                found.append(node)
        return found

    def __str__(self) -> str:
        return f"nodes where {name_of(self.predicate)}"


@dataclass(frozen=True, slots=True, eq=False)
class ByNode:
    """One node: the Tensor itself, or its id in a session."""

    node: Tensor | int
    rank = 4

    def select(self, nodes: Nodes) -> list[Tensor]:
        """Return the nodes that the target means."""
        if isinstance(self.node, int):
            return [nodes[self.node]] if 0 <= self.node < len(nodes) else []
        return [node for node in nodes if node is self.node]

    def __str__(self) -> str:
        if isinstance(self.node, int):
            return f"node {self.node}"
        return self.node.name or self.node.op.name


class ByPart:
    """Parts of a program, each with one rule for the whole: patterns, subgraphs."""

    __slots__ = ()

    rank = 3
    #: What a note calls it.
    kind = "pattern"

    def find_regions(self, nodes: Nodes, wrt: Nodes = ()) -> list[Region]:
        """Return the parts that the target means.

        ``wrt`` is what the program is differentiated by.
        """
        raise NotImplementedError

    def select(self, nodes: Nodes, wrt: Nodes = ()) -> list[Tensor]:
        """Return the nodes that they end with."""
        return [x for region in self.find_regions(nodes, wrt) for x in region.outputs]

    def explain_mismatch(self, nodes: Nodes, wrt: Nodes = ()) -> str:
        """Return the reason why a program has no match: the closest candidates."""
        raise NotImplementedError

    def with_ids(self, find: Callable[[Any], int], words: Sequence[str]) -> ByPart:
        """Return this target with ids in place of Tensors and names.

        ``find`` gives the id of a value in a session, ``words`` are the session's
        names by id.
        """
        return self

    @property
    def has_nodes(self) -> bool:
        """True if the target names nodes, by a Tensor or an id."""
        return False

    @property
    def has_ids(self) -> bool:
        """True if the target names nodes by ids, which belong to a session."""
        return False

    def write_code(self, write: WriteFunction) -> str:
        """Return the Python code of the target.

        ``write(function, word)`` is the code of a function, or of what has no name
        (None); the word is what it is in the target.
        """
        raise NotImplementedError


Target = ByOp | ByScope | ByPredicate | ByNode | ByPart


def enclosing_scopes(scope: str | None) -> list[str]:
    """Return the scopes that a path lies in: ``"a/b"`` is in ``"a"`` and ``"a/b"``."""
    parts = (scope or "").split("/")
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def target_of(target: Any) -> Target:
    """Return the target that a user's value means.

    Raises
    ------
    OverrideError
        If it is none of the things that can be a target.
    """
    if isinstance(target, (ByOp, ByScope, ByPredicate, ByNode, ByPart)):
        return target
    if isinstance(target, (Tensor, int)) and not isinstance(target, bool):
        return ByNode(target)
    if isinstance(target, Op):
        return ByOp(target.name, target.maker)
    if isinstance(target, np.ufunc) and target in UFUNCS:
        return ByOp(UFUNCS[target].name)
    if isinstance(made := getattr(target, "__op__", None), str):
        # A class, whose name is its own; or an op or function, which may share it.
        return ByOp(made, None if isinstance(target, type) else target)
    if isinstance(target, str) and target:
        if target in CUSTOM:
            return ByOp(target)
        if target.isidentifier() and target not in OPS:
            load_all_ops()  # it may be one of those that load when needed
        if target in OPS:
            return ByOp(target)
        numpy_name = UFUNCS.get(getattr(np, target, None))
        if numpy_name is not None:
            return ByOp(numpy_name.name)
        return ByScope(target)
    if callable(target):
        home = str(getattr(target, "__module__", None)).partition(".")[0]
        if home in LIBRARIES or isinstance(target, np.ufunc):
            return ByOp(find_op(name_of(target), home))
        return ByPredicate(target)
    raise OverrideError(
        f"an override cannot target {target!r}. A target is a Tensor, the id of a node"
        ' in a session, an op ("tanh"), a scope ("encoder/*"), a structure'
        " (wb.pattern), a part (wb.subgraph), or a function that is true for the nodes"
        " meant."
    )


def find_op(name: str, home: str) -> str:
    """Return the op that a function of a library, its ``home``, is recorded as.

    Raises
    ------
    OverrideError
        If it is recorded as several others.
    """
    if name not in OPS:
        load_all_ops()
    if name not in OPS and home == "numpy":  # of SciPy some are loaded later
        raise OverrideError(
            f"an override cannot target the function {name}: it is not an op, but made"
            " of others. Target one of these, or the whole by wb.pattern(lambda x:"
            f" ...{name}(x))."
        )
    return name


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of an object."""
    name = getattr(function, "__name__", None) or type(function).__name__
    return str(name)


def snake(name: str) -> str:
    """Return the name of an op from that of its class.

    A single capital before a word belongs to it, several are an acronym.

    >>> snake("ZeroOut"), snake("CDistGrad"), snake("SVDGrad"), snake("FFT2D")
    ('zero_out', 'cdist_grad', 'svd_grad', 'fft2d')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name)
    parted = re.sub(r"(?<=[A-Z0-9][A-Z])(?=[A-Z][a-z])", "_", parted)
    return parted.strip("_").lower()


def describe_mismatch(
    target: Target,
    label: str,
    nodes: Iterable[Tensor],
    where: str,
    wrt: Nodes = (),
) -> str:
    """Return the message for an override without a match, with close candidates."""
    everything = list(nodes)
    nodes = [node for node in everything if node.op is not IDENTITY]
    ops = sorted({node.op.name for node in nodes})
    scopes = sorted({s for n in nodes if n.scope for s in enclosing_scopes(n.scope)})
    close: list[str] = []
    if isinstance(target, ByOp):
        close = blame.find_similar(target.op, ops)
    elif isinstance(target, ByScope):
        candidates = {o: f"the op {o!r}" for o in [*OPS, *CUSTOM, *ops]}
        candidates.update({s: f"the scope {s!r}" for s in scopes})
        near = blame.find_similar(target.glob, [*scopes, *ops], alike=0.6)
        if not near and "/" not in target.glob:
            near = blame.find_similar(target.glob, [*OPS, *CUSTOM], alike=0.6)
        close = [candidates[name] for name in dict.fromkeys(near)][:2]
    text = f"override {label!r} on {target} matches nothing in {where}"
    if isinstance(target, ByScope):
        named = [x for x in [*wrt, *everything] if x.name == target.glob]
        if named:
            return f"{text}. {describe_named_node(named[-1])}"
    if isinstance(target, ByNode):
        if isinstance(target.node, int):
            return f"{text}: ids go from 0 to {len(everything) - 1}."
        return (
            f"{text}: this {blame.describe(target.node)} belongs to another program."
            " Target an op, a scope or a predicate, or use session.override."
        )
    if isinstance(target, ByPart):
        text += f": {target.explain_mismatch(everything, wrt).removesuffix('.')}."
    elif isinstance(target, ByOp) and target.maker is not None and target.op in ops:
        text += (
            f": the {target.op} there is another, made elsewhere, again, or with other"
            f" settings. Target that one, or {target.op!r}, which means all of them."
        )
    elif isinstance(target, ByScope) and callable(getattr(np, target.glob, None)):
        text += f": NumPy's {target.glob} is not an op, but made of others."
    elif close:
        text += f". Did you mean {' or '.join(close)}?"
    elif isinstance(target, ByOp) and target.op not in ops:
        text += f".{UNSEEN}"
    else:
        text += "."
        if isinstance(target, ByScope) and target.glob.isidentifier():
            text += f" {suggest_scope(target.glob)}"
    text += f" Its ops: {join_names(ops)}."
    if scopes:
        text += f" Its scopes: {join_names(scopes)}."
    return text


def describe_named_node(node: Tensor) -> str:
    """Return advice for a target that is the name of a node, not of a scope."""
    if node.op is IDENTITY:
        return (
            f"{node.name!r} is the name of an input, which has no op, so no rule to"
            " override. Override a node that reads it."
        )
    return (
        f"A node is called {node.name!r}, but a text means a scope or an op here."
        f" Target the node by wb.override(lambda node: node.name == {node.name!r},"
        f" ...), or by session.override({node.name!r}, ...)."
    )


def suggest_scope(name: str) -> str:
    """Return how lines of a plain function become a target of a name."""
    return (
        f"The local variables of a function give no names: write with"
        f' wb.scope("{name}"): around the lines meant.'
    )


def join_names(names: Sequence[str]) -> str:
    """Return the first twelve names in a row, and how many more there are."""
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) or "none") + more
