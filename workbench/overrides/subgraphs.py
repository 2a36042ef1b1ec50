"""`subgraph`: an override's target that is a part of a program, cut out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.core import blame
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import OverrideError
from workbench.ops import define
from workbench.overrides.regions import Region, RegionLayout
from workbench.overrides.targets import ByPart, Nodes

#: A Tensor, its name, or (in a session) its id.
Place = Tensor | str | int


class BySubgraph(ByPart):
    """The part of a program between some of its values and others.

    Made by :func:`subgraph`.

    Attributes
    ----------
    outputs, inputs
        Where it ends and where it begins.
    words
        What a session calls its nodes, by their ids.
    """

    kind = "subgraph"

    def __init__(
        self,
        outputs: Sequence[Place],
        inputs: Sequence[Place],
        words: Sequence[str] = (),
    ) -> None:
        self.outputs = tuple(outputs)
        self.inputs = tuple(inputs)
        self.words = words

    @property
    def label(self) -> str:
        """The name of the node that a rule sees: ``"h of W, x"``."""
        ends = ", ".join(map(self.name_value, self.outputs))
        return f"{ends} of {', '.join(map(self.name_value, self.inputs))}"

    def with_ids(self, find: Callable[[Any], int], words: Sequence[str]) -> BySubgraph:
        """Return this target with ids in place of Tensors and names.

        ``find`` gives the id of a value in a session, ``words`` are the session's
        names by id.
        """
        ends, reads = ([find(x) for x in part] for part in (self.outputs, self.inputs))
        return BySubgraph(ends, reads, words)

    def name_value(self, x: Place) -> str:
        """Return the name of a value in the words of the session, if known."""
        if isinstance(x, int) and 0 <= x < len(self.words):
            return self.words[x]
        return name_of_value(x)

    @property
    def has_nodes(self) -> bool:
        """True: its values are nodes."""
        return True

    @property
    def has_ids(self) -> bool:
        """True if the target names a value by an id, which belongs to a session."""
        return any(isinstance(x, int) for x in (*self.outputs, *self.inputs))

    def find_regions(self, nodes: Sequence[Tensor], wrt: Nodes = ()) -> list[Region]:
        """Return the part, if the program has these values.

        Raises
        ------
        OverrideError
            If they do not cut out a part.
        """
        values = Values(nodes)
        outputs = [values.find(x) for x in self.outputs]
        inputs = [values.find(x) for x in self.inputs]
        if None in map(type_of, (*outputs, *inputs)):
            return []
        names = [self.name_value(x) for x in self.inputs]
        return [cut_region(self.label, outputs, inputs, names, values)]

    def explain_mismatch(self, nodes: Sequence[Tensor], wrt: Nodes = ()) -> str:
        """Return which of its values a program has not, and which are close."""
        values = Values(nodes)
        for x in (*self.outputs, *self.inputs):
            if values.find(x) is None:
                if isinstance(x, str):
                    names = ", ".join(sorted(values.names)[:12]) or "none"
                    return (
                        f"nothing there is called"
                        f" {x!r}.{blame.suggest(x, values.names)} Its names: {names}"
                    )
                if isinstance(x, int):
                    return f"there is no node {x}: ids go from 0 to {len(nodes) - 1}"
                return (
                    f"{blame.describe(x)} belongs to another program. Say its name, or"
                    " use session.override"
                )
        return "its values are there"

    def __str__(self) -> str:
        return f"subgraph {self.label}"

    def __repr__(self) -> str:
        return f"<subgraph {self.label}>"


def subgraph(
    outputs: Place | Iterable[Place], inputs: Place | Iterable[Place]
) -> BySubgraph:
    """Target the part of a program that computes some of its values from others.

    Parameters
    ----------
    outputs
        What comes out: a Tensor, its name, in a session its id; or several.
    inputs
        What goes in, likewise. The rule gives one gradient for each, in this order,
        and sees them as ``node.inputs``.

    Returns
    -------
    BySubgraph
        A target for :func:`workbench.override`. The rule sees one node for the whole
        part, and gets one cotangent for each output (zeros where nothing arrives);
        ``node.vjp`` gives the true gradients.

    Raises
    ------
    OverrideError
        When the program is differentiated: if an output does not depend on the
        inputs, or an input is not needed; if the gradient is asked for by a value that
        reaches the part past its inputs; if, of several outputs, one comes before an
        input, so that no order of the sweep fits.

    Notes
    -----
    What the part reads besides its inputs is a constant. An inner value that
    is read elsewhere too keeps its true rule there.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.vector("x")
    >>> h = np.sqrt(np.sum(x**2))
    >>> def safe(node, g):
    ...     (x,), (y,) = node.inputs, node.outputs
    ...     return g * x / np.maximum(y, 1e-8)
    >>> norm = wb.override(wb.subgraph(h, x), vjp=safe)
    >>> wb.function([x], wb.grad(h, x, overrides=[norm]))(np.zeros(2))
    array([0., 0.])
    """
    return BySubgraph(check_places(outputs, "outputs"), check_places(inputs, "inputs"))


def check_places(given: Place | Iterable[Place], what: str) -> list[Place]:
    """Return the values that are given, one or several, as a list."""
    # A Tensor and a name are iterable too.
    if isinstance(given, (Tensor, str, int)) or not isinstance(given, Iterable):
        found = [given]
    else:
        found = list(given)
    for x in found:
        if not isinstance(x, (Tensor, str, int)) or isinstance(x, bool):
            raise OverrideError(
                f"wb.subgraph: {x!r} among the {what} is not a value of a program. Give"
                " Tensors, their names, or their ids in a session: outputs first,"
                ' wb.subgraph("h", ["W", "x"]).'
            )
    if not found:
        raise OverrideError(
            f"wb.subgraph without {what} cuts nothing out: wb.subgraph(h, [W, x])."
        )
    if len({id(x) if isinstance(x, Tensor) else x for x in found}) < len(found):
        raise OverrideError(f"wb.subgraph: one of the {what} is given twice.")
    return found


def name_of_value(x: Place) -> str:
    """Return the name of a value: the user's, that of its op, or its id."""
    if isinstance(x, Tensor):
        return x.name or x.op.name
    return x if isinstance(x, str) else f"node {x}"


def type_of(x: object) -> type | None:
    """Return the class of a value, None for None: a Tensor compares entry by entry."""
    return None if x is None else type(x)


class Values:
    """The values of a program: its nodes, and their operands."""

    def __init__(self, nodes: Sequence[Tensor]) -> None:
        self.nodes = nodes
        self.inside = {node.serial for node in nodes}
        self.members: dict[int, Tensor] = {}
        for node in nodes:
            for x in (*node.inputs, node):
                if isinstance(x, Tensor):
                    self.members[x.serial] = x
        #: All Tensors of a name.
        self.names: dict[str, list[Tensor]] = {}
        for serial in sorted(self.members):
            x = self.members[serial]
            if x.name is not None:
                self.names.setdefault(x.name, []).append(x)

    def find(self, x: Place) -> Tensor | None:
        """Return the named Tensor, or None if not in the program.

        Raises
        ------
        OverrideError
            If several have the name.
        """
        if isinstance(x, Tensor):
            return self.members.get(x.serial)
        if isinstance(x, int):
            return self.nodes[x] if 0 <= x < len(self.nodes) else None
        found = self.names.get(x, [])
        if len(found) > 1:
            raise OverrideError(
                f"wb.subgraph: {len(found)} values of the program are called {x!r}."
                " Give the Tensor, or in a session its id."
            )
        return found[0] if found else None


def cut_region(
    name: str,
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    names: Sequence[str],
    values: Values,
) -> Region:
    """Return the part of a program between outputs and inputs."""
    place = {x.serial: i for i, x in enumerate(inputs)}
    for x in outputs:
        if x.serial in place:
            refuse(name, f"{blame.describe(x)} is an output and an input", "")
    for x in (*outputs, *inputs):
        if define.output_values(x) is not None:
            refuse(
                name,
                f"{blame.describe(x)} is several values",
                "Name those of them that are meant.",
            )
    found: dict[int, Tensor] = {}
    strays: dict[int, Tensor] = {}
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node.serial in found:
            continue
        found[node.serial] = node
        for x in node.inputs:
            if not isinstance(x, Tensor) or x.serial in place:
                continue
            # An identity without inputs is a value that a function was given.
            if x.serial in values.inside and not (x.op is IDENTITY and not x.inputs):
                stack.append(x)
            else:
                strays[x.serial] = x
    order = sorted(found)
    depends = dict.fromkeys(place, True)
    steps: list[tuple[Tensor, tuple[int, ...]]] = []
    kept: dict[int, int] = {}
    for serial in order:
        node = found[serial]
        reads = [x.serial for x in node.inputs if isinstance(x, Tensor)]
        depends[serial] = any(depends.get(s, False) for s in reads)
        if not depends[serial] and all(x.serial != serial for x in outputs):
            continue
        kept[serial] = len(steps)
        steps.append(
            (
                node,
                tuple(
                    [
                        -1
                        if not isinstance(x, Tensor)
                        else place[x.serial]
                        if x.serial in place
                        else len(inputs) + kept[x.serial]
                        if x.serial in kept
                        else -1
                        for x in node.inputs
                    ]
                ),
            )
        )
    for x in outputs:
        if not depends[x.serial]:
            refuse(
                name,
                f"{blame.describe(x)} does not depend on the inputs",
                "The inputs are values that it is computed from.",
            )
    read = {s for _, sources in steps for s in sources}
    for i, x in enumerate(inputs):
        if i not in read:
            refuse(
                name,
                f"{blame.describe(x)} is not read between the inputs and the outputs",
                "Leave it out.",
            )
    if len(outputs) > 1:
        first = min(outputs, key=lambda x: x.serial)
        late = max(inputs, key=lambda x: x.serial)
        if late.serial > first.serial:
            refuse(
                name,
                f"the input {blame.describe(late)}{blame.quote_site(late.site)} is"
                " computed after the output"
                f" {blame.describe(first)}{blame.quote_site(first.site)}, so there is"
                " no place in the sweep for a rule of both",
                "Compute all inputs first, or cut out one output at a time.",
            )
    # Inner nodes that do not depend on the inputs are outside of it; a Tensor to
    # differentiate by must not reach it through them either.
    around = [s for s in order if s not in kept]
    made, sources = zip(*steps, strict=True)
    places = tuple([kept[x.serial] for x in outputs])
    return Region(
        RegionLayout(name, tuple(names), sources, places),
        inputs,
        made,
        outputs,
        strays=[*strays, *around],
        strict=True,
    )


def refuse(name: str, what: str, cure: str) -> None:
    """Raise an error that names the subgraph."""
    raise OverrideError(f"the subgraph {name!r}: {what}. {cure}".rstrip())
